"""loop: a body that runs repeatedly, as one call on a tape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, ClassVar, TypeVar

from tapegrad.numbers.formatting import brief
from tapegrad.ops import pack, setitem, whole_of
from tapegrad.rules.facts import ANY
from tapegrad.tape.liveness import leading
from tapegrad.tape.spec import Spec, repeated, spec_of
from tapegrad.tape.subtape import Subtape, labelled
from tapegrad.tape.tape import Call, Input, Operation, Tape, append_copy

T = TypeVar("T")
FIRST = 3  # number of iterations whose values are printed, besides the last


class Loop(Subtape):
    """A repeated segment of a tape as one function: `count` iterations of a subtape, each of which passes values to the
    next.

    Umlaut.jl has loops on its tapes, and JAX's `lax.scan` is the same.

    The body's inputs are, in this order, the `steps` (known numbers that differ between iterations: `steps[i][k]` in
    iteration k), the `given` values (shared by all iterations), the `listed` ones (a sequence, whose element k
    iteration k gets), and the `carried` ones. The body returns the new carried values, then the values to be collected
    from each iteration. A call of a loop takes the given values, the sequences, and the first carried values; it
    returns the last carried values, and a tuple for each collected one. In `reverse`, the last iteration runs first;
    elements and collections keep their order.
    """

    differentiable, dynamic = True, False
    noun = "loop"
    player: ClassVar[Any]  # runs a loop: set by the interpreter, a higher layer
    aliases: Any = ANY  # a tuple, by result, where a backend sets it: see optimise.memory

    def __init__(self, body: Tape, count: int, steps: Sequence[tuple[Any, ...]], given: int, listed: int, carried: int,
                 reverse: bool = False) -> None:
        self.body, self.count, self.steps, self.reverse = body, count, tuple(steps), reverse
        self.sizes = (len(self.steps), given, listed, carried)
        self.__name__ = f"{count} x loop"

    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    def parts(self) -> tuple[list[Input], list[Input], list[Input], list[Input]]:
        """Return the body's inputs: steps, given, listed, carried."""
        return self.parted(self.body.inputs[1:])

    def parted(self, inputs: Iterable[T]) -> tuple[list[T], list[T], list[T], list[T]]:
        """Return the stand-ins of the body's inputs, given in their order, in those four parts."""
        xs = iter(inputs)
        steps, given, listed, carried = (list(islice(xs, size)) for size in self.sizes)
        return steps, given, listed, carried

    @property
    def runs(self) -> range:
        """The numbers of the iterations, in the order in which they run."""
        return range(self.count - 1, -1, -1) if self.reverse else range(self.count)

    def with_body(self, body: Tape) -> Loop:
        """Return a loop with another body for the same inputs and results."""
        new = Loop(body, self.count, self.steps, *self.sizes[1:], self.reverse)
        new.aliases = self.aliases
        return new

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return type(self).player(self, values)  # type: ignore[no-any-return]

    def spec(self, *_: Any) -> Spec:
        """Return the type of a call: carried and collected values have the same types in every iteration."""
        found, carried = list(map(spec_of, self.results)), self.sizes[3]
        return Spec(tuple, parts=(*found[:carried], *[repeated(tuple, x, self.count) for x in found[carried:]]))

    def misfits(self, op: Call) -> Iterator[str]:
        """Yield what does not fit in a call of the loop."""
        steps, given, listed, carried = self.sizes
        inputs, result = self.body.inputs[1:], self.body.result
        if len(inputs) != sum(self.sizes):
            yield (f"whose body has {len(inputs)} inputs, where there are {sum(self.sizes)}: steps, given, listed and "
                   "carried")
        if len(op.args) != given + listed + carried or op.kwargs:
            yield f"of {given + listed + carried} arguments, and is given {len(op.args) + len(op.kwargs)}"
        if self.count < 1 or any(len(values) != self.count for values in self.steps):
            lengths = ", ".join(str(len(values)) for values in self.steps)
            yield f"of {self.count} runs, and has steps for {lengths or 'none'}"
        if not isinstance(result, Call) or result.fn is not pack or len(result.args) < carried:
            yield f"whose body does not return a tuple of the {carried} values that it hands on"
            return
        for part in op.args[given:given + listed]:
            if isinstance(part, Operation) and part.spec.type in (tuple, list) and len(part.spec.parts) != self.count:
                yield f"of {self.count} runs, and {part.name} has {len(part.spec.parts)} elements"
        for x, new in zip(inputs[steps + given + listed:], result.args):
            was, now = (_kind(spec_of(y)) for y in (x, new))
            if was and now and was != now:
                yield f"whose body hands on {now} for {x.name}, which is {was}"

    def roles(self, args: Iterable[str]) -> dict[Input, str]:
        """Return for each input of the body where it comes from, and its value in each iteration."""
        written = iter(args)
        steps, given, listed, carried = self.parts()
        found: dict[Input, str] = {x: f"step {_each([values[k] for k in self.runs])}"
                                   for x, values in zip(steps, self.steps)}
        found |= {x: labelled("given", x, next(written)) for x in given}
        found |= {x: f"element {_each(self.runs)} of {next(written)}" for x in listed}
        return found | {x: f"carried, first {next(written)}" for x in carried}

    def returned(self, write: Callable[[Any], str]) -> str:
        """Write what an iteration passes to the next, and what is collected from each."""
        carried = self.sizes[3]
        parts = (("hand on", self.results[:carried]), ("collect", self.results[carried:]))
        return "; ".join([f"{name} {', '.join(map(write, found))}" for name, found in parts if found])


def _each(values: Any) -> str:
    """Write the first values and the last one, or the value of all.

    >>> _each(range(9, -1, -1)), _each([2.0, 2.0]), _each([0.1 * i for i in range(4)])
    ('9, 8, 7 ... 0', '2.0', '0.0, 0.1, 0.2, 0.3')
    """
    if all(a == b for a, b in pairwise(values)):
        return _number(values[0])
    if len(values) <= FIRST + 1:
        return ", ".join(map(_number, values))
    return f"{', '.join(map(_number, values[:FIRST]))} ... {_number(values[-1])}"


def _number(x: Any) -> str:
    return brief(float(f"{x:.6g}")) if type(x) is float else brief(x)


class Runs:
    """The iterations of a loop with some arguments: what each is given, passes to the next, and collects."""

    def __init__(self, loop: Loop, args: Sequence[Any]) -> None:
        _, given, listed, _ = loop.sizes
        self.steps, self.same, self.listed = loop.steps, args[:given], args[given:given + listed]
        self.now = list(args[given + listed:])
        self.collected: list[list[Any]] = [[None] * loop.count for _ in loop.results[len(self.now):]]

    def given(self, k: int) -> list[Any]:
        """Return the stand-ins of the body's inputs, in their order, in iteration `k`."""
        return [*[step[k] for step in self.steps], *self.same, *[part[k] for part in self.listed], *self.now]

    def add(self, k: int, made: Sequence[Any]) -> None:
        """Store what iteration `k` returns."""
        for part, y in zip(self.collected, made[len(self.now):]):
            part[k] = y
        self.now = list(made[:len(self.now)])

    @property
    def result(self) -> tuple[Any, ...]:
        """The results of the loop."""
        return (*self.now, *map(tuple, self.collected))


def is_loop(op: Any) -> bool:
    """True for the call of a loop."""
    return type(op) is Call and type(op.fn) is Loop


def range_of(values: Sequence[Any]) -> range | None:
    """Return a range of the same integers in their order; None if they are no integers, or not evenly spaced."""
    apart = values[1] - values[0] if len(values) > 1 and all(type(value) is int for value in values) else 0
    if not apart or any(b - a != apart for a, b in pairwise(values)):
        return None
    return range(values[0], values[-1] + (1 if apart > 0 else -1), apart)


def taken(ops: Iterable[Operation]) -> defaultdict[Operation, set[int]]:
    """Return for each loop the numbers of its results that some operations take."""
    found: defaultdict[Operation, set[int]] = defaultdict(set)
    for op in ops:
        for arg in filter(is_loop, op.args):
            found[arg].update([op.args[1]] if whole_of(op) is arg else range(len(arg.fn.results)))
    return found


def live(loop: Loop, taken: Iterable[int], stops: Sequence[Operation] = ()) -> tuple[set[int], bytearray]:
    """Return the numbers of the results on which the `taken` ones and `stops` depend, in the last iteration or an
    earlier one, and by position the operations of the body on which they depend.
    """
    found = set(taken)
    while True:
        leads = leading(loop.body.ops, [*stops, *[loop.results[j] for j in found]])
        more = {j for j, x in enumerate(loop.parts()[3]) if leads[x.id]} - found
        if not more:
            return found, leads
        found |= more


def written(loop: Loop) -> set[Operation]:
    """Return the carried inputs that the body writes to."""
    carried = loop.parts()[3]
    found: set[Operation] = set()
    for op in loop.body.ops:
        root: Any = op
        while isinstance(root, Call) and root.fn is setitem:
            root = root.args[0]
        if root is not op and root in carried:
            found.add(root)
    return found


def put(body: Tape, op: Operation, at: dict[Operation, Any]) -> Operation:
    """Append a copy of an operation to a body, without its origin."""
    new = append_copy(body, op, at)
    new.origin = None
    return new


def step_label(number: int) -> str:
    """Return the label of a body's input for a number that differs by iteration, and is the same in every replay."""
    return f"step{number}"


def given_label(label: str) -> str:
    """Return the label of a body's input that is given from outside, distinct from those of steps."""
    return f"given_{label}" if label.startswith("step") else label


def steps_of(tape: Tape) -> list[Input]:
    """Return the inputs of a body that are steps; none of another tape."""
    return [x for x in tape.inputs if x.label.startswith("step")] if tape.structure is None else []


def _kind(x: Spec) -> str:
    """Return what a value must be in all iterations: an array's type, one kind for all numbers, empty if unknown."""
    return "" if isinstance(x.type, str) else str(x) if x.shape else "a number"
