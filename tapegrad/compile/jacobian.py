"""jacobian, hessian, hvp: derivatives of more than one number, row by row or column by column.

A function is run once, and its tape swept once for each row or column. Where these are many, the sweep itself, which is linear, becomes a
tape, and that is compiled. What is called often is compiled as a function of the arguments too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.cache import compile
from tapegrad.errors import ArgumentError, TapeError
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import brief, plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import holds_tensor, is_tensor
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Call, Tape
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record, trace
from tapegrad.transforms.forward import Push, jvp
from tapegrad.transforms.grad import gradients_of, pullback
from tapegrad.tree.argnums import Argnums, Wanted, wanted
from tapegrad.tree.flatten import Structure, flatten, is_leaf, leaves_of

MODES = ("auto", "forward", "reverse")
MANY = 64  # sweeps of one tape, from which on it pays to compile the sweep
OFTEN = 3  # calls with one kind of arguments, after which it may pay to compile what one sweep computes
PATIENCE = 16  # such calls in a row that gained nothing


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

    return Derivative(f, asked, mode)


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function of f's arguments that returns the second derivatives of its value, a real number: forward over reverse.

    For an array it has that array's shape twice. With several `argnums`, or of a nested argument, it is nested as the gradient is, and in each
    place once more. Raises ArgumentError where the value is no real number.

    >>> hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    asked = _asked(argnums)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        return pullback(f, *args, argnums=argnums_of(asked, args), **kwargs)[1](1)
    gradient.__name__ = _name(f)
    return Derivative(gradient, asked, "forward")


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
        if not args:
            raise ArgumentError("there is no vector", None, "tg.hvp(f)(x, v): it stands behind the argument that it belongs to")
        given, vector = (*args[:at], *args[at + 1:]), args[at]
        if not one and not (isinstance(vector, (tuple, list)) and len(vector) == len(several)):
            raise ArgumentError(f"the vectors are {brief(vector)}", None, f"a tuple of {len(several)}, one for each of the argnums")
        along = dict(zip(several, (vector,) if one else vector))
        tangents = [along.get(i) for i in range(len(given))]
        def gradient(*args: Any) -> Any:
            return pullback(f, *args, argnums=places, **kwargs)[1](1)
        return jvp(gradient, given, tangents)[1]
    product.__name__ = _name(f)
    return compile(product)


def _asked(argnums: Any) -> Wanted:
    if argnums is None:
        raise ArgumentError("argnums is None", None, "argnums=0 for the first positional argument, argnums=(0, 1) for the first two")
    return wanted(argnums, True)


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


class Layout:
    """How the derivative of a value by inputs is put together of columns, one for each number of the inputs, or of rows."""

    def __init__(self, tape: Tape, mode: str) -> None:
        self.signature = tape.structure
        self.value = tape.result.val  # type: ignore[union-attr]
        self.leaves: list[Any] = []
        self.structure: Structure = flatten(self.value, "", self.leaves, [], shared=False)
        if not any(map(has_gradient, self.leaves)):
            raise ArgumentError(f"the function returns {self.value!r}, which has no derivative", None, "return a number or an array")
        values = [x.val for x in tape.inputs[1:]]
        self.size = len(values)
        self.places = [k for part in self.signature.asked for k in range(part.start, part.start + part.size) if has_gradient(values[k])]
        self.inputs = {k: values[k] for k in self.places}
        if any(map(_is_complex, self.inputs.values())):
            raise ArgumentError("an argument is complex: the derivative by it is two, unless the function is holomorphic", None,
                                "tg.jvp along 1 and 1j, or the real and the imaginary part as arguments")
        size_in, size_out = (sum(math.prod(shape_of(x)) for x in xs) for xs in (self.inputs.values(), self.leaves))
        self.by_columns = mode == "forward" or (mode == "auto" and size_in <= size_out)
        self.count = size_in if self.by_columns else size_out

    def blocks(self, sweep: Callable[[int], Callable[[Any], list[Any]]]) -> Any:
        """Return the derivative of each leaf of the value by each input, nested as these are.

        `sweep(i)` is a function from a tangent of input `i` to those of the value's leaves, or from a cotangent of leaf `i` to those of the inputs.
        """
        made = self._columns(sweep) if self.by_columns else self._rows(sweep)
        nests = [self.signature.gradients([row.get(k) for k in range(self.size)]) for row in made]
        return nests[0] if self.structure.is_leaf else self.structure.mirror(nests)

    def _columns(self, sweep: Callable[[int], Callable[[Any], list[Any]]]) -> list[dict[int, Any]]:
        rows: list[dict[int, Any]] = [{} for _ in self.leaves]
        for k, x in self.inputs.items():
            along = sweep(k)
            columns = [along(unit) for unit in units(x)]
            for row, y, found in zip(rows, self.leaves, zip(*columns) if columns else [()] * len(rows)):
                row[k] = _block(found, y, x, -1)
        return rows

    def _rows(self, sweep: Callable[[int], Callable[[Any], list[Any]]]) -> list[dict[int, Any]]:
        rows: list[dict[int, Any]] = []
        for i, y in enumerate(self.leaves):
            found: list[list[Any]] = []
            if has_gradient(y):
                back = sweep(i)
                found = [back(unit) for unit in units(y)]
                if _is_complex(y):  # seeded by 1j, the gradient of the imaginary part
                    found = [[a + 1j * b for a, b in zip(one, back(1j * unit))] for one, unit in zip(found, units(y))]
            columns = zip(*found) if found else [()] * len(self.inputs)
            rows.append({k: _block(part, y, x, 0) for (k, x), part in zip(self.inputs.items(), columns)})
        return rows

    def tangents(self, k: int, unit: Any, blank: dict[int, Any]) -> tuple[Any, ...]:
        """Return tangents of all arguments that are `unit` for input `k`, and `blank` for the others."""
        leaves = [unit if i == k else blank.get(i) for i in range(self.size)]
        return tuple([part.mirror(leaves) for part in self.signature.args])

    def seed(self, i: int, unit: Any) -> Any:
        """Return a cotangent of the value that is `unit` for leaf `i`."""
        return unit if self.structure.is_leaf else self.structure.mirror([unit if k == i else None for k in range(len(self.leaves))])

    def of_value(self, tangent: Any) -> list[Any]:
        """Return the leaves of a tangent of the value."""
        return [tangent] if self.structure.is_leaf else self.structure.unmirror(tangent)

    def of_inputs(self, gradients: Any) -> list[Any]:
        """Return of gradients that were asked for those of the inputs."""
        nests = [gradients] if self.signature.is_single else gradients
        leaves = {part.start + k: leaf for part, nest in zip(self.signature.asked, nests) for k, leaf in enumerate(part.unmirror(nest))}
        return [leaves[k] for k in self.places]


class Sweeps:
    """One evaluation of a function, and the sweeps of its tape, forwards or backwards."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], asked: Wanted, mode: str) -> None:
        self.tape = record(f, args, kwargs, DEFAULT, grad=True, copy=True, wanted=asked, replays=False)
        self.layout = Layout(self.tape, mode)
        self.traced = any(isinstance(op.val, Traced) for op in self.tape.ops)  # inside another trace, which has to see what is computed
        self.tensors = holds_tensor(leaves_of((args, self.layout.value)))

    def blocks(self) -> Any:
        """Return the derivative."""
        return self.layout.blocks(self._sweep)

    def _sweep(self, i: int) -> Callable[[Any], list[Any]]:
        layout = self.layout
        sweep = _Column(layout, Push(self.tape), i) if layout.by_columns else _Row(layout, self.tape, i)
        if layout.count < MANY or self.traced or self.tensors:
            return sweep
        return compile(trace(sweep, next(units(layout.inputs[i] if layout.by_columns else layout.leaves[i])))[1])


class _Column:
    """The derivative along one input, as a function of its tangent."""

    def __init__(self, layout: Layout, push: Push, k: int) -> None:
        self.layout, self.push, self.k = layout, push, k

    def __call__(self, unit: Any) -> list[Any]:
        return self.layout.of_value(self.push.along({self.k + 2: unit}))  # on the tape, %1 is the function


class _Row:
    """The gradients of one leaf of the value, as a function of its cotangent."""

    def __init__(self, layout: Layout, tape: Tape, i: int) -> None:
        self.layout, self.tape, self.i = layout, tape, i

    def __call__(self, unit: Any) -> list[Any]:
        return self.layout.of_inputs(gradients_of(self.tape, self.layout.seed(self.i, unit)))


class Derivative:
    """A function of f's arguments that returns the derivative of its value.

    Each call runs `f` once, and sweeps its tape. Where arguments of one kind come often, what one sweep computes is compiled as a function of the
    arguments: where that gives all columns without a trace, and in less time, it is what calls run. Nothing that draws random numbers, or
    changes from run to run, is compiled: its columns would not belong together.
    """

    def __init__(self, f: Callable[..., Any], asked: Wanted, mode: str) -> None:
        self._f, self._asked, self._mode = f, asked, mode
        self.__name__, self.__doc__ = _name(f), getattr(f, "__doc__", None)
        self._known: dict[Any, _Kind] = {}

        def column(*given: Any) -> Any:  # side by side: what is nested takes longer to pass
            return jvp(f, given[:len(given) // 2], given[len(given) // 2:])[1]

        def row(*given: Any) -> Any:
            *args, seed = given
            return pullback(f, *args, argnums=argnums_of(asked, args))[1](seed)
        self._column, self._row = compile(column, warmup=1), compile(row, warmup=1)  # it is called once for each number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = None if kwargs else _kind_of(args)
        kind = self._known.get(key)
        if kind is not None and kind.calls >= OFTEN and kind.patience:
            found = kind.quickly(args, self._column if kind.layout.by_columns else self._row)
            if found is not None:
                return found
        start = perf_counter()
        sweeps = Sweeps(self._f, args, kwargs, self._asked.among(len(args)), self._mode)
        found = sweeps.blocks()
        if key is not None and not (sweeps.traced or sweeps.tensors):
            if kind is None:
                kind = self._known[key] = _Kind(sweeps.layout, sweeps.tape)
            kind.calls, kind.seconds = kind.calls + 1, min(kind.seconds, perf_counter() - start)
        return found

    def __repr__(self) -> str:
        return f"<derivative of {self.__name__}>"


class _Kind:
    """What is known of calls with one kind of arguments: how the result is put together, and what a call takes."""

    def __init__(self, layout: Layout, tape: Tape) -> None:
        self.layout, self.calls, self.seconds = layout, 0, math.inf
        self.patience = 0 if any(type(op) is Call and op.fn in (ops.draw, ops.default_rng) for op in tape.ops) else PATIENCE
        self.blank = {k: np.zeros_like(next(units(x), x)) if shape_of(x) else 0.0 for k, x in layout.inputs.items()}
        self.shapes = [shape_of(y) for y in layout.leaves]

    def quickly(self, args: tuple[Any, ...], run: Any) -> Any:
        """Return the derivative by compiled columns or rows, None where one of them had to be traced, or the value has another nesting or shape."""
        layout, traces, start = self.layout, run.stats.traces, perf_counter()

        def sweep(i: int) -> Callable[[Any], list[Any]]:
            def column(unit: Any) -> list[Any]:
                found = layout.of_value(run(*args, *layout.tangents(i, unit, self.blank)))
                return checked(found, [shape_of(t) for t in found] == self.shapes)

            def row(unit: Any) -> list[Any]:
                return checked(layout.of_inputs(run(*args, layout.seed(i, unit))), True)

            def checked(found: list[Any], fits: bool) -> list[Any]:
                if not fits or run.stats.traces != traces:
                    raise _Otherwise
                return found
            return column if layout.by_columns else row
        try:
            found = layout.blocks(sweep)
        except (_Otherwise, TapeError):  # what raises raises again where it is not compiled
            self.patience -= 1
            return None
        slower = perf_counter() - start > self.seconds
        self.patience = self.patience - 1 if slower else PATIENCE
        return found


def _kind_of(args: tuple[Any, ...]) -> Any:
    """Return what the derivative is put together by: how arguments are nested, their types, shapes and dtypes."""
    nests = [None if is_leaf(arg) else repr(flatten(arg, "", [], [])) for arg in args]
    return (*nests, *[(type(x), shape_of(x), dtype_of(x)) for x in leaves_of(args)])


class _Otherwise(Exception):
    """A sweep was no run of a compiled tape."""


def argnums_of(asked: Wanted, args: Sequence[Any]) -> Any:
    """Return which arguments are asked for."""
    return asked.among(len(args)).argnums


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
