"""torch's linear algebra means the ops that NumPy's means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tapegrad as tg
from tests.frontends.torch.table import check, sample

A, B, S = sample(3, 4), sample(4, 5, seed=1), sample(3, 3, seed=2) + 3 * torch.eye(3, dtype=torch.float64)
V, W = sample(3, seed=3), sample(4, seed=4)
AS, BS, SS = sample(2, 3, 4), sample(2, 4, 5, seed=1), sample(2, 3, 3, seed=2) + 3 * torch.eye(3, dtype=torch.float64)

TABLE: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...]]] = {
    "matmul": (torch.matmul, "matmul", (A, B)), "@": (lambda a, b: a @ b, "matmul", (A, B)), "stacks": (torch.matmul, "matmul", (AS, BS)),
    "a stack by a matrix": (torch.matmul, "matmul", (AS, B)), "a matrix by a stack": (torch.matmul, "matmul", (A, BS)),
    "a matrix by a vector": (torch.matmul, "matmul", (A, W)), "a vector by a matrix": (torch.matmul, "matmul", (V, A)),
    "vectors": (torch.matmul, "matmul", (V, V * 2)),
    "x.matmul": (lambda a, b: a.matmul(b), "matmul", (A, B)), "linalg.matmul": (torch.linalg.matmul, "matmul", (A, B)),
    "mm": (torch.mm, "matmul", (A, B)),
    "bmm": (torch.bmm, "matmul", (AS, BS)), "mv": (torch.mv, "matmul", (A, W)), "dot": (torch.dot, "matmul", (V, V * 2)),
    "vdot": (torch.vdot, "vecdot", (V, V * 2)),
    "vecdot": (lambda a, b: torch.linalg.vecdot(a, b, dim=0), "multiply", (A, A * 2)), "inner": (torch.inner, "tensordot", (AS, A)),
    "outer": (torch.outer, "multiply", (V, W)), "ger": (lambda a, b: a.ger(b), "multiply", (V, W)),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), "matmul", (sample(5), A, B)), "addmv": (torch.addmv, "matmul", (V, A, W)),
    "addr": (lambda c, a, b: torch.addr(c, a, b, alpha=0.5), "multiply", (A, V, W)), "baddbmm": (torch.baddbmm, "matmul", (sample(2, 3, 5), AS, BS)),
    "addbmm": (torch.addbmm, "sum", (sample(3, 5), AS, BS)),
    "addmm, beta=0": (lambda a, b: torch.addmm(torch.full((5,), float("nan"), dtype=a.dtype), a, b, beta=0), "matmul", (A, B)),
    "einsum of axes": (lambda a: torch.einsum(a, [0, 1], [1, 0]), "einsum", (A,)),
    "multi_dot": (lambda a, b: torch.linalg.multi_dot([a[0], b, b.T]), "matmul", (A, B)),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, 3), "matmul", (SS,)),
    "matrix_power, -2": (lambda a: torch.matrix_power(a, -2), "inv", (S,)),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), "einsum", (A, B)),
    "einsum, ellipsis": (lambda a: torch.einsum("...ii->...i", a), "einsum", (SS,)),
    "einsum of three": (lambda a, b, c: torch.einsum("bij, bjk, k", a, b, c), "einsum", (AS, BS, sample(5))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 1), "tensordot", (A, B)),
    "tensordot, axes": (lambda a, b: torch.tensordot(a, b, ([1, 0], [0, 1])), "tensordot", (A, A.T)),
    "kron": (torch.kron, "multiply", (A, B)), "cross": (torch.linalg.cross, "stack", (sample(4, 3), sample(4, 3, seed=1))),
    "cross along an axis": (lambda a, b: torch.cross(a, b, dim=0), "stack", (A, A * A)), "tril": (torch.tril, "tril", (AS,)),
    "triu": (lambda a: a.triu(1), "triu", (A,)),
    "trace": (torch.trace, "diagonal", (S,)), "diag": (torch.diag, "diagonal", (A,)),
    "diag of a vector": (lambda v: torch.diag(v, 1), "scatter", (V,)),
    "diag_embed": (lambda a: torch.diag_embed(a, -1, 0, 2), "scatter", (A,)), "diagflat": (torch.diagflat, "scatter", (sample(2, 2),)),
    "linalg.diagonal": (lambda a: torch.linalg.diagonal(a, offset=1), "diagonal", (AS,)), "mH": (lambda a: a.mH * 2, "permute_dims", (A,)),
    "inv": (torch.linalg.inv, "inv", (SS,)), "inverse": (lambda a: a.inverse(), "inv", (S,)), "det": (torch.det, "det", (SS,)),
    "linalg.det": (torch.linalg.det, "det", (S,)),
    "slogdet": (lambda a: torch.linalg.slogdet(a).logabsdet, "slogdet", (SS,)), "torch.slogdet": (lambda a: torch.slogdet(a)[1], "slogdet", (S,)),
    "solve": (torch.linalg.solve, "solve", (S, sample(3, 2))), "solve for a vector": (torch.linalg.solve, "solve", (S, V)),
    "solve in stacks": (torch.linalg.solve, "solve", (SS, sample(2, 3, 2))),
    "solve from the right": (lambda a, b: torch.linalg.solve(a, b, left=False), "solve", (S, sample(2, 3))),
    "svdvals": (torch.linalg.svdvals, "svdvals", (AS,)), "svd": (lambda a: torch.linalg.svd(a, full_matrices=False).S, "svd", (A,)),
    "svd, all": (lambda a: (lambda f: f.U.abs() @ torch.diag(f.S) @ f.Vh.abs())(torch.linalg.svd(a, full_matrices=False)), "svd", (A,)),
    "qr": (lambda a: torch.linalg.qr(a)[1], "qr", (A.T.contiguous(),)), "qr, complete": (lambda a: torch.linalg.qr(a, "complete").R, "qr", (S,)),
    "pinv": (torch.linalg.pinv, "pinv", (A,)), "pinverse": (lambda a: torch.pinverse(a), "pinv", (A.T,)),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_call(name: str) -> None:
    f, op, args = TABLE[name]
    check(f, *args, op=op)
    if "svd" not in name and "qr" not in name:
        check(f, *(x.float() for x in args), op=op)


OF_COMPLEX = ["matmul", "stacks", "a matrix by a vector", "a vector by a matrix", "vectors", "vdot", "vecdot", "inner", "outer", "addmm", "einsum",
    "tensordot", "kron", "cross", "tril",
              "trace", "diag", "mH", "inv", "det", "solve", "solve in stacks", "svdvals", "pinv", "matrix_power"]


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_a_call_with_complex_numbers(name: str) -> None:
    f, op, args = TABLE[name]
    check(f, *(torch.complex(x, x.flip(0) / 2) for x in args), op=op)


@pytest.mark.parametrize("f", [
    lambda x: x @ x.double(), lambda x: x @ x[:2], lambda x: torch.mm(x, x[0]), lambda x: torch.dot(x, x), lambda x: x[0, 0] @ x,
    lambda x: torch.bmm(x, x),
    lambda x: torch.linalg.inv(x * 0), lambda x: torch.linalg.inv(x[:2]), lambda x: torch.linalg.solve(x * 0, x),
    lambda x: torch.einsum("ij,jk", x, x[0]),
    lambda x: torch.trace(x[0]), lambda x: torch.addmm(x, x, x, beta="1"), lambda x: torch.cross(x[:2], x[:2], dim=0),
    lambda x: torch.tensordot(x, x[:2], 1),
], ids=range(14))
def test_what_torch_refuses_is_refused_in_its_words(f: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as wanted:
        f(S.float())
    with pytest.raises(type(wanted.value)):
        tg.trace(f, S.float())


@pytest.mark.parametrize("f", [
    lambda x: torch.linalg.cholesky(x @ x.T), lambda x: torch.linalg.eigvalsh(x), lambda x: torch.linalg.eigh(x).eigenvectors.abs(),
    lambda x: torch.linalg.eigvals(x).abs(),
    torch.matrix_exp, lambda x: torch.linalg.lstsq(x, x * 2).solution, lambda x: torch.linalg.solve_triangular(x, x, upper=True), torch.logdet,
], ids=range(8))
def test_what_has_no_op_of_torchs_convention_has_torchs_gradient(f: Callable[..., Any]) -> None:
    check(f, S, mapped=False)


def test_integers_are_multiplied() -> None:
    x = torch.arange(9).reshape(3, 3)
    for f in (lambda x: x @ x, lambda x: torch.mv(x, x[0]), lambda x: torch.outer(x[0], x[1]), lambda x: torch.kron(x, x), torch.tril, torch.trace):
        check(f, x)
    check(lambda x: torch.diag(x[0]), x, mapped=False)
