"""second: 30 functions of 19 other packages, written down after the mends that the first list led to, and before any of
them was traced.
"""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("PyAstronomy")
def planck() -> Built:
    from PyAstronomy import pyasl
    lam = np.linspace(4000e-10, 9000e-10, 7)
    return lambda t: pyasl.planck(t, lam=lam).sum() / 1e13, (5777.0,)


@case("PyAstronomy")
def kepler_position() -> Built:
    from PyAstronomy import pyasl
    t = np.linspace(0.1, 2.0, 6)
    return lambda a, e, w: pyasl.KeplerEllipse(a, 2.1, e=e, Omega=10.0, w=w, i=80.0).xyzPos(t)[:, 2].sum(), (1.2, 0.3,
                                                                                                         40.0)


@case("PyAstronomy")
def air_to_vacuum() -> Built:
    from PyAstronomy import pyasl
    return lambda w: pyasl.airtovac2(w).sum(), (np.array([4300.0, 5500.0]),)


@case("pybaselines")
def asymmetric_least_squares() -> Built:
    from pybaselines.whittaker import asls
    x = np.linspace(0.0, 10.0, 30)
    return lambda y: (asls(y, lam=1e3, p=0.05)[0] ** 2).sum(), (np.exp(-(x - 5) ** 2) + 0.1 * x + 0.3,)


@case("pybaselines")
def polynomial_baseline() -> Built:
    from pybaselines.polynomial import poly
    x = np.linspace(0.0, 10.0, 30)
    return lambda y: (poly(y, x, poly_order=2)[0] ** 2).sum(), (np.exp(-(x - 5) ** 2) + 0.1 * x + 0.3,)


@case("peakutils")
def peak() -> Built:
    import peakutils
    x = np.linspace(0.0, 10.0, 30)
    return lambda a, c, d: (peakutils.gaussian(x, a, c, d) ** 2).sum(), (2.0, 4.5, 1.3)


@case("modern-robotics")
def forward_kinematics() -> Built:
    import modern_robotics as mr
    home = np.array([[-1.0, 0, 0, 0], [0, 1, 0, 6], [0, 0, -1, 2], [0, 0, 0, 1]])
    screws = np.array([[0.0, 0, 1, 4, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, -1, -6, 0, -0.1]]).T
    return lambda q: mr.FKinSpace(home, screws, q)[:3, 3].sum(), (np.array([1.5, 3.0, 3.1]),)


@case("modern-robotics")
def jacobian_of_screws() -> Built:
    import modern_robotics as mr
    screws = np.array([[0.0, 0, 1, 0, 0.2, 0.2], [1, 0, 0, 2, 0, 3], [0, 1, 0, 0, 2, 1]]).T
    return lambda q: (mr.JacobianSpace(screws, q) ** 2).sum(), (np.array([0.2, 1.1, 0.1]),)


@case("modern-robotics")
def logarithm_of_rotation() -> Built:
    import modern_robotics as mr
    return lambda w: (mr.MatrixLog3(mr.MatrixExp3(mr.VecToso3(w))) ** 2).sum(), (np.array([0.3, -0.5, 0.8]),)


@case("simple-pid")
def controlled() -> Built:
    from simple_pid import PID

    def f(kp: float, ki: float) -> float:
        pid, x = PID(kp, ki, 0.05, setpoint=1.0, sample_time=None), 0.0
        for _ in range(10):
            x = x + 0.1 * pid(x, dt=0.1)
        return x
    return f, (1.5, 0.4)


@case("pyXSteam")
def steam_enthalpy() -> Built:
    from pyXSteam.XSteam import XSteam
    steam = XSteam(XSteam.UNIT_SYSTEM_MKS)
    return lambda p, t: steam.h_pt(p, t), (10.0, 300.0)


@case("pyXSteam")
def saturation() -> Built:
    from pyXSteam.XSteam import XSteam
    steam = XSteam(XSteam.UNIT_SYSTEM_MKS)
    return lambda p: steam.tsat_p(p) + steam.sL_p(p), (5.0,)


@case("PyPortfolioOpt")
def portfolio_sharpe() -> Built:
    from pypfopt import objective_functions
    mu, cov = np.array([0.1, 0.07, 0.03]), np.diag([0.04, 0.02, 0.01]) + 0.005
    return lambda w: objective_functions.sharpe_ratio(w, mu, cov, 0.02), (np.array([0.5, 0.3, 0.2]),)


@case("PyPortfolioOpt")
def shrunk_covariance() -> Built:
    import pandas
    from pypfopt import risk_models
    returns = np.sin(np.arange(24.0) ** 2).reshape(8, 3) * 0.01
    return lambda r: (risk_models.cov_to_corr(risk_models.fix_nonpositive_semidefinite(
        pandas.DataFrame(r.T @ r))).to_numpy() ** 2).sum(), (returns,)


@case("ambiance")
def atmosphere() -> Built:
    from ambiance import Atmosphere
    return lambda h: float_of(Atmosphere(h).density) + float_of(Atmosphere(h).speed_of_sound) / 300.0, (8000.0,)


@case("miepython")
def scattering() -> Built:
    import miepython
    return lambda d: float_of(miepython.efficiencies(1.5 - 0.1j, d, 0.6)[1]), (1.0,)


@case("empyrical-reloaded")
def sharpe() -> Built:
    import empyrical
    return lambda r: empyrical.sharpe_ratio(r), (np.sin(np.arange(20.0) ** 2) * 0.01 + 0.001,)


@case("empyrical-reloaded")
def drawdown() -> Built:
    import empyrical
    return lambda r: empyrical.max_drawdown(r) + empyrical.downside_risk(r), (np.sin(np.arange(20.0) ** 2) * 0.01,)


@case("pysabr")
def smile() -> Built:
    from pysabr import Hagan2002LognormalSABR
    return lambda rho, volvol: Hagan2002LognormalSABR(f=0.025, shift=0.03, t=1.0, v_atm_n=0.004, beta=0.5, rho=rho,
                                                      volvol=volvol).lognormal_vol(0.03), (-0.2, 0.3)


@case("lenstronomy")
def deflection() -> Built:
    from lenstronomy.LensModel.lens_model import LensModel
    model = LensModel(["SIS", "SHEAR"])

    def f(theta: float, gamma: float) -> float:
        return sum(model.alpha(1.0, 0.6, [{"theta_E": theta, "center_x": 0.1, "center_y": 0.0},
                                          {"gamma1": gamma, "gamma2": 0.02}]))
    return f, (1.2, 0.05)


@case("lenstronomy")
def elliptical_potential() -> Built:
    from lenstronomy.LensModel.lens_model import LensModel
    model = LensModel(["SIE"])
    x, y = np.array([1.0, 0.3]), np.array([0.2, -0.9])
    return lambda t, e: model.potential(x, y, [{"theta_E": t, "e1": e, "e2": -0.1, "center_x": 0.0,
                                                "center_y": 0.0}]).sum(), (1.2, 0.15)


@case("lenstronomy")
def sersic_light() -> Built:
    from lenstronomy.LightModel.light_model import LightModel
    model = LightModel(["SERSIC"])
    x, y = np.array([1.0, 0.3]), np.array([0.2, -0.9])
    return lambda r, n: model.surface_brightness(x, y, [{"amp": 2.0, "R_sersic": r, "n_sersic": n, "center_x": 0.0,
                                                         "center_y": 0.0}]).sum(), (0.7, 2.5)


@case("raytracing")
def imaging_path() -> Built:
    from raytracing import Lens, Ray, Space

    def f(focal: float, distance: float) -> float:
        return (Space(d=distance) * Lens(f=focal) * Space(d=5.0) * Ray(y=1.0, theta=0.1)).y
    return f, (10.0, 20.0)


@case("hydroeval")
def efficiency() -> Built:
    import hydroeval
    observed = np.array([1.0, 2.0, 4.0, 3.5, 2.2])
    return lambda x: hydroeval.kge(x, observed)[0, 0], (np.array([1.1, 2.3, 3.6, 3.1, 2.5]),)


@case("hydroeval")
def nash() -> Built:
    import hydroeval
    observed = np.array([1.0, 2.0, 4.0, 3.5, 2.2])
    return lambda x: float_of(hydroeval.evaluator(hydroeval.nse, x, observed)), (np.array([1.1, 2.3, 3.6, 3.1, 2.5]),)


@case("calfem-python")
def bar_stiffness() -> Built:
    import calfem.core as cfc
    return lambda x, a: (np.asarray(cfc.bar2e(np.array([0.0, x]), np.array([0.0, 1.0]), [2.1, a])) ** 2).sum(), (1.5,
                                                                                                               0.3)


@case("calfem-python")
def beam_system() -> Built:
    import calfem.core as cfc

    def f(e: float, i: float) -> float:
        k, edof = np.zeros((6, 6)), np.array([[1, 2, 3, 4, 5, 6]])
        k = cfc.assem(edof[0], k, cfc.beam2e(np.array([0.0, 3.0]), np.array([0.0, 0.0]), [e, 0.1, i]))
        u, _ = cfc.solveq(k, np.array([[0.0], [0], [0], [0], [-1.0], [0]]), np.array([1, 2, 3]))
        return u[4, 0]
    return f, (2.1, 0.5)


@case("pmutt")
def vibration() -> Built:
    from pmutt.statmech.vib import HarmonicVib
    return lambda w, t: HarmonicVib(vib_wavenumbers=[w, 2 * w]).get_SoR(T=t), (800.0, 450.0)


@case("copulas")
def clayton_density() -> Built:
    from copulas.bivariate import Clayton
    u = np.array([[0.2, 0.5], [0.7, 0.4]])

    def f(theta: float) -> float:
        copula = Clayton()
        copula.theta = theta
        return copula.probability_density(u).sum()
    return f, (1.5,)


@case("minisom")
def quantisation() -> Built:
    from minisom import MiniSom
    data = np.sin(np.arange(20.0) ** 2).reshape(10, 2)

    def f(data: np.ndarray) -> float:
        som = MiniSom(3, 3, 2, sigma=1.0, learning_rate=0.5, random_seed=1)
        som.train(data, 20)
        return som.quantization_error(data)
    return f, (data,)


def float_of(x: object) -> object:
    """Return the number in an array of one."""
    return np.sum(x)  # type: ignore[call-overload]
