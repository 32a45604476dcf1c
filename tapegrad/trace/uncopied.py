"""uncopied: objects among the inputs, such as iterators and memoryviews, that lead to originals of copies. They would
miss the program's writes to the copies, so such writes are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.memory import BUFFERS, meet, span
from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.numbers.tensors import is_memory, is_tensor
from tapegrad.rules.op import Traced
from tapegrad.trace.deferred_writes import TableWrite
from tapegrad.trace.reference_search import ReferenceSearch, is_a, is_safe
from tapegrad.trace.write_back import Copies, Pending, Place
from tapegrad.tree.copies import KINDS, is_hashed_by_identity
from tapegrad.tree.flatten import Walk, leaves_of

BY_IDENTITY = (frozenset, WeakSet, WeakKeyDictionary)


class Blind:
    """The objects of one trace that are passed uncopied and may lead past its copies."""

    def __init__(self, walks: Sequence[Walk]) -> None:
        self.things = [part for walk in walks for part in walk.blind]
        known = [part for walk in walks for part in walk.keep if isinstance(part[0], bytearray)]
        inside = [(part, label) for x, label in self.things for part in (own_dict(x) or {}).values()]
        self.buffers = [part for part in (*self.things, *inside, *known) if isinstance(part[0], BUFFERS)]
        self.routes: ReferenceSearch | None = None
        # (start, end, object, label) of memory that the program may read
        self.spans: list[tuple[int, int, Any, str]] | None = None
        self.past: list[tuple[Any, str, list[Any]]] = []  # (object, label, originals it leads to)

    def find(self, routes: ReferenceSearch) -> None:
        """Find the objects that lead to originals, after the references to originals have been followed."""
        for x, label in self.things:
            if id(x) in routes.others and not is_safe(x, routes, set()):
                self.past.append((x, label, [original for original in routes.hits.values()
                                             if routes.leads(x, original)]))

    def check_asked(self, copies: dict[int, Any], asked: Collection[Any]) -> None:
        """Refuse objects that lead past copies of numbers by which the call is differentiated, and lookups by identity.
        """
        self._check_identity(copies)
        for x, label, originals in self.past:
            for original in originals:
                copy = copies[id(original)]
                leaves = [] if isinstance(copy, Traced) else leaves_of(copy)
                if any(leaf is each for leaf in (copy, *leaves) for each in asked):
                    raise MutationError(f"{_named(x, label)}, made before the call, refers to numbers that the call is "
                                        "differentiated by: read through it, they would have no gradient",
                                        user_location(), "make it in the function; or differentiate by arguments "
                                                         "alone, argnums=0")

    def _check_identity(self, copies: dict[int, Any]) -> None:
        """Refuse containers that look objects up by identity and cannot be rebuilt: they would not find the copies."""
        for x, label, originals in self.past:
            if isinstance(x, BY_IDENTITY) and any(is_hashed_by_identity(copies[id(original)])
                                                  for original in originals):
                raise MutationError(f"{_named(x, label)}, made before the call, looks objects up by identity, but the "
                                    "traced function sees copies of them", user_location(),
                                    "make it in the function; or a set or a dict")

    def check_written(self, effects: Pending, copies: Copies, given: Sequence[Any]) -> None:
        """Refuse writes to objects that the uncopied ones lead to, and to objects with several copies."""
        holders = Counter(id(x) for _, x, _, _ in copies.tables)
        for write, place in effects.writes:
            owner = place.owner
            if type(write) is TableWrite and holders[id(write.x)] > 1:
                raise _refused(place, effects, "whose attribute dict was passed as well",
                               "write to one of the two")
            if isinstance(owner, bytearray) and any(is_memory(x) and meet(owner, x) for x in map(plain, given)):
                raise _refused(place, effects, "whose memory an array argument shares", "write to one of the two")
            if "_redirects_for" in type(owner).__dict__ and not isinstance(owner, (dict, *KINDS)):
                continue  # the object redirects to its copy
            for x, label, _ in self.past:
                if self.routes is not None and self.routes.leads(x, owner):
                    raise _refused(place, effects, f"to which {_named(x, label)}, made before the call, refers",
                                   "make it in the function; or write to a copy")

    def check_memory(self, memory: Any, label: str, kept: bool) -> None:
        """Refuse a write to an input's memory that a readable buffer shares; if an object or function `kept` the input,
        also memory shared with an array or tensor.
        """
        if self.spans is None:
            read = [] if self.routes is None else [*self.routes.read.values(), *(
                (x, "") for x in self.routes.met.values() if is_a(x, BUFFERS) or is_tensor(x))]
            known = {} if self.routes is None else self.routes.known
            self.spans = [(*span(x), x, name) for x, name in (*self.buffers, *read)
                          if not (is_memory(x) and id(x) in known)]
        first, last = span(memory)
        for start, end, x, name in self.spans:
            if start < last and first < end and (kept or not is_memory(x)):
                raise MutationError(f"{label or 'an array'} is written to and shares its memory with "
                                    f"{_named(x, name)}, where the write would not be seen", user_location(),
                                    "use only one of the two, or a copy")


def _refused(place: Place, effects: Pending, why: str, cure: str) -> MutationError:
    return MutationError(f"the function {place.what.removeprefix('it ')}, {why}: the write would not be seen there",
                         effects.line(place), cure)


def _named(x: Any, label: str) -> str:
    kind = type(x).__name__
    return f"{label} (of type {kind})" if label else f"an object that the program reads by name, of type {kind}"
