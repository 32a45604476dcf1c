"""In-place writes and views: NumPy's meaning, also in the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.tangent import Accumulator
from tapegrad.testing import check_grads, contract

X = np.linspace(0.1, 1.0, 6)
I = np.array([2, 0, 2])


def _program(text: str) -> Any:
    """Make a function of x from statements; what it returns is weighted, so that every element counts."""
    namespace: dict[str, Any] = {"np": np, "I": I}
    source = "def f(x):\n" + "".join(f"    {line.strip()}\n" for line in text.strip().split(";"))
    exec(source, namespace)
    return namespace["f"]


# one row per way to write: NumPy's own run is the expected value
PROGRAMS = [
    "x[0] = 2 * x[1]; return x * x",
    "x += 1; x *= x; return x",
    "y = x; y += 1; return x * y",
    "row = x[1:]; row *= 2; x[0] = row[0]; return x * row.sum()",
    "m = x.reshape(2, 3); m.T[0] = m[1, :2] ** 2; m[0] += m[1]; return x * m.sum()",
    "y = x * x; z = y * 3; y[0] = 7 * x[2]; return z * y",
    "v = x[::2]; w = x[1::2]; v[:] = w * w; w[...] = v + 1; return x * v.sum()",
    "x[x > 0.5] = x[0]; return x * x",
    "x[x > 0.5] *= 2; return x * x",
    "x[1:] = x[:-1]; return x * x",
    "x[[1, 1]] = x[2:4] * x[0]; return x * x",
    "x[I] = x[3:] * 2; return x * x",
    "x[I] += x[3:]; return x * x",
    "np.add.at(x, I, x[3:] * x[0]); return x * x",
    "np.subtract.at(x, I, 2.0); return x * x",
    "m = x.reshape(2, 3); m[:, 1] = m[:, 0] * m[:, 2]; m[1] -= m[0].mean(); q = m[None, ..., ::-1]; q[0, 0] = q[0, 1] * 2; return m * x.sum()",
    "x.fill(x[2]); return x * x",
    "x.sort(); x[::2] = x[1::2] * x[0]; return x",
    "x.flat[2] = x[0] * x[1]; x.flat[3:] = x[0]; return x * x",
    "m = x.reshape(2, 3); m.flat[[0, 4]] = x[1] * 3; return m * m",
    "np.copyto(x, x[::-1] * x[0]); return x * x",
    "np.copyto(x, x * x, where=x > 0.5); return x * x",
    "np.put(x, [0, 3], [x[1], x[2] * 2]); return x * x",
    "np.put(x, [0, -1, 2], x[1]); return x * x",
    "np.putmask(x, x > 0.4, x[:2] * 2); return x * x",
    "np.place(x, x > 0.4, [x[0], x[1] * 3]); return x * x",
    "m = np.outer(x[:3], x[3:]); np.fill_diagonal(m, x[0] * 2); return m * m",
    "m = x.reshape(2, 3); np.put_along_axis(m, np.array([[1], [0]]), x[:2].reshape(2, 1) * 3, axis=1); return m * m",
    "np.multiply(x, x, out=x); return np.sin(x, out=x) * x",
    "y = np.zeros(6); np.exp(x, out=y); return y * x",
    "y = np.empty(3); x.reshape(2, 3).sum(axis=0, out=y); return y * y",
    "y = np.ones_like(x); y[2:4] = x[2:4] ** 2; return y * x",
    "y = np.full((2, 3), 0.5); y[1] = x[:3]; y[:, 0] *= x[4]; return y",
    "y = np.zeros((3, 3)); y[np.arange(3), np.arange(3)] = x[:3]; return y @ x[3:]",
    "y = np.eye(3); y[1] = x[:3]; return y * x[3:]",
    "c = x.copy(); c[0] = 5.0 * x[1]; return x * c",
    "m = x.reshape(2, 3).T.copy(); m[0] = m[1]; return m * m",
    "r = x.reshape(2, 3).ravel(); r[0] = x[5] * 2; return x * x",
    "r = x.reshape(2, 3).flatten(); r[0] = x[5] * 2; return x * r",
    "s = np.squeeze(x[None, :, None]); s[1] = s[2] * s[3]; return x * x",
    "e = np.expand_dims(x, 0); e[0, ::-2] *= 2; return x * x",
    "a, b = np.split(x, 2); a[:] = b * b; b[0] = a[1]; return x * x",
    "for i in range(1, 6): x[i] += x[i - 1] * x[i];  return x",
    "x[2], x[4] = x[4], x[2] * 2; return x * x",
    "x[...] = x[::-1]; x[()] += 1; return x * x",
    "y = x; y = y + 1; y[0] = 0.0; return x * y",
    "x[:] = 0.0; x[1] = 3.0; return x",
    "y = np.asarray(x); y[0] = 9.0 * x[1]; return x * x",
    "y = np.array(x); y[0] = 9.0 * x[1]; return x * y",
    "y = (8.5 * x).astype(int); y[0] = 3; return x * y",
    "y = np.zeros(6, int); y[0] = 7 * x[3]; return x * y",
    "y = np.zeros(6, dtype=np.float32); y[1:] = x[1:]; return y * y",
    "s = x.real; s[0] = 4.0 * x[1]; return x * x",
]


def run_plain(f: Any, *args: Any) -> Any:
    return f(*[arg.copy() for arg in args])


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_write_means_what_it_means_in_numpy(text: str) -> None:
    f = _program(text)
    kept = X.copy()
    value, tape = tg.trace(f, X)
    np.testing.assert_array_equal(value, run_plain(f, X))
    np.testing.assert_array_equal(X, kept)  # the caller's array
    np.testing.assert_allclose(tape.check().play(X), value, 1e-15)
    loose = {"rtol": 1e-2, "atol": 1e-2, "eps": 1e-2} if "float32" in text else {}
    check_grads(f, X, **loose)
    if not loose:
        check_grads(f, X, order=2)
    swept = tg.grad(lambda x: contract(f(x)), X)[1][1]
    written = tg.gradtape(lambda x: contract(f(x)), X).check()
    for played in (written.play(X), written.play(X), tg.primitivize(written).check().play(X)):
        np.testing.assert_allclose(played[1][1], swept, 1e-12, 1e-14)
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize(("text", "error"), [
    ("x[9] = 1.0; return x", IndexError), ("x[0] = x; return x", ValueError), ("x[:2] = x[:3]; return x", ValueError),
    ("x += np.ones((2, 6)); return x", ValueError), ("y = np.zeros(6, int); y += x; return y", TypeError),
    ("np.broadcast_to(x, (2, 6))[0] = 1.0; return x", ValueError), ("np.add(x, x, out=np.zeros(3)); return x", ValueError),
    ("np.diagonal(x.reshape(2, 3))[0] = x[1]; return x", ValueError), ("np.copyto(np.zeros(6, int), x); return x", TypeError),
])
def test_numpys_errors_are_raised_and_nothing_is_half_written(text: str, error: type[Exception]) -> None:
    f, kept = _program(text), X.copy()
    with pytest.raises(error):
        run_plain(f, X)
    with pytest.raises(error):
        tg.grad(lambda x: f(x).sum(), X)
    np.testing.assert_array_equal(X, kept)


def test_arrays_that_the_trace_does_not_own() -> None:
    ours = np.zeros(6)
    globals()["OURS"] = ours
    for text in ("np.add(x, x, out=OURS); return x", "np.copyto(OURS, x); return x", "np.add.at(OURS, [0], x[0]); return x"):
        f = _program(text)
        f.__globals__["OURS"] = ours
        with pytest.raises(tg.MutationError, match="does not own"):
            tg.grad(lambda x, f=f: f(x).sum(), X)
    assert not ours.any()

    def both(x: Any, y: Any) -> Any:
        x[0] = 5.0
        return (x * y).sum() if y is not None else x.sum()
    with pytest.raises(tg.MutationError, match="y shares memory with x"):
        tg.grad(both, X, X[::-1])
    assert tg.gradient(lambda x: both(x, None), X)[0][0] == 0.0  # X is not used otherwise


def test_an_argument_read_by_another_name_after_a_write() -> None:
    f = _program("x += 1.0; return (x * OURS).sum()")
    f.__globals__["OURS"] = ours = X.copy()
    with pytest.raises(tg.MutationError, match="after x was written to"):
        tg.grad(f, ours)
    assert tg.gradient(f, X)[0].sum() == ours.sum()  # another array

    def whole(x: Any, y: Any) -> Any:
        x *= 2.0
        return (x * y).sum()
    with pytest.raises(tg.MutationError, match="y shares memory with x"):
        tg.grad(whole, ours, ours)


def test_readonly_arguments() -> None:
    frozen = X.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tg.grad(_program("x[0] = 1.0; return x.sum()"), frozen)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_decides_what_is_a_view(order: str) -> None:
    def f(x: Any) -> Any:
        out = np.array(x * 1.0)
        r = out.T.reshape(-1)
        r[0] = 0.5 * x[1, 1]
        return out * x
    a = np.array(np.arange(6.0).reshape(2, 3), order=order)
    np.testing.assert_array_equal(tg.trace(f, a)[0], f(a))
    check_grads(f, a)


def test_an_overwritten_argument_of_every_kind() -> None:
    def f(params: Any, x: Any) -> Any:
        params["w"] *= 2
        params["w"][0] = x[0]
        params["list"][1] = params["w"].sum()
        return params["w"] * params["list"][1]
    params = {"w": X[:3].copy(), "list": [1.0, 2.0]}
    (d, dx) = tg.gradient(lambda p, x: f(p, x).sum(), params, X)
    assert params["list"] == [1.0, 2.0] and params["w"][0] == X[0]
    assert d["list"] == [0.0, 0.0] and d["w"][0] == 0.0 and dx[0] != 0.0


# -- random programs, against torch and NumPy


SLICES = st.sampled_from(["0", "-1", "2", "1:", ":-1", "::2", "1:4", "...", "::-1", "[0, 2]", "[1, 1, 3]", "[True, False, True, True]"])
STATEMENTS = st.sampled_from(["write", "scale", "add", "view", "mix", "scalar"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(STATEMENTS, SLICES, SLICES), min_size=1, max_size=8))
def test_random_programs(steps: list[tuple[str, str, str]]) -> None:
    lines, views = ["a = x * 1.0"], ["a"]
    for k, (kind, i, j) in enumerate(steps):
        v, w = views[k % len(views)], views[(k * 7 + 1) % len(views)]
        lines += {
            "write": [f"{v}[{i}] = {w}.sum() * 0.3"], "scale": [f"{v}[{i}] *= {w}.mean()"], "add": [f"{v}[{i}] += {v}[{i}] * 0.5"],
            "view": [f"v{k} = {v}[{j}]" if j in ("1:", ":-1", "::2", "1:4", "...", "::-1") else f"v{k} = {v}[::-1]"],
            "mix": [f"a = a * np.tanh({w}.sum())"] if v == "a" and len(views) == 1 else [f"{v}[...] = {v}[::-1] * 0.9"],
            "scalar": [f"{v}[0] = {w}[-1] * {w}[0]"],
        }[kind]
        if kind == "view":
            views.append(f"v{k}")
    f = _program(";".join([*lines, "return " + " + ".join(f"{v}.sum() * {n + 1}.5" for n, v in enumerate(views)) + " + (a * a).sum()"]))
    x = np.linspace(0.2, 1.1, 4)
    try:
        with np.errstate(all="ignore"):
            expected = f(x.copy())
    except (ValueError, IndexError):
        return  # a program that NumPy refuses
    value, (_, dx) = tg.grad(f, x)
    np.testing.assert_array_equal(value, expected)
    check_grads(f, x)
    np.testing.assert_allclose(tg.gradtape(f, x).play(x)[1][1], dx, 1e-12, 1e-14)


def test_the_same_program_in_torch() -> None:
    def program(x: Any, out: Any) -> Any:
        out[1:4] = x[:3] * x[3:]
        view = out[2:]
        view *= 2
        out[0] = 3 * view[0] + out[1]
        return (out * out).sum()
    x = torch.tensor(X, requires_grad=True)
    program(x, torch.zeros(6, dtype=torch.float64)).backward()
    np.testing.assert_allclose(tg.gradient(lambda x: program(x, np.zeros(6)), X)[0], x.grad.numpy())


# -- cost, counted: bench/ has the times


def fill(x: Any) -> Any:
    u = np.zeros(len(x))
    for i in range(1, len(u)):
        u[i] = u[i - 1] * 0.5 + x[i]
    return u.sum()


def test_filling_an_array_copies_it_no_more_often_than_the_loop_does(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(50)
    writes = [op for op in tg.trace(fill, x)[1] if isinstance(op, tg.Call) and op.fn is tg.ops.setitem]
    assert len(writes) == 49 and len({id(op.val) for op in writes}) == 1  # one buffer, written 49 times

    made: list[Any] = []
    plain_init = Accumulator.__init__
    monkeypatch.setattr(Accumulator, "__init__", lambda self, array: made.append(array) or plain_init(self, array))
    expected = tg.gradient(fill, x)[0]
    assert len(made) == 1  # and one buffer of its cotangent

    copies: list[int] = []
    plain_impl = tg.ops.setitem.impl
    monkeypatch.setattr(tg.ops.setitem, "impl", lambda *args, **kwargs: copies.append(1) or plain_impl(*args, **kwargs))
    tape, gradient = tg.trace(fill, x)[1], tg.gradtape(fill, x)
    copies.clear()
    assert tape.play(x) == fill(x) and not copies
    np.testing.assert_array_equal(gradient.play(x)[1][1], expected)
    assert not copies
