"""fourth: 49 functions of 45 further packages, chosen by name and written down before any of them was traced."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case

T = np.linspace(0.0, 1.0, 40)
A = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.1]])


@case("pyloudnorm")
def loudness() -> Built:
    import pyloudnorm
    x = np.sin(2 * np.pi * 440.0 * np.arange(48000) / 48000.0)
    meter = pyloudnorm.Meter(48000)
    return lambda gain: meter.integrated_loudness(gain * x), (0.5,)


@case("mir_eval")
def separation_ratio() -> Built:
    from mir_eval.separation import bss_eval_sources
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(1, 600))
    noise = rng.normal(size=(1, 600))
    return lambda a: bss_eval_sources(clean, clean + a * noise, compute_permutation=False)[0][0], (0.3,)


@case("scikit-rf")
def matched_line() -> Built:
    import skrf
    frequency = skrf.Frequency(1.0, 2.0, 3, unit="GHz")
    line = skrf.media.DefinedGammaZ0(frequency, z0=50.0, gamma=1j * 30.0)
    return lambda r, d: (np.abs((line.line(d, "m") ** line.resistor(r) ** line.short()).s) ** 2).sum(), (30.0, 0.02)


@case("arlpy")
def speed_of_sound_in_water() -> Built:
    from arlpy import uwa
    return lambda t, s, d: uwa.soundspeed(t, s, d) / 1e3 + uwa.absorption(5e4, 100.0, t, s, d), (15.0, 34.0, 20.0)


@case("scikit-commpy")
def raised_cosine() -> Built:
    from commpy.filters import rrcosfilter
    return lambda alpha: (rrcosfilter(16, alpha, 1.0, 7.3)[1] ** 2).sum(), (0.35,)


@case("scikit-dsp-comm")
def shaped_pulse() -> Built:
    from sk_dsp_comm import digitalcom
    return lambda alpha: (digitalcom.sqrt_rc_imp(4, alpha, 3) ** 2).sum() + digitalcom.q_fctn(alpha), (0.35,)


@case("seawater")
def density_of_seawater() -> Built:
    import seawater
    return lambda s, t, p: seawater.dens(s, t, p) / 1e3, (35.0, 12.0, 900.0)


@case("seawater")
def sound_in_seawater() -> Built:
    import seawater
    return lambda s, t, p: seawater.svel(s, t, p) / 1e3 + seawater.ptmp(s, t, p), (35.0, 12.0, 900.0)


@case("pyromat")
def enthalpy_of_gas() -> Built:
    import pyromat
    air = pyromat.get("ig.air")
    return lambda temperature: float_of(air.h(temperature)) / 1e2 + float_of(air.cp(temperature)), (612.0,)


@case("geoana")
def dipole_field() -> Built:
    from geoana.em.static import MagneticDipoleWholeSpace
    at = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    return lambda moment, z: (MagneticDipoleWholeSpace(
        location=np.array([0.0, 0.0, z]), moment=moment).magnetic_flux_density(at) ** 2).sum() * 1e16, (3.0, -0.4)


@case("geoana")
def gravity_of_sphere() -> Built:
    from geoana.gravity import Sphere
    at = np.array([[1.0, 2.0, 3.0], [4.0, -1.0, 2.0]])
    return lambda radius, rho: Sphere(radius, rho=rho).gravitational_potential(at).sum() * 1e10, (0.7, 2.1)


@case("verde")
def trend_of_surface() -> Built:
    import verde
    rng = np.random.default_rng(1)
    east, north = rng.uniform(size=(2, 12))
    return lambda data: verde.Trend(degree=1).fit((east, north), data).predict((0.4, 0.6)).sum(), (rng.normal(size=12),)


@case("dust_extinction")
def extinction_curve() -> Built:
    from dust_extinction.parameter_averages import CCM89
    return lambda rv: CCM89(Rv=rv).evaluate(np.array([1.5, 2.5, 4.0]), rv).sum(), (3.1,)


@case("tensornetwork")
def contracted_network() -> Built:
    import tensornetwork as tn

    def f(a: np.ndarray, b: np.ndarray) -> float:
        x, y, z = tn.Node(a), tn.Node(b), tn.Node(A)
        x[1] ^ y[0]
        y[1] ^ z[0]
        z[1] ^ x[0]
        return (x @ y @ z).tensor
    return f, (A + 0.3, A * A)


@case("toqito")
def purity_of_state() -> Built:
    from toqito.state_props import purity
    return lambda p: purity(np.array([[p, 0.1], [0.1, 1 - p]])), (0.3,)


@case("toqito")
def entropy_of_state() -> Built:
    from toqito.state_props import von_neumann_entropy
    return lambda p: von_neumann_entropy(np.array([[p, 0.1], [0.1, 1 - p]])), (0.3,)


@case("pygsp")
def filtered_signal() -> Built:
    from pygsp import filters, graphs
    graph = graphs.Ring(N=12)
    graph.estimate_lmax()
    signal = np.cos(np.arange(12.0))
    return lambda tau: (filters.Heat(graph, tau).filter(signal, method="exact") ** 2).sum(), (3.0,)


@case("niapy")
def benchmark_problem() -> Built:
    from niapy.problems import Ackley, Griewank
    return lambda x: Ackley(dimension=3).evaluate(x) + Griewank(dimension=3).evaluate(x), (np.array([0.3, -1.2, 2.0]),)


@case("opfunu")
def composed_benchmark() -> Built:
    from opfunu.cec_based import F12014
    problem = F12014(ndim=10)
    return lambda x: problem.evaluate(x) / 1e8, (np.linspace(-20.0, 30.0, 10),)


@case("pyfeng")
def price_of_sabr() -> Built:
    import pyfeng as pf
    return lambda sigma, rho: pf.SabrHagan2002(sigma, vov=0.4, rho=rho, beta=0.5).price(
        np.array([90.0, 100.0, 110.0]), 100.0, 1.2).sum(), (2.0, -0.25)


@case("trueskill")
def skill_after_match() -> Built:
    import trueskill

    def f(mu: float, sigma: float) -> float:
        a, b = trueskill.rate_1vs1(trueskill.Rating(mu, sigma), trueskill.Rating(27.0, 5.0))
        return a.mu + b.sigma
    return f, (25.0, 7.0)


@case("openskill")
def skill_of_teams() -> Built:
    from openskill.models import PlackettLuce

    def f(mu: float, sigma: float) -> float:
        model = PlackettLuce()
        (a,), (b,) = model.rate([[model.rating(mu=mu, sigma=sigma)], [model.rating(mu=27.0, sigma=5.0)]])
        return a.mu + b.sigma
    return f, (25.0, 7.0)


@case("geomstats")
def distance_on_sphere() -> Built:
    from geomstats.geometry.hypersphere import Hypersphere
    sphere = Hypersphere(dim=2)
    target = np.array([0.0, 0.6, 0.8])
    return lambda x: sphere.metric.squared_dist(sphere.projection(x), target), (np.array([0.5, -0.2, 0.9]),)


@case("pybotics")
def forward_kinematics() -> Built:
    from pybotics.predefined_models import ur10
    from pybotics.robot import Robot
    robot = Robot.from_parameters(ur10())
    return lambda q: (robot.fk(q)[:3, 3] ** 2).sum() / 1e6, (np.array([0.1, -0.7, 0.9, 0.2, -0.4, 0.5]),)


@case("opensimplex")
def simplex_noise() -> Built:
    from opensimplex import OpenSimplex
    noise = OpenSimplex(seed=4)
    return lambda x, y: noise.noise2(x, y), (0.31, 0.74)


@case("vg")
def angle_between_vectors() -> Built:
    import vg
    return lambda v: vg.angle(v, np.array([0.3, -0.2, 1.0]), look=vg.basis.z) + vg.magnitude(vg.reject(
        v, from_v=vg.basis.x)), (np.array([1.0, 2.0, -0.5]),)


@case("polliwog")
def distance_to_plane() -> Built:
    from polliwog import Plane
    return lambda p, n: Plane(np.array([0.1, 0.2, 0.3]), n / np.linalg.norm(n)).signed_distance(p), (
        np.array([1.0, 2.0, 3.0]), np.array([0.5, -0.2, 1.0]))


@case("similaritymeasures")
def area_between_curves() -> Built:
    from similaritymeasures import area_between_two_curves, frechet_dist
    seen = np.column_stack([T, np.sin(3 * T)])

    def f(a: float, b: float) -> float:
        curve = np.column_stack([T, a * np.sin(b * T)])
        return area_between_two_curves(seen, curve) + frechet_dist(seen, curve)
    return f, (1.3, 2.8)


@case("pygam")
def fitted_spline() -> Built:
    from pygam import LinearGAM, s
    x = T[:, None]

    def f(y: np.ndarray) -> float:
        return LinearGAM(s(0, n_splines=6)).fit(x, y).predict(x[10:12]).sum()
    return f, (np.sin(5 * T) + 0.1 * np.cos(30 * T),)


@case("mlxtend")
def linear_regression() -> Built:
    from mlxtend.regressor import LinearRegression
    x = np.column_stack([T, T ** 2])
    return lambda y: LinearRegression(method="svd").fit(x, y).predict(x[3:5]).sum(), (np.sin(5 * T),)


@case("EoN")
def epidemic() -> Built:
    import EoN
    return lambda tau, gamma: EoN.SIR_homogeneous_meanfield(
        90.0, 10.0, 0.0, 5.0, tau, gamma, tmin=0.0, tmax=5.0, tcount=11)[2][-1], (0.06, 0.4)


@case("pyteomics")
def mass_of_peptide() -> Built:
    from pyteomics import electrochem, mass
    return lambda ph: electrochem.charge("PEPTIDEK", ph) + mass.fast_mass("PEPTIDEK", charge=2) / 1e3, (6.3,)


@case("biopython")
def superposition() -> Built:
    from Bio.SVDSuperimposer import SVDSuperimposer
    fixed = np.random.default_rng(2).normal(size=(5, 3))

    def f(moving: np.ndarray) -> float:
        fit = SVDSuperimposer()
        fit.set(fixed, moving)
        fit.run()
        return fit.get_rms()
    return f, (fixed[:, ::-1] + 0.2,)


@case("biopython")
def dihedral_angle() -> Built:
    from Bio.PDB.vectors import Vector, calc_dihedral
    return lambda x, y: calc_dihedral(Vector(0.0, 0.1, 0.3), Vector(1.0, 0.2, 0.0), Vector(1.2, 1.0, 0.4),
                                      Vector(x, y, 1.0)), (2.0, 1.5)


@case("anaflow")
def drawdown_of_well() -> Built:
    from anaflow import theis
    return lambda transmissivity, storage: theis(np.array([10.0, 100.0]), np.array([1.0, 5.0]), storage,
                                                 transmissivity, rate=-1e-4).sum(), (1e-4, 1e-3)


@case("pycba")
def moment_of_beam() -> Built:
    import pycba as cba

    def f(stiffness: float, load: float) -> float:
        beam = cba.BeamAnalysis(np.array([7.5, 7.0]), stiffness * np.ones(2), np.array([-1, 0, -1, 0, -1, 0]))
        beam.add_udl(1, load)
        beam.analyze()
        return beam.beam_results.results.M.max() + 1e3 * np.abs(beam.beam_results.results.D).max()
    return f, (3e4, 20.0)


@case("composipy")
def stiffness_of_laminate() -> Built:
    from composipy import LaminateProperty, OrthotropicMaterial

    def f(e1: float, thickness: float) -> float:
        ply = OrthotropicMaterial(e1, 8.9e3, 0.3, 4.5e3, thickness)
        return (LaminateProperty([45, -45, 0, 90], ply).ABD ** 2).sum() / 1e10
    return f, (1.4e5, 0.125)


@case("simple-pid")
def controlled_tank() -> Built:
    from simple_pid import PID

    def f(kp: float, ki: float) -> float:
        pid, level = PID(kp, ki, 0.05, setpoint=1.0, sample_time=None, output_limits=(0.0, 5.0)), 0.0
        for _ in range(20):
            level += 0.1 * (pid(level, dt=0.1) - 0.4 * level)
        return (level - 1.0) ** 2 + level
    return f, (1.1, 0.3)


@case("scikit-fuzzy")
def defuzzified() -> Built:
    import skfuzzy
    x = np.linspace(0.0, 10.0, 101)
    return lambda a, b: skfuzzy.defuzz(x, np.fmin(skfuzzy.gaussmf(x, a, 1.5), skfuzzy.sigmf(x, b, 2.0)), "centroid"), (
        4.0, 3.2)


@case("radvel")
def radial_velocity() -> Built:
    from radvel.kepler import rv_drive
    t = np.linspace(0.0, 20.0, 9)
    return lambda orbit: (rv_drive(t, orbit, use_c_kepler_solver=False) ** 2).sum() / 1e3, (
        np.array([7.3, 1.2, 0.2, 0.5, 12.0]),)


@case("PyMieScatt")
def scattering_of_sphere() -> Built:
    from PyMieScatt import MieQ
    return lambda n, diameter: sum(MieQ(n + 0.02j, 532.0, diameter)[:3]), (1.5, 310.0)


@case("refet")
def evaporation() -> Built:
    import refet
    return lambda tmax, rs: refet.Daily(tmin=10.0, tmax=tmax, ea=1.2, rs=rs, uz=1.9, zw=3.0, elev=300.0, lat=39.0,
                                        doy=182).etr()[0] / 10, (32.0, 24.0)


@case("nolds")
def hurst_exponent() -> Built:
    import nolds
    x = np.sin(np.arange(60.0)) + 0.3 * np.cos(2.3 * np.arange(60.0))
    return lambda a: nolds.hurst_rs(x + a * x ** 2, fit="poly", corrected=False), (0.2,)


@case("simdkalman")
def smoothed_trend() -> Built:
    import simdkalman
    data = np.cumsum(np.sin(np.arange(15.0)))[None]

    def f(q: float, r: float) -> float:
        kalman = simdkalman.KalmanFilter(state_transition=np.array([[1.0, 1.0], [0.0, 1.0]]),
                                         process_noise=np.diag([0.1, 0.01]) * q,
                                         observation_model=np.array([[1.0, 0.0]]), observation_noise=r)
        return kalman.smooth(data).observations.mean[0, 4]
    return f, (1.0, 2.0)


@case("powerlaw")
def likelihood_of_tail() -> Built:
    import powerlaw
    data = np.array([1.3, 2.2, 4.1, 8.7, 3.3, 1.9, 12.0])
    return lambda alpha: powerlaw.Power_Law(xmin=1.0, parameters=[alpha]).loglikelihoods(data).sum(), (2.4,)


@case("smt")
def kriging() -> Built:
    from smt.surrogate_models import IDW
    x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])

    def f(y: np.ndarray) -> float:
        model = IDW(p=2, print_global=False)
        model.set_training_values(x, y)
        model.train()
        return model.predict_values(np.array([[1.3]]))[0, 0]
    return f, (np.array([0.0, 1.0, 1.5, 0.9, 1.0]),)


@case("itur")
def rain_attenuation() -> Built:
    from itur.models import itu838
    return lambda rate, elevation: float_of(itu838.rain_specific_attenuation(rate, 22.5, elevation, 45.0).value), (
        20.0, 31.0)


@case("glicko2")
def rating_after_games() -> Built:
    import glicko2

    def f(rating: float, deviation: float) -> float:
        player = glicko2.Player(rating=rating, rd=deviation)
        player.update_player([1400.0, 1550.0], [30.0, 100.0], [1, 0])
        return player.rating / 1e3 + player.rd / 1e2
    return f, (1500.0, 200.0)


@case("pyeto")
def reference_evapotranspiration() -> Built:
    import pyeto
    return lambda t, ws: pyeto.fao56_penman_monteith(12.0, t, ws, pyeto.svp_from_t(t - 273.15), 1.4,
                                                     pyeto.delta_svp(t - 273.15), 0.066), (293.0, 2.1)


def float_of(x: object) -> object:
    """Return the only number of an array, or a number itself."""
    return np.ravel(x)[0] if np.ndim(x) else x  # type: ignore[arg-type, call-overload]
