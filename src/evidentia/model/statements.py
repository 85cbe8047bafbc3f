"""The sites of a program and their shapes, with the checks that need no numbers."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.primitives import Messenger

from evidentia.errors import DependentRowsError, ModelError, attempt
from evidentia.model.arguments import unset
from evidentia.model.broadcasting import check_not_repeated
from evidentia.model.enumeration import is_summed_out, support_of
from evidentia.model.program import Program, Site, bijector, log_prob, run_traced

Rows = Mapping[str, Any]
NO_DATA = "no_data"  # the argument of a program that holds its data itself


class Statement(NamedTuple):
    """A `numpyro.sample` or `numpyro.factor` statement.

    Discrete latents are summed out; local ones, with a value in each row, are integrated out.
    """

    observed: bool
    is_factor: bool
    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]
    log_prob_shape: tuple[int, ...]
    is_summed_out: bool = False
    is_local: bool = False


def statements_of(
    program: Program, rows: Rows, *, is_whole: bool = False, sums_out: bool = True
) -> dict[str, Statement]:
    """The sample statements of a program called with `rows`, by name; the program is only traced.

    Loops (`numpyro.contrib.control_flow`) are for models of all data as a whole. Discrete latents
    are for programs that have the likelihood, too (`sums_out`).

    Raises:
        ModelError: evidentia cannot use a statement, or the program itself fails.
    """
    statements: dict[str, Statement] = {}

    def run(key, rows):
        checked = _Checked(handlers.seed(program, key), is_whole, sums_out)
        called_with = {name: array[0] for name, array in rows.items()} if is_whole else rows
        for name, message in run_traced(checked, rows).items():
            if message["type"] == "sample":
                if message["is_observed"]:
                    check_not_repeated(message, called_with)
                statements[name] = _statement(message)

    attempt("the model", lambda: jax.eval_shape(run, jax.eval_shape(lambda: jax.random.key(0)), dict(rows)))
    return statements


def latent_sites(statements: Mapping[str, Statement]) -> dict[str, Site]:
    """Latent sites in the order of the unconstrained vector; none if all is fixed or observed."""
    sites: dict[str, Site] = {}
    start = 0
    for name, statement in statements.items():
        if not (statement.observed or statement.is_summed_out or statement.is_local):
            stop = start + math.prod(statement.unconstrained_shape)
            sites[name] = Site(statement.shape, statement.unconstrained_shape, start, stop)
            start = stop
    return sites


def local_sizes(statements: Mapping[str, Statement]) -> dict[str, int]:
    """How many unconstrained numbers each local site has in a row."""
    return {
        name: math.prod(statement.unconstrained_shape[1:])
        for name, statement in statements.items()
        if statement.is_local
    }


def check_prior(prior: Any) -> None:
    """Raise ModelError unless `prior` maps names to distributions or functions returning them."""
    if not isinstance(prior, Mapping):
        raise ModelError(f"prior must map parameter names to NumPyro distributions; got {prior!r}.")
    for name, value in prior.items():
        if not isinstance(name, str):
            raise ModelError(f"the names in prior must be strings; got {name!r}.")
        if not isinstance(value, dist.Distribution) and (isinstance(value, type) or not callable(value)):
            raise ModelError(
                f"prior[{name!r}] must be a NumPyro distribution such as dist.Normal(0, 1), or a function of the "
                f"preceding parameters that returns one; got {value!r}."
            )


def statements_by_row(program: Program, few: Rows, more: Rows) -> dict[str, Statement]:
    """As `statements_of`, of a model that splits by observation.

    Raises:
        DependentRowsError: it does not have one log-probability per row, or fails with some of
            the rows.
        ModelError: as `statements_of`; or a latent site depends on the number of rows in another
            way than that it has a value in each.
    """
    try:
        first, second = statements_of(program, few), statements_of(program, more)
    except ModelError as error:
        if isinstance(error.__cause__, Exception):  # raised by the model itself
            raise DependentRowsError(str(error)) from error.__cause__
        raise
    _check_splits_by_row(first, second, few, more)
    check_observes(first, few, program)
    shapes = {name: (statement.shape, second[name].shape) for name, statement in first.items()}
    return {
        name: statement._replace(is_local=not statement.observed and shapes[name][0] != shapes[name][1])
        if not statement.is_summed_out
        else statement
        for name, statement in first.items()
    }


def _check_splits_by_row(
    first: Mapping[str, Statement], second: Mapping[str, Statement], few: Rows, more: Rows
) -> None:
    """Raise ModelError unless a NumPyro model splits by observation.

    `first` and `second` are its statements for `few` and `more` rows: a shape that differs between
    them depends on the number of rows.
    """
    counts = [len(next(iter(rows.values()))) for rows in (few, more)]
    if first.keys() != second.keys():
        names = ", ".join(sorted(first.keys() ^ second.keys()))
        raise ModelError(
            f"the sites of a model must not depend on the number of observations; these do: {names}."
        )
    for name in first:
        if first[name].is_factor:
            _check_no_pairs(name, first[name], second[name], counts)
    check_observed(first, few)
    check_observed(second, more)
    for name in first:
        if first[name].observed:
            continue
        if first[name].is_summed_out:
            _check_summed_out(name, first[name], counts[0])
            _check_summed_out(name, second[name], counts[1])
        elif first[name].shape != second[name].shape and not (
            _has_value_in_each_row(first[name], counts[0]) and _has_value_in_each_row(second[name], counts[1])
        ):
            raise ModelError(
                f"site {name!r} is latent and its shape depends on the number of observations: {first[name].shape} for "
                f"{counts[0]}, {second[name].shape} for {counts[1]}. Only values in each row, on the leading axis, are integrated "
                f"out; or, if it should be observed, put its values into data (which holds {', '.join(few)}); or, if rows are few, make it a "
                "parameter like others: from_numpyro(..., pointwise=False)."
            )


def check_observed(statements: Mapping[str, Statement], rows: Rows) -> None:
    """Raise DependentRowsError unless observed sites have one log-probability per row."""
    count = len(next(iter(rows.values())))
    for name, statement in statements.items():
        if statement.observed:
            _check_observed(name, statement, count)


def _check_no_pairs(name: str, first: Statement, second: Statement, counts: list[int]) -> None:
    """Raise ModelError for a factor of pairs of rows: most are shapes broadcast by mistake."""
    shapes = first.log_prob_shape, second.log_prob_shape
    if all(shape.count(rows) > 1 for shape, rows in zip(shapes, counts, strict=True)):
        raise ModelError(
            f"numpyro.factor {name!r} has a number for each pair of rows: shape {shapes[0]} for {counts[0]} rows. Check how its shapes "
            "broadcast; if pairs are meant, sum over them in the model."
        )


def _has_value_in_each_row(statement: Statement, rows: int) -> bool:
    return statement.shape[:1] == statement.unconstrained_shape[:1] == (rows,)


def check_observes(statements: Mapping[str, Statement], few: Rows, program: Program) -> None:
    """Raise ModelError unless a model has an observed site."""
    if not any(statement.observed for statement in statements.values()):
        if left_out := unset(program, few):
            raise ModelError(
                f"the model has no observed site: data holds {', '.join(few)}, and without {', '.join(left_out)}, None by default, all "
                "sites are latent. Give the observations by that name."
            )
        held = "it was called without data" if list(few) == [NO_DATA] else f"data holds {', '.join(few)}"
        raise ModelError(
            f"the model has no observed site: pass the data as obs= to a numpyro.sample statement ({held})."
        )


def _statement(message: Any) -> Statement:
    distribution, shape = message["fn"], jnp.shape(message["value"])
    if message["is_observed"]:
        is_factor = isinstance(_base(distribution), dist.Unit)
        return Statement(True, is_factor, shape, (), jnp.shape(log_prob(message)))
    if is_summed_out(message):
        return Statement(False, False, shape, (), jnp.shape(log_prob(message)), is_summed_out=True)
    return Statement(False, False, shape, biject_to(distribution.support).inverse_shape(shape), ())


class _Checked(Messenger):
    """Checks every statement of a program before it is executed, and changes nothing."""

    def __init__(self, program: Program, is_whole: bool, sums_out: bool):
        super().__init__(program)
        self._sums_out = sums_out
        self._refused = ("param", "mutable", *(() if is_whole else ("control_flow", "prng_key")))

    def process_message(self, msg: Any) -> None:
        if msg["type"] in self._refused:
            raise ModelError(
                f"the model uses numpyro's {msg['type']} ({msg.get('name')!r}); only sample, deterministic, factor and "
                "plate statements are supported, and loops in a model of all data at once (pointwise=False)."
            )
        if msg["type"] == "plate":
            _check_plate(msg)
        if msg["type"] == "sample" and msg["value"] is None:
            _check_latent(msg, self._sums_out)


def _check_plate(message: Any) -> None:
    size, subsample_size = message["args"]
    if subsample_size is not None and subsample_size != size:
        raise ModelError(
            f"plate {message['name']!r} takes {subsample_size} of {size} rows; the model must use all of them. Drop "
            "subsample_size: evidentia draws the mini-batches itself."
        )


def _check_latent(message: Any, sums_out: bool) -> None:
    name, distribution = message["name"], message["fn"]
    kind = type(_base(distribution)).__name__
    if kind in ("ImproperUniform", "Delta"):
        raise ModelError(
            f"site {name!r} has the prior {kind}, which is not a probability density: the evidence needs a proper prior."
        )
    if distribution.is_discrete and sums_out:
        support_of(name, distribution)
    elif distribution.is_discrete:
        raise ModelError(
            f"site {name!r} is a discrete latent ({kind}); parameters must be continuous. Sum it out of the "
            "likelihood, as Model.from_numpyro does; or, if it should be observed, put its values into data."
        )
    else:
        bijector(message)


def _check_summed_out(name: str, statement: Statement, rows: int) -> None:
    if statement.log_prob_shape == (rows,):
        return
    if not statement.shape:
        raise DependentRowsError(f"site {name!r} is discrete, with one value for all rows.")
    raise ModelError(
        f"site {name!r} is a discrete latent of shape {statement.shape}; only those with one value in each of {rows} rows, "
        "or a single one for all, are summed out. Give each value a site of its own."
    )


def _check_observed(name: str, statement: Statement, rows: int) -> None:
    shape = statement.log_prob_shape
    if shape == (rows,):
        return
    what = f"numpyro.factor {name!r}" if statement.is_factor else f"observed site {name!r}"
    if len(shape) > 1 and shape[0] == rows and rows not in shape[1:]:
        error, hint = ModelError, f"Add .to_event({len(shape) - 1}) to its distribution"
    else:
        error = DependentRowsError
        hint = "Rows belong on the leading axis and must be independent given the latent sites"
    raise error(
        f"{what} must have one log-probability per observation: for {rows} observations shape ({rows},) is needed, "
        f"got {shape}. {hint}."
    )


def _base(distribution: Any) -> Any:
    while isinstance(distribution, dist.ExpandedDistribution | dist.Independent | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return distribution
