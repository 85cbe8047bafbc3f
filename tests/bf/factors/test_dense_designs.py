"""ANOVAs of eight kinds of designs against dense covariances of the rows, from data to number."""

import warnings

import numpy as np
import pytest

import evidentia as ev
from tests.bf.factors.dense_designs import log_bayes_factor


def _levels(generator, rows, count):
    """Unbalanced codes of all levels."""
    return generator.permutation(np.append(generator.integers(0, count, rows - count), range(count)))


def _names(codes, letter):
    return np.array([f"{letter}{code}" for code in codes])


def _crossed(sizes):
    return np.stack(np.meshgrid(*map(range, sizes), indexing="ij"), -1).reshape(-1, len(sizes)).T


def _two_factors(generator, rows):
    return {name: _names(_levels(generator, rows, 3), name) for name in "ab"}, "a * b", []


def _repeated(generator, rows):
    a, b, who = _crossed((2, 3, 4))
    kept = generator.random(len(a)) < 0.9
    table = {"a": _names(a, "a")[kept], "b": _names(b, "b")[kept], "who": _names(who, "w")[kept]}
    return table, "a + b + who", ["who"]


def _crossed_random(generator, rows):
    table = {name: _names(_levels(generator, rows, 5), name) for name in ("a", "s", "t")}
    return table, "a + s + t", ["s", "t"]


def _nested(generator, rows):
    school, kept = np.repeat(range(4), 6), generator.random(24) < 0.95
    table = {"a": school % 2, "school": school, "group": np.arange(24) // 2}
    return (
        {name: _names(codes, name)[kept] for name, codes in table.items()},
        "a + school + group",
        [
            "school",
            "group",
        ],
    )


def _covariates(generator, rows):
    x = 10 * generator.normal(size=rows) + 3
    table = {
        "a": _names(_levels(generator, rows, 3), "a"),
        "x": x,
        "z": 0.05 * x + generator.normal(size=rows),
    }
    return table, str(generator.choice(["a + x + z", "x * z", "a * x"])), []


def _slopes(generator, rows):
    table = {"x": generator.normal(size=rows), "who": _names(_levels(generator, rows, 5), "w")}
    return table, "x * who", ["who"]


def _random_interaction(generator, rows):
    a, who, _ = _crossed((3, 4, 2))
    return {"a": _names(a, "a"), "who": _names(who, "w")}, "a * who", ["who"]


def _one_factor(generator, rows):
    return {"a": _names(_levels(generator, rows, 4), "a")}, "a", []


DESIGNS = (
    _one_factor,
    _two_factors,
    _repeated,
    _crossed_random,
    _nested,
    _covariates,
    _slopes,
    _random_interaction,
)


@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.reference)])
def test_designs_of_eight_kinds(count):
    generator = np.random.default_rng(60)
    for trial in range(count):
        table, formula, random = DESIGNS[trial % len(DESIGNS)](generator, int(generator.integers(16, 30)))
        size = generator.choice([0.0, 0.7, 2.0])
        y = generator.normal(size=len(next(iter(table.values()))))
        for column in table.values():
            codes = np.unique(column, return_inverse=True)[1]
            y = y + size * (column if column.dtype.kind == "f" else generator.normal(size=24)[codes])
        used = {name: column for name, column in table.items() if name in formula.replace("*", "+").split()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ev.bf.anova(f"y ~ {formula}", {**used, "y": y}, random=random)
        model = list(found.log_bf10)[-1]
        expected = log_bayes_factor(used, y, model.split(" + "), random)
        assert found.log_bf(model, "1") == pytest.approx(expected, abs=1e-4), (formula, trial)
        assert max(found.error.values()) < 1e-4
