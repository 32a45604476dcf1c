"""Assembly and solution."""
import numpy as np


class Model:
    def __init__(self, nodes):
        self.size = 2 * nodes
        self.k = np.zeros((self.size, self.size))
        self.f = np.zeros(self.size)
        self.fixed = set()
        self.elements = []

    def add(self, element, q=0.0):
        self.elements.append(element)
        d = element.dofs
        self.k[np.ix_(d, d)] += element.stiffness()
        self.f[d] += element.load(q)
        return self

    def fix(self, *dofs):
        self.fixed.update(dofs)
        return self

    def solve(self):
        free = sorted(set(range(self.size)) - self.fixed)
        u = np.zeros(self.size)
        u[free] = np.linalg.solve(self.k[np.ix_(free, free)], self.f[free])
        self.reactions = self.k @ u - self.f
        return u
