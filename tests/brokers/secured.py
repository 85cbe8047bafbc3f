"""The same brokers with a login, over TLS, with a certificate that only they know."""

import ssl
import subprocess
from pathlib import Path
from typing import Any

import redis
from paho.mqtt.client import Client

from tests.brokers.servers import ByMqtt, ByNats, ByRedis, program

PASSWORD = "p@ss/word"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A new certificate of 127.0.0.1, signed by itself, and its key."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, key = folder / "cert.pem", folder / "key.pem"
    words = [program("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    made = ["-keyout", str(key), "-out", str(kept)]
    subprocess.run([*words, *names, *made], check=True, capture_output=True, timeout=60)
    return kept, key


class SecuredRedis(ByRedis):
    def __init__(self, folder: Path):
        self.certificate, self.key = certificate(folder)
        super().__init__(folder)

    def url_of(self, password: str) -> str:
        return f"rediss://:{password}@127.0.0.1:{self.port}/readings"

    def client(self) -> redis.Redis:
        ca = str(self.certificate)
        return redis.Redis(port=self.port, password=PASSWORD, ssl=True, ssl_ca_certs=ca, host="127.0.0.1")

    def command(self) -> list[str]:
        files = ["--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key)]
        tls = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
        return [*super().command(), *tls, *files, "--requirepass", PASSWORD]


class SecuredMqtt(ByMqtt):
    def __init__(self, folder: Path):
        self.certificate, self.key = certificate(folder)
        words = [program("mosquitto_passwd", "mosquitto"), "-b", "-c", folder / "passwords", "reader"]
        subprocess.run([*words, PASSWORD], check=True, capture_output=True)
        super().__init__(folder)

    def url_of(self, password: str) -> str:
        return f"mqtts://reader:{password}@127.0.0.1:{self.port}/readings/+"

    def client(self) -> Client:
        client = super().client()
        client.username_pw_set("reader", PASSWORD)
        client.tls_set(str(self.certificate))
        return client

    def command(self) -> list[str]:
        words = super().command()
        conf = self.folder / "conf"
        lines = conf.read_text().replace("allow_anonymous true", "allow_anonymous false")
        files = f"certfile {self.certificate}\nkeyfile {self.key}\npassword_file {self.folder}/passwords\n"
        conf.write_text(lines + files)
        return words


class SecuredNats(ByNats):
    def __init__(self, folder: Path):
        self.certificate, self.key = certificate(folder)
        super().__init__(folder)

    def url_of(self, password: str) -> str:
        return f"tls://{password}@127.0.0.1:{self.port}/readings"

    def connection(self) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=str(self.certificate))
        return {"servers": f"tls://127.0.0.1:{self.port}", "tls": context, "token": PASSWORD}

    def command(self) -> list[str]:
        files = ["--tlscert", str(self.certificate), "--tlskey", str(self.key)]
        return [*super().command(), "--auth", PASSWORD, "--tls", *files]
