"""has_aux=: the second of the pair that a function returns is handed on, and not differentiated; names and options of calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tests.harness.compare import same

X = np.array([1.0, 2.0, 3.0])


def number(x: Any) -> Any:
    return (x**3).sum(), {"double": 2 * x, "name": "x"}


def vector(x: Any) -> Any:
    return x**2, [x + 1, "x"]


AUX: dict[str, Any] = {"double": 2 * X, "name": "x"}
WAYS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "grad": (lambda x: tg.grad(number, x, has_aux=True), ((36.0, AUX), (None, 3 * X**2))),
    "grad of one": (lambda x: tg.grad(number, x, has_aux=True, argnums=0), ((36.0, AUX), 3 * X**2)),
    "gradient": (lambda x: tg.gradient(number, x, has_aux=True), ((3 * X**2,), AUX)),
    "value_and_grad": (tg.value_and_grad(number, has_aux=True, warmup=1), ((36.0, AUX), 3 * X**2)),
    "hessian": (tg.hessian(number, has_aux=True), (np.diag(6 * X), AUX)),
    "jacobian": (tg.jacobian(vector, has_aux=True), (np.diag(2 * X), [X + 1, "x"])),
    "by rows": (tg.jacrev(vector, has_aux=True), (np.diag(2 * X), [X + 1, "x"])),
    "by columns": (tg.jacfwd(vector, has_aux=True), (np.diag(2 * X), [X + 1, "x"])),
    "value_and_jacobian": (tg.value_and_jacobian(vector, has_aux=True), ((X**2, [X + 1, "x"]), np.diag(2 * X))),
    "jvp": (lambda x: tg.jvp(vector, (x,), (np.ones(3),), has_aux=True), (X**2, 2 * X, [X + 1, "x"])),
    "vjp": (lambda x: (lambda value, back, aux: (value, back(np.ones(3)), aux))(*tg.vjp(vector, x, has_aux=True)), (X**2, (2 * X,), [X + 1, "x"])),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", WAYS)
def test_what_is_returned_besides(name: str) -> None:
    run, expected = WAYS[name]
    for _ in range(6):  # the last ones are compiled, where calls are
        same(run(X), expected)


@pytest.mark.parametrize("name", WAYS)
def test_no_pair_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("number", "vector"):
        monkeypatch.setattr(f"{__name__}.{program}", np.sum)
    made = {"value_and_grad": tg.value_and_grad, "hessian": tg.hessian, "jacobian": tg.jacobian, "by rows": tg.jacrev, "by columns": tg.jacfwd,
            "value_and_jacobian": tg.value_and_jacobian}
    run = made[name](np.sum, has_aux=True) if name in made else WAYS[name][0]
    with pytest.raises(tg.ArgumentError, match=r"with has_aux=True the function must return a pair, but it returned a float"):
        run(X)


def test_a_batch_of_gradients_with_what_is_returned_besides() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    (value, aux), dx = tg.vmap(tg.value_and_grad(lambda x: ((x**3).sum(), x + 1), has_aux=True))(rows)
    same((value, aux, dx), ((rows**3).sum(axis=1), rows + 1, 3 * rows**2))


def test_keywords_of_a_batch_are_mapped_along_axis_0() -> None:
    same(tg.vmap(lambda x, scale: x * scale, in_axes=None)(2.0, scale=X), 2 * X)
    same(tg.vmap(lambda *, x, y: x @ y)(x=np.ones((2, 3)), y=np.ones((2, 3))), np.full(2, 3.0))


# -- value_and_grad as JAX and autograd have it


def test_value_and_grad_is_of_the_first_argument() -> None:
    data = np.ones(3)
    step = tg.value_and_grad(lambda x, y: (data * x * y).sum(), warmup=1)
    for _ in range(4):
        same(step(X, 2.0), (12.0, 2 * np.ones(3)))
    [tape] = step.tapes
    assert tape.result is not None and [arg is None for arg in tape.result.args] == [False, True, False, True]  # the value and dx: nothing of data or y
    assert inspect.signature(tg.value_and_grad).parameters["argnums"].default == 0
    same(tg.value_and_grad(lambda x, y: (x * y).sum(), (0, 1))(X, 2.0), (12.0, (2 * np.ones(3), 6.0)))
    value, (df, dx, dy) = tg.value_and_grad(lambda x, y: (data * x * y).sum(), argnums=None)(X, 2.0)
    same((value, df["data"], dx, dy), (12.0, 2 * X, 2 * data, 6.0))


class Model:
    def __init__(self) -> None:
        self.w = 2.0

    @tg.value_and_grad
    def loss(self, x: Any) -> Any:
        return (self.w * x).sum()

    @tg.compile
    def value(self, x: Any) -> Any:
        return (self.w * x).sum()


def test_methods() -> None:
    model = Model()
    for _ in range(4):
        value, gradient = model.loss(X)
        assert (value, gradient.w, model.value(X)) == (12.0, 6.0, 12.0)


def test_tensors_are_computed_by_torch_without_being_told() -> None:
    step, t = tg.value_and_grad(lambda x, y: (x * y).sum(), warmup=1), torch.tensor(X)
    for x in (X, t, X, t, t, X):
        value, dx = step(x, 2.0)
        assert type(dx) is type(x) and float(value) == 12.0 and dx.tolist() == [2.0] * 3
    assert (step.stats.traces, step.stats.hits, len(step.tapes)) == (2, 4, 2)
    nested = tg.compile(lambda p: {"y": p["a"][0] * 2}, warmup=1)
    for _ in range(3):
        assert torch.is_tensor(nested({"a": [t]})["y"]) and type(nested({"a": [X]})["y"]) is np.ndarray
    assert nested.stats.hits == 4
    scaled = tg.compile(lambda x: (t * x).sum())  # no tensor among the arguments
    for k in range(8):
        assert float(scaled(float(k))) == 6.0 * k
    assert scaled.stats.hits >= 4
    module = torch.nn.Linear(3, 1).double()
    trained = tg.value_and_grad(lambda module, x: module(x).sum(), warmup=1)
    for _ in range(3):
        assert trained(module, t)[1]["weight"].tolist() == [X.tolist()]
    with pytest.raises(tg.ArgumentError, match="compiled for NumPy, but got a tensor"):
        tg.compile(lambda x: x * 2, backend="numpy")(t)


# -- slips


MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "gradient by keyword": (lambda: tg.gradient(lambda x: x, x=1.0), "no positional argument", r"tg\.gradient\(f, x\)"),
    "argnum": (lambda: tg.grad(np.sum, X, argnum=0), "tg.grad has no option 'argnum'", "did you mean argnums=?"),
    "has_auxs": (lambda: tg.gradient(number, X, has_auxs=True), "tg.gradient has no option 'has_auxs'", "has_aux=?"),
    "seeds": (lambda: tg.pullback(lambda x: x, X, captures=False), "tg.pullback has no option 'captures'", "captured=?"),
    "curried": (lambda: tg.grad(lambda x: x, argnums=0), "no argument 0", r"tg\.value_and_grad\(f, argnums=0\)\(x\)"),
    "jacobian(f, x)": (lambda: tg.jacobian(np.sin, X), "number of an argument", r"tg\.jacobian\(f\)\(x\)"),
    "hessian(f, x)": (lambda: tg.hessian(np.sum, X), "number of an argument", r"tg\.hessian\(f\)\(x\)"),
    "hvp(f, x)": (lambda: tg.hvp(np.sum, X), "number of an argument", r"tg\.hvp\(f\)\(x\)"),
    "hessian of a vector": (lambda: tg.hessian(np.sin)(X), "not a real scalar", r"tg\.jacobian\(tg\.jacobian\(f\)\)\(x\)"),
    "optimise(f)": (lambda: tg.optimise(np.sin), "simplifies tapes, not functions", r"scipy\.optimize\.minimize\(tg\.value_and_grad\(f\)"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_call_says_how_it_is_right(name: str) -> None:
    call, what, cure = MISTAKES[name]
    with pytest.raises(tg.ArgumentError, match=f"(?s){what}.*try: .*{cure}"):
        call()


def test_an_argument_that_is_spelt_like_an_option_is_the_function_s() -> None:
    same(tg.gradient(lambda x, seeds=1.0: (x * seeds).sum(), X, seeds=2.0), (2 * np.ones(3),))
    same(tg.gradient(lambda x, **given: (x * given["argnum"]).sum(), X, argnum=2.0), (2 * np.ones(3),))
