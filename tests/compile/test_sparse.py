"""sparse_jacobian and sparse_hessian: against the dense ones, eager and compiled; paths, globals, what a pattern is found by, tensors, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import tapegrad as tg
from tests.threads import at_once

RNG = np.random.default_rng(0)
CALLS = 5  # by itself, traced, compiled, and from what was compiled


def brusselator(u: Any, a: float = 3.4, alpha: float = 0.1) -> Any:
    """Return the rate of change of two substances on a grid that goes round, u of shape (2, n, n)."""
    def laplacian(w: Any) -> Any:
        return np.roll(w, 1, 0) + np.roll(w, -1, 0) + np.roll(w, 1, 1) + np.roll(w, -1, 1) - 4 * w
    x, y = u
    return np.stack([1 + x * x * y - (a + 1) * x + alpha * laplacian(x), a * x - x * x * y + alpha * laplacian(y)])


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def agree(f: Any, *args: Any, calls: int = CALLS, rtol: float = 1e-12, **how: Any) -> Any:
    """Check a sparse Jacobian against the dense one, at other numbers in each call; return what computes it."""
    sparse = tg.sparse_jacobian(f, **how)
    for _ in range(calls):
        args = tuple([x * RNG.uniform(0.9, 1.1, np.shape(x)) if isinstance(x, np.ndarray) else x for x in args])
        found = sparse(*args)
        expected = np.asarray(tg.jacobian(f, mode="forward")(*args))
        assert scipy.sparse.issparse(found) and found.dtype == expected.dtype
        np.testing.assert_allclose(found.toarray(), expected.reshape(found.shape), rtol, rtol)
    return sparse


@pytest.mark.quick
def test_the_brusselator() -> None:
    sparse = agree(brusselator, RNG.random((2, 5, 5)))
    assert sparse._compiled.stats.hits > 0
    assert sparse(RNG.random((2, 5, 5))).nnz == 6 * 50


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_modes_and_chunks(mode: str, chunk_size: int | None) -> None:
    agree(lambda x: np.tanh(x[1:]) * x[:-1] ** 2, RNG.random(8), mode=mode, chunk_size=chunk_size)
    agree(lambda x: np.array([x.sum(), (x ** 2).sum()]), RNG.random(8), mode=mode, chunk_size=chunk_size)


def test_rows_are_swept_where_they_are_fewer() -> None:
    n = 2000
    found = tg.sparse_jacobian(lambda x: np.concatenate([x[:1], (x * x).sum()[None]]))(np.ones(n))
    assert found.shape == (2, n) and found.nnz == n + 1


@pytest.mark.parametrize("f", [rosenbrock, lambda x: (x[0] * x[1:]).sum() + (x ** 3).sum(), lambda x: np.exp(x).prod(), lambda x: (2 * x).sum()])
def test_hessians(f: Any) -> None:
    sparse = tg.sparse_hessian(f)
    for _ in range(CALLS):
        x = RNG.random(6)
        np.testing.assert_allclose(sparse(x).toarray(), tg.hessian(f)(x), 1e-11, 1e-11)


def test_an_arrow_takes_two_sweeps_and_a_chain_three() -> None:
    from tapegrad.transforms.colouring import colours_of_symmetric
    arrow = tg.hessian_sparsity(lambda x: (x[0] * x[1:]).sum() + (x ** 3).sum(), np.ones(50))
    chain = tg.hessian_sparsity(rosenbrock, np.ones(50))
    assert colours_of_symmetric(arrow).max() == 1
    assert colours_of_symmetric(chain).max() == 2


def test_another_path_finds_its_own_pattern() -> None:
    def f(x: Any) -> Any:
        return x * x[::-1] if x[0] > 0 else np.roll(x, 1) ** 2
    sparse = tg.sparse_jacobian(f)
    for k in range(12):
        x = RNG.random(5) * (1 if k % 3 else -1)
        np.testing.assert_allclose(sparse(x).toarray(), tg.jacobian(f)(x), 1e-12)


def test_places_that_the_argument_tells_are_looked_at_in_each_call() -> None:
    def f(x: Any) -> Any:
        return x[np.argsort(x)] ** 2
    sparse = tg.sparse_jacobian(f)
    for _ in range(8):
        x = RNG.random(4)
        np.testing.assert_allclose(sparse(x).toarray(), tg.jacobian(f)(x), 1e-12)


def test_edges_and_matrices_that_are_arguments() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        return x[a] * x[b] ** 2

    def product(x: Any, m: Any) -> Any:
        return np.sin(m @ x)
    sparse, matrix = tg.sparse_jacobian(f), tg.sparse_jacobian(product)
    for k in range(10):
        x, edges = RNG.random(6), RNG.integers(0, 6, (2, 9)) if k % 4 == 0 else np.arange(18).reshape(2, 9) % 6
        np.testing.assert_allclose(sparse(x, *edges).toarray(), tg.jacobian(f)(x, *edges), 1e-12)
        m = np.eye(6, k=k % 3) * RNG.random(6)
        found = matrix(x, m)
        assert found.nnz <= 6
        np.testing.assert_allclose(found.toarray(), tg.jacobian(product)(x, m), 1e-12)


SHIFT = {"by": 1}


def test_a_global_that_changes_is_seen() -> None:
    def f(x: Any) -> Any:
        return np.roll(x, SHIFT["by"]) * x
    sparse = tg.sparse_jacobian(f)
    for k in range(12):
        SHIFT["by"] = 1 + k // 6
        x = RNG.random(5)
        np.testing.assert_allclose(sparse(x).toarray(), tg.jacobian(f)(x), 1e-12)


MATRIX = np.eye(4)


def test_a_global_matrix_that_is_written_to_is_seen() -> None:
    def f(x: Any) -> Any:
        return np.sin(MATRIX @ x)
    sparse = tg.sparse_jacobian(f)
    for k in range(12):
        MATRIX[0, 3] = k // 6
        x = RNG.random(4)
        np.testing.assert_allclose(sparse(x).toarray(), tg.jacobian(f)(x), 1e-12)


def test_other_shapes_dtypes_and_keywords() -> None:
    sparse = tg.sparse_jacobian(brusselator)
    for _ in range(3):
        for shape in ((2, 3, 3), (2, 4, 3)):
            u = RNG.random(shape)
            np.testing.assert_allclose(sparse(u, alpha=0.2).toarray().ravel(), tg.jacobian(brusselator)(u, alpha=0.2).ravel(), 1e-12)
            narrow = sparse(u.astype(np.float32))
            assert narrow.dtype == np.float32
            np.testing.assert_allclose(narrow.toarray().ravel(), tg.jacobian(brusselator)(u).ravel(), 1e-4)


def test_nests_numbers_and_several_arguments() -> None:
    def f(p: Any, c: Any) -> Any:
        return {"a": p["u"] * c, "b": p["v"] ** 2, "n": 3}
    p = {"u": RNG.random(3), "v": 2.0}
    sparse = tg.sparse_jacobian(f, argnums=(0, 1))
    for _ in range(CALLS):
        found = sparse(p, 3.0).toarray()
        np.testing.assert_allclose(found[:3, :3], 3 * np.eye(3))
        np.testing.assert_allclose(found[:3, 4], p["u"])
        np.testing.assert_allclose(found[3:], [[0, 0, 0, 4, 0], [0] * 5])
    assert tg.sparse_jacobian(lambda x: x * x)(3.0).toarray().tolist() == [[6.0]]
    assert tg.sparse_hessian(lambda x: x ** 3)(2.0).toarray().tolist() == [[12.0]]


def test_nothing_depends_and_nothing_is_there() -> None:
    assert tg.sparse_jacobian(lambda x: np.ones(3))(np.ones(2)).toarray().tolist() == [[0, 0]] * 3
    assert tg.sparse_jacobian(lambda x: x * x)(np.ones(0)).shape == (0, 0)
    assert tg.sparse_jacobian(np.floor)(np.ones(2)).nnz == 0


def test_complex_values() -> None:
    agree(lambda x: np.exp(1j * x) * x[0], RNG.random(4))
    agree(lambda x: np.fft.ifft(np.fft.fft(x)).imag + x, RNG.random(4))


def test_tensors() -> None:
    def f(x: Any) -> Any:
        return torch.sin(x[1:]) * x[:-1]
    x = RNG.random(5)
    for _ in range(CALLS):
        found = tg.sparse_jacobian(f)(torch.tensor(x))
        np.testing.assert_allclose(found.toarray(), torch.func.jacrev(f)(torch.tensor(x)).numpy(), 1e-12)


def test_random_numbers_are_drawn_in_each_call() -> None:
    rng = np.random.default_rng(0)
    sparse = tg.sparse_jacobian(lambda x: x * rng.random(3))
    found = {float(sparse(np.ones(3)).sum()) for _ in range(6)}
    assert len(found) == 6


def test_a_rule_of_the_users_is_dense_and_right() -> None:
    @tg.primitive
    def mixed(x: Any) -> Any:
        return x * x.sum()

    @tg.rrule(mixed)
    def _(x: Any) -> Any:
        return x * x.sum(), lambda dy: (dy * x.sum() + (dy * x).sum(),)
    agree(lambda x: mixed(x) + 1, RNG.random(4))


def test_solvers_take_them() -> None:
    u = RNG.random((2, 6, 6))
    jac = tg.sparse_jacobian(lambda u: brusselator(u.reshape(2, 6, 6)).ravel())
    solved = solve_ivp(lambda t, u: brusselator(u.reshape(2, 6, 6)).ravel(), (0, 1), u.ravel(), "Radau", jac=lambda t, u: jac(u))
    assert solved.success
    found = least_squares(lambda x: np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x]), np.zeros(20),
                          jac=tg.sparse_jacobian(lambda x: np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x])))
    np.testing.assert_allclose(found.x, 1, 1e-6)


def test_threads() -> None:
    sparse, errors = tg.sparse_jacobian(brusselator), []

    def work(_: int) -> None:
        for _ in range(6):
            u = np.random.default_rng().random((2, 3, 3))
            if not np.allclose(sparse(u).toarray().ravel(), tg.jacobian(brusselator)(u).ravel()):
                errors.append(u)
    at_once(work, range(3))
    assert not errors


def test_what_is_refused() -> None:
    with pytest.raises(tg.ArgumentError, match="cannot be differentiated again"):
        tg.grad(lambda x: tg.sparse_jacobian(lambda x: x * x)(x).sum(), np.ones(2))
    with pytest.raises(tg.ArgumentError, match="an argument is complex"):
        tg.sparse_jacobian(lambda x: x * x)(np.ones(2) + 1j)
    with pytest.raises(tg.ArgumentError, match="mode"):
        tg.sparse_jacobian(np.sin, mode="sideways")
    with pytest.raises(tg.ArgumentError, match="argnums is None"):
        tg.sparse_jacobian(np.sin, argnums=None)


def test_scipy_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    with pytest.raises(ImportError, match=r"pip install .tapegrad\[scipy\]"):
        tg.sparse_jacobian(np.sin)
