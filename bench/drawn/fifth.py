"""fifth: functions of further packages, and tutorials, chosen and written down before any of them was traced."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import datetime, timedelta

import numpy as np

from bench.corpus.case import CASES, Built, Case, case, script

T = np.linspace(0.0, 1.0, 64)
WAVE = np.sin(2 * np.pi * 5 * T) + 0.3 * np.cos(2 * np.pi * 11 * T)


def total(x: object) -> object:
    """Return the sum of numbers of any nesting."""
    return sum(map(total, x)) if isinstance(x, (list, tuple)) else np.sum(x)  # type: ignore[call-overload]


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


@case("acoustics")
def absorption_of_air() -> Built:
    from acoustics.atmosphere import Atmosphere
    return lambda t, rh: (Atmosphere(temperature=t, relative_humidity=rh).attenuation_coefficient(
        np.array([250.0, 1000.0, 4000.0])) * 1e3).sum(), (291.0, 55.0)


@case("acoustics")
def reverberation() -> Built:
    from acoustics.room import t60_eyring, t60_fitzroy
    s = np.array([20.0, 20.0, 15.0, 15.0, 12.0, 12.0])
    return lambda alpha, v: t60_eyring(s, alpha, v) + t60_fitzroy(s, alpha, v), (np.full(6, 0.2), 60.0)


@case("acoustics")
def reflection_at_ground() -> Built:
    from acoustics.reflection import Boundary
    tones = np.array([500.0, 1000.0])
    return lambda sigma, angle: np.abs(Boundary(tones, sigma, angle=angle).reflection_factor).sum(), (2e4, 0.7)


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


@case("opticspy")
def retarded_light() -> Built:
    from opticspy import jones
    return lambda w: total(np.abs(np.asarray(jones.Birefringence(w, 0.2).matrix)[:, 0]
                                  * np.exp(1j * w) + 1) ** 2), (0.8,)


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


@case("burnman")
def equation_of_state() -> Built:
    from burnman.eos import birch_murnaghan, vinet

    def f(v: float, k: float) -> float:
        params = {"V_0": 11.2e-6, "K_0": k, "Kprime_0": 4.1, "P_0": 0.0}
        return birch_murnaghan.birch_murnaghan(11.2e-6 / v, params) / 1e9 + vinet.vinet(v / 11.2e-6, params) / 1e9
    return f, (10.1e-6, 160e9)


@case("burnman")
def periclase() -> Built:
    from burnman import minerals
    periclase = minerals.SLB_2011.periclase()

    def f(p: float, t: float) -> float:
        periclase.set_state(p, t)
        return periclase.rho / 1e3 + periclase.alpha * 1e5
    return f, (25e9, 1500.0)


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
        depth_hyp=8.0, width=10.0, region="california")).pga), (6.5, 20.0)


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
    return lambda q, fc: bi.calc_crr_m7p5_from_qc1ncs(bi.calc_q_c1n_cs(q, bi.calc_delta_q_c1n(q, fc))), (80.0, 12.0)


@case("geofound")
def bearing_capacity() -> Built:
    import geofound

    def f(phi: float, width: float) -> float:
        soil, raft = geofound.Soil(), geofound.FoundationRaft()
        soil.phi, soil.cohesion, soil.unit_dry_weight = phi, 5.0, 17000.0
        raft.length, raft.width, raft.depth, raft.i_ww, raft.i_ll = 8.0, width, 1.0, 1.0, 1.0
        return geofound.capacity_meyerhof_1963(soil, raft) / 1e6
    return f, (32.0, 3.0)


@case("groundhog")
def stress_under_load() -> Built:
    from groundhog.shallowfoundations.stressdistribution import stresses_rectangle, stresses_stripload
    return lambda z, q: stresses_stripload(z, 0.5, 2.0, q)["delta sigma z [kPa]"] / 10 + stresses_rectangle(
        q, 4.0, 3.0, z)["delta sigma z [kPa]"] / 10, (2.0, 100.0)


@case("groundhog")
def consolidation() -> Built:
    from groundhog.consolidation.dissipation.onedimensionalconsolidation import consolidation_degree
    return lambda t, cv: consolidation_degree(t, cv, 2.0)["U [pct]"] / 10, (31.0e6, 1.5)


@case("pycwt")
def wavelet_power() -> Built:
    import pycwt
    return lambda x: (np.abs(pycwt.cwt(x, 0.1, 0.5, 0.2, 6, pycwt.Morlet(6))[0]) ** 2).mean(), (WAVE,)


@case("atmos")
def moist_air() -> Built:
    import atmos
    return lambda t, rh: atmos.calculate("Tv", T=t, RH=rh, p=9e4) / 100 + atmos.calculate("qv", T=t, RH=rh, p=9e4), (
        290.0, 60.0)


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
    return lambda day: total(ut_astron(np.array([day, day + 1.0]))) / 1e3, (737000.3,)


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
    from turfpy.measurement import destination

    def f(lon: float, lat: float) -> float:
        from geojson import Feature, Point
        there = destination(Feature(geometry=Point((lon, lat))), 50.0, 90.0, {"units": "mi"})
        return total(there["geometry"]["coordinates"])
    return f, (-75.3, 39.9)


@case("geog")
def course_of_ship() -> Built:
    import geog
    return lambda p, q: geog.distance(p, q) / 1e5 + geog.course(p, q) + total(geog.propagate(p, 30.0, 1e5)), (
        np.array([11.0, 48.0]), np.array([13.4, 52.5]))


@case("lamberthub")
def transfer_orbit() -> Built:
    from lamberthub import gooding1990, izzo2015
    r2 = np.array([-14600.0, 2500.0, 7000.0])
    return lambda r1, tof: total(izzo2015(398600.4418, r1, r2, tof)) + total(gooding1990(398600.4418, r1, r2, tof)), (
        np.array([5000.0, 10000.0, 2100.0]), 3600.0)


@case("structuralcodes")
def creep_of_concrete() -> Built:
    from structuralcodes.codes import ec2_2004 as ec
    return lambda fcm, rh: ec.phi_0(ec.phi_RH(200.0, fcm, rh, 0.9, 0.95), ec.beta_fcm(fcm), ec.beta_t0(28.0)) + 1e3 * (
        ec.eps_cd_0("N", fcm, rh)), (38.0, 60.0)


@case("structuralcodes")
def section_of_concrete() -> Built:
    from structuralcodes.codes import mc2010
    return lambda fck: mc2010.fctm(fck) + mc2010.Eci(mc2010.fcm(fck)) / 1e4 + mc2010.Gf(fck), (35.0,)


@case("vibration_toolbox")
def free_vibration() -> Built:
    import vibration_toolbox as vtb
    return lambda m, c, k: (vtb.sdof._rk4(m, c, k, 1.0, 0.2, 12, 0.1)[1][:, 0] ** 2).sum(), (1.0, 0.2, 3.0)


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
    return lambda a: numeric.contract(numeric.ext(a[:, 0])[..., None], numeric.ext(a[:, 1])[..., None], (0, 1)).sum(), (
        np.array([[1.0, 0.2], [0.3, 2.0], [0.7, 0.4]]),)


@case("harold")
def step_of_system() -> Built:
    import harold
    return lambda a, b: harold.haroldpolymul(np.array([1.0, a, b]), np.array([b, 1.0])).sum() + abs(
        harold.Transfer([1.0], [1.0, a, b]).dcgain), (0.8, 2.0)


@case("aerocalc3")
def standard_atmosphere() -> Built:
    from aerocalc3 import airspeed, std_atm
    return lambda h, v: std_atm.alt2press(h) + airspeed.cas2tas(v, h) / 100 + std_atm.alt2density_ratio(h), (
        21000.0, 210.0)


importlib.import_module("bench.drawn.fifth_more")
tutorials = importlib.import_module("bench.drawn.tutorials")
for module in sorted(pkgutil.iter_modules(tutorials.__path__), key=lambda module: module.name):
    CASES[f"tutorial/{module.name}"] = Case(f"tutorial/{module.name}", "script", lambda main=(  # type: ignore[misc]
        f"{tutorials.__name__}.{module.name}.main"): script(main))
