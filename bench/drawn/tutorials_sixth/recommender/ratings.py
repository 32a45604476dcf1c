"""Ratings of films, sparse."""
from collections import defaultdict

RATINGS = {("ann", "alien"): 5, ("ann", "brazil"): 3, ("bob", "alien"): 4, ("bob", "casablanca"): 2,
           ("cid", "brazil"): 4, ("cid", "casablanca"): 5, ("dee", "alien"): 1, ("dee", "dune"): 2,
           ("ann", "dune"): 4, ("cid", "dune"): 3, ("eve", "casablanca"): 4, ("eve", "alien"): 2}
HELD = {("bob", "dune"): 4, ("dee", "casablanca"): 4, ("eve", "brazil"): 3}


def by(index):
    groups = defaultdict(list)
    for key, value in RATINGS.items():
        groups[key[index]].append((key[1 - index], value))
    return dict(groups)
