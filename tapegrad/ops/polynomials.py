"""Orthogonal polynomials, by their argument (DLMF 18.9): the derivative is one of another family, of one degree less.

Derivatives by degrees and parameters are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.numbers.kinds import Array
from tapegrad.ops.elementwise import equal, where
from tapegrad.ops.special import binom, special
from tapegrad.rules.op import Op


def _by_degree(name: str, slope: Callable[..., Any], *parameters: str) -> Op:
    """Define an op by `slope`, a formula of the degree, the degree below, the parameters and the argument."""
    def derivative(_y: Array, n: Any, *rest: Any) -> Any:
        flat = equal(n, 0)  # there is no polynomial below a constant
        return where(flat, 0.0, slope(n, where(flat, 0, n - 1), *rest))
    return special(name, "n", *parameters, derivative)


eval_gegenbauer = _by_degree("eval_gegenbauer", lambda _n, k, alpha, x: 2 * alpha * eval_gegenbauer(k, alpha + 1, x),
                             "alpha")
eval_legendre = _by_degree("eval_legendre", lambda _n, k, x: eval_gegenbauer(k, 1.5, x))
eval_sh_legendre = _by_degree("eval_sh_legendre", lambda _n, k, x: 2 * eval_gegenbauer(k, 1.5, 2 * x - 1))
eval_chebyt = _by_degree("eval_chebyt", lambda n, k, x: n * eval_chebyu(k, x))
eval_chebyu = _by_degree("eval_chebyu", lambda _n, k, x: 2 * eval_gegenbauer(k, 2.0, x))
eval_sh_chebyt = _by_degree("eval_sh_chebyt", lambda n, k, x: 2 * n * eval_chebyu(k, 2 * x - 1))
eval_sh_chebyu = _by_degree("eval_sh_chebyu", lambda _n, k, x: 4 * eval_gegenbauer(k, 2.0, 2 * x - 1))
eval_chebyc = _by_degree("eval_chebyc", lambda n, k, x: n * eval_chebyu(k, x / 2))
eval_chebys = _by_degree("eval_chebys", lambda _n, k, x: eval_gegenbauer(k, 2.0, x / 2))
eval_hermite = _by_degree("eval_hermite", lambda n, k, x: 2 * n * eval_hermite(k, x))
eval_hermitenorm = _by_degree("eval_hermitenorm", lambda n, k, x: n * eval_hermitenorm(k, x))
eval_laguerre = _by_degree("eval_laguerre", lambda _n, k, x: -eval_genlaguerre(k, 1.0, x))
eval_genlaguerre = _by_degree("eval_genlaguerre", lambda _n, k, alpha, x: -eval_genlaguerre(k, alpha + 1, x), "alpha")
eval_jacobi = _by_degree(
    "eval_jacobi", lambda n, k, alpha, beta, x: (n + alpha + beta + 1) / 2 * eval_jacobi(k, alpha + 1, beta + 1, x),
    "alpha", "beta")
eval_sh_jacobi = _by_degree(
    "eval_sh_jacobi",
    lambda n, k, p, q, x: (n + p) * eval_jacobi(k, p - q + 1, q, 2 * x - 1) / binom(2 * n + p - 1, n), "p", "q")


def _lpmv_slope(y: Array, m: Array, v: Array, x: Array) -> Any:
    return (v * x * y - (v + m) * lpmv(m, v - 1, x)) / (x * x - 1)


lpmv = special("lpmv", "m", "v", _lpmv_slope)
