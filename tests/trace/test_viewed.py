"""Traced arrays viewed as a class of the program's: values, classes and attributes are NumPy's, and gradients those of differences."""

from __future__ import annotations

import concurrent.futures
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules.op import PROXIES

A, B = np.array([0.3, 0.5, 0.9, 1.4]), np.array([[0.2, 0.7], [1.1, 0.4]])


class Named(np.ndarray):
    """Adds attributes and methods, and reads by name."""

    def __new__(cls, array: Any, label: Any = None) -> Any:
        obj = np.asarray(array).view(cls)
        obj.label = label
        return obj

    def __array_finalize__(self, obj: Any) -> None:
        if obj is not None:
            self.label = getattr(obj, "label", None)

    @property
    def half(self) -> Any:
        return self / 2

    def double(self) -> Any:
        return 2 * self

    @classmethod
    def like(cls, array: Any) -> Any:
        return cls(array, "like")

    def again(self) -> Any:
        return self.__class__(np.asarray(self), self.label)


class Keyed(Named):
    """Reads by name."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(0 if isinstance(key, str) and key == "first" else key)


class Plainly(np.ndarray):
    """Gives plain arrays from all but itself."""

    def __new__(cls, array: Any, slope: Any = None) -> Any:
        obj = np.asarray(array).view(cls)
        obj.slope = slope
        return obj

    def __array_finalize__(self, obj: Any) -> None:
        self.slope = getattr(obj, "slope", None)

    def __getitem__(self, key: Any) -> Any:
        return np.array(self)[key]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.array(array)


class Metres(np.ndarray):
    """Says itself what a ufunc of it is: it counts powers of a unit."""

    power: int

    def __new__(cls, array: Any, power: int = 1) -> Any:
        obj = np.array(array, dtype=float, copy=None, subok=True).view(cls)
        obj.power = power
        return obj

    def __array_finalize__(self, obj: Any) -> None:
        super().__array_finalize__(obj)
        self.power = getattr(obj, "power", 0)

    @property
    def value(self) -> Any:
        return self.view(np.ndarray)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        powers = [getattr(x, "power", 0) for x in inputs]
        plain = [x.value if isinstance(x, Metres) else x for x in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(x.value if isinstance(x, Metres) else x for x in out)
        if ufunc is np.multiply and method == "__call__":
            power = sum(powers)
        elif ufunc is np.true_divide:
            power = powers[0] - powers[1]
        elif ufunc in (np.add, np.subtract, np.maximum, np.negative):
            if len(set(powers)) > 1:
                raise TypeError(f"metres to the {powers}")
            power = powers[0]
        elif ufunc is np.square:
            power = 2 * powers[0]
        elif ufunc in (np.less, np.greater):
            return super().__array_ufunc__(ufunc, method, *plain, **kwargs)
        elif any(powers):
            return NotImplemented
        else:
            power = 0
        result = super().__array_ufunc__(ufunc, method, *plain, **kwargs)
        if result is NotImplemented:
            return result
        if out is not None:
            if isinstance(out[0], Metres):
                out[0].power = power
            return out[0]
        result = np.asarray(result).view(type(self))
        result.power = power
        return result


class Counted(Named):
    """Says itself what a function of NumPy's is."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.sum:
            return super().__array_function__(func, types, args, kwargs) * 10
        return super().__array_function__(func, types, args, kwargs)


class Indexed(Named):
    """Says itself what its mean is."""

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        return super().mean(*args, **kwargs) + 1


class Cyclic(Named):
    """Begins again where it ends."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key % len(self) if isinstance(key, int) else key)


class Leading(Named):
    """Comes first among arrays, whose class results have, made of several or of none."""

    __array_priority__ = 2.0


class Third(Keyed):
    """A class of that class's, with operators of its own."""

    def __add__(self, other: Any) -> Any:
        return super().__add__(other) * 3

    def __rmul__(self, other: Any) -> Any:
        return super().__rmul__(other) + 1

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        return super().sum(*args, **kwargs) * 100


def described(y: Any) -> Any:
    """Return what is to agree: the class, the dtype, the shape, the attributes and the numbers."""
    if isinstance(y, (tuple, list)):
        return [type(y), *map(described, y)]
    attributes = {key: described(part) for key, part in vars(y).items()} if type(y) not in (np.ndarray,) and isinstance(y, np.ndarray) else None
    return type(y), getattr(y, "dtype", None), np.shape(y), attributes, np.asarray(y).tolist()


def total(y: Any) -> Any:
    """Return a number of a result's numbers, by plain arrays."""
    if isinstance(y, (tuple, list)):
        return sum(map(total, y))
    if isinstance(y, (str, bool)) or y is None:
        return 0.0
    y = np.asarray(y)
    return np.sum(y * np.cos(np.arange(y.size).reshape(y.shape))) if y.dtype.kind == "f" else 0.0 * np.sum(y)


def check(f: Callable[[Any], Any], x: Any) -> None:
    """Compare values, classes and attributes with NumPy's, and the gradients, at once and compiled, with differences."""
    expected = f(x)
    found, tape = tg.trace(f, x)
    assert described(found) == described(expected)
    assert described(tape.play(x)) == described(expected)
    compiled = tg.compile(f, mode="numpy", warmup=1)  # NumPy's own functions, to the last bit
    for _ in range(3):
        assert described(compiled(x)) == described(expected)

    def number(x: Any) -> Any:
        return total(f(x))
    step = tg.value_and_grad(number, argnums=None, mode="numpy", warmup=1)
    for at in (x, x + 0.01, x - 0.02):
        h = 1e-6
        basis = np.eye(x.size).reshape(x.size, *x.shape)
        differences = np.array([(number(at + h * e) - number(at - h * e)) / (2 * h) for e in basis]).reshape(x.shape)
        for value, (_, dx) in (tg.grad(number, at), step(at)):
            assert value == pytest.approx(number(at), rel=1e-13)
            np.testing.assert_allclose(dx, differences, rtol=1e-6, atol=1e-7)


OF_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda x, y: y,
    "operators": lambda x, y: (y + x, x + y, 2 * y, y * 2.5, y - y * x, y / x, x / y, -y, abs(y), y ** 2, y ** 0.5, y ** 3, 2.0 ** y, x * y ** -1),
    "with plain": lambda x, y: (A * y, y * A, A - y, y - A, [1.0, 2.0, 3.0, 4.0] * y, np.float64(2.0) * y, y * np.float32(2.0)),
    "comparisons": lambda x, y: (y > 0.6, x < y + 1, y == x, y != 0.5, y == None),  # noqa: E711
    "ufuncs": lambda x, y: (np.sin(y), np.add(x, y), np.exp(-y), np.maximum(x, y), np.hypot(y, y), np.divmod(y, 0.4)[1], np.modf(y)[0]),
    "indices": lambda x, y: (y[0], y[1:], y[...], y[None], y[[0, 2]], y[x > 0.4], y[..., 0], y[::-1][1]),
    "iteration": lambda x, y: (list(y), [float(len(y))], max(y[1:3]), sum(y)),
    "reductions": lambda x, y: (y.sum(), np.sum(y), y.mean(), np.mean(y), y.max(), y.min(), y.prod(), y.sum(keepdims=True), y.cumsum(), np.cumsum(y)),
    "statistics": lambda x, y: (y.std(), np.var(y), np.ptp(y), np.argmax(y), y.argmin(), y.any(), np.all(y)),
    "shapes": lambda x, y: (y.T, y.reshape(2, 2), np.reshape(y, (2, 2)).T, y.ravel(), y.flatten(), np.atleast_2d(y), y[:, None].squeeze(), np.ravel(y)),
    "products": lambda x, y: (y @ y, y.dot(x), np.dot(x, y), np.outer(y, x), np.einsum("i,i->i", y, x), np.inner(y, y)),
    "joins": lambda x, y: (np.concatenate([y, x]), np.stack([y, y]), np.hstack([x, y]), np.append(y, 1.0), np.array([y, y])),
    "copies": lambda x, y: (y.copy(), np.copy(y), np.array(y), np.asarray(y), np.asanyarray(y), np.array(y, subok=True), y.astype(complex).real, y.view(),
                            y.view(np.ndarray), np.zeros_like(y), np.ones_like(y) * x, np.full_like(y, 2.0)),
    "choices": lambda x, y: (np.where(y > 0.6, y, 0.0), np.clip(y, 0.4, 1.0), y.clip(0.4), np.sort(y), y.take([0, 1]), np.diff(y), np.flip(y)),
    "numbers": lambda x, y: (y.item(0), y.tolist(), y[1].item(), y.size, y.ndim, y.shape),
}


def written(x: Any, y: Any) -> Any:
    z = y.copy()
    z[1:3] = x[:2] * 2
    z += x
    z *= 2.0
    np.multiply(z, y, out=z)
    z[0] = y[1]
    return z, z[1:]


def seen_in_views(x: Any, y: Any) -> Any:
    z = (x * 1.0).view(type(y))
    plain = z.view(np.ndarray)
    plain[0] = x[1] * 3
    z[1] *= x[2]
    return z, plain * 2


OF_ARRAYS |= {"written": written, "seen in views": seen_in_views}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_methods_and_attributes(name: str) -> None:
    check(lambda x: OF_ARRAYS[name](x, Named(x, ("a", 2))), A)


@pytest.mark.parametrize("name", ["itself", "operators", "with plain", "comparisons", "ufuncs", "indices", "iteration", "products", "copies", "numbers"])
def test_a_wrap_of_its_own(name: str) -> None:
    check(lambda x: OF_ARRAYS[name](x, Plainly(x, slope=x * 2)), A)


def test_what_a_class_adds() -> None:
    def f(x: Any) -> Any:
        y = Keyed(x, "k")
        y.more = x[0]
        facts = isinstance(y, Named), isinstance(y, np.ndarray), isinstance(y, Plainly), y.__class__ is Keyed, hasattr(y, "other")
        return facts, y.half + y.double(), y["first"], Named.like(x), y.like(x), y[1:], y[0] * y["first"], y.again(), y.more, Plainly(x, slope=x * 3).slope, (y * 1).label
    check(f, A)
    check(lambda x: Named(x, "m").T @ Named(x) + Named(x).sum(axis=0), B)


def test_operators_of_its_own() -> None:
    check(lambda x: (Third(x) + x, x + Third(x), x * Third(x), A * Third(x), Third(x) * 2, Third(x) + 1, Third(x).sum(), np.sum(Third(x)),
                     Third(x) * Named(x, "n"), Named(x, "n") * Third(x), Third(x)["first"]), A)


def test_functions_of_its_own() -> None:
    check(lambda x: (np.sum(Counted(x, "c")), np.sum(Counted(x, "c") * 2, axis=0), np.mean(Counted(x)), np.concatenate([Counted(x), x]),
                     Counted(x).sum(), np.reshape(Counted(x, "r"), (2, 2))), A)
    check(lambda x: (np.average(x.view(Indexed)), np.diff(Cyclic(x)), np.vstack([Cyclic(x), Cyclic(x)]), np.roll(Cyclic(x), 1)), A)
    check(lambda x: (np.concatenate([Leading(x), x]), np.stack([x, Leading(x)]), Leading(x).clip(0.4, 1.0), np.add.outer(Leading(x), x)), A)


def test_ufuncs_of_its_own() -> None:
    check(lambda x: (Metres(x) * Metres(x), Metres(x) / 2.0, 3 * Metres(x), x * Metres(x), Metres(x) * x, A * Metres(x), Metres(x) * A, -Metres(x),
                     Metres(x) + Metres(x), Metres(x) ** 2, Metres(x) - Metres(A), Metres(A) * x, x / Metres(A), Metres(x)[1:], Metres(x)[0],
                     Metres(x) > Metres(A), np.maximum(Metres(x), Metres(A)), Metres(x).value, (Metres(x) / Metres(A)).value), A)
    check(lambda x: (Metres(x).sum(), np.sum(Metres(x)), Metres(x).max(), Metres(B[0] * x[0]).reshape(2, 1), Metres(x).copy()), A)
    for f in (lambda x: Metres(x) + x, lambda x: x + Metres(x), lambda x: np.sin(Metres(x)), lambda x: Metres(x).__iadd__(x),
              lambda x: np.add(x, x, out=Metres(x)) + Metres(x)):
        with pytest.raises(TypeError):
            f(A)
        with pytest.raises(TypeError):
            tg.grad(lambda x, f=f: total(f(x)), A)


def test_written_by_ufuncs_of_its_own() -> None:
    def f(x: Any) -> Any:
        y = Metres(x * 1.0)
        y *= Metres(A)
        y += Metres(x * A, 2)
        return y, y.value
    check(f, A)


CONSTANT, WITH_SLOPE = Named(A * 2, "constant"), Plainly(A, slope=A * 4)


def test_arrays_of_a_class_that_are_not_traced() -> None:
    check(lambda x: (CONSTANT * x, x * CONSTANT, x - CONSTANT[1:3].sum(), np.sin(x) / CONSTANT, CONSTANT.half * x, np.add(x, CONSTANT), x @ CONSTANT), A)
    check(lambda x: (WITH_SLOPE * x, x + WITH_SLOPE, WITH_SLOPE.slope * x), A)

    def inside(x: Any) -> Any:
        x = x * 1.0
        x += CONSTANT
        return x, Metres(x, 0) * Metres(A, 1)
    check(inside, A)


def test_arguments_and_captured_arrays_of_a_class() -> None:
    def f(x: Any, y: Any) -> Any:
        assert isinstance(y, Named) and y.label == "argument"
        return np.sum(np.asarray(y.double() * x * y))
    y = Named(B, "argument")
    for value, (_, dx, dy) in (tg.grad(f, 1.5, y), *[tg.value_and_grad(f, argnums=None, mode="numpy", warmup=1)(1.5, y)] * 3):
        assert value == f(1.5, y)
        assert dx == pytest.approx(2 * np.sum(B ** 2))
        np.testing.assert_allclose(dy, 6 * B)
        assert type(dy) is np.ndarray
    captured = Plainly(A, slope=A * 2)

    def g(x: Any) -> Any:
        return np.sum(captured * x) + np.sum(captured.slope * x ** 2)
    value, (df, dx) = tg.grad(g, 2.0)
    assert value == g(2.0) and dx == pytest.approx(np.sum(A) + 4 * np.sum(captured.slope))
    assert any(np.allclose(part, 4.0) for part in df["captured"].values() if part is not None)
    step = tg.value_and_grad(g, argnums=0, warmup=1)
    for x in (2.0, 3.0, 4.0):
        assert step(x)[0] == pytest.approx(g(x))
        assert step(x)[1] == pytest.approx(np.sum(A) + 2 * x * np.sum(captured.slope))
    captured.slope = A * 5  # read anew
    assert step(2.0)[1] == pytest.approx(np.sum(A) + 4 * np.sum(captured.slope))


def test_results_of_a_class() -> None:
    def f(x: Any) -> Any:
        return Named(x, "loss").double().sum()
    value, (_, dx) = tg.grad(f, A)
    assert described(value) == described(f(A))
    np.testing.assert_array_equal(dx, np.full(4, 2.0))
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in range(4):
        value, (_, dx) = step(A + k)
        assert described(value) == described(f(A + k))
    value, (_, dx) = tg.grad(lambda x: Named(x, "vector") ** 2, A, seed=np.arange(4.0))
    np.testing.assert_allclose(dx, 2 * A * np.arange(4))
    value, push = tg.jvp(lambda x: Named(x, "t") * x, (A,), (np.ones(4),))
    np.testing.assert_allclose(np.asarray(push), 2 * A)
    for seed in (1, 2.0):  # of one number, whatever its attributes hold
        value, (_, dx) = tg.grad(lambda x: Named(x, [7.0]).double().sum(), A, seed=seed)
        assert type(value) is Named and value.label == [7.0]
        np.testing.assert_array_equal(dx, np.full(4, 2.0 * seed))
    with pytest.raises(tg.ArgumentError, match="needs a seed"):
        tg.grad(lambda x: Named(x, [7.0]), A)


def test_saved_and_pulled_back(tmp_path: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return Named(x * 2, "k") * y, y.double().sum()
    y = Named(A, "q")
    _, tape = tg.trace(f, A, y)
    tape.save(tmp_path / "tape")
    name = f"{__name__}:Named"
    with pytest.raises(tg.TapeFormatError, match="Named"):
        tg.load(tmp_path / "tape")
    assert described(tg.load(tmp_path / "tape", primitives={name: Named}).play(A + 1, y)) == described(f(A + 1, y))
    _, tape = tg.trace(lambda x: np.asarray(y * x), A)
    tape.save(tmp_path / "tape")
    for given in ({}, {name: Named}):
        np.testing.assert_array_equal(tg.load(tmp_path / "tape", primitives=given).play(A), A * A)
    _, back = tg.pullback(lambda x: Named(x * 2, "k") * x, A)
    for seed in (np.ones(4), Named(np.ones(4), "k")):
        np.testing.assert_allclose(back(seed)[1], 4 * A)
    np.testing.assert_allclose(np.asarray(tg.jacobian(lambda x: Named(x, "j") ** 2)(A)), np.diag(2 * A))


def test_with_other_transforms() -> None:
    def f(x: Any) -> Any:
        return np.asarray((Named(x, "h") ** 3).double().sum())[()]
    np.testing.assert_allclose(tg.hessian(f)(A), np.diag(12 * A))
    np.testing.assert_allclose(tg.vmap(f)(np.stack([A, A * 2])), [f(A), f(A * 2)])
    np.testing.assert_allclose(tg.hvp(f)(A, np.ones(4)), 12 * A)
    assert tg.grad(f, A.astype(np.float32))[1][1].dtype == np.float32
    z = A + 1j * A[::-1]
    np.testing.assert_allclose(tg.grad(lambda z: np.sum(np.asarray(np.abs(Named(z, "c")) ** 2)), z)[1][1], 2 * z)
    np.testing.assert_allclose(tg.grad(lambda x: tg.grad(lambda y: np.sum(np.asarray(Named(y) ** 2 * Named(x))), x)[1][1].sum(), A)[1][1], 4 * A)


class Percent(np.ndarray):
    """Is a number otherwise than its own."""

    def __float__(self) -> Any:
        return np.asarray(self)[()] / 100


def test_numbers_of_a_class() -> None:
    assert tg.grad(lambda x: math.sqrt(np.asarray(x).view(Percent)), 4.0) == (0.2, (None, pytest.approx(0.025)))
    assert tg.grad(lambda x: math.sqrt(np.asarray(x).view(Named)), 4.0) == (2.0, (None, 0.25))
    for f in (lambda x: np.array([x.view(Percent)]).sum(), lambda x: np.sin([x.view(Percent)]).sum(), lambda x: np.ones(1) @ [x.view(Percent)]):
        with pytest.raises(tg.UnknownFunction, match="__float__"):
            tg.grad(f, np.array(4.0))
    check(lambda x: (np.array([Named(x), x]), np.sin([Named(x), Named(x)]), [Named(x), x] * x), A)


@pytest.mark.parametrize("x", [A[:0], np.array(0.7), A[::2], B.T, A.astype(np.float32)])
def test_any_shape(x: Any) -> None:
    def f(x: Any) -> Any:
        y = Named(x, "s")
        return y * 2, y.T + x, y.sum(), y.reshape(-1), np.exp(y), y[...], y[None], y.copy()
    found, tape = tg.trace(f, x)
    assert described(found) == described(tape.play(x)) == described(f(x))
    assert tg.grad(lambda x: np.asarray(f(x)[0] * f(x)[1]).sum(), x)[1][1].shape == x.shape


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_a_shape_that_is_set() -> None:
    def f(x: Any) -> Any:
        y = Named(x * 2, "r")
        z = y[:]
        z.shape = (2, 2)
        z[0, 1] = 5 * x[0]
        return z, y, z.T[1]
    check(f, A)


def test_in_threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        def f(x: Any) -> Any:
            return np.asarray(Named(x, "t").double() * CONSTANT).sum()
        found = list(pool.map(lambda k: tg.grad(f, A + k)[1][1], range(8)))
    assert all(np.array_equal(dx, 2 * np.asarray(CONSTANT)) for dx in found)
    assert type(CONSTANT * A) is Named


def test_a_proxy_that_another_thread_is_making_has_no_tracer_yet() -> None:
    for cls in PROXIES:
        assert getattr(object.__new__(cls), "_tracer", None) is None


def test_a_primitive_gets_the_class() -> None:
    @tg.primitive
    def labelled(y: Any) -> Any:
        assert type(y) is Named and y.label == "p"
        return np.asarray(y).sum() * len(y.label)

    @tg.rrule(labelled)
    def _(y: Any) -> Any:
        return labelled(y), lambda dy: (dy * np.ones(y.shape),)
    value, (_, dx) = tg.grad(lambda x: labelled(Named(x * 3, "p")), A)
    assert value == pytest.approx(3 * A.sum())
    np.testing.assert_array_equal(dx, np.full(4, 3.0))


class Initialised(np.ndarray):
    def __init__(self, *args: Any) -> None:
        self.ready = True


class Opaque(np.ndarray):
    __array_ufunc__: Any = None


class Slotted(np.ndarray):
    __slots__ = ("label",)


class Unbound(np.ndarray):
    def first(self) -> Any:
        return np.ndarray.__getitem__(self, 0)


@pytest.mark.parametrize("f", [
    lambda x: x.view(Initialised).sum(), lambda x: x.view(Opaque), lambda x: x.view(Slotted), lambda x: x.view(np.matrix), lambda x: x.view(np.recarray),
    lambda x: x.view(np.int64), lambda x: np.apply_along_axis(lambda row: row * 2, 0, Named(x)), lambda x: x.view(Unbound).first(), lambda x: float(x.view(Named).sum()),
])
def test_what_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.TapeError) as err:
        tg.grad(f, A)
    assert err.value.try_ and err.value.where is not None


def test_a_class_that_changes() -> None:
    class Changing(np.ndarray):
        def scaled(self) -> Any:
            return self * 2

    def f(x: Any) -> Any:
        return np.asarray(x.view(Changing).scaled()).sum()
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    assert [step(A)[1][0] for _ in range(3)] == [2.0] * 3
    Changing.scaled = lambda self: self * 5  # type: ignore[method-assign]
    assert tg.grad(f, A)[1][1][0] == 5.0
    assert step(A)[1][0] == 5.0


class Closed(np.ndarray):
    """Gives none of its bytes away."""

    def tobytes(self, order: Any = "C") -> bytes:
        raise NotImplementedError


HELD = A.view(Closed)


def test_what_compiled_functions_read() -> None:
    def f(x: Any) -> Any:
        return np.asarray(HELD * x).sum()
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for _ in range(3):
        np.testing.assert_array_equal(step(A)[1], A)
    HELD[0] = 7.0
    try:
        for _ in range(3):
            np.testing.assert_array_equal(step(A * 1.0)[1], np.asarray(HELD))
    finally:
        HELD[0] = 0.3


def test_read_only() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.setflags(write=False)
        assert not y.flags.writeable
        return y.sum()
    assert tg.grad(f, A)[0] == f(A)

    def g(x: Any) -> Any:
        y = x * 2
        y.setflags(write=False)
        y[0] = 1.0
        return y.sum()
    with pytest.raises(tg.TapeError, match="read-only"):
        tg.grad(g, A)
    with pytest.raises(tg.TapeError, match="setflags"):
        tg.grad(lambda x: x.setflags(write=False), A)
    assert functools.reduce(lambda a, b: a and b, [A.flags.writeable])
