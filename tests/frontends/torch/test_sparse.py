"""Sparse tensors: given, captured, read by name, or made in the program. Values and gradients are those of dense ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import tapegrad as tg
from tests.frontends.torch.table import sample

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # in beta, says torch, and unchecked
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.eye(1).to_sparse().to_sparse_csr().to_sparse_csc()
torch.sparse.check_sparse_tensor_invariants.disable()
EDGES = torch.tensor([[0, 0, 1, 2, 3], [1, 3, 0, 1, 3]])
STARTS, ACROSS = torch.tensor([0, 2, 3, 4, 5]), torch.tensor([1, 3, 0, 1, 3])
TWICE = torch.tensor([[0, 1, 3, 0, 2], [1, 0, 3, 1, 2]])
SIZE, X, V, W = (4, 4), sample(4, 3, seed=1), sample(5, seed=2), sample(4, 3, seed=3)
ADJACENCY = torch.sparse_coo_tensor(EDGES, sample(5, seed=4), SIZE).coalesce()
ROWS = torch.sparse_csr_tensor(STARTS, ACROSS, sample(5, seed=5), SIZE)
COLUMNS = torch.sparse_csc_tensor(STARTS, ACROSS, sample(5, seed=5), SIZE)
REPEATED = torch.sparse_coo_tensor(TWICE, sample(5, seed=6), SIZE)


def coo(v: Any, places: Any = EDGES) -> Any:
    return torch.sparse_coo_tensor(places, v, SIZE)


def without(a: Any) -> Any:
    with torch.no_grad():
        return a * 3


Program = Callable[..., Any]
# a sparse tensor, beside others, and what is computed of it; the same of a dense one where it is written otherwise
GIVEN: dict[str, tuple[Program, Program | None]] = {
    "mm": (lambda a, x: torch.sparse.mm(a, x), lambda a, x: a @ x),
    "two layers": (lambda a, x: a @ torch.relu(a @ x), None),
    "a vector": (lambda a, x: a @ x[:, 0], None),
    "from the left": (lambda a, x: x.T @ a, None),
    "a transpose": (lambda a, x: a.t() @ x, None),
    "addmm": (lambda a, x: torch.addmm(W, a, x, beta=0.5, alpha=2.0), None),
    "to_dense": (lambda a, x: a.to_dense() ** 2 @ x, None),
    "scaled": (lambda a, x: (a * 2.0) @ x, None),
    "a traced factor": (lambda a, x: (a * x[0, 0]) @ x, None),
    "sums of tensors": (lambda a, x: (a + a).to_dense() @ x, None),
    "detach": (lambda a, x: a.detach() @ x + a @ x, None),
    "no_grad": (lambda a, x: without(a) @ x + a @ x, None),
    "facts": (lambda a, x: a @ x * (a.shape[0] if a.requires_grad and a.ndim == 2 and a.dtype is torch.float64 else 0), None),
}
COO: dict[str, tuple[Program, Program | None]] = {
    "sum": (lambda a, x: torch.sparse.sum(a) * x, lambda a, x: a.sum() * x),
    "sum of rows": (lambda a, x: torch.sparse.sum(a, 1).to_dense()[:, None] * x, lambda a, x: a.sum(1)[:, None] * x),
    "softmax": (lambda a, x: torch.sparse.softmax(a, 1) @ x, lambda a, x: masked(a).softmax(1) @ x),
    "log_softmax": (lambda a, x: torch.sparse.log_softmax(a, 1) @ x, lambda a, x: masked(a).log_softmax(1).masked_fill(a == 0, 0.0) @ x),
    "coalesce": (lambda a, x: a.coalesce().values()[:3, None] ** 2 * x[:3], lambda a, x: a[a != 0][:3, None] ** 2 * x[:3]),
    "products": (lambda a, x: torch.sparse.mm(a, a) @ x, lambda a, x: a @ a @ x),
    "with a dense tensor": (lambda a, x: (a * (x @ x.T)).to_dense(), lambda a, x: a * (x @ x.T)),
}


def masked(a: Any) -> Any:
    return a.masked_fill(a == 0, -torch.inf)


CASES = [(name, f, dense or f, a) for table, several in ((GIVEN, (ADJACENCY, ROWS, COLUMNS, REPEATED)), (COO, (ADJACENCY, REPEATED)))
         for name, (f, dense) in table.items() for a in several if a is not COLUMNS or name not in ("scaled", "a traced factor", "sums of tensors", "no_grad")]


def full(a: Any) -> Any:
    return a.detach().to_dense()


def weighted(y: Any) -> Any:
    return (y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)).sum()


def again(a: Any, factor: float) -> Any:
    """Return a sparse tensor with other numbers in the same places."""
    if a.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(a._indices().clone(), a._values() * factor, a.shape, is_coalesced=a.is_coalesced() or None)
    parts = (a.crow_indices(), a.col_indices()) if a.layout is torch.sparse_csr else (a.ccol_indices(), a.row_indices())
    return torch.sparse_compressed_tensor(*parts, a.values() * factor, a.shape, layout=a.layout)


@pytest.mark.parametrize("f, dense, a", [case[1:] for case in CASES], ids=[f"{name}-{str(a.layout)[13:]}{'-repeated' * (a is REPEATED)}" for name, _, _, a in CASES])
def test_a_sparse_argument(f: Program, dense: Program, a: Any) -> None:
    step = tg.value_and_grad(lambda a, x: weighted(f(a, x)), argnums=None, backend="torch", warmup=1)
    for run, factor in ((lambda a, x: tg.grad(lambda a, x: weighted(f(a, x)), a, x), 1.0), (step, 1.0), (step, 2.0), (step, 0.5)):
        known = again(a, factor)
        A, x = full(known).requires_grad_(), X.clone().requires_grad_()
        y = weighted(dense(A, x))
        da, dx = torch.autograd.grad(y, [A, x])
        value, (_, found, found_x) = run(known, X)
        torch.testing.assert_close(value, y.detach())
        torch.testing.assert_close(found_x, dx)
        assert found.layout is a.layout and found.shape == a.shape
        torch.testing.assert_close(found.to_dense(), da * (full(a) != 0))  # in the places of the argument alone
    assert step.stats.traces == 1


MADE: dict[str, tuple[Program, tuple[Any, ...]]] = {
    "coo": (lambda v, x, made: made(EDGES, v * v) @ x, (V, X)),
    "places that are traced": (lambda v, x, made, places=EDGES: made(places + 0, v * v) @ x, (V, X)),
    "without a size": (lambda v, x, made: torch.sparse_coo_tensor(EDGES, v * v) @ x if made is sparse else made(EDGES, v * v) @ x, (V, X)),
    "places that occur twice": (lambda v, x, made: made(TWICE, v * v) @ x, (V, X)),
    "rows": (lambda v, x, made: torch.sparse_csr_tensor(STARTS, ACROSS, v.exp(), SIZE) @ x if made is sparse else made(EDGES, v.exp()) @ x, (V, X)),
    "rows without a size": (lambda v, x, made: torch.sparse_csr_tensor(STARTS, ACROSS, v.exp()) @ x if made is sparse else made(EDGES, v.exp()) @ x, (V, X)),
    "columns": (lambda v, x, made: torch.sparse_csc_tensor(STARTS, ACROSS, v, SIZE) @ x if made is sparse else made(EDGES.flip(0), v) @ x, (V, X)),
    "values": (lambda v, x, made: (made(EDGES, v).coalesce().values() if made is sparse else v)[:4, None] ** 2 * x, (V, X)),
    "a dense tensor": (lambda v, x, made: (x @ x.T).to_sparse() @ x if made is sparse else x @ x.T @ x, (V, X)),
    "a captured one": (lambda v, x, made: (ADJACENCY if made is sparse else full(ADJACENCY)) @ x * v[0], (V, X)),
    "a captured one, scaled": (lambda v, x, made: (ROWS if made is sparse else full(ROWS)) @ (x * v[0]).sin(), (V, X)),
}


def sparse(places: Any, v: Any) -> Any:
    return coo(v, places)


def scattered(places: Any, v: Any) -> Any:
    return torch.zeros(SIZE, dtype=v.dtype).index_put(tuple(places), v, accumulate=True)


@pytest.mark.parametrize("name", MADE)
def test_a_sparse_tensor_of_the_program(name: str) -> None:
    f, args = MADE[name]

    def total(v: Any, x: Any, made: Any = sparse) -> Any:
        return weighted(f(v, x, made))
    step = tg.value_and_grad(total, argnums=None, backend="torch", warmup=1)
    for run, factor in ((lambda *args: tg.grad(total, *args), 1.0), (step, 1.0), (step, 2.0), (step, 0.5)):
        given = [x * factor for x in args]
        roots = [x.clone().requires_grad_() for x in given]
        wanted = torch.autograd.grad(total(*roots, made=scattered), roots, materialize_grads=True, allow_unused=True)
        for found, dx in zip(run(*given)[1][1:], wanted):
            torch.testing.assert_close(found, dx)
    assert step.stats.traces == 1


def test_derivatives_of_products_of_every_order() -> None:
    """torch's own second derivatives of sparse products leave out a part."""
    def f(v: Any, made: Any = sparse) -> Any:
        return ((made(EDGES, v ** 3) @ X) ** 2).sum(1)
    torch.testing.assert_close(tg.jacobian(f)(V), torch.autograd.functional.jacobian(lambda v: f(v, scattered), V))
    torch.testing.assert_close(tg.jvp(f, (V,), (V.sin(),))[1], torch.autograd.functional.jvp(lambda v: f(v, scattered), V, V.sin())[1])
    (found,) = tg.gradient(lambda v: (tg.gradient(lambda v: f(v).sum(), v)[0] * V.sin()).sum(), V)
    torch.testing.assert_close(found, torch.autograd.functional.hvp(lambda v: f(v, scattered).sum(), V, V.sin())[1])
    torch.testing.assert_close(tg.vmap(f)(torch.stack([V, 2 * V])), torch.stack([f(V, scattered), f(2 * V, scattered)]))


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # other places are another tape
def test_what_it_stores_may_change_between_calls() -> None:
    a, named = again(ADJACENCY, 1.0), again(ADJACENCY, 1.0)
    edges = EDGES
    programs: list[tuple[Program, Callable[[], tuple[Any, ...]]]] = [
        (lambda a, x: ((a @ x) ** 2).sum(), lambda: (a, X)), (lambda x: ((KEPT[0] @ x) ** 2).sum(), lambda: (X,)),
        (lambda e, v, x: ((torch.sparse_coo_tensor(e, v) @ x[:int(e.max()) + 1]) ** 2).sum(), lambda: (edges, torch.ones(edges.shape[1], dtype=X.dtype), X))]
    KEPT[:] = [named]
    steps = [tg.value_and_grad(f, argnums=None, backend="torch", warmup=1) for f, _ in programs]
    for turn in range(6):
        for step, (f, args) in zip(steps, programs):
            *rest, x = args()
            root = x.clone().requires_grad_()
            (wanted,) = torch.autograd.grad(f(*rest, root), root)
            torch.testing.assert_close(step(*args())[1][-1], wanted)
        for x in (a, named):
            if turn == 2:
                x._values().mul_(3)
            if turn == 3:
                x._indices()[1, 0] = 2
        edges = [EDGES, EDGES.flip(0), TWICE, EDGES[:, :3], EDGES, EDGES][turn]
    assert all(step.stats.hits >= 2 for step in steps)


KEPT: list[Any] = []


class Graph(nn.Module):
    """A convolution on a graph that the module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3, dtype=X.dtype)
        self.register_buffer("adjacency", ADJACENCY.clone())

    def forward(self, x: Any) -> Any:
        return torch.sparse.mm(self.adjacency, self.linear(x)).relu()


def test_a_module_that_holds_one() -> None:
    module = Graph()

    def f(module: Any, x: Any) -> Any:
        return weighted(module(x))
    step = tg.value_and_grad(f, argnums=0, backend="torch", warmup=1)
    for turn in range(4):
        if turn == 3:
            module.adjacency = again(ADJACENCY, 2.0)
        wanted = torch.autograd.grad(f(module, X), list(module.parameters()))
        for run in (step, lambda *args: tg.grad(f, *args, argnums=0)):
            for found, dp in zip(run(module, X)[1].values(), wanted):
                torch.testing.assert_close(found, dp)
    module.held = nn.Parameter(ADJACENCY.clone())
    with pytest.raises(tg.ArgumentError, match="held is a sparse parameter"):
        tg.grad(f, module, X)


def test_a_sparse_result_and_its_seed() -> None:
    value, (_, da) = tg.grad(lambda a: coo(2 * a.values()), ADJACENCY, seed=coo(ADJACENCY.values()))
    torch.testing.assert_close(value.to_dense(), 2 * full(ADJACENCY))
    torch.testing.assert_close(da.to_dense(), 2 * full(ADJACENCY))
    step = tg.compile(lambda v: coo(v * v), backend="torch", warmup=1)
    for _ in range(3):
        torch.testing.assert_close(step(V).to_dense(), coo(V * V).to_dense())
    for f, seed in ((lambda a: a, REPEATED), (lambda a: a * 2.0, ADJACENCY)):
        with pytest.raises(tg.ArgumentError, match="with other indices"):
            tg.grad(f, ADJACENCY, seed=seed)
    assert "da.values" in str(tg.explain(lambda a: (a @ X).sum(), ADJACENCY))
