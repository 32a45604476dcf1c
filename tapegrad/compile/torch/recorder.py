"""recorder: records the calls of ATen's operators that a function makes, and whether it read numbers on the host."""

from __future__ import annotations

import operator
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tapegrad.numbers.tensors import ORDINARY

LEAKS = frozenset(["numpy", "tolist", "__array__", "__dlpack__", "__reduce_ex__"])  # read numbers without an operator
UNTAGGED = frozenset([torch.ops.aten._pack_padded_sequence.default])  # value-dependent shape without the tag
SIGNS = {"mul": operator.mul, "add": operator.add, "sub": operator.sub, "div": operator.truediv, "eq": operator.eq,
         "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
         "neg": operator.neg}
_DYNAMIC, _RANDOM = torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded
_DEVICE = torch.ops.prim.device.default  # dispatched for tensor subclasses; reads no number
_PLACES = (torch, torch.Tensor, torch._C._nn, torch._C._linalg, torch._C._fft, torch._C._special)  # type: ignore[attr-defined]


class Seen:
    """One call of an operator, what it returned, and the tensors that it wrote to."""

    __slots__ = ("args", "draws", "fn", "found", "kwargs", "result", "written")

    def __init__(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self.fn, self.args, self.kwargs, self.result, self.draws = fn, args, kwargs, result, _RANDOM in fn.tags
        self.written = [args[at] if at < len(args) else kwargs[name] for at, name in _written(fn)
                        if at < len(args) or name in kwargs]
        self.found: Seen | None = None  # the original call, if the arguments are replaced

    def with_args(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Seen:
        """Return the call with its arguments replaced by references."""
        new = copy(self)
        new.found = self
        new.args, new.kwargs = args, kwargs
        return new


@lru_cache(None)
def _written(fn: Any) -> tuple[tuple[int, str], ...]:
    """Return position and name of each argument that an operator writes to, according to its schema."""
    return tuple([(at, arg.name) for at, arg in enumerate(fn._schema.arguments)
                  if arg.alias_info is not None and arg.alias_info.is_write])


class Calls(TorchDispatchMode):  # type: ignore[misc]
    """Records the calls of operators. `escaped` is the reason if they do not describe all that happens, `dynamic` shows
    whether a shape depends on values.

    Later calls may depend on a number, truth value or array read from a tensor, or on a value-dependent shape: the
    operation must then stay opaque. The same holds for operators that are not torch's own: their schemas may be wrong.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self.made: set[int] = set()  # the storages of results
        self.escaped, self.dynamic = "", False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: otherwise torch imports Dynamo, in a second or two, only to disable it here."""
        return False

    def start(self) -> None:
        """Start a new recording."""
        self.seen, self.made, self.escaped, self.dynamic = [], set(), "", False

    def __enter__(self) -> Calls:
        super().__enter__()
        self.leaks = _Leaks(self).__enter__()
        return self

    def __exit__(self, *err: Any) -> None:
        self.leaks.__exit__(*err)
        del self.leaks  # the reference cycle would keep the recorded tensors alive
        super().__exit__(*err)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is _DEVICE:
            return result
        found = tensors_in(result)
        tagged = _DYNAMIC in func.tags and (func is not torch.ops.aten.index.Tensor or _masked(args[1]))
        if tagged or func in UNTAGGED:
            self.escape(f"{func}, whose result has a shape that depends on values")
            self.dynamic = True
        elif not found and result is not None and result != ():
            self.escape(f"{func} of a tensor")
        elif func.namespace not in ("aten", "prims"):
            self.escape(f"{func}, which is not a function of torch")
        elif _RANDOM in func.tags and kwargs and kwargs.get("generator") is not None:
            self.escape(f"{func} draws from a generator that may differ in another call")
        elif any(x.layout is not torch.strided for x in found):
            self.escape(f"a sparse tensor, made by {func}")
        self.seen.append(Seen(func, args, kwargs or {}, result))
        self.made.update([storage_of(x) for x in found if x.layout is torch.strided])
        return result

    def is_unread(self, given: Any, y: Any) -> bool:
        """Return whether an integer tensor among the arguments or computed was used by no operator and is no result:
        C++ code may then have read it, as in torch.tensor_split, and later calls depend on it.
        """
        used = {id(x) for x in tensors_in(y)}
        used.update([id(x) for seen in self.seen for x in tensors_in((seen.args, seen.kwargs))])
        made = [seen.result for seen in self.seen if isinstance(seen.result, torch.Tensor)]
        # one of several results, such as max_pool's indices, or a view of one, is expected to be unused
        parts = {storage_of(x) for seen in self.seen if not isinstance(seen.result, torch.Tensor)
                 for x in tensors_in(seen.result) if x.layout is torch.strided}
        made = [x for x in made if x.layout is torch.strided and storage_of(x) not in parts]
        return bool(self.seen) and any(id(x) not in used and x.numel() and not (x.is_floating_point() or x.is_complex())
                                       for x in (*tensors_in(given), *made))

    def escape(self, why: str) -> None:
        """Note the first reason why the recorded calls do not describe all that happens."""
        self.escaped = self.escaped or why


class _Leaks(TorchFunctionMode):  # type: ignore[misc]
    """Notes calls of methods that read numbers from a tensor without calling an operator."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(func, "__name__", "") in LEAKS:
            self.calls.escape(f"{func.__name__} of a tensor")
        return func(*args, **(kwargs or {}))


# -- the spelling of a call


class _Asked(TorchDispatchMode):  # type: ignore[misc]
    """Records the operators that a function calls and their arguments, without running them; results are empty."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.calls: list[Any] = []
        result = seen.result
        self.result = type(result)(map(self.like, result)) if isinstance(result, (tuple, list)) else self.like(result)
        if any(result is x for x in seen.written):
            self.result = result

    @staticmethod
    def like(x: Any) -> Any:
        """Return an empty tensor in place of a tensor."""
        return torch.empty(0, dtype=x.dtype) if isinstance(x, torch.Tensor) else x

    _should_skip_dynamo = Calls._should_skip_dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        if func is torch.ops.aten.detach.default:  # making a tensor calls detach too
            return args[0]
        self.calls.append((func, args, kwargs or {}))
        return self.result


SPELLINGS: dict[Any, Callable[..., Any]] = {}


def spelling(seen: Seen) -> Callable[..., Any]:
    """Return the fastest function for a call: a Python operator, method or function of torch that calls exactly this
    ATen operator with these arguments; else the ATen operator without its Python wrapper.
    """
    seen = seen.found or seen
    kinds = (seen.fn, tuple(map(type, seen.args)), tuple(seen.kwargs))
    if kinds not in SPELLINGS:
        name = seen.fn.overloadpacket.__name__
        known: list[Any] = [SIGNS[name]] if name in SIGNS else [sliced] if name == "slice" else []
        known += [found for place in _PLACES if callable(found := getattr(place, name, None))]
        SPELLINGS[kinds] = next((fn for fn in known if _is_same(fn, seen)), seen.fn._op)
    return SPELLINGS[kinds]


def sliced(x: Any, axis: int = 0, start: int | None = None, stop: int | None = None, step: int = 1) -> Any:
    """Return a slice along an axis."""
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


def _is_same(fn: Callable[..., Any], seen: Seen) -> bool:
    with torch._C._AutoDispatchBelowAutograd(), _Asked(seen) as asked:
        try:
            fn(*seen.args, **seen.kwargs)
        except Exception:
            return False
    return len(asked.calls) == 1 and _same(asked.calls[0], (seen.fn, seen.args, seen.kwargs))


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return False
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return type(a) is type(b) and (a == b or (a != a and b != b))


# -- tensors


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


def storage_of(x: Any) -> int:
    """Return an identifier of a tensor's storage, unique while the storage lives."""
    return int(x.untyped_storage()._cdata)


def share(a: Any, b: Any) -> bool:
    """Return whether two tensors share a storage."""
    return storage_of(a) == storage_of(b)


def is_dense(x: Any) -> bool:
    """Return whether a tensor is contiguous and fills its storage."""
    return bool(x.is_contiguous() and x.untyped_storage().nbytes() == x.numel() * x.element_size())


def is_same_view(a: Any, b: Any) -> bool:
    """Return whether two tensors are the same view of one storage."""
    return bool(a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
                and a.dtype is b.dtype and a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg() and share(a, b))


def _masked(parts: Any) -> bool:
    return any(part is not None and part.dtype in (torch.bool, torch.uint8) for part in parts)
