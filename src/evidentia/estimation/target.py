"""Runs with more particles, until the standard error is as small as it is to be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evidentia.errors import EvidentiaError
from evidentia.results.result import Evidence

MAX_PARTICLES = 65_536  # limit for `target_standard_error`


def to_target(
    run: Callable[[Any], tuple[Evidence, list[str]]],
    chosen: Any,
    target: float | None,
    most: int = MAX_PARTICLES,
) -> tuple[Evidence, list[str]]:
    """The result of a run, or of one with as many particles as a target needs, and messages."""
    evidence, messages = run(chosen)
    while evidence.completed and (more := more_particles(evidence, target, most)):
        try:
            found, messages = run(replace(chosen, num_particles=more))
            if not found.completed:
                raise KeyboardInterrupt
            evidence = found
        except KeyboardInterrupt:
            kept = f"{evidence.method.num_particles:,}"
            messages = [f"the run with {more:,} particles was stopped; the result is that with {kept}."]
            break
        except EvidentiaError as error:  # for example, the source can be read only once
            error.evidence = evidence
            raise
    if target is not None and not evidence.standard_error <= target:
        known = "unknown" if math.isnan(evidence.standard_error) else f"{evidence.standard_error:.2g} nats"
        messages.append(
            f"the standard error is {known} with {evidence.method.num_particles:,} particles; "
            f"target_standard_error={target:g} was not reached."
        )
    return evidence, messages


def more_particles(evidence: Evidence, target: float | None, most: int = MAX_PARTICLES) -> int | None:
    """Particles needed for the target, as error² falls as 1/particles, or `most`; None to stop."""
    if target is None or not evidence.standard_error > target:  # also if it is unknown
        return None
    count = evidence.method.num_particles
    ratio = min(evidence.standard_error / target, float(most))  # its square is finite
    return min(math.ceil(1.2 * count * ratio**2), most) if count < most else None
