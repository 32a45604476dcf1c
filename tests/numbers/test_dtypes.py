"""dtypes: arrays and scalars of ml_dtypes and of long doubles, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.numbers.dtypes import letter

ml_dtypes = pytest.importorskip("ml_dtypes")
NARROW = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
KINDS = [*NARROW, np.longdouble]


def filled(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[1] * x[2]
    y[1:] = x[:2]
    return (y * x).sum()


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x * x), lambda x: np.sum(np.exp(-x) * x), lambda x: x[0] * x[1] + x[2] ** 3, lambda x: np.sum(np.outer(x, x) @ x) / 8, filled,
    lambda x: np.mean(np.tanh(x) * x), lambda x: np.sum(np.where(x > 1.5, x, x * x)), lambda x: np.max(x) * x[1], lambda x: (x / (x + 1)).sum(),
    lambda x: np.sqrt(np.sum(x * x)), lambda x: np.concatenate([x, x * x]).sum(), lambda x: np.prod(x), lambda x: (2.0 * x + 1.0).sum(),
    lambda x: np.sum(np.maximum(x, 1.5)), lambda x: np.sum(x.reshape(3, 1) * x), lambda x: np.dot(x, x), lambda x: np.abs(x - 2).sum() * x[0],
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_gradient_has_the_dtype_of_its_argument_and_the_value_is_numpys(f: Any, kind: Any) -> None:
    x = np.array([0.5, 1.0, 2.0], kind)
    _, (_, wanted) = tg.grad(f, x.astype(float))
    _, moved = tg.jvp(f, (x.astype(float),), (np.array([1.0, 0.5, 0.0]),))
    rtol = 8 * float(ml_dtypes.finfo(kind).eps) if kind in NARROW else 1e-15
    value, (_, dx) = tg.grad(f, x)
    assert value == f(x) and type(value) is type(f(x)) and dx.dtype == x.dtype
    np.testing.assert_allclose(dx.astype(float), wanted, rtol, rtol)
    again, slope = tg.jvp(f, (x,), (np.array([1.0, 0.5, 0.0], kind),))
    assert again == value and slope.dtype == np.asarray(value).dtype
    np.testing.assert_allclose(float(slope), moved, rtol, rtol)
    fast, tape, flat = tg.value_and_grad(f), tg.gradtape(f, x), tg.primitivize(tg.gradtape(f, x))
    plays = [(y, g[1]) for y, g in (tape.play(x), flat.play(x), tg.optimise(flat).play(x))]
    for y, found in (fast(x), fast(x), fast(x), fast(x), *plays):
        assert y == value and type(y) is type(value) and found.dtype == x.dtype
        np.testing.assert_array_equal(found, dx)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_batches_second_derivatives_and_scalars(kind: Any) -> None:
    x = np.array([0.5, 1.0, 2.0], kind)
    for found, wanted in ((tg.vmap(lambda x: x * x + 1)(x), [1.25, 2, 5]), (tg.vmap(tg.value_and_grad(lambda x: x * x))(x)[1], [1, 2, 4]),
                          (tg.hessian(lambda x: np.sum(x ** 3))(x), np.diag([3, 6, 12])), (tg.jacobian(lambda x: x * x)(x), np.diag([1, 2, 4])),
                          (tg.hvp(lambda x: np.sum(x ** 3))(x, x), [1.5, 6, 24])):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found.astype(float), wanted)
    value, (_, dx) = tg.grad(lambda x: x * x, x[2])
    assert (value, dx) == (4, 4) and type(value) is type(dx) is kind
    with pytest.raises(tg.TapeError, match="float"):
        tg.grad(lambda x: float(x) * x, x[2])


def test_long_doubles_keep_their_digits(tmp_path: Path) -> None:
    x = np.array(["0.1", "0.7"], np.longdouble)
    fast = tg.compile(lambda x: np.exp(x) * x)
    for _ in range(4):
        np.testing.assert_array_equal(fast(x), np.exp(x) * x)
    tape = tg.gradtape(lambda x: np.sum(np.exp(x)), x)
    tape.save(tmp_path / "x.tape")
    names: dict[str, Any] = {}
    exec(tape.to_python(), names)
    for play in (tape.play, tg.load(tmp_path / "x.tape").play, names["function"]):
        np.testing.assert_array_equal(play(x)[1][1], np.exp(x))


def test_what_has_no_source_and_what_a_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    tape = tg.gradtape(lambda x: np.sum(x * x), np.ones(2, ml_dtypes.bfloat16))
    with pytest.raises(tg.ArgumentError, match="dtype bfloat16 has no source"):
        tape.to_python()
    with pytest.raises(tg.TapeFormatError):
        tape.save(tmp_path / "x.tape")


def test_letters() -> None:
    assert [letter(np.dtype(kind)) for kind in (*NARROW, ml_dtypes.int4, ml_dtypes.uint4, np.longdouble, "M8[s]", [("a", int)])] == list("fffiufMV")
    assert tg.grad(lambda x: x * 2.0, 3.0)[1][1] == 2.0
