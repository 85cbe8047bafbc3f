"""Exceptions and warnings: every one names the argument, what was given and what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evidentia.latent.fit import LatentFit
    from evidentia.result import Evidence


class EvidentiaError(Exception):
    """Base of every error that evidentia raises on purpose; the command line turns it into one message.

    Raised half-way by `estimate`, its `evidence` is the result for the rows taken in before, or None if there were none:
    nothing computed is lost.
    """

    evidence: Evidence | None = None


class DataError(EvidentiaError, ValueError):
    """The data cannot be used: missing columns, NaN, different lengths, labels out of range."""


class ModelError(EvidentiaError, ValueError):
    """The model is not a prior with a pointwise log-likelihood over continuous parameters."""


class ConfigurationError(EvidentiaError, ValueError):
    """A field of a method, or another argument that is not data or model, has an impossible value."""


class EstimationError(EvidentiaError, RuntimeError):
    """The estimator cannot go on: for example every particle has a log-likelihood of -inf or NaN.

    Raised half-way by `fit` of a method for latent variables, its `fit` is the result of the steps before, to within a twentieth of
    all, or None if there were none.
    """

    fit: LatentFit | None = None


class CheckpointError(EvidentiaError, RuntimeError):
    """A checkpoint cannot be written or read: another process writes there, it is damaged, or of another model."""


class EvidenceWarning(UserWarning):
    """The result stands, but its reader should know something about it."""


class DiagnosticWarning(EvidenceWarning):
    """A run shows a sign that its log evidence or standard error may be wrong; says which, and what to do."""
