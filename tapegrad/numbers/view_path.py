"""view_path: the chain of view operations from an array to a view, to read or write the view in the array's memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.formatting import brief
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor


class Step(NamedTuple):
    """One step from an array to a view of it: `getitem(1:)`, `permute_dims()`."""

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        shown = [brief(arg) for arg in self.args] + [f"{key}={brief(arg)}" for key, arg in self.kwargs.items()]
        return f"{self.op.__name__}({', '.join(shown)})"


Path = tuple[Step, ...]


def follow(x: Any, path: Path) -> Any:
    """Return the view that a path yields; for a NumPy array it shares the memory."""
    for step in path:
        x = step.op.run(x, *step.args, **step.kwargs)
    return x


def assign(x: Any, value: Any, index: tuple[Any, ...], path: Path) -> None:
    """Write in place, with NumPy's semantics and errors."""
    view, at = reach(x, index, path)
    view[at] = np.asarray(value) if type(view) is np.ndarray and is_tensor(value) else value


def add_at(x: Array, piece: Array, index: tuple[Any, ...], path: Path = ()) -> None:
    """Add in place at an index of a view, once per repetition of a place."""
    view, at = reach(x, index, path) if path or type(x) is not np.ndarray else (x, index)
    if type(view) is not np.ndarray and hasattr(type(view), "_add_at"):
        view._add_at(piece, at)  # type: ignore[union-attr]
    elif repeats(at):
        np.add.at(view, at, piece)
    else:
        view[at] += piece


def may_repeat(index: tuple[Any, ...]) -> bool:
    """True if an index may select a place more than once, judged without its values."""
    for part in index:
        if type(part) is not slice and isinstance(part, np.ndarray) and part.ndim and part.dtype.kind != "b":
            return True
    return False


def repeats(index: tuple[Any, ...]) -> bool:
    """True unless the values of an index show that it selects no place twice; then adding takes a tenth of the time."""
    for part in index:
        if type(part) is np.ndarray and part.dtype.kind != "b":
            return may_repeat(index) and not (_is_rising(part) and all(map(_runs_along, index, [part] * len(index))))
    return may_repeat(index)


def _is_rising(part: Any) -> bool:
    """True for strictly increasing, non-negative positions along an axis."""
    return (part.ndim == 1 and part.size > 0 and part.dtype.kind in "iu" and part[0] >= 0
            and bool(np.logical_and.reduce(part[1:] > part[:-1])))


def _runs_along(other: Any, part: Any) -> bool:
    """True for a part of an index that adds no repetition to the increasing positions `part`."""
    if type(other) is np.ndarray:
        return bool(other.dtype.kind != "b" and other.shape == part.shape)
    return type(other) in (slice, int, type(None), type(Ellipsis))


def reach(x: Any, index: tuple[Any, ...], path: Path) -> tuple[Any, tuple[Any, ...]]:
    """Return a view of x's memory and the index in it of the places that `index` selects at the end of a path.

    That is the path's own view, unless a reshape on the path was a view only for another memory layout and copies x. A
    tensor has fewer views, and its memory layout carries no semantics; a TensorArray finds the places itself.
    """
    if type(x) is not np.ndarray and hasattr(type(x), "_reach"):
        return x._reach(index, path)  # type: ignore[no-any-return]
    view = follow(x, path)
    if not path or hasattr(type(x), "_tracer") or np.may_share_memory(view, x) or not view.flags.writeable:
        return view, index  # writing to a read-only view raises
    places: Any = np.arange(x.size).reshape(x.shape)
    if x.dtype.kind != "c":
        return x, np.unravel_index(follow(places, path)[index], x.shape)
    found = np.asarray(follow(places + 1j * (places + x.size), path)[index])
    if found.dtype.kind == "c":
        return x, np.unravel_index(found.real.astype(np.intp), x.shape)
    imaginary = bool(np.all(found >= x.size))  # the path ends in .imag or in .real
    return (x.imag if imaginary else x.real), np.unravel_index(found.astype(np.intp) - imaginary * x.size, x.shape)
