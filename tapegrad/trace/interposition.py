"""interposition: stand-ins for functions that no protocol reaches: `math.*`, constructors, functions with a rule."""

from __future__ import annotations

import cmath
import functools
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinMethodType, CodeType, FunctionType, ModuleType, WrapperDescriptorType
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import INTERNAL, UnknownFunction, user_location
from tapegrad.numbers.formatting import plain as behind
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.systems import OWNERS, system
from tapegrad.numbers.tensors import ORDINARY, is_tensor
from tapegrad.rules.op import PROXIES, Op, Traced, holds_traced, tracer_of
from tapegrad.rules.registry import COMPILED, CONSTRUCTORS, DISPATCH, GIVEN, STAND_IN, StandIn
from tapegrad.trace.call_arguments import shown_array
from tapegrad.trace.concretize import translated_error
from tapegrad.trace.constructor_calls import maker
from tapegrad.trace.dispatch import apply, plain
from tapegrad.trace.identity import COMPARISONS
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.trace.proxy import as_bool, record_unary
from tapegrad.tree.copies import Attribute, another, code_of, running
from tapegrad.tree.flatten import leaves_of

# They consume an iterable in C: stand-ins make a list of it first.
ONCE = [getattr(math, name) for name in ("fsum", "sumprod") if hasattr(math, name)]
# They copy the process with the traced values in it.
FORKS = {getattr(os, name): name for name in ("fork", "forkpty") if hasattr(os, name)}


def as_float(x: Any) -> Any:
    """Return a traced number of another number system as the float that a math function converts it to."""
    known = system(x) if isinstance(x, Traced) else None
    return x if known is None else ops.convert(x, to=complex if known.is_complex else float)


def as_real(x: Any) -> Any:
    """Return a traced argument of a math function as the real number that math converts it to: the real part of NumPy's
    complex numbers, with a warning, and the element of an array. An array itself would make a replay call NumPy's
    function, which raises no error.
    """
    x = as_float(x)
    val = behind(x) if isinstance(x, Traced) else None
    if isinstance(val, (np.ndarray, np.generic)) and (val.ndim or val.dtype.kind == "c"):
        float(val)  # raises or warns
        x = ops.real(x) if val.dtype.kind == "c" else x
    return ops.item(x) if isinstance(val, np.ndarray) else x


def as_python(x: Any) -> Any:
    """Return a traced argument of a math function as a Python number: an op without a math function would compute in
    NumPy's precision.
    """
    x = as_real(x)
    return ops.item(x) if isinstance(x, Traced) and isinstance(behind(x), np.generic) else x


def _listed(x: Any) -> Any:
    """Return a generator or other iterable as a list; sequences, arrays and other objects unchanged."""
    return list(x) if isinstance(x, Iterable) and not isinstance(x, (Sequence, np.ndarray, Traced)) else x


def _shim(fn: Callable[..., Any], meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for `fn` that differs only if an argument is traced."""
    once, argument = (fn in ONCE, as_float if fn.__module__ != "math" else as_real
                      if getattr(meaning, "scalar", None) is fn else as_python)

    def shim(*args: Any, **kwargs: Any) -> Any:
        if once:
            args = tuple(map(_listed, args))
        for arg in args:
            if hasattr(type(arg), "_viewed_as"):
                return shim(*[x._number() if hasattr(type(x), "_viewed_as") else x for x in args], **kwargs)
            if isinstance(arg, Traced):
                try:
                    # they convert it to a number, as float(x) does
                    if is_tensor(arg) and fn.__module__ in ("math", "cmath"):
                        return fn(*args, **kwargs)
                    if type(meaning) is not Op:
                        return meaning(*args, **kwargs)
                    if len(args) == 1:
                        x = arg if type(arg._val) is float else argument(arg)
                        return as_bool(record_unary(x, meaning, shim), sys._getframe(1))  # type: ignore[arg-type]
                    args = tuple(map(argument, args))  # the values that math computes with
                    tracer = tracer_of(args)
                    y = tracer.record(meaning, args, kwargs, shim(*[plain(x, tracer) for x in args]))
                    return as_bool(y, sys._getframe(1))
                except Exception as err:
                    tracer_of(args).raised(fn, args, kwargs, err)
                    raise
            if issubclass(type(arg), (list, tuple)) and holds_traced(arg):
                try:
                    return meaning(*args, **kwargs)
                except Exception as err:
                    tracer_of(leaves_of(args)).raised(fn, args, kwargs, err)
                    raise
        try:
            return fn(*args, **kwargs)
        except TypeError as err:
            if (refusal := translated_error(err)) is not None:
                raise refusal from err
            raise
    return shim


def standing_for(fn: Callable[..., Any], called: Callable[..., Any]) -> StandIn:
    """Return a stand-in for a function that calls another one."""
    own = {"__slots__": (), "__call__": staticmethod(called), "__doc__": fn.__doc__,
           "__module__": getattr(fn, "__module__", "builtins")}
    kind: type[StandIn] = type("StandIn", (StandIn,), own)
    return kind(getattr(fn, "__wrapped__") if issubclass(type(fn), StandIn) else fn)  # noqa: B009


def _of_float(fn: Callable[..., Any], meant: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    """Return a stand-in for an operator of `float`, as `float.__pow__`, that uses the traced numbers' operator."""
    def shim(*args: Any) -> Any:
        return meant(*args[::-1] if reflected else args) if not PROXIES.isdisjoint(map(type, args)) else fn(*args)
    return shim


def _operators() -> dict[Any, StandIn]:
    """Return the stand-ins for the operators of `float`."""
    found = {}
    for name, fn in vars(float).items():
        meant = name if hasattr(operator, name) else f"__{name[3:]}"
        if type(fn) is WrapperDescriptorType and hasattr(operator, meant):
            found[fn] = standing_for(fn, _of_float(fn, getattr(operator, meant), meant != name))
    return found


def _fork(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a stand-in for a function that forks the process; it refuses to in a trace."""
    def shim() -> Any:
        if running.tracers:
            raise UnknownFunction(f"os.{name} starts another process, whose operations cannot be recorded",
                                  user_location(), "use threads; or start the process before the traced call")
        return fn()
    return shim


def stand_ins() -> list[tuple[Any, type, type]]:
    """Return (module, class, class while a trace runs) for the modules whose functions are replaced."""
    found = _stand_ins("torch" in DISPATCH)  # torch's functions have implementations once its frontend is imported
    return [*found, *MODULES] if MODULES else found


MODULES: list[tuple[Any, type, type]] = []  # of libraries: (module, class, class while a trace runs)


@functools.cache
def _stand_ins(with_torch: bool) -> list[tuple[Any, type, type]]:
    if with_torch:  # few of torch's functions use no protocol
        torch = sys.modules["torch"]
        # with lengths as separate arguments they call no protocol
        sized = (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn)
        own = (torch.from_numpy, torch.from_dlpack, *sized)
        return [*_stand_ins(False), _replacing(torch, [({fn: DISPATCH[fn] for fn in own}, _shim)])]
    register_imported()
    STAND_IN.update(_operators())
    return [_replacing(math, [(DISPATCH, _shim)]), _replacing(cmath, [(DISPATCH, _shim)]),
            _replacing(operator, [(COMPARISONS, lambda _, meant: meant)]), _replacing(os, [(FORKS, _fork)]),
            _replacing(np, [(CONSTRUCTORS, maker), (_dispatched(np), _listener)]),
            _replacing(np.random, [(CONSTRUCTORS, maker)]),
            *(_replacing(module, [(_dispatched(module), _listener)]) for module in (np.linalg, np.fft))]


def _replacing(module: Any, kinds: list[tuple[dict[Any, Any], Callable[..., Any]]]) -> tuple[Any, type, type]:
    """Return a module, its class, and a class whose properties are the stand-ins: assigning that replaces all at once.
    """
    shims: dict[str, Any] = {}
    for known, shim in kinds:
        found = {name: fn for name, fn in vars(module).items() if callable(fn) and fn.__hash__ is not None
                 and fn in known}
        made = {name: standing_for(fn, shim(fn, known[fn])) for name, fn in found.items()}
        STAND_IN.update({fn: made[name] for name, fn in found.items()})
        # looked up by name in a trace
        DISPATCH.update({made[name]: DISPATCH[fn] for name, fn in found.items() if fn in DISPATCH})
        shims |= made
    # calls no Python function
    properties = {name: property({module: made}.__getitem__) for name, made in shims.items()}
    return module, type(module), type(type(module).__name__, (type(module),), properties)


def _dispatched(module: Any) -> dict[Any, Any]:
    """Return a module's functions that have an implementation and dispatch on arguments, but not on list items."""
    return {fn: DISPATCH[fn] for fn in vars(module).values() if type(fn) is type(np.sum) and fn in DISPATCH
            and fn not in CONSTRUCTORS}


def _listener(fn: Callable[..., Any], meaning: Any) -> Callable[..., Any]:
    """Return a stand-in for a function that dispatches on arrays: it also takes lists of traced values, np.sum([a, b]).
    """
    def shim(*args: Any, **kwargs: Any) -> Any:
        tracers = running.tracers
        if tracers:
            alone = True  # no argument so far is one that NumPy would dispatch to
            for arg in args:
                kind = type(arg)
                if kind in PROXIES and alone:
                    return apply(arg._tracer, fn, args, kwargs)
                if issubclass(kind, (list, tuple)) and holds_traced(arg):
                    return apply(tracers[-1], fn, args, kwargs)
                alone = alone and kind in ORDINARY
            if kwargs and any(issubclass(type(x), (list, tuple)) and holds_traced(x) for x in kwargs.values()):
                return apply(tracers[-1], fn, args, kwargs)
            if not alone and not PROXIES.isdisjoint(map(type, shown := [*map(shown_array, args)])):
                return fn(*shown, **kwargs)
        return fn(*args, **kwargs)
    return shim


class Ufunc(StandIn):
    """Stands in for a ufunc and accepts lists of traced values, as the array of these."""

    __slots__ = ()

    def __call__(self, x: Any, /, *args: Any, **kwargs: Any) -> Any:
        kind = type(x)
        fn: Any = self.__wrapped__
        if kind in PROXIES and not kwargs and (not args or (len(args) == 1 and type(args[0]) in _DIRECT)):
            return x.__array_ufunc__(fn, "__call__", x, *args)  # what NumPy would do, a microsecond faster
        if kind in _LISTS or (args and type(args[0]) in _LISTS):
            return fn(_array(x), *map(_array, args[:fn.nin - 1]), *args[fn.nin - 1:], **kwargs)
        return fn(x, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return (getattr(self.__wrapped__, name) if name not in ("reduce", "accumulate", "reduceat")
                else _of_ufunc(self.__wrapped__, name))


@functools.cache
def _of_ufunc(ufunc: Any, name: str) -> Any:
    """Return the stand-in of a ufunc's method."""
    found = getattr(ufunc, name)
    return standing_for(found, lambda array, *args, **kwargs: found(_array(array), *args, **kwargs))


_LISTS = frozenset([list, tuple])
_DIRECT = frozenset([float, int, complex, bool, np.ndarray, np.float64])


def _array(x: Any) -> Any:
    return DISPATCH[np.asarray](x) if issubclass(type(x), (list, tuple)) and holds_traced(x) else x


class Grid:
    """Stands in for np.mgrid and np.ogrid: in a tracing thread the result is traced, so it can be written to."""

    __slots__ = ("_grid",)

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def __getitem__(self, key: Any) -> Any:
        made, tracers = self._grid[key], running.tracers
        if not tracers:
            return made
        owned = functools.partial(_owned, tracers[-1])
        return tuple(map(owned, made)) if type(made) is tuple else owned(made)


def _owned(tracer: Any, x: Any) -> Any:
    return tracer.proxy(tracer.constant(id(x), x, x), x, tracer)


@functools.cache
def numpy_module() -> ModuleType:
    """Return the module that replaces numpy in a program while a trace runs: its ufuncs take lists of traced values."""
    module = ModuleType(np.__name__, np.__doc__)
    stand_ins()
    STAND_IN.update({fn: Ufunc(fn) for fn in vars(np).values() if type(fn) is np.ufunc})
    kinds = set(map(type, STAND_IN))
    public = {name: vars(np)[name] for name in np.__all__ if name in vars(np)}
    vars(module).update({name: STAND_IN.get(x, x) if type(x) in kinds else x for name, x in public.items()})
    vars(module).update(mgrid=Grid(np.mgrid), ogrid=Grid(np.ogrid))
    vars(module)["__getattr__"] = functools.partial(getattr, np)  # looked up in numpy, since they may change
    return module


def stand_in(x: Any) -> Any:
    """Return the stand-in of `x` while a trace runs, for a reference taken before it, as in trace(math.sin, 1.0)."""
    kind = type(x)
    if kind in WRAPPED and (wrapped := WRAPPED[kind](x)) is not x:
        return wrapped
    stand_ins()
    numpy_module()
    if kind is FunctionType:
        return STAND_IN.get(x, x)
    compiled = kind.__name__ in COMPILED and kind.__hash__ is not None
    if compiled and x in GIVEN and x not in STAND_IN:
        STAND_IN[x] = standing_for(x, GIVEN[x].run if isinstance(GIVEN[x], Op) else functools.partial(_dispatch, x, x))
        return STAND_IN[x]
    if kind is BuiltinMethodType and type(x.__self__) in WRAPPED and not is_generator(x.__self__):
        return getattr(WRAPPED[type(x.__self__)](x.__self__), x.__name__)
    # objects of the program are not hashed
    return STAND_IN.get(x, x) if kind in _kinds() or compiled else x


@functools.cache
def as_named(fn: FunctionType) -> FunctionType:
    """Return a NumPy function written in Python with its module's names replaced by stand-ins, which accept traced
    values; functions of the same module that it calls are treated likewise.
    """
    def meant(x: Any) -> Any:
        if type(x) is ModuleType and x.__name__.startswith("numpy"):
            return _Module(x)
        if type(x) is FunctionType and x.__globals__ is fn.__globals__:
            return lambda *args, **kwargs: as_named(x)(*args, **kwargs)
        return stand_in(x)
    return with_names(fn, {name: meant(x) for name, x in fn.__globals__.items()})


def with_names(fn: Any, names: dict[str, Any], code: CodeType | None = None) -> FunctionType:
    """Return a library's function, or other code in its place, with some names of its module rebound."""
    return another(fn, code or code_of(fn), {**fn.__globals__, **names})


class _Module:
    """Stands for a module of NumPy in such a function."""

    __slots__ = ("_module",)

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return stand_in(getattr(self._module, name))


# by id of a replacement made for one holder, a tuple of stand-ins, say: (replacement, original)
INSTEAD: dict[int, tuple[Any, Any]] = {}


def original(x: Any) -> Any:
    """Return the original of a stand-in; other objects unchanged."""
    if id(x) in INSTEAD and INSTEAD[id(x)][0] is x:
        return INSTEAD[id(x)][1]
    if type(x) is GlobalGenerator:
        return x._generator
    if type(x) is ModuleType:
        return np if x is numpy_module() else x
    if type(x) is Attribute:
        return x.value
    return x.__wrapped__ if issubclass(type(x), StandIn) else x


@functools.cache
def _kinds() -> set[type]:
    return set(map(type, STAND_IN))


_STATES = frozenset(["get_state", "bit_generator", "_bit_generator", "__getstate__"])  # they expose a generator's state


def guard_state() -> None:
    """Invalidate replays, because the program reads the state of a random generator."""
    for tracer in running.tracers:
        tracer.guard(tracer.tape.ops[0], "recorded", ("reads the state of a random generator",
                                                      "pass the values that the program reads from it as arguments"))


class GlobalGenerator:
    """Stands in for a random generator among a module's globals: in a tracing thread its draws are recorded."""

    __slots__ = ("_generator",)

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._generator)

    def __getattr__(self, name: str) -> Any:
        tracers, generator = running.tracers, self._generator
        meaning = DISPATCH.get(getattr(type(generator), name, None))
        if name in _STATES and sys._getframe(1).f_code.co_filename not in INTERNAL:
            guard_state()
        if not tracers or meaning is None:
            return getattr(generator, name)
        tracer = tracers[-1]
        op = tracer.constant(("generator", id(generator)), generator, generator)
        return functools.partial(meaning, tracer.proxy(op, generator, tracer))


WRAPPED: dict[type, Callable[[Any], Any]] = {}
"""By class of a compiled object or function: returns its stand-in in a trace, or the object itself."""


@functools.cache
def stand_in_code(fn: FunctionType) -> tuple[CodeType, CodeType]:
    """Return the code of a function and its replacement."""
    code = code_of(fn)
    return code, trampoline(code, functools.partial(_dispatch, fn, another(fn, code)))


def trampoline(code: CodeType, target: Callable[..., Any]) -> CodeType:
    """Return code that passes its arguments to `target`, for a function with `code`'s free variables."""
    template = _template(code.co_freevars)
    return template.replace(co_consts=tuple(target if const == "target" else const for const in template.co_consts),
                            co_name=code.co_name)


@functools.cache
def _template(freevars: tuple[str, ...]) -> CodeType:
    # the names are free variables of the template, though unused: a frame whose closure does not match its code crashes
    # debuggers
    names = ", ".join(freevars)
    source = (f"def factory():\n    {' = '.join([*freevars, 'None']) if freevars else 'pass'}\n"
              f"    def trampoline(*tapegrad_args, **tapegrad_kwargs):\n        if False: ({names})\n"
              "        return (tapegrad_target := 'target')(*tapegrad_args, **tapegrad_kwargs)\n"
              "    return trampoline\n")
    namespace: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), namespace)
    made: CodeType = namespace["factory"]().__code__
    return made


def _dispatch(fn: Any, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Record a call with traced arguments as one operation if the context of its trace says so; otherwise call it."""
    # fast path: NumPy's own code calls many of these on plain arrays
    if (len(args) == 1 and not kwargs and type(args[0]) is np.ndarray and args[0].dtype.kind in "fc"
        and fn not in CONSTRUCTORS):
        return original(*args)
    tracer = tracer_of(leaves_of(([arg for arg in args if type(arg) not in OWNERS], kwargs) if OWNERS
                                 else (args, kwargs)))
    if tracer is None or not (fn in DISPATCH or tracer.ctx.is_primitive(fn)):
        if fn in CONSTRUCTORS and running.tracers:
            return CONSTRUCTORS[fn](running.tracers[-1], original, *args, **kwargs)
        return original(*args, **kwargs)
    if isinstance(DISPATCH.get(fn), Op) or tracer.ctx.is_primitive(fn):
        op: Op = tracer.ctx.op(fn)
        return tracer.record(op, *_positional(original, args, kwargs))
    return apply(tracer, fn, args, kwargs, original)


def _positional(fn: FunctionType, args: tuple[Any, ...],
                kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move keyword arguments to their positions, where variables are allowed."""
    names = fn.__code__.co_varnames[len(args): fn.__code__.co_argcount]
    rest = dict(kwargs)
    moved = []
    for name in names:
        if name not in rest:
            break
        moved.append(rest.pop(name))
    return (*args, *moved), rest
