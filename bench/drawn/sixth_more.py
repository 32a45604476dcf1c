"""Further functions of the sixth list."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case
from bench.drawn.numbers import T, float_of, total

SERIES = np.array([0.012, -0.004, 0.007, 0.021, -0.015, 0.003, 0.009, -0.008, 0.014, 0.001])


@case("omoment")
def running_variance() -> Built:
    from omoment import OMeanVar
    return lambda x, w: (OMeanVar.compute(x, w) + OMeanVar.compute(x * 2, w)).var, (
        np.array([1.2, 0.7, 3.1]), np.array([1.0, 2.0, 0.5]))


@case("pymare")
def meta_analysis() -> Built:
    from pymare.estimators.estimators import DerSimonianLaird
    v = np.array([0.1, 0.2, 0.15, 0.3])
    return lambda y: float_of(DerSimonianLaird().fit(y[:, None], v[:, None], np.ones((4, 1))).params_["fe_params"]), (
        np.array([0.4, 1.3, -0.2, 0.9]),)


@case("pymare")
def meta_regression() -> Built:
    from pymare.stats import weighted_least_squares
    x = np.array([[1.0, 0.1], [1.0, 0.5], [1.0, 1.2], [1.0, 1.7]])
    return lambda y, tau2: np.sum(weighted_least_squares(y[:, None], np.full((4, 1), 0.2), x, tau2=tau2)), (
        np.array([0.4, 0.6, 1.2, 1.9]), 0.1)


@case("pyelli")
def ellipsometry_of_film() -> Built:
    import elli
    lbda = np.array([450.0, 600.0])

    def f(n0: float, d: float) -> float:
        film = elli.Cauchy(n0=n0, n1=40.0, n2=0.0).get_mat()
        glass = elli.Cauchy(n0=1.6).get_mat()
        return np.sum(elli.Structure(elli.AIR, [elli.Layer(film, d)], glass).evaluate(
            lbda, 70, solver=elli.Solver2x2).psi) / 10
    return f, (1.45, 120.0)


@case("pyelli")
def dispersion_of_oscillators() -> Built:
    import elli
    return lambda a, g: np.sum(np.abs(elli.TaucLorentz(Eg=1.2).add(A=a, E=3.4, C=g).get_dielectric(
        np.array([400.0, 500.0])))), (80.0, 1.1)


@case("aei-microwave-link-exposure")
def rain_on_link() -> Built:
    from aei_mw_exposure.physics import effective_path_length_km, specific_attenuation_db_km
    return lambda km, rain: specific_attenuation_db_km(rain, 18.0, "V") * effective_path_length_km(km, rain), (
        12.0, 25.0)


@case("pyspk")
def suppressed_power() -> Built:
    from pyspk.model import sup_model
    return lambda a, p: np.sum(sup_model(SO=200, z=0.1, fb_a=a, fb_pow=p, fb_pivot=1e14, n=6, k_max=5.0,
                                         verbose=False)[1]), (0.7, 0.2)


@case("minelab")
def kriged_grade() -> Built:
    from minelab.geostatistics.kriging import ordinary_kriging
    from minelab.geostatistics.variogram_fitting import VariogramModel
    at = np.array([[0.0, 0.0], [10.0, 1.0], [3.0, 8.0], [9.0, 9.0]])
    model = VariogramModel("spherical", 0.1, 1.0, 15.0)
    return lambda v, t: np.sum(ordinary_kriging(at, v, t[None, :], model)[0]), (
        np.array([1.2, 0.7, 2.1, 1.6]), np.array([4.0, 5.0]))


@case("minelab")
def fragments_of_blast() -> Built:
    from minelab.drilling_blasting.blast_design import burden_konya
    from minelab.geostatistics.variogram_models import hole_effect
    from minelab.ventilation.airway_resistance import parallel_resistance
    return lambda d, h, r: burden_konya(d, 1.2, 2.6) + hole_effect(h, 0.1, 1.0, 40.0) + parallel_resistance([r, 0.5]), (
        150.0, 22.0, 0.4)


@case("gstatsim")
def covariance_of_grid() -> Built:
    from gstatsim import Covariance, make_rotation_matrix
    turn = make_rotation_matrix(30.0, 10.0, 6.0)
    return lambda c: np.sum(Covariance.make_covariance_matrix(c, [30.0, 0.1, 10.0, 6.0, 1.0, "Exponential"], turn)), (
        np.array([[0.0, 0.2], [3.0, 1.0], [2.0, 6.0]]),)


@case("python-engineering")
def stress_below_load() -> Built:
    from pyeng.geotechnical.stress_strain.elastic import stresses_rectangle_boussinesq
    return lambda q, z: total([v for v in stresses_rectangle_boussinesq(q, 4.0, 3.0, z).values()
                               if not isinstance(v, str)]) / 10, (100.0, 2.0)


@case("volstats")
def volatility_of_ranges() -> Built:
    import pandas as pd
    from volstats.garman_klass import garman_klass_vol
    o = np.array([10.0, 10.4, 10.2, 10.7])

    def f(high: np.ndarray, low: np.ndarray) -> float:
        frame = pd.DataFrame({"Open": o, "High": high, "Low": low, "Close": o + 0.1})
        return garman_klass_vol(frame)
    return f, (o + 0.5, o - 0.4)


@case("relativistic-simulator")
def relativistic_motion() -> Built:
    from relativistic_simulator.dynamics import integrate_rk4

    def f(mass: float, force: float) -> float:
        path = integrate_rk4(mass, force, 1e7, duration=2.0, dt=0.25)
        return path["position"][-1] / 1e8 if isinstance(path, dict) else path.position[-1] / 1e8
    return f, (1.2, 9e7)


@case("ashrink")
def shrunken_effects() -> Built:
    import ashrink
    return lambda b: np.sum(ashrink.fit(
        b, np.full(6, 0.5), maxiter=30, tol=1e-3, scales=[0.3, 0.9]).posterior_mean ** 2), (
        np.array([0.1, -0.4, 1.3, 2.2, -0.2, 0.6]),)


@case("statsvars")
def t_score_of_sample() -> Built:
    from StatsVars.StatsVars import sample_standard_deviation, t_score
    return lambda x: t_score(x, 1.1) + sample_standard_deviation(x), ([1.2, 0.7, 3.1, 2.2],)


@case("garchbox")
def skewed_likelihood() -> Built:
    from archbox.distributions.skewed_t import SkewedT
    return lambda r, nu, lam: np.sum(SkewedT().loglikelihood(r, np.full(10, 1e-4), np.array([nu, lam]))) / 10, (
        SERIES, 7.0, -0.2)


@case("garchbox")
def variance_of_garch() -> Built:
    from archbox.utils.numba_core import garch_recursion_python
    return lambda w, a, b: np.sum(garch_recursion_python(
        SERIES, np.zeros(10), w, np.array([a]), np.array([b]), 1, 1, 1e-4)) * 1e3, (1e-5, 0.1, 0.85)


@case("idlefinance")
def price_of_put() -> Built:
    from IdleFinance.models.options import black_scholes_put
    return lambda s, v: black_scholes_put(s, 100.0, 0.5, 0.02, v), (103.0, 0.25)


@case("idlefinance")
def performance_of_portfolio() -> Built:
    from IdleFinance.models.efficient_frontier import portfolio_performance
    cov = np.array([[0.04, 0.01], [0.01, 0.09]])
    return lambda w: total(list(portfolio_performance(w, np.array([0.05, 0.08]), cov, 0.01))), (np.array([0.6, 0.4]),)


@case("advanced-distributions")
def generalised_pareto() -> Built:
    from advanced_distributions.generalized_pareto import GeneralizedParetoDistribution
    return lambda x, xi, s: np.sum(GeneralizedParetoDistribution(xi, s).logpdf(x)), (
        np.array([0.4, 0.3, 1.2]), 0.3, 1.2)


@case("advanced-distributions")
def sinh_arcsinh() -> Built:
    from advanced_distributions.sinh_arcsinh import SinhArcsinhDistribution
    return lambda x, e, d: np.sum(SinhArcsinhDistribution(e, d).logpdf(x)) + np.sum(
        SinhArcsinhDistribution(e, d).cdf(x)), (np.array([-0.4, 0.3, 1.2]), 0.2, 1.1)


@case("aerodynamics")
def sound_and_reynolds() -> Built:
    from aerodynamics.aero import reNumber_kinematic, speed_of_sound_ideal
    return lambda t, v: speed_of_sound_ideal(1.4, 8.314, 0.029, t) / 100 + reNumber_kinematic(v, 1.2, 1.5e-5) / 1e6, (
        290.0, 30.0)


@case("beta-ensembles")
def wigner_surmise() -> Built:
    from beta_ensembles.sff import predicted_sff
    from beta_ensembles.statistics import pdf_s
    return lambda b, s: np.sum(pdf_s(b, s)) + np.sum(predicted_sff(b, s)), (1.7, np.array([0.3, 0.8, 1.4]))


@case("chiral-transfermatrix")
def chiral_layers() -> Built:
    import chiral_transfermatrix as ct
    lam = np.array([500.0, 700.0])

    def f(d: float, eps: float, kappa: float) -> float:
        air = ct.MaterialLayer(d=np.inf, eps=1.0)
        film = ct.MaterialLayer(d=d, eps=eps, kappa=kappa)
        return np.sum(ct.MultiLayerScatt([air, film, air], lam, 0.2).Tsp)
    return f, (120.0, 2.3, 0.01)


@case("densitypdf")
def builtin_densities() -> Built:
    from densitypdf.builtin.builtindensitypdf import builtin_density_pdf
    return lambda x, c: builtin_density_pdf({"name": "norm", "params": {"loc": 0.2, "scale": c}}, x), (0.7, 1.3)


@case("densitypdf")
def density_of_f() -> Built:
    from densitypdf.builtin.scipyreplacements import f_pdf_scalar, gamma_pdf_scalar, t_pdf_scalar
    return lambda x, a: f_pdf_scalar(x, 5.0, a, 0.0, 1.0) + gamma_pdf_scalar(x, a, 0.0, 1.2) + t_pdf_scalar(
        x, a, 0.1, 0.9), (0.7, 6.0)


@case("fides")
def trust_region() -> Built:
    from fides.subproblem import solve_nd_trust_region_subproblem
    b = np.array([[2.0, 0.3], [0.3, 1.1]])
    return lambda g, d: np.sum(solve_nd_trust_region_subproblem(b, g, d)[0] ** 2 * np.array([1.0, 2.0])), (
        np.array([1.4, -0.8]), 0.5)


@case("floris")
def circulation() -> Built:
    from floris.core.wake_deflection.gauss import gamma
    return lambda d, v, ct: np.sum(gamma(d, v, 8.0, ct)) / 100, (126.0, np.array([7.5, 8.1]), 0.76)


@case("freebirdcal")
def formulas() -> Built:
    from freebirdcal.formula_cal import kepler_third_law, snells_law
    return lambda n, th, a: snells_law(1.0, n, th) / 10 + kepler_third_law(a, 2e30) / 1e7, (1.5, 30.0, 1.5e11)


@case("hcipy")
def light_on_aperture() -> Built:
    import hcipy as hp
    grid = hp.make_pupil_grid(8, 1.0)
    prop = hp.FraunhoferPropagator(grid, hp.make_focal_grid(2, 2))
    pupil = hp.make_circular_aperture(1.0)(grid)

    def f(a: float, b: float) -> float:
        field = hp.Field(pupil * np.exp(1j * (a * grid.x + b * grid.y ** 2)), grid)
        return (prop(hp.Wavefront(field)).intensity * np.arange(64)).sum() / 100
    return f, (0.7, 0.4)


@case("hypothesize")
def trimmed_test() -> Built:
    from hypothesize.utilities import trimse, yuen
    y = np.array([0.4, 1.1, 1.6, 0.2, 0.9])
    return lambda x: yuen(x, y)["p_value"] + trimse(x), (np.array([1.2, 2.3, 1.8, 2.9, 0.6]),)


@case("jgb-distributions")
def density_of_gauss() -> Built:
    from JGB_distributions import Gaussian
    return lambda mu, s: Gaussian(mu, s).pdf(1.1) + (Gaussian(mu, s) + Gaussian(1.0, 2.0)).stdev, (0.4, 1.3)


@case("libdenavit")
def section_of_concrete() -> Built:
    from libdenavit.section.rectangle_shape import Rectangle
    return lambda h, b, rc: Rectangle(h, b, rc).Ix / 100 + Rectangle(h, b, rc).A + Rectangle(h, b).J / 100, (
        12.0, 8.0, 0.7)


@case("magnelpy")
def strength_in_fire() -> Built:
    from magnelPy.SFE.FireCurve import ASTM
    from magnelPy.statFunc import m_Beta, m_Gamma
    return lambda a, b, t: total(list(m_Beta(a, b))) + total(list(m_Gamma(a, b))) + np.sum(ASTM(t)) / 100, (
        2.1, 3.3, 40.0)


@case("mechpy")
def stress_of_ply() -> Built:
    from mechpy.composites import T1, T2
    return lambda th, s: np.sum(T1(th) @ s) + np.sum(T2(th) @ s), (30.0, np.array([1.0, 0.4, 0.2]))


@case("optrix")
def system_of_lenses() -> Built:
    import optrix
    return lambda f, d: np.sum(np.asarray(optrix.FreeSpace(d).Matrix) @ np.asarray(optrix.ThinLens(f).Matrix)), (
        0.2, 0.35)


@case("pba")
def interval_arithmetic() -> Built:
    from pba import Interval
    return lambda a, b: (Interval(a, b) * Interval(0.4, 1.1) - Interval(a, b) ** 2).width(), (0.7, 1.4)


@case("pybezier")
def bezier_norm() -> Built:
    from pybezier import BezierCurve
    return lambda p: BezierCurve(p, 0, 2).derivative().squared_l2_norm() + np.sum(BezierCurve(p, 0, 2)(0.7)), (
        np.array([[0.0, 0.1], [1.0, 0.8], [2.1, 0.3], [3.0, 1.2]]),)


@case("pystatsinsurance")
def reserves() -> Built:
    from pystatsinsurance.reserving import chain_ladder
    known = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], bool)
    return lambda t: np.sum(chain_ladder(np.where(known, t, np.nan)).ultimates) / 100, (
        np.array([[100.0, 150.0, 165.0], [110.0, 168.0, 1.0], [121.0, 1.0, 1.0]]),)


@case("pytenet")
def energy_of_chain() -> Built:
    from pytenet.hamiltonian import heisenberg_xxz_1d_mpo
    v = np.cos(np.arange(8.0))
    return lambda j, h: np.real(v @ heisenberg_xxz_1d_mpo(3, j, 0.7, h).to_matrix() @ v), (1.1, 0.4)


@case("pyastronautics")
def elements_of_orbit() -> Built:
    from pyastronautics.astrodynamics.two_body_problem import TwoBodyModel
    return lambda r, v: np.sum(TwoBodyModel(list(r), list(v)).differential_equations(0.0, [*r, *v])), (
        np.array([7000.0, 100.0, 300.0]), np.array([0.1, 7.4, 0.6]))


@case("pyastronautics")
def jacobi_constant() -> Built:
    from pyastronautics.astrodynamics.three_body_problem import CR3BP
    return lambda x, y, v: CR3BP.calculate_jacobi(x, y, 0.1, v, 0.012), (0.8, 0.1, 0.3)


@case("qwak-sim")
def quantum_walk() -> Built:
    import networkx as nx
    from qwak.qwak import QWAK
    graph = nx.cycle_graph(5)

    def f(t: float) -> float:
        walk = QWAK(graph, initStateList=[0])
        walk.runWalk(time=t, initStateList=[0])
        return walk.getProbVec()[1]
    return f, (0.8,)


@case("rad-lab")
def range_of_radar() -> Built:
    from rad_lab.range_equation import max_target_detection_range
    return lambda p, g, s: max_target_detection_range(p, g, g, s, 0.03, 10.0, 1e6, 3.0, 2.0, 290.0) / 1e3, (
        1e4, 1e3, 2.0)


@case("rad-lab")
def snr_of_pulses() -> Built:
    from rad_lab.detection import required_snr, required_snr_nci
    return lambda pd: required_snr(pd, 1e-6) + required_snr_nci(pd, 1e-6, 4), (0.8,)


@case("rater-agreement")
def intraclass() -> Built:
    from raters.icc import icc
    return lambda x: icc(x, "2,1") + icc(x, "3,1"), (np.array([[9.0, 8.2], [6.1, 5.0], [8.3, 7.7], [4.0, 2.9]]),)


@case("satlas2")
def hyperfine_spectrum() -> Built:
    from satlas2.models.hfsModel import HFS
    x = np.array([-300.0, 20.0, 450.0])
    return lambda a, b: np.sum(HFS(1.5, [0.5, 1.5], A=[a, 90.0], B=[0.0, b], fwhmg=60.0, fwhml=40.0).f(x)), (
        210.0, 30.0)


@case("sonar-vision")
def loss_of_sound() -> Built:
    from sonar_vision.sonar import Sonar
    return lambda d, c: Sonar(sound_speed=c).total_loss(d) + Sonar(sound_speed=c).round_trip_time(d), (120.0, 1490.0)


@case("spart-python")
def wet_soil() -> Built:
    from SPART.BSM import soilwat
    from SPART.SAILH import calculate_leafangles
    r, nw, kw = np.array([[0.2], [0.3]]), np.array([[1.33], [1.32]]), np.array([[0.1], [0.4]])
    return lambda m, a: np.sum(soilwat(r, nw, kw, m, 25.0, 0.015).refl) + np.sum(
        calculate_leafangles(a, -0.15) ** 2), (20.0, -0.35)


@case("starward")
def equation_of_centre() -> Built:
    from starward.core.sun import sun_equation_of_center, true_obliquity
    from starward.core.time import JulianDate
    return lambda jd: sun_equation_of_center(JulianDate(jd)).degrees + true_obliquity(JulianDate(jd)).degrees, (
        2460000.5,)


@case("starward")
def mass_of_air() -> Built:
    from starward.core.angles import Angle
    from starward.core.visibility import airmass
    return lambda h: airmass(Angle(degrees=h)), (35.0,)


@case("statmechcrack")
def energy_of_crack() -> Built:
    from statmechcrack import CrackIsometric
    return lambda v, s: float_of(CrackIsometric(N=5, M=3).beta_A_0_isometric(v, s)) / 100 + (
        float_of(CrackIsometric(N=5, M=3).p_0_isometric(v, s))), (1.3, np.array([1.02, 1.01, 1.03]))


@case("stats-utils")
def gauss_of_course() -> Built:
    from stats_utils import Gaussian
    return lambda mu, s: Gaussian(mu, s).pdf(1.1), (0.4, 1.3)


@case("unfpy")
def friction_in_pipe() -> Built:
    from unfpy.flow.friction import friction_factor_fanning
    return lambda n, e: friction_factor_fanning(n, e) * 100, (4e4, 1e-3)


@case("vartools")
def delta_of_call() -> Built:
    from vartools import BlackScholes
    return lambda s, v: BlackScholes().call_delta(s, 100.0, 0.02, v, 0.5) + BlackScholes().put_delta(
        s, 95.0, 0.02, v, 0.5), (103.0, 0.25)


@case("vartools")
def price_of_bond() -> Built:
    from vartools.fixed_income import Bond
    return lambda c, y: Bond(1000.0, c, 5, y, 2).price() / 100, (0.04, 0.05)


@case("libgeofin")
def moran() -> Built:
    from libgeofin.autocorrelation import compute_moran_i
    w = np.array([[0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.4, 0, 0, 0.6], [0, 0.3, 0.7, 0]])
    return lambda x: total(list(compute_moran_i(x, w))), (np.array([1.2, 0.7, 3.1, 2.2]),)


@case("quadlib")
def krylov_space() -> Built:
    from quadlib.tools.linalg import invert_reg
    return lambda a: np.sum(invert_reg(a @ a.T)[0]), (np.array([[2.0, 0.3], [0.4, 1.5]]),)


@case("formulix")
def shapes() -> Built:
    from Formulix.shapes import heron_area, triangle_median
    return lambda a, b, c: heron_area(a, b, c) + triangle_median(a, b, c), (3.0, 4.1, 5.2)


@case("space-analysis")
def speed_of_waves() -> Built:
    from space_analysis.plasma.mhd_waves import VpVg_fs
    return lambda cs, ca: total([np.sum(x) for x in VpVg_fs(cs, ca, T[1:5]).values()]), (0.8, 1.1)


@case("xraybinaryorbit")
def scaled_points() -> Built:
    from xraybinaryorbit.helpers.math_helpers import scale
    return lambda x: np.sum(np.asarray(scale(x, np.array([0.1, 0.5, 0.9]))) ** 2), (np.array([1.0, 1.7, 3.2]),)


