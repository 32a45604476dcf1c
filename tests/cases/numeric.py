"""Cases of numerical analysis, polynomials, histograms, sets, functions that call functions, and questions with plain answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tests.cases.case import Case, draw

PAIR = [(draw(5), draw(3, seed=1)), (draw(3), draw(4, seed=1)), (draw(4), draw(4, seed=1)), (draw(2), draw(6, seed=1))]
NAN = np.where(draw(3, 4, seed=9) > 1.2, np.nan, draw(3, 4, seed=8))
KNOTS = np.array([-1.5, -0.4, 0.3, 1.6])
TIES = np.array([0.5, -1.0, 0.5, 2.0, -1.0, 0.7])
WEIGHTS = draw(3, 2)
BINS = np.array([-2.0, -0.5, 0.6, 2.0])


def numbers(*shapes: tuple[int, ...], **kwargs: Any) -> list[tuple[Any, ...]]:
    return [(draw(*shape, seed=i, **kwargs),) for i, shape in enumerate(shapes)]


def sliding(name: str, fn: Callable[..., Any]) -> list[Case]:
    """A convolution, by every mode, of real and of complex numbers, the first the longer or the shorter."""
    return [
        Case(name, fn, [*PAIR, (draw(6)[::-2], draw(3))],
             errors=[((np.ones((2, 2)), np.ones(2)), ValueError), ((np.ones(0), np.ones(2)), ValueError)]),
        *[Case(f"{name}:{mode}", lambda a, v, mode=mode: fn(a, v, mode), PAIR) for mode in ("full", "same", "valid")],
        *[Case(f"{name}:complex {mode}", lambda a, b, v, w, mode=mode: fn(a + 1j * b, v + 1j * w, mode),
               [(draw(n), draw(n, seed=2), draw(m, seed=3), draw(m, seed=4)) for n, m in ((4, 3), (2, 4))]) for mode in ("full", "same", "valid")],
    ]


def slope(name: str, fn: Callable[..., Any], least: int = 4) -> list[Case]:
    return [
        Case(name, fn, numbers((least,), (5,)), ops=("subtract",), errors=[((np.ones(1),), ValueError)]),
        Case(f"{name}:axes", fn, numbers((4, 3)), ops=("concat",)),
        Case(f"{name}:step", lambda x, h: fn(x, h), [(draw(5), 0.5), (draw(4, 3), 2.0)], ops=("divide",)),
        Case(f"{name}:steps", lambda x, h, k: fn(x, h, k), [(draw(4, 3), 0.5, 2.0)], ops=("divide",)),
        Case(f"{name}:points", lambda x, t: fn(x, t), [(draw(4), np.array([0.0, 1.0, 2.5, 3.0])), (draw(3), np.array([0.0, 1.0, 2.0]))],
             ops=("divide",)),
        Case(f"{name}:given points", lambda x: fn(x, [0.0, 1.0, 2.0, 3.0], axis=0), numbers((4,), (4, 2)), ops=("divide",)),
        Case(f"{name}:axis", lambda x, t: fn(x, t, axis=-1), [(draw(2, 4), np.array([0.0, 1.0, 2.5, 3.0]))], ops=("divide",),
             errors=[((np.ones((2, 3)), np.ones(2)), ValueError), ((np.ones((2, 3)), np.ones((2, 3))), ValueError)]),
    ]


class Moved:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Any) -> Any:
        return x * self.by


def _branch(x: float, y: float) -> float:
    return math.sin(x) * y if x > y else x * x


def _two(x: float) -> tuple[float, float]:
    return x * x, math.exp(x)


@np.vectorize
def _decorated(x: float) -> float:
    return x ** 3 if x > 0 else -x


def _steps(x: Any) -> Any:
    return np.piecewise(x, [x < -0.5, x > 0.8], [lambda v: v * v, np.sin, lambda v: 2 * v])


POLYNOMIALS = [
    Case("polyval", np.polyval, [(draw(4), draw(2, 3, seed=1)), (draw(3), 1.5), (draw(1), draw(3)), (draw(3), np.array(0.7))],
         ops=("multiply", "add")),
    Case("polyval:list", lambda x: np.polyval([1, 2.0, 3], x), numbers((3,)), ops=("multiply",)),
    Case("polyval:composed", lambda p, x: np.polyval(np.poly1d(p) * np.poly1d(p[1:]), x), [(draw(3), 0.5)], ops=("convolve",)),
    *[Case(f"{module}.{name}", lambda c, x, module=module, name=name: getattr(getattr(np.polynomial, module), name)(x, c),
           [(draw(4), draw(3, seed=1)), (draw(1), 0.7), (draw(3), 0.7)], ops=("multiply",))
      for module, name in [("polynomial", "polyval"), ("chebyshev", "chebval"), ("legendre", "legval"), ("hermite", "hermval"),
                           ("hermite_e", "hermeval"), ("laguerre", "lagval")]],
    Case("polynomial:object", lambda c, x: (np.polynomial.Polynomial(c) * np.polynomial.Polynomial([1.0, 2.0])).deriv()(x), [(draw(3), 0.7)], ops=("multiply",)),
    Case("polynomial:vander", lambda x: np.polynomial.legendre.legvander(x, 3), [(draw(3),)], ops=("setitem",)),
    Case("polynomial:fit", lambda y: np.polynomial.Polynomial.fit([0.0, 1.0, 2.0, 3.0], y, 2)(0.5), [(draw(4),)], ops=("linalg.lstsq",)),
    Case("polynomial:nodes", lambda x: np.polynomial.legendre.leggauss(3)[1] @ np.exp(x * np.polynomial.legendre.leggauss(3)[0]), [(0.7,)], ops=("matmul",)),
    Case("polyadd", np.polyadd, PAIR, ops=("pad", "add")), Case("polysub", np.polysub, PAIR, ops=("pad", "subtract")),
    Case("polymul", np.polymul, PAIR, ops=("convolve",)),
    Case("polymul:leading zeros", lambda p, q: np.polymul(p * np.array([0.0, 0.0, 1.0]), q), [(draw(3), draw(2))], ops=("convolve",)),
    Case("polydiv", np.polydiv, [(draw(5), draw(3, seed=1)), (draw(2), draw(3, seed=1)), (draw(3), draw(3, seed=1))], ops=("pad",)),
    Case("polyder", np.polyder, numbers((4,), (1,)), ops=("multiply",)),
    Case("polyder:twice", lambda p: np.polyder(p, 2), numbers((4,)), ops=("multiply",), errors=[]),
    Case("polyder:backwards", lambda p: np.polyder(p, -1), [], errors=[((np.ones(3),), ValueError)], ops=("multiply",)),
    Case("polyint", np.polyint, numbers((4,), (1,)), ops=("divide", "concat")),
    Case("polyint:constants", lambda p, k: np.polyint(p, 2, k), [(draw(3), draw(2, seed=1)), (draw(3), 0.5)], ops=("divide", "concat"),
         errors=[((np.ones(3), np.ones(0)), ValueError)]),
    Case("poly", np.poly, [(draw(3),), (draw(1),)], ops=("convolve",), errors=[((np.ones((2, 3)),), ValueError)]),
    Case("poly:pairs", lambda a, b: np.poly(np.stack([a + 1j * b, a - 1j * b])), [(0.5, 1.5)], ops=("convolve",)),
    Case("poly:of a matrix", np.poly, [(draw(3, 3) + draw(3, 3).T,)], ops=("convolve",)),
    Case("roots", lambda p: np.sort(np.abs(np.roots(p))), [(np.array([1.0, -3.0, -1.0, 1.0]),)], ops=("nonzero",)),
    Case("roots:zeros", lambda p: np.roots(p * np.array([0.0, 1.0, 1.0, 0.0])), [(np.array([1.0, 2.0, -3.0, 1.0]),)], ops=("nonzero",)),
    Case("polyfit", lambda x, y: np.polyfit(x, y, 2), [(draw(6), draw(6, seed=1)), (draw(5), draw(5, 2, seed=1))], ops=("cumulative_prod",)),
    Case("polyfit:weights", lambda x, y, w: np.polyfit(x, y, 1, w=w), [(draw(5), draw(5, seed=1), draw(5, low=0.5, seed=2))],
         ops=("cumulative_prod",)),
    Case("polyfit:cov", lambda x, y: np.polyfit(x, y, 1, cov=True), [(draw(5), draw(5, seed=1))], ops=("cumulative_prod",)),
    Case("vander", np.vander, numbers((4,), (1,)), ops=("cumulative_prod",), errors=[((np.ones((2, 2)),), ValueError)]),
    Case("vander:increasing", lambda x: np.vander(x, 3, increasing=True) + np.vander(x, 3), numbers((4,)), ops=("cumulative_prod",)),
    Case("vander:narrow", lambda x: x * np.vander(x, 1)[:, 0] + np.vander(x, 0).sum(), numbers((4,)), ops=("multiply",)),
    Case("trim_zeros", lambda x: np.trim_zeros(x * np.array([0, 0, 1, 0, 1, 0])), numbers((6,)), ops=("nonzero", "getitem")),
    Case("trim_zeros:front", lambda x: np.trim_zeros(x * np.array([0, 0, 1, 0, 1, 0]), "f"), numbers((6,)), ops=("nonzero", "getitem")),
]

HISTOGRAMS = [
    Case("bincount", np.bincount, [(np.array([0, 2, 2, 5]),)]),
    Case("bincount:weights", lambda w: np.bincount(np.array([0, 2, 2, 5]), w, minlength=8), numbers((4,)),
         errors=[((np.ones(3),), ValueError)]),
    Case("bincount:places", lambda n, w: np.bincount(n, weights=w), [(np.array([0, 2, 2, 5]), draw(4))]),
    Case("histogram", np.histogram, numbers((20,)), ops=("searchsorted",)),
    Case("histogram:bins", lambda x: np.histogram(x, 4, (-1.0, 1.5)), [*numbers((20,)), (np.zeros(0),)], ops=("searchsorted",)),
    Case("histogram:one number", lambda x: np.histogram(x, 4), [(np.array([1.5, 1.5]),), (np.zeros(0),)], ops=("searchsorted",), smooth=False),
    Case("histogram:edges", np.histogram, [(draw(20), BINS)], ops=("searchsorted",), errors=[((np.ones(2), np.array([1.0, 0.0])), ValueError)]),
    Case("histogram:weights", lambda x, w: np.histogram(x, 4, weights=w), [(draw(20), draw(20, seed=1))], ops=("bincount",)),
    Case("histogram:weights and range", lambda x, w: np.histogram(x, 3, (-1.0, 1.0), weights=w), [(draw(4, 5), draw(4, 5, seed=1))],
         ops=("bincount",)),
    Case("histogram:complex weights", lambda x, v, w: np.histogram(x, 3, weights=v + 1j * w), [(draw(9), draw(9, seed=1), draw(9, seed=2))],
         ops=("bincount",)),
    Case("histogram:weights and edges", lambda x, w, e: np.histogram(x, e, weights=w), [(draw(20), draw(20, seed=1), BINS)], ops=("cumulative_sum",)),
    Case("histogram:density", lambda x: np.histogram(x, 4, density=True), numbers((20,)), ops=("divide",)),
    Case("histogram:density of edges", lambda x, w, e: np.histogram(x, e, weights=w, density=True), [(draw(20), draw(20, seed=1), BINS)],
         ops=("divide",)),
    Case("histogram_bin_edges", lambda x: np.histogram_bin_edges(x, 5), numbers((20,)), ops=("min", "max")),
    Case("histogram2d", lambda x, y: np.histogram2d(x, y, 3), [(draw(20), draw(20, seed=1))], ops=("bincount",),
         errors=[((np.ones(2), np.ones(3)), ValueError)]),
    Case("histogram2d:weights", lambda x, y, w: np.histogram2d(x, y, [3, BINS], weights=w), [(draw(20), draw(20, seed=1), draw(20, seed=2))],
         ops=("bincount",)),
    Case("histogramdd", lambda x: np.histogramdd(x, (2, 3), density=True), [(draw(20, 2),)], ops=("bincount",)),
    Case("histogramdd:range", lambda x, w: np.histogramdd(x, 2, [(-1, 1), (-1, 2)], weights=w), [(draw(20, 2), draw(20, seed=1))], ops=("bincount",)),
]

SETS = [
    Case("unique", np.unique, [(draw(5),), (draw(2, 3),)]), Case("unique:ties", lambda x: np.unique(x[np.array([0, 2, 2, 1])]), numbers((3,))),
    Case("unique:all", lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True), [(draw(2, 3),), (TIES[:0],)]),
    Case("unique:counts", lambda x: np.unique(x, return_counts=True), numbers((4,))), Case("unique:number", np.unique, [(1.5,), (np.array(1.5),)]),
    Case("unique:axis", lambda x: np.unique(x, axis=1, return_inverse=True), numbers((3, 4))),
    Case("unique:nan", lambda x: np.nansum(np.unique(x, equal_nan=False)), [(NAN,)]),
    Case("unique:standard", lambda x: [np.unique_all(x), np.unique_counts(x), np.unique_inverse(x)], numbers((4,))),
    Case("unique:union", np.union1d, [(draw(3), draw(2, 2, seed=1))]),
    Case("isin:difference", lambda a, b: np.setdiff1d(a * b[0], b), [(draw(4), draw(3, seed=1)), (draw(3), np.array([1.0, -0.5]))],
         ops=("isin", "unique")),
    Case("isin:assumed", lambda a, b: np.setdiff1d(a, b, assume_unique=True), [(draw(4), draw(3, seed=1))], ops=("isin",)),
    Case("unique:exclusive or", np.setxor1d, [(draw(4), draw(3, seed=1)), (draw(0), draw(0))], ops=("unique", "sort")),
    Case("isin", lambda x: np.isin(x, [0.5, 2.0]), [(TIES,), (0.5,)]),
    Case("isin:invert", lambda x: np.isin(x.round(), [2.0, -1.0], invert=True) * x, [(TIES,)]),
    Case("lexsort", lambda a, b: np.lexsort((a, b)), [(TIES, TIES.round())]), Case("lexsort:rows", lambda x: np.lexsort(x, axis=-1), numbers((2, 4))),
    Case("lexsort:axis", lambda a, b: np.lexsort((a, b), axis=0), [(draw(3, 2), draw(3, 2, seed=1))]),
    Case("ravel_multi_index", lambda i, k: np.ravel_multi_index((i, k), (3, 4)), [(np.array([0, 2]), np.array([1, 3]))],
         errors=[((np.array([5]), np.array([0])), ValueError)]),
    Case("unravel_index", lambda i: np.unravel_index(i, (3, 4)), [(np.array([1, 11]),), (7,)], errors=[((np.array([12]),), ValueError)]),
    Case("unravel_index:largest", lambda x: x[np.unravel_index(np.argmax(x), x.shape)], numbers((3, 4))),
    Case("sort:complex", np.sort_complex, [(draw(4),), (draw(2, 3),)]),
]

FUNCTIONAL = [
    Case("apply_along_axis", lambda x: np.apply_along_axis(lambda row: row.sum() * row, 0, x), numbers((3, 2), (2, 3, 2)), ops=("stack",)),
    Case("apply_along_axis:numbers", lambda x: np.apply_along_axis(np.prod, -1, x), numbers((3, 2), (4,)), ops=("stack",)),
    Case("apply_along_axis:wider", lambda x, c: np.apply_along_axis(lambda row, s: np.outer(row, row) * s, 1, x, c), [(draw(2, 3, 2), 0.5)],
         ops=("stack",),
         errors=[((np.ones((0, 3)), 1.0), ValueError)]),
    Case("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, [0, -1]), numbers((2, 3, 2)), ops=("sum",)),
    Case("vectorize", np.vectorize(_branch), [(draw(2, 3), draw(3, seed=1)), (1.5, draw(2)), (1.5, 0.5), (np.array(0.5), 1.0)],
         ops=("item", "stack")),
    Case("vectorize:two", np.vectorize(_two), numbers((2, 3)), ops=("item",), errors=[((np.zeros(0),), ValueError)]),
    Case("vectorize:types", np.vectorize(_branch, otypes=[float]), [(draw(3), 0.3), (np.zeros((0, 2)), 1.0)], ops=("item",)),
    Case("vectorize:keywords", lambda x, y: np.vectorize(_branch)(x, y=y), [(draw(3), draw(3, seed=1))], ops=("item",)),
    Case("vectorize:excluded", lambda p, x: np.vectorize(lambda p, x: p[0] * x + p[1], excluded={0})(p, x), [(draw(2), draw(3, seed=1))],
         ops=("item",)),
    Case("vectorize:decorated", lambda x: _decorated(x) + 1, numbers((4,)), ops=("item",)),
    Case("vectorize:closure", lambda x, c: np.vectorize(lambda v: v * c)(x), [(draw(3), 0.5)], ops=("item",)),
    Case("vectorize:signature", lambda a, b: np.vectorize(lambda u, v: u @ v, signature="(n),(n)->()")(a, b), [(draw(2, 3), draw(3, seed=1))],
         ops=("stack",),
         errors=[((np.ones(3), np.ones(2)), ValueError)]),
    Case("vectorize:signatures", lambda a: np.vectorize(lambda u: (u[:2] * u[1], u.sum()), signature="(n)->(k),()")(a), numbers((2, 3)),
         ops=("stack",)),
    Case("vectorize:many", np.vectorize(_branch), [(draw(4, 9), draw(9, seed=1)), (draw(40), 0.2)], ops=("sin", "take")),
    Case("vectorize:many captured", lambda x, c: np.vectorize(lambda v: np.polyval(c, v) if v > c[0] else v ** 2)(x), [(draw(40), draw(3))], ops=("take",)),
    Case("frompyfunc:many", lambda x, y: [part.astype(float) for part in np.frompyfunc(lambda v, w: (v * w, math.exp(v)), 2, 2)(x, y)], [(draw(40), draw(40, seed=1))], ops=("exp",)),
    Case("vectorize:callable", np.vectorize(Moved(2.5)), numbers((3,)), ops=("item",)),
    Case("ndenumerate", lambda x: sum(v * v * (1 + sum(i)) for i, v in np.ndenumerate(x)), numbers((2, 2), (3,)), ops=("getitem",)),
    Case("piecewise", _steps, [*numbers((6,), (2, 3)), (1.5,), (np.array(-1.5),)], ops=("setitem",)),
    Case("piecewise:constants", lambda x, c: np.piecewise(x, [x < 0], [c, lambda v: v * c]), [(draw(5), 0.5)], ops=("setitem",)),
    Case("piecewise:arguments", lambda x, c: np.piecewise(x, x > 0, [lambda v, s, k: v * s + k, 0.0], c, k=2.0), [(draw(5), 0.5)], ops=("setitem",)),
    Case("piecewise:shapes", lambda x: np.piecewise(x, [np.ones((2, 3)) > 0, x > 0], [1.0, 2.0]), [], errors=[((np.ones(3),), ValueError)], ops=("setitem",)),
    Case("piecewise:wrong", lambda x: np.piecewise(x, [x < 0, x > 1], [1.0]), [], errors=[((np.ones(3),), ValueError)], ops=("setitem",)),
    Case("concat:brackets", lambda x, y: np.r_[x, 0.5, y, 0:3, y[0]], [(draw(3), draw(2, seed=1))]),
    Case("concat:columns", lambda x, y: np.c_[x, y, x * 2], [(draw(3), draw(3, seed=1)), (draw(3, 2), draw(3, seed=1))]),
    Case("concat:directive", lambda x, y: np.r_["0,2,0", x, y] * np.r_["-1", x, y].sum(), [(draw(3), draw(3, seed=1))]),
]

FACTS = [
    Case("angle", lambda a, b: np.angle(a + 1j * b), [(draw(3), draw(3, seed=1)), (1.5, -0.5)], torch=lambda a, b: torch.angle(a + 1j * b)),
    Case("angle:degrees", lambda a, b: np.angle(a + 1j * b, deg=True), [(draw(3), draw(3, seed=1))]),
    Case("angle:real", lambda x: x * np.angle(x), numbers((3,))),
    Case("angle:zero", lambda a, b: np.angle(a * (a + 1j * b)), [(draw(3), draw(3, seed=1))]),
    Case("item", lambda x: x.item() * 2, [(np.array(1.5),), (draw(1, 1),)], errors=[((np.ones(2),), ValueError)]),
    Case("item:place", lambda x: x.item(3) * x.item(1, 0) + x.item((0, 1)), numbers((2, 2)), errors=[((np.ones(2),), IndexError)]),
    Case("item:list", lambda x: [v for row in x.tolist() for v in row], numbers((2, 2))),
    Case("item:number", lambda x: x.tolist() * x, [(np.array(1.5),)]),
    Case("view", lambda x: x.view() * x.view(np.ndarray) + x.view(x.dtype), numbers((3,)), ops=("getitem",)),
    Case("to_device", lambda x: x.to_device("cpu") * 2, numbers((3,)), ops=("multiply",)),
    Case("asarray_chkfinite", lambda x: np.asarray_chkfinite(x) * x, numbers((3,)), ops=("isfinite",), errors=[((np.array([np.inf]),), ValueError)]),
    Case("astype:function", lambda x: np.astype(x, np.longdouble), numbers((3,))),
    Case("iscomplex", lambda a, b: [np.iscomplex(a + 1j * b), np.isreal(a + 1j * b), np.isreal(a), np.iscomplex(a)],
         [(TIES, np.array([0, 1.0, 0, 2, 0, 0]))], ops=("equal",)),
    Case("isposinf", lambda x: [np.isposinf(x), np.isneginf(x)], [(np.array([np.inf, -np.inf, np.nan, 1.0]),), (-np.inf,)], ops=("isinf",)),
    Case("array_equiv", lambda a, b: [np.array_equiv(a, b), np.array_equiv(a, np.stack([a, a])), np.array_equiv(a, a[:2])],
         [(draw(3), draw(3, seed=1))], ops=("equal",)),
    Case("result_type", lambda x, c: x.astype(np.result_type(x, np.float32, c)) * np.iscomplexobj(x) + np.isrealobj(x) * x, [(draw(3), 2.0)],
         ops=("astype",)),
    Case("can_cast", lambda x: x * np.can_cast(x, np.float32, "same_kind") + np.can_cast(x, np.complex128) * x.astype(np.common_type(x)), numbers((3,)), ops=("astype",)),
    Case("indices_from", lambda x: x[np.triu_indices_from(x)] * x[np.tril_indices_from(x)], numbers((3, 3)), ops=("getitem",)),
    Case("diag_indices_from", lambda x: x[np.diag_indices_from(x)], numbers((3, 3)), ops=("getitem",)),
]

ORDER = [
    Case("nanmedian", np.nanmedian, [(NAN,), (draw(5),), (NAN[0],)], ops=("sort",)),
    Case("nanmedian:axis", lambda x: np.nanmedian(x, axis=0, keepdims=True) * x[:, :1].sum() + np.nanmedian(x, axis=1)[:, None], numbers((3, 4)),
         ops=("sort",)),
    Case("nanmedian:axes", lambda x: np.nanmedian(x, axis=1), [(NAN,)], ops=("sort",)),
    Case("nanmedian:integers", lambda n, x: np.nanmedian(n) * x, [(draw(5, dtype=int), 1.5)], ops=("multiply",)),
    Case("nanquantile", lambda x: np.nanquantile(x, 0.3), [(NAN,), (draw(6),)], ops=("sort",)),
    Case("nanquantile:several", lambda x: np.nanquantile(x, [[0.1, 0.5], [0.9, 1.0]], axis=0), [(NAN,), (draw(6),)], ops=("sort",)),
    Case("nanquantile:kept", lambda x: np.nanquantile(x, [0.0, 0.7], axis=1, keepdims=True), [(NAN,)], ops=("sort",)),
    Case("nanpercentile", lambda x: np.nanpercentile(x, 40, axis=1), [(NAN,)], ops=("sort",)),
    Case("nanargmax", lambda x: [np.nanargmax(x), np.nanargmin(x, axis=1, keepdims=True)], [(NAN,)], ops=("argmax", "argmin"),
         errors=[((np.full(2, np.nan),), ValueError)]),
]

CASES = [
    *sliding("convolve", np.convolve), Case("convolve:number", np.convolve, [(2.0, draw(3)), (draw(3), 2.0)]), *sliding("correlate", np.correlate),
    Case("multiply:arange", lambda a, b: np.arange(a, b, 0.3), [(0.1, 2.0), (1, 2.4), (np.float64(0.3), 1.0), (2.0, 1.0)]),
    Case("multiply:arange_step", lambda b, d: np.arange(0, b, d) * np.arange(b / d), [(2.0, 0.13), (-1.0, -0.3)]),
    Case("multiply:arange_float32", lambda a: np.arange(a, 2.0, 0.5), [(np.float32(0.25),), (np.float32(0.235),)]),
    Case("multiply:arange_int", lambda n, x: x * np.arange(n) * np.arange(n, 3 * n, 2), [(3, 1.5)]),
    Case("convolve:kernel", lambda v: np.convolve(np.arange(4.0), v, mode="same"), numbers((3,))),
    Case("convolve:mode", lambda a: np.convolve(a, a, "none"), [], errors=[((np.ones(2),), ValueError)]),
    Case("interp", lambda x, f: np.interp(x, KNOTS, f), [(draw(2, 4), draw(4, seed=1)), (0.7, draw(4)), (draw(5, low=-3, high=3), draw(4))]),
    Case("interp:points", np.interp, [(draw(5), np.array(KNOTS), draw(4, seed=1)), (0.5, np.array([0.3]), np.array([2.0]))],
         errors=[((0.5, np.ones(2), np.ones(3)), ValueError), ((0.5, np.ones(0), np.ones(0)), ValueError)]),
    Case("interp:ends", lambda x, f, a, b: np.interp(x, KNOTS, f, left=a, right=b), [(draw(6, low=-3, high=3), draw(4), -5.0, 0.5)]),
    Case("interp:step", lambda x: np.interp(x, [-1.0, 0.0, 0.0, 1.0], [1.0, 2.0, 4.0, 3.0]), numbers((6,))),
    Case("interp:period", lambda x, p, f, t: np.interp(x, p, f, period=t),
         [(draw(6, low=-7, high=7), np.array([0.1, 2.5, -1.2, 1.4]), draw(4), 4.0)]),
    Case("interp:complex", lambda x, a, b: np.interp(x, KNOTS, a + 1j * b), [(draw(5), draw(4, seed=1), draw(4, seed=2))]),
    *slope("gradient", np.gradient), *slope("gradient:second", lambda *args, **kwargs: np.gradient(*args, edge_order=2, **kwargs)),
    Case("gradient:integers", lambda n, x: np.gradient(n) * x, [(draw(4, dtype=int), 1.5)], ops=("subtract",)),
    Case("gradient:too many", lambda x: np.gradient(x, 1.0, 2.0), [], errors=[((np.ones(3),), TypeError)], ops=("subtract",)),
    Case("unwrap", lambda x: np.unwrap(x), [(draw(6, low=-9, high=9),), (draw(2, 5, low=-20, high=20),)], ops=("remainder", "cumulative_sum")),
    Case("unwrap:axis", lambda x: np.unwrap(x, 4.0, axis=0), [(draw(5, 2, low=-20, high=20),)], ops=("remainder", "cumulative_sum")),
    Case("unwrap:period", lambda x, p: np.unwrap(x, period=p), [(draw(6, low=-9, high=9), 4.5)], ops=("remainder", "cumulative_sum")),
    Case("unwrap:integers", lambda n, x: np.unwrap(n, period=4) * x, [(np.array([0, 3, 5, 3, 9]), 1.5)], ops=("remainder",)),
    Case("cov", np.cov, [(draw(3, 5),), (draw(5),)], ops=("matmul",), torch=torch.cov),
    Case("cov:pair", np.cov, [(draw(5), draw(5, seed=1)), (draw(2, 5), draw(3, 5, seed=1))], ops=("matmul", "concat")),
    Case("cov:columns", lambda x: np.cov(x, rowvar=False, bias=True), numbers((5, 3)), ops=("matmul",)),
    Case("cov:weights", lambda x, w: np.cov(x, aweights=w, fweights=[1, 2, 1, 3, 1]), [(draw(3, 5), draw(5, low=0.5, seed=1))], ops=("matmul",),
         errors=[((np.ones((2, 5)), np.ones(4)), RuntimeError), ((np.ones((2, 5)), -np.ones(5)), ValueError)]),
    Case("cov:ddof", lambda x, w: np.cov(x, ddof=0, aweights=w), [(draw(3, 5), draw(5, low=0.5, seed=1))], ops=("matmul",)),
    Case("cov:complex", lambda a, b: np.cov(a + 1j * b), [(draw(2, 4), draw(2, 4, seed=1))], ops=("matmul",)),
    Case("corrcoef", np.corrcoef, [(draw(3, 5),)], ops=("matmul", "sqrt"), torch=torch.corrcoef),
    Case("corrcoef:pair", np.corrcoef, [(draw(5), draw(5, seed=1))], ops=("matmul", "sqrt")),
    Case("corrcoef:complex", lambda a, b: np.corrcoef(a + 1j * b), [(draw(2, 4), draw(2, 4, seed=1))], ops=("matmul",)),
    Case("numpy_i0", np.i0, [(draw(2, 3, low=0.1, high=12),), (1.5,), (np.array(-2.0),)], torch=torch.i0),
    Case("numpy_i0:kaiser", lambda b: np.kaiser(6, b) * b, [(3.5,)]), Case("numpy_i0:complex", np.i0, [], errors=[((np.array([1j]),), TypeError)]),
    Case("geomspace", lambda a, b: np.geomspace(a, b, 5), [(0.5, 8.0), (-0.5, -8.0), (draw(3, low=1), draw(3, low=1, seed=1))], ops=("log10",),
         errors=[((0.0, 1.0), ValueError)]),
    Case("geomspace:open", lambda a, b: np.geomspace(a, b, 4, endpoint=False, axis=-1), [(draw(2, low=1), draw(2, low=1, seed=1))], ops=("log10",)),
    Case("with_jacobian", lambda x: ops.with_jacobian(np.sin(x), x, np.cos(x), each=(True,)), [(draw(2, 3),), (1.5,), (draw(0),)],
         torch=lambda x: torch.sin(x)),
    Case("with_jacobian:whole", lambda x, a: ops.with_jacobian(WEIGHTS @ x * a, x, WEIGHTS.T * a, a, WEIGHTS @ x, each=(False, False)),
         [(draw(2), 1.5)], torch=lambda x, a: torch.tensor(WEIGHTS) @ x * a),
    *POLYNOMIALS, *HISTOGRAMS, *SETS, *FUNCTIONAL, *FACTS, *ORDER,
]
