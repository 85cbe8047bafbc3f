"""mpi4py's executor evaluates a likelihood in the other processes of `mpiexec`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside_peaks import EXACT

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.cluster
def test_a_likelihood_on_two_workers():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    if shutil.which("mpiexec") is None:
        pytest.skip("mpiexec is not installed")
    allowed = dict.fromkeys(
        ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"), "1"
    )
    paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    command = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", "tests/cluster/one_mpi_run.py"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **allowed, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    log_evidence, error = map(float, done.stdout.split())
    assert abs(log_evidence - EXACT) < 4 * error < 0.2
