"""Observations: arrays, batches, and their sources. No statistics."""
