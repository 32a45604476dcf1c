"""interpreter: runs the operations of a tape on new arguments.

A tape recorded from NumPy code runs on tensors too: they stand for arrays of the same shape, dtype and kind (0-d
tensors for NumPy scalars or numbers), and every op keeps NumPy's semantics. Array arguments are moved to the tensors'
device; constants are moved once.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, TapeError
from tapegrad.numbers.cotangents import Accumulator, conform, copied
from tapegrad.numbers.formatting import brief, count_of, is_python, type_name
from tapegrad.numbers.tensor_array import wrap
from tapegrad.numbers.tensors import (
    detached,
    device_of,
    holds_tensor,
    is_tensor,
    is_tensor_type,
    share_memory,
    to_tensor,
)
from tapegrad.numbers.view_path import assign
from tapegrad.ops import draw, getfield, pack, setitem
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.loop import Loop, Runs, is_loop
from tapegrad.replay.facts import verify
from tapegrad.replay.kinds import check_kinds, in_system
from tapegrad.replay.raising import as_recorded, raising, spec_recorded
from tapegrad.replay.random_state import hold, sources_of, values_of
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.user import rrule
from tapegrad.tape.error_context import failed
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.spec import Absent, Spec
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape
from tapegrad.trace import numpy_warnings
from tapegrad.trace.guards import SURROUNDINGS, check_surroundings
from tapegrad.trace.inputs import argument_names, flatten_call
from tapegrad.trace.results import apart
from tapegrad.tree.flatten import Structure
from tapegrad.tree.signature import ValueAndGradients


def play(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any], *, debug: bool = False, redraw: bool = True) -> Any:
    """Run a tape; each value is dropped after its last use.

    Raises ArgumentError for arguments of another structure, GuardError if a guarded fact differs, and ReplayError,
    which is also an instance of the original error's class, if a call raises.
    """
    if tape.result is None:
        tape.check()
    given = bind(tape, args, kwargs, checked=False)
    tape, given[1:] = in_system(tape, given[1:])
    check_kinds(tape, given[1:])
    run = Run(tape, given, redraw)
    if SURROUNDINGS and any(map(is_tensor, run.leaves)):
        check_surroundings()
    give_back = hold(values_of(sources_of(tape), tape, run.leaves)) if redraw else None
    said = numpy_warnings.begin()
    try:
        for op in run if debug else ():
            note = f"  # {op.origin}" if op.origin else ""
            value = run.values[op.id]
            found = "" if isinstance(op, (Guard, Constant)) else f"  ->  {brief(value)} : {type_name(value)}"
            print(f"{op!r}{found}{note}")
        if not debug:
            deque(run, 0)  # the fastest way to exhaust an iterator
    except Exception:
        if give_back is not None:
            give_back()
        raise
    finally:
        numpy_warnings.end(said)
    return run.result


def fill(tape: Tape) -> Tape:
    """Return a tape with the values it was saved without, recomputed from the inputs and the recorded draws."""
    if any(lacks(op.val) for op in tape.ops) and not any(lacks(x.val) for x in tape.inputs):
        run = Run(tape, [x.val for x in tape.inputs], redraw=False, keep=True)
        for op in run:
            if lacks(op.val):
                op.val = run.values[op.id]
    for op in tape.ops:
        if is_loop(op):
            fill(op.fn.body)
    return tape


def lacks(val: Any) -> bool:
    """True for a value that is absent, wholly or in part."""
    return type(val) is Absent or (type(val) in (tuple, list) and any(map(lacks, val)))


class Interpretation:
    """The interpreter loop: iterating computes each operation's value and yields the operation before its operands are
    freed.

    A subclass defines calls (`run`), constants and guards (`verify`); `leaves` are the inputs' values. This class
    stores values, frees dead ones, and names the failing operation in errors.
    """

    __slots__ = ("leaves", "tape", "values")

    def __init__(self, tape: Tape, leaves: Iterable[Any]) -> None:
        self.tape, self.leaves = tape, leaves
        self.values: list[Any] = [None] * (len(tape.ops) + 1)

    def __iter__(self) -> Iterator[Operation]:
        return self.over(self.tape.ops, last_uses(self.tape, self.tape.result.args), self.run)

    def over(self, ops: Iterable[Operation], dead: list[Any], run: Callable[..., Any]) -> Iterator[Operation]:
        """Evaluate some operations, calls by `run`; `dead` lists, by position, the values to free after each."""
        values, leaves = self.values, iter(self.leaves)
        op = given = None
        try:
            for op in ops:
                if isinstance(op, Call):
                    fn = values[op.fn.id] if isinstance(op.fn, Operation) else op.fn
                    given = [values[arg.id] if isinstance(arg, Operation) else arg for arg in op.args]
                    value = run(op, fn, given, dead[op.id])
                elif isinstance(op, Input):
                    value = next(leaves)
                elif isinstance(op, Guard):
                    value = values[op.args[0].id]
                    self.verify(op, value)
                else:
                    value = self.constant(op)
                values[op.id] = value
                yield op
                for position in dead[op.id]:
                    values[position] = None
        except TapeError:
            raise
        except Exception as err:
            raise failed(self.tape, op, err, given if type(op) is Call else None) from err  # type: ignore[arg-type]

    def run(self, op: Call, fn: Any, given: list[Any], dead: list[int]) -> Any:
        """Return the value of a call on the arguments `given`; `dead` lists the values that are freed after it."""
        raise NotImplementedError

    def verify(self, guard: Guard, value: Any) -> None:
        """Handle a guard on a value."""

    def constant(self, op: Operation) -> Any:
        """Return the value of a constant."""
        return op.val


numpy_warnings.PLACES[Interpretation.over.__code__] = lambda frame: frame.f_locals.get("op")


class Run(Interpretation):
    """One replay. With `keep`, every value stays unchanged: nothing is freed or written in place."""

    __slots__ = ("constants", "device", "keep", "redraw")

    def __init__(self, tape: Tape, leaves: Iterable[Any], redraw: bool = True, keep: bool = False) -> None:
        found = list(leaves)
        self.redraw, self.keep = redraw, keep
        device = device_of(found)  # the device of the tensors among them, or None
        if device is not None and is_mixed(tape, found, device):
            device, found = None, [detached(x) if is_tensor(x) else x for x in found]
        self.device = device
        super().__init__(tape, found if device is None else [on_device(leaf, device) for leaf in found])
        self.constants = [op.val if device is None else moved(op, device) for op in constants_of(tape)]

    @property
    def result(self) -> Any:
        """The result of the tape, once all of it has run."""
        return result(self.values[self.tape.result.id], self.constants, self.device)

    def __iter__(self) -> Iterator[Operation]:
        dead: list[Any] = [()] * len(self.values) if self.keep else last_uses(self.tape)
        return self.replay(self.tape.ops, dead, Memory(self.tape, self.device))

    def replay(self, ops: Iterable[Operation], dead: list[Any], memory: Memory) -> Iterator[Operation]:
        """Make the calls of some operations; `dead` lists, by position, the values to free after each."""
        def repeated(op: Call, fn: Any, given: list[Any], dead: list[int]) -> Any:
            if fn is draw and not self.redraw:
                return op.val
            given = list(map(unshared, given)) if self.keep else given
            return memory.run(op, fn if self.redraw else undrawn(op, fn), given, dead)
        memory.nest = self.packed
        return self.over(ops, dead, memory.run if self.redraw and not self.keep else repeated)

    def verify(self, guard: Guard, value: Any) -> None:
        """Raise GuardError if a guarded fact differs."""
        verify(guard, value)

    def constant(self, op: Operation) -> Any:
        """Return the value of a constant, on the device of the arguments."""
        return op.val if self.device is None or type(op) is not Constant else moved(op, self.device)

    def packed(self, op: Call, given: list[Any]) -> list[Any]:
        """Return the parts of a nest as results."""
        # the gradients of a flat tape do not yet have the types of the inputs
        if isinstance(op.kwargs["into"], ValueAndGradients):
            given[1:] = map(conform, given[1:], self.leaves[1:])  # type: ignore[index]
        return [result(part, self.constants, self.device) for part in given]


def play_loop(loop: Loop, given: Sequence[Any], owned: Iterable[Any] = ()) -> tuple[Any, ...]:
    """Run a loop's body `count` times and return the loop's results.

    An array that one run passes to the next, with no other reference, is written in place; `owned` says which arguments
    of the first run may be.
    """
    body, results, runs = loop.body, loop.results, Runs(loop, given)
    inputs, firsts = body.inputs[1:], loop.parts()[3]
    run = Run(body, ())
    run.device = device_of(runs.given(0))
    values, memory, dead = run.values, Memory(body, run.device), last_uses(body)
    ops = [op for op in body.ops if not (isinstance(op, Input) or op is body.result)]
    alone = [isinstance(new, Operation) and results.count(new) == 1 for new in results[:len(firsts)]]
    for k in loop.runs:
        for x, value in zip(inputs, runs.given(k)):
            values[x.id] = value
        memory.owned = bytearray(len(body.ops) + 1)
        for x, own in zip(firsts, owned):
            memory.owned[x.id] = bool(own)
        deque(run.replay(ops, dead, memory), 0)
        runs.add(k, [values[part.id] if isinstance(part, Operation) else part for part in results])
        owned = [own and memory.owned[new.id] for own, new in zip(alone, results)]
    return runs.result


Loop.player = staticmethod(play_loop)


def play_checkpoint(checkpoint: Checkpoint, given: Sequence[Any]) -> tuple[Any, ...]:
    """Run a checkpoint's body and return its results."""
    run = Run(checkpoint.body, (None, *given))
    deque(run, 0)
    return run.result  # type: ignore[no-any-return]


Checkpoint.player = staticmethod(play_checkpoint)


def undrawn(op: Call, fn: Callable[..., Any]) -> Any:
    """Return a call's function; for a checkpoint, or a triple of one, a function that reuses the recorded draws."""
    checkpoint = op.args[0] if fn is rrule else fn
    if type(checkpoint) is not Checkpoint or not checkpoint.drawing:
        return fn

    def repeated(*given: Any) -> Any:
        run = Run(checkpoint.drawn(op.val[0] if fn is rrule else op.val), (None, *given), redraw=False)
        deque(run, 0)
        return run.result
    return repeated if fn is not rrule else lambda _, *given: (y := repeated(*given), checkpoint.pullback(y, given, {}))


def constants_of(tape: Tape) -> Iterator[Constant]:
    """Yield the constants of a tape and of its subtapes."""
    for op in tape.ops:
        if type(op) is Constant:
            yield op
        elif carries(op):
            yield from constants_of(op.fn.body)


def unshared(dy: Any) -> Any:
    """Return a cotangent that may be written in place: an accumulator is copied."""
    return Accumulator(copied(dy.array)) if type(dy) is Accumulator else dy


def on_device(x: Any, device: Any) -> Any:
    """Return an array or tensor as a tensor on a device, detached from torch's autograd; other values unchanged."""
    return detached(to_tensor(x, device)) if isinstance(x, np.ndarray) or is_tensor(x) else x


def is_mixed(tape: Tape, leaves: list[Any], device: Any) -> bool:
    """Return whether a tape computes arrays beside tensors and its inputs are tensors where they were recorded as such,
    on the same device: then the recorded operations convert between arrays and tensors themselves.
    """
    def is_as_recorded(spec: Spec, leaf: Any) -> bool:
        recorded = isinstance(spec.type, type) and is_tensor_type(spec.type)  # of a loaded function the type is a text
        return recorded == is_tensor(leaf) and (not recorded or spec.device == str(device))
    return any(type(op) is Call and op.spec.is_numpy for op in tape.ops) and all(
        is_as_recorded(x.spec, leaf) for x, leaf in zip(tape.inputs, leaves))


def moved(op: Constant, device: Any) -> Any:
    """Return the value of a constant on a device; it is moved there once."""
    known = op.moved
    if known is None or known[0] is not op.val or known[1] != device:
        known = op.moved = (op.val, device, on_device(op.val, device))
    return known[2]


def result(value: Any, constants: list[Any], device: Any) -> Any:
    """Return a value as a result: copied if it lies in a constant's memory, and on the inputs' device."""
    if device is None:
        return apart(value, constants)
    if isinstance(value, (np.ndarray, np.generic)):
        return to_tensor(value, device).clone()
    if is_tensor(value) and any(is_tensor(x) and share_memory(value, x) for x in constants):
        return value.clone()
    return value


class Memory:
    """Ownership of arrays: a write to an array that one operation owns and that is not used again is made in place.

    A replayed loop that fills an array then costs O(n), as the original loop does. Operations that make an array for
    writing (`zeros`, `setitem`) own it. A read of a part copies that part; any other use may keep the array, which ends
    the ownership.

    strict: a call on tensors that stand for numbers raises as Python's function would.
    """

    __slots__ = ("device", "nest", "owned", "strict", "tape", "used")

    def __init__(self, tape: Tape, device: Any = None, strict: bool = True) -> None:
        self.tape, self.device, self.strict = tape, device, strict
        self.owned: Any = bytearray(len(tape.ops) + 1)
        self.used: bytearray | None = None
        self.nest: Callable[..., list[Any]] | None = None  # converts the parts of a nest to results

    @classmethod
    def once(cls, tape: Tape, device: Any, owned: dict[int, int], used: bytearray | None) -> Memory:
        """Return the memory state before a single call; arrays not in `owned` are not owned."""
        memory = cls.__new__(cls)
        memory.tape, memory.device, memory.used, memory.strict, memory.nest = tape, device, used, False, None
        memory.owned = defaultdict(int, owned)
        return memory

    def copied(self, op: Call) -> bool:
        """Return whether a view of an array that may be written must be a copy; not if only guards use it."""
        if self.used is None:  # by position, the operations that a call or the result uses
            self.used = bytearray(len(self.tape.ops) + 1)
            self.used[self.tape.result.id] = 1
            for other in self.tape.ops:
                if isinstance(other, Call):
                    for arg in other.args:
                        if isinstance(arg, Operation):
                            self.used[arg.id] = 1
        return bool(self.used[op.id])

    def run(self, op: Call, fn: Any, given: list[Any], dead: list[int]) -> Any:
        """Make a call, in place if possible."""
        if type(fn) is Loop:
            return self.loop(op, fn, given, dead)
        triple = fn is rrule
        core = given[0] if triple else fn
        first = op.args[1:2] if triple else op.args[:1]
        x = first[0].id if first and isinstance(first[0], Operation) else 0
        if fn is pack:  # a nest of proxies is not recorded in their own trace; its parts are
            self.release(op, fn, x)
            return fn.impl(*(given if self.nest is None else self.nest(op, given)), **op.kwargs)
        if type(core) is not Op:
            self.release(op, fn, x)
            return fn(*given, **op.kwargs)
        pythonic = type(op.val) is not np.ndarray and spec_recorded(op).is_pythonic
        if (pythonic and core.scalar is not None and not any(type(x) is np.ndarray and x.ndim for x in given)
                and (self.device is None or not holds_tensor(given))):
            # math's function was recorded: its result is weak beside float32 arrays, and it raises where NumPy yields
            # nan
            self.release(op, fn, x)
            args = tuple(given[triple:])
            y = core.scalar(*args)
            return (y, core.pullback(y, args, op.kwargs)) if triple else y
        memory = core.memory
        if memory.written or memory.of == 0:
            for arg in (op.args[2:] if triple else op.args[1:]):  # a pullback keeps the index
                if isinstance(arg, Operation):
                    self.owned[arg.id] = 0
        if core is setitem:
            # a trace records the write instead
            if self.owned[x] and x in dead and not any(isinstance(part, Traced) for part in given):
                _, value, *index = given[1:] if triple else given
                y = given[1] if triple else given[0]
                assign(y if self.device is None else wrap(y), value, tuple(index), op.kwargs.get("through", ()))
                self.owned[op.id] = 1
                return (y, core.pullback(y, tuple(given[1:]), op.kwargs)) if triple else y
        elif not (memory.of == 0 or memory.blank):
            self.release(op, fn, x)
        if memory.blank and self.device is not None and not holds_tensor(given):
            result = core.lower["torch"](*given, **op.kwargs, device=self.device)
        else:
            result = fn(*given, **op.kwargs) if triple else fn.run(*given, **op.kwargs)
        y = result[0] if triple else result
        if isinstance(y, np.ndarray) or (self.device is not None and is_tensor(y)):
            if pythonic and self.strict and is_tensor(y) and (python := raising(op, core)) is not None:
                as_recorded(python, tuple(given[triple:]), y)
            if memory.written or memory.blank:
                self.owned[op.id] = 1
            elif memory.of == 0 and self.owned[x] and self.copied(op):
                y = y.clone() if is_tensor(y) else y.copy(order="K")
                return (y, result[1]) if triple else y
        elif pythonic and isinstance(y, np.generic) and all(map(is_python, given)):
            y = y.item()
            return (y, result[1]) if triple else y
        return result

    def loop(self, op: Call, loop: Loop, given: list[Any], dead: list[int]) -> Any:
        """Run a loop; it may write in place to first arguments that are owned and used only here."""
        firsts = op.args[len(op.args) - loop.sizes[3]:]
        owned = [isinstance(arg, Operation) and self.owned[arg.id] and arg.id in dead and op.args.count(arg) == 1
                 for arg in firsts]
        self.release(op, loop, 0)
        return play_loop(loop, given, owned)

    def release(self, op: Call, fn: Callable[..., Any], x: int) -> None:
        """End the ownership of a call's arguments, which it may keep; taking the value out of a triple passes it on."""
        if fn is getfield and op.args[1] == 0:
            self.owned[op.id], self.owned[x] = self.owned[x], 0
        elif not (fn is getfield and self.owned[x]):
            for arg in op.args:
                if isinstance(arg, Operation):
                    self.owned[arg.id] = 0


def recorded(tape: Tape) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments that a tape was recorded with."""
    leaves = [x.val for x in tape.inputs[1:]]
    if tape.structure is None:
        return tuple(leaves), {}
    memo: dict[int, Any] = {}
    first: dict[int, Any] = {}  # an object shared by two arguments is rebuilt as one

    def built(part: Structure) -> Any:
        memo.update((id(node), memo[first[key]]) for key, node in part.seen.items() if first.get(key) in memo)
        value = part.build(leaves, memo)
        first.update((key, id(node)) for key, node in part.seen.items())
        return value
    return tuple(map(built, tape.structure.args)), {name: built(part) for name, part in tape.structure.kwargs.items()}


def bind(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any], checked: bool = True) -> list[Any]:
    """Return the inputs' values for a call, the function first, with captured values read anew; check kinds if
    `checked`.
    """
    fn = tape.ops[0].val
    if tape.structure is None:
        wanted = len(tape.inputs) - 1
        if len(args) != wanted or kwargs:
            raise ArgumentError(f"this tape takes {count_of(wanted, 'positional argument')}, "
                                f"and got {len(args) + len(kwargs)}")
        return [fn, *args]
    parts, names = tape.structure.args, tape.structure.kwargs
    if len(args) != len(parts) or names.keys() != kwargs.keys():
        recorded = [tape.inputs[part.start + 1].label if part.is_leaf and part.size else name
                    for part, name in zip(parts, argument_names(tape.structure.fn, len(parts)))]
        recorded += [f"{name}=" for name in names]
        given = " and ".join([str(len(args)), *(f"{name}=" for name in kwargs)])
        raise ArgumentError(f"{tape.name} was recorded with {count_of(len(recorded), 'argument')} "
                            f"({', '.join(recorded)}), but got {given}", None,
                            "pass a value for each; by keyword those that were recorded by keyword")
    kwargs = {name: kwargs[name] for name in names}  # in the order of the inputs
    signature, leaves, _ = flatten_call(tape.structure.fn, args, kwargs)
    if signature != tape.structure:
        raise ArgumentError(f"the nesting of the arguments of {tape.name} differs from the recorded one: "
                            f"{tape.structure.difference(signature)}", None,
                            "trace the function again with these arguments")
    if checked:
        check_kinds(tape, leaves)
    return [fn, *leaves]
