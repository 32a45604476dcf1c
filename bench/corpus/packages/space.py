"""Orbits, time and distances in space: sgp4, skyfield, astropy."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("sgp4")
def propagated_orbit() -> Built:
    from sgp4.ext import invjday  # noqa: F401
    from sgp4.model import WGS72, Satrec

    def f(inclination, eccentricity):
        satellite = Satrec()
        satellite.sgp4init(WGS72, "i", 5, 18441.785, 2.8098e-05, 6.969196665e-13, 0.0, eccentricity, 5.7904160274885,
                           inclination, 0.3373093125574, 0.0472294454407, 6.0863854713832)
        error, position, velocity = satellite.sgp4(2458837.5, 0.25)
        return position[0] / 1000 + velocity[1]
    return f, (0.5980929187319, 0.1859667)


@case("sgp4")
def elements_of_state() -> Built:
    from sgp4.ext import rv2coe

    def f(r, v):
        p, a, ecc, incl, *_ = rv2coe(list(r), list(v), 398600.4418)
        return p / 1e4 + a / 1e4 + ecc + incl
    return f, (np.array([6524.834, 6862.875, 6448.296]), np.array([4.901327, 5.533756, -1.976341]))


@case("sgp4")
def kepler_equation() -> Built:
    from sgp4.ext import newtonnu

    def f(ecc, nu):
        e0, m = newtonnu(ecc, nu)
        return e0 + m
    return f, (0.3, 1.1)


@case("skyfield")
def kepler_orbit() -> Built:
    from skyfield.keplerlib import propagate

    def f(position, velocity):
        p, v = propagate(position, velocity, np.array(0.0), np.array([30.0]), 0.000295912208)
        return np.sum(p ** 2) + np.sum(v) * 10
    return f, (np.array([1.0, 0.2, 0.1]), np.array([0.001, 0.016, 0.002]))


@case("skyfield")
def earth_rotation() -> Built:
    from skyfield.earthlib import earth_rotation_angle, refraction, terra

    def f(latitude, longitude, altitude):
        r, v = terra(latitude, longitude, 100.0, 3.2)
        return (np.sum(np.asarray(r) ** 2) * 1e8 + np.sum(v) + refraction(altitude, 10.0, 1010.0)
                + earth_rotation_angle(2450000.5 + longitude))
    return f, (0.7, 0.4, 30.0)


@case("skyfield")
def precession() -> Built:
    from skyfield.functions import rot_x, rot_z
    from skyfield.precessionlib import compute_precession

    def f(t):
        return (np.sum(np.asarray(compute_precession(2451545.0 + t)) * np.arange(9.0).reshape(3, 3))
                + np.sum(rot_x(t / 1e4) @ rot_z(t / 1e4)))
    return f, (20000.0,)


@case("astropy")
def luminosity_distance() -> Built:
    from astropy.cosmology import FlatLambdaCDM

    def f(H0, Om0):
        return FlatLambdaCDM(H0=H0, Om0=Om0).luminosity_distance(0.5).value
    return f, (70.0, 0.3)


@case("astropy")
def quantity_arithmetic() -> Built:
    from astropy import units as u

    def f(x, y):
        return ((x * u.km) / (y * u.hour)).to_value(u.m / u.s)
    return f, (36.0, 2.0)


@case("astropy")
def planck_radiation() -> Built:
    from astropy import units as u
    from astropy.modeling.physical_models import BlackBody

    def f(T):
        return BlackBody(temperature=T * u.K)(np.array([5000.0, 6000.0]) * u.AA).value.sum() * 1e4
    return f, (5000.0,)


@case("astropy")
def gaussian_model() -> Built:
    from astropy.modeling.models import Gaussian1D, Lorentz1D

    def f(amplitude, mean, width):
        x = np.linspace(-2.0, 2.0, 20)
        return np.sum(Gaussian1D.evaluate(x, amplitude, mean, width) * Lorentz1D.evaluate(x, 1.0, mean, width))
    return f, (1.2, 0.1, 0.5)


@case("astropy")
def angular_separation() -> Built:
    from astropy.coordinates import angular_separation as separation

    def f(a, b, c, d):
        return separation(a, b, c, d)
    return f, (0.1, 0.2, 1.1, 0.6)


@case("astropy")
def biweight_location() -> Built:
    from astropy.stats import biweight_location as location

    def f(x):
        return location(x)
    return f, (np.array([1.0, 2.2, 2.9, 3.8, 9.0, 3.1]),)


@case("astropy")
def lomb_scargle_power() -> Built:
    from astropy.timeseries import LombScargle
    t = np.linspace(0.0, 10.0, 30) ** 1.1

    def f(y):
        return LombScargle(t, y).power(np.array([0.2, 0.5]), method="slow").sum()
    return f, (np.sin(1.3 * t) + 0.1 * np.cos(7 * t),)
