"""scipy.spatial.distance: distances between vectors along the last axis, and between all pairs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.spatial.distance as sd

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static, value_by
from tapegrad.frontends.scipy.python_code import number, run_with
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import holds_traced
from tapegrad.rules.registry import means, register


def _weighted(terms: Any, w: Array) -> Any:
    return np.sum(terms if w is None else as_array(w) * terms, axis=-1)


def minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """Return a norm of the difference; the weights multiply the powers."""
    d = u - v
    if p == np.inf:
        return chebyshev(u, v, w)
    if p <= 0:
        raise ValueError("p must be greater than 0")
    return np.linalg.norm(d if w is None else as_array(w) ** (1 / p) * d, ord=p, axis=-1)


def euclidean(u: Any, v: Any, w: Any = None) -> Any:
    return minkowski(u, v, 2, w)


def chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    d = np.abs(u - v)
    return np.max(d if w is None else np.where(as_array(w) > 0, d, 0.0), axis=-1)


def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    return _weighted(np.abs(u - v) ** 2, w)


def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return _weighted(np.abs(u - v), w)


def canberra(u: Any, v: Any, w: Any = None) -> Any:
    size = np.abs(u) + np.abs(v)
    none = size == 0
    return _weighted(np.where(none, 0.0, np.abs(u - v) / np.where(none, 1.0, size)), w)


def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    return _weighted(np.abs(u - v), w) / _weighted(np.abs(u + v), w)


def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """Return 1 minus the cosine of the angle between two vectors, after subtracting their means."""
    if w is not None:
        w = as_array(w) / np.sum(w)
    if centered:
        count = 1.0 / shape_of(u)[-1] if w is None else None
        u = u - (np.sum(u, axis=-1, keepdims=True) * count if w is None else np.sum(u * w, axis=-1, keepdims=True))
        v = v - (np.sum(v, axis=-1, keepdims=True) * count if w is None else np.sum(v * w, axis=-1, keepdims=True))
    return np.clip(1.0 - _weighted(u * v, w) / np.sqrt(_weighted(u * u, w) * _weighted(v * v, w)), 0.0, 2.0)


def cosine(u: Any, v: Any, w: Any = None) -> Any:
    return correlation(u, v, w, centered=False)


def seuclidean(u: Array, v: Array, V: Any) -> Any:
    return np.linalg.norm((u - v) / np.sqrt(as_array(V)), axis=-1)


def mahalanobis(u: Array, v: Array, VI: Any) -> Any:
    d = u - v
    return np.sqrt(np.sum((d @ as_array(VI)) * d, axis=-1))


def jensenshannon(p: Any, q: Any, base: Any = None) -> Any:
    """Return the square root of the mean of two relative entropies (Endres and Schindelin, IEEE Transactions on
    Information Theory 49, 2003).
    """
    p, q = p / np.sum(p, axis=-1, keepdims=True), q / np.sum(q, axis=-1, keepdims=True)
    m = (p + q) / 2.0
    total = np.sum(_entropies(p, m), axis=-1) + np.sum(_entropies(q, m), axis=-1)
    return np.sqrt(total / 2.0 / (1.0 if base is None else np.log(base)))


def _entropies(p: Array, m: Array) -> Any:
    there = p > 0
    return np.where(there, p * np.log(np.where(there, p, 1.0) / np.where(there, m, 1.0)), 0.0)


METRICS: dict[str, Callable[..., Any]] = {
    "euclidean": euclidean, "minkowski": minkowski, "chebyshev": chebyshev, "sqeuclidean": sqeuclidean,
    "cityblock": cityblock,
    "canberra": canberra, "braycurtis": braycurtis, "correlation": correlation, "cosine": cosine,
    "seuclidean": seuclidean,
    "mahalanobis": mahalanobis, "jensenshannon": jensenshannon,
}
_OTHER = {"euclid": "euclidean", "eu": "euclidean", "e": "euclidean", "l2": "euclidean", "mi": "minkowski",
          "m": "minkowski", "pnorm": "minkowski",
          "chebychev": "chebyshev", "cheby": "chebyshev", "cheb": "chebyshev", "ch": "chebyshev",
          "sqeuclid": "sqeuclidean", "sqe": "sqeuclidean",
          "cblock": "cityblock", "cb": "cityblock", "c": "cityblock", "manhattan": "cityblock", "l1": "cityblock",
          "co": "correlation",
          "cos": "cosine", "se": "seuclidean", "s": "seuclidean", "mahal": "mahalanobis", "mah": "mahalanobis",
          "js": "jensenshannon"}


def _vector(x: Array) -> Any:
    x = as_array(x)
    if len(shape_of(x)) != 1:
        raise ValueError("Input vector should be 1-D.")
    return x


def _of_two(name: str) -> Callable[..., Any]:
    metric, parameters = METRICS[name], list(inspect.signature(getattr(sd, name)).parameters)[2:]

    def distance(u: Array, v: Array, *args: Any, **kwargs: Any) -> Any:
        u, v = _vector(u), _vector(v)
        kwargs.update(zip(parameters, args))
        return _exact(f"scipy.spatial.distance.{name}", metric(u, v, **kwargs), u, v, **kwargs)
    return distance


def _exact(function: str, y: Any, *args: Any, **kwargs: Any) -> Any:
    """Return distances with SciPy's value; if a parameter is traced, with the value of the formula."""
    known = {key: value for key, value in kwargs.items() if value is not None}
    return y if holds_traced(list(known.values())) else value_by(function, y, *args, **known)


for _name in METRICS:
    if _name != "jensenshannon":
        register(getattr(sd, _name), _of_two(_name))


@means(sd.jensenshannon)
def jensenshannon_of_arrays(p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    axis = static(axis)
    y = jensenshannon(np.moveaxis(as_array(p), axis, -1), np.moveaxis(as_array(q), axis, -1), base)
    return _exact("scipy.spatial.distance.jensenshannon", np.expand_dims(y, axis) if keepdims else y, p, q, base=base,
                  axis=axis, keepdims=keepdims)


def _metric(metric: Any, every: Callable[[], Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Return the metric of a name, with default parameters computed from `every()`, all vectors; a user's function is
    called for each pair.
    """
    if callable(metric):
        return lambda u, v: np.stack([metric(a, b, **kwargs) for a, b in zip(u, v)])
    name = _OTHER.get(metric.lower(), metric.lower())
    if name not in METRICS:
        raise UnknownFunction(f"the distance {metric!r} is not supported", user_location(),
                              f"one of {', '.join(METRICS)}, or a function of two vectors")
    if name == "seuclidean" and kwargs.get("V") is None:
        kwargs = {**kwargs, "V": np.var(every(), axis=0, ddof=1)}
    if name == "mahalanobis" and kwargs.get("VI") is None:
        kwargs = {**kwargs, "VI": np.linalg.inv(np.atleast_2d(np.cov(every().T))).T}
    return functools.partial(METRICS[name], **kwargs)


@means(sd.cdist)
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Array | None = None, **kwargs: Any) -> Any:
    a, b = as_array(XA), as_array(XB)
    if len(shape_of(a)) != 2 or len(shape_of(b)) != 2 or shape_of(a)[1] != shape_of(b)[1]:
        sd.cdist(np.zeros(shape_of(a)), np.zeros(shape_of(b)))  # ValueError, in SciPy's words
    _no_out(out)
    distance = _metric(metric, lambda: np.concatenate([a, b]), kwargs)
    if callable(metric):
        m, n = shape_of(a)[0], shape_of(b)[0]
        return np.reshape(distance(np.repeat(a, n, axis=0), np.tile(b, (m, 1))), (m, n))
    return _exact("scipy.spatial.distance.cdist", distance(a[:, None, :], b[None, :, :]), a, b, metric=metric, **kwargs)


@means(sd.pdist)
def pdist(X: Array, metric: Any = "euclidean", *, out: Array | None = None, **kwargs: Any) -> Any:
    x = as_array(X)
    if len(shape_of(x)) != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    _no_out(out)
    first, second = np.triu_indices(shape_of(x)[0], 1)
    y = _metric(metric, lambda: x, kwargs)(x[first], x[second])
    return y if callable(metric) else _exact("scipy.spatial.distance.pdist", y, x, metric=metric, **kwargs)


def _no_out(out: Array | None) -> None:
    if out is not None:
        raise UnknownFunction("distances with out= are not supported", user_location(), "y[...] = the distances")


@means(sd.squareform)
def squareform(X: Array, force: str = "no", checks: bool = True) -> Any:
    x = as_array(X)
    shape = shape_of(x)
    if (force.lower() == "tomatrix" and len(shape) != 1) or (force.lower() == "tovector" and len(shape) != 2):
        raise ValueError(f"Forcing {force!r} but input X is not "
                         f"{'a distance vector' if len(shape) != 1 else 'a distance matrix'}.")
    if len(shape) == 2:
        if checks and not (np.array_equal(x, x.T) and np.all(np.diagonal(x) == 0)):
            raise ValueError("Distance matrix 'X' must be symmetric, and zero on its diagonal.")
        return x[np.triu_indices(shape[0], 1)]
    n = int(np.ceil(np.sqrt(2 * shape[0]))) if shape[0] else 1
    if n * (n - 1) != 2 * shape[0]:
        raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= "
                         "2.")
    places = np.zeros((n, n), dtype=np.intp)
    places[np.triu_indices(n, 1)] = np.arange(1, shape[0] + 1)
    return np.concatenate([np.zeros(1), x])[places + places.T]


# -- SciPy's Python code: distances of boolean vectors, and between sets of points


def _hausdorff(u: Any, v: Any, rng: Any) -> tuple[Any, int, int]:
    apart = sd.cdist(u, v)
    nearest = np.min(apart, axis=1)
    i = static(np.argmax(nearest))
    return ops.item(nearest, i), i, static(np.argmin(apart[i]))


run_with(sd.directed_hausdorff, _hausdorff=SimpleNamespace(directed_hausdorff=_hausdorff))
run_with(sd.dice, sd.rogerstanimoto, sd.russellrao, sd.sokalsneath, sd.yule, float=number)
