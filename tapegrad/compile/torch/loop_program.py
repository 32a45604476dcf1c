"""loop_program: lowers a loop to a loop of torch calls, found by running the first iteration.

The loop is unrolled if the types of carried values change between iterations, or if the executor supports no loops.
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

TRIES = 3  # attempts to lower the body; after one, initial carried values may be converted to the type of later ones
LEAF = Operation()  # the reference of an input that varies with the iteration


def lower_loop(outer: Lowering, op: Call, values: list[Any], refs: list[Any]) -> tuple[Any, Any]:
    """Append a loop to the new tape; return its value and the reference."""
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
    """A loop's call with the values and references of its arguments. Carried values that the body writes to are copied
    once, before the loop.
    """

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
        """Convert an argument to a tensor."""
        outer, ref = self.outer, self.refs[i]
        tensor = self.values[i] = to_tensor(self.values[i], outer.device, dtype)
        if isinstance(ref, Operation):
            made = outer.step(self.op, to_tensor, ref, outer.device, dtype, inside=True, val=without(tensor))
            outer.known[tensor] = made
        self.refs[i] = outer.ref_of(tensor, self.op)

    def own(self, carried: set[int]) -> None:
        """Copy the initial values of the carried inputs with these numbers."""
        for i in sorted(self.first + j for j in carried):
            self.refs[i], self.values[i] = self.outer.copy(self.op, self.refs[i], self.values[i])

    # -- one body for all iterations

    def body(self) -> Body | None:
        """Return the lowered body, None if the types of carried values change between iterations."""
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
        """Return whether an argument is a sequence of elements of one type, or no container of tensors."""
        value = self.values[i]
        if i in self.lists:
            return all(_same(value[0], part) for part in value)
        return (not holds_value(self.refs[i]) or i >= self.first or is_tensor(value) or type(value) in PYTHON
                or isinstance(value, np.generic))

    def adapt(self, i: int, made: Any) -> bool:
        """Convert the initial value of a carried input to the type that an iteration returns; return whether this is
        possible.
        """
        first = self.values[i]
        if not is_tensor(made):
            return False
        if not is_tensor(first) and made.ndim == 0 and (type(first) in PYTHON or isinstance(first, np.generic)):
            self.move(i, made.dtype)
            return True
        if is_tensor(first) and made.dtype is first.dtype and made.shape == first.shape:
            self.own({i - self.first})  # makes it contiguous
            return True
        return False

    def run(self, body: Body) -> tuple[Any, ...]:
        """Run all iterations; return the final carried values and the collected sequences."""
        tape = Tape()
        call = tape.push(Call(self.lowered(body), tuple([tape.push(Input(label="x")) for _ in self.values]), val=None))
        put_results(tape, [tape.push(Call(getfield, (call, i), val=None)) for i in range(len(self.loop.results))])
        made = function_of(tape)(*self.values)
        return tuple([x.detach() if is_tensor(x) else x for x in made])  # a result may be an argument itself

    def lowered(self, body: Body) -> Loop:
        """Return the loop with the lowered body."""
        loop = self.loop.with_body(body.body)
        loop.aliases = body.aliases
        return loop

    def repeated(self, body: Body) -> tuple[Any, Any]:
        """Append the loop to the new tape."""
        outer, result = self.outer, self.run(body)
        call = outer.push(Call(self.lowered(body), tuple([outer.operand(ref, self.op) for ref in self.refs])), self.op)
        return result, self.known(result, outer.several(self.op, call, map(without, result)))

    def known(self, result: Sequence[Any], refs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Note the references of the tensors of a result; return the references."""
        def note(ref: Any, x: Any) -> None:
            if is_tensor(x):
                self.outer.known[x] = ref
        mapped(refs, note, tuple(result))
        return refs

    # -- one kernel for all iterations

    def launched(self, kernel: LoopKernel) -> tuple[Any, Any]:
        """Append the call of a kernel, and the unbinding of the tensors of collected values."""
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
        """Return the reference of a sequence stacked in the tensor `x`; if a kernel collected it, of that kernel's
        tensor.
        """
        ref = self.refs[i]
        if is_kernel(ref, torch.unbind):
            return ref.args[0]
        return self.outer.step(self.op, torch.stack, ref, val=without(x))

    # -- the calls of all iterations

    def copied(self, body: Body) -> tuple[Any, Any]:
        """Append the calls of the lowered body once for each iteration."""
        result = self.run(body)
        made = Runs(self.loop, self.refs)
        for k in self.loop.runs:
            made.add(k, copied(self.outer, body.body, self.references(k, made.now)))
        return result, self.known(result, made.result)

    def unrolled(self) -> tuple[Any, Any]:
        """Lower each iteration, and append its calls."""
        made, found = Runs(self.loop, self.refs), Runs(self.loop, self.values)
        for k in self.loop.runs:
            refs = self.references(k, made.now)
            body = Body(self.outer, self.op, found.given(k), refs, self.written)
            body.lower()
            made.add(k, copied(self.outer, body.body, refs))
            found.add(k, [x.detach() if is_tensor(x) else x for x in body.made])
        return found.result, self.known(found.result, made.result)

    def references(self, k: int, now: Sequence[Any]) -> list[Any]:
        """Return the references of an iteration's inputs."""
        refs = [self.element(i, k) if i in self.lists else ref for i, ref in enumerate(self.refs[:self.first])]
        return [*(step[k] for step in self.loop.steps), *refs, *now]

    def element(self, i: int, k: int) -> Any:
        """Return the reference of an element of a sequence."""
        ref, x = self.refs[i], self.values[i][k]
        if not isinstance(ref, Operation):
            return ref[k]
        return self.outer.push(Call(getfield, (ref, k), None, without(x)), self.op)


def copied(outer: Lowering, body: Tape, refs: Sequence[Any]) -> list[Any]:
    """Append the calls of a body to the new tape, with `refs` for its inputs; return the references of its results."""
    at: dict[Operation, Any] = dict(zip(body.inputs[1:], refs))

    def bind(arg: Any) -> Any:
        return at[arg] if isinstance(arg, Operation) else arg
    for op in body.ops[1:]:
        if type(op) is Constant:
            at[op] = outer.constant(op.val, op)
        elif type(op) is Guard:
            if holds_value(bind(op.args[0])):  # a guard on a static number holds already
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
