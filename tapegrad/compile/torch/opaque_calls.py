"""opaque_calls: opaque calls, of functions that compute on the host, draw, or run the user's code.

A tape does not show whether the shape of a user function's result depends on values. If the run shows no dependence,
the shape is assumed to be static, and each call checks that the types of the results are those of lowering. If the tape
calls the function's pullback too, torch's autograd graph of the call is kept for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad.compile.torch.kernel import holds_value
from tapegrad.compile.torch.recorder import storage_of, tensors_in
from tapegrad.errors import GuardError
from tapegrad.numbers.equality import alike
from tapegrad.numbers.formatting import PYTHON, is_python
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import pack, whole_of
from tapegrad.replay.interpreter import Memory
from tapegrad.replay.raising import spec_recorded
from tapegrad.rules.op import Op
from tapegrad.rules.types.family import is_by_value
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, operands
from tapegrad.tree.flatten import leaves_of


class RepeatedCall:
    """One call of a tape, repeated as in a replay."""

    def __init__(self, of: Any, op: Call, fn: Callable[..., Any], dead: list[int], first: int, owned: int) -> None:
        self.op, self.fn = op, None if isinstance(op.fn, Operation) else fn
        self.dead, self.first, self.owned = dead, first, owned
        self.tape, self.device = of.tape, of.device
        of.memory.copied(op)
        self.used = of.memory.used
        self.__name__ = getattr(fn, "__name__", "call")

    def __call__(self, *given: Any) -> Any:
        fn = self.fn
        if fn is None:
            fn, *given = given  # type: ignore[assignment]
        memory = Memory.once(self.tape, self.device, {self.first: self.owned}, self.used)
        return memory.run(self.op, fn, list(given), self.dead)


class Unsteady(GuardError):
    """The type or memory layout of a result differs from that seen in lowering."""


class CheckedCall:
    """A call that raises Unsteady if the type or memory layout of a result differs from that seen in lowering. Later
    programs then no longer assume that those of the function are static.
    """

    def __init__(self, run: Callable[..., Any], op: Call, kinds: Any) -> None:
        self.run, self.op, self.kinds, self.__name__ = run, op, kinds, op.fn.__name__

    def __call__(self, *given: Any) -> Any:
        y = self.run(*given)
        self.check(y, given)
        return y

    def check(self, y: Any, given: tuple[Any, ...]) -> None:
        """Raise Unsteady unless the types and memory layouts of the results are as before."""
        if kinds_of(y, given) != self.kinds:
            self.op.fn.watched = False
            raise Unsteady(f"{self.__name__} returned tensors of other shapes or strides than when it was recorded",
                           self.op.where, "trace the function again with these arguments")


def kinds_of(y: Any, given: Any) -> Any:
    """Return the nested types of results; for a tensor also the memory layout and the argument that it aliases."""
    storages = [storage_of(x) for x in tensors_in(given)]

    def kind(part: Any) -> Any:
        if is_tensor(part):
            storage = storage_of(part)
            return (part.shape, part.dtype, part.stride(), part.storage_offset(), part.device,
                    storages.index(storage) if storage in storages else -1)
        return tuple(map(kind, part)) if isinstance(part, (tuple, list)) else type(part)
    return kind(y)


class Pair:
    """A call of a function recorded as one operation, and the calls of its pullback; `only` has the numbers of the
    cotangents that are used, None for all.
    """

    def __init__(self, op: Call) -> None:
        self.op, self.pullbacks = op, list[Call]()
        self.graph: Any = None  # reference to torch's autograd graph on the new tape
        self.walked: Any = None  # the autograd graph of the call made during lowering
        self.only: set[int] | None = set()

    def start(self, given: Any) -> tuple[Any, Any]:
        """Return the value of the call, and its autograd graph."""
        return self.op.fn.start(tuple(given), only=self.only, **self.op.kwargs)  # type: ignore[no-any-return]

    def finish(self, graph: Any, given: Any) -> Any:
        """Return the cotangents computed through the graph; `given` are the arguments of the pullback."""
        dy, _ = self.pullbacks[0].fn.split(given)
        return self.op.fn.finish(graph, dy, again=len(self.pullbacks) > 1)


def pairs_of(tape: Tape) -> dict[Any, Pair]:
    """Return the pairs on a tape, by their calls and pullback calls."""
    found: dict[Any, Pair] = {}
    made: dict[Any, list[Pair]] = defaultdict(list)
    for op in tape.ops:
        if type(op) is not Call:
            continue
        if (whole := whole_of(op)) in found and whole is not found[whole].op:
            continue
        for used in operands(op):
            if used in found and used is not found[used].op:
                found[used].only = None  # an operation uses the whole result of the pullback
        if getattr(op.fn, "watched", False) and not op.fn.effects.draws:
            made[op.fn].append(Pair(op))
            pair = next((pair for pair in made[op.fn.of] if is_pullback(op, pair.op)), None) if op.fn.of else None
            if pair is not None:
                pair.pullbacks.append(op)
                found[op] = found[pair.op] = pair
    for op in tape.ops:
        pair = found.get(whole_of(op))
        if pair is not None and pair.op is not op.args[0] and pair.only is not None:
            pair.only.add(op.args[1])
    return found


def is_pullback(op: Call, of: Call) -> bool:
    """Return whether a pullback is called with the arguments of the call `of`."""
    args = op.fn.split(op.args)[1]
    return len(args) == len(of.args) and op.kwargs == of.kwargs and all(map(is_same, args, of.args))


def is_same(x: Any, y: Any) -> bool:
    """Return whether two arguments are the same operation or equal static values."""
    if isinstance(x, Constant) and isinstance(y, Constant):
        return x.val is y.val
    if isinstance(x, (tuple, list)) and type(x) is type(y):
        return len(x) == len(y) and all(map(is_same, x, y))
    if x is not y and type(x) is type(y) is Call and x.fn is y.fn is pack:
        return x.kwargs == y.kwargs and all(map(is_same, x.args, y.args))
    return x is y or (not isinstance(x, Operation) and not isinstance(y, Operation) and bool(alike(x, y)))


class Start:
    """A call that returns its results, flattened, and its autograd graph."""

    def __init__(self, pair: Pair, kinds: Any) -> None:
        self.pair, self.__name__ = pair, pair.op.fn.__name__
        self.watched = CheckedCall(pair.start, pair.op, kinds)

    def __call__(self, *given: Any) -> Any:
        y, graph = self.pair.start(given)
        self.watched.check(y, given)
        return (*y, graph) if isinstance(y, (tuple, list)) else (y, graph)


class Finish:
    """The call of a pullback with the autograd graph and its arguments. The value of the original call is a further
    argument, which keeps it from being overwritten before.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair, self.__name__ = pair, pair.pullbacks[0].fn.__name__

    def __call__(self, graph: Any, *given: Any) -> Any:
        return self.pair.finish(graph, given)


def on_host(value: Any, ref: Any) -> bool:
    """Return whether an argument contains values other than tensors that are not static; `ref` is its reference."""
    if isinstance(ref, Operation):
        if isinstance(value, (tuple, list)):
            return any(on_host(part, ref) for part in value)
        return not is_tensor(value)
    if isinstance(ref, (tuple, list)):
        return any(map(on_host, value, ref))
    return holds_value(ref)


def runs_user_code(op: Call) -> bool:
    """Return whether a function recorded as one operation, or that of a pullback, may run the user's code, whose other
    effects no recording shows: it is not torch's own, or is called with a function or a module.
    """
    impl = (op.fn.of or op.fn).impl
    if getattr(impl, "is_users", False):
        return True
    module = (getattr(impl, "__module__", None) or "torch").partition(".")[0]
    if module not in ("torch", "tapegrad"):
        return True
    known = [x.val if isinstance(x, Constant) else x for x in op.args if not isinstance(x, (Input, Call))]
    return any(callable(x) for x in leaves_of((known, op.kwargs)) if not isinstance(x, (torch.Tensor, type)))


def host_function(op: Call, fn: Callable[..., Any], given: list[Any]) -> Callable[..., Any] | None:
    """Return the plain function equivalent to a call on numbers, None if there is none."""
    if op.kwargs or not isinstance(fn, Op) or fn.memory.blank or fn.memory.written or fn.aliases == 0:
        return None
    if not all(isinstance(x, (*PYTHON, np.generic)) for x in given):
        return None
    if spec_recorded(op).is_python and fn.scalar is not None:
        return fn.scalar
    return fn.impl if all(map(is_python, given)) and fn.pythonic else None


def is_typed_on_host(fn: Any) -> bool:
    """Return whether NumPy or SciPy computes an op, and its result type follows from the argument types."""
    return (type(fn) is Op and getattr(fn.lower.get("torch"), "is_on_host", "") == "all"
            and not hasattr(fn.spec, "why") and not is_by_value(fn.spec))
