"""loop_types: the types of the derivatives of values that loops carry, collect and are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.errors import Location, TapeError
from tapegrad.numbers.cotangents import Absorbing, dense
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import as_kind, system
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import add, astype, getfield, pack, scalar, zeros
from tapegrad.ops.loop import Loop
from tapegrad.ops.structure import put_results
from tapegrad.tape.tape import Call, Input, Operation, Tape, value_of
from tapegrad.trace.recorder import Tracer
from tapegrad.transforms.primal_copy import ScalarTracer
from tapegrad.tree.flatten import flatten

# The type of a carried value's derivative is found by trial: from the first iteration on, it is the type that the body
# computes.
TRIES = 4


class NoLoop(TapeError):
    """Raised where a loop's derivative is no loop: a rule reads values, or types change between iterations."""

    def __init__(self, what: str = "the derivative of a loop is no loop", where: Location | None = None,
                 try_: str = "tg.unroll(tape)") -> None:
        super().__init__(what, where, try_)


class Plain(ScalarTracer):
    """Records views as computed values: rules of a body do not write to them, and their place may vary by iteration."""

    __slots__ = ()

    def fields(self, op: Operation, args: tuple[Any, ...] = ()) -> Any:
        return super().fields(op, (None,))


def zero(x: Any) -> Any:
    """Return a zero derivative of `x`, as a sample of the type."""
    if is_tensor(x):
        return torch.zeros(x.shape, dtype=x.dtype if x.is_floating_point() or x.is_complex() else torch.float64,
                           device=x.device)
    if isinstance(x, (np.ndarray, np.generic)):
        dtype = x.dtype if letter(x.dtype) in INEXACT else np.dtype(float)
        return np.zeros(x.shape, dtype) if isinstance(x, np.ndarray) else dtype.type(0)
    if system(x) is not None:
        return as_kind(0, type(x))
    return 0j if isinstance(x, complex) else 0.0


def begin(dy: Any, like: Any) -> Any:
    """Return the cotangent of a last value, or the tangent of a first one, in the type that it has in the loop."""
    dy = dense(dy)
    if isinstance(dy, Absorbing):
        return nothing(like)
    given = kind_of(dy)
    if kind_of(like) == given or (type(like) is float and given[0] is np.float64):
        return dy
    if is_tensor(like) and type(dy) in (int, float) and not like.ndim:
        return torch.full_like(like, dy)
    if isinstance(like, np.inexact) and (given == (float,)
                                         or (given[1:2] == ((),) and np.can_cast(given[2], like.dtype))):
        return scalar(dy) if type(like) is np.float64 and given == (float,) else astype(dy, dtype=like.dtype)
    raise NoLoop


def nothing(like: Any) -> Any:
    """Return zeros of the type of `like`, in an array that may be written to."""
    if is_tensor(like):
        return torch.zeros_like(like)
    return zeros(like.shape, dtype=like.dtype) if type(like) is np.ndarray else type(like)(0)


def kind_of(x: Any) -> Any:
    x = x._val if hasattr(type(x), "_tracer") else x
    return (type(x), x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) or is_tensor(x) else (type(x),)


class Listed:
    """The derivative of a sequence that a loop collected or was listed, as one value: a proxy of a tuple."""

    __slots__ = ("proxy", "tracer")

    def __init__(self, proxy: Any, tracer: Tracer) -> None:
        self.proxy, self.tracer = proxy, tracer

    def element(self, k: int) -> Any:
        """Return the cotangent of one element."""
        return self.tracer.append(Call(getfield, (self.proxy._op, k), None, self.proxy._val[k]))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Absorbing):
            return self
        tracer, vals = self.tracer, self.proxy._val
        if type(other) is Listed:
            b = other.proxy._op
        else:
            none = nothing(vals[0])
            b = packed([none if isinstance(dx, Absorbing) else begin(dx, vals[0]) for dx in dense(other)],
                       tracer)
        if any(kind_of(x) != kind_of(y) for x, y in zip(vals, b.val, strict=True)):
            raise NoLoop
        body = Tape(None, "loop")
        x, y = (body.push(Input(like)) for like in (vals[0], b.val[0]))
        put_results(body, [body.push(Call(add, (x, y), None, x.val + y.val))])
        loop = tracer.place(Call(Loop(body, len(vals), (), 0, 2, 0), (self.proxy._op, b), None, (vals,)))
        return Listed(tracer.proxy(tracer.place(Call(getfield, (loop, 0), None, vals)), vals, tracer), tracer)

    __radd__ = __add__


def sequence(dy: Any, like: Any, count: int, tracer: Tracer) -> Operation:
    """Return the cotangent of a collected result: a tuple whose elements have their type in the loop."""
    if type(dy) is Listed:
        if any(kind_of(element) != kind_of(like) for element in dy.proxy._val):
            raise NoLoop
        return dy.proxy._op  # type: ignore[no-any-return]
    dy = dense(dy)
    if isinstance(dy, Absorbing):
        return packed([nothing(like)] * count, tracer)
    if any(isinstance(element, Absorbing) for element in dy):
        raise NoLoop  # nothing but 0 * inf flows to some iterations
    return packed([begin(element, like) for element in dy], tracer)


def packed(elements: Sequence[Any], tracer: Tracer) -> Operation:
    """Record a tuple on the tape."""
    lifted: dict[int, Any] = {id(element): tracer.lift(element) for element in elements}
    parts = tuple([lifted[id(element)] for element in elements])
    into = flatten(tuple([0] * len(parts)), "", [], [])
    return tracer.place(Call(pack, parts, {"into": into}, tuple(map(value_of, parts))))


def lifted(arg: Any, tracer: Tracer) -> Any:
    """Return the operation or constant of a loop's argument; a sequence is one operation."""
    return tracer.lift(tracer.pack(arg) if type(arg) is tuple else arg)


def field(tracer: Tracer, call: Operation, k: int, val: Any) -> Any:
    """Return a proxy of one of a loop's results; a collected sequence is one value."""
    made = Call(getfield, (call, k), None, val)
    return tracer.proxy(tracer.place(made), val, tracer) if type(val) is tuple else tracer.append(made)
