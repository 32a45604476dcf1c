"""Torch code is traced as it is: by torch's own names, in place, through views, with branches and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tapegrad as tg
from tests.frontends.torch.agree import agree

torch.manual_seed(0)
X, W, B = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)


def written(x: Any) -> Any:
    y = x.clone()
    y[0] = x[1] * 2
    y[1:, 2] += 3 * x[0, 0]
    y.mul_(2)
    z = y.view(-1)
    z[3] = x[2, 2] ** 2
    y[0].sub_(x[1], alpha=2)
    F.relu(y[2], inplace=True)
    return y.exp().sum()


def filled(x: Any) -> Any:
    out = torch.zeros(3)
    for i in range(3):
        out[i] = x[i, i] ** 2
    return out.sum()


def without_gradient(x: Any) -> Any:
    with torch.no_grad():
        y = x.exp()
    return (x * y).sum()


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "linear": (lambda x, w, b: F.relu(F.linear(x, w, b)).sum(), X, W, B),
    "softmax": (lambda x: (torch.softmax(x, -1).log() * x).mean(), X),
    "stack": (lambda x: torch.stack([x[0], x[1] * 2]).sum(), X),
    "svd": (lambda x: torch.linalg.svd(x, full_matrices=False)[1].sum(), X),
    "max": (lambda x: x.max(dim=1).values.sum(), X),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1).square().sum(), torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)),
    "in place": (written, X),
    "filling": (filled, X),
    "a branch": (lambda x: (x * 2).sum() if x.sum() > 0 else (x ** 3).sum(), X),
    "detach": (lambda x: (x * x.detach()).sum(), X),
    "no_grad": (without_gradient, X),
    "item": (lambda x: x.sum() * x[0, 0].detach().item() * (1 + (x.data > 0).sum()) * (2.0 if x.sum().item() > 0 else 3.0), X),
    "torch.tensor of a list": (lambda x: (torch.tensor([1.0, 2.0, 3.0, 4.0]) * x).sum(), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_gradients_of_torch(name: str) -> None:
    agree(*PROGRAMS[name])


def test_random_numbers_are_those_that_torch_draws_and_a_replay_draws_afresh() -> None:
    def f(x: Any) -> Any:
        return (F.dropout(x, 0.5) * torch.randn(4)).sum()
    agree(f, X, draws=True)
    _, tape = tg.trace(f, X)
    values = {float(tape.play(X)) for _ in range(5)}
    assert len(values) == 5
    gradient = tg.gradtape(f, X)
    value, (_, dx) = gradient.play(X)
    torch.testing.assert_close((dx * X).sum(), value)  # linear in x: the pullback draws what the call drew


@pytest.mark.quick
def test_numpy_functions_mean_on_a_tensor_what_they_mean_on_an_array() -> None:
    value, (dx,) = tg.trace(lambda x: np.sin(x).sum() * np.exp(x[0, 0]), X)[0], tg.gradient(lambda x: np.sin(x).sum(), X)
    torch.testing.assert_close(value, torch.sin(X).sum() * torch.exp(X[0, 0]))
    torch.testing.assert_close(dx, torch.cos(X))


def test_a_tensor_that_requires_grad_is_read_and_never_written() -> None:
    w = X.clone().requires_grad_()
    value, (_, dw) = tg.grad(lambda w: (w * w).sum(), w)
    assert not value.requires_grad and not dw.requires_grad and w.grad is None
    torch.testing.assert_close(dw, 2 * X)


@pytest.mark.quick
def test_a_gradient_of_a_gradient_goes_through_torchs_functions() -> None:
    def f(x: Any) -> Any:
        return torch.tanh(x).pow(3).sum()
    (found,) = tg.gradient(lambda x: tg.gradient(f, x)[0].square().sum(), X)
    x = X.clone().requires_grad_()
    (dx,) = torch.autograd.grad(f(x), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(dx.square().sum(), x)[0])


def test_no_way_around_torchs_protocol_loses_a_gradient_silently() -> None:
    with pytest.raises(tg.TapeError, match="gradient through"):
        tg.grad(lambda x: x.__array__().sum(), X)
    with pytest.raises(tg.TapeError, match="plain number"):
        tg.grad(lambda x: x * float(x[0, 0]), X, seed=torch.ones(3, 4))
    with pytest.raises(tg.UnknownFunction, match="backward"):
        tg.grad(lambda x: x.sum().backward(), X)


def test_a_write_through_a_view_that_no_path_describes_is_refused() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y.unfold(0, 2, 1)[0] = 0.0
        return y.sum()
    with pytest.raises(tg.TapeError, match="single memory location"):
        tg.grad(f, X)



NEW: dict[str, Any] = {
    "new, of a size": lambda x: x.new(4).fill_(2.0), "new, of a torch.Size": lambda x: x.new(x[0].shape).fill_(2.0),
    "new, of numbers": lambda x: x.new([1.0, 2.0, 3.0, 4.0]), "new_tensor": lambda x: x.new_tensor([1, 2, 3, 4]),
    "new_zeros": lambda x: x.new_zeros(4) + 2, "new_full": lambda x: x.new_full((4,), 2.0)}


@pytest.mark.parametrize("name", NEW)
def test_a_tensor_made_like_another(name: str) -> None:
    f = NEW[name]
    agree(lambda x: (f(x) * x[0]).sum(), X)
    step = tg.value_and_grad(lambda x: (f(x) * x[0]).sum(), argnums=None, backend="torch")
    for _ in range(3):
        torch.testing.assert_close(step(X)[1][1][0], f(X).expand(4))
    assert step.stats.traces == 1


def test_a_whole_number_becomes_a_float_that_is_guarded() -> None:
    step = tg.value_and_grad(lambda x, n: x.sum() / float(n) + complex(n).real, argnums=None, backend="torch")
    for n in (2, 2, 3, 3, 2):
        value, (_, dx, _) = step(X, torch.tensor(n))
        torch.testing.assert_close(value, X.sum() / n + n)
        torch.testing.assert_close(dx, torch.full_like(X, 1 / n))
    assert step.stats.traces == 2
