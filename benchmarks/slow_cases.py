"""The cases of `slow_work.py`: what runs, and what is wanted of it."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

NUM_DRAWS = 512  # of the bare pass
SHORTEST_PASS = 0.01  # seconds; a ratio to a shorter one says nothing
LIMIT = 1800.0  # seconds of a case's process

Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What runs, yielding a record for each run, and what is wanted of it."""

    run: Callable[[], Iterator[Record]]
    goal: str


def timed(label: str, model: Any, data: Any, seed: int = 0) -> Record:
    """The record of a run with default settings."""
    import evidentia as ev

    started, started_wall = time.process_time(), time.perf_counter()
    found = ev.estimate(model, data, seed=seed)
    seconds, wall = time.process_time() - started, time.perf_counter() - started_wall
    run = {"run": label, "rows": found.num_observations, "seconds": seconds, "wall_clock": wall}
    return {**run, **number_of(found)}


def number_of(found: Any) -> Record:
    """Log evidence, standard error and verdict of a result."""
    return {
        "log_evidence": float(found.log_evidence),
        "standard_error": float(found.standard_error),
        "verdict": found.verdict.word,
    }


def bare_seconds(model: Any, data: Any) -> float:
    """Seconds of a bare pass over the data, the shortest of three."""
    import jax
    import jax.numpy as jnp
    from peers import bare_pass

    from evidentia.posterior.rows import Window

    arrays, bound = jax.tree.map(jnp.asarray, data), model.bind(data)
    rows = Window(arrays, 0, len(jax.tree.leaves(arrays)[0]))
    return min(bare_pass(bound, rows, NUM_DRAWS, time.process_time) for _ in range(3))


def with_passes(record: Record, bare: float) -> Record:
    """The record with its passes, given the seconds of a bare pass."""
    passes = record["seconds"] / bare if bare >= SHORTEST_PASS else None
    return {**record, "bare_pass": bare, "passes": passes}


def seeds_of(model: Any, data: Any, num_runs: int, label: str = "") -> Iterator[Record]:
    """The first run, which compiles, and others, with passes."""
    first = timed(f"{label}first", model, data)
    bare = bare_seconds(model, data)  # later than the first run, with which it shares programs
    yield with_passes(first, bare)
    for seed in range(1, num_runs):
        yield with_passes(timed(f"{label}again", model, data, seed), bare)


def of_problem(name: str, num_runs: int) -> Callable[[], Iterator[Record]]:
    """Runs of a problem of the benchmark `run.py`."""

    def run() -> Iterator[Record]:
        from run import find_problem

        problem = find_problem(name)
        yield from seeds_of(problem.model, problem.data, num_runs)

    return run


def of_mixture(fitted: int, drawn: int, num_rows: int, data_seeds: tuple[int, ...], num_runs: int = 1):
    """Runs of a mixture of `fitted` components in two dimensions, on data of one of `drawn`."""

    def run() -> Iterator[Record]:
        import evidentia as ev

        model = ev.models.gaussian_mixture(fitted, num_features=2)
        source = ev.models.gaussian_mixture(drawn, num_features=2)
        for seed in data_seeds:
            data, _ = source.simulate(num_rows, seed=seed)
            yield from seeds_of(model, data, num_runs, f"data {seed}, ")

    return run


def rebuilt(num_rounds: int = 4) -> Iterator[Record]:
    """The same NumPyro function defined again in each round, with new features and responses."""
    import numpy as np
    import numpyro.distributions as dist
    from numpyro import sample

    import evidentia as ev

    def new_model() -> ev.Model:
        def logistic(x, y=None):
            weights = sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
            sample("y", dist.Bernoulli(logits=x @ weights), obs=y)

        return ev.Model.from_numpyro(logistic)

    for number in range(num_rounds):
        generator = np.random.default_rng(number)
        x = generator.normal(size=(1000, 4)).astype(np.float32)
        y = (generator.random(1000) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int32)
        yield timed(f"round {number}", new_model(), {"x": x, "y": y})


def logistic(num_rows: int = 20_000, num_features: int = 500) -> Iterator[Record]:
    """Features and weights of deviation one: most labels are nearly certain."""
    import jax
    import numpy as np
    import numpyro.distributions as dist

    import evidentia as ev

    def log_likelihood(params, batch):
        logits = batch["x"] @ params["weights"]
        return batch["y"] * logits - jax.nn.softplus(logits)

    prior = {"weights": dist.Normal(0, 1).expand([num_features]).to_event(1)}
    generator = np.random.default_rng(0)
    x = generator.standard_normal((num_rows, num_features), np.float32)
    logits = x @ generator.standard_normal(num_features)
    y = (generator.logistic(size=num_rows) < logits).astype(np.float32)
    yield from seeds_of(ev.Model(prior, log_likelihood, name="logistic regression"), {"x": x, "y": y}, 1)


def smc(num_seeds: int = 5) -> Iterator[Record]:
    """`SMC()` and BlackJAX's tempered SMC on the four small problems."""
    from estimators import PROBLEMS, measure_all

    for problem in PROBLEMS:
        ours, theirs = measure_all([problem], ["SMC", "blackjax"], num_seeds, LIMIT / 8)
        if len(ours["runs"]) < 2 or len(theirs["runs"]) < 2:
            stopped = "; ".join(each["stopped"] for each in (ours, theirs) if each["stopped"])
            yield {"run": problem, "unfinished": stopped}
            continue
        seconds, error = cost_of(ours)
        yield {
            "run": problem,
            "seconds": seconds,
            "error": error,
            "ratio": ratio_at_equal_seconds((seconds, error), cost_of(theirs)),
        }


def cost_of(record: Record) -> tuple[float, float]:
    """Median seconds and root mean square error of the runs after the first, which compiles."""
    runs, truth = record["runs"][1:], record["truth"]["log_evidence"]
    errors = [(run["log_evidence"] - truth) ** 2 for run in runs]
    return statistics.median(run["seconds"] for run in runs), math.sqrt(statistics.fmean(errors))


def ratio_at_equal_seconds(ours: tuple[float, float], theirs: tuple[float, float]) -> float:
    """Our error over theirs, given (seconds, error), if errors fall with the root of seconds."""
    return ours[1] / theirs[1] * math.sqrt(ours[0] / theirs[0])


def stream(num_rows: int = 100_000, num_kept: int = 10_000, batch_size: int = 1000) -> Iterator[Record]:
    """Streams with a component too many, and the same rows in memory.

    `apart` is the difference in joint standard errors. Work on streams did not use these seeds.
    """
    import evidentia as ev

    model, source = (ev.models.gaussian_mixture(number, num_features=2) for number in (3, 2))
    for seed in (14, 15, 16):
        data, _ = source.simulate(num_rows, seed=seed)
        started, online = time.process_time(), ev.Online(model, reservoir_size=num_kept)
        for first in range(0, num_rows, batch_size):
            online.update({name: array[first : first + batch_size] for name, array in data.items()})
        online.redraw()
        seconds, bare = time.process_time() - started, bare_seconds(model, data)
        about = {"run": f"data {seed}, stream", "rows": num_rows, "seconds": seconds}
        streamed = {**about, **number_of(online.evidence())}
        yield with_passes(streamed, bare)
        in_memory = timed(f"data {seed}, in memory", model, data)
        joint = math.hypot(streamed["standard_error"], in_memory["standard_error"])
        apart = (streamed["log_evidence"] - in_memory["log_evidence"]) / joint
        yield with_passes({**in_memory, "apart": apart}, bare)


CASES = {
    **{
        f"mixture-5-{seed}": Case(
            of_problem(f"mixture_{seed}", 2), "first ≤ 60 s, then ≤ 12 passes, s.e. ≤ 0.1"
        )
        for seed in range(5)
    },
    "mixture-5-small": Case(of_mixture(5, 5, 10_000, (12,)), "≤ 15 s, s.e. ≤ 0.1"),
    "mixture-3-few": Case(of_mixture(3, 3, 200, (0, 1), num_runs=2), "≤ 3 s at s.e. ≤ 0.05"),
    "mixture-3-on-2": Case(of_mixture(3, 2, 10_000, (0,)), "≤ 10 s"),
    "rebuilt": Case(rebuilt, "≤ 0.3 s after the first round"),
    "softmax": Case(of_problem("softmax", 4), "≤ 0.7 passes after the first run"),
    "student-t": Case(of_problem("student_t", 4), "≤ 0.7 passes after the first run"),
    "rare": Case(of_problem("rare", 3), "≤ 2 passes after the first run"),
    "logistic-500": Case(logistic, "≤ 60 s"),
    "smc": Case(smc, "ratio of errors ≤ 1"),
    "stream": Case(stream, "within 3 s.e. of the rows in memory, s.e. ≤ 0.3"),
}
