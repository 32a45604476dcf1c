"""Helpers for torch.nn.functional: registration of functions, their in-place forms, parameters as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.frontends.common import static
from tapegrad.frontends.torch.generic import recorded_whole
from tapegrad.frontends.torch.registry import found, torch_means
from tapegrad.frontends.torch.write import put
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Traced

Meaning = Callable[..., Any]


def functional(*names: str) -> Callable[[Meaning], Meaning]:
    """Register the decorated implementation of torch's functions. If it returns NotImplemented, torch's function is
    recorded whole.
    """
    def decorate(meaning: Meaning) -> Meaning:
        # several names may belong to one function
        for fn, spelling in {fn: name for name in names for fn in found(name)}.items():
            torch_means(spelling)(_meant(fn, meaning))
        return meaning
    return decorate


def _meant(fn: Callable[..., Any], meaning: Meaning) -> Meaning:
    code = getattr(fn, "__code__", None)
    parameters = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount] if code else ()
    # `inplace` is the last parameter that may be positional
    last = parameters.index("inplace") if "inplace" in parameters else len(parameters)

    def run(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if 0 < last < len(args):
            args, inplace = args[:last], args[last]
        y = meaning(*args, **kwargs)
        if y is NotImplemented:
            y = recorded_whole(fn, args, kwargs)
        return put(args[0] if args else kwargs["input"], y) if inplace else y
    return run


def number(x: Any) -> Any:
    """Return a parameter as plain numbers. A traced float raises: torch takes a number, and no gradient flows to it."""
    if isinstance(x, (tuple, list)):
        return tuple(map(number, x))
    return float(x) if isinstance(x, Traced) and isinstance(plain(x), float) else static(x)  # type: ignore[arg-type]


def given(**parameters: Any) -> dict[str, Any]:
    """Return `name=(value, default)` pairs as keyword arguments of an op, without those that equal the default."""
    return {name: number(value) for name, (value, default) in parameters.items() if value != default}


def real(*xs: Any) -> bool:
    """True for real tensors of one dtype, for which the ops compute as torch does; None is ignored."""
    dtypes = set()
    for x in xs:
        if x is not None:
            if not is_tensor(plain(x)):
                return False
            shape_of(x)  # guards the dtype too
            dtypes.add(plain(x).dtype)
    return len(dtypes) == 1 and dtypes.pop().is_floating_point
