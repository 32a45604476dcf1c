"""stencils: scatters of what one loop computes to places beside each other, as in the gradient of differences between
neighbours. The loop adds the pieces in registers and stores their sum, where each would otherwise go through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.arrays import is_computed, known
from tapegrad.compile.native.function import Function
from tapegrad.compile.native.memory import is_list, pieces_of
from tapegrad.compile.native.table import ROWS
from tapegrad.compile.native.values import FLOATS, Array, Unlowered, dense, element_kind, itemsize, natural
from tapegrad.compile.native.vectors import Operand, Vectors
from tapegrad.tape.tape import Operation


class Stencil(NamedTuple):
    """The sum of some results of a loop over n numbers: `shifts` has, in order, the number of each result and how far
    its place is behind the first one's, which begins at `out`.
    """

    total: Operation
    made: Array
    out: Operand
    shifts: tuple[tuple[int, int], ...]

    @property
    def furthest(self) -> int:
        """The largest shift."""
        return max(shift for _, shift in self.shifts)


def find(f: Function, targets: Sequence[Operation | None], n: int, v: Vectors) -> list[Stencil]:
    """Return the sums of results of a loop over n numbers; `targets` has the operation that each result is, None for
    one that is no array.
    """
    found = []
    for total in dict.fromkeys(user for x in targets if x is not None for user in f.users.get(x, ())):
        shifts = None if f.depth or total in f.plan.refused or total in f.env else shifts_of(f, total, targets, n)
        if shifts is None or max(shift for _, shift in shifts[1]) > v.width or v.width == 1:
            continue
        made, step = f.place(total), itemsize(element_kind(total.spec) or "f")
        start, furthest = shifts[0], max(shift for _, shift in shifts[1])
        for first, last in ((0, start), (start + n + furthest, made.size)):
            if last > first:
                f.put(f"call void @llvm.memset.p0.i64(ptr {f.at(made.data, step * first)}, i8 0, "
                      f"i64 {step * (last - first)}, i1 false)")
        out = Operand(f.at(made.data, step * start), (step,), (0,), made.kind)
        found.append(Stencil(total, made, out, shifts[1]))
    return found


def shifts_of(f: Function, total: Operation, targets: Sequence[Operation | None],
              n: int) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """Return where the first piece of a scatter begins, and the number and the shift of each; None if it is not the sum
    of nothing but results used nowhere else.
    """
    spec = total.spec
    if total.fn is not ops.scatter or spec.ndim != 1 or element_kind(spec) not in FLOATS or (
            natural(spec) != dense(spec.shape, spec.itemsize)):
        return None
    try:
        pieces = pieces_of(total)
    except Unlowered:
        return None
    starts = []
    for x, index in pieces:
        if x not in targets or set(f.users[x]) != {total} or x in f.plan.objects or x.spec.dtype != spec.dtype or any(
                is_list(part) or is_computed(part) for part in index):
            return None
        places = np.arange(spec.size)[tuple(map(known, index))]
        if places.shape != (n,) or np.any(np.diff(places) != 1):
            return None
        starts.append(int(places[0]))
    return min(starts), tuple([(targets.index(x), at - min(starts)) for (x, _), at in zip(pieces, starts)])


def added(f: Function, v: Vectors, stencil: Stencil, before: dict[int, str], now: dict[int, str]) -> str:
    """Return the sum of one vector, from the last vectors of the results and these."""
    kind, width, total = stencil.out.kind, v.width, ""
    for number, shift in stencil.shifts:
        text = now[number]
        if shift:
            t = v.lanes.type(kind)
            lanes = ", ".join(f"i32 {width - shift + lane}" for lane in range(width))
            text = f.op(f"shufflevector {t} {before[number]}, {t} {text}, <{width} x i32> <{lanes}>")
        total = ROWS[ops.add].write(f, [total, text], kind) if total else text
    return total


def zeros(v: Vectors, stencils: Sequence[Stencil]) -> list[tuple[str, str]]:
    """Return the types of the vectors that a loop carries for the next one, and those before the first."""
    return [(v.lanes.type(x.out.kind), v.lanes.constant(0.0, x.out.kind)) for x in stencils for _ in carried(x)]


def carried(stencil: Stencil) -> list[int]:
    """Return the numbers of the results of which the last vector is needed."""
    return list(dict.fromkeys(number for number, shift in stencil.shifts if shift))


def add(f: Function, v: Vectors, stencils: Sequence[Stencil], pointers: Sequence[str], before: Sequence[str],
        values: Any, count: int) -> list[str]:
    """Store the sums of one vector of which `count` numbers are used; return the vectors that are carried. `values`
    returns the vector of a result.
    """
    new, left = list[str](), list(before)
    for stencil, at in zip(stencils, pointers):
        kind, kept = stencil.out.kind, carried(stencil)
        last, left = dict(zip(kept, left)), left[len(kept):]
        now = {number: values(number) for number, _ in stencil.shifts}
        if count < v.width:
            nothing = v.lanes.constant(0.0, kind)
            now = {number: f.select(v.mask(count), kind, text, nothing) for number, text in now.items()}
        room = min(v.width, count + stencil.furthest) if count < v.width else count
        v.store(kind, at, itemsize(kind), added(f, v, stencil, last, now), room)
        new += [now[number] for number in kept]
    return new


def finish(f: Function, v: Vectors, stencils: Sequence[Stencil], n: int, before: Sequence[str]) -> None:
    """Store what the last vectors add behind the end of the loop, and bind the sums."""
    left, end = list(before), -(-n // v.width) * v.width
    for stencil in stencils:
        kind, kept = stencil.out.kind, carried(stencil)
        last, left = dict(zip(kept, left)), left[len(kept):]
        count = n + stencil.furthest - end
        if count > 0:
            now = dict.fromkeys([number for number, _ in stencil.shifts], v.lanes.constant(0.0, kind))
            at = f.at(stencil.out.data, end * itemsize(kind))
            with f.computing(v.lanes):
                v.store(kind, at, itemsize(kind), added(f, v, stencil, last, now), count)
        f.env[stencil.total] = stencil.made
        f._undo.append(lambda total=stencil.total: f.env.pop(total))  # type: ignore[misc]
