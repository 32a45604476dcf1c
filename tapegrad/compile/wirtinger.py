"""wirtinger: derivatives of functions of complex numbers, by z and by its conjugate.

df/dz = (df/dx - i df/dy) / 2 and df/dz̄ = (df/dx + i df/dy) / 2, Wirtinger (1927), Math. Ann. 97. A function is
holomorphic where the second is 0: these are the Cauchy-Riemann equations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad.compile.derived_function import Combined
from tapegrad.compile.jacobian import Derivative, Direction, asked_for, checked_mode
from tapegrad.compile.memo import memoised
from tapegrad.errors import ArgumentError, user_location
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import brief, name_of, plain
from tapegrad.tree.argnums import Argnums
from tapegrad.tree.flatten import leaves_of

ROUNDING = 256  # tolerance for 0, in units in the last place of a block's largest number


@memoised
def wirtinger(f: Callable[..., Any], argnums: Argnums = 0, mode: Direction = "auto",
              chunk_size: int | None = None) -> Derivative:
    """Return a function of f's arguments that returns `(df/dz, df/dz̄)`, the derivatives of its value by z and by its
    conjugate.

    Each has the shape and the nesting of `jacobian`'s result; `argnums`, `mode` and `chunk_size` are those of
    `jacobian`. Raises ArgumentError for real arguments, and for a value without numbers.

    >>> wirtinger(lambda z: z * z.conjugate())(1 + 2j)
    (np.complex128(1-2j), np.complex128(1+2j))
    """
    return Derivative(f, asked_for(argnums, "wirtinger"), *checked_mode(mode, chunk_size), by_complex=True)


def holomorphic_derivative(f: Callable[..., Any], argnums: Argnums = 0, mode: Direction = "auto",
                           chunk_size: int | None = None) -> Combined:
    """Return a function of f's arguments that returns df/dz, the complex derivative of a holomorphic function.

    For arrays it has the value's shape followed by the argument's, as by `jacobian`. Raises ArgumentError, showing
    df/dz and df/dz̄, where the Cauchy-Riemann equations fail: where df/dz̄ is nonzero to half of the digits.

    >>> holomorphic_derivative(np.exp)(1j * np.pi).round(12)
    np.complex128(-1+0j)
    """
    return Combined(f, wirtinger(f, argnums, mode, chunk_size), partial(_checked, name_of(f)))


def _checked(name: str, pair: tuple[Any, Any], *_: Any) -> Any:
    """Return df/dz from the pair with df/dz̄."""
    by_z, by_conjugate = pair
    for a, b in zip(leaves_of(by_z), leaves_of(by_conjugate)):
        _check(name, a, b)
    return by_z


def _check(name: str, a: Any, b: Any) -> None:
    """Raise ArgumentError unless `b` is 0 compared with `a`; for traced numbers the check is guarded."""
    dtype = dtype_of(a)
    eps = float(np.finfo(dtype if dtype is not None and dtype.kind in "fc" else float).eps)
    size, off = abs(a) + abs(b), abs(b)
    largest = size.max() if shape_of(a) and np.prod(shape_of(a)) else size
    holds = off <= eps ** 0.5 * size + ROUNDING * eps * largest
    if bool(holds.all() if shape_of(a) else holds):
        return
    a, b, holds = (np.asarray(_outermost(x)) for x in (a, b, holds))
    at = tuple(int(i) for i in np.argwhere(~holds)[0])
    where = f" at [{', '.join(map(str, at))}]" if at else ""
    raise ArgumentError(f"{name} is not holomorphic here: df/dz is {brief(complex(a[at]))} and df/dz̄ is "
                        f"{brief(complex(b[at]))}{where}, which the Cauchy-Riemann equations require "
                        "to be 0", user_location(),
                        f"tg.wirtinger({name})(z), which returns both")


def _outermost(x: Any) -> Any:
    x = plain(x)
    return x.detach().cpu().resolve_conj().numpy() if hasattr(x, "detach") else x
