"""scipy.integrate's solvers of differential equations run on plain numbers; a solution is differentiated by its
equation.
"""

from __future__ import annotations

from functools import partial
from inspect import signature
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.integrate._ivp import ivp, radau

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.results import converged
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solution, Solver
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import constructs, means, refused
from tapegrad.trace.interposition import with_names
from tapegrad.tree.flatten import flatten

_SIGNATURES = {fn: signature(fn) for fn in (si.odeint, si.solve_ivp)}  # while a trace runs these have other code
Named = dict[str, Any]
CLOSEST = 1e4 * float(np.finfo(float).eps)  # the smallest relative distance of two times


def _vector(x: Array, fewest: int = 0, refusal: str = "") -> Any:
    """Return numbers as a vector; raise ValueError(refusal) if they have less than `fewest` or more than one axis."""
    x = as_array(x)
    if refusal and not fewest <= len(shape_of(x)) <= 1:
        raise ValueError(refusal)
    return ops.reshape(x, (-1,)) * 1.0 if isinstance(x, Traced) else np.atleast_1d(np.asarray(x) * 1.0)


# -- odeint


def _odeint_slope(t: Any, y: Any, given: Named) -> Any:
    args = given.get("args", ())
    return given["func"](
        *((t, y) if plain(given.get("tfirst")) else (y, t)), *(args if isinstance(args, tuple) else (args,))
    )


def _odeint(start: Any, times: Any, given: Named) -> Any:
    y, info = si.odeint(y0=start, t=times, **{**given, "full_output": True})
    if info["message"] != "Integration successful." and np.ptp(times):  # equal times are no error
        raise refused("odeint", f"it did not reach the last time: {info['message']}",
                      "smaller tolerances, or mxstep=")
    return y


def _odeint_path(start: Any, times: Any, given: Named) -> Solution:
    """Return the solution of `odeint`. Its steps, also rejected ones, end where it evaluates the slope. LSODA's
    interpolant is hidden in compiled code, so the values between the steps are solved for again.
    """
    asked = [times[0]]

    def func(*args: Any) -> Any:
        asked.append(args[not given.get("tfirst")])
        return given["func"](*args)

    known = _odeint(start, times, {**given, "func": func}), times
    low, high = sorted((times[0], times[-1]))
    sign = 1 if times[-1] >= times[0] else -1
    nodes = np.unique([*np.clip(asked, low, high), high])
    closest = CLOSEST * max(abs(low), abs(high))  # LSODA refuses times that it cannot distinguish from the current one
    inner = nodes[1:-1][(np.diff(nodes[:-1]) > closest) & (high - nodes[1:-1] > closest)]
    nodes = np.concatenate([nodes[:1], inner, nodes[-1:]]) if high > low else nodes

    def between(at: Any) -> Any:
        nonlocal known
        states, then = known
        k = np.searchsorted(sign * then, sign * at[0], "right") - 1  # start from a state that was found before
        found = _odeint(states[k], np.concatenate([then[k : k + 1], at]), given)
        if k == 0:
            known = found, np.concatenate([then[:1], at])
        return found[1:]

    return Solution(times, nodes[::sign], between)


_ODEINT = Solver("odeint", _odeint, _odeint_slope, "ode", path=_odeint_path)


@means(si.odeint)
def odeint(*args: Any, **kwargs: Any) -> Any:
    given = dict(_SIGNATURES[si.odeint].bind(*args, **kwargs).arguments)
    if given.get("full_output"):
        raise refused("odeint with full_output", "only the solution can be recorded", "call it without full_output")
    start, times = _vector(given.pop("y0"), 0, "Initial condition y0 must be one-dimensional."), _vector(given.pop("t"))
    return _ODEINT(start, times, given)


# -- solve_ivp. `how` says whether the solution is complex, is returned at the steps, and is read from the dense output.


def _split(y: Any, how: Named) -> Any:
    """Return a complex solution as real numbers: the real parts, followed by the imaginary parts."""
    return ops.concat(ops.real(y), ops.imag(y), axis=-1) if how["complex"] else y


def _joined(y: Any, how: Named) -> Any:
    if not how["complex"]:
        return y  # its shape is not read: there may be as many values as steps
    half = shape_of(y)[-1] // 2
    return y[..., :half] + 1j * y[..., half:]


def _args(given: Named) -> Any:
    return () if given.get("args") is None else given["args"]


def _slope(t: Any, y: Any, end: Any, given: Named, how: Named) -> Any:
    y = _joined(y, how)
    slope = as_array(given["fun"](t, y[:, None] if how["vectorized"] else y, *_args(given)))
    return _split(ops.reshape(slope, (-1,)), how)


def _solved(start: Any, times: Any, end: Any, given: Named, how: Named, dense: bool) -> Any:
    at = {"dense_output": True} if dense else {"t_eval": None if how["steps"] else times[1:]}
    return converged("solve_ivp", si.solve_ivp(y0=_joined(start, how), t_span=(times[0], end), **at, **given))


def _find(start: Any, times: Any, end: Any, given: Named, how: Named) -> Any:
    """Return the solution's values, their times, and SciPy's counts of evaluations (nfev, njev, nlu)."""
    found = _solved(start, times, end, given, how, how["dense"])
    shape = (len(start) // (1 + how["complex"]), -1)  # SciPy returns a list if an event precedes all times
    y = _split((found.sol(times[1:]) if how["dense"] else np.reshape(found.y, shape)).T, how)
    # SciPy rejects repeated times, and the first one may be among t_eval
    return y if how["steps"] else np.concatenate([start[None], y]), np.asarray(found.t), np.array(
        [found.nfev, found.njev, found.nlu])


def _path(start: Any, times: Any, end: Any, given: Named, how: Named) -> Solution:
    found = _solved(start, times, end, given, how, True)
    return Solution(found.t if how["steps"] else times, found.t, lambda at: _split(found.sol(at).T, how))


_IVP = Solver("solve_ivp", _find, _slope, "ode", facts=True, path=_path)


def _find_events(start: Any, times: Any, end: Any, given: Named, how: Named) -> Any:
    """Return the times of events; and the number of requested times reached (0 for steps), the status, and the number
    of each event's occurrences.
    """
    found = _solved(start, times, end, given, how, False)
    return np.concatenate(found.t_events), np.array([
        0 if how["steps"] else len(found.t), found.status, *map(len, found.t_events)])


def _at_event(s: Any, t: Any, event: Any, start: Any, begin: Any, end: Any, given: Named, how: Named) -> Any:
    """Return the residual that is zero when an event occurs."""
    y = _IVP(start, ops.stack(begin, s, axis=0), end, given, how | {"steps": False, "dense": True})[0][1]
    return event(s, _joined(y, how), *_args(given))


_EVENTS = Solver("events", _find_events, _slope, "constant", facts=True)
_EVENT = Solver("event", lambda t, *given: t, _at_event)


class Dense:
    """The solution as a function of time, like SciPy's `OdeSolution`."""

    def __init__(self, begin: Any, end: Any, steps: Any, solve: Any) -> None:
        self._steps, self._solve = steps, solve
        ends = ops.stack(begin, end, axis=0)
        self.t_min, self.t_max = ops.min(ends), ops.max(ends)

    @property
    def ts(self) -> Any:
        """The times of the steps."""
        return self._steps()

    def __call__(self, t: Any) -> Any:
        y = self._solve(_vector(t))
        return y if shape_of(as_array(t)) else y[:, 0]


@means(si.solve_ivp)
def solve_ivp(*args: Any, **kwargs: Any) -> Any:
    """Solve the equation by one operation for any number of steps, and by one more for each event that occurs."""
    given = dict(_SIGNATURES[si.solve_ivp].bind(*args, **kwargs).arguments)
    given |= given.pop("options", {})
    begin, end = (ops.reshape(as_array(t) * 1.0, ()) for t in given.pop("t_span"))
    start = _vector(given.pop("y0"), 1, "`y0` must be 1-dimensional.")
    times, dense = given.pop("t_eval", None), plain(given.pop("dense_output", False))
    how = {"complex": ops.is_complex(start), "steps": times is None, "dense": False,
           "vectorized": bool(plain(given.get("vectorized")))}
    start, last, span = _split(start, how), end, ops.stop_gradient(end)
    asked = (ops.stack(begin, end, axis=0) if times is None else
             ops.concat(ops.reshape(begin, (1,)), _vector(times), axis=0))

    def solved(times: Any, how: Named) -> Any:
        y, *facts = _IVP(start, times, span, given, how)
        return ops.permute_dims(_joined(y, how), axes=(1, 0)), *facts

    def at(times: Any) -> Any:
        times = ops.concat(ops.reshape(begin, (1,)), times, axis=0)
        return solved(times, how | {"steps": False, "dense": True})[0][:, 1:]

    t_events, y_events, status = None, None, 0
    if (events := given.get("events")) is not None:
        found, counts = map(ops.stop_gradient, _EVENTS(start, asked, span, given, how))
        count, status, *each = (int(counts[i]) for i in range(shape_of(counts)[0]))  # guarded
        moments = [_EVENT(found[i], event, start, begin, span, given, how) for i, event in enumerate(
            event for event, n in zip(events if isinstance(events, (list, tuple)) else [events], each)
            for _ in range(n))]
        ends = np.cumsum([0, *each])
        t_events = [ops.stack(*moments[a:b], axis=0) if b > a else np.array([]) for a, b in pairwise(ends)]
        y_events = [ops.permute_dims(at(t), axes=(1, 0)) if shape_of(t)[0] else np.array([]) for t in t_events]
        if status:  # the last event ended the solution
            last = max(moments, key=lambda t: abs(plain(t) - plain(begin)))
        asked = ops.stack(begin, last, axis=0) if times is None else asked[:count + 1]

    def with_ends(t: Any) -> Any:
        if not any(isinstance(x, Traced) for x in (begin, last)):
            return t
        return ops.concat(ops.reshape(begin, (1,)), t[1:-1], ops.reshape(last, (1,)), axis=0)

    def steps() -> Any:
        return with_ends(solved(ops.stack(begin, last, axis=0), how | {"steps": True})[1])

    y, t, counts = solved(asked, how)
    t, y = (with_ends(t), y) if times is None else (asked[1:], y[:, 1:])
    nfev, njev, nlu = (ops.item(counts, i) for i in range(3))
    return ivp.OdeResult(t=t, y=y, sol=Dense(begin, last, steps, at) if dense else None, t_events=t_events,
                         y_events=y_events, nfev=nfev, njev=njev, nlu=nlu, status=status,
                         message=ivp.MESSAGES[status], success=True)


# -- the classes that take single steps


def _by_compiled_steps(_tracer: Any, own: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse integrators that call a traced slope from compiled code, which cannot propagate its errors."""
    leaves: list[Any] = []
    names = ("f", "cf", "jac", "cjac", "f_params", "jac_params", "_y")
    solver = getattr(self, "_lsoda_solver", self)
    flatten(([getattr(solver, name, None) for name in names], args), "", leaves, [])
    if any(isinstance(leaf, Traced) for leaf in leaves):
        raise refused(
            f"scipy.integrate.{type(self).__name__}",
            "its steps are computed by compiled code",
            "scipy.integrate.solve_ivp, or odeint, which are differentiable",
        )
    return own(self, *args, **kwargs)


# LSODA corrupts the memory of the process if its initial state is not a plain array
constructs(si.ode.integrate, si.LSODA._step_impl, interposed=True)(_by_compiled_steps)


_collocation = radau.solve_collocation_system
_asking = with_names(
    _collocation, {name: SimpleNamespace(dot=partial(np.dot, getattr(radau, name))) for name in ("T", "TI")}
)


@means(_collocation)
def solve_collocation_system(*args: Any) -> Any:
    """Solve a Radau step's equations as SciPy does, with np.dot for `T.dot(W)`, a method that does not dispatch."""
    return _asking(*args)
