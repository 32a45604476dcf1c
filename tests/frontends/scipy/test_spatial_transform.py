"""Rotations: values are SciPy's own, gradients those of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import transform
from scipy.spatial.transform import Rotation, Slerp

import tapegrad as tg

pytestmark = pytest.mark.skipif(not hasattr(transform._rotation, "select_backend"), reason="SciPy's rotations were compiled code before 1.17")

X = np.array([0.31, -0.52, 0.93, 1.44, 0.7, -1.3])
TURN, POINTS = Rotation.from_euler("zyx", [0.3, -0.2, 0.9]), np.array([[1.0, 2.0, -1.0], [0.5, 0.1, 2.0], [-2.0, 0.3, 0.4]])

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "rotation vectors": lambda x: Rotation.from_rotvec(x[:3]).as_matrix() @ Rotation.from_matrix(Rotation.from_rotvec(x[3:]).as_matrix()).as_rotvec(),
    "many": lambda x: Rotation.from_rotvec(x.reshape(2, 3)).apply(POINTS[:2]) + Rotation.from_rotvec(x.reshape(2, 3))[1].apply(POINTS[0]),
    "quaternions": lambda x: Rotation.from_quat(x[:4]).as_matrix() @ Rotation.from_quat(x[2:]).as_quat(canonical=True)[:3],
    "angles": lambda x: Rotation.from_euler("xyz", x[:3]).as_euler("zyx") + Rotation.from_euler("Z", x[3]).apply(x[:3]),
    "products": lambda x: (Rotation.from_rotvec(x[:3]) * TURN * Rotation.from_rotvec(x[3:]).inv()).as_quat(),
    "captured": lambda x: TURN.apply(x[:3]) + TURN.inv().apply(x[3:], inverse=True),
    "applied": lambda x: Rotation.from_rotvec(x[:3]).apply(x[3:]) + Rotation.from_rotvec(x[:3]).apply(POINTS).sum(axis=0),
    "powers and sizes": lambda x: (Rotation.from_rotvec(x[:3]) ** 0.5).as_rotvec() * Rotation.from_rotvec(x[3:]).magnitude(),
    "interpolated": lambda x: Slerp([0.0, 1.0], Rotation.from_rotvec(x.reshape(2, 3)))([0.3, 0.8]).as_matrix(),
    "means": lambda x: Rotation.from_rotvec(x.reshape(2, 3)).mean().as_matrix(),
    "aligned": lambda x: Rotation.align_vectors(POINTS + 0.1 * np.outer(x[:3], x[3:]), POINTS)[0].as_rotvec(),
    "mrp": lambda x: Rotation.from_mrp(x[:3]).as_mrp() + Rotation.from_mrp(x[3:]).as_rotvec(),
}


def number(y: Any) -> Any:
    return np.sum(y * np.cos(np.arange(np.size(y))).reshape(np.shape(y)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_rotations(name: str) -> None:
    f = PROGRAMS[name]
    np.testing.assert_allclose(tg.trace(f, X)[0], f(X), rtol=1e-12, atol=1e-14)

    def g(x: Any) -> Any:
        return number(f(x))
    step = tg.value_and_grad(g, argnums=0, warmup=1)
    for x in (X, X * 1.01, X * 0.99):
        slopes = [(g(x + 1e-6 * e) - g(x - 1e-6 * e)) / 2e-6 for e in np.eye(6)]
        np.testing.assert_allclose(tg.gradient(g, x)[0], slopes, rtol=1e-5, atol=1e-7)
        value, dx = step(x)
        assert value == pytest.approx(g(x))
        np.testing.assert_allclose(dx, slopes, rtol=1e-5, atol=1e-7)


def test_no_turn_at_all() -> None:
    def f(x: Any) -> Any:
        return number(Rotation.from_rotvec(x).as_matrix())
    slopes = [(f(1e-6 * e) - f(-1e-6 * e)) / 2e-6 for e in np.eye(3)]
    np.testing.assert_allclose(tg.gradient(f, np.zeros(3))[0], slopes, atol=1e-8)


def test_twice() -> None:
    def f(x: Any) -> Any:
        return number(Rotation.from_rotvec(x[:3]).apply(x[3:]))
    slopes = [(tg.gradient(f, X + 1e-5 * e)[0] - tg.gradient(f, X - 1e-5 * e)[0]) / 2e-5 for e in np.eye(6)]
    np.testing.assert_allclose(tg.hessian(f)(X), slopes, atol=1e-7)


def test_others_have_their_own_code() -> None:
    f = TURN.apply
    tg.gradient(lambda x: TURN.apply(x).sum(), X[:3])
    assert f(X[:3]) is not None and type(Rotation.from_rotvec(X[:3]).as_matrix()) is np.ndarray
