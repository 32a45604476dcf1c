"""loop_gradient: the gradient of a loop as two loops: one keeps residuals of each iteration, one sweeps over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.numbers.cotangents import ZERO, Absorbing, Scatter, dense, dtype_of, project, shape_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.kinds import Cotangent
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.numbers.view_path import may_repeat
from tapegrad.ops import add, getfield, multiply, negative, read, setitem, subtract
from tapegrad.ops.loop import Loop, live, put
from tapegrad.ops.structure import put_results
from tapegrad.rules.activity import activity, has_gradient
from tapegrad.rules.op import Op
from tapegrad.tape.liveness import leading
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, operands, value_of
from tapegrad.trace import proxy
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import FIXED
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.recording import recording
from tapegrad.transforms.loop_types import (
    TRIES,
    Listed,
    NoLoop,
    Plain,
    begin,
    field,
    kind_of,
    lifted,
    nothing,
    sequence,
    zero,
)
from tapegrad.transforms.primal_copy import copy_primal
from tapegrad.transforms.reverse import record_sweep

QUICK = frozenset([add, subtract, multiply, negative])
LARGE = 1024  # elements


def trace_loop(op: Call, args: list[Any], tracer: Tracer, taken: set[int]) -> tuple[tuple[Any, ...], Any]:
    """Record the forward loop of a gradient on the tracer's tape; return proxies of the results, and the pullback.

    The sweep carries only cotangents of values on which the `taken` results depend: nothing but 0 * inf would flow to
    others.

    `lax.scan` is differentiated like that (Bradbury et al., JAX); sums over the iterations are accumulated in place.
    """
    parts = _Gradient(op.fn, taken)
    forward, count = parts.forward, op.fn.count
    kept = tuple([(val,) * count for val in parts.kept])
    given = [lifted(arg, tracer) for arg in args]
    call = tracer.place(Call(forward, tuple(given), None, (*op.val, *kept)))

    values = tuple([field(tracer, call, i, val) for i, val in enumerate(op.val)])

    def loop_pullback(dys: tuple[Any, ...]) -> list[Any]:
        listed = [tracer.place(Call(getfield, (call, i), None, val)) for i, val in enumerate(kept, len(values))]
        listed += [sequence(dys[j], like, count, tracer) for j, like in parts.collected.items()]
        firsts = [begin(dys[j], seed) for j, seed in parts.seeds.items()] + [nothing(total)
                                                                             for total in parts.totals.values()]
        samples = [*parts.seeds.values(), *parts.totals.values(), *((val,) * count for val in parts.elements.values())]
        back = tracer.place(Call(parts.backward, (*given[:parts.given], *listed, *map(tracer.lift, firsts)), None,
                                 tuple(samples)))
        found = [field(tracer, back, i, val) for i, val in enumerate(samples)]
        dxs: dict[int, Any] = dict(zip([*(len(args) - parts.carried + j for j in parts.seeds), *parts.totals,
                                        *parts.elements], found))
        for i in parts.elements:
            whole = Listed(dxs[i], tracer)
            dxs[i] = tuple(map(whole.element, range(count))) if type(args[i]) is tuple else whole
        return [dxs.get(i, ZERO) for i in range(len(args))]
    return values, loop_pullback


class _Gradient:
    """The two loops of a gradient. `forward` collects `kept` (as samples) besides the loop's own results. `backward`
    carries the cotangents of the carried values (`seeds`, samples by number of the result) and sums those of the
    arguments that all iterations share (`totals`, by number of the argument). It iterates over the cotangents of
    collected results (`collected`, by number of the result), and collects those of listed arguments (`elements`, by
    number of the argument).
    """

    def __init__(self, loop: Loop, taken: set[int]) -> None:
        self.loop, (_, self.given, _, self.carried) = loop, loop.sizes
        self.totals: dict[int, Any] = {}
        self.elements: dict[int, Any] = {}
        self.live = sorted(live(loop, taken)[0])
        self.seeds: dict[int, Any] = {j: zero(x.val) for j, x in enumerate(loop.parts()[3]) if j in self.live
                                      and has_gradient(x.val)}
        self.collected = {j: zero(value_of(loop.results[j])) for j in self.live if j >= self.carried
                          and has_gradient(value_of(loop.results[j]))}
        for _ in range(TRIES):
            self._sweep()
            if self._settled():
                break
        else:
            raise NoLoop
        self._write()

    def _sweep(self) -> None:
        """Record the body and its sweep for one iteration, with cotangents of the samples' types."""
        loop = self.loop
        self.tape = new = loop.body.blank()
        tracer = Plain(new, DEFAULT, proxy.make)
        try:
            with recording(tracer), np.errstate(all="ignore"):
                shadow = copy_primal(loop.body, new, tracer, trace_loop, [loop.results[j] for j in self.live])
                self.primal = len(new.ops)
                _, given, listed, carried = [[new.ops[x.id - 1] for x in part] for part in loop.parts()]
                labels = [f"d{x.name}" for x in carried]
                cotangents = self.seeds | self.collected
                self.dys = {j: new.push(Input(val, labels[j] if j < self.carried else ""))
                            for j, val in cotangents.items()}
                dys = [proxy.make(self.dys[j], self.dys[j].val, tracer) if j in self.dys else ZERO
                       for j in range(len(loop.results))]
                active = activity(loop.body, range(1 + loop.sizes[0], len(loop.body.inputs)))  # steps have no gradient
                seed = shadow.result.kwargs["into"].mirror(dys)
                cot = record_sweep(shadow, seed, active, new, lambda op: None)
                mark = len(new.ops)
                found = {j: _project(dense(cot[carried[j].id]), carried[j].val) if cot[carried[j].id] is not None
                         else ZERO for j in self.seeds}
                self.outs = {j: dx if _flows(dx) else zero(self.seeds[j]) for j, dx in found.items()}
                if any(type(x.val) is tuple and _flows(cot[x.id]) for x in (*given, *listed)):
                    raise NoLoop  # cotangents of tuples, of which an iteration uses one part
                self.sums: dict[int, tuple[Operation, Any]] = {}
                for i, x in enumerate(given):
                    if has_gradient(x.val) and _flows(cot[x.id]):
                        total = new.push(Input(_total(cot[x.id], x.val), f"d{x.name}"))
                        self.sums[i] = total, _added(proxy.make(total, total.val, tracer), cot[x.id], x.val)
                self.elements = {}
                self.each: dict[int, Any] = {}
                for i, x in enumerate(listed, len(given)):
                    if has_gradient(x.val) and _flows(cot[x.id]):
                        self.each[i] = tracer.lift(_project(dense(cot[x.id]), x.val))
                        self.elements[i] = value_of(self.each[i])
                self.results = {j: tracer.lift(dx) for j, dx in self.outs.items()}
                self.added = {i: tracer.lift(made) for i, (_, made) in self.sums.items()}
                for made in new.ops[mark:]:
                    made.code = None  # belongs to no line of the program
        except TapeError as err:
            raise NoLoop from err
        if any(type(op) is Guard and op.fact not in FIXED for op in new.ops[self.primal:]):
            raise NoLoop  # a rule has read a value, which may differ in another iteration

    def _settled(self) -> bool:
        """Return whether an iteration preserves the cotangents' types; the next try starts from the new types."""
        for i, (total, made) in self.sums.items():
            if kind_of(total.val) != kind_of(made):
                raise NoLoop
            self.totals[i] = total.val
        same = all(kind_of(self.seeds[j]) == kind_of(dx) for j, dx in self.outs.items())
        self.seeds = {j: zero(value_of(self.results[j])) for j in self.seeds}
        return same

    def _write(self) -> None:
        """Split the recorded tape into the loop's own body and the sweep's, which gets residuals of each iteration."""
        loop, ops = self.loop, self.tape.ops
        wanted = (*self.results.values(), *self.added.values(), *self.each.values())
        leads = leading(ops, wanted)
        needed = [op for op in ops if leads[op.id]]
        cheap = _recomputed(ops[:self.primal], loop)
        kept: dict[Operation, None] = {}
        for op in needed:
            if op.id > self.primal:
                kept.update({arg: None for arg in op.args if isinstance(arg, Operation) and arg.id <= self.primal
                             and arg not in cheap})
        for part in wanted:
            if isinstance(part, Operation) and part.id <= self.primal and part not in cheap:
                kept[part] = None
        self.kept = [op.val for op in kept]
        body = loop.body.blank()
        at: dict[Operation, Any] = {}
        *inner, last = ops[:self.primal]  # the nest of the results
        for op in inner:
            put(body, op, at)
        put_results(body,
                    [*[at[arg] if isinstance(arg, Operation) else arg for arg in last.args], *[at[op] for op in kept]])
        self.forward = loop.with_body(body)
        sweeping = self._sweeping(needed, list(kept), cheap, wanted)
        listed, carried = len(kept) + len(self.collected), len(self.seeds) + len(self.totals)
        self.backward = Loop(sweeping, loop.count, loop.steps, self.given, listed, carried, not loop.reverse)

    def _sweeping(self, needed: list[Operation], kept: list[Operation], cheap: set[Operation],
                  wanted: Sequence[Any]) -> Tape:
        """Return the body of the backward loop."""
        body = self.loop.body.blank()
        at: dict[Operation, Any] = {}
        ops = self.tape.ops
        for op in ops[:1 + self.loop.sizes[0] + self.given]:
            put(body, op, at)
        for op in kept:
            at[op] = body.push(Input(op.val).at(op))
        cotangents = [*(self.dys[j] for j in self.collected), *(self.dys[j] for j in self.seeds)]
        for op in [*cotangents, *(total for total, _ in self.sums.values())]:
            put(body, op, at)
        for op in ops[:self.primal]:
            if op in cheap and op not in at:
                put(body, op, at)
        for op in needed:
            if op.id > self.primal and op not in at:
                put(body, op, at)
        put_results(body, [at[part] if isinstance(part, Operation) else part for part in wanted])
        return body


def _project(dx: Cotangent, x: Any) -> Any:
    return unwrap(project(wrap(dx), wrap(x))) if is_tensor(x) else project(dx, x)


def _flows(dx: Any) -> bool:
    return dx is not None and not isinstance(dx, Absorbing)


def _total(dx: Any, x: Any) -> Any:
    """Return zeros of the type of a sum of such cotangents."""
    if type(dx) is not Scatter:
        made = _project(dx, x)
        return zero(made._val if hasattr(type(made), "_tracer") else made)
    if is_tensor(x):
        return zero(x)
    pieces = [link.piece for link in dx.chain()] + ([dx.base] if _flows(dx.base) else [])
    dtypes = {dtype_of(piece) or np.dtype(type(piece)) for piece in pieces}
    return np.zeros(shape_of(x), np.result_type(*dtypes, *([dtype_of(x)] if letter(dtype_of(x)) in INEXACT else [])))


def _added(total: Any, dx: Any, x: Any) -> Any:
    """Return a sum plus one more cotangent; the pieces of a sparse one are added at their places only."""
    if type(dx) is not Scatter:
        return total + _project(dx, x)
    for link in reversed(list(dx.chain())):
        index = tuple(part._val if hasattr(type(part), "_tracer") else part for part in link.index)
        if may_repeat(index) or any(map(is_tensor, index)) or not shape_of(x):
            total = total + unwrap(Scatter(link.build, link.x, link.piece, link.index, link.path).dense())
        else:
            through: dict[str, Any] = {"through": link.path} if link.path else {}
            total = setitem(total, read(total, unwrap(link.index), link.path) + unwrap(link.piece), *unwrap(link.index),
                            **through)
    return total + unwrap(dx.base) if _flows(dx.base) else total


def _recomputed(ops: list[Operation], loop: Loop) -> set[Operation]:
    """Return the operations that the sweep needs no residuals for: steps, given values, constants, and what it computes
    again of these: views, and large sums and products, which take longer to store than to compute.
    """
    found = set(ops[:1 + loop.sizes[0] + loop.sizes[1]])
    for op in ops:
        if type(op) is Constant or (type(op) is Call and found.issuperset(operands(op)) and (
                _is_view(op) or (op.fn in QUICK and op.spec.size >= LARGE))):
            found.add(op)
    return found


def _is_view(op: Call) -> bool:
    """True for a view of the first argument, and for one element of it: none at places that an array tells."""
    return type(op.fn) is Op and op.fn.memory.of == 0 and not any(spec_of(x).ndim for x in operands(op)[1:])
