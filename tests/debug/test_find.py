"""find: the first operation whose value went wrong, forward or backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.debug.execution import name_of
from tapegrad.debug.values import element, figure, is_zero, norm, numbers
from tapegrad.numbers.cotangents import Accumulator
from tapegrad.show.line import reverse_start
from tests.golden.debugged import X, masked, root
from tests.golden.texts import on_console

SAFE = np.array([1.0, 2.0, 3.0])
HOLE = np.array([1.0, np.nan, 3.0])


def traced(f: Any, *args: Any) -> tg.Tape:
    with np.errstate(all="ignore"):
        return tg.trace(f, *args)[1]


def swept(f: Any, *args: Any) -> tg.Tape:
    with np.errstate(all="ignore"):
        return tg.gradtape(f, *args)


def flat(f: Any, *args: Any) -> tg.Tape:
    with np.errstate(all="ignore"):
        return tg.primitivize(tg.gradtape(f, *args))


MAKERS = [traced, swept, flat]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("replay", [False, True])
def test_zero_times_infinity_in_a_masked_branch(make: Callable[..., tg.Tape], replay: bool) -> None:
    tape = make(masked, SAFE if replay else X)
    found = tape.find("nan", *[X] if replay else [])
    assert found.phase == "forward" and name_of(found.operation) == "multiply" and found.tape is tape and found.operation in tape
    assert found.where.source == "y = np.where(x > 0, x * np.log(x), 0.0)" and found.where.function == "masked"
    assert np.isnan(found.value).tolist() == [True, False, False]
    assert "nan in 1 of 3 elements, first at [0]: multiply(0.0, -inf)" in found.message


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("replay", [False, True])
def test_a_sum_of_exponentials_in_a_masked_branch_goes_wrong_backward(make: Callable[..., tg.Tape], replay: bool) -> None:
    found = make(root, SAFE if replay else X).find("nan", *[X] if replay else [])
    assert found.phase == "backward" and found.operation.id > reverse_start(found.tape)
    assert found.where.source == "return np.where(x > 0, np.logaddexp(np.log(x), -np.inf), 0.0).sum()"
    assert np.isnan(found.value).tolist() == [True, False, False]
    if make is not flat:
        assert "pullback of logaddexp" in found.message and "dy=0.0" in found.message and "np.where(mask" in found.try_
        assert "try: " in str(found) and "debugged.py:" in str(found)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kind", ["nan", "inf", "large", "zero-gradient"])
def test_nothing_where_there_is_nothing(make: Callable[..., tg.Tape], kind: str) -> None:
    tape = make(masked, SAFE)
    assert tape.find(kind) is None and tape.find(kind, SAFE) is None


def test_no_warning_is_raised_by_looking() -> None:
    tapes = [make(masked, X) for make in MAKERS]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tape in tapes:
            assert tape.find("nan", X) and tape.find("nan") and not tape.find("large", X + 1)


def test_inf_and_large() -> None:
    tape = tg.trace(lambda x: np.exp(x * 30.0), 1.0)[1]
    assert tape.find("inf") is None
    found = tape.find("large")
    assert name_of(found.operation) == "exp" and found.value == np.exp(30.0) and "1.069e+13 (above 1e+10): exp(30.0)" in found.message
    assert tape.find("large", limit=1e15) is None and tape.find("large", 0.1) is None
    assert tape.find("large", limit=25.0).operation.val == 30.0
    with np.errstate(all="ignore"):
        assert tape.find("inf", 100.0).phase == "forward"
    steep = tg.trace(lambda x: np.log(x) * 1e-6, 1e-12)[1]  # 1/x backward: 1e-6 * 1e12 = 1e6
    assert steep.find("large", limit=1e5).phase == "backward" and steep.find("large", 1e-300).phase == "backward"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_input_is_named(bad: float) -> None:
    kind = "nan" if np.isnan(bad) else "inf"
    tape = tg.trace(lambda x, w: (x * w).sum(), np.ones(3), np.ones(3))[1]
    found = tape.find(kind, np.ones(3), np.array([1.0, 2.0, bad]))
    assert isinstance(found.operation, tg.Input) and found.operation.label == "w" and found.where is None
    assert "the input w holds" in found.message and "first at [2]" in found.message


def test_what_is_nan_on_purpose_is_left_out() -> None:
    def fill(x: Any, n: int) -> Any:
        y = np.full(3, np.nan)
        for i in range(n):
            y[i] = x[i] * 2.0
        return y.sum()
    assert tg.trace(fill, SAFE, 3)[1].find("nan") is None
    assert tg.gradtape(fill, SAFE, 3).find("nan", SAFE, 3) is None
    forgotten = tg.trace(fill, SAFE, 2)[1].find("nan")  # the result is nan, and comes from there
    assert name_of(forgotten.operation) == "full"

    def least(x: Any) -> Any:
        best = np.inf
        for i in range(3):
            best = np.minimum(best, x[i])
        return best
    assert tg.trace(least, SAFE)[1].find("inf") is None

    tape = tg.trace(lambda x: np.where(np.isnan(HOLE), 0.0, x * HOLE).sum(), SAFE)[1]
    assert tape.find("nan").phase == "backward" and "x2=nan" in tape.find("nan").message


def test_writes_in_place_do_not_blame_what_came_before() -> None:
    def late(x: Any) -> Any:
        y = np.zeros(3)
        y[0] = x[0]
        y[1] = x[1]
        y[2] = np.log(x[2] - 3.0) - np.log(x[2] - 3.0)
        return y.sum()
    for make in MAKERS:
        tape = make(late, SAFE)
        for args in ((), (SAFE,)):
            found = tape.find("nan", *args)
            assert name_of(found.operation) == "subtract" and "subtract(-inf, -inf)" in found.message
    assert name_of(traced(lambda x: _write_nan(x), SAFE).find("nan").operation) == "setitem"


def _write_nan(x: Any) -> Any:
    y = x * 2.0
    y[1] = np.nan
    return y.sum()


def test_scalars_and_complex_numbers_and_float32() -> None:
    with np.errstate(all="ignore"):
        assert "divide(0.0, 0.0)" in traced(lambda x: np.sin(x) / x, np.float64(0.0)).find("nan").message
        z = traced(lambda z: ((z - z) / (z - z)).real, np.array(1 + 1j)).find("nan")
        assert z.phase == "forward" and name_of(z.operation) == "divide"
        assert traced(lambda x: (x * x).sum(), np.array([1e30], np.float32)).find("inf").phase == "forward"


# -- gradients of zero


def relu(x: Any, w: Any) -> Any:
    h = x * w
    h = np.maximum(h, 0.0)
    return (h * 2).sum()


def rounded(x: Any) -> Any:
    y = np.round(x * 3)
    return y.sum() + 1.0


@pytest.mark.parametrize("make", MAKERS)
def test_where_a_gradient_of_zero_comes_from(make: Callable[..., tg.Tape]) -> None:
    found = make(relu, SAFE, -SAFE).find("zero-gradient")
    assert found.where.source == "h = np.maximum(h, 0.0)" and found.phase == "backward" and "gradient of x" in found.message
    found = make(rounded, SAFE).find("zero-gradient")
    assert name_of(found.operation) == "round" and found.phase == "forward" and "constant almost everywhere" in found.message
    found = make(lambda x, y: x * 2.0, 1.0, 2.0).find("zero-gradient")
    assert found.operation.label == "y" and "does not depend on it" in found.message
    assert make(relu, SAFE, np.array([1.0, -1.0, -1.0])).find("zero-gradient") is None  # a part of it is not zero
    assert make(relu, SAFE, SAFE).find("zero-gradient", -SAFE, SAFE).where.source == "h = np.maximum(h, 0.0)"


def test_an_integer_that_only_counts_is_no_finding() -> None:
    assert tg.trace(lambda x, n: x * x, 2.0, 3)[1].find("zero-gradient") is None


def test_contributions_that_cancel() -> None:
    found = tg.trace(lambda x: x * 2.0 - x * 2.0, 3.0)[1].find("zero-gradient")
    assert found.operation.note == "accumulate d%2" and found.value == 0.0


# -- what is asked for wrongly, and structures


def test_errors() -> None:
    tape = tg.trace(masked, SAFE)[1]
    with pytest.raises(tg.ArgumentError, match="'zero-gradient'"):
        tape.find("zero")
    with pytest.raises(tg.ArgumentError, match=r"recorded with 1 argument \(x\), but got 2"):
        tape.find("nan", 1.0, 2.0)
    bare = tg.Tape()
    x = bare.push(tg.Input())
    bare.result = bare.push(tg.call(np.sin, x))
    with pytest.raises(tg.ArgumentError, match="without values"):
        bare.find("nan")
    assert bare.find("nan", 1.0) is None and bare.find("nan", float("nan")).operation is x

    def branch(x: Any) -> Any:
        return x if x > 0 else -x
    with pytest.raises(tg.GuardError):
        tg.trace(branch, 1.0)[1].find("nan", -1.0)


def test_results_of_any_kind() -> None:
    assert traced(lambda x: {"a": np.sqrt(x), "b": (x.sum(), 3)}, X).find("inf").phase == "backward"
    assert traced(lambda x: np.sqrt(x), X).find("inf").phase == "backward"
    assert traced(lambda x: np.sqrt(x) > 1.0, X).find("inf") is None  # nothing to sweep
    assert traced(lambda x: np.sqrt(x) * (1 + 1j), X).find("inf").phase == "backward"
    assert traced(lambda x: "text", X).find("nan") is None


def test_a_tape_made_by_hand() -> None:
    from tapegrad.ops import log, multiply
    tape = tg.Tape()
    x = tape.push(tg.Input(0.0, "x"))
    with np.errstate(all="ignore"):
        y = tape.push(tg.call(log, x))
        tape.result = tape.push(tg.call(multiply, y, 0.0))
    found = tape.find("nan")
    assert found.operation is tape.result and "multiply(-inf, 0.0)" in found.message and tape.find("inf").operation is y and found.where is None
    assert tape.find("nan", 1.0) is None


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=5), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_it_finds_a_nan_exactly_where_there_is_one(numbers: list[float], steps: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(steps):
            x = np.log(x + 1.0)
        return x.sum()
    x = np.array(numbers)
    tape = traced(chain, x)
    bad = [op for op in tape if isinstance(op.val, (float, np.ndarray)) and np.isnan(op.val).any()]
    found = tape.find("nan")
    assert (found.operation if found and found.phase == "forward" else None) is (bad[0] if bad else None)
    if not bad:
        with np.errstate(all="ignore"):
            assert (found is None) == (not np.isnan(tg.gradient(chain, x)[0]).any())


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_a_finding_fits(width: int) -> None:
    found = traced(root, X).find("nan")
    assert all(len(line) <= width for text in (found.format(width), on_console(found, width), on_console(found, width, "ascii"))
               for line in text.splitlines())
    assert found.format(width).isascii() and on_console(found, width, "ascii").isascii() and repr(found).startswith("<Finding: nan, backward")


def test_values() -> None:
    assert norm((3.0, {"w": np.array([0.0, 4.0])}, "text", 7)) == 5.0 and norm(None) == 0.0
    assert norm(Accumulator(np.array([3.0, 4.0]))) == 5.0 and np.isnan(norm(float("nan")))
    assert is_zero(0.0) and is_zero(np.zeros(2)) and not is_zero(()) and not is_zero(np.array([0.0, np.nan])) and not is_zero("text")
    assert [x.tolist() for x in numbers([1.0, (2j, np.arange(2)), np.float32(3.0)])] == [1.0, 2j, 3.0]
    assert element(np.array([[1.0, 2.0]]), (1, 1), (3, 2)) == "2.0" and element(5, (0,), (2,)) == "5"
    assert element(np.ones((2, 2)), (0,), (3,)).startswith("[[1.") and figure(1e-20) == "1e-20"


def test_torch_tensors_hold_numbers() -> None:
    torch = pytest.importorskip("torch")
    found = list(numbers((torch.tensor([1.0, 2.0]), torch.tensor([1, 2]), torch.tensor([1.5], dtype=torch.bfloat16))))
    assert [x.tolist() for x in found] == [[1.0, 2.0], [1.5]] and norm(torch.tensor([3.0, 4.0])) == 5.0
    assert element(torch.tensor([7.0, 8.0]), (1,), (2,)) == "8.0"
