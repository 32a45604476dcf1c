"""Graph mode, Inductor and torch.fx: programs that run all at once, and tapes exchanged with torch.fx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from bench.problems import PROBLEMS
from tapegrad.errors import ArgumentError, GuardError
from tapegrad.replay.torch import backend
from tapegrad.replay.torch.graph import replaying
from tests.cases.case import draw
from tests.test_torch_compile import SMALL, close, tensors

CUDA = torch.cuda.is_available()


def repeated(body: Callable[..., list[Any]], buffers: list[Any]) -> tuple[Callable[[], None], list[Any]]:
    """Stand for a CUDA graph on the CPU: compute the same again, from the same buffers into the same tensors."""
    parts = body(*buffers)

    def replay() -> None:
        for part, found in zip(parts, body(*buffers)):
            part.copy_(found)
    return replay, parts


@pytest.fixture(params=["stand-in", *(["cuda"] if CUDA else [])])
def graphs(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Graph mode, on the CPU with a stand-in for CUDA's graphs."""
    if request.param == "cuda":
        return "cuda"
    monkeypatch.setitem(backend.MODES, "graph", lambda program, leaves: replaying(program, leaves, repeated))
    monkeypatch.setattr(backend, "graph_device", lambda device: device)
    return "cpu"


def compiled(make: Any, f: Any, mode: str, device: str) -> Any:
    return make(f, backend="torch", mode=mode, **({"device": device} if device == "cuda" else {}))


def branches(x: Any, n: float) -> Any:
    y = np.exp(x * n)
    if y.sum() > 3:
        y = np.sin(y)
    k = int(np.round(x[0]))
    z = np.zeros(3)
    z[1:] = y[:-1]
    return z.sum() * (k + 2) + y.sum()


def many_calls(step: Any, f: Any) -> None:
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=3)
        for n in (2.0, -1.0):
            for given in (x, torch.tensor(x), x):
                close(step(given, n), tg.grad(f, x, n))


def test_graphs(graphs: str) -> None:
    step = compiled(tg.value_and_grad, branches, "graph", graphs)
    many_calls(step, branches)
    assert step.stats.hits > step.stats.traces and step.stats.misses > 0


def test_a_number_is_fixed_in_a_graph(graphs: str) -> None:
    fast = compiled(tg.compile, lambda x, n: x * n, "graph", graphs)
    for n in range(30):
        for _ in range(2):
            assert fast(np.ones(2), float(n)).tolist() == [float(n)] * 2
    assert fast.stats.traces == 1 and len(fast._entries[2][0].run.runs) <= 8


def test_results_of_graphs_are_the_callers(graphs: str) -> None:
    fast = compiled(tg.compile, lambda x: (x * 2, x.sum(), x), "graph", graphs)
    first = fast(np.ones(3))
    second, third = fast(np.ones(3)), fast(np.full(3, 5.0))
    assert second[0].tolist() == first[0].tolist() == [2.0] * 3 and third[0].tolist() == [10.0] * 3 and third[2].tolist() == [5.0] * 3
    third[0].fill_(0.0)
    assert fast(np.full(3, 5.0))[0].tolist() == [10.0] * 3


@pytest.mark.parametrize("name", ["mlp", "gmm", "lstm", "gp", "recurrence", "tr_mul", "elementwise", "filling"])
def test_problems_as_graphs(name: str, graphs: str) -> None:
    problem = PROBLEMS[name].made(**{key: n for key, n in SMALL[name].items() if key in PROBLEMS[name].default})
    step = compiled(tg.value_and_grad, problem.objective, "graph", graphs)
    expected = tg.grad(problem.objective, *problem.args, **problem.given)
    for _ in range(3):
        close(step(*problem.args, **problem.given), expected, 1e-9)
    assert step.stats.traces == 1


@pytest.mark.parametrize("f", [lambda x: np.sum(x[x > 0]), lambda x: x[np.argmax(x)] * x, lambda x: np.random.normal(size=3) * x, lambda x: np.bitwise_count(x > 0) * x])
def test_what_is_computed_on_the_host_cannot_be_captured(f: Any, graphs: str) -> None:
    step = compiled(tg.compile, f, "graph", graphs)
    step(np.ones(3))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="on the host") as caught:
            step(np.ones(3))
        assert "test_torch_modes.py" in str(caught.value) and 'mode="eager"' in str(caught.value)


@pytest.mark.skipif(CUDA, reason="there is CUDA here")
def test_graphs_need_cuda() -> None:
    for options in ({}, {"device": "cpu"}):
        with pytest.raises(ArgumentError, match="graph mode needs CUDA"):
            tg.compile(lambda x: x, backend="torch", mode="graph", **options)


@pytest.mark.filterwarnings("ignore")  # Inductor's own
def test_inductor() -> None:
    step = tg.value_and_grad(branches, backend="torch", mode="inductor")
    for x in (np.ones(3) * 0.1, np.ones(3) * 0.2):
        for given in (x, torch.tensor(x), x):
            close(step(given, 0.5), tg.grad(branches, x, 0.5))
    assert step.stats.traces == 1
    close(step(-np.ones(3), 0.5), tg.grad(branches, -np.ones(3), 0.5))  # another path is traced
    assert step.stats.traces == 2 and step.stats.misses > 0
    masked = tg.compile(lambda x: np.sum(x[x > 0]), backend="torch", mode="inductor")
    masked(np.ones(3))
    with pytest.raises(ArgumentError, match="on the host"):
        masked(np.ones(3))


# -- torch.fx


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if not problem.module])  # NumPy code
def test_to_fx_and_back(name: str) -> None:
    problem = PROBLEMS[name]
    problem = problem.made(**{key: n for key, n in SMALL.get(name.rstrip("32"), {}).items() if key in problem.default})
    expected = tg.grad(problem.objective, *problem.args, **problem.given)
    leaves = tensors((*problem.args, *problem.given.values()))
    module = tg.gradtape(problem.objective, *problem.args, **problem.given).to_fx()
    module.graph.lint()
    close(module(*leaves), expected, 1e-9)
    tape = tg.from_fx(module, *leaves)
    close(tape.play(*leaves), expected, 1e-9)
    again = tape.to_fx()
    again.graph.lint()
    close(again(*leaves), expected, 1e-9)


def test_other_numbers_through_fx() -> None:
    def f(x: Any, n: float) -> Any:
        y = np.zeros(4)
        y[1:] = x[x > -9] * n
        y[np.argmax(x)] += 1
        return np.cumsum(y) if x[0] > 0 else y
    x = np.array([1.0, 2.0, 3.0])
    module = tg.trace(f, x, 2.0)[1].to_fx()
    tape = tg.from_fx(module, torch.tensor(x), 2.0)
    for seed in range(4):
        z, n = abs(np.random.default_rng(seed).normal(size=3)), float(seed)
        for run in (module, tape.play, tg.compile(tape, backend="torch")):
            close(run(torch.tensor(z), n), f(z, n))
    with pytest.raises(GuardError):
        module(torch.tensor(-x), 2.0)


def test_a_module_of_torchs_own_as_a_tape() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    x = torch.tensor(draw(5, 3)).float()
    tape = tg.from_fx(torch.fx.symbolic_trace(model), x)
    for scale in (1.0, 2.0):
        torch.testing.assert_close(tape.play(x * scale), model(x * scale).detach())
        torch.testing.assert_close(tape.to_fx()(x * scale), model(x * scale).detach())
    with pytest.raises(ArgumentError, match="takes 1 argument"):
        tg.from_fx(torch.fx.symbolic_trace(model), x, x)
