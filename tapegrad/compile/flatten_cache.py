"""flatten_cache: reuses the leaves of the previous call if the arguments are the same unchanged objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.lazy import torch
from tapegrad.replay.interpreter import bind
from tapegrad.tape.tape import Tape
from tapegrad.trace.inputs import flatten_call
from tapegrad.tree.flatten import Walk
from tapegrad.tree.nodes import Leaf
from tapegrad.tree.signature import Signature
from tapegrad.tree.unchanged import Unchanged, Uncheckable

_NUMBERS = frozenset([float, int, bool, complex, np.float64, np.float32, np.int64])
VAIN = 4  # calls in a row with changed objects, after which no call is kept


class FlattenedCall:
    """The flattened arguments of a call: the leaves of its objects, and the kinds of its numbers, arrays and tensors.

    Raises Uncheckable if only flattening shows whether the objects of another call are unchanged.
    """

    __slots__ = ("given", "leaves", "names", "things", "unchanged")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        walks: list[Walk] = []
        signature, self.leaves, _ = flatten_call(fn, args, kwargs, walks)
        self.unchanged = Unchanged(walks)
        self.things = [x for walk in walks for x, _ in walk.keep]
        self.names = [*kwargs]
        parts = [*signature.args, *signature.kwargs.values()]
        self.given: list[tuple[Any, Any, int]] = []
        for arg, part in zip([*args, *kwargs.values()], parts):
            if isinstance(part.spec, Leaf):
                self.given.append((None, kind_of(arg), part.start))
                self.leaves[part.start] = None  # differs from call to call
            else:
                self.given.append((arg, None, 0))

    def leaves_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        """Return the leaves of another call, None if its arguments must be flattened."""
        given = self.given
        if len(args) + len(kwargs) != len(given) or [*kwargs] != self.names:
            return None
        leaves = self.leaves[:]
        for arg, (then, kind, number) in zip((*args, *kwargs.values()), given):
            if kind is None:
                if arg is not then:
                    return None
            elif kind_of(arg) == kind:
                leaves[number] = arg
            else:
                return None
        return leaves if self.unchanged() else None


def kind_of(x: Any) -> Any:
    """Return the properties of a leaf that decide how a tape takes it; guards check its numbers later. Raises
    Uncheckable for a leaf of another class.
    """
    kind = type(x)
    if kind in _NUMBERS:
        return kind
    if kind is np.ndarray:
        return kind, x.dtype
    if kind is torch.Tensor:
        return kind, x.ndim
    raise Uncheckable


class FlattenCache:
    """The last call of a function, for later calls with the same objects; None if there is none, or keeping it is
    useless.
    """

    __slots__ = ("last", "signature", "vain")

    def __init__(self, signature: Signature | None) -> None:
        self.signature = signature
        self.last: FlattenedCall | None = None
        self.vain = 0

    def leaves_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        """Return the leaves of a call with the same unchanged objects as the last, None for another call."""
        if self.last is None:
            return None
        try:
            leaves = self.last.leaves_of(args, kwargs)
        except Uncheckable:
            return None
        self.vain = 0 if leaves is not None else self.vain + 1
        return leaves

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep a call, unless its objects keep changing, or a comparison would have to flatten them."""
        if self.signature is None or [*kwargs] != [*self.signature.kwargs]:  # its leaves would have another order
            return
        try:
            self.last = FlattenedCall(self.signature.fn, args, kwargs) if self.vain < VAIN else None
        except Uncheckable:
            self.signature = self.last = None


class ArgumentFlattener:
    """Flattens the arguments of a tape's calls."""

    __slots__ = ("earlier", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape, self.earlier = tape, FlattenCache(tape.structure)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], miss: Callable[[], Exception]) -> list[Any]:
        """Return the function and the leaves; raise `miss()` if the tape does not fit the arguments."""
        leaves = self.earlier.leaves_of(args, kwargs)
        if leaves is not None:
            return [self.tape.ops[0].val, *leaves]
        try:
            found = bind(self.tape, args, kwargs)
        except (ArgumentError, GuardError):
            raise miss() from None
        self.earlier.note(args, kwargs)
        return found
