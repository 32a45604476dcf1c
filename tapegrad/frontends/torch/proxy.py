"""TensorProxy: the traced tensor that a program sees, itself a torch.Tensor.

It is a tensor without memory: `__torch_function__` passes every call of torch's to `call`, and any other access to its
numbers raises.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad.errors import INTERNAL, ConcretizationError, UnknownFunction, user_frame, user_location
from tapegrad.frontends.torch.autocast import off
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensors import check_dense, detached
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH
from tapegrad.trace import views
from tapegrad.trace.dispatch import apply, by_ufunc
from tapegrad.trace.observers import unrepeatable
from tapegrad.trace.operators import UFUNCS, before_tensor
from tapegrad.trace.plain_arguments import loses
from tapegrad.trace.proxy import TENSORS

# torch's own methods for `number * tensor` with a NumPy number, as for a Python number
ARITHMETIC = frozenset(UFUNCS.values())
REFLECTED = {**{ufunc: f"__r{name}__" for name, ufunc in UFUNCS.items()},
             np.less: "__gt__", np.less_equal: "__ge__", np.greater: "__lt__", np.greater_equal: "__le__",
             np.equal: "__eq__", np.not_equal: "__ne__"}


def is_operator(ufunc: Any, frame: Any) -> bool:
    """True if a ufunc is called by an operator of the program, not by name: there a NumPy number gives way to a tensor,
    because NumPy defers to operands without `__array_ufunc__`, which a plain tensor is.
    """
    code, at = frame.f_code, frame.f_lasti
    name = dis.opname[code.co_code[at]]
    if name.startswith("CALL") or name == "PRECALL":  # `operator.mul`, `sum`, `reduce`
        if ufunc.__name__ in code.co_names or any(x is ufunc for x in frame.f_locals.values()):
            return False
        operators = [getattr(operator, REFLECTED[ufunc].replace("__r", "__", 1)), *([sum] if ufunc is np.add else [])]
        return any(fn.__name__ in code.co_names or any(x is fn for x in frame.f_locals.values()) for fn in operators)
    return frame.f_code.co_filename not in INTERNAL and name.startswith(("BINARY_", "COMPARE_", "INPLACE_"))


def compiled_here(frame: Any) -> list[str]:
    """Return the names of torch.jit's compiled objects that a frame's code mentions."""
    names = (*frame.f_code.co_names, *frame.f_code.co_varnames, *frame.f_code.co_freevars)
    known = {**frame.f_globals, **frame.f_locals}
    return [name for name in names if isinstance(known.get(name), (torch.jit.ScriptFunction, torch.jit.ScriptModule))]


class WithoutMemory(torch.Tensor):  # type: ignore[misc]
    """A tensor that dispatches every function of torch to its implementation, and refuses those that torch hides."""

    _kind = "traced tensor"
    _cure = ("use its counterpart in torch or torch.nn.functional; or tg.primitive, which records a function of yours "
             "as one operation")

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        return DISPATCH["torch"](func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        names = compiled_here(user_frame())
        which = f"{names[0]}, which torch.jit compiled and" if names else "a function that"
        raise UnknownFunction(f"{which} torch does not expose to __torch_function__ called {func} with a {cls._kind}",
                              user_location(), cls._cure)
# ufuncs with an array on the left; not `W @ x`, which tapegrad computes for tensors too, though torch itself does not
ARRAYS_FIRST = REFLECTED.keys() - {np.matmul}


class TensorProxy(Traced, WithoutMemory):
    """A traced tensor. Attributes that other proxies keep in slots are in its `__dict__`."""

    _tracer: Any = None
    _view: Any = None
    _held = False  # a module holds it as a constant
    _made = False  # the program made it a leaf that requires a gradient

    # NumPy's functions compute with a tensor as with an array, and return a tensor

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if (isinstance(inputs[0], np.generic) or (type(inputs[0]) is np.ndarray and ufunc is np.divide)) \
                and ufunc in REFLECTED and is_operator(ufunc, sys._getframe(1)):
            return getattr(self, REFLECTED[ufunc])(inputs[0])
        # an equality comparison is left out: it converts NumPy's number to an array first
        if type(inputs[0]) is np.ndarray and ufunc in (ARRAYS_FIRST if inputs[0].ndim else ARITHMETIC) \
                and ufunc not in (np.equal, np.not_equal) and is_operator(ufunc, sys._getframe(1)):
            raise before_tensor(ufunc.__name__)
        try:
            with off():  # the function computes with arrays, which autocast ignores
                return DISPATCH["by_mode"](by_ufunc(ufunc, method, inputs, kwargs), sys._getframe(1))
        except Exception as err:
            self._tracer.raised(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs, err)
            raise

    def __array_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...],
                           kwargs: dict[str, Any]) -> Any:
        with off():
            return DISPATCH["by_mode"](apply(self._tracer, func, args, kwargs), sys._getframe(1))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if not loses(self):
            return self.numpy().__array__(*args, **kwargs)  # guarded, as a traced array is
        raise ConcretizationError(f"np.asarray or another C function asked for a plain array, and the gradient through "
                                  f"{views.peek(self).name} "
                                  "would be lost", user_location(),
                                  "x.numpy(), or tg.value(x) to drop the gradient on purpose")

    @property
    def _op(self) -> Any:
        return self.__dict__["_op"] if self._view is None else views.use(self)

    @property
    def _val(self) -> Any:
        return self.__dict__["_val"] if self._view is None else views.read(self)

    @property
    def _shape(self) -> tuple[int, ...]:
        self._tracer.specialise(self)
        return shape_of(self._val)

    @property
    def _dtype(self) -> Any:
        self._tracer.specialise(self)
        return dtype_of(self._val)

    def __getattr__(self, name: str) -> Any:
        """Raise for an attribute that the program has set on the tensor: hasattr would return False."""
        if name != "_is_param" and name in getattr(self.__dict__.get("_val"), "__dict__", ()):
            raise UnknownFunction(f"x.{name} of a traced tensor: an attribute that the program set on the tensor "
                                  "object is not recorded",
                                  user_location(), "keep it in the module, or pass it as a separate argument")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _stand(self, view: views.View) -> None:
        """Make the proxy a view of memory that others may share."""
        self._view = view

    def _fact(self, fact: str, value: Any) -> Any:
        self._tracer.guard(views.known(self), fact, value)
        return value


def _sized(name: str) -> None:
    """Let a method take traced integers as separate arguments: torch's parser does not accept them as sizes."""
    base = getattr(torch.Tensor, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return base(self, *[operator.index(x) if isinstance(plain(x), int) else x for x in args], **kwargs)
    setattr(TensorProxy, name, method)


for _name in ("expand", "new_zeros", "new_ones", "new_empty"):
    _sized(_name)


CLASSES: dict[type, type[TensorProxy]] = {}  # subclasses of Tensor → their proxies' classes


def make(op: Any, val: Any, tracer: Any) -> TensorProxy:
    """Return the proxy of an operation whose value is a tensor."""
    known = plain(val)
    check_dense(known)
    kind = CLASSES.get(type(known), TensorProxy)
    if kind is not TensorProxy:
        unrepeatable(f"it computes with a {type(known).__name__}, and other processes may wait for it")
    proxy: Any = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        kind, known.shape, strides=known.stride(), dtype=known.dtype, device=known.device)
    proxy.__dict__.update(_op=op, _val=detached(val), _tracer=tracer)
    return proxy  # type: ignore[no-any-return]


TENSORS.append(make)
