"""The ways in: models from NumPyro functions, recursions, plain functions and PyMC."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import numpyro.distributions as dist

from evidentia.errors import ModelError
from evidentia.model import likelihoods, statements
from evidentia.model.outside import outside_likelihood
from evidentia.model.predictive import of_numpyro, of_pymc
from evidentia.model.program import Prior
from evidentia.model.pymc import PyMCProgram, of_bambi, translated
from evidentia.model.recursion import Init, Recursion, Step, check_sequences

Exchangeable = tuple[str | tuple[Any, ...], ...]  # names, or a name with its axes


class WaysIn:
    """Constructors of a `Model` of what was written for something else."""

    data: Any

    if TYPE_CHECKING:  # that of the dataclass

        def __init__(self, prior: Any, log_likelihood: Any, **fields: Any) -> None: ...

    @classmethod
    def from_numpyro(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        exchangeable: Exchangeable = (),
        pointwise: bool | None = None,
        groups: str | None = None,
    ) -> Self:
        """A model from a NumPyro function, called as `function(**batch)`.

        Its latent sites are the parameters, its observed sites the likelihood. Latent sites must
        be continuous, with shapes independent of the number of rows. Each observed site has one
        log-probability per row; otherwise, as with a `MultivariateNormal` over the rows,
        `estimate` takes up to 10,000 rows together as one observation, and the result says so
        (`diagnostics["trajectory"]`). `pointwise=False` asks for that: latent sites may then
        have any shapes, and the function loops. Continuous latents with a value in each row are
        integrated out, and so are those with a value for each group, if `groups` is the column of
        the data that looks them up, as in `alpha[county]`: for `estimate` with data in memory, and
        `Online`. A function that can be called without arguments holds its data itself, or in
        their defaults, all as one observation: `estimate(model)`.

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
            check_no_groups(groups)
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
    ) -> Self:
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
            check_data=partial(check_sequences, recursion.is_one, time, missing),
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
    ) -> Self:
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
    ) -> Self:
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
        return replace(cast("Any", made), data=found.data or made.data, predict=predict)


def check_no_groups(groups: str | None) -> None:
    """Raise ModelError if `groups` names a column of data that a function does not take."""
    if groups is not None:
        raise ModelError(
            f"groups={groups!r} names a column of the data, but the function is called without any. Make them its arguments, and "
            "give data."
        )


def _without_arguments(function: Any) -> Any:
    return function.func if isinstance(function, partial) else function
