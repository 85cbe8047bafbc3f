"""What the tests of commands share."""

import pytest

from evidentia.cli import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command and return its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run
