"""methods: bound methods of traced values, their `out=` argument, and attributes that traced values lack."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import Any

from tapegrad.numbers.formatting import plain as behind
from tapegrad.numbers.systems import System, computes
from tapegrad.rules.op import OPS
from tapegrad.rules.registry import DISPATCH, refused
from tapegrad.trace.call_arguments import ARRAYS, place_of_out
from tapegrad.trace.guards import KINDS


def _method(x: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(x, name)(*args, **kwargs)


class Method:
    """A bound method of a traced value."""

    __slots__ = ("_meaning", "_name", "_self")

    def __init__(self, proxy: Any, meaning: Callable[..., Any], name: str) -> None:
        self._self, self._meaning, self._name = proxy, meaning, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return into_out(self._plainly, self._meaning, (self._self, *args), kwargs)
        except Exception as err:
            self._self._tracer.raised(_method, (self._self, self._name.rpartition(".")[2], *args), kwargs, err)
            raise

    def _plainly(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return _method(x, self._name.rpartition(".")[2], *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._name} of {self._self!r}>"


def into_out(func: Callable[..., Any], meaning: Callable[..., Any], args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> Any:
    """Call the implementation of a function and write the result into `out`, given by name or by position."""
    out, given = kwargs.get("out"), (args, kwargs)
    if getattr(meaning, "fills", False):  # the number of its draws depends on `out`
        return meaning(*args, **kwargs)
    if out is not None:
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    elif len(args) > 2 and len(args) > (at := place_of_out(meaning)) > 0 and args[at] is not None:
        out, args = args[at], (*args[:at], None, *args[at + 1:])
    else:
        return meaning(*args, **kwargs)
    return DISPATCH["out"](out, meaning(*args, **kwargs), func, given)


def missed(x: Any, kind: type, name: str) -> Any:
    """Guard the class of a traced value after a lookup of a missing attribute; refuse JAX's conversion of a value that
    is not among its function's arguments.
    """
    if name == "__jax_array__":
        if _getframe(2).f_code.co_name.startswith("_operator_") and type(_getframe(2).f_locals.get("self")) in ARRAYS:
            return lambda: NotImplemented  # an operator of JAX's array then leaves the call to the traced value
        raise refused("a JAX function's use of a traced value that is not one of its arguments",
                      "JAX computes with its own arrays, which are not traced",
                      "pass the value as an argument of the JAX function")
    x._fact("class", KINDS.get(kind, kind))


def shown(x: Any, known: System, name: str) -> Any:
    """Return an attribute or a method of a traced number of another number system; raise UnknownFunction if the system
    registers none by this name.
    """
    kind = type(behind(x)).__name__
    if known.declined and name[0] == "_" and computes(_getframe(2), behind(x)):
        raise AttributeError(name)
    if name in known.attributes:
        return OPS[known.attributes[name]](x)
    if name in known.methods:
        return Method(x, _alone(OPS[known.methods[name]], f"{kind}.{name}"), f"{kind}.{name}")
    raise refused(f"{kind}.{name} of a traced number", "its result contains the number without its gradient",
                  f"compute with the number itself, which is a {kind} already; tg.value(x) drops the gradient on "
                  "purpose")


def _alone(op: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def meaning(x: Any, *context: Any, **kwargs: Any) -> Any:
        if context or kwargs:
            raise refused(f"{name} with arguments", "a separate context cannot be recorded",
                          "put `with decimal.localcontext(...):` around the call")
        return op(x)
    return meaning
