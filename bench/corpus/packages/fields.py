"""Fields and atoms: scikit-fem, fdtd, ase."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("scikit-fem")
def mesh_area() -> Built:
    from skfem import Basis, ElementTriP1, Functional, MeshTri

    def f(t):
        mesh = MeshTri().refined(2)
        basis = Basis(MeshTri(mesh.p * t, mesh.t), ElementTriP1())
        return Functional(lambda w: w.x[0] ** 2 + w.x[1]).assemble(basis)
    return f, (1.3,)


@case("scikit-fem")
def load_vector() -> Built:
    from skfem import Basis, ElementTriP1, LinearForm, MeshTri
    basis = Basis(MeshTri().refined(2), ElementTriP1())

    def f(k):
        return np.sum(LinearForm(lambda v, w: np.sin(k * w.x[0]) * v).assemble(basis) ** 2) * 100
    return f, (2.0,)


@case("scikit-fem")
def interpolated_energy() -> Built:
    from skfem import Basis, ElementTriP2, Functional, MeshTri
    from skfem.helpers import dot, grad
    basis = Basis(MeshTri().refined(1), ElementTriP2())

    def f(u):
        return Functional(lambda w: 0.5 * dot(grad(w.u), grad(w.u)) + w.u ** 4).assemble(basis, u=basis.interpolate(u))
    return f, (np.sin(np.arange(25.0)),)


@case("fdtd")
def pulse_in_a_grid() -> Built:
    import fdtd

    def f(permittivity):
        fdtd.set_backend("numpy")
        grid = fdtd.Grid(shape=(20, 15, 1), permittivity=1.0)
        grid[3:6, 5:9, 0] = fdtd.Object(permittivity=permittivity)
        grid[12, 7, 0] = fdtd.PointSource(period=10)
        grid.run(20, progress_bar=False)
        return np.sum(grid.E ** 2)
    return f, (2.5,)


@case("fdtd")
def curl_of_a_field() -> Built:
    from fdtd.grid import curl_E, curl_H

    def f(E):
        return np.sum(curl_H(curl_E(E)) ** 2)
    return f, (np.random.default_rng(0).normal(size=(4, 4, 3, 3)),)


@case("ase")
def lennard_jones() -> Built:
    from ase import Atoms
    from ase.calculators.lj import LennardJones

    def f(positions):
        atoms = Atoms("Ar4", positions=positions)
        atoms.calc = LennardJones(epsilon=0.01, sigma=3.4, rc=12.0)
        return atoms.get_potential_energy()
    return f, (np.array([[0.0, 0.0, 0.0], [3.8, 0.1, 0.0], [0.3, 3.9, 0.2], [0.1, 0.4, 4.0]]),)


@case("ase")
def morse_potential() -> Built:
    from ase import Atoms
    from ase.calculators.morse import MorsePotential

    def f(d, rho0):
        atoms = Atoms("H2", positions=[[0.0, 0.0, 0.0], [0.0, 0.0, d]])
        atoms.calc = MorsePotential(epsilon=1.0, r0=1.0, rho0=rho0)
        return atoms.get_potential_energy()
    return f, (1.1, 6.0)


@case("ase")
def internal_coordinates() -> Built:
    from ase.geometry import get_angles, get_dihedrals, get_distances

    def f(a, b, c):
        return (np.sum(get_angles(a[None], b[None])) + np.sum(get_dihedrals(a[None], b[None], c[None])) / 10
                + np.sum(get_distances(np.array([a, b]), np.array([c]))[1]))
    return f, (np.array([1.0, 0.2, 0.1]), np.array([0.1, 1.0, 0.3]), np.array([0.2, -0.1, 1.2]))


@case("ase")
def equation_of_state() -> Built:
    from ase.eos import birchmurnaghan, vinet

    def f(V, B0, V0):
        return birchmurnaghan(V, -5.0, B0, 4.0, V0) + vinet(V, -5.0, B0, 4.0, V0)
    return f, (15.0, 0.6, 16.0)
