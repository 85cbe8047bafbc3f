"""Work where time goes to something else than rows: seconds, passes over the rows, and the error.

    python benchmarks/slow_work.py --list
    python benchmarks/slow_work.py --cases rebuilt,mixture-3-few
    python benchmarks/slow_work.py --remark "beside other work"     # all: more than an hour

Each case runs in a process of its own, which keeps no compiled programs: its first run compiles,
and later runs have other seeds. Seconds are those of the processors, summed over threads, which
other programs hardly affect, except for `smc`, where both methods are timed by the clock.
*Passes* are the seconds over those of a bare pass with 512 draws over the same rows in the same
process, if that takes long enough to be measured. Each run is a line of
benchmarks/results/slow-work.jsonl, written at once. `smc` compares `SMC()` with BlackJAX's
tempered SMC (`tempered_peers.py`) by `estimators.py`: the ratio of their errors at equal seconds.
How long the tests take is not here: `time make test`.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from slow_cases import CASES, LIMIT, Record

FOLDER = Path(__file__).parent
OUT = FOLDER / "results" / "slow-work.jsonl"


def cases_of(text: str | None) -> list[str]:
    """The names asked for, with commas; all if None."""
    names = list(CASES) if text is None else text.split(",")
    if unknown := sorted(set(names) - set(CASES)):
        raise SystemExit(f"--cases must be among {', '.join(CASES)}; got {', '.join(unknown)}.")
    return names


def line_of(record: Record) -> str:
    """A line of the table."""

    def shown(name: str, form: str) -> str:
        return format(record[name], form) if record.get(name) is not None else ""

    more = [record.get("verdict", ""), record.get("unfinished", "")]
    more += [f"{name} {shown(name, '.2f')}" for name in ("apart", "ratio", "error") if name in record]
    evidence = f"{shown('log_evidence', ',.3f'):>16} {shown('standard_error', '.3f'):>7}"
    numbers = f"{shown('seconds', '.2f'):>8} {shown('passes', '.3g'):>8} {evidence}"
    return f"{record['case']:16} {record['run']:18} {numbers}  {'  '.join(filter(None, more))}"


def work(name: str) -> None:
    """Print the records of a case as JSON lines, in a process of its own."""
    import evidentia as ev

    # Where this process is stopped, so are those of its own that measure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    warnings.simplefilter("ignore", ev.EvidenceWarning)  # verdicts are in the records
    for record in CASES[name].run():
        print(json.dumps({"case": name, **record}), flush=True)


def measure(name: str, limit: float = LIMIT) -> Iterator[Record]:
    """The records of a case as they come, and why there are no more if it was stopped."""
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    words, started = [sys.executable, __file__, "--worker", name], time.perf_counter()
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(limit, process.terminate)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
        status = process.wait()
        timer.cancel()
    if status:
        late = time.perf_counter() - started > limit
        why = f"stopped after {limit:g} s" if late else f"the process ended with {status}"
        yield {"case": name, "run": "", "unfinished": why}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", help="names, with commas; all by default")
    parser.add_argument("--list", action="store_true", help="names and goals, without running anything")
    parser.add_argument("--remark", help="kept with the results, such as what ran beside")
    parser.add_argument("--out", type=Path, default=OUT, help="JSON lines are added here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    names = cases_of(options.cases)
    if options.list:
        for name in names:
            print(f"{name:16} {CASES[name].goal}")
        return
    from fresh import commit_of_source
    from machine import describe_machine

    about = {
        "commit": commit_of_source(),
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
    }
    about |= {"remark": options.remark} if options.remark else {}
    numbers = f"{'seconds':>8} {'passes':>8} {'log evidence':>16} {'s.e.':>7}"
    print(f"{'case':16} {'run':18} {numbers}  verdict")
    with options.out.open("a") as lines:
        for name in names:
            for record in measure(name):
                print(line_of(record), flush=True)
                lines.write(json.dumps(record | about) + "\n")
                lines.flush()
            print(f"{'':16} wanted: {CASES[name].goal}", flush=True)


if __name__ == "__main__":
    main()
