"""axis_labels: which axes of a call's arguments and of its value belong together, as labels like those of `einsum`.

A number of the value depends only on the numbers of an argument that agree with it along every shared label, wherever
they stand along the other axes. Most ops get their labels from their batching rule; products declare their own. An
empty tuple of labels means that the value depends on all numbers of the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Cotangent
from tapegrad.ops import linalg
from tapegrad.ops.each import Each
from tapegrad.ops.reduce import reduced
from tapegrad.rules import batching
from tapegrad.rules.op import OPS, Op

Labels = tuple[Hashable, ...]
Shape = tuple[int, ...]


def labels_of(op: Op, args: Sequence[Any], kwargs: dict[str, Any], shape: Shape) -> tuple[list[Labels], Labels]:
    """Return the labels of the axes of each argument, and of the value (or a part of it) that has the given shape."""
    ranks = [len(shape_of(x)) for x in args]
    found = _by_product(op, args, kwargs) or _by_batching(op, args, kwargs, shape)
    of_args, of_value = found or ([()] * len(args), ())
    of_args = [labels if len(labels) == rank else () for labels, rank in zip(of_args, ranks)]
    return of_args, of_value if len(of_value) == len(shape) else ()


def _by_batching(
    op: Op, args: Sequence[Any], kwargs: dict[str, Any], shape: Shape
) -> tuple[list[Labels], Labels] | None:
    rule, n = batching.rule_of(op), len(args)
    ranks = [len(shape_of(x)) for x in args]
    if isinstance(op, Each) and not op.summed:
        inner: list[Labels] = [
            ("members", *[(i, k) for k in range(1, rank)]) if flag else ()
            for i, (rank, flag) in enumerate(zip(ranks, op.batched))
        ]
        return inner, ("members", *[("value", k) for k in range(1, len(shape))])
    if op.pointwise or rule is batching.elementwise:
        axes = tuple(range(len(shape)))
        return [axes[len(axes) - rank :] if rank <= len(axes) else () for rank in ranks], axes
    if rule is batching.of_first:
        axes = tuple(range(len(shape)))
        return [axes, *[()] * (n - 1)], axes
    if (cores := getattr(rule, "cores", None)) is not None:
        shared = tuple(range(max(rank - core for rank, core in zip(ranks, cores))))
        of_args: list[Labels] = [
            (*shared[len(shared) - (rank - core) :], *[(i, k) for k in range(core)]) if rank >= core else ()
            for i, (rank, core) in enumerate(zip(ranks, cores))
        ]
        return [*of_args, *[()] * (n - len(cores))], (*shared, *[("value", k) for k in range(len(shape) - len(shared))])
    if (along := getattr(rule, "along", None)) is not None:
        default, arrays = along
        widest = max(args[:arrays], key=lambda x: len(shape_of(x)))
        axes, over = tuple(range(len(shape_of(widest)))), set(reduced(widest, kwargs.get("axis", default)))
        kept = tuple(a for a in axes if a not in over)
        of_value = kept if len(shape) == len(kept) else tuple(a if a in kept else ("value", a) for a in axes)
        return [axes[len(axes) - rank :] if i < arrays else () for i, rank in enumerate(ranks)], of_value
    return None


# -- products


def _stacked(signature: str) -> Callable[..., tuple[list[Labels], Labels]]:
    """Return the labels of a product from its signature, written as for NumPy's generalized ufuncs: the arguments end
    with the named axes, and the axes before them are broadcast.
    """
    cores, of_value = signature.split("->")

    def labels(*xs: Any, **_: Any) -> tuple[list[Labels], Labels]:
        parts = [(len(shape_of(x)) - len(core), core) for x, core in zip(xs, cores.split(","))]
        shared = tuple(range(max(n for n, _ in parts)))
        return [(*shared[len(shared) - n:], *core) for n, core in parts], (*shared, *of_value)
    return labels


def _matmul(a: Any, b: Any) -> tuple[list[Labels], Labels]:
    row, column = ("r" if len(shape_of(a)) > 1 else ""), ("c" if len(shape_of(b)) > 1 else "")
    return _stacked(f"{row}s,s{column}->{row}{column}")(a, b)


def _dot(a: Any, b: Any) -> tuple[list[Labels], Labels]:
    m, n = len(shape_of(a)), len(shape_of(b))
    return _tensordot(a, b, axes=((m - 1,), (max(n - 2, 0),)) if m and n else 0)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> tuple[list[Labels], Labels]:
    m, n = len(shape_of(a)), len(shape_of(b))
    of_a, of_b = linalg.summed(axes, m, n)
    left: list[Hashable] = [("a", i) for i in range(m)]
    right: list[Hashable] = [("b", i) for i in range(n)]
    for i, k in zip(of_a, of_b):
        right[k] = left[i]
    return [tuple(left), tuple(right)], (
        *[x for i, x in enumerate(left) if i not in of_a],
        *[x for k, x in enumerate(right) if k not in of_b],
    )


def _einsum(subscripts: str, *xs: Any, **_: Any) -> tuple[list[Labels], Labels]:
    terms, output = linalg.labels(subscripts, [len(shape_of(x)) for x in xs])
    return [(), *map(tuple, terms)], tuple(output)


def _linear_weight(dy: Cotangent, x: Any) -> tuple[list[Labels], Labels]:
    rows = tuple(range(len(shape_of(x)) - 1))
    return [(*rows, "column"), (*rows, "sum")], ("column", "sum")


_PRODUCTS: dict[Op, Callable[..., tuple[list[Labels], Labels]]] = {
    OPS["matmul"]: _matmul,
    OPS["dot"]: _dot,
    OPS["tensordot"]: _tensordot,
    OPS["einsum"]: _einsum,
    OPS["linear"]: _stacked("s,cs,c->c"),
    OPS["linear_weight"]: _linear_weight,
    OPS["vecdot"]: _stacked("s,s->"),
    OPS["matvec"]: _stacked("rs,s->r"),
    OPS["vecmat"]: _stacked("s,sc->c"),
}


def is_product(op: Op) -> bool:
    """True for an op whose numbers sum products of one number of each argument; these agree along each label."""
    return op in _PRODUCTS


def _by_product(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Labels], Labels] | None:
    rule = _PRODUCTS.get(op)
    return None if rule is None else rule(*args, **kwargs)
