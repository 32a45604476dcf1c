"""python -m tests.fuzz.functions: every function of NumPy, SciPy and torch, called in many forms, with arguments of many kinds, in every mode, beside the library itself.

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
from tests.fuzz.compare import Outcome, finite, run
from tests.fuzz.differences import as_before, verdict
from tests.fuzz.leaves import changed, is_smooth
from tests.fuzz.limit import Hang, within
from tests.fuzz.namespaces import NAMESPACES, Namespace

Mode = Callable[[Any, Any], Any]
OF_ANY: dict[str, Mode] = {  # of a program, and of its tape
    "tape.play": lambda f, tape: tape.play,
    "optimise": lambda f, tape: tg.optimise(tape).play,
    "compile": lambda f, tape: tg.compile(f, warmup=1),
}
OF_ARRAYS: dict[str, Mode] = OF_ANY | {
    "compile(tape)": lambda f, tape: tg.compile(tape),
    "compile, on torch": lambda f, tape: tg.compile(f, backend="torch", warmup=1),
}
OF_TENSORS: dict[str, Mode] = OF_ANY | {
    "compile(tape)": lambda f, tape: tg.compile(tape, backend="torch"),
    "compile, on torch": lambda f, tape: tg.compile(f, backend="torch", warmup=1),
}
DIGITS = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-5, "complex64": 1e-5}


class Find(NamedTuple):
    """A call that is not the library's: what was called and how, the kinds of its arguments, the mode, what the library gives, and what came instead."""

    function: str
    form: str
    kinds: tuple[str, str]
    mode: str
    wanted: str
    found: str
    silent: bool = True


class Call:
    """One call: of which namespace, the name of the function, the form, the kinds of the arguments, and the program that makes it."""

    def __init__(self, space: Namespace, name: str, form: str, kinds: tuple[str, str]) -> None:
        self.space, self.name, self.form, self.kinds = space, name, form, kinds
        fn, called = space.functions[name], space.forms[form]

        def program(x: Any, y: Any) -> Any:
            return called(fn, x, y)
        self.program = program

    def find(self, mode: str, wanted: Outcome, found: Outcome) -> Find:
        """Return what is wrong with it."""
        return Find(self.name, self.form, self.kinds, mode, told(wanted), told(found), found.error is None)


def is_tensor(x: Any) -> bool:
    """True for a tensor of torch's."""
    return hasattr(x, "detach")


def is_number(x: Any) -> bool:
    """True for numbers, arrays and tensors."""
    return is_tensor(x) or isinstance(x, (bool, int, float, complex, np.ndarray, np.generic))


def own(x: Any) -> Any:
    """Return a copy of an argument that lies in memory as it does."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else copy.deepcopy(x)


def array(x: Any) -> Any:
    """Return numbers as an array of NumPy's."""
    if not is_tensor(x):
        return np.asarray(x)
    x = x.detach().resolve_conj().resolve_neg()
    return (x.double() if str(x.dtype) == "torch.bfloat16" else x).numpy(force=True)


def dtype_of(x: Any) -> str:
    """Return the name of the dtype of an array or a tensor."""
    return str(x.dtype if is_tensor(x) else np.asarray(x).dtype).removeprefix("torch.")


def same(a: Any, b: Any, on_torch: bool = False, digits: float = 1.0) -> bool:
    """True for equal shapes and dtypes, and numbers that are equal to rounding."""
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(same(x, y, on_torch, digits) for x, y in zip(a, b))
    if type(a).__module__.startswith(("scipy.", "torch.")) and hasattr(a, "__dict__") and not is_tensor(a):
        return type(a) is type(b) and all(same(x, getattr(b, name), on_torch, digits) for name, x in vars(a).items() if not name.startswith("_"))
    if not is_number(a):
        return callable(a) or bool(a == b)
    if not is_number(b):
        return False
    x, y = array(a), array(b)
    if x.shape != y.shape or (not on_torch and (dtype_of(a) != dtype_of(b) or is_tensor(a) != is_tensor(b))):
        return False
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    room = digits * DIGITS.get(dtype_of(a), 1e-9 if on_torch else 1e-12)
    with np.errstate(all="ignore"):
        return bool(np.allclose(x.astype(complex), y.astype(complex), rtol=room, atol=room, equal_nan=True))


def told(outcome: Outcome) -> str:
    """Return an outcome in one line."""
    return " ".join(repr(outcome.value if outcome.error is None else outcome.error).split())[:160]


def differs(plain: Outcome, found: Outcome, on_torch: bool = False) -> bool:
    """True for what a program's author would call wrong: another value, none, or one where the library raises. To refuse is no fault."""
    if found.error is not None:
        return plain.error is None and not isinstance(found.error, tg.TapeError)
    return plain.error is not None or run(same, plain.value, found.value, on_torch).value is not True


def namespace(name: str) -> Namespace:
    """Return the namespace of a function; raise KeyError if there is none."""
    for make in NAMESPACES.values():
        if name in (space := make()).functions:
            return space
    raise KeyError(name)


ATTEMPTS = 10  # to find a form that a function takes


def examine(seed: int, name: str | None = None, within: str = "numpy") -> tuple[list[Find], int]:
    """Return what was found of the call that a seed makes, and how many calls were compared."""
    random, draw = Random(seed), np.random.default_rng(seed)
    space = NAMESPACES[within]() if name is None else namespace(name)
    name = name or random.choice(list(space.functions))
    return next((found for _ in range(ATTEMPTS) if (found := attempt(seed, space, name, random, draw))[1]), ([], 0))


def attempt(seed: int, space: Namespace, name: str, random: Random, draw: np.random.Generator) -> tuple[list[Find], int]:
    """Return what was found of one form of call."""
    form, kind = random.choice(list(space.forms)), random.choice(list(space.kinds))
    call = Call(space, name, form, (kind, kind if random.random() < 0.6 else random.choice(list(space.kinds))))
    given = space.kinds[call.kinds[0]](draw), space.kinds[call.kinds[1]](draw)
    lapack = "linalg" in name
    if lapack and not all(np.isfinite(array(x)).all() for x in given):  # some of LAPACK's then never end
        return [], 0
    plain = run(call.program, *map(own, given))
    if plain.error is not None or differs(plain, run(call.program, *map(own, given))):  # it draws random numbers
        return [], 0
    other = space.kinds[random.choice(list(space.kinds) if not lapack else call.kinds)](draw)
    return judged(call, plain, [given, (space.kinds[kind](draw), space.kinds[call.kinds[1]](draw)), (other, given[1])], seed)


def judged(call: Call, plain: Outcome, calls: list[tuple[Any, Any]], seed: int) -> tuple[list[Find], int]:
    """Compare a call, and the functions that are made of it, with the library."""
    given, before = calls[0], list(map(own, calls[0]))
    traced = run(tg.trace, call.program, *given)
    if traced.error is not None:
        return ([call.find("trace", plain, traced)] if differs(plain, traced) else []), 1
    value, tape = traced.value
    finds = [call.find("trace", plain, Outcome(value))] if differs(plain, Outcome(value)) else []
    if not all(map(same, before, given)):
        finds.append(call.find("the caller's arrays", Outcome(before), Outcome(given)))
    if finds or call.name in call.space.open or any(op.kind == "call" and op.fn.__name__ == "draw" for op in tape):
        return [find for find in finds if call.name not in call.space.open], 1
    count = 1
    on_torch = any(map(is_tensor, given))
    for mode, make in (OF_TENSORS if on_torch else OF_ARRAYS).items():
        elsewhere = "torch" in mode and not on_torch  # where its order, and dtypes of results, are its own
        if (elsewhere and call.name in call.space.unordered) or (isinstance(value, str) and mode != "compile"):  # text is on no tape
            continue
        made = run(make, call.program, tape)
        if made.error is not None:
            finds += [call.find(mode, plain, made)] if not isinstance(made.error, tg.TapeError) else []
            continue
        for args in calls:
            wanted, found = run(call.program, *map(own, args)), run(made.value, *map(own, args))
            count += 1
            if differs(wanted, found, on_torch=elsewhere):
                finds.append(call.find(mode, wanted, found))
                break
    return finds + slopes(call, calls, seed), count + 1


# -- gradients


def numbers(value: Any) -> Iterator[Any]:
    """Yield the arrays and numbers of a result that may have a gradient."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from numbers(part)
    elif (is_tensor(value) and (value.is_floating_point() or value.is_complex())) or (not is_tensor(value) and isinstance(np.real(value), (float, np.ndarray, np.floating))
                                                                                       and np.asarray(value).dtype.kind in "fc"):
        yield value


def weighed(value: Any) -> Any:
    """Return one real number of all numbers of a result, each with another weight."""
    total: Any = 0.0
    for i, part in enumerate(numbers(value)):
        shape = tuple(part.shape) if hasattr(part, "shape") else ()
        weights = np.cos(np.arange(np.prod(shape, dtype=int)) + i).reshape(shape)
        if is_tensor(part):
            import torch
            part = part.to(torch.complex128 if part.is_complex() else torch.float64)
            total = total + ((part.real + 0.5 * part.imag if part.is_complex() else part) * torch.as_tensor(weights)).sum()
        else:
            total = total + np.sum((np.real(part) + 0.5 * np.imag(part)) * weights)
    return total


def autograd(objective: Callable[..., Any], args: tuple[Any, Any]) -> list[Any]:
    """Return gradients by torch's own tape, None for what is no tensor of real or complex numbers."""
    import torch
    roots = [x.detach().clone().requires_grad_() if is_tensor(x) and (x.is_floating_point() or x.is_complex()) else x for x in args]
    y = objective(*[x.clone() if is_tensor(x) else x for x in roots])
    wanted = [x for x in roots if is_tensor(x) and x.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, allow_unused=True, materialize_grads=True) if is_tensor(y) and y.requires_grad else map(torch.zeros_like, wanted))
    return [next(found) if is_tensor(x) and x.requires_grad else None for x in roots]


def slopes(call: Call, calls: list[tuple[Any, Any]], seed: int) -> list[Find]:
    """Return what is wrong with gradients: of torch's functions beside torch's own, else beside differences; and in later calls beside the first."""
    program = call.program

    def objective(x: Any, y: Any) -> Any:
        return weighed(program(x, y))
    on_torch = any(is_tensor(x) for args in calls for x in args)
    fast = tg.value_and_grad(objective, argnums=None, warmup=1)
    finds: list[Find] = []
    for k, args in enumerate(calls):
        plain = run(objective, *map(own, args))
        once = run(lambda *args: tg.grad(objective, *args)[1][1:], *map(own, args))
        later = run(lambda *args: fast(*args)[1][1:], *map(own, args))
        if once.error is not None and (plain.error is not None or isinstance(once.error, (tg.TapeError, np.linalg.LinAlgError))):
            if later.error is None and plain.error is not None:
                finds.append(call.find(f"value_and_grad, call {k}", plain, later))
            continue
        if plain.error is not None or once.error is not None:
            return [*finds, call.find(f"grad, call {k}", plain, once)]
        if (later.error is not None and not isinstance(later.error, tg.TapeError)) or (later.error is None and not alike(once.value, later.value, call, args)):
            finds.append(call.find(f"value_and_grad, call {k}", once, later))
        if not finite([float(plain.value)]):
            continue
        if on_torch:
            own_tape = run(autograd, objective, tuple(map(own, args)))
            if own_tape.error is None and not all(w is None or alike(w, g, call, args) for w, g in zip(own_tape.value, once.value)):
                return [*finds, call.find(f"torch.autograd, call {k}", own_tape, once)]
        elif call.name not in call.space.unordered and k < 2 and (said := against_differences(objective, args, once.value, seed)):
            beside = tuple(changed(own(x), lambda path, x: as_before(x, x + 1e-2 * np.random.default_rng(seed).normal(size=np.shape(x))) if is_smooth(x) else x) for x in args)
            moved = run(lambda *args: tg.grad(objective, *args)[1][1:], *map(own, beside))
            if moved.error is None and against_differences(objective, beside, moved.value, seed):  # or it was a kink
                return [*finds, Find(call.name, call.form, call.kinds, f"differences, call {k}", said, told(once))]
    return finds


def alike(wanted: Any, found: Any, call: Call, args: tuple[Any, Any]) -> bool:
    """True for gradients that are equal to rounding, in the precision of the least precise argument."""
    rough = max([1e-9, *(DIGITS.get(dtype_of(x), 0.0) for x in args if not isinstance(x, (list, tuple)))])
    return bool(gradients_equal(wanted, found, 10 * rough))


def gradients_equal(a: Any, b: Any, room: float) -> bool:
    """True for nested gradients that differ by rounding alone; None is 0."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(gradients_equal(x, y, room) for x, y in zip(a, b))
    if a is None or b is None:
        rest = b if a is None else a
        return rest is None or not np.any(array(rest))
    x, y = array(a), array(b)
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(x[np.isfinite(x)]), initial=1.0)
        return x.shape == y.shape and dtype_of(a) == dtype_of(b) and bool(np.allclose(x.astype(complex), y.astype(complex), rtol=room, atol=room * scale, equal_nan=True))


def against_differences(objective: Callable[..., Any], args: tuple[Any, Any], gradient: Any, seed: int) -> str:
    """Say how a gradient differs from central differences; "" where it does not, or they tell nothing."""
    coarse = any("float16" in dtype_of(x) or dtype_of(x) in DIGITS for x in args)

    def value(move: Callable[[Any], Any]) -> Any:
        outcome = run(objective, *move([own(x) for x in args]))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
    said = verdict(value, list(args), list(gradient), seed, coarse)
    return "" if said in ("", "kink") else said


def search(seeds: Iterator[int], seconds: float, within_space: str = "numpy", name: str | None = None) -> Iterator[tuple[int, list[Find], int]]:
    """Examine seeds for a time."""
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            return
        try:
            with within(20.0):
                found = examine(seed, name, within_space)
        except Hang:
            found = [Find(f"seed {seed}", "", ("", ""), "", "an end", "none in 20 seconds")], 1
        yield seed, *found


def main() -> int:
    """Search, and print what was found, each function's first."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.functions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("namespace", choices=NAMESPACES, nargs="?", default="numpy")
    parser.add_argument("--function", help="one function's name")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--silent", action="store_true", help="print what is silently wrong alone, and no other errors than the library's")
    options = parser.parse_args()
    shown: collections.Counter[str] = collections.Counter()
    programs = count = 0
    for seed, finds, compared in search(iter(range(options.first, sys.maxsize)), options.seconds, options.namespace, options.function):
        programs, count = programs + bool(compared), count + compared
        for find in [find for find in finds if find.silent or not options.silent][:1]:
            shown[find.function] += 1
            if shown[find.function] <= 3:
                print(f"{seed}: {find.function}, {find.form} of {' and '.join(find.kinds)}, {find.mode}\n    {find.wanted}\n    {find.found}", flush=True)
    print(f"{programs} programs, {count} calls compared, {sum(shown.values())} with finds: {dict(shown.most_common())}")
    return bool(shown)


if __name__ == "__main__":
    sys.exit(main())
