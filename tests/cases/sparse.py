"""Cases of the ops of sparse matrices, by the numbers that these store, against dense ones of torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss
import scipy.sparse.linalg as ssl
import torch

import tapegrad as tg
from tapegrad.trace.lazy_frontends import register_imported
from tests.cases.case import Case, draw

register_imported()

MASK = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 1, 1]], bool)
PLACES = MASK.nonzero()
COUNT = len(PLACES[0])
NONE: tuple[Any, Any] = (np.zeros(0, int), np.zeros(0, int))


def of(data: Any, kind: Callable[..., Any] = ss.csr_array, places: Any = PLACES) -> Any:
    """Return the sparse matrix with these numbers."""
    return kind((data, places), shape=(4, 4))


def dense(data: Any) -> Any:
    """Return torch's matrix with these numbers."""
    data = torch.as_tensor(data)
    return torch.zeros(4, 4, dtype=data.dtype).index_put((torch.tensor(PLACES[0]), torch.tensor(PLACES[1])), data)


def dominant(seed: int = 0) -> Any:
    """Return numbers of a matrix that has an inverse."""
    return draw(COUNT, seed=seed, low=-0.5, high=0.5) + 3.0 * (PLACES[0] == PLACES[1])


def gradient(d: Any, x: Any) -> Any:
    """Return a gradient by what a matrix stores."""
    return tg.gradient(lambda d: np.sum(np.real(np.sin(of(d) @ x))), d)[0]


X, WIDE = draw(4), draw(4, 3)
CASES = [
    Case("sparse_matmul", lambda d, x: of(d) @ x, [(draw(COUNT), X), (draw(COUNT), WIDE), (draw(COUNT), WIDE[:, :0]), (np.repeat(draw(COUNT), 2)[::2], np.asfortranarray(WIDE))],
         errors=[((draw(COUNT), X[:3]), ValueError)], torch=lambda d, x: dense(d) @ torch.as_tensor(x)),
    Case("sparse_matmul:complex", lambda d, x: of(d) @ x + x @ of(d, ss.csc_matrix), [(draw(COUNT) + 1j, X), (draw(COUNT), X * 1j), (draw(COUNT) - 2j, WIDE[:, 0] + 1j)]),
    Case("sparse_matmul:csc", lambda d, x: x @ of(d, ss.csc_matrix) + of(d, ss.csc_matrix) * x, [(draw(COUNT), X)],
         torch=lambda d, x: torch.as_tensor(x) @ dense(d) + dense(d) @ torch.as_tensor(x)),
    Case("sparse_matmul:dia", lambda d, x: ss.dia_array((d, [0, 1, -2]), shape=(4, 4)) @ x, [(draw(3, 4), X)]),
    Case("sparse_matmul:coo", lambda d, x: ss.coo_array((d, ([0, 0, 2], [1, 1, 0])), shape=(4, 4)) @ x, [(draw(3), X), (draw(3), WIDE)]),
    Case("sparse_matmul:empty", lambda d, x: of(d, places=NONE) @ x, [(np.zeros(0), X)]),
    Case("sampled_matmul", gradient, [(draw(COUNT), X), (draw(COUNT), WIDE)]),
    Case("sparse_product", lambda d, e: (of(d) @ of(e, ss.csc_array)).toarray(), [(draw(COUNT), draw(COUNT, seed=1))], torch=lambda d, e: dense(d) @ dense(e)),
    Case("sparse_product:complex", lambda d, e: (of(d, ss.csc_array) @ of(e)).toarray(), [(draw(COUNT) + 1j, draw(COUNT, seed=1)), (draw(COUNT) + 1j, draw(COUNT) - 2j)]),
    Case("sparse_product:power", lambda d: (of(d) @ of(d).T @ of(d, ss.coo_matrix)).toarray(), [(draw(COUNT),)], torch=lambda d: dense(d) @ dense(d).T @ dense(d)),
    Case("sparse_product:empty", lambda d: (of(d, places=NONE) @ of(d, places=NONE)).toarray(), [(np.zeros(0),)]),
    Case("sparse_solve", lambda d, b: ssl.spsolve(of(d), b), [(dominant(), X), (dominant(), WIDE)],
         errors=[((dominant(), X[:3]), ValueError)], torch=lambda d, b: torch.linalg.solve(dense(d), torch.as_tensor(b))),
    Case("sparse_solve:complex", lambda d, b: ssl.spsolve(of(d), b), [(dominant() + 0.2j, X), (dominant(), X - 1j), (dominant() - 0.1j, WIDE + 1j)]),
    *[Case(f"sparse_solve:{trans}", lambda d, b, trans=trans: ssl.splu(of(d, ss.csc_array)).solve(b, trans), [(dominant(), X), (dominant() + 0.2j, WIDE + 0j)])
      for trans in "NTH"],
]
