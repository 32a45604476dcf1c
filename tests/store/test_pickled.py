"""A tape is pickled as it is saved, and copied with operations of its own."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.errors import TapeFormatError
from tapegrad.tape.tape import Constant

RNG = np.random.default_rng(0)
X = np.array([1.0, 2.0, 3.0])


@tg.primitive
def cube(x: Any) -> Any:
    return x ** 3


@tg.rrule(cube)
def _(x: Any) -> Any:
    return cube(x), lambda dy: (3 * x ** 2 * dy,)


@dataclasses.dataclass
class Point:
    w: Any
    b: float


def of_a_primitive(x: Any) -> Any:
    return cube(x).sum()


def of_an_object(p: Point) -> Any:
    return (p.w * p.b).sum()


def drawing(x: Any) -> Any:
    return (RNG.normal(size=3) * x).sum()


def looping(x: Any) -> Any:
    for _ in range(60):
        x = np.sin(x) + x
    return x.sum()


def on_torch(x: Any) -> Any:
    return torch.nn.functional.layer_norm(x, (3,)).square().sum()


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "numbers": (lambda x: x * np.sin(x), 2.0), "a primitive": (of_a_primitive, X), "an object": (of_an_object, Point(X, 2.0)), "draws": (drawing, X),
    "a loop": (looping, X), "torch": (on_torch, torch.tensor([[1.0, 2.0, 4.0]])), "a partial": (functools.partial(np.power, 2.0), 3.0),
}
MAKERS = [lambda f, x: tg.trace(f, x)[1], tg.gradtape, lambda f, x: tg.roll(tg.trace(f, x)[1]), lambda f, x: tg.optimise(tg.gradtape(f, x))]


def same(a: Any, b: Any) -> None:
    assert str(a) == str(b)


@pytest.mark.parametrize("again", [lambda tape: pickle.loads(pickle.dumps(tape)), copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"])
@pytest.mark.parametrize("make", MAKERS, ids=["trace", "gradtape", "roll", "optimise"])
@pytest.mark.parametrize("name", CASES)
def test_another_tape_that_does_the_same(name: str, make: Any, again: Any) -> None:
    f, x = CASES[name]
    tape = make(f, x)
    other = again(tape)
    assert other is not tape and all(a is not b for a, b in zip(other.ops, tape.ops, strict=True))
    same(other.play(x, redraw=False), tape.play(x, redraw=False))
    if make is MAKERS[0]:
        same(tg.flatgrad(other).play(x, redraw=False), tg.flatgrad(tape).play(x, redraw=False))
        before = len(tape.ops)
        other.push(Constant(1.0))
        assert len(tape.ops) == before


def test_a_deep_copy_has_arrays_and_generators_of_its_own() -> None:
    weights = np.ones(3)
    tape = tg.trace(lambda x: (x * weights).sum() + RNG.normal(), X)[1]
    held = [op.val for op in tape.ops if isinstance(getattr(op, "val", None), (np.ndarray, np.random.Generator)) and op.kind in ("input", "constant")]
    own = [op.val for op in copy.deepcopy(tape).ops if isinstance(getattr(op, "val", None), (np.ndarray, np.random.Generator)) and op.kind in ("input", "constant")]
    assert held and len(own) == len(held)
    assert not any(a is b for a in held for b in own)
    assert copy.deepcopy(tape).play(X) == copy.deepcopy(tape).play(X)


def _played(given: tuple[Any, ...]) -> Any:
    return given[0].play(given[1])


def test_another_process_gets_it() -> None:
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(_played, [(tg.gradtape(of_a_primitive, X), X)])[0][0] == 36.0


def test_what_has_no_name_is_refused() -> None:
    @tg.primitive
    def square(x: Any) -> Any:
        return x ** 2
    with pytest.raises(TapeFormatError, match=r"(?s)cannot be imported by a name.*tape.save\(path\)"):
        pickle.dumps(tg.trace(lambda x: square(x) * 2, 2.0)[1])
    with pytest.raises(TapeFormatError, match=r"because tape.save cannot save it"):
        pickle.dumps(tg.trace(lambda x: torch.randn(3) * x, torch.ones(3))[1])
