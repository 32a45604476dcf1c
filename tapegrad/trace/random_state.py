"""random_state: finds the random generators that a program can reach, and checks that its tape explains their states.

A trace records the draws of generators that it can replace by a stand-in: arguments, and generators stored by name in a
module, an object or a dict. Draws from any other generator show in its state.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tapegrad.numbers.equality import parts_of, values_of
from tapegrad.numbers.lazy import Lazy
from tapegrad.numbers.object_state import attributes
from tapegrad.ops import draw
from tapegrad.ops.checkpoint import is_checkpoint
from tapegrad.rules.op import OPS
from tapegrad.rules.registry import CONSTRUCTORS, DISPATCH
from tapegrad.tape.tape import Call, Guard, Tape, value_of
from tapegrad.trace.code_mentions import names_in
from tapegrad.trace.holders import replaced
from tapegrad.trace.interposition import GlobalGenerator, stand_in
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.trace.mersenne import state_of_bits, state_of_legacy
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import is_empty
from tapegrad.tree.installed import library_of
from tapegrad.tree.signature import Signature

SOURCES: list[type] = []
"""Classes of generators whose states can be restored. The frontend of `numpy.random`, which the first trace imports,
fills this, WATCHED and SHARED.
"""
# SciPy estimates norms by random vectors
_DRAWING = frozenset(OPS[name] for name in ("expm", "logm", "sqrtm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm"))
WATCHED: list[type] = []
DEPTH, FOLLOWED = 4, 16  # depth of the search from an object of an unknown type, and its breadth per level
DRAWN = "pass the generator as an argument, or keep it in a module's global or an object's attribute"
ITEMS = 64  # the number of items searched in a longer list or dict
SHARED: dict[str, Any] = {}
random: Any = Lazy("random")
State = tuple[Callable[[Any], None], Any]
"""A function that sets a generator's state, and the state."""


def state_of(x: Any) -> State:
    """Return a function that sets a random generator's state, and the state."""
    if isinstance(x, random.Random):
        return x.setstate, x.getstate()
    if isinstance(x, np.random.Generator):
        return (lambda state: setattr(x.bit_generator, "state", state)), state_of_bits(x.bit_generator)
    return x.set_state, state_of_legacy(x)


def print_of(x: Any) -> Any:
    """Return a value that changes with each draw, the state and the number of spawned generators; None without one."""
    if isinstance(x, random.SystemRandom):
        return None
    if isinstance(x, (np.random.BitGenerator, np.random.Generator)):
        bits = x if isinstance(x, np.random.BitGenerator) else x.bit_generator
        return state_of_bits(bits), getattr(bits.seed_seq, "n_children_spawned", 0)
    return x.n_children_spawned if isinstance(x, np.random.SeedSequence) else state_of(x)[1]


class Found:
    """The random generators that a program can reach; `names` are the namespaces in which the trace replaces them.

    With `watched`, their states before the run are kept, unless the program is `silent`: it names nothing that could
    draw. `near`: libraries that the program only mentions are not searched, for callers that observe which code runs
    and what that reads.
    """

    def __init__(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], watched: bool = True,
                 near: bool = False) -> None:
        register_imported()
        self.names: list[dict[str, Any]] = []
        self.sources: dict[int, tuple[str, Any]] = {id(x): (label, x) for label, x in SHARED.items()}
        self.silent = True
        for namespace in _reached([f, *args, *kwargs.values()], self._note, self._hear, near):
            if _holds_stand_in(namespace):
                self.names.append(namespace)
        self.watched = watched
        self.states = {key: print_of(x) for key, (_, x) in self.sources.items()} if watched and not self.silent else {}

    def _hear(self) -> None:
        self.silent = False

    def _note(self, x: Any) -> None:
        x = x._generator if type(x) is GlobalGenerator else x
        self.sources.setdefault(id(x), (f"a {type(x).__name__}", x))

    def meet(self, x: Any) -> None:
        """Keep the state of a generator that is read by code about to run."""
        self._note(x)
        if self.watched and id(x) in self.sources and id(x) not in self.states:
            self.states[id(x)] = print_of(x)

    def apart_from(self, signature: Signature) -> list[dict[str, Any]]:
        """Return the namespaces that the trace does not copy: the contents of copied ones are inputs."""
        inputs = {key for part in (signature.function, *signature.args, *signature.kwargs.values())
                  for key in part.seen}
        return [names for names in self.names if id(names) not in inputs]

    def unrecorded(self, tape: Tape) -> str:
        """Return a name for a generator that the program drew from without recording it; "" if there is none.

        A call that may draw by itself draws again in a replay, so a tape with one cannot be checked.
        """
        if any(type(op) is Call and (OPS.get(getattr(op.fn, "__name__", "")) is not op.fn or op.fn in _DRAWING)
               for op in _inlined(tape)):
            return ""
        return next((label for key, (label, x) in self.sources.items() if key in self.states
                     and not _explains(tape, x, self.states[key])), "")


def unrecorded(tape: Tape) -> Guard | None:
    """Return the guard which records that something unrecorded steered the program (random numbers, for example), so
    that no replay is valid.
    """
    return next((op for op in tape.ops if type(op) is Guard and op.fact == "recorded"), None)


def _explains(tape: Tape, source: Any, before: Any) -> bool:
    """Return whether the draws on a tape lead a generator from `before` to its state now."""
    now = print_of(source)
    calls = [op for op in _draws(tape) if value_of(op.args[0]) is source]
    if isinstance(source, np.random.BitGenerator) and any(source is getattr(value_of(op.args[0]), "bit_generator", None)
                                                          for op in _draws(tape)):
        return True  # the Generator that uses this BitGenerator is checked itself
    if not calls:
        return _same(before, now)
    if isinstance(source, np.random.Generator):
        (before, children), (now, spawned) = before, now
        if children != spawned:
            return False
    again = (np.random.Generator(type(source.bit_generator)(0)) if isinstance(source, np.random.Generator)
             else type(source)(0))
    state_of(again)[0](before)
    for op in calls:
        draw.impl(again, *map(value_of, op.args[1:]), **op.kwargs)
    return _same(state_of(again)[1], now)


def _draws(tape: Tape) -> list[Call]:
    return [op for op in _inlined(tape) if op.fn is draw]


def _inlined(tape: Tape) -> list[Any]:
    """Return the operations of a tape, with checkpoints replaced by the operations of their bodies."""
    if not any(map(is_checkpoint, tape.ops)):
        return tape.ops
    return [inner for op in tape.ops
            for inner in (_inlined(op.fn.drawn(op.val)) if is_checkpoint(op) else (op,))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        if _NESTS.isdisjoint(map(type, a)):  # the 625 numbers of a `random.Random`, which every trace compares
            return bool(a == b)
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return all(_same(part, b[key]) for key, part in a.items())
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


_NESTS = frozenset([tuple, dict, np.ndarray])


def _holds_stand_in(namespace: dict[str, Any]) -> bool:
    """Return whether a trace replaces anything in a namespace; cached for modules."""
    if type(namespace) is dict and "__builtins__" in namespace:
        return bool(replaced(namespace))
    return any(stand_in(x) is not x for x in values_of(namespace))


def _reached(roots: list[Any], note: Callable[[Any], None], hear: Callable[[], None],
             near: bool) -> Iterator[dict[str, Any]]:
    """Yield the namespaces that a program's functions can read: of modules, objects and dicts; call `note` with each
    generator, and `hear` for anything that could draw in another way or lead to a generator.

    If `near`, only those functions of other installed libraries are searched that the program names.
    """
    own = ("", library_of(getattr(roots[0], "__module__", "")))
    stack, known, keep = roots, set[int](), list[Any]()
    while stack:
        thing = stack.pop()
        if type(thing) in _DATA or id(thing) in known:
            continue
        known.add(id(thing))
        keep.append(thing)  # keeps the object alive, since `known` holds its id
        if not (_is_silent_code(thing) if type(thing) is FunctionType else _is_silent(thing)):
            hear()
        if isinstance(thing, (*WATCHED, GlobalGenerator)):
            note(thing)
            stack += _behind(thing)
        elif isinstance(thing, FunctionType):
            if is_foreign(thing.__module__):
                continue
            stack += [cell.cell_contents for cell in thing.__closure__ or () if not is_empty(cell)]
            stack += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
            names, distant = names_in(thing.__code__), near and library_of(thing.__module__) not in own
            held = [thing.__globals__[name] for name in names if name in thing.__globals__]
            modules = [x for x in held if isinstance(x, ModuleType)
                       and not is_foreign(x.__name__)] if not distant else []
            held += [vars(module)[name] for module in modules for name in names if name in vars(module)]
            stack += [x for x in held if isinstance(x, (*WATCHED, GlobalGenerator))] if distant else held
            if distant:
                hear()
            for scope in (thing.__globals__, *map(vars, modules)):
                if id(scope) not in known:
                    known.add(id(scope))
                    keep.append(scope)
                    yield scope
        elif isinstance(thing, (MethodType, BuiltinFunctionType)):
            stack += [thing.__self__,
                      getattr(thing, "__func__", None)] if not isinstance(thing.__self__, ModuleType) else ()
        elif isinstance(thing, type):
            if not is_foreign(thing.__module__) and not (near and library_of(thing.__module__) not in own):
                stack += [*vars(thing).values(), *thing.__bases__, type(thing)]
        elif issubclass(type(thing), (list, tuple, set, frozenset)):
            stack += _few(parts_of(thing))
        elif issubclass(type(thing), dict):
            stack += _few(values_of(thing))
            yield thing
        elif (isinstance(attributes(thing), dict) and not is_foreign(type(thing).__module__)
              and not isinstance(thing, ModuleType)):
            stack += [type(thing), *_few(vars(thing).values())]
            yield vars(thing)
        elif not isinstance(thing, ModuleType):
            if issubclass(type(thing), (MethodType, staticmethod, classmethod, property)):
                stack += [part for part in (getattr(thing, "__func__", None), getattr(thing, "fget", None))
                          if isinstance(part, FunctionType)]
            if isinstance(thing, SimpleNamespace):
                stack += _few(vars(thing).values())
                yield vars(thing)
            elif not isinstance(thing, (str, int, float, np.ndarray)) and gc.is_tracked(thing):
                stack += _parts(thing)
            if type(thing).__name__ == "cython_function_or_method" or type(thing).__name__ == "method":
                stack.append(getattr(thing, "__self__", None))


_DATA = frozenset([bool, int, float, complex, str, bytes, type(None), type(Ellipsis), slice, range, np.float64,
                   np.float32, np.int64, np.bool_])
_SILENT_MODULES = ("numpy", "numpy.linalg", "numpy.fft", "math", "cmath")
_SILENT_BUILTINS = ("abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "int", "isinstance",
                    "len", "list", "max", "min",
                    "pow", "range", "reversed", "round", "sorted", "sum", "tuple", "zip")


def _is_silent(thing: Any) -> bool:
    """Return whether an object draws no random numbers and leads to generators only through its names and parts."""
    kind = type(thing)
    if kind is np.ndarray:
        return bool(thing.dtype.kind != "O")
    if kind in (list, tuple, dict):
        return len(thing) <= ITEMS
    if kind is ModuleType:
        return thing.__name__ in _SILENT_MODULES
    return is_known_pure(thing)


def is_known_pure(fn: Callable[..., Any]) -> bool:
    """Return whether a function of NumPy or Python has an implementation for traced values, or is a NumPy constructor.
    """
    return type(fn) in _SILENT_KINDS and (fn in DISPATCH or (fn in CONSTRUCTORS and fn.__module__ == "numpy"))


def _is_silent_code(fn: FunctionType) -> bool:
    """Return whether a function names nothing but globals and silent names; a global's name may also be used as that of
    an attribute.
    """
    names, (silent, loud) = names_in(fn.__code__), silent_names()
    return not is_foreign(fn.__module__) and names.isdisjoint(loud) and names - fn.__globals__.keys() <= silent


_SILENT_KINDS = frozenset([np.ufunc, type(np.sum), BuiltinFunctionType, FunctionType])


@functools.cache
def silent_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names (of builtins, and of attributes of numbers, arrays, nests and NumPy) through which no program
    draws; and the other names in NumPy.
    """
    modules = [sys.modules[name] for name in _SILENT_MODULES]
    methods = {name for kind in (np.ndarray, float, complex, list, tuple, dict, str) for name in dir(kind)
               if not name.startswith("__")}
    # the last definition wins: numpy.linalg of NumPy 2.2 has a `linalg` of its own
    found = {name: x for module in reversed(modules) for name, x in vars(module).items()}
    meant = {name for name, x in found.items() if type(x) in _DATA or x in modules or is_known_pure(x)}
    types = {name for name, x in found.items() if isinstance(x, type) and issubclass(x, np.generic)}
    silent = frozenset({*methods, *meant, *types, *_SILENT_BUILTINS})
    return silent, frozenset(found) - silent


def _behind(source: Any) -> list[Any]:
    """Return the bit generator and seed sequence of a generator, which a program may hold as well."""
    bits = source if isinstance(source, np.random.BitGenerator) else getattr(source, "bit_generator", None)
    return [part for part in (bits, getattr(bits, "seed_seq", None)) if isinstance(part, tuple(WATCHED))]


def _parts(thing: Any) -> list[Any]:
    """Return the generators, and their bound methods, among the references of an object of an unknown type (a partial,
    a deque, an iterator, an object with slots, a frozen distribution), searched to a depth of DEPTH.
    """
    found, level = [], [thing]
    for _ in range(DEPTH):
        level = [part for parent in level for part in _few(gc.get_referents(parent))
                 if not isinstance(part, (type, ModuleType, FunctionType, str))]
        found += [part for part in level if isinstance(part, (*WATCHED, MethodType, BuiltinFunctionType))]
        level = level[:FOLLOWED]
    return found


def _few(parts: Iterable[Any]) -> list[Any]:
    return [part for part, _ in zip(parts, range(ITEMS))]
