"""What a tape looks like: golden files, and what holds for every printed tape."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.style import Style

import tapegrad as tg
from tapegrad.ops import getfield, multiply
from tapegrad.show.line import SHRINKS, fields_of, lines, role_of
from tapegrad.show.styles import STYLES
from tapegrad.show.table import HEAD, TAIL, WHOLE
from tests.golden.programs import f, wave
from tests.golden.texts import FOLDER, goldens, on_console, update

texts = functools.cache(goldens)


@pytest.fixture(scope="module")
def gradient() -> tg.Tape:
    return tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))


def test_a_golden_file_for_each_text() -> None:
    assert {path.name for path in FOLDER.glob("*.txt")} == set(texts())


def test_golden_files_are_written_where_they_changed(tmp_path: Path) -> None:
    for path in FOLDER.iterdir():
        if path.suffix in (".txt", ".svg", ".dot"):
            shutil.copy(path, tmp_path)
    (tmp_path / "flat.txt").write_text("changed", encoding="utf-8")
    (tmp_path / "flat.svg").unlink()
    (tmp_path / "of_nothing.dot").touch()
    assert update(tmp_path) == ["flat.svg", "flat.txt", "of_nothing.dot"]
    assert all((tmp_path / name).read_bytes() == (FOLDER / name).read_bytes() for name in ("flat.svg", "flat.txt"))
    assert not (tmp_path / "of_nothing.dot").exists()


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.txt")))
def test_golden(name: str) -> None:
    expected = (FOLDER / name).read_text(encoding="utf-8")
    assert texts()[name] + "\n" == expected, "if this is meant: pytest --update-golden"


@pytest.mark.parametrize("style", ["plain", "compact"])
@pytest.mark.parametrize("width", [None, 30, 50, 60, 72, 80, 100, 120, 140])
def test_plain_text_fits_and_is_clean(gradient: tg.Tape, style: str, width: int | None) -> None:
    text = gradient.format(style, width)
    assert text.isascii() and text == gradient.format(style, width)
    for line in text.split("\n"):
        assert line == line.rstrip() != ""
        assert width is None or len(line) <= width


@pytest.mark.parametrize("width", [30, 60, 80, 100, 140])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_rich_fits(gradient: tg.Tape, width: int, encoding: str) -> None:
    shown = on_console(gradient, width, encoding)
    assert all(len(line) <= width for line in shown.splitlines())
    assert len([line for line in shown.splitlines() if line.lstrip().startswith("%")]) == len(gradient)  # nothing wraps
    assert shown.isascii() or encoding == "utf-8"


@pytest.mark.parametrize(("width", "columns"), [
    (60, ["var", "operation", "note"]), (80, ["var", "operation", "type", "note"]),
    (100, ["var", "operation", "type", "note", "line"]), (140, ["var", "operation", "type", "value", "note", "line", "source"])])
def test_rich_drops_the_least_important_columns(gradient: tg.Tape, width: int, columns: list[str]) -> None:
    assert on_console(gradient, width).splitlines()[1].split() == columns


def test_unknown_style_lists_the_styles(gradient: tg.Tape) -> None:
    with pytest.raises(tg.ArgumentError, match=r"(?s)no format 'html'.*'plain', 'table', 'compact'"):
        gradient.format("html")


@pytest.mark.quick
def test_compact_loses_no_operation(gradient: tg.Tape) -> None:
    targets = [line.partition(" = ")[0] for line in gradient.format("compact").splitlines()[1:]]
    found = [name.strip("[]").strip() for line in gradient.format("compact").splitlines()[1:]
             for name in line.split(" = ")[0].split(",") if name.strip().startswith("%")]
    found += [line.split("[")[1].split("]")[0] for line in gradient.format("compact").splitlines()[1:] if "= [%" in line]
    assert len(targets) < len(gradient) and sorted(found) == sorted(op.name for op in gradient)


def test_compact_takes_tuples_apart_as_python_does() -> None:
    tape = tg.Tape(label="g")
    x = tape.push(tg.Input(2.0, "x"))
    pair = tape.push(tg.call(divmod, x, 3))
    last = tape.push(tg.call(getfield, pair, 1))
    again = tape.push(tg.call(getfield, pair, 1))
    one = tape.push(tg.call(lambda x: (x,), last))
    only = tape.push(tg.call(getfield, one, 0))
    tape.result = tape.push(tg.call(multiply, only, again))
    assert [" ".join(line.split()) for line in tape.format("compact").splitlines()] == [
        "g: 1 input, 8 operations", "%1 = input g NoneType", "%2 = input x = 2.0 float", "_, %4 = [%3] = divmod(%2, 3) float",
        "%5 = getfield(%3, 1) float", "%7, = [%6] = <lambda>(%4) float", "%8 = multiply(%7, %5) float # result"]


def test_a_field_that_is_the_result_is_named() -> None:
    assert tg.rewrite(tg.trace(f, 2.0, 3.0)[1]).format("compact").splitlines()[-1].split("#")[1].split()[:2] == ["result", "%11"]


def test_an_input_that_is_the_result_is_marked() -> None:
    assert "# result" in str(tg.trace(lambda x: x, 2.0)[1]).splitlines()[2]


def test_long_values_and_addresses_stay_out() -> None:
    class Thing:
        pass
    tape = tg.Tape(label="g")
    tape.push(tg.Constant(np.zeros((50, 50))))
    tape.push(tg.Constant(Thing()))
    tape.push(tg.Constant("one\ntwo"))
    tape.push(tg.Input(np.arange(9.0), "x"))
    tape.push(tg.Input(1.0, "größe"))
    tape.push(tg.Input())
    lines = str(tape).splitlines()
    assert lines[2].split(" = ")[1].split() == ["<float64[50,50]>", "float64[50,50]"]
    assert "0x" not in lines[3] and len(lines) == 8
    assert lines[5].split() == ["%5", "=", "input", "x", "float64[9]"]
    assert "gr\\xf6\\xdfe = 1.0" in lines[6] and "größe" in on_console(tape, 80)


INNER: list[tg.Tape] = []  # global, because a list that a traced function captures is copied


def test_printing_puts_nothing_on_an_outer_tape() -> None:
    def outer(x: Any, how: str) -> Any:
        INNER.append(tg.gradtape(lambda y: (y * x).sum(), np.ones(2)))
        if how == "loud":
            str(INNER[-1]), INNER[-1].format("compact"), on_console(INNER[-1], 80)
        return INNER[-1].result.val[1][1]
    quiet, loud = (tg.trace(outer, np.array([3.0, 4.0]), how)[1] for how in ("quiet", "loud"))
    assert str(quiet) == str(loud)
    assert "[3., 4.]" in str(INNER[0]) and "float64[2]" in str(INNER[0])  # after the outer trace has ended, too


def test_roles_have_styles(gradient: tg.Tape) -> None:
    roles = {role_of(op) for op in gradient}
    assert roles == {"input", "constant", "primal", "guard", "triple", "seed", "pullback", "accumulation", "gradient"}
    assert roles <= set(STYLES)
    for style in STYLES.values():
        Style.parse(style)
    for op in tg.primitivize(gradient):
        assert role_of(op) in STYLES


def test_colour_only_where_it_is_wanted(gradient: tg.Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        return on_console(gradient, 80, force_terminal=True, color_system="truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[38;2;86;180;233m" in shown()  # a triple, sky blue
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;2" not in shown()
    assert "\x1b" not in on_console(gradient, 80) and "\x1b" not in str(gradient)


def chain(x: Any) -> Any:
    for _ in range(50_000):
        x = x * 1.0001 + 0.1
    return x


def test_a_long_tape_is_abbreviated() -> None:
    tape = tg.trace(chain, 1.0)[1]
    shown = on_console(tape, 80).splitlines()
    numbers = [line.split()[0] for line in shown if line.lstrip().startswith("%")]
    assert numbers == [op.name for op in [*tape.ops[:HEAD], *tape.ops[-TAIL:]]]
    assert len([line for line in shown if f"{len(tape) - HEAD - TAIL:,} of {len(tape):,} operations left out" in line]) == 1
    counted = [line.split() for line in shown if "x = x * 1.0001 + 0.1" in line]
    assert [words[:2] for words in counted] == [["100,000", "100%"]]
    assert len(tape.format().splitlines()) == len(tape) + 1  # plain text has all
    assert len(str(tape).splitlines()) < 400


def test_a_tape_as_long_as_what_is_shown_is_whole() -> None:
    tape = tg.Tape(label="g")
    for _ in range(WHOLE - 1):
        tape.push(tg.Constant(1.0))
    assert "left out" not in on_console(tape, 80)
    tape.push(tg.Constant(1.0))
    assert f"{WHOLE + 1 - HEAD - TAIL} of {WHOLE + 1} operations left out" in on_console(tape, 80)


def test_markup_in_names_is_text() -> None:
    tape = tg.Tape(label="[bold]g[/bold]")
    tape.push(tg.Constant("[red]x"))
    shown = on_console(tape, 80)
    assert "[bold]g[/bold]: 0 inputs, 2 operations" in shown and "'[red]x'" in shown


def test_columns_shrink_to_what_they_hold() -> None:
    assert {name for name, _ in SHRINKS} == {"variable", "operation", "type", "value", "note", "line", "source"}
    tape = tg.trace(f, 2.0, 3.0)[1]
    assert fields_of(tape) == {} and [line.role for line in lines(tape, tape)] == ["input"] * 3 + ["primal"] * 3


def test_shapes_of_tensors_come_before_notes() -> None:
    torch = pytest.importorskip("torch")
    def training_loss(images: Any, labels_of_the_images: Any) -> Any:
        return torch.nn.functional.cross_entropy(images.flatten(1), labels_of_the_images)
    tape = tg.gradtape(training_loss, torch.ones(8, 3, 30, 30, dtype=torch.float64), torch.arange(8))
    text = on_console(tape, 80)
    assert "float64[8,3,30,30]" in text and "float64[8,2700]" in text and "torch.float64" not in text.partition("%10")[0]
    assert "torch.float64[8,3,30,30]" in on_console(tape, 200) and "float64[8,3,30,30]" in tape.format(width=80)


def test_rich_takes_the_consoles_width(gradient: tg.Tape, capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=60).print(gradient)
    assert all(len(line) <= 60 for line in capsys.readouterr().out.splitlines())
