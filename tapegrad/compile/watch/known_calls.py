"""known_calls: the C functions whose result depends on their arguments only. A call of any other keeps a path from
being compiled.

Numerical functions are not listed one by one: all of NumPy's, SciPy's and torch's count, except the listed ones that
read files or settings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from tapegrad.compile.watch.external_state import external_state_of

PURE: dict[str, frozenset[str]] = {
    "builtins": frozenset(["input", "open", "breakpoint"]),
    "_collections": frozenset(), "_thread": frozenset(["get_native_id", "start_new_thread", "start_joinable_thread",
                                                       "_count", "stack_size", "interrupt_main"]),
    "_csv": frozenset(["get_dialect", "field_size_limit", "list_dialects", "register_dialect", "unregister_dialect"]),
    "_decimal": frozenset(["getcontext", "setcontext", "localcontext"]),
    "_codecs": frozenset(["register", "register_error", "unregister"]), "_warnings": frozenset(),
    **dict.fromkeys(["math", "cmath", "_operator", "itertools", "_functools", "_bisect", "_heapq", "_struct", "_sre",
                     "unicodedata", "binascii", "zlib", "_bz2", "_lzma", "_json", "_statistics", "_string", "_abc",
                     "_hashlib", "_md5", "_sha1", "_sha2", "_sha3", "_sha256", "_sha512", "_blake2", "_stat", "_typing",
                     "_opcode", "errno", "array", "marshal", "_ast", "_datetime", "_copy", "copyreg", "_zoneinfo",
                     "_elementtree", "audioop", "optree", "optree._C"], frozenset[str]()),
}
"""C modules whose functions are pure, except the listed ones."""

SOME: dict[str, frozenset[str]] = {
    "sys": frozenset(["intern", "getsizeof", "getdefaultencoding", "audit", "is_finalizing", "displayhook"]),
    "posix": frozenset(["fspath", "fsencode", "fsdecode", "strerror", "_path_normpath", "_path_splitroot_ex"]),
    "nt": frozenset(["fspath", "strerror", "_path_normpath", "_path_splitroot", "_path_splitroot_ex"]),
    "io": frozenset(["text_encoding"]), "_weakref": frozenset(["_remove_dead_weakref"]),
    "_contextvars": frozenset(["copy_context"]),  # torch's engine copies one; reads of its variables are observed
}
"""Modules whose only pure functions are the listed ones."""

STATEFUL: dict[str, frozenset[str]] = {
    "numpy": frozenset(["fromfile", "_get_madvise_hugepage", "get_handler_name",
                        "get_handler_version", "_load_from_filelike", "_set_numpy_warn_if_no_mem_policy",
                        "_set_madvise_hugepage", "set_typeDict", "set_datetimeparse_function", "_reload_guard"]),
    "scipy": frozenset(["seterr", "geterr", "set_backend", "get_backend"]),
}
"""C functions of NumPy and SciPy that read files, or read or change settings."""

TYPES = frozenset(["builtins", "collections", "re", "_sre", "datetime", "decimal", "array", "functools", "itertools",
                   "operator", "_thread", "types", "fractions", "_struct", "struct", "_hashlib", "_md5", "_sha1",
                   "_sha2", "_sha256", "_sha512", "_blake2", "zlib", "_json", "_csv", "numpy", "optree", "torch",
                   "_operator", "_collections", "_collections_abc", "_functools", "_abc", "contextvars",
                   "_contextvars", "_ast", "ast", "scipy", "zoneinfo", "_zoneinfo", "unicodedata", "_elementtree",
                   "weakref"])
"""Modules whose C classes have methods that depend on the object only; the object's content is compared."""

LOUD = frozenset(["now", "utcnow", "today", "__subclasses__", "locked", "_is_owned", "tofile", "dump", "cache_info",
                  "initial_seed", "seed", "get_state", "getcontext", "_current_frames"])
"""Methods of these classes that depend on other state."""

SETTING_PREFIXES = ("get_", "_get_", "is_", "_is_", "are_", "_are_")
"""Prefixes of the torch functions that return a setting."""

TORCH_MODES = frozenset(["_is_torch_function_mode_enabled",
                         "_is_torch_function_all_disabled", "_get_function_stack_at"])
"""Those that return torch's modes. The trace itself uses a mode; a program that uses none sees none."""

_TORCH = frozenset([f"torch._C.{part}" for part in ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested",
                                                    "_return_types")])


_IN_C = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType, BuiltinFunctionType, staticmethod)


def unknown(fn: Callable[..., Any], caller: str) -> str:
    """Return the name of a C function whose result may depend on more than its arguments, "" for others. `caller` is
    the package of the calling code, "" for the user's.
    """
    owner = getattr(fn, "__self__", None)
    name = str(getattr(fn, "__name__", ""))
    kind = type(owner)
    if owner is None or isinstance(owner, ModuleType) or kind.__module__ == "pybind11_builtins":
        # a static method of a C class does not name its module: assume the package that calls it
        module = str(getattr(fn, "__module__", None) or getattr(owner, "__name__", "") or caller)
        return "" if _is_pure(module, name, caller, fn) else f"{module}.{name}"
    if str(kind.__module__).partition(".")[0] == caller == "torch":  # as torch's functions: its generators are guarded
        return ""
    if name in LOUD or name.startswith("getrandbits"):
        return f"{owner.__name__ if isinstance(owner, type) else kind.__name__}.{name}"
    if external_state_of(owner):
        return f"{kind.__name__}.{name}"
    defined = next((cls for cls in (owner if isinstance(owner, type) else kind).__mro__
                    if type(vars(cls).get(name)) in _IN_C), kind)  # a Python subclass may call it by `super()`
    module = str(defined.__module__)
    if isinstance(owner, type) and defined is kind:  # a method of the metaclass, usually type
        return ""
    return "" if module.partition(".")[0] in TYPES else f"{module}.{defined.__name__}.{name}"


def _is_pure(module: str, name: str, caller: str, fn: Any) -> bool:
    if (loud := PURE.get(module)) is not None:
        return name not in loud
    if (known := SOME.get(module)) is not None:
        return name in known
    package = module.partition(".")[0]
    if package == "torch":
        computes: Any = sys.modules["torch"]._C._VariableFunctions  # type: ignore[attr-defined]
        return caller == "torch" or module in _TORCH or hasattr(computes, name)
    return package in STATEFUL and name not in STATEFUL[package] and not module.startswith("scipy.io")


def is_setting(fn: Any) -> bool:
    """Return whether a function is a C function of torch that returns a setting and needs no arguments."""
    if not (type(fn) is BuiltinFunctionType and str(fn.__module__).partition(".")[0] == "torch"
            and fn.__name__.startswith(SETTING_PREFIXES) and fn.__name__ not in TORCH_MODES
            and isinstance(fn.__self__, ModuleType)):
        return False
    try:
        fn()
    except TypeError:  # it needs an argument: `get_autocast_dtype("cpu")`
        return False
    return True
