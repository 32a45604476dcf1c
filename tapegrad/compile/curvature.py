"""divergence, laplacian and the Gauss-Newton product: functions of Jacobians and Hessians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad import ops
from tapegrad.compile.compiling import compile
from tapegrad.compile.derived_function import Combined
from tapegrad.compile.hessian_product import hvp
from tapegrad.compile.jacobian import hessian, jacobian
from tapegrad.compile.memo import anew, memoised
from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import name_of
from tapegrad.transforms.forward import both_ways


def divergence(f: Callable[..., Any], chunk_size: int | None = None) -> Combined:
    """Return a function of f's arguments that returns the trace of f's Jacobian by the first; the value has its shape.

    `chunk_size` is that of `jacobian`. Raises ArgumentError for a value of another shape.

    >>> import numpy as np
    >>> divergence(lambda x: x ** 2)(np.array([1.0, 2.0, 3.0]))
    np.float64(12.0)
    """
    return Combined(f, jacobian(f, mode="forward", chunk_size=chunk_size), _trace)


def laplacian(f: Callable[..., Any], chunk_size: int | None = None) -> Combined:
    """Return a function of f's arguments that returns the trace of f's Hessian by the first; the value is real.

    >>> import numpy as np
    >>> laplacian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
    np.float64(18.0)
    """
    return Combined(f, hessian(f, chunk_size=chunk_size), _trace)


def _trace(block: Any, x: Any, *_: Any) -> Any:
    shape = shape_of(x)
    if shape_of(block) != (*shape, *shape):
        raise ArgumentError(f"the derivative with respect to x of shape {shape} has shape {shape_of(block)}: its trace "
                            "is not "
                            "defined", None, "a function whose value has the shape of its first argument, an array")
    n = math.prod(shape)
    return ops.sum(ops.diagonal(ops.reshape(block, (n, n))))


@memoised
def gauss_newton_product(f: Callable[..., Any], loss: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function of x, a vector v and f's other arguments that returns Jᵀ H J v, without computing a matrix.

    J is f's Jacobian by x, H the Hessian of `loss` at f's value; without a loss H is the identity, the Hessian of half
    the sum of squares. `scipy.optimize` accepts it as `hessp`. It is positive semidefinite if the loss is convex:
    Schraudolph (2002), Fast curvature matrix-vector products for second-order gradient descent.

    >>> import numpy as np
    >>> gauss_newton_product(lambda x: x ** 2)(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 4., 16.])
    """

    def product(x: Any, v: Any, *args: Any) -> Any:
        y, push, back = both_ways(f, x, *args)
        t = push(v, *[None] * len(args))
        return back(t if loss is None else hvp(loss)(y, t))

    product.__name__ = name_of(f)
    return anew(compile, product)  # type: ignore[no-any-return]
