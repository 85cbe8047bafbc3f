"""What the measurements were made on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe_machine() -> dict[str, str | int]:
    """Processor, cores and versions; nothing that identifies the machine itself."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    packages = ["evidentia", "jax", "numpyro", "blackjax", "numpy", "dynesty"]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
