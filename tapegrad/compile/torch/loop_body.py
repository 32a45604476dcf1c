"""loop_body: what one run of a loop comes down to.

Of what is carried, it may write to some: that is nobody else's, and what leaves a run lies nowhere
where the next one writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.compile.torch.kernel import holds_value, is_kernel, nest, values_in, without
from tapegrad.compile.torch.lower import Lowering
from tapegrad.compile.torch.recorder import is_dense
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.loop import Loop
from tapegrad.optimise.memory import is_given, root
from tapegrad.rules.facts import ANY
from tapegrad.tape.tape import Call, Constant, Input, Operation, operands


class Body(Lowering):
    """Lowers a run of a loop to a `body`, which returns what is `made`, and writes to the carried
    values that are `owned`, by number.

    What stands for an input may be a constant: the body is for that alone.
    """

    def __init__(self, outer: Lowering, op: Call, values: list[Any], refs: list[Any], owned: set[int]) -> None:
        loop: Loop = op.fn
        super().__init__(loop.body, values, outer.device, True, outer.loops)
        self.backward = outer.backward or op.purpose == "pullback"
        self.loop, self.references, self.owned = loop, iter(refs), set(owned)
        self.first = len(values) - loop.sizes[3]
        for j in owned:
            self.memory.owned[loop.parts()[3][j].id] = 1
        self.places: dict[int, Operation] = {}  # of an index, the integers that differ from run to run

    def lower(self) -> None:
        """Find the body."""
        self.body, self.made = self.run()

    def input(self, op: Input, leaves: Any) -> None:
        ref = None if op.id == 1 else next(self.references)
        super().input(op, leaves)
        if not holds_value(ref):
            return self.set(op, self.values[op.id], self.values[op.id])
        value, whole = self.values[op.id], self.refs[op.id]
        if type(value) in (tuple, list):  # what several came out of: a call of the run before
            parts = self.several(op, whole, map(without, value))
            self.known.update((x, part) for x, part in zip(value, parts) if is_tensor(x))
            self.refs[op.id] = type(value)(parts)

    # -- integers that differ from run to run, in an index

    def is_closed(self, op: Call, fn: Callable[..., Any], given: list[Any], refs: list[Any], mixed: bool) -> bool:
        self.places = _counted(op, fn, given, refs)
        return super().is_closed(op, fn, given, [given[i] if i in self.places else ref for i, ref in enumerate(refs)],
                                 mixed)

    def numbered(self, op: Call, fn: Any, given: list[Any], refs: list[Any]) -> list[Any] | None:
        trail = super().numbered(op, fn, given, refs)
        if not self.places or trail is None:
            return trail
        # each integer of an index selects along an axis, in order
        integers = [i for i in range(2 if fn is ops.setitem else 1, len(given)) if type(given[i]) is int]
        selects = [seen for seen in trail if seen.fn is torch.ops.aten.select.int]
        if len(selects) != len(integers):
            return None
        at = {id(seen): self.places.get(i, given[i]) for seen, i in zip(selects, integers)}
        return [seen.with_args((*seen.args[:2], at[id(seen)]), {}) if id(seen) in at else seen for seen in trail]

    # -- the result

    def pack(self, op: Call) -> list[Any]:
        values, refs = [self.value(arg) for arg in op.args], [self.ref(arg) for arg in op.args]
        wanted = [is_tensor(x) for x in self.leaves[self.first:]]
        for i, (value, ref) in enumerate(zip(values, refs)):
            number = isinstance(value, np.generic) or type(value) in PYTHON
            if isinstance(value, np.ndarray) or (number and wanted[i:i + 1] == [True]):
                values[i], refs[i] = self.on_device(op, value, ref)
        self.parts = refs
        return values

    def own_results(self, parts: list[Any]) -> None:
        """Copy what is handed on or collected and lies where the next run writes, or does not go row by row in
        memory, as the first values do.
        """
        uses, inputs = Counter(map(root, values_in(self.parts))), self.new.inputs[1 + self.first:]
        places: dict[Operation, int] = {inputs[j]: j for j in self.owned}

        def is_shared(i: int, ref: Operation, value: Any) -> bool:
            at, handed = places.get(root(ref)), 0 <= i < self.loop.sizes[3]
            turned = handed and not (value.is_contiguous() and not value.is_conj() and not value.is_neg())
            shared = is_given(ref) or uses[root(ref)] > 1 or not is_dense(value)
            return turned or (at != i if at is not None else i in self.owned and shared)
        self.copy_where(is_shared, parts)

    @property
    def aliases(self) -> tuple[int | None, ...]:
        """Where the results of the loop lie: of what is handed on, in its own memory, where
        nothing else can lie there.
        """
        parts = self.body.result.args
        several = [operands(part) if is_kernel(part, nest) else values_in(part) for part in parts]
        roots = Counter(root(x) for values in several for x in values)

        def is_own(i: int, x: Any) -> bool:
            if not isinstance(x, Operation) or type(x) is Constant or i >= self.loop.sizes[3]:
                return False
            return roots[root(x)] == 1 and (i in self.owned or not is_given(x))
        return tuple([None if is_own(i, x) else ANY for i, x in enumerate(parts)])


def _counted(op: Call, fn: Callable[..., Any], given: list[Any], refs: list[Any]) -> dict[int, Operation]:
    """Return the integers, by place among the arguments, that differ from run to run in an
    index which is taken as it is.
    """
    if fn not in (ops.getitem, ops.setitem) or op.kwargs.get("through") or not is_tensor(given[0]):
        return {}
    begin = 2 if fn is ops.setitem else 1
    if begin == 2 and isinstance(refs[1], Operation) and not is_tensor(given[1]):
        return {}
    for part, ref in zip(given[begin:], refs[begin:]):
        if not (type(part) is int or (not holds_value(ref) and (part is None or part is Ellipsis
                                                                or (type(part) is slice and (part.step or 1) > 0)))):
            return {}
    return {begin + i: ref for i, ref in enumerate(refs[begin:]) if isinstance(ref, Operation)}
