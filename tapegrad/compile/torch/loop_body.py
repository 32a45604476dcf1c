"""loop_body: the program of one run of a loop.

Of what is carried, it may write to some: that is nobody else's, and what leaves a run lies nowhere where the next one writes.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.compile.torch.call_capture import name_of
from tapegrad.compile.torch.lower import Lowering, is_dense
from tapegrad.compile.torch.program import Root, Step, Value, holds_value, values_in
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.loop import Loop
from tapegrad.tape.tape import Call, Input

SUMS = {"add": torch.Tensor.add_, "addcmul": torch.Tensor.addcmul_, "addmm": torch.Tensor.addmm_}


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
            self.program.steps += [Step(operator.getitem, (whole, i), {}, part, op) for i, part in enumerate(parts)]
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
                values[i], refs[i] = self.on_device(op, value, ref)
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
