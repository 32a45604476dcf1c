"""What NumPy's functions do at their edges: which share memory, what `out=` and masks may be, which errors they raise."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl

import tapegrad as tg
from tapegrad.errors import MutationError
from tapegrad.testing import check_grads

X = np.array([0.7, -1.3, 2.1])


def program(text: str) -> Any:
    namespace: dict[str, Any] = {"np": np, "math": math}
    exec("def f(x):\n" + "".join(f"    {line.strip()}\n" for line in text.split(";")), namespace)
    return namespace["f"]


def outcome(run: Any) -> Any:
    """Return what a call returns, or its error, and the warnings it gives."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            found = run()
        except Exception as err:
            found = type(err).__name__
    return found, [warning.category for warning in given]


OUT = [f"o = np.zeros({shape}, {dtype.__name__}); {call}; return o" for shape, dtype, call in [
    ((2, 3), float, "np.add(x, 1.0, out=o)"), ((2, 3), float, "np.sin(x, o)"), ((1, 3), float, "np.multiply(x, 2, out=o)"), (2, float, "np.sin(x, out=o)"),
    (3, int, "np.add(x, 1, out=o)"), (3, complex, "np.add(x, 1, out=o)"), ((2, 3), float, "np.modf(x, out=(o, None))"), ((2, 3, 3), float, "np.matmul(x[:, None], x[None], out=o)"),
    (3, float, "np.cumsum(x * 1j, out=o)"), (3, float, "x.cumprod(out=o)"), (3, int, "np.cumsum(x, out=o)"), (2, float, "np.cumsum(x, out=o)"),
    ((), float, "np.sum(x * 1j, out=o)"), ((), int, "np.max(x, out=o)"), ((1,), float, "np.sum(x, out=o)"), (3, int, "np.take(x, [0, 1, 2], out=o)"),
    ((2, 3), int, "np.stack([x, x], out=o)"), ((2, 3), int, "np.stack([x, x], out=o, casting='unsafe')"), (3, int, "np.round(x, out=o)"),
    ((2, 3), float, "np.add(x, x, out=o, where=np.array([True, False, True]))"), (3, float, "np.add(x, 1, out=o, where=np.array([True, False]))"),
]]
MASKS = ["np.putmask(x, np.array([[True, False, True]]), x * 2); return x", "np.putmask(x, np.array([True, False, True]).reshape(3, 1), x * 2); return x",
         "np.putmask(x, [True, False], 5.0); return x", "np.putmask(x, True, 5.0); return x", "np.putmask(x, [1, 0, 1], []); return x",
         "np.copyto(x, 2.0, where=np.array([[True, False, True]])); return x", "np.copyto(x, x[None] * 2, where=[True, False, True]); return x",
         "np.copyto(x, x * 1j); return x", "np.place(x, [True, False], [1.0]); return x", "np.place(x, x > 0, []); return x", "np.place(x, x > 9, []); return x",
         *[f"return np.compress({condition}, x) * 2" for condition in ([True, False], [True, False, True, False], [True] * 4, [], [[True, False, True]])],
         "return np.outer(x, x).compress([True] * 4, axis=1)", "return np.extract([True, False, True, False], x)", "return np.compress([0, 1, 0, 0], np.outer(x, x), 1)"]


@pytest.mark.parametrize("text", [*OUT, *MASKS])
def test_results_errors_and_warnings_are_numpys(text: str) -> None:
    f = program(text)
    (wanted, warned), (found, told) = outcome(lambda: f(X.copy())), outcome(lambda: tg.trace(f, X)[0])
    np.testing.assert_array_equal(found, wanted)
    assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None) and set(told) == set(warned)
    if isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_grads(f, X, order=1)


@pytest.mark.parametrize("text", [
    *[f"v = {copied}; {write}; return v * x" for copied in ("np.clip(x)", "x.clip()", "np.clip(x, None, None)") for write in ("x[0] = 7 * x[1]", "v[0] = x[1]", "v *= x")],
    "w = np.lib.stride_tricks.sliding_window_view(x, 2); y = w * w; x[1] = x[0] * 3; return y", "m, e = math.frexp(x[0]); return math.ldexp(m, e) * x",
    "v = np.broadcast_arrays(x, np.ones((2, 3)))[0]; x *= x; return v", "v = np.einsum('ii->i', x[:, None] * x); return v * x", "return math.frexp(x[0])[0] * x",
])
def test_copies_and_views_are_numpys(text: str) -> None:
    f = program(text)
    np.testing.assert_array_equal(tg.trace(f, X)[0], f(X.copy()))
    check_grads(f, X, order=1)


@pytest.mark.parametrize("text", [
    "w = np.lib.stride_tricks.sliding_window_view(x, 2); x[1] = x[0] * 3; return w", "w = np.lib.stride_tricks.sliding_window_view(x, 2)[0]; x *= 2; return w.sum()",
    "v = np.broadcast_arrays(x, np.ones((2, 3)))[0]; v *= 2; return v", "y = np.outer(x, x); v = np.einsum('ii->i', y); v[...] = x; return y",
    "v = np.meshgrid(x, x, copy=False)[0]; v[0] = x; return v",
])
def test_what_shares_memory_on_no_path_is_refused_once_it_is_written_to(text: str) -> None:
    with pytest.raises(MutationError):
        tg.grad(program(text), X, seed=np.ones(3))


Q = np.random.default_rng(5).normal(size=(3, 3))
ON_THE_CUT = {"one": [-2.0, 3.0, 0.7], "two": [-2.0, -3.0, 0.7], "small": [-0.1, -4.0, -9.0]}


@pytest.mark.parametrize("name", ON_THE_CUT)
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")  # SciPy's own doubt of a defective matrix
@pytest.mark.parametrize("fn", [sl.sqrtm, sl.logm])
def test_matrix_functions_follow_their_branch(fn: Any, name: str) -> None:
    x = Q @ np.diag(ON_THE_CUT[name]) @ np.linalg.inv(Q)
    check_grads(lambda a: (fn(a) * (Q + 1j * Q.T)).real.sum(), x, order=2)
    step = tg.value_and_grad(lambda a: (fn(a) * (Q + 1j * Q.T)).real.sum())
    for a in (np.eye(3) + 0.1 * Q @ Q.T, x, np.eye(3) + 0.2 * Q @ Q.T, x * 1.1, x):
        np.testing.assert_allclose(step(a)[1][1], tg.gradient(lambda a: (fn(a) * (Q + 1j * Q.T)).real.sum(), a)[0], 1e-7, 1e-9)
