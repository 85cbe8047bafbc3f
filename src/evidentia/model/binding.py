"""Binding: a model with the shapes of its data, after its checks."""

import hashlib
from collections.abc import Mapping
from typing import Any

import jax
import numpyro.distributions as dist

from evidentia.errors import attempt
from evidentia.model import checks, likelihoods, statements
from evidentia.model.bound import BoundModel
from evidentia.model.local import Hidden, Integrated, LocalSites
from evidentia.model.outside import OutsideLikelihood
from evidentia.model.probe import probe, probing_positions
from evidentia.model.program import Densities, Observations, program_of
from evidentia.model.symmetry import Symmetry, find_symmetry

_SYMMETRIES: dict[str, Symmetry] = {}  # of models that compute the same, by the rows tried


def bound(model: Any, batch: Observations, is_whole: bool) -> BoundModel:
    """A `Model` bound to the shapes of some rows, or of all data as one row.

    Raises:
        ModelError: the prior or the log-likelihood cannot be used.
    """
    if isinstance(model.log_likelihood, OutsideLikelihood):
        return _bound_outside(model, batch, model.log_likelihood)
    few, more = checks.some_rows(batch, 3), checks.some_rows(batch, 5)
    densities = _densities(model, few, more, is_whole)
    if model.is_program:
        checks.check_summed_out(densities, densities.prior, few)
    if isinstance(densities.pointwise, Integrated) and isinstance(
        local := densities.pointwise.conditional, LocalSites
    ):
        checks.check_local(densities, local, few)
    checks.check_result(densities, few)
    checks.check_result(densities, more)
    batches = checks.probing_batches(checks.some_rows(batch, 2 if is_whole else 64))
    computed, evaluate = attempt("the model", lambda: probe(densities, batches))
    checks.check_values(evaluate(probing_positions(densities.size)))
    # Rows decide too: a symmetry that some rows do not show may be broken by others.
    rows = hashlib.sha256(b"".join(leaf.tobytes() for leaf in jax.tree.leaves(batches))).hexdigest()
    key = " ".join((computed, rows, *model.exchangeable))
    if key not in _SYMMETRIES:
        if model.exchangeable:
            checks.check_exchangeable(densities, model.exchangeable, few)
        _SYMMETRIES[key] = find_symmetry(densities, evaluate, batches, model.exchangeable)
    symmetry = _SYMMETRIES[key]
    identity = f"{computed} {symmetry}"
    found = BoundModel(model.name, densities, symmetry, model.sample_posterior, identity, model.shown)
    if isinstance(model.prior, Mapping) and all(
        isinstance(value, dist.Distribution) for value in model.prior.values()
    ):
        checks.check_parameters_used(densities, few)
    return found


def _bound_outside(model: Any, batch: Observations, likelihood: OutsideLikelihood) -> BoundModel:
    """Without checks that evaluate the log-likelihood, which may take long."""
    densities = _densities(model, batch, batch, is_whole=True)
    identity = f"outside JAX, {likelihood.identity}"
    more = model.sample_posterior, identity, model.shown, likelihood.evaluations
    return BoundModel(model.name, densities, Symmetry(), *more)


def _densities(model: Any, few: Observations, more: Observations, is_whole: bool) -> Densities:
    """The functions to trace, after the checks of the program for two numbers of rows."""
    log_likelihood = model.log_likelihood
    if not callable(model.prior):
        prior, rows = program_of(model.prior), {}
        found = statements.statements_of(prior, rows, sums_out=False)
    elif is_whole:
        statements.check_arguments(model.prior, few)
        log_likelihood, prior, rows = likelihoods.joint(model.prior), likelihoods.of_one_row(model.prior), few
        found = statements.statements_of(prior, rows, is_whole=True)
        statements.check_observes(found, few)
    else:
        statements.check_arguments(model.prior, few)
        prior, rows = model.prior, few
        found = statements.statements_by_row(prior, few, more)
        if sizes := statements.local_sizes(found):
            local = LocalSites(prior, sizes)
            log_likelihood = Integrated(local, local.size)
            prior = Hidden(prior, frozenset(sizes))
    if is_whole:
        log_likelihood = likelihoods.of_each_row(log_likelihood)
    return Densities(prior, statements.latent_sites(found), log_likelihood, rows)
