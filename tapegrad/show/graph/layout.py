"""Layout: the position of each box and the path of each arrow, in pixels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tapegrad.show.graph.picture import Arrow, Box, Picture
from tapegrad.show.graph.rows import Column, Node, assign, columns, settle

CHARACTER, SMALL = 7.9, 6.7  # character widths of a title and of a detail
HEIGHT, CHANNEL, GAP, TRACK, MARGIN, TOP = 44.0, 26.0, 22.0, 6.0, 24.0, 74.0
ROUND = 6.0  # the radius of a corner


class Placed(NamedTuple):
    """A box's centre and size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> float:
        """Its upper edge."""
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height / 2


class Route(NamedTuple):
    """The path of an arrow, and the position and direction of its head."""

    path: str
    tip: tuple[float, float]
    pointing: str  # "up", "down" or "right"


class Layout(NamedTuple):
    """Boxes and routes, and the middle of each column."""

    width: float
    height: float
    boxes: dict[int, Placed]
    routes: dict[Arrow, Route]
    middles: tuple[float, float]


def width_of(box: Box) -> float:
    """Return the width that a box's text needs."""
    return max(64.0, CHARACTER * len(box.title) + 22, SMALL * len(box.detail) + 22)


def layout(picture: Picture) -> Layout:
    """Place all boxes and arrows: the forward column on the left, downwards, the reverse one on the right, upwards.

    Within a column, arrows are curves that bend only between rows. Arrows to the other column, and those of a loop, run
    along channels below rows and lanes beside columns, so that no arrow passes behind an unrelated box.
    """
    row = assign(picture)
    both = columns(picture, row)
    return _Router(picture, row, both).layout()


class _Router:
    def __init__(self, picture: Picture, row: dict[int, int], both: tuple[Column, Column]) -> None:
        self.picture, self.row, self.both = picture, row, both
        self.around = [a for a in picture.arrows if a not in both[0].chains and a not in both[1].chains]
        self.lanes = {side: _lanes((a for a in self.around if self._side(a) == side), row)
                      for side in ("left", "middle", "right")}
        self.tracks = self._tracks()
        self._x()
        self._y()

    def _side(self, arrow: Arrow) -> str:
        if self.picture.saved(arrow):
            return "middle"
        return "right" if self.picture.boxes[arrow.head].reverse else "left"

    def _clear(self, key: int) -> bool:
        """Return whether no other box separates a box from the lanes in the middle."""
        reverse = self.picture.boxes[key].reverse
        nodes = [node for node in self.both[reverse].rows[self.row[key]] if isinstance(node, int)]
        return nodes[0 if reverse else -1] == key

    def _channels(self, arrow: Arrow) -> tuple[int | None, int | None]:
        """Return the rows below which an arrow leaves its tail and reaches its head sideways; None for an end that
        needs no channel.
        """
        tail, head = self.row[arrow.tail], self.row[arrow.head]
        side = self._side(arrow)
        if side == "middle":
            return None if self._clear(arrow.tail) else tail, None if self._clear(arrow.head) else head
        return (tail, head - 1) if side == "left" else (tail - 1, head)

    def _tracks(self) -> dict[tuple[int, int], int]:
        """Number the boxes of each channel whose arrows run along it."""
        found: dict[tuple[int, int], int] = {}
        counts: dict[int, int] = defaultdict(int)
        for arrow in self.around:
            for channel in self._channels(arrow):
                if channel is not None and (channel, arrow.tail) not in found:
                    found[channel, arrow.tail] = counts[channel]
                    counts[channel] += 1
        return found

    def _x(self) -> None:
        boxes = self.picture.boxes

        def half(node: Node) -> float:
            return width_of(boxes[node]) / 2 if isinstance(node, int) else 2.0
        self.x: dict[Node, float] = {}
        self.width, self.extents = MARGIN, [(MARGIN, MARGIN)] * 2
        for side, column in enumerate(self.both):
            found = settle(column, half, GAP)
            if not found:
                continue
            lanes = self.lanes["left" if side == 0 else "middle"]
            self.width += ((0 if side == 0 else 2 * GAP) + TRACK * (max(lanes.values(), default=-1) + 1)
                           + (GAP if lanes and side == 0 else 0))
            left, right = min(at - half(node) for node, at in found.items()), max(at + half(node)
                                                                                  for node, at in found.items())
            self.x.update((node, round(at - left + self.width, 1)) for node, at in found.items())
            self.extents[side] = self.width, self.width + right - left
            self.width += right - left
        lanes = self.lanes["right"]
        self.width += MARGIN + (GAP + TRACK * (max(lanes.values()) + 1) if lanes else 0)

    def _y(self) -> None:
        """Place the rows; the channel below a row is higher if arrows run along it or go far."""
        used: dict[int, int] = defaultdict(int)
        for (channel, _), track in self.tracks.items():
            used[channel] = max(used[channel], track + 1)
        far: dict[int, float] = defaultdict(float)
        for column in self.both:
            for r, nodes in enumerate(column.rows):
                for node in nodes:
                    far[r] = max([far[r], *(abs(self.x[node] - self.x[other]) for other in column.below[node])])
        self.top: list[float] = []
        y = TOP + TRACK * used[-1] + (CHANNEL if used[-1] else 0)
        for r in range(len(self.both[0].rows)):
            self.top.append(y)
            y += HEIGHT + CHANNEL + min(36.0, far[r] / 12) + TRACK * used[r]
        self.height = (self.top[-1] if self.top else TOP) + HEIGHT + TRACK * used[len(self.top) - 1] + MARGIN

    # -- arrows

    def layout(self) -> Layout:
        boxes = {key: Placed(self.x[key], self.top[self.row[key]] + HEIGHT / 2, round(width_of(box), 1), HEIGHT)
                 for key, box in self.picture.boxes.items()}
        self.placed = boxes
        self.ports = self._ports()
        routes = {}
        for arrow in self.picture.arrows:
            chain = self.both[self.picture.boxes[arrow.head].reverse].chains.get(arrow)
            routes[arrow] = self._around(arrow) if chain is None else self._along(arrow, chain)
        middles = tuple((left + right) / 2 for left, right in self.extents)
        return Layout(round(self.width, 1), round(self.height, 1), boxes, routes, (middles[0], middles[1]))

    def _ports(self) -> dict[Arrow, float]:
        """Return each arrow's offset from its head's centre; arrows arrive side by side, ordered by their origins."""
        arriving: dict[tuple[int, bool], list[tuple[float, Arrow]]] = defaultdict(list)
        for arrow in self.picture.arrows:
            chain = self.both[self.picture.boxes[arrow.head].reverse].chains.get(arrow)
            sideways = chain is None and self._channels(arrow)[1] is None
            comes = self.x[arrow.tail] if chain is None else self.x[chain[-2]]
            if chain is None and not sideways:
                comes = {"left": -1e9, "middle": -1e9, "right": 1e9}[self._side(arrow)]
            arriving[arrow.head, sideways].append((self.row[arrow.tail] if sideways else comes, arrow))
        ports = {}
        for (head, sideways), arrows in arriving.items():
            arrows.sort()
            room = HEIGHT - 16 if sideways else self.placed[head].width - 28
            step = min(10.0 if sideways else 16.0, room / max(len(arrows) - 1, 1))
            for i, (_, arrow) in enumerate(arrows):
                ports[arrow] = (i - (len(arrows) - 1) / 2) * step
        return ports

    def _along(self, arrow: Arrow, chain: list[Node]) -> Route:
        """Return the route along a chain of nodes: straight past each row, a curve between two rows."""
        down = not self.picture.boxes[arrow.head].reverse
        tail, head = self.placed[arrow.tail], self.placed[arrow.head]
        x, y = tail.x, tail.bottom if down else tail.top
        path = [f"M{_n(x)} {_n(y)}"]
        r, step = self.row[arrow.tail], 1 if down else -1
        for node in chain[1:]:
            r += step
            last = node == arrow.head
            to = head.x + self.ports[arrow] if last else self.x[node]
            near, past = (self.top[r], self.top[r] + HEIGHT)[::step]
            end = near - 5 * step if last else near
            if bends := abs(to - x) > 0.5:
                middle = (y + near) / 2
                path.append(f"C{_n(x)} {_n(middle)} {_n(to)} {_n(middle)} {_n(to)} {_n(end)}")
            if not (last and bends):
                del path[len(path) - path[-1].startswith("V"):]  # one line past any number of rows
                path.append(f"V{_n(end if last else past)}")
            x, y = to, past
        return Route("".join(path), (x, head.top if down else head.bottom), "down" if down else "up")

    def _around(self, arrow: Arrow) -> Route:
        """Return the route along channels and a lane, with round corners."""
        leave, enter = self._channels(arrow)
        at, start, end, pointing = self._ends(arrow)
        if leave is None and enter is None and self.row[arrow.tail] == self.row[arrow.head]:
            return Route(f"M{_n(start[0])} {_n(end[1])}H{_n(end[0] - 5)}", end, pointing)
        there, back = self._turn(leave, arrow, start, at), self._turn(enter, arrow, end, at)
        return Route(polyline([start, *there, *reversed(back), _before(end, pointing)]), end, pointing)

    def _turn(self, channel: int | None, arrow: Arrow, end: tuple[float, float],
              at: float) -> list[tuple[float, float]]:
        """Return the corners between an end of an arrow and its lane."""
        if channel is None:
            return [(at, end[1])]
        y = self._track(channel, arrow.tail)
        return [(end[0], y), (at, y)]

    def _ends(self, arrow: Arrow) -> tuple[float, tuple[float, float], tuple[float, float], str]:
        """Return the x of an arrow's lane, the points at its tail and its head, and its direction at the head."""
        tail, head, side, port = self.placed[arrow.tail], self.placed[arrow.head], self._side(arrow), self.ports[arrow]
        leave, enter = self._channels(arrow)
        lane = TRACK * self.lanes[side][arrow.tail]
        if side == "left":
            begin, end = (tail.x - tail.width / 4, tail.bottom), (head.x + port, head.top)
            return self.extents[0][0] - GAP / 2 - lane, begin, end, "down"
        if side == "right":
            return (self.extents[1][1] + GAP / 2 + lane, (tail.x + tail.width / 4, tail.top),
                    (head.x + port, head.bottom), "up")
        start = (tail.x + tail.width / 2, tail.y) if leave is None else (tail.x + tail.width / 4, tail.bottom)
        end = (head.x - head.width / 2, head.y + port) if enter is None else (head.x + port, head.bottom)
        return self.extents[1][0] - GAP - lane, start, end, "right" if enter is None else "up"

    def _track(self, channel: int, tail: int) -> float:
        below = self.top[channel] + HEIGHT if channel >= 0 else TOP - CHANNEL / 2
        return below + CHANNEL / 2 - 3 + TRACK * self.tracks[channel, tail]


def _before(end: tuple[float, float], pointing: str) -> tuple[float, float]:
    """Return the point where the line ends and the arrow's head begins."""
    dx, dy = {"right": (-5, 0), "down": (0, -5), "up": (0, 5)}[pointing]
    return end[0] + dx, end[1] + dy


def _lanes(arrows: Iterable[Arrow], row: dict[int, int]) -> dict[int, int]:
    """Return the lane of each box's arrows; boxes whose arrows never pass the same row may share one."""
    spans: dict[int, tuple[int, int]] = {}
    for arrow in arrows:
        low, high = sorted((row[arrow.tail], row[arrow.head]))
        known = spans.get(arrow.tail, (low, high))
        spans[arrow.tail] = min(low, known[0]), max(high, known[1])
    free: list[int] = []  # by lane: the last occupied row
    found = {}
    for tail, (low, high) in sorted(spans.items(), key=lambda item: item[1]):
        lane = next((i for i, taken in enumerate(free) if taken < low), len(free))
        free[lane:lane + 1] = [high]
        found[tail] = lane
    return found


def polyline(points: list[tuple[float, float]]) -> str:
    """Return horizontal and vertical lines with round corners as an SVG path.

    >>> polyline([(0, 0), (0, 20), (30, 20)])
    'M0 0L0 14Q0 20 6 20L30 20'
    """
    kept = [points[0]]
    for point, after in zip(points[1:], [*points[2:], None]):
        straight = after is not None and (kept[-1][0] == point[0] == after[0] or kept[-1][1] == point[1] == after[1])
        if point != kept[-1] and not straight:
            kept.append(point)
    parts = [f"M{_n(kept[0][0])} {_n(kept[0][1])}"]
    for (ax, ay), (bx, by), (cx, cy) in zip(kept, kept[1:], kept[2:]):
        radius = min(ROUND, (abs(bx - ax) + abs(by - ay)) / 2, (abs(cx - bx) + abs(cy - by)) / 2)
        parts.append(f"L{_n(bx - _sign(bx - ax) * radius)} {_n(by - _sign(by - ay) * radius)}"
                     f"Q{_n(bx)} {_n(by)} {_n(bx + _sign(cx - bx) * radius)} {_n(by + _sign(cy - by) * radius)}")
    return "".join([*parts, f"L{_n(kept[-1][0])} {_n(kept[-1][1])}"])


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def _n(x: float) -> str:
    return f"{x:.1f}".removesuffix(".0")
