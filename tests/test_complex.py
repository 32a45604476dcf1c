"""Complex numbers: the table of cases again, on complex samples, and the rules of functions that are not holomorphic."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.testing import check_grads, contract
from tapegrad.tree import leaves_of
from tests.cases import FAMILIES
from tests.cases.case import Case

Args = tuple[Any, ...]
Sample = tuple[Case, Args]

# -- complex samples. The imaginary parts are small and odd: away from branch cuts, from ties, and from where rounding jumps.


def with_imaginary(x: Any, seed: int) -> Any:
    """Return a real floating argument with an imaginary part, exact zeros as they are; anything else as it is."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        rng = np.random.default_rng(seed)
        y = rng.permuted(0.1 + 0.5 * (np.arange(x.size) + 0.382) / max(x.size, 1)).reshape(x.shape)
        return np.asarray(x + 1j * np.where(x == 0, 0.0, y * rng.choice([-1.0, 1.0], x.shape)))
    if isinstance(x, (float, np.floating)):
        return type(x * 1j)(x + (0.372j if seed % 2 else -0.231j))
    return x


def is_real(x: Any) -> bool:
    return isinstance(x, (float, np.floating)) or getattr(getattr(x, "dtype", None), "kind", "") == "f"


def is_complex(x: Any) -> bool:
    return np.iscomplexobj(x)


def samples(case: Case) -> Iterator[Args]:
    """Yield the samples in which every floating argument is complex."""
    for args in case.samples:
        if any(map(is_real, args)):
            yield tuple(with_imaginary(arg, seed) for seed, arg in enumerate(args, 1))


def mixed(case: Case) -> Iterator[Args]:
    """Yield the samples in which one floating argument is complex, and others are real."""
    for args in case.samples:
        if sum(map(is_real, args)) > 1:
            for i in filter(lambda i: is_real(args[i]), range(len(args))):
                yield tuple(with_imaginary(arg, i + 1) if k == i else arg for k, arg in enumerate(args))


def runs(case: Case, args: Args) -> bool:
    """True unless NumPy (or math) refuses these arguments: it alone says which functions take complex numbers."""
    try:
        with quiet():
            case.fn(*args)
    except TypeError:
        return False
    return True


class quiet(warnings.catch_warnings):  # noqa: N801
    """NumPy warns where an imaginary part is dropped (`z.astype(float)`), which some cases do on purpose."""

    def __enter__(self) -> Any:
        log = super().__enter__()
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        return log


CASES = [case for family in ("elementwise", "reduce", "shape", "index", "linalg", "write", "sort") for case in FAMILIES[family]]
TABLE = [(case, [(args, runs(case, args)) for args in samples(case)]) for case in CASES]
MIXED = [(case, [args for args in mixed(case) if runs(case, args)]) for case in CASES]


def rows(table: Any, keep: Callable[[Case], Any] = lambda case: True) -> list[Any]:
    return [pytest.param(case, chosen, id=case.name) for case, chosen in table if chosen and keep(case)]


TAKEN = [(case, [args for args, taken in both if taken]) for case, both in TABLE]
REFUSED = [(case, [args for args, taken in both if not taken]) for case, both in TABLE]


def differentiable(case: Case, args: Args) -> bool:
    with quiet():
        return any(np.asarray(leaf).dtype.kind in "fc" for leaf in leaves_of(case.fn(*args)))


def weighted(case: Case) -> Callable[..., Any]:
    return lambda *xs: contract(case.fn(*xs))


def close(found: Any, expected: Any, tolerance: float = 1e-14) -> None:
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        np.testing.assert_allclose(a, b, tolerance, 1e-14)


def alike(found: Any, expected: Any) -> None:
    """Compare the kinds of what stands in nested structures."""
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        assert isinstance(a, type(b)) and np.shape(a) == np.shape(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None), (a, b)


@pytest.mark.parametrize(("case", "chosen"), rows(TAKEN))
def test_value_replay_and_gradient(case: Case, chosen: list[Args]) -> None:
    for args in chosen:
        with quiet():
            expected = case.fn(*args)
            value, tape = tg.trace(case.fn, *args)
            alike(value, expected)
            close(value, expected)
            close(tape.check().play(*args), expected)
            if not differentiable(case, args):
                continue
            check_grads(case.fn, *args)
            swept = tg.grad(weighted(case), *args)[1][1:]
            written = tg.gradtape(weighted(case), *args).check()
            close(written.play(*args)[1][1:], swept, 1e-12)
            close(tg.primitivize(written).check().play(*args)[1][1:], swept, 1e-12)
            alike(*zip(*[(dx, x) for x, dx in zip(args, swept) if is_complex(x)]))


@pytest.mark.parametrize(("case", "chosen"), rows(REFUSED))
def test_refuses_what_numpy_refuses(case: Case, chosen: list[Args]) -> None:
    for args in chosen:
        with pytest.raises(TypeError), quiet():
            tg.grad(weighted(case), *args)


@pytest.mark.parametrize(("case", "chosen"), rows(MIXED))
def test_a_real_argument_among_complex_ones_has_a_real_gradient(case: Case, chosen: list[Args]) -> None:
    for args in chosen:
        if not differentiable(case, args):
            continue
        with quiet():
            close(tg.trace(case.fn, *args)[0], case.fn(*args))
            check_grads(case.fn, *args)
            swept = tg.grad(weighted(case), *args)[1][1:]
            close(tg.gradtape(weighted(case), *args).play(*args)[1][1:], swept, 1e-12)
            alike(*zip(*[(dx, x) for x, dx in zip(args, swept) if is_real(x) or is_complex(x)]))


@pytest.mark.parametrize(("case", "chosen"), rows(TAKEN))
def test_complex64_in_complex64_out(case: Case, chosen: list[Args]) -> None:
    for args in chosen[:3]:
        if not differentiable(case, args):
            continue
        narrow = tuple(arg.astype(np.complex64) if isinstance(arg, np.ndarray) and arg.dtype == complex else arg for arg in args)
        with quiet():
            wide = tg.grad(weighted(case), *args)[1][1:]
            found = tg.grad(weighted(case), *narrow)[1][1:]
        for x, dx, expected in zip(narrow, found, wide):
            if getattr(x, "dtype", None) == np.complex64:
                assert dx.dtype == np.complex64 and dx.shape == x.shape
                np.testing.assert_allclose(dx, expected, 2e-3, 2e-4)


@pytest.mark.parametrize(("case", "chosen"), rows(TAKEN, lambda case: case.smooth))
def test_second_order(case: Case, chosen: list[Args]) -> None:
    for args in chosen[:2]:
        if differentiable(case, args):
            with quiet():
                check_grads(case.fn, *args, order=2)


@pytest.mark.parametrize(("case", "chosen"), rows(TAKEN, lambda case: case.torch is not None))
def test_torch_agrees(case: Case, chosen: list[Args]) -> None:
    for args in chosen:
        which = [i for i, arg in enumerate(args) if is_complex(arg)]
        if not differentiable(case, args):
            continue
        tensors = [torch.tensor(np.ascontiguousarray(arg) if np.ndim(arg) else arg, dtype=torch.complex128, requires_grad=True) if i in which else arg
                   for i, arg in enumerate(args)]
        try:
            outputs = leaves_of(case.torch(*tensors))
        except (RuntimeError, NotImplementedError) as err:
            assert any(word in str(err) for word in ("not implemented for", "not supported", "complex")), err  # noqa: PT017
            pytest.skip("torch does not take complex numbers here")
        total = torch.zeros(())
        for number, out in enumerate(outputs):
            rng = np.random.default_rng(number)
            for part in (torch.real, torch.imag) if out.is_complex() else (torch.real,):
                total = total + (part(out) * torch.tensor(rng.uniform(0.5, 1.5, tuple(out.shape)))).sum()
        found = tg.grad(weighted(case), *args)[1][1:]
        for i, dx in zip(which, torch.autograd.grad(total, [tensors[i] for i in which], allow_unused=True)):
            np.testing.assert_allclose(found[i], 0.0 if dx is None else dx.resolve_conj().numpy(), 1e-9, 1e-12)
