"""In-place writes and views, made functional.

Arrays and tensors share memory; operations of a tape do not. A `Storage` stands for one piece of memory: the operation
that holds its present content, and a real buffer. A proxy of it, or of a view of it, knows the path from the storage to
itself, and fetches its operation again when the storage has been written to since. On the tape a write is `setitem(x,
value, *index)`, and a read of a view's part `getitem(x, *index, through=path)`: neither touches more of the storage
than that part.

The real buffer is written in place as soon as it belongs to the trace alone (it was made by a constructor or copied at
the first write) and nobody may still need its former content: a loop that fills an array costs O(n). Recording a use of
the content marks it as shared, and the next write copies it first.
"""

from __future__ import annotations

import operator
import weakref
from typing import Any

import numpy as np

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensor_index import is_turned
from tapegrad.numbers.tensors import duplicate, is_memory, is_tensor, is_writable, overlap
from tapegrad.numbers.view_path import Path, Step, follow
from tapegrad.ops import copy, empty_like, expand_dims, flip, getitem, imag, permute_dims, real, reshape, squeeze
from tapegrad.rules.op import Op, Slotted, Traced
from tapegrad.tape.tape import NO_KWARGS, Call, Input, Operation, value_of
from tapegrad.trace import identity
from tapegrad.trace.value_retention import is_large


class Storage:
    """One piece of memory: its present operation and buffer."""

    __slots__ = ("__weakref__", "family", "handed", "held", "layout", "locked", "lost", "op", "owned", "reshaped",
                 "shared", "val", "version")

    def __init__(self, op: Operation, val: Any, owned: bool = False) -> None:
        self.op, self.val = op, val
        self.layout = val  # lies in memory as NumPy's own array does: the buffer that replaces it may be more compact
        self.reshaped = False  # whether something shares the memory was decided by its layout
        self.owned = owned  # the buffer belongs to this storage alone
        self.shared = not owned  # a recorded call may need the content
        self.version = 0
        # those that lead to views which NumPy lets a program write to, and a path does not
        self.locked: tuple[Step, ...] = ()
        self.held = ""  # why it may not be written to: others than the trace hold it
        self.handed: list[weakref.ref[Any]] = []  # plain copies of it that others than the trace may hold
        self.lost = ""  # why the content is not known any more
        # it and those that share the memory on a way that no path describes
        self.family: weakref.WeakSet[Storage] | None = None

    def writable(self) -> Any:
        """Return a buffer that may be written to, a copy of the content where that is needed elsewhere."""
        if self.shared or not self.owned:
            if isinstance(plain(self.val), np.generic):
                raise TypeError(f"'numpy.{type(plain(self.val)).__name__}' object does not support item assignment")
            self.check_writable()
            self.val = duplicate(self.val)
            self.owned, self.shared = True, False
        return self.val

    def check_writable(self) -> None:
        """Raise as NumPy does where the array may only be read; MutationError where its content is not known any
        more.
        """
        if self.lost:
            raise MutationError(self.lost, user_location(), CLONE)
        if self.held:
            raise MutationError(self.held, user_location(),
                                "a copy of it, y = y.copy(), or a function that returns one")
        if not is_writable(self.val) or not is_writable(self.layout):
            raise ValueError("assignment destination is read-only")

    def check_handed(self) -> None:
        """Raise MutationError where somebody holds a plain copy of the content, which would go on without what is
        written now.
        """
        self.handed = [copy for copy in self.handed if copy() is not None]
        if self.handed:
            raise MutationError("an array is written to, and a plain copy of its numbers, which a function asked for, "
                                "is still held: the write would not be seen in it", user_location(),
                                "y = x.copy() of one of the two, before the write")

    def relate(self, other: Storage) -> None:
        """Note that another storage shares the memory on a way that no path describes: once one is written to, the
        other cannot be used.
        """
        family = self.family or weakref.WeakSet([self])
        family.update(other.family or [other])
        for storage in family:
            storage.family = family

    def lose_family(self) -> None:
        """Give up those that share the memory: this one was written to."""
        for storage in self.family or ():
            if storage is not self:
                storage.lose("two tensors or arrays share memory on a way that no tape describes, one was written to, "
                             "and the other is used")
        self.family = None

    def lose(self, why: str) -> None:
        """Give the content up: whoever uses it is told why."""
        self.lost = why
        self.version += 1


SEVERAL = "an array whose numbers stand in it several times, or on a diagonal, is written to"
CLONE = "a copy of one of the two, x.copy() or x.clone() of a tensor, before either is written to"


class View:
    """Where a proxy stands: on which storage, by which path, and as of which version its operation and its value are;
    -1 is before the first.
    """

    __slots__ = ("path", "seen", "storage", "version")

    def __init__(self, storage: Storage, path: Path = (), version: int | None = None) -> None:
        self.storage, self.path = storage, path
        self.seen = storage.version
        self.version = self.seen if version is None else version


def _kept(name: str) -> tuple[Any, Any]:
    """Return how to read and to set what a proxy keeps under a name, behind the property by which others see it."""
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
    """Return an operation of a proxy's shape and dtype, which no write changes; its content may be a former one."""
    return _get_op(x) or peek(x)


def label(x: Traced) -> str:
    """Return what text calls a proxy: its variable's name, unless it is a view that nothing has used."""
    op = _get_op(x)
    return "view" if op is None else op.name


def peek(x: Traced) -> Operation:
    """Return a proxy's operation for a call that needs but its value's shape: the content stays unshared."""
    view = x._view
    if view is None:
        return x._op  # type: ignore[no-any-return]
    if view.version != view.storage.version or view.storage.lost:
        fetch(x)
    return _get_op(x)  # type: ignore[no-any-return]


def use(x: Traced) -> Operation:
    """Return a proxy's operation for a call whose rule may need its value."""
    fetch(x)
    op, storage = _get_op(x), x._view.storage
    if not x._view.path:
        storage.shared = True
    elif storage.owned and not storage.shared and _shares(op.val, storage.val):
        op.val = duplicate(op.val)  # the buffer will change under it
    return op  # type: ignore[no-any-return]


def op_of(x: Traced) -> Operation:
    """Return what `use` does: nothing where nothing was written since, and the content is shared already."""
    view = x._view
    storage = view.storage
    return _slot_op(x) if view.version == storage.version and storage.shared else use(x)  # type: ignore[no-any-return]


def val_of(x: Traced) -> Any:
    """Return what `read` does, of a proxy that is no tensor."""
    view = x._view
    return _slot_val(x) if view.seen == view.storage.version else read(x)


def read(x: Traced) -> Any:
    """Return a proxy's present value; what is kept of it must be copied, or `use`d."""
    view = x._view
    storage = view.storage
    if storage.lost:
        raise MutationError(storage.lost, user_location(), CLONE)
    if view.seen != storage.version:
        set_val(x, follow(storage.val, view.path))
        view.seen = storage.version
    return _get_val(x)


def fetch(x: Traced) -> None:
    """Bring a proxy's operation up to date with its storage."""
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
    """Return the position of the step by which a path is best recorded: a read of a part, by what leads to it, has a
    sparse cotangent.
    """
    return next((i for i in range(len(path) - 1, 0, -1) if path[i].op is getitem and is_direct(path[:i])), 0)


def is_direct(path: Path) -> bool:
    """Return whether a path leads to each place of the storage at most once, and a gradient back on the same way."""
    return all(step.op in _DIRECT for step in path)


_DIRECT = frozenset([getitem, reshape, permute_dims, expand_dims, squeeze, flip, real, imag])


_new = object.__new__


def place(x: Traced) -> View:
    """Return a proxy's place, on a storage of its own where it had none."""
    if x._view is None:
        x._stand(View(Storage(x._op, x._val)))
    return x._view  # type: ignore[no-any-return]


def part(x: Traced, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a `view` op gives of an array that the trace writes in place, or None where its whole content is
    needed.

    A view is not recorded before it is used otherwise than by an index; what is read, is read through the path.
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
    """Return the place of a view of an array's memory that was made with plain arguments; None where `Tracer.record`
    must see to it.
    """
    tracer, view = base._tracer, base._view
    if (type(y) is not np.ndarray or y.size == 0 or tracer.custom or not isinstance(base, Slotted)
        or (view is not None and view.storage.owned)):
        return None
    if type(base._val) is not np.ndarray:
        return None  # one of NumPy's scalars, of which an index makes a new array
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
        tracer.guard(peek(base), "shape", shape_of(of))  # of nothing, nobody can say whether it is shared
    through = op.kwargs.get("through", ())
    options = {key: value for key, value in op.kwargs.items() if key != "through"}
    step = Step(op.fn, tuple(map(value_of, op.args[1:])), options)
    if _is_view(val, of, base, step):
        step = _static(tracer, op.args[1:], step)
        view = place(base)
        x._stand(View(view.storage, (*view.path, *through, step)))
    elif base._view is not None and op.fn is reshape:
        if _shares(op.val, of):  # of a buffer more compact than NumPy's
            op.val = duplicate(op.val)
            set_val(x, op.val)
        x._stand(View(Storage(op, op.val)))
        x._view.storage.reshaped = base._view.storage.reshaped
    else:
        _turned(x, base, step)


def _turned(x: Any, base: Traced, step: Step) -> Any:
    """Return what a step gave; of a tensor that it read backwards, which is a copy where NumPy's is a view, with a note
    that it shares memory.
    """
    if is_tensor(plain(base._val)) and is_turned(step.args):
        place(x).storage.relate(place(base).storage)
    return x


def _static(tracer: Any, args: tuple[Any, ...], step: Step) -> Step:
    """Guard the traced integers that a view was made with, of outer traces too, and return the step with plain ones: a
    path is static.
    """
    traced = [arg for arg in args if isinstance(arg, Operation)]
    for arg in traced:
        tracer.guard(arg, "index", operator.index(arg.val))
    if not traced and not any(isinstance(part, Traced) for part in step.args):
        return step
    return step._replace(args=tuple(operator.index(part) if isinstance(part, Traced) else part for part in step.args))  # type: ignore[arg-type]


def _is_view(val: Any, of: Any, base: Traced, step: Step) -> bool:
    """Return whether what a step from `base`, whose value is `of`, gave shares its memory; of a reshape NumPy and torch
    decide that by their own layout.
    """
    if (step.op is not reshape or not (type(of) is np.ndarray or is_tensor(plain(of)))
        or (type(of) is np.ndarray and of.ndim < 2)):
        return _shares(val, of)
    view = place(base)
    view.storage.reshaped = True
    return _shares(follow(view.storage.layout, (*view.path, step)), view.storage.layout)


def laid(x: Traced) -> Any:
    """Return a tensor of a proxy's shape and strides in the program: the buffer in use may be more compact."""
    return plain(x._val) if x._view is None else follow(plain(x._view.storage.layout), x._view.path)


def check_apart(x: Any, *values: Any) -> None:
    """Refuse to write to an array from parts of its own memory, for functions of NumPy's that read there what they have
    just written.
    """
    mine = laid(x)
    for value in values:
        other = laid(value) if isinstance(value, Traced) else None
        if (type(mine) is type(other) is np.ndarray and np.may_share_memory(mine, other)
            and np.shares_memory(mine, other)):
            raise MutationError("an array is written from a part of its own memory, and NumPy reads there what it has "
                                "just written", user_location(),
                                "a copy of that part")


def are_same(x: Any, y: Any) -> bool:
    """Return whether two arrays are the same elements of the same memory, in the same order."""
    a, b = (laid(part) if isinstance(part, Traced) else None for part in (x, y))
    return (type(a) is type(b) is np.ndarray
            and (a.ctypes.data, a.shape, a.strides, a.dtype) == (b.ctypes.data, b.shape, b.strides, b.dtype))


def lies(x: Any, order: str | None) -> bool:
    """Return whether an array is in the wanted order already: its own, and not that of a more compact copy of it."""
    found = plain(x)
    if order not in ("C", "F") or not isinstance(found, np.ndarray):
        return True
    if isinstance(x, Traced) and x._view is not None:
        found = follow(plain(x._view.storage.layout), x._view.path)
    return bool(found.flags.c_contiguous if order == "C" else found.flags.f_contiguous)


def arranged(x: Any, order: str | None, copied: bool = False) -> Any:
    """Return an array in the wanted order: itself where it is (its layout is guarded unless it is new), or a copy."""
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
    """Refuse copy.deepcopy of two arguments that are one array, or one object: Python makes one copy of it, and a tape
    one of each.
    """
    identity.check_copied_once(memo)
    if not isinstance(plain(x._val), np.ndarray):
        return
    others = memo.setdefault("arrays of a trace", [])
    if others:
        x._tracer.guard_apart()
    if any(other is not x and plain(other._val) is plain(x._val) for other in others):
        raise MutationError("copy.deepcopy of two arguments that are one array, which makes one copy of both",
                            user_location(), "x.copy() of each")
    others.append(x)


def unwritten(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments of a call that is made again to see if it raises: with new arrays to write into."""
    def new(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(new, x))
        return empty_like(x) if isinstance(x, Traced) and isinstance(plain(x), np.ndarray) else None
    return {**kwargs, "out": new(kwargs["out"])} if kwargs.get("out") is not None else kwargs


def hand_out(x: Traced) -> Any:
    """Return the plain value of a constant, an array as a copy that can only be read: a write to it would not be seen.
    While it is held, the array cannot be written to either.
    """
    value = plain(x)
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
        storage = place(x).storage
        storage.handed = [*(copy for copy in storage.handed if copy() is not None), weakref.ref(value)]
    return value


def lock(x: Any) -> Any:
    """Refuse writes by way of a view that NumPy's own function returns writable; return it."""
    if isinstance(x, Traced) and x._view is None:  # of a number
        place(x).storage.held = SEVERAL
    elif isinstance(x, Traced) and x._view is not None and x._view.path:
        x._view.storage.locked += x._view.path[-1:]
    return x


def lose_overlaps(x: Input, tracer: Any) -> None:
    """Give up the arguments that share memory with one that is written to: on the tape they are apart, and using them
    raises.
    """
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
