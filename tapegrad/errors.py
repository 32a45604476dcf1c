"""errors: TapeError and its subclasses: what happened, where in the user's code, what to try.

| what the program does | what is raised |
|---|---|
| float(x) | ConcretizationError |
| complex(x) | ConcretizationError |
| np.float64(x) | ConcretizationError |
| math.ulp(x): compiled code asks for a number | ConcretizationError |
| np.nested_iters([x, x], axes): compiled code asks for an array | ConcretizationError |
| pickle.dumps(x) | ConcretizationError |
| outside[0] = x, an array made outside | MutationError |
| np.add(x, x, out=outside) | MutationError |
| using y after a write to x, with which it shares memory | MutationError |
| a primitive that writes to its argument | MutationError |
| an argument is written to by another name | MutationError |
| scipy.special.airy(x): no op | UnknownFunction |
| np.packbits(x): no tape can hold it | UnknownFunction |
| x.as_integer_ratio(): an attribute that nobody registered | UnknownFunction |
| np.add.at(whole, 0, x): a float added to ints | UnknownFunction |
| x * o, an array and an object of the user's that NumPy goes through | UnknownFunction |
| pow(x, 2, 3) | UnknownFunction |
| np.gcd(x, 2) of a Fraction: no exact meaning | UnknownFunction |
| x * n, a number of a kind that nobody has registered | UnknownFunction |
| Decimals at another precision than at the beginning of the trace | UnknownFunction |
| using x after its trace | EscapedProxy |
| a call without a rule | MissingRule |
| a replay that takes another branch | GuardError |
| a replay with another static value | ArgumentError |
| a replay with other nesting | ArgumentError |
| an array as output, and no seed | ArgumentError |
| an output that is no number | ArgumentError |
| an array of objects or records, by which to differentiate | ArgumentError |
| x.shape = (4,) of an argument | UnknownFunction |
| the sweep of a tape that was not rewritten | ArgumentError |
| tg.grad(f) without the arguments | CallError |
| tg.grad(x, f): no function first | CallError |
| tg.value_and_grad(f, x): arguments before the call that takes them | ArgumentError |
| tg.vmap(f, x) | ArgumentError |
| a second rule | DuplicateRule |
| a call that raises in a replay | ReplayError |
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple


class Location(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.cell or self.file}:{self.line} in {self.function}"

    @property
    def short(self) -> str:
        """The file's name without its folder, and the line, short enough for a column."""
        return f"{self.cell or os.path.basename(self.file)}:{self.line}"

    @property
    def cell(self) -> str:
        """The notebook cell that holds the line, `In[3]`, "" for a line of a file."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        found = shell.compile.format_code_name(self.file) if shell is not None else None
        return "" if found is None else str(found[1])

    @property
    def source(self) -> str:
        """The text of the line, or "" if it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


class Quoted(Location):
    """A line of a program that may be unavailable: a saved tape contains its text."""

    text = ""

    @property
    def source(self) -> str:
        """The text of the line as saved; the file of that name may have changed."""
        return self.text

    def _replace(self, **fields: Any) -> Quoted:
        new = Quoted(*super()._replace(**fields))
        new.text = self.text
        return new


class Listing:
    """A function's code in a saved tape: file, first line, texts of lines. An operation's `lasti` is a line number."""

    __slots__ = ("co_filename", "co_firstlineno", "co_name", "lines")

    def __init__(self, file: str, first: int, function: str) -> None:
        self.co_filename, self.co_firstlineno, self.co_name = file, first, function
        self.lines: dict[int, str] = {}

    def quote(self, line: int) -> Quoted:
        """Return a line with its text; for -1 the function's first line, as for an instruction before the first."""
        where = Quoted(self.co_filename, self.co_firstlineno if line < 0 else line, self.co_name)
        where.text = self.lines.get(line, "")
        return where


def _files(folder: str) -> Iterator[str]:
    """Yield the Python files in a folder and its subfolders."""
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            yield entry.path
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _files(entry.path)


# Files of tapegrad: the user's line is in the innermost frame outside them.
INTERNAL = frozenset(_files(os.path.dirname(__file__)))



class Silenced(int):
    """The instruction of an operation at which the program silences floating-point warnings of some `kinds`."""

    kinds: frozenset[str]

    @classmethod
    def at(cls, lasti: int, kinds: frozenset[str]) -> Silenced:
        """Return the instruction with the kinds of warnings that are silenced, named as in `np.errstate`."""
        new = cls(lasti)
        new.kinds = kinds
        return new


_places: dict[int, int] = {}
# one(i, i) returns one shared int per position: a long tape repeats few positions many times
one = _places.setdefault


class Activation:
    """One run of a function: its code, its name, and the caller's run with the instruction of the call.

    `within`: the call of a library module (`torch.nn.Linear`), which belongs to its caller's code and has no user line
    of its own.
    """

    __slots__ = ("caller", "code", "depth", "lasti", "name", "within")

    def __init__(self, code: CodeType, caller: Activation | None = None, lasti: int = 0, name: str = "",
                 within: bool = False) -> None:
        self.code, self.caller, self.lasti, self.name, self.within = code, caller, lasti, name or code.co_name, within
        self.depth: int = 1 if caller is None else caller.depth + 1


def locate(code: CodeType | Activation | Listing, lasti: int) -> Location:
    """Return the location of an instruction of a code object, or of a line of a saved tape's listing. Operations store
    these raw, since the look-up is slow.
    """
    if isinstance(code, Listing):
        return code.quote(lasti)
    if isinstance(code, Activation):
        code = code.code
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
            break
    return Location(code.co_filename, line, code.co_name)


def user_frame(frame: FrameType | None = None) -> FrameType:
    """Return the innermost frame, from `frame` outwards, outside tapegrad, numpy, scipy, torch and the standard
    library.
    """
    if frame is None:
        frame = sys._getframe(1)
    while (file := frame.f_code.co_filename) in INTERNAL or (file not in _known_users and _is_library(frame)):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _shown(frame) if file.startswith("<") else frame


def _shown(frame: FrameType) -> FrameType:
    """Return the nearest user frame with a source line, for generated code (a dataclass's `__hash__`); else `frame`."""
    at: FrameType | None = frame
    while at is not None:
        if is_users(at) and linecache.getline(at.f_code.co_filename, at.f_lineno):
            return at
        at = at.f_back
    return frame


def is_users(frame: FrameType) -> bool:
    """True for a frame of the user's code rather than of tapegrad or a library."""
    file = frame.f_code.co_filename
    ours = file in INTERNAL or file.startswith("<stringsource")
    return not ours and (file in _known_users or not _is_library(frame))


_known_users: set[str] = set()  # files known to hold user code
_known_libraries: set[str] = set()


def _is_library(frame: FrameType) -> bool:
    """True for a frame of the standard library, numpy, scipy or torch."""
    file = frame.f_code.co_filename
    if file in _known_libraries:
        return True
    found = (_is_standard(file)
             or frame.f_globals.get("__name__", "").partition(".")[0] in ("numpy", "scipy", "torch", "mpmath"))
    if not file.startswith("<"):  # code compiled from a string has no file of its own
        (_known_libraries if found else _known_users).add(file)
    return found


@functools.cache
def _is_standard(file: str) -> bool:
    return file.startswith(os.path.dirname(os.__file__) + os.sep) and "-packages" + os.sep not in file


def user_location() -> Location:
    """Return the user's current line."""
    frame = user_frame()
    return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


REFUSAL_CALLBACKS: list[Callable[[TapeError], None]] = []  # called for each refusal: the running trace records it


class TapeError(Exception):
    """Any error of tapegrad: `what` happened, `where` in the user's code, what to `try_`.

    `refuses`: the error says that a program cannot be traced. The running trace records it even if the program catches
    it, since without tracing the program would not have got it.
    """

    refuses = False
    # whether a second trace with outside arrays traced may avoid the error; or the one package whose arrays to trace
    outside: bool | str = False

    def __init__(self, what: str, where: Location | None = None, try_: str = "") -> None:
        self.what, self.where, self.try_ = what, where, try_
        lines = [what]
        if where is not None:
            source = where.source
            lines.append(f"  at {where}" + (f":  {source}" if source else ""))
        if try_:
            lines.append(f"  try: {try_}")
        Exception.__init__(self, "\n".join(lines))  # no other base: a ReplayError may have any class as one
        for hear in REFUSAL_CALLBACKS if self.refuses else ():
            hear(self)


class ArgumentError(TapeError, ValueError):
    """A function of tapegrad got arguments that it cannot take: a missing seed, the wrong structure."""


class CallError(ArgumentError, TypeError):
    """A function was called without its arguments, or got a non-function in its place."""


class UnknownFunction(TapeError, TypeError):
    """A function got a traced value, and tapegrad has no op or composite for it."""

    refuses = True


class MissingRule(TapeError, NotImplementedError):
    """A call must be differentiated but its function has no rule."""


class DuplicateRule(TapeError, ValueError):
    """A function or name is registered a second time."""


class GuardError(TapeError):
    """A replay met a value for which the program would have taken another path."""


class NonFiniteError(TapeError, ArithmeticError):
    """An operation produced a nan or an inf inside `raise_on_nan`."""

    refuses = True


class ReplayError(TapeError):
    """An operation, or its pullback, raised while its tape was replayed or swept; the message shows it among its
    neighbours.

    It is an instance of the original error's class too, if Python permits, so that `except LinAlgError` still catches
    it. The original is its `__cause__`.
    """

    original: type[Exception] | None = None

    def __init__(self, what: str, where: Location | None = None, try_: str = "", around: str = "") -> None:
        super().__init__(what, where, try_)
        self.around = around
        self.args = ("\n".join(filter(None, [*self.args, around])),)

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError.__str__ would quote it, and UnicodeError's formats fields

    def __reduce__(self) -> Any:
        return like, (self.original, self.what, self.where, self.try_, self.around), vars(self)


def like(kind: type[Exception] | None, *parts: Any) -> ReplayError:
    """Return a ReplayError that is also an instance of `kind`, if such a class is possible."""
    if kind is not None and not issubclass(kind, StopIteration):  # a generator must not raise StopIteration
        try:
            return _subclass(kind)(*parts)  # type: ignore[arg-type]
        except Exception:
            pass  # the class cannot be subclassed, or __new__ requires arguments
    return ReplayError(*parts)


@functools.lru_cache(maxsize=1024)
def _subclass(kind: type[Exception]) -> type[ReplayError]:
    """Return the common subclass, one per `kind`, since handlers compare classes."""
    return type(ReplayError.__name__, (ReplayError, kind),
                {"__module__": __name__, "__doc__": ReplayError.__doc__, "original": kind})


class MalformedTape(TapeError):
    """A tape that is not well-formed: a use before its definition, a foreign variable, no result."""


class TapeFormatError(TapeError, ValueError):
    """A tape that cannot be saved, or an invalid file: damaged, of another version, or lacking a function to pass."""


class ConcretizationError(TapeError):
    """A traced value would become a plain number and lose its gradient.

    Not a TypeError: NumPy would catch that and try another conversion.
    """

    refuses = True


class MutationError(TapeError):
    """An in-place write that cannot be recorded.

    Not a TypeError: torch's operators would return NotImplemented, and Python would run `x = x + y` for `x += y`.
    """

    refuses = True


class MissingPackage(TapeError, ImportError):
    """A package that this call needs, and that is not a dependency of tapegrad, is not installed."""


class EscapedProxy(TapeError, RuntimeError):
    """A proxy was used after its trace had ended."""

    refuses = True


class DistributedError(TapeError, RuntimeError):
    """Processes that compute together made different calls, or one of them failed; nothing was summed."""


class EffectWarning(UserWarning):
    """A write of the program is lost, because it went to the trace's copy of a differentiated object."""


def unknown(func: Callable[..., Any], name: str = "") -> UnknownFunction:
    """Return the error for a call of a function without an op."""
    if not name:
        module = getattr(func, "__module__", None) or getattr(getattr(func, "__self__", None), "__name__", "")
        name = f"{module}.{getattr(func, '__name__', func)}".lstrip(".")
        if type(func).__name__ == "ufunc":
            name = f"the ufunc {func.__name__}"
    short = getattr(func, "__name__", name.rpartition(".")[2])
    return UnknownFunction(f"tapegrad has no op for {name}, which was called with a traced value", user_location(),
                           f"write it in functions that tapegrad knows, or give it a rule: @tg.rrule({short})")


FULL_TRACEBACKS = os.environ.get("TAPEGRAD_TRACEBACK") == "full"  # read once: a program that reads it is not compiled


def fold(err: BaseException) -> None:
    """Remove tapegrad's frames from an error's traceback, keeping the program's and other libraries'.

    TAPEGRAD_TRACEBACK=full in the environment at import keeps all frames.
    """
    seen: set[int] = set()
    part: BaseException | None = err
    while part is not None and id(part) not in seen and not FULL_TRACEBACKS:
        seen.add(id(part))
        kept, shown, last = [], None, part.__traceback__
        while last is not None:
            kept += [last] if last.tb_frame.f_code.co_filename not in INTERNAL else []
            last = last.tb_next
        for each in reversed(kept):
            shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
        part.__traceback__ = shown or (None if isinstance(part, (KeyboardInterrupt, TapeError)) else part.__traceback__)
        part = part.__cause__ or part.__context__


def frames_of(err: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of an error's traceback with their lines, outermost first."""
    at = err.__traceback__
    while at is not None:
        yield at.tb_frame, at.tb_lineno
        at = at.tb_next


def where_raised(err: Exception) -> Location:
    """Return the user's line in which an error was raised, or which called the code that raised it."""
    frames = [(frame, line) for frame, line in frames_of(err) if is_users(frame)]
    frame, line = frames[-1] if frames else (user_frame(), user_location().line)
    return Location(frame.f_code.co_filename, line, frame.f_code.co_name)
