"""scipy.optimize's linear programs and nonnegative least squares. A solution is differentiated by the constraints that
are active at it, if they determine it and each has a nonzero multiplier.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import scipy.optimize as so

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.optimize import Named
from tapegrad.frontends.scipy.results import converged, part_of
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solver
from tapegrad.rules.registry import means, refused

_SIGNATURES = {fn: signature(fn) for fn in (so.linprog, so.nnls)}  # while a trace runs these functions have other code
NEAR = 1e-8  # relative tolerance for an active constraint
_TRY = "change the costs a little, so that a single vertex is the solution"


def _linear(given: Named) -> Any:
    return converged("linprog", so.linprog(**given)).x


def _rows(given: Named, n: int) -> tuple[Any, Any]:
    """Return all inequalities, bounds included, as a matrix `rows` and `limits`, with rows @ x <= limits."""
    rows, limits = [], []
    if given.get("A_ub") is not None:
        rows.append(np.reshape(as_array(given["A_ub"]), (-1, n)))
        limits.append(np.reshape(as_array(given["b_ub"]), (-1,)))
    bounds = given.get("bounds", (0, None))
    pair: Any = (0, None) if bounds is None else bounds
    one = len(pair) == 2 and np.ndim(plain(pair[0])) == 0  # one pair for all variables
    each: Any = [pair] * n if one else [pair[0]] * n if len(pair) == 1 else pair
    for i in range(n):
        for sign, limit in zip((-1.0, 1.0), (each[i][0], each[i][1])):
            if limit is not None and np.isfinite(plain(limit)):
                rows.append(sign * np.eye(n)[i:i + 1])
                limits.append(np.reshape(sign * as_array(limit), (1,)))
    if not rows:
        return np.zeros((0, n)), np.zeros(0)
    return ops.concat(*rows, axis=0), ops.concat(*limits, axis=0)


def _vertex(x: Array, given: Named) -> Any:
    """Return the residuals of the constraints that are active at `x`, as many as `x` has elements."""
    n, at = shape_of(x)[0], np.array(plain(x))
    rows, limits = _rows(given, n)
    size = 1.0 + np.abs(plain(limits))
    held = np.flatnonzero(np.array(plain(limits)) - np.array(plain(rows)) @ at <= NEAR * size)
    matrix, right = rows[held], limits[held]
    equal = 0
    if given.get("A_eq") is not None:
        a = np.reshape(as_array(given["A_eq"]), (-1, n))
        matrix, right, equal = ops.concat(a, matrix, axis=0), ops.concat(
            np.reshape(as_array(given["b_eq"]), (-1,)), right, axis=0), shape_of(a)[0]
    known = np.array(plain(matrix))
    if known.shape != (n, n) or np.linalg.cond(known) > 1 / NEAR:
        raise refused("linprog", "its active constraints do not determine the solution: it has no unique derivative",
                      _TRY)
    pulls = np.linalg.solve(known.T, -np.array(plain(as_array(given["c"])), float))[equal:]
    if np.any(pulls <= NEAR * (1.0 + np.abs(pulls).max(initial=0.0))):
        raise refused("linprog", "the solution is not unique, or changes with any small change of the numbers", _TRY)
    return matrix @ x - right


_LINPROG = Solver("linprog", _linear, _vertex)


@means(so.linprog)
def linprog(*args: Any, **kwargs: Any) -> Any:
    """Solve a linear program. The solution's derivative follows from the active constraints; dx/dc is 0."""
    given = dict(_SIGNATURES[so.linprog].bind(*args, **kwargs).arguments)
    if np.any(plain(given.get("integrality"))) or given.get("callback") is not None:
        raise refused("linprog with integrality or a callback",
                      "integer solutions have no derivative, and internal steps are not recorded",
                      "a linear program of real variables without a callback")
    x = _LINPROG(given)
    found = {"x": x, "fun": ops.item(ops.sum(as_array(given["c"]) * x)), "success": True}
    for name, a, b in (("slack", "A_ub", "b_ub"), ("con", "A_eq", "b_eq")):
        if given.get(a) is not None:
            found[name] = np.reshape(as_array(given[b]), (-1,)) - as_array(given[a]) @ x
    return part_of(so.OptimizeResult, **found)


def _held(x: Array, given: Named) -> Any:
    """Return the gradient of the sum of squares where x > 0, and x where its constraint is active."""
    a, b = as_array(given["A"]), as_array(given["b"])
    slope = a.T @ (a @ x - b)
    free, known = np.array(plain(x)) > 0, np.array(plain(slope))
    if np.any(known[~free] <= NEAR * (1.0 + np.abs(known).max(initial=0.0))):
        raise refused("nnls", "an element of its solution and its gradient are both 0: it has no derivative",
                      "scipy.optimize.least_squares without bounds")
    return np.where(free, slope, x)


_NNLS = Solver("nnls", lambda given: so.nnls(**given)[0], _held)


@means(so.nnls)
def nnls(*args: Any, **kwargs: Any) -> Any:
    given = dict(_SIGNATURES[so.nnls].bind(*args, **kwargs).arguments)
    x = _NNLS(given)
    return x, ops.item(np.linalg.norm(as_array(given["A"]) @ x - as_array(given["b"])))
