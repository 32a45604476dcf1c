"""Cases of the linalg ops."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.cases.case import Case, draw

SHAPES = [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3, 4)), ((2, 3), (2, 3, 2)),
          ((3,), (2, 3, 2)), ((2, 2, 3), (3,)), ((2, 1, 2, 3), (3, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]


def pair(*shapes: tuple[int, ...], **kwargs: Any) -> tuple[Any, ...]:
    return tuple(draw(*shape, seed=i, **kwargs) for i, shape in enumerate(shapes))


def z(*shape: int, seed: int = 0) -> Any:
    return draw(*shape, seed=seed) + 1j * draw(*shape, seed=seed + 10)


def product(name: str, fn: Callable[..., Any], *shapes: tuple[Any, ...], torch: Any = None, wrong: Any = None, **kwargs: Any) -> Case:
    """Two arrays of each of these shapes; the first pair strided and complex too."""
    (m, n), samples = shapes[0], [pair(*both) for both in shapes]
    a, b = pair(m[::-1], n[::-1])
    samples += [(a.T[::-1][::-1], b.T)]
    if torch is None:
        samples += [(z(*m), z(*n, seed=1)), (draw(*m), z(*n, seed=1))]
    return Case(name, fn, samples, torch=torch, errors=[] if wrong is None else [(pair(*wrong), ValueError)], **kwargs)


def contracted(subscripts: str, *shapes: tuple[int, ...], **kwargs: Any) -> Case:
    """An einsum: real ones against torch, complex ones against differences."""
    return Case(f"einsum:{subscripts}", lambda *xs: np.einsum(subscripts, *xs, **kwargs),
                [pair(*shapes), tuple(np.asfortranarray(x) for x in pair(*shapes))], torch=lambda *xs: torch.einsum(subscripts, *xs))


WRONG = ((2, 3), (4, 2))
CASES: list[Case] = [
    product("matmul", operator.matmul, *SHAPES, torch=torch.matmul, wrong=WRONG), product("matmul:np", np.matmul, *SHAPES, wrong=WRONG),
    product("matmul:linalg", np.linalg.matmul, *SHAPES[:1]),
    Case("matmul:scalar", operator.matmul, [], errors=[((np.ones(2), np.float64(1.0)), ValueError)]),
    Case("matmul:reflected", lambda x: np.eye(2) @ x @ [[1.0, 2.0], [3.0, 4.0]] + [[1.0, 2.0], [3.0, 4.0]] @ x, [(draw(2, 2),)]),
    product("vecdot", np.vecdot, ((2, 3), (2, 3)), ((3,), (3,)), ((2, 1, 3), (4, 3)), ((0, 2), (0, 2)), torch=torch.linalg.vecdot,
            wrong=WRONG),
    product("vecdot:complex", np.vecdot, ((2, 3), (3,)), ((3,), (2, 3))),
    product("vecdot:axis", lambda a, b: np.linalg.vecdot(a, b, axis=0), ((3, 2), (3, 2))),
    product("matvec", np.matvec, ((2, 3), (3,)), ((2, 2, 3), (2, 3)), ((2, 3), (4, 3)), wrong=WRONG),
    product("vecmat", np.vecmat, ((3,), (3, 2)), ((2, 3), (2, 3, 4)), ((4, 3), (3, 2)), wrong=WRONG),
    product("dot", np.dot, *SHAPES[:5], ((2, 3), (2, 3, 2)), ((2, 2, 3), (2, 3, 2)), ((3,), (2, 3, 2)), ((), (2, 3)), ((2,), ()),
            ops=("matmul", "dot", "multiply"), wrong=WRONG),
    product("dot:method", lambda a, b: a.dot(b), *SHAPES[:4], ops=("matmul",)),
    product("inner", np.inner, ((2, 3), (4, 3)), ((3,), (3,)), ((2, 3), (3,)), ((2, 2, 3), (4, 3)), ((), (2, 3)), torch=torch.inner,
            ops=("matmul", "dot"), wrong=WRONG),
    product("vdot", np.vdot, ((2, 3), (2, 3)), ((3,), (3,)), ((2, 3), (6,)), ((), ()), wrong=WRONG),
    product("outer", np.outer, ((2, 3), (2, 2)), ((3,), (2,)), ((), (2,)), ops=("multiply",)),
    product("outer:linalg", np.linalg.outer, ((3,), (2,)), torch=torch.outer, ops=("multiply",)),
    product("kron", np.kron, ((2, 3), (2, 2)), ((3,), (2, 2)), ((2, 2, 1), (3,)), ((), (2,)), ((0, 2), (2, 2)), torch=torch.kron,
            ops=("multiply",)),
    product("cross", np.cross, ((2, 3), (2, 3)), ((3,), (3,)), ((4, 1, 3), (2, 3)), ops=("stack",), wrong=((2, 3), (2, 4))),
    product("cross:linalg", np.linalg.cross, ((2, 3), (2, 3)), torch=torch.linalg.cross, ops=("stack",)),
    product("cross:axis", lambda a, b: np.cross(a, b, axisa=0, axisb=1, axisc=0), ((3, 2), (2, 3)), ops=("stack",)),
    Case("multi_dot", lambda *xs: np.linalg.multi_dot(xs),
         [pair((2, 5), (5, 1), (1, 4)), pair((3,), (3, 2), (2, 4), (4,)), pair((2, 3), (3, 2))], ops=("matmul",),
         errors=[((np.ones((2, 2)),), ValueError)]),
    product("tensordot", np.tensordot, ((2, 3, 2), (3, 2, 4)), ((2, 3), (2, 3)), wrong=WRONG),
    product("tensordot:none", lambda a, b: np.tensordot(a, b, 0), ((2, 3), (2,)), ((), (2,)), torch=lambda a, b: torch.tensordot(a, b, 0)),
    product("tensordot:one", lambda a, b: np.tensordot(a, b, (0, -1)), ((3, 2), (2, 3)), ((3,), (3,)),
            torch=lambda a, b: torch.tensordot(a, b, ([0], [-1]))),
    *[product(f"tensordot:{axes}", lambda a, b, axes=axes: np.tensordot(a, b, axes), shapes,
              torch=lambda a, b, axes=axes: torch.tensordot(a, b, axes)) for axes, shapes in [
        (((0, 2), (1, 0)), ((2, 3, 4), (4, 2, 2))), (((2, 0), (1, 2)), ((2, 3, 4), (2, 4, 2))), (((1, 0), (0, 1)), ((2, 3), (3, 2)))]],
    product("tensordot:linalg", lambda a, b: np.linalg.tensordot(a, b, axes=1), ((2, 3), (3, 2))), contracted("ij,jk->ik", (2, 3), (3, 4)),
    contracted("ij,jk", (2, 3), (3, 4)), contracted("ij->ji", (2, 3)), contracted("ij->", (2, 3)), contracted("ij->j", (2, 3)),
    contracted("ii->i", (3, 3)), contracted("ii", (3, 3)), contracted("ii->", (3, 3)), contracted("iji->j", (2, 3, 2)),
    contracted("i,i", (3,), (3,)), contracted("i,j->ij", (2,), (3,)), contracted("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    contracted("i,ij,j->", (2,), (2, 3), (3,)), contracted("ij,jk,kl->il", (2, 3), (3, 2), (2, 3), optimize=True),
    contracted("...ij,...jk->...ik", (2, 2, 3), (3, 2)), contracted("...i,i->...", (2, 2, 3), (3,)), contracted("i...->...", (2, 3)),
    contracted("...ij->...", (2, 2, 3)), contracted("ij,k->i", (2, 3), (2,)),
    Case("einsum:views", lambda x: np.einsum("ijij->ji", x) * np.einsum("iji...->i...j", x)[..., 0] + np.einsum("iiii->i", x),
         [(draw(2, 2, 2, 2),)], ops=("diagonal", "permute_dims"), errors=[((draw(2, 3, 2, 3),), ValueError)]),
    Case("einsum:iii", lambda x, y: np.einsum("iii,ij->j", x, y), [pair((2, 2, 2), (2, 3))]),
    Case("einsum:one", lambda x, y: np.einsum("ij,jk->ik", x, y), [pair((2, 1), (3, 2)), pair((2, 3), (1, 2))]),
    Case("einsum:stretched", lambda x, y: np.einsum("jl,lj->j", x, y), [pair((1, 3), (3, 4)), pair((4, 1), (3, 4)), pair((1, 3), (1, 1))]),
    Case("einsum:implicit", lambda x, y: np.einsum("...ba,...bc", x, y) * np.einsum("...ba, ...bc", 2 * x, y),
         [pair((2, 3, 2), (3, 4)), (z(2, 2), z(2, 2, seed=1))]),
    Case("einsum", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]) * np.einsum(x, [Ellipsis, 30], y, [30, 2]),
         [pair((2, 3), (3, 4)), pair((0, 3), (3, 4)), (z(2, 3), z(3, 2, seed=1))], errors=[(pair((2, 3), (4, 2)), ValueError)]),
    Case("einsum:path", lambda x, y: np.einsum("ij,jk,kl->il", x, y, x, optimize=np.einsum_path("ij,jk,kl->il", x, y, x)[0]),
         [pair((2, 3), (3, 2))]),
    Case("diagonal", lambda x: np.diagonal(x) * 2,
         [(draw(3, 3),), (draw(2, 4),), (draw(3, 2, 2),), (draw(4, 3).T[::-1],), (draw(0, 2),), (z(2, 2),)],
         torch=lambda x: torch.diagonal(x) * 2, errors=[((np.ones(3),), ValueError)]),
    Case("diagonal:axes", lambda x: x.diagonal(1, 2, 0) * np.diagonal(x, -1, axis1=0, axis2=1).sum(), [(draw(3, 2, 4),), (draw(3, 3, 3),)]),
    Case("diagonal:linalg", lambda x: np.linalg.diagonal(x, offset=-1), [(draw(2, 3, 3),), (draw(3, 3),)],
         torch=lambda x: torch.linalg.diagonal(x, offset=-1)),
    Case("trace", lambda x: x.trace() + np.trace(x, 1, -2, -1), [(draw(3, 3),), (draw(2, 2, 2),), (z(2, 3),)], ops=("diagonal",),
         errors=[((np.ones(3),), ValueError)]),
    Case("trace:linalg", lambda x: np.linalg.trace(x, offset=1), [(draw(3, 3),), (draw(2, 2, 3),)], ops=("diagonal",)),
    Case("diag", lambda x: np.diag(x, 1), [(draw(3),), (draw(3, 3),), (draw(0),), (z(2),)], ops=("scatter", "diagonal"),
         errors=[((np.ones((2, 2, 2)),), ValueError)]),
    Case("diag:below", lambda x: np.diag(x, -2) * 2, [(draw(2),), (draw(3, 3),)], torch=lambda x: torch.diag(x, -2) * 2,
         ops=("scatter", "diagonal")),
    Case("diagflat", lambda x: np.diagflat(x, 1), [(draw(2, 2),), (draw(2),), (1.5,)], torch=lambda x: torch.diagflat(x, 1),
         ops=("scatter",)),
    *[Case(name, lambda x, fn=fn: fn(x) @ fn(x, 1), [(draw(3, 3),), (z(2, 2),)], ops=(name, "matmul"))
      for name, fn in [("tril", np.tril), ("triu", np.triu)]],
    Case("tril:torch", lambda x: np.tril(x, -1) * 2, [(draw(3, 4),), (draw(2, 3, 2),), (draw(0, 2),)],
         torch=lambda x: torch.tril(x, -1) * 2),
    Case("triu:torch", lambda x: np.triu(x, -1) * 2, [(draw(3, 4),), (draw(2, 3, 2),), (draw(0, 2),)],
         torch=lambda x: torch.triu(x, -1) * 2),
    Case("tril:vector", lambda x: np.tril(x) * np.triu(x), [(draw(3),)], ops=("tril", "triu")),
]
