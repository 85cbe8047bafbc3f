"""Checkpoints: packing a state, and folders and journals that survive any interruption."""
