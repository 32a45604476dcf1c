"""sparsity: which numbers of a function's value depend on which numbers of its arguments, by index sets on the tape.

The pattern of a value is a sparse matrix of bools, with a row for each of its numbers and a column for each number of
the arguments. An operation that moves numbers is run on their indices. For other ops, `axis_labels` tells which axes of
an argument and of the value belong together; along all other axes each number depends on all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import brief, plain
from tapegrad.numbers.lazy import needed
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import not_equal, read, scatter, where
from tapegrad.ops.elementwise import is_complex
from tapegrad.ops.index import pieces_with_indices
from tapegrad.ops.sparse import major_of, sparse_matmul
from tapegrad.rules import batching
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.facts import EACH
from tapegrad.rules.op import OPS, Op, Traced
from tapegrad.tape.tape import Call, Input, Operation, Tape, operands, value_of
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.trace.write_back import settle
from tapegrad.transforms.axis_labels import Labels, is_product, labels_of
from tapegrad.transforms.batch import content, told
from tapegrad.transforms.grad import gradient_of
from tapegrad.transforms.patterns import MOST, all_of, identity, named, place, rows_of, spread, stacked, union, written
from tapegrad.transforms.propagation import Propagation
from tapegrad.transforms.tangents import linear_places
from tapegrad.transforms.unroll import unroll
from tapegrad.tree.argnums import Argnums, Wanted, wanted
from tapegrad.tree.flatten import Structure, flatten, is_leaf

RUNNING = frozenset(OPS[f"cumulative_{name}"] for name in ("sum", "prod", "max", "min")) | {OPS["recurrence"]}
FILTERS = frozenset(
    [OPS["correlate1d"], OPS["correlate_image"]]
)  # bilinear, but for values beyond the border
TAPS = 1 << 12  # most numbers of a kernel that are examined one by one


def jacobian_sparsity(f: Callable[..., Any], /, *args: Any, argnums: Argnums = 0, **kwargs: Any) -> Any:
    """Return which numbers of `f(*args)` depend on which of its argument: a sparse array of bools, a row for each
    number of the value.

    The numbers of nested arguments and values follow one another, as do those of several `argnums`. Values are not
    read, except constants: a number that happens to be 0 counts. The pattern holds for the path that `f` takes here,
    with its branches, indices and loops. Raises ImportError without SciPy, and ArgumentError for complex arguments or a
    pattern that is too large to store.

    >>> jacobian_sparsity(lambda x: x[1:] * x[:-1], np.ones(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    needed("scipy.sparse")
    asked = wanted(0 if argnums is None else argnums, True).among(len(args))
    tape = traced(f, args, kwargs, asked)
    found = pattern_of(tape)
    settle(tape)
    return found


def hessian_sparsity(f: Callable[..., Any], /, *args: Any, argnums: Argnums = 0, **kwargs: Any) -> Any:
    """Return which second derivatives of `f(*args)`, a real number, by its argument may be other than 0: a symmetric
    sparse array of bools.

    It is the pattern of the gradient, as `jacobian_sparsity` describes it.

    >>> hessian_sparsity(lambda x: (x[1:] * x[:-1]).sum() + (3 * x).sum(), np.ones(3)).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    needed("scipy.sparse")
    asked = wanted(0 if argnums is None else argnums, True).among(len(args))
    tape = traced(gradient_of(f, asked), args, kwargs, asked)
    found = pattern_of(tape)
    settle(tape)
    return found + found.T


def traced(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], asked: Wanted) -> Tape:
    """Return the tape of a function, with its values, to be differentiated by the requested inputs."""
    with collector:
        return record(f, args, kwargs, DEFAULT, grad=True, copy=True, wanted=asked, replays=False)


def inputs_of(tape: Tape) -> list[Input]:
    """Return the inputs to differentiate by, in the order of the columns; raise ArgumentError for complex ones."""
    inputs = tape.inputs[1:]
    found = [x for part in tape.structure.asked
             for x in inputs[part.start : part.start + part.size] if has_gradient(x.val)]
    if any(is_complex(x.val) for x in found):
        raise ArgumentError("an argument is complex: unless the function is holomorphic, there are two derivatives, by "
                            "z and by its conjugate",
                            None, "tg.jvp along 1 and 1j, or pass the real and imaginary parts as arguments")
    return found


def size_of(x: Any) -> int:
    """Return how many numbers a value has."""
    return math.prod(shape_of(x))


def pattern_of(tape: Tape) -> Any:
    """Return the pattern of the value of a tape, by the requested inputs.

    Values that it reads and that may differ in another call are guarded in the surrounding trace, if there is one.
    """
    tape = unroll(tape)
    inputs = inputs_of(tape)
    columns = sum(size_of(x.val) for x in inputs)
    known, start = dict[int, Any](), 0
    for x in inputs:
        n = size_of(x.val)
        known[x.id] = identity(n, start, columns)
        start += n
    leaves: list[Any] = []
    value = tape.result.val
    structure = flatten(value, "", leaves, [], shared=False)
    if not any(map(has_gradient, leaves)):
        raise ArgumentError(f"the function returns {brief(value)}, which has no derivative", None,
                            "return a number or an array")
    sweep = Sweep(tape, known)
    deque(sweep.over(), 0)
    found = sweep.known.get(tape.result.id)
    parts = (
        [found] if structure.is_leaf else found.listed(structure) if isinstance(found, Parts) else [None] * len(leaves)
    )
    blocks = [named([], [], (size_of(y), columns)) if part is None else part
              for part, y in zip(parts, leaves) if has_gradient(y)]
    return written(stacked(blocks)) if blocks else named([], [], (0, columns))


class Parts:
    """The patterns of a nested value: `nest` holds each part's index in `found`, None where nothing flows."""

    __slots__ = ("found", "nest")

    def __init__(self, nest: Any, found: Sequence[Any]) -> None:
        self.nest, self.found = nest, found

    def at(self, key: Any) -> Any:
        """Return the pattern of a part."""
        part = self.nest.get(key) if isinstance(self.nest, dict) else self.nest[key]
        return self.found[part] if isinstance(part, int) else None if part is None else Parts(part, self.found)

    def listed(self, structure: Structure) -> list[Any]:
        """Return the patterns of the leaves of a value with this structure."""
        return [self.found[part] if isinstance(part, int) else None for part in structure.unmirror(self.nest)]

    def joined(self) -> Any:
        """Return one row with all that any of the parts depends on, None where nothing flows."""
        found = [all_of(part) for part in self.found if part is not None]
        return union(found)


class Sweep(Propagation):
    """Propagates the patterns of the operations that depend on the requested inputs."""

    def __init__(self, tape: Tape, known: dict[int, Any]) -> None:
        super().__init__(tape, known)
        self.varies = bytearray(len(tape.ops) + 1)  # also where no derivative flows: comparisons, indices
        for op in tape.ops:
            self.varies[op.id] = op.id in known or any(self.varies[used.id] for used in operands(op))

    def packed(self, op: Call, parts: list[Any]) -> Parts:
        return Parts(super().packed(op, [None if part is None else i for i, part in enumerate(parts)]), parts)

    def field(self, whole: Any, key: Any) -> Any:
        return whole.at(key)

    def call(self, fn: Op, op: Call, parts: list[Any]) -> Any:
        given = [part.joined() if isinstance(part, Parts) else part for part in parts]
        if all(part is None for part in given):
            return None
        fixed = [not (isinstance(arg, Operation) and self.varies[arg.id]) for arg in op.args]
        leaves: list[Any] = []
        structure = flatten(op.val, "", leaves, [], shared=False)
        found = [Dependence(fn, op, leaf, given, fixed).pattern() for leaf in leaves]
        return found[0] if structure.is_leaf else Parts(structure.mirror(list(range(len(found)))), found)


class Dependence:
    """How a value `y` of a call, or a part of it, depends on the arguments.

    `given` are the arguments' patterns, None where nothing flows. `fixed` marks the arguments that do not depend on the
    requested inputs: only their numbers may shape the pattern.
    """

    def __init__(self, fn: Op, op: Call, y: Any, given: list[Any], fixed: list[bool]) -> None:
        self.fn, self.shape, self.given, self.fixed = fn, shape_of(y), given, fixed
        self.args, self.kwargs = list(map(value_of, op.args)), op.kwargs

    def pattern(self) -> Any:
        """Return the pattern of the value."""
        fn = self.fn
        if fn is scatter:
            return self._scattered()
        if (fn.memory.moved and fn.tangent is not None and not _goes_by_numbers(fn)) or (fn is where and self.fixed[0]):
            return self._moved()
        of_args, of_value = labels_of(fn, self.args, self.kwargs, self.shape)
        rows = []
        for i, part in enumerate(self.given):
            if part is not None:
                shape, found = shape_of(self.args[i]), None
                if is_product(fn):
                    found = self._of_product(i, part, of_args, of_value)
                elif fn is sparse_matmul:
                    found = self._of_sparse_product(i, part)
                elif fn in RUNNING:
                    found = self._running(i, part)
                elif fn.tangent == EACH or fn in FILTERS:
                    found = self._of_kernel(i, part)
                rows.append(spread(part, shape, of_args[i], self.shape, of_value) if found is None else found)
        return union(rows)

    def _moved(self) -> Any:
        """Run the op on the indices of the numbers, counted over all arguments from 1; 0 marks a constant."""
        fn = self.fn
        places = linear_places(fn, len(self.args))
        count, parts, args = 0, [], []
        for i, (x, part) in enumerate(zip(self.args, self.given)):
            if part is not None or (is_leaf(x) if places is None else i in places):
                shape, n = shape_of(x), size_of(x)
                numbers = (
                    np.zeros(shape, np.int64) if part is None else np.arange(count + 1, count + n + 1).reshape(shape)
                )
                if part is not None:
                    parts.append(part)
                    count += n
                args.append(
                    (numbers * (1 + 1j) if is_complex(x) else numbers)[()]
                )  # both parts carry the index
            else:
                args.append(_read(x))
        found = np.asarray(fn.run(*args, **self.kwargs))
        whole = stacked(parts)
        halves = (found.real, found.imag) if found.dtype.kind == "c" else (found,)  # real numbers may be either
        return union([rows_of(whole, numbers.ravel().astype(np.int64) - 1) for numbers in halves])

    def _scattered(self) -> Any:
        """Return the pattern of `scatter`, from the places of the value to which it adds each piece."""
        ranks, paths, rows, at = self.kwargs["ranks"], self.kwargs.get("through", ()), [], 0
        places = np.arange(math.prod(self.shape)).reshape(self.shape)
        for k, (piece, index) in enumerate(pieces_with_indices(self.args, ranks)):
            part = self.given[at]
            at += 1 + ranks[k]
            if part is not None:
                path = paths[k] if paths else ()
                there = np.asarray(read(places * (1 + 1j) if path else places, tuple(map(_read, index)), path))
                there = (
                    np.maximum(there.real, there.imag).astype(np.int64) if path else there
                )  # a path may lead to one part of complex numbers
                here = np.broadcast_to(np.arange(size_of(piece)).reshape(shape_of(piece)), there.shape)
                rows.append(named(there.ravel(), here.ravel(), (places.size, size_of(piece))) @ written(part))
        return union(rows)

    def _of_product(self, i: int, part: Any, of_args: list[Labels], of_value: Labels) -> Any:
        """Return the pattern of a product with a constant that has zeros; None if it has none."""
        factors = [k for k, labels in enumerate(of_args) if labels][:2]
        if i not in factors or len(factors) < 2 or len([k for k in of_args if k]) > 2:
            return None
        other = factors[factors[0] == i]
        if self.given[other] is not None or not self.fixed[other] or len(set(of_args[other])) < len(of_args[other]):
            return None
        mask, shape = self._zeros(other), shape_of(self.args[i])
        if mask is None:
            return None
        sizes = {label: n for k, labels in ((i, of_args[i]), (other, of_args[other]))
                 for label, n in zip(labels, shape_of(self.args[k])) if n > 1}
        taken = dict(zip(of_args[other], np.nonzero(mask)))
        free = [
            label
            for label in dict.fromkeys((*of_value, *of_args[i]))
            if label not in taken or mask.shape[of_args[other].index(label)] == 1
        ]
        lengths = [sizes.get(label, 1) for label in free]
        each, count = math.prod(lengths), int(mask.sum())
        at = {label: np.repeat(place, each) for label, place in taken.items()}
        at |= {label: np.tile(place, count) for label, place in zip(free, np.indices(lengths).reshape(len(free), each))}
        there, here = (place(labels, shape, at, count * each)
                       for labels, shape in ((of_value, self.shape), (of_args[i], shape)))
        return named(there, here, (math.prod(self.shape), math.prod(shape))) @ written(part)

    def _of_sparse_product(self, i: int, part: Any) -> Any:
        """Return the pattern of a product with a sparse matrix, from the places of the numbers that it stores."""
        minor, indptr = map(_read, self.args[1:3])
        pair = (major_of(indptr), minor)
        there, here = pair[::-1] if self.kwargs.get("transposed") else pair
        k = math.prod(self.shape[1:])
        there, here = ((at[:, None] * k + np.arange(k)).ravel() for at in (there, here))
        here = here if i else np.repeat(np.arange(len(minor)), k)
        return named(there, here, (math.prod(self.shape), size_of(self.args[i]))) @ written(part)

    def _of_kernel(self, i: int, part: Any) -> Any:
        """Return the pattern by one factor if each number of the other adds a shifted copy of it; None otherwise."""
        others = [k for k, x in enumerate(self.args) if k != i and is_leaf(x) and not isinstance(x, (bool, str))]
        if len(others) != 1 or not self.fixed[others[0]] or self.given[others[0]] is not None:
            return None
        kernel, n = self.args[others[0]], size_of(self.args[i])
        mask = np.ones(shape_of(kernel), bool) if (found := self._zeros(others[0])) is None else found
        if mask.sum() > TAPS or size_of(kernel) >= n:
            return None
        numbers = np.arange(1.0, n + 1).reshape(shape_of(self.args[i]))
        rows = []
        for tap in np.argwhere(mask):
            one = np.zeros(shape_of(kernel))
            one[tuple(tap)] = 1
            made, turned = (
                np.asarray(
                    self.fn.run(*[x if k == i else one if k == others[0] else arg for k, arg in enumerate(self.args)],
                                **self.kwargs)
                )
                for x in (numbers, n + 1 - numbers)
            )
            places = np.rint(made.real).astype(np.int64).ravel()
            if (
                np.any(places < 0)
                or np.any(places > n)
                or np.abs(np.where(places > 0, n + 1 - places, 0) - turned.ravel()).max(initial=0) > 1e-3
            ):
                return None
            rows.append(rows_of(part, places - 1))
        return union(rows)

    def _running(self, i: int, part: Any) -> Any:
        """Return the pattern of a cumulative op along an axis; None where the arguments are broadcast."""
        shape, axis = shape_of(self.args[i]), self.kwargs.get("axis", 0)
        initial = self.kwargs.get("include_initial", False)
        if not shape or self.shape != tuple(n + initial * (k == axis % len(shape)) for k, n in enumerate(shape)):
            return None
        n = shape[axis]
        if (n + 1) * size_of(self.args[i]) > 2 * MOST:
            return None
        there, here = np.tril_indices(n)
        if self.kwargs.get("reverse"):
            there, here = n - 1 - there, n - 1 - here
        of_y, of_x = (np.moveaxis(np.arange(math.prod(s)).reshape(s), axis, -1) for s in (self.shape, shape))
        there, here = of_y[..., there + initial].ravel(), of_x[..., here].ravel()
        return named(there, here, (math.prod(self.shape), math.prod(shape))) @ written(part)

    def _zeros(self, i: int) -> Any:
        """Return where an argument is not 0, guarded in a surrounding trace; None if it has no zeros."""
        x = self.args[i]
        mask = np.asarray(_host(plain(x))) != 0
        if mask.all():
            return None
        if isinstance(x, Traced):
            told(not_equal(x, 0), "content", mask.tobytes())
        return mask


def _goes_by_numbers(fn: Op) -> bool:
    return batching.rule_of(fn) in (batching.elementwise, batching.of_first)


def _host(x: Any) -> Any:
    return x.detach().cpu().numpy() if is_tensor(x) else x


def _read(x: Any) -> Any:
    """Return an argument that holds indices, guarded in a surrounding trace."""
    if isinstance(x, Traced):
        told(x, "content", content(x))
        x = plain(x)
    return _host(x)
