"""call_source: how a call is written in NumPy.

One row for each op that has a better spelling than a call of its implementation: `np.add.reduce` costs half of
`np.sum`, a method half of NumPy's Python wrapper. A row returns source text; what it names beyond its arguments it gets
from `site.name`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import Location
from tapegrad.numbers.view_path import Path
from tapegrad.ops.loop import Loop, range_of
from tapegrad.rules.op import Op
from tapegrad.rules.registry import FOREIGN
from tapegrad.rules.types import spec_of_call
from tapegrad.rules.types.layout import copied, view_strides
from tapegrad.tape.spec import NOTHING, Spec, spec_of
from tapegrad.tape.tape import Call


class Site:
    """A call that is being written: its operation, its arguments as source text. `text` writes a value that is no
    operation, and `name` returns a name by which the source knows a function, an array, a dtype.
    """

    def __init__(self, writer: Any, op: Call, args: Sequence[str] = ()) -> None:
        self.op, self.args, self.text, self.name = op, args, writer.text, writer.names.bind

    def keywords(self, *others: str) -> list[str]:
        """Return the arguments by keyword as source text, without some others."""
        return [f"{key}={self.text(value)}" for key, value in self.op.kwargs.items() if key not in others]


UFUNCS: dict[Op, np.ufunc] = {}
for _fn, _meaning in FOREIGN.items():
    if isinstance(_fn, np.ufunc) and isinstance(_meaning, Op) and _fn.nout == 1 and _fn.signature is None:
        UFUNCS.setdefault(_meaning, _fn)

BINARY = {ops.add: "+", ops.subtract: "-", ops.multiply: "*", ops.divide: "/", ops.floor_divide: "//",
          ops.remainder: "%", ops.pow: "**", ops.less: "<", ops.less_equal: "<=", ops.greater: ">",
          ops.greater_equal: ">=", ops.equal: "==", ops.not_equal: "!=",
          ops.bitwise_and: "&", ops.bitwise_or: "|", ops.bitwise_xor: "^", ops.matmul: "@",
          ops.bitwise_left_shift: "<<", ops.bitwise_right_shift: ">>"}
UNARY = {ops.negative: "-", ops.positive: "+", ops.bitwise_invert: "~"}


def ufunc_of(op: Call) -> np.ufunc | None:
    """Return the ufunc that a call on arrays is, None if it is no ufunc's."""
    found = UFUNCS.get(op.fn) if not op.kwargs else None
    # the operator's powers of bools are small integers, the ufunc's large ones
    return None if found is np.power and spec_of(op.args[0]).kind == "b" else found


# -- reductions

_REDUCTIONS: dict[Op, np.ufunc] = {ops.sum: np.add, ops.mean: np.add, ops.prod: np.multiply, ops.max: np.maximum,
                                   ops.min: np.minimum, ops.any: np.logical_or, ops.all: np.logical_and}
_REDUCE = {fn: ufunc.reduce for fn, ufunc in _REDUCTIONS.items()}


def _is_reduced(op: Call) -> bool:
    x = spec_of(op.args[0])
    return (len(op.args) == 1 and x.is_array and x.kind in "fc" and x.dtype.char != "e" and x.size > 0
            and op.kwargs.keys() <= {"axis", "keepdims"})


def _reduction(site: Site) -> str:
    fn, x, axis = site.op.fn, spec_of(site.op.args[0]), site.op.kwargs.get("axis")
    rest = ["None", "None", "True"] if site.op.kwargs.get("keepdims") else []
    name = site.name(_REDUCE[fn], f"{_REDUCTIONS[fn].__name__}_reduce")
    text = f"{name}({', '.join([site.args[0], site.text(axis), *rest])})"
    if fn is not ops.mean:
        return text
    along = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return f"{text} / {math.prod(x.shape[a] for a in along)}"


# -- shapes and indices

Write = Callable[[Any], str]
"""Writes a value, or an operation, among the arguments of a call."""


def _reshape(site: Site) -> str:
    return f"{site.args[0]}.reshape({site.text(site.op.spec.shape)})"


def _permute(site: Site) -> str:
    axes, ndim = site.op.kwargs.get("axes"), site.op.spec.ndim
    if axes is None or tuple(a % ndim for a in axes) == tuple(range(ndim))[::-1]:
        return f"{site.args[0]}.T"
    return f"{site.args[0]}.transpose({site.text(axes)})"


def index_text(write: Write, index: Sequence[Any], texts: Sequence[str]) -> str:
    """Write an index as it stands between brackets."""
    written = ", ".join(_part(write, part, text) for part, text in zip(index, texts))
    return f"{written}," if len(index) == 1 and written.startswith("(") else written or "()"


def _part(write: Write, part: Any, text: str) -> str:
    if isinstance(part, slice):
        ends = ["" if end is None else write(end) for end in (part.start, part.stop, part.step)]
        return ":".join(ends if part.step is not None else ends[:2])
    return "..." if part is Ellipsis else text


def path_text(write: Write, base: str, x: Spec, path: Path) -> str | None:
    """Write the view that a path leads to of an array of this type; None where there is no short way, or it is
    no view of what lies as `x`.
    """
    if not path:
        return base
    view = copied(x.dtype, x)
    for step in path:
        before, view = view, spec_of_call(step.op, (view, *step.args), step.kwargs)
        if view is NOTHING or not view.size or (step.op is ops.imag and before.kind != "c"):
            return None
        if step.op is ops.reshape and view_strides(before, view.shape) is None:
            return None
        if step.op is ops.getitem:
            base += f"[{index_text(write, step.args, [*map(write, step.args)])}]"
        elif step.op is ops.permute_dims:
            axes = step.kwargs.get("axes")
            base += ".T" if axes is None else f".transpose({write(tuple(axes))})"
        elif step.op in (ops.reshape, ops.expand_dims, ops.squeeze):
            base += f".reshape({write(view.shape)})"
        elif step.op in (ops.real, ops.imag):
            base += f".{step.op.__name__}"
        else:
            return None
    return base


def has_path_text(x: Any, path: Path) -> bool:
    """True if there is a short way to write the view that a path leads to."""
    return path_text(repr, "", x, path) is not None


def _is_read(op: Call) -> bool:
    x = spec_of(op.args[0])
    return x.is_memory and has_path_text(x, op.kwargs.get("through", ()))


def _getitem(site: Site) -> str:
    base = path_text(site.text, site.args[0], spec_of(site.op.args[0]), site.op.kwargs.get("through", ()))
    return f"{base}[{index_text(site.text, site.op.args[1:], site.args[1:])}]"


# -- the table: op -> (does the row apply, how it is written)

Row = tuple[Callable[[Call], bool], Callable[[Site], str]]


def _array_first(op: Call) -> bool:
    return bool(op.args) and spec_of(op.args[0]).is_array and op.spec.is_array


SPELLINGS: dict[Op, Row] = {
    **dict.fromkeys(_REDUCTIONS, (_is_reduced, _reduction)),
    **dict.fromkeys([ops.reshape, ops.expand_dims, ops.squeeze], (_array_first, _reshape)),
    ops.permute_dims: (_array_first, _permute),
    **dict.fromkeys([ops.getitem, ops.getitem_masked], (_is_read, _getitem)),
    ops.getfield: (lambda op: True, lambda site: f"{site.args[0]}[{site.args[1]}]"),
    ops.take: (lambda op: _array_first(op) and op.kwargs.keys() <= {"axis"},
               lambda site: f"{site.args[0]}.take({site.args[1]}, {site.text(site.op.kwargs.get('axis', 0))})"),
    ops.concat: (lambda op: all(spec_of(x).is_array for x in op.args), lambda site: (
        f"{site.name(np.concatenate)}(({', '.join(site.args)},), {site.text(site.op.kwargs.get('axis', 0))})")),
    ops.astype: (_array_first, lambda site: f"{site.args[0]}.astype({site.text(site.op.spec.dtype)})"),
    ops.copy: (_array_first, lambda site: f"{site.args[0]}.copy({site.text(site.op.kwargs.get('order', 'K'))})"),
    ops.draw: (lambda op: True, lambda site: (
        f"{site.args[0]}.{site.op.kwargs['method']}({', '.join([*site.args[1:], *site.keywords('method')])})")),
    ops.where: (lambda op: op.spec.has_axes and len(op.args) == 3,
                lambda site: f"{site.name(np.where)}({', '.join(site.args)})"),
}
SHAPED = frozenset([ops.reshape, ops.expand_dims, ops.squeeze, ops.mean])  # whose rows write a shape down


# -- pieces of text

def comment(where: Location) -> str:
    """Write a source line as a comment."""
    file = where.file.replace(chr(92), "/").rpartition("/")[2]
    return f"# {file}:{where.line}" + (f"  {where.source}" if where.source else "")


def to_python(x: Any) -> Any:
    """Return NumPy's number as Python's."""
    return x.item() if isinstance(x, np.generic) else x


def is_integer(fact: Callable[[Any], Any], x: Any, expected: Any) -> bool:
    """Return whether a number is rounded to an integer as it was recorded; nan and inf are to none."""
    try:
        return bool(fact(x) == expected)
    except (ArithmeticError, ValueError):
        return False


def loop_head(loop: Loop, each: Sequence[str], lists: Sequence[str], bind: Callable[..., str]) -> str:
    """Write the line that begins a loop: `each` are the names of a run's steps and elements,
    `lists` those of the sequences.
    """
    found = [(values, range_of(values)) for values in
             (values[::-1] if loop.reverse else values for values in loop.steps)]
    sequences = [bind(values, "steps") if steps is None else repr(steps) for values, steps in found]
    sequences += [f"reversed({name})" if loop.reverse else name for name in lists]
    if not sequences:
        return f"for _ in range({loop.count}):"
    return f"for {', '.join(each)} in {sequences[0] if len(sequences) == 1 else 'zip(' + ', '.join(sequences) + ')'}:"
