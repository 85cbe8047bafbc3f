"""One GPU in under four minutes: rows made on it, SGAIS() over them, and its memory's speed.

    python benchmarks/gpu.py                            # 10⁷ and 10⁸ rows; for a GPU
    python benchmarks/gpu.py --sizes 10000 100000 --mixture-rows 10000 --out somewhere.json

Linear and softmax regression at each size, a Gaussian mixture, and a small problem beside
BlackJAX's nested slice sampling. Rows are drawn on the device, and the method runs over them where
they are: `estimate` would check and shuffle them on the host. The exact evidence of the linear
model comes from sums in float64 on the device; softmax is compared with `Laplace()`. A GPU rounds
the factors of matrix products in float32 to fewer digits unless told otherwise ("full float32").

*Share of bandwidth*: the bytes of all rows over the seconds of a run, over the bandwidth that a
copy of an array reaches in the same process. It is 1 if a run takes as long as reading the rows.

Work that would not end within --seconds, by the rate at the size before, is not started. Without a
GPU the program says so, and runs 10⁴ and 10⁵ rows. With one, or with --out, the results are kept
as JSON, with the names of the processor and of the device.
"""

import argparse
import datetime
import json
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from gpu_problems import Work, works
from machine import describe_machine

import evidentia as ev
from evidentia.posterior.rows import Window

OUT = Path(__file__).parent / "results" / "gpu.json"
ON_GPU, ON_CPU = [10_000_000, 100_000_000], [10_000, 100_000]
MIXTURE_ON_GPU, MIXTURE_ON_CPU = 1_000_000, 10_000
LARGEST_COPY = 1 << 30  # bytes
HEADER = "work", "rows", "first call, s", "seconds", "bare pass, s", "share of bandwidth", "log evidence"
HEADER += "s.e.", "compared with"


def measured_bandwidth(num_bytes: int) -> float:
    """Bytes a second that a copy or a sum of an array reads and writes, the better of the two."""
    array = jnp.ones(num_bytes // 4, jnp.float32)
    ways = (jax.jit(lambda array: array + 1), 2 * array.nbytes), (jax.jit(jnp.sum), array.nbytes)
    best = 0.0
    for function, moved in ways:
        function(array).block_until_ready()  # compiles
        for _ in range(5):
            started = time.perf_counter()
            function(array).block_until_ready()
            best = max(best, moved / (time.perf_counter() - started))
    return best


def run_over(method: Any, bound: Any, rows: Window, seed: int, deadline: float) -> dict[str, Any]:
    """Log evidence, standard error, seconds and signs of a run; unfinished if the time is over."""
    started, estimate, last = time.perf_counter(), None, None
    for snapshot in method.run(bound, rows, jax.random.key(seed)):
        if snapshot.num_observations == rows.size:
            estimate, last = snapshot.estimate, snapshot
        if time.perf_counter() > deadline:
            break
    else:
        assert last is not None and estimate is not None
        signs = sorted(last.diagnose().signs)
        return {
            "log_evidence": float(estimate.log_evidence),
            "standard_error": float(estimate.standard_error),
            "seconds": time.perf_counter() - started,
            "signs": signs,
        }
    return {"unfinished": "stopped, as the time was over", "seconds": time.perf_counter() - started}


def measure(work: Work, num_rows: int, bandwidth: float, deadline: float) -> dict[str, Any]:
    """One record: a run with compilation, one without if there is time, and a reference."""
    from peers import bare_pass

    arrays = jax.block_until_ready(work.draw(jax.random.key(0), num_rows))
    bound, rows = work.model.bind(arrays), Window(arrays, 0, num_rows)
    num_bytes = sum(array.nbytes for array in arrays.values())
    record: dict[str, Any] = {"work": work.name, "rows": num_rows, "bytes": num_bytes}
    first = run_over(ev.SGAIS(), bound, rows, 0, deadline)
    if "unfinished" in first:
        return record | first
    record |= {**first, "seconds": None, "first_seconds": first["seconds"]}
    if time.perf_counter() + first["seconds"] < deadline:
        again = run_over(ev.SGAIS(), bound, rows, 1, deadline)
        if "unfinished" not in again:
            record["seconds"] = again["seconds"]
            record["bare_pass_seconds"] = bare_pass(bound, rows, ev.SGAIS().num_particles)
    seconds = record["seconds"] or first["seconds"]
    record["bandwidth_share"] = num_bytes / seconds / bandwidth
    if work.exact is not None:
        return record | {"reference": "exact", "reference_log_evidence": work.exact(arrays)}
    if work.name == "mixture":  # whose modes have copies, and are searched for long
        return record
    laplace = run_over(ev.Laplace(), bound, rows, 0, deadline)
    return record | {"reference": "Laplace()", "reference_log_evidence": laplace.get("log_evidence")}


def seconds_wanted(before: dict[str, Any] | None, num_rows: int) -> float:
    """Seconds of a run with compilation and a bare pass, by the record of fewer rows if any."""
    if before is None:
        return 0.0
    if "unfinished" in before:
        return math.inf
    ratio, first = num_rows / before["rows"], before["first_seconds"]
    if before["seconds"] is None:
        return ratio * first
    compilation = max(0.0, first - before["seconds"])
    return compilation + ratio * (before["seconds"] + before["bare_pass_seconds"])


def small_problem() -> Iterator[dict[str, Any]]:
    """Records of SGAIS() and of BlackJAX's nested slice sampling, 1,000 rows, linear."""
    import blackjax
    import peers
    from small_problems import linear

    problem = linear()
    truth, _ = problem.truth(problem.data)
    common = {"rows": 1000, "reference": "exact", "reference_log_evidence": truth}

    def ours(seed: int) -> peers.PeerRun:
        found = ev.estimate(problem.model, problem.data, seed=seed)
        return peers.PeerRun(found.log_evidence, found.standard_error, None)

    runners = {"small linear": ours}
    if hasattr(blackjax, "nss"):
        runners["small linear, blackjax.nss"] = peers.nss(problem)
    else:
        version = getattr(blackjax, "__version__", "unknown")
        yield {"work": "small linear, blackjax.nss", **common, "unfinished": f"BlackJAX {version} has no nss"}
    for name, runner in runners.items():
        seconds = []
        for seed in (0, 1):
            started = time.perf_counter()
            found = runner(seed)
            seconds.append(time.perf_counter() - started)
        record = {"work": name, **common, "first_seconds": seconds[0], "seconds": seconds[1]}
        yield record | {"log_evidence": found.log_evidence, "standard_error": found.standard_error}


def records_of(
    sizes: list[int], mixture_rows: int, bandwidth: float, deadline: float
) -> Iterator[dict[str, Any]]:
    """All records, the small work first."""
    yield from small_problem()
    known, before = works(), {}
    plan = [(known[name], size) for size in sorted(sizes) for name in ("linear", "softmax")]
    plan.insert(2, (known["linear, full float32"], min(sizes)))
    plan.append((known["mixture"], mixture_rows))  # last, as its time does not follow from its rows
    for index, (work, num_rows) in enumerate(plan):
        left, wanted = deadline - time.perf_counter(), seconds_wanted(before.get(work.name), num_rows)
        if wanted < left:
            # Half of the time that is left, at most, unless nothing follows.
            own = deadline if index == len(plan) - 1 else time.perf_counter() + left / 2
            before[work.name] = attempt(work, num_rows, bandwidth, own)
            yield before[work.name]
        else:
            reason = f"not started: about {wanted:.0f} s wanted, {max(0.0, left):.0f} s left"
            yield {"work": work.name, "rows": num_rows, "unfinished": reason}


def attempt(work: Work, num_rows: int, bandwidth: float, deadline: float) -> dict[str, Any]:
    """The record of `measure`, or of the error that ended it, such as too little memory."""
    try:
        with jax.default_matmul_precision(work.precision):
            return measure(work, num_rows, bandwidth, deadline)
    except (ev.EvidentiaError, jax.errors.JaxRuntimeError) as error:
        return {"work": work.name, "rows": num_rows, "unfinished": str(error).splitlines()[0]}


def line_of(record: dict[str, Any]) -> str:
    """A row of the table."""

    def shown(name: str, form: str) -> str:
        return format(record[name], form) if record.get(name) is not None else ""

    evidence = shown("log_evidence", ",.3f") or record["unfinished"]
    if signs := record.get("signs"):
        evidence += f" ({', '.join(signs)})"
    compared = record.get("reference", "")
    if record.get("reference_log_evidence") is not None and "log_evidence" in record:
        compared += f": {record['log_evidence'] - record['reference_log_evidence']:+.3f}"
    cells = (
        record["work"],
        f"{record['rows']:,}",
        shown("first_seconds", ".2f"),
        shown("seconds", ".3f"),
        shown("bare_pass_seconds", ".3f"),
        shown("bandwidth_share", ".2g"),
        evidence,
        shown("standard_error", ".3f"),
        compared,
    )
    return f"| {' | '.join(cells)} |"


def described_device(num_bytes: int) -> dict[str, Any]:
    """The device's name, and its bandwidth in bytes a second."""
    device = jax.devices()[0]
    bandwidth = measured_bandwidth(num_bytes)
    return {"device": device.device_kind, "platform": device.platform, "bandwidth": bandwidth}


def main() -> None:
    deadline = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", help="rows of linear and softmax")
    parser.add_argument("--mixture-rows", type=int, help="10⁶ on a GPU by default")
    parser.add_argument("--seconds", type=float, default=200.0, help="200 by default; runs stop then")
    parser.add_argument("--out", type=Path, help="benchmarks/results/gpu.json on a GPU by default")
    options = parser.parse_args()
    deadline += options.seconds
    warnings.simplefilter("ignore", ev.EvidenceWarning)  # signs are in the records
    is_gpu = jax.devices()[0].platform == "gpu"
    if not is_gpu:
        print("no GPU is present: the sizes are small, and the figures say nothing about one.", flush=True)
    machine = describe_machine() | described_device(LARGEST_COPY if is_gpu else LARGEST_COPY >> 3)
    print(f"{machine['device']} ({machine['platform']}), {machine['bandwidth'] / 1e9:,.0f} GB/s; ", end="")
    print(f"{machine['processor']}, {machine['cores']} cores, jax {machine['jax']}\n")
    print(f"| {' | '.join(HEADER)} |\n|---|{'--:|' * 7}---|", flush=True)
    out = options.out or (OUT if is_gpu else None)
    results = {"date": datetime.date.today().isoformat(), "machine": machine, "records": []}
    sizes = options.sizes or (ON_GPU if is_gpu else ON_CPU)
    rows_of_mixture = options.mixture_rows or (MIXTURE_ON_GPU if is_gpu else MIXTURE_ON_CPU)
    for record in records_of(sizes, rows_of_mixture, machine["bandwidth"], deadline):
        print(line_of(record), flush=True)
        results["records"].append(record)
        if out is not None:  # after each record, as the time may end
            out.write_text(json.dumps(results, indent=1) + "\n")
    if out is None:
        print("\nnothing was kept; --out keeps the results.")


if __name__ == "__main__":
    main()
