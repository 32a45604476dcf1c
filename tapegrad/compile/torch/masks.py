"""masks: selections with zero, and of a part of a cotangent, in the form that torch computes in vectors on a CPU.

There `torch.where` goes element by element and guesses what comes next, which fails for every second element of a mask that is true
by chance; what torch's own rectifier is differentiated by does not. It takes a mask of numbers, which a comparison writes as fast as it reads.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch

from tapegrad.compile.torch.call_capture import name_of
from tapegrad.compile.torch.program import Program, Step, Value, needed, values_in

LARGE = 2048  # elements: for fewer a call more costs more than it saves
COMPARISONS = {name: getattr(torch, name.strip("_")) for name in ("eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__")}
OPPOSITE = {torch.eq: torch.ne, torch.ne: torch.eq}  # with nan the others have none


def masks(program: Program) -> None:
    """Put `where(m, x, 0)`, `where(m, 0, x)`, `where(m, x * k, x)` and `where(m, x, x * k)` of a comparison m in that form, in place.

    Each number of the result is the same, whatever infinities and nans there are: what is left out is selected, and not multiplied with.
    """
    _Masks(program).run()


class _Masks:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.made = {value: step for step in program.steps for value in step.made}
        self.uses = Counter(value for step in program.steps for value in step.used)
        self.uses.update(values_in(program.parts))
        self.steps: list[Step] = []
        self.numbers: dict[tuple[Value, bool], Value] = {}  # a mask of truth values, or its opposite, as numbers
        self.parted: dict[Value, tuple[Value, Step]] = {}  # where(x == 0, dy * k, dy): that x, and the call that it became

    def run(self) -> None:
        for step in self.program.steps:
            if not self.selected(step):
                self.steps.append(step)
        if self.numbers:
            self.program.steps = self.steps
            self.program.steps = needed(self.program)

    def selected(self, step: Step) -> bool:
        """Append the calls that a selection becomes; return whether it was one."""
        if step.fn is not torch.where or len(step.args) != 3 or step.kwargs or type(step.out) is not Value:
            return False
        mask, a, b = step.args
        for x, other, holds in ((a, b, True), (b, a, False)):
            if not _alike(x, mask, step.out):
                continue
            if self.is_zero(other) and (found := self.number_mask(mask, x, holds, step)) is not None:
                self.rectifier(mask, x)
                self.steps.append(Step(torch.ops.aten.threshold_backward.default, (x, found, 0), {}, step.out, step.op))
                return True
            factor = self.factor(other, x)
            if factor is not None and (found := self.number_mask(mask, x, holds, step)) is not None:
                self.steps.append(Step(torch.ops.aten.leaky_relu_backward.default, (x, found, factor, False), {}, step.out, step.op))
                comparison = self.made[mask]
                if not holds and COMPARISONS[name_of(comparison.fn)] is torch.eq and self.is_zero(comparison.args[1]):
                    self.parted[step.out] = comparison.args[0], self.steps[-1]
                return True
        return False

    def is_zero(self, x: Any) -> bool:
        x = self.program.constants.get(x) if type(x) is Value and not x.root.written else x
        x = x.item() if isinstance(x, torch.Tensor) and not x.ndim else x
        return type(x) in (int, float) and x == 0 and math.copysign(1.0, x) > 0

    def factor(self, product: Any, x: Value) -> float | None:
        """Return the number that `product` is the multiple of `x` by, None where it is no such product."""
        step = self.made.get(product) if type(product) is Value and not product.root.written and not x.root.written else None
        if step is None or name_of(step.fn) != "mul" or step.args[:1] != (x,) or type(step.args[-1]) is not float or step.kwargs:
            return None
        return step.args[-1] if math.isfinite(step.args[-1]) else None

    def rectifier(self, mask: Value, dx: Value) -> None:
        """Let x itself say which parts are whole in `where(x == maximum(x, 0), where(x == 0, dy * k, dy), 0)`: what is negative is zero anyway."""
        x, step = self.parted.get(dx, (None, None))
        comparison = self.made[mask]
        if step is None or self.uses[dx] != 1 or COMPARISONS[name_of(comparison.fn)] is not torch.eq or comparison.args[0] is not x:
            return
        larger = self.made.get(comparison.args[1]) if type(comparison.args[1]) is Value else None
        if larger is not None and name_of(larger.fn) == "maximum" and larger.args[0] is x and len(larger.args) == 2 and self.is_zero(larger.args[1]):
            step.make(step.fn, (step.args[0], x, *step.args[2:]), {})

    def number_mask(self, mask: Value, x: Value, holds: bool, at: Step) -> Value | None:
        """Return a tensor like x that is 1 where a mask is `holds`, and 0 elsewhere; None where the mask is no comparison of such tensors."""
        if (mask, holds) in self.numbers:
            return self.numbers[mask, holds]
        step = self.made.get(mask)
        fn = COMPARISONS.get(name_of(step.fn)) if step is not None else None
        if step is None or fn is None or len(step.args) != 2 or step.kwargs or step.inside or mask.root.written:
            return None
        like = next((arg for arg in step.args if type(arg) is Value and _alike(arg, mask, x)), None)
        if like is None or not all(_comparable(arg, x.dtype) for arg in step.args):
            return None
        if holds or fn in OPPOSITE:
            return self.numbers.setdefault((mask, holds), self.written(fn if holds else OPPOSITE[fn], step.args, like, at))
        found = self.number_mask(mask, x, True, at)
        assert found is not None
        return self.numbers.setdefault((mask, holds), self.written(torch.eq, (found, 0), found, at))

    def written(self, fn: Any, args: tuple[Any, ...], like: Value, at: Step) -> Value:
        out = Value("mask")
        out.dtype, out.shape, out.strides, out.root.written = like.dtype, like.shape, like.strides, True
        self.steps.append(Step(torch.empty_like, (like,), {}, out, at.op))
        self.steps.append(Step(fn, args, {"out": out}, None, at.op, writes=True))
        return out


def _alike(x: Any, mask: Any, out: Value) -> bool:
    """True if x is a large real tensor of the shape of the mask and of what is selected, and of the dtype of that if it has numbers."""
    if type(x) is not Value or type(mask) is not Value or x.dtype not in (torch.float32, torch.float64) or x.shape is None:
        return False
    return x.shape == mask.shape == out.shape and x.dtype is out.dtype and x.shape.numel() >= LARGE


def _comparable(x: Any, dtype: Any) -> bool:
    return x.dtype is dtype and not x.root.written if type(x) is Value else type(x) in (int, float)
