"""Graph mode, Inductor and torch.fx: programs that run all at once, and tapes exchanged with torch.fx."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch

import tapegrad as tg
from bench.compare import difference
from bench.on_gpu import stand_in
from bench.on_gpu.peers import PEERS
from bench.on_gpu.run import PRECISIONS, TOLERANCE
from bench.on_gpu.sizes import SIZES, made
from bench.problems import PROBLEMS
from tapegrad.errors import ArgumentError, GuardError
from tests.cases.case import draw
from tests.compile.torch.test_compile import SMALL
from tests.harness.compare import alike as close
from tests.harness.on_torch import tensors

CUDA = torch.cuda.is_available()


@pytest.fixture(params=["stand-in", *(["cuda"] if CUDA else [])])
def graphs(request: Any) -> Iterator[str]:
    """Graph mode, on the CPU with a stand-in for CUDA's graphs."""
    if request.param == "cuda":
        yield "cuda"
        return
    with stand_in.graphs():
        yield "cpu"


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
    step = compiled(partial(tg.value_and_grad, argnums=None), branches, "graph", graphs)
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


class Net(torch.nn.Module):
    """Layers whose kernels save something for their gradients, and statistics that move on."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.out = torch.nn.Embedding(5, 4), torch.nn.LayerNorm(4), torch.nn.Linear(8, 2)
        self.conv, self.batch, self.pool = torch.nn.Conv1d(4, 8, 2), torch.nn.BatchNorm1d(8), torch.nn.MaxPool1d(2)

    def forward(self, x: Any) -> Any:
        return self.out(self.pool(self.batch(self.conv(self.norm(self.table(x)).mT))).relu().mean(-1))


def with_buffers(m: Any, x: Any) -> Any:
    return m(x).square().mean(), {"kept": dict(m.named_buffers())}


def test_layers_and_what_they_return_besides_as_graphs(graphs: str) -> None:
    module, x = Net().to(graphs), torch.randint(0, 5, (3, 6), device=graphs)
    step = compiled(partial(tg.value_and_grad, argnums=None, seed=(1.0, None)), with_buffers, "graph", graphs)
    for training, hits in ((True, 1), (False, 3)):  # while it trains, its statistics are written to
        module.train(training)
        for _ in range(3):
            with torch.no_grad():
                module.out.weight.mul_(1.1)
            expected = tg.grad(with_buffers, copy.deepcopy(module), x, seed=(1.0, None))
            torch.testing.assert_close(step(module, x), expected)
        assert step.stats.hits == hits


@pytest.mark.parametrize("name", ["mlp", "gmm", "lstm", "gp", "recurrence", "tr_mul", "elementwise", "filling"])
def test_problems_as_graphs(name: str, graphs: str) -> None:
    problem = PROBLEMS[name].made(**{key: n for key, n in SMALL[name].items() if key in PROBLEMS[name].default})
    step = compiled(partial(tg.value_and_grad, argnums=None), problem.objective, "graph", graphs)
    expected = tg.grad(problem.objective, *problem.args, **problem.given)
    for _ in range(3):
        close(step(*problem.args, **problem.given), expected, 1e-9)
    assert step.stats.traces == 1


@pytest.mark.parametrize(("f", "traced"), [(lambda x: np.sum(x[x > 0]), 1), (lambda x: x * np.unique(x).sum(), 1), (lambda x: np.bitwise_count(x > 0) * x, 1),
                                           (lambda x: np.random.normal(size=3) * x, 2)])  # what draws is not run where it was traced
def test_what_is_computed_on_the_host_cannot_be_captured(f: Any, traced: int, graphs: str) -> None:
    step = compiled(tg.compile, f, "graph", graphs)
    for _ in range(traced):
        step(np.ones(3))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="on the host") as caught:
            step(np.ones(3))
        assert "test_modes.py" in str(caught.value) and 'mode="eager"' in str(caught.value)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SIZES)
def test_the_peers_of_the_gpu_benchmark(name: str, precision: str) -> None:
    problem = made(name, small=True)
    default = torch.get_default_dtype()
    torchs = PEERS["torch"](problem, "cpu", precision)
    value, gradient = torchs.read(torchs.call())
    torch.set_default_device(None)
    torch.set_default_dtype(default)
    with stand_in.graphs():
        for mode in ("eager", "graph"):
            peer = PEERS[f"tapegrad {mode}"](problem, "cpu", precision)
            for _ in range(2):
                found = peer.read(peer.call())
                assert difference((found[0], *found[1]), (value, *gradient)) <= TOLERANCE[precision]


HILL = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
SOLUTIONS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "cholesky": (np.linalg.cholesky, -HILL, "not positive definite"), "inv": (np.linalg.inv, HILL * 0, "Singular matrix"),
    "solve": (lambda x: np.linalg.solve(x, np.ones(3)), HILL * 0, "Singular matrix"),
    "a stack": (lambda x: np.linalg.inv(np.stack([HILL, x])), HILL * 0, "Singular matrix"),
    "an upper factor": (lambda x: np.linalg.cholesky(x, upper=True), -HILL, "not positive definite"),
    "scipy's": (lambda x: scipy.linalg.cho_solve(scipy.linalg.cho_factor(x), np.ones(3)), -HILL, "not positive definite"),
    "several": (lambda x: np.linalg.inv(np.linalg.cholesky(x)) @ np.linalg.solve(x + 1, x), -HILL, "not positive definite")}


@pytest.mark.filterwarnings("ignore")  # Inductor's own
@pytest.mark.parametrize(("name", "mode"), [*((name, "graph") for name in SOLUTIONS), ("cholesky", "inductor")])
def test_matrices_without_a_solution(name: str, mode: str, graphs: str) -> None:
    f, bad, message = SOLUTIONS[name]
    run = tg.compile(tg.gradtape(f, HILL, seed=np.ones(np.shape(f(HILL)))), backend="torch", mode=mode, **({"device": "cuda"} if graphs == "cuda" else {}))
    step = compiled(partial(tg.value_and_grad, argnums=None), lambda x: np.sum(f(x)), mode, graphs)
    for scale in (1.0, 1.0, 2.0, 3.0):
        close(run(HILL * scale), tg.grad(f, HILL * scale, seed=np.ones(np.shape(f(HILL)))))
        close(step(HILL * scale), tg.grad(lambda x: np.sum(f(x)), HILL * scale))
        with pytest.raises(np.linalg.LinAlgError, match=message) as caught:
            run(bad)
        assert "test_modes.py" in str(caught.value)
        with pytest.raises(np.linalg.LinAlgError, match=message):
            step(bad)
    assert "_ex" in run.source and step.stats.traces == 5


def test_a_guard_comes_before_a_failure(graphs: str) -> None:
    def f(x: Any) -> Any:
        return np.linalg.cholesky(x).sum() if x[0, 0] > 0 else x.sum()
    run = compiled(tg.compile, tg.trace(f, HILL)[1], "graph", graphs)
    run(HILL)
    with pytest.raises(GuardError):
        run(-HILL)
    step = compiled(tg.compile, f, "graph", graphs)
    for x in (HILL, HILL, -HILL, HILL, -HILL):
        close(step(x), f(x))
    with pytest.raises(np.linalg.LinAlgError):
        step(HILL - 1.9)


def test_a_program_goes_on_after_a_failure(graphs: str) -> None:
    def f(x: Any) -> Any:
        try:
            return np.linalg.inv(x).sum()
        except np.linalg.LinAlgError:
            return x.sum()
    step = compiled(tg.compile, f, "graph", graphs)
    for x in (HILL, HILL, HILL * 0, HILL, HILL * 0):
        close(step(x), f(x))
    caught = tg.compile(tg.trace(f, HILL * 0)[1], backend="torch", mode="graph", **({"device": "cuda"} if graphs == "cuda" else {}))
    for _ in range(3):
        close(caught(HILL * 0), f(HILL * 0))
    with pytest.raises(GuardError):
        caught(HILL)


@pytest.mark.skipif(CUDA, reason="there is CUDA here")
def test_graphs_need_cuda() -> None:
    for options in ({}, {"device": "cpu"}):
        with pytest.raises(ArgumentError, match="graph mode needs CUDA"):
            tg.compile(lambda x: x, backend="torch", mode="graph", **options)


@pytest.mark.filterwarnings("ignore")  # Inductor's own
def test_inductor() -> None:
    step = tg.value_and_grad(branches, argnums=None, backend="torch", mode="inductor")
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


GENERATOR, RNG = torch.Generator(), np.random.default_rng(0)
DRAWING: dict[str, Any] = {
    "a module made inside": lambda x: (torch.nn.Sequential(torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))(x) ** 2).sum(),
    "dropout": lambda x: (torch.nn.Dropout(0.5)(x) ** 3).sum(),
    "attention made inside": lambda x: (torch.nn.MultiheadAttention(3, 1)(x, x, x)[0] ** 3).sum(),
    "a generator made inside": lambda x: (torch.randn(3, generator=torch.Generator().manual_seed(3)) * x).sum(),
    "a generator": lambda x: (torch.randn(3, generator=GENERATOR) * x).sum(),
    "NumPy's": lambda x: (torch.as_tensor(RNG.normal(size=3), dtype=torch.float32) * x).sum(),
}


@pytest.mark.parametrize("name", DRAWING)
def test_random_numbers_through_fx(name: str) -> None:
    x = torch.tensor(draw(5, 3)).float()

    def run(fn: Any) -> Any:
        torch.manual_seed(5)
        GENERATOR.manual_seed(2)
        RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state
        return fn(x)
    for tape in (tg.trace(DRAWING[name], x)[1], tg.gradtape(DRAWING[name], x)):
        module, expected = tape.to_fx(), run(tape.play)
        module.graph.lint()
        again = tg.from_fx(module, x)
        for fn in (module, again.play, again.to_fx(), tg.compile(again, backend="torch")):
            torch.testing.assert_close(run(fn), expected)


def test_a_program_with_a_module_as_a_module_of_fx() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.tensor(draw(5, 3)).float()
    tape = tg.gradtape(lambda m, x: (m(x) ** 2).sum(), model, x)
    value, (_, gradients, dx) = tape.to_fx()(*(p * 0.5 for p in model.parameters()), x)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.5)
    wanted, (_, expected, dx_wanted) = tape.play(model, x)
    torch.testing.assert_close((value, dx, gradients), (wanted, dx_wanted, expected))


def test_what_torch_exports_as_a_tape() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            y[0] = x[1]
            return {"a": y, "b": (x, y.sum())}
    x = torch.tensor(draw(5, 3)).float()
    tape = tg.from_fx(torch.export.export(Nested(), (x,)).module(), x)
    for run in (tape.play, tg.optimise(tape).play, tape.to_fx(), tg.compile(tape, backend="torch")):
        torch.testing.assert_close(run(2 * x), Nested()(2 * x))


def parts(x: Any, n: Any) -> Any:
    """Return sums of parts that integers decide."""
    split = torch.tensor_split(x * x, n)
    return split[0].sum() + 2 * split[1].sum() + 3 * split[2].sum()


def test_integers_that_no_operator_shows_are_read_in_each_call() -> None:
    x = torch.tensor(draw(9))
    tape = tg.from_fx(torch.fx.symbolic_trace(parts), x, torch.tensor([2, 5]))
    run = tg.compile(tape, backend="torch")
    for n in ([2, 5], [1, 7], [4, 4]):
        torch.testing.assert_close(run(x, torch.tensor(n)), parts(x, torch.tensor(n)))
