"""jacobian, hessian: derivatives of functions with many values or inputs, all rows or columns in one sweep.

A function is run once. The sweep of its tape for one row or column is linear; it is recorded as a tape, which runs
batched over all of them. Frequent calls compile all of that as one function of the arguments.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np

from tapegrad import ops
from tapegrad.compile.cache import NONE
from tapegrad.compile.compiling import compile
from tapegrad.compile.derived_function import CompiledDerivative
from tapegrad.compile.memo import anew, memoised
from tapegrad.errors import ArgumentError, TapeError
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.quantities import measure_of
from tapegrad.numbers.tensors import is_memory, is_tensor, is_writable
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.tape.tape import Constant, Tape
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.inputs import named_as
from tapegrad.trace.tracer import record
from tapegrad.trace.write_back import settle
from tapegrad.transforms.batch import Nest, Pass, spread
from tapegrad.transforms.forward import Push
from tapegrad.transforms.grad import gradient_of, gradients_of
from tapegrad.transforms.seed import pair_of
from tapegrad.transforms.watched import watch
from tapegrad.tree.argnums import Argnums, Wanted, wanted
from tapegrad.tree.flatten import Structure, flatten, is_leaf, leaves_of

Sweep = Callable[..., list[Any]]
Given = Callable[[int, int], list[Any]]
Direction = Literal["auto", "forward", "reverse"]
ROOM = 1 << 27  # bytes of the largest intermediate value, for all rows or columns of a chunk
OFTEN = 3  # calls with one kind of arguments, after which compiling may pay
PATIENCE = 16  # such calls in a row that were traced nevertheless, after which compiling stops
TENSORS = "tensors, with which derivatives are computed directly"


@memoised
def jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: Direction = "auto",
             chunk_size: int | None = None, has_aux: bool = False) -> Derivative:
    """Return a function of f's arguments that returns the derivative of each number of its value with respect to each
    number of an argument.

    For arrays it has the value's shape followed by the argument's. A nested value gives that nesting of blocks, each
    nested like the argument; with several `argnums` each is a tuple. It is computed by columns (`mode="forward"`), by
    rows ("reverse"), or by whichever are fewer ("auto"), at most `chunk_size` in one sweep; None stands for as many as
    let the largest intermediate array fit in 128 MiB. Values that `f` captured are constant. With `has_aux`, `f`
    returns a pair; the first item is differentiated, and the result is the pair of the derivative and the second item.
    Raises ArgumentError for complex arguments, for a value without numbers, and for another mode.

    >>> jacobian(lambda x: x ** 2)(np.array([1.0, 2.0, 3.0]))
    array([[2., 0., 0.],
           [0., 4., 0.],
           [0., 0., 6.]])
    """
    made = Sweeps.blocks_and_aux if has_aux else Sweeps.blocks
    return Derivative(f, asked_for(argnums, "jacobian"), *checked_mode(mode, chunk_size), made, has_aux=has_aux)


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Derivative:
    """Return `jacobian(f, argnums, mode="forward")`: column by column, for a function with few inputs.

    >>> jacfwd(lambda t: t ** 2 * np.arange(3.0))(3.0)
    array([ 0.,  6., 12.])
    """
    return jacobian(f, argnums, "forward", has_aux=has_aux)


def jacrev(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Derivative:
    """Return `jacobian(f, argnums, mode="reverse")`: row by row, for a function with few results.

    >>> jacrev(lambda x: x.sum() ** 2)(np.array([1.0, 2.0]))
    array([6., 6.])
    """
    return jacobian(f, argnums, "reverse", has_aux=has_aux)


@memoised
def value_and_jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: Direction = "auto",
                       chunk_size: int | None = None, has_aux: bool = False) -> Derivative:
    """Return a function of f's arguments that returns its value and the result of `jacobian`, from one run; with
    `has_aux`, `((value, aux), jacobian)`.

    >>> value_and_jacobian(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    (array([3., 6.]), array([[3., 0., 1.],
           [0., 3., 2.]]))
    """
    return Derivative(f, asked_for(argnums, "value_and_jacobian"), *checked_mode(mode, chunk_size), _with_value,
                      has_aux=has_aux)


@memoised
def hessian(f: Callable[..., Any], argnums: Argnums = 0, chunk_size: int | None = None,
            has_aux: bool = False) -> Derivative:
    """Return a function of f's arguments that returns the second derivatives of its value, a real number: forward over
    reverse.

    For an array argument the result has its shape twice. With several `argnums`, or for a nested argument, it is nested
    like the gradient, twice. `chunk_size` and `has_aux` are those of `jacobian`. Raises ArgumentError if the value is
    not a real number.

    >>> hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    asked = asked_for(argnums, "hessian")
    made = Derivative(gradient_of(f, asked, has_aux), asked, *checked_mode("forward", chunk_size),
                      Sweeps.blocks_and_aux if has_aux else Sweeps.blocks, has_aux=has_aux)
    made.named(f, functools.partial(anew, hessian, f, argnums, chunk_size, has_aux))
    return made


def checked_mode(mode: str, chunk_size: int | None) -> tuple[str, int | None]:
    """Return the mode and chunk size of a sweep. Raises ArgumentError for invalid ones."""
    if mode not in get_args(Direction):
        raise ArgumentError(f"there is no mode {mode!r}", None, f"one of {', '.join(map(repr, get_args(Direction)))}")
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ArgumentError(f"chunk_size is {chunk_size!r}", None,
                            "the number of rows or columns to compute at once, 1 or more; None for all")
    return mode, chunk_size


def asked_for(argnums: Any, of: str) -> Wanted:
    """Return the arguments to differentiate by, from the `argnums` of a transform; None is refused."""
    if argnums is None:
        raise ArgumentError("argnums is None", None,
                            "argnums=0 for the first positional argument, argnums=(0, 1) for the first two")
    return wanted(argnums, True, of)


class Layout:
    """The assembly of a derivative from columns, one for each number of the inputs, or from rows, one for each number
    of the value.
    """

    def __init__(self, tape: Tape, mode: str, by_complex: bool = False, has_aux: bool = False) -> None:
        self.by_complex, self.has_aux = by_complex, has_aux
        self.signature = tape.structure
        self.value, self.aux = tape.result.val, None
        if has_aux:
            self.value, self.aux = pair_of(self.value)
        self.signature.of = measure_of(self.value)
        self.leaves: list[Any] = []
        self.structure: Structure = flatten(self.value, "", self.leaves, [], shared=False)
        if not any(map(has_gradient, self.leaves)):
            raise ArgumentError(f"the function returns {self.value!r}, which has no derivative", None,
                                "return a number or an array")
        values = [x.val for x in tape.inputs[1:]]
        self.size = len(values)
        self.places = [k for part in self.signature.asked for k in range(part.start, part.start + part.size)
                       if has_gradient(values[k])]
        self.inputs = {k: values[k] for k in self.places}
        if by_complex and not all(map(ops.is_complex, self.inputs.values())):
            raise ArgumentError("an argument is real: there is no derivative by its conjugate", None,
                                "complex(x), or x + 0j for an array")
        if not by_complex and any(map(ops.is_complex, self.inputs.values())):
            raise ArgumentError("an argument is complex: unless the function is holomorphic, there are two "
                                "derivatives, by z and by its conjugate", None,
                                "tg.wirtinger(f)(z) for both, tg.holomorphic_derivative(f)(z), or pass the real and "
                                "imaginary parts as arguments")
        size_in, size_out = (sum(math.prod(shape_of(x)) for x in xs) for xs in (self.inputs.values(), self.leaves))
        hooked = any(op.fn is ops.hook for op in tape.ops)
        self.by_columns = mode == "forward" or (mode == "auto" and size_in <= size_out and not hooked)
        self.count = size_in if self.by_columns else size_out

    def blocks(self, sweep: Callable[[int], Sweep]) -> Any:
        """Return the derivative of each leaf of the value by each input, nested like these; by complex inputs the pair
        of derivatives by z and by its conjugate.

        For all units of input `i`, `sweep(i)(x)` returns the tangents of the value's leaves; by rows, for all units of
        leaf `i`, the cotangents of the inputs.
        """
        if not self.by_complex:
            return self._nested(self._columns(sweep) if self.by_columns else self._rows(sweep))
        if self.by_columns:  # along the real and the imaginary axis
            ways = self._columns(sweep), self._columns(sweep, 1j)
            return tuple([self._nested(_combined(*ways, lambda p, q, sign=sign: (p + sign * q) / 2))  # type: ignore[misc]
                          for sign in (-1j, 1j)])
        real, imaginary = self._rows(sweep), self._rows(sweep, 1j)  # x̄ + iȳ for both parts
        return (self._nested(_combined(real, imaginary, lambda p, q: (ops.conj(p) + 1j * ops.conj(q)) / 2)),
                self._nested(_combined(real, imaginary, lambda p, q: (p + 1j * q) / 2)))

    def _nested(self, made: list[dict[int, Any]]) -> Any:
        nests = [self.signature.gradients([row.get(k) for k in range(self.size)]) for row in made]
        whole = self.structure.is_leaf or self.signature.of is not None
        return nests[0] if whole else self.structure.mirror(nests)

    def _columns(self, sweep: Callable[[int], Sweep], factor: Any = 1) -> list[dict[int, Any]]:
        rows: list[dict[int, Any]] = [{} for _ in self.leaves]
        for k, x in self.inputs.items():
            for row, y, found in zip(rows, self.leaves, sweep(k)(x, factor) or [None] * len(rows)):
                row[k] = _block(found, y, x, by_columns=True)
        return rows

    def _rows(self, sweep: Callable[[int], Sweep], factor: Any = 1) -> list[dict[int, Any]]:
        rows: list[dict[int, Any]] = []
        for i, y in enumerate(self.leaves):
            found: list[Any] = []
            if has_gradient(y) and (factor == 1 or ops.is_complex(y)):
                found = sweep(i)(y, factor)
                # the seed 1j gives the gradient of the imaginary part
                if found and ops.is_complex(y) and not self.by_complex:
                    found = [a + 1j * b for a, b in zip(found, sweep(i)(y, 1j))]
            rows.append({k: _block(part, y, x, by_columns=False)
                         for (k, x), part in zip(self.inputs.items(), found or [None] * len(self.inputs))})
        return rows

    def seed(self, cotangents: dict[int, Any]) -> Any:
        """Return a cotangent of the value, from those of some of its leaves."""
        parts = [cotangents.get(k) for k in range(len(self.leaves))]
        seed = parts[0] if self.structure.is_leaf else self.structure.mirror(parts)
        return (seed, None) if self.has_aux else seed

    def of_value(self, tangent: Any) -> list[Any]:
        """Return the leaves of a tangent of the value."""
        tangent = tangent[0] if self.has_aux else tangent
        return [tangent] if self.structure.is_leaf else self.structure.unmirror(tangent)

    def of_inputs(self, gradients: Any) -> list[Any]:
        """Return the gradients of the inputs, from the nested gradients."""
        nests = [gradients] if self.signature.is_single else gradients
        leaves = {part.start + k: leaf for part, nest in zip(self.signature.asked, nests)
                  for k, leaf in enumerate(part.unmirror(nest))}
        return [leaves[k] for k in self.places]


def _combined(first: list[dict[int, Any]], second: list[dict[int, Any]],
              how: Callable[[Any, Any], Any]) -> list[dict[int, Any]]:
    return [{k: None if p is None else how(p, q[k]) for k, p in row.items()} for row, q in zip(first, second)]


class Sweeps:
    """One evaluation of a function, and the sweeps of its tape, forwards or backwards."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], asked: Wanted, mode: str,
                 chunk: int | None, by_complex: bool = False, has_aux: bool = False) -> None:
        self.tape = record(f, args, kwargs, DEFAULT, grad=True, copy=True, wanted=asked, replays=False)
        self.layout, self.mode = Layout(self.tape, mode, by_complex, has_aux), mode
        self.largest = max([op.spec.nbytes for op in self.tape.ops], default=1)
        self.chunk = None if chunk is None else plain(chunk)  # a compiled derivative captures it

    def ended(self, made: Callable[[Sweeps], Any]) -> Any:
        """Return `made(self)`, and apply the program's writes."""
        found = made(self)
        settle(self.tape)
        return found

    @property
    def value(self) -> Any:
        """The value of the function; the pair with the auxiliary result if there is one."""
        return (self.layout.value, self.layout.aux) if self.layout.has_aux else self.layout.value

    @property
    def draws(self) -> bool:
        """Whether the function draws random numbers."""
        return any(op.fn in (ops.draw, ops.default_rng) for op in self.tape.ops)

    def blocks(self) -> Any:
        return self.layout.blocks(self._sweep)

    def blocks_and_aux(self) -> tuple[Any, Any]:
        """Return the derivative and the auxiliary result."""
        return self.blocks(), self.layout.aux

    def _sweep(self, i: int) -> Sweep:
        layout = self.layout
        return functools.partial(self._of_units, Columns(layout, Push(self.tape), [i]) if layout.by_columns
                                 else Rows(layout, self.tape, [i]))

    def _of_units(self, sweep: Callable[[Any], list[Any]], x: Any, factor: Any = 1) -> list[Any]:
        """Return the results of a sweep for all units of a value, stacked."""
        def rows(start: int, stop: int) -> list[Any]:
            return [factor * unit_rows(x, start, stop)]
        return self.of_rows(sweep, math.prod(shape_of(x)), rows, lambda: ((factor * unit,) for unit in units(x)))

    def of_rows(self, sweep: Callable[..., list[Any]], count: int, rows: Given,
                each: Callable[[], Iterable[Sequence[Any]]], room: int = ROOM) -> list[Any]:
        """Return the results of a sweep for `count` rows of arguments, stacked: `rows(start, stop)` are some of them,
        and `each()` yields all.

        A chunk has as many rows as let the largest intermediate value fit into `room` bytes.
        """
        if count > 1:
            try:
                return self._at_once(sweep, count, rows,
                                     max(room // max(self.largest, 1), 1) if self.chunk is None else self.chunk)
            except (TapeError, _Otherwise):  # a pullback calls C, or branches by its cotangent: call it row by row
                pass
        found = [sweep(*row) for row in each()]
        return [None if column[0] is None else ops.stack(*column, axis=0) for column in zip(*found)]

    def _at_once(self, sweep: Callable[..., list[Any]], count: int, rows: Given, chunk: int) -> list[Any]:
        tape = record(sweep, tuple([part[0] for part in rows(0, 1)]), {}, DEFAULT)
        tracer = tracer_of([op.val for op in tape.ops if isinstance(op, Constant)])
        made: list[list[Any]] = []
        for start in range(0, count, chunk):
            size = min(chunk, count - start)
            given = rows(start, start + size)
            batch = Pass(tape, given, [True] * len(given), size, tracer)
            nest, flag = batch.batched()
            if batch.left:
                raise _Otherwise
            parts, flags = (nest.parts, nest.flags) if isinstance(nest, Nest) else (nest, [flag] * len(nest))
            made.append([y if y is None or by_row else spread(y, size) for y, by_row in zip(parts, flags)])
        return [column[0] if len(column) == 1 or column[0] is None else ops.concat(*column, axis=0)
                for column in zip(*made)]


class Columns:
    """The derivative along some inputs, as a function of their tangents."""

    def __init__(self, layout: Layout, push: Push, places: Sequence[int]) -> None:
        self.layout, self.push, self.places = layout, push, places

    def __call__(self, *tangents: Any) -> list[Any]:
        # on the tape, %1 is the function
        return self.layout.of_value(self.push.along({k + 2: t for k, t in zip(self.places, tangents)}))


class Rows:
    """The gradients of some leaves of the value, as a function of their cotangents."""

    def __init__(self, layout: Layout, tape: Tape, places: Sequence[int]) -> None:
        self.layout, self.tape, self.places = layout, tape, places

    def __call__(self, *cotangents: Any) -> list[Any]:
        return self.layout.of_inputs(gradients_of(self.tape, self.layout.seed(dict(zip(self.places, cotangents)))))


class Derivative(CompiledDerivative):
    """A function of f's arguments that returns the derivative of its value, or another function `made` of the sweeps.

    Each call runs `f` once, and sweeps its tape. Frequent arguments of one kind have all of that compiled as a function
    of the arguments, unless the program draws random numbers, or changes from run to run.
    """

    often: int = OFTEN  # calls before it pays to compile
    warmup: int | None = None  # traced calls after these, before compiling

    def __init__(self, f: Callable[..., Any], asked: Wanted, mode: str, chunk: int | None = None,
                 made: Callable[[Sweeps], Any] = Sweeps.blocks, by_complex: bool = False,
                 has_aux: bool = False) -> None:
        self._f, self._asked, self._made = f, asked, made
        self._how = how = mode, chunk, by_complex, has_aux
        self.named(f, functools.partial(type(self), f, asked, mode, chunk, made, *how[2:]))
        self._calls: Counter[Any] = Counter()
        self._patience, self._why = PATIENCE, ""  # why calls are no longer compiled

        def whole(*args: Any) -> Any:
            return Sweeps(f, args, {}, asked.among(len(args)), *how).ended(made)
        self._compiled: Any = compiled_for_numpy(named_as(whole, f), self.warmup)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled, why = self._compiled, "keyword arguments" if kwargs else self._why
        if not kwargs and watch() is not None:
            return compiled.traced(args, kwargs)
        if not why and (found := compiled.kept(args, kwargs)) is not NONE:
            self._patience = PATIENCE
            return found
        leaves = leaves_of((args, self._f))
        if any(isinstance(x, Traced) for x in leaves):
            return self.trace_once(*args, **kwargs)
        why = why or (TENSORS if any(map(is_tensor, leaves)) else "")
        if not why:
            key = _kind_of(args)
            self._calls[key] += 1
            if self._calls[key] > self.often:
                hits = compiled.stats.hits
                found = compiled.traced(args, kwargs)
                if compiled.stats.hits > hits:
                    self._patience = PATIENCE
                elif compiled.log.last[-1].kind != "waits":  # a waiting path is compiled eventually
                    self._patience -= 1
                if compiled.backend.met_tensor or not self._patience:
                    self._why = TENSORS if compiled.backend.met_tensor else f"{PATIENCE} calls in a row were traced"
                return found
            why = f"the first {self.often} calls with arguments of the same types and shapes are not compiled"
        compiled.directly(why)
        return self.trace_once(*args, **kwargs)

    def trace_once(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function once, and sweep its tape."""
        sweeps = Sweeps(self._f, args, kwargs, self._asked.among(len(args)), *self._how)
        if sweeps.draws:
            self._why = "the function draws random numbers"
        return sweeps.ended(self._made)

    def __repr__(self) -> str:
        return f"<derivative of {self.__name__}>"


def compiled_for_numpy(f: Callable[..., Any], warmup: int | None = None) -> Any:
    """Return a function compiled for NumPy; calls that meet a tensor, such as a global one, are traced."""
    made: Any = anew(compile, f, backend="numpy", warmup=warmup)
    made.backend.refuses_tensors = False
    return made


def _with_value(sweeps: Sweeps) -> Any:
    return sweeps.value, sweeps.blocks()


def _kind_of(args: tuple[Any, ...]) -> Any:
    """Return the properties of arguments that the derivative depends on: nesting, types, shapes and dtypes."""
    nests = [None if is_leaf(arg) else repr(flatten(arg, "", [], [])) for arg in args]
    return (*nests, *[(type(x), shape_of(x), dtype_of(x)) for x in leaves_of(args)])


class _Otherwise(Exception):
    """A sweep cannot run as a batched tape."""


def units(x: Any) -> Iterator[Any]:
    """Yield, for each number of a value, the unit that is 1 there and 0 elsewhere."""
    shape, x = shape_of(x), plain(x)
    if isinstance(x, np.ndarray) or is_tensor(x):
        for k in range(math.prod(shape)):
            yield unit_rows(x, k, k + 1).reshape(shape)
        return
    dtype = dtype_of(x)
    if dtype is None:
        yield 1.0 + 0j if isinstance(x, complex) else 1.0
    else:
        yield (dtype if letter(dtype) in "fc" else np.dtype(float)).type(1)


def unit_rows(x: Any, start: int, stop: int) -> Any:
    """Return a range of the units of a value, stacked."""
    shape, x = shape_of(x), plain(x)
    dtype, count = dtype_of(x), math.prod(shape_of(x))
    if is_tensor(x):
        rows = torch.zeros(stop - start, count, dtype=x.dtype if dtype.kind in "fc" else torch.float64, device=x.device)
        rows[torch.arange(stop - start), torch.arange(start, stop)] = 1
        return rows.reshape(-1, *shape)
    found = np.zeros((stop - start, count), dtype if dtype is not None and letter(dtype) in INEXACT else complex
                     if isinstance(x, complex) else float)
    found[np.arange(stop - start), np.arange(start, stop)] = 1
    return found.reshape(-1, *shape)


def _block(found: Any, y: Any, x: Any, by_columns: bool) -> Any:
    """Return stacked rows or columns as a block of the value's shape followed by the input's."""
    if not has_gradient(y):
        return None
    out, inner = shape_of(y), shape_of(x)
    if found is None:
        return (np.zeros((*out, *inner)) if not is_tensor(plain(x))
                else torch.zeros((*out, *inner), dtype=plain(x).dtype, device=plain(x).device))
    if by_columns and out:
        found = ops.permute_dims(found, axes=(*range(1, len(out) + 1), 0))
    block = found[0] if not out and not inner else ops.reshape(found, (*out, *inner))
    if is_memory(block) and not is_writable(block):  # the same row for all units
        block = block.copy()
    dtype = dtype_of(y)
    if dtype is None or letter(dtype) not in "fc" or dtype_of(block) == dtype or (dtype.kind == "f"
                                                                               and ops.is_complex(block)):
        return block
    return ops.astype(block, dtype=dtype)  # rows have the input's dtype
