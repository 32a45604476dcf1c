"""write: `setitem`, an in-place write made functional."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.numbers import tensor_index, tensors
from tapegrad.numbers.cotangents import ZERO, Accumulator, Scatter, copied, dense, dtype_of, shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensor_array import TensorArray, unwrap
from tapegrad.numbers.view_path import Path, assign, follow, reach
from tapegrad.ops.batched_index import write_members
from tapegrad.ops.elementwise import is_complex, is_inexact, where
from tapegrad.ops.index import read
from tapegrad.ops.reduce import sum
from tapegrad.ops.shape import reshape
from tapegrad.rules import types
from tapegrad.rules.facts import CONSTANT, FRESH, WRITTEN, Joint, linear_in
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import define


def _setitem_tensor(x: Array, value: Array, *index: Any, through: Path = ()) -> Any:
    y = tensors.to_tensor(x, tensors.device_of((x, value, *index))).clone()
    assign(TensorArray(y), value, index, through)
    return y


def _setitem(x: Array, value: Array, *index: Any, through: Path = ()) -> Any:
    y = np.array(x, order="K")
    assign(y, value, index, through)
    return y


def _setitem_vjp(y: Any, x: Any, value: Any, *index: Any, through: Path = ()) -> Any:
    def setitem_pullback(dy: Any) -> tuple[Any, ...]:
        rest = (ZERO,) * len(index)
        if not is_inexact(dtype_of(y)):
            return (ZERO, ZERO, *rest)
        if is_complex(y) and not is_complex(dy.array if type(dy) is Accumulator else dy):
            dy = dense(dy) + 0j  # a real cotangent has no imaginary part to write into
        dy = dy.dense() if type(dy) is Scatter else dy
        if any(isinstance(unwrap(part), Traced) for part in (dy, *index)):
            dy = dense(dy) if shape_of(y) else reshape(dense(dy), ())  # a plain number has no index
            # a number that is written under a mask does not depend on how many places the mask selects
            dvalue = (_sum_at(dy, index[0]) if not (through or shape_of(value)) and _is_mask(index)
                      else read(dy, index, through))
            dx = setitem(dy, 0.0, *index, **({"through": through} if through else {}))
        else:
            # nothing else holds the buffer, so a loop of n writes clears n places of one array
            dx = Accumulator.of(dy, y)
            part, at = reach(dx.array, index, through)
            dvalue = copied(part[at])
            part[at] = 0
        if any(isinstance(i, (np.ndarray, Traced)) and shape_of(i) and dtype_of(i).kind != "b" for i in index):
            dvalue = where(_wins(*index, shape=np.shape(follow(_blank(x), through))), dvalue, 0.0)
        return (dx, dvalue, *rest)
    return setitem_pullback


def _is_mask(index: tuple[Any, ...]) -> bool:
    """True for an index that is a single array of bools."""
    return len(index) == 1 and bool(shape_of(index[0])) and getattr(dtype_of(index[0]), "kind", "") == "b"


def _sum_at(dy: Array, mask: Array) -> Any:
    own = shape_of(mask)
    return sum(where(reshape(mask, own + (1,) * (len(shape_of(dy)) - len(own))), dy, 0.0))


def _blank(x: Array) -> Any:
    return np.broadcast_to(np.zeros(()), shape_of(x))


def _last(*index: Any, shape: tuple[int, ...]) -> Any:
    """Return where the written element is the one that stays, when an index names a place more than once."""
    places = np.empty(shape, np.intp)
    order = np.arange(places[index].size).reshape(places[index].shape)
    places[index] = order
    return places[index] == order


def _last_tensor(*index: Any, shape: tuple[int, ...]) -> Any:
    at = tensor_index.places(shape, index, tensors.device_of(index))
    flat = at.reshape(-1)
    places = torch.arange(flat.numel(), device=flat.device)
    return (tensor_index.last_of(flat, math.prod(shape))[flat] == places).reshape(at.shape)


_wins = define("wins", _last, rule=CONSTANT, torch=_last_tensor, batch=False, memory=FRESH, spec=types.wins)
setitem = define("setitem", _setitem, rule=Joint(_setitem_vjp), tangent=linear_in(0, 1),
                 torch=_setitem_tensor, batch=write_members, memory=WRITTEN, spec=types.written)
