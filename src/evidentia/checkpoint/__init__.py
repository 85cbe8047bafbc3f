"""Checkpoints: packing of state, and crash-safe folders and journals."""
