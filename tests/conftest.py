"""What all tests share: the CPU, a cache of compiled programs, repeatable property tests, real
data, no empty run.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

MOST_MEMORY = 900_000_000  # bytes, at the end of a module
REPOSITORY = Path(__file__).resolve().parents[1]

# Before anything imports JAX or matplotlib; the workers of pytest-xdist and the commands that
# tests run inherit it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA tells at length what it thinks of cached programs
# Compilation is two thirds of a first run; the next ones take the programs from here (`make clean`
# removes them).
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(REPOSITORY / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Commands under test leave that folder, and the one of the person who runs the tests, alone.
os.environ["EVIDENTIA_COMPILATION_CACHE"] = "off"

# The first example of a property compiles, so no deadline; the same examples in every run, so no
# surprises.
settings.register_profile("evidentia", deadline=None, derandomize=True, max_examples=30, database=None)
settings.load_profile("evidentia")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, kept outside the repository; without it the test is skipped."""
    folder = Path(os.environ.get("EVIDENTIA_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the folder of real data {folder}; EVIDENTIA_TEST_DATA can name another")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory():
    """Hundreds of tests compile gigabytes of programs: a worker lets them go before they fill a
    small machine.
    """
    yield
    memory = Path("/proc/self/statm")  # in pages; the second number is what is resident
    if not memory.exists() or int(memory.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY:
        import jax  # not before the environment is set, and not for tests that do without

        jax.clear_caches()
        gc.collect()


class _Executed:
    """Counts the tests that ran (not skipped); a run of none fails, as one that found none does."""

    def __init__(self):
        self.count = 0

    def pytest_runtest_logreport(self, report):
        self.count += report.when == "call" and not report.skipped

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.OK and not self.count and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            session.config.get_terminal_writer().line("\nevery test was skipped: the run fails", red=True)


def pytest_configure(config):
    is_worker = hasattr(
        config, "workerinput"
    )  # of pytest-xdist; the process that started it hears of all tests
    if not is_worker:
        config.pluginmanager.register(_Executed(), "evidentia-executed")
