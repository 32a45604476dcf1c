"""What a solver of SciPy returns beside its solution is what the plain program gets, or is refused: never absent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.optimize as so

import tapegrad as tg

X = np.array([1.0, 2.0, 3.5])


def minimum(x: Any) -> Any:
    return so.minimize(lambda p: ((p - x) ** 2).sum(), np.zeros(3))


def roots(x: Any) -> Any:
    return so.fsolve(lambda y: y ** 3 - x, np.ones(3), full_output=True)[1]


def bounded(x: Any) -> Any:
    return so.fmin_l_bfgs_b(lambda p: ((p - x) ** 2).sum(), np.zeros(3), approx_grad=True)[2]


def bracketed(x: Any) -> Any:
    return so.root_scalar(lambda y: y ** 3 - x[0], bracket=[0, 3])


WAYS: dict[str, Callable[[Any, str], Any]] = {
    "attribute": lambda r, name: getattr(r, name, 100), "in": lambda r, name: name in r, "item": lambda r, name: r[name], "get": lambda r, name: r.get(name, 1), "len": lambda r, name: len(r),
    "iteration": lambda r, name: [*r], "dict": lambda r, name: dict(r), "update": lambda r, name: {**r}, "keys": lambda r, name: r.keys(), "items": lambda r, name: r.items(),
    "values": lambda r, name: r.values(), "pop": lambda r, name: r.pop(name, 0), "setdefault": lambda r, name: r.setdefault(name, 0), "equal": lambda r, name: r == {}, "or": lambda r, name: r | {},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("solve", "name"), [(minimum, "hess_inv"), (minimum, "nit"), (roots, "nfev"), (bounded, "nit"), (bracketed, "iterations")])
def test_each_way_to_what_a_trace_does_not_hold_is_refused(solve: Callable[[Any], Any], name: str, way: str) -> None:
    if way == "attribute" and not hasattr(solve(X), name):
        return  # a plain dict has no such attribute anywhere

    def f(x: Any) -> Any:
        WAYS[way](solve(x), name)
        return x.sum()

    f(X)
    for run in (lambda: tg.grad(f, X), lambda: tg.compile(f)(X)):
        with pytest.raises(tg.UnknownFunction, match="internal steps are not recorded") as caught:
            run()
        assert caught.value.try_ and caught.value.where is not None and caught.value.where.file == __file__


@pytest.mark.parametrize("f", [
    lambda x: (r := so.leastsq(lambda p: p - x, np.zeros(3)))[0].sum() * r[1],
    lambda x: x.sum() * (2.0 if bounded(x).get("warnflag", 1) == 0 else 3.0),
    lambda x: x.sum() * (2.0 if so.minimize(lambda p: ((p - x) ** 2).sum() + 1e3, np.zeros(3), options={"gtol": 1e-15}).success else 3.0),
    lambda x: x.sum() * (2.0 if minimum(x) and "x" in minimum(x) and minimum(x).success is True else 3.0),
    lambda x: x.sum() * si.solve_ivp(lambda t, y: -y * x[0], (0, 1), x).nfev,
])
def test_facts_of_a_run_are_those_of_the_plain_run(f: Callable[[Any], Any]) -> None:
    value, tape = tg.trace(f, X)
    compiled = tg.compile(f)
    for x in (X, X, 0.5 * X):
        assert compiled(x) == pytest.approx(f(x), rel=1e-12)
    assert value == pytest.approx(f(X), rel=1e-12) and tape.play(X) == pytest.approx(f(X), rel=1e-12)
    assert tg.grad(f, X)[0] == pytest.approx(f(X), rel=1e-12)


@pytest.mark.parametrize(("solve", "kind"), [(minimum, so.OptimizeResult), (bracketed, so.RootResults), (lambda x: si.solve_ivp(lambda t, y: -y * x[0], (0, 1), x), so.OptimizeResult)])
def test_a_result_that_is_returned_is_of_scipys_class(solve: Callable[[Any], Any], kind: type) -> None:
    wanted = solve(X)
    for found in (tg.trace(solve, X)[0], tg.compile(solve)(X)):
        assert isinstance(found, kind) and type(found).__name__ == type(wanted).__name__
        repr(found)
        if type(found) is type(wanted):
            assert [*found] == [*wanted] and [*map(type, found.values())] == [*map(type, wanted.values())]
        else:
            with pytest.raises(tg.UnknownFunction):
                len(found)
