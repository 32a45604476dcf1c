"""torch's elementwise functions mean the ops that NumPy's mean, with torch's promotion and torch's gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.frontends.torch.elementwise import spellings
from tapegrad.frontends.torch.registry import found
from tapegrad.rules.registry import DISPATCH
from tests.cases.over import over
from tests.frontends.torch.agree import agree, refused_alike
from tests.frontends.torch.table import check, is_mapped, names, one, same_value, sample, total, two

BOTH, REAL = ("real", "complex"), ("real",)
POSITIVE, UNIT = {"low": 0.1, "high": 2.0}, {"low": -0.9, "high": 0.9}

# torch's name, the op's, the numbers it takes, the interval they are of
UNARY: list[tuple[str, str, tuple[str, ...], dict[str, float]]] = [
    ("neg", "negative", BOTH, {}), ("abs", "abs", BOTH, {}), ("reciprocal", "reciprocal", BOTH, {}), ("square", "square", BOTH, {}),
    ("sqrt", "sqrt", BOTH, POSITIVE), ("rsqrt", "sqrt", BOTH, POSITIVE), ("exp", "exp", BOTH, {}), ("exp2", "exp2", BOTH, {}),
    ("expm1", "expm1", BOTH, {}), ("log", "log", BOTH, POSITIVE), ("log2", "log2", BOTH, POSITIVE), ("log10", "log10", BOTH, POSITIVE),
    ("log1p", "log1p", BOTH, POSITIVE), ("sin", "sin", BOTH, {}), ("cos", "cos", BOTH, {}), ("tan", "tan", BOTH, UNIT),
    ("asin", "asin", BOTH, UNIT), ("acos", "acos", BOTH, UNIT), ("atan", "atan", BOTH, UNIT), ("sinh", "sinh", BOTH, {}), ("cosh", "cosh", BOTH, {}),
    ("tanh", "tanh", BOTH, {}), ("asinh", "asinh", BOTH, {}), ("acosh", "acosh", BOTH, {"low": 1.1, "high": 3.0}), ("atanh", "atanh", BOTH, UNIT),
    ("sigmoid", "expit", REAL, {}), ("sinc", "sinc", REAL, {}), ("deg2rad", "deg2rad", REAL, {}), ("rad2deg", "rad2deg", REAL, {}),
    ("lgamma", "gammaln", REAL, POSITIVE), ("digamma", "digamma", REAL, POSITIVE), ("erf", "erf", REAL, {}), ("erfc", "erfc", REAL, {}),
    ("erfinv", "erfinv", REAL, UNIT), ("special.erfcx", "erfcx", REAL, {}), ("special.ndtr", "ndtr", REAL, {}),
    ("special.ndtri", "ndtri", REAL, {"low": 0.1, "high": 0.9}), ("special.log_ndtr", "log_ndtr", REAL, {}), ("special.entr", "entr", REAL, POSITIVE),
    ("special.expit", "expit", REAL, {}), ("special.psi", "digamma", REAL, POSITIVE), ("i0", "i0", REAL, {}), ("special.i1", "i1", REAL, {}),
    ("special.i0e", "i0e", REAL, {}), ("special.i1e", "i1e", REAL, {}), ("logit", "logit", REAL, {"low": 0.1, "high": 0.9}),
    ("frac", "trunc", REAL, {}), ("nan_to_num", "nan_to_num", REAL, {}), ("sgn", "sign", BOTH, {}), ("angle", "angle", ("complex",), {}),
    ("conj_physical", "conjugate", ("complex",), {}),
]
CONSTANT = ["sign", "floor", "ceil", "trunc", "round", "signbit", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "logical_not"]

BINARY: list[tuple[str, str, tuple[str, ...], dict[str, float]]] = [
    ("add", "add", BOTH, {}), ("sub", "subtract", BOTH, {}), ("mul", "multiply", BOTH, {}), ("div", "divide", BOTH, {"low": 0.5, "high": 2.0}),
    ("true_divide", "divide", BOTH, {"low": 0.5, "high": 2.0}), ("remainder", "remainder", REAL, {"low": 0.5, "high": 2.5}),
    ("fmod", "fmod", REAL, {"low": 0.5, "high": 2.5}), ("pow", "pow", BOTH, POSITIVE), ("float_power", "pow", BOTH, POSITIVE),
    ("rsub", "subtract", BOTH, {}), ("atan2", "atan2", REAL, {}), ("hypot", "hypot", REAL, {}), ("logaddexp", "logaddexp", REAL, {}),
    ("logaddexp2", "logaddexp2", REAL, {}), ("xlogy", "xlogy", REAL, POSITIVE), ("special.xlog1py", "xlog1py", REAL, POSITIVE),
    ("maximum", "maximum", REAL, {}), ("minimum", "minimum", REAL, {}), ("fmax", "where", REAL, {}), ("fmin", "where", REAL, {}),
    ("copysign", "copysign", REAL, {}), ("ldexp", "pow", REAL, {}), ("max", "maximum", REAL, {}), ("min", "minimum", REAL, {}),
]
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
               "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor", "floor_divide": "floor_divide"}


def function(name: str) -> Callable[..., Any]:
    (fn,) = found(name)
    return fn  # type: ignore[no-any-return]


def same_or_refused(f: Callable[..., Any], *args: Any) -> None:
    """Check that a traced function returns what torch does, or raises what torch raises."""
    try:
        f(*args)
    except Exception as err:
        with pytest.raises(type(err)):
            tg.trace(f, *args)
    else:
        same_value(f, *args)


def kinds(table: Any) -> list[Any]:
    return [pytest.param(name, op, kind, within, id=f"{name}-{kind}") for name, op, taken, within in table for kind in taken]


@pytest.mark.parametrize(("name", "op", "kind", "within"), kinds(UNARY))
def test_a_function_of_one_tensor(name: str, op: str, kind: str, within: dict[str, float]) -> None:
    for args in one(torch.complex128 if kind == "complex" else torch.float64, **within).values():
        check(function(name), *args, op=op)


@pytest.mark.parametrize("name", CONSTANT)
def test_a_function_that_has_no_derivative(name: str) -> None:
    for args in one().values():
        check(function(name), *args)


@pytest.mark.parametrize(("name", "op", "kind", "within"), kinds(BINARY))
def test_a_function_of_two_tensors(name: str, op: str, kind: str, within: dict[str, float]) -> None:
    for variant, args in two(torch.complex128 if kind == "complex" else torch.float64, **within).items():
        if variant != "integers" or name not in ("max", "min"):
            check(function(name), *args, op=op)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison(name: str) -> None:
    for args in two(low=0.5).values():
        assert COMPARISONS[name] in names(same_value(function(name), *args))


@pytest.mark.parametrize("name", [name for name, *_ in UNARY] + CONSTANT)
def test_integers_become_numbers_of_the_default_dtype_where_torch_says_so(name: str) -> None:
    for x in (torch.tensor([1, 2, 3]), torch.tensor([1, 2], dtype=torch.uint8), torch.tensor(2)):
        same_or_refused(function(name), x)


WEAK = itertools.product(
    ["add", "mul", "div", "pow", "remainder", "eq", "lt", "atan2", "floor_divide", "fmod", "bitwise_and", "gcd"],
    [2, 2.5, True, 1j, np.float64(2.5), np.float32(1.5), np.int64(3)],
    [torch.int32, torch.uint8, torch.float32, torch.bfloat16, torch.complex64, torch.bool])


@over([pytest.param(name, other, dtype, id=f"{name} {other!r} {dtype}") for name, other, dtype in WEAK])
def test_numbers_are_weak(name: str, other: Any, dtype: torch.dtype) -> None:
    x = torch.tensor([1, 2, 3]).to(dtype)

    def f(x: Any) -> Any:
        return function(name)(x, other)
    same_or_refused(f, x)


X, Y = sample(3, 4), sample(3, 4, seed=1)
OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "x + 2": (lambda x: x + 2, "add"), "2 + x": (lambda x: 2 + x, "add"), "x - 2": (lambda x: x - 2, "subtract"),
    "2 - x": (lambda x: 2 - x, "subtract"), "x * 2": (lambda x: x * 2, "multiply"), "2 * x": (lambda x: 2 * x, "multiply"),
    "x / 2": (lambda x: x / 2, "divide"), "2 / x": (lambda x: 2 / x, "divide"), "x // 2": (lambda x: (x // 2).detach(), "floor_divide"),
    "2 // x": (lambda x: (2 // x).detach(), "floor_divide"), "x % 2": (lambda x: x % 2, "remainder"),
    "2 % x": (lambda x: (2 % x).detach(), "remainder"),
    "x ** 3": (lambda x: x ** 3, "pow"), "2 ** x": (lambda x: 2 ** x, "pow"), "-x": (lambda x: -x, "negative"), "abs(x)": (abs, "abs"),
    "x == 1": (lambda x: x == 1, "equal"), "1 < x": (lambda x: 1 < x, "greater"), "x >= 1": (lambda x: x >= 1, "greater_equal"),  # noqa: SIM300
    "~(x > 0)": (lambda x: ~(x > 0), "bitwise_invert"), "(x > 0) & (x < 1)": (lambda x: (x > 0) & (x < 1), "bitwise_and"),
    "(x > 0) | (x < 1)": (lambda x: (x > 0) | (x < 1), "bitwise_or"), "(x > 0) ^ (x < 1)": (lambda x: (x > 0) ^ (x < 1), "bitwise_xor"),
    "x.long() << 1": (lambda x: x.long() << 1, "bitwise_left_shift"), "x.long() >> 1": (lambda x: x.long() >> 1, "bitwise_right_shift"),
    "+x": (lambda x: +x * 2, "multiply"), "x += 1": (lambda x: x.clone().add_(1).mul_(x), "multiply"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator(name: str) -> None:
    f, op = OPERATORS[name]
    check(f, X, op=op)


CALLS: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...]]] = {
    "add with alpha": (lambda x, y: torch.add(x, y, alpha=2.5), "multiply", (X, Y)),
    "sub with alpha": (lambda x, y: x.sub(y, alpha=3), "multiply", (X, Y)),
    "rsub with alpha": (lambda x, y: torch.rsub(x, y, alpha=3), "multiply", (X, Y)),
    "div, floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), "floor_divide", (X, Y)),
    "div, trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), "trunc", (X, Y)),
    "addcmul": (lambda x, y: torch.addcmul(x, y, x, value=0.5), "multiply", (X, Y)),
    "addcdiv": (lambda x, y: torch.addcdiv(x, y, x, value=0.5), "divide", (X, Y)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), "multiply", (X, Y)),
    "lerp by a tensor": (lambda x, y, w: torch.lerp(x, y, w), "multiply", (X, Y, sample(3, 4, seed=2))),
    "clamp": (lambda x: torch.clamp(x, -1, 1), "clamp", (X,)),
    "clamp, min alone": (lambda x: x.clamp(min=0), "clamp", (X,)),
    "clamp by tensors": (lambda x, y: torch.clamp(x, y, y + 0.5), "where", (X, Y)),
    "clip": (lambda x: x.clip(max=0.5), "clamp", (X,)),
    "clamp_min": (lambda x: torch.clamp_min(x, 0.1), "clamp", (X,)),
    "clamp by numbers of the trace": (lambda x, a: x.clamp(a, 2 * a), "where", (X, 0.3)),
    "clamp of integers by floats": (lambda x: x.clamp(0.5, 2.5), "clamp", (torch.arange(4),)),
    "where": (lambda x, y: torch.where(x > 0, x, y), "where", (X, Y)),
    "where and a number": (lambda x: torch.where(x > 0, x, 0.0), "where", (X,)),
    "where, two precisions": (lambda x, y: torch.where(x > 0, x, y), "where", (X.float(), Y)),
    "x.where": (lambda x, y: x.where(y > 0, y), "where", (X, Y)),
    "where of a condition": (lambda x: x[torch.where(x > 0)], "nonzero", (X,)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -math.inf), "where", (X,)),
    "masked_fill by a 0-d tensor": (lambda x, y: x.masked_fill(x > 0, y[0, 0]), "where", (X, Y)),
    "nan_to_num": (lambda x: torch.nan_to_num(x * math.inf, nan=1.0, posinf=2.0), "nan_to_num", (X,)),
    "round to decimals": (lambda x: torch.round(x, decimals=2), "round", (X,)),
    "polygamma": (lambda x: torch.polygamma(1, x), "polygamma", (sample(3, 4, low=0.5, high=3.0),)),
    "logit with eps": (lambda x: torch.logit(x, eps=0.2), "logit", (sample(3, 4, low=0.1, high=0.9),)),
    "heaviside": (lambda x, y: torch.heaviside(x, y).detach(), "heaviside", (torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5, 0.5, 0.5]))),
    "zeta": (lambda x: torch.special.zeta(torch.tensor([2.5, 3.5]), x), "zeta", (torch.tensor([1.5, 2.5]),)),
    "gammainc": (lambda x: torch.special.gammainc(torch.tensor([2.5, 3.5]), x), "gammainc", (torch.tensor([1.5, 2.5]),)),
    "x.real": (lambda x: x.real * 2, "real", (sample(3, dtype=torch.complex128),)),
    "x.imag": (lambda x: x.imag * 2, "imag", (sample(3, dtype=torch.complex128),)),
    "x.conj()": (lambda x: x.conj() * 2, "conjugate", (sample(3, dtype=torch.complex128),)),
    "x.float()": (lambda x: x.float() * 2, "astype", (X,)), "x.half()": (lambda x: x.half(), "astype", (X,)),
    "x.bfloat16()": (lambda x: x.bfloat16().double() * 2, "astype", (X,)), "x.long()": (lambda x: x.long(), "astype", (X,)),
    "x.to(dtype)": (lambda x: x.to(torch.float32), "astype", (X,)), "x.to(device, dtype)": (lambda x: x.to("cpu", torch.float32), "astype", (X,)),
    "x.to(other)": (lambda x, y: x.to(y), "astype", (X, Y.float())), "x.type_as(other)": (lambda x, y: x.type_as(y), "astype", (X, Y.float())),
    "x.type(dtype)": (lambda x: x.type(torch.float32), "astype", (X,)), "x.cfloat()": (lambda x: x.cfloat() * 1j, "astype", (X,)),
    "x.to(dtype, copy=True)": (lambda x: x.to(torch.float64, copy=True), "copy", (X,)), "clone": (torch.clone, "copy", (X,)),
    "contiguous": (lambda x: x.T.contiguous(), "copy", (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name: str) -> None:
    f, op, args = CALLS[name]
    check(f, *args, op=op)


def test_what_changes_nothing_is_the_tensor_itself() -> None:
    def f(x: Any) -> Any:
        return x.to(torch.float64).double().contiguous().type_as(x).real.conj().to("cpu").type(torch.float64)
    assert names(tg.trace(f, X)[1]) == []


def test_every_method_means_what_its_function_means() -> None:
    for name, *_ in UNARY + BINARY:
        for spelled in spellings(name):
            for fn in found(spelled):
                assert fn in DISPATCH, spelled


def test_a_cast_holds_for_the_dtypes_that_made_it_needed() -> None:
    x, y = X.float(), Y
    _, tape = tg.trace(lambda x, y: x * y, x, y)
    with pytest.raises(tg.TapeError, match="dtype"):
        tape.play(x, y.float())
    _, tape = tg.trace(lambda x, y: x * y, x, x)  # nothing was cast: any precision will do
    torch.testing.assert_close(tape.play(y, y), y * y)
    _, tape = tg.trace(lambda x: x.float(), x)
    with pytest.raises(tg.TapeError, match="dtype"):
        tape.play(y)


def test_a_tape_of_torch_code_replays_on_arrays() -> None:
    def f(x: Any, y: Any) -> Any:
        return torch.where(x > 0, torch.exp(x) * y, x.clamp(-1, 1)).sum(dim=1, keepdim=True).abs().sqrt().mean() + (x @ y.T).std() - x.amax(1).sum()
    value, tape = tg.trace(f, X, Y)
    assert is_mapped(tape)
    np.testing.assert_allclose(tape.play(X.numpy(), Y.numpy()), value.numpy(), equal_nan=True)


# -- kinks, and what is no number

TIES = torch.tensor([-1.0, 0.0, 0.0, 1.0, 1.0, 2.0])
OTHER = torch.tensor([0.0, 0.0, 1.0, 1.0, 3.0, 2.0])
KINKS: dict[str, Callable[..., Any]] = {
    "abs": torch.abs, "clamp": lambda x: x.clamp(0, 1), "maximum": lambda x: torch.maximum(x, OTHER), "minimum": lambda x: torch.minimum(x, OTHER),
    "fmax": lambda x: torch.fmax(x, OTHER), "max of both": lambda x: torch.max(OTHER, x), "pow 0": lambda x: x ** 0,
    "pow 0.0 by a tensor": lambda x: x ** torch.tensor([0.0, 0.0, 1.0, 2.0, 0.0, 3.0]), "0 ** x": lambda x: 0.0 ** x.abs(), "sgn": torch.sgn,
    "sqrt": lambda x: x.abs().sqrt(), "copysign": lambda x: torch.copysign(x, -OTHER), "xlogy": lambda x: torch.xlogy(x, OTHER + 1),
    "sinc": torch.sinc, "atan2": lambda x: torch.atan2(x, OTHER - 1),
    "i1": torch.special.i1, "i1e": torch.special.i1e,
    "clamp between equal bounds": lambda x: x.clamp(1, 1), "clamp between crossed bounds": lambda x: x.clamp(1, 0),
    "complex abs": lambda x: torch.abs(x * (1 + 1j)), "angle": lambda x: torch.angle(x * (1 + 1j)), "frac": torch.frac,
}


@pytest.mark.parametrize("name", KINKS)
def test_a_kink_has_torchs_gradient(name: str) -> None:
    check(KINKS[name], TIES)


ODD = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0])


@pytest.mark.parametrize("name", [name for name, _, taken, _ in UNARY if "real" in taken] + CONSTANT)
def test_values_of_what_is_no_number(name: str) -> None:
    same_value(function(name), ODD)


@pytest.mark.parametrize("name", [name for name, *_ in BINARY] + [name for name in COMPARISONS])
def test_values_of_pairs_with_what_is_no_number(name: str) -> None:
    same_value(function(name), ODD[:, None].expand(6, 6).contiguous(), ODD.expand(6, 6).contiguous())


def test_clamp_by_nan_gives_nan() -> None:
    same_value(lambda x: x.clamp(min=math.nan), TIES)
    same_value(lambda x: x.clamp(torch.full((6,), math.nan)), TIES)


# -- what stays torch's own, and what torch refuses


@pytest.mark.parametrize("f", [
    lambda x: x.long() // 0, lambda x: torch.lt(x.cfloat(), 1), lambda x: -(x > 0), lambda x: torch.add(x.long(), 1, alpha=0.5),
    lambda x: x.masked_fill(x.long(), 0.5), lambda x: torch.clamp(x), lambda x: x.long() ** -1, lambda x: torch.sin(2.0),  # type: ignore[arg-type]
    lambda x: x + "1", lambda x: torch.lerp(x, x.double(), 0.5), lambda x: torch.imag(x),
], ids=range(11))
def test_what_torch_refuses_is_refused_in_its_words(f: Callable[..., Any]) -> None:
    refused_alike(f, TIES)


@pytest.mark.parametrize("f", [
    torch.frexp, lambda x: torch.sigmoid(x * 1j).real, lambda x: torch.complex(x, x).abs(), lambda x: torch.angle(x * 1.0),
], ids=range(4))
def test_a_function_without_an_op_has_torchs_gradient_all_the_same(f: Callable[..., Any]) -> None:
    agree(lambda x: total(f(x)), X.abs() + 0.1)


def test_a_number_of_the_trace_is_weak_too() -> None:
    value, tape = tg.trace(lambda x, a, b: x * a + np.sin(b) * x, TIES, 2.5, np.float64(0.5))
    assert value.dtype is torch.float32 and is_mapped(tape)
    agree(lambda x, a: (x * a).sum(), TIES, 2.5)
    _, (_, dx, da) = tg.grad(lambda x, a: (x.float() * a).sum(), TIES, 2.5)
    assert dx.dtype is torch.float32 and isinstance(da, float) and da == pytest.approx(float(TIES.sum()))


def test_conj_is_a_view_in_torch_and_may_not_be_written_through() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        z = y.conj()
        y[0] = 1.0
        return z.real.sum()
    with pytest.raises(tg.MutationError, match="share memory in a way that cannot be recorded"):
        tg.grad(f, sample(3, dtype=torch.complex128))
