"""Bonds and their cash flows."""
from dataclasses import dataclass
from datetime import date, timedelta

TODAY = date(2024, 3, 15)


@dataclass(frozen=True)
class Bond:
    coupon: float
    maturity: date
    face: float = 100.0

    def flows(self):
        when = self.maturity
        while when > TODAY:
            yield (when - TODAY).days / 365.25, self.coupon / 2 * self.face
            when = when - timedelta(days=182)
        yield (self.maturity - TODAY).days / 365.25, self.face


BONDS = [Bond(0.03, date(2025, 3, 14)), Bond(0.035, date(2026, 9, 11)), Bond(0.04, date(2029, 3, 9)),
         Bond(0.042, date(2033, 3, 4))]
