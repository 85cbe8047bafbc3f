"""The files for systemd and containers start commands and ask addresses that exist."""

import json
import re
import shlex
from pathlib import Path

import typer

from evidentia.cli import app
from evidentia.service.settings import Server

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def parsed(words):
    command = typer.main.get_command(app).commands[words[1]]
    return command.make_context(words[1], words[2:]).params


def test_the_unit_starts_the_service():
    unit = (DEPLOY / "evidentia.service").read_text()
    (check, start) = (
        shlex.split(line) for line in re.findall(r"^Exec(?:StartPre|Start)=(.*)$", unit, flags=re.MULTILINE)
    )
    assert parsed(check)["check"] and not parsed(start)["check"]
    assert parsed(start)["config"] == parsed(check)["config"] == Path("/etc/evidentia/service.toml")
    assert "RestartPreventExitStatus=2" in unit  # of a wrong configuration


def test_the_container_starts_the_service_and_asks_for_its_health():
    file = (DEPLOY / "Containerfile").read_text()
    entry, command = (
        json.loads(re.search(rf"^{name} (.*)$", file, flags=re.MULTILINE)[1])
        for name in ("ENTRYPOINT", "CMD")
    )
    assert parsed(entry + command)["config"] == Path("/etc/evidentia/service.toml")
    port = Server().port
    assert f"EXPOSE {port}" in file and f"http://127.0.0.1:{port}/healthz" in file
