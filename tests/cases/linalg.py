"""Cases of the linalg ops."""

from __future__ import annotations

from tests.cases.case import Case

CASES: list[Case] = []
