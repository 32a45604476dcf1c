"""tape_function: a tape as a function of tensors and arrays, with a program for each combination of argument types."""

from __future__ import annotations

import linecache
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tapegrad.compile.torch.loop_program  # noqa: F401  (registers how loops are lowered)
from tapegrad.compile.argument_source import nested_result
from tapegrad.compile.backend import with_inlined_checkpoints
from tapegrad.compile.numpy.function import Miss
from tapegrad.compile.torch.argument_source import ConvertedArguments, stands_for, tensor_of
from tapegrad.compile.torch.function import Run, numbers, scope
from tapegrad.compile.torch.kernel import inside
from tapegrad.compile.torch.lower import lower
from tapegrad.compile.torch.memory_guards import Layouts, Lowered
from tapegrad.compile.torch.opaque_calls import Unsteady
from tapegrad.compile.torch.results import Kinds, result_of
from tapegrad.compile.torch.source import Text
from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.tensors import device_of, is_tensor
from tapegrad.replay.interpreter import bind, recorded
from tapegrad.replay.random_state import drawn_from, hold, sources_of, values_of
from tapegrad.tape.tape import Tape, has_value
from tapegrad.trace.guards import check_surroundings
from tapegrad.transforms.primitivize import flattened

MOST = 8  # programs kept for one tape: graphs are specialised to each value of a number
Make = Callable[[Lowered, list[Any]], Run]
"""Returns a function that executes a lowered tape for arguments like the given leaves."""


class TapeOnTorch:
    """A function equivalent to `tape.play` on tensors and arrays; `source` is the text of its last program.

    Programs are made when first needed, for each device and for numbers as opposed to 0-d tensors. Thread-safe: the
    programs are in a tuple that is replaced, never changed.
    """

    def __init__(self, tape: Tape, device: Any, make: Make, numbers: bool = True,
                 fresh: Callable[[], bool] | None = None, kernels: bool = True, keeps: bool = False) -> None:
        self.tape, self.device, self.make, self.numbers, self.fresh = tape, device, make, numbers, fresh
        self.kernels = kernels  # whether a loop may become one kernel on a GPU
        self.__name__ = tape.name
        self.runs: tuple[Run, ...] = ()
        self.kinds: tuple[tuple[Any, ...], ...] = ()  # device and argument types of each program
        self.lock = threading.Lock()
        self.layouts, given = Layouts(tape), Kinds(tape) if keeps else None
        self.given = given if given is not None and given.any else None  # types to which results are converted
        self.drawn, self.sources = sources_of(tape), torch_sources(tape)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fresh is not None and not self.fresh():
            raise Miss(self.tape, None)
        check_surroundings()
        if self.given is not None:
            return self.given.given(self.answer(args, kwargs), args, kwargs)
        return self.answer(args, kwargs)

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call; if it raises, random generators are restored."""
        if not self.drawn and not self.sources:
            return self.serve(*args, **kwargs)
        try:
            give_back = hold(values_of(self.drawn, self.tape, bind(self.tape, args, kwargs)) if self.drawn else ())
        except (ArgumentError, GuardError):
            raise Miss(self.tape, None) from None
        before = [source.state() for source in self.sources]
        try:
            return self.serve(*args, **kwargs)
        except Exception:  # after a miss, the fallback must draw the same numbers
            give_back()
            for source, then in zip(self.sources, before):
                source.rewind(then)
            raise

    def serve(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call with a program that fits the arguments, a new one if none does."""
        for run in self.runs:
            try:
                return run(*args, **kwargs)
            except Miss as miss:
                if miss.tape is not self.tape or miss.guard is not None:
                    raise
            except Unsteady:
                with self.lock:
                    self.runs, self.kinds = (), ()
                if self.drawn or self.sources:
                    raise Miss(self.tape, None) from None
                break
            except torch.linalg.LinAlgError as err:
                raise np.linalg.LinAlgError(str(err)) from err
        return self.first(args, kwargs)

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lower the tape for a call's arguments, keep the program, and return the call's result."""
        try:
            leaves = bind(self.tape, args, kwargs)[1:]
        except (ArgumentError, GuardError):
            raise Miss(self.tape, None) from None
        if not self.layouts.hold(*[leaves[number] for number in self.layouts.numbers]):
            raise Miss(self.tape, None)
        if not all(stands_for(leaf, x.val) for leaf, x in zip(leaves, self.tape.inputs[1:])):
            raise Miss(self.tape, None)
        device = torch.empty(0, device=self.device or device_of(leaves)).device
        leaves = as_tensors(leaves, device)
        kinds = (device, *(leaf.dtype if is_tensor(leaf) else type(leaf) if self.numbers else leaf for leaf in leaves))
        if kinds in self.kinds:
            raise Miss(self.tape, None)
        try:
            tape, parts = lower(self.tape, leaves, device, self.numbers, self.numbers, self.kernels)
        except GuardError:
            raise Miss(self.tape, None) from None
        run = self.make(Lowered(tape, self.tape, device, self.layouts), leaves)
        with self.lock:
            if kinds not in self.kinds:
                self.runs, self.kinds = (run, *self.runs)[:MOST], (kinds, *self.kinds)[:MOST]
        return result_of(tape, parts)

    @property
    def source(self) -> str:
        """The text of the last program; if there is none yet, of one for the recorded arguments."""
        if not self.runs and all(map(has_value, self.tape.inputs)):
            self.first(*recorded(self.tape))
        return self.runs[0].source if self.runs else ""  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<{self.__name__} on torch: {len(self.runs)} programs>"


def lowered(tape: Tape, device: Any = None, loops: bool = True) -> Tape:
    """Return a tape lowered for arguments like the recorded ones; see `Tape.lowered`."""
    best = with_inlined_checkpoints(flattened(tape))
    if not all(map(has_value, best.inputs)):
        raise ArgumentError(f"the tape of {tape.name} has no values, which are needed to find its calls of torch",
                            None, "trace it again")
    device = torch.empty(0, device=device).device
    return lower(best, as_tensors([x.val for x in best.inputs[1:]], device), device, loops=loops)[0]


def as_tensors(leaves: list[Any], device: Any) -> list[Any]:
    """Return leaves with arrays, NumPy scalars and tensors as tensors on a device."""
    return [leaf if (tensor := tensor_of(leaf, device)) is None else tensor for leaf in leaves]


def torch_sources(tape: Tape) -> list[Any]:
    """Return the torch generators from which a tape draws."""
    return [source for source in dict.fromkeys(drawn_from(tape)) if hasattr(source, "rewind")]


def quiet(tape: Tape) -> Any:
    """Return the context manager in which the calls of a lowered tape run, without recording by torch's autograd.

    Dispatch below autograd makes a call on a small tensor a sixth faster than no_grad. Opaque calls need no_grad, since
    they may run autograd. Inference mode would be as fast, but its results could not be saved for backward.
    """
    below = getattr(torch._C, "_AutoDispatchBelowAutograd", None)
    return torch.no_grad if below is None or inside(tape) is not None else below


def eager(lowered: Lowered, leaves: list[Any], fixed: bool = False) -> Run:
    """Return a lowered tape as a function that makes its calls one after the other."""
    tape, of = lowered.tape, lowered.of
    text = Text(tape)
    entered = ConvertedArguments(of, text.leaves, text.names.bind, "raise miss()", leaves, lowered.device,
                                 fixed, lowered.layouts)
    result = nested_result(tape.result.kwargs["into"], text.parts, text.names.bind)
    body = [*entered.lines, "with quiet():", *(f"    {line}" for line in text.lines), f"    return {result}"]
    source = "\n".join([f"def run({entered.parameters}):", *(f"    {line}" for line in body), ""])
    names = {**scope(text, of), "quiet": quiet(tape)}
    file = f"<tapegrad {of.name} on torch {next(numbers)}>"
    exec(compile(source, file, "exec"), names)
    run: Any = names["run"]
    run.source, run.lowered, run.__name__ = source, lowered, of.name
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)  # for tracebacks
    weakref.finalize(run, linecache.cache.pop, file, None)
    return run  # type: ignore[no-any-return]
