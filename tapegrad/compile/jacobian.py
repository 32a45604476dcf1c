"""jacobian, hessian, hvp: derivatives of more than one number, row by row or column by column.

A function is run once, and its tape swept once for each row or column. Where these are many, the sweep itself, which is linear, becomes a
tape, and that is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.cache import compile
from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import holds_tensor, is_tensor
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.registry import Traced
from tapegrad.tape.tape import Input, Tape
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record, trace
from tapegrad.transforms.forward import Push, jvp
from tapegrad.transforms.grad import gradients_of, pullback
from tapegrad.tree.argnums import Argnums, Wanted, wanted
from tapegrad.tree.flatten import Structure, flatten, leaves_of

MODES = ("auto", "forward", "reverse")
MANY = 64  # sweeps of one tape, from which on it pays to compile the sweep


def jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: str = "auto") -> Callable[..., Any]:
    """Return a function of f's arguments that returns the derivative of each number of its value by each number of an argument.

    For arrays it has the value's shape followed by the argument's. A nested value gives that nesting of blocks, of which a nested argument makes
    nestings again; with several `argnums` each is a tuple. By columns (`mode="forward"`), by rows ("reverse"), or by what is fewer ("auto").
    What `f` captured is constant. Raises ArgumentError for complex arguments, for a value without numbers, and for another mode.

    >>> jacobian(lambda x: x ** 2)(np.array([1.0, 2.0, 3.0]))
    array([[2., 0., 0.],
           [0., 4., 0.],
           [0., 0., 6.]])
    """
    asked = _asked(argnums)
    if mode not in MODES:
        raise ArgumentError(f"there is no mode {mode!r}", None, f"one of {', '.join(map(repr, MODES))}")

    def derivative(*args: Any, **kwargs: Any) -> Any:
        return _Sweeps(f, args, kwargs, asked.among(len(args)), mode).blocks()
    return _named(derivative, f)


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function of f's arguments that returns the second derivatives of its value, a real number: forward over reverse.

    For an array it has that array's shape twice. With several `argnums`, or of a nested argument, it is nested as the gradient is, and in each
    place once more. Raises ArgumentError where the value is no real number.

    >>> hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    asked = _asked(argnums)

    def second(*args: Any, **kwargs: Any) -> Any:
        places = asked.among(len(args))
        return _Sweeps(_gradient(f, places.argnums, kwargs), args, {}, places, "forward").blocks()
    return _named(second, f)


def hvp(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function of f's arguments and a vector that returns the second derivative along it, at the cost of about two gradients.

    The vector stands right behind the argument that it belongs to, and is nested as that is: `hvp(f)(x, v, *rest)`, as `scipy.optimize` calls
    its `hessp`. With several `argnums` a tuple of vectors stands behind the last of them. The result is nested as the vector is.

    >>> hvp(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    asked = _asked(argnums)

    def product(*args: Any, **kwargs: Any) -> Any:
        places: Any = asked.among(max(len(args) - 1, 0)).argnums
        several, one = ((places,), True) if isinstance(places, int) else (places, False)
        at = max(several, default=-1) + 1
        given, vector = (*args[:at], *args[at + 1:]), args[at]
        along = dict(zip(several, (vector,) if one else vector, strict=True))
        tangents = [along.get(i) for i in range(len(given))]
        return jvp(_gradient(f, places, kwargs), given, tangents)[1]
    return _named(compile(product), f)


def _asked(argnums: Any) -> Wanted:
    if argnums is None:
        raise ArgumentError("argnums is None", None, "argnums=0 for the first positional argument, argnums=(0, 1) for the first two")
    return wanted(argnums, True)


def _gradient(f: Callable[..., Any], argnums: Any, kwargs: dict[str, Any]) -> Callable[..., Any]:
    def gradient(*args: Any) -> Any:
        return pullback(f, *args, argnums=argnums, **kwargs)[1](1)
    return gradient


def _named(made: Any, f: Any) -> Callable[..., Any]:
    made.__name__, made.__doc__ = getattr(f, "__name__", type(f).__name__), getattr(f, "__doc__", None)
    return made  # type: ignore[no-any-return]


class _Sweeps:
    """One evaluation of a function, and the sweeps of its tape, forwards or backwards."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], asked: Wanted, mode: str) -> None:
        self.tape = tape = record(f, args, kwargs, DEFAULT, grad=True, copy=True, wanted=asked, replays=False)
        self.value = tape.result.val  # type: ignore[union-attr]
        self.leaves: list[Any] = []
        self.structure: Structure = flatten(self.value, "", self.leaves, [], shared=False)
        if not any(map(has_gradient, self.leaves)):
            raise ArgumentError(f"the function returns {self.value!r}, which has no derivative", None, "return a number or an array")
        self.parts: Sequence[Any] = tape.structure.asked
        self.inputs = [x for part in self.parts for x in tape.inputs[part.start + 1: part.start + 1 + part.size] if has_gradient(x.val)]
        if any(map(_is_complex, [x.val for x in self.inputs])):
            raise ArgumentError("an argument is complex: the derivative by it is two, unless the function is holomorphic", None,
                                "tg.jvp along 1 and 1j, or the real and the imaginary part as arguments")
        size_in, size_out = (sum(math.prod(shape_of(x)) for x in xs) for xs in ([x.val for x in self.inputs], self.leaves))
        self.by_columns = mode == "forward" or (mode == "auto" and size_in <= size_out)
        self.many = (size_in if self.by_columns else size_out) >= MANY and not holds_traced(tape) and not holds_tensor(leaves_of((args, self.value)))

    def blocks(self) -> Any:
        """Return the derivative of each leaf of the value by each input, nested as these are."""
        made = self._columns() if self.by_columns else self._rows()
        nests = [self._nest(row) for row in made]
        return nests[0] if self.structure.is_leaf else self.structure.mirror(nests)

    def _nest(self, row: dict[Input, Any]) -> Any:
        leaves: list[Any] = [row.get(x) for x in self.tape.inputs[1:]]
        return self.tape.structure.gradients(leaves)

    def _columns(self) -> list[dict[Input, Any]]:
        rows: list[dict[Input, Any]] = [{} for _ in self.leaves]
        for x in self.inputs:
            sweep = self._quick(_Column(Push(self.tape), x), x.val)
            columns = [self._leaves_of(sweep(unit)) for unit in units(x.val)]
            for row, y, found in zip(rows, self.leaves, zip(*columns) if columns else [()] * len(rows)):
                row[x] = _block(found, y, x.val, -1)
        return rows

    def _rows(self) -> list[dict[Input, Any]]:
        rows: list[dict[Input, Any]] = []
        for i, y in enumerate(self.leaves):
            found: list[list[Any]] = []
            if has_gradient(y):
                sweep = self._quick(_Row(self, i), y)
                found = [sweep(unit) for unit in units(y)]
                if _is_complex(y):  # seeded by 1j, the gradient of the imaginary part
                    found = [[a + 1j * b for a, b in zip(one, sweep(1j * unit))] for one, unit in zip(found, units(y))]
            columns = zip(*found) if found else [()] * len(self.inputs)
            rows.append({x: _block(part, y, x.val, 0) for x, part in zip(self.inputs, columns)})
        return rows

    def _leaves_of(self, tangent: Any) -> list[Any]:
        return [tangent] if self.structure.is_leaf else self.structure.unmirror(tangent)

    def _quick(self, sweep: Callable[[Any], Any], like: Any) -> Callable[[Any], Any]:
        """Return a sweep as a compiled tape, where it is made often."""
        if not self.many:
            return sweep
        return compile(trace(sweep, next(units(like)))[1])


class _Column:
    """The derivative along one input, as a function of its tangent."""

    def __init__(self, push: Push, x: Input) -> None:
        self.push, self.x = push, x

    def __call__(self, unit: Any) -> Any:
        return self.push.along({self.x.id: unit})


class _Row:
    """The gradients of one leaf of the value, as a function of its cotangent."""

    def __init__(self, sweeps: _Sweeps, i: int) -> None:
        self.sweeps, self.i = sweeps, i

    def __call__(self, unit: Any) -> list[Any]:
        of = self.sweeps
        seed = unit if of.structure.is_leaf else of.structure.mirror([unit if k == self.i else None for k in range(len(of.leaves))])
        found = gradients_of(of.tape, seed)
        nests = [found] if of.tape.structure.is_single else found
        leaves = {part.start + k: leaf for part, nest in zip(of.parts, nests) for k, leaf in enumerate(part.unmirror(nest))}
        at = {x: k for k, x in enumerate(of.tape.inputs[1:])}
        return [leaves[at[x]] for x in of.inputs]


def holds_traced(tape: Tape) -> bool:
    """True for a tape of a trace inside another, which has to see what is computed."""
    return any(isinstance(op.val, Traced) for op in tape.ops)


def _is_complex(x: Any) -> bool:
    return isinstance(x, complex) or getattr(dtype_of(x), "kind", "") == "c"


def units(x: Any) -> Iterator[Any]:
    """Yield for each number of a value what is 1 there, and 0 elsewhere."""
    shape, x = shape_of(x), plain(x)
    dtype = dtype_of(x)
    if is_tensor(x):
        for k in range(x.numel()):
            unit = torch.zeros(x.numel(), dtype=x.dtype if dtype.kind in "fc" else torch.float64, device=x.device)
            unit[k] = 1
            yield unit.reshape(shape)
        return
    kept = np.dtype(float) if dtype is None or dtype.kind not in "fc" else dtype
    for k in range(math.prod(shape)):
        if not isinstance(x, np.ndarray):
            yield 1.0 + 0j if isinstance(x, complex) and dtype is None else 1.0 if dtype is None else kept.type(1)
            continue
        unit = np.zeros(math.prod(shape), kept)
        unit[k] = 1
        yield unit.reshape(shape)


def _block(found: Sequence[Any], y: Any, x: Any, axis: int) -> Any:
    """Put rows or columns together to a block of the value's shape followed by the input's."""
    if not has_gradient(y):
        return None
    out, inner = shape_of(y), shape_of(x)
    if not found:
        return np.zeros((*out, *inner)) if not is_tensor(plain(x)) else torch.zeros((*out, *inner), dtype=plain(x).dtype, device=plain(x).device)
    if not (out if axis else inner) and not (inner if axis else out):
        return found[0]
    block = ops.reshape(ops.stack(*found, axis=axis), (*out, *inner))
    dtype = dtype_of(y)
    return block if dtype is None or dtype.kind not in "fc" or dtype_of(block) == dtype else ops.astype(block, dtype=dtype)  # rows have the input's
