"""Observations: arrays, batches, and the sources that they come from. No statistics in here."""
