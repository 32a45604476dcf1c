"""The views of a tape: what each shows of any tape, at any width; what the golden files show, at a glance."""

from __future__ import annotations

import io
import itertools
import re
import xml.etree.ElementTree
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import tapegrad as tg
from tapegrad.show import VIEWS, mirror, summary, table, tree
from tapegrad.show.align import align
from tapegrad.show.group import DEPTH
from tapegrad.show.line import fields_of, listed, place_of, reverse_start
from tapegrad.show.styles import MARKS, STYLES
from tapegrad.show.view import View
from tapegrad.tape.tape import operands
from tests.golden.programs import f, loss, steps, wave
from tests.golden.texts import LAYERS, on_console

WIDTHS = [40, 60, 80, 120, 200]


def tapes() -> dict[str, tg.Tape]:
    primal = tg.trace(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)), ctx=tg.Context(paths=True))[1]
    wide = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    return {"primal": primal, "gradient": tg.gradtape(primal), "flat": tg.primitivize(tg.gradtape(primal)), "wave": wide,
            "wave_flat": tg.primitivize(wide), "empty": tg.Tape(label="g"), "long": tg.gradtape(steps, 0.5)}


TAPES = tapes()


def shown(tape: tg.Tape, format: str, group: str | None = None, width: int = 80, **options: Any) -> str:
    return on_console(tape, width, format=format, group=group, **options)


def has_reverse(name: str) -> bool:
    return name not in ("primal", "empty")


@pytest.mark.parametrize("name", TAPES)
@pytest.mark.parametrize(("format", "group"), list(itertools.product(VIEWS, [None, "line", "call"])))
def test_every_view_fits_every_width(name: str, format: str, group: str | None) -> None:
    if format == "mirror" and not has_reverse(name):
        return
    for width, encoding in [*((width, "utf-8") for width in WIDTHS), (WIDTHS[0], "ascii"), (WIDTHS[-1], "ascii")]:
        text = on_console(TAPES[name], width, encoding, format=format, group=group)
        assert all(len(line) <= width for line in text.splitlines())
        assert text.isascii() or encoding == "utf-8"
        assert "\x1b" not in text


@pytest.mark.parametrize("name", ["primal", "gradient", "flat", "wave", "wave_flat"])
@pytest.mark.parametrize(("format", "group"), list(itertools.product(["table", "compact", "tree", "mirror"], [None, "line", "call"])))
def test_every_view_names_every_operation(name: str, format: str, group: str | None) -> None:
    if format == "mirror" and not has_reverse(name):
        return
    text = shown(TAPES[name], format, group, width=300)
    tuples = fields_of(TAPES[name]) if format in ("tree", "mirror") else {}  # which go unnamed there
    for op in TAPES[name]:
        assert op in tuples or len(re.findall(rf"{op.name}\b", text)) >= 1


@pytest.mark.parametrize("format", ["plain", "table", "compact", "tree", "mirror"])
def test_guards_are_left_out(format: Any) -> None:
    def f(x: Any) -> Any:
        for _ in range(int(x[1])):
            x = x * x if x[0] > 0 else x
        return x.sum()
    tape = tg.gradtape(f, np.array([1.0, 2.0]))
    guards = [op for op in tape if isinstance(op, tg.Guard)]
    whole, file = tape.format(format, 300), io.StringIO()
    text = tape.format(format, 300, guards=False)
    assert f", {len(guards)} guards not shown" in text.splitlines()[0] and "not shown" not in whole
    assert all(guard.name in re.findall(r"%\d+", whole) and guard.name not in re.findall(r"%\d+ [= ?]*guard", text) for guard in guards)
    assert len(re.findall(r"guard \w", whole)) - len(re.findall(r"guard \w", text)) == len(guards)
    tape.show(format, width=300, file=file, guards=False)
    assert format == "compact" or file.getvalue().rstrip() == text
    assert "guard " not in re.sub("guard  +", "", file.getvalue().replace(text.splitlines()[0], ""))


def test_rich_prints_what_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    tape = TAPES["wave"]
    Console(width=90).print(tape)
    printed = capsys.readouterr().out
    tape.show(width=90)
    assert capsys.readouterr().out == printed
    file = io.StringIO()
    tape.show("table", width=90, file=file)
    assert file.getvalue() == printed


def test_show_refuses_what_it_does_not_know() -> None:
    tape = TAPES["wave"]
    with pytest.raises(tg.ArgumentError, match=r"(?s)no format 'html'.*'plain', 'table', 'compact', 'tree', 'mirror', 'summary', 'python'"):
        tape.show("html")
    with pytest.raises(tg.ArgumentError, match=r"(?s)no group 'file'.*'line', 'call'"):
        tape.show(group="file")
    with pytest.raises(tg.ArgumentError, match="a console or a file"):
        tape.show(file=io.StringIO(), console=Console())
    with pytest.raises(tg.ArgumentError, match=r"(?s)tape of loss has no reverse sweep.*gradtape"):
        TAPES["primal"].show("mirror", file=io.StringIO())


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for format in VIEWS:
        options = {"force_terminal": True, "color_system": "truecolor"}
        assert "\x1b[" in shown(TAPES["wave"], format, **options)
    assert "38;2;204;121;167" in shown(TAPES["wave"], "mirror", force_terminal=True, color_system="truecolor")  # a pullback
    monkeypatch.setenv("NO_COLOR", "1")
    for format in VIEWS:
        assert "38;2" not in shown(TAPES["wave"], format, force_terminal=True, color_system="truecolor")
        assert "\x1b" not in shown(TAPES["wave"], format)


def test_svg_export_is_well_formed() -> None:
    console = Console(record=True, file=io.StringIO(), width=90, force_terminal=True, color_system="truecolor")
    console.print(View(TAPES["wave"], "mirror"))
    svg = console.export_svg(title="wave")
    xml.etree.ElementTree.fromstring(svg)
    assert "#cc79a7" in svg and "#009e73" in svg


def test_nothing_is_said_by_colour_alone() -> None:
    for style in ("guard", "triple", "seed", "pullback", "accumulation", "gradient", "input"):
        assert style in STYLES and len({MARKS[style][0] for style in MARKS}) == len(MARKS) == len({mark[1] for mark in MARKS.values()})


# -- the tree


def test_the_tree_follows_the_calls() -> None:
    lines = shown(TAPES["primal"], "tree", width=100).splitlines()
    calls = [(line.index(name), name) for line in lines for name in ("loss", "net", "dense") if re.search(rf"─ {name}  \d+ operations", line)]
    assert [name for _, name in calls] == ["loss", "net", "dense", "dense"]
    assert [at for at, _ in calls] == [4, 8, 12, 12]
    assert "called at programs.py:30  x = dense(x, w, b)" in shown(TAPES["primal"], "tree", width=100)


def test_the_tree_groups_modules() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(4, 1)))

    def mean(net: Any, x: Any) -> Any:
        return net(x).mean()
    tape = tg.trace(mean, net, torch.ones(5, 3), ctx=tg.Context(paths=True))[1]
    found = [line.strip("│├└─ ").partition("  ")[0] for line in tape.format("tree", 120, guards=False).splitlines()]
    assert [name for name in found if re.match(r"[\w: ]+$", name)] == [
        "mean", "Sequential", "0: Linear", "1: Sequential", "0: Tanh", "1: Linear"]
    headings = [line for line in shown(tape, "table", "call").splitlines() if re.match(r"\d: ", line)]
    assert headings == ["0: Linear", "0: Tanh", "1: Linear"]
    assert all(len(op.path) == 1 and op.where.function == "mean" for op in tape if op.where)


def test_without_paths_the_tree_says_how_to_get_them() -> None:
    bare = tg.trace(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))[1]
    assert "paths=True" in shown(bare, "tree") and "paths=True" not in shown(TAPES["primal"], "tree")
    assert "paths=True" not in shown(bare, "tree", "line") and "paths=True" not in shown(TAPES["wave"], "tree")


def test_counts_in_the_tree_are_those_of_the_tape() -> None:
    for tape in (TAPES["gradient"], TAPES["long"]):
        start = reverse_start(tape)
        fields = fields_of(tape)
        for ops in (tape.ops[:start], tape.ops[start:]):
            top = tree.tree(listed(ops, fields), "call", fields)
            assert top.count == len(ops)


def test_a_long_tree_is_folded_and_counts_what_it_leaves_out() -> None:
    text = shown(tg.trace(steps, 0.5)[1], "tree")
    lines = [line for line in text.splitlines() if "operations by line" not in line]
    left = sum(int(number.replace(",", "")) for number in re.findall(r"… ([\d,]+) operations? left out", text))
    named = len([line for line in lines if re.search(r"─ +%\d+ ", line)])
    assert len(lines) < tree.WHOLE and left + named == 4002


def test_deep_calls_stand_in_the_innermost_that_is_shown() -> None:
    def down(x: Any, n: int) -> Any:
        return x * 1.5 if n == 0 else down(x, n - 1) + x
    text = shown(tg.trace(lambda x: down(x, 50), 2.0, ctx=tg.Context(paths=True))[1], "tree", width=160)
    assert len(re.findall(r"─ down  ", text)) == DEPTH - 1
    assert len(re.findall(r"─ +%\d+ ", text)) == 53


# -- the mirror


@pytest.mark.parametrize("name", ["gradient", "wave", "long"])
def test_the_mirror_aligns_each_operation_with_its_pullback(name: str) -> None:
    tape = TAPES[name]
    _, beside = align(tape, fields_of(tape))
    owners = {swept: op for op, ops in beside.items() for swept in ops}
    pullbacks = [op for op in tape if op.note.startswith("pullback of ")]
    for op in pullbacks:
        triple = op.fn.args[0]  # the pullback is the field of a triple
        assert owners[op] is triple and op.note == f"pullback of %{triple.id + 1}"
    assert pullbacks
    aligned = [line for line in shown(tape, "mirror", width=120).splitlines() if "⋮" in line and "│" in line]
    for line in aligned:
        left, _, right = line.partition(" │ ")
        assert left.split()[1] == right.split("←")[1].split("(")[0].strip()  # %5, %6 and %6(%34)
    assert aligned


@pytest.mark.parametrize("name", [name for name in TAPES if has_reverse(name)])
def test_the_mirror_reads_down_and_up(name: str) -> None:
    fields = fields_of(TAPES[name])
    forward, beside = align(TAPES[name], fields)
    assert [op.id for op in forward] == sorted(op.id for op in forward)
    swept = [op.id for op in reversed(forward) for op in beside[op] if not op.note.startswith("gradient of ")]
    assert swept == sorted(swept)
    assert len(forward) + sum(map(len, beside.values())) + sum(map(len, fields.values())) == len(TAPES[name])


NAMES = ("multiply", "add", "subtract", "sin", "square")


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Return a loop body: (operation, operand, operand) by number; 0 and 1 are the inputs."""
    count = draw(st.integers(1, 6))
    return [(draw(st.integers(0, 4)), draw(st.integers(0, i + 1)), draw(st.integers(0, i + 1))) for i in range(count)]


def run(body: list[tuple[int, int, int]], rounds: int, x: Any, w: Any) -> Any:
    for _ in range(rounds):
        values = [x, w]
        for op, i, j in body:
            a, b = values[i], values[j]
            if op == 0:
                y = a * b
            elif op == 1:
                y = a + b
            elif op == 2:
                y = a - b
            elif op == 3:
                y = np.sin(a)
            else:
                y = a**2
            values.append(y)
        x = values[-1]
    return x


LOOKS = list(itertools.product(VIEWS, (None, "line", "call")))


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(1, 4), st.sampled_from(LOOKS))
def test_what_stands_beside_an_operation_is_of_its_place_and_its_arguments(body: list[tuple[int, int, int]], rounds: int, look: Any) -> None:
    gradient = tg.gradtape(lambda x, w: run(body, rounds, x, w), 0.5, 0.25)
    for tape in (gradient, tg.primitivize(gradient)):
        if reverse_start(tape) == len(tape):  # nothing but additions: the sweep has dissolved
            continue
        forward, beside = align(tape, fields_of(tape))
        for op in forward:
            for swept in beside[op]:
                if match := re.match(r"(?:accumulate )?d%(\d+)", swept.note):
                    assert place_of(swept) == place_of(op) and tape[int(match[1])] in operands(op)
        assert shown(tape, *look)


# -- the summary


def test_the_summary_counts_every_operation_once() -> None:
    for tape in TAPES.values():
        found = summary.counts(tape)
        assert sum(count.total for count in found) == len(tape)
        assert sum(count.forward for count in found) == reverse_start(tape)
        assert [count.total for count in found] == sorted((count.total for count in found), reverse=True)


def test_the_summary_names_the_lines_that_recorded_most() -> None:
    tape = TAPES["long"]
    heaviest = summary.counts(tape)[0]
    assert heaviest.where is not None and heaviest.where.source == "x = x * 1.5 - x * x"
    assert (heaviest.forward, heaviest.reverse) == (9000, 10000)  # a round: 3 triples; 3 pullbacks, 5 cotangents, 2 sums


def test_lines_that_the_summary_leaves_out_are_counted() -> None:
    tape = tg.Tape(label="g")
    for i in range(summary.LINES + 5):
        source = compile("\n" * i + "0", f"{i}.py", "eval")
        op = tape.push(tg.Constant(1.0))
        op.code = source
    text = summary.sheet(tape).format()
    assert text.splitlines()[-1].split() == ["6", "23%", "6", "more", "lines"]
    assert len(text.splitlines()) == 2 + summary.LINES + 1
    assert len(summary.sheet(tape, limit=None).format().splitlines()) == 2 + summary.LINES + 6


def test_a_long_table_ends_with_the_summary() -> None:
    text = shown(TAPES["long"], "table")
    assert "operations by line: 3 lines" in text
    assert len(text.splitlines()) < table.HEAD + table.TAIL + 20


def test_work_on_a_long_tape_is_cut_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    for module in (table, tree, mirror):
        lines = module.lines

        def counting(*args: Any, lines: Any = lines, **kwargs: Any) -> Any:
            for line in lines(*args, **kwargs):
                written.append(1)
                yield line
        monkeypatch.setattr(module, "lines", counting)
    for format in VIEWS:
        written.clear()
        shown(TAPES["long"], format)
        assert len(written) <= tree.WHOLE


# -- parts


def test_the_reverse_sweep_begins_with_its_first_note() -> None:
    gradient = tg.gradtape(f, 2.0, 3.0)
    assert gradient[reverse_start(gradient) + 1].note == "seed"
    flat = tg.primitivize(gradient)
    assert flat[reverse_start(flat) + 1].body == "guard kind(%2) == 'real'"  # noted by the sweep
    assert reverse_start(tg.trace(f, 2.0, 3.0)[1]) == 6
    again = tg.gradtape(lambda a: tg.grad(f, a, 3.0)[1][1], 2.0)
    assert again[reverse_start(again) + 1].note == "seed"
    second = tg.gradtape(tg.primitivize(gradient), seed=(0.0, (None, 1.0, 0.0)))
    assert [op.id for op in second if op.note == "seed"][-1] == reverse_start(second) + 1


def test_group_headings_have_the_source_once() -> None:
    text = shown(TAPES["wave"], "compact", "line")
    assert text.count("y = np.sin(x) * SCALE") == 2 and text.count("return y.sum(), y") == 2  # forward, and backward
    assert shown(TAPES["primal"], "table", "call").count("dense called from programs.py:30  x = dense(x, w, b)") == 2


def test_values_are_abbreviated() -> None:
    text = shown(tg.trace(f, 2.0, 3.0)[1], "table", width=160)
    assert "0.181818  " in text and "0.18181818" not in text


INNER: list[tg.Tape] = []  # global, because a list that a traced function captures is copied


def test_showing_puts_nothing_on_an_outer_tape() -> None:
    def outer(x: Any, how: str) -> Any:
        INNER.append(tg.gradtape(lambda y: (y * x).sum(), np.ones(2)))
        if how == "loud":
            for format, group in itertools.product(VIEWS, (None, "line", "call")):
                shown(INNER[-1], format, group, width=200)
            str(INNER[-1].diff(INNER[0]))
        return INNER[-1].result.val[1][1]
    quiet, loud = (tg.trace(outer, np.array([3.0, 4.0]), how)[1] for how in ("quiet", "loud"))
    assert str(quiet) == str(loud)


def test_the_source_is_highlighted_on_a_terminal() -> None:
    tape = tg.trace(lambda a, b: a / (a + b * b), 2.0, 3.0)[1]
    plain, colour = io.StringIO(), io.StringIO()
    tape.show("python", width=120, file=plain)
    tape.show("python", console=Console(file=colour, width=120, force_terminal=True, no_color=False))
    assert [line.rstrip() for line in plain.getvalue().splitlines()] == [*tape.to_python().splitlines(), ""]
    assert "\x1b[" in colour.getvalue() and "return" in colour.getvalue()
