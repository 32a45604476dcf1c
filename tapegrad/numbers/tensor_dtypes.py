"""tensor_dtypes: conversion between NumPy's and torch's dtypes, and their promotion."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.kinds import DType
from tapegrad.numbers.lazy import torch


class TensorDtype:
    """A dtype of torch without a NumPy equivalent, with the attributes that rules read."""

    __slots__ = ("kind", "name")

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind

    def __eq__(self, other: object) -> bool:
        return type(other) is TensorDtype and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


_KINDS = {"bfloat16": "f", "complex32": "c"}
# torch has no long double
WIDEST = {"float128": "float64", "complex256": "complex128", "float96": "float64", "complex192": "complex128"}


@functools.cache
def numpy_dtype(dtype: Any) -> Any:
    """Return NumPy's dtype of the same name as torch's; a TensorDtype if there is none.

    >>> import torch
    >>> numpy_dtype(torch.float32), numpy_dtype(torch.bfloat16).kind
    (dtype('float32'), 'f')
    """
    name = str(dtype).removeprefix("torch.")
    return TensorDtype(name, _KINDS.get(name, "f")) if name in _KINDS or name.startswith("float8") else np.dtype(name)


@functools.cache
def torch_dtype(dtype: DType) -> Any:
    """Return torch's dtype of the same name as NumPy's; its widest for a long double.

    >>> torch_dtype(np.float32), torch_dtype(int)
    (torch.float32, torch.int64)
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    name = dtype.name if isinstance(dtype, TensorDtype) else np.dtype(dtype).name
    return getattr(torch, WIDEST.get(name, name))


def kind_of(x: Any) -> Any:
    """Return the operand of promotion: the dtype of a tensor or NumPy scalar, the type of a Python number."""
    kind = type(x)
    return kind if kind in PYTHON else x.dtype


def numpy_stand_in(kind: Any) -> Any:
    """Return a dtype that NumPy can promote in place of torch's; bfloat16 is promoted as float16."""
    if kind is bool:
        return np.dtype(bool)
    if isinstance(kind, type):
        return kind
    found = numpy_dtype(kind) if isinstance(kind, torch.dtype) else kind
    return np.dtype("complex64" if found.kind == "c" else "float16") if isinstance(found, TensorDtype) else found


@functools.cache
def _promoted(kinds: tuple[Any, ...]) -> Any:
    stand_ins = [numpy_stand_in(kind) for kind in kinds]
    return given_back(np.result_type(*[kind(0) if isinstance(kind, type) else kind for kind in stand_ins]), kinds)


def given_back(dtype: Any, kinds: tuple[Any, ...]) -> Any:
    """Return torch's dtype for NumPy's promotion result, mapping float16 back to bfloat16."""
    return torch.bfloat16 if dtype == np.float16 and torch.bfloat16 in kinds else torch_dtype(dtype)


def result_type(*args: Any) -> Any:
    """Return torch's dtype for NumPy's promotion of numbers, arrays and tensors.

    >>> import torch
    >>> one, three = torch.zeros((), dtype=torch.float64), torch.zeros(3, dtype=torch.float32)
    >>> result_type(one, three), result_type(torch.tensor([1]), 0.5)
    (torch.float64, torch.float64)
    """
    return _promoted(tuple(map(kind_of, args)))


def inexact_type(*args: Any) -> Any:
    """Return the promoted dtype, float64 for integers: the dtype in which real or complex functions compute."""
    dtype = result_type(*args)
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.float64
