"""Log-likelihoods of NumPyro programs: of each row, or of all data as a table of one row."""

import functools
import inspect
import operator
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from evidentia.errors import ModelError
from evidentia.model.enumeration import AtValues, Terms, is_summed_out, log_sum
from evidentia.model.program import LogLikelihood, Params, Program, log_prob, trace_of


def pointwise(function: Program) -> LogLikelihood:
    """Log-likelihood of each row: the sum of the log-probabilities of the observed sites."""
    return lambda params, batch: _log_likelihood(function, params, batch).by_row


def joint(function: Program) -> LogLikelihood:
    """Log-likelihood of all data: the sum of all log-probabilities of the observed sites."""

    def log_likelihood(params, data):
        found = _log_likelihood(function, params, data, is_whole=True)
        return jnp.sum(found.by_row) + found.shared

    return log_likelihood


def _log_likelihood(
    function: Program, params: Params, rows: Mapping[str, Any], is_whole: bool = False
) -> Terms:
    """The log-probabilities of the observed sites, with discrete latent sites summed out.

    If all data are one observation, a single value of a discrete site is one for all rows.
    """
    first = trace_of(at_first := AtValues(function), rows, params)
    sizes = at_first.sizes
    shared = {name: size for name, size in sizes.items() if is_whole and not jnp.shape(first[name]["value"])}
    own = {name: size for name, size in sizes.items() if name not in shared}

    def terms_of(trace):
        by_row, for_all = [], []
        for name, message in trace.items():
            if message["type"] == "sample" and (message["is_observed"] or is_summed_out(message)):
                is_single = name in shared or (is_whole and not own)
                (for_all if is_single else by_row).append(log_prob(message))
        if len({jnp.shape(each) for each in by_row}) > 1:
            raise ModelError(
                f"{', '.join(map(repr, own))} cannot be summed out: each observed and discrete site needs one log-probability "
                "for each of its values."
            )
        return Terms(_added(by_row), _added([jnp.sum(each) for each in for_all]))

    if not sizes:
        return terms_of(first)
    return log_sum(lambda indices: terms_of(trace_of(AtValues(function, indices), rows, params)), own, shared)


def _added(terms: list[Array]) -> Array:
    return functools.reduce(operator.add, terms) if terms else jnp.zeros(())


def of_one_row(program: Program) -> Program:
    """The program called with all data as a table of one row, or of copies of it."""

    @functools.wraps(program)
    def called(**rows):
        return program(**{name: array[0] for name, array in rows.items()})

    return called


def of_each_row(log_likelihood: LogLikelihood) -> LogLikelihood:
    """The log-likelihood of each row of a table whose rows are all data of a model.

    Raises ModelError, when it is traced, unless it is one number.
    """

    def of_one(params, data):
        value = log_likelihood(params, data)
        if jnp.shape(value) != ():
            raise ModelError(
                f"with pointwise=False, log_likelihood must return one number for all data; got shape {jnp.shape(value)}. "
                "Sum over the observations; or, if they are independent, leave out pointwise=False."
            )
        return value

    return lambda params, rows: jax.vmap(functools.partial(of_one, params))(rows)


def takes_no_data(program: Program) -> bool:
    """Whether a program has no arguments: its data are in its closure."""
    return not inspect.signature(program).parameters


def runs_without_data(program: Any) -> bool:
    """Whether a program can be called without arguments: its data may be their defaults."""
    try:
        inspect.signature(program).bind()
    except TypeError:
        return False
    return True


def without_data(program: Any, no_data: Array) -> Any:
    """A program that holds its data itself, as one of data that it does not use."""
    return program()
