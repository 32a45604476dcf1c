"""peephole: a few calls of torch's that it has one for."""

from __future__ import annotations

from typing import Any

import torch

from tapegrad.compile.torch.kernel import Kernel, is_called, is_real
from tapegrad.optimise.dce import dce
from tapegrad.optimise.memory import root, written
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.transforms.walk import Walk

Found = tuple[Any, tuple[Any, ...], dict[str, Any]]


def peephole(tape: Tape) -> Tape:
    """Return a tape with `a + b * c`, `b + x @ w`, `dy * (1 - y * y)`, `x / n.to(float)`, `1 - x` and `1 / x` of real tensors as one call each.

    What is computed later than it was lies in memory that nothing writes to. A sum of products may differ in the last bit.
    """
    walk = _Calls(tape, count=True)
    for op in tape.ops:
        made: Any = walk.keep(op)
        if is_called(made, *NAMES) and is_real(made) and not made.fn.writes:
            found = next(filter(None, (rule(made, walk) for rule in RULES)), None)
            if found is not None:
                fn, made.args, made.kwargs = found
                made.fn = Kernel(fn, lies=made.fn.lies)
    return dce(walk.done())


class _Calls(Walk):
    """What the rules ask; each operation keeps its number."""

    def __init__(self, tape: Tape, count: bool) -> None:
        super().__init__(tape, count=count)
        self.changed = {x.id for x in written(tape)}

    def alone(self, x: Any, *names: str) -> Any:
        """Return what a call of one of these functions gave, if nothing else uses it."""
        return x if is_called(x, *names) and self.once(x) else None

    def stays(self, x: Operation) -> bool:
        """True for a value in memory that nothing writes to."""
        return root(x).id not in self.changed

    def alike(self, *values: Any) -> bool:
        """True for real tensors of one dtype, in memory that nothing writes to."""
        return all(map(is_real, values)) and len({x.spec.dtype for x in values}) == 1 and all(map(self.stays, values))


NAMES = ("__rsub__", "__rdiv__", "permute", "add", "sub", "mul", "div")


def _binary(op: Call, *names: str) -> bool:
    """True for a call of one of these functions on two arguments, without others."""
    return is_called(op, *names) and op.fn.form is None and not op.kwargs and len(op.args) == 2


def _of_one(op: Call, walk: _Calls) -> Found | None:
    """`1 - x`, `1 / x`: the operators are functions of Python's."""
    if _binary(op, "__rsub__") and type(op.args[1]) in (int, float):
        return torch.rsub, op.args, {}
    if _binary(op, "__rdiv__") and type(op.args[1]) in (int, float) and op.args[1] == 1 and is_real(op.args[0]):
        return torch.reciprocal, op.args[:1], {}
    return None


def _transposed(op: Call, walk: _Calls) -> Found | None:
    """`x.permute((1, 0))`: torch reads no axes for `x.t()`."""
    return (torch.Tensor.t, op.args[:1], {}) if _binary(op, "permute") and op.args[1] == (1, 0) else None


def _of_integers(op: Call, walk: _Calls) -> Found | None:
    """`x / n.to(x.dtype)` and its like, for integers n: torch converts them itself."""
    if not _binary(op, "add", "sub", "mul", "div"):
        return None
    for x, n, place in ((*op.args, 1), (*op.args[::-1], 0)):
        of = walk.alone(n, "to")
        if of is None or of.kwargs.keys() - {"copy"} or of.fn.form is not None or len(of.args) != 2 or not isinstance(of.args[0], Operation):
            continue
        given = of.args[0]
        whole = given.spec.dtype in (torch.int32, torch.int64) and given.spec.ndim and walk.stays(given)
        if whole and walk.alike(x, n, op) and x.spec.ndim >= given.spec.ndim:
            return op.fn.fn, (x, given) if place else (given, x), {}
    return None


def _tanh_backward(op: Call, walk: _Calls) -> Found | None:
    """`dy * (1 - y * y)`."""
    if not _binary(op, "mul"):
        return None
    for dy, factor in (op.args, op.args[::-1]):
        rest = walk.alone(factor, "rsub")
        square = walk.alone(rest.args[0], "mul") if rest is not None and _binary(rest, "rsub") and rest.args[1] == 1 else None
        if square is None or not _binary(square, "mul") or square.args[0] is not square.args[1]:
            continue
        y = square.args[0]
        if walk.alike(dy, y, factor) and dy.spec.shape == y.spec.shape:
            return torch.ops.aten.tanh_backward.default, (dy, y), {}
    return None


def _product(op: Call, walk: _Calls) -> Found | None:
    """`a + b * c` and `bias + x @ w`."""
    if not _binary(op, "add", "sub"):
        return None
    minus = op.fn.__name__ == "sub"
    for a, product in (op.args,) if minus else (op.args, op.args[::-1]):
        of = walk.alone(product, "mul", "matmul")
        if of is None or not _binary(of, "mul", "matmul") or not walk.alike(a, of, *of.args):
            continue
        if of.fn.__name__ == "mul":
            return torch.addcmul, (a, *of.args), {"value": -1} if minus else {}
        if not minus and of.args[0].spec.ndim == of.args[1].spec.ndim == 2 and op.spec.shape == of.spec.shape:
            return torch.addmm, (a, *of.args), {}
    return None


RULES = (_of_one, _transposed, _of_integers, _tanh_backward, _product)
