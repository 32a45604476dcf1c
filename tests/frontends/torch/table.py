"""What the tables of torch's functions share: one function on many arguments, by tapegrad and by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tapegrad as tg
from tapegrad.frontends.torch.torchop import TorchOp
from tapegrad.tape.tape import Call, Tape
from tests.frontends.torch.agree import agree

Arguments = tuple[torch.Tensor, ...]


def names(tape: Tape) -> list[str]:
    """Return the names of the calls of a tape."""
    return [op.fn.__name__ for op in tape.ops if isinstance(op, Call)]


def is_mapped(tape: Tape) -> bool:
    """True if no call is one of torch's own recorded whole."""
    return not any(isinstance(op.fn, TorchOp) for op in tape.ops if isinstance(op, Call))


def leaves(y: Any) -> list[Any]:
    return [y] if isinstance(y, torch.Tensor) else list(y)


def total(y: Any) -> Any:
    """Return a real number that each floating number of a result has a weight of its own in."""
    sums = []
    for part in leaves(y):
        if part.is_floating_point() or part.is_complex():
            weights = torch.linspace(0.5, 1.5, part.numel(), dtype=torch.float64).reshape(part.shape).to(part.dtype)
            sums.append((part * weights).sum())
    whole = sum(sums[1:], sums[0])
    return whole.real + 2 * whole.imag if whole.is_complex() else whole


def same_value(f: Callable[..., Any], *args: Any) -> Tape:
    """Check that a traced function returns what torch does, with dtype, shape and type, and return the tape."""
    wanted = f(*args)
    found, tape = tg.trace(f, *args)
    assert type(found) is type(wanted)
    for got, known in zip(leaves(found), leaves(wanted), strict=True):
        torch.testing.assert_close(got, known, equal_nan=True)
    return tape


def check(f: Callable[..., Any], *args: Any, op: str = "", mapped: bool | None = True) -> None:
    """Check a function's value, its gradients, and that the tape holds the op of this name, and nothing of torch's own unless it may."""
    tape = same_value(f, *args)
    assert not op or op in names(tape), f"{op} is not among {names(tape)}"
    assert mapped is None or is_mapped(tape) is mapped, names(tape)
    if any(y.is_floating_point() or y.is_complex() for y in leaves(f(*args))):
        agree(lambda *xs: total(f(*xs)), *args)


def sample(*shape: int, dtype: torch.dtype = torch.float64, low: float = -2.0, high: float = 2.0, seed: int = 0) -> torch.Tensor:
    """Return numbers in an interval, the parts of complex ones each; whole numbers for integers."""
    chance = torch.Generator().manual_seed(seed)

    def draw() -> torch.Tensor:
        return torch.rand(shape, generator=chance, dtype=torch.float64) * (high - low) + low
    if dtype is torch.bool:
        return draw() > (low + high) / 2
    return torch.complex(draw(), draw()).to(dtype) if dtype.is_complex else draw().to(dtype)


def one(dtype: torch.dtype = torch.float64, **within: float) -> dict[str, Arguments]:
    """Return arguments of a function of one tensor: shapes, layouts and dtypes."""
    return {
        "matrix": (sample(3, 4, dtype=dtype, **within),), "0-d": (sample(dtype=dtype, **within),), "empty": (sample(0, 3, dtype=dtype, **within),),
        "transposed": (sample(4, 3, dtype=dtype, **within).T,), "strided": (sample(6, 4, dtype=dtype, **within)[::2, 1:],),
        "float32": (sample(3, 4, dtype=torch.complex64 if dtype.is_complex else torch.float32, **within),),
    }


def two(dtype: torch.dtype = torch.float64, **within: float) -> dict[str, Arguments]:
    """Return arguments of a function of two tensors: what broadcasts, and dtypes that torch promotes otherwise than NumPy."""
    narrow = torch.complex64 if dtype.is_complex else torch.float32
    x, y = sample(3, 4, dtype=dtype, **within), sample(3, 4, dtype=dtype, seed=1, **within)
    return {
        "matrices": (x, y), "rows": (x, y[0]), "columns": (x[:, :1], y[:1]), "0-d": (x[0, 0], y[0, 0]), "empty": (x[:0], y[:1]),
        "transposed": (x.T, sample(4, 3, dtype=dtype, seed=2, **within)), "float32": (x.to(narrow), y.to(narrow)),
        "two precisions": (x.to(narrow), y), "a 0-d tensor gives way": (x.to(narrow), y[0, 0]), "and from the left": (x[0, 0], y.to(narrow)),
        "integers": (x, torch.tensor([1, 2, 3, 1])),
    }
