"""torch's reductions mean the ops that NumPy's mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tapegrad as tg
from tests.frontends.torch.agree import refused_alike
from tests.frontends.torch.table import check, names, same_value, sample

X, Z = sample(3, 4, 2), sample(3, 4, 2, dtype=torch.complex128)
DIMS = [None, 0, -1, (0, 2), (-1, 0), (0, 1, 2)]


def one_dim(dim: Any) -> bool:
    return dim is None or isinstance(dim, int)


# torch's name, the op's, whether several axes may be given, whether complex numbers may
TABLE = [("sum", "sum", True, True), ("mean", "mean", True, True), ("prod", "prod", False, True), ("amax", "max", True, False),
    ("amin", "min", True, False),
         ("var", "square", True, True), ("std", "sqrt", True, True), ("nansum", "sum", True, False),
         ("nanmean", "divide", True, False)]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(("name", "op", "several", "of_complex"), TABLE)
def test_a_reduction(name: str, op: str, several: bool, of_complex: bool, dim: Any, keepdim: bool) -> None:
    if (dim is None and name in ("prod", "amax", "amin")) or not (several or one_dim(dim)):
        return
    for x in (X, X.float(), X.transpose(0, 2), *([Z] if of_complex else [])):
        check(lambda x: getattr(torch, name)(x, dim=dim, keepdim=keepdim), x, op=op)
    check(lambda x: getattr(x, name)(dim, keepdim=keepdim), X, op=op)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "var", "std", "max", "min", "nansum", "any", "all", "argmax",
    "argmin",
                                  "count_nonzero"])
def test_a_reduction_of_all(name: str) -> None:
    for x in (X, X.float(), sample() if name not in ("var", "std") else X[0]):
        check(getattr(torch, name), x)
        check(getattr(torch.Tensor, name), x)


NUMBERS: dict[str, Callable[..., Any]] = {
    "NumPy's names": lambda x: torch.sum(x, axis=0, keepdims=True) + x.mean(axis=(1, 2), keepdims=True),
    "sum of no axes": lambda x: x.sum(()), "sum, dtype": lambda x: x.sum(0, dtype=torch.float32),
    "mean, dtype": lambda x: x.mean(1, dtype=torch.float32),
    "prod, dtype": lambda x: x.prod(0, dtype=torch.float32), "a 0-d tensor's axis": lambda x: x[0, 0, 0].sum(0) + x[0, 0, 0].amax(-1, keepdim=True),
    "var, unbiased": lambda x: torch.var(x, False), "var, dim and unbiased": lambda x: torch.var(x, 1, False),
    "var, correction": lambda x: x.var(0, correction=0),
    "std, correction": lambda x: x.std((0, 1), correction=2, keepdim=True), "var_mean": lambda x: torch.var_mean(x, 1),
    "std_mean": lambda x: torch.std_mean(x, dim=(0, 2), keepdim=True), "std of equal numbers": lambda x: (x * 0 + 1.0).std(0) + x.sum(0),
    "max, dim": lambda x: tuple(x.max(1)), "min, dim": lambda x: tuple(torch.min(x, -1, keepdim=True)),
    "max, keyword": lambda x: torch.max(x, dim=0).values,
    "max of a 0-d tensor": lambda x: x[0, 0, 0].max(0).values, "cumsum": lambda x: x.cumsum(1),
    "cumsum, dtype": lambda x: torch.cumsum(x, -1, dtype=torch.float32),
    "cumprod": lambda x: x.cumprod(0), "cumsum of a 0-d tensor": lambda x: x[0, 0, 0].cumsum(0), "diff": lambda x: x.diff(),
    "diff twice": lambda x: torch.diff(x, 2, 1),
    "diff, prepend": lambda x: torch.diff(x, dim=0, prepend=x[:1], append=x[1:]),
    "all of an axis": lambda x: (x > 0).all(1), "any of axes": lambda x: torch.any(x > 1, (0, 1), keepdim=True),
    "all of no axes": lambda x: torch.all(x, ()),
    "argmax": lambda x: x.argmax(1, keepdim=True), "argmin of all, keepdim": lambda x: torch.argmin(x, keepdim=True),
    "count": lambda x: torch.count_nonzero(x > 0, (0, 2)),
    "sum of bools": lambda x: (x > 0).sum(0), "sum of integers": lambda x: x.int().sum(1), "prod of integers": lambda x: x.int().prod(1),
    "sum of integers, dtype": lambda x: x.int().sum(1, dtype=torch.int32), "cumsum of integers": lambda x: x.int().cumsum(0),
    "amax of integers": lambda x: x.int().amax(0),
    "mean of bools, dtype": lambda x: (x > 0).mean(dtype=torch.float32),
    "out": lambda x: torch.sum(x.detach() * 2, 0, out=torch.zeros(4, 2, dtype=torch.float64)),
}
WHOLE: dict[str, Callable[..., Any]] = {
    "logsumexp": lambda x: torch.logsumexp(x, (0, 1)), "logsumexp, keepdim": lambda x: x.logsumexp(-1, True),
    "logsumexp of narrow numbers": lambda x: x.float().transpose(0, 2).logsumexp(1),
    "norm": lambda x: torch.norm(x), "norm, p": lambda x: x.norm(3), "norm, p and dim": lambda x: torch.norm(x, 1, 0),
    "norm, fro": lambda x: x.norm("fro", (0, 1)),
    "norm, inf": lambda x: x.norm(math.inf, -1, True), "norm, 0": lambda x: x.norm(0, 1), "norm, nuc": lambda x: torch.norm(x[0], "nuc"),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, 2.5, (0, 2)), "vector_norm, -inf": lambda x: torch.linalg.vector_norm(x, -math.inf, 1),
    "vector_norm of all": lambda x: torch.linalg.vector_norm(x, 3, keepdim=True),
    "vector_norm, three axes": lambda x: torch.linalg.vector_norm(x, 2, (0, 1, 2)),
    "linalg.norm": lambda x: torch.linalg.norm(x), "linalg.norm, 2": lambda x: torch.linalg.norm(x[0], 2),
    "linalg.norm, dim": lambda x: torch.linalg.norm(x, dim=1),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x), "matrix_norm, nuc": lambda x: torch.linalg.matrix_norm(x, "nuc", (0, 1), True),
    "matrix_norm, 1": lambda x: torch.linalg.matrix_norm(x, 1), "matrix_norm, -inf": lambda x: torch.linalg.matrix_norm(x, -math.inf, keepdim=True),
    "matrix_norm, -2": lambda x: torch.linalg.matrix_norm(x, -2), "dist": lambda x: torch.dist(x, x.flip(0), 3),
    "norm, dtype": lambda x: x.float().norm(2, 0, dtype=torch.float64),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_call(name: str) -> None:
    check(NUMBERS[name], X)


@pytest.mark.parametrize("name", WHOLE)
def test_a_call_that_is_recorded_whole(name: str) -> None:
    check(WHOLE[name], X, mapped=False)


TIES = torch.tensor([[1.0, 3.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-2.0, 2.0, -2.0, 1.0]])


@pytest.mark.parametrize("f", [
    torch.max, torch.min, lambda x: x.amax(1), lambda x: x.amin(0), lambda x: x.max(1).values, lambda x: x.min(0).values, lambda x: x.norm(dim=1),
    lambda x: x.norm(1, 1), lambda x: x.norm(math.inf, 1), lambda x: x.norm(3, 1), lambda x: x.norm(0.5, 1), lambda x: x.std(1), lambda x: x.prod(1),
    lambda x: x.cumprod(1), lambda x: torch.dist(x, x.detach()), lambda x: x.norm(0),
], ids=range(16))
def test_ties_and_kinks_have_torchs_gradient(f: Callable[..., Any]) -> None:
    check(f, TIES, mapped=None)


@pytest.mark.parametrize("f", [
    lambda x: x.sum(), lambda x: x.mean(1), lambda x: x.prod(0), lambda x: x.sum(0), lambda x: x.cumsum(0), lambda x: x.cumprod(1),
    lambda x: x.any(1), lambda x: x.norm(), lambda x: x.logsumexp(0),
], ids=range(9))
def test_of_no_numbers(f: Callable[..., Any]) -> None:
    check(f, torch.zeros(0, 3), mapped=None)


def test_max_along_an_axis_returns_torchs_pair() -> None:
    def f(x: Any) -> Any:
        found = x.max(1)
        assert isinstance(found, torch.return_types.max)
        return found.values * found.indices
    check(f, X, op="argmax")
    assert "take_along_axis" in names(tg.trace(f, X)[1])


@pytest.mark.parametrize("f", [
    lambda x: x.sum(3), lambda x: x.sum((0, 0)), lambda x: x.int().mean(), lambda x: x.amax((0, -3)), lambda x: x.max(5), lambda x: x.cumsum(3),
    lambda x: (x * 1j).amax(0), lambda x: x.logsumexp(7), lambda x: torch.linalg.matrix_norm(x, "spectral"), lambda x: x.norm(dim=9),
    lambda x: x.norm(dtype=torch.float32), lambda x: x[0, 0, 0].sum(1),
], ids=range(12))
def test_what_torch_refuses_is_refused_in_its_words(f: Callable[..., Any]) -> None:
    refused_alike(f, X)


def test_numbers_that_are_none() -> None:
    x = torch.tensor([[math.nan, 1.0, 2.0], [math.inf, 1.0, -1.0], [-math.inf, -math.inf, -math.inf]])
    for f in (lambda x: x.sum(1), lambda x: x.amax(1), lambda x: x.max(1).values, lambda x: x.max(1).indices, lambda x: x.logsumexp(1),
        lambda x: x.nansum(1),
              lambda x: x.argmin(1), lambda x: x.norm(dim=1), lambda x: x.nanmean(1)):
        same_value(f, x)


@pytest.mark.parametrize("f", [
    lambda x: x.median(1).values, lambda x: x.sort(1).values, lambda x: x.topk(2, 1).values, lambda x: x.cummax(1).values,
    lambda x: x.quantile(0.3), lambda x: x.kthvalue(2, 1).values, lambda x: torch.trapezoid(x, dim=0),
], ids=range(7))
def test_what_has_no_op_has_torchs_gradient(f: Callable[..., Any]) -> None:
    check(f, sample(3, 4), mapped=False)


@pytest.mark.parametrize("f", [lambda x: x.cumsum(1), lambda x: x.cumprod(1), lambda x: x.logcumsumexp(1), lambda x: x.logcumsumexp(0), lambda x: x.cummax(1).values,
                               lambda x: x.cummin(0)[0], lambda x: torch.cumulative_trapezoid(x, dim=1)])
def test_scans_have_tangents(f: Callable[..., Any]) -> None:
    check(f, sample(3, 4), mapped=None)
    x, t = sample(3, 4), torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(3, 4)
    torch.testing.assert_close(tg.jvp(f, (x,), (t,))[1], (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6, rtol=1e-6, atol=1e-7)


def test_a_running_logsumexp_begins_at_nothing() -> None:
    x, t = torch.tensor([-math.inf, 1.0, 2.0], dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(tg.jvp(lambda x: x.logcumsumexp(0), (x,), (t,))[1], torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64))
