"""Ops by which nested structures go into calls and come out of them."""

from __future__ import annotations

from typing import Any

from tapegrad.rules import define
from tapegrad.tangent import ZERO
from tapegrad.tree import Structure


def _pack_cotangent(i: int, dy: Any, y: Any, *leaves: Any, into: Structure) -> Any:
    part = into.unmirror(dy)[i]
    return ZERO if part is None else part


def _getfield_cotangent(dy: Any, y: Any, x: Any, key: Any) -> Any:
    if isinstance(x, dict):
        return {key: dy}
    return tuple(dy if i == key else ZERO for i in range(len(x)))


pack = define("pack", lambda *leaves, into: into.build(list(leaves)), _pack_cotangent, torch=lambda *leaves, into: into.build(list(leaves)))
getfield = define("getfield", lambda x, key: x[key], (_getfield_cotangent, None), torch=lambda x, key: x[key])
