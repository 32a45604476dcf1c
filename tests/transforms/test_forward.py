"""Forward mode: tangents over the table of ops, against the gradient and central differences; programs, tapes, nesting, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.testing import contract, weights
from tapegrad.tree.flatten import flatten, leaves_of
from tests.cases import CASES
from tests.cases.case import Case
from tests.ops.test_complex import MIXED, TAKEN, quiet

ROWS = [pytest.param(case, case.samples, id=case.name) for case in CASES if case.samples]
COMPLEX = [pytest.param(case, samples, id=f"{case.name}-{kind}") for kind, table in (("complex", TAKEN), ("mixed", MIXED))
           for case, samples in table if samples]


EPS = 1e-6


def is_inexact(x: Any) -> bool:
    return isinstance(x, (float, complex)) or getattr(getattr(x, "dtype", None), "kind", "") in tuple("fc")


def direction(x: Any, seed: int) -> Any:
    """Return a fixed tangent for an argument, None for one that is not real or complex."""
    if isinstance(x, (list, tuple)):
        return type(x)(direction(part, seed + 10 * i) for i, part in enumerate(x))
    if not is_inexact(x):
        return None
    rng = np.random.default_rng([seed, *np.shape(x)])
    t = rng.uniform(-1.0, 1.0, np.shape(x))
    t = t + 1j * rng.uniform(-1.0, 1.0, np.shape(x)) if np.iscomplexobj(x) else t
    return np.array(t, x.dtype) if isinstance(x, np.ndarray) else x.dtype.type(t) if hasattr(x, "dtype") else type(x)(t)


def along(y: Any, tangent: Any) -> float:
    """Return what `contract` makes of the tangent of a value: the real and complex numbers of the value, weighted."""
    total = 0.0
    leaves: list[Any] = []
    structure = flatten(y, "", leaves, [], shared=False)
    for number, (leaf, t) in enumerate(zip(leaves, structure.unmirror(tangent), strict=True)):
        if is_inexact(leaf):
            assert np.shape(t) == np.shape(leaf)
            assert getattr(t, "dtype", None) == getattr(leaf, "dtype", None)
            w, iw = weights(number, np.shape(leaf))
            total += float((np.real(t) * w).sum() + (np.imag(t) * iw).sum())
    return total


def paired(a: Any, b: Any) -> float:
    """Return the real part of <a, b>, over nested structures."""
    if a is None or b is None:
        return 0.0
    if isinstance(a, (list, tuple)):
        return sum(map(paired, a, b))
    return float(np.real(np.conj(a) * b).sum())


def agrees(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Check that <jvp, w> is <v, vjp>, for one direction v and the weights w of `contract`, and that a forward tape plays it."""
    v = tuple(direction(arg, i) for i, arg in enumerate(args))
    y, t = tg.jvp(fn, args, v)
    if not any(map(is_inexact, leaves_of(y))):
        return
    forward = along(y, t)
    reverse = paired(v, tg.gradient(lambda *xs: contract(fn(*xs)), *args))
    narrow = any(getattr(leaf, "dtype", None) in (np.float32, np.complex64) for leaf in leaves_of((args, y)))
    assert forward == pytest.approx(reverse, rel=1e-6 if narrow else 1e-10, abs=1e-6 if narrow else 1e-10)
    if not narrow and not any(isinstance(arg, (list, tuple)) for arg in args):
        there, back = (float(contract(fn(*[arg if d is None else arg + step * d for arg, d in zip(copied(args), v)]))) for step in (EPS, -EPS))
        assert forward == pytest.approx((there - back) / (2 * EPS), rel=1e-5, abs=1e-5)
    tape = tg.forwardtape(fn, *copied(args)).check()
    for a, b in zip(leaves_of(tape.play(*copied(args), *[d if is_inexact(arg) else zeros(arg) for arg, d in zip(args, v)])), leaves_of((y, t)), strict=True):
        np.testing.assert_allclose(a, b, 1e-6 if narrow else 1e-12, 1e-6 if narrow else 1e-12)


def copied(args: tuple[Any, ...]) -> list[Any]:
    return [arg.copy(order="K") if isinstance(arg, np.ndarray) else arg for arg in args]


def zeros(x: Any) -> Any:
    """Return the tangent that a forward tape has for what `direction` gives none: an integer's."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(zeros, x))
    if isinstance(x, np.ndarray):
        return None if x.dtype.kind not in "iu" else np.zeros(x.shape)
    return 0.0 if isinstance(x, (int, np.integer)) and not isinstance(x, bool) else None


@pytest.mark.parametrize(("case", "samples"), ROWS)
def test_the_tangent_is_the_adjoint_of_the_gradient(case: Case, samples: Any) -> None:
    for args in samples:
        agrees(case.fn, args)


@pytest.mark.parametrize(("case", "samples"), COMPLEX)
def test_the_tangent_is_the_adjoint_of_the_gradient_of_complex_numbers(case: Case, samples: Any) -> None:
    with quiet():
        for args in samples:
            agrees(case.fn, args)
