"""What no tape can hold of torch code raises: each error names the user's line, and says what to try."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)
OUTSIDE = torch.zeros(3, 4)
LAYER = torch.nn.Linear(4, 2)


def set_data(x: Any) -> None:
    y = x * 2
    y.data = x


def set_grad(x: Any) -> None:
    (x * 2).grad = x


def set_outside(x: Any) -> None:
    OUTSIDE[0] = x[0]


def add_outside(x: Any) -> None:
    part = OUTSIDE[0]
    part += x[0]


class Leaking(torch.autograd.Function):
    """A function that uses what it was not given."""

    held: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * Leaking.held

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy


def leak(x: Any) -> Any:
    Leaking.held = x
    return Leaking.apply(x * 2)


HOOKED = torch.nn.Linear(4, 2)
HOOKED.register_full_backward_hook(lambda module, dx, dy: None)


def hooked_everywhere(x: Any) -> Any:
    handle = torch.nn.modules.module.register_module_full_backward_pre_hook(lambda module, dy: None)
    try:
        return LAYER(x)
    finally:
        handle.remove()


def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x)


SPARSE = torch.ones_like(X).to_sparse()


def autocast(x: Any) -> Any:
    with torch.autocast("cpu"):
        return SPARSE @ x.T


# name: what the program does, the class of the error, a part of what it says, a part of what it advises
CASES: dict[str, tuple[Any, Any, str, str]] = {
    "backward": (lambda x: x.sum().backward(), tg.UnknownFunction, "own autograd graph is not built", "tg.grad"),
    "a part of a sparse tensor": (lambda x: (SPARSE * x)[0].to_dense() ** 2, tg.MissingRule, "torch has no gradient of sparse_getitem", "x.to_dense()"),
    "a second gradient of a sparse tensor's": (lambda x: tg.gradient(lambda x: (x.to_sparse() * x).sum(), x)[0], tg.MissingRule, "higher derivatives of", "x.to_dense()"),
    "a sparse tensor in place": (lambda x: x.to_sparse().mul_(2), tg.UnknownFunction, "it writes in place", "returns a new tensor"),
    "a sparse tensor's hook": (lambda x: x.to_sparse().register_hook(torch.sin), tg.UnknownFunction, "as its parts", "hook on its values"),
    "sparse in autocast": (autocast, tg.UnknownFunction, "autocast is on", "without autocast"),
    "the stored numbers in another order": (lambda x: x.to_sparse().t()._values(), tg.UnknownFunction, "in another order", "coalesce()"),
    "a sparse leaf": (lambda x: torch.sparse_coo_tensor([[0], [0]], x[0, :1], (3, 3), requires_grad=True), tg.UnknownFunction, "requires_grad=True", "with respect to the values"),
    "a number that is no tensor, of a sparse one": (lambda x: x * torch.is_nonzero(torch.sparse.sum(x.to_sparse(), (0, 1)).to_sparse()), tg.UnknownFunction, "it returns bool", "x.to_dense()"),
    "nested sizes": (lambda x: torch.nested.as_nested_tensor([x, x[:1]]).to_padded_tensor(0.0), tg.UnknownFunction, "a nested tensor", "padded"),
    "float": (lambda x: x * float(x[0, 0]), tg.ConcretizationError, "plain number", "x.detach().item()"),
    "item": (lambda x: x * x[0, 0].item(), tg.MissingRule, "x.item of a tensor drops", "x.detach()"),
    "tolist": (lambda x: x * x.tolist()[0][0], tg.MissingRule, "x.item of a tensor drops", "x.detach()"),
    "data": (lambda x: x * x.data, tg.MissingRule, "x.data of a tensor drops", "x.detach()"),
    "complex": (lambda x: x * complex(x[0, 0]), tg.ConcretizationError, "plain number", "x.detach().item()"),
    "math.sin": (lambda x: x * math.sin(x[0, 0]), tg.ConcretizationError, "plain number", "x.detach().item()"),
    "__array__": (lambda x: x.__array__(), tg.ConcretizationError, "gradient through", "x.numpy()"),
    "a list of tensors in torch.Tensor": (lambda x: torch.Tensor([x[0, 0], 1.0]), tg.ConcretizationError, "plain number", "tg.value"),
    "setitem outside": (set_outside, tg.MutationError, "does not own", "torch.zeros"),
    "add_ outside": (lambda x: OUTSIDE.add_(x), tg.MutationError, "does not own", "torch.zeros"),
    "out= outside": (lambda x: torch.add(x, 1, out=OUTSIDE), tg.MutationError, "does not own", "torch.zeros"),
    "a parameter outside": (lambda x: LAYER.weight.add_(x[:2]), tg.MutationError, "does not own", "torch.zeros"),
    "x.data =": (set_data, tg.MutationError, "cannot be recorded for a traced tensor", "copy_"),
    "x.grad =": (set_grad, tg.MutationError, "cannot be recorded for a traced tensor", "of your own"),
    "a write through detach()": (lambda x: (x * 2).detach().add_(x), tg.MutationError, "by way of x.detach()", "write to x itself"),
    "an operator in place": (add_outside, tg.MutationError, "does not own", "torch.zeros"),
    "resize_": (lambda x: x.clone().resize_(2, 2), tg.UnknownFunction, "other memory", "torch.zeros"),
    "sparse blocks": (lambda x: x.to_sparse_bsr((1, 2)), tg.UnknownFunction, "torch.sparse_bsr cannot be traced", "x.to_dense()"),
    "a masked tensor": (lambda x: torch.masked.masked_tensor(x, X > 0).sum().get_data(), tg.UnknownFunction, "operators of its own", "torch.where"),
    "a hook of a module that is no argument": (lambda x: HOOKED(x), tg.UnknownFunction, "a backward hook of a module", "tg.hook"),
    "a hook of all modules": (hooked_everywhere, tg.UnknownFunction, "a backward hook of a module", "tg.hook"),
    "TorchScript": (torch.jit.script(scripted), tg.UnknownFunction, "does not expose to __torch_function__ called aten", "tg.primitive"),
    "quantized": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), tg.UnknownFunction, "quantized", "dequantize"),
    "nested": (lambda x: torch.nested.nested_tensor([x, x]), tg.UnknownFunction, "does not expose to __torch_function__", "tg.primitive"),
    "pickle": (lambda x: pickle.dumps(x), tg.UnknownFunction, "no memory of its own", "tg.value"),
    "dlpack": (lambda x: x.__dlpack__(), tg.UnknownFunction, "gradient would be lost", "x.numpy()"),
    "np.from_dlpack": (lambda x: np.from_dlpack(x), tg.UnknownFunction, "gradient would be lost", "x.numpy()"),
    "no gradient by an argument": (lambda x: torch.nn.functional.multi_margin_loss(torch.full((3, 4), 0.5), torch.tensor([0, 1, 2]), weight=x[0].abs()),
                                   tg.MissingRule, "torch has no gradient of", "tg.stop_gradient"),
    "jit.trace": (lambda x: torch.jit.trace(torch.sin, x), tg.UnknownFunction, "does not expose to __torch_function__", "tg.primitive"),
    "a Function that uses what it was not given": (leak, tg.UnknownFunction, "that are not its arguments", "pass them as arguments"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_an_error_names_the_line_and_what_to_try(name: str) -> None:
    f, kind, what, advice = CASES[name]
    with pytest.raises(kind) as caught:
        tg.grad(lambda x: f(x).sum(), X)
    err = caught.value
    assert what in err.what and advice in err.try_
    assert err.where is not None and err.where.file == __file__
    assert torch.equal(OUTSIDE, torch.zeros(3, 4))


def test_what_works_all_the_same() -> None:
    (dx,) = tg.gradient(lambda x: copy.deepcopy(x).square().sum(), X)  # a leaf of its own, in torch too
    assert not dx.any()
    (dx,) = tg.gradient(lambda x: torch.func.functional_call(LAYER, dict(LAYER.named_parameters()), x).sum(), X)
    torch.testing.assert_close(dx, LAYER.weight.detach().sum(0).expand(3, 4))
    (dx,) = tg.gradient(lambda x: tg.grad(lambda y: (y * x).pow(2).sum(), x)[1][1].sum(), X)
    torch.testing.assert_close(dx, 6 * X ** 2)
    (dx,) = tg.gradient(lambda x: x.sum() * len(x) if x[0, 0] in x else x, X)
    torch.testing.assert_close(dx, torch.full_like(X, 3.0))


def test_a_traced_tensor_ends_with_its_trace() -> None:
    tg.grad(keep, X)
    assert torch.equal(KEPT[0], X * 2) and type(KEPT[0]) is torch.Tensor  # a list holds what it is outside
    held = next(KEPT[1])
    for use in (lambda x: x + 1, torch.sin, lambda x: x.add_(1.0), lambda x: x[0], lambda x: x.numpy()):
        with pytest.raises(tg.EscapedProxy, match=r"(?s)test_errors.py.*tg\.value"):
            use(held)
    assert "tensor(" in repr(held)
    KEPT.clear()


KEPT: list[Any] = []


def keep(x: Any) -> Any:
    def suspended() -> Iterator[Any]:
        y = x * 2
        yield None
        yield y
    KEPT.append(x * 2)
    KEPT.append(suspended())
    next(KEPT[-1])
    return x.sum()


class Straight(torch.autograd.Function):
    """Rounding, differentiated as if it were x squared."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.save_for_backward(x)
        return torch.round(x * scale) / scale

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy * 2 * ctx.saved_tensors[0], None


def test_the_users_own_backward_is_the_gradient() -> None:
    def f(x: Any) -> Any:
        return Straight.apply(x.sin(), 8.0).pow(2).sum()
    x = X.clone().requires_grad_()
    (dx,) = torch.autograd.grad(f(x), x, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.square().sum(), x)
    torch.testing.assert_close(tg.gradient(f, X)[0], dx.detach())
    torch.testing.assert_close(tg.gradtape(f, X).play(X)[1][1], dx.detach())
    torch.testing.assert_close(tg.gradient(lambda x: tg.gradient(f, x)[0].square().sum(), X)[0], ddx)



class Reversed(torch.autograd.Function):
    """Its argument itself, with the gradient turned round."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return -dy


class Tripled(Reversed):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return 3 * dy


@pytest.mark.parametrize("function, factor", [(Reversed, -1), (Tripled, 3)])
def test_a_function_that_returns_its_argument_has_the_users_backward_all_the_same(function: Any, factor: int) -> None:
    def f(x: Any) -> Any:
        return function.apply(x.sin()).sum() + function.apply(x).sum()
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for run in (lambda: tg.grad(f, X), lambda: tg.gradtape(f, X).play(X), *[lambda: step(X)] * 3):
        torch.testing.assert_close(run()[1][1], factor * (1 + X.cos()))


def test_checkpointing_changes_nothing() -> None:
    from torch.utils.checkpoint import checkpoint
    w = torch.full((4, 2), 0.3)
    for reentrant in (False, True):
        _, (_, dx, dw) = tg.grad(lambda x, w, way=reentrant: checkpoint(lambda a: torch.tanh(a @ w), x, use_reentrant=way).sum(), X, w)
        xs = X.clone().requires_grad_(), w.clone().requires_grad_()
        for found, wanted in zip((dx, dw), torch.autograd.grad(torch.tanh(xs[0] @ xs[1]).sum(), xs)):
            torch.testing.assert_close(found, wanted)


def test_threads_trace_for_themselves() -> None:
    errors: list[Any] = []
    start = threading.Barrier(3)

    def traced(scale: float) -> None:
        start.wait()
        try:
            for _ in range(30):
                _, (_, dx, _) = tg.grad(lambda x, s: (torch.sin(x * s) + torch.zeros(3, 4)).sum(), X, scale)
                torch.testing.assert_close(dx, torch.cos(X * scale) * scale)
        except BaseException as err:
            errors.append(err)

    def untraced() -> None:
        start.wait()
        try:
            for _ in range(200):
                x = X.clone().requires_grad_()
                made = torch.zeros(4)
                made[0] = 1.0
                assert type(made) is torch.Tensor and type(torch.from_numpy(np.ones(2))) is torch.Tensor
                torch.testing.assert_close(torch.autograd.grad((torch.sin(x) + made).sum(), x)[0], torch.cos(X))
        except BaseException as err:
            errors.append(err)
    threads = [threading.Thread(target=traced, args=(2.0,)), threading.Thread(target=traced, args=(3.0,)), threading.Thread(target=untraced)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
