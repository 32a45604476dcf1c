"""A tape as a graph: networkx, costs, and pictures that hold together, hide nothing, and carry no foreign markup."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad import ops
from tapegrad.numbers.cotangents import conform
from tapegrad.show.graph.bylines import MOST
from tapegrad.show.graph.cost import Cost, cost_of
from tapegrad.show.graph.draw import picture
from tapegrad.show.graph.fold import fold
from tapegrad.show.graph.layout import Layout, layout
from tapegrad.show.graph.picture import LIMIT, Arrow, Box, Picture
from tapegrad.show.graph.rows import Column, _fit, assign, columns, crossings
from tapegrad.show.graph.svg import HUES, to_svg
from tapegrad.tape.tape import Call, Operation, operands
from tests.golden.programs import f, wave
from tests.golden.texts import FOLDER, pictures

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = pictures()
OKABE_ITO = {"#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#000000"}


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def network(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    h = np.tanh(w1 @ x + b1)
    return np.sum((w2 @ h) ** 2)


def loop(x: Any, n: int) -> Any:
    for _ in range(n):
        x = np.sin(x)
        x = x * 1.01
    return x


def tapes() -> dict[str, tg.Tape]:
    """Return tapes of every kind: primal, triples, flat, guarded, with structures, tensors, complex numbers."""
    found = {
        "f": tg.gradtape(f, 2.0, 3.0),
        "wave": tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3))),
        "rosenbrock": tg.gradtape(rosenbrock, np.zeros(5)),
        "network": tg.gradtape(network, np.ones(3), np.ones((4, 3)), np.zeros(4), np.ones((2, 4))),
        "loop": tg.gradtape(lambda x: loop(x, 20), 0.5),
        "unused": tg.gradtape(lambda a, b: a * 2.0, 1.0, 2.0),
        "identity": tg.gradtape(lambda a: a, 1.0),
        "complex": tg.gradtape(lambda z: (z * z.conjugate()).real, 1.0 + 2.0j),
        "eigen": tg.gradtape(lambda a: np.linalg.eigh(a @ a.T)[0].sum() + np.linalg.eigh(a @ a.T)[1][0, 0], np.eye(3) + 0.1),
    }
    found |= {f"{name}, flat": tg.primitivize(tape) for name, tape in found.items()}
    found |= {"primal": tg.trace(f, 2.0, 3.0)[1], "tuple": tg.trace(wave, np.ones(3), {"gain": 2.0})[1], "triples": tg.rewrite(tg.trace(f, 2.0, 3.0)[1]),
              "tensor": tg.trace(lambda x: x * x + 1.0, torch.ones(3))[1], "nothing": tg.Tape(), "constant": tg.trace(lambda x: 1.0, 2.0)[1]}
    return found


TAPES = tapes()


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_golden(name: str) -> None:
    expected = (FOLDER / name).read_text(encoding="utf-8")
    assert PICTURES[name] + "\n" == expected, "if this is meant: pytest --update-golden"


def test_a_golden_file_for_each_picture() -> None:
    assert {path.name for pattern in ("*.svg", "*.dot") for path in FOLDER.glob(pattern)} == set(PICTURES)
    assert len(PICTURES["gradient.svg"]) < 30_000  # README shows it


# -- networkx


@pytest.mark.parametrize("name", sorted(TAPES))
def test_networkx_has_every_operation_and_every_use(name: str) -> None:
    tape = TAPES[name]
    graph = tape.to_networkx()
    assert list(graph) == [op.id for op in tape] and nx.is_directed_acyclic_graph(graph)
    assert set(graph.edges) == {(used.id, op.id) for op in tape for used in operands(op)}
    nx.write_graphml(graph, io.BytesIO())
    for op in tape:
        node = graph.nodes[op.id]
        assert node["kind"] == op.kind and node["note"] == op.note and node["type"] == op.type.replace("NoneType", node["type"])
        assert {type(fact) for fact in node.values()} <= {str, int}


@pytest.mark.quick
def test_networkx_says_what_an_operation_is() -> None:
    graph = tg.trace(f, 2.0, 3.0)[1].to_networkx()
    assert graph.graph == {"name": "f", "result": 6}
    assert graph.nodes[4] == {"op": "multiply", "kind": "call", "role": "primal", "text": "multiply(%3, %3)", "type": "float", "value": "9.0", "note": "",
                              "line": "programs.py:11", "source": "return a / (a + b*b)", "bytes": 8, "flops": 1}
    assert graph.edges[3, 4] == {"slots": "0,1"} and graph.edges[2, 6] == {"slots": "0"}
    pullback = next(op for op in TAPES["f"] if op.note == "pullback of %11")
    assert TAPES["f"].to_networkx().edges[pullback.fn.id, pullback.id] == {"slots": "fn"}


COSTS: list[tuple[Any, tuple[Any, ...], int | None, int | None]] = [
    (ops.multiply, (np.ones((3, 4)), 2.0), 96, 12),
    (ops.sin, (0.5,), 8, 1),
    (ops.divide_no_nan, (1.0, np.ones((3, 4))), 96, 12),
    (ops.real, (np.ones(3) * 1j,), 24, 0),
    (ops.matmul, (np.ones((3, 4)), np.ones((4, 5))), 120, 120),
    (ops.matmul, (np.ones((7, 3, 4)), np.ones((7, 4, 5))), 840, 840),
    (ops.matmul, (np.ones((3, 4)), np.ones(4)), 24, 24),
    (ops.sum, (np.ones((3, 4)),), 8, 12),
    (ops.reshape, (np.ones((3, 4)), (12,)), 96, 0),
    (ops.getitem, (np.ones(6), slice(1, 3)), 16, 0),
    (ops.solve, (np.eye(3), np.ones(3)), 24, 36),
    (ops.inv, (np.eye(6),), 288, 432),
    (ops.add, (torch.ones(3, dtype=torch.float32), torch.ones(3, dtype=torch.float32)), 12, 3),
    (ops.multiply, (1j, 2.0), 16, 1),
    (len, ([],), 8, None),
    (str, (1,), None, None),
]


@pytest.mark.parametrize(("fn", "args", "size", "flops"), COSTS)
def test_costs(fn: Any, args: tuple[Any, ...], size: int | None, flops: int | None) -> None:
    op = tg.Tape().push(tg.call(fn, *args))
    assert cost_of(op) == Cost(size, flops)


def test_a_triple_costs_what_its_function_costs() -> None:
    tape = tg.rewrite(tg.trace(lambda a, b: a @ b, np.ones((3, 4)), np.ones((4, 5)))[1])
    assert cost_of(tape[4]) == Cost(120, 120) and tape[4].body.startswith("rrule")
    assert cost_of(tape[1]) == Cost(None, 0)


# -- what is drawn


@pytest.mark.parametrize("name", sorted(TAPES))
def test_arrows_are_the_tapes_own(name: str) -> None:
    """What a box depends on is what its operations depend on; every call is drawn, constant, or the result's tuple."""
    tape = TAPES[name]
    found = fold(tape)
    graph = nx.DiGraph([(a.tail, a.head) for a in found.arrows])
    graph.add_nodes_from(found.boxes)
    assert nx.is_directed_acyclic_graph(graph)
    assert all(not a.again and a.tail in found.boxes and a.head in found.boxes for a in found.arrows)
    assert all(found.boxes[a.head].reverse >= found.boxes[a.tail].reverse for a in found.arrows)  # nothing flows back into the forward half
    whole = tape.to_networkx()
    for op in tape:
        if isinstance(op, Call) and op.fn is conform:  # which only looks at the shape of its input
            whole.remove_edges_from([(used.id, op.id) for used in operands(op)[1:]])
    for key, box in found.boxes.items():
        drawn = {int(n) for n in re.findall(r"^%(\d+) =", box.hover, re.M)}
        assert key in drawn
        wanted = set().union(*(nx.ancestors(whole, n) for n in drawn))
        assert nx.ancestors(graph, key) == {other for other in found.boxes if other in wanted} - {key}


def test_a_gradient_reads_like_mathematics() -> None:
    boxes = fold(TAPES["f"]).boxes.values()
    assert [(box.title, box.detail) for box in boxes] == [
        ("a", "2"), ("b", "3"), ("%5 = b · b", "9"), ("%8 = a + %5", "11"), ("%11 = a / %8", "f = 0.181818"), ("d%11 = 1", "seed"),
        ("da, d%8 ← d%11", "pullback of divide: 0.0909, −0.0165"), ("da, d%5 ← d%8", "pullback of add: −0.0165, −0.0165"),
        ("da ← from ÷ + from +", "0.0743802"), ("db ← d%5", "pullback of multiply: −0.0496, −0.0496"), ("db ← from × + from ×", "−0.0991736")]
    assert [box.role for box in boxes] == ["input"] * 2 + ["operation"] * 3 + ["seed"] + ["pullback"] * 2 + ["gradient", "pullback", "gradient"]
    assert [box.title for box in boxes if box.marked] == ["%11 = a / %8"]


def test_guards_and_constants_take_no_box_of_their_own() -> None:
    flat = fold(TAPES["rosenbrock, flat"])
    assert not any(word in box.title for box in flat.boxes.values() for word in ("guard", "[1."))
    assert [box.title for box in flat.boxes.values() if box.guards] == ["x"] and "guard: shape(%2) == (5,)" in flat.boxes[2].hover
    assert any(box.title == "%18 = 1 · %16" for box in flat.boxes.values())  # an array of ones


@pytest.mark.parametrize("name", sorted(TAPES))
def test_gradients_stand_beside_their_inputs(name: str) -> None:
    found = fold(TAPES[name])
    row = assign(found)
    for key, box in found.boxes.items():
        if box.role == "gradient":
            assert found.boxes[box.beside].role == "input" and row[key] == row[box.beside]  # type: ignore[index]
        if box.detail.startswith("pullback of"):
            assert row[key] >= row[box.beside]  # type: ignore[index]


def test_pullbacks_stand_beside_their_operations() -> None:
    found = fold(TAPES["network"])
    row = assign(found)
    pairs = [(key, box.beside) for key, box in found.boxes.items() if box.detail.startswith("pullback of")]
    assert len(pairs) == 6 and all(row[key] == row[beside] for key, beside in pairs)  # type: ignore[index]


def test_a_primal_tape_is_one_column() -> None:
    assert not picture(TAPES["primal"]).reverse and "reverse" not in TAPES["primal"].to_svg()


def test_unknown_group_lists_the_groups() -> None:
    with pytest.raises(tg.ArgumentError, match=r"(?s)no group 'call'.*'operation', 'line'"):
        TAPES["f"].to_svg(group="call")


# -- by source line


def test_a_long_tape_is_drawn_by_line() -> None:
    tape = tg.gradtape(lambda x: loop(x, 1000), 0.5)
    assert len(tape) > LIMIT
    found = picture(tape)
    assert [(box.title, box.detail.partition(": ")[2]) for box in found.boxes.values() if box.role == "operation"] == [
        ("x = np.sin(x)", "1000 × sin"), ("x = x * 1.01", "1000 × multiply")]
    assert [(box.title, box.reverse) for box in found.boxes.values()][-1] == ("dx", True)
    times = {(found.boxes[a.tail].title, found.boxes[a.head].title): a.times for a in found.arrows if not found.boxes[a.head].reverse}
    assert times == {("x", "x = np.sin(x)"): 1, ("x = np.sin(x)", "x = x * 1.01"): 1000, ("x = x * 1.01", "x = np.sin(x)"): 999}
    assert len(tape.to_svg()) < 10_000 and len(tape.to_html()) < 40_000


def test_a_line_that_goes_on_from_itself_is_marked() -> None:
    def power(x: Any) -> Any:
        for _ in range(5):
            x = np.sin(x)
        return x * 2 + 1
    details = [box.detail for box in picture(tg.trace(power, 0.5)[1], "line").boxes.values()]
    assert details[1].endswith(": 5 × sin ↻") and details[2].endswith(": multiply, add")


def test_many_lines_share_boxes_by_function() -> None:
    source = "\n".join(["def g(x):", *("    x = x * 1.5" for _ in range(2 * MOST)), "    return x"])
    space: dict[str, Any] = {}
    exec(compile(source, "generated.py", "exec"), space)
    found = picture(tg.trace(space["g"], 1.0)[1], "line")
    assert [box.title for box in found.boxes.values()] == ["x", "g"] and found.title.endswith("by function")


def test_many_inputs_share_a_box() -> None:
    tape = tg.gradtape(lambda w: sum(w.values()), {f"w{i}": 1.0 for i in range(50)})
    assert [box.title for box in picture(tape, "line").boxes.values() if box.role in ("input", "gradient")] == ["w", "dw"]


def test_endless_arrows_are_drawn_by_line_or_refused() -> None:
    def stack(x: Any) -> Any:
        values = [x]
        for _ in range(400):
            values.append(np.sin(values[-1]))
        for value in reversed(values):
            x = x * value
        return x
    tape = tg.trace(stack, 0.5)[1]
    assert len(tape) < LIMIT and len(tape.to_svg()) < 10_000
    with pytest.raises(tg.ArgumentError, match='group="line"'):
        tape.to_svg(group="operation")


# -- the layout


def inside(point: tuple[float, float], at: Any) -> bool:
    return abs(point[0] - at.x) < at.width / 2 - 0.6 and abs(point[1] - at.y) < at.height / 2 - 0.6


def points(path: str) -> list[tuple[float, float]]:
    """Return points along an SVG path, eight to a part."""
    found: list[tuple[float, float]] = []
    for letter, numbers in re.findall(r"([MLHVQC])([^MLHVQC]*)", path):
        values = [float(n) for n in numbers.split()]
        x, y = found[-1] if found else (0.0, 0.0)
        if letter in "HV":
            values = [values[0], y] if letter == "H" else [x, values[0]]
        control = [(x, y), *zip(values[::2], values[1::2])]
        if letter == "M":
            found.append(control[1])
            continue
        for step in range(1, 9):
            curve, t = control, step / 8
            while len(curve) > 1:
                curve = [(a + t * (c - a), b + t * (d - b)) for (a, b), (c, d) in itertools.pairwise(curve)]
            found.append(curve[0])
    return found


def holds_together(found: Picture, placed: Layout) -> None:
    """Boxes overlap neither each other nor the edge; arrows begin and end at their boxes, and run through no other."""
    boxes = sorted(placed.boxes.items())
    for i, (_, a) in enumerate(boxes):
        assert a.width / 2 <= a.x <= placed.width - a.width / 2 and 60 < a.top < a.bottom < placed.height
        for _, b in boxes[i + 1:]:
            assert abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2
    assert set(placed.routes) == set(found.arrows)
    for arrow, route in placed.routes.items():
        tail, head = placed.boxes[arrow.tail], placed.boxes[arrow.head]
        line = points(route.path)
        assert abs(line[0][0] - tail.x) <= tail.width / 2 + 0.1 and abs(line[0][1] - tail.y) <= tail.height / 2 + 0.1
        assert abs(route.tip[0] - head.x) <= head.width / 2 + 0.1 and abs(route.tip[1] - head.y) <= head.height / 2 + 0.1
        assert abs(line[-1][0] - route.tip[0]) + abs(line[-1][1] - route.tip[1]) < 6
        for point in line:
            assert 0 <= point[0] <= placed.width and 0 <= point[1] <= placed.height
            assert not any(inside(point, at) for at in placed.boxes.values()), (arrow, point)


@pytest.mark.parametrize("group", ["operation", "line"])
@pytest.mark.parametrize("name", sorted(TAPES))
def test_pictures_hold_together(name: str, group: str) -> None:
    found = picture(TAPES[name], group)
    holds_together(found, layout(found))


@st.composite
def some_pictures(draw: st.DrawFn) -> Picture:
    """Draw forward and reverse boxes, arrows between any of them, loops too."""
    count = draw(st.integers(1, 14))
    begin = draw(st.integers(1, count))
    boxes = {}
    for key in range(1, count + 1):
        reverse = key > begin
        beside = draw(st.none() | st.integers(1, begin)) if reverse else None
        boxes[key] = Box(key, "operation", "x" * draw(st.integers(1, 30)), "", "", reverse, beside, lift=reverse and draw(st.booleans()))
    pairs = draw(st.lists(st.tuples(st.integers(1, count), st.integers(1, count)), unique=True, max_size=30))
    return Picture("drawn", boxes, [Arrow(t, h) for t, h in pairs if t != h and boxes[t].reverse <= boxes[h].reverse])


@settings(max_examples=150, deadline=None)
@given(some_pictures())
def test_any_picture_holds_together(found: Picture) -> None:
    holds_together(found, layout(found))
    ElementTree.fromstring(to_svg(found))


@settings(max_examples=60, deadline=None)
@given(some_pictures())
def test_crossings_are_counted_and_not_added_to(found: Picture) -> None:
    for column in columns(found, assign(found)):
        brute = 0
        for upper, lower in zip(column.rows, column.rows[1:]):
            ends = [(i, lower.index(n)) for i, node in enumerate(upper) for n in column.below[node]]
            brute += sum((a - c) * (b - d) < 0 for k, (a, b) in enumerate(ends) for c, d in ends[k + 1:])
        assert crossings(column) == brute


def test_crossings_that_can_be_avoided_are() -> None:
    column = columns(Picture("", {key: Box(key, "operation", "x", "", "") for key in range(1, 7)},
                             [Arrow(1, 6), Arrow(2, 5), Arrow(3, 4)]), {1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1})[0]
    assert isinstance(column, Column) and crossings(column) == 0


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10), st.floats(0, 50)), min_size=1, max_size=12))
def test_a_row_fits_as_well_as_it_may(row: list[tuple[float, float, float]]) -> None:
    wants, weights = [r[0] for r in row], [r[1] for r in row]
    offsets = list(np.cumsum([r[2] for r in row]))
    found = _fit(wants, weights, offsets)
    assert all(b - a >= d - c - 1e-9 for a, b, c, d in zip(found, found[1:], offsets, offsets[1:]))
    # of the least squares under order constraints, the residuals of each block sum to zero, and so do all
    assert sum(w * (x - want) for x, want, w in zip(found, wants, weights)) == pytest.approx(0, abs=1e-6)


# -- files


VOID = {"meta", "input"}


class Tags(HTMLParser):
    """Counts elements and attributes, and fails where tags do not balance."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser.seen


@pytest.mark.parametrize("name", sorted(TAPES))
def test_files_are_well_formed_and_self_contained(name: str) -> None:
    svg, page = TAPES[name].to_svg(), TAPES[name].to_html()
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg" and {element.tag for element in root.iter()} <= {SVG + tag for tag in ("svg", "title", "style", "rect", "text", "g", "path")}
    assert "id" not in {key for element in root.iter() for key in element.attrib}  # several may stand on one page
    seen = tags_of(page)
    ids = [attrs["id"] for _, attrs in seen if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert not {"src", "href", "xlink:href"} & {key for _, attrs in seen for key in attrs}
    assert set(re.findall(r"(?:https?:)?//[\w.]+", page)) <= {"http://www.w3.org"} and "@import" not in page and "url(" not in page


def test_the_page_runs_its_own_script_only() -> None:
    page = TAPES["f"].to_html()
    script = re.search("<script>(.*)</script>", page, re.S)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    for careless in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert careless not in script[1]


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    cell = TAPES["f"]._repr_html_()
    seen = tags_of(cell)
    assert [tag for tag, _ in seen] == ["iframe"]
    assert seen[0][1]["srcdoc"] == TAPES["f"].to_html() and seen[0][1]["sandbox"] == "allow-scripts"


HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&amp;&lt;]]><!--\\N\x00\x1b\ud800\u202e\n%s{}"


def hostile_tape() -> tg.Tape:
    """Return a tape on which all that a user can name is named with markup."""
    def inner(x: Any, **kwargs: Any) -> Any:
        return x
    inner.__name__ = HOSTILE
    tape = tg.Tape(label=HOSTILE)
    x = tape.push(tg.Input(2.0, HOSTILE))
    y = tape.push(tg.call(inner, x, **{HOSTILE: HOSTILE}))
    y.note = HOSTILE
    y.code = compile("0", HOSTILE.replace("\x00", "").encode("utf-8", "replace").decode(), "eval")
    tape.push(tg.Input(HOSTILE, "text"))
    tape.push(tg.Constant(HOSTILE)).note = HOSTILE
    tape.push(tg.Input({HOSTILE: 1.0}, "d"))
    tape.result = y
    return tape


@pytest.mark.parametrize("group", ["operation", "line"])
def test_hostile_text_stays_text(group: str) -> None:
    tape = hostile_tape()
    plain = {tag for tag, _ in tags_of(TAPES["f"].to_html())}
    svg, page = tape.to_svg(group=group), tape.to_html(group=group)
    assert "</title></script><script>alert(1)</script>" in "".join(ElementTree.fromstring(svg).itertext())
    seen = tags_of(page)
    assert {tag for tag, _ in seen} <= plain and [tag for tag, _ in seen].count("script") == 1
    assert not any(key.startswith("on") for _, attrs in seen for key in attrs)
    page.encode("utf-8")
    assert not re.search("[\x00-\x08\x0e-\x1f\u202e]", page)
    assert unescape(tags_of(tape._repr_html_())[0][1]["srcdoc"] or "")


def test_hostile_text_stays_within_dots_quotes() -> None:
    dot = hostile_tape().to_dot()
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", dot)
    assert "script" not in outside and '"' not in outside and "\\N" not in dot.replace("\\\\N", "")


@pytest.mark.parametrize(("method", "name"), [("to_svg", "a.svg"), ("to_html", "a.html"), ("to_dot", "a.dot")])
def test_files_are_written(tmp_path: Path, method: str, name: str) -> None:
    content = getattr(TAPES["f"], method)(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8") == content == getattr(TAPES["f"], method)()


def test_dot_speaks_of_every_box_and_arrow() -> None:
    found = picture(TAPES["network"])
    dot = TAPES["network"].to_dot()
    assert set(map(int, re.findall(r"^  n(\d+) \[", dot, re.M))) == set(found.boxes)
    assert len(re.findall(r" -> ", dot)) == len(found.arrows)
    assert dot.count("constraint=false") == sum(map(found.saved, found.arrows)) and dot.count("dir=back") == sum(
        found.boxes[a.tail].reverse for a in found.arrows)


def test_hues_can_be_told_apart() -> None:
    assert set(HUES.values()) <= OKABE_ITO


INNER: list[tg.Tape] = []  # global, because a list that a traced function captures is copied


def test_drawing_puts_nothing_on_an_outer_tape() -> None:
    def outer(x: Any, how: str) -> Any:
        INNER.append(tg.gradtape(lambda y: (y * x).sum(), np.ones(2)))
        if how == "loud":
            INNER[-1].to_html(), INNER[-1].to_dot(), INNER[-1].to_networkx(), INNER[-1].to_svg(group="line")
        return INNER[-1].result.val[1][1]
    quiet, loud = (tg.trace(outer, np.array([3.0, 4.0]), how)[1] for how in ("quiet", "loud"))
    assert str(quiet) == str(loud)


def test_drawing_changes_no_tape() -> None:
    tape = tg.gradtape(f, 2.0, 3.0)
    before: list[Operation] = list(tape)
    text = str(tape)
    tape.to_html(), tape.to_networkx()
    assert list(tape) == before and str(tape) == text
