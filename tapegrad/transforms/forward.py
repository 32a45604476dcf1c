"""forward: beside each operation its tangent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, TapeError
from tapegrad.numbers.cotangents import ZERO, Absorbing, conform, dtype_of, project, shape_of
from tapegrad.numbers.formatting import brief, plain, type_name
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.numbers.view_path import assign
from tapegrad.ops import astype, getfield, is_complex, pack, setitem
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import Traced
from tapegrad.rules.user import op_of
from tapegrad.tape.error_context import failed
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, operands, value_of
from tapegrad.trace import proxy
from tapegrad.trace.context import DEFAULT, Tracer
from tapegrad.trace.random_state import Found
from tapegrad.trace.replacement import interposition
from tapegrad.trace.tracer import collector, flatten_call, put_result, record
from tapegrad.transforms.checkpoint import again
from tapegrad.transforms.primal_copy import Scalars, copy_primal
from tapegrad.transforms.primitivize import flattened
from tapegrad.transforms.tangents import settled, tangent
from tapegrad.transforms.unroll import unroll
from tapegrad.transforms.walk import Walk
from tapegrad.tree.flatten import Structure, flatten, is_leaf, leaves_of


def jvp(f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return the value of `f(*args)` and its tangent: the derivative along `tangents`, one for each
    argument, nested as that is.

    A tangent has its argument's shape, or is None: that argument, or part of it, is held constant, as is what `f`
    captured. The tangent of the value is nested as the value is, with its shapes and dtypes; None for a bool. One pass
    over what `f` computes, at about its cost. For complex numbers it is the derivative of the real and imaginary parts.
    Raises ArgumentError for a tangent of another shape or nesting.

    >>> jvp(lambda a, b: a / (a + b * b), (2.0, 3.0), (1.0, None))
    (0.18181818181818182, 0.0743801652892562)
    """
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"the arguments are {brief(args)}", None, "a tuple of all arguments: tg.jvp(f, (x,), (dx,))")
    with collector:
        tape = record(f, tuple(args), {}, DEFAULT, grad=True, replays=False)
        return tape.result.val, Push(tape)(*_listed(tangents))  # type: ignore[union-attr]


def linearize(f: Callable[..., Any], /, *args: Any) -> tuple[Any, Push]:
    """Return the value of `f(*args)` and a function from tangents, one for each argument, to the tangent of the value.

    `f` runs once; the function may be called often, at the cost of a pass over the tape. It takes and
    returns what `jvp` does.

    >>> value, push = linearize(lambda a, b: a * b, 2.0, 3.0)
    >>> value, push(1.0, 0.0), push(1.0, 1.0)
    (6.0, 3.0, 5.0)
    """
    # on copies: what the caller writes to an array before the tangents come must not change the result
    tape = record(f, args, {}, DEFAULT, grad=True, copy=True, replays=False)
    return tape.result.val, Push(tape)  # type: ignore[union-attr]


def forwardtape(f: Callable[..., Any] | Tape, /, *args: Any, **kwargs: Any) -> Tape:
    """Return the tape that computes the value and its tangent: `play(*args, *tangents)` gives what `jvp` gives.

    Beside each operation stands its tangent; its note says of what. `f` may be a tape, as traced or edited by hand, or
    a gradient tape: then its arguments are those on the tape. Loops are unrolled.

    >>> tape = forwardtape(lambda a, b: a * b, 2.0, 3.0)
    >>> tape.play(4.0, 5.0, 1.0, 0.0)
    (20.0, 5.0)
    """
    tape = flattened(f) if isinstance(f, Tape) else record(f, args, kwargs, DEFAULT, found=Found(f, args, kwargs))
    return _forward(unroll(tape))


def _listed(tangents: Any) -> tuple[Any, ...]:
    if not isinstance(tangents, (tuple, list)):
        raise ArgumentError(f"the tangents are {brief(tangents)}", None, "a tuple with one for each argument, None for one that is constant")
    return tuple(tangents)


class Push:
    """A function from tangents of a tape's arguments to that of its value, which sweeps the tape forwards."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __call__(self, *tangents: Any) -> Any:
        return self.along(given(self._tape, tangents))

    def along(self, known: dict[int, Any]) -> Any:
        """Return the tangent of the value for tangents of inputs by their positions on the tape."""
        tape = self._tape
        pass_ = Pass(tape, dict(known))
        last = last_uses(tape, tape.result.args)  # type: ignore[union-attr]
        for op in tape.ops:
            pass_.dying = last[op.id]
            pass_.step(op)
            for dead in pass_.dying:
                pass_.known.pop(dead, None)
                pass_.owned.pop(dead, None)
        return nested(tape.result, pass_.known)

    def __repr__(self) -> str:
        return f"<the derivative of {self._tape.name or 'a tape'}>"


def given(tape: Tape, tangents: Sequence[Any]) -> dict[int, Any]:
    """Return the tangents of a tape's inputs, by position; raise ArgumentError where one does not fit."""
    known: dict[int, Any] = {}
    parts = tape.structure.args
    if len(tangents) != len(parts):
        raise ArgumentError(f"there are {len(tangents)} tangents for {len(parts)} arguments", None, "one for each, None for one that is constant")
    inputs = tape.inputs
    for number, (structure, value) in enumerate(zip(parts, tangents), 1):
        try:
            found = structure.unmirror(value)
        except ArgumentError as err:
            raise ArgumentError(f"the tangent of argument {number} is nested otherwise than that: {err.what}", None, err.try_) from err
        for x, t in zip(inputs[structure.start + 1:], found):
            if t is not None and not isinstance(t, Absorbing):
                known[x.id] = fitted(t, x)
    return known


def fitted(t: Any, x: Input) -> Any:
    """Return a tangent as one of an input: of its shape and precision."""
    name, val = x.label or x.name, x.val
    if not has_gradient(val):
        raise ArgumentError(f"{name} is a {type_name(val)}, which has no tangent", None, "None as its tangent")
    t = np.asarray(t, complex if is_complex(val) else float) if isinstance(t, (list, tuple)) else float(t) if isinstance(t, int) else t
    if not is_leaf(t):
        raise ArgumentError(f"the tangent of {name} is {brief(t)}, and {name} a {type_name(val)}", None, "a tangent of its shape, or None")
    if shape_of(t) != shape_of(val):
        raise ArgumentError(f"the tangent of {name} has shape {shape_of(t)}, and {name} {shape_of(val)}", None, "a tangent of its shape, or None")
    if is_complex(t) and not is_complex(val):
        raise ArgumentError(f"the tangent of {name} is complex, and {name} is real", None, "a real tangent")
    t = unwrap(project(wrap(t), wrap(val))) if is_tensor(plain(val)) else t
    return settled(astype(t, dtype=np.dtype(float)) if getattr(dtype_of(t), "kind", "f") in "biu" else t, val)


class Pass:
    """What the tangents of a tape's operations are, while a pass goes over it: `known` by position, those that
    nothing is known of are zero.

    An array that it alone holds is written in place: a loop that fills one costs O(n).
    """

    def __init__(self, tape: Tape, known: dict[int, Any]) -> None:
        self.tape, self.known = tape, known
        self.owned: dict[int, Any] = {}
        self.dying: Sequence[int] = ()  # what no operation after this one uses

    def step(self, op: Operation) -> None:
        """Find the tangent of an operation from those before it."""
        if type(op) is not Call or not any(isinstance(arg, Operation) and arg.id in self.known for arg in op.args):
            return
        known = self.known
        ts = [known.get(arg.id) if isinstance(arg, Operation) else None for arg in op.args]
        if op.fn is pack:
            into = op.kwargs["into"]
            for arg in op.args:
                self.owned.pop(getattr(arg, "id", 0), None)  # the nest holds it
            parts = [ZERO if t is None else t for t in ts]
            found = into.mirror(parts) if isinstance(into, Structure) else tuple(parts)
        elif op.fn is getfield:
            key = op.args[1]
            whole: Any = ts[0]
            found = whole.get(key) if isinstance(whole, dict) else whole[key]
            found = None if isinstance(found, Absorbing) else found
        else:
            found = self._of_call(op, ts)
        if found is not None:
            known[op.id] = found

    def _of_call(self, op: Call, ts: list[Any]) -> Any:
        if type(op.fn) is Checkpoint:
            return self._inside(op.fn, op, ts)
        fn = op_of(op.fn)
        if not fn.differentiable:
            return None
        try:
            if fn is setitem and (made := self._written(op, ts)) is not None:
                return made
            found = tangent(fn, op.val, tuple(map(value_of, op.args)), op.kwargs, ts, op.pb)
        except TapeError as err:  # refused by a rule: the line is that of the call
            raise type(err)(err.what, op.where or err.where, err.try_) from err.__cause__
        except Exception as err:
            raise failed(self.tape, op, err) from err
        if self.owned and type(found) is np.ndarray and any(np.may_share_memory(found, self.owned[arg.id]) for arg in op.args
                                                            if isinstance(arg, Operation) and arg.id in self.owned):
            found = found.copy(order="K")  # what it was read from may be written to
        if fn is setitem and type(found) is np.ndarray:
            self.owned[op.id] = found
        return found

    def _inside(self, checkpoint: Checkpoint, op: Call, ts: list[Any]) -> tuple[Any, ...]:
        """Return the tangents of a checkpoint's results: its body is computed again, beside the tangents in it."""
        tape = again(checkpoint, op.val, list(map(value_of, op.args)))
        inner = Pass(tape, {x.id: t for x, t in zip(tape.inputs[1:], ts) if t is not None})
        for each in tape.ops:
            if each is not tape.result:
                inner.step(each)
        found = [inner.known.get(part.id) if isinstance(part, Operation) else None for part in tape.result.args]  # type: ignore[union-attr]
        return tuple([ZERO if t is None else t for t in found])

    def _written(self, op: Call, ts: list[Any]) -> Any:
        """Write into the tangent of an array that nothing else needs, where that is so."""
        x = op.args[0]
        if not isinstance(x, Operation) or x.id not in self.dying or x.id not in self.owned:
            return None
        index = tuple(map(value_of, op.args[2:]))
        value = 0.0 if len(ts) < 2 or ts[1] is None else ts[1]
        if any(isinstance(part, Traced) for part in (value, *index)):
            return None
        array = self.owned.pop(x.id)
        assign(array, value, index, op.kwargs.get("through", ()))
        self.owned[op.id] = array
        return array


def nested(result: Any, known: dict[int, Any]) -> Any:
    """Return the tangent of a tape's result from those of its operations, nested as that is:
    zeros where nothing flowed.
    """
    if type(result) is not Call or result.fn is not pack:
        return _dense(known.get(result.id), result.val)
    parts = [_dense(known.get(arg.id) if isinstance(arg, Operation) else None, value_of(arg)) for arg in result.args]
    into = result.kwargs["into"]
    return into.mirror(parts) if isinstance(into, Structure) else (parts[0], into.signature.gradients(parts[1:]))


def _dense(t: Any, y: Any) -> Any:
    """Return a tangent as the caller has it: in memory of its own, nested as the value is, zeros for none."""
    if y is None:
        return None
    if not is_leaf(y):
        leaves: list[Any] = []
        structure = flatten(y, "", leaves, [], shared=False)
        return structure.mirror(list(map(_dense, structure.unmirror(t), leaves)))
    if isinstance(t, Traced):
        return t
    return conform(ZERO if t is None or isinstance(t, Absorbing) else t, plain(y))


# -- the tape of both


def _forward(tape: Tape) -> Tape:
    """Copy a flat tape, and put beside each operation its tangent."""
    tape, seeds = _with_tangents(tape)
    new = tape.blank()
    tracer = Scalars(new, DEFAULT, proxy.make)
    leave = interposition.enter(tracer, (), ())
    pass_ = Pass(tape, {})
    packed: list[Operation] = []

    def then(seen: Operation) -> None:
        mark = len(new.ops)
        if type(seen) is Call and seen.fn is pack and tape[seen.id] is tape.result:
            packed.append(new.ops[-1])
        if type(seen) is Input and seen.id in seeds:  # the input of a tangent: of the one that it belongs to
            pass_.known[seeds[seen.id]] = seen.val
        else:
            pass_.step(seen)
        if len(new.ops) > mark:
            _keep(tracer, mark, pass_.known.get(seen.id))
        name = seen.val._op.name if isinstance(seen.val, Traced) else seen.name
        for made in new.ops[mark:]:
            made.code, made.lasti, made.note = seen.code, seen.lasti, f"tangent of {name}"

    with collector:
        try:
            shadow = copy_primal(tape, new, tracer, _no_loop, then=then)
            result = shadow.result
            assert result is not None
            mark = len(new.ops)
            put_result(new, tracer, (result.val, nested(result, pass_.known)))
            for op in packed:  # the nest is another now
                new.delete(op)
            for made in new.ops[mark:]:
                made.code = None  # no line of the program's
        finally:
            tracer.close()
            leave()
    new.check()
    return new


def _no_loop(*args: Any) -> Any:
    raise ArgumentError("a tape with loops has no forward tape", None, "tg.unroll(tape)")


def _keep(tracer: Tracer, mark: int, found: Any) -> None:
    """Drop what was recorded from `mark` on and leads to nothing: what a pullback computed of
    no matter which cotangent.
    """
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
    # what is dropped is recorded anew
    tracer.constants = {key: known for key, known in tracer.constants.items() if known[1] in new}
    tracer.guarded = {(at, fact) for at, fact in tracer.guarded if at <= mark} | {(op.args[0].id, op.fact) for op in kept if isinstance(op, Guard)}


def _with_tangents(tape: Tape) -> tuple[Tape, dict[int, int]]:
    """Return a copy of a tape with an input for the tangent of each input that has one, and
    by its position, of which.
    """
    structure = tape.structure
    inputs = tape.inputs
    end = len(inputs) if structure is None else 1 + sum(part.size for part in structure.parts)
    start = 1 if structure is None else 1 + structure.function.size
    wrt = [x for x in inputs[start:end] if has_gradient(x.val)]
    made = {x: Input(_unit(x.val), f"t{x.label}", f"tangent of {x.name}") for x in wrt}
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


def _unit(x: Any) -> Any:
    """Return the tangent with which a tape is recorded: ones."""
    return conform(1.0, plain(x))
