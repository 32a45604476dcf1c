"""hvp: the product of a Hessian and a vector."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapegrad.compile.cache import NONE
from tapegrad.compile.derived_function import CompiledDerivative
from tapegrad.compile.jacobian import TENSORS, asked_for, compiled_for_numpy
from tapegrad.compile.memo import anew, memoised
from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import brief
from tapegrad.numbers.tensors import is_tensor
from tapegrad.trace.inputs import named_as
from tapegrad.transforms.forward import jvp
from tapegrad.transforms.grad import pullback
from tapegrad.tree.argnums import Argnums
from tapegrad.tree.flatten import leaves_of


@memoised
def hvp(f: Callable[..., Any], argnums: Argnums = 0) -> Product:
    """Return a function of f's arguments and a vector that returns the second derivative along it, at the cost of about
    two gradients.

    The vector follows the argument that it belongs to, and has its nesting: `hvp(f)(x, v, *rest)`, as `scipy.optimize`
    calls its `hessp`. With several `argnums`, a tuple of vectors follows the last of them. The result is nested like
    the vector.

    >>> import numpy as np
    >>> hvp(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    asked = asked_for(argnums, "hvp")

    def product(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2:
            raise ArgumentError("the vector v is missing", None,
                                "tg.hvp(f)(x, v): pass the vector after its argument")
        places: Any = asked.among(len(args) - 1).argnums
        several, one = ((places,), True) if isinstance(places, int) else (places, False)
        at = max(several, default=-1) + 1
        given, vector = (*args[:at], *args[at + 1:]), args[at]
        if not one and not (isinstance(vector, (tuple, list)) and len(vector) == len(several)):
            raise ArgumentError(f"the vectors argument is {brief(vector)}", None,
                                f"a tuple of {len(several)}, one for each of the argnums")
        along = dict(zip(several, (vector,) if one else vector))
        tangents = [along.get(i) for i in range(len(given))]
        def gradient(*args: Any) -> Any:
            return pullback(f, *args, argnums=places, **kwargs)[1](1)
        return jvp(named_as(gradient, f), given, tangents)[1]
    last = max(asked.argnums, default=-1) if isinstance(asked.argnums, tuple) else asked.argnums
    named_as(product, f, None if last is None or last < 0 else (last + 1, "v"))
    return Product(f, product, functools.partial(anew, hvp, f, argnums))


class Product(CompiledDerivative):
    """The product of a Hessian and a vector: compiled for numbers and arrays, computed directly for tensors."""

    def __init__(self, f: Callable[..., Any], product: Callable[..., Any], again: Callable[[], Any]) -> None:
        self.named(f, again)
        self._f, self._product, self._compiled = f, product, compiled_for_numpy(product)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # tensors that the function captured or that a module holds count as well
        if (found := self._compiled.kept(args, kwargs)) is not NONE:
            return found
        if self._compiled.backend.met_tensor or any(map(is_tensor, leaves_of((args, kwargs, self._f)))):
            self._compiled.directly(TENSORS)
            return self._product(*args, **kwargs)
        return self._compiled.traced(args, kwargs)

    def __repr__(self) -> str:
        return f"<product with the second derivative of {self.__name__}>"
