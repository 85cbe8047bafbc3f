"""The package as users get it: wheel, effects of the import, and docstrings of public names."""

import ast
import email
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import evidentia

REPOSITORY = Path(__file__).resolve().parents[1]


# Python paths, and variables of conftest.py that would hide that an import changes them.
OWN_VARIABLES = {"PYTHONPATH", "VIRTUAL_ENV", "MPLBACKEND", "TF_CPP_MIN_LOG_LEVEL"}


def run(*command: str | Path, **options) -> str:
    """Run a command without this process's own variables; return its output, or fail with it."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        **options,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, REPOSITORY)
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_holds_the_whole_package(wheel):
    source = REPOSITORY / "src"
    files = {
        str(path.relative_to(source))
        for path in (source / "evidentia").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    experiments = (path for path in (REPOSITORY / "experiments").iterdir() if path.is_file())  # no results
    files |= {f"evidentia/_repository/experiments/{path.name}" for path in experiments}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == files
    assert "evidentia/py.typed" in packed


@pytest.mark.slow
def test_wheel_runs_without_the_source_tree(wheel, tmp_path):
    """The wheel alone, with the dependencies of this environment."""
    words = ("install", "--quiet", "--no-deps", "--no-compile", "--no-index", "--target", tmp_path / "wheel")
    run(sys.executable, "-m", "pip", *words, wheel)
    script = f"""
        import sys
        sys.path.insert(0, {str(tmp_path / "wheel")!r})
        import evidentia
        from importlib.metadata import distribution
        assert evidentia.__file__.startswith(sys.path[0]), evidentia.__file__
        here = distribution("evidentia")
        assert here.version == evidentia.__version__
        (command,) = here.entry_points.select(group="console_scripts")
        sys.argv = [command.name, "--help"]
        assert command.load()(["reproduce", "--list"]) == 0
        from experiments import catalogue
        assert catalogue.__file__.startswith(sys.path[0]), catalogue.__file__
    """
    assert "error-model" in run(sys.executable, "-c", textwrap.dedent(script), cwd=tmp_path)
    assert list((tmp_path / "wheel").glob("evidentia/report/*.j2"))


def _module(requirement: str) -> str:
    """The module of a required package."""
    name = re.match(r"[\w-]+", requirement)[0]
    return {"nats-py": "nats", "paho-mqtt": "paho"}.get(name, name.replace("-", "_"))


def test_every_import_is_a_declared_dependency(wheel):
    """The wheel requires exactly what its modules import; the rest is in the extras of engines."""
    imported = set()
    for path in (REPOSITORY / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    imported -= {*sys.stdlib_module_names, "evidentia"}
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    lines = metadata.get_all("Requires-Dist")
    required = {_module(line) for line in lines if "extra ==" not in line}
    extras = r"extra == .(avro|bilby|dask|events|gp|kafka|mqtt|nats|pymc|ray|redis|serve)\b"
    optional = {_module(line) for line in lines if re.search(extras, line)}
    assert required <= imported <= required | optional


@pytest.mark.network
def test_wheel_runs_in_an_empty_environment(wheel, tmp_path):
    """With its declared dependencies only; half a minute, so in `make test-oldest` alone."""
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    constraints = REPOSITORY / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", constraints, wheel)
    assert "estimate" in run(tmp_path / "empty" / "bin" / "evidentia", "--help", cwd=tmp_path)
    version = run(
        python, "-c", "from importlib.metadata import version; print(version('evidentia'))", cwd=tmp_path
    )
    assert version.strip() == evidentia.__version__
    assert list(
        (tmp_path / "empty").glob("lib/python*/site-packages/evidentia/report/*.j2")
    )  # not the source tree


def modules() -> list[str]:
    found = pkgutil.walk_packages(evidentia.__path__, "evidentia.")
    needs_others = "evidentia.bilby_sampler"  # bilby
    names = (module.name for module in found if module.name != needs_others)
    return ["evidentia", *(name for name in names if "._" not in name)]


IMPORT_ALL = f"import {', '.join(modules())}"  # the import of evidentia alone loads almost nothing


@pytest.mark.slow
def test_import_changes_no_global_state():
    """JAX's configuration, logging, matplotlib, warnings, randomness and environment."""
    assert len(modules()) > 100
    script = f"""
        import logging, os, signal, sys, warnings

        import jax, matplotlib, numpy
        # Their own changes on import do not count.
        import arviz, blackjax, numpyro, pyarrow, rich, typer

        def state():
            return {{
                "jax": dict(jax.config.values),
                "logging handlers": list(logging.getLogger().handlers),
                "logging level": logging.getLogger().level,
                "matplotlib": {{key: dict.get(matplotlib.rcParams, key) for key in matplotlib.rcParams.keys()}},
                "warnings": list(warnings.filters),
                "numpy errors": numpy.geterr(),
                "numpy print": str(numpy.get_printoptions()),
                "numpy random": numpy.random.get_state()[1].tolist(),
                "environment": dict(os.environ),
                "signals": signal.getsignal(signal.SIGINT),
                "excepthook": sys.excepthook,
            }}

        before = state()
        {IMPORT_ALL}
        after = state()
        changed = [name for name in before if before[name] != after[name]]
        assert not changed, changed
    """
    run(sys.executable, "-W", "ignore", "-c", textwrap.dedent(script))


@pytest.mark.slow
def test_import_leaves_jax_alone_when_it_comes_first():
    """The same if evidentia is imported before anything else: JAX has its defaults."""
    show = "import jax; print(sorted((k, str(v)) for k, v in jax.config.values.items()))"
    quiet = sys.executable, "-W", "ignore", "-c"
    assert run(*quiet, f"{IMPORT_ALL}; {show}") == run(*quiet, show)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
def test_import_computes_nothing_with_jax():
    """In a child of a process that had used JAX, the import would never end."""
    script = f"""
        import os, signal

        import jax.numpy as jnp
        import arviz, blackjax, numpyro, numpyro.infer  # what they compute on import does not count

        jnp.zeros(3).block_until_ready()
        if not os.fork():
            signal.alarm(60)
            {IMPORT_ALL}
            os._exit(0)
        assert os.wait()[1] == 0
    """
    run(sys.executable, "-W", "ignore", "-c", textwrap.dedent(script))


def documented(name: str, thing: object) -> list[str]:
    """The names below a public class or function without a docstring."""
    if isinstance(thing, property):
        return [] if inspect.getdoc(thing.fget) else [name]
    if isinstance(thing, staticmethod | classmethod):
        thing = thing.__func__
    own = (thing.__doc__ or "").strip()
    generated = own.startswith(f"{name.rpartition('.')[2]}(")  # by dataclass or NamedTuple
    missing = [] if own and not generated else [name]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and isinstance(
                value, property | staticmethod | classmethod | type(documented)
            ):
                missing += documented(f"{name}.{member}", value)
    return missing


@pytest.mark.parametrize("name", modules())
def test_every_public_name_has_a_docstring(name):
    module = importlib.import_module(name)
    missing = [] if (module.__doc__ or "").strip() else [name]
    for member, value in vars(module).items():
        here = getattr(value, "__module__", None) == name
        if here and not member.startswith("_") and callable(value):
            missing += documented(f"{name}.{member}", value)
    assert not missing, f"without a docstring: {', '.join(missing)}"


def public_names() -> dict[str, object]:
    """The names that users call, from the rooms that the site documents."""
    rooms = "", ".kernels", ".posterior.gradients", ".latent", ".model.built_in", ".data.sources"
    found = {}
    for room in (importlib.import_module(f"evidentia{name}") for name in rooms):
        for name in getattr(room, "__all__", [name for name in vars(room) if name[0].isupper()]):
            found[f"{room.__name__}.{name}"] = getattr(room, name)
    return {
        name: thing
        for name, thing in found.items()
        if getattr(thing, "__module__", "").startswith("evidentia")
    }


def is_protocol(thing: object) -> bool:
    """A protocol specifies an interface and has no source itself."""
    return getattr(thing, "_is_protocol", False)


def test_every_algorithm_says_its_source():
    verbs = "run", "move", "prepare", "fit", "update"
    found = {
        name: thing
        for name, thing in public_names().items()
        if name.startswith("evidentia.model.built_in.")
        or (any(callable(getattr(thing, verb, None)) for verb in verbs) and not is_protocol(thing))
    }
    del found["evidentia.posterior.gradients.FullBatch"]  # the gradient by definition
    assert len(found) > 30
    missing = [name for name, thing in found.items() if "Source:" not in (inspect.getdoc(thing) or "")]
    assert not missing, f"without a source: {', '.join(missing)}"


def test_what_checks_its_arguments_says_what_it_raises():
    """In functions and constructors with a `raise` or a call of a `check_` function."""
    missing = []
    for name, thing in public_names().items():
        own = vars(thing) if inspect.isclass(thing) else {"": thing}
        for member, value in own.items():
            function = getattr(value, "__func__", value)
            if not inspect.isfunction(function) or (member.startswith("_") and member != "__post_init__"):
                continue
            told = f"{inspect.getdoc(function)} {inspect.getdoc(thing) if member.startswith('_') else ''}"
            checks = re.search(r"\braise [A-Z]|\bcheck_\w+\(", inspect.getsource(function))
            if checks and "Raise" not in told:
                missing.append(f"{name}.{member}")
    assert not missing, f"say nothing of their errors: {', '.join(missing)}"


def test_type_checkers_see_the_names_that_are_loaded():
    """The imports under TYPE_CHECKING are the table of lazy names: same names, same modules."""
    tree = ast.parse(inspect.getsource(evidentia))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}
    (version,) = (node for node in block.body if not isinstance(node, ast.ImportFrom))
    assert ast.unparse(version) == "__version__: str"
    loaded = {name: (f"evidentia.{home}", name) for home, names in evidentia._NAMES.items() for name in names}
    for name, module in evidentia._MODULES.items():
        loaded[name] = tuple(f"evidentia.{module}".rsplit(".", 1))
    assert seen == loaded
    assert sorted(seen) == evidentia.__all__


def test_all_names_exist_and_are_sorted_out():
    assert len(set(evidentia.__all__)) == len(evidentia.__all__)
    for name in evidentia.__all__:
        assert hasattr(evidentia, name), name


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["estimate", "--help"], ["stream", "--help"]])
def test_help_loads_nothing_heavy(words):
    """Help and completion are there at once: JAX alone takes a second."""
    code = (
        "import sys; from evidentia.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'jax', 'numpy', 'numpyro', 'scipy', 'matplotlib', 'pyarrow'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
def test_the_import_alone_loads_nothing_heavy():
    code = "import sys, evidentia; assert not {'jax', 'numpy'} & set(sys.modules); evidentia.SGAIS"
    subprocess.run([sys.executable, "-c", code], check=True)
