"""What runs where there is a GPU, and is skipped elsewhere: the checks of bench/gpu.py in each mode, what a steady replay waits for, and a few cases compiled.

The tests of this room that take a `device` or `graphs` run there on the GPU as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from bench.on_gpu import checks
from bench.on_gpu.peers import PEERS, gradient_tape, replayed
from bench.on_gpu.sizes import SIZES, made
from tapegrad.compile.torch.cuda_graph import waiting_raises
from tests.cases import DISTINCT
from tests.cases.case import Case
from tests.cases.over import over
from tests.cases.replay import compiled

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")


@pytest.mark.parametrize("mode", checks.MODES)
@pytest.mark.parametrize("name", checks.CHECKS)
def test_checks(name: str, mode: str) -> None:
    assert not checks.run_check(name, "cuda", mode)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@over([pytest.param(case, id=case.name) for case in DISTINCT])
def test_cases(case: Case, mode: str) -> None:
    compiled(case, "float64", "cuda", mode)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("name", [name for name in SIZES if name != "gp"])  # which asks whether its matrix has a factor
def test_a_steady_replay_waits_for_nothing(name: str, mode: str) -> None:
    problem = made(name, small=True)
    run = tg.compile(gradient_tape(problem, "float64"), backend="torch", device="cuda", mode=mode)
    args, given = replayed(problem, "cuda", "float64")
    for _ in range(3):
        run(*args, **given)
    torch.cuda.synchronize()
    with waiting_raises():
        run(*args, **given)


@pytest.mark.parametrize("name", SIZES)
def test_a_replay_holds_no_more_memory_than_torch(name: str) -> None:
    problem = made(name, small=True)

    def peak(peer: str) -> Any:
        gradient = PEERS[peer](problem, "cuda", "float64")
        for _ in range(2):
            gradient.call()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        gradient.call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    try:
        assert peak("tapegrad eager") <= max(2 * peak("torch"), 1 << 20)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


def test_random_numbers_come_from_the_devices_own_generator() -> None:
    x = torch.ones(1000, device="cuda", dtype=torch.float64)
    step = tg.value_and_grad(lambda x: (torch.rand_like(x) * x).sum(), argnums=None, backend="torch")
    for _ in range(4):
        torch.cuda.manual_seed(3)
        expected = torch.rand_like(x)
        torch.cuda.manual_seed(3)
        np.testing.assert_allclose(step(x)[1][1].cpu().numpy(), expected.cpu().numpy())
