"""The table of ops: for each, samples and error inputs. One row per case, one file per family; bench/ shares it."""

from __future__ import annotations

from tests.cases import decompose, elementwise, fft, index, linalg, numeric, reduce, scipy, shape, sort, write
from tests.cases.case import Case

FAMILIES: dict[str, list[Case]] = {
    "elementwise": elementwise.CASES, "fft": fft.CASES, "reduce": reduce.CASES, "sort": sort.CASES, "shape": shape.CASES, "index": index.CASES, "linalg": linalg.CASES, "write": write.CASES,
    "numeric": numeric.CASES, "scipy": scipy.CASES,
    "decompose": decompose.CASES,
}
CASES: list[Case] = [case for cases in FAMILIES.values() for case in cases]
