"""Who asks for a plain value is named, with the library's function that called it, and the one cure that fits."""

from __future__ import annotations

import array
import builtins
import datetime
import decimal
import json
import math
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.fft._pocketfft import pypocketfft
from scipy.interpolate import CloughTocher2DInterpolator
from scipy.spatial import cKDTree

import tapegrad as tg

TABLE = np.arange(1.0, 3.0)
X = np.array([0.5, 1.0, 2.0])
HELD = [math.sin]
# Python 3.10 keeps no columns: only a dotted name is known there
SUBSCRIPT = "vars(math)['sin'] of test_concretize.py" if sys.version_info >= (3, 11) else "a C function"



def handled(x: Any) -> Any:
    try:
        return float(decimal.Decimal(x)) * x
    except TypeError:
        return x


CASES: list[tuple[Callable[[Any], Any], Any, str, str]] = [
    (lambda x: float(x), 2.0, "float asked for a plain float", "leave the float"),
    (lambda x: complex(x, x), 2.0, "complex asked for a plain complex number", "a + 1j * b"),
    (lambda x: math.ulp(x), 2.0, "math.ulp asked for a plain float", "return math.ulp(x)"),
    (lambda x: struct.pack("d", x), 2.0, "struct.pack asked for a plain float", "@tg.rrule(my_pack)"),
    (lambda x: vars(math)["sin"](x), 2.0, f"{SUBSCRIPT} asked for a plain float", "@tg.rrule"),
    (lambda x: np.nested_iters([x, x], [[0], []]), X, "np.nested_iters asked for a plain array", "tg.differences(nested_iters)"),
    (lambda x: cKDTree(x.reshape(-1, 1)), X, "cKDTree", "@tg.primitive"),
    (lambda x: array.array("d", x), X, "array.array asked for a plain float", "tg.value(x)"),
    (lambda x: CloughTocher2DInterpolator(np.eye(3)[:, :2], x)(0.5, 0.5), X, "CloughTocher2DInterpolator", "@tg.primitive"),
    (lambda x: pypocketfft.c2c(x, (0,)), X, "c2c does not accept a traced value", "tg.differences(c2c)"),
    (lambda x: decimal.Decimal(x), 2.0, "decimal.Decimal does not accept a traced value", "tg.value(x)"),
    (lambda x: handled(x), 2.0, "decimal.Decimal does not accept a traced value", "without Decimal"),
    (lambda x: json.dumps({"x": x}), 2.0, "called in json.encoder", "tg.value(x)"),
    (lambda x: memoryview(x), X, "memoryview does not accept a traced value", "tg.value(x)"),
    (lambda x: bytes(x), 2.0, "bytes does not accept a traced value", "tg.value(x)"),
    (lambda x: datetime.timedelta(seconds=x), 2.0, "datetime.timedelta does not accept a traced value", "tg.value(x)"),
    (lambda x: vars(builtins)["type"](x)(2.0), 2.0, "type(x)(...)", "float(y)"),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_who_asked_and_what_to_do(number: int) -> None:
    f, x, who, cure = CASES[number]
    with pytest.raises(tg.TapeError) as caught:
        tg.grad(f, x)
    assert who in caught.value.what
    assert cure in caught.value.try_
    assert caught.value.where is not None and caught.value.where.file == __file__


def test_a_plain_array_beside_a_list() -> None:
    def f(a: float, b: float) -> Any:
        y = TABLE + (a, b)
        y *= [b, 2.0]
        return (y * (TABLE * [a, b])).sum() + (TABLE[::-1] @ [a, b])

    for args in ((2.0, 3.0), (3.0, 5.0)):
        value, (_, da, db) = tg.grad(f, *args)
        np.testing.assert_allclose(value, f(*args))
        a, b = args
        np.testing.assert_allclose(
            (da, db), ((f(a + 1e-6, b) - f(a - 1e-6, b)) / 2e-6, (f(a, b + 1e-6) - f(a, b - 1e-6)) / 2e-6)
        )
