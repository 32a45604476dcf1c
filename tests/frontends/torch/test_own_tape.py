"""What belongs to torch's own tape: leaves, and what requires a gradient; copies; hooks; backwards that differentiate a module themselves."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import tapegrad as tg

X = torch.tensor([0.3, -0.7, 1.1])
PARAMETER = nn.Parameter(torch.ones(3))
SEEN: list[Any] = []


class Net(nn.Module):
    """A layer that is trained, and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.frozen, self.norm = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False), nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.layer(x) + self.frozen(x))


torch.manual_seed(0)
NET = Net()


def of_nothing(m: Any, x: Any) -> list[Any]:
    with torch.no_grad():
        inside = x * 3
        weight = m.layer.weight * 2
    one = torch.ones(3)
    return [one, one * 2, x.detach(), (x * 2).data, inside, weight, m.frozen.weight, m.frozen(one), m.norm.running_mean, x > 0, (x > 0).float() * 2,
            x.long().double(), torch.rand(3), x.sum().item() * one, torch.zeros_like(x), x.new_zeros(3), torch.tensor([1.0]), x.argmax()]


def of_some(m: Any, x: Any) -> list[Any]:
    y = torch.zeros(3)
    y[0] = x.sum()
    return [x, x * 1, x[0], m.layer.weight, m.layer(torch.ones(3)), m.frozen(x), y, x.floor(), PARAMETER, PARAMETER * 2, *x.unbind(), x.sort()[0]]


def of_what_is_asked(m: Any, x: Any) -> list[Any]:
    made = torch.zeros(3).requires_grad_()
    stopped = (x * 2).detach().requires_grad_()
    off = (x * 1).detach().requires_grad_().requires_grad_(False)
    given, assigned = torch.ones(3, requires_grad=True), torch.ones(3)
    assigned.requires_grad = True
    return [made, made * 2, stopped, stopped * x, off, given, assigned, torch.tensor([1.0], requires_grad=True), torch.rand(3, requires_grad=True),
            nn.Parameter(torch.ones(3)), nn.Linear(3, 2).weight, copy.deepcopy(m).layer.weight, copy.deepcopy(m).frozen.weight]


@pytest.mark.parametrize("made", [of_nothing, of_some, of_what_is_asked])
def test_leaves_are_torchs(made: Any) -> None:
    def f(m: Any, x: Any) -> Any:
        SEEN[:] = [(y.requires_grad, y.is_leaf, y.grad_fn is None) for y in made(m, x)]
        return (m.layer(x) * x).sum()
    f(NET, X.clone().requires_grad_())
    wanted = list(SEEN)
    tg.grad(f, NET, X)
    assert wanted == SEEN


def trained(m: Any) -> list[Any]:
    return [p for p in m.parameters() if p.requires_grad]


def wanted(f: Callable[..., Any], m: Any) -> tuple[Any, list[Any]]:
    """Return torch's own value and gradients, of the parameters that are trained and of the argument."""
    x = X.expand(2, 3).clone().requires_grad_()
    by = [*trained(m), x]
    y = f(m, x)
    return y.detach(), list(torch.autograd.grad(y, [p.requires_grad_() for p in by], materialize_grads=True))


def agree(f: Callable[..., Any], m: Any) -> None:
    """Raise unless the gradient, once and compiled, is torch's."""
    expected, step = wanted(f, m), tg.value_and_grad(f, argnums=None, backend="torch")
    for fn in (lambda *args: tg.grad(f, *args), step, step, step):
        value, (_, dm, dx) = fn(m, X.expand(2, 3).clone())
        torch.testing.assert_close((value, [*(part for part in dm.values() if part is not None), dx]), expected)


def asks(m: Any, x: Any) -> Any:
    """Return what depends on what requires a gradient."""
    y = m.frozen(torch.ones(3))
    for part in (y, (x * 2).detach(), m.layer(x), m.frozen.weight):
        y = y + (x * x if part.requires_grad else x.sin())
    return (y * m(x)).sum()


def of_a_copy(m: Any, x: Any) -> Any:
    target = copy.deepcopy(m)
    return (m(x) - target(x * 2)).square().sum()


def freezes(m: Any, x: Any) -> Any:
    y = m.layer(x)
    for p in m.layer.parameters():
        p.requires_grad_(False)
    return (y.square() + m.layer(x * 2)).sum()


class Adjoint(torch.autograd.Function):
    """Euler's steps, whose backward goes back along them, and differentiates `field` by the parameters that were passed beside it."""

    @staticmethod
    def forward(ctx: Any, field: Any, y: Any, *params: Any) -> Any:
        ctx.field = field
        with torch.no_grad():
            for _ in range(3):
                y = y + 0.1 * field(y)
        ctx.save_for_backward(y, *params)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        y, *params = ctx.saved_tensors
        sums = [torch.zeros_like(p) for p in params]
        for _ in range(3):
            with torch.enable_grad():
                at = y.detach().requires_grad_()
                slope = ctx.field(at)
                back, *dps = torch.autograd.grad(slope, (at, *params), dy, allow_unused=True)
            y, dy = y - 0.1 * slope.detach(), dy + 0.1 * back
            sums = [total if dp is None else total + 0.1 * dp for total, dp in zip(sums, dps)]
        return None, dy, *sums


class Held:
    """Something that holds a module, and is called."""

    def __init__(self, m: Any) -> None:
        self.m = m

    def __call__(self, y: Any) -> Any:
        return self.m(y) * 2


FIELDS: dict[str, Callable[[Any], Any]] = {"a module": lambda m: m, "a closure": lambda m: lambda y: m(y) * 2, "a method": lambda m: m.forward, "an object": Held}


@pytest.mark.parametrize("field", FIELDS)
def test_a_backward_that_differentiates_a_module(field: str) -> None:
    agree(lambda m, x: Adjoint.apply(FIELDS[field](m), x, *trained(m)).pow(2).sum() + sum(p.sum() for p in m.norm.parameters()), NET)


@pytest.mark.parametrize("f", [asks, of_a_copy, freezes])
def test_a_gradient_is_torchs(f: Any) -> None:
    agree(lambda m, x: f(m, x) + sum((p * 0).sum() for p in trained(m)), NET)


class Square(torch.autograd.Function):
    """A square."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return 2 * dy * ctx.saved_tensors[0]


@pytest.mark.parametrize("g", [Square.apply, np.sin, np.tanh, lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False),
                               lambda x: torch.zeros(len(x)).copy_(x)])
def test_nothing_flows_through_what_is_computed_under_no_grad(g: Any) -> None:
    def f(x: Any) -> Any:
        with torch.no_grad():
            y = g(x)
        return (y * x).sum()
    (dx,) = tg.gradient(f, X)
    torch.testing.assert_close(dx, torch.from_numpy(g(X.numpy())) if isinstance(g, np.ufunc) else g(X))


def cells(kind: str) -> Any:
    """Return a recurrent cell, and a loop over it."""
    cell: Any = getattr(nn, kind)(3, 4)

    def f(m: Any, x: Any, size: int) -> Any:
        h = c = torch.zeros(2, size)
        for t in range(len(x)):
            h, c = m(x[t], (h, c)) if kind == "LSTMCell" else (m(x[t], h), c)
        return (h * h).sum() + c.sum()
    return cell, f


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_a_loop_of_cells_is_a_loop(kind: str) -> None:
    cell, f = cells(kind)
    x = torch.randn(200, 2, 3, requires_grad=True)
    y = f(cell, x, 4)
    expected = list(torch.autograd.grad(y, [*cell.parameters(), x]))
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for _ in range(3):
        value, (_, dm, dx, _) = step(cell, x.detach(), 4)
        torch.testing.assert_close((value, [*dm.values(), dx]), (y.detach(), expected), rtol=1e-4, atol=1e-5)
    assert step.stats.traces == 1 and (len(step.tapes[0]) < 300 or kind == "RNNCell")  # of few operations, which no loop makes fewer


SIZED: list[Any] = [lambda x, n: torch.zeros(n, 2) + 1, lambda x, n: torch.ones((n, 2)), lambda x, n: torch.rand(n, 2), lambda x, n: torch.randn(size=(n,)),
                    lambda x, n: torch.full((n,), 2.0), lambda x, n: torch.eye(n), lambda x, n: torch.arange(n),
                    lambda x, n: torch.linspace(0, 1, n), lambda x, n: x.expand(n, 3), lambda x, n: x.new_ones(n, 2), lambda x, n: x.new_zeros(n, 2) + x.sum()]


@pytest.mark.parametrize("g", SIZED)
def test_a_length_among_the_arguments(g: Any) -> None:
    def f(x: Any, n: int) -> Any:
        return (g(x, n) * x.sum()).sum()
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for n in (3, 3, 4, 3):
        torch.manual_seed(n)
        y = f(x := X.clone().requires_grad_(), n)
        torch.manual_seed(n)
        value, (_, dx, _) = step(X, n)
        torch.testing.assert_close((value, dx), (y.detach(), torch.autograd.grad(y, x)[0]))


def test_hooks_of_what_is_saved() -> None:
    def lossy(x: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
            return (x * x).sum()

    def moved(x: Any) -> Any:
        with torch.autograd.graph.save_on_cpu():
            return (x * x).sum()
    with pytest.raises(tg.UnknownFunction, match="saved_tensors_hooks"):
        tg.gradient(lossy, X)
    torch.testing.assert_close(tg.gradient(moved, X), (2 * X,))


@pytest.mark.parametrize(("f", "error", "match"), [
    (lambda m, x: copy.deepcopy(x * 2).sum(), RuntimeError, "deepcopy protocol"),
    (lambda m, x: (x * 2).requires_grad_(False).sum(), RuntimeError, "leaf variables"),
    (lambda m, x: x.long().requires_grad_().sum(), RuntimeError, "floating point"),
    (lambda m, x: m.frozen.requires_grad_()(x).sum(), tg.MutationError, "held constant"),
    (lambda m, x: (x * 2).grad_fn.next_functions, tg.UnknownFunction, "torch's own tape"),
    (lambda m, x: Adjoint.apply(m, x, m.layer.weight, *trained(m)).sum(), tg.TapeError, "two of the other arguments")])
def test_what_is_refused(f: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        tg.grad(f, NET, X)


def test_what_item_gives_of_a_detached_tensor_is_guarded() -> None:
    def f(m: Any, x: Any) -> Any:
        return torch.linspace(0.0, m.norm.eps * x.sum().detach().item(), 3).sum() * x.sum()
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for x in (X, X, X + 1.0, X):
        given = x.clone().requires_grad_()
        y = f(NET, given)
        expected = y.detach(), torch.autograd.grad(y, given)[0]
        for value, (_, _, dx) in (tg.grad(f, NET, x), step(NET, x)):
            torch.testing.assert_close((value, dx), expected)


def test_a_hook_of_all_modules_is_noticed() -> None:
    m, x = nn.Linear(3, 3), torch.ones(2, 3)
    step = tg.value_and_grad(lambda m, x: m(x).sum(), argnums=None, backend="torch")
    for _ in range(3):
        torch.testing.assert_close(step(m, x)[0], m(x).sum())
    hook = nn.modules.module.register_module_forward_hook(lambda module, args, y: y * 2)
    try:
        torch.testing.assert_close(step(m, x)[0], m(x).sum())
    finally:
        hook.remove()
    torch.testing.assert_close(step(m, x)[0], m(x).sum())


# -- options, seeds


class Weighted(torch.autograd.Function):
    """Takes options, a dict that holds tensors, between what it differentiates by."""

    @staticmethod
    def forward(ctx: Any, a: Any, options: dict[str, Any], b: Any) -> Any:
        ctx.save_for_backward(a, b, options["weight"])
        return a * b.sum() * options["weight"]

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        a, b, weight = ctx.saved_tensors
        return dy * b.sum() * weight, None, (dy * a * weight).sum().expand_as(b)


def test_tensors_in_options_have_no_gradient_of_others() -> None:
    def f(x: Any, w: Any) -> Any:
        return Weighted.apply(x, {"weight": x.mean().detach(), "rest": [w[0]], "norm": lambda x: x}, w).sum()
    x, w = torch.rand(3, requires_grad=True), torch.rand(2, 2, requires_grad=True)
    wanted = torch.autograd.grad(f(x, w), [x, w])
    step = tg.value_and_grad(f, (0, 1), backend="torch", warmup=1)
    for found in (tg.gradient(f, x, w), *(step(x, w)[1] for _ in range(3))):
        for dx, exact in zip(found, wanted):
            torch.testing.assert_close(dx, exact)
    assert step.stats.hits == 2


class OfOne(torch.autograd.Function):
    """Refuses one of its arguments, as gpytorch's kernels do."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        if ctx.needs_input_grad[0]:
            raise RuntimeError("OfOne cannot compute gradients with respect to x")
        ctx.save_for_backward(x)
        return x * scale

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return None, (dy * ctx.saved_tensors[0]).sum()


def test_a_function_that_has_no_gradient_by_one_argument() -> None:
    x, scale = torch.arange(3.0), torch.tensor(2.0)
    torch.testing.assert_close(tg.grad(lambda x, s: OfOne.apply(x, s).sum(), x, scale, argnums=1)[1], torch.tensor(3.0))
    with pytest.raises(tg.MissingRule, match="cannot compute gradients"):
        tg.gradient(lambda x, s: OfOne.apply(x, s).sum(), x, scale)


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("recompute", [tg.checkpoint, lambda f: lambda *args: torch.utils.checkpoint.checkpoint(f, *args, use_reentrant=False)])
def test_a_seed_holds_in_a_checkpoint(recompute: Any) -> None:
    def f(x: Any) -> Any:
        torch.manual_seed(3)
        y = torch.nn.functional.dropout(x, 0.5)
        return recompute(lambda x: torch.nn.functional.dropout(x, 0.5))(y).pow(2).sum() + torch.nn.functional.dropout(x, 0.5).sum()
    step, x = tg.value_and_grad(f, 0, backend="torch", warmup=1), torch.arange(8.0)
    root = x.clone().requires_grad_()
    wanted, = torch.autograd.grad(f(root), root)
    for _ in range(4):
        torch.testing.assert_close(step(x)[1], wanted)


def test_a_checkpoint_that_draws_compiles_where_nothing_is_seeded() -> None:
    block = tg.checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5))
    step = tg.value_and_grad(lambda x: (block(x) + torch.nn.functional.dropout(x, 0.5)).sum(), 0, backend="torch", warmup=1)
    for _ in range(4):
        assert set(step(torch.ones(64))[1].tolist()) <= {0.0, 2.0, 4.0}
    assert step.stats.hits > 0


def padded(x: Any) -> Any:
    return torch.nn.functional.pad(x[None], (1, 1), mode="reflect").sum()


def in_inference_mode() -> Any:
    with torch.inference_mode():
        return tg.grad(padded, X)


def below_autograd() -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return tg.grad(padded, X)


@pytest.mark.parametrize("run", [in_inference_mode, below_autograd])
def test_where_torchs_autograd_does_not_record_a_gradient_of_its_own_is_refused(run: Any) -> None:
    with pytest.raises(tg.MissingRule, match="does not record"):
        run()
    assert tg.grad(padded, X)[1][1].tolist() == [1.0, 3.0, 1.0]
    assert tg.grad(lambda x: x.new([1.0, 2.0]).sum() * x.sum(), X)[1][1].tolist() == [3.0, 3.0, 3.0]
