"""scipy.spatial.transform: rotations, by SciPy's Python implementation for arrays other than NumPy's."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from tapegrad.rules.registry import constructs

for _name in ("_rotation", "_rigid_transform"):
    _module = f"scipy.spatial.transform.{_name}"
    _select: Any = getattr(importlib.import_module(_module), "select_backend", None) if find_spec(_module) else None
    if _select is not None:  # since SciPy 1.17
        constructs(_select, interposed=True)(
            lambda _tracer, fn, xp, cython_compatible=False: fn(xp, cython_compatible=False))
