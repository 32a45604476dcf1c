"""signature: the nesting of a tape's inputs and of its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from types import CellType
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.quantities import measure_of
from tapegrad.numbers.systems import is_complex_number
from tapegrad.numbers.tensors import is_memory
from tapegrad.tree.argnums import ALL, Wanted
from tapegrad.tree.attributes import is_table
from tapegrad.tree.flatten import Structure, Walk, is_leaf, leaves_of
from tapegrad.tree.modules import Module, difference
from tapegrad.tree.nodes import Record, Static, class_of_part, key_difference
from tapegrad.tree.opaque import holds_numbers, is_foreign_array
from tapegrad.tree.seeds import is_nothing
from tapegrad.tree.sparse import is_sparse


class NamedObjects:
    """The objects that a program reaches by its own names, and which of them are parts of the arguments too.

    A compiled tape is valid while this mapping is the same.
    """

    __slots__ = ("known", "places")

    def __init__(self, known: dict[int, Any], walks: Sequence[Walk]) -> None:
        self.known = known
        self.places = self.among(walks)

    def among(self, walks: Sequence[Walk]) -> list[tuple[int, int]]:
        """Return the (position, id) of each part of a call's arguments that the program also reaches by name, and the
        (position, first position) of each that occurs in another argument.
        """
        found, first = [], dict[int, int]()
        for place, (x, _) in enumerate(met for walk in walks for met in walk.keep):
            if id(x) in self.known:
                found.append((place, id(x)))
            if first.setdefault(id(x), place) != place:
                found.append((place, first[id(x)]))
        return found

    def may_be_among(self, signature: Signature) -> bool:
        """Return False if no part of arguments with this nesting has the class of a reached object."""
        parts = (*signature.parts, *signature.kwargs.values())
        found = {class_of_part(node) for part in parts for node in part.seen.values()}
        return not found.isdisjoint([None, *(CellType if is_memory(x) else type(x) for x in self.known.values())])


class Signature:
    """The nesting of a tape's function and arguments, and the arguments that its gradient is taken by (`wanted`)."""

    __slots__ = ("args", "effects", "fn", "function", "given_up", "kwargs", "of", "reached", "shared", "wanted")

    def __init__(self, fn: Any, function: Structure, args: tuple[Structure, ...], kwargs: dict[str, Structure],
                 wanted: Wanted = ALL) -> None:
        self.fn, self.function, self.args, self.kwargs, self.wanted = fn, function, args, kwargs, wanted
        self.shared = shared_among([function, *args, *kwargs.values()])  # objects that the program may compare by `is`
        # set for a traced function only: the objects it reaches by name, and what it writes after the trace
        self.reached: NamedObjects | None = None
        self.of: Any = None  # the unit of the differentiated value, if any
        self.effects: Any = None
        # the leaf positions of inputs that were taken as plain numbers and therefore have no gradient
        self.given_up: frozenset[int] = frozenset()

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Signature) and self.args == other.args and self.kwargs == other.kwargs
                and self.function == other.function and self.shared == other.shared)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{key}={part!r}" for key, part in self.kwargs.items())]
        return f"({', '.join(parts)})"

    def difference(self, other: Signature) -> str:
        """Describe how other arguments differ from these."""
        modules = [[node for part in (*each.parts, *each.kwargs.values())
                    for node in part.seen.values() if type(node) is Module] for each in (self, other)]
        parts = [[part.spec.key({}) for part in (*each.args, *each.kwargs.values())] for each in (self, other)]
        told = next(filter(None, map(difference, *modules)), "") or next(filter(None, map(key_difference, *parts)), "")
        if not told and self.shared != other.shared:
            return "the arguments share other objects"
        if repr(self) == repr(other):
            return told or f"both are {self!r}, but with other functions or objects in them"
        return told or f"recorded {self!r}, given {other!r}"

    @property
    def parts(self) -> tuple[Structure, ...]:
        """The function and the positional arguments, by which one can differentiate."""
        return (self.function, *self.args)

    @property
    def asked(self) -> tuple[Structure | None, ...]:
        """The parts of the gradient, in order; None for the function if its captured values are not wanted."""
        argnums, captured = self.wanted.argnums, self.wanted.captured
        if argnums is None:
            return (self.function if captured else None, *self.args)
        return tuple([self.args[i] for i in argnums]) if type(argnums) is tuple else (self.args[argnums],)  # type: ignore[index]

    @property
    def is_single(self) -> bool:
        """True if the gradient is by one argument, not a tuple of several."""
        return isinstance(self.wanted.argnums, int)

    def refuse_opaque(self) -> None:
        """Refuse to differentiate by an array of objects or records with numbers, which would have no gradient."""
        for part in self.asked:
            for label, x in part.opaque if part is not None and part is not self.function else ():
                if self._lacks(x):
                    what = (f"an array of {'objects' if x.dtype == object else 'records'}" if isinstance(x, np.ndarray)
                            else f"an array of {type(x).__module__.partition('.')[0]}" if is_foreign_array(x)
                            else f"a {type(x).__name__}")
                    cure = (f"{label}.tocsr()" if is_sparse(x) else f"np.asarray({label})"
                            if is_table(x) or is_foreign_array(x) else "an array of numbers, a list or a dict")
                    raise ArgumentError(f"{label} is {what} that contains numbers, which have no gradient there", None,
                                        f"{cure}; or pass it by keyword, which is not differentiated")

    def _lacks(self, x: Any) -> bool:
        """True if an opaque value lacks a gradient; a table beside differentiable arguments is data and lacks none."""
        if is_table(x):
            return not any(part.size for part in self.asked if part is not None)
        return holds_numbers(x, is_leaf)

    def gradients(self, leaves: list[Any]) -> Any:
        """Return the wanted gradients from one cotangent per input: (df, *dargs), some dargs, or a single one."""
        if self.of is not None:
            leaves = [None if x is None else self.of.make(x) for x in leaves]
        nests = tuple([None if part is None else part.gradient(leaves, self.of) for part in self.asked])
        return nests[0] if self.is_single else nests


def shared_among(parts: Sequence[Structure]) -> tuple[tuple[int, int], ...]:
    """Return, for each mutable part of several arguments, the positions of each repetition and first occurrence."""
    held = [part.seen for part in parts if part.seen]
    if len(held) < 2 or len(set().union(*held)) == sum(map(len, held)):
        return ()
    first, found, place = dict[int, tuple[int, int]](), [], 0
    for number, seen in enumerate(held):
        for key, node in seen.items():
            if getattr(node, "volatile", False) or isinstance(node, Record):
                place, (before, known) = place + 1, first.setdefault(key, (number, place))
                if before != number:
                    found.append((place - 1, known))
    return tuple(found)


class Recorded:
    """The function of a tape that was loaded without it: its name and the values it had captured."""

    __slots__ = ("__name__", "_type_name", "leaves", "structure")

    def __init__(self, name: str, type: str) -> None:
        self.__name__, self._type_name = name, type
        self.structure = Structure(Static(self), 0, 0, {})
        self.leaves: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentError(f"the code of {self.__name__} is not in the file that its tape was loaded from",
                            try_=f"tape.play(...), or tg.load(path, primitives={{{self.__name__!r}: {self.__name__}}})")


class ValueAndGradients:
    """The nesting of a gradient tape's result: (value, (df, *dargs)), or only the wanted gradients."""

    __slots__ = ("shapes", "signature", "size")

    def __init__(self, signature: Signature, value: Any) -> None:
        self.signature, self.shapes = signature, _shapes(value)
        signature.of = measure_of(value)
        self.size = sum(part.size for part in signature.parts)

    def build(self, leaves: list[Any]) -> Any:
        """Return the nested value and gradients; raise GuardError if the seed was made for another shape."""
        if (found := _shapes(leaves[0])) != self.shapes:
            raise GuardError(f"the seed of this gradient tape was made for {', '.join(self.shapes)}, but the function "
                             f"now returns {', '.join(found)}", None, "call gradtape with these arguments")
        return leaves[0], self.signature.gradients(leaves[1:])

    def unmirror(self, value: Any) -> list[Any]:
        """Return the leaves of a cotangent of this nesting; None or a zero cotangent may stand for any part."""
        value, gradients = (None, None) if is_nothing(value) else value
        asked = self.signature.asked
        nests: Any = [gradients] if self.signature.is_single else gradients
        if is_nothing(gradients):
            nests = [None] * len(asked)
        given = {id(part): nest for part, nest in zip(asked, nests, strict=True)}
        return [value, *(leaf for part in self.signature.parts for leaf in part.unmirror(given.get(id(part))))]

    def __repr__(self) -> str:
        nests = list(map(repr, self.signature.asked))
        return f"(*, {nests[0]})" if self.signature.is_single else f"(*, ({', '.join(nests)}))"


def _shapes(value: Any) -> list[str]:
    """Return the facts that a seed must match: the shape of each leaf, and whether it is complex."""
    found = []
    for leaf in map(plain, leaves_of(value)):
        kind = "complex" if is_complex_number(leaf) or getattr(dtype_of(leaf), "kind", "") == "c" else "real"
        found.append(f"{kind}{list(getattr(leaf, 'shape', ()))}")
    return found
