"""The tape: variables, edits, building by hand, well-formedness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import Call, Constant, Guard, Input, MalformedTape, Tape, V, call, ops
from tapegrad.ops import add, exp, getfield, multiply, sin, whole_of
from tapegrad.rules.user import is_triple


def by_hand() -> Tape:
    """a * b + sin(a)."""
    tape = Tape()
    a, b = tape.push(Input(2.0, "a")), tape.push(Input(3.0, "b"))
    c = tape.push(call(multiply, a, b))
    d = tape.push(call(sin, V(2)))
    tape.result = tape.push(call(add, c, d))
    return tape


def test_numbering_starts_with_the_function() -> None:
    tape = by_hand()
    assert [op.id for op in tape] == [1, 2, 3, 4, 5, 6] and len(tape) == 6
    assert tape[1] is tape.inputs[0] and [x.label for x in tape.inputs[1:]] == ["a", "b"]
    assert tape[4].fn is multiply and tape[V(4)] is tape[4] and tape[-1] is tape.result
    assert repr(tape[4]) == "%4 = multiply(%2, %3)"


def test_what_is_no_call_has_no_function() -> None:
    x, constant = Input(2.0), Constant(1.0)
    assert [(op.fn, op.kwargs) for op in (x, constant, Guard(x, "bool", True))] == [(None, {})] * 3
    assert (made := call(round, x, ndigits=1)).fn is round and made.kwargs == {"ndigits": 1}


def test_the_whole_and_the_triple() -> None:
    """Each answers for anything that stands among an operation's arguments."""
    tape = tg.rewrite(tg.trace(lambda x: sin(x) * 2.0, 1.5)[1])
    triples = [op for op in tape if is_triple(op)]
    parts = [op for op in tape if op.fn is getfield]
    assert len(triples) == 2 and [whole_of(op) for op in parts] == [rr for rr in triples for _ in range(2)]
    for other in (triples[0], tape[1], None, 1.5, call(getfield, (1.0, 2.0), 0), call(getfield)):
        assert whole_of(other) is None
    assert not any(map(is_triple, (*parts, None, 1.5)))


def test_values_are_computed_when_known() -> None:
    tape = by_hand()
    assert tape[4].val == 6.0 and tape[4].type == "float"
    unknown = Tape()
    x = unknown.push(Input(label="x"))
    y = unknown.push(call(exp, x))
    assert y.type == "" and repr(y.val) == "?"
    unknown.result = y
    assert unknown.play(0.0) == 1.0


def test_a_pullback_on_a_hand_made_tape() -> None:
    tape = tg.gradtape(by_hand())
    value, (df, da, db) = tape.play(2.0, 3.0)
    assert df is None and (da, db) == (2.5838531634528574, 2.0)
    assert value == tape.result.val[0]


def test_free_and_bound_variables() -> None:
    assert V(4) == V(4) and V(4) != V(5) and hash(V(4)) == hash(V(4)) and repr(V(4)) == "V(4)"
    tape = by_hand()
    assert V(tape[4]) is tape[4]
    bound = tape[5]
    tape.insert(2, Constant(7.0))
    assert bound.id == 6 and repr(bound) == "%6 = sin(%3)"  # survives the edit, where V(5) would not


@pytest.mark.quick
def test_insert_replace_delete_rebind() -> None:
    tape = by_hand()
    tape.insert(5, call(exp, V(4)))
    assert [op.id for op in tape] == list(range(1, 8)) and tape.check().play(2.0, 3.0) == by_hand().play(2.0, 3.0)
    tape.delete(5)
    twice = call(multiply, V(4), 10.0)
    # the product is replaced by two operations; what used it uses the first of them
    old = tape[4]
    new = call(multiply, V(3), V(2))
    tape.replace(old, [new, call(multiply, new, 10.0)], rebind_to=0)
    assert tape.check().play(2.0, 3.0) == by_hand().play(2.0, 3.0) and old not in tape and old.id == 0
    tape.rebind({new: 5})
    tape[5].args = (tape[4], 10.0)
    assert tape.check().play(2.0, 3.0) == 60.0 + by_hand().play(2.0, 0.0)
    tape.replace(tape.result, twice)
    assert tape.result is twice and tape.check().play(2.0, 3.0) == 60.0


def test_edits_that_would_break_the_tape_are_refused_whole() -> None:
    tape = by_hand()
    before = list(tape)
    with pytest.raises(MalformedTape, match="%6"):
        tape.delete(4)
    with pytest.raises(MalformedTape, match="the result"):
        tape.delete(6)
    with pytest.raises(MalformedTape, match="not on this tape"):
        tape.push(call(sin, V(17)))
    with pytest.raises(MalformedTape, match="before its definition"):
        tape.insert(4, call(exp, V(2)), call(sin, V(6)))
    with pytest.raises(MalformedTape, match="is already on this tape"):
        tape.push(tape[4])
    with pytest.raises(MalformedTape):
        tape.push(call(sin, by_hand()[2]))
    with pytest.raises(tg.ArgumentError):
        tape.replace(4, [])
    with pytest.raises(IndexError):
        tape.replace(4, [call(exp, V(2))], rebind_to=3)
    with pytest.raises(IndexError):
        tape[0]
    assert list(tape) == before and [op.id for op in tape] == [1, 2, 3, 4, 5, 6]
    tape.check()


@pytest.mark.quick
def test_check_shows_the_fault_and_its_neighbours() -> None:
    tape = by_hand()
    tape[4].args = (tape[2], tape[6])
    with pytest.raises(MalformedTape) as caught:
        tape.check()
    assert "%6 is used before its definition" in str(caught.value)
    assert "> %4 = multiply(%2, %6)" in str(caught.value) and "  %5 = sin(%2)" in str(caught.value)

    tape = by_hand()
    tape[5].args = (by_hand()[2],)
    with pytest.raises(MalformedTape, match="foreign variable"):
        tape.check()
    tape = by_hand()
    tape[5].args = (V(2),)
    with pytest.raises(MalformedTape, match="free variable"):
        tape.check()
    tape = by_hand()
    tape.result = None
    with pytest.raises(MalformedTape, match="no result"):
        tape.check()
    tape = by_hand()
    tape.ops[3].id = 9
    with pytest.raises(MalformedTape, match="numbered 9"):
        tape.check()


def test_a_call_of_any_function_and_primitivize() -> None:
    def cube(x: float) -> float:
        return x * x * x
    tape = Tape()
    x = tape.push(Input(2.0, "x"))
    tape.result = tape.push(call(cube, x))
    assert tape.result.val == 8.0
    flat = tg.primitivize(tape)
    assert [op.fn for op in flat if isinstance(op, Call)] == [multiply, multiply] and flat.play(3.0) == 27.0
    assert len(tape) == 3  # a pass makes a new tape


def test_play_debug_prints_each_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert by_hand().play(4.0, 5.0, debug=True) == by_hand().play(4.0, 5.0)
    assert "%4 = multiply(%2, %3)  ->  20.0 : float" in capsys.readouterr().out


def test_play_refuses_other_arguments() -> None:
    with pytest.raises(tg.ArgumentError, match="takes 2 positional"):
        by_hand().play(1.0)
    _, tape = tg.trace(lambda p: p["a"] * 2, {"a": 1.0})
    assert tape.play({"a": 4.0}) == 8.0
    with pytest.raises(tg.ArgumentError, match="nesting of the arguments"):
        tape.play({"b": 4.0})


@pytest.mark.parametrize("x", [np.ones(3), np.ones(3, np.float32)])
@pytest.mark.parametrize("name", ["sin", "exp", "sqrt"])
def test_a_call_that_is_pushed_gives_what_a_traced_one_gives(name: str, x: Any) -> None:
    traced = tg.trace(lambda x: getattr(np, name)(np.sum(x)), x)[1]
    edited = tg.trace(lambda x: np.sum(x), x)[1]
    edited.result = edited.push(tg.call(getattr(ops, name), edited.result))
    kinds = {type(way(x)) for tape in (traced, edited) for way in (tape.play, tg.compile(tape), tg.compile(tape, mode="numpy"))}
    assert kinds == {x.dtype.type} == {type(edited.result.val)}


@pytest.mark.parametrize("fn", [lambda x: tg.call(tg.ops.sum, x), lambda x: tg.call(tg.ops.getitem, x, slice(0, 1)), lambda x: tg.call(tg.ops.max, x, axis=0, keepdims=True),
                                lambda x: tg.call(tg.ops.astype, x, dtype=np.dtype("f4")), lambda x: tg.call(tg.ops.multiply, x, 1j)])
def test_what_follows_from_an_edit_of_another_shape_or_dtype_is_computed_again(fn: Any) -> None:
    x = np.array([1.0, 2.0, 3.0])
    tape = tg.trace(lambda x: np.abs(np.exp(x * x * 0.1)).sum(), x)[1]
    tape.replace(3, fn(tg.V(2)))
    value = tape.play(x)
    assert [op.spec for op in tape] == [op.spec for op in tape.check()] and np.shape(tape.result.val) == ()
    compiled = tg.compile(tape)(x)
    assert type(compiled) is type(value) and compiled == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(tg.flatgrad(tape).play(x)[1][1], tg.gradtape(tape).play(x)[1][1], rtol=1e-6)


def test_a_call_of_a_function_without_a_rule_says_so() -> None:
    tape = tg.trace(lambda x: (x * x).sum(), np.ones(2))[1]
    tape.replace(3, tg.call(lambda x: x ** 3, tg.V(2)))
    for transform in (tg.gradtape, tg.flatgrad, tg.forwardtape):
        with pytest.raises(tg.MissingRule):
            transform(tape)
