"""checkpoint: functions whose calls are recorded as one operation with a subtape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType
from typing import Any, ParamSpec, TypeVar

from tapegrad.errors import ArgumentError, Location, MutationError, user_location
from tapegrad.numbers.formatting import brief, name_of, plain
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.tensors import is_memory, is_tensor
from tapegrad.ops.checkpoint import Checkpoint, drawing_of
from tapegrad.ops.structure import pack, put_results
from tapegrad.rules.op import Op, Traced, tracer_of
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, drop
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.deferred_writes import RefillWrite
from tapegrad.trace.dispatch import plain as within
from tapegrad.trace.guards import are_apart
from tapegrad.trace.inputs import flatten_call
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.tracer import record
from tapegrad.trace.views import peek
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import Structure, Walk
from tapegrad.tree.signature import Signature
from tapegrad.tree.unchanged import changed

P = ParamSpec("P")
R = TypeVar("R")

Placed = Callable[[Tracer, Tape, list[Any], int], Any]


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that computes `f` and keeps no intermediate values for the reverse sweep, which recomputes them
    from the arguments.

    A call is one operation with a subtape: it trades time for memory, as `jax.checkpoint` does. Random numbers are
    drawn once and kept. Captures of `f` are arguments as well; `f` may write to arrays that it receives. Raises
    MutationError if it changes a list, a dict or an object that is not its own, ArgumentError if it reads traced values
    by another name: a second run would not do the same.

    >>> import numpy as np, tapegrad as tg
    >>> layer = checkpoint(lambda x: np.sin(np.sin(x)))
    >>> tape = tg.trace(lambda x: layer(layer(x)), 1.0)[1]
    >>> [op.fn.__name__ for op in tape if op.kind == "call" and op.fn.__name__ != "getfield"]
    ['checkpoint(<lambda>)', 'checkpoint(<lambda>)']
    >>> tg.gradient(lambda x: layer(layer(x)), 1.0) == tg.gradient(lambda x: np.sin(np.sin(np.sin(np.sin(x)))), 1.0)
    True
    """
    return as_subtape(f, "checkpoint")


def as_subtape(f: Callable[..., Any], noun: str, placed: Placed | None = None) -> Callable[..., Any]:
    """Return a function whose calls in a trace are one operation with a subtape; outside a trace it calls `f`."""
    if not callable(f):
        raise ArgumentError(f"{noun} of {brief(f)}, which is not a function", user_location(), f"tg.{noun}(f)(x)")

    def called(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs) if not running.tracers else recorded(f, args, kwargs, noun=noun, placed=placed)
    called.__name__, called.__doc__ = name_of(f), getattr(f, "__doc__", None)
    called.__wrapped__ = f  # type: ignore[attr-defined]
    # searches of the program then follow `f`
    called.__module__ = getattr(f, "__module__", None) or called.__module__
    return called


class Written:
    """A separately traced function's effects on its arguments: the arrays it wrote to, and why it cannot be repeated.
    """

    def __init__(self) -> None:
        self.finals: dict[int, Operation] = {}
        self.why = ""

    def __call__(self, nested: list[Structure], memos: list[dict[int, Any]], proxies: list[Any]) -> None:
        for k, x in enumerate(proxies):
            if is_memory(plain(x)) and (final := peek(x)) is not x._tracer.tape.ops[k + 1]:
                self.finals[k] = final
        for structure, memo in zip(nested, memos):
            for key, part in structure.seen.items():
                built = memo.get(id(part), memo.get(key))
                if type(memo.get(key)) is CellType:
                    held = part.build(proxies, memo)
                    if memo[key].cell_contents is not held:
                        self.why = "assigns a variable of an enclosing function"
                elif getattr(part, "volatile", False) and built is not None and changed(part, built, proxies, memo):
                    self.why = f"changes a {type(built).__name__} that it did not create"


def recorded(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], refuses: bool = True,
             noun: str = "checkpoint", placed: Placed | None = None) -> Any:
    """Record a call of a function as one operation of the innermost trace; if that is impossible, raise, or call it
    directly if not `refuses`.

    `placed(tracer, tape, leaves, count)` puts the operation on the tape and returns proxies of the `count` results;
    values after these are the drawn random numbers.
    """
    tracer: Tracer = running.tracers[-1]
    tape, leaves, done, _ = traced(f, args, kwargs)
    why, where = _written_elsewhere(tape)
    why = why or done.why or why_no_subtape(tape, leaves, done)
    if why and not refuses:
        return f(*args, **kwargs)
    if why:
        raise refused(f, why, noun, where)
    into, parts = taken_apart(tape)
    made = [part for part in dict.fromkeys(parts) if isinstance(part, Operation) and not isinstance(part, Input)]
    finals = [op for op in done.finals.values() if op not in made]
    drawn = drawing_of(tape)
    results = [*made, *dict.fromkeys(finals)]
    put_results(tape, [*results, *drawn])
    y = (placed or _placed)(tracer, tape, leaves, len(results))
    at: dict[Any, Any] = dict(zip(results, y))
    at |= dict(zip(tape.inputs[1:], leaves))
    for k, final in done.finals.items():
        if is_tensor(plain(leaves[k])):
            leaves[k].copy_(at[final])
        else:
            leaves[k][...] = at[final]
        at[final] = leaves[k]
    built = [at[part] if isinstance(part, Operation) else part for part in parts]
    return built[0] if into is None else into.build(built)


def _written_elsewhere(tape: Tape) -> tuple[str, Location | None]:
    """Return what the program of a tape writes besides arrays, and where; "" if nothing."""
    effects = tape.structure.effects
    for write, place in () if effects is None else effects.writes:
        if type(write) is not RefillWrite:
            return place.what.removeprefix("it "), effects.line(place)
    return "", None


def _placed(tracer: Tracer, tape: Tape, leaves: list[Any], count: int) -> Any:
    value = tape.result.val
    return place(tracer, Checkpoint(bare(tape)), leaves, value)


def traced(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
           replays: bool = False) -> tuple[Tape, list[Any], Written, Signature]:
    """Trace a call on the plain values of its arguments; return the tape, the leaves, and its effects on them."""
    walks: list[Walk] = []
    signature, leaves, _ = flatten_call(f, args, kwargs, walks)
    known = list(map(plain, leaves))
    nested = [signature.function, *signature.args, *signature.kwargs.values()]
    memos: list[dict[int, Any]] = [{} for _ in nested]
    fn, *built = [part.build(known, memo) for part, memo in zip(nested, memos)]
    given, named = built[:len(args)], dict(zip(kwargs, built[len(args):]))
    done, replays = Written(), replays or any(each.replays for each in running.tracers)
    outer = next((each for each in running.tracers if each.settings or each.silenced), None)

    def strictly(*args: Any, **kwargs: Any) -> Any:  # under the settings and filters that the program has in force
        running.tracers[-1].strictly(dict(outer.settings), outer.silenced)  # type: ignore[union-attr]
        return fn(*args, **kwargs)
    try:
        tape = record(strictly if outer else fn, tuple(given), named, DEFAULT, replays=replays, done=done,
                      stands_for=_stands_for(walks, memos))
    except Exception as err:
        guard_raised(running.tracers[-1], _Call(signature), leaves, err)
        raise
    return tape, leaves, done, signature


def _stands_for(walks: list[Walk], memos: list[dict[int, Any]]) -> dict[int, list[Any]]:
    """Return the chain of originals by the ids of the copies for an inner trace: in this trace and in outer ones."""
    originals = [tracer.rerouting.copies.originals for tracer in reversed(running.tracers)
                 if tracer.rerouting is not None and tracer.rerouting.copies is not None]
    found: dict[int, list[Any]] = {}
    for walk, memo in zip(walks, memos):
        for x, _ in walk.keep:
            if (copy := memo.get(id(x), memo.get(id(walk.seen.get(id(x)))))) is not None:
                found[id(copy)] = chain = [x]
                for known in originals:
                    if id(chain[-1]) in known:
                        chain.append(known[id(chain[-1])])
    return found


class _Call:
    """A function's call as a function of the leaves of its arguments and captures."""

    def __init__(self, signature: Signature) -> None:
        self.signature, self.__name__ = signature, name_of(signature.fn)

    def __call__(self, *leaves: Any) -> Any:
        parts, known = self.signature, list(leaves)
        named = {key: part.build(known) for key, part in parts.kwargs.items()}
        return parts.function.build(known)(*[part.build(known) for part in parts.args], **named)

    def __eq__(self, other: object) -> bool:
        return type(other) is _Call and other.signature == self.signature

    def __hash__(self) -> int:
        return hash((_Call, self.__name__))


def guard_raised(tracer: Tracer, call: Callable[..., Any], leaves: Sequence[Any], err: Exception) -> None:
    """Guard that a call raised, in its trace and in outer ones: the program may catch the error."""
    tracer.raised(call, tuple(leaves), {}, err)
    inner = [within(leaf, tracer) for leaf in leaves]
    if (outer := tracer_of(inner)) is not None:
        guard_raised(outer, call, inner, err)


def refused(f: Callable[..., Any], why: str, noun: str = "checkpoint",
            where: Location | None = None) -> MutationError:
    """Return the error for a function that cannot be a subtape."""
    return MutationError(f"{noun} of {name_of(f)}: it {why}, which a second run in the reverse sweep would repeat or "
                         "miss",
                         where or user_location(), "pass the values it reads as arguments, and return the new ones")


def place(tracer: Tracer, body: Op, args: list[Any], value: tuple[Any, ...]) -> Any:
    """Record a call in a trace and in those outer traces that its arguments belong to; return proxies of its value."""
    inner = [within(arg, tracer) for arg in args]
    outer = tracer_of(inner)
    return tracer.record(body, tuple(args), {}, value if outer is None else place(outer, body, inner, value))


def taken_apart(tape: Tape) -> tuple[Structure | None, list[Any]]:
    """Return the structure of a tape's result and its parts: operations, and values that are the same in every run."""
    result = tape.result
    if (result.fn is pack and isinstance(result.kwargs["into"], Structure)
        and result is tape.ops[-1]):
        tape.ops.pop()
        return result.kwargs["into"], list(result.args)
    if isinstance(result, Constant) and not is_memory(plain(result.val)):
        return None, [result.val]
    return None, [result]


def why_no_subtape(tape: Tape, leaves: list[Any], done: Written) -> str:
    """Return why a tape cannot be a subtape, "" if it can."""
    if any(isinstance(op.val, Traced) for op in tape.ops if isinstance(op, Constant)):
        return "reads traced values that are neither arguments nor captured variables"
    if done.finals:
        if not all(isinstance(leaves[k], Traced) for k in done.finals):
            return "writes to an array that is not traced"
        if not are_apart(tuple(x for x in map(plain, leaves) if is_memory(x))):
            return "writes to an argument that shares memory with another argument"
    return ""


def bare(tape: Tape) -> Tape:
    """Drop the arrays on a tape, which a checkpoint must not keep alive; their specs stay."""
    for op in tape.ops:
        if isinstance(op, Call):
            op.pb = None
        if isinstance(op, (Call, Input)) and op.id > 1 and not (op.spec.is_pythonic or op.spec.is_scalar
                                                                or is_generator(op.val)):
            drop(op)
    tape.structure = None
    tape.ops[0].val = None
    return tape
