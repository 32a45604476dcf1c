"""Some eigenvalues, singular values and least squares of sparse matrices: values are SciPy's, gradients those of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as ssl

import tapegrad as tg

N = 9
LAPLACE = ss.diags_array([-np.ones(N - 1), 2 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1]).tocsr()
START, X, B = np.cos(np.arange(N)) + 0.3, np.linspace(0.4, 1.3, N), np.cos(np.arange(12.0))
TALL = ss.csr_array(np.where(np.arange(12 * N).reshape(12, N) % 4 == 1, 0.0, np.sin(np.arange(12 * N) ** 2).reshape(12, N)))
CLOSE: dict[str, Any] = {"atol": 1e-13, "btol": 1e-13}


def symmetric(x: Any) -> Any:
    return LAPLACE + ss.diags_array(x)


def tall(x: Any) -> Any:
    return (TALL @ ss.diags_array(x)).tocsr()


def block(x: Any) -> Any:
    return ssl.lobpcg(symmetric(x), np.stack([START, START[::-1] ** 2], axis=1), tol=1e-12, maxiter=500)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "eigenvalues": lambda x: (ssl.eigsh(symmetric(x), k=3, v0=START)[0] * np.array([1.0, 2.0, 3.0])).sum(),
    "vectors": lambda x: ((ssl.eigsh(symmetric(x), k=2, v0=START, which="SA")[1] ** 2)[:4] * np.arange(4.0)[:, None]).sum(),
    "near a number": lambda x: ssl.eigsh(symmetric(x), 2, None, 0.0, v0=START, return_eigenvectors=False).sum(),
    "a block": lambda x: (block(x)[0] * np.array([1.0, 2.0])).sum() + (block(x)[1] ** 2)[0, 0],
    "singular values": lambda x: ssl.svds(tall(x), k=2, v0=START)[1][0] + ssl.svds(tall(x), k=3, return_singular_vectors=False, v0=START).sum(),
    "singular vectors": lambda x: (ssl.svds(tall(x), k=2, v0=START)[0] ** 2)[:3].sum() + (ssl.svds(tall(x), k=2, v0=START)[2] ** 2)[:, :2].sum(),
    "one side": lambda x: (ssl.svds(tall(x), k=2, return_singular_vectors="vh", v0=START)[2] ** 2)[:, :2].sum(),
    "lsqr": lambda x: (ssl.lsqr(tall(x), B * x[0], **CLOSE)[0] ** 2).sum(),
    "lsqr with damping": lambda x: (ssl.lsqr(tall(x), B, 0.3 * x[1], **CLOSE)[0] ** 2).sum(),
    "lsmr": lambda x: (ssl.lsmr(tall(x), B, conlim=0, maxiter=500, **CLOSE)[0] ** 2).sum(),
}


@pytest.mark.filterwarnings("ignore:The problem size")
@pytest.mark.parametrize("name", PROGRAMS)
def test_sparse(name: str) -> None:
    f = PROGRAMS[name]
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for k in (1.0, 1.1, 0.9):
        x = X * k
        slopes = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(N)]
        value, dx = step(x)
        np.testing.assert_allclose([value, tg.grad(f, x)[0]], f(x), rtol=1e-10)
        np.testing.assert_allclose(dx, slopes, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(tg.gradient(f, x)[0], slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["vectors", "singular values", "lsqr"])
def test_twice(name: str) -> None:
    f = PROGRAMS[name]
    slopes = [(tg.gradient(f, X + 1e-5 * e)[0] - tg.gradient(f, X - 1e-5 * e)[0]) / 2e-5 for e in np.eye(N)]
    np.testing.assert_allclose(tg.hessian(f)(X), slopes, rtol=1e-4, atol=1e-5)


def test_by_the_matrix() -> None:
    dA = tg.grad(lambda A: ssl.eigsh(A, k=1, v0=START)[0][0], symmetric(X), argnums=0)[1]
    v = ssl.eigsh(symmetric(X), k=1, v0=START)[1]
    np.testing.assert_allclose(dA.toarray(), np.where(LAPLACE.toarray() != 0, v @ v.T, 0.0), atol=1e-12)


@pytest.mark.parametrize("f", [
    lambda x: ssl.eigsh(ss.eye_array(N) * x[0] + ss.diags_array(np.r_[0.0, 0.0, np.arange(1.0, N - 1)]), k=2, which="SA", v0=START)[0].sum(),
    lambda x: ssl.eigsh(symmetric(x), k=2, M=symmetric(x))[0].sum(), lambda x: ssl.eigsh(np.diag(x), k=2)[0].sum(),
    lambda x: ssl.lsqr(tall(x), B, iter_lim=1)[0].sum(), lambda x: ssl.lsqr(tall(x).T.tocsr(), x)[0].sum(), lambda x: ssl.eigs(symmetric(x), k=2)[0].real.sum(),
])
def test_what_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.TapeError) as err:
        tg.gradient(f, X)
    assert err.value.try_ and err.value.where is not None
