"""The result of an estimation: `Evidence`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from os import PathLike
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.arviz_bridge import inference_data
from evidentia.checkpoint.results import read_result, write_result
from evidentia.display import text
from evidentia.errors import ConfigurationError
from evidentia.evidence.method import Diagnosis, Estimate
from evidentia.model.bound import BoundModel
from evidentia.model.width import Widths
from evidentia.posterior.reweighting import ModelWidths
from evidentia.posterior.summary import summarise
from evidentia.posterior.symmetry import log_num_copies
from evidentia.trajectory import Trajectory
from evidentia.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """The log evidence of a model with its error, trajectory, posterior and diagnostics.

    Attributes:
        log_evidence: estimate of log p(D), in nats.
        standard_error: of `log_evidence`, in nats, as estimated by the method; NaN if unknown,
            shown as "± ?".
        num_observations: rows of the data.
        trajectory: the estimate after each update.
        posterior: constrained parameters by name, each (particles, ...).
        log_weights: normalised log weights of the particles.
        method: the configuration of the method.
        model_name: name of the model.
        seed: seed of the run.
        seconds: duration of the run, including compilation.
        completed: False if the run was stopped before the end of the data.
        diagnostics: further numbers and strings from the method or the caller, by name.
        signs: signs that the log evidence or its standard error is wrong: one sentence each, by a
            short name. `estimate` issues them as DiagnosticWarnings.
        response: what the evidence is a density of, such as `log(price)`; None if not known.
        constant: what the prior leaves out, if it is improper: the log evidence then lacks a
            constant that all models with the same `response` and `constant` share, and only
            differences mean something.
        widths: of the priors, with the means to change them (`prior_sensitivity`), which keep the
            data in memory; None for a loaded, copied or unpickled result.
        fingerprints: of the data's arrays, by name: equal for the same rows in any order. For a
            `Regression`, of the columns of its response. Empty if not known, as for an `Online`
            and arrays of which a part was used. `compare` refuses results of other data.

    Example:
        >>> evidence = ev.estimate(model, data)  # doctest: +SKIP
        >>> evidence  # doctest: +SKIP
        Evidence(linear regression: -14,190.31 ± 0.11 nats, 10,000 observations, 0.9 s)
    """

    log_evidence: float
    standard_error: float
    num_observations: int
    trajectory: Trajectory
    posterior: dict[str, ndarray]
    log_weights: Float[ndarray, " particles"]
    method: Any
    model_name: str
    seed: int
    seconds: float
    completed: bool = True
    diagnostics: Mapping[str, float | int | str] = field(default_factory=dict)
    signs: Mapping[str, str] = field(default_factory=dict)
    response: str | None = None
    constant: str | None = None
    widths: Widths | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # `widths` hold the model, whose functions cannot be pickled in general.
        return {**self.__dict__, "widths": None}

    @property
    def num_particles(self) -> int:
        """Number of particles of the posterior."""
        return len(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective sample size of the posterior's weights, in particles."""
        return weights.ess(self.log_weights)

    @property
    def verdict(self) -> Verdict:
        """Whether to trust the log evidence: "trusted", "doubtful" or "failed", and why."""
        signs = {name: sentence.removeprefix(f"{self.model_name}: ") for name, sentence in self.signs.items()}
        return verdict_of(self.log_evidence, self.standard_error, signs=signs, completed=self.completed)

    def __repr__(self) -> str:
        ending = "" if self.completed else ", stopped early"
        ending += f", {self.verdict.word}" if self.signs else ""
        return (
            f"Evidence({self.model_name}: {text.with_error(self.log_evidence, self.standard_error)} nats, "
            f"{self.num_observations:,} observations, {text.duration(self.seconds)}{ending})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("log evidence (nats)", text.with_error(self.log_evidence, self.standard_error)),
            ("per observation (nats)", f"{self.log_evidence / self.num_observations:.5f}"),
            ("observations", f"{self.num_observations:,}" + ("" if self.completed else " (stopped early)")),
            ("particles", f"{self.num_particles:,}, effective {self.ess:,.0f}"),
            ("method", configuration_name(self.method)),
            ("seed", str(self.seed)),
            ("time", text.duration(self.seconds)),
            ("verdict", str(self.verdict)),
        ]
        return text.html_table(("Evidence", self.model_name), rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot log evidence per observation, with two standard errors, against the number of rows.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        """
        from evidentia.display.plots import draw_trajectory

        value = text.with_error(self.log_evidence, self.standard_error)
        return draw_trajectory(self.trajectory, f"{self.model_name}: {value} nats", ax)

    def plot_posterior(
        self, names: Sequence[str] | None = None, limit: int = 50, ax: Axes | None = None
    ) -> Axes:
        """Plot the median, 50% and 90% interval of every scalar parameter.

        Args:
            names: names of parameters, in order; all if not given.
            limit: maximum number of scalars to draw; the label says if more are left out.
            ax: axes to draw into; a new pyplot figure of suitable height if not given.

        Returns:
            The axes.

        Raises:
            ConfigurationError: a name is not that of a parameter.
        """
        from evidentia.display.plots import draw_posterior

        names = list(self.posterior) if names is None else list(names)
        if unknown := [name for name in names if name not in self.posterior]:
            known = ", ".join(self.posterior)
            raise ConfigurationError(f"names must be among {known}; got {', '.join(unknown)}.")
        chosen = {name: self.posterior[name] for name in names}
        return draw_posterior(summarise(chosen, self.log_weights, (0.05, 0.25, 0.5, 0.75, 0.95)), limit, ax)

    def to_arviz(self) -> Any:
        """The posterior for ArviZ, as one chain of equally weighted draws.

        It is a DataTree of xarray with ArviZ 1, and an InferenceData before. The particles are
        resampled once (systematically, with the run's seed), so `arviz.summary` and plots are
        correct: each particle occurs in proportion to its weight, and exactly once if all weights
        are equal. `sample_stats` has the `particle` of each draw and its `log_weight`; the
        attributes hold the log evidence, its standard error and the run's settings. The draws are
        independent particles, not a Markov chain: r-hat is meaningless.
        """
        particles = np.asarray(weights.resample(jax.random.key(self.seed), self.log_weights))
        attributes = {
            "inference_library": "evidentia",
            "inference_library_version": version("evidentia"),
            "draws": "particles resampled systematically to equal weights",
            "ess_of_particles": self.ess,
            **{name: value for name, value in self._scalars().items() if value is not None},
            "completed": int(self.completed),  # netCDF has neither booleans nor None
            "method": str(self.method),
        }
        groups = {
            "posterior": {name: values[None, particles] for name, values in self.posterior.items()},
            "sample_stats": {
                "particle": particles[None],
                "log_weight": self.log_weights[None, particles],
            },
        }
        return inference_data(groups, attributes)

    def save(self, path: str | PathLike[str]) -> None:
        """Save the result into a folder, from which `load` makes an equal one, bit for bit.

        The folder holds `evidence.json` and Parquet files: the trajectory, the posterior and the
        log weights. If a result is there, it is replaced as a whole: an interruption leaves the
        old or the new one.

        Args:
            path: the folder, or the URL of one; it is made if it does not exist.

        Raises:
            ConfigurationError: `path` is not the name of a folder.
            CheckpointError: the folder holds other files, or cannot be written to.

        Example:
            >>> evidence.save("results/linear")  # doctest: +SKIP
            >>> ev.load("results/linear").log_evidence == evidence.log_evidence  # doctest: +SKIP
            True
        """
        names = [entry.name for entry in dataclasses.fields(self) if entry.name != "widths"]
        write_result(path, {name: getattr(self, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary, with mean, deviation and 90% interval of each parameter.

        It has no particles. Non-finite numbers become None. `evidentia.compare` accepts it in
        place of the evidence.
        """
        parameters = {
            name: {"mean": mean, "standard_deviation": deviation, "quantile_05": low, "quantile_95": high}
            for name, mean, deviation, (low, high) in summarise(
                self.posterior, self.log_weights, (0.05, 0.95)
            )
        }
        return jsonable(
            {
                **self._scalars(),
                "verdict": self.verdict.to_dict(),
                "log_evidence_per_observation": self.log_evidence / self.num_observations,
                "num_particles": self.num_particles,
                "ess": self.ess,
                "num_annealing_steps": int(self.trajectory.num_annealing_steps.sum()),
                "method": configuration(self.method),
                "diagnostics": dict(self.diagnostics),
                "fingerprints": dict(self.fingerprints),
                "parameters": parameters,
            }
        )

    def _scalars(self) -> dict[str, Any]:
        names = (
            "model_name",
            "log_evidence",
            "standard_error",
            "num_observations",
            "seed",
            "seconds",
            "completed",
            "response",
            "constant",
        )
        return {name: getattr(self, name) for name in names}


def load(path: str | PathLike[str]) -> Evidence:
    """Load a result that `Evidence.save` wrote, equal to it bit for bit.

    Its `method` is the same configuration; a method with a class or function of one's own is
    loaded as text, its repr, as files hold no code. No stored code runs.

    Args:
        path: the folder or its URL; that of a model below the one that the command line wrote with
            `--out`.

    Raises:
        ConfigurationError: `path` is not the name of a folder.
        CheckpointError: there is no such folder, or it holds no saved result, a damaged one, or
            one that a newer version wrote.

    Example:
        >>> evidence = ev.load("results/linear")  # doctest: +SKIP
    """
    return Evidence(**read_result(path))


def make_evidence(
    model: BoundModel,
    method: Any,
    seed: int,
    estimate: Estimate,
    particles: tuple[Any, Float[ndarray, " particles"]],
    trajectory: Trajectory,
    diagnosis: Diagnosis,
    *,
    seconds: float,
    completed: bool,
    fingerprints: Mapping[str, str],
) -> Evidence:
    """Make the `Evidence` of a run.

    `particles` are unconstrained positions and log weights.
    """
    positions, log_weights = particles
    params = {name: np.asarray(values) for name, values in model.constrain(positions).items()}
    measured = {**diagnosis.measured, "warnings": "; ".join(diagnosis.signs)}
    if model.symmetry:
        measured["log_copies"] = log_num_copies(model)
    normalised = weights.normalise(log_weights)
    return Evidence(
        log_evidence=float(estimate.log_evidence),
        standard_error=float(estimate.standard_error),
        num_observations=int(trajectory.num_observations[-1]),
        trajectory=trajectory,
        posterior=params if model.shown is None else model.shown(params),
        log_weights=normalised,
        method=method,
        model_name=model.name,
        seed=seed,
        seconds=seconds,
        completed=completed,
        diagnostics=measured,
        signs={name: f"{model.name}: {sentence}" for name, sentence in diagnosis.signs.items()},
        widths=ModelWidths(model, params, normalised) if model.shown is None else None,
        fingerprints=fingerprints,
    )


def configuration_name(method: Any) -> str:
    """The name of a method's type, also of one that was loaded as text.

    Example:
        >>> configuration_name("Mine(num_particles=64)")
        'Mine'
    """
    return method.partition("(")[0] if isinstance(method, str) else type(method).__name__


def configuration(method: Any) -> Any:
    """A method's configuration as a nested dictionary of types and fields.

    Example:
        >>> configuration(ev.SGAIS())["num_particles"]  # doctest: +SKIP
        512
    """
    if dataclasses.is_dataclass(method) and not isinstance(method, type):
        values = {
            entry.name: configuration(getattr(method, entry.name)) for entry in dataclasses.fields(method)
        }
        return {"type": type(method).__name__, **values}
    return method if isinstance(method, bool | int | float | str | None) else repr(method)


def jsonable(value: Any) -> Any:
    """Make a value JSON-compatible: arrays become lists, and non-finite numbers None."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    if isinstance(value, np.generic | ndarray):
        return jsonable(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
