"""How a page's rank depends on a link."""
from .graph import Graph


def rank(graph, damping, rounds=25):
    n = len(graph.edges)
    score = dict.fromkeys(graph.edges, 1 / n)
    for _ in range(rounds):
        new = {node: (1 - damping) / n for node in graph.edges}
        for node, links in graph.edges.items():
            for target, weight in links.items():
                new[target] += damping * score[node] * weight / graph.out_weight(node)
        if max(abs(new[k] - score[k]) for k in new) < 1e-15:
            break
        score = new
    return score


def objective(a, b, damping):
    graph = Graph().link("home", "about", a).link("home", "shop", b).link("shop", "home").link("about", "shop", a * b).link("about", "home", 1)
    return rank(graph, damping)["shop"]


START = (1.0, 2.0, 0.85)
