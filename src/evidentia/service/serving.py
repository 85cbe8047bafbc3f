"""A running service with its HTTP server, from start to a graceful stop."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable

import uvicorn

from evidentia.errors import ConfigurationError
from evidentia.service import settings as schema
from evidentia.service.logs import log
from evidentia.service.running import Service
from evidentia.service.web import make_app

TICK = 0.2  # seconds between looks at whether to stop


def serve(service: Service, stop: Callable[[], bool], listening: Callable[[str], None]) -> int:
    """Run a service until `stop` returns true; return the exit code.

    Args:
        service: not yet started.
        stop: asked several times a second.
        listening: called with the URL once requests are answered.

    Returns:
        0; 1 if every stream has failed, or the last checkpoint of one could not be written.

    Raises:
        ConfigurationError: the address cannot be bound to.
    """
    settings = service.settings.server
    bound = _bound(settings)
    host, port = bound.getsockname()[:2]
    is_over = threading.Event()
    config = uvicorn.Config(
        make_app(service, is_over),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([bound],), name="evidentia-http", daemon=True)
    service.start()
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    log("listening", host=host, port=port)
    listening(f"http://{shown}:{port}/")
    if settings.host not in schema.LOOPBACK:
        log("reachable from other machines", logging.WARNING, host=host)
    while not stop() and service.is_alive:
        time.sleep(TICK)
    log("stopping")
    went_well = service.stop()
    is_over.set()
    server.should_exit = True
    thread.join(5.0)
    return 0 if went_well else 1


def _bound(settings: schema.Server) -> socket.socket:
    """A socket that listens at the address; requests wait until they are answered.

    Raises ConfigurationError.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise ConfigurationError(
            f"server.host and server.port: cannot listen on {settings.host}, port {settings.port}: "
            f"{error.strerror or error}. Is the service running already? Give another port."
        ) from error
    return bound
