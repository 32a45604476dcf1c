"""reverse: the seed, the reverse sweep, accumulation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from sys import getrefcount
from typing import Any

import numpy as np
from numpy import ndarray

from tapegrad.errors import ArgumentError, ReplayError, TapeError
from tapegrad.numbers.cotangents import ZERO, Accumulator, Scatter, ZeroTangent, accumulate, conform, dense, dtype_of, project, shape_of
from tapegrad.numbers.formatting import brief, plain, type_name
from tapegrad.numbers.systems import as_kind, is_complex_number, system, systems_of
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import ORDINARY, is_tensor, is_tensor_type, to_tensor
from tapegrad.ops import add, getfield, pack
from tapegrad.rules.activity import activity, differentiated, has_gradient
from tapegrad.rules.registry import Op, as_numpy, rrule
from tapegrad.tape.error_context import failed
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, copy_op, value_of
from tapegrad.trace.value_retention import is_apart, is_mapped, unstretched
from tapegrad.transforms.rewrite import placed, pullback_of
from tapegrad.tree.flatten import ValueAndGradients, flatten, is_leaf

_REALS = frozenset([float, int])
_FLOATS = frozenset([float, np.float64])
_OPERATIONS = frozenset([Call, Input, Constant])
_LAZY = frozenset([Scatter, Accumulator])
_OWN_SUM = (tuple, dict, Scatter, Accumulator)  # cotangents that `add` does not know, and must not record


def back(tape: Tape, seed: Any = 1) -> Tape:
    """Return the tape of triples with its reverse sweep appended; it returns (value, (df, *dargs)).

    Each appended operation's note says what it is for: `seed`, `pullback of %7`, `d%2`, `accumulate d%2`. Raises ArgumentError for a tape on
    which a call that the gradient must pass is no triple.
    """
    _check_triples(tape)
    new = tape.blank()
    at: dict[Operation, Operation] = {}
    for op in tape:
        at[op] = new.push(copy_op(op, lambda arg: at[arg] if isinstance(arg, Operation) else arg))
    assert tape.result is not None
    y = new.result = at[tape.result]
    pullbacks = {op.args[0]: op for op in new.ops if isinstance(op, Call) and op.fn is getfield and is_triple(op.args[0])}
    triples = {new[rr.id + 1]: (rr, pb) for rr, pb in pullbacks.items()}  # a triple's value stands right after it
    places = differentiated(tape)
    wrt = [x for k, x in enumerate(new.inputs) if k in places]
    flows = {*triples, *(x for x in wrt if has_gradient(x.val))}  # what has a cotangent
    cot: dict[Operation, Operation] = {}
    begun = start(y.val, seed)
    if y in flows:
        cot[y] = new.push(Constant(begun, "seed"))
    for op in reversed(new.ops[:len(tape)]):
        if op not in triples or op not in cot:
            continue
        rr, pb = triples[op]
        dxs = _call(new, pb, (cot[op],), f"pullback of {op.name}", op)
        for i, x in enumerate(rr.args[1:]):
            if not isinstance(x, Operation) or x not in flows or nothing_flows(rr.args[0], i):
                continue
            dx = _call(new, getfield, (dxs, i), f"d{x.name}", op)
            if x in cot:
                fn = accumulate if isinstance(dx.val, _OWN_SUM) or type(cot[x].val) in _LAZY else add
                dx = _call(new, fn, (cot[x], dx), f"accumulate d{x.name}", op)
            cot[x] = dx
    _append_result(new, y, set(wrt), cot)
    return new


def _check_triples(tape: Tape) -> None:
    active, needed = activity(tape), leading(tape.ops, [tape.result])
    for op in tape.ops:
        if type(op) is Call and active[op.id] and needed[op.id] and not is_triple(op) and not (op.fn is getfield and is_triple(op.args[0])):
            raise ArgumentError(f"the gradient must pass {op.name}, a call of {brief(op.fn)}, which has no pullback on this tape", op.where,
                                "tg.gradtape(tape), or tg.back(tg.rewrite(tape))")


def nothing_flows(fn: Any, i: int) -> bool:
    """True if an op's rule says that argument `i` gets no cotangent: an index, an order of axes."""
    return type(fn) is Op and isinstance(fn.partials, tuple) and fn.partials[i] is None


def is_triple(op: Any) -> bool:
    """True for `rrule(fn, ...)`."""
    return isinstance(op, Call) and op.fn is rrule


def _call(tape: Tape, fn: Any, args: tuple[Any, ...], note: str, line: Operation) -> Operation:
    known = fn.val if isinstance(fn, Operation) else fn
    given = [arg.val if isinstance(arg, Operation) else arg for arg in args]
    try:
        val = known(*given)
    except TapeError:
        raise
    except Exception as err:
        triple = line.args[0] if is_triple(line.args[0]) else line
        raise failed(tape, triple, err, pullback=True) from err
    return tape.push(Call(fn, args, None, val, note).at(line))


def _append_result(tape: Tape, y: Operation, wrt: Collection[Input], cot: dict[Operation, Operation]) -> None:
    """Give every input that is differentiated by its gradient, zeros where nothing flowed, and nest them as the inputs were."""
    parts: list[Any] = []
    for x in placed(tape):
        if x not in wrt:
            parts.append(None)
            continue
        dx: Any = cot.get(x, ZERO)
        val = conform(dx.val if isinstance(dx, Operation) else dx, x.val)
        parts.append(tape.push(Call(conform, (dx, x), None, val, f"gradient of {x.label or x.name}")))
    if tape.structure is None:
        tape.result = tape.push(Call(_flat_result, (y, *parts), None, _flat_result(y.val, *[part.val for part in parts]), "result"))
        return
    into = ValueAndGradients(tape.structure, y.val)
    val = into.build([y.val, *map(value_of, parts)])
    tape.result = tape.push(Call(pack, (y, *parts), {"into": into}, val, "result"))


def _flat_result(y: Any, *dxs: Any) -> Any:
    """Nest the result of a tape made by hand, which has no structure of its own."""
    return y, (None, *dxs)


def start(y: Any, seed: Any) -> Any:
    """Return the cotangent of the output that the seed means; raise ArgumentError where it does not fit."""
    if type(y) in _FLOATS and type(seed) is int:
        return float(seed)
    if not is_leaf(y):
        leaves: list[Any] = []
        structure = flatten(y, "", leaves, [], shared=False)
        if not leaves:
            raise ArgumentError(f"the function returns {y!r}, which has no gradient", try_="return a real number")
        if type(seed) is int and seed == 1:
            raise ArgumentError(f"the function returns a {type(y).__name__}: its gradient needs a seed",
                                try_="seed= with one cotangent per number of the output, nested like it (None: nothing flows)")
        return structure.mirror([ZERO if part is None else start(leaf, part) for leaf, part in zip(leaves, structure.unmirror(seed, whole=True))])
    shape = shape_of(y)
    if not has_gradient(y):
        raise ArgumentError(f"the function returns a {type_name(y)}, which has no gradient", try_="return a real number")
    if type(seed) is int and seed == 1 and (shape != () or is_complex_number(plain(y)) or getattr(dtype_of(y), "kind", "f") == "c"):
        raise ArgumentError(f"the function returns {type_name(y)}, no real scalar: its gradient needs a seed",
                            try_="seed= an array of that shape, or sum the output")
    if isinstance(seed, (list, tuple)):
        seed = _array(seed, y)
    if type(seed) is np.ndarray:
        seed = seed.copy()  # the caller may write to it
    if not is_leaf(seed):
        raise ArgumentError(f"the seed is {seed!r}, and the output a {type_name(y)}", try_="a seed of the output's shape")
    if shape_of(seed) != shape:
        raise ArgumentError(f"the seed has shape {shape_of(seed)}, and the output {shape}", try_="a seed of the output's shape")
    if type(seed) in (int, float) and is_tensor(y) and getattr(dtype_of(y), "kind", "") == "f":
        return to_tensor(float(seed), plain(y).device, plain(y).dtype)  # a tensor at once, so that no rule makes an array of a number
    if system(y) is not None and not shape_of(seed):
        return as_kind(seed, type(plain(y)))
    seed = float(seed) if type(seed) is int else seed
    return unwrap(project(wrap(seed), wrap(y))) if is_tensor(y) else project(seed, y)


def _array(seed: Any, y: Any) -> Any:
    """Return a seed that is a list as an array."""
    try:
        return np.asarray(seed, complex if getattr(dtype_of(y), "kind", "f") == "c" else float)
    except (TypeError, ValueError) as err:
        raise ArgumentError(f"the seed is {seed!r}, and the output a {type_name(y)}", try_="a seed of the output's shape") from err


def sweep(tape: Tape, seed: Any, active: bytearray, last: bool = False,
          order: Callable[[list[Operation]], Iterable[Operation]] = reversed, thrifty: bool = False,
          left: Callable[[Call], Any] | None = None) -> list[Any]:
    """Run the reverse sweep at once on a primal tape, and return the cotangents by position.

    The same order and the same sums as `back` writes down, without the writing: what `grad` does once. Each
    cotangent is freed when it has been passed on; on the `last` sweep of a tape, so is each value that no call before it needs,
    and its memory is there for what comes next: in its place is what `left` makes of the call. A `thrifty` sweep makes no large arrays that
    it need not make. `order` walks the operations backwards: what records the sweep follows it there.
    """
    cot: list[Any] = [None] * (len(tape.ops) + 1)
    op: Any = tape.result
    assert op is not None
    cot[op.id] = seed
    kinds = {type(op.val) for op in tape.ops} - ORDINARY
    # the rules of tensors see them as arrays, and those of exact numbers no float among them: Op.cotangent
    whole = bool(kinds) and (any(map(is_tensor_type, kinds)) or bool(systems_of(tape.ops, kinds)))
    try:
        passed = None
        for op in order(tape.ops):
            if last:
                if type(passed) is Call:
                    passed.val, passed.pb = None if left is None else left(passed), None
                passed = op
            dy = cot[op.id]
            if dy is None or type(dy) is ZeroTangent or type(op) is not Call:
                continue
            cot[op.id] = None
            if not active[op.id]:
                continue
            fn, args, kwargs = op.fn, op.args, op.kwargs
            if type(dy) in _LAZY and not fn.accumulates:
                dy = dy.dense()
            if op.pb is None and type(fn) is Op and type(fn.partials) is tuple and not whole:
                if thrifty:
                    _pass_thriftily(op, dy, active, cot)
                    y = None if is_mapped(op.val) else op.val  # until the next: memory that is freed at once comes and goes
                    continue
                y = op.val
                values = [arg.val if type(arg) in _OPERATIONS else arg for arg in args]
                for partial, arg, x in zip(fn.partials, args, values):
                    if type(arg) in _OPERATIONS and active[arg.id] and partial is not None:
                        try:
                            dx = partial(dy, y, *values, **kwargs) if kwargs else partial(dy, y, *values)
                        except ArithmeticError as err:
                            dx = as_numpy(partial, dy, y, values, kwargs, err)
                        if type(dx) is ndarray is type(x):
                            if dx.dtype is not x.dtype or dx.shape != x.shape:
                                dx = project(dx, x)
                        elif type(dx) not in _REALS or type(x) not in _REALS:
                            dx = project(dx, x)
                        i = arg.id
                        known = cot[i]
                        cot[i] = dx if known is None else accumulate(known, dx)
                continue
            pb = op.pb if op.pb is not None else pullback_of(op)
            dxs = pb(dy)
            for i, arg in enumerate(args):
                if type(arg) in _OPERATIONS and active[arg.id]:
                    dx = dxs[i]
                    known = cot[arg.id]
                    cot[arg.id] = dx if known is None else accumulate(known, dx)
    except ReplayError:  # it names an operation of the tape that the rule played
        raise
    except TapeError as err:  # refused by a rule: the line is that of the call
        raise type(err)(err.what, op.where or err.where, err.try_) from err.__cause__
    except Exception as err:
        raise failed(tape, op, err, pullback=True) from err
    return cot


def _pass_thriftily(op: Call, dy: Any, active: bytearray, cot: list[Any]) -> None:
    """Pass a cotangent through a call by its partials, as `sweep` does: without arrays of one number, and with sums in place."""
    values = [arg.val if type(arg) in _OPERATIONS else arg for arg in op.args]
    one = unstretched(dy, op.fn, op.val, values)
    for partial, arg, x in zip(op.fn.partials, op.args, values):
        if type(arg) in _OPERATIONS and active[arg.id] and partial is not None:
            try:
                dx = partial(one, op.val, *values, **op.kwargs)
            except ArithmeticError as err:
                dx = as_numpy(partial, one, op.val, values, op.kwargs, err)
            dx = project(dx if one is dy or shape_of(dx) == dy.shape else np.broadcast_to(dx, dy.shape), x)
            i = arg.id
            if cot[i] is not None and is_apart(cot[i]) and getrefcount(cot[i]) == 2 and _alike(cot[i], dx):  # the list holds it, and this line
                np.add(cot[i], dx, out=cot[i])
            else:
                cot[i] = dx if cot[i] is None else accumulate(cot[i], dx)


def taken(cot: list[Any], i: int, x: Any) -> Any:
    """Return the cotangent at position `i` as the gradient of the input `x`: itself if it is an array that nobody else holds, else a copy."""
    cot[i] = dense(cot[i])
    if type(cot[i]) is np.ndarray and cot[i].base is None and getrefcount(cot[i]) == 2 and _alike(cot[i], x):
        return cot[i]
    return conform(ZERO if cot[i] is None else cot[i], x)


def _alike(a: Any, b: Any) -> bool:
    return type(b) is np.ndarray and bool(a.shape == b.shape and a.dtype == b.dtype and a.dtype != object and a.flags.writeable)
