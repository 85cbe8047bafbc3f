"""The appendix' comparison in small: nested sampling and annealed importance sampling agree on the mixture."""

import json

import numpy as np
import pytest

import evidentia as ev
from experiments import nested_sampling_agreement as experiment

pytestmark = pytest.mark.reference


def test_nested_sampling_agrees_with_annealed_importance_sampling(tmp_path):
    methods = {
        "nested": ev.NestedSampling(num_particles=64),
        "annealed": ev.AIS(num_particles=128, target_ess=0.97),
    }
    found = experiment.compare(methods, (20, 60), 3, tmp_path / "runs.json")
    assert json.loads((tmp_path / "runs.json").read_text()) == found
    (sizes, means, errors), (_, others, other_errors) = (
        experiment.summarise(found, name) for name in methods
    )
    assert list(sizes) == [20, 60]
    scores = (others - means) / np.hypot(errors, other_errors)
    assert np.all(np.abs(scores) < 4), scores  # two differences: by chance once in 10⁴
    experiment.draw(found, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
