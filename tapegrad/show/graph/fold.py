"""fold: a box for each operation, with the plumbing of triples, pullbacks, constants and guards folded in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.formatting import brief
from tapegrad.ops import default_rng, draw, pack, whole_of
from tapegrad.rules.user import is_triple
from tapegrad.show.body import body
from tapegrad.show.graph.cost import cost_of
from tapegrad.show.graph.picture import Arrow, Box, Picture
from tapegrad.show.graph.sides import Sides
from tapegrad.show.graph.words import INFIX, constant, derivative, expression, number, value_text
from tapegrad.show.line import Places, heading, role_of, short, shorten, tidy
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, has_value, operands

WIDEST = 32  # characters of a box


def fold(tape: Tape) -> Picture:
    """Return a picture with a box for each operation that computes something.

    A triple is one box, and so is a pullback's call with the operations that unpack its cotangents. Constants are
    written where they are used, and a guard belongs to the box of the value that it guards.
    """
    return Folding(tape).picture()


class Folding:
    """A tape whose operations are grouped into boxes."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.sides = tape, Sides(tape)
        self.triples = any(map(is_triple, tape))
        self.home: dict[Operation, Operation] = {}  # the first operation of an operation's box
        self.groups: dict[Operation, list[Operation]] = {}
        self.guards: dict[Operation, list[Guard]] = {}
        self.places = Places()
        self.varies = varying(tape)
        self.partial = _partial_sums(tape)
        used = {arg for op in tape for arg in operands(op)}
        for op in tape:
            self._settle(op, used)

    def _settle(self, op: Operation, used: set[Operation]) -> None:
        """Assign an operation to a box, if it is drawn at all."""
        kept = op is self.sides.value or op is self.tape.result or op in self.sides.gradients
        if op is self.sides.end or (op.id == 1 and op not in used and not kept):
            return
        if isinstance(op, Guard):
            home = self.home.get(op.args[0])
            if home is not None:
                self.guards.setdefault(home, []).append(op)
            return
        if op not in self.varies and op.purpose != "seed" and not kept:
            return
        home = op
        of = self.home.get(whole_of(op))
        if of is not None and self.sides.reverse(of) == self.sides.reverse(op):
            home = of
        if op.fn is conform and self._sums(op.args[0]):
            home = self.home[op.args[0]]
        if op.fn is pack:  # a tuple that is unpacked and packed again
            homes = {self.home.get(part) for part in operands(op)}
            again = homes.pop() if len(homes) == 1 else None
            home = again if isinstance(again, Call) and again.fn is pack else home
        self.home[op] = home
        self.groups.setdefault(home, []).append(op)

    def _sums(self, op: Operation) -> bool:
        """Return whether an operation is an accumulation with a box of its own: a gradient, but for type and shape."""
        return op in self.home and role_of(op) == "accumulation" and self.home[op] is op

    def picture(self) -> Picture:
        boxes: dict[int, Box] = {}
        arrows: Counter[tuple[int, int]] = Counter()
        before = None
        for home, group in self.groups.items():
            before = self._beside(home, before) if self.sides.reverse(home) else None
            boxes[home.id] = self._box(home, group, before)
            for op in group:
                for used in flowing(op):
                    tail = self.home.get(used)
                    if tail is not None and tail is not home:
                        arrows[tail.id, home.id] += 1
        return Picture(heading(self.tape), boxes, [Arrow(*ends, count) for ends, count in arrows.items()])

    def _beside(self, home: Operation, before: int | None) -> int | None:
        """Return the forward box beside which an operation stands; without a partner, that of the operation before it.
        """
        partner = self.sides.partner(home) if home not in self.partial else None
        found = self.home.get(partner) if partner is not None else None
        return before if found is None or self.sides.reverse(found) else found.id

    def value_of(self, home: Operation, group: list[Operation]) -> Operation:
        """Return the operation that holds a box's value: the first field of a triple."""
        return next((op for op in group if is_triple(whole_of(op)) and op.args[1] == 0), home)

    # -- texts

    def _box(self, home: Operation, group: list[Operation], beside: int | None) -> Box:
        shown = self.value_of(home, group)
        guards = self.guards.get(home, [])
        title, detail = self._texts(home, shown, group)
        return Box(home.id, self._role(home, group), shorten(title, WIDEST, "…"), shorten(detail, WIDEST + 6, "…"),
                   self._hover(group, shown, guards), reverse=self.sides.reverse(home), beside=beside,
                   lift=home in self.partial, guards=len(guards), marked=self.sides.value in group)

    def _role(self, home: Operation, group: list[Operation]) -> str:
        role = role_of(home)
        if any(op in self.sides.gradients for op in group):
            return "gradient"
        if role == "primal" and self.sides.reverse(home):
            return "pullback"
        if role == "primal" and self.triples:
            return "constant"  # no gradient passes here
        return "operation" if role in ("primal", "triple") else role

    def _texts(self, home: Operation, shown: Operation, group: list[Operation]) -> tuple[str, str]:
        """Return the title and the detail of a box: the expression, and its value."""
        value = value_text(group[-1] if self._role(home, group) == "gradient" else shown)
        if home in self.sides.gradients:
            wanted = ", ".join(derivative(x.label or x.name) for x in self.sides.gradients[home])
            return ((wanted, value) if self.triples or not isinstance(home, Call)
                    else (f"{wanted} = {self._expression(home)}", value))
        if isinstance(home, Input):
            return home.label or home.name, value
        if type(home) is Constant:
            seed = (derivative(self.name(self.sides.value)) if home.purpose == "seed" and self.sides.value is not None
                    else home.name)
            return f"{seed} = {constant(home.val)}", home.note or value
        if isinstance(home.fn, Operation):
            given = ", ".join(self.name(arg) for arg in home.args if isinstance(arg, Operation))
            fields = ", ".join(dict.fromkeys(self.name(op) for op in group[1:])) or home.name
            numbers = [number(op.val, 3) if has_value(op) else "" for op in group[1:]]
            told = f": {', '.join(numbers)}" if numbers and all(numbers) else ""
            return f"{fields} ← {given}", f"pullback of {self._pulled(home)}{told}"
        if isinstance(home, Call):
            name = self.name(shown)
            if self.triples and role_of(home) == "accumulation":
                sources = " + ".join(f"from {self.source(part)}" for part in self.parts(home))
                return f"{name} ← {sources}", self._detail(shown, value)
            return f"{name} {'←' if name.startswith('d') else '='} {self._expression(home)}", self._detail(shown, value)
        return shown.body, value

    def _detail(self, shown: Operation, value: str) -> str:
        return f"{self.tape.name or 'result'} = {value}" if shown is self.sides.value else value

    def _pulled(self, home: Operation) -> str:
        """Return the name of a pullback's function."""
        triple = self.sides.partner(home)
        return (tidy(getattr(triple.args[0], "__name__", "a call")) if is_triple(triple)
                else "a call")

    def parts(self, total: Operation) -> list[Operation]:
        """Return the contributions that a cotangent sums."""
        found: list[Operation] = []
        for arg in total.args:
            if isinstance(arg, Operation):
                found += self.parts(arg) if arg in self.partial else [arg]
        return found

    def source(self, part: Operation) -> str:
        """Return the call that a contribution to a cotangent comes from, by its sign or its name."""
        home = self.home.get(part)
        triple = self.sides.partner(home) if home is not None else None
        if not is_triple(triple):
            return "the seed"
        op = brief(triple.args[0])
        return {"divide": "÷", "multiply": "×"}.get(op) or INFIX.get(op, op)

    def _expression(self, op: Call) -> str:
        fn, args = (op.args[0], op.args[1:]) if is_triple(op) else (op.fn, op.args)
        return tidy(expression(fn, args, op.kwargs, self.name))

    def name(self, op: Operation) -> str:
        """Return an operation as an expression shows it: an input's label, a constant's value, a cotangent's `d…`."""
        if isinstance(op, Input):
            return op.label or op.name
        if op not in self.home:
            return constant(op.val) if op not in self.varies else op.name
        if self.triples and self.sides.reverse(op):
            if op.purpose == "seed":
                return derivative(self.name(self.sides.value)) if self.sides.value is not None else op.name
            partner = self.sides.partner(op) if op.purpose in ("cotangent", "accumulation") else None
            if partner is not None:
                return derivative(self.name(partner))
        return op.name

    def _hover(self, group: list[Operation], shown: Operation, guards: list[Guard]) -> str:
        lines = [tidy(repr(op)) for op in group[:12]] + ["…"] * (len(group) > 12)
        lines += [f"{inner.row.variable}  {inner.row.operation}" for op in group
                  for inner in body(op, compact=True, fold=True)]
        costs = [cost_of(op) for op in group]
        where = self.places.line(group[0])
        size, flops = cost_of(shown).bytes, sum(cost.flops or 0 for cost in costs)
        facts: list[tuple[str, Any]] = [
            ("type", shown.type), ("value", _value(shown)),
            ("line", f"{where.short} in {where.function}" if where else ""), ("source", where.source if where else ""),
            ("note", "; ".join(op.note for op in group if op.note)),
            ("cost", ", ".join(filter(None, [amount(size, "B"), amount(flops, "flop")])))]
        facts += [("guard", tidy(guard.body.removeprefix("guard "))) for guard in guards]
        return "\n".join(lines + [f"{name}: {fact}" for name, fact in facts if fact])


def _value(op: Operation) -> str:
    """Return a value in brief, "" if that adds nothing to the type."""
    found = "" if not has_value(op) else tidy(short(op.val, 120))
    return "" if found == f"<{op.type}>" else found


def varying(tape: Tape) -> set[Operation]:
    """Return the operations that depend on an input or on random numbers; the others are constant, and written where
    they are used. On a tape without inputs all operations count as varying.
    """
    if len(tape.inputs) < 2:
        return set(tape)
    found: set[Operation] = set()
    for op in tape:
        if isinstance(op, Input) or op.fn in (draw, default_rng) or any(used in found for used in operands(op)):
            found.add(op)
    return found


def _partial_sums(tape: Tape) -> set[Operation]:
    """Return the accumulations that are not the last of their cotangent: they stand in the sweep's order, and the last
    beside its variable.
    """
    sums = [op for op in tape if op.purpose == "accumulation"]
    last = {op.origin: op for op in sums}
    return {op for op in sums if last[op.origin] is not op}


def flowing(op: Operation) -> list[Operation]:
    """Return the operations whose values flow into one: `conform` takes only a shape from its second argument."""
    return (operands(op)[:1] if op.fn is conform and isinstance(op.args[0], Operation)
            else operands(op))


def amount(count: int | None, unit: str) -> str:
    """Return a number of bytes or flops as text; "" for none.

    >>> amount(24, "B"), amount(12_345_678, "flop"), amount(0, "flop")
    ('24 B', '12.3 Mflop', '')
    """
    if not count:
        return ""
    size = float(count)
    prefixes = ["", "k", "M", "G", "T"]
    while size >= 999.5 and len(prefixes) > 1:
        size /= 1000
        del prefixes[0]
    return f"{size:.3g} {prefixes[0]}{unit}"
