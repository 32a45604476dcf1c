"""Every problem of the bench, in each form, on a device that is not there: what a call asks the host for, and what is inside a CUDA graph and outside."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import tapegrad as tg
from bench.on_gpu.peers import gradient_tape, replayed
from bench.on_gpu.stand_in import Memory, Region, graphs, held, recorded, storage, storages
from bench.on_gpu.virtual import DEVICE, Log, device
from bench.problems import ALL
from tapegrad.tape.tape import Constant
from tests.compile.torch.test_compile import SMALL

TINY = {**SMALL, "recurrence": {"iterations": 4}, "lstm": {"layers": 1, "characters": 4, "bits": 3}, "rk4": {"steps": 2}, "filling": {"n": 5},
        "transformer": {"batch": 2, "length": 5, "width": 8, "heads": 2, "vocabulary": 7}}
CAPTURED = {"lstm": 2, "gmm": 1, "ba": 3}
"""The arrays in a closure or an object, which each call copies to the device: the program may have written to them."""


@pytest.mark.parametrize("name", ALL)
def test_problems(name: str) -> None:
    kind, _, form = name.partition(" ")
    precision = "float32" if kind.endswith("32") else "float64"
    problem = ALL[name].made(**TINY[kind.removesuffix("32")])
    tape = gradient_tape(problem, precision)
    torchs, also = replayed(problem, "cpu", precision)
    expected = tg.tree.leaves(tape.play(*torchs, **also))
    uploads = ["upload"] * (CAPTURED.get(kind, 0) if form in ("(closure)", "(method)") else 0)
    numbers = ["read"] * (kind == "gmm" and bool(uploads))  # the gradient by the number `gamma` is a number

    def agree(found: object) -> None:
        for a, b in zip(tg.tree.leaves(found), expected, strict=True):
            if not isinstance(b, torch.Tensor):
                assert type(a) is type(b) and a == pytest.approx(b)
                continue
            assert a.device == DEVICE and a.dtype == b.dtype
            torch.testing.assert_close(torch.as_tensor(a.cpu().numpy()), b.detach(), rtol=1e-9 if precision == "float64" else 1e-4, atol=1e-6 if precision == "float32" else 1e-9)

    logs: list[Log] = []
    regions: list[Region] = []
    with device() as log:
        args, given = replayed(problem, str(DEVICE), precision)
        fast = tg.compile(tape, backend="torch", device=DEVICE)
        for _ in range(2):
            log.events.clear()
            found = fast(*args, **given)
        factors = ["read"] * (kind == "gp")  # whether the matrix has one
        assert sorted(event.kind for event in log.of("mixed", "host", "upload", "read")) == sorted([*uploads, *numbers, *factors])
        agree(found)

        with graphs(recorded(logs)):  # which refuses what no graph can hold
            tg.compile(tape, backend="torch", device=DEVICE, mode="graph")(*args, **given)
        assert len(logs) == 1 and logs[0].count("launch") > 0

        with graphs(held(regions)):
            fast = tg.compile(tape, backend="torch", device=DEVICE, mode="graph")
            fast(*args, **given)
            log.events.clear()
            with Memory() as outside:
                found = fast(*args, **given)
        asked = [event.kind for event in log.of("mixed", "host", "upload", "read")]
        launches = log.names("launch")
        agree(found)

    region, = regions
    inputs, results = storages(region.inputs), storages(region.results)
    constants = {storage(op.val) for op in fast.runs[0].lowered.tape.ops if type(op) is Constant and isinstance(op.val, torch.Tensor)}  # type: ignore[attr-defined]
    # inside: memory is the graph's own, an input, or a constant that nothing writes to
    assert region.memory.taken <= inputs | constants and not region.memory.written & constants
    assert all(x.device == DEVICE for x in region.memory.made.values())
    assert len(inputs) == len(region.inputs) and [x.data_ptr() for x in region.inputs] == region.addresses
    # outside: each input is written into its place, each result copied, the flags of guards and failures read at once
    filled = sum(isinstance(x, float) for x in problem.given.values())  # recorded as NumPy's numbers, of which the device fills in a tensor
    assert launches == Counter({"copy_": len(region.inputs), "clone": len(region.results), "full": filled})
    assert sorted(asked) == sorted([*uploads, *numbers, *factors]) and outside.written <= inputs
    assert not storages(tg.tree.leaves(found)) & (inputs | results | constants | region.memory.made.keys())


def test_a_capture_tells_memory_that_is_not_its_own() -> None:
    apart, x = torch.zeros(3), torch.ones(3)
    regions: list[Region] = []
    held(regions)(lambda x: [apart.add_(x * 2)], [x])
    memory = regions[0].memory
    assert memory.taken == {storage(apart), storage(x)} and memory.written == {storage(apart)} and len(memory.made) == 1
