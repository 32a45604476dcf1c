"""The map of coverage: how tapegrad treats each public name of a namespace, read from the registries."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections import Counter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from tapegrad.rules.op import Op
from tapegrad.rules.registry import CONSTANT, CONSTRUCTORS, DISPATCH, PLAIN, RUN_AS_PYTHON, TRACED_THROUGH, Refusal
from tapegrad.show.scipy_names import MEASURED
from tapegrad.show.sheet import Sheet
from tapegrad.trace.lazy_frontends import register_imported

SPACES = {"numpy": "numpy", "linalg": "numpy.linalg", "fft": "numpy.fft", "ndarray": "numpy.ndarray", "math": "math",
          **{f"scipy.{name}": f"scipy.{name}" for name in (
              "special", "linalg", "integrate", "interpolate", "signal", "ndimage", "sparse", "sparse.linalg",
              "optimize", "stats", "spatial", "spatial.distance", "spatial.transform", "fft")}}

KINDS = {
    "differentiable": "an op with a rule",
    "composite": "differentiable, written in ops",
    "traced": "differentiable, for the library's own Python code is traced",
    "non-differentiable": "its result is constant almost everywhere, integer, bool or a plain fact",
    "constructor": "makes an array, which the traced program can write to",
    "plain": "takes no traced value",
    "refused": "raises, and says why and what to do instead",
    "unknown": "registered nowhere: raises, unless it is Python code made of functions that are known",
}


class Entry(NamedTuple):
    """A public name, its kind, and whether it has a derivative, known to tapegrad or not."""

    name: str
    kind: str
    note: str
    derivative: bool

    @property
    def covered(self) -> bool:
        """Whether tapegrad differentiates it."""
        return self.kind in ("differentiable", "composite", "traced")


def entry(name: str, value: Any, space: str = "") -> Entry:
    """Classify the value of a name: by the registries, or by measurements of SciPy's names.

    >>> import math
    >>> entry("sin", math.sin)
    Entry(name='sin', kind='differentiable', note='op sin', derivative=True)
    """
    meaning = DISPATCH.get(value)
    if isinstance(meaning, Refusal):
        return Entry(name, "refused", f"{meaning.why}; try: {meaning.try_}", meaning.derivative)
    if isinstance(meaning, Op):
        kind = "differentiable" if meaning.differentiable else "non-differentiable"
        return Entry(name, kind, f"op {meaning.__name__}", meaning.differentiable)
    if value in CONSTRUCTORS and value not in PLAIN and (meaning is None or value in CONSTANT):
        return Entry(name, "constructor", "", False)
    if value in CONSTANT:
        return Entry(name, "non-differentiable", "" if meaning is not None else "a plain value", False)
    if meaning is not None:
        return Entry(name, "composite", "", True)
    if value in TRACED_THROUGH | RUN_AS_PYTHON:
        return Entry(name, "traced", "", True)
    if value in PLAIN:
        return Entry(name, "plain", PLAIN[value], False)
    if (space, name) in MEASURED:
        kind, note = MEASURED[space, name]
        return Entry(name, kind, note, kind in ("composite", "traced", "refused"))
    return Entry(name, "unknown", "", True)  # assumed


def entries(space: str) -> list[Entry]:
    """Return an entry for each public function of a namespace, or for each method and attribute of a class."""
    found = pkgutil.resolve_name(SPACES[space])
    register_imported()
    names = getattr(found, "__all__", None) if space.startswith("scipy.") else None
    public = {name: getattr(found, name) for name in names or dir(found) if not name.startswith("_")}
    if found is np.ndarray:  # removed names raise on access
        public = {name: value for name, value in public.items() if hasattr(np.empty((1, 1)), name)}
    kinds = list(KINDS)
    return sorted((entry(name, value, space) for name, value in public.items()
                   if isinstance(found, type) or (callable(value) and not isinstance(value, ModuleType))),
                  key=lambda e: (kinds.index(e.kind), e.name))


def listing(space: str) -> Sheet:
    """Return the map of one namespace, a row for each name.

    >>> print(listing("math").title)  # doctest: +ELLIPSIS
    math: ... names, all ... with a derivative are differentiable
    """
    found = entries(space)
    total, covered = sum(e.derivative for e in found), sum(e.covered for e in found)
    share = f"all {total}" if covered == total else f"{covered} of {total}"
    return Sheet(f"{SPACES[space]}: {len(found)} names, {share} with a derivative are differentiable",
                 ("name", "kind", "note"), [(e.kind, (e.name, e.kind, e.note)) for e in found])


def overview() -> Sheet:
    """Return the number of names of each kind by namespace, and the share of those with a derivative that is
    differentiable. An unregistered name counts as having one.
    """
    found = {space: entries(space) for space, path in SPACES.items()
             if importlib.util.find_spec(path.partition(".")[0])}
    found["all"] = [e for column in found.values() for e in column]
    rows = []
    for space, column in found.items():
        count, whole = Counter(e.kind for e in column), sum(e.derivative for e in column)
        share = f"{100 * sum(e.covered for e in column) // whole}%"
        rows.append(("title" if space == "all" else "composite",
                     (space, share, str(whole), *(str(count[kind]) for kind in KINDS))))
    return Sheet("what tapegrad makes of public names", ("", "covered", "of", *KINDS), rows, numbers=True)
