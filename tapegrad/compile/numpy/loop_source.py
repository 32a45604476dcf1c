"""loop_source: a loop on a tape as Python's `for`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.numpy.call_source import loop_head
from tapegrad.compile.numpy.source import SUBTAPES, Writer
from tapegrad.ops.loop import Loop, written
from tapegrad.tape.tape import Call, Input, Operation


def write_loop(writer: Writer, op: Call) -> None:
    """Write a loop's call, and note the names of its results.

    What the body computes for itself lies in buffers that each run uses again; what it hands on, and what is collected,
    in memory of its own, but for arrays that the body writes to or adds to: those are copied once, before the loop, and
    then written in place.
    """
    body = _Body(writer, op)
    lines = body.write_runs()
    writer.statement(op, (body.before + lines)[0])
    writer.body += (body.before + lines)[1:]
    writer.loops[op] = [*body.last, *body.collected]


SUBTAPES[Loop] = write_loop


class _Body(Writer):
    """Writes the body of a loop into the function that makes it."""

    def __init__(self, outer: Writer, op: Call) -> None:
        self.outer, self.loop = outer, op.fn
        loop: Loop = op.fn
        self.steps, self.fixed, self.parts, self.carried = loop.parts()
        source = dict(zip(loop.body.inputs[1 + len(self.steps):], op.args))
        varies = {x for x, arg in source.items() if isinstance(arg, Operation) and arg in outer.plan.varies}
        super().__init__(loop.body, outer.shared, _written(loop), varies.union(self.carried) if varies else ())
        self.reads = Counter({x: count * loop.count for x, count in self.reads.items()})
        self.before: list[str] = []
        self.over: dict[Operation, str] = {}  # sums that are added to in place
        self.sources = source
        self.now = [self.names.fresh("c") for _ in self.carried]
        # a name of its own: the function may be parted behind the loop
        self.last = [self.names.fresh("c") for _ in self.carried]
        self.collected = [self.names.fresh("y") for _ in loop.results[len(self.carried):]]
        self.each = [self.names.fresh("s") for _ in [*self.steps, *self.parts]]
        self._bind_inputs()

    def _bind_inputs(self) -> None:
        """Say what the inputs are called, and write what stands before the loop."""
        for x, name in zip([*self.steps, *self.parts], self.each):
            self.expr[x] = name
        self.float.update(x for x in self.steps if x.spec.type in (int, float))
        self.float.update(x for x in self.parts if self.outer.expr.get(self.sources[x]) in self.shared.floating)
        for x in self.fixed:
            text = self.outer.bare(self.sources[x])
            if not text.isidentifier():
                name = self.names.fresh(x.label or "g")
                self.before.append(f"{name} = {text}")
                text = name
            self.expr[x] = text
            if self.outer.is_float(self.sources[x]):
                self.float.add(x)
        for x, name in zip(self.carried, self.now):
            self.expr[x] = name
            source = self.sources[x]
            text = self.outer.bare(source)
            if self._is_float(x):
                self.float.add(x)
                self.shared.floating.add(name)
                text = text if self.outer.is_float(source) and not isinstance(source, int) else f"float({text})"
            elif self.plan.storage.get(x) is not None and self.plan.storage[x].owned:
                text = f"{text}.copy('K')"
            self.before.append(f"{name} = {text}")
        for (new, x), name in zip(zip(self.loop.results, self.carried), self.now):
            if self._adds(new, x):
                self.over[new] = name
        self.before += [f"{name} = []" for name in self.collected]

    def _is_float(self, x: Operation) -> bool:
        """True for a number that is a Python float here."""
        return x.spec.type is float or (x.spec.type is np.float64 and self.allowed)

    def _adds(self, new: Any, x: Input) -> bool:
        return (isinstance(new, Call) and _is_sum(new, x) and self.uses[x.id] == 1 and self.plan.storage[x].owned
                and self.loop.results.count(new) == 1)

    def write_runs(self) -> list[str]:
        """Write the loop; return its lines."""
        result = self.tape.result
        for op in self.tape.ops[1:]:
            if op is result or isinstance(op, Input):
                continue
            self.operation(op)
        places = list(zip(self.loop.results, self.carried, self.now))
        handed = {x: self._handed_on(new, x, name)
                  for new, x, name in sorted(places, key=lambda place: not self._is_written(place[1]))}
        for part, name in zip(self.loop.results[len(self.carried):], self.collected):
            self.body.append(f"{name}.append({self._collected(part, name)})")
        pairs = [(name, text) for name, text in zip(self.now, map(handed.__getitem__, self.carried)) if text != name]
        if pairs:
            self.body.append(f"{', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}")
        ends = [f"{', '.join(self.last)} = {', '.join(self.now)}"] if self.now else []
        ends += [f"{name}.reverse()" for name in self.collected] if self.loop.reverse else []
        self.shared.floating.update(last for last, now in zip(self.last, self.now) if now in self.shared.floating)
        return [self._head(), *(f"    {line}" for line in self.body or ["pass"]), *ends]

    def _head(self) -> str:
        return loop_head(self.loop, self.each, [self.outer.bare(self.sources[x]) for x in self.parts], self.names.bind)

    def _handed_on(self, new: Any, x: Input, name: str) -> str:
        """Write the next value of what is carried."""
        text = self.bare(new)
        if self._is_float(x):
            return (text if isinstance(new, Operation) and new in self.float and new.spec.type is not int
                    else f"float({text})")
        return self._apart(new, text, self._is_written(x), new in self.over or text == name)

    def _is_written(self, x: Input) -> bool:
        """True for a carried array that runs write to in place."""
        storage = self.plan.storage.get(x)
        return storage is not None and storage.owned

    def _collected(self, part: Any, name: str) -> str:
        text = self.bare(part)
        if isinstance(part, Operation) and part in self.float and part.spec.type is not int:
            self.shared.floating.add(name)
        return self._apart(part, text)

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
        if there:
            return text
        return (f"{self.names.bind(np.asarray)}({text}, None, {part.spec.order!r})" if part in self.turned
                and part.spec.order != "K" else text)

    def out(self, op: Call) -> str:
        return self.over.get(op) or super().out(op)

    def reads_often(self, op: Call) -> bool:
        return bool(op.args) and op.args[0] in self.fixed and super().reads_often(op)

    def listed(self, op: Call) -> str:
        x = op.args[0]
        source = self.sources[x]
        if source not in self.outer.lists:
            self.outer.lists[source] = name = self.names.fresh(f"{self.expr[x]}_list")
            self.before.append(f"{name} = {self.expr[x]}.tolist()")
        return self.outer.lists[source]


def _written(loop: Loop) -> set[Operation]:
    """Return the carried arrays that the body writes to, or does nothing with but add to them."""
    sums = {x for new, x in zip(loop.results, loop.parts()[3]) if x.spec.has_axes and _is_sum(new, x)}
    return sums | {x for x in written(loop) if x.spec.has_axes}


def _is_sum(new: Any, x: Input) -> bool:
    """True for `x + y` of one shape and dtype, in the same place of memory."""
    if not (isinstance(new, Call) and new.fn is ops.add and x.spec.has_axes and new.spec.has_axes
            and new.args.count(x) == 1):
        return False
    return bool(new.spec.shape == x.spec.shape and new.spec.dtype == x.spec.dtype)
