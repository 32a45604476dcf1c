"""Programs by the public names of scipy.special that have a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp

# the arguments of each: whole numbers stand for themselves, the others are differentiated
ARGUMENTS: dict[str, tuple[float, ...]] = {
    "agm": (0.3, 0.3), "airy": (0.3,), "airye": (0.3,), "assoc_laguerre": (0.3, 2), "bdtr": (0.3, 1.7, 0.3), "bdtrc": (0.3, 1.7, 0.3), "bdtri": (0.3, 1.7,
    0.3), "bdtrik": (0.3, 1.7, 0.6), "bdtrin": (0.3, 0.3, 0.3), "bei": (0.3,), "beip": (0.3,), "ber": (0.3,), "berp": (0.3,), "besselpoly": (0.7, 2, 1),
    "beta": (0.3, 0.3), "betainc": (0.3, 0.3, 0.3), "betaincc": (0.3, 0.3, 0.3), "betainccinv": (0.3, 0.3, 0.3), "betaincinv": (0.3, 0.3, 0.3), "betaln":
    (0.3, 0.3), "binom": (0.3, 0.3), "boxcox": (0.3, 0.3), "boxcox1p": (0.3, 0.3), "btdtria": (0.3, 0.3, 0.3), "btdtrib": (0.3, 0.3, 0.3), "cbrt": (0.3,),
    "chdtr": (0.3, 0.3), "chdtrc": (0.3, 0.3), "chdtri": (0.3, 0.3), "chdtriv": (0.3, 0.3), "chndtr": (1.7, 2, 0.6), "chndtrinc": (1.7, 2, 0.3),
    "chndtrix": (0.3, 2, 0.6), "comb": (0.6, 0.3), "cosdg": (0.3,), "cosm1": (0.3,), "cotdg": (0.3,), "dawsn": (0.3,), "digamma": (0.3,), "diric": (0.3,
    2), "ellipe": (0.3,), "ellipeinc": (0.3, 0.3), "ellipj": (0.3, 0.3), "ellipk": (0.3,), "ellipkinc": (0.3, 0.3), "ellipkm1": (0.3,), "elliprc": (0.3,
    0.3), "elliprd": (0.3, 0.3, 0.3), "elliprf": (0.3, 0.3, 0.3), "elliprg": (0.3, 0.3, 0.3), "elliprj": (0.3, 0.6, 1.7, 0.4), "entr": (0.3,), "erf":
    (0.3,), "erfc": (0.3,), "erfcinv": (0.3,), "erfcx": (0.3,), "erfi": (0.3,), "erfinv": (0.3,), "eval_chebyc": (2, 0.3), "eval_chebys": (2, 0.3),
    "eval_chebyt": (2, 0.3), "eval_chebyu": (2, 0.3), "eval_gegenbauer": (3, 1, 0.6), "eval_genlaguerre": (3, 1, 0.6), "eval_hermite": (2, 0.3),
    "eval_hermitenorm": (2, 0.3), "eval_jacobi": (3, 1, 2, 0.6), "eval_laguerre": (2, 0.3), "eval_legendre": (2, 0.3), "eval_sh_chebyt": (2, 0.3),
    "eval_sh_chebyu": (2, 0.3), "eval_sh_jacobi": (3, 3, 1, 0.6), "eval_sh_legendre": (2, 0.3), "exp1": (0.3,), "exp10": (0.3,), "exp2": (0.3,), "expi":
    (0.3,), "expit": (0.3,), "expm1": (0.3,), "expn": (2, 0.3), "exprel": (0.3,), "factorial": (0.3,), "fdtr": (0.3, 0.3, 0.3), "fdtrc": (0.3, 0.3, 0.3),
    "fdtri": (0.3, 0.3, 0.3), "fdtridfd": (0.3, 0.3, 0.3), "fresnel": (0.3,), "gamma": (0.3,), "gammainc": (0.3, 0.3), "gammaincc": (0.3, 0.3),
    "gammainccinv": (0.3, 0.3), "gammaincinv": (0.3, 0.3), "gammaln": (0.3,), "gdtr": (0.3, 0.3, 0.3), "gdtrc": (0.3, 0.3, 0.3), "gdtria": (0.3, 0.3,
    0.3), "gdtrib": (0.3, 0.3, 0.3), "gdtrix": (0.3, 0.3, 0.3), "h1vp": (2, 0.3), "h2vp": (2, 0.3), "hankel1": (2, 0.3), "hankel1e": (2, 0.3), "hankel2":
    (2, 0.3), "hankel2e": (2, 0.3), "huber": (0.3, 0.3), "hyp0f1": (2, 0.3), "hyp1f1": (2, 3, 0.6), "hyp2f1": (2, 3, 5, 0.3), "hyperu": (2, 3, 0.6), "i0":
    (0.3,), "i0e": (0.3,), "i1": (0.3,), "i1e": (0.3,), "inv_boxcox": (0.3, 0.3), "inv_boxcox1p": (0.3, 0.3), "it2i0k0": (0.3,), "it2j0y0": (0.3,),
    "it2struve0": (0.3,), "itairy": (0.3,), "iti0k0": (0.3,), "itj0y0": (0.3,), "itmodstruve0": (0.3,), "itstruve0": (0.3,), "iv": (2, 0.3), "ive": (2,
    0.3), "ivp": (2, 0.3), "j0": (0.3,), "j1": (0.3,), "jn": (2, 0.3), "jv": (2, 0.3), "jve": (2, 0.3), "jvp": (2, 0.3), "k0": (0.3,), "k0e": (0.3,),
    "k1": (0.3,), "k1e": (0.3,), "kei": (0.3,), "keip": (0.3,), "kelvin": (0.3,), "ker": (0.3,), "kerp": (0.3,), "kl_div": (0.3, 0.3), "kn": (2, 0.3),
    "kolmogi": (0.3,), "kolmogorov": (0.3,), "kv": (2, 0.3), "kve": (2, 0.3), "kvp": (2, 0.3), "lambertw": (0.3,), "log1p": (0.3,), "log_expit": (0.3,),
    "log_ndtr": (0.3,), "log_wright_bessel": (2, 3, 0.6), "loggamma": (0.3,), "logit": (0.3,), "logsumexp": (0.3,), "lpmv": (1, 3, 0.6), "mathieu_a": (2,
    0.3), "mathieu_b": (2, 0.3), "mathieu_cem": (2, 3, 30.0), "mathieu_modcem1": (2, 3, 0.6), "mathieu_modcem2": (2, 3, 0.6), "mathieu_modsem1": (2, 3,
    0.6), "mathieu_modsem2": (2, 3, 0.6), "mathieu_sem": (2, 3, 30.0), "modfresnelm": (0.3,), "modfresnelp": (0.3,), "modstruve": (2, 0.3),
    "multigammaln": (0.6, 2), "nbdtr": (0.3, 1.7, 0.3), "nbdtrc": (0.3, 1.7, 0.3), "nbdtri": (0.3, 1.7, 0.3), "nbdtrik": (0.3, 1.7, 0.3), "nbdtrin": (0.3,
    0.3, 0.3), "ndtr": (0.3,), "ndtri": (0.3,), "ndtri_exp": (-0.7,), "nrdtrimn": (0.3, 0.3, 0.3), "nrdtrisd": (0.3, 0.3, 0.3), "obl_ang1": (1, 2, 3,
    0.6), "obl_rad1": (1, 2, 3, 0.6), "owens_t": (0.3, 0.3), "pbdv": (2, 0.3), "pbvv": (2, 0.3), "pbwa": (2, 0.3), "pdtr": (0.3, 0.3), "pdtrc": (0.3,
    0.3), "pdtri": (0.3, 0.3), "pdtrik": (0.3, 1.7), "perm": (0.6, 0.3), "poch": (0.3, 0.3), "polygamma": (2, 0.3), "powm1": (0.3, 0.3), "pro_ang1": (1,
    2, 3, 0.6), "pro_rad1": (1, 2, 3, 1.6), "pseudo_huber": (0.3, 0.3), "psi": (0.3,), "radian": (0.3, 0.3, 0.3), "rel_entr": (0.3, 0.3), "rgamma":
    (0.3,), "shichi": (0.3,), "sici": (0.3,), "sinc": (0.3,), "sindg": (0.3,), "smirnov": (2, 0.3), "smirnovi": (2, 0.3), "softplus": (0.3,), "spence":
    (0.3,), "spherical_in": (2, 0.3), "spherical_jn": (2, 0.3), "spherical_kn": (2, 0.3), "spherical_yn": (2, 0.3), "stdtr": (0.3, 0.3), "stdtridf": (0.6,
    0.3), "stdtrit": (0.3, 0.3), "struve": (2, 0.3), "tandg": (0.3,), "tklmbda": (0.3, 0.3), "voigt_profile": (0.3, 0.3, 0.3), "wofz": (0.3,),
    "wright_bessel": (2, 3, 0.6), "wrightomega": (0.3,), "xlog1py": (0.3, 0.3), "xlogy": (0.3, 0.3), "y0": (0.3,), "y1": (0.3,), "yn": (2, 0.3), "yv": (2,
    0.3), "yve": (2, 0.3), "yvp": (2, 0.3), "zeta": (2, 1.7),
}


def of(name: str, given: tuple[float, ...]) -> tuple[Any, ...]:
    fn, free = getattr(sp, name), [i for i, x in enumerate(given) if isinstance(x, float)]

    def call(*xs: Any) -> Any:
        args: list[Any] = list(given)
        for i, x in zip(free, xs):
            args[i] = x
        return fn(*args)
    return call, *[given[i] for i in free]


ROW = np.array([0.3, 1.2, -0.4])
SPECIAL = {
    **{name: of(name, given) for name, given in ARGUMENTS.items() if hasattr(sp, name)},
    "log_softmax": (sp.log_softmax, ROW), "softmax": (sp.softmax, ROW), "round": (sp.round, 0.3),
    "assoc_legendre_p": (lambda z: sp.assoc_legendre_p(3, 1, z), 0.6), "assoc_legendre_p_all": (lambda z: sp.assoc_legendre_p_all(3, 1, z), 0.6),
    "legendre_p": (lambda z: sp.legendre_p(3, z), 0.6), "legendre_p_all": (lambda z: sp.legendre_p_all(3, z), 0.6),
    "sph_harm_y": (lambda a, b: sp.sph_harm_y(3, 1, a, b), 0.6, 0.3), "sph_harm_y_all": (lambda a, b: sp.sph_harm_y_all(2, 1, a, b), 0.6, 0.3),
    "sph_legendre_p": (lambda a: sp.sph_legendre_p(3, 1, a), 0.6), "sph_legendre_p_all": (lambda a: sp.sph_legendre_p_all(2, 1, a), 0.6),
    "cg_roots": (lambda a: sp.cg_roots(3, a), 0.7), "roots_gegenbauer": (lambda a: sp.roots_gegenbauer(3, a), 0.7), "la_roots": (lambda a: sp.la_roots(3, a), 0.7),
    "roots_genlaguerre": (lambda a: sp.roots_genlaguerre(3, a), 0.7), "j_roots": (lambda a: sp.j_roots(3, a, 0.4), 0.7), "roots_jacobi": (lambda a: sp.roots_jacobi(3, a, 0.4), 0.7),
    "js_roots": (lambda a: sp.js_roots(3, a, 0.4), 0.7), "roots_sh_jacobi": (lambda a: sp.roots_sh_jacobi(3, a, 0.4), 0.7),
    "gegenbauer": (lambda a: sp.gegenbauer(3, a)(0.6), 0.7), "genlaguerre": (lambda a: sp.genlaguerre(3, a)(0.6), 0.7), "jacobi": (lambda a: sp.jacobi(3, a, 0.4)(0.6), 0.7), "sh_jacobi": (lambda a: sp.sh_jacobi(3, a, 0.4)(0.6), 0.7),
    **{name: (getattr(sp, name), 1.7, 2.1, 0.6) for name in ("chndtridf", "nctdtr", "nctdtridf", "nctdtrinc", "nctdtrit")},
    **{name: (getattr(sp, name), 2.0, 3.0, 0.7, 0.4) for name in ("ncfdtr", "ncfdtri", "ncfdtridfd", "ncfdtridfn", "ncfdtrinc")},
    "ellip_harm": (lambda s: sp.ellip_harm(1.0, 2.0, 1, 1, s), 0.6), "ellip_harm_2": (lambda s: sp.ellip_harm_2(1.0, 2.0, 1, 1, s), 3.0), "ellip_normal": (lambda h: sp.ellip_normal(h, 2.0, 1, 1), 1.0),
    "factorial2": (lambda n: sp.factorial2(n, extend="complex"), 2.5), "factorialk": (lambda n: sp.factorialk(n, 3, extend="complex"), 2.5),
    "lmbda": (lambda x: sp.lmbda(2, x), 0.6), "lqmn": (lambda z: sp.lqmn(1, 2, z), 0.6), "lqn": (lambda z: sp.lqn(2, z), 0.6), "mathieu_even_coef": (lambda q: sp.mathieu_even_coef(2, q), 0.6), "mathieu_odd_coef": (lambda q: sp.mathieu_odd_coef(2, q), 0.6),
    "obl_cv": (lambda c: sp.obl_cv(1, 2, c), 0.6), "pro_cv": (lambda c: sp.pro_cv(1, 2, c), 0.6), "obl_cv_seq": (lambda c: sp.obl_cv_seq(1, 2, c), 0.6), "pro_cv_seq": (lambda c: sp.pro_cv_seq(1, 2, c), 0.6),
    "obl_rad2": (lambda x: sp.obl_rad2(1, 2, 0.7, x), 0.6), "pro_rad2": (lambda x: sp.pro_rad2(1, 2, 0.7, x), 1.6),
    **{f"{kind}_{part}_cv": (lambda x, how=(kind, part): getattr(sp, "_".join((*how, "cv")))(1, 2, 0.7, 1.0, x), 0.6 if kind == "obl" or part == "ang1" else 1.6)
       for kind in ("obl", "pro") for part in ("ang1", "rad1", "rad2")},
    "pbdn_seq": (lambda z: sp.pbdn_seq(2, z), 0.6), "pbdv_seq": (lambda x: sp.pbdv_seq(2, x), 0.6), "pbvv_seq": (lambda x: sp.pbvv_seq(2, x), 0.6), "riccati_jn": (lambda x: sp.riccati_jn(2, x), 0.6), "riccati_yn": (lambda x: sp.riccati_yn(2, x), 0.6),
    "zetac": (sp.zetac, 2.5),
}
