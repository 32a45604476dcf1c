"""numba: makes numba type the stand-in of a function as that function, for code that it compiles during a trace."""

from __future__ import annotations

from typing import Any

from tapegrad.rules.registry import StandIn


def _type(x: Any) -> Any:
    from numba.core.registry import cpu_target  # type: ignore[import-not-found, unused-ignore]
    return cpu_target.typing_context.resolve_value_type(x.__wrapped__)


StandIn._numba_type_ = property(_type)  # type: ignore[attr-defined]  # numba reads it from objects of unknown types
