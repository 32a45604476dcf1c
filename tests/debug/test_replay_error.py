"""What is raised while a tape is played, or in a pullback: the error names the operation, and is one of the original's class."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import like


class Odd(Exception):
    """An error whose class cannot be called as others are."""

    def __init__(self, code: int, *, reason: str) -> None:
        self.code = code
        super().__init__(f"{code}: {reason}")


class Unmakable(Exception):
    def __new__(cls, code: int, reason: str, *more: str) -> Any:
        if more:
            raise TypeError("two arguments")
        return super().__new__(cls, code, reason)


def inverse(a: Any, k: float) -> Any:
    b = a * k
    return np.linalg.inv(b + a).sum()


ARROW = "  --> "


@pytest.mark.parametrize("make", [
    lambda: tg.trace(inverse, np.eye(2), 2.0)[1], lambda: tg.gradtape(inverse, np.eye(2), 2.0),
    lambda: tg.primitivize(tg.gradtape(inverse, np.eye(2), 2.0))])
def test_a_replay_names_the_operation_the_line_and_the_values(make: Callable[[], tg.Tape]) -> None:
    tape = make()
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as caught:
        tape.play(np.eye(2), -1.0)
    err = caught.value
    assert isinstance(err, tg.ReplayError) and isinstance(err, tg.TapeError)
    assert type(err.__cause__) is np.linalg.LinAlgError and not isinstance(err.__cause__, tg.TapeError)
    assert err.where.file == __file__ and "np.linalg.inv(b + a)" in str(err) and "try: " in str(err)
    at = [line for line in str(err).splitlines() if line.startswith(ARROW)]
    assert len(at) == 1 and "inv" in at[0]
    lines = str(err).splitlines()
    assert "given" in lines[lines.index(at[0]) + 1] and "[[0., 0.], [0., 0.]]" in lines[lines.index(at[0]) + 1]
    assert len(err.around.splitlines()) <= 3 + 1 + 1 + 3


def test_the_first_and_the_last_operation_have_neighbours_on_one_side() -> None:
    tape = tg.trace(lambda x: np.linalg.inv(x), np.eye(2))[1]
    with pytest.raises(tg.ReplayError) as caught:
        tape.play(np.zeros((2, 2)))
    assert [line.strip().split(" = ")[0].lstrip("-> ") for line in caught.value.around.splitlines() if " = " in line] == ["%1", "%2", "%3"]


def failing(error: Callable[[], Exception]) -> Callable[..., Any]:
    """Return a program with a rule whose pullback raises."""
    @tg.primitive
    def cube(x: Any) -> Any:
        return x ** 3

    @tg.rrule(cube)
    def _(x: Any) -> Any:
        def cube_pullback(dy: Any) -> Any:
            raise error()
        return cube(x), cube_pullback

    def program(x: Any) -> Any:
        y = cube(x)
        return y + x
    return program


SWEEPS = [tg.grad, tg.gradient, tg.gradtape, lambda f, x: tg.pullback(f, x)[1](1.0)]


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("error", [
    lambda: Odd(3, reason="so"), lambda: KeyError("k"), lambda: FloatingPointError("f"), lambda: FileNotFoundError(2, "no file", "name"),
    lambda: UnicodeDecodeError("ascii", b"x", 0, 1, "why"), lambda: ZeroDivisionError(), lambda: RuntimeWarning("w")])
def test_a_pullback_that_raises_is_named_in_every_sweep(sweep: Any, error: Callable[[], Exception]) -> None:
    original = error()
    with pytest.raises(type(original)) as caught:
        sweep(failing(error), 2.0)
    err: Any = caught.value
    assert isinstance(err, tg.ReplayError) and type(err.__cause__) is type(original)
    assert "pullback of" in err.what and "cube" in err.what and err.where.source == "y = cube(x)"
    assert str(err).startswith(f"{type(original).__name__}") and str(original)[:5].strip("'") in str(err)
    assert not isinstance(original, Odd) or err.code == 3  # what a handler reads


def test_a_pullback_that_raises_while_it_is_traced_through() -> None:
    calls: list[int] = []

    def error() -> Exception:
        raise Odd(4, reason="traced")

    @tg.primitive
    def twice(x: Any) -> Any:
        return 2 * x

    @tg.rrule(twice)
    def _(x: Any) -> Any:
        def twice_pullback(dy: Any) -> Any:
            calls.append(1)
            return (2 * dy,) if len(calls) == 1 else error()
        return twice(x), twice_pullback
    tape = tg.gradtape(lambda x: twice(x), 2.0)
    with pytest.raises(Odd, match="4: traced") as caught:
        tg.primitivize(tape)
    assert isinstance(caught.value, tg.ReplayError) and "pullback of" in str(caught.value)


def test_errors_of_tapegrads_own_stay_as_they_are() -> None:
    def branch(x: Any) -> Any:
        return x if x > 0 else -x
    tape = tg.trace(branch, 1.0)[1]
    with pytest.raises(tg.GuardError) as guard:
        tape.play(-1.0)
    with pytest.raises(tg.ArgumentError) as argument:
        tape.play([1.0])
    assert type(guard.value) is tg.GuardError and type(argument.value) is tg.ArgumentError

    @tg.primitive
    def ruleless(x: Any) -> Any:
        return x
    with pytest.raises(tg.MissingRule) as missing:
        tg.grad(lambda x: ruleless(x), 1.0)
    assert type(missing.value) is tg.MissingRule


def test_an_error_of_a_replay_inside_a_rule_names_the_inner_operation() -> None:
    inner = tg.trace(lambda a: np.linalg.inv(a).sum(), np.eye(2))[1]

    @tg.primitive
    def outer(x: Any) -> Any:
        return x

    @tg.rrule(outer)
    def _(x: Any) -> Any:
        return x, lambda dy: (inner.play(np.zeros((2, 2))),)
    with pytest.raises(np.linalg.LinAlgError) as caught:
        tg.grad(lambda x: outer(x) * 2, 1.0)
    assert isinstance(caught.value, tg.ReplayError) and "inv" in caught.value.what and ARROW in str(caught.value)


def test_a_class_that_cannot_be_joined_leaves_a_plain_replay_error() -> None:
    for error in (Unmakable(1, "why"), StopIteration("end")):
        with pytest.raises(tg.ReplayError) as caught:
            tg.grad(failing(lambda error=error: error), 2.0)  # type: ignore[misc]
        assert type(caught.value) is tg.ReplayError and caught.value.__cause__ is error


def test_it_can_be_caught_compared_and_pickled() -> None:
    tape = tg.trace(inverse, np.eye(2), 2.0)[1]
    errors = []
    for _ in range(2):
        with pytest.raises(tg.ReplayError) as caught:
            tape.play(np.eye(2), -1.0)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1]) is type(like(np.linalg.LinAlgError, "what"))
    again = pickle.loads(pickle.dumps(errors[0]))
    assert type(again) is type(errors[0]) and str(again) == str(errors[0]) and again.where == errors[0].where


def test_a_program_that_catches_the_error_of_an_inner_replay() -> None:
    inner = tg.trace(lambda a: np.linalg.inv(a).sum(), np.eye(2))[1]

    def guarded(a: Any) -> Any:
        try:
            return inner.play(a) * 2.0
        except np.linalg.LinAlgError:
            return a.sum() * 5.0
    assert tg.gradient(guarded, np.zeros((2, 2)))[0].tolist() == [[5.0, 5.0], [5.0, 5.0]]
    tape = tg.trace(guarded, np.zeros((2, 2)))[1]
    assert tape.play(np.zeros((2, 2))) == 0.0
    with pytest.raises(tg.GuardError, match="LinAlgError"):
        tape.play(np.eye(2))


def test_printing_of_a_replay_goes_on_to_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    tape = tg.trace(inverse, np.eye(2), 2.0)[1]
    with pytest.raises(tg.ReplayError):
        tape.play(np.eye(2), -1.0, debug=True)
    out = capsys.readouterr().out.splitlines()
    assert [line.split(" = ")[0] for line in out] == ["%1", "%2", "%3", "%4", "%5"]
