"""python -m tests.fuzz.functions: every function of NumPy, called in many forms, with arguments of many kinds, in every mode, beside NumPy itself.

The programs of `python -m tests.fuzz` are long, and made of what programs are often made of. Here each is one call, of what may be rare: a list
where there is an array most often, `out=` by position, a Python number beside one in single precision.
"""

from __future__ import annotations

import argparse
import collections
import copy
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np

import tapegrad as tg
from tapegrad.rules.registry import FOREIGN, Refusal
from tests.fuzz.compare import Outcome, run

Draw = np.random.Generator

KINDS: dict[str, Callable[[Draw], Any]] = {
    "float64": lambda r: r.normal(size=(3, 3)),
    "float32": lambda r: r.normal(size=(3, 3)).astype(np.float32),
    "float16": lambda r: r.normal(size=(3, 3)).astype(np.float16),
    "complex": lambda r: r.normal(size=(3, 3)) + 1j * r.normal(size=(3, 3)),
    "int64": lambda r: r.integers(-3, 5, size=(3, 3)),
    "bool": lambda r: r.random((3, 3)) < 0.5,
    "vector": lambda r: r.normal(size=4),
    "one element": lambda r: r.normal(size=1),
    "no element": lambda r: np.zeros((0, 3)),
    "no axes": lambda r: np.array(r.normal()),
    "three axes": lambda r: r.normal(size=(2, 3, 3)),
    "in columns": lambda r: np.asfortranarray(r.normal(size=(3, 3))),
    "with gaps": lambda r: r.normal(size=(3, 6))[::-1, ::2],
    "ties": lambda r: r.integers(0, 3, size=(3, 3)).astype(float),
    "some nan": lambda r: np.where(r.random((3, 3)) < 0.3, np.nan, r.normal(size=(3, 3))),
    "extremes": lambda r: r.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], size=(3, 3)),
    "positive definite": lambda r: np.cov(r.normal(size=(3, 9))) + np.eye(3),
    "np.float64": lambda r: np.float64(r.normal()),
    "np.float32": lambda r: np.float32(r.normal()),
    "np.int64": lambda r: np.int64(r.integers(-3, 5)),
    "a float": lambda r: float(r.normal()),
    "an int": lambda r: int(r.integers(-3, 5)),
    "True or False": lambda r: bool(r.random() < 0.5),
    "a complex number": lambda r: complex(r.normal(), r.normal()),
    "a list": lambda r: r.normal(size=3).tolist(),
    "a list of lists": lambda r: r.normal(size=(2, 2)).tolist(),
}


def _into(f: Any, x: Any, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape)
    return f(x, out=out), out


FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "f(x)": lambda f, x, y: f(x),
    "f(x, y)": lambda f, x, y: f(x, y),
    "f(x, x)": lambda f, x, y: f(x, x),
    "f(x, y, x)": lambda f, x, y: f(x, y, x),
    "f(x > 0, x, y)": lambda f, x, y: f(np.asarray(x) > 0, x, y),
    "f([x, y])": lambda f, x, y: f([x, y]),
    "f((x, y), 0)": lambda f, x, y: f((x, y), 0),
    "f(2.0, x)": lambda f, x, y: f(2.0, x),
    "f(x, axis=0)": lambda f, x, y: f(x, axis=0),
    "f(x, axis=-1)": lambda f, x, y: f(x, axis=-1),
    "f(x, keepdims=True)": lambda f, x, y: f(x, keepdims=True),
    "f(x, axis=0, keepdims=True)": lambda f, x, y: f(x, axis=0, keepdims=True),
    "f(x, dtype=np.float32)": lambda f, x, y: f(x, dtype=np.float32),
    "f(x, where=x > 0, initial=1.0)": lambda f, x, y: f(x, where=np.asarray(x) > 0, initial=1.0),
    "f(x, out=zeros((3, 3)))": lambda f, x, y: _into(f, x, (3, 3)),
    "f(x, out=zeros(3))": lambda f, x, y: _into(f, x, (3,)),
    "f(x, [[0, 1], [1, 0]], axis=0)": lambda f, x, y: f(x, np.array([[0, 1], [1, 0]]), axis=0),
    "f(x, [0, 1])": lambda f, x, y: f(x, [0, 1]),
    "f(x, (1, 0))": lambda f, x, y: f(x, (1, 0)),
    "f(x, [0.3, 0.6], axis=-1)": lambda f, x, y: f(x, [0.3, 0.6], axis=-1),
    **{f"f(x, {rest})": eval(f"lambda f, x, y: f(x, {rest})") for rest in ("1", "2.0", "3", "0.5", "0, 1", "-1, 1")},
}


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def _functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of NumPy's that tapegrad has a meaning for, and the methods of arrays, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for prefix, module in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
        known = {name: fn for name, fn in vars(module).items() if not name.startswith("_") and callable(fn) and fn.__hash__ is not None}
        found |= {f"{prefix}.{name}": fn for name, fn in known.items() if fn in FOREIGN and type(FOREIGN[fn]) is not Refusal}
    methods = {name: fn for name, fn in vars(np.ndarray).items() if callable(fn) and not name.startswith("_") and fn in FOREIGN}
    return found | {f"x.{name}": _method(name) for name in methods}


FUNCTIONS = _functions()
OPEN = {"np.empty_like", "x.resize"}  # what they hold is anyone's guess
UNORDERED = {f"{prefix}.{name}" for prefix, names in (  # where NumPy's order or sign is as good as another: torch has its own
    ("np", "argsort argpartition partition"), ("x", "argsort argpartition partition"), ("np.linalg", "eig eigh qr svd")) for name in names.split()}
MODES: dict[str, Callable[[Any, Any], Any]] = {  # of a program, and of its tape
    "tape.play": lambda f, tape: tape.play,
    "optimise": lambda f, tape: tg.optimise(tape).play,
    "compile(tape)": lambda f, tape: tg.compile(tape),
    "compile": lambda f, tape: tg.compile(f, warmup=1),
    "compile, on torch": lambda f, tape: tg.compile(f, backend="torch", warmup=1),
}
DIGITS = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-5, np.dtype(np.complex64): 1e-5}


class Find(NamedTuple):
    """A call that is not NumPy's: what was called and how, the kinds of its arguments, the mode, what NumPy gives, and what came instead."""

    function: str
    form: str
    kinds: tuple[str, str]
    mode: str
    wanted: str
    found: str


def own(x: Any) -> Any:
    """Return a copy of an argument that lies in memory as it does."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else copy.deepcopy(x)


def same(a: Any, b: Any, on_torch: bool = False) -> bool:
    """True for equal shapes and dtypes, and numbers that are equal to rounding."""
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(same(x, y, on_torch) for x, y in zip(a, b))
    if isinstance(a, (type, np.dtype, str, type(None))):
        return bool(a == b)
    x, y = np.asarray(a), np.asarray(b.resolve_conj().numpy() if on_torch and hasattr(b, "resolve_conj") else b)
    if x.shape != y.shape or (not on_torch and x.dtype != y.dtype):
        return False
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    digits = DIGITS.get(x.dtype, 1e-9 if on_torch else 1e-12)
    return bool(np.allclose(x.astype(complex), y.astype(complex), rtol=digits, atol=digits, equal_nan=True))


def told(outcome: Outcome) -> str:
    """Return an outcome in one line."""
    return " ".join(repr(outcome.value if outcome.error is None else outcome.error).split())[:160]


def differs(plain: Outcome, found: Outcome, on_torch: bool = False) -> bool:
    """True for what a program's author would call wrong: another value, none, or one where NumPy raises. To refuse is no fault."""
    if found.error is not None:
        return plain.error is None and not isinstance(found.error, tg.TapeError)
    return plain.error is not None or not same(plain.value, found.value, on_torch)


def examine(seed: int, name: str | None = None) -> tuple[list[Find], int]:
    """Return what was found of the call that a seed makes, and how many calls were compared."""
    random, draw = Random(seed), np.random.default_rng(seed)
    name, form, kind = name or random.choice(list(FUNCTIONS)), random.choice(list(FORMS)), random.choice(list(KINDS))
    other = kind if random.random() < 0.6 else random.choice(list(KINDS))
    fn, called = FUNCTIONS[name], FORMS[form]

    def program(x: Any, y: Any) -> Any:
        return called(fn, x, y)

    def of(mode: str, plain: Outcome, found: Outcome) -> Find:
        return Find(name, form, (kind, other), mode, told(plain), told(found))
    given = KINDS[kind](draw), KINDS[other](draw)
    if name.startswith("np.linalg") and not all(np.isfinite(x).all() for x in given):  # some of LAPACK's then never end
        return [], 0
    plain = run(program, *map(own, given))
    if plain.error is not None:
        return [], 0
    traced, before = run(tg.trace, program, *given), list(map(own, given))
    if traced.error is not None:
        return ([of("trace", plain, traced)] if differs(plain, traced) else []), 1
    value, tape = traced.value
    finds = [of("trace", plain, Outcome(value))] if differs(plain, Outcome(value)) else []
    if not all(map(same, before, given)):
        finds.append(of("the caller's arrays", Outcome(before), Outcome(given)))
    if finds or name in OPEN or any(op.kind == "call" and op.fn.__name__ == "draw" for op in tape):
        return [find for find in finds if name not in OPEN], 1
    finite = list(KINDS) if not name.startswith("np.linalg") else [kind, other]
    calls = [given, (KINDS[kind](draw), KINDS[other](draw)), (KINDS[random.choice(finite)](draw), given[1])]
    count = 1
    for mode, make in MODES.items():
        if ("torch" in mode and name in UNORDERED) or (isinstance(value, str) and mode != "compile"):  # text is on no tape
            continue
        made = run(make, program, tape)
        if made.error is not None:
            finds += [of(mode, plain, made)] if not isinstance(made.error, tg.TapeError) else []
            continue
        for args in calls:
            wanted, found = run(program, *map(own, args)), run(made.value, *map(own, args))
            count += 1
            if differs(wanted, found, on_torch="torch" in mode):
                finds.append(of(mode, wanted, found))
                break
    return finds, count


def search(seeds: Iterator[int], seconds: float) -> Iterator[tuple[int, list[Find], int]]:
    """Examine seeds for a time."""
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            return
        yield seed, *examine(seed)


def main() -> int:
    """Search, and print what was found, each function's first."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.functions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    shown: collections.Counter[str] = collections.Counter()
    programs = count = 0
    for seed, finds, compared in search(iter(range(options.first, sys.maxsize)), options.seconds):
        programs, count = programs + bool(compared), count + compared
        for find in finds[:1]:
            shown[find.function] += 1
            if shown[find.function] <= 3:
                print(f"{seed}: {find.function}, {find.form} of {' and '.join(find.kinds)}, {find.mode}\n    {find.wanted}\n    {find.found}")
    print(f"{programs} programs, {count} calls compared, {sum(shown.values())} with finds: {dict(shown.most_common())}")
    return bool(shown)


if __name__ == "__main__":
    sys.exit(main())
