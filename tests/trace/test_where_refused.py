"""Refusals name the program's line: of what arguments share, of code that the standard library wrote, of texts and records."""

from __future__ import annotations

import json
import math
import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

WITH_COLUMNS = sys.version_info >= (3, 11)  # Python 3.10 knows no more of a call than its line
ITEMS = [1.0, 2.0]


@dataclass(frozen=True)
class Point:
    x: float
    y: float


def looked_up(p: Any) -> Any:
    return {p: 2.0}[p] * p.x


def of_two_attributes(o: Any) -> Any:
    o.a[0] = 3.0
    return (o.a * o.b).sum()


def of_two_arguments(items: Any, others: Any) -> Any:
    items.append(1.0)
    return sum(others)


def logged(x: Any) -> Any:
    return len(json.dumps({"loss": x})) * x


def recorded(x: Any) -> Any:
    rows = np.zeros(2, [("a", float), ("b", float)])
    rows["a"] = x
    return rows["a"].sum()


def overlapping() -> Any:
    x = np.arange(4.0)
    return SimpleNamespace(a=x[:3], b=x[1:])


REFUSED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], str, str, str]] = {
    "two attributes": (of_two_attributes, lambda: (overlapping(),), "o.b shares memory with o.a", "(o.a * o.b).sum()", "copy one of the two"),
    "two arguments": (of_two_arguments, lambda: (ITEMS, ITEMS), "part of items and others", "def of_two_arguments", "pass it once"),
    "a dataclass": (looked_up, lambda: (Point(1.0, 2.0),), "hash(x)", "{p: 2.0}[p] * p.x", "tg.value(x) as the key"),
    "json": (logged, lambda: (2.0,), "json.dumps of" if WITH_COLUMNS else "json", "json.dumps(", "tg.value(x) for each traced number"),
    "json of NumPy's": (logged, lambda: (np.float64(2.0),), "not JSON serializable", "json.dumps(", "tg.value(x) for each traced number"),
    "records": (recorded, lambda: (2.0,), "a traced value is written into an array", 'rows["a"] = x', "for each field" if WITH_COLUMNS else ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_line_and_the_cure(name: str) -> None:
    f, make, what, line, cure = REFUSED[name]
    with pytest.raises(tg.TapeError) as caught:
        tg.grad(f, *make())
    err = caught.value
    assert what in err.what and cure in err.try_
    assert err.where is not None and err.where.file == __file__ and line in err.where.source


# -- what ended in an error of tapegrad's own, and is answered

OF_ONE: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "fsum of nothing": (lambda a: math.fsum(np.where(np.linspace(1.0, 3) * a)[0]), (0, 1, 0)),
    "hypot of nothing": (lambda a: math.hypot(*a[a > 2]) + a.sum(), (np.ones(3), np.arange(4.0))),
    "dist of nothing": (lambda a: math.dist(a[a > 2], a[a > 2]) + a.sum(), (np.ones(3), np.arange(4.0))),
    "a path": (lambda x: len(pathlib.Path("out") .joinpath(f"{x:.1f}").parts) * x, (1.5, 2.5)),
    "a path of operators": (lambda x: (pathlib.Path("out") / f"{x:.1f}").name.count(".") * x, (1.5, 2.5)),
    "full of one row": (lambda a: np.full(2, a), (np.ones((1, 2)), np.zeros((1, 2)))),
    "full of one number": (lambda a: np.full_like(np.zeros(3), a), (np.ones((1, 1)), np.zeros((1, 1)))),
    "int64": (lambda x: np.int64(x) * x, (2.5, 2.7, 3.5)), "int8": (lambda x: np.int8(x) * x, (2.5, np.float64(3.5))),
    "intp, an index": (lambda a: a[np.intp(a[0])], (np.array([1.5, 2.5, 3.5]), np.array([2.5, 1.0, 4.0]))),
    "bool_": (lambda x: np.bool_(x) * x, (2.5, 0.0)), "uint8 wraps": (lambda x: np.uint8(x) * x, (np.float64(-2.5), np.float64(4.5))),
    "map of types": (lambda x: x * (2.0 if list(map(type, (x, 2, x * x))) == [float, int, float] else 3.0), (2.5, 3.5)),
}


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # of a text
@pytest.mark.parametrize("name", OF_ONE)
def test_in_each_mode(name: str) -> None:
    f, given = OF_ONE[name]
    if "map" in name and not WITH_COLUMNS:
        pytest.skip("type(x) is not followed there")
    fast = tg.compile(f, warmup=1)
    for x in (given[0], given[0], given[0], *given):
        want = f(x)
        for found in (tg.trace(f, x)[0], fast(x)):
            np.testing.assert_array_equal(found, want)
            assert np.shape(found) == np.shape(want)


def test_what_numpys_classes_make_of_a_number_is_guarded() -> None:
    tape = tg.trace(lambda x: np.int64(x) * x, 2.5)[1]
    assert tape.play(2.75) == 5.5
    with pytest.raises(tg.GuardError):
        tape.play(3.5)
    assert tg.grad(lambda x: np.int64(x) * x * x, 2.5) == (12.5, (None, 10.0))
    for f, error in ((np.int64, ValueError), (np.int8, OverflowError)):
        with pytest.raises(error):
            tg.trace(lambda x, f=f: f(x) * x, math.nan if f is np.int64 else 300.5)


def test_a_slice_of_traced_numbers_outlives_its_trace_with_plain_ones() -> None:
    kept: list[Any] = []

    def f(a: Any, n: Any) -> Any:
        kept.append(slice(n, n + 1))
        return a[kept[-1]].sum()
    tg.trace(f, np.arange(3.0), 1)
    assert kept == [slice(1, 2)] and type(kept[0].start) is int and type(kept[0].stop) is int
