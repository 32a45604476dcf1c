"""scipy.special: its ufuncs are ops of the same names; the others are Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp

from tapegrad import ops
from tapegrad.frontends.common import as_array, keywords, static
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.rules.op import OPS, Op, Traced
from tapegrad.rules.registry import leave, means, register


def meaning_of(fn: Any, op: Op) -> Callable[..., Any]:
    """Return the op that a ufunc is, or what brings its arguments to the dtype of SciPy's result first: NumPy's
    ufunc of that name computes in half precision where SciPy's has none.
    """
    def meaning(x: Any) -> Any:
        dtype = dtype_of(x)
        wanted = dtype if dtype is None else fn(np.ones(0, dtype)).dtype
        y = x if wanted == dtype else ops.astype(x, dtype=wanted)
        return y._tracer.record(op, (y,), {}, fn(y._val)) if isinstance(y, Traced) else fn(y)
    return meaning if type(op.impl) is np.ufunc and op.impl not in vars(sp).values() else op


_UFUNCS = {fn: OPS.get(fn.__name__) for fn in vars(sp).values() if isinstance(fn, np.ufunc)} | {sp.round: ops.rint, sp.psi: ops.digamma}
for _fn, _op in _UFUNCS.items():
    if _op is not None and _fn.nout == 1:
        register(_fn, meaning_of(_fn, _op))


def in_parts(fn: Any, op: Op) -> Callable[..., Any]:
    """Return what a ufunc of several results is: the op, once for each."""
    return lambda *x: tuple(op(*map(as_array, x), part=k) for k in range(fn.nout))


for _fn, _op in _UFUNCS.items():
    if _op is not None and _fn.nout > 1:
        register(_fn, in_parts(_fn, _op))

_OF_COUNTS = """
    bernoulli euler stirling2 chebyc chebys chebyt chebyu hermite hermitenorm laguerre legendre sh_chebyt
    sh_chebyu sh_legendre
    roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_hermite roots_hermitenorm roots_laguerre roots_legendre
    roots_sh_chebyt
    roots_sh_chebyu roots_sh_legendre c_roots h_roots he_roots l_roots p_roots ps_roots s_roots t_roots ts_roots
    u_roots us_roots"""
leave(*[fn for name, fn in vars(sp).items() if name in _OF_COUNTS.split() or name.endswith("_zeros")], why="takes counts, and returns plain values")
leave(sp.errstate, sp.geterr, sp.seterr, sp.test, sp.SpecialFunctionError, sp.SpecialFunctionWarning, why="settings and text")


@means(sp.polygamma)
def polygamma(n: Any, x: Any) -> Any:
    return ops.polygamma(as_array(x), n=static(n))


@means(sp.lambertw)
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    return ops.lambertw(as_array(z), k=static(k))


@means(sp.zeta)
def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    return ops.zeta(as_array(x)) if q is None else ops.zeta(as_array(x), as_array(q))


@means(sp.softmax)
def softmax(x: Any, axis: Any = None) -> Any:
    return ops.softmax(as_array(x), **keywords(axis=axis))


@means(sp.log_softmax)
def log_softmax(x: Any, axis: Any = None) -> Any:
    return ops.log_softmax(as_array(x), **keywords(axis=axis))


@means(sp.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    x, how = as_array(a), keywords(axis=axis, keepdims=bool(keepdims))
    if b is None and not return_sign:
        return ops.scaled_logsumexp(x, **how)
    factor = 1.0 if b is None else as_array(b)
    shape = np.broadcast_shapes(shape_of(x), shape_of(factor))  # an axis is one of both together
    x = x if shape_of(x) == shape else ops.broadcast_to(x, shape)
    return ops.signed_logsumexp(x, factor, **how) if return_sign else ops.scaled_logsumexp(x, factor, **how)


@means(sp.multigammaln)
def multigammaln(a: Any, d: Any) -> Any:
    x, d = as_array(a), static(d)
    sp.multigammaln(d, d)  # ValueError, in SciPy's words, for what is no dimension
    if not ops.all(ops.greater(x, 0.5 * (d - 1))):
        raise ValueError(f"condition a ({a}) > 0.5 * (d-1) ({0.5 * (d - 1)}) not met")
    return sum(ops.gammaln(x - (j - 1.0) / 2) for j in range(1, d + 1)) + d * (d - 1) * 0.25 * np.log(np.pi)
