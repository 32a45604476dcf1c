"""log: lines that compiled functions print to standard error; TAPEGRAD_LOG selects "retrace", "compile", "guards"."""

from __future__ import annotations

import os
import sys
from typing import Any

from tapegrad.compile.numpy.function import Miss
from tapegrad.compile.skeleton import Skeleton, kind_of_leaf
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.numbers.formatting import brief, count_of
from tapegrad.replay.facts import fact_of
from tapegrad.replay.interpreter import Run, bind
from tapegrad.tape.tape import Call
from tapegrad.trace.inputs import flatten_call

KINDS = ("retrace", "compile", "guards")


def asked() -> list[str]:
    """Return the selected kinds of lines."""
    return [kind.strip() for kind in os.environ.get("TAPEGRAD_LOG", "").split(",") if kind.strip()]


def logs(kind: str) -> bool:
    """Return whether a kind of line is selected."""
    return kind in asked()


def say(name: str, what: str) -> None:
    """Write one line."""
    print(f"tapegrad: {name} {what}", file=sys.stderr)


for _kind in asked():
    if _kind not in KINDS:
        say("TAPEGRAD_LOG", f"asks for {_kind!r}, but the known kinds are {', '.join(KINDS)}")


def compiled_text(size: int, seconds: float, runs: str) -> str:
    """Describe a compilation."""
    return f"compiled {count_of(size, 'operation')} to {runs} in {seconds:.2g} s"


def kind_text(kind: Any) -> str:
    """Return the text of a leaf's kind: `float`, or `float64[3, 4]`."""
    if isinstance(kind, tuple):
        _, dtype, shape = kind
        return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    return str(getattr(kind, "__name__", kind))


def failed(miss: Miss, fresh: Freshness | None, skeleton: Skeleton | None, args: tuple[Any, ...],
           kwargs: dict[str, Any]) -> str:
    """Describe the guard of a tape that failed in a call, with its recorded and its new value. `skeleton` is of a path
    that the tape serves.
    """
    if miss.guard is not None:
        known, found = _found(miss, args, kwargs)
        return f"{miss.describe()}: was {brief(miss.guard.expected)}" + (f", now {brief(found)}" if known else "")
    if fresh is not None and not fresh() and (changed := fresh.changed()) is not None:
        label, was, now = changed
        return f"{label}: was {was}, now {now}" if was else label
    if skeleton is not None:
        leaves = flatten_call(miss.tape.ops[0].val, args, kwargs)[1]
        for label, was, leaf in zip(skeleton.labels, skeleton.leaves, leaves):
            if was != (now := kind_of_leaf(leaf)):
                return f"the type or shape of {label}: was {kind_text(was)}, now {kind_text(now)}"
    return "a non-numeric value in an argument, or the nesting of the arguments"


def _found(miss: Miss, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """Return whether the value of a guard's fact in a call can be found, and that value. A replay that runs no user
    code and draws no random numbers computes it up to the guard.
    """
    guard = miss.guard
    assert guard is not None
    if type(guard.expected) is bool:
        return True, not guard.expected
    before = miss.tape.ops[:guard.id]
    if any(type(op) is Call and (effects := getattr(op.fn, "effects", None)) is not None
           and (effects.nested or effects.draws) for op in before):
        return False, None
    run = Run(miss.tape, bind(miss.tape, args, kwargs, checked=False), keep=True)
    try:
        for op in run:
            if op is guard:
                break
    except Exception:
        pass
    value = run.values[guard.args[0].id]
    return value is not None, None if value is None else fact_of(guard, value)
