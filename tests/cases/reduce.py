"""Cases of the reductions, running totals and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tapegrad as tg
from tests.cases.case import Case, draw

ANY = (-2.0, 2.0)
MASK = np.array([[True, False, True], [True, True, False]])
NAN = np.where(draw(3, 4, seed=9) > 1.2, np.nan, draw(3, 4, seed=8))
ZEROS = [(np.array([2.0, 0.0, 3.0, -1.5]),), (np.array([[0.0, 2.0, 0.0], [1.5, -0.5, 0.7]]),), (np.zeros(3),)]


def samples(domain: tuple[float, float] = ANY, empty: bool = True) -> list[tuple[Any, ...]]:
    """2-d, 0-d, a float, strided, and zero-size."""
    low, high = domain
    return [(draw(2, 3, low=low, high=high),), (np.array(draw(low=low, high=high)),), (float(draw(low=low, high=high)),),
            (draw(4, 3, low=low, high=high, seed=1).T[::-1, ::2],), *([(np.zeros((0, 3)),)] if empty else [])]


def arrays(*shapes: tuple[int, ...], domain: tuple[float, float] = ANY) -> list[tuple[Any, ...]]:
    return [(draw(*shape, low=domain[0], high=domain[1], seed=i),) for i, shape in enumerate(shapes)]


def reduction(name: str, fn: Callable[..., Any], torch: Any = None, domain: tuple[float, float] = ANY, empty: bool = True,
              errors: tuple[Any, ...] = (), method: bool = True, **kwargs: Any) -> list[Case]:
    """One function over everything, along axes, with keepdims, and as a method."""
    some = arrays((2, 3), (3, 2), domain=domain)
    cases = [
        Case(name, fn, samples(domain, empty), torch=torch, errors=errors, **kwargs),
        Case(f"{name}:axis", lambda x: fn(x, axis=1), some, torch=torch and (lambda x: torch(x, 1)),
             errors=[((np.ones(3),), np.exceptions.AxisError)], **kwargs),
        Case(f"{name}:negative", lambda x: fn(x, axis=np.int64(-2)), [*some, (np.zeros((3, 0)),)], **kwargs),
        Case(f"{name}:keepdims", lambda x: fn(x, axis=0, keepdims=True) * x, some, **kwargs),
        Case(f"{name}:axes", lambda x: fn(x, axis=(0, -1)), arrays((2, 3, 2), domain=domain), **kwargs),
        Case(f"{name}:keepaxes", lambda x: x * fn(x, axis=(0, 2), keepdims=True), arrays((2, 3, 2), domain=domain), **kwargs),
        Case(f"{name}:keepall", lambda x: x + fn(x, keepdims=True), some, **kwargs),
    ]
    return [*cases, Case(f"{name}:method", lambda x: getattr(x, name)(0), some, **kwargs)] if method else cases


def masked(name: str, fn: Callable[..., Any], domain: tuple[float, float] = ANY, **initial: Any) -> list[Case]:
    """With `where=`: a mask of x's shape, one that broadcasts, one that is traced."""
    return [
        Case(f"{name}:where", lambda x: fn(x, where=MASK, **initial), arrays((2, 3), domain=domain), errors=[((np.ones((3, 2)),), ValueError)]),
        Case(f"{name}:where axis", lambda x: fn(x, axis=1, where=[True, False, True], keepdims=True, **initial), arrays((2, 3), domain=domain)),
        Case(f"{name}:where traced", lambda x: fn(x, axis=1, where=x > -1.2, **initial), arrays((2, 3), domain=domain)),
    ]


def total(name: str, fn: Callable[..., Any], torch: Any = None, method: str = "", **kwargs: Any) -> list[Case]:
    """A running total: along axes, over all elements, of one number, with zeros, as a method."""
    some = arrays((2, 3), (3, 2))
    return [
        Case(name, lambda x: fn(x, axis=0), [*some, (draw(4),), (np.zeros((0, 2)),), (draw(4, 3, seed=1).T[::-1, ::2],), *ZEROS],
             torch=torch and (lambda x: torch(x, 0)), **kwargs),
        Case(f"{name}:negative", lambda x: fn(x, axis=-1) * x, [*some, *ZEROS], **kwargs),
        Case(f"{name}:flat", fn, [(draw(2, 3),), (draw(3),), (np.array(1.5),), (1.5,)], **kwargs),
        Case(f"{name}:dtype", lambda x: fn(x, dtype=np.longdouble), [(draw(3),)], **kwargs),
        Case(f"{name}:to integers", lambda x: x * fn(x, dtype=int), [(np.array([1.2, 2.7]),)], **kwargs),
        *([Case(f"{name}:method", lambda x: getattr(x, method)(1), some, **kwargs)] if method else []),
    ]


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.logaddexp.reduce(x, axis, keepdims=keepdims)


NO_ORDER = {"errors": (((np.zeros(0),), ValueError),), "empty": False}
PAIRS = [(draw(3), draw(3, seed=6)), (draw(2, 3), draw(3)), (1.0, 1.0 + 1e-9), (draw(3), 0.5)]

CASES = [
    # -- sums and products
    *reduction("sum", np.sum, torch.sum), *masked("sum", np.sum, initial=2.0),
    Case("sum:initial", lambda x, v: np.sum(x, axis=0, initial=v), [(draw(2, 3), 0.5)]),
    Case("sum:dtype", lambda x: np.sum(x, dtype=np.longdouble), [(draw(3),)]),
    Case("sum:to integers", lambda x: x * np.sum(x, dtype=int), [(np.array([1.2, 2.7]),)]),
    Case("sum:integers", lambda n, x: np.sum(n) * x, [(draw(4, dtype=int), 1.5)]),
    Case("sum:ufunc", lambda x: np.add.reduce(x) * np.add.reduce(x, axis=1, keepdims=True), arrays((3, 3))),
    *reduction("prod", np.prod, torch.prod), *masked("prod", np.prod),
    Case("prod:zeros", np.prod, ZEROS, torch=torch.prod), Case("prod:zeros axis", lambda x: np.prod(x, axis=-1), ZEROS),
    Case("prod:zeros axes", lambda x: x.prod((0, 2)), [(np.array([[[0.0, 2.0], [1.0, 3.0]], [[0.5, 0.0], [-1.0, 2.0]]]),)]),
    Case("prod:initial", lambda x, v: np.prod(x, axis=0, initial=v), [(draw(2, 3), 2.0)]),
    Case("prod:complex", lambda a, b: np.prod(a + 1j * b), [(draw(3), draw(3, seed=5))]),
    Case("prod:ufunc", lambda x: np.multiply.reduce(x, axis=1), arrays((2, 3))),
    *reduction("logsumexp", logsumexp, lambda x, *axis: torch.logsumexp(x, axis or tuple(range(x.ndim))), empty=False, method=False)[1:],
    Case("logsumexp", logsumexp, arrays((2, 3), (4,))), Case("logsumexp:default", np.logaddexp.reduce, arrays((2, 3), (4,))),
    Case("logsumexp:initial", lambda x, v: np.logaddexp.reduce(x, initial=v), [(draw(1), 0.5)]),
    Case("logsumexp:where", lambda x: np.logaddexp.reduce(x, 1, where=MASK), arrays((2, 3))),
    Case("sum:nan", np.nansum, [(NAN,)]), Case("sum:nan axis", lambda x: np.nansum(x, axis=0, keepdims=True), [(NAN,), (draw(2, 3),)]),
    Case("sum:nan where", lambda x: np.nansum(x, 1, where=[True, False, True, True], initial=1.0), [(NAN,)]),
    Case("sum:nan integers", lambda n, x: np.nansum(n) * x, [(draw(4, dtype=int), 1.5)]),
    Case("prod:nan", np.nanprod, [(NAN,), (draw(2, 3),), (1.5,)]),
    # -- the largest and the smallest
    *reduction("max", np.max, torch.amax, **NO_ORDER), *masked("max", np.max, initial=-1.0),
    *reduction("min", np.min, torch.amin, **NO_ORDER), *masked("min", np.min, initial=1.0),
    Case("max:unmasked", lambda x: np.max(x, where=x > 0, initial=-np.inf), [(draw(2, 3),)]),
    Case("max:no initial", lambda x: np.max(x, where=MASK), [], errors=[((np.ones((2, 3)),), ValueError)]),
    Case("max:initial", lambda x, v: np.max(x, axis=0, initial=v), [(draw(2, 3), 0.5)]),
    Case("max:amax", np.amax, arrays((2, 3))), Case("min:amin", np.amin, arrays((2, 3))),
    Case("max:ufunc", lambda x: np.maximum.reduce(x) - np.minimum.reduce(x, axis=0), arrays((2, 3)), ops=("max", "min")),
    Case("nanmax", np.nanmax, [(NAN,), (draw(2, 3),), (1.5,)]), Case("nanmin", np.nanmin, [(NAN,), (draw(2, 3),), (1.5,)]),
    Case("nanmax:axis", lambda x: np.nanmax(x, axis=0, keepdims=True) * np.nanmin(x, 0), [(NAN,)], ops=("nanmax", "nanmin")),
    Case("nanmax:where", lambda x, v: np.nanmax(x, where=x > -1, initial=v), [(NAN, 0.3), (NAN, 5.0)]),
    Case("nanmax:ufunc", lambda x: np.fmax.reduce(x, axis=1) * np.fmin.reduce(x, axis=1), [(NAN,)], ops=("nanmax", "nanmin")),
    *reduction("ptp", np.ptp, **NO_ORDER, ops=("max", "min"), method=False),
    # -- moments
    *reduction("mean", np.mean, torch.mean, empty=False), *masked("mean", np.mean),
    Case("mean:integers", lambda n, x: np.mean(n, axis=0) * x, [(draw(4, dtype=int), 1.5)]),
    Case("mean:dtype", lambda x: np.mean(x, dtype=np.longdouble), [(draw(3),)]),
    Case("mean:nan", np.nanmean, [(NAN,), (draw(2, 3),)]),
    Case("mean:nan axis", lambda x: np.nanmean(x, axis=1, keepdims=True) ** 2, [(NAN[:, 1:],)]),
    *reduction("var", np.var, lambda x, *axis: torch.var(x, *axis, correction=0), empty=False,
               ops=("mean", "multiply", "subtract")),
    *masked("var", np.var), Case("var:where ddof", lambda x: np.var(x, axis=1, ddof=0.5, where=MASK), arrays((2, 3))),
    Case("var:ddof", lambda x: np.var(x, axis=0, ddof=1), arrays((3, 2)), torch=lambda x: torch.var(x, 0)),
    Case("var:correction", lambda x: np.var(x, correction=1.5), arrays((3, 2))),
    Case("var:about", lambda x, m: np.var(x, axis=1, mean=m, ddof=1), [(draw(2, 3), draw(2, 1, seed=3))]),
    Case("var:complex", lambda a, b: np.var(a + 1j * b, axis=0), [(draw(3, 2), draw(3, 2, seed=5))]),
    Case("var:both", lambda x: np.var(x, ddof=2, correction=1), [], errors=[((np.ones(3),), ValueError)]),
    Case("var:nan", np.nanvar, [(NAN,), (draw(2, 3),)]), Case("std:nan", lambda x: np.nanstd(x, axis=0, ddof=0.5), [(NAN,)]),
    *reduction("std", np.std, lambda x, *axis: torch.std(x, *axis, correction=0), empty=False, ops=("sqrt",))[1:],
    *masked("std", np.std)[:2], Case("std", np.std, arrays((2, 3), (4,))),
    Case("std:ddof", lambda x: x.std(ddof=1), arrays((4,)), torch=torch.std),
    Case("average", np.average, arrays((2, 3), (4,)), ops=("mean",)),
    Case("average:weights", lambda x, w: np.average(x, weights=w), [(draw(2, 3), draw(2, 3, low=0.5, high=2))], ops=("sum", "divide")),
    Case("average:along", lambda x, w: np.average(x, axis=1, weights=w, keepdims=True), [(draw(2, 3), draw(3, low=0.5, high=2))],
         ops=("sum", "divide"), errors=[((np.ones((2, 3)), np.ones(2)), ValueError), ((np.ones((2, 3)), np.zeros(3)), ZeroDivisionError)]),
    Case("average:axes", lambda x, w: np.average(x, axis=(2, 0), weights=w), [(draw(2, 3, 4), draw(4, 2, low=0.5, high=2))], ops=("sum", "divide")),
    Case("average:returned", lambda x, w: np.average(x, 0, w, returned=True), [(draw(2, 3), draw(2, low=0.5, high=2))], ops=("sum", "divide")),
    Case("average:count", lambda x: np.average(x, 0, returned=True), arrays((2, 3)), ops=("mean",)),
    Case("average:no axis", lambda x, w: np.average(x, weights=w), [], errors=[((np.ones((2, 3)), np.ones(3)), TypeError)]),
    # -- what has no derivative
    *[case for name, fn in [("any", np.any), ("all", np.all)]
      for case in reduction(name, lambda x, fn=fn, **options: fn(x > -1.5, **options))[:-1]],
    Case("any:method", lambda x: (x > 0).any(1) & (x > -2).all(1) & x.any(1), arrays((2, 3)), ops=("any", "all")),
    Case("all:where", lambda x: np.all(x > 0, where=MASK) | np.any(x > 0, where=MASK), arrays((2, 3)), ops=("any", "all")),
    Case("all:ufunc", lambda x: np.logical_and.reduce(x > 0) | np.logical_or.reduce(x > 0, axis=0), arrays((2, 3)), ops=("any", "all")),
    *[Case(name, fn, [*arrays((2, 3), (4,)), (1.5,)], errors=[((np.zeros(0),), ValueError)])
      for name, fn in [("argmax", np.argmax), ("argmin", np.argmin)]],
    Case("argmax:axis", lambda x: x.argmax(1) - np.argmin(x, axis=1, keepdims=True), arrays((2, 3)), ops=("argmax", "argmin")),
    Case("count_nonzero", np.count_nonzero, [(np.array([[0.0, 2.0], [1.0, 0.0]]),), (1.5,)]),
    Case("count_nonzero:axis", lambda x: x * np.count_nonzero(x > 0, axis=0, keepdims=True), arrays((2, 3)), ops=("count_nonzero",)),
    Case("nonzero", lambda x: np.nonzero(x > 0), arrays((2, 3), (4,))), Case("nonzero:method", lambda x: x[(x > 0).nonzero()], arrays((2, 3))),
    Case("nonzero:flat", lambda x: np.flatnonzero(x > 0), arrays((2, 3))), Case("nonzero:where", lambda x: np.argwhere(x > 0), arrays((2, 3))),
    Case("isclose", np.isclose, PAIRS, ops=("isfinite",)),
    Case("isclose:nan", lambda x: np.isclose(x, x, equal_nan=True), [(NAN,)], ops=("isnan",)),
    Case("allclose", np.allclose, PAIRS, ops=("all",)),
    Case("allclose:branch", lambda x: x * x if np.allclose(x, x + 1e-12) else x, arrays((3,)), ops=("all",)),
    Case("array_equal", np.array_equal, PAIRS[:2], ops=("all",)),
    Case("array_equal:nan", lambda x: np.array_equal(x, x, equal_nan=True), [(NAN,)], ops=("all",)),
    # -- running totals
    *total("cumulative_sum", np.cumsum, torch.cumsum, "cumsum"), *total("cumulative_prod", np.cumprod, torch.cumprod, "cumprod"),
    Case("cumulative_sum:nan", np.nancumsum, [(NAN,)]), Case("cumulative_prod:nan", lambda x: np.nancumprod(x, axis=0), [(NAN,)]),
    Case("cumulative_prod:complex", lambda a, b: np.cumprod(a + 1j * b), [(draw(3), draw(3, seed=5))]),
    Case("cumulative_sum:ufunc", lambda x: np.add.accumulate(x) * np.multiply.accumulate(x, axis=1), arrays((2, 3)),
         ops=("cumulative_sum", "cumulative_prod")),
    *[Case(name, lambda x, of=of: of.accumulate(x), [*arrays((4, 3), (5,))], errors=[((1.5,), TypeError)],
           torch=lambda x, name=name: getattr(torch, name.replace("ulative_", ""))(x, 0).values)
      for name, of in [("cumulative_max", np.maximum), ("cumulative_min", np.minimum)]],
    Case("cumulative_max:axis", lambda x: np.maximum.accumulate(x, axis=-1) * np.minimum.accumulate(x, axis=1), arrays((2, 5)),
         ops=("cumulative_max", "cumulative_min")),
    Case("cumulative_logsumexp", np.logaddexp.accumulate, arrays((4,), (3, 2), (0, 2)), torch=lambda x: torch.logcumsumexp(x, 0)),
    Case("cumulative_logsumexp:far", lambda x: np.logaddexp.accumulate(x, axis=-1), [(np.array([[-800.0, 0.5, 900.0, 1.0], [3.0, 2.0, -700.0, 3.5]]),)],
         torch=lambda x: torch.logcumsumexp(x, -1)),
    Case("cumulative_max:empty", np.maximum.accumulate, [(np.zeros((0, 2)),)]),
    Case("cumulative_max:nan", lambda x: np.nan_to_num(np.maximum.accumulate(x).real), [(np.array([1.0, 2.0, np.nan, 3.0]),)]),
    Case("recurrence", lambda a, b: tg.ops.recurrence(a, b, axis=-1),
         [(draw(2, 5), draw(2, 5, seed=3)), (draw(0), draw(0)), (draw(1), draw(1, seed=3))]),
    Case("recurrence:reverse", lambda a, b: tg.ops.recurrence(a, b, reverse=True),
         [(draw(5, 2), draw(5, 2, seed=3)), (draw(4), draw(4, seed=3))]),
    # -- differences
    Case("diff", np.diff, arrays((2, 3), (4,)), ops=("subtract",), torch=torch.diff, errors=[((1.0,), ValueError)]),
    Case("diff:axis", lambda x: np.diff(x, 2, axis=0), [*arrays((4, 2)), (np.zeros((3, 0)),)], ops=("subtract",)),
    Case("diff:ends", lambda x, a, b: np.diff(x, axis=0, prepend=a, append=b), [(draw(3, 2), 0.5, draw(2, 2))], ops=("concat",)),
    Case("diff:bool", lambda x: x[1:] * np.diff(x > 0), arrays((4,)), ops=("not_equal",)),
    Case("ediff1d", np.ediff1d, arrays((2, 3), (4,)), ops=("subtract",)),
    Case("ediff1d:ends", lambda x, a: np.ediff1d(x, a, [1.0, 2.0]), [(draw(4), 0.5), (draw(2, 2), draw(3))], ops=("concat",)),
    Case("trapezoid", np.trapezoid, arrays((2, 3), (4,)), ops=("sum",), torch=torch.trapezoid),
    Case("trapezoid:points", lambda y, x: np.trapezoid(y, x, axis=0), [(draw(3, 2), draw(3, seed=4)), (draw(3, 2), draw(3, 2, seed=4))], ops=("sum",)),
    Case("trapezoid:step", lambda y, h: np.trapezoid(y, dx=h), [(draw(4), 0.1)], ops=("sum",)),
]
if hasattr(np, "cumulative_sum"):  # from NumPy 2.1 on
    CASES += [
        Case("cumulative_sum:standard", lambda x: np.cumulative_sum(x, axis=1, include_initial=True), [*arrays((2, 3)), (np.zeros((2, 0)),)]),
        Case("cumulative_prod:standard", lambda x: np.cumulative_prod(x, include_initial=True), [(draw(3),), *ZEROS[::2]],
             errors=[((np.ones((2, 2)),), ValueError)]),
    ]
