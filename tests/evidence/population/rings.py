"""Particles on a ring, for fits and rounds."""

import numpy as np

from evidentia.evidence.population.particles import Particles

COUNT = 512


def around(count, spread=0.05, arc=2 * np.pi):
    """Particles on an arc of the ring."""
    generator = np.random.default_rng(1)
    angle = generator.uniform(0, arc, count)
    radius = 2.0 + spread * generator.standard_normal(count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def even(positions):
    return Particles(positions, np.full(len(positions), 1 / len(positions)))
