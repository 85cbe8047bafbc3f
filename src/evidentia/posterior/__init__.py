"""Sums over rows, the tempered posterior, gradients, expansions, modes and symmetry."""
