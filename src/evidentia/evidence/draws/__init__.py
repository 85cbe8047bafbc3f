"""Draws for methods that use all rows at once: independent batches and Markov chains."""
