"""The data and the candidate models of `evidentia demo`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evidentia.model import built_in as models
from evidentia.model.model import Model

NUM_FEATURES, NUM_CLASSES, NUM_MISSING, NUM_NOISE = 10, 4, 2, 5


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model of the demo, and the data that it is given.

    Attributes:
        name: what it is, for the table.
        model: a softmax regression.
        data: `{"x": (rows, features), "y": (rows,)}`.
    """

    name: str
    model: Model
    data: Any


def candidates(num_observations: int = 1_000_000, seed: int = 0) -> list[Candidate]:
    """Simulate rows of 4 classes from a softmax regression on 10 features, and three models that
    might explain them.

    The first model has the 10 features, the second lacks the last two, the third has five more
    that are noise. So the first is true, and the evidence should say so.

    Example:
        >>> [candidate.name for candidate in candidates(100)]
        ['all 10 features', 'two features missing', 'five noise features']
    """
    simulate = models.softmax_regression(NUM_FEATURES, NUM_CLASSES).simulate
    assert simulate is not None  # every built-in model has it
    data, _ = simulate(num_observations, seed)
    generator = np.random.default_rng([seed, 1])  # another stream than that of `simulate`
    noise = generator.standard_normal((num_observations, NUM_NOISE), np.float32)
    features = {
        "all 10 features": data["x"],
        "two features missing": data["x"][:, :-NUM_MISSING],
        "five noise features": np.concatenate([data["x"], noise], axis=1),
    }
    return [
        Candidate(name, models.softmax_regression(x.shape[1], NUM_CLASSES), {"x": x, "y": data["y"]})
        for name, x in features.items()
    ]
