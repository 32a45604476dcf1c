"""Call paths: what led to an operation, where the context asks for it, and that nothing is paid where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.errors import Activation
from tests.golden.programs import loss
from tests.golden.texts import LAYERS

PATHS = tg.Context(paths=True)


def traced(fn: Any, *args: Any, ctx: tg.Context | None = PATHS) -> tg.Tape:
    return tg.trace(fn, *args, ctx=ctx)[1]


def functions(tape: tg.Tape) -> list[str]:
    return ["/".join(place.function for place in op.path) for op in tape if op.kind != "input"]


def test_a_path_names_the_calls_from_the_outermost_on() -> None:
    tape = traced(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))
    assert functions(tape) == ["loss/net/dense"] * 6 + ["loss"] * 3
    assert [[place.line for place in op.path] for op in (tape[8], tape[11], tape[14])] == [[35, 30, 25], [35, 30, 25], [35]]
    assert tape[8].path[-1] == tape[8].where and "dense(x, w, b)" in tape[8].path[1].source


def test_without_paths_there_is_the_line_alone() -> None:
    tape = traced(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)), ctx=None)
    assert functions(tape) == ["dense"] * 6 + ["loss"] * 3
    assert tape[1].path == () and tape[8].path == (tape[8].where,)
    assert not any(isinstance(op.code, Activation) for op in tape)


def test_a_call_has_one_activation() -> None:
    tape = traced(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))
    assert len({id(op.code) for op in tape.ops[7:10]}) == 1  # the first call of dense
    first, second = tape[8].code, tape[11].code
    assert isinstance(first, Activation) and isinstance(second, Activation)
    assert first is not second and first.caller is second.caller and first.depth == 3
    assert first.caller is not None and first.caller.caller is tape[14].code


def test_recursion_lambdas_and_callbacks() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x, n - 1) * x

    def program(x: Any) -> Any:
        return power(x, 3) + sum(map(lambda y: y * 2.0, [x]))
    assert functions(traced(program, 2.0)) == [
        "program/power/power/power", "program/power/power", "program/power", "program/<lambda>", "program", "program"]


def test_a_generator_is_where_it_is_resumed() -> None:
    def doubled(xs: list[Any]) -> Iterator[Any]:
        for x in xs:
            yield x * 2.0

    def first(numbers: Iterator[Any]) -> Any:
        return next(numbers)

    def second(numbers: Iterator[Any]) -> Any:
        return next(numbers)

    def program(x: Any) -> Any:
        numbers = doubled([x, x])
        return first(numbers) + second(numbers)
    assert functions(traced(program, 2.0)) == ["program/first/doubled", "program/second/doubled", "program"]


def test_paths_of_guards_constants_views_and_pullbacks() -> None:
    weights = np.array([1.0, 2.0])

    def inner(x: Any) -> Any:
        y = np.zeros(2)
        y[0] = x[0] * weights[1]
        y[1:] += x[1:] * weights[1:]
        return y if y.sum() > 0 else -y

    def program(x: Any) -> Any:
        return inner(x).sum()
    tape = traced(program, np.array([1.0, 2.0]))
    assert set(functions(tape)) == {"program/inner", "program"} and functions(tape)[-1] == "program"
    for stage in (tg.rewrite(tape), tg.gradtape(tape), tg.primitivize(tg.gradtape(tape))):
        assert {path for path in functions(stage) if path} == {"program/inner", "program"}
        assert stage.check()


def test_a_context_that_records_otherwise_has_paths_too() -> None:
    class Noting(tg.Context):
        def record(self, tape: tg.Tape, call: tg.Call) -> tg.Variable:
            call.note = "seen"
            return tape.push(call)

    def inner(x: Any) -> Any:
        return np.sin(x) * x
    tape = traced(lambda x: inner(x), 2.0, ctx=Noting(paths=True))
    assert functions(tape) == ["<lambda>/inner"] * 2 and {op.note for op in tape.ops[2:]} == {"seen"}


def test_a_trace_in_a_trace() -> None:
    def cube(x: Any) -> Any:
        return x * x * x

    def program(x: Any) -> Any:
        return tg.grad(cube, x)[1][1] * x
    paths = functions(traced(program, 2.0))
    assert paths[-1] == "program" and set(paths) <= {"program", "program/cube"}
    assert traced(program, 2.0).play(3.0) == 3 * 3.0**2 * 3.0


def test_no_frame_is_kept() -> None:
    tape = traced(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))
    kept = [op.code for op in tape if isinstance(op.code, Activation)]
    assert kept and not any(isinstance(getattr(call, name), FrameType) for call in kept for name in call.__slots__)


def test_a_function_of_numpy_is_traced_where_it_was_called() -> None:
    assert {op.where.function for op in traced(np.linalg.norm, np.ones(2)) if op.where} == {"traced"}


def test_deep_recursion_has_long_paths() -> None:
    def down(x: Any, n: int) -> Any:
        return x * 1.5 if n == 0 else down(x, n - 1) + x
    tape = tg.trace(lambda x: down(x, 300), 2.0, ctx=PATHS)[1]
    assert len(tape[3].path) == 302 and len(tape[-1].path) == 2
