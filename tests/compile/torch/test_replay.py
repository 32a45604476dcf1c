"""Tapes recorded from NumPy code, replayed on torch tensors: the same numbers, shapes and dtypes, by every row of tests/cases."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.tensor_dtypes import numpy_dtype, torch_dtype
from tapegrad.rules.op import OPS
from tests.cases import CASES, chosen
from tests.cases.case import Case, draw
from tests.cases.over import over
from tests.cases.replay import TOLERANCES, agree, check, fresh, replayed

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CHOSEN = chosen(1, 2, distinct=False)  # that every case's numbers are right on tensors, of float64, tests/harness has
ROWS = [pytest.param(case, id=case.name) for case in CASES if case.name in CHOSEN]


@pytest.mark.parametrize(("dtype", "device"), [(dtype, device) for device in DEVICES for dtype in TOLERANCES if (dtype, device) != ("float64", "cpu")])
@over(ROWS)
def test_every_case_replays_on_tensors_of_other_kinds(case: Case, dtype: str, device: str) -> None:
    check(case, dtype, device)


def test_every_op_has_a_torch_implementation() -> None:
    assert not [name for name, op in OPS.items() if "torch" not in op.lower]


# -- dtypes are NumPy's

DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
NUMBERS: list[Any] = [True, 2, 0.5, 0.5j]
BINARY: list[tuple[str, Any]] = [(name, getattr(tg.ops, name)) for name in
                                 ("add", "multiply", "divide", "floor_divide", "remainder", "pow", "maximum", "equal", "where", "atan2", "logaddexp")]


def numpys(op: Any, *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.impl(True, *args) if op is tg.ops.where else op.impl(*args))
    except TypeError:
        return None


@pytest.mark.parametrize(("name", "op"), BINARY)
def test_promotion_is_numpys(name: str, op: Any) -> None:
    for first in DTYPES:
        for second in [*DTYPES, *NUMBERS]:
            for shape in ((), (2,)):  # of 0-d arrays too, where torch's own rules differ
                a = np.full(shape, 1, first)
                b = np.full((2,), 1, second) if isinstance(second, str) else second
                expected = numpys(op, a, b)
                if expected is None or (name == "pow" and first == "bool"):  # NumPy's `**` of bools is now square's int8, now power's int64
                    continue
                tensors = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in (a, b)]
                found = op.run(*([torch.tensor(True)] if op is tg.ops.where else []), *tensors)
                assert found.dtype == torch_dtype(expected.dtype), (name, first, second, shape)
                np.testing.assert_allclose(found.numpy(), expected, 1e-3, err_msg=f"{name} {first} {second}")


@pytest.mark.parametrize("op", [tg.ops.sin, tg.ops.sqrt, tg.ops.abs, tg.ops.floor, tg.ops.square, tg.ops.sum, tg.ops.prod, tg.ops.mean, tg.ops.cumulative_sum])
def test_dtypes_of_one_argument_are_numpys(op: Any) -> None:
    for dtype in DTYPES:
        x = np.ones(3, dtype)
        try:
            expected = np.asarray(op.impl(x)).dtype
        except TypeError:
            continue
        if dtype != "bool" or op not in (tg.ops.abs, tg.ops.square, tg.ops.floor):
            found = op.run(torch.tensor(x)).dtype
            assert found == (torch.int64 if expected == np.uint64 else torch_dtype(expected)), (op, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_replay_keeps_the_dtype(dtype: Any) -> None:
    def loss(w: Any, x: Any) -> Any:
        h = np.tanh(x @ w) * 0.5 + 1
        out = np.zeros_like(h)
        out[1:] = h[:-1] ** 2
        return np.mean(out) + np.max(h)

    w, x = draw(3, 4, dtype=np.float32), draw(5, 3, dtype=np.float32)
    tape = tg.gradtape(loss, w, x)
    wt, xt = torch.tensor(w).to(dtype), torch.tensor(x).to(dtype)
    free = [op for op in tape if not (op.kind == "guard" and op.fact == "dtype")]  # float32's guard on dtypes is another test's
    assert len(free) < len(tape.ops)
    if dtype is not torch.float32:
        with pytest.raises(GuardError):
            tape.play(wt, xt)
        for guard in [op for op in tape if op.kind == "guard" and op.fact == "dtype"]:
            tape.delete(guard)
    value, (_, dw, dx) = tape.play(wt, xt)
    assert (value.dtype, dw.dtype, dx.dtype) == (dtype,) * 3
    expected, (_, *gradients) = tg.grad(loss, w, x)
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-5}.get(dtype, 5e-2)
    for a, b in zip((value, dw, dx), (expected, *gradients), strict=True):
        np.testing.assert_allclose(a.double().numpy(), b, tolerance, tolerance)


# -- what torch means otherwise


@pytest.mark.parametrize("f", [
    lambda x: x[::-1, 1:] * x[::-2][:1, 1:], lambda x: x[-1::-1, ..., None][:, 0], lambda x: x[None][0, :, np.array([1, 0])], lambda x: x[:, 0, None],
    lambda x: x[np.array([1, 0]), None, np.array([0, 2])], lambda x: x[x > 0] * 2, lambda x: x[np.array([True, False])], lambda x: np.round(x * 2.5) + np.round(x, 1),
    lambda x: np.argmax(np.round(x), 1) + np.argmin(x * 0, axis=1), lambda x: (x * 3).astype(int) // np.array([2, -2, 0]) + (x * 3).astype(int) % np.array([-2, 2, 0]),
    lambda x: x // -0.7 + x % -0.7 + np.fmod(x, -0.7), lambda x: np.sign(x - x[0, 0]), lambda x: np.sort(x, axis=0)[::-1] + np.argsort(np.round(x), kind="stable"),
    lambda x: x.T.reshape(-1)[::3] + np.ravel(x)[1:3], lambda x: np.cumsum(x, 1) @ np.arange(3), lambda x: np.sum(x > 0) / 4 + np.mean(x > 0),
])
def test_numpys_meaning(f: Callable[[Any], Any]) -> None:
    x = np.array([[0.5, -1.5, 2.5], [-0.5, 1.5, -2.5]])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        _, tape = tg.trace(f, x)
        replayed(tape, (x,), "float64", "cpu")


def test_the_last_of_several_values_written_to_one_place_stays() -> None:
    def f(x: Any, v: Any) -> Any:
        y = x * 1
        y[np.array([3, 0, 3, 0, 3])] = v
        y[::-2][:2] = v[:2] * 10
        return y * np.arange(5)

    args = (draw(5), draw(5, seed=1))
    for tape in (tg.trace(f, *args)[1], tg.gradtape(lambda *xs: f(*xs).sum(), *args)):
        replayed(tape, args, "float64", "cpu")


def test_arguments_are_read_and_never_written() -> None:
    def f(x: Any) -> Any:
        x[1:] *= 2
        x.T[0] = 7.0
        return x.sum() * CAPTURED.sum()

    x = draw(3, 2)
    tape = tg.trace(f, x.copy())[1]
    given = torch.tensor(x, requires_grad=True)
    found = tape.play(given)
    np.testing.assert_array_equal(given.detach().numpy(), x)
    assert not found.requires_grad and float(found) == pytest.approx(float(tape.play(x.copy())))


CAPTURED = np.arange(3.0)


def test_constants_are_moved_once() -> None:
    tape = tg.trace(lambda x: x * CAPTURED + CAPTURED[:1], draw(3))[1]
    constant = next(op for op in tape if op.kind == "constant")
    tape.play(torch.ones(3, dtype=torch.float64))
    first = constant.moved[2]  # type: ignore[attr-defined]
    tape.play(torch.zeros(3, dtype=torch.float64))
    assert constant.moved[2] is first  # type: ignore[attr-defined]


def test_a_result_does_not_share_memory_with_a_constant() -> None:
    tape = tg.trace(lambda x: (x, CAPTURED[1:]), draw(3))[1]
    tape.play(torch.ones(3, dtype=torch.float64))[1].zero_()
    np.testing.assert_array_equal(tape.play(torch.ones(3, dtype=torch.float64))[1].numpy(), CAPTURED[1:])


def test_guards_hold_for_tensors() -> None:
    tape = tg.trace(lambda x: x * 2 if isinstance(x, np.ndarray) and x[0] > 0 and len(x) == 3 else -x, np.ones(3))[1]
    assert tape.play(torch.ones(3, dtype=torch.float64)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(GuardError):
        tape.play(-torch.ones(3, dtype=torch.float64))
    with pytest.raises(GuardError):
        tape.play(torch.ones(4, dtype=torch.float64))
    number = tg.trace(lambda x: x * 2 if isinstance(x, float) else -x, 1.5)[1]
    assert float(number.play(torch.tensor(1.5, dtype=torch.float64))) == 3.0
    with pytest.raises(GuardError):
        number.play(torch.ones(3, dtype=torch.float64))


def test_errors_of_linear_algebra_are_numpys() -> None:
    def f(x: Any) -> Any:
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return x

    singular = tg.trace(f, np.ones((2, 2)))[1]
    assert singular.play(torch.ones(2, 2, dtype=torch.float64)).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(np.linalg.LinAlgError):
        tg.trace(np.linalg.inv, np.eye(2))[1].play(torch.ones(2, 2, dtype=torch.float64))


def test_a_rule_written_with_numpy_serves_tensors() -> None:
    @tg.primitive
    def softplus(x: Any) -> Any:
        return np.logaddexp(0.0, x)

    @tg.rrule(softplus)
    def _(x: Any) -> Any:
        return softplus(x), lambda dy: (dy / (1.0 + np.exp(-x)),)

    x = draw(4)
    tape = tg.gradtape(lambda x: (softplus(x) * x).sum(), x)
    replayed(tape, (x,), "float64", "cpu")
    replayed(tg.primitivize(tape), (x,), "float64", "cpu")


def test_grad_of_tensors() -> None:
    w, x = draw(3, 2), draw(4, 3)
    value, (_, dw, dx) = tg.grad(lambda w, x: ((x @ w) ** 2 / 2).sum() - abs(x[1:]).sum(), *map(torch.tensor, (w, x)))
    expected, (_, *gradients) = tg.grad(lambda w, x: ((x @ w) ** 2 / 2).sum() - abs(x[1:]).sum(), w, x)
    agree((value, dw, dx), (expected, *gradients), "float64", "cpu")


@pytest.mark.parametrize("make", [partial(tg.compile, backend="numpy"), partial(tg.value_and_grad, backend="numpy")])
def test_what_is_compiled_for_numpy_refuses_tensors(make: Any) -> None:
    x = draw(3)
    given = torch.tensor(x)
    for run, args in [(make(lambda x: (x * 2).sum()), (given,)), (make(lambda p: p["a"][0].sum()), ({"a": [given]},)),
                      (make(lambda x: (x * given).sum()), (x,)), (make(lambda x, y: (x * y).sum()), (x, given)), (make(lambda a: a * a), (given[0],))]:
        for _ in range(2):
            with pytest.raises(ArgumentError, match="but got a tensor") as caught:
                run(*args)
            assert 'backend="torch"' in str(caught.value)
        assert run.stats.traces <= 2 and not run.tapes
    run = make(lambda x: (x * 2).sum())
    expected = run(x)
    with pytest.raises(ArgumentError):
        run(given)  # no tape of arrays takes a tensor for one
    np.testing.assert_equal(run(x), expected)
    with pytest.raises(GuardError):
        tg.compile(tg.trace(lambda x: x * 2, x)[1])(given)


# -- views, by their paths


def through_a_reshape(x: Any) -> Any:
    y = np.zeros((4, 6), x.dtype)
    y[:, :3] = x
    v = y.reshape(2, 2, 6)[:, ::-1]
    v[0, 1, 2:] = 5.0
    v[..., 0] *= x[:2, :2]
    return y * np.arange(24.0).reshape(4, 6).astype(x.dtype) + v.sum()


def row_by_row(x: Any) -> Any:
    y = x * 1
    t = y.T[::-1]
    s = 0.0
    for i in range(3):
        t[i, 1:] = t[i, :-1] * x[0, i]
        s = s + t[i].sum() * t[i, np.array([0, 0, 1])].sum()
    return s + y[:, 1].sum()


def parts_of_complex_numbers(x: Any) -> Any:
    y = (x + 0j) * (1 + 2j)
    y.real[::-1][1:] = x[1:] * 2
    y.imag.reshape(-1)[::2] += 3 * x.reshape(-1)[::2]
    y[::-1].imag[0] = x[1]
    z = y[::-1].real[1:, ::-1] * y.imag[0]
    return np.sum(z) + np.abs(y).sum()


def in_fortran_order(x: Any) -> Any:
    y = np.asfortranarray(x * 2)
    v = y.T.reshape(-1)
    v[::3] = 7.0
    y.reshape(-1, order="F")[1] = x[0, 0]
    return (y * x).sum() + v[4] * v[5]


def element_by_element(x: Any) -> Any:
    y = np.zeros((3, 4), x.dtype)
    for i in range(3):
        row = y[i]
        for j in range(3):
            row[j] = x[j, i] * (row[j - 1] if j else 1.0)
            row[::-1][0] += row[j] ** 2
    return y[::-1][:2] @ np.arange(4.0).astype(x.dtype)


def by_integers_and_masks(x: Any) -> Any:
    y = x * 1
    d = y[1:]
    d[np.array([0, 0, 2])] = x[:3] * 2
    d[d > 0.3] = x[0, 0]
    return y.ravel()[::2].sum() + d[::-1][np.array([1, 1, 0])].sum()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", [through_a_reshape, row_by_row, parts_of_complex_numbers, in_fortran_order, element_by_element, by_integers_and_masks])
def test_views_are_read_and_written_through_their_paths(f: Any, dtype: str) -> None:
    args = fresh((draw(4, 3),), dtype)
    _, tape = tg.trace(f, *args)
    _, total = tg.trace(lambda x: np.sum(f(x)), *args)
    gradient = tg.gradtape(lambda x: np.sum(f(x)), *args)
    assert any("through" in op.kwargs for op in tape if op.kind == "call")
    for played in (tape, gradient, tg.primitivize(gradient), tg.passes.flatgrad(total), tg.passes.optimise(tape)):
        replayed(played, args, dtype, "cpu")


def test_optimised_and_flat_tapes_play_on_tensors() -> None:
    def loss(w: Any, x: Any, n: float) -> Any:
        return np.sum(np.tanh(x @ w) * n + n * 0)

    args = (draw(3, 2), draw(4, 3), 2.0)
    flat = tg.passes.flatgrad(tg.trace(loss, *args)[1])
    for tape in (flat, tg.passes.optimise(flat)):
        value, (_, dw, dx, dn) = tape.play(torch.tensor(args[0]), args[1], args[2])  # an array beside a tensor goes to its device
        expected, (_, *gradients) = tg.grad(loss, *args)
        agree((value, dw, dx), (expected, *gradients[:2]), "float64", "cpu")
        assert type(dn) is float and dn == pytest.approx(gradients[2])
        given = torch.tensor(args[2], dtype=torch.float64)
        assert float(tape.play(*map(torch.tensor, args[:2]), given)[1][3]) == pytest.approx(gradients[2])


def test_the_debugger_runs_on_tensors() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[1:] = x[1:] * CAPTURED[1:] * 2
        y[0] = y[1]
        return (y * y).sum()

    tape = tg.gradtape(f, draw(3))
    x = torch.tensor(draw(3, seed=1))
    stepper = tape.step(x)
    stepper.forward(len(tape))
    agree(stepper.value, tape.play(x.numpy()), "float64", "cpu")
    assert isinstance(stepper.until("nothing") or stepper.values[tape[2]], torch.Tensor) and stepper.done
    stepper.goto(1)
    assert stepper.until("multiply") is not None and isinstance(stepper.value[0], torch.Tensor)
    assert tape.profile(x).total > 0
    found = tape.find("inf", x / 0)
    assert found is not None and "the input x holds inf" in str(found)


def test_a_loop_that_fills_an_array_copies_it_once() -> None:
    def fill(x: Any) -> Any:
        y = np.zeros(50)
        for i in range(50):
            y[i] = x * i
        return y

    tape = tg.trace(fill, np.float64(0.5))[1]
    clones = 0

    class Counted(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal clones
            clones += func is torch.Tensor.clone
            return func(*args, **(kwargs or {}))

    with Counted():
        found = tape.play(torch.tensor(2.0, dtype=torch.float64))
    np.testing.assert_array_equal(found.numpy(), 2.0 * np.arange(50))
    assert clones <= 1


def test_a_dtype_of_torchs_alone_that_was_copied_is_the_same() -> None:
    dtype = numpy_dtype(torch.bfloat16)
    assert pickle.loads(pickle.dumps(dtype)) == dtype == copy.deepcopy(dtype)
