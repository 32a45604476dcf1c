"""Programs by the public names of scipy.integrate, interpolate and optimize that have a derivative."""

from __future__ import annotations

import numpy as np
import scipy.integrate as si
import scipy.interpolate as sy
import scipy.optimize as so

from tests.cases.case import draw

Y, T = draw(9), np.array([0.0, 0.3, 0.7, 1.2, 1.6, 2.1, 2.7, 3.0, 3.4])
AT = np.array([0.2, 0.9, 1.7, 2.5])
RATE = np.array([0.5, 1.2])


def decay(t, y, rate):
    return -rate * y + np.sin(t)


def stepped(kind):
    def run(rate, start):
        solver = kind(lambda t, y: decay(t, y, rate), 0.0, start, 1.0, rtol=1e-8, atol=1e-9, first_step=0.1)
        for _ in range(3):
            solver.step()
        return solver.y
    return run, RATE, np.array([1.0, 2.0])


def shoot(rate):
    x = np.linspace(0.0, 1.0, 5)
    found = si.solve_bvp(lambda t, y: np.stack([y[1], -rate * y[0]]), lambda a, b: np.stack([a[0], b[0] - 1.0]), x, np.ones((2, 5)), tol=1e-8)
    return found.sol(np.array([0.3, 0.5]))[0]


INTEGRATE = {
    "BDF": stepped(si.BDF), "DOP853": stepped(si.DOP853), "RK23": stepped(si.RK23), "RK45": stepped(si.RK45), "Radau": stepped(si.Radau),
    "LSODA": stepped(si.LSODA),
    "OdeSolution": (lambda r: si.solve_ivp(decay, (0.0, 1.0), [1.0, 2.0], args=(r,), dense_output=True, rtol=1e-9, atol=1e-9).sol(0.4), RATE),
    "complex_ode": (lambda r: si.complex_ode(lambda t, y: -r * y).set_integrator("dopri5").set_initial_value([1.0 + 1j], 0.0).integrate(0.5), 0.7),
    "cubature": (lambda r: si.cubature(lambda x: np.cos(r * x[:, 0]) * x[:, 1], [0.0, 0.0], [1.0, 1.0]).estimate, 0.7),
    "cumulative_simpson": (lambda y, x: si.cumulative_simpson(y, x=x), Y, T),
    "cumulative_trapezoid": (si.cumulative_trapezoid, Y, T),
    "dblquad": (lambda r: si.dblquad(lambda y, x: np.cos(r * x) * y, 0.0, 1.0, 0.0, lambda x: x * r)[0], 0.7),
    "fixed_quad": (lambda r, b: si.fixed_quad(lambda x: np.cos(r * x), 0.0, b)[0], 0.7, 1.3),
    "nquad": (lambda r: si.nquad(lambda y, x: np.cos(r * x) * y, [[0.0, 1.0], [0.0, 2.0]])[0], 0.7),
    "nsum": (lambda r: si.nsum(lambda k: 1.0 / k ** (2 + r), 1, np.inf).sum, 0.7),
    "ode": (lambda r: si.ode(lambda t, y: -r * y).set_integrator("dopri5").set_initial_value([1.0], 0.0).integrate(0.5), 0.7),
    "odeint": (lambda r, y: si.odeint(decay, y, [0.0, 0.5, 1.0], args=(r,), tfirst=True), RATE, np.array([1.0, 2.0])),
    "qmc_quad": (lambda r: si.qmc_quad(lambda x: np.cos(r * x[0]) * x[1], [0.0, 0.0], [1.0, 1.0], n_points=64, qrng=__import__("scipy.stats").stats.qmc.Halton(2, rng=1)).integral, 0.7),
    "quad": (lambda r, b: si.quad(lambda x: np.cos(r * x), 0.0, b)[0], 0.7, 1.3),
    "quad_vec": (lambda r, b: si.quad_vec(lambda x: np.cos(r * x), 0.0, b)[0], RATE, 1.3),
    "romb": (lambda y, dx: si.romb(y, dx), Y, 0.3),
    "simpson": (lambda y, x: si.simpson(y, x=x), Y, T),
    "solve_bvp": (shoot, 1.3),
    "solve_ivp": (lambda r, y: si.solve_ivp(decay, (0.0, 1.0), y, args=(r,), first_step=0.1, max_step=0.1).y[:, -1], RATE, np.array([1.0, 2.0])),
    "tanhsinh": (lambda r, b: si.tanhsinh(lambda x, r: np.cos(r * x), 0.0, b, args=(r,)).integral, 0.7, 1.3),
    "tplquad": (lambda b: si.tplquad(lambda z, y, x: x * y + z, 0.0, b, 0.0, 1.0, 0.0, 1.0)[0], 0.7),
    "trapezoid": (si.trapezoid, Y, T),
}

GX, GY = np.array([0.0, 0.4, 1.1, 1.7, 2.3]), np.array([0.0, 0.5, 1.2, 1.6])
GRID, PLANE, QUERY = draw(5, 4), draw(12, 2), np.array([[0.3, -0.2], [0.1, 0.4], [-0.5, 0.3]])
HEIGHT = draw(12, seed=4)


def of_curve(make, *rest):
    return lambda y, at: make(T, y, *rest)(at), Y, AT


KNOTS = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.4, 3.4, 3.4, 3.4])
SPHERE = np.linspace(0.3, 2.8, 6), np.linspace(0.2, 6.0, 7)

INTERPOLATE = {
    "AAA": (lambda y: sy.AAA(T, y)(AT), Y),
    "Akima1DInterpolator": of_curve(sy.Akima1DInterpolator),
    "BPoly": (lambda c, at: sy.BPoly(c, [0.0, 1.0, 3.0])(at), draw(4, 2), AT),
    "BSpline": (lambda c, at: sy.BSpline(KNOTS, c, 3)(at), draw(6), AT),
    "BarycentricInterpolator": (lambda y, at: sy.BarycentricInterpolator(T[:5], y)(at), Y[:5], AT),
    "BivariateSpline": (lambda z: sy.RectBivariateSpline(GX, GY, z, kx=2, ky=2).integral(0.1, 1.0, 0.2, 1.1), GRID),
    "CloughTocher2DInterpolator": (lambda z: sy.CloughTocher2DInterpolator(PLANE, z)(QUERY), HEIGHT),
    "CubicHermiteSpline": (lambda y, at: sy.CubicHermiteSpline(T, y, y ** 2)(at), Y, AT),
    "CubicSpline": of_curve(sy.CubicSpline),
    "FloaterHormannInterpolator": of_curve(sy.FloaterHormannInterpolator),
    "InterpolatedUnivariateSpline": of_curve(sy.InterpolatedUnivariateSpline),
    "KroghInterpolator": (lambda y, at: sy.KroghInterpolator(T[:5], y)(at), Y[:5], AT),
    "LSQBivariateSpline": (lambda z: sy.LSQBivariateSpline(PLANE[:, 0], PLANE[:, 1], z, [], [], kx=1, ky=1)(0.3, 0.2), HEIGHT),
    "LSQSphereBivariateSpline": (lambda z: sy.LSQSphereBivariateSpline(*(p.ravel() for p in np.meshgrid(*SPHERE)), z, [1.5], [3.0])(0.5, 1.0), draw(42)),
    "LSQUnivariateSpline": (lambda y, at: sy.LSQUnivariateSpline(T, y, [1.5])(at), Y, AT),
    "LinearNDInterpolator": (lambda z, q: sy.LinearNDInterpolator(PLANE, z)(q), HEIGHT, QUERY),
    "NdBSpline": (lambda c, q: sy.NdBSpline((KNOTS, KNOTS), c, 3)(q), draw(6, 6), np.abs(QUERY) + 0.5),
    "NdPPoly": (lambda c, q: sy.NdPPoly(c, ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]))(q), draw(3, 3, 2, 2), np.abs(QUERY) + 0.55),
    "NearestNDInterpolator": (lambda z: sy.NearestNDInterpolator(PLANE, z)(QUERY), HEIGHT),
    "PPoly": (lambda c, at: sy.PPoly(c, [0.0, 1.0, 3.0])(at), draw(4, 2), AT),
    "PchipInterpolator": of_curve(sy.PchipInterpolator),
    "RBFInterpolator": (lambda z, q: sy.RBFInterpolator(PLANE, z)(q), HEIGHT, QUERY),
    "Rbf": (lambda z, q: sy.Rbf(PLANE[:, 0], PLANE[:, 1], z)(q[:, 0], q[:, 1]), HEIGHT, QUERY),
    "RectBivariateSpline": (lambda z, x, y: sy.RectBivariateSpline(GX, GY, z)(x, y), GRID, np.array([0.3, 1.0]), np.array([0.2, 1.3])),
    "RectSphereBivariateSpline": (lambda z: sy.RectSphereBivariateSpline(*SPHERE, z)(0.5, 1.0), draw(6, 7)),
    "RegularGridInterpolator": (lambda z, q: sy.RegularGridInterpolator((GX, GY), z)(q), GRID, np.abs(QUERY)),
    "SmoothBivariateSpline": (lambda z: sy.SmoothBivariateSpline(PLANE[:, 0], PLANE[:, 1], z, kx=1, ky=1)(0.3, 0.2), HEIGHT),
    "SmoothSphereBivariateSpline": (lambda z: sy.SmoothSphereBivariateSpline(*(p.ravel() for p in np.meshgrid(*SPHERE)), z, s=50.0)(0.5, 1.0), draw(42)),
    "UnivariateSpline": (lambda y, at: sy.UnivariateSpline(T, y, s=0)(at), Y, AT),
    "approximate_taylor_polynomial": (lambda r: sy.approximate_taylor_polynomial(lambda x: np.cos(r * x), 0.3, 3, 0.1)(0.4), 0.7),
    "barycentric_interpolate": (lambda y, at: sy.barycentric_interpolate(T[:5], y, at), Y[:5], AT),
    "bisplev": (lambda x: sy.bisplev(x, 0.2, sy.bisplrep(PLANE[:, 0], PLANE[:, 1], HEIGHT, kx=1, ky=1)), 0.3),
    "bisplrep": (lambda z: sy.bisplrep(PLANE[:, 0], PLANE[:, 1], z, kx=1, ky=1)[2], HEIGHT),
    "griddata": (lambda z: sy.griddata(PLANE, z, QUERY), HEIGHT),
    "insert": (lambda c: sy.insert(1.5, (KNOTS, np.append(c, np.zeros(4)), 3))[1][:7], draw(6)),
    "interp1d": (lambda y, at: sy.interp1d(T, y)(at), Y, AT),
    "interpn": (lambda z, q: sy.interpn((GX, GY), z, q), GRID, np.abs(QUERY)),
    "krogh_interpolate": (lambda y, at: sy.krogh_interpolate(T[:5], y, at), Y[:5], AT),
    "lagrange": (lambda y: sy.lagrange(T[:4], y)(AT), Y[:4]),
    "make_interp_spline": of_curve(sy.make_interp_spline),
    "make_lsq_spline": (lambda y, at: sy.make_lsq_spline(T, y, KNOTS[[0, 1, 2, 3, 5, 6, 7, 8, 9]], 3)(at), Y, AT),
    "make_smoothing_spline": (lambda y, at: sy.make_smoothing_spline(T, y, lam=0.1)(at), Y, AT),
    "make_splprep": (lambda y: sy.make_splprep([T, y], u=T)[0](AT), Y),
    "make_splrep": (lambda y, at: sy.make_splrep(T, y)(at), Y, AT),
    "pade": (lambda c: [p.coeffs for p in sy.pade(c, 2)], draw(5)),
    "pchip_interpolate": (lambda y, at: sy.pchip_interpolate(T, y, at), Y, AT),
    "spalde": (lambda c: sy.spalde([0.5, 1.5], (KNOTS, np.append(c, np.zeros(4)), 3)), draw(6)),
    "splantider": (lambda c: sy.splantider((KNOTS, np.append(c, np.zeros(4)), 3))[1], draw(6)),
    "splder": (lambda c: sy.splder((KNOTS, np.append(c, np.zeros(4)), 3))[1], draw(6)),
    "splev": (lambda c, at: sy.splev(at, (KNOTS, np.append(c, np.zeros(4)), 3)), draw(6), AT),
    "splint": (lambda c, b: sy.splint(0.2, b, (KNOTS, np.append(c, np.zeros(4)), 3)), draw(6), 1.7),
    "splprep": (lambda y: sy.splprep([T, y], u=T, s=0)[0][1], Y),
    "splrep": (lambda y: sy.splrep(T, y)[1], Y),
    "sproot": (lambda c: sy.sproot((KNOTS, np.append(c, np.zeros(4)), 3)), np.array([-1.0, -0.5, 0.4, 1.0, 1.5, 2.0])),
}

COST, BOUND = np.array([-1.0, -2.0]), np.array([4.0, 6.0])
LIMITS = np.array([[1.0, 1.0], [1.0, 3.0]])
DESIGN = draw(6, 2)


def valley(x, a):
    return np.sum((x - a) ** 2) + np.sum(x ** 4)


def slope(x, a):
    return 2 * (x - a) + 4 * x ** 3


def root_by(fn):
    return lambda a: fn(lambda x: x ** 3 + x - a, 0.0, 3.0), 2.5


def system_by(fn, **options):
    return lambda a: fn(lambda x: x ** 3 + 4 * x - a, np.ones(2), f_tol=1e-12, **options), RATE


def least_by(fn, *rest, **options):
    def run(a):
        found = fn(valley, np.ones(2), *rest, args=(a,), **options)
        return found.x if hasattr(found, "x") else found[0] if isinstance(found, tuple) else found
    return run, RATE


def globally(fn, **options):
    return lambda a: fn(lambda x: np.sum((x - a) ** 2) + np.sum(x ** 4), [(-2.0, 3.0)] * 2, **options).x, RATE


OPTIMIZE = {
    "anderson": system_by(so.anderson), "broyden1": system_by(so.broyden1), "broyden2": system_by(so.broyden2),
    "diagbroyden": system_by(so.diagbroyden), "excitingmixing": (lambda a: so.excitingmixing(lambda x: a - x ** 3 - 4 * x, np.ones(2), f_tol=1e-12), RATE), "linearmixing": system_by(so.linearmixing, alpha=-0.15, iter=400),
    "newton_krylov": system_by(so.newton_krylov),
    "approx_fprime": (lambda a: so.approx_fprime(np.ones(2), valley, 1e-3, a), RATE),
    "basinhopping": (lambda a: so.basinhopping(lambda x: valley(x, a), np.ones(2), niter=2, rng=1).x, RATE),
    "bisect": root_by(so.bisect), "brenth": root_by(so.brenth), "brentq": root_by(so.brentq), "ridder": root_by(so.ridder), "toms748": root_by(so.toms748),
    "brent": (lambda a: so.brent(lambda x: valley(x, a), tol=1e-10), 0.7),
    "brute": (lambda a: so.brute(lambda x: valley(x, a), [(-1.0, 2.0)] * 2, Ns=5), RATE),
    "curve_fit": (lambda y: so.curve_fit(lambda t, a, b: a * np.exp(-b * t), T, y, p0=[1.0, 0.5])[0], np.exp(-0.6 * T) + 0.05 * Y),
    "differential_evolution": globally(so.differential_evolution, rng=1, tol=1e-10), "direct": globally(so.direct, maxiter=3000, eps=1e-8),
    "dual_annealing": globally(so.dual_annealing, rng=1, maxiter=30), "shgo": globally(so.shgo),
    "fixed_point": (lambda a: so.fixed_point(lambda x: np.cos(a * x), 0.5), 0.7),
    "fmin": least_by(so.fmin, xtol=1e-9, ftol=1e-12, disp=False), "fmin_bfgs": least_by(so.fmin_bfgs, disp=False), "fmin_cg": least_by(so.fmin_cg, disp=False),
    "fmin_cobyla": (lambda a: so.fmin_cobyla(lambda x: valley(x, a), np.ones(2), [], rhoend=1e-9), RATE),
    "fmin_l_bfgs_b": least_by(so.fmin_l_bfgs_b, approx_grad=True), "fmin_ncg": least_by(so.fmin_ncg, slope, disp=False),
    "fmin_powell": least_by(so.fmin_powell, xtol=1e-9, disp=False), "fmin_slsqp": least_by(so.fmin_slsqp, acc=1e-12, iprint=0),
    "fmin_tnc": least_by(so.fmin_tnc, approx_grad=True, disp=0),
    "fminbound": (lambda a: so.fminbound(lambda x: valley(x, a), -2.0, 3.0, xtol=1e-10), 0.7),
    "fsolve": (lambda a: so.fsolve(lambda x: x ** 3 + 4 * x - a, np.ones(2)), RATE), "golden": (lambda a: so.golden(lambda x: valley(x, a), tol=1e-10), 0.7),
    "isotonic_regression": (lambda y: so.isotonic_regression(y).x, Y),
    "least_squares": (lambda y: so.least_squares(lambda p: p[0] * np.exp(-p[1] * T) - y, np.ones(2)).x, np.exp(-0.6 * T) + 0.05 * Y),
    "leastsq": (lambda y: so.leastsq(lambda p: p[0] * np.exp(-p[1] * T) - y, np.ones(2))[0], np.exp(-0.6 * T) + 0.05 * Y),
    "line_search": (lambda a: so.line_search(lambda x: valley(x, a), lambda x: slope(x, a), np.ones(2), -np.array([2.0, 3.0]))[0], RATE),
    "linear_sum_assignment": (lambda c: c[so.linear_sum_assignment(c)], draw(3, 3)),
    "linprog": (lambda c, b: [(r := so.linprog(c, LIMITS, b)).x, r.fun], COST, BOUND),
    "lsq_linear": (lambda a, b: so.lsq_linear(a, b).x, DESIGN, draw(6, seed=2)),
    "milp": (lambda c: so.milp(c, constraints=so.LinearConstraint(LIMITS, ub=BOUND)).fun, COST),
    "minimize": (lambda a: so.minimize(valley, np.ones(2), args=(a,)).x, RATE),
    "minimize_scalar": (lambda a: so.minimize_scalar(lambda x: valley(x, a)).x, 0.7),
    "newton": (lambda a: so.newton(lambda x: x ** 3 + x - a, 1.0), 2.5),
    "nnls": (lambda a, b: so.nnls(a, b), DESIGN, DESIGN @ [1.0, 2.0] + 0.1),
    "quadratic_assignment": (lambda c: so.quadratic_assignment(c, draw(3, 3, seed=7)).fun, draw(3, 3)),
    "root": (lambda a: so.root(lambda x: x ** 3 + 4 * x - a, np.ones(2)).x, RATE),
    "root_scalar": (lambda a: so.root_scalar(lambda x: x ** 3 + x - a, bracket=[0.0, 3.0]).root, 2.5),
    "rosen": (so.rosen, AT), "rosen_der": (so.rosen_der, AT), "rosen_hess": (so.rosen_hess, AT), "rosen_hess_prod": (so.rosen_hess_prod, AT, AT ** 2),
}
