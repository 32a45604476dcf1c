"""A web of pages."""
from collections import defaultdict


class Graph:
    def __init__(self):
        self.edges = defaultdict(dict)

    def link(self, a, b, weight=1.0):
        self.edges[a][b] = self.edges[a].get(b, 0.0) + weight
        self.edges[b]
        return self

    def out_weight(self, node):
        return sum(self.edges[node].values())
