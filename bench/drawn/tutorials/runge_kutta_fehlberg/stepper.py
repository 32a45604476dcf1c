"""A stepper with error control, which yields what it accepts."""
import math

from .tableau import FEHLBERG


class StepTooSmall(RuntimeError):
    pass


class Stepper:
    def __init__(self, f, tol=1e-6, tableau=FEHLBERG):
        self.f, self.tol = f, tol
        self.c, self.a, self.high, self.low = tableau.floats()
        self.power = 1 / tableau.order
        self.accepted = self.rejected = 0

    def stages(self, t, y, h):
        ks = []
        for c, row in zip(self.c, self.a):
            inner = [yi + h * sum(a * k[i] for a, k in zip(row, ks)) for i, yi in enumerate(y)]
            ks.append(self.f(t + c * h, inner))
        return ks

    def run(self, t, y, end, h=0.05):
        yield t, y
        while t < end:
            h = min(h, end - t)
            if h < 1e-12:
                raise StepTooSmall(f"at t = {t}")
            ks = self.stages(t, y, h)
            new = [yi + h * sum(b * k[i] for b, k in zip(self.high, ks)) for i, yi in enumerate(y)]
            error = math.sqrt(sum((h * sum((p - q) * k[i] for p, q, k in zip(self.high, self.low, ks))) ** 2
                                  for i in range(len(y))))
            if error <= self.tol:
                t, y = t + h, new
                self.accepted += 1
                yield t, y
            else:
                self.rejected += 1
            h *= min(4.0, max(0.2, 0.9 * (self.tol / max(error, 1e-300)) ** self.power))
