"""operators: Python's operators on proxies, each made from a template.

This is the hot path of a trace: calls are built in place, slot by slot, because a constructor's frame would double the
cost; the source line stays raw and is resolved on request.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable
from sys import _getframe
from types import FunctionType
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import INTERNAL, UnknownFunction, one, user_location
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain as plain_value
from tapegrad.numbers.systems import is_numeric
from tapegrad.numbers.tensor_array import TensorArray
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Op, Traced, is_classed, tracer_of
from tapegrad.rules.registry import DISPATCH, refused
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import NO_KWARGS, Call
from tapegrad.trace import writes
from tapegrad.trace.call_arguments import ARRAYS, answers_ufuncs, comes_first, shown_array
from tapegrad.trace.concretize import lost
from tapegrad.trace.dispatch import compute, plain
from tapegrad.trace.plain_arguments import gives_up, loses
from tapegrad.trace.proxy import (
    CLASSES,
    UNTRACKED,
    Items,
    Proxy,
    Tracked,
    as_bool,
    record_beside,
    record_unary,
    recorded,
)
from tapegrad.tree.attributes import HEAP
from tapegrad.tree.flatten import is_leaf

_new = object.__new__
_COMPARE_OP = dis.opmap["COMPARE_OP"]
_asarray = np.asarray  # saved: NumPy's name is replaced while a trace runs

# Types of values that calls hold as they are: small, immutable, known to every operator.
_INLINE = frozenset([float, int, complex, bool, np.float64, np.float32, np.int64, np.bool_])


def _unary(op: Op, fn: Any) -> Callable[[Proxy], Any]:
    return lambda self: record_unary(self, op, fn)


def _binary(op: Op, fn: Callable[[Any, Any], Any]) -> Callable[[Proxy, Any], Any]:
    def method(self: Proxy, other: Any) -> Any:
        tracer = self._tracer
        kind = type(other)
        try:
            if tracer.custom:
                return _record_binary(op, fn, self, other, other)
            if kind in UNTRACKED and other._tracer is tracer:
                arg, y = other._op, fn(self._val, other._val)
            elif kind in _INLINE:
                arg, y = other, fn(self._val, other)
            elif kind is Tracked and other._tracer is tracer:
                y = fn(self._val, other._val)
                return recorded(tracer, op, (self._op, other._op), y)
            else:
                return _record_binary(op, fn, self, other, other)
        except Exception as err:
            tracer.raised(fn, (self, other), NO_KWARGS, err)
            raise
        frame = _getframe(1)
        while frame.f_code.co_filename in INTERNAL:
            frame = frame.f_back  # type: ignore[assignment]
        call = _new(Call)
        call.fn, call.args, call.kwargs, call.val, call.origin, call.pb = op, (self._op, arg), NO_KWARGS, y, None, None
        lasti = frame.f_lasti
        call.code, call.lasti, call.id = frame.f_code, one(lasti, lasti), len(tracer.tape.ops) + 1
        tracer.push(call)
        proxy = _new(CLASSES.get(type(y), Items))
        proxy._op, proxy._val, proxy._tracer, proxy._view = call, y, tracer, None
        return proxy
    return method


def _comparison(compare: Callable[[Proxy, Any], Any]) -> Callable[[Proxy, Any], Any]:
    def method(self: Proxy, other: Any) -> Any:
        return as_bool(compare(self, other), _getframe(1))
    return method


def _equality(compare: Callable[[Proxy, Any], Any]) -> Callable[[Proxy, Any], Any]:
    def method(self: Proxy, other: Any) -> Any:
        y = as_bool(compare(self, other), frame := _getframe(1))
        if (y is False or type(y) is Proxy) and (known := plain_value(self)) != known and known is plain_value(other) \
                and frame.f_code.co_code[frame.f_lasti] != _COMPARE_OP:
            raise lost(self, "a list, tuple or dict was searched for nan, which is compared by identity", "np.isnan(x)")
        return y
    return method


def _reflected(op: Op, fn: Callable[[Any, Any], Any]) -> Callable[[Proxy, Any], Any]:
    def method(self: Proxy, other: Any) -> Any:
        tracer = self._tracer
        try:
            if type(other) in _INLINE and not tracer.custom:
                return recorded(tracer, op, (other, self._op), fn(other, self._val))
            return _record_binary(op, fn, other, self, other)
        except Exception as err:
            tracer.raised(fn, (other, self), NO_KWARGS, err)
            raise
    return method


_ITEMS = ("__len__", "__getitem__")  # not by hasattr: an Enum class gets both from its metaclass


def is_sequence(x: Any) -> bool:
    """Return whether NumPy would convert an object to an array, item by item, before trying its operator methods."""
    kind = type(x)
    names = {name for base in kind.__mro__ for name in _ITEMS if name in vars(base)}
    return len(names) == len(_ITEMS) and not isinstance(x, (str, bytes, dict)) and not any(
        hasattr(kind, name) for name in ("__array_ufunc__", "__array_priority__", "__torch_function__"))


def _record_binary(op: Op, fn: Callable[[Any, Any], Any], a: Any, b: Any, other: Any) -> Any:
    """Record `a op b` for operands that the fast paths do not handle; `other` is the one that is not this proxy."""
    if type(other) is TensorArray:  # in a pullback, a number beside a tensor: TensorArray implements the operator
        return NotImplemented
    if (y := record_beside(op, fn, a, b)) is not None:
        return y
    # `W @ x` of a NumPy program works on tensors too, although torch refuses it
    if is_tensor(other) and not (op is ops.matmul and other is b and shape_of(a)):
        known = plain_value(a if other is b else b)
        frame: Any = _getframe(2)
        is_array = type(known) is np.ndarray
        if (is_array or not shape_of(known)) \
                and (frame.f_back if frame.f_code is _power.__code__ else frame).f_code.co_filename not in INTERNAL:
            if is_array and other is b and op not in _BEFORE_TENSORS:
                raise before_tensor(op.__name__)
            return NotImplemented  # the tensor handles operators with a number
    if is_classed(other):
        return NotImplemented
    if other is b and type(other).__flags__ & HEAP and (y := _of_right_operand(op, a, other)) is not NotImplemented:
        return y
    if not isinstance(other, (Traced, *_OPERANDS)) and not is_leaf(other):
        known = plain_value(a if other is b else b)
        if isinstance(known, (np.ndarray, np.generic)) or type(other) in ARRAYS:
            if answers_ufuncs(type(other)):
                return other.__array_ufunc__(getattr(np, op.__name__), "__call__", a, b)
            if comes_first(type(other)):
                return NotImplemented
            if (shown := shown_array(other)) is not other:
                return fn(a, shown) if other is b else fn(shown, b)
        # list * integer repeats the list
        repeats = op is ops.multiply and isinstance(known, np.integer) and hasattr(type(other), "__mul__")
        if isinstance(other, (list, tuple)) and isinstance(known, (np.ndarray, np.generic)) and not repeats:
            converted = DISPATCH[_asarray](other)
            return fn(a, converted) if other is b else fn(converted, b)
        if isinstance(known, (np.ndarray, np.generic)) and not repeats and is_sequence(other):
            raise refused(f"{op.__name__} of an array and a {type(other).__name__}",
                          "NumPy converts such a sequence to an array",
                          "convert it first: np.array(list(x))")
        if op is not ops.equal and op is not ops.not_equal:
            return _of_plain_number(op, fn, a, b, other)
        if not isinstance(known, np.ndarray):
            return NotImplemented  # x == None, x == "text": Python tries the other operand, then answers "unequal"
        if is_numeric(known):
            if type(type(other).__eq__) is FunctionType:
                raise refused(f"{op.__name__} of an array and a {type(other).__name__}",
                              "NumPy would call the object's operator with each number",
                              "compare numbers instead")
            # a comparison with such an object ignores the numbers
            return fn(np.empty(shape_of(a if other is b else b), known.dtype), other)
    tracer = tracer_of((a, b))
    val = UNKNOWN if tracer.followed else compute(tracer, fn, plain(a, tracer), plain(b, tracer))
    return tracer.record(op, (a, b), NO_KWARGS, val)


def _of_right_operand(op: Op, a: Any, other: Any) -> Any:
    """Return the result of the right operand's own reflected method, if it is of a program's subclass of a number type.
    Python calls it before the left operand if its class is a subclass of the left one's or the left one declines.
    """
    kind, (forward, reflected) = type(other), _METHODS.get(op, ("", ""))
    if not issubclass(kind, _OPERANDS) or type(own := getattr(kind, reflected, None)) is not FunctionType:
        return NotImplemented
    known: Any = plain_value(a)
    is_asked = issubclass(kind, type(known)) or getattr(type(known), forward)(known, other) is NotImplemented
    return own(other, a) if is_asked else NotImplemented


_BEFORE_TENSORS = (ops.divide, ops.equal, ops.not_equal)


def before_tensor(name: str) -> TypeError:
    """Return Python's error for an operator of an array and a tensor, in this order, which neither library supports."""
    return TypeError(f"unsupported operand types of {name}: 'numpy.ndarray' and 'Tensor'; write the tensor first, or "
                     "torch.from_numpy(array)")


def _of_plain_number(op: Op, fn: Callable[[Any, Any], Any], a: Any, b: Any, other: Any) -> Any:
    """Return an operator's result for a plain number and an object of a C class (timedelta); refuse to lose a gradient.
    """
    x = a if other is b else b
    if type(other).__flags__ & HEAP or type(other).__module__ == "builtins":
        return NotImplemented
    try:
        y = fn(*[plain_value(x) if part is x else part for part in (a, b)])
    except TypeError:
        return NotImplemented
    if loses(x) and not gives_up(x):
        raise lost(x, f"{op.__name__} of a {type(other).__name__} needs a plain number",
                   f"use numbers in place of the {type(other).__name__}; tg.value(x) drops the gradient on purpose")
    float(x)  # records a guard
    return y


_OPERANDS = (np.ndarray, np.generic, float, int, complex)
# by op: the methods of the left and of the right operand
_METHODS: dict[Op, tuple[str, str]] = {
    ops.less: ("__lt__", "__gt__"), ops.less_equal: ("__le__", "__ge__"), ops.greater: ("__gt__", "__lt__"),
    ops.greater_equal: ("__ge__", "__le__"), ops.equal: ("__eq__", "__eq__"), ops.not_equal: ("__ne__", "__ne__"),
    ops.pow: ("__pow__", "__rpow__")}


for _name, _op, _fn in [
    ("add", ops.add, operator.add), ("sub", ops.subtract, operator.sub), ("mul", ops.multiply, operator.mul),
    ("truediv", ops.divide, operator.truediv), ("floordiv", ops.floor_divide, operator.floordiv),
    ("mod", ops.remainder, operator.mod),
    ("and", ops.bitwise_and, operator.and_), ("or", ops.bitwise_or, operator.or_),
    ("xor", ops.bitwise_xor, operator.xor),
    ("lshift", ops.bitwise_left_shift, operator.lshift), ("rshift", ops.bitwise_right_shift, operator.rshift),
    ("matmul", ops.matmul, operator.matmul),
]:
    setattr(Proxy, f"__{_name}__", _binary(_op, _fn))
    setattr(Proxy, f"__r{_name}__", _reflected(_op, _fn))
    _METHODS[_op] = f"__{_name}__", f"__r{_name}__"
for _name, _op, _fn in [
    ("lt", ops.less, operator.lt), ("le", ops.less_equal, operator.le), ("gt", ops.greater, operator.gt),
    ("ge", ops.greater_equal, operator.ge), ("eq", ops.equal, operator.eq), ("ne", ops.not_equal, operator.ne),
]:
    setattr(Proxy, f"__{_name}__", (_equality if _op is ops.equal else _comparison)(_binary(_op, _fn)))
for _name, _op, _one in [
    ("neg", ops.negative, operator.neg), ("pos", ops.positive, operator.pos), ("abs", ops.abs, operator.abs),
    ("invert", ops.bitwise_invert, operator.invert),
]:
    setattr(Proxy, f"__{_name}__", _unary(_op, _one))
_pow = _binary(ops.pow, operator.pow)


def _power(self: Proxy, other: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        raise UnknownFunction("pow(x, y, modulus) has no derivative", user_location(), "pow(x, y) % modulus")
    return _pow(self, other)


_rpow = _reflected(ops.pow, operator.pow)


def _reflected_power(self: Proxy, other: Any) -> Any:
    if type(other) is float and (frame := _getframe(1)).f_globals.get("__name__") == "fractions":
        # `Fraction ** x` converts the fraction to float first (until Python 3.12)
        other = frame.f_locals["a"]
    return _rpow(self, other)


for _name, _fn in (("pow", _power), ("rpow", _reflected_power)):
    setattr(Proxy, f"__{_name}__", _fn)


def _in_place(fn: Callable[[Any, Any], Any], ufunc: np.ufunc) -> Callable[[Proxy, Any], Any]:
    def method(self: Proxy, other: Any) -> Any:
        if is_classed(other):
            return ufunc(self, other, out=self)
        result = fn(self, other)
        if not isinstance(self._val, np.ndarray):
            return result
        writes.check_cast(self, result)
        writes.replace(self, result)
        return self
    return method


UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift,
    "matmul": np.matmul,
}
for _name, _ufunc in UFUNCS.items():
    setattr(Proxy, f"__i{_name}__", _in_place(getattr(operator, f"__{_name}__"), _ufunc))
