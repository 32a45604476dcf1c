"""Further functions of the fifth list."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case
from bench.drawn.numbers import WAVE, T, float_of


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
    return lambda x: EntropyHub.FuzzEn(x, m=2, r=(0.2, 2.0))[0][-1] + EntropyHub.CoSiEn(x)[0], (WAVE[:30],)


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
    return lambda r, g: sum(sRGB(r, g, 0.35).hclab()[:3]) / 100, (0.4, 0.7)


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
    x = np.linspace(-1, 1, 8).reshape(4, 2)
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


@case("refnx")
def reflectivity() -> Built:
    from refnx.reflect import use_reflect_backend
    q = np.linspace(0.01, 0.2, 8)

    def f(layers: np.ndarray) -> float:
        with use_reflect_backend("py_parratt") as reflect:
            return np.log(reflect(q, layers)).sum() / 10
    return f, (np.array([[0.0, 0.1, 0.1, 0.1], [80.0, 3.4, 0.01, 3.0], [60.0, 1.4, 0.02, 4.0], [1.0, 2.07, 0.1, 5.0]]),)


@case("bumps")
def chebyshev_profile() -> Built:
    from bumps import bspline, cheby
    return lambda c, k: cheby.cheby_val(c, np.array([0.2, 0.7])).sum() + bspline.bspline(
        k, np.array([0.2, 0.7])).sum(), (np.array([0.2, 0.7, -0.3]), np.array([1.0, 2.0, 0.5, 1.5, 0.7]))


@case("impedance")
def circuit_fitted() -> Built:
    from impedance.models.circuits import CustomCircuit
    frequencies = np.array([0.1, 10.0, 1e3])
    return lambda guess: np.abs(CustomCircuit("R0-p(R1,C1)-W1", initial_guess=list(guess)).predict(
        frequencies, use_initial=True)).sum(), (np.array([0.1, 0.2, 0.05, 0.3]),)


@case("pyiast")
def mixture_adsorbed() -> Built:
    import pandas as pd
    import pyiast
    frame = pd.DataFrame({"p": [0.1, 0.5, 1.0, 2.0, 4.0], "q": [0.4, 1.5, 2.3, 3.2, 3.9]})
    one = pyiast.ModelIsotherm(frame, "q", "p", model="Langmuir")
    two = pyiast.ModelIsotherm(frame.assign(q=frame.q / 2), "q", "p", model="Langmuir")
    return lambda p: np.sum(pyiast.iast(p, [one, two]) * np.array([1.0, 2.0])), (np.array([0.6, 0.9]),)


@case("heartpy")
def poincare_plot() -> Built:
    from heartpy.analysis import calc_poincare
    mask = np.zeros(6)
    return lambda rr: sum(calc_poincare(rr, mask, {}, {"RR_list": rr, "RR_masklist": mask})[key]
                          for key in ("sd1", "sd1/sd2")), (
        np.array([810.0, 790.0, 820.0, 850.0, 805.0, 795.0]),)


@case("nmrglue")
def processed_signal() -> Built:
    import nmrglue as ng
    x = WAVE + 1j * WAVE[::-1]
    return lambda lb, p: (ng.proc_base.ps(ng.proc_base.fft(ng.proc_base.em(x, lb=lb)), p0=p).real ** 2).sum(), (
        0.05, 20.0)


@case("ncon")
def contracted_network() -> Built:
    from ncon import ncon
    return lambda a, b: ncon([a, b, a], [[1, 2], [2, 3], [3, 1]]) + ncon([a, b], [[-1, 1], [1, -2]]).sum(), (
        np.array([[1.0, 0.2], [0.3, 0.7]]), np.array([[0.5, 0.1], [0.4, 1.2]]))


@case("teneva")
def tensor_train() -> Built:
    import teneva
    train = teneva.rand([3, 4, 3], 2, seed=3)
    return lambda core: teneva.norm(teneva.add([core, *train[1:]], train)) + teneva.mean(teneva.mul(
        [core, *train[1:]], train)), (train[0],)


@case("persim")
def distance_of_diagrams() -> Built:
    import persim
    other = np.array([[0.1, 0.9], [0.3, 0.5]])
    return lambda d: persim.heat(d, other) + persim.sliced_wasserstein(d, other, M=8), (
        np.array([[0.21, 1.13], [0.42, 0.71], [0.14, 0.33]]),)


@case("pylops")
def operators() -> Built:
    import pylops
    return lambda x, a: np.sum((pylops.FirstDerivative(12) * x) ** 2) + np.sum(
        pylops.Diagonal(a * np.ones(12)).H * (pylops.SecondDerivative(12) @ x) * x), (WAVE[:12], 0.6)


@case("pyproximal")
def proximal_point() -> Built:
    import pyproximal
    return lambda x, s: np.sum(pyproximal.L1(sigma=s).prox(x, 0.4) ** 2) + np.sum(
        pyproximal.Huber(alpha=0.3).prox(x, s) * np.arange(4)), (np.array([0.9, -1.4, 0.1, 2.0]), 0.7)


@case("pyfao56")
def crop_evapotranspiration() -> Built:
    from pyfao56.refet import ascedaily
    return lambda t, rs: ascedaily("S", 361.0, 33.0, 182, rs, t, 18.0, tdew=12.0, wndsp=2.1), (33.0, 24.0)


@case("radioactivedecay")
def decayed_inventory() -> Built:
    import radioactivedecay as rd
    return lambda n, t: sum(rd.Inventory({"Mo-99": n}, "num").decay(t, "h").contents.values()) * 2 + (
        rd.Inventory({"Mo-99": n}, "num").decay(t, "h").contents["Tc-99m"]), (2.0, 20.0)


@case("probnum")
def mean_of_kernel() -> Built:
    from probnum.randprocs.kernels import ExpQuad, Matern
    return lambda ell, x: ExpQuad((1,), lengthscales=ell).matrix(x[:, None]).sum() + Matern(
        (1,), nu=1.5, lengthscales=ell).matrix(x[:, None]).sum(), (0.7, np.array([0.1, 0.5, 1.3]))
