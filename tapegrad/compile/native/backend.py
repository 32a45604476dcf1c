"""backend: NumPy's tapes as machine code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tapegrad import ops
from tapegrad.compile.argument_source import Unpacked, nested, nested_gradients
from tapegrad.compile.backend import BACKENDS, Backend, last_uses_told, unfolded
from tapegrad.compile.native.batches import grouped
from tapegrad.compile.native.entry import Unpaid, compile_leaves
from tapegrad.compile.native.machine import Code, machine
from tapegrad.compile.numpy.blocked_executor import Blocks
from tapegrad.compile.numpy.function import Miss, compile_tape, passed
from tapegrad.compile.numpy.fusion import fuse
from tapegrad.compile.numpy.memory_plan import is_known
from tapegrad.compile.source_names import Names
from tapegrad.errors import ArgumentError
from tapegrad.optimise.pipeline import Pass
from tapegrad.replay.random_state import sources_of
from tapegrad.tape.tape import Call, Tape
from tapegrad.tree.nodes import Leaf, Static
from tapegrad.tree.signature import ValueAndGradients


class Native(Backend):
    """The backend that runs tapes as machine code."""

    price = (3e-3, 3e-4)

    def function(self, tape: Tape, fresh: Callable[[], bool] | None = None) -> Callable[..., Any]:
        """Return a finished tape as a function: NumPy's code of one that has no machine code, or hardly any."""
        if there_is() and suits(tape):
            try:
                return NativeFunction.made(tape, grouped(tape), fresh)  # type: ignore[no-any-return]
            except Unpaid:
                pass
            except Exception as err:  # an error of tapegrad's or LLVM's is no reason for the program to fail
                failed(tape, err)
        return compile_tape(fuse(tape, Blocks), fresh=fresh)


@lru_cache(1)
def there_is() -> bool:
    """True where this Python on this processor can have native code."""
    try:
        machine()
    except ArgumentError:
        return False
    return True


def failed(tape: Tape, err: Exception) -> None:
    """Warn that a tape runs as NumPy's code, because making machine code of it failed."""
    warnings.warn(f"no machine code could be made of {tape.name}, which runs as NumPy's instead: "
                  f"{type(err).__name__}: {str(err)[:200]} (please report it)", RuntimeWarning, stacklevel=2)


def suits(tape: Tape) -> bool:
    """True for a tape without random numbers and without the user's code: a call of these is never made twice."""
    tape.check()
    return not sources_of(tape) and all(not isinstance(op, Call) or op is tape.result or is_known(op.fn)
                                        for op in tape.ops)


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
    def made(tape: Tape, grouped: Tape, fresh: Callable[[], bool] | None) -> Any:
        """Compile a tape, of which `grouped` is what native code is written of. Each has a class of its own, whose
        `__call__` is the machine code.
        """
        straight = Straight(tape, fresh)
        nest = nest_of(tape)
        if is_flat(tape) and nest is not None:
            call, code = compile_leaves(grouped, straight, fresh, nest)
        else:
            call, code = around(tape, grouped, straight, fresh)
        new: NativeFunction = object.__new__(type("NativeFunction", (NativeFunction,), {"__call__": call}))
        new.tape, new._code, new._straight, new.__name__ = tape, code, straight, tape.name  # type: ignore[attr-defined]
        return new

    @property
    def ir(self) -> str:
        """LLVM's text."""
        return self._code.text

    @property
    def asm(self) -> str:
        """The processor's instructions."""
        return self._code.assembly

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


def around(tape: Tape, grouped: Tape, straight: Straight, fresh: Any) -> tuple[Any, Code]:
    """Return native code with a function of Python's around it, which takes arguments apart and nests results."""
    names, count = Names(lambda value: None), parts_of(tape)
    leaves = [names.fresh(x.label or "f") for x in tape.inputs[1:]]
    unpacked = Unpacked(tape, leaves, names.bind, "raise miss()")
    call, code = compile_leaves(grouped, lambda *leaves: NotImplemented, None, tuple(range(count)))
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
        raise ArgumentError(f"NumPy has no device {device!r}", None, 'backend="torch"')
    if mode == "native":
        machine()

    return Native(lambda tape: last_uses_told(unfolded(tape, passes)), mode)


BACKENDS["native"] = native
