"""argnums: the arguments that a gradient is taken with respect to: `argnums=` and `captured=`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, TypeVar

from tapegrad.errors import ArgumentError

R = TypeVar("R")
Argnums = int | Sequence[int] | None
Plain = Callable[[Any], R] | Callable[[Any, Any], R] | Callable[[Any, Any, Any], R]
"""A function of up to three arguments: strict type checkers infer no lambda arguments from `Callable[..., R]`."""


class Wanted:  # not a tuple, which would be flattened if a traced function captured it
    """The positional arguments to differentiate by (one, several, or None for all), and whether to differentiate by
    captured values too.

    >>> Wanted(-1).among(3)
    Wanted(argnums=2, captured=False)
    """

    __slots__ = ("argnums", "captured")

    def __init__(self, argnums: int | tuple[int, ...] | None = None, captured: bool = True) -> None:
        self.argnums, self.captured = argnums, captured

    def __eq__(self, other: object) -> bool:
        return type(other) is Wanted and (self.argnums, self.captured) == (other.argnums, other.captured)

    def __hash__(self) -> int:
        return hash((self.argnums, self.captured))

    def __repr__(self) -> str:
        return f"Wanted(argnums={self.argnums!r}, captured={self.captured!r})"

    def among(self, count: int) -> Wanted:
        """Return the same with positions counted from the front of `count` arguments; ArgumentError if out of range."""
        if not isinstance(self.argnums, tuple):
            return self if self.argnums is None else Wanted(_place(self.argnums, count), False)
        places = tuple(_place(number, count) for number in self.argnums)
        if len(set(places)) < len(places):
            raise ArgumentError(f"argnums={self.argnums!r} names an argument twice", None, "name each argument once")
        return Wanted(places, False)


def wanted(argnums: Any, captured: bool, of: str = "value_and_grad") -> Wanted:
    """Return the Wanted of these options. With `argnums` the gradient excludes captured values. Raises ArgumentError
    for a non-integer, suggesting the call of the transform `of` that the user may mean.
    """
    if argnums is None:
        return ALL if captured is True else Wanted(None, captured)
    if isinstance(argnums, (tuple, list)):
        return Wanted(tuple([_number(number, of) for number in argnums]), False)
    return Wanted(_number(argnums, of), False)


def _number(x: Any, of: str) -> int:
    try:
        if not isinstance(x, bool):
            return index(x)
    except TypeError:
        pass
    raise ArgumentError(f"argnums is {x!r}, which is not the number of an argument", None,
                        "argnums=0 for the first positional argument, argnums=(0, 1) for the first two; pass the "
                        f"arguments themselves to the function that is returned: tg.{of}(f)(x)")


def _place(number: int, count: int) -> int:
    if -count <= number < count:
        return number % count
    raise ArgumentError(f"there is no argument {number}: {count} positional "
                        f"argument{'s were' if count != 1 else ' was'} given", None,
                        "argnums=0" if count == 1 else
                        f"argnums from 0 to {count - 1}, or from {-count} to -1" if count else
                        "pass the argument by position, in the same call: tg.grad(f, x, argnums=0), "
                        "tg.value_and_grad(f, argnums=0)(x); keyword arguments are not differentiated. argnums=None is "
                        "the gradient with respect to what the function captured and all arguments")


ALL = Wanted()
