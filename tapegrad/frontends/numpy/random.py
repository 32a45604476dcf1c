"""NumPy's random numbers: drawn while tracing, and drawn again by each replay.

A Generator that is passed in or captured is an input of the tape. One that the program makes is an operation, seeded
again by each replay. A distribution with traced parameters must be a location-scale family: the recorded draw is a
standard one, and the result is computed from it (the reparametrisation of Kingma and Welling 2014).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH, constructs, means
from tapegrad.tape.tape import Call
from tapegrad.trace.interposition import WRAPPED, GlobalGenerator, guard_state
from tapegrad.trace.plain_arguments import CALLED, loses, taken
from tapegrad.trace.proxy import CLASSES, Proxy
from tapegrad.trace.random_state import SHARED, SOURCES, WATCHED
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import leaves_of

_GLOBAL = np.random.mtrand._rand  # type: ignore[attr-defined]  # the generator of np.random.rand and its kin

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
    at = _OUT.get(method, len(args))
    if kwargs.get("out") is not None or (len(args) > at and args[at] is not None):
        return _into(tracer, source, method, args, kwargs, at)
    if method == "shuffle" and not isinstance(args[0] if args else kwargs.get("x"), Traced):
        return _shuffled(source, args, kwargs)
    traced = any(isinstance(leaf, Traced) for leaf in leaves_of((args, kwargs)))
    if method == "choice" and traced:
        return _chosen(tracer, source, *args, **kwargs)
    if method in ("permutation", "permuted", "shuffle") and traced:
        return _arranged(tracer, source, method, *args, **kwargs)
    if not traced:
        return tracer.record(ops.draw, (source, *args), {"method": method, **kwargs})
    if method not in _LOCATION_SCALE:
        if method in ("integers", "random", "standard_normal", "bytes", "randint", "rand", "randn", "random_sample",
                      "standard_exponential"):
            fixed = {key: static(value) for key, value in kwargs.items()}
            return tracer.record(ops.draw, (source, *map(static, args)), {"method": method, **fixed})
        args = tuple(taken(x) if loses(x) else x for x in args)  # counts, as in `binomial(n, p)`, have no gradient
        kwargs = {name: taken(x) if loses(x) else x for name, x in kwargs.items()}
        if any(map(loses, leaves_of((args, kwargs)))):
            raise _unknown(method)
        return tracer.record(ops.draw, (source, *args), {"method": method, **kwargs})
    names, combine = _LOCATION_SCALE[method]
    given = dict(zip([*(name for name, _ in names), "size"], args)) | kwargs
    parameters = [as_array(given.get(name, default)) for name, default in names]
    size = given.get("size")
    shape = np.broadcast_shapes(*map(shape_of, parameters)) or None if size is None else static(size)
    standard = tracer.record(ops.draw, (source,), {"method": method, **({} if shape is None else {"size": shape})})
    return combine(standard, *parameters)


def _unknown(method: str) -> UnknownFunction:
    return UnknownFunction(f"a draw from {method} with a traced parameter has no derivative in tapegrad",
                           user_location(),
                           "compute it from a standard draw, or draw with tg.value(parameter)")


# the positions of the argument `out`
_OUT = {"random": 2, "standard_normal": 2, "standard_exponential": 3, "standard_gamma": 3}


def _into(tracer: Any, source: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], at: int) -> Any:
    """Draw as many numbers as `out` holds, and write them into it."""
    out = args[at] if len(args) > at else kwargs["out"]
    args, others = args[:at], {key: value for key, value in kwargs.items() if key != "out"}
    first = 1 if method == "standard_gamma" else 0  # the position of the argument `size`
    if method in _OUT and (args[first] if len(args) > first else others.get("size")) is None:
        args, others = (*args[:first], shape_of(out),
                        *args[first + 1:]), {key: value for key, value in others.items() if key != "size"}
    return DISPATCH["out"](out, drawn(tracer, source, method, args, others), getattr(plain(source), method),
                          (args, kwargs))


def _shuffled(source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Shuffle a list or an untraced array. Its elements are on no tape, so no replay can repeat the shuffle; if the
    program made the generator, the permutation is recorded and guarded instead.
    """
    if not isinstance(getattr(source, "_op", None), Call):
        plain(source).shuffle(*args, **kwargs)
        return
    given = dict(zip(("x", "axis"), args)) | kwargs
    x = np.swapaxes(given["x"], 0, given["axis"]) if given.get("axis") else given["x"]
    # shuffle makes the same draws as a permutation of this length
    x[:] = [x[i] for i in static(source._tracer.record(ops.draw, (source, len(x)), {"method": "permutation"}))]


def _arranged(tracer: Any, source: Any, method: str, x: Any, *args: Any, axis: int = 0, **kwargs: Any) -> Any:
    """Record a permutation of a traced array: the positions are drawn, the elements are taken."""
    x = as_array(x)
    if not shape_of(x):  # a number: its range is permuted
        return tracer.record(ops.draw, (source, static(x), *map(static, args)),
                             {"method": method, **{k: static(v) for k, v in kwargs.items()}})
    axis = static(axis)
    if method == "permuted" or args or kwargs:
        raise UnknownFunction(f"{method} of a traced array with these arguments is not supported", user_location(),
                              "x[rng.permutation(len(x))]")
    y = ops.take(x, tracer.record(ops.draw, (source, shape_of(x)[axis]), {"method": "permutation"}), axis=axis)
    if method != "shuffle":
        return y
    x[...] = y
    return None


def _chosen(tracer: Any, source: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, axis: Any = 0,
            **kwargs: Any) -> Any:
    """Record a choice of elements: the positions are drawn, with probabilities `p` that need no gradient."""
    if any(map(loses, leaves_of(p))):
        raise _unknown("choice")
    x, axis = as_array(a), static(axis)
    given = {"size": size, "replace": replace, "p": None if p is None else as_array(p)}
    where = tracer.record(ops.draw, (source, shape_of(x)[axis] if shape_of(x) else static(x),
                                     *[part if key == "p" else static(part) for key, part in given.items()]),
                          {"method": "choice", **{key: static(part) for key, part in kwargs.items()}})
    return ops.take(x, where, axis=axis) if shape_of(x) else where


def _method(name: str) -> Callable[..., Any]:
    def method(source: Any, *args: Any, **kwargs: Any) -> Any:
        return drawn(source._tracer, source, name, args, kwargs)
    method.fills = True  # type: ignore[attr-defined]
    return method


def _function(name: str) -> Callable[..., Any]:
    return lambda tracer, fn, *args, **kwargs: drawn(tracer, _GLOBAL, name, args, kwargs)


for _cls in (np.random.Generator, np.random.RandomState):
    for _name in dir(_cls):
        if (not _name.startswith("_") and callable(getattr(_cls, _name))
            and _name not in ("spawn", "get_state", "set_state")):
            means(getattr(_cls, _name))(_method(_name))
for _name, _fn in vars(np.random).items():
    if getattr(_fn, "__self__", None) is _GLOBAL and _name not in ("get_state", "set_state"):
        constructs(_fn)(_function(_fn.__name__))


@constructs(np.random.seed)
def seed(tracer: Any, fn: Callable[..., Any], seed: Any = None) -> None:
    tracer.record(ops.draw, (_GLOBAL, static(seed)), {"method": "seed"})


@constructs(np.random.get_state, np.random.get_bit_generator)  # type: ignore[attr-defined]
def state(tracer: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    guard_state()
    return fn(*args, **kwargs)


@constructs(np.random.default_rng)
def generator(tracer: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    for given in (*args, *kwargs.values()):
        if isinstance(plain(given), np.random.Generator):  # default_rng returns a Generator itself
            return given
    return tracer.record(ops.default_rng, tuple(map(static, args)), {"make": fn, **kwargs})


def to_random_state(seed: Any = None) -> Any:
    """Return a `RandomState`; in a trace an operation that makes one, whose draws are recorded."""
    if not running.tracers or isinstance(seed, np.random.BitGenerator):
        return np.random.RandomState(seed)
    return generator(running.tracers[-1], np.random.RandomState, seed)


CALLED[np.random.RandomState] = to_random_state
DISPATCH[np.random.RandomState] = generator
for _cls in (np.random.Generator, np.random.RandomState):
    WRAPPED[_cls], CLASSES[_cls] = GlobalGenerator, Proxy
SOURCES.extend((np.random.Generator, np.random.RandomState, random.Random))
WATCHED.extend((*SOURCES, np.random.BitGenerator, np.random.SeedSequence))
SHARED.update({"np.random": _GLOBAL, "random": random._inst})  # type: ignore[attr-defined]
