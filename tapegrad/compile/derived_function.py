"""derived_function: functions derived from another function. They take its name, by which they are pickled if their
module binds them to it, they bind like it in a class, and they report on their compiled calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

from tapegrad.errors import CallError, user_location
from tapegrad.numbers.formatting import brief, name_of
from tapegrad.tape.tape import Tape

Remade = str | tuple[Callable[..., Any], tuple[()]]


class DerivedFunction:
    """A function derived from another, with its name; as a decorator's result it replaces that in the module."""

    def named(self, f: Any, again: Callable[..., Any]) -> None:
        """Take the name of `f`; `again` derives this function from it anew. Raises CallError if `f` is not callable."""
        if not callable(f) and not isinstance(f, Tape):
            raise CallError(f"{brief(f)} is not a function", user_location(),
                            "pass the function alone, and the arguments to the function that is returned: "
                            "tg.value_and_grad(f)(x)")
        self.__name__ = name_of(f)
        self.__module__ = getattr(f, "__module__", None) or type(f).__module__
        self.__qualname__ = getattr(f, "__qualname__", self.__name__)
        self.__doc__ = getattr(f, "__doc__", None)
        self._again, self._made_of = again, f

    def __get__(self: Any, instance: Any, owner: Any = None) -> Any:
        f = self._made_of
        bound = f.__get__(instance, owner) if hasattr(type(f), "__get__") else f
        return MethodType(self, bound.__self__) if type(bound) is MethodType and bound is not f else self

    def profile(self, *args: Any, repeats: int = 5, **kwargs: Any) -> Any:
        """Measure a compiled call, the program itself and a traced call, and return a report.

        The function and the program are called as often as that needs, with all their side effects.
        """
        from tapegrad.compile.call_profile import profile_calls
        return profile_calls(self, self._made_of, args, kwargs, repeats)

    def __reduce__(self) -> Remade:
        found: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        return self.__qualname__ if found is self else (self._again, ())


class CompiledDerivative(DerivedFunction):
    """A function that passes most calls to a compiled function, `_compiled`."""

    _compiled: Any

    @property
    def stats(self) -> Any:
        """The number of compiled calls (`hits`), and of calls traced or computed directly (`curvature`)."""
        return self._compiled.stats

    @property
    def tapes(self) -> list[Any]:
        """The kept tapes."""
        return self._compiled.tapes  # type: ignore[no-any-return]

    def explain(self) -> Any:
        """Return why calls did not run compiled, and how far each path is from being compiled; to be printed."""
        return self._compiled.explain()

    def how(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, int]:
        """Return a description of the code that runs a compiled call, and its number of operations."""
        return self._compiled.how(args, kwargs)  # type: ignore[no-any-return]

    def trace_once(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call without the compiled code."""
        return self._compiled.trace_once(*args, **kwargs)


class Combined(CompiledDerivative):
    """A function of the result of a derivative of `f` and of the arguments."""

    def __init__(self, f: Callable[..., Any], derivative: Callable[..., Any], combine: Callable[..., Any]) -> None:
        self.named(f, partial(Combined, f, derivative, combine))
        self._compiled, self._combine = derivative, combine

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._combine(self._compiled(*args, **kwargs), *args)
