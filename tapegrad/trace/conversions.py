"""conversions: replaces `type`, `isinstance`, `float`, `np.float64` and the like in traced code by stand-ins.

C code makes a plain float of any argument, and Python looks the name `float` up at each call. Functions that a running
trace may reach therefore get code in which such names are replaced by names of stand-ins: `float` of a traced number is
a traced float, `type` of it is `float`. In the program's own code only `type`, `hasattr`, `getattr`, `isinstance`,
`super`, `RandomState` and the functions listed in `plain_arguments` are replaced: there `float(x)` is refused, and the
author can change the line. In installed packages, which users cannot change, `float`, `complex` and NumPy's inexact
classes are replaced as well, also where a variable holds the class, `dtype(x)`. `getattr`, `hasattr` and, in installed
packages, `sys.modules` report the names they look up to the trace's observer.
"""

from __future__ import annotations

import builtins
import dis
import functools
import re
import sys
import typing
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, ModuleType, UnionType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tapegrad import ops
from tapegrad.errors import ConcretizationError, user_location
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.tensors import is_tensor
from tapegrad.numbers.text import Text
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH
from tapegrad.trace.bytecode import (
    ATTRIBUTES,
    Step,
    argument,
    around,
    before,
    called_with,
    expanded,
    follows,
    is_attribute_of,
    name_in,
    places_of,
    uses_of_global,
    with_name,
)
from tapegrad.trace.guards import KINDS
from tapegrad.trace.identity import compared
from tapegrad.trace.number_methods import new_array, with_operators
from tapegrad.trace.observers import Modules, handed, named
from tapegrad.trace.plain_arguments import CALLED
from tapegrad.trace.views import peek
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import CODE, class_of, code_of
from tapegrad.tree.installed import is_installed


def to_float(*args: Any) -> Any:
    """Return `float(*args)`, a traced float for a traced real number."""
    x = _converted(args[0], "__float__") if len(args) == 1 else None
    if not isinstance(x, Traced) or not _carries(x) or shape_of(x):
        return x if type(x) is float else float(*args)
    x = _of_class(x)
    if not isinstance(x, Traced):
        return float(x)
    if type(plain(x)) in PYTHON:
        return x if type(plain(x)) is float else ops.multiply(x, 1.0)
    return DISPATCH[np.ndarray.item](x if dtype_of(x) == np.float64 else ops.astype(x, dtype=np.dtype(float)))


def to_complex(*args: Any, **kwargs: Any) -> Any:
    """Return `complex(*args)`, a traced complex number for traced numbers."""
    parts = [_converted(x, "__complex__") for x in (*args, *kwargs.values())]
    if not any(isinstance(x, Traced) and _carries(x, complex) for x in parts) or any(map(shape_of, parts)):
        return parts[0] if len(parts) == 1 and type(parts[0]) is complex else complex(*args, **kwargs)
    given = dict(zip((*("real", "imag")[:len(args)], *kwargs), parts))
    z: Any = ops.multiply(1.0 + 0j, given.get("real", 0.0))
    z = z if "imag" not in given else ops.add(z, ops.multiply(1j, given["imag"]))
    return z if type(plain(z)) is complex else DISPATCH[np.ndarray.item](z)


def of_type(dx: Traced, x: Any) -> Any:
    """Return a traced derivative with the type of `x`: a float for a Python number, an array for a 0-d array."""
    of, kind = type(plain(x)), type(plain(dx))
    if of in PYTHON and kind not in PYTHON:
        return (to_complex if of is complex else to_float)(dx)
    if issubclass(of, np.generic) and kind is np.ndarray:
        return dx[()]  # type: ignore[index]
    return ops.array(dx) if of is np.ndarray and kind is not np.ndarray else dx


def _to_inexact(cls: Any) -> Any:
    """Return the stand-in of a NumPy inexact class, which converts a traced number or array to a traced one."""
    def convert(*args: Any) -> Any:
        x = args[0] if len(args) == 1 else None
        if not isinstance(x, Traced) or not _carries(x, complex if issubclass(cls, np.complexfloating) else float):
            return cls(*args)
        x = _of_class(x)
        if not isinstance(x, Traced):
            return cls(x)
        x = ops.scalar(x) if type(plain(x)) in PYTHON else x
        x = x if dtype_of(x) == cls else ops.astype(x, dtype=np.dtype(cls))
        return x[()]  # type: ignore[index]
    return convert


def _converted(x: Any, name: str) -> Any:
    """Return the result of an object's `__float__` or `__complex__` if written in Python; other objects unchanged."""
    method = None if type(x) in PYTHON or isinstance(x, Traced) else getattr(type(x), name, None)
    return method(x) if type(method) is FunctionType else x


def to_type(*args: Any, **kwargs: Any) -> Any:
    """Return `type(*args)`; for a traced value the type of its value."""
    if len(args) != 1 or not isinstance(args[0], Traced):
        found = type(*args, **kwargs) if len(args) != 1 else class_of(args[0])
        return str if found is Text else found
    if hasattr(type(args[0]), "_viewed_as"):
        return type(args[0])._viewed_as  # type: ignore[attr-defined, no-any-return]
    found = type(plain(args[0]))
    args[0]._fact("class", KINDS.get(found, found))  # type: ignore[attr-defined]
    return found


def to_hasattr(x: Any, name: str, /) -> bool:
    """Return `hasattr(x, name)`; a traced value has the special methods of its value."""
    named(x, name)
    if isinstance(x, Traced) and _is_special(name):
        to_type(x)
        return hasattr(_seen(x), name)
    if isinstance(x, Traced) and type(name) is str and hasattr(type(plain(x)), name):  # the attribute is not read
        to_type(x)
        return True
    return hasattr(x, name)


def to_getattr(x: Any, name: str, /, *default: Any) -> Any:
    """Return `getattr(x, name)`; a traced value has the special methods of its value."""
    named(x, name)
    if isinstance(x, Traced) and _is_special(name):
        to_type(x)
        if not hasattr(_seen(x), name):
            return getattr(_seen(x), name, *default)
        if not hasattr(x, name):  # this attribute would expose its memory
            raise ConcretizationError(f"x.{name} exposes the plain numbers of a traced array, whose gradient would be "
                                      "lost", user_location(),
                                      "use NumPy functions that take arrays; tg.value(x) drops the gradient on purpose")
    found = getattr(x, name, *default)
    if issubclass(type(x), ModuleType):
        handed(found)
    return found


def to_isinstance(x: Any, kind: Any, /) -> bool:
    """Return `isinstance(x, kind)`; for a traced value the answer for its value."""
    cls = type(x)
    if not issubclass(cls, Traced) or hasattr(cls, "_viewed_as") or is_tensor(plain(x)) or kind in cls.__mro__:
        return isinstance(x, kind)
    if type(kind) in (tuple, UnionType):
        return any(to_isinstance(x, each) for each in (kind if type(kind) is tuple else kind.__args__))
    to_type(x)
    asks = getattr(type(kind), "__instancecheck__", None)
    if type(asks) is FunctionType and not is_foreign(asks.__module__):
        asks(kind, x)  # the program's own check, which may read the value: this records guards
    return isinstance(plain(x), kind)


def to_super(*args: Any) -> Any:
    """Return `super(*args)`; in an array class, a wrapper whose `__new__` accepts a traced array as the buffer."""
    if not args:
        frame = sys._getframe(1)
        args = frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]
    found = super(*args)
    return _Super(found) if issubclass(args[0], np.ndarray) and vars(np.ndarray)["__new__"] is found.__new__ else found


class _Super:
    """Stands for `super()` in a direct subclass of np.ndarray."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    @staticmethod
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls) if cls is _Super else new_array(cls, *args, **kwargs)


def _is_special(name: Any) -> bool:
    """Return whether an attribute is looked up on the value: names with a leading underscore but `_is_param`."""
    return type(name) is str and name[:1] == "_" and name != "_is_param"


def _seen(x: Any) -> Any:
    return type(x)._viewed_as if hasattr(type(x), "_viewed_as") else plain(x)


def to_class(cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call the class in a variable; `float`, `complex` and NumPy's inexact classes are replaced by their stand-ins."""
    meant = _INEXACT.get(cls, cls) if type(cls) is type else cls
    return meant(*args, **kwargs) if kwargs else meant(*args)  # gmpy2's classes refuse an empty dict of keywords


def _of_class(x: Any) -> Any:
    """Return a traced array of a program's class as plain numbers, since the class may define its own conversion."""
    return x if not hasattr(type(x), "_viewed_as") else x._plain() if shape_of(x) else x._number()


def _carries(x: Any, into: type = float) -> bool:
    """Return whether a traced value may have a gradient and converts to `into` (float or complex)."""
    value = plain(x)
    return (isinstance(value, (int, float, complex, np.ndarray, np.generic))
            and (into is complex or not np.iscomplexobj(value)) and not x._tracer.independent(peek(x)))


# classes and functions, whose hash runs no code of the program
_NAMEABLE = frozenset([type, FunctionType, BuiltinFunctionType])
CALLED.update({type: to_type, hasattr: to_hasattr, getattr: to_getattr, isinstance: to_isinstance, super: to_super})
_INEXACT: dict[Any, Any] = {float: to_float, complex: to_complex, **{cls: _to_inexact(cls) for cls in (
    np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.clongdouble)}}
"""Stand-ins that are used in code of installed packages only."""
_BUILTINS = [name for name, x in vars(builtins).items() if type(x) in _NAMEABLE and (x in CALLED or x in _INEXACT)]
_MODULES = "_modules, as tapegrad hears of them"  # attribute of sys


class Conversion(NamedTuple):
    """A function, its own code, and the code with stand-ins that it has while a trace may reach it."""

    fn: FunctionType
    own: CodeType
    made: CodeType


class Conversions:
    """The conversions of the functions that a trace may reach, started and ended together: a package has thousands.

    A function keeps the new code while any started group has its conversion. Callers hold a lock.
    """

    def __init__(self, found: Iterable[Conversion]) -> None:
        self.all = (*found,)
        self.functions, self.own, self.made = zip(*self.all)
        self.count = 0

    @functools.cached_property
    def ids(self) -> frozenset[int]:
        """The ids of the conversions."""
        return frozenset(map(id, self.all))

    def begin(self) -> None:
        """Give the functions their new code, unless another conversion is in place."""
        self.count += 1
        if self.count > 1:
            return
        _begun.append(self)
        if all(map(is_, map(_CODE_OF, self.functions), self.own)):
            _give(self.functions, self.own, self.made)
        elif found := [each for each in self.all if each.fn.__code__ is each.own]:
            _give(*zip(*found))

    def end(self) -> None:
        """Restore the functions' own code, except where another started group needs the new one."""
        self.count -= 1
        if self.count:
            return
        _begun.remove(self)
        if not _begun and all(map(is_, map(_CODE_OF, self.functions), self.made)):
            _give_back(self.functions, self.own)
        elif found := [each for each in self.all if each.fn.__code__ is each.made
                       and not any(id(each) in other.ids for other in _begun)]:
            _give_back(*[*zip(*found)][:2])


_CODE_OF = attrgetter("__code__")
_begun: list[Conversions] = []


def _give(functions: Sequence[FunctionType], own: Sequence[CodeType], made: Sequence[CodeType]) -> None:
    CODE.update(zip(functions, own))
    any(map(setattr, functions, repeat("__code__"), made))  # one loop in C, since every trace does it


def _give_back(functions: Sequence[FunctionType], own: Sequence[CodeType]) -> None:
    any(map(setattr, functions, repeat("__code__"), own))
    all(map(CODE.pop, functions))


@functools.lru_cache(maxsize=32)
def merged(*several: Conversions) -> Conversions:
    """Return the union of several groups of conversions."""
    return Conversions({id(each): each for part in several for each in part.all}.values())


_known: WeakKeyDictionary[FunctionType, tuple[tuple[Any, ...], Conversion | None]] = WeakKeyDictionary()
ORIGINAL: dict[CodeType, CodeType] = {}  # by new code: the code it was made from


def reports_computed_names(code: CodeType) -> bool:
    """Return whether code reports every name that it computes for `getattr`, `hasattr` and `sys.modules`."""
    return code in ORIGINAL and _COMPUTING.isdisjoint(code.co_names)


_COMPUTING = frozenset(["getattr", "hasattr", "modules"])


def conversion(fn: FunctionType) -> Conversion | None:
    """Return the conversion of a function, None if its code needs none."""
    if _is_own(fn.__module__):
        return None
    code = code_of(fn)
    scope = fn.__globals__
    meant = (code, *map(id, map(scope.get, _BUILTINS)))  # the program may rebind such a name
    own, found = _known.get(fn, (None, None))
    if own != meant:
        made = _renamed(code, scope, is_installed(code.co_filename))
        found = None if made is code else Conversion(fn, code, made)
        _known[fn] = meant, found
    return found


def check_waiting(x: GeneratorType[Any, Any, Any], scope: dict[str, Any]) -> None:
    """Refuse a suspended generator whose code would need a conversion: it keeps the code that it started with."""
    code = x.gi_code
    if not _is_own(scope.get("__name__")) and code not in ORIGINAL and _renamed(
            code, scope, is_installed(code.co_filename)) is not code:
        raise ConcretizationError(f"{x.__qualname__} ({code.co_filename}:{code.co_firstlineno}), a generator that was "
                                  "started before the trace, reads types or compares by `is`: it would see traced "
                                  "values instead of plain ones", user_location(), "start it in the traced function")


def converted(fn: FunctionType) -> CodeType:
    """Return the code that a function has while a trace may reach it."""
    found = conversion(fn)
    return code_of(fn) if found is None else found.made


def _is_own(module: Any) -> bool:
    """Return whether functions of a module keep their code."""
    return not str(module).startswith("networkx.") and (is_foreign(module) or str(module).startswith("mpmath."))


def _renamed(code: CodeType, scope: dict[str, Any], installed: bool) -> CodeType:
    """Return code, with its nested code, that names stand-ins; the same object if nothing is replaced."""
    names, changed = code.co_names, bytearray(code.co_code)
    for name, fn in _stand_ins(code, scope, installed).items():
        uses, called = _uses(code, name, scope, fn)
        if len(called) == uses:
            names = tuple(_label(fn) if other == name else other for other in names)
        elif len(names) < 128:  # `isinstance(x, type)` keeps the name, and the calls use an additional one
            for offset in called:
                changed[offset + 1] = with_name(code.co_code[offset], code.co_code[offset + 1], len(names))
            names = (*names, _label(fn)) if called else names
    if installed and "modules" in names and scope.get("sys") is sys and is_attribute_of(code, "modules", "sys"):
        names = tuple(_MODULES if name == "modules" else name for name in names)
        vars(sys).setdefault(_MODULES, Modules())  # permanent: only converted code uses this name
    parts = old = code.co_consts
    if CodeType in map(type, old):
        parts = tuple(_renamed(part, scope, installed) if type(part) is CodeType else part for part in old)
    instead = _calls_of_variables(code, len(parts)) if installed and len(parts) < 256 else {}
    if names == code.co_names and not instead and all(map(is_, parts, old)):
        made = with_operators(compared(code))
        if made is not code:
            ORIGINAL[made] = code
        return made
    consts = (*parts, to_class) if instead else parts
    longer = {at: [Step(at, at + 2, *new, 0) for new in several] for at, several in instead.items()}
    if max(map(len, longer.values()), default=1) == 1:
        for at, [(opcode, arg)] in instead.items():
            changed[at:at + 2] = opcode, arg
        longer = {}
    made = code.replace(co_names=names, co_consts=consts, co_code=bytes(changed))
    made = with_operators(compared(expanded(made, longer, consts) if longer else made))
    ORIGINAL[made] = code
    return made


def _uses(code: CodeType, name: str, scope: dict[str, Any], fn: Any) -> tuple[int, list[int]]:
    """Return how many instructions use a name, and the offsets of those that begin a call of `fn`."""
    quickly = None if fn is super or "map" in scope else uses_of_global(code, name)
    if quickly is None:
        uses = places_of(code, name)
        return len(uses), [2 * at for at in uses if _calls(code, at, scope, fn)]
    known = scope.get(name, vars(builtins).get(name)) is fn
    return len(quickly), [2 * place for place, called in quickly if called and known]


def _stand_ins(code: CodeType, scope: dict[str, Any], installed: bool) -> dict[str, Any]:
    """Return, by name in the code, the class or function with a stand-in that it leads to, as a global or as an
    attribute of a module that a global holds. The last of two with the same name wins.
    """
    found, names, built_in = dict[str, Any](), code.co_names, vars(builtins)
    for name, value in zip(names, map(scope.get, names, map(built_in.get, names))):
        places: Iterable[tuple[dict[str, Any], str, Any]] = ()
        if type(value) in _NAMEABLE:
            places = [(built_in, name, value)]
        elif issubclass(type(value), ModuleType):
            places = [(vars(module), part, fn) for module in (value, *([np.random] if value is np else []))
                      for part, fn in zip(names, map(vars(module).get, names)) if type(fn) in _NAMEABLE]
        for space, part, fn in places:
            there = CALLED.get(fn) or (_INEXACT.get(fn) if installed else None)
            if there is None or (part != fn.__name__ and (fn in _INEXACT or fn.__module__ == "builtins")):
                continue  # an alias, as a package's DTYPE, may be rebound before the call
            if not (fn is super and "__new__" not in names) and not (
                    fn is isinstance and installed and not _names_protocols(code, scope)):
                found[part] = fn
                space[_label(fn)] = there  # permanent: only converted code uses this name
    return found


def _label(fn: Any) -> str:
    """Return the name under which code finds the stand-in of a class or a function."""
    return f"_{fn.__module__}.{fn.__name__}, as tapegrad calls it"


def _names_protocols(code: CodeType, scope: dict[str, Any]) -> bool:
    """Return whether code names a protocol class (`typing.Protocol`)."""
    names = code.co_names
    return any(issubclass(type(value), type) and getattr(value, "_is_protocol", False)
               for value in map(scope.get, names, map(vars(typing).get, names)))


# A call of a variable has a slot for a method's object, before the callable or, from Python 3.13 on, after it:
# `to_class` is called as a method of the variable.
_LOADS = [dis.opmap[name] for name in ("LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST")
          if name in dis.opmap]
_SECOND = sys.version_info >= (3, 13)
_NULL = re.escape(bytes([dis.opmap.get("PUSH_NULL", 0)]))
_LOAD = b"[" + re.escape(bytes(_LOADS)) + b"]"
_VARIABLE = re.compile(b"(?=" + (_LOAD + b"." + _NULL if _SECOND else _NULL + b"." + _LOAD) + b")", re.DOTALL) \
    if (3, 11) <= sys.version_info < (3, 14) else None


def _calls_of_variables(code: CodeType, place: int) -> dict[int, list[tuple[int, int]]]:
    """Return, by offset, the instructions that replace one-argument calls of a variable: they call `to_class`, constant
    number `place`, with the variable as its first argument.
    """
    units, found = code.co_code, dict[int, list[tuple[int, int]]]()
    const, fast = (dis.opmap[name] for name in ("LOAD_CONST", "LOAD_FAST"))
    for match in _VARIABLE.finditer(units) if _VARIABLE is not None else ():
        if (at := match.start()) % 2 or (at and units[at - 2] == dis.EXTENDED_ARG):
            continue
        count = called_with(code, at // 2 + 1)
        if (_called_in_text(code, at + 2) if count is None else count) != 1:
            continue
        null, step = (at + 2, at) if _SECOND else (at, at + 2)
        opcode, arg = units[step:step + 2]
        load = [(opcode, arg)]
        if len(names := dis.opname[opcode].split("_FAST")) > 2:  # two loads in one instruction
            load = [(dis.opmap[f"{names[0]}_FAST"], arg >> 4), (fast, arg & 15)]
        found[null] = [load[-1]] if _SECOND else [(const, place)]
        if _SECOND:
            found[step] = [*load[:-1], (const, place)]
    return found


def _called_in_text(code: CodeType, offset: int) -> int:
    """Return the number of arguments of the call whose callable an instruction loads, found by source positions because
    jumps may intervene; -1 if the callable is not called.
    """
    call = around(code, offset // 2, offset // 2)[:1]
    return argument(code, call[0]) if call and _opname(code, call[0]) in ("PRECALL", "CALL") else -1


def _opname(code: CodeType, place: int) -> str:
    return dis.opname[code.co_code[2 * place]]


def _calls(code: CodeType, at: int, scope: dict[str, Any], fn: Any) -> bool:
    """Return whether a use of a name is a call of `fn`, or passes `fn` to `map`."""
    opcodes, way = code.co_code[::2], [at]
    while way[0] > 0 and opcodes[way[0]] in ATTRIBUTES:
        way.insert(0, before(opcodes, way[0]))
    if _opname(code, way[0]) != "LOAD_GLOBAL":
        return False
    name, *parts = (name_in(code, place) for place in way)
    owned = scope.get(name) if parts else scope.get(name, getattr(builtins, name, None))
    for part in parts:  # `np.random.RandomState`
        is_module = owned is np or (part == parts[-1] and issubclass(type(owned), ModuleType))
        owned = vars(owned).get(part) if is_module else None
    if owned is not fn:
        return False
    if follows(code, way[0], "map"):
        return "map" not in scope  # `map(type, xs)`, which calls it
    # LOAD_SUPER_ATTR for `super()` before an attribute is preceded by LOAD_DEREF of the class, where others have a call
    return any(_opname(code, place).startswith(("CALL", "PRECALL", "LOAD_SUPER", "LOAD_DEREF"))
               for place in around(code, way[0], at))
