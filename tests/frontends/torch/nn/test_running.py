"""Running statistics of modules: a call of a gradient moves them on once, as torch does."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import tapegrad as tg


def step(module: nn.Module, x: Any) -> Any:
    return module(x).square().mean(), dict(module.named_buffers())


@pytest.mark.parametrize(("module", "shape"), [
    (nn.BatchNorm1d(3), (5, 3)), (nn.BatchNorm2d(3, momentum=0.3), (2, 3, 4, 4)), (nn.InstanceNorm1d(3, track_running_stats=True), (2, 3, 6)),
    (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.BatchNorm1d(3, affine=False)), (5, 3))])
@pytest.mark.quick
def test_the_module_has_the_statistics_that_torch_gives_it(module: nn.Module, shape: Any) -> None:
    module = module.double()
    x = torch.randn(*shape, dtype=torch.float64)
    called, own = copy.deepcopy(module), dict(module.named_buffers())
    (value, buffers), (_, gradients, dx) = tg.grad(step, module, x, seed=(1.0, None))
    assert all(new is own[name] for name, new in module.named_buffers())  # written in place
    x.requires_grad_()
    wanted = called(x).square().mean()
    wanted.backward()
    torch.testing.assert_close(value, wanted.detach())
    torch.testing.assert_close(dx, x.grad)
    for name, p in called.named_parameters():
        torch.testing.assert_close(gradients[name], p.grad)
    for name, new in called.named_buffers():
        torch.testing.assert_close(buffers[name], new)
        torch.testing.assert_close(own[name], new)


def test_a_module_at_rest_warns_of_nothing_and_differentiates_through_its_statistics() -> None:
    module = nn.BatchNorm1d(3).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, (_, gradients, _) = tg.grad(lambda m, x: m(x).sum(), module, torch.randn(4, 3))
    assert gradients["bias"].tolist() == [4.0, 4.0, 4.0]


def test_statistics_that_the_trace_does_not_own_are_not_written() -> None:
    mean, var = torch.zeros(3), torch.ones(3)
    x = torch.randn(4, 3)
    with pytest.raises(tg.TapeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tg.grad(lambda x: nn.functional.batch_norm(x, OUTSIDE, OUTSIDE, training=True).sum(), x)
    with pytest.warns(tg.EffectWarning, match="an argument of the caller is never written to"):
        tg.grad(lambda x, m, v: nn.functional.batch_norm(x, m, v, training=True).sum(), x, mean, var)
    assert torch.equal(mean, torch.zeros(3)) and torch.equal(var, torch.ones(3))


OUTSIDE = torch.zeros(3)


def test_statistics_of_all_batches_together() -> None:
    module, x = nn.BatchNorm1d(3, momentum=None), torch.randn(5, 3)
    called = copy.deepcopy(module)
    for _ in range(3):  # `float(self.num_batches_tracked)`, in torch's own code
        tg.grad(step, module, x, seed=(1.0, None))
        called(x)
        for name, new in called.named_buffers():
            torch.testing.assert_close(dict(module.named_buffers())[name], new)
        x = torch.randn(5, 3)
