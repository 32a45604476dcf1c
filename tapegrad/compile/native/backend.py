"""backend: NumPy's tapes as machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import ops
from tapegrad.compile.argument_source import Unpacked, nested, nested_gradients
from tapegrad.compile.backend import BACKENDS, Backend, last_uses_told, unfolded
from tapegrad.compile.native.entry import compile_leaves
from tapegrad.compile.native.function import Function, Refused
from tapegrad.compile.native.guards import Guards
from tapegrad.compile.native.machine import Code, machine, shared_function
from tapegrad.compile.native.values import Object
from tapegrad.compile.numpy.blocked_executor import Blocks
from tapegrad.compile.numpy.function import Miss, compile_tape, passed
from tapegrad.compile.numpy.fusion import fuse
from tapegrad.compile.numpy.memory_plan import is_known
from tapegrad.compile.source_names import Names
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.errors import ArgumentError
from tapegrad.ops.fused import Fused
from tapegrad.optimise.pipeline import Pass
from tapegrad.replay.random_state import sources_of
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.tree.nodes import Leaf, Static
from tapegrad.tree.signature import ValueAndGradients


class Native(Backend):
    """The backend that runs tapes as machine code."""

    price = (3e-3, 3e-4)
    decided: tuple[Tape | None, bool] = None, False

    def decide(self, tape: Tape) -> bool:
        """Return whether a tape is to become native code, and keep that in mind."""
        if self.decided[0] is not tape:
            self.decided = tape, pays(tape)
        return self.decided[1]

    def function(self, tape: Tape, fresh: Any = None) -> Callable[..., Any]:
        """Return a finished tape as a function."""
        if not self.decide(tape):
            return compile_tape(tape, fresh=None if fresh is None else native_fresh(fresh))
        return NativeFunction.made(tape, fresh)  # type: ignore[no-any-return]


def native_fresh(fresh: Freshness) -> Callable[[], bool]:
    """Return a freshness as machine code."""
    guards = Guards(fresh)
    return shared_function("tapegrad_is_fresh", (guards.table, guards.ask))  # type: ignore[no-any-return]


def pays(tape: Tape) -> bool:
    """True for a tape of which more calls become native code than stay in Python.

    One that draws random numbers, or runs the user's code, stays there: no call of these is made twice.
    """
    tape.check()
    if sources_of(tape) or any(isinstance(op, Call) and op is not tape.result and not is_known(op.fn)
                               for op in tape.ops) or any(type(getattr(op, "fn", None)) is Fused for op in tape.ops):
        return False
    refused: set[Operation] = set()
    while True:
        written = Function(tape, refused)
        written.env |= {x: Object("null", None) for x in tape.inputs}
        try:
            for op in tape.ops:
                if not (op is tape.result and isinstance(op, Call) and op.fn is ops.pack):
                    written.operation(op)
            return written.gained > written.left
        except Refused as err:
            refused.add(err.args[0])


class Part:
    """A part of a result, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number


class NativeFunction:
    """A tape as machine code: `source` is the straight-line Python that answers where native code leaves, `ir` LLVM's
    text.
    """

    tape: Tape
    _code: Code
    _straight: Straight

    @staticmethod
    def made(tape: Tape, fresh: Callable[[], bool] | None) -> Any:
        """Compile a tape. Each has a class of its own, whose `__call__` is the machine code."""
        straight = Straight(tape, fresh)
        nest = nest_of(tape)
        if is_flat(tape) and nest is not None:
            call, code = compile_leaves(tape, straight, fresh, nest)
        else:
            call, code = around(tape, straight, fresh)
        new: NativeFunction = object.__new__(type("NativeFunction", (NativeFunction,), {"__call__": call}))
        new.tape, new._code, new._straight, new.__name__ = tape, code, straight, tape.name  # type: ignore[attr-defined]
        return new

    @property
    def ir(self) -> str:
        """LLVM's text."""
        return self._code.text

    @property
    def source(self) -> str:
        """The straight-line Python."""
        return self._straight.function.source  # type: ignore[no-any-return]


class Straight:
    """The straight-line function of a tape, compiled when it is first called."""

    def __init__(self, tape: Tape, fresh: Callable[[], bool] | None) -> None:
        self.tape, self.fresh, self._function = tape, fresh, None

    @property
    def function(self) -> Any:
        """The function."""
        if self._function is None:
            self._function = compile_tape(self.tape, fresh=self.fresh)  # type: ignore[assignment]
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def parts_of(tape: Tape) -> int:
    """Return of how many parts a tape's result is made."""
    result = tape.result
    return len(result.args) if isinstance(result, Call) and result.fn is ops.pack else 1


def nest_of(tape: Tape) -> Any:
    """Return how the parts of a tape's result are nested, by their numbers; None where that is not in tuples alone."""
    result = tape.result
    if not (isinstance(result, Call) and result.fn is ops.pack):
        return 0
    into, parts = result.kwargs["into"], [Part(number) for number in range(len(result.args))]
    try:
        found = (parts[0], into.signature.gradients(parts[1:])) if isinstance(into, ValueAndGradients) \
            else into.build(parts)
        return _numbered(found)
    except (TypeError, ValueError, AttributeError):
        return None


def _numbered(x: Any) -> Any:
    if isinstance(x, Part):
        return x.number
    if type(x) is tuple:
        return tuple(map(_numbered, x))
    if x is None:
        return None
    raise TypeError(x)


def is_flat(tape: Tape) -> bool:
    """True where each argument of a call is a leaf, and the function captured nothing."""
    structure = tape.structure
    return structure is None or (isinstance(structure.function.spec, Static) and not structure.kwargs
                                 and all(isinstance(part.spec, Leaf) for part in structure.args))


def around(tape: Tape, straight: Straight, fresh: Any) -> tuple[Any, Code]:
    """Return native code with a function of Python's around it, which takes arguments apart and nests results."""
    names, count = Names(lambda value: None), parts_of(tape)
    leaves = [names.fresh(x.label or "f") for x in tape.inputs[1:]]
    unpacked = Unpacked(tape, leaves, names.bind, "raise miss()")
    call, code = compile_leaves(tape, lambda *leaves: NotImplemented, None, tuple(range(count)))
    result, parts = tape.result, [f"_found_[{number}]" for number in range(count)]
    text = parts[0]
    if isinstance(result, Call) and result.fn is ops.pack:
        into = result.kwargs["into"]
        text = (f"({parts[0]}, {nested_gradients(into.signature, parts[1:], names.bind)})"
                if isinstance(into, ValueAndGradients) else nested(into, parts, names.bind, mirror=False))
    lines = [f"def compiled({unpacked.parameters}):", *["if not fresh(): raise miss()"] * (fresh is not None),
             *unpacked.lines, f"_found_ = _native_({', '.join(leaves)})",
             f"return _straight_({passed(unpacked.parameters)}) if _found_ is NotImplemented else {text}"]
    space = {**names.objects, "_native_": call, "_straight_": straight, "fresh": fresh,
             "miss": lambda: Miss(tape, None)}
    exec("\n    ".join(lines), space)
    return staticmethod(space["compiled"]), code


def native(device: Any, mode: str, passes: Sequence[Pass]) -> Backend:
    """Return the backend of machine code. Raises ArgumentError where there can be none."""
    if device is not None:
        raise ArgumentError(f"machine code has no device {device!r}", None, 'backend="torch"')
    machine()

    def finish(tape: Tape) -> Tape:
        best = last_uses_told(unfolded(tape, passes))
        return best if backend.decide(best) else fuse(best, Blocks)
    backend = Native(finish, mode)
    return backend


BACKENDS["native"] = native
