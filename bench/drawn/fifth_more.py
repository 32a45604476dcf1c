"""Further functions of the fifth list."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case

T = np.linspace(0.0, 1.0, 64)
WAVE = np.sin(2 * np.pi * 5 * T) + 0.3 * np.cos(2 * np.pi * 11 * T)


@case("isacalc")
def layers_of_air() -> Built:
    from isacalc import Atmosphere
    return lambda h: np.sum(Atmosphere().calculate(h)[1:3]) / 100, (8000.0,)


@case("pygasflow")
def nozzle_flow() -> Built:
    from pygasflow import isentropic, shockwave
    return lambda m, g: (isentropic.critical_area_ratio(m, g) + shockwave.mach_downstream(m, g)
                         + isentropic.prandtl_meyer_angle(m, g) / 10), (2.1, 1.4)


@case("pygasflow")
def oblique_shock() -> Built:
    from pygasflow.solvers import isentropic_solver, shockwave_solver
    return lambda m: sum(map(float_of, isentropic_solver("m", m)[1:4])) + float_of(
        shockwave_solver("mu", m, "theta", 10)[2]), (2.4,)


@case("pypower")
def power_flow() -> Built:
    from pypower.api import case9, makeYbus
    grid = case9()

    def f(x: np.ndarray) -> float:
        branch = grid["branch"].copy()
        branch[:, 0:2] -= 1
        branch[:, 3] = x
        bus = grid["bus"].copy()
        bus[:, 0] -= 1
        y = makeYbus(grid["baseMVA"], bus, branch)[0]
        return (np.abs(y.toarray()) ** 2).sum() / 1e4
    return f, (case9()["branch"][:, 3],)


@case("electricpy")
def charged_capacitor() -> Built:
    from electricpy import passive
    from electricpy.conversions import abc_to_seq
    return lambda t, r, c: passive.vcapcharge(t, 12.0, r, c) + passive.captransfer(t, 12.0, r, c, 2 * c)[0] + np.abs(
        abc_to_seq(np.array([r, 2j * c, 1.0]))).sum(), (0.5, 1.3, 0.6)


@case("windpowerlib")
def wind_at_hub() -> Built:
    from windpowerlib import density, temperature, wind_speed
    return lambda v, z0: wind_speed.logarithmic_profile(v, 10.0, 98.0, z0) + wind_speed.hellman(
        v, 10.0, 98.0, z0) + density.barometric(101.3, 2.0, 98.0, temperature.linear_gradient(280.0 + v, 2.0, 98.0)), (
            5.4, 0.15)


@case("ta")
def relative_strength() -> Built:
    import pandas as pd
    from ta.momentum import RSIIndicator
    return lambda x: RSIIndicator(pd.Series(x), window=5).rsi().iloc[-1] / 10, (10 + WAVE[:20],)


@case("optionlab")
def greeks() -> Built:
    from optionlab import black_scholes as bs

    def f(s: float, v: float) -> float:
        d1 = bs.get_d1(s, 100.0, 0.02, v, 0.5)
        d2 = bs.get_d2(s, 100.0, 0.02, v, 0.5)
        return bs.get_option_price("call", s, 100.0, 0.02, 0.5, d1, d2) + bs.get_gamma(s, 0.02, v, d1) * 10
    return f, (103.0, 0.25)


@case("pyesg")
def heston() -> Built:
    from pyesg import HestonProcess

    def f(theta: float, kappa: float) -> float:
        process = HestonProcess(mu=0.05, theta=theta, kappa=kappa, sigma=0.3, rho=-0.6)
        x = np.array([100.0, 0.06])
        return process.expectation(x, 0.5).sum() / 10 + process.standard_deviation(x, 0.5).sum()
    return f, (0.04, 1.5)


@case("pyesg")
def nelson_siegel() -> Built:
    from pyesg import NelsonSiegelInterpolator
    return lambda tau, b: np.sum(NelsonSiegelInterpolator(tau=tau, beta0=b, beta1=-0.02, beta2=0.01).predict(
        np.array([0.5, 2.0, 10.0]))) * 10, (1.4, 0.045)


@case("actuarialmath")
def makeham() -> Built:
    from actuarialmath import Makeham
    return lambda b, c: Makeham(A=0.00022, B=b, c=c).p_x(60, t=10) + 100 * Makeham(A=0.00022, B=b, c=c).mu_x(70), (
        2.7e-6, 1.124)


@case("pyliferisk")
def annuity() -> Built:
    import pyliferisk
    table = pyliferisk.MortalityTable(nt=[0.01 + 0.02 * i for i in range(40)], perc=100)

    def f(rate: float) -> float:
        mt = pyliferisk.Actuarial(nt=[0.01 + 0.02 * i for i in range(40)], i=rate)
        return pyliferisk.ax(mt, 5) + pyliferisk.Ax(mt, 10) + pyliferisk.px(table, 3)
    return f, (0.03,)


@case("cashflows")
def value_of_money() -> Built:
    from cashflows import tvmm
    return lambda rate, pmt: float_of(tvmm.tvmm(fval=0.0, pmt=pmt, nrate=rate, nper=24)) / 1e3, (5.0, -120.0)


@case("reliability")
def weibull_life() -> Built:
    from reliability.Distributions import Weibull_Distribution
    return lambda a, b: np.sum(Weibull_Distribution(alpha=a, beta=b).SF(
        xvals=np.array([2.0, 5.0]), show_plot=False)), (6.0, 1.7)


@case("pycircstat")
def circular_correlation() -> Built:
    import pycircstat
    other = np.array([0.3, 1.4, 2.5, 4.0, 0.9])
    return lambda x: pycircstat.corrcc(x, other) + pycircstat.var(x) + pycircstat.mean(x), (
        np.array([0.1, 1.1, 2.9, 3.7, 1.3]),)


@case("nestle")
def ellipsoid() -> Built:
    import nestle
    return lambda a: nestle.Ellipsoid(np.zeros(2), a @ a.T + np.eye(2)).vol + nestle.mean_and_cov(
        a, np.array([0.4, 0.6]))[1].sum(), (np.array([[1.0, 0.3], [0.2, 1.5]]),)


@case("pyDOE3")
def sampled_designs() -> Built:
    from pyDOE3 import ccdesign
    design = ccdesign(2)
    from pyDOE3 import var_regression_matrix
    return lambda s: float_of(var_regression_matrix(design, np.array([[0.3, 0.2]]), "1 + x1 + x2", s)), (1.3,)


@case("pygps")
def kernel_of_process() -> Built:
    from pyGPs.Core import cov
    x = T[:8, None]
    return lambda ell, sf: np.linalg.slogdet(cov.RBF(ell, sf).getCovMatrix(x=x, mode="train") + 0.1 * np.eye(8))[1], (
        -1.0, 0.3)


@case("fastdtw")
def warped_distance() -> Built:
    from fastdtw import fastdtw
    return lambda x: fastdtw(list(x), list(np.cos(6 * T[:20])), radius=2)[0], (WAVE[:24],)


@case("EntropyHub")
def fuzzy_entropy() -> Built:
    import EntropyHub
    return lambda x: EntropyHub.FuzzEn(x, m=2, r=(0.2, 2.0))[0][-1] + EntropyHub.CosiEn(x)[0], (WAVE[:30],)


@case("dit")
def shared_information() -> Built:
    import dit

    def f(p: float) -> float:
        d = dit.Distribution(["00", "01", "10", "11"], [p, 0.2, 0.3, 0.5 - p])
        return dit.shannon.mutual_information(d, [0], [1]) + dit.multivariate.entropy(d)
    return f, (0.15,)


@case("pyitlib")
def divergence() -> Built:
    from pyitlib import discrete_random_variable as drv
    return lambda p: float_of(drv.entropy_pmf(p / p.sum(), require_valid_pmf=False)) + float_of(
        drv.divergence_kullbackleibler_pmf(p / p.sum(), np.full(4, 0.25), require_valid_pmf=False)), (
            np.array([0.1, 0.2, 0.3, 0.4]),)


@case("fuzzy-c-means")
def fuzzy_clusters() -> Built:
    from fcmeans import FCM
    x = np.random.default_rng(0).normal(size=(12, 2))

    def f(scale: float) -> float:
        model = FCM(n_clusters=2, random_state=1, max_iter=15)
        model.fit(x * scale)
        return np.sum(model.centers ** 2)
    return f, (1.2,)


@case("bayespy")
def determinant() -> Built:
    from bayespy.utils import linalg
    return lambda a: linalg.chol_logdet(linalg.chol(a @ a.T + np.eye(3))) + linalg.mvdot(a, np.ones(3)).sum(), (
        np.array([[1.0, 0.3, 0.2], [0.4, 1.5, 0.1], [0.2, 0.1, 0.9]]),)


@case("pypop7")
def schaffer() -> Built:
    from pypop7.benchmarks import base_functions as bf
    return lambda x: bf.schaffer(x) + bf.griewank(x) + bf.levy_montalvo(x) + bf.michalewicz(x), (
        np.array([0.4, 1.2, -0.7]),)


@case("landscapes")
def test_functions() -> Built:
    from landscapes import single_objective as so
    return lambda xy: so.ackley(xy) + so.adjiman(xy) + so.bird(xy) / 10 + so.beale(xy), (np.array([0.4, 0.7]),)


@case("benchmark-functions")
def schwefel() -> Built:
    import benchmark_functions as bf
    return lambda x: bf.Schwefel(n_dimensions=3)(x) / 100 + bf.Rosenbrock(n_dimensions=3)(x), (
        [0.4, 1.2, -0.7],)


@case("numdifftools")
def weights_of_differences() -> Built:
    from numdifftools.fornberg import fd_weights
    return lambda x: fd_weights(x, 0.1, 2) @ np.sin(x), (np.array([-0.4, -0.1, 0.2, 0.6]),)


@case("chebpy")
def series_of_chebyshev() -> Built:
    from chebpy import cheb
    return lambda c, x: cheb.cheb_polynomial_series(c, x), (np.array([0.2, 0.7, -0.3]), 0.4)


@case("csaps")
def smoothed() -> Built:
    from csaps import csaps
    return lambda y, p: np.sum(csaps(T[:12], y, np.array([0.05, 0.1]), smooth=p)), (WAVE[:12], 0.9)


@case("pwlf")
def broken_line() -> Built:
    import pwlf
    return lambda y: np.sum(pwlf.PiecewiseLinFit(T[:16], y).fit_with_breaks([0.0, 0.1, T[15]])), (WAVE[:16],)


@case("baryrat")
def rational() -> Built:
    from baryrat import interpolate_rat
    nodes = np.array([0.0, 0.4, 0.7, 1.1, 1.6])
    return lambda f, x: float_of(interpolate_rat(nodes, f)(np.array([x]))), (np.cos(nodes), 0.9)


@case("mcfit")
def correlation_function() -> Built:
    from mcfit import P2xi
    k = np.logspace(-3, 1, 32)
    transform = P2xi(k, lowring=True)
    return lambda a, n: np.sum(transform(a * k ** n * np.exp(-k), extrap=True)[1][10:14]), (2.0, 0.8)


@case("polytope")
def volume_of_box() -> Built:
    import polytope as pc
    return lambda a: pc.is_inside(pc.box2poly([[0.0, 2.0], [0.0, 1.0]]), np.array([0.5, 0.5])) * a + (
        pc.box2poly([[0.0, a], [0.0, 1.0]]).b.sum()), (1.4,)


@case("euclid")
def reflected_vector() -> Built:
    from euclid import Quaternion, Vector3

    def f(x: float, angle: float) -> float:
        v = Vector3(x, 0.4, 1.1)
        w = Quaternion.new_rotate_axis(angle, Vector3(0.0, 0.0, 1.0)) * v
        return w.x + w.reflect(v.normalized()).y + v.cross(w).magnitude()
    return f, (0.7, 0.5)


@case("perlin-noise")
def perlin() -> Built:
    from perlin_noise import PerlinNoise
    noise = PerlinNoise(octaves=3, seed=5)
    return lambda x, y: noise([x, y]), (0.31, 0.47)


@case("vnoise")
def vector_noise() -> Built:
    import vnoise
    noise = vnoise.Noise(3)
    return lambda x, y: noise.noise2(x, y, octaves=2) + noise.noise3(x, y, 0.3), (1.31, 0.47)


@case("svgelements")
def transformed_path() -> Built:
    from svgelements import Arc, Matrix, Point
    return lambda a, x: Point(x, 2.0).matrix_transform(Matrix.rotate(a)).x + Arc(
        start=(0, 0), end=(x, 1.0), center=(x / 2, 0.5)).point(0.3).y, (0.6, 1.7)


@case("svg.path")
def length_of_curve() -> Built:
    from svg.path import Arc, CubicBezier, QuadraticBezier
    return lambda x, y: QuadraticBezier(0j, x + y * 1j, 2 + 0j).length() + abs(CubicBezier(
        0j, 1j, x + y * 1j, 3 + 0j).point(0.4)) + Arc(0j, 2 + 1j, 0.0, 0, 1, x + 1j).point(0.3).real, (1.2, 0.8)


@case("bezier")
def point_on_curve() -> Built:
    import bezier
    return lambda nodes, s: np.sum(bezier.Curve(nodes, degree=2).evaluate(s)) + bezier.Curve(nodes, degree=2).length, (
        np.array([[0.0, 0.6, 1.0], [0.0, 1.1, 0.2]]), 0.3)


@case("colorzero")
def difference_of_colours() -> Built:
    from colorzero import Color
    return lambda r, g: Color(r, g, 0.4).difference(Color(0.3, 0.6, 0.5), method="ciede2000"), (0.4, 0.7)


@case("colorir")
def cylindrical_colour() -> Built:
    from colorir import sRGB
    return lambda r, g: sum(sRGB(r, g, 90.0).hclab()[:3]) / 100, (120.0, 200.0)


@case("compas")
def area_of_polygon() -> Built:
    from compas.geometry import Frame, Polygon, Rotation, Vector

    def f(x: float, angle: float) -> float:
        polygon = Polygon([[0, 0, 0], [x, 0, 0.2], [1, 1, 0], [0, 1, 0]])
        turned = Vector(x, 1.0, 0.5).transformed(Rotation.from_axis_and_angle([0, 0.6, 0.8], angle))
        return polygon.area + turned.x + Frame([0, 0, 0], [x, 0.3, 0], [0, 1, 0]).zaxis.dot(turned)
    return f, (1.4, 0.5)


@case("pyransac3d")
def rotation_of_points() -> Built:
    from pyransac3d.aux_functions import rodrigues_rot
    return lambda p, n: np.sum(rodrigues_rot(p, n, np.array([0.0, 0.0, 1.0])) ** 3), (
        np.array([[1.0, 0.2, 0.3], [0.1, 1.1, 0.7]]), np.array([0.4, 0.5, 0.8]))


@case("pycpd")
def registered_points() -> Built:
    from pycpd import RigidRegistration
    x = np.random.default_rng(1).normal(size=(6, 2))
    return lambda y: np.sum(RigidRegistration(X=x, Y=y, max_iterations=4).register()[0] ** 2), (x * 1.1 + 0.2,)


@case("spatialmath-python")
def pose() -> Built:
    from spatialmath import SE3
    return lambda a, x: np.sum((SE3.Rx(a) * SE3.Trans(x, 0.2, 0.3) * SE3.Rz(0.4)).A) + SE3.Rx(a).rpy()[0], (0.5, 1.2)


@case("kinpy")
def robot_transform() -> Built:
    from kinpy import Transform
    return lambda a, x: np.sum((Transform(rot=[a, 0.2, 0.3], pos=[x, 0.0, 0.1]) * Transform(
        rot=[0.1, a, 0.0], pos=[0.3, 0.2, x])).matrix()), (0.5, 1.2)


@case("visual_kinematics")
def serial_robot() -> Built:
    from visual_kinematics.RobotSerial import RobotSerial
    dh = np.array([[0.163, 0.0, 0.5 * np.pi, 0.0], [0.0, 0.632, np.pi, 0.5 * np.pi], [0.2, 0.3, 0.0, 0.0]])
    return lambda q: np.sum(RobotSerial(dh).forward(q).t_4_4[:3, 3]), (np.array([0.3, -0.4, 0.7]),)


@case("squaternion")
def euler_angles() -> Built:
    from squaternion import Quaternion
    return lambda a, b: sum((Quaternion.from_euler(a, b, 0.3) * Quaternion.from_euler(0.1, 0.2, b)).to_euler()), (
        0.4, 0.7)


@case("kingdon")
def geometric_product() -> Built:
    from kingdon import Algebra
    algebra = Algebra(3)
    return lambda v: sum((algebra.vector(v) * algebra.vector([0.3, 1.0, 0.2])).values()), ([1.0, 0.5, 0.7],)


@case("stonesoup")
def coordinates_of_radar() -> Built:
    from stonesoup.functions import cart2sphere, gauss2sigma, rotx  # noqa: F401
    return lambda x, y: sum(cart2sphere(x, y, 2.0)) + np.sum(rotx(x)), (1.4, 0.5)


@case("choix")
def ranking_of_items() -> Built:
    import choix
    return lambda wins: np.sum(choix.lsr_pairwise_dense(wins, alpha=0.1) * np.array([1.0, 2.0, 3.0])), (
        np.array([[0.0, 2.0, 3.0], [1.0, 0.0, 2.5], [0.5, 1.5, 0.0]]),)


@case("elote")
def rating_after_bout() -> Built:
    from elote import EloCompetitor

    def f(a: float, b: float) -> float:
        one, two = EloCompetitor(initial_rating=a), EloCompetitor(initial_rating=b)
        one.beat(two)
        two.tied(one)
        return one.rating / 100 + one.expected_score(two)
    return f, (420.0, 500.0)


@case("nengo")
def tuning_of_neurons() -> Built:
    from nengo.neurons import LIF, Sigmoid
    x = np.linspace(-1, 1, 4)[:, None]
    return lambda gain, bias: LIF().rates(x, gain, bias).sum() / 100 + Sigmoid().rates(x, gain, bias).sum() / 100, (
        np.array([2.0, 3.0]), np.array([1.5, 1.1]))


@case("ladybug-core")
def wet_bulb() -> Built:
    from ladybug.psychrometrics import dew_point_from_db_rh, enthalpy_from_db_hr, humid_ratio_from_db_rh
    return lambda t, rh: dew_point_from_db_rh(t, rh) + enthalpy_from_db_hr(t, humid_ratio_from_db_rh(t, rh)) / 10, (
        24.0, 55.0)


@case("ladybug-comfort")
def comfort() -> Built:
    from ladybug_comfort.pmv import predicted_mean_vote
    from ladybug_comfort.utci import universal_thermal_climate_index
    return lambda t, rh: predicted_mean_vote(t, 24.0, 0.1, rh, 1.2, 0.7)["pmv"] + universal_thermal_climate_index(
        t, 26.0, 1.1, rh) / 10, (23.0, 50.0)


@case("ladybug-geometry")
def rotated_mesh() -> Built:
    from ladybug_geometry.geometry3d import Plane, Point3D, Vector3D
    return lambda x, a: Plane(Vector3D(0.3, x, 1.0), Point3D(0.0, 0.0, 0.2)).distance_to_point(
        Point3D(x, 1.0, 2.0).rotate(Vector3D(0, 0, 1), a, Point3D(0.1, 0, 0))), (0.8, 0.5)


@case("jos3")
def skin_of_body() -> Built:
    from jos3 import construction
    return lambda h, w: construction.bsa_rate(h, w) + construction.bfb_rate(h, w), (1.72, 74.0)


def float_of(x: object) -> object:
    """Return the only number of an array, or a number itself."""
    return np.ravel(x)[0] if np.ndim(x) else x  # type: ignore[arg-type, call-overload]
