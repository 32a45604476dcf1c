"""The difference of two tapes: what is the same is found, whatever the numbers; what is not is said, with both."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import tapegrad as tg
from tapegrad.ops import add, multiply, sin, subtract
from tapegrad.show.match import static
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import Constant, Guard, Input, Operation, call
from tests.golden.programs import branch, f, loss, wave
from tests.golden.texts import LAYERS, on_console
from tests.show.test_views import programs, run


def flat() -> tg.Tape:
    return tg.primitivize(tg.gradtape(f, 2.0, 3.0))


def words(ops: Any) -> list[str]:
    return [repr(op) for op in ops]


def test_a_tape_traced_again_is_the_same() -> None:
    for make in (lambda: tg.trace(f, 2.0, 3.0)[1], lambda: tg.gradtape(f, 2.0, 3.0), flat,
                 lambda: tg.gradtape(wave, np.ones(3), {"gain": 2.0}, seed=(1.0, np.ones(3))),
                 lambda: tg.gradtape(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))):
        diff = make().diff(make())
        assert not diff and str(diff).endswith("operations, unchanged") and len(str(diff).splitlines()) == 1
        assert diff.removed == diff.added == diff.changed == [] and diff.moved == 0


def test_other_values_of_the_inputs_make_no_difference() -> None:
    assert not tg.trace(f, 2.0, 3.0)[1].diff(tg.trace(f, -1.0, 5.0)[1])


def test_paths_make_no_difference() -> None:
    paths = tg.trace(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)), ctx=tg.Context(paths=True))[1]
    assert not tg.trace(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))[1].diff(paths)


def test_an_operation_that_another_one_computes() -> None:
    old, new = flat(), flat()
    new.rebind({15: 14})
    new.delete(15)
    diff = old.diff(new)
    assert words(diff.removed) == ["%15 = multiply(%12, %3)"] and diff.added == [] and diff.changed == []
    assert diff.summary == "17 operations -> 16: 1 multiply removed"
    assert "%14 computes it" in str(diff)
    assert next(line for line in str(diff).splitlines() if line.startswith("-")).split()[:3] == ["-", "%15", "multiply(%12,"]
    back = new.diff(old)
    assert words(back.added) == ["%15 = multiply(%12, %3)"] and back.removed == back.changed == []


def test_an_operation_replaced_in_place() -> None:
    old, new = tg.trace(f, 2.0, 3.0)[1], tg.trace(f, 2.0, 3.0)[1]
    new.replace(4, call(add, new[3], new[3]))
    diff = old.diff(new)
    [entry] = diff.changed
    assert (entry.old, entry.new, entry.why) == (old[4], new[4], "was multiply")
    assert diff.removed == diff.added == []  # what uses it is the same
    assert diff.summary == "6 operations -> 6: 1 changed"


def test_other_operands_are_named() -> None:
    old, new = tg.trace(f, 2.0, 3.0)[1], tg.trace(f, 2.0, 3.0)[1]
    new[6].args = (new[3], new[5])
    [entry] = old.diff(new).changed
    assert entry.why == "%3 was %2" and entry.new is new[6]


def test_an_inserted_operation_shifts_the_numbers() -> None:
    old, new = tg.trace(f, 2.0, 3.0)[1], tg.trace(f, 2.0, 3.0)[1]
    new.insert(4, call(sin, new[2]))
    diff = old.diff(new)
    assert words(diff.added) == ["%4 = sin(%2)"] and diff.removed == diff.changed == []
    rows = [line.split()[:2] for line in str(diff).splitlines()[1:] if not line.startswith(("...", "+"))]
    assert rows == [["%2", "%2"], ["%3", "%3"], ["%4", "%5"], ["%5", "%6"]]


def test_what_follows_from_a_change_is_unchanged() -> None:
    def chain(x: Any, first: float) -> Any:
        x = x * first
        for _ in range(50):
            x = np.sin(x) + 1.0
        return x
    old, new = (tg.trace(lambda x, first=first: chain(x, float(str(first))), 2.0)[1] for first in (2.0, 3.0))
    for tape, first in ((old, 2.0), (new, 3.0)):
        tape[3].args = (tape[2], first)
    diff = old.diff(new)
    assert [(entry.old, entry.new, entry.why) for entry in diff.changed] == [(old[3], new[3], "3.0 was 2.0")]
    assert diff.removed == diff.added == []


def test_an_operation_left_out_in_one_round_of_a_loop() -> None:
    def rounds(x: Any, without: str) -> Any:
        for i in range(20):
            x = x * 1.5
            if str(i) != without:
                x = x + 1.0
            x = np.sin(x)
        return x
    old, new = (tg.trace(rounds, 2.0, without)[1] for without in ("", "7"))
    diff = old.diff(new)
    assert len(diff.removed) == 1 and diff.removed[0].fn is add and diff.removed[0].id == 3 + 7 * 3 + 1
    assert len(diff.changed) == 1 and diff.added == []


def test_a_branch_taken_otherwise() -> None:
    diff = tg.trace(branch, 2.0)[1].diff(tg.trace(branch, -2.0)[1])
    assert [entry.why for entry in diff.changed] == ["was True", "%5 was %5 (removed)"]
    assert words(diff.removed) == ["%5 = multiply(%2, 2)"] and words(diff.added) == ["%5 = subtract(%2, 1)"]


def test_keyword_arguments_and_functions_that_differ() -> None:
    def tape(fn: Any, **kwargs: Any) -> tg.Tape:
        found = tg.Tape(label="g")
        x = found.push(Input(UNKNOWN, "x"))
        found.result = found.push(call(fn, x, **kwargs))
        return found
    assert [entry.why for entry in tape(np.sum, axis=0).diff(tape(np.sum, axis=1)).changed] == ["axis was 0"]
    assert [entry.why for entry in tape(np.sum).diff(tape(np.sum, axis=1)).changed] == ["axis was not given"]
    assert [entry.why for entry in tape(np.sum).diff(tape(np.prod)).changed] == ["was sum"]


def test_operations_in_another_order() -> None:
    def tape(fns: Any) -> tg.Tape:
        found = tg.Tape(label="g")
        x = found.push(Input(2.0, "x"))
        for fn in fns:
            found.result = found.push(call(fn, x, x))
        found.result = 2
        return found
    diff = tape([add, multiply, subtract]).diff(tape([multiply, subtract, add]))
    assert diff and diff.moved == 1 and diff.summary == "5 operations -> 5: 1 moved"


def test_another_result() -> None:
    old, new = tg.trace(f, 2.0, 3.0)[1], tg.trace(f, 2.0, 3.0)[1]
    new.result = 5
    diff = old.diff(new)
    assert diff and diff.other_result and diff.summary == "6 operations -> 6: another result"


def test_constants_are_told_apart_by_value() -> None:
    def tape(value: Any) -> tg.Tape:
        found = tg.Tape(label="g")
        found.result = found.push(Constant(value))
        return found
    same = [1, 1.0, True, "1", None, np.ones(3), np.ones(3, np.float32), np.ones((3, 1)), np.zeros(9), float("nan"), -0.0, 0.0, (1, [2.0]), {"a": 1}]
    for (i, a), (j, b) in itertools.product(enumerate(same), enumerate(same)):
        assert bool(tape(a).diff(tape(b))) == (i != j), (a, b)
    assert static(lambda x: x) != static(lambda x: x + 1)


def test_an_array_of_the_same_numbers_is_the_same() -> None:
    assert static(np.arange(6.0)) == static(np.arange(6.0)) and static(np.arange(6.0)[::2]) == static(np.array([0.0, 2.0, 4.0]))
    assert static(np.array([1, "a"], object)) == static(np.array([1, "a"], object)) != static(np.array([1, "b"], object))
    assert static(slice(0, np.int64(2))) == static(slice(0, np.int64(2)))


def test_callable_objects_without_a_hash() -> None:
    class Scale:
        def __eq__(self, other: object) -> bool:
            return True

        def __call__(self, x: Any) -> Any:
            return x * 2.0
    one, other = Scale(), Scale()
    assert static(one) == static(one) != static(other) and {static(one): 1}


def test_guards_are_told_apart_by_what_they_expect() -> None:
    def tape(value: Any) -> tg.Tape:
        found = tg.Tape(label="g")
        x = found.push(Input(2.0, "x"))
        found.push(Guard(x, "bool", value))
        found.result = x
        return found
    assert not tape(True).diff(tape(True))
    assert tape(True).diff(tape(False)).changed[0].why == "was True"


def test_only_a_tape_can_be_compared() -> None:
    with pytest.raises(tg.ArgumentError, match="compared with a tape, not with a str"):
        flat().diff("flat")  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_difference_fits(width: int) -> None:
    diff = tg.gradtape(f, 2.0, 3.0).diff(flat())
    assert all(len(line) <= width for line in diff.format(width).splitlines())
    for encoding in ("utf-8", "ascii"):
        text = on_console(diff, width, encoding)
        assert all(len(line) <= width for line in text.splitlines()) and (text.isascii() or encoding == "utf-8")
    assert str(diff).isascii() and all(line == line.rstrip() for line in str(diff).splitlines())


def test_colours_and_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    diff = tg.trace(branch, 2.0)[1].diff(tg.trace(branch, -2.0)[1])
    text = on_console(diff, 80, force_terminal=True, color_system="truecolor")
    assert "38;2;213;94;0m- " in text and "38;2;0;158;115m+ " in text and "38;2;230;159;0m~ " in text
    assert "\x1b" not in on_console(diff, 80)


def test_a_long_difference_is_abbreviated_on_a_terminal() -> None:
    def chain(x: Any) -> Any:
        for _ in range(500):
            x = np.sin(x) * x
        return x
    tape = tg.trace(chain, 0.5)[1]
    diff = tape.diff(tg.primitivize(tg.gradtape(tape)))
    shown = io.StringIO()
    Console(file=shown, width=80).print(diff)
    assert len(shown.getvalue().splitlines()) < 450 and "left out: print(diff) shows all" in shown.getvalue()
    assert len(str(diff).splitlines()) > 2000


@settings(max_examples=60, deadline=None)
@given(programs(), programs(), st.integers(1, 3))
def test_of_any_two_tapes_each_operation_is_said_once(a: Any, b: Any, rounds: int) -> None:
    tapes = [tg.trace(lambda x, w, body=body: run(body, rounds, x, w), 0.5, 0.25)[1] for body in (a, b)]
    tapes += [tg.gradtape(tapes[0]), tg.primitivize(tg.gradtape(tapes[0]))]
    for old, new in itertools.product(tapes, tapes):
        diff = old.diff(new)
        olds: list[Operation] = [entry.old for entry in diff.entries if entry.old is not None]
        news: list[Operation] = [entry.new for entry in diff.entries if entry.new is not None]
        assert sorted(op.id for op in olds) == list(range(1, len(old) + 1))
        assert [op.id for op in news] == list(range(1, len(new) + 1))
        assert len(old) - len(diff.removed) + len(diff.added) == len(new)
        assert bool(diff) == (diff.summary != f"{len(old)} operations, unchanged")
        if old is new:
            assert not diff
        assert diff.summary in str(diff)


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(1, 3), st.data())
def test_an_unused_operation_is_all_that_differs(body: Any, rounds: int, data: st.DataObject) -> None:
    def traced() -> tg.Tape:
        return tg.gradtape(lambda x, w: run(body, rounds, x, w), 0.5, 0.25)
    old, new = traced(), traced()
    position = data.draw(st.integers(5, len(new)))
    new.insert(position, call(np.arctan2, new[2], new[2]))
    diff = old.diff(new)
    assert [op.id for op in diff.added] == [position] and diff.removed == diff.changed == [] and diff.moved == 0
