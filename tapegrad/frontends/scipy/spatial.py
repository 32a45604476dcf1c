"""scipy.spatial: nearest neighbours in a KDTree; the distances are differentiated with the neighbours fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.spatial as sc

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.numbers.cotangents import shape_of
from tapegrad.rules.registry import means, refused


@means(sc.KDTree.query)
def query(self: Any, x: Any, k: Any = 1, eps: float = 0.0, p: float = 2.0, distance_upper_bound: float = np.inf,
          workers: int = 1) -> Any:
    x, k, points = as_array(x), static(k), np.asarray(self.data)
    if eps or np.isfinite(distance_upper_bound) or np.max(k) > len(points):
        raise refused("KDTree.query with eps=, distance_upper_bound= or more neighbours than points",
                      "a neighbour that is not found has no distance", "query without these options")
    places = ops.nearest_points(points, x, k=k, p=float(p))
    apart = (x if shape_of(places) == shape_of(x)[:-1] else np.expand_dims(x, -2)) - points[places]
    return np.linalg.norm(apart, ord=p, axis=-1), places
