"""steps: a tape played one operation at a time: the trace, the triples, the reverse sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tapegrad.debug.report import paragraph
from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import brief
from tapegrad.rules.user import is_triple
from tapegrad.show.display import Displayed, Spans
from tapegrad.show.graph.fold import Folding
from tapegrad.show.graph.local import local_derivative
from tapegrad.show.graph.picture import MOST_BOXES, Picture
from tapegrad.show.graph.play import to_page, to_slide
from tapegrad.show.graph.words import derivative, number
from tapegrad.show.line import heading, role_of, short, tidy
from tapegrad.tape.tape import Constant, Input, Operation, Tape, has_value, operands

_ASCII = str.maketrans({"·": "*", "−": "-", "÷": "/", "×": "*", "²": "^2", "√": "sqrt", "…": "..."})


class Step(NamedTuple):
    """One step: its phase ("trace", "triples", "sweep"), a title and lines of text, the boxes that appear, and the
    `lit` boxes that the step is about.
    """

    phase: str
    title: str
    lines: tuple[str, ...]
    appear: tuple[int, ...]
    lit: tuple[int, ...]


class Steps(Displayed):
    """The steps of a tape; prints them one below the other, in a notebook as a page that plays them.

    >>> import tapegrad as tg
    >>> steps = tg.gradtape(lambda a, b: a / (a + b * b), 2.0, 3.0).steps()
    >>> len(steps), steps[6].title, steps[6].lines
    (12, '%11 = a / %8, and its pullback', ('d%11 = da/%8 − d%8·a/%8²',))
    """

    def __init__(self, tape: Tape) -> None:
        folding = Folding(tape)
        if len(folding.groups) > MOST_BOXES // 10:
            raise ArgumentError(f"a tape of {len(tape)} operations has too many steps to be played",
                                try_='tape.show("mirror"), or tape.step()')
        self.tape, self.picture = tape, folding.picture()
        self.steps = list(_Player(folding, self.picture).steps())

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, i: int) -> Step:
        return self.steps[i]

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        """Yield the steps, numbered."""
        yield [(heading(self.tape), "title")]
        phase = ""
        for i, step in enumerate(self.steps, 1):
            if step.phase != phase:
                phase = step.phase
                yield [("", "")]
                yield [(phase, "header")]
            title, *texts = (line.translate(_ASCII) if ascii_only else line for line in (step.title, *step.lines))
            yield [(f"{i:3}  ", "note"), (title, "present")]
            for text in texts:
                yield from paragraph(text, "", width, "     ")

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained page that plays the steps (arrow keys, space, Home, End), and write it to `path`."""
        return _written(to_page(self.picture, self.steps), path)

    def to_svg(self, i: int, path: str | Path | None = None) -> str:
        """Return the picture at step `i`, from 0, as SVG, for a slide, and write it to `path`."""
        return _written(to_slide(self.picture, self.steps, range(len(self.steps))[i]), path)

    def save(self, folder: str | Path) -> list[Path]:
        """Write an SVG for each step into a folder, `step-01.svg` and on; return their paths."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        paths = [Path(folder) / f"step-{i:02}.svg" for i in range(1, len(self.steps) + 1)]
        for i, path in enumerate(paths):
            self.to_svg(i, path)
        return paths

    def _html(self) -> str:
        return to_page(self.picture, self.steps, cell=True)


def _written(content: str, path: str | Path | None) -> str:
    if path is not None:
        Path(path).write_text(content, encoding="utf-8")
    return content


class _Player:
    """Makes the steps from a folded tape."""

    def __init__(self, folding: Folding, picture: Picture) -> None:
        self.folding, self.picture, self.tape = folding, picture, folding.tape
        self.name, self.sides = folding.name, folding.sides
        self.homes = list(folding.groups)
        self.forward = [op for op in self.homes if not self.sides.reverse(op)]
        self.back = [op for op in self.homes if self.sides.reverse(op)]

    def steps(self) -> Iterator[Step]:
        inputs = [op for op in self.forward if isinstance(op, Input)]
        computed = [op for op in self.forward if not isinstance(op, Input)]
        yield Step("trace", "The arguments", tuple(f"{self.name(op)} = {_value(op)}" for op in inputs),
                   self._keys(inputs), self._keys(inputs))
        for op in computed:
            yield self._traced(op)
        for op in computed:
            if is_triple(op):
                yield self._triple(op)
        yield from self._sweep()

    def _keys(self, ops: Sequence[Operation]) -> tuple[int, ...]:
        return tuple(op.id for op in ops)

    def _shown(self, home: Operation) -> Operation:
        """Return the operation that holds the value of a box."""
        return self.folding.value_of(home, self.folding.groups[home])

    def _text(self, home: Operation) -> str:
        """Return the computation of a box as text, `%5 = a + %4`."""
        return self.picture.boxes[home.id].title

    def _traced(self, op: Operation) -> Step:
        where = op.where
        lines = [f"its value is {_value(self._shown(op))}", *self._guards(op)]
        if where is not None:
            lines.append(f"{where.short}  {where.source}")
        if self.sides.value in self.folding.groups[op]:
            lines.append("This is the result.")
        return Step("trace", self._text(op), tuple(lines), (op.id,), (op.id, *self._used(op)))

    def _guards(self, op: Operation) -> list[str]:
        """Return the guarded facts about a value, on which the program's control flow depends."""
        return [f"the program asked for it: {tidy(guard.body.removeprefix('guard '))} is guarded"
                for guard in self.folding.guards.get(op, [])]

    def _used(self, op: Operation) -> list[int]:
        return [self.folding.home[used].id for used in operands(op) if used in self.folding.home]

    def _triple(self, op: Operation) -> Step:
        fn, args = op.args[0], op.args[1:]
        names = [self.name(arg) if isinstance(arg, Operation) else short(arg, 12) for arg in args]
        varies = [isinstance(arg, Operation) and arg in self.folding.varies for arg in args]
        y = self.name(self._shown(op))
        words = local_derivative(fn, names, varies, y) if names else ""
        line = (f"{derivative(y)} = {words}" if words
                else f"the rule of {brief(fn)} makes it: linear in the cotangent, as every pullback is")
        return Step("triples", f"{self._text(op)}, and its pullback", (line,), (), (op.id, *self._used(op)))

    # -- the reverse sweep

    def _sweep(self) -> Iterator[Step]:
        pending: list[Operation] = []  # sums after a pullback belong to its step
        ready: Operation | None = None
        for op in self.back:
            role = role_of(op)
            if role == "accumulation":
                pending.append(op)
                continue
            if ready is not None:
                yield self._pulled(ready, pending)
                ready, pending = None, []
            if type(op) is Constant and op.purpose == "seed":
                told = f"{self._text(op)}: the derivative of the result with respect to itself"
                yield Step("sweep", "The seed", (told,), (op.id,), (op.id,))
            elif isinstance(op.fn, Operation):
                ready = op
            elif op not in self.sides.gradients and role != "gradient":  # on a flat tape the sweep is plain calls
                told = f"its value is {_value(self._shown(op))}"
                yield Step("sweep", self._text(op), (told,), (op.id,), (op.id, *self._used(op)))
        if ready is not None:
            yield self._pulled(ready, pending)
        yield from self._gradients()

    def _pulled(self, op: Operation, sums: list[Operation]) -> Step:
        triple = self.sides.partner(op)
        of = self._text(triple) if triple is not None and triple in self.folding.groups else "a call"
        lines = [f"{self.name(arg)} = {_value(arg)} comes in" for arg in op.args if isinstance(arg, Operation)]
        for part in self.folding.groups[op][1:]:
            lines.append(f"{self._target(part)} gets {_value(part)}")
        for total in {self._target(total): total for total in sums}.values():  # the last of each
            parts = [f"{_value(part)} (from {self.folding.source(part)})" for part in self.folding.parts(total)]
            lines.append(f"{self._target(total)} = {' + '.join(parts)} = {_value(total)}")
        beside = () if triple is None or triple not in self.folding.home else (self.folding.home[triple].id,)
        return Step("sweep", f"Back through {of}", tuple(lines), (op.id, *self._keys(sums)),
                    (op.id, *beside, *self._keys(sums)))

    def _target(self, part: Operation) -> str:
        """Return the name of the cotangent that a contribution belongs to."""
        partner = self.sides.partner(part) if part.purpose in ("cotangent", "accumulation") else None
        return part.name if partner is None else derivative(self.name(partner))

    def _gradients(self) -> Iterator[Step]:
        found = [op for op in self.back if op in self.sides.gradients or role_of(op) == "gradient"]
        last = dict.fromkeys([*found, *self.sides.gradients])
        if not last:
            return
        lines = []
        for op in last:
            wanted = ", ".join(derivative(x.label or x.name) for x in self.sides.gradients.get(op, []))
            lines.append(f"{wanted} = {_value(op)}")
        homes = dict.fromkeys(self.folding.home[op].id for op in last if op in self.folding.home)
        yield Step("sweep", "The gradient", tuple(lines), tuple(homes), tuple(homes))


def _value(op: Operation) -> str:
    """Return a value as text in a few characters."""
    if not has_value(op):
        return f"a {op.type}"
    value: Any = op.val
    return number(value) or tidy(short(value, 60))
