"""Everything that is to be checked on a GPU, in one run and in a bare checkout:
`python bench/gpu.py --out FOLDER`; `--help` says more.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)  # where bench, tapegrad and tests are
    sys.exit(importlib.import_module("bench.on_gpu.run").main())
