"""Conversions between torch and NumPy, through which gradients flow: a tensor as an array, an array as a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.frontends.torch.common import related
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensor_array import unwrap
from tapegrad.numbers.tensor_dtypes import torch_dtype
from tapegrad.numbers.tensors import detached, is_tensor, to_host, to_tensor
from tapegrad.rules.op import Op
from tapegrad.rules.registry import of_frontend


def _tensor(x: Array, device: str = "cpu") -> Any:
    return to_tensor(x if isinstance(x, np.ndarray) or hasattr(x, "dtype") else np.asarray(x), device)


def _array(x: Array) -> Any:
    return np.asarray(to_host(x))


# A replay on tensors has tensors in place of the program's arrays, so both conversions may get a tensor.
to_torch: Op = of_frontend(Op("to_torch", _tensor, (lambda dy, y, x, device="cpu": to_numpy(dy),),
                              torch=lambda x, device="cpu": x))
to_numpy: Op = of_frontend(Op("to_numpy", np.asarray, (lambda dy, y, x: to_torch(dy, device=_device(x)),),
                              torch=_array))


def _device(x: Array) -> str:
    return str(getattr(plain(unwrap(x)), "device", "cpu"))


@torch_means("Tensor.numpy")
def numpy(x: Array, *, force: bool = False) -> Any:
    """Return a traced tensor as a traced array."""
    detached(plain(x)).numpy(force=force)  # raises torch's errors
    return related(x, to_numpy(x))


@torch_means("from_numpy", "from_dlpack", "utils.dlpack.from_dlpack")
def from_numpy(x: Array, **_: Any) -> Any:
    """Return a traced array as a traced tensor."""
    value = plain(x)
    if is_tensor(value):
        return x
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(value).__name__})")
    torch_dtype(value.dtype)
    return related(x, to_torch(x))


def as_tensor(x: Array, dtype: torch.dtype | None = None, copy: bool = False) -> Any:
    """Return a traced number or array as a tensor, of dtype `dtype` if given."""
    y = to_torch(x) if not isinstance(plain(x), np.ndarray) else from_numpy(x)
    if dtype is not None and dtype is not plain(y).dtype:
        return y.to(dtype)
    return ops.copy(y) if copy else y
