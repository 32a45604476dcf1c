"""checkpoint_loop: many steps from state to state as one operation that keeps few states for the reverse sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError, GuardError, ReplayError, TapeError, user_location
from tapegrad.numbers.equality import alike
from tapegrad.numbers.formatting import brief, name_of, plain
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.loop import Loop
from tapegrad.ops.steps import Steps
from tapegrad.ops.structure import put_results
from tapegrad.rules.op import draws
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape, value_of
from tapegrad.trace.checkpoint import bare, guard_raised, place, refused, taken_apart, traced, why_no_subtape
from tapegrad.tree.copies import running


def checkpoint_loop(n: int, slots: int = 30) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that turns one step, from a state to the next, into a function that takes `n` steps and keeps
    `slots` states in all.

    The reverse sweep recomputes from the kept states as seldom as possible, by the binomial schedule of Griewank and
    Walther (2000): 100,000 steps with 30 kept states take 447,640 more. The step is traced once, at the first state; a
    later step that takes another path is refused. The arguments after the state and the captures of the step are the
    same in all steps. Raises ArgumentError if a step draws random numbers, or returns a state unlike the one it
    received.

    >>> import tapegrad as tg
    >>> @checkpoint_loop(1000, slots=10)
    ... def integrate(x, rate):
    ...     return x - 0.001 * rate * x
    >>> value, (_, dx, drate) = tg.grad(integrate, 1.0, 2.0)
    >>> round(value, 4), round(dx, 4), round(drate, 4)
    (0.1351, 0.1351, -0.1353)
    """
    for name, x, least in (("n", n, 1), ("slots", slots, 1)):
        if not isinstance(x, int) or x < least:
            raise ArgumentError(f"checkpoint_loop: {name} is {brief(x)}", user_location(),
                                f"an integer, {least} or more")

    def decorate(step: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(step):
            raise ArgumentError(f"checkpoint_loop of {brief(step)}, which is not a function", user_location(),
                                "tg.checkpoint_loop(n, slots)(step)(state)")

        times, places = range(n), range(slots)  # ranges, because captured numbers would become inputs

        def loop(state: Any, *args: Any, **kwargs: Any) -> Any:
            if running.tracers:
                return _looped(step, len(times), len(places), (state, *args), kwargs)
            for _ in times:
                state = step(state, *args, **kwargs)
            return state
        loop.__name__, loop.__doc__ = name_of(step), getattr(step, "__doc__", None)
        loop.__module__ = getattr(step, "__module__", None) or loop.__module__
        return loop
    return decorate


def _looped(step: Callable[..., Any], n: int, slots: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record `n` steps as one operation of the innermost trace."""
    tape, leaves, done, signature = traced(step, args, kwargs, replays=True)  # every step must take the first's path
    name = name_of(step)
    if why := done.why or why_no_subtape(tape, leaves, done) or ("writes to its arguments" if done.finals else ""):
        raise refused(step, why)
    if any(draws(op.fn) for op in tape.ops):
        raise ArgumentError(f"checkpoint_loop of {name}: a step draws random numbers", user_location(),
                            "draw them before the loop, and pass them as an argument")
    state = signature.args[0]
    into, parts = taken_apart(tape)
    carried = tape.inputs[1 + state.start:1 + state.start + state.size]
    values = list(map(value_of, parts))
    if len(parts) != len(carried) or repr(into) != repr(None if state.is_leaf else state):
        raise ArgumentError(f"checkpoint_loop of {name}: a step returns "
                            f"{repr(into) if into is not None else 'one value'}, but its state is "
                            f"{state!r}", user_location(),
                            "return a state with the same nesting as the first argument")
    for x, y in zip(carried, values):
        if (was := _kind(x.spec)) != (now := _kind(spec_of(y))):
            raise ArgumentError(f"checkpoint_loop of {name}: a step returns {now} for {x.label or 'its state'}, which "
                                f"was {was}", user_location(), "pass a first state of the type that a step returns")
    failed: Exception | None = None
    if n > 1:  # values outside the state could change from step to step
        try:
            second = traced(step, (values[0] if into is None else into.build(values), *args[1:]), kwargs,
                            replays=True)[0]
        except TapeError:
            raise
        except Exception as err:  # raised below, where it is guarded
            second, failed = None, err  # type: ignore[assignment]
        if second is not None:
            made = taken_apart(second)[1]
            if (what := _difference(tape, second)) is not None or not all(map(_stand_alike, parts, made)):
                raise ArgumentError(f"checkpoint_loop of {name}: the second step records other operations than the "
                                    f"first, {what or 'in its result'}",
                                    user_location(), "put values that change into the state, use np.where instead of a "
                                                     "branch, draw random numbers before")
    inside = range(state.start, state.start + state.size)
    # the values common to all steps, then the state
    order = [*(k for k in range(len(leaves)) if k not in inside), *inside]
    inputs: list[Operation] = [*tape.inputs]
    tape.ops[1:len(inputs)] = [inputs[1 + k] for k in order]
    for number, op in enumerate(tape.ops, 1):
        op.id = number
    leaves = [leaves[k] for k in order]
    put_results(tape, parts)
    steps = Steps(Loop(bare(tape), n, (), len(leaves) - state.size, 0, state.size), slots)
    try:
        value = steps.impl(*map(plain, leaves))
    except GuardError as err:
        raise GuardError(f"checkpoint_loop of {name}: a later step takes another path than the first, {err.what}",
                         err.where,
                         "np.where instead of the branch, or a Python loop with tg.checkpoint") from None
    except ReplayError as err:  # raised by a step, which the program may catch
        cause = err.__cause__ if isinstance(err.__cause__, Exception) else err
        guard_raised(running.tracers[-1], steps, leaves, cause)
        raise cause from None
    if failed is not None:
        raise failed
    y = place(running.tracers[-1], steps, leaves, value)
    made = list(y[:state.size])
    return made[0] if into is None else into.build(made)


def _difference(a: Tape, b: Tape) -> str | None:
    """Return the first difference between two traces, None if they agree."""
    for one, two in zip(a.ops, b.ops):
        if not _agree(one, two):
            return f"{one!r} and then {two!r}"
    return None if len(a.ops) == len(b.ops) else f"{len(a.ops)} operations and then {len(b.ops)}"


def _agree(one: Operation, two: Operation) -> bool:
    if type(one) is not type(two) or len(one.args) != len(two.args) or not all(map(_stand_alike, one.args, two.args)):
        return False
    if isinstance(one, Call) and isinstance(two, Call):
        same = one.fn is two.fn or (type(one.fn) is type(two.fn) is Checkpoint
                                    and _difference(one.fn.body, two.fn.body) is None)
        return same and one.kwargs.keys() == two.kwargs.keys() and all(_stand_alike(x, two.kwargs[key])
                                                                       for key, x in one.kwargs.items())
    if isinstance(one, Guard) and isinstance(two, Guard):
        return one.fact == two.fact and alike(one.expected, two.expected)
    return not isinstance(one, Constant) or _stand_alike(one.val, two.val)


def _stand_alike(x: Any, y: Any) -> bool:
    """Return whether two operands are equal values, or operations at the same position."""
    if isinstance(x, Operation) and isinstance(y, Operation):
        return x.id == y.id
    return bool(x.equal(y)) if is_tensor(x) and is_tensor(y) else alike(x, y)


def _kind(x: Any) -> str:
    return str(x) if x.shape else "a number"
