"""The table of ops: for each, samples and error inputs. One row per case, one file per family; bench/ shares it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import (
    decompose,
    elementwise,
    fft,
    filters,
    index,
    linalg,
    nn,
    numeric,
    random,
    reduce,
    scipy,
    shape,
    sort,
    sparse,
    special,
    write,
)
from tests.cases.case import Case

FAMILIES: dict[str, list[Case]] = {
    "elementwise": elementwise.CASES, "reduce": reduce.CASES, "sort": sort.CASES, "shape": shape.CASES, "index": index.CASES, "write": write.CASES,
    "linalg": linalg.CASES, "decompose": decompose.CASES, "fft": fft.CASES, "numeric": numeric.CASES, "random": random.CASES, "scipy": scipy.CASES,
    "filters": filters.CASES, "sparse": sparse.CASES, "special": special.CASES, "nn": nn.CASES,
}
CASES: list[Case] = [case for cases in FAMILIES.values() for case in cases]
# without those that differ in their formula alone
DISTINCT: list[Case] = list({case.kind or case.name: case for case in reversed(CASES)}.values())[::-1]


def chosen(new: int | None = None, every: int = 1, distinct: bool = True) -> dict[str, list[int]]:
    """Return by the names of cases the numbers of the samples with which a mechanism is tested.

    What a mechanism does with an op it does with all its cases. So these are the first `new` samples, or all, of the
    first case of each op, and one sample of each so-and-so-many-th other case, another one from case to case, so that
    each kind of sample is met; `distinct` leaves out what differs in its formula alone. Values, gradients and tangents are
    tested with every sample of every case.
    """
    known: set[str] = set()
    found: dict[str, list[int]] = {}
    for place, case in enumerate(DISTINCT if distinct else CASES):
        if not case.samples:
            continue
        if not known.issuperset(case.ops):
            found[case.name] = [*range(len(case.samples))][:new]
        elif place % every == 0:
            found[case.name] = [place // every % len(case.samples)]
        known.update(case.ops)
    return found


def samples(new: int | None = None, every: int = 1, distinct: bool = True) -> list[Any]:
    """Return rows for `over`: cases, with the samples that are chosen."""
    cases = {case.name: case for case in CASES}
    return [pytest.param(cases[name], [cases[name].samples[i] for i in numbers], id=name) for name, numbers in chosen(new, every, distinct).items()]
