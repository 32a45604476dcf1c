"""kernel: a function of torch's as the op of a call on a tape."""

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
    """A function of torch's, or any other, as one call of it has it: with what the call knows besides its arguments.

    Where operations are nested in the arguments, `form` has all of these, and `V(0)`, `V(1)` for what the call is
    given. `quick` is the function that makes the call with the least delay, where that is another than `fn`. `inside`
    says that nothing looks into it: the implementation of an operation, which may ask for numbers on the host. What
    `draws` gives other numbers each time, may raise, or is a user's function. What its result `aliases`, and what it
    `writes`: see optimise.memory.
    """

    is_found = True  # a call of it has a value on the tape only where that follows from constants alone
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
        """Return the function's arguments."""
        return (given, kwargs) if self.form is None else replaced(self.form, lambda hole: given[hole.id])

    def _shown(self, given: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """Write the arguments."""
        args, kwargs = self.nested(given, kwargs)
        return [*map(short, args), *(f"{key}={short(x)}" for key, x in kwargs.items())]


def name_of(fn: Any) -> str:
    """Return the name of a function, an operator of ATen's, or what reads an attribute."""
    if isinstance(fn, torch._ops.OpOverload):
        return fn.overloadpacket.__name__  # type: ignore[no-any-return]
    name = getattr(fn, "__name__", "") or type(fn).__name__
    return getattr(fn.__self__, "__name__", "") if name == "__get__" else name  # type: ignore[no-any-return]


def arguments(op: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the function that a call calls."""
    return op.fn.nested(op.args, op.kwargs)  # type: ignore[no-any-return]


def call_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = NO_KWARGS, aliases: Any = None,
            inside: bool = False, draws: bool = False, writes: Any = (), val: Any = UNKNOWN, quick: Any = None) -> Call:
    """Make a call of a function with operations among its arguments; `aliases` and `writes` name the operations."""
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
    """True for the call of a kernel, of one of these functions where there are any."""
    return type(op) is Call and type(op.fn) is Kernel and (not fns or op.fn.fn in fns)


def is_inside(op: Operation) -> bool:
    """True for a call that nothing looks into."""
    return type(op) is Call and type(op.fn) is Kernel and op.fn.inside


def inside(tape: Tape) -> Any:
    """Return the first call on a tape that nothing can look into, or loop with one; None where there is none."""
    return next((op for op in tape.ops if is_inside(op) or (is_loop(op) and inside(op.fn.body))),
                None)


def nest(x: Any) -> Any:
    """Put values together, as the form of the call has them."""
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
    """True if nested arguments are not all known before a program runs."""
    return isinstance(x, Operation) or bool(values_in(x))


def mapped(x: Any, fn: Callable[..., Any], *others: Any) -> Any:
    """Return nested arguments with `fn(leaf, *its counterparts)` for each leaf: what is no
    tuple, list, dict or slice.
    """
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
    """Return nested arguments with something in the place of each variable."""
    return mapped(x, lambda part: fn(part) if isinstance(part, Variable) else part)


# -- types


def without(x: Any) -> Any:
    """Return what stands for a value of which the type is known, if it is a tensor or one of Python's numbers."""
    if is_tensor(x):
        return _tensor(x.dtype, x.shape, x.stride(), x.device)
    return absent(FIXED[type(x)]) if type(x) in PYTHON else UNKNOWN


@lru_cache(1 << 14)
def _tensor(dtype: Any, shape: Any, strides: Any, device: Any) -> Any:
    steps = tuple([step * dtype.itemsize for step in strides])
    return absent(Spec(torch.Tensor, dtype, tuple(shape), steps, str(device)))
