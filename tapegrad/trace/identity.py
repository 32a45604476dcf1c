"""identity: `x is y` of traced numbers gives the answer for the numbers they stand for.

Code that a trace reaches has a call in place of the instruction (`conversions`). Different numbers of one type are two
objects, and equal small integers are one: guards check both facts. Whether other equal numbers are one object cannot be
known, so such a tape is not replayed.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import operator
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from tapegrad.errors import MutationError, user_frame, user_location
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.systems import system_of
from tapegrad.numbers.tensors import ORDINARY, is_memory
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import StandIn
from tapegrad.tape.tape import Input
from tapegrad.trace.bytecode import Step, argument, expanded, jumps_of, steps_of
from tapegrad.trace.guards import are_apart
from tapegrad.trace.redirection import set_class, subclass
from tapegrad.tree.attributes import HEAP
from tapegrad.tree.copies import class_of, running

_SMALL = range(-5, 257)  # CPython keeps one object for each of these

_EQUAL = ("compares equal numbers, or arrays that share memory, by `is`: whether these are one object may differ in a "
          "replay",
          "compare numbers by ==, and nan by np.isnan(x)")


def same(x: Any, y: Any) -> bool:
    """Return the result of `x is y` in the untraced program."""
    if x is y or not (issubclass(type(x), Traced) or issubclass(type(y), Traced)):
        return x is y or ((issubclass(type(x), StandIn) or issubclass(type(y), StandIn)) and x == y) or (
            type(x) not in ORDINARY and type(y) not in ORDINARY and running.tracers != [] and _copy(x) is _copy(y))
    a, b = plain(x), plain(y)
    if type(a) is not type(b):
        return False
    if not (type(a) in PYTHON or isinstance(a, np.generic) or system_of(type(a)) is not None):
        _check_apart(x, y)
        return False
    if not _may_be_one(x, y):
        return False
    if type(a) is int and a in _SMALL:
        operator.index(x), operator.index(y)  # these record guards
        return True
    for z in (x, y):
        while issubclass(type(z), Traced):
            z._tracer.guard(z._tracer.tape.ops[0], "recorded", _EQUAL)
            z = z._val
    return a is b


def _copy(x: Any) -> Any:
    """Return the program's copy of an object, the first if there are several; the object itself if there is none."""
    for tracer in running.tracers:
        if tracer.copies:
            x = first_of(x)
            x = tracer.copies.get(id(x), x)
    return first_of(x)


_EQ: Any = object.__eq__
_HASH: Any = object.__hash__
_first: dict[int, Any] = {}  # id of a second copy of an object -> the first copy


def first_of(x: Any) -> Any:
    """Return the first copy of the original of `x` if it has several; else `x`."""
    return _first.get(id(x), x)


@functools.lru_cache(maxsize=1024)
def _joined(cls: Any) -> Any:
    """Return a subclass whose instances compare and hash alike if they copy one object; it overrides only methods that
    go by identity.
    """
    namespace = {"__class__": property(lambda self: cls), "__hash__": cls.__hash__}
    if cls.__eq__ is _EQ:
        namespace["__eq__"] = lambda self, other: _copy(self) is _copy(other) or NotImplemented
    if cls.__hash__ is _HASH:
        namespace["__hash__"] = lambda self: object.__hash__(first_of(self))
    return subclass(cls, namespace)


def join(first: Any, second: Any) -> None:
    """Identify two copies of one object: by `is` and, if their class can be replaced, by == and in lists, sets and
    dicts, for other threads as well.
    """
    _first[id(second)] = first
    for x in (first, second):
        cls: Any = class_of(x)
        if type(x) is cls and cls.__flags__ & HEAP and (cls.__eq__ is _EQ or cls.__hash__ is _HASH):
            with contextlib.suppress(TypeError):  # its class cannot be assigned
                set_class(x, _joined(cls))  # type: ignore[arg-type]


def check_copied_once(memo: dict[Any, Any]) -> None:
    """Refuse copy.deepcopy of two copies of one object: Python makes one copy of it, and would make one of each."""
    for second, first in _first.items():
        if second in memo and id(first) in memo:
            raise MutationError(f"copy.deepcopy of two arguments that are the same {class_of(first).__name__}: Python "
                                "makes one copy, a trace "
                                "would make two", user_location(), "pass it once; or copy each separately")


def part(first: Any, second: Any) -> None:
    """Undo `join`."""
    _first.pop(id(second), None)
    for x in (first, second):
        if type(x) is not class_of(x):
            set_class(x, class_of(x))


def _may_be_one(x: Any, y: Any) -> bool:
    """Return whether two numbers are equal, or both nan."""
    return bool(x == y) or (bool(x != x) and bool(y != y))


def _check_apart(x: Any, y: Any) -> None:
    """Refuse to compare two arguments that are one array; guard that other arrays are separate."""
    while issubclass(type(x), Traced) and issubclass(type(y), Traced):
        tracer = x._tracer
        double = tracer.rerouting.double if tracer.rerouting is not None else {}
        if double.get(id(x), x) is double.get(id(y), y):
            frame = user_frame()
            raise MutationError(f"{frame.f_code.co_name} (line {frame.f_code.co_firstlineno}) compares by `is`, and "
                                "two arguments are the same array: in the traced program they are two variables",
                                user_location(), "pass it once: tg.grad(lambda x: f(x, x), x); or pass a copy")
        if tracer is y._tracer and tracer.replays and type(x._op) is type(y._op) is Input:
            a, b = plain(x), plain(y)
            if has_memory := is_memory(a) and a.shape and 0 not in a.shape:
                tracer.guard_disjoint([x._op, y._op])
            if not has_memory or not are_apart((a, b)):
                tracer.guard(tracer.tape.ops[0], "recorded", _EQUAL)
        x, y = x._val, y._val


def is_not(x: Any, y: Any) -> bool:
    """Return the result of `x is not y` in the untraced program."""
    return not same(x, y)


class _Compared:
    """Compares the preceding pair by `(x, y) @ self`: unlike a call it needs no additional stack slots."""

    __slots__ = ("compare",)

    def __init__(self, compare: Callable[[Any, Any], bool]) -> None:
        self.compare = compare

    def __rmatmul__(self, pair: tuple[Any, Any]) -> bool:
        return self.compare(*pair)


_COMPARED = (_Compared(same), _Compared(is_not))  # indexed by the argument of IS_OP
COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {operator.is_: same, operator.is_not: is_not}
PAIR, MATMUL = (next(step for step in steps_of((lambda a, b, c: (a, b) @ c).__code__) if step.name.startswith(name))
                  for name in ("BUILD_TUPLE", "BINARY_"))
_LOAD_CONST, _IS_OP = map(dis.opmap.__getitem__, ("LOAD_CONST", "IS_OP"))


def _comparisons(code: CodeType) -> Iterator[int]:
    """Yield the places of IS_OP instructions, except comparisons with constants such as None, True and False, whose
    identity is preserved. Numeric constants are included, since equal numbers may be several objects.
    """
    opcodes, targets = code.co_code[::2], None
    at = opcodes.find(_IS_OP)
    while at >= 0:
        if at < 1 or opcodes[at - 1] != _LOAD_CONST or (
                type(code.co_consts[argument(code, at - 1)]) in (int, float, complex)):
            yield at
        else:
            targets = {step.target for step in jumps_of(code)} if targets is None else targets
            if 2 * at in targets:
                yield at
        at = opcodes.find(_IS_OP, at + 1)


def compared(code: CodeType) -> CodeType:
    """Return code in which `is` compares the values of traced numbers; the same object if nothing is compared."""
    units, count = code.co_code, len(code.co_consts)
    instead = {2 * place: (PAIR, Step(0, 0, _LOAD_CONST, count + units[2 * place + 1], 0), MATMUL)
               for place in _comparisons(code)}
    return expanded(code, instead, (*code.co_consts, *_COMPARED)) if instead else code
