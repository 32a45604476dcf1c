"""explain: contributions by line add up to the gradient, and what looks wrong is named."""

from __future__ import annotations

import math
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.debug.execution import name_of
from tapegrad.debug.explain import Explanation
from tapegrad.debug.values import norm
from tapegrad.numbers.cotangents import ZERO, accumulate, dense
from tapegrad.testing import check_grads
from tests.golden.debugged import X, layers, masked
from tests.golden.texts import on_console


def fill(x: Any) -> Any:
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] * 0.5 + x[i] ** 2
    y *= 2
    return y.sum()


def overwritten(x: Any) -> Any:
    a = (x * 3.0).sum()
    x[1:] = x[:-1] * 2.0
    x[0] = 7.0
    return a + (x ** 2).sum()


def nested(p: Any, *, scale: float) -> Any:
    h = np.tanh(p["w"] @ p["x"]) * scale
    return h.sum() + p["b"][0] * p["b"][1]


def closure(k: float) -> Any:
    def inner(x: Any) -> Any:
        y = k * x
        return y * k
    return inner


ARRAY = np.array([0.3, -1.2, 2.0])
PROGRAMS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (lambda a, b: a / (a + b * b), (2.0, 3.0), {}), (fill, (ARRAY,), {}), (overwritten, (ARRAY,), {}), (layers, (X, np.ones((3, 3)), 1.0), {}),
    (nested, ({"w": np.ones((2, 3)), "x": ARRAY, "b": (2.0, 3.0)},), {"scale": 0.5}), (closure(3.0), (2.0,), {}), (lambda x: x, (3.0,), {}),
    (lambda x: np.linalg.qr(x)[1].sum() + x[0, 0], (np.array([[2.0, 1.0], [0.5, 3.0]]),), {}),
    (lambda z: (z * z.conjugate()).real, (1 + 2j,), {}), (lambda x: 3.0, (1.0,), {}),
]


@pytest.mark.parametrize("f, args, kwargs", PROGRAMS)
def test_value_and_gradient_are_those_of_grad_and_contributions_add_up(f: Any, args: Any, kwargs: Any) -> None:
    found = tg.explain(f, *args, **kwargs)
    value, gradient = tg.grad(f, *args, **kwargs)
    np.testing.assert_equal((found.value, found.gradient), (value, gradient))
    for x, dx in found.gradients.items():
        total: Any = ZERO
        for source in found.sources:
            total = accumulate(total, dense(source.parts.get(x, ZERO)))
        if x not in [found.reverse.result.args[0]]:  # the result itself is an input: only the seed
            np.testing.assert_allclose(np.zeros_like(dx) if total == ZERO else dense(total), dx, atol=1e-14)
    assert sum(source.operations for source in found.sources) == sum(op.kind == "call" for op in found.tape if op.note != "result")
    assert found.finding is None or found.finding.kind == "zero-gradient"


def test_the_callers_arrays_are_untouched() -> None:
    x = ARRAY.copy()
    tg.explain(overwritten, x)
    np.testing.assert_array_equal(x, ARRAY)


def test_lines_flows_and_parts() -> None:
    found = tg.explain(layers, X, np.ones((3, 3)), 1.0)
    assert [source.where.source for source in found.sources] == ["h = x @ w + b", "h = np.maximum(h, 0.0)", "return (h * h).sum() + b"]
    assert [source.operations for source in found.sources] == [2, 1, 3]
    labels = [{x.label: np.shape(part) for x, part in source.parts.items()} for source in found.sources]
    assert labels == [{"b": (), "x": (3,), "w": (3, 3)}, {}, {"b": ()}]
    # d h = 2 h = 8 arrives at maximum, on each of three elements; the sum and the last addition get the seed
    assert found.sources[1].flow == pytest.approx(8 * 3 ** 0.5) and found.sources[2].flow == pytest.approx(5 ** 0.5)
    assert [part for x, part in found.sources[2].parts.items()] == [1.0] and found.sources[0].parts[list(found.gradients)[2]] == 24.0


@pytest.mark.quick
def test_the_hidden_logarithm_of_zero_is_named_in_one_screen() -> None:
    found = tg.explain(masked, X)
    first, second = found.findings
    assert found.finding is first and (first.kind, second.kind) == ("inf", "nan") and (first.phase, second.phase) == ("forward", "backward")
    assert first.where.source == "y = np.where(x > 0, x * np.log(x), 0.0)" and name_of(first.operation) == "log"
    assert first.operation in found.tape and second.operation in found.reverse
    assert "does not use it" in first.message and "0 * inf is nan" in first.message and "np.where(mask, x, 1.0)" in first.try_
    for width in (60, 80, 120):
        text = on_console(found, width)
        assert len(text.splitlines()) <= 24 and "debugged.py:20" in text and "inf in 1 of 3" in text


def test_what_only_the_reverse_sweep_shows() -> None:
    found = tg.explain(lambda x: np.sqrt(x * x).sum(), X)
    assert [finding.phase for finding in found.findings] == ["backward"] and "pullback of sqrt" in str(found)


def test_a_nan_that_harms_nobody_is_told_all_the_same() -> None:
    def quiet(x: Any) -> Any:
        y = np.where(x > 0, tg.stop_gradient(x * np.log(x)), 1.0)
        return (y * x).sum()
    found = tg.explain(quiet, X)
    assert np.isfinite(found.gradient[1]).all() and "Neither the result nor the gradient" in found.finding.message and not found.finding.try_


def test_a_result_that_is_nan_itself() -> None:
    found = tg.explain(lambda x: (np.log(x) - np.log(x)).sum(), X)
    assert found.finding.kind == "inf" and name_of(found.finding.operation) == "log" and "does not use it" not in found.finding.message
    found = tg.explain(lambda x, y: x * y, 2.0, float("nan"))
    assert found.finding.operation.label == "y"


def test_the_cures_are_those_of_raise_on_nan() -> None:
    """By the operation that makes the number, forward, and whose pullback does."""
    with np.errstate(all="ignore"):
        told = str(tg.explain(lambda x: np.sum(x * np.log(x)), np.array([0.0, 1.0])))
        assert "keep the argument above 0" in told and "0 * inf is nan: scipy.special.xlogy" in told
        assert "where the slope is infinite" in str(tg.explain(lambda x: np.sqrt((x ** 2).sum()), np.zeros(2)))
        assert "keep the denominator from 0" in str(tg.trace(lambda x: 1.0 / x, np.zeros(1))[1].find("inf"))


def test_dead_and_saturated() -> None:
    dead = tg.explain(layers, X, -np.ones((3, 3)), 1.0)
    assert dead.finding.kind == "zero-gradient" and str(dead).count(" zero\n") == 2
    assert tg.explain(lambda x: np.tanh(x).sum(), 300 * ARRAY[::2]).finding.kind == "zero-gradient"
    saturated = tg.explain(lambda x: np.tanh(x * 2.0), 3.0)
    assert saturated.finding is None
    saturated = tg.explain(lambda x: np.exp(-np.exp(x * 2.0)), 1.8)
    assert saturated.finding.kind == "saturated" and "exp hardly changes with its argument" in saturated.finding.message
    assert name_of(saturated.finding.operation) == "exp"


def test_infinity_on_purpose_is_no_finding() -> None:
    def attention(x: Any) -> Any:
        scores = np.where(np.arange(3) < 2, x, -np.inf)
        weights = np.exp(scores - np.max(scores))
        return (weights / weights.sum() * x).sum()
    assert tg.explain(attention, ARRAY).findings == []


def test_a_seed_and_errors_are_those_of_grad() -> None:
    found = tg.explain(lambda x: x * 2.0, ARRAY, seed=np.array([1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(found.gradient[1], [2.0, 0.0, 0.0])
    with pytest.raises(tg.ArgumentError, match="seed"):
        tg.explain(lambda x: x * 2.0, ARRAY)
    with pytest.raises(tg.UnknownFunction):
        tg.explain(lambda x: np.packbits(x), ARRAY)
    half = tg.primitive(lambda x: x / 2)
    tg.rrule(half)(lambda x: (x / 2, lambda dy: (dy / 0,)))
    with pytest.raises(ZeroDivisionError) as caught:
        tg.explain(lambda x: half(x), 1.0)
    assert "pullback of" in str(caught.value) and isinstance(caught.value, tg.ReplayError)


def test_a_quotient_of_python_numbers_by_zero_is_explained() -> None:
    found = tg.explain(lambda x: np.sin(x) / x, 0.0)
    assert math.isnan(found.value) and math.isnan(found.gradient[1])
    assert [f.kind for f in found.findings] == ["nan", "inf"] and found.findings[0].operation.fn is tg.ops.divide
    found = tg.explain(math.sqrt, 0.0)
    assert (found.value, found.gradient) == (0.0, (None, math.inf)) and [f.kind for f in found.findings] == ["inf"]


def test_many_arguments_and_many_lines_stay_on_one_screen() -> None:
    names = [f"a{i}" for i in range(40)]
    body = "\n".join(f"    total = total + {name} * {name}" for name in names)
    scope: dict[str, Any] = {}
    exec(f"def wide({', '.join(names)}):\n    total = 0.0\n{body}\n    return total", scope)
    found = tg.explain(scope["wide"], *map(float, range(1, 41)))
    assert len(found.sources) == 40 and len(found.gradients) == 40
    for width in (40, 60, 80, 120):
        lines = found.format(width).splitlines()
        assert len(lines) < 40 and all(len(line) <= width for line in lines) and "and 28 lines more" in found.format(width)
    assert "and 34 arguments more" in str(found) and "da39" in found.format(80)  # the largest of them is shown
    assert repr(found).startswith("<Explanation of wide: 40 lines")


def test_long_names_leave_room_for_the_source() -> None:
    def f(params: Any, observations: Any) -> Any:
        return np.sum(((observations - params["mean"]) / params["standard_deviation_of_all"]) ** 2)
    found = tg.explain(f, {"mean": np.ones(2), "standard_deviation_of_all": np.ones(2)}, np.zeros(2))
    head, row = found.format(90).partition("comes from\n")[2].splitlines()[:2]
    assert re.search(r"\.\.\.\w+'\]\|  source$", head) and "  return " in row


def test_it_has_the_terminals_width_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tg.explain(lambda x: np.sum(np.exp(x) * np.sin(x) * np.cos(x) * np.tanh(x) + np.sqrt(x) + np.log(x)), np.ones(2))
    tape = tg.trace(layers, X, np.ones((3, 3)), 1.0)[1]
    for report in (found, tape.diff(tg.primitivize(tg.gradtape(tape)))):
        with monkeypatch.context() as terminal:
            terminal.setenv("COLUMNS", "60")
            assert max(map(len, str(report).splitlines())) > 60
            terminal.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))
            assert str(report) == report.format(60) and max(map(len, str(report).splitlines())) <= 60


@pytest.mark.parametrize("f, args, kwargs", PROGRAMS)
@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_it_fits(f: Any, args: Any, kwargs: Any, width: int) -> None:
    found = tg.explain(f, *args, **kwargs)
    assert found.format(width).isascii() and found.format(width) == found.format(width)
    for text in (found.format(width), on_console(found, width), on_console(found, width, "ascii")):
        assert all(len(line) <= width for line in text.splitlines())


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    found = tg.explain(masked, X)
    assert "\x1b[1;38;2;213;94;0m" in on_console(found, 80, force_terminal=True, color_system="truecolor")  # the finding, vermilion
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;2" not in on_console(found, 80, force_terminal=True, color_system="truecolor")
    assert "\x1b" not in str(found) and "\x1b" not in on_console(found, 80)


def at_six(rho: Any, x: Any) -> Any:
    if rho != 6.0:
        return x * (rho - 6.0) + rho
    return x * 2.0


TIES: list[tuple[Any, tuple[Any, ...], int]] = [
    (at_six, (6.0, 2.0), 1), (at_six, (5.0, 2.0), 0), (lambda x: x * 2 if x > 0 else x * 3, (0.0,), 1),
    (lambda x: x[0] if np.float64(3.0) == x.sum() else x[1], (np.array([1.0, 2.0]),), 1),
    (lambda x, n: x * n if n == 3 else x, (2.0, 3), 0), (lambda x: x * 2 if tg.stop_gradient(x) == 2.0 else x, (2.0,), 0),
    (lambda x, y: x if x == y else y, (2.0, 2.0), 1)]


@pytest.mark.parametrize("number", range(len(TIES)))
def test_a_branch_by_equal_numbers_is_named(number: int) -> None:
    f, args, count = TIES[number]
    tg.grad(f, *args)  # and not refused
    found = [finding for finding in tg.explain(f, *args).findings if finding.kind == "tie"]
    assert len(found) == count
    if f is at_six and found:
        assert found[0].where is not None and found[0].where.source == "if rho != 6.0:" and "stands on a tie" in found[0].message
        with pytest.raises(AssertionError, match=r"stands on a tie(.|\n)*test_explain.py:\d+ in at_six"):
            check_grads(f, *args)
    elif f is at_six:
        check_grads(f, *args)


@given(st.lists(st.sampled_from(["x = x * y", "y = np.sin(x) + y", "x = x + 1.0", "y = y * y * 0.1", "x, y = y, x", "z = x * 2.0; y = y + z"]), max_size=8))
@settings(max_examples=40, deadline=None)
def test_contributions_of_any_program_add_up(statements: list[str]) -> None:
    scope: dict[str, Any] = {"np": np}
    exec("def f(x, y):\n" + "".join(f"    {line}\n" for line in statements) + "    return x * y", scope)
    found = tg.explain(scope["f"], 0.7, -0.4)
    assert isinstance(found, Explanation)
    for x, dx in found.gradients.items():
        assert norm(sum(dense(source.parts.get(x, 0.0)) for source in found.sources) - dx) <= 1e-12 * (1 + abs(dx))
