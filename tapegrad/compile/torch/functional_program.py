"""functional_program: a program as one function from tensors to tensors, for what runs all of it at once: a CUDA graph, a compiler.

Nothing in it may wait for a number on the host. What its guards are about, and whether its matrices had the solutions and factors that it
asks for, is given out with the results, and looked at once afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import torch

from tapegrad.compile.numpy.function import Miss, Unfit
from tapegrad.compile.torch.argument_source import Entered
from tapegrad.compile.torch.function import check
from tapegrad.compile.torch.program import Check, Program, Step, Value, replaced, values_in
from tapegrad.compile.torch.source import Text
from tapegrad.compile.torch.unchecked import unchecked
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Op


class Whole:
    """A program, its arguments fixed in all but the numbers of its tensors.

    `program` takes the tensors among the arguments and gives a flat tuple: the tensors of the result, then, in one tensor, which of the
    guards on truth hold and which calls failed, then the values of the other guards.
    """

    def __init__(self, program: Program, leaves: list[Any], mode: str) -> None:
        _refuse(program, mode)
        self.full = program
        self.leaves = [leaf for leaf in leaves if is_tensor(leaf)]
        self.truths = [step for step in program.checks if step.op.fact == "bool"]
        self.others = [step for step in program.checks if step.op.fact != "bool"]
        self.results = list(dict.fromkeys(values_in(program.parts)))
        self.program = self.unguarded()
        self.entered, self.source = _entering(program, leaves)

    def unguarded(self) -> Program:
        """Return the program with guards, and what may fail, as results."""
        program = copy(self.full)
        program.leaves = [value for value in program.leaves if value.dtype is not None]
        program.steps = [step for step in program.steps if not isinstance(step, Check)]
        self.failures = unchecked(program)
        program.parts = list(self.results)
        op: Any = program.tape.result
        found = []
        for step in self.truths:
            out = Value("holds")
            fn = torch.ne if step.op.expected else torch.eq
            program.steps.append(Step(fn, (step.args[0], 0), {}, out, op))
            found.append(out)
        found += [failure.flag for failure in self.failures]
        if found:
            together = Value("guards")
            program.steps.append(Step(torch.stack, (found,), {}, together, op))
            program.parts.append(together)
        program.parts += [step.args[0] for step in self.others]
        program.into, program.kinds = None, {}
        return program

    def finish(self, parts: list[Any]) -> Any:
        """Return the result, or raise Miss where a guard does not hold, else NumPy's LinAlgError where a call failed."""
        rest = list(parts[len(self.results):])
        flags = rest.pop(0).tolist() if self.truths or self.failures else []
        for step, holds in zip(self.truths, flags):
            if not holds:
                raise Miss(self.full.tape, step.op)
        for step, value in zip(self.others, rest):
            if not check(step.op, value):
                raise Miss(self.full.tape, step.op)
        for failure, failed in zip(self.failures, flags[len(self.truths):]):
            if failed:  # and no guard does: the program itself would have come here
                raise failure.error(self.full.tape)
        found = replaced(list(self.full.parts), dict(zip(self.results, parts)).__getitem__)  # a value of several parts is nested
        for i, kind in self.full.kinds.items():
            found[i] = kind(found[i])
        return self.full.build(found)


def _refuse(program: Program, mode: str) -> None:
    """Raise Unfit for a program that computes on the host."""
    step: Any = program.inside or next((step for step in program.checks if len(values_in(step.args)) != 1), None)
    if step is not None:
        name = getattr(step.op, "fact", "") or getattr(step.fn, "__name__", "a call")
        fn = getattr(step.op, "fn", None)
        why = "is one call of torch's own, which may wait for numbers on the host" if isinstance(fn, Op) and type(fn) is not Op else \
            "is computed on the host, from numbers that have to be waited for"
        raise Unfit(f"{program.tape.name} cannot run in {mode} mode: `{step.op!r}` ({name}) {why}", step.op.where, 'mode="eager"')


def _entering(program: Program, leaves: list[Any]) -> tuple[Callable[..., Any], str]:
    """Return a function that checks a call's arguments and returns the tensors among them, and its text."""
    text = Text(program)
    entered = Entered(program.tape, text.leaves, text.names.bind, "raise miss()", leaves, program.device, True, program.layouts)
    names = [name for name, leaf in zip(text.leaves, leaves) if is_tensor(leaf)]
    source = "\n".join([f"def run({entered.parameters}):", *(f"    {line}" for line in entered.lines), f"    return [{', '.join(names)}]", ""])
    scope = {**text.names.objects, "miss": lambda: Miss(program.tape, None)}
    exec(compile(source, f"<tapegrad {program.tape.name} on torch>", "exec"), scope)
    return scope["run"], source
