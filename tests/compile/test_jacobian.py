"""jacobian, hessian, hvp: shapes, nesting, both directions, orders, and what scipy.optimize asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import least_squares, minimize

import tapegrad as tg
from tapegrad.compile import jacobian as module

X = np.array([0.3, 1.2, -0.7])
A = np.arange(12.0).reshape(4, 3) / 10


def f(x: Any) -> Any:
    return np.tanh(A @ x) * x[0] + np.linalg.norm(x)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def differences(f: Callable[[Any], Any], x: Any, eps: float = 1e-6) -> Any:
    """Return the Jacobian of an array by an array, by central differences."""
    columns = [(f(x + e.reshape(x.shape)) - f(x - e.reshape(x.shape))) / (2 * eps) for e in eps * np.eye(x.size)]
    return np.stack(columns, -1).reshape(*np.shape(f(x)), *x.shape)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize(("fn", "x"), [
    (f, X), (lambda x: x.sum(), X), (lambda x: np.outer(x, x), X), (lambda x: x @ x.T, A), (lambda x: A * x, np.array(2.0)),
    (lambda x: x[x > 0], X), (lambda x: np.zeros(0) * x.sum(), X), (lambda x: x ** 2, np.zeros((0, 2))),
])
def test_shapes_are_the_values_and_then_the_arguments(fn: Any, x: Any, mode: str) -> None:
    found = tg.jacobian(fn, mode=mode)(x)
    assert found.shape == np.shape(fn(x)) + x.shape
    np.testing.assert_allclose(found, differences(fn, x) if x.size else np.zeros(found.shape), 1e-6, 1e-8)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_nesting(mode: str) -> None:
    def model(p: Any, x: Any) -> Any:
        return {"y": p["w"] @ x + p["b"][0], "loss": (p["w"] ** 2).sum(), "n": 3}
    p = {"w": np.ones((2, 3)), "b": [0.5, "name"]}
    found = tg.jacobian(model, argnums=(0, 1), mode=mode)(p, X)
    (dp, dx), (lp, lx) = found["y"], found["loss"]
    assert dp["w"].shape == (2, 2, 3) and dp["b"][0].shape == (2,) and dp["b"][1] is None and dx.shape == (2, 3)
    np.testing.assert_allclose(dp["w"], np.einsum("ij,k->ijk", np.eye(2), X))
    np.testing.assert_allclose(dx, p["w"])
    np.testing.assert_allclose(lp["w"], 2 * p["w"])
    assert float(lp["b"][0]) == 0.0 and not lx.any()
    assert tg.jacobian(model, argnums=1, mode=mode)(p, X)["y"].shape == (2, 3)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_numbers(mode: str) -> None:
    assert tg.jacobian(lambda x: x * x, mode=mode)(3.0) == 6.0
    np.testing.assert_allclose(tg.jacobian(lambda x: x * X, mode=mode)(3.0), X)
    assert tg.jacobian(lambda n: n * n, mode=mode)(3) == 6.0
    assert tg.jacobian(lambda x: x.astype(np.float32), mode=mode)(X).dtype == np.float32


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_complex_value(mode: str) -> None:
    found = tg.jacobian(lambda x: np.exp(1j * x) * x[0], mode=mode)(X)
    np.testing.assert_allclose(found, differences(lambda x: np.exp(1j * x) * x[0], X), 1e-8, 1e-8)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_many_sweeps_are_one_compiled_tape(mode: str) -> None:
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((90, 70)), rng.standard_normal(70)

    def g(x: Any) -> Any:
        y = np.zeros(90)
        y[:45] = np.sin(a[:45] @ x)
        y[45:] = a[45:] @ (x * x) if x[0] < 10 else 0.0
        return y
    expected = np.concatenate([np.cos(a[:45] @ x)[:, None] * a[:45], 2 * a[45:] * x])
    np.testing.assert_allclose(tg.jacobian(g, mode=mode)(x), expected, 1e-12, 1e-12)


def test_the_shorter_side_decides(monkeypatch: Any) -> None:
    ways = []
    for name in ("_columns", "_rows"):
        old = getattr(module.Layout, name)
        monkeypatch.setattr(module.Layout, name, lambda self, sweep, old=old, name=name: ways.append(name) or old(self, sweep))
    tg.jacobian(lambda x: A @ x)(X)
    tg.jacobian(lambda x: A.T @ x)(np.ones(4))
    assert ways == ["_columns", "_rows"]


RUNS: list[int] = []


def test_the_function_runs_once() -> None:
    def counted(x: Any) -> Any:
        RUNS.append(1)
        return x * np.random.default_rng(len(RUNS)).normal(size=3)
    made = tg.jacobian(counted)
    for n in range(1, 10):
        found = made(X)
        assert len(RUNS) == n
        np.testing.assert_allclose(found, np.diag(np.random.default_rng(n).normal(size=3)))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_draw_is_the_same_in_every_column(mode: str) -> None:
    rng = np.random.default_rng(3)
    found = tg.jacobian(lambda x: x * rng.normal(), mode=mode)
    for _ in range(4):
        block = found(X)
        assert len(set(np.diag(block).round(12))) == 1


def test_what_is_called_often_sees_what_has_changed() -> None:
    scale = {"by": 1.0}

    def g(x: Any) -> Any:
        return x * x * scale["by"] if x[0] > 0 else -x
    for mode in ("forward", "reverse"):
        made = tg.jacobian(g, mode=mode)
        for k in range(60):
            x = X * (1 if k % 5 else -1) if k % 3 else np.append(X, k)
            scale["by"] = 1.0 + k // 20
            expected = np.diag(2 * x * scale["by"]) if x[0] > 0 else -np.eye(len(x))
            np.testing.assert_allclose(made(x), expected, 1e-12)


def test_hessian() -> None:
    h = tg.hessian(rosenbrock)(X)
    np.testing.assert_allclose(h, differences(lambda x: tg.gradient(rosenbrock, x)[0], X), 1e-6, 1e-6)
    np.testing.assert_allclose(h, h.T)
    assert tg.hessian(lambda x: x ** 3)(2.0) == 12.0
    blocks = tg.hessian(lambda p, s: (p["w"] ** 2).sum() * s ** 2 + p["b"] * s, argnums=(0, 1))({"w": X, "b": 2.0}, 3.0)
    np.testing.assert_allclose(blocks[0]["w"][0]["w"], 18 * np.eye(3))
    np.testing.assert_allclose(blocks[0]["w"][1], 12 * X)
    np.testing.assert_allclose(blocks[1][0]["w"], 12 * X)
    assert blocks[0]["b"][1] == 1.0 and blocks[1][0]["b"] == 1.0
    np.testing.assert_allclose(blocks[1][1], 2 * (X ** 2).sum())


def test_hvp() -> None:
    v = np.array([1.0, -2.0, 0.5])
    along = tg.hvp(rosenbrock)
    for args in ((), (X,)):
        with pytest.raises(tg.ArgumentError, match="vector v is missing"):
            along(*args)
    for k in range(30):
        x = X + k / 10
        assert "x: float64[3], v: float64[3]" in str(along.explain()) or not k
        np.testing.assert_allclose(along(x, v), tg.hessian(rosenbrock)(x) @ v, 1e-10)
    np.testing.assert_allclose(tg.hvp(lambda x, a: (a * x ** 3).sum())(X, v, 2.0), 12 * X * v)  # as SciPy calls it
    np.testing.assert_allclose(tg.hvp(lambda a, x: (a * x ** 3).sum(), argnums=1)(2.0, X, v), 12 * X * v)
    da, dx = tg.hvp(lambda a, x: (a * x ** 3).sum(), argnums=(0, 1))(2.0, X, (1.0, v))
    np.testing.assert_allclose(dx, 12 * X * v + 3 * X ** 2)
    np.testing.assert_allclose(da, (3 * X ** 2 * v).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hvp_of_tensors(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return (x ** 3).sum() + x[0] * x[1]
    x, ones = torch.tensor([1.0, 2.0, 3.0], dtype=dtype), torch.ones(3)
    product = tg.hvp(f)
    for v in (ones, ones.double(), np.ones(3), [1.0, 1.0, 1.0], ones.long()):
        torch.testing.assert_close(product(x, v), torch.tensor([7.0, 13.0, 18.0], dtype=dtype))
    np.testing.assert_allclose(product(X, np.ones(3)), 6 * X + [1, 1, 0])  # the same function of arrays
    nested = tg.hvp(lambda p: (p["w"] ** 3).sum() * p["b"][0])({"w": x, "b": (x[0],)}, {"w": ones, "b": (None,)})
    torch.testing.assert_close(nested["w"], 6 * x)
    torch.testing.assert_close(nested["b"][0], (3 * x ** 2).sum())
    da, dx = tg.hvp(lambda a, x: (a * x ** 3).sum(), argnums=(0, 1))(x[1], x, (x[0], ones))
    torch.testing.assert_close(dx, 12 * x + 3 * x ** 2)
    torch.testing.assert_close(da, (3 * x ** 2).sum())


def test_hvp_of_modules() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    x = torch.randn(5, 2)

    def loss(model: Any) -> Any:
        return (model(x) ** 2).mean()
    v = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    blocks, product = tg.hessian(loss)(model), tg.hvp(loss)
    for along in (v, {name: part.numpy() for name, part in v.items()}):
        found = product(model, along)
        for name, row in blocks.items():
            expected = sum((row[other] * part).flatten(v[name].ndim).sum(-1) for other, part in v.items())
            torch.testing.assert_close(found[name], expected)


SCALE = torch.full((3,), 2.0, dtype=torch.float64)


@pytest.mark.parametrize(("make", "more"), [(tg.hessian, ()), (tg.jacobian, ()), (tg.hvp, (np.ones(3),)),
                                            (tg.value_and_jacobian, ())])
def test_arrays_that_meet_a_global_tensor(make: Any, more: tuple[Any, ...]) -> None:
    made = make(lambda x: (torch.as_tensor(x) * SCALE).pow(3).sum())
    found = [made(X, *more) for _ in range(12)]
    for other in found[1:]:  # traced each time: compiled for NumPy it would meet the tensor
        for a, b in zip(other if isinstance(other, tuple) else [other], found[0] if isinstance(other, tuple) else found):
            np.testing.assert_array_equal(a, b)


def test_orders() -> None:
    np.testing.assert_allclose(tg.gradient(lambda x: tg.jacobian(lambda y: y ** 3)(x).sum(), X)[0], 6 * X)
    np.testing.assert_allclose(tg.jacobian(lambda x: tg.jacobian(lambda y: y ** 3)(x))(X)[1], np.diag([0, 6 * X[1], 0]))
    np.testing.assert_allclose(tg.hessian(lambda x: tg.hessian(lambda y: (y ** 4).sum())(x).sum())(X), 24 * np.eye(3))
    np.testing.assert_allclose(tg.jacobian(lambda x: tg.hvp(lambda y: (y ** 3).sum())(x, X))(X), 6 * np.diag(X))


def test_scipy_takes_them_in_one_line() -> None:
    x0 = np.zeros(5)
    for found in (
        minimize(tg.value_and_grad(rosenbrock, argnums=0), x0, jac=True),
        minimize(rosenbrock, x0, jac=tg.jacobian(rosenbrock), hessp=tg.hvp(rosenbrock), method="trust-ncg"),
        minimize(rosenbrock, x0, jac=tg.jacobian(rosenbrock), hess=tg.hessian(rosenbrock), method="trust-exact"),
        minimize(lambda x, a: rosenbrock(x) * a, x0, args=(2.0,), jac=tg.jacobian(lambda x, a: rosenbrock(x) * a),
                 hessp=tg.hvp(lambda x, a: rosenbrock(x) * a), method="trust-ncg"),
    ):
        np.testing.assert_allclose(found.x, 1.0, 1e-3)

    def residuals(x: Any, a: Any = 1.0) -> Any:
        return np.concatenate([10 * (x[1:] - x[:-1] ** 2), a - x[:-1]])
    np.testing.assert_allclose(least_squares(residuals, x0, jac=tg.jacobian(residuals)).x, 1.0, 1e-6)
    np.testing.assert_allclose(least_squares(residuals, x0, jac=tg.jacobian(residuals), kwargs={"a": 1.0}).x, 1.0, 1e-6)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_chunks(mode: str) -> None:
    expected = tg.jacobian(f, mode=mode)(X)
    for size in (1, 2, 100):
        np.testing.assert_allclose(tg.jacobian(f, mode=mode, chunk_size=size)(X), expected, 1e-13)
        np.testing.assert_allclose(tg.jacobian(lambda x: np.exp(1j * f(x)), mode=mode, chunk_size=size)(X), 1j * np.exp(1j * f(X))[:, None] * expected)
    np.testing.assert_allclose(tg.hessian(rosenbrock, chunk_size=2)(X), tg.hessian(rosenbrock)(X))
    chunked = tg.jacobian(f, mode=mode, chunk_size=2)
    for scale in (1.0, 1.0, 1.0, 0.5, 2.0):  # it is compiled where calls come often
        np.testing.assert_allclose(chunked(scale * X), tg.jacobian(f, mode=mode)(scale * X), 1e-13)
    for wrong in (0, 2.5):
        with pytest.raises(tg.ArgumentError, match=f"chunk_size is {wrong}"):
            tg.jacobian(f, chunk_size=wrong)


def test_value_and_jacobian() -> None:
    both = tg.value_and_jacobian(f)
    for k in range(20):
        value, block = both(X + k / 10)
        np.testing.assert_allclose(value, f(X + k / 10))
        np.testing.assert_allclose(block, tg.jacobian(f)(X + k / 10))
    value, block = tg.value_and_jacobian(lambda x, a: {"y": a * x, "n": 3}, argnums=1)(X, 2.0)
    assert value["n"] == 3 and block["n"] == 0.0
    np.testing.assert_allclose(block["y"], X)


def test_traces_and_gauss_newton_products() -> None:
    def flow(x: Any) -> Any:
        return np.sin(x) * x.sum()
    y = A[:, :2]
    for fn, x in ((flow, X), (flow, y), (lambda x: x * 2.0, X[:0])):
        n = x.size
        np.testing.assert_allclose(tg.divergence(fn)(x), np.trace(tg.jacobian(fn)(x).reshape(n, n)))
        np.testing.assert_allclose(tg.laplacian(lambda x, fn=fn: (fn(x) ** 2).sum())(x),
                                   np.trace(tg.hessian(lambda x, fn=fn: (fn(x) ** 2).sum())(x).reshape(n, n)))
    np.testing.assert_allclose(tg.gradient(lambda x: tg.divergence(flow)(x), X)[0], tg.gradient(lambda x: tg.jacobian(flow)(x).trace(), X)[0])
    block, v = tg.jacobian(f)(X), np.array([1.0, -2.0, 0.5])
    product, by_loss = tg.gauss_newton_product(f), tg.gauss_newton_product(f, lambda y: (y ** 4).sum())
    for _ in range(5):
        np.testing.assert_allclose(product(X, v), block.T @ block @ v)
        np.testing.assert_allclose(by_loss(X, v), block.T @ (12 * f(X) ** 2 * (block @ v)))
    with pytest.raises(tg.ArgumentError, match="its trace is not defined"):
        tg.divergence(f)(X)
    x0 = np.zeros(5)

    def residuals(x: Any) -> Any:
        return np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])
    found = minimize(lambda x: (residuals(x) ** 2).sum() / 2, x0, method="trust-ncg", hessp=tg.gauss_newton_product(residuals),
                     jac=tg.jacobian(lambda x: (residuals(x) ** 2).sum() / 2))
    np.testing.assert_allclose(found.x, 1.0, 1e-3)


def test_the_gradient_of_a_pair() -> None:
    step = tg.value_and_grad(lambda x: ((x ** 2).sum(), {"twice": 2 * x, "name": "x"}), 0, has_aux=True, warmup=1)
    for k in range(4):
        (value, aux), dx = step(X + k)
        assert value == ((X + k) ** 2).sum() and aux["name"] == "x"
        np.testing.assert_allclose(aux["twice"], dx)


@tg.primitive
def doubled(x: Any) -> Any:
    return 2 * x


@tg.rrule(doubled)
def _(x: Any) -> Any:
    return doubled(x), lambda dy: (np.array([2 * float(each) for each in dy]),)


def test_a_pullback_that_calls_c_is_called_for_each_row() -> None:
    np.testing.assert_allclose(tg.jacobian(lambda x: doubled(x) * x, mode="reverse")(X), np.diag(4 * X))


def test_torch() -> None:
    torch.manual_seed(0)
    w, x = torch.randn(4, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)

    def g(x: Any) -> Any:
        return torch.tanh(w @ x) * x.sum()
    for mode in ("forward", "reverse"):
        torch.testing.assert_close(tg.jacobian(g, mode=mode)(x), torch.func.jacrev(g)(x))
    torch.testing.assert_close(tg.hessian(lambda x: g(x).sum())(x), torch.func.hessian(lambda x: g(x).sum())(x))


def test_errors() -> None:
    with pytest.raises(tg.ArgumentError, match="complex"):
        tg.jacobian(lambda z: z * z)(1 + 1j)
    with pytest.raises(tg.ArgumentError, match="no mode 'fwd'"):
        tg.jacobian(f, mode="fwd")
    with pytest.raises(tg.ArgumentError, match="which has no derivative"):
        tg.jacobian(lambda x: "text")(X)
    with pytest.raises(tg.ArgumentError, match="needs a seed"):
        tg.hessian(lambda x: x)(X)
    with pytest.raises(tg.ArgumentError, match="argument 1"):
        tg.jacobian(f, argnums=1)(X)
    with pytest.raises(tg.ArgumentError, match="argnums is None"):
        tg.hvp(f, argnums=None)
    with pytest.raises(tg.ArgumentError, match="has shape"):
        tg.hvp(rosenbrock)(X, X[:2])


# -- examples of others, in plain NumPy: JAX's "autodiff cookbook"


def test_jax_cookbook() -> None:
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal(3), 0.3
    inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    targets = np.array([True, True, False, True])

    def predict(w: Any, b: Any) -> Any:
        return 0.5 * (np.tanh((inputs @ w + b) / 2) + 1)

    def predict_dict(params: Any) -> Any:
        return predict(params["w"], params["b"])

    def loss(w: Any) -> Any:
        preds = predict(w, b)
        return -np.sum(np.log(preds * targets + (1 - preds) * (1 - targets)))
    p = predict(w, b)
    expected = (p * (1 - p))[:, None] * inputs
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(tg.jacobian(lambda w: predict(w, b), mode=mode)(w), expected)
        by_name = tg.jacobian(predict_dict, mode=mode)({"w": w, "b": b})
        np.testing.assert_allclose(by_name["w"], expected)
        np.testing.assert_allclose(by_name["b"], p * (1 - p))
    np.testing.assert_allclose(tg.hessian(loss)(w), inputs.T @ ((p * (1 - p))[:, None] * inputs))


def test_what_is_the_same_for_all_units_can_be_written_to() -> None:
    """The Hessian of a linear function, and a row of the derivative of a sum: spread in memory of their own."""
    weights = np.arange(9.0).reshape(3, 3)
    for derivative, expected in [(tg.hessian(lambda x: (3 * x).sum()), np.zeros((3, 3))), (tg.jacrev(lambda x: 3 * x.sum() * np.ones(3)), np.full((3, 3), 3.0)),
                                 (tg.jacobian(lambda x: weights @ x), np.arange(9.0).reshape(3, 3))]:
        for _ in range(5):
            found = derivative(np.ones(3))
            assert np.array_equal(found, expected)
            found += 1
    assert np.array_equal(weights, np.arange(9.0).reshape(3, 3))
