"""Gotoh's recursion, memoised, with soft maxima."""
from functools import lru_cache

from .scores import soft

FAR = -1e4


def align(s, t, scores):
    @lru_cache(maxsize=None)
    def best(i, j):
        if i == 0 and j == 0:
            return 0.0, FAR, FAR
        m = x = y = FAR
        if i and j:
            m = scores(s[i - 1], t[j - 1]) + soft(*best(i - 1, j - 1))
        if i:
            before = best(i - 1, j)
            x = soft(before[0] - scores.opening, before[1] - scores.extending)
        if j:
            before = best(i, j - 1)
            y = soft(before[0] - scores.opening, before[2] - scores.extending)
        return m, x, y
    return soft(*best(len(s), len(t)))
