"""loop_source: writes a loop on a tape as a `for` loop of Python."""

from __future__ import annotations

from typing import Any

from tapegrad.compile.numpy.call_source import loop_head
from tapegrad.compile.numpy.source import SUBTAPES, Writer
from tapegrad.ops.loop import Loop, written
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Input, Operation


def write_loop(writer: Writer, op: Call) -> None:
    """Write a loop's call, and note the names of its results.

    Carried arrays that the body writes to are copied once, before the loop, and then written in place: nothing else
    refers to their memory.
    """
    body = _Body(writer, op)
    before, *lines = body.before + body.write_runs()
    writer.statement(op, before)
    writer.silent = frozenset()  # the lines of a loop have blocks of their own
    writer.body += lines
    writer.loops[op] = [*body.now, *body.collected]


SUBTAPES[Loop] = write_loop


class _Body(Writer):
    """Writes the body of a loop as part of the function that calls it."""

    def __init__(self, outer: Writer, op: Call) -> None:
        loop: Loop = op.fn
        self.loop = loop
        steps, fixed, parts, self.carried = loop.parts()
        super().__init__(loop.body, outer.shared, {x for x in written(loop) if x.spec.has_axes})
        self.rewritten = frozenset(self.ownership.owned)
        self.now = [self.names.fresh("c") for _ in self.carried]
        self.collected = [self.names.fresh("y") for _ in loop.results[len(self.carried):]]
        self.each = [self.names.fresh("s") for _ in [*steps, *parts]]
        self.before: list[str] = []
        source = dict(zip(loop.body.inputs[1 + len(steps):], op.args))
        self.lists = [outer.text(source[x]) for x in parts]
        self.expr.update(zip([*steps, *parts, *self.carried], [*self.each, *self.now]))
        self.expr.update((x, self._fixed(x, outer.text(source[x]))) for x in fixed)
        for x, name in zip(self.carried, self.now):
            text = self._converted(source[x], x, outer.text(source[x]))
            self.before.append(f"{name} = {text}" + (".copy('K')" if x in self.rewritten else ""))
        self.before += [f"{name} = []" for name in self.collected]

    def _fixed(self, x: Input, text: str) -> str:
        """Return the name of a loop-invariant argument, bound before the loop if its text is an expression."""
        if text.isidentifier():
            return text
        name = self.names.fresh(x.label or "g")
        self.before.append(f"{name} = {text}")
        return name

    def _converted(self, value: Any, x: Input, text: str) -> str:
        """Write a carried number, converted to Python's float if the recorded one was."""
        return f"float({text})" if x.spec.type is float and spec_of(value).type is not float else text

    def write_runs(self) -> list[str]:
        """Write the loop; return its lines."""
        for op in self.tape.ops[1:]:
            if op is not self.tape.result and not isinstance(op, Input):
                self.operation(op)
                self.forget(op)
        places = list(zip(self.loop.results, self.carried, self.now))
        handed = {name: self._apart(new, self._converted(new, x, self.text(new)), x in self.rewritten)
                  for new, x, name in sorted(places, key=lambda place: place[1] not in self.rewritten)}
        self.body += [f"{name}.append({self._apart(part, self.text(part), False)})"
                      for part, name in zip(self.loop.results[len(self.carried):], self.collected)]
        pairs = [(name, handed[name]) for name in self.now if handed[name] != name]
        if pairs:
            self.body.append(f"{', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}")
        ends = [f"{name}.reverse()" for name in self.collected] if self.loop.reverse else []
        head = loop_head(self.loop, self.each, self.lists, self.names.bind)
        return [head, *(f"    {line}" for line in self.body or ["pass"]), *ends]

    def _apart(self, part: Any, text: str, rewritten: bool) -> str:
        """Write a value that leaves an iteration: a copy of an array that has been handed out already, or that the next
        iteration rewrites and the body does not own.
        """
        if not isinstance(part, Operation) or not part.spec.is_memory:
            return text
        if part in self.given or (rewritten and part not in self.ownership.owned):
            return f"{text}.copy('K')"
        if rewritten:
            self.given.add(part)
        return text
