"""Ops that create an array from its shape. The program may write to the result in place at once.

For tensors they take a device: a replay creates on the device of its inputs what the program created on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensor_dtypes import result_type, torch_dtype
from tapegrad.numbers.tensors import cast, numbers_of
from tapegrad.ops.batched_shape import filled, filled_like, like
from tapegrad.rules import types
from tapegrad.rules.facts import BLANK, CONSTANT
from tapegrad.rules.registry import define


def _make(name: str, impl: Any, spec: Any, on_torch: Any, batch: Any = None) -> Any:
    return define(name, impl, rule=CONSTANT, memory=BLANK, torch=on_torch, batch=batch, spec=spec)


def _filled(shape: Any, value: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    wanted = result_type(value) if dtype is None else torch_dtype(dtype)
    device = getattr(value, "device", device)
    if type(value) in PYTHON and (wanted.is_complex or type(value) is not complex):
        return torch.full(numbers_of(shape), value, dtype=wanted, device=device)
    y = torch.empty(numbers_of(shape), dtype=wanted, device=device)
    return y.copy_(cast(value, y))


def _of(value: Any) -> Any:
    return lambda shape, dtype=float, device=None, **_: _filled(shape, value, dtype, device)


def _like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, device: Any = None, **_: Any) -> Any:
    like = getattr(x, "shape", ()), getattr(x, "dtype", type(x))
    return _filled(like[0] if shape is None else shape, fill_value, dtype or like[1], getattr(x, "device", device))


def _alike(value: Any) -> Any:
    return lambda x, **how: _like(x, value, **how)


zeros = _make("zeros", np.zeros, types.of_shape, _of(0))
ones = _make("ones", np.ones, types.of_shape, _of(1))
empty = _make("empty", np.zeros, types.of_shape, _of(0))  # numbers that the program does not write are 0 on every run
full = _make("full", np.full, types.full, _filled, filled)
zeros_like = _make("zeros_like", np.zeros_like, types.like(0), _alike(0), like)
ones_like = _make("ones_like", np.ones_like, types.like(0), _alike(1), like)
empty_like = _make("empty_like", np.zeros_like, types.like(0), _alike(0), like)
full_like = _make("full_like", np.full_like, types.like(1), _like, filled_like)
