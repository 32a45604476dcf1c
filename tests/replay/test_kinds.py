"""A tape is played with numbers of another kind where it means of them what its program does, and refused elsewhere."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

NUMBERS: list[Any] = [True, 3, -2.5, 0.5 - 1j]
ROW = np.array([1.0, 2.0, 3.0])
PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: x * x + 2, lambda x: x / 4 - x ** 2, lambda x: x * ROW + 1, lambda x: (x + ROW).sum() * 2.0, lambda x: np.sin(x) * x, lambda x: -x, abs,
    lambda x: np.clip(x, -1, 1), lambda x: np.fabs([x, 1]), lambda x: np.nanmax([x, 1]), lambda x: np.arange(3) * x, lambda x: np.divmod(x, 2), lambda x: np.multiply(x, x),
    lambda x: np.full(3, x) // 2, lambda x: np.nan_to_num(x), lambda x: np.sum(x, initial=1.0), lambda x: np.vander([x, 1]), lambda x: np.diff([x, 1, 2]), lambda x: round(x, 1),
    lambda x: np.repeat(2.0, x), lambda x: np.cumsum([x, x]), lambda x: np.array([x, 1]) / 2, lambda x: np.int64(3) * x, lambda x: np.arange(3) * x + np.float32(1.0),
    lambda x: x.conjugate() * x, lambda x: x.real - x.imag]


@pytest.mark.parametrize("program", range(len(PROGRAMS)))
@pytest.mark.parametrize("recorded", NUMBERS, ids=repr)
def test_numbers_of_another_kind_are_right_or_refused(program: int, recorded: Any) -> None:
    f = PROGRAMS[program]
    try:
        tape = tg.trace(f, recorded)[1]
    except (TypeError, ValueError, tg.TapeError):
        return  # the program does not take these
    for given in NUMBERS:
        if (given is True) != (recorded is True):  # a bool is no number: the tape holds for it, or for numbers
            with pytest.raises(tg.ArgumentError, match=r"recorded True, given a number|recorded a number or an array, given True"):
                tape.play(given)
            continue
        try:
            wanted = f(given)
        except (TypeError, ValueError):
            with pytest.raises((TypeError, ValueError, tg.TapeError)):
                tape.play(given)
            continue
        try:
            found = tape.play(given)
        except tg.GuardError:
            assert type(given) is not type(recorded) or recorded is not given
            continue
        for a, b in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
            assert type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("given", [3, 2 + 1j], ids=repr)
def test_arithmetic_takes_all(given: Any) -> None:
    assert tg.trace(lambda x: x * x / (1 + x), 2.5)[1].play(given) == given * given / (1 + given)
    np.testing.assert_array_equal(tg.trace(lambda x: (x * ROW).astype(complex).sum(), 2.5)[1].play(3), 18.0 + 0j)  # float64, whatever real number comes


def test_a_refusal_names_the_line_and_the_argument() -> None:
    with pytest.raises(tg.GuardError, match=r"x was float .* is now int, for which nan_to_num may give another result") as caught:
        tg.trace(lambda x: np.nan_to_num(x), 2.5)[1].play(3)
    assert "test_kinds.py" in str(caught.value)


def test_tensors_of_another_kind_are_refused() -> None:
    torch = pytest.importorskip("torch")
    tape = tg.trace(torch.reciprocal, torch.ones(3))[1]
    assert tape.play(torch.full((3,), 2.0, dtype=torch.float64)).dtype is torch.float64
    for given in (torch.arange(3), torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.complex64)):
        with pytest.raises(tg.GuardError, match="torch may give another result"):
            tape.play(given)
    product = tg.trace(operator.mul, torch.ones(3), torch.tensor(2.0))[1]
    assert product.play(torch.ones(3, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)).dtype is torch.float64
    with pytest.raises(tg.GuardError):  # torch's result is in single precision, an array's is not
        product.play(torch.ones(3), torch.tensor(2.0, dtype=torch.float64))
    with pytest.raises(tg.GuardError):
        tg.trace(lambda x: x * torch.tensor(2.0), torch.ones(3))[1].play(torch.ones(3, dtype=torch.float16))
    with pytest.raises(tg.GuardError):
        tg.trace(lambda x: torch.add(x, -1), torch.tensor(3.0))[1].play(3)


MATH = ["exp", "sin", "cos", "tan", "sqrt", "log", "log2", "log10", "log1p", "expm1", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "atanh", "gamma", "lgamma", "erf", "erfc", "fabs", "degrees",
        "radians"]


@pytest.mark.parametrize("name", [*MATH, "pow", "hypot", "atan2", "fmod", "dist", "fsum"])
def test_math_of_a_float32_is_a_float_in_every_tape(name: str) -> None:
    """Computed in double precision, where NumPy's function of the same name gives a float32."""
    def f(a: Any) -> Any:
        given = (a,) if name == "fsum" else (a, [1.0, 2.0]) if name == "dist" else (a[0],) if name in MATH else (a[0], a[1])
        return getattr(math, name)(*given)
    a = np.array([0.3, 0.7], np.float32)
    value, step = f(a), tg.value_and_grad(f, warmup=1)
    tape, gradients = tg.trace(f, a)[1], tg.gradtape(f, a)
    found = [tape.play(a), tg.optimise(tape).play(a), tg.compile(tape)(a), gradients.play(a)[0], tg.primitivize(gradients).play(a)[0], tg.flatgrad(tape, 1.0).play(a)[0],
             step(a)[0], step(a)[0]]
    assert [type(x) for x in found] == [float] * len(found)
    np.testing.assert_allclose(found, value, rtol=1e-14)
