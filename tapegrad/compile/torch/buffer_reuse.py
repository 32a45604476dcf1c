"""buffer_reuse: elementwise calls write where a dead argument lies: on a CPU, fetching memory costs as much as filling it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from tapegrad.compile.torch.call_capture import name_of
from tapegrad.compile.torch.program import Check, Program, Repeat, Step, Value, last_uses, replaced, values_in

LARGE = 2048  # elements: smaller memory is soon found
COMMUTATIVE = frozenset(["mul", "add"])
NAMES = COMMUTATIVE | {"sub", "div", "neg", "abs", "square", "reciprocal", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh",
                       "sigmoid", "addcmul", "maximum", "minimum"}
BACKWARD = {getattr(torch.ops.aten, name).default: getattr(torch.ops.aten, name).grad_input
            for name in ("threshold_backward", "leaky_relu_backward", "tanh_backward")}


def reuse(program: Program) -> None:
    """Let elementwise calls of a program write where an argument lies that is used last there, in place.

    The memory is the program's own and large, nothing else looks into it, and it is laid out as the result would be.
    What the program returns has memory of its own.
    """
    _Reuse(program).run()


class _Reuse:
    def __init__(self, program: Program) -> None:
        self.program = program
        values = {value for step in program.steps for value in (*step.made, *step.used)}
        self.values = Counter(value.root for value in values)
        # what nothing looks into may keep what it was given: a pullback of the user's does, and a loop what it collects
        closed = [step for step in program.steps if isinstance(step, Repeat) or (step.inside and not isinstance(step, Check))]
        self.values.update(value.root for step in closed for value in step.used)
        self.parts = set(values_in(program.parts))
        self.now: dict[Value, Value] = {}  # what a value is called that lies in another's memory now

    def run(self) -> None:
        steps: list[Step] = []
        for step, dead in zip(self.program.steps, last_uses(self.program)):
            args, kwargs = replaced((step.args, step.kwargs), lambda value: self.now.get(value, value))
            step.make(step.fn, args, kwargs)
            free = {self.now.get(value, value) for value in dead}
            if type(step.out) is Value and not step.inside and not step.writes:
                self.elementwise(step, free)
            elif type(step.kwargs.get("out")) is Value and steps[-1].fn is torch.empty_like and steps[-1].out is step.kwargs["out"]:
                self.filled(step, free, steps)
            steps.append(step)
        self.program.steps = steps

    def elementwise(self, step: Step, free: set[Value]) -> None:
        """Let a call write into one of its arguments, if torch has a form of it that does."""
        out, name = step.out, name_of(step.fn)
        fits = [x for x in step.args if type(x) is Value and x in free and self.fits(x, out)]
        if not fits or (name not in NAMES and step.fn not in BACKWARD):
            return
        into = fits[0]
        if step.fn in BACKWARD:
            self.written(step, into, BACKWARD[step.fn], step.args, {**step.kwargs, "grad_input": into})
            return
        if name in COMMUTATIVE and step.args[0] is not into and not step.kwargs:
            step.args = step.args[::-1]
        if step.args[0] is into and hasattr(torch.Tensor, f"{name}_"):
            self.written(step, into, getattr(torch.Tensor, f"{name}_"), step.args, step.kwargs)
        else:
            self.written(step, into, getattr(torch, name), step.args, {**step.kwargs, "out": into})

    def filled(self, step: Step, free: set[Value], before: list[Step]) -> None:
        """Let a call that fills memory made for it fill that of an argument."""
        out = step.kwargs["out"]
        into = next((x for x in step.args if type(x) is Value and x in free and self.fits(x, out)), None)
        if into is not None:
            before.pop()
            self.written(step, into, step.fn, step.args, {"out": into}, out)

    def fits(self, x: Value, out: Any) -> bool:
        """Return whether `out` may lie where x does."""
        if x.shape is None or x.shape != out.shape or x.dtype is not out.dtype or x.strides != out.strides or x.shape.numel() < LARGE:
            return False
        alone = self.values[x.root] == 1 == self.values[out.root] and not x.root.given and x not in self.program.constants
        return alone and out not in self.parts and all(stride for n, stride in zip(x.shape, x.strides) if n > 1)

    def written(self, step: Step, into: Value, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Value | None = None) -> None:
        self.now[out or step.out] = into  # type: ignore[index]
        step.make(fn, args, kwargs)
        step.out, step.writes, into.root.written = None, True, True
