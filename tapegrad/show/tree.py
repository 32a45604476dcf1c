"""A tape as a tree on a terminal: calls, the lines in them, and the operations that these recorded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text
from rich.tree import Tree

from tapegrad.errors import Activation
from tapegrad.numbers.formatting import count_of
from tapegrad.show import summary
from tapegrad.show.assigned import assigned
from tapegrad.show.body import BAR, Inner, body
from tapegrad.show.group import Group, called, tree
from tapegrad.show.line import Line, fields_of, heading, lines, listed, reverse_start, shorten
from tapegrad.show.row import brief_row, fit, legend, mark, place, text
from tapegrad.show.styles import STYLES, dots
from tapegrad.tape.tape import Operation, Tape

WHOLE, LEFT = 200, 100  # lines: a tree longer than WHOLE is folded to at most LEFT
FOLDS = ((20, 10), (10, 5), (6, 3), (3, 2), (2, 1), (1, 1))  # the children of a node that are shown, first and last
GUIDE = 4  # the width of one level
Part = Group | Operation | int  # an int: the number of operations left out


def render(tape: Tape, by: str | None, console: Console, options: ConsoleOptions, guards: bool = True) -> Iterator[Any]:
    """Yield the heading and the tree; of a long tape the first and last children of each node, and a count by line."""
    fields = fields_of(tape)
    start = reverse_start(tape)
    sides = [tree(listed(ops, fields, guards), by or "call", fields)
             for ops in (tape.ops[:start], tape.ops[start:]) if ops]
    kept = fold(sides)
    shown = [(op, depth) for side in kept for op, depth in side if isinstance(op, Operation)]
    ops = [op for op, _ in shown]
    rows = dict(zip(ops, map(brief_row, lines(tape, ops, fields, True, assigned(tape)))))
    deepest = max((depth for _, depth in shown), default=0)
    size = fit(list(rows.values()), options.max_width - GUIDE * (deepest + 1 + (len(sides) > 1)), ("line", "source"))
    title = Text(heading(tape, guards), STYLES["title"])
    if len(sides) == 1:
        yield _tree(title, kept[0], rows, size, deepest, options, guards)
    else:
        whole = _node(title)
        for name, side in zip(("forward", "reverse sweep"), kept):
            whole.add(_tree(Text(name, STYLES["header"]), side, rows, size, deepest, options, guards, 1))
        yield whole
    if any(isinstance(part, int) for side in kept for part, _ in side):
        yield Text("")
        yield summary.sheet(tape, options.max_width)
    if any(row.role != "input" and mark(row.role, False) for row in rows.values()):
        yield Text("")
        yield legend((row.role for row in rows.values()), options.ascii_only)
    if by != "line" and not any(isinstance(op.code, Activation)
                                for op, _ in shown) and len({op.code for op, _ in shown if op.code}) > 1:
        yield Text("who called whom: trace(f, ..., ctx=Context(paths=True))", STYLES["rule"])


def fold(sides: list[Group]) -> list[list[tuple[Part, int]]]:
    """Return the nodes to show of each tree, in order, with their depths: all, or as many as fit."""
    for head, tail, most in ((WHOLE, WHOLE, WHOLE), *((*ends, LEFT) for ends in FOLDS)):
        # stop as soon as there are too many
        kept = [list(islice(_walk(side, head, tail), WHOLE + 1)) for side in sides]
        if sum(map(len, kept)) <= most:
            return kept
    return [list(_walk(side, *FOLDS[-1])) for side in sides]


def _walk(top: Group, head: int, tail: int) -> Iterator[tuple[Part, int]]:
    """Yield the nodes of a tree in order, with their depths; a number stands for nodes left out."""
    stack: list[tuple[Part, int]] = [(top, -1)]
    while stack:
        part, depth = stack.pop()
        if depth >= 0:
            yield part, depth
        if isinstance(part, Group):
            children: list[Any] = part.children
            if len(children) > head + tail + 1:
                left = sum(child.count if isinstance(child, Group) else 1 for child in children[head:-tail])
                children = [*children[:head], left, *children[-tail:]]
            stack += [(child, depth + 1) for child in reversed(children)]


def _tree(label: Text, parts: list[tuple[Part, int]], rows: dict[Operation, Line], size: dict[str, int], deepest: int,
          options: ConsoleOptions, guards: bool, level: int = 0) -> Tree:
    """Return the tree of parts in order: each is a child of the last part of lower depth. Variables are aligned within
    a line, the columns after the operation everywhere.
    """
    open_ = [_node(label)]
    names = _names(parts, rows)
    for part, depth in parts:
        del open_[depth + 1:]
        room = options.max_width - GUIDE * (depth + 1 + level)
        if isinstance(part, int):
            open_[-1].add(Text(f"{dots(options.ascii_only)} {count_of(part, 'operation')} left out", STYLES["rule"]))
        elif isinstance(part, Operation):
            name = min(names[part], size["variable"])
            rest = size["operation"] + size["variable"] - name + GUIDE * (deepest - depth)
            node = open_[-1].add(text(rows[part], {**size, "variable": name, "operation": rest}, options.ascii_only))
            for inner in body(part, True, True, guards):
                node.add(_inner(inner, size, name + rest - GUIDE, options.ascii_only))
        else:
            open_.append(_node(_label(part, room, options.ascii_only)))
            open_[-2].add(open_[-1])
    return open_[0]


def _inner(inner: Inner, size: dict[str, int], both: int, ascii_only: bool) -> Text:
    """Return a line of a loop's body; variable and operation together have the width `both`."""
    row = brief_row(inner.line)._replace(variable=BAR * (inner.depth - 1) + inner.line.variable, line="", source="")
    variable = len(row.variable)
    return text(row, {**size, "variable": variable, "operation": both - variable}, ascii_only)


def _names(parts: list[tuple[Part, int]], rows: dict[Operation, Line]) -> dict[Operation, int]:
    """Return the width of the variables beside each operation: those of the same line are aligned."""
    found: dict[Operation, int] = {}
    for _, run in groupby(parts, lambda found: (isinstance(found[0], Group), found[1])):
        ops = [part for part, _ in run if isinstance(part, Operation)]
        found |= dict.fromkeys(ops, max((len(rows[op].variable) for op in ops), default=0))
    return found


def _node(label: Text) -> Tree:
    return Tree(label, guide_style=STYLES["rule"])


def _label(group: Group, room: int, ascii_only: bool) -> Text:
    """Return the text of a call, where it was made and how many operations it recorded; or a line with its text."""
    assert group.where is not None
    if group.run is None:
        return place(group.where, room, ascii_only)
    where = called(group.run)
    name = group.name
    label = Text(no_wrap=True, overflow="crop").append(name, STYLES["function"])
    rest = f"  {count_of(group.count, 'operation')}" + (f", called at {where.short}  {where.source}" if where else "")
    label.append(shorten(rest, room - len(name), dots(ascii_only)), STYLES["line"])
    return label
