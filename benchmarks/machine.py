"""The machine and versions of the measurements."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ["evidentia", "jax", "numpyro", "blackjax", "numpy"]
OPTIONAL_PEERS = ["dynesty", "nautilus-sampler", "ultranest", "pymc"]


def describe_machine() -> dict[str, str | int]:
    """Processor, cores and versions; nothing that identifies the machine itself."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        **{name: found for name in OPTIONAL_PEERS if (found := _version(name)) is not None},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
