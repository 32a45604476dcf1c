"""The format of a saved tape: the layout of the file, and the names that writing and reading share.

    tapegrad-tape 1 <bytes of JSON> <bytes of arrays> <SHA-256 of both>
    {"name": "f", "kinds": "iic…", …}
    the arrays, one after the other, each at a multiple of 64 bytes

Nothing is compressed, so that the content is never larger than the file. The JSON is ASCII, on one line:
`sed -n 2p f.tape`. It holds columns with one entry for each operation, rather than an object for each:

- `name`, `result`, `signature`: the function's name, and the numbers of the result and of the signature (each of the
  two may be null)
- `kinds`: a letter for each operation: `i`nput, `c`onstant, `f`unction call, `g`uard
- `places`, `at`: the user's lines (file, the function's first line, function, line, text); for each operation the
  number of its line, or -1
- `notes`, `values`: one for each operation
- `labels`: one for each input
- `functions`, `calls`: the functions; for each call the number of its function, or minus the variable that holds the
  pullback it calls
- `args`, `kwargs`: the arguments of each call and guard; the keyword arguments of calls that have any,
  `[operation, [key, value], …]`
- `facts`: the fact and the expected value of each guard
- `arrays`: dtype, shape, order of axes in memory, first byte
- `loops`, if any: the `count` of runs, `reverse`, the `steps`, the `sizes` (numbers of given, listed and carried
  inputs), and the body's own columns. Another subtape has count 0, its `kind`, and in `fields` the arguments of its
  constructor after the body.
- `nodes`, `structures`, `signatures`: the nesting of arguments and results: parts, each after its children;
  `[root, leaves]`; structures by role

An argument that is an integer is a variable: 4 is %4. Other values stand for themselves (`null`, `true`, `1.5`,
`"text"`), or are a list that begins with a tag: `["int", 4]`, `["slice", …]`, `["np", "float64", 1.5]`, `["array", 0]`,
`["op", "multiply"]`. The optional fourth entry of a signature names the gradients wanted: `[argnums, captured]`. A
function is an op, a function of tapegrad, or a library's function that tapegrad knows, each by its name; an op of
torch's frontend (`["torch op", "linear"]`); a function of torch with the way it is recorded
(`["torch function", "vjp", ["torch function", "function", "torch.nn.functional.layer_norm"]]`); or
`["given", "module:name"]`, which the reader of the file must be given. `["loop", 0]` is a loop; its body calls
functions before it in the table, and has columns like the tape's, without `signature` and the tables. A file can name
nothing else, and holds no code.
"""

from __future__ import annotations

import functools
import importlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import accumulate, conform
from tapegrad.numbers.formatting import spelled
from tapegrad.rules.op import Op
from tapegrad.rules.registry import CONSTRUCTORS, DISPATCH, STAND_IN, Refusal
from tapegrad.rules.user import rrule
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.transforms.reverse import _flat_result

MAGIC = "tapegrad-tape"
VERSION = 1
ALIGNMENT = 64
MAX_DEPTH = 300  # of nested arguments
MAX_RUNS = 10**9  # of a loop
MAX_PARTS = 10**6  # of an argument; a shared part counts at each occurrence

KINDS = {"input": "i", "constant": "c", "call": "f", "guard": "g"}
OWN = {"rrule": rrule, "accumulate": accumulate, "conform": conform, "flat_result": _flat_result}
SCALARS: dict[str, Any] = {cls.__name__: cls for cls in set(np.sctypeDict.values()) if np.dtype(cls).kind in "biufc"}
TYPES: dict[str, Any] = {cls.__name__: cls for cls in (
    np.random.RandomState,
    bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, slice, range, object, type,
    type(None), SimpleNamespace,
    OrderedDict, defaultdict, deque, Fraction, Decimal, np.ndarray)}
ERRORS = {cls.__name__: cls for cls in (
    ValueError, TypeError, ZeroDivisionError, OverflowError, FloatingPointError, ArithmeticError, IndexError, KeyError,
    LookupError, AttributeError,
    AssertionError, RuntimeError, NotImplementedError, np.linalg.LinAlgError, Exception)}
MODULES = ("numpy", "math", "cmath", "operator",
           "scipy", "scipy.special", "scipy.linalg", "scipy.stats", "scipy.signal")
GENERATORS = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}
GLOBAL = np.random.mtrand._rand  # type: ignore[attr-defined]  # the generator of np.random.rand and its kin
DRAWS = frozenset(name for cls in (np.random.Generator, np.random.RandomState) for name in dir(cls)
                  if not name.startswith("_") and callable(getattr(cls, name))
                  and name not in ("spawn", "get_state", "set_state"))
DTYPE = r"[<>|=]?[biufc]\d{1,2}"


def handed_name(x: Any) -> str:
    """Return the name under which a file's reader must be given a function, a class or an object (`module:Class()`).

    >>> handed_name(Fraction)
    'fractions:Fraction'
    """
    fn = x.impl if isinstance(x, Op) else x
    name = getattr(fn, "__qualname__", None) or getattr(x, "__name__", f"{type(x).__name__}()")
    return f"{getattr(fn, '__module__', None) or 'builtins'}:{name}"


def foreign_name(fn: Any) -> str:
    """Return the name of a library's function; a method's includes its class."""
    if hasattr(fn, "__objclass__"):
        return f"{fn.__objclass__.__module__}.{fn.__objclass__.__name__}.{fn.__name__}"
    if isinstance(fn, np.ufunc) and getattr(np, fn.__name__, None) is not fn:  # a ufunc does not know its module
        return f"scipy.special.{fn.__name__}"
    return spelled(fn)


def foreign(wanted: str = "") -> dict[str, Any]:
    """Return the libraries' functions that tapegrad knows, by name; imports the SciPy module that `wanted` names."""
    module = ".".join(wanted.split(".")[:2])
    if module in MODULES and module.startswith("scipy."):
        importlib.import_module(module)
    register_imported()
    return _foreign(len(DISPATCH))


@functools.lru_cache(maxsize=1)
def _foreign(count: int) -> dict[str, Any]:
    replaced = {id(fn) for fn in STAND_IN.values()}  # replacements, which the originals' names already cover
    known: dict[str, Any] = {}
    for fn in [*DISPATCH, *CONSTRUCTORS]:
        is_known = not isinstance(fn, str) and not isinstance(DISPATCH.get(fn), Refusal)
        if is_known and id(fn) not in replaced and hasattr(fn, "__name__"):
            known.setdefault(foreign_name(fn), fn)
    return known


@functools.cache
def results() -> dict[str, Any]:
    """Return the named tuples that NumPy's functions return, by name; NumPy keeps them in private modules."""
    found = {}
    for path in ("numpy.linalg._linalg", "numpy.lib._arraysetops_impl"):
        try:
            module = importlib.import_module(path)
        except ImportError:
            continue
        classes = {name: cls for name, cls in vars(module).items() if isinstance(cls, type)}
        found.update({name: cls for name, cls in classes.items() if hasattr(cls, "_fields")})
    return found


def spread(keys: Iterable[Any]) -> list[Any]:
    """Return the keys of a dict or set; raise ValueError for thousands with one hash, which take quadratic time."""
    found = list(keys)
    if len(found) > 1000:
        hashes = sorted(map(hash, found))
        if any(first == last for first, last in zip(hashes, hashes[1000:])):
            raise ValueError("more than a thousand keys of the same hash")
    return found


def printable(text: str) -> str:
    """Return text whose unprintable characters, which could control a terminal, are blanks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
