"""data_parallel: value and gradient of a NumPy program whose data are distributed over processes by rows."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tapegrad.compile.compiling import value_and_grad as compiled
from tapegrad.distributed import digest
from tapegrad.distributed.checkpoint import read, written
from tapegrad.distributed.team import SharedValue, rank, size, team
from tapegrad.errors import ArgumentError, DistributedError, user_location
from tapegrad.numbers.tensors import is_tensor
from tapegrad.replay.random_state import hold
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.random_state import Found
from tapegrad.trace.results import returned
from tapegrad.trace.tracer import record
from tapegrad.tree.flatten import Structure, flatten, leaves_of
from tapegrad.tree.functions import map as tree_map

NAME = "tg.distributed.value_and_grad"
PROBE = 12  # the number of rows on which to check that values add up over rows
Call = tuple[tuple[Any, ...], dict[str, Any]]


class Nesting(NamedTuple):
    """The nesting of value and gradient, with each leaf's type, dtype and shape."""

    structure: Structure
    leaves: tuple[tuple[type, np.dtype[Any], tuple[int, ...]], ...]

    @property
    def shown(self) -> list[Any]:
        """The facts that all processes must agree on; a branch may decide whether a value is Python's or NumPy's."""
        return [repr(self.structure), *[(dtype.kind, shape) for _, dtype, shape in self.leaves]]

    def build(self, numbers: np.ndarray) -> Any:
        """Return the numbers in their nesting, in their original types."""
        found, start = [], 0
        for kind, dtype, shape in self.leaves:
            end = start + int(np.prod(shape)) * (2 if dtype.kind == "c" else 1)
            leaf = numbers[start:end].view(complex if dtype.kind == "c" else float).reshape(shape).astype(dtype)
            found.append(leaf if issubclass(kind, np.ndarray) else kind(leaf[()]))  # type: ignore[call-arg]
            start = end
        return self.structure.build(found)


def taken_apart(x: Any) -> tuple[np.ndarray, Nesting]:
    """Return the numbers of value and gradient as doubles (complex ones as pairs), and their nesting."""
    found: list[Any] = []
    structure = flatten(x, "", found, [], shared=False)
    arrays = [np.asarray(leaf) for leaf in found]
    for leaf in arrays:
        if leaf.dtype not in (np.float16, np.float32, np.float64, np.complex64, np.complex128):
            raise ArgumentError(f"{NAME}: value or gradient has dtype {leaf.dtype}, which is not summed over ranks",
                                user_location(), "float64 or complex128")
    numbers = [np.ascontiguousarray(leaf, complex).reshape(-1).view(float) if leaf.dtype.kind == "c" else leaf.ravel()
               for leaf in arrays]
    return (np.concatenate(numbers, dtype=float),
            Nesting(structure, tuple([(type(x), leaf.dtype, leaf.shape) for x, leaf in zip(found, arrays)])))


class Part(NamedTuple):
    """The result of some rows: their count, the numbers of value and gradient, the nesting of these, aux."""

    rows: int
    numbers: np.ndarray
    nesting: Nesting | None = None
    aux: Any = None


class DataParallel:
    """A function that returns value and gradient over all rows of the batch arguments, of which each rank has some."""

    def __init__(self, f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, batch: tuple[int | str, ...],
                 sharded: bool, reduction: str, check: bool, timeout: float, options: dict[str, Any]) -> None:
        self.__wrapped__, self.__name__ = f, getattr(f, "__name__", type(f).__name__)
        self.has_aux, self.batch, self.sharded, self.reduction = has_aux, batch, sharded, reduction
        self.check, self.timeout, self.calls = check, timeout, 0
        self.local = compiled(f, argnums, has_aux, **options)
        self._probed = 0
        self.places = [_place(f, self.__name__, name) for name in batch]
        by = [argnums] if isinstance(argnums, int) else [*argnums]
        if min(by, default=0) < 0:
            raise ArgumentError(f"{NAME}: argnums={argnums!r} counts from the last argument", user_location(),
                                "count argnums from 0")
        if {*self.places} & {*by}:
            raise ArgumentError(f"{NAME}: argnums names a batch argument of {self.__name__}", user_location(),
                                "use argnums of arguments that are equal on all ranks; or tg.value_and_grad, by the "
                                "rows of this rank")
        self._program = digest.digest([*digest.program(f), argnums, has_aux, batch, sharded, reduction])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if size() == 1:
            return self.local(*args, **kwargs)
        return self._over([(args, kwargs)], *self._others(args, kwargs))

    def accumulate(self, chunks: Iterable[Any], *args: Any, checkpoint: str | Path | None = None, every: int = 1,
                   **kwargs: Any) -> Any:
        """Return value and gradient over the rows of all chunks of an iterator; one chunk is in memory at a time.

        A chunk is the batch argument, or a tuple of them; `args` and `kwargs` are the other arguments. Aux is that of
        the last chunk. With a `checkpoint`, each rank writes its sums to a file, named by it and the rank, after every
        `every` chunks. A run that is restarted with the same arguments skips the chunks that the file covers. The file
        is removed when the sum is complete.
        """
        return self._over((self._with(chunk, args, kwargs) for chunk in chunks), args, kwargs,
                          Path(f"{checkpoint}.{rank()}of{size()}") if checkpoint else None, every)

    def _over(self, calls: Iterable[Call], args: tuple[Any, ...], kwargs: dict[str, Any], path: Path | None = None,
              every: int = 1) -> Any:
        """Return value and gradient of several calls, summed over all ranks; `args` and `kwargs` are not batched."""
        self.calls += 1
        agreed = [0, 0, 0]
        try:
            kinds, values = digest.arguments((args, kwargs)) if size() > 1 or path is not None else ([], [])
            agreed = [digest.digest(kinds), digest.digest(values), 0]
            total, seen = self._total(calls, path, [self._program, *agreed[:2]], every)
            if total.nesting is None:
                raise ArgumentError(f"{NAME}: {self.__name__} got no chunks", user_location(),
                                    "pass at least one chunk on each rank, without rows if there is none for it")
            agreed = [digest.digest([*kinds, *total.nesting.shown]), agreed[1], 0 if self.sharded else seen]
        except Exception:
            with suppress(DistributedError):
                self._sum(agreed, Part(0, np.zeros(0)), failed=True)
            raise
        rows, numbers = self._sum(agreed, total)
        if path is not None:
            path.unlink(missing_ok=True)
        if self.reduction == "mean":
            if not rows:
                raise ArgumentError(f"{NAME}: the batch of {self.__name__} has no rows, so it has no mean",
                                    user_location(),
                                    'reduction="sum"')
            numbers = numbers / rows
        value, gradient = total.nesting.build(numbers)
        return (value, total.aux) if self.has_aux else value, gradient

    def _total(self, calls: Iterable[Call], path: Path | None, key: list[int], every: int) -> tuple[Part, int]:
        """Return the sum of this rank's parts, and a digest of the batch; continue from a file that was written for the
        same program, arguments and ranks.
        """
        total, seen, done = Part(0, np.zeros(())), 0, 0
        kept = read(path) if path is not None else None
        if kept is not None and kept["key"].tolist() == key:
            total, done = Part(int(kept["rows"]), kept["numbers"]), int(kept["done"])
        for number, (given, named) in enumerate(calls):
            # at the latest before the last chunk, whose part has the nesting
            if path is not None and number >= max(done, 1) and number % max(every, 1) == 0:
                written(path, {"key": key, "done": number, "seen": seen, "rows": total.rows, "numbers": total.numbers})
            leaves = self._rows(given, named)
            seen = digest.digest([seen, *itertools.chain.from_iterable(map(digest.sample, leaves))])
            if number >= done:
                part = self._part(given, named, leaves)
                total = part._replace(rows=total.rows + part.rows, numbers=total.numbers + part.numbers)
            elif number == done - 1 and kept is not None and seen != int(kept["seen"]):
                raise ArgumentError(f"{NAME}: {path} was written for other chunks", user_location(),
                                    "remove the file, or pass the chunks in the same order")
        return total, seen

    def _part(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[np.ndarray]) -> Part:
        """Return the result of this rank's rows in a call that has all its rows."""
        count = len(leaves[0])
        own = range(count) if self.sharded else range(count * rank() // size(), count * (rank() + 1) // size())

        def rows(start: int, stop: int) -> Call:
            return self._mapped(lambda x: x[start:stop], args, kwargs)
        # if there are no rows, one row gives the nesting and is not counted
        given, named = (rows(own.start, own.stop) if own else rows(0, 1) if count
                        else self._mapped(lambda x: np.zeros((1, *x.shape[1:]), x.dtype), args, kwargs))
        if own and self.check and size() > 1 and self.calls & (self.calls - 1) == 0 and self._probed < self.calls:
            self._probed = self.calls
            self._probe(lambda start, stop: rows(own.start + start, own.start + stop), min(PROBE, len(own)))
        value, gradient = self.local(*given, **named)
        value, aux = value if self.has_aux else (value, None)
        numbers, nesting = taken_apart((value, gradient))
        if not own:
            return Part(0, np.zeros_like(numbers), nesting)
        return Part(len(own), numbers * (len(own) if self.reduction == "mean" else 1), nesting, aux)

    def _probe(self, rows: Callable[[int, int], Call], count: int) -> None:
        """Raise ArgumentError if the program's value is not a sum (or mean) over rows: compares its value on a few rows
        with those on two parts of them; on no rows a sum is zero. Runs in the calls 1, 2, 4, 8 ..., before the rows are
        computed. The program's side effects are not performed, and its random numbers are drawn again afterwards.
        """
        def value(start: int, stop: int) -> Any:
            args, kwargs = rows(start, stop)
            sources = Found(self.__wrapped__, args, kwargs)
            give_back = hold([x for _, x in sources.sources.values()])
            try:
                found = returned(record(self.__wrapped__, args, kwargs, DEFAULT, found=sources))
            finally:
                give_back()
            return found[0] if self.has_aux else found
        half = (2 * count + 2) // 5
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            empty: Any = 0.0
            if self.reduction == "sum":
                with suppress(Exception):  # such as the maximum of no numbers
                    empty = value(0, 0)
            both, one, two = (value(0, count), value(0, half), value(half, count)) if half else (0.0, 0.0, 0.0)
        tolerance = np.sqrt(np.finfo(np.result_type(both, np.float16)).eps) * max(abs(both), abs(one), abs(two))
        sums = abs(one + two - both) <= tolerance
        means = abs(half * one + (count - half) * two - count * both) <= count * tolerance
        if np.isfinite(empty) and empty != 0:
            raise ArgumentError(f"{NAME}: {self.__name__} of an empty batch is {empty:.6g}, which each rank would add",
                                user_location(), "add terms that do not depend on rows, such as a penalty, outside; or "
                                                 'return the mean over rows, with reduction="mean"')
        if np.isfinite(both) and not (sums if self.reduction == "sum" else means):
            other = {"sum": "mean", "mean": "sum"}[self.reduction]
            raise ArgumentError(
                f"{NAME}: {self.__name__} is not a {self.reduction} over rows: {both:.6g} for {count} rows, {one:.6g} "
                f"and {two:.6g} for {half} and {count - half} of them", user_location(),
                f'reduction="{other}"' if (means if self.reduction == "sum" else sums) else
                "return a sum or mean over rows; check=False if only random numbers make it differ")

    def _sum(self, agreed: Sequence[int], part: Part, failed: bool = False) -> tuple[float, np.ndarray]:
        """Return the sums of rows and numbers over all ranks."""
        if size() == 1:
            return part.rows, part.numbers
        name, batch = self.__name__, ", ".join(map(str, self.batch))
        said = [SharedValue(self._program, f"the code or the options of {name} differ between ranks",
                       "run the same source on all ranks, and call functions in the same order"),
                SharedValue(agreed[0], f"dtypes, shapes or nesting of arguments or results of {name} differ by rank",
                       "make them equal on all ranks, except for the rows of the batch"),
                SharedValue(agreed[1], f"values of arguments of {name} other than {batch} differ between ranks",
                       "make them equal on all ranks: use the same seed, or broadcast them from one"),
                SharedValue(agreed[2], f"the batch {batch} of {name} differs between ranks",
                       "pass the whole arrays on each rank; or sharded=True if each rank has its own rows")]
        return team(self.timeout).sum(said, part.rows, part.numbers, failed)

    def _rows(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[np.ndarray]:
        """Return the arrays of the batch; raise ArgumentError if one has no rows, or the numbers of rows differ."""
        found: list[np.ndarray] = []
        for name, place in zip(self.batch, self.places):
            leaves = leaves_of(_at(self.__name__, name, place, args, kwargs))
            if not leaves or any(not isinstance(x, np.ndarray) or not x.ndim for x in leaves):
                what = "a tensor" if any(map(is_tensor, leaves)) else "a value without rows"
                raise ArgumentError(f"{NAME}: the batch argument {name!r} of {self.__name__} has {what}",
                                    user_location(), "NumPy arrays, one row for each example")
            found += leaves
        if len({len(x) for x in found}) > 1:
            raise ArgumentError(f"{NAME}: the batch of {self.__name__} has arrays of {sorted({len(x) for x in found})} "
                                "rows", user_location(), "arrays with as many rows each")
        return found

    def _mapped(self, fn: Callable[[Any], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call's arguments with `fn` applied to each array of the batch."""
        placed, named = list(args), dict(kwargs)
        for name, place in zip(self.batch, self.places):
            part = tree_map(fn, _at(self.__name__, name, place, args, kwargs))
            if isinstance(place, int) and place < len(placed):
                placed[place] = part
            else:
                named[str(name)] = part
        return tuple(placed), named

    def _others(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call's arguments that are not batched."""
        return (tuple([x for i, x in enumerate(args) if i not in self.places]),
                {name: x for name, x in kwargs.items() if name not in self.batch})

    def _with(self, chunk: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call's arguments with a chunk in the positions of the batch."""
        parts = chunk if isinstance(chunk, tuple) else (chunk,)
        if len(parts) != len(self.places):
            raise ArgumentError(f"{NAME}: a chunk has {len(parts)} parts", user_location(),
                                f"chunks of {', '.join(map(str, self.batch))}, a tuple where these are several")
        placed, named = list(args), dict(kwargs)
        for name, place, part in sorted(zip(self.batch, self.places, parts), key=lambda part: str(part[1])):
            if isinstance(place, int) and place <= len(placed):
                placed.insert(place, part)
            else:
                named[str(name)] = part
        return tuple(placed), named


def _at(f: str, name: int | str, place: int | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the batch argument of a call at `place`, its position or name."""
    if isinstance(place, int) and place < len(args):
        return args[place]
    if name in kwargs:
        return kwargs[str(name)]
    raise ArgumentError(f"{NAME}: {f} was called without its batch argument {name!r}", user_location(), "pass it")


def _place(f: Callable[..., Any], told: str, name: Any) -> int | str:
    """Return the position of a positional argument, or the name of a keyword; raise ArgumentError if there is none."""
    if isinstance(name, int) and name >= 0:
        return name
    parameters: dict[str, Any] = {}
    with suppress(TypeError, ValueError):
        parameters.update(inspect.signature(f).parameters)
    kinds = [parameter.kind for parameter in parameters.values()]
    if name in parameters and kinds[at := [*parameters].index(name)] <= inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return at
    if name in parameters or inspect.Parameter.VAR_KEYWORD in kinds:
        return str(name)
    raise ArgumentError(f"{NAME}: {told} has no argument {name!r}, which batch= names", user_location(),
                        f"batch of these: {', '.join(parameters)}" if parameters else "its number, from 0")


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, *,
                   batch: int | str | Sequence[int | str], sharded: bool = False,
                   reduction: Literal["sum", "mean"] = "sum", check: bool = True, timeout: float = 600.0,
                   **options: Any) -> DataParallel:
    """Return a function of f's arguments that returns `(value, dx)`, computed by all processes of `torchrun`.

    It is `tg.value_and_grad` with the rows of the arguments `batch` (names or positions) distributed over the ranks.
    Each rank calls it with the same arguments, and computes its share of the rows by compiled code; with `sharded`, the
    given batch is the rank's own share, of any length. Values and gradients are summed by one all-reduce, in double
    precision, and come out equal on all ranks, in their original types. Without `torchrun` it is `tg.value_and_grad`,
    to the last bit. Its `accumulate` takes an iterator of chunks. Aux is a rank's own, None if it has no rows.

    `f` must be the sum of its rows' values (`reduction="sum"`), or their mean, which weights ranks by their rows. With
    `check`, the calls 1, 2, 4, 8 ... test this on a few rows. `options` are those of `tg.value_and_grad`.

    All ranks raise DistributedError if one raises an error, ends, or does not join within `timeout` seconds; if
    programs, options, nesting, dtypes or shapes differ; if the arguments besides the batch are not equal to the last
    bit; and if sampled rows of the batch differ, unless it is `sharded`. Branches may differ, as the data do.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> def loss(w, X, y):
    ...     return np.mean((X @ w - y) ** 2)
    >>> step = tg.distributed.value_and_grad(loss, batch=("X", "y"), reduction="mean")
    >>> X, y = np.arange(8.0).reshape(4, 2), np.ones(4)
    >>> step(np.zeros(2), X, y)
    (np.float64(1.0), array([-6., -8.]))
    >>> step.accumulate(((X[i:i + 2], y[i:i + 2]) for i in (0, 2)), np.zeros(2))
    (np.float64(1.0), array([-6., -8.]))
    """
    names = (batch,) if isinstance(batch, (int, str)) else tuple(batch)
    if not names or len({*names}) < len(names):
        raise ArgumentError(f"{NAME}: batch={batch!r} names {'an argument twice' if names else 'no argument'}",
                            user_location(), 'batch=("X", "y"), the arguments that have a row for each example')
    if reduction not in ("sum", "mean"):
        raise ArgumentError(f"{NAME}: reduction is {reduction!r}", user_location(), 'reduction="sum" or "mean"')
    if argnums is None:
        raise ArgumentError(f"{NAME}: argnums is None, but there is no gradient by the batch", user_location(),
                            "argnums=0, or several")
    return DataParallel(f, argnums, has_aux, names, sharded, reduction, check, timeout, options)
