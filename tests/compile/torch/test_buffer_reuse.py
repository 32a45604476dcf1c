"""Calls on torch that write where an argument lay: in the program's own memory, and nowhere else (test_compile.py: of every op, at any size)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tests.cases.case import draw
from tests.harness.compare import alike as close

N = 3000
X, Y = draw(N), draw(N) + 2.0


def source(f: Callable[..., Any], *args: Any) -> str:
    return str(tg.compile(tg.trace(f, *args)[1], backend="torch").source)


def test_a_chain_takes_one_piece_of_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.exp(np.sin(x) * y + 1.0) - y / (2.0 + x * x)
    text = source(f, X, Y)
    assert text.count("_(") + text.count("out=") >= 3
    for x, y in ((X, Y), (Y, X), (X, Y)):
        given = torch.tensor(x), torch.tensor(y)
        close(tg.compile(f, backend="torch")(*given), f(x, y))
        close(tg.value_and_grad(lambda x, y: np.sum(f(x, y)), argnums=None, backend="torch")(*given), tg.grad(lambda x, y: np.sum(f(x, y)), x, y))
        np.testing.assert_array_equal(given[0], x)
        np.testing.assert_array_equal(given[1], y)


def kept() -> dict[str, Callable[..., Any]]:
    """Programs in which memory that looks free is not."""
    def views(x: Any, y: Any) -> Any:
        z = x * y
        row = z[1:]
        w = z * 2.0
        return np.sum(row) + w

    def transposed(x: Any, y: Any) -> Any:
        z = (x * y).reshape(50, -1)
        return (z.T * 2.0) @ z

    def stretched(x: Any, y: Any) -> Any:
        z = np.broadcast_to(x[:1] * 2.0, (N,)) * 1.0
        return (z + y) * z

    def returned(x: Any, y: Any) -> Any:
        z = x * y
        w = z + 1.0
        return z, w, np.exp(w), -w

    def twice(x: Any, y: Any) -> Any:
        z = x * y
        return z * z + np.sin(z) * z

    def filled(x: Any, y: Any) -> Any:
        z = np.zeros(N)
        z[1:] = x[:-1]
        w = z * y
        z[0] = 5.0
        return w - z

    def branching(x: Any, y: Any) -> Any:
        z = x * y
        return np.exp(z) if z.sum() > 0 else np.cos(z)
    return dict(locals())


@pytest.mark.parametrize("f", kept().values(), ids=kept())
def test_what_is_needed_stays(f: Any) -> None:
    def total(x: Any, y: Any) -> Any:
        found = f(x, y)
        return sum(np.sum(part * part) for part in found) if isinstance(found, tuple) else np.sum(found * found)
    fast, step = tg.compile(f, backend="torch"), tg.value_and_grad(total, argnums=None, backend="torch")
    fast(X, Y), step(X, Y)  # with arrays: it is NumPy's code
    for x, y in ((X, Y), (X, Y), (-X, Y), (Y, X), (X, Y)):
        first = fast(torch.tensor(x), torch.tensor(y))
        fast(torch.tensor(x) * 3, torch.tensor(y))
        close(first, f(x, y))
        close(step(torch.tensor(x), torch.tensor(y)), tg.grad(total, x, y), 1e-9)


def test_what_a_users_pullback_keeps_stays() -> None:
    @tg.primitive
    def cube(x: Any) -> Any:
        return x ** 3

    @tg.rrule(cube)
    def _(x: Any) -> Any:
        return x ** 3, lambda dy: (3 * x * x * dy,)

    def f(x: Any, y: Any) -> Any:
        z = x * y
        return np.sum(cube(z) * np.exp(z))
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for _ in range(3):
        close(step(torch.tensor(X), torch.tensor(Y)), tg.grad(f, X, Y), 1e-9)
