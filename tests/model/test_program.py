"""Programs: threads that run them at the same time."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpyro
import numpyro.distributions as dist

from evidentia.model.program import run_traced


def test_threads_do_not_meet_in_each_others_traces():
    """The stack of handlers is one for all threads; a pause inside a program lets them meet."""

    def program(start):
        first = numpyro.sample("first", dist.Normal(0, 1), obs=start)
        time.sleep(0.02)
        numpyro.deterministic("second", first + 1.0)

    with ThreadPoolExecutor(4) as executor:
        traces = list(executor.map(lambda start: run_traced(program, {"start": start}), range(4)))
    assert [trace["second"]["value"] for trace in traces] == [1.0, 2.0, 3.0, 4.0]


def test_a_program_may_run_another():
    def inner():
        numpyro.deterministic("inside", 1.0)

    trace = run_traced(lambda: numpyro.deterministic("outside", len(run_traced(inner, {}))), {})
    assert trace["outside"]["value"] == 1
