"""Cases of the shape ops."""

from __future__ import annotations

from tests.cases.case import Case

CASES: list[Case] = []
