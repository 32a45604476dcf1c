"""scipy.sparse in a traced program: constants, arguments, what is built of traced numbers; products, systems, patterns."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as ssl

import tapegrad as tg
from tapegrad.tree.sparse import Pattern

DENSE = np.array([[4.0, 1.5, 0.0], [0.0, 3.0, -0.5], [2.5, 0.0, 5.0]])
SYMMETRIC = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 5.0]])
X, W, TABLE = np.array([1.0, -2.0, 3.0]), np.array([0.3, -0.7, 1.1]), np.arange(9.0).reshape(3, 3) + 1
FORMATS = ["csr", "csc", "coo", "dia", "bsr"]
KINDS = ["csr_array", "csr_matrix", "csc_matrix", "coo_array", "dia_array", "bsr_array"]
GLOBAL = ss.csr_array(DENSE)
KEPT: list[Any] = []
FACTORS = ssl.LinearOperator((3, 3), ssl.splu(ss.csc_array(DENSE)).solve)  # which has no adjoint


def made(kind: str, dense: Any = DENSE) -> Any:
    return getattr(ss, kind)(dense)


def with_data(A: Any, data: Any) -> Any:
    """Return a matrix of the same class and pattern."""
    new = A.copy()
    new.data = data
    return new


def differences(f: Callable[[Any], Any], x: Any, step: float = 1e-6) -> Any:
    """Return the sensitivity of a real f by each number, for complex ones by both parts."""
    x = np.asarray(x) * 1.0
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        for unit in (1.0, 1j) if x.dtype.kind == "c" else (1.0,):
            e = np.zeros_like(x)
            e[place] = step * unit
            found[place] += unit * (f(x + e) - f(x - e)) / (2 * step)
    return found


def check(f: Callable[[Any], Any], x: Any, again: bool = True) -> None:
    """Check the value and the gradient by a matrix or an array: at once, forwards, and again and again."""
    of_data: Callable[[Any], Any] = (lambda data: f(with_data(x, data))) if ss.issparse(x) else f
    data = x.data if ss.issparse(x) else x
    value, dx = tg.grad(f, x, argnums=0)
    np.testing.assert_allclose(value, f(x), 1e-12)
    expected = differences(of_data, data)
    if ss.issparse(x):
        assert Pattern(dx) == Pattern(x)
        dx = dx.data
    np.testing.assert_allclose(dx, expected, 1e-5, 1e-6)
    direction = np.cos(np.arange(data.size)).reshape(data.shape)
    _, tangent = tg.jvp(f, (x,), (with_data(x, direction) if ss.issparse(x) else direction,))
    np.testing.assert_allclose(tangent, np.sum(np.conj(expected) * direction).real, 1e-5, 1e-6)
    step, plain = tg.value_and_grad(f, argnums=0, warmup=1), tg.compile(f)
    wanted = {1.0: (value, with_data(x, dx) if ss.issparse(x) else dx), **({k: tg.grad(f, x * k, argnums=0) for k in (1.1, 0.9)} if again else {})}
    for k in (1.0, 1.1, 0.9, 1.1) if again else ():
        got, found = step(x * k)
        again, expected = wanted[k]
        np.testing.assert_allclose(got, again, 1e-12)
        np.testing.assert_allclose(plain(x * k), again, 1e-12)
        for a, b in zip((found, expected), (expected, found)):
            np.testing.assert_allclose(a.toarray() if ss.issparse(a) else a, b.toarray() if ss.issparse(b) else b, 1e-9, 1e-12)


OF_A_MATRIX: dict[str, Callable[[Any], Any]] = {
    "A @ x": lambda A: (A @ X) @ W,
    "x @ A": lambda A: (X @ A) @ W,
    "A.dot": lambda A: A.dot(A.T).dot(X) @ W,
    "A @ X": lambda A: np.sum((A @ TABLE) * TABLE),
    "X @ A": lambda A: np.sum((TABLE @ A) * TABLE),
    "A @ A": lambda A: (A @ A @ X) @ W,
    "A ** 2": lambda A: (A ** 2 @ X) @ W,
    "A + A.T": lambda A: ((A + A.T) @ X) @ W,
    "A - 2 A.T": lambda A: ((A - 2 * A.T) @ X) @ W,
    "-A / 2": lambda A: (-A / 2 @ X) @ W,
    "multiply": lambda A: (A.multiply(A.T) @ X) @ W,
    "multiply by an array": lambda A: (A.multiply(TABLE) @ X) @ W,
    "multiply by a row": lambda A: (A.multiply(W) @ X) @ W,
    "multiply by a column": lambda A: (A.multiply(W[:, None]) @ X) @ W,
    "multiply where": lambda A: (A.multiply(A > 2.7) @ X) @ W,
    "sum": lambda A: A.sum() ** 2,
    "mean": lambda A: A.mean() ** 2,
    "max": lambda A: A.tocsr().max() ** 2,
    "trace": lambda A: A.trace() ** 2,
    "diagonal": lambda A: A.diagonal(1) @ W[:2] + A.diagonal() @ W,
    "toarray": lambda A: np.sum(np.sin(A.toarray()) * TABLE),
    "csr": lambda A: (A.tocsr() @ X) @ W,
    "csc": lambda A: (A.tocsc() @ X) @ W,
    "coo": lambda A: (A.tocoo() @ X) @ W,
    "dia": lambda A: (A.todia() @ X) @ W,
    "bsr": lambda A: (A.tobsr() @ X) @ W,
    "rows": lambda A: (A.tocsr()[1:] @ X) @ W[1:],
    "columns": lambda A: (A.tocsc()[:, [2, 0]] @ X[:2]) @ W,
    "a block": lambda A: (A.tocsr()[:2, 1:] @ X[:2]) @ W[:2],
    "an element": lambda A: A.tocsr()[2, 0] * A.tocsr()[0, 0] + A.tocsr()[0, 2],
    "elements": lambda A: np.sum(np.asarray(A.tocsr()[[0, 1], [1, 1]]) ** 2),
    "where it is large": lambda A: np.sum(np.asarray(A.tocsr()[A.tocsr() > 2.7]) ** 2),
    "data": lambda A: np.sum(A.data ** 3) * A.nnz / A.shape[0],
    "power": lambda A: (A.power(2) @ X) @ W,
    "np.sin": lambda A: (np.sin(A) @ X) @ W,
    "sqrt": lambda A: (with_data(A, A.data ** 2 + 1).sqrt() @ X) @ W,
    "abs": lambda A: (abs(A) @ X) @ W,
    "maximum": lambda A: (A.maximum(A.T) @ X) @ W,
    "minimum of 0": lambda A: (A.minimum(0) @ X) @ W,
    "hstack": lambda A: (ss.hstack([A, A.T]) @ np.r_[X, W]) @ W,
    "vstack": lambda A: (ss.vstack([A, ss.eye_array(3), A]) @ X) @ np.r_[X, W, W],
    "bmat": lambda A: (ss.bmat([[A, None], [A.T, A]]) @ np.r_[X, W]) @ np.r_[W, W],
    "kron": lambda A: (ss.kron(A, A.T) @ np.r_[X, W, X]) @ np.r_[W, X, W],
    "tril": lambda A: ((ss.tril(A) - ss.triu(A, 1)) @ X) @ W,
    "in place": lambda A: _in_place(A.tocsr(copy=True)),
    "by rows": lambda A: _by_rows(A.tocsr()),
    "spsolve": lambda A: ssl.spsolve(A.tocsc(), X) @ W,
    "spsolve of columns": lambda A: np.sum(ssl.spsolve(A.tocsr(), TABLE) ** 2),
    "splu": lambda A: ssl.splu(A.tocsc()).solve(X) @ W + ssl.splu(A.tocsc()).solve(X, "T") @ W,
    "factorized": lambda A: ssl.factorized(A.tocsc())(X) @ W,
    "spsolve_triangular": lambda A: ssl.spsolve_triangular(ss.tril(A, format="csr"), X) @ W,
    "expm_multiply": lambda A: ssl.expm_multiply(A * 0.2, X) @ W,
    "norm": lambda A: ssl.norm(A) + ssl.norm(A, 1) + ssl.norm(A, np.inf),
    **{name: lambda A, name=name: getattr(ssl, name)(A, np.ones(3), rtol=1e-9)[0] @ W for name in ("bicg", "bicgstab", "cgs", "gmres", "lgmres", "qmr")},  # type: ignore[misc]
    **{name: lambda A, name=name: getattr(ssl, name)(A + A.T, X, rtol=1e-13)[0] @ W for name in ("cg", "minres")},  # type: ignore[misc]
}


def _in_place(A: Any) -> Any:
    twice, same = A.copy(), A.T
    twice.data *= 2
    A[0, 1] = A[1, 1] ** 2
    A *= A.data[0]
    A[1, 0] = 3.0
    A.setdiag(A.diagonal() * 2)
    A[2] = A.data[:3]
    A.sort_indices()
    return (A @ X + twice @ X + same @ X) @ W


def _by_rows(A: Any) -> Any:
    total = 0.0
    for i in range(A.shape[0]):
        row = slice(A.indptr[i], A.indptr[i + 1])
        total = total + W[i] * np.sin(A.data[row] @ X[A.indices[row]])
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_A_MATRIX)
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_a_function_of_a_matrix(name: str, kind: str) -> None:
    # compiled, a matrix of each class with a third of the functions, and each function with two classes
    check(OF_A_MATRIX[name], made(kind), again=([*OF_A_MATRIX].index(name) + KINDS.index(kind)) % 3 == 0)


TWICE = np.array([4.0, 1.5, 0.5, 3.0, -0.5, 1.0, 2.5, 5.0, 0.25]), np.array([[0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 1, 2, 1, 0, 0, 2, 2]], np.int32)
UNUSUAL: dict[str, Callable[[], Any]] = {  # copies: SciPy adds up in place; and SciPy 1.15 solves with places of this type only
    "unsorted": lambda: ss.csr_array((TWICE[0][:6], TWICE[1][1][[1, 0, 3, 4, 6, 7]], np.array([0, 2, 4, 6], np.int32)), shape=(3, 3), copy=True),
    "places named twice": lambda: ss.csr_array((TWICE[0], TWICE[1][1], np.array([0, 3, 6, 9], np.int32)), shape=(3, 3), copy=True),
    "by columns": lambda: ss.csc_matrix((TWICE[0], TWICE[1][1], np.array([0, 3, 6, 9], np.int32)), shape=(3, 3), copy=True),
    "in no order": lambda: ss.coo_array((TWICE[0][::-1], tuple(part[::-1] for part in TWICE[1])), shape=(3, 3), copy=True),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_numbers_in_no_order_or_twice_at_a_place(kind: str) -> None:
    for name in OF_A_MATRIX.keys() - {"in place", "bicg", "bicgstab", "cgs", "qmr"}:
        f = OF_A_MATRIX[name]
        value, dA = tg.grad(f, UNUSUAL[kind](), argnums=0)
        np.testing.assert_allclose(value, f(UNUSUAL[kind]()), 1e-12, err_msg=name)
        expected = differences(lambda data, f=f: f(with_data(UNUSUAL[kind](), data.copy())), UNUSUAL[kind]().data)  # type: ignore[misc]
        np.testing.assert_allclose(dA.data, expected, 1e-5, 1e-6, err_msg=name)


SUMS: dict[str, Callable[[Any], Any]] = {
    "sum along": lambda A: A.sum(axis=0) @ W + A.sum(axis=1) @ X,
    "mean along": lambda A: A.mean(axis=0) @ W,
    "todense": lambda A: np.sum(A.todense() * TABLE),
    "plus an array": lambda A: np.sum((A + TABLE) * (TABLE - A)),
}


STORED: dict[str, Callable[[Any, Any], Any]] = {
    "sorted": lambda A, x: A.sorted_indices(),
    "sort_indices": lambda A, x: _changed(A.copy(), lambda B: B.sort_indices()),
    "sum_duplicates": lambda A, x: _changed(A.copy(), lambda B: B.sum_duplicates()),
    "resize": lambda A, x: _changed(A.copy(), lambda B: B.resize(3, 3)),
    "setitem": lambda A, x: _changed(A.copy(), lambda B: B.__setitem__((0, 0), x[0])),
    "rows": lambda A, x: A[1:3],
    "columns": lambda A, x: A[:, [0, 1]],
    "hstack": lambda A, x: ss.hstack([A, A]),
    "vstack": lambda A, x: ss.vstack([A, A.T]),
}


def _changed(A: Any, change: Callable[[Any], Any]) -> Any:
    change(A)
    return A


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", [ss.csr_array, ss.csc_array])
def test_what_is_stored_twice_stays_so_where_scipy_leaves_it(kind: Any, name: str) -> None:
    at, starts = np.array([1, 0, 0, 1, 1, 0, 2]), np.array([0, 2, 5, 7, 7])

    def f(data: Any) -> Any:
        return (STORED[name](kind((data, at, starts), shape=(4, 4)), data).data ** 2).sum()
    x = np.arange(1.0, 8.0)
    assert tg.value_and_grad(f, argnums=0)(x)[0] == f(x)
    np.testing.assert_allclose(tg.gradient(f, x)[0], differences(f, x), rtol=1e-6)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8])
def test_sums_of_narrow_numbers_are_wide(dtype: Any, kind: str) -> None:
    A = getattr(ss, f"{kind}_array")((np.ones((4, 4)) * (1 if dtype is bool else 100)).astype(dtype))
    for axis in (0, 1):
        compiled = tg.compile(lambda A, axis=axis: A.sum(axis=axis))
        for _ in range(2):
            assert compiled(A).dtype == A.sum(axis=axis).dtype
            np.testing.assert_array_equal(compiled(A), A.sum(axis=axis))


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
def test_axes_of_length_1_do_not_count_where_a_column_is_written(kind: str) -> None:
    for column in (np.ravel, lambda x: x[:, None]):
        def f(x: Any, column: Any = column) -> Any:
            A = made(kind, np.ones((3, 3))) * x[0]
            A[:, 1] = column(x)
            return A @ x @ X
        np.testing.assert_allclose(tg.gradient(lambda x: f(x), X)[0], differences(f, X), rtol=1e-6)


def test_data_are_an_alias_after_they_are_sorted_already() -> None:
    def f(x: Any) -> Any:
        A = ss.csr_array(DENSE) * x[0]
        data = A.data
        A.sum_duplicates()
        A.sort_indices()
        data[0] = x[1] ** 2
        return A.sum()
    x = np.array([1.5, 2.5])
    np.testing.assert_allclose(tg.gradient(f, x)[0], differences(f, x), rtol=1e-6)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_rows_columns_and_places_of_a_matrix(kind: str) -> None:
    A = getattr(ss, f"{kind}_matrix")(DENSE)
    check(lambda A: (A.getrow(1).power(2) - A.getcol(0).T).sum(), A)
    check(lambda A: A.toarray()[A.nonzero()] ** 2 @ np.arange(A.nnz), A)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_what_is_dense(kind: str, name: str) -> None:
    check(SUMS[name], made(f"{kind}_array"))
    with pytest.raises(tg.UnknownFunction, match=r"of an np\.matrix.*\n.*\n  try: use np\.asarray\(m\)"):
        tg.grad(SUMS[name], made(f"{kind}_matrix"))


def test_an_np_matrix_gives_its_array() -> None:
    check(lambda A: np.asarray(A.sum(axis=0)).ravel() @ W + A.sum(axis=1).A1 @ X + A.sum(axis=0).T.A[0, 0], made("csr_matrix"))
    check(lambda A: np.sum(np.asarray(A.todense()) * TABLE) + np.array(A + TABLE).sum() ** 2, made("csc_matrix"))
    check(lambda A: (A.multiply(1 / np.asarray(A.sum(axis=1))) @ X) @ W, made("csr_matrix"))
    value, tape = tg.trace(lambda A: A.sum(axis=1), made("csr_matrix"))
    assert type(value) is type(tape.play(made("csr_matrix"))) is np.matrix and np.array_equal(value, made("csr_matrix").sum(axis=1))
    for f in (lambda m: m * 2, lambda m: 2.0 * m, lambda m: X * m, lambda m: m @ X, lambda m: m == 0, lambda m: np.sqrt(m), lambda m: np.ravel(m), lambda m: m[0]):
        with pytest.raises(tg.UnknownFunction, match=r"np\.matrix"):
            tg.trace(lambda A, f=f: f(A.sum(axis=1)), made("csr_matrix"))


PLACES = np.array([0, 1, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
NUMBERS = np.array([2.0, 1.0, 3.0, -1.0, 5.0])
BUILT: dict[str, Callable[[Any], Any]] = {
    **{f"{kind} of places": lambda v, kind=kind: (made(kind, (v, PLACES)).power(2) @ X) @ W for kind in KINDS if kind[:3] in ("csr", "csc")},  # type: ignore[misc]
    "coo of places": lambda v: (ss.coo_array((v, PLACES), shape=(3, 3)) @ X) @ W,
    "compressed": lambda v: (ss.csr_matrix((v, [0, 1, 2, 0, 2], [0, 1, 3, 5]), shape=(3, 3)) @ X) @ W,
    "of a list": lambda v: (ss.csr_array(([v[0], v[1] * v[2], 3.0], ([0, 1, 2], [2, 1, 0])), shape=(3, 3)) @ X) @ W,
    "of an array": lambda v: (ss.csr_array(np.outer(v[:3], v[:3])) @ X) @ W,
    "then compressed": lambda v: (ss.coo_matrix((v, PLACES), shape=(3, 3)).tocsr().power(2) @ X) @ W,
    "diags": lambda v: (ss.diags([v[:2], v[:3], v[3:]], [-1, 0, 1], format="csc") @ X) @ W,
    "diags_array": lambda v: (ss.diags_array([-1.0, 2 * v[0], v[1]], offsets=[-1, 0, 1], shape=(3, 3)) @ X) @ W,
    "spdiags": lambda v: (ss.spdiags(v[:3], 0, 3, 3) @ X) @ W,
    "eye": lambda v: ((ss.eye(3) * v[0] + ss.eye_array(3) * v[1]) @ X) @ W,
    "kron": lambda v: (ss.kron(ss.diags(v[:3]), GLOBAL) @ np.r_[X, W, X]) @ np.r_[W, X, W],
    "block_diag": lambda v: (ss.block_diag([GLOBAL, ss.diags(v[:3])]) @ np.r_[X, W]) @ np.r_[W, X],
    "kronsum": lambda v: (ss.kronsum(ss.diags(v[:3]), GLOBAL) @ np.r_[X, W, X]) @ np.r_[W, X, W],
    "find": lambda v: np.sum(ss.find(ss.coo_array((v, PLACES), shape=(3, 3)))[2] ** 2),
    **({"axes": lambda v: (ss.swapaxes(ss.permute_dims(ss.coo_array((v, PLACES), shape=(3, 3)), (1, 0)), 0, 1) @ X) @ W + ss.expand_dims(
        ss.coo_array((v, (np.arange(5),)), shape=(5,)), axis=0).sum() ** 2} if hasattr(ss, "swapaxes") else {}),  # since SciPy 1.16
    **({"matrix_transpose": lambda v: (ss.matrix_transpose(ss.coo_array((v, PLACES), shape=(3, 3))) @ X) @ W}
       if hasattr(ss, "matrix_transpose") else {}),  # since SciPy 1.18
    "places in floats": lambda v: np.sum((ss.csr_array((v, (v * 0 + [0, 1, 2, 0, 1], 0.7 + np.floor(v * 0))), shape=(3, 3)) @ X) ** 2),
    "a sum with a constant": lambda v: ((GLOBAL + ss.diags_array(v[:3])) @ X) @ W,
    "a constant times": lambda v: ((GLOBAL * v[0] + v[1] * GLOBAL).multiply(v[:3]) @ X) @ W,
    "a row of numbers": lambda v: ss.csr_array((v, ([0, 1, 2, 4, 5],)), shape=(6,)) @ np.r_[X, W],
    "rows summed": lambda v: sum(row.sum() ** 2 for row in ss.csr_array((v, PLACES), shape=(3, 3))),
}


@pytest.mark.parametrize("name", BUILT)
def test_built_of_traced_numbers(name: str) -> None:
    check(BUILT[name], NUMBERS)


OF_A_VECTOR: dict[str, Callable[[Any, Any], Any]] = {
    "A @ x": lambda A, x: (A @ x) @ W,
    "x @ A": lambda A, x: (x @ A) @ W,
    "A.multiply": lambda A, x: (A.multiply(x) @ x) @ W,
    "columns": lambda A, x: np.sum((A @ np.stack([x, x ** 2], axis=1)) ** 2),
    "scaled": lambda A, x: ((A * x[0]) @ x) @ W,
    "spsolve": lambda A, x: ssl.spsolve(ss.csc_array(A), x) @ W,
    "splu": lambda A, x: ssl.splu(ss.csc_array(A)).solve(x) @ W,
    "factorized twice": lambda A, x: (lambda solve: solve(solve(x) * x) @ W)(ssl.factorized(ss.csc_array(A))),
    "cg": lambda A, x: ssl.cg(A @ A.T, x, rtol=1e-13, atol=0.0)[0] @ W,
    "gmres": lambda A, x: ssl.gmres(A, x, rtol=1e-13, M=ss.diags_array(1 / DENSE.diagonal()))[0] @ W,
    "gmres with factors": lambda A, x: ssl.gmres(A, x, rtol=1e-13, M=FACTORS)[0] @ W,
    "expm_multiply": lambda A, x: ssl.expm_multiply(A, x) @ W,
    "LinearOperator": lambda A, x: (ssl.LinearOperator((3, 3), matvec=lambda v: A @ v) @ x) @ W,
}


@pytest.mark.parametrize("kind", [f"{name}_{kind}" for name in FORMATS for kind in ("array", "matrix")])
@pytest.mark.parametrize("name", OF_A_VECTOR)
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_a_constant_matrix(name: str, kind: str) -> None:
    A = made(kind)

    def f(x: Any, A: Any = A) -> Any:  # by default arguments: what a function captures is differentiated too
        return OF_A_VECTOR[name](A, x)
    check(f, X, again=([*OF_A_VECTOR].index(name) + FORMATS.index(kind[:3])) % 3 == 0)  # as above


@pytest.mark.quick
def test_the_gradient_of_what_was_captured_is_a_matrix() -> None:
    A = made("csc_matrix")
    _, (df, _) = tg.grad(lambda x: (A @ x) @ W, X)
    assert type(df["A"]) is ss.csc_matrix
    np.testing.assert_allclose(df["A"].toarray(), np.where(DENSE, np.outer(W, X), 0.0))


def test_it_is_what_scipy_calls_sparse() -> None:
    def f(A: Any) -> Any:
        assert ss.issparse(A) and isinstance(A, ss.csr_array) and isinstance(A, ss.sparray) and A.format == "csr"
        assert A.shape == (3, 3) and A.ndim == 2 and A.nnz == 6 and A.dtype == float
        assert not (A != A).nnz and (A != A.T).nnz
        return A.sum()
    tg.grad(f, GLOBAL)


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")  # they write into their arguments
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_the_arguments_matrix_is_not_written_to() -> None:
    A = made("csr_array")
    for step in (tg.value_and_grad(_in_place, argnums=None, warmup=1), lambda A: tg.grad(_in_place, A)):
        for _ in range(3):
            step(A)
            np.testing.assert_array_equal(A.toarray(), DENSE)
            assert A.has_sorted_indices


def test_complex_numbers() -> None:
    A = made("csr_array") + 0.3j * made("csr_array").T
    z = X + 0.5j * W

    def size(y: Any) -> Any:
        return np.abs(y @ W) ** 2
    rows: list[Callable[[Any], Any]] = [
        lambda A: size(A @ z), lambda A: size(z @ A), lambda A: size(A.conj().T @ z), lambda A: size(A @ A @ z), lambda A: size(ssl.spsolve(A, z)),
        lambda A: size(ssl.spsolve(A.tocsc(), X)), lambda A: size(ssl.splu(A.tocsc()).solve(z, "H")), lambda A: size(ssl.splu(A.tocsc()).solve(z, "T")),
        lambda A: size(ssl.gmres(A, z, rtol=1e-13)[0]), lambda A: size(ssl.expm_multiply(A * 0.2, z)), lambda A: ssl.norm(A) + abs(A.sum()),
    ]
    for f in rows:
        check(f, A)
    for g in (lambda x: size(GLOBAL @ x), lambda x: size(ssl.spsolve(GLOBAL, x)), lambda x: size(ssl.splu(ss.csc_array(GLOBAL + 1j * GLOBAL.T)).solve(x))):
        check(g, z)


def test_single_precision() -> None:
    A, x = made("csr_array").astype(np.float32), X.astype(np.float32)
    for f in (lambda A, x: (A @ x).sum(), lambda A, x: ssl.spsolve(A, x).sum(), lambda A, x: (A @ A).sum() + (A.T + A).sum() * x[0]):
        value, (_, dA, dx) = tg.grad(f, A, x)
        assert value.dtype == dA.dtype == dx.dtype == np.float32
        wide = tg.gradient(f, made("csr_array"), X)
        np.testing.assert_allclose(dA.toarray(), wide[0].toarray(), 1e-4, 1e-5)
        np.testing.assert_allclose(dx, wide[1], 1e-4, 1e-5)


def test_integers_and_bools() -> None:
    A = made("csr_array").astype(int)
    assert tg.gradient(lambda A, x: (A @ x).sum(), A, X)[1].tolist() == np.asarray(A.sum(axis=0)).tolist()
    dA, dx = tg.gradient(lambda A, x: (A @ x).sum(), made("csr_array").astype(bool), X)
    assert dA is None and dx.tolist() == [2, 2, 2]


@pytest.mark.parametrize("f", [OF_A_MATRIX[name] for name in ("A @ x", "A @ A", "spsolve", "gmres", "expm_multiply", "multiply", "sqrt")])
def test_second_order(f: Callable[[Any], Any]) -> None:
    A = made("csr_array")
    V = with_data(A, np.sin(np.arange(6.0)))

    def slope(data: Any) -> Any:
        return np.sum(tg.grad(f, with_data(A, data), argnums=0)[1].data * V.data)
    expected = differences(slope, A.data)
    np.testing.assert_allclose(tg.gradient(lambda A: np.sum(tg.gradient(f, A)[0].data * V.data), A)[0].data, expected, 1e-5, 1e-6)
    np.testing.assert_allclose(tg.hvp(f)(A, V).data, expected, 1e-5, 1e-6)


def test_batches_jacobians_and_series() -> None:
    A, xs = made("csr_array"), np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(tg.vmap(lambda x: A @ x + ssl.spsolve(A, x) + x @ A)(xs), [A @ x + ssl.spsolve(A, x) + x @ A for x in xs])
    np.testing.assert_allclose(tg.vmap(lambda A, x: A @ np.stack([x, x], axis=1), in_axes=(None, 0))(A, xs), [A @ np.c_[x, x] for x in xs])
    np.testing.assert_allclose(tg.jacobian(lambda x: A @ x)(X), DENSE)
    np.testing.assert_allclose(tg.jacobian(lambda x: ssl.spsolve(A, x))(X), np.linalg.inv(DENSE))
    np.testing.assert_allclose(tg.hessian(lambda x: x @ (A @ x))(X), DENSE + DENSE.T)
    np.testing.assert_allclose(tg.sparse_jacobian(lambda x: A @ x ** 2)(X).toarray(), 2 * DENSE * X)
    assert tg.jacobian(lambda A: A @ X)(A).shape == (3, 6)  # by what it stores
    np.testing.assert_allclose(tg.taylor(lambda t: (A * t @ (X * t)) @ W, 1.0, 2), np.array([1.0, 2.0, 1.0]) * (DENSE @ X @ W))


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array"])
def test_the_sparsity_of_a_product_is_that_of_the_matrix(kind: str) -> None:
    A = made(kind)
    for f in (lambda x: A @ x, lambda x: np.sin(A @ x) * 2, lambda x: A @ np.stack([x, x], axis=1)[:, 0]):
        assert np.array_equal(tg.jacobian_sparsity(f, X).toarray(), DENSE != 0)
    assert np.array_equal(tg.jacobian_sparsity(lambda x: x @ A, X).toarray(), DENSE.T != 0)
    assert np.array_equal(tg.jacobian_sparsity(lambda x: (A @ np.stack([x, x ** 2], axis=1))[:, 1], X).toarray(), DENSE != 0)
    rows = A.tocoo().coords[0]
    by_data = tg.jacobian_sparsity(lambda data: with_data(A, data) @ X, A.data).toarray()
    assert np.array_equal(by_data, rows == np.arange(3)[:, None])
    np.testing.assert_allclose(tg.sparse_jacobian(lambda x: (A @ x) ** 2)(X).toarray(), 2 * (DENSE @ X)[:, None] * DENSE)


def test_results_and_cotangents_are_matrices() -> None:
    A = made("csc_array")
    value, tape = tg.trace(lambda A: {"twice": A * 2}, A)
    assert type(value["twice"]) is ss.csc_array and np.array_equal(tape.play(A * 3)["twice"].toarray(), 6 * DENSE)
    _, back = tg.pullback(lambda A: A.power(2), A)
    np.testing.assert_allclose(back(A)[1].toarray(), 2 * DENSE ** 2)
    squared = tg.compile(lambda A: A @ A)
    for B in (A, A * 2, A.T, A.tocsr(), A):
        np.testing.assert_allclose(squared(B).toarray(), (B @ B).toarray())
        assert squared(B).format == (B @ B).format


def test_another_pattern_is_another_path_and_never_wrong_numbers() -> None:
    def f(A: Any, x: Any) -> Any:
        return (A @ x) @ W + ssl.spsolve(A, x).sum()
    first, other = made("csc_array"), made("csc_array", SYMMETRIC)
    same = made("csc_array", DENSE[::-1, ::-1])  # as many numbers elsewhere
    tape = tg.trace(f, first, X)[1]
    np.testing.assert_allclose(tape.play(first * 2, X), f(first * 2, X))
    for A in (other, same, first.tocsr()):
        with pytest.raises(tg.TapeError, match="csc_array"):
            tape.play(A, X)
    step, plain = tg.value_and_grad(f, argnums=None, warmup=1), tg.compile(f)
    for A in (first, first * 2, other, same, first, other * 2, same, first.tocsr(), first):
        value, (_, dA, dx) = step(A, X)
        expected, (_, eA, ex) = tg.grad(f, A, X)
        np.testing.assert_allclose([value, plain(A, X)], expected)
        assert type(dA) is type(A)
        np.testing.assert_allclose(dA.toarray(), eA.toarray())
        np.testing.assert_allclose(dx, ex)
    for call in (lambda: tg.jvp(f, (first, X), (same, X)), lambda: tg.pullback(lambda A: A * 2, first)[1](same), lambda: tg.hvp(lambda A: (A @ X).sum())(first, same)):
        with pytest.raises(tg.ArgumentError, match="numbers in other positions"):
            call()


def reads_global(x: Any) -> Any:
    return (GLOBAL @ x) @ W


def test_a_matrix_that_is_changed_between_calls() -> None:
    captured = GLOBAL.copy()

    class Model:
        matrix = captured

        def loss(self, x: Any) -> Any:
            return (self.matrix @ x) @ W
    before = GLOBAL.copy()
    try:
        for f, A in ((reads_global, GLOBAL), (lambda x: (captured @ x) @ W, captured), (Model().loss, captured)):
            step, plain = tg.value_and_grad(f, argnums=None, warmup=1), tg.compile(f)
            for number in range(6):
                if number == 2:
                    A.data[0] = 10.0
                if number == 3:
                    A.data *= 2
                if number == 4:
                    A[1, 1] = 7.0
                if number == 5:
                    A.indices[:2] = A.indices[:2][::-1].copy()
                value, (_, dx) = step(X)
                np.testing.assert_allclose([value, plain(X)], A.toarray() @ X @ W)
                np.testing.assert_allclose(dx, W @ A.toarray())
    finally:
        GLOBAL.data, GLOBAL.indices, GLOBAL.indptr = before.data, before.indices, before.indptr


def test_indices_that_are_arguments_are_guarded() -> None:
    def f(v: Any, i: Any, j: Any) -> Any:
        return (ss.csr_array((v, (i, j)), shape=(3, 3)) @ X) @ W
    step, (i, j) = tg.value_and_grad(f, argnums=0, warmup=1), PLACES
    tape = tg.trace(f, NUMBERS, i, j)[1]
    np.testing.assert_allclose(tape.play(NUMBERS * 2, i, j), f(NUMBERS * 2, i, j))
    with pytest.raises(tg.GuardError):
        tape.play(NUMBERS, j, i)
    for rows, columns in ((i, j), (i, j), (j, i), (j, i), (i, j)):
        value, dv = step(NUMBERS, rows, columns)
        np.testing.assert_allclose(value, f(NUMBERS, rows, columns))
        np.testing.assert_allclose(dv, W[rows] * X[columns])


def test_numbers_that_cancel_have_a_gradient() -> None:
    A = made("csr_array")
    _, (_, dA, dB) = tg.grad(lambda A, B: ((A - B) @ X) @ W, A, A.copy())
    np.testing.assert_allclose(dA.toarray(), np.where(DENSE, np.outer(W, X), 0.0))
    np.testing.assert_allclose(dB.toarray(), -dA.toarray())
    with pytest.raises(tg.UnknownFunction, match="count_nonzero"):  # SciPy would say 0
        tg.grad(lambda A, B: (A - B).nnz * A.sum(), A, A.copy())
    with pytest.raises(tg.UnknownFunction, match="eliminate_zeros"):
        tg.grad(lambda A: ((A * 0).eliminate_zeros(), A.sum())[1], A)


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda A: A.tolil().sum(), "in lists or a dict"),
    (lambda A: ssl.eigs(A, k=1)[0].sum(), "eigs"),
    (lambda A: ssl.spilu(A.tocsc()).solve(X).sum(), "spilu"),
    (lambda A: ssl.inv(A.tocsc()).sum(), "inv"),
    (lambda A: ssl.spsolve(A.tocsc(), A.tocsc()).sum(), "sparse right-hand side"),
    (lambda A: ssl.splu(A.tocsc()).L.sum(), r"splu\(A\)\.L"),
    (lambda A: (A / A).sum(), "two sparse matrices"),
    (lambda A: A.toarray(None, np.zeros((3, 3))).sum(), "out="),
    (lambda A: np.asarray(A).sum(), "np.asarray of a sparse matrix"),
    (lambda A: ssl.cg(ssl.aslinearoperator(A), X)[0].sum(), "LinearOperator"),
    (lambda A: ssl.cg(A, X, maxiter=1)[0].sum(), "not converged"),
    (lambda A: ssl.norm(A, 2), "norm"),
    (lambda A: ssl.expm_multiply(A, X, 0.0, 1.0, 3).sum(), "expm_multiply"),
    (lambda A: ssl.spsolve_triangular(A, X).sum(), "other triangle"),
]


@pytest.mark.parametrize(("f", "told"), REFUSED, ids=[told for _, told in REFUSED])
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_what_has_no_rule_is_refused_in_words(f: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(tg.UnknownFunction, match=told) as caught:
        tg.grad(f, made("csr_array"))
    assert caught.value.try_ and caught.value.where is not None and caught.value.where.file == __file__


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_a_matrix_of_constants_is_written_into_where_the_program_has_made_it() -> None:
    def f(v: Any) -> Any:
        A = GLOBAL.copy()
        A[0, 1] = v[0]
        A[1, 0] = v[1] ** 2
        B = ss.eye_array(3, format="csc")
        B.setdiag(v[:3] ** 2)
        B.setdiag(v[3], 1)
        return ((A @ B) @ X) @ W
    check(f, NUMBERS)

    def write(v: Any) -> Any:
        GLOBAL[0, 1] = v[0]
        return GLOBAL.sum()

    def scale(v: Any) -> Any:
        GLOBAL.data *= v[0]
        return GLOBAL.sum()

    for refused in (write, scale):
        with pytest.raises(tg.MutationError):
            tg.grad(refused, NUMBERS)
        np.testing.assert_array_equal(GLOBAL.toarray(), DENSE)
    KEPT.clear()
    tg.trace(lambda v: (KEPT.append(ss.eye_array(3, format="csr")), v.sum())[1], NUMBERS)
    assert np.array_equal(pickle.loads(pickle.dumps(KEPT[0])).toarray(), np.eye(3))
    with pytest.raises(tg.MutationError):
        tg.trace(lambda v: KEPT[0].setdiag(v[:3]), NUMBERS)
    pickle.dumps(tg.trace(lambda v: ss.eye_array(3) * v[0] + GLOBAL - GLOBAL, NUMBERS)[0])


@pytest.mark.parametrize("kind", ["lil_array", "dok_array", "lil_matrix", "dok_matrix"])
def test_what_is_kept_in_lists_is_refused(kind: str) -> None:
    def f(v: Any) -> Any:
        A = getattr(ss, kind)((3, 3))
        A[0, 1] = v[0]
        return A.tocsr().sum()
    if kind.startswith("dok"):
        with pytest.raises(tg.UnknownFunction, match=r"try: coo_array"):
            tg.grad(f, NUMBERS)
    with pytest.raises(tg.ArgumentError, match=r"try: A\.tocsr\(\)"):
        tg.grad(lambda A: A.sum(), made(kind))


def test_errors_are_scipys() -> None:
    A = made("csr_array")
    for f in (lambda A: A @ np.ones(4), lambda A: A @ ss.eye_array(4), lambda A: A + ss.eye_array(4), lambda A: A[5], lambda A: A[0, 7]):
        with pytest.raises((ValueError, IndexError)) as plain:
            f(A)
        with pytest.raises(type(plain.value)):
            tg.trace(f, A)
    with pytest.raises(RuntimeError, match="singular"):
        tg.grad(lambda b: ssl.spsolve(ss.csc_array((3, 3)) + 0 * made("csc_array"), b).sum(), X)


# -- whole programs


def pagerank(weights: Any, edges: Any, damping: Any) -> Any:
    n = 6
    A = ss.csr_array((weights, edges), shape=(n, n))
    P = A @ ss.diags_array(1 / A.sum(axis=0))
    rank = np.full(n, 1 / n)
    for _ in range(60):
        rank = damping * (P @ rank) + (1 - damping) / n
    return rank @ np.arange(1.0, n + 1)


def test_pagerank() -> None:
    edges = np.array([1, 2, 3, 0, 4, 5, 0, 2, 1]), np.array([0, 0, 1, 2, 3, 4, 5, 3, 4])
    weights = np.linspace(0.5, 2.0, 9)
    check(lambda w: pagerank(w, edges, 0.85), weights)
    _, (_, _, _, damping) = tg.grad(pagerank, weights, edges, 0.85)
    assert damping == pytest.approx(differences(lambda d: pagerank(weights, edges, d), 0.85), rel=1e-6)


def poisson(conductivity: Any, load: Any) -> Any:
    """Assemble linear triangles on the unit square, and return the compliance."""
    n = 5
    corners = np.array([(i * n + j, (i + 1) * n + j, i * n + j + 1) for i in range(n - 1) for j in range(n - 1)]
                       + [((i + 1) * n + j + 1, i * n + j + 1, (i + 1) * n + j) for i in range(n - 1) for j in range(n - 1)])
    local = np.array([[1.0, -0.5, -0.5], [-0.5, 0.5, 0.0], [-0.5, 0.0, 0.5]])
    numbers = conductivity[:, None, None] * local
    rows, columns = np.repeat(corners, 3, axis=1).ravel(), np.tile(corners, (1, 3)).ravel()
    K = ss.coo_matrix((numbers.ravel(), (rows, columns)), shape=(n * n, n * n)).tocsr()
    inner = np.array([i * n + j for i in range(1, n - 1) for j in range(1, n - 1)])
    u = ssl.spsolve(K[inner][:, inner], load[inner])
    return u @ load[inner]


def test_finite_elements() -> None:
    conductivity, load = 1 + 0.3 * np.sin(np.arange(32.0)), np.cos(np.arange(25.0))
    check(lambda k: poisson(k, load), conductivity)
    check(lambda f: poisson(conductivity, f), load)


def field(permittivity: Any) -> Any:
    """Solve Helmholtz's equation with losses at the edge (FDFD), and return the intensity at a point."""
    n, omega = 6, 1.3
    second = ss.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n, n))
    laplacian = ss.kron(second, ss.identity(n)) + ss.kron(ss.identity(n), second)
    y, x = np.mgrid[:n, :n]
    loss = 0.4j * ((x == 0) | (x == n - 1) | (y == 0) | (y == n - 1)).ravel()
    A = laplacian + omega ** 2 * ss.diags(permittivity * (1 + loss))
    source = np.zeros(n * n, complex)
    source[7] = 1j * omega
    return np.abs(ssl.spsolve(A.tocsc(), source)[28]) ** 2


def test_a_complex_field() -> None:
    check(field, 1.5 + 0.5 * np.cos(np.arange(36.0)))


def test_threads() -> None:
    A, found = made("csr_array"), []

    def run(k: int) -> None:
        for _ in range(5):
            found.append((k, tg.gradient(lambda A: (ssl.spsolve(A, X) + A @ X) @ W, A * k)[0].data))
    threads = [threading.Thread(target=run, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {k: tg.gradient(lambda A: (ssl.spsolve(A, X) + A @ X) @ W, A * k)[0].data for k in (1, 2, 3)}
    assert len(found) == 15 and all(np.allclose(dA, expected[k]) for k, dA in found)


KEPT_FACTORS, KEPT_SOLVE = ssl.splu(ss.csc_array(DENSE)), ssl.factorized(ss.csc_array(DENSE))


class Kept:
    def __init__(self) -> None:
        self.factors = ssl.splu(ss.csc_array(DENSE), permc_spec="MMD_AT_PLUS_A")

    def residual(self, x: Any) -> Any:
        return (self.factors.solve(x) ** 2).sum()


def test_factors_that_were_made_before() -> None:
    kept, table = ssl.splu(ss.csc_array(DENSE)), {"solve": ssl.splu(ss.csc_array(DENSE)).solve}
    for f in (lambda x: (KEPT_FACTORS.solve(x) ** 2).sum(), lambda x: (KEPT_SOLVE(x * 2) ** 2).sum(), lambda x: (kept.solve(x, "T") ** 2).sum(),
              lambda x: (table["solve"](x) ** 3).sum(), Kept().residual, lambda x: (kept.solve(np.outer(x, x)) ** 2).sum() + kept.solve(X)[0] * x[0]):
        check(f, X)
        assert np.linalg.norm(tg.hvp(f)(X, W) - (tg.gradient(f, X + 1e-5 * W)[0] - tg.gradient(f, X - 1e-5 * W)[0]) / 2e-5) < 1e-6
        step = tg.value_and_grad(f, argnums=0, warmup=1)
        for x in (X, X * 2, W):
            np.testing.assert_allclose(step(x)[1], differences(f, x), atol=1e-6)
    assert type(kept) is type(KEPT_FACTORS) is ssl.SuperLU and type(table["solve"]).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize("kind", ["lil_array", "lil_matrix"])
def test_filled_element_by_element(kind: str) -> None:
    def f(x: Any) -> Any:
        A = getattr(ss, kind)((3, 3))
        A[0, 1] = 5.0
        for i in range(3):
            A[i, i] = x[i] ** 2 + 1
        A[2, :2] = x[:2]
        A[0, 1] += x[2]
        A[1, 0] = 7.0
        A[1, 1] = 2.0 * A[1, 1]
        return ssl.spsolve(A.tocsc(), X).sum() + A.toarray()[0, 1] + (A @ x).sum()
    check(f, W)
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (W, W * 2, X):
        np.testing.assert_allclose(step(x)[1], differences(f, x), rtol=1e-5, atol=1e-6)
    outside = getattr(ss, kind)((3, 3))
    with pytest.raises(tg.TapeError):
        tg.grad(lambda x: (outside.__setitem__((0, 0), x[0]), x.sum())[1], X)
    assert outside.nnz == 0
