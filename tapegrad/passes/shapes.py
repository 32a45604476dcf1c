"""shapes: what simplify knows of calls that arrange, stretch and reduce arrays, a row for each rule.

A rule is `(walk, op, *args, **kwargs) -> stand-in or None`. What stands in for a call has its type, shape and dtype.
"""

from __future__ import annotations

from typing import Any

SHAPES: tuple[tuple[Any, Any], ...] = ()
