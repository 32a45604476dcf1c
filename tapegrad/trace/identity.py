"""identity: `x is y` of traced numbers, which is that of the numbers they stand for.

Code that traces reach has a call in place of the instruction (`conversions`). Two numbers of one type that differ are
two objects, and small integers that are equal are one: a tape guards both facts. Whether other equal numbers are one
object no tape knows: it is not played again.
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

_SMALL = range(-5, 257)  # the integers of which CPython keeps one object each

_EQUAL = ("compares equal numbers by `is`, or arrays that share memory, which may be one object or two",
          "compare numbers by ==, and nan by np.isnan(x)")


def same(x: Any, y: Any) -> bool:
    """Return what `x is y` does in the plain program."""
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
        operator.index(x), operator.index(y)  # of which the tape has guards
        return True
    for z in (x, y):
        while issubclass(type(z), Traced):
            z._tracer.guard(z._tracer.tape.ops[0], "recorded", _EQUAL)
            z = z._val
    return a is b


def _copy(x: Any) -> Any:
    """Return the copy that the running program has of an object, the first of several; the object itself where there is
    none.
    """
    for tracer in running.tracers:
        if tracer.copies:
            x = first_of(x)
            x = tracer.copies.get(id(x), x)
    return first_of(x)


_EQ: Any = object.__eq__
_HASH: Any = object.__hash__
_first: dict[int, Any] = {}  # by the id of a second copy of an object, the first one


def first_of(x: Any) -> Any:
    """Return the first copy of what `x` is a copy of, if there are several; else the object itself."""
    return _first.get(id(x), x)


@functools.lru_cache(maxsize=1024)
def _joined(cls: Any) -> Any:
    """Return the subclass of a class by whose objects the copies of one object are equal, and have one hash, where
    Python would tell them apart by identity.
    """
    namespace = {"__class__": property(lambda self: cls), "__hash__": cls.__hash__}
    if cls.__eq__ is _EQ:
        namespace["__eq__"] = lambda self, other: _copy(self) is _copy(other) or NotImplemented
    if cls.__hash__ is _HASH:
        namespace["__hash__"] = lambda self: object.__hash__(first_of(self))
    return subclass(cls, namespace)


def join(first: Any, second: Any) -> None:
    """Let the copies of one object be one to the program: by `is`, and where their class can be replaced by ==, and in
    lists, sets and dicts, also for other threads.
    """
    _first[id(second)] = first
    for x in (first, second):
        cls: Any = class_of(x)
        if type(x) is cls and cls.__flags__ & HEAP and (cls.__eq__ is _EQ or cls.__hash__ is _HASH):
            with contextlib.suppress(TypeError):  # of a kind that has its class for good
                set_class(x, _joined(cls))  # type: ignore[arg-type]


def check_copied_once(memo: dict[Any, Any]) -> None:
    """Refuse copy.deepcopy of two copies of one object: Python makes one copy of it, and would make one of each."""
    for second, first in _first.items():
        if second in memo and id(first) in memo:
            raise MutationError(f"copy.deepcopy of two arguments that are one {class_of(first).__name__}, which makes "
                                "one copy of both", user_location(), "pass it once; or copy each for itself")


def part(first: Any, second: Any) -> None:
    """End what `join` began."""
    _first.pop(id(second), None)
    for x in (first, second):
        if type(x) is not class_of(x):
            set_class(x, class_of(x))


def _may_be_one(x: Any, y: Any) -> bool:
    """Return whether two numbers are equal, or nan both."""
    return bool(x == y) or (bool(x != x) and bool(y != y))


def _check_apart(x: Any, y: Any) -> None:
    """Refuse to compare two arguments that are one array; guard that others are two."""
    while issubclass(type(x), Traced) and issubclass(type(y), Traced):
        tracer = x._tracer
        double = tracer.rerouting.double if tracer.rerouting is not None else {}
        if double.get(id(x), x) is double.get(id(y), y):
            frame = user_frame()
            raise MutationError(f"{frame.f_code.co_name} (line {frame.f_code.co_firstlineno}) compares by `is`, and "
                                "two arguments are one array, which are two variables in the traced program",
                                user_location(), "pass it once: tg.grad(lambda x: f(x, x), x); or pass a copy")
        if tracer is y._tracer and tracer.replays and type(x._op) is type(y._op) is Input:
            a, b = plain(x), plain(y)
            if has_memory := is_memory(a) and a.shape and 0 not in a.shape:
                tracer.guard_disjoint([x._op, y._op])
            if not has_memory or not are_apart((a, b)):
                tracer.guard(tracer.tape.ops[0], "recorded", _EQUAL)
        x, y = x._val, y._val


def is_not(x: Any, y: Any) -> bool:
    """Return what `x is not y` does in the plain program."""
    return not same(x, y)


class _Compared:
    """Compares a pair that stands before it, `(x, y) @ self`: a call that needs no room on the stack."""

    __slots__ = ("compare",)

    def __init__(self, compare: Callable[[Any, Any], bool]) -> None:
        self.compare = compare

    def __rmatmul__(self, pair: tuple[Any, Any]) -> bool:
        return self.compare(*pair)


_COMPARED = (_Compared(same), _Compared(is_not))  # by the argument of the instruction
COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {operator.is_: same, operator.is_not: is_not}
PAIR, MATMUL = (next(step for step in steps_of((lambda a, b, c: (a, b) @ c).__code__) if step.name.startswith(name))
                  for name in ("BUILD_TUPLE", "BINARY_"))
_LOAD_CONST, _IS_OP = map(dis.opmap.__getitem__, ("LOAD_CONST", "IS_OP"))


def _comparisons(code: CodeType) -> Iterator[int]:
    """Yield the places of the instructions that compare by `is`, but for `x is None` and such, True and False: these
    are handed on as they are. Of numbers there may be several.
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
    """Return code in which `is` compares what traced numbers stand for; the same code where it compares none."""
    units, count = code.co_code, len(code.co_consts)
    instead = {2 * place: (PAIR, Step(0, 0, _LOAD_CONST, count + units[2 * place + 1], 0), MATMUL)
               for place in _comparisons(code)}
    return expanded(code, instead, (*code.co_consts, *_COMPARED)) if instead else code
