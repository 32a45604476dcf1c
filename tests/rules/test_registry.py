"""The registry: primitive, rrule, missing and duplicate rules, unknown functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import tapegrad as tg
from tapegrad import NoTangent, ZeroTangent
from tapegrad.rules.registry import DISPATCH


@tg.primitive
def scale(p: Any, x: Any) -> Any:
    return p["w"] * x


@tg.rrule(scale)
def _(p: Any, x: Any) -> Any:
    def scale_pullback(dy: Any) -> Any:
        return {"w": dy * x}, dy * p["w"]
    return scale(p, x), scale_pullback


def plain(x: Any) -> Any:
    return x * x * x


@tg.rrule(plain)
def _(x: Any) -> Any:
    return plain(x), lambda dy: (100.0 * dy,)


def test_nested_arguments_and_orders() -> None:
    assert tg.grad(lambda w, x: scale({"w": w}, x), 2.0, 3.0) == (6.0, (None, 3.0, 2.0))
    assert tg.gradtape(lambda w, x: scale({"w": w}, x), 2.0, 3.0).play(5.0, 7.0) == (35.0, (None, 7.0, 5.0))
    assert tg.gradient(lambda w: tg.gradient(lambda v: scale({"w": v}, 3.0) ** 2, w)[0], 2.0) == (18.0,)


@pytest.mark.quick
def test_a_rule_for_a_plain_function_holds_wherever_it_is_called_from() -> None:
    alias = plain
    code = plain.__code__
    assert tg.gradient(lambda x: alias(x) + [plain][0](x=x), 2.0) == (200.0,)
    assert plain.__code__ is code and plain(2.0) == 8.0
    with pytest.raises(ZeroDivisionError):
        tg.grad(lambda x: plain(x) / 0, 1.0)
    assert plain.__code__ is code


def test_a_rule_for_a_library_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISPATCH, np.i0, DISPATCH[np.i0])  # what it means is back after this test

    @tg.rrule(np.i0)
    def _(x: Any) -> Any:
        return np.i0(x), lambda dy: (dy * 7.0,)
    np.testing.assert_array_equal(tg.gradient(lambda x: np.i0(x).sum(), np.ones(2))[0], [7.0, 7.0])


def test_a_nested_result() -> None:
    @tg.primitive
    def both(x: Any) -> Any:
        return {"sq": x * x, "rest": (x, 2 * x)}

    @tg.rrule(both)
    def _(x: Any) -> Any:
        return both(x), lambda dy: (dy.get("sq", 0.0) * 2 * x + (dy["rest"][1] * 2 if "rest" in dy else 0.0),)

    def f(x: Any) -> Any:
        y = both(x)
        return y["sq"] * 3 + y["rest"][1] * 5
    assert tg.grad(f, 2.0) == (32.0, (None, 22.0))
    assert tg.gradtape(f, 2.0).play(2.0) == (32.0, (None, 22.0))


def test_zero_and_no_tangent() -> None:
    @tg.primitive
    def pick(x: Any, y: Any, how: str) -> Any:
        return x * y

    @tg.rrule(pick)
    def _(x: Any, y: Any, how: str) -> Any:
        return x * y, lambda dy: (dy * y, ZeroTangent(), NoTangent())
    assert tg.gradient(lambda x, y: pick(x, y, "a") + y, 2.0, 3.0) == (3.0, 1.0)
    zero = ZeroTangent()
    assert zero + 2 == 2 + zero == 2 and zero * 3 is zero and -zero is zero and not zero and zero == ZeroTangent() != NoTangent()
    np.testing.assert_array_equal(np.ones(2) + zero, np.ones(2))
    assert repr(NoTangent()) == "NoTangent()" and 5 - zero == 5 and zero - 5 == -5


@pytest.mark.quick
def test_a_missing_rule_gives_a_stub_to_paste() -> None:
    @tg.primitive
    def mystery(a: Any, b: Any) -> Any:
        return a * b

    def f(x: Any) -> Any:
        return mystery(x, 2.0) + 1
    for run in (tg.grad, tg.gradtape):
        with pytest.raises(tg.MissingRule) as caught:
            run(f, 1.0)
        assert "@tg.rrule(mystery)" in str(caught.value) and "def mystery_pullback(dy):" in str(caught.value)
        assert caught.value.where.source == "return mystery(x, 2.0) + 1"
    assert tg.trace(f, 1.0)[0] == 3.0  # tracing needs no rule
    assert tg.grad(lambda x: x + 0 * mystery(tg.stop_gradient(x), 1.0), 1.0)[1][1] == 1.0


def test_a_wrong_count_of_cotangents() -> None:
    @tg.primitive
    def wrong(a: Any, b: Any) -> Any:
        return a * b

    @tg.rrule(wrong)
    def _(a: Any, b: Any) -> Any:
        return a * b, lambda dy: (dy,)
    with pytest.raises(tg.ArgumentError, match=r"pullback of wrong returned 1 cotangent for 2"):
        tg.grad(lambda x: wrong(x, 2.0), 1.0)


def test_registering_twice_names_both_places() -> None:
    with pytest.raises(tg.DuplicateRule) as caught:
        tg.rrule(plain)(lambda x: None)
    assert str(caught.value).count("test_registry.py") == 2
    with pytest.raises(tg.DuplicateRule, match="sin"):
        tg.rrule(np.sin)(lambda x: None)
    from tapegrad.rules.registry import define
    with pytest.raises(tg.DuplicateRule, match=r"elementwise\.py"):
        define("multiply", lambda a, b: None)
    with pytest.raises(tg.DuplicateRule, match="multiply"):
        define("multiply_again", lambda a, b: None, means=(np.multiply,))


def test_an_unknown_function_is_refused_by_name() -> None:
    with pytest.raises(tg.UnknownFunction, match="no op for the ufunc legendre_p") as caught:
        tg.grad(lambda x: scipy.special.legendre_p(3, x).sum(), np.ones(3))
    assert caught.value.where.file == __file__ and "@tg.rrule(legendre_p)" in str(caught.value)
    with pytest.raises(tg.UnknownFunction, match="view"):
        tg.grad(lambda x: x.view(int), np.ones(3))


def test_rrule_applied() -> None:
    _, back = tg.rrule(tg.ops.multiply, 2.0, np.arange(3.0))
    assert repr(back) == "<multiply_pullback>" and len(back(np.ones(3))) == 2
    assert back(np.ones(3))[0] == 3.0  # projected to the float it belongs to
    with pytest.raises(tg.MissingRule):
        tg.rrule(tg.ops.floor, 1.0)


@pytest.mark.parametrize("returned", [np.ones((1, 3)), np.ones((3, 1)), np.ones((2, 3)), 1.0, np.ones(1), [1.0, 1.0, 1.0], {"x": 1.0}, "text"])
def test_a_cotangent_of_another_shape_is_refused(returned: Any) -> None:
    @tg.primitive
    def total(x: Any, y: Any) -> Any:
        return (x * y).sum()

    @tg.rrule(total)
    def _(x: Any, y: Any) -> Any:
        return total(x, y), lambda dy: (returned, dy * x)
    for run in (tg.grad, tg.value_and_grad(total, argnums=None), tg.gradtape):
        with pytest.raises(tg.ArgumentError, match="cotangent of argument 1, whose shape is"):
            run(total, np.ones(3), np.ones(3)) if run in (tg.grad, tg.gradtape) else run(np.ones(3), np.ones(3))
