"""backend: the torch backend of compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch

from tapegrad.compile.backend import BACKENDS, Backend, First
from tapegrad.compile.torch.cuda_graph import graph, graph_device
from tapegrad.compile.torch.inductor import inductor
from tapegrad.compile.torch.tape_function import Make, TapeOnTorch, eager, lowered, torch_sources
from tapegrad.errors import ArgumentError, TapeError
from tapegrad.numbers.formatting import name_of
from tapegrad.numbers.tensor_dtypes import TensorDtype, numpy_dtype
from tapegrad.numbers.tensors import device_of, is_tensor, to_host, to_tensor
from tapegrad.ops import draw
from tapegrad.optimise.pipeline import Pass, optimise
from tapegrad.tape.tape import Tape
from tapegrad.trace.observers import SEED_CURE
from tapegrad.transforms.unroll import inline
from tapegrad.tree.flatten import flatten, leaves_of

MODES: dict[str, Make] = {"auto": eager, "eager": eager, "graph": graph, "inductor": inductor}
"""Makers of executable programs, by mode."""

PRICES = {"eager": (2e-3, 2e-4), "graph": (1e-2, 2e-4), "inductor": (1.0, 6e-3)}
"""Seconds to compile a tape: a fixed part, and one for each operation. A graph costs as much as its calls, plus the
capture. Inductor took 2.4, 5.0 and 14.8 s for gradients of 44, 338 and 656 operations; this predicts 1.5, 5.1 and 8.9.
"""

SEEDED = 4  # traces that draw from a just seeded generator, after which the program counts as seeding it in each call


class Torch(Backend):
    """Tapes recorded from NumPy code with arrays or from torch code with tensors, and run by torch on both.

    A function that was once called with arrays is NumPy code: if none of its tapes fits, it is traced with arrays,
    even when called with tensors. A tape is not kept if the program may have seeded a shared generator itself.
    """

    looks_up, seeded = False, 0

    def runs(self, run: Callable[..., Any]) -> str:
        """Return "torch" and the mode."""
        return f"torch, mode {self.mode or 'eager'}"
    clock = staticmethod(perf_counter)  # not CPU time: other threads and processes compile, and a device computes

    def __init__(self, device: Any, mode: str, passes: Sequence[Pass]) -> None:
        if mode not in MODES:
            raise ArgumentError(f"there is no mode {mode!r} on torch", None,
                                " or ".join(f'mode="{name}"' for name in MODES))
        super().__init__(partial(optimise, passes=passes), mode)
        self.device = None if device is None else torch.device(device)
        self.make = MODES[mode]
        if mode == "graph":
            self.device = graph_device(self.device)
        self.price = PRICES.get(mode, PRICES["eager"])
        self.numbers = mode in ("auto", "eager")
        self.arrays = False

    def build(self, tape: Tape, fresh: Callable[[], bool] | None) -> tuple[Tape, Callable[..., Any]]:
        best, run = super().build(tape, fresh)
        run.layouts.strict = True  # type: ignore[attr-defined]
        return best, run

    def function(self, tape: Tape, fresh: Callable[[], bool] | None = None) -> Callable[..., Any]:
        return TapeOnTorch(tape, self.device, self.make, self.numbers, fresh, kernels=self.mode != "inductor",
                           keeps=not self.asked)

    def fits(self, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return True  # tensors may replace arrays; the compiled function checks

    def stores(self, samples: Sequence[Any]) -> bool:
        return self.numbers or all(map(is_tensor, samples))  # with static numbers, each value needs a program

    def returns(self, samples: Sequence[Any]) -> bool:
        return True

    def lowered(self, tape: Tape) -> Tape:
        return lowered(tape, self.device)

    def record(self, make: Any, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               leaves: list[Any]) -> First:
        device = torch.empty(0, device=self.device or device_of(leaves)).device
        tensors = any(map(is_tensor, leaves))
        if tensors and self.arrays:
            first = make(f, on_host(args), on_host(kwargs))
        elif tensors:
            first = with_tensors(make, f, args, kwargs)
        else:
            first = make(f, args, kwargs)
            self.arrays = self.arrays or any(isinstance(x, (np.ndarray, np.generic)) for x in leaves)
        result = on_device(first.result, device, arrays=self.asked or (tensors and self.arrays))
        unclear = None if first.tape is None else next((x for x in torch_sources(first.tape) if x.unclear), None)
        if unclear is None:
            return First(first.tape, result)
        self.seeded += 1
        why = (f"it draws from {unclear!r}, which was seeded just before it, in each of {SEEDED} calls",
               drawn_at(first.tape, unclear), SEED_CURE)
        return First(None, result, why if self.seeded >= SEEDED else None)


def drawn_at(tape: Any, source: Any) -> Any:
    """Return the location in the program of the first draw from a source."""
    return next((op.where for op in inline(tape).ops if op.fn is draw and op.args[0] == source), None)


def on_host(args: Any) -> Any:
    """Return nested arguments with arrays for tensors. Raises ArgumentError for a dtype that NumPy lacks."""
    leaves: list[Any] = []
    structure = flatten(args, "", leaves, [])
    for leaf in leaves:
        if is_tensor(leaf) and isinstance(numpy_dtype(leaf.dtype), TensorDtype):
            raise ArgumentError(f"NumPy code is traced with arrays, and NumPy has no {leaf.dtype}", None,
                                "call it with arrays or tensors of another dtype, or write it with torch")
    return structure.build([to_host(leaf) for leaf in leaves])


def on_device(x: Any, device: Any, arrays: bool = True) -> Any:
    """Return a nested result with its tensors on a device; if `arrays`, with tensors for NumPy arrays and scalars too.
    """
    moved = (np.ndarray, np.generic) if arrays else ()
    if not any(isinstance(leaf, moved) or is_tensor(leaf) for leaf in leaves_of(x)):
        return x
    leaves: list[Any] = []
    structure = flatten(x, "", leaves, [], shared=False)
    return structure.build([to_tensor(leaf, device) if isinstance(leaf, moved) or is_tensor(leaf) else leaf
                            for leaf in leaves])


def with_tensors(make: Any, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
    """Trace with tensors; an error of a program that does not accept tensors is replaced by one with advice."""
    try:
        first: First = make(f, args, kwargs)
        return first
    except TapeError:  # contains its own advice
        raise
    except (TypeError, AttributeError) as err:
        raise ArgumentError(f"{name_of(f)} was traced with tensors and raised {type(err).__name__}: {err}", None,
                            'if it is written with NumPy, call it once with arrays, or compile its tape: '
                            'tg.compile(tg.gradtape(f, *arrays), backend="torch"), which takes tensors') from err


BACKENDS["torch"] = Torch
