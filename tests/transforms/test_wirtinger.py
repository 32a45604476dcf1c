"""wirtinger and holomorphic_derivative: against finite differences along both axes, closed forms, and Cauchy-Riemann."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

Z = np.array([1 + 2j, 3 - 1j, -0.5 + 0.25j])


def differences(f: Callable[..., Any], z: Any, h: float = 1e-6) -> tuple[Any, Any]:
    """Return both derivatives by central differences along the real and the imaginary axis."""
    z, columns = np.asarray(z), []
    for step in (h, 1j * h):
        units = [np.where(np.arange(z.size).reshape(z.shape) == k, step, 0) for k in range(z.size)]
        parts = [(np.asarray(f((z + unit)[()])) - np.asarray(f((z - unit)[()]))) / (2 * h) for unit in units]
        columns.append(np.stack(parts, -1).reshape(parts[0].shape + z.shape))
    dx, dy = columns
    return (dx - 1j * dy) / 2, (dx + 1j * dy) / 2


FUNCTIONS: list[tuple[Callable[..., Any], Any]] = [
    (lambda z: z * z.conjugate(), 1 + 2j), (abs, 3 + 4j), (lambda z: z ** 2 + 3 * z, 0.3 + 0.4j), (np.real, 1 + 1j), (cmath.exp, 0.5j),
    (lambda z: np.sum(np.abs(z) ** 2), Z), (lambda z: z * z.conj()[::-1], Z), (lambda z: np.exp(z) * z[0], Z), (lambda z: np.angle(z), Z),
    (lambda z: np.outer(z, z.conj()), Z), (lambda z: z.imag * 2, Z),
]


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize(("f", "z"), FUNCTIONS)
def test_both_derivatives(f: Callable[..., Any], z: Any, mode: str) -> None:
    both = tg.wirtinger(f, mode=mode)
    for _ in range(5):  # compiled after a few
        for found, expected in zip(both(z), differences(f, z)):
            assert np.shape(found) == expected.shape
            np.testing.assert_allclose(found, expected, 1e-7, 1e-8)


@pytest.mark.quick
def test_holomorphic_functions() -> None:
    for f, df in ((np.exp, np.exp), (np.sin, np.cos), (np.log, np.reciprocal), (lambda z: z ** 3, lambda z: 3 * z ** 2)):
        np.testing.assert_allclose(tg.holomorphic_derivative(f)(0.3 + 0.4j), df(0.3 + 0.4j), 1e-14)
        np.testing.assert_allclose(tg.holomorphic_derivative(f)(Z), np.diag(df(Z)), 1e-14)
    derivative = tg.holomorphic_derivative
    np.testing.assert_allclose(derivative(derivative(np.sin))(0.3 + 0.4j), -np.sin(0.3 + 0.4j))
    assert derivative(np.linalg.inv)(Z[:1].reshape(1, 1)).shape == (1, 1, 1, 1)
    assert derivative(lambda z: z.sum())(np.zeros(0, complex)).shape == (0,)
    assert derivative(np.exp)(np.complex64(1j)).dtype == np.complex64
    found = derivative(lambda p, a: {"y": a * p["z"] ** 2})({"z": Z}, 2.0)
    np.testing.assert_allclose(found["y"]["z"], np.diag(4 * Z))
    np.testing.assert_allclose(tg.vmap(derivative(np.exp))(Z), np.exp(Z))
    np.testing.assert_allclose(tg.gradient(lambda z: abs(derivative(np.exp)(z)), 0.3 + 0.4j), tg.gradient(lambda z: abs(np.exp(z)), 0.3 + 0.4j))


@pytest.mark.parametrize(("f", "z", "numbers"), [
    (np.conj, Z, r"0j and df/dz̄ is \(1\+0j\) at \[0, 0\]"), (abs, 3 + 4j, r"\(0.3.*-0.4j\) and df/dz̄ is \(0.3.*\+0.4j\)"),
    (lambda z: z.real, 1j, r"\(0.5\+0j\) and df/dz̄ is \(0.5\+0j\)"), (lambda z: z + 1e-6 * z.conjugate(), 1j, r"\(1\+0j\)"),
    (lambda z: np.array([z[0], z[1].conj()]), Z[:2], r"at \[1, 1\]"), (torch.conj, torch.tensor(Z), r"at \[0, 0\]")])
def test_where_cauchy_riemann_fails_both_numbers_are_told(f: Any, z: Any, numbers: str) -> None:
    with pytest.raises(tg.ArgumentError, match=numbers):
        tg.holomorphic_derivative(f)(z)


def test_compiled_calls_look_again() -> None:
    derivative = tg.holomorphic_derivative(lambda z: z ** 2 if z.real > 0 else z * abs(z))
    fast = tg.compile(derivative, warmup=1)
    for k in range(1, 5):
        assert fast(k * (1 + 1j)) == 2 * k * (1 + 1j)
        assert derivative(k * (1 + 1j)) == 2 * k * (1 + 1j)
    scaled = tg.compile(lambda z, a: tg.holomorphic_derivative(lambda z: z + a * z.conjugate())(z), warmup=1)
    for _ in range(3):
        assert scaled(1j, 0.0) == 1
    for call in (lambda: fast(-1 + 0j), lambda: scaled(1j, 1.0)):
        with pytest.raises(tg.ArgumentError, match="is not holomorphic here"):
            call()


def test_tensors() -> None:
    z = torch.tensor(Z, requires_grad=True)
    by_z, by_conjugate = tg.wirtinger(lambda z: (z * z.conj()).sum().real + z.real.sum())(z)
    (z * z.conj()).sum().real.add(z.real.sum()).backward()
    torch.testing.assert_close(2 * by_conjugate, z.grad)  # torch's gradient of a real value
    torch.testing.assert_close(by_z, by_conjugate.conj().resolve_conj())


@pytest.mark.parametrize(("args", "message"), [((1.0,), "an argument is real"), ((np.ones(2),), "an argument is real"), (("a",), "which has no derivative")])
def test_what_is_no_complex_number(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(tg.ArgumentError, match=message):
        tg.wirtinger(lambda z: z * 2)(*args)
    with pytest.raises(tg.ArgumentError, match=r"tg\.wirtinger"):
        tg.jacobian(lambda z: z * 2)(1j)
