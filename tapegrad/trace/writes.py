"""writes: a program's writes into arrays and their views."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensor_array import wrap
from tapegrad.numbers.tensors import is_tensor, is_writable
from tapegrad.numbers.view_path import Step, assign
from tapegrad.ops import getitem, setitem
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.tape.tape import Call, Input, Operation, value_of
from tapegrad.trace.views import SEVERAL, Storage, View, lose_overlaps, place, set_op, set_val


def check_unlocked(view: View) -> None:
    """Refuse a write through a view that NumPy returns writable but that `views.lock` has locked."""
    if view.storage.locked and any(step is known for step in view.path for known in view.storage.locked):
        raise MutationError(SEVERAL, user_location(), "a copy of it")


def write(x: Traced, index: tuple[Any, ...], value: Any) -> None:
    """Record `x[index] = value`, with NumPy's casting, broadcasting and errors."""
    tracer = x._tracer
    inner = tracer_of((x, value, *index))
    if inner is not tracer:
        raise MutationError("a value of an inner derivative is written into an array of an outer one", user_location(),
                            "make the array inside the function that is differentiated")
    view = place(x)
    storage = view.storage
    if isinstance(value, Traced) and value._view is not None and value._view.storage is storage \
            and value._view.path[:-1] == view.path and value._view.path and _same_index(value._view.path[-1], index):
        return  # the last step of `x[index] += y`: the view was written already
    check_unlocked(view)
    lifted = tracer.lift(value)
    parts = tuple(map(tracer.lift, index))
    if storage.reshaped:
        tracer.guard_layout()
    guard_writable(storage, tracer)
    buffer = storage.writable()
    known, *where = map(value_of, (lifted, *parts))
    outer = tracer_of((known, *where))
    # an outer trace follows the written value, so it must follow the buffer too
    if outer is not None and not isinstance(buffer, Traced):
        op = outer.constant(id(buffer), buffer, buffer)
        storage.val = buffer = outer.proxy(op, op.val, outer)
    assign(wrap(buffer) if is_tensor(buffer) and not isinstance(buffer, Traced) else buffer, known, tuple(where),
           view.path)
    path = view.path
    if len(path) == 1 and path[0].op is getitem and len(parts) == 1 and parts[0] is Ellipsis \
            and all(type(part) in (int, slice) for part in path[0].args):
        parts, path = path[0].args, ()  # `x[i] += y` writes a part of x
    call = Call(setitem, (storage.op, lifted, *parts), {"through": path} if path else None, buffer)
    put(x, tracer.place(call), buffer)


def guard_writable(storage: Storage, tracer: Any) -> None:
    """Before a write, guard that an input is writable (once) and that arrays which shared no memory still do not."""
    storage.check_handed()
    if tracer.lent:
        tracer.guard_lent()
    if isinstance(storage.op, Input):
        tracer.guard(storage.op, "writeable", is_writable(plain(storage.val)))


def put(x: Traced, op: Operation, val: Any, owned: bool = True) -> None:
    """Make an operation the content of the storage of `x`."""
    view = x._view
    storage = view.storage
    if isinstance(storage.op, Input):
        lose_overlaps(storage.op, x._tracer)
    if storage.family is not None:
        storage.lose_family()
    storage.op, storage.val, storage.owned, storage.shared = op, val, owned, not owned
    storage.version += 1
    if not view.path:
        set_op(x, op)
        set_val(x, val)
        view.version = view.seen = storage.version


def check_cast(x: Traced, result: Any, casting: Any = "same_kind") -> None:
    """Raise NumPy's error for a result that does not fit into the array that receives it."""
    target, found = plain(x), plain(result)
    np.copyto(np.empty(target.shape, target.dtype), np.asarray(found), casting=casting)
    if target.shape != shape_of(found):
        raise ValueError(f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast "
                         f"shape {shape_of(found)}")


def replace(x: Traced, value: Any) -> None:
    """Record `x[...] = value` for a value computed from `x`, of its shape and dtype or to be cast to it."""
    for known in (x, value):
        if isinstance(known, Traced):
            # other shapes are broadcast or raise, other dtypes are cast or raise
            known._tracer.specialise(known)
    view = place(x)
    val = value._val if isinstance(value, Traced) else value
    if not view.path and isinstance(value, Traced) and value._view is None and value._tracer is x._tracer \
            and _alike(plain(val), plain(view.storage.val)) and not view.storage.reshaped:
        guard_writable(view.storage, x._tracer)
        view.storage.check_writable()
        put(x, value._op, val, owned=False)
    else:
        write(x, (Ellipsis,), value)


def _alike(a: Any, b: Any) -> bool:
    """Return whether two arrays agree in shape, dtype and layout."""
    if is_tensor(a) and is_tensor(b):
        return bool((a.shape, a.dtype, a.stride(), a.device) == (b.shape, b.dtype, b.stride(), b.device))
    return type(a) is type(b) is np.ndarray and (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)


def _same_index(step: Step, index: tuple[Any, ...]) -> bool:
    if len(step.args) != len(index) or step.op.__name__ != "getitem":
        return False
    return all(type(a) is type(b) and isinstance(a, (int, slice, type(None), type(Ellipsis))) and a == b
               for a, b in zip(step.args, index))
