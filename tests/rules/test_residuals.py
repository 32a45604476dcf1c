"""What rules say that they read: of nothing else the content matters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad import ops
from tapegrad.numbers.cotangents import dense
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.residuals import reads
from tapegrad.tape.spec import absent, spec_of
from tapegrad.tape.tape import Call
from tapegrad.testing import contract
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.grad import gradients_of
from tests.cases import FAMILIES
from tests.harness.compare import same
from tests.harness.sample import differentiable


def test_what_rules_read() -> None:
    def of(op: Any) -> list[Any]:
        return [reads(partial)[0] for partial in op.partials]
    assert of(ops.add) == [[], []] and of(ops.multiply) == [[2], [1]] and of(ops.divide) == [[2], [0, 2]]
    assert of(ops.exp) == of(ops.tanh) == of(ops.sqrt) == [[0]] and of(ops.sin) == of(ops.log) == [[1]]
    assert of(ops.sum) == of(ops.negative) == [[]] and of(ops.max) == [[0, 1, 2]]
    assert of(ops.matmul) == of(ops.dot) == [[2], [1]] and of(ops.mean) == of(ops.cumulative_sum) == [[2]]  # the axis


def test_what_counts_as_read() -> None:
    def plain(dy: Any, y: Any, _x: Any, n: int = 1, *, through: Any = ()) -> Any: ...
    def many(dy: Any, _y: Any, x: Any, *xs: Any, **how: Any) -> Any: ...
    def none(d2: Any, *_: Any) -> Any: ...
    every = float("inf")
    assert reads(plain) == ([0, 2], every) and reads(many) == ([1], 2) and reads(none) == ([], every)
    assert reads(max) == reads(type) == ([], 0)  # they have no signature


def nan(x: Any) -> Any:
    """Return a value of which nothing is left but its type, shape and dtype: no number."""
    if type(x) is tuple:
        return tuple(map(nan, x))
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc":
        return (x * np.nan).astype(x.dtype) if isinstance(x, np.ndarray) else x.dtype.type(np.nan)
    return type(x)(np.nan) if type(x) in (float, complex) else x


def dropped(x: Any) -> Any:
    """Return what raises when it is read."""
    return absent(spec_of(x)) if type(x) is np.ndarray else nan(x)


def checked(op: Op, seen: set[Any]) -> Op:
    """Return an op whose partials are called with and without what they do not read."""
    def check(i: int, partial: Callable[..., Any] | None) -> Any:
        def both(dy: Any, *values: Any, **kwargs: Any) -> Any:
            expected = dense(partial(dy, *values, **kwargs))  # type: ignore[misc]
            places, rest = reads(partial)  # type: ignore[arg-type]
            seen.add((op.__name__, i))
            for poison in (nan, dropped):
                given = [x if place in places or place >= rest else poison(x) for place, x in enumerate(values)]
                with np.errstate(all="ignore"):
                    same(dense(partial(dy, *given, **kwargs)), expected)  # type: ignore[misc]
            return expected
        return partial and both
    made = copy.copy(op)
    made.rule = op.rule._replace(each=tuple([check(i, partial) for i, partial in enumerate(op.partials)]))  # type: ignore[arg-type]
    return made


def says(partial: Callable[..., Any]) -> bool:
    """True for a partial that says of some value that it does not read it."""
    return any(x.name.startswith("_") and x.kind is x.POSITIONAL_OR_KEYWORD for x in inspect.signature(partial).parameters.values())


def sweep_checked(f: Callable[..., Any], args: tuple[Any, ...], seen: set[Any]) -> None:
    """Make a gradient by rules that are checked; add to `seen` which ones."""
    tape = record(f, args, {}, DEFAULT, grad=True)
    for call in tape:
        if type(call) is Call and type(call.fn) is Op and type(call.fn.partials) is tuple and not call.fn.memory.written:
            call.fn = checked(call.fn, seen)
    gradients_of(tape, 1)


def test_what_is_not_read_does_not_matter() -> None:
    seen: set[Any] = set()
    for family, cases in FAMILIES.items():
        for case in cases:
            def f(*xs: Any, fn: Any = case.fn) -> Any:
                return contract(fn(*xs))

            def twice(*xs: Any, f: Any = f) -> Any:
                return sum((contract(dx) for dx in tg.gradient(lambda *xs: f(*xs) ** 2, *xs) if dx is not None), 0.0 * f(*xs))
            for args in filter(lambda args: differentiable(case, args), case.samples):
                sweep_checked(f, args, seen)
                if family == "nn":  # whose rules are ops, and have rules
                    sweep_checked(twice, args, seen)
    rules = {(name, i) for name, op in OPS.items() if type(op.partials) is tuple for i, partial in enumerate(op.partials) if partial and says(partial)}
    assert not sorted(rules - seen) and len(rules) >= 250
