"""views: in-place writes and views, made functional.

Arrays and tensors share memory; operations of a tape do not. A `Storage` represents one piece of memory: the operation
that holds its current content, and a real buffer. A proxy of it, or of a view of it, holds the path from the storage to
itself, and computes its operation again after a write to the storage. On the tape a write is `setitem(x, value,
*index)`, and a read of a view's part `getitem(x, *index, through=path)`: neither touches more of the storage than that
part.

The real buffer is written in place if the trace owns it (a constructor made it, or the first write copied it) and no
recorded call may need its earlier content: a loop that fills an array costs O(n). A recorded use of the content marks
it as shared, and the next write copies it first.
"""

from __future__ import annotations

import operator
import weakref
from typing import Any

import numpy as np

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensor_index import has_negative_step
from tapegrad.numbers.tensors import duplicate, is_memory, is_tensor, is_writable, overlap
from tapegrad.numbers.view_path import Path, Step, follow
from tapegrad.ops import copy, empty_like, expand_dims, flip, getitem, imag, permute_dims, real, reshape, squeeze
from tapegrad.rules.op import Op, Slotted, Traced
from tapegrad.tape.tape import NO_KWARGS, Call, Input, Operation, value_of
from tapegrad.trace import identity
from tapegrad.trace.value_retention import is_large


class Storage:
    """One piece of memory: its current operation and buffer."""

    __slots__ = ("__weakref__", "family", "handed", "held", "layout", "locked", "lost", "op", "owned", "reshaped",
                 "shared", "val", "version")

    def __init__(self, op: Operation, val: Any, owned: bool = False) -> None:
        self.op, self.val = op, val
        self.layout = val  # has the layout of NumPy's own array; the buffer that replaces it may be more compact
        self.reshaped = False  # whether something was found to be a view depended on its layout
        self.owned = owned  # the buffer belongs to this storage alone
        self.shared = not owned  # a recorded call may need the content
        self.version = 0
        # steps to views that NumPy returns writable (a diagonal, a broadcast) and that are not written through
        self.locked: tuple[Step, ...] = ()
        self.held = ""  # why writes are refused: code outside the trace holds the memory
        self.handed: list[weakref.ref[Any]] = []  # weak references to plain copies handed to untraced code
        self.lost = ""  # why the content is no longer known
        # the storages that share this memory in a way that no path describes, including this one
        self.family: weakref.WeakSet[Storage] | None = None

    def writable(self) -> Any:
        """Return a buffer that may be written to; copies the content if it is needed elsewhere."""
        if self.shared or not self.owned:
            if isinstance(plain(self.val), np.generic):
                raise TypeError(f"'numpy.{type(plain(self.val)).__name__}' object does not support item assignment")
            self.check_writable()
            self.val = duplicate(self.val)
            self.owned, self.shared = True, False
        return self.val

    def check_writable(self) -> None:
        """Raise NumPy's error for a read-only array; MutationError if its content is no longer known."""
        if self.lost:
            raise MutationError(self.lost, user_location(), CLONE)
        if self.held:
            raise MutationError(self.held, user_location(),
                                "write to a copy, y = y.copy(), or use a function that returns a new array")
        if not is_writable(self.val) or not is_writable(self.layout):
            raise ValueError("assignment destination is read-only")

    def check_handed(self) -> None:
        """Raise MutationError if untraced code holds a plain copy of the content, which would miss this write."""
        self.handed = [copy for copy in self.handed if copy() is not None]
        if self.handed:
            raise MutationError("an array is written to after a function took a plain view of its numbers, which is "
                                "still in use and would not see the write", user_location(),
                                "copy one of the two before the write, y = x.copy()")

    def relate(self, other: Storage) -> None:
        """Note that another storage shares the memory as no path describes: a write to one invalidates the other."""
        family = self.family or weakref.WeakSet([self])
        family.update(other.family or [other])
        for storage in family:
            storage.family = family

    def lose_family(self) -> None:
        """Invalidate the other storages that share the memory, because this one was written to."""
        for storage in self.family or ():
            if storage is not self:
                storage.lose("two tensors or arrays share memory in a way that cannot be recorded, one was written to, "
                             "and the other is used")
        self.family = None

    def lose(self, why: str) -> None:
        """Invalidate the content: later uses raise with the reason `why`."""
        self.lost = why
        self.version += 1


SEVERAL = "an array is written to that shows the same memory several times, or a diagonal"
CLONE = "copy one of the two before either is written to, x.copy(), or x.clone() for a tensor"


class View:
    """The position of a proxy: its storage, its path, and the storage versions of its operation (`version`) and of its
    value (`seen`); -1 precedes the first version.
    """

    __slots__ = ("path", "seen", "storage", "version")

    def __init__(self, storage: Storage, path: Path = (), version: int | None = None) -> None:
        self.storage, self.path = storage, path
        self.seen = storage.version
        self.version = self.seen if version is None else version


def _kept(name: str) -> tuple[Any, Any]:
    """Return getter and setter of a proxy's own slot, bypassing the property of the same name."""
    slot = vars(Slotted)[name]

    def get(x: Traced) -> Any:
        return slot.__get__(x) if isinstance(x, Slotted) else x.__dict__[name]

    def put(x: Traced, value: Any) -> None:
        if isinstance(x, Slotted):
            slot.__set__(x, value)
        else:
            x.__dict__[name] = value
    return get, put


_slot_op, _slot_val = (vars(Slotted)[name].__get__ for name in ("_op", "_val"))
_get_op, set_op = _kept("_op")
_get_val, set_val = _kept("_val")


def known(x: Traced) -> Operation:
    """Return an operation with a proxy's shape and dtype, which no write changes; its content may be out of date."""
    return _get_op(x) or peek(x)


def label(x: Traced) -> str:
    """Return a proxy's name in messages: its variable's, or "view" for a view that was never used."""
    op = _get_op(x)
    return "view" if op is None else op.name


def peek(x: Traced) -> Operation:
    """Return a proxy's operation for a call that needs only the shape of its value: the content stays unshared."""
    view = x._view
    if view is None:
        return x._op  # type: ignore[no-any-return]
    if view.version != view.storage.version or view.storage.lost:
        fetch(x)
    return _get_op(x)  # type: ignore[no-any-return]


def use(x: Traced) -> Operation:
    """Return a proxy's operation for a call whose rule may need the value."""
    fetch(x)
    op, storage = _get_op(x), x._view.storage
    if not x._view.path:
        storage.shared = True
    elif storage.owned and not storage.shared and _shares(op.val, storage.val):
        op.val = duplicate(op.val)  # the buffer is about to be overwritten
    return op  # type: ignore[no-any-return]


def op_of(x: Traced) -> Operation:
    """Return `use(x)`; fast if nothing was written since and the content is already shared."""
    view = x._view
    storage = view.storage
    return _slot_op(x) if view.version == storage.version and storage.shared else use(x)  # type: ignore[no-any-return]


def val_of(x: Traced) -> Any:
    """Return `read(x)` for a proxy that is no tensor."""
    view = x._view
    return _slot_val(x) if view.seen == view.storage.version else read(x)


def read(x: Traced) -> Any:
    """Return a proxy's current value; a caller that keeps it must copy it or call `use`."""
    view = x._view
    storage = view.storage
    if storage.lost:
        raise MutationError(storage.lost, user_location(), CLONE)
    if view.seen != storage.version:
        set_val(x, follow(storage.val, view.path))
        view.seen = storage.version
    return _get_val(x)


def fetch(x: Traced) -> None:
    """Update a proxy's operation to the current version of its storage."""
    read(x)
    view = x._view
    storage, tracer = view.storage, x._tracer
    if view.version == storage.version:
        return
    op, val = storage.op, storage.val
    at = _last_read(view.path)
    for i, step in enumerate(view.path[at:], at):
        through = {"through": view.path[:at]} if i == at > 0 else {}
        val = step.op.run(val, *step.args, **step.kwargs, **through)
        op = tracer.place(Call(step.op, (op, *step.args), {**step.kwargs, **through}, val))
    set_op(x, op)
    view.version = storage.version


def _last_read(path: Path) -> int:
    """Return the position of the last step that reads a part directly: recorded with the steps before it as `through`,
    it has a sparse cotangent.
    """
    return next((i for i in range(len(path) - 1, 0, -1) if path[i].op is getitem and is_direct(path[:i])), 0)


def is_direct(path: Path) -> bool:
    """Return whether a path maps to each storage element at most once, so that a gradient can go back through it."""
    return all(step.op in _DIRECT for step in path)


_DIRECT = frozenset([getitem, reshape, permute_dims, expand_dims, squeeze, flip, real, imag])


_new = object.__new__


def place(x: Traced) -> View:
    """Return a proxy's View, on a new storage if it had none."""
    if x._view is None:
        x._stand(View(Storage(x._op, x._val)))
    return x._view  # type: ignore[no-any-return]


def part(x: Traced, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a `view` op on an array that the trace writes in place, or None if it needs the whole
    content.

    A view is recorded only when something other than an index uses it; a read of a part is recorded through the path.
    """
    view, tracer = x._view, x._tracer
    storage = view.storage
    through = kwargs.get("through", ())
    path = (*view.path, *through)
    if not is_direct(path) or op not in _DIRECT:
        return None
    lifted = tuple(map(tracer.lift, args))
    step = Step(op, tuple(map(value_of, lifted)), {key: value for key, value in kwargs.items() if key != "through"})
    val = op.run(read(x), *step.args, **kwargs)
    if _is_view(val, read(x), x, step):
        step = _static(tracer, lifted, step)
        return tracer.proxy(None, val, tracer, View(storage, (*path, step), version=-1))
    if op is not getitem:
        return None
    known = {"through": path} if path else {}
    return _turned(tracer.fields(tracer.place(Call(op, (storage.op, *lifted), known, val)), (x,)), x, step)


def cut(base: Traced, op: Op, args: tuple[Any, ...], y: Any, kwargs: dict[str, Any] = NO_KWARGS) -> View | None:
    """Return the View of a result that NumPy made with plain arguments; None if `Tracer.record` must handle it."""
    tracer, view = base._tracer, base._view
    if (type(y) is not np.ndarray or y.size == 0 or tracer.custom or not isinstance(base, Slotted)
        or (view is not None and view.storage.owned)):
        return None
    if type(base._val) is not np.ndarray:
        return None  # indexing a NumPy scalar makes a new array
    if tracer.once is not None and is_large(y):
        tracer.meet(y)
        return None
    view = view or place(base)
    return View(view.storage, (*view.path, Step(op, args, kwargs)))


def alias(x: Traced, base: Traced) -> None:
    """Make `x`, just returned by a `view` op of `base`, a view of base's memory, if NumPy made it one."""
    op, val, tracer = _get_op(x), _get_val(x), x._tracer
    of = read(base) if base._view is not None else base._val
    if getattr(val, "size", 1) == 0 or getattr(of, "size", 1) == 0:
        tracer.guard(peek(base), "shape", shape_of(of))  # empty arrays do not show whether they share memory
    through = op.kwargs.get("through", ())
    options = {key: value for key, value in op.kwargs.items() if key != "through"}
    step = Step(op.fn, tuple(map(value_of, op.args[1:])), options)
    if _is_view(val, of, base, step):
        step = _static(tracer, op.args[1:], step)
        view = place(base)
        x._stand(View(view.storage, (*view.path, *through, step)))
    elif base._view is not None and op.fn is reshape:
        if _shares(op.val, of):  # the buffer is more compact than NumPy's
            op.val = duplicate(op.val)
            set_val(x, op.val)
        x._stand(View(Storage(op, op.val)))
        x._view.storage.reshaped = base._view.storage.reshaped
    else:
        _turned(x, base, step)


def _turned(x: Any, base: Traced, step: Step) -> Any:
    """Return the result of a step; note that it shares memory if it reversed a tensor, a view in NumPy but a copy here.
    """
    if is_tensor(plain(base._val)) and has_negative_step(step.args):
        place(x).storage.relate(place(base).storage)
    return x


def _static(tracer: Any, args: tuple[Any, ...], step: Step) -> Step:
    """Guard the traced integers in a view's index, in all traces, and return the step with plain ones: paths are
    static.
    """
    traced = [arg for arg in args if isinstance(arg, Operation)]
    for arg in traced:
        tracer.guard(arg, "index", operator.index(arg.val))
    if not traced and not any(isinstance(part, Traced) for part in step.args):
        return step
    return step._replace(args=tuple(operator.index(part) if isinstance(part, Traced) else part for part in step.args))  # type: ignore[arg-type]


def _is_view(val: Any, of: Any, base: Traced, step: Step) -> bool:
    """Return whether the result of a step from `base`, with value `of`, shares its memory. For a reshape, NumPy and
    torch decide that by the layout that the array has in the program.
    """
    if (step.op is not reshape or not (type(of) is np.ndarray or is_tensor(plain(of)))
        or (type(of) is np.ndarray and of.ndim < 2)):
        return _shares(val, of)
    view = place(base)
    view.storage.reshaped = True
    return _shares(follow(view.storage.layout, (*view.path, step)), view.storage.layout)


def laid(x: Traced) -> Any:
    """Return an array or tensor with the proxy's shape and strides in the program; its buffer may be more compact."""
    return plain(x._val) if x._view is None else follow(plain(x._view.storage.layout), x._view.path)


def check_apart(x: Any, *values: Any) -> None:
    """Refuse a write to an array from its own memory, for NumPy functions that read what they have just written."""
    mine = laid(x)
    for value in values:
        other = laid(value) if isinstance(value, Traced) else None
        if (type(mine) is type(other) is np.ndarray and np.may_share_memory(mine, other)
            and np.shares_memory(mine, other)):
            raise MutationError("an array is written from an overlapping part of its own memory, where NumPy would "
                                "read values just written", user_location(),
                                "copy that part first")


def are_same(x: Any, y: Any) -> bool:
    """Return whether two arrays are the same elements of the same memory, in the same order."""
    a, b = (laid(part) if isinstance(part, Traced) else None for part in (x, y))
    return (type(a) is type(b) is np.ndarray
            and (a.ctypes.data, a.shape, a.strides, a.dtype) == (b.ctypes.data, b.shape, b.strides, b.dtype))


def lies(x: Any, order: str | None) -> bool:
    """Return whether an array has the wanted memory order in the program; its buffer may be more compact."""
    found = plain(x)
    if order not in ("C", "F") or not isinstance(found, np.ndarray):
        return True
    if isinstance(x, Traced) and x._view is not None:
        found = follow(plain(x._view.storage.layout), x._view.path)
    return bool(found.flags.c_contiguous if order == "C" else found.flags.f_contiguous)


def arranged(x: Any, order: str | None, copied: bool = False) -> Any:
    """Return an array in the wanted order: itself (with a guard on its layout unless it is `copied`), or a copy."""
    y = x if lies(x, order) else copy(x, order=order)
    if not copied and order in ("C", "F") and isinstance(x, Traced) and isinstance(plain(x), np.ndarray):
        place(x).storage.reshaped = True
        place(y).storage.reshaped = True
    return y


def _shares(a: Any, b: Any) -> bool:
    if type(a) is type(b) is np.ndarray:
        return a.base is b or np.may_share_memory(a, b)
    if isinstance(a, Traced) and isinstance(b, Traced):  # of an outer trace
        return a._view is not None and b._view is not None and a._view.storage is b._view.storage
    return overlap(a, b)


def check_copied_once(x: Traced, memo: dict[Any, Any]) -> None:
    """Refuse copy.deepcopy of two arguments that are one array or object: Python makes one copy, a tape two."""
    identity.check_copied_once(memo)
    if not isinstance(plain(x._val), np.ndarray):
        return
    others = memo.setdefault("arrays of a trace", [])
    if others:
        x._tracer.guard_apart()
    if any(other is not x and plain(other._val) is plain(x._val) for other in others):
        raise MutationError("copy.deepcopy of two arguments that are the same array: Python makes one copy, a trace "
                            "would make two",
                            user_location(), "copy each separately, x.copy()")
    others.append(x)


def unwritten(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for repeating a call to see whether it raises: with new arrays for `out`."""
    def new(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(new, x))
        return empty_like(x) if isinstance(x, Traced) and isinstance(plain(x), np.ndarray) else None
    return {**kwargs, "out": new(kwargs["out"])} if kwargs.get("out") is not None else kwargs


def read_only_copy(x: Traced) -> Any:
    """Return the plain value of a constant, an array as a read-only copy: a write to it would be lost. While the copy
    is alive, writes to the array are refused as well.
    """
    value = plain(x)
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
        storage = place(x).storage
        storage.handed = [*(copy for copy in storage.handed if copy() is not None), weakref.ref(value)]
    return value


def lock(x: Any) -> Any:
    """Refuse writes through a view that NumPy returns writable (a diagonal, a broadcast) from now on; return it."""
    if isinstance(x, Traced) and x._view is None:  # of a number
        place(x).storage.held = SEVERAL
    elif isinstance(x, Traced) and x._view is not None and x._view.path:
        x._view.storage.locked += x._view.path[-1:]
    return x


def lose_overlaps(x: Input, tracer: Any) -> None:
    """Invalidate the arguments that share memory with an input that is written to: on the tape they are separate."""
    if is_memory(plain(x.val)):
        tracer.written.append((plain(x.val), x.label))
        tracer.guard_apart()
        if tracer.blind is not None:
            nested = tracer.tape.structure
            kept = any(x.id - 2 in part.kept for part in (*nested.parts, *nested.kwargs.values()))
            tracer.blind.check_memory(plain(x.val), x.label, kept)
    for other in tracer.inputs:
        op = peek(other)
        mine, others = plain(x.val), plain(op.val)
        if isinstance(op, Input) and op is not x and overlap(mine, others):
            place(other).storage.lose(f"{op.label} shares memory with {x.label}, which was written to")
