"""loop_program: what a loop comes down to on torch: a loop of what its body does, as it is found from the first run.

Where that does not serve, since what is handed on is of another kind from run to run, or what runs the tape knows no
loops, the calls of the runs are there one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tapegrad.compile.torch.function import function_of
from tapegrad.compile.torch.kernel import arguments, holds_value, inside, is_kernel, mapped, nest, replaced, without
from tapegrad.compile.torch.loop_body import Body
from tapegrad.compile.torch.loop_kernel import LoopKernel, loop_kernel
from tapegrad.compile.torch.lower import SUBTAPES, Lowering
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor, to_tensor
from tapegrad.ops import getfield
from tapegrad.ops.loop import Loop, Runs, written
from tapegrad.ops.structure import put_results
from tapegrad.rules.facts import ANY
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, copy_op

TRIES = 3  # of what is carried, the first value may have to be a tensor where the others are
LEAF = Operation()  # stands for what differs from run to run


def lower_loop(outer: Lowering, op: Call, values: list[Any], refs: list[Any]) -> tuple[Any, Any]:
    """Put a loop on the new tape; return its value, and what stands for that."""
    call = _Call(outer, op, values, refs)
    body = call.body()
    if body is None:
        return call.unrolled()
    kernel = loop_kernel(call.lowered(body), outer.device) if outer.kernels else None
    if kernel is not None:
        return call.launched(kernel)
    if not outer.loops and inside(body.body) is not None:
        return call.unrolled()
    return call.repeated(body) if outer.loops else call.copied(body)


SUBTAPES[Loop] = lower_loop


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
                free = i >= self.first or isinstance(refs[i], Operation)
                if free and isinstance(values[i], (np.ndarray, np.generic)):
                    self.move(i)
        into = written(self.loop)
        self.written = {j for j, x in enumerate(self.loop.parts()[3]) if x in into
                        and is_tensor(values[self.first + j])}
        self.own(self.written)

    def move(self, i: int, dtype: Any = None) -> None:
        """Make an argument a tensor."""
        outer, ref = self.outer, self.refs[i]
        tensor = self.values[i] = to_tensor(self.values[i], outer.device, dtype)
        if isinstance(ref, Operation):
            made = outer.step(self.op, to_tensor, ref, outer.device, dtype, inside=True, val=without(tensor))
            outer.known[tensor] = made
        self.refs[i] = outer.ref_of(tensor, self.op)

    def own(self, carried: set[int]) -> None:
        """Copy the first values of what is carried, by number."""
        for i in sorted(self.first + j for j in carried):
            self.refs[i], self.values[i] = self.outer.copy(self.op, self.refs[i], self.values[i])

    # -- one body for all runs

    def body(self) -> Body | None:
        """Return the body of a run, None where what one run hands on is not of the kind that the next takes."""
        if not all(map(self.is_simple, range(len(self.values)))):
            return None
        refs = [LEAF] * self.steps + [LEAF if i in self.lists or i >= self.first else ref
                                      for i, ref in enumerate(self.refs)]
        for _ in range(TRIES):
            now = [x.clone() if j in self.written else x for j, x in enumerate(self.values[self.first:])]
            given = Runs(self.loop, [*self.values[:self.first], *now]).given(self.loop.runs[0])
            body = Body(self.outer, self.op, given, refs, self.written)
            body.lower()
            wrong = [j for j, x in enumerate(self.values[self.first:]) if not _same(x, body.made[j])]
            if not wrong:
                return body
            if not all(self.adapt(self.first + j, body.made[j]) for j in wrong):
                return None
        return None

    def is_simple(self, i: int) -> bool:
        """True for a sequence of things of one kind, and for what is none that holds tensors."""
        value = self.values[i]
        if i in self.lists:
            return all(_same(value[0], part) for part in value)
        return (not holds_value(self.refs[i]) or i >= self.first or is_tensor(value) or type(value) in PYTHON
                or isinstance(value, np.generic))

    def adapt(self, i: int, made: Any) -> bool:
        """Make the first value of what is carried of the kind that a run makes; return whether it is
        one that it may be made of.
        """
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

    def run(self, body: Body) -> tuple[Any, ...]:
        """Make all runs; return the last values of what is carried, and what they collected."""
        tape = Tape()
        call = tape.push(Call(self.lowered(body), tuple([tape.push(Input(label="x")) for _ in self.values]), val=None))
        put_results(tape, [tape.push(Call(getfield, (call, i), val=None)) for i in range(len(self.loop.results))])
        made = function_of(tape)(*self.values)
        return tuple([x.detach() if is_tensor(x) else x for x in made])  # it may be what was given

    def lowered(self, body: Body) -> Loop:
        """Return the loop of what a run comes down to."""
        loop = self.loop.with_body(body.body)
        loop.aliases = body.aliases
        return loop

    def repeated(self, body: Body) -> tuple[Any, Any]:
        """Put the loop on the new tape."""
        outer, result = self.outer, self.run(body)
        call = outer.push(Call(self.lowered(body), tuple([outer.operand(ref, self.op) for ref in self.refs])), self.op)
        return result, self.known(result, outer.several(self.op, call, map(without, result)))

    def known(self, result: Sequence[Any], refs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Say what the tensors are that came out, and return what stands for them."""
        def note(ref: Any, x: Any) -> None:
            if is_tensor(x):
                self.outer.known[x] = ref
        mapped(refs, note, tuple(result))
        return refs

    # -- one kernel for all runs

    def launched(self, kernel: LoopKernel) -> tuple[Any, Any]:
        """Put the call of a kernel on the new tape, and what takes apart the tensors in which it collects."""
        outer, carried, taken = self.outer, self.carried, kernel.text.taken
        given = [torch.stack(tuple(self.values[i])) if i in self.lists else self.values[i] for i in taken]
        refs = [self.stacked(i, x) if i in self.lists else outer.operand(self.refs[i], self.op)
                for i, x in zip(taken, given)]
        result = kernel(*given)
        call = outer.step(self.op, kernel, *refs)
        call.fn.aliases = (None,) * len(result)
        made = outer.several(self.op, call, map(without, result))
        values = (*result[:carried], *[x.unbind() for x in result[carried:]])
        parts = (*made[:carried],
                 *[outer.step(self.op, torch.unbind, x, aliases=ANY) for x in made[carried:]])
        return values, self.known(values, parts)

    def stacked(self, i: int, x: Any) -> Any:
        """Return what stands for a sequence as one tensor `x`: the one that another kernel collected it in, if it was.
        """
        ref = self.refs[i]
        if is_kernel(ref, torch.unbind):
            return ref.args[0]
        return self.outer.step(self.op, torch.stack, ref, val=without(x))

    # -- the calls of all runs

    def copied(self, body: Body) -> tuple[Any, Any]:
        """Put the calls of the body on the new tape, as often as it runs."""
        result = self.run(body)
        made = Runs(self.loop, self.refs)
        for k in self.loop.runs:
            made.add(k, copied(self.outer, body.body, self.references(k, made.now)))
        return result, self.known(result, made.result)

    def unrolled(self) -> tuple[Any, Any]:
        """Put what each run calls on the new tape."""
        made, found = Runs(self.loop, self.refs), Runs(self.loop, self.values)
        for k in self.loop.runs:
            refs = self.references(k, made.now)
            body = Body(self.outer, self.op, found.given(k), refs, self.written)
            body.lower()
            made.add(k, copied(self.outer, body.body, refs))
            found.add(k, [x.detach() if is_tensor(x) else x for x in body.made])
        return found.result, self.known(found.result, made.result)

    def references(self, k: int, now: Sequence[Any]) -> list[Any]:
        """Return what stands for a run's inputs."""
        refs = [self.element(i, k) if i in self.lists else ref for i, ref in enumerate(self.refs[:self.first])]
        return [*(step[k] for step in self.loop.steps), *refs, *now]

    def element(self, i: int, k: int) -> Any:
        """Return what stands for an element of a sequence."""
        ref, x = self.refs[i], self.values[i][k]
        if not isinstance(ref, Operation):
            return ref[k]
        return self.outer.push(Call(getfield, (ref, k), None, without(x)), self.op)


def copied(outer: Lowering, body: Tape, refs: Sequence[Any]) -> list[Any]:
    """Put the calls of a body on another tape, with `refs` for its inputs; return what stands for what it returns."""
    at: dict[Operation, Any] = dict(zip(body.inputs[1:], refs))

    def bind(arg: Any) -> Any:
        return at[arg] if isinstance(arg, Operation) else arg
    for op in body.ops[1:]:
        if type(op) is Constant:
            at[op] = outer.constant(op.val, op)
        elif type(op) is Guard:
            if holds_value(bind(op.args[0])):  # that of a number which is the same in all calls has held
                outer.push(Guard(outer.operand(bind(op.args[0]), op), op.fact, op.expected), op)
        elif type(op) is Call and op is not body.result:
            whole: Any = bind(op.args[0]) if op.fn is getfield else None
            if is_kernel(op, nest):
                at[op] = replaced(arguments(op)[0][0], bind)
            elif type(whole) in (tuple, list):
                at[op] = whole[op.args[1]]
            else:
                new = at[op] = copy_op(op, bind)
                new.args = tuple([outer.operand(arg, op) for arg in new.args])
                outer.push(new, op)
    return [bind(part) for part in body.result.args]


def _kind(x: Any) -> Any:
    if is_tensor(x):
        return x.dtype, x.shape, x.stride(), x.device
    return tuple(map(_kind, x)) if type(x) in (tuple, list) else type(x)


def _same(a: Any, b: Any) -> bool:
    return bool(_kind(a) == _kind(b))
