"""compiling: the functions `compile` and `value_and_grad`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar, overload

from tapegrad.compile.attempt import Attempt
from tapegrad.compile.backend import First, choose, recorded_result
from tapegrad.compile.cache import Compiled
from tapegrad.compile.effects import apart
from tapegrad.compile.memo import anew, memoised
from tapegrad.errors import ArgumentError, user_location
from tapegrad.numbers.systems import has_others
from tapegrad.optimise.pipeline import DEFAULT as PASSES
from tapegrad.optimise.pipeline import Pass
from tapegrad.optimise.roll import roll
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.trace.value_retention import Retention
from tapegrad.transforms.flat_gradient import flatgrad
from tapegrad.transforms.grad import grad, gradients_of
from tapegrad.transforms.loop_types import NoLoop
from tapegrad.transforms.seed import pair_of
from tapegrad.tree.argnums import Argnums, wanted

P = ParamSpec("P")
R = TypeVar("R")
BackendName = Literal["numpy", "torch"]
Mode = Literal["auto", "native", "numpy", "eager", "graph", "inductor"]


@overload
def compile(f: Tape, *, backend: BackendName | None = None, device: Any = None, mode: Mode = "auto",
            passes: Sequence[Pass] = PASSES, max_tapes: int = 16, warmup: int | None = None) -> Callable[..., Any]: ...
@overload
def compile(f: Callable[P, R], *, backend: BackendName | None = None, device: Any = None, mode: Mode = "auto",
            passes: Sequence[Pass] = PASSES, max_tapes: int = 16, warmup: int | None = None) -> Compiled[P, R]: ...
@memoised
def compile(f: Any, *, backend: BackendName | None = None, device: Any = None, mode: Mode = "auto",
            passes: Sequence[Pass] = PASSES, max_tapes: int = 16, warmup: int | None = None) -> Any:
    """Return a fast version of a function, traced at its first call, or of a tape, for arguments of the recorded kinds.

    A function keeps a tape for each kind of arguments (nesting, types, dtypes, shapes, static values) and each path
    through its branches; beyond `max_tapes` it drops the least recently used one. Every call checks whether the values
    that the function reads besides its arguments have changed. A path is compiled when its traces agree. If anything
    but its inputs decides what it computes (a counter, a clock, a file), it stays traced, with a RetraceWarning. It is
    compiled after `warmup` traced calls; by default after two, or, if compiling is expected to take over 50 ms, once
    its traced calls have taken as long. Results are fresh arrays. The function of a tape raises GuardError if a guard
    fails.

    `mode` is "native" for machine code ("auto" too, if llvmlite is installed and most of a tape has machine code) or
    "numpy" for straight-line NumPy. Raises ArgumentError for another mode.

    `backend` is "numpy" or "torch"; by default calls with tensors run on torch, others on NumPy. With `backend="torch"`
    the arguments may be arrays and tensors, and results are tensors on `device` (by default the arguments' device).
    Program and tape may use NumPy or torch. `mode` is "eager" ("auto" too: one torch call after the other), "graph"
    (one CUDA graph; Python numbers are fixed) or "inductor" (torch's compiler).

    >>> import tapegrad as tg
    >>> fast = tg.compile(lambda a, b: a / (a + b * b), warmup=1)
    >>> fast(2.0, 3.0), fast(4.0, 6.0), fast.stats
    (0.18181818181818182, 0.1, Stats(traces=1, hits=1, misses=0))
    """
    chosen = choose(backend, device, mode, passes)
    if isinstance(f, Tape):
        if has_others(f.ops):
            raise ArgumentError(f"{f.name} computes with exact numbers or a number type of its own, which cannot be "
                                "compiled", None,
                                "tape.play(...), or compile the function instead of the tape: it is then traced at "
                                "each call")
        return chosen.compile(f)

    def make(attempt: Attempt, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
        tape = record(fn, args, kwargs, DEFAULT, once=Retention(sweeps=False), observer=attempt.observer,
                      found=attempt.find(fn, args, kwargs), replays=attempt.compared)
        result = recorded_result(tape)
        if not attempt.keeps(tape):
            return First(None, result)
        tape = attempt.general(tape)
        return First(roll(tape) if chosen.rolls else tape, result)
    again = partial(anew, compile, f, backend=backend, device=device, mode=mode, passes=passes, max_tapes=max_tapes,
                    warmup=warmup)
    return Compiled(f, make, f, max_tapes, chosen, warmup, sweeps=False, again=again)


@memoised
def value_and_grad(f: Callable[P, R], argnums: Argnums = 0, has_aux: bool = False, *, captured: bool = True,
                   seed: Any = 1, backend: BackendName | None = None, device: Any = None, mode: Mode = "auto",
                   passes: Sequence[Pass] = PASSES, max_tapes: int = 16,
                   warmup: int | None = None, mesh: Any = None,
                   placements: Mapping[str, Any] | None = None) -> Compiled[P, tuple[R, Any]]:
    """Return a function of f's arguments that returns `(value, dx)`, from compiled gradient tapes, as in JAX and
    autograd, and as `scipy.optimize` accepts it.

    `argnums` is the position of the argument to differentiate by, for a method 0 is the object itself; several give a
    tuple of gradients in their order. Values that `f` captured are constant. With `argnums=None` the function returns
    the same as `grad(f, *args)`, `(value, (df, *dargs))`; then `captured` is that of `grad`. With `has_aux`, `f`
    returns a pair; the first item is differentiated, the second only returned: `((value, aux), dx)`.

    As with `compile`, a call runs a tape that fits, or is traced: branches may change from call to call. `backend`,
    `device`, `mode` and `warmup` are those of `compile`.

    With `backend="torch"` and a `mesh` of `torch.distributed`, a NumPy program runs on DTensors. The arguments are
    arrays, equal in all processes, or DTensors; `placements` maps argument names to their placements, as in `{"X":
    Shard(0)}`, and other arguments are replicated. A gradient is a DTensor placed like its argument, the value a
    replicated tensor. Each process traces with the whole arrays.

    >>> import tapegrad as tg
    >>> step = tg.value_and_grad(lambda a, b: a * b if a > 0 else b, warmup=1)
    >>> step(2.0, 3.0), step(-2.0, 3.0), step(4.0, 3.0)
    ((6.0, 3.0), (3.0, 0.0), (12.0, 3.0))
    >>> step.stats
    Stats(traces=2, hits=1, misses=0)
    """
    if mesh is not None and (backend != "torch" or device is not None):
        raise ArgumentError("mesh= is for torch tensors, which are placed on its devices", user_location(),
                            'backend="torch", without device=')
    chosen = choose(backend, device, mode, passes) if mesh is None else choose("mesh", mesh, mode, passes)
    asked = wanted(argnums, captured)
    given, seed = seed, (seed, None) if has_aux else seed

    def make(attempt: Attempt, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
        retention = Retention()
        with collector:
            found = attempt.find(fn, args, kwargs)
            tape = record(fn, args, kwargs, DEFAULT, grad=True, once=retention, observer=attempt.observer, found=found,
                          wanted=asked, replays=attempt.compared)
            if has_aux:
                pair_of(tape.result.val)
            if not attempt.keeps(tape):
                value = recorded_result(tape)
                return First(None, (value, gradients_of(tape, seed, retention=retention)))
            stores = attempt.stored is not None
            begun = (seed, None) if stores else seed
            general = attempt.general(tape)
            rolled = roll(general) if chosen.rolls else general
            short = None
            if rolled is not general:
                with suppress(NoLoop):  # a loop without gradient
                    short = flatgrad(rolled, begun, release=True, unrolls=False)
            if short is None:
                flat = flatgrad(general, begun, release=True, unrolls=False)
                result = recorded_result(flat)
                return First(flat, apart(result, True)[0] if stores else result)
            value = recorded_result(tape)
            return First(short, (value[0] if stores else value, gradients_of(tape, begun, retention=retention)))

    def plainly(*args: Any, **kwargs: Any) -> Any:
        return grad(f, *args, seed=given, argnums=argnums, captured=captured, has_aux=has_aux, **kwargs)
    again = partial(anew, value_and_grad, f, argnums, has_aux, captured=captured, seed=given, backend=backend,
                    device=device, mode=mode, passes=passes, max_tapes=max_tapes, warmup=warmup, mesh=mesh,
                    placements=placements)
    step: Compiled[P, Any] = Compiled(f, make, plainly, max_tapes, chosen, warmup, sweeps=True, again=again)
    if mesh is None:
        return step
    return chosen.placed(step, f, placements or {}, argnums)  # type: ignore[no-any-return, attr-defined]

