"""Tapes with loops: read, checked, saved, compared, debugged, drawn, exported and differentiated as others are."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import tapegrad as tg
from bench.problems import rk4
from tapegrad.ops import add, getfield, multiply, pack
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.replay import interpreter as play
from tapegrad.show.body import body
from tapegrad.show.graph.cost import cost_of
from tapegrad.store.read import from_bytes
from tapegrad.store.write import to_bytes
from tapegrad.tree.flatten import leaves_of


def network(x: Any, w: Any) -> Any:
    state, total = np.zeros(3), 0.0
    for i in range(30):
        state = np.tanh(w @ state + x * i)
        total = total + (state * state).sum()
    return total


def filling(x: float) -> Any:
    out = np.zeros(300)
    for i in range(299):
        out[i + 1] = out[i] * x + 1.0
    return out.sum()


def numbers(x: float) -> Any:
    for i in range(20):
        x = x + 0.1 * i * x
    return x


def written(x: Any) -> Any:
    for i in range(20):
        x[i] = x[i] * 2.0
    return x


ARGS = np.array([0.1, 0.2, 0.3]), np.arange(9.0).reshape(3, 3) / 10
OTHER = np.array([0.3, -0.2, 0.1]), np.arange(9.0)[::-1].reshape(3, 3).copy() / 11
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = [
    (network, ARGS, OTHER), (filling, (0.5,), (0.6,)), (numbers, (1.5,), (-2.0,))]
ROWS = [pytest.param(*row, id=row[0].__name__) for row in PROGRAMS]


def rolled(f: Callable[..., Any], *args: Any) -> tg.Tape:
    tape = tg.roll(tg.trace(f, *args)[1], saved=0)
    assert any(map(is_loop, tape))
    return tape


def gradient(f: Callable[..., Any], *args: Any) -> tg.Tape:
    tape = tg.optimise(tg.flatgrad(rolled(f, *args)))
    assert sum(map(is_loop, tape)) == 2
    return tape


def loop_of(tape: tg.Tape) -> Any:
    return next(filter(is_loop, tape))


def agree(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    for x, y in zip(leaves_of(found), leaves_of(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol, 1e-14)


def nested() -> tg.Tape:
    """Return a tape of three runs of two runs: (x + 1) + 1, then three times that."""
    inner = tg.Tape(label="inner")
    x = inner.push(tg.Input(0.0))
    inner.push(tg.call(add, x, 1.0))
    put(inner, inner[-1])
    outer = tg.Tape(label="outer")
    x = outer.push(tg.Input(0.0))
    twice = outer.push(tg.call(Loop(inner, 2, [], 0, 0, 1), x))
    outer.push(tg.call(multiply, outer.push(tg.call(getfield, twice, 0)), 3.0))
    put(outer, outer[-1])
    tape = tg.Tape(label="nested")
    x = tape.push(tg.Input(1.0, "x"))
    three = tape.push(tg.call(Loop(outer, 3, [], 0, 0, 1), x))
    tape.result = tape.push(tg.call(getfield, three, 0))
    return tape


def put(tape: tg.Tape, *parts: Any) -> None:
    from tapegrad.ops.structure import put_results
    put_results(tape, parts)


# -- running


@pytest.mark.parametrize(("f", "args", "other"), ROWS)
def test_a_replay_is_that_of_the_calls_one_by_one(f: Callable[..., Any], args: Any, other: Any) -> None:
    tape, long = rolled(f, *args), tg.trace(f, *args)[1]
    assert tape.play(*other) == long.play(*other) == tg.unroll(tape).play(*other)
    agree(gradient(f, *args).play(*other), tg.grad(f, *other))


def test_loops_in_loops() -> None:
    tape = nested().check()
    assert tape.play(1.0) == tg.unroll(tape).play(1.0) == ((3 * 3 + 2) * 3 + 2) * 3
    assert len(tg.unroll(tape)) == 2 + 3 * 3


def test_what_runs_hand_on_is_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []
    assign = play.assign
    monkeypatch.setattr(play, "assign", lambda *args: (writes.append(1), assign(*args)))
    tape = rolled(filling, 0.5)
    assert tape.play(0.6) == tg.trace(filling, 0.6)[0]
    assert len(writes) == 299


def test_arguments_are_not_written_to() -> None:
    tape, x = rolled(written, np.ones(20)), np.full(20, 3.0)
    y = tape.play(x)
    agree((x, y, tape.play(x)), (np.full(20, 3.0), np.full(20, 6.0), np.full(20, 6.0)))


def test_results_lie_in_memory_of_their_own() -> None:
    inner = tg.Tape(label="loop")
    inner.push(tg.Input(np.zeros(3)))
    kept = inner.push(tg.Constant(np.ones(3)))
    put(inner, kept)
    tape = tg.Tape(label="f")
    x = tape.push(tg.Input(np.zeros(3), "x"))
    tape.result = tape.push(tg.call(getfield, tape.push(tg.call(Loop(inner, 2, [], 0, 0, 1), x)), 0))
    tape.play(np.zeros(3))[:] = 7.0
    agree(tape.play(np.zeros(3)), np.ones(3))


def test_an_error_in_a_run_names_the_users_line() -> None:
    def f(x: float) -> float:
        for i in range(20):
            x = 1.0 / (x - i)
        return x
    tape = tg.roll(tg.trace(f, 0.5)[1], saved=0)
    with pytest.raises(tg.ReplayError, match="ZeroDivisionError") as caught:
        tape.play(0.0)
    assert caught.value.where is not None and "1.0 / (x - i)" in caught.value.where.source


def test_unrolled_values_are_those_of_each_run() -> None:
    for tape in (rolled(network, *ARGS), tg.flatgrad(rolled(network, *ARGS)), gradient(network, *ARGS)):
        flat = tg.unroll(tape)
        agree([op.val for op in flat if isinstance(op, tg.Call) and op.fn is not pack], _values(flat, ARGS), rtol=0)


def test_unrolling_takes_arguments_that_were_written_to_since() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(20):
            total = total + x[i] if x[i] > 0 else total
        return total
    x = np.ones(20)
    tape = rolled(f, x)
    x[:] = -1.0
    assert tg.unroll(tape).play(np.full(20, 2.0)) == 40.0 == tape.play(np.full(20, 2.0))


def _values(tape: tg.Tape, args: Any) -> list[Any]:
    run = play.Run(tape, [None, *args], keep=True)
    return [run.values[op.id] for op in run if isinstance(op, tg.Call) and op.fn is not pack]


@settings(deadline=None)
@given(st.integers(8, 40), st.floats(-1, 1), st.booleans(), st.integers(0, 3))
def test_programs_made_at_random(count: int, x: float, writes: bool, history: int) -> None:
    def f(x: Any) -> Any:
        out, past = np.zeros(count + 4), [x * 0.5] * (history + 1)
        for i in range(count):
            x = np.sin(x) * 0.5 + past[-1 - history] * 0.1 * i
            past.append(x)
            if writes:
                out[i] = x * x
                out[i + 1] += x
        return out.sum() + x
    long = tg.trace(f, 0.3)[1]
    tape = tg.roll(long, saved=0)
    agree(tape.play(x), long.play(x))
    agree(tg.flatgrad(tape).play(x), tg.grad(f, x))


# -- reading


def test_the_name_says_how_often_it_runs() -> None:
    op = loop_of(rolled(network, *ARGS))
    assert op.body == "29 x loop(%3, %2, %8, %11)" and repr(op.fn) == "<29 x loop>"


def test_loops_in_loops_are_printed_in_each_other() -> None:
    assert str(nested()).splitlines()[3:] == [
        "    %3 = 3 x loop(%2)       tuple",
        "|   %2 = carried, first %2  float",
        "|   %3 = 2 x loop(%2)       tuple",
        "| | %2 = carried, first %2  float",
        "| | %3 = add(%2, 1.0)       float",
        "| |      hand on %3",
        "|   %4 = getfield(%3, 0)    float",
        "|   %5 = multiply(%4, 3.0)  float",
        "|        hand on %5",
        "    %4 = getfield(%3, 0)    float     # result"]


def test_a_long_body_is_cut_on_a_terminal_and_whole_in_text() -> None:
    fns = [(np.sin, np.cos, np.tanh, np.arctan)[i] for i in np.random.default_rng(0).integers(4, size=45)]

    def f(x: float) -> Any:
        for _ in range(20):
            for fn in fns:
                x = fn(x)
        return x
    tape = rolled(f, 0.1)
    whole, cut = body(loop_of(tape)), body(loop_of(tape), fold=True)
    assert len(whole) > 40 > len(cut)
    assert cut[16].line.operation == f"... {len(whole) - 1 - 24} operations left out ..."
    assert len(str(tape).splitlines()) == 1 + len(tape) + len(whole)


@pytest.mark.parametrize("format", ["table", "compact", "tree", "summary", "mirror", "python"])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_format_keeps_to_its_width(format: str, width: int) -> None:
    out = io.StringIO()
    gradient(network, *ARGS).show(format, console=Console(file=out, width=width))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "29 x loop" in text or format in ("summary", "python") or width == 40


def test_pictures_and_graphs() -> None:
    tape = rolled(network, *ARGS)
    assert "29 x loop" in tape.to_dot() and "29 x loop" in tape.to_svg() and "29 x loop" in tape.to_html()
    assert len(tape.to_networkx()) == len(tape)
    assert "carried, first %8" in tape.to_html() and "hand on %10, %13" in tape.to_svg()
    loop, long = loop_of(tape), tg.unroll(tape)
    assert cost_of(loop).flops == sum(cost_of(op).flops or 0 for op in long) - sum(cost_of(op).flops or 0 for op in tape if op is not loop)


# -- checking


def faulty(change: Callable[[Any], Any]) -> tg.Tape:
    tape = rolled(network, *ARGS)
    change(loop_of(tape))
    return tape


def _with(**parts: Any) -> Callable[[Any], None]:
    def change(op: Any) -> None:
        loop = op.fn
        given = {"body": loop.body, "count": loop.count, "steps": loop.steps, "given": 2, "listed": 0, "carried": 2, **parts}
        op.fn = Loop(**given)
    return change


def _hand_on(op: Any) -> None:
    result = op.fn.body.result
    result.args = (op.fn.body.inputs[2], result.args[1])  # the matrix for the vector


def _refer(op: Any) -> None:
    op.fn.body[7].args = (tg.Constant(1.0), op.fn.body[5])


@pytest.mark.parametrize(("change", "what"), [
    (_with(given=1), "whose body has 5 inputs, where there are 4"),
    (_with(count=30), "of 30 runs, and has steps for 29"),
    (_with(steps=[]), "whose body has 5 inputs, where there are 4"),
    (lambda op: setattr(op, "args", op.args[1:]), "of 4 arguments, and is given 3"),
    (_hand_on, r"hands on float64\[3,3\] for %5, which is float64\[3\]"),
    (_refer, "in the body of %12, .* is a foreign variable"),
    (lambda op: setattr(op.fn.body, "result", 13), "does not return a tuple of the 2 values"),
])
def test_faults(change: Callable[[Any], Any], what: str) -> None:
    with pytest.raises(tg.MalformedTape, match=what):
        faulty(change).check()


def test_a_list_of_another_length_is_a_fault() -> None:
    tape = gradient(network, *ARGS)
    op = [op for op in tape if is_loop(op)][1]
    part = op.args[op.fn.sizes[1]]
    part.val = part.val[:-1]
    with pytest.raises(tg.MalformedTape, match="of 29 runs, and %18 has 28 elements"):
        tape.check()


# -- saving


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("f", "args", "other"), ROWS)
def test_what_is_saved_comes_back(f: Callable[..., Any], args: Any, other: Any, values: bool, tmp_path: Path) -> None:
    for tape in (rolled(f, *args), gradient(f, *args)):
        tape.save(tmp_path / "f.tape", values)
        again = tg.load(tmp_path / "f.tape")
        assert str(again) == str(tape) and not tape.diff(again)
        agree(again.play(*other), tape.play(*other), rtol=0)
        agree(tg.unroll(again).play(*other), tape.play(*other))
        agree(tg.compile(again)(*other), tape.play(*other))
    tape = nested()
    tape.save(tmp_path / "n.tape", values)
    assert str(tg.load(tmp_path / "n.tape")) == str(tape)


def _damaged(change: Callable[[dict[str, Any]], Any]) -> bytes:
    from hashlib import sha256
    _, text, *rest = to_bytes(rolled(network, *ARGS))
    columns = json.loads(text)
    change(columns)
    text = json.dumps(columns).encode() + b"\n"
    body = b"".join([text, *rest])
    return f"tapegrad-tape 1 {len(text)} {len(body) - len(text)} {sha256(body).hexdigest()}\n".encode() + body


@pytest.mark.parametrize("change", [
    lambda c: c["loops"].clear(), lambda c: c.pop("loops"), lambda c: c["loops"][0].update(count=30), lambda c: c["loops"][0].update(count=10**12, steps=[]),
    lambda c: c["loops"][0].update(sizes=[1, 0, 2]), lambda c: c["loops"][0].update(sizes=[3, -1, 2]), lambda c: c["loops"][0].update(reverse=1),
    lambda c: c["loops"][0].update(result=99), lambda c: c["loops"][0].update(calls=[c["functions"].index(["loop", 0])] * 8),
    lambda c: c["functions"].insert(0, ["loop", 0]), lambda c: c["loops"][0]["steps"].append([]), lambda c: c["loops"].insert(0, 5)])
def test_damaged_loops_are_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    assert from_bytes(_damaged(lambda columns: None)).play(*OTHER) == rolled(network, *ARGS).play(*OTHER)
    with pytest.raises(tg.TapeFormatError):
        from_bytes(_damaged(change))


# -- comparing and debugging


def test_diff_says_what_a_pass_did_in_a_body() -> None:
    tape = rolled(network, *ARGS)
    assert "body: 14 operations -> 13" in str(tape.diff(tg.optimise(tape)))
    assert not tape.diff(rolled(network, *ARGS))
    fewer = faulty(_with(count=28, steps=[tuple(range(28))]))
    assert "was 29 x loop" in str(tape.diff(fewer))


def test_profile_counts_each_run() -> None:
    found = gradient(network, *ARGS).profile(*OTHER, repeats=1)
    calls = {cost.name: (cost.forward.calls, cost.backward.calls) for cost in found.operations}
    assert calls["tanh"] == (30, 0) and calls["matmul"][0] == 30 and calls["matmul"][1] == 29
    assert any("np.tanh" in cost.where.source for cost in found.lines_of_source if cost.where and cost.forward.time and cost.backward.time)


def test_find_looks_into_the_runs() -> None:
    def f(x: Any) -> Any:
        for i in range(20):
            x = x - np.sqrt(10.0 - i + x)
        return x
    x = np.array([300.0, 200.0])
    tape = rolled(f, x)
    found = tape.find("nan", np.array([300.0, 40.0]))
    assert found is not None and "sqrt" in repr(found.operation) and "tg.unroll(tape)" in found.message
    assert tape.find("nan", x) is None and tape.find("nan") is None


def test_a_stepper_takes_a_loop_in_one_step() -> None:
    stepper = rolled(network, *ARGS).step(*OTHER)
    assert "29 x loop" in repr(stepper.forward(11)) and "29 x loop" in str(stepper)


# -- exporting


def test_a_gradient_runs_without_tapegrad(tmp_path: Path) -> None:
    problem = rk4.PROBLEM.made()
    args = *problem.args, *problem.given.values()
    step = tg.value_and_grad(problem.objective, argnums=None)
    for _ in range(2):
        expected = step(*args)
    tape = step.tapes[0]
    assert any(map(is_loop, tape))
    text = tape.to_python("gradient")
    assert "    for " in text and len(text.splitlines()) < 600
    (tmp_path / "exported.py").write_text(text)
    np.savez(tmp_path / "data.npz", *args)
    code = ("import sys; sys.path.insert(0, sys.argv[1]); sys.modules['tapegrad'] = None\nimport numpy as np, exported\n"
            "d = np.load(sys.argv[1] + '/data.npz'); a = [x if x.shape else x.item() for x in map(d.get, d.files)]\n"
            "for _ in range(2): value, dxs = exported.gradient(*a)\n"
            "np.savez(sys.argv[1] + '/found.npz', value, *[dx for dx in dxs if dx is not None])")
    subprocess.run([sys.executable, "-I", "-c", code, str(tmp_path)], check=True)
    with np.load(tmp_path / "found.npz") as found:
        agree([found[name] for name in found.files], expected)


def test_a_long_tape_is_exported_as_a_loop() -> None:
    def f(x: float) -> float:
        for i in range(2000):
            x = np.sin(x) * 0.9 + 0.001 * i
        return x
    text = tg.trace(f, 0.5)[1].to_python("f")
    names: dict[str, Any] = {}
    exec(text, names)
    assert len(text.splitlines()) < 60
    agree(names["f"](0.7), f(0.7))


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x) for x in OTHER]
    for tape in (rolled(network, *ARGS), gradient(network, *ARGS)):
        expected = tape.play(*OTHER)
        agree(_arrays(tape.play(*tensors)), expected)
        agree(_arrays(tape.to_fx()(*tensors)), expected)
        agree(_arrays(tg.compile(tape, backend="torch")(*tensors)), expected)
    again = tg.from_fx(rolled(network, *ARGS).to_fx(), *tensors)
    agree(_arrays(again.play(*tensors)), rolled(network, *ARGS).play(*OTHER))


def _arrays(x: Any) -> list[Any]:
    return [part.numpy() if hasattr(part, "numpy") else part for part in leaves_of(x)]


# -- differentiating


@pytest.mark.parametrize(("f", "args", "other"), ROWS)
def test_every_way_to_a_gradient(f: Callable[..., Any], args: Any, other: Any) -> None:
    tape, expected = rolled(f, *args), tg.grad(f, *other)
    triples = tg.rewrite(tape)
    for found in (tg.gradtape(tape), tg.back(triples), tg.primitivize(tg.gradtape(tape)), tg.flatgrad(tape), tg.flatgrad(tg.primitivize(tape))):
        agree(found.check().play(*other), expected)
    agree(tg.grad(lambda *xs: tape.play(*xs), *other), expected)


def test_second_order() -> None:
    args = (0.0, (None, np.ones(3), np.ones((3, 3))))
    long = tg.optimise(tg.flatgrad(tg.trace(network, *ARGS)[1]))
    expected = tg.gradtape(long, seed=args).play(*OTHER)
    for tape in (gradient(network, *ARGS), tg.flatgrad(rolled(network, *ARGS))):
        for found in (tg.gradtape(tape, seed=args), tg.flatgrad(tape, args), tg.back(tg.rewrite(tape), args)):
            agree(found.play(*OTHER), expected)
        agree(tg.grad(lambda *xs, tape=tape: sum(dx.sum() for dx in tape.play(*xs)[1][1:]), *OTHER)[1], expected[1])


def large_values(tape: tg.Tape) -> list[Any]:
    """Return the large arrays on a tape and in its loops, but for the arguments that it was recorded with."""
    found = [leaf for op in tape if op.kind == "call" for leaf in leaves_of(op.val) if isinstance(leaf, np.ndarray) and leaf.nbytes > 256]
    for op in filter(is_loop, tape):
        found += [x.val for x in op.fn.body.inputs if isinstance(x.val, np.ndarray) and x.val.nbytes > 256] + large_values(op.fn.body)
    return found


def test_parts_of_a_result_that_runs_take_one_by_one() -> None:
    def f(a: Any) -> Any:
        return np.sum(np.unique(a) * a)

    x = np.array([1.2, -0.6, -1.7])
    tape = tg.roll(tg.trace(f, x)[1], least=3, saved=0)
    assert any(is_loop(op) for op in tape)
    for gradient in (tg.flatgrad(tape).play, tg.compile(tg.flatgrad(tape))):
        np.testing.assert_allclose(gradient(x)[1][1], tg.gradient(f, x)[0], 1e-12)


def test_what_is_compiled_holds_no_arrays_of_the_first_run() -> None:
    def f(x: Any) -> Any:
        for i in range(10):
            x = np.sin(x) * x + i * 0.1
        return x
    x = np.linspace(0.0, 1.0, 100)
    tape = tg.roll(tg.trace(f, x)[1], saved=0)
    held = len(large_values(tape))
    for each in (tape, tg.flatgrad(tape, np.ones(100))):
        run = tg.compile(each)
        assert any(map(is_loop, run.tape)) and not large_values(run.tape)
        assert large_values(each)
        run(x)
    assert len(large_values(tape)) == held  # the caller's keeps its own
