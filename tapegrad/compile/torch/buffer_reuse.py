"""buffer_reuse: elementwise calls write where a dead argument lies: on a CPU, fetching memory
costs as much as filling it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from tapegrad.compile.torch.kernel import Kernel, instead, is_inside, is_kernel, nest
from tapegrad.ops.loop import is_loop
from tapegrad.optimise.memory import is_given, root
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.tape import Call, Operation, Tape, operands
from tapegrad.transforms.walk import Walk

LARGE = 2048  # elements: smaller memory is soon found
COMMUTATIVE = frozenset(["mul", "add"])
NAMES = COMMUTATIVE | {"sub", "div", "neg", "abs", "square", "reciprocal", "sqrt", "exp", "expm1", "log", "log1p",
                       "sin", "cos", "tan", "tanh",
                       "sigmoid", "addcmul", "maximum", "minimum"}
BACKWARD = {getattr(torch.ops.aten, name).default: getattr(torch.ops.aten, name).grad_input
            for name in ("threshold_backward", "leaky_relu_backward", "tanh_backward")}


def reuse(tape: Tape) -> Tape:
    """Return a tape whose elementwise calls write where an argument lies that is used last there, in place.

    The memory is the tape's own and large, nothing else looks into it, and it is laid out as the result would be.
    What the tape returns has memory of its own.
    """
    return _Reuse(tape).run()


class _Reuse(Walk):
    def run(self) -> Tape:
        tape = self.old
        if not any(op.spec.size >= LARGE for op in tape.ops):
            return tape
        self.lying = Counter(map(root, tape.ops))  # how many values lie there
        # what nothing looks into may keep what it was given: a pullback of the user's does, and a loop what it collects
        closed = [op for op in tape.ops if is_loop(op) or is_inside(op) or is_kernel(op, nest)]
        self.lying.update(root(x) for op in closed for x in operands(op))
        self.results = set(operands(tape.result))
        for op, dead in zip(tape.ops, last_uses(tape)[1:]):
            free = [x for x in op.args if isinstance(x, Operation) and x.id in dead] if dead and is_kernel(op) else []
            if not free or is_inside(op) or not (self.elementwise(op, free) or self.filled(op, free)):
                self.keep(op)
        return self.done()

    def elementwise(self, op: Any, free: list[Operation]) -> bool:
        """Let a call write into one of its arguments, if torch has a form of it that does."""
        fn, name = op.fn.fn, op.fn.__name__
        if (name not in NAMES and fn not in BACKWARD) or op.fn.writes or op.fn.form is not None:
            return False
        into = next((x for x in free if self.fits(x, op)), None)
        if into is None:
            return False
        args, x = self.args(op), self.bind(into)
        if fn in BACKWARD:
            self.instead_of(op, x, BACKWARD[fn], args, {**op.kwargs, "grad_input": x})
            return True
        if name in COMMUTATIVE and args[0] is not x and not op.kwargs:
            args = args[::-1]
        if args[0] is x and hasattr(torch.Tensor, f"{name}_"):
            kernel = Kernel(getattr(torch.Tensor, f"{name}_"), aliases=0, writes=(0,))
            self.stand_in(op, self.instead(op, kernel, *args, **op.kwargs))
        else:
            self.instead_of(op, x, getattr(torch, name), args, {**op.kwargs, "out": x})
        return True

    def filled(self, op: Any, free: list[Operation]) -> bool:
        """Let a call that fills memory made for it fill that of an argument."""
        before = self.old.ops[op.id - 2]
        if not (is_kernel(before, torch.empty_like) and op.fn.writes and op.args[op.fn.writes[0]] is before):
            return False
        into = next((x for x in free if self.fits(x, before)), None)
        if into is None:
            return False
        self.new.ops.pop()
        args, _ = op.fn.nested(self.args(op), op.kwargs)
        self.stand_in(before, self.instead_of(op, self.bind(into), op.fn.fn, args, {"out": self.bind(into)}))
        return True

    def instead_of(self, op: Any, into: Operation, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operation:
        return instead(self, op, fn, args, kwargs, aliases=into, writes=[into])

    def fits(self, x: Operation, out: Operation) -> bool:
        """Return whether `out` may lie where x does."""
        spec, wanted = x.spec, out.spec
        if type(x) is not Call or (spec is not wanted and spec != wanted) or spec.dtype is None or spec.size < LARGE:
            return False
        alone = out not in self.results and not is_given(x) and self.lying[root(x)] == 1 == self.lying[root(out)]
        return alone and all(step for n, step in zip(spec.shape, spec.strides or ()) if n > 1)
