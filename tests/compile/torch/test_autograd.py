"""torch.autograd.grad, torch.func, torch.autograd.functional and torch.cond inside a function: values and gradients are torch's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import functional
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import tapegrad as tg
from tests.cases.over import over

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1)).double()
X, W = torch.linspace(-1.0, 1.5, 4, dtype=torch.float64), torch.linspace(0.3, 2.0, 12, dtype=torch.float64).reshape(3, 4)
POINTS, LABELS = torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(6, 2), torch.linspace(0.0, 1.0, 6, dtype=torch.float64)
PARAMETERS = {name: p.detach() for name, p in NET.named_parameters()}


def energy(x: Any) -> Any:
    return (torch.sin(x) * x**2).sum()


def mapping(x: Any) -> Any:
    return W @ torch.sin(x)


def loss(w: Any, x: Any, y: Any) -> Any:
    return (torch.tanh(w @ x) - y) ** 2


def heat(x: Any) -> Any:
    """The residual of an equation in two variables, as physics-informed networks have it."""
    p = POINTS * x[:2]
    u = torch.tanh(p @ W[:2, :2]) @ x[2:]
    du, = torch.autograd.grad(u, p, torch.ones_like(u), create_graph=True)
    d2u, = torch.autograd.grad(du[:, 1].sum(), p, create_graph=True)
    return ((du[:, 0] - 0.3 * d2u[:, 1]) ** 2).mean()


def penalty(x: Any) -> Any:
    z = (0.3 * W + (1.0 - 0.3) * W.roll(1, 0)).requires_grad_()
    z = z * x
    score = torch.tanh(z).pow(2).sum(1)
    slope, = torch.autograd.grad(score, z, torch.ones_like(score), create_graph=True, retain_graph=True)
    return ((slope.norm(2, dim=1) - 1.0) ** 2).mean()


def adapted(x: Any) -> Any:
    """Two steps of an inner loop."""
    w = x
    for _ in range(2):
        dw, = torch.autograd.grad(energy(w) + (w * w[0]).sum(), w, create_graph=True)
        w = w - 0.1 * dw
    return energy(w)


def first_order(x: Any) -> Any:
    dw, = torch.autograd.grad(energy(x), x)
    return energy(x - 0.1 * dw)


def several(x: Any) -> Any:
    y, z = torch.sin(x), x.sum()
    dy, dx, none = torch.autograd.grad([(y * z).sum(), y[0]], [y, x, W * x[0]], [x[1], x[2]], create_graph=True, allow_unused=True)
    assert none is None
    return (dy * dx).sum()


def written(x: Any) -> Any:
    y = x * 2.0
    z = torch.zeros_like(x)
    z[:2] = y[2:] ** 2
    z += y[0]
    dy, = torch.autograd.grad(z.sum(), y, create_graph=True)
    return (dy * z).sum()


def nested(x: Any) -> Any:
    return grad(lambda y: torch.autograd.grad((x * y).sin().sum(), y, create_graph=True)[0].pow(2).sum())(W[1]).sum()


def with_aux(x: Any) -> Any:
    dx, (value, aux) = grad_and_value(lambda x: (energy(x), {"sum": x.sum() ** 2}), has_aux=True)(x)
    other, rest = grad(lambda x: (energy(x), torch.sin(x)), has_aux=True)(x)
    return (dx * other).sum() + value * aux["sum"] + rest.sum()


def pulled(x: Any) -> Any:
    y, back = vjp(lambda a, b: {"p": a * b, "q": torch.sin(a)}, x, x[1:3].sum() * x)
    da, db = back({"p": W[0], "q": W[1]})
    return (y["p"] * da * db).sum()


def pushed(x: Any) -> Any:
    y, dy = jvp(lambda a, b: a * torch.sin(b), (x, x * x), (W[0] * x, W[1]))
    return (y * dy).sum() + jvp(lambda a: (energy(a), a), (x,), (W[2],), has_aux=True)[1]


def by_member(x: Any) -> Any:
    """Gradients of each example, of parameters that all have."""
    slopes = vmap(grad(loss), in_dims=(None, 0, 0))(x, W, LABELS[:3])
    columns = vmap(lambda a, b: (a * b).sum(), in_dims=(1, None), out_dims=0)(W * x, x[:3])
    return slopes.pow(2).sum() + columns.sin().sum() + vmap(vmap(lambda a, b: a * b), in_dims=(0, None))(W * x, x).sum()


def of_modules(x: Any) -> Any:
    def one(params: Any, point: Any, label: Any) -> Any:
        return (functional_call(NET, params, (point,))[0] - label) ** 2
    params = {name: p * x[0] for name, p in PARAMETERS.items()}
    slopes = vmap(grad(one), in_dims=(None, 0, 0))(params, POINTS * x[1], LABELS)
    return sum((s**2).sum() for s in slopes.values())


def curvature(x: Any) -> Any:
    h = hessian(energy)(x)
    return torch.logdet(h.T @ h + torch.eye(4, dtype=x.dtype)) + jacfwd(jacrev(energy))(x).sum() + jacrev(mapping)(x).pow(2).sum()


def both_jacobians(x: Any) -> Any:
    by_a, by_b = jacrev(lambda a, b: a[:2, None] * b, argnums=(0, 1))(x, x[1:] ** 2)
    return by_a.pow(2).sum() * by_b.sum() + jacfwd(lambda a, b: a[:2, None] * b, argnums=1)(x, x[1:] ** 2).sin().sum()


def old_names(x: Any) -> Any:
    j = functional.jacobian(mapping, x, create_graph=True)
    (ja, jb), = functional.jacobian(lambda a, b: (a * b,), (x, x * x), create_graph=True)
    ka, kb = functional.jacobian(lambda x: (torch.sin(x), x.sum() * x[:2]), x, create_graph=True)
    h = functional.hessian(energy, x, create_graph=True)
    y, back = functional.vjp(mapping, x, W[:, 0], create_graph=True)
    z, push = functional.jvp(mapping, x, x, create_graph=True)
    along, against = functional.hvp(energy, x, W[0], create_graph=True)[1], functional.vhp(energy, (x,), (W[0],), create_graph=True)[1][0]
    return (j.pow(2).sum() + (ja * jb).sum() + ka.sum() * kb.pow(2).sum() + h.sin().sum() + (y.sum() * back).sum() + (z * push).sum() + (along * against).sum()
            + (functional.jacobian(mapping, x) * x).sum())


PROGRAMS: list[Callable[[Any], Any]] = [heat, penalty, adapted, first_order, several, written, nested, with_aux, pulled, pushed, by_member, of_modules,
                                        curvature, both_jacobians, old_names]


@over([pytest.param(f, id=f.__name__) for f in PROGRAMS])
def test_values_and_gradients_are_torchs(f: Callable[[Any], Any]) -> None:
    step = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
    for x in (X, X, X * 0.7 + 0.1, X):
        root = x.clone().requires_grad_()
        y = f(root)
        expected, = torch.autograd.grad(y, root)
        value, (_, dx) = step(x)
        torch.testing.assert_close(value, y.detach())
        torch.testing.assert_close(dx, expected)
        torch.testing.assert_close(tg.gradient(f, x)[0], expected)
        torch.testing.assert_close(tg.trace(f, x)[1].play(x), y.detach())


def test_by_parameters_of_a_module_at_points_that_are_not_traced() -> None:
    t = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)[:, None]

    def residual(net: Any) -> Any:
        p = torch.cat([t, t * t], 1).requires_grad_()
        u = net(p)
        du, = torch.autograd.grad(u.sum(), p, create_graph=True)
        return ((du[:, 0] + u[:, 0]) ** 2).mean()
    expected = torch.autograd.grad(residual(NET), list(NET.parameters()))
    step = tg.value_and_grad(residual, argnums=None, backend="torch", warmup=1)
    for _ in range(3):
        torch.testing.assert_close(list(step(NET)[1][1].values()), list(expected))


def test_cond_takes_the_branch_that_the_value_says() -> None:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0.9, lambda a, b: (a * b).sin().sum(), lambda a, b: (a - b).cos().sum(), (x, x[0]))

    def plain(x: Any) -> Any:
        return (x * x[0]).sin().sum() if x.sum() > 0.9 else (x - x[0]).cos().sum()
    step = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
    for x in (X, X * 0.5, X, X * 0.4):
        torch.testing.assert_close(step(x), tg.grad(plain, x))


@pytest.mark.parametrize(("f", "error", "match"), [
    (lambda x: torch.autograd.grad(torch.sin(x), x)[0].sum(), RuntimeError, "only for scalar outputs"),
    (lambda x: torch.autograd.grad(x.sum(), W * x)[0].sum(), RuntimeError, "not have been used"),
    (lambda x: grad(torch.sin)(x).sum(), RuntimeError, "scalar"),
    (lambda x: torch.autograd.grad((x * (z := W[0].clone().requires_grad_()).sin()).sum(), z)[0].sum(), tg.UnknownFunction, "no traced operation has used"),
    (lambda x: torch.autograd.grad((x * (z := W[0].clone().requires_grad_()) * z.sin()).sum(), z)[0].sum(), tg.UnknownFunction, "outside the trace"),
    (lambda x: torch.autograd.grad((x * (z := W[0].clone().requires_grad_() * 2) * z.sin()).sum(), z)[0].sum(), tg.UnknownFunction, "outside the trace"),
    (lambda x: torch.autograd.grad(x.sum(), x, is_grads_batched=True)[0].sum(), tg.UnknownFunction, "is_grads_batched"),
    (lambda x: torch.autograd.grad((x * torch.normal(x)).sum(), x)[0].sum(), tg.UnknownFunction, "draws random numbers"),
    (lambda x: linearize(energy, x)[1](x), tg.UnknownFunction, "linearize"),
    (lambda x: vmap(torch.sin, randomness="same")(x).sum(), tg.UnknownFunction, "draw its own random numbers")])
def test_what_has_no_gradient_is_refused(f: Callable[[Any], Any], error: type[Exception], match: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=match):
            tg.grad(f, X)
