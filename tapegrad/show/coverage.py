"""The map of coverage: what tapegrad makes of each public name of a namespace, read from the registries."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections import Counter
from types import ModuleType
from typing import Any, NamedTuple

from tapegrad.rules.op import Op
from tapegrad.rules.registry import AS_WRITTEN, CONSTANT, CONSTRUCTORS, FOREIGN, PLAIN, THROUGH, Refusal
from tapegrad.show.sheet import Sheet
from tapegrad.trace.lazy_frontends import register_imported

SPACES = {"numpy": "numpy", "linalg": "numpy.linalg", "fft": "numpy.fft", "ndarray": "numpy.ndarray", "math": "math",
          "scipy.special": "scipy.special", "scipy.linalg": "scipy.linalg", "scipy.sparse": "scipy.sparse",
          "scipy.sparse.linalg": "scipy.sparse.linalg"}

KINDS = {
    "differentiable": "an op with a rule",
    "composite": "differentiable, written in ops",
    "non-differentiable": "its result is constant almost everywhere, integer, bool or a plain fact",
    "constructor": "makes an array, which the traced program can write to",
    "plain": "takes no traced value",
    "refused": "raises, and says why and what to do instead",
    "unknown": "registered nowhere: raises, unless it is Python code made of functions that are known",
}


class Entry(NamedTuple):
    """A public name, its kind, and whether it has a derivative, be it known to tapegrad or not."""

    name: str
    kind: str
    note: str
    derivative: bool

    @property
    def covered(self) -> bool:
        """True if tapegrad differentiates it."""
        return self.kind in ("differentiable", "composite")


def entry(name: str, value: Any) -> Entry:
    """Classify what a name stands for.

    >>> import math
    >>> entry("sin", math.sin)
    Entry(name='sin', kind='differentiable', note='op sin', derivative=True)
    """
    meaning = FOREIGN.get(value)
    if isinstance(meaning, Refusal):
        return Entry(name, "refused", f"{meaning.why}; try {meaning.try_}", meaning.derivative)
    if isinstance(meaning, Op):
        kind = "differentiable" if meaning.differentiable else "non-differentiable"
        return Entry(name, kind, f"op {meaning.__name__}", meaning.differentiable)
    if value in CONSTRUCTORS and value not in PLAIN and (meaning is None or value in CONSTANT):
        return Entry(name, "constructor", "", False)
    if value in CONSTANT:
        return Entry(name, "non-differentiable", "" if meaning is not None else "a plain value", False)
    if meaning is not None or value in THROUGH | AS_WRITTEN:
        return Entry(name, "composite", "" if meaning is not None else "Python code, traced through", True)
    if value in PLAIN:
        return Entry(name, "plain", PLAIN[value], False)
    return Entry(name, "unknown", "", True)  # for all one knows


def entries(space: str) -> list[Entry]:
    """Return an entry for each public function of a namespace, or for each method and attribute of a class."""
    found = pkgutil.resolve_name(SPACES[space])
    register_imported()
    public = {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
    kinds = list(KINDS)
    return sorted((entry(name, value) for name, value in public.items()
                   if isinstance(found, type) or (callable(value) and not isinstance(value, ModuleType))),
                  key=lambda e: (kinds.index(e.kind), e.name))


def listing(space: str) -> Sheet:
    """Return the map of one namespace: a row for each name.

    >>> print(listing("math").title)  # doctest: +ELLIPSIS
    math: ... names, all ... with a derivative are differentiable
    """
    found = entries(space)
    total, covered = sum(e.derivative for e in found), sum(e.covered for e in found)
    share = f"all {total}" if covered == total else f"{covered} of {total}"
    return Sheet(f"{SPACES[space]}: {len(found)} names, {share} with a derivative are differentiable",
                 ("name", "kind", "note"), [(e.kind, (e.name, e.kind, e.note)) for e in found])


def overview() -> Sheet:
    """Return how many names of each kind each namespace has, and which part of those with a
    derivative is differentiable.

    A name that is registered nowhere counts as if it had one.
    """
    spaces = [space for space, path in SPACES.items() if importlib.util.find_spec(path.partition(".")[0])]
    columns = [entries(space) for space in spaces]
    columns.append([e for column in columns for e in column])
    counts = [Counter(e.kind for e in column) for column in columns]
    derivatives = [sum(e.derivative for e in column) for column in columns]
    covered = [sum(e.covered for e in column) for column in columns]
    rows = [(kind, (kind, *(str(count[kind]) for count in counts))) for kind in KINDS]
    rows.append(("title", ("names", *(str(len(column)) for column in columns))))
    rows.append(("title", ("with a derivative", *map(str, derivatives))))
    rows.append(("title",
                 ("of these covered", *(f"{100 * part // whole}%" for part, whole in zip(covered, derivatives)))))
    return Sheet("what tapegrad makes of public names", ("", *spaces, "all"), rows, numbers=True)
