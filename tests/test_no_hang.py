"""No supported version of JAX hangs on batched linear algebra (docs/installation.md)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("one_fresh_run.py")
RUNS = [
    ("solves", 3),
    ("transforms", 256),
    *(("lkj", dimension) for dimension in (3, 3, 4, 5, 5, 6, 8, 10, 20)),
    *(("normal", dimension) for dimension in (3, 4, 5, 6, 8, 10, 20)),
    *(("cholesky", dimension) for dimension in (3, 4, 5, 6, 8, 10, 20)),
]


@pytest.mark.reference
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot choose the cores of a process")
@pytest.mark.parametrize("num_cores", [1, 2])
@pytest.mark.parametrize(("kind", "dimension"), RUNS)
def test_a_fresh_process_comes_to_its_end(kind, dimension, num_cores):
    words = [sys.executable, "-W", "ignore", SCRIPT, kind, str(dimension), str(num_cores)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_there_are_fifty_runs():
    assert 2 * len(RUNS) == 50


@pytest.mark.reference
def test_a_process_that_hangs_is_found():
    """It sleeps, as threads do that wait for each other, and would go on for ten minutes."""
    code = (
        "import threading, time, one_fresh_run; one_fresh_run.PATIENCE = 2; "
        "threading.Thread(target=one_fresh_run.watch, daemon=True).start(); time.sleep(600)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=SCRIPT.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in <module>" in done.stderr
