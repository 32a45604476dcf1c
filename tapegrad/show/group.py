"""Group: consecutive operations that one line, or one call, of the user's program recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from types import CodeType
from typing import Any

from tapegrad.errors import Activation, Listing, Location, locate
from tapegrad.show.line import Fields, Places, code_of
from tapegrad.tape.tape import Operation

DEPTH = 8  # nested calls shown; deeper operations stand in the innermost
Run = Activation | CodeType | Listing  # one call, or a function if paths were not recorded


class Group:
    """A line or a call, its operations, and the lines and calls in it, in order. `count` includes nested operations."""

    __slots__ = ("children", "count", "key")

    def __init__(self, key: Any) -> None:
        self.key, self.count = key, 0
        self.children: list[Group | Operation] = []

    @property
    def run(self) -> Run | None:
        """The call of a group; None for a line."""
        return self.key if isinstance(self.key, (Activation, CodeType, Listing)) else None

    @property
    def name(self) -> str:
        """The name of the function or module that was called."""
        return self.key.name if isinstance(self.key, Activation) else str(code_of(self.key).co_name)

    @property
    def where(self) -> Location | None:
        """The line, or the first line of the function."""
        return locate(self.key, -1) if isinstance(self.key, (Activation, CodeType, Listing)) else self.key


def sections(ops: Iterable[Operation], by: str) -> Iterator[tuple[Group, list[Operation]]]:
    """Yield runs of consecutive operations of the same line or call, each with its group."""
    places = Places()
    for key, members in groupby(ops, lambda op: op.code if by == "call" else places.line(op)):
        yield Group(key), list(members)


def tree(ops: Iterable[Operation], by: str, fields: Fields) -> Group:
    """Return the operations nested in lines, and, `by` calls, those in the calls that recorded them. Operations without
    a line stand at the top; a tuple counts with its fields.
    """
    places, chains = Places(), Chains()
    stack = [Group(None)]
    line = None
    last = object()
    for op in ops:
        if op.code is not last:
            last, call = op.code, stack[-1]
            follow(stack, chains.of(op.code) if by == "call" else ())
            line = line if stack[-1] is call else None
        where = None if _within(stack[-1].key) else places.line(op)
        if line is None or line.key is not where:
            line = stack[-1] if where is None else Group(where)
            if where is not None:
                stack[-1].children.append(line)
        line.children.append(op)
        number = 1 + len(fields.get(op, ()))
        for group in stack:
            group.count += number
        if line is not stack[-1]:
            line.count += number
    return stack[0]


def follow(stack: list[Group], chain: tuple[Run, ...]) -> None:
    """Leave the calls on the stack that ended, and enter those of the chain that began."""
    kept = 1
    for group, run in zip(stack[1:], chain):
        if group.key is not run:
            break
        kept += 1
    del stack[kept:]
    for run in chain[kept - 1:]:
        inner = Group(run)
        stack[-1].children.append(inner)
        stack.append(inner)


class Chains:
    """The calls that lead to a call, outermost first, at most DEPTH of them."""

    def __init__(self) -> None:
        self.found: dict[Run, tuple[Run, ...]] = {}

    def of(self, run: Run | None) -> tuple[Run, ...]:
        """Return the chain of a call, itself last unless it is too deep."""
        if run is None:
            return ()
        new = []
        known: Run | None = run
        while known is not None and known not in self.found:
            new.append(known)
            known = known.caller if isinstance(known, Activation) else None
        chain = () if known is None else self.found[known]
        for inner in reversed(new):
            chain = (*chain, inner) if len(chain) < DEPTH else chain
            self.found[inner] = chain
        return chain


def _within(run: Any) -> bool:
    return isinstance(run, Activation) and run.within


def called(run: Run) -> Location | None:
    """Return where a call was made, None if unknown or inside a library's module."""
    if isinstance(run, Activation) and run.caller is not None and not _within(run.caller):
        return locate(run.caller, run.lasti)
    return None
