"""tapes: a tape as a function of tensors and arrays, with a program for each kind of arguments that it meets."""

from __future__ import annotations

import linecache
import threading
import weakref
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import torch

from tapegrad.errors import ArgumentError, GuardError
from tapegrad.replay.compiled import Miss
from tapegrad.replay.play import bind, verify
from tapegrad.replay.torch.enter import Entered, tensor_of
from tapegrad.replay.torch.lower import lower
from tapegrad.replay.torch.masks import masks
from tapegrad.replay.torch.program import Program
from tapegrad.replay.torch.reuse import reuse
from tapegrad.replay.torch.write import Text
from tapegrad.tape import Guard, Tape, Unknown
from tapegrad.tensors import device_of, is_tensor

_numbers = count(1)
MOST = 8  # programs of one tape: graphs are made for each value of a number
Run = Callable[..., Any]
Make = Callable[[Program, list[Any]], Run]
"""What executes a program, made for arguments like the given leaves."""


class TapeOnTorch:
    """A function that computes what `tape.play` does, on tensors and arrays; `source` is the text of what it runs.

    Its programs are made when they are needed first: for a number and for a 0-d tensor in its place, and for each device.
    Thread-safe: the programs are kept in a tuple that is replaced, never changed.
    """

    def __init__(self, tape: Tape, device: Any, make: Make, numbers: bool = True, fresh: Callable[[], bool] | None = None) -> None:
        self.tape, self.device, self.make, self.numbers, self.fresh = tape, device, make, numbers, fresh
        self.__name__ = tape.name
        self.runs: tuple[Run, ...] = ()
        self.kinds: tuple[tuple[Any, ...], ...] = ()  # those that the programs are for
        self.lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fresh is not None and not self.fresh():
            raise Miss(self.tape, None)
        for run in self.runs:
            try:
                return run(*args, **kwargs)
            except Miss as miss:
                if miss.tape is not self.tape or miss.guard is not None:
                    raise
            except torch.linalg.LinAlgError as err:
                raise np.linalg.LinAlgError(str(err)) from err
        return self.first(args, kwargs)

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the program for a call, from the call."""
        try:
            leaves = bind(self.tape, args, kwargs)[1:]
        except (ArgumentError, GuardError):
            raise Miss(self.tape, None) from None
        device = torch.empty(0, device=self.device or device_of(leaves)).device
        leaves = [leaf if (tensor := tensor_of(leaf, device)) is None else tensor for leaf in leaves]
        kinds = (device, *(leaf.dtype if is_tensor(leaf) else type(leaf) if self.numbers else leaf for leaf in leaves))
        if kinds in self.kinds:
            raise Miss(self.tape, None)
        try:
            program, parts = lower(self.tape, leaves, device, self.numbers)
        except GuardError:
            raise Miss(self.tape, None) from None
        run = self.make(program, leaves)
        with self.lock:
            if kinds not in self.kinds:
                self.runs, self.kinds = (run, *self.runs)[:MOST], (kinds, *self.kinds)[:MOST]
        return program.build(parts)

    @property
    def source(self) -> str:
        """The text of the last program; without one, of that for the arguments that the tape was recorded with."""
        if not self.runs and not any(isinstance(x.val, Unknown) for x in self.tape.inputs):
            self.first(*recorded(self.tape))
        return self.runs[0].source if self.runs else ""  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<{self.__name__} on torch: {len(self.runs)} programs>"


def recorded(tape: Tape) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a tape was recorded with."""
    leaves = [x.val for x in tape.inputs[1:]]
    if tape.structure is None:
        return tuple(leaves), {}
    return tuple(part.build(leaves) for part in tape.structure.args), {key: part.build(leaves) for key, part in tape.structure.kwargs.items()}


def quiet(program: Program) -> Any:
    """Return the context that a program runs in: torch's own tape does not follow it.

    Below torch's autograd a call on a small tensor is a sixth faster than in no_grad, which is what calls need that nothing
    looks into: they may run autograd. Inference mode would be as fast, and its results could not be saved for backward.
    """
    below = getattr(torch._C, "_AutoDispatchBelowAutograd", None)
    return torch.no_grad if below is None or program.inside is not None else below


def eager(program: Program, leaves: list[Any], fixed: bool = False) -> Run:
    """Return a program as a function that makes its calls one after the other."""
    tape = program.tape
    if program.device.type == "cpu":
        masks(program)
        reuse(program)
    text = Text(program)
    entered = Entered(tape, text.leaves, text.names.bind, "raise miss()", leaves, program.device, fixed)
    body = [*entered.lines, "with quiet():", *(f"    {line}" for line in text.lines), f"    return {text.result}"]
    source = "\n".join([f"def run({entered.parameters}):", *(f"    {line}" for line in body), ""])
    guards = text.guards
    names: dict[str, Any] = {**text.names.objects, "__name__": "tapegrad.compiled", "quiet": quiet(program)}
    names["miss"] = lambda number=-1: Miss(tape, None if number < 0 else guards[number])
    names["check"] = lambda number, value: check(guards[number], value)
    file = f"<tapegrad {tape.name} on torch {next(_numbers)}>"
    exec(compile(source, file, "exec"), names)
    run: Any = names["run"]
    run.source, run.program, run.__name__ = source, program, tape.name
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)  # for tracebacks
    weakref.finalize(run, linecache.cache.pop, file, None)
    return run  # type: ignore[no-any-return]


def function_of(program: Program) -> Run:
    """Return a program without guards as a function from the tensors among its leaves to a list of its parts."""
    text = Text(program)
    body = [*text.lines, f"return [{', '.join(map(text.text, program.parts))}]"]
    source = "\n".join([f"def run({', '.join(text.leaves)}):", *(f"    {line}" for line in body), ""])
    names: dict[str, Any] = {**text.names.objects, "__name__": "tapegrad.compiled"}
    exec(compile(source, f"<tapegrad {program.tape.name} on torch {next(_numbers)}>", "exec"), names)
    run: Any = names["run"]
    run.source = source
    return run  # type: ignore[no-any-return]


def check(guard: Guard, value: Any) -> bool:
    """Return whether a guard holds."""
    try:
        verify(guard, value)
    except GuardError:
        return False
    return True
