"""meta_tensors: tensors without memory, on which torch computes dtypes, shapes and strides only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.numbers.lazy import torch


def without_memory(dtype: Any, shape: Sequence[int], strides: Sequence[int] | None) -> Any:
    """Return a tensor on torch's "meta" device; `strides` are in bytes, None for a contiguous tensor."""
    if strides is None:
        return torch.empty(tuple(shape), dtype=dtype, device="meta")
    steps = [step // dtype.itemsize for step in strides]
    return torch.empty_strided(tuple(shape), steps, dtype=dtype, device="meta")


def evaluated(run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a torch implementation on meta tensors; None if it reads their content."""
    try:
        with torch.no_grad():
            return run(*args, **kwargs)
    except Exception:  # torch raises many kinds of errors
        return None
