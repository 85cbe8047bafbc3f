"""Real brokers on free ports of this machine, started and ended by process id."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 20.0
KAFKA = """
import sys
from confluent_kafka import Producer
mock = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused"})
brokers = mock.list_topics(timeout=10).brokers.values()
print(",".join(f"{one.host}:{one.port}" for one in brokers), flush=True)
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def program(name: str, package: str) -> str:
    """The path of a server's program; the package is installed if it is missing and may be."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "--yes", "-qq", "--no-install-recommends", package]
        subprocess.run(install, capture_output=True, timeout=300, check=False)
        found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip(f"needs the server {name}: install the package {package}")
    return found


class Server:
    """A server in a folder, that can be killed and started again on its port."""

    def __init__(self, folder: Path):
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen | None = None
        self.start()

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{self.command()[0]} did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """End it without a chance to save anything."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


class RedisServer(Server):
    """Redis that syncs each entry to disk before it answers."""

    def command(self) -> list[str]:
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        return [program("redis-server", "redis-server"), *words]


class Mosquitto(Server):
    """Mosquitto with sessions on disk."""

    def command(self) -> list[str]:
        (self.folder / "conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"autosave_interval 1\npersistence_location {self.folder}/\nmax_queued_messages 0\nuser root\n"
        )
        return [program("mosquitto", "mosquitto"), "-c", "conf"]


class NatsServer(Server):
    """NATS with JetStream on disk."""

    def command(self) -> list[str]:
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder / "data")]
        return [program("nats-server", "nats-server"), "-js", *where]


class KafkaMock:
    """The mock cluster of librdkafka, in a process of its own."""

    def __init__(self):
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen([sys.executable, "-c", KAFKA], text=True, **pipes)
        assert self._process.stdout is not None
        self.servers = self._process.stdout.readline().strip()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
