"""Each function of torch.nn.functional has the value and the gradients of torch.autograd: as it is, in float32, at kinks, of second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import tapegrad as tg
from tests.frontends.torch.agree import agree
from tests.frontends.torch.nn.table import ACTIVATIONS, KINKS, PROGRAMS, draw

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")  # torch's, of its own copy


def contracted(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose output is a number: that of `f`, each of its elements weighted otherwise."""
    def total(*args: Any) -> Any:
        y = f(*args)
        return (y * torch.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape).cos()).sum()
    return total


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_torchs(name: str) -> None:
    f, *args = PROGRAMS[name]
    agree(contracted(f), *args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_torchs_in_float32(name: str) -> None:
    f, *args = PROGRAMS[name]
    known = [x.float() if x.is_floating_point() else x for x in args]
    agree(contracted(f), *known, again=False)
    y, (_, *dxs) = tg.grad(contracted(f), *known)
    assert all(dx.dtype == x.dtype for dx, x in zip(dxs, known) if x.is_floating_point()) and y.dtype == contracted(f)(*known).dtype


@pytest.mark.parametrize("name", [name for name in PROGRAMS if not name.endswith("!")])
def test_the_gradient_of_the_gradient_is_torchs(name: str) -> None:
    f, *args = PROGRAMS[name]
    which = [i for i, x in enumerate(args) if x.is_floating_point()]
    f = contracted(f)
    found = tg.gradient(lambda *xs: sum(tg.gradient(f, *xs)[i].square().sum() for i in which), *args)
    given = [x.clone().requires_grad_(i in which) for i, x in enumerate(args)]
    roots = [given[i] for i in which]
    with sdpa_kernel(SDPBackend.MATH):  # torch's other kernel has a gradient, and that has none
        dxs = torch.autograd.grad(f(*given), roots, create_graph=True, allow_unused=True, materialize_grads=True)
    total = sum(dx.square().sum() for dx in dxs)
    wanted = torch.autograd.grad(total, roots, allow_unused=True, materialize_grads=True) if total.requires_grad else [torch.zeros_like(x) for x in roots]
    for i, dx in zip(which, wanted):
        torch.testing.assert_close(found[i], dx)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_at_its_kinks_and_of_other_shapes(name: str) -> None:
    f = ACTIVATIONS[name]
    for x in (KINKS, torch.zeros(0, 3, dtype=torch.float64), draw(3, 4).T[::2]):
        agree(contracted(f), x, again=False)


def test_the_tape_of_a_layer_is_short() -> None:
    _, tape = tg.trace(lambda x, w, b, t: F.cross_entropy(F.gelu(F.layer_norm(F.linear(x, w, b), (4,))), t), draw(3, 2), draw(4, 2), draw(4), torch.tensor([0, 3, 1]))
    assert sum(op.kind == "call" for op in tape) <= 5


def test_a_number_that_torch_takes_for_a_parameter_loses_no_gradient_silently() -> None:
    with pytest.raises(tg.TapeError):
        tg.grad(lambda x, a: F.leaky_relu(x, a).sum(), draw(3), 0.1)


def test_embedding_with_max_norm_is_refused() -> None:
    with pytest.raises(tg.MutationError, match="max_norm"):
        tg.grad(lambda w: F.embedding(torch.tensor([0]), w, max_norm=1.0).sum(), draw(3, 2))


@pytest.mark.parametrize(("f", "args"), [
    (F.linear, (draw(3, 4), draw(5, 3))), (F.conv2d, (draw(1, 2, 4, 4), draw(3, 3, 2, 2))), (F.cross_entropy, (draw(3, 4), torch.tensor([0, 1, 9]))),
    (lambda x: F.batch_norm(x, None, None, training=True), (draw(1, 3),)), (lambda x: F.glu(x), (draw(3, 3),)), (lambda x: F.layer_norm(x, (5,)), (draw(3, 4),)),
    (lambda x: F.nll_loss(x, torch.tensor([0, 0, 0]), reduction="median"), (draw(3, 4),)), (lambda x: F.softshrink(x, -1.0), (draw(3),))])
def test_what_torch_refuses_is_refused(f: Any, args: Any) -> None:
    with pytest.raises(Exception) as wanted:
        f(*args)
    with pytest.raises(wanted.type):
        tg.grad(contracted(f), *args)


def test_the_arguments_that_torch_had_before_reduction() -> None:
    for kwargs in ({"size_average": False}, {"reduce": False}):
        with pytest.warns(UserWarning, match="deprecated"):
            agree(lambda x, y, kwargs=kwargs: F.mse_loss(x, y, **kwargs).sum(), draw(3), draw(3))  # type: ignore[misc]
