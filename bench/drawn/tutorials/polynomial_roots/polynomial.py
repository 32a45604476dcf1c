"""Polynomials with operators."""
from functools import reduce
from itertools import zip_longest


class Polynomial:
    __slots__ = ("c",)

    def __init__(self, *coefficients):
        self.c = list(coefficients) or [0.0]

    @classmethod
    def from_roots(cls, roots):
        return reduce(lambda p, q: p * q, (cls(-r, 1.0) for r in roots))

    def __call__(self, x):
        return reduce(lambda total, c: total * x + c, reversed(self.c))

    def __add__(self, other):
        return Polynomial(*(a + b for a, b in zip_longest(self.c, other.c, fillvalue=0.0)))

    def __mul__(self, other):
        out = [0.0] * (len(self.c) + len(other.c) - 1)
        for i, a in enumerate(self.c):
            for j, b in enumerate(other.c):
                out[i + j] += a * b
        return Polynomial(*out)

    def __getitem__(self, i):
        return self.c[i]

    def __len__(self):
        return len(self.c)

    def derivative(self):
        return Polynomial(*(k * c for k, c in enumerate(self.c) if k))

    def deflate(self, root):
        out, carry = [], 0.0
        for c in reversed(self.c[1:]):
            carry = carry * root + c
            out.append(carry)
        return Polynomial(*reversed(out))
