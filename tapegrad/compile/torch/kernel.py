"""kernel: a torch function as the op of a call on a lowered tape."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import count
from typing import Any

import torch

from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.loop import is_loop
from tapegrad.rules.facts import ANY, DRAWS, PURE
from tapegrad.show.line import short
from tapegrad.tape.spec import FIXED, UNKNOWN, Spec, absent
from tapegrad.tape.tape import NO_KWARGS, Call, Operation, Tape, V, Variable


class Kernel:
    """The op of one call of a function of torch or any other, with facts about this call.

    form: all arguments of the function, with `V(0)`, `V(1)` in place of the call's, if operations are nested in them.
    quick: the fastest function that makes the call, `fn` by default.
    inside: the call is opaque, an implementation that may read numbers on the host.
    draws: the result may differ each time, the function may raise, or it is the user's.
    aliases, writes: see optimise.memory.
    """

    is_found = True  # a call has a value on the tape only if that follows from constants alone
    __slots__ = ("__name__", "aliases", "effects", "fn", "form", "inside", "quick", "writes")

    def __init__(self, fn: Callable[..., Any], form: Any = None, aliases: Any = None, inside: bool = False,
                 draws: bool = False, writes: tuple[int, ...] = (), quick: Any = None) -> None:
        self.fn, self.form, self.aliases, self.inside = fn, form, aliases, inside
        self.effects, self.writes, self.quick = DRAWS if draws else PURE, writes, quick or fn
        self.__name__ = name_of(fn)

    def __call__(self, *given: Any, **kwargs: Any) -> Any:
        args, kwargs = self.nested(given, kwargs)
        return self.fn(*args, **kwargs)

    def nested(self, given: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the function's arguments, nested."""
        return (given, kwargs) if self.form is None else replaced(self.form, lambda hole: given[hole.id])

    def _shown(self, given: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """Return the texts of the function's arguments."""
        args, kwargs = self.nested(given, kwargs)
        return [*map(short, args), *(f"{key}={short(x)}" for key, x in kwargs.items())]


def name_of(fn: Any) -> str:
    """Return the name of a function, an ATen operator, or the attribute that a getter reads."""
    if isinstance(fn, torch._ops.OpOverload):
        return fn.overloadpacket.__name__  # type: ignore[no-any-return]
    name = getattr(fn, "__name__", "") or type(fn).__name__
    return getattr(fn.__self__, "__name__", "") if name == "__get__" else name  # type: ignore[no-any-return]


def arguments(op: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the function of a kernel's call, nested."""
    return op.fn.nested(op.args, op.kwargs)  # type: ignore[no-any-return]


def call_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = NO_KWARGS, aliases: Any = None,
            inside: bool = False, draws: bool = False, writes: Any = (), val: Any = UNKNOWN, quick: Any = None) -> Call:
    """Return a kernel's call of a function with operations in its arguments; `aliases` and `writes` are operations."""
    form = None
    nests = [arg for arg in args if isinstance(arg, (tuple, list, dict, slice))]
    if (nests or kwargs) and holds_value((nests, kwargs)):
        given = values_in((args, kwargs))
        holes = map(V, count())
        form, args, kwargs = replaced((args, kwargs), lambda x: next(holes)), tuple(given), NO_KWARGS

    def number(x: Any) -> Any:
        if type(x) is tuple:
            return tuple(map(number, x))
        return next((i for i, arg in enumerate(args) if arg is x), ANY) if isinstance(x, Operation) else x
    places = tuple([next(i for i, arg in enumerate(args) if arg is x) for x in writes])
    return Call(Kernel(fn, form, number(aliases), inside, draws, places, quick), args, kwargs, val)


def is_kernel(op: Operation, *fns: Any) -> bool:
    """Return whether an operation is a kernel's call, of one of these functions if any are given."""
    return type(op) is Call and type(op.fn) is Kernel and (not fns or op.fn.fn in fns)


def is_inside(op: Operation) -> bool:
    """Return whether an operation is an opaque call."""
    return type(op) is Call and type(op.fn) is Kernel and op.fn.inside


def inside(tape: Tape) -> Any:
    """Return the first opaque call on a tape, or loop that contains one; None if there is none."""
    return next((op for op in tape.ops if is_inside(op) or (is_loop(op) and inside(op.fn.body))),
                None)


def nest(x: Any) -> Any:
    """Return nested values; the `form` of the call does the nesting."""
    return x


# -- nested arguments


def values_in(x: Any) -> list[Operation]:
    """Return the operations in nested arguments."""
    found: list[Operation] = []
    _collect(x, found)
    return found


def _collect(x: Any, found: list[Operation]) -> None:
    if isinstance(x, Operation):
        found.append(x)
    elif isinstance(x, (tuple, list)):
        for part in x:
            _collect(part, found)
    elif isinstance(x, dict):
        for part in x.values():
            _collect(part, found)
    elif type(x) is slice:
        _collect((x.start, x.stop, x.step), found)


def holds_value(x: Any) -> bool:
    """Return whether nested arguments contain an operation."""
    return isinstance(x, Operation) or bool(values_in(x))


def mapped(x: Any, fn: Callable[..., Any], *others: Any) -> Any:
    """Return nested tuples, lists, dicts and slices with `fn(leaf, *its counterparts)` in place of each leaf."""
    if isinstance(x, (tuple, list)):
        parts = [mapped(*part[:1], fn, *part[1:])
                 for part in zip(x, *others)] if others else [mapped(part, fn) for part in x]
        if isinstance(x, list):
            return parts
        return tuple(parts) if isinstance(x, torch.Size) and values_in(parts) else tuple_of(type(x), parts)
    if isinstance(x, dict):
        return {key: mapped(part, fn, *(other[key] for other in others)) for key, part in x.items()}
    if type(x) is slice:
        return slice(*(mapped(part, fn) for part in (x.start, x.stop, x.step)))
    return fn(x, *others)


def replaced(x: Any, fn: Callable[[Any], Any]) -> Any:
    """Return nested arguments with `fn(variable)` in place of each variable."""
    return mapped(x, lambda part: fn(part) if isinstance(part, Variable) else part)


# -- types


def without(x: Any) -> Any:
    """Return an absent value with the type of a tensor or Python number; UNKNOWN for others."""
    if is_tensor(x):
        return _tensor(x.dtype, x.shape, x.stride(), x.device)
    return absent(FIXED[type(x)]) if type(x) in PYTHON else UNKNOWN


@lru_cache(1 << 14)
def _tensor(dtype: Any, shape: Any, strides: Any, device: Any) -> Any:
    steps = tuple([step * dtype.itemsize for step in strides])
    return absent(Spec(torch.Tensor, dtype, tuple(shape), steps, str(device)))
