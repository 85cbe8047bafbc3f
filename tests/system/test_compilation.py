"""Compiled programs: how many a process keeps; the cache on disk, which the next process reads."""

import gc
import json
import logging
import os
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

import evidentia as ev
from evidentia.cli import main
from evidentia.cli import run as shell
from evidentia.system import compilation
from evidentia.system.compilation import Programs

# test_package.py tests that the import leaves JAX's configuration unchanged.

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture(autouse=True)
def configuration():
    """JAX's options for its cache, which are restored after the test."""
    before = {name: getattr(jax.config, name) for name in OPTIONS}
    yield before
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user with an empty home and no cache set for JAX or evidentia."""
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "EVIDENTIA_COMPILATION_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def compile_one():
    """Compile the same program as a new function, as in a process that has not compiled it yet."""
    jax.jit(lambda x: 2 * x + 1)(jnp.zeros(3)).block_until_ready()


ESTIMATE = """
import collections, json, sys
import jax.monitoring
import evidentia as ev

events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **about: events.update([name.rpartition("/")[2]]))
ev.use_compilation_cache(sys.argv[1])
data = {"x": [[0.5], [1.5], [2.5]], "y": [1.0, 2.0, 3.0]}
evidence = ev.estimate(ev.models.linear_regression(1), data, method=ev.PriorSampling(num_particles=8))
print(json.dumps([evidence.log_evidence, events["cache_misses"], events["cache_hits"]]))
"""


def talkative(**variables):
    """The environment of a process in which XLA may print, with variables of its own."""
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return {**inherited, **variables}


@pytest.mark.slow
def test_the_next_process_compiles_nothing_again(tmp_path):
    def process():
        words = [sys.executable, "-W", "ignore", "-c", ESTIMATE, tmp_path]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=talkative())
        assert done.returncode == 0, done.stderr
        return *json.loads(done.stdout), done.stderr

    first, written, _, _ = process()
    programs = list(tmp_path.glob("*-cache"))
    assert written == len(programs) > 5
    second, written, read, said = process()
    assert (second, written) == (first, 0)
    assert read >= len(programs)
    assert said == ""


@pytest.mark.skipif(jax.__version_info__ >= (0, 10, 2), reason="this JAX has no false alarms")
@pytest.mark.parametrize(
    ("variables", "level", "updates"),
    [
        ({}, "NOTSET", ["CRITICAL", "NOTSET"]),
        ({"TF_CPP_MIN_LOG_LEVEL": "0"}, "NOTSET", []),  # the user wants to see all
        ({}, "WARNING", []),
    ],
)
def test_messages_of_xla_are_off_unless_asked_for(tmp_path, monkeypatch, variables, level, updates):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before, logger = jax.config.values["jax_logging_level"], logging.getLogger("jax")
    kept, seen, update = logger.level, [], jax.config.update

    def noting(name, value):
        seen.extend([value] if name == "jax_logging_level" else [])
        update(name, value)

    try:
        update("jax_logging_level", level)
        logger.setLevel(logging.INFO)
        monkeypatch.setattr(jax.config, "update", noting)
        ev.use_compilation_cache(tmp_path)
        assert (seen, logger.level) == (updates, logging.INFO)
    finally:
        update("jax_logging_level", before)
        logger.setLevel(kept)


def test_it_works_after_jax_was_used_with_another_folder(tmp_path):
    compile_one()
    for name in ("first", "second"):
        folder = ev.use_compilation_cache(tmp_path / name)
        assert folder == tmp_path / name
        compile_one()
        assert list(folder.glob("*-cache"))


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has one place for caches")
def test_the_default_is_the_users_cache_folder(home, monkeypatch):
    assert ev.use_compilation_cache() == home / ".cache" / "evidentia"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/do/not/count")
    assert ev.use_compilation_cache() == home / ".cache" / "evidentia"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "elsewhere"))
    assert ev.use_compilation_cache() == home / "elsewhere" / "evidentia"
    assert (home / "elsewhere" / "evidentia").stat().st_mode & 0o077 == 0  # write access is code execution


def test_the_default_on_macos(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert ev.use_compilation_cache() == home / "Library" / "Caches" / "evidentia"


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/evidentia"])
def test_a_folder_that_cannot_be_written_gets_one_message(tmp_path, configuration, name):
    """A file, a folder below a file, and one that not even root can make; JAX is unchanged."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ev.ConfigurationError, match="folder must be writable; got ") as error:
        ev.use_compilation_cache(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert configuration == {option: getattr(jax.config, option) for option in OPTIONS}


def test_a_user_without_a_home_gets_the_same_message(monkeypatch, home):
    def no_home(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ev.ConfigurationError, match=r"got ~/.*evidentia \(Could not determine home"):
        ev.use_compilation_cache()
    shell.keep_compiled_programs(None)  # a command runs without a cache
    assert jax.config.jax_compilation_cache_dir is None


# Commands
# ----------------------------------------------------------------------------------------


@pytest.fixture
def cache_of(home, monkeypatch, capsys):
    """The cache folder that a command uses, or None; the command does no work."""

    def cache_of(*words, command="estimate"):
        with monkeypatch.context() as patched:
            patched.setattr("evidentia.cli.run.estimate_each", lambda *_, **__: ({}, None))
            table = home / "table.csv"
            table.write_text("x,y\n1,2\n2,3\n3,4\n")
            arguments = {
                "estimate": (table, "-m", "linear", "-t", "y"),
                "demo": ("--num-observations", 2, "--out", home / "out"),
            }[command]
            assert main([command, *map(str, (*arguments, *words))]) == 0
        assert capsys.readouterr().err == ""
        used = jax.config.jax_compilation_cache_dir
        return used and Path(used)

    return cache_of


@pytest.mark.parametrize("command", ["estimate", "demo"])
def test_commands_use_the_cache_by_default(cache_of, home, command):
    assert cache_of(command=command).is_relative_to(home)


@pytest.mark.parametrize("command", ["estimate", "demo"])
def test_the_switch(cache_of, home, monkeypatch, command):
    assert cache_of("--compilation-cache", "off", command=command) is None
    monkeypatch.setenv("EVIDENTIA_COMPILATION_CACHE", "off")
    assert cache_of(command=command) is None
    monkeypatch.setenv("EVIDENTIA_COMPILATION_CACHE", str(home / "variable"))
    assert cache_of(command=command) == home / "variable"
    assert cache_of("--compilation-cache", home / "option", command=command) == home / "option"


def test_off_makes_no_folder(cache_of, home):
    cache_of("--compilation-cache", "off")
    assert [path.name for path in home.iterdir()] == ["table.csv"]


def test_commands_go_without_a_folder_that_cannot_be_written(cache_of, home):
    (home / "file").write_text("")
    assert cache_of("--compilation-cache", home / "file") is None


def test_a_cache_that_the_user_has_set_for_jax_stays(cache_of, home):
    jax.config.update("jax_compilation_cache_dir", str(home / "jax"))
    assert cache_of() == home / "jax"
    assert cache_of("--compilation-cache", home / "option") == home / "option"


@pytest.mark.reference
def test_a_command_that_loads_compiled_programs_says_nothing(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n2,3\n3,4\n")
    words = [sys.executable, "-m", "evidentia", "estimate", table, "-m", "linear", "-t", "y", "--quiet"]
    environment = talkative(EVIDENTIA_COMPILATION_CACHE=str(tmp_path / "cache"))
    for _ in range(2):
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert list((tmp_path / "cache").glob("*-cache"))


def test_a_command_says_nothing_of_a_damaged_program(tmp_path):
    """A killed run or a full disk can leave a damaged program: JAX warns and compiles it."""
    folder = ev.use_compilation_cache(tmp_path)
    compile_one()
    for program in folder.glob("*-cache"):
        program.write_bytes(program.read_bytes()[:10])
    with pytest.warns(UserWarning, match="Error reading persistent compilation cache"):
        compile_one()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shell.keep_compiled_programs(str(folder))
        compile_one()


@pytest.mark.slow
def test_a_second_call_with_the_same_shapes_compiles_nothing():
    model = ev.models.linear_regression(num_features=3)
    first, second = (model.simulate(2000, seed)[0] for seed in (0, 1))
    ev.estimate(model, first)
    compiled = []

    def listen(event, seconds, **_):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        ev.estimate(model, second, seed=1)
        assert compiled == []
        compile_one()  # the listener works
        assert compiled != []
    finally:
        jax.monitoring.clear_event_listeners()


# --- How many programs are kept ------------------------------------------------------------------


def traced(programs):
    """A jitted function of a static argument, and the list of arguments it was traced for."""
    arguments = []

    @compilation.jitted(static_argnames="power", kept_in=programs)
    def summed(x, power):
        arguments.append(power)
        return jnp.sum(x**power)

    return summed, arguments


def test_a_program_is_compiled_once_while_few_are_kept():
    summed, arguments = traced(Programs())
    for power in (2, 3, 2, 3):
        assert summed(jnp.arange(3.0), power) == 1 + 2**power
    assert arguments == [2, 3]
    assert summed(jnp.arange(3.0), power=4) == 17


def test_programs_used_longest_ago_are_dropped_and_compiled_again_when_used():
    summed, arguments = traced(programs := Programs(most=2))
    before = [float(summed(jnp.arange(3.0), power)) for power in (2, 3, 2, 4)]  # drops 3
    assert len(programs) == 2
    assert [float(summed(jnp.arange(3.0), power)) for power in (2, 3, 2, 4)] == before
    assert arguments == [2, 3, 4, 3, 4]


def test_jax_lets_go_of_dropped_programs():
    summed, _ = traced(programs := Programs(most=3))
    functions = []
    for power in range(8):
        summed(jnp.arange(3.0), power)
        functions.append(weakref.ref(next(reversed(programs._kept.values()))))
    gc.collect()
    assert [function() is not None for function in functions] == 5 * [False] + 3 * [True]


def test_programs_are_dropped_when_memory_maps_get_scarce():
    shares = iter([0.1, 0.2, 0.3, 0.4, 0.6])
    summed, arguments = traced(programs := Programs(maps_every=1, share_of_maps=lambda: next(shares)))
    for power in range(5):
        summed(jnp.arange(3.0), power)
    assert len(programs) == 4
    for power in (4, 3, 2, 1):
        summed(jnp.arange(3.0), power)
    assert arguments == [0, 1, 2, 3, 4]  # the first was dropped


MANY_MODELS = """
from pathlib import Path
import numpy as np, numpyro.distributions as dist
import evidentia as ev
from evidentia.system import compilation

compilation.programs.most = 12
y = np.arange(5.0)


def one(width):
    log_likelihood = lambda params, batch: dist.Normal(params["mean"], 1.0).log_prob(batch["y"])
    model = ev.Model({"mean": dist.Normal(0.0, width)}, log_likelihood)
    found = ev.estimate(model, {"y": y}, method=ev.PriorSampling(num_particles=1000))
    return found.log_evidence, Path("/proc/self/maps").read_bytes().count(b"\\n")


first, *rest = [one(width) for width in range(1, 9)]
assert len(compilation.programs) == 12, len(compilation.programs)
assert one(1)[0] == first[0]
growth = [rest[place + 1][1] - rest[place][1] for place in range(len(rest) - 1)]
assert max(growth) < 40, growth  # 129 if all programs are kept
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="memory maps are counted on Linux")
def test_models_one_after_the_other_do_not_use_up_the_memory_maps():
    subprocess.run([sys.executable, "-c", MANY_MODELS], check=True, timeout=300)
