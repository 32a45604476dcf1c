"""inputs: structure and labels of a call's inputs, and checks that the program left shared ones unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tapegrad.errors import Location, MutationError
from tapegrad.numbers.formatting import name_of
from tapegrad.numbers.tensors import ORDINARY, is_tensor
from tapegrad.rules.op import Op
from tapegrad.trace.global_arrays import code_of_program
from tapegrad.tree.flatten import Structure, Walk, flatten
from tapegrad.tree.modules import refuse_hooks
from tapegrad.tree.signature import Recorded, Signature
from tapegrad.tree.unchanged import changed

SMALL = 4096  # bytes up to which an array's fingerprint covers all of it


def flatten_call(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 walks: list[Walk] | None = None) -> tuple[Signature, list[Any], list[str]]:
    """Return the structure of a call's inputs, the inputs in order, and their labels; append the walks to `walks`.

    Raises ArgumentError for a tensor with a hook.
    """
    walks = [] if walks is None else walks
    leaves: list[Any] = []
    labels: list[str] = []
    if type(f) is Recorded:
        function = f.structure
        leaves += f.leaves
        labels += [""] * len(leaves)
    else:
        function = flatten(f, "" if isinstance(f, (FunctionType, MethodType)) else "self", leaves, labels, walks=walks,
                           given=True)
    names = argument_names(f, len(args))
    positional = tuple(flatten(arg, name, leaves, labels, walks=walks, given=True) for arg, name in zip(args, names))
    keyword = {key: flatten(arg, key, leaves, labels, walks=walks, given=True) for key, arg in kwargs.items()}
    for number, x in enumerate(leaves):
        if type(x) not in ORDINARY and is_tensor(x):
            refuse_hooks(x, labels[number])
    for walk in walks:
        for x, label in walk.keep:
            if is_tensor(x):
                refuse_hooks(x, label)
    return Signature(f, function, positional, keyword), leaves, labels


_NAMED: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def named_as(made: Callable[..., Any], f: Callable[..., Any],
             between: tuple[int, str] | None = None) -> Callable[..., Any]:
    """Give `made`, a function of any arguments that wraps `f`, the name and argument names of `f`; `between` is the
    position and name of an additional argument.
    """
    names = list(_own_names(f))
    if between is not None and len(names) >= between[0]:
        names.insert(*between)
    made.__name__, _NAMED[made] = name_of(f), tuple(names)
    return made


def argument_names(f: Any, count: int) -> list[str]:
    """Return names for positional arguments: those of the function or of the one it wraps, then x1, x2, ..."""
    names = _own_names(f)[:count]
    return [*names, *[f"x{i + 1}" for i in range(len(names), count)]]


def _own_names(f: Any) -> Sequence[str]:
    """Return the names of the positional arguments, faster than inspect.signature."""
    fn, skip = (f.__func__, 1) if isinstance(f, MethodType) else (f, 0)
    code = getattr(fn, "__code__", None)
    if code is None and not isinstance(fn, (type, Op)):
        code, skip = getattr(call_method(fn), "__code__", None), 1
    names: Sequence[str] = code.co_varnames[skip: code.co_argcount] if code is not None else ()
    return names or (_NAMED.get(fn, ()) if type(fn) is FunctionType else ())


def call_method(fn: Callable[..., Any]) -> Any:
    return vars(type(fn)).get("__call__")


def _defined(f: Any) -> Location | None:
    """Return where a program is defined, to report a write whose line is unknown."""
    code = code_of_program(f)
    return None if code is None else Location(code.co_filename, code.co_firstlineno, code.co_name)


def check_shared(signature: Signature, nested: list[Structure], memos: list[dict[int, Any]],
                 proxies: list[Any]) -> None:
    """Refuse changes of objects that two arguments share: each has its own copy, so the other would miss the change."""
    if sum(bool(structure.seen) for structure in nested) < 2:
        return
    counts = Counter(key for structure in nested for key, part in structure.seen.items()
                     if getattr(part, "volatile", False))
    shared = {key for key, count in counts.items() if count > 1}
    for structure, memo in zip(nested, memos) if shared else ():
        for key in shared & structure.seen.keys():
            part = structure.seen[key]
            if id(part) in memo and changed(part, memo[id(part)], proxies, memo):
                names = ["the function", *argument_names(signature.fn, len(signature.args)), *signature.kwargs]
                by = " and ".join(name for name, other in zip(names, nested) if key in other.seen)
                raise MutationError(f"a {type(memo[id(part)]).__name__} that two arguments share, or an argument and "
                                    f"the function, was changed: it is part of {by}", _defined(signature.fn),
                                    "pass it once, or change a copy of it")
    held = [(key, structure, memo) for structure, memo in zip(nested, memos) for key in structure.seen
            if type(memo.get(key)) is CellType]
    cells = Counter(key for key, _, _ in held)
    for key, structure, memo in held:
        if cells[key] > 1 and memo[key].cell_contents is not structure.seen[key].build(proxies, memo):
            raise MutationError("a variable captured by two arguments, or by an argument and the function, was set",
                                _defined(signature.fn), "pass only one function that captured it")


def print_of(x: np.ndarray[Any, Any]) -> bytes:
    """Return a fingerprint that shows most writes to an array; it samples large arrays."""
    if x.nbytes > SMALL:
        most = int(512 ** (1 / x.ndim))
        x = x[tuple(slice(None, None, -(-n // most)) for n in x.shape)]
    return x.tobytes()


def check_written(f: Any, arrays: dict[int, Any], labels: list[str], before: dict[int, bytes]) -> None:
    """Refuse an input that was written to directly: the trace writes to copies, so another name was used."""
    for i, array in arrays.items():
        if print_of(array) != before[i]:
            raise MutationError(f"{labels[i]} was written to while it was differentiated or traced, but not through "
                                "the argument", _defined(f), "write to it through the argument, or pass a copy")
