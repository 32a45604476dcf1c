"""Numbers that become elements of typed arrays are cast as NumPy casts them: checked where it checks, wrapped where it wraps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

INT8 = np.zeros(3, np.int8)


def _written(write: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def fn(n: Any) -> Any:
        x = np.zeros((3, 3), np.int8)
        write(x, n)
        return x
    return fn


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "array": lambda n: np.array(n, np.int8),
    "list": lambda n: np.array([n, 1], np.int8),
    "rows": lambda n: np.array([[n * 2, 1], (2, n)], "i1"),
    "row of an array": lambda n: np.array([[n, 1], np.array([2, 300])], np.int8),
    "asarray": lambda n: np.asarray([n, 1], np.int8),
    "uint8": lambda n: np.array([n, 1], np.uint8),
    "int64": lambda n: np.array([n, 1], int),
    "full": lambda n: np.full(2, n, np.int8),
    "full_like": lambda n: np.full_like(INT8, n),
    "full_like of a list": lambda n: np.full_like([1, 2], n), "full_like of a list in it": lambda n: np.full_like(INT8, [n, 1, 2]),
    "fromiter": lambda n: np.fromiter((n, 1), np.int8),
    "insert": lambda n: np.insert(INT8, 1, n),
    "insert list": lambda n: np.insert(INT8, 1, [n, 2]),
    "pad": lambda n: np.pad(INT8, 1, constant_values=n),
    "pad uint8": lambda n: np.pad(np.zeros(3, np.uint8), 1, constant_values=(n, 1)),
    "chkfinite": lambda n: np.asarray_chkfinite([n, 1], np.int8),
    "vectorize": lambda n: np.vectorize(lambda a, b: a + b, otypes=[np.int8])(np.arange(3), n),
    "vectorize many": lambda n: np.vectorize(lambda a, b: a + b, otypes=[np.int8])(np.arange(40), n),
    "vectorize by the first": lambda n: np.vectorize(lambda a: a + n)(INT8 * n),
    "ufunc": lambda n: np.add(n, 1, dtype=np.int8),
    "signature": lambda n: np.add(n, 1, signature="bb->b", casting="unsafe"),
    "clip": lambda n: np.clip(np.array([-5, 100], np.int8), -n, n),
    "setitem": _written(lambda x, n: x.__setitem__((0, 0), n)),
    "setitem list": _written(lambda x, n: x.__setitem__(0, [n, 1, 2])),
    "setitem rows": _written(lambda x, n: x.__setitem__(slice(2), [[n, 1, 2], (1, n, 2)])),
    "setitem mask": _written(lambda x, n: x.__setitem__(np.eye(3, dtype=bool), [n, 1, 2])),
    "put": _written(lambda x, n: np.put(x, [0, 4], [n, 1])),
    "place": _written(lambda x, n: np.place(x, x == 0, [n, 1])),
    "putmask": _written(lambda x, n: np.putmask(x, x == 0, [n, 1])),
    "putmask number": _written(lambda x, n: np.putmask(x, x == 0, n)),
    "flat": _written(lambda x, n: x.flat.__setitem__(slice(2), [n, 1])),
    "fill_diagonal": _written(lambda x, n: np.fill_diagonal(x, [n, 1, 2])),
    "copyto": _written(lambda x, n: np.copyto(x, n, casting="unsafe")),
}
NUMBERS: dict[str, tuple[Any, Any]] = {
    "int": (3, 300), "negative": (3, -200), "float": (3.5, 300.5), "nan": (3.5, np.nan), "inf": (3.5, np.inf),
    "int64": (np.int64(3), np.int64(300)), "float64": (np.float64(3.5), np.float64(300.5)), "0-d": (np.array(3), np.array(300)),
}
COMPLEX: dict[str, Callable[[Any], Any]] = {
    "array": lambda z: np.array(z, float), "list": lambda z: np.array([[z * 1, 1.0], [2.0, 3.0]], np.float32), "int": lambda z: np.array([z], int),
    "fromiter": lambda z: np.fromiter([z], float), "insert": lambda z: np.insert(np.zeros(2), 0, [z]), "pad": lambda z: np.pad(np.zeros(2), 1, constant_values=z),
    "full": lambda z: np.full(2, z, float), "bool": lambda z: np.array([z], bool),
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """Return what a call gives, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            y = f(*args)
        except tg.GuardError:
            raise
        except (OverflowError, ValueError, TypeError) as err:  # NumPy's own, or a replay's, which names the operation too
            return next(kind for kind in type(err).__mro__ if kind.__module__ == "builtins")
    return type(y), y.dtype, repr(y.tolist())


def agree(f: Callable[[Any], Any], good: Any, bad: Any) -> None:
    for x in (good, bad):
        assert outcome(lambda x: tg.trace(f, x)[0], x) == outcome(f, x)
    tape = tg.trace(f, good)[1]
    try:
        found = outcome(tape.play, bad)
    except tg.GuardError:  # a fact of the value decides: another tape
        pass
    else:
        assert found == outcome(f, bad)
    fast = tg.compile(f, warmup=1)
    for x in (good, good, bad, good, bad, bad):
        assert outcome(fast, x) == outcome(f, x)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_number_is_checked_where_numpy_checks_it(name: str, kind: str) -> None:
    f, (good, bad) = PROGRAMS[name], NUMBERS[kind]
    if isinstance(outcome(f, good), type):
        assert outcome(lambda x: tg.trace(f, x)[0], good) == outcome(f, good)
    else:
        agree(f, good, bad)


@pytest.mark.parametrize("kind", [complex, np.complex128, np.array])
@pytest.mark.parametrize("name", COMPLEX)
def test_a_complex_number_becomes_a_real_one_where_numpy_says_so(name: str, kind: Any) -> None:
    f, z = COMPLEX[name], kind(1 + 2j)
    for _ in range(2):
        assert outcome(lambda x: tg.trace(f, x)[0], z) == outcome(f, z)
    fast = tg.compile(f, warmup=1)
    for _ in range(4):
        assert outcome(fast, z) == outcome(f, z)


@pytest.mark.parametrize("like", [INT8, np.ones((2, 3), order="F"), [1.0, 2.0]], ids=["int8", "by columns", "list"])
def test_what_full_like_makes_of_plain_numbers_is_written_to(like: Any) -> None:
    def f(x: Any) -> Any:
        y = np.full_like(like, 2, dtype=float)
        y[0] = x
        return y
    found, want = tg.trace(f, 3.0)[0], f(3.0)
    assert np.array_equal(found, want) and found.flags.fnc == want.flags.fnc
    assert tg.grad(lambda x: f(x).sum(), 3.0)[1][1] == want[0].size


def test_floats_among_checked_elements_keep_their_gradient() -> None:
    def f(x: Any, n: Any) -> Any:
        y = np.array([x, n, 2.0], np.float32)
        y[1:] = [x * x, n]
        return (y * np.array([n, 2, 3], np.int8)).sum()
    (value, (_, dx, _)), step = tg.grad(f, 1.5, 4), tg.value_and_grad(f, argnums=None)
    assert (value, dx) == (1.5 * 4 + 2.25 * 2 + 12, 4 + 6.0)
    for n in (4, 4, 4, 5):
        assert step(1.5, n)[1][1] == n + 6.0
    for _ in range(2):
        with pytest.raises(OverflowError, match="out of bounds for int8"):
            step(1.5, 300)
