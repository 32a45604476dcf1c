"""In-place writes and views: NumPy's meaning, also in the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.numbers.cotangents import Accumulator, Scatter
from tapegrad.replay.interpreter import Memory
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
    "np.copyto(x, x * x, where=[1, 0, 0, 2, 0, 1]); return x * x",
    "np.put(x, [0, 3], [x[1], x[2] * 2]); return x * x",
    "np.put(x, [0, -1, 2], x[1]); return x * x",
    "np.putmask(x, x > 0.4, x[:2] * 2); return x * x",
    "np.putmask(x, x > 0.4, x[1] * 2); np.putmask(x, x > 0.9, 3.0); return x * x",
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
    "m = x.reshape(2, 3); m[0, 1] = m[1, 2] * m[0, 0]; m[1, 0] = m[0, 1] * 2; return x * m[0, 1]",
    "y = np.zeros(6); row = y[1:]; row[0] = x[0]; row[1] = row[0] * x[1]; row[2:] = row[:3] * x[3:]; return y * y",
    "y = x * x; t = y.reshape(2, 3).T; t[1, 0] = t[0, 1] * t[2, 0]; t[2] = t[0] + t[1] * x[0]; return y * t[2, 1]",
    "y = x.copy(); q = y.reshape(3, 2)[:, ::-1][1:].T[None]; q[0, 1, 0] = q[0, 0, 1] * x[5]; q[0, 0] *= q[0, 1]; return y * q.sum()",
    "y = np.ones(6); y[0] = x[0]; v = y[::2]; v[I[:2]] = v[1:] * x[:2]; return y * v[I].sum() * v[v > 0.2].sum() * v[np.array([True, False, True])].sum()",
    "y = np.zeros(6); y[0] = x[2]; b = np.broadcast_to(y[:3], (2, 3)); y[1] = b[1, 0] * x[1]; y[2] = b[:, 1].sum(); return y * y + b[:, :1].sum()",
    "y = np.zeros((3, 3)); d = np.diagonal(y); y[0, 0] = x[0]; y[1, 1] = d[0] * x[1]; y[2, 2] = d[1] ** 2; return y * d.sum()",
    "y = np.array(x * 1.0, order='F'); m = np.asfortranarray(y.reshape(2, 3)); r = m.T.reshape(-1); r[1] = r[0] * x[3]; r[4] = r[1] * r[5]; return m * r[4]",
    "y = np.zeros(6); v = y[2:2]; v[:] = 1.0; y[1] = x[0] * v.sum() + x[1]; return y * v.size",
    "y = x.copy(); s = y.flat[1:3]; s[0] = 5.0; y.flat[-1] = y.flat[0] * x[1]; y.flat[2:4] = y.flat[:2]; return y * s.sum()",
    "y = np.zeros((2, 3)); for i in range(1, 6): y.T.flat[i] = y.T.flat[i - 1] * 0.5 + x[i];  return y * y",
    "y = np.zeros((2, 3)); y[0] = x[:3]; y[1] += y[0] * x[3:]; y[1][0] = y[0][1] * y[1][2]; y[:, 0] *= y[:, 1]; return y * y",
    "y = np.zeros(6, int); v = y[1:]; v[0] = 3; v[1] = v[0] * 2; return x * y * v[1]",
    "y = np.zeros(6, dtype=np.float32); v = y[1:]; v[:] = x[1:]; v[0] = v[1] * v[2]; return y * y",
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


OUTS = [
    "np.add(m, m, y)", "np.exp(m, y)", "np.clip(m, 0.2, 0.8, y)", "m.clip(0.2, 0.8, y)", "np.round(m, 1, y)", "np.cumsum(m, 1, None, y)", "m.cumsum(0, None, y)",
    "np.sum(m, 0, None, y[0])", "m.sum(0, None, y[0])", "np.max(m, 0, y[0])", "m.min(0, y[1])", "np.mean(m, 0, None, y[0])", "np.var(m, 0, None, y[0])",
    "np.median(m, 0, y[0])", "np.nanmax(m, 0, y[1])", "np.quantile(m, 0.3, 0, y[0])", "np.take(m, [1, 0], 0, y)", "m.take([0, 0], 0, y)",
    "np.concatenate([m[:1], m[1:] * 2], 0, y)", "np.dot(m[:, :2], m[:2], y)", "np.add.reduce(m, 0, None, y[1])", "np.trace(m, 0, 0, 1, None, y[0, 0, ...])",
    "np.compress([True, True], m, 0, y)", "np.stack([m[0], m[1]], 0, y)", "np.cumprod(m, 0, None, y)",
]


@pytest.mark.parametrize("call", OUTS)
def test_an_output_array_given_by_position(call: str) -> None:
    f = _program(f"m = x.reshape(2, 3) * 1.0; y = np.zeros((2, 3)); z = {call}; y[0, 0] *= 2.0; return y * m + z.sum()")
    np.testing.assert_array_equal(tg.trace(f, X)[0], f(X))
    check_grads(f, X)


@pytest.mark.parametrize(("text", "error"), [
    ("x[9] = 1.0; return x", IndexError), ("x[0] = x; return x", ValueError), ("x[:2] = x[:3]; return x", ValueError),
    ("x += np.ones((2, 6)); return x", ValueError), ("y = np.zeros(6, int); y += x; return y", TypeError),
    ("np.broadcast_to(x, (2, 6))[0] = 1.0; return x", ValueError), ("np.add(x, x, out=np.zeros(3)); return x", ValueError),
    ("np.diagonal(x.reshape(2, 3))[0] = x[1]; return x", ValueError), ("np.copyto(np.zeros(6, int), x); return x", TypeError),
    ("np.put_along_axis(x, np.array([[0]]), 1.0, axis=1); return x", np.exceptions.AxisError),
    ("np.put_along_axis(x, np.array([[0]]), 1.0, axis=0); return x", ValueError),
    ("return np.sum(x, initial=[1.0])", ValueError), ("return np.max(x, initial=x[:1])", ValueError),
    ("return np.logaddexp.reduce(x, initial=np.ones(2))", ValueError),
])
def test_numpys_errors_are_raised_and_nothing_is_half_written(text: str, error: type[Exception]) -> None:
    f, kept = _program(text), X.copy()
    with pytest.raises(error):
        run_plain(f, X)
    with pytest.raises(error):
        tg.grad(lambda x: f(x).sum(), X)
    np.testing.assert_array_equal(X, kept)


@pytest.mark.quick
def test_arrays_that_the_trace_does_not_own() -> None:
    ours = np.zeros(6)
    globals()["OURS"] = ours
    for text in ("np.add(x, x, out=OURS); return x", "np.copyto(OURS, x); return x", "np.add.at(OURS, [0], x[0]); return x",
                 "np.cumsum(x, 0, None, OURS); return x"):
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


@pytest.mark.parametrize("write", ["x[[]] = 1.0", "np.place(x, x > 9, 1.0)", "np.putmask(x, x > 9, 1.0)",
                                   "np.put(x, [], 1.0)", "np.copyto(x, 1.0, where=x > 9)", "x[:0] += 1.0"])
def test_a_write_of_nothing_asks_whether_an_array_may_be_written(write: str) -> None:
    _, tape = tg.trace(_program(f"{write}; return x.sum()"), X)
    frozen = X.copy()
    frozen.flags.writeable = False
    with pytest.raises(tg.GuardError, match="writeable"):
        tape.play(frozen)


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
    assert params["list"] == [1.0, 2 * X[1:3].sum() + X[0]] and params["w"][0] == X[0]  # a list is written to, an array is not
    assert d["list"] == [0.0, 0.0] and d["w"][0] == 0.0 and dx[0] != 0.0


def test_a_read_through_stop_gradient_has_none() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(6)
        y[0] = x[2]
        s = tg.stop_gradient(y)[:2]
        y[1] = y[0] * s[0] * x[1]
        y[2] = s[1] + x[2] * s[0]
        return y.sum()
    np.testing.assert_allclose(tg.gradient(f, X)[0], [0, X[2] ** 2, 1 + X[2] * X[1] + X[2], 0, 0, 0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_reads_through_parts_of_complex_numbers(order: str) -> None:
    def f(z: Any) -> Any:
        w = np.array(z * 1.0, order=order)
        re, im = w.T.real, w.imag[1:]
        im[0, 1] = im[0, 0] * re[1, 0]
        re[0] = re[1] * im[0, 2]
        flat = w.T.imag.reshape(-1)  # a view of the one layout, of the other a copy
        flat[1] = 2 * flat[0] * re[2, 1]
        im[0, I[:2]] = re[1:, 1] * im[0, 2]
        return w * re[0, 1]
    z = np.array(np.arange(6.0).reshape(2, 3) + 1j * np.arange(1, 7).reshape(2, 3), order=order) / 5
    np.testing.assert_array_equal(tg.trace(f, z)[0], f(z.copy(order="K")))
    check_grads(f, z, order=2)
    swept = tg.grad(lambda z: contract(f(z)), z)[1][1]
    written = tg.gradtape(lambda z: contract(f(z)), z).check()
    for played in (written.play(z), tg.primitivize(written).check().play(z)):
        np.testing.assert_allclose(played[1][1], swept, 1e-12, 1e-14)


def test_a_view_is_on_the_tape_only_where_it_is_used_whole() -> None:
    def f(x: Any) -> Any:
        u = np.zeros(6)
        v = u[1:]
        repr(v)
        v[0] = x[0]
        w = v[1:][::-1]
        w[0] = v[0] * x[1]
        return (w * v[:4]).sum() * len(w)
    _, tape = tg.trace(f, X)
    reads = [repr(op).partition(" = ")[2] for op in tape if isinstance(op, tg.Call) and op.fn is tg.ops.getitem]
    assert reads == ["getitem(%2, 0)", "getitem(%5, 0, through=(getitem(1:),))", "getitem(%2, 1)",
                     "getitem(%9, ::-1, through=(getitem(1:), getitem(1:)))", "getitem(%9, :4, through=(getitem(1:),))"]
    np.testing.assert_allclose(tape.play(2 * X), f(2 * X))


def test_an_index_out_of_range_and_a_view_of_what_was_lost() -> None:
    def f(x: Any) -> Any:
        v = np.zeros(3)[1:]
        v[0] = x[0]
        try:
            return v[2] * x[1]
        except IndexError:
            return v[0] * x[1]
    _, tape = tg.trace(f, X)
    assert tape.play(2 * X) == 4 * X[0] * X[1]
    with pytest.raises(IndexError):
        tg.grad(lambda x: np.zeros(3)[1:][2] * x[0], X)

    def lost(x: Any, y: Any) -> Any:
        v = y[1:]
        x[0] = 2.0
        return v[0] * x[1]
    with pytest.raises(tg.MutationError, match="shares memory"):
        tg.grad(lost, X, X[::-1])


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


OF_MATRICES = [".T", "[1:]", "[:, 1:]", "[::2]", "[:, ::2]", ".reshape(-1)", ".reshape(2, -1)", "[None]", "[0]", "[-1:]", "[..., None]", ".reshape(-1, 1)"]
ASSIGNMENTS = [
    "{v}{i} = rd({w}){j} * 0.6 + rd({v}){k} * x[1]", "{v}{i} += rd({w}){j} * rd({v}){k}", "{v}{i} = rd({w}){j} * s", "{v}[0] = rd({v})[-1] * 0.3 + x[2]",
    "{v}[...] = rd({v}) * 0.8", "{v}[[0, -1]] = rd({w}){j} * x[0]", "{v}[1:] *= rd({w}){j}", "s = s + (rd({w})[[0, -1, 0]] ** 2).sum()",
    "s = s * rd({w}){j} + rd({v}).sum() * 0.1", "s = s + rd({w})[rd({w}) > 0.4321].sum()", "{v}[-1] += rd({v})[0] * rd({w}){j}",
]


def random_views(choices: list[tuple[int, int, int, int]]) -> str:
    """Return a program that writes and reads through views of views of one array."""
    lines, views = ["a = (x * 1.0).reshape(3, 4)", "s = x[0]"], {"a": np.zeros((3, 4))}
    for n, (kind, p, q, r) in enumerate(choices):
        v, w = list(views)[p % len(views)], list(views)[q % len(views)]
        if kind < 2:
            step = OF_MATRICES[r % len(OF_MATRICES)]
            if step == ".T" and views[v].ndim != 2:
                continue
            try:
                found = eval(f"v{step}", {"v": views[v]})
            except (ValueError, IndexError):
                continue  # not of this shape
            if found.size > 1 and found.ndim < 4 and np.shares_memory(found, views[v]):
                views[f"v{n}"] = found
                lines.append(f"v{n} = {v}{step}")
            continue
        i, j, k = (str([*map(int, np.unravel_index(number % views[name].size, views[name].shape))])
                   for name, number in ((v, p + r), (w, q + 3 * r), (v, q + r)))
        statement = ASSIGNMENTS[r % len(ASSIGNMENTS)].format(v=v, w=w, i=i, j=j, k=k)
        if "[[0, -1]] =" not in statement or len(views[v]) > 1:  # torch gives a place that is named twice both gradients
            lines.append(statement)
    return ";".join([*lines, "return (a * a).sum() + s + " + " + ".join(f"rd({v}).sum() * {n + 1}.5" for n, v in enumerate(views))])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), min_size=3, max_size=12))
def test_random_programs_that_read_through_views(choices: list[tuple[int, int, int, int]]) -> None:
    f = _program(random_views(choices))
    f.__globals__["rd"] = lambda a: a.clone() if isinstance(a, torch.Tensor) else a  # what torch saves for its sweep must not be overwritten
    x = np.linspace(0.2, 1.1, 12)
    value, (_, dx) = tg.grad(f, x)
    np.testing.assert_array_equal(value, f(x.copy()))
    z = torch.tensor(x, requires_grad=True)
    f(z).backward()
    np.testing.assert_allclose(dx, z.grad.numpy(), 1e-10, 1e-12)
    tape = tg.gradtape(f, x).check()
    for played in (tape.play(x), tape.play(x), tg.primitivize(tape).check().play(x)):
        np.testing.assert_allclose(played[1][1], dx, 1e-10, 1e-12)
    if len(choices) < 6:
        check_grads(f, x, order=2)


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


LOOPS = [
    "m = x.reshape(2, -1); for i in range(m.shape[1]): m[0, i] = m[1, i] * 2;  return x",
    "u = np.zeros(len(x)); row = u[1:]; for i in range(len(row)): row[i] = row[i - 1] + x[i];  return u",
    "u = np.zeros((len(x) // 4, 4)); t = u.T; for j in range(4 * len(u)): t[j % 4, j // 4] = t[j % 4 - 1, j // 4] + x[j];  return u",
    "u = np.zeros(len(x)); v = u.reshape(2, -1)[:, 1:][::-1]; for i in range(v.shape[1]): v[0, i] = v[1, i - 1] + x[i];  return u",
    "u = np.zeros(len(x)); for i in range(len(x) - 1): u[1:][i] += x[i] * u[:-1].reshape(-1)[i];  return u",
    "u = np.zeros((2, len(x) // 2)); for i in range(u.size): u.flat[i] = u.T.flat[i - 1] + x[i];  return u",
    "u = np.zeros(len(x), complex); v = u.imag; for i in range(len(v)): v[i] = v[i - 1] + x[i];  return u",
    "u = np.zeros((len(x) // 10, 10)); for i in range(1, len(u)): u[i, 1:] = u.T[:-1, i - 1] + x[10 * i: 10 * i + 9];  return u",
    "m = np.asfortranarray(x.reshape(2, -1)); r = m.T.reshape(-1); for i in range(1, len(x)): r[i] = r[i - 1] * r[i];  return m",
]


@pytest.mark.parametrize("text", LOOPS)
def test_a_loop_through_views_copies_no_whole_array(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = _program(text)
    made: list[Any] = []  # every array that a run makes, kept alive, so that no two lie in one place
    plain_init, plain_dense, plain_run = Accumulator.__init__, Scatter.dense, Memory.run

    def run(self: Any, *args: Any) -> Any:
        result = plain_run(self, *args)
        made.append(result[0] if isinstance(result, tuple) else result)
        return result
    monkeypatch.setattr(Accumulator, "__init__", lambda self, array: made.append(array) or plain_init(self, array))
    monkeypatch.setattr(Scatter, "dense", lambda self: made.append(y := plain_dense(self)) or y)
    monkeypatch.setattr(Memory, "run", run)

    def large(n: int) -> int:
        return len({y.__array_interface__["data"][0] for y in made if isinstance(y, np.ndarray) and 2 * y.size >= n})

    def cost(n: int) -> tuple[int, int, int, int]:
        """Return the tape's length, and how many arrays of the problem's size are on it, in the sweep, and in the replay."""
        x = np.linspace(0.5, 1.5, n)
        made.clear()
        tape = tg.trace(f, x)[1]
        made.extend(op.val for op in tape if isinstance(op, tg.Call))
        traced = large(n)
        made.clear()
        gradient = tg.gradtape(lambda x: contract(f(x)), x)
        swept = large(n)
        made.clear()
        gradient.play(x)
        return len(tape), traced, swept, large(n)
    short, middle, long = cost(40), cost(80), cost(160)
    assert short[1:] == middle[1:] == long[1:]
    assert long[0] - middle[0] == 2 * (middle[0] - short[0])


def test_a_view_of_a_view_that_was_used_follows_later_writes() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y[0] = 1.0
        v = y[:2]
        total = v.sum()
        d = np.diagonal(v)
        y[1, 1] = x[0, 0] * 5.0
        return d * total
    x = np.arange(9.0).reshape(3, 3) + 1.0
    np.testing.assert_array_equal(tg.trace(f, x)[0], f(x))
    tg.testing.check_grads(lambda x: f(x).sum(), x)


def through_views(x: Any) -> Any:
    """Write to what may be a view of x, and to x: of arrays with gaps, or turned axes, other things are views."""
    flat = x.reshape(-1)
    flat[0] = 3.0 * x.max()
    x[-1] *= 2.0
    again = x.ravel()
    again[1] = x.min()
    return x.sum() + (flat * again).sum()


GAPS = {"reversed": np.arange(1.0, 7.0)[::-1], "every second": np.arange(1.0, 13.0)[::2], "a column": np.arange(1.0, 9.0).reshape(4, 2)[:, 1],
        "a part of a table": np.arange(1.0, 13.0).reshape(3, 4)[:, :2], "turned": np.arange(1.0, 7.0).reshape(2, 3)[:, ::-1].T}


@pytest.mark.parametrize("name", GAPS)
def test_copies_of_arrays_lie_as_they_do(name: str) -> None:
    def there(values: Any) -> Any:
        x = GAPS[name]
        y = np.ndarray(x.shape, x.dtype, np.empty(x.base.nbytes).data, x.__array_interface__["data"][0] - x.base.__array_interface__["data"][0], x.strides)
        y[...] = values
        return y
    x = there(GAPS[name])
    value, gradient = tg.grad(through_views, x)[0], tg.gradient(through_views, x)[0]
    pulled, back = tg.pullback(through_views, x)
    assert value == pulled == tg.value_and_grad(through_views, argnums=None)(x)[0] == through_views(there(x)) and np.array_equal(x, GAPS[name])
    for found in (gradient, back(1.0)[1], tg.value_and_grad(through_views, argnums=None)(x)[1][1]):
        for at in np.ndindex(x.shape):
            step = np.zeros(x.shape)
            step[at] = 1e-6
            assert found[at] == pytest.approx((through_views(there(x + step)) - through_views(there(x - step))) / 2e-6, 1e-5)


def test_a_result_is_written_whole_only_where_it_has_the_arrays_shape() -> None:
    def kept(x: Any) -> Any:
        into = np.zeros(3)
        np.multiply(np.unique(x), 0.7, out=into)
        return into.sum()

    def added(x: Any, y: Any) -> Any:
        total = x * 1.0
        total += y
        return total.sum()

    for f, recorded, others in ((kept, (np.arange(3.0),), [(np.array([1.0, 1.0, 2.0]),), (np.ones(3),)]),
                                (added, (np.ones(1), np.ones(1)), [(np.ones(1), np.ones(3))])):
        tape = tg.trace(f, *recorded)[1]
        assert tape.play(*recorded) == f(*recorded)
        for args in others:
            for play in (tape.play, tg.optimise(tape).play, tg.compile(tape)):
                with pytest.raises(tg.GuardError):
                    play(*args)


def test_a_view_that_can_only_be_read_raises_on_every_replay() -> None:
    def f(x: Any) -> Any:
        view = np.diagonal(x * 2.0)
        try:
            view[0] = 1.0  # type: ignore[index]
        except ValueError:
            return view.sum()
        return 0.0
    x = np.arange(4.0).reshape(2, 2)
    tape = tg.trace(f, x)[1]
    for play in (tape.play, tg.optimise(tape).play, tg.compile(tape), tg.compile(f, warmup=1), tg.compile(f, backend="torch", warmup=1)):
        assert float(play(x + 1.0)) == f(x + 1.0) == 10.0


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
def test_the_cross_product_in_the_plane_is_an_array_that_is_written_to() -> None:
    def f(x: Any) -> Any:
        y = z = np.cross(x[:2], x[1:3])
        z += x[0]
        return y * 1.0
    x = np.array([1.0, 2.0, 4.0])
    assert type(tg.trace(lambda x: np.cross(x[:2], x[1:]), x)[0]) is np.ndarray
    value, (_, dx) = tg.grad(f, x)
    assert value == f(x) == 1.0 and dx.tolist() == [5.0, -4.0, 1.0]


@pytest.mark.parametrize("make", [np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("numbers", [[1.0, 2.0, 3.0], (1, 2, 3)])
def test_an_array_of_a_list_is_the_functions_own(make: Any, numbers: Any) -> None:
    def f(x: Any) -> Any:
        w = make(numbers, dtype=float)
        w *= x
        w[0] += x[1]
        return (w * w).sum()
    x = np.array([0.5, -1.0, 2.0])
    assert np.allclose(tg.gradient(f, x)[0], [-0.5 * 2, -0.5 * 2 + 8 * x[1], 18 * x[2]])
