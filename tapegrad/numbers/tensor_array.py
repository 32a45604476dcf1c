"""TensorArray: a tensor that behaves as a NumPy array.

Rules are written with ops, Python operators and array methods; a user's rules with NumPy. On tensors these would have
torch's semantics: other promotion, no negative steps, `sum` but no `astype`. Rules therefore get tensors in this
wrapper, and their results are unwrapped.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.numbers.lazy import torch
from tapegrad.numbers.nested import inside
from tapegrad.numbers.tensor_dtypes import numpy_dtype, torch_dtype
from tapegrad.numbers.tensor_index import add_at, read, unraveled, write
from tapegrad.numbers.tensors import is_tensor, share_memory, to_host
from tapegrad.numbers.view_path import Path, follow


class TensorArray:
    """A tensor with the operators, methods and protocols of an array, dispatched to ops and composites."""

    __slots__ = ("tensor",)
    # filled by rules.registry, which may import this file but not the reverse
    meanings: dict[Any, Callable[..., Any]] = {}  # noqa: RUF012

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        return np.ndarray  # for isinstance: a rule tests whether an index is an array

    @property
    def shape(self) -> tuple[int, ...]:
        x = self.tensor
        # a rule reads a proxy's shape in the same way, and the outer tape guards it
        return tuple(x._shape if hasattr(type(x), "_tracer") else x.shape)

    @property
    def dtype(self) -> Any:
        x = self.tensor
        return x._dtype if hasattr(type(x), "_tracer") else numpy_dtype(x.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.tensor.numel()  # type: ignore[no-any-return]

    def astype(self, dtype: Any) -> TensorArray:
        """Return the array in another dtype."""
        return TensorArray(self.tensor.to(torch_dtype(dtype)))

    def __getattr__(self, name: str) -> Any:
        key = getattr(np.ndarray, name, None)
        meaning = None if name.startswith("__") else self.meanings.get(key)
        if meaning is None:
            raise AttributeError(name)
        return functools.partial(meaning, self) if callable(key) else meaning(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            return self.meanings[ufunc](*inputs)
        return self.meanings[np.ufunc](ufunc, method, *inputs, **kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...],
                           kwargs: dict[str, Any]) -> Any:
        return self.meanings[func](*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.array(to_host(self.tensor), *args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        return TensorArray(read(self.tensor, unwrap(index if type(index) is tuple else (index,))))

    def __setitem__(self, index: Any, value: Any) -> None:
        write(self.tensor, unwrap(value), unwrap(index if type(index) is tuple else (index,)))

    def _add_at(self, piece: Any, index: tuple[Any, ...]) -> None:
        add_at(self.tensor, unwrap(piece), unwrap(index))

    def _reach(self, index: tuple[Any, ...], path: Path) -> tuple[TensorArray, tuple[Any, ...]]:
        """Return the view along a path and the index in it; if torch has no view, the last view and flat indices."""
        x, at = self.tensor, 0
        while at < len(path) and share_memory(part := follow(x, path[at: at + 1]), x):
            x, at = part, at + 1
        if at == len(path):
            return TensorArray(x), index
        n, shape = x.numel(), tuple(x.shape)
        places = torch.arange(n, device=x.device).reshape(shape)
        if x.is_complex():  # real parts get numbers from 0, imaginary parts from n
            places = torch.complex(places.double(), (places + n).double())
        found = read(follow(places, path[at:]), unwrap(index))
        if found.is_complex() or not x.is_complex():
            return TensorArray(x), unraveled(found.real.long(), shape)
        imaginary = bool((found >= n).all())  # the path ends in .imag or in .real
        return TensorArray(x.imag if imaginary else x.real), unraveled(found.long() - imaginary * n, shape)

    def __len__(self) -> int:
        return len(self.tensor)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __index__(self) -> int:
        return operator.index(self.tensor)

    def __float__(self) -> float:
        return float(self.tensor)

    def __complex__(self) -> complex:
        return complex(self.tensor)

    def __repr__(self) -> str:
        return f"TensorArray({self.tensor!r})"


def _operator(fn: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    if reflected:
        return lambda self, other: self.meanings[fn](other, self)
    return lambda self, *other: self.meanings[fn](self, *other)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
              "rshift"):
    _plain = _name.rstrip("_")
    setattr(TensorArray, f"__{_plain}__", _operator(getattr(operator, _name)))
    setattr(TensorArray, f"__r{_plain}__", _operator(getattr(operator, _name), reflected=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"):
    setattr(TensorArray, f"__{_name}__", _operator(getattr(operator, _name)))


def wrap(x: Any) -> Any:
    """Return tensors, also inside tuples, lists and dicts, as TensorArrays; other values unchanged."""
    if is_tensor(x):
        return TensorArray(x)
    return inside(wrap, x)


def unwrap(x: Any) -> Any:
    """Return TensorArrays, also inside tuples, lists and dicts, as their tensors; other values unchanged."""
    if type(x) is TensorArray:
        return x.tensor
    return inside(unwrap, x)
