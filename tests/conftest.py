"""Shared by all tests: CPU, compilation cache, property tests, real data, no empty run."""

import ctypes
import gc
import math
import os
import signal
import sys
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

import tests.shapes  # noqa: F401 - the hook finds it by its name

MOST_GROWTH = 1_500_000_000  # bytes of compiled programs, at the end of a module
REPOSITORY = Path(__file__).resolve().parents[1]

# Set before anything imports JAX or matplotlib; inherited by the workers of pytest-xdist and by
# the commands that tests run.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA writes long messages about cached programs
# Compilation is two thirds of a first run; later runs load the programs from here (`make clean`
# removes them). Not in .cache, which the build of the site empties.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(REPOSITORY / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Commands under test use neither that folder nor that of the user who runs the tests.
os.environ["EVIDENTIA_COMPILATION_CACHE"] = "off"

# Arrays have the axes and dtypes that annotations promise.
ROOMS = "bf data evidence fleet kernels latent model online posterior regression streams weights"
install_import_hook([f"evidentia.{room}" for room in ROOMS.split()], "tests.shapes.checked")

# No deadline, as the first example of a property compiles; the same examples in every run.
settings.register_profile("evidentia", deadline=None, derandomize=True, max_examples=30, database=None)
settings.load_profile("evidentia")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, outside the repository; tests are skipped without it."""
    folder = Path(os.environ.get("EVIDENTIA_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the folder of real data {folder}; EVIDENTIA_TEST_DATA can name another")
    return folder


@pytest.fixture
def ctrl_c():
    """Python's own handler of Ctrl-C, for this process and those it starts.

    A shell starts jobs in the background with SIGINT ignored, as in `make test &`, and Python then
    leaves it ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave the hundred thousands of objects of imports and tests out of garbage collection.

    Each full one would look at all of them, half a second long.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def _imported() -> float:
    """The memory of imports and tests, before the first one runs."""
    return _resident_bytes()


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory(_imported):
    """Free the gigabytes of compiled programs of hundreds of tests before memory is full."""
    yield
    if not _resident_bytes() - _imported <= MOST_GROWTH:  # also if it is not known
        import jax  # only after the environment is set, and not for tests without JAX

        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)  # else the freed memory stays with this process, and would count again


def _resident_bytes() -> float:
    """The resident size of this process; NaN where the system does not say."""
    memory = Path("/proc/self/statm")  # in pages; the second number is the resident size
    if not memory.exists():
        return math.nan
    return int(memory.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Executed:
    """Count the tests that ran (not skipped); a run without any fails, as if it had found none."""

    def __init__(self):
        self.count = 0

    def pytest_runtest_logreport(self, report):
        self.count += report.when == "call" and not report.skipped

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.OK and not self.count and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            session.config.get_terminal_writer().line("\nevery test was skipped: the run fails", red=True)


def pytest_addoption(parser):
    parser.addoption("--share", metavar="K/N", help="run every test whose name's checksum is K modulo N")


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of other shares. The checksum does not change when tests are added."""
    if config.getoption("share") is None:
        return
    share, shares = map(int, config.getoption("share").split("/"))
    left_out = [item for item in items if crc32(item.nodeid.encode()) % shares != share]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if crc32(item.nodeid.encode()) % shares == share]


def pytest_configure(config):
    is_worker = hasattr(config, "workerinput")  # of pytest-xdist; its parent process receives all reports
    if not is_worker:
        config.pluginmanager.register(_Executed(), "evidentia-executed")
