"""scale_motion: moves signs and constant factors to where they cost least, or cancels them.

`sum(-x * 0.5)` takes three passes over x, `-0.5 * sum(x)` one. A product with a constant is therefore postponed:
operations that are linear in it are computed without the factor, which is applied to their results, unless another
factor or a sum (`a + (-b)` is `a - b`) absorbs it.

Elementwise values change by an ulp or two at most, also where they are infinite, subnormal or signed zeros: a sign
passes operations without sums, another factor passes data movement, and products only if it lies between 1/2 and 2. Two
factors merge only if neither undoes what the other did to numbers at the ends of the range. Sums, products of matrices
and solutions are linear only up to rounding, which depends on their summation order anyway: a factor passes them. The
sign of a zero left by a cancellation may differ then, and an overflow within that factor of the largest number. Values
that a guard compares are computed as recorded, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.rules.op import Op
from tapegrad.tape.liveness import leading
from tapegrad.tape.spec import Spec, absent, same_type
from tapegrad.tape.tape import Call, Guard, Operation, Tape
from tapegrad.trace.guards import FIXED
from tapegrad.transforms.walk import Walk, count_uses, pure

# ops that only move elements of the first argument
MOVING = frozenset([ops.reshape, ops.permute_dims, ops.broadcast_to, ops.expand_dims, ops.squeeze, ops.flip,
                    ops.getitem])
SUMS = frozenset([ops.sum, ops.mean])
PRODUCTS = frozenset([ops.matmul, ops.tensordot, ops.dot, ops.vecdot, ops.vdot])
BILINEAR = PRODUCTS | {ops.multiply}
SOLVES = frozenset([ops.solve, ops.solve_triangular])  # linear in the second argument
EVEN = frozenset([ops.square, ops.abs, ops.cos])
SCALING = frozenset([ops.negative, ops.multiply, ops.divide, ops.add])  # calls that may be a constant times an operand
# ops that a factor may pass
PASSING = MOVING | SUMS | BILINEAR | SOLVES | EVEN | SCALING | {ops.subtract, ops.scatter, ops.where}
SMALLEST, LARGEST = 1e-9, 1e9  # other factors stay: they may prevent an overflow

CALL = 8.0  # the cost of a call by itself, in elements of a product

NEVER = (math.inf, math.inf)
FREE = (0.0, 0.0)


class Scaled(NamedTuple):
    """A rewritten operation: a factor that is still to be applied, and the operation without it."""

    factor: float
    base: Operation


def factors(tape: Tape) -> Tape:
    """Return a tape with as few constant factors as possible, each applied where the arrays are smallest.

    Only factors of real floats move. A factor moves past an operation if all users of its value can take it, at the
    cost of no more elements than it saves.
    """
    exact = leading(tape.ops, [op.args[0] for op in tape.ops if type(op) is Guard and op.fact not in FIXED])
    found = [constant_factor(op) if type(op.fn) is Op and op.fn in SCALING and not exact[op.id]
             else None for op in tape.ops]
    if not any(found):
        return tape
    walk = Walk(tape, learn=True)
    lazy = _plan(tape, [None, *found])
    at = walk.at
    for op, own in zip(tape.ops, found):
        made = None
        for arg in op.args:
            if isinstance(arg, Operation) and type(at[arg.id]) is Scaled:
                made = _scaled(walk, op, own) if isinstance(op, Call) and pure(op.fn) else None
                break
        else:
            if own is not None:
                made = _scaled(walk, op, own)  # type: ignore[arg-type]
            else:
                walk.keep(op)
                continue
        if made is None:
            walk.keep(op, tuple([_apply(walk, arg) for arg in op.args]))
        elif isinstance(made, Scaled) and isinstance(op, Call):
            _settle(walk, op, made, own, lazy)
        else:
            walk.stand_in(op, made)
    return walk.done()


# -- plan, backwards: the cost, in elements, of leaving a value's factor to its users


def _plan(tape: Tape, factor: list[Factor | None]) -> tuple[bytearray, bytearray]:
    """Return for each operation, for a sign and for any other factor, whether leaving it to the users is cheaper;
    `factor` is by position.
    """
    count = len(tape.ops) + 1
    sign, other = [0.0] * count, [0.0] * count
    lazy = (bytearray(count), bytearray(count))
    uses = count_uses(tape)
    if tape.result is not None:
        sign[tape.result.id] = other[tape.result.id] = math.inf
    for op in reversed(tape.ops):
        at = op.id
        y = op.spec
        # a value without a factor costs nothing
        size, cost, more = y.size + CALL if floating(y) else 0.0, sign[at], other[at]
        if cost <= size:
            lazy[0][at] = 1
        if more <= size:
            lazy[1][at] = 1
        costs = (cost if cost < size else size, more if more < size else size)
        passing = type(op.fn) is Op and op.fn in PASSING and floating(y)
        for i, arg in enumerate(op.args):
            if isinstance(arg, Operation) and not (i and arg in op.args[:i]):
                cost, more = _cost(op, i, costs, uses, factor) if passing else NEVER  # type: ignore[arg-type]
                sign[arg.id] += cost
                other[arg.id] += more
    return lazy


def _cost(op: Call, i: int, costs: tuple[float, float], uses: list[int],
          factor: list[Factor | None]) -> tuple[float, float]:
    """Return the costs of a sign and of another factor on the i-th argument of a call, from their `costs` on its value.
    """
    fn, args = op.fn, op.args
    if fn in MOVING:
        return costs if i == 0 else NEVER
    if fn in SUMS:
        return costs if i == 0 and not (op.kwargs and op.kwargs.get("dtype")) else NEVER
    if factor[op.id] is not None:
        return FREE
    if fn in SOLVES:
        return costs
    if fn in BILINEAR or fn is ops.divide:
        if args[0] is args[1]:
            return 0.0, costs[1]
        other = args[1 - i]
        meets = (type(other) is Call and factor[other.id] is not None and uses[other.id] == 1
                 and other.spec.size == op.spec.size)
        return FREE if meets else costs
    if fn is ops.add or (fn is ops.subtract and i == 1) or fn in EVEN:
        return 0.0, math.inf
    if fn is ops.scatter:
        return (math.inf, costs[1]) if i == 0 and len(op.kwargs["ranks"]) == 1 else NEVER
    return (math.inf, costs[1]) if fn is ops.where and i and _zero(args[3 - i]) else NEVER


def floating(x: Spec) -> bool:
    """Return whether a spec is a real float or an array of them; not a 0-d array, whose products are numbers."""
    return x.type is float or (x.kind == "f" and (x.ndim > 0 or not x.is_array))


def _zero(x: Any) -> bool:
    return isinstance(x, (int, float)) and x == 0


Factor = tuple[float, Operation]


def constant_factor(op: Operation) -> Factor | None:
    """Return the factor and the operand of a call that is a constant times an operand."""
    fn, args = op.fn, op.args
    if fn is ops.negative:
        found: tuple[Any, Any] = -1.0, args[0]
    elif fn is ops.multiply:
        found = (args[0], args[1]) if not isinstance(args[0], Operation) else (args[1], args[0])
    elif fn is ops.divide and type(args[1]) in (int, float) and args[1]:
        found = 1 / args[1], args[0]
    elif fn is ops.add and args[0] is args[1]:
        found = 2.0, args[0]
    else:
        return None
    factor, x = found
    if (not isinstance(x, Operation) or not isinstance(factor, (int, float, np.floating)) or isinstance(factor, bool)
        or not _fits(float(factor))):
        return None
    if _dtype(x).itemsize < 4 and not is_sign(float(factor)):
        return None  # products of factors soon leave a small float's range
    return (float(factor), x) if floating(x.spec) and same_type(x.spec, op.spec) else None


def _fits(factor: float) -> bool:
    return SMALLEST <= abs(factor) <= LARGEST


def is_sign(factor: float) -> bool:
    """Return whether a factor is 1 or -1; products with it are exact."""
    return abs(factor) == 1.0


def is_near_one(factor: float) -> bool:
    """Return whether the magnitude of a factor lies between 1/2 and 2."""
    return 0.5 <= abs(factor) <= 2.0


def together(first: float, then: float) -> bool:
    """Return whether multiplying by two factors in turn equals multiplying by their product, to an ulp of the result.

    It does if both are at most 1: the second does not enlarge what the first lost below the smallest normal number. It
    also does if neither is smaller than 1 and the first is an integer, whose products lose nothing there. A large and a
    small factor may overflow or underflow in between.
    """
    a, b = abs(first), abs(then)
    return a == 1.0 or b == 1.0 or (a <= 1.0 and b <= 1.0) or (a >= 1.0 and b >= 1.0 and a.is_integer())


# -- rewriting, forwards


def _scaled(walk: Walk, op: Call, found: Factor | None) -> Scaled | Operation | None:
    """Return the new form of a call that is a factor, or whose arguments have one; None if it stays."""
    if found is not None:
        factor, base = _split(walk.bind(found[1]))
        return (Scaled(found[0] * factor, base) if walk.known[base.id] and _fits(found[0] * factor)
                and together(factor, found[0]) else None)
    parts = [_split(walk.bind(arg)) for arg in op.args]
    given = [factor for factor, _ in parts]
    if all(factor == 1.0 for factor in given):
        return None
    args = [base for _, base in parts]
    passed = _passed(op, given)
    # otherwise it would be multiplied in another precision
    alike = all(_dtype(base) == _dtype(op) for factor, base in parts if factor != 1.0)
    if passed is not None and _fits(passed) and alike:
        return Scaled(passed, walk.make(op, op.fn, *args, val=absent(op.spec), **op.kwargs))
    if op.fn is ops.add and -1.0 in given and 1.0 in given:
        return walk.instead(op, ops.subtract, *(args if given[1] == -1.0 else args[::-1]))
    if op.fn is ops.subtract and given == [1.0, -1.0]:
        return walk.instead(op, ops.add, *args)
    return walk.instead(op, op.fn, *args) if op.fn in EVEN and given == [-1.0] else None


def _passed(op: Call, given: list[float]) -> float | None:
    """Return the factor of a call's value from the factors of its arguments, None if they cannot pass."""
    fn = op.fn
    if fn in PRODUCTS:
        return given[0] * given[1] if together(*given) else None
    if fn in SOLVES:
        return given[1] / given[0]
    if fn is ops.multiply or fn is ops.divide:
        factor = given[0] * given[1] if fn is ops.multiply else given[0] / given[1]
        return factor if is_near_one(given[0]) and is_near_one(given[1]) and is_near_one(factor) else None
    if fn in MOVING or fn in SUMS:
        return given[0]
    if fn is ops.scatter:  # only a positive factor keeps the sign of the zeros
        return given[0] if len(op.kwargs["ranks"]) == 1 and given[0] > 0 else None
    if fn is ops.where and (_zero(op.args[1]) or _zero(op.args[2])):
        return given[1] * given[2] if min(given) > 0 else None
    return None


def _dtype(x: Operation) -> Any:
    return np.dtype(np.float64) if x.spec.dtype is None else x.spec.dtype


def _split(x: Any) -> tuple[float, Any]:
    return (x.factor, x.base) if type(x) is Scaled else (1.0, x)


def _settle(walk: Walk, op: Call, made: Scaled, found: Factor | None, lazy: tuple[bytearray, bytearray]) -> None:
    """Leave a factor to the users of the value, or apply it."""
    if made.factor == 1.0:
        walk.stand_in(op, made.base)
    elif lazy[made.factor != -1.0][op.id]:
        walk.stand_in(op, made)
    else:
        if found is not None and walk.bind(found[1]) is made.base and made.factor == found[0]:
            walk.keep(op)  # the factor is unchanged
        else:
            walk.stand_in(op, _product(walk, op, made))


def _product(walk: Walk, like: Operation, x: Scaled) -> Operation:
    val = absent(like.spec)
    if x.factor == -1.0:
        return walk.make(like, ops.negative, x.base, val=val)
    return walk.make(like, ops.multiply, x.factor, x.base, val=val)


def _apply(walk: Walk, arg: Any) -> Any:
    """Return the replacement of an argument with its factor applied, once for all users."""
    made = walk.bind(arg)
    if type(made) is Scaled:
        made = _product(walk, arg, made)
        walk.stand_in(arg, made)
    return made


