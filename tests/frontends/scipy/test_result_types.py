"""The types of all parts of what SciPy's functions return are the same in a trace as in the plain program."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as sy
import scipy.linalg as sl
import scipy.optimize as so

import tapegrad as tg
from tests.frontends.scipy.names import ROWS
from tests.frontends.scipy.test_names import MAP

X = np.array([1.0, 2.0, 3.5])
SQUARE = np.outer(X, X) + np.eye(3)
FUNCTIONS = [pytest.param(space, name, id=f"{space}.{name}") for space, rows in ROWS.items() for name in rows
             if name in MAP[space] and MAP[space][name].covered and not isinstance(getattr(importlib.import_module(space), name), type)]


class Whole(Exception):
    """Carries what a function returns past the rest of the program that calls it."""


def types(y: Any, at: str = "") -> dict[str, str]:
    """Return the type of each part of a result, and the shape and dtype of arrays, by the way to it."""
    found = {at: "callable" if callable(y) else f"{type(y).__qualname__} {(y.shape, y.dtype.str) if isinstance(y, np.ndarray) else ''}"}
    parts = {f"[{key!r}]": part for key, part in dict.items(y)} if isinstance(y, dict) else {
        f"[{i}]": part for i, part in enumerate(y)} if isinstance(y, (list, tuple)) else {
        f".{name}": part for name, part in getattr(y, "__dict__", {}).items() if not callable(y) and name[0] != "_"}
    for way, part in parts.items():
        found |= types(part, at + way)
    return found


def check(f: Callable[..., Any], *args: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = types(f(*args))
        try:
            result = tg.trace(f, *args)[0]
        except tg.TapeError:
            return  # it says so
    found = types(result)
    assert found == {way: kind for way, kind in wanted.items() if way in found}
    if found.keys() != wanted.keys():
        with pytest.raises(tg.UnknownFunction):
            len(result)


@pytest.mark.parametrize(("space", "name"), FUNCTIONS)
def test_each_part_of_a_result_has_scipys_type(space: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, (fn, *args) = importlib.import_module(space), ROWS[space][name]
    own = getattr(module, name)

    def stop(*args: Any, **kwargs: Any) -> Any:
        raise Whole(own(*args, **kwargs))

    def whole(*args: Any) -> Any:
        try:
            return fn(*args)
        except Whole as found:
            return found.args[0]

    spaces = getattr(fn, "__globals__", {}) if getattr(fn, "__module__", "").startswith(__package__) and inspect.isroutine(own) else {}
    for key in [key for key, x in spaces.items() if x is module]:
        monkeypatch.setitem(spaces, key, SimpleNamespace(**{**{key: getattr(module, key) for key in dir(module)}, name: stop}))
    check(whole, *args)


@pytest.mark.parametrize("f", [
    lambda x: [sl.norm(y, ord) for y in (x, x.astype("f4"), x * 1j) for ord in (None, 1, 2, np.inf)],
    lambda x: [sl.norm(y, ord) for y in (x[:, None] * x, (x[:, None] * x).T) for ord in (None, 1, 2, np.inf, "fro", "nuc")],
    lambda x: [sl.norm(x, axis=0), sl.norm(x, keepdims=True), sl.norm(x * SQUARE, axis=0), sl.norm(x * SQUARE, axis=(0, 1))],
    lambda x: [sl.lstsq(a, b) for a in (SQUARE, SQUARE[:, :2]) for b in (x, x[:, None], x[:, None] * x)],
    lambda x: sl.lstsq(SQUARE[:, :2], x, lapack_driver="gelsy")[1:],
    lambda x: sy.splint(0.2, 1.5, sy.splrep(np.arange(4.0), np.append(x, 1.0))),
    lambda x: so.minimize_scalar(lambda y: (y - x[0]) ** 2), lambda x: so.nnls(np.eye(3) + 0.1, x),
    lambda x: so.linprog(-x, A_ub=np.ones((1, 3)), b_ub=x[:1], method="highs"), lambda x: so.linprog(x, A_eq=np.ones((1, 3)), b_eq=x[:1]),
    lambda x: so.fsolve(lambda y: y ** 3 - x, np.ones(3), full_output=True), lambda x: so.leastsq(lambda p: p - x, np.zeros(3)),
    lambda x: so.newton(lambda y: y ** 3 - x[0], 1.0, full_output=True), lambda x: so.newton(lambda y: y ** 3 - x, np.ones(3), full_output=True),
    lambda x: so.brentq(lambda y: y ** 3 - x[0], 0.0, 3.0, full_output=True)])
def test_of_other_forms_too(f: Callable[[Any], Any]) -> None:
    wanted, found = f(X), tg.trace(f, X)[0]
    assert {way: kind for way, kind in types(wanted).items() if way in types(found)} == types(found)
