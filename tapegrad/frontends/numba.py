"""numba: what stands in for a function while a trace runs is that function to numba, which may compile meanwhile."""

from __future__ import annotations

from typing import Any

from tapegrad.rules.registry import StandIn


def _type(x: Any) -> Any:
    from numba.core.registry import cpu_target  # type: ignore[import-not-found, unused-ignore]
    return cpu_target.typing_context.resolve_value_type(x.__wrapped__)


StandIn._numba_type_ = property(_type)  # type: ignore[attr-defined]  # which numba asks for of what it does not know
