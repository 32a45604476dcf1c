"""Cases of SciPy's functions of elliptic integrals, differential equations, orthogonal polynomials and distributions, and of banded systems.

Values of the derivatives are SciPy's own functions', and so a few numbers are enough for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.special as sp

from tapegrad.ops.distribution import betainc_by_a, betainc_by_b, ncx2_isf, ncx2_pdf, ncx2_sf
from tapegrad.trace.lazy_frontends import register_imported
from tests.cases.case import Case, draw

register_imported()


def at(name: str, *args: Any, part: int | None = None, smooth: bool = False, ops: tuple[str, ...] = (), **kwargs: Any) -> Case:
    """A function at a point and around it, as arrays and as numbers: by those arguments that are floats, the whole numbers being orders."""
    fn = getattr(sp, name)

    def spread(arg: Any) -> Any:
        return arg * np.array([1.0, 1.05]) if type(arg) is float else arg

    def call(*xs: Any, fn: Callable[..., Any] = fn, fixed: tuple[Any, ...] = args) -> Any:
        given = iter(xs)
        y = fn(*(next(given) if type(arg) is float else arg for arg in fixed))
        return y if part is None else y[part]
    floats = [arg for arg in args if type(arg) is float]
    samples = [tuple(floats)] if name in NUMBERS else [tuple(map(spread, floats)), tuple(floats)]
    kind = f"of {', '.join(type(arg).__name__ for arg in args)}, {'one number' if part is None else 'several'}{', smooth' * smooth}"
    label = f"{name}:derivative" if args[-1] is True else name if part is None else f"{name}:{part}"
    return Case(label, call, samples, smooth=smooth, kind=kind if len(ops) == 1 else "", ops=ops, **kwargs)


# SciPy's loops over single precision have no end here, or take counts for fractions; a factorial of complex numbers takes an option
NUMBERS = {"pro_ang1", "pro_rad1", "obl_ang1", "obl_rad1", "bdtr", "bdtrc", "bdtri", "factorial"}


POINTS: list[tuple[Any, ...]] = [
    ("elliprf", 1.0, 2.0, 3.0), ("elliprd", 1.0, 2.0, 3.0), ("elliprg", 1.0, 2.0, 3.0), ("elliprj", 1.0, 2.0, 3.0, 1.5), ("elliprc", 1.0, 2.0),
    ("ellipk", 0.3), ("ellipkm1", 0.4), ("ellipe", 0.3), ("ellipkinc", 2.0, 0.3), ("ellipeinc", 2.0, 0.3), ("agm", 1.0, 3.0),
    ("jve", 1, 1.5), ("yve", 1, 1.5), ("hankel1", 1, 1.5), ("hankel2", 1, 1.5), ("hankel1e", 1, 1.5), ("hankel2e", 1, 1.5),
    ("hyp0f1", 2, 0.7), ("hyperu", 1, 2, 0.7), ("wright_bessel", 1, 2, 0.7), ("log_wright_bessel", 1, 2, 0.7), ("wrightomega", 0.7),
    ("struve", 1, 1.5), ("modstruve", 1, 1.5), ("ber", 1.5), ("bei", 1.5), ("ker", 1.5), ("kei", 1.5), ("berp", 1.5), ("beip", 1.5),
    ("kerp", 1.5), ("keip", 1.5), ("itstruve0", 1.5), ("itmodstruve0", 1.5), ("it2struve0", 0.7), ("besselpoly", 1.2, 1, 2),
    ("spherical_jn", 2, 1.5), ("spherical_yn", 2, 1.5), ("spherical_in", 2, 1.5), ("spherical_kn", 2, 1.5), ("spherical_jn", 0, 1.5, True),
    ("eval_legendre", 3, 0.3), ("eval_sh_legendre", 3, 0.3), ("eval_chebyt", 3, 0.3), ("eval_chebyu", 3, 0.3), ("eval_sh_chebyt", 3, 0.3),
    ("eval_sh_chebyu", 3, 0.3), ("eval_chebyc", 3, 0.3), ("eval_chebys", 3, 0.3), ("eval_hermite", 3, 0.3), ("eval_hermitenorm", 3, 0.3),
    ("eval_laguerre", 3, 0.3), ("eval_gegenbauer", 3, 2, 0.3), ("eval_genlaguerre", 3, 2, 0.3), ("eval_jacobi", 3, 1, 2, 0.3),
    ("eval_sh_jacobi", 3, 3, 2, 0.3), ("lpmv", 1, 3, 0.3), ("voigt_profile", 0.7, 1.2, 0.4), ("diric", 0.7, 4),
    ("sindg", 33.0), ("cosdg", 33.0), ("tandg", 33.0), ("cotdg", 33.0), ("radian", 1.0, 2.0, 3.0), ("factorial", 2.5),
    ("gdtr", 0.7, 1.5, 2.0), ("gdtrc", 0.7, 1.5, 2.0), ("gdtrix", 0.7, 1.5, 0.3), ("gdtria", 0.3, 1.5, 0.8), ("gdtrib", 0.7, 0.3, 2.0),
    ("chdtri", 3.5, 0.3), ("chdtriv", 0.3, 2.0), ("pdtr", 3, 2.5), ("pdtrc", 3, 2.5), ("pdtri", 3, 0.4), ("pdtrik", 0.4, 2.5),
    ("chndtr", 3.0, 2, 1.5), ("chndtrix", 0.4, 2, 1.5), ("chndtrinc", 3.0, 2, 0.4), ("btdtria", 0.3, 2.5, 0.4), ("btdtrib", 1.5, 0.3, 0.4),
    ("betainccinv", 1.5, 2.5, 0.3), ("bdtr", 3, 10, 0.3), ("bdtrc", 3, 10, 0.3), ("bdtri", 3, 10, 0.3), ("bdtrik", 0.4, 10.0, 0.3),
    ("bdtrin", 3.0, 0.4, 0.3), ("nbdtr", 3, 10, 0.7), ("nbdtrc", 3, 10, 0.7), ("nbdtri", 3, 10, 0.3), ("nbdtrik", 0.4, 10.0, 0.3),
    ("nbdtrin", 3.0, 0.4, 0.3), ("fdtr", 3.0, 5.0, 1.2), ("fdtrc", 3.0, 5.0, 1.2), ("fdtri", 3.0, 5.0, 0.4), ("fdtridfd", 3.0, 0.6, 1.2),
    ("stdtridf", 0.8, 1.0), ("nrdtrimn", 0.3, 2.0, 1.0), ("nrdtrisd", 0.5, 0.7, 1.5), ("owens_t", 0.7, 1.2), ("tklmbda", 0.7, 0.4),
    ("mathieu_a", 2, 1.5), ("mathieu_b", 2, 1.5), ("kolmogorov", 0.8), ("kolmogi", 0.4), ("smirnov", 5, 0.3), ("smirnovi", 5, 0.3),
    # by parameters too, of which no second derivative is known
    ("gammainc", 1.5, 0.7), ("gammaincc", 1.5, 4.0), ("gammaincinv", 1.5, 0.3), ("gammainccinv", 1.5, 0.3), ("chdtr", 3.5, 2.0),
    ("chdtrc", 3.5, 2.0), ("betainc", 1.5, 2.5, 0.3), ("betaincc", 1.5, 2.5, 0.6), ("betaincinv", 1.5, 2.5, 0.3), ("stdtr", 3.5, 0.5),
    ("stdtrit", 3.5, 0.3)]
PARTS: list[tuple[Any, ...]] = [
    ("ellipj", 0.7, 0.3), ("airy", 1.5), ("airye", 1.5), ("itairy", 0.5), ("itj0y0", 1.5), ("iti0k0", 1.5), ("it2j0y0", 0.7), ("it2i0k0", 0.7),
    ("fresnel", 0.7), ("modfresnelp", 0.7), ("modfresnelm", 0.7), ("sici", 0.7), ("shichi", 0.7), ("pbdv", 1, 0.7), ("pbvv", 1, 0.7),
    ("pbwa", 1, 0.7), *[(f"mathieu_{name}", 2, 1, 0.7) for name in ["cem", "sem", "modcem1", "modcem2", "modsem1", "modsem2"]],
    ("pro_ang1", 1, 2, 1, 0.6), ("pro_rad1", 1, 2, 1, 1.6), ("obl_ang1", 1, 2, 1, 0.6), ("obl_rad1", 1, 2, 1, 0.6)]
# ops that only derivatives call, beside the function's own
USED = {"factorial": ("gamma",), "gammainc": ("gammainc", "gammainc_by_a"), "betainc": ("betainc", "betainc_by_a", "betainc_by_b"),
        "kolmogorov": ("kolmogorov", "kolmogorov_slope"), "smirnov": ("smirnov", "smirnov_slope"), "mathieu_a": ("mathieu_a", "mathieu_a_slope"),
        "mathieu_b": ("mathieu_b", "mathieu_b_slope"), "pro_ang1": ("pro_ang1", "pro_cv"), "obl_ang1": ("obl_ang1", "obl_cv")}
SMOOTH = {"ellipk", "ellipe", "ellipkinc", "elliprf", "jve", "hankel1", "struve", "ber", "bei", "eval_legendre", "eval_chebyt", "lpmv", "airy", "fresnel", "sici",
          "spherical_jn", "voigt_profile", "kei", "diric", "owens_t", "elliprj"}
BAND = np.array([[0.0, 0.3, -0.2, 0.5], [4.0, 3.0, 5.0, 4.5], [0.4, -0.3, 0.6, 0.0]])
CASES = [
    *[at(*point, smooth=point[0] in SMOOTH, ops=USED.get(point[0], (point[0],))) for point in POINTS],
    *[at(*point, part=k, smooth=point[0] in SMOOTH, ops=USED.get(point[0], (point[0],))) for point in PARTS for k in range(getattr(sp, point[0]).nout)],
    Case("wofz", sp.wofz, [(draw(3) + 0.5j,), (np.array([30.0 + 1j, -20.0 + 20j]),)], smooth=False),
    Case("sici:zero", lambda x: sp.sici(x)[0] + sp.shichi(x)[0] + sp.it2j0y0(x)[0] + sp.it2i0k0(x)[0], [(np.array([1e-3, 1e-7]),)], ops=("sici",)),
    Case("carlson", lambda x: sp.elliprd(x, x, x), [(draw(2, low=0.5),)]), Case("gammasgn", lambda x: sp.gammasgn(x) * x, [(draw(3) + 0.1,)]),
    Case("betainc_by_a", lambda x: betainc_by_a(1.5, 2.5, x), [(np.array([0.3, 0.4]),)], smooth=False),
    Case("betainc_by_b", lambda x: betainc_by_b(1.5, 2.5, x), [(np.array([0.3, 0.4]),)], smooth=False),
    *[Case(op.__name__, lambda x, nc, op=op: op(x, 3.0, nc), [(np.array([0.3, 0.4]), np.array([1.5, 0.7]))], smooth=False) for op in (ncx2_pdf, ncx2_sf, ncx2_isf)],
    # -- banded and Toeplitz matrices
    Case("eigvals_banded", lambda ab: sl.eigvals_banded(ab) + sl.eigvalsh_tridiagonal(ab[1], ab[0, 1:]), [(BAND[:2],)], ops=("multiply",)),
    Case("facts", lambda a: a * (sl.bandwidth(a)[0] + sl.issymmetric(a) + sl.ishermitian(a)), [(draw(3, 3),)], ops=("multiply",), smooth=False),
]
