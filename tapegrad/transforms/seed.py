"""seed: the cotangent of the output, where the reverse sweep begins."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import ZERO, dtype_of, project, shape_of
from tapegrad.numbers.formatting import plain, type_name
from tapegrad.numbers.quantities import QUANTITIES, Measure, measure_of
from tapegrad.numbers.systems import as_kind, is_complex_number, system
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import cast, is_tensor, to_tensor
from tapegrad.ops.promotion import number_like
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import Traced
from tapegrad.tree.flatten import flatten, is_leaf

_FLOATS = frozenset([float, np.float64])


def pair_of(y: Any) -> tuple[Any, Any]:
    """Return the value and the rest that a function with `has_aux` returns; raise ArgumentError if that is no pair."""
    if isinstance(y, (tuple, list)) and len(y) == 2:
        return y[0], y[1]
    raise ArgumentError(f"with has_aux=True the function must return a pair, but it returned a {type_name(y)}",
                        try_="return (value, aux), or leave has_aux out")


def with_unit(seed: Any, y: Any) -> Any:
    """Return the seed in the unit of the output, where that has one and the seed is a plain number."""
    measure = measure_of(y)
    return seed if measure is None or not is_leaf(seed) else measure.make(seed)


def unit_of_result(y: Any, seed: Any) -> Measure | None:
    """Return the unit of the differentiated value, the first of a pair with its own seed; raise ArgumentError for
    several values if some have units.
    """
    if type(seed) is tuple and len(seed) == 2 and seed[1] is None and isinstance(y, (tuple, list)):
        y = y[0]
    measure = measure_of(y) if QUANTITIES else None
    if QUANTITIES and measure is None and not is_leaf(y) \
            and any(type(getattr(node, "metadata", None)) is Measure or getattr(node, "measure", None) is not None
                    for node in flatten(y, "", [], []).seen.values()):
        raise ArgumentError("the function returns several values, some of them with units: their sum, and so the "
                            "gradient, is not defined", None,
                            "return one quantity, or plain numbers in units of your choice")
    return measure


def start(y: Any, seed: Any, cure: str = "") -> Any:
    """Return the cotangent of the output for a seed; raise ArgumentError where it does not fit. `cure` is the advice
    for an output that is no real number, where the caller takes no seed.
    """
    if type(y) in _FLOATS and type(seed) is int:
        return float(seed)
    if not is_leaf(y):
        leaves: list[Any] = []
        structure = flatten(y, "", leaves, [], shared=False)
        if not leaves:
            raise ArgumentError(f"the function returns {y!r}, which has no gradient", try_="return a real number")
        if measure_of(y) is not None and is_leaf(seed):
            return structure.mirror([start(leaves[0], seed, cure)])
        if type(seed) is int and seed == 1 and not structure.is_array:
            raise ArgumentError(f"the function returns a {type(y).__name__}: its gradient needs a seed",
                                try_=cure or "return one number, with has_aux=True one number and other values; or "
                                             "pass seed= with the same nesting and one cotangent per number (None: no "
                                             "gradient flows)")
        parts = zip(leaves, structure.unmirror(seed, whole=True))
        return structure.mirror([ZERO if part is None else start(leaf, part) for leaf, part in parts])
    shape, is_complex = shape_of(y), is_complex_number(plain(y)) or getattr(dtype_of(y), "kind", "f") == "c"
    if not has_gradient(y):
        raise ArgumentError(f"the function returns a {type_name(y)}, which has no gradient",
                            try_="return a real number")
    if type(seed) is int and seed == 1 and shape and set(shape) == {1} and not is_complex:
        seed = np.ones(shape)  # one number
    if type(seed) is int and seed == 1 and (shape != () or is_complex):
        cure = cure or ("pass a number as seed=; abs(y)**2 or another real number; tg.holomorphic_derivative(f)(z)"
                        if shape == () else "sum the output; tg.jacobian(f)(x) for the gradient of each number; or "
                                            "pass an array of that shape as seed=")
        raise ArgumentError(f"the function returns {type_name(y)}, not a real scalar: its gradient needs a seed",
                            try_=cure)
    if isinstance(seed, (list, tuple)):
        seed = _array(seed, y)
    if type(seed) is np.ndarray:
        seed = seed.copy()  # the caller may write to it
    if not is_leaf(seed):
        raise ArgumentError(f"the seed is {seed!r}, but the output is a {type_name(y)}",
                            try_="pass a seed of the output's shape")
    if shape_of(seed) != shape:
        raise ArgumentError(f"the seed has shape {shape_of(seed)}, but the output has {shape}",
                            try_="pass a seed of the output's shape")
    if type(seed) in (int, float) and is_tensor(y) and getattr(dtype_of(y), "kind", "") == "f":
        # converted here, so that no rule turns a number into an array
        return cast(to_tensor(float(seed), plain(y).device, plain(y).dtype), plain(y))
    if system(y) is not None and not shape_of(seed):
        seed = as_kind(seed, type(plain(y)))
        # traced like y: a plain number's class would compute with traced numbers itself
        return number_like(y, seed) if isinstance(y, Traced) and not isinstance(seed, Traced) else seed
    seed = float(seed) if type(seed) is int else seed
    return unwrap(project(wrap(seed), wrap(y))) if is_tensor(y) else project(seed, y)


def _array(seed: Any, y: Any) -> Any:
    """Convert a seed that is a list to an array."""
    try:
        return np.asarray(seed, complex if getattr(dtype_of(y), "kind", "f") == "c" else float)
    except (TypeError, ValueError) as err:
        raise ArgumentError(f"the seed is {seed!r}, but the output is a {type_name(y)}",
                            try_="pass a seed of the output's shape") from err
