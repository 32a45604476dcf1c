"""Cases of SciPy's functions: scipy.special, scipy.linalg, scipy.signal, scipy.integrate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate as si
import scipy.linalg as sl
import scipy.signal as sg
import scipy.special as sp
import torch

from tapegrad.trace.lazy_frontends import register_imported
from tests.cases.case import Case, does, draw
from tests.cases.elementwise import ANY, POSITIVE, UNIT, binary, unary

register_imported()

INNER, LARGE = (0.1, 0.9), (1.3, 3.0)


def by_last(fn: np.ufunc, *first: float, domain: tuple[float, float] = POSITIVE, **kwargs: Any) -> Case:
    """A ufunc by its last argument; the others are constant, numbers and an array."""
    samples = [(draw(2, 3, low=domain[0], high=domain[1]),), (np.array(draw(low=domain[0], high=domain[1])),), (float(draw(low=domain[0], high=domain[1])),),
               (np.zeros((0, 2)) + sum(domain) / 2,)]
    others = tuple(np.array([[k], [k + 1]]) for k in first)
    # by default arguments: what a function captures would be differentiated too
    return Case(f"{fn.__name__}:{first}", lambda x, fn=fn, first=first, others=others: fn(*first, x) + (fn(*others, x) if np.ndim(x) == 2 and len(x) else 0.0),
                samples, ops=(fn.__name__,), **kwargs)


def matrices(name: str, fn: Callable[..., Any], *shapes: tuple[int, ...], shift: float = 2.0, **kwargs: Any) -> Case:
    """Well-conditioned square matrices first, other arrays of the given shapes after them."""
    def sample(of: Callable[..., Any]) -> tuple[Any, ...]:
        first, *rest = [of(*shape, seed=i) for i, shape in enumerate(shapes or [(3, 3)])]
        return (first * 0.5 + shift * np.eye(first.shape[-1]), *rest)
    complex_too = [sample(lambda *shape, seed: draw(*shape, seed=seed) + 0.5j * draw(*shape, seed=seed + 10))]
    return Case(name, lambda *xs, fn=fn: fn(*xs), [sample(draw), *complex_too], **kwargs)


MATRIX = draw(3, 3) * 0.5 + 2 * np.eye(3)
CASES = [
    Case("simpson", lambda y: si.simpson(y, dx=0.1) + si.simpson(y[1:], x=np.array([0.0, 1.0, 1.5, 3.0])), [(draw(5),)], ops=("sum",)),
    Case("simpson:by x", lambda y, x: si.simpson(y, x=x, axis=0), [(draw(n, 2), np.sort(draw(n))) for n in (2, 3, 4, 5, 6)]
         + [(draw(4, 2), np.sort(draw(4, 2), axis=0))], ops=("sum",)),
    Case("simpson:twice", lambda y: si.simpson(y, x=np.array([0.0, 1.0, 1.0, 2.0, 2.5])), [(draw(5),)], ops=("sum",)),
    unary("gamma", sp.gamma, POSITIVE), unary("gamma:negative", sp.gamma, (-1.8, -1.2)), unary("gammaln", sp.gammaln, POSITIVE, torch.lgamma),
    unary("loggamma", sp.loggamma, POSITIVE), Case("loggamma:complex", sp.loggamma, [(draw(3) + 1j,)]),
    unary("rgamma", sp.rgamma), Case("rgamma:pole", sp.rgamma, [(np.array([0.0, -1.0, -2.0, 1.5]),)], smooth=False),  # by reflection, once
    unary("digamma", sp.digamma, POSITIVE, torch.digamma), unary("digamma:psi", sp.psi, (-1.8, -1.2)),
    Case("polygamma", lambda x: sp.polygamma(2, x) + sp.polygamma(0, x), [(draw(3, low=0.5),), (1.5,)], torch=lambda x: torch.polygamma(2, x) + torch.digamma(x)),
    Case("lambertw", lambda z: sp.lambertw(z).real + sp.lambertw(-z / 9, k=-1).real, [(draw(3, low=0.5, high=2.0),), (1.5,)]),
    Case("lambertw:complex", lambda z: sp.lambertw(z, 1), [(draw(3) + 1j,)]),
    Case("zeta", lambda q: sp.zeta(2.5, q), [(draw(3, low=0.5, high=2.0),), (1.5,)]),
    binary("beta", sp.beta, POSITIVE, POSITIVE), binary("betaln", sp.betaln, POSITIVE, POSITIVE), binary("binom", sp.binom, (3.0, 5.0), (1.0, 2.0)),
    binary("poch", sp.poch, POSITIVE, POSITIVE), Case("gammaln:multigammaln", lambda a: sp.multigammaln(a, 3), [(draw(3, low=2.0, high=4.0),)]),
    by_last(sp.gammainc, 1.5), by_last(sp.gammaincc, 1.5), by_last(sp.gammaincinv, 1.5, domain=INNER), by_last(sp.gammainccinv, 1.5, domain=INNER),
    by_last(sp.betainc, 1.5, 2.5, domain=INNER), by_last(sp.betaincc, 1.5, 2.5, domain=INNER), by_last(sp.betaincinv, 1.5, 2.5, domain=INNER),
    by_last(sp.chdtr, 3.5), by_last(sp.chdtrc, 3.5), by_last(sp.stdtr, 3.5, domain=ANY), by_last(sp.stdtrit, 3.5, domain=INNER),
    unary("erf", sp.erf, torch=torch.erf), unary("erfc", sp.erfc, torch=torch.erfc), unary("erfcx", sp.erfcx, torch=torch.special.erfcx),
    unary("erfi", sp.erfi), unary("erfinv", sp.erfinv, UNIT, torch.erfinv), unary("erfcinv", sp.erfcinv, INNER), unary("dawsn", sp.dawsn),
    unary("ndtr", sp.ndtr, torch=torch.special.ndtr), unary("ndtri", sp.ndtri, INNER, torch.special.ndtri),
    unary("log_ndtr", sp.log_ndtr, torch=torch.special.log_ndtr), unary("ndtri_exp", sp.ndtri_exp, (-3.0, -0.2)),
    unary("expit", sp.expit, torch=torch.special.expit), unary("logit", sp.logit, INNER, torch.logit),
    unary("log_expit", sp.log_expit, torch=torch.nn.functional.logsigmoid), unary("logaddexp:softplus", sp.softplus),
    binary("xlogy", sp.xlogy, ANY, POSITIVE, torch.special.xlogy), binary("xlog1py", sp.xlog1py, ANY, POSITIVE, torch.special.xlog1py),
    Case("xlogy:zero", lambda y: sp.xlogy(np.zeros(2), y) + sp.xlog1py(np.zeros(2), y - 1), [(np.array([0.0, 2.0]),)]),
    unary("entr", sp.entr, POSITIVE, torch.special.entr), binary("rel_entr", sp.rel_entr, POSITIVE, POSITIVE), binary("kl_div", sp.kl_div, POSITIVE, POSITIVE),
    *[unary(f"{fn.__name__}:scipy", fn) for fn in (sp.exp2, sp.expm1)], unary("log1p:scipy", sp.log1p, POSITIVE), unary("cbrt:scipy", sp.cbrt, POSITIVE),
    unary("rint:scipy", sp.round), unary("exp10", sp.exp10), unary("exprel", sp.exprel), Case("exprel:zero", sp.exprel, [(np.array([0.0, 1e-9, -1e-5]),)]),
    unary("cosm1", sp.cosm1), binary("powm1", sp.powm1, POSITIVE), by_last(sp.hyp1f1, 1.5, 2.5), by_last(sp.hyp2f1, 1.5, 2.0, 2.5, domain=(-0.8, 0.5)),
    binary("boxcox", sp.boxcox, POSITIVE), Case("boxcox:zero", sp.boxcox, [(draw(3, low=0.5), 0.0)]), binary("boxcox1p", sp.boxcox1p, POSITIVE),
    binary("inv_boxcox", sp.inv_boxcox, (0.1, 0.4)), Case("inv_boxcox:zero", sp.inv_boxcox, [(draw(3), 0.0)]), binary("inv_boxcox1p", sp.inv_boxcox1p, (0.1, 0.4)),
    binary("huber", sp.huber, LARGE, POSITIVE), binary("pseudo_huber", sp.pseudo_huber, POSITIVE),
    unary("j0", sp.j0), unary("j1", sp.j1), Case("j1:zero", sp.j1, [(np.zeros(2),)]), unary("y0", sp.y0, POSITIVE), unary("y1", sp.y1, POSITIVE),
    by_last(sp.jv, 1.5), by_last(sp.yv, 1.5), by_last(sp.yn, 1), by_last(sp.iv, 1.5), by_last(sp.ive, 1.5), by_last(sp.kn, 1), by_last(sp.kv, 1.5), by_last(sp.kve, 1.5),
    unary("i0", sp.i0, torch=torch.special.i0), unary("i1", sp.i1, torch=torch.special.i1), unary("i0e", sp.i0e), unary("i1e", sp.i1e),
    unary("k0", sp.k0, POSITIVE), unary("k1", sp.k1, POSITIVE), unary("k0e", sp.k0e, POSITIVE), unary("k1e", sp.k1e, POSITIVE),
    unary("expi", sp.expi, POSITIVE), unary("exp1", sp.exp1, POSITIVE), by_last(sp.expn, 3), unary("spence", sp.spence, POSITIVE),
    Case("spence:one", sp.spence, [(np.array([1.0, 2.0]),)]),
    # -- sums of exponentials
    Case("scaled_logsumexp", sp.logsumexp, [(draw(2, 3),), (1.5,), (np.array([1.0, -np.inf]),)]),
    Case("scaled_logsumexp:axis", lambda x: sp.logsumexp(x, axis=0) - sp.logsumexp(x, 1, keepdims=True), [(draw(2, 3),), (draw(3, 4).T,)],
         torch=lambda x: torch.logsumexp(x, 0) - torch.logsumexp(x, 1, keepdim=True) if x.shape == (3, 3) else torch.logsumexp(x, 0)[None] - torch.logsumexp(x, 1)[:, None]),
    Case("scaled_logsumexp:b", lambda x, b: sp.logsumexp(x, axis=-1, b=b), [(draw(2, 3), draw(2, 3, low=0.5)), (draw(3), draw(2, 3, low=0.5)), (draw(2, 3), 2.0)]),
    Case("scaled_logsumexp:list", lambda x, y: sp.logsumexp([x, y, 1.0]), [(1.5, 2.5)]),
    Case("signed_logsumexp", lambda x, b: sp.logsumexp(x, axis=0, b=b, return_sign=True), [(draw(3, 2), draw(3, 1)), (draw(2), -1.0)]),
    Case("signed_logsumexp:axes", lambda x: sp.logsumexp(x, axis=(0, -1), keepdims=True, return_sign=True), [(draw(2, 3, 2),)]),
    Case("softmax", sp.softmax, [(draw(2, 3),), (draw(4),), (draw(3, 4).T[::2],)]),
    Case("softmax:axis", lambda x: sp.softmax(x, axis=-1), [(draw(2, 3),)], torch=lambda x: torch.softmax(x, -1)),
    Case("log_softmax", sp.log_softmax, [(draw(2, 3),), (draw(4),)]),
    Case("log_softmax:axis", lambda x: sp.log_softmax(x, axis=0), [(draw(2, 3),)], torch=lambda x: torch.log_softmax(x, 0)),
    # -- math's
    *[Case(f"{op}:math", lambda x, name=name: getattr(math, name)(x), [(4.5,)], ops=(op,)) for op, name in [("gamma", "gamma"), ("gammaln", "lgamma")]],
    # -- matrices
    *[matrices(f"solve_triangular:{trans}{lower}{unit}{vector}", lambda a, b, how=(trans, lower, unit): sl.solve_triangular(a, b, *how), (3, 3), (3,) if vector else (3, 2))
      for trans, lower, unit, vector in [(0, False, False, False), (0, True, False, True), (1, False, False, True), ("T", True, True, False), ("C", False, True, False), (2, True, False, True)]],
    *[matrices("solve_triangular:stack", sl.solve_triangular, (2, 3, 3), (3, 2)),
      matrices("solve_triangular:vectors", sl.solve_triangular, (2, 3, 3), (3,))] * does(sl.solve_triangular, np.ones((2, 1, 1)), np.ones(1)),  # since SciPy 1.16
    Case("solve_triangular:shape", lambda a, b: sl.solve_triangular(a, b), [], errors=[((np.eye(3), np.ones(2)), ValueError), ((np.ones((2, 3)), np.ones(2)), ValueError),
                                                                    ((np.zeros((2, 2)), np.ones(2)), np.linalg.LinAlgError)]),
    matrices("lu_factor:lu", lambda a: sl.lu(a)[1:], (3, 3), shift=0.1), Case("lu_factor:pieces", sl.lu, [(draw(3, 3),)]),
    Case("lu_factor:permuted", lambda a: (sl.lu(a, permute_l=True), sl.lu(a, p_indices=True)), [(draw(3, 3),)]),
    Case("linalg.eigvals:complex", lambda a: np.abs(sl.eigvals(a)) + np.abs(sl.eig(a, right=False)), [(draw(3, 3),), (np.diag([1.0, 2.0, 3.5]) + 0.1 * draw(3, 3),)], ops=("linalg.eigvals",)),
    Case("linalg.eig:scipy", lambda a: (np.abs(sl.eig(a)[0]), np.abs(sl.eig(a)[1])), [(draw(3, 3),)], ops=("linalg.eig",)),
    matrices("lu_factor", lambda a: sl.lu_factor(a)[0], (3, 3), shift=0.1), matrices("lu_factor:four", lambda a: sl.lu_factor(a)[0], (4, 4), shift=0.0),
    Case("turn", lambda a: sl.logm(a), [], ops=("turn",)), Case("permutation", lambda x: sl.lu_solve((MATRIX, np.array([2, 2, 2])), x), [], ops=("permutation",)),
        matrices("solve_sylvester", sl.solve_sylvester, (3, 3), (2, 2), (3, 2), shift=5.0),
    matrices("expm", sl.expm), matrices("expm:one", sl.expm, (1, 1)), matrices("expm:stack", sl.expm, (2, 3, 3), shift=0.0), Case("expm:number", sl.expm, [(1.5,)]),
    Case("logm", lambda a: sl.logm(a), [(MATRIX + 0.1j * draw(3, 3),)]), matrices("sqrtm", sl.sqrtm), *[matrices(fn.__name__, fn, (2, 2), shift=0.3) for fn in (sl.sinm, sl.cosm, sl.tanm, sl.sinhm, sl.coshm, sl.tanhm)],
    Case("take:toeplitz", sl.toeplitz, [(draw(3), draw(4)), (draw(3),), (1.5, draw(2)), (draw(2) + 1j,)]), Case("take:hankel", sl.hankel, [(draw(3), draw(4)), (draw(3),)]),
    Case("take:circulant", sl.circulant, [(draw(4),), (draw(2, 3),)]),
    Case("scatter:block_diag", lambda a, b, c: sl.block_diag(a, b, np.eye(2), c), [(draw(2, 3), draw(2), 1.5), (draw(1, 2), draw(3, 0), draw(2, 2))]),
    # -- convolution
    *[Case(f"convolution:{mode}{method}{m}{n}", lambda a, b, how=(mode, method): sg.convolve(a, b, *how), [(draw(*m), draw(*n, seed=1)), (draw(*m) + 1j, draw(*n, seed=1) * 1j)])
      for mode in ("full", "same", "valid") for method, m, n in [("auto", (5,), (3,)), ("direct", (2,), (5,)), ("fft", (4, 3), (2, 2)), ("direct", (4, 4), (3, 2))]],
    Case("convolution:shape", sg.convolve, [], errors=[((np.ones(3), np.ones((2, 2))), ValueError)]), Case("convolution:number", sg.convolve, [(np.array(1.5), np.array(2.5))], ops=("multiply",)),
    Case("convolution:fftconvolve", lambda a, b: sg.fftconvolve(a, b, "same"), [(draw(5), draw(2))]),
    Case("convolution:convolve2d", lambda a, b: sg.convolve2d(a, b, "valid"), [(draw(4, 3), draw(2, 2))]),
    *[Case(f"convolution:correlate_{mode}", lambda a, b, mode=mode: sg.correlate(a, b, mode), [(draw(5), draw(3) + 1j), (draw(4, 3), draw(2, 2))]) for mode in ("full", "same", "valid")],
    Case("convolution:correlate2d", sg.correlate2d, [(draw(4, 3), draw(2, 2))]),
    # -- quadrature
    Case("sum:trapezoid", si.trapezoid, [(draw(5), np.sort(draw(5, seed=1))), (draw(3, 4), np.sort(draw(4, seed=1))), (draw(2, 3), draw(2, 3, seed=1))]),
    Case("sum:trapezoid_dx", lambda y, d: si.trapezoid(y, dx=d, axis=0), [(draw(4, 2), 0.5)]),
    Case("cumulative_sum:trapezoid", lambda y, x: si.cumulative_trapezoid(y, x, initial=0), [(draw(5), np.sort(draw(5, seed=1))), (draw(2, 4), np.sort(draw(4)))]),
]
