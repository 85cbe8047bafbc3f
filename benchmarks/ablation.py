"""What each mechanism of `SGAIS` is needed for: each is switched off, alone, on drawn problems.

    python benchmarks/ablation.py --seeds 2000:2200 --minutes 60 --out ablation.jsonl
    python benchmarks/ablation.py --page     # docs/ablation.md of results/ablation*.jsonl

Each problem of `fresh_families` is estimated with all mechanisms, and then without each of them,
with the same seed and in one process, so that programs are shared. A run that takes longer than
--limit is stopped and counts as no answer. Development seeds only: a verdict that is drawn from
a table must not be tested on the same problems.
"""

import argparse
import contextlib
import json
import signal
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from fresh import RESULTS, commit_of_source, read_records, run_once
from fresh_table import FRESH_FROM, counts_of, error_of, is_silent

CORE = "evidentia.evidence.population."
ALL = "all mechanisms"
# Name: what it does, and the attribute that is replaced, with its replacement.
MECHANISMS: dict[str, tuple[str, str, Any]] = {
    "shares of copies": ("exact weights over more than 1,024 copies", "evidentia.posterior.copies.log_shares", lambda *_: 0.0),
    "prior inside float32": ("draws at the edge are left out", CORE + "particles.draws_inside", None),
    "test of the density": ("E_q[r/q] = 1", CORE + "importance.check_density", lambda _: None),
    "look inside": ("searches where the posterior exceeds a proposal", CORE + "about_modes.exceeding", lambda *_: []),
    "free draws": ("16,384 draws while they cost nothing", CORE + "importance.FREE", 0),
    "accurate draws": ("draws for 0.01 nats while they are cheap", CORE + "importance.ACCURATE", 1e9),
    "many modes": ("proposals at the modes near particles", CORE + "redrawing.about_many_modes", lambda *_: None),
    "learnt proposals": ("mixtures fitted to particles", CORE + "redrawing.is_learnable", lambda _: False),
    "rounds of learning": ("improvement by their own draws", CORE + "adapt.effort_for", None),
    "share of the prior": ("a quarter of a learnt proposal's draws", CORE + "redrawing.PRIOR_SHARE", 0.0),
    "cover": ("a proposal must cover the particles", CORE + "redrawing.covers", lambda *_: True),
    "completion at modes": ("particles for what draws about modes miss", CORE + "redrawing._completed_about_modes", None),
    "completion of learnt ones": ("the same for learnt proposals", CORE + "redrawing.completed", None),
    "modes not found": ("the share of modes reached once", CORE + "redrawing.unseen", lambda *_: 0.0),
    "look at far draws": ("what draws for fewer rows show", CORE + "redrawing.unreached", None),
    "only mode": ("leaps where importance sampling fails", CORE + "leaps.only_mode", lambda *_: None),
    "shortcut": ("searches from a long path", "evidentia.evidence.sgais.at_modes_above", lambda *_: None),
    "repeated paths": ("a second path where moves do not mix", "evidentia.evidence.sgais.needs_second_opinion", lambda _: False),
    "jumps": ("of particles between modes", CORE + "moves.fitted_jumps", lambda *_: None),
    "repeated moves": ("until particles are decorrelated", CORE + "moves.MOST_MOVES", 1),
    "means": ("proposals about means in many dimensions", CORE + "about_modes.is_apart", lambda *_: False),
    "rays": ("searches where the posterior rises beside modes", CORE + "about_modes.rises", lambda *_: []),
    "path as second opinion": ("a redraw must agree with its path", CORE + "warning_signs.compare_with_path", None),
    "sample of rows": ("weights from 4,096 of many rows", CORE + "importance.log_likelihoods_near", lambda *_: None),
}  # fmt: skip

# What needs a mechanism that these problems do not show to be needed.
ELSEWHERE = {
    "shares of copies": "normal in 25 dimensions, 20 exchangeable normals (outside.md)",
    "prior inside float32": "precision of Gamma(10⁻⁴) (outside.md)",
    "test of the density": "planted faults",
    "look inside": "spike in a slab (outside.md)",
    "modes not found": "egg box in five dimensions",
    "look at far draws": "a mode that splits as rows arrive",
    "only mode": "many parameters with few rows",
    "shortcut": "a path that is stuck, data far from the prior",
    "means": "tens of parameters",
    "sample of rows": "speed with 10⁶ rows",
}


def replacement_of(name: str) -> Any:
    """What stands in for a mechanism that is switched off."""
    from evidentia.evidence.method import Diagnosis
    from evidentia.evidence.population.adapt import Effort
    from evidentia.evidence.population.check import Unreached
    from evidentia.evidence.population.particles import PriorDraws

    return {
        "prior inside float32": lambda model, key, count: PriorDraws(model.sample_prior(key, count)),
        "rounds of learning": lambda sampling, start: Effort(0, 0, 1.0, 1),
        "completion at modes": lambda sampling, proposal, draws, particles: draws,
        "completion of learnt ones": lambda sampling, proposal, draws, *more: draws,
        "path as second opinion": lambda *_, effective: Diagnosis(),
        "look at far draws": lambda sampling, *_: Unreached(
            np.empty((0, sampling.model.num_parameters)), 0.0
        ),
    }.get(name, MECHANISMS[name][2])


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def stop(*_):
        raise TimeoutError(f"stopped after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def runs_of(family: str, seed: int, names: Iterable[str], limit: float) -> Iterator[dict]:
    """Records of a problem with all mechanisms, and without each of those named."""
    import evidentia as ev

    method = ev.SGAIS()
    with at_most(3 * limit):
        run_once(family, seed, method)  # compiles
    for name in (ALL, *names):
        changed = contextlib.nullcontext()
        if name != ALL:
            changed = patch(MECHANISMS[name][1], replacement_of(name))
        with changed, at_most(limit):
            yield run_once(family, seed, method) | {"without": name}


def page_of(records: list[dict]) -> str:
    """The table in Markdown: how the runs change without each mechanism."""
    base = {problem_of(record): record for record in records if record["without"] == ALL}
    lines = [
        "# Ablation of the core",
        "",
        f"`ev.SGAIS()` on {len({seed for seed, _ in base})} drawn problems with exact evidence (development seeds), and without each of its mechanisms:",
        "`python benchmarks/ablation.py` (the mechanisms and what stands in for each are in the script).",
        "*Changed*: runs whose result differs at all. *Worse*: errors that grow by more than 4 standard errors and 0.1 nats.",
        "*Silent*: runs that are trusted and off by more than that. Seconds are medians after compilation. Each run is compared",
        "with that of all mechanisms on the same code; mechanisms that came later were run on later code, by `--without`.",
        "The code had up to eight rounds of learning with up to 8,192 draws each; today these are four and 4,096.",
        "",
        "*Verdict*: **needed** if runs are worse or silent failures more without it; *no loss* if results change, but nothing",
        "is lost; *not used* if no result changes. On so few problems only the first is a finding: a mechanism for rare",
        "problems is not dead because none of them was drawn, and what two mechanisms see is not missed without one. Tests and",
        "other pages have the problems that need some of them.",
        "",
        "| without | what it does | runs | changed | covered | warned | silent | worse | in families | seconds | verdict |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|--:|---|",
    ]
    for name in (ALL, *MECHANISMS):
        own = [each for each in records if each["without"] == name and problem_of(each) in base]
        if own:
            lines.append(_line_of(name, own, base))
    return "\n".join(lines) + "\n"


def problem_of(record: dict) -> tuple[int, str]:
    """A problem and the code that it was run on: seed and commit."""
    return record["seed"], record["commit"]


def _line_of(name: str, own: list[dict], base: dict[tuple[int, str], dict]) -> str:
    counts = counts_of(own)
    changed = [one for one in own if one.get("log_evidence") != base[problem_of(one)].get("log_evidence")]
    worse = [one for one in changed if _is_worse(one, base[problem_of(one)])]
    families = ", ".join(sorted({one["family"] for one in worse})) or "none"
    what = MECHANISMS[name][0] if name in MECHANISMS else ""
    answered = max(1, counts.runs - counts.unanswered)
    seconds = statistics.median(one["seconds"] for one in own)
    silent_before = sum(is_silent(base[problem_of(one)]) for one in own)
    verdict = "" if name == ALL else "no loss" if changed else "not used"
    if worse or counts.silent > silent_before:
        verdict = "**needed**"
    elif name in ELSEWHERE:
        verdict += f"; needed by: {ELSEWHERE[name]}"
    return (
        f"| {name} | {what} | {counts.runs} | {len(changed)} | {100 * counts.covered / answered:.0f}% | {counts.warned} | "
        f"{counts.silent} | {len(worse)} | {families} | {seconds:.2f} | {verdict} |"
    )


def _is_worse(one: dict, before: dict) -> bool:
    if "log_evidence" not in one or "log_evidence" not in before:
        return "log_evidence" in before
    grown = abs(error_of(one)) - abs(error_of(before))
    return not grown <= max(0.1, 4 * before["standard_error"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="2000:2200", help="from:below, of development")
    parser.add_argument("--step", type=int, default=1, help="every n-th of them, for several processes")
    parser.add_argument("--minutes", type=float, default=30.0, help="no problem starts later")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds of a run")
    parser.add_argument("--out", type=Path, default=Path("ablation.jsonl"))
    parser.add_argument("--without", help="names of mechanisms, with commas; all by default")
    parser.add_argument("--cache", help="folder of compiled programs")
    parser.add_argument("--page", action="store_true", help="write the page of the results and end")
    options = parser.parse_args()
    if options.page:
        found = [one for path in sorted(RESULTS.glob("ablation*.jsonl")) for one in read_records(path)]
        (Path(__file__).parent.parent / "docs" / "ablation.md").write_text(page_of(found))
        return
    from fresh_families import FAMILIES

    import evidentia as ev

    if options.cache:
        ev.use_compilation_cache(options.cache)
    first, below = map(int, options.seeds.split(":"))
    if below > FRESH_FROM:
        raise SystemExit(f"--seeds must be below {FRESH_FROM:,}; got {options.seeds}.")
    without = options.without.split(",") if options.without else list(MECHANISMS)
    if unknown := set(without) - set(MECHANISMS):
        raise SystemExit(f"--without has unknown mechanisms: {', '.join(sorted(unknown))}.")
    names, ends, commit = list(FAMILIES), time.monotonic() + 60 * options.minutes, commit_of_source()
    with options.out.open("a") as lines:
        for seed in range(first, below, options.step):
            if time.monotonic() > ends:
                break
            with contextlib.suppress(TimeoutError):
                for record in runs_of(names[seed % len(names)], seed, without, options.limit):
                    lines.write(json.dumps(record | {"commit": commit}) + "\n")
                    lines.flush()


if __name__ == "__main__":
    main()
