"""Functions that no protocol reaches, replaced while a trace runs: `math.*`, and Python functions that have a rule."""

from __future__ import annotations

import cmath
import dis
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import in_our_words
from tapegrad.numbers.formatting import plain as behind
from tapegrad.numbers.systems import OWNERS, system
from tapegrad.numbers.tensors import ORDINARY, is_tensor
from tapegrad.rules.op import PROXIES, Op, Traced, holds_traced, tracer_of
from tapegrad.rules.registry import CONSTRUCTORS, FOREIGN, PYTHON, STAND_IN
from tapegrad.trace.context import LISTENERS
from tapegrad.trace.proxy import apply, plain, record_unary
from tapegrad.tree.copies import CODE, Attribute, code_of, running
from tapegrad.tree.flatten import leaves_of

_lock = threading.RLock()

# Constructors called from these make what they always make: their results go into C code.
LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch", "tapegrad", "optree", "networkx", "rich"}

# But these modules are Python code like the user's, where it is at work on traced values.
PROGRAMS = ("numpy.polynomial.",)

_FLOATS = frozenset([float, np.float64, int])

# They go through an iterable once, in C: what it yields is looked at here.
ONCE = [getattr(math, name) for name in ("fsum", "sumprod") if hasattr(math, name)]


def as_float(x: Any) -> Any:
    """Return a traced number of another number system as the float that math's functions make of it."""
    known = system(x) if isinstance(x, Traced) else None
    return x if known is None else ops.convert(x, to=complex if known.is_complex else float)


def as_real(x: Any) -> Any:
    """Return a traced argument of math's functions as the real number that they make of it: NumPy's complex numbers lose a part, with a warning."""
    x = as_float(x)
    if isinstance(x, Traced) and isinstance(val := behind(x), (np.ndarray, np.generic)) and val.dtype.kind == "c":
        float(val)  # which warns
        return ops.real(x)
    return x


def _listed(x: Any) -> Any:
    """Return a generator or another iterable as a list; sequences and arrays, and what is none, as they are."""
    return list(x) if isinstance(x, Iterable) and not isinstance(x, (Sequence, np.ndarray, Traced)) else x


def _shim(fn: Callable[..., Any], meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for `fn` that differs only when an argument is traced."""
    once, argument = fn in ONCE, as_real if fn.__module__ == "math" else as_float

    @functools.wraps(fn)
    def shim(*args: Any, **kwargs: Any) -> Any:
        if once:
            args = tuple(map(_listed, args))
        for arg in args:
            if isinstance(arg, Traced):
                try:
                    if is_tensor(arg) and fn.__module__ in ("math", "cmath"):  # they take a number of it, as anyone's float(x)
                        return fn(*args, **kwargs)
                    if type(meaning) is not Op:
                        return meaning(*args, **kwargs)
                    if len(args) == 1:
                        x = arg if type(arg._val) in _FLOATS else argument(arg)
                        return record_unary(x, meaning, shim)  # type: ignore[arg-type]
                    args = tuple(map(argument, args))  # what math computes with
                    tracer = tracer_of(args)
                    return tracer.record(meaning, args, kwargs, shim(*[plain(x, tracer) for x in args]))
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
            if (refusal := in_our_words(err)) is not None:
                raise refusal from err
            raise
    return shim


def _maker(fn: Callable[..., Any], make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for a constructor: called by user code in a traced thread, it makes a traced array."""
    @functools.wraps(fn)
    def shim(*args: Any, **kwargs: Any) -> Any:
        tracers = running.tracers
        if not tracers or not _is_called_by_user(sys._getframe(1), fn.__name__, shim):
            return fn(*args, **kwargs)
        return make(tracers[-1], fn, *args, **kwargs)
    return shim


def _is_called_by_user(frame: FrameType, name: str, shim: Any) -> bool:
    """True if a frame is user code, and the call in progress there is that of the constructor.

    Compiled code (numpy.random, say) has no frame of its own: when it makes an array, the frame is the user's, and the call
    in progress there is another.
    """
    module = frame.f_globals.get("__name__", "")
    if module.startswith(PROGRAMS):
        return any(isinstance(x, Traced) for x in frame.f_locals.values())
    if module.partition(".")[0] in LIBRARIES:
        return False
    callee = _callee(frame.f_code, frame.f_lasti)
    return callee in (name, "") or frame.f_locals.get(callee, frame.f_globals.get(callee)) is shim


@functools.lru_cache(maxsize=4096)
def _callee(code: CodeType, lasti: int) -> str:
    """Return the name that is called at an instruction, "" where the interpreter does not tell (before Python 3.11)."""
    if not hasattr(code, "co_positions"):
        return ""
    instructions = list(dis.get_instructions(code))
    at = max(i for i, instruction in enumerate(instructions) if instruction.offset <= lasti)  # lasti may point into the call's cache
    place = instructions[at].positions  # type: ignore[attr-defined]
    # what is called was loaded from where the call begins: `np.zeros(3)` and the attribute `np.zeros` have one start
    names = [instruction for instruction in instructions[:at] if instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str)
             and (instruction.positions.lineno, instruction.positions.col_offset) == (place.lineno, place.col_offset)]  # type: ignore[attr-defined]
    return names[-1].argval if names else "?"


def stand_ins() -> list[tuple[Any, type, type]]:
    """Return the modules of which functions are replaced, each with its class, and the class that it has while a trace runs."""
    return _stand_ins("torch" in FOREIGN)  # torch's functions have meanings once its frontend is there


@functools.cache
def _stand_ins(with_torch: bool) -> list[tuple[Any, type, type]]:
    if with_torch:  # of torch's functions few ask no protocol
        torch = sys.modules["torch"]
        sized = (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn)  # by lengths one by one, of which torch asks no protocol
        own = (torch.from_numpy, torch.from_dlpack, *sized)
        return [*_stand_ins(False), _replacing(torch, [({fn: FOREIGN[fn] for fn in own}, _shim)])]
    return [_replacing(math, [(FOREIGN, _shim)]), _replacing(cmath, [(FOREIGN, _shim)]),
            _replacing(np, [(CONSTRUCTORS, _maker), (_dispatched(np), _listener)]), _replacing(np.random, [(CONSTRUCTORS, _maker)]),
            *(_replacing(module, [(_dispatched(module), _listener)]) for module in (np.linalg, np.fft))]


def _replacing(module: Any, kinds: list[tuple[dict[Any, Any], Callable[..., Any]]]) -> tuple[Any, type, type]:
    """Return a module's class, and one whose properties are the stand-ins: to give it that costs nothing, however many they are."""
    shims: dict[str, Any] = {}
    for known, shim in kinds:
        found = {name: fn for name, fn in vars(module).items() if callable(fn) and fn.__hash__ is not None and fn in known}
        made = {name: shim(fn, known[fn]) for name, fn in found.items()}
        STAND_IN.update({fn: made[name] for name, fn in found.items()})
        FOREIGN.update({made[name]: FOREIGN[fn] for name, fn in found.items() if fn in FOREIGN})  # looked up by name in a trace
        shims |= made
    properties = {name: property({module: made}.__getitem__) for name, made in shims.items()}  # no Python function to call
    return module, type(module), type(type(module).__name__, (type(module),), properties)


def _dispatched(module: Any) -> dict[Any, Any]:
    """Return the functions of a module that have a meaning and ask their arguments for it, but not what a list holds."""
    return {fn: FOREIGN[fn] for fn in vars(module).values() if type(fn) is type(np.sum) and fn in FOREIGN and fn not in CONSTRUCTORS}


def _listener(fn: Callable[..., Any], meaning: Any) -> Callable[..., Any]:
    """Return a stand-in for a function that dispatches on arrays: it dispatches on lists of traced values too, as np.sum([a, b])."""
    @functools.wraps(fn)
    def shim(*args: Any, **kwargs: Any) -> Any:
        tracers = running.tracers
        if tracers:
            alone = True  # among those that NumPy would ask
            for arg in args:
                kind = type(arg)
                if kind in PROXIES and alone:
                    return apply(arg._tracer, fn, args, kwargs)
                if issubclass(kind, (list, tuple)) and holds_traced(arg):
                    return apply(tracers[-1], fn, args, kwargs)
                alone = alone and kind in ORDINARY
        return fn(*args, **kwargs)
    return shim


def stand_in(x: Any) -> Any:
    """Return what replaces `x` while a trace runs: for a reference that was taken before, as in trace(math.sin, 1.0)."""
    if type(x) in GENERATORS:
        return GlobalGenerator(x)
    stand_ins()
    return STAND_IN.get(x, x) if type(x) in _kinds() else x  # the user's objects are not asked for a hash


def original(x: Any) -> Any:
    """Return what a stand-in among a module's globals replaces while a trace runs; other things as they are."""
    if type(x) is GlobalGenerator:
        return x._generator
    if type(x) is Attribute:
        return x.value
    fn = getattr(x, "__wrapped__", None) if type(x) is FunctionType else None
    return fn if fn is not None and stand_in(fn) is x else x


@functools.cache
def _kinds() -> set[type]:
    return set(map(type, STAND_IN))


GENERATORS = (np.random.Generator, np.random.RandomState)


class GlobalGenerator:
    """Stands in for a random generator among a module's globals: in a traced thread its draws are recorded."""

    __slots__ = ("_generator",)

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._generator)

    def __getattr__(self, name: str) -> Any:
        tracers, generator = running.tracers, self._generator
        meaning = FOREIGN.get(getattr(type(generator), name, None))
        if not tracers or meaning is None:
            return getattr(generator, name)
        tracer = tracers[-1]
        op = tracer.constant(("generator", id(generator)), generator, generator)
        return functools.partial(meaning, tracer.proxy(op, generator, tracer))


class Interposition:
    """Counts the traces that run, and replaces when the first begins, restores when the last ends.

    Stand-ins pass through what is not traced, so that other threads never notice.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.names: dict[int, tuple[dict[str, Any], int]] = {}  # id of a module's globals: what stood there, and how many traces want it
        self.swapped: dict[FunctionType, int] = {}  # how many traces want it
        self.known: list[tuple[FunctionType, CodeType, CodeType]] = []  # those with a rule or a meaning, replaced by the first trace for all

    def enter(self, tracer: Any, namespaces: Sequence[dict[str, Any]], functions: Sequence[FunctionType]) -> Callable[[], None]:
        """Begin a trace of a function that finds names in these namespaces, and of these functions as primitives; return how to end it."""
        with _lock:
            if self.depth == 0:
                for module, _, replacing in stand_ins():
                    module.__class__ = replacing
                if len(self.known) < len(PYTHON):
                    self.known += [(fn, *_stand_in_code(fn)) for fn in PYTHON[len(self.known):]]
                for fn, own, code in self.known:
                    CODE[fn], fn.__code__ = own, code
            self.depth += 1
            for names in namespaces:
                self.replace_names(names)
            functions = [fn for fn in functions if not any(fn is known for known, _, _ in self.known)] if functions else ()
            for fn in functions:
                self.swap(fn)
        outer, running.tracers = running.tracers, [*running.tracers, tracer]
        ends = [listen(tracer) for listen in LISTENERS]

        def leave() -> None:
            for end in reversed(ends):
                end()
            running.tracers = outer
            with _lock:
                for names in namespaces:
                    self.restore_names(names)
                for fn in functions:
                    self.restore(fn)
                self.depth -= 1
                if self.depth == 0:
                    for module, cls, _ in stand_ins():
                        module.__class__ = cls
                    for fn, own, _ in self.known:
                        fn.__code__ = own
                        CODE.pop(fn, None)
        return leave

    def replace_names(self, globals_: dict[str, Any]) -> None:
        """Replace the names that a module has bound to what is replaced, for as many traces as there are of its functions."""
        replaced, count = self.names.get(id(globals_), (None, 0))
        if replaced is None:
            found = imported(globals_)
            replaced = {name: globals_[name] for name in found}
            globals_.update(found)
        self.names[id(globals_)] = replaced, count + 1

    def restore_names(self, globals_: dict[str, Any]) -> None:
        """End the replacement that `replace_names` began."""
        replaced, count = self.names.pop(id(globals_))
        if count > 1:
            self.names[id(globals_)] = replaced, count - 1
        else:
            globals_.update(replaced)

    def swap(self, fn: FunctionType) -> None:
        """Replace a Python function's code, which reaches every reference to it, in whatever module."""
        count = self.swapped.get(fn, 0)
        self.swapped[fn] = count + 1
        if not count:
            CODE[fn] = fn.__code__
            fn.__code__ = _stand_in_code(fn)[1]

    def restore(self, fn: FunctionType) -> None:
        """End the replacement that `swap` began."""
        self.swapped[fn] -= 1
        if not self.swapped[fn]:
            del self.swapped[fn]
            fn.__code__ = CODE.pop(fn)


interposition = Interposition()


_seen: dict[int, tuple[int, list[str]]] = {}  # id of a module's globals: their number, the names bound to what is replaced


def imported(globals_: dict[str, Any]) -> dict[str, Any]:
    """Return what stands in for the names that `from math import sin` bound; they are looked for again when the module has grown."""
    count, names = _seen.get(id(globals_), (-1, []))
    if count != len(globals_):
        names = [name for name, value in globals_.items() if stand_in(value) is not value]
        _seen[id(globals_)] = len(globals_), names
    pairs = [(name, globals_.get(name), stand_in(globals_.get(name))) for name in names]
    return {name: there for name, value, there in pairs if there is not value}


@functools.cache
def _stand_in_code(fn: FunctionType) -> tuple[CodeType, CodeType]:
    """Return the code of a function, and what replaces it."""
    code = code_of(fn)
    original = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    original.__kwdefaults__ = fn.__kwdefaults__
    return code, trampoline(code, functools.partial(_dispatch, fn, original))


def trampoline(code: CodeType, target: Callable[..., Any]) -> CodeType:
    """Return code that passes its arguments to `target`, for a function with `code`'s free variables."""
    template = _template(code.co_freevars)
    return template.replace(co_consts=tuple(target if const == "target" else const for const in template.co_consts), co_name=code.co_name)


@functools.cache
def _template(freevars: tuple[str, ...]) -> CodeType:
    # compiled with the names free, though unused: a frame whose closure is not set up as its code says crashes debuggers
    names = ", ".join(freevars)
    source = (f"def factory():\n    {' = '.join([*freevars, 'None']) if freevars else 'pass'}\n"
              f"    def trampoline(*tapegrad_args, **tapegrad_kwargs):\n        if False: ({names})\n"
              "        return (tapegrad_target := 'target')(*tapegrad_args, **tapegrad_kwargs)\n    return trampoline\n")
    namespace: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), namespace)
    made: CodeType = namespace["factory"]().__code__
    return made


def _dispatch(fn: FunctionType, original: FunctionType, /, *args: Any, **kwargs: Any) -> Any:
    """Record a call with traced arguments as one operation, if its trace's context says so; else make it."""
    tracer = tracer_of(leaves_of(([arg for arg in args if type(arg) not in OWNERS], kwargs) if OWNERS else (args, kwargs)))
    if tracer is None or not (fn in FOREIGN or tracer.ctx.is_primitive(fn)):
        return original(*args, **kwargs)
    if isinstance(FOREIGN.get(fn), Op) or tracer.ctx.is_primitive(fn):
        op: Op = tracer.ctx.op(fn)
        return tracer.record(op, *_positional(original, args, kwargs))
    return apply(tracer, fn, args, kwargs, original)


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
