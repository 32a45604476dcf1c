"""Complex numbers: the table of cases again, on complex samples, and the rules of functions that are not holomorphic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.testing import check_grads, contract
from tapegrad.tree.flatten import leaves_of
from tests.cases import FAMILIES
from tests.cases.case import Case
from tests.cases.over import over
from tests.harness.compare import same
from tests.harness.sample import Sample, quiet
from tests.harness.table import second_order, tangent, value_and_gradient

Args = tuple[Any, ...]

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
    except (TypeError, DeprecationWarning):  # which says that it will be a TypeError
        return False
    return True


CASES = [case for family in ("elementwise", "reduce", "shape", "index", "linalg", "write", "sort") for case in FAMILIES[family]]
TABLE = [(case, [(args, runs(case, args)) for args in samples(case)]) for case in CASES]
MIXED = [(case, [args for args in mixed(case) if runs(case, args)][:4]) for case in CASES]


def rows(table: Any, keep: Callable[[Case], Any] = lambda case: True) -> list[Any]:
    return [pytest.param(case, chosen, id=case.name) for case, chosen in table if chosen and keep(case)]


TAKEN = [(case, [args for args, taken in both if taken]) for case, both in TABLE]
REFUSED = [(case, [args for args, taken in both if not taken]) for case, both in TABLE]


def differentiable(case: Case, args: Args) -> bool:
    with quiet():
        return any(np.asarray(leaf).dtype.kind in "fc" for leaf in leaves_of(case.fn(*args)))


def weighted(case: Case) -> Callable[..., Any]:
    return lambda *xs, fn=case.fn: contract(fn(*xs))


def close(found: Any, expected: Any, tolerance: float = 1e-14) -> None:
    same(found, expected, tolerance, 1e-14)


@over(rows(TAKEN))
def test_every_derivative(case: Case, chosen: list[Args]) -> None:
    with quiet():
        for number, args in enumerate(chosen):
            sample = Sample(case.fn, args, case.smooth)
            value_and_gradient(sample)
            tangent(sample)
            if not number:
                second_order(sample)


@over(rows(MIXED))
def test_real_arguments_among_complex_ones(case: Case, chosen: list[Args]) -> None:
    with quiet():
        for args in chosen:
            value_and_gradient(sample := Sample(case.fn, args))
            tangent(sample)


@over(rows(REFUSED))
def test_refuses_what_numpy_refuses(case: Case, chosen: list[Args]) -> None:
    for args in chosen:
        # the built-in round of NumPy's complex numbers was deprecated until NumPy 2.3
        with pytest.raises((TypeError, DeprecationWarning)), quiet():
            tg.grad(weighted(case), *args)


@over(rows(TAKEN))
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


@pytest.mark.parametrize(("case", "chosen"), rows(TAKEN, lambda case: case.torch is not None))
def test_torch_agrees(case: Case, chosen: list[Args]) -> None:
    compared = 0
    for args in chosen:
        which = [i for i, arg in enumerate(args) if is_complex(arg)]
        if not differentiable(case, args):
            continue
        tensors = [torch.tensor(np.ascontiguousarray(arg) if np.ndim(arg) else arg, dtype=torch.complex128, requires_grad=True) if i in which else arg
                   for i, arg in enumerate(args)]
        try:
            outputs = leaves_of(case.torch(*tensors))
        except (RuntimeError, NotImplementedError) as err:
            assert any(words in str(err) for words in ("not implemented for", "not supported", "complex")), err
            continue
        compared += 1
        total = torch.zeros(())
        for number, out in enumerate(outputs):
            rng = np.random.default_rng(number)
            for part in (torch.real, torch.imag) if out.is_complex() else (torch.real,):
                total = total + (part(out) * torch.tensor(rng.uniform(0.5, 1.5, tuple(out.shape)))).sum()
        found = tg.grad(weighted(case), *args)[1][1:]
        for i, dx in zip(which, torch.autograd.grad(total, [tensors[i] for i in which], allow_unused=True)):
            np.testing.assert_allclose(found[i], 0.0 if dx is None else dx.resolve_conj().numpy(), 1e-9, 1e-12)
    if not compared:
        pytest.skip("torch takes no complex numbers here")


@pytest.mark.parametrize(("fn", "same"), [(np.sign, torch.sgn), (np.angle, torch.angle), (np.abs, torch.abs), (lambda z: np.var(z), lambda z: torch.var(z, correction=0)),
                                          (np.linalg.norm, torch.linalg.vector_norm), (lambda z: z ** (1 + 2j), lambda z: z ** (1 + 2j))])
def test_torch_agrees_where_it_spells_otherwise(fn: Any, same: Any) -> None:
    z = torch.tensor(Z, requires_grad=True)
    y = same(z)
    total = (torch.real(y) * 0.7).sum() + ((torch.imag(y) * 0.4).sum() if y.is_complex() else 0.0)
    expected, = torch.autograd.grad(total, z)
    np.testing.assert_allclose(tg.gradient(lambda z: (np.real(fn(z)) * 0.7 + np.imag(fn(z)) * 0.4).sum(), Z)[0], expected.resolve_conj().numpy(), 1e-12)


# -- functions that are not holomorphic, and kinks: with x̄ + iȳ, the gradient of a real f is the direction in which f grows fastest

Z = np.array([1.0 + 2.0j, -0.5 + 0.3j, 0.2 - 1.0j])
X = np.array([0.5, -1.0, 2.0])


def test_the_convention() -> None:
    assert tg.grad(lambda z: abs(z) ** 2, 1 + 2j)[1] == (None, pytest.approx(2 + 4j))
    assert tg.gradient(lambda z: z.real, 1 + 2j) == (1 + 0j,)
    assert tg.gradient(lambda z: z.imag, 1 + 2j) == (1j,)
    assert tg.gradient(lambda z: (z * (3 - 1j)).real, 1 + 2j) == (3 + 1j,)
    # f holomorphic: the seed times conj(f')
    np.testing.assert_allclose(tg.gradient(lambda z: z ** 3, 1 + 2j, seed=1 + 1j)[0], (1 + 1j) * np.conj(3 * (1 + 2j) ** 2))
    np.testing.assert_allclose(tg.gradient(lambda z: z.conjugate(), 1 + 2j, seed=1 + 1j)[0], 1 - 1j)


@pytest.mark.parametrize("f", [
    np.angle, lambda z: np.angle(z, deg=True), lambda z: np.unwrap(np.angle(z)), np.sign, np.abs, lambda z: z.real * z.imag, lambda z: z.conj() * z * z,
    np.linalg.norm, lambda z: np.linalg.norm(z, 1), lambda z: np.linalg.norm(z, np.inf), lambda z: np.linalg.norm(z, 3),
    lambda z: np.linalg.norm(np.outer(z, z + 1), axis=1), lambda z: np.linalg.norm(np.outer(z, z + 1) + np.eye(3), 2),
    np.var, np.std, np.mean, lambda z: np.cov(np.stack([z, z * z])), lambda z: np.corrcoef(np.stack([z, z * z])),
    lambda z: np.isreal(z) * z + np.iscomplex(z) * z * z, lambda z: np.maximum(z, z[::-1] * 2j), np.max, np.sort, np.ptp,
    lambda z: np.interp(X, np.array([-2.0, 0.0, 3.0]), z), lambda z: 2.0 ** z, lambda z: z ** 2.5, lambda z: np.abs(z) ** z,
    lambda z: np.real(z) + np.imag(z) * np.conj(z)])
def test_functions_of_every_kind(f: Any) -> None:
    for z in (Z, Z * (0.3 - 0.8j)):
        check_grads(f, z, order=2)
        close(tg.trace(f, z)[1].play(z[::-1].copy()), f(z[::-1]), 1e-13)


@pytest.mark.parametrize("f", [abs, np.abs, np.sign, np.std, np.linalg.norm, lambda z: abs(z.real) + abs(z.imag), np.square])
@pytest.mark.parametrize("x", [0j, np.zeros(2, complex), np.array(0j)], ids=repr)
def test_at_zero_the_gradient_is_zero(f: Any, x: Any) -> None:
    assert not np.any(tg.gradient(lambda z: np.real(np.sum(f(z))), x)[0])


def test_products_with_zeros() -> None:
    for z in (np.array([0, 1 + 1j, 2 - 1j]), np.array([0, 0j, 2j])):
        check_grads(np.prod, z, order=2)
        check_grads(np.cumprod, z, order=2)


def test_ties_of_complex_numbers_share() -> None:
    z = np.array([1 + 1j, 1 + 2j, 1 + 2j])
    np.testing.assert_array_equal(tg.gradient(lambda z: np.max(z).imag, z)[0], [0, 0.5j, 0.5j])
    assert tg.gradient(lambda a, b: np.maximum(a, b).real, 1 + 2j, 1 + 2j) == (0.5, 0.5)
    assert tg.gradient(lambda a, b: np.minimum(a, b).imag, 1 + 2j, 1 - 2j) == (0, 1j)
    assert tg.gradient(lambda a, b: np.fmax(a, b).real, complex("nan"), 1 - 2j) == (0, 1)


def test_nan_to_num_replaces_each_part() -> None:
    z = np.array([complex(1, np.nan), complex(np.inf, 2), 3 + 4j])
    np.testing.assert_array_equal(tg.gradient(lambda z: (np.nan_to_num(z).real + np.nan_to_num(z).imag).sum(), z)[0], [1, 1j, 1 + 1j])


def test_nan_to_num_by_traced_numbers() -> None:
    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        return (np.nan_to_num(x, nan=a, posinf=b, neginf=2 * c) * np.array([1.0, 10.0, 100.0, 1000.0])).sum()
    x = np.array([np.nan, np.inf, -np.inf, 5.0])
    for step in (tg.grad, lambda f, *args: tg.value_and_grad(f, argnums=None)(*args)):
        value, (_, dx, *rest) = step(f, x, 1.0, 2.0, 3.0)
        assert value == 5621.0 and rest == [1.0, 10.0, 200.0]
        np.testing.assert_array_equal(dx, [0, 0, 0, 1000.0])
    assert tg.trace(lambda x, a: np.nan_to_num(x, nan=a), x.astype(np.float32), 1.0)[0].dtype == np.float32
    with pytest.raises(tg.UnknownFunction, match="complex"):
        tg.grad(lambda z, a: np.nan_to_num(z, nan=a).imag.sum(), Z, 1.0)


def test_casts_drop_the_imaginary_part_and_its_gradient() -> None:
    for f in (lambda z: z.astype(float) * z, lambda z: np.sum(z, dtype=float) * z, lambda z: np.cumprod(z, dtype=float) * z,
              lambda z: np.prod(z, dtype=float) * z):
        with quiet():
            close(tg.trace(f, Z)[0], f(Z))
            check_grads(f, Z)
    check_grads(lambda x: x.astype(complex) * 1j + np.sum(x, dtype=complex) + np.array(x, complex) ** 2, X)


# -- writes


def real_into_complex(x: Any, z: Any) -> Any:
    y = np.zeros(3, complex)
    y[0] = x[0]
    y[1:] = x[1:] * 2
    y[2] *= z[0]
    return y * z


def parts_of_a_complex_array(x: Any, z: Any) -> Any:
    y = z * 1.0
    y.imag[0] = x[0]
    y.real[1:] = x[:2] * x[2]
    y.imag[...] += y.real
    return y


def complex_into_real(x: Any, z: Any) -> Any:
    y = x * 1.0
    y[:] = z * x
    return y * z


@pytest.mark.parametrize("f", [real_into_complex, parts_of_a_complex_array, lambda x, z: parts_of_a_complex_array(x, z).real,
                               lambda x, z: parts_of_a_complex_array(x, z).imag, complex_into_real, lambda x, z: np.where(x > 0, x, z),
                               lambda x, z: np.array([[z[0], x[0]], [1.0, x[1] * z[1]]]), lambda x, z: np.concatenate([x, z]) * 1j,
                               lambda x, z: np.array([x[0], z[0]]) @ np.array([z[1], 1j])])
def test_real_and_complex_in_one_array(f: Any) -> None:
    with quiet():
        value, tape = tg.trace(f, X, Z)
        close(value, f(X.copy(), Z.copy()))
        close(tape.play(X[::-1].copy(), Z), f(X[::-1].copy(), Z))
        check_grads(f, X, Z, order=2)
        dx, dz = tg.gradient(lambda *xs: contract(f(*xs)), X, Z)
        close(tg.gradtape(lambda *xs: contract(f(*xs)), X, Z).play(X, Z)[1][1:], (dx, dz), 1e-12)
    assert dx.dtype == float and dz.dtype == complex


def test_writes_that_numpy_refuses() -> None:
    def scalar(x: Any, z: Any) -> Any:
        y = np.zeros(2)
        y[0] = z
        return y.sum() * x

    def added(x: Any, z: Any) -> Any:
        y = np.full(2, x)
        y += z
        return y.sum()
    for f in (scalar, added):
        for run in (f, lambda *xs, f=f: tg.grad(f, *xs)):
            with pytest.raises(TypeError):
                run(1.0, 1 + 2j)
    with pytest.warns(np.exceptions.ComplexWarning):
        tg.trace(complex_into_real, X, Z)

    def imaginary_part(z: Any) -> Any:
        z = z * 1
        z.imag[0] = 3.0
        return abs(z).sum()
    _, tape = tg.trace(imaginary_part, Z)
    for run in (imaginary_part, tape.play):
        with pytest.raises(ValueError, match="read-only"):
            run(X)


# -- Python's complex numbers


@pytest.mark.parametrize("f", [
    lambda z: z * z / (z + 3), lambda z: z ** 3 + z ** -2 + z ** 0, lambda z: abs(z) * z.conjugate(), lambda z: (2 + 1j) ** z - z, lambda z: np.exp(1j * z) + -z,
    lambda z: np.maximum(z, 2j) * np.where(z == 0, 1, z), lambda z: sum([z, 1.0, 2j]), lambda z: np.clip(z, 1, 2), lambda z: np.angle(z), lambda z: np.array([z, 1]) @ np.array([2j, z])])
def test_a_python_number(f: Any) -> None:
    z = 1.2 + 0.5j
    value, tape = tg.trace(f, z)
    same(value, f(z))
    close(value, f(z), 1e-13)
    close(tape.play(0.7 - 1j), f(0.7 - 1j), 1e-13)
    check_grads(f, z, order=2)
    dz = tg.gradient(lambda z: contract(f(z)), z)[0]
    assert type(dz) is complex and tg.gradtape(f, z, seed=1.0 if np.isrealobj(f(z)) else 1j).play(z)[1][1] is not None


def test_a_python_number_as_seed() -> None:
    for case, chosen in TAKEN:
        for args in chosen[:3]:
            with quiet():
                y = case.fn(*args)
                if isinstance(y, (list, tuple, dict)) or np.shape(y) != () or np.asarray(y).dtype.kind not in "fc":
                    continue
                seed = 0.7 - 0.4j if is_complex(y) else 0.7
                expected = tg.grad(lambda *xs, case=case, seed=seed: np.real(case.fn(*xs) * np.conj(seed)), *args)[1][1:]
                close(tg.grad(case.fn, *args, seed=seed)[1][1:], expected, 1e-12)
                close(tg.primitivize(tg.gradtape(case.fn, *args, seed=seed)).play(*args)[1][1:], expected, 1e-12)


def test_what_would_lose_the_gradient_is_refused() -> None:
    for f in (lambda x: abs(complex(x, 1.0)), lambda x: abs(complex(x))):
        with pytest.raises(tg.ConcretizationError):
            tg.grad(f, 2.0)


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sqrt", "log", "log1p", "log10"])
def test_on_a_branch_cut_the_gradient_is_that_of_its_side(name: str) -> None:
    fn = getattr(np, name)

    def f(z: Any) -> Any:
        return np.real(fn(z)) * 0.7 + np.imag(fn(z)) * 1.3
    real = [complex(sign * size, side) for size in (0.5, 1.6) for sign in (1, -1) for side in (0.0, -0.0)]
    imaginary = [complex(side, sign * size) for size in (0.5, 2.0) for sign in (1, -1) for side in (0.0, -0.0)]
    for z in real + imaginary:
        step = 1e-6  # along the cut: the sign of the zero, which says on which side of it a number lies, stays
        slope = (f(complex(z.real * (1 + step), z.imag * (1 + step))) - f(complex(z.real * (1 - step), z.imag * (1 - step)))) / (2 * step)
        _, (_, dz) = tg.grad(f, z)
        assert slope == pytest.approx(dz.real * z.real + dz.imag * z.imag, rel=1e-6, abs=1e-6)
