"""virtual: a device that is not there. Its tensors have the numbers of CPU tensors and say that they lie elsewhere.

What a GPU would be asked is recorded: launches with their bytes, copies between host and device, reads of numbers that
the host waits for, and calls that take tensors of both. torch's `meta` device gives the name, since Python's indexing
asks for a driver of any other; with it, `x.numpy()` raises as on a GPU, and torch makes tensors where it is told to.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE, HOST = torch.device("meta"), torch.device("cpu")
READS = frozenset(["_local_scalar_dense", "is_nonzero", "equal", "item"])
SIZES = frozenset(["nonzero", "nonzero_numpy", "masked_select", "_unique2", "unique_dim", "unique_consecutive",
                   "bincount", "repeat_interleave"])
"""Operators whose results have a shape that numbers decide: the host waits for it."""
WAITS = frozenset(["_linalg_check_errors", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_eigvals",
                   "_linalg_svd", "linalg_lstsq", "linalg_matrix_exp"])
"""Operators whose CUDA kernels look at numbers on the host."""
SILENT = frozenset(["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "lift_fresh",
                    "alias", "resolve_conj", "resolve_neg", "_local_scalar_dense", "is_nonzero", "equal",
                    "_linalg_check_errors", "is_same_size"])
"""Operators that start no kernel, or are recorded as something else."""


@dataclass(frozen=True)
class Event:
    """One call of an operator.

    Its kind is "launch", "view", "upload" (from host to device), "read" (the host waits for a number), "host" (a
    computation on the host) or "mixed" (tensors of both are given).
    """

    kind: str
    name: str
    size: int  # bytes read and written
    flops: float
    call: str = ""  # of a compiled program the function that its line calls, "if" for a guard; else tapegrad's own line
    line: str = ""  # of the user, that this stands for


@dataclass
class Log:
    """The events of a `with virtual.device() as log`."""

    events: list[Event] = field(default_factory=list)

    def count(self, *kinds: str) -> int:
        """Return how many events are of these kinds."""
        return sum(event.kind in kinds for event in self.events)

    def size(self, *kinds: str) -> int:
        """Return the bytes that events of these kinds read and write."""
        return sum(event.size for event in self.events if event.kind in kinds)

    def of(self, *kinds: str) -> list[Event]:
        """Return the events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    def names(self, *kinds: str) -> Counter[str]:
        """Return how often operators were called."""
        return Counter(event.name for event in self.of(*kinds))


class Virtual(torch.Tensor):
    """A tensor in the memory of a CPU that says it lies on the device."""

    computing: ClassVar[bool] = False  # a kernel runs, to which it is what it is
    made: ClassVar[Callable[[Any], None] | None] = None  # told of each

    @staticmethod
    def __new__(cls, x: torch.Tensor) -> Any:
        new = torch.Tensor._make_subclass(cls, x, False, dispatch_device=True)  # type: ignore[attr-defined]
        if Virtual.made is not None:
            Virtual.made(new)
        return new

    @property
    def device(self) -> torch.device:
        return HOST if Virtual.computing else DEVICE

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return called(func, args, kwargs or {}, None)


class Generator(torch.Generator):
    """A generator of the device, with the numbers of one of the CPU's; or one of the CPU's."""

    place: torch.device

    def __new__(cls, device: Any = DEVICE) -> Any:
        new = super().__new__(cls)
        new.place = torch.device(device)
        return new

    @property
    def device(self) -> torch.device:
        return self.place


class device(TorchDispatchMode):
    """The context in which there is the device; its value is the log."""

    def __init__(self, places: bool = True) -> None:
        super().__init__()
        self.log, self.places, self.functions = Log(), places, _Functions()

    def __enter__(self) -> Log:  # type: ignore[override]
        super().__enter__()
        self.functions.__enter__()
        return self.log

    def __exit__(self, *err: Any) -> None:
        self.functions.__exit__(*err)
        super().__exit__(*err)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return called(func, args, kwargs or {}, self)


class _Functions(TorchFunctionMode):
    """Makes tensors of Python's numbers where torch does it without a call of an operator."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("generator") is not None:
            refuse_generator(kwargs["generator"], args, kwargs)
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and kwargs.get("device") is not None:
            wanted = torch.device(kwargs["device"])
            if func is not torch.tensor and isinstance(args[0], Virtual) and wanted.type == DEVICE.type:
                return args[0] if kwargs.get("dtype") is None else args[0].to(kwargs["dtype"])  # it lies there
            return func(*args, **{**kwargs, "device": HOST}).to(wanted)
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[0], Virtual):
            # torch itself makes a tensor of a list where no operator shows it
            index = args[1] if type(args[1]) is tuple else (args[1],)
            if any(isinstance(part, (list, np.ndarray)) for part in index):
                args = (args[0], tuple(map(_uploaded, index)), *args[2:])
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and isinstance(args[0], Virtual):
            raise TypeError("can't convert a tensor of a device to numpy: copy it to the host first, Tensor.cpu()")
        if func is torch.Tensor.tolist and isinstance(args[0], Virtual):
            return args[0].cpu().tolist()
        return func(*args, **kwargs)


def refuse_generator(generator: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError, as torch does, for a draw on one device by a generator of another."""
    asked = kwargs.get("device")
    there = any(isinstance(x, Virtual) for x in tensors_in((args, kwargs)))
    device = torch.device(asked) if asked is not None else DEVICE if there else HOST
    if generator.device.type != device.type:
        raise RuntimeError(f"Expected a '{device.type}' device type for generator but found '{generator.device.type}'")


def _uploaded(part: Any) -> Any:
    """Return an index on the device if it is a list."""
    return torch.tensor(part).to(DEVICE) if isinstance(part, (list, np.ndarray)) else part


def put(x: Any) -> Any:
    """Return a tensor or an array as a tensor of the device."""
    x = torch.as_tensor(x)
    if isinstance(x, Virtual):
        return x
    with torch._C._DisableTorchDispatch():
        return Virtual(x.clone())


def called(func: Any, args: Any, kwargs: dict[str, Any], mode: device | None) -> Any:
    """Make a call, and record it."""
    if func is torch.ops.prim.device.default:
        return args[0].device if isinstance(args[0], Virtual) else HOST
    given = list(tensors_in((args, kwargs)))
    asked = kwargs.get("device")
    here = any(isinstance(x, Virtual) for x in given)
    if not Virtual.computing and any(x.device.type == DEVICE.type and not isinstance(x, Virtual) for x in given):
        raise RuntimeError(f"{func} takes a tensor of Python's numbers, which each call copies to the device")
    there = here if asked is None else torch.device(asked).type == DEVICE.type
    name = func.overloadpacket.__name__
    if asked is not None:
        kwargs = {**kwargs, "device": HOST}
    before, Virtual.computing = Virtual.computing, True
    try:
        with torch._C._DisableTorchDispatch():
            out = func(*args, **kwargs)
            if there:
                out = _wrapped(out)
            elif here:
                out = _plain(out)
    finally:
        Virtual.computing = before
    if mode is not None:
        record(mode, func, name, args, given, out, here, there, kwargs.get("output_size") is not None)
    return out


def record(mode: device, func: Any, name: str, args: Any, given: list[Any], out: Any, here: bool, there: bool,
           sized: bool) -> None:
    """Put down what a call was."""
    results = list(tensors_in(out))
    kind = kind_of(func, name, args, given, results, here, there, sized)
    if kind is not None:
        size = sum(x.numel() * x.element_size() for x in [*given, *({id(x): x for x in results}.values())])
        flops = 0.0
        if kind == "launch":
            flops = flops_of(name, given, results)
        place = where() if mode.places and kind not in ("launch", "view") else ()
        mode.log.events.append(Event(kind, name, size, flops, *place))


def kind_of(func: Any, name: str, args: Any, given: list[Any], results: list[Any], here: bool,
            there: bool, sized: bool) -> str | None:
    """Return the kind of an event; None for what a device is not asked."""
    if name in ("copy_", "_to_copy"):
        source = given[1] if name == "copy_" and len(given) > 1 else given[0]
        goes = isinstance(given[0], Virtual) if name == "copy_" else there
        comes = isinstance(source, Virtual)
        return "launch" if goes and comes else "upload" if goes else "read" if comes else "host"
    if not here and not there:
        return "host" if (given or results) and name not in SILENT else None
    if here and any(not isinstance(x, Virtual) for x in given):
        return "mixed"
    if name in READS or name in WAITS or (name in SIZES and not sized):
        return "read"
    if name in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"):
        masks = [x for x in args[1] if x is not None and x.dtype in (torch.bool, torch.uint8)]
        # one number is filled in by the mask itself
        if masks and not (name.startswith("index_put") and len(args[1]) == 1 and args[2].numel() == 1 and not args[3:]):
            return "read"
    if name in SILENT or _is_view(func):
        return "view"
    return "launch"


@lru_cache(None)
def _is_view(func: Any) -> bool:
    """True for an operator whose result lies in the memory of an argument, which it does not write to."""
    aliases = [x.alias_info for x in func._schema.returns if x.alias_info is not None]
    return bool(aliases) and not any(x.is_write for x in aliases)


def flops_of(name: str, given: list[Any], results: list[Any]) -> float:
    """Return the floating-point operations of a product or a factorisation; of anything else, one an element."""
    whole = 4.0 if any(x.dtype.is_complex for x in results) else 1.0
    shapes = [x.shape for x in given]
    if name in ("mm", "bmm", "dot", "mv", "baddbmm", "addmm", "matmul", "addmv"):
        inner = shapes[-2][-1] if len(shapes[-2]) > 1 else shapes[-2][0]
        return whole * 2.0 * inner * max(1, results[0].numel())
    largest = max((x for x in (*given, *results)), key=lambda x: x.numel(), default=None)
    if largest is None:
        return 0.0
    if largest.ndim >= 2 and ("linalg" in name or "cholesky" in name or "triangular" in name or "lu_" in name):
        n = min(largest.shape[-2:])
        return whole * n * largest.numel() * (1 / 3 if "cholesky" in name else 2 / 3 if "lu" in name else 1.0)
    return whole * largest.numel()


def where() -> tuple[str, str]:
    """Return what called, and the user's line."""
    frame: Any = sys._getframe(2)
    own = ""
    while frame is not None:
        file, number = frame.f_code.co_filename, frame.f_lineno
        if file.startswith("<tapegrad"):
            text = linecache.getline(file, number).strip()
            while number > 1 and not (line := linecache.getline(file, number).strip()).startswith("#"):
                number -= 1
            return called_by(text), line.removeprefix("# ") if number > 1 else ""
        if not own and "/tapegrad/" in file:
            own = f"{file.rpartition('/tapegrad/')[2]}:{number}"
        frame = frame.f_back
    return own, ""


def called_by(text: str) -> str:
    """Return the function that a line of a compiled program calls; "if" for a guard."""
    if text.startswith("if "):
        return "if"
    found = re.match(r"(?:[\w, ]+ = )?([\w.]+)\(", text)
    return re.sub(r"_\d+$", "", found[1].rpartition(".")[2]) if found else text


def tensors_in(x: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested lists, tuples and dicts."""
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for part in x:
            yield from tensors_in(part)
    elif isinstance(x, dict):
        for part in x.values():
            yield from tensors_in(part)


def _wrapped(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x if isinstance(x, Virtual) else Virtual(x)
    return type(x)(map(_wrapped, x)) if isinstance(x, (tuple, list)) else x


def _plain(x: Any) -> Any:
    if isinstance(x, Virtual):
        return x.as_subclass(torch.Tensor)
    return type(x)(map(_plain, x)) if isinstance(x, (tuple, list)) else x
