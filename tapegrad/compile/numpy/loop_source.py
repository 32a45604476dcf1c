"""loop_source: a loop on a tape as Python's `for`."""

from __future__ import annotations

from typing import Any

from tapegrad.compile.numpy.call_source import loop_head
from tapegrad.compile.numpy.source import SUBTAPES, Writer
from tapegrad.ops.loop import Loop, written
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Input, Operation


def write_loop(writer: Writer, op: Call) -> None:
    """Write a loop's call, and note the names of its results.

    What the body hands on, and what is collected, lies in memory of its own, but for arrays that the body writes to:
    those are copied once, before the loop, and then written in place.
    """
    body = _Body(writer, op)
    lines = body.write_runs()
    writer.statement(op, (body.before + lines)[0])
    writer.body += (body.before + lines)[1:]
    writer.loops[op] = [*body.now, *body.collected]


SUBTAPES[Loop] = write_loop


class _Body(Writer):
    """Writes the body of a loop into the function that makes it."""

    def __init__(self, outer: Writer, op: Call) -> None:
        self.outer, self.loop = outer, op.fn
        loop: Loop = op.fn
        self.steps, self.fixed, self.parts, self.carried = loop.parts()
        source = dict(zip(loop.body.inputs[1 + len(self.steps):], op.args))
        varies = {x for x, arg in source.items() if isinstance(arg, Operation) and arg in outer.plan.varies}
        super().__init__(loop.body, outer.shared, {x for x in written(loop) if x.spec.has_axes},
                         varies.union(self.carried) if varies else ())
        self.before: list[str] = []
        self.sources = source
        self.now = [self.names.fresh("c") for _ in self.carried]
        self.collected = [self.names.fresh("y") for _ in loop.results[len(self.carried):]]
        self.each = [self.names.fresh("s") for _ in [*self.steps, *self.parts]]
        self._bind_inputs()

    def _bind_inputs(self) -> None:
        """Say what the inputs are called, and write what stands before the loop."""
        for x, name in zip([*self.steps, *self.parts], self.each):
            self.expr[x] = name
        for x in self.fixed:
            text = self.outer.bare(self.sources[x])
            if not text.isidentifier():
                name = self.names.fresh(x.label or "g")
                self.before.append(f"{name} = {text}")
                text = name
            self.expr[x] = text
        for x, name in zip(self.carried, self.now):
            self.expr[x] = name
            text = self._converted(self.sources[x], x, self.outer.bare(self.sources[x]))
            self.before.append(f"{name} = {text}" + (".copy('K')" if self._is_written(x) else ""))
        self.before += [f"{name} = []" for name in self.collected]

    def _converted(self, value: Any, x: Input, text: str) -> str:
        """Write a number that is handed on as Python's float where that was recorded."""
        return f"float({text})" if x.spec.type is float and spec_of(value).type is not float else text

    def write_runs(self) -> list[str]:
        """Write the loop; return its lines."""
        for op in self.tape.ops[1:]:
            if op is not self.tape.result and not isinstance(op, Input):
                self.operation(op)
                self.forget(op)
        places = list(zip(self.loop.results, self.carried, self.now))
        handed = {x: self._handed_on(new, x, name)
                  for new, x, name in sorted(places, key=lambda place: not self._is_written(place[1]))}
        for part, name in zip(self.loop.results[len(self.carried):], self.collected):
            self.body.append(f"{name}.append({self._apart(part, self.bare(part))})")
        pairs = [(name, text) for name, text in zip(self.now, map(handed.__getitem__, self.carried)) if text != name]
        if pairs:
            self.body.append(f"{', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}")
        ends = [f"{name}.reverse()" for name in self.collected] if self.loop.reverse else []
        head = loop_head(self.loop, self.each, [self.outer.bare(self.sources[x]) for x in self.parts], self.names.bind)
        return [head, *(f"    {line}" for line in self.body or ["pass"]), *ends]

    def _handed_on(self, new: Any, x: Input, name: str) -> str:
        """Write the next value of what is carried."""
        text = self.bare(new)
        return self._apart(new, self._converted(new, x, text), self._is_written(x), text == name)

    def _is_written(self, x: Input) -> bool:
        """True for a carried array that runs write to in place."""
        storage = self.plan.storage.get(x)
        return storage is not None and storage.owned

    def _apart(self, part: Any, text: str, written: bool = False, there: bool = False) -> str:
        """Write an array that leaves a run: what is `written` in place in the next one, or is `there` already,
        must be in nothing else.
        """
        storage = self.plan.storage.get(part) if isinstance(part, Operation) else None
        if storage is None:
            return text
        if storage in self.given or (written and not there and (not storage.owned or part in self.plan.locked)):
            return f"{text}.copy('K')"
        if written:
            self.given.add(storage)
        return text
