"""Sun, weather, comfort: pvlib, metpy, thermofeel, pysolar."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("pvlib")
def single_diode() -> Built:
    from pvlib.singlediode import bishop88, bishop88_mpp

    def f(photocurrent, resistance):
        i, v, p = bishop88(0.5, photocurrent, 1e-9, resistance, 300.0, 1.5)
        return p + bishop88_mpp(photocurrent, 1e-9, resistance, 300.0, 1.5)[2]
    return f, (7.0, 0.3)


@case("pvlib")
def irradiance_on_a_plane() -> Built:
    from pvlib import irradiance

    def f(tilt, dni, zenith):
        aoi = irradiance.aoi(tilt, 180.0, zenith, 150.0)
        return (irradiance.isotropic(tilt, 100.0) + irradiance.beam_component(tilt, 180.0, zenith, 150.0, dni) + aoi
                + irradiance.haydavies(tilt, 180.0, 100.0, dni, 1360.0, zenith, 150.0))
    return f, (30.0, 800.0, 40.0)


@case("pvlib")
def incidence_modifiers() -> Built:
    from pvlib import iam
    return (lambda aoi: iam.ashrae(aoi) + iam.physical(aoi) + iam.martin_ruiz(aoi)
            + iam.sapm(aoi, {f"B{k}": c for k, c in enumerate((1.0, -2e-3, 3e-4, -1e-5, 2e-7, -1e-9))}), (45.0,))


@case("pvlib")
def clear_sky() -> Built:
    from pvlib import atmosphere, clearsky

    def f(elevation, water):
        sky = clearsky.simplified_solis(elevation, aod700=0.1, precipitable_water=water)
        return sky["ghi"] + sky["dni"] + atmosphere.get_relative_airmass(90.0 - elevation)
    return f, (50.0, 1.2)


@case("pvlib")
def cell_temperature() -> Built:
    from pvlib import temperature

    def f(poa, air, wind):
        return (temperature.sapm_cell(poa, air, wind, -3.47, -0.0594, 3.0) + temperature.pvsyst_cell(poa, air, wind)
                + temperature.faiman(poa, air, wind))
    return f, (900.0, 20.0, 3.0)


@case("pvlib")
def solar_declination() -> Built:
    from pvlib import solarposition

    def f(day):
        declination = solarposition.declination_spencer71(day)
        return (solarposition.solar_zenith_analytical(0.7, 0.4, declination)
                + solarposition.equation_of_time_spencer71(day))
    return f, (100.0,)


@case("metpy")
def potential_temperature() -> Built:
    import metpy.calc as mpcalc
    from metpy.units import units

    def f(p, T):
        return mpcalc.potential_temperature(p * units.hPa, T * units.kelvin).magnitude
    return f, (850.0, 290.0)


@case("metpy")
def dewpoint() -> Built:
    import metpy.calc as mpcalc
    from metpy.units import units

    def f(T, rh):
        return mpcalc.dewpoint_from_relative_humidity(T * units.degC, rh * units.percent).magnitude
    return f, (20.0, 60.0)


@case("metpy")
def wind_speed() -> Built:
    import metpy.calc as mpcalc
    from metpy.units import units

    def f(u, v):
        return mpcalc.wind_speed(u * units("m/s"), v * units("m/s")).magnitude.sum()
    return f, (np.array([1.0, 2.0]), np.array([3.0, -1.0]))


@case("thermofeel")
def comfort_indices() -> Built:
    import thermofeel

    def f(t, td, wind):
        return (np.sum(thermofeel.calculate_humidex(t, td)) + np.sum(thermofeel.calculate_apparent_temperature(t, wind, 60.0)) + np.sum(thermofeel.calculate_wind_chill(t, wind)))
    return f, (np.array([300.0, 295.0]), np.array([290.0, 285.0]), np.array([3.0, 5.0]))


@case("pysolar")
def refraction_correction() -> Built:
    from pysolar import radiation, solar

    def f(altitude, pressure):
        return (solar.get_refraction_correction(pressure, 280.0, altitude)
                + radiation.get_optical_depth(100) * radiation.get_air_mass_ratio(altitude))
    return f, (40.0, 101325.0)
