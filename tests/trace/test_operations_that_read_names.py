"""What is one operation, and reads by name a list that the program was passed: it sees what the program has written there, or is refused."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules import types as families
from tapegrad.rules.facts import FRESH, Joint, Partials, direct, pointwise
from tapegrad.rules.op import Op

SCALE, OTHER = [2.0, 3.0], {"by": 2.0}
scaled_by_ufunc = np.frompyfunc(lambda x: x * SCALE[0], 1, 1)


@tg.primitive
def scaled(x: Any) -> Any:
    return x * SCALE[0]


@tg.rrule(scaled)
def _(x: Any) -> Any:
    return x * SCALE[0], lambda dy: (dy * SCALE[0],)


@tg.primitive
def by_rule(x: Any) -> Any:
    return x


@tg.rrule(by_rule)
def _(x: Any) -> Any:
    return by_rule(x), lambda dy: (dy * OTHER["by"],)


def test_a_ufunc_of_python_sees_the_copy() -> None:
    def f(scale: Any, x: Any) -> Any:
        scale[0] = 5.0
        return scaled_by_ufunc(x)
    assert tg.grad(f, SCALE, 3.0) == (15.0, (None, [0.0, 0.0], 5.0))
    compiled = tg.value_and_grad(f, argnums=None, warmup=1)
    assert [compiled(SCALE, x)[0] for x in (3.0, 4.0, 3.0)] == [15.0, 20.0, 15.0] and SCALE == [5.0, 3.0]
    SCALE[0] = 2.0


def test_a_primitive_that_would_see_the_original_is_refused() -> None:
    def f(scale: Any, x: Any) -> Any:
        scale[0] = 5.0
        return scaled(x)

    def g(other: Any, x: Any) -> Any:
        other["by"] = 5.0
        return by_rule(x)
    for program, given in ((f, SCALE), (g, OTHER)):
        with pytest.raises(tg.MutationError, match=r"reads by name a (list|dict)"):
            tg.grad(program, given, 3.0)
        with pytest.raises(tg.MutationError):
            tg.compile(program, warmup=1)(given, 3.0)


def test_what_was_not_written_to_may_be_read() -> None:
    def f(scale: Any, others: Any, x: Any) -> Any:
        others[0] = scale[1]
        return scaled(x) * others[0]
    assert tg.grad(f, SCALE, [1.0], 3.0)[0] == 18.0


RATE: list[Any] = [3.0]
NESTED: list[Any] = [{"rate": RATE}]
SPEC: dict[str, Any] = {"memory": FRESH, "spec": families.floating}


def by_wrapper(x: Any) -> Any:
    return x * 1.0


@tg.rrule(by_wrapper)
def _(x: Any) -> Any:
    return x * 1.0, lambda dy: (dy * RATE[0],)


BY_RULE: dict[str, Any] = {
    "pointwise": Op("rate_pointwise", lambda x: x * 1.0, pointwise(lambda dy, _y, _x: dy * RATE[0]), **SPEC),
    "direct": Op("rate_direct", lambda x: x * 1.0, direct(lambda dy, _y, _x: dy * RATE[0]), **SPEC),
    "one partial for all": Op("rate_partials", lambda x: x * 1.0, Partials(lambda _i, dy, _y, _x: dy * RATE[0]), **SPEC),
    "joint": Op("rate_joint", lambda x: x * 1.0, Joint(lambda _y, _x: lambda dy: (dy * RATE[0],)), **SPEC),
    "differences": tg.differences(lambda x: x * RATE[0]), "linear": tg.linear(lambda x: x * RATE[0], lambda dy: dy * RATE[0]), "function": by_wrapper,
}


@pytest.mark.parametrize("row", BY_RULE)
def test_a_rule_sees_what_a_list_holds_or_is_refused(row: str) -> None:
    op = BY_RULE[row]

    def writes(x: Any, rate: Any) -> Any:
        rate[0] = 3 * x
        return op(x) * 2.0

    def deep(x: Any, nested: Any) -> Any:
        nested[0]["rate"][0] = 3 * x
        return op(x) * 2.0
    step = tg.value_and_grad(lambda x, rate: op(x) * 2.0 + 0.0 * rate[0], argnums=0, warmup=1)
    for rate in (3.0, 3.0, 5.0, 7.0, 3.0):
        RATE[0] = rate
        assert step(2.0, RATE)[1] == pytest.approx(2 * rate, rel=1e-7)
    for program, given in ((writes, RATE), (deep, NESTED)):
        for ask in (lambda f, held: tg.grad(f, 2.0, held, argnums=0), lambda f, held: tg.value_and_grad(f, argnums=0, warmup=1)(2.0, held),
                    lambda f, held: tg.compile(tg.value_and_grad(f, argnums=0), warmup=1)(2.0, held)):
            with pytest.raises(tg.MutationError, match="reads by name a list"):
                ask(program, given)
    RATE[0] = 3.0


ELSEWHERE = """
import math
from math import cos
import numpy as np
import tapegrad as tg
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, Joint, pointwise
from tapegrad.rules.op import Op

@tg.primitive
def traced(x):
    return math.sin(x)

@tg.rrule(traced)
def _(x):
    return traced(x), lambda dy: (dy * cos(x),)

def function(x):
    return math.sin(x)

@tg.rrule(function)
def _(x):
    return math.sin(x), lambda dy: (dy * cos(x),)

elements = Op("sine_of_elements", np.sin, pointwise(lambda dy, _y, x: dy * cos(x)), memory=FRESH, spec=types.floating)
joint = Op("sine_and_pullback", np.sin, Joint(lambda y, x: lambda dy: (dy * cos(x),)), memory=FRESH, spec=types.floating)

@tg.primitive
def opaque(x):
    return math.sin(x)

@tg.rrule(opaque)
def _(x):
    return opaque(x), lambda dy: (dy * float(np.cos(float(x))),)
"""


def test_a_rule_of_another_module_calls_what_it_has_imported() -> None:
    module = types.ModuleType("elsewhere")
    exec(ELSEWHERE, module.__dict__)

    def second(op: Any) -> list[Any]:
        def f(x: Any) -> Any:
            return op(x) * x
        return [tg.hessian(f)(2.0), tg.taylor(f, 2.0, 2)[2] * 2, tg.jvp(lambda x: tg.gradient(f, x)[0], (2.0,), (1.0,))[1], tg.hvp(f)(2.0, 1.0)]
    for name in ("traced", "function", "elements", "joint"):
        assert second(getattr(module, name)) == pytest.approx([2 * math.cos(2) - 2 * math.sin(2)] * 4)
    assert tg.taylor(lambda x: module.opaque(x) * x, 2.0, 1) == pytest.approx([2 * math.sin(2), math.sin(2) + 2 * math.cos(2)])
    with pytest.raises(tg.MissingRule, match=r"the pullback of opaque.* cannot be traced"):
        tg.taylor(lambda x: module.opaque(x) * x, 2.0, 2)
