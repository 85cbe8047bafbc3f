"""`plot_effects`; what it draws comes from tests of `group_effects`."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError


@pytest.mark.parametrize("count", [5, 300])
def test_groups_are_drawn_in_order_of_size(count):
    values = np.random.default_rng(0).normal(size=count)
    index = pd.Index([f"g{number}" for number in range(count)], name="school")
    effects = pd.DataFrame({"Intercept": values, "Intercept (sd)": 0.4}, index=index)
    ax = ev.plot_effects(effects)
    line = ax.lines[-1].get_xdata() if count > 60 else ax.containers[0].lines[0].get_xdata()
    np.testing.assert_allclose(line, np.sort(values))
    assert "Intercept" in ax.get_xlabel() and "school" in ax.get_ylabel()
    with pytest.raises(ConfigurationError, match="name must be one of Intercept; got 'x'"):
        ev.plot_effects(effects, "x")
    plt.close("all")
