"""Categories as indices: the same predictor as columns of zeros and ones."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import evidentia as ev
from evidentia.regression import compact
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.table import as_table

GENERATOR = np.random.default_rng(0)
TABLE = {
    "y": GENERATOR.integers(0, 2, 200),
    "x": GENERATOR.standard_normal(200),
    "k": GENERATOR.choice(list("abcd"), 200),
    "m": GENERATOR.choice(list("pqr"), 200),
}


ASKED = ev.Regression("y ~ x + k", family="bernoulli", priors={"k[T.c]": dist.Normal(0, 0.5)})


@pytest.fixture(scope="module")
def dense():
    """The evidence with columns, which small tables have."""
    return ev.estimate(ASKED, pd.DataFrame(TABLE), method=ev.Laplace())


@pytest.fixture
def as_indices(monkeypatch):
    monkeypatch.setattr(compact, "LEAST_LEVELS", 2)
    monkeypatch.setattr(compact, "LEAST_VALUES", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("as_indices")
@pytest.mark.parametrize("formula", ["y ~ k", "y ~ x + k", "y ~ k + x + m", "y ~ k * x + m - 1"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_the_predictor_is_that_of_the_columns(formula, shape):
    table = as_table(TABLE, list(TABLE))
    frame = frame_of(parse(formula), table)
    effects = GENERATOR.standard_normal((*shape, len(frame.names))).astype(np.float32)
    layout = compact.layout_of(frame, table)
    arrays = compact.arrays_of(layout, frame, table)
    assert layout.factors and arrays["levels"].dtype == np.int32 and arrays["levels"].shape[0] == 200
    found = layout.predictor(jnp.asarray(effects), arrays)
    columns = (frame.design.columns(table) - frame.means) / frame.deviations
    np.testing.assert_allclose(found, columns @ effects.T, rtol=1e-5, atol=1e-5)  # float32


def test_small_tables_have_columns():
    table = as_table(TABLE, list(TABLE))
    frame = frame_of(parse("y ~ x + k"), table)
    assert compact.layout_of(frame, table) == compact.Layout((0, 1, 2, 3), ())


@pytest.mark.reference
def test_the_evidence_is_that_of_the_columns(dense, as_indices):
    index = ev.estimate(ASKED, pd.DataFrame(TABLE), method=ev.Laplace())
    margin = 4 * np.hypot(dense.standard_error, index.standard_error)
    assert index.log_evidence == pytest.approx(dense.log_evidence, abs=margin)
    assert list(index.posterior) == list(dense.posterior)
