"""The data and the candidate models of `evidentia demo`."""

import numpy as np

from evidentia.cli.run import Candidate
from evidentia.model import built_in as models

NUM_FEATURES, NUM_CLASSES, NUM_MISSING, NUM_NOISE = 10, 4, 2, 5


def candidates(num_observations: int = 1_000_000, seed: int = 0) -> list[Candidate]:
    """Simulate rows from a softmax regression with 10 features and 4 classes, and build 3 models.

    The first model has the 10 features, the second lacks the last two, the third adds five noise
    features. The first is the true model and should have the highest evidence.

    Example:
        >>> [candidate.name for candidate in candidates(100)]
        ['all 10 features', 'two features missing', 'five noise features']
    """
    simulate = models.softmax_regression(NUM_FEATURES, NUM_CLASSES).simulate
    assert simulate is not None  # every built-in model has it
    data, _ = simulate(num_observations, seed)
    generator = np.random.default_rng([seed, 1])  # independent of `simulate`
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
