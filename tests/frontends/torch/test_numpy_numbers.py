"""NumPy's numbers and arrays beside tensors: value and dtype are what plain torch makes of them, in each mode."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

OTHERS = {
    "float": 0.3, "int": 3, "bool": True, "complex": 1 + 2j, "float64": np.float64(0.3), "float32": np.float32(0.3), "int64": np.int64(3),
    "int32": np.int32(3), "bool_": np.bool_(True), "complex128": np.complex128(1 + 2j), "0-d": np.array(0.3), "0-d float32": np.array(0.3, np.float32),
    "0-d int": np.array(3), "1-d": np.array([0.3, 0.4]), "1-d float32": np.array([0.3, 0.4], np.float32), "1-d int": np.array([3, 4]),
}
TENSORS = {
    "float32": torch.tensor([1.5, 2.5]), "float64": torch.tensor([1.5, 2.5], dtype=torch.float64), "int64": torch.tensor([5, 7]),
    "bool": torch.tensor([True, False]), "complex64": torch.tensor([1 + 1j, 2 - 1j]), "0-d float32": torch.tensor(1.5), "0-d int64": torch.tensor(5),
}


def in_place(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: fn(a.clone() if torch.is_tensor(a) else a, b)


def stored(a: Any, b: Any) -> Any:
    y = a.clone()
    y[...] = b
    return y


# the operators as programs write them: NumPy does not ask torch what `operator.mul` asks it
BOTH: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "**": lambda a, b: a ** b, "@": lambda a, b: a @ b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
    "operator.mul": lambda a, b: operator.mul(a, b), "sum": lambda a, b: sum([a, b]), "np.add": lambda a, b: np.add(a, b),
    "np.multiply": lambda a, b: np.multiply(a, b), "torch.mul": lambda a, b: torch.mul(a, b), "torch.pow": lambda a, b: torch.pow(a, b),
}
FIRST: dict[str, Callable[[Any, Any], Any]] = {
    "+=": in_place(operator.iadd), "*=": in_place(operator.imul), "/=": in_place(operator.itruediv), "[...] =": stored,
    "alpha": lambda a, b: torch.sub(a, a, alpha=b), "masked_fill": lambda a, b: a.masked_fill(a == a, b), "lerp": lambda a, b: torch.lerp(a, a * 2, b),
    "clamp": torch.clamp, "rsub": torch.rsub, "new_tensor": lambda a, b: a.new_tensor(b) * a,
}
# 1 / False, which is infinite in torch
UNALIKE = {("bool", "complex", "/"), ("bool", "complex128", "/")}


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except Exception:
        return None


@pytest.mark.parametrize("name", [*BOTH, *FIRST])
def test_what_a_trace_makes_of_a_number_beside_a_tensor_is_what_torch_makes(name: str) -> None:
    fn = {**BOTH, **FIRST}[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, t in TENSORS.items():
            for label, x in OTHERS.items():
                for f in [lambda t, x=x: fn(t, x), *([lambda t, x=x: fn(x, t)] if name in BOTH else [])]:
                    want = outcome(f, t)
                    if want is None or (kind, label, name) in UNALIKE:
                        continue
                    got = tg.trace(f, t)[0]
                    if want.dtype is torch.uint8:
                        want = want.bool()  # what torch makes of NumPy's bools
                    assert torch.is_tensor(got) and got.dtype == want.dtype, (kind, label)
                    assert torch.allclose(got, want, equal_nan=True) if want.dtype is not torch.bool else got.equal(want), (kind, label)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "s * t": lambda s, t: (s * t * t).sum(), "t + s": lambda s, t: ((t + s) * t).sum(), "s / t": lambda s, t: (s / t).sum(), "s ** t": lambda s, t: (s ** t).sum(),
    "t ** s": lambda s, t: (t ** s).sum(), "a root": lambda s, t: np.sqrt(s) * t @ t, "s < t": lambda s, t: torch.where(s < t, t, t * t).sum() * s,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("s", [np.float64(1.3), np.int64(2), 1.3], ids=lambda s: type(s).__name__)
def test_numbers_beside_tensors_in_each_mode(name: str, s: Any) -> None:
    f = PROGRAMS[name]
    given = torch.tensor([1.5, 2.5], requires_grad=True)
    want = f(s, given)
    slope, = torch.autograd.grad(want, given)
    t, want = given.detach(), want.detach()

    def captured(t: Any) -> Any:
        return f(s, t)
    step = tg.value_and_grad(captured, backend="torch", argnums=0, warmup=1)
    found = {"grad": (lambda v, g: (v, g[2]))(*tg.grad(f, s, t)), "captured": (lambda v, g: (v, g[1]))(*tg.grad(captured, t)),
             "play": (lambda v, g: (v, g[2]))(*tg.gradtape(f, s, t).play(s, t)), **{f"call {k}": step(t) for k in range(4)},
             "jvp": (lambda v, d: (v, d * 0 + slope))(*tg.jvp(captured, (t,), (torch.ones(2),))), "vmap": (tg.vmap(captured)(t[None])[0], slope)}
    for mode, (value, dt) in found.items():
        assert value.dtype == want.dtype and dt.dtype == slope.dtype, mode
        assert torch.allclose(value, want) and torch.allclose(dt, slope), mode


HELD = {"0-d": np.array(0.1), "0-d float32": np.array(0.1, np.float32), "0-d int": np.array(3), "1-d": np.array([0.3, 0.4]),
        "1-d float32": np.array([0.3, 0.4], np.float32), "1-d int": np.array([3, 4])}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["+", "-", "*", "/", "//", "%", "**", "@", "<", ">=", "operator.mul", "np.add", "+=", "*=", "/="])
def test_an_array_that_a_trace_knows_beside_a_tensor(name: str) -> None:
    fn = {**BOTH, **FIRST}[name]
    for kind, t in TENSORS.items():
        for label, x in HELD.items():
            for f in [lambda t, x: fn(t, x), lambda t, x: fn(x, t)][:2 if name in BOTH else 1]:
                try:
                    want = f(t, x)
                except TypeError:
                    want = None
                except Exception:
                    continue
                inside, captured = lambda t, f=f, x=x: f(t, np.array(x)), lambda t, f=f, x=x: f(t, x)
                # of an array without axes on the left of a comparison NumPy asks as it asks of a number
                known = [] if name in ("<", ">=") and not x.ndim else [(captured, (t,))]
                for run, args in [(f, (t, x)), (inside, (t,)), *known]:
                    if want is None:
                        if name == "@" and x.ndim:  # of NumPy's programs, which are computed for tensors too
                            continue
                        with pytest.raises((TypeError, tg.TapeError)):
                            tg.trace(run, *args)
                        continue
                    got = tg.trace(run, *args)[0]
                    assert torch.is_tensor(got) and got.dtype == want.dtype and torch.allclose(got, want, equal_nan=True), (kind, label)


@pytest.mark.filterwarnings("ignore")
def test_an_array_beside_a_tensor_compiled() -> None:
    z = np.array(0.1)
    step = tg.value_and_grad(lambda t, z: (t * np.array(0.1) * z + np.array([1.0, 2.0])).sum(), backend="torch", argnums=0, warmup=1)
    for scale in (1, 1, 1, 2, 3):
        t = torch.tensor([1.5, 2.5]) * scale
        value, dt = step(t, z)
        want = (t * np.array(0.1) * z + np.array([1.0, 2.0])).sum()
        assert value.dtype == want.dtype == torch.float64 and torch.allclose(value, want)
        assert dt.dtype == torch.float32 and torch.allclose(dt, torch.full((2,), 0.01))


@pytest.mark.parametrize("index", [1.0, np.float64(1.0), np.float32(1.0), 1j, (0, 1.0)], ids=repr)
def test_a_number_that_is_no_integer_is_no_index_of_a_tensor(index: Any) -> None:
    def read(t: Any) -> Any:
        return t[index]

    def written(t: Any) -> Any:
        y = t.clone()
        y[index] = 0.0
        return y
    for f in (read, written):
        for run in (f, lambda t, f=f: tg.trace(f, t)[0]):
            with pytest.raises(IndexError, match="only integers, slices"):
                run(torch.ones(2, 2))


@pytest.mark.parametrize("f", [torch.linspace, torch.logspace])
def test_a_complex_bound_is_refused_in_words(f: Any) -> None:
    with pytest.raises(tg.TapeError, match="space asked for a plain number"):
        if f is torch.linspace:
            tg.trace(lambda z: torch.linspace(0, z.sum().item(), 3), torch.tensor([1 + 1j, 2.0]))
        tg.trace(lambda z: torch.logspace(0, z, 3), 1j)


TAKES_NONE: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda t, a: torch.mul(t, a), "pow": lambda t, a: torch.pow(a, t), "method": lambda t, a: t.add(a), "in place": lambda t, a: t.clone().mul_(a),
    "fill_": lambda t, a: t.clone().fill_(a), "clamp": lambda t, a: torch.clamp(t, max=a), "lerp": lambda t, a: torch.lerp(t, t, a),
    "new_full": lambda t, a: t.new_full((2,), a), "masked_fill": lambda t, a: t.masked_fill(t > 1, a), "alpha": lambda t, a: torch.sub(t, t, alpha=a),
    "bfloat16": lambda t, a: t.to(torch.bfloat16) + a, "masked write": lambda t, a: (t := t.clone()).__setitem__(t > 1, a),
}


@pytest.mark.parametrize("a", [np.array(0.5), np.array([0.5, 1.5])], ids=["0-d", "1-d"])
@pytest.mark.parametrize("name", TAKES_NONE)
def test_what_takes_no_array_raises_as_torch_does(name: str, a: Any) -> None:
    f, t = TAKES_NONE[name], torch.tensor([1.5, 2.5])
    for run in (lambda: f(t, a), lambda: tg.trace(f, t, a), lambda: tg.trace(lambda t: f(t, np.array(a)), t)):
        with pytest.raises(TypeError):
            run()


@pytest.mark.filterwarnings("ignore")
def test_what_is_assigned_by_an_operator_is_another_tensor() -> None:
    def f(t: Any, a: Any) -> Any:
        y = z = t.clone()
        y *= a
        return y, z
    t, a = torch.tensor([1.5, 2.5]), np.array([0.5, 1.5])
    for found in (tg.trace(f, t, a)[0], *map(tg.compile(f, backend="torch", warmup=1), (t,) * 3, (a,) * 3)):
        for got, want in zip(found, f(t, a)):
            assert got.dtype == want.dtype and got.equal(want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("x", [np.float64(1.5), np.float32(1.5), np.int32(2), 1.5, 2, np.array([1.5, 2.0]), np.array([1.5, 2.0], np.float32)], ids=repr)
@pytest.mark.parametrize("f", [lambda x: torch.tensor([x, x]), lambda x: torch.tensor([x * 2, x], dtype=torch.float64), lambda x: torch.as_tensor([[x, x]]),
                               lambda x: torch.tensor([x, np.float64(2)]), lambda x: torch.tensor([x, 1.5])])
def test_a_tensor_of_numpys_numbers_has_their_dtype(f: Any, x: Any) -> None:
    want = outcome(f, x)
    if want is not None:
        got = tg.trace(f, x)[0]
        assert got.dtype == want.dtype and got.equal(want)
