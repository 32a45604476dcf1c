"""testing: check_grads and check_rule, which compare gradients with central differences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.debug.ties import ties
from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import type_name
from tapegrad.numbers.tensors import is_tensor
from tapegrad.progress import Work
from tapegrad.trace.inputs import argument_names
from tapegrad.trace.tracer import trace
from tapegrad.transforms.grad import grad, gradtape
from tapegrad.tree.flatten import flatten, leaves_of


def check_grads(f: Callable[..., Any], *args: Any, order: int = 1, rtol: float = 1e-5, atol: float = 1e-6,
                eps: float = 1e-5, **kwargs: Any) -> None:
    """Raise AssertionError unless the gradients of `f` at `args` agree with central differences.

    The output, real or complex, an array or a nested structure of arrays, is contracted with fixed random weights. Each
    real or complex number among the arguments is varied by `eps`; with `order=2` the gradient is checked too. Central
    differences have an error of order eps² (Nocedal and Wright, Numerical Optimization, section 8.1).

    >>> check_grads(lambda x: np.sin(x) ** 2, np.linspace(0.0, 1.0, 5), order=2)
    """
    with Work("comparing"):
        _check_grads(f, args, kwargs, order, rtol, atol, eps)


def _check_grads(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], order: int, rtol: float,
                 atol: float, eps: float) -> None:
    leaves: list[Any] = []
    labels: list[str] = []
    structures = [flatten(arg, name, leaves, labels) for name, arg in zip(argument_names(f, len(args)), args)]
    if any(map(is_tensor, leaves)):
        raise ArgumentError("check_grads varies numbers and arrays, not tensors", None,
                            "torch.autograd.gradcheck, or pass arrays")
    free = [i for i, leaf in enumerate(leaves) if getattr(np.asarray(leaf), "dtype", np.dtype(object)).kind in "fc"]

    def total(*xs: Any) -> Any:  # captures as little as possible, since each trace flattens what it captures
        return contract(f(*xs, **kwargs))

    def at(*values: Any) -> Any:
        full = list(leaves)
        for i, value in zip(free, values):
            full[i] = value
        # f may write to its arguments
        full = [leaf.copy(order="K") if type(leaf) is np.ndarray else leaf for leaf in full]
        return total(*[structure.build(full) for structure in structures])

    points = [leaves[i] for i in free]
    found = [dx for structure, part in zip(structures, grad(total, *args)[1][1:]) for dx in structure.unmirror(part)]
    for number, i in enumerate(free):
        expected = central_difference(at, points, number, eps)
        what = (f"the gradient with respect to {labels[i]}, of shape {shape_of(leaves[i])} (ACTUAL), "
                "and central differences (DESIRED)")
        if not np.allclose(found[i], expected, rtol, atol, equal_nan=True):  # a tie is a possible reason
            what = "\n".join([what, *_ties(total, args)])
        np.testing.assert_allclose(found[i], expected, rtol, atol, err_msg=what)
    if order > 1 and points:
        def of_gradient(*xs: Any) -> Any:
            return contract(list(grad(total, *xs)[1][1:]), start=100)
        _check_grads(of_gradient, args, {}, order - 1, max(rtol, 1e-4), max(atol, 1e-5), eps)


def _ties(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """Describe the ties (kinks) that the result passes."""
    return [f"{tie.message}\n  at {tie.where}" for tie in ties(trace(f, *args)[1])]


def check_rule(fn: Callable[..., Any], *args: Any, rtol: float = 1e-5, atol: float = 1e-6, eps: float = 1e-5,
               **kwargs: Any) -> None:
    """Raise AssertionError unless the rule of `fn` is right at `args` and all ways to run it agree.

    The traced and the replayed values equal fn's own; the gradient agrees with central differences, and with the
    gradient tape's.

    >>> check_rule(np.multiply, 2.0, np.arange(3.0))
    """
    expected = fn(*args, **kwargs)
    value, tape = trace(fn, *args, **kwargs)
    replayed = tape.check().play(*args, **kwargs)
    for a, b, c in zip(leaves_of(value), leaves_of(expected), leaves_of(replayed), strict=True):
        np.testing.assert_array_equal(a, b, err_msg="the traced value")
        # not bit-exact: where the program called math's function, the replay calls NumPy's
        np.testing.assert_allclose(c, b, 1e-15, 0, err_msg="the replayed value")
        if not isinstance(a, type(b)) or shape_of(a) != shape_of(b):
            raise AssertionError(f"the traced value is a {type_name(a)}, but fn returns a {type_name(b)}")
    if not any(np.asarray(leaf).dtype.kind in "fc" for leaf in leaves_of(expected)):
        return
    check_grads(fn, *args, rtol=rtol, atol=atol, eps=eps, **kwargs)
    swept = grad(lambda *xs: contract(fn(*xs, **kwargs)), *args)
    written = gradtape(lambda *xs: contract(fn(*xs, **kwargs)), *args).check()
    for a, b in zip(leaves_of(swept), leaves_of(written.play(*args)), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-14, err_msg="the gradient tape, replayed, and grad differ")


def contract(y: Any, start: int = 0) -> Any:
    """Return a real scalar that depends on every number of a nested output, with fixed random weights."""
    parts: list[Any] = []
    for number, leaf in enumerate(leaves_of(y)):
        kind = getattr(leaf, "dtype", np.dtype(complex if isinstance(leaf, complex) else float)).kind
        if kind in "fc":
            real, imaginary = weights(start + number, shape_of(leaf))
            parts.append(((np.real(leaf) if kind == "c" else leaf) * real).sum())
            if kind == "c":
                parts.append((np.imag(leaf) * imaginary).sum())
    return sum(parts[1:], parts[0]) if parts else 0.0  # avoids needless calls, since each check differentiates this


@functools.lru_cache(maxsize=1024)
def weights(number: int, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return fixed random weights for the real and imaginary parts of output `number`."""
    rng = np.random.default_rng(number)
    return rng.uniform(0.5, 1.5, shape), rng.uniform(0.5, 1.5, shape)


def central_difference(f: Callable[..., Any], args: list[Any], which: int, eps: float) -> Any:
    """Return the gradient of the real scalar `f(*args)` by `args[which]`; that by x + iy is ∂x + i∂y."""
    x = np.asarray(args[which])
    wide = np.array(x, np.complex128 if x.dtype.kind == "c" else np.float64, order="K")
    found = np.zeros_like(wide)
    for index in np.ndindex(*x.shape):
        for unit in (1.0, 1j) if wide.dtype.kind == "c" else (1.0,):
            values = []
            for step in (eps, -eps):
                moved = wide.copy(order="K")
                moved[index] += unit * step
                given = moved if isinstance(args[which], np.ndarray) else moved.item()
                values.append(float(f(*args[:which], given, *args[which + 1:])))
            found[index] += unit * (values[0] - values[1]) / (2 * eps)
    return found
