"""source: writes a lowered tape as straight-line Python that calls torch."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import torch

from tapegrad.compile.numpy.call_source import comment, loop_head
from tapegrad.compile.source_names import Names, Texts
from tapegrad.compile.torch.kernel import arguments, nest, values_in
from tapegrad.compile.torch.recorder import sliced
from tapegrad.numbers.nested import tuple_of
from tapegrad.ops import getfield, whole_of
from tapegrad.ops.loop import is_loop
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape

END = 2**63 - 1  # ATen's end of a slice up to the last element
ON_HOST = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**",
           operator.floordiv: "//",
           operator.mod: "%", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
           operator.eq: "==", operator.ne: "!="}


class Text(Texts):
    """The text of a tape: the names of its leaves, the lines of its body, the parts of its result.

    The body refers to `guards` by number, and to `names.objects` by name.
    """

    def __init__(self, tape: Tape) -> None:
        self.names = Names(lambda value: None)
        self.names.taken |= {"torch", "quiet", "check", "enter", "kinds", "run"}
        self.names.objects["torch"] = torch
        self.name: dict[Operation, str] = {}
        self.lines: list[str] = []
        self.guards: list[Guard] = []
        self.devices: dict[Any, Any] = {}
        self.line = ""
        self.leaves = [self.called(x) for x in tape.inputs[1:]]
        self.steps(tape)
        self.parts = self.results(tape)

    def called(self, op: Operation) -> str:
        self.name[op] = name = self.names.fresh(op.label or "x" if type(op) is Input else op.note or f"v{op.id}")
        return name

    def results(self, tape: Tape) -> list[str]:
        return list(map(self.text, tape.result.args))

    def steps(self, tape: Tape) -> set[Operation]:
        """Write the calls of a tape or a loop's body; return the operations that got a variable."""
        taken = {(op.args[0], op.args[1]): op for op in tape.ops if is_taken(op)}
        made: set[Any] = set()
        outs: list[Operation | None]
        for op, numbers in zip(tape.ops, last_uses(tape)[1:]):
            dead = [x for number in numbers if (x := tape.ops[number - 1]) is op or x in made]
            if type(op) is Constant:
                known = not isinstance(op.val, torch.Tensor)
                self.name[op] = self.text(op.val) if known else self.names.bind(op.val, "constant")
            elif type(op) is Guard:
                self.write(op, self.check(op))
                self.drop([self.name[x] for x in dead if x in made])
            elif is_taken(op):
                self.drop([self.name[x] for x in dead])
            elif type(op) is Call and op is not tape.result:
                outs = [None if op in dead else op]
                if is_several(op):
                    outs = [taken.get((op, i)) for i in range(len(op.fn.aliases))]
                made.update(outs)
                self.step(op, outs, [x for x in dead if x is not op])
        return made

    def step(self, op: Call, outs: list[Operation | None], dead: list[Operation]) -> None:
        """Write a call and the deletion of dead variables, unused ones among several results included."""
        several, text = is_several(op), "" if is_loop(op) else self.call(op)
        written = op is outs[0] and type(getattr(op.fn, "aliases", None)) is int and getattr(op.fn, "writes", None)
        into = op.args[op.fn.aliases] if written else None
        if into in dead:  # written in place: the variable keeps its name
            self.name[op], outs = self.name[into], []
            dead.remove(into)
        outs = outs if several else list(filter(None, outs))
        names = [self.names.fresh("_") if out is None else self.called(out) for out in outs]
        gone = [self.name[x] for x in dead] + [name for name, out in zip(names, outs) if out is None]
        if is_loop(op):
            self.repeat(op, names)
            return self.drop(gone)
        text = f"{', '.join(names)}{',' if several and len(names) == 1 else ''} = {text}" if names else text
        self.write(op, text + (f"; del {', '.join(gone)}" if gone else ""))

    def write(self, op: Operation, text: str) -> None:
        """Write a line, below a comment with the user's line unless that is the last one."""
        where = op.where
        line = "" if where is None else comment(where)
        if line and line != self.line:
            self.line = line
            self.lines.append(line)
        if text:
            self.lines.append(text)

    def drop(self, names: list[str]) -> None:
        if names:
            self.lines.append(f"del {', '.join(names)}")

    def repeat(self, op: Any, outs: list[str]) -> None:
        """Write a loop with its initialisation, and the deletion of its body's variables except the results."""
        loop, (steps, given, listed, carried), args = op.fn, op.fn.parts(), list(map(self.text, op.args))
        self.write(op, "")
        self.name |= zip(given, args)
        each = [self.called(x) for x in (*steps, *listed)]
        self.name |= zip(carried, outs)
        self.lines += [f"{name} = {arg}" for name, arg in zip(outs, args[len(args) - len(carried):])]
        self.lines += [f"{name} = []" for name in outs[len(carried):]]
        self.lines.append(loop_head(loop, each, args[len(given):len(args) - len(carried)], self.names.bind))
        before, self.lines = self.lines, []
        made, parts = self.steps(loop.body), self.results(loop.body)
        self.lines += [f"{name}.append({part})" for name, part in zip(outs[len(carried):], parts[len(carried):])]
        handed = [(name, part) for name, part in zip(outs, parts[:len(carried)]) if name != part]
        if handed:
            self.lines.append(f"{', '.join(name for name, _ in handed)} = {', '.join(part for _, part in handed)}")
        self.lines = [*before, *(f"    {line}" for line in self.lines or ["pass"])]
        self.lines += [f"{name}.reverse()" for name in outs[len(carried):] if loop.reverse]
        self.drop([*each, *(self.name[x] for x in dict.fromkeys(values_in(loop.results)) if x in made)])

    def check(self, guard: Guard) -> str:
        number, subject = len(self.guards), self.text(guard.args[0])
        self.guards.append(guard)
        if guard.fact == "bool":
            return f"if {'not ' if guard.expected else ''}{subject}: raise miss({number})"
        return f"if not check({number}, {subject}): raise miss({number})"

    def call(self, op: Any) -> str:
        """Write a call: by an operator, a method, or the function's name in torch."""
        if op.fn is getfield:
            return f"{self.text(op.args[0])}[{self.text(op.args[1])}]"
        fn, name, (given, options) = op.fn.quick, op.fn.__name__, arguments(op)
        args = list(map(self.text, given))
        if fn is nest:
            return args[0]
        if fn in ON_HOST:
            return f"{self.operand(given[0])} {ON_HOST[fn]} {self.operand(given[1])}"
        if fn is sliced:
            axis, start, stop, step = given[1:] + (0, 0, END, 1)[len(given) - 1:]
            bounds = f"{start or ''}:{'' if stop == END else stop}{'' if step == 1 else f':{step}'}"
            return f"{args[0]}[{':, ' * axis}{bounds}]"
        if fn is operator.neg:
            return f"-{args[0]}"
        kwargs = [f"{key}={self.text(value)}" for key, value in options.items()]
        if getattr(torch.Tensor, name, None) is fn and args and isinstance(given[0], Operation):
            return f"{args[0]}.{name}({', '.join(args[1:] + kwargs)})"
        known = getattr(torch, name, None) is fn
        return f"{f'torch.{name}' if known else self.names.bind(fn, name or 'fn')}({', '.join(args + kwargs)})"

    def tuple_type(self, kind: Any) -> str:
        """Return the name of the function that converts a plain tuple to a tuple class."""
        if kind is torch.Size:
            return "torch.Size"
        return self.names.bind(partial(tuple_of, kind) if hasattr(kind, "_fields") else kind, kind.__name__)

    def other(self, x: Any) -> str:
        if isinstance(x, Operation):
            return self.name[x]
        if isinstance(x, tuple):
            return f"{self.tuple_type(type(x))}({self.text((*x,))})"
        if type(x) is dict:
            return f"{{{', '.join(f'{key!r}: {self.text(value)}' for key, value in x.items())}}}"
        if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
            return str(x)
        return self.names.bind(*((self.devices.setdefault(x, x), "device") if isinstance(x, torch.device) else (x,)))


def is_several(op: Operation) -> bool:
    """Return whether an operation is a call with several results."""
    return type(op) is Call and type(getattr(op.fn, "aliases", None)) is tuple


def is_taken(op: Operation) -> bool:
    """Return whether an operation extracts one of several results."""
    return is_several(whole_of(op))
