"""writes: what a program writes into an array, or to a view of one."""

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
    """Refuse a write by way of a view that NumPy's own function returns writable."""
    if view.storage.locked and any(step is known for step in view.path for known in view.storage.locked):
        raise MutationError(SEVERAL, user_location(), "a copy of it")


def write(x: Traced, index: tuple[Any, ...], value: Any) -> None:
    """Record `x[index] = value`; the value has NumPy's meaning, with its casting, its broadcasting and its errors."""
    tracer = x._tracer
    inner = tracer_of((x, value, *index))
    if inner is not tracer:
        raise MutationError("a value of an inner trace is written into an array of an outer one", user_location(),
                            "make the array inside the function that is differentiated")
    view = place(x)
    storage = view.storage
    if isinstance(value, Traced) and value._view is not None and value._view.storage is storage \
            and value._view.path[:-1] == view.path and value._view.path and _same_index(value._view.path[-1], index):
        return  # the last third of `x[index] += y`: the view has written itself
    check_unlocked(view)
    lifted = tracer.lift(value)
    parts = tuple(map(tracer.lift, index))
    if storage.reshaped:
        tracer.guard_layout()
    guard_writable(storage, tracer)
    buffer = storage.writable()
    known, *where = map(value_of, (lifted, *parts))
    outer = tracer_of((known, *where))
    # what an outer trace follows is written: it must follow the buffer too
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
    """Guard, at the first write to an input, whether that is allowed, and at any what is apart: each is a copy."""
    storage.check_handed()
    if tracer.lent:
        tracer.guard_lent()
    if isinstance(storage.op, Input):
        tracer.guard(storage.op, "writeable", is_writable(plain(storage.val)))


def put(x: Traced, op: Operation, val: Any, owned: bool = True) -> None:
    """Make an operation the content of the storage that `x` stands on."""
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
    """Raise as NumPy does where a result does not fit into the array that is to hold it."""
    target, found = plain(x), plain(result)
    np.copyto(np.empty(target.shape, target.dtype), np.asarray(found), casting=casting)
    if target.shape != shape_of(found):
        raise ValueError(f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast "
                         f"shape {shape_of(found)}")


def replace(x: Traced, value: Any) -> None:
    """Record that `x` now holds `value`, computed from it, of its shape and dtype or cast to it: `x[...] = value`."""
    for known in (x, value):
        if isinstance(known, Traced):
            # of other shapes NumPy would broadcast the value, or raise; of other dtypes cast it, or raise
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
    """Return whether one array can stand for another: with its shape, its dtype and its layout."""
    if is_tensor(a) and is_tensor(b):
        return bool((a.shape, a.dtype, a.stride(), a.device) == (b.shape, b.dtype, b.stride(), b.device))
    return type(a) is type(b) is np.ndarray and (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)


def _same_index(step: Step, index: tuple[Any, ...]) -> bool:
    if len(step.args) != len(index) or step.op.__name__ != "getitem":
        return False
    return all(type(a) is type(b) and isinstance(a, (int, slice, type(None), type(Ellipsis))) and a == b
               for a, b in zip(step.args, index))
