"""checks: programs whose gradients are compared on a device with those of the CPU, each in the modes that there are.

bench/gpu.py runs them where there is a GPU, and so do the tests; on a CPU graph mode has a stand-in.
"""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import tapegrad as tg
from bench.on_gpu.loops import ARGS, PROGRAMS, tape_of
from tapegrad.compile.torch.cuda_graph import waiting_raises
from tapegrad.errors import ArgumentError
from tapegrad.tree.flatten import leaves_of

MODES = ("eager", "graph", "inductor")
CALLS = 4  # of each compiled function: traced, observed, compiled, steady
Check = Callable[[str, str], None]
CHECKS: dict[str, Check] = {}


def check(fn: Check) -> Check:
    """Put a check into the table, by its name."""
    CHECKS[fn.__name__.replace("_", " ")] = fn
    return fn


def close(found: Any, expected: Any, rtol: float = 1e-7, atol: float = 1e-9) -> None:
    """Raise unless nested numbers, arrays and tensors have the same values."""
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        a, b = (x.detach().double().cpu().numpy() if isinstance(x, torch.Tensor) else x for x in (a, b))
        np.testing.assert_allclose(a, b, rtol, atol)


def on(device: str, *args: Any) -> list[Any]:
    """Return arrays as tensors of a device."""
    return [torch.tensor(x, device=device) if isinstance(x, np.ndarray) else x for x in args]


def compiled(f: Any, device: str, mode: str) -> Any:
    return tg.value_and_grad(f, argnums=None, backend="torch", device=device, mode=mode)


def agrees(f: Any, device: str, mode: str, *samples: tuple[Any, ...]) -> None:
    """Raise unless a compiled gradient is NumPy's, of arrays and of tensors, and lies on the device."""
    step = compiled(f, device, mode)
    for number in range(CALLS * len(samples)):
        args = samples[number % len(samples)]
        for given in (args, on(device, *args)):
            value, gradients = step(*given)
            close((value, gradients), tg.grad(f, *args))
            if value.device.type != torch.device(device).type:
                raise AssertionError(f"the value lies on {value.device}")


X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
MASK = np.tri(3, 4) > 0
HILL = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])


class Net(torch.nn.Module):
    """Layers whose kernels save something for their gradients, and statistics that move on."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.out = torch.nn.Embedding(5, 4), torch.nn.LayerNorm(4), torch.nn.Linear(8, 2)
        self.conv, self.batch, self.pool = torch.nn.Conv1d(4, 8, 2), torch.nn.BatchNorm1d(8), torch.nn.MaxPool1d(2)

    def forward(self, x: Any) -> Any:
        return self.out(self.pool(self.batch(self.conv(self.norm(self.table(x)).mT))).relu().mean(-1))


def of_module(module: torch.nn.Module, device: str, mode: str, *args: Any) -> None:
    """Raise unless the gradient by a module's parameters is torch's."""
    def loss(module: Any, *args: Any) -> Any:
        return module(*args).square().mean()
    module = module.eval().to(device=device, dtype=torch.float64)
    args = tuple(x.to(device) for x in args)
    step = compiled(loss, device, mode)
    value = loss(module, *args)
    expected = torch.autograd.grad(value, list(module.parameters()))
    for _ in range(CALLS):
        found, (_, gradients, *_) = step(module, *args)
        close((found, list(gradients.values())), (value, list(expected)), 1e-5, 1e-7)


@check
def modules(device: str, mode: str) -> None:
    torch.manual_seed(0)
    of_module(Net(), device, mode, torch.randint(0, 5, (3, 6)))
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    of_module(layer, device, mode, torch.randn(2, 5, 8, dtype=torch.float64))


@check
def loops(device: str, mode: str) -> None:
    def recurrence(x: Any) -> Any:
        y = x
        for i in range(20):
            y = np.sin(y) * 0.9 + x * (i % 3)
        return np.sum(y)
    agrees(recurrence, device, mode, (X,))


@check
def long_loops(device: str, mode: str) -> None:
    """Each is a kernel where there is a GPU, in two modes of three."""
    if mode == "inductor":
        return  # it compiles each run by itself, for minutes
    for f in PROGRAMS:
        run = tg.compile(tape_of(f), backend="torch", device=device, mode=mode)
        for scale in (1.0, 0.9, 1.1):
            args = [x * scale for x in ARGS]
            close(run(*on(device, *args)), tg.grad(f, *args))


@check
def writes_in_place(device: str, mode: str) -> None:
    def filled(x: Any) -> Any:
        y = np.zeros(x.shape)
        y[1:] = x[:-1] * 2
        y[0] = x.sum(0)
        y[:, np.array([0, 2])] *= x[:, 1:3]
        y[y.argmax() // 4, 0] += 1.0
        return np.sum(y * y)
    agrees(filled, device, mode, (X,), (X[::-1].copy(),))


@check
def branches(device: str, mode: str) -> None:
    def branching(x: Any) -> Any:
        return np.sum(np.exp(x)) if np.sum(x) > 0 else np.sum(x ** 2)
    agrees(branching, device, mode, (X,), (-X,))


@check
def places_that_numbers_name(device: str, mode: str) -> None:
    agrees(lambda x: x[np.argmax(x[:, 0]), 1] * np.sum(x), device, mode, (X,), (-X,))


@check
def constant_masks(device: str, mode: str) -> None:
    agrees(lambda x: np.sum(np.exp(x[MASK])), device, mode, (X,))


@check
def random_numbers_of_torchs_own(device: str, mode: str) -> None:
    x = torch.linspace(0.5, 1.5, 64, dtype=torch.float64, device=device)
    step = compiled(lambda x: (F.dropout(x, 0.5) ** 2).sum(), device, mode)
    seen = set()
    for _ in range(CALLS + 2):
        try:
            value, (_, dx) = step(x)
        except ArgumentError:
            if mode == "eager":
                raise
            return  # it says so: what is drawn there is one call of torch's own
        kept = dx != 0
        close(dx[kept], 8 * x[kept])
        close(value, (4 * x[kept] ** 2).sum())
        seen.add(tuple(kept.tolist()))
    if len(seen) < 2:
        raise AssertionError("each call drew the same")


@check
def random_numbers_of_numpys(device: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    step = compiled(lambda x: np.sum(x * rng.normal(size=4)), device, mode)
    found = []
    for given in (X[0], *[on(device, X[0])[0]] * CALLS):  # with arrays first: it is NumPy's code
        try:
            found.append(step(given)[0].item())
        except ArgumentError:
            if mode == "eager":
                raise
            return  # what the host draws is no part of a graph, it says
    if len(set(found)) < len(found):
        raise AssertionError("a call drew the same")


@check
def matrices_without_a_solution(device: str, mode: str) -> None:
    for f, bad in ((np.linalg.cholesky, -HILL), (np.linalg.inv, HILL * 0),
                   (lambda x: np.linalg.solve(x, np.ones(3)), HILL * 0)):
        def loss(x: Any, f: Any = f) -> Any:
            return np.sum(f(x))
        run = tg.compile(tg.gradtape(loss, HILL), backend="torch", device=device, mode=mode)
        for scale in (1.0, 2.0):
            close(run(*on(device, HILL * scale)), tg.grad(loss, HILL * scale))
            try:
                run(*on(device, bad))
            except np.linalg.LinAlgError:
                continue
            raise AssertionError("a matrix without a solution was solved")


@check
def bfloat16(device: str, mode: str) -> None:
    """Of torch code, in the precision that its tensors have; sums of a few rounded products."""
    def loss(w: Any, x: Any) -> Any:
        return (torch.tanh(x @ w) * torch.exp(-x.sum(1, keepdim=True) ** 2)).mean() + F.gelu(w).sum()
    w, x = (torch.tensor(part, dtype=torch.bfloat16, device=device) for part in (X.T * 0.5, X))
    step = compiled(loss, device, mode)
    value, (_, *expected) = tg.grad(loss, w.double(), x.double())
    for _ in range(CALLS):
        found, (_, *gradients) = step(w, x)
        if {found.dtype, *(dx.dtype for dx in gradients)} != {torch.bfloat16}:
            raise AssertionError("another dtype came out")
        close((found, gradients), (value, expected), 5e-2, 5e-2)


def wave(x: Any) -> Any:
    return np.sum(np.sin(x) * np.exp(-x * x))


@check
def a_second_stream(device: str, mode: str) -> None:
    run = tg.compile(tg.gradtape(wave, X), backend="torch", device=device, mode=mode)
    run(*on(device, X))
    cuda = torch.device(device).type == "cuda"
    streams = [torch.cuda.Stream() for _ in range(2)] if cuda else [None, None]
    results = []
    for number in range(20):
        with torch.cuda.stream(streams[number % 2]) if cuda else torch.no_grad():
            results.append(run(*on(device, X * (number + 1))))
    if cuda:
        torch.cuda.synchronize()
    for number, found in enumerate(results):
        close(found, tg.grad(wave, X * (number + 1)))


@check
def two_threads(device: str, mode: str) -> None:
    run = tg.compile(tg.gradtape(wave, X), backend="torch", device=device, mode=mode)
    run(*on(device, X))
    failed: list[BaseException] = []

    def work(scale: float) -> None:
        try:
            given = on(device, X * scale)
            expected = tg.grad(wave, X * scale)
            for _ in range(50):
                close(run(*given), expected)
        except BaseException as err:
            failed.append(err)
    threads = [threading.Thread(target=partial(work, scale)) for scale in (1.0, -0.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@check
def nothing_waits_in_a_steady_replay(device: str, mode: str) -> None:
    def loss(x: Any) -> Any:
        y = np.zeros(x.shape)
        for i in range(3):
            y[i] = np.tanh(x[i] * 2) + x[0]
        return np.sum(y @ y.T)
    run = tg.compile(tg.gradtape(loss, X), backend="torch", device=device, mode=mode)
    given = on(device, X)
    for _ in range(3):
        run(*given)
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        with waiting_raises():
            run(*given)
    close(run(*given), tg.grad(loss, X))


@check
def results_are_the_callers(device: str, mode: str) -> None:
    run = tg.compile(tg.trace(lambda x: (x * 2, x.sum(), x), X)[1], backend="torch", device=device, mode=mode)
    first = run(*on(device, X))
    kept = copy.deepcopy(first)
    run(*on(device, X * 3))[0].fill_(0.0)
    close(first, kept, 0.0, 0.0)


def run_check(name: str, device: str, mode: str) -> str:
    """Run a check; return what is wrong, or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHECKS[name](device, mode)
    except Exception as err:
        return f"{type(err).__name__}: {' '.join(str(err).split())[:300]}"
    return ""
