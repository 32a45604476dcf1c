"""np.nditer and np.broadcast of traced arrays, in the order of NumPy's own iterators over plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import constructs, refused
from tapegrad.trace import views

_FLAGS = frozenset(["multi_index", "c_index", "f_index", "zerosize_ok", "refs_ok"])
_nditer, _broadcast = np.nditer, np.broadcast


@constructs(np.nditer)
def nditer(
    tracer: Any,
    fn: Callable[..., Any],
    op: Any,
    flags: Sequence[str] = (),
    op_flags: Any = None,
    *args: Any,
    order: Any = "K",
    **options: Any,
) -> Any:
    several = isinstance(op, (tuple, list)) and any(hasattr(x, "shape") or x is None for x in op)
    given = list(op) if several else [op]
    if not any(isinstance(x, Traced) or (isinstance(x, (list, tuple)) and holds_traced(x)) for x in given):
        return fn(op, flags, op_flags, *args, order=order, **options)
    if args or options or any(x is None for x in given) or not _FLAGS.issuperset(flags):
        raise refused(
            "np.nditer with buffers, chunks, axes or operands of its own",
            "the arrays that it yields are not parts of its operands",
            "np.nditer without these options, or a loop over np.ndindex(x.shape)",
        )
    return Elements([as_array(x) for x in given], list(flags), op_flags, order, several)


class Elements:
    """The counterpart of np.nditer for operands of which some are traced."""

    def __init__(self, operands: list[Any], flags: list[str], op_flags: Any, order: Any, several: bool) -> None:
        each = (
            [["readonly"]] * len(operands)
            if op_flags is None
            else [op_flags] * len(operands)
            if isinstance(op_flags[0], str)
            else op_flags
        )
        for x in operands:
            if isinstance(x, Traced) and order in ("K", "A"):
                x._tracer.guard_layout()  # which decides the order
        how: Any = [list(flags) for flags in each], [*flags, *({"multi_index"} - {*flags})]
        plain = [views.laid(x) if isinstance(x, Traced) else np.asarray(x) for x in operands]
        self._at: Any = _nditer([_lying_as(x) for x in plain], how[1], how[0], order=order)
        self._written = ["readonly" not in flags for flags in each]
        shape = self._at.shape
        self.operands = tuple([x if written else np.broadcast_to(x, shape)
                               for x, written in zip(operands, self._written)])
        self._several = several

    def __getitem__(self, number: int) -> Any:
        place = (*self._at.multi_index, ...)  # a view, which shows later writes
        return self.operands[number][place]

    def __setitem__(self, number: int, value: Array) -> None:
        self.operands[number][self._at.multi_index] = value

    @property
    def value(self) -> Any:
        """The current element; a tuple of elements if there are several operands."""
        return tuple(map(self.__getitem__, range(len(self.operands)))) if self._several else self[0]

    def __iter__(self) -> Iterator[Any]:
        while not self._at.finished:
            yield self.value
            self._at.iternext()

    def __enter__(self) -> Elements:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration."""
        self._at.close()

    def __len__(self) -> int:
        return len(self._at)

    def __getattr__(self, name: str) -> Any:
        if name not in (
            "finished",
            "iternext",
            "multi_index",
            "index",
            "shape",
            "ndim",
            "itersize",
            "iterindex",
            "nop",
            "reset",
        ):
            raise AttributeError(f"'numpy.nditer' object has no attribute {name!r} of traced arrays")
        return getattr(self._at, name)


@constructs(np.broadcast)
def broadcast(tracer: Any, fn: Callable[..., Any], *args: Any) -> Any:
    traced = any(isinstance(x, Traced) or (isinstance(x, (list, tuple)) and holds_traced(x)) for x in args)
    return Broadcast(list(map(as_array, args))) if traced else fn(*args)


class Broadcast:
    """The counterpart of np.broadcast for operands of which some are traced: the common shape, and the elements."""

    def __init__(self, operands: list[Any]) -> None:
        self._at = _broadcast(*[np.empty(shape_of(x)) for x in operands])
        self._operands = [np.broadcast_to(x, self._at.shape) for x in operands]

    def __iter__(self) -> Broadcast:
        return self

    def __next__(self) -> Any:
        index = self._at.index
        next(self._at)  # StopIteration
        place = np.unravel_index(index, self._at.shape)
        return tuple(x[place] for x in self._operands)

    def __getattr__(self, name: str) -> Any:
        if name not in ("shape", "ndim", "nd", "size", "numiter", "index", "reset"):
            raise AttributeError(f"'numpy.broadcast' object has no attribute {name!r} of traced arrays")
        return getattr(self._at, name)


def _lying_as(x: np.ndarray[Any, Any]) -> Any:
    """Return an array of the same strides, which decide the order; np.empty_like would reverse negative ones."""
    if not x.size:
        return np.empty_like(x)
    ends = [(n - 1) * stride for n, stride in zip(x.shape, x.strides)]
    first = -sum(end for end in ends if end < 0)
    memory = np.empty(first + sum(end for end in ends if end > 0) + x.itemsize, np.uint8)
    return np.ndarray(x.shape, x.dtype, memory.data, first, x.strides)
