"""grad: gradients of functions, composed of the stages of the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from tapegrad.errors import ArgumentError
from tapegrad.progress import Work
from tapegrad.rules.activity import activity, differentiated
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.conversions import of_type
from tapegrad.trace.inputs import named_as
from tapegrad.trace.random_state import Found
from tapegrad.trace.results import returned_copy
from tapegrad.trace.tracer import record
from tapegrad.trace.value_retention import Retention
from tapegrad.trace.write_back import settle
from tapegrad.transforms.reverse import back, sweep, taken
from tapegrad.transforms.rewrite import rewrite
from tapegrad.transforms.seed import pair_of, start, unit_of_result, with_unit
from tapegrad.transforms.watched import check_sweep, context, watch
from tapegrad.tree.argnums import ALL, Argnums, Plain, Wanted, wanted
from tapegrad.tree.keywords import check_keywords

R = TypeVar("R")

OPTIONS = ("argnums", "captured", "seed", "has_aux")
TWICE = ("sum the output, or tg.jacobian(tg.jacobian(f))(x) for the second derivatives of each element: a Hessian is "
         "defined for one real number")


@overload
def grad(f: Plain[R], /, *args: Any, seed: Any = 1, argnums: Argnums = None, captured: bool = True,
         has_aux: bool = False) -> tuple[R, Any]: ...
@overload
def grad(f: Callable[..., R], /, *args: Any, seed: Any = 1, argnums: Argnums = None, captured: bool = True,
         has_aux: bool = False, **kwargs: Any) -> tuple[R, Any]: ...
def grad(f: Callable[..., R], /, *args: Any, seed: Any = 1, argnums: Argnums = None, captured: bool = True,
         has_aux: bool = False, **kwargs: Any) -> tuple[R, Any]:
    """Return the value of `f(*args, **kwargs)` and `(df, *dargs)`, its gradient with respect to what `f` captured and
    to each argument.

    One forward and one reverse pass, no compilation. Gradients mirror the arguments' nesting, types, shapes and dtypes;
    `df` is a dict by name for a closure, an object for a bound method or callable object, None where nothing was
    captured. Keyword arguments are passed on and not differentiated. `seed` is the cotangent of the output, required
    unless that is a real scalar. Raises MissingRule for a function without a rule.

    With `argnums`, the number of an argument or several numbers, the gradient is with respect to those alone, `dx` or
    `(dx, dy)`; with `captured=False` it leaves out what `f` captured. Other gradients are not computed. With `has_aux`
    the function returns a pair, whose first part is differentiated: `((value, aux), gradients)`.

    >>> grad(lambda a, b: a / (a + b * b), 2.0, 3.0)
    (0.18181818181818182, (None, 0.0743801652892562, -0.09917355371900827))
    >>> grad(lambda a, b: a * b, 2.0, 3.0, argnums=0)
    (6.0, 3.0)
    """
    if kwargs:
        check_keywords("grad", f, kwargs, OPTIONS)
    return _once(f, args, kwargs, seed, wanted(argnums, captured), has_aux)


def _once(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], seed: Any, asked: Wanted,
          has_aux: bool) -> tuple[Any, Any]:
    """Return the value and the gradients of one run; the sweep frees its values."""
    retention = Retention() if watch() is None else None
    with collector:
        tape = record(f, args, kwargs, context(), grad=True, once=retention, wanted=asked, replays=False)
        value = tape.result.val
        if has_aux:
            value = pair_of(value)
            seed = (with_unit(seed, value[0]), None)
        gradients = gradients_of(tape, seed, retention=retention, typed=True)
        settle(tape)
        return value, gradients


@overload
def gradient(f: Plain[Any], /, *args: Any, seed: Any = 1, has_aux: bool = False) -> tuple[Any, ...]: ...
@overload
def gradient(f: Callable[..., Any], /, *args: Any, seed: Any = 1, has_aux: bool = False,
             **kwargs: Any) -> tuple[Any, ...]: ...
def gradient(f: Callable[..., Any], /, *args: Any, seed: Any = 1, has_aux: bool = False,
             **kwargs: Any) -> tuple[Any, ...]:
    """Return the gradient with respect to each positional argument; with `has_aux` the function returns a pair
    `(value, aux)`, and the result is `(gradients, aux)`.

    What `f` captured is constant, so no work goes into its gradient. Raises ArgumentError without positional arguments.

    >>> gradient(lambda a, b: a * b, 2.0, 3.0)
    (3.0, 2.0)
    """
    if kwargs:
        check_keywords("gradient", f, kwargs, OPTIONS)
    if not args:
        raise ArgumentError("there is no positional argument, but the gradient is with respect to positional arguments",
                            None,
                            "tg.gradient(f, x): keyword arguments are not differentiated; tg.grad(f) is the gradient "
                            "with respect to what the function captured")
    value, gradients = _once(f, args, kwargs, seed, Wanted(captured=False), has_aux)
    return (gradients[1:], value[1]) if has_aux else tuple(gradients[1:])


def pullback(f: Callable[..., Any], /, *args: Any, argnums: Argnums = None, captured: bool = True,
             **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the value of `f(*args, **kwargs)` and a function from a seed to `(df, *dargs)`; `argnums` and
    `captured` are those of `grad`.

    >>> value, back = pullback(lambda a, b: a * b, 2.0, 3.0)
    >>> value, back(10.0)
    (6.0, (None, 30.0, 20.0))
    """
    if kwargs:
        check_keywords("pullback", f, kwargs, OPTIONS)
    # on copies: a later write of the caller to an array must not change the gradient
    tape = record(f, args, kwargs, context(), grad=True, copy=True, wanted=wanted(argnums, captured), replays=False)
    settle(tape)

    def back(seed: Any) -> Any:
        return gradients_of(tape, seed, typed=True)
    return returned_copy(tape), back


def vjp(f: Callable[..., Any], /, *args: Any, has_aux: bool = False, **kwargs: Any) -> tuple[Any, ...]:
    """Return the value of `f(*args, **kwargs)` and its pullback, as in JAX: a function from a cotangent, nested and
    shaped like the value, to the cotangents of the positional arguments. What `f` captured is constant. With `has_aux`
    the function returns a pair, whose first part is differentiated: `(value, back, aux)`.

    >>> value, back = vjp(lambda a, b: a * b, 2.0, 3.0)
    >>> value, back(10.0)
    (6.0, (30.0, 20.0))
    """
    value, back = pullback(f, *args, captured=False, **kwargs)
    if not has_aux:
        return value, lambda cotangent: back(cotangent)[1:]
    value, aux = pair_of(value)
    return value, lambda cotangent: back((cotangent, None))[1:], aux


def gradient_of(f: Callable[..., Any], asked: Wanted, has_aux: bool = False) -> Callable[..., Any]:
    """Return the gradient of a real-valued function as a function of the same arguments, which can be differentiated
    again; with `has_aux` it returns the pair of the gradient and `aux`.
    """
    def gradient(*args: Any, **kwargs: Any) -> Any:
        tape = record(f, args, kwargs, context(), grad=True, wanted=asked.among(len(args)), replays=False)
        value = tape.result.val
        y, aux = pair_of(value) if has_aux else (value, None)
        start(y, 1, TWICE)  # raises where the value is no real number
        found = gradients_of(tape, (with_unit(1, y), None) if has_aux else 1)
        settle(tape)  # after the sweep, which reads the arrays as they were
        return (found, aux) if has_aux else found
    return named_as(gradient, f)


def gradtape(f: Callable[..., Any] | Tape, /, *args: Any, seed: Any = 1, argnums: Argnums = None, captured: bool = True,
             **kwargs: Any) -> Tape:
    """Return the tape that computes the value and gradient: the primal calls as triples, then the reverse sweep.

    `f` may be a tape, traced or edited by hand, or a gradient tape, which is flattened first. Playing the result gives
    what `grad` returns; for a function, `argnums` and `captured` are those of `grad`.

    >>> tape = gradtape(lambda a, b: a * b, 2.0, 3.0)
    >>> tape.play(4.0, 5.0)
    (20.0, (None, 5.0, 4.0))
    """
    from tapegrad.transforms.primitivize import flattened
    asked = wanted(argnums, captured)
    if isinstance(f, Tape) and asked != ALL:
        raise ArgumentError("a tape is differentiated by all its arguments", None,
                            "tg.gradtape(f, *args, argnums=...) with the function itself")
    with Work("differentiating"), collector:
        tape = (flattened(f) if isinstance(f, Tape)
                else record(f, args, kwargs, context(), grad=True, found=Found(f, args, kwargs), wanted=asked))
        found = back(rewrite(tape.check()), seed)
        settle(tape)
        return found


def gradients_of(tape: Tape, seed: Any, retention: Retention | None = None, typed: bool = False) -> Any:
    """Return `(df, *dargs)`, or the requested part of it, by one reverse sweep over a primal tape with values. If an
    `retention` is given this is the last sweep, and it frees the values. If `typed`, gradients that an outer trace
    records have the types of their inputs too.
    """
    with Work("differentiating"):
        check_sweep(tape, seed)
        tape.structure.of = unit_of_result(tape.result.val, seed)
        wrt = differentiated(tape)
        active = activity(tape, wrt)
        begun = start(tape.result.val, seed)
        cot = sweep(tape, begun, active, last=retention is not None,
                    save_memory=retention is not None and retention.begun)
    inputs = tape.inputs
    dxs: list[Any] = [None] * (len(inputs) - 1)
    for k in wrt:
        dx = taken(cot, inputs[k].id, inputs[k].val)
        dxs[k - 1] = of_type(dx, inputs[k].val) if typed and isinstance(dx, Traced) else dx
    return tape.structure.gradients(dxs)
