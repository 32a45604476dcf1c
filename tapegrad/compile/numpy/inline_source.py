"""inline_source: writes the definitions that a standalone module needs: imports of NumPy, constants as literals, copies
of tapegrad's own functions.
"""

from __future__ import annotations

import ast
import base64
import builtins
import dis
import importlib
import inspect
import math
import textwrap
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, UnknownFunction, user_location
from tapegrad.numbers.cotangents import layout_of
from tapegrad.numbers.lazy import Lazy, needed
from tapegrad.numbers.systems import system, system_of
from tapegrad.numbers.tensor_array import TensorArray
from tapegrad.numbers.tensor_dtypes import numpy_dtype
from tapegrad.numbers.tensors import holds_tensor, is_spread, is_tensor, is_tensor_type
from tapegrad.numbers.view_path import Step
from tapegrad.rules.op import Op, Traced
from tapegrad.tape.raised import Raised
from tapegrad.tree.copies import CACHED

_SHORT = 64  # most elements of an array written as a list
_PACKAGES = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "math", "cmath", "operator", "scipy.special",
             "scipy.linalg", "scipy.signal")


class Vendor:
    """Collects imports and definitions, each name once, in executable order."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.definitions: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def define(self, name: str, value: Any) -> None:
        """Define `name` as `value`; raise ArgumentError if it has no source."""
        if name in self.values:
            if self.values[name] is not value and not isinstance(value, (int, float, str, tuple)):
                raise ArgumentError(f"two objects are named {name} in the source of this tape: {value!r} and "
                                    f"{self.values[name]!r}")
            return
        self.values[name] = value
        text = self.expression(value)
        if text is not None:
            self.definitions[name] = f"{name} = {text}"
        elif isinstance(value, FunctionType):
            self.function(name, value)
        elif isinstance(value, CACHED):
            self.imports.add("import functools")  # its source begins with the decorator
            self.function(name, value.__wrapped__)  # type: ignore[arg-type]
        elif isinstance(value, type) and value.__module__.startswith("tapegrad.ops."):
            self.needed(name, [fn for fn in vars(value).values() if isinstance(fn, FunctionType)])
            self.definitions[name] = textwrap.dedent(inspect.getsource(value)).rstrip()
        else:
            raise ArgumentError(f"{value!r} has no source: the tape cannot be written as a module", None,
                                "tape.save(path), or tg.compile(tape) in the same process; of tensors, "
                                'tg.compile(tape, backend="torch").source, or tape.to_fx()')

    def expression(self, value: Any) -> str | None:
        """Write a value as an expression of imported names, None if there is none."""
        if isinstance(value, ModuleType):
            self.imports.add(f"import {value.__name__}")
            return value.__name__
        if type(value) is Lazy:
            return self.expression(importlib.import_module(value.__dict__["__lazy__"]))
        if any(value is fn for fn in (is_tensor, is_tensor_type, holds_tensor, is_spread)):
            return "(lambda x: False)"
        if value is Traced or value is TensorArray:
            return "()"  # isinstance(x, Traced): the module meets no proxies or tensors
        if value is system or value is system_of:
            return "(lambda x: None)"  # nor numbers of other systems
        if value is UnknownFunction or value is user_location:
            return "TypeError" if value is UnknownFunction else "(lambda: None)"
        if value is numpy_dtype:
            return self.expression(np.dtype)
        if value is needed:
            self.imports.add("import importlib")
            return "importlib.import_module"
        if isinstance(value, Enum) and isinstance(value, (int, float, str)):
            value = value.value  # equal to the member
        if type(value) in (bool, int, str, bytes, NoneType) or value is Ellipsis:
            return repr(value)
        if type(value) is dict:
            parts = [self.expression(part) for part in (*value, *value.values())]
            pairs = zip(parts[:len(value)], parts[len(value):])
            return None if None in parts else "{" + ", ".join(f"{key}: {part}" for key, part in pairs) + "}"
        if type(value) is slice:
            parts = [self.expression(part) for part in (value.start, value.stop, value.step)]
            return None if None in parts else f"slice({', '.join(map(str, parts))})"
        if type(value) in (float, complex):  # subclasses may have another repr and arithmetic
            return (repr(value) if type(value) is float and math.isfinite(value)
                    else f"{type(value).__name__}({str(value)!r})")
        if isinstance(value, np.dtype):
            self.imports.add("import numpy as np")
            return f"np.dtype({value.str!r})"
        if isinstance(value, (np.ndarray, np.generic)):
            return self.array(value)
        if isinstance(value, (tuple, list, frozenset)) and not isinstance(value, (Step, Raised)):
            parts = [self.expression(part) for part in value]
            if any(part is None for part in parts):
                return None
            inner = ", ".join(map(str, parts)) + ("," if len(parts) == 1 else "")
            return (f"frozenset([{inner}])" if isinstance(value, frozenset) else f"[{inner}]" if isinstance(value, list)
                    else f"({inner})")
        if isinstance(value, Op):
            return None
        return self.imported(value)

    def imported(self, value: Any) -> str | None:
        """Write an object of a package or the builtins by its name there, None if it is not found."""
        name = getattr(value, "__name__", None)
        owner = getattr(value, "__self__", None)
        if isinstance(owner, np.ufunc) and isinstance(value, BuiltinFunctionType):
            inner = self.expression(owner)
            return None if inner is None else f"{inner}.{name}"
        if isinstance(name, str) and vars(builtins).get(name) is value:
            return name
        for package in _PACKAGES if isinstance(name, str) else ():
            module = _loaded(package)
            if module is not None and getattr(module, str(name), None) is value:
                if package.startswith("numpy"):
                    self.imports.add("import numpy as np")
                    return f"{package.replace('numpy', 'np')}.{name}"
                self.imports.add(f"import {package}")
                return f"{package}.{name}"
        return None

    def array(self, value: Any) -> str:
        """Write an array: as a list if it is short, else as its bytes in base64."""
        self.imports.add("import numpy as np")
        if value.dtype.kind not in "biufc":
            raise ArgumentError(f"an array of dtype {value.dtype} has no source: the tape has none either")
        finite = value.dtype.kind in "biu" or bool(np.isfinite(value).all())
        if isinstance(value, np.generic):
            number = value.item() if finite and value.dtype.kind != "c" else str(value.item())
            return f"np.{value.dtype.name}({number!r})"
        if value.ndim > 1 and layout_of(value) == "F":
            return f"{self.array(value.T)}.T"
        if value.size <= _SHORT and finite and value.size:
            return f"np.array({value.tolist()!r}, {value.dtype.str!r})"
        self.imports.add("import base64")
        flat = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return f"np.frombuffer(base64.b64decode({flat!r}), {value.dtype.str!r}).reshape({value.shape!r})"

    def function(self, name: str, fn: FunctionType) -> None:
        """Copy a function, and define the names that it refers to."""
        self.needed(name, [fn])
        try:
            text = _source_of(fn)
        except OSError:  # made by eval, or in an interactive session
            raise ArgumentError(f"{fn.__qualname__} has no source: it is not defined in a file", None,
                                "define it with def in a file; or tape.save(path)") from None
        is_lambda = fn.__name__ == "<lambda>"
        if fn.__closure__:
            cells = dict(zip(fn.__code__.co_freevars, (cell.cell_contents for cell in fn.__closure__)))
            given = []
            for key, value in cells.items():
                written = self.expression(value)
                if written is None and isinstance(value, FunctionType) and value.__module__.startswith("tapegrad.ops."):
                    written = f"{name}_{key}"
                    self.define(written, value)
                if written is None:
                    raise ArgumentError(f"{fn.__qualname__} cannot be written as source: it captured {key}")
                given.append(written)
            inner = f"    return {text}" if is_lambda else textwrap.indent(text, "    ") + f"\n    return {fn.__name__}"
            made = f"{name} = _make_{name}({', '.join(given)})"
            self.definitions[name] = f"def _make_{name}({', '.join(cells)}):\n{inner}\n\n\n{made}"
        elif is_lambda:
            self.definitions[name] = f"{name} = {text}"
        else:
            self.definitions[name] = text + (f"\n\n\n{name} = {fn.__name__}" if name != fn.__name__ else "")

    def needed(self, name: str, functions: list[FunctionType]) -> None:
        """Define the global names that functions refer to, except `name`."""
        for fn in functions:
            for other in sorted(_global_names(fn.__code__) & fn.__globals__.keys() - {name}):
                value = fn.__globals__[other]
                if isinstance(value, ModuleType):
                    self.module(other, value)
                else:
                    self.define(other, value.impl if isinstance(value, Op) else value)

    def module(self, name: str, value: ModuleType) -> None:
        """Import a module under its name in the copied function."""
        if value.__name__.partition(".")[0] == "tapegrad":
            raise ArgumentError(f"a function of this tape needs {value.__name__}: it cannot be written as a module")
        self.imports.add(f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else ""))




def _loaded(package: str) -> ModuleType | None:
    import sys
    return sys.modules.get(package)


def _global_names(code: CodeType) -> set[str]:
    """Return the names that code reads from its module, without attribute names, unlike `co_names`."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*[_global_names(part) for part in code.co_consts if isinstance(part, CodeType)])


def _source_of(fn: FunctionType) -> str:
    """Return the source of a function, or of a lambda inside any expression."""
    if fn.__name__ != "<lambda>":
        return textwrap.dedent(inspect.getsource(fn)).rstrip()
    lines, _ = inspect.findsource(fn)
    module = ast.parse("".join(lines))
    found = [node for node in ast.walk(module) if isinstance(node, ast.Lambda)
             and node.lineno == fn.__code__.co_firstlineno]
    for text in map(ast.unparse, found):
        code = eval(text, {}).__code__  # evaluates the lambda without calling it: one line may have several
        if len(found) == 1 or all(getattr(code, part) == getattr(fn.__code__, part)
                                  for part in ("co_varnames", "co_names", "co_consts")):
            return text
    raise ArgumentError(f"the source of {fn!r} was not found")
