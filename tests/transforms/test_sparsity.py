"""Sparsity: patterns over the table of ops, against the derivatives themselves; programs, values that steer, colourings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse

import tapegrad as tg
from tapegrad.transforms.colouring import colours_of_columns, colours_of_symmetric


def exact(pattern: Any) -> list[list[int]]:
    return pattern.toarray().astype(int).tolist()


@pytest.mark.quick
def test_a_stencil_of_slices_rolls_or_a_filter_has_its_bands() -> None:
    x = np.arange(1.0, 6.0)
    bands = np.eye(5, k=-1) + np.eye(5) + np.eye(5, k=1)

    def written(x: Any) -> Any:
        y = -2 * x
        y[1:] += x[:-1]
        y[:-1] += x[1:]
        return y

    def one_by_one(x: Any) -> Any:
        y = np.zeros(5)
        for i in range(5):
            y[i] = sum(x[j] for j in (i - 1, i, i + 1) if 0 <= j < 5) ** 2
        return y

    second = np.eye(5, k=-1) - 2 * np.eye(5) + np.eye(5, k=1)
    for f in (written, one_by_one, lambda x: np.convolve(x, [1, -2, 1], "same"), lambda x: np.sin(second @ x),
              lambda x: np.einsum("ij,j->i", second, x), lambda x: np.tensordot(second, x, 1)):
        assert exact(tg.jacobian_sparsity(f, x)) == bands.tolist()
    round_ = bands.copy()
    round_[0, -1] = round_[-1, 0] = 1
    assert exact(tg.jacobian_sparsity(lambda x: np.roll(x, 1) * x + np.roll(x, -1), x)) == round_.tolist()


def test_a_constant_matrix_that_is_captured_has_its_zeros() -> None:
    def of(a: Any) -> Callable[[Any], Any]:
        return lambda x: a @ x
    a = np.triu(np.ones((4, 4)))
    assert exact(tg.jacobian_sparsity(of(a), np.ones(4))) == a.tolist()
    assert exact(tg.jacobian_sparsity(of(a), np.ones((4, 2)))) == np.kron(a, np.eye(2)).tolist()
    assert exact(tg.jacobian_sparsity(lambda a, x: a @ x, a, np.ones(4), argnums=1)) == a.tolist()
    assert tg.jacobian_sparsity(lambda x: (x * a) @ x, np.ones(4)).toarray().all()


def test_sums_are_of_their_lines() -> None:
    x = np.ones((2, 3))
    assert exact(tg.jacobian_sparsity(lambda x: x.sum(0), x)) == [[1, 0, 0] * 2, [0, 1, 0] * 2, [0, 0, 1] * 2]
    assert exact(tg.jacobian_sparsity(lambda x: x.mean(1), x)) == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    assert exact(tg.jacobian_sparsity(lambda x: np.sort(x, 1).max(1), x)) == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    assert exact(tg.jacobian_sparsity(np.cumsum, np.ones(3))) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_nested_arguments_and_values_stand_side_by_side() -> None:
    def f(p: Any, c: float) -> Any:
        return {"a": p["u"] * c, "b": (p["v"][0] + p["u"][1], 3)}
    pattern = tg.jacobian_sparsity(f, {"u": np.ones(2), "v": [1.0, 2.0]}, 3.0)
    assert exact(pattern) == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert exact(tg.jacobian_sparsity(f, {"u": np.ones(2), "v": [1.0, 2.0]}, 3.0, argnums=(1, 0)))[0] == [1, 1, 0, 0, 0]


def test_what_the_argument_chooses_by_its_values_may_be_either() -> None:
    x = np.array([1.0, -1.0])
    assert exact(tg.jacobian_sparsity(lambda x: np.where(x > 0, x, x[::-1]), x)) == [[1, 1], [1, 1]]
    assert exact(tg.jacobian_sparsity(lambda x: np.where([True, False], x, x[::-1]), x)) == [[1, 0], [1, 0]]
    assert exact(tg.jacobian_sparsity(lambda x: x[np.argsort(x)], x)) == [[0, 1], [1, 0]]  # the places are those of this path
    assert exact(tg.jacobian_sparsity(lambda x: x[0] * x if x[0] > 0 else x, x)) == [[1, 0], [1, 1]]
    assert exact(tg.jacobian_sparsity(lambda x: (x > 0) * x, x)) == [[1, 0], [0, 1]]


def test_second_derivatives_are_where_numbers_meet() -> None:
    x = np.arange(1.0, 5.0)
    assert exact(tg.hessian_sparsity(lambda x: (x[1:] * x[:-1]).sum() + x.sum(), x)) == [
        [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    assert exact(tg.hessian_sparsity(lambda x: np.sin(x).sum(), x)) == np.eye(4).tolist()
    assert tg.hessian_sparsity(lambda x: (3 * x).sum(), x).nnz == 0
    assert tg.hessian_sparsity(lambda x: np.exp(x.sum()), x).toarray().all()
    a = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    assert exact(tg.hessian_sparsity(lambda x: ((a @ x) ** 2).sum(), x)) == (a.T @ a).tolist()


def test_one_half_of_a_complex_array_is_read_or_scaled_in_place() -> None:
    def f(x: Any) -> Any:
        w = np.zeros(3, complex)
        w[:] = x
        w.imag[::2] *= 3
        return np.abs(w) ** 4

    assert (tg.jacobian_sparsity(f, np.ones(3)).toarray() == np.eye(3)).all()


def test_a_long_filling_and_a_rolled_tape() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(300)
        y[0] = x[0]
        for i in range(1, 300):
            y[i] = x[i] * x[i - 1]
        return y
    pattern = tg.jacobian_sparsity(f, np.ones(300))
    assert pattern.nnz == 599
    assert (abs(pattern - (scipy.sparse.eye_array(300, dtype=bool) + scipy.sparse.eye_array(300, k=-1, dtype=bool)))).nnz == 0


def test_what_is_refused() -> None:
    with pytest.raises(tg.ArgumentError, match="an argument is complex"):
        tg.jacobian_sparsity(lambda z: z * z, np.ones(2) + 1j)
    with pytest.raises(tg.ArgumentError, match="has no derivative"):
        tg.jacobian_sparsity(lambda x: "a", np.ones(2))
    with pytest.raises(tg.ArgumentError, match="it is not sparse"):
        tg.jacobian_sparsity(lambda x: x - x.mean(), np.ones(20_000))


# -- colourings


def patterns() -> list[Any]:
    rng = np.random.default_rng(0)
    found = [scipy.sparse.random_array((m, n), density=density, rng=rng).astype(bool).tocsr() for m, n, density in
             [(20, 20, 0.1), (30, 12, 0.2), (12, 30, 0.2), (1, 5, 1.0), (5, 1, 1.0), (40, 40, 0.02), (15, 15, 1.0)]]
    return [*found, scipy.sparse.csr_array((3, 4), dtype=bool), scipy.sparse.csr_array(np.eye(6, dtype=bool))]


@pytest.mark.parametrize("pattern", patterns())
def test_no_row_has_two_columns_of_one_colour(pattern: Any) -> None:
    colours = colours_of_columns(pattern)
    dense = pattern.toarray()
    assert ((colours < 0) == ~dense.any(0)).all()
    for row in dense:
        mine = colours[row]
        assert len(set(mine)) == len(mine)
    conflicts = networkx.Graph(zip(*np.nonzero(np.triu(dense.T.astype(int) @ dense, 1))))
    greedy = networkx.greedy_color(conflicts, "largest_first")
    assert colours.max(initial=0) <= max(greedy.values(), default=0) + 2


@pytest.mark.parametrize("pattern", [pattern for pattern in patterns() if pattern.shape[0] == pattern.shape[1]])
def test_each_number_can_be_read_from_a_star_colouring(pattern: Any) -> None:
    pattern = (pattern + pattern.T).tocsr()
    colours = colours_of_symmetric(pattern)
    dense = pattern.toarray()
    for i, j in zip(*np.nonzero(dense)):
        row, column = (i, j) if colours[i] >= colours[j] else (j, i)
        assert (colours[dense[row]] == colours[column]).sum() == 1


@pytest.mark.parametrize("shape", [(47, 53), (2, 1500), (13, 13, 13)])
@pytest.mark.parametrize("power", [0, 4])
def test_the_hessian_of_a_large_stencil(shape: tuple[int, ...], power: int) -> None:
    def energy(u: Any) -> Any:  # without a diagonal, where the power is 0
        w = u.reshape(shape)
        return sum((w * np.roll(w, 1, axis)).sum() for axis in range(w.ndim)) + (u ** power).sum()
    u, v = np.random.default_rng(0).normal(size=(2, int(np.prod(shape))))
    np.testing.assert_allclose(tg.sparse_hessian(energy)(u) @ v, tg.hvp(energy)(u, v), 1e-10, 1e-10)


@pytest.mark.parametrize("side", [35, 40, 64])
def test_most_columns_of_a_large_stencil_are_coloured_at_once(side: int) -> None:
    def spread(w: Any) -> Any:
        return np.roll(w, 1, 0) + np.roll(w, -1, 0) + np.roll(w, 1, 1) + np.roll(w, -1, 1) - 4 * w

    def rate(u: Any) -> Any:
        x, y = u
        return np.stack([x * x * y - x + spread(x), spread(y) - x * x * y])

    u = np.random.default_rng(0).random((2, side, side))
    pattern = tg.jacobian_sparsity(rate, u)
    colours = colours_of_columns(pattern)
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    places = rows * 100 + colours[pattern.indices]
    assert len(np.unique(places)) == len(places)
    assert colours.min() == 0
    assert colours.max() < 16
    v = np.random.default_rng(1).normal(size=u.shape)
    found = tg.sparse_jacobian(rate)(u) @ v.ravel()
    np.testing.assert_allclose(found, tg.jvp(rate, (u,), (v,))[1].ravel(), 1e-12, 1e-12)
    x = np.ones(5000)
    assert colours_of_columns(tg.jacobian_sparsity(lambda x: x[2:] - 2 * x[1:-1] + x[:-2] * x[1], x)).max() == 3
    symmetric = (pattern + pattern.T).tocsr()
    stars, rows = colours_of_symmetric(symmetric), np.repeat(np.arange(symmetric.shape[0]), np.diff(symmetric.indptr))
    columns = symmetric.indices
    assert stars.min() == 0 and stars.max() < 16
    assert (stars[rows] != stars[columns])[rows != columns].all()
    read = np.where(stars[rows] >= stars[columns], rows, columns) * 100 + np.minimum(stars[rows], stars[columns])
    assert (np.bincount(rows * 100 + stars[columns])[read] == 1).all()
    gaps = tg.jacobian_sparsity(lambda x: x[::2] * 1, x)
    assert (colours_of_columns(gaps) == np.where(np.arange(5000) % 2, -1, 0)).all()
