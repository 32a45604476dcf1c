"""constant_masks: replaces constant boolean masks in indices by integer arrays: with a mask, the host would wait until
the device has counted its true elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import getitem, scatter, setitem
from tapegrad.ops.index import pieces_with_indices
from tapegrad.tape.tape import Call, Constant, Operation, Tape
from tapegrad.transforms.walk import Walk, with_bodies


def places_of_masks(tape: Tape) -> Tape:
    """Return a tape with `np.nonzero(mask)` in place of each constant mask of an index."""
    tape = with_bodies(tape, places_of_masks)
    if not any(type(op) is Constant and is_mask(op) for op in tape.ops):
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        if type(op) is not Call or not any(map(is_mask, op.args)):
            walk.keep(op)
        elif op.fn is getitem or (op.fn is setitem and isinstance(op.args[1], Operation) and op.args[1].spec.shape):
            walk.keep(op, tuple(part for arg in op.args for part in _places(walk, op, arg)))
        elif op.fn is scatter:
            parts, ranks = [], []
            for piece, index in pieces_with_indices(op.args, op.kwargs["ranks"]):
                places = [part for arg in index for part in _places(walk, op, arg)]
                parts += [walk.bind(piece), *places]
                ranks.append(len(places))
            new: Any = walk.keep(op, tuple(parts))
            new.kwargs = {**op.kwargs, "ranks": tuple(ranks)}
        else:
            walk.keep(op)
    return walk.done()


def is_mask(x: Any) -> bool:
    """Return whether an argument is a constant boolean array."""
    return type(x) is Constant and type(x.val) is np.ndarray and x.val.dtype == bool and x.val.ndim > 0


def _places(walk: Walk, op: Call, arg: Any) -> list[Any]:
    if not is_mask(arg):
        return [walk.bind(arg)]
    return [walk.constant(op, places) for places in np.nonzero(arg.val)]
