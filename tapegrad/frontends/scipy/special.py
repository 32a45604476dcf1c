"""scipy.special: its ufuncs are ops of the same names; the other functions are Python code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, keywords, static, value_by
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import OPS, Op, Traced
from tapegrad.rules.registry import DISPATCH, RUN_AS_PYTHON, leave, means, refuse, register


def op_of_ufunc(fn: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """Return the op of a ufunc. If it is NumPy's ufunc, its argument is cast to the dtype of SciPy's result first:
    NumPy computes in half precision, which SciPy's ufunc lacks.
    """
    def meaning(x: Array) -> Any:
        dtype = dtype_of(x)
        wanted = dtype if dtype is None else fn(np.ones(0, dtype)).dtype
        y = x if wanted == dtype else ops.astype(x, dtype=wanted)
        return y._tracer.record(op, (y,), {}, fn(y._val)) if isinstance(y, Traced) else fn(y)
    return meaning if type(op.impl) is np.ufunc and op.impl not in vars(sp).values() else op


_NO_RULE = "SciPy has no function for the derivative with respect to it"
_ELSE = "a central difference inside @tg.rrule"
# functions with a derivative that tapegrad does not compute: reason, names
_REFUSED = {
    _NO_RULE: """zetac pro_cv obl_cv ellip_harm ellip_harm_2 ellip_normal chndtridf nctdtr nctdtridf nctdtrinc nctdtrit
        ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc factorial2 factorialk""",
    "its values satisfy the differential equation only at a characteristic value, and only roughly for the second kind":
        "pro_ang1_cv pro_rad1_cv pro_rad2_cv obl_ang1_cv obl_rad1_cv obl_rad2_cv pro_rad2 obl_rad2",
    "it returns a sequence of orders computed by a loop in C":
        "lmbda lqn lqmn riccati_jn riccati_yn pbdn_seq pbdv_seq pbvv_seq pro_cv_seq obl_cv_seq mathieu_even_coef "
        "mathieu_odd_coef",
    "roots and coefficients have no derivative rule with respect to the parameters of the weight": """
        roots_jacobi roots_sh_jacobi roots_gegenbauer roots_genlaguerre j_roots js_roots
        cg_roots la_roots jacobi sh_jacobi gegenbauer genlaguerre""",
}
for _why, _names in _REFUSED.items():
    refuse(*dict.fromkeys(getattr(sp, name) for name in _names.split() if hasattr(sp, name)), why=_why, try_=_ELSE,
           derivative=True)
RUN_AS_PYTHON.update([sp.assoc_laguerre, sp.comb, sp.h1vp, sp.h2vp, sp.ivp, sp.jvp, sp.kvp, sp.perm, sp.yvp])
if hasattr(sp, "softplus"):
    RUN_AS_PYTHON.add(sp.softplus)

_UFUNCS = {fn: OPS.get(fn.__name__) for fn in vars(sp).values() if isinstance(fn, np.ufunc) and fn not in DISPATCH} | {
    sp.round: ops.rint, sp.psi: ops.digamma}
for _fn, _op in _UFUNCS.items():
    if _op is not None and _fn.nout == 1:
        register(_fn, op_of_ufunc(_fn, _op))


def in_parts(fn: Any, op: Op) -> Callable[..., Any]:
    """Return the implementation of a ufunc with several results: one call of the op for each."""
    return lambda *x: tuple(op(*map(as_array, x), part=k) for k in range(fn.nout))


for _fn, _op in _UFUNCS.items():
    if _op is not None and _fn.nout > 1:
        register(_fn, in_parts(_fn, _op))


def _spherical(fn: Callable[..., Any], op: Op) -> None:
    @means(fn)
    def spherical(n: Any, z: Array, derivative: bool = False) -> Any:
        return op(as_array(n), as_array(z), **keywords(derivative=bool(derivative)))


for _name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"):
    _spherical(getattr(sp, _name), OPS[_name])


@means(sp.kelvin)
def kelvin(x: Array) -> Any:
    y = as_array(x)
    return tuple(a(y) + 1j * b(y)
                 for a, b in ((ops.ber, ops.bei), (ops.ker, ops.kei), (ops.berp, ops.beip), (ops.kerp, ops.keip)))


@means(sp.diric)
def diric(x: Array, n: Any) -> Any:
    return ops.diric(as_array(x), n=static(n))


@means(sp.factorial)
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    if exact or extend != "zero":
        raise UnknownFunction("exact factorials and factorials of complex numbers are not supported", user_location(),
                              "scipy.special.gamma(n + 1)")
    x = as_array(n)
    inside = ops.logical_not(ops.less(x, 0))
    return value_by("scipy.special.factorial", ops.where(inside, ops.gamma(ops.where(inside, x, 0.0) + 1), 0.0), x)


_OF_COUNTS = """
    bernoulli euler stirling2 chebyc chebys chebyt chebyu hermite hermitenorm laguerre legendre sh_chebyt
    sh_chebyu sh_legendre
    roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_hermite roots_hermitenorm roots_laguerre roots_legendre
    roots_sh_chebyt
    roots_sh_chebyu roots_sh_legendre c_roots h_roots he_roots l_roots p_roots ps_roots s_roots t_roots ts_roots
    u_roots us_roots"""
leave(*[fn for name, fn in vars(sp).items() if name in _OF_COUNTS.split() or name.endswith("_zeros")],
      why="takes counts, and returns plain values")
leave(sp.errstate, sp.geterr, sp.seterr, sp.test, sp.SpecialFunctionError, sp.SpecialFunctionWarning,
      why="settings and text")


@means(sp.polygamma)
def polygamma(n: Any, x: Array) -> Any:
    return ops.polygamma(as_array(x), n=static(n))


@means(sp.lambertw)
def lambertw(z: Array, k: Any = 0, tol: float = 1e-8) -> Any:
    return ops.lambertw(as_array(z), k=static(k))


@means(sp.zeta)
def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    return ops.zeta(as_array(x)) if q is None else ops.zeta(as_array(x), as_array(q))


@means(sp.softmax)
def softmax(x: Array, axis: Axis = None) -> Any:
    return ops.softmax(as_array(x), **keywords(axis=axis))


@means(sp.log_softmax)
def log_softmax(x: Array, axis: Axis = None) -> Any:
    return ops.log_softmax(as_array(x), **keywords(axis=axis))


@means(sp.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    x, how = as_array(a), keywords(axis=axis, keepdims=bool(keepdims))
    if b is None and not return_sign:
        return ops.scaled_logsumexp(x, **how)
    factor = 1.0 if b is None else as_array(b)
    shape = np.broadcast_shapes(shape_of(x), shape_of(factor))  # `axis` counts the axes of the broadcast shape
    x = x if shape_of(x) == shape else ops.broadcast_to(x, shape)
    return ops.signed_logsumexp(x, factor, **how) if return_sign else ops.scaled_logsumexp(x, factor, **how)


@means(sp.multigammaln)
def multigammaln(a: Array, d: Any) -> Any:
    x, d = as_array(a), static(d)
    sp.multigammaln(d, d)  # ValueError, in SciPy's words, for an invalid dimension
    if not ops.all(ops.greater(x, 0.5 * (d - 1))):
        raise ValueError(f"condition a ({a}) > 0.5 * (d-1) ({0.5 * (d - 1)}) not met")
    return sum(ops.gammaln(x - (j - 1.0) / 2) for j in range(1, d + 1)) + d * (d - 1) * 0.25 * np.log(np.pi)
