"""What a compiled function writes: values that its tape computes, written as the program does, once for each call that ends well."""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tests.trace.test_write_back import PROGRAMS, told

XS = (1.5, 0.5, 2.5, 0.7, 0.2, 0.9, 3.0, 0.1)
HITS = {"arrays of an object": 1, "captured arrays": 6, "counter": 5, "namespace": 5, "remembered": 3, "slots": 5, "class": 6, "class of slots": 5}  # the others grow with each call, or write to the function itself
MODES: dict[str, Callable[[Any], Any]] = {
    "compile": lambda f: tg.compile(f, warmup=1), "by one": lambda f: tg.value_and_grad(f, argnums=0, warmup=1),
    "by all": lambda f: tg.value_and_grad(f, argnums=None, warmup=1), "native": lambda f: tg.value_and_grad(f, argnums=0, warmup=1, mode="native"),
    "torch": lambda f: tg.value_and_grad(f, argnums=0, warmup=1, backend="torch")}


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "containers"])
def test_a_compiled_call_leaves_what_the_program_leaves(name: str, mode: str) -> None:
    if mode == "native":
        pytest.importorskip("llvmlite")
    (f, state), (g, wanted) = PROGRAMS[name](), PROGRAMS[name]()
    step = MODES[mode](f)
    for x in XS:
        expected, found = g(x), step(x)
        np.testing.assert_allclose(found if mode == "compile" else found[0], expected)
        assert told(state) == told(wanted)
    assert step.stats.hits == HITS.get(name, 0)


@pytest.mark.parametrize("around", [torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4, momentum=0.3), torch.nn.BatchNorm1d(4, affine=False)])
@pytest.mark.parametrize("warmup", [1, None])
def test_a_batch_norm_in_training(around: Any, warmup: int | None) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), copy.deepcopy(around), torch.nn.Linear(4, 1))
    other = copy.deepcopy(model)

    def loss(m: Any, x: Any) -> Any:
        return (m(x) ** 2).mean()
    step, calls = tg.value_and_grad(loss, argnums=0, backend="torch", warmup=warmup), 6 if warmup else 60
    buffers = dict(model.named_buffers())
    for _ in range(calls):
        x = torch.randn(8, 3)
        value, gradients = step(model, x)
        other.zero_grad()
        expected = loss(other, x)
        expected.backward()
        torch.testing.assert_close(value, expected)
        for name, p in other.named_parameters():
            torch.testing.assert_close(gradients[name], p.grad)
        for name, buffer in other.named_buffers():
            torch.testing.assert_close(buffers[name], buffer)  # in place
        with torch.no_grad():
            for each in (model, other):
                for p in each.parameters():
                    p.mul_(0.99)
    assert step.stats.hits >= (calls - 2 if warmup else 1)
    model.eval(), other.eval()
    for _ in range(3):
        torch.testing.assert_close(step(model, x)[0], loss(other, x))
    for name, buffer in other.named_buffers():
        torch.testing.assert_close(buffers[name], buffer)


def test_a_batch_norm_that_divides_by_the_number_of_batches_stays_traced() -> None:
    model = torch.nn.BatchNorm1d(2, momentum=None)  # which asks for it as a plain number
    other, step = copy.deepcopy(model), tg.value_and_grad(lambda m, x: (m(x) ** 3).sum(), argnums=0, backend="torch", warmup=1)
    for _ in range(5):
        x = torch.randn(4, 2)
        torch.testing.assert_close(step(model, x)[0], (other(x) ** 3).sum())
        torch.testing.assert_close(model.state_dict(), other.state_dict())
    assert step.stats.hits == 0


@pytest.mark.parametrize("around", [torch.nn.BatchNorm2d(2), torch.nn.Sequential(torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.BatchNorm2d(2))])
def test_a_batch_norm_of_images_that_a_function_captured(around: Any) -> None:
    model, other = copy.deepcopy(around), copy.deepcopy(around)
    step = tg.value_and_grad(lambda x: (model(x) ** 3).sum(), argnums=0, backend="torch", warmup=1)
    for _ in range(5):
        x = torch.randn(2, 2, 3, 3)
        torch.testing.assert_close(step(x)[0], (other(x) ** 3).sum())
        for name, buffer in other.named_buffers():
            torch.testing.assert_close(dict(model.named_buffers())[name], buffer)
    assert step.stats.hits == 3


class State:
    def __init__(self) -> None:
        self.n, self.last, self.pair = 0, None, None


@pytest.mark.parametrize("given", ["numpy", "torch"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_is_stored_is_written_to_the_object_of_the_call_in_memory_of_its_own(given: str, backend: str) -> None:
    if given == "torch" and backend == "numpy":
        pytest.skip("no tensors")
    sin = np.sin if given == "numpy" else torch.sin

    def f(state: Any, x: Any) -> Any:
        y = sin(x)  # type: ignore[operator]
        state.n, state.last, state.pair = state.n + 1, y, (y, {"x": x, "twice": [y * 2.0, "t"], "state": state})
        return y
    step, one, two = tg.compile(f, backend=backend, warmup=1), State(), State()
    base: Any = np.arange(1.0, 4.0) if given == "numpy" else torch.arange(1.0, 4.0)
    for k in range(8):
        state, x = (one, two)[k % 2], base * (k + 1.0)
        y, expected = step(state, x), sin(x)  # type: ignore[operator]
        y += 100.0
        assert type(state.last) is type(expected) and (abs(state.last - expected) < 1e-6).all()
        assert state.pair[0] is state.last and state.pair[1]["x"] is x and state.pair[1]["state"] is state
        state.last += 5.0
        assert (abs(state.pair[1]["twice"][0] - 2.0 * expected) < 1e-6).all()
    assert one.n == two.n == 4 and type(one.n) is int and step.stats.hits == 4


def test_a_compiled_call_that_raises_writes_nothing() -> None:
    def f(state: Any, x: Any) -> Any:
        state.n += 1
        if x > 5.0:
            raise ValueError("after all")
        return x * x
    step, state = tg.value_and_grad(f, argnums=1, warmup=1), State()
    for k in range(6):
        step(state, 1.0 + k / 10)
        with pytest.raises(ValueError, match="after all"):
            step(state, 6.0)
    assert state.n == 6 and step.stats.hits == 4


def test_a_counter_may_steer_the_program() -> None:
    def f(state: Any, x: Any) -> Any:
        state.n += 1
        if state.n % 3 == 0:
            state.last = x * 1.0
        return x * x * state.n
    step, state, other = tg.value_and_grad(f, argnums=1, warmup=1), State(), State()
    state.last = other.last = 1.0  # type: ignore[assignment]
    for k in range(20):
        assert step(state, float(k))[0] == f(other, float(k)) and vars(state) == vars(other)
    assert step.stats.hits > 14


def test_with_what_is_returned_besides() -> None:
    def f(state: Any, x: Any) -> Any:
        state.n, state.last = state.n + 1, x * 3.0
        return (x * x).sum(), state.last * 2.0
    step, state = tg.value_and_grad(f, argnums=1, has_aux=True, warmup=1), State()
    for k in range(5):
        x = np.arange(2.0) + k
        (value, aux), dx = step(state, x)
        assert value == (x * x).sum() and aux.tolist() == (x * 6.0).tolist() and dx.tolist() == (x * 2.0).tolist()
        assert state.n == k + 1 and state.last.tolist() == (x * 3.0).tolist()  # type: ignore[attr-defined]
    assert step.stats.hits == 2


@pytest.mark.parametrize("store", [lambda log, x: log.append(x * 2.0), lambda log, x: log.extend([1.0, x])])
def test_a_list_that_grows_keeps_calls_traced_and_one_warning_names_the_line(store: Any) -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        store(log, x)
        return x * x
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    with pytest.warns(tg.RetraceWarning, match="writes to log, and each new value needs a new tape") as caught:
        for k in range(6):
            assert step(float(k))[0] == k * k
    assert len(caught) == 1 and "test_effects.py" in str(caught[0].message) and len(log) % 6 == 0 and step.stats.hits == 0


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = torch.nn.Linear(2, 2), 0

    def forward(self, x: Any) -> Any:
        self.calls += 1  # the line of the warning
        return self.inner(x)


def test_a_number_of_a_module_tells_tapes_apart_and_one_warning_names_the_line() -> None:
    model, step = Counting(), tg.value_and_grad(lambda m, x: m(x).sum(), argnums=0, backend="torch", warmup=1)
    with pytest.warns(tg.RetraceWarning, match="writes to m.calls, and each new value needs a new tape") as caught:
        for k in range(6):
            step(model, torch.ones(2))
            assert model.calls == k + 1
    assert len(caught) == 1 and "self.calls += 1  # the line" in str(caught[0].message)


def test_what_a_replay_cannot_write_stays_traced_with_one_warning() -> None:
    seen = {"first": 1.0}

    def f(x: Any) -> Any:
        seen["view"] = np.sin(x)[1:]  # with the array that it looks into
        seen["first"] = seen.pop("first")
        return x.sum()
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(6):
            step(np.arange(3.0) + k)
            assert seen["view"].tolist() == np.sin(np.arange(1.0, 3.0) + k).tolist()  # type: ignore[attr-defined]
    assert sum("is not compiled, because" in str(each.message) for each in caught) == 1 and step.stats.hits == 0


def places() -> Any:
    kept = [0.0, 0.0, 0.0]

    def f(x: Any) -> Any:
        kept[1], kept[2], kept[0] = x * x, kept[0], x
        return x * kept[1]
    return f, kept


def recent() -> Any:
    kept = collections.deque([1.0, 2.0], maxlen=2)

    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x * kept[0]
    return f, kept


def nested() -> Any:
    state, inner = State(), State()
    inner.last, state.pair, state.last = 0.0, inner, {"k": 1.0, "n": 2}  # type: ignore[assignment]

    def f(x: Any) -> Any:
        inner.last = inner.last + x
        state.last["k"], state.last["n"] = inner.last * 2.0, state.last["n"] + 1  # type: ignore[index]
        return x * inner.last
    return f, (state, inner)


def averages() -> Any:
    state = State()
    state.last = np.zeros(3)  # type: ignore[assignment]

    def f(x: Any) -> Any:
        state.last = 0.9 * state.last + 0.1 * np.full(3, 1.0) * x
        return (state.last * x).sum()
    return f, state


def long_loop() -> Any:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        for _ in range(300):
            n += 1
            x = x * 0.99 + 0.01
        return x * n
    return f, lambda: n


@pytest.mark.parametrize("make", [places, recent, nested, averages, long_loop])
def test_states_that_keep_their_shape_run_compiled(make: Callable[[], Any]) -> None:
    (f, state), (g, wanted) = make(), make()
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in XS:
        np.testing.assert_allclose(step(x)[0], g(x), rtol=1e-12)
        assert told(state) == told(wanted)
    assert step.stats.hits >= 5


TENSORS: Any = [torch.ones(2), torch.nn.Linear(2, 2).weight]


@pytest.mark.parametrize("at", [0, 1], ids=["tensor", "parameter"])
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning", "ignore::tapegrad.EffectWarning")
def test_attributes_of_a_tensor_are_written_at_each_call(at: int) -> None:
    def f(x: Any) -> Any:
        TENSORS[at].seen = x * 2
        return x * x
    step = tg.compile(f, warmup=1)
    for x in XS:
        assert (step(x), TENSORS[at].seen) == (x * x, x * 2)
    assert (tg.vmap(f)(np.array(XS))[-1], TENSORS[at].seen) == (XS[-1] ** 2, XS[-1] * 2)
