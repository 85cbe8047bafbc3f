"""Real brokers on free ports of this machine, each with an address to read from and a way to send.

They are started and ended by process id.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import nats
import pytest
import redis
from filelock import FileLock
from paho.mqtt.client import CallbackAPIVersion, Client

START_SECONDS = 20.0
KAFKA = """
import ctypes, glob, sys
import confluent_kafka
(path,) = glob.glob(confluent_kafka.__path__[0] + ".libs/librdkafka*")
library, pointer = ctypes.CDLL(path), ctypes.c_void_p
library.rd_kafka_new.restype = library.rd_kafka_mock_cluster_new.restype = pointer
library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
cluster = pointer(library.rd_kafka_mock_cluster_new(pointer(library.rd_kafka_new(0, None, None, 0)), 1))
print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
for line in sys.stdin:
    getattr(library, "rd_kafka_mock_broker_set_" + line.strip())(cluster, 1)
    print(line.strip(), flush=True)
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def program(name: str, package: str) -> str:
    """The path of a server's program; the package is installed if it is missing and may be."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    if shutil.which(name, path=path) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        # RUNLEVEL=1: the package starts no server of its own.
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        install = f"apt-get -qq update; apt-get -qq install --yes --no-install-recommends {package}"
        with FileLock(Path(tempfile.gettempdir()) / "evidentia-tests-apt.lock"):
            subprocess.run(install, shell=True, env=quiet, capture_output=True, timeout=400, check=False)
    found = shutil.which(name, path=path)
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


class ByRedis(Server):
    """Redis that syncs each entry to disk before it answers."""

    options: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/readings"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def send(self, payloads: list[bytes]) -> None:
        with self.client() as client, client.pipeline(transaction=False) as pipeline:
            for payload in payloads:
                pipeline.xadd("readings", {"payload": payload})
            pipeline.execute()

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


class ByMqtt(Server):
    """Mosquitto with sessions on disk."""

    options: tuple[str, ...] = ("sequence=number",)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}/readings/+"

    def client(self) -> Client:
        return Client(CallbackAPIVersion.VERSION2)

    def send(self, payloads: list[bytes]) -> None:
        client = self.client()
        client.max_inflight_messages_set(1000)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for sent in [client.publish("readings/one", payload, qos=1) for payload in payloads]:
            sent.wait_for_publish(30)
        client.disconnect()
        client.loop_stop()

    def command(self) -> list[str]:
        (self.folder / "conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"autosave_interval 1\npersistence_location {self.folder}/\nmax_queued_messages 0\nuser root\n"
        )
        return [program("mosquitto", "mosquitto"), "-c", "conf"]


class ByNats(Server):
    """NATS with JetStream on disk."""

    options: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}/readings"

    def connection(self) -> dict[str, Any]:
        return {"servers": f"nats://127.0.0.1:{self.port}"}

    def send(self, payloads: list[bytes]) -> None:
        asyncio.run(self._send(payloads))

    async def _send(self, payloads: list[bytes]) -> None:
        client = await nats.connect(**self.connection())
        stream = client.jetstream()
        await stream.add_stream(name="readings", subjects=["readings.*"])
        for start in range(0, len(payloads), 200):
            sent = [stream.publish(f"readings.{one[-2] % 3}", one) for one in payloads[start : start + 200]]
            await asyncio.gather(*sent)
        await client.close()

    def command(self) -> list[str]:
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder / "data")]
        return [program("nats-server", "nats-server"), "-js", *where]


class ByKafka:
    """The mock cluster of librdkafka, in a process of its own.

    It keeps 5 MB of messages in memory, also while its broker is down: all connections are lost
    then, and refused.
    """

    options: tuple[str, ...] = ()
    partitions = 1

    def __init__(self, _folder: Path | None = None):
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen([sys.executable, "-c", KAFKA], text=True, **pipes)
        assert self._process.stdout is not None
        self.servers = self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._tell("down")

    def start(self) -> None:
        self._tell("up")

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == word

    def stop(self) -> None:
        self._process.communicate("", timeout=10)  # it ends with its standard input

    @property
    def url(self) -> str:
        return f"kafka://{self.servers}/readings"

    def send(self, payloads: list[bytes]) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers})
        for index, payload in enumerate(payloads):
            producer.produce("readings", payload, partition=index % self.partitions)
            if index % 1000 == 0:
                producer.flush(10)
        assert producer.flush(20) == 0


class ByKafkaOfFour(ByKafka):
    """Four partitions, whose order of arrival differs each time that they are read."""

    partitions = 4
