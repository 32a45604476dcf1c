"""third: 40 functions of 30 further packages, chosen by name and written down before any of them was traced."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("pygeodesy")
def distance_of_ellipsoid() -> Built:
    from pygeodesy.ellipsoidalVincenty import LatLon
    return lambda lat, lon: LatLon(lat, lon).distanceTo(LatLon(48.0, 2.0)) / 1e3, (50.1, 5.7)


@case("pygeodesy")
def haversine_distance() -> Built:
    from pygeodesy.formy import haversine
    return lambda lat, lon: haversine(lat, lon, 48.0, 2.0) / 1e3, (50.1, 5.7)


@case("pymeeus")
def sun_longitude() -> Built:
    from pymeeus.Epoch import Epoch
    from pymeeus.Sun import Sun
    return lambda day: float_of(Sun.apparent_longitude_coarse(Epoch(day))[1]), (2448908.5,)


@case("svgpathtools")
def length_of_curve() -> Built:
    from svgpathtools import CubicBezier
    return lambda x, y: CubicBezier(0j, 1.0 + 2.0j, x + y * 1j, 4.0 + 0j).length(), (3.0, 2.5)


@case("pyrr")
def interpolated_rotation() -> Built:
    from pyrr import quaternion
    a, v = quaternion.create_from_x_rotation(0.3), np.array([0.2, 0.5, -1.0])
    return lambda t, s: quaternion.apply_to_vector(
        quaternion.slerp(a, quaternion.create_from_y_rotation(t), s), v).sum(), (1.1, 0.4)


@case("pyrr")
def camera() -> Built:
    from pyrr import matrix44
    return lambda eye: (matrix44.create_look_at(eye, np.array([0.0, 0.1, 0.0]), np.array([0.0, 1.0, 0.0])) ** 2).sum(
        ), (np.array([1.0, 2.0, 3.0]),)


@case("scikit-spatial")
def distance_to_plane() -> Built:
    from skspatial.objects import Plane, Point
    return lambda p, n: Plane([0.1, 0.2, 0.3], n).distance_point(Point(p)), (np.array([1.0, 2.0, 3.0]),
                                                                           np.array([0.5, -0.2, 1.0]))


@case("vectormath")
def angle_of_vectors() -> Built:
    from vectormath import Vector3
    return lambda x, y: Vector3(x, y, 0.5).angle(Vector3(1.0, 0.2, 0.3)) + Vector3(x, y, 0.5).length, (0.7, -0.4)


@case("coloraide")
def difference_of_colours() -> Built:
    from coloraide import Color
    return lambda r, g: Color("srgb", [r, g, 0.3]).delta_e(Color("srgb", [0.2, 0.5, 0.6]), method="2000"), (0.4, 0.7)


@case("colormath")
def converted_colour() -> Built:
    from colormath.color_conversions import convert_color
    from colormath.color_objects import LabColor, sRGBColor
    return lambda r, g: convert_color(sRGBColor(r, g, 0.3), LabColor).lab_b, (0.4, 0.7)


@case("hsluv")
def perceptual_colour() -> Built:
    import hsluv
    return lambda h, s: sum(hsluv.hsluv_to_rgb([h, s, 60.0])), (140.0, 55.0)


@case("mibian")
def option_price() -> Built:
    from mibian import BS
    return lambda s, v: BS([s, 100.0, 2.0, 40.0], volatility=v).callPrice, (103.0, 22.0)


@case("pythtb")
def haldane_band() -> Built:
    from pythtb import tb_model

    def f(delta: float, t: float) -> float:
        model = tb_model(2, 2, [[1.0, 0.0], [0.5, 0.8660254]], [[1 / 3, 1 / 3], [2 / 3, 2 / 3]])
        model.set_onsite([-delta, delta])
        for cell in ([0, 0], [-1, 0], [0, -1]):
            model.set_hop(t, 0, 1, cell)
        return model.solve_one([0.2, 0.35])[1]
    return f, (0.3, -1.1)


@case("periodictable")
def neutron_density() -> Built:
    from periodictable import nsf
    return lambda density, wavelength: sum(nsf.neutron_sld("H2O", density=density, wavelength=wavelength)), (1.1, 4.5)


@case("prysm")
def zernike() -> Built:
    from prysm.polynomials.zernike import zernike_nm_sequence
    r, t = np.linspace(0.1, 0.9, 5), np.linspace(0.0, 2.0, 5)
    return lambda c: ((np.array(list(zernike_nm_sequence([(2, 0), (3, 1), (4, 0)], r, t))) * c[:, None]).sum(0) ** 2
                      ).sum(), (np.array([0.3, -0.2, 0.7]),)


@case("prysm")
def magnification() -> Built:
    from prysm import thinlens
    return lambda efl, d: thinlens.object_to_image_dist(efl, d) + thinlens.object_dist_to_mag(efl, d), (50.0, -300.0)


@case("bruges")
def zoeppritz_reflection() -> Built:
    from bruges.reflection import zoeppritz_rpp
    return lambda vp, vs: np.real(zoeppritz_rpp(2.3, 1.1, 2.2, vp, vs, 2.4, np.array([5.0, 20.0]))).sum(), (2.9, 1.6)


@case("bruges")
def ricker_wavelet() -> Built:
    from bruges.filters import ricker
    return lambda f: (ricker(0.1, 0.01, f, return_t=False) ** 2).sum(), (21.0,)


@case("boule")
def normal_gravity() -> Built:
    import boule
    return lambda lat, h: boule.WGS84.normal_gravity((0.0, lat, h)) / 1e5, (41.0, 1500.0)


@case("spotpy")
def efficiency_without_parameters() -> Built:
    from spotpy.objectivefunctions import kge, lognashsutcliffe
    seen = [1.0, 2.0, 4.0, 3.5, 2.2]
    return lambda x: kge(seen, x) + lognashsutcliffe(seen, x), (np.array([1.1, 2.3, 3.6, 3.1, 2.5]),)


@case("spotpy")
def likelihood() -> Built:
    from spotpy.likelihoods import gaussianLikelihoodMeasErrorOut
    return lambda x: gaussianLikelihoodMeasErrorOut([1.0, 2.0, 4.0, 3.5], x), (np.array([1.1, 2.3, 3.6, 3.1]),)


@case("findiff")
def derivative_on_grid() -> Built:
    from findiff import FinDiff
    d2 = FinDiff(0, 0.1, 2, acc=4)
    return lambda u: (d2(u) ** 2).sum() / 1e3, (np.sin(np.arange(12.0) * 0.3),)


@case("unyt")
def converted_energy() -> Built:
    import unyt
    return lambda m, v: float_of((0.5 * (m * unyt.kg) * (v * unyt.m / unyt.s) ** 2).to("kJ").value), (3.0, 40.0)


@case("transformations")
def rotation_about_point() -> Built:
    import transformations
    return lambda angle, d: transformations.transformations.rotation_matrix(angle, d, [0.3, 0.2, 0.1])[:3].sum(), (
        0.7, np.array([0.2, 1.0, -0.4]))


@case("transformations")
def composed_matrix() -> Built:
    import transformations
    return lambda s, t: (transformations.compose_matrix(s, None, [0.1, 0.2, 0.3], t) ** 2).sum(), (
        np.array([1.1, 0.9, 1.3]), np.array([0.4, 0.5, -0.6]))


@case("sdeint")
def stochastic_path() -> Built:
    import sdeint
    times = np.linspace(0.0, 1.0, 6)
    noise = np.sin(np.arange(5.0) ** 2).reshape(5, 1) * 0.3
    return lambda a, b: sdeint.itoEuler(lambda x, t: -a * x, lambda x, t: np.array([[b]]) * (1 + x[0]), np.array(
        [1.0]), times, dW=noise)[-1, 0], (0.8, 0.4)


@case("PyNiteFEA")
def beam_deflection() -> Built:
    from Pynite import FEModel3D

    def f(e: float, load: float) -> float:
        beam = FEModel3D()
        beam.add_node("A", 0.0, 0.0, 0.0)
        beam.add_node("B", 3.0, 0.0, 0.0)
        beam.add_material("steel", e, 0.4 * e, 0.3, 7.8)
        beam.add_section("section", 0.1, 0.02, 0.03, 0.01)
        beam.add_member("M", "A", "B", "steel", "section")
        beam.def_support("A", True, True, True, True, True, True)
        beam.add_node_load("B", "FY", load)
        beam.analyze_linear(sparse=False)
        return beam.nodes["B"].DY["Combo 1"] * 1e3
    return f, (210.0, -1.5)


@case("felupe")
def strain_energy() -> Built:
    import felupe
    material = felupe.NeoHooke(mu=1.0, bulk=5.0)
    base = np.array([[1.1, 0.2, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.2]]).reshape(3, 3, 1, 1)
    return lambda x: material.function([base + x.reshape(3, 3, 1, 1)])[0].sum(), (np.full((3, 3), 0.03),)


@case("pystoi")
def intelligibility() -> Built:
    from pystoi import stoi
    clean = np.sin(np.arange(5000.0) ** 1.3) * np.sin(np.arange(5000.0) / 300)
    noise = np.cos(np.arange(5000.0) ** 1.1)
    return lambda a: stoi(clean, clean + a * noise, 10000), (0.3,)


@case("pyloudnorm")
def loudness() -> Built:
    import pyloudnorm
    tone = np.sin(np.arange(6000.0) * 0.2)
    return lambda a, b: pyloudnorm.Meter(4000).integrated_loudness(a * tone + b * tone ** 2), (0.5, 0.1)


@case("chaospy")
def joint_density() -> Built:
    import chaospy
    at = np.array([[0.2, 0.5], [0.7, 0.4]])
    return lambda mu, b: chaospy.J(chaospy.Normal(mu, 0.8), chaospy.Gamma(2.0, b)).pdf(at).sum(), (0.4, 1.3)


@case("cma")
def ellipsoid() -> Built:
    import cma
    return lambda x: cma.ff.elli(x, rot=0) / 1e4 + cma.ff.rosen(x), (np.array([0.3, -0.5, 0.8]),)


@case("emcee")
def autocorrelation() -> Built:
    from emcee.autocorr import function_1d
    return lambda x: (function_1d(x)[1:4] ** 2).sum(), (np.sin(np.arange(16.0) ** 2),)


@case("pylorentz")
def boosted() -> Built:
    from pylorentz import Momentum4
    return lambda e, pt: Momentum4.e_eta_phi_pt(e, 0.4, 1.1, pt).boost(1.0, 0.2, 0.3, beta=0.4).m + Momentum4(
        e, pt, 0.2, 0.1).eta, (10.0, 3.0)


@case("euclid3")
def rotated_point() -> Built:
    from euclid3 import Matrix4, Point3, Quaternion, Vector3
    return lambda a, b: (Matrix4.new_rotate_euler(a, b, 0.2) * (
        Quaternion.new_rotate_axis(b, Vector3(0.2, 1.0, 0.3)) * Point3(1.0, 2.0, 3.0))).x, (0.4, 0.9)


@case("mystic")
def test_functions() -> Built:
    from mystic.models import griewangk, paviani, rastrigin
    return lambda x: griewangk(x) + rastrigin(x) + paviani(x), ([4.3, 5.5, 3.8],)


@case("coloraide")
def mixed_colours() -> Built:
    from coloraide import Color
    return lambda r, t: Color("srgb", [r, 0.7, 0.3]).mix(Color("srgb", [0.2, 0.1, 0.6]), t, space="oklab").luminance(
        ), (0.4, 0.3)


@case("scikit-spatial")
def hit_of_sphere() -> Built:
    from skspatial.objects import Line, Sphere
    return lambda r, d: Sphere([0.1, 0.2, 0.3], r).intersect_line(Line([0.0, 0.0, 0.0], d))[0].sum(), (
        1.5, np.array([1.0, 0.3, 0.4]))


@case("svgpathtools")
def curvature() -> Built:
    from svgpathtools import CubicBezier, Line, Path
    return lambda x, t: CubicBezier(0j, 1.0 + 2.0j, x + 3j, 4.0 + 0j).curvature(t) + Path(
        Line(0j, x + 1j), Line(x + 1j, 4j)).length(), (3.0, 0.4)


@case("chaospy")
def expected_polynomial() -> Built:
    import chaospy
    q = chaospy.variable()
    return lambda a, b: float_of(chaospy.E(a * q ** 2 + b * q, chaospy.Normal(0.3, 0.8))), (1.3, 0.6)


def float_of(x: object) -> object:
    """Return the number in an array of one."""
    return np.sum(x)  # type: ignore[call-overload]
