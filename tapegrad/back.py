"""back: the seed, the reverse sweep, accumulation."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops import add, getfield, pack
from tapegrad.rewrite import is_bool, pullback_of
from tapegrad.rules import Op, rrule
from tapegrad.tangent import ZERO, Scatter, accumulate, conform, project, shape_of
from tapegrad.tape import Call, Constant, Input, Operation, Tape, copy_op, type_name
from tapegrad.tree import Structure, ValueAndGradients, is_leaf

_REALS = frozenset([float, int])
_OPERATIONS = frozenset([Call, Input, Constant])


def back(tape: Tape, seed: Any = 1, wrt: Any = None) -> Tape:
    """Return the tape of triples with its reverse sweep appended; it returns (value, (df, *dargs)).

    Each appended operation's note says what it is for: `seed`, `pullback of %7`, `d%2`, `accumulate d%2`.
    """
    new = tape.blank()
    at: dict[Operation, Operation] = {}
    for op in tape:
        at[op] = new.push(copy_op(op, lambda arg: at[arg] if isinstance(arg, Operation) else arg))
    assert tape.result is not None
    y = new.result = at[tape.result]
    triples = {op.args[0]: op for op in new.ops if isinstance(op, Call) and op.fn is getfield and is_triple(op.args[0])}
    values = {rr.id + 1: (rr, pb) for rr, pb in triples.items()}  # a triple's value stands right after it
    cot: dict[Operation, Operation] = {}
    if y.id in values or isinstance(y, Input):
        cot[y] = new.push(Constant(start(y.val, seed), "seed"))
    for op in reversed(new.ops[:len(tape)]):
        if op.id not in values or op not in cot:
            continue
        rr, pb = values[op.id]
        dxs = _call(new, pb, (cot[op],), f"pullback of {op.name}", op)
        for i, x in enumerate(rr.args[1:]):
            if not (isinstance(x, Operation) and (x.id in values or isinstance(x, Input) and differentiable(x, wrt))):
                continue
            dx = _call(new, getfield, (dxs, i), f"d{x.name}", op)
            if x in cot:
                fn = accumulate if isinstance(dx.val, (tuple, dict)) else add
                dx = _call(new, fn, (cot[x], dx), f"accumulate d{x.name}", op)
            cot[x] = dx
    _append_result(new, y, cot)
    return new


def is_triple(op: Any) -> bool:
    """True for `rrule(fn, ...)`."""
    return isinstance(op, Call) and op.fn is rrule


def differentiable(x: Input, wrt: Any) -> bool:
    """True if the gradient with respect to this input is asked for, and exists."""
    return x.id > 1 and not is_bool(x.val) and (wrt is None or any(x.id == other.id for other in wrt))


def _call(tape: Tape, fn: Any, args: tuple[Any, ...], note: str, line: Operation) -> Operation:
    known = fn.val if isinstance(fn, Operation) else fn
    val = known(*[arg.val if isinstance(arg, Operation) else arg for arg in args])
    return tape.push(Call(fn, args, None, val, note).at(line))


def _append_result(tape: Tape, y: Operation, cot: dict[Operation, Operation]) -> None:
    """Give every input its gradient, zeros where nothing flowed, and nest them as the inputs were."""
    parts = []
    for x in tape.inputs[1:]:
        dx: Any = cot.get(x, ZERO)
        val = conform(dx.val if isinstance(dx, Operation) else dx, x.val)
        parts.append(tape.push(Call(conform, (dx, x), None, val, f"gradient of {x.label or x.name}")))
    if tape.structure is None:
        tape.result = tape.push(Call(_flat_result, (y, *parts), None, _flat_result(y.val, *[p.val for p in parts]), "result"))
        return
    into = ValueAndGradients(tape.structure)
    val = into.build([y.val, *[part.val for part in parts]])
    tape.result = tape.push(Call(pack, (y, *parts), {"into": into}, val, "result"))


def _flat_result(y: Any, *dxs: Any) -> Any:
    """Nest the result of a tape made by hand, which has no structure of its own."""
    return y, (None, *dxs)


def start(y: Any, seed: Any) -> Any:
    """Return the cotangent of the output that the seed means; raise ArgumentError where it does not fit."""
    if not is_leaf(y):
        if type(seed) is int and seed == 1:
            raise ArgumentError(f"the function returns a {type(y).__name__}: its gradient needs a seed",
                                try_="seed= with one cotangent per number of the output, nested like it (None: nothing flows)")
        leaves: list[Any] = []
        from tapegrad.tree import flatten
        structure = flatten(y, "", leaves, [])
        return Structure.mirror(structure, [ZERO if part is None else start(leaf, part)
                                            for leaf, part in zip(leaves, structure.unmirror(seed))])
    shape = shape_of(y)
    if is_bool(y):
        raise ArgumentError(f"the function returns a {type_name(y)}, which has no gradient", try_="return a real number")
    if type(seed) is int and seed == 1 and (shape != () or isinstance(y, complex) or getattr(getattr(y, "dtype", None), "kind", "f") == "c"):
        raise ArgumentError(f"the function returns {type_name(y)}, no real scalar: its gradient needs a seed",
                            try_="seed= an array of that shape, or sum the output")
    if shape_of(seed) != shape:
        raise ArgumentError(f"the seed has shape {shape_of(seed)}, and the output {shape}", try_="a seed of the output's shape")
    return project(float(seed) if type(seed) is int else seed, y)


def sweep(tape: Tape, seed: Any, active: bytearray) -> list[Any]:
    """Run the reverse sweep at once on a primal tape, and return the cotangents by position.

    The same order and the same sums as `back` writes down, without the writing: what `grad` does once. Each
    cotangent is freed when it has been passed on.
    """
    cot: list[Any] = [None] * (len(tape.ops) + 1)
    assert tape.result is not None
    cot[tape.result.id] = seed
    for op in reversed(tape.ops):
        dy = cot[op.id]
        if dy is None or type(op) is not Call:
            continue
        cot[op.id] = None
        if type(dy) is Scatter:
            dy = dy.dense()
        fn, args, kwargs = op.fn, op.args, op.kwargs
        if not active[op.id]:
            continue
        if op.pb is None and type(fn) is Op and type(fn.partials) is tuple:
            y = op.val
            values = [arg.val if type(arg) in _OPERATIONS else arg for arg in args]
            for partial, arg, x in zip(fn.partials, args, values):
                if type(arg) in _OPERATIONS and active[arg.id] and partial is not None:
                    dx = partial(dy, y, *values, **kwargs)
                    if type(dx) not in _REALS or type(x) not in _REALS:
                        dx = project(dx, x)
                    known = cot[arg.id]
                    cot[arg.id] = dx if known is None else accumulate(known, dx)
            continue
        pb = op.pb if op.pb is not None else pullback_of(op)
        dxs = pb(dy)
        check_count(dxs, op)
        for i, arg in enumerate(args):
            if type(arg) in _OPERATIONS and active[arg.id]:
                dx = as_cotangent(dxs[i], arg.val)
                known = cot[arg.id]
                cot[arg.id] = dx if known is None else accumulate(known, dx)
    return cot


def as_cotangent(dx: Any, x: Any) -> Any:
    """Bring what a user's pullback returned into the form that the sweep expects."""
    if dx is None:
        return ZERO
    return project(dx, x) if is_leaf(x) and is_leaf(dx) else dx


def check_count(dxs: Any, op: Call) -> None:
    """Raise if a pullback did not return one cotangent per argument."""
    try:
        count = len(dxs)
    except TypeError:
        count = -1
    if count != len(op.args):
        got = f"{count} cotangents" if count >= 0 else f"a {type(dxs).__name__}"
        raise ArgumentError(f"the pullback of {op.fn.__name__} returned {got} for {len(op.args)} argument(s)", op.where,
                            "return a tuple with one cotangent per positional argument, ZeroTangent() where nothing flows")
