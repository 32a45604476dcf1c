"""loop_tangent: a tape with the tangent of each operation beside it; a loop becomes a loop over pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.numbers.cotangents import ZERO
from tapegrad.ops import pack
from tapegrad.ops.loop import Loop, live
from tapegrad.ops.structure import put_results
from tapegrad.rules.activity import activity, has_gradient
from tapegrad.rules.op import Traced
from tapegrad.tape.liveness import leading
from tapegrad.tape.origin import Origin, set_origin
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, operands, value_of
from tapegrad.trace import proxy
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import FIXED
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.recording import recording
from tapegrad.transforms.loop_types import (
    TRIES,
    NoLoop,
    Plain,
    begin,
    field,
    kind_of,
    lifted,
    sequence,
    zero,
)
from tapegrad.transforms.primal_copy import copy_primal
from tapegrad.transforms.tangent_pass import Pass
from tapegrad.transforms.walk import Walk, needed
from tapegrad.tree.flatten import leaves_of


def beside(tape: Tape, seeds: dict[int, int], new: Tape, tracer: Tracer,
           results: list[Any] | None = None) -> tuple[Tape, Pass, list[Operation]]:
    """Copy a flat tape and record the tangent of each operation beside it; `seeds` maps the positions of tangent inputs
    to those of their inputs.

    Return the tape of proxies of the copied operations, the pass that holds their tangents, and the nest of the result,
    if there is one. Loops carry only the tangents on which `results` depend, by default the tape's.
    """
    pass_ = Pass(tape, {})
    packed: list[Operation] = []

    def then(seen: Operation) -> None:
        mark = len(new.ops)
        if seen.fn is pack and tape[seen.id] is tape.result:
            packed.append(new.ops[-1])
        if type(seen) is Input and seen.id in seeds:
            pass_.known[seeds[seen.id]] = seen.val
        else:
            pass_.step(seen)
        if len(new.ops) > mark:
            _keep(tracer, mark, pass_.known.get(seen.id))
        of = seen.val._op if isinstance(seen.val, Traced) else seen
        set_origin(new.ops[mark:], seen, Origin("tangent", of.id))

    def trace_loop(op: Call, args: list[Any], tracer: Tracer, taken: set[int]) -> tuple[tuple[Any, ...], None]:
        ts = {i: t for i, arg in enumerate(op.args) if isinstance(arg, Operation)
              and (t := pass_.known.get(arg.id)) is not None}
        values, pass_.known[op.id] = _trace_loop(op, args, ts, tracer, taken)
        return values, None
    return copy_primal(tape, new, tracer, trace_loop, results, then=then), pass_, packed


def _trace_loop(op: Call, args: list[Any], ts: dict[int, Any], tracer: Tracer,
                taken: set[int]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Record a loop over pairs on the tracer's tape, with the tangents of some arguments by place; return proxies of
    the loop's results, and of their tangents.

    `lax.scan` is differentiated like that (Bradbury et al., JAX).
    """
    for i, x in enumerate(op.fn.parts()[2], op.fn.sizes[1]):
        if type(ts.get(i)) is tuple:
            made = sequence(ts[i], zero(x.val), op.fn.count, tracer)
            ts[i] = tracer.proxy(made, made.val, tracer)
    pairs, sizes = _Pairs(op.fn, ts, taken), op.fn.sizes[1:]
    given = {i: begin(ts.get(i, ZERO), sample) if i >= pairs.first else ts[i] for i, sample in pairs.samples.items()}
    paired = _paired(sizes, [lifted(arg, tracer) for arg in args], {i: tracer.lift(t) for i, t in given.items()})
    ends = (sizes[2], len(op.val) - sizes[2])
    tangents = {j: t if j < sizes[2] else (t,) * op.fn.count for j, t in pairs.tangents.items()}
    values = _paired(ends, op.val, tangents)
    call = tracer.place(Call(pairs.loop, tuple(paired), None, tuple(values)))
    places = _paired(ends, range(len(op.val)), {j: ~j for j in tangents})
    found = {j: field(tracer, call, k, val) for k, (j, val) in enumerate(zip(places, values))}
    for j in tangents:
        found[~j]._op.origin = Origin("tangent", found[j]._op.id)
    return tuple([found[j] for j in range(len(op.val))]), tuple([found.get(~j, ZERO) for j in range(len(op.val))])


def _paired(sizes: Sequence[int], xs: Sequence[Any], ts: dict[int, Any]) -> list[Any]:
    """Return the parts of `xs`, of some sizes, each followed by the tangents of its elements, keyed by place."""
    found: list[Any] = []
    start = 0
    for size in sizes:
        places = range(start, start + size)
        found += [xs[i] for i in places] + [ts[i] for i in places if i in ts]
        start += size
    return found


class _Pairs:
    """A loop over values and their tangents: `samples` are those of the arguments' tangents, keyed by place, with the
    carried ones from place `first` on; `tangents` are those of the results.
    """

    def __init__(self, old: Loop, ts: dict[int, Any], taken: set[int]) -> None:
        self.old, self.taken, self.first = old, taken, old.sizes[1] + old.sizes[2]
        self.live = live(old, taken)[0]
        self.inputs = old.body.inputs[1 + old.sizes[0]:]
        self.samples = self._begun(ts)
        for _ in range(TRIES):
            new, parts = self._recorded()
            if self._settled():
                break
        else:
            raise NoLoop
        self._write(new, parts)

    def _begun(self, ts: dict[int, Any]) -> dict[int, Any]:
        """Return samples of the tangents that exist at first or in a later iteration and on which a result depends."""
        old, steps = self.old, 1 + self.old.sizes[0]
        leads = leading(old.body.ops, [old.results[j] for j in self.live])
        found = {i: self._sample(i, t) for i, t in ts.items() if leads[self.inputs[i].id]}
        more: dict[int, Any] = found
        while more:
            active = activity(old.body, {steps + i for i in found})
            reached = [self.first + j for j, y in enumerate(old.results[:old.sizes[3]])
                       if j in self.live and isinstance(y, Operation) and active[y.id]]
            more = {i: zero(x.val) for i in reached if i not in found and has_gradient((x := self.inputs[i]).val)}
            found |= more
        return dict(sorted(found.items()))

    def _sample(self, i: int, t: Any) -> Any:
        """Return the tangent of an argument in the first iteration."""
        if not self.old.sizes[1] <= i < self.first:
            return t._val if isinstance(t, Traced) else t
        if not isinstance(t, Traced):
            raise NoLoop
        return t._val[0]

    def _seeded(self) -> tuple[Tape, dict[int, int]]:
        """Return the body with inputs for the tangents, and a dict from their positions to those of their inputs."""
        walk = Walk(self.old.body)
        made = {i: Input(sample, f"t{self.inputs[i].label}") for i, sample in self.samples.items()}
        for x in [*self.old.body.inputs[:1 + self.old.sizes[0]], *_paired(self.old.sizes[1:], self.inputs, made)]:
            if x in self.old.body:
                walk.keep(x)
            else:
                walk.new.push(x)
        for i, t in made.items():
            t.origin = Origin("tangent", walk.at[self.inputs[i].id].id)
        for op in self.old.body.ops:
            if not isinstance(op, Input):
                walk.keep(op)
        return walk.done(), {t.id: walk.at[self.inputs[i].id].id for i, t in made.items()}

    def _recorded(self) -> tuple[Tape, list[Any]]:
        """Return the tape of one iteration with its tangents, and the results."""
        body, seeds = self._seeded()
        new = body.blank()
        tracer = Plain(new, DEFAULT, proxy.make)
        results, carried = body.result.args, self.old.sizes[3]
        try:
            with recording(tracer), np.errstate(all="ignore"):
                shadow, pass_, _ = beside(body, seeds, new, tracer, [results[j] for j in sorted(self.live)])
                ys = shadow.result.args
                found = {j: pass_.known.get(y.id) if isinstance(y, Operation) else None for j, y in enumerate(ys)}
                self.tangents = {j: zero(self.samples[self.first + j]) if found[j] is None else found[j] for j in found
                                 if self.first + j in self.samples
                                 or (j >= carried and j in self.taken and found[j] is not None)}
                lifted = [tracer.lift(y.val if isinstance(y, Operation) else y) for y in ys]
                parts = _paired((carried, len(ys) - carried), lifted,
                                {j: tracer.lift(t) for j, t in self.tangents.items()})
        except TapeError as err:
            raise NoLoop from err
        if any(isinstance(op, Guard) and op.origin and op.fact not in FIXED for op in new.ops):
            raise NoLoop  # a rule has read a value, which may differ in another iteration
        return new, parts

    def _settled(self) -> bool:
        """Return whether an iteration preserves the tangents' types; the new types are the samples of the next try."""
        self.tangents = {j: value_of(t._op) if isinstance(t, Traced) else t for j, t in self.tangents.items()}
        carried = {self.first + j: t for j, t in self.tangents.items() if j < self.old.sizes[3]}
        same = all(kind_of(self.samples[i]) == kind_of(t) for i, t in carried.items())
        self.samples |= {i: zero(t) for i, t in carried.items()}
        return same

    def _write(self, new: Tape, parts: list[Any]) -> None:
        """Build the loop from the recorded operations that are needed."""
        body, kept = needed(new, parts, lambda guard: not guard.origin)  # types that rules have read do not change
        put_results(body, kept)
        _, given, listed, carried = self.old.sizes
        fixed, lists = (sum(i in places for i in self.samples) for places in (range(given), range(given, self.first)))
        self.loop = Loop(body, self.old.count, self.old.steps, given + fixed, listed + lists,
                         carried + len(self.samples) - fixed - lists, self.old.reverse)


def _keep(tracer: Tracer, mark: int, found: Any) -> None:
    """Drop operations recorded from `mark` on that no tangent needs: a pullback is traced on an arbitrary cotangent."""
    new = tracer.tape
    recorded, wanted = new.ops[mark:], {part._op for part in leaves_of(found) if isinstance(part, Traced)}
    for op in reversed(recorded):
        if isinstance(op, Guard) and op.args[0].id <= mark:
            wanted.add(op)
        if op in wanted:
            wanted.update(operands(op))
    kept = [op for op in recorded if op in wanted or (isinstance(op, Guard) and op.args[0] in wanted)]
    if len(kept) == len(recorded):
        return
    del new.ops[mark:]
    for op in kept:
        new.ops.append(op)
        op.id = len(new.ops)
    # dropped constants and guards may be recorded anew
    tracer.constants = {key: known for key, known in tracer.constants.items() if known[1] in new}
    tracer.guarded = {(at, fact) for at, fact in tracer.guarded
                      if at <= mark} | {(op.args[0].id, op.fact) for op in kept if isinstance(op, Guard)}
