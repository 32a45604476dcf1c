"""raise_on_nan: the first operation that makes a nan or an inf raises, forward or backward, compiled or not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
X = np.array([0.0, 4.0])


def masked(x: Any) -> Any:
    return np.where(x > 0, x * np.log(x), 0.0).sum()


def overflow(x: Any) -> Any:
    return np.log(np.sum(np.exp(x)))


def entropy(p: Any) -> Any:
    return -(p * np.log(p)).sum()


def shares(a: Any) -> Any:
    return (a / a.sum()).sum()


FORWARD: dict[str, tuple[Callable[[Any], Any], Any, str, str]] = {
    "overflow": (overflow, np.array([1000.0, 1.0]), r"inf, forward. `%\d+ = exp\(%\d+\)` is inf in 1 of 2 elements, first at \[0\]: exp\(1000.0\)", "logsumexp"),
    "log of 0": (entropy, X, r"inf, forward. .*log\(%\d+\)` is -inf .*log\(0.0\)", "xlogy"),
    "0 / 0": (shares, np.zeros(2), r"nan, forward. .*divide.* is nan in 2 of 2 .*divide\(0.0, 0.0\)", "denominator"),
    "an argument": (lambda x: (x * 2).sum(), np.array([1.0, np.nan]), r"nan, forward. the input x\d? holds nan in 1 of 2 elements, first at \[1\]", "finite numbers"),
}
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": tg.grad, "gradient": tg.gradient, "pullback": tg.pullback, "vjp": tg.vjp, "gradtape": tg.gradtape,
    "jvp": lambda f, x: tg.jvp(f, (x,), (np.ones(2),)), "linearize": tg.linearize, "value_and_grad": lambda f, x: tg.value_and_grad(f)(x),
    "compile": lambda f, x: tg.compile(f)(x), "natively": lambda f, x: tg.compile(f, mode="native")(x), "hessian": lambda f, x: tg.hessian(f)(x),
    "jacobian": lambda f, x: tg.jacobian(f)(x), "hvp": lambda f, x: tg.hvp(f)(x, np.ones(2)),
    "gradient inside": lambda f, x: tg.grad(lambda x: tg.gradient(f, x)[0].sum(), x),
}


@pytest.mark.quick
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str, way: str) -> None:
    f, x, message, cure = FORWARD[name]
    if way == "natively":
        pytest.importorskip("llvmlite")
    with tg.raise_on_nan():
        with pytest.raises(tg.NonFiniteError, match=f"(?s){message}.*try: .*{cure}") as caught:
            WAYS[way](f, x)
        assert caught.value.where is not None and caught.value.where.file == __file__ and isinstance(caught.value, ArithmeticError)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
@pytest.mark.parametrize("way", ["grad", "gradient", "value_and_grad"])
def test_backward(way: str, make: Any) -> None:
    def f(x: Any) -> Any:
        root = np.sqrt(x * x) if make is np.array else torch.sqrt(x * x)
        return root.sum()
    x = make([0.0, 4.0])
    with tg.raise_on_nan(), pytest.raises(tg.NonFiniteError, match=r"(?s)inf, backward. The pullback of sqrt makes d%\d+.*where dy=1.0.*try: keep the argument above 0") as caught:
        WAYS[way](f, x)
    assert "root = " in caught.value.where.source  # type: ignore[union-attr]


def test_compiled_functions_are_looked_at_and_go_on_afterwards() -> None:
    step, value = tg.value_and_grad(masked), tg.compile(overflow)
    for _ in range(4):
        step(X)
        value(np.array([1000.0, 1.0]))
    hits = step.stats.hits, value.stats.hits  # type: ignore[attr-defined]
    with tg.raise_on_nan():
        for run in (lambda: step(X), lambda: value(np.array([1000.0, 1.0]))):
            with pytest.raises(tg.NonFiniteError):
                run()
        good = X + 1.0
        assert step(good)[0] == masked(good) and value(good) == overflow(good)
        np.testing.assert_array_equal(step(good)[1], tg.gradient(masked, good)[0])
    step(X), value(np.array([1000.0, 1.0]))
    assert (step.stats.hits, value.stats.hits) == (hits[0] + 1, hits[1] + 1)  # type: ignore[attr-defined]


def test_it_is_raised_whoever_catches_it() -> None:
    def f(x: Any) -> Any:
        try:
            return np.log(x).sum()
        except ArithmeticError:
            return x.sum()
    with tg.raise_on_nan(), pytest.raises(tg.NonFiniteError):
        tg.grad(f, X)


def test_what_is_brought_along_on_purpose() -> None:
    table = np.array([np.inf, 1.0])

    def f(x: Any) -> Any:
        y = np.full(2, np.nan)
        y[:] = x
        return np.minimum(y, table).sum()
    with tg.raise_on_nan():
        assert tg.gradient(f, X)[0].tolist() == [1.0, 0.0]


def test_other_threads_are_not_looked_at() -> None:
    found = []
    with tg.raise_on_nan():
        thread = threading.Thread(target=lambda: found.append(tg.grad(overflow, np.array([1000.0, 1.0]))[0]))
        thread.start()
        thread.join()
    assert found == [np.inf] and tg.grad(overflow, np.array([1000.0, 1.0]))[0] == np.inf
