"""NumPy's random numbers: drawn while tracing, and drawn afresh by a replay.

A Generator that is passed in or captured is an input of the tape. One made by the program is an operation, seeded again by
each replay. Where the parameters of a distribution are traced, it must be one of location and scale: the draw is standard, and
the gradient goes through what is computed from it (the reparametrisation of Kingma and Welling 2014).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static
from tapegrad.rules import Traced, constructs, means
from tapegrad.tangent import shape_of
from tapegrad.tree import leaves_of

_GLOBAL = np.random.mtrand._rand  # type: ignore[attr-defined]  # what np.random.rand and its kin draw from

# Parameters with their defaults, and the value from a standard draw u.
_LOCATION_SCALE: dict[str, tuple[tuple[tuple[str, float], ...], Callable[..., Any]]] = {
    "normal": ((("loc", 0.0), ("scale", 1.0)), lambda u, loc, scale: loc + scale * u),
    "laplace": ((("loc", 0.0), ("scale", 1.0)), lambda u, loc, scale: loc + scale * u),
    "logistic": ((("loc", 0.0), ("scale", 1.0)), lambda u, loc, scale: loc + scale * u),
    "gumbel": ((("loc", 0.0), ("scale", 1.0)), lambda u, loc, scale: loc + scale * u),
    "uniform": ((("low", 0.0), ("high", 1.0)), lambda u, low, high: low + (high - low) * u),
    "exponential": ((("scale", 1.0),), lambda u, scale: scale * u),
    "rayleigh": ((("scale", 1.0),), lambda u, scale: scale * u),
    "lognormal": ((("mean", 0.0), ("sigma", 1.0)), lambda u, mean, sigma: ops.exp(mean + sigma * ops.log(u))),
}


def drawn(tracer: Any, source: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a draw by a method of a generator."""
    traced = any(isinstance(leaf, Traced) for leaf in leaves_of((args, kwargs)))
    if method in ("permutation", "permuted", "shuffle", "choice") and traced:
        return _arranged(tracer, source, method, *args, **kwargs)
    if not traced:
        return tracer.record(ops.draw, (source, *args), {"method": method, **kwargs})
    if method not in _LOCATION_SCALE:
        if method in ("integers", "random", "standard_normal", "bytes", "randint", "rand", "randn", "random_sample", "standard_exponential"):
            plain = {key: static(value) for key, value in kwargs.items()}
            return tracer.record(ops.draw, (source, *map(static, args)), {"method": method, **plain})
        raise UnknownFunction(f"{method}, drawn with a traced parameter, has no known derivative", user_location(),
                              "compute it from a standard draw, or draw with tg.value(parameter)")
    names, combine = _LOCATION_SCALE[method]
    given = dict(zip([*(name for name, _ in names), "size"], args)) | kwargs
    parameters = [as_array(given.get(name, default)) for name, default in names]
    size = given.get("size")
    shape = np.broadcast_shapes(*map(shape_of, parameters)) or None if size is None else static(size)
    standard = tracer.record(ops.draw, (source,), {"method": method, **({} if shape is None else {"size": shape})})
    return combine(standard, *parameters)


def _arranged(tracer: Any, source: Any, method: str, x: Any, *args: Any, axis: int = 0, **kwargs: Any) -> Any:
    """Record a draw of elements of a traced array, by the positions that are drawn."""
    x = as_array(x)
    if not shape_of(x):  # a number: its range is drawn from
        return tracer.record(ops.draw, (source, static(x), *map(static, args)), {"method": method, **{k: static(v) for k, v in kwargs.items()}})
    axis = static(axis)
    n = shape_of(x)[axis]
    if method == "choice":
        where = tracer.record(ops.draw, (source, n, *map(static, args)), {"method": "choice", **{k: static(v) for k, v in kwargs.items()}})
        return ops.take(x, where, axis=axis)
    if method == "permuted" or args or kwargs:
        raise UnknownFunction(f"{method} of a traced array with these arguments is not known", user_location(), "x[rng.permutation(len(x))]")
    y = ops.take(x, tracer.record(ops.draw, (source, n), {"method": "permutation"}), axis=axis)
    if method != "shuffle":
        return y
    x[...] = y
    return None


def _method(name: str) -> Callable[..., Any]:
    return lambda source, *args, **kwargs: drawn(source._tracer, source, name, args, kwargs)


def _function(name: str) -> Callable[..., Any]:
    return lambda tracer, fn, *args, **kwargs: drawn(tracer, _GLOBAL, name, args, kwargs)


for _cls in (np.random.Generator, np.random.RandomState):
    for _name in dir(_cls):
        if not _name.startswith("_") and callable(getattr(_cls, _name)) and _name not in ("spawn", "get_state", "set_state"):
            means(getattr(_cls, _name))(_method(_name))
for _name, _fn in vars(np.random).items():
    if getattr(_fn, "__self__", None) is _GLOBAL and _name not in ("get_state", "set_state"):
        constructs(_fn)(_function(_fn.__name__))


@constructs(np.random.seed)
def seed(tracer: Any, fn: Any, seed: Any = None) -> None:
    tracer.record(ops.draw, (_GLOBAL, static(seed)), {"method": "seed"})


@constructs(np.random.default_rng)
def generator(tracer: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
    return tracer.record(ops.default_rng, tuple(map(static, args)), {"make": fn, **kwargs})
