"""runs: what a loop comes down to on torch: the program of its body, found from the first run, which all others make too.

Where that does not serve, since what is handed on is of another kind from run to run, or what runs the program knows no loops, the calls of the
runs are there one by one.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.brief import PYTHON
from tapegrad.passes.loop import Loop
from tapegrad.replay.torch.calls import name_of
from tapegrad.replay.torch.function import function_of
from tapegrad.replay.torch.lower import Lowering, is_dense
from tapegrad.replay.torch.program import Check, Program, Repeat, Root, Step, Value, bodies, holds_value, replaced, values_in
from tapegrad.tape import Call, Input, Operation
from tapegrad.tensors import is_tensor, to_tensor

TRIES = 3  # of what is carried, the first value may have to be a tensor where the others are
SUMS = {"add": torch.Tensor.add_, "addcmul": torch.Tensor.addcmul_, "addmm": torch.Tensor.addmm_}
LEAF = Value("leaf")  # stands for what differs from run to run


def lower_loop(outer: Lowering, op: Call, values: list[Any], refs: list[Any]) -> tuple[Any, Any]:
    """Put a loop on a program; return its value, and what stands for that."""
    call = _Call(outer, op, values, refs)
    body = call.body()
    if body is None or not (outer.loops or all(program.inside is None for program in bodies(body.program))):
        return call.unrolled()
    call.own(body.owned - call.written)
    return call.repeated(body) if outer.loops else call.copied(body)


class _Call:
    """A loop's call: values, and what stands for them. What the body writes to is a copy, made once."""

    def __init__(self, outer: Lowering, op: Call, values: list[Any], refs: list[Any]) -> None:
        self.outer, self.op, self.values, self.refs = outer, op, values, refs
        self.loop: Loop = op.fn
        self.steps, given, listed, self.carried = self.loop.sizes
        self.first, self.lists = given + listed, range(given, given + listed)
        plain = [i for i in range(len(values)) if i not in self.lists]
        if any(is_tensor(values[i]) for i in plain) or any(is_tensor(values[i][0]) for i in self.lists):
            for i in plain:
                if isinstance(values[i], (np.ndarray, np.generic)) and (i >= self.first or isinstance(refs[i], Value)):
                    self.move(i)
        self.written = {j for j in _written(self.loop) if is_tensor(values[self.first + j])}
        self.own(self.written)

    def move(self, i: int, dtype: Any = None) -> None:
        """Make an argument a tensor."""
        outer, ref = self.outer, self.refs[i]
        tensor = self.values[i] = to_tensor(self.values[i], outer.device, dtype)
        self.refs[i] = outer.ref_of(tensor, self.op) if not isinstance(ref, Value) else Value(ref.hint, tensor=tensor)
        if isinstance(ref, Value):
            outer.known[tensor] = self.refs[i]
            outer.program.steps.append(Step(to_tensor, (ref, outer.device, dtype), {}, self.refs[i], self.op, inside=True))

    def own(self, carried: set[int]) -> None:
        """Copy the first values of what is carried, by number."""
        for i in sorted(self.first + j for j in carried):
            self.refs[i], self.values[i] = self.outer.copy(self.op, self.refs[i], self.values[i])

    # -- one program for all runs

    def body(self) -> Body | None:
        """Return the program of a run, None where what one run hands on is not of the kind that the next takes."""
        if not all(map(self.is_simple, range(len(self.values)))):
            return None
        refs = [LEAF] * self.steps + [LEAF if i in self.lists or i >= self.first else ref for i, ref in enumerate(self.refs)]
        for _ in range(TRIES):
            now = [x.clone() if j in self.written else x for j, x in enumerate(self.values[self.first:])]
            body = Body(self.outer, self.loop, self.inputs(self.loop.runs[0], now), refs, self.written)
            body.lower()
            wrong = [j for j, x in enumerate(self.values[self.first:]) if not _same(x, body.made[j])]
            if not wrong:
                body.add_in_place()
                return body
            if not all([self.adapt(self.first + j, body.made[j]) for j in wrong]):
                return None
        return None

    def is_simple(self, i: int) -> bool:
        """True for a sequence of things of one kind, and for what is none that holds tensors."""
        value = self.values[i]
        if i in self.lists:
            return all(_same(value[0], part) for part in value)
        return not holds_value(self.refs[i]) or i >= self.first or is_tensor(value) or type(value) in PYTHON or isinstance(value, np.generic)

    def adapt(self, i: int, made: Any) -> bool:
        """Make the first value of what is carried of the kind that a run makes; return whether it is one that it may be made of."""
        first = self.values[i]
        if not is_tensor(made):
            return False
        if not is_tensor(first) and made.ndim == 0 and (type(first) in PYTHON or isinstance(first, np.generic)):
            self.move(i, made.dtype)
            return True
        if is_tensor(first) and made.dtype is first.dtype and made.shape == first.shape:
            self.own({i - self.first})  # row by row in memory
            return True
        return False

    def inputs(self, k: int, now: Sequence[Any]) -> list[Any]:
        """Return the values of a run's inputs."""
        return [*(step[k] for step in self.loop.steps), *(x[k] if i in self.lists else x for i, x in enumerate(self.values[:self.first])), *now]

    def run(self, body: Body) -> tuple[Any, ...]:
        """Make all runs; return the last values of what is carried, and what they collected."""
        shell = Program(self.outer.whose, self.outer.device)
        shell.leaves, shell.parts = [Value("x") for _ in self.values], [Value("y") for _ in self.loop.results]
        shell.steps = [Repeat(body.program, self.loop, tuple(shell.leaves), tuple(shell.parts), self.op)]
        return tuple([x.detach() if is_tensor(x) else x for x in function_of(shell)(*self.values)])  # it may be what was given

    def repeated(self, body: Body) -> tuple[Any, Any]:
        """Put the loop on the program."""
        result = self.run(body)
        outs = tuple([Value(f"v{self.op.id}", body.root(i), x if is_tensor(x) else None) for i, x in enumerate(result)])
        self.outer.program.steps.append(Repeat(body.program, self.loop, tuple(self.refs), outs, self.op))
        return result, self.known(result, outs)

    def known(self, result: Sequence[Any], refs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Say what the tensors are that came out, and return what stands for them."""
        for x, ref in zip(result, refs):
            if is_tensor(x):
                self.outer.known[x] = ref
        return refs

    # -- the calls of all runs

    def copied(self, body: Body) -> tuple[Any, Any]:
        """Put the calls of the body's program on the outer one, as often as it runs."""
        result = self.run(body)
        made = _Runs(self.loop, self.refs[self.first:])
        for k in self.loop.runs:
            made.add(k, copy_steps(self.outer, body.program, self.references(k, made.now)))
        return result, self.known(result, made.result)

    def unrolled(self) -> tuple[Any, Any]:
        """Put what each run calls on the outer program."""
        made, found = _Runs(self.loop, self.refs[self.first:]), _Runs(self.loop, self.values[self.first:])
        for k in self.loop.runs:
            refs = self.references(k, made.now)
            body = Body(self.outer, self.loop, self.inputs(k, found.now), refs, self.written)
            body.lower()
            made.add(k, copy_steps(self.outer, body.program, refs))
            found.add(k, [x.detach() if is_tensor(x) else x for x in body.made])
        return found.result, self.known(found.result, made.result)

    def references(self, k: int, now: Sequence[Any]) -> list[Any]:
        """Return what stands for a run's inputs."""
        refs = [self.element(i, k) if i in self.lists else ref for i, ref in enumerate(self.refs[:self.first])]
        return [*(step[k] for step in self.loop.steps), *refs, *now]

    def element(self, i: int, k: int) -> Any:
        """Return what stands for an element of a sequence."""
        ref, x = self.refs[i], self.values[i][k]
        if not isinstance(ref, Value):
            return ref[k]
        out = Value(ref.hint, Root(given=True), x if is_tensor(x) else None)
        self.outer.program.steps.append(Step(operator.getitem, (ref, k), {}, out, self.op, inside=True))
        return out


class _Runs:
    """What runs hand on, and what they collect."""

    def __init__(self, loop: Loop, first: Sequence[Any]) -> None:
        self.now = list(first)
        self.collected: list[list[Any]] = [[None] * loop.count for _ in loop.results[len(self.now):]]

    def add(self, k: int, made: Sequence[Any]) -> None:
        """Take what a run returns."""
        for part, y in zip(self.collected, made[len(self.now):]):
            part[k] = y
        self.now = list(made[:len(self.now)])

    @property
    def result(self) -> tuple[Any, ...]:
        """What the loop returns."""
        return (*self.now, *map(tuple, self.collected))


class Body(Lowering):
    """Lowers a run of a loop. `made` is what that returns; into the carried values that are `owned`, by number, it writes in place.

    What stands for an input may be a constant: the program is for that alone.
    """

    def __init__(self, outer: Lowering, loop: Loop, values: list[Any], refs: list[Any], owned: set[int]) -> None:
        super().__init__(loop.body, values, outer.device, True, outer.loops)
        self.whose, self.loop, self.references, self.owned = outer.whose, loop, iter(refs), set(owned)
        self.first = len(values) - loop.sizes[3]
        for j in owned:
            self.memory.owned[loop.parts()[3][j].id] = 1
        self.places: dict[int, Value] = {}  # of an index, the integers that differ from run to run

    def lower(self) -> None:
        """Find the program."""
        self.made = self.run()[1]

    def input(self, op: Input, leaves: Any) -> None:
        if op.id == 1:
            return self.set(op, None, None)
        ref = next(self.references)
        if not holds_value(ref):
            self.program.leaves.append(Value(op.label or "x"))
            return self.set(op, *(next(leaves),) * 2)
        super().input(op, leaves)
        value, whole = self.values[op.id], self.refs[op.id]
        if type(value) in (tuple, list):  # what several came out of: a call of the run before
            parts = [Value(whole.hint, Root(given=True), x if is_tensor(x) else None) for x in value]
            self.program.steps += [Step(operator.getitem, (whole, i), {}, part, op, inside=True) for i, part in enumerate(parts)]
            self.known.update((x, part) for x, part in zip(value, parts) if is_tensor(x))
            self.refs[op.id] = type(value)(parts)

    # -- integers that differ from run to run, in an index

    def is_closed(self, op: Call, fn: Any, given: list[Any], refs: list[Any], mixed: bool) -> bool:
        self.places = _counted(op, fn, given, refs)
        return super().is_closed(op, fn, given, [given[i] if i in self.places else ref for i, ref in enumerate(refs)], mixed)

    def trail(self, op: Call, given: list[Any], refs: list[Any]) -> None:
        places, mark = self.places if refs else {}, len(self.program.steps)
        super().trail(op, given, [given[i] if i in places else ref for i, ref in enumerate(refs)])
        if places:
            (step,) = [step for step in self.program.steps[mark:] if name_of(step.fn) == f"__{op.fn.__name__}__"]
            x, index, *value = step.args
            begin = 2 if value else 1
            step.make(step.fn, (x, tuple([places.get(begin + i, part) for i, part in enumerate(index)]), *value), {})

    # -- the result

    def pack(self, op: Call) -> list[Any]:
        values, refs = [self.value(arg) for arg in op.args], [self.ref(arg) for arg in op.args]
        wanted = [is_tensor(x) for x in self.leaves[self.first:]]
        for i, (value, ref) in enumerate(zip(values, refs)):
            number = isinstance(value, np.generic) or type(value) in PYTHON
            if isinstance(value, np.ndarray) or (number and wanted[i:i + 1] == [True]):
                if isinstance(ref, Value):
                    values[i], refs[i] = self.on_device(op, value, ref)
                else:
                    values[i] = to_tensor(value, self.device)
                    refs[i] = self.ref_of(values[i], op)
        self.program.parts = refs
        return values

    def own_results(self, parts: list[Any]) -> None:
        """Copy what is handed on or collected and lies where the next run writes, or does not go row by row in memory, as the first values do."""
        program, uses = self.program, Counter(value.root for value in values_in(self.program.parts))
        places = {program.leaves[self.first + j].root: j for j in self.owned}
        for i, (ref, value) in enumerate(zip(program.parts, parts)):
            program.parts[i], parts[i] = self.apart(i, ref, value, places, uses)

    def apart(self, i: int, ref: Any, value: Any, places: dict[Root, int], uses: Counter[Root]) -> tuple[Any, Any]:
        if type(value) in (tuple, list) and holds_value(ref):
            pairs = [self.apart(-1, *pair, places, uses) for pair in zip(ref, value)]
            return type(value)(pair[0] for pair in pairs), type(value)(pair[1] for pair in pairs)
        if not is_tensor(value):
            return ref, value
        at = places.get(ref.root)
        shared = ref.root.given or uses[ref.root] > 1 or ref in self.program.constants or not is_dense(value)
        turned = 0 <= i < self.loop.sizes[3] and not (value.is_contiguous() and not value.is_conj() and not value.is_neg())
        if (at is not None and at != i) or turned or (at is None and i in self.owned and shared):
            return self.copy(self.tape.result, ref, value)  # type: ignore[arg-type]
        return ref, value

    def root(self, i: int) -> Root:
        """Return the memory that a result lies in: the program's own, where nothing else can lie there."""
        ref = self.program.parts[i]
        if i < self.loop.sizes[3] and isinstance(ref, Value) and (i in self.owned or not ref.root.given):
            alone = sum(value.root is ref.root for value in values_in(self.program.parts)) == 1
            return Root(given=not alone or ref in self.program.constants)
        return Root(given=True)

    def add_in_place(self) -> None:
        """Let what does nothing with a carried tensor but add to it do so in place."""
        program = self.program
        uses = Counter(value for step in program.steps for value in step.used)
        uses.update(values_in(program.parts))
        made = {step.out: step for step in program.steps if type(step.out) is Value and not step.inside}
        for j, x in enumerate(program.leaves[self.first:]):
            out = program.parts[j]
            step = made.get(out) if type(out) is Value else None
            fn = None if step is None or step.writes else SUMS.get(name_of(step.fn))
            if step is None or fn is None or x.dtype is None or uses[x] != 1 or uses[out] != 1 or x not in step.args[:2]:
                continue
            args = step.args[::-1] if step.args[1] is x else step.args
            if (x.dtype, x.shape, x.strides) == (out.dtype, out.shape, out.strides) and (args is step.args or (len(args) == 2 and not step.kwargs)):
                step.make(fn, args, step.kwargs)
                step.out, step.writes, x.root.written, program.parts[j] = None, True, True, x
                self.owned.add(j)


def copy_steps(outer: Lowering, body: Program, refs: Sequence[Any]) -> list[Any]:
    """Put the steps of a program on another one, with something in the place of its leaves; return what stands for its parts."""
    at: dict[Value, Any] = dict(zip(body.leaves, refs))
    at.update((value, outer.constant(tensor, value.hint)) for value, tensor in body.constants.items())
    roots = {value.root: ref.root for value, ref in at.items() if isinstance(ref, Value)}

    def new(value: Value) -> Value:
        made = at[value] = Value(value.hint, roots.setdefault(value.root, Root(value.root.given)))
        made.dtype, made.shape, made.strides = value.dtype, value.shape, value.strides
        made.root.written = made.root.written or value.root.written
        return made
    for value in body.leaves:
        if value.root.written:
            roots[value.root].written = True
    for step in body.steps:
        args, kwargs = replaced((step.args, step.kwargs), at.__getitem__)
        if isinstance(step, Check):
            if holds_value(args):  # that of a number which is the same in all calls has held
                outer.program.steps.append(Check(args[0], step.op))
            continue
        out: Any = new(step.out) if isinstance(step.out, Value) else None if step.out is None else tuple(map(new, step.out))
        outer.program.steps.append(Step(step.fn, args, kwargs, out, step.op, step.inside, step.draws, step.writes))
    return [replaced(part, at.__getitem__) for part in body.parts]


def _written(loop: Loop) -> set[int]:
    """Return the numbers of what is carried that the body writes to."""
    carried = loop.parts()[3]
    found: set[int] = set()
    for op in loop.body.ops:
        root: Operation = op
        while isinstance(root, Call) and root.fn is ops.setitem and isinstance(root.args[0], Operation):
            root = root.args[0]
        if root is not op and root in carried:
            found.add(carried.index(root))  # type: ignore[arg-type]
    return found


def _counted(op: Call, fn: Any, given: list[Any], refs: list[Any]) -> dict[int, Value]:
    """Return the integers, by place among the arguments, that differ from run to run in an index which is taken as it is."""
    if fn not in (ops.getitem, ops.setitem) or op.kwargs.get("through") or not is_tensor(given[0]):
        return {}
    begin = 2 if fn is ops.setitem else 1
    if begin == 2 and isinstance(refs[1], Value) and not is_tensor(given[1]):
        return {}
    for part, ref in zip(given[begin:], refs[begin:]):
        if not (type(part) is int or (not holds_value(ref) and (part is None or part is Ellipsis or (type(part) is slice and (part.step or 1) > 0)))):
            return {}
    return {begin + i: ref for i, ref in enumerate(refs[begin:]) if isinstance(ref, Value)}


def _kind(x: Any) -> Any:
    if is_tensor(x):
        return x.dtype, x.shape, x.stride(), x.device
    return tuple(map(_kind, x)) if type(x) in (tuple, list) else type(x)


def _same(a: Any, b: Any) -> bool:
    return bool(_kind(a) == _kind(b))
