"""Tensors and modules that are spread over processes, in one process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tapegrad as tg
from tapegrad.tree.copies import running

dist = torch.distributed
pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch was built without gloo")
X, Y = torch.randn(4, 3), torch.tensor(0.5)


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
    x = spread(mesh)
    value, (_, dx) = tg.grad(lambda x: (x * x).sum(), x)
    assert type(dx) is type(x) is type(value) and dx.placements == x.placements
    torch.testing.assert_close(dx.full_tensor(), 2 * X)
    torch.testing.assert_close(tg.gradient(lambda x: made(x, mesh), X)[0], torch.full_like(X, 2))
    torch.testing.assert_close(tg.gradient(lambda y: (x * y).sum(), x)[0].full_tensor(), X)  # beside a constant
    torch.testing.assert_close(tg.gradient(lambda y: y.detach().sum() + x.sum(), x)[0].full_tensor(), 0 * X)
    torch.testing.assert_close(tg.gradient(lambda x: (tg.gradient(lambda x: (x ** 3).sum(), x)[0] ** 2).sum(), x)[0].full_tensor(), 36 * X ** 3)
    torch.testing.assert_close(tg.jvp(lambda x: x.sin(), (x,), (x,))[1].full_tensor(), X.cos() * X)
    value, (dx, dscale) = tg.value_and_grad(lambda x, scale: (x * scale * Y).sum(), (0, 1))(x, 2.0)
    assert isinstance(dscale, float) and abs(dscale - float((X * Y).sum())) < 1e-5 and dx.placements == x.placements
    scale = torch.tensor(2.0)
    assert type(tg.gradient(lambda s: (x * s).sum(), scale)[0]) is torch.Tensor  # as the argument is
    torch.testing.assert_close(tg.gradient(lambda x: np.sum(np.sin(x)), x)[0].full_tensor(), X.cos())
    with pytest.raises(tg.UnknownFunction, match=r"mul_ of a DTensor cannot be recorded: torch may lose a write into one"):
        tg.grad(lambda x: (x * 1).mul_(2).sum(), x)


def summed(x: Any, mesh: Any) -> Any:
    from torch.distributed.tensor import DTensor, Partial, Replicate
    return DTensor.from_local(2 * x, mesh, [Partial()]).redistribute(placements=[Replicate()]).to_local().sum()


@pytest.mark.parametrize("f", [made, summed])
def test_what_computes_with_distributed_tensors_is_traced_in_each_call(mesh: Any, f: Any) -> None:
    for warmup in (None, 1):
        step = tg.value_and_grad(lambda x: f(x, mesh), warmup=warmup)
        with pytest.warns(tg.RetraceWarning, match="it computes with a DTensor, and other processes may wait for it"):
            for _ in range(4):
                torch.testing.assert_close(step(X)[1], torch.full_like(X, 2))
        assert not step.stats.hits


def test_a_sharded_module(mesh: Any) -> None:
    from torch.distributed.fsdp import fully_shard
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    fully_shard(module)
    with pytest.raises(tg.ArgumentError, match=r"m is sharded by torch\.distributed\.fsdp"):
        tg.grad(lambda m, x: m(x).sum(), module, X)


def test_a_module_that_is_the_same_in_all_processes(mesh: Any) -> None:
    inner = nn.Linear(3, 1)
    module = nn.parallel.DistributedDataParallel(inner)
    _, (_, gradients, _) = tg.grad(lambda m, x: m(x).pow(2).sum(), module, X)
    wanted = torch.autograd.grad(inner(X).pow(2).sum(), list(inner.parameters()))
    for name, dp in zip(["module.weight", "module.bias"], wanted):
        torch.testing.assert_close(gradients[name], dp)


def exchanging(x: Any) -> Any:
    y, z = x.sin(), x.cos()
    dist.all_reduce(y)
    dist.all_reduce(z)
    dist.all_reduce(y)
    out = torch.empty_like(y)
    dist.all_gather_into_tensor(out, y)
    return (out * out).sum()


@pytest.mark.parametrize("warmup", [None, 1])
def test_each_collective_is_called_once_in_each_call(mesh: Any, warmup: int | None) -> None:
    """Traced, observed, compiling and compiled: four forward, and four in the sweep, of zeros for the second: another
    rank might use what it returns."""
    step = tg.value_and_grad(exchanging, warmup=warmup)
    for i in range(6):
        before = running.exchanged
        step(X + i)
        assert running.exchanged - before == 8, i
    assert step.stats.hits >= 4


def test_a_tape_with_collectives(mesh: Any, tmp_path: Path) -> None:
    value, tape = tg.trace(exchanging, X)
    tape.save(tmp_path / "f.tape")
    for again in (tape, tg.load(tmp_path / "f.tape")):
        torch.testing.assert_close(again.play(X), value)
    assert str(tape).count("all_reduce") == 3
    with pytest.raises(tg.UnknownFunction, match=r"all_reduce of a ndarray(?s:.*)tg\.distributed"):
        tg.grad(lambda x: dist.all_reduce(x), X.numpy())


def outside(x: Any) -> Any:
    dist.all_reduce(COUNT)
    return x.sum()


def waiting(x: Any) -> Any:
    dist.barrier()
    return x.sum()


COUNT = torch.ones(1)


@pytest.mark.parametrize("f", [outside, waiting])
def test_a_collective_of_nothing_traced_is_called_in_each_call(mesh: Any, f: Any) -> None:
    step = tg.value_and_grad(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            step(X)
    assert step.stats.hits == 0 and any("while other processes wait for it" in str(each.message) for each in caught)
