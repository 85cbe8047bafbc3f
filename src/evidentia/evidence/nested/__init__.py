"""Nested sampling: the run, the integral over prior mass, and a reservoir of weighted points."""
