"""mesh: replays tapes of NumPy programs on torch's DTensors, which are distributed over the processes of a mesh.

A tape is replayed operation by operation: for each torch operator, DTensor decides where it is computed and inserts the
communication. Constants and new tensors are replicated. If DTensor does not support an operation, or the operation
writes to a tensor, its arguments are gathered, its result is replicated, and a warning is issued.
"""

from __future__ import annotations

import inspect
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.overrides import TorchFunctionMode

from tapegrad.compile.backend import BACKENDS, Backend, First
from tapegrad.compile.numpy.function import Miss
from tapegrad.compile.torch.backend import Torch
from tapegrad.compile.torch.traffic import Traffic as Traffic
from tapegrad.errors import ArgumentError, GuardError, user_location
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.tensors import is_tensor, to_host, to_tensor
from tapegrad.optimise.pipeline import Pass
from tapegrad.replay.interpreter import Memory, Run, bind
from tapegrad.replay.kinds import check_kinds
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.trace.guards import check_surroundings
from tapegrad.tree.flatten import flatten, leaves_of
from tapegrad.tree.functions import map as tree_map
from tapegrad.tree.signature import ValueAndGradients


class WriteError(RuntimeError):
    """Refuses a write to a DTensor: torch 2.13 silently loses writes through a view."""


class Unwritten(TorchFunctionMode):  # type: ignore[misc]
    """A context that raises WriteError before a DTensor is written to."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, out = getattr(func, "__name__", ""), (kwargs or {}).get("out")
        if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            out = args[0]
        if isinstance(out, DTensor):
            raise WriteError("it writes to a tensor in place, and DTensor may lose the write")
        return func(*args, **(kwargs or {}))


class Spread(Run):
    """One replay on DTensors; a plain tensor that an operation returns becomes a replicated DTensor."""

    __slots__ = ("everywhere", "mesh", "told")

    def __init__(self, tape: Tape, leaves: Iterable[Any], mesh: Any, told: set[str]) -> None:
        super().__init__(tape, leaves)
        self.mesh, self.device, self.told = mesh, torch.device(mesh.device_type), told
        self.everywhere = [Replicate()] * mesh.ndim

    def spread(self, x: Any) -> Any:
        """Return a plain tensor as a replicated DTensor. Partial sums of a 0-d DTensor are reduced: torch 2.13 fails to
        add two of these minus a constant.
        """
        if type(x) in (tuple, list):
            return type(x)(map(self.spread, x))
        if isinstance(x, DTensor):
            return x if x.ndim or not any(at.is_partial() for at in x.placements) else x.redistribute(
                self.mesh, self.everywhere)
        return DTensor.from_local(x, self.mesh, self.everywhere, run_check=False) if is_tensor(x) else x

    def called(self, op: Call, fn: Any, given: list[Any], memory: Memory) -> Any:
        """Make a call on DTensors, without writes; if DTensor fails, on gathered tensors in all processes."""
        memory.owned = bytearray(len(self.tape.ops) + 1)
        try:
            with Unwritten(), implicit_replication():
                return self.spread(memory.run(op, fn, given, []))
        except Exception as err:
            if not any(isinstance(x, DTensor) for x in leaves_of(given)):
                raise
            y = self.spread(memory.run(op, fn, tree_map(whole, given), []))
            name = getattr(fn, "__name__", str(fn))
            if name not in self.told:
                self.told.add(name)
                why = str(err) if isinstance(err, WriteError) else f"DTensor raised {type(err).__name__}: {err}"
                warnings.warn(f"{name} is computed in full by each process, from gathered arguments: {why}"
                              + (f"\n  at {op.where}" if op.where else ""), stacklevel=2)
            return y

    def replay(self, ops: Iterable[Operation], dead: list[Any], memory: Memory) -> Any:
        """Make the calls of some operations."""
        memory.nest = self.packed
        return self.over(ops, dead, lambda op, fn, given, dead: self.called(op, fn, given, memory))

    def constant(self, op: Operation) -> Any:
        return self.spread(super().constant(op))

    def packed(self, op: Call, given: list[Any]) -> list[Any]:
        if isinstance(op.kwargs["into"], ValueAndGradients):
            given[1:] = map(conform, given[1:], self.leaves[1:])  # type: ignore[index]
        return given

    @property
    def result(self) -> Any:
        """The result of the tape."""
        return self.values[self.tape.result.id]


def replay(tape: Tape, leaves: Sequence[Any]) -> Spread:
    """Return a replay on the mesh of the DTensors among the inputs' values."""
    return Spread(tape, leaves, next(x.device_mesh for x in leaves if isinstance(x, DTensor)), set())


class OnMesh(Torch):
    """The backend for a mesh: each process traces with whole arrays, then replays the tape on DTensors."""

    rolls = False

    def __init__(self, mesh: Any, mode: str, passes: Sequence[Pass]) -> None:
        if mode != "auto":
            raise ArgumentError(f"with mesh= there is no mode {mode!r}", user_location(), "without mode=")
        super().__init__(None, mode, passes)
        self.mesh, self.told = mesh, set[str]()

    def build(self, tape: Tape, fresh: Callable[[], bool] | None) -> tuple[Tape, Callable[..., Any]]:
        return Backend.build(self, tape, fresh)

    def function(self, tape: Tape, fresh: Callable[[], bool] | None = None) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if fresh is not None and not fresh():
                raise Miss(tape, None)
            check_surroundings()
            try:
                given = bind(tape, args, kwargs)
                check_kinds(tape, given[1:])
                spread = Spread(tape, given, self.mesh, self.told)
                deque(spread, 0)
            except (ArgumentError, GuardError):  # raised in all processes: they branch on the same numbers
                raise Miss(tape, None) from None
            return spread.result
        return run

    def record(self, make: Any, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               leaves: list[Any]) -> First:
        leaves = []
        structure = flatten((args, kwargs), "", leaves, [], shared=False)
        first: First = make(f, *structure.build([to_host(whole(leaf)) for leaf in leaves]))
        return first

    def placed(self, step: Any, f: Callable[..., Any], placements: Mapping[str, Any], argnums: Any
               ) -> Callable[..., Any]:
        """Return a function that places its arguments on the mesh and calls `step`. Gradients have the placements of
        their arguments.
        """
        parameters = inspect.signature(f).parameters
        if wrong := placements.keys() - parameters.keys():
            raise ArgumentError(f"placements= names {', '.join(sorted(wrong))}, which {step.__name__} does not have as "
                                "arguments",
                                user_location(), f"some of {', '.join(parameters)}")
        if argnums is None:
            raise ArgumentError("with mesh=, argnums must name arguments", user_location(), "argnums=0")
        where = {name: self.ways(placements.get(name, Replicate())) for name in parameters}
        names = [*parameters]

        def spread(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
            return ([tree_map(lambda x, at=at: self.place(x, at), arg) for arg, at in zip(args, where.values())],
                    {name: tree_map(lambda x, at=where[name]: self.place(x, at), arg) for name, arg in kwargs.items()})

        def call(*args: Any, **kwargs: Any) -> Any:
            given, named = spread(args, kwargs)
            value, gradients = step(*given, **named)
            value = tree_map(whole, value)
            if not isinstance(argnums, (tuple, list)):
                return value, tree_map(lambda x: self.place(x, where[names[argnums]]), gradients)
            return value, tuple([tree_map(lambda x, at=where[names[number]]: self.place(x, at), gradient)
                                 for number, gradient in zip(argnums, gradients)])

        def profile(*args: Any, repeats: int = 5, **kwargs: Any) -> Any:
            given, named = spread(args, kwargs)
            while not step.tapes:
                step(*given, **named)
            return step.tapes[0].profile(*given, repeats=repeats, **named)
        vars(call).update(__wrapped__=f, __name__=step.__name__, local=step, stats=step.stats, explain=step.explain,
                          profile=profile)
        return call

    def ways(self, placement: Any) -> tuple[Any, ...]:
        """Return a placement for each dimension of the mesh."""
        found = tuple(placement) if isinstance(placement, (tuple, list)) else (placement,)
        if len(found) != self.mesh.ndim:
            raise ArgumentError(f"{len(found)} placements for a mesh of {self.mesh.ndim} dimensions", user_location(),
                                "one for each dimension, in a tuple")
        return found

    def place(self, x: Any, placements: tuple[Any, ...]) -> Any:
        """Return an array or tensor (equal in all processes) or a DTensor as a DTensor with these placements."""
        if isinstance(x, DTensor):
            return x if x.placements == placements else x.redistribute(self.mesh, placements)
        if not (isinstance(x, (np.ndarray, np.generic)) or is_tensor(x)):
            return x
        tensor = to_tensor(x, self.mesh.device_type).detach()
        at = placements if tensor.ndim else [Replicate()] * self.mesh.ndim
        return distribute_tensor(tensor, self.mesh, at, src_data_rank=None)  # from local data, without communication


def whole(x: Any) -> Any:
    """Return the full tensor of a DTensor, other values unchanged."""
    return x.full_tensor() if isinstance(x, DTensor) else x


BACKENDS["mesh"] = OnMesh
