"""How torch reads, writes, arranges and joins parts means the ops that NumPy's means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tapegrad as tg
from tests.frontends.torch.agree import agree, refused_alike
from tests.frontends.torch.table import check, sample, total

X, V = sample(3, 4), sample(4)
Y = sample(2, 3, 4)
I = torch.tensor([[0, 2, 1, 0], [2, 2, 0, 1]])
ROWS = torch.tensor([2, 0, 2])

TABLE: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...]]] = {
    "gather": (lambda x, i: torch.gather(x, 0, i), "take_along_axis", (X, I)),
    "gather, a smaller index": (lambda x, i: x.gather(1, i[:, :2]), "take_along_axis", (X, I)),
    "gather, one row": (lambda x, i: x.gather(1, i[:1]), "take_along_axis", (X, I)),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i[:1], 0), "take_along_axis", (X, I)),
    "take_along_dim of all": (lambda x, i: x.contiguous().take_along_dim(i), "take_along_axis", (X, I)),
    "index_select": (lambda x, i: torch.index_select(x, 0, i), "take", (X, ROWS)),
    "index_select, one": (lambda x, i: x.index_select(-1, i[0]), "take", (X, ROWS)), "take": (lambda x, i: torch.take(x, i), "take", (X, I)),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), "getitem_masked", (X,)),
    "masked_select, broadcast": (lambda x: x.masked_select(x[0] > 0), "getitem_masked", (X,)),
    "masked_select, wider": (lambda x, y: x.masked_select(y > 0), "getitem_masked", (X, Y)),
    "nonzero": (lambda x: torch.nonzero(x > 0), "nonzero", (X,)), "nonzero, as_tuple": (lambda x: x[(x > 0).nonzero(as_tuple=True)], "nonzero", (X,)),
    "argwhere": (lambda x: torch.argwhere(x > 0), "nonzero", (X,)),
    "index_add": (lambda x, y, i: torch.index_add(x, 0, i, y, alpha=2), "scatter", (X, X * 2, ROWS)),
    "index_add_": (lambda x, y, i: x.clone().index_add_(1, i, y), "scatter", (X, X[:, :3] * 2, ROWS)),
    "index_fill": (lambda x, i: x.index_fill(0, i, 0.5), "setitem", (X, ROWS)),
    "index_fill by a tensor": (lambda x, v, i: x.index_fill(0, i, v[0]), "setitem", (X, V, ROWS[:2])),
    "scatter_add": (lambda x, y, i: torch.scatter_add(x, 0, i, y), "scatter", (X, X[1:] * 2, I)),
    "scatter_add, rows": (lambda x, y, i: x.scatter_add(0, i[:, :1].expand(-1, x.shape[1])[:len(y)], y), "scatter", (X, X[1:] * 2, I)),
    "scatter_add, smaller": (lambda x, y, i: x.scatter_add(1, i[:, :3], y), "scatter", (X, X[:2, :3] * 2, I)),
    "scatter a number": (lambda x, i: x.scatter(1, i, 0.5), "setitem", (X, I)),
    "scatter_ into zeros": (lambda x, i: x * torch.zeros(3, 4, dtype=torch.float64).scatter_(0, i[:1], 1.0), "setitem", (X, I)),
    "index_put, accumulate": (lambda x, v, i: x.index_put((i, i), v, accumulate=True), "scatter", (X, V[:3], ROWS)),
    "select_scatter": (lambda x, v: torch.select_scatter(x, v, 0, 1), "setitem", (X, V)),
    "slice_scatter": (lambda x, v: x.slice_scatter(v[:, None].expand(4, 2).T, 0, 0, 2), "setitem", (X, V)),
    "flip": (lambda x: torch.flip(x, (0, 1)), "flip", (X,)), "flipud": (torch.flipud, "flip", (X,)), "fliplr": (torch.fliplr, "flip", (X,)),
    "x.flip(0, 1)": (lambda x: x.flip(0, -1), "flip", (X,)),
    "rot90": (lambda x: torch.rot90(x), "flip", (X,)), "rot90, 3": (lambda x: torch.rot90(x, 3, (1, 0)), "flip", (X,)),
    "roll": (lambda x: torch.roll(x, 2), "roll", (X,)),
    "roll, dims": (lambda x: x.roll((1, -1), (0, 1)), "roll", (X,)), "roll, one": (lambda x: x.roll(1, 0), "roll", (X,)),
    "repeat": (lambda x: x.repeat(2, 1, 3), "tile", (X,)),
    "tile": (lambda x: torch.tile(x, (2,)), "tile", (X,)), "repeat_interleave": (lambda x: torch.repeat_interleave(x, 2), "repeat", (X,)),
    "repeat_interleave, dim": (lambda x: x.repeat_interleave(3, dim=0), "repeat", (X,)),
    "broadcast_tensors": (lambda x, v: tuple(torch.broadcast_tensors(x, v)), "broadcast_to", (X, V)),
    "meshgrid": (lambda v, w: tuple(torch.meshgrid(v, w, indexing="xy")), "broadcast_to", (V, V[:2])),
    "meshgrid, ij": (lambda v, w: torch.meshgrid([v, w, v], indexing="ij")[2], "broadcast_to", (V, V[:2])),
    "hstack": (lambda x: torch.hstack([x, x * 2]), "concat", (X,)), "hstack of vectors": (lambda v: torch.hstack((v, v * 2)), "concat", (V,)),
    "vstack": (lambda x, v: torch.vstack((x, v)), "concat", (X, V)), "dstack": (lambda x: torch.dstack((x, x * 2)), "concat", (X,)),
    "column_stack": (lambda x: torch.column_stack((x[:, 0], x)), "concat", (X,)),
    "tensor_split": (lambda x: torch.tensor_split(x, 3, 1), "getitem", (X,)),
    "tensor_split at": (lambda x: x.tensor_split((1, 3), 1), "getitem", (X,)), "hsplit": (lambda x: torch.hsplit(x, 2), "getitem", (X,)),
    "vsplit": (lambda x: x.vsplit([1]), "getitem", (X,)), "dsplit": (lambda y: torch.dsplit(y, 2), "getitem", (Y,)),
    "atleast_3d": (lambda x: torch.atleast_3d(x) * 2, "reshape", (X,)),
    "atleast_2d of several": (lambda x, v: tuple(part * 2 for part in torch.atleast_2d(x, v)), "reshape", (X, V)),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_call(name: str) -> None:
    f, op, args = TABLE[name]
    check(f, *args, op=op)
    narrow = [x.float() if x.is_floating_point() else x for x in args]
    check(f, *(x.T.contiguous().T if x.ndim == 2 and x.is_floating_point() else x for x in narrow), op=op)


def test_torchs_flip_is_a_copy() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        z = y.flip(0)
        z[0] = 0.0
        return (y * 2 + z).sum()
    agree(f, X)


def test_clone_and_contiguous_are_written_apart() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        z, t = y.contiguous(), y.T.contiguous()
        z[0] = 0.0
        t[0] = 1.0
        return (y * z * x).sum() + (t * x.T).sum()
    agree(f, X)


@pytest.mark.parametrize("f", [
    lambda x: x.gather(2, I), lambda x: x.gather(0, I + 5), lambda x: x.index_select(0, I), lambda x: torch.flip(x, (0, 0)), lambda x: x.repeat(2),
    lambda x: torch.fliplr(x[0]),
    lambda x: torch.hsplit(x, 3), lambda x: x.scatter_add(0, I, x.float()), lambda x: torch.select_scatter(x, x, 0, 1), lambda x: x.masked_select(x),
], ids=range(10))
def test_what_torch_refuses_is_refused_in_its_words(f: Callable[..., Any]) -> None:
    refused_alike(f, X)


@pytest.mark.parametrize("f", [
    lambda x: x.scatter(0, I[:1], x[:1] * 2), lambda x: x.masked_scatter(x > 0, x * 2), lambda x: x.index_copy(0, ROWS[:2], x[:2] * 2),
    lambda x: x.unfold(1, 2, 1),
    lambda x: torch.block_diag(x, x), lambda x: x.index_put((ROWS[:2],), x[:2] * 2), lambda x: x.repeat_interleave(ROWS + 1, dim=0),
], ids=range(7))
def test_what_has_no_op_of_torchs_convention_has_torchs_gradient(f: Callable[..., Any]) -> None:
    check(f, X, mapped=False)


def test_a_mask_replays_with_as_many_numbers_as_it_then_lets_through() -> None:
    _, tape = tg.trace(lambda x: x.masked_select(x > 0), X)
    torch.testing.assert_close(tape.play(-X), (-X)[-X > 0])
    agree(lambda x: total(x.masked_select(x > 0)), X)
