"""The checked arguments of `evidentia stream`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidentia.cli.models import named_model
from evidentia.cli.stream.session import Session
from evidentia.data.form import Form
from evidentia.data.sources import Missing
from evidentia.evidence import SGAIS
from evidentia.online.online import Online


@dataclass(frozen=True)
class Plan:
    """Checked arguments of the command. `models` maps result names to values of `--model`."""

    sources: list[str]
    models: Mapping[str, str]
    options: Mapping[str, Any]
    target: str | None
    features: Sequence[str] | None
    batch_size: int
    reservoir_size: int
    method: SGAIS
    missing: Missing
    form: Form
    follow: bool
    payload: str
    dead_letters: Path | None
    checkpoint: Path | None
    checkpoint_every: float
    false_alarm_rate: float | None
    seed: int
    out: Path | None
    as_json: bool
    quiet: bool

    def settings(self, features: list[str]) -> dict[str, Any]:
        """Arguments that determine the numbers; a resumed run must have the same."""
        return {
            "--model": list(self.models),  # without the paths: files of models may be moved
            **{f"--{name.replace('_', '-')}": value for name, value in self.options.items()},
            "--target": self.target,
            "--features": features,
            "--batch-size": self.batch_size,
            "--reservoir-size": self.reservoir_size,
            "--num-particles": self.method.num_particles,
            "--false-alarm-rate": self.false_alarm_rate,
            "--seed": self.seed,
        }

    def session(self, num_features: int, content: Mapping[str, Any] | None) -> Session:
        """Create a session, or restore the one of a checkpoint."""
        models = {label: named_model(name, num_features, self.options) for label, name in self.models.items()}
        if content is not None:
            return Session.unpacked(content["session"], models)
        onlines = {
            label: Online(model, self.method, seed=self.seed, reservoir_size=self.reservoir_size)
            for label, model in models.items()
        }
        return Session(onlines, self.false_alarm_rate)
