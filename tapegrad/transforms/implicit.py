"""implicit: differentiates a solver's solution through the equation it solves, not through the solver's steps.

For r(x, p) = 0 the implicit function theorem gives dx = -(dr/dx)⁻¹ (dr/dp) dp. The pullback solves one linear system
and pulls its solution back through r, traced at the solution. That is recorded, so it is differentiable to any order
and its branches are guarded. A. Griewank, A. Walther, "Evaluating Derivatives" (2008), section 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import ArgumentError
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import ZERO, dtype_of, shape_of
from tapegrad.numbers.formatting import name_of, plain
from tapegrad.numbers.kinds import Cotangent
from tapegrad.numbers.lazy import needed, torch
from tapegrad.numbers.tensors import is_tensor, on_host
from tapegrad.ops.solver import Solver
from tapegrad.rules.activity import activity
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Tape
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.reverse import sweep, taken
from tapegrad.transforms.seed import start
from tapegrad.transforms.vmap import vmap
from tapegrad.tree.flatten import flatten, is_leaf

DENSE = 512  # number of unknowns above which no matrix of the derivative is built
FEW = 3  # number of its rows below which a batch does not pay off
MOST_CONDITION = 1e13  # largest condition number of a matrix to be inverted
TOLERANCE = 1e-3  # largest relative change of a solution by a Newton step


def implicit(residual: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function `(solution, *params)` that returns x where `residual(x, *params)` is zero, differentiable by
    the params.

    `solution` is a function of the params that finds x: it runs on plain numbers, unrecorded, and again at every
    replay. Or it is x itself, whose own gradient is dropped: a traced Newton loop is not unrolled. Residual and
    solution are numbers, arrays or lists of equally many numbers; params may be nested. What `residual` captured is
    differentiated as well. Raises UnknownFunction where the derivative by x is singular, or x is no solution.

    >>> import tapegrad as tg
    >>> def sqrt(a):
    ...     x = 1.0
    ...     while abs(x * x - a) > 1e-12:
    ...         x = (x + a / x) / 2
    ...     return x
    >>> tg.grad(lambda a: tg.implicit(lambda x, a: x * x - a)(sqrt, a), 9.0)
    (3.0, (None, 0.16666666666666666))
    """
    if not callable(residual):
        raise ArgumentError(
            f"the residual is {residual!r}, not a function", None, "tg.implicit(residual)(solution, *params)"
        )

    def at(solution: Any, *params: Any) -> Any:
        if callable(solution) and not is_leaf(solution):
            return _FOUND(residual, solution, params)
        return _GIVEN(residual, solution, params)

    at.__name__ = name_of(residual)
    return at


class Unknowns:
    """Converts a solution to a vector of real numbers, or a single real number, and back."""

    def __init__(self, y: Any) -> None:
        self.shape, self.complex = shape_of(y), ops.is_complex(y)
        self.single = not self.shape and not self.complex
        self.size = math.prod(self.shape) * (1 + self.complex)

    def vector(self, y: Any) -> Any:
        """Return the numbers of a solution, of its cotangent or of a residual, real parts before imaginary parts."""
        size = math.prod(shape_of(y))
        if self.single and size == 1 and not ops.is_complex(y):
            return ops.reshape(y, ()) if shape_of(y) else y
        y = ops.reshape(y, (size,)) if dtype_of(y) is not None else np.ones(1) * y
        return ops.concat(ops.real(y), ops.imag(y), axis=0) if self.complex else y

    def solution(self, u: Any) -> Any:
        """Return the solution that consists of these numbers."""
        if self.single:
            return u
        half = self.size // 2
        return ops.reshape(u[:half] + 1j * u[half:] if self.complex else u, self.shape)


class Equations:
    """The equations that hold at a solution, as a function of its numbers and of the solver's arguments."""

    def __init__(self, solver: Solver, unknowns: Unknowns) -> None:
        self.solver, self.unknowns = solver, unknowns

    def __call__(self, u: Any, given: Any) -> Any:
        if self.solver.kind == "minimum":
            tape = record(Objective(self), (u, given), {}, DEFAULT, grad=True, replays=False)
            return pulled(tape, 1, {1})[0]
        return self.unknowns.vector(as_array(self.solver.residual(self.unknowns.solution(u), *given)))


class Objective:
    """The function that is stationary at a solution, with the same arguments."""

    def __init__(self, equations: Equations) -> None:
        self.equations = equations

    def __call__(self, u: Any, given: Any) -> Any:
        solver, unknowns = self.equations.solver, self.equations.unknowns
        return solver.residual(unknowns.solution(u), *given)


def called(fn: Callable[..., Any], *args: Any) -> Any:
    """Return `fn(*args)`; of traced arguments by a trace of its own, in which alone the program's functions may run."""
    leaves: list[Any] = []
    flatten(args, "", leaves, [], given=True)
    if not any(isinstance(leaf, Traced) for leaf in leaves):
        return fn(*args)
    return record(fn, args, {}, DEFAULT, grad=True, replays=False).result.val


def pulled(tape: Tape, seed: Any, places: Collection[int]) -> list[Any]:
    """Return the gradients of a tape's result, times a seed, by the inputs at some places."""
    cot = sweep(tape, start(tape.result.val, seed), activity(tape, places))
    return [taken(cot, x.id, x.val) for k, x in enumerate(tape.inputs) if k in places]


def flat(dxs: Sequence[Any]) -> Any:
    """Return gradients as one vector."""
    parts = [ops.reshape(dx, (math.prod(shape_of(dx)),)) if dtype_of(dx) is not None else np.ones(1) * dx for dx in dxs]
    return ops.concat(*parts, axis=0) if len(parts) > 1 else parts[0]


def gradients(solver: Solver, y: Any, dy: Cotangent, given: Any, wrt: Sequence[int]) -> list[Any]:
    if solver.adjoint is not None:
        tape = record(Residual(solver, y), (given,), {}, DEFAULT, grad=True, replays=False)
        return pulled(tape, -solver.adjoint(y, dy, *given), {i + 1 for i in wrt})
    unknowns = Unknowns(y)
    if not unknowns.size:
        return [ZERO] * len(wrt)
    tape = _traced(Equations(solver, unknowns), unknowns.vector(y), given)
    w = _solved(solver, tape, y, given, unknowns.vector(dy))
    return pulled(tape, -w, {i + 2 for i in wrt})


class Residual:
    """A solver's residual, or an integrand, for one x, as a function of the solver's arguments."""

    def __init__(self, solver: Solver, *x: Any) -> None:
        self.solver, self.x = solver, x

    def __call__(self, given: Any) -> Any:
        return as_array(self.solver.residual(*self.x, *given))


def composite_gradients(solver: Solver, y: Any, dy: Cotangent, given: Any, wrt: Sequence[int]) -> list[Any]:
    return pulled(record(Residual(solver), (given,), {}, DEFAULT, grad=True, replays=False), dy, {i + 1 for i in wrt})


def _traced(equations: Equations, u: Any, given: Any) -> Tape:
    tape = record(equations, (u, given), {}, DEFAULT, grad=True, replays=False)
    found = tape.result.val
    if shape_of(found) != shape_of(u):
        raise refused(
            equations.solver.name,
            f"there are {math.prod(shape_of(u))} unknowns, but {math.prod(shape_of(found))} equations",
            "return as many equations as unknowns",
        )
    return tape


def _solved(solver: Solver, tape: Tape, y: Any, given: Any, dy: Cotangent) -> Any:
    """Return w that solves (dr/dx)ᵀ w = dy."""
    rest, single, u = tape.result.val, not shape_of(dy), tape.inputs[1].val
    if math.prod(shape_of(dy)) > DENSE:
        w = _LINEAR(solver, y, given, dy)
        # the change, by a Newton step, of the unknowns' mean with the weights dy
        step = ops.sum(w * rest) / ops.maximum(ops.sum(ops.abs(dy)), 1e-300)
        return _settled(w, step, u, solver=solver)
    rows = _jacobian(tape, dy)
    rows = _regular(rows, solver=solver)
    w, step = (
        (dy / rows, rest / rows)
        if single
        else (ops.solve(ops.permute_dims(rows, axes=(1, 0)), dy), ops.solve(rows, rest))
    )
    return _settled(w, step, u, solver=solver)


def _check_regular(rows: Any, solver: Solver) -> Any:
    """Return a matrix or number after a check that it has an inverse, whatever the units of its rows and columns."""
    scaled = np.atleast_2d(rows)
    with np.errstate(all="ignore"):
        for axis in (0, 1):
            scaled = scaled / np.abs(scaled).max(axis, keepdims=True)
    if not (np.isfinite(scaled).all() and np.linalg.cond(scaled) < MOST_CONDITION):
        raise refused(
            solver.name,
            "the Jacobian of its equations is singular at the solution, which has no derivative there",
            "a problem with isolated solutions",
        )
    return rows.copy() if isinstance(rows, np.ndarray) else rows


def _check_step(w: Any, step: Any, u: Any, solver: Solver) -> Any:
    """Return w; raise if a Newton step would still change the solution."""
    most, size = np.abs(step).max(), np.abs(u).max()
    minimum = solver.kind == "minimum"
    if not most <= TOLERANCE * max(size, 1.0 if minimum else TOLERANCE):  # true for nan as well
        raise refused(
            solver.name,
            f"its solution {'is no optimum inside the bounds' if minimum else 'does not solve the equations'}: "
            f"a Newton step changes it by {most:.2g}",
            f"a smaller tolerance or more iterations{'; at a bound, return the bound itself' if minimum else ''}",
        )
    return w.copy() if isinstance(w, np.ndarray) else w


def _check(name: str, check: Callable[..., Any], count: int) -> Op:
    """Return an op that checks its arguments and returns the first; tangents and cotangents are not checked."""

    def partial(dy: Cotangent, *_: Any, solver: Solver) -> Any:
        return dy

    def tangent(tangents: Sequence[Any], _y: Any, *_: Any, solver: Solver) -> Any:
        return tangents[0]

    return Op(name, check, (partial, *[None] * (count - 1)), tangent=tangent, torch=on_host(check))


_regular, _settled = _check("regular", _check_regular, 1), _check("settled", _check_step, 3)


def _jacobian(tape: Tape, y: Any, place: int = 1) -> Any:
    """Return the derivative of a tape's result, a number or a vector like y, by the input at a place."""

    def row(seed: Any) -> Any:
        return pulled(tape, seed, {place})[0]

    if not shape_of(y):
        return row(1.0)
    size, x = shape_of(y)[0], plain(y)
    units = torch.eye(size, dtype=x.dtype, device=x.device) if is_tensor(x) else np.eye(size, dtype=dtype_of(y))
    return vmap(row)(units) if size >= FEW else ops.stack(*map(row, units), axis=0)


def jacobian(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the derivative of a function from a vector to a vector, with one row for each number of the result."""
    tape = record(f, (x,), {}, DEFAULT, grad=True, replays=False)
    return _jacobian(tape, tape.result.val, len(tape.inputs) - 1)  # behind the captured inputs


# -- many unknowns: an iterative solver of the linear system, itself differentiable, by products with the derivative


def _find_linear(solver: Solver, y: Any, given: Any, dy: Cotangent) -> Any:
    needed("scipy")
    from scipy.sparse.linalg import LinearOperator, cg, gmres

    unknowns = Unknowns(y)
    tape = _traced(Equations(solver, unknowns), unknowns.vector(y), given)
    product = LinearOperator((dy.size, dy.size), lambda v: pulled(tape, v.ravel(), {1})[0], dtype=dy.dtype)
    sums = product @ np.ones(dy.size)
    if sums.all() and np.allclose(product @ (dy / sums), dy, 1e-12, 1e-12 * np.abs(dy).max()):
        return dy / sums  # the matrix is diagonal
    w, failed = (
        cg(product, dy, rtol=1e-12, maxiter=20 * dy.size)
        if solver.kind == "minimum"
        else gmres(product, dy, rtol=1e-12, restart=200, maxiter=20)
    )
    if failed:
        raise refused(
            solver.name,
            "the iterative solution of the linear system for its derivative did not converge",
            "fewer unknowns, or a better scaled problem",
        )
    return w


def _linear_residual(w: Any, solver: Solver, y: Any, given: Any, dy: Cotangent) -> Any:
    unknowns = Unknowns(y)
    return pulled(_traced(Equations(solver, unknowns), unknowns.vector(y), given), w, {1})[0] - dy


# -- tg.implicit


def _residual(x: Any, residual: Any, solution: Any, params: Any) -> Any:
    return residual(x, *params)


def _solution(x: Any, residual: Any, params: Any) -> Any:
    """Return a solution as a number or array that has derivatives; a call of the residual records what it reads."""
    x = _inexact(x)
    residual(x, *params)
    return x


def _inexact(x: Any) -> Any:
    if isinstance(x, (list, tuple)) or (isinstance(x, np.ndarray) and x.dtype.kind in "biu"):
        return np.asarray(x, float)
    return float(x) if isinstance(x, (int, np.integer)) else x


_LINEAR = Solver("solve_linear", _find_linear, _linear_residual)
_FOUND = Solver(
    "implicit", lambda residual, solution, params: _solution(solution(*params), residual, params), _residual
)
_GIVEN = Solver("implicit", lambda residual, solution, params: _solution(solution, residual, params), _residual)
