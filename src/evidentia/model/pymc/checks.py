"""What of PyMC evidentia takes: versions, and the parts of a model, with what to do instead."""

from importlib import metadata
from typing import Any

import jax.numpy as jnp
import numpy as np

from evidentia.errors import ModelError, attempt
from evidentia.model.pymc.variables import OWN, Variable

OLDEST, TOO_NEW = (5, 28), (6,)
SUPPORTED = "PyMC 5.28 or newer, before 6"

NUM_DRAWS = 500  # that show whether a transform leaves out a part of a prior
IMPROPER = {"FlatRV", "HalfFlatRV", "ICARRV"}
WITHOUT_BIJECTOR = {
    "WishartRV": "use pm.LKJCholeskyCov",
    "LKJCorrRV": "use pm.LKJCholeskyCov",
}


def imported() -> Any:
    """PyMC. Raises ModelError if it is missing or its version is not supported."""
    try:
        version = metadata.version("pymc")
    except metadata.PackageNotFoundError:
        raise ModelError(
            f"Model.from_pymc needs {SUPPORTED}, which is not installed: pip install 'evidentia[pymc]'."
        ) from None
    release = tuple(int(part) for part in version.split(".")[:2])
    if not OLDEST <= release < TOO_NEW:
        raise ModelError(f"Model.from_pymc supports {SUPPORTED}; PyMC {version} is installed.")
    import pymc

    return pymc


def of_bambi(model: Any) -> tuple[Any, str | None]:
    """The PyMC model of a Bambi model, which is built if it is not, and its formula.

    Anything else is returned as it is, without a formula.

    Raises:
        ModelError: Bambi cannot build it.
    """
    if type(model).__module__.partition(".")[0] != "bambi" or not hasattr(model, "build"):
        return model, None
    if not model.built:  # as also after set_priors
        attempt("Bambi's build", model.build)
    return model.backend.model, str(model.formula.main)


def check_model(model: Any) -> None:
    """Raise ModelError for parts that are not those of a prior and a likelihood."""
    if not model.observed_RVs and not model.potentials:
        raise ModelError(
            "the PyMC model has neither an observed variable nor a Potential: it has no likelihood."
        )
    for rv in model.observed_RVs:
        if _kind(rv) == "MinibatchRandomVariable":
            raise ModelError(
                f"the observed variable {rv.name!r} has a total_size: it takes mini-batches itself. Give it all data, "
                "without total_size and pm.Minibatch: evidentia draws the mini-batches."
            )
        if (
            rv.name.endswith("_observed")
            and f"{rv.name.removesuffix('_observed')}_unobserved" in model.named_vars
        ):
            raise ModelError(
                f"the data of {rv.name.removesuffix('_observed')!r} have missing values, which PyMC makes parameters. "
                "Leave these rows out, or write the missing values as free variables of their own."
            )


def check_variable(model: Any, rv: Any) -> None:
    """Raise ModelError unless a free variable has a proper, continuous prior."""
    kind = _kind(rv)
    if rv.type.dtype.startswith(("int", "uint", "bool")):
        raise ModelError(
            f"the free variable {rv.name!r} is discrete ({kind.removesuffix('RV')}); parameters must be continuous. "
            "Sum it out of the likelihood, for example with pm.Mixture or pm.marginalize of pymc-extras."
        )
    if kind in IMPROPER:
        raise ModelError(
            f"the free variable {rv.name!r} has the prior {kind.removesuffix('RV')}, which is not a probability density: "
            "the evidence needs a proper prior."
        )
    if kind in WITHOUT_BIJECTOR:
        raise ModelError(
            f"the free variable {rv.name!r} is a {kind.removesuffix('RV')}, whose support PyMC does not map to the real "
            f"numbers: {WITHOUT_BIJECTOR[kind]}."
        )
    _check_transform(model, rv)


def check_general(name: str, variable: Variable) -> None:
    """Raise ModelError unless PyMC can draw a variable without parents and knows its support."""
    try:
        drawn = variable.draw.on_host(np.zeros(2, np.uint32), [], variable.shape, np.float32)
    except Exception as error:  # of PyMC or of the user's own function
        reason = str(error).splitlines()[0] if str(error) else ""
        raise ModelError(
            f"PyMC cannot draw the free variable {name!r} from its prior: {type(error).__name__}: {reason}. Give it a "
            "distribution that it can draw, for example a CustomDist with dist= or random=."
        ) from error
    if variable.transform is None:
        others = (variable.log_density({OWN: jnp.asarray(factor * drawn)}) for factor in (-1.0, 2.0))
        if not all(np.isfinite(np.sum(density)) for [density] in others):
            raise ModelError(
                f"the free variable {name!r} is not on the whole real line, and PyMC knows no transform for it. Name one, "
                "for example transform=pm.distributions.transforms.log."
            )


def is_ordered(model: Any, rv: Any) -> bool:
    """Whether a variable has PyMC's transform to ascending vectors."""
    return "Ordered" in _transforms(model, rv)


def transform_of(model: Any, rv: Any) -> Any:
    """PyMC's transform from the support of a variable to the real numbers; None if it is real."""
    from pymc.distributions.transforms import _default_transform

    default = _default_transform(rv.owner.op, rv)
    return model.rvs_to_transforms[rv] if default is None else default


def _check_transform(model: Any, rv: Any) -> None:
    from pymc.distributions.transforms import _default_transform

    if is_ordered(model, rv):
        _check_ordered(model, rv)
        return
    transform, default = model.rvs_to_transforms[rv], _default_transform(rv.owner.op, rv)
    if transform is not None and type(transform) is not type(default) and _restricts(transform, rv):
        raise ModelError(
            f"the free variable {rv.name!r} has the transform {_transforms(model, rv)[-1]}, which leaves out a part of its "
            "prior: the evidence needs a normalised prior. Use a distribution with this support, for example pm.Truncated."
        )


def _restricts(transform: Any, rv: Any) -> bool:
    """Whether draws from the prior lie outside the values of a transform."""
    from pymc import draw

    parents = rv.owner.inputs
    there_and_back = transform.backward(transform.forward(rv, *parents), *parents)
    drawn, again = draw([rv, there_and_back], NUM_DRAWS, random_seed=0, mode="FAST_COMPILE")
    return not np.allclose(drawn, again, rtol=1e-6, atol=1e-6)


def _check_ordered(model: Any, rv: Any) -> None:
    from evidentia.model.pymc.known import DISTRIBUTIONS

    op = rv.owner.op
    is_single = _kind(rv) in DISTRIBUTIONS and op.ndim_supp == 0
    if not is_single or not all(_is_same_along_last(one) for one in op.dist_params(rv.owner)):
        raise ModelError(
            f"the free variable {rv.name!r} is ordered, and its elements have different priors or one of several "
            "dimensions: the probability that they are in order is unknown, and the evidence needs a normalised prior. "
            "Give all elements the same prior, with single numbers as its parameters."
        )
    if any(not getattr(one, "ascending", True) for one in _parts(model.rvs_to_transforms[rv])):
        raise ModelError(f"the free variable {rv.name!r} is ordered descending; use the ascending order.")


def _is_same_along_last(parameter: Any) -> bool:
    from pytensor.graph.basic import Constant

    if parameter.ndim == 0 or parameter.type.broadcastable[-1]:
        return True
    return isinstance(parameter, Constant) and bool((np.ptp(parameter.data, axis=-1) == 0).all())


def _transforms(model: Any, rv: Any) -> list[str]:
    return [type(one).__name__ for one in _parts(model.rvs_to_transforms[rv])]


def _parts(transform: Any) -> list[Any]:
    if transform is None:
        return []
    return [
        part
        for one in getattr(transform, "transform_list", [transform])
        for part in ([one] if not hasattr(one, "transform_list") else _parts(one))
    ]


def _kind(rv: Any) -> str:
    return type(rv.owner.op).__name__
