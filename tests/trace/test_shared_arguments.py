"""Parameters that a program reaches by another way than its arguments, and arrays that a call is given twice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tapegrad as tg


class Place:
    """What programs find the parameters in."""

    module: Any
    params: Any
    optimizer: Any
    store: Any
    weight: Any
    scales: Any
    part: Any
    view: Any


class Registry:
    def __init__(self, params: Any) -> None:
        self.params = list(params)

    def penalty(self) -> Any:
        return sum((p ** 2).sum() for p in self.params)


AT = Place()
PARAMS: list[Any] = []
X = torch.arange(15.0, dtype=torch.float64).reshape(5, 3) / 7


def made() -> nn.Module:
    torch.manual_seed(0)
    AT.module = m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    PARAMS[:] = AT.params = list(m.parameters())
    AT.optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for p in m.parameters():
        AT.optimizer.state[p]["k"] = 0.5
    AT.weight = m[0].weight
    AT.store, AT.scales, AT.view = {"w": AT.weight}, {AT.weight: 3.0}, AT.weight.view(-1)
    AT.part = functools.partial(lambda w: (w ** 2).sum(), AT.weight)
    return m


def by_default() -> Callable[..., Any]:
    return lambda m, x, w=AT.weight: m(x).sum() + (w ** 2).sum()


def by_closure() -> Callable[..., Any]:
    w = AT.weight
    return lambda m, x: m(x).sum() + (w ** 2).sum()


def by_registry() -> Callable[..., Any]:
    registry = Registry(AT.params)
    return lambda m, x: m(x).sum() + registry.penalty()


ROUTES: dict[str, Callable[[], Callable[..., Any]]] = {
    "a global list": lambda: lambda m, x: m(x).sum() + sum((p ** 2).sum() for p in PARAMS),
    "an optimizer": lambda: lambda m, x: m(x).sum() + sum((p ** 2).sum() for g in AT.optimizer.param_groups for p in g["params"]),
    "an optimizer's state": lambda: lambda m, x: m(x).sum() + sum(AT.optimizer.state[p]["k"] * (p ** 2).sum() for p in m.parameters()),
    "a store": lambda: lambda m, x: m(x).sum() + (AT.store["w"] ** 2).sum(),
    "the module by another name": lambda: lambda m, x: m(x).sum() + AT.module(x * x).sum(),
    "an attribute": lambda: lambda m, x: m(x).sum() + (AT.weight ** 2).sum(),
    "is": lambda: lambda m, x: m(x).sum() * (2 if m[0].weight is AT.weight else 1),
    "any is": lambda: lambda m, x: m(x).sum() * (2 if any(p is AT.weight for p in m.parameters()) else 1),
    "id": lambda: lambda m, x: m(x).sum() * (2 if id(m[0].weight) == id(AT.weight) else 1),
    "a key": lambda: lambda m, x: m(x).sum() * AT.scales[m[0].weight],
    "a partial": lambda: lambda m, x: m(x).sum() + AT.part(),
    "a default": by_default, "a captured variable": by_closure, "a captured object": by_registry,
}


def agrees(got: Any, want: Any, m: nn.Module) -> None:
    gradients = torch.autograd.grad(want, list(m.parameters()))
    assert float(got[0]) == pytest.approx(want.detach().item())
    for (name, _), dp in zip(m.named_parameters(), gradients):
        assert torch.allclose(got[1][name], dp), name


@pytest.mark.parametrize("make", ROUTES.values(), ids=ROUTES)
def test_a_parameter_is_one_by_whatever_way_it_is_reached(make: Callable[[], Callable[..., Any]]) -> None:
    m = made()
    f = make()
    value, (_, dm, *_) = tg.grad(f, m, X)
    agrees((value, dm), f(m, X), m)
    step = tg.value_and_grad(f, argnums=0, backend="torch", warmup=1)
    for k in range(4):
        agrees(step(m, X + k), f(m, X + k), m)
    value, (_, dm, *_) = tg.gradtape(f, m, X).play(m, X)
    agrees((value, dm), f(m, X), m)
    _, slope = tg.jvp(f, (m, X), ({name: torch.ones_like(p) for name, p in m.named_parameters()}, None))
    assert float(slope) == pytest.approx(sum(float(dp.sum()) for dp in torch.autograd.grad(f(m, X), list(m.parameters()))))


def test_the_parameters_of_a_module_that_is_known_by_name() -> None:
    made()
    value, (_, gradients) = tg.grad(lambda ps: AT.module(X).sum() + sum((p ** 2).sum() for p in ps), PARAMS)
    want = AT.module(X).sum() + sum((p ** 2).sum() for p in PARAMS)
    assert float(value) == pytest.approx(want.detach().item())
    assert all(torch.allclose(*pair) for pair in zip(gradients, torch.autograd.grad(want, PARAMS)))


def test_what_was_computed_outside_of_a_parameter_is_refused() -> None:
    with pytest.raises(tg.MutationError, match=r"computed outside from m\.0\.weight"):
        tg.grad(lambda m: m(X).sum() + (AT.view ** 2).sum(), made())


def test_a_parameter_of_two_arguments_is_refused_and_one_of_them_may_be_asked_for() -> None:
    m, f = made(), lambda m, ps: m(X).sum() + sum((p ** 2).sum() for p in ps) * (2 if ps[0] is m[0].weight else 1)
    with pytest.raises(tg.ArgumentError, match="the same parameter"):
        tg.grad(f, m, PARAMS)
    agrees(tg.grad(f, m, PARAMS, argnums=0), f(m, PARAMS), m)
    step = tg.value_and_grad(f, argnums=0, backend="torch", warmup=1)
    others = [p.detach().clone() for p in PARAMS]
    for _ in range(3):
        agrees(step(m, others), f(m, others), m)
    assert step.stats.hits == 2
    agrees(step(m, PARAMS), f(m, PARAMS), m)
    step, parts = tg.value_and_grad(f, argnums=0, backend="torch", warmup=1), [p.detach() for p in PARAMS]
    with pytest.warns(tg.RetraceWarning, match="compares equal numbers, or arrays that share memory, by `is`"):
        for ps in (parts, parts, PARAMS):
            agrees(step(m, ps), f(m, ps), m)


def test_an_array_that_an_object_holds_is_one_and_one_that_is_passed_is_a_value() -> None:
    class Net:
        def __init__(self, w: Any) -> None:
            self.w = w
    net, start = Net(np.array([1.0, 2.0])), np.array([3.0])
    AT.store = [net.w]
    assert tg.gradient(lambda n: (n.w * AT.store[0]).sum() if n.w is AT.store[0] else 0.0, net)[0].w.tolist() == [2.0, 4.0]
    AT.store = [start]
    assert tg.gradient(lambda x: (x * AT.store[0]).sum(), start)[0].tolist() == [3.0]


def by_is(x: Any, y: Any) -> Any:
    return 5 * (x * y).sum() if x is y else (x * y).sum()


def by_none(x: Any, y: Any, z: Any = None) -> Any:
    return (x * y).sum() if z is None and y is not None else 0 * x.sum()


def by_id(x: Any, y: Any) -> Any:
    return (x * y).sum() * (2 if id(x) == id(y) else 1)


@pytest.mark.parametrize("x", [np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])], ids=["array", "tensor"])
def test_one_array_in_two_arguments_is_two_variables_and_is_not_compared(x: Any) -> None:
    y = x + 0
    for f in (by_none, by_id):
        assert float(tg.grad(f, x, x)[0]) == float(f(x, x)) and tg.gradient(f, x, x)[1].shape == x.shape
    assert float(tg.grad(by_is, x, y)[0]) == float(by_is(x, y))
    with pytest.raises(tg.MutationError, match=r"by_is .* compares by `is`"):
        tg.grad(by_is, x, x)
    assert float(tg.grad(lambda x: by_is(x, x), x)[0]) == float(by_is(x, x))
    step = tg.value_and_grad(by_is, argnums=None, backend="torch" if torch.is_tensor(x) else "numpy", warmup=1)
    for k in range(4):
        step(x, y + k)
    with pytest.raises(tg.MutationError, match="compares by `is`"):
        step(x, x)
