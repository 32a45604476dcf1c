"""binomial: which states of a long loop to keep, so that its reverse sweep recomputes as little as possible.

Griewank and Walther (2000), Algorithm 799: revolve. With s states kept, the first among them, and no step taken more
than r times, a loop of C(s + r, s) steps can be reversed, and one of n steps takes r n - C(s + r, s + 1) steps forward,
besides the run of each step for its own sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb


def repetition(n: int, slots: int) -> int:
    """Return how often a step is taken at most: the least r for which C(slots + r, slots) is n or more."""
    r = 0
    while comb(slots + r, slots) < n:
        r += 1
    return r


def forward_steps(n: int, slots: int) -> int:
    """Return the least number of forward steps that reverse n steps with `slots` kept states, without the steps that
    are swept.

    >>> forward_steps(10, 3), forward_steps(100_000, 30), forward_steps(100, 100)
    (15, 447640, 99)
    """
    r = repetition(n, slots)
    return r * n - comb(slots + r, slots + 1)


def split(n: int, slots: int) -> int:
    """Return after how many of n steps to keep the next state, where `slots` can be kept, including the first."""
    r = repetition(n, slots)
    return max(comb(slots + r - 2, slots) if r > 1 else 0, n - comb(slots - 1 + r, slots - 1), 1)


def kept(n: int, slots: int) -> list[int]:
    """Return before which steps states are kept while the loop runs first, in order and beginning with 0.

    >>> kept(10, 3)
    [0, 4, 7]
    """
    places = [0]
    while slots > 1 and n - places[-1] > 1:
        places.append(places[-1] + split(n - places[-1], slots))
        slots -= 1
    return places


def schedule(n: int, slots: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the actions of the sweep, which begins with the states of `kept`: `(start, stop, keeps)` advances from the
    last kept state, at `start`. If it `keeps`, it keeps the state at `stop`; otherwise it sweeps over step `stop`, the
    last that is not swept yet.

    >>> list(schedule(4, 2))
    [(1, 3, False), (1, 2, False), (1, 1, False), (0, 0, False)]
    """
    places = kept(n, slots)
    parts = [(start, stop, slots - k) for k, (start, stop) in enumerate(zip(places, [*places[1:], n]))]
    while parts:
        start, stop, left = parts.pop()
        if left > 1 and stop - start > 1:
            middle = start + split(stop - start, left)
            yield start, middle, True
            parts += [(start, middle, left), (middle, stop, left - 1)]
        else:
            yield start, stop - 1, False
            if stop - 1 > start:
                parts.append((start, stop - 1, left))
