"""loop_body: lowers the body of a loop by running one iteration.

An iteration may write in place to the carried values that it owns. Its results share no memory with what the next
iteration writes.
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
    """Lowers an iteration of a loop to a `body` with the results `made`. It may write to the carried values with the
    numbers in `owned`.

    If the reference of an input is a constant, the body is valid for that constant only.
    """

    def __init__(self, outer: Lowering, op: Call, values: list[Any], refs: list[Any], owned: set[int]) -> None:
        loop: Loop = op.fn
        super().__init__(loop.body, values, outer.device, True, outer.loops)
        self.backward = outer.backward or op.purpose == "pullback"
        self.loop, self.references, self.owned = loop, iter(refs), set(owned)
        self.first = len(values) - loop.sizes[3]
        for j in owned:
            self.memory.owned[loop.parts()[3][j].id] = 1
        self.places: dict[int, Operation] = {}  # by argument position: index integers that vary with the iteration

    def lower(self) -> None:
        """Run the iteration, and set `body` and `made`."""
        self.body, self.made = self.run()

    def input(self, op: Input, leaves: Any) -> None:
        ref = None if op.id == 1 else next(self.references)
        super().input(op, leaves)
        if not holds_value(ref):
            return self.set(op, self.values[op.id], self.values[op.id])
        value, whole = self.values[op.id], self.refs[op.id]
        if type(value) in (tuple, list):  # several results of one call of the previous iteration
            parts = self.several(op, whole, map(without, value))
            self.known.update((x, part) for x, part in zip(value, parts) if is_tensor(x))
            self.refs[op.id] = type(value)(parts)

    # -- integers of an index that vary with the iteration

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
        """Copy carried and collected results that share memory with what the next iteration writes, and carried ones
        that are not contiguous, as the initial values are.
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
        """The aliasing of the loop's results: None for a carried value that shares memory with nothing, else ANY."""
        parts = self.body.result.args
        several = [operands(part) if is_kernel(part, nest) else values_in(part) for part in parts]
        roots = Counter(root(x) for values in several for x in values)

        def is_own(i: int, x: Any) -> bool:
            if not isinstance(x, Operation) or type(x) is Constant or i >= self.loop.sizes[3]:
                return False
            return roots[root(x)] == 1 and (i in self.owned or not is_given(x))
        return tuple([None if is_own(i, x) else ANY for i, x in enumerate(parts)])


def _counted(op: Call, fn: Callable[..., Any], given: list[Any], refs: list[Any]) -> dict[int, Operation]:
    """Return, by argument position, the integers of a basic index that vary with the iteration; none if the index has
    other parts that torch would not take unchanged.
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
