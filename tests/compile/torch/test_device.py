"""Programs compiled for a device that is not there: each intermediate lies there, and a steady replay waits for nothing but what the program asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tapegrad as tg
from bench.on_gpu import checks, loops, run
from bench.on_gpu.account import counted, planned, profiled
from bench.on_gpu.peers import gradient_tape, placed, replayed
from bench.on_gpu.sizes import SIZES, made
from bench.on_gpu.stand_in import graphs, recorded
from bench.on_gpu.virtual import DEVICE, Generator, Log, device, put
from tapegrad.errors import ArgumentError
from tests.cases.case import draw
from tests.harness.compare import alike
from tests.harness.on_device import agree, compiled_there, steady, there

# -- the device itself


def test_it_says_what_a_device_is_asked() -> None:
    with device() as log:
        x = put(torch.arange(6.0))
        log.events.clear()
        assert x.device == DEVICE and (x * 2).device == DEVICE and torch.zeros(2, device=DEVICE).device == DEVICE
        y = x[1:].exp().sum()
        assert float(y) == pytest.approx(np.exp(np.arange(1.0, 6.0)).sum())
        x.cpu()
        torch.ones(2).to(DEVICE)
        torch.ones(2) + 1
        x[x > 2]
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        with pytest.raises(TypeError, match="can't convert"):
            np.asarray(x)
    assert [event.kind for event in log.events] == ["launch", "launch", "view", "launch", "launch", "read", "read", "host", "upload", "host", "host", "launch", "read", "read"]
    with device() as log:
        put(torch.ones(2)) + torch.ones(2)
    assert log.names("mixed") == {"add": 1}


# -- NumPy programs, in NumPy's spelling


def filled(x: Any) -> Any:
    y = np.zeros(x.shape)
    y[1:] = x[:-1] * 2
    y[0] = x.sum(0)
    for i in range(3):
        y[i] = y[i] + np.sin(x[2 - i])
    y[y > 1.0] = 0.5
    y[:, [0, 2]] *= x[:, 1:3]
    return np.sum(y * y)


def named(x: Any) -> Any:
    y = np.exp(x)
    y[np.argmax(x[:, 0]), 1] = 2.0
    return y[np.argmax(x[:, 1]), np.argmin(x[0])] * np.sum(y) + x[MASK].sum()


def of_numbers(x: Any, v: float) -> Any:
    return np.sum(np.full((3, 4), v) * x + np.stack([v, 2 * v, 1.0, v]) + np.broadcast_to(v, (3, 4)))


def divided(x: Any) -> Any:
    i = np.arange(12).reshape(3, 4)
    return np.sum(x * (i // 5) + x[i % 3, i % 4] + np.sinc(x) + np.digitize(x, [-1.0, 0.0, 1.0]))


MASK = np.tri(3, 4) > 0
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "in place": (filled, (draw(3, 4),)), "places that numbers name": (named, (draw(3, 4),)), "arrays of numbers": (of_numbers, (draw(3, 4), 1.5)),
    "integers": (divided, (draw(3, 4),)), "sorted": (lambda x: np.sum(np.sort(x, 0)[1] * np.median(x) + x[np.lexsort((x[:, 0], x[:, 1]))]), (draw(3, 4),)),
    "a loop": (lambda x: np.sum(np.cumsum(x, 0) ** 2), (draw(30, 2),))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, args = PROGRAMS[name]
    tape = tg.flatgrad(tg.roll(tg.trace(f, *args)[1]))
    log = compiled_there(tape, args, lambda event: event.call == "float")  # the gradient by a number is one
    assert log.count("launch") > 0
    logs: list[Log] = []
    with graphs(recorded(logs)):
        found, _ = steady(tg.compile(tape, backend="torch", device=DEVICE, mode="graph"), there(args))
    agree(found, tape.play(*args))
    assert len(logs) == 1


def test_what_a_program_asks_for_is_named_with_its_line() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x)
        if y.sum() > 0:
            y = y[y > 1]
        return y.sum()
    tape = tg.gradtape(f, draw(5))
    _, log = steady(tg.compile(tape, backend="torch"), there((draw(5),)))
    lines = {(event.call, event.line.partition("  ")[2]) for event in log.of("read")}
    assert lines == {("if", "if y.sum() > 0:"), ("getitem_masked", "y = y[y > 1]"), ("scatter", "y = np.exp(x)")}  # the last is the gradient's


def test_numbers_that_the_host_draws_are_copied_and_no_others() -> None:
    rng = np.random.default_rng(0)
    tape = tg.trace(lambda x: np.sum(x * rng.normal(size=4)), draw(4))[1]
    found, log = steady(tg.compile(tape, backend="torch"), there((draw(4),)), 3)
    assert found.device == DEVICE and log.count("upload") == 1 and not log.count("read", "mixed")


def test_a_function_with_arrays_and_tensors() -> None:
    step = tg.value_and_grad(filled, argnums=None, backend="torch", device=DEVICE)
    x = draw(3, 4)
    with device() as log:
        for given in (x, x, x, put(torch.tensor(x)), put(torch.tensor(x))):
            log.events.clear()
            found = step(given)
            agree(found, tg.grad(filled, x))
            log.events[:] = [event for event in log.events if event.call]
    assert not log.count("mixed", "host", "upload", "read")


# -- torch's spelling


def layers() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    torch.manual_seed(0)
    return {"mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)), (torch.randn(3, 4),)),
            "convolutions": (nn.Sequential(nn.Conv1d(4, 8, 2), nn.BatchNorm1d(8).eval(), nn.GELU(), nn.MaxPool1d(2)), (torch.randn(2, 4, 7),)),
            "attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (torch.randn(2, 5, 8),)),
            "recurrent": (nn.GRUCell(4, 5), (torch.randn(2, 4),)), "embedding": (nn.Embedding(5, 4), (torch.randint(0, 5, (3, 6)),))}


@pytest.mark.parametrize("name", layers())
def test_modules(name: str) -> None:
    module, args = layers()[name]
    placed(module, "cpu", "float64")
    module, args = module.double(), tuple(x.double() if x.is_floating_point() else x for x in args)

    def loss(module: Any, *args: Any) -> Any:
        return module(*args).square().mean()
    expected = tg.grad(loss, module, *args)
    tape = tg.gradtape(loss, module, *args)
    with device():
        moved = placed(module, str(DEVICE), "float64")
        for part in moved.modules():
            for key, x in part._buffers.items():
                part._buffers[key] = None if x is None else put(x)
    found, log = steady(tg.compile(tape, backend="torch"), (moved, *map(put, args)))
    assert not log.of("mixed", "host", "upload", "read")
    for a, b in zip(tg.tree.leaves(found), tg.tree.leaves(expected), strict=True):
        if b is not None:
            assert a.device == DEVICE
            torch.testing.assert_close(torch.as_tensor(a.detach().cpu().numpy()), b.detach())


def written(x: Any) -> Any:
    y = torch.zeros(3, 4, dtype=x.dtype)
    y[1:] = x[:-1] * 2
    y[0] = x.sum(0)
    y *= torch.arange(4.0, dtype=x.dtype)
    return (y.clamp(max=3.0) ** 2).sum() + torch.where(x > 0, x, 0).sum()


def test_torch_code_that_writes_and_makes_tensors() -> None:
    x = torch.tensor(draw(3, 4))
    tape = tg.gradtape(written, x)
    found, log = steady(tg.compile(tape, backend="torch"), (put(x),))
    assert not log.of("mixed", "host", "upload", "read")
    alike((found[0].cpu().numpy(), found[1][1].cpu().numpy()), (tape.play(x)[0].numpy(), tape.play(x)[1][1].numpy()))


OWN = Generator()
DRAWN: dict[str, Any] = {
    "rand": lambda x: (x * torch.rand(x.shape, generator=OWN, device=x.device, dtype=x.dtype)).sum(),
    "bernoulli": lambda x: (x * torch.bernoulli(x.abs().clamp(max=1.0), generator=OWN)).sum(),
    "normal_": lambda x: (x * torch.empty_like(x).normal_(generator=OWN)).sum()}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_those_of_a_generator_of_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "Generator", Generator)
    x = put(torch.tensor(draw(3, 4)))
    with device() as log:
        run = tg.compile(tg.gradtape(DRAWN[name], x), backend="torch", device=DEVICE)
        run(x)
        OWN.manual_seed(1)
        log.events.clear()
        found = [run(x)[0] for _ in range(3)]
        assert not log.of("mixed", "host", "upload", "read")
        OWN.manual_seed(1)
        assert list(map(float, found)) == pytest.approx([float(DRAWN[name](x)) for _ in range(3)])
        with pytest.raises(RuntimeError, match="Expected a 'meta' device type for generator"):
            torch.bernoulli(x.abs(), generator=Generator("cpu"))


@pytest.mark.parametrize("name, f", [("dropout", nn.functional.dropout), ("a copy", lambda x: x * torch.empty_like(x).uniform_())])
def test_draws_of_a_tape_that_was_recorded_on_the_host(name: str, f: Any) -> None:
    tape = tg.gradtape(lambda x: (f(x) ** 2).sum(), torch.tensor(draw(3, 4)))
    run, x = tg.compile(tape, backend="torch", device=DEVICE), there((torch.tensor(draw(3, 4)),))
    first, log = steady(run, x)
    assert not log.of("mixed", "host", "upload", "read")  # the state of the generator stays on the host
    second, _ = steady(run, x)
    assert first[0].cpu() != second[0].cpu()


# -- torch's own device without numbers, and its fake tensors


@pytest.mark.parametrize("name", [name for name in SIZES if name != "transformer"])
def test_problems_without_numbers(name: str) -> None:
    problem = made(name, small=True)
    tape = gradient_tape(problem, "float32")
    args, given = replayed(problem, "cpu", "float32")
    fast = tg.compile(tape, backend="torch", device="meta")
    there = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in args]
    also = {key: x.to("meta") if isinstance(x, torch.Tensor) else x for key, x in given.items()}
    for _ in range(2):
        for a, b in zip(tg.tree.leaves(fast(*there, **also)), tg.tree.leaves(tape.play(*args, **given)), strict=True):
            assert (a is None and b is None) or (a.is_meta and a.dtype == b.dtype and a.shape == b.shape)


# -- what a CUDA graph may hold


def test_a_graph_has_one_address_for_each_input_and_memory_of_its_own() -> None:
    seen: list[tuple[list[int], list[Any]]] = []

    def capture(body: Any, buffers: list[Any]) -> Any:
        parts = body(*buffers)
        seen.append(([x.data_ptr() for x in buffers], parts))

        def replay() -> None:
            assert [x.data_ptr() for x in buffers] == seen[0][0]
            for part, found in zip(parts, body(*buffers)):
                part.copy_(found)
        return replay, parts
    x = draw(3, 4)
    tape = tg.gradtape(filled, x)
    with graphs(capture):
        fast = tg.compile(tape, backend="torch", mode="graph")
        results = []
        for scale in (1.0, 2.0, 3.0):
            given = torch.tensor(x * scale)
            results.append(fast(given))
            assert given.data_ptr() not in seen[0][0] if seen else True
            alike(results[-1], tg.grad(filled, x * scale))
    kept = {part.data_ptr() for part in seen[0][1]}
    for value, (_, dx) in results[1:]:
        assert value.data_ptr() not in kept and dx.data_ptr() not in kept  # the caller's own, not the graph's


def test_what_a_graph_cannot_hold_is_refused() -> None:
    with graphs(recorded([])), device():
        fast = tg.compile(tg.trace(np.linalg.eigvalsh, np.eye(3))[1], backend="torch", device=DEVICE, mode="graph")
        with pytest.raises(ArgumentError, match="cannot be captured"):
            fast(put(torch.eye(3, dtype=torch.float64)))


@pytest.mark.parametrize("name", SIZES)
def test_the_memory_that_a_program_holds_is_what_its_tape_says(name: str) -> None:
    problem = made(name, small=True)
    with device():
        args, given = replayed(problem, str(DEVICE), "float64")
        fast = tg.compile(gradient_tape(problem, "float64"), backend="torch", device=DEVICE)
        fast(*args, **given)
    size = planned(fast.runs[0].lowered.tape)  # type: ignore[attr-defined]
    found = profiled(fast, args, given)
    assert found == pytest.approx(size, rel=0.1, abs=64)


def test_counts_of_a_problem() -> None:
    counts = counted(made("mlp 256", small=True), "float64")
    assert counts.launches > 20 and not counts.reads and not counts.uploads
    assert counts.eager == pytest.approx(counts.launches * 4e-6) and counts.graph == pytest.approx(counts.launches * 0.8e-6)


# -- bench/gpu.py


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_checks(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "RUNS", 100)
    with graphs():
        assert not {name: why for name in checks.CHECKS if (why := checks.run_check(name, "cpu", mode))}


def test_a_run_on_the_cpu_and_on_the_device_that_is_not_there(tmp_path: Path) -> None:
    for where, peers, precisions in (("cpu", ["torch", "tapegrad graph"], ["float32"]), ("meta", ["tapegrad eager"], ["float64", "float32"])):
        out = tmp_path / where
        options = ["gp", "--small", "--device", where, "--out", str(out), "--processes", "2", "--parts", "problems", "--peers", *peers, "--precisions", *precisions]
        assert run.main(options) == 0
        found = json.loads((out / "gpu.json").read_text())
        assert len(found["rows"]) == len(precisions) * len(peers) and all(row["seconds"] and not row["missing"] for row in found["rows"])
        assert "gp, float32" in (out / "gpu.txt").read_text()
    assert found["counts"][0]["launches"] > 10


def test_a_run_needs_a_device(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run.main(["--out", str(tmp_path)]) == 2
    assert "--device cpu" in capsys.readouterr().out
    monkeypatch.setattr(run, "NEEDED", ("numpy", "no_such_package"))
    assert run.main(["--out", str(tmp_path), "--device", "cpu"]) == 2
    assert "no_such_package" in capsys.readouterr().out


def test_a_process_that_ends_is_a_missing_row(tmp_path: Path) -> None:
    process = run.Process(["no such problem", "torch", "--device", "cpu"], tmp_path)
    assert "KeyError" in process.answer(100.0)["missing"]
    assert "ended" in process.answer(10.0)["missing"]
    process.stop()
