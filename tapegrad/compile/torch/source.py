"""source: a program as straight-line Python that calls torch."""

from __future__ import annotations

import math
import operator
from types import MethodWrapperType
from typing import Any

import torch

from tapegrad.compile.argument_source import nested, nested_gradients
from tapegrad.compile.numpy.call_source import comment, loop_head
from tapegrad.compile.source_names import Names
from tapegrad.compile.torch.call_capture import name_of
from tapegrad.compile.torch.program import Check, Program, Repeat, Step, Value, last_uses, values_in
from tapegrad.tape.tape import Guard
from tapegrad.tree.flatten import ValueAndGradients

INFIX = {"mul": "*", "add": "+", "sub": "-", "div": "/", "matmul": "@", "__eq__": "==", "__ne__": "!=", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
         "gt": ">", "ge": ">=", "__and__": "&", "__or__": "|", "__xor__": "^"}
REFLECTED = {"__rsub__": "-", "__rdiv__": "/", "__rpow__": "**"}
ON_HOST = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**", operator.floordiv: "//",
           operator.mod: "%", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!="}


class Text:
    """The text of a program: the names of its leaves, the lines of its body, its result, and what they refer to by name.

    `guards` are those that the body checks, by number; `names.objects` the rest.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(lambda value: None)
        self.names.taken |= {"torch", "quiet", "check", "enter", "kinds", "run"}
        self.names.objects["torch"] = torch
        self.name: dict[Value, str] = {}
        self.lines: list[str] = []
        self.guards: list[Guard] = []
        self.line = ""
        self.leaves = [self.called(value) for value in program.leaves]
        self.steps(program)
        several = program.into is None and len(program.parts) != 1  # without a nesting: what executes it sees to that
        self.result = "" if several else self.nested([self.part(i, part) for i, part in enumerate(program.parts)])

    def called(self, value: Value) -> str:
        self.name[value] = name = self.names.fresh(value.hint)
        return name

    def steps(self, program: Program) -> None:
        """Write the steps of a program, or of a loop's body."""
        for value, tensor in program.constants.items():
            self.name[value] = self.names.bind(tensor, value.hint if value.hint == "constant" else f"constant_{value.hint}")
        for step, dead in zip(program.steps, last_uses(program)):
            self.step(step, [value for value in dead if value in self.name or value in step.made])

    def step(self, step: Step, dead: list[Value]) -> None:
        """Write one step, below the user's line that it comes from, and drop what is not used any more."""
        line = "" if step.op.where is None else comment(step.op.where)
        if line and line != self.line:
            self.line = line
            self.lines.append(line)
        if isinstance(step, Repeat):
            self.repeat(step)
            return self.drop(dead)
        text = self.check(step) if isinstance(step, Check) else self.call(step)
        if step.made:
            left = ", ".join(map(self.called, step.made))
            text = f"{left}{',' if isinstance(step.out, tuple) and len(step.made) == 1 else ''} = {text}"
        gone = [self.name[value] for value in dead]
        self.lines.append(text + (f"; del {', '.join(gone)}" if gone and not isinstance(step, Check) else ""))
        if isinstance(step, Check):
            self.drop(dead)

    def drop(self, dead: list[Value]) -> None:
        if dead:
            self.lines.append(f"del {', '.join(self.name[value] for value in dead)}")

    def repeat(self, step: Repeat) -> None:
        """Write a loop, and what stands before it and behind it; what its body binds besides its results is gone then."""
        loop, (steps, given, listed, carried), args = step.loop, step.parts, [self.text(arg) for arg in step.args]
        self.name |= zip(given, args)
        each = [self.called(value) for value in (*steps, *listed)]
        outs = [self.called(value) for value in step.made]
        self.name |= zip(carried, outs)
        self.lines += [f"{name} = {arg}" for name, arg in zip(outs, args[len(args) - len(carried):])]
        self.lines += [f"{name} = []" for name in outs[len(carried):]]
        self.lines.append(loop_head(loop, each, args[len(given):len(args) - len(carried)], self.names.bind))
        before, self.lines = self.lines, []
        self.steps(step.body)
        parts = [self.text(part) for part in step.body.parts]
        self.lines += [f"{name}.append({part})" for name, part in zip(outs[len(carried):], parts[len(carried):])]
        handed = [(name, part) for name, part in zip(outs, parts[:len(carried)]) if name != part]
        if handed:
            self.lines.append(f"{', '.join(name for name, _ in handed)} = {', '.join(part for _, part in handed)}")
        self.lines = [*before, *(f"    {line}" for line in self.lines or ["pass"])]
        self.lines += [f"{name}.reverse()" for name in outs[len(carried):] if loop.reverse]
        made = {value for inner in step.body.steps for value in inner.made}
        gone = [*each, *(self.name[value] for value in dict.fromkeys(values_in(step.body.parts)) if value in made)]
        if gone:
            self.lines.append(f"del {', '.join(gone)}")

    def check(self, step: Check) -> str:
        guard, number = step.op, len(self.guards)
        self.guards.append(guard)
        subject = self.text(step.args[0])
        if guard.fact == "bool":
            return f"if {'not ' if guard.expected else ''}{subject}: raise miss({number})"
        return f"if not check({number}, {subject}): raise miss({number})"

    def call(self, step: Step) -> str:
        """Write a call: with an operator, as a method, or by the function's name in torch."""
        fn, args, name = step.fn, [self.text(arg) for arg in step.args], name_of(step.fn)
        if fn in ON_HOST:
            return f"{self.operand(step.args[0])} {ON_HOST[fn]} {self.operand(step.args[1])}"
        kwargs = [f"{key}={self.text(value)}" for key, value in step.kwargs.items()]
        if getattr(torch.Tensor, name, None) is fn and args and type(step.args[0]) is Value:
            if name in INFIX and len(args) == 2 and not kwargs:
                return f"{args[0]} {INFIX[name]} {self.operand(step.args[1])}"
            if name in REFLECTED and not kwargs:
                return f"{self.operand(step.args[1])} {REFLECTED[name]} {args[0]}"
            if name == "__getitem__":
                return f"{args[0]}[{self.index(step.args[1])}]"
            if name == "__setitem__":
                return f"{args[0]}[{self.index(step.args[1])}] = {args[2]}"
            if name == "neg":
                return f"-{args[0]}"
            return f"{args[0]}.{name}({', '.join(args[1:] + kwargs)})"
        if isinstance(fn, MethodWrapperType):
            return f"{args[0]}.{name}"
        known = getattr(torch, name, None) is fn
        return f"{f'torch.{name}' if known else self.names.bind(fn, name or 'fn')}({', '.join(args + kwargs)})"

    def operand(self, x: Any) -> str:
        text = self.text(x)
        return f"({text})" if text.startswith("-") else text

    def index(self, x: Any) -> str:
        if type(x) is not tuple or not x:
            return self.bound(x)
        return ", ".join(map(self.bound, x)) + ("," if len(x) == 1 and type(x[0]) is not slice else "")

    def bound(self, part: Any) -> str:
        if type(part) is not slice:
            return self.text(part)
        start, stop, step = ("" if bound is None else self.text(bound) for bound in (part.start, part.stop, part.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def text(self, x: Any) -> str:
        """Write an argument."""
        kind = type(x)
        if kind is Value:
            return self.name[x]
        if x is None or x is Ellipsis or kind in (bool, int, str):
            return "..." if x is Ellipsis else repr(x)
        if kind is float:
            return repr(x) if math.isfinite(x) else self.names.bind(x, "inf" if math.isinf(x) else "nan")
        if kind is tuple or kind is torch.Size:
            return f"({', '.join(map(self.text, x))}{',' if len(x) == 1 else ''})"
        if kind is list:
            return f"[{', '.join(map(self.text, x))}]"
        if kind is dict:
            return f"{{{', '.join(f'{key!r}: {self.text(value)}' for key, value in x.items())}}}"
        if kind is slice:
            return f"slice({self.text(x.start)}, {self.text(x.stop)}, {self.text(x.step)})"
        if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
            return str(x)
        if isinstance(x, torch.device) and x == self.program.device:
            x = self.program.device
        return self.names.bind(x, "device" if isinstance(x, torch.device) else "")

    # -- the result

    def part(self, number: int, x: Any) -> str:
        kind = self.program.kinds.get(number)
        return self.text(x) if kind is None else f"{self.names.bind(kind)}({self.text(x)})"

    def nested(self, texts: list[str]) -> str:
        """Write the nesting of the result around its parts."""
        into = self.program.into
        if into is None:
            return texts[0]
        if not isinstance(into, ValueAndGradients):
            return nested(into, texts, self.names.bind, mirror=False)
        return f"{texts[0]}, {nested_gradients(into.signature, texts[1:], self.names.bind)}"
