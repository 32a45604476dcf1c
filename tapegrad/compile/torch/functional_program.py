"""functional_program: a tape as one function from tensors to tensors, to be captured as a CUDA graph or compiled.

Nothing in it may wait for a number on the host. The values of its guards, and the error flags of linear algebra, are
further results, checked once afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad.compile.numpy.function import Miss, Unfit
from tapegrad.compile.torch.argument_source import ConvertedArguments
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

CHECK = torch.ops.aten._linalg_check_errors.default  # raises by the `info` codes of a function of torch.linalg
FAILURES = {"linalg.cholesky": "Matrix is not positive definite"}  # NumPy's messages
LAST = (nest, float, complex)  # functions applied to the resulting tensors, outside the tape


class Whole:
    """A lowered tape, specialised to its arguments except for the numbers in tensors.

    `tape` takes the tensors among the arguments and returns a flat tuple: the `results`, which the nested result and
    the subjects of other guards are made of, then one tensor of flags: which truth guards hold, which checks failed.
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
        """Return the tape with the flags of guards and error checks as results."""
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
        """Return the result; raise Miss if a guard does not hold, else NumPy's LinAlgError if a call failed."""
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
            if fails:  # and all guards hold: the program itself would have raised here
                what = FAILURES.get(call.args[1], "Singular matrix")
                raise failed(self.full, call, np.linalg.LinAlgError(what))
        return result_of(self.full, given(self.full.result))


def _refuse(lowered: Lowered, mode: str) -> None:
    """Raise Unfit if a lowered tape has an opaque call."""
    op: Any = inside(lowered.tape)
    if op is not None:
        fn = getattr(getattr(op.fn.fn, "op", None), "fn", None)  # the function of a repeated call, see RepeatedCall
        torchs = isinstance(fn, Op) and type(fn) is not Op
        why = "is a single call of torch's own, which may wait for numbers on the host" if torchs else \
            "is computed on the host, from numbers that the host must wait for"
        raise Unfit(f"{lowered.of.name} cannot run in {mode} mode: `{op!r}` {why}", op.where, 'mode="eager"')


def _entering(lowered: Lowered, leaves: list[Any]) -> tuple[Callable[..., Any], str]:
    """Return a function that checks a call's arguments and returns the tensors among them, and the function's source.
    """
    text, of = Text(lowered.tape), lowered.of
    entered = ConvertedArguments(of, text.leaves, text.names.bind, "raise miss()", leaves, lowered.device,
                                 True, lowered.layouts)
    names = [name for name, leaf in zip(text.leaves, leaves) if is_tensor(leaf)]
    source = "\n".join([f"def run({entered.parameters}):", *(f"    {line}" for line in entered.lines),
                        f"    return [{', '.join(names)}]", ""])
    scope = {**text.names.objects, "miss": lambda: Miss(of, None)}
    exec(compile(source, f"<tapegrad {of.name} on torch>", "exec"), scope)
    return scope["run"], source
