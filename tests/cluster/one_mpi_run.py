"""For `mpiexec -n 3 python -m mpi4py.futures`: a likelihood evaluated by the other two."""

import sys

from mpi4py.futures import MPIPoolExecutor

import evidentia as ev
from tests.outside_peaks import peak

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        found = ev.estimate(peak(executor=executor))
        sys.stdout.write(f"{found.log_evidence} {found.standard_error}\n")
