"""leaves: the numbers in nested arguments, values and gradients: found, moved, compared."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Path = tuple[Any, ...]


def parts(x: Any) -> list[tuple[Any, Any]] | None:
    """Return what a nesting consists of, with keys; None for a leaf."""
    if isinstance(x, dict):
        return list(x.items())
    if isinstance(x, (list, tuple)):
        return list(enumerate(x))
    if hasattr(x, "__dict__") and not isinstance(x, (type, types.FunctionType, types.ModuleType, np.ndarray)) and not hasattr(x, "detach"):
        return list(vars(x).items())
    return None


def leaves(x: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Go through the leaves of a nesting, with their paths."""
    inner = parts(x)
    if inner is None:
        yield path, x.detach().resolve_conj().numpy() if hasattr(x, "detach") else x
    else:
        for key, part in inner:
            yield from leaves(part, (*path, key))


def changed(x: Any, new: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Return a nesting with other leaves; arrays and objects are changed in place, as they lie in memory."""
    inner = parts(x)
    if inner is None:
        value = new(path, x)
        if isinstance(x, np.ndarray) and x.flags.writeable:
            x[...] = value
            return x
        return value
    done = {key: changed(part, new, (*path, key)) for key, part in inner}
    if isinstance(x, dict):
        x.update(done)
        return x
    if isinstance(x, (list, tuple)):
        return type(x)(done.values())
    vars(x).update(done)
    return x


def is_smooth(x: Any) -> bool:
    """True for a leaf that has a gradient."""
    return getattr(x, "dtype", np.dtype(type(x) if isinstance(x, (bool, int, float, complex)) else object)).kind in "fc"


def contents(x: Any) -> list[tuple[Path, Any]]:
    """Return what arguments hold, to see later whether they still do."""
    return [(path, (leaf.shape, leaf.dtype, leaf.tobytes()) if isinstance(leaf, np.ndarray) else repr(leaf)) for path, leaf in leaves(x)]


def difference(got: Any, want: Any, loose: float, spread: dict[Path, Any] | None = None) -> str:
    """Say where two nestings differ by more than `loose`, in proportion, and by more than 10 times the `spread`; "" where nowhere."""
    mine, other = dict(leaves(got)), dict(leaves(want))
    if mine.keys() != other.keys():
        return f"nested otherwise: {sorted(map(str, mine))} and {sorted(map(str, other))}"
    wide = spread or {}
    scale = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in other.values() if is_smooth(x) and np.all(np.isfinite(x)))])
    for path, x in other.items():
        found = leaf_difference(mine[path], x, loose, scale, wide.get(path, 0.0))
        if found:
            return f"{found} at {list(path)}"
    return ""


def leaf_difference(got: Any, want: Any, loose: float, scale: float, spread: Any) -> str:
    """Say how one leaf differs from another."""
    if got is None or want is None:  # no gradient: of an int, or of what is not reached
        left = want if got is None else got
        return "" if left is None or not is_smooth(left) or not np.any(left) else f"{got!r} for {want!r}"
    if not isinstance(want, (bool, int, float, complex, np.generic, np.ndarray)):
        return ""
    if np.shape(got) != np.shape(want):
        return f"shape {np.shape(got)} for {np.shape(want)}"
    a, b = np.asarray(got), np.asarray(want)
    if a.dtype != b.dtype and (a.dtype.kind != b.dtype.kind or (a.ndim and b.ndim)):
        return f"dtype {a.dtype} for {b.dtype}"
    if b.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else f"{got!r} for {want!r}"
    top = float(np.max(np.abs(np.where(np.isfinite(b), b, 0.0)), initial=0.0))
    room = loose * (top + 1e-3 * scale) + 10.0 * np.nan_to_num(np.abs(np.asarray(spread)), nan=np.inf) if np.shape(spread) in ((), b.shape) else np.inf
    with np.errstate(all="ignore"):
        near = (np.abs(a - b) <= room) | (a == b) | (np.isnan(a) & np.isnan(b))
    return "" if np.all(near) else f"{got!r} for {want!r}"
