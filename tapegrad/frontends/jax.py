"""jax: JAX functions as operations of a tape, where a program calls them and by `from_jax`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, conform
from tapegrad.numbers.formatting import name_of, plain
from tapegrad.numbers.lazy import jax, needed
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.batching import Members
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import StandIn, refused
from tapegrad.rules.user import frule, primitive, rrule
from tapegrad.trace.call_arguments import ARRAYS
from tapegrad.trace.interposition import MODULES, WRAPPED, original, stand_in, standing_for
from tapegrad.trace.observers import asked
from tapegrad.trace.plain_arguments import taken
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import flatten


def doubles() -> Any:
    """Return a context in which JAX computes in double precision, as NumPy does."""
    try:
        return jax.enable_x64(True)
    except AttributeError:  # before JAX 0.8
        return needed("jax.experimental").enable_x64()


def from_jax(fn: Callable[..., Any]) -> Op:
    """Return a JAX function, jitted or not, as one operation: `jax.vjp` is its pullback, `jax.jvp` its tangent and
    `jax.vmap` its batch rule.

    The operation takes arrays and numbers (integers have no gradient, as in JAX), computes in double precision and
    returns a NumPy array or a tuple of them. A program may also call `fn` itself: that call becomes one operation, in
    the precision that JAX is set to.

    >>> import numpy as np, jax.numpy as jnp, tapegrad as tg
    >>> wave = from_jax(lambda x: jnp.sin(3.0 * x))
    >>> tg.gradient(lambda x: np.sum(wave(x)), np.zeros(2))
    (array([3., 3.]),)
    """
    return _from_jax(fn)


@functools.cache
def _from_jax(fn: Callable[..., Any]) -> Op:
    return _op(fn, _in_doubles)


Way = Callable[[Callable[..., Any]], Callable[..., Any]]
"""How a function and the functions that JAX derives from it are run: `jax.jit`, `_in_doubles` or `_eagerly`."""


def _in_doubles(fn: Callable[..., Any]) -> Callable[..., Any]:
    compiled = jax.jit(fn)

    def run(*args: Any) -> Any:
        with doubles():
            return compiled(*args)
    return run


def _eagerly(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def _op(fn: Callable[..., Any], way: Way, own: Way | None = None) -> Op:
    """Return the op of a function of arrays and numbers. `way` runs its derivatives; `own`, if given, its value."""
    compute = (own or way)(fn)

    def run(*args: Any) -> Any:
        return jax.tree.map(lambda y: np.asarray(y) if isinstance(y, jax.Array) else y, compute(*args))
    run.__name__ = getattr(fn, "__name__", "function of JAX")
    op = primitive(run)

    @rrule(op)
    def _(*args: Any) -> Any:
        y = op(*args)
        leaves: list[Any] = []
        into = flatten(y, "", leaves, [], shared=False)
        wrt = tuple([i for i, x in enumerate(args) if _moves(plain(x))])

        def pullback(dy: Any) -> tuple[Any, ...]:
            dys = [conform(0.0 if part is None else part, leaf) for part, leaf in zip(into.unmirror(dy), leaves)]
            found = dict(zip(wrt, _pulled(fn, way, len(args), wrt)(*args, *dys)))
            return tuple([found.get(i, ZERO) for i in range(len(args))])
        return y, pullback

    @frule(op)
    def _(*args: Any) -> Any:
        def push(*ts: Any) -> Any:
            moving = tuple([i for i, t in enumerate(ts) if t is not None and _moves(plain(args[i]))])
            return _pushed(fn, way, len(args), moving)(*args, *[conform(ts[i], args[i]) for i in moving])
        return op(*args), push

    def batch(members: Members, *args: Any) -> Any:
        return _mapped(fn, way, tuple([0 if flag else None for flag in members.batched]))(*args)
    op.batch = batch
    return op


def _moves(x: Any) -> bool:
    """True for a number that has a cotangent in JAX: neither an integer nor a bool."""
    return np.dtype(getattr(x, "dtype", type(x))).kind not in "biu"


@functools.cache
def _mapped(fn: Callable[..., Any], way: Way, in_axes: tuple[int | None, ...]) -> Op:
    return _op(jax.vmap(fn, in_axes), way)


@functools.cache
def _pulled(fn: Callable[..., Any], way: Way, count: int, wrt: tuple[int, ...]) -> Op:
    """Return the op from the arguments and the cotangents of the value's leaves to the cotangents at `wrt`."""
    def pulled(*given: Any) -> tuple[Any, ...]:
        y, pull = jax.vjp(fn, *given[:count])
        ys, into = jax.tree.flatten(y)
        dxs = pull(into.unflatten([dy if _moves(part) else np.zeros(part.shape, jax.dtypes.float0)
                                   for part, dy in zip(ys, given[count:])]))
        return tuple([dxs[i] for i in wrt])
    pulled.__name__ = f"{getattr(fn, '__name__', 'function')}_pullback"
    return _op(pulled, way)


@functools.cache
def _pushed(fn: Callable[..., Any], way: Way, count: int, moving: tuple[int, ...]) -> Op:
    """Return the op that maps the arguments and the tangents of those at `moving` to the tangent of the value."""
    def pushed(*given: Any) -> Any:
        args, ts = list(given[:count]), given[count:]

        def moved(*some: Any) -> Any:
            return fn(*[dict(zip(moving, some)).get(i, x) for i, x in enumerate(args)])
        y, t = jax.jvp(moved, tuple([args[i] for i in moving]), tuple(ts))
        return jax.tree.map(lambda t, y: t if _moves(y) else jax.numpy.zeros_like(y), t, y)
    pushed.__name__ = f"{getattr(fn, '__name__', 'function')}_pushforward"
    return _op(pushed, way)


# -- JAX functions that a program calls

_THROUGH = ("jax._src.tree", "jax._src.tree_util", "jax.tree_util")  # tree functions: they call the user's functions
KEPT = 4096


@functools.lru_cache(KEPT)
def interposed(fn: Any) -> StandIn:
    """Return the stand-in for a JAX function while a trace runs: a call with traced values is one operation. A function
    that a JAX transformation returns gets a stand-in too.
    """
    def call(*args: Any, **kwargs: Any) -> Any:
        if not running.tracers:
            return fn(*map(original, args), **kwargs)
        asked(_precision, "jax_enable_x64")
        # the C registry: jax.tree.flatten is Python code, whose calls would be traced as the program's
        leaves, into = jax.tree_util.default_registry.flatten((args, kwargs))
        traced = [x for x in leaves if isinstance(x, Traced)]
        if not traced:
            return stand_in(fn(*map(original, args), **kwargs))
        leaves = [taken(x) if isinstance(x, Traced) and type(plain(x)) in (int, bool)
                  else np.asarray(x) if isinstance(x, jax.Array) else original(x) for x in leaves]
        if any(is_tensor(plain(x)) for x in traced):
            raise refused(f"{name_of(fn)} of a tensor", "JAX does not accept tensors",
                          "pass x.numpy(), and convert the result with torch.from_numpy")
        given = tuple([None if isinstance(x, _NUMBERS) else (type(x), x) for x in leaves])
        try:
            op = _call(fn, into, given)
        except TypeError as err:
            raise refused(f"this call of {name_of(fn)}", str(err),
                          "tg.from_jax of a function that takes the arrays") from err
        y = op(*[x for x, at in zip(leaves, given) if at is None])
        found, into = jax.tree_util.default_registry.flatten(y)
        if all(isinstance(plain(part), np.ndarray) for part in found):
            return y
        for x in traced:  # the result is a shape or a dtype: it holds for these arguments only
            while isinstance(x, Traced):
                x._tracer.specialise(x)
                x = x._val
        return into.unflatten([part if isinstance(plain(part), np.ndarray) else plain(part) for part in found])
    made = standing_for(fn, call)
    if hasattr(type(fn), "__get__"):  # in a class it is a method
        type(made).__get__ = lambda self, x, cls=None: self if x is None else MethodType(self, x)  # type: ignore
    return made


def _precision() -> bool:
    """Return whether JAX computes in double precision."""
    return bool(jax.config.jax_enable_x64)


# arguments that are inputs of the op; integers may be axes or shapes, and are part of its cache key
_NUMBERS = (Traced, float, complex, np.inexact, np.ndarray)


@functools.lru_cache(KEPT)
def _call(fn: Any, into: Any, given: tuple[Any, ...]) -> Op:
    """Return the op of a call, whose inputs are the arguments at which `given` has None; `given` holds the others."""
    def call(*numbers: Any) -> Any:
        left = iter(numbers)
        args, kwargs = into.unflatten([next(left) if at is None else at[1] for at in given])
        return fn(*args, **kwargs)
    call.__name__ = name_of(fn)
    # A user's function may read variables that change; jax.jit would keep the values from when it compiled.
    pure = (str(fn.__module__).startswith("jax.") or type(fn).__module__.startswith("jaxlib.")) and not any(
        isinstance(at[1], FunctionType) for at in given if at is not None)
    return _op(call, jax.jit if pure else _eagerly, _eagerly)


def _function(fn: FunctionType) -> Any:
    """Return the stand-in for a JAX function written in Python (it may wrap the program's); any other one itself."""
    module = str(fn.__globals__.get("__name__"))
    return interposed(fn) if module.startswith("jax.") and module not in _THROUGH else fn


def added(name: str) -> None:
    """Interpose the functions of an imported JAX module, and those that `jax.jit` and its kin return."""
    if name == "jax":
        kinds = (type(jax.jit(len)), jax.numpy.ufunc, jax.custom_jvp, jax.custom_vjp)
        WRAPPED.update({**dict.fromkeys(kinds, interposed), FunctionType: _function})
        ARRAYS.add(type(jax.numpy.zeros(())))
    module = importlib.import_module(name)
    own = [part for part in vars(module).values() if type(part) is ModuleType and part.__name__.startswith(f"{name}.")]
    for part in (module, *(own if name != "jax" else ())):
        kind = type(part)
        get = kind.__getattribute__
        MODULES.append((part, kind, type(kind.__name__, (kind,), {
            "__getattribute__": lambda self, name, get=get: stand_in(get(self, name))})))
