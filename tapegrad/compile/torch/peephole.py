"""peephole: a few calls of a program that torch has one for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from tapegrad.compile.torch.call_capture import name_of
from tapegrad.compile.torch.program import Program, Step, Value, values_in


def peephole(program: Program) -> None:
    """Put `a + b * c`, `b + x @ w`, `dy * (1 - y * y)`, `x / n.to(float)`, `1 - x` and `1 / x` of real tensors as one call each, in place.

    What is computed later than it was lies in memory that nothing writes to. A sum of products may differ in the last bit.
    """
    uses = Counter(value for step in program.steps for value in step.used)
    uses.update(values_in(program.parts))
    made = {value: step for step in program.steps for value in step.made}
    gone: set[Step] = set()
    for step in program.steps:
        if not step.inside and not step.writes and type(step.out) is Value and _is_real(step.out):
            for rule in RULES:
                found = rule(step, lambda value: made.get(value) if uses[value] == 1 else None)
                if found is not None:
                    fn, args, kwargs, over = found
                    step.make(fn, args, kwargs)
                    gone.update(over)
                    break
    program.steps = [step for step in program.steps if step not in gone]


Found = tuple[Any, tuple[Any, ...], dict[str, Any], tuple[Step, ...]]


def _is_real(x: Any) -> bool:
    return type(x) is Value and x.dtype is not None and bool(x.dtype.is_floating_point)


def _named(step: Step | None, *names: str) -> bool:
    """True for a call of one of these functions on two arguments, without others."""
    return step is not None and name_of(step.fn) in names and not step.kwargs and len(step.args) == 2 and not step.inside


def _alike(*values: Any) -> bool:
    """True for real tensors of one dtype, in memory that nothing writes to."""
    return all(map(_is_real, values)) and len({value.dtype for value in values}) == 1 and not any(value.root.written for value in values)


def _of_one(step: Step, once: Any) -> Found | None:
    """`1 - x`, `1 / x`: the operators are functions of Python's."""
    if _named(step, "__rsub__") and type(step.args[1]) in (int, float):
        return torch.rsub, step.args, {}, ()
    if _named(step, "__rdiv__") and type(step.args[1]) in (int, float) and step.args[1] == 1 and _is_real(step.args[0]):
        return torch.reciprocal, step.args[:1], {}, ()
    return None


def _transposed(step: Step, once: Any) -> Found | None:
    """`x.permute((1, 0))`: torch reads no axes for `x.t()`."""
    return (torch.Tensor.t, step.args[:1], {}, ()) if _named(step, "permute") and step.args[1] == (1, 0) else None


def _of_integers(step: Step, once: Any) -> Found | None:
    """`x / n.to(x.dtype)` and its like, for integers n: torch converts them itself."""
    if not _named(step, "add", "sub", "mul", "div"):
        return None
    for x, n, place in ((*step.args, 1), (*step.args[::-1], 0)):
        of = once(n) if type(n) is Value else None
        if of is None or name_of(of.fn) != "to" or of.kwargs.keys() - {"copy"} or len(of.args) != 2 or of.inside or type(of.args[0]) is not Value:
            continue
        given, out = of.args[0], step.out
        whole = given.dtype in (torch.int32, torch.int64) and not given.root.written and len(given.shape) > 0
        if whole and _alike(x, n, out) and len(x.shape) >= len(given.shape):
            return step.fn, (x, given) if place else (given, x), {}, (of,)
    return None


def _tanh_backward(step: Step, once: Any) -> Found | None:
    """`dy * (1 - y * y)`."""
    if not _named(step, "mul"):
        return None
    for dy, factor in (step.args, step.args[::-1]):
        if type(factor) is not Value or type(dy) is not Value:
            continue
        rest = once(factor)
        square = once(rest.args[0]) if _named(rest, "rsub") and rest.args[1] == 1 else None
        if square is None or not _named(square, "mul") or square.args[0] is not square.args[1]:
            continue
        y = square.args[0]
        if _alike(dy, y, factor) and dy.shape == y.shape:
            return torch.ops.aten.tanh_backward.default, (dy, y), {}, (rest, square)
    return None


def _product(step: Step, once: Any) -> Found | None:
    """`a + b * c` and `bias + x @ w`."""
    if not _named(step, "add", "sub"):
        return None
    minus = name_of(step.fn) == "sub"
    for a, product in (step.args,) if minus else (step.args, step.args[::-1]):
        if type(product) is not Value or type(a) is not Value:
            continue
        of = once(product)
        if not _named(of, "mul", "matmul") or not _alike(a, product, *of.args):
            continue
        if name_of(of.fn) == "mul":
            return torch.addcmul, (a, *of.args), {"value": -1} if minus else {}, (of,)
        if not minus and len(of.args[0].shape) == len(of.args[1].shape) == 2 and step.out.shape == product.shape:  # type: ignore[union-attr]
            return torch.addmm, (a, *of.args), {}, (of,)
    return None


RULES = (_of_one, _transposed, _of_integers, _tanh_backward, _product)
