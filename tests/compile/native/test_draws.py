"""Programs that draw, as machine code: the numbers are the plain program's, and so are the generators' states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.replay.random_state import hold
from tapegrad.trace.random_state import print_of

pytest.importorskip("llvmlite")

RNG, STATE = np.random.default_rng(3), np.random.RandomState(4)
X = np.linspace(-1.0, 1.0, 24)


def handed(x: Any, rng: Any) -> Any:
    return np.sum(np.tanh(x * rng.normal(size=x.shape)) * np.exp(x)) * rng.uniform()


def found(x: Any) -> Any:
    return np.sum(np.sin(x) * RNG.uniform(1.0, 2.0, size=x.shape) + np.exp(x * RNG.standard_normal()))


def legacy(x: Any) -> Any:
    noise = np.random.normal(size=3)  # an odd number of them: the state has a normal number in store
    return np.sum(np.exp(x * np.random.rand(*x.shape)) * np.random.randint(1, 5)) * np.sum(np.tanh(x[:3]) * noise)


def of_two(x: Any) -> Any:
    y = x * RNG.normal()
    y = y + np.sin(x) * STATE.normal()
    return np.sum(np.exp(y * RNG.normal()) * np.cos(y * STATE.uniform(size=x.shape)))


def branching(x: Any) -> Any:
    u = STATE.uniform()
    y = np.exp(x * RNG.normal(size=x.shape))
    return np.sum(np.sin(y) * y + x) if u < 0.5 else np.sum(np.cos(y) * y - x)


def decided_before(x: Any) -> Any:
    y = np.exp(x) * (2.0 if np.sum(x) > 0.5 else 1.0)
    return np.sum(np.sin(y) * y + x * RNG.normal(size=x.shape) * np.cos(x))


def looped(x: Any, rng: Any) -> Any:
    s = 0.0
    for _ in range(40):
        s = s + np.sin(s + x[1]) * rng.normal() + np.exp(-x[2] * 0.1) * rng.uniform(0.0, 1.0)
    return s


def unused(x: Any) -> Any:
    RNG.normal(size=3)
    return np.sum(np.exp(x) * np.sin(x) * np.cos(x) * RNG.normal())


def sources(args: tuple[Any, ...]) -> list[Any]:
    return [RNG, STATE, np.random.mtrand._rand, *args[1:]]


def both(step: Callable[..., Any], plain: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Compare a call with the plain one of generators in the same states, and the states behind both."""
    give_back = hold(sources(args))
    expected = plain(*args)
    states = [str(print_of(x)) for x in sources(args)]
    give_back()
    got = step(*args)
    for a, b in zip(tg.tree.flatten.leaves_of(got), tg.tree.flatten.leaves_of(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)  # sums of numbers near 1 may be near 0
    assert [str(print_of(x)) for x in sources(args)] == states


def run_of(step: Any) -> str:
    return " ".join({entry.backend.runs(entry.run) for entries in step._entries.values() for entry in entries if entry.is_compiled})


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (handed, (np.random.default_rng(0),)), (handed, (np.random.RandomState(0),)), (found, ()), (legacy, ()), (of_two, ()), (branching, ()), (decided_before, ()), (looped, (np.random.default_rng(0),)), (unused, ())]
OVERFLOWS = {handed, looped, found, legacy, of_two, branching, unused}


@pytest.mark.parametrize(("f", "rest"), PROGRAMS)
@pytest.mark.parametrize("sweeps", [False, True])
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_numbers_and_states_are_the_plain_programs(f: Callable[..., Any], rest: tuple[Any, ...], sweeps: bool) -> None:
    step = (tg.value_and_grad if sweeps else tg.compile)(f, mode="native", warmup=1)
    plain = (lambda *args: tg.grad(f, *args, argnums=0)) if sweeps else f
    with np.errstate(all="ignore"):
        for k in range(8):
            both(step, plain, (X * (1.0 + k / 8) + (k % 3 - 1), *rest))
    assert step.stats.hits > 3 and run_of(step) == "machine code"


@pytest.mark.parametrize(("f", "rest"), [(f, rest) for f, rest in PROGRAMS if f in OVERFLOWS])
@pytest.mark.parametrize("sweeps", [False, True])
def test_a_call_that_leaves_machine_code_midway_draws_once(f: Callable[..., Any], rest: tuple[Any, ...], sweeps: bool) -> None:
    step = (tg.value_and_grad if sweeps else tg.compile)(f, mode="native", warmup=1)
    plain = (lambda *args: tg.grad(f, *args, argnums=0)) if sweeps else f
    with np.errstate(all="ignore"):
        for _ in range(12):
            both(step, plain, (X, *rest))
        hits = step.stats.hits
        for k in range(6):
            both(step, plain, (X * (1e5 if k % 2 else 1.0), *rest))
        assert step.stats.hits >= hits + 3


@pytest.mark.parametrize("mode", ["native", "numpy"])
def test_what_a_sweep_cannot_compute_of_python_numbers_is_drawn_once(mode: Any) -> None:
    def f(x: Any, rng: Any) -> Any:
        return np.sin(x) * rng.normal() + np.exp(np.sin(x) * 0.5) * np.cos(x)
    step, rng = tg.value_and_grad(f, mode=mode, warmup=1), np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for x in (1.0, 2.0, 3.0, 4.0, np.inf, 1.0, np.inf):
            both(step, lambda *args: tg.grad(f, *args, argnums=0), (float(x), rng))


def test_an_error_of_numpy_leaves_generators_as_the_plain_program_does() -> None:
    step = tg.compile(handed, mode="native", warmup=1)
    rng = np.random.default_rng(0)
    for _ in range(4):
        step(X, rng)
    give_back = hold([rng])
    with np.errstate(over="raise"):
        with pytest.raises(FloatingPointError):
            handed(X * 1e5, rng)
        state = rng.bit_generator.state
        give_back()
        with pytest.raises(FloatingPointError):
            step(X * 1e5, rng)
    assert rng.bit_generator.state == state
