"""The evidence of a regression without any parameter, such as `accidents ~ 0 + offset(risk)`.

The families bernoulli, binomial, poisson and categorical have no parameter beside the
coefficients. Without intercept and terms, the evidence is the likelihood.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.families import Family
from evidentia.regression.formula import Formula
from evidentia.regression.response import Response
from evidentia.result import Evidence
from evidentia.trajectory import Trajectory

BLOCK = 2**20  # rows whose likelihood is computed at once


@dataclass(frozen=True)
class Likelihood:
    """The method of a result without parameters: the likelihood itself."""


def has_parameters(formula: Formula, law: Family) -> bool:
    """Whether a regression has coefficients, effects that vary, or parameters of its family."""
    return bool(formula.has_intercept or formula.terms or formula.varying or law.extra)


def evidence_without_parameters(
    formula: Formula,
    law: Family,
    response: Response,
    offset: Float[ndarray, " rows"],
    seed: int,
    started: float,
) -> Evidence:
    """The log-likelihood of the rows, with an empty posterior of one draw.

    Args:
        formula: without intercept and terms.
        law: a family without parameters of its own.
        response: of the rows.
        offset: the predictor of each row.
        seed: to be kept in the result.
        started: start time in seconds, from `time.perf_counter`.
    """
    outputs = (len(response.levels) - 1,) if law.kind == "category" else ()
    predictor = np.zeros((len(offset), *outputs), np.float32) + offset.reshape(-1, *(1 for _ in outputs))
    log_evidence = 0.0
    for start in range(0, len(offset), BLOCK):
        rows = slice(start, start + BLOCK)
        batch = {name: jnp.asarray(array[rows]) for name, array in response.arrays.items()}
        log_density = law.log_density(jnp.asarray(predictor[rows], jnp.float32), batch, {})
        log_evidence += float(np.asarray(log_density, np.float64).sum())
    seconds = time.perf_counter() - started
    row = (len(offset), log_evidence, 0.0, 0, seconds)
    return Evidence(
        log_evidence=log_evidence,
        standard_error=0.0,
        num_observations=len(offset),
        trajectory=Trajectory(*(np.array([value]) for value in row)),
        posterior={},
        log_weights=np.zeros(1),
        method=Likelihood(),
        model_name=formula.text,
        seed=seed,
        seconds=seconds,
        response=formula.response,
    )
