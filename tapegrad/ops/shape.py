"""Shape ops: the same elements, rearranged.

Their parameters stay as general as the program wrote them (`-1` in a shape, no axes for a full transpose), so that a
tape can be replayed at other shapes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.kinds import Array, Axis, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import cast, dims, numbers_of, together
from tapegrad.ops.batched_shape import broadcast, padded, permuted, rolled, tiled
from tapegrad.ops.elementwise import where
from tapegrad.rules import batching, types
from tapegrad.rules.facts import LINEAR, MOVED, RAISES, READONLY_VIEW, VIEW, Joint, direct, linear_in
from tapegrad.rules.registry import define


def along(axis: int, index: Any) -> tuple[Any, ...]:
    """Return the index that reads `index` along one axis, and everything along the others."""
    return (slice(None),) * axis + (index,) if axis >= 0 else (..., index) + (slice(None),) * (-1 - axis)


# -- one array, each element once

reshape = define("reshape", np.reshape, direct(lambda dy, _y, _x, shape: reshape(dy, shape_of(_x)), None),
                 memory=VIEW, tangent=linear_in(0),
                 torch=lambda x, shape: x.reshape(numbers_of(shape)), batch=batching.same_shape, spec=types.reshape)


def _permute_cotangent(dy: Cotangent, _y: Array, _x: Array, axes: tuple[int, ...] | None = None) -> Any:
    if axes is None:
        return permute_dims(dy)
    # the inverse permutation
    return permute_dims(dy, axes=tuple(sorted(range(len(axes)), key=lambda i: axes[i] % len(axes))))


def _squeeze_cotangent(dy: Cotangent, _y: Array, _x: Array, axis: Axis = None) -> Any:
    return reshape(dy, shape_of(_x)) if axis is None else expand_dims(dy, axis=axis)



def _expand_dims(x: Any, axis: Any) -> Any:
    new = {a % (x.ndim + len(numbers_of(axis))) for a in numbers_of(axis)}
    for a in sorted(new):
        x = x.unsqueeze(a)
    return x


def _squeeze(x: Any, axis: Any = None) -> Any:
    if axis is None:
        return x.squeeze()
    if any(x.shape[a] != 1 for a in dims(x, axis)):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return x.squeeze(dims(x, axis))


permute_dims = define("permute_dims", np.permute_dims, direct(_permute_cotangent), memory=VIEW, tangent=linear_in(0),
                      batch=permuted,
                      torch=lambda x, axes=None: x.permute(tuple(reversed(range(x.ndim))) if axes is None
                                                           else numbers_of(axes)), spec=types.permuted)
expand_dims = define("expand_dims", np.expand_dims, direct(lambda dy, _y, _x, axis: squeeze(dy, axis=axis)),
                     memory=VIEW, tangent=linear_in(0), torch=_expand_dims, batch=batching.same_shape,
                     spec=types.expanded)
squeeze = define("squeeze", np.squeeze, direct(_squeeze_cotangent), memory=VIEW, tangent=linear_in(0), torch=_squeeze,
                 batch=batching.same_shape, spec=types.squeezed)
flip = define("flip", np.flip, direct(lambda dy, _y, _x, **kw: flip(dy, **kw)), memory=VIEW, tangent=linear_in(0),
              torch=lambda x, axis=None: x.flip(dims(x, axis)), batch=batching.along(None, "all"), spec=types.flipped)


def _roll_cotangent(dy: Cotangent, _y: Array, _x: Array, shift: Any, **kw: Any) -> Any:
    return roll(dy, tuple(-n for n in shift) if isinstance(shift, tuple) else -shift, **kw)


def _roll(x: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return x.roll(sum(numbers_of(shift))) if x.ndim else x.clone()
    shifts, axes = numbers_of(shift), numbers_of(axis)
    length = max(len(shifts), len(axes))
    return x.roll(shifts * (length // len(shifts)), axes * (length // len(axes)))


roll = define("roll", np.roll, (_roll_cotangent, None), torch=_roll, tangent=linear_in(0), batch=rolled,
              memory=MOVED, spec=types.rolled)

# -- one array, elements more than once: a cotangent gets an axis for the copies, and is summed over it

broadcast_to = define("broadcast_to", np.broadcast_to, direct(lambda dy, _y, _x, shape: dy, None),
                      memory=READONLY_VIEW, tangent=linear_in(0),
                      # the sweep sums over broadcast axes
                      torch=lambda x, shape: x.broadcast_to(numbers_of(shape)), batch=broadcast, spec=types.broadcast)
_array, _reals = np.array, frozenset([float, np.float64, np.float32])


def stretched(dy: Cotangent, shape: tuple[int, ...]) -> Any:
    """Return `broadcast_to(dy, shape)`; for a plain number an array of strides 0, in a tenth of NumPy's time."""
    if type(dy) not in _reals or not shape:
        return broadcast_to(dy, shape)
    one = _array(dy)
    one.flags.writeable = False
    return np.ndarray(shape, one.dtype, one, 0, (0,) * len(shape))


def _tile_cotangent(dy: Cotangent, _y: Array, _x: Array, reps: int | tuple[int, ...]) -> Any:
    shape, counts = shape_of(_x), reps if isinstance(reps, tuple) else (reps,)
    ndim = max(len(shape), len(counts))
    sizes, counts = (1,) * (ndim - len(shape)) + shape, (1,) * (ndim - len(counts)) + counts
    copies = reshape(dy, tuple(n for pair in zip(counts, sizes) for n in pair))
    return reshape(copies.sum(axis=tuple(range(0, 2 * ndim, 2))), shape)


def _repeat_cotangent(dy: Cotangent, _y: Array, _x: Array, repeats: int, axis: int | None = None) -> Any:
    shape = shape_of(_x)
    at = len(shape) if axis is None or not shape else axis % len(shape) + 1
    return reshape(dy, (*shape[:at], repeats, *shape[at:])).sum(axis=at)


tile = define("tile", np.tile, (_tile_cotangent, None), tangent=linear_in(0),
              torch=lambda x, reps: x.tile(numbers_of(reps)), batch=tiled, memory=MOVED, spec=types.tiled)
repeat = define("repeat", np.repeat, (_repeat_cotangent, None), effects=RAISES, tangent=linear_in(0),
                batch=batching.along(None),
                torch=lambda x, repeats, axis=None: x.repeat_interleave(int(repeats), axis if x.ndim else None),
                memory=MOVED, spec=types.repeated)


def _pad_value_cotangent(dy: Any, _y: Any, _x: Any, widths: tuple[tuple[int, int], ...], value: Any = 0) -> Any:
    # the border alone: all minus the centre would cancel
    return where(np.pad(np.zeros(shape_of(_x), bool), widths, constant_values=True), dy, 0.0)


def _pad_tangent(ts: Any, _y: Any, x: Any, widths: tuple[tuple[int, int], ...], value: Any = 0) -> Any:
    dx, _, border = (*ts, None, None)[:3]
    return pad(np.zeros(shape_of(x)) if dx is None else dx, widths, *([] if border is None else [border]))


def _frame(x: Any, widths: Any) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    """Return the shape of a padded array, and the place of the array in it."""
    sides = [(before, n, after) for n, (before, after) in zip(x.shape, widths)]
    return (tuple([before + n + after for before, n, after in sides]),
            tuple([slice(before, before + n) for before, n, _ in sides]))


def _padded(x: Any, widths: Any, value: Any = 0) -> Any:
    # like np.pad, which takes twenty times as long for few numbers
    x = np.asanyarray(x)
    shape, inside = _frame(x, widths)
    y = np.empty(shape, x.dtype, order="F" if x.flags.fnc else "C")
    y[...] = value
    y[inside] = x
    return y


def _pad(x: Any, widths: Any, value: Any = 0) -> Any:
    shape, inside = _frame(x, widths)
    y = torch.empty(shape, dtype=x.dtype, device=x.device)
    y.copy_(cast(value, y))
    y[inside] = x
    return y


pad = define("pad", _padded, (
    lambda dy, _y, _x, widths, value=0: dy[tuple(slice(before, -after or None) for before, after in widths)], None,
    _pad_value_cotangent),
             tangent=_pad_tangent, torch=_pad, batch=padded, memory=MOVED, spec=types.padded)

# -- several arrays. A vjp, not partials, each of which would get all arrays: n arrays would cost O(n²).


def _strong(x: Array) -> Any:
    return np.asarray(x) if type(x) in PYTHON else x  # a number is an array here, with a dtype that counts


def _concat_vjp(y: Array, *xs: Any, axis: int = 0) -> Any:
    def concat_pullback(dy: Cotangent) -> tuple[Any, ...]:
        ends = list(itertools.accumulate(shape_of(x)[axis] for x in xs))
        return tuple(dy[along(axis, slice(start, end))] for start, end in zip([0, *ends], ends))
    return concat_pullback


def _stack_vjp(y: Array, *xs: Any, axis: int = 0) -> Any:
    return lambda dy: tuple(dy[along(axis, i)] for i in range(len(xs)))


concat = define("concat", lambda *xs, axis=0: np.concatenate(xs, axis=axis), rule=Joint(_concat_vjp), tangent=LINEAR,
                batch=batching.joined, torch=lambda *xs, axis=0: torch.cat(together(map(_strong, xs)), axis),
                memory=MOVED, spec=types.concatenated)
stack = define("stack", lambda *xs, axis=0: np.stack(xs, axis=axis), rule=Joint(_stack_vjp), tangent=LINEAR,
               batch=batching.joined, torch=lambda *xs, axis=0: torch.stack(together(map(_strong, xs)), axis),
               memory=MOVED, spec=types.stacked)
