"""Count the house: files, lines and constants behind one default estimate, and what lies loose.

    python benchmarks/house.py

The core is what `SGAIS` imports, directly or not, from the rooms that do its arithmetic
(`ARITHMETIC`). Lines are all lines of a file, with comments and docstrings.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "evidentia", ROOT / "tests"
START = "evidentia.evidence.sgais"
ARITHMETIC = "evidentia.evidence", "evidentia.posterior", "evidentia.kernels", "evidentia.weights"
CONSTANTS_IN = "evidence", "posterior"
MOST_LINES = 300  # of a file
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")
PATCHED = re.compile(
    r"setattr\(\s*[^,]+,\s*\"?(_\w+|[A-Z][A-Z0-9_]+)\b|\"evidentia\.[\w.]*\.(_\w+|[A-Z][A-Z0-9_]+)\""
)


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imports(module: str) -> Iterator[str]:
    """The modules of this package that a module imports."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (name if name in MODULES else node.module for name in inside)


def closure(start: str) -> list[str]:
    """The modules of `ARITHMETIC` below one of them, without packages that only list names."""
    found, waiting = set(), [start]
    while waiting:
        module = waiting.pop()
        if module in found or module not in MODULES or not module.startswith(ARITHMETIC):
            continue
        found.add(module)
        if MODULES[module].name != "__init__.py":
            waiting.extend(imports(module))
    return sorted(module for module in found if MODULES[module].name != "__init__.py")


def num_lines(path: Path) -> int:
    """The number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def constants(path: Path) -> list[str]:
    """The names of a module that are numbers in capitals."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            each = target.elts if isinstance(target, ast.Tuple) else [target]
            names += [one.id for one in each if isinstance(one, ast.Name) and CONSTANT.fullmatch(one.id)]
    return names


def main() -> None:
    """Print the counts."""
    core = closure(START)
    paths = list(MODULES.values())
    rooms = Counter(path.relative_to(SOURCE).parts[0] for path in paths if path.parent != SOURCE)
    names = Counter(path.name for path in paths if path.name != "__init__.py")
    repeated = sorted(name for name, count in names.items() if count > 1)
    large = sorted(
        (num_lines(path), str(path.relative_to(SOURCE))) for path in paths if num_lines(path) > MOST_LINES
    )
    loose = [path.stem for path in paths if path.parent == SOURCE and not path.stem.startswith("__")]
    numbers = [
        name for room in CONSTANTS_IN for path in (SOURCE / room).rglob("*.py") for name in constants(path)
    ]
    patched = [
        found for path in TESTS.rglob("*.py") for found in PATCHED.findall(path.read_text(encoding="utf-8"))
    ]
    print(f"default update: {len(core)} files, {sum(num_lines(MODULES[each]) for each in core):,} lines")
    print(f"named constants in {' and '.join(CONSTANTS_IN)}: {len(numbers)}")
    print(f"source: {len(paths)} files, {sum(map(num_lines, paths)):,} lines, in {len(rooms)} rooms")
    print(
        f"files above {MOST_LINES} lines: {', '.join(f'{path} ({count})' for count, path in large) or 'none'}"
    )
    print(f"file names that occur more than once: {len(repeated)} ({', '.join(repeated)})")
    print(f"modules loose at the top: {len(loose)} ({', '.join(loose)})")
    print(f"private names and constants patched in tests: {len(patched)}")
    print("\nfiles of the default update:")
    for module in core:
        print(f"  {num_lines(MODULES[module]):5d} {module.removeprefix('evidentia.')}")


if __name__ == "__main__":
    main()
