"""sparse_tensors: torch's sparse tensors taken apart into their index tensors and, last, their values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import is_tensor


class Form(NamedTuple):
    """The static part of a sparse tensor; `coalesced` if its indices are sorted and unique."""

    layout: str
    size: tuple[int, ...]
    coalesced: bool


# builds a sparse tensor from traced tensors; filled by torch's frontend
TRACED: list[Callable[[Form, tuple[Any, ...]], Any]] = []


def is_sparse_tensor(x: Any) -> bool:
    """True for a tensor in a sparse layout; does not import torch."""
    kind = type(x)
    if hasattr(kind, "_sparse_parts"):
        return True
    if not is_tensor(x) or hasattr(kind, "_tracer"):
        return False
    return x.layout is not sys.modules["torch"].strided and str(x.layout).startswith("torch.sparse_")


def taken_apart(x: Any) -> tuple[Form, tuple[Any, ...]]:
    """Return the form of a sparse tensor and its stored tensors; of a traced one, the traced tensors."""
    if hasattr(type(x), "_sparse_parts"):
        return x._form, x._sparse_parts
    x, layout = x.detach(), str(x.layout).removeprefix("torch.")
    if layout == "sparse_coo":
        return Form(layout, tuple(x.shape), x.is_coalesced()), (x._indices(), x._values())
    return Form(layout, tuple(x.shape), True), (*_compressed(x), x.values())


def stored_bytes(x: Any) -> int:
    """Return the size of a tensor in bytes; for a sparse one, of its parts."""
    return sum(part.nbytes for part in taken_apart(x)[1]) if is_sparse_tensor(x) else x.nbytes  # type: ignore[no-any-return]


def followed(x: Any) -> tuple[Any, ...]:
    """Return the parts of a sparse tensor that torch's autograd tracks, each index once."""
    if x.layout is not torch.sparse_coo:
        return (*_compressed(x), x.values())
    x = x.coalesce()
    return x.indices(), x.values()


def _compressed(x: Any) -> tuple[Any, Any]:
    by_rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    return (x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices())


def put_together(form: Form, parts: tuple[Any, ...]) -> Any:
    """Return the sparse tensor of a form with these parts."""
    if any(hasattr(type(part), "_tracer") for part in parts):
        return TRACED[0](form, parts)
    if form.layout == "sparse_coo":
        return torch.sparse_coo_tensor(*parts, form.size, is_coalesced=form.coalesced or None, check_invariants=False)
    return torch.sparse_compressed_tensor(*parts, form.size, layout=getattr(torch, form.layout), check_invariants=False)
