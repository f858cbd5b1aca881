"""Lets the tests import `benchmarks`, which lies at the root of the repository and is not installed."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `python -m pytest` adds it, plain `pytest` does not
    sys.path.append(str(ROOT))
