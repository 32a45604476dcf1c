"""Proxy: the object that a traced function sees in place of a number or an array."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import INTERNAL, one, unknown
from tapegrad.numbers.cotangents import dtype_of, kind_of, largest_fraction, shape_of
from tapegrad.numbers.formatting import plain as behind
from tapegrad.numbers.kinds import DType, is_generator
from tapegrad.numbers.systems import SYSTEMS, computes, decline, is_operator, system_of, truth
from tapegrad.numbers.tensors import ORDINARY, is_memory, is_tensor
from tapegrad.numbers.text import formats, words_error
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import PROXIES, Op, Slotted, Traced, is_classed, tracer_of
from tapegrad.rules.registry import DISPATCH, refused
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import NO_KWARGS, Call, Operation
from tapegrad.trace import views
from tapegrad.trace.call_arguments import answers_ufuncs, content, shown_arrays
from tapegrad.trace.concretize import asked, looks_up, lost, pickled, rounded_to, torch_asks
from tapegrad.trace.dispatch import apply, by_ufunc, compute, plain
from tapegrad.trace.eval_text import shown_number, shown_text
from tapegrad.trace.guards import KINDS
from tapegrad.trace.methods import Method, missed, shown
from tapegrad.trace.plain_arguments import gives_up, loses
from tapegrad.trace.recorder import Tracer

_new = object.__new__
_set_class = object.__dict__["__class__"].__set__  # Proxy overrides __class__


class Proxy(Slotted):
    """A traced value: it has the type, methods and operators of its value, and records what is done with it.

    `_op` is its operation, `_val` the real value, `_tracer` its recorder. Only operators, protocols and special methods
    that Python looks up on classes live here: other methods and functions are found in the registry.
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    def __new__(cls, *args: Any) -> Any:
        raise refused("type(x)(...)", "the type of a traced value cannot be called",
                      "float(y), np.array(y), or another type by its name")

    # -- NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        try:
            op = DISPATCH.get(ufunc)
            if method == "__call__" and not kwargs and type(op) is Op and type(op.rule) is not Rrule:
                if len(inputs) == 2 and (y := record_beside(op, ufunc, *inputs)) is not None:
                    return y
                if len(inputs) > 1 and any(map(is_classed, inputs)):
                    return DISPATCH["by_class"](self._tracer, ufunc, method, inputs, kwargs)
                if op.pythonic and all(isinstance(behind(x), (int, float, complex)) and not hasattr(behind(x), "dtype")
                                       for x in inputs):
                    # NumPy's arithmetic is not Python's: 1 / 0 is inf, (-8) ** (1 / 3) is nan
                    inputs = tuple(ops.scalar(x) if isinstance(x, Proxy) else x for x in inputs)
                    tracer = tracer_of(inputs)
                    return tracer.record(op, inputs, kwargs, ufunc(*[plain(x, tracer) for x in inputs]))
                if len(inputs) == 1:
                    return record_unary(self, op, ufunc)
                if list not in (kinds := {*map(type, inputs)}) and tuple not in kinds:
                    if not kinds <= PROXIES | ORDINARY and (inputs := shown_arrays(inputs)) is None:
                        return NotImplemented  # NumPy tries the next operand's method
                    tracer = tracer_of(inputs)
                    if op is ops.pow and dtype_of(behind(inputs[0])) == np.bool_ and type(behind(inputs[1])) is int:
                        # `**`, which a replay calls, promotes bools to small integers
                        inputs = ops.astype(inputs[0], dtype=np.dtype(int)), inputs[1]
                    val = UNKNOWN if tracer.followed else compute(tracer, ufunc, *[plain(x, tracer) for x in inputs])
                    return tracer.record(op, inputs, kwargs, val)
            if any(map(is_classed, (*inputs, *kwargs.get("out", ())))):
                return DISPATCH["by_class"](self._tracer, ufunc, method, inputs, kwargs)
            return by_ufunc(ufunc, method, inputs, kwargs)
        except Exception as err:
            self._tracer.raised(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs, err)
            raise

    def __array_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...],
                           kwargs: dict[str, Any]) -> Any:
        return apply(self._tracer, func, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        return DISPATCH["torch"](func, args, kwargs or {})

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.array(content(self, _getframe(1)), *args, copy=kwargs.get("copy") or None)

    def _stand(self, view: views.View) -> None:
        """Make this proxy a view of a storage that other proxies may share."""
        self._view = view
        _set_class(self, Tracked)

    # -- attributes and methods: those of the real value, found in the registry

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[misc, override]
        # isinstance(x, np.ndarray) holds for a proxy of one; a guard records the answer where the program reads it
        cls = self._val.__class__
        if (frame := _getframe(1)).f_code.co_filename not in INTERNAL:
            if computes(frame, behind(self._val)):
                return Proxy
            self._fact("class", KINDS.get(cls, cls))
        return cls  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name in Slotted.__slots__:  # another thread is making this proxy
            raise AttributeError(name)
        val = behind(self._val)
        if name.startswith(("__array_", "_mp")) or name == "__dlpack__":
            if name == "__array_namespace__":
                return val.__array_namespace__
            if name == "_mpmath_" and not is_operator(_getframe(1)):
                raise lost(self, "a function of mpmath asked for a plain number",
                           "a function of mpmath that tapegrad supports, called with an mpf; leave mpf(x) out; "
                           "tg.value(x) drops the gradient on purpose")
            if name == "__array_interface__" and name in _getframe(1).f_code.co_names:  # else NumPy's C code reads it
                raise lost(self, f"x.{name} exposes the array's memory",
                           "a method `__array__`; tg.value(x) drops the gradient on purpose")
            raise AttributeError(name)  # NumPy then calls __array__, and mpmath's operators use the traced number
        try:
            found = getattr(val, name)
        except AttributeError:  # possibly a hasattr() of the program
            if (_getframe(1).f_code.co_filename not in INTERNAL
                and (instead := missed(self, type(val), name)) is not None):
                return instead
            raise
        owner = np.ndarray if isinstance(val, np.generic) else type(val)
        key = getattr(owner, name, None)
        meaning = DISPATCH.get(key) if key is not None and getattr(key, "__hash__", None) else None
        if meaning is None and (known := system_of(type(val))) is not None:
            return shown(self, known, name)
        if meaning is None:
            # `n.bit_length()`: of the plain integer, so the gradient is None
            if isinstance(val, (int, np.integer)) and (not loses(self) or gives_up(self)):
                self._steer("int", int)
                return found
            if name in _STATIC_ATTRIBUTES and isinstance(val, (np.ndarray, np.generic)):
                self._fact("shape", shape_of(val))
                self._fact("dtype", dtype_of(val))
                for fact in {"flags": ("strides", "writeable"), "strides": ("strides",)}.get(name, ()):
                    self._fact(fact, bool(found.writeable) if fact == "writeable" else val.strides)
                return found
            raise unknown(key if key is not None else found, f"{owner.__name__}.{name}")
        if not callable(found) or type(key).__name__ == "getset_descriptor":
            return meaning(self)
        return Method(self, meaning, f"{owner.__name__}.{name}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape. Reading it records a guard, since the program may branch on it."""
        return self._fact("shape", self._val.shape)  # type: ignore[no-any-return]

    @shape.setter
    def shape(self, shape: Any) -> None:
        if any(x is self for x in self._tracer.inputs):
            raise refused("x.shape = ... of an argument",
                          "it would change the shape of the caller's array in place",
                          "x = x.reshape(...)")
        y = DISPATCH[np.ndarray.reshape](self, shape)
        if not np.may_share_memory(behind(y), behind(self)) and y.size:
            raise AttributeError("Incompatible shape for in-place modification. Use `.reshape()` to make a copy with "
                                 "the desired shape.")
        for kept in ("_op", "_val", "_view"):
            vars(Slotted)[kept].__set__(self, vars(Slotted)[kept].__get__(y))
        _set_class(self, type(y))

    @property
    def ndim(self) -> int:
        return self._fact("ndim", self._val.ndim)  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        self._fact("shape", self._val.shape)
        return int(self._val.size)

    @property
    def dtype(self) -> Any:
        return self._fact("dtype", self._val.dtype)

    @dtype.setter
    def dtype(self, dtype: DType) -> None:
        raise refused("x.dtype = ...", "it would reinterpret the array's memory in place", "x = x.astype(...)")

    @property
    def _shape(self) -> tuple[int, ...]:
        val, tracer = self._val, self._tracer
        if type(val) is np.ndarray and tracer.special and not tracer.dynamic:
            return val.shape  # type: ignore[no-any-return]  # guarded already
        if not hasattr(behind(self), "shape"):
            return ()
        self._tracer.specialise(self)
        return shape_of(self._val)

    @property
    def _dtype(self) -> Any:
        val, tracer = self._val, self._tracer
        if type(val) is np.ndarray and tracer.special and not tracer.dynamic:
            return val.dtype
        self._tracer.specialise(self)
        if not hasattr(behind(self), "dtype"):
            return None
        return dtype_of(self._val)

    # `z.imag = x` writes through the view `z.imag`
    real = property(lambda self: self.__getattr__("real"), lambda self, value: self.real.__setitem__(Ellipsis, value))
    imag = property(lambda self: self.__getattr__("imag"), lambda self, value: self.imag.__setitem__(Ellipsis, value))
    flat = property(lambda self: self.__getattr__("flat"),
                    lambda self, value: self.flat.__setitem__(slice(None), value))

    def _fact(self, fact: str, value: Any) -> Any:
        self._tracer.guard(views.known(self), fact, value)
        return value

    # -- conversions to plain values: control dependences, guarded on the tape

    def __bool__(self) -> Any:
        return self._steer("bool", truth)

    def __int__(self) -> Any:
        return self._whole("int", int)

    def __index__(self) -> Any:
        # an array has no index: NumPy calls this before it reads the array
        if shape_of(self._val) and self.shape:
            return operator.index(behind(self))
        return self._steer("index", operator.index)

    def __hash__(self) -> Any:
        val = behind(self)
        digits = isinstance(val, (float, complex, np.generic)) and kind_of(val, "f") in ("f", "c")
        if (digits or system_of(type(val)) is not None) and loses(self) and not (looks_up() and gives_up(self)):
            raise lost(self, "hash(x) was called, as by a dict, a set or functools.lru_cache",
                        "use tg.value(x) as the key; call the function without its cache: f.__wrapped__(x)")
        return self._steer("hash", hash)

    def __floor__(self) -> Any:
        return self._whole("floor", math.floor)

    def __ceil__(self) -> Any:
        return self._whole("ceil", math.ceil)

    def __trunc__(self) -> Any:
        return self._whole("trunc", math.trunc)

    def __round__(self, ndigits: int | None = None) -> Any:
        if ndigits is None:
            return self._whole("round", round)
        op, key = (ops.round_number, "ndigits") if type(self._val) in (float, int, bool) else (ops.round, "decimals")
        return self._tracer.record(op, (self,), {key: (n := rounded_to(self, ndigits))}, round(self._val, n))

    def _steer(self, fact: str, read: Callable[[Any], Any]) -> Any:
        value = self._ask(read, self._val)
        self._tracer.guard(views.peek(self), fact, value)
        return value

    def _ask(self, fn: Callable[[Any], Any], val: Any) -> Any:
        try:
            return fn(val)
        except Exception as err:
            self._tracer.raised(fn, (self,), NO_KWARGS, err)
            raise

    def _whole(self, fact: str, read: Callable[[Any], Any]) -> Any:
        """Return a rounded integer; refuse a number too large to have a fraction, whose gradient would be lost."""
        val = behind(self)
        large = not isinstance(val, (int, np.ndarray, np.integer)) and abs(val) >= largest_fraction(val)
        if large and loses(self) and not gives_up(self):
            self._ask(read, val)  # OverflowError for infinities
            raise lost(self, f"{fact}(x) of a number so large that it has no fractional digits",
                       "np.floor(x), or tg.value(x) for the plain number")
        return self._steer(fact, read)

    def __float__(self) -> float:
        if isinstance(behind(self), complex) and torch_asks():
            raise asked(self, "a plain number")
        self._try(float)
        if loses(self):
            if formats(_getframe(1)):
                return shown_number(self, _getframe(1))
            if not gives_up(self):
                raise asked(self, "a plain float")
        return self._plainly("float", float)  # type: ignore[no-any-return]

    def _try(self, fn: Callable[[Any], Any]) -> None:
        """Raise the error of the plain value, if an array or a complex number is converted to one real number."""
        decline(behind(self), _getframe(2))
        if isinstance(behind(self), (np.ndarray, complex)):
            self._ask(fn, behind(self))

    def __complex__(self) -> complex:
        self._try(complex)
        if loses(self) and not gives_up(self):
            raise asked(self, "a plain complex number")
        return self._plainly("complex", complex)  # type: ignore[no-any-return]

    def _plainly(self, fact: str, read: Callable[[Any], Any]) -> Any:
        return read(self._val) if self._tracer.independent(views.peek(self)) else self._steer(fact, read)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return pickled(self, protocol)

    def __getstate__(self) -> Any:
        return self.__reduce_ex__(2)

    def __copy__(self) -> Any:
        if isinstance(behind(self), np.ndarray):
            return ops.copy(self)
        if is_generator(behind(self)):
            raise lost(self, "a random generator was copied", "make two generators, each with its own seed")
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        views.check_copied_once(self, memo)
        return self.__copy__()

    # -- text: shows the value and records nothing; the text of an integer may become a name, so it is guarded

    def __repr__(self) -> str:
        # the program sees the plain value; tapegrad's messages, and uses after the trace, see the proxy
        frame, val = _getframe(1), behind(self)
        if isinstance(val, _NAMES) or not (self._tracer.closed or frame.f_code.co_filename in INTERNAL):
            return repr(val) if words_error(frame) else self._as_text(repr(val))
        return f"Proxy({views.label(self)}: {self._val!r})"

    def __str__(self) -> str:
        return self._as_text(str(behind(self)))

    def __format__(self, spec: str) -> str:
        return self._as_text(format(behind(self), spec))

    def _as_text(self, found: str) -> str:
        if not isinstance(behind(self), _NAMES):
            return shown_text(self, found)
        if not self._tracer.closed:
            self._steer("int", int)
        return found

    # -- operators

    def __divmod__(self, other: Any) -> Any:
        return np.divmod(self, other) if answers_ufuncs(type(other)) else (self // other, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


# they depend on shape and dtype, not on values
_STATIC_ATTRIBUTES = frozenset(["device", "flags", "itemsize", "nbytes", "strides"])


class Scalar(Proxy):
    """A proxy of a NumPy scalar, which can be indexed (`x[..., None]`) but is no sequence."""

    __slots__ = ()
    __iter__: Any = None

    def __getitem__(self, index: Any) -> Any:
        try:
            return DISPATCH[operator.getitem](self, index)
        except Exception as err:
            self._tracer.raised(operator.getitem, (self, index), NO_KWARGS, err)
            raise


class Items(Scalar):
    """A proxy of an array. Proxies of numbers have no `__len__`, because a program may test for it by `hasattr`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        length = len(self._val)
        if type(self._val) is not tuple:  # a loop's value, whose number of runs is fixed
            self._fact("shape", self._val.shape)
        return length

    def __iter__(self) -> Iterator[Any]:
        if getattr(self._val, "ndim", 0) == 0:
            iter(self._val)  # TypeError as the real value would raise it
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __setitem__(self, index: Any, value: Any) -> None:
        try:
            DISPATCH[operator.setitem](self, index, value)
        except Exception as err:
            self._tracer.raised(operator.setitem, (self, index, value), NO_KWARGS, err)
            raise


_NAMES = (int, np.integer, np.bool_)  # types whose text may become a name
_NUMBERS = (float, int, complex, bool, *SYSTEMS)
CLASSES: dict[type, type[Proxy]] = {**dict.fromkeys(_NUMBERS, Proxy), **dict.fromkeys(np.sctypeDict.values(), Scalar)}
CLASSES |= {cls: cls for cls in (Proxy, Scalar, Items)}  # proxies of an outer trace
UNTRACKED = frozenset([Proxy, Scalar, Items])
TENSORS: list[Callable[..., Any]] = []  # constructors of proxies of tensors; torch's frontend fills it when imported


class Tracked(Items):
    """A proxy of an array that has views, is one, or was written to: its operation is computed when it is read."""

    __slots__ = ()
    _op = property(views.op_of)
    _val = property(views.val_of)


PROXIES.update([Proxy, Scalar, Items, Tracked])


def make(op: Operation | None, val: Any, tracer: Tracer, origin: Any = ()) -> Proxy:
    """Make the proxy of an operation; `op` may be None for a pending view of a storage.

    `origin` holds the arguments of the call that computed `val`, or is the View that the proxy becomes; () for neither.
    """
    if type(val) not in ORDINARY and is_tensor(val):
        proxy = TENSORS[0](op, val, tracer)
    elif type(val) not in CLASSES and system_of(type(val)) is not None:
        CLASSES[type(val)] = Proxy
        return make(op, val, tracer, origin)
    else:
        proxy = _new(CLASSES.get(type(val), Items))
        proxy._op, proxy._val, proxy._tracer, proxy._view = op, val, tracer, None
    if type(origin) is views.View:
        proxy._stand(origin)
    elif type(op) is Call and isinstance(op.fn, Op) and (op.fn.memory.of == 0 or op.fn.memory.blank) and is_memory(val):
        if op.fn.memory.blank:
            proxy._stand(views.View(views.Storage(op, val, owned=True)))
        elif origin and isinstance(origin[0], Traced) and origin[0]._tracer is tracer:
            views.alias(proxy, origin[0])
    return proxy  # type: ignore[no-any-return]


def record_unary(x: Proxy, op: Op, fn: Callable[[Any], Any]) -> Any:
    tracer = x._tracer
    if tracer.custom:
        return tracer.record(op, (x,), NO_KWARGS, compute(tracer, fn, x._val) if type(x._val) in ORDINARY else UNKNOWN)
    y = fn(x._val)
    if type(y) is tuple:
        return tracer.record(op, (x,), NO_KWARGS, y)
    return recorded(tracer, op, (x._op,), y)


def as_bool(y: Any, frame: FrameType) -> Any:
    """Return a comparison's result for the program: a guarded bool for Python's numbers (it may test `flag is True`), a
    traced value for NumPy's.
    """
    plainly = type(y) is Proxy and type(behind(y._val)) is bool and frame.f_code.co_filename not in INTERNAL
    return bool(y) if plainly else y


def record_beside(op: Op, fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Record a binary call of a proxy and an untraced array, in either order; return None for other operands."""
    x, array = (b, a) if type(a) is np.ndarray else (a, b)
    if type(array) is not np.ndarray or type(x) not in PROXIES or x._tracer.custom:
        return None
    tracer = x._tracer
    y = fn(array, x._val) if array is a else fn(x._val, array)
    if tracer.once is not None:
        tracer.meet(y)
    # a number of another system gives an array of objects, which `record` refuses
    if tracer.custom or type(y) is tuple or type(x._val) not in ORDINARY:
        return tracer.record(op, (a, b), NO_KWARGS, y)
    return recorded(tracer, op, (tracer.lift(a), x._op) if array is a else (x._op, tracer.lift(b)), y)


def recorded(tracer: Tracer, op: Op, args: tuple[Any, ...], y: Any, kwargs: dict[str, Any] = NO_KWARGS,
             view: views.View | None = None) -> Any:
    """Record a call and return its proxy: the fast path of `record` for a number, an array with its own memory, or a
    view.
    """
    frame = _getframe(2)
    while frame.f_code.co_filename in INTERNAL:
        frame = frame.f_back  # type: ignore[assignment]
    call = _new(Call)
    call.fn, call.args, call.kwargs, call.val, call.origin, call.pb = op, args, kwargs, y, None, None
    lasti = frame.f_lasti
    call.code, call.lasti, call.id = frame.f_code, one(lasti, lasti), len(tracer.tape.ops) + 1
    tracer.push(call)
    proxy = _new(CLASSES.get(type(y), Items))
    proxy._op, proxy._val, proxy._tracer, proxy._view = call, y, tracer, None
    if view is not None:
        proxy._stand(view)
    return proxy
