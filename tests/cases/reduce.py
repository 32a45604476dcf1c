"""Cases of the reduce ops."""

from __future__ import annotations

from tests.cases.case import Case

CASES: list[Case] = []
