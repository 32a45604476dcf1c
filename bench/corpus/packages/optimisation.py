"""Test problems, games, networks: pymoo, nashpy, networkx."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("pymoo")
def zdt() -> Built:
    from pymoo.problems import get_problem

    def f(x):
        return sum(np.sum(get_problem(name, n_var=5).evaluate(x[None])) for name in ("zdt1", "zdt2", "zdt3"))
    return f, (np.linspace(0.2, 0.8, 5),)


@case("pymoo")
def dtlz() -> Built:
    from pymoo.problems import get_problem

    def f(x):
        return (np.sum(get_problem("dtlz2", n_var=6, n_obj=3).evaluate(x) ** 2)
                + np.sum(get_problem("dtlz1", n_var=6, n_obj=3).evaluate(x)))
    return f, (np.linspace(0.2, 0.8, 6),)


@case("pymoo")
def constrained() -> Built:
    from pymoo.problems import get_problem

    def f(x):
        F, G = get_problem("bnh").evaluate(x)
        return np.sum(F) + np.sum(G)
    return f, (np.array([1.2, 0.8]),)


@case("pymoo")
def single_objective() -> Built:
    from pymoo.problems import get_problem

    def f(x):
        return sum(get_problem(name, n_var=4).evaluate(x)[0]
                   for name in ("ackley", "rastrigin", "griewank", "rosenbrock", "sphere", "zakharov"))
    return f, (np.array([0.3, -0.2, 0.7, 0.5]),)


@case("pymoo")
def scalarised() -> Built:
    from pymoo.decomposition.asf import ASF
    from pymoo.decomposition.pbi import PBI
    from pymoo.decomposition.tchebicheff import Tchebicheff

    def f(F):
        return sum(np.sum(way.do(F, np.array([[0.4, 0.6]]))) for way in (ASF(), PBI(), Tchebicheff()))
    return f, (np.array([[0.5, 1.2], [0.9, 0.3]]),)


@case("nashpy")
def replicator_dynamics() -> Built:
    import nashpy
    return lambda A: np.sum(nashpy.Game(A).replicator_dynamics(y0=np.array([0.5, 0.3, 0.2]),
                                                               timepoints=np.linspace(0.0, 0.5, 3))[-1] ** 2), (
        np.array([[3.0, 2.0, 3.0], [4.0, 1.0, 1.0], [2.0, 3.0, 1.0]]),)


@case("nashpy")
def strategy_payoff() -> Built:
    import nashpy

    def f(A, sigma):
        game = nashpy.Game(A, -A)
        return game[np.array([0.2, 0.8]), sigma][0] ** 2
    return f, (np.array([[1.0, 2.0], [3.0, 0.5]]), np.array([0.4, 0.6]))


@case("networkx")
def shortest_path() -> Built:
    import networkx as nx

    def f(w):
        graph = nx.DiGraph()
        for (a, b), weight in zip([(0, 1), (1, 2), (0, 2), (2, 3), (1, 3)], w):
            graph.add_edge(a, b, weight=weight)
        return nx.dijkstra_path_length(graph, 0, 3) + nx.bellman_ford_path_length(graph, 0, 3)
    return f, (np.array([1.0, 2.0, 4.0, 1.0, 5.0]),)


@case("networkx")
def page_rank() -> Built:
    import networkx as nx
    from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

    def f(w, alpha):
        graph = nx.DiGraph()
        graph.add_weighted_edges_from([(0, 1, w[0]), (1, 2, w[1]), (2, 0, w[2]), (0, 2, w[3]), (1, 0, 1.0)])
        return _pagerank_python(graph, alpha=alpha, tol=1e-12, max_iter=400)[2]
    return f, (np.array([1.0, 2.0, 4.0, 1.0]), 0.85)


@case("networkx")
def spanning_tree() -> Built:
    import networkx as nx

    def f(w):
        graph = nx.Graph()
        graph.add_weighted_edges_from([(0, 1, w[0]), (1, 2, w[1]), (2, 0, w[2]), (2, 3, w[3]), (1, 3, w[4])])
        return nx.minimum_spanning_tree(graph).size(weight="weight") + nx.floyd_warshall_numpy(graph).sum()
    return f, (np.array([1.0, 2.0, 4.0, 1.0, 5.0]),)


@case("networkx")
def maximum_flow() -> Built:
    import networkx as nx

    def f(c):
        graph = nx.DiGraph()
        for (a, b), capacity in zip(["sa", "sb", "ab", "at", "bt"], c):
            graph.add_edge(a, b, capacity=capacity)
        return nx.maximum_flow_value(graph, "s", "t")
    return f, (np.array([3.0, 2.0, 1.5, 2.0, 2.5]),)


@case("networkx")
def weighted_clustering() -> Built:
    import networkx as nx

    def f(w):
        graph = nx.complete_graph(4)
        for (a, b), weight in zip(graph.edges, w):
            graph[a][b]["weight"] = weight
        return (sum(nx.clustering(graph, weight="weight").values())
                + sum(nx.closeness_centrality(graph, distance="weight").values()))
    return f, (np.linspace(1.0, 2.0, 6),)
