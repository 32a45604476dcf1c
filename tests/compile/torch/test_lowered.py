"""What a tape comes down to on torch is a tape: it prints, checks, plays, and the passes of all tapes take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.compile.torch.kernel import is_kernel
from tapegrad.compile.torch.tape_function import TapeOnTorch, eager
from tapegrad.errors import ArgumentError
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.optimise.dce import dce
from tapegrad.optimise.memory import root, written
from tests.cases.case import draw
from tests.harness.compare import alike as close
from tests.harness.on_torch import tensors

LAYERS = """\
layers: 2 inputs, 16 operations
 %1 = input layers                          function
 %2 = input x                               torch.float64[4,3]
 %3 = input w                               torch.float64[3,2]
 %4 = mm(%2, %3)                            torch.float64[4,2]
 %5 = tanh(%4)                              torch.float64[4,2]
 %6 = cat([%5, %4], 1)                      torch.float64[4,4]
 %7 = slice(%6, 0, 0, 3)                    torch.float64[3,4]
 %8 = select(%7, 1, 1)                      torch.float64[3]
 %9 = full([4], 0, dtype=torch.float64, device=device(type='cpu'), pin_memory=False)  torch.float64[4]
%10 = slice(%9, 0, 1, 9223372036854775807)  torch.float64[3]
%11 = copy_(%10, %8)
%12 = sum(%8, [0])                          torch.float64[]
%13 = gt(%12, 0)                            torch.bool[]
%14 = guard bool(%13) == True
%15 = mul(%9, %12)                          torch.float64[4]
%16 = pack(%15, into=*)                                         # result"""


def is_called(op: Any, name: str) -> bool:
    return is_kernel(op) and op.fn.__name__ == name


def layers(x: Any, w: Any) -> Any:
    h = x @ w
    y = np.concatenate([np.tanh(h), h], axis=1)[:3, 1]
    z = np.zeros(4)
    z[1:] = y
    return z * y.sum() if y.sum() > 0 else z


@pytest.mark.quick
def test_it_prints() -> None:
    lowered = tg.trace(layers, np.ones((4, 3)), np.ones((3, 2)))[1].lowered("torch")
    lines = [line.split("  test_lowered.py")[0].rstrip() for line in str(lowered).splitlines()]
    assert "\n".join(lines) == LAYERS


def carried(x: Any, n: float) -> Any:
    h, y = x, np.zeros(40)
    for i in range(40):
        h = np.tanh(h * 0.5 + n)
        y[i] = h[0] * i
    return np.sum(h) + np.sum(y)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layers": (layers, (np.ones((4, 3)), np.ones((3, 2)))), "a loop": (carried, (draw(5), 0.5)),
    "several results": (lambda x: (np.linalg.svd(x)[1], {"a": x.T, "b": (x[0], 3.0)}), (draw(3, 3),)),
    "on the host": (lambda x, n: np.sum(x[x > 0]) * float(round(n)), (draw(5), 2.0))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_a_tape(name: str) -> None:
    f, args = PROGRAMS[name]
    value, tape = tg.trace(f, *args)
    lowered = tape.lowered("torch")
    assert lowered.check() is lowered and len(lowered.inputs) == len(tape.inputs) and lowered.name == tape.name
    assert dce(lowered) is lowered
    for _ in range(2):
        close(lowered.play(*tensors(args)), value)
    for style in ("plain", "compact"):
        assert len(lowered.format(style).splitlines()) > len(lowered.inputs)


def test_loops_are_the_tapes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.roll, "__defaults__", (3, 0))
    args = draw(5), 0.5
    tape = tg.roll(tg.trace(carried, *args)[1])
    lowered = tape.lowered("torch")
    loops: list[Any] = [op for op in lowered if is_loop(op)]
    assert loops and all(type(op.fn) is Loop and len(op.fn.body) < 20 for op in loops)
    assert "hand on" in str(lowered) and lowered.check() is lowered
    for _ in range(2):
        close(lowered.play(*tensors(args)), carried(*args))


def test_what_writes_stays_with_what_lies_there() -> None:
    def f(x: Any) -> Any:
        y, z = np.zeros(3), np.zeros(3)
        y[1:] = x[1:]
        z[1:] = x[1:]
        return y * 2 + 0 * z[0]
    tape = tg.trace(f, np.ones(3))[1].lowered("torch")
    assert [root(op.args[0]) for op in tape if is_called(op, "copy_")] == [op for op in tape if op in written(tape)]
    one: Any = next(op for op in tape if is_called(op, "mul"))
    assert root(one) is one
    tape.result.args = (one,)
    left = dce(tape)
    assert len([op for op in left if is_called(op, "copy_")]) == 1
    close(left.play(torch.ones(3, dtype=torch.float64)), np.array([0.0, 2.0, 2.0]))


def test_what_follows_from_constants_is_one() -> None:
    a = draw(3, 3)

    def f(x: Any) -> Any:
        return x @ np.linalg.inv(a @ a.T + np.eye(3)), np.linalg.inv(a)
    tape = TapeOnTorch(tg.optimise(tg.trace(f, draw(3, 3))[1], []), None, eager)
    tape(draw(3, 3))
    lowered = tape.runs[0].lowered.tape  # type: ignore[attr-defined]
    assert not any(is_called(op, "matmul") and op.args[0].kind == "constant" for op in lowered)
    assert not any(is_called(op, "inv") for op in lowered)
    first, second = tape(a), tape(a)
    close(first, f(a))
    first[1].fill_(0.0)
    close(second, f(a))
    close(tape(a), f(a))


def test_what_it_refuses() -> None:
    tape = tg.trace(np.sin, np.ones(3))[1]
    with pytest.raises(ArgumentError, match="no backend"):
        tape.lowered("fortran")
    assert tape.lowered().play(np.zeros(3)).tolist() == [0.0] * 3
    lean = tg.optimise(tape)
    for op in lean:
        tg.tape.tape.drop(op)
    with pytest.raises(ArgumentError, match="no values"):
        lean.lowered("torch")


class Halved(torch.autograd.Function):
    """Half of its argument, in the same memory or not as `moves` says; it counts its calls."""

    calls, moves = 0, True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Halved.calls += 1
        return x / 2 if Halved.moves else x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy / 2


def halving(x: Any) -> Any:
    y = Halved.apply(torch.logcumsumexp(x, 0))
    return (y.reshape(2, 3) * torch.nn.functional.pad(x[None], (1, 1), mode="reflect")[0, 1:-1].reshape(2, 3)).sin().sum()


def test_what_follows_a_function_recorded_whole_is_written_out_and_its_pullback_does_not_call_it_again() -> None:
    x, step = torch.linspace(-1.0, 1.0, 6), tg.value_and_grad(halving, argnums=0, backend="torch", warmup=1)
    for turn in range(6):
        Halved.moves = turn < 4
        given = (x + 0.1 * turn).requires_grad_()
        (wanted,) = torch.autograd.grad(halving(given), given)
        Halved.calls = 0
        torch.testing.assert_close(step(given.detach())[1], wanted)
        assert turn not in (2, 3) or Halved.calls == 1
    assert step.stats.traces == 1 and step.stats.hits == 5
    source = tg.compile(tg.gradtape(halving, x), backend="torch").source
    assert ".sin()" in source or ".cos()" in source, source


class ByNumbers(torch.autograd.Function):
    """How its result lies in memory, and whether there is another, is up to the sign of a sum."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (2 * x.t().contiguous().t(), None) if x.sum() > 0 else (2 * x.contiguous(), x + 1)

    @staticmethod
    def backward(ctx: Any, dy: Any, dz: Any) -> Any:
        return 2 * dy if dz is None else 2 * dy + dz


def written_flat(x: Any) -> Any:
    y, _ = ByNumbers.apply(x)
    y.reshape(-1).mul_(3)
    return (y * y).sum()


@pytest.mark.parametrize("f", [
    lambda x: (x * x).sum() if x.is_contiguous() else x.sum(),
    lambda x: ((2 * x) ** 2).sum() if (2 * x).stride(0) == 4 else x.sum(),
    lambda x: (lambda y: (y * y).sum() if y.is_contiguous() else y.sum())(ByNumbers.apply(x)[0]),
    lambda x: (lambda y, z: y.sum() if z is None else (y * z).sum())(*ByNumbers.apply(x)),
    written_flat,
])
def test_a_program_that_goes_by_how_a_tensor_lies_in_memory_is_traced_anew_where_it_lies_otherwise(f: Any) -> None:
    step = tg.value_and_grad(f, argnums=0, backend="torch", warmup=1)
    x = torch.arange(1.0, 13.0).reshape(3, 4)
    for given in [x, x, x, -x, -x, -x, x.t().contiguous().t(), -x.t().contiguous().t(), x]:
        leaf = given.detach().requires_grad_()
        (wanted,) = torch.autograd.grad(f(leaf), leaf)
        torch.testing.assert_close(step(given)[1], wanted)
