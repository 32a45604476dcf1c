"""Refusals: no program swallows one, no attribute and no text leads round one, and what is no refusal is none."""

from __future__ import annotations

import array
import ast
import contextlib
import copy
import datetime
import json
import math
import operator
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

import tapegrad as tg
from tapegrad.errors import ConcretizationError, MutationError, TapeError, UnknownFunction

A = np.array([0.3, -0.5, 0.7])
OUTSIDE = np.zeros(3)
TEXTS: list[str] = []


class Holder:
    """An object that says it is a number."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __float__(self) -> float:
        return self.x  # type: ignore[no-any-return]


class Interface:
    """An array of which only the memory is known."""

    def __init__(self, x: Any) -> None:
        self.x = x

    @property
    def __array_interface__(self) -> Any:
        return self.x.__array_interface__


@pytest.mark.parametrize("make", [np.asarray, np.array, lambda x: np.asarray(x, float), np.sin, lambda x: np.add(x, 1.0), np.linalg.norm])
def test_the_memory_of_a_traced_array_is_not_given_away(make: Callable[..., Any]) -> None:
    assert np.sum(make(Interface(A))) == tg.grad(lambda x: x * np.sum(make(Interface(A))), 1.0)[1][1]
    with pytest.raises(ConcretizationError, match="__array_interface__ exposes the array's memory"):
        tg.grad(lambda x: np.sum(make(Interface(x)) ** 2), A)
    with pytest.raises(ConcretizationError, match="__array_interface__ exposes the array's memory"):
        tg.value_and_grad(lambda x, o: np.sum(make(o) ** 2) * x)(2.0, Interface(A))


def swallowed(run: Callable[[Any], Any], how: str) -> Callable[[Any], Any]:
    """Return a function that catches what `run` raises and does something else, as libraries and programs do."""
    def f(a: Any) -> Any:
        if how == "suppress":
            with contextlib.suppress(Exception):
                return run(a)
            return 7 * a[0]
        try:
            v = run(a)
        except {"Exception": Exception, "all": BaseException, "two": (TypeError, ValueError, TapeError)}[how]:  # type: ignore[misc]
            v = 7 * a[0]
        return v

    return f


def write_outside(a: Any) -> Any:
    OUTSIDE[0] = a[0]
    return OUTSIDE.sum()


@pytest.mark.parametrize("how", ["Exception", "all", "two", "suppress"])
@pytest.mark.parametrize(("run", "error"), [
    (lambda a: np.packbits(a > 1).sum() * np.lib.stride_tricks.as_strided(a, (2,), (80,)).sum(), UnknownFunction), (lambda a: complex(a[0]).real * a.sum(), ConcretizationError),
    (lambda a: np.array([float(a[0])]).sum(), ConcretizationError), (write_outside, tg.MutationError), (lambda a: math.sin(Holder(a[0])), ConcretizationError),
    (lambda a: np.add(a, 1, out=OUTSIDE).sum(), MutationError), (lambda a: hash(a[0]) * a[1], ConcretizationError), (lambda a: pow(a[0], 2, 3), UnknownFunction),
    (lambda a: a.tobytes(), UnknownFunction), (lambda a: a.ctypes, UnknownFunction), (lambda a: pickle.dumps(a), ConcretizationError),
])
def test_a_refusal_is_raised_whoever_catches_it(run: Any, error: type[Exception], how: str) -> None:
    f = swallowed(run, how)
    for go in (tg.grad, tg.trace, tg.gradtape, tg.value_and_grad(f, argnums=None), tg.compile(f)):
        with pytest.raises(error):
            go(f, A) if go in (tg.grad, tg.trace, tg.gradtape) else go(A)
    OUTSIDE[:] = 0.0


def test_a_refusal_belongs_to_the_trace_that_refused() -> None:
    def inner_fails(x: Any) -> Any:
        try:
            tg.gradient(lambda y: np.packbits(np.ones(3) * y).sum(), 2.0)
        except UnknownFunction:
            return 3 * x  # as without the trace around it
        return x

    def outer_fails(x: Any) -> Any:
        def inner(y: Any, of_the_outer: Any = x) -> Any:
            try:
                return np.packbits(of_the_outer).sum() * y
            except UnknownFunction:
                return 7 * of_the_outer[0] * y
        return tg.gradient(inner, 2.0)[0]

    assert tg.grad(inner_fails, 2.0) == (6.0, (None, 3.0))
    with pytest.raises(UnknownFunction):
        tg.grad(outer_fails, A)
    with pytest.raises(UnknownFunction):
        tg.grad(swallowed(outer_fails, "all"), A)


@pytest.mark.parametrize("f", [
    lambda a: a.sum() if hasattr(a, "nothing") else 2 * a.sum(), lambda a: getattr(a, "nothing", 3.0) * a.sum(), lambda a: copy.copy(a).sum() * copy.deepcopy(a)[0],
    lambda a: (str(a), repr(a), f"{a[0]:.3f} {a[1]}", f"{a!s:>20}", np.array2string(a)) and a.sum(), lambda a: (a[0] == "text") or a.sum(),
    lambda a: swallowed(lambda a: float(a) * a[0], "two")(a), lambda a: swallowed(lambda a: complex(a).real * a[0], "two")(a),
    lambda a: swallowed(lambda a: [1, 2] @ a, "two")(a), lambda a: swallowed(lambda a: a["x"], "Exception")(a), lambda a: swallowed(lambda a: a + {}, "two")(a),
    lambda a: swallowed(lambda a: float(np.ones(1)[0]) * a[0], "two")(a), lambda a: {f"w{n}": a[n] for n in range(3)}["w1"] * json.loads("[2.0]")[0],
    lambda a: a * (np.arange(3).astype(str) == "1") @ a, lambda a: (a != None).sum() * a.sum(), lambda a: (a == "text").sum() + a.sum(),  # noqa: E711
    lambda a: (np.random.default_rng(3).choice(["a", "b"], 9) == "a").sum() * a.sum(),
])
def test_what_the_plain_program_raises_is_no_refusal(f: Any) -> None:
    value, (_, da) = tg.grad(f, A)
    assert value == pytest.approx(f(A))
    steps = np.eye(3) * 1e-6
    np.testing.assert_allclose(da, [(f(A + h) - f(A - h)) / 2e-6 for h in steps], 1e-6, 1e-9)


# -- attributes


@pytest.mark.parametrize(("f", "x"), [
    (lambda x: x * x.numerator, Fraction(1, 3)), (lambda x: x._numerator * x, Fraction(1, 3)),
    (lambda x: x * x.as_integer_ratio()[0], 0.5), (lambda x: x * x.as_integer_ratio()[0], Decimal("0.5")), (lambda x: float.fromhex(x.hex()) * x, 0.5),
    (lambda x: x * x.__getstate__()[1]["_val"], 0.5), (lambda x: x * vars(x)["y"], 0.5), (lambda x: x.__dict__["y"] * x, 0.5), (lambda x: int(x * 2.0 ** 60) * 2.0 ** -60, 0.7),
    (lambda x: math.floor(x * 1e300), 0.7), (lambda x: math.ceil(x * 1e300), 0.7), (lambda x: round(x * 1e300), 0.7), (lambda x: math.trunc(x * 1e300), 0.7),
    (lambda x: int(x * np.float32(2.0 ** 30)), np.float32(0.7)), (lambda x: int(x * 10 ** 40), Fraction(1, 3)),
    (lambda x: np.frombuffer(x.data, float).sum(), A), (lambda x: x.base.sum(), A), (lambda x: x.__array_interface__["data"][0] * x.sum(), A),
])
def test_attributes_hand_out_no_constants(f: Any, x: Any) -> None:
    with pytest.raises((TapeError, TypeError, AttributeError)):
        tg.grad(f, x, seed=1.0)


def test_foreign_numbers_of_mpmath() -> None:
    mpmath = pytest.importorskip("mpmath")
    half = mpmath.mpf(0.5)
    for f, x, slope in [(mpmath.sin, half, mpmath.cos(half)), (lambda x: mpmath.mpf(2) ** x, half, mpmath.sqrt(2) * mpmath.log(2)),
                        (lambda x: mpmath.mpf(2) ** x, 0.5, 2 ** 0.5 * math.log(2))]:
        assert tg.gradient(f, x)[0] == pytest.approx(slope, rel=1e-14)
    for f, x in [(mpmath.exp, 0.5), (mpmath.zeta, half), (lambda x: x * mpmath.mpf(x), half)]:
        with pytest.raises(TapeError):
            tg.grad(f, x, seed=1.0)


def test_integers_that_lose_digits_are_guarded_as_ever() -> None:
    value, tape = tg.trace(lambda x: int(x * 1e3) * x, 0.7)
    assert value == 700 * 0.7 and tape.play(0.7) == value
    with pytest.raises(tg.GuardError):
        tape.play(0.8)


# -- text and objects


@pytest.mark.parametrize("f", [
    lambda x: float(str(x)), lambda x: float(f"{x}"), lambda x: float(f"{x:.17g}"), lambda x: float(format(x, ".17g")), lambda x: int(str(x)[0]), lambda x: float(str(x).replace("1", "2")),
    lambda x: float(" " + str(x).strip() + "0"), lambda x: float(("x=" + str(x)).split("=")[1]), lambda x: np.float64(str(x)), lambda x: np.array([str(x)], float)[0],
    lambda x: np.asarray(str(x)).astype(float), lambda x: float(np.format_float_positional(x)), lambda x: array.array("d", [x])[0], lambda x: float(Decimal(x)),
    lambda x: np.array(x, dtype=object) * 1.0, lambda x: np.full(2, x, dtype=object)[0], lambda x: np.array([x, 1.0], dtype=object)[0], lambda x: np.array([[x], [2]], "O").sum(),
    lambda x: np.vectorize(lambda t: t * 2, otypes=[object])(np.array([x]))[0], lambda x: np.array([x]).astype(object)[0], lambda x: np.array([x]).astype(str).astype(float)[0],
    lambda x: np.array([x], dtype="U32").astype(float)[0], lambda x: np.array([x]).astype("S9").astype(float)[0], lambda x: np.full_like(np.ones(2), x, dtype=object)[0],
    lambda x: np.sum([x, x], dtype=object), lambda x: np.add(x, 1, dtype=object), lambda x: np.linspace(x, 2, 3, dtype=object)[0], lambda x: np.array([(x,)], [("a", float)])["a"][0],
    lambda x: np.array([x]).astype("M8[s]").astype(float)[0],
])
def test_gradients_do_not_end_in_text_or_objects(f: Any) -> None:
    with pytest.raises(TapeError):
        tg.grad(f, 1.37)
    with pytest.raises(TapeError):
        tg.grad(lambda x: tg.grad(lambda y: f(y) * y, x)[0] * x, 1.37)


def test_text_of_a_traced_value_is_text() -> None:
    def f(x: Any, n: int) -> Any:
        TEXTS[:] = [f"{x:.2f}", str(x), "%.1f" % x, f"x = {x}, n = {n}", np.array2string(np.array([x])), format(str(x), ">6"), str(x).zfill(6),  # noqa: UP031
                    json.dumps({"x": f"{x}"})]
        return x * {"w2": 10.0, "w3": 20.0}[f"w{n}"], f"{x}"

    (value, text), tape = tg.trace(f, 1.5, 2)
    assert TEXTS == ["1.50", "1.5", "1.5", "x = 1.5, n = 2", "[1.5]", "   1.5", "0001.5", '{"x": "1.5"}'] and (value, text) == (15.0, "1.5")
    assert type(text) is str and float(TEXTS[1]) == 1.5 and type(copy.deepcopy(TEXTS[0])) is type(pickle.loads(pickle.dumps(TEXTS[0]))) is str
    with pytest.raises(tg.GuardError):
        tape.play(1.5, 3)
    step = tg.compile(lambda x, n: f(x, n)[0], warmup=1)
    with pytest.warns(tg.RetraceWarning, match="formats a number as text"):
        assert [step(1.5, n) for n in (2, 2, 3, 3, 2)] == [15.0, 15.0, 30.0, 30.0, 15.0]


@pytest.mark.parametrize("holds", [sp.lil_array(np.eye(2)), sp.dok_matrix(np.eye(2)), array.array("d", [1.0]), {1.5}, frozenset([1.5])], ids=str)
def test_containers_without_a_gradient_are_refused_as_arguments(holds: Any) -> None:
    def f(x: Any, m: Any) -> Any:
        return x * (m.sum() if hasattr(m, "sum") else sum(m))
    with pytest.raises(tg.ArgumentError, match="contains numbers"):
        tg.grad(f, 2.0, holds)
    with pytest.raises(tg.ArgumentError, match="contains numbers"):
        tg.grad(lambda p: f(*p), (2.0, holds))
    assert tg.grad(f, 2.0, m=holds)[1] == (None, f(1.0, holds)) and operator.eq(*tg.gradient(lambda x: f(x, holds), 2.0) * 2)


@pytest.mark.parametrize("statement", [
    "d[0] = 5.0", "d += 1", "d.fill(3.0)", "np.putmask(d, [True, False, True], 5.0)", "np.put(d, [0], 5.0)", "np.place(d, [True, False, True], 5.0)",
    "np.copyto(d, 5.0)", "np.put_along_axis(d, np.array([0]), 2.0, 0)"])
def test_a_write_by_way_of_the_diagonal_of_einsum_is_refused(statement: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    y = x * 1.0\n    d = np.einsum('ii->i', y)\n    {statement}\n    return (y**2).sum()", scope)
    scope["f"](np.eye(3))  # and is none in NumPy
    with pytest.raises(tg.MutationError, match="or a diagonal"):
        tg.grad(scope["f"], np.eye(3))


class Column(bytes):
    """Numbers that another language keeps."""


class Series:
    """A table as those of pandas."""

    def __init__(self, *numbers: float) -> None:
        self.block, self.flags, self.name = Column(np.array(numbers).tobytes()), True, None

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.frombuffer(self.block)

    def __repr__(self) -> str:
        return f"Series of {len(self.block) // 8}"


def test_a_table_is_data() -> None:
    def f(w: Any, table: Any) -> Any:
        return w * np.asarray(table).sum()
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (1.0, 2.0, 3.0, 3.0):
        table = Series(k, 2.0)
        assert tg.grad(f, 2.0, table) == (2 * k + 4, (None, k + 2, None)) == step(2.0, table)
        assert tg.gradient(lambda p: f(*p), (2.0, table)) == ((k + 2, None),)
    with pytest.raises(tg.ArgumentError, match=r"a Series that contains numbers(.|\n)*np.asarray\(table\)"):
        tg.grad(f, 2.0, table, argnums=1)


UNBOUND: dict[str, tuple[Any, str]] = {
    "an operator of float64's": (lambda x: np.float64.__mul__(x, 2.0), r"np.float64.__mul__ takes no(.|\n)*operator.mul\(x, y\)"),
    "of arrays": (lambda x: np.ndarray.__add__(np.ones(2) * x, 1.0).sum(), r"np.ndarray.__add__ takes(.|\n)*operator.add"),
    "a method": (lambda x: np.ndarray.sum(np.ones(2) * x), r"np.ndarray.sum takes no(.|\n)*x.sum\("),
    "a time": (lambda x: (datetime.timedelta(seconds=2) * x).total_seconds(), "multiply of a timedelta needs a plain"),
    "a time at the right": (lambda x: (x * datetime.timedelta(seconds=2)).total_seconds(), "multiply of a timedelta"),
}


@pytest.mark.parametrize("name", UNBOUND)
def test_c_code_that_takes_plain_numbers_is_named(name: str) -> None:
    f, said = UNBOUND[name]
    with pytest.raises(tg.ConcretizationError, match=said):
        tg.grad(f, 2.0)
    if name.startswith("a time"):
        assert tg.grad(lambda x, n: x * f(n), 2.0, 3.0, argnums=0) == (12.0, 6.0)


class Near:
    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return abs(other - self.value) < 1e-6  # type: ignore[operator, no-any-return]

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("f", [
    lambda x: x * 3 if x == Near(2.0) else x, lambda x: x * 3 if x != Near(2.0) else x, lambda x: x * 3 if Near(2.0) == x else x,
    lambda x: x * 3 if x in [None, Near(2.0)] else x, lambda x: x * 3 if x.__eq__(None) is NotImplemented else x,
    lambda x: x * 3 if x.__add__(None) is NotImplemented else x])
def test_equality_asks_the_other_as_a_number_does(f: Any) -> None:
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (2.0, 3.0, 2.0, 3.0, 3.0):
        assert tg.grad(f, x, argnums=0)[0] == step(x)[0] == f(x)
    with pytest.raises(tg.UnknownFunction, match="an array and a Near"):
        tg.grad(lambda x: x.sum() if (x == Near(2.0)).any() else x[0], np.ones(2))


OVERLAPPING = [
    "np.concatenate([v[1:], v[:1]], out=v)", "np.concatenate([m[:, 1:], m[:, :1]], axis=1, out=m)", "np.stack([m[1], m[0]], out=m[:2])", "np.ptp(m, axis=0, out=m[1])",
    "v.flat = v[::-1]", "v.flat[:] = v[::-1]", "v.flat[1:] = v", "v.flat[[0, 1, 2]] = v[::-1]", "m.flat = m.T", "v[v > -9] = v[::-1]", "m[m > -9] = m.ravel()[::-1]",
    "np.fill_diagonal(m, m.ravel()[4::-1][:3])", "np.place(v[1:], [True, True], v)"]
APART = [
    "np.concatenate([v[1:] * 1, v[:1].copy()], out=v)", "np.ptp(m, axis=0, out=v)", "v.flat = v", "v.flat = m[0]", "v[:1].flat = v[2:]",
    "m[0].flat = m[1]", "v[v > 0] = v[0]", "v[v > -9] = v", "v[v > 0] = v[v > 0][::-1]", "m[m[0] > -9] = m[::-1]", "v[[0, 1, 2]] = v[::-1]", "np.put(v, [0, 1, 2], v[::-1])", "v[:] = v[::-1]",
    "np.putmask(v[1:], [True, True], v)", "np.copyto(v[1:], v[:-1])", "np.fill_diagonal(m, v)", "np.cumsum(v, out=v[::-1])", "np.copyto(v, v, where=m > 0)"]


@pytest.mark.parametrize("statement", [*OVERLAPPING, *APART])
def test_what_numpy_writes_before_it_reads_is_refused(statement: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(v, m):\n    {statement}\n    return (v * [1.0, 2.0, 3.0]).sum() + (m * np.arange(9.0).reshape(3, 3)).sum()\n", space)
    v, m = np.array([0.5, -1.2, 2.0]), np.array([[0.5, -1.2, 2.0], [1.1, 0.3, -0.6], [0.9, -0.4, 0.25]])
    if statement in OVERLAPPING:
        with pytest.raises(MutationError, match="own memory"):
            tg.grad(space["f"], v, m)
    else:
        assert tg.grad(space["f"], v, m)[0] == pytest.approx(space["f"](v.copy(), m.copy()), rel=1e-12)


@pytest.mark.parametrize("statement", [
    "np.put(s, [0], 1.0)", "np.putmask(s, s, [])", "np.place(s, s, [1.0])", "np.copyto(s, 2.0)", "np.fill_diagonal(s, 2.0)", "np.add.at(s, 0, 1.0)"])
@pytest.mark.parametrize("s", [1.0, np.float64(1.0)])
def test_no_number_is_written_to(statement: str, s: Any) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(s):\n    {statement}\n    return s * 2\n", space)
    with pytest.raises(MutationError, match="a number"):
        tg.grad(space["f"], s)


class Bare:
    """A sequence of no kind that NumPy knows."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, i: Any) -> Any:
        return self.data[i]

    def __len__(self) -> int:
        return len(self.data)


def test_a_sequence_of_the_users_beside_an_integer_of_numpys_is_refused() -> None:
    with pytest.raises(UnknownFunction, match="NumPy converts such a sequence to an array"):
        tg.grad(lambda x: (np.argmax(x) * Bare([1.0, 2.0, 3.0]))[0] * x[0], A)
    assert tg.grad(lambda x: len(np.argmax(x) * [1.0, 2.0]) * x[0], A)[1][1][0] == 4.0


def test_a_result_that_fills_a_part_of_what_it_is_written_into_is_refused() -> None:
    for f in (lambda x: np.cumsum(x[:1], out=x + 1j), lambda x: np.add.accumulate(x[:1], out=x + 1j)):
        try:
            assert f(A)[1:].tolist() == (A + 1j)[1:].tolist()  # NumPy leaves the rest as it was
            error, words = UnknownFunction, "fills only a part"
        except ValueError as err:  # NumPy 2.5 does not do it
            error, words = ValueError, re.escape(str(err))
        with pytest.raises(error, match=words):
            tg.grad(lambda x, f=f: f(x).real.sum(), A)
    assert tg.grad(lambda x: np.add(x, 1.0, out=np.zeros((2, 3))).sum(), A)[0] == pytest.approx(7.0)


def test_an_array_is_filled_with_one_number() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y.fill(x)
        return y.sum()
    for x in (A, [0.5, 1.0, 1.5], A[:2]):
        with pytest.raises(ValueError):
            f(x)
        with pytest.raises(ValueError):
            tg.grad(f, x)
    for x in (2.0, np.float64(2.0), np.array(2.0)):
        assert tg.grad(f, x)[0] == f(x)


class Percent(float):
    def __mul__(self, other: Any) -> Any:
        return float(self) * other / 100.0
    __rmul__ = __mul__


class Named(float):
    pass


@pytest.mark.parametrize("run", [tg.grad, tg.trace, tg.gradtape, lambda f, *args: tg.value_and_grad(f, argnums=None)(*args), lambda f, *args: tg.compile(f)(*args)])
def test_numbers_with_operators_of_their_own_are_refused_as_arguments(run: Any) -> None:
    with pytest.raises(tg.UnknownFunction, match="y is a Percent, a subclass whose operators may differ"):
        run(lambda x, y: x * y, 1.5, Percent(2.0))
    assert tg.grad(lambda x, y: x * y, 1.5, Named(2.0))[1][1:] == (2.0, 1.5)
    assert tg.grad(lambda x: x * Percent(2.0), 1.5)[1][1] == pytest.approx(0.02)


@pytest.mark.parametrize("f", [lambda x: np.ascontiguousarray(x), lambda x: np.asfortranarray(x)])
def test_arrays_in_an_order_have_an_axis(f: Callable[..., Any]) -> None:
    for x in (1.5, np.float64(1.5), np.array(1.5)):
        assert tg.grad(lambda x: (f(x) * np.ones((2, 1))).sum() * f(x).ndim, x) == (3.0, (None, 2.0))
        assert tg.trace(f, x)[0].shape == f(x).shape == (1,)


POINTS = np.array([[0.0], [1.0], [3.0]])
UNASKED: dict[str, tuple[Callable[..., Any], Any]] = {
    "float": (lambda x, n: x * float(n) ** 2, 3.0),
    "a float of NumPy's": (lambda x, n: x * float(n), np.float64(3.0)),
    "what follows from it": (lambda x, n: x * float(n * 2.0 + 1.0), 3.0),
    "complex": (lambda x, n: x * complex(n).imag, 1.0 + 2.0j),
    "a key": (lambda x, n: x * {3.0: 5.0, 6.0: 7.0}.get(n, 1.0), 3.0),
    "C code": (lambda x, n: x * cKDTree(n).query([[0.8]])[0].sum(), POINTS),
    "a large number's floor": (lambda x, n: x * math.floor(n), 1e17),
}


@pytest.mark.parametrize("name", UNASKED)
def test_what_is_not_differentiated_may_become_plain(name: str) -> None:
    f, n = UNASKED[name]
    x = 2.0
    for value, dx in (tg.grad(f, x, n, argnums=0), tg.grad(lambda x: f(x, n), x, argnums=0), tg.grad(lambda x, *, n: f(x, n), x, n=n, argnums=0)):
        assert value == f(x, n) and dx == pytest.approx(f(1.0, n))
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for given in (n, n, n * 2, n * 2, -n):
        assert step(x, given) == (f(x, given), pytest.approx(f(1.0, given)))
    assert step.stats.hits >= 2
    with pytest.raises((tg.ConcretizationError, tg.UnknownFunction, tg.MissingRule)):
        tg.grad(f, x, n)
    if name != "a large number's floor":
        with pytest.raises((tg.ConcretizationError, tg.UnknownFunction, tg.MissingRule)):  # the outer gradient is by it
            tg.grad(lambda n: tg.grad(f, x, n, argnums=0)[1], n)
    assert tg.gradient(lambda x: tg.grad(f, x * x, n, argnums=0)[0], x)[0] == pytest.approx(2 * x * f(1.0, n))


def test_what_was_written_to_is_differentiated() -> None:
    def f(x: Any, buffer: Any) -> Any:
        buffer[0] = x
        return x * float(buffer[0])
    with pytest.raises(tg.ConcretizationError):
        tg.grad(f, 2.0, np.zeros(3), argnums=0)
    assert tg.grad(lambda x, buffer: f(x, buffer) if False else x * float(buffer[1]), 2.0, np.ones(3), argnums=0) == (2.0, 1.0)
    zero = tg.value_and_grad(lambda x, n: x * float(n), argnums=0, warmup=1)
    assert [str(zero(2.0, n)) for n in (0.0, 0.0, -0.0)] == ["(0.0, 0.0)", "(0.0, 0.0)", "(-0.0, -0.0)"]


def test_a_refusal_says_what_may_be_left_out() -> None:
    with pytest.raises(tg.ConcretizationError, match="or leave n out of argnums= if its gradient is not needed"):
        tg.grad(lambda x, n: x * float(2.0 * n), 2.0, 3.0)
    with pytest.raises(tg.ConcretizationError, match="leave n out"):
        tg.grad(lambda x, n: x * {3.0: 1.0}[n], 2.0, 3.0, argnums=(0, 1))
    with pytest.raises(tg.ConcretizationError, match=r"f.__wrapped__\(x\)$"):
        tg.grad(lambda x, n: x * {3.0: 1.0}[n], 2.0, 3.0, argnums=1)
    with pytest.raises(tg.ConcretizationError) as caught:
        tg.grad(lambda x, n: x * float(n * x), 2.0, 3.0)
    assert "argnums" not in str(caught.value)
    with pytest.raises(tg.ConcretizationError) as caught:
        tg.grad(lambda x: x * float(x), 2.0)
    assert "argnums" not in str(caught.value)


def test_a_tape_that_went_on_by_a_plain_number_has_no_tangent_by_it() -> None:
    tape = tg.gradtape(lambda x, n: x * x * float(n) * n, 2.0, 3.0, argnums=0)
    assert tape.play(3.0, 3.0) == (81.0, 54.0)
    with pytest.raises(tg.GuardError):
        tape.play(3.0, 4.0)
    with pytest.raises(tg.ConcretizationError, match="uses the plain number of %3"):
        tg.forwardtape(tape)
    near = tg.gradtape(lambda x, a: x * cKDTree(a).query([[0.8]])[0].sum() * a[0, 0], 2.0, POINTS, argnums=0)
    with pytest.raises(tg.ConcretizationError, match="uses the plain number of %3"):
        tg.forwardtape(near)
    counted = tg.gradtape(lambda x, a: x * float(np.sum(a > 1.5)) * np.sum(a), 2.0, np.array([1.0, 2.0]), argnums=0)
    assert tg.forwardtape(counted).play(2.0, np.array([1.0, 2.0]), 1.0, np.ones(2))[1] == (7.0, 2.0)


SHOWN = "2 * %.3f"


def double(v: Any) -> Any:
    return v[0] * 2.0


@pytest.mark.parametrize("f", [
    lambda x: eval(f"{[x]}[0] * 2.0"), lambda x: eval("double(" + str([x]) + ")", {"double": double}), lambda x: eval("2.0 * " + format(x, ".3f")),
    lambda x: eval(f"np.sum({(x, x)})", {"np": np}), lambda x: exec(f"y = {x:.17g} * 2", space := {}) or space["y"],
    lambda x: eval("%g * 2" % x), lambda x: exec("y = %(a).3f" % {"a": x}, space := {}) or space["y"],  # noqa: UP031
    lambda x: eval(SHOWN % x),
    lambda x: eval(b"%e" % x), lambda x: eval(f"{x}".encode()), lambda x: eval(compile(f"{x} * 2", "text", "eval")),
    lambda x: ast.literal_eval(f"[{x}, 2]")[0], lambda x: eval(compile(ast.parse(f"{x} * 2", mode="eval"), "text", "eval")),
    lambda x: json.loads('{"x": %.2f}' % x)["x"],  # noqa: UP031
    lambda x: np.fromstring(f"{x} 2", sep=" ")[0], lambda x: float(Decimal(f"{x} "))])
def test_text_of_numbers_that_is_read(f: Any) -> None:
    with pytest.raises(tg.ConcretizationError, match=r"reads .*, the text of a traced value"):
        tg.grad(f, 0.3)


def test_text_beside_the_text_of_numbers_is_read() -> None:
    def f(x: Any) -> Any:
        shown = "%.2f" % x + f"{x}"  # noqa: UP031
        code = compile("2 * x if len(shown) > 3 else x", "text", "eval")
        return eval(code, {"x": x, "shown": shown}) * json.loads("[2, 4]")[1] * float(Decimal("2.5"))
    assert tg.grad(f, 0.3) == (f(0.3), (None, 20.0))


def test_text_that_is_run_has_the_names_of_its_caller() -> None:
    def scale(x: Any) -> Any:
        space: dict[str, Any] = {"x": x}
        exec("def twice(v: int) -> float: return 2.0 * v * x", space)
        return eval("x * x * k", None, {"x": x, "k": 3.5}) + eval("  x * GRAVITY") + space["twice"](x) + eval("y", {"y": x})
    assert tg.grad(scale, 1.5) == (scale(1.5), (None, 20.5))
    step = tg.value_and_grad(lambda x: eval("x * x * GRAVITY"), warmup=1)
    assert [step(float(x)) for x in range(4)] == [(3.0 * x * x, 6.0 * x) for x in range(4)]


GRAVITY = 3.0
