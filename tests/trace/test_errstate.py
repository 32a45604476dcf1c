"""np.errstate inside a traced function: a replay never passes where the program would have raised."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

GOOD, BAD = np.array([1.0, 2.0]), np.array([0.0, 2.0])


def caught(x: Any) -> Any:
    with np.errstate(all="raise"):
        try:
            y = np.log(x).sum()
        except FloatingPointError:
            y = x.sum() * 10.0
    return y


def strict(x: Any) -> Any:
    with np.errstate(divide="raise", over="ignore"):
        return np.log(x).sum()


@np.errstate(divide="raise")
def _unseen(x: Any) -> Any:
    return x


def loose(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.log(x).sum() + _unseen(x)[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("make", [tg.trace, lambda f, x: (None, tg.gradtape(f, x)), lambda f, x: (None, tg.optimise(tg.trace(f, x)[1]))])
def test_a_replay_is_refused(make: Any) -> None:
    for f in (caught, strict):
        tape = make(f, GOOD)[1]
        tape.play(GOOD + 1.0)
        with pytest.raises(tg.GuardError, match="no FloatingPointError from log"):
            tape.play(BAD)
        with pytest.raises(tg.GuardError):
            tg.compile(tape)(BAD)
    tape = make(caught, BAD)[1]
    tape.play(BAD)
    with pytest.raises(tg.GuardError, match="recorded with FloatingPointError"):
        tape.play(GOOD)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_compiled_functions_take_the_programs_path() -> None:
    value, step = tg.compile(caught), tg.value_and_grad(caught, argnums=None)
    for x in (GOOD, GOOD, BAD, BAD, GOOD, BAD):
        assert value(x) == caught(x)
        (found, (_, dx)), (expected, (_, right)) = step(x), tg.grad(caught, x)
        assert found == expected and dx.tolist() == right.tolist()
    assert value.stats.traces == step.stats.traces == 2  # type: ignore[attr-defined]
    for fast in (tg.compile(strict), tg.value_and_grad(strict, argnums=None)):
        fast(GOOD), fast(GOOD)
        with pytest.raises(FloatingPointError):
            fast(BAD)


def tried(x: Any) -> Any:
    try:
        np.log(x)
    except FloatingPointError:
        return x.sum() * 10.0
    return x.sum()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_call_whose_value_nobody_needs_raises_all_the_same() -> None:
    value, step = tg.compile(tried), tg.value_and_grad(tried, argnums=None)
    for divide in ("ignore", "ignore", "raise", "ignore", "raise", "ignore"):
        with np.errstate(divide=divide):  # type: ignore[arg-type]
            assert value(BAD) == tried(BAD) == step(BAD)[0]
    assert value.stats.hits > 1 < step.stats.hits  # type: ignore[attr-defined]


def test_what_only_silences_leaves_no_guard() -> None:
    assert not [op for op in tg.trace(loose, GOOD)[1] if op.kind == "guard"]
    before = np.geterr()
    assert tg.trace(loose, GOOD)[0] == loose(GOOD) and np.geterr() == before


def test_settings_nest_and_end() -> None:
    def nested(x: Any) -> Any:
        with np.errstate(over="raise"):
            with np.errstate(over="ignore"):
                y = np.exp(x)
            y = y * 2.0
        return y + 1.0
    tape = tg.trace(nested, GOOD)[1]
    assert [op.expected.fn for op in tape if op.kind == "guard"] == [tg.ops.multiply]  # type: ignore[attr-defined]


def test_settings_for_the_whole_process_are_refused() -> None:
    before = np.geterr()
    with pytest.raises(tg.UnknownFunction, match="seterr"):
        tg.grad(lambda x: np.seterr(all="raise") and x, 1.0)
    assert np.geterr() == before and tg.grad(lambda x: x * len(np.seterr()), 1.0)[0] == 4.0


def test_a_context_and_a_file_keep_the_guards(tmp_path: Path) -> None:
    class Kept(tg.Context):
        def record(self, tape: tg.Tape, call: tg.Call) -> tg.Variable:
            return super().record(tape, call)
    for ctx in (Kept(), tg.Context(paths=True)):
        tape = tg.trace(strict, GOOD, ctx=ctx)[1]
        tape.save(tmp_path / "strict.tape")
        for again in (tape, tg.load(tmp_path / "strict.tape")):
            with pytest.raises(tg.GuardError, match="no FloatingPointError"), np.errstate(all="ignore"):
                again.play(BAD)


def overflows(a: Any) -> Any:
    """Compute with elements of an array, which compiled code computes as Python's numbers."""
    try:
        y = a[0] * a[1] + a[2]
    except (FloatingPointError, RuntimeWarning):
        y = a[2] * 7.0
    return 1.0 / y


@pytest.mark.parametrize("make", [lambda tape, path: tape, lambda tape, path: (tape.save(path), tg.load(path, primitives={"builtins:RuntimeWarning": RuntimeWarning}))[1], lambda tape, path: tg.compile(tape)])
def test_filters_around_a_call_are_those_of_each_call(make: Any, tmp_path: Path) -> None:
    bad = np.array([1e200, 1e200, 3.0])
    with warnings_are("error"):
        tape = make(tg.trace(overflows, bad)[1], tmp_path / "kept.tape")
        run = getattr(tape, "play", tape)
        assert run(bad) == overflows(bad)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(tg.GuardError):
            run(bad)
    assert not said


@contextlib.contextmanager
def warnings_are(action: Any) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        yield


@pytest.mark.parametrize("errors", [lambda: np.errstate(all="raise"), lambda: warnings_are("error")])
def test_settings_around_a_call_are_the_programs(errors: Any) -> None:
    good, bad = np.array([1.0, 2.0, 3.0]), np.array([1e200, 1e200, 3.0])
    for fast in (tg.compile(overflows), tg.value_and_grad(overflows, argnums=None)):
        for x, strict in ((good, False), (good, False), (bad, False), (bad, True), (good, True), (bad, True), (bad, False), (bad, True), (good, False)):
            with warnings_are("ignore"), errors() if strict else contextlib.nullcontext():
                found, expected = fast(x), overflows(x)
            assert (found[0] if isinstance(found, tuple) else found) == expected


@pytest.mark.parametrize("set_by", ["np.errstate(invalid='call', call=HEARD.append)", "np.errstate(all='log', call=HEARD)", "np.seterr(divide='call')"])
def test_functions_that_numpy_would_call_are_refused(set_by: str) -> None:
    space: dict[str, Any] = {"np": np, "HEARD": []}
    exec(f"def f(x):\n    with {set_by}:\n        y = np.sqrt(x)\n    return y.sum() * (1 + len(HEARD))\n", space)
    with pytest.raises(tg.UnknownFunction, match="a replay would not call it"):
        tg.grad(space["f"], GOOD)


@pytest.mark.parametrize("f", [
    lambda x: np.r_[x[0], x].sum(), lambda x: (np.stack([x, x]).T.reshape(-1) * np.arange(4.0)).sum(), lambda x: np.outer(x.reshape(2, 1), x[:, None].T).sum(),
    lambda x: np.concatenate([x[None], x.reshape(1, -1)]).sum(), lambda x: np.expand_dims(x, 0) @ np.transpose(x)])
def test_views_are_used_where_warnings_are_errors(f: Any) -> None:
    def strictly(x: Any) -> Any:
        with np.errstate(all="raise"):
            y = np.zeros(2)
            y[:] = x
            return np.sum(f(y) / x[0])
    for step in (tg.grad, lambda f, *args: tg.value_and_grad(f, argnums=None)(*args)):
        value, (_, dx) = step(strictly, GOOD)
        assert value == pytest.approx(strictly(GOOD)) and np.isfinite(dx).all()
    with np.errstate(all="ignore"), pytest.raises(tg.GuardError):
        tg.trace(strictly, GOOD)[1].play(BAD)
