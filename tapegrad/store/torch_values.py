"""torch's values in a file: dtypes, devices, sizes, torch's own generators, and the ops of its frontend. torch is
imported once a file names one.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

from tapegrad.numbers.lazy import needed, torch
from tapegrad.rules.op import Op
from tapegrad.rules.registry import FRONTEND_OPS
from tapegrad.store.checks import count, fail, text
from tapegrad.trace.lazy_frontends import register_imported

_EFFECTS = frozenset(["backward", "const_data_ptr", "data_ptr", "module_load", "numpy", "record_stream",
                      "register_hook", "register_post_accumulate_grad_hook", "storage", "untyped_storage"])
_CLASSES = (("torch", "Tensor"), ("torch.nn.parameter", "Parameter"))
_DEVICE = r"(cpu|cuda|meta|mps|xpu)(:\d{1,3})?"


def written(x: Any) -> list[Any] | None:
    """Return the JSON of a torch setting, or of a device's own generator; None for other values."""
    kind = type(x)
    if kind.__module__ == "torch" and kind.__name__ == "Size":
        return ["torch Size", *x]
    if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device"):
        return [f"torch {kind.__name__}", str(x).removeprefix("torch.")]
    if isinstance(x, type) and (x.__module__, x.__name__) in _CLASSES:
        return ["torch class", f"{x.__module__}.{x.__name__}"]
    if is_source(x) and x.own is None and x.begin is None:
        return ["torch generator", x.device]
    return None


def is_source(x: Any) -> bool:
    """Return whether a value names the torch generator that a tape draws from."""
    return type(x).__module__ == "tapegrad.frontends.torch.random" and hasattr(type(x), "rewind")


def ops_of_torch() -> dict[str, Op]:
    """Return the ops of torch's frontend, by name."""
    needed("torch")
    register_imported()
    return FRONTEND_OPS


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions and methods of torch that a file may name, by name: those that compute from tensors, without
    those that write to one, expose its memory, or change how torch treats it.
    """
    names = torch.overrides
    found = {str(names.resolve_name(fn)): fn for fns in names.get_overridable_functions().values() for fn in fns}
    return {name: fn for name, fn in found.items()
            if not (last := name.rpartition(".")[2]).startswith("_") and not last.endswith("_") and last not in _EFFECTS
            and not getattr(fn, "__name__", "_").startswith("_")}


def written_op(op: Any) -> list[Any] | None:
    """Return the JSON of a torch function recorded whole, of its pullback, or of a batch of either; None for other ops,
    and for functions that are not torch's own.
    """
    kind, of, *settings = getattr(op, "made", None) or ("", None)
    if not kind:
        return None
    name = written_op(of) if isinstance(of, Op) else torch.overrides.resolve_name(of)
    if name is None or (isinstance(name, str) and functions().get(name) is not of):
        return None
    return ["torch function", kind, name, *map(list, settings)]


def _recorded(kind: Any, of: Any, *settings: Any) -> Any:
    ops_of_torch()
    made = importlib.import_module("tapegrad.frontends.torch.torchop").MADE
    if text(kind) not in made:
        fail(f"{kind!r} in place of a kind of torch function")
    if isinstance(of, str) and of not in functions():
        fail(f"{text(of)!r} in place of a torch function of tensors")
    return made[kind](functions()[of] if isinstance(of, str) else _recorded(*of[1:]), *settings)


def _dtype(name: Any) -> Any:
    found = getattr(torch, text(name), None)
    if not isinstance(found, torch.dtype):
        fail(f"{name!r} in place of a torch dtype")
    return found


def _device(name: Any) -> str:
    if not re.fullmatch(_DEVICE, text(name)):
        fail(f"{name!r} in place of a device")
    return name  # type: ignore[no-any-return]


def _class(name: Any) -> Any:
    """Return a class of tensors, by name."""
    if tuple(text(name).rpartition(".")[::2]) not in _CLASSES:
        fail(f"{name!r} in place of a torch class")
    return torch.Tensor if name == "torch.Tensor" else torch.nn.Parameter


def _generator(device: Any) -> Any:
    ops_of_torch()
    return importlib.import_module("tapegrad.frontends.torch.random").SOURCES(_device(device))


READ: dict[str, Callable[..., Any]] = {
    "torch function": _recorded,
    "torch op": lambda name: ops_of_torch()[text(name)], "torch dtype": _dtype, "torch generator": _generator,
    "torch class": _class,
    "torch device": lambda name: torch.device(_device(name)), "torch Size": lambda *ns: torch.Size(map(count, ns)),
}
"""Makes values from their JSON, by tag."""
