"""loop_gradient: the gradient of a loop is two loops, one that keeps what the sweep needs of each run, and one that
sweeps over them backwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import Location, TapeError
from tapegrad.numbers.cotangents import ZERO, Absorbing, Scatter, dense, dtype_of, project, shape_of
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import as_kind, system
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.numbers.view_path import may_repeat
from tapegrad.ops import astype, getfield, read, scalar, setitem, zeros
from tapegrad.ops.loop import Loop, put, put_results
from tapegrad.rules.activity import activity, has_gradient
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, value_of
from tapegrad.trace import proxy
from tapegrad.trace.context import DEFAULT, Tracer
from tapegrad.trace.guards import FIXED
from tapegrad.trace.replacement import interposition
from tapegrad.transforms.primal_copy import Scalars, copy_primal
from tapegrad.transforms.reverse import record_sweep

# what the cotangent of a carried value is, is found by trying: from the first run swept on, it
# is what the body makes of it
TRIES = 4


class NoLoop(TapeError):
    """The gradient of a loop is none: what a rule does depends on values of each run, or
    types change from run to run.
    """

    def __init__(self, what: str = "the gradient of a loop is no loop", where: Location | None = None, try_: str = "tg.unroll(tape)") -> None:
        super().__init__(what, where, try_)


def trace_loop(op: Call, args: list[Any], tracer: Tracer, taken: set[int]) -> tuple[tuple[Any, ...], Any]:
    """Put a loop that keeps what its sweep needs on the tape of a tracer; return proxies of what it
    returns, and its pullback.

    The sweep carries no cotangents but of what the `taken` results depend on: nothing would
    flow to others, but 0 * inf.

    `lax.scan` is differentiated like that (Bradbury et al., JAX); what is summed over the runs, is summed in place.
    """
    parts = _Gradient(op.fn, taken)
    forward, count = parts.forward, op.fn.count
    kept = tuple([(val,) * count for val in parts.kept])
    call = tracer.place(Call(forward, tuple(map(tracer.lift, args)), None, (*op.val, *kept)))
    values = tuple([tracer.append(Call(getfield, (call, i), None, val)) for i, val in enumerate(op.val)])

    def loop_pullback(dys: tuple[Any, ...]) -> list[Any]:
        listed = [tracer.place(Call(getfield, (call, len(values) + i), None, val)) for i, val in enumerate(kept)]
        firsts = [_begin(dys[j], seed) for j, seed in parts.seeds.items()] + [_nothing(total) for total in parts.totals.values()]
        given = [tracer.lift(arg) for arg in args[:parts.given]]
        samples = (*parts.seeds.values(), *parts.totals.values())
        back = tracer.place(Call(parts.backward, (*given, *listed, *map(tracer.lift, firsts)), None, samples))
        found = [tracer.append(Call(getfield, (back, i), None, val)) for i, val in enumerate(samples)]
        dxs = dict(zip([*(parts.given + j for j in parts.seeds), *parts.totals], found))
        return [dxs.get(i, ZERO) for i in range(len(args))]
    return values, loop_pullback


def _begin(dy: Any, like: Any) -> Any:
    """Return the cotangent of a last value, of the type that it has in the loop."""
    dy = dense(dy)
    if isinstance(dy, Absorbing):
        return _nothing(like)
    if _kind(like) == _kind(dy):
        return dy
    if is_tensor(like) and type(dy) in (int, float) and not like.ndim:
        return torch.full_like(like, dy)
    if isinstance(like, np.floating) and _kind(dy) == (float,):
        return scalar(dy) if type(like) is np.float64 else astype(dy, dtype=like.dtype)
    raise NoLoop


def _nothing(like: Any) -> Any:
    """Return zeros of a type: an array that may be written to."""
    if is_tensor(like):
        return torch.zeros_like(like)
    return zeros(like.shape, dtype=like.dtype) if type(like) is np.ndarray else type(like)(0)


def _kind(x: Any) -> Any:
    x = x._val if hasattr(type(x), "_tracer") else x
    return (type(x), x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) or is_tensor(x) else (type(x),)


class _Plain(Scalars):
    """Records views as what they are computed to be: the rules of a body write to none, and where one
    lies may depend on the run.
    """

    __slots__ = ()

    def fields(self, op: Operation, args: tuple[Any, ...] = ()) -> Any:
        return super().fields(op, (None,))


class _Gradient:
    """The two loops. `forward` collects `kept` (samples of it) besides what the loop itself returns. `backward` carries
    the cotangents of what the loop carries (`seeds`, samples by number) and sums those of what is given to all runs
    (`totals`, samples by number).
    """

    def __init__(self, loop: Loop, taken: set[int]) -> None:
        _, given, listed, carried = loop.sizes
        if listed or len(loop.results) > carried:
            raise NoLoop
        self.loop, self.given = loop, given
        self.totals: dict[int, Any] = {}
        self.live = _live(loop, taken)
        self.seeds: dict[int, Any] = {j: _zero(x.val) for j, x in enumerate(loop.parts()[3]) if j in self.live and has_gradient(x.val)}
        for _ in range(TRIES):
            self._sweep()
            if self._settled():
                break
        else:
            raise NoLoop
        self._write()

    def _sweep(self) -> None:
        """Record what the body and its sweep compute, of a run whose cotangents are those of the samples."""
        loop = self.loop
        self.tape = new = loop.body.blank()
        tracer = _Plain(new, DEFAULT, proxy.make)
        leave = interposition.enter(tracer, (), ())
        try:
            with np.errstate(all="ignore"):
                shadow = copy_primal(loop.body, new, tracer, trace_loop, [loop.results[j] for j in self.live])
                self.primal = len(new.ops)
                _, given, _, carried = [[new.ops[x.id - 1] for x in part] for part in loop.parts()]
                self.dys = {j: new.push(Input(val, f"d{carried[j].name}")) for j, val in self.seeds.items()}
                dys = [proxy.make(self.dys[j], self.dys[j].val, tracer) if j in self.dys else ZERO for j in range(len(carried))]
                first = 1 + loop.sizes[0]  # steps have no gradient
                active = activity(loop.body, range(first, first + len(given) + len(carried)))
                seed = shadow.result.kwargs["into"].mirror(dys)  # type: ignore[union-attr]
                cot = record_sweep(shadow, seed, active, new, lambda op, made: None)
                mark = len(new.ops)
                found = {j: _project(dense(cot[carried[j].id]), carried[j].val) if cot[carried[j].id] is not None else ZERO for j in self.seeds}
                self.outs = {j: dx if _flows(dx) else _zero(self.seeds[j]) for j, dx in found.items()}
                self.sums: dict[int, tuple[Operation, Any]] = {}
                for i, x in enumerate(given):
                    if has_gradient(x.val) and _flows(cot[x.id]):
                        total = new.push(Input(_total(cot[x.id], x.val), f"d{x.name}"))
                        self.sums[i] = total, _added(proxy.make(total, total.val, tracer), cot[x.id], x.val)
                self.results = {j: tracer.lift(dx) for j, dx in self.outs.items()}
                self.added = {i: tracer.lift(made) for i, (_, made) in self.sums.items()}
                for made in new.ops[mark:]:
                    made.code = None  # no line of the program's
        except TapeError as err:
            raise NoLoop from err
        finally:
            tracer.close()
            leave()
        if any(type(op) is Guard and op.fact not in FIXED for op in new.ops[self.primal:]):
            raise NoLoop  # a rule has looked at a value, which may be another in another run

    def _settled(self) -> bool:
        """Return whether cotangents come out as they went in; take those that came out for the next try."""
        for i, (total, made) in self.sums.items():
            if _kind(total.val) != _kind(made):
                raise NoLoop
            self.totals[i] = total.val
        same = all(_kind(self.seeds[j]) == _kind(dx) for j, dx in self.outs.items())
        self.seeds = {j: _zero(value_of(self.results[j])) for j in self.seeds}
        return same

    def _write(self) -> None:
        """Part what was recorded: into what the loop itself computes, and the sweep, which gets of it
        what it needs from each run.
        """
        loop, ops = self.loop, self.tape.ops
        leads = leading(ops, [*self.results.values(), *self.added.values()])
        needed = [op for op in ops if leads[op.id]]
        cheap = _views(ops[:self.primal], loop)
        kept: dict[Operation, None] = {}
        for op in needed:
            if op.id > self.primal:
                kept.update({arg: None for arg in op.args if isinstance(arg, Operation) and arg.id <= self.primal and arg not in cheap})
        for part in (*self.results.values(), *self.added.values()):
            if isinstance(part, Operation) and part.id <= self.primal and part not in cheap:
                kept[part] = None
        self.kept = [op.val for op in kept]
        body = loop.body.blank()
        at: dict[Operation, Any] = {}
        *inner, last = ops[:self.primal]  # the nest of the results
        for op in inner:
            put(body, op, at)
        put_results(body, [*[at[arg] if isinstance(arg, Operation) else arg for arg in last.args], *[at[op] for op in kept]])
        self.forward = loop.with_body(body)
        sweeping = self._sweeping(needed, list(kept), cheap)
        self.backward = Loop(sweeping, loop.count, loop.steps, self.given, len(kept), len(self.seeds) + len(self.totals), not loop.reverse)

    def _sweeping(self, needed: list[Operation], kept: list[Operation], cheap: set[Operation]) -> Tape:
        """Return the body of the loop that sweeps."""
        body = self.loop.body.blank()
        at: dict[Operation, Any] = {}
        ops = self.tape.ops
        for op in ops[:1 + self.loop.sizes[0] + self.given]:
            put(body, op, at)
        for op in kept:
            at[op] = body.push(Input(op.val).at(op))
        for total in [*self.dys.values(), *(total for total, _ in self.sums.values())]:
            put(body, total, at)
        for op in ops[:self.primal]:
            if op in cheap and op not in at:
                put(body, op, at)
        for op in needed:
            if op.id > self.primal and op not in at:
                put(body, op, at)
        put_results(body, [at[part] if isinstance(part, Operation) else part for part in (*self.results.values(), *self.added.values())])
        return body


def _live(loop: Loop, taken: set[int]) -> set[int]:
    """Return the numbers of what the loop carries that the taken results depend on, in the last
    run or in one before it.
    """
    live, more = set(taken), set(taken)
    while more:
        leads = leading(loop.body.ops, [loop.results[j] for j in live])
        more = {j for j, x in enumerate(loop.parts()[3]) if leads[x.id]} - live
        live |= more
    return live


def _zero(x: Any) -> Any:
    """Return the cotangent of which nothing comes, as the sample of one of `x`."""
    if is_tensor(x):
        return torch.zeros(x.shape, dtype=x.dtype if x.is_floating_point() or x.is_complex() else torch.float64, device=x.device)
    if isinstance(x, (np.ndarray, np.generic)):
        dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(float)
        return np.zeros(x.shape, dtype) if isinstance(x, np.ndarray) else dtype.type(0)
    if system(x) is not None:
        return as_kind(0, type(x))
    return 0j if isinstance(x, complex) else 0.0


def _project(dx: Any, x: Any) -> Any:
    return unwrap(project(wrap(dx), wrap(x))) if is_tensor(x) else project(dx, x)


def _flows(dx: Any) -> bool:
    return dx is not None and not isinstance(dx, Absorbing)


def _total(dx: Any, x: Any) -> Any:
    """Return zeros of the type that a sum of such cotangents has."""
    if type(dx) is not Scatter:
        made = _project(dx, x)
        return _zero(made._val if hasattr(type(made), "_tracer") else made)
    if is_tensor(x):
        return _zero(x)
    pieces = [link.piece for link in dx.chain()] + ([dx.base] if _flows(dx.base) else [])
    dtypes = {dtype_of(piece) or np.dtype(type(piece)) for piece in pieces}
    return np.zeros(shape_of(x), np.result_type(*dtypes, *([dtype_of(x)] if dtype_of(x).kind in "fc" else [])))


def _added(total: Any, dx: Any, x: Any) -> Any:
    """Return a sum and one more cotangent; the pieces of a sparse one are added at their places, which costs no
    more than they are large.
    """
    if type(dx) is not Scatter:
        return total + _project(dx, x)
    for link in reversed(list(dx.chain())):
        index = tuple(part._val if hasattr(type(part), "_tracer") else part for part in link.index)
        if may_repeat(index) or any(map(is_tensor, index)) or not shape_of(x):
            total = total + unwrap(Scatter(link.build, link.x, link.piece, link.index, link.path).dense())
        else:
            through: dict[str, Any] = {"through": link.path} if link.path else {}
            total = setitem(total, read(total, unwrap(link.index), link.path) + unwrap(link.piece), *unwrap(link.index), **through)
    return total + unwrap(dx.base) if _flows(dx.base) else total


def _views(ops: list[Operation], loop: Loop) -> set[Operation]:
    """Return what the sweep has, or views itself, in each run: steps, what is given, constants, and views of those."""
    found = set(ops[:1 + loop.sizes[0] + loop.sizes[1]])
    for op in ops:
        if type(op) is Constant or (type(op) is Call and getattr(op.fn, "view", False)
                                    and all(arg in found for arg in op.args if isinstance(arg, Operation))):
            found.add(op)
    return found

