"""algebra: rewrite rules of `simplify` for elementwise calls.

A rule is `(walk, op, *args, **kwargs) -> replacement or None`. The replacement has the call's type, shape and dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.tape.spec import Spec, same_type, spec_of
from tapegrad.tape.tape import Call, Constant, Operation
from tapegrad.transforms.walk import Walk, is_call


def number(x: Any) -> Any:
    """Return the number that all elements of an argument equal, None if it is not constant."""
    if is_filled(x):
        return _filler(x, x.spec)
    if isinstance(x, Constant):
        x = x.val
    if isinstance(x, Operation):
        return None
    if type(x) is np.ndarray:
        return x.flat[0] if uniform(x) else None
    return x if isinstance(x, (int, float, complex, np.generic)) and not isinstance(x, (bool, np.bool_)) else None


FILLED = frozenset([ops.zeros, ops.ones, ops.zeros_like, ops.ones_like])


def is_filled(x: Any) -> bool:
    """Return whether a call makes an array filled with one constant."""
    return type(x) is Call and (x.fn in FILLED or (x.fn in (ops.full, ops.full_like)
                                                   and not any(isinstance(arg, Operation) for arg in x.args[1:])))


def _filler(x: Call, y: Spec) -> Any:
    """Return the number that such a call fills an array of `y` with; None if `y` is empty or no integer or float."""
    found = (0 if x.fn in (ops.zeros, ops.zeros_like) else 1 if x.fn in (ops.ones, ops.ones_like)
             else x.args[1] if len(x.args) > 1 else x.kwargs["fill_value"])
    if not (y.is_array and y.size and y.kind in "iuf" and spec_of(found).shape == ()):
        return None
    with np.errstate(all="ignore"):
        return np.full((), found, y.dtype)[()]


def uniform(x: np.ndarray[Any, Any]) -> bool:
    """Return whether all elements of an integer or float array are one number; False if they are -0.0."""
    if not x.size or x.dtype.kind not in "iuf":
        return False
    first = x.flat[0]
    return bool(first == x.flat[-1]) and bool((x == first).all()) and (bool(first) or not np.signbit(x).any())


def same(x: Any, op: Operation) -> Any:
    """Return an operand that may replace a call, None if its type or shape differs from the call's."""
    return x if isinstance(x, Operation) and same_type(x.spec, op.spec) else None


# -- neutral elements, for real numbers only: (inf + 1j) * 1 is inf + nanj. x + 0.0 stays, as it turns -0.0 into 0.0 and
# programs rely on that. x - 0 and x + (-0.0) are x.


def times_one(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """x * 1, 1 * x."""
    if op.spec.is_complex:
        return None
    return same(a, op) if number(b) == 1 else same(b, op) if number(a) == 1 else None


def nowhere_zero(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """multiply_no_nan and divide_no_nan (0 where a is 0) are multiply and divide if a is a nonzero constant."""
    return w.instead(op, ops.multiply if op.fn is ops.multiply_no_nan else ops.divide, a, b) if number(a) else None


def over_one(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """x / 1, x ** 1."""
    return same(a, op) if number(b) == 1 and not op.spec.is_complex else None


def plus_zero(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """x + (-0.0), -0.0 + x; x + 0 for integers."""
    if op.spec.is_complex:
        return None
    neutral = [is_zero(x, negative=True) or (is_zero(x, negative=False) and not floats(op)) for x in (a, b)]
    return same(a, op) if neutral[1] else same(b, op) if neutral[0] else None


def minus_zero(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """x - 0."""
    return same(a, op) if is_zero(b, negative=False) else None


def is_zero(x: Any, negative: bool) -> bool:
    """Return whether an argument is the constant zero whose sign bit is `negative`."""
    x = number(x)
    return bool(x == 0) and not isinstance(x, (complex, np.complexfloating)) and bool(np.signbit(x)) is negative


# -- signs


def minus_from_zero(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """-0.0 - x is -x; 0 - x is -x for integers only, as 0.0 - 0.0 is 0.0."""
    exact = (is_zero(a, negative=True) and not op.spec.is_complex) or (is_zero(a, negative=False) and not floats(op))
    return w.instead(op, ops.negative, b) if exact and same(b, op) else None


def times_minus_one(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """x * -1, -1 * x and x / -1 are -x."""
    x = a if number(b) == -1 else b if number(a) == -1 and op.fn is ops.multiply else None
    return w.instead(op, ops.negative, x) if same(x, op) and signed(op) and not op.spec.is_complex else None


def signed(op: Operation) -> bool:
    """Return whether values of this type can be negative: no bool, no unsigned integer."""
    y = op.spec
    return y.type is not bool if y.kind == "-" else y.kind in "ifc"


def negated_twice(w: Walk, op: Call, x: Any) -> Any:
    """--x is x."""
    return same(x.args[0], op) if is_call(x, ops.negative) else None


def floats(op: Operation) -> bool:
    """Return whether a value is a real or complex float: integers may overflow, objects may define any operator."""
    y = op.spec
    return y.kind in "fc" or y.type in (float, complex)


def plus_negative(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """a + (-b) is a - b, (-a) + b is b - a."""
    if is_call(b, ops.negative) and floats(b):
        return w.instead(op, ops.subtract, a, b.args[0])
    return w.instead(op, ops.subtract, b, a.args[0]) if is_call(a, ops.negative) and floats(a) else None


def minus_negative(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """a - (-b) is a + b."""
    return w.instead(op, ops.add, a, b.args[0]) if is_call(b, ops.negative) and floats(b) else None


def both_negative(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """(-a) * (-b) is a * b, (-a) / (-b) is a / b."""
    negative = is_call(a, ops.negative) and is_call(b, ops.negative) and floats(op)
    return w.instead(op, op.fn, a.args[0], b.args[0]) if negative else None


def even(w: Walk, op: Call, x: Any, *rest: Any) -> Any:
    """f(-x) is f(x) for cos, abs and squares."""
    negative = is_call(x, ops.negative) and floats(x) and rest in ((), (2,), (2.0,))
    return w.instead(op, op.fn, x.args[0], *rest) if negative else None


# -- quotients


def times_reciprocal(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """a * (1 / b) is a / b if nothing else uses 1 / b, and 1 / b has the result's shape: division is slower than
    multiplication. If b is subnormal, 1 / b overflows and a / b may not; if b is within a factor of 4 of the largest
    number, 1 / b has fewer digits.
    """
    for x, y in ((a, b), (b, a)):
        if is_call(y, ops.divide) and w.once(y) and number(y.args[0]) == 1 \
                and isinstance(x, Operation) and x is not y and floats(op) \
                and same_type(spec_of(y.args[1]), y.spec) and same_type(y.spec, op.spec) and y.spec.is_numpy:
            return w.instead(op, ops.divide, x, y.args[1])
    return None


# -- powers


def squared(w: Walk, op: Call, x: Any, p: Any) -> Any:
    """x ** 2 is square(x) for arrays, as in NumPy's `**`, and x * x for NumPy floats. Python floats stay: their power
    raises on overflow.
    """
    if number(p) != 2 or not floats(op) or not (isinstance(x, Operation) and same_type(x.spec, op.spec)):
        return None
    if op.spec.is_array:
        return w.instead(op, ops.square, x)
    return w.instead(op, ops.multiply, x, x) if op.spec.is_scalar and op.spec.kind == "f" else None


# -- identities


def unchanged(w: Walk, op: Call, x: Any, *_: Any, **__: Any) -> Any:
    """+x, casts to the same type, the conjugate or real part of a real value, and copies (a tape writes nothing in
    place) are x.
    """
    if op.fn in (ops.conjugate, ops.real) and op.spec.is_complex:
        return None
    return same(x, op) if isinstance(x, Operation) and x.spec.layout == op.spec.layout is not None else None


def no_choice(w: Walk, op: Call, condition: Any, a: Any, b: Any) -> Any:
    """where(c, x, x) is x."""
    return same(a, op) if a is b and isinstance(a, Operation) else None


ALGEBRA = (
    (ops.multiply_no_nan, nowhere_zero), (ops.divide_no_nan, nowhere_zero),
    (ops.multiply, times_one), (ops.divide, over_one), (ops.pow, over_one), (ops.add, plus_zero),
    (ops.subtract, minus_zero), (ops.subtract, minus_from_zero), (ops.multiply, times_minus_one),
    (ops.divide, times_minus_one), (ops.negative, negated_twice), (ops.add, plus_negative),
    (ops.subtract, minus_negative), (ops.multiply, both_negative), (ops.multiply, times_reciprocal),
    (ops.divide, both_negative),
    (ops.cos, even), (ops.abs, even), (ops.square, even), (ops.pow, even),
    (ops.pow, squared), (ops.positive, unchanged), (ops.astype, unchanged), (ops.conjugate, unchanged),
    (ops.real, unchanged), (ops.copy, unchanged), (ops.array, unchanged), (ops.where, no_choice),
)

_NUMBER = FILLED | {ops.full, ops.full_like}  # besides constants
_NEGATIVE = frozenset([ops.negative])
LOOKS_AT: dict[Any, frozenset[Any]] = {
    **dict.fromkeys([times_one, nowhere_zero, over_one, plus_zero, minus_zero, minus_from_zero, times_minus_one,
                     squared], _NUMBER),
    **dict.fromkeys([negated_twice, plus_negative, minus_negative, both_negative, even], _NEGATIVE),
    times_reciprocal: frozenset([ops.divide]),
}
"""The calls that a rule looks for among the arguments, besides constants. A rule without an entry is tried on every
call.
"""
