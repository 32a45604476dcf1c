"""hook: a value on whose cotangent the reverse sweep calls a function of the program."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from tapegrad.errors import ArgumentError, MutationError, user_location
from tapegrad.numbers.cotangents import ZERO, dense, shape_of
from tapegrad.numbers.formatting import brief
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensor_array import TensorArray, unwrap, wrap
from tapegrad.numbers.tensors import duplicate, is_memory
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, Rrule
from tapegrad.rules.op import Traced
from tapegrad.rules.readonly import apart, reading
from tapegrad.rules.registry import define
from tapegrad.tape.tape import Operation, value_of
from tapegrad.tree.flatten import Structure, flatten, is_leaf


def hooked(op: Operation) -> Callable[[Any], Any]:
    """Return the function that a hook on a tape calls."""
    return hook_function(op.kwargs["fn"], list(map(value_of, op.args[1:])))


def hook_function(fn: Callable[..., Any], captured: list[Any]) -> Callable[[Any], Any]:
    """Return the function of a hook, built around what it captured."""
    return fn.build(captured) if isinstance(fn, Structure) else fn  # type: ignore[no-any-return]


def _value(x: Array, *captured: Any, fn: Callable[..., Any], tensors: bool = False, copied: bool = False) -> Any:
    """Return the value in memory of its own, since the program may write to either."""
    known = x.tensor if type(x) is TensorArray else x
    made = duplicate(known) if is_memory(known) and not isinstance(known, Traced) else known
    return wrap(made) if known is not x else made


def _rule(x: Any, *captured: Any, fn: Any, tensors: bool = False,
          copied: bool = False) -> tuple[Any, Callable[[Any], Any]]:
    def hook_pullback(dy: Any) -> tuple[Any, ...]:
        dy = dense(dy)
        given = TensorArray(dy.tensor.clone()) if type(dy) is TensorArray else dy
        call = hook_function(fn, [unwrap(part) if tensors else part for part in captured])
        before = _captured(call) if copied else None
        dx = reading(lambda dy: wrap(call(unwrap(dy))) if tensors else call(dy), "the function of a hook")(given)
        if before is not None and not _is_same(before, _captured(call)):
            raise MutationError("the function of a hook writes to an object that the program captured: the write would "
                                "go to the trace's copy and be lost", user_location(),
                                "write to a global list or an attribute of a function; or to an element of a tensor or "
                                "array")
        if dx is None or dx is given:
            dx = dy
        if not is_leaf(unwrap(dx)) or shape_of(dx) != shape_of(dy):
            got = f"one of shape {shape_of(dx)}" if is_leaf(unwrap(dx)) else brief(dx)
            raise ArgumentError(f"the function of a hook returned {got} for a cotangent of shape {shape_of(dy)}",
                                user_location(), "return a cotangent of that shape, or None to leave it unchanged")
        return (*apart((dx,), dy), *[ZERO] * len(captured))
    return _value(x, fn=fn), hook_pullback


def _captured(fn: Any) -> tuple[Structure, list[Any]]:
    leaves: list[Any] = []
    return flatten(fn, "", leaves, []), leaves


def _is_same(then: tuple[Structure, list[Any]], now: tuple[Structure, list[Any]]) -> bool:
    return then[0] == now[0] and len(then[1]) == len(now[1]) and all(map(is_, then[1], now[1]))


def _tangent(*args: Any, **kwargs: Any) -> Any:
    raise ArgumentError("a hook applies to cotangents, and forward mode has none", user_location(),
                        "use reverse mode: tg.grad, tg.pullback, tg.jacobian(f, mode=\"reverse\")")


hook = define("hook", _value, Rrule(_rule), torch=_value, tangent=_tangent, batch=False, memory=FRESH,
              spec=types.itself)
"""`hook(x, *captured, fn=...)`: if the function captured traced values, `fn` is the structure built around them."""
