"""Laplace's method before `SGAIS`, where effects vary by group: when its result stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evidentia.errors import EstimationError, quietly, warn
from evidentia.evidence.laplace import Laplace
from evidentia.regression.deviations import OverDeviations
from evidentia.regression.prepared import Prepared
from evidentia.regression.random_effects import MOST_PARAMETERS, RandomEffects
from evidentia.results.result import Evidence

MANY_ROWS = 50  # of a level: in logistic regressions, its effect has an error of 0.3 and less
SETTLED = 0.3  # deviation of log sd where its posterior does not reach 0
DRAWS = 1024  # where some effects are parameters
MOST_WORK = 20_000_000  # rows times draws: some seconds
MOST_DRAWS, LEAST_DRAWS = 2048, 256  # where all effects are integrated out
FEW_LEVELS = 30  # below it, the posterior of a deviation is rarely about Gaussian
EVEN = 0.8  # ESS fraction of draws from about a Gaussian; with 0.6, tails may be seen too rarely


def at_the_mode(asked: Prepared, run: Callable[..., Evidence]) -> Evidence | None:
    """Laplace's result where it serves, of `run(method=...)`; None elsewhere.

    It does for exact likelihoods, which take long, and where the posterior turns out to be about
    Gaussian. What a result that does not stand would warn of is left unsaid.
    """
    varying = asked.varying
    assert varying is not None
    if varying.is_exact or sum(one.count for one in varying.of_parameters) > MOST_PARAMETERS:
        found = run(method=OverDeviations(integrand_of=asked.integrand_of))
        found = replace(found, method=OverDeviations())
        return _with_reason(found, "OverDeviations, as all effects are eliminated given these")
    count = _num_draws(varying)
    if count == 0:
        return None
    try:
        with quietly() as unsaid:
            found = run(method=Laplace(num_particles=count))
    except EstimationError:  # no mode, as where deviations are 0
        return None
    if found.completed and not _is_gaussian(varying, found):
        return None
    for message, category in unsaid:
        warn([message], category)
    return (
        _with_reason(found, "Laplace, as the posterior is about Gaussian at its mode")
        if found.completed
        else found
    )


def _num_draws(varying: RandomEffects) -> int:
    """Draws of Laplace's method, where it is worth a try; 0 elsewhere.

    It is for effects that are parameters of levels with many rows. If all are integrated out, few
    parameters are left, and with many levels and not too many rows it is the faster way.
    """
    if varying.of_parameters:
        many = all(np.median(np.bincount(one.codes)) >= MANY_ROWS for one in varying.of_parameters)
        return DRAWS if many else 0
    count = MOST_WORK // len(varying.inner.codes)
    is_likely = len(varying.inner.levels) >= FEW_LEVELS and count >= LEAST_DRAWS
    return min(count, MOST_DRAWS) if is_likely else 0


def _is_gaussian(varying: RandomEffects, evidence: Evidence) -> bool:
    """Whether the posterior is near enough to Gaussian about its mode.

    For effects that are parameters, deviations near 0 are the place where it is not.
    """
    if not varying.of_parameters:
        return evidence.ess >= EVEN * evidence.num_particles
    shares = np.exp(evidence.weighted.log_weights)
    names = [name for one in varying.of_parameters for name in one.sd_names]
    if any(np.min(evidence.weighted[name]) == 0 for name in names):  # rounded
        return False
    logs = [np.log(evidence.weighted[name]) for name in names]
    return all(shares @ (one - shares @ one) ** 2 < SETTLED**2 for one in logs)


def _with_reason(evidence: Evidence, reason: str) -> Evidence:
    return replace(evidence, diagnostics={**evidence.diagnostics, "chosen": reason})
