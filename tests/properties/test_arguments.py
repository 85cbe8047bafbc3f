"""Every configuration, model and object is made from any arguments, or refuses with a message."""

import inspect
from contextlib import suppress

import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.evidence import linear_schedule, sigmoid_schedule
from evidentia.monitor import EDetector
from tests.properties.examples import ODD, examples, for_all

MODEL = ev.models.linear_regression(1)
ONLINE = ev.Online(MODEL)
PAIR = {"a": ONLINE, "b": ev.Online(MODEL)}
EVIDENCE = {"log_evidence": -1.0, "standard_error": 0.1, "num_observations": 10, "seconds": 1.0}

METHODS = (
    "AIS",
    "AMIS",
    "SGAIS",
    "SMC",
    "BridgeSampling",
    "HarmonicMean",
    "Jarzynski",
    "Laplace",
    "NestedSampling",
)
MORE_METHODS = "OnlineNestedSampling", "PriorSampling", "Sequential"
KERNELS = (
    "BAOAB",
    "DifferentialEvolution",
    "HMC",
    "MALA",
    "RandomWalk",
    "Slice",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "ULA",
)
CONSTRAINED = (
    "ConstrainedDifferentialEvolution",
    "ConstrainedSlice",
    "ConstrainedWalk",
    "ReflectingSGHMC",
    "Rejection",
)
GRADIENTS = "ControlVariate", "MiniBatch", "FullBatch"
LATENT = "IPLA", "JALAEM", "MomentumPGD", "PGD", "SFLA", "SOUL"

# What is called, and the arguments that it needs.
CALLED = {
    **{name: (getattr(ev, name), {}) for name in (*METHODS, *MORE_METHODS)},
    **{name: (getattr(ev.kernels, name), {}) for name in (*KERNELS, *CONSTRAINED)},
    **{name: (getattr(ev.gradients, name), {}) for name in GRADIENTS},
    **{name: (getattr(ev.latent, name), {}) for name in LATENT},
    "Unscaled": (ev.kernels.Unscaled, {"kernel": ev.kernels.HMC()}),
    "Online": (ev.Online, {"model": MODEL}),
    "ChangeDetector": (ev.ChangeDetector, {"online": ONLINE}),
    "ModelAverage": (ev.ModelAverage, {"onlines": PAIR}),
    "Model": (ev.Model, {"prior": {"a": dist.Normal()}, "log_likelihood": lambda params, batch: batch}),
    "from_numpyro": (ev.Model.from_numpyro, {"function": lambda y: None}),
    "from_callable": (
        ev.Model.from_callable,
        {"log_likelihood": len, "prior_transform": len, "num_parameters": 2},
    ),
    "EDetector": (EDetector, {}),
    "linear_schedule": (linear_schedule, {"num_steps": 3}),
    "sigmoid_schedule": (sigmoid_schedule, {"num_steps": 3}),
    "linear_regression": (ev.models.linear_regression, {"num_features": 1}),
    "gaussian_mixture": (ev.models.gaussian_mixture, {"num_components": 2, "num_features": 1}),
    "softmax_regression": (ev.models.softmax_regression, {"num_features": 1, "num_classes": 2}),
    "compare": (ev.compare, {"evidences": {"a": EVIDENCE, "b": EVIDENCE}}),
}
FIELDS = {name: list(inspect.signature(called).parameters) for name, (called, _) in CALLED.items()}
HUGE = 10**12  # a factory would make arrays of this size
SCALARS = [np.float32(0.5), np.float64("nan"), np.int64(3), np.uint8(0), np.bool(True), np.array(2), 1j, b"x"]
OBJECTS = [object, object(), len, ev.SGAIS, ev.SGAIS(), ev.kernels.HMC(), ev.kernels.HMC, MODEL, ONLINE]
VALUES = st.one_of(
    ODD,
    st.sampled_from([*SCALARS, *OBJECTS]),
    st.dictionaries(st.sampled_from(["a", "b", "c", 1]), ODD, max_size=3),  # prior probabilities
)


@st.composite
def calls(draw):
    name = draw(st.sampled_from(sorted(CALLED)))
    return name, draw(st.dictionaries(st.sampled_from(FIELDS[name] or ["none"]), VALUES, max_size=2))


@pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")
@examples(many=4000, few=400)
def test_any_arguments_make_an_object_or_one_message(count):
    @for_all(calls(), count)
    def holds(found):
        name, given = found
        count = given.get("num_components")
        if (isinstance(count, int) and count == 10**20) or not FIELDS[name]:
            return
        called, needed = CALLED[name]
        with suppress(ev.EvidentiaError):
            called(**{**needed, **given})


@pytest.mark.parametrize("name", sorted(CALLED))
def test_what_is_needed_is_enough(name):
    called, needed = CALLED[name]
    called(**needed)
