"""first: 31 functions of 27 packages, written down before any was traced."""

from __future__ import annotations

import datetime

import numpy as np

from bench.corpus.case import Built, case

DAY = datetime.datetime(2024, 3, 20, 9, 30, tzinfo=datetime.timezone.utc)


@case("astral")
def elevation() -> Built:
    from astral import Observer
    from astral.sun import elevation as angle
    return lambda lat, lng: angle(Observer(lat, lng, 0.0), DAY), (48.0, 11.0)


@case("suncalc")
def position() -> Built:
    from suncalc import get_position
    return lambda lng, lat: get_position(DAY, lng, lat)["altitude"], (11.0, 48.0)


@case("pymap3d")
def geodetic_to_aer() -> Built:
    import pymap3d
    return lambda lat, lon, h: sum(pymap3d.geodetic2aer(lat, lon, h, 42.0, -82.0, 200.0)), (42.1, -81.9, 900.0)


@case("pymap3d")
def ecef_to_geodetic() -> Built:
    import pymap3d
    return lambda x: np.sum(pymap3d.ecef2geodetic(x[0], x[1], x[2])) / 1e3, (np.array([660e3, -4700e3, 4247e3]),)


@case("geographiclib")
def inverse_distance() -> Built:
    from geographiclib.geodesic import Geodesic
    return lambda a, b: Geodesic.WGS84.Inverse(a, 175.0, b, -5.5)["s12"] / 1e6, (-41.3, 40.9)


@case("deap")
def rastrigin_skew() -> Built:
    from deap import benchmarks
    return lambda x: benchmarks.rastrigin_skew(list(x))[0], (np.array([0.3, -0.7, 1.2]),)


@case("deap")
def ackley() -> Built:
    from deap import benchmarks
    return lambda x: benchmarks.ackley(x)[0], (np.array([0.3, -0.7, 1.2]),)


@case("pyswarms")
def swarm_rosenbrock() -> Built:
    from pyswarms.utils.functions.single_obj import rosenbrock
    return lambda x: rosenbrock(x).sum(), (np.array([[0.3, 0.5, 1.2], [1.0, -1.0, 0.4]]),)


@case("gstools")
def matern_variogram() -> Built:
    import gstools
    lags = np.linspace(0.1, 5.0, 20)
    return lambda var, scale: gstools.Exponential(dim=2, var=var, len_scale=scale).variogram(lags).sum(), (2.0, 1.5)


@case("pykrige")
def spherical() -> Built:
    from pykrige.variogram_models import spherical_variogram_model
    lags = np.linspace(0.0, 5.0, 21)
    return lambda m: spherical_variogram_model(m, lags).sum(), ([2.0, 3.3, 0.1],)


@case("seawater")
def density() -> Built:
    import seawater
    return lambda s, t, p: np.sum(seawater.dens(s, t, p)), (np.array([34.0, 35.0]), np.array([10.0, 4.0]),
                                                            np.array([100.0, 2000.0]))


@case("psychrolib")
def wet_bulb() -> Built:
    import psychrolib
    psychrolib.SetUnitSystem(psychrolib.SI)
    return lambda t, rh: psychrolib.GetHumRatioFromTWetBulb(t, t - 5.0 - rh, 101325.0), (25.0, 0.5)


@case("psychrolib")
def moist_enthalpy() -> Built:
    import psychrolib
    psychrolib.SetUnitSystem(psychrolib.SI)

    def f(t: float, rh: float) -> float:
        w = psychrolib.GetHumRatioFromRelHum(t, rh, 101325.0)
        return psychrolib.GetMoistAirEnthalpy(t, w) / 1e3 + psychrolib.GetTDewPointFromRelHum(t, rh)
    return f, (25.0, 0.5)


@case("pythermalcomfort")
def comfort() -> Built:
    from pythermalcomfort.models import pmv_ppd_iso
    return lambda t, v: float_or_sum(pmv_ppd_iso(tdb=t, tr=25.0, vr=v, rh=50.0, met=1.4, clo=0.5, round_output=False,
                                                 limit_inputs=False).pmv), (25.0, 0.2)


@case("refet")
def evapotranspiration() -> Built:
    import refet
    return lambda low, high, rs: np.sum(refet.Daily(tmin=low, tmax=high, ea=1.2, rs=rs, uz=2.0, zw=3.0, elev=1200.0,
                                                    lat=39.5, doy=182).eto()), (10.0, 32.0, 22.0)


@case("properscoring")
def crps() -> Built:
    import properscoring
    observed = np.array([0.1, -0.4, 2.0])
    return lambda mu, sig: properscoring.crps_gaussian(observed, mu, sig).sum(), (0.3, 1.2)


@case("HydroErr")
def kling_gupta() -> Built:
    import HydroErr
    observed = np.array([1.0, 2.0, 4.0, 3.5, 2.2])
    return lambda x: HydroErr.kge_2012(x, observed), (np.array([1.1, 2.3, 3.6, 3.1, 2.5]),)


@case("similaritymeasures")
def area_between() -> Built:
    import similaritymeasures
    t = np.linspace(0.0, 1.0, 9)

    def f(a: float, b: float) -> float:
        return similaritymeasures.area_between_two_curves(np.column_stack([t, np.sin(a * t)]),
                                                          np.column_stack([t, b * t + 0.5]))
    return f, (2.0, 1.5)


@case("similaritymeasures")
def frechet() -> Built:
    import similaritymeasures
    t = np.linspace(0.0, 1.0, 9)
    return lambda a: similaritymeasures.frechet_dist(np.column_stack([t, np.sin(a * t)]),
                                                     np.column_stack([t, t * t - 0.3])), (2.0,)


@case("rowan")
def rotated() -> Built:
    import rowan
    v = np.array([0.3, -1.0, 2.0])
    return lambda angles: (rowan.rotate(rowan.from_euler(*angles), v) * v[::-1]).sum(), (np.array([0.3, 0.2, -0.4]),)


@case("ahrs")
def madgwick() -> Built:
    from ahrs.filters import Madgwick
    acc = np.tile([0.1, -0.3, 9.7], (5, 1))
    return lambda gyr: Madgwick(gyr=gyr, acc=acc).Q[-1, 1], (np.linspace(-0.4, 0.7, 15).reshape(5, 3),)


@case("navpy")
def to_ecef() -> Built:
    import navpy
    return lambda lat, lon, alt: np.sum(navpy.lla2ecef(lat, lon, alt)) / 1e6, (35.3, -117.8, 700.0)


@case("allantools")
def deviation() -> Built:
    import allantools
    return lambda x: allantools.adev(x, rate=1.0, data_type="phase", taus=[1, 2])[1].sum(), (
        np.sin(np.arange(20.0) ** 1.5),)


@case("geomdl")
def spline_point() -> Built:
    from geomdl import BSpline

    def f(points: list[list[float]], u: float) -> float:
        curve = BSpline.Curve()
        curve.degree = 3
        curve.ctrlpts = points
        curve.knotvector = [0, 0, 0, 0, 0.5, 1, 1, 1, 1]
        return sum(curve.evaluate_single(u))
    return f, ([[5.0, 10.0], [15.0, 25.0], [30.0, 30.0], [45.0, 5.0], [55.0, 5.0]], 0.3)


@case("splipy")
def circle_length() -> Built:
    from splipy import curve_factory
    return lambda r, u: np.sum(curve_factory.circle(r).derivative(u)), (2.0, 0.7)


@case("nelson-siegel-svensson")
def zero_rates() -> Built:
    from nelson_siegel_svensson import NelsonSiegelSvenssonCurve
    t = np.array([0.5, 1.0, 5.0, 10.0])
    return lambda b: NelsonSiegelSvenssonCurve(b[0], b[1], b[2], b[3], b[4], b[5]).zero(t).sum(), (
        np.array([0.028, -0.03, -0.009, -0.02, 1.1, 2.2]),)


@case("blackscholes")
def call_price() -> Built:
    from blackscholes import BlackScholesCall
    return lambda s, sigma: BlackScholesCall(S=s, K=50.0, T=1.0, r=0.01, sigma=sigma, q=0.0).price(), (55.0, 0.15)


@case("scikit-fuzzy")
def centroid() -> Built:
    import skfuzzy
    x = np.linspace(0.0, 10.0, 41)
    return lambda mean, sigma: skfuzzy.defuzz(x, skfuzzy.gaussmf(x, mean, sigma), "centroid"), (4.0, 1.5)


@case("anastruct")
def beam_moment() -> Built:
    from anastruct import SystemElements

    def f(q: float, span: float) -> float:
        frame = SystemElements(EA=15000.0, EI=5000.0)
        frame.add_element(location=[[0.0, 0.0], [span, 0.0]])
        frame.add_element(location=[[span, 0.0], [8.0, 0.0]])
        frame.add_support_fixed(node_id=1)
        frame.add_support_hinged(node_id=3)
        frame.q_load(q=-q, element_id=1)
        return frame.solve()[4]
    return f, (10.0, 4.0)


@case("ikpy")
def forward_kinematics() -> Built:
    from ikpy.chain import Chain
    from ikpy.link import OriginLink, URDFLink
    chain = Chain(name="arm", links=[OriginLink(), *[
        URDFLink(name=f"joint{i}", origin_translation=[0.1, 0.0, 0.3], origin_orientation=[0, 0.2, 0], rotation=axis)
        for i, axis in enumerate([[0, 0, 1], [0, 1, 0], [1, 0, 0]])]], active_links_mask=[False, True, True, True])
    return lambda q: chain.forward_kinematics([0.0, *q])[:3, 3].sum(), (np.array([0.3, -0.5, 0.8]),)


@case("vmdpy")
def modes() -> Built:
    from vmdpy import VMD
    t = np.linspace(0.0, 1.0, 40, endpoint=False)
    return lambda a: (VMD(a * np.cos(6 * t) + np.cos(40 * t), 200.0, 0.0, 2, 0, 1, 1e-2)[0] ** 2).sum(), (1.5,)


def float_or_sum(x: object) -> object:
    """Return the number that a model returns as an array of one."""
    return np.sum(x)  # type: ignore[call-overload]
