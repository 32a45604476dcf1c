"""Running statistics of modules: on the tape they are written, in the module they stay."""

from __future__ import annotations

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
def test_new_statistics_are_returned_and_the_module_is_untouched(module: nn.Module, shape: Any) -> None:
    module = module.double()
    x = torch.randn(*shape, dtype=torch.float64)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.warns(UserWarning, match="keeps its old ones") as caught:
        (value, buffers), (_, gradients, dx) = tg.grad(step, module, x, seed=(1.0, None))
    assert len(caught) == 1
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    x.requires_grad_()
    wanted = module(x).square().mean()
    wanted.backward()
    torch.testing.assert_close(value, wanted.detach())
    torch.testing.assert_close(dx, x.grad)
    for name, p in module.named_parameters():
        torch.testing.assert_close(gradients[name], p.grad)
    for name, new in module.named_buffers():
        torch.testing.assert_close(buffers[name], new)  # torch's own call has moved them on by now
    module.load_state_dict(before)


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
    with pytest.warns(UserWarning, match="keeps its old ones"):
        tg.grad(lambda x, m, v: nn.functional.batch_norm(x, m, v, training=True).sum(), x, mean, var)
    assert torch.equal(mean, torch.zeros(3)) and torch.equal(var, torch.ones(3))


OUTSIDE = torch.zeros(3)


def test_statistics_of_all_batches_together() -> None:
    module, x = nn.BatchNorm1d(3, momentum=None), torch.randn(5, 3)
    for _ in range(3):  # `float(self.num_batches_tracked)`, in torch's own code
        with pytest.warns(UserWarning, match="keeps its old ones"):
            (_, buffers), _ = tg.grad(step, module, x, seed=(1.0, None))
        module(x)
        for name, new in module.named_buffers():
            torch.testing.assert_close(buffers[name], new)
        x = torch.randn(5, 3)
