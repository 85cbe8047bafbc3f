"""A model: a prior and a pointwise log-likelihood, as a user writes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, cast

import jax
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import DataError, ModelError
from evidentia.model import likelihoods, statements
from evidentia.model.binding import Kind, bound
from evidentia.model.bound import BoundModel, SamplePosterior, Shown
from evidentia.model.local.packs import are_packs
from evidentia.model.program import LogLikelihood, Observations, Prior, Program
from evidentia.model.ways_in import Exchangeable, WaysIn, check_no_groups

Predict = Callable[[Mapping[str, np.ndarray], Any, int], Mapping[str, np.ndarray]]


@dataclass(frozen=True, eq=False, repr=False)
class Model(WaysIn):
    """A prior and a pointwise log-likelihood.

    Attributes:
        prior: NumPyro distributions by name. An entry may instead be a function of the preceding
            parameters (a dict) that returns a distribution. For a model made by `from_numpyro` it
            is the NumPyro function.
        log_likelihood: `(params, batch) -> (batch,)`: one number per observation in nats, computed
            with `jax.numpy`. `params` maps the names in `prior` to constrained values; `batch`
            holds some rows of the data, in the data's structure.
        name: the name shown in results.
        exchangeable: names of parameters whose leading axis indexes components that can be
            permuted without changing the model, such as a mixture's weights, means and variances.
            For other axes, a name with one or two of them, such as `("transition", 0, 1)`.
        check_data: raises DataError for data (NumPy arrays) that the model cannot use, such as
            labels out of range.
        simulate: `data, params = simulate(num_observations, seed)`, params drawn from the prior.
        exact_log_evidence: the exact log evidence of data in nats, if known.
        pointwise: False if rows depend on each other, as in a Gaussian process or an
            autoregression: `log_likelihood(params, data) -> ()` then has all data at once, arrays
            of any shapes, and returns one number. Only `estimate`, with data in memory, takes
            such a model: every look is one at all data, and there is no trajectory over rows.
            None, the default of `from_numpyro`: `estimate` finds out.
        data: the data that the model brings along: what `estimate(model)` uses.
        shown: what results show in place of the parameters: a function of the posterior draws by
            name, with draws on the leading axis, that returns others.
        missing: names of arrays of the data in which NaN is a missing value, which
            `log_likelihood` deals with.
        starts: parameters by name at which searches for modes begin, in place of likely draws from
            the prior: for log-likelihoods that take long. Values are then not checked before the
            run, and symmetries not looked for.
        groups: for a model of `from_numpyro`: the column of the data with the number of each row's
            group, 0 and up, that looks up latents with a value for each group.
        sample_posterior: `params = sample_posterior(data, num_draws, seed)`: exact independent
            posterior draws given data (NumPy arrays), if available, as constrained values by name
            with draws on the leading axis. Estimators that need posterior draws use these, not a
            Markov chain.

        predict: `arrays = predict(params, data, seed)`: new observations by name, (draws, rows,
            ...), at parameters with draws on the leading axis, for `Evidence.predict`. Models of
            `from_numpyro` and `from_pymc` have it.

    The functions are traced once for each shape of data, as by `jax.jit`: values in their closures
    must not change afterwards. A rebuilt model is traced again, but compiles nothing if it
    computes the same.

    Raises:
        ModelError: the prior does not consist of NumPyro distributions, or the log-likelihood is
            not a function.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpyro.distributions as dist
        >>> def log_likelihood(params, batch):
        ...     return dist.Normal(params["mean"], params["scale"]).log_prob(batch["y"])
        >>> Model({"mean": dist.Normal(0, 1), "scale": dist.HalfNormal(1)},
        ...       log_likelihood, name="normal")
        Model('normal')
    """

    prior: Prior | Program
    log_likelihood: LogLikelihood
    name: str = "model"
    exchangeable: Exchangeable = ()
    check_data: Callable[[Any], None] | None = None
    simulate: Callable[[int, int], tuple[Any, dict[str, np.ndarray]]] | None = None
    exact_log_evidence: Callable[[Any], float] | None = None
    sample_posterior: SamplePosterior | None = None
    predict: Predict | None = None
    pointwise: bool | None = True
    data: Any = None
    shown: Shown | None = None
    groups: str | None = None
    starts: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[str, ...] = ()
    _bound: dict[Any, BoundModel] = field(default_factory=dict[Any, BoundModel], init=False)

    def __post_init__(self) -> None:
        if not callable(self.log_likelihood) or isinstance(self.log_likelihood, type):
            raise ModelError(
                f"log_likelihood must be a function (params, batch) -> (batch,); got {self.log_likelihood!r}."
            )
        if not isinstance(self.exchangeable, tuple | list) or not all(map(_is_named, self.exchangeable)):
            raise ModelError(
                "exchangeable must be a tuple of names of parameters, such as ('means',), or of names with one or two axes, such as "
                f"('transition', 0, 1); got {self.exchangeable!r}."
            )
        if not isinstance(self.missing, tuple | list) or not all(
            isinstance(one, str) for one in self.missing
        ):
            raise ModelError(
                f"missing must be a tuple of names of arrays in the data, such as ('y',); got {self.missing!r}."
            )
        if not self.is_program:
            statements.check_prior(self.prior)

    def with_own_data(self) -> "Model":
        """This model with the data that it brings along, also in defaults of its arguments.

        Raises:
            DataError: it brings none along.
            ModelError: its data are defaults, and `groups` names a column.
        """
        if self.data is not None:
            return self
        if not (self.is_program and likelihoods.runs_without_data(self.prior)):
            raise DataError(f"data is missing: the model {self.name!r} brings none along.")
        check_no_groups(self.groups)
        program = partial(likelihoods.without_data, self.prior)
        whole = likelihoods.joint(program)
        return replace(
            self, prior=program, log_likelihood=whole, pointwise=False, data={statements.NO_DATA: 0}
        )

    def bind(self, batch: Observations) -> BoundModel:
        """This model bound to the shapes of `batch`, which is the data or a few rows of it.

        The same model and shapes (apart from the number of rows) give the same object.

        Raises:
            ModelError: the prior or the log-likelihood cannot be used; the message says what is
                needed.
        """
        if self.pointwise is False:
            raise ModelError(
                f"the rows of {self.name!r} depend on each other (pointwise=False): only evidentia.estimate, with data in "
                "memory on one device, takes such a model; and Online, one sequence of Model.from_recursion."
            )
        if self.groups is None:
            return self._cached(batch, "rows")
        if are_packs(batch):
            return self.bind_groups(batch)
        raise ModelError(
            f"{self.name!r} has latents of groups (groups={self.groups!r}), whose rows must be together: only "
            "evidentia.estimate, with data in memory on one device, and Online take such a model."
        )

    def bind_whole(self, one_row: Observations) -> BoundModel:
        """This model bound to a table of one row, which is all data.

        Raises:
            ModelError: as `bind`.
        """
        return self._cached(one_row, "whole")

    def bind_groups(self, packs: Mapping[str, np.ndarray]) -> BoundModel:
        """This model bound to all data, in packs of groups.

        Raises:
            ModelError: as `bind`.
        """
        assert self.groups is not None
        return self._cached(packs, "groups", (int(packs[self.groups].max()),))  # densities depend on it

    def __repr__(self) -> str:
        return f"Model({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it was written, without what tracing found."""
        if self.is_program:
            return _from_numpyro, (
                self.prior,
                self.name,
                self.exchangeable,
                self.pointwise,
                self.data,
                self.groups,
            )
        return Model, tuple(getattr(self, each.name) for each in fields(self) if each.init)

    @property
    def is_program(self) -> bool:
        """Whether the prior is a NumPyro function, with the likelihood."""
        is_distribution = isinstance(self.prior, dist.Distribution)  # also callable
        return callable(self.prior) and not is_distribution

    def _cached(self, batch: Observations, kind: Kind, counts: tuple[int, ...] = ()) -> BoundModel:
        leaves, structure = cast("tuple[list[Any], Any]", jax.tree.flatten(batch))
        key = kind, counts, structure, tuple((leaf.shape[1:], str(leaf.dtype)) for leaf in leaves)
        if key not in self._bound:
            self._bound[key] = bound(self, batch, kind)
        return self._bound[key]


def _is_named(entry: Any) -> bool:
    """Whether an entry of `exchangeable` is a name, or a name with one axis or two."""
    if isinstance(entry, str):
        return True
    if not isinstance(entry, tuple | list):
        return False
    parts = cast("Sequence[Any]", entry)
    if len(parts) not in (2, 3):
        return False
    name, *axes = parts
    are_axes = all(isinstance(axis, int) and not isinstance(axis, bool) for axis in axes)
    return isinstance(name, str) and are_axes and len(set(axes)) == len(axes)


def _from_numpyro(
    function: Program,
    name: str,
    exchangeable: Exchangeable,
    pointwise: bool | None,
    data: Any,
    groups: str | None,
) -> Model:
    model = Model.from_numpyro(
        function, name=name, exchangeable=exchangeable, pointwise=pointwise, groups=groups
    )
    return replace(model, data=data)
