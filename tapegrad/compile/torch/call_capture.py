"""call_capture: which functions of torch an implementation calls, and whether what it does depends on
numbers that it looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tapegrad.numbers.tensors import ORDINARY

# What a tensor says of itself whatever its numbers are: with the shapes and dtypes of the arguments it is fixed.
FACTS = frozenset(["is_contiguous", "__len__", "dim", "ndimension", "numel", "nelement", "is_floating_point",
                   "is_complex", "is_signed", "size",
                   "stride", "element_size", "untyped_storage", "data_ptr", "storage_offset", "get_device", "is_conj",
                   "is_neg", "is_same_size",
                   "result_type", "promote_types", "can_cast", "is_inference", "__hash__"])
ATTRIBUTES = frozenset(["shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "layout", "is_cuda", "is_cpu",
                        "is_sparse", "itemsize",
                        "nbytes", "is_quantized", "is_meta", "is_nested", "is_mkldnn", "is_mps", "grad_fn", "names"])
_DYNAMIC, _RANDOM = torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded


def name_of(fn: Any) -> str:
    """Return the name of a function of torch, of an attribute for what reads it."""
    name = getattr(fn, "__name__", "")
    return getattr(fn.__self__, "__name__", "") if name == "__get__" else name  # type: ignore[no-any-return]


class Seen:
    """One call of a function of torch, and what it returned."""

    __slots__ = ("args", "draws", "fn", "kwargs", "result", "written")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any,
                 written: list[Any], draws: bool) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.result, self.written, self.draws = result, written, draws


class Calls(TorchFunctionMode):  # type: ignore[misc]
    """Records the functions of torch that are called, outermost only; `escaped` says why that
    is not all there is to it.

    A number, a truth value or an array that comes of a tensor, and a shape that depends on numbers, may steer what is
    called next: then an operation is one call that nothing looks into. So is one in which a tensor appears that no
    recorded call has made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self.escaped = ""
        self.below = Below(self)

    def start(self) -> None:
        """Forget what was recorded before."""
        self.seen, self.escaped = [], ""
        self.below.made = {}

    def __enter__(self) -> Calls:
        super().__enter__()
        self.below.__enter__()
        return self

    def __exit__(self, *err: Any) -> None:
        self.below.__exit__(*err)
        super().__exit__(*err)

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        if name in ATTRIBUTES or name in FACTS:
            return func(*args, **kwargs)
        self.below.draws = False
        given = [(x, x._version) for x in tensors_in((args, kwargs))]
        result = func(*args, **kwargs)
        # by the count that torch keeps: names tell too little
        written = [x for x, version in given if x._version != version]
        if isinstance(result, torch.Tensor):
            # `to` its own dtype: what a tensor returns itself for is fixed. Of how it lies in
            # memory that is not certain.
            if not written and args and result is args[0] and name != "contiguous":
                return result
        elif not (written and result is None) and not (type(result) is not torch.Size
                                                       and isinstance(result, (tuple, list)) and _tensors(result)):
            self.escaped = self.escaped or f"{name} of a tensor"
            return result
        self.seen.append(Seen(func, args, kwargs, result, written, self.below.draws))
        return result


def tensors_in(x: Any) -> list[Any]:
    """Return the tensors in nested arguments."""
    found: list[Any] = []
    _collect(x, found)
    return found


def _collect(x: Any, found: list[Any]) -> None:
    if isinstance(x, torch.Tensor):
        found.append(x)
    elif isinstance(x, (tuple, list)):
        for part in x:
            if type(part) not in _NONE:
                _collect(part, found)
    elif isinstance(x, dict):
        _collect(tuple(x.values()), found)


_NONE = ORDINARY - {tuple}


def _tensors(parts: Any) -> bool:
    """True for tensors, and None for what a kernel was not asked for."""
    return any(part is not None for part in parts) and all(part is None or isinstance(part, torch.Tensor)
                                                           for part in parts)


class Below(TorchDispatchMode):  # type: ignore[misc]
    """Sees the kernels under those functions: whose results depend in shape on numbers, which draw,
    which tensors they make.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls, self.draws = calls, False
        self.made: dict[int, Any] = {}  # by storage; what lies there is kept, so that no other takes its number

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: torch would import Dynamo, which takes a second or two, for nothing but to keep it from
        compiling what is below.
        """
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tags = func.tags
        if _DYNAMIC in tags and (func is not torch.ops.aten.index.Tensor or _masked(args[1])):
            self.calls.escaped = self.calls.escaped or f"a shape that numbers decide, by {func}"
        self.draws = self.draws or _RANDOM in tags
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(part, torch.Tensor) and part.layout is torch.strided:
                self.made[storage_of(part)] = part
        return result


def storage_of(x: Any) -> int:
    """Return what tells the memory of a tensor from that of another that lives."""
    return int(x.untyped_storage()._cdata)


def share(a: Any, b: Any) -> bool:
    """True if two tensors have one storage."""
    return storage_of(a) == storage_of(b)


def is_dense(x: Any) -> bool:
    """True for a tensor that fills its memory, row by row."""
    return bool(x.is_contiguous() and x.untyped_storage().nbytes() == x.numel() * x.element_size())


def _masked(parts: Any) -> bool:
    return any(part is not None and part.dtype in (torch.bool, torch.uint8) for part in parts)
