"""scipy.spatial.transform: rotations, whose formulas SciPy has in Python code too, for other arrays than NumPy's."""

from __future__ import annotations

import importlib
from typing import Any

from tapegrad.rules.registry import constructs

for _name in ("_rotation", "_rigid_transform"):
    _select: Any = getattr(importlib.import_module(f"scipy.spatial.transform.{_name}"), "select_backend", None)
    if _select is not None:  # since SciPy 1.17
        constructs(_select, interposed=True)(
            lambda _tracer, fn, xp, cython_compatible=False: fn(xp, cython_compatible=False))
