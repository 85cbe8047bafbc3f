"""Draws for estimators that take all rows at once: independent ones in batches, and Markov chains."""
