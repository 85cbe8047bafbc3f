"""Classes in place of what they make, and containers that hold themselves: no traceback."""

import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev

DATA = {"y": np.zeros(3)}
MODEL = ev.Model({"mean": dist.Normal()}, lambda p, b: dist.Normal(p["mean"]).log_prob(b["y"]))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ev.estimate(ev.Regression, DATA), "Regression"),  # type: ignore[arg-type]
        (lambda: ev.estimate(ev.Model, DATA), "Model"),  # type: ignore[arg-type]
        (lambda: ev.estimate(MODEL, DATA, method=ev.SGAIS), "SGAIS"),  # type: ignore[arg-type]
        (lambda: ev.estimate(MODEL, DATA, progress=ev.Online), "Online"),
        (lambda: ev.estimate_many(ev.Regression, [DATA]), "Regression"),  # type: ignore[arg-type]
        (lambda: ev.Online(ev.Model), "Model"),  # type: ignore[arg-type]
        (lambda: ev.OnlineFleet(ev.Model), "Model"),  # type: ignore[arg-type]
        (lambda: ev.ChangeDetector(ev.Online), "Online"),  # type: ignore[arg-type]
        (lambda: ev.ModelAverage({"a": ev.Online}), "Online"),  # type: ignore[arg-type]
        (lambda: ev.sandwich(ev.Model, 10), "Model"),  # type: ignore[arg-type]
        (lambda: ev.group_effects(ev.Regression), "Regression"),  # type: ignore[arg-type]
    ],
)
def test_a_class_in_place_of_what_it_makes(call, name):
    with pytest.raises(ev.EvidentiaError, match=rf"got the class {name} itself, not one made as {name}\(…\)"):
        call()


@pytest.mark.parametrize("value", [None, 3, "y ~ x", DATA])
def test_group_effects_of_something_else(value):
    with pytest.raises(ev.ConfigurationError, match="model must be a Regression or an evidentia.Model; got"):
        ev.group_effects(value)
    with pytest.raises(ev.ConfigurationError, match="evidence must be a result of estimate; got"):
        ev.group_effects(MODEL, value)
    with pytest.raises(ev.ConfigurationError, match="effects must be of group_effects"):
        ev.plot_effects(value)


def cyclic():
    values, mapping, nested = [1.0], {}, ([],)
    values.append(values)
    mapping["y"] = mapping
    nested[0].append(nested)
    return [values, mapping, nested, {"y": values}]


@pytest.mark.parametrize("value", cyclic(), ids=["list", "mapping", "tuple", "column"])
def test_a_container_that_holds_itself(value):
    calls = [
        lambda: ev.estimate(MODEL, value),
        lambda: ev.Online(MODEL).update(value),
        lambda: ev.compare(value),
        lambda: ev.ModelAverage(value),
        lambda: ev.Model(value, lambda p, b: b["y"]),
        lambda: ev.Model.from_numpyro(value),
        lambda: ev.Model.from_callable(sum, lambda u: u, names=value),
        lambda: ev.Model({"a": dist.Normal()}, lambda p, b: b["y"], exchangeable=value),
        lambda: ev.estimate(MODEL, DATA, method=value),
    ]
    for call in calls:
        with pytest.raises(ev.EvidentiaError):
            call()
