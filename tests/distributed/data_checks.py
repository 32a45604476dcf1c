"""What holds on each rank of tg.distributed.value_and_grad; see run_checks."""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import fractions
import functools
import os
import re
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tg
from bench.problems import gmm

RNG = np.random.default_rng(0)
X, Y, W = RNG.standard_normal((11, 3)), RNG.standard_normal(11), RNG.standard_normal(3)
RANK, SIZE = tg.distributed.rank(), tg.distributed.size()
OWN = slice(0, 1) if RANK == 0 else slice(1 + 2 * (RANK - 1), 1 + 2 * RANK if RANK < SIZE - 1 else 11)
"""This rank's rows where each has its own: of unequal number."""


def total(w: Any, X: Any, y: Any) -> Any:
    return np.sum((np.tanh(X @ w) - y) ** 2)


def mean(w: Any, X: Any, y: Any) -> Any:
    return np.mean((np.tanh(X @ w) - y) ** 2)


def close(found: Any, wanted: Any, rtol: float = 1e-13) -> None:
    """Compare value and gradient, and their types."""
    pairs = list(zip(tg.tree.leaves(found), tg.tree.leaves(wanted), strict=True))
    for a, b in pairs:
        assert type(a) is type(b) and np.shape(a) == np.shape(b) and np.result_type(a) == np.result_type(b), (a, b)
        np.testing.assert_allclose(a, b, rtol, rtol)


@contextlib.contextmanager
def raises(kind: type[Exception], match: str) -> Iterator[None]:
    try:
        yield
    except kind as err:
        assert re.search(match, str(err)), str(err)
        return
    raise AssertionError(f"no {kind.__name__} with {match!r}")


def check_whole_arrays() -> None:
    for f, reduction in ((total, "sum"), (mean, "mean")):
        step = tg.distributed.value_and_grad(f, batch=("X", "y"), reduction=reduction)
        for scale in (1.0, 0.5, 0.1, 2.0):
            close(step(scale * W, X, Y), tg.value_and_grad(f)(scale * W, X, Y))
            close(step(scale * W, y=Y, X=X), tg.value_and_grad(f)(scale * W, X, Y))
        assert step.local.stats.hits


def check_own_rows_of_unequal_number() -> None:
    for f, reduction in ((total, "sum"), (mean, "mean")):
        step = tg.distributed.value_and_grad(f, batch=(1, 2), reduction=reduction, sharded=True)
        close(step(W, X[OWN], Y[OWN]), tg.value_and_grad(f)(W, X, Y))
        none, times = slice(0, 0) if RANK == 1 else slice(None), SIZE - 1.0 if reduction == "sum" else 1.0
        value, gradient = tg.value_and_grad(f)(W, X, Y)
        close(step(W, X[none], Y[none]), (times * value, times * gradient))


def check_fewer_rows_than_ranks() -> None:
    for f, reduction in ((total, "sum"), (mean, "mean")):
        step = tg.distributed.value_and_grad(f, batch=("X", "y"), reduction=reduction)
        close(step(W, X[:1], Y[:1]), tg.value_and_grad(f)(W, X[:1], Y[:1]))
    with raises(tg.ArgumentError, "has no rows"):
        step(W, X[:0], Y[:0])


def check_nested_parameters_batches_and_aux() -> None:
    def f(p: Any, scale: Any, *, data: Any, name: str) -> Any:
        wave = np.tanh(data["X"] @ p["layers"][0]) @ p["layers"][1] + p["bias"] * scale
        return np.sum((wave - data["y"]) ** 2), {"rows": len(data["y"]), "name": name}
    params = {"layers": [RNG_W(3, 4), RNG_W(4)], "bias": 0.5, "name": "net"}
    step = tg.distributed.value_and_grad(f, (0, 1), has_aux=True, batch="data")
    (value, aux), gradient = step(params, 2.0, data={"X": X, "y": Y}, name="a")
    (wanted, _), by = tg.value_and_grad(f, (0, 1), has_aux=True)(params, 2.0, data={"X": X, "y": Y}, name="a")
    close((value, gradient), (wanted, by))
    assert aux == {"rows": 11 * (RANK + 1) // SIZE - 11 * RANK // SIZE, "name": "a"} and gradient[0]["name"] is None


def RNG_W(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def check_single_precision_and_complex_numbers() -> None:
    def f(w: Any, X: Any, y: Any) -> Any:
        return np.sum(np.abs(X @ w - y) ** 2)
    for dtype, rtol in ((np.float32, 3e-6), (np.complex64, 3e-6), (np.complex128, 1e-13)):
        given = [x.astype(dtype) * (1 + 0.5j if dtype != np.float32 else 1) for x in (W, X, Y)]
        given = [x.astype(dtype) for x in given]
        close(tg.distributed.value_and_grad(f, batch=("X", "y"))(*given), tg.value_and_grad(f)(*given), rtol)
    with raises(tg.ArgumentError, "longdouble|float128"):
        tg.distributed.value_and_grad(f, batch=("X", "y"), check=False)(W.astype(np.longdouble), X, Y)


def check_branches_may_differ() -> None:
    def f(w: Any, X: Any, y: Any) -> Any:
        out = 0.0
        for row, z in zip(X, y):
            u = row @ w
            out = out + (u * u if u > z else 3.0 * u)
        return out
    close(tg.distributed.value_and_grad(f, batch=("X", "y"), check=False)(W, X, Y), tg.value_and_grad(f)(W, X, Y))


def check_methods() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = W.copy()

        def loss(self, scale: Any, X: Any, y: Any) -> Any:
            return total(self.w * scale, X, y)
    model = Model()
    close(tg.distributed.value_and_grad(model.loss, batch=("X", "y"))(2.0, X, Y), tg.value_and_grad(model.loss)(2.0, X, Y))


def check_no_sum_over_rows() -> None:
    with raises(tg.ArgumentError, r'mean is not a sum over rows(?s:.*)reduction="mean"'):
        tg.distributed.value_and_grad(mean, batch=("X", "y"))(W, X, Y)
    with raises(tg.ArgumentError, r'total is not a mean over rows(?s:.*)reduction="sum"'):
        tg.distributed.value_and_grad(total, batch=("X", "y"), reduction="mean")(W, X, Y)
    with raises(tg.ArgumentError, "of an empty batch is .*, which each rank would add"):
        tg.distributed.value_and_grad(lambda w, X, y: total(w, X, y) + 1e-9 * w @ w, batch=("X", "y"))(W, X, Y)
    with raises(tg.ArgumentError, "not a mean over rows"):
        tg.distributed.value_and_grad(lambda w, X: np.var(X @ w), batch="X", reduction="mean")(W, X)
    ridge = tg.distributed.value_and_grad(lambda w, X, y: mean(w, X, y) + w @ w, batch=("X", "y"), reduction="mean")
    close(ridge(W, X, Y), tg.value_and_grad(ridge.__wrapped__)(W, X, Y))


def check_what_the_checks_leave() -> None:
    """They do not what the program writes, and draw nothing; a call that they refuse has written nothing."""
    class Meter:
        def __init__(self) -> None:
            self.calls, self.rows = 0, 0

        def loss(self, w: Any, X: Any, y: Any, factor: float = 1.0) -> Any:
            self.calls += 1
            self.rows += len(X)
            np.random.random()
            return total(w, X, y) * len(X) ** (factor - 1)
    meter = Meter()
    step = tg.distributed.value_and_grad(meter.loss, batch=("X", "y"))
    state = np.random.RandomState(0)
    np.random.seed(0)
    own = 11 * (RANK + 1) // SIZE - 11 * RANK // SIZE
    for number in range(1, 5):
        step(W, X, Y)
        state.random()
        assert (meter.calls, meter.rows) == (number, number * own)
    with raises(tg.ArgumentError, "loss is not a sum over rows"):
        tg.distributed.value_and_grad(meter.loss, batch=("X", "y"))(W, X, Y, 2.0)
    assert meter.calls == 4 and np.random.random() == state.random()


def check_an_error_on_one_rank() -> None:
    def f(w: Any, X: Any, y: Any) -> Any:
        if SIZE - 1 == RANK and w[0] == 0.0:
            raise KeyError("this rank's own")
        return total(w, X, y)
    step = tg.distributed.value_and_grad(f, batch=("X", "y"))
    for _ in range(2):
        if RANK == SIZE - 1:
            with raises(KeyError, "this rank's own"):
                step(0 * W, X, Y)
        else:
            with raises(tg.distributed.DistributedError, f"rank {SIZE - 1} raised an error"):
                step(0 * W, X, Y)
        close(step(W, X, Y), tg.value_and_grad(f)(W, X, Y))


def check_what_is_another_on_a_rank() -> None:
    step = tg.distributed.value_and_grad(total, batch=("X", "y"))
    other = tg.distributed.value_and_grad((total, lambda w, X, y: 2 * total(w, X, y))[RANK % 2], batch=("X", "y"))
    weighted = tg.distributed.value_and_grad(lambda w, X, y, c=1.0 + RANK: c * total(w, X, y), batch=("X", "y"))
    for call, match in ((lambda: other(W, X, Y), "code or the options"), (lambda: weighted(W, X, Y), "code or the options"),
                        (lambda: step(np.nextafter(W, 9.0) if RANK else W, X, Y), "other than X, y differ between ranks"),
                        (lambda: step(W[:2] if RANK else W, X[:, :2] if RANK else X, Y), "dtypes, shapes or nesting"),
                        (lambda: step(W.astype(np.float32) if RANK else W, X, Y), "dtypes, shapes or nesting"),
                        (lambda: step(W, X[OWN], Y[OWN]), "whole arrays on each rank; or sharded=True"),
                        (lambda: step(W, X + RANK, Y), "whole arrays on each rank; or sharded=True")):
        with raises(tg.distributed.DistributedError, match):
            call()
    close(step(W, X, Y), tg.value_and_grad(total)(W, X, Y))


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: Any) -> None:
        self.k = k

    def get(self) -> Any:
        return self.k


class Text(str):
    """With an attribute."""


def with_attribute(x: Any, k: Any) -> Any:
    x.k = k
    return x


KINDS: list[Callable[[int], Any]] = [
    fractions.Fraction, decimal.Decimal, lambda k: collections.deque([k]), lambda k: collections.deque(maxlen=5 + k), Slotted, lambda k: Slotted(k).get,
    lambda k: types.MappingProxyType({"k": k}), lambda k: {"a", "b", k}, lambda k: frozenset([("a", k), ("b", 2)]), lambda k: np.array([k, "x"], object),
    lambda k: np.array(["x" * k]), lambda k: np.array([(1, k)], "i4,f8"), np.longdouble, lambda k: datetime.datetime(2020, 1, 1 + k),
    lambda k: functools.partial(pow, k, 2), lambda k: lambda: k, lambda k: lambda x=k: x, lambda k: re.compile("x" * k), lambda k: Path("x" * k),
    lambda k: with_attribute(Text("x"), k), lambda k: with_attribute(Text("x"), "x" * k), lambda k: np.random.default_rng(k), lambda k: slice(0, k),
    lambda k: [np.sin, np.cos][k % 2], lambda k: [int, float][k % 2], lambda k: dict([("a", 1), ("b", 2)][::1 - 2 * (k % 2)])]


def check_arguments_of_every_kind() -> None:
    """Those that differ are told, whatever they are, and equal ones are taken: of sets the order is each process's own."""
    step = tg.distributed.value_and_grad(lambda w, c, X, y: total(w, X, y), batch=("X", "y"), check=False)
    wanted = tg.value_and_grad(total)(W, X, Y)
    for number, make in enumerate(KINDS):
        close(step(W, make(1), X, Y), wanted)
        with raises(tg.distributed.DistributedError, "arguments"):
            step(W, make(1 + RANK), X, Y)
            raise AssertionError(number)
    with raises(tg.ArgumentError, "an argument holds a lock, which ranks cannot compare"):
        step(W, {"a": threading.Lock()}, X, Y)


def check_calls_in_another_order() -> None:
    small = tg.distributed.value_and_grad(lambda w, x: np.sum(w * x), batch="x")
    large = tg.distributed.value_and_grad(lambda w, x: np.sum(x @ w), batch="x")
    calls = [lambda: small(2.0, X[:, 0]), lambda: large(np.ones(5000), np.ones((8, 5000)))]
    with raises(tg.distributed.DistributedError, "code or the options"):
        calls[RANK % 2]()
    close(calls[0](), tg.value_and_grad(small.__wrapped__)(2.0, X[:, 0]))
    close(calls[1](), tg.value_and_grad(large.__wrapped__)(np.ones(5000), np.ones((8, 5000))))


def check_chunks() -> None:
    chunks = [(X[i:i + 4], Y[i:i + 4]) for i in range(0, 11, 4)]
    for f, reduction in ((total, "sum"), (mean, "mean")):
        step = tg.distributed.value_and_grad(f, batch=("X", "y"), reduction=reduction)
        close(step.accumulate(iter(chunks), W), tg.value_and_grad(f)(W, X, Y))
        own = tg.distributed.value_and_grad(f, batch=("X", "y"), reduction=reduction, sharded=True)
        close(own.accumulate(chunks[RANK::SIZE] or [(X[:0], Y[:0])], W), tg.value_and_grad(f)(W, X, Y))
    if RANK == 1:
        with raises(tg.ArgumentError, "got no chunks"):
            own.accumulate([], W)
    else:
        with raises(tg.distributed.DistributedError, "rank 1 raised"):
            own.accumulate(chunks, W)


def check_a_file_of_sums() -> None:
    folder = Path(os.environ["CHECKS"])
    chunks = [(X[i:i + 4], Y[i:i + 4]) for i in range(0, 11, 4)]
    step = tg.distributed.value_and_grad(total, batch=("X", "y"))

    def broken() -> Iterator[Any]:
        yield from chunks[:2]
        raise OSError("the disk")
    with raises((OSError, tg.distributed.DistributedError), "the disk|raised"):  # type: ignore[arg-type]
        step.accumulate(broken(), W, checkpoint=folder / "sums")
    assert (folder / f"sums.{RANK}of{SIZE}").is_file()
    calls = step.local.stats.calls
    wanted = tg.value_and_grad(total)(W, X, Y)
    found = step.accumulate(chunks, W, checkpoint=folder / "sums")
    assert step.local.stats.calls - calls == 2 and not (folder / f"sums.{RANK}of{SIZE}").exists()
    close(found, wanted)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in step.accumulate(chunks, W)]
    with raises((OSError, tg.distributed.DistributedError), "the disk|raised"):  # type: ignore[arg-type]
        step.accumulate(broken(), W, checkpoint=folder / "sums")
    with raises(tg.ArgumentError, "other chunks"):
        step.accumulate(chunks[::-1], W, checkpoint=folder / "sums")
    close(step.accumulate(chunks, 2 * W, checkpoint=folder / "sums"), tg.value_and_grad(total)(2 * W, X, Y))


def check_the_mixture() -> None:
    data = gmm.make(3, 4, 20_000)

    def likelihood(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
        """Without the prior, which depends on no point."""
        return gmm.objective(alphas, means, icf, x, 1.0, 0) - gmm.objective(alphas, means, icf, x[:0], 1.0, 0)
    args = [data[name] for name in ("alphas", "means", "icf", "x")]
    step = tg.distributed.value_and_grad(likelihood, (0, 1, 2), batch="x")
    for _ in range(3):
        close(step(*args), tg.value_and_grad(likelihood, (0, 1, 2))(*args), 1e-10)
