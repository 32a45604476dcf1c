"""vmap of programs: branches, nesting, compositions, random numbers, errors; and JAX's examples in plain NumPy."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tapegrad as tg
from tapegrad.tree.flatten import leaves_of

X = np.arange(12.0).reshape(4, 3) / 5 - 1
W = np.random.default_rng(0).normal(size=(3, 2))
TX, TW = torch.tensor(X), torch.tensor(W)


def loss(w: Any, x: Any) -> Any:
    return (np.tanh(x @ w) ** 2).sum()


def stacked(f: Callable[..., Any], *columns: Any) -> Any:
    """Return what a Python loop over the members gives."""
    values = [f(*args) for args in zip(*columns)]
    return [np.stack([np.asarray(x) for x in leaf]) for leaf in zip(*map(leaves_of, values))]


def agrees(found: Any, expected: Any) -> None:
    found, expected = leaves_of(found), leaves_of(expected)
    assert len(found) == len(expected)
    for y, whole in zip(found, expected):
        assert np.shape(y) == np.shape(whole)
        np.testing.assert_allclose(np.asarray(y), np.asarray(whole), 1e-9, 1e-12)


# -- programs that a batch does not go one way through


def collatz(n: Any) -> Any:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-10:
        x = (x + a / x) / 2
    return x


def factorial(n: Any) -> Any:
    return 1 if n <= 1 else n * factorial(n - 1)


def cautious(x: Any) -> Any:
    try:
        return math.sqrt(x)
    except ValueError:
        return -1.0


def inverse(x: Any) -> Any:
    try:
        return 1.0 / x.item()
    except ZeroDivisionError:
        return 0.0


def written(x: Any) -> Any:
    y = np.zeros(5)
    y[:3] = x
    y[y < 0] = 0
    tail = y[1:]
    tail *= 2
    if x[0] > 0:
        y[4] = tail.sum()
    x[0] = 7
    return y, x


V = np.array([2.0, 3.0, 100.0, 0.1])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("f", "columns"),
    [
        (lambda x: x * 2 if x > 2 else -x, (V,)),
        (newton, (V,)),
        (collatz, (np.arange(1, 12),)),
        (factorial, (np.array([1, 5, 3]),)),
        (cautious, (V - 2,)),
        (inverse, (np.array([1.0, 0.0, 4.0]),)),
        (lambda b, x: x if b else -x, (np.array([True, False]), V[:2])),
        (lambda x: abs(x.item() ** 0.5), (np.array([4.0, -4.0]),)),
        (lambda x: x[x > 0].sum(), (X,)),
        (lambda x: sum(x**k for k in range(int(x))), (V[:2],)),
        (lambda x: x - tg.value(x.max()), (X,)),
        (lambda x: np.array([float(x[0]), x[1]]), (X,)),
        (lambda i: X[i], (np.array([2, 0]),)),
        (
            lambda x: (
                {"a": x[0], "b": (x.sum(), [x.max(), 3.0])} if x[0] > 0 else {"a": -x[0], "b": (x.min(), [0.0, 4.0])}
            ),
            (X,),
        ),
        (lambda x: math.sin(x[0]) * x.astype(np.float32), (X,)),
        (lambda n: n * 2 if n % 2 == 0 else n + 100, (np.arange(5),)),
    ],
)
def test_members_go_their_own_ways(f: Callable[..., Any], columns: Any) -> None:
    for _ in range(2):
        agrees(tg.vmap(f)(*columns), stacked(f, *columns))


def test_writes_in_place_are_the_members_own() -> None:
    x = X.copy()
    agrees(tg.vmap(written)(x), stacked(written, X.copy()))
    np.testing.assert_array_equal(x, X)
    for f in (lambda v: v, lambda v: v[::-1], lambda v: v.T):
        y = tg.vmap(f, in_axes=1)(x)
        y[0] = 99.0
        np.testing.assert_array_equal(x, X)


# -- axes, nesting, objects


@dataclass
class Line:
    w: Any
    b: Any

    def __call__(self, x: Any) -> Any:
        return self.w * x + self.b


def test_axes() -> None:
    np.testing.assert_array_equal(tg.vmap(lambda x: x * 2, in_axes=-1)(X), 2 * X.T)
    np.testing.assert_array_equal(tg.vmap(lambda x: x * 2, in_axes=1, out_axes=-1)(X), 2 * X)
    a, b = tg.vmap(lambda x, y: (x * y, y), in_axes=(0, None), out_axes=(1, None))(X, 3.0)
    np.testing.assert_array_equal(a, 3 * X.T)
    assert b == 3.0
    found = tg.vmap(lambda d: {"s": d["a"].sum() * d["b"], "n": None, "k": 3}, in_axes=({"a": 0, "b": None},))(
        {"a": X, "b": 2.0}
    )
    agrees(found, {"s": 2 * X.sum(1), "n": None, "k": np.full(4, 3)})
    agrees(tg.vmap(lambda x, scale: x * scale)(X, scale=V), X * V[:, None])
    assert tg.vmap(lambda x: None)(X) is None
    for axes in (1, (1,), [np.int64(1)]):  # captured in a gradient
        def g(x: Any, axes: Any = axes) -> Any:
            return (lambda: tg.vmap(lambda row: (row**2).sum(), in_axes=axes, out_axes=0)(x).prod())()
        moved = tg.gradient(lambda x: (x**2).sum(0).prod(), X)[0]
        np.testing.assert_allclose(tg.gradient(g, X, axes)[0], moved)
        np.testing.assert_allclose(tg.gradient((lambda given: lambda x: g(x, given))(axes), X)[0], moved)
    for fn in (
        lambda x: x.sum() if x[0] > 0 else x[1],
        lambda x: x[x > 0].sum(),
        lambda x: np.linalg.eig(np.diag(x))[0][0],
    ):
        assert tg.vmap(fn)(np.zeros((0, 3))).shape == (0,)
    np.testing.assert_array_equal(tg.vmap(lambda x: x + 1)(X[::2, ::-1]), X[::2, ::-1] + 1)
    assert tg.vmap(lambda x: x * 2.0 + math.sin(1.0))(X.astype(np.float32)).dtype == np.float32


def test_objects_and_what_is_captured_are_shared() -> None:
    agrees(tg.vmap(Line(np.ones(3), 2.0))(X), X + 2)
    agrees(tg.vmap(lambda line, x: line(x), in_axes=(None, 0))(Line(np.ones(3), 2.0), X), X + 2)
    agrees(tg.vmap(lambda line: line(1.0))(Line(X, V)), X + V[:, None])
    agrees(tg.vmap(functools.partial(np.dot, W.T))(X), X @ W)
    _, (_, d, _) = tg.grad(lambda line, x: tg.vmap(line)(x).sum(), Line(np.ones(3), 2.0), X)
    agrees(d.w, X.sum(0))
    assert d.b == 12.0
    captured = tg.grad(tg.vmap(lambda x, k=2.0: x * W[:, 0]), X, seed=np.ones((4, 3)))
    agrees(captured[1][1], np.tile(W[:, 0], (4, 1)))


def test_nested() -> None:
    outer = tg.vmap(tg.vmap(lambda a, b: a * b if a > b else a + b, in_axes=(None, 0)), in_axes=(0, None))
    agrees(outer(V, V), np.where(V[:, None] > V, V[:, None] * V, V[:, None] + V))
    agrees(tg.vmap(tg.vmap(newton))(np.stack([V, V * 2])), np.sqrt(np.stack([V, V * 2])))
    agrees(tg.vmap(tg.vmap(tg.vmap(np.sin)))(X.reshape(2, 2, 3)), np.sin(X.reshape(2, 2, 3)))


# -- with the other transforms


def test_gradients_per_example() -> None:
    expected = np.stack([tg.gradient(loss, W, x)[0] for x in X])
    agrees(tg.vmap(lambda x: tg.gradient(loss, W, x)[0])(X), expected)
    agrees(tg.vmap(tg.value_and_grad(loss, argnums=0), in_axes=(None, 0))(W, X)[1], expected)
    agrees(tg.vmap(lambda a: tg.gradient(newton, a)[0])(V), 0.5 / np.sqrt(V))
    agrees(tg.vmap(tg.hessian(lambda x: loss(W, x)))(X), np.stack([tg.hessian(lambda x: loss(W, x))(x) for x in X]))
    agrees(tg.vmap(tg.hvp(lambda x: loss(W, x)))(X, X), np.stack([tg.hessian(lambda x: loss(W, x))(x) @ x for x in X]))


def test_derivatives_of_a_batch() -> None:
    def total(w: Any) -> Any:
        return tg.vmap(lambda x: loss(w, x) if x[0] > 0 else x.sum() * w[0, 0])(X).sum()

    def looped(w: Any) -> Any:
        return sum(loss(w, x) if x[0] > 0 else x.sum() * w[0, 0] for x in X)

    expected = tg.gradient(looped, W)[0]
    agrees(tg.gradient(total, W)[0], expected)
    agrees(tg.jvp(total, (W,), (np.ones_like(W),))[1], expected.sum())
    agrees(tg.hessian(total)(W), tg.hessian(looped)(W))
    agrees(tg.gradtape(total, W).play(W)[1][1], expected)
    agrees(tg.flatgrad(tg.trace(total, W)[1]).play(W)[1][1], expected)
    agrees(tg.gradient(lambda a: tg.vmap(newton)(a).sum(), V)[0], 0.5 / np.sqrt(V))
    agrees(
        tg.jacobian(tg.vmap(lambda x: loss(W, x)))(X).sum((0, 1, 2)), sum(tg.gradient(loss, W, x)[1] for x in X).sum()
    )


def test_compiled() -> None:
    fast = tg.compile(tg.vmap(lambda x: loss(W, x) if x[0] > 0 else x.sum()), warmup=1)
    step = tg.value_and_grad(lambda w: tg.vmap(lambda x: loss(w, x))(X).sum(), argnums=0, warmup=1)
    for k in range(5):
        x = X + 0.3 * (k % 3)
        agrees(fast(x), np.array([loss(W, row) if row[0] > 0 else row.sum() for row in x]))
        agrees(step(W + k)[1], tg.gradient(lambda w: sum(loss(w, x) for x in X), W + k)[0])
    assert fast.stats.hits and step.stats.hits
    tape = tg.batchtape(lambda x: loss(W, x), X)
    agrees(tg.compile(tape)(2 * X), tape.play(2 * X))


@tg.primitive
def softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


@tg.rrule(softplus)
def _(x: Any) -> Any:
    return softplus(x), lambda dy: (dy / (1.0 + np.exp(-x)),)


def test_a_function_without_a_rule_for_batches(capsys: pytest.CaptureFixture[str]) -> None:
    agrees(tg.vmap(softplus)(X), np.logaddexp(0.0, X))
    agrees(tg.vmap(lambda x: tg.gradient(lambda x: softplus(x).sum(), x)[0])(X), 1 / (1 + np.exp(-X)))
    agrees(tg.gradient(lambda x: tg.vmap(softplus)(x).sum(), X)[0], 1 / (1 + np.exp(-X)))
    tape = tg.batchtape(lambda x: np.sin(softplus(x)), X)
    for style in ("plain", "compact"):
        assert "batched over axis 0" in tape.format(style, 160)
    tape.show("summary")
    assert "for each member of a batch alone: softplus" in capsys.readouterr().out


GENERATOR = np.random.default_rng(5)


def drawing(x: Any) -> Any:
    return x * GENERATOR.normal()


def test_random_numbers() -> None:
    rng = np.random.default_rng(0)
    agrees(tg.vmap(lambda x: x + rng.normal())(np.zeros(5)), np.random.default_rng(0).normal(size=5))
    agrees(
        tg.vmap(lambda x: x + np.random.default_rng(1).normal())(np.zeros(3)),
        np.full(3, np.random.default_rng(1).normal()),
    )
    np.random.seed(3)
    found = tg.vmap(lambda x: x * np.random.normal(size=2))(np.ones(4))
    np.random.seed(3)
    agrees(found, np.random.normal(size=(4, 2)))
    rng = np.random.default_rng(0)  # in a trace inside, and with one around
    agrees(
        tg.vmap(lambda x: tg.gradient(lambda x: x * rng.normal(), x)[0])(np.ones(4)),
        np.random.default_rng(0).normal(size=4),
    )
    rng = np.random.default_rng(0)
    agrees(
        tg.gradient(lambda x: tg.vmap(lambda x: x * rng.normal())(x).sum(), np.ones(4))[0],
        np.random.default_rng(0).normal(size=4),
    )
    value, tape = tg.trace(lambda x: tg.vmap(drawing)(x), np.ones(2))
    assert len({*value, *tape.play(np.ones(2)), *tape.play(np.ones(2))}) == 6
    tape = tg.batchtape(lambda x: x + rng.normal(), np.zeros(3))
    assert len({*tape.play(np.zeros(3)), *tape.play(np.zeros(3))}) == 6
    with pytest.raises(tg.UnknownFunction, match="depending on random numbers that walk draws"):

        def walk(x: Any) -> Any:
            return x if rng.random() > 0.5 else -x

        tg.vmap(walk)(np.ones(50))


# -- torch


def test_torch() -> None:
    def tensor_loss(w: Any, x: Any) -> Any:
        return (torch.tanh(x @ w) ** 2).sum()

    torch.testing.assert_close(
        tg.vmap(lambda x: tg.gradient(tensor_loss, TW, x)[0])(TX),
        torch.func.vmap(lambda x: torch.func.grad(tensor_loss)(TW, x))(TX),
    )
    torch.testing.assert_close(
        tg.vmap(lambda x: x.sum() if x[0] > 0 else x.prod())(TX),
        torch.stack([x.sum() if x[0] > 0 else x.prod() for x in TX]),
    )
    torch.testing.assert_close(
        tg.vmap(lambda x: F.gelu(x) + torch.special.i1(x), out_axes=1)(TX), (F.gelu(TX) + torch.special.i1(TX)).T
    )
    assert tg.vmap(lambda x: x * 2)(TX[:0]).shape == (0, 3)


def test_random_numbers_of_torch() -> None:
    def noisy(x: Any) -> Any:
        return (F.dropout(x, 0.5) * torch.randn(6)).sum()

    x = torch.ones(8, 6)
    torch.manual_seed(0)
    expected = torch.stack([F.dropout(row, 0.5) for row in x])
    torch.manual_seed(0)
    torch.testing.assert_close(tg.vmap(lambda v: F.dropout(v, 0.5))(x), expected)
    for gradient in (
        lambda x: tg.vmap(lambda v: tg.gradient(noisy, v)[0])(x),
        lambda x: tg.gradient(lambda x: tg.vmap(noisy)(x).sum(), x)[0],
    ):
        assert len({tuple(row.tolist()) for row in gradient(x)}) == 8
    tape = tg.batchtape(lambda v: v + torch.randn(()), x)
    assert not torch.equal(tape.play(x), tape.play(x))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_per_example_of_a_network(reduction: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 4, 2), nn.ReLU(), nn.Flatten(0), nn.Linear(8, 2)).double()
    labels = torch.tensor([0, 1, 1, 0])

    def entropy(net: Any, x: Any, label: Any) -> Any:
        return F.cross_entropy(net(x[None]), label, reduction=reduction)

    found = tg.vmap(lambda x, label: tg.grad(entropy, net, x, label)[1][1])(TX, labels)
    for name, parameter in net.named_parameters():
        expected = torch.stack(
            [torch.autograd.grad(entropy(net, x, label), parameter)[0] for x, label in zip(TX, labels)]
        )
        torch.testing.assert_close(found[name], expected)


# -- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tg.vmap(np.multiply)(X, 2.0), "x2 is a number, which has no axis 0"),
        (lambda: tg.vmap(loss)(W, X), "different numbers of members: 3 of w along axis 0, 4 of x along axis 0"),
        (lambda: tg.vmap(loss, in_axes=(None, 2))(W, X), r"x has shape \(4, 3\), which has no axis 2"),
        (lambda: tg.vmap(loss, in_axes=(0,))(W, X), "is for 1 argument, but there are 2"),
        (lambda: tg.vmap(loss, in_axes=None)(W, X), "no argument is batched"),
        (lambda: tg.vmap(loss, in_axes="a"), "which is not an axis"),
        (lambda: tg.vmap(3), "3 is not a function"),
        (lambda: tg.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": X}), "differs from the argument"),
        (lambda: tg.vmap(np.sin, out_axes=3)(X), "which has no axis 3"),
        (lambda: tg.vmap(np.sin, out_axes=None)(X), "the value differs between members"),
        (lambda: tg.vmap(lambda x: x if x[0] > 0 else x[:1])(X), r"different shapes, \(1,\) and \(3,\)"),
        (lambda: tg.vmap(lambda x: x if x[0] > 0 else (x, x))(X), "different nesting"),
        (lambda: tg.vmap(lambda x: "a" if x[0] > 0 else "b")(X), "'b' and 'a'"),
    ],
)
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(tg.ArgumentError, match=message) as info:
        call()
    assert info.value.where is not None and info.value.try_


def test_an_error_of_a_member_is_its_own() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        tg.vmap(np.linalg.inv)(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="math domain"):
        tg.vmap(math.sqrt)(V - 2)


# -- examples of others, in plain NumPy: JAX's documentation of vmap, and its "autodiff cookbook"


def test_jax_examples() -> None:
    vv = np.dot
    mv = tg.vmap(vv, (0, None), 0)
    mm = tg.vmap(mv, (None, 1), 1)
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    agrees(mv(a, b[:, 0]), a @ b[:, 0])
    agrees(mm(a, b), a @ b)
    tree = {"a": a, "b": (b.T, 3.0)}
    agrees(
        tg.vmap(lambda tree: tree["a"][:, None] * tree["b"][0] + tree["b"][1], in_axes=({"a": None, "b": (0, None)},))(
            tree
        ),
        np.stack([a[:, None] * row + 3.0 for row in b.T]),
    )

    def convolve(x: Any, w: Any) -> Any:
        return np.array([np.dot(x[i - 1 : i + 2], w) for i in range(1, len(x) - 1)])

    xs, ws = np.stack([np.arange(5.0)] * 2), np.stack([np.array([2.0, 3.0, 4.0])] * 2)
    expected = np.array([[11.0, 20.0, 29.0]] * 2)
    agrees(tg.vmap(convolve)(xs, ws), expected)
    agrees(tg.vmap(convolve, in_axes=1, out_axes=1)(xs.T, ws.T), expected.T)
    agrees(tg.vmap(convolve, in_axes=[0, None])(xs, ws[0]), expected)


def test_jax_matrix_jacobian_products() -> None:
    rng = np.random.default_rng(0)
    w, m = rng.normal(size=3), rng.normal(size=(5, 4))
    inputs = rng.normal(size=(4, 3))

    def f(w: Any) -> Any:
        return 0.5 * (np.tanh(inputs @ w / 2) + 1)

    _, back = tg.pullback(f, w)
    agrees(tg.vmap(lambda row: back(row)[1])(m), m @ tg.jacobian(f)(w))
    _, push = tg.linearize(f, w)
    agrees(tg.vmap(push)(np.eye(3)).T, tg.jacobian(f)(w))


def _root(x: Any) -> Any:
    try:
        return math.sqrt(x)
    except ValueError:
        return -1.0


def _growth(x: Any) -> Any:
    try:
        return math.exp(300 * x) * x
    except OverflowError:
        return 3.0 * x


def _logarithm(x: Any) -> Any:
    try:
        return math.log(x.item(), 2) + x
    except ValueError:
        return 3.0 * x


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("f", [_root, _growth, _logarithm])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_members_for_which_math_raises_leave(f: Callable[..., Any], dtype: Any) -> None:
    for batch in ([4.0, -2.0, 3.0, np.inf], [-4.0, 1.5, 0.0], [1.5, 2.5, 0.5], [0.1, 0.7, 0.3]):
        x = np.array(batch, dtype)
        for g in (tg.vmap(f), tg.compile(tg.vmap(f))):
            for each in (np.array([0.1, 0.2, 0.3], dtype), x, -x, x / 3):
                expected = np.array([f(number) for number in each])
                y = g(each)
                np.testing.assert_allclose(y, expected, 1e-15)
                assert y.dtype == expected.dtype
        if np.isfinite(x).all() and dtype is np.float64 and (f is not _root or 0 not in batch):
            gradient = tg.gradient(lambda x: tg.vmap(f)(x).sum(), x)[0]
            agrees(gradient, np.array([tg.gradient(f, number)[0] for number in x]))


def test_what_math_raises_reaches_the_caller() -> None:
    for f in (math.sqrt, math.log, math.asin, math.lgamma, math.exp, lambda x: math.pow(x, 0.5)):
        with pytest.raises((ValueError, OverflowError)):
            tg.vmap(lambda x, f=f: f(x))(np.array([0.5, 1.0, 1e3 if f is math.exp else -2.0]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: {"1.0": 5.0}.get(str(x), x),
        lambda x, form="%.1f": x * float(form % x),
        lambda x: 1.0 if f"v{x}w" == "v1.0w" else x * 2,
        lambda x: x * float(f"{x:.1f}0"),
        lambda x: len(f"{9 * x:.1f}"),
    ],
)
def test_a_member_has_its_own_text(f: Callable[[Any], Any]) -> None:
    x = np.array([1.0, 2.0, 3.0])
    agrees(tg.vmap(f)(x), np.array([f(number) for number in x]))


def test_a_zero_with_another_sign_goes_another_way() -> None:
    def f(x: Any) -> Any:
        return math.copysign(1.0, float(np.floor(x))) * (x + 1.0)

    X = np.array([0.0, -0.0, 0.5, -0.0])
    agrees(tg.vmap(f)(X), np.array([f(x) for x in X]))


def test_integers_of_pythons_are_not_of_64_bits() -> None:
    x = np.array([10 ** 9 + 7, 3])

    def power(n: Any) -> Any:
        return n.item() ** 4 * 1.0
    expected = [float((10 ** 9 + 7) ** 4), 81.0]
    assert tg.vmap(power)(x).tolist() == tg.trace(tg.vmap(power), x)[0].tolist() == expected


def test_attributes_that_the_function_adds_to_classes_and_modules() -> None:
    class Counting(type):
        def __call__(cls, *args: Any) -> Any:
            cls.made = getattr(cls, "made", 0) + 1
            return super().__call__(*args)

    class Kept(metaclass=Counting):
        def __init__(self, x: Any) -> None:
            self.x = x * type(self).made
    module: Any = types.ModuleType("counted")

    def f(x: Any) -> Any:
        module.calls = getattr(module, "calls", 0) + 1
        return Kept(x).x + module.calls
    np.testing.assert_array_equal(tg.vmap(f)(np.array([1.0, 2.0, 3.0])), [2.0, 6.0, 12.0])
    assert Kept.made == module.calls == 3
