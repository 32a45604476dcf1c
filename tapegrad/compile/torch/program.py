"""program: a tape as the calls of torch that it comes down to.

NumPy's meaning, the dtypes and the axes, was worked out while the calls were recorded; what is left of an operation is one call
or a few, whose arguments are names, numbers, dtypes and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tapegrad.ops.loop import Loop
from tapegrad.tape.tape import Guard, Operation, Tape
from tapegrad.tree.flatten import ValueAndGradients


class Root:
    """One piece of memory: the values that lie in it share it. `given` is memory that is not the program's own."""

    __slots__ = ("given", "written")

    def __init__(self, given: bool = False) -> None:
        self.given, self.written = given, False


class Value:
    """A name in a program: a tensor, of a dtype, a shape and strides where they are known, or what is computed on the host.

    `hint` is what it is called where that is free.
    """

    __slots__ = ("dtype", "hint", "root", "shape", "strides")

    def __init__(self, hint: str, root: Root | None = None, tensor: Any = None) -> None:
        self.hint, self.root = hint, root or Root()
        self.dtype: Any = None if tensor is None else tensor.dtype
        self.shape: Any = None if tensor is None else tensor.shape
        self.strides: Any = None if tensor is None else tensor.stride()

    def __repr__(self) -> str:
        return self.hint


class Step:
    """One call: what it makes is `out`, a value, several, or None where it writes in place.

    `inside` says that nothing looks into it: the implementation of an operation, which may ask for numbers on the host.
    What `draws` gives other numbers each time, or is a user's function; what `writes` changes what it is given.
    """

    __slots__ = ("args", "draws", "fn", "inside", "kwargs", "op", "out", "used", "writes")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Value | tuple[Value, ...] | None,
                 op: Operation, inside: bool = False, draws: bool = False, writes: bool = False) -> None:
        self.out, self.op = out, op
        self.make(fn, args, kwargs)
        self.inside, self.draws, self.writes = inside, draws, writes

    @property
    def made(self) -> tuple[Value, ...]:
        """The values that it makes."""
        return (self.out,) if isinstance(self.out, Value) else self.out or ()

    def make(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let it make this call; `used` are the values that it is given."""
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.used: list[Value] = []
        collect((args, kwargs) if kwargs else args, self.used)


class Check(Step):
    """A fact about a value that must hold: else the program might have taken another path."""

    __slots__ = ()
    op: Guard

    def __init__(self, value: Any, op: Guard) -> None:
        super().__init__(holds, (value,), {}, None, op, inside=True)


class Repeat(Step):
    """A loop: a program run `count` times, each of which hands values on to the next; see passes.loop.

    The leaves of `body` are its inputs, the parts what it returns: the new values of what is carried, then what is collected. The arguments
    are what is given, the sequences, and the first values of what is carried; it makes the last values of those, and a list for each thing
    collected. Of what the body writes to, the first value is nobody else's.
    """

    __slots__ = ("body", "loop")

    def __init__(self, body: Program, loop: Loop, args: tuple[Any, ...], out: tuple[Value, ...], op: Operation) -> None:
        checks = any(isinstance(step, Check) or step.draws for step in body.steps)  # they are made though the results are not needed
        super().__init__(repeated, args, {}, out, op, inside=body.inside is not None, draws=checks)
        self.body, self.loop = body, loop

    @property
    def parts(self) -> tuple[list[Value], list[Value], list[Value], list[Value]]:
        """The leaves of the body: steps, given, listed, carried."""
        return self.loop.parted(self.body.leaves)


class Program:
    """The steps of a tape for one kind of arguments on one device.

    `leaves` are the values of the inputs but for the function, `parts` what the result is made of: values,
    or constants as they are; `kinds` makes Python's numbers of those that are to be.
    """

    def __init__(self, tape: Tape, device: Any) -> None:
        self.tape, self.device = tape, device
        self.leaves: list[Value] = []
        self.steps: list[Step] = []
        self.constants: dict[Value, Any] = {}
        self.parts: list[Any] = []
        self.kinds: dict[int, Callable[[Any], Any]] = {}
        self.into: Any = None
        self.layouts: Any = None  # what is asked of the memory of the arguments, where something is; see layouts.Layouts

    @property
    def checks(self) -> list[Check]:
        """The guards that are left, in order, but for those in loops."""
        return [step for step in self.steps if isinstance(step, Check)]

    @property
    def inside(self) -> Step | None:
        """The first step that nothing can look into, guards apart; None where there is none."""
        return next((step for step in self.steps if step.inside and not isinstance(step, Check)), None)

    def build(self, parts: list[Any]) -> Any:
        """Nest the parts of a result."""
        if self.into is None:
            return parts[0]
        if isinstance(self.into, ValueAndGradients):
            return parts[0], self.into.signature.gradients(parts[1:])
        return self.into.build(parts)


def holds(value: Any) -> bool:  # what checks a guard is made by what runs the program
    """Stand for a guard's check."""
    raise NotImplementedError


def repeated(*args: Any) -> None:
    """Stand for a loop."""
    raise NotImplementedError


def bodies(program: Program) -> Iterator[Program]:
    """Yield a program, and those of the loops in it."""
    yield program
    for step in program.steps:
        if isinstance(step, Repeat):
            yield from bodies(step.body)


def collect(x: Any, found: list[Value]) -> None:
    """Append the values in nested arguments to a list."""
    kind = type(x)
    if kind is Value:
        found.append(x)
    elif kind is tuple or kind is list:
        for part in x:
            collect(part, found)
    elif kind is dict:
        for part in x.values():
            collect(part, found)
    elif kind is slice:
        collect((x.start, x.stop, x.step), found)


def values_in(x: Any) -> list[Value]:
    """Return the values in nested arguments."""
    found: list[Value] = []
    collect(x, found)
    return found


def replaced(x: Any, fn: Callable[[Value], Any]) -> Any:
    """Return nested arguments with something in the place of each value."""
    kind = type(x)
    if kind is Value:
        return fn(x)
    if kind is tuple or kind is list:
        return kind([replaced(part, fn) for part in x])
    if kind is dict:
        return {key: replaced(part, fn) for key, part in x.items()}
    if kind is slice:
        return slice(*(replaced(part, fn) for part in (x.start, x.stop, x.step)))
    return x


def holds_value(x: Any) -> bool:
    """True if nested arguments are not all known before a program runs."""
    return bool(values_in(x))


def last_uses(program: Program) -> list[list[Value]]:
    """Return for each step the values that are used last there, or are made there and not used at all; leaves and constants are kept."""
    kept = {*values_in(program.parts), *program.constants, *program.leaves}
    dead: list[list[Value]] = []
    for step in reversed(program.steps):
        found = [value for value in dict.fromkeys((*step.made, *step.used)) if value not in kept]
        kept.update(found)
        dead.append(found)
    return dead[::-1]


def needed(program: Program) -> list[Step]:
    """Return the steps that the result needs, and those that write to what it needs, draw, check, or run what nothing looks into."""
    wanted: set[Value] = set(values_in(program.parts))
    roots = {value.root for value in wanted}
    found = []
    for step in reversed(program.steps):
        writes = step.writes and any(value.root in roots for value in step.used)
        if writes or isinstance(step, Check) or step.draws or any(value in wanted for value in step.made):
            found.append(step)
            used = step.used
            wanted.update(used)
            roots.update(value.root for value in used if value.root.written)
    return found[::-1]
