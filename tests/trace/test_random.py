"""Random numbers: recorded, drawn afresh by a replay or repeated, never frozen."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import pickle
import random
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from timeit import timeit
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState, normal

import tapegrad as tg
from tapegrad.ops import draw
from tapegrad.testing import check_grads
from tapegrad.trace.mersenne import state_of_bits, state_of_legacy
from tapegrad.trace.random_state import Found

RNG = np.random.default_rng(0)


def draws(tape: tg.Tape) -> list[Any]:
    return [op for op in tape if isinstance(op, tg.Call) and op.fn is draw]


def from_argument(x: Any, rng: Any) -> Any:
    return (x * rng.normal(size=3)).sum()


def from_global(x: Any) -> Any:
    return (x * RNG.uniform(size=3)).sum()


def from_module(x: Any) -> Any:
    return x * np.random.rand() + np.random.uniform(size=2).sum() * normal() * x


@pytest.mark.parametrize("f", [from_global, from_module, lambda x: x * np.random.default_rng().random()])
def test_a_replay_draws_afresh_or_repeats(f: Any) -> None:
    np.random.seed(0)
    value, tape = tg.trace(f, 2.0)
    assert draws(tape) and tape.play(2.0) != value
    assert tape.play(2.0, redraw=False) == value
    gradient = tg.gradtape(f, 2.0)
    assert gradient.play(2.0)[1][1] != gradient.play(2.0)[1][1]
    assert gradient.play(2.0, redraw=False)[1][1] == gradient.play(3.0, redraw=False)[1][1]


@pytest.mark.quick
def test_a_generator_is_an_input() -> None:
    rng = np.random.default_rng(3)
    value, (_, dx, drng) = tg.grad(from_argument, np.ones(3), rng)
    assert drng is None
    np.testing.assert_array_equal(dx, np.random.default_rng(3).normal(size=3))
    _, tape = tg.trace(from_argument, np.ones(3), np.random.default_rng(3))
    assert tape.play(np.ones(3), np.random.default_rng(3)) == value
    assert tape.play(np.ones(3), np.random.default_rng(4)) != value

    class Noisy:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(1)

        def __call__(self, x: Any) -> Any:
            return x * self.rng.normal()
    noisy = Noisy()
    _, tape = tg.trace(noisy, 2.0)
    assert tape.play(2.0) != tape.play(2.0)


def test_a_generator_made_inside_is_seeded_again() -> None:
    def f(x: Any) -> Any:
        rng = np.random.default_rng(7)
        return x * rng.normal() + rng.integers(10)

    def legacy(x: Any) -> Any:
        np.random.seed(5)
        return x * np.random.randn()
    for g in (f, legacy):
        _, tape = tg.trace(g, 2.0)
        assert tape.play(3.0) == tape.play(3.0) == g(3.0)


@pytest.mark.parametrize(("name", "parameters"), [
    ("normal", (0.3, 1.2)), ("uniform", (0.3, 1.2)), ("laplace", (0.3, 1.2)), ("logistic", (0.3, 1.2)), ("gumbel", (0.3, 1.2)), ("exponential", (1.2,)),
    ("rayleigh", (1.2,)), ("lognormal", (0.3, 1.2)),
])
def test_traced_parameters_are_reparametrised(name: str, parameters: tuple[float, ...]) -> None:
    def f(*p: Any) -> Any:
        return getattr(np.random.default_rng(2), name)(*p, size=4).sum()
    value, (_, *dp) = tg.grad(f, *parameters)
    assert value == pytest.approx(f(*parameters))
    for i, d in enumerate(dp):
        moved = [[q + s * 1e-6 * (i == k) for k, q in enumerate(parameters)] for s in (1, -1)]
        assert d == pytest.approx((f(*moved[0]) - f(*moved[1])) / 2e-6, rel=1e-5)


def test_others_with_traced_parameters_are_refused() -> None:
    with pytest.raises(tg.UnknownFunction, match="gamma with a traced parameter"):
        tg.grad(lambda a: RNG.gamma(a), 2.0)


    for chosen in (lambda p: np.random.default_rng(0).choice(3, p=p), lambda p: RNG.choice(np.ones(3), 2, True, p)):
        with pytest.raises(tg.UnknownFunction, match="choice with a traced parameter"):
            tg.grad(lambda p: chosen(p) * p[0], np.array([0.2, 0.3, 0.5]))  # noqa: B023


@pytest.mark.parametrize("choice", [
    lambda rng, x, p: rng.choice(x, 4, p=tg.stop_gradient(p)),
    lambda rng, x, p: rng.choice(x, 4, True, [0.2, 0.3, 0.5]), lambda rng, x, p: rng.choice(a=x, size=4, p=np.ones(3) / 3),
    lambda rng, x, p: rng.choice(np.stack([x, x]), 4, axis=1, shuffle=False)[0]])
def test_choices_with_probabilities(choice: Any) -> None:
    def f(x: Any, p: Any) -> Any:
        return (choice(np.random.default_rng(3), x, p) * np.arange(1.0, 5.0)).sum()
    x, p = np.arange(1.0, 4.0), np.array([0.2, 0.3, 0.5])
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for k in (1.0, 2.0, 3.0):
        value, dx = tg.grad(f, k * x, p, argnums=0)
        assert value == f(k * x, p) == step(k * x, p)[0] and dx @ (k * x) == pytest.approx(value)


def test_arrangements_of_a_traced_array() -> None:
    x = np.arange(5.0)

    def f(x: Any) -> Any:
        rng = np.random.default_rng(0)
        y = x * 1.0
        rng.shuffle(y)
        return (y * np.arange(5)).sum() + rng.permutation(x)[0] * 10 + rng.choice(x, 2).sum() * 100
    value, tape = tg.trace(f, x)
    assert tape.play(x) == value
    np.testing.assert_allclose(tg.gradient(f, x)[0].sum(), 10 + 10 + 200)


def test_other_threads_and_plain_calls_see_nothing() -> None:
    before = np.random.rand, RNG.normal
    tg.grad(from_module, 1.0)
    tg.grad(from_global, 1.0)
    assert before[0] is np.random.rand and type(RNG) is np.random.Generator


# -- a tape that does not fit gives back what it has drawn


LEGACY = np.random.RandomState(0)


def by_chance(p: Any) -> Any:
    return p if np.random.rand() < 0.5 else 3 * p


def by_a_global(p: Any) -> Any:
    return p if RNG.random() < 0.5 else 3 * p


def in_pairs(p: Any) -> Any:
    return p * LEGACY.randn() if LEGACY.randn() < 0.1 else 3 * p * LEGACY.randn()  # a generator keeps the second of a pair


def by_an_error(p: Any) -> Any:
    u = np.random.rand()
    try:
        return math.log(u - 0.5) * p
    except ValueError:
        return p * np.random.rand()


def until_accepted(p: Any) -> Any:
    while True:
        u = RNG.random()
        if u < 0.4:
            return u * p


def by_arguments(p: Any, rng: Any) -> Any:
    return (p if rng.normal() < 0.2 else 3 * p) * rng.normal()


def in_a_loop(p: Any) -> Any:
    x = p
    for _ in range(700):
        x = x + 0.01 * RNG.normal() * p - 0.001 * x
    return x if x > p else 2 * x


@pytest.mark.parametrize("f", [by_chance, by_a_global, in_pairs, by_an_error, until_accepted, by_arguments, in_a_loop])
def test_a_seed_gives_the_programs_own_numbers(f: Any) -> None:
    rng = np.random.default_rng(7)
    args = (2.0, rng) if f is by_arguments else (2.0,)
    step = tg.value_and_grad(f, argnums=None)
    torch = [tg.compile(f, backend="torch")] if find_spec("torch") else []

    def numbers(run: Any) -> list[float]:
        np.random.seed(0)
        LEGACY.seed(0)
        for generator, seed in ((RNG, 5), (rng, 7)):
            generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
        return [float(run(*args)) for _ in range(8 if f is in_a_loop else 40)]
    expected = numbers(f)
    for run in (tg.compile(f), lambda *x: step(*x)[0], lambda *x: tg.grad(f, *x)[0], *torch):
        assert numbers(run) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("f", [by_chance, by_a_global, by_an_error])
def test_a_tape_that_does_not_fit_draws_nothing(f: Any) -> None:
    tape = tg.trace(f, 2.0)[1]
    runs = (tape.play, tg.compile(tape), tg.gradtape(f, 2.0).play, tg.optimise(tape).play)
    refused = 0
    for run in runs:
        for _ in range(10):
            before = np.random.get_state(), RNG.bit_generator.state
            try:
                run(2.0)
            except (tg.GuardError, ValueError):
                refused += 1
                now = np.random.get_state(), RNG.bit_generator.state
                np.testing.assert_equal(now, before)
    assert refused


# -- generators that a program finds by another way than its own globals

HELPER = types.ModuleType("tapegrad_test_helper")
exec("""
import random
import numpy as np
from numpy.random import randn
rng = np.random.default_rng(3)
draw = rng.normal
held = (rng,)
class Simulation:
    of_all = rng
    def __init__(self):
        self.rng = rng
simulation = Simulation()
""", HELPER.__dict__)
HELPER.by_name = types.FunctionType((lambda: randn()).__code__, HELPER.__dict__)  # type: ignore[attr-defined,name-defined]  # noqa: F821
HELPER.by_global = types.FunctionType((lambda: rng.normal()).__code__, HELPER.__dict__)  # type: ignore[attr-defined,name-defined]  # noqa: F821
RECORDED = [lambda p: p * HELPER.by_name(), lambda p: p * HELPER.by_global(), lambda p: p * HELPER.simulation.rng.normal(),
            lambda p: p * HELPER.rng.normal()]
UNRECORDED = [lambda p: p * HELPER.draw(), lambda p: p * (2 if HELPER.held[0].integers(2) else 3), lambda p: p * HELPER.simulation.of_all.normal(),
              lambda p: p * random.random(), lambda p: p * HELPER.random.gauss(0.0, 1.0)]


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("f", [*RECORDED, *UNRECORDED])
def test_generators_are_found_or_a_replay_is_refused(f: Any) -> None:
    def numbers(run: Any) -> list[float]:
        np.random.seed(0)
        random.seed(0)
        HELPER.rng.bit_generator.state = np.random.default_rng(3).bit_generator.state
        return [float(run(2.0)) for _ in range(12)]
    step = tg.value_and_grad(f, argnums=None)
    assert numbers(f) == numbers(tg.compile(f)) == numbers(lambda x: step(x)[0]) == numbers(lambda x: tg.grad(f, x)[0])
    if f in RECORDED:
        tape, gradient = tg.trace(f, 2.0)[1], tg.gradtape(f, 2.0)
        for run in (tape.play, tg.compile(tape), lambda x: gradient.play(x)[0]):
            assert numbers(run) == numbers(f)
        assert type(HELPER.rng) is np.random.Generator
        return
    for tape in (tg.trace(f, 2.0)[1], tg.gradtape(f, 2.0), tg.primitivize(tg.gradtape(f, 2.0)), tg.optimise(tg.trace(f, 2.0)[1])):
        for run in (tape.play, tg.compile(tape)):
            with pytest.raises(tg.GuardError):
                run(2.0)
    with pytest.raises(tg.GuardError, match=r"draws from (a Generator|random), whose draws could not be recorded"):
        tg.trace(f, 2.0)[1].play(2.0)


MANY = [np.sin] * 100
HELPERS = types.SimpleNamespace(noise=random.random)
TABLE = {"noise": random.random}
sample = 0.5  # a global's name, and the name of what draws


def ramp(x: Any, n: int = 3) -> Any:
    return np.sum(x * np.arange(n)) + sample


def rises(x: Any) -> Any:
    return sum(ramp(x[i:]) for i in range(1)) + math.exp(x.mean())


def imports(x: Any) -> Any:
    import random
    return x * random.random()


@pytest.mark.parametrize("f", [ramp, rises, lambda x: np.linalg.norm(np.zeros(3) + x).astype(np.float64), lambda x, scale=2.0: {"y": x * scale}["y"]])
def test_generators_are_left_alone_where_nothing_could_draw(f: Any) -> None:
    found = Found(f, (np.ones(3),), {})
    assert found.silent and not found.states


@pytest.mark.parametrize("f", [
    from_global, from_module, imports, lambda x: x * random.random(), lambda x: x * np.random.sample(), lambda x: x * TABLE["noise"](),
    lambda x: x * HELPERS.noise(), lambda x: MANY[0](x), lambda x: x * vars(random)["random"](), lambda x, draw=random.random: x * draw(),
    lambda x: x * __import__("random").random(), lambda x: eval("x * random.random()"), lambda x: next(iter(HELPERS.__dict__.values()))() * x])
def test_generators_are_watched_where_something_could_draw(f: Any) -> None:
    found = Found(f, (np.ones(3),), {})
    assert not found.silent and found.states


@pytest.mark.parametrize("f", [imports, lambda x: x * TABLE["noise"](), lambda x: x * HELPERS.noise(), lambda x, draw=random.random: x * draw()])
def test_what_was_drawn_on_a_way_that_no_tape_knows_is_not_replayed(f: Any) -> None:
    tape = tg.trace(f, 2.0)[1]
    with pytest.raises(tg.GuardError):
        tape.play(2.0)


# -- where a program may keep a generator, and where what it draws may go


class _Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)


class _Meta(type):
    rng = np.random.default_rng(2)

    @property
    def number(cls) -> Any:
        return cls.rng.normal()


class _Classed(metaclass=_Meta):
    pass


PLACES: dict[str, Any] = {
    "slotted": _Slotted(), "partial": functools.partial(np.random.default_rng(3).normal, 0.0), "deque": collections.deque([random.Random(4)]),
    "space": SimpleNamespace(rng=np.random.default_rng(5)), "bits": np.random.PCG64(6), "seeds": np.random.SeedSequence(7), "rng": np.random.default_rng(8),
    "method": {"draw": random.Random(9).random}, "system": random.SystemRandom(), "mapped": map(np.random.default_rng(10).normal, itertools.repeat(0.0)),
}
HIDDEN = {
    "slots": lambda x: x * PLACES["slotted"].rng.normal(), "a partial function": lambda x: x * PLACES["partial"](), "a deque": lambda x: x * PLACES["deque"][0].random(),
    "a bit generator": lambda x: x * np.random.Generator(PLACES["bits"]).normal(), "its raw bits": lambda x: x * float(PLACES["bits"].random_raw()),
    "spawned": lambda x: x * PLACES["rng"].spawn(1)[0].normal(), "spawned seeds": lambda x: x * np.random.default_rng(PLACES["seeds"].spawn(1)[0]).normal(),
    "a metaclass": lambda x: x * _Classed.number, "a stored method": lambda x: x * PLACES["method"]["draw"](), "an iterator": lambda x: x * next(PLACES["mapped"]),
    "a namespace": lambda x: x * PLACES["space"].rng.normal(), "a shuffled list": lambda x: (values := list(range(999)), PLACES["rng"].shuffle(values), x * values[0])[2],
}


@pytest.mark.filterwarnings("ignore::tapegrad.compile.path.RetraceWarning")
@pytest.mark.parametrize("name", HIDDEN)
def test_draws_are_made_again_or_refused_wherever_the_generator_is(name: str) -> None:
    f = HIDDEN[name]
    for replay in (tg.trace(f, 1.5)[1].play, lambda x: tg.gradtape(f, x).play(x)[0]):
        try:
            found = [float(replay(1.5)) for _ in range(3)]
        except tg.GuardError as err:
            assert "draws from" in str(err)
        else:
            assert len(set(found)) == 3
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    assert len({float(step(1.5)[0]) for _ in range(4)}) == 4


def drawing(x: Any, rng: Any) -> Any:
    y = x + rng.normal()
    return y if x > 0 else -y


def test_a_replay_that_does_not_fit_draws_nothing_before_the_first_trace_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "tape").write_bytes(pickle.dumps(tg.trace(drawing, 1.0, np.random.default_rng(0))[1]))
    code = f"""
import pickle, numpy as np, tapegrad as tg
tape, rng = pickle.loads(open({str(tmp_path / "tape")!r}, "rb").read()), np.random.default_rng(1)
before = rng.bit_generator.state
try:
    tape.play(-1.0, rng)
except tg.GuardError:
    print(rng.bit_generator.state == before)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert out.stdout == "True\n"


def test_a_generator_of_the_systems_does_no_harm() -> None:
    assert tg.grad(lambda x: x * 2.0 + 0.0 * PLACES["system"].random(), 1.0)[0] == 2.0


@pytest.mark.parametrize("draw", [
    lambda rng, out: rng.random(out=out), lambda rng, out: rng.random(3, np.float64, out), lambda rng, out: rng.standard_normal(out=out),
    lambda rng, out: rng.standard_exponential(None, np.float64, "inv", out), lambda rng, out: rng.standard_gamma(2.0, out=out), lambda rng, out: rng.random(None, np.float64, out),
])
def test_numbers_are_drawn_into_an_array(draw: Any) -> None:
    def f(x: Any, rng: Any) -> Any:
        out = np.zeros(3)
        draw(rng, out)
        return np.sum(x * out)
    expected = f(2.0, np.random.default_rng(0))
    value, (_, dx, _) = tg.grad(f, 2.0, np.random.default_rng(0))
    assert value == expected and dx == expected / 2.0
    tape = tg.trace(f, 2.0, np.random.default_rng(0))[1]
    assert tape.play(2.0, np.random.default_rng(0)) == expected != tape.play(2.0, np.random.default_rng(1))


def test_what_is_shuffled_in_place_is_the_programs() -> None:
    def f(x: Any, rng: Any) -> Any:
        parts = [x[0], x[1], x[2], x[3]]
        rng.shuffle(parts)
        rng.shuffle(order)
        return parts[0] * 2.0 + parts[1] * order[0]
    x = np.array([1.0, 2.0, 3.0, 4.0])
    order = np.arange(1.0, 9.0)
    expected = f(x, np.random.default_rng(0))
    order = np.arange(1.0, 9.0)
    assert tg.grad(f, x, np.random.default_rng(0), captured=False)[0] == expected


@pytest.mark.parametrize("f", [
    lambda x: (v := [1.0, 2.0, 3.0, 5.0], rng := np.random.default_rng(4), rng.shuffle(v), x * v[0] + rng.random())[3],
    lambda x: (v := [1.0, 2.0, 3.0, 5.0], rng := RandomState(4), rng.shuffle(v), x * v[0] + rng.rand())[3],
    lambda x: (v := list("abcd"), rng := RandomState(4), rng.shuffle(v), x * ord(v[0]) + rng.rand())[3],
])
def test_a_generator_that_is_made_inside_shuffles_what_is_not_traced(f: Any) -> None:
    step = tg.value_and_grad(f)
    assert [step(x)[0] for x in (1.0, 2.0, 3.0, 4.0)] == [f(x) for x in (1.0, 2.0, 3.0, 4.0)]
    assert step.stats.hits == 3


def test_a_random_state_made_inside_is_seeded_again() -> None:
    def f(x: Any) -> Any:
        rng = np.random.RandomState(seed=3)
        w = rng.rand(3)
        w /= np.sqrt(np.sum(w * w))
        w += x
        assert isinstance(rng, np.random.RandomState) and type(rng) is np.random.RandomState
        return (w * w).sum() * RandomState(5).normal(x[0], 2.0) + rng.randint(9)

    def given_bits(x: Any) -> Any:
        return (np.random.RandomState(np.random.MT19937(5)).rand(3) * x).sum()
    for g in (f, given_bits):
        step = tg.value_and_grad(g)
        for k in range(5):
            x = np.arange(3.0) + k
            assert step(x)[0] == pytest.approx(g(x), rel=1e-14)
        assert step.stats.hits == 4
    check_grads(f, np.arange(3.0))
    tape = tg.trace(f, np.arange(3.0))[1]
    assert tape.play(np.ones(3)) == pytest.approx(f(np.ones(3)))
    with pytest.raises(tg.UnknownFunction, match="gamma with a traced parameter"):
        tg.grad(lambda x: np.random.RandomState(0).gamma(x), 2.0)
    mean = tg.grad(lambda x: x * np.random.RandomState(0).multivariate_normal(np.zeros(2), np.eye(2)).sum(), 2.0)[0]
    assert mean == 2.0 * np.random.RandomState(0).multivariate_normal(np.zeros(2), np.eye(2)).sum()


def test_states_of_twisters_are_read_from_memory_as_numpy_gives_them() -> None:
    x = np.random.RandomState(3)
    for _ in range(3):
        found, expected = state_of_legacy(x), x.get_state(legacy=False)
        assert str(found) == str(expected) and np.array_equal(found["state"].pop("key"), expected["state"].pop("key"))
        before = state_of_legacy(x)
        drawn = x.standard_normal(700).tolist() + [x.standard_normal()]
        x.set_state(before)
        assert x.standard_normal(700).tolist() + [x.standard_normal()] == drawn
    assert str(state_of_bits(np.random.PCG64(1))) == str(np.random.PCG64(1).state)
    assert timeit(lambda: state_of_legacy(x), number=50) < 0.5 * timeit(lambda: x.get_state(legacy=False), number=50)
