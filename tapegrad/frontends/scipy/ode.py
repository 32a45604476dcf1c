"""scipy.integrate's differential equations.

The methods of `solve_ivp` that are Python code are traced step by step, with what they do about the size of the steps:
their gradient is that of the very numbers that they return. LSODA, which is C, and `odeint` are differentiated by the
equation that they solve.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.integrate as si
import scipy.optimize as so
from scipy.integrate._ivp import ivp, radau

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.optimize import Found, converged
from tapegrad.frontends.scipy.python_code import number
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solver
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import constructs, means, refused
from tapegrad.trace.interposition import with_names
from tapegrad.trace.steering import agree, steered
from tapegrad.tree.flatten import flatten

_SIGNATURES = {fn: signature(fn) for fn in (si.odeint, si.solve_ivp)}  # while a trace runs they have other code


def _slope(t: Any, y: Any, given: dict[str, Any]) -> Any:
    args = given.get("args", ())
    return given["func"](
        *((t, y) if plain(given.get("tfirst")) else (y, t)), *(args if isinstance(args, tuple) else (args,))
    )


def _odeint(start: Any, times: Any, given: dict[str, Any]) -> Any:
    y, info = si.odeint(y0=start, t=times, **{**given, "full_output": True})
    if info["message"] != "Integration successful." and np.ptp(times):  # unless no time passes
        raise refused("odeint", f"it has not reached the last time: {info['message']}", "closer tolerances, or mxstep=")
    return y


_ODEINT = Solver("odeint", _odeint, _slope, "ode")


@means(si.odeint)
def odeint(*args: Any, **kwargs: Any) -> Any:
    given = dict(_SIGNATURES[si.odeint].bind(*args, **kwargs).arguments)
    if given.get("full_output"):
        raise refused("odeint with full_output", "of it only the solution is on a tape", "a call without full_output")
    start, times = (_vector(given.pop(name)) for name in ("y0", "t"))
    return _ODEINT(start, times, given)


def _vector(x: Array) -> Any:
    x = as_array(x)
    return ops.reshape(x, (-1,)) * 1.0 if isinstance(x, Traced) else np.atleast_1d(np.asarray(x, float))


def _by_compiled_steps(_tracer: Any, own: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse the integrators that call a traced slope from compiled code, which does not survive what that raises."""
    leaves: list[Any] = []
    names = ("f", "cf", "jac", "cjac", "f_params", "jac_params", "_y")
    solver = getattr(self, "_lsoda_solver", self)
    flatten(([getattr(solver, name, None) for name in names], args), "", leaves, [])
    if any(isinstance(leaf, Traced) for leaf in leaves):
        raise refused(
            f"scipy.integrate.{type(self).__name__}",
            "its steps are made by compiled code",
            "scipy.integrate.solve_ivp, or odeint, which are differentiable",
        )
    return own(self, *args, **kwargs)


# LSODA's, given a start that makes no plain array, corrupts the memory of the process
constructs(si.ode.integrate, si.LSODA._step_impl, interposed=True)(_by_compiled_steps)


# -- what the methods in Python ask of the trace


def _event(event: Any, kind: Any, parts: dict[str, Any], t_old: Any, t: Array) -> Any:
    return so.brentq(lambda s: _at(s, event, kind, parts, t_old, t), t_old, t, xtol=4 * ivp.EPS, rtol=4 * ivp.EPS)


def _at(s: Array, event: Any, kind: Any, parts: dict[str, Any], t_old: Any, t: Array) -> Any:
    sol = object.__new__(kind)
    vars(sol).update(parts)
    return event(s, sol(s))


_EVENT = Solver("event", _event, _at)


@means(ivp.solve_event_equation)
def solve_event_equation(event: Any, sol: Any, t_old: Any, t: Array) -> Any:
    """Return when an event happens: the polynomial through the steps is taken apart, and its coefficients seen."""
    return _EVENT(event, type(sol), vars(sol), t_old, t)


_collocation = radau.solve_collocation_system
_asking = with_names(
    _collocation, {name: SimpleNamespace(dot=partial(np.dot, getattr(radau, name))) for name in ("T", "TI")}
)
_solve_ivp = with_names(si.solve_ivp, {"float": number})


@means(_collocation)
def solve_collocation_system(*args: Any) -> Any:
    """Solve the equations of a step of Radau's as SciPy does, whose `T.dot(W)`, of a plain array, asks nobody."""
    return _asking(*args)


def _lsoda_slope(t: Array, y: Array, end: Any, given: dict[str, Any]) -> Any:
    return given["fun"](t, y, *(given.get("args") or ()))


def _lsoda(start: Any, times: Any, end: Any, given: dict[str, Any]) -> Any:
    found = converged("solve_ivp", si.solve_ivp(y0=start, t_span=(times[0], end), t_eval=times[1:], **given))
    return np.concatenate([start[None], found.y.T])  # SciPy takes no time twice, and the first may be asked for


_LSODA = Solver("lsoda", _lsoda, _lsoda_slope, "ode")


def _by_lsoda(given: dict[str, Any]) -> Any:
    """Return what LSODA, which is C, finds at given times: that has the derivative of the equation."""
    if given.get("t_eval") is None or given.get("events") is not None or plain(given.get("dense_output")):
        raise refused(
            "solve_ivp with LSODA",
            "its steps are made by compiled code, and only its values at given times have a derivative",
            't_eval=, and neither events nor dense_output; or method="BDF" or "Radau", which are traced',
        )
    t0, end = given.pop("t_span")
    times = _vector(given.pop("t_eval"))
    y = _LSODA(_vector(given.pop("y0")), ops.concat(_vector(t0), times, axis=0), end, given)
    return Found(t=times, y=ops.permute_dims(y[1:], axes=(1, 0)), sol=None, t_events=None, y_events=None, success=True)


_SWITCH = Solver("slope", lambda slope, *rest: slope, lambda t, y, fun, args, first: fun(t, y, *args), "switch")


class _Watched:
    """A slope that is traced, and notes on the tape where it takes another branch than in the evaluation before, as
    time goes: of a step that was rejected nothing is left when a shorter one is tried.
    """

    def __init__(self, fun: Any, backwards: bool) -> None:
        self.fun, self.direction = fun, -1.0 if backwards else 1.0
        # more than a step has stages
        self.before: deque[tuple[float, Any, Any, dict[int, Any], bool]] = deque(maxlen=16)
        self.first = True

    def __call__(self, t: Array, y: Array, *args: Any) -> Any:
        with steered() as sides:
            slope = self.fun(t, y, *args)
        before, now = self.before, self.direction * plain(t)
        while before and (before[-1][0] > now or (before[-1][0] == now and not before[-1][-1])):
            before.pop()
        then = before[-1] if before else None
        if then is None or np.shape(plain(y)) == np.shape(plain(then[2])):  # not several, for a matrix of differences
            before.append((now, t, y, sides, self.first))
            self.first = False
            if then is not None and not agree(then[3], sides):
                return _SWITCH(as_array(slope), *then[1:3], t, y, self.fun, args, then[-1])
        return slope


@means(si.solve_ivp)
def solve_ivp(*args: Any, **kwargs: Any) -> Any:
    """Run SciPy's Python code on traced values, the ends of the time among them."""
    given = _SIGNATURES[si.solve_ivp].bind(*args, **kwargs).arguments
    if given.get("method") in ("LSODA", si.LSODA):
        return _by_lsoda({**given.pop("options", {}), **given})
    start, end = map(plain, given["t_span"])
    given["fun"] = _Watched(given["fun"], bool(end < start))
    return _solve_ivp(**given.pop("options", {}), **given)
