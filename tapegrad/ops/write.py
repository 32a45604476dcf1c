"""setitem: an in-place write, made functional."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad import tensorindex, tensors
from tapegrad.brief import brief
from tapegrad.lazy import torch
from tapegrad.ops.elementwise import is_complex, where
from tapegrad.ops.index import read
from tapegrad.ops.shape import reshape
from tapegrad.rules import Op, Traced, define
from tapegrad.tangent import ZERO, Accumulator, Scatter, copied, dense, dtype_of, shape_of
from tapegrad.tensorarray import TensorArray, unwrap


class Step(NamedTuple):
    """One step from an array to a view of it: `getitem(1:)`, `permute_dims()`."""

    op: Op
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        shown = [brief(arg) for arg in self.args] + [f"{key}={brief(arg)}" for key, arg in self.kwargs.items()]
        return f"{self.op.__name__}({', '.join(shown)})"


Path = tuple[Step, ...]


def follow(x: Any, path: Path) -> Any:
    """Return the view that a path leads to; of a NumPy array it shares the memory."""
    for step in path:
        x = step.op.run(x, *step.args, **step.kwargs)
    return x


def assign(x: Any, value: Any, index: tuple[Any, ...], path: Path) -> None:
    """Write in place, with NumPy's own meaning and errors."""
    if type(x) is TensorArray or tensors.is_tensor(x):
        return _assign_tensor(unwrap(x), unwrap(value), unwrap(index), path)
    view = follow(x, path)
    if isinstance(x, Traced) or np.may_share_memory(view, x) or not view.flags.writeable:  # what may not be written to raises
        view[index] = value
    else:  # a reshape that is a view of another memory layout, and here a copy
        places = follow(np.arange(x.size).reshape(x.shape), path)[index]
        x[np.unravel_index(places, x.shape)] = value


def _assign_tensor(x: Any, value: Any, index: tuple[Any, ...], path: Path) -> None:
    """Write in place through as much of the path as torch has views for, and by numbered places through the rest."""
    at = 0
    while at < len(path) and tensors.share_memory(part := follow(x, path[at: at + 1]), x):
        x, at = part, at + 1
    if at == len(path):
        tensorindex.write(x, value, index)
    else:
        places = follow(torch.arange(x.numel(), device=x.device).reshape(x.shape), path[at:])
        tensorindex.write_at(x, tensors.cast(value, x), tensorindex.read(places, index))


def _setitem_tensor(x: Any, value: Any, *index: Any, through: Path = ()) -> Any:
    y = tensors.to_tensor(x, tensors.device_of((x, value, *index))).clone()
    assign(y, value, index, through)
    return y


def _setitem(x: Any, value: Any, *index: Any, through: Path = ()) -> Any:
    y = np.array(x, order="K")
    assign(y, value, index, through)
    return y


def _setitem_vjp(y: Any, x: Any, value: Any, *index: Any, through: Path = ()) -> Any:
    def setitem_pullback(dy: Any) -> tuple[Any, ...]:
        rest = (ZERO,) * len(index)
        if getattr(dtype_of(y), "kind", "f") not in "fc":
            return (ZERO, ZERO, *rest)
        if is_complex(y) and not is_complex(dy.array if type(dy) is Accumulator else dy):
            dy = dense(dy) + 0j  # a real one has no imaginary part to write into
        if type(dy) is Scatter:
            dy = dy.dense()
            dy = dy if isinstance(dy, Traced) else Accumulator(dy)
        if isinstance(dy, Traced) or any(isinstance(part, Traced) for part in index):
            dy = dense(dy) if shape_of(y) else reshape(dense(dy), ())  # a plain number cannot be read from
            dvalue = read(follow(dy, through), index)
            dx = setitem(dy, 0.0, *index, through=through)
        else:
            # the buffer is this cotangent's alone, so a loop of n writes clears n places of one array
            buffer = Accumulator.of(dy)
            part = follow(buffer.array, through)
            dvalue = copied(part[index])
            assign(buffer.array, 0, index, through)
            dx = buffer
        if any(isinstance(i, (np.ndarray, Traced)) and shape_of(i) and dtype_of(i).kind != "b" for i in index):
            dvalue = where(_wins(*index, shape=np.shape(follow(_blank(x), through))), dvalue, 0.0)
        return (dx, dvalue, *rest)
    return setitem_pullback


def _blank(x: Any) -> Any:
    return np.broadcast_to(np.zeros(()), shape_of(x))


def _last(*index: Any, shape: tuple[int, ...]) -> Any:
    """Return where the element written is the one that stays, when an index names a place more than once."""
    places = np.empty(shape, np.intp)
    order = np.arange(places[index].size).reshape(places[index].shape)
    places[index] = order
    return places[index] == order


def _last_tensor(*index: Any, shape: tuple[int, ...]) -> Any:
    at = tensorindex.places(shape, index, tensors.device_of(index))
    flat = at.reshape(-1)
    return (tensorindex.last_of(flat, math.prod(shape))[flat] == torch.arange(flat.numel(), device=flat.device)).reshape(at.shape)


_wins = define("wins", _last, differentiable=False, torch=_last_tensor)
setitem = define("setitem", _setitem, vjp=_setitem_vjp, accumulates=True, torch=_setitem_tensor)
