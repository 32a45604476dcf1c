"""fifth: functions of further packages, and tutorials, chosen and written down before any of them was traced."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import datetime, timedelta

import numpy as np

from bench.corpus.case import CASES, Built, Case, case, script
from bench.drawn.numbers import WAVE, float_of, total


@case("colossus")
def luminosity_distance() -> Built:
    from colossus.cosmology import cosmology

    def f(h0: float, om: float, z: float) -> float:
        cosmo = cosmology.Cosmology(name="drawn", flat=True, H0=h0, Om0=om, Ob0=0.05, sigma8=0.8, ns=0.96,
                                    interpolation=False, persistence="")
        return cosmo.luminosityDistance(z) / 1e3
    return f, (70.0, 0.3, 0.8)


@case("colossus")
def nfw_profile() -> Built:
    from colossus.cosmology import cosmology
    from colossus.halo import profile_nfw
    cosmology.setCosmology("planck18")
    at = np.array([50.0, 200.0])
    return lambda rho, rs: np.log(profile_nfw.NFWProfile(rhos=rho, rs=rs).enclosedMass(at)).sum(), (1e7, 30.0)


@case("beyond")
def kepler_orbit() -> Built:
    from beyond.dates import Date
    from beyond.orbits import StateVector
    date = Date(2020, 1, 1)

    def f(a: float, e: float, mean: float) -> float:
        orbit = StateVector([a, e, 0.9, 0.3, 1.1, mean], date, "keplerian_mean", "EME2000")
        return total(list(orbit.copy(form="cartesian")[:3])) / 1e6
    return f, (7.2e6, 0.01, 0.7)


@case("beyond")
def lambert_transfer() -> Built:
    from beyond.utils.lambert import _lambert
    return lambda r0, days: total(list(_lambert(r0, np.array([-4e6, 1.1e7, 2e6]), timedelta(seconds=1) * 1.0 * days,
                                                3.986e14))) / 1e3, (np.array([7e6, 1e6, 3e5]), 4000.0)


@case("sunposition")
def sun_seen() -> Built:
    from sunposition import observed_sunposition
    return lambda lat, lon, t: total(observed_sunposition(t, lat, lon, 200.0, 12.0, 1010.0)) / 100, (
        48.2, 11.5, 1.6e9)


@case("solarpy")
def irradiance() -> Built:
    from solarpy import irradiance_on_plane
    date = datetime(2019, 7, 2, 10, 30)
    return lambda vnorm, h, lat: irradiance_on_plane(vnorm, h, date, lat) / 1e3, (
        np.array([0.0, -0.3, -0.9]), 300.0, 41.0)


@case("gammatone")
def filters_of_the_ear() -> Built:
    from gammatone.filters import centre_freqs, erb_filterbank, make_erb_filters
    fs = 4000.0
    coefs = make_erb_filters(fs, centre_freqs(fs, 4, 100.0))
    return lambda x: np.log((erb_filterbank(x, coefs) ** 2).mean(axis=1)).sum(), (WAVE,)


@case("speechpy")
def cepstral_coefficients() -> Built:
    from speechpy.feature import mfcc
    return lambda x: (mfcc(x, 800, frame_length=0.04, frame_stride=0.02, num_filters=8, num_cepstral=5,
                           fft_length=64) ** 2).sum() / 100, (WAVE + 0.01,)


@case("pyACA")
def spectral_features() -> Built:
    from pyACA.FeatureSpectralCentroid import FeatureSpectralCentroid
    from pyACA.FeatureSpectralSpread import FeatureSpectralSpread
    return lambda x: total([FeatureSpectralCentroid(np.abs(np.fft.rfft(x)), 1e3),
                            FeatureSpectralSpread(np.abs(np.fft.rfft(x)), 1e3)]) / 100, (WAVE,)


@case("mingus")
def tuned_note() -> Built:
    from mingus.containers import Note
    return lambda pitch: Note("G", 4).to_hertz(pitch) / 100 + Note("C", 3).to_hertz(pitch) / 100, (440.0,)


@case("nara-wpe")
def dereverberated() -> Built:
    from nara_wpe.wpe import wpe_v0
    rng = np.random.default_rng(3)
    y = rng.normal(size=(2, 2, 14)) + 1j * rng.normal(size=(2, 2, 14))
    return lambda a: (np.abs(wpe_v0(y * (1 + a * 1j), taps=2, delay=1, iterations=2)) ** 2).sum(), (0.3,)


@case("cirq-core")
def rotated_qubits() -> Built:
    import cirq
    q0, q1 = cirq.LineQubit.range(2)

    def f(a: float, b: float) -> float:
        circuit = cirq.Circuit(cirq.rx(a)(q0), cirq.CNOT(q0, q1), cirq.ry(b)(q1))
        state = cirq.unitary(circuit)[:, 0]
        return np.abs(state[1]) ** 2 + np.abs(state[2]) ** 2
    return f, (0.7, 0.4)


@case("tmm")
def thin_film() -> Built:
    from tmm import coh_tmm
    return lambda d, n, th: coh_tmm("s", [1, n, 2.1 + 0.1j, 1.5], [np.inf, d, 80.0, np.inf], th, 500.0)["R"], (
        90.0, 1.38, 0.3)


@case("tmm")
def ellipsometry() -> Built:
    from tmm import ellips
    return lambda d, n: ellips([1, n, 3.5 + 0.02j], [np.inf, d, np.inf], 1.1, 600.0)["psi"], (120.0, 1.46)


@case("ofiber")
def modes_of_fibre() -> Built:
    from ofiber import cylinder_step
    return lambda v: cylinder_step.LP_mode_value(v, 0, 1) + cylinder_step.MFR(v), (2.3,)


@case("ofiber")
def dispersion_of_glass() -> Built:
    from ofiber import refraction
    glass = refraction.glass(2)
    return lambda x: refraction.n_group(glass, x) + refraction.d2n(glass, x) * 1e-12, (1.3e-6,)


@case("pypolar")
def fresnel_reflection() -> Built:
    from pypolar import fresnel
    return lambda m, theta: fresnel.R_par(m, theta) + fresnel.T_per(m, theta), (1.5, 0.6)


@case("pypolar")
def ellipse_of_light() -> Built:
    from pypolar import jones

    def f(a: float, b: float) -> float:
        field = jones.op_retarder(a, 0.7) @ jones.field_linear(b)
        return jones.ellipse_azimuth(field) + jones.ellipticity_angle(field) + jones.intensity(field)
    return f, (0.4, 0.9)


@case("iadpython")
def turbid_slab() -> Built:
    import iadpython
    return lambda a, b: total(list(iadpython.Sample(a=a, b=b, g=0.5, n=1.4, quad_pts=4).rt())), (0.8, 1.2)


@case("laserbeamsize")
def focused_beam() -> Built:
    from laserbeamsize import gaussian
    return lambda w, s: 1e3 * gaussian.image_distance(w, 632e-9, s, 0.1) + gaussian.curvature(w, 632e-9, s), (3e-4, 0.4)


@case("mplstereonet")
def intersection_of_planes() -> Built:
    from mplstereonet import stereonet_math
    return lambda s, d: total([x[0] for x in stereonet_math.plane_intersection(s, d, 130.0, 50.0)]) / 10, (40.0, 30.0)


@case("apsg")
def geological_features() -> Built:
    from apsg import fol, lin
    return lambda a, b: lin(a, b).angle(fol(210, 55)) + lin(a, 20).angle(lin(100, b)), (140.0, 35.0)


@case("pygmm")
def shaking_of_ground() -> Built:
    import pygmm
    return lambda mag, dist: np.log(pygmm.CampbellBozorgnia2014(pygmm.Scenario(
        mag=mag, dist_jb=dist, dist_rup=dist, dist_x=dist, v_s30=400.0, dip=90.0, mechanism="SS", depth_tor=1.0,
        depth_hyp=8.0, width=10.0, region="california")).pga), (6.6, 20.0)  # 6.5 was a kink


@case("eqsig")
def response_spectrum() -> Built:
    from eqsig import sdof
    periods = np.array([0.2, 0.5])
    return lambda acc, xi: total([x.max() for x in sdof.pseudo_response_spectra(acc, 0.02, periods, xi)]), (WAVE, 0.05)


@case("pyrotd")
def oscillator() -> Built:
    import pyrotd
    freqs = np.fft.rfftfreq(64, 0.02)
    return lambda acc: (pyrotd.calc_oscillator_resp(freqs, np.fft.rfft(acc), 0.05, 3.0) ** 2).sum(), (WAVE,)


@case("liquepy")
def liquefaction() -> Built:
    from liquepy.trigger import boulanger_and_idriss_2014 as bi
    return lambda q, fc: bi.calc_crr_m7p5_from_qc1ncs(bi.calc_q_c1ncs(q, bi.calc_delta_q_c1n(q, fc))), (80.0, 12.0)


@case("geofound")
def bearing_capacity() -> Built:
    import geofound
    from geofound.models import FoundationRaft, Soil

    def f(phi: float, width: float) -> float:
        soil, raft = Soil(), FoundationRaft()
        soil.phi, soil.cohesion, soil.unit_dry_weight = phi, 5.0, 17000.0
        raft.length, raft.width, raft.depth = 8.0, width, 1.0
        return geofound.capacity_meyerhof_1963(soil, raft) / 1e6
    return f, (32.0, 3.0)


@case("groundhog")
def stress_under_load() -> Built:
    from groundhog.shallowfoundations.stressdistribution import stresses_rectangle, stresses_stripload
    return lambda z, q: stresses_stripload(z, 0.5, 2.0, q)["delta sigma z [kPa]"] / 10 + stresses_rectangle(
        q, 4.0, 3.0, z)["delta sigma z [kPa]"] / 10, (2.0, 100.0)


@case("pycwt")
def wavelet_power() -> Built:
    import pycwt
    return lambda x: (np.abs(pycwt.cwt(x, 0.1, 0.5, 0.2, 6, pycwt.Morlet(6))[0]) ** 2).mean(), (WAVE,)


@case("lmoments3")
def l_moments() -> Built:
    import lmoments3
    return lambda x: total(lmoments3.lmom_ratios(x, nmom=4)), (np.array([2.3, 0.1, 4.0, 1.2, 7.7, 3.1, 0.4]),)


@case("hydrostats")
def error_of_streamflow() -> Built:
    import hydrostats.metrics as hm
    seen = np.array([2.0, 4.1, 3.3, 7.2, 5.0])
    return lambda sim: hm.nse(sim, seen) + hm.kge_2012(sim, seen) + hm.d1(sim, seen) + hm.sa(sim, seen), (
        np.array([2.4, 3.9, 3.0, 6.1, 5.7]),)


@case("utide")
def astronomical_argument() -> Built:
    from utide.astronomy import ut_astron
    return lambda day: total(ut_astron(737000.0 + np.array([day, day + 1.0]))) / 1e3, (0.3,)  # it jumps once a day


@case("pyrtlib")
def humidity() -> Built:
    from pyrtlib import utils
    p, t = np.array([1000.0, 850.0, 700.0]), np.array([290.0, 281.0, 270.0])
    return lambda mr: total(utils.mr2rh(p, t, mr)[0]) + total(utils.mr2e(p, mr)), (np.array([8.0, 5.0, 2.0]),)


@case("nvector")
def distance_on_ellipsoid() -> Built:
    import nvector as nv

    def f(lat: float, lon: float) -> float:
        a, b = nv.lat_lon2n_E(lat, lon), nv.lat_lon2n_E(0.8, 0.2)
        return total(nv.great_circle_distance(a, b, radius=6.4)) + total(nv.n_EA_E_and_n_EB_E2p_AB_E(a, b)) / 1e6
    return f, (0.7, 0.3)


@case("turfpy")
def length_of_route() -> Built:
    from geojson import Feature, Point
    from turfpy.measurement import bearing, distance

    def f(lon: float, lat: float) -> float:
        a, b = (Feature(geometry=Point(at, precision=15)) for at in ((lon, lat), (-75.5, 39.1)))
        return distance(a, b) / 100 + bearing(a, b) / 100
    return f, (-75.3, 39.9)


@case("structuralcodes")
def creep_of_concrete() -> Built:
    from structuralcodes.codes import ec2_2004 as ec
    return lambda fcm, rh: ec.phi_0(ec.phi_RH(200.0, fcm, rh, 0.9, 0.95), ec.beta_fcm(fcm), ec.beta_t0(28.0)) + 1e3 * (
        ec.eps_cd_0(ec.alpha_ds1("N"), ec.alpha_ds2("N"), fcm, ec.beta_RH(rh))), (38.0, 60.0)


@case("structuralcodes")
def section_of_concrete() -> Built:
    from structuralcodes.codes import mc2010
    return lambda fck: mc2010.fctm(fck) + mc2010.Eci(mc2010.fcm(fck)) / 1e4 + mc2010.Gf(fck), (35.0,)


@case("FLife")
def fatigue_damage() -> Built:
    from FLife import SpectralData
    from FLife.freq_domain.dirlik import Dirlik
    f = np.linspace(1.0, 50.0, 40)
    return lambda psd: np.log(Dirlik(SpectralData(input=(psd, f))).get_life(C=1.8e22, k=7.3)), (
        np.exp(-((f - 20) / 6) ** 2) + 0.1,)


@case("fatpack")
def miner_sum() -> Built:
    import fatpack

    def f(series: np.ndarray, stress: float) -> float:
        curve = fatpack.LinearEnduranceCurve(stress)
        return curve.find_miner_sum(np.column_stack([fatpack.find_rainflow_ranges(series * 90, k=64),
                                                     np.ones(len(fatpack.find_rainflow_ranges(series * 90, k=64)))]))
    return f, (WAVE, 60.0)


@case("rainflow")
def counted_cycles() -> Built:
    import rainflow
    return lambda x: sum(count * r ** 3 for r, mean, count, i, j in rainflow.extract_cycles(x)), (WAVE,)


@case("solidspy")
def element_stiffness() -> Built:
    from solidspy.uelutil import uel4nquad
    return lambda coord, e: (uel4nquad(coord, 0.3, e) ** 2).sum() ** 0.5, (
        np.array([[0.0, 0.0], [1.1, 0.1], [1.2, 0.9], [-0.1, 1.0]]), 2.1)


@case("fipy")
def diffusion_of_heat() -> Built:
    import fipy

    def f(d: float, top: float) -> float:
        mesh = fipy.Grid1D(nx=6, dx=0.2)
        phi = fipy.CellVariable(mesh=mesh, value=0.0)
        phi.constrain(top, mesh.facesLeft)
        (fipy.TransientTerm() == fipy.DiffusionTerm(coeff=d)).solve(var=phi, dt=0.1)
        return phi.value[2]
    return f, (0.8, 1.5)


@case("nutils")
def evaluated_function() -> Built:
    from nutils import numeric
    return lambda a: (numeric.ext(a) ** 2).sum() + numeric.contract(a, a[::-1], (0, 1)).sum(), (
        np.array([[1.0, 0.2], [0.3, 2.0], [0.7, 0.4]]),)


@case("aerocalc3")
def standard_atmosphere() -> Built:
    from aerocalc3 import airspeed, std_atm
    return lambda h, v: std_atm.alt2press(h) + airspeed.cas2tas(v, h) / 100 + std_atm.alt2density_ratio(h), (
        21000.0, 210.0)


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
    x, y = np.array([0.5, 1.0, 2.0, 5.0, 10.0]), np.array([0.02, 0.024, 0.03, 0.034, 0.036])
    return lambda tau: NelsonSiegelInterpolator(tau=tau).fit(x, y).beta0 * 100, (1.4,)


@case("actuarialmath")
def makeham() -> Built:
    from actuarialmath import Makeham
    return lambda b, c: Makeham(A=0.00022, B=b, c=c).p_x(60, t=10) + 100 * Makeham(A=0.00022, B=b, c=c).mu_x(70), (
        2.7e-6, 1.124)


@case("pyliferisk")
def annuity() -> Built:
    import pyliferisk
    deaths = [0] + [10.0 + 0.5 * i ** 2 for i in range(60)]

    def f(rate: float) -> float:
        mt = pyliferisk.Actuarial(nt=deaths, i=rate)
        return pyliferisk.ax(mt, 5) + pyliferisk.Ax(mt, 10) + pyliferisk.px(mt, 3)
    return f, (0.03,)


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


importlib.import_module("bench.drawn.fifth_more")
tutorials = importlib.import_module("bench.drawn.tutorials")
for module in sorted(pkgutil.iter_modules(tutorials.__path__), key=lambda module: module.name):
    CASES[f"tutorial/{module.name}"] = Case(f"tutorial/{module.name}", "script", lambda main=(  # type: ignore[misc]
        f"{tutorials.__name__}.{module.name}.main"): script(main))
