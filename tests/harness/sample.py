"""Sample: a function at some arguments, with its tapes and gradients, each made once and shared by all modes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.optimise.pipeline import DEFAULT
from tapegrad.testing import contract
from tapegrad.tree.flatten import leaves_of


class quiet(warnings.catch_warnings):
    """NumPy warns where an imaginary part is dropped (`z.astype(float)`), which some cases do on purpose."""

    def __enter__(self) -> Any:
        log = super().__enter__()
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        return log


def kept(x: Any) -> Any:
    """Return an argument in memory of its own, as it lies there."""
    if isinstance(x, dict):
        return {key: kept(part) for key, part in x.items()}
    if type(x) in (list, tuple):
        return type(x)(map(kept, x))
    return x.copy(order="K") if isinstance(x, np.ndarray) else x.clone() if hasattr(x, "resolve_neg") else x


def is_inexact(x: Any) -> bool:
    """True for a real or complex number or array."""
    return isinstance(x, (float, complex)) or getattr(getattr(x, "dtype", None), "kind", "") in tuple("fc")


def is_narrow(*values: Any) -> bool:
    """True where numbers of single precision are among the values."""
    return any(getattr(leaf, "dtype", None) in (np.float32, np.complex64) for leaf in leaves_of(values))


def direction(x: Any, seed: int, size: float = 1.0) -> Any:
    """Return a fixed tangent for an argument, of numbers up to a size, None for one that is not real or complex."""
    if isinstance(x, dict):
        return dict(zip(x, direction([*x.values()], seed, size)))
    if isinstance(x, (list, tuple)):
        return type(x)(direction(part, seed + 10 * i, size) for i, part in enumerate(x))
    if not is_inexact(x):
        return None
    rng = np.random.default_rng([seed, *np.shape(x)])
    t = rng.uniform(-size, size, np.shape(x))
    t = t + 1j * rng.uniform(-size, size, np.shape(x)) if np.iscomplexobj(x) else t
    return np.array(t, x.dtype) if isinstance(x, np.ndarray) else x.dtype.type(t) if hasattr(x, "dtype") else type(x)(t)


def as_tape_has_it(x: Any, way: Any) -> Any:
    """Return the tangent that a forward tape wants of an argument, an integer's too."""
    if isinstance(x, dict):
        return {key: as_tape_has_it(part, way[key]) for key, part in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(as_tape_has_it, x, way))
    if is_inexact(x):
        return way
    if isinstance(x, np.ndarray):
        return None if x.dtype.kind not in "iu" else np.zeros(x.shape)
    return 0.0 if isinstance(x, (int, np.integer)) and not isinstance(x, bool) else None


def moved(x: Any, tangent: Any, step: float) -> Any:
    """Return an argument moved along a tangent."""
    if isinstance(x, dict):
        return {key: moved(part, tangent[key], step) for key, part in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(moved(part, t, step) for part, t in zip(x, tangent))
    return kept(x) if tangent is None else x + step * tangent


def paired(a: Any, b: Any) -> float:
    """Return the real part of <a, b>, over nested structures."""
    if a is None or b is None:
        return 0.0
    if isinstance(a, dict):
        return sum(paired(part, b[key]) for key, part in a.items())
    if isinstance(a, (list, tuple)):
        return sum(map(paired, a, b))
    return float(np.real(np.conj(a) * b).sum())


def weighted(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of one real number that depends on each number of a value, which captures nothing."""
    def loss(*xs: Any, fn: Any = fn) -> Any:  # by default: what it captured would be differentiated too
        return contract(fn(*xs))
    return loss


class Sample:
    """What is made of a function at some arguments: nothing of it may be changed."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], smooth: bool = True, rounding: float = 0.0) -> None:
        self.fn, self.args, self.smooth = fn, args, smooth
        self.rounding = max(rounding, 1e-14 if any(map(np.iscomplexobj, leaves_of(args))) else 0.0)  # by which a traced value may differ
        self.loss = weighted(fn)

    def fresh(self) -> list[Any]:
        """Return the arguments, in memory of their own."""
        return [kept(x) for x in self.args]

    @functools.cached_property
    def plain(self) -> Any:
        """The value by NumPy alone."""
        return self.fn(*self.fresh())

    @functools.cached_property
    def traced(self) -> tuple[Any, tg.Tape]:
        """The value and the tape."""
        return tg.trace(self.fn, *self.fresh())

    @functools.cached_property
    def is_differentiable(self) -> bool:
        """True where an argument and a part of the value are inexact."""
        return any(map(is_inexact, leaves_of(self.args))) and any(np.asarray(leaf).dtype.kind in "fc" for leaf in leaves_of(self.plain))

    @functools.cached_property
    def gradient(self) -> Any:
        """The value and the gradient of the loss, by `grad`."""
        return tg.grad(self.loss, *self.fresh())

    @functools.cached_property
    def primal(self) -> tg.Tape:
        """The tape of the loss."""
        return tg.trace(self.loss, *self.fresh())[1]

    @functools.cached_property
    def written(self) -> tg.Tape:
        """The tape of triples and pullbacks."""
        return tg.gradtape(self.loss, *self.fresh()).check()

    @functools.cached_property
    def primitive(self) -> tg.Tape:
        """The tape of triples and pullbacks, in primitive calls."""
        return tg.primitivize(self.written).check()

    @functools.cached_property
    def flat(self) -> tg.Tape:
        """The gradient in primitive calls."""
        return tg.flatgrad(self.primal).check()

    @functools.cached_property
    def forward(self) -> tg.Tape:
        """The tape of the value and its tangent."""
        return tg.forwardtape(self.fn, *self.fresh()).check()

    @functools.cached_property
    def best(self) -> tg.Tape:
        """The flat tape, or the value's where it has no gradient, optimised and checked after every pass."""
        return optimised(self.flat if self.is_differentiable else self.traced[1])


def draws(sample: Sample) -> bool:
    """True for a program that draws random numbers, which a tape's replay draws anew."""
    return any(op.kind == "call" and op.fn is tg.ops.draw for op in sample.traced[1])


def optimised(tape: tg.Tape) -> tg.Tape:
    """Optimise, and check the tape after every pass."""
    return tg.optimise(tape, passes=[lambda tape, run=run: run(tape).check() for run in DEFAULT]).check()


def differentiable(case: Any, args: tuple[Any, ...]) -> bool:
    """True for a sample of a case that has a gradient."""
    return Sample(case.fn, args).is_differentiable
