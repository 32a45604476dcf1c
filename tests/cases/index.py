"""Cases of the index ops."""

from __future__ import annotations

from tests.cases.case import Case

CASES: list[Case] = []
