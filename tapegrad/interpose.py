"""Functions that no protocol reaches, replaced while a trace runs: `math.*`, and Python functions that have a rule."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

from tapegrad.proxy import plain, record_unary
from tapegrad.rules import FOREIGN, Op, Traced, tracer_of
from tapegrad.tree import leaves_of

_lock = threading.RLock()


def _shim(fn: Callable[..., Any], meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for `fn` that differs only when an argument is traced."""
    @functools.wraps(fn)
    def shim(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if isinstance(arg, Traced):
                if type(meaning) is not Op:
                    return meaning(*args, **kwargs)
                if len(args) == 1:
                    return record_unary(arg, meaning, shim(arg._val))  # type: ignore[arg-type]
                tracer = tracer_of(args)
                return tracer.record(meaning, args, kwargs, shim(*[plain(x, tracer) for x in args]))
            if (type(arg) in (list, tuple)) and any(isinstance(leaf, Traced) for leaf in leaves_of(arg)):
                return meaning(*args, **kwargs)
        return fn(*args, **kwargs)
    return shim


@functools.cache
def math_shims() -> dict[str, Callable[..., Any]]:
    """Return the stand-ins for the functions of `math` that have a meaning."""
    return {name: _shim(fn, FOREIGN[fn]) for name, fn in _MATH.items() if fn in FOREIGN}


def stand_in(fn: Any) -> Any:
    """Return what replaces `fn` while a trace runs: for a reference that was taken before, as in trace(math.sin, 1.0)."""
    name = getattr(fn, "__name__", "")
    return math_shims().get(name, fn) if _MATH.get(name) is fn else fn


_MATH = {name: fn for name, fn in vars(math).items() if callable(fn) and not name.startswith("_")}


class Interposition:
    """Counts the traces that run, and replaces when the first begins, restores when the last ends.

    Stand-ins pass through what is not traced, so that other threads never notice.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.globals: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.codes: dict[FunctionType, tuple[CodeType, int]] = {}

    def enter(self, globals_: dict[str, Any] | None, functions: Iterable[FunctionType]) -> Callable[[], None]:
        """Begin a trace of a function with these globals, and of these functions as primitives; return how to end it."""
        functions = tuple(functions)
        with _lock:
            if self.depth == 0:
                vars(math).update(math_shims())
            self.depth += 1
            replaced = imported(globals_) if globals_ is not None else {}
            if globals_ is not None:
                globals_.update({name: math_shims()[fn.__name__] for name, fn in replaced.items()})
            for fn in functions:
                self.swap(fn)

        def leave() -> None:
            with _lock:
                if globals_ is not None:
                    globals_.update(replaced)
                for fn in functions:
                    self.restore(fn)
                self.depth -= 1
                if self.depth == 0:
                    vars(math).update({name: _MATH[name] for name in math_shims()})
        return leave

    def swap(self, fn: FunctionType) -> None:
        """Replace a Python function's code, which reaches every reference to it, in whatever module."""
        if fn in self.codes:
            code, count = self.codes[fn]
            self.codes[fn] = code, count + 1
            return
        code = fn.__code__
        original = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        original.__kwdefaults__ = fn.__kwdefaults__
        self.codes[fn] = code, 1
        fn.__code__ = _trampoline(code, functools.partial(_dispatch, fn, original))

    def restore(self, fn: FunctionType) -> None:
        code, count = self.codes[fn]
        if count > 1:
            self.codes[fn] = code, count - 1
        else:
            fn.__code__ = code
            del self.codes[fn]


interposition = Interposition()

_seen: dict[int, tuple[int, list[str]]] = {}  # id of a module's globals: their number, the names bound to functions of math


def imported(globals_: dict[str, Any]) -> dict[str, Any]:
    """Return the names that `from math import sin` bound; they are looked for again when the module has grown."""
    count, names = _seen.get(id(globals_), (-1, []))
    if count != len(globals_):
        names = [name for name, value in globals_.items() if type(value) is BuiltinFunctionType and stand_in(value) is not value]
        _seen[id(globals_)] = len(globals_), names
    return {name: globals_[name] for name in names if stand_in(globals_.get(name)) is not globals_.get(name)}


def _trampoline(code: CodeType, target: Callable[..., Any]) -> CodeType:
    """Return code that passes its arguments to `target`, for a function with `code`'s free variables."""
    template = (lambda *args, **kwargs: (_target := "target")(*args, **kwargs)).__code__  # type: ignore[operator]
    return template.replace(co_consts=tuple(target if const == "target" else const for const in template.co_consts),
                            co_freevars=code.co_freevars, co_name=code.co_name)


def _dispatch(fn: FunctionType, original: FunctionType, /, *args: Any, **kwargs: Any) -> Any:
    """Record a call with traced arguments as one operation, if its trace's context says so; else make it."""
    tracer = max((leaf._tracer for leaf in leaves_of((args, kwargs)) if isinstance(leaf, Traced)), key=lambda t: t.level, default=None)
    if tracer is None or not (fn in FOREIGN or tracer.ctx.is_primitive(fn)):
        return original(*args, **kwargs)
    op: Op = tracer.ctx.op(fn)
    bound = _positional(original, args, kwargs)
    return tracer.record(op, *bound)


def _positional(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move keyword arguments to their positions, where a variable can stand."""
    names = fn.__code__.co_varnames[len(args): fn.__code__.co_argcount]
    rest = dict(kwargs)
    moved = []
    for name in names:
        if name not in rest:
            break
        moved.append(rest.pop(name))
    return (*args, *moved), rest
