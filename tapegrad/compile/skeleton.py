"""skeleton: the operations of one trace without their values, for comparison with another trace.

Two runs on the same path make the same calls on the same operands, with the same constants. If they differ and no guard
explains it, the program depends on something other than its inputs: a counter, a clock, a file, an unrecorded random
generator.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import Location, locate
from tapegrad.numbers.formatting import brief, count_of
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import ORDINARY, is_tensor
from tapegrad.ops.steps import Steps
from tapegrad.ops.structure import BRANCH_CONVERSIONS
from tapegrad.optimise.roll import saved_by_loops
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape
from tapegrad.trace.guards import FIXED
from tapegrad.transforms.unroll import inline
from tapegrad.tree.copies import is_empty, space_of
from tapegrad.tree.flatten import Structure
from tapegrad.tree.signature import Signature

_NAMED = frozenset([str, bytes, type(None), type(Ellipsis), type, np.dtype])
_EXACT = frozenset([int, bool])


Spot = tuple[int, int]
"""An operation of a skeleton, by its position from 0, and the number of an argument, -1 for the operation itself."""


class Difference(NamedTuple):
    """The first difference between two traces: the line, the operation in each, and whether both are guards."""

    where: Location | None
    was: str
    now: str
    guards: bool = False


class Skeleton:
    """The operations of a tape, each as the number of its kind: its function, operands, constants and options.

    A long tape has few kinds, and each is kept once; only kinds hold references to the program's objects.
    """

    __slots__ = ("digest", "kinds", "labels", "leaves", "length", "memory", "places", "reached", "steps", "stored",
                 "structure", "where")

    def __init__(self, tape: Tape, stored: tuple[Any, ...] = ()) -> None:
        self.structure: Signature = tape.structure
        self.stored = stored  # the key of the program's writes, which are not operations
        tape = inline(tape)  # so that guards in checkpoints count too; `places` refers to this tape
        reached = self.structure.reached
        # the arguments' parts that the program also reaches by name
        self.reached = [] if reached is None else reached.places
        self.leaves = tuple(kind_of_leaf(x.val) for x in tape.inputs[1:])
        self.labels = [x.label or x.name for x in tape.inputs[1:]]
        numbers: dict[Any, int] = {}
        self.steps = array("q")
        self.where: list[tuple[Any, int]] = []  # the line where each kind first occurred
        # guarded memory layouts of arguments: operations that depend on them may precede the guard
        self.memory: dict[Any, Any] = {}
        add = self.steps.append
        self.places = array("q")  # positions of the operations on the tape, from 0
        at = array("q", [0]) * (len(tape.ops) + 1)  # from an operation's number on the tape to its number here
        for place, op in enumerate(tape.ops):
            if type(op) is Guard and type(op.args[0]) is Input and op.fact in FIXED:
                continue  # its position may depend on an array's content
            if type(op) is Guard and op.fact == "recorded":
                continue  # only observed traces find draws; numbers compared by `is` have their own guard
            if type(op) is Guard and type(op.args[0]) is Input and op.fact in _OF_MEMORY:
                self.memory[at[op.args[0].id], op.fact] = op.expected
            self.places.append(place)
            at[op.id] = len(self.places)
            kind = _kind(op, at)
            number = numbers.get(kind)
            if number is None:
                number = numbers[kind] = len(numbers)
                self.where.append((op.code, op.lasti))
            add(number)
        result = tape.result
        add(-1 if result is None else at[result.id])
        self.kinds = list(numbers)
        self.digest = hash((tuple(self.kinds), self.steps.tobytes()))
        self.length = len(self.steps) - saved_by_loops(tape)  # operations to compile: the runs of a loop count once

    def is_like(self, other: Skeleton) -> bool:
        """Return whether two traces had arguments of the same kinds."""
        if self.structure is other.structure:
            return True
        if self.leaves != other.leaves or self.structure != other.structure or self.reached != other.reached:
            return False
        self.structure = other.structure  # equal, and faster to compare next time
        return True

    def difference(self, other: Skeleton) -> Difference | bool:
        """Return False if both took the same path, True if a guard or the type of a value explains their difference,
        else the first, unexplained difference.
        """
        if self.digest == other.digest and self.steps == other.steps and self.kinds == other.kinds:
            return False if self.stored == other.stored else self._stored_apart(other)
        if any(other.memory.get(asked, expected) != expected for asked, expected in self.memory.items()):
            return True
        for at, one, two in self.differing(other):
            if one[:3] == two[:3] or _of_shape(one) or _of_shape(two) or self.raises(at) or other.raises(at):
                return True
            break
        return self.first_difference(other)

    def differing(self, other: Skeleton) -> Iterator[tuple[int, Any, Any]]:
        """Yield the positions at which two traces differ, with the kinds of operation in each."""
        known, found = self.kinds, other.kinds
        for at, (a, b) in enumerate(zip(self.steps[:-1], other.steps[:-1])):
            if known[a] != found[b]:
                yield at, known[a], found[b]

    def first_difference(self, other: Skeleton) -> Difference:
        """Return the first difference, in a guard or another operation."""
        for at, one, two in self.differing(other):
            return Difference(_place(other.where[other.steps[at]]), _text(one), _text(two),
                              self.is_guard(at) and other.is_guard(at))
        return Difference(None, count_of(len(self.steps), "operation"), count_of(len(other.steps), "operation"))

    def _stored_apart(self, other: Skeleton) -> Difference:
        """Return the difference in the stored values, for two traces with the same operations."""
        was, now = next(((a, b) for a, b in zip(self.stored, other.stored) if a != b), (self.stored, other.stored))
        return Difference(None, f"{_shown(was)} was stored", f"{_shown(now)} is")

    def variation(self, other: Skeleton) -> list[Spot] | None:
        """Return the spots at which two traces differ, if these are only guards on integers and constants of one type,
        and a guard comes first; else None.
        """
        if len(self.steps) != len(other.steps) or self.steps[-1] != other.steps[-1] or self.stored != other.stored \
                or not self.is_like(other):
            return None
        spots: list[Spot] = []
        for at, one, two in self.differing(other):
            apart = _apart(one, two)
            if apart is None or not (spots or self.is_guard(at)):
                return None
            spots += [(at, part) for part in apart]
        return spots

    def is_guard(self, at: int) -> bool:
        """Return whether the operation at a position is a guard."""
        return self.kinds[self.steps[at]][0] is Guard

    def raises(self, at: int) -> bool:
        """Return whether the operation at a position, or the one after it, is the guard of a call that raised."""
        kinds = self.kinds
        steps = self.steps[at:min(at + 2, len(self.steps) - 1)]
        return any(kinds[step][0] is Guard and kinds[step][2] == "raises" for step in steps)


_OF_MEMORY = frozenset(["layout", "strides", "writeable"])


def _of_shape(kind: Any) -> bool:
    """Return whether a kind is a guard on a shape, which rules and composites add: values that decide a shape explain a
    difference there.
    """
    return kind[0] is Guard and kind[2] == "shape"


def kind_of_leaf(x: Any) -> Any:
    """Return the properties of a leaf to which a compiled tape is specialised."""
    return (type(x), x.dtype, tuple(x.shape)) if isinstance(x, np.ndarray) or is_tensor(x) else type(x)


def _kind(op: Operation, at: Sequence[int]) -> Any:
    """Return a key of an operation without its value; `at` numbers the operations."""
    here = at[op.id]
    if type(op) is Call:
        args = tuple([_operand(here, arg, at) if isinstance(arg, Operation) else _fixed(arg) for arg in op.args])
        fn = _operand(here, op.fn, at) if isinstance(op.fn, Operation) else op.fn
        if type(fn) is Steps:  # each trace makes a new one
            here_too = range(len(fn.body.ops) + 1)
            fn = (Steps, fn.loop.count, fn.slots, *[_kind(inner, here_too) for inner in fn.body.ops])
        kwargs, absent = op.kwargs, op.kwargs.get("absent")
        if absent is not None:  # values decide which parts of a result are None
            kwargs = {key: value for key, value in kwargs.items() if key != "absent"}
        # a power may become complex
        found = getattr(op.val, "dtype", type(op.val)) if absent is None else absent
        return (fn, args, _fixed(kwargs) if kwargs else None, found)
    if type(op) is Guard:
        return (Guard, _operand(here, op.args[0], at), op.fact, _fixed(op.expected))
    if type(op) is Constant:
        return (Constant, _fixed(op.val))
    return (Input, here)


def _operand(here: int, arg: Any, at: Sequence[int]) -> int:
    """Return the distance back to an operand, so that all runs of a loop have the same kinds; for an input or a
    constant, its negative position.
    """
    return -at[arg.id] if type(arg) is Input or type(arg) is Constant else here - at[arg.id]


def _apart(one: Any, two: Any) -> list[int] | None:
    """Return which arguments of two operations differ, -1 for the operation itself, if a table can supply them; else
    None.
    """
    if one[0] is not two[0]:
        return None
    if one[0] is Guard:
        return [-1] if one[1:3] == two[1:3] and one[2] in BRANCH_CONVERSIONS else None
    if one[0] is Constant:
        return [-1] if _is_looked_up(one[1], two[1]) else None
    if one[0] is Input or one[2:] != two[2:] or len(one[1]) != len(two[1]):
        return None
    parts = [at for at, (a, b) in enumerate(zip(one[1], two[1])) if a != b]
    return parts if all(_is_looked_up(one[1][at], two[1][at]) for at in parts) else None


def _is_looked_up(one: Any, two: Any) -> bool:
    """Return whether two constants are arrays of one type and shape, or floats."""
    if type(one) is _Same and type(two) is _Same:
        return one.key[0] is two.key[0] is np.ndarray and one.key[1:3] == two.key[1:3] and not one.key[1].hasobject
    return (type(one) is type(two) is tuple and one[:1] == two[:1] and isinstance(one[0], type)
            and issubclass(one[0], (float, np.floating)))


class _Same(NamedTuple):
    """A constant that is compared by its key, and shown by its text."""

    key: Any
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Nest:
    """A nesting of values; functions in it are compared by content, since each trace makes new ones."""

    __slots__ = ("structure",)

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Nest):
            return False
        return (self.structure == other.structure
                or _fixed(self.structure.spec.key({})) == _fixed(other.structure.spec.key({})))

    def __hash__(self) -> int:
        return hash(self.structure)


def _fixed(x: Any) -> Any:
    """Return a key that only values equal in every observable way share; it distinguishes 1, 1.0 and True, and 0.0 and
    -0.0.
    """
    kind = type(x)
    if kind is float:
        return (float, x) if x == x and x != 0.0 else (float, repr(x))
    if kind in _EXACT:
        return (kind, x)
    if kind in _NAMED:
        return x
    if kind is tuple or kind is list:
        return (kind, *map(_fixed, x))
    if kind is dict:
        return (dict, *[(key, _fixed(part)) for key, part in x.items()])
    if kind is Structure:
        return _Nest(x)
    if kind is slice:
        return (slice, _fixed(x.start), _fixed(x.stop), _fixed(x.step))
    if isinstance(x, np.ndarray):
        content = tuple(map(id, x.flat)) if x.dtype.hasobject else hash(x.tobytes())
        return _Same((kind, x.dtype, x.shape, content), brief(x))
    if isinstance(x, (complex, np.generic)):
        return (kind, repr(x))
    if kind not in ORDINARY and is_tensor(x):
        return _Same((kind, x.dtype, tuple(x.shape), x.device, _content(x)), brief(x))
    if is_generator(x):
        return (kind, id(x))
    if isinstance(x, tuple):
        return (kind, *map(_fixed, x))
    if kind is FunctionType:  # each run makes a new one
        cells = [_fixed(cell.cell_contents) for cell in x.__closure__ or () if not is_empty(cell)]
        return (FunctionType, x.__code__, space_of(x), _fixed(x.__defaults__), _fixed(x.__kwdefaults__), *cells)
    if kind is partial:
        return (partial, _fixed(x.func), _fixed(x.args), _fixed(x.keywords))
    try:
        hash(x)
    except TypeError:
        return (kind, id(x))
    return x


def _content(x: Any) -> Any:
    """Return a key for the numbers of a tensor."""
    x = x.detach().cpu()
    try:
        return hash(x.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    except (RuntimeError, TypeError):  # sparse, say
        return repr(x)


def _place(where: tuple[Any, int]) -> Location | None:
    return None if where[0] is None else locate(*where)


def _text(kind: Any) -> str:
    """Return the text of a kind: its function and constants."""
    if kind[0] is Constant:
        return _shown(kind[1])
    if kind[0] is Guard:
        return f"{kind[2]} == {_shown(kind[3])}"
    if kind[0] is Input:
        return "an input"
    shown = ["·" if type(arg) is int else _shown(arg) for arg in kind[1]]
    return f"{getattr(kind[0], '__name__', kind[0])}({', '.join(shown)})"


def _shown(key: Any) -> str:
    if isinstance(key, _Same):
        return key.text
    if type(key) is tuple and len(key) == 2 and isinstance(key[0], type):
        return str(key[1])
    return brief(key)
