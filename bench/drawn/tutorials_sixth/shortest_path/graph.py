"""A graph of roads whose lengths are numbers of a program."""
from collections import defaultdict


class Graph:
    def __init__(self):
        self.edges = defaultdict(dict)

    def connect(self, a, b, weight):
        self.edges[a][b] = weight
        self.edges[b][a] = weight

    def __getitem__(self, node):
        return self.edges[node].items()

    @classmethod
    def from_lengths(cls, pairs, lengths):
        graph = cls()
        for (a, b), length in zip(pairs, lengths):
            graph.connect(a, b, length)
        return graph
