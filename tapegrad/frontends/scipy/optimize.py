"""scipy.optimize: solvers run on plain numbers; a solution is differentiated implicitly, by the equation it solves."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, getclosurevars, signature
from typing import Any

import numpy as np
import scipy.optimize as so

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.results import converged, part_of
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solver
from tapegrad.rules.registry import means, refuse, refused, register

BRACKETING = (so.brentq, so.brenth, so.bisect, so.ridder, so.toms748)
NONLINEAR = (
    so.broyden1,
    so.broyden2,
    so.anderson,
    so.linearmixing,
    so.diagbroyden,
    so.excitingmixing,
    so.newton_krylov,
)
GLOBAL = (so.differential_evolution, so.basinhopping, so.dual_annealing, so.shgo, so.direct)
OTHERS = (so.newton, so.root_scalar, so.root, so.fsolve, so.fixed_point, so.minimize, so.minimize_scalar)
SEARCHES = (so.golden, so.brent, so.fminbound)
FITS = (so.least_squares, so.leastsq, so.curve_fit)


def _signature(fn: Callable[..., Any]) -> Signature:
    """Return a function's signature, including the former name of `rng`, which SciPy 1.15 accepts but does not show."""
    found, former = signature(fn), getclosurevars(fn).nonlocals.get("old_name")
    parts = list(found.parameters.values())
    return found if former is None or former in found.parameters else found.replace(
        parameters=[*parts, Parameter(former, Parameter.KEYWORD_ONLY, default=None)])


# computed at import: while a trace runs these functions have other code
SIGNATURES = {fn: _signature(fn) for fn in (*BRACKETING, *NONLINEAR, *GLOBAL, *OTHERS, *SEARCHES, *FITS)}
Named = dict[str, Any]
"""The arguments of a solver's call by name."""

def named(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Named) -> Named:
    """Return the arguments of a call by name; raise the error of a wrong call."""
    given = dict(SIGNATURES[fn].bind(*args, **kwargs).arguments)
    further = [
        name for name, x in SIGNATURES[fn].parameters.items() if x.kind is Parameter.VAR_KEYWORD and name in given
    ]
    for name in further:
        given |= given.pop(name)
    return given


def value(given: Named, x: Any, function: str, with_jac: str = "jac") -> Any:
    """Return the user's function at `x`; if it also returns its derivative, the function's value only."""
    args = given.get("args", ())
    found = given[function](x, *(args if isinstance(args, tuple) else (args,)), **given.get("kwargs", {}))
    return found[0] if plain(given.get(with_jac)) is True else found


# -- roots of functions of one variable


def _bracketing(fn: Callable[..., Any]) -> None:
    def find(given: Named) -> Any:
        return fn(**{**given, "full_output": False, "disp": True})

    solver = Solver(fn.__name__, find, lambda x, given: value(given, x, "f"))

    @means(fn)
    def root(*args: Any, **kwargs: Any) -> Any:
        given = named(fn, args, kwargs)
        x = solver(given)
        return (x, part_of(so.RootResults, root=x, converged=True, flag="converged")) if given.get("full_output") else x


for _fn in BRACKETING:
    _bracketing(_fn)


def _newton(given: Named) -> Any:
    found = so.newton(**{**given, "full_output": True, "disp": True})
    if np.ndim(found[0]):
        converged("newton", found[1], "some elements have not converged to roots")
    return found[0]


_NEWTON = Solver("newton", _newton, lambda x, given: value(given, x, "func"))


@means(so.newton)
def newton(*args: Any, **kwargs: Any) -> Any:
    given = named(so.newton, args, kwargs)
    x = _NEWTON(given)
    if not given.get("full_output"):
        return x
    if shape_of(x):
        return x, np.ones(shape_of(x), bool), np.zeros(shape_of(x), bool)
    return x, part_of(so.RootResults, root=x, converged=True, flag="converged")


def _root_scalar(given: Named) -> Any:
    found = so.root_scalar(**given)
    return converged("root_scalar", found.converged, found.flag) and found.root


_ROOT_SCALAR = Solver("root_scalar", _root_scalar, lambda x, given: value(given, x, "f", "fprime"))


@means(so.root_scalar)
def root_scalar(*args: Any, **kwargs: Any) -> Any:
    x = _ROOT_SCALAR(named(so.root_scalar, args, kwargs))
    return part_of(so.RootResults, root=x, converged=True, flag="converged")


# -- roots of systems


_ROOT = Solver("root", lambda given: converged("root", so.root(**given)).x, lambda x, given: value(given, x, "fun"))


@means(so.root)
def root(*args: Any, **kwargs: Any) -> Any:
    given = named(so.root, args, kwargs)
    x = _ROOT(given)
    return part_of(so.OptimizeResult, x=x, success=True, fun=as_array(value(given, x, "fun")))


def _fsolve(given: Named) -> Any:
    x, _, ier, message = so.fsolve(**{**given, "full_output": True})
    converged("fsolve", ier == 1, message)
    return x


_FSOLVE = Solver("fsolve", _fsolve, lambda x, given: value(given, x, "func"))


@means(so.fsolve)
def fsolve(*args: Any, **kwargs: Any) -> Any:
    given = named(so.fsolve, args, kwargs)
    x = _FSOLVE(given)
    return (
        (x, part_of(dict, fvec=as_array(value(given, x, "func"))), 1, "The solution converged.")
        if given.get("full_output")
        else x
    )


def _fixed_residual(x: Array, given: Named) -> Any:
    return as_array(value(given, x, "func")) - x


_FIXED_POINT = Solver("fixed_point", lambda given: so.fixed_point(**given), _fixed_residual)


@means(so.fixed_point)
def fixed_point(*args: Any, **kwargs: Any) -> Any:
    return _FIXED_POINT(named(so.fixed_point, args, kwargs))


def _nonlinear(fn: Callable[..., Any]) -> None:
    solver = Solver(fn.__name__, lambda given: np.asarray(fn(**given)), lambda x, given: value(given, x, "F"))

    @means(fn)
    def root(*args: Any, **kwargs: Any) -> Any:
        return solver(named(fn, args, kwargs))


for _fn in NONLINEAR:
    _nonlinear(_fn)


# -- minima

GTOL = 1e-5  # SciPy's default tolerance for the largest component of the gradient at a minimum

def _minimize(given: Named) -> Any:
    found = so.minimize(**given)
    # if rounding stops a search with a tighter tolerance, a solution within the default tolerance is accepted
    slope = np.max(np.abs(found.get("jac", np.inf)), initial=0.0)
    if not slope <= GTOL * max(1.0, abs(found.fun)):
        converged("minimize", found)
    return found.x, np.array(bool(found.success))


def _minimize_scalar(given: Named) -> Any:
    return converged("minimize_scalar", so.minimize_scalar(**given)).x


def _objective(x: Array, given: Named) -> Any:
    found = as_array(value(given, x, "fun"))
    return ops.reshape(found, ()) if shape_of(found) else found


_MINIMIZE = Solver("minimize", _minimize, _objective, "minimum", facts=True)
_MINIMIZE_SCALAR = Solver("minimize_scalar", _minimize_scalar, _objective, "minimum")


@means(so.minimize)
def minimize(*args: Any, **kwargs: Any) -> Any:
    given = named(so.minimize, args, kwargs)
    if np.size(given.get("constraints", ())):
        raise refused(
            "minimize",
            "the derivative of a constrained solution depends on which constraints are active",
            "remove the constraints by substitution, or add a penalty",
        )
    x, success = _MINIMIZE(given)
    return part_of(so.OptimizeResult, x=x, fun=value(given, x, "fun"), success=bool(success))  # guarded


@means(so.minimize_scalar)
def minimize_scalar(*args: Any, **kwargs: Any) -> Any:
    given = named(so.minimize_scalar, args, kwargs)
    x = _MINIMIZE_SCALAR(given)
    return part_of(so.OptimizeResult, x=x, fun=value(given, x, "fun"), success=True)


def _searched(fn: Callable[..., Any], method: str, options: dict[str, str]) -> None:
    """Register a function that is a method of `minimize_scalar`, whose steps may not depend on values."""
    def search(*args: Any, **kwargs: Any) -> Any:
        given = named(fn, args, kwargs)
        if given.get("full_output") or given.get("disp", 0) > 1:
            raise refused(fn.__name__, "it also returns details of the search, which have no derivative",
                          "scipy.optimize.minimize_scalar")
        how = {key: given[name] for name, key in (("func", "fun"), ("args", "args"), ("brack", "bracket"))
               if name in given}
        bounds = {"bounds": (given["x1"], given["x2"])} if "x1" in given else {}
        return minimize_scalar(**how, **bounds, method=method,
                               options={key: given[name] for name, key in options.items() if name in given}).x
    register(fn, search)


_searched(so.golden, "golden", {"tol": "xtol", "maxiter": "maxiter"})
_searched(so.brent, "brent", {"tol": "xtol", "maxiter": "maxiter"})
_searched(so.fminbound, "bounded", {"xtol": "xatol", "maxfun": "maxiter"})


def _global(fn: Callable[..., Any]) -> None:
    def objective(x: Array, given: Named) -> Any:
        rest = given.get("minimizer_kwargs") or {}
        return _objective(x, {"fun": given["func"], "args": given.get("args", rest.get("args", ()))})

    solver = Solver(fn.__name__, lambda given: converged(fn.__name__, fn(**given)).x, objective, "minimum")

    @means(fn)
    def minimum(*args: Any, **kwargs: Any) -> Any:
        given = named(fn, args, kwargs)
        x = solver(given)
        return part_of(so.OptimizeResult, x=x, fun=objective(x, given), success=True)


for _fn in GLOBAL:
    _global(_fn)


def _by_name(fn: Callable[..., Any], failed: Callable[[Any], Any], how: Named, places: tuple[int, ...] = ()) -> None:
    """Register a minimiser with a function of its own. `how` makes it report whether it `failed`. If it returns a
    tuple, `places` lists the elements after the minimum: 1 for the function's value there, 2 for an info dict.
    """
    told = signature(fn)

    def find(given: Named) -> Any:
        found = fn(**{**given, **how})
        converged(fn.__name__, not failed(found), "it stopped before convergence")
        return np.asarray(found[0] if isinstance(found, tuple) else found, float)

    def objective(x: Array, given: Named) -> Any:
        with_slope = "approx_grad" in told.parameters and not given.get("approx_grad") and not given.get("fprime")
        args = given.get("args", ())
        found = given[next(iter(told.parameters))](x, *(args if isinstance(args, tuple) else (args,)))
        found = as_array(found[0] if with_slope else found)
        return ops.reshape(found, ()) if shape_of(found) else found

    solver = Solver(fn.__name__, find, objective, "minimum")

    @means(fn)
    def minimum(*args: Any, **kwargs: Any) -> Any:
        given = dict(told.bind(*args, **kwargs).arguments)
        wrong = [name for name in ("full_output", "retall", "eqcons", "ieqcons", "f_eqcons", "f_ieqcons", "cons")
                 if np.size(plain(given.get(name))) and given.get(name)]
        if wrong:
            raise refused(f"{fn.__name__} with {wrong[0]}", "only a minimum without constraints can be recorded",
                          "scipy.optimize.minimize without constraints")
        x = solver(given)
        return tuple([x, objective(x, given), part_of(dict, warnflag=0)][i] for i in (0, *places)) if places else x


_QUIET = {"full_output": True, "disp": False}
_by_name(so.fmin, lambda found: found[4], _QUIET)
_by_name(so.fmin_powell, lambda found: found[5], _QUIET)
_by_name(so.fmin_ncg, lambda found: found[5], _QUIET)
_by_name(so.fmin_slsqp, lambda found: found[3], {"full_output": True, "iprint": 0})
_by_name(so.fmin_cobyla, lambda found: False, {"disp": 0})
_by_name(so.fmin_l_bfgs_b, lambda found: found[2]["warnflag"], {}, (1, 2))
refuse(
    so.brute,
    so.fmin_tnc,
    why="it also returns details of the search, which have no derivative",
    derivative=True,
    try_="scipy.optimize.minimize, which is differentiated through its optimality conditions",
)

# -- least squares

LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
}
"""SciPy's loss functions of the squared residuals, which reduce the weight of outliers."""


def _cost(x: Array, given: Named) -> Any:
    scale = given.get("f_scale", 1.0)
    squares = (as_array(value(given, x, "fun")) / scale) ** 2
    return 0.5 * scale**2 * ops.sum(LOSSES[given.get("loss", "linear")](squares))


_LEAST_SQUARES = Solver(
    "least_squares", lambda given: converged("least_squares", so.least_squares(**given)).x, _cost, "minimum"
)


@means(so.least_squares)
def least_squares(*args: Any, **kwargs: Any) -> Any:
    given = named(so.least_squares, args, kwargs)
    if callable(given.get("loss")):
        raise refused(
            "least_squares with a loss that is a function",
            "it returns the loss together with its derivatives",
            f"one of {', '.join(LOSSES)}",
        )
    x = _LEAST_SQUARES(given)
    return part_of(so.OptimizeResult, x=x, cost=_cost(x, given), success=True,
                   fun=np.atleast_1d(as_array(value(given, x, "fun"))))


def _leastsq(given: Named) -> Any:
    x, _, _, message, ier = so.leastsq(**{**given, "full_output": True})
    converged("leastsq", ier in (1, 2, 3, 4), message)
    return x, np.array(ier)


_LEASTSQ = Solver("leastsq", _leastsq, lambda x, given: 0.5 * ops.sum(as_array(value(given, x, "func")) ** 2),
                  "minimum", facts=True)


@means(so.leastsq)
def leastsq(*args: Any, **kwargs: Any) -> Any:
    given = named(so.leastsq, args, kwargs)
    if given.get("full_output"):
        raise refused(
            "leastsq with full_output", "a solver's internal steps are not recorded",
                      "call it without full_output, or use curve_fit"
        )
    x, flag = _LEASTSQ(given)
    return x, ops.item(flag)


def _curve_fit(given: Named) -> Any:
    popt, pcov = so.curve_fit(**{**given, "full_output": False})
    return popt, pcov


def _misfits(p: Array, given: Named) -> Any:
    """Return the residuals divided by their standard deviations, or decorrelated by the covariance matrix."""
    y, sigma = as_array(given["ydata"]), as_array(given.get("sigma"))
    r = ops.reshape(given["f"](as_array(given["xdata"]), *[p[i] for i in range(shape_of(p)[0])]) - y, (-1,))
    return (
        r
        if sigma is None
        else ops.solve_triangular(ops.cholesky(sigma), r, lower=True)
        if len(shape_of(sigma)) == 2
        else r / sigma
    )


_CURVE_FIT = Solver(
    "curve_fit", _curve_fit, lambda p, given: 0.5 * ops.sum(_misfits(p, given) ** 2), "minimum", facts=True
)


@means(so.curve_fit)
def curve_fit(*args: Any, **kwargs: Any) -> Any:
    given = named(so.curve_fit, args, kwargs)
    if given.get("full_output") or given.get("nan_policy"):
        raise refused(
            "curve_fit with full_output or nan_policy", "a solver's internal steps are not recorded",
                      "call it without them"
        )
    popt, pcov = _CURVE_FIT(given)
    misfits = _misfits(popt, given)
    free = np.size(plain(misfits)) - np.size(plain(popt))
    if free <= 0 and not plain(given.get("absolute_sigma")):
        return popt, pcov  # the covariance is infinite
    rows = Solver.jacobian(lambda p: _misfits(p, given), popt)
    covariance = np.linalg.inv(rows.T @ rows)
    if not plain(given.get("absolute_sigma")):
        covariance = covariance * ops.sum(misfits**2) / free
    # SciPy's value, which it computes by finite differences, with the derivative of the formula
    return popt, pcov + (covariance - ops.stop_gradient(covariance))
