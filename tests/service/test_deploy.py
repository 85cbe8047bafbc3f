"""The files for systemd and containers start commands and ask addresses that exist."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
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


def words_of(name):
    """The words of an instruction of the container's file that has them as a list."""
    file = (DEPLOY / "Containerfile").read_text().replace("\\\n", "")
    return json.loads(re.search(rf"{name}.*?(\[.*\])$", file, flags=re.MULTILINE)[1])


@pytest.mark.network
@pytest.mark.skipif(os.name != "posix", reason="runs the commands of a shell")
def test_the_steps_of_the_container_in_an_empty_environment(tmp_path):
    """Its build, start, check of health and stop, without a container around them."""
    file = (DEPLOY / "Containerfile").read_text().replace("\\\n", "")
    build = re.search(r"^RUN (python -m venv .*)$", file, flags=re.MULTILINE)[1]
    build = build.replace("/opt/evidentia", str(tmp_path / "venv")).replace("python -m", "python3 -m")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**plain, "EXTRAS": "serve", "JAX_PLATFORMS": "cpu"}
    for name in re.findall(r"^!(.*)$", (DEPLOY.parent / ".dockerignore").read_text(), flags=re.MULTILINE):
        here, there = DEPLOY.parent / name, tmp_path / "source" / name
        there.parent.mkdir(exist_ok=True)
        shutil.copytree(here, there) if here.is_dir() else shutil.copy(here, there)
    subprocess.run(build, shell=True, cwd=tmp_path / "source", env=environment, check=True, timeout=900)
    environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}:{environment['PATH']}"
    (tmp_path / "rows.ndjson").write_text('{"y": 1.0}\n' * 10)
    (tmp_path / "service.toml").write_text(
        'checkpoint = "state"\n[streams.s]\nsource = "rows.ndjson"\nbatch_size = 5\n[streams.s.monitors.m]\n'
        'kind = "run_lengths"\ncolumns = "y"\nmodel = { type = "NormalInverseGamma" }\n'
    )
    start = [*words_of("ENTRYPOINT"), str(tmp_path / "service.toml")]
    subprocess.run([*start, "--check"], env=environment, check=True, timeout=120)
    process = subprocess.Popen(start, env=environment, cwd=tmp_path)
    try:
        end = time.monotonic() + 120
        while subprocess.run(words_of("HEALTHCHECK"), env=environment, capture_output=True).returncode:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(1)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert (tmp_path / "state" / "s" / "checkpoint").exists()
