"""functional_program: a tape as one function from tensors to tensors, for what runs all of it at once:
a CUDA graph, a compiler.

Nothing in it may wait for a number on the host. What its guards are about, and whether its matrices had the solutions
and factors that it asks for, is given out with the results, and looked at once afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad.compile.numpy.function import Miss, Unfit
from tapegrad.compile.torch.argument_source import Entered
from tapegrad.compile.torch.function import check
from tapegrad.compile.torch.kernel import call_of, inside, is_kernel, nest
from tapegrad.compile.torch.memory_guards import Lowered
from tapegrad.compile.torch.results import result_of
from tapegrad.compile.torch.source import Text
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.structure import put_results
from tapegrad.rules.op import Op
from tapegrad.tape.error_context import failed
from tapegrad.tape.tape import Guard, Operation, Tape, operands
from tapegrad.transforms.walk import Walk

CHECK = torch.ops.aten._linalg_check_errors.default  # of what torch.linalg's function of a name says of each matrix
FAILURES = {"linalg.cholesky": "Matrix is not positive definite"}  # NumPy's words
LAST = (nest, float, complex)  # what is made of the tensors that come out


class Whole:
    """What a tape comes down to, its arguments fixed in all but the numbers of its tensors.

    `tape` takes the tensors among the arguments and gives a flat tuple: the `results`, of which what it returns is
    nested and what guards are about, then, in one tensor, which of the guards on truth hold and which calls failed.
    """

    def __init__(self, lowered: Lowered, leaves: list[Any], mode: str) -> None:
        _refuse(lowered, mode)
        self.of, self.full = lowered.of, lowered.tape
        self.leaves = [leaf for leaf in leaves if is_tensor(leaf)]
        guards = [op for op in self.full.ops if type(op) is Guard]
        self.truths = [guard for guard in guards if guard.fact == "bool"]
        self.others = [guard for guard in guards if guard.fact != "bool"]
        self.last: list[Any] = [op for op in self.full.ops if is_kernel(op, *LAST)]
        ends: list[Any] = [*self.last, *self.others, self.full.result]
        used = dict.fromkeys(x for op in ends for x in operands(op))
        self.results = [x for x in used if not is_kernel(x, *LAST)]
        self.checks: list[Any] = []
        self.tape = self.unguarded()
        self.entered, self.source = _entering(lowered, leaves)

    def unguarded(self) -> Tape:
        """Return the tape with guards, and what may fail, as results."""
        walk = Walk(self.full)
        left = {*self.last, *self.truths, *self.others, self.full.result}
        left |= {x for x in self.full.inputs[1:] if not isinstance(x.spec.dtype, torch.dtype)}
        for op in self.full.ops:
            if op not in left:
                if is_kernel(op, CHECK):
                    self.checks.append(op)
                else:
                    walk.keep(op)

        def put(fn: Callable[..., Any], *args: Any) -> Operation:
            return walk._push(call_of(fn, args).at(self.full.result))
        flags = [put(torch.ne if guard.expected else torch.eq, walk.bind(guard.args[0]), 0) for guard in self.truths]
        flags += [put(torch.any, walk.bind(call.args[0])) for call in self.checks]
        put_results(walk.new, [*map(walk.bind, self.results), *([put(torch.stack, flags)] if flags else [])])
        return walk.new

    def finish(self, parts: list[Any]) -> Any:
        """Return the result, or raise Miss where a guard does not hold, else NumPy's
        LinAlgError where a call failed.
        """
        flags = parts[len(self.results)].tolist() if self.truths or self.checks else []
        values: dict[Any, Any] = dict(zip(self.results, parts))

        def given(op: Any) -> list[Any]:
            return [values[x] if isinstance(x, Operation) else x for x in op.args]
        for op in self.last:
            values[op] = op.fn(*given(op))
        for guard, holds in zip(self.truths, flags):
            if not holds:
                raise Miss(self.of, guard)
        for guard in self.others:
            if not check(guard, *given(guard)):
                raise Miss(self.of, guard)
        for call, fails in zip(self.checks, flags[len(self.truths):]):
            if fails:  # and no guard does: the program itself would have come here
                what = FAILURES.get(call.args[1], "Singular matrix")
                raise failed(self.full, call, np.linalg.LinAlgError(what))
        return result_of(self.full, given(self.full.result))


def _refuse(lowered: Lowered, mode: str) -> None:
    """Raise Unfit for what computes on the host."""
    op: Any = inside(lowered.tape)
    if op is not None:
        fn = getattr(getattr(op.fn.fn, "op", None), "fn", None)  # that of a call which is made anew
        torchs = isinstance(fn, Op) and type(fn) is not Op
        why = "is one call of torch's own, which may wait for numbers on the host" if torchs else \
            "is computed on the host, from numbers that have to be waited for"
        raise Unfit(f"{lowered.of.name} cannot run in {mode} mode: `{op!r}` {why}", op.where, 'mode="eager"')


def _entering(lowered: Lowered, leaves: list[Any]) -> tuple[Callable[..., Any], str]:
    """Return a function that checks a call's arguments and returns the tensors among them, and its text."""
    text, of = Text(lowered.tape), lowered.of
    entered = Entered(of, text.leaves, text.names.bind, "raise miss()", leaves, lowered.device, True, lowered.layouts)
    names = [name for name, leaf in zip(text.leaves, leaves) if is_tensor(leaf)]
    source = "\n".join([f"def run({entered.parameters}):", *(f"    {line}" for line in entered.lines),
                        f"    return [{', '.join(names)}]", ""])
    scope = {**text.names.objects, "miss": lambda: Miss(of, None)}
    exec(compile(source, f"<tapegrad {of.name} on torch>", "exec"), scope)
    return scope["run"], source
