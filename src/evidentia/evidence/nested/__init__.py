"""Nested sampling: the run, the integral over shrinking prior mass, and a reservoir of weighted
points.
"""
