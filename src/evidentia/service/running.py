"""A service: the workers of its streams and the deliverers of its alarms."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from evidentia.errors import ConfigurationError
from evidentia.service import settings as schema
from evidentia.service.engine import Alarm, Engine
from evidentia.service.models import Loader
from evidentia.service.sources import open_source
from evidentia.service.webhooks import Deliverer
from evidentia.service.worker import Worker


class Service:
    """The streams that a configuration describes.

    Attributes:
        settings: the configuration.
        workers: of the streams by name.
        deliverers: of the webhooks by name.
        token: for requests that change something; None if there are no such requests.
        started: when it was made, in seconds since 1970.

    Args:
        settings: the configuration.
        base: folder of relative paths, that of the configuration's file.
        load: loads models of the user's.

    Raises:
        ConfigurationError, ModelError: a source, a model or a secret that cannot be made; the
            message names its key.
    """

    def __init__(self, settings: schema.Settings, base: Path, load: Loader):
        self.settings = settings
        name = settings.server.token_env
        self.token: str | None = None if name is None else schema.secret(name, "server.token_env")
        self.started: float = time.time()
        self.workers: dict[str, Worker] = {}
        self.deliverers: dict[str, Deliverer] = {
            name: Deliverer(name, webhook, self._done(name)) for name, webhook in settings.webhooks.items()
        }
        for name, stream in settings.streams.items():
            self.workers[name] = self._worker(name, stream, base, load)

    def start(self) -> None:
        """Start all threads."""
        for thread in (*self.deliverers.values(), *self.workers.values()):
            thread.start()

    def stop(self) -> bool:
        """End all threads after their batches, with checkpoints; return whether all went well."""
        for worker in self.workers.values():
            worker.stop()
        for worker in self.workers.values():
            worker.join()
        for deliverer in self.deliverers.values():
            deliverer.stop()
        return all(worker.state == "stopped" for worker in self.workers.values())

    @property
    def is_alive(self) -> bool:
        """Whether any stream is still being read."""
        return any(worker.is_alive() for worker in self.workers.values())

    def allows(self, token: str) -> bool:
        """Whether a request with this token may change something."""
        return self.token is not None and secrets.compare_digest(token.encode(), self.token.encode())

    def _worker(self, name: str, stream: schema.Stream, base: Path, load: Loader) -> Worker:
        settings = self.settings
        try:
            subscription = open_source(stream.source, stream.options, base)
        except ConfigurationError as error:
            raise ConfigurationError(f"streams.{name}.source: {error}") from error
        engine = Engine(
            name,
            stream,
            load,
            source=subscription.name,
            webhooks=tuple(settings.webhooks),
            seed=settings.seed,
        )
        folder = None if settings.checkpoint is None else base / settings.checkpoint / name
        every = settings.checkpoint_every
        return Worker(engine, stream, subscription, folder, every, base, self._deliver)

    def _deliver(self, alarm: Alarm, webhooks: set[str]) -> None:
        for name in webhooks:
            self.deliverers[name].send(alarm)

    def _done(self, webhook: str) -> Callable[[Alarm], None]:
        return lambda alarm: self.workers[alarm.stream].engine.delivered(alarm.id, webhook)
