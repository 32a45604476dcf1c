"""Tensors and modules that are spread over processes, in one process: refused in our words, before torch's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import tapegrad as tg

dist = torch.distributed
pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch was built without gloo")
X = torch.randn(4, 3)


@pytest.fixture
def mesh() -> Iterator[Any]:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def spread(mesh: Any) -> Any:
    from torch.distributed.tensor import Shard, distribute_tensor
    return distribute_tensor(X, mesh, [Shard(0)])


def made(x: Any, mesh: Any) -> Any:
    from torch.distributed.tensor import DTensor, Replicate
    return (DTensor.from_local(x, mesh, [Replicate()]) * 2).to_local().sum()


def test_a_distributed_tensor(mesh: Any) -> None:
    with pytest.raises(tg.UnknownFunction, match="DTensor, which is spread") as caught:
        tg.grad(lambda x: (x * x).sum(), spread(mesh))
    assert "to_local" in str(caught.value)
    with pytest.raises(tg.UnknownFunction, match="DTensor, which is spread"):
        tg.grad(lambda x: made(x, mesh), X)


def test_a_sharded_module(mesh: Any) -> None:
    from torch.distributed.fsdp import fully_shard
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    fully_shard(module)
    with pytest.raises(tg.ArgumentError, match=r"m\.0\.weight is a DTensor"):
        tg.grad(lambda m, x: m(x).sum(), module, X)


def test_a_module_that_is_the_same_in_all_processes(mesh: Any) -> None:
    inner = nn.Linear(3, 1)
    module = nn.parallel.DistributedDataParallel(inner)
    _, (_, gradients, _) = tg.grad(lambda m, x: m(x).pow(2).sum(), module, X)
    wanted = torch.autograd.grad(inner(X).pow(2).sum(), list(inner.parameters()))
    for name, dp in zip(["module.weight", "module.bias"], wanted):
        torch.testing.assert_close(gradients[name], dp)
