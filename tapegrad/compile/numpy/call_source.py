"""call_source: how a call is written in NumPy, with the least overhead that means the same.

One row for each op that has a better spelling than a call of its implementation: `np.add.reduce` costs half of
`np.sum`, a method half of NumPy's Python wrapper. A row returns source text; what it names beyond its arguments it gets
from `site.name`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapegrad import ops
from tapegrad.compile.numpy.call_facts import (
    BLAS,
    REDUCE,
    REDUCTIONS,
    UFUNCS,
    gathers,
    is_tall_vecdot,
    masked,
    reads_float,
    reduced,
    ufunc_of,
)
from tapegrad.errors import Location
from tapegrad.numbers.view_path import Path
from tapegrad.ops.fused import Fused, fields_of
from tapegrad.ops.loop import Loop, range_of
from tapegrad.rules.op import Op
from tapegrad.rules.registry import FOREIGN
from tapegrad.rules.types import spec_of_call
from tapegrad.rules.types.layout import copied, view_strides
from tapegrad.tape.spec import NOTHING, Spec, spec_of
from tapegrad.tape.tape import Call, Constant, Operation


class Site(Protocol):
    """A call that is being written: its operation, its arguments as source text, where its
    value goes ("" for a new array).

    `floats` says that NumPy's numbers may be computed as Python's.
    """

    op: Call
    args: Sequence[str]
    out: str
    floats: bool

    def name(self, value: Any, hint: str = "") -> str:
        """Return a name by which the source knows a function, an array, a dtype."""

    def text(self, value: Any) -> str:
        """Write a value that is no operation: a number, a slice, a tuple of them."""


# -- ufuncs: the same for every op that one implements

for _fn, _meaning in FOREIGN.items():
    if isinstance(_fn, np.ufunc) and isinstance(_meaning, Op) and _fn.nout == 1 and _fn.signature is None:
        UFUNCS.setdefault(_meaning, _fn)

BINARY = {ops.add: "+", ops.subtract: "-", ops.multiply: "*", ops.divide: "/", ops.floor_divide: "//",
          ops.remainder: "%", ops.pow: "**", ops.less: "<", ops.less_equal: "<=", ops.greater: ">",
          ops.greater_equal: ">=", ops.equal: "==", ops.not_equal: "!=",
          ops.bitwise_and: "&", ops.bitwise_or: "|", ops.bitwise_xor: "^", ops.matmul: "@",
          ops.bitwise_left_shift: "<<", ops.bitwise_right_shift: ">>"}
UNARY = {ops.negative: "-", ops.positive: "+", ops.bitwise_invert: "~"}


def write_ufunc(site: Site, ufunc: np.ufunc) -> str:
    """Write a ufunc's call; plain numbers become 0-d arrays once, which spares each call a conversion."""
    args = [text if isinstance(arg, Operation) else _boxed(site, arg, text, ufunc)
            for arg, text in zip(site.op.args, site.args)][: ufunc.nin]
    # those two want it by name
    out = [f"out={site.out}" if ufunc in (np.maximum, np.minimum) else site.out] if site.out else []
    return f"{site.name(ufunc)}({', '.join([*args, *out])})"


def _boxed(site: Site, arg: Any, text: str, ufunc: np.ufunc) -> str:
    if type(arg) not in (int, float) or len(site.args) != 2 or ufunc in (np.power, np.float_power, np.ldexp):
        return text
    other = spec_of(site.op.args[1 if arg is site.op.args[0] else 0])
    if not other.is_memory or other.kind != "f":
        return text
    return site.name(np.array(arg, other.dtype), "number")  # it takes the dtype of the array that it meets


# -- reductions


def _reduction(site: Site) -> str:
    found = reduced(site.op)
    assert found is not None
    ufunc, axis, keep, count = found
    args = [site.args[0], site.text(axis)]
    if site.out or keep:
        args += ["None", site.out or "None"]
    text = f"{site.name(REDUCE[ufunc], f'{ufunc.__name__}_reduce')}({', '.join([*args, *(['True'] if keep else [])])})"
    if count is None:
        return text
    if site.out:
        return f"{site.name(np.divide)}({text}, {site.text(count)}, {site.out})"
    return f"{text} / {site.text(count)}"


# -- shapes and indices

def _reshape(site: Site) -> str:
    return f"{site.args[0]}.reshape({site.text(site.op.spec.shape)})"


def _permute(site: Site) -> str:
    axes, ndim = site.op.kwargs.get("axes"), site.op.spec.ndim
    if axes is None or tuple(a % ndim for a in axes) == tuple(range(ndim))[::-1]:
        return f"{site.args[0]}.T"
    return f"{site.args[0]}.transpose({site.text(axes)})"


def index_text(site: Site, index: Sequence[Any], texts: Sequence[str]) -> str:
    """Write an index as it stands between brackets."""
    written = ", ".join(_part(site, part, text) for part, text in zip(index, texts))
    return f"{written}," if len(index) == 1 and written.startswith("(") else written or "()"


def _part(site: Site, part: Any, text: str) -> str:
    if isinstance(part, slice):
        ends = ["" if end is None else site.text(end) for end in (part.start, part.stop, part.step)]
        return ":".join(ends if part.step is not None else ends[:2])
    return "..." if part is Ellipsis else text


def path_text(site: Site, base: str, x: Spec, path: Path) -> str | None:
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
            base += f"[{index_text(site, step.args, [site.text(part) for part in step.args])}]"
        elif step.op is ops.permute_dims:
            axes = step.kwargs.get("axes")
            base += ".T" if axes is None else f".transpose({site.text(tuple(axes))})"
        elif step.op in (ops.reshape, ops.expand_dims, ops.squeeze):
            base += f".reshape({site.text(view.shape)})"
        elif step.op in (ops.real, ops.imag):
            base += f".{step.op.__name__}"
        else:
            return None
    return base




def _getitem(site: Site) -> str:
    if site.out:
        return f"{site.name(np.take)}({site.args[0]}.T, {site.args[1]}, 1, {site.out}.T)"
    if site.floats and reads_float(site.op):
        return f"{site.args[0]}.item({', '.join(site.args[1:])})"
    base = path_text(site, site.args[0], spec_of(site.op.args[0]), site.op.kwargs.get("through", ()))
    return f"{base}[{index_text(site, site.op.args[1:], site.args[1:])}]"


def _getfield(site: Site) -> str:
    return f"{site.args[0]}[{site.args[1]}]"


def _take(site: Site) -> str:
    return f"{site.args[0]}.take({site.args[1]}, {site.text(site.op.kwargs.get('axis', 0))})"


def _concat(site: Site) -> str:
    given = f"({', '.join(site.args)},), {site.text(site.op.kwargs.get('axis', 0))}"
    return f"{site.name(np.concatenate)}({given}{f', {site.out}' if site.out else ''})"


def _astype(site: Site) -> str:
    if site.out:
        return f"{site.name(np.copyto)}({site.out}, {site.args[0]}, 'unsafe')"
    return f"{site.args[0]}.astype({site.text(site.op.spec.dtype)})"


def _copy(site: Site) -> str:
    if site.out:
        return f"{site.name(np.copyto)}({site.out}, {site.args[0]})"
    return f"{site.args[0]}.copy({site.text(site.op.kwargs.get('order', 'K'))})"


# -- products

def _matmul(site: Site) -> str:
    a, b = map(spec_of, site.op.args)
    flat = a.ndim == b.ndim == 2 and a.dtype == b.dtype == site.op.spec.dtype and a.dtype.char in BLAS
    if flat and site.op.spec.is_contiguous:
        return f"{site.name(np.dot)}({', '.join([*site.args, site.out] if site.out else site.args)})"
    return f"{site.name(np.matmul)}({', '.join([*site.args, site.out] if site.out else site.args)})"


def _vecdot(site: Site) -> str:
    return f"{site.name(np.einsum)}('...i,...i->...', {', '.join(site.args)}{f', out={site.out}' if site.out else ''})"


def write_sum_of_products(site: Site) -> str:
    """Write the sum of products of all elements in whatever order they lie in memory."""
    axes = "abcdefghijklmnopqrstuvwxyz"[:spec_of(site.op.args[0]).ndim]
    return f"{site.name(np.einsum)}('{axes},{axes}->', {', '.join(site.args)})"


def _where(site: Site) -> str:
    if not site.out:
        return f"{site.name(np.where)}({', '.join(site.args)})"
    c, a, b = site.args
    found = masked(site.op)
    if found is not None:
        bits = site.text(np.dtype(f"i{site.op.spec.itemsize}"))
        c, x = (c, a) if found[1] else (f"{site.name(np.logical_not)}({c})", b)
        return f"{site.name(np.multiply)}({x}.view({bits}), {c}, {site.out}.view({bits}))"
    copyto = site.name(np.copyto)
    return f"{copyto}({site.out}, {b}); {copyto}({site.out}, {a}, where={c})"


_MANY = 4096  # elements, from which on np.where's new array costs more than a second call


def _writes_where(op: Call) -> bool:
    if masked(op) is not None:
        return True
    c, a, b = map(spec_of, op.args)
    return (op.spec.size >= _MANY and c.kind == "b"
            and all(x.type in (int, float) or x.has_dtype(op.spec.dtype) for x in (a, b)))


def _array_first(op: Call) -> bool:
    return bool(op.args) and spec_of(op.args[0]).is_array and op.spec.is_array


def may_repeat(op: Call) -> bool:
    """True for a scatter by an array that may name a place twice: a plain `x[index] += piece` would add one of them."""
    at = 0
    for rank in op.kwargs["ranks"]:
        index = op.args[at + 1: at + 1 + rank]
        at += 1 + rank
        if any(_names_places(part) for part in index):
            if ("through" in op.kwargs
                or any(isinstance(part, Operation) and not isinstance(part, Constant) for part in index)):
                return True
            known = tuple(part.val if isinstance(part, Operation) else part for part in index)
            places = np.arange(op.spec.size).reshape(op.spec.shape)[known]
            if np.unique(places).size < places.size:
                return True
    return False


def _names_places(part: Any) -> bool:
    """True for an array of integers, or a list of them, in an index."""
    x = spec_of(np.asarray(part) if type(part) is list else part)
    return x.is_memory and x.kind != "b"


# -- the table: op -> (does the row apply, can it write where it is told to, how it is written)

Row = tuple[Callable[[Call], bool], Callable[[Call], bool], Callable[[Site], str]]


def _always(op: Call) -> bool:
    return True


def _never(op: Call) -> bool:
    return False


def _is_array(op: Call) -> bool:
    return op.spec.has_axes


def _is_read(op: Call) -> bool:
    x = spec_of(op.args[0])
    return x.is_memory and has_path_text(x, op.kwargs.get("through", ()))


class _NoSite:
    """Where nothing is written: to ask whether something could be."""

    @staticmethod
    def text(value: Any) -> str:
        return ""


def has_path_text(x: Any, path: Path) -> bool:
    """True if there is a short way to write the view that a path leads to."""
    return path_text(_NoSite, "", x, path) is not None  # type: ignore[arg-type]


SPELLINGS: dict[Op, Row] = {
    **dict.fromkeys([*REDUCTIONS, ops.mean], (lambda op: reduced(op) is not None, _is_array, _reduction)),
    **dict.fromkeys([ops.reshape, ops.expand_dims, ops.squeeze], (_array_first, _never, _reshape)),
    ops.permute_dims: (_array_first, _never, _permute),
    ops.getitem: (_is_read, gathers, _getitem),
    ops.getitem_masked: (_is_read, _never, _getitem),
    ops.getfield: (_always, lambda op: fields_of(op) is not None and _is_array(op), _getfield),
    ops.take: (lambda op: _array_first(op) and op.kwargs.keys() <= {"axis"}, _never, _take),
    ops.concat: (lambda op: all(spec_of(x).is_array for x in op.args), _is_array, _concat),
    ops.astype: (_array_first, _is_array, _astype),
    ops.copy: (_array_first, _is_array, _copy),
    ops.matmul: (lambda op: all(spec_of(x).is_array for x in op.args), _is_array, _matmul),
    ops.vecdot: (is_tall_vecdot, _is_array, _vecdot),
    ops.where: (lambda op: _is_array(op) and len(op.args) == 3, _writes_where, _where),
}


SHAPED = frozenset([ops.reshape, ops.expand_dims, ops.squeeze, ops.mean])  # whose rows write a shape down


def spelling(op: Call) -> Row | None:
    """Return the row that a call is written by, None where there is none."""
    row = SPELLINGS.get(op.fn)
    return row if row is not None and row[0](op) else None


class How(NamedTuple):
    """How a call is written: by a row of the table, as a ufunc's, or neither; and whether it can put its value, an
    array, where it is told to.
    """

    row: Row | None
    ufunc: np.ufunc | None
    writes: bool


def how(op: Call) -> How:
    """Decide how a call is written: once, as it takes a look at all of its arguments."""
    if op.fn is ops.scatter:
        order = op.kwargs.get("order", "C")
        return How(None, None, _is_array(op) and order == "C" and not may_repeat(op)
                   and all(has_path_text(op.spec, path) for path in op.kwargs.get("through", ())))
    row = spelling(op)
    if row is not None:
        return How(row, None, row[1](op))
    ufunc = ufunc_of(op)
    if ufunc is None:
        return How(None, None, isinstance(op.fn, Fused) and _is_array(op))
    y = op.spec
    return How(None, ufunc, y.has_axes and y.kind in "biufc")


# -- Python's numbers

"""Ops that mean the same of Python's floats as of NumPy's, but for errors."""


# -- pieces of text

def comment(where: Location) -> str:
    """Write a source line as a comment."""
    file = where.file.replace(chr(92), "/").rpartition("/")[2]
    return f"# {file}:{where.line}" + (f"  {where.source}" if where.source else "")


def to_python(x: Any) -> Any:
    """Return NumPy's number as Python's."""
    return x.item() if isinstance(x, np.generic) else x


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
