"""How long a user waits: imports, the command line, the first estimate, and equal models.

    python benchmarks/first_call.py             # two minutes

No compiled programs are kept between processes. Wanted on a quiet machine: `import evidentia` at
most 1.3 times `import jax, numpyro`; help within 1 s and a completion within 0.4 s; a first
estimate of a NumPyro regression on 2,000 rows within 3 s; each further `Model.from_numpyro` of the
same function, on other columns, within 0.5 s.
"""

import os
import statistics
import subprocess
import sys
import time

RUNS = 5
IMPORTS = {"jax, numpyro": "import jax, numpyro", "all of evidentia": "from evidentia import *"}
MODELS = {  # and numbers of rows
    "linear regression": ("ev.models.linear_regression(num_features=3)", 1000),
    "mixture of three": ("ev.models.gaussian_mixture(3, num_features=2)", 200),
}
FIRST = """
import time
import evidentia as ev
model = {model}
data, _ = model.simulate({rows}, seed=0)
started = time.process_time()
ev.estimate(model, data)
print(time.process_time() - started)
"""
COMMANDS = {"help": ["--help"], "version": ["--version"]}
COMPLETION = {"_EVIDENTIA_COMPLETE": "complete_bash", "COMP_WORDS": "evidentia est", "COMP_CWORD": "1"}


def seconds(words: list[str], **environment: str) -> float:
    """Median seconds of a command in a process of its own."""
    taken = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(words, env={**os.environ, **environment}, capture_output=True, check=False)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def first_estimate(model: str, rows: int) -> float:
    """CPU seconds of an estimate in a process of its own, after imports and simulation."""
    words = [sys.executable, "-c", FIRST.format(model=model, rows=rows)]
    return float(subprocess.run(words, capture_output=True, check=True, text=True).stdout)


def estimates(count: int = 20) -> list[float]:
    """Seconds of estimates of the same NumPyro function, each wrapped again, on 4 of 8 columns."""
    import numpy as np
    import numpyro.distributions as dist
    from numpyro import sample

    import evidentia as ev

    generator = np.random.default_rng(0)
    x = generator.standard_normal((2000, 8)).astype(np.float32)
    noise = generator.standard_normal(2000)
    y = (x @ generator.standard_normal(8) + noise).astype(np.float32)

    def regression(x, y):
        weights = sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        scale = sample("scale", dist.HalfNormal(1))
        sample("y", dist.Normal(x @ weights + sample("intercept", dist.Normal(0, 5)), scale), obs=y)

    taken = []
    for seed in range(count):
        columns = generator.permutation(8)[:4]
        started = time.perf_counter()
        ev.estimate(ev.Model.from_numpyro(regression), {"x": x[:, columns], "y": y}, seed=seed)
        taken.append(time.perf_counter() - started)
    return taken


def main() -> None:
    for name, statement in IMPORTS.items():
        print(f"import {name:24} {seconds([sys.executable, '-c', statement]):6.2f} s")
    command = [sys.executable, "-m", "evidentia"]
    for name, words in COMMANDS.items():
        print(f"evidentia --{name:20} {seconds([*command, *words]):6.2f} s")
    print(f"a completion {'':18} {seconds(command, **COMPLETION):6.2f} s")
    for name, (model, rows) in MODELS.items():
        print(f"first estimate, {name:16} {first_estimate(model, rows):6.2f} CPU s")
    first, *others = estimates()
    print(f"first estimate {'':16} {first:6.2f} s")
    print(f"equal models, median {'':10} {statistics.median(others):6.2f} s, slowest {max(others):.2f} s")


if __name__ == "__main__":
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    main()
