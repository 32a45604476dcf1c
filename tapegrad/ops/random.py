"""draw: random numbers, drawn afresh whenever the tape is replayed."""

from __future__ import annotations

from typing import Any

from tapegrad.rules import define


def _draw(source: Any, *args: Any, method: str, **kwargs: Any) -> Any:
    return getattr(source, method)(*args, **kwargs)


draw = define("draw", _draw, differentiable=False)
default_rng = define("default_rng", lambda *args, make, **kwargs: make(*args, **kwargs), differentiable=False)
