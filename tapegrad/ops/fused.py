"""fused: a group of elementwise calls that is one call on a tape, and what an executor of such a group is.

An executor is a subclass of `Fused`, made of the group's subtape. It provides `execute(n, arrays, numbers, outs)`:
compute `n` elements from flat contiguous `arrays` and from `numbers`, write those results that are arrays into the flat
contiguous `outs`, and return the others, full reductions, in their order. It keeps nothing of what it is given, and may
be called from several threads at once. `fuse(tape, executor)` puts it on a tape; the source writer and the memory plan
know a `Fused`, whatever executes it. NumPy's is in `compile.numpy.blocked_executor`; one that emits native code would
stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tapegrad.numbers.kinds import Array
from tapegrad.ops import getfield, pack
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call, Operation, Tape

SHOWN = 3  # functions that the name of a group names


class Fused:
    """A group of elementwise calls of arrays of one shape, and of full reductions of them, as one function: of the
    subtape's inputs to its results.

    Called with arrays of other dtypes or shapes than those recorded, or with traced ones, it plays the subtape.
    """

    aliases = None

    def __init__(self, tape: Tape) -> None:
        result = tape.result
        assert result is not None
        self.tape = tape
        self.single = not (isinstance(result, Call) and result.fn is pack)
        self.results: tuple[Operation, ...] = (result,) if self.single else result.args
        self.inputs = tape.inputs[1:]
        self.given, self.made = [x.spec for x in self.inputs], [y.spec for y in self.results]
        self.calls = [op for op in tape.ops if isinstance(op, Call) and op.fn is not pack]
        names = [op.fn.__name__ for op in self.calls]
        self.__name__ = f"fused({', '.join(names[:SHOWN] + ['...'] * (len(names) > SHOWN))})"

    def __repr__(self) -> str:
        return f"<{self.__name__}: {len(self.calls)} calls>"

    def prepare(self) -> None:
        """Get ready what takes long: called once, when the tape that the group is on has been compiled."""

    def execute(self, n: int, arrays: Sequence[Any], numbers: Sequence[Any], outs: Sequence[Any]) -> Sequence[Any]:
        """Compute the results of `n` elements; see the head of this file."""
        raise NotImplementedError

    def __call__(self, *values: Any, out: Any = None) -> Any:
        """Return the result, or the tuple of results; `out` holds for each an array to write
        into, or None for a new one.
        """
        shape = _common_shape(self.given, values)
        if shape is None:
            return self._play(values, out)
        arrays, numbers = [], []
        for x, value in zip(self.given, values):
            if x.has_axes:
                arrays.append(np.ascontiguousarray(value).reshape(-1))
            else:
                numbers.append(value)
        found = [np.empty(shape, y.dtype) if y.has_axes and place is None else place
                 for y, place in zip(self.made, out or [None] * len(self.made))]
        outs = [part.reshape(-1) for y, part in zip(self.made, found) if y.has_axes]
        reductions = iter(self.execute(arrays[0].size, arrays, numbers, outs))
        found = [part if y.has_axes else next(reductions) for y, part in zip(self.made, found)]
        return found[0] if self.single else tuple(found)

    def _play(self, values: Sequence[Any], out: Array | None) -> Any:
        found = self.tape.play(*values)
        for part, place in zip((found,) if self.single else found, out or ()):
            if place is not None:
                place[...] = part
        return found


class Made(Protocol):
    """What makes an executor of a subtape."""

    def __call__(self, tape: Tape) -> Fused: ...


def fields_of(op: Operation) -> Fused | None:
    """Return the group of which an operation takes out one of several results, None for another operation."""
    if not (isinstance(op, Call) and op.fn is getfield and isinstance(op.args[0], Call)):
        return None
    fn = op.args[0].fn
    return fn if isinstance(fn, Fused) else None


def _common_shape(given: Sequence[Spec], values: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the shape of the arrays among the values, None where they are not what was recorded but for it."""
    shape: tuple[int, ...] | None = None
    for x, value in zip(given, values):
        if x.has_axes:
            if (type(value) is not np.ndarray or value.dtype != x.dtype or value.shape != (shape or value.shape)
                or not value.size):
                return None
            shape = value.shape
        elif x.type is not type(value) and not (x.is_numpy and _is_number(value)):
            return None
    return shape or None


def _is_number(value: Any) -> bool:
    return type(value) in (float, int, complex, bool) or isinstance(value, np.generic) or (type(value) is np.ndarray
                                                                                           and value.ndim == 0)
