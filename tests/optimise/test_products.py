"""Products of matrices, triangular systems and ties: what the passes and the compiler make of them is what `grad` computes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg.blas  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad import ops
from tapegrad.compile.numpy import function
from tapegrad.ops import triangular
from tapegrad.testing import check_grads
from tests.cases.case import draw
from tests.optimise.test_passes import agree

RNG = np.random.default_rng(0)
Arrays = tuple[Any, ...]


def calls(tape: tg.Tape) -> list[str]:
    return [op.fn.__name__ for op in tape if op.kind == "call" and op.fn is not ops.pack]


def compiled(f: Callable[..., Any], *args: Any, seed: Any = 1, rtol: float = 1e-12) -> tg.Tape:
    """Check that the compiled gradient is a fresh one, at other points too; return the optimised tape."""
    step = tg.value_and_grad(f, argnums=None, seed=seed)
    for k in range(3):
        moved = tuple(x + k * x[::-1] / 7 if isinstance(x, np.ndarray) and x.dtype.kind in "fc" else x for x in args)
        agree(step(*moved), tg.grad(f, *moved, seed=seed), rtol)
    return tg.optimise(tg.flatgrad(tg.trace(f, *args)[1], seed))


def matrices(*shape: int, dtype: Any = float) -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


# -- products

SCALES, EYE = np.array([1.0, 0.0, -2.0, 3.0]), np.eye(4)  # what a closure captures is an argument, and no constant

TRACES: list[Callable[..., Any]] = [
    lambda a, b: np.trace(a @ b), lambda a, b: (a @ b).trace() ** 2, lambda a, b: np.sum(np.diag(a @ b)), lambda a, b: np.einsum("ii", a @ b),
    lambda a, b: np.einsum("ij,ji->", a, b), lambda a, b: np.trace(np.einsum("ij,jk->ik", a, b)), lambda a, b: np.linalg.trace(np.dot(a, b)),
]


@pytest.mark.parametrize("f", TRACES)
def test_a_trace_of_a_product_needs_no_product(f: Callable[..., Any]) -> None:
    tape = compiled(f, matrices(5, 5), matrices(5, 5))
    assert not {"matmul", "einsum", "scatter", "diagonal"} & set(calls(tape))
    compiled(f, matrices(4, 6), matrices(6, 4))
    compiled(lambda a, b: f(a, b).real, matrices(4, 4, dtype=complex), matrices(4, 4, dtype=complex))
    compiled(f, matrices(4, 4, dtype=np.float32), matrices(4, 4, dtype=np.float32), rtol=1e-5)
    compiled(f, np.zeros((0, 0)), np.zeros((0, 0)))
    compiled(f, np.zeros((3, 0)), np.zeros((0, 3)))


def test_large_diagonals_are_not_folded_and_are_seen() -> None:
    tape = compiled(lambda a, b: np.trace(a @ b) * a[0, 0], matrices(70, 70), matrices(70, 70))
    assert "matmul" not in calls(tape)


def test_stacks_of_products() -> None:
    for a, b in [(matrices(3, 4, 2), matrices(3, 2, 4)), (matrices(3, 4, 2), matrices(2, 4)), (matrices(4, 2), matrices(2, 3, 2, 4))]:
        tape = compiled(lambda a, b: np.sum(np.trace(a @ b, axis1=-2, axis2=-1) ** 2), a, b)
        assert "diagonal" not in calls(tape)


def test_a_product_that_is_needed_stays_one() -> None:
    tape = compiled(lambda a, b: np.trace(a @ b) + np.sum(np.sin(a @ b)), matrices(5, 5), matrices(5, 5))
    assert calls(tape).count("matmul") == 3
    for f in (lambda a, b: np.trace(a @ b, offset=1), lambda a, b: np.trace(a @ b)):  # another diagonal; one of what is not square
        compiled(f, matrices(4, 5), matrices(5, 4) if f(np.eye(4), np.eye(4)) else matrices(5, 3))
    compiled(lambda a, b: np.sum(np.diagonal(a @ b)), matrices(4, 5), matrices(5, 3))


def test_products_with_what_is_diagonal() -> None:
    for f in [lambda x: EYE @ x, lambda x: x.T @ (3 * EYE), lambda x: np.diag(SCALES) @ x, lambda x: x.T @ np.diag(SCALES), lambda x: EYE @ x[:, 0],
              lambda x: np.diag(x[:, 0]) @ x, lambda x: x.T @ np.diag(x[:, 0]), lambda x: np.diag(x[:, 1]) @ x[:, 0], lambda x: (x[0, 0] * EYE) @ x,
              lambda x: np.diag(SCALES) @ np.stack([x, 2 * x]), lambda x: x.T @ (x[0, 0] * np.diag(SCALES))]:
        tape = compiled(lambda x, f=f: np.sum(np.sin(f(x))), matrices(4, 3))
        assert "matmul" not in calls(tg.optimise(tg.trace(f, matrices(4, 3))[1])), f
        assert tape is not None
        compiled(lambda x, f=f: np.sum(np.abs(f(x))), matrices(4, 3, dtype=complex))
    integers = tg.optimise(tg.trace(lambda x: np.eye(3, dtype=int) @ x, np.ones((3, 3), int))[1])
    assert calls(integers) == ["matmul"]  # BLAS computes none of those


def test_what_is_not_diagonal_stays_a_product() -> None:
    for matrix in (np.eye(3) + np.eye(3, k=1), np.eye(3, k=1), np.full((3, 3), 2.0), np.eye(3)[::-1].copy()):
        tape = compiled(lambda x, matrix=matrix: np.sum(np.sin(matrix @ x)), matrices(3, 3))
        assert "matmul" in calls(tape)
    places = np.array([0, 2, 1])

    def scattered(d: Any, x: Any) -> Any:
        m = np.zeros((3, 3))
        m[places, np.arange(3)] = d
        return np.sum(np.sin(m @ x))
    compiled(scattered, matrices(3), matrices(3, 3))


SUBSCRIPTS = ["ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "ij,jk", "ij,ji->", "ij,ij->", ",ij->ji", "ij,->ij", "ij,ij->ij", "ij,jk->", "ii,ij->j", "ij,jk->j", "ij,kl->ik"]


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
@pytest.mark.parametrize("dtype", [float, complex, np.float32, int])
def test_einsum(subscripts: str, dtype: Any) -> None:
    shapes = [() if not term else (3, 3) for term in subscripts.partition("->")[0].split(",")]
    args = [(10 * matrices(*shape)).astype(dtype)[()] if dtype is int else matrices(*shape, dtype=dtype)[()] for shape in shapes]
    compiled(lambda *xs: np.sum(np.abs(np.einsum(subscripts, *xs))), *args, rtol=1e-4 if dtype is np.float32 else 1e-12)


def test_einsum_stretches_axes_of_length_one() -> None:
    compiled(lambda a, b: np.sum(np.sin(np.einsum("ij,jk->ik", a, b))), matrices(3, 1), matrices(4, 2))
    compiled(lambda a, b: np.einsum("ij,ij->", a, b), matrices(3, 1), matrices(3, 4))


LEAVES = [lambda a, b, v: a, lambda a, b, v: b.T, lambda a, b, v: np.eye(4), lambda a, b, v: np.diag(v), lambda a, b, v: v[0] * np.eye(4),
          lambda a, b, v: v[:, None] * v, lambda a, b, v: np.tril(a)]
JOINS = [lambda x, y: x @ y, lambda x, y: x @ y.T, lambda x, y: x + y, lambda x, y: np.einsum("ij,kj->ki", x, y), lambda x, y: x * y, lambda x, y: np.trace(x @ y) * x,
         lambda x, y: np.diagonal(x @ y)[:, None] * y, lambda x, y: np.vdot(x, y) * x, lambda x, y: np.linalg.solve(np.tril(x) + 9 * np.eye(4), y)]
ENDS = [lambda x: np.trace(x), lambda x: np.sum(x), lambda x: np.einsum("ii", x), lambda x: np.sum(np.tanh(x)), lambda x: x.sum(axis=1).sum()]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(range(len(JOINS)))), min_size=1, max_size=5), st.sampled_from(ENDS),
       st.integers(0, 99))
def test_random_programs_of_products(steps: list[tuple[int, int, int]], end: Callable[..., Any], seed: int) -> None:
    def f(a: Any, b: Any, v: Any) -> Any:
        values = [leaf(a, b, v) for leaf in LEAVES]
        for i, j, join in steps:
            values.append(JOINS[join](values[i % len(values)], values[j % len(values)]) * 0.3)
        return end(values[-1])
    args = draw(4, 4, seed=seed), draw(4, 4, seed=seed + 1), draw(4, seed=seed)
    expected = tg.grad(f, *args)
    flat = tg.flatgrad(tg.trace(f, *args)[1])
    agree(tg.optimise(flat).check().play(*args), expected, 1e-9)
    agree(tg.compile(flat)(*args), expected, 1e-9)


# -- triangular systems


def spd(n: int, dtype: Any = float) -> Any:
    x = matrices(n, n, dtype=dtype)
    return x @ x.conj().T + n * np.eye(n, dtype=x.dtype)


@pytest.fixture(params=["blas", "numpy"])
def library(request: Any, monkeypatch: Any) -> str:
    """Run a test with SciPy's BLAS, and once more as if SciPy were not installed."""
    if request.param == "numpy":
        monkeypatch.delitem(sys.modules, "scipy.linalg.blas")
        monkeypatch.setattr(triangular, "load_blas", lambda: None)
        monkeypatch.setattr(function, "load_blas", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("dtype", [float, complex, np.float32, np.complex64])
@pytest.mark.parametrize("n", [1, 5, 64, 65, 150])
def test_substitution_is_the_general_solution(library: str, n: int, dtype: Any) -> None:
    full = spd(n, dtype) / n
    exact = 1e-11 if np.dtype(dtype).char in "dD" else 2e-3
    sides = matrices(n, dtype=dtype), matrices(n, 3, dtype=dtype), np.asfortranarray(matrices(n, 3, dtype=dtype)), matrices(2 * n, dtype=dtype)[::2]
    for lower, unit, same in itertools.product((True, False), (False, True), ((full, np.asfortranarray(full)), (full.T,))):
        t = np.tril(same[0]) if lower else np.triu(same[0])
        t = np.where(np.eye(n, dtype=bool), 1, t).astype(dtype) if unit else t
        for trans, m in ((0, t), (1, t.T), (2, t.conj().T)):
            growth = 0.0 if n < 150 or not unit else np.abs(np.linalg.inv(m)).max()
            for b in sides:
                expected = np.linalg.solve(m, b)
                scale = growth * np.abs(b).max() or np.abs(expected).max()
                for a in same:
                    kept = b.copy(), a.copy()
                    x = triangular.solve_triangular.run(a, b, trans=trans, lower=lower, unit_diagonal=unit, check_finite=False)
                    assert x.dtype == expected.dtype and x.shape == expected.shape
                    np.testing.assert_allclose(x, expected, 0, exact * max(scale, 1))
                    assert np.array_equal(b, kept[0]) and np.array_equal(a, kept[1])


def test_a_singular_triangle_raises(library: str) -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
        triangular.solve_triangular.run(np.diag([1.0, 0.0]), np.ones(2), lower=True, check_finite=False)


def test_stacks_and_integers_are_solved_too(library: str) -> None:
    stack = np.stack([np.tril(spd(3)), np.tril(spd(3))])
    b = matrices(2, 3, 2)
    np.testing.assert_allclose(triangular.solve_triangular.run(stack, b, lower=True, check_finite=False), np.linalg.solve(stack, b))
    np.testing.assert_allclose(triangular.solve_triangular.run(np.array([[2, 0], [1, 4]]), np.array([2, 4]), lower=True, check_finite=False), [1, 0.75])


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 3), (64, 64), (130, 130), (2, 70, 70)])
def test_cholesky_by_blocks_is_the_formula(shape: tuple[int, ...], dtype: Any) -> None:
    n = shape[-1]
    x = matrices(*shape, dtype=dtype)
    low = np.linalg.cholesky(x @ x.conj().mT + n * np.eye(n))
    dy = matrices(*shape, dtype=dtype)

    def phi(m: Any) -> Any:
        return np.tril(m) * (1 - 0.5 * np.eye(n))
    inverse = np.linalg.inv(low)
    s = inverse.conj().mT @ phi(low.conj().mT @ dy) @ inverse
    np.testing.assert_allclose(triangular.cholesky_pullback.run(dy, low), phi(s + s.conj().mT), 1e-11, 1e-12)


def marginal(k: Any, y: Any) -> Any:
    low = np.linalg.cholesky(k @ k.T + 5 * np.eye(len(y)))
    return 0.5 * (y @ np.linalg.solve(low.T, np.linalg.solve(low, y))) + np.sum(np.log(np.diag(low)))


def test_a_gaussian_process_solves_twice(library: str) -> None:
    for n in (6, 100):
        tape = compiled(marginal, matrices(n, n), matrices(n), rtol=1e-9)
        names = calls(tape)
        assert names.count("solve_triangular") == 2 and "solve" not in names  # the gradient's solutions are those of the value
    compiled(marginal, matrices(6, 6, dtype=np.float32), matrices(6, dtype=np.float32), rtol=2e-3)
    check_grads(marginal, matrices(4, 4), matrices(4), order=2)


def test_which_matrices_are_triangular() -> None:
    v = matrices(4)
    for f, there in [(lambda x: np.linalg.cholesky(x), True), (lambda x: np.linalg.cholesky(x, upper=True), True), (lambda x: np.tril(x), True),
                     (lambda x: np.triu(x).T, True), (lambda x: np.tril(x, -1) + np.eye(4), False), (lambda x: np.tril(x, 1), False),
                     (lambda x: np.triu(x, -1), False), (lambda x: x, False), (lambda x: np.linalg.cholesky(x).T, True)]:
        tape = tg.optimise(tg.trace(lambda x, f=f: np.linalg.solve(f(x), v), spd(4))[1])
        assert ("solve_triangular" in calls(tape)) is there
        compiled(lambda x, f=f: np.sum(np.linalg.solve(f(x), v) ** 2), spd(4), rtol=1e-9)
        if np.iscomplexobj(f(spd(4, complex))):
            compiled(lambda x, f=f: np.sum(np.abs(np.linalg.solve(f(x).conj(), v + 0j))), spd(4, complex), rtol=1e-9)
            compiled(lambda x, f=f: np.sum(np.abs(np.linalg.solve(f(x).conj().T, v + 0j))), spd(4, complex), rtol=1e-9)


def test_an_exported_module_solves_without_scipy() -> None:
    k, y = matrices(70, 70), matrices(70)
    source = tg.flatgrad(tg.trace(marginal, k, y)[1]).to_python("gradient")
    assert "import scipy" not in source.replace("        import scipy.linalg\n", "")  # but where a user asked for SciPy's own solver
    names: dict[str, Any] = {}
    exec(compile(source, "<exported>", "exec"), names)
    agree(names["gradient"](k, y), tg.grad(marginal, k, y), 1e-9)
    script = source + "\nimport sys\nsys.modules['scipy'] = None\nx = np.random.default_rng(0).normal(size=(70, 70))\nprint(gradient(x, x[0])[1][1].shape)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "(70, 70)\n"


# -- ties, and what is chosen by a mask


@pytest.mark.parametrize("dtype", [float, np.float32, np.float16])
@pytest.mark.parametrize("extremum", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_ties_share_equally(extremum: Any, dtype: Any) -> None:
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    a, b = (x.ravel().astype(dtype) for x in np.meshgrid(special, special))
    seed = np.linspace(1, 2, len(a)).astype(dtype)
    with np.errstate(all="ignore"):
        step = tg.value_and_grad(extremum, argnums=None, seed=seed)
        for _ in range(3):
            value, (_, da, db) = step(a, b)
        won, lost = a == value, b == value
        agree((da, db), (np.where(won, np.where(lost, 0.5 * seed, seed), 0), np.where(lost, np.where(won, 0.5 * seed, seed), 0)) if extremum in (np.maximum, np.minimum)
              else tg.grad(extremum, a, b, seed=seed)[1][1:], 0)


def test_what_is_not_chosen_is_zero_whatever_it_was() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1.0, -0.0, 2.0] * 2000)
    mask = np.arange(len(x)) % 3 == 0
    for size in (6, 60, len(x)):
        for dtype in (float, np.float32, np.float16):
            for f in (lambda x, m: np.where(m, x + 0.0, 0.0) + 0.0, lambda x, m: np.where(m, 0.0, x + 0.0) + 0.0, lambda x, m: np.where(m, x + 0.0, 0) * 1.5):
                args = x[:size].astype(dtype), mask[:size]
                fast = tg.compile(f)
                for _ in range(2):
                    np.testing.assert_array_equal(fast(*args), f(*args))
                assert fast(*args).dtype == dtype


def test_masks_that_are_stretched() -> None:
    x, row = matrices(70, 80), matrices(80)
    for f in (lambda x, row: np.sum(np.where(row > 0, x * 2, 0.0) ** 2), lambda x, row: np.sum(np.where(x > 0, row * 2, 0.0) ** 2),
              lambda x, row: np.sum(np.where(x.T > 0, 0.0, x.T * row[:70]) ** 2), lambda x, row: np.sum(np.where(row[0] > 0, x * 3, 0.0) ** 2)):
        compiled(f, x, row)


# -- tables of short rows


def distances(x: Any) -> Any:
    return np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)


@pytest.mark.parametrize("columns", [1, 2, 3, 16, 17])
@pytest.mark.parametrize("rows", [5, 30, 60])
def test_pairwise_distances(rows: int, columns: int) -> None:
    x = matrices(rows, columns)
    compiled(lambda x: np.sum(np.exp(-distances(x))), x)
    compiled(lambda x: np.sum(np.sqrt(distances(x) + np.eye(rows)) * x[:, 0]), x)
    compiled(lambda x: np.sum(np.cos(x[:, None, :] - x)), x)
    compiled(lambda x: np.sum(np.abs(x[:, None, :] * x @ np.ones((columns, 2)))), x)  # a product of matrices wants rows
    compiled(lambda x: np.sum(distances(x.astype(np.float32))), x, rtol=1e-5)
    compiled(lambda x: np.sum((x[:, None, :] - x + 1).reshape(-1, columns)[::7] ** 2), x)


def test_stretched_arguments_are_turned_anew_at_each_call() -> None:
    fast = tg.compile(distances)
    for k in range(4):
        x = matrices(40, 2) + k
        np.testing.assert_allclose(fast(x), distances(x), 1e-12)


def test_a_turned_array_that_is_returned_or_written_to() -> None:
    def f(x: Any) -> Any:
        d = np.sin(x[:, None, :] - x)
        e = d * 2
        e[0] = 1.0
        return e, d, np.sum(d * e, axis=2)
    x, fast = matrices(40, 2), tg.compile(f)
    for _ in range(3):
        agree(fast(x), f(x))


@pytest.mark.parametrize("columns", [1, 3, 16, 17])
@pytest.mark.parametrize("dtype", [float, np.float32, complex])
def test_rows_are_added_where_an_index_says(columns: int, dtype: Any) -> None:
    piece = np.asfortranarray(matrices(600, columns, dtype=dtype))
    piece[3, 0] = np.inf
    for index in (RNG.integers(-7, 7, 600), RNG.integers(0, 7, 600).astype(np.int8), np.zeros(600, np.uint8), np.zeros(600, int)):
        expected = np.zeros((7, columns), dtype)
        np.add.at(expected, index, piece)
        found = ops.scatter.run(piece, index, shape=(7, columns), ranks=(1,), **({} if dtype is float else {"dtype": dtype}))
        np.testing.assert_array_equal(found, expected)
    for wrong in (7, -8):
        with pytest.raises(IndexError):
            ops.scatter.run(piece, np.full(600, wrong), shape=(7, columns), ranks=(1,))
    assert ops.scatter.run(piece[:0], np.zeros(0, int), shape=(7, columns), ranks=(1,)).shape == (7, columns)
    compiled(lambda x, i: np.sum(np.abs(x[i] * piece[:, :1].real ** 0 * 2)), matrices(7, columns, dtype=dtype), RNG.integers(-7, 7, 600), rtol=1e-4)


def test_sums_of_products_of_turned_arrays() -> None:
    x = matrices(600, 3)
    for f in (lambda x: np.sum(np.sin(x) * np.cos(x)), lambda x: np.vdot(np.sin(x), np.cos(x)), lambda x: np.vdot(np.sin(x), np.cos(x).T.reshape(600, 3)),
              lambda x: np.vdot(np.sin(x), np.cos(x).T), lambda x: np.vdot(np.sin(x), np.cos(x).reshape(-1)), lambda x: np.vdot(np.sin(x) + 1j, np.cos(x) * 1j).real):
        compiled(f, x)
    assert "einsum" in tg.compile(tg.trace(lambda x: np.vdot(np.sin(x), np.cos(x)), x)[1]).source
