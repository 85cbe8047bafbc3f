"""The rooms: imports only go down, never in a circle, and no name hides a module.

Every import counts, also inside functions and for type checkers only.
"""

import ast
import importlib
import inspect
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import evidentia

SOURCE = Path(evidentia.__file__).parent
LAYERS = (
    {"arviz_bridge"},
    {"errors", "weights"},
    {"system", "trajectory"},
    {"model", "kernels", "data", "checkpoint"},
    {"posterior", "brokers"},
    {"evidence", "display"},
    {"results"},
    {"online", "cluster"},
    {"regression"},
    {"bf"},
    {"estimation"},
    {"monitor", "latent", "report", "bilby_sampler"},
    {"fleet"},
    {"streams"},
    {"service"},
    {"__init__"},
    {"cli"},
    {"__main__"},
)
HEIGHTS = {room: height for height, layer in enumerate(LAYERS) for room in layer}


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports(module: str) -> set[str]:
    """The modules of this package that a module imports anywhere in its source."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module} has a relative import"
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in inside}
    return {name for name in found if name in MODULES and name != module}


@cache
def all_imports() -> dict[str, set[str]]:
    return {module: imports(module) for module in MODULES}


def test_every_room_has_its_layer():
    assert {room_of(module) for module in MODULES} == set(HEIGHTS)


def test_imports_go_down():
    upwards = [
        f"{module} imports {other}"
        for module in MODULES
        for other in all_imports()[module]
        if room_of(other) != room_of(module) and HEIGHTS[room_of(other)] >= HEIGHTS[room_of(module)]
    ]
    assert not upwards, "\n".join(upwards)


def test_no_imports_in_a_circle():
    TopologicalSorter(all_imports()).prepare()  # raises CycleError with the circle


def test_a_circle_would_be_found():
    with pytest.raises(CycleError):
        TopologicalSorter(all_imports() | {"evidentia.errors": {"evidentia.cli.run"}}).prepare()


def test_no_name_hides_a_module():
    needs_others = {"evidentia.__main__", "evidentia.bilby_sampler"}  # a command, and the package bilby
    hidden = [
        f"{package}.{name} is a module and {thing!r}"
        for package in sorted(MODULES.keys() - needs_others)
        for name, thing in vars(importlib.import_module(package)).items()
        if f"{package}.{name}" in MODULES and not inspect.ismodule(thing)
    ]
    assert not hidden, "\n".join(hidden)


def test_every_module_says_what_it_is_for():
    silent = [
        module
        for module, path in MODULES.items()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent, ", ".join(silent)
