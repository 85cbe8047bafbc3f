"""evidentia as a sampler of bilby: `bilby.run_sampler(likelihood, priors, sampler="evidentia")`.

bilby finds the class through its entry points, `bilby.samplers`, and is imported here alone.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from bilby.core.sampler.base_sampler import NestedSampler, signal_wrapper  # pyright: ignore
from jaxtyping import Float
from pandas import DataFrame
from scipy.stats import qmc

from evidentia.errors import ModelError
from evidentia.estimation.estimate import estimate
from evidentia.model.model import Model
from evidentia.results.result import Evidence

IMPOSSIBLE = -1e300  # nats; bilby writes -inf as the lowest float64
LOG_NUM_PLACES = 14  # binary logarithm of the number of places that show what a constraint leaves


class Evidentia(NestedSampler):
    """The log evidence of bilby's likelihood and priors by `estimate`, without gradients.

    The evidence, its error, weighted draws (`nested_samples`) and equally weighted ones
    (`posterior`) are those of `AMIS`, or of another method. Priors may be conditional and
    periodic. With `Constraint` priors the prior is normalised over what they leave, as in bilby's
    `PriorDict.ln_prob`; the error of that normalisation is part of `log_evidence_err`. The
    verdict, its signs and the diagnostics are in `result.meta_data["evidentia"]`.

    Evaluations are kept in the folder `evidentia_LABEL` of `outdir`: after an interruption the
    same call goes on.

    Args:
        method: the configuration of a method; "auto" is `AMIS()`.
        seed: the same seed gives the same numbers.
        target_standard_error: in nats; more particles are drawn until the error is smaller.
        max_seconds: after which the run ends, as for `estimate`.
        executor: of `concurrent.futures` or alike, at whose workers the likelihood is evaluated.
            `npool` of `run_sampler` starts that many processes, by spawning: the program must be
            guarded by `if __name__ == "__main__"`.
        resume: False keeps no evaluations, and uses none.
        progress: True for a bar on standard error.

    Raises:
        ModelError: no parameter is free, or no draw of the prior satisfies its constraints.
        EvidentiaError: as `estimate`.

    Example:
        >>> bilby.run_sampler(likelihood, priors, sampler="evidentia")  # doctest: +SKIP

    Source: Ashton et al. 2019, "BILBY", ApJS 241:27.
    """

    sampler_name = "evidentia"
    sampling_seed_key = "seed"
    default_kwargs = {  # noqa: RUF012 (bilby copies it)
        "method": "auto",
        "seed": 0,
        "target_standard_error": None,
        "max_seconds": None,
        "executor": None,
        "resume": True,
        "progress": False,
    }

    @signal_wrapper
    def run_sampler(self) -> Any:
        """Estimate, and return bilby's result."""
        if not self.search_parameter_keys:
            raise ModelError("priors must leave at least one parameter free; all are fixed.")
        options = dict(self.kwargs)
        kept = (
            os.path.join(self.outdir, f"{self.sampler_name}_{self.label}") if options.pop("resume") else None
        )
        log_allowed, allowed_error = self._log_allowed()
        self.result.sampler_kwargs = {name: _plain(value) for name, value in options.items()}
        with self._workers(options.pop("executor")) as executor:
            evidence = estimate(self._model(executor), checkpoint=kept, **options)
            self._fill(evidence)
        self.result.log_evidence = evidence.log_evidence - log_allowed
        self.result.log_evidence_err = math.hypot(evidence.standard_error, allowed_error)
        return self.result

    def log_likelihood_in_nats(self, point: Float[np.ndarray, " parameters"]) -> float:
        """bilby's log-likelihood, or its ratio; -inf where constraints are not met."""
        value = float(self.log_likelihood(point))
        return value if value > IMPOSSIBLE else -math.inf

    def from_cube(self, cube: Float[np.ndarray, " parameters"]) -> Float[np.ndarray, " parameters"]:
        """The free parameters at a place in the unit cube."""
        found = [float(np.squeeze(one)) for one in self.prior_transform(cube)]
        return np.array(found)

    def write_current_state(self) -> None:
        """Nothing is left to write: each evaluation is kept at once."""

    def _run_test(self) -> Any:
        self.kwargs["max_seconds"] = 0.1
        return self.run_sampler()

    def _model(self, executor: Executor | None) -> Model:
        keys = tuple(self.search_parameter_keys)
        return Model.from_callable(
            self.log_likelihood_in_nats,
            self.from_cube,
            names=keys,
            periodic=[key for key in keys if self.priors[key].boundary == "periodic"],
            executor=executor,
            name=self.label,
        )

    @contextmanager
    def _workers(self, executor: Executor | None) -> Iterator[Executor | None]:
        if executor is not None or self.npool in (None, 1):
            yield executor
            return
        with ProcessPoolExecutor(self.npool, multiprocessing.get_context("spawn")) as processes:
            yield processes

    def _log_allowed(self) -> tuple[float, float]:
        """The log of the prior's share that satisfies the constraints, and its standard error."""
        if not self.constraint_parameter_keys:
            return 0.0, 0.0
        keys, count = self.search_parameter_keys, 2**LOG_NUM_PLACES
        places = qmc.Sobol(self.ndim, rng=int(self.kwargs["seed"])).random_base2(LOG_NUM_PLACES)
        points = (dict(zip(keys, self.from_cube(place), strict=True)) for place in places)
        share = sum(bool(self.priors.evaluate_constraints(point)) for point in points) / count
        if share == 0.0:
            raise ModelError(
                f"priors must leave room for their constraints ({', '.join(self.constraint_parameter_keys)}): none of "
                f"{count:,} draws satisfies them. Narrow the priors of {', '.join(keys)}."
            )
        return math.log(share), math.sqrt((1 - share) / (share * count))

    def _fill(self, evidence: Evidence) -> None:
        weighted, result = evidence.weighted, self.result
        log_likelihood = np.asarray(weighted.log_likelihood, np.float64)
        chosen, share = weighted.chosen(evidence.seed), np.exp(weighted.log_weights)
        result.sampler_output = evidence
        result.samples = weighted.samples[chosen]
        result.log_likelihood_evaluations = log_likelihood[chosen]
        result.nested_samples = DataFrame(weighted.samples, columns=weighted.columns)
        result.nested_samples["weights"] = share
        result.nested_samples["log_likelihood"] = log_likelihood
        result.information_gain = float(share[share > 0] @ log_likelihood[share > 0] - evidence.log_evidence)
        result.num_likelihood_evaluations = int(evidence.diagnostics["num_evaluations"])
        result.meta_data = {**(result.meta_data or {}), "evidentia": evidence.to_dict()}


def _plain(value: Any) -> Any:
    """A value that bilby's files can hold: methods and executors as text."""
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
