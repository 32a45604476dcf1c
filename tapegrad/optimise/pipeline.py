"""pipeline: composes the passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import brief
from tapegrad.numbers.systems import has_others
from tapegrad.optimise.checked import CHECKED, check_pass
from tapegrad.optimise.cse import cse
from tapegrad.optimise.dce import dce
from tapegrad.optimise.fold import fold
from tapegrad.optimise.loop_pruning import loops, pruned
from tapegrad.optimise.report import Report
from tapegrad.optimise.result_memory import own_results
from tapegrad.optimise.scale_motion import factors
from tapegrad.optimise.simplify import simplify
from tapegrad.optimise.specialise import specialise
from tapegrad.optimise.store_forwarding import forwarding
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.trace.collector import collector

Pass = Callable[[Tape], Tape]


class Passes(tuple[Pass, ...]):
    """A tuple of passes, shown by their names in a signature."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({', '.join(run.__name__ for run in self)})"


DEFAULT = Passes((specialise, fold, cse, simplify, factors, forwarding, cse, dce))
EXACT = Passes((specialise, dce))
ROUNDS = 4  # at most: one pass may make work for another
LONG = 5000  # a tape with more operations gets another round only if the last one removed a quarter of it


def optimise(tape: Tape, passes: Sequence[Pass] = DEFAULT, report: Report | None = None) -> Tape:
    """Return a tape that computes the same with fewer operations; the given one is unchanged. (To minimise a function,
    use `scipy.optimize.minimize(tg.value_and_grad(f), x, jac=True)`.)

    Each of `passes` maps a tape to a new tape, in time linear in its length. They run in order, at most four times,
    until nothing changes or, on a long tape, little. A `Report` collects the operations that each pass removed. The
    result is specialised to the recorded shapes and dtypes of arrays and exact types of numbers, and guards them.

    Values agree to rounding (1e-12 in double precision), as constant factors are merged and moved through sums. The
    sign of a zero may differ. nan and inf stay, except in two cases that BLAS and LAPACK leave open: a product with a
    diagonal matrix (0 times inf beside the diagonal), and a system that is found to be triangular.

    >>> import tapegrad as tg
    >>> flat = tg.primitivize(tg.gradtape(lambda a, b: a / (a + b * b), 2.0, 3.0))
    >>> best = optimise(flat)
    >>> len(best) < len(flat), best.play(2.0, 3.0) == flat.play(2.0, 3.0)
    (True, True)
    """
    if not isinstance(tape, Tape):
        raise ArgumentError(f"{brief(tape)} is not a tape: tg.optimise simplifies tapes, not functions", None,
                            "scipy.optimize.minimize(tg.value_and_grad(f), x, jac=True), or "
                            "tg.optimise(tg.trace(f, x)[1])")
    if has_others(tape.ops):  # numbers of other kinds: folding would compute in floats, or at today's precision
        passes = [each for each in passes if each in EXACT]
    with collector:
        return own_results(_rounds(tape, passes, report), tape)


def _rounds(tape: Tape, passes: Sequence[Pass], report: Report | None = None) -> Tape:
    def inner(body: Tape) -> Tape:
        return _rounds(body, passes)
    tape = loops(tape, inner, guarded=specialise in passes)
    for _ in range(ROUNDS):
        before = tape
        for run in passes:
            after = run(tape)
            if CHECKED:
                check_pass(getattr(run, "__name__", "of the program's"), after)
            if report is not None:
                report.add(run, tape, after)
            tape = after
        if (len(before) > LONG and len(before) - len(tape) < len(before) // 4) or _same(before, tape):
            break
    return pruned(tape)


def _same(a: Tape, b: Tape) -> bool:
    """Return whether two tapes are equal operation by operation."""
    return len(a) == len(b) and all(map(_equal, a.ops, b.ops))


def _equal(a: Operation, b: Operation) -> bool:
    if type(a) is not type(b) or len(a.args) != len(b.args) or (isinstance(a, Call) and isinstance(b, Call)
                                                                and not _is(a.fn, b.fn)):
        return False
    return all(map(_is, a.args, b.args))


def _is(a: object, b: object) -> bool:
    if isinstance(a, Operation):
        return isinstance(b, Operation) and a.id == b.id
    return a is b or (isinstance(a, (float, int, slice, tuple)) and a == b)
