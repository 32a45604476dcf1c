"""Methods of a tape beyond its own: to run it, show it, save it, look into it. Each is bound late: a tape does not depend on any of them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

    from tapegrad.show.diff import Diff


class Methods:
    """What a tape can do by modules that stand above it."""

    __slots__ = ()

    def play(self: Any, *args: Any, debug: bool = False, redraw: bool = True, **kwargs: Any) -> Any:
        """Run the operations on new arguments and return the result; `debug=True` prints each as it runs.

        Random numbers are drawn afresh; `redraw=False` takes those that were drawn while tracing.

        Raises GuardError where the arguments would have taken the program down another path.
        """
        from tapegrad.replay.interpreter import play
        from tapegrad.trace.tracer import collector
        with collector:
            return play(self, args, kwargs, debug=debug, redraw=redraw)

    def to_python(self: Any, name: str = "", buffers: bool = False) -> str:
        """Return the source of a module with a function that computes what the tape does, and imports NumPy only.

        The tape is optimised first; the user's lines stand in comments. Its loops are Python's, and what a long tape repeats becomes one, but for
        a gradient's, which `tg.flatgrad(tg.roll(tape))` makes loops. With `buffers`, intermediate arrays keep their memory between calls,
        which is faster and reads less well. Arguments of other types or shapes, and values that would take another path, raise ValueError.
        Raises ArgumentError for what has no source: a user's primitive, an object among the arguments.
        """
        from tapegrad.compile.numpy.export import to_python
        return to_python(self, name, buffers)

    def to_fx(self: Any, device: Any = None) -> Any:
        """Return a torch.fx GraphModule of the calls of torch that the tape comes down to, on a device.

        It takes the tape's inputs, flat and in order, tensors for arrays, and returns what the tape does. It is found by running the tape on the
        arguments it was recorded with, and holds for such shapes and dtypes; a guard that does not hold raises. Raises ArgumentError
        for a tape without values.
        """
        from tapegrad.compile.torch.fx import to_fx
        return to_fx(self, device)

    def find(self: Any, kind: str, *args: Any, limit: float = 1e10, **kwargs: Any) -> Any:
        """Return the first operation whose value is "nan", "inf", "large" or a "zero-gradient", forward or backward, or None.

        With arguments the tape is replayed, without them the values on it are looked at.
        """
        from tapegrad.debug.find import find
        return find(self, kind, args, kwargs, limit=limit)

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a Stepper, which plays one operation at a time, forwards and back; without arguments, on those of the trace."""
        from tapegrad.debug.step import Stepper
        from tapegrad.debug.walk import leaves_of
        return Stepper(self, leaves_of(self, args, kwargs))

    def profile(self: Any, *args: Any, repeats: int = 5, **kwargs: Any) -> Any:
        """Return a Profile, the time, bytes and calls of each operation and line; without arguments, on those of the trace.

        A gradient tape's has the forward pass and the reverse sweep apart.
        """
        from tapegrad.debug.profile import profile
        return profile(self, args, kwargs, repeats)

    def check(self: Any) -> Any:
        """Raise MalformedTape if the tape is not well-formed, else return it."""
        from tapegrad.tape.check import check
        return check(self)

    def save(self: Any, path: str | PathLike[str], values: bool = True) -> None:
        """Write the tape to a file, which `tg.load` reads; `values=False` leaves out the arrays that a replay computes again.

        Raises TapeFormatError, before anything is written, for what a file cannot hold.
        """
        from tapegrad.store.write import save
        save(self, path, values)

    def format(self: Any, style: str = "plain", width: int | None = None) -> str:
        """Return the tape as text, "plain" or "compact" (a triple on one line)."""
        from tapegrad.show.plain import format_tape
        return format_tape(self, style, width)

    def to_networkx(self: Any) -> networkx.DiGraph:
        """Return a networkx graph: a node for each operation, with its op, type, line and cost, and an edge to each use of it."""
        from tapegrad.show.graph.network import to_networkx
        return to_networkx(self)

    def to_dot(self: Any, path: str | Path | None = None, group: str | None = None) -> str:
        """Return the picture of the tape in Graphviz's language, and write it to `path`."""
        from tapegrad.show.graph import draw
        return draw(self, "dot", path, group)

    def to_svg(self: Any, path: str | Path | None = None, group: str | None = None) -> str:
        """Return a picture of the tape, forward and reverse side by side, as SVG, and write it to `path`.

        `group` is "operation", or "line" for one box a source line; without it, tapes of over 2000 operations are drawn by line.
        """
        from tapegrad.show.graph import draw
        return draw(self, "svg", path, group)

    def to_html(self: Any, path: str | Path | None = None, group: str | None = None) -> str:
        """Return the picture as a page of its own with search and details, which needs no network, and write it to `path`."""
        from tapegrad.show.graph import draw
        return draw(self, "html", path, group)

    def _repr_html_(self: Any) -> str:
        from tapegrad.show.graph import draw
        return draw(self, "cell")

    def show(self: Any, format: str = "table", group: str | None = None, width: int | None = None, file: Any = None, console: Any = None) -> None:
        """Print the tape on a terminal, or into a file, at its width or at `width` characters.

        `format` is "table", "compact" (a triple on one line), "tree" (calls, lines, operations), "mirror" (the primal calls, and beside
        each what the reverse sweep does for it), "summary" (operations by line) or "python" (its source, highlighted). `group` puts a
        heading above each "line" or "call".
        A long tape is shown by its head, its tail and a summary. `console` is one of rich's. Raises ArgumentError for other formats.
        """
        from tapegrad.show.view import show
        show(self, format, group, width, file, console)

    def diff(self: Any, other: Any) -> Diff:
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
        from tapegrad.show.diff import Diff
        return Diff(self, other)
