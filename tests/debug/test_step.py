"""step: one operation at a time, forwards and back, and every value what it was."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import tapegrad as tg
from tapegrad.debug.execution import name_of
from tapegrad.debug.step import PROMPT, Stepper
from tests.golden.debugged import X, layers, session, tape
from tests.golden.texts import on_console


def fill(x: Any) -> Any:
    y = np.zeros(len(x))
    row = y[1:]
    for i in range(len(x)):
        y[i] = x[i] ** 2
    y *= 2
    row += y[0]
    y[0] = 3.0
    return (y * y[::-1]).sum()


def f(a: float, b: float) -> float:
    c = b * b
    return a / (a + c)


def text(value: Any) -> str:
    """Write a value in full, so that any change of it shows."""
    return repr([text(part) for part in value]) if isinstance(value, tuple) else repr(value)


@pytest.mark.parametrize("make", [lambda *a: tg.trace(fill, *a)[1], lambda *a: tg.gradtape(fill, *a),
                                  lambda *a: tg.primitivize(tg.gradtape(fill, *a))])
def test_values_seen_when_stepping_back_are_those_seen_first(make: Any) -> None:
    x = np.array([1.0, -2.0, 3.0, 0.5])
    played = make(np.ones(4))
    stepper = played.step(x)
    seen = {stepper.here: text(copy.deepcopy(stepper.value) if "pullback" not in name_of(stepper.here) else stepper.value)}
    while not stepper.done:
        op = stepper.forward()
        seen[op] = text(stepper.value)
    result = played.play(x)
    assert text(stepper.value) == text(result) or isinstance(result, float)
    assert len(seen) == len(played)
    for op, before in list(seen.items())[::-1]:
        assert stepper.here is op and text(stepper.value) == before, op
        stepper.back()
    assert x.tolist() == [1.0, -2.0, 3.0, 0.5]
    while not stepper.done:
        stepper.forward()
    assert {op: text(value) for op, value in stepper.values.items()} == seen


def test_here_value_values_and_phase() -> None:
    gradient = tg.gradtape(f, 2.0, 3.0)
    stepper = gradient.step(4.0, 6.0)
    assert isinstance(stepper, Stepper) and stepper.here is gradient[1] and stepper.value is f and not stepper.done
    assert stepper.forward() is gradient[2] and stepper.value == 4.0
    assert stepper.forward(3) is gradient[5] and stepper.value == 36.0 and list(stepper.values) == gradient.ops[:5]
    assert stepper.phase == "forward" and stepper.until("accumulate").note == "accumulate d%2" and stepper.phase == "backward"
    assert stepper.goto(-1) is gradient.result and stepper.done and stepper.value == tg.grad(f, 4.0, 6.0)
    assert stepper.forward() is gradient.result  # stays
    assert stepper.goto(5) is gradient[5] and stepper.back(100) is gradient[1] and stepper.back() is gradient[1]
    assert stepper.goto(gradient[8]) is gradient[8] and stepper.goto(tg.V(3)) is gradient[3] and stepper.forward(0) is gradient[3]
    with pytest.raises(IndexError):
        stepper.goto(99)
    with pytest.raises(tg.MalformedTape):
        stepper.goto(tg.call(f, 1.0))
    assert stepper.here is gradient[3] and repr(stepper) == "<Stepper of f at %3 = input b>"


def test_until() -> None:
    gradient = tg.gradtape(f, 2.0, 3.0)
    stepper = gradient.step()
    line = f.__code__.co_firstlineno
    assert name_of(stepper.until("divide")) == "divide" and stepper.phase == "forward"
    stepper.goto(1)
    assert stepper.until(line + 2).where.source == "return a / (a + c)" and stepper.here.id == 7
    stepper.goto(1)
    for place in (f"test_step.py:{line + 1}", f"{__file__}:{line + 1}", f"debug/test_step.py:{line + 1}"):
        assert stepper.until(place).id == 4
        stepper.goto(1)
    assert stepper.until(lambda op, value: isinstance(value, float) and value > 10.0).id == 8
    here = stepper.here
    for nothing in ("sinus", 9999, f"step.py:{line + 1}", lambda op, value: False):
        assert stepper.until(nothing) is None and stepper.here is here
    with pytest.raises(tg.ArgumentError, match="not a place on a tape"):
        stepper.until(1.5)


def test_an_error_leaves_it_where_it_was_and_comes_again() -> None:
    stepper = tg.trace(lambda a, k: np.linalg.inv(a * k).sum(), np.eye(2), 2.0)[1].step(np.eye(2), 0.0)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            stepper.forward(100)
        assert isinstance(caught.value, tg.ReplayError) and name_of(stepper.here) == "multiply" and (stepper.value == 0).all()
    assert stepper.back().label == "k" and stepper.value == 0.0  # what has been played is still there


def test_a_guard_that_differs_is_reached_and_no_further() -> None:
    def branch(x: Any) -> Any:
        y = x * 2.0
        return y if y > 0 else -y
    stepper = tg.trace(branch, 1.0)[1].step(-1.0)
    with pytest.raises(tg.GuardError):
        stepper.forward(100)
    assert stepper.value is False or name_of(stepper.here) == "greater"


def test_random_numbers_are_those_recorded() -> None:
    def noisy(x: Any) -> Any:
        return (x + np.random.default_rng().normal(size=3)).sum()
    value, noisy_tape = tg.trace(noisy, np.ones(3))
    stepper = noisy_tape.step()
    assert stepper.goto(-1) is noisy_tape.result and stepper.value == value


def test_without_values_there_must_be_arguments() -> None:
    bare = tg.Tape()
    x = bare.push(tg.Input())
    bare.result = bare.push(tg.call(np.negative, x))
    with pytest.raises(tg.ArgumentError, match="without values"):
        bare.step()
    assert bare.step(3.0).goto(-1) is bare.result
    with pytest.raises(tg.ArgumentError):
        bare.step(1.0, 2.0)


# -- on a terminal


def typed(played: tg.Tape, *commands: str) -> str:
    """Return what a terminal shows of the commands."""
    shown, words = io.StringIO(), iter(commands)
    played.step().interact(lambda prompt: next(words), Console(file=shown, width=100))
    return shown.getvalue()


def test_the_terminal_shows_where_it_stands() -> None:
    shown = typed(tape(layers), "n 4", "", "p", "q")
    assert "--> " in shown and "layers: %5 of 45, forward, at debugged.py:29 in layers" in shown
    assert "layers: %6 of 45" in shown and shown.count("%5 of 45") == 2 and "29 |     h = x @ w + b" in shown
    assert "[0., 1., 2.]" in shown


@pytest.mark.parametrize(("commands", "words"), [
    (["u maximum"], "%11 of 45"), (["until 30"], "%11 of 45"), (["u debugged.py:30"], "%11 of 45"), (["g 20"], "%20 of 45"), (["g %20"], "%20 of 45"),
    (["g -1"], "%45 of 45, backward"), (["n 500"], "%45 of 45"), (["n 500", "n"], "the last operation"), (["p"], "the first operation"),
    (["u nowhere"], "Nothing ahead is nowhere."), (["g 99"], "%99 is not on this tape"), (["g"], "n [count]"), (["u"], "n [count]"),
    (["n x"], "n [count]"), (["help"], "n [count]"), (["g 2", "v"], "array([0., 1., 2.])"), (["next 2"], "%3 of 45"), (["[bold]"], "n [count]")])
def test_commands(commands: list[str], words: str) -> None:
    assert words in typed(tape(layers), *commands, "q")


@pytest.mark.parametrize("error", [EOFError, KeyboardInterrupt])
def test_the_end_of_input_ends_it(error: type[BaseException]) -> None:
    def ask(prompt: str) -> str:
        assert prompt == PROMPT
        raise error
    tape(layers).step().interact(ask, Console(file=io.StringIO()))


def test_an_error_of_the_program_is_shown_and_the_terminal_goes_on() -> None:
    played = tg.trace(lambda a, k: np.linalg.inv(a * k).sum(), np.eye(2), 2.0)[1]
    shown, words = io.StringIO(), iter(["n 50", "p", "n 50", "q"])
    played.step(np.eye(2), 0.0).interact(lambda prompt: next(words), Console(file=shown, width=120))
    assert shown.getvalue().count("LinAlgError: Singular matrix") == 2 and "--> " in shown.getvalue()


def test_the_console_is_richs_own_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    words = iter(["n", "q"])
    tape(layers).step().interact(lambda prompt: next(words))
    assert "layers: %2 of 45" in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits(width: int) -> None:
    stepper = tape(layers).step()
    while not stepper.done:
        stepper.forward()
        for shown in (stepper.format(width), on_console(stepper, width), on_console(stepper, width, "ascii")):
            assert all(len(line) <= width for line in shown.splitlines()) and shown.count("-->") == 1
    assert all(len(line) <= width for line in session(width, "n 100").splitlines())


@given(st.lists(st.one_of(st.integers(-6, 6), st.sampled_from(["sum", "multiply", "maximum"])), max_size=12))
@settings(max_examples=30, deadline=None)
def test_any_walk_sees_what_a_straight_run_sees(moves: list[Any]) -> None:
    gradient = tape(layers)
    straight = gradient.step()
    straight.goto(-1)
    stepper = gradient.step()
    for move in moves:
        at = stepper.here.id
        if isinstance(move, str):
            op = stepper.until(move)
            assert (op is None and stepper.here.id == at) or (name_of(op) == move and op.id > at)  # type: ignore[arg-type]
        elif move < 0:
            assert stepper.back(-move).id == max(at + move, 1)
        else:
            assert stepper.forward(move).id == min(at + move, len(gradient))
        assert text(stepper.value) == text(straight.values[stepper.here])
    assert X.tolist() == [0.0, 1.0, 2.0]
