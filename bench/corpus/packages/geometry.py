"""Rotations, vectors, meshes, the globe, curves, formulas made to code, equations of motion."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("transforms3d")
def euler_and_quaternions() -> Built:
    from transforms3d import affines, euler, quaternions

    def f(a, b, c):
        R = euler.euler2mat(a, b, c)
        q = quaternions.qmult(euler.euler2quat(a, b, c), np.array([0.5, 0.5, -0.5, 0.5]))
        return np.sum(affines.compose([1.0, a, b], R, np.ones(3)) ** 3) + np.sum(quaternions.quat2mat(q) * R)
    return f, (0.3, -0.5, 0.9)


@case("pytransform3d")
def screw_motion() -> Built:
    from pytransform3d import rotations, transformations

    def f(v, p):
        T = transformations.transform_from(rotations.matrix_from_compact_axis_angle(v), p)
        return (np.sum(transformations.exponential_coordinates_from_transform(T) ** 2) + np.sum(rotations.quaternion_slerp(np.array([1.0, 0, 0, 0]), rotations.quaternion_from_matrix(T[:3, :3]), 0.4)))
    return f, (np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, 3.0]))


@case("pyquaternion")
def rotated_vector() -> Built:
    from pyquaternion import Quaternion

    def f(angle, v):
        return np.sum(Quaternion(axis=[0.0, 0.6, 0.8], angle=angle).rotate(v) * np.arange(3.0))
    return f, (0.7, np.array([1.0, 2.0, 0.5]))


@case("vector")
def momentum() -> Built:
    import vector

    def f(px, py, pz, E):
        p = vector.obj(px=px, py=py, pz=pz, E=E)
        return p.mass + p.pt + p.eta + p.boostZ(0.3).E + p.deltaR(vector.obj(px=1.0, py=0.0, pz=2.0, E=5.0))
    return f, (1.0, 2.0, 3.0, 6.0)


@case("trimesh")
def mesh_volume() -> Built:
    from trimesh import transformations
    from trimesh.triangles import angles, area, mass_properties

    def f(t):
        return (np.sum(area(t)) + np.sum(angles(t)) + np.sum(transformations.rotation_matrix(t[0, 0, 0], [0, 0, 1]) ** 3) + mass_properties(t, skip_inertia=True)["volume"])
    return f, (np.random.default_rng(0).normal(size=(3, 3, 3)),)


@case("geopy")
def great_circle() -> Built:
    from geopy.distance import great_circle as distance
    return lambda a, b: distance((a, b), (48.9, 2.35)).km, (41.5, -71.3)


@case("haversine")
def sphere_distances() -> Built:
    from haversine import Unit, haversine
    return lambda a, b: haversine((a, b), (48.9, 2.35), unit=Unit.KILOMETERS), (45.8, 4.8)


@case("utm")
def map_projection() -> Built:
    import utm

    def f(latitude, longitude):
        east, north, _, _ = utm.from_latlon(latitude, longitude)
        return east / 1000 + north / 1000
    return f, (51.2, 7.5)


@case("splines")
def interpolated_curve() -> Built:
    import splines

    def f(points):
        curve = splines.CatmullRom(points, alpha=0.5)
        return np.sum(curve.evaluate([0.3, 1.1]) ** 2) + np.sum(splines.Natural(points).evaluate(0.5))
    return f, (np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [4.0, 3.0]]),)


@case("sympy")
def lambdified_formula() -> Built:
    import sympy
    x, y = sympy.symbols("x y")
    formula = sympy.Matrix([sympy.exp(-x ** 2) * sympy.sin(y), sympy.Piecewise((x * y, x > 0), (y ** 2, True)),
                            sympy.erf(x)])
    compiled = sympy.lambdify((x, y), formula, "scipy")
    return lambda a, b: np.sum(compiled(a, b) ** 2), (0.6, 1.3)


@case("scipy")
def reaction_kinetics() -> Built:
    from scipy.integrate import solve_ivp

    def f(k1, k2):
        rates = lambda t, y: [-k1 * y[0], k1 * y[0] - k2 * y[1] ** 2, k2 * y[1] ** 2]
        return solve_ivp(rates, (0.0, 2.0), [1.0, 0.0, 0.0], rtol=1e-8, atol=1e-10).y[1, -1]
    return f, (0.9, 0.5)


@case("scipy")
def rabi_oscillation() -> Built:
    from scipy.integrate import solve_ivp

    def f(omega, delta):
        H = np.array([[0.0, omega / 2], [omega / 2, delta]])
        psi = solve_ivp(lambda t, psi: -1j * (H @ psi), (0.0, 1.5), np.array([1.0 + 0j, 0.0]), rtol=1e-8,
                        atol=1e-10).y[:, -1]
        return np.abs(psi[1]) ** 2
    return f, (2.0, 0.7)


@case("scipy")
def master_equation() -> Built:
    from scipy.linalg import expm

    def f(omega, gamma):
        s = np.array([[0.0, 1.0], [0.0, 0.0]])
        H, one = omega * (s + s.T), np.eye(2)
        L = -1j * (np.kron(one, H) - np.kron(H.T, one)) + gamma * (np.kron(s, s) - 0.5 * (np.kron(one, s.T @ s)
                                                                                          + np.kron(s.T @ s, one)))
        return np.real((expm(L * 0.8) @ np.array([1.0, 0, 0, 0]))[3])
    return f, (1.0, 0.4)
