"""contraction: the types of products that sum over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.rules.types.family import known, number, numerics, promoted
from tapegrad.rules.types.layout import array
from tapegrad.tape.spec import Spec


def product_of(specs: Sequence[Spec], shape: Sequence[int], core: int = 0) -> Spec:
    """Return the type of a product: a number, or a C-ordered array whose last `core` axes are not stacked."""
    dtype = promoted(*specs)
    plain = len(shape) < core + 2 or all(x.is_contiguous for x in specs)
    return array(dtype, shape, () if plain else None) if shape else number(dtype)


def _summed(n: int, m: int) -> None:
    if n != m:
        raise ValueError(f"an axis of {n} is summed with one of {m}")


def _stacks(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return np.broadcast_shapes(tuple(a), tuple(b))


def matmul(a: Any, b: Any) -> Spec:
    """Return the type of a product of matrices, of stacks of them, or of vectors."""
    specs = numerics((a, b))
    left, right = specs[0].shape, specs[1].shape
    _summed(left[-1], right[-2 if len(right) > 1 else 0])
    shape = (*_stacks(left[:-2], right[:-2]), *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    return product_of(specs, shape, 2)


def by_core(m: int, n: int) -> Any:
    """Return the family of products over the last `m` and `n` axes of two arrays: 1 for vectors, 2 for matrices."""
    def family(a: Any, b: Any) -> Spec:
        specs = numerics((a, b))
        left, right = specs[0].shape, specs[1].shape
        _summed(left[-1], right[-n])
        shape = (*_stacks(left[:len(left) - m], right[:len(right) - n]), *left[len(left) - m:-1],
                 *right[len(right) - n + 1:])
        return product_of(specs, shape, m + n - 2)
    return family


def vdot(a: Any, b: Any) -> Spec:
    """Return the type of the inner product of two flattened arrays."""
    specs = numerics((a, b))
    _summed(specs[0].size, specs[1].size)
    return number(promoted(*specs))


def dot(a: Any, b: Any) -> Spec:
    """Return the type of `np.dot`: the last axis of one array is summed with the last but one of the other."""
    specs = numerics((a, b))
    left, right = specs[0].shape, specs[1].shape
    if not left or not right:
        return product_of(specs, left or right, -1)
    _summed(left[-1], right[-2 if len(right) > 1 else 0])
    shape = (*left[:-1], *right[:-2], *(right[-1:] if len(right) > 1 else ()))
    return product_of(specs, shape, len(shape))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Spec:
    """Return the type of a product over pairs of axes."""
    specs = numerics((a, b))
    left, right = specs[0].shape, specs[1].shape
    axes = known(axes)
    if isinstance(axes, int):
        of_a, of_b = list(range(len(left) - axes, len(left))), list(range(axes))
    else:
        parts = [(part,) if isinstance(part, int) else part for part in axes]
        of_a, of_b = ([axis % len(shape) for axis in part] for part, shape in zip(parts, (left, right)))
    for i, j in zip(of_a, of_b, strict=True):
        _summed(left[i], right[j])
    free = [*[n for i, n in enumerate(left) if i not in of_a], *[n for i, n in enumerate(right) if i not in of_b]]
    dtype = promoted(*specs)
    return array(dtype, free)


def einsum(terms: Sequence[str], output: str, xs: Sequence[Any], optimize: Any) -> Spec:
    """Return the type of a sum of products; `terms` names the axes of each operand by letters."""
    specs = numerics(xs)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, specs, strict=True):
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) not in (n, 1) and n != 1:
                raise ValueError(f"{letter!r} is an axis of {sizes[letter]} and of {n}")
            sizes[letter] = max(sizes[letter], n) if n else 0
    shape = [sizes[letter] for letter in output]
    dtype = promoted(*specs)
    if not shape:
        return number(dtype)
    plain = not optimize and all(x.is_contiguous for x in specs) and terms_in_order(terms, output)
    return array(dtype, shape, () if len(shape) == 1 or plain else None)


def terms_in_order(terms: Sequence[str], output: str) -> bool:
    """True if all operands have the output's axes in the same order, so that the result is in C order as they are."""
    return all(sorted(kept, key=output.index) == kept for term in terms
               for kept in [[letter for letter in term if letter in output]])


def linear(x: Any, w: Any, b: Any = None) -> Spec:
    """Return the type of a layer's x wᵀ + b."""
    specs = numerics([part for part in (x, w, b) if part is not None])
    left, right = specs[0].shape, specs[1].shape
    if len(right) < 2:
        raise ValueError("weights are a matrix")
    _summed(left[-1], right[-1])
    shape = (*_stacks(left[:-2], right[:-2]), *left[-2:-1], right[-2])
    if b is not None:
        shape = np.broadcast_shapes(shape, specs[2].shape)
    return product_of(specs, shape, 2)


def linear_weight(dy: Any, x: Any) -> Spec:
    """Return the type of the cotangent of a layer's weights."""
    specs = numerics((dy, x))
    return product_of(specs, (specs[0].shape[-1], specs[1].shape[-1]), 2)


def convolved(x1: Any, x2: Any, mode: Any = "full") -> Spec:
    """Return the type of a convolution of two vectors."""
    specs = numerics((x1, x2))
    n, m = (x.size for x in specs)
    length = {"full": n + m - 1, "same": max(n, m), "valid": max(n, m) - min(n, m) + 1}[known(mode)]
    return array(promoted(*specs), (length,), () if n and m else None)
