"""np.ma: masked arrays of traced numbers, whose masks may depend on them.

NumPy's own Python code for them runs as it is, on proxies that show the class MaskedArray (`trace.viewed`). This file
replaces the methods of `ndarray` that this code calls by name, and computes functions of unmasked elements only: the
derivative at an unused number may be infinite, and times a cotangent of zero that is nan.
"""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import CONSTRUCTORS, constructs, register
from tapegrad.trace.conversions import to_type
from tapegrad.trace.interposition import standing_for, with_names
from tapegrad.trace.viewable import BESIDES
from tapegrad.trace.viewed import KEEP_CLASS, Viewed, bare, is_viewed
from tapegrad.tree.copies import code_of

ma: Any = importlib.import_module("numpy.ma.core")
extras: Any = importlib.import_module("numpy.ma.extras")


class _Named(type):
    """The metaclass of what replaces `ndarray` in NumPy's code: NumPy's class, except for methods of a traced array."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, np.ndarray)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, np.ndarray)

    def __getattribute__(cls, name: str) -> Any:
        found = getattr(np.ndarray, name)
        return functools.partial(_method, name, found) if name in ("ravel", "sort", "view") else found


def _method(name: str, fn: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(x, Traced):
        return fn(x, *args, **kwargs)
    viewed: Any = x
    return (Viewed.view(viewed, *args, **kwargs) if name == "view" and is_viewed(x)
            else getattr(bare(x), name)(*args, **kwargs))


class _Arrays(metaclass=_Named):
    pass


def _own(fn: Any, **names: Any) -> FunctionType:
    """Return a NumPy function with some of its global names replaced, and with `__array_interface__` renamed to
    `_memory`: C code takes an object that has `__array_interface__` for an array, and would lose its gradient.
    """
    code = code_of(fn)
    return with_names(fn, names, code.replace(co_names=tuple("_memory" if name == "__array_interface__" else name
                                                             for name in code.co_names)))


# -- the class


def _shown(self: Any) -> Any:
    """Return the current values as a plain masked array, to be printed."""
    return ma.MaskedArray(plain(bare(self)), mask=plain(self._mask), fill_value=plain(self._fill_value))


def _memory(self: Any) -> dict[str, Any]:
    """Return the address of the numbers: NumPy lets a view that begins where its base does share the mask."""
    return dict(plain(bare(self)).__array_interface__)


def _set_shape(self: Any, shape: Any) -> None:
    _shape.__set__(self, shape)
    if self._mask is not ma.nomask:
        self._mask.shape = self.shape


_shape: Any = Viewed.shape
_array = functools.partial(_own, ndarray=_Arrays, type=to_type)
_data = property(_array(ma.MaskedArray._get_data))
BESIDES[ma.MaskedArray] = {
    **{name: _array(getattr(ma.MaskedArray, name))
       for name in ("__array_finalize__", "compressed", "ravel", "sort", "view")},
    "_update_from": _own(ma.MaskedArray._update_from, type=to_type), "_get_data": _data.fget, "_data": _data,
    "data": _data,
    "_memory": property(_memory), "_mask": ma.nomask, "_operands": lambda self, ufunc, inputs: _operands(ufunc, inputs),
    "dtype": Viewed.dtype, "shape": property(_shape.fget, _set_shape),
    "__repr__": lambda self: repr(_shown(self)), "__str__": lambda self: str(_shown(self)),
}
register(ma.MaskedArray.__new__, _array(ma.MaskedArray.__new__))


def _filled(tracer: Any, fn: Any, *args: Any, make: Any, fill_value: Any = None, **kwargs: Any) -> Any:
    """Return the result of np.ma.zeros and its kin: a traced array, which the program may fill."""
    y = CONSTRUCTORS[make](tracer, make, *args, **kwargs)
    mask = np.ones(y.shape, bool) if fn.__name__ == "masked_all" else ma.nomask
    return ma.MaskedArray(y, mask=mask, fill_value=fill_value)


def _of_object(tracer: Any, fn: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    known = self._func in (np.zeros, np.ones, np.empty)
    return _filled(tracer, fn, *args, make=self._func, **kwargs) if known else fn(self, *args, **kwargs)


for _fn, _make in ((ma.zeros, np.zeros), (ma.ones, np.ones), (ma.empty, np.empty), (extras.masked_all, np.empty)):
    if isinstance(_fn, FunctionType):
        constructs(_fn, interposed=True)(functools.partial(_filled, make=_make))
if not isinstance(ma.zeros, FunctionType):  # before NumPy 2.4 they are callable objects
    constructs(vars(type(ma.zeros))["__call__"], interposed=True)(_of_object)


# -- functions of the unmasked elements


def _cleared(bad: Any, xs: Sequence[Any], safe: float = 0.5) -> list[Any]:
    """Return operands with a safe number where `bad` is true."""
    if bad is ma.nomask or not np.any(bad):
        return list(xs)
    return [np.where(bad, safe, x) if getattr(dtype_of(x), "kind", "f") in "fc" else x for x in xs]


def _masks(xs: Sequence[Any]) -> Any:
    """Return the union of the operands' masks."""
    masks = [mask for mask in map(ma.getmask, xs) if mask is not ma.nomask]
    return functools.reduce(np.logical_or, masks) if masks else ma.nomask


def _outside(fn: Any, xs: Sequence[Any]) -> Any:
    """Return where operands lie outside a function's domain."""
    domain = ma.ufunc_domain.get(fn)
    return ma.nomask if domain is None else domain(*xs)


def _safe(fn: Any) -> float:
    return 2.0 if fn is np.arccosh else 0.5


def _computed(call: Any) -> Callable[..., Any]:
    """Return the implementation of functions like np.ma.exp: NumPy's code, its ufunc applied to unmasked elements."""
    own = _own(call)

    def meaning(self: Any, *args: Any, **kwargs: Any) -> Any:
        nin = getattr(self.f, "nin", 1)

        def computed(*xs: Any, **kwargs: Any) -> Any:
            bad = _masks(args[:nin]) | _outside(self.f, xs)
            return self.f(*_cleared(bad, xs[:nin], _safe(self.f)), *xs[nin:], **kwargs)
        clear = copy.copy(self)
        clear.f = standing_for(self.f, computed)
        return own(clear, *args, **kwargs)
    return meaning


def power(a: Any, b: Any, third: Any = None) -> Any:
    bad, xs = _masks((a, b)), [ma.getdata(a), ma.getdata(b)]
    y = _power(*[ma.array(x, mask=ma.getmask(given)) for x, given in zip(_cleared(bad, xs), (a, b))], third)
    if bad is not ma.nomask and isinstance(y, ma.MaskedArray) and y is not ma.masked:
        np.copyto(y._data, xs[0], where=bad)
    return y


_power = _own(ma.power)
register(ma.power, power)
for _kind in (ma._MaskedUnaryOperation, ma._MaskedBinaryOperation, ma._DomainedBinaryOperation):
    register(_kind.__call__, _computed(_kind.__call__))
    KEEP_CLASS.add(_kind.__call__)
KEEP_CLASS.update([ma.MaskedArray.__new__, ma.power])
_STEEP: dict[np.ufunc, Callable[..., Any]] = {
    **dict.fromkeys((np.sqrt, np.cbrt), lambda x: x == 0),
    **dict.fromkeys((np.arcsin, np.arccos, np.arccosh), lambda x: abs(x) == 1),
    **dict.fromkeys((np.hypot, np.arctan2), lambda x, y: (x == 0) & (y == 0)), np.power: lambda x, _: x == 0,
}
"""Where ufuncs have finite values but no finite derivative."""


def _operands(ufunc: np.ufunc, inputs: Sequence[Any]) -> list[Any]:
    """Return the operands of a NumPy ufunc of masked arrays: their data, with safe numbers where the derivative would
    not be finite.
    """
    xs = list(map(bare, inputs))
    bad = _masks(inputs)
    if bad is not ma.nomask:
        steep = [_STEEP[ufunc](*xs)] if ufunc in _STEEP else []
        bad = bad & functools.reduce(np.logical_or, [~np.isfinite(x) for x in xs] + steep)
    return _cleared(bad | _outside(ufunc, xs), xs, _safe(ufunc))
