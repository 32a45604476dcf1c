"""What a gradient is asked for by: `argnums=` and `captured=`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from tapegrad.errors import ArgumentError

Argnums = int | Sequence[int] | None


class Wanted(NamedTuple):
    """The positional arguments to differentiate by: one, several, or (None) all; then, if `captured`, by what
    the function captured too.

    >>> Wanted(-1).among(3)
    Wanted(argnums=2, captured=False)
    """

    argnums: int | tuple[int, ...] | None = None
    captured: bool = True

    def among(self, count: int) -> Wanted:
        """Return the same of a call with `count` positional arguments, counted from the first; raise ArgumentError for
        one that is not among them.
        """
        if not isinstance(self.argnums, tuple):
            return self if self.argnums is None else Wanted(_place(self.argnums, count), False)
        places = tuple(_place(number, count) for number in self.argnums)
        if len(set(places)) < len(places):
            raise ArgumentError(f"argnums={self.argnums!r} names an argument twice", None, "name each argument once")
        return Wanted(places, False)


def wanted(argnums: Any, captured: bool) -> Wanted:
    """Return what is wanted. With `argnums` the gradient has no place for what the function captured. Raises
    ArgumentError for what is no number.
    """
    if argnums is None:
        return ALL if captured is True else Wanted(None, captured)
    return Wanted(tuple(map(_number, argnums)) if isinstance(argnums, (tuple, list)) else _number(argnums), False)


def _number(x: Any) -> int:
    try:
        if not isinstance(x, bool):
            return index(x)
    except TypeError:
        pass
    raise ArgumentError(f"argnums is {x!r}, which is no argument's number", None,
                        "argnums=0 for the first positional argument, argnums=(0, 1) "
                        "for the first two; the arguments themselves go to the function that is returned: "
                        "tg.value_and_grad(f)(x)")


def _place(number: int, count: int) -> int:
    if -count <= number < count:
        return number % count
    raise ArgumentError(f"there is no argument {number}: {count} positional "
                        f"argument{'s were' if count != 1 else ' was'} given", None,
                        f"argnums from 0 to {count - 1}, or from {-count} to -1" if count else
                        "pass the argument by position: keyword arguments are not differentiated")


ALL = Wanted()
