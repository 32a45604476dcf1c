"""grad: the stages composed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import name_of
from tapegrad.rules.activity import activity, differentiated
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.random_state import Found
from tapegrad.trace.tracer import record
from tapegrad.trace.value_retention import Economy
from tapegrad.trace.write_back import settle
from tapegrad.transforms.reverse import back, sweep, taken
from tapegrad.transforms.rewrite import rewrite
from tapegrad.transforms.seed import start
from tapegrad.tree.argnums import ALL, Argnums, Wanted, wanted


def grad(f: Callable[..., Any], /, *args: Any, seed: Any = 1, argnums: Argnums = None, captured: bool = True,
         **kwargs: Any) -> tuple[Any, Any]:
    """Return the value of `f(*args, **kwargs)` and `(df, *dargs)`, its gradient by what `f`
    captured and by each argument.

    One forward and one reverse pass, no compilation. Gradients mirror the arguments' nesting, types, shapes and dtypes;
    `df` is a dict by name for a closure, an object for a bound method or callable object, None where nothing was
    captured. Keyword arguments are passed on and not differentiated. `seed` is the cotangent of the output, needed
    where that is no real scalar. Raises MissingRule for a function without a rule.

    With `argnums`, an argument's number or several, the gradient by those alone, `dx` or `(dx, dy)`; with
    `captured=False` none by what `f` captured. What is not asked for is not computed.

    >>> grad(lambda a, b: a / (a + b * b), 2.0, 3.0)
    (0.18181818181818182, (None, 0.0743801652892562, -0.09917355371900827))
    >>> grad(lambda a, b: a * b, 2.0, 3.0, argnums=0)
    (6.0, 3.0)
    """
    economy = Economy()
    with collector:
        tape = record(f, args, kwargs, DEFAULT, grad=True, once=economy, wanted=wanted(argnums, captured),
                      replays=False)
        value = tape.result.val  # type: ignore[union-attr]
        gradients = gradients_of(tape, seed, economy=economy)
        settle(tape)
        return value, gradients


def gradient(f: Callable[..., Any], /, *args: Any, seed: Any = 1, **kwargs: Any) -> tuple[Any, ...]:
    """Return the gradient by each positional argument, and by nothing else.

    What `f` captured is constant here, so no work goes into its gradient.

    >>> gradient(lambda a, b: a * b, 2.0, 3.0)
    (3.0, 2.0)
    """
    economy = Economy()
    with collector:
        tape = record(f, args, kwargs, DEFAULT, grad=True, once=economy, wanted=Wanted(captured=False), replays=False)
        gradients = gradients_of(tape, seed, economy=economy)
        settle(tape)
        return gradients[1:]  # type: ignore[no-any-return]


def pullback(f: Callable[..., Any], /, *args: Any, argnums: Argnums = None, captured: bool = True,
             **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the value of `f(*args, **kwargs)` and a function from a seed to `(df, *dargs)`; `argnums` and
    `captured` are those of `grad`.

    >>> value, back = pullback(lambda a, b: a * b, 2.0, 3.0)
    >>> value, back(10.0)
    (6.0, (None, 30.0, 20.0))
    """
    # on copies: what the caller writes to an array before the seed comes must not change the gradient
    tape = record(f, args, kwargs, DEFAULT, grad=True, copy=True, wanted=wanted(argnums, captured), replays=False)
    settle(tape)

    def back(seed: Any) -> Any:
        return gradients_of(tape, seed)
    return tape.result.val, back  # type: ignore[union-attr]


def vjp(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return the value of `f(*args, **kwargs)` and a function from a cotangent of the value, nested and shaped as that
    is, to the cotangents of the positional arguments, as JAX has it; what `f` captured is constant.

    >>> value, back = vjp(lambda a, b: a * b, 2.0, 3.0)
    >>> value, back(10.0)
    (6.0, (30.0, 20.0))
    """
    value, back = pullback(f, *args, captured=False, **kwargs)
    return value, lambda cotangent: back(cotangent)[1:]


def gradient_of(f: Callable[..., Any], asked: Wanted) -> Callable[..., Any]:
    """Return the gradient of a function, of a real number, as a function of the same arguments,
    to be differentiated again.
    """
    def gradient(*args: Any, **kwargs: Any) -> Any:
        tape = record(f, args, kwargs, DEFAULT, grad=True, wanted=asked.among(len(args)), replays=False)
        found = gradients_of(tape, 1)
        settle(tape)  # after the sweep, which reads what the arrays held
        return found
    gradient.__name__ = name_of(f)
    return gradient


def gradtape(f: Callable[..., Any] | Tape, /, *args: Any, seed: Any = 1, argnums: Argnums = None, captured: bool = True,
             **kwargs: Any) -> Tape:
    """Return the tape that computes the value and gradient: the primal calls as triples, then the reverse sweep.

    `f` may be a tape, as traced or edited by hand, or a gradient tape: that is made flat first. Playing the result
    gives what `grad` returns; `argnums` and `captured` are those of `grad`, for a function.

    >>> tape = gradtape(lambda a, b: a * b, 2.0, 3.0)
    >>> tape.play(4.0, 5.0)
    (20.0, (None, 5.0, 4.0))
    """
    from tapegrad.transforms.primitivize import flattened
    asked = wanted(argnums, captured)
    if isinstance(f, Tape) and asked != ALL:
        raise ArgumentError("a tape has its gradient by all its arguments", None,
                            "tg.gradtape(f, *args, argnums=...) of the function itself")
    with collector:
        tape = (flattened(f) if isinstance(f, Tape)
                else record(f, args, kwargs, DEFAULT, grad=True, found=Found(f, args, kwargs), wanted=asked))
        found = back(rewrite(tape.check()), seed)
        settle(tape)
        return found


def gradients_of(tape: Tape, seed: Any, economy: Economy | None = None) -> Any:
    """Return `(df, *dargs)`, or what is wanted of that, of a primal tape that has its values, by one reverse sweep:
    with an `economy` the last one, which frees the values.
    """
    result = tape.result
    assert result is not None
    wrt = differentiated(tape)
    active = activity(tape, wrt)
    begun = start(result.val, seed)
    cot = sweep(tape, begun, active, last=economy is not None, thrifty=economy is not None and economy.begun)
    inputs = tape.inputs
    dxs: list[Any] = [None] * (len(inputs) - 1)
    for k, x in enumerate(inputs):
        if k in wrt:
            dxs[k - 1] = taken(cot, x.id, x.val)
    return tape.structure.gradients(dxs)
