"""Constants of a program's classes of numbers whose operators are its own: what Python asks, a trace asks; a tape holds plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg


class Right(float):
    def __radd__(self, other: Any) -> Any:
        return other * 7.0

    def __rmul__(self, other: Any) -> Any:
        return other * 5.0

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        return other * 11.0

    def __rmod__(self, other: Any) -> Any:
        return NotImplemented

    def __gt__(self, other: Any) -> bool:
        return False


class Left(float):
    def __mul__(self, other: Any) -> Any:
        return other * 5.0


class Count(int):
    def __rmul__(self, other: Any) -> Any:
        return other * 9.0


class Scalar(np.float64):
    def __radd__(self, other: Any) -> Any:
        return other * 5.0

    def __rmul__(self, other: Any) -> Any:
        return other * 5.0


P, Q, N, K = Right(2.0), Left(2.0), Scalar(2.0), Count(2)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "x * p * x": lambda x: x * P * x, "x * (x * p)": lambda x: x * (x * P), "x * p / x": lambda x: x * P / x, "x + p": lambda x: x + P,
    "x ** p": lambda x: x ** P, "x % p": lambda x: x % P, "x < p": lambda x: x * 3 if x < P else x * 4, "x * q": lambda x: x * Q,
    "q * x * x": lambda x: Q * x * x, "(q + x) * x": lambda x: (Q + x) * x, "x * n + x": lambda x: x * N + x, "-p * x": lambda x: -P * x,
    "np.add(x, p)": lambda x: np.add(x, P), "np.add(x, n) * x": lambda x: np.add(x, N) * x, "np.multiply(x, n)": lambda x: np.multiply(x, N),
    "x * k * x": lambda x: x * K * x, "(x + k) * k": lambda x: (x + K) * K, "sum": lambda x: sum([x, P, N])}


def written(tape: tg.Tape) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(tape.to_python("written"), scope)
    return scope["written"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("x", [3.0, np.float64(3.0), np.float32(3.0), np.array([3.0]), 3], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tape_computes_what_the_program_does(name: str, x: Any) -> None:
    f = PROGRAMS[name]
    if isinstance(x, int) and "%" in name:  # neither of the two knows it
        for call in (f, lambda x: tg.trace(f, x)):
            with pytest.raises(TypeError, match="unsupported operand"):
                call(x)
        return
    expected, (_, tape) = np.asarray(f(x)).sum(), tg.trace(lambda x: f(x), x)
    step = tg.value_and_grad(lambda x: np.sum(f(x)), warmup=1)
    found = [tape.play(x), tg.optimise(tape).play(x), tg.compile(tape)(x), written(tape)(x), *[step(x)[0] for _ in range(3)]]
    for y in found:
        np.testing.assert_allclose(np.asarray(y).sum(), expected, 1e-6)
    if not isinstance(x, int) and name != "x < p":
        at = float(np.asarray(x).sum())
        slope = (float(f(type(x)(at + 1e-6))) - float(f(type(x)(at - 1e-6)))) / 2e-6 if isinstance(x, float) else None
        assert slope is None or abs(tg.gradient(lambda x: np.sum(f(x)), x)[0] - slope) < 1e-5 * max(1.0, abs(slope))
