"""Decompositions: what they leave free is refused, what is determined stays exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy

import tapegrad as tg
from tapegrad.errors import GuardError, MissingRule, UnknownFunction
from tapegrad.testing import check_grads
from tapegrad.transforms.primitivize import primitivize
from tests.cases.case import draw

Z = draw(3, 3) + 1j * draw(3, 3, seed=1)


def test_results_keep_their_names() -> None:
    x = draw(2, 2) + 3 * np.eye(2)
    for fn in (np.linalg.eig, np.linalg.eigh, np.linalg.svd, np.linalg.qr, np.linalg.slogdet, lambda x: np.linalg.svd(x, hermitian=True)):
        value, tape = tg.trace(fn, x)
        assert type(value) is type(fn(x)) is type(tape.play(x))


@pytest.mark.parametrize("f", [
    lambda x: np.linalg.eigh(x)[1].real.sum(), lambda x: np.linalg.eig(x)[1].real.sum(), lambda x: np.linalg.svd(x)[0].real.sum(),
    lambda x: np.linalg.svd(x)[2].imag.sum(), lambda x: np.linalg.svd(x[:1])[2].real.sum(), lambda x: np.linalg.svd(x[:, :1].real)[0].sum(),
    lambda x: np.linalg.qr(x[:, :1].real, "complete")[0].sum(),
])
def test_what_is_arbitrary_has_no_derivative(f: Callable[..., Any]) -> None:
    with pytest.raises(MissingRule, match="not unique"):
        tg.grad(f, Z)


def test_the_last_column_is_determined_but_for_its_sign() -> None:
    check_grads(lambda x: np.linalg.svd(x)[0], draw(3, 2), order=2)
    check_grads(lambda x: np.linalg.qr(x, "complete")[0], draw(3, 2), order=2)


@pytest.mark.filterwarnings("ignore:Diagonal number")
def test_factors_depend_on_no_last_pivot() -> None:
    for x in (np.array([[4.0, 2.0], [2.0, 1.0]]), np.array([[4.0, -1.0, -3.0], [-1.0, 2.0, -1.0], [-2.0, -2.0, 4.0]])):
        assert abs(scipy.linalg.lu(x)[2][-1, -1]) < 1e-15
        check_grads(lambda x: scipy.linalg.lu_factor(x)[0], x, order=2)
        check_grads(lambda x: tg.jvp(lambda x: scipy.linalg.lu_factor(x)[0], (x,), (x ** 2,))[1], x)


def test_raw_reflectors_are_refused() -> None:
    with pytest.raises(UnknownFunction, match="reflectors"):
        tg.grad(lambda x: np.linalg.qr(x, "raw")[0].sum(), Z)


def test_equal_eigenvalues_are_harmless_where_nothing_depends_on_their_basis() -> None:
    x = np.diag([1.0, 2.0, 2.0])
    for f in (lambda x: (np.linalg.eigvalsh(x) ** 2).sum(), lambda x: (np.linalg.eigh(x)[0] ** 2).sum(),
              lambda x: (np.linalg.eigh(x)[1][:, 0] ** 2 * np.array([1.0, 2.0, 3.0])).sum(), lambda x: np.linalg.norm(x, "nuc"),
              lambda x: np.linalg.det(x), lambda x: np.linalg.eigvals(x).sum(), lambda x: (np.linalg.svd(x)[1] ** 2).sum()):
        check_grads(f, x)
    check_grads(np.linalg.det, x, order=2)
    check_grads(np.linalg.det, np.zeros((3, 3)), order=2)


def test_equal_eigenvalues_are_never_silently_wrong() -> None:
    def expm(x: Any) -> Any:
        w, v = np.linalg.eigh(x)
        return (v * np.exp(w) @ v.T)[0].sum()
    with np.errstate(all="ignore"):
        assert not np.isfinite(tg.gradient(expm, np.eye(2))[0]).all()


def test_a_replay_guards_whether_the_eigenvalues_are_real() -> None:
    real, turning = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, -1.0], [1.0, 0.0]])
    _, tape = tg.trace(lambda x: np.abs(np.linalg.eigvals(x)).sum(), real)
    assert tape.play(2 * real) == np.abs(np.linalg.eigvals(2 * real)).sum()
    if np.linalg.eigvals(real).dtype == complex:  # always, from NumPy 2.5 on
        assert tape.play(turning) == np.abs(np.linalg.eigvals(turning)).sum()
    else:
        with pytest.raises(GuardError):
            tape.play(turning)


def test_singular_matrices() -> None:
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(tg.gradient(np.linalg.det, x)[0], [[4.0, -2.0], [-2.0, 1.0]])
    assert tg.gradient(np.linalg.norm, np.zeros(2))[0].tolist() == [0.0, 0.0]
    with pytest.raises(np.linalg.LinAlgError):
        tg.grad(lambda x: np.linalg.slogdet(x)[1], x)  # minus infinity
    with np.errstate(all="ignore"):
        assert tg.trace(np.linalg.cond, np.zeros((2, 2)))[0] == np.inf


def test_integers_and_lists() -> None:
    assert tg.gradient(np.linalg.det, np.array([[1, 2], [3, 4]]))[0].round(9).tolist() == [[4.0, -3.0], [-2.0, 1.0]]
    for order in (None, 1, 2, np.inf, 0):
        value, _ = tg.grad(lambda x, order=order: np.linalg.norm(x, order), np.array([3, -4]))
        assert value == np.linalg.norm([3, -4], order)
    np.testing.assert_allclose(tg.gradient(lambda x: np.linalg.solve([[2.0, 0.0], [0.0, 4.0]], x).sum(), np.ones(2))[0], [0.5, 0.25])


@pytest.mark.parametrize("f", [
    lambda x: np.linalg.det(x) + np.linalg.inv(x).sum(), lambda x: (np.linalg.eigh(x @ x.T)[1] ** 2)[0, 0], lambda x: np.linalg.svd(x)[0][0, 0] ** 2,
    lambda x: np.linalg.qr(x)[0].sum() + np.linalg.lstsq(x, x[0])[0].sum(), lambda x: np.linalg.slogdet(x)[1] * np.linalg.cond(x),
])
def test_flat_gradient_tapes(f: Callable[..., Any]) -> None:
    x, other = draw(3, 3, seed=1), draw(3, 3, seed=2)
    flat = primitivize(tg.gradtape(f, x))
    for at in (x, other):
        np.testing.assert_allclose(flat.play(at)[1][1], tg.gradient(f, at)[0], 1e-9, 1e-10)


@pytest.mark.parametrize("f", [lambda x: np.linalg.pinv(x, 0.5).sum(), lambda x: np.linalg.lstsq(x, np.ones(3), 0.5)[0].sum()])
def test_a_cut_off_that_leaves_out_what_is_not_zero_is_refused(f: Any) -> None:
    whole, steep = np.eye(3)[:, :2], np.array([[1.0, 2.0], [3.0, 4.0], [0.1, 0.3]])
    g = tg.value_and_grad(f, argnums=None, warmup=1)
    assert [g(whole)[0] for _ in range(3)] == [f(whole)] * 3
    for gradient in (g, lambda x: tg.gradient(f, x), lambda x: tg.jvp(f, (x,), (x,))):
        with pytest.raises(tg.MissingRule, match="cut-off"):
            gradient(steep)


@pytest.mark.parametrize("power", [lambda x, y: (x ** y).real, lambda x, y: np.real(np.float_power(x, y))])
def test_a_negative_number_to_a_complex_power_has_the_complex_logarithm(power: Any) -> None:
    x, y, step = -2.0, 1.5 + 0.3j, 1e-6
    dx, dy = tg.gradient(power, x, y)
    slopes = [(power(x + a, y + b) - power(x - a, y - b)) / (2 * step) for a, b in ((step, 0), (0, step), (0, 1j * step))]
    assert (dx, dy.real, dy.imag) == pytest.approx(slopes, rel=1e-6)


def test_what_turns_among_vectors_of_equal_values_is_no_zero() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.linalg.svd(3 * np.eye(2) + x * np.array([[0.0, 1.0], [1.0, 0.5]]), compute_uv=False) ** 4)
    assert tg.gradient(f, 0.0)[0] == pytest.approx(54.0)
    with np.errstate(all="ignore"):
        assert np.isnan(tg.gradient(lambda x: tg.gradient(f, x)[0], 0.0)[0])  # 243, and not what a 0 would make of it
    second = tg.gradient(lambda x: tg.gradient(f, x)[0], 0.3)[0]
    assert second == pytest.approx((tg.gradient(f, 0.3 + 1e-6)[0] - tg.gradient(f, 0.3 - 1e-6)[0]) / 2e-6, rel=1e-6)


M, A, B = draw(2, 4, seed=5), draw(4, seed=6), draw(4, 4, seed=7)
TURN = np.linalg.qr(draw(4, 4, seed=8))[0]
REPEATED = TURN @ np.diag([1.0, 1.0, 1.0, 3.0]) @ TURN.T


def of_two_vectors(m: Any) -> Any:
    v = np.linalg.eigh(m.T @ m)[1]
    return (v[:, -1] @ A) * (v[:, -2] @ A) * (v[:, -1] @ B @ v[:, -2])


def of_a_complex_vector(m: Any) -> Any:
    c = m[:1] + 1j * m[1:]
    return np.abs(np.linalg.eigh(c.conj().T @ c)[1][:, -1] @ A) ** 2


@pytest.mark.parametrize(("f", "x"), [
    (lambda m: (np.linalg.eigh(m.T @ m)[1][:, -1] @ A) ** 2, M), (of_two_vectors, M), (of_a_complex_vector, M),
    (lambda m: np.linalg.eigvalsh(m.T @ m)[-1] ** 2, M), (lambda m: (np.linalg.eigh(m.T @ m)[1][:, -1] @ A) ** 4 * np.linalg.eigh(m.T @ m)[0][-2], M),
    (lambda x: (np.linalg.eigh((x + x.T) / 2)[1][:, -1] @ A) ** 2, REPEATED)])
def test_an_eigenvector_beside_other_equal_eigenvalues(f: Any, x: Any) -> None:
    """The second derivatives, in every mode, and a third: exact, and symmetric."""
    def slope(x: Any) -> Any:
        return tg.gradient(f, x)[0]

    def central(g: Any, step: float) -> Any:
        return np.stack([(np.asarray(g(x + e)) - np.asarray(g(x - e))).ravel() / (2 * step) for e in step * np.eye(x.size).reshape(-1, *x.shape)], -1)
    # a step splits the equal eigenvalues: its gradient is right all the same
    wanted = central(slope, 1e-5)
    for way in (tg.hessian(f), tg.jacobian(slope, mode="forward"), tg.jacobian(slope, mode="reverse"),
                tg.jacobian(tg.jacobian(f, mode="forward"), mode="forward")):
        found = np.reshape(way(x), wanted.shape)
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-7)
        np.testing.assert_allclose(found, found.T, 1e-11, 1e-11)
    d = draw(*x.shape, seed=9)
    third = tg.jvp(tg.jacobian(slope, mode="reverse"), (x,), (d,))[1]
    hessian = tg.hessian(f)
    np.testing.assert_allclose(np.ravel(third), np.ravel((hessian(x + 1e-4 * d) - hessian(x - 1e-4 * d)) / 2e-4), 1e-4, 1e-5)


def ranked(x: Any) -> Any:
    return np.outer(x, x) + np.eye(3)


@pytest.mark.parametrize("f", [
    lambda x: np.linalg.svd(ranked(x), compute_uv=False)[0], lambda x: np.linalg.svd(ranked(x))[1].sum(), lambda x: np.linalg.norm(ranked(x), 2), lambda x: np.linalg.norm(ranked(x), "nuc"),
    lambda x: np.linalg.eigvalsh(ranked(x))[-1], lambda x: np.linalg.eigvalsh(ranked(x)).sum(), lambda x: np.linalg.eigh(ranked(x))[0].sum(),
    lambda x: np.linalg.norm(np.outer(x, x), 2), lambda x: np.linalg.norm(np.outer(x, x), "nuc"), lambda x: np.linalg.svd(np.outer(x, [1.0, 2.0, -1.0, 0.5]), compute_uv=False)[0] ** 2])
def test_second_derivatives_of_values_beside_equal_ones(f: Any) -> None:
    x = np.array([1.0, 2.0, 3.0])

    def slope(x: Any) -> Any:
        return tg.gradient(f, x)[0]
    wanted = np.stack([(slope(x + e) - slope(x - e)) / 2e-5 for e in 1e-5 * np.eye(3)], -1)
    for way in (tg.hessian(f), tg.jacobian(slope, mode="forward"), tg.jacobian(slope, mode="reverse"), tg.compile(tg.hessian(f))):
        np.testing.assert_allclose(way(x), wanted, 1e-7, 1e-7)


@pytest.mark.parametrize("f", [lambda x: np.sum((np.linalg.eigvalsh(x) - 1.0) ** 2), lambda x: np.sum((np.linalg.svd(x, compute_uv=False) - 1.0) ** 2)])
def test_values_that_are_equal_and_whose_cotangents_are_zero_by_chance(f: Any) -> None:
    assert not np.isfinite(tg.hessian(f)(np.eye(2))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", [
    lambda x: (np.linalg.eig(x)[1][:, np.argmax(np.linalg.eigvals(x).real)].real @ A) ** 2, lambda x: (np.linalg.svd(x)[2][0] @ A) ** 2,
    lambda x: np.sum(np.exp(np.linalg.eigvalsh(x)))])
def test_second_derivatives_beside_equal_values_are_exact_or_nan(f: Any) -> None:
    def slope(x: Any) -> Any:
        return tg.gradient(f, x)[0]
    for way in (tg.jacobian(slope, mode="forward"), tg.jacobian(slope, mode="reverse"), tg.jacobian(tg.jacobian(f, mode="forward"), mode="forward")):
        assert not np.isfinite(way(REPEATED)).all()


@pytest.mark.skipif(np.lib.NumpyVersion(scipy.__version__) < "1.17.0", reason="Rotation is compiled")
def test_the_mean_of_rotations() -> None:
    from scipy.spatial.transform import Rotation

    def f(x: Any) -> Any:
        return np.sum(Rotation.from_rotvec(x.reshape(2, 3)).mean().as_rotvec() * np.array([1.0, -2.0, 0.5]))
    x = np.array([0.1, 0.4, -0.3, 0.5, 0.2, 0.3])
    found = tg.hessian(f)(x)
    wanted = np.stack([(tg.gradient(f, x + e)[0] - tg.gradient(f, x - e)[0]) / 2e-5 for e in 1e-5 * np.eye(6)], -1)
    np.testing.assert_allclose(found, wanted, 1e-6, 1e-7)


@pytest.mark.parametrize("x", [np.zeros((3, 3)), np.eye(3), np.diag([1.0, 0.0, 0.0]), np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 2.0]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])])
def test_determinants_have_derivatives_of_every_order(x: Any) -> None:
    v = np.array([[0.3, 0.9, 0.1], [0.5, 0.2, 0.7], [0.8, 0.4, 0.6]])
    at = np.arange(-3.0, 4.0)
    expected = np.polynomial.polynomial.polyfit(at, [np.linalg.det(x + t * v) for t in at], 3) * [1, 1, 2, 6]
    forwards: Any = np.linalg.det
    backwards: Any = np.linalg.det
    for k in range(1, 4):
        forwards = partial(lambda f, x: tg.jvp(f, (x,), (v,))[1], forwards)
        backwards = partial(lambda f, x: np.sum(v * tg.gradient(f, x)[0]), backwards)
        series = tg.taylor(np.linalg.det, x, k, direction=v)[k] * [1, 1, 2, 6][k]
        assert np.allclose([forwards(x), backwards(x), series], expected[k], atol=1e-9)
