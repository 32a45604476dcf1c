"""A loop as one CUDA kernel: its text run by threads of the processor, and its place on the tape."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from bench.on_gpu import loops
from bench.on_gpu.loops import ARGS, PROGRAMS, recurrence, tape_of
from bench.on_gpu.stand_in import graphs
from tapegrad.compile.torch import loop_program
from tapegrad.compile.torch.kernel import call_of, mapped, without
from tapegrad.compile.torch.loop_kernel import Text, Unwritten, loop_kernel
from tapegrad.compile.torch.tape_function import lowered
from tapegrad.ops import add, multiply, pack
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.tape.tape import Call, Input, Operation, Tape
from tests.harness.cuda_threads import run

aten = torch.ops.aten
RUNS = 100  # a quarter of those on a GPU


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "RUNS", RUNS)


compiled = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")


def loops_of(tape: tg.Tape) -> list[Any]:
    return [op for op in lowered(tape, torch.device("cpu")).ops if is_loop(op)]


def drawn(x: Any, generator: torch.Generator) -> Any:
    return (torch.rand(tuple(x.spec.shape or ()), generator=generator) + 0.2).to(x.spec.dtype)


def played(loop: Loop, args: list[Any]) -> list[torch.Tensor]:
    """Run a loop call by call, with sequences as one tensor."""
    _, given, listed, _ = loop.sizes
    args = [tuple(x.unbind()) if given <= i < given + listed else x.clone() for i, x in enumerate(args)]
    return [torch.stack(list(y)) if isinstance(y, tuple) else y for y in loop(*args)]


@compiled
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


def loop_of(body: Callable[..., Any], *carried: torch.Tensor, steps: Any = ()) -> Loop:
    """Make a loop of which `body(call, *steps, *carried)` puts the calls on a tape, and returns what a run hands on and
    collects.
    """
    tape, values = Tape(), dict[Any, Any]()

    def put(op: Operation, value: Any) -> Operation:
        values[tape.push(op)] = value
        return op

    def call(fn: Callable[..., Any], *args: Any, writes: Any = (), inside: bool = False, **options: Any) -> Operation:
        y = fn(*mapped(args, lambda x: values[x] if isinstance(x, Operation) else x), **options)
        return put(call_of(fn, args, options, inside=inside, writes=writes, val=without(y)), y)
    parts = body(call, *[put(Input(without(x[0])), x[0]) for x in steps],
                 *[put(Input(without(x)), x.clone()) for x in carried])
    tape.result = tape.push(Call(pack, parts, val=None))
    return Loop(tape, 3, steps, 0, 0, len(carried))


def part_written(call: Any, x: Any) -> Any:
    y = call(aten.mul.Tensor, x, 2.0)
    part = call(aten.slice.Tensor, x, 0, 1, 40)
    call(aten.mul_.Tensor, part, 0.5, writes=[part])
    return x, y


def bias_handed_on(call: Any, b: Any, x: Any) -> Any:
    return call(aten.mul.Tensor, b, 0.5), call(aten.addmm.default, b, x, x)


def roots(call: Any, x: Any) -> Any:
    return x, call(aten.pow.Tensor_Scalar, x, 0.5), call(aten.pow.Tensor_Scalar, x, -0.5)


def without_axes(call: Any, x: Any) -> Any:
    y = call(aten.squeeze.dim, call(aten.flip.default, call(aten.transpose.int, x, 0, -1), [-1]), 0)
    return call(aten.sum.dim_IntList, y, [0]), call(aten.amax.default, x, [-1], True)


def joined_to_nothing(call: Any, x: Any) -> Any:
    return x, call(aten.cat.default, [call(aten.new_zeros.default, x, [0]), x], 1)


def numbers(call: Any, k: Any, c: Any, x: Any) -> Any:
    factor = call(multiply, call(add, k, 1, inside=True), c, inside=True)  # of float64, beside a tensor of another type
    return call(aten.mul.Tensor, x, factor), call(aten.lt.Scalar, x, factor), call(aten.mul.Tensor, call(aten.cos.default, x), c)


SQUARE = torch.linspace(-0.5, 0.5, 25, dtype=torch.float64).reshape(5, 5)
STEPS = (0, 1, 2), (1 / 3, -0.7, 1e-9)
BODIES = [(part_written, (), torch.linspace(1, 2, 40)), (bias_handed_on, (), SQUARE[0], SQUARE),
          (without_axes, (), SQUARE[1, 2]), (roots, (), torch.tensor([2.0, -0.0, float("-inf"), float("nan")])),
          (joined_to_nothing, (), SQUARE), (numbers, STEPS, SQUARE)]


@compiled
@pytest.mark.parametrize(("body", "steps", "args"), [(body, steps, args) for body, steps, *args in BODIES])
def test_the_calls_of_a_body(body: Any, steps: Any, args: Any, tmp_path: Path) -> None:
    loop = loop_of(body, *args, steps=steps)
    for found, expected in zip(run(Text(loop, 4), args, tmp_path), played(loop, args), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12 if found.dtype is torch.float64 else 1e-6, atol=0, equal_nan=True)


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


def linear(x: Any, w: Any) -> Any:
    y = x
    for i in range(4 * RUNS):  # nothing that flows back depends on an argument, and a body so short is called else
        y = y / (i + 1) + x * i
    return np.sum(y)


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("f", [*PROGRAMS, linear])
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


def integers_and_fractions(x: Any, w: Any) -> Any:
    n, y = (x * 9).astype(int), np.zeros(5)
    for i in range(RUNS):  # the product is of float64 in NumPy, and of float32 in torch
        y = np.sin(y + (n - i) * (i * 0.1))
    return np.sum(y)


@pytest.mark.parametrize("f", [large, complex_numbers, integers_and_fractions])
def test_what_no_block_can_compute_or_should_is_left_to_torch(f: Any) -> None:
    for op in loops_of(tape_of(f)):
        with pytest.raises(Unwritten):
            Text(op.fn)


REFUSED = [(aten.bitwise_or.Scalar, (SQUARE > 0, 2), {}), (aten.add.Tensor, (SQUARE > 0, SQUARE < 0), {"alpha": -1}),
           (aten.view.dtype, (SQUARE, torch.int64), {}), (aten.addmm.default, (SQUARE, SQUARE, SQUARE), {"alpha": 2}),
           (aten.mul.Tensor, (SQUARE, -1 << 63), {}), (aten.add_.Tensor, (SQUARE.float(), SQUARE), {})]


@pytest.mark.parametrize(("fn", "args", "options"), REFUSED)
def test_what_c_would_compute_otherwise_is_left_to_torch(fn: Any, args: Any, options: Any) -> None:
    tensors = [x for x in args if isinstance(x, torch.Tensor)]

    def body(call: Any, *xs: Any) -> Any:
        return *xs, call(fn, *xs, *args[len(xs):], writes=xs[:fn._schema.is_mutable], **options)
    with pytest.raises(Unwritten):
        Text(loop_of(body, *tensors))


def test_there_is_no_kernel_without_a_gpu() -> None:
    assert loop_kernel(loops_of(tape_of(recurrence))[0].fn, torch.device("cpu")) is None


def test_a_kernel_takes_nothing_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[Any]()
    monkeypatch.setattr(torch.cuda, "_compile_kernel", lambda *args: compiled.append(args), raising=False)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    assert loop_kernel(loop_of(roots, SQUARE), torch.device("cuda")) is None and not compiled
