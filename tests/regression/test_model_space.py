"""The number of well-formed models and their prior, against all of them listed."""

import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.regression.model_space import model_space, well_formed

TERMS = ("a", "b", "c", "d", "e", "a:b", "b:c", "a:c", "a:b:c", "d:e")


@pytest.mark.parametrize("prior_probabilities", ["uniform", "beta-binomial"])
@pytest.mark.parametrize("terms", [("a", "b", "a:b"), TERMS, TERMS[:5], ()])
def test_counts_are_those_of_the_listed_models(terms, prior_probabilities):
    space = model_space(terms, prior_probabilities)
    models = well_formed(space.needs, 2**14)
    assert models is not None and len(models) == space.num_models
    assert len(np.unique(models, axis=0)) == len(models)
    prior = np.exp(space.log_prior[models.sum(axis=1)])
    assert prior.sum() == pytest.approx(1)
    np.testing.assert_allclose(prior @ models, space.prior_inclusion, rtol=1e-12)


def test_a_thousand_terms_are_counted():
    terms = tuple(f"x{place}" for place in range(1000))
    assert model_space(terms, "uniform").num_models == pytest.approx(2.0**1000)
    np.testing.assert_allclose(model_space(terms, "beta-binomial").prior_inclusion, 0.5)


def test_too_many_models_are_not_listed():
    assert well_formed(model_space(TERMS[:5], "uniform").needs, 31) is None


def test_too_many_terms_are_named():
    with pytest.raises(ConfigurationError, match="at most 1,000 terms; it has 1,001"):
        model_space(tuple(f"x{place}" for place in range(1001)), "uniform")
    names = [f"x{place}" for place in range(15)]
    pairs = [f"{a}:{b}" for place, a in enumerate(names) for b in names[:place]]
    with pytest.raises(ConfigurationError, match="interactions that tie 15 terms together"):
        model_space((*names, *pairs), "uniform")
