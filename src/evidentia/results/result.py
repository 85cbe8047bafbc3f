"""The result of an estimation: `Evidence`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

from numpy import ndarray

from evidentia.checkpoint.results import write_result
from evidentia.display import text
from evidentia.display.summary_table import (
    ENDS,
    Coefficients,
    KnownCoefficients,
    Row,
    Summary,
    summary_of,
)
from evidentia.errors import check_seed
from evidentia.model.width import Widths
from evidentia.posterior.summary import summarise
from evidentia.results import predicting
from evidentia.results.arviz_groups import scalars_of
from evidentia.results.configurations import configuration, configuration_name, jsonable
from evidentia.results.conversions import Conversions
from evidentia.results.pictures import Pictures
from evidentia.results.predicted import Predicted, Predictor
from evidentia.results.verdict import Verdict, verdict_of
from evidentia.results.weighted import Weighted
from evidentia.trajectory import Trajectory

IN_SESSION = "widths", "_coefficients", "_predictor"  # fields that files and pickles do not hold as they are


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(Pictures, Conversions):
    """The log evidence of a model with its error, trajectory, posterior and diagnostics.

    Attributes:
        log_evidence: estimate of log p(D), in nats.
        standard_error: of `log_evidence`, in nats, as estimated by the method; NaN if unknown,
            shown as "± ?".
        num_observations: rows of the data; of a plain function one, which is not shown.
        trajectory: the estimate after each update.
        weighted: the particles: constrained parameters by name, each (particles, ...), with
            `log_weights`, `log_likelihood` and `log_prior`.
        method: the configuration of the method.
        model_name: name of the model.
        seed: seed of the run.
        seconds: duration of the run, including compilation.
        completed: False if the run was stopped before the end of the data.
        diagnostics: further numbers and strings from the method or the caller, by name; of a
            `Regression`, `prior` says which prior its effects have.
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
    weighted: Weighted
    method: Any
    model_name: str
    seed: int
    seconds: float
    completed: bool = True
    diagnostics: Mapping[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    signs: Mapping[str, str] = field(default_factory=dict[str, str])
    response: str | None = None
    constant: str | None = None
    widths: Widths | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict[str, str])
    _coefficients: Coefficients | None = None  # of a formula, for `summary`
    _predictor: Predictor | None = None  # of draws, new data and a seed; None as for `widths`

    def __getstate__(self) -> dict[str, Any]:
        # These hold the model, whose functions cannot be pickled in general.
        kept = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        return {**kept, **dict.fromkeys(IN_SESSION), "_coefficients": self._known_coefficients()}

    def _known_coefficients(self) -> KnownCoefficients | None:
        found = self._coefficients
        return None if found is None else KnownCoefficients(tuple(found.known_rows()))

    @cached_property
    def posterior(self) -> dict[str, ndarray]:
        """Equally weighted draws by name: `posterior["slope"].mean()` is the posterior mean.

        The particles are resampled once (systematically, with the run's seed) in random order:
        each occurs in proportion to its weight, and exactly once if all weights are equal.
        `weighted` has them with their weights, which lose nothing.
        """
        return self.weighted.draws(self.seed)

    def draws(self, n: int, seed: int | None = None) -> dict[str, ndarray]:
        """`n` equally weighted draws by name, each (n, ...), in random order.

        Args:
            n: their number. More than there are particles repeat some.
            seed: of the resampling; that of the run if not given.

        Raises:
            ConfigurationError: an argument is out of range.
        """
        check_seed(self.seed if seed is None else seed)
        return self.weighted.draws(self.seed if seed is None else int(seed), n)

    def predict(self, new_data: Any = None, *, n: int | None = None, seed: int | None = None) -> Predicted:
        """Draws of new observations from the posterior predictive distribution.

        Args:
            new_data: of a `Regression`, a table of new rows with the columns of the formula,
                without the response; of others, data as the model takes them, in which the
                response may be missing or has values that are not used. Of a PyMC model, values of
                its `pm.Data` containers. If not given, the data of the run, other than of a
                `Regression`.
            n: number of draws; one for each particle if not given.
            seed: of the draws; that of the run if not given.

        Returns:
            A mapping from observed variables to arrays (draws, rows, ...), with `to_pandas()`:
            mean, deviation and 95% interval of each row.

        Raises:
            ConfigurationError: the model cannot simulate, as one with `groups`, the result was
                loaded or copied, or the data of the run are not in memory.
            DataError, ModelError: data that the model cannot use.

        Example:
            >>> evidence = ev.estimate(ev.Regression("price ~ carat"), table)  # doctest: +SKIP
            >>> evidence.predict({"carat": [0.5, 1.0]}).to_pandas()  # doctest: +SKIP
        """
        return predicting.predict(self, new_data, n, seed)

    @property
    def logz(self) -> float:
        """`log_evidence`, by the name that nested samplers use."""
        return self.log_evidence

    @property
    def logzerr(self) -> float:
        """`standard_error`, by the name that nested samplers use."""
        return self.standard_error

    @property
    def num_particles(self) -> int:
        """Number of particles of the posterior."""
        return len(self.weighted.log_weights)

    @property
    def ess(self) -> float:
        """Effective sample size of the posterior's weights, in particles."""
        return self.weighted.ess

    @property
    def verdict(self) -> Verdict:
        """Whether to trust the log evidence: "trusted", "doubtful" or "failed", and why."""
        signs = {name: sentence.removeprefix(f"{self.model_name}: ") for name, sentence in self.signs.items()}
        return verdict_of(self.log_evidence, self.standard_error, signs=signs, completed=self.completed)

    def __repr__(self) -> str:
        ending = "" if self.completed else ", stopped early"
        ending += f", {self.verdict.word}" if self.signs else ""
        ending += f", prior {self.diagnostics['prior']}" if "prior" in self.diagnostics else ""
        rows = f"{self.num_observations:,} observations, " if text.is_count(self.num_observations) else ""
        return (
            f"Evidence({self.model_name}: {text.with_error(self.log_evidence, self.standard_error)} nats, "
            f"{rows}{text.duration(self.seconds)}{ending})"
        )

    def __str__(self) -> str:
        rows = self._coefficients.rows() if self._coefficients is not None else []
        return f"{self!r}\n\n{self.summary()!r}" if rows else repr(self)

    def summary(self) -> Summary:
        """The parameters: mean, deviation, 95% interval, and Bayes factors for a formula.

        The coefficients of a formula come first, then its other parameters, such as `scale` and
        the deviations of groups. The Bayes factor is that of the formula against the same without
        the column. Under JZS and unit-information priors all numbers are exact. Otherwise mean,
        deviation and interval are those of the draws, and the Bayes factor is the ratio of prior
        and posterior density at 0 (Savage and Dickey), with its error; `print` shows the same
        table. Files and pickles keep it, with Bayes factors that are exact or were asked for
        before. Of other models it has all parameters, without Bayes factors, with the Monte Carlo
        standard error of each mean.

        Example:
            >>> evidence = ev.estimate(ev.Regression("y ~ x"), table)  # doctest: +SKIP
            >>> evidence.summary().to_pandas().loc["x", "bf10"]  # doctest: +SKIP
            417938.6
        """
        if self._coefficients is not None:
            rows = self._coefficients.rows()
            return summary_of(self.model_name, rows, str(self.diagnostics.get("left_out", "")))
        found = summarise(self.weighted, self.weighted.log_weights, ENDS)
        rows = [
            Row(one.name, one.mean, one.standard_deviation, *one.quantiles, mcse=one.mcse) for one in found
        ]
        return summary_of(self.model_name, rows)

    def _repr_html_(self) -> str:
        counted = [
            ("per observation (nats)", f"{self.log_evidence / self.num_observations:.5f}"),
            ("observations", f"{self.num_observations:,}" + ("" if self.completed else " (stopped early)")),
        ]
        rows = [
            ("log evidence (nats)", text.with_error(self.log_evidence, self.standard_error)),
            *(counted if text.is_count(self.num_observations) else []),
            ("particles", f"{self.num_particles:,}, effective {self.ess:,.0f}"),
            ("method", configuration_name(self.method)),
            ("seed", str(self.seed)),
            ("time", text.duration(self.seconds)),
            ("verdict", str(self.verdict)),
            *([("prior", str(self.diagnostics["prior"]))] if "prior" in self.diagnostics else []),
        ]
        table = text.html_table(("Evidence", self.model_name), rows)
        return table if self._coefficients is None else table + self.summary()._repr_html_()  # pyright: ignore[reportPrivateUsage] of IPython's protocol

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
        names = [entry.name for entry in dataclasses.fields(self) if entry.name not in IN_SESSION]
        kept = {name: getattr(self, name) for name in names if name != "weighted"}
        kept |= {"posterior": self.weighted.parameters, "log_weights": self.weighted.log_weights}
        known: dict[str, Any] = {"known": self.weighted.known} if self.weighted.known else {}
        if (found := self._known_coefficients()) is not None:
            known["coefficients"] = [tuple(row) for row in found.known]
        write_result(path, kept | known)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary, with mean, deviation and 90% interval of each parameter.

        It has no particles. Non-finite numbers become None. `evidentia.compare` accepts it in
        place of the evidence.
        """
        parameters = {
            name: {"mean": mean, "standard_deviation": deviation, "quantile_05": low, "quantile_95": high}
            for name, mean, deviation, (low, high), _ in summarise(
                self.weighted, self.weighted.log_weights, (0.05, 0.95)
            )
        }
        return jsonable(
            {
                **scalars_of(self),
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
