"""compare: a program in every mode, against plain NumPy, central differences, and the one-shot gradient."""

from __future__ import annotations

import collections
import functools
import warnings
from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np

import tapegrad as tg
from tests.fuzz.differences import as_before, verdict
from tests.fuzz.leaves import changed, contents, difference, is_smooth, leaves
from tests.fuzz.modes import FUNCTIONS, GRADIENTS, OFTEN, SOME, TAPES, Way, gives_gradient
from tests.fuzz.program import Loaded, Program, reseed

ONCE, DIFFERENCES = "grad", "differences"


class Find(NamedTuple):
    """Something that must not be: its kind, the mode, the number of the call, and what was seen."""

    kind: str
    mode: str
    call: int
    detail: str

    def is_like(self, other: Find) -> bool:
        """True for a find of the same kind in the same mode."""
        return self[:2] == other[:2]


class Outcome(NamedTuple):
    """What a call gave: a value, or an exception."""

    value: Any = None
    error: Exception | None = None


class Report(NamedTuple):
    """What was seen of a program: how it fared, finds, and what was refused, by mode."""

    outcome: str
    finds: list[Find]
    refused: collections.Counter[str]
    compared: collections.Counter[str]


def run(fn: Callable[..., Any], *args: Any) -> Outcome:
    """Call a function, in silence."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return Outcome(fn(*args))
    except RecursionError as err:
        return Outcome(error=ValueError(str(err)))
    except Exception as err:
        return Outcome(error=err)


def chosen(seed: int) -> set[str]:
    """Return the modes in which a program is run: the fast ones, and some of the slow ones."""
    random = Random(seed ^ 0x5EED)
    return {ONCE, DIFFERENCES, *random.sample(sorted(TAPES), random.choice(SOME)), *random.sample(sorted(GRADIENTS), random.choice(SOME)), *(name for name, share in OFTEN.items() if random.random() < share)}


def examine(program: Program, modes: Collection[str] | None = None) -> Report:
    """Run a program in its modes, or in the given ones, and say what was found."""
    return Comparison(program, chosen(program.seed) if modes is None else modes).report()


class Comparison:
    """One program's."""

    def __init__(self, program: Program, modes: Collection[str]) -> None:
        self.program, self.modes, self.finds = program, modes, list[Find]()
        self.refused: collections.Counter[str] = collections.Counter()
        self.compared: collections.Counter[str] = collections.Counter()
        single = any("float16" in text or "float32" in text or "complex64" in text for text in (program.main, *(t for _, t in program.modules), *(a for c in program.calls for a in c.arguments)))
        self.loose, self.coarse = (2e-3, True) if single else (1e-8, False)

    def report(self) -> Report:
        """Compare everything."""
        loaded = self.program.load()
        self.plain, self.left, writes = [], [], False
        try:
            for _, args in loaded.calls():
                before = contents(captured(loaded.f))
                self.plain.append(run(loaded.f, *args))
                self.left.append(contents(args))
                writes = writes or contents(captured(loaded.f)) != before  # the last call may put back what the first has changed
        except Exception:  # the program has left nothing that a later change finds
            return self.ended("of no use")
        if self.plain[0].error is not None or not finite(self.plain[0].value) or writes:
            return self.ended("of no use")  # what a function has captured is a copy, in a trace: what is written there is not seen outside
        self.random, self.stateful = drawing(self.program), self.is_stateful()
        loaded = self.program.load()
        self.once = list(self.each_call(loaded, ONCE, functools.partial(tg.grad, loaded.f, seed=loaded.cotangent())))
        outcome = "refused" if self.once[0].error is not None else "compared"
        if DIFFERENCES in self.modes:
            for k in (0, len(self.plain) - 1)[:1 + self.program.seed % 2]:  # the last of some
                self.check_slope(k)
        for name, make in FUNCTIONS.items():
            if name in self.modes and not (self.random and "torch" in name):  # torch's chance is another
                loaded = self.program.load()
                for _ in self.each_call(loaded, name, make(loaded.f, loaded.cotangent())):
                    pass
        self.check_tapes()
        return self.ended(outcome)

    def is_stateful(self) -> bool:
        """True if a call leaves something behind that another call sees."""
        loaded = self.program.load()
        for _ in range(3):
            reseed(0)
            got = run(loaded.f, *loaded.arguments(0))
            if got.error is not None or difference(got.value, self.plain[0].value, 0.0):
                return True
        return False

    def ended(self, outcome: str) -> Report:
        """Return the report."""
        return Report(outcome, self.finds, self.refused, self.compared)

    def found(self, kind: str, mode: str, k: int, detail: str) -> None:
        """Note a find."""
        self.finds.append(Find(kind, mode, k, detail))

    # -- functions, called one time after the other

    def each_call(self, loaded: Loaded, mode: str, way: Way) -> Iterator[Outcome]:
        """Call a function as the program is called, and compare, until it raises in the midst of what it leaves behind."""
        lost, kept = False, list[tuple[int, Any, Any]]()
        for k, args in loaded.calls():
            if lost:
                yield Outcome(error=LookupError("no call to compare with"))
                continue
            before = contents(args)
            got = run(way, *args)
            # what objects hold may be written to, as the program does it; never an argument
            if any(leaf not in (old, plain if len(leaf[0]) > 1 else old) for leaf, old, plain in zip(contents(args), before, self.left[k])):
                self.found("caller's array changed", mode, k, f"{before}\nis {contents(args)}")
            self.judge(mode, k, got, self.plain[k], self.once[k] if mode != ONCE and gives_gradient(mode) else None, history=True)
            lost = got.error is not None or (self.stateful and self.plain[k].error is not None)
            kept.append((k, got.value, contents(got.value)))
            yield got
        for k, value, before in kept:
            if contents(value) != before:
                self.found("a result changed afterwards", mode, k, f"{before}\nis {contents(value)}")

    # -- tapes, of the first call, played with the arguments of all

    def check_tapes(self) -> None:
        """Play tapes, and functions made of tapes, with the arguments of each call: all of them as if it were the first."""
        names = [name for name in (*TAPES, *GRADIENTS) if name in self.modes
                 and not (self.random and "load" in name)]  # with a generator of its own, as it was when the tape was saved
        if not names:
            return
        loaded = self.program.load()
        loaded.begin()
        traced = run(tg.trace, loaded.f, *loaded.arguments(0))
        if traced.error is not None:
            self.refuse("trace", 0, traced.error)
            return
        value, tape = traced.value
        self.judge("trace", 0, Outcome(value), self.plain[0], None, history=False)
        first = {call.arguments: k for k, call in reversed(list(enumerate(self.program.calls)))}  # the first of those that are alike
        for name in names:
            made = run(TAPES[name], tape) if name in TAPES else run(GRADIENTS[name], tape, loaded.cotangent())
            if made.error is not None:
                self.refuse(name, 0, made.error)
                continue
            for k in sorted(first.values()):
                args = loaded.arguments(k)
                before = contents(args)
                loaded.begin()
                got = run(made.value, *args)
                if contents(args) != before:
                    self.found("caller's array changed", name, k, f"{before}\nis {contents(args)}")
                want, gradient = self.at_first(k, False), self.at_first(k, True) if gives_gradient(name) else None
                self.judge(name, k, got, want, gradient, history=False)

    def at_first(self, k: int, gradient: bool) -> Outcome:
        """Return the outcome of a program's first call, were it made with the arguments of call k."""
        known: dict[tuple[int, bool], Outcome] = self.__dict__.setdefault("firsts", {})
        if (k, gradient) not in known:
            known[k, gradient] = self.reference(k, gradient, history=False)
        return known[k, gradient]

    def reference(self, k: int, gradient: bool, history: bool, move: Callable[[Any], Any] = lambda x: x, moves_captured: bool = False) -> Outcome:
        """Return what call k gives, plainly or by `grad`, of arguments that are moved, and what is captured, too; without `history` it is made first."""
        loaded = self.program.load()
        if moves_captured:
            move_captured(loaded.f, move)
        if history:
            for j in range(k):
                loaded.change(j)
                reseed(j)
                run(loaded.f, *loaded.arguments(j))
            loaded.change(k)
        args = move(list(loaded.arguments(k)))
        reseed(k if history else 0)
        return run(functools.partial(tg.grad, loaded.f, seed=loaded.cotangent()), *args) if gradient else run(loaded.f, *args)

    # -- judging

    def judge(self, mode: str, k: int, got: Outcome, plain: Outcome, gradient: Outcome | None, history: bool) -> None:
        """Compare what a mode gives with what plain Python gives, and with the gradient of `grad`."""
        if got.error is not None:
            if plain.error is None:
                self.refuse(mode, k, got.error, expected=gradient is not None and gradient.error is not None)
            return
        if plain.error is not None:
            self.found("the program raises", mode, k, f"{plain.error!r}, and here {got.value!r}")
            return
        self.compared[mode] += 1
        value = got.value[0] if gives_gradient(mode) else got.value
        if difference(value, plain.value, self.loose) and (said := difference(value, plain.value, self.loose, self.spread(k, False, history, plain.value))):
            self.found("value", mode, k, said)
        elif gradient is not None and gradient.error is None:
            slopes, want = got.value[1], gradient.value[1]
            if difference(slopes, want, 10 * self.loose) and (said := difference(slopes, want, 10 * self.loose, self.spread(k, True, history, want))):
                self.found("gradient", mode, k, said)

    def refuse(self, mode: str, k: int, err: Exception, expected: bool = False) -> None:
        """Note a refusal, or a crash: what tapegrad does not raise on purpose, or raises where a tape meets what it was recorded with."""
        harmless = isinstance(err, tg.TapeError)
        if mode in (*TAPES, *GRADIENTS):
            harmless = (k > 0  # the program takes another way, or catches it
                        or expected or (harmless and not isinstance(err, (tg.GuardError, tg.ReplayError)))
                        or isinstance(err, np.linalg.LinAlgError)  # of a matrix that is singular but for rounding
                        or "draws from" in str(err)  # Python's own generator: a tape cannot
                        or (self.random and mode.startswith("to_python") and isinstance(err, ValueError)))
        if harmless:
            self.refused[f"{mode}: {type(err).__name__}"] += 1
        else:
            self.found(f"crash {type(err).__name__}", mode, k, str(err))

    def spread(self, k: int, gradient: bool, history: bool, want: Any, far: float = 1.0) -> Any:
        """Return, by path, how far results go when numbers move a little, by rounding: an ill-conditioned program's differ for no other reason."""
        def noisy(path: Any, x: Any) -> Any:
            if not is_smooth(x):
                return x
            dtype = np.asarray(x).dtype
            by = far * (1e-12 if dtype.itemsize >= 8 + 8 * (dtype.kind == "c") else 1e-6)
            return type(x)(x + by * random.normal()) if not isinstance(x, np.ndarray) else (x + by * random.normal(size=x.shape)).astype(x.dtype)
        random = np.random.default_rng(k)
        wide: dict[Any, Any] = {path: 0.0 for path, _ in leaves(want)}
        for _ in range(3):
            moved = self.reference(k, gradient, history, lambda args: changed(args, noisy), moves_captured=True)
            if moved.error is not None:
                return dict.fromkeys(wide, np.inf)
            found = dict(leaves(moved.value[1] if gradient else moved.value))
            for path, x in leaves(want):
                other = found.get(path)
                if other is None or x is None or np.shape(other) != np.shape(x) or not is_smooth(x):
                    wide[path] = wide[path] if is_smooth(x) is False and repr(other) == repr(x) else np.inf
                else:
                    wide[path] = np.maximum(wide[path], np.abs(other - x))
        return wide

    def check_slope(self, k: int) -> None:
        """Compare a gradient of `grad` with central differences."""
        got = self.once[k]
        if got.error is not None or self.plain[k].error is not None or not finite(self.plain[k].value):
            return
        if any("ARG" in text for text in self.program.calls[k].arguments):  # of memory that two arguments share, differences move both
            return

        def value(move: Callable[[Any], Any]) -> Any:
            out = self.reference(k, False, True, move)
            if out.error is not None:
                raise out.error
            return out.value["r"] if isinstance(out.value, dict) else out.value[0] if isinstance(out.value, tuple) else out.value
        said = verdict(value, self.arguments(k), list(got.value[1][1:]), self.program.seed, self.coarse)
        if said not in ("", "kink") and (self.is_wild(k) or not self.is_wrong_nearby(k, value)):
            said = "kink"  # of what varies faster than differences tell; or at this very point: of elements that tie, say
        self.compared["kinks" if said == "kink" else DIFFERENCES] += 1
        if said not in ("", "kink"):
            self.found("slope", DIFFERENCES, k, said)

    def arguments(self, k: int) -> list[Any]:
        """Return arguments of call k, in a program to which only the changes before it have happened."""
        loaded = self.program.load()
        for j in range(k + 1):
            loaded.change(j)
        return list(loaded.arguments(k))

    def is_wild(self, k: int) -> bool:
        """True if the gradient is another one within a step of the differences: they cross waves, or a pole."""
        want = self.once[k].value[1]
        wide = self.spread(k, True, True, want, 1e4 if self.coarse else 1e6)
        top = max((float(np.max(np.abs(x), initial=0.0)) for _, x in leaves(want) if is_smooth(x)), default=0.0)
        return any(not np.all(np.asarray(x) < 0.1 * top) for x in wide.values())

    def is_wrong_nearby(self, k: int, value: Callable[[Callable[[Any], Any]], Any]) -> bool:
        """True if the gradient is wrong in a point beside the arguments of call k, too."""
        def beside(arguments: Any) -> Any:
            random = np.random.default_rng(self.program.seed)
            return changed(arguments, lambda path, x: as_before(x, x + 1e-2 * random.normal(size=np.shape(x))) if is_smooth(x) else x)
        got = self.reference(k, True, True, beside)
        return got.error is not None or verdict(lambda move: value(lambda arguments: move(beside(arguments))), beside(self.arguments(k)),
                                                list(got.value[1][1:]), self.program.seed, self.coarse) != ""


def captured(f: Any) -> list[Any]:
    """Return what a function has captured: in its closure, as a method's object, as a partial's arguments."""
    if isinstance(f, functools.partial):
        return [f.args, f.keywords]
    if hasattr(f, "__code__"):
        return [cell.cell_contents for cell in getattr(f, "__closure__", None) or ()] + [getattr(f, "__self__", None)]
    return [f]


def move_captured(f: Any, move: Callable[[Any], Any]) -> None:
    """Move the numbers that a function has captured."""
    if isinstance(f, functools.partial):
        f.__setstate__((f.func, tuple(move(list(f.args))), move(f.keywords), vars(f)))
    elif hasattr(f, "__code__"):
        for cell in getattr(f, "__closure__", None) or ():
            cell.cell_contents = move(cell.cell_contents)
        move(getattr(f, "__self__", None))
    else:
        move(f)


def drawing(program: Program) -> bool:
    """True if a program draws random numbers, or may."""
    return any(word in text for _, text in program.modules for word in ("random.", "RNG"))


def finite(value: Any) -> bool:
    """True if all numbers of a value are finite."""
    return all(bool(np.all(np.isfinite(x))) for _, x in leaves(value) if is_smooth(x))
