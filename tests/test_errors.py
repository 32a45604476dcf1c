"""What is refused: each refusal names the user's line and the way out."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import re
import sys
import traceback
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from numbers import Number
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad import errors
from tapegrad.errors import Location

LEAKED: list[Any] = []
OUTSIDE = np.zeros(3)


def _write_outside(x: Any) -> Any:
    OUTSIDE[0] = x
    return OUTSIDE


def _shares(x: Any, y: Any) -> Any:
    x[0] = 5.0
    return (x * y).sum()


@tg.primitive
def ruleless(x: Any) -> Any:
    return x


@tg.primitive
def ruled(x: Any) -> Any:
    return x


@tg.rrule(ruled)
def _(x: Any) -> Any:
    return ruled(x)


def _by_another_name(x: Any) -> Any:
    SHARED[0] += 1.0
    return (x * x).sum()


def waits(x: Any) -> Iterator[Any]:
    yield x
    yield x


@tg.primitive
def fills(x: Any) -> Any:
    x.fill(0.0)
    return x


def _reshapes(x: Any) -> Any:
    x.shape = (1, -1)


def _adds_to_ints(whole: Any, x: Any) -> Any:
    np.add.at(whole, 0, x)
    return whole.sum() * x


class Pair:
    def __getitem__(self, i: int) -> float:
        return (1.0, 2.0)[i]

    def __len__(self) -> int:
        return 2


class Odd(Number):
    __hash__ = None  # type: ignore[assignment]

    def __mul__(self, other: Any) -> Any:
        return other

    __rmul__ = __mul__


def _precisely(x: Any) -> Any:
    with localcontext() as context:
        context.prec = 50
        return x / 3


def _branch(x: Any) -> Any:
    return x if x > 0 else -x


ONE, TWO, X = (1.0,), (np.ones(2),), np.ones(2)
MEMORY, SHARED = np.ones(3), np.ones(3)

# one row for each of the table in errors.py: what is run, and a word of the message
TABLE = {
    "float(x)": (lambda: tg.grad(lambda x: float(x), *ONE), "plain float"),
    "complex(x)": (lambda: tg.grad(lambda x: complex(x), *ONE), "plain complex"),
    "np.float64(x)": (lambda: tg.grad(lambda x: np.float64(x), *ONE), "plain float"),
    "math.ulp(x): compiled code asks for a number": (lambda: tg.grad(lambda x: math.ulp(x), *ONE), "plain float"),
    "np.nested_iters([x, x], axes): compiled code asks for an array": (lambda: tg.grad(lambda x: np.nested_iters([x, x], [[0], []]), *TWO), "plain array"),
    "pickle.dumps(x)": (lambda: tg.grad(lambda x: pickle.dumps(x), *ONE), "pickled"),
    "outside[0] = x, an array made outside": (lambda: tg.grad(_write_outside, *ONE), "comes from outside"),
    "np.add(x, x, out=outside)": (lambda: tg.grad(lambda x: np.add(x, x, out=OUTSIDE), *ONE), "does not own"),
    "using y after a write to x, with which it shares memory": (lambda: tg.grad(_shares, MEMORY, MEMORY[::-1]), "shares memory"),
    "a primitive that writes to its argument": (lambda: tg.grad(lambda x: fills(x).sum(), MEMORY), "fills writes to its argument"),
    "an argument is written to by another name": (lambda: tg.grad(_by_another_name, SHARED), "x was written to"),
    "scipy.special.airy(x): no op": (lambda: tg.grad(lambda x: scipy.special.legendre_p(3, x), *TWO), "legendre_p"),
    "np.packbits(x): no tape can hold it": (lambda: tg.grad(lambda x: np.packbits(x), *TWO), "packbits"),
    "x.as_integer_ratio(): an attribute that nobody registered": (lambda: tg.grad(lambda x: x.as_integer_ratio(), *ONE), "as_integer_ratio"),
    "np.add.at(whole, 0, x): a float added to ints": (lambda: tg.grad(_adds_to_ints, np.arange(2), 0.5), "add.at of float64 into int64"),
    "x * o, an array and an object of the user's that NumPy goes through": (lambda: tg.grad(lambda x: (x * Pair()).sum(), *TWO), "multiply of an array and a Pair"),
    "pow(x, 2, 3)": (lambda: tg.grad(lambda x: pow(x, 2, 3), 2.0), "modulus"),
    "np.gcd(x, 2) of a Fraction: no exact meaning": (lambda: tg.grad(lambda x: np.gcd(x, 2), Fraction(4)), "gcd has no exact meaning"),
    "x * n, a number of a kind that nobody has registered": (lambda: tg.grad(lambda x: x * Odd(), *ONE), "register"),
    "Decimals at another precision than at the beginning of the trace": (lambda: tg.grad(_precisely, Decimal(2)), "precision"),
    "using x after its trace": (lambda: tg.grad(lambda x: next(LEAKED[0]) * x, *ONE), "ended"),
    "a call without a rule": (lambda: tg.grad(lambda x: ruleless(x), *ONE), "no rule"),
    "a replay that takes another branch": (lambda: tg.trace(_branch, 1.0)[1].play(-1.0), "was True"),
    "a replay with another static value": (lambda: tg.trace(lambda d: d["x"], {"x": 1.0, "kind": "a"})[1].play({"x": 1.0, "kind": "b"}),
                                           "recorded 'a', given 'b'"),
    "a replay with other nesting": (lambda: tg.trace(lambda p: p[0], (1.0,))[1].play([1.0]), "nesting of the arguments"),
    "an array as output, and no seed": (lambda: tg.grad(lambda x: x * 2, *TWO), "seed"),
    "an output that is no number": (lambda: tg.grad(lambda x: "text", *ONE), "no gradient"),
    "an array of objects or records, by which to differentiate": (lambda: tg.grad(lambda o: o[0], np.array([1.0, "a"], object)), "o is an array of objects"),
    "x.shape = (4,) of an argument": (lambda: tg.grad(_reshapes, SHARED), "change the shape of the caller's array"),
    "the sweep of a tape that was not rewritten": (lambda: tg.back(tg.trace(lambda x: np.sin(x) * 2, 1.0)[1]), "a call of sin"),
    "tg.grad(f) without the arguments": (lambda: tg.grad(lambda x: x), "there are no arguments"),
    "tg.grad(x, f): no function first": (lambda: tg.grad(1.0, math.sin), "no function"),  # type: ignore[arg-type]
    "tg.value_and_grad(f, x): arguments before the call that takes them": (lambda: tg.value_and_grad(math.sin, np.ones(2)), "number of an argument"),
    "tg.vmap(f, x)": (lambda: tg.vmap(math.sin, np.ones(2)), "no axis"),
    "a second rule": (lambda: tg.rrule(np.sin)(lambda x: None), "already registered|already has a rule"),
    "a call that raises in a replay": (lambda: tg.trace(lambda x: np.linalg.inv(x), np.eye(2))[1].play(np.zeros((2, 2))), "Singular matrix"),
}
ROWS = dict(re.findall(r"^\| (.*) \| (\w+) \|$", errors.__doc__, re.M))


def test_the_table_is_whole() -> None:
    assert list(ROWS) == list(TABLE)


@pytest.mark.parametrize("row", TABLE)
def test_refusals(row: str) -> None:
    LEAKED.clear()
    tg.trace(lambda x: (LEAKED.append(waits(x)), next(LEAKED[0]))[1], 1.0)
    run, words = TABLE[row]
    with pytest.raises(tg.TapeError, match=words) as caught:
        run()
    assert type(caught.value).__name__ == ROWS[row] and caught.value.try_ and "try: " in str(caught.value)
    assert not OUTSIDE.any() and (MEMORY == 1.0).all()
    if ROWS[row] != "ArgumentError" and "another name" not in row:  # those are of the call of tapegrad itself
        assert caught.value.where.file == __file__ and "test_errors.py:" in str(caught.value)


def _of(a: Any, b: Any = 1.0) -> Any:
    return (a * b).sum()


@pytest.mark.parametrize(("run", "words"), [
    (lambda: tg.rrule(np.sin)(lambda x: None), r"of your own that calls sin(.|\n)*tapegrad's rule of sin stays"),
    (lambda: tg.frule(np.sin)(lambda x: None), r"of your own that calls sin(.|\n)*tapegrad's rule of sin stays"),
    (lambda: tg.gradient(ruled, 1.0), "the rule of ruled returned 1.0, not a pair of the value"),
    (lambda: tg.gradient(tg.primitive(lambda a: a), 1.0), r"\n      @tg.rrule\(f\)\n"),
    (lambda: tg.gradient(lambda x: {"loss": x}, 1.0), "return one number"),
    (lambda: tg.gradient(lambda x: 2 * x, X), r"tg.jacobian\(f\)\(x\)"),
    (lambda: tg.trace(_of, X, 2.0)[1].play(X), r"_of was recorded with 2 arguments \(a, b\), but got 1\n"),
    (lambda: tg.trace(_of, X, b=2.0)[1].play(X, c=2.0), r"_of was recorded with 2 arguments \(a, b=\), but got 1 and c=\n"),
    (lambda: tg.hvp(_of)(X, 1.0), r"the tangent of a has shape \(\), but a has \(2,\)\n  try: an array of shape \(2,\), or None"),
])
def test_what_is_said(run: Any, words: str) -> None:
    with pytest.raises(tg.TapeError, match=words):
        run()


def test_copies_of_a_proxy_are_the_value() -> None:
    assert tg.gradient(lambda x: copy.copy(x) * copy.deepcopy({"x": x})["x"], 3.0) == (6.0,)


@pytest.mark.quick
def test_value_and_stop_gradient_drop_it_on_purpose() -> None:
    assert tg.gradient(lambda x: x * tg.value(x), 3.0) == (3.0,)
    assert tg.gradient(lambda x: x * tg.stop_gradient(x), 3.0) == (3.0,)
    x = np.ones(2)
    assert tg.value(x) is not x and tg.value(2.0) == 2.0


def test_attributes_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        tg.grad(lambda x: x.frobnicate(), 1.0)
    with pytest.raises(AttributeError):
        tg.grad(lambda x: x.sum(), 1.0)  # a Python float has no sum
    with pytest.raises(TypeError):
        tg.grad(lambda x: [y for y in x], 1.0)
    with pytest.raises(TypeError):
        tg.grad(lambda x: x + "text", 1.0)
    assert tg.trace(lambda x: (x == None, x != "text"), 1.0)[0] == (False, True)  # noqa: E711


def _indexes(x: Any) -> Any:
    y = np.zeros(3)
    y[5] = x
    return y.sum()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise has the traceback that was there")
@pytest.mark.parametrize("call", [tg.grad, tg.trace, lambda f, x: tg.value_and_grad(f, argnums=None)(x)])
def test_a_traceback_shows_the_programs_frames(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> list[str]:
        with pytest.raises(IndexError) as caught:
            call(_indexes, 2.0)
        return [frame.f_code.co_filename for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    found = shown()
    assert found[-1] == __file__
    assert sum(file in errors.INTERNAL for file in found) <= 2  # what was called
    monkeypatch.setattr(errors, "FULL_TRACEBACKS", True)
    assert shown()[-1] in errors.INTERNAL


def test_a_complex_number_is_told_what_to_do() -> None:
    with pytest.raises(tg.ArgumentError, match=r"returns complex(.|\n)*a number as seed=; (.|\n)*holomorphic_derivative"):
        tg.gradient(lambda z: z**2, 1 + 2j)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise has the traceback that was there")
def test_a_refusal_of_what_c_code_asks_shows_no_frame_of_the_trace() -> None:
    with pytest.raises(tg.ConcretizationError) as caught:
        tg.gradient(functools.lru_cache(lambda x: x * 2), 2.0)
    found = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert sum(file in errors.INTERNAL for file in found) <= 3


def test_a_line_of_a_notebook_is_named_by_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython's compiler knows which file is which cell; here is one that knows of one."""
    names = {"/tmp/ipykernel_1/2.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    cell, file = Location("/tmp/ipykernel_1/2.py", 7, "f"), Location("/tmp/demo.py", 7, "f")
    assert (cell.short, str(cell), file.short, str(file)) == ("In[3]:7", "In[3]:7 in f", "demo.py:7", "/tmp/demo.py:7 in f")
