"""Change detection: the annotated series of TCPD, and delays at equal false alarms.

    PYTHONPATH=. python benchmarks/detection.py --data-dir FOLDER      # half an hour on 2 cores

  tcpd    Covering and F1 (margin 5), as in experiments/change_detection_tcpd.py, which says where
          FOLDER comes from: `RunLengths` by its most likely segmentation and by its alarms,
          `ChangeDetector`, river's detectors at their defaults (a change is the row of its alarm;
          for ADWIN, the first row of the window that it keeps), and the published scores.
  oracle  The benchmark's other protocol: for each series the best of many settings.
  shifts  Streams of normal rows whose mean or scale changes after 500.

RunLengths has the prior of the experiment, fixed before its scores were first computed, and the
hazard of the published BOCPD's default, 1/100. river is not a dependency: `pip install river`.
Results go to benchmarks/results/detection.json and into docs/benchmarks-online.md.
"""

import argparse
import datetime
import json
from pathlib import Path

from detection_annotated import default_scores, oracle_scores, sensitivity
from detection_page import with_detection
from detection_shifts import compare_shifts
from machine import describe_machine
from river import __version__ as river_version

FOLDER = Path(__file__).resolve().parent
KEPT = FOLDER / "results" / "detection.json"
PAGE = FOLDER.parent / "docs" / "benchmarks-online.md"
PARTS = "tcpd", "oracle", "shifts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--data-dir", type=Path, default=Path("tcpd"), help="the folder of series")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--out", type=Path, default=KEPT)
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    results |= {"machine": describe_machine(), "date": str(datetime.date.today()), "river": river_version}
    if "tcpd" in arguments.parts:
        results["tcpd"] = default_scores(arguments.data_dir)
        results["sensitivity"] = sensitivity(arguments.data_dir)
        for name, entry in results["tcpd"].items():
            print(f"{name:60} {entry['mean']['covering']:.3f} {entry['mean']['f1']:.3f}", flush=True)
    if "oracle" in arguments.parts:
        results["oracle"] = oracle_scores(arguments.data_dir)
    if "shifts" in arguments.parts:
        results |= {"streams": arguments.streams, "shifts": compare_shifts(arguments.streams)}
    arguments.out.write_text(json.dumps(results, indent=1, default=float) + "\n")
    if arguments.out == KEPT:
        PAGE.write_text(with_detection(PAGE.read_text(), results))


if __name__ == "__main__":
    main()
