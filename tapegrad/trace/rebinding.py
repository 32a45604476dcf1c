"""rebinding: while a trace runs, every name by which its program reaches an original leads to the program's copy."""

from __future__ import annotations

import builtins
import gc
import importlib
import inspect
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from tapegrad.errors import MutationError, user_location
from tapegrad.interrupts import whole
from tapegrad.numbers.object_state import ALONE
from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.tape.tape import Call, Tape
from tapegrad.trace import identity, redirection
from tapegrad.trace.code_mentions import SEARCHES, mentioned, package_of
from tapegrad.trace.conversions import converted
from tapegrad.trace.deferred_writes import content, fill, holds, rekey
from tapegrad.trace.global_arrays import stand_for
from tapegrad.trace.interposition import trampoline
from tapegrad.trace.reference_search import ReferenceSearch, refill, substituted
from tapegrad.trace.replacement import interposition
from tapegrad.trace.write_back import Copies
from tapegrad.tree.attributes import FOREIGN_PACKAGES
from tapegrad.tree.copies import (
    CODE,
    KINDS,
    Attribute,
    Refused,
    another,
    check_apart,
    class_of,
    current,
    is_empty,
    is_hashed_by_identity,
    running,
)
from tapegrad.tree.flatten import Walk
from tapegrad.tree.modules import Module
from tapegrad.tree.nodes import Closure, Fresh, Instance, Leaf, Partial, Subclassed, is_masked
from tapegrad.tree.signature import NamedObjects

_SPECIAL = (gc, importlib, sys)  # modules that lead to other modules, or to all objects
_KINDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_CONTAINERS = (dict, *KINDS)
NO_TWINS: dict[int, Any] = {}
_lock = threading.RLock()
# by function, or by (class, attribute name): how many traces replace it
_counts: dict[Any, int] = {}


class Rerouting:
    """The replacements of one trace, from its start to its end."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.functions: list[FunctionType] = []
        self.attributes: list[tuple[type, str]] = []
        self.made: list[tuple[Any, Any, list[Any]]] = []  # (holder of originals, its copy, contents at the start)
        self.pairs: list[tuple[Any, Any]] = []  # (copy, original)
        self.joined: list[tuple[Any, Any]] = []  # (first copy, another copy) of one object
        self.used: dict[int, Any] = {}  # by id: originals that have several names
        self.routes: ReferenceSearch | None = None
        # (captured variable that leads to an original, its copy, the copy's value at the start)
        self.cells: list[tuple[CellType, CellType, Any]] = []
        self.spaces: dict[int, Namespace] = {}  # id of a module's globals -> the namespace of rerouted functions
        self.double = NO_TWINS  # by id of a proxy: its array, if that has several proxies
        self.tables: list[Any] = []  # proxies of arrays that the program reads by name
        # (list, dict, ... among the arguments, its contents at the start, its label)
        self.given: list[tuple[Any, list[Any], str]] = []
        self.shared: list[tuple[Any, Any, str]] = []  # (attribute dict with other references, the object's copy, label)
        self.copies: Copies | None = None
        self.began: list[tuple[Any, list[Any], Any]] = []  # (copy of a list or dict, contents at the start, original)

    @whole
    def begin(self, tracer: Any, walks: Sequence[Walk], memos: Sequence[dict[int, Any]],
              tables: bool | str = False, tied: Sequence[Any] = (), double: dict[int, Any] = NO_TWINS,
              stands_for: dict[int, list[Any]] = NO_TWINS) -> None:
        """Find the objects that lead to originals, and make them lead to the copies.

        Comparing `double` arrays by `is` is refused; `tied` are the other objects passed twice. With `tables`, arrays
        that the program reads by name are replaced by proxies; if it is a package's name, those in that package as
        well.
        """
        copies: dict[int, Any] = {}
        objects: list[Any] = []
        roots: list[Any] = []
        labels: dict[int, str] = {}
        arrays: list[tuple[Any, Any]] = []
        shared = self.shared
        for walk, memo in zip(walks, memos):
            roots += walk.called
            roots += [x for x, _ in walk.blind]
            roots += [x for x, _ in walk.keep if type(x) is FunctionType] if tables else []
            for x, label in walk.keep:
                key, part = id(x), walk.seen.get(id(x))
                if isinstance(part, Leaf) and type(x) is not CellType:
                    built = tracer.inputs[part.index]
                elif type(x) is CellType:
                    built = memo.get(key)
                elif type(part) in (Closure, Fresh, Partial) or getattr(part, "volatile", False):
                    built = memo.get(id(part))
                else:
                    if type(part) is Subclassed and not is_masked(part.cls) and id(part) in memo:
                        arrays.append((memo[id(part)], x))  # it has attributes
                    continue
                # an object shared by two arguments: either copy will do, since the gradients of both add up
                if built is None or key in copies:
                    if built is not None and built is not copies[key]:
                        self.joined.append((copies[key], built))
                        identity.join(*self.joined[-1])
                    continue
                same = [x, *stands_for[key]] if key in stands_for else [x]
                for each in same:
                    copies[id(each)], labels[id(each)] = built, label
                self.pairs.append((built, x))
                if type(x) is CellType or isinstance(part, Leaf):
                    continue
                if type(x) is FunctionType:
                    roots.append(x)
                elif isinstance(x, _CONTAINERS):
                    self.given += [(each, content(each), label) for each in same]
                if isinstance(part, (Instance, Module)):
                    objects += same
                    if (own := own_dict(x)) is not None and sys.getrefcount(own) > ALONE:
                        shared.append((own, built, label))
                    roots.append(class_of(x))
        for own, built, label in shared:
            if id(own) in copies:  # the dict is an argument too, or another object's
                object.__setattr__(built, "__dict__", copies[id(own)])
            else:
                copies[id(own)], labels[id(own)] = own_dict(built), f"{label}.__dict__"
        self.double = double
        self.used.update((id(x), x) for x in tied)
        self.pairs += [(proxy, double[id(proxy)]) for proxy in tracer.inputs if id(proxy) in double] if double else ()
        if not copies and not tables and not double:
            return
        tracer.copies, tracer.rerouting = copies, self
        self.pairs += [pair for new, _ in self.pairs if isinstance(new, (set, dict)) for pair in rekey(new, copies)]
        self.copies = Copies([*self.pairs, *arrays], labels)
        self.objects = redirection.begin(objects)
        self.routes = ReferenceSearch(copies, labels, roots, partial(stand_for, tracer=tracer) if tables else None,
                             tables if type(tables) is str else "")
        if tracer.blind is not None:
            tracer.blind.routes = self.routes
        leads = self.routes.search() or double
        if leads or len(running.tracers) > 1:
            self.began = [(new, content(new), x) for new, x in self.pairs if type(new) is list or type(new) is dict]
        if leads:
            self.tables = [copies[key] for key in self.routes.arrays]
            self.pairs += [(copies[key], x) for key, x in self.routes.arrays.items()]
            self._lead(self.routes, tracer)

    def _lead(self, routes: ReferenceSearch, tracer: Any) -> None:
        """Copy the containers that hold originals and cannot hand out copies; replace those that can."""
        copies = routes.known
        made = dict(copies)
        for x in routes.others.values():
            new = substituted(x, routes, made)
            if new is not x and type(new) is FunctionType:
                x, new = vars(x), vars(new)
            if new is not x and isinstance(new, (list, dict, set, deque)):
                self.made.append((x, new, content(new)))
        if tracer.blind is not None:
            tracer.blind.find(routes)
        copies.update(made)
        for fn in routes.readers.values():
            for cell in fn.__closure__ or ():
                if id(cell) not in copies and not is_empty(cell) and id(cell.cell_contents) in copies:
                    copies[id(cell)] = new = CellType(copies[id(cell.cell_contents)])
                    self.cells.append((cell, new, new.cell_contents))
        self.objects += redirection.begin(routes.holders)
        for fn in routes.readers.values():
            self.replace(fn)
            if id(fn) in copies:
                self.replace(copies[id(fn)])
        for cls, name in routes.attributes:
            self.stand_in(cls, name)

    def replace(self, fn: FunctionType) -> None:
        """Give a function code that runs it with other globals, defaults and captured variables in the tracing thread.
        """
        with _lock:
            if fn in interposition.swapped:
                return  # recorded as one operation and called outside the trace
            if not _counts.get(fn):
                code = fn.__code__
                CODE.setdefault(fn, code)
                _assign(fn, trampoline(code, partial(_run, fn, code, converted(fn))))
            _counts[fn] = _counts.get(fn, 0) + 1
            self.functions.append(fn)

    def stand_in(self, cls: type, name: str) -> None:
        """Replace a class attribute by a descriptor that gives the copy in the tracing thread."""
        with _lock:
            if not _counts.get((cls, name)):
                type.__setattr__(cls, name, Attribute(cls.__dict__[name]))
            _counts[cls, name] = _counts.get((cls, name), 0) + 1
            self.attributes.append((cls, name))

    @whole
    def end(self) -> None:
        """Undo the replacements."""
        redirection.end(self.objects)
        for pair in self.joined:
            identity.part(*pair)
        with _lock:
            for fn in self.functions:
                if _ended(fn):
                    _assign(fn, CODE.pop(fn))
            for cls, name in self.attributes:
                if _ended((cls, name)) and type(there := cls.__dict__.get(name)) is Attribute:
                    type.__setattr__(cls, name, there.value)
        self.write_back()

    def write_back(self) -> None:
        """Apply the program's changes of copied lists, dicts and variables outside the arguments to the originals."""
        changed = [(x, new) for x, new, then in self.made if not holds(new, then)]
        assigned = [(cell, new) for cell, new, then in self.cells if not is_empty(new)
                    and new.cell_contents is not then]
        if changed or assigned:
            originals = {id(new): x for x, new, _ in self.made} | {id(new): x for new, x in self.pairs}

            def part(value: Any) -> Any:
                return originals.get(id(value), value)
            for x, new in changed:
                refill(new, x, part)
            for cell, new in assigned:
                cell.cell_contents = part(new.cell_contents)

    def reached(self, walks: Sequence[Walk]) -> NamedObjects | None:
        """Return the objects that the program reaches by names of its own, with the arguments they are part of, or
        None.
        """
        if self.routes is None:
            return None
        known = {**self.routes.given(), **self.routes.hits, **self.used}
        for root in self.routes.roots:
            if id(root) not in self.routes.hits:
                known.pop(id(root), None)
        return NamedObjects(known, walks) if known else None

    def check_outside(self, tape: Tape, op: Any = None) -> None:
        """Refuse ops that run outside the trace and read by name a list or dict that the program has written to: `op`,
        or those on the tape, since their rules may read it later.
        """
        written = [(new, x) for new, then, x in self.began if not holds(new, then)]
        for part, _ in written:  # containers that hold a written one
            written += [(new, x) for new, then, x in self.began
                        if not any(new is other for other, _ in written) and any(
                            inner is part for inner in (then.values() if isinstance(then, dict) else then))]
        found = [x for _, x in written]
        if not found:
            return
        ops = {id(op): (op, None)} if op is not None else {
            id(call.fn): (call.fn, call.where) for call in reversed(tape.ops) if type(call) is Call}
        for rerouting in [tracer.rerouting for tracer in reversed(running.tracers) if tracer.rerouting is not None]:
            if rerouting is not self:  # in an outer trace they are copies themselves
                found = [x for new, x in rerouting.pairs if any(new is other for other in found)]
            for x in found if rerouting.routes is not None else ():
                reading = next((ops[key] for key in rerouting.routes.above(x) if key in ops), None)
                if reading is not None:
                    raise MutationError(f"{reading[0].__name__}, recorded as one operation, reads by name a "
                                        f"{type(x).__name__} that is also an argument and has been written to: it "
                                        "would see the unchanged original", reading[1] or user_location(),
                                        "pass it to the function as an argument")

    def check(self) -> None:
        """Refuse changes of an argument, or of an array, by a name that the search missed."""
        for proxy in self.tables:
            proxy._view.storage.check()
        for x, then, label in self.given:
            if not holds(x, then):
                fill(x, then)
                raise MutationError(f"{label or 'what the function captured'}, a {type(x).__name__}, was changed while "
                                    "it was differentiated or traced, but not through the argument", None,
                                    "change it through the argument, or pass a copy")


def _assign(fn: FunctionType, code: CodeType) -> None:
    """Assign a function's code; suppress the warning of Python 3.13 and later for generators that get ordinary code."""
    if not (fn.__code__.co_flags ^ code.co_flags) & _KINDS:
        fn.__code__ = code
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        fn.__code__ = code


def _ended(key: Any) -> bool:
    _counts[key] -= 1
    if _counts[key]:
        return False
    del _counts[key]
    return True


class Namespace(dict[str, Any]):
    """The globals of a function that leads to an original: global lookups call `__getitem__` of a dict subclass, which
    gives the copy.

    Lookups that bypass it, as in a class body, see the copies that existed at the start.
    """

    __slots__ = ("real",)

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__(real)
        self.real = real
        for name, value in real.items():
            for tracer in running.tracers:
                value = tracer.copies.get(id(value), value)
            if type(value) is Refused:
                del self[name]
            else:
                self[name] = value
        self["__builtins__"] = {**vars(builtins), "__import__": _import, "id": _id, "hash": _hash}

    def __getitem__(self, name: str) -> Any:
        return seen(self.real[name])


def _namespace(real: dict[str, Any]) -> Namespace:
    """Return the namespace of a module's rerouted functions in the innermost trace."""
    rerouting = next((tracer.rerouting for tracer in reversed(running.tracers) if tracer.rerouting is not None), None)
    if rerouting is None:
        return Namespace(real)
    if id(real) not in rerouting.spaces:
        rerouting.spaces[id(real)] = Namespace(real)
    return rerouting.spaces[id(real)]  # type: ignore[no-any-return]


def seen(x: Any) -> Any:
    """Return the replacement of `x` in a rerouted function: its copy; for a module a View."""
    return View(x) if type(x) is ModuleType and (x in _SPECIAL
                                                 or package_of(x.__name__) not in FOREIGN_PACKAGES) else current(x)


class View(ModuleType):
    """A module whose attributes are the copies."""

    def __init__(self, module: ModuleType) -> None:
        object.__setattr__(self, "_module", module)

    def __getattribute__(self, name: str) -> Any:
        module = object.__getattribute__(self, "_module")
        if module is gc and name in SEARCHES:
            raise MutationError("gc.get_objects() and similar functions would return originals and the copies that the "
                                "trace made",
                                user_location(), "keep a list of the objects instead")
        value = getattr(module, name)
        if name == "__dict__" or value is sys.modules:
            return Namespace(value)
        return _import_module if value is importlib.import_module else seen(value)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_module"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "_module"), name)


def _import_module(*args: Any, **kwargs: Any) -> Any:
    return seen(importlib.import_module(*args, **kwargs))


def _import(*args: Any, **kwargs: Any) -> Any:
    return seen(builtins.__import__(*args, **kwargs))


def _id(x: Any) -> int:
    """Return the id of an object in the untraced program: the original's, for a copy."""
    return id(_original(x))


def _hash(x: Any) -> int:
    """Return the hash of an object in the untraced program: by the original's identity, also inside tuples."""
    return hash(_hashed(x))


def _hashed(x: Any) -> Any:
    own: Any = type(x).__hash__
    if own is tuple.__hash__ or own is frozenset.__hash__:
        return (tuple if own is tuple.__hash__ else frozenset)(map(_hashed, x))
    return _original(x) if is_hashed_by_identity(x) else x


def _original(x: Any) -> Any:
    for tracer in reversed(running.tracers):
        pairs = tracer.rerouting.pairs if tracer.rerouting is not None else ()
        x = identity.first_of(x)
        x = next((original for copy, original in pairs if copy is x), x)
    return x


def _run(fn: FunctionType, code: CodeType, traced: CodeType, /, *args: Any, **kwargs: Any) -> Any:
    """Call a rerouted function; in a tracing thread with the copies in its namespace, and with code `traced`."""
    if not running.tracers:
        check_apart(fn)
        return another(fn, code)(*args, **kwargs)
    copy: Callable[..., Any] = current(fn)
    if copy is not fn:
        return copy(*args, **kwargs)
    if mentioned(code).assigns:
        raise MutationError(f"{fn.__name__} assigns globals, and reads by another name an object that is also an "
                            "argument or captured", user_location(), "read the object through the argument")
    new = FunctionType(traced, _namespace(fn.__globals__), fn.__name__, _all(fn.__defaults__), _all(fn.__closure__))
    named = fn.__kwdefaults__
    new.__kwdefaults__ = named and {name: current(value) for name, value in named.items()}  # type: ignore[assignment]
    return new(*args, **kwargs)


def _all(parts: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return parts and tuple(map(current, parts))
