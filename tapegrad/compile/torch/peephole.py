"""peephole: a few calls of operators that torch has one for."""

from __future__ import annotations

from typing import Any

import torch

from tapegrad.compile.torch.kernel import Kernel, is_called, is_plain, is_real
from tapegrad.optimise.dce import dce
from tapegrad.optimise.memory import Lying
from tapegrad.tape.tape import Call, Tape

Found = tuple[Any, tuple[Any, ...], dict[str, Any]]


def peephole(tape: Tape) -> Tape:
    """Return a tape with a few calls on real tensors as one each: see the rules.

    What is computed later than it was lies in memory that nothing writes to. A sum of products
    may differ in the last bit.
    """
    walk = _Calls(tape, count=True)
    for op in tape.ops:
        made: Any = walk.keep(op)
        for rule in RULES.get(made.fn.__name__, ()) if is_plain(made) else ():
            if len(made.args) == 2 and is_real(made) and (found := rule(made, walk)) is not None:
                fn, made.args, made.kwargs = found
                made.fn = Kernel(fn, aliases=made.fn.aliases)
                break
        else:
            if is_called(made, "mul") and len(made.args) == 2 and made.args[1] == 1 and walk.alike(made, made.args[0]):
                walk.stand_in(op, made.args[0])  # 1 / x is a product with 1
    return dce(walk.done())


class _Calls(Lying):
    """What the rules ask."""

    def alone(self, x: Any, *names: str) -> Any:
        """Return a plain call of one of these functions on two arguments, if nothing else uses what it gives."""
        return x if is_called(x, *names) and self.once(x) and is_plain(x) and len(x.args) == 2 else None

    def alike(self, *values: Any) -> bool:
        """True for real tensors of one dtype, in memory that nothing writes to."""
        return all(map(is_real, values)) and len({x.spec.dtype for x in values}) == 1 and all(map(self.stays, values))


def _tanh_backward(op: Call, walk: _Calls) -> Found | None:
    """`dy * (1 - y * y)`."""
    for dy, factor in (op.args, op.args[::-1]):
        rest = walk.alone(factor, "rsub")
        square = None if rest is None or rest.args[1] != 1 else walk.alone(rest.args[0], "mul")
        if square is None or square.args[0] is not square.args[1]:
            continue
        y = square.args[0]
        if walk.alike(dy, y, factor) and dy.spec.shape == y.spec.shape:
            return torch.ops.aten.tanh_backward.default, (dy, y), {}
    return None


def _product(op: Call, walk: _Calls) -> Found | None:
    """`a + b * c` and `a + x @ w`."""
    minus = op.fn.__name__ == "sub"
    for a, product in (op.args,) if minus else (op.args, op.args[::-1]):
        of = walk.alone(product, "mul", "mm")
        if of is None or not walk.alike(a, of, *of.args):
            continue
        if of.fn.__name__ == "mul":
            return torch.addcmul, (a, *of.args), {"value": -1} if minus else {}
        if not minus and op.spec.shape == of.spec.shape:
            return torch.addmm, (a, *of.args), {}
    return None


RULES = {"mul": (_tanh_backward,), "add": (_product,), "sub": (_product,)}
"""By the name of an operator."""
