"""Requests to stop, heard between two steps."""

import signal
import threading

import pytest

import evidentia as ev
from evidentia.system.interruption import Interrupted, TimeOver, check, hearing_ctrl_c, limited_to, listening

pytestmark = pytest.mark.usefixtures("ctrl_c")

MODEL = ev.models.linear_regression(num_features=2)
DATA, _ = MODEL.simulate(2000, 0)


def test_a_check_asks_the_innermost_listener():
    check()
    with listening(lambda: False):
        with listening(lambda: True), pytest.raises(Interrupted):
            check()
        check()


def test_the_end_of_the_time_is_said_once():
    """What a stopped run does to give its result takes time, too."""
    with limited_to(1e-9), limited_to(None):
        with pytest.raises(TimeOver, match=r"time was over \(max_seconds=1e-09\)"):
            check()
        check()
    check()


def test_other_threads_hear_nothing():
    ends = []

    def other():
        with hearing_ctrl_c():
            check()
        ends.append(signal.getsignal(signal.SIGINT))

    with listening(lambda: True):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert ends == [signal.default_int_handler]


def test_the_user_s_own_handler_stays():
    before = signal.signal(signal.SIGINT, own := lambda number, frame: None)
    try:
        with hearing_ctrl_c():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_background_job_ignores_ctrl_c():
    """A shell starts it with SIGINT ignored: Ctrl-C is then meant for another job."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hearing_ctrl_c():
            signal.raise_signal(signal.SIGINT)
            check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_callback_is_heard_at_the_next_step():
    """Python prints and forgets what is raised while an object is deleted."""

    class Dying:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    seen = []

    def listener(update):
        seen.append(update.num_observations)
        if len(seen) == 2:
            Dying()

    with pytest.warns(ev.EvidenceWarning, match="stopped after"):
        evidence = ev.estimate(MODEL, DATA, method=ev.SGAIS(refresh=False), progress=listener)
    assert not evidence.completed
    assert evidence.num_observations == seen[-1] and len(seen) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
