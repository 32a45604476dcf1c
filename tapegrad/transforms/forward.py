"""forward: forward mode, with the tangent of each operation beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import ZERO, Absorbing, conform, dtype_of, project, shape_of
from tapegrad.numbers.formatting import brief, count_of, plain, type_name
from tapegrad.numbers.systems import as_objects, kind_within
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import astype, is_complex, pack
from tapegrad.ops.loop import is_loop
from tapegrad.replay.interpreter import fill
from tapegrad.rules.activity import activity, has_gradient
from tapegrad.rules.op import Traced
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Input, Operation, Tape, value_of
from tapegrad.trace import proxy
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.conversions import of_type
from tapegrad.trace.inputs import flatten_call
from tapegrad.trace.random_state import Found
from tapegrad.trace.recording import recording
from tapegrad.trace.results import put_result, returned_copy
from tapegrad.trace.tracer import record
from tapegrad.trace.write_back import settle
from tapegrad.transforms.grad import gradients_of
from tapegrad.transforms.loop_tangent import beside
from tapegrad.transforms.loop_types import NoLoop
from tapegrad.transforms.primal_copy import ScalarTracer
from tapegrad.transforms.primitivize import flattened
from tapegrad.transforms.seed import pair_of
from tapegrad.transforms.tangent_pass import Pass
from tapegrad.transforms.tangents import settled
from tapegrad.transforms.unroll import unroll
from tapegrad.transforms.walk import Walk
from tapegrad.transforms.watched import context
from tapegrad.tree.argnums import Wanted
from tapegrad.tree.flatten import BOOLS, Structure, flatten, is_leaf
from tapegrad.tree.nodes import Static
from tapegrad.tree.seeds import is_nothing


def jvp(f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """Return the value of `f(*args)` and its tangent: the derivative along `tangents`, one for each argument and nested
    like it.

    A tangent has its argument's shape, or is None for an argument, or a part of one, that is held constant; what `f`
    captured is constant too. The tangent of the value has the value's nesting, shapes and dtypes; it is None for a
    bool. One pass over the operations of `f`, at about their cost. A complex number is differentiated by its real and
    imaginary parts. With `has_aux` the function returns a pair, whose first part is differentiated: `(value, tangent,
    aux)`. Raises ArgumentError for a tangent of another shape or nesting.

    >>> jvp(lambda a, b: a / (a + b * b), (2.0, 3.0), (1.0, None))
    (0.18181818181818182, 0.0743801652892562)
    """
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"the arguments are {brief(args)}", None,
                            "pass a tuple of all arguments: tg.jvp(f, (x,), (dx,))")
    with collector:
        tape = record(f, tuple(args), {}, context(), grad=True, wanted=Wanted(captured=False), replays=False)
        value, aux = tape.result.val, None
        if has_aux:
            value, aux = pair_of(value)
        tangent = Push(tape)(*_listed(tangents))
        settle(tape)
        return (value, tangent[0], aux) if has_aux else (value, tangent)


def linearize(f: Callable[..., Any], /, *args: Any) -> tuple[Any, Push]:
    """Return the value of `f(*args)` and a function from tangents, one for each argument, to the tangent of the value.

    `f` runs once; each call of the function costs one pass over the tape. It takes and returns tangents as `jvp` does.

    >>> value, push = linearize(lambda a, b: a * b, 2.0, 3.0)
    >>> value, push(1.0, 0.0), push(1.0, 1.0)
    (6.0, 3.0, 5.0)
    """
    # on copies: a later write of the caller to an array must not change the tangents
    tape = record(f, args, {}, context(), grad=True, copy=True, wanted=Wanted(captured=False), replays=False)
    settle(tape)
    return returned_copy(tape), Push(tape)


def both_ways(f: Callable[..., Any], /, *args: Any) -> tuple[Any, Push, Callable[[Any], Any]]:
    """Return the value of `f(*args)`, the function that pushes tangents forward (see `linearize`), and the pullback to
    the first argument: `f` runs once.
    """
    tape = record(f, args, {}, context(), grad=True, copy=True, wanted=Wanted(0, False), replays=False)
    settle(tape)
    return tape.result.val, Push(tape), lambda seed: gradients_of(tape, seed)


def forwardtape(f: Callable[..., Any] | Tape, /, *args: Any, **kwargs: Any) -> Tape:
    """Return the tape that computes the value and its tangent: `play(*args, *tangents)` gives what `jvp` gives.

    Each operation is followed by its tangent, whose note names it. `f` may be a tape, traced or edited by hand, or a
    gradient tape: its inputs are the arguments then. A loop becomes one over pairs of values and tangents; where that
    is impossible, because a rule reads values, loops are unrolled.

    >>> tape = forwardtape(lambda a, b: a * b, 2.0, 3.0)
    >>> tape.play(4.0, 5.0, 1.0, 0.0)
    (20.0, 5.0)
    """
    tape = flattened(f) if isinstance(f, Tape) else record(f, args, kwargs, DEFAULT, found=Found(f, args, kwargs))
    if isinstance(f, Tape):
        activity(tape, {*range(1, len(tape.inputs))} - _given_up(tape))  # raises where a tangent would be lost
    try:
        found = _forward(fill(tape) if any(map(is_loop, tape.ops)) else tape)
    except NoLoop:
        found = _forward(unroll(tape))
    settle(tape)
    return found


def _listed(tangents: Any) -> tuple[Any, ...]:
    if not isinstance(tangents, (tuple, list)):
        raise ArgumentError(f"the tangents are {brief(tangents)}", None,
                            "pass a tuple with one for each argument, None for a constant one: tg.jvp(f, (x,), (dx,))")
    return tuple(tangents)


class Push:
    """A function from tangents of a tape's arguments to the tangent of its value, by one forward pass."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __call__(self, *tangents: Any) -> Any:
        return self.along(given(self._tape, tangents))

    def along(self, known: dict[int, Any]) -> Any:
        """Return the tangent of the value from tangents of inputs, keyed by position on the tape."""
        pass_ = Pass(self._tape, dict(known))
        deque(pass_.over(), 0)
        return nested(self._tape.result, pass_.known)

    def __repr__(self) -> str:
        return f"<the derivative of {self._tape.name or 'a tape'}>"


def given(tape: Tape, tangents: Sequence[Any]) -> dict[int, Any]:
    """Return the tangents of a tape's inputs by position; raise ArgumentError for one that does not fit."""
    known: dict[int, Any] = {}
    parts = tape.structure.args
    if len(tangents) != len(parts):
        raise ArgumentError(f"{count_of(len(tangents), 'tangent')} for {count_of(len(parts), 'argument')}", None,
                            "pass one for each, None for a constant one")
    inputs, given_up = tape.inputs, _given_up(tape)
    for number, (structure, value) in enumerate(zip(parts, tangents), 1):
        try:
            found = structure.unmirror(value)
        except ArgumentError as err:
            raise ArgumentError(f"the nesting of the tangent of argument {number} differs from the argument's: "
                                f"{err.what}", None,
                                err.try_) from err
        if type(structure.spec) is Static and type(structure.spec.value) in BOOLS and not is_nothing(value):
            raise _no_tangent(f"argument {number}", structure.spec.value)
        for x, t in zip(inputs[structure.start + 1:], found):
            if t is not None and not isinstance(t, Absorbing):
                if x.id - 1 in given_up:
                    raise ArgumentError(f"{x.label or x.name} is used as a plain number, which has no tangent", None,
                                        "None as its tangent")
                known[x.id] = fitted(t, x)
    return known


def _no_tangent(name: str, val: Any) -> ArgumentError:
    return ArgumentError(f"{name} is a {type_name(val)}, which has no tangent", None, "None as its tangent")


def fitted(t: Any, x: Input) -> Any:
    """Return a tangent of an input, checked against its shape and converted to its precision."""
    name, val = x.label or x.name, x.val
    if not has_gradient(val):
        raise _no_tangent(name, val)
    t = (np.asarray(t, complex if is_complex(val) else float) if isinstance(t, (list, tuple)) else float(t)
         if isinstance(t, int) else t)
    cure = f"{f'an array of shape {shape_of(val)}' if shape_of(val) else 'a number'}, or None if it is constant"
    if not is_leaf(t):
        raise ArgumentError(f"the tangent of {name} is {brief(t)}, but {name} is a {type_name(val)}", None,
                            cure)
    if shape_of(t) != shape_of(val):
        raise ArgumentError(f"the tangent of {name} has shape {shape_of(t)}, but {name} has {shape_of(val)}", None,
                            cure)
    if is_complex(t) and not is_complex(val):
        raise ArgumentError(f"the tangent of {name} is complex, but {name} is real", None, "a real tangent")
    t = unwrap(project(wrap(t), wrap(val))) if is_tensor(plain(val)) else t
    if kind_within(plain(val)) is not None:
        return t if isinstance(t, Traced) else as_objects(np.array(t, object), val)
    return settled(astype(t, dtype=np.dtype(float)) if getattr(dtype_of(t), "kind", "f") in "biu" else t, val)


def nested(result: Any, known: dict[int, Any]) -> Any:
    """Return the tangent of a tape's result, nested like it, from those of its operations; zeros where none flow."""
    if result.fn is not pack:
        return _dense(known.get(result.id), result.val)
    parts = [_dense(known.get(arg.id) if isinstance(arg, Operation) else None, value_of(arg)) for arg in result.args]
    into = result.kwargs["into"]
    return into.mirror(parts) if isinstance(into, Structure) else (parts[0], into.signature.gradients(parts[1:]))


def _dense(t: Any, y: Any) -> Any:
    """Return a tangent for the caller: in memory of its own, nested like the value, zeros for None."""
    if y is None:
        return None
    if not is_leaf(y):
        leaves: list[Any] = []
        structure = flatten(y, "", leaves, [], shared=False)
        return structure.mirror(list(map(_dense, structure.unmirror(t), leaves)))
    if isinstance(t, Traced):
        return of_type(t, y)
    return conform(ZERO if t is None or isinstance(t, Absorbing) else t, plain(y))


# -- the tape of both


def _forward(tape: Tape) -> Tape:
    """Copy a flat tape, and put the tangent of each operation behind it."""
    tape, seeds = _with_tangents(tape)
    new = tape.blank()
    tracer = ScalarTracer(new, DEFAULT, proxy.make)
    with recording(tracer):
        shadow, pass_, packed = beside(tape, seeds, new, tracer)
        result = shadow.result
        mark = len(new.ops)
        put_result(new, tracer, (result.val, nested(result, pass_.known)))
        for op in packed:  # the nest of values and tangents replaces it
            new.delete(op)
        for made in new.ops[mark:]:
            made.code = None  # belongs to no line of the program
    new.check()
    return new


def _with_tangents(tape: Tape) -> tuple[Tape, dict[int, int]]:
    """Return a copy of a tape with a tangent input for each input that has one, and a dict from the positions of the
    tangent inputs to those of the inputs.
    """
    structure = tape.structure
    inputs = tape.inputs
    end = len(inputs) if structure is None else 1 + sum(part.size for part in structure.parts)
    start = 1 if structure is None else 1 + structure.function.size
    given_up = _given_up(tape)
    wrt = [x for x in inputs[start:end] if has_gradient(x.val) and x.id - 1 not in given_up]
    made = {x: Input(_unit(x.val), f"t{x.label}", Origin("tangent", x.id)) for x in wrt}
    walk = Walk(tape)
    for op in tape.ops:
        walk.keep(op)
        if op is inputs[end - 1]:
            for x in made.values():
                walk.new.ops.append(x)
                x.id = len(walk.new.ops)
    new = walk.done()
    if structure is not None:
        leaves = [x.val for x in inputs[1:]]
        args = [part.build(leaves) for part in structure.args]
        units: list[Any] = [made[x].val if x in made else None for x in inputs[1:]]
        nests = [part.mirror(units) for part in structure.args]
        kwargs = {key: part.build(leaves) for key, part in structure.kwargs.items()}
        new.structure = flatten_call(structure.fn, (*args, *nests), kwargs)[0]
    return new, {made[x].id: walk.at[x.id].id for x in wrt}


def _given_up(tape: Tape) -> set[int]:
    """Return the positions of the inputs that the program took as plain numbers."""
    return set() if tape.structure is None else {index + 1 for index in tape.structure.given_up}


def _unit(x: Any) -> Any:
    """Return the tangent that is used while a tape is recorded: ones."""
    return conform(1.0, plain(x))
