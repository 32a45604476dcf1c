"""tangents: the tangent of one call from those of its arguments.

It comes from the op's forward rule, if there is one; from the derivative, where the op's rule multiplies by it; from
the op itself, where that is linear; else from its pullback, transposed. A partial multiplies by the conjugate of a
derivative: a real one is its own transpose; for a complex one, both tangent and result are conjugated.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import MissingRule, TapeError
from tapegrad.numbers.cotangents import ZeroTangent, dtype_of, shape_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import as_kind, holds_objects, system
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import holds_tensor, is_tensor
from tapegrad.ops.elementwise import add, astype, conj, is_complex, is_inexact, real, scalar
from tapegrad.ops.shape import stretched
from tapegrad.rules.activity import nothing_flows
from tapegrad.rules.facts import EACH, Frule, Linear
from tapegrad.rules.op import Op, as_numpy
from tapegrad.transforms.transpose import transposed

Tangents = Sequence[Any]
"""One for each positional argument of a call, None where there is none."""


def tangent(op: Op, y: Any, args: Sequence[Any], kwargs: dict[str, Any], tangents: Tangents,
            pullback: Any = None) -> Any:
    """Return the tangent of a call's value `y`, None where nothing flows; `pullback` is one kept while recording."""
    ts = [None if t is None or nothing_flows(op, i) else t for i, t in enumerate(tangents)]
    if not carries(op, y, kwargs) or all(t is None for t in ts):
        return None
    total: Any = None
    for part in _parts(op, y, args, kwargs, ts, pullback):
        if part is not None:
            total = part if total is None else add(total, part)
    return total if total is None or isinstance(total, (tuple, dict)) else settled(total, y)


def carries(op: Op, y: Any, kwargs: dict[str, Any]) -> bool:
    """Return False for a call that rounds to integers or compares: no tangent flows through."""
    dtype = dtype_of(y)
    if dtype is not None and dtype.kind == "b":
        return False
    return not (op is astype or op.__name__ == "setitem"
                or kwargs.get("dtype") is not None) or dtype is None or is_inexact(dtype)


def _parts(op: Op, y: Any, args: Sequence[Any], kwargs: dict[str, Any], ts: list[Any], pullback: Any) -> Iterator[Any]:
    rest: list[Any] = list(ts)
    if op.tangent is not None and type(op.tangent) is not Linear:
        found = _by_rule(op, y, args, kwargs, ts)
        if found is not NotImplemented:
            yield found
            return
    if op.pointwise:
        for i, t in enumerate(ts):
            if t is not None and (is_complex(y) or not is_complex(args[i])):
                rest[i] = None
                yield _by_derivative(op, i, t, y, args, kwargs)
    elif op.tangent is not None:
        yield from _by_itself(op, args, kwargs, ts, rest)
    if any(t is not None for t in rest):
        yield _by_pullback(op, op.pullback(y, tuple(args), kwargs) if pullback is None else pullback, y, rest)


def _by_rule(op: Op, y: Any, args: Sequence[Any], kwargs: dict[str, Any], ts: Tangents) -> Any:
    """Return the tangent by the forward rule of the user or of the op."""
    tensors = holds_tensor((*ts, *args))
    if tensors:
        ts, y, args, kwargs = [None if t is None else wrap(t) for t in ts], wrap(y), wrap(tuple(args)), wrap(kwargs)
    rule: Any = op.tangent
    found = rule(*args, **kwargs)[1](*ts) if type(rule) is Frule else rule(ts, y, *args, **kwargs)
    return unwrap(found) if tensors and found is not NotImplemented else found


def _by_pullback(op: Op, pullback: Any, y: Any, tangents: Tangents) -> Any:
    try:
        return transposed(pullback, y, tangents)
    except MissingRule:
        raise
    except TapeError as err:
        raise type(err)(f"the tangent of {op.__name__} is computed from its pullback, which cannot be traced: "
                        f"{err.what}",
                        err.where,
                        "write the pullback with NumPy or tapegrad's ops; or tg.grad, which calls it as it is") from err


def _by_derivative(op: Op, i: int, t: Any, y: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the tangent times the derivative by argument `i`."""
    partials: Any = op.partials
    partial = partials[i] if isinstance(partials, tuple) else functools.partial(partials, i)
    tensors = holds_tensor((t, y, *args))
    given: Any = wrap((t, y, *args)) if tensors else (t, y, *args)
    t, y, *args = given
    try:
        found = partial(conj(t), y, *args, **kwargs)
    except ArithmeticError as err:
        found = as_numpy(partial, conj(t), y, args, kwargs, err)
    if type(found) is ZeroTangent:
        return None
    return unwrap(conj(found)) if tensors else conj(found)


def _by_itself(op: Op, args: Sequence[Any], kwargs: dict[str, Any], ts: Tangents, rest: list[Any]) -> Iterator[Any]:
    """Yield the result of a linear op on the tangents, and remove from `rest` those in which it is linear."""
    if op.tangent == EACH:
        for i, t in enumerate(ts):
            if t is not None:
                rest[i] = None
                yield op(*args[:i], t, *args[i + 1:], **kwargs)
        return
    places = linear_places(op, len(args)) or ()
    if any(ts[i] is not None for i in places):
        given, objects = list(args), any(holds_objects(plain(x)) for x in args)
        for i in places:
            rest[i], given[i] = None, _zeros(args[i], objects) if ts[i] is None else ts[i]
        yield op(*given, **kwargs)


def linear_places(op: Op, count: int) -> Sequence[int] | None:
    """Return the arguments, out of `count`, in which an op is jointly linear; None where it has a rule of its own."""
    how = op.tangent
    if type(how) is not Linear:
        return None
    return range(count) if how.places is None else how.places


def _zeros(x: Any, objects: bool) -> Any:
    """Return zeros with the memory layout of an argument, exact ones if there are `objects` beside them."""
    shape, x = shape_of(x), plain(x)
    if is_tensor(x):
        return torch.zeros_like(x, dtype=x.dtype if x.is_floating_point() or x.is_complex() else torch.float64)
    dtype = dtype_of(x)
    if dtype is None:
        return 0 if objects else 0.0 if system(x) is None else as_kind(0, type(x))
    kept = dtype if letter(dtype) in INEXACT else np.dtype(float)
    return np.zeros_like(x, kept) if shape else kept.type(0)


def settled(t: Any, y: Any) -> Any:
    """Convert a tangent to its value's shape and precision, real if that is; an integer's tangent stays a float."""
    shape, dtype, given = shape_of(y), dtype_of(y), dtype_of(t)
    if shape_of(t) != shape:
        t = stretched(t, shape)
    if dtype is None:
        return t if isinstance(plain(y), complex) or not is_complex(t) else real(t)
    if given == dtype:
        return t
    t = scalar(t) if given is None else t
    if dtype.kind != "c" and is_complex(t):
        t = real(t)
    return astype(t, dtype=dtype) if letter(dtype) in "fc" and dtype_of(t) != dtype else t
