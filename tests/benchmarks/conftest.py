"""The programs in `benchmarks/` import each other as scripts do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
