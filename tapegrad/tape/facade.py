"""facade: methods of a tape beyond its own, to run it, show it, save it, look into it. `api`
registers what each does.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    import networkx

    from tapegrad.tape.c_source import CSource

T = TypeVar("T", bound=Callable[..., Any])
Self = TypeVar("Self", bound="Methods")
Group = Literal["line", "operation"]
Kind = Literal["nan", "inf", "large", "zero-gradient"]
Format = Literal["plain", "table", "compact", "tree", "mirror", "summary", "python", "steps"]

_done_by: dict[str, Callable[..., Any]] = {}


def does(method: str) -> Callable[[T], T]:
    """Register the function that does what a method of a tape says: it gets the tape, and the method's arguments.
    Raises KeyError the second time.
    """
    def register(fn: T) -> T:
        if method in _done_by:
            raise KeyError(f"{method}: {_done_by[method].__module__} does it already")
        _done_by[method] = fn
        return fn
    return register


class Methods:
    """What a tape can do by modules that stand above it."""

    __slots__ = ()

    def play(self, *args: Any, debug: bool = False, redraw: bool = True, **kwargs: Any) -> Any:
        """Run the operations on new arguments and return the result; `debug=True` prints each as it runs.

        Random numbers are drawn afresh; `redraw=False` takes those that were drawn while tracing.

        Raises GuardError where the arguments would have taken the program down another path.
        """
        return _done_by["play"](self, args, kwargs, debug=debug, redraw=redraw)

    def to_python(self, name: str = "") -> str:
        """Return the source of a module with a function that computes what the tape does, and imports NumPy only.

        The tape is optimised first; the user's lines stand in comments. Its loops are Python's, and what a long tape
        repeats becomes one, but for a gradient's, which `tg.flatgrad(tg.roll(tape))` makes loops. Arguments of
        other types or shapes, and values that would take another path, raise ValueError. Raises ArgumentError for what
        has no source: a user's primitive, an object among the arguments.
        """
        return _done_by["to_python"](self, name)  # type: ignore[no-any-return]

    def to_c(self, name: str = "") -> CSource:
        """Return the tape as one function in C, which needs neither Python nor NumPy: `.source` is the file, `.header`
        its header, `.save(folder)` writes both. `cc -O2 -c name.c` compiles it, with `-lm` when it is linked.

        Numbers are handed over by value, arrays and results by pointers, row by row, of the shapes that were recorded.
        It returns 0; and 1 where the program would take another path. Sums are added in another order than NumPy's;
        nothing warns or raises, and a number that cannot be computed is nan or inf. Raises ArgumentError for what has
        no form in C: factorisations, transforms, random numbers, objects.

        >>> import tapegrad as tg
        >>> square = tg.gradtape(lambda x, y: x * x * y, 2.0, 3.0).to_c("square")
        >>> print(*[line for line in square.header.splitlines() if line.startswith("int")])
        int square(double x, double y, double *value, double *d_x, double *d_y);
        """
        return _done_by["to_c"](self, name)  # type: ignore[no-any-return]

    def to_llvm(self) -> str:
        """Return the LLVM text of the machine code that `tg.compile(tape)` runs. Raises ArgumentError where there is no
        machine code.
        """
        return _done_by["to_llvm"](self)  # type: ignore[no-any-return]

    def to_fx(self, device: Any = None) -> Any:
        """Return a torch.fx GraphModule of the calls of torch that the tape comes down to, on a device.

        It takes the tape's inputs, flat and in order, tensors for arrays, and returns what the tape does. It is found
        by running the tape on the arguments it was recorded with, and holds for such shapes and dtypes; a guard that
        does not hold raises. Raises ArgumentError for a tape without values.
        """
        return _done_by["to_fx"](self, device)

    def lowered(self, backend: Literal["numpy", "torch"] = "numpy", device: Any = None) -> Any:
        """Return the tape of what a backend runs for this one: "torch", calls of torch's on a device,
        or "numpy".

        It prints and plays as every tape does; torch's calls take tensors. These are found by running the tape on the
        arguments it was recorded with, and hold for such shapes and dtypes. Raises ArgumentError for another backend,
        and for torch where the tape has no values.

        >>> import numpy as np, tapegrad as tg
        >>> tape = tg.gradtape(lambda x: np.sum(np.tanh(x)), np.ones(3)).lowered("torch")
        >>> for op in tape: print(op)
        %1 = input <lambda>
        %2 = input x
        %3 = tanh(%2)
        %4 = sum(%3, [0])
        %5 = mul(%3, %3)
        %6 = rsub(%5, 1)
        %7 = pack(%4, %6, into=(*, (None, *)))
        """
        return _done_by["lowered"](self, backend, device)

    def find(self, kind: Kind, *args: Any, limit: float = 1e10, **kwargs: Any) -> Any:
        """Return the first operation whose value is "nan", "inf", "large" or a "zero-gradient",
        forward or backward, or None.

        With arguments the tape is replayed, without them the values on it are looked at.
        """
        return _done_by["find"](self, kind, args, kwargs, limit=limit)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Return a Stepper, which plays one operation at a time, forwards and back; without
        arguments, on those of the trace.
        """
        return _done_by["step"](self, args, kwargs)

    def steps(self) -> Any:
        """Return the steps of the tape: each operation traced, its pullback, and the reverse sweep, with values, local
        derivatives in words, and where each contribution to a cotangent comes from.

        A notebook shows a page that plays them; `to_html(path)` writes it, `to_svg(i, path)` one step's picture,
        `save(folder)` all of them. `show("steps")` does it on the spot. Raises ArgumentError for a long tape.
        """
        return _done_by["steps"](self)

    def profile(self, *args: Any, repeats: int = 5, **kwargs: Any) -> Any:
        """Return a Profile, the time, bytes and calls of each operation and line; without
        arguments, on those of the trace.

        A gradient tape's has the forward pass and the reverse sweep apart.
        """
        return _done_by["profile"](self, args, kwargs, repeats)

    def check(self: Self) -> Self:
        """Raise MalformedTape if the tape is not well-formed, else return it."""
        return _done_by["check"](self)  # type: ignore[no-any-return]

    def save(self, path: str | PathLike[str], values: bool = True) -> None:
        """Write the tape to a file, which `tg.load` reads; `values=False` leaves out the arrays
        that a replay computes again.

        Raises TapeFormatError, before anything is written, for what a file cannot hold.
        """
        _done_by["save"](self, path, values)

    def __reduce__(self) -> Any:
        return _done_by["reduced"](self)

    def __copy__(self) -> Any:
        return _done_by["copied"](self, None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _done_by["copied"](self, memo)

    def format(self, format: Format = "plain", width: int | None = None, guards: bool = True) -> str:
        """Return the tape as text: "plain", "compact" (a triple on one line), or another format of `show`."""
        return _done_by["format"](self, format, width, guards)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        """Return the tape as plain text, a long one by its head and its tail; `format()` writes all of it."""
        return _done_by["text"](self)  # type: ignore[no-any-return]

    def to_networkx(self) -> networkx.DiGraph[Any]:
        """Return a networkx graph: a node for each operation, with its op, type, line and cost,
        and an edge to each use of it.
        """
        return _done_by["to_networkx"](self)  # type: ignore[no-any-return]

    def to_dot(self, path: str | Path | None = None, group: Group | None = None) -> str:
        """Return the picture of the tape in Graphviz's language, and write it to `path`."""
        return _done_by["draw"](self, "dot", path, group)  # type: ignore[no-any-return]

    def to_svg(self, path: str | Path | None = None, group: Group | None = None) -> str:
        """Return a picture of the tape, forward and reverse side by side, as SVG, and write it to `path`.

        `group` is "operation", or "line" for one box a source line; without it, tapes of over 2000
        operations are drawn by line.
        """
        return _done_by["draw"](self, "svg", path, group)  # type: ignore[no-any-return]

    def to_html(self, path: str | Path | None = None, group: Group | None = None) -> str:
        """Return the picture as a page of its own with search and details, which needs no
        network, and write it to `path`.
        """
        return _done_by["draw"](self, "html", path, group)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return _done_by["draw"](self, "cell")  # type: ignore[no-any-return]

    def show(self, format: Format = "table", group: Literal["line", "call"] | None = None, width: int | None = None,
             file: Any = None, console: Any = None, guards: bool = True) -> None:
        """Print the tape on a terminal, or into a file, at its width or at `width` characters.

        `format` is "table", "plain" (as `format` has it), "compact" (a triple on one line), "tree" (calls,
        lines, operations), "mirror" (the primal calls, and beside each what the reverse sweep does for it), "summary"
        (operations by line), "python" (its source, highlighted) or "steps" (see `steps`; a page in a notebook).
        `group` puts a heading above each "line" or "call"; `guards=False` leaves out guards. A long tape is shown by
        its head, its tail and a summary.
        `console` is one of rich's. Raises ArgumentError for other formats.
        """
        _done_by["show"](self, format, group, width, file, console, guards)

    def diff(self, other: Any) -> Any:
        """Return what `other` has not, and has besides, whatever the numbers: a pass or an edit made it from this tape.

        >>> from tapegrad.ops import add, multiply
        >>> from tapegrad.tape.tape import Input, Tape, call
        >>> def tape(fn):
        ...     found = Tape(label="f")
        ...     x = found.push(Input(3.0, "x"))
        ...     found.result = found.push(call(multiply, found.push(call(fn, x, x)), 2.0))
        ...     return found
        >>> print(tape(add).diff(tape(multiply)))
        f: 4 operations -> 4: 1 changed
          %1 %1  input f
          %2 %2  input x = 3.0
        ~ %3 %3  multiply(%2, %2)   was add
          %4 %4  multiply(%3, 2.0)  result
        """
        return _done_by["diff"](self, other)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield _done_by["view"](self)
