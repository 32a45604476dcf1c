"""ode: differentiates the solution of a differential equation through the equation of its sensitivities.

For dy/dt = f(t, y, p) the derivative S of y by its start and by p solves dS/dt = (df/dy) S + df/dp. That is solved by
collocation on the steps and along the solution that the solver found: the equation is linear, so each step is one
linear system, whatever the solver's method. The derivative takes the step sizes as constant. S has a derivative of the
same kind. E. Hairer, S. Nørsett, G. Wanner, "Solving Ordinary Differential Equations I" (1993), I.14; E. Hairer, G.
Wanner, "Solving Ordinary Differential Equations II" (1996), IV.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Legendre

from tapegrad import ops
from tapegrad.errors import TapeError
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Cotangent
from tapegrad.ops.solver import Solution, Solver
from tapegrad.rules.activity import activity
from tapegrad.rules.batching import Members
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Guard, Operation, Tape, value_of
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.control_dependence import agree, poles_of, side, steering
from tapegrad.trace.tracer import record
from tapegrad.transforms.implicit import FEW, called, flat, pulled
from tapegrad.transforms.jumps import check_path
from tapegrad.transforms.vmap import vmap
from tapegrad.tree.flatten import Structure, flatten, leaves_of

START, TIMES = 0, 1  # places among the arguments of such a solver: a vector, and the times of its values
STAGES = 5
POINTS = 64  # number of points at which the slope is differentiated in one batch
ROOM = 1 << 21  # most bytes of the largest value of a batch: what fits in the processor's cache
MOST = 1 << 22  # most numbers in the matrices that are solved at once
HALVINGS = 30  # number of bisections between two points to find where the slope switches


def _radau(stages: int) -> tuple[Any, Any, Any]:
    """Return the nodes of the Radau IIA formula in a step, its matrix, and the Lagrange polynomials through 0 and the
    nodes: the coefficients of each in a column, by ascending powers.
    """
    last = Legendre.basis(stages) - Legendre.basis(stages - 1)
    at = np.sort((last.roots().real + 1) / 2)
    at[-1] = 1.0
    powers = np.arange(stages)
    matrix = (at[:, None] ** (powers + 1) / (powers + 1)) @ np.linalg.inv(at[:, None] ** powers)
    through = np.concatenate([[0.0], at])
    return at, matrix, np.linalg.inv(through[:, None] ** np.arange(stages + 1))


PLACES, MATRIX, BASIS = _radau(STAGES)


class Slope:
    """The slope of a solution as a function of time, of y, and of the solver's other arguments."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver

    def __call__(self, t: Any, y: Any, rest: Any) -> Any:
        return ops.reshape(as_array(self.solver.residual(t, y, *rest)), (-1,))


class _Slopes(Slope):
    """The slopes at several times, with one y for each."""

    def __call__(self, t: Any, y: Any, rest: Any) -> Any:
        one = super().__call__
        return vmap(lambda t, y: one(t, y, rest))(t, y)


class _Parameter(NamedTuple):
    """The shape of a parameter; a complex one counts as its real parts followed by its imaginary parts."""

    shape: tuple[int, ...]
    complex: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape) * (1 + self.complex)

    def gradient(self, d: Any) -> Any:
        """Return the gradient by this parameter from the gradient by its real numbers."""
        half = self.size // 2
        return ops.reshape(d[:half] + 1j * d[half:] if self.complex else d, self.shape)

    def real(self, d: Any) -> Any:
        """Return the gradient by the real numbers from that by the parameter."""
        d = flat([d])
        return ops.concat(ops.real(d), ops.imag(d), axis=0) if self.complex else d


def _parameters(places: Sequence[Any], rest: Any) -> list[_Parameter]:
    leaves = leaves_of(rest)
    found = [leaves[plain(i) - 2] for i in places]
    return [_Parameter(shape_of(x), ops.is_complex(x)) for x in found]


class _Columns(NamedTuple):
    """The columns of a matrix of sensitivities: by the start, by the first time, and by the parameters at some places.
    `first` holds the initial values of the columns by the start and by the first time.
    """

    first: Any
    places: tuple[int, ...]
    params: list[_Parameter]

    def parts(self, wrt: Sequence[int], ds: Any) -> dict[int, Any]:
        """Return gradients, keyed by place, from one vector of them; the one at TIMES is by the first time alone."""
        n, found = shape_of(self.first)[0], {}
        if START in wrt:
            found[START] = ds[:n]
        end = shape_of(self.first)[1]
        if TIMES in wrt:
            found[TIMES] = ds[end - 1]
        for place, param in zip(self.places, self.params):
            found[place] = param.gradient(ds[end : end + param.size])
            end += param.size
        return found

    def vector(self, tangents: dict[int, Any]) -> Any:
        """Return tangents, keyed by place, as one vector."""
        parts = [tangents[START]] if START in tangents else []
        parts += [tangents[TIMES][:1]] if TIMES in tangents else []
        return flat(parts + [param.real(tangents[place]) for place, param in zip(self.places, self.params)])


def _columns(solver: Solver, given: Any, wrt: Sequence[int]) -> _Columns:
    start, times, *rest = given
    n = shape_of(start)[0]
    first = [np.eye(n)] if START in wrt else [np.empty((n, 0))]
    if TIMES in wrt:
        first.append(ops.reshape(-called(Slope(solver), times[0], start, rest), (n, 1)))
    places = tuple([i for i in wrt if i > TIMES])
    return _Columns(ops.concat(*first, axis=1) if len(first) > 1 else first[0], places, _parameters(places, rest))


def _at_times(solver: Solver, y: Any, given: Any) -> tuple[list[int], Any]:
    """Return which of the values move with a time, in the order of the times, and the slopes there. If the values are
    those at the solver's steps, only the first and the last move.
    """
    _, times, *rest = given
    count = shape_of(y)[0]
    at = list(range(count)) if shape_of(times)[0] == count else [0, -1]
    return at, [called(Slope(solver), times[k], y[k], rest) for k in at]


def gradients(solver: Solver, y: Any, dy: Cotangent, given: Any, wrt: Sequence[int]) -> list[Any]:
    start, times, *rest = given
    columns = _columns(solver, given, wrt)
    found = columns.parts(wrt, _ADJOINT(dy, start, columns.first, times, solver, columns.places, tuple(rest)))
    if TIMES in wrt:
        at, slopes = _at_times(solver, y, given)
        dt = [ops.sum(dy[k] * slope) for k, slope in zip(at, slopes)]
        found[TIMES] = ops.stack(found[TIMES] + dt[0], *dt[1:], axis=0)
    return [found[i] for i in wrt]


def tangent(solver: Solver, y: Any, tangents: dict[int, Any], given: Any) -> Any:
    start, times, *rest = given
    columns = _columns(solver, given, [*tangents])
    s = _sensitivities(start, columns.first, times, solver, columns.places, tuple(rest))
    dy = ops.matmul(s, columns.vector(tangents))
    if TIMES in tangents:
        at, slopes = _at_times(solver, y, given)
        moved = [tangents[TIMES][i] * slope for i, slope in enumerate(slopes)]
        still = np.zeros((shape_of(y)[0] - len(at), shape_of(y)[1]))
        dy = dy + ops.concat(ops.stack(moved[0], axis=0), still, *[ops.stack(x, axis=0) for x in moved[1:]], axis=0)
    return dy


def _sensitivities(start: Any, first: Any, times: Any, solver: Solver, places: tuple[int, ...], rest: Any) -> Any:
    """Return the derivatives of a solution, as an array indexed by time, unknown and column."""
    n, width = shape_of(start)[0], shape_of(first)[1] + sum(x.size for x in _parameters(places, rest))
    s0 = ops.concat(first, np.zeros((n, width - shape_of(first)[1])), axis=1)
    both = _SENSITIVITIES(ops.concat(start, ops.reshape(s0, (-1,)), axis=0), times, solver, n, places, rest)
    return ops.reshape(both[:, n:], (-1, n, width))


def _contracted(dy: Any, *given: Any) -> Any:
    """Return the product of one or several cotangents with the derivatives of a solution."""
    return ops.sum(ops.expand_dims(dy, axis=-1) * _sensitivities(*given), axis=(-3, -2))


def _derivatives(solver: Solver, t: Any, y: Any, rest: Any, places: Sequence[Any]) -> tuple[Tape, Any]:
    """Return a tape of the slope, and the matrix of its derivatives by y and by the parameters."""
    tape = record(Slope(solver), (t, y, rest), {}, DEFAULT, grad=True)
    asked = {2, *(plain(i) + 1 for i in places)}
    n, params = shape_of(y)[0], _parameters(places, rest)

    def row(unit: Any) -> Any:
        dy, *dx = pulled(tape, unit, asked)
        return flat([dy, *(x.real(d) for x, d in zip(params, dx))])

    units = np.eye(n)
    return tape, vmap(row)(units) if n >= FEW else ops.stack(*map(row, units), axis=0)


def _slope(t: Any, z: Any, solver: Solver, n: int, places: Sequence[Any], rest: Any) -> Any:
    """Return the slope of y, which has n numbers, and of its sensitivities, as one vector."""
    n, size = plain(n), sum(x.size for x in _parameters(places, rest))
    y, s = z[:n], ops.reshape(z[n:], (n, -1))
    tape, rows = _derivatives(solver, t, y, rest, places)
    ds = ops.matmul(rows[:, :n], s)
    if size:
        ds = ds + ops.concat(np.zeros((n, shape_of(s)[1] - size)), rows[:, n:], axis=1)
    return ops.concat(tape.result.val, ops.reshape(ds, (-1,)), axis=0)


def _is_single(op: Operation) -> bool:
    """True for an operation that a batch of points cannot share: a user's function is called at each point, and an
    exception raised at one need not be raised at another.
    """
    if type(op) is Guard:
        return op.fact == "raises"
    return type(op) is Call and type(op.fn) is Op and op.fn.effects.nested


@lru_cache(maxsize=64)
def _linearised(solver: Solver, into: Structure, places: tuple[int, ...], by: tuple[int, ...]) -> Any:
    """Return a compiled function of t, y and the leaves of the solver's other arguments. It returns the derivatives of
    the slope by y and by some parameters; the sides of the switches that depend on time, y or any parameter; those of
    the poles; and the number of points for a batch: those for which the program is the same and that fit in ROOM.
    """

    def linearised(t: Any, y: Any, *leaves: Any) -> Any:
        tape, rows = _derivatives(solver, t, y, into.build(list(leaves)), by)
        depends = activity(tape, {1, 2, *(i + 1 for i in places)})
        poles = dict(poles_of(tape.ops))
        turns = [op for op, args in steering(tape.ops, poles=True)
                 if op not in poles and any(depends[arg.id] for arg in args)]
        sides = [[side(op, *map(value_of, op.args)) for op in some]
                 for some in (turns, [op for op, arg in poles.items() if depends[arg.id]])]
        single = any(sides) or any(_is_single(op) for op in tape.ops)
        largest = max(op.spec.nbytes for op in tape.ops) * shape_of(y)[0]
        return rows, *sides, 1 if single else max(min(POINTS, ROOM // max(largest, 1)), 1)

    return Solver.compiled(linearised)


@lru_cache(maxsize=64)
def _linearised_together(solver: Solver, into: Structure, by: tuple[int, ...]) -> list[Any]:
    """Return a list of one compiled function, from several t, as many y and the same leaves to the derivatives of the
    slope at each. The list is emptied once it turns out that a batch is impossible, since the slope writes to memory
    that it does not own.
    """

    def linearised(t: Any, y: Any, *leaves: Any) -> Any:
        rest = into.build(list(leaves))
        return vmap(lambda t, y: _derivatives(solver, t, y, rest, by)[1])(t, y)

    return [Solver.compiled(linearised)]


@lru_cache(maxsize=64)
def _pulled(solver: Solver, into: Structure, places: tuple[int, ...], together: bool) -> Any:
    """Return a compiled function of t, y, a cotangent of the slope and the same leaves: the gradient by the parameters.
    With `together` it takes a batch of each and sums the gradients.
    """

    def pulled_slope(t: Any, y: Any, dy: Any, *leaves: Any) -> Any:
        rest = into.build(list(leaves))
        tape = record(_Slopes(solver) if together else Slope(solver), (t, y, rest), {}, DEFAULT, grad=True)
        found = pulled(tape, dy, {i + 1 for i in places})
        return flat([x.real(d) for x, d in zip(_parameters(places, rest), found)])

    return Solver.compiled(pulled_slope)


class _Polynomials:
    """A function of time that is a polynomial in each step, known at the step's start and nodes."""

    def __init__(self, nodes: Any, values: Any) -> None:
        self.nodes, self.values = nodes, values

    def __call__(self, times: Any) -> Any:
        step, weights = _weights(self.nodes, times)
        return (weights[:, None, :] @ self.values[step])[:, 0]


def _weights(nodes: Any, times: Any) -> tuple[Any, Any]:
    """Return the steps in which some times lie, and the weights there of the values at a step's start and nodes."""
    if len(nodes) < 2:
        return np.zeros(len(times), int), np.eye(STAGES + 1)[np.zeros(len(times), int)]
    sign = 1.0 if nodes[-1] >= nodes[0] else -1.0
    step = np.clip(np.searchsorted(sign * nodes, sign * times) - 1, 0, len(nodes) - 2)
    part = (times - nodes[step]) / (nodes[step + 1] - nodes[step])
    return step, (part[:, None] ** np.arange(STAGES + 1)) @ BASIS


class _Steps:
    """The steps of a solution, the slope's derivatives at their nodes, and their collocation systems.

    A step in which the slope switches is split there, so that the derivatives are smooth in each part.
    """

    def __init__(self, start: Any, times: Any, solver: Solver, places: tuple[int, ...], by: tuple[int, ...],
                 rest: Any) -> None:
        self.found: Solution = solver.path(start, times, *rest)  # type: ignore[misc]
        self.start, self.n, self.leaves = start, len(start), list[Any]()
        into = flatten(rest, "", self.leaves, [], given=True)
        self.into, self.linearised = into, _linearised(solver, into, places, by)
        self.by, self.solver = by, solver
        self._place(self.found.nodes)
        points = [(float(self.nodes[0]), start), *self.points]
        sides = [turns + poles for turns, poles in zip(self.turns, self.poles)]
        check_path(solver.name, Slope(solver), points, sides, rest, {2, *(i + 1 for i in places)})
        if switches := self._switches():
            self._place(np.concatenate([self.found.nodes, switches]))

    def _place(self, nodes: Any) -> None:
        nodes = np.unique(nodes)
        self.nodes = nodes if self.found.nodes[-1] >= self.found.nodes[0] else nodes[::-1]
        self.widths = np.diff(self.nodes)
        self.at = self.nodes[:-1, None] + self.widths[:, None] * PLACES
        self.at[:, -1] = self.nodes[1:]
        self.states = self.found.between(self.at.ravel()) if len(self.at) else np.empty((0, self.n))  # no time passes
        self.points = [*zip(self.at.ravel().tolist(), self.states)]
        with np.errstate(all="ignore"):  # the solver has issued its warnings
            first, turns, poles, count = self.linearised(float(self.nodes[0]), self.start, *self.leaves)
            self.turns, self.poles, self.count = [turns], [poles], count if len(self.points) >= count else 1
            rows = np.empty((len(self.points), *first.shape))
            together = _linearised_together(self.solver, self.into, self.by) if self.count > 1 else []
            try:
                for part, t, y in self.together() if together else ():
                    rows[part] = together[0](t, y, *self.leaves)[: part.stop - part.start]
            except TapeError:
                together.clear()
            if not together:
                self.count = 1
                for k, (t, y) in enumerate(self.points):
                    rows[k], turns, poles, _ = self.linearised(t, y, *self.leaves)
                    self.turns.append(turns)
                    self.poles.append(poles)
        self.rows = rows.reshape(len(self.at), STAGES, *first.shape)

    def together(self) -> Iterator[tuple[slice, Any, Any]]:
        """Yield batches of the points, with their times and states. All have the same size, the last padded with its
        last point, so that one compiled function serves them.
        """
        times = self.at.ravel()
        for begin in range(0, len(times), self.count):
            part = slice(begin, min(begin + self.count, len(times)))
            at = np.minimum(np.arange(begin, begin + self.count), len(times) - 1)
            yield part, times[at], self.states[at]

    def _switches(self) -> list[float]:
        """Return the last times before the slope takes another branch or changes sides of a possible jump."""
        found, times = [], [float(self.nodes[0]), *self.at.ravel().tolist()]
        for here, there, t, t2 in zip(self.turns, self.turns[1:], times, times[1:]):
            if not agree(here, there):
                for _ in range(HALVINGS):
                    middle = 0.5 * (t + t2)
                    with np.errstate(all="ignore"):
                        y = self.found.between(np.array([middle]))[0]
                        _, turns, _, _ = self.linearised(middle, y, *self.leaves)
                    t, t2 = (middle, t2) if agree(here, turns) else (t, middle)
                found.append(t)
        return found

    def blocks(self, extra: int) -> Iterator[tuple[slice, Any]]:
        """Yield blocks of steps and the matrices of their systems, of at most MOST numbers each."""
        n, size = self.n, STAGES * self.n
        block = max(MOST // (size * (size + extra)), 1)
        for begin in range(0, len(self.at), block):
            part = slice(begin, begin + block)
            j = self.rows[part, :, :, :n]
            hj = self.widths[part, None, None, None, None] * MATRIX[:, None, :, None] * np.moveaxis(j, 1, 2)[:, None]
            yield part, np.eye(size) - hj.reshape(len(j), size, size)

    def pushed(self, s: Any) -> Any:
        """Return the solution of dS/dt = J S + F that starts at `s`, at the start of each step and at its nodes."""
        n, (_, width), forced = self.n, s.shape, self.rows.shape[-1] - self.n
        found = np.empty((max(len(self.at), 1), STAGES + 1, n, width))
        found[0, 0] = s
        for part, system in self.blocks(n + forced):
            h = self.widths[part]
            right = np.zeros((len(h), STAGES, n, n + forced))
            right[..., :n] = np.eye(n)
            if forced:
                f = self.rows[part, :, :, n:]
                right[..., n:] = h[:, None, None, None] * (MATRIX @ f.reshape(len(h), STAGES, -1)).reshape(f.shape)
            solved = np.linalg.solve(system, right.reshape(len(h), STAGES * n, -1))
            starts = found[part, 0]
            for k, last in enumerate(solved[:, -n:]):
                starts[k] = s
                s = last[:, :n] @ s
                s[:, width - forced :] += last[:, n:]
            made = solved[:, :, :n] @ starts
            made[..., width - forced :] += solved[:, :, n:]
            found[part, 1:] = made.reshape(len(h), STAGES, n, width)
        return found

    def pulled(self, dy: Any) -> tuple[Any, Any]:
        """Return the cotangents of the start, and of the slope at each point, from cotangents of the solution."""
        n, count = self.n, len(dy)
        step, weights = _weights(self.nodes, self.found.times)
        given = np.zeros((max(len(self.at), 1), STAGES + 1, n, count))
        np.add.at(given, step, weights[:, :, None, None] * np.moveaxis(dy, 0, -1)[:, None])
        slopes = np.empty((len(self.at), STAGES * n, count))
        if not len(self.at):
            return given[0, 0], slopes
        ds = np.zeros((n, count))  # by the state at the end of a step
        for part, system in reversed([*self.blocks(n + count)]):
            h = self.widths[part]
            right = np.zeros((len(h), STAGES * n, n + count))
            right[:, -n:, :n] = np.eye(n)  # from the later steps
            right[:, :, n:] = given[part, 1:].reshape(len(h), STAGES * n, count)
            solved = np.linalg.solve(np.swapaxes(system, 1, 2), right)
            summed = solved.reshape(len(h), STAGES, n, n + count).sum(1)
            summed[:, :, n:] += given[part, 0]
            after = np.empty((len(h), n, count))
            for k in reversed(range(len(h))):
                after[k] = ds
                ds = summed[k, :, :n] @ ds + summed[k, :, n:]
            stages = solved[:, :, n:] + solved[:, :, :n] @ after
            slopes[part] = h[:, None, None] * (MATRIX.T @ stages.reshape(len(h), STAGES, -1)).reshape(stages.shape)
        return ds, slopes.reshape(len(self.points), n, count)


def _find_adjoint(dy: Any, start: Any, first: Any, times: Any, solver: Solver, places: tuple[int, ...],
                  rest: Any) -> Any:
    steps = _Steps(start, times, solver, places, (), rest)
    each = np.reshape(dy, (-1, *dy.shape[-2:]))
    ds, slopes = steps.pulled(each)
    found = [ds.T @ first]
    if places:
        total = np.zeros((len(each), sum(x.size for x in _parameters(places, rest))))
        fn = _pulled(solver, steps.into, places, steps.count > 1)
        with np.errstate(all="ignore"):
            if steps.count > 1:
                for part, t, y in steps.together():
                    padded = np.zeros((len(t), *slopes.shape[1:]))
                    padded[: part.stop - part.start] = slopes[part]
                    for k, row in enumerate(total):
                        row += fn(t, y, padded[..., k], *steps.leaves)
            else:
                for (t, y), at in zip(steps.points, slopes):
                    for row, dy in zip(total, at.T):
                        row += fn(t, y, dy, *steps.leaves)
        found.append(total)
    return np.concatenate(found, axis=1).reshape(*dy.shape[:-2], -1)


def _path(z: Any, times: Any, solver: Solver, n: int, places: tuple[int, ...], rest: Any) -> Solution:
    """Return the solution and its sensitivities, on the solver's steps."""
    steps = _Steps(z[:n], times, solver, places, places, rest)
    s = steps.pushed(z[n:].reshape(n, -1))
    states = steps.states.reshape(-1, STAGES, n)
    first = np.concatenate([z[None, :n], states[:, -1]])[: len(s)]  # each step's first state
    y = np.concatenate([first[:, None], states], axis=1) if len(states) else np.repeat(first[None], STAGES + 1, axis=1)
    both = np.concatenate([y, s.reshape(*y.shape[:2], -1)], axis=2)
    return Solution(steps.found.times, steps.nodes, _Polynomials(steps.nodes, both))


def _find(z: Any, times: Any, solver: Solver, n: int, places: tuple[int, ...], rest: Any) -> Any:
    found = _path(z, times, solver, n, places, rest)
    return found.between(found.times)


def _all_at_once(call: Members, dy: Any, *given: Any, **options: Any) -> Any:
    """Return the products of several cotangents; the steps are solved once."""
    return call.op(dy, *given, **options) if call.only(0) else NotImplemented


_SENSITIVITIES = Solver("sensitivities", _find, _slope, "ode", path=_path)
_ADJOINT = Solver("adjoint", _find_adjoint, _contracted, "composite", batch=_all_at_once)
