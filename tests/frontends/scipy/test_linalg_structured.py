"""Banded and Toeplitz systems: SciPy's own solvers, differentiated by what they solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl

import tapegrad as tg
from tapegrad.testing import check_grads
from tests.cases.case import draw

BAND = np.array([[0.0, 0.3, -0.2, 0.5], [4.0, 3.0, 5.0, 4.5], [0.4, -0.3, 0.6, 0.0]])
PROGRAMS: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    (lambda ab, b: sl.solve_banded((1, 1), ab, b), [(BAND, draw(4)), (BAND, draw(4, 2))]),
    (lambda ab, b: sl.solveh_banded(ab, b) + sl.solveh_banded(ab[::-1], b, lower=True), [(BAND[:2], draw(4))]),
    (lambda ab, b: sl.cho_solve_banded((ab, False), b) + sl.cho_solve_banded((ab[::-1], True), b), [(BAND[:2], draw(4))]),
    (lambda c, r, b: sl.solve_toeplitz((c, r), b) + sl.solve_toeplitz(c, b) + sl.matmul_toeplitz((c, r), b), [(BAND[1], draw(4), draw(4, seed=1))]),
]


@pytest.mark.parametrize(("f", "samples"), PROGRAMS)
def test_a_solution(f: Callable[..., Any], samples: list[tuple[Any, ...]]) -> None:
    for args in samples:
        np.testing.assert_array_equal(tg.trace(f, *args)[0], f(*args))
        check_grads(lambda *xs: np.sum(np.sin(f(*xs))), *args)
        step = tg.value_and_grad(lambda *xs: np.sum(np.sin(f(*xs))), argnums=None, warmup=1)
        for scale in (1.0, 1.1, 0.9):
            others = [x * scale for x in args]
            for dx, expected in zip(step(*others)[1][1:], tg.gradient(lambda *xs: np.sum(np.sin(f(*xs))), *others)):
                np.testing.assert_allclose(dx, expected, 1e-10)


def test_nodes_of_a_quadrature_are_plain() -> None:
    """SciPy keeps them for the next call, which may be in another trace."""
    import scipy.integrate as si
    for k in (0.8, 0.9):
        assert tg.gradient(lambda k: si.fixed_quad(lambda x: np.cos(k * x), 0.0, k)[0], k)[0] == pytest.approx(2 * np.cos(k * k) - np.sin(k * k) / k**2)
