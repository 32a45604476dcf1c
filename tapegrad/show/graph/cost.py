"""Cost: estimates the bytes of an operation's value and its floating point operations, from shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.ops import array, astype, copy
from tapegrad.rules.batching import elementwise, rule_of
from tapegrad.rules.op import Op
from tapegrad.rules.user import rrule
from tapegrad.tape.spec import UNKNOWN, Absent
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Operation, value_of

_NUMBERS = {bool: 1, int: 8, float: 8, complex: 16}

MOVES = frozenset([array, astype, copy])  # ops that move numbers, besides those whose `memory` declares it

REDUCTIONS = frozenset([
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "logsumexp", "max", "mean",
    "min", "nanmax",
    "nanmin", "prod", "scatter", "sum", "vector_norm"])

# Leading terms for an n × n matrix: G. Golub, C. Van Loan, Matrix Computations (4th edition); for
# right-hand sides, 2n² each.
CUBIC = {"cholesky": 1 / 3, "det": 2 / 3, "slogdet": 2 / 3, "lu_factor": 2 / 3, "inv": 2.0, "eigh": 9.0,
         "eigvalsh": 4 / 3, "eig": 25.0}


class Cost(NamedTuple):
    """Bytes of the value, and flops; None if shapes do not give them. A function of one number counts as one flop."""

    bytes: int | None
    flops: int | None


def cost_of(op: Operation) -> Cost:
    """Estimate the cost of an operation; that of a pullback is unknown before the tape is primitivized.

    >>> from tapegrad.ops import matmul
    >>> from tapegrad.tape.tape import call
    >>> product = call(matmul, np.ones((3, 4)), np.ones((4, 5)))
    >>> product.val = np.ones((3, 5))
    >>> cost_of(product)
    Cost(bytes=120, flops=120)
    """
    if not isinstance(op, Call):
        return Cost(bytes_of(op.val), 0)
    fn, args, val = op.fn, op.args, op.val
    if isinstance(fn, Subtape):
        each = [cost_of(inner).flops for inner in fn.body]
        return Cost(bytes_of(val), None if None in each else fn.count * sum(filter(None, each)))
    if fn is rrule:
        fn, args, val = args[0], args[1:], val[0] if isinstance(val, tuple) else UNKNOWN
    flops = (None if type(val) is Absent or not isinstance(fn, Op)
             else _flops(fn, [plain(value_of(arg)) for arg in args], plain(val)))
    return Cost(bytes_of(val), flops)


def bytes_of(value: Any) -> int | None:
    """Return the memory of a number, an array, a tensor, or all in a tuple, list or dict; None for anything else."""
    value = plain(value)
    if type(value) in _NUMBERS:
        return _NUMBERS[type(value)]
    if isinstance(value, (tuple, list, dict)):
        parts = [bytes_of(part) for part in (value.values() if isinstance(value, dict) else value)]
        return sum(filter(None, parts)) if any(part is not None for part in parts) else None
    size = getattr(value, "nbytes", None)
    return int(size) if isinstance(size, (int, np.integer)) else None


def _flops(fn: Op, args: list[Any], y: Any) -> int | None:
    name, rule, memory = fn.__name__, rule_of(fn), fn.memory
    if fn in MOVES or memory.of is not None or (rule is not elementwise and (memory.moved or memory.blank)):
        return 0
    if not args:
        return None
    if name in REDUCTIONS:
        return sum(map(_size, args))
    if name in _SPECIAL:
        return _SPECIAL[name](args, y)
    if name in CUBIC or name == "solve":
        *batch, n = shape_of(args[0])[:-1]
        if name == "solve":
            return round(math.prod(batch) * n ** 3 * 2 / 3) + 2 * n * _size(y)
        return round(math.prod(batch) * n ** 3 * CUBIC[name])
    return _size(y) if rule is elementwise else None


def _product(args: list[Any], y: Any) -> int:
    """Two flops for each number of the output and of the summed axis."""
    shape = shape_of(args[0])
    return 2 * _size(y) * (shape[-1] if shape else 1)


def _vecmat(args: list[Any], y: Any) -> int:
    return 2 * _size(args[1])


def _fft(args: list[Any], y: Any) -> int:
    """Cooley and Tukey's 5 n log₂ n."""
    n = max(_size(y), _size(args[0]))
    last = (shape_of(y) or (1,))[-1]
    return round(5 * n * math.log2(max(last, 2)))


_SPECIAL: dict[str, Callable[[list[Any], Any], int]] = {
    "matmul": _product, "dot": _product, "vecdot": _product, "vdot": _product, "matvec": _product, "vecmat": _vecmat,
    "fft": _fft, "ifft": _fft, "rfft": _fft, "irfft": _fft}


def _size(x: Any) -> int:
    return math.prod(shape_of(x))
