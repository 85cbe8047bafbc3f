"""Test errors of `neural_network` with 40 hidden units on other draws of the 2,500 images.

    python -m experiments.neural_network_draws DIR PGD --draws 4      # a minute of one core each

The ten repeats of the paper, and those of `neural_network`, share one draw of the images, so that
their scatter says nothing of it. Here each draw has one repeat. DIR has MNIST, as `--data-dir`.
Errors in percent are added to results/neural_network_draws.json; those that are there are not
measured again.

Source: Cuin, Carbone, Akyildiz (2025), section 5.4 and appendix C.3.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from experiments.digit_network import METHODS, make_method
from experiments.execute import describe_machine
from experiments.experiment import Record, Settings
from experiments.neural_network import PUBLISHED, SETTINGS, repeat

LABEL = "2, 4, 7 or 9, 40 units"
OUT = Path(__file__).parent / "results" / "neural_network_draws.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--draws", type=int, default=1)
    given = parser.parse_args()
    found: Record = json.loads(OUT.read_text()) if OUT.exists() else {"machine": describe_machine()}
    method, setting = make_method(given.method, SETTINGS[LABEL]), SETTINGS[LABEL]
    for draw in range(1, 1 + given.draws):  # 0 is that of the kept repeats
        name = f"{given.method}, draw {draw}"
        if name not in found:
            started = time.process_time()
            last = repeat(method, setting, Settings(seed=draw, data_dir=given.data_dir), 0)["error"][-1]
            seconds = round(time.process_time() - started, 1)
            found[name] = {"error": round(100 * last, 2), "processor_seconds": seconds}
            OUT.write_text(json.dumps(found, indent=1) + "\n")
        print(
            f"{name}: {found[name]['error']:.2f}% after {found[name]['processor_seconds']:.0f} s", flush=True
        )
    errors = [found[f"{given.method}, draw {draw}"]["error"] for draw in range(1, 1 + given.draws)]
    printed, deviation = PUBLISHED[LABEL][given.method]
    spread = f", deviation {np.std(errors, ddof=1):.2f}" if len(errors) > 1 else ""
    print(f"mean {np.mean(errors):.2f}%{spread}; printed {printed}% ({deviation})")


if __name__ == "__main__":
    main()
