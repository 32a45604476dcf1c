"""facade: the methods of a tape that modules above it implement, to run, show, save or inspect it; see `api`."""

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
    """Register the implementation, which receives the tape and the method's arguments; a second one raises KeyError."""
    def register(fn: T) -> T:
        if method in _done_by:
            raise KeyError(f"{method}: {_done_by[method].__module__} already provides it")
        _done_by[method] = fn
        return fn
    return register


class Methods:
    """Methods of a tape that modules above it implement."""

    __slots__ = ()

    def play(self, *args: Any, debug: bool = False, redraw: bool = True, **kwargs: Any) -> Any:
        """Run the operations on new arguments and return the result; `debug=True` prints each operation as it runs.

        Random numbers are drawn afresh; `redraw=False` reuses those drawn while tracing. Raises GuardError if the
        program would take another path with these arguments.
        """
        return _done_by["play"](self, args, kwargs, debug=debug, redraw=redraw)

    def to_python(self, name: str = "") -> str:
        """Return the source of a Python module, importing NumPy only, with one function that computes the tape.

        The tape is optimised first, and comments name the user's lines. Recorded loops become Python loops, and
        repeated stretches of a long tape are rolled into loops; for a gradient's loops write
        `tg.flatgrad(tg.roll(tape))`. The function raises ValueError for arguments of other types or shapes and for
        values that take another path. Raises ArgumentError for operations without source: a user's primitive, an object
        among the arguments.
        """
        return _done_by["to_python"](self, name)  # type: ignore[no-any-return]

    def to_c(self, name: str = "") -> CSource:
        """Return the tape as one C function that needs neither Python nor NumPy: `.source` is the file, `.header` its
        header, `.save(folder)` writes both. Compile with `cc -O2 -c name.c`, link with `-lm`.

        Numbers are passed by value; arrays and results by pointers, in row-major order, with the recorded shapes. The
        function returns 0, or 1 if the program would take another path. Sums are added in another order than NumPy's;
        nothing warns or raises, and undefined results are nan or inf. Raises ArgumentError for operations without a C
        form: factorisations, transforms, random numbers, objects.

        >>> import tapegrad as tg
        >>> square = tg.gradtape(lambda x, y: x * x * y, 2.0, 3.0).to_c("square")
        >>> print(*[line for line in square.header.splitlines() if line.startswith("int")])
        int square(double x, double y, double *value, double *d_x, double *d_y);
        """
        return _done_by["to_c"](self, name)  # type: ignore[no-any-return]

    def to_llvm(self) -> str:
        """Return the LLVM IR of the machine code that `tg.compile(tape)` runs; raise ArgumentError if there is none."""
        return _done_by["to_llvm"](self)  # type: ignore[no-any-return]

    def to_fx(self, device: Any = None) -> Any:
        """Return a torch.fx GraphModule of the torch calls that compute the tape on a device.

        It takes the tape's inputs, flat and in order, with tensors for arrays, and returns the tape's result. The calls
        are recorded by running the tape on its recorded arguments, so the module is valid for those shapes and dtypes
        only; a guard that fails raises. Raises ArgumentError for a tape without values.
        """
        return _done_by["to_fx"](self, device)

    def lowered(self, backend: Literal["numpy", "torch"] = "numpy", device: Any = None) -> Any:
        """Return the tape of the calls that a backend, "torch" (on a device) or "numpy", runs for this tape.

        The result prints and plays like any tape; torch's calls take tensors. They are recorded by running the tape on
        its recorded arguments, so they are valid for those shapes and dtypes only. Raises ArgumentError for another
        backend, and for "torch" if the tape has no values.

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
        """Return the first operation, forward or backward, of value "nan", "inf", "large" or "zero-gradient", or None.

        With arguments the tape is replayed; without, the values recorded on it are searched.
        """
        return _done_by["find"](self, kind, args, kwargs, limit=limit)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Return a Stepper, which plays one operation at a time, forwards and back; by default on the trace's values.
        """
        return _done_by["step"](self, args, kwargs)

    def steps(self) -> Any:
        """Return the steps of the tape: each traced operation, its pullback, and the reverse sweep, with values, local
        derivatives in words, and the source of each contribution to a cotangent.

        A notebook shows a page that plays them; `to_html(path)` writes the page, `to_svg(i, path)` the picture of one
        step, `save(folder)` all pictures. `show("steps")` prints them. Raises ArgumentError for a long tape.
        """
        return _done_by["steps"](self)

    def profile(self, *args: Any, repeats: int = 5, **kwargs: Any) -> Any:
        """Return a Profile: time, bytes and calls of each operation and line; without arguments, on those of the trace.

        The profile of a gradient tape separates the forward pass from the reverse sweep.
        """
        return _done_by["profile"](self, args, kwargs, repeats)

    def check(self: Self) -> Self:
        """Raise MalformedTape if the tape is not well-formed, else return it."""
        return _done_by["check"](self)  # type: ignore[no-any-return]

    def save(self, path: str | PathLike[str], values: bool = True) -> None:
        """Write the tape to a file for `tg.load`; `values=False` leaves out the arrays that a replay recomputes.

        Raises TapeFormatError, before anything is written, if a value cannot be stored.
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
        """Return the tape as plain text, a long tape by its head and tail only; `format()` returns all of it."""
        return _done_by["text"](self)  # type: ignore[no-any-return]

    def to_networkx(self) -> networkx.DiGraph[Any]:
        """Return a networkx graph: one node per operation, with its op, type, line and cost, and one edge per use."""
        return _done_by["to_networkx"](self)  # type: ignore[no-any-return]

    def to_dot(self, path: str | Path | None = None, group: Group | None = None) -> str:
        """Return a picture of the tape in Graphviz's DOT language, and write it to `path` if given."""
        return _done_by["draw"](self, "dot", path, group)  # type: ignore[no-any-return]

    def to_svg(self, path: str | Path | None = None, group: Group | None = None) -> str:
        """Return a picture of the tape as SVG, forward and reverse side by side, and write it to `path` if given.

        `group` is "operation", or "line" for one box per source line; by default, tapes of over 2000 operations are
        drawn by line.
        """
        return _done_by["draw"](self, "svg", path, group)  # type: ignore[no-any-return]

    def to_html(self, path: str | Path | None = None, group: Group | None = None) -> str:
        """Return the picture as a self-contained page with search and details, and write it to `path` if given."""
        return _done_by["draw"](self, "html", path, group)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return _done_by["draw"](self, "cell")  # type: ignore[no-any-return]

    def show(self, format: Format = "table", group: Literal["line", "call"] | None = None, width: int | None = None,
             file: Any = None, console: Any = None, guards: bool = True) -> None:
        """Print the tape on a terminal, or into a file, at its width or at `width` characters.

        `format` is "table", "plain" (as in `format`), "compact" (a triple on one line), "tree" (calls, lines,
        operations), "mirror" (each primal call beside its part of the reverse sweep), "summary" (operations by line),
        "python" (highlighted source) or "steps" (see `steps`; a page in a notebook). `group` puts a heading above each
        "line" or "call"; `guards=False` leaves out guards. A long tape is shown by its head, its tail and a summary.
        `console` is a rich Console. Raises ArgumentError for other formats.
        """
        _done_by["show"](self, format, group, width, file, console, guards)

    def diff(self, other: Any) -> Any:
        """Return the operations that `other`, this tape after a pass or an edit, lacks or adds, whatever their numbers.

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
