"""find: the first operation of a tape, forward or backward, whose value went wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapegrad.debug.execution import Executed, leaves_of, recorded, replayed, triple_of, valued
from tapegrad.debug.report import paragraph
from tapegrad.debug.values import element, figure, is_zero, numbers
from tapegrad.errors import ArgumentError, Location
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import pack
from tapegrad.progress import Work
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import memory_of
from tapegrad.show.display import Displayed, Spans
from tapegrad.show.line import reverse_start
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Constant, Input, Operation, Tape, has_value, operands
from tapegrad.trace.collector import collector
from tapegrad.transforms.reverse import back
from tapegrad.transforms.rewrite import placed, rewrite
from tapegrad.transforms.unroll import unroll
from tapegrad.tree.flatten import flatten, is_leaf

KINDS = ("nan", "inf", "large", "zero-gradient")
LIMIT = 1e10
MASK = ("mask before the operation, not only after it: give it a harmless argument where its result is not used, "
        "np.where(mask, x, 1.0), then mask what it returns")
CURES = {
    "exp": "subtract the largest exponent first: scipy.special.logsumexp, np.logaddexp, scipy.special.softmax",
    "log": "keep the argument above 0: np.log(np.where(x > 0, x, 1.0)); scipy.special.xlogy(p, p) for p * log(p)",
    "divide": "keep the denominator from 0: a / np.where(b == 0, 1.0, b), then mask the quotient",
    "sqrt": "keep the argument above 0, where the slope is infinite: np.sqrt(np.where(x > 0, x, 1.0)), then mask it",
    "multiply": "0 * inf is nan: scipy.special.xlogy(p, p) for p * log(p), or mask the factor that is infinite",
}
"""Remedies if an operation, or its pullback, makes a nan or inf."""
Test = Callable[[np.ndarray], np.ndarray]
NOT_FINITE: dict[str, Test] = {"nan": np.isnan, "inf": np.isinf}


@dataclass(frozen=True, eq=False, repr=False)
class Finding(Displayed):
    """A problem: its kind, the operation and its tape, "forward" or "backward", and the value."""

    kind: str
    operation: Operation
    tape: Tape
    phase: str
    value: Any
    message: str
    try_: str = ""

    @property
    def where(self) -> Location | None:
        """The user's file, line and function."""
        return self.operation.where

    def lines(self, width: int | None, ascii_only: bool) -> Iterator[Spans]:
        where = self.where
        yield [(f"{self.kind}, {self.phase}", "finding"),
               (f", at {where.short} in {where.function}" if where else "", "finding")]
        if where and where.source:
            yield [("    ", ""), (where.source, "")]
        yield from paragraph(self.message, "", width)
        if self.try_:
            yield from paragraph(f"try: {self.try_}", "advice", width)

    def __repr__(self) -> str:
        return f"<Finding: {self.kind}, {self.phase}, {self.operation!r}>"


def find(tape: Tape, kind: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,
         limit: float = LIMIT) -> Finding | None:
    """Return the first operation whose value is `kind`, forward, then backward; None if there is none.

    "nan" and "inf" may be one element of an array; "large" is a magnitude above `limit`. "zero-gradient" finds the
    operation that loses the gradient of an input whose gradient is all zeros. With arguments the tape is replayed;
    without, its recorded values are tested. For a primal tape the gradient tape is built, with seed 1 for each number
    of the result. Loops are unrolled.

    >>> import tapegrad as tg
    >>> value, tape = tg.trace(lambda x: np.sqrt((x * x).sum()), np.array([3.0, 4.0]))
    >>> found = tape.find("nan", np.zeros(2))
    >>> found.phase, found.operation.note, found.value.tolist()
    ('backward', 'd%2', [nan, nan])
    """
    if kind not in KINDS:
        raise ArgumentError(f"there is no kind {kind!r} of value to find", try_=f"one of {', '.join(map(repr, KINDS))}")
    leaves = leaves_of(tape, args, kwargs or {}) if args or kwargs else None
    if leaves is None and not all(map(has_value, tape)):
        raise ArgumentError(f"{tape.name or 'the tape'} has operations without values",
                            try_="pass arguments, so that it is replayed")

    with Work("searching"), np.errstate(all="ignore"), collector:  # warnings would only repeat the finding
        flat = unroll(tape)
        found = _find(flat, kind, leaves, limit)
    if found is not None and flat is not tape:
        found = replace(found, message=f"{found.message} The numbers are those of tg.unroll(tape).")
    return found


def _find(tape: Tape, kind: str, leaves: list[Any] | None, limit: float) -> Finding | None:
    def visits() -> Iterable[Executed]:
        return recorded(tape) if leaves is None else replayed(tape, leaves)

    primal = reverse_start(tape) == len(tape)
    if kind != "zero-gradient" and (found := first(tape, visits(), [kind], limit)) is not None:
        return found
    swept = with_reverse(tape if leaves is None else valued(tape, leaves)) if primal else None
    if kind == "zero-gradient":
        return lost(tape, visits()) if not primal else lost(swept, recorded(swept)) if swept is not None else None
    found = first(swept, recorded(swept), [kind], limit) if swept is not None else None
    return found or brought_along(tape, visits, kind, limit)


def with_reverse(tape: Tape) -> Tape | None:
    """Return the gradient tape of a primal one, with seed 1 for each number of its result; None if the result has no
    gradient.
    """
    result = tape.check().result
    leaves: list[Any] = []
    structure = flatten(result.val, "", leaves, [], shared=False)
    seeds = [seed_of(leaf) for leaf in leaves]
    if all(seed is None for seed in seeds):
        return None
    return back(rewrite(tape), seeds[0] if structure.is_leaf else structure.mirror(seeds))


def seed_of(y: Any) -> Any:
    """Return a cotangent of ones for a leaf."""
    if not has_gradient(y):
        return None
    if is_tensor(y):
        return sys.modules["torch"].ones_like(y)
    return np.ones_like(y) if isinstance(y, (np.ndarray, np.generic)) else 1.0


def first(tape: Tape, visits: Iterable[Executed], kinds: Iterable[str], limit: float = LIMIT, *,
          brought: bool = False) -> Finding | None:
    """Return a finding for the first visit with such a number in its value.

    Unless `brought`, intended ones are skipped (a buffer of nan, a bound of inf), and operations that only pass them
    on.
    """
    bad_by = {kind: _holds(tests(limit)[kind]) for kind in kinds}
    begin, pulled = 0, None
    usual = limit if "large" in kinds else sys.float_info.max
    for visit in visits:
        op, value = visit.op, visit.value
        if isinstance(op.fn, Operation):
            pulled = visit  # its cotangents are extracted, and tested, one by one
        elif visit.fn is not pack and not (type(value) in (float, np.float64) and abs(value) <= usual):
            for kind, bad in bad_by.items():
                begin = begin or reverse_start(tape) + 1
                if bad(value) and (brought or not is_intended(visit, bad, op.id < begin and kind != "large")):
                    phase = "backward" if op.id >= begin else "forward"
                    told = describe(visit, pulled, kind, tests(limit)[kind], limit)
                    return Finding(kind, op, tape, phase, value, *told)
    return None


def _holds(test: Test) -> Callable[[Any], bool]:
    return lambda value: any(test(x).any() for x in numbers(value))


def is_intended(visit: Executed, bad: Callable[[Any], bool], handed_on: bool) -> bool:
    """Return whether a bad value is intended: a constant, a new array filled with one, or passed on from an argument. A
    value that went wrong by itself has been found before.
    """
    return (isinstance(visit.op, Constant) or memory_of(visit.fn).blank
            or (handed_on and any(map(bad, visit.given))))


def brought_along(tape: Tape, visits: Callable[[], Iterable[Executed]], kind: str, limit: float) -> Finding | None:
    """Return a finding for the first intended bad value, if the result has one too."""
    last = None
    for visit in visits():
        last = visit if visit.op is tape.result else last
    test = tests(limit)[kind]
    suffers = last is not None and any(test(x).any() for x in numbers(last.value))
    return first(tape, visits(), [kind], limit, brought=True) if suffers else None


def tests(limit: float) -> dict[str, Test]:
    """Return the elementwise test of each kind."""
    return {**NOT_FINITE, "large": lambda x: np.abs(x) > limit}


def describe(visit: Executed, pulled: Executed | None, kind: str, test: Test, limit: float) -> tuple[str, str]:
    """Return a message with the element that went wrong and its operands, and what to try, "" if unknown."""
    op, rr = visit.op, triple_of(visit.op)
    x = next(x for x in numbers(visit.value) if test(x).any())
    wrong = test(x)
    index = tuple(map(int, np.argwhere(wrong)[0])) if x.ndim else ()
    count = f" in {wrong.sum()} of {x.size} elements, first at [{', '.join(map(str, index))}]" if x.ndim else ""
    what = kind if kind == "nan" else f"{x[index]:.4g}" + (f" (above {figure(limit)})" if kind == "large" else "")
    if isinstance(op, (Input, Constant)):
        holder = f"the input {op.label or op.name}" if isinstance(op, Input) else f"the constant `{op!r}`"
        return f"{holder} holds {what}{count}.", ""
    if rr is not None and pulled is not None and triple_of(pulled.op) is rr:
        dy = element(pulled.given[0], index, x.shape)
        parts = [f"dy={dy}", *operands_at(pulled.fn, index, x.shape)]
        name = getattr(rr.args[0], "__name__", "")
        cure = "" if kind == "large" else MASK if dy in ("0.0", "-0.0") else CURES.get(name, "")
        return f"The pullback of {name} makes {op.note}, `{op!r}`, {what}{count}, where {', '.join(parts)}.", cure
    if visit.fn is conform:
        return f"The {op.note}, `{op!r}`, is {what}{count}, as the sum of its contributions.", ""
    parts = [element(arg, index, x.shape) for arg in visit.given]
    cure = "" if kind == "large" else CURES.get(visit.name, "")
    return f"`{op!r}` is {what}{count}: {visit.name}({', '.join(parts)}).", cure


def operands_at(pullback: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[str]:
    """Yield the arguments and the value of a pullback's call at one element, as text."""
    args = [x for x in getattr(pullback, "args", ()) if is_leaf(x)]
    for i, x in enumerate(args, 1):
        yield f"x{i if len(args) > 1 else ''}={element(x, index, shape)}"
    if hasattr(pullback, "y") and is_leaf(pullback.y):
        yield f"y={element(pullback.y, index, shape)}"


# -- lost gradients


def lost(tape: Tape, visits: Iterable[Executed]) -> Finding | None:
    """Return a finding for the operation that loses the gradient of the first input whose gradient is all zeros."""
    dying: list[tuple[Executed, str]] = []
    pulled: Executed | None = None
    gradients: list[Any] = []
    for visit in visits:
        op, rr = visit.op, triple_of(visit.op)
        if op is tape.result:
            gradients = visit.given[1:]
        if isinstance(op.fn, Operation):
            pulled = visit
        elif op.purpose in ("cotangent", "accumulation") and is_zero(visit.value):
            into = [pulled.given[0]] if rr is not None and pulled is not None else visit.given
            if any(not is_zero(dy) and any(True for _ in numbers(dy)) for dy in into):
                who = f"The pullback of {getattr(rr.args[0], '__name__', '')}" if rr is not None else visit.name
                dying.append((visit, who))
    zero = next((x for x, dx in zip(placed(tape), gradients)
                 # not an integer
                 if dx is not None and is_zero(dx) and next(numbers(x.val), None) is not None), None)
    if zero is None:
        return None
    later, label = depending(tape, zero), zero.label or zero.name
    for visit, who in dying:
        target = target_of(tape, visit.op)
        if target is None or target in later:
            return Finding("zero-gradient", visit.op, tape, "backward", visit.value,
                           f"{who} makes {visit.op.note}, `{visit.op!r}`, zero throughout, and with it the gradient of "
                           f"{label}.")
    return cut_off(tape, zero, later, label)


def cut_off(tape: Tape, zero: Input, later: set[Operation], label: str) -> Finding:
    """Return a finding for an input that no cotangent reaches: the first operation without a gradient that depends on
    it.
    """
    leads = leading(tape.ops, [tape.result])
    for op in tape.ops[:reverse_start(tape)]:
        if leads[op.id] and not getattr(op.fn, "differentiable", True) and any(arg in later for arg in operands(op)):
            return Finding("zero-gradient", op, tape, "forward", op.val,
                           f"`{op!r}` has no gradient: what {getattr(op.fn, '__name__', '')} "
                           f"returns is constant almost everywhere, so nothing flows to {label}.")
    return Finding("zero-gradient", zero, tape, "forward", zero.val,
                   f"Nothing flows to {label}: the result does not depend on it.")


def depending(tape: Tape, x: Operation) -> set[Operation]:
    """Return an input and all operations computed from it."""
    found = {x}
    for op in tape.ops[:reverse_start(tape)]:
        if any(used in found for used in operands(op)):
            found.add(op)
    return found


def target_of(tape: Tape, op: Operation) -> Operation | None:
    """Return the operation whose cotangent `op` makes, by its origin; None if that names none."""
    return tape[op.origin.of] if op.origin is not None and 0 < op.origin.of <= len(tape) else None
