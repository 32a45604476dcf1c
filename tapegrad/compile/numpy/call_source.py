"""call_source: the spelling of calls in NumPy.

The table has a row for each op with a faster spelling than a call of its implementation: `np.add.reduce` costs half of
`np.sum`, a method half of NumPy's Python wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import Location
from tapegrad.numbers.view_path import Path
from tapegrad.ops.loop import Loop, range_of
from tapegrad.rules.op import Op
from tapegrad.rules.registry import DISPATCH
from tapegrad.rules.types import spec_of_call
from tapegrad.rules.types.layout import copied, view_strides
from tapegrad.tape.spec import NOTHING, Spec, spec_of
from tapegrad.tape.tape import Call, Operation

Write = Callable[[Any], str]
"""Writes a value or an operation as an argument of a call."""


class Site:
    """A call to be written: its operation and the texts of its arguments. `text` writes other values, and `name` binds
    a function, array or dtype to a name in the source.
    """

    def __init__(self, op: Call, args: Sequence[str], text: Write, name: Callable[..., str]) -> None:
        self.op, self.args, self.text, self.name = op, args, text, name

    def call(self, name: str, *others: str) -> str:
        """Write a call of a function by its name, with all arguments except the keywords in `others`."""
        keywords = [f"{key}={self.text(value)}" for key, value in self.op.kwargs.items() if key not in others]
        return f"{name}({', '.join([*self.args, *keywords])})"


UFUNCS: dict[Op, np.ufunc] = {}
for _fn, _meaning in DISPATCH.items():
    if isinstance(_fn, np.ufunc) and isinstance(_meaning, Op) and _fn.nout == 1 and _fn.signature is None:
        UFUNCS.setdefault(_meaning, _fn)

BINARY = {ops.add: "+", ops.subtract: "-", ops.multiply: "*", ops.divide: "/", ops.floor_divide: "//",
          ops.remainder: "%", ops.pow: "**", ops.less: "<", ops.less_equal: "<=", ops.greater: ">",
          ops.greater_equal: ">=", ops.equal: "==", ops.not_equal: "!=",
          ops.bitwise_and: "&", ops.bitwise_or: "|", ops.bitwise_xor: "^", ops.matmul: "@",
          ops.bitwise_left_shift: "<<", ops.bitwise_right_shift: ">>"}
UNARY = {ops.negative: "-", ops.positive: "+", ops.bitwise_invert: "~"}


def ufunc_of(op: Call) -> np.ufunc | None:
    """Return the ufunc equivalent to a call on arrays, None if there is none."""
    found = UFUNCS.get(op.fn) if not op.kwargs else None
    # powers of bools: the operator returns int8, the ufunc a wider integer
    return None if found is np.power and spec_of(op.args[0]).kind == "b" else found


def is_calm(op: Operation) -> bool:
    """Return whether a call is on Python's numbers, and NumPy's function returns nan or inf where Python's raises."""
    if type(op) is not Call or type(op.fn) is not Op or op.spec.type is not float or op.fn.effects.raises:
        return False
    python = op.fn is ops.divide or (op.fn.scalar is not None and op.fn is not ops.pow)
    return python and ufunc_of(op) is not None and not any(spec_of(x).is_memory for x in op.args)


_REDUCTIONS: dict[Op, np.ufunc] = {ops.sum: np.add, ops.mean: np.add, ops.prod: np.multiply, ops.max: np.maximum,
                                   ops.min: np.minimum, ops.any: np.logical_or, ops.all: np.logical_and}
_REDUCE = {fn: ufunc.reduce for fn, ufunc in _REDUCTIONS.items()}


def _is_reduced(op: Call) -> bool:
    x = spec_of(op.args[0])
    return (len(op.args) == 1 and x.is_array and x.kind in "fc" and x.dtype.char != "e" and x.size > 0
            and op.kwargs.keys() <= {"axis", "keepdims"}
            and not (op.fn is ops.mean and isinstance(op.kwargs.get("axis"), tuple)))


def _reduction(site: Site) -> str:
    rest = ["None", "None", "True"] if site.op.kwargs.get("keepdims") else []
    name = site.name(_REDUCE[site.op.fn], f"{_REDUCTIONS[site.op.fn].__name__}_reduce")
    x, axis = site.args[0], site.text(site.op.kwargs.get("axis"))
    text = f"{name}({', '.join([x, axis, *rest])})"
    if site.op.fn is not ops.mean:
        return text
    return f"{text} / {x}.size" if axis == "None" else f"{text} / {x}.shape[{axis}]"


def _axes(site: Site) -> str:
    """Write `expand_dims` or `squeeze` as an index."""
    comes, axis = site.op.fn is ops.expand_dims, site.op.kwargs.get("axis", site.op.args[-1])
    ndim = site.op.spec.ndim if comes else spec_of(site.op.args[0]).ndim
    axes = {a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))}
    parts = [":" if a not in axes else "None" if comes else "0" for a in range(ndim)]
    return f"{site.args[0]}[{', '.join([*parts, '...'])}]"


def index_text(write: Write, index: Sequence[Any]) -> str:
    """Write an index as the text between the brackets."""
    written = ", ".join(_part(write, part) for part in index)
    return f"{written}," if len(index) == 1 and written.startswith("(") else written or "()"


def _part(write: Write, part: Any) -> str:
    if isinstance(part, slice):
        ends = ["" if end is None else write(end) for end in (part.start, part.stop, part.step)]
        return ":".join(ends if part.step is not None else ends[:2])
    return "..." if part is Ellipsis else write(part)


def path_text(write: Write, base: str, x: Spec, path: Path) -> str | None:
    """Write the view that a path selects from the array `base` of type `x`; None if there is no short spelling, or if
    with this memory layout it is no view.
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
            base += f"[{index_text(write, step.args)}]"
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


# -- the table: op -> (whether the row applies, the function that writes the call)

Row = tuple[Callable[[Call], bool], Callable[[Site], str]]


def _array_first(op: Call) -> bool:
    return bool(op.args) and spec_of(op.args[0]).is_array and op.spec.is_array


_AXES: Row = (lambda op: _array_first(op) and (len(op.args) == 2 or op.kwargs.get("axis") is not None), _axes)
def _view_text(op: Call, write: Write, base: str) -> str | None:
    """Write the view that a read indexes: the array, or what its path selects from it."""
    x = spec_of(op.args[0])
    return path_text(write, base, x, op.kwargs.get("through", ())) if x.is_memory else None


_READ: Row = (lambda op: _view_text(op, repr, "") is not None,
              lambda site: f"{_view_text(site.op, site.text, site.args[0])}[{index_text(site.text, site.op.args[1:])}]")
SPELLINGS: dict[Op, Row] = {
    **dict.fromkeys(_REDUCTIONS, (_is_reduced, _reduction)),
    ops.expand_dims: _AXES, ops.squeeze: _AXES, ops.getitem: _READ, ops.getitem_masked: _READ,
    ops.reshape: (lambda op: _array_first(op) and len(op.args) == 2,
                  lambda site: f"{site.args[0]}.reshape({site.args[1]})"),
    ops.permute_dims: (_array_first, lambda site: f"{site.args[0]}.transpose({site.text(site.op.kwargs.get('axes'))})"),
    ops.getfield: (lambda op: True, lambda site: f"{site.args[0]}[{site.args[1]}]"),
    ops.take: (lambda op: _array_first(op) and op.kwargs.keys() <= {"axis"},
               lambda site: f"{site.args[0]}.take({site.args[1]}, {site.text(site.op.kwargs.get('axis', 0))})"),
    ops.concat: (lambda op: all(spec_of(x).is_array for x in op.args), lambda site: (
        f"{site.name(np.concatenate)}(({', '.join(site.args)},), {site.text(site.op.kwargs.get('axis', 0))})")),
    ops.astype: (_array_first, lambda site: f"{site.args[0]}.astype({site.text(site.op.spec.dtype)})"),
    ops.copy: (_array_first, lambda site: f"{site.args[0]}.copy({site.text(site.op.kwargs.get('order', 'K'))})"),
    ops.where: (lambda op: op.spec.has_axes and len(op.args) == 3,
                lambda site: f"{site.name(np.where)}({', '.join(site.args)})"),
    ops.draw: (lambda op: True, lambda site: Site(site.op, site.args[1:], site.text, site.name).call(
        f"{site.args[0]}.{site.op.kwargs['method']}", "method")),
}


# -- fragments of source, and helpers that it calls

def comment(where: Location) -> str:
    """Write a source line as a comment."""
    file = where.file.replace(chr(92), "/").rpartition("/")[2]
    return f"# {file}:{where.line}" + (f"  {where.source}" if where.source else "")


def to_python(x: Any) -> Any:
    """Return a NumPy scalar as a Python number, other values unchanged."""
    return x.item() if isinstance(x, np.generic) else x


def is_integer(fact: Callable[[Any], Any], x: Any, expected: Any) -> bool:
    """Return whether `fact(x)`, which rounds to an integer, is the expected one; never for nan and inf."""
    try:
        return bool(fact(x) == expected)
    except (ArithmeticError, ValueError):
        return False


def loop_head(loop: Loop, each: Sequence[str], lists: Sequence[str], bind: Callable[..., str]) -> str:
    """Write the `for` line of a loop; `each` names the current steps and elements, `lists` the sequences."""
    found = [(values, range_of(values)) for values in
             (values[::-1] if loop.reverse else values for values in loop.steps)]
    sequences = [bind(values, "steps") if steps is None else repr(steps) for values, steps in found]
    sequences += [f"reversed({name})" if loop.reverse else name for name in lists]
    if not sequences:
        return f"for _ in range({loop.count}):"
    return f"for {', '.join(each)} in {sequences[0] if len(sequences) == 1 else 'zip(' + ', '.join(sequences) + ')'}:"
