"""Calls of a rare form are what they are in SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.special as sp

import tapegrad as tg


@pytest.mark.filterwarnings("ignore:floating point number truncated", "ignore:non-integer arg")
@pytest.mark.parametrize("n", [0, 1, 3, 0.5, 1.7, np.array([0, 1, 2]), np.array([0.5, 1.5, 2.0])], ids=repr)
@pytest.mark.parametrize("fn", [sp.kn, sp.yn, sp.expn], ids=lambda fn: fn.__name__)
def test_a_fraction_of_an_order_is_cut_off_in_the_gradient_too(fn: Any, n: Any) -> None:
    x = np.array([0.7, 1.3, 2.0])
    f = eval("lambda x: fn(n, x).sum()", {"fn": fn, "n": n})
    for slope in (tg.gradient(f, x)[0], tg.value_and_grad(f, argnums=None, warmup=1)(x)[1][1]):
        np.testing.assert_allclose(slope, (fn(n, x + 1e-5) - fn(n, x - 1e-5)) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize(("fn", "x"), [(si.cumulative_trapezoid, np.arange(2.0)), (si.cumulative_trapezoid, np.ones((3, 2))), (si.trapezoid, np.ones((3, 2)))])
def test_samples_that_do_not_fit_raise(fn: Any, x: Any) -> None:
    y = np.ones((3, 4))
    for f in (fn, lambda y, x: tg.trace(fn, y, x), tg.compile(fn, warmup=1)):
        with pytest.raises(ValueError):
            f(y, x)


def test_a_part_with_a_slope_where_another_has_a_pole() -> None:
    def f(x: Any) -> Any:
        return sp.sici(x)[0] + sp.shichi(x)[0] + sp.it2j0y0(x)[0] + sp.it2i0k0(x)[0]
    assert [tg.gradient(f, 0.0), tg.gradient(lambda x: tg.gradient(f, x)[0], 0.0)] == [(2.0,), (0.5,)]
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    assert [step(0.0)[1] for _ in range(3)] == [(None, 2.0)] * 3
