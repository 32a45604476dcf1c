"""worker: one case in a process of its own: the plain program, central differences, one gradient, and compiled ones.

It writes one line of JSON. `--plain` runs the program alone.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from bench.corpus.case import Case, load
from bench.worker import speaker

CALLS = 3  # of a compiled gradient, each with other arguments
STEADY, ENOUGH = 20, 2.0  # calls that are timed at most, and in how many seconds
DIRECTIONS = 4  # along which gradients by more numbers than COORDINATES are compared
COORDINATES = 6
SLOW = 10.0  # times the plain program

Outcome = dict[str, Any]


def main() -> None:
    """Run the case that is named, and tell what came of it."""
    parser = argparse.ArgumentParser(prog="python -m bench.corpus.worker")
    parser.add_argument("name")
    parser.add_argument("--plain", action="store_true", help="the program alone, without derivatives")
    options = parser.parse_args()
    tell = speaker()
    warnings.simplefilter("ignore")
    tell(outcome(load()[options.name], options.plain))


def outcome(case: Case, plain: bool = False, calls: int = CALLS) -> Outcome:
    """Return a case's status, and what is known besides."""
    found: Outcome = {}
    try:
        f, args = case.build()
        value, found["plain"] = timed(lambda: f(*args))
        if not math.isfinite(value):
            raise ValueError(f"the program's value is {value}")
    except Exception as err:
        return {**found, "status": "broken", "words": said(err)}
    if plain:
        return {**found, "status": "works", "value": float(value)}
    import tapegrad as tg
    numbers = tuple(range(len(args)))
    step = tg.value_and_grad(f, argnums=numbers, warmup=1)
    try:
        result, found["first"] = timed(lambda: tg.grad(f, *args, argnums=numbers))
        compared(f, args, result)
        found["one_shot"] = min(timed(lambda: tg.grad(f, *args, argnums=numbers))[1] for _ in range(calls))
        for call in range(calls):
            changed = moved(args, call)
            found["how"] = f"compiled, call {call + 1}"
            result, found["compiled"] = timed(lambda changed=changed: step(*changed))
            compared(f, changed, result)
        del found["how"]
        begin = perf_counter()
        for call in range(STEADY):
            changed = moved(args, call % (calls + 1))
            found["plain"] = min(found["plain"], timed(lambda changed=changed: f(*changed))[1])
            found["compiled"] = min(found["compiled"], timed(lambda changed=changed: step(*changed))[1])
            if perf_counter() - begin > ENOUGH:
                break
    except tg.TapeError as err:
        return {**found, "status": "refused", "error": type(err).__name__, "words": said(err)}
    except Wrong as err:
        return {**found, "status": "wrong", "words": str(err)}
    except Exception as err:
        return {**found, "status": "crashed", "words": said(err)}
    if not step.stats.hits:
        found["never_compiled"] = str(step.explain().last[-1])
    slow = found["compiled"] > SLOW * found["plain"]
    return {**found, "status": "slow" if slow else "works"}


def said(err: Exception) -> str:
    """Return an error's type and text, if it has one."""
    try:
        return f"{type(err).__name__}: {err}"
    except Exception:  # one that is made of traced values
        return type(err).__name__


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the seconds it took."""
    begin = perf_counter()
    return call(), perf_counter() - begin


class Wrong(Exception):
    """A gradient, or a value, that is not the program's."""


def compared(f: Callable[..., Any], args: tuple[Any, ...], result: tuple[Any, tuple[Any, ...]]) -> None:
    """Raise Wrong where a value differs from the program's, or a gradient from central differences at two steps."""
    value, gradient = float(result[0]), flat(result[1])
    plain = float(f(*args))
    if not math.isclose(value, plain, rel_tol=1e-9, abs_tol=1e-12):
        raise Wrong(f"the value is {value!r}, and that of the program {plain!r}")
    at = flat(args)
    if gradient.size != at.size:
        raise Wrong(f"{gradient.size} numbers in a gradient by {at.size}")
    scale = np.maximum(np.abs(at), 1e-2)
    for direction in directions(at.size):
        v = direction * scale
        exact = float(np.dot(gradient, v))
        coarse, fine = (difference(f, args, at, v, step) for step in (1e-4, 1e-5))
        rounding = 1e-10 * abs(plain)  # of a value, divided by the finer step
        if not abs(exact - fine) <= 1e-5 * abs(fine) + 20 * abs(coarse - fine) + rounding / 1e-2:
            raise Wrong(f"the slope along a direction is {exact!r}, and by differences {coarse!r} and {fine!r}")


def difference(f: Callable[..., Any], args: tuple[Any, ...], at: Any, v: Any, step: float) -> float:
    """Return a central difference along `v`."""
    above, below = (float(f(*filled(args, at + sign * step * v))) for sign in (1, -1))
    return (above - below) / (2 * step)


def directions(size: int) -> list[Any]:
    """Return each coordinate's direction where these are few, and random ones where they are many."""
    return (list(np.eye(size)) if size <= COORDINATES
            else list(np.random.default_rng(0).normal(size=(DIRECTIONS, size)) / size ** 0.5))


def flat(args: Any) -> Any:
    """Return the numbers of nested arguments, one behind the other."""
    if isinstance(args, (tuple, list)):
        return np.concatenate([np.zeros(0), *map(flat, args)])
    return np.zeros(1) if args is None else np.ravel(np.asarray(args, float))


def filled(args: Any, numbers: Any) -> Any:
    """Return arguments of the same nesting, with other numbers."""
    rest = list(numbers)

    def fill(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return type(x)(map(fill, x))
        if isinstance(x, np.ndarray):
            taken, rest[:x.size] = rest[:x.size], []
            return np.array(taken).reshape(x.shape)
        return float(rest.pop(0))
    return fill(args)


def moved(args: tuple[Any, ...], call: int) -> tuple[Any, ...]:
    """Return the arguments of a call: a little more of each number every time."""
    return filled(args, flat(args) * (1.0 + 0.003 * call))


if __name__ == "__main__":
    main()
