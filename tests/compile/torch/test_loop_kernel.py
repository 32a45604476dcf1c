"""A loop as one CUDA kernel: its text run by threads of the processor, and its place on the tape."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from bench.on_gpu.loops import ARGS, PROGRAMS, RUNS, recurrence, tape_of
from bench.on_gpu.stand_in import graphs
from tapegrad.compile.torch import loop_program
from tapegrad.compile.torch.loop_kernel import Text, Unwritten, loop_kernel
from tapegrad.compile.torch.tape_function import lowered
from tapegrad.ops.loop import Loop, is_loop
from tests.harness.cuda_threads import run


def loops_of(tape: tg.Tape) -> list[Any]:
    return [op for op in lowered(tape, torch.device("cpu")).ops if is_loop(op)]


def drawn(x: Any, generator: torch.Generator) -> Any:
    return (torch.rand(tuple(x.spec.shape or ()), generator=generator) + 0.2).to(x.spec.dtype)


def played(loop: Loop, args: list[Any]) -> list[torch.Tensor]:
    """Run a loop call by call, with sequences as one tensor."""
    _, given, listed, _ = loop.sizes
    args = [tuple(x.unbind()) if given <= i < given + listed else x.clone() for i, x in enumerate(args)]
    return [torch.stack(list(y)) if isinstance(y, tuple) else y for y in loop(*args)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_kernels_threads_compute_what_torch_does_and_do_not_race(f: Any, dtype: Any, tmp_path: Path) -> None:
    loops = loops_of(tape_of(f, dtype))
    assert loops
    for op in loops:
        _, given, listed, carried = op.fn.parts()
        generator = torch.Generator().manual_seed(0)
        args = [drawn(x, generator) for x in given]
        args += [torch.stack([drawn(x, generator) for _ in range(op.fn.count)]) for x in listed]
        args += [drawn(x, generator) for x in carried]
        tolerance = 1e-9 if dtype is np.float64 else 2e-3
        for found, expected in zip(run(Text(op.fn, 4), args, tmp_path), played(op.fn, args), strict=True):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


class OnHost:
    """Stands for a kernel where there is no GPU."""

    __name__ = "loop_kernel"
    launched = 0

    def __init__(self, loop: Loop) -> None:
        self.loop, self.text = loop, Text(loop)

    def __call__(self, *args: Any) -> tuple[torch.Tensor, ...]:
        OnHost.launched += 1
        _, given, listed, carried = self.loop.parts()
        every = {i: torch.zeros(self.loop.count) for i in range(len(given) + len(listed) + len(carried))}
        return tuple(played(self.loop, list((every | dict(zip(self.text.taken, args))).values())))


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_gradient_calls_its_kernels(f: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_program, "loop_kernel", lambda loop, device: OnHost(loop))
    OnHost.launched = 0
    with graphs():
        step = tg.compile(tape_of(f), backend="torch", device="cpu", mode=mode)
        for scale in (1.0, 0.9, 1.1):
            args = [torch.tensor(x * scale) for x in ARGS]
            value, (_, *gradients) = step(*args)
            expected, (_, *wanted) = tg.grad(f, *[x * scale for x in ARGS])
            for a, b in zip((value, *gradients), (expected, *wanted), strict=True):
                np.testing.assert_allclose(a, b, 1e-9, 1e-9)
    assert OnHost.launched >= 6  # forth and back, in each call


def large(x: Any, w: Any) -> Any:
    y = np.zeros((200, 200)) + x[0]
    for _ in range(RUNS):
        y = np.tanh(y @ y * 1e-3)
    return np.sum(y)


def complex_numbers(x: Any, w: Any) -> Any:
    y = x * 1j
    for _ in range(RUNS):
        y = y * np.exp(1j * x)
    return np.sum(y.real)


@pytest.mark.parametrize("f", [large, complex_numbers])
def test_what_no_block_can_compute_or_should_is_left_to_torch(f: Any) -> None:
    for op in loops_of(tape_of(f)):
        with pytest.raises(Unwritten):
            Text(op.fn)


def test_there_is_no_kernel_without_a_gpu() -> None:
    assert loop_kernel(loops_of(tape_of(recurrence))[0].fn, torch.device("cpu")) is None
