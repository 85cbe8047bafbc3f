"""Results as objects of other packages, which are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from evidentia.arviz_bridge import inference_data
from evidentia.errors import ConfigurationError, check_flag
from evidentia.evidence.nested_sampling import NestedSampling
from evidentia.results.arviz_groups import attributes_of, groups_of
from evidentia.results.weighted import Weighted

NUM_CHAINS = 16  # blocks of independent draws, of which harmonic takes some to learn and some to estimate


class Conversions:
    """What an `Evidence` becomes for other packages."""

    model_name: str
    weighted: Weighted
    method: Any
    seed: int
    completed: bool

    def to_arviz(self, *, log_likelihood: bool = False) -> Any:
        """The result for ArviZ, with the `posterior` as one chain of equally weighted draws.

        It is a DataTree of xarray with ArviZ 1, and an InferenceData before. `sample_stats` has
        the `particle` of each draw and its `log_weight`; the attributes hold the log evidence, its
        standard error and the run's settings. While the session has the model, there are as many
        draws of the `prior`, which `arviz.plot_bf` needs, and the `log_prior` of each draw; while
        it has the data, `observed_data`. The draws are independent particles, not a Markov chain:
        r-hat is meaningless.

        Args:
            log_likelihood: whether to compute that of each row at each draw, which `arviz.loo` and
                `arviz.compare` need; a number for each, in the order of the data.

        Raises:
            ConfigurationError: `log_likelihood` is no bool; log-likelihoods of a result without
                its model and data, such as a loaded one; or this process was forked from one that
                had used JAX.

        Example:
            >>> arviz.loo(evidence.to_arviz(log_likelihood=True))  # doctest: +SKIP
        """
        check_flag("log_likelihood", log_likelihood)
        return inference_data(groups_of(self.weighted, self.seed, log_likelihood), attributes_of(self))

    def to_anesthetic(self) -> Any:
        """The weighted draws for anesthetic, with the log-likelihood of each as `logL`.

        Of a completed `NestedSampling` they are `NestedSamples`, whose `logZ` is anesthetic's own
        estimate from the points; of other methods `Samples`.

        Raises:
            ConfigurationError: anesthetic is not installed, or the log-likelihoods are not known.

        Example:
            >>> evidence.to_anesthetic().plot_2d(["mean", "scale"])  # doctest: +SKIP
        """
        package = _imported("anesthetic", "anesthetic")
        weighted, method = self.weighted, self.method
        log_likelihood = np.asarray(weighted.log_likelihood, np.float64)
        if isinstance(method, NestedSampling) and method.ending == "live_points" and self.completed:
            order = np.argsort(log_likelihood, kind="stable")
            settings = method.settings
            births = births_of(log_likelihood[order], settings.num_particles, settings.num_removed)
            return package.NestedSamples(
                weighted.samples[order],
                columns=weighted.columns,
                logL=log_likelihood[order],
                logL_birth=births,
                label=self.model_name,
            )
        return package.Samples(
            weighted.samples,
            columns=weighted.columns,
            weights=np.exp(weighted.log_weights),
            logL=log_likelihood,
            label=self.model_name,
        )

    def to_harmonic(self) -> Any:
        """Equally weighted draws and their log joint density, as the `Chains` of harmonic.

        The draws are independent up to the repeats of resampling, and cut into sixteen chains.

        Raises:
            ConfigurationError: harmonic is not installed, densities are not known, or there are
                fewer than sixteen particles.

        Example:
            >>> harmonic.utils.split_data(evidence.to_harmonic())  # doctest: +SKIP
        """
        chains = _imported("harmonic.chains", "harmonic")
        weighted = self.weighted
        chosen = weighted.chosen(self.seed)
        chosen = chosen[: len(chosen) // NUM_CHAINS * NUM_CHAINS]
        if len(chosen) == 0:
            raise ConfigurationError(
                f"to_harmonic needs at least {NUM_CHAINS} particles; got {len(weighted.log_weights)}."
            )
        log_joint = np.asarray(weighted.log_likelihood, np.float64) + weighted.log_prior
        made = chains.Chains(len(weighted.columns))
        made.add_chains_2d(weighted.samples[chosen].astype(np.float64), log_joint[chosen], NUM_CHAINS)
        return made


def births_of(
    deaths: Float[np.ndarray, " points"], num_live: int, num_removed: int
) -> Float[np.ndarray, " points"]:
    """Log-likelihoods at which points of a nested sampling run were born, for sorted deaths.

    The first points are draws from the prior; then as many as are removed at a time are born at
    each contour, the death of the last one removed. Which of them dies when is not kept, and the
    numbers of live points, which weights and evidence depend on, do not need it: births are
    assigned in order.
    """
    later = np.arange(len(deaths) - num_live)
    contours = deaths[(later // num_removed + 1) * num_removed - 1]
    return np.concatenate([np.full(len(deaths) - len(later), -np.inf), contours])


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, package):
            raise
        raise ConfigurationError(
            f"to_{package} needs the package {package}, which is not installed: pip install {package}."
        ) from None
