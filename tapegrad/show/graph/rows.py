"""Rows: the row of each box, and the order of each row, after Sugiyama.

K. Sugiyama, S. Tagawa, M. Toda: Methods for visual understanding of hierarchical system structures (1981).
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tapegrad.numbers.lazy import needed
from tapegrad.show.graph.picture import Arrow, Picture

if TYPE_CHECKING:
    import networkx

Node = Hashable
"""A box's key, or `(tail, row)` where an arrow passes a row."""
Chain = list[Node]
SWEEPS = 8


def layout_work(picture: Picture) -> tuple[int, int]:
    """Return the number of rows that all arrows pass, and of their nodes, which arrows of one box share."""
    row = assign(picture)
    spans = [(a.tail, abs(row[a.tail] - row[a.head])) for a in picture.arrows if not a.again and not picture.saved(a)]
    longest: dict[int, int] = {}
    for tail, span in spans:
        longest[tail] = max(longest.get(tail, 0), span)
    return sum(span for _, span in spans), sum(longest.values())


class Column:
    """One of the two columns: its nodes by row, in order, and the chain of nodes along each arrow."""

    __slots__ = ("above", "below", "chains", "rows", "spot")

    def __init__(self, count: int) -> None:
        self.rows: list[list[Node]] = [[] for _ in range(count)]
        self.chains: dict[Arrow, Chain] = {}
        self.above: dict[Node, list[Node]] = {}
        self.below: dict[Node, list[Node]] = {}
        self.spot: dict[Node, tuple[int, int]] = {}  # row and place in it, once the order is settled

    def add(self, node: Node, row: int) -> None:
        """Put a node at the end of a row."""
        self.rows[row].append(node)
        self.above[node], self.below[node] = [], []

    def link(self, upper: Node, lower: Node) -> None:
        """Add an arrow between two nodes in adjacent rows."""
        if lower not in self.below[upper]:
            self.below[upper].append(lower)
            self.above[lower].append(upper)


    def hangs(self, node: Node) -> bool:
        """Return whether a node has a single arrow: an input with one use, a gradient."""
        return len(self.above[node]) + len(self.below[node]) == 1

    def main(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes with several arrows, or all if none has."""
        return [node for node in nodes if not self.hangs(node)] or nodes

    def room(self, node: Node, x: dict[Node, float], half: Callable[[Node], float], gap: float) -> tuple[float, float]:
        """Return the range in which a node can be moved between its neighbours in the row."""
        r, i = self.spot[node]
        nodes = self.rows[r]
        least = x[nodes[i - 1]] + half(nodes[i - 1]) + gap + half(node) if i else -math.inf
        most = x[nodes[i + 1]] - half(nodes[i + 1]) - gap - half(node) if i + 1 < len(nodes) else math.inf
        return least, most


def assign(picture: Picture) -> dict[int, int]:
    """Return the row of each box: a forward box stands below its operands, a reverse box beside its forward box.

    A forward box's row is the longest path that leads to it; a box with at most one operand stands just above its first
    use. Of several reverse boxes of one forward box, the last stands beside it, and the boxes that it uses below.
    """
    nx: Any = needed("networkx")
    band = _layers(picture, nx)
    graph = _within_bands(picture, band, nx)
    depth: dict[int, int] = {}  # how far below its band's first row
    for level, keys in enumerate(nx.topological_generations(graph.reverse())):
        depth.update(dict.fromkeys(keys, level))
    heights = [1] * (max(band.values(), default=0) + 1)
    for key, level in depth.items():
        heights[band[key]] = max(heights[band[key]], level + 1)
    tops = [0]
    for height in heights:
        tops.append(tops[-1] + height)
    return {key: tops[layer] + depth.get(key, 0) for key, layer in band.items()}


def _layers(picture: Picture, nx: networkx) -> dict[int, int]:  # type: ignore[valid-type]
    boxes = picture.boxes
    graph = nx.DiGraph()  # type: ignore[attr-defined]
    graph.add_nodes_from(key for key, box in boxes.items() if not box.reverse)
    graph.add_edges_from((a.tail, a.head) for a in picture.arrows if not a.again and not boxes[a.head].reverse)
    band: dict[int, int] = {}
    for level, keys in enumerate(nx.topological_generations(graph)):  # type: ignore[attr-defined]
        band.update(dict.fromkeys(keys, level))
    # moving a box down lengthens an incoming arrow by no more than it shortens an outgoing one
    for key in reversed(list(band)):
        if graph.in_degree(key) <= 1 and graph.out_degree(key):
            band[key] = min(band[head] for head in graph.successors(key)) - 1
    lowest = min(band.values(), default=0)
    band = {key: level - lowest for key, level in band.items()}
    last = max(band.values(), default=0)
    for key, box in boxes.items():
        if box.reverse:
            band[key] = last if box.beside is None else max(band[box.beside] - box.lift, 0)
    return band


def _within_bands(picture: Picture, band: dict[int, int], nx: networkx) -> networkx.DiGraph:  # type: ignore[valid-type]
    graph = nx.DiGraph()  # type: ignore[attr-defined]
    graph.add_nodes_from(key for key, box in picture.boxes.items() if box.reverse)
    graph.add_edges_from((a.tail, a.head) for a in picture.arrows
                         if not a.again and picture.boxes[a.tail].reverse and band[a.tail] == band[a.head])
    return graph  # type: ignore[no-any-return]


def columns(picture: Picture, row: dict[int, int]) -> tuple[Column, Column]:
    """Return the forward and the reverse column, with few crossings.

    Arrows of one box share nodes. The reverse column begins as the mirror image of the forward one.
    """
    count = max(row.values(), default=0) + 1
    both = Column(count), Column(count)
    for key, box in picture.boxes.items():
        both[box.reverse].add(key, row[key])
    for arrow in picture.arrows:
        down = not picture.boxes[arrow.head].reverse
        if (arrow.again or picture.saved(arrow) or (row[arrow.tail] < row[arrow.head]) != down
            or row[arrow.tail] == row[arrow.head]):
            continue
        column, step = both[not down], 1 if down else -1
        chain: Chain = [arrow.tail]
        for r in range(row[arrow.tail] + step, row[arrow.head], step):
            node = arrow.tail, r
            if node not in column.above:
                column.add(node, r)
            chain.append(node)
        chain.append(arrow.head)
        column.chains[arrow] = chain
        for one, other in pairwise(chain):
            column.link(*((one, other) if down else (other, one)))
    forward, reverse = both
    _order(forward)
    place = {key: i for nodes in forward.rows for i, key in enumerate(nodes)}
    for nodes in reverse.rows:
        nodes.sort(key=lambda node: -place.get(picture.boxes[node if isinstance(node, int) else node[0]].beside,  # type: ignore[index]
                                               0))
    _order(reverse)
    return forward, reverse


def _order(column: Column) -> None:
    """Sort each row by the barycentre of the neighbours, downwards and upwards in turn; keep the order with fewest
    crossings.
    """
    best, fewest = [list(nodes) for nodes in column.rows], crossings(column)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        neighbours = column.above if downwards else column.below
        indices = range(1, len(column.rows)) if downwards else range(len(column.rows) - 2, -1, -1)
        for r in indices:
            place = {node: i for i, node in enumerate(column.rows[r - 1 if downwards else r + 1])}
            column.rows[r] = _by_barycentre(column.rows[r], neighbours, place)
        found = crossings(column)
        if found < fewest:
            best, fewest = [list(nodes) for nodes in column.rows], found
    column.rows = best
    column.spot = {node: (r, i) for r, nodes in enumerate(best) for i, node in enumerate(nodes)}


def _by_barycentre(nodes: list[Node], neighbours: dict[Node, list[Node]], place: dict[Node, int]) -> list[Node]:
    """Sort a row; a node without neighbours keeps its place."""
    centre = {node: sum(place[n] for n in neighbours[node]) / len(neighbours[node]) for node in nodes
              if neighbours[node]}
    movable = iter(sorted((node for node in nodes if node in centre), key=centre.__getitem__))
    return [next(movable) if node in centre else node for node in nodes]


def crossings(column: Column) -> int:
    """Return the number of crossings of arrows between rows."""
    total = 0
    for upper, lower in zip(column.rows, column.rows[1:]):
        place = {node: i for i, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            ends = sorted(place[n] for n in column.below[node])
            for end in ends:
                total += len(seen) - bisect_left(seen, end + 1)
            for end in ends:
                insort(seen, end)
    return total


def settle(column: Column, half: Callable[[Node], float], gap: float, rounds: int = 30) -> dict[Node, float]:
    """Return the x of each node's centre: near its neighbours', with `gap` between nodes of one row.

    Each row in turn is moved to the least squares fit to its neighbours; long arrows weigh more, nodes with a single
    arrow less. Finally chains are straightened where there is room.
    """
    x: dict[Node, float] = {}
    for nodes in column.rows:
        edges = _offsets(nodes, half, gap)
        middle = edges[-1] / 2 if edges else 0.0
        x.update((node, at - middle) for node, at in zip(nodes, edges))
    filled = [nodes for nodes in column.rows if nodes]
    pulls = {node: [(_weight(column, node, n), n) for n in (*column.above[node], *column.below[node])]
             for nodes in filled for node in nodes}
    for turn in range(rounds):
        for nodes in filled if turn % 2 == 0 else reversed(filled):
            weights = [sum(weight for weight, _ in pulls[node]) for node in nodes]
            wants = [sum(w * x[n] for w, n in pulls[node]) / weight if weight else x[node]
                     for node, weight in zip(nodes, weights)]
            x.update(zip(nodes, _fit(wants, [weight or 0.1 for weight in weights], _offsets(nodes, half, gap))))
    for spine in _spines(column):
        _straighten(column, spine, x, half, gap)
    for nodes in filled:
        for node in nodes if len(nodes) > 1 else ():
            if column.hangs(node):
                least, most = column.room(node, x, half, gap)
                beside = x[(*column.above[node], *column.below[node])[0]]
                x[node] = min(max(beside, least), most)
    return x


def _weight(column: Column, node: Node, other: Node) -> float:
    """Return the weight with which a node is pulled to stand above or below another."""
    passing = isinstance(node, tuple) + isinstance(other, tuple)
    return 0.2 if column.hangs(other) and not column.hangs(node) else (1.0, 2.0, 8.0)[passing]


def _spines(column: Column) -> list[list[Node]]:
    """Return the chains that should run straight: an arrow past several rows, boxes that follow one another."""
    follows: dict[Node, Node] = {}
    for nodes in column.rows:
        for node in nodes:
            same = [n for n in column.below[node] if isinstance(n, tuple) and isinstance(node, tuple)
                    and n[0] == node[0]]
            main = same or column.main(column.below[node])
            if same or (len(main) == 1 and column.main(column.above[main[0]]) == [node]):
                follows[node] = main[0]
    led = set(follows.values())
    spines = []
    for node in (node for nodes in column.rows for node in nodes if node in follows and node not in led):
        spine = [node]
        while spine[-1] in follows:
            spine.append(follows[spine[-1]])
        spines.append(spine)
    return sorted(spines, key=len, reverse=True)


def _straighten(column: Column, spine: list[Node], x: dict[Node, float], half: Callable[[Node], float],
                gap: float) -> None:
    """Give successive nodes of a spine the same x as far as there is room."""
    run: list[Node] = []
    low, high = -math.inf, math.inf
    for node in [*spine, None]:
        least, most = column.room(node, x, half, gap) if node is not None else (math.inf, -math.inf)
        if run and max(low, least) > min(high, most):
            wanted = sum(x[n] for n in run) / len(run)
            x.update(dict.fromkeys(run, min(max(wanted, low), high)))
            run, low, high = [], -math.inf, math.inf
        if node is not None:
            run.append(node)
            low, high = max(low, least), min(high, most)


def _offsets(nodes: Iterable[Node], half: Callable[[Node], float], gap: float) -> list[float]:
    """Return the least distance of each node's centre from the first one's."""
    found: list[float] = []
    before = 0.0
    for node in nodes:
        found.append(found[-1] + before + gap + half(node) if found else 0.0)
        before = half(node)
    return found


def _fit(wants: list[float], weights: list[float], offsets: list[float]) -> list[float]:
    """Return the positions nearest to `wants` that keep at least their offsets apart: isotonic regression by pooling
    adjacent violators.
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for want, weight, offset in zip(wants, weights, offsets):
        mean, heavy, many = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, count = pools.pop()
            mean, heavy, many = (mean * heavy + other * more) / (heavy + more), heavy + more, many + count
        pools.append((mean, heavy, many))
    means = [mean for mean, _, many in pools for _ in range(many)]
    return [mean + offset for mean, offset in zip(means, offsets)]
