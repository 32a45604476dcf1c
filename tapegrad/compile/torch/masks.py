"""masks: selections with zero, and of a part of a cotangent, in the form that torch computes in vectors on a CPU.

There `torch.where` goes element by element and guesses what comes next, which fails for every second element of a mask
that is true by chance; what torch's own rectifier is differentiated by does not. It takes a mask of numbers, which a
comparison writes as fast as it reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tapegrad.compile.torch.kernel import call_of, instead, is_called, is_plain
from tapegrad.optimise.dce import dce
from tapegrad.optimise.memory import Lying
from tapegrad.tape.origin import Origin
from tapegrad.tape.spec import absent
from tapegrad.tape.tape import Constant, Operation, Tape
from tapegrad.transforms.walk import count_uses

LARGE = 2048  # elements: for fewer a call more costs more than it saves
COMPARISONS = {name: getattr(torch, name.strip("_"))
               for name in ("eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__")}
OPPOSITE = {torch.eq: torch.ne, torch.ne: torch.eq}  # with nan the others have none


def masks(tape: Tape) -> Tape:
    """Return a tape with `where(m, x, 0)`, `where(m, 0, x)`, `where(m, x * k, x)` and `where(m, x, x * k)` of a
    comparison m in that form.

    Each number of the result is the same, whatever infinities and nans there are: what is left out is selected,
    and not multiplied with.
    """
    return _Masks(tape).run()


class _Masks(Lying):
    def run(self) -> Tape:
        if not any(is_called(op, "where") for op in self.old.ops):
            return self.old
        self.uses_of = count_uses(self.old)
        # a mask, or its opposite, as numbers on the new tape
        self.numbers: dict[tuple[Operation, bool], Operation] = {}
        self.parted: dict[Operation, tuple[Any, Any]] = {}  # where(x == 0, dy * k, dy): that x, and what became of it
        for op in self.old.ops:
            if not (is_called(op, "where") and self.selected(op)):
                self.keep(op)
        return dce(self.done()) if self.numbers else self.old

    def selected(self, op: Any) -> bool:
        """Put the calls that a selection becomes on the new tape; return whether it was one."""
        if not is_plain(op) or len(op.args) != 3:
            return False
        mask, a, b = op.args
        for x, other, holds in ((a, b, True), (b, a, False)):
            if not _alike(x, mask, op):
                continue
            if self.is_zero(other) and (found := self.number_mask(mask, x, holds, op)) is not None:
                self.rectifier(mask, x)
                instead(self, op, torch.ops.aten.threshold_backward.default, (self.bind(x), found, 0))
                return True
            factor = self.factor(other, x)
            if factor is not None and (found := self.number_mask(mask, x, holds, op)) is not None:
                leaky = torch.ops.aten.leaky_relu_backward.default
                made = instead(self, op, leaky, (self.bind(x), found, factor, False))
                if not holds and COMPARISONS[mask.fn.__name__] is torch.eq and self.is_zero(mask.args[1]):
                    self.parted[op] = mask.args[0], made
                return True
        return False

    def is_zero(self, x: Any) -> bool:
        x = x.val if type(x) is Constant and self.stays(x) else x
        x = x.item() if isinstance(x, torch.Tensor) and not x.ndim else x
        return type(x) in (int, float) and x == 0 and math.copysign(1.0, x) > 0

    def factor(self, product: Any, x: Operation) -> float | None:
        """Return the number that `product` is the multiple of `x` by, None where it is no such product."""
        if not is_called(product, "mul") or not is_plain(product) or not (self.stays(product) and self.stays(x)):
            return None
        k = product.args[-1]
        return k if product.args[0] is x and type(k) is float and math.isfinite(k) else None

    def rectifier(self, mask: Any, dx: Any) -> None:
        """Let x itself say which parts are whole in `where(x == maximum(x, 0), where(x == 0, dy * k, dy), 0)`: what is
        negative is zero anyway.
        """
        x, made = self.parted.get(dx, (None, None))
        if made is None or self.uses_of[dx.id] != 1 or COMPARISONS[mask.fn.__name__] is not torch.eq:
            return
        same, larger = mask.args
        if same is x and is_called(larger, "maximum") and larger.args[0] is x and self.is_zero(larger.args[1]):
            made.args = (made.args[0], self.bind(x), *made.args[2:])

    def number_mask(self, mask: Any, x: Operation, holds: bool, at: Operation) -> Operation | None:
        """Return a tensor like x that is 1 where a mask is `holds`, and 0 elsewhere; None where the mask is no
        comparison of such tensors.
        """
        if (mask, holds) in self.numbers:
            return self.numbers[mask, holds]
        if not is_called(mask, *COMPARISONS) or not is_plain(mask) or len(mask.args) != 2 or not self.stays(mask):
            return None
        fn, like = COMPARISONS[mask.fn.__name__], next((arg for arg in mask.args if _alike(arg, mask, x)), None)
        if like is None or not all(self.comparable(arg, x.spec.dtype) for arg in mask.args):
            return None
        if holds or fn in OPPOSITE:
            made = self.filled(fn if holds else OPPOSITE[fn], self.args(mask), self.bind(like), at)
            return self.numbers.setdefault((mask, holds), made)
        found = self.number_mask(mask, x, True, at)
        assert found is not None
        return self.numbers.setdefault((mask, holds), self.filled(torch.eq, (found, 0), found, at))

    def filled(self, fn: Callable[..., Any], args: tuple[Any, ...], like: Operation, at: Operation) -> Operation:
        """Put a comparison that fills memory of its own with numbers on the new tape."""
        out = call_of(torch.empty_like, (like,), val=absent(like.spec))
        out.origin = Origin("mask")
        self._push(out.at(at))
        self._push(call_of(fn, args, {"out": out}, writes=[out]).at(at))
        return out

    def comparable(self, x: Any, dtype: Any) -> bool:
        return x.spec.dtype is dtype and self.stays(x) if isinstance(x, Operation) else type(x) in (int, float)


def _alike(x: Any, mask: Any, out: Operation) -> bool:
    """True if x is a large real tensor of the shape of the mask and of what is selected, and of the
    dtype of that if it has numbers.
    """
    if not isinstance(x, Operation) or not isinstance(mask, Operation):
        return False
    if x.spec.dtype not in (torch.float32, torch.float64):
        return False
    return x.spec.shape == mask.spec.shape == out.spec.shape and x.spec.dtype is out.spec.dtype and x.spec.size >= LARGE
