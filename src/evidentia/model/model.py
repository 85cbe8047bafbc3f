"""A model: a prior and a pointwise log-likelihood, as a user writes them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
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
from evidentia.model.local.packs import GROUP_OF_STRIP
from evidentia.model.outside import outside_likelihood
from evidentia.model.predictive import of_numpyro, of_pymc
from evidentia.model.program import LogLikelihood, Observations, Prior, Program
from evidentia.model.pymc import PyMCProgram, of_bambi, translated
from evidentia.model.recursion import Init, Recursion, Step, check_sequences

Exchangeable = tuple[str | tuple[Any, ...], ...]  # names, or a name with its axes
Predict = Callable[[Mapping[str, np.ndarray], Any, int], Mapping[str, np.ndarray]]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
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

    @classmethod
    def from_numpyro(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        exchangeable: Exchangeable = (),
        pointwise: bool | None = None,
        groups: str | None = None,
    ) -> "Model":
        """A model from a NumPyro function, called as `function(**batch)`.

        Its latent sites are the parameters, its observed sites the likelihood. Latent sites must
        be continuous, with shapes independent of the number of rows. Each observed site has one
        log-probability per row; otherwise, as with a `MultivariateNormal` over the rows,
        `estimate` takes up to 10,000 rows together as one observation, and the result says so
        (`diagnostics["trajectory"]`). `pointwise=False` asks for that: latent sites may then
        have any shapes, and the function loops. Continuous latents with a value in each row are
        integrated out, and so are those with a value for each group, if `groups` is the column of
        the data that looks them up, as in `alpha[county]`; the evidence of groups is for
        `estimate` with data in memory. A function that can be called without arguments holds its
        data itself, or in their defaults, all as one observation: `estimate(model)`.

        Raises:
            ModelError: `function` is not a function, or `groups` comes with `pointwise`; or, at
                the first use, a site is not supported, with its name.

        Example:
            >>> import numpyro, numpyro.distributions as dist
            >>> def coin(y):
            ...     bias = numpyro.sample("bias", dist.Beta(1, 1))
            ...     numpyro.sample("y", dist.Bernoulli(bias), obs=y)
            >>> Model.from_numpyro(coin)
            Model('coin')
        """
        if not callable(function) or isinstance(function, type):
            raise ModelError(f"function must be a function with numpyro.sample statements; got {function!r}.")
        if groups is not None and pointwise is not None:
            raise ModelError(f"groups={groups!r} needs pointwise to be left out: groups are independent.")
        named = _without_arguments(function)
        default = getattr(named, "__name__", type(named).__name__)
        data: dict[str, Any] | None = None
        own: Callable[..., Any] = function
        if likelihoods.takes_no_data(function):
            _check_no_groups(groups)
            function, pointwise, data = (
                partial(likelihoods.without_data, function),
                False,
                {statements.NO_DATA: 0},
            )
        log_likelihood = (
            likelihoods.pointwise(function) if pointwise is not False else likelihoods.joint(function)
        )
        simulates = groups is None and not isinstance(named, PyMCProgram)
        return cls(
            function,
            log_likelihood,
            predict=partial(of_numpyro, own) if simulates else None,
            name=name or default,
            exchangeable=exchangeable,
            pointwise=pointwise,
            data=data,
            groups=groups,
        )

    @classmethod
    def from_recursion(
        cls,
        prior: Prior,
        init: Init,
        step: Step,
        *,
        many_sequences: bool = False,
        time: str | None = None,
        missing: tuple[str, ...] = (),
        exchangeable: Exchangeable = (),
        name: str = "recursion",
    ) -> "Model":
        """A model of sequences, whose rows depend on the rows before through a state.

        `step` has the form that `jax.lax.scan` takes, with the parameters first. The evidence of
        one sequence is that of all its rows; with `many_sequences`, sequences are independent
        given the parameters, and are what mini-batches, streams and chunks are made of.

        Args:
            prior: as for `Model`.
            init: `init(params) -> state`, before the first row: an array, or a tuple or dict.
            step: `step(params, state, row) -> (state, log_predictive)`: the log density in nats of
                a row given the rows before and the parameters, (), and the state after it. It is
                called with one row of the data, in their structure.
            many_sequences: whether data hold many sequences: `{"y": (sequences, time, ...)}`
                instead of `{"y": (time, ...)}`, in arrays with a value at all times, or with
                `"lengths"`, (sequences,), the number of rows of each; what is beyond is not used.
            time: the name of an array of times, which must increase from row to row. `step` gets
                it like the others.
            missing: names of arrays in which NaN is a missing value. `step` gets it, and returns
                the state that it predicts with a log predictive of 0. It must not compute with
                NaN, not even in the branch of a `jnp.where` that is not used: gradients would be
                NaN.
            exchangeable: as for `Model`.
            name: the name shown in results.

        Raises:
            ModelError: `init` or `step` is not a function, or an argument of the wrong type; when
                the model meets data, also if one of them fails, or the state changes its shape.

        Example:
            >>> import jax.numpy as jnp, numpyro.distributions as dist
            >>> def step(params, before, row):
            ...     mean = params["slope"] * before
            ...     return row["y"], dist.Normal(mean, 1.0).log_prob(row["y"])
            >>> Model.from_recursion({"slope": dist.Normal(0, 1)}, lambda params: 0.0, step)
            Model('recursion')
        """
        for what, function in (("init", init), ("step", step)):
            if not callable(function) or isinstance(function, type):
                raise ModelError(f"{what} must be a function; got {function!r}.")
        if time is not None and not isinstance(time, str):
            raise ModelError(f"time must be the name of an array in the data; got {time!r}.")
        recursion = Recursion(init, step, is_one=not many_sequences)
        return cls(
            prior,
            recursion,
            name=name,
            exchangeable=exchangeable,
            check_data=partial(check_sequences, recursion.is_one, time),
            pointwise=bool(many_sequences),
            missing=missing,
        )

    @classmethod
    def from_callable(
        cls,
        log_likelihood: Callable[[Any], Any],
        prior_transform: Callable[[Any], Any] | None = None,
        *,
        prior: Mapping[str, dist.Distribution] | None = None,
        num_parameters: int | None = None,
        names: Sequence[str] | None = None,
        vectorized: bool = False,
        periodic: Sequence[str | int] = (),
        executor: Executor | None = None,
        name: str = "model",
    ) -> "Model":
        """A model whose log-likelihood is not written in JAX, as nested samplers take them.

        `estimate(model)` needs no data. Without a gradient its method is `AMIS()`; others are
        `SMC(kernel=kernels.RandomWalk())`, `NestedSampling(kernel=kernels.ConstrainedWalk())` and
        `PriorSampling()`. Every point is evaluated once, and at the end some again, as
        the function must not be random; `diagnostics["num_evaluations"]` counts.
        `estimate(model, checkpoint=folder)` keeps the evaluations.

        Args:
            log_likelihood: a function of the vector of parameters, of float64, that returns their
                log-likelihood in nats; with a `prior`, of a mapping from names to values.
            prior_transform: parameters from a vector in the unit cube.
            prior: NumPyro distributions by name, in place of a `prior_transform`.
            num_parameters: their number, with a `prior_transform`; they are called x0, x1, ….
            names: of the parameters, in place of `num_parameters`.
            vectorized: whether the functions take many points at once, on the leading axis.
            periodic: names or indices of parameters whose unit interval is a circle.
            executor: of `concurrent.futures` or alike, at whose workers points are evaluated. The
                functions, with the data that they hold, are sent once to each.
            name: the name shown in results.

        Raises:
            ModelError: an argument cannot be used.
            ConfigurationError: the executor cannot be used, or be given the functions.

        Example:
            >>> from scipy.stats import norm
            >>> def log_likelihood(x):
            ...     return norm.logpdf(1.0, x[0], 0.1)
            >>> model = Model.from_callable(log_likelihood, lambda u: 4 * u - 2, num_parameters=1)
            >>> ev.estimate(model).log_evidence  # doctest: +SKIP
            -1.386
        """
        made = outside_likelihood(
            log_likelihood,
            prior_transform,
            prior,
            num_parameters=num_parameters,
            names=names,
            vectorized=vectorized,
            periodic=periodic,
            executor=executor,
            name=name,
        )
        return cls(made[0], made[1], name=name, pointwise=False, data={statements.NO_DATA: 0}, shown=made[2])

    @classmethod
    def from_pymc(
        cls,
        pm_model: Any,
        *,
        name: str | None = None,
        exchangeable: Exchangeable = (),
        pointwise: bool | None = None,
        groups: str | None = None,
    ) -> "Model":
        """A model from a PyMC or Bambi model, with its data: `estimate(model)`.

        A Bambi model is built if it is not yet, and named after its formula.

        Free variables are the parameters, on their own scale, observed variables and Potential
        terms the likelihood. Free variables must be continuous, with proper priors; ordered ones
        get the density of ordered values, k! times that of k single ones.

        The data are the model's `pm.Data` containers with one value per row, by their names,
        observed arrays by the names of their variables, and other arrays with one value per row
        as `constant_1` and so on. `estimate(model, data)` takes other values of the same names.
        As for `from_numpyro`, rows are independent if each has its log-probability; otherwise,
        and with `pointwise=False`, all data are one observation.

        Raises:
            ModelError: PyMC is not installed or of a version that is not supported; or a part of
                the model is not supported, with its name.

        Example:
            >>> import pymc as pm
            >>> with pm.Model() as coin:
            ...     bias = pm.Beta("bias", 1, 1)
            ...     heads = pm.Bernoulli("heads", bias, observed=[1, 0, 1, 1])
            >>> Model.from_pymc(coin, name="coin")
            Model('coin')
        """
        pm_model, formula = of_bambi(pm_model)
        found = translated(pm_model, name or formula)
        made = cls.from_numpyro(
            found.program,
            name=found.program.name,
            exchangeable=exchangeable,
            pointwise=found.pointwise if pointwise is None and groups is None else pointwise,
            groups=groups,
        )
        predict = partial(of_pymc, pm_model) if groups is None else None
        return replace(made, data=found.data or made.data, predict=predict)

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
        _check_no_groups(self.groups)
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
        if self.groups is not None:
            raise ModelError(
                f"{self.name!r} has latents of groups (groups={self.groups!r}), whose rows must be together: only "
                "evidentia.estimate, with data in memory on one device, takes such a model."
            )
        return self._cached(batch, "rows")

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
        counts = int(packs[self.groups].max()), int(packs[GROUP_OF_STRIP].max())  # densities depend on them
        return self._cached(packs, "groups", counts)

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


def _without_arguments(function: Any) -> Any:
    return function.func if isinstance(function, partial) else function


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


def _check_no_groups(groups: str | None) -> None:
    if groups is not None:
        raise ModelError(
            f"groups={groups!r} names a column of the data, but the function is called without any. Make them its arguments, and "
            "give data."
        )


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
