"""The verdict on an estimate: whether to trust it, and what to do if not."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

# Signs of estimates whose standard error says nothing, however many nats it is.
WITHOUT_VALUE = {
    "infinite variance",
    "prior far from posterior",
    "region too small",
    "stopped on the way",
}


class Verdict(NamedTuple):
    """Whether a log evidence can be trusted.

    Attributes:
        word: "trusted" if no check failed; "doubtful" if a sign was found that the log evidence or
            its standard error is wrong, or the error is unknown, or the run was stopped; "failed"
            if the number must not be used.
        reason: what was found, and what to do next.

    Example:
        >>> print(verdict_of(-10.0, 0.1, signs={}, completed=True))
        trusted: no sign of trouble was found.
    """

    word: Literal["trusted", "doubtful", "failed"]
    reason: str

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"

    def to_dict(self) -> dict[str, str]:
        """A JSON-compatible form."""
        return self._asdict()


def verdict_of(
    log_evidence: float, standard_error: float, *, signs: Mapping[str, str], completed: bool
) -> Verdict:
    """The verdict on a log evidence, in nats, from the signs that its method found.

    `signs` are sentences by name, as in `Evidence.signs`; `completed` is False for a run that was
    stopped before the end of the data.
    """
    if not math.isfinite(log_evidence) or standard_error == math.inf:
        return Verdict(
            "failed",
            f"the log evidence is {log_evidence:g} with a standard error of {standard_error:g}. Check "
            "the data and the log-likelihood at draws from the prior.",
        )
    if fatal := WITHOUT_VALUE & signs.keys():
        return Verdict("failed", _with_others(min(fatal), signs))
    if signs:
        return Verdict("doubtful", _with_others(next(iter(signs)), signs))
    if not completed:
        return Verdict("doubtful", "the run was stopped early: this is its estimate at that point.")
    if math.isnan(standard_error):
        return Verdict(
            "doubtful",
            "the method knows no standard error. Run other seeds, or compare with SGAIS().",
        )
    return Verdict("trusted", "no sign of trouble was found.")


def read_verdict(value: Any) -> Verdict | None:
    """A verdict from its `to_dict`; None for anything else, as earlier versions wrote none."""
    match value:
        case {"word": "trusted" | "doubtful" | "failed" as word, "reason": str(reason)}:
            return Verdict(word, reason)
    return None


def _with_others(name: str, signs: Mapping[str, str]) -> str:
    others = ", ".join(other for other in signs if other != name)
    return f"{signs[name]} (Other signs: {others}.)" if others else signs[name]
