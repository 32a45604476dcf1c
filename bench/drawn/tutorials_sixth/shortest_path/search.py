"""Dijkstra's algorithm with a heap, and betweenness of its paths."""
import heapq
import itertools


def dijkstra(graph, source):
    distance, before, seen = {source: 0.0}, {}, set()
    order = itertools.count()
    queue = [(0.0, next(order), source)]
    while queue:
        d, _, node = heapq.heappop(queue)
        if node in seen:
            continue
        seen.add(node)
        for other, weight in graph[node]:
            through = d + weight
            if other not in distance or through < distance[other]:
                distance[other], before[other] = through, node
                heapq.heappush(queue, (through, next(order), other))
    return distance, before


def path(before, node):
    while node in before:
        yield before[node], node
        node = before[node]
