"""forward_diff: functions whose calls are differentiated in forward mode, within any gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import conform, dtype_of, shape_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import system
from tapegrad.numbers.tensors import is_memory, is_tensor, overlap
from tapegrad.ops import is_complex, stack, with_jacobian
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.structure import put_results
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.batching import elementwise, rule_of
from tapegrad.rules.op import Op, Traced
from tapegrad.tape.origin import Origin, set_origin
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, operands
from tapegrad.trace import proxy, views
from tapegrad.trace.checkpoint import as_subtape, bare, place
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import FIXED, are_apart
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.recording import recording
from tapegrad.trace.tracer import record
from tapegrad.transforms import batch
from tapegrad.transforms.primal_copy import ScalarTracer, copy_primal
from tapegrad.transforms.tangent_pass import Pass
from tapegrad.transforms.walk import needed
from tapegrad.tree.copies import running


def forwarddiff(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes what `f` does together with its derivatives, by which a reverse sweep multiplies.

    A call is one operation with a subtape, which computes the values and their tangents along each number of the
    arguments. No intermediate value of `f` is kept for the sweep, and none is recomputed. An elementwise function of
    arrays takes one pass for each array, whatever its length; n numbers take n passes otherwise. Compiled, the gradient
    costs the same as without; uncompiled it takes longer, but less memory where calls follow each other: for five
    calls, each of 50 operations on an array, a quarter. It is never chosen automatically: by `python -m bench.mixed` a
    single call takes as much memory, and a call on a few numbers up to four times as long.

    Derivatives are by the arguments and by what `f` captured, of any order; complex and exact numbers are
    differentiated as by `checkpoint`. Random numbers are drawn once, and `f` may write to its arguments' arrays. Raises
    MutationError and ArgumentError where `checkpoint` does, and ArgumentError where `f` calls a hook.

    Revels, Besard, Churavy, De Sa, Vielma (2018), Dynamic Automatic Differentiation of GPU Broadcast Kernels.

    >>> import numpy as np, tapegrad as tg
    >>> wave = forwarddiff(lambda x, k: np.sin(k * x) * np.exp(-x))
    >>> x = np.array([0.5, 1.0])
    >>> tg.gradient(lambda x, k: wave(x, k).sum(), x, 2.0)[0].round(4)
    array([ 0.145 , -0.6407])
    >>> tape = tg.trace(lambda x: wave(x, 2.0), x)[1]
    >>> [op.fn.__name__ for op in tape if op.kind == "call" and op.fn.__name__ != "getfield"]
    ['forwarddiff(<lambda>)', 'with_jacobian']
    """
    return as_subtape(f, "forwarddiff", _placed)


def _placed(tracer: Tracer, tape: Tape, leaves: list[Any], count: int) -> list[Any]:
    """Record the operation on the tracer's tape, and after it each result with its derivatives; return proxies."""
    wrt = [k for k, x in enumerate(leaves) if isinstance(x, Traced) and has_gradient(plain(x))
           and 0 not in shape_of(plain(x))]
    if any(is_complex(leaves[k]) or system(plain(leaves[k])) is not None for k in wrt):
        wrt = []
    with collector:
        once = (tracer.once or tracer.retention) is not None and not tracer.replays and len(running.tracers) == 1
        if wrt and once and _are_own(tape, count):
            # a first-order sweep follows at once and never differentiates the derivatives
            y, links = _at_once(tape, wrt, count)
        else:
            body, links = _with_derivatives(tape, wrt, count) if wrt else (tape, {})
            value = body.result.val
            bare(tape)  # frees the values, which nothing else holds
            call = Checkpoint(bare(body), "forwarddiff", lends=count)  # nothing else holds the derivatives
            y = list(place(tracer, call, leaves, value))
            if not wrt:
                return y
    values = y[:count]
    for j, value in enumerate(values):
        parts = links.get(j, [])
        given = [part for k, at, _ in parts for part in (leaves[k], y[at])]
        y[j] = with_jacobian(value, *given, each=tuple([each for *_, each in parts]))
    for j, value in enumerate(values):
        if isinstance(value, Traced) and is_memory(plain(value)):
            storage = views.place(y[j]).storage  # the program sees one array, which shares memory as `value` does
            storage.held = views.place(value).storage.held
            storage.relate(views.place(value).storage)
    return y


def _are_own(tape: Tape, count: int) -> bool:
    """Return whether each array among the results shares memory with no other result, no argument and no constant."""
    known = [op.val for op in tape.ops if isinstance(op, (Input, Constant)) and is_memory(plain(op.val))]
    results = [y for y in tape.result.val[:count] if is_memory(plain(y))]
    return are_apart(tuple(results)) and not any(overlap(y, x) for y in results for x in known)


Links = dict[int, list[tuple[int, int, bool]]]
"""For each result a list of its derivatives: the number of the input, that of the derivative among the results, and
whether it is elementwise.
"""


def _with_derivatives(tape: Tape, wrt: Sequence[int], count: int) -> tuple[Tape, Links]:
    """Return a subtape that computes `count` results, their derivatives by some inputs, and the random draws."""
    new = tape.blank()
    tracer = ScalarTracer(new, DEFAULT, proxy.make)
    with recording(tracer):
        shadow = copy_primal(tape, new, tracer, _no_loop)
        primal = len(new.ops)
        ys = [y.val if isinstance(y, Operation) else y for y in shadow.result.args]
        blocks, links = _blocks(shadow, wrt, ys[:count], tracer)
        parts = list(map(tracer.lift, (*ys[:count], *blocks, *ys[count:])))
    # types that a rule has read follow from those of the values
    body, kept = needed(new, parts, lambda guard: guard.args[0].id <= primal or guard.fact not in FIXED)
    put_results(body, kept)
    return body, links


def _at_once(tape: Tape, wrt: Sequence[int], count: int) -> tuple[list[Any], Links]:
    """Return the values of the results and their derivatives, unrecorded."""
    results = list(tape.result.val[:count])
    blocks, links = _blocks(tape, wrt, results, None)
    return [*results, *blocks], links


def _blocks(tape: Tape, wrt: Sequence[int], results: Sequence[Any], tracer: Tracer | None) -> tuple[list[Any], Links]:
    """Return the derivatives of a tape's results by some inputs, and their places behind the results."""
    blocks: list[Any] = []
    links: Links = {}
    for k in wrt:
        x = tape.inputs[1 + k]
        with np.errstate(all="ignore"):  # the program did not request the derivatives: no warnings
            derivatives = _derivatives(tape, x, len(results), tracer)
        for j, found in enumerate(derivatives):
            if found is not None:
                each = shape_of(plain(found)) == shape_of(plain(results[j])) == shape_of(plain(x.val))
                links.setdefault(j, []).append((k, len(results) + len(blocks), each))
                blocks.append(found)
    return blocks, links


def _derivatives(tape: Tape, x: Operation, count: int, tracer: Tracer | None) -> tuple[Any, ...]:
    """Return the derivatives of a tape's first results by one of its inputs, None where there is none. They are
    tangents along ones for a scalar or an elementwise dependence, else the stacked tangents along each number of the
    input.
    """
    results = [y if isinstance(y, Operation) else None for y in tape.result.args[:count]]

    def push(t: Any) -> tuple[Any, ...]:
        pass_, around = Pass(tape, {x.id: t}), [] if tracer is None else tracer.tape.ops
        mark = len(around)
        for op in pass_.over():
            set_origin(around[mark:], op, Origin("tangent", op.val._op.id) if isinstance(op.val, Traced) else None)
            mark = len(around)
        return tuple([None if y is None else pass_.known.get(y.id) for y in results])
    if not shape_of(x.val) or _is_elementwise(tape, x):
        return push(conform(1.0, plain(x.val)))
    return _along_each(push, _units(plain(x.val)), tracer)


def _along_each(push: Callable[[Any], tuple[Any, ...]], units: Any, tracer: Tracer | None) -> tuple[Any, ...]:
    """Return the results of a linear function for each unit tangent, stacked."""
    along = record(push, (units[0],), {}, DEFAULT)
    result: Any = along.result
    if type(result) is not Call:  # no tangent flows
        return push(units[0])
    walk = batch.Pass(along, [units], [True], len(units), tracer)
    found, _ = walk.batched()
    if walk.left:  # a rule has read values
        return tuple([None if column[0] is None else stack(*column, axis=0) for column in zip(*map(push, units))])
    parts = [y if flag else batch.spread(y, len(units)) for y, flag in zip(found.parts, found.flags)]
    return result.kwargs["into"].build(parts)  # type: ignore[no-any-return]


def _units(x: Any) -> Any:
    """Return the unit tangents of an array: for each number an array that is 1 there and 0 elsewhere."""
    count, dtype = math.prod(shape_of(x)), dtype_of(x)
    if is_tensor(x):
        kept = x.dtype if dtype.kind in "fc" else torch.float64
        return torch.eye(count, dtype=kept, device=x.device).reshape(count, *x.shape)
    return np.eye(count, dtype=dtype if letter(dtype) in INEXACT else float).reshape(count, *shape_of(x))


def _is_elementwise(tape: Tape, x: Operation) -> bool:
    """Return whether each value that depends on an input has its shape and depends on it elementwise."""
    shape, depends = shape_of(x.val), {x}
    for op in tape.ops:
        given = [arg for arg in operands(op) if arg in depends]
        if given and type(op) is Call and op is not tape.result and isinstance(op.fn, Op) and op.fn.differentiable:
            if rule_of(op.fn) is not elementwise or any(shape_of(y.val) != shape for y in (op, *given)):
                return False
            depends.add(op)
    return True


def _no_loop(*args: Any) -> Any:
    raise TypeError("a trace records no loops")
