"""closed_calls: calls that nothing looks into: of what computes on the host, draws, or runs the user's code.

Whether numbers decide the shape of what a function of the user's returns on torch's own tape, a tape does not say.
Where that is not seen when it runs, they are taken not to; and each call is asked whether its results are such as the
program was made for. Where the tape calls its pullback too, torch's own tape of the call is kept for that.
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


class Again:
    """One call of a tape, made anew as a replay makes it."""

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
    """A result is of another kind than the program was made for."""


class Watched:
    """A call that raises Unsteady where a result is of another kind than it was: no program is made any more that
    takes those of its function to be steady.
    """

    def __init__(self, run: Callable[..., Any], op: Call, kinds: Any) -> None:
        self.run, self.op, self.kinds, self.__name__ = run, op, kinds, op.fn.__name__

    def __call__(self, *given: Any) -> Any:
        y = self.run(*given)
        self.check(y, given)
        return y

    def check(self, y: Any, given: tuple[Any, ...]) -> None:
        """Raise Unsteady for results of another kind."""
        if kinds_of(y, given) != self.kinds:
            self.op.fn.watched = False
            raise Unsteady(f"{self.__name__} returned tensors of other shapes, or that lie otherwise in memory",
                           self.op.where, "trace the function again with these arguments")


def kinds_of(y: Any, given: Any) -> Any:
    """Return the types of results, nested as they are, of tensors how they lie in memory, and in whose of the given."""
    storages = [storage_of(x) for x in tensors_in(given)]

    def kind(part: Any) -> Any:
        if is_tensor(part):
            storage = storage_of(part)
            return (part.shape, part.dtype, part.stride(), part.storage_offset(), part.device,
                    storages.index(storage) if storage in storages else -1)
        return tuple(map(kind, part)) if isinstance(part, (tuple, list)) else type(part)
    return kind(y)


class Pair:
    """A call of a function recorded whole, and those of its pullback; of what flows back, `only` these are used."""

    def __init__(self, op: Call) -> None:
        self.op, self.pullbacks = op, list[Call]()
        self.graph: Any = None  # what stands for torch's own tape on the new one
        self.walked: Any = None  # that tape, of the call that was made to find what it comes down to
        self.only: set[int] | None = set()

    def start(self, given: Any) -> tuple[Any, Any]:
        """Return the value of the call, and torch's own tape of it."""
        return self.op.fn.start(tuple(given), only=self.only, **self.op.kwargs)  # type: ignore[no-any-return]

    def finish(self, graph: Any, given: Any) -> Any:
        """Return what flows back through that tape, of the arguments of the pullback."""
        dy, _ = self.pullbacks[0].fn.split(given)
        return self.op.fn.finish(graph, dy, again=len(self.pullbacks) > 1)


def pairs_of(tape: Tape) -> dict[Any, Pair]:
    """Return the pairs on a tape, by the calls of both kinds."""
    found: dict[Any, Pair] = {}
    made: dict[Any, list[Pair]] = defaultdict(list)
    for op in tape.ops:
        if type(op) is not Call:
            continue
        if (whole := whole_of(op)) in found and whole is not found[whole].op:
            continue
        for used in operands(op):
            if used in found and used is not found[used].op:
                found[used].only = None  # whole
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
    """True for the call of a pullback with the arguments of a call."""
    args = op.fn.split(op.args)[1]
    return len(args) == len(of.args) and op.kwargs == of.kwargs and all(map(is_same, args, of.args))


def is_same(x: Any, y: Any) -> bool:
    """True for the same operation, or the same constant."""
    if isinstance(x, Constant) and isinstance(y, Constant):
        return x.val is y.val
    if isinstance(x, (tuple, list)) and type(x) is type(y):
        return len(x) == len(y) and all(map(is_same, x, y))
    if x is not y and type(x) is type(y) is Call and x.fn is y.fn is pack:
        return x.kwargs == y.kwargs and all(map(is_same, x.args, y.args))
    return x is y or (not isinstance(x, Operation) and not isinstance(y, Operation) and bool(alike(x, y)))


class Start:
    """A call that returns its results, flat, and torch's own tape of it."""

    def __init__(self, pair: Pair, kinds: Any) -> None:
        self.pair, self.__name__ = pair, pair.op.fn.__name__
        self.watched = Watched(pair.start, pair.op, kinds)

    def __call__(self, *given: Any) -> Any:
        y, graph = self.pair.start(given)
        self.watched.check(y, given)
        return (*y, graph) if isinstance(y, (tuple, list)) else (y, graph)


class Finish:
    """The call of a pullback, of torch's own tape and of what it is given. What the call returned is an argument, lest
    it be written to before.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair, self.__name__ = pair, pair.pullbacks[0].fn.__name__

    def __call__(self, graph: Any, *given: Any) -> Any:
        return self.pair.finish(graph, given)


def on_host(value: Any, ref: Any) -> bool:
    """True if what an argument holds besides tensors may be another in another call; `ref` stands for it."""
    if isinstance(ref, Operation):
        if isinstance(value, (tuple, list)):
            return any(on_host(part, ref) for part in value)
        return not is_tensor(value)
    if isinstance(ref, (tuple, list)):
        return any(map(on_host, value, ref))
    return holds_value(ref)


def runs_user_code(op: Call) -> bool:
    """True for the call of a function recorded whole that is not torch's own, or that is given a function or a module,
    and for that of its pullback: what it does besides calling operators is not seen.
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
    """Return the plain function that a call of numbers is, where it is one."""
    if op.kwargs or not isinstance(fn, Op) or fn.memory.blank or fn.memory.written or fn.aliases == 0:
        return None
    if not all(isinstance(x, (*PYTHON, np.generic)) for x in given):
        return None
    if spec_recorded(op).is_python and fn.scalar is not None:
        return fn.scalar
    return fn.impl if all(map(is_python, given)) and fn.pythonic else None


def is_typed_on_host(fn: Any) -> bool:
    """True for an op that NumPy or SciPy computes, of which the types of its arguments say what comes out."""
    return (type(fn) is Op and getattr(fn.lower.get("torch"), "is_on_host", "") == "all"
            and not hasattr(fn.spec, "why") and not is_by_value(fn.spec))
