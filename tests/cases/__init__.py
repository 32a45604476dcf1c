"""The table of ops: for each, samples and error inputs. One row per case, one file per family; bench/ shares it."""

from __future__ import annotations

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


def share(number: int) -> list[Case]:
    """Return of each op the first case, and every third of the others, by a number of the mechanism that is tested.

    What a mechanism does with an op it does with all its cases: three mechanisms have all of them, and the rules, the
    compiled calls and the replays of each are tested with all.
    """
    known: set[str] = set()
    found = []
    for place, case in enumerate(DISTINCT):
        if not known.issuperset(case.ops) or place % 3 == number % 3:
            found.append(case)
        known.update(case.ops)
    return found
