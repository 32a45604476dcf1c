"""Acids and what of them is dissociated."""


class Acid:
    def __init__(self, name, pka, total):
        self.name, self.ka, self.total = name, [10 ** -k for k in pka], total

    def charge(self, h):
        """Return the mean charge of all its forms times its concentration."""
        terms, term = [1.0], 1.0
        for ka in self.ka:
            term = term * ka / h
            terms.append(term)
        bottom = sum(terms)
        return -self.total * sum(i * t for i, t in enumerate(terms)) / bottom

    def __repr__(self):
        return f"<{self.name}>"
