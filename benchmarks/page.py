"""Write docs/benchmarks.md from the newest file in benchmarks/results.

A results file is what benchmarks/run.py leaves, <date>.json:

    {"date": "2026-01-31", "command": "…", "machine": {"processor": "…", …}, "versions": {"jax": "…", …},
     "rows": [{"model": "linear", "num_observations": 10000, "method": "SGAIS()", "seconds": 0.5, …}, …]}

Rows with the same model make one table; its columns are the keys of the rows, in their order.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

HEAD = """# Benchmarks

Time and error of the methods, measured side by side in one process per model. `make benchmark` measures them anew on
your machine and rewrites this page; earlier results stay in `benchmarks/results/`.
"""


def cell(value: object) -> str:
    """A number in three digits, thousands separated; nothing for a missing one."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(rows: list[dict]) -> str:
    """Rows as Markdown, numbers to the right."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "model"))
    numeric = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in columns]
    lines = [
        [key.replace("_", " ") for key in columns],
        ["---:" if right else "---" for right in numeric],
        *([cell(row.get(key)) for key in columns] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(results: dict) -> str:
    """The whole page."""
    parts = [HEAD]
    for model in dict.fromkeys(row["model"] for row in results["rows"]):
        parts += [
            f"## {model[:1].upper()}{model[1:]}\n",
            table([r for r in results["rows"] if r["model"] == model]),
            "",
        ]
    facts = {"date": results.get("date"), **results.get("machine", {}), **results.get("versions", {})}
    parts += ["## Where\n", *(f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items()), ""]
    return "\n".join(parts)


def main() -> None:
    """Rewrite the page, or say that there is nothing to show yet."""
    files = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    if not files:
        sys.exit("no results in benchmarks/results; run benchmarks/run.py first")
    text = page(json.loads(files[-1].read_text()))
    (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")
    print(f"docs/benchmarks.md shows {files[-1].name}")


if __name__ == "__main__":
    main()
