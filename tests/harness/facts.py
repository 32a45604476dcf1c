"""facts: what an op says of its result, its type and its memory, against what it returns of arguments of each kind."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.rules.facts import ANY
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.types import is_by_value, spec_of_call
from tapegrad.tape.spec import NOTHING, spec_of
from tapegrad.tape.tape import Call, Constant, Operation, Tape, operands, value_of
from tapegrad.transforms.walk import own
from tapegrad.tree.flatten import leaves_of
from tests.harness.compare import same_spec
from tests.harness.sample import Sample

DRAWS = {"draw", "default_rng"}
HANGS = {"pro_rad1", "pro_ang1", "obl_rad1", "obl_ang1"}  # SciPy's loops may have no end for numbers that are no parameters


def is_real(x: Any) -> bool:
    return isinstance(x, (float, np.floating)) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def cast(dtype: Any) -> Callable[[Any], Any]:
    def to(x: Any) -> Any:
        return x.astype(dtype) if isinstance(x, (np.ndarray, np.generic)) and is_real(x) and np.isfinite(x).all() else x
    return to


KINDS: dict[str, Callable[[Any], Any]] = {
    "recorded": lambda x: x,
    "0-d": lambda x: np.array(x) if is_real(x) and not np.ndim(x) else x,
    "Python": lambda x: float(x) if is_real(x) and not np.ndim(x) else x,
    "NumPy": lambda x: np.float32(x) if type(x) is float else x,
    "float32": cast(np.float32), "int64": cast(np.int64), "int8": cast(np.int8),
    "complex": lambda x: x * (1 + 0j) if is_real(x) else x,
    "strided": lambda x: np.repeat(x, 2, 0)[::2] if isinstance(x, np.ndarray) and x.ndim else x,
    "Fortran": lambda x: np.asfortranarray(x) if isinstance(x, np.ndarray) else x,
    "turned": lambda x: np.stack([x] * 3).swapaxes(0, -1) if is_real(x) and np.ndim(x) else x,
    "empty": lambda x: x[:0] if isinstance(x, np.ndarray) and x.ndim else x,
}


def check_type(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], known: list[bool]) -> int:
    """Check the type of a call of arguments of each kind, but those that are `known`; return how many were told."""
    told = 0
    for kind, of_kind in KINDS.items():
        xs = tuple([x if fixed and not is_real(x) else of_kind(x) for x, fixed in zip(args, known)])
        if kind != "recorded" and all(a is b for a, b in zip(args, xs)):
            continue
        try:
            real = spec_of(op.run(*xs, **kwargs))
        except Exception:  # it takes none of this kind
            continue
        found = spec_of_call(op, [x if fixed else spec_of(x) for x, fixed in zip(xs, known)], kwargs)
        if found is not NOTHING:
            told += 1
            assert same_spec(found, real), f"{op.__name__} of {kind} arguments {list(map(spec_of, xs))} {kwargs} is {real} {real.strides} {real.parts}, not {found} {found.strides} {found.parts}"
        elif kind == "recorded":
            assert hasattr(op.spec, "why") or is_by_value(op.spec), f"{op.__name__} does not say what comes of {list(map(spec_of, xs))} {kwargs}"
    return told


TYPED: set[Any] = set()


def types(sample: Sample) -> None:
    """Each call of a tape, and of the gradient's, has the type that its op says, for each kind of argument."""
    for op in (op for tape in tapes_of(sample) for op in tape.ops):
        if type(op) is not Call or OPS.get(getattr(op.fn, "__name__", "")) is not op.fn or op.fn.__name__ in DRAWS | HANGS:
            continue
        values = tuple(map(value_of, op.args))
        known = [not isinstance(x, Operation) or type(x) is Constant for x in op.args]
        key = op.fn.__name__, repr(op.kwargs), *[(spec_of(x), getattr(x, "strides", None)) if not fixed else repr(x) for x, fixed in zip(values, known)]
        if key not in TYPED:
            TYPED.add(key)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check_type(op.fn, values, op.kwargs, known)


def tapes_of(sample: Sample) -> Iterator[Tape]:
    """Yield the tape of a sample, and that of its gradient."""
    yield sample.traced[1]
    if sample.is_differentiable:
        yield sample.flat


# -- memory


def strided(x: Any) -> Any:
    """Return an array as a view of every second row of another."""
    return np.repeat(np.atleast_1d(x), 2, 0)[::2].reshape(np.shape(x)) if isinstance(x, np.ndarray) else x


MEMORY_KINDS: dict[str, Callable[[Any], Any]] = {
    "recorded": lambda x: x,
    "0-d": lambda x: np.array(x) if is_real(x) else x,
    "batch": lambda x: np.stack([np.asarray(x)] * 3) if is_real(x) else x,
    "strided": strided,
    "complex": lambda x: x * (1 + 0j) if is_real(x) else x,
}


def arrays(x: Any) -> list[Any]:
    return [leaf for leaf in leaves_of(x) if isinstance(leaf, np.ndarray) and leaf.size]


def check_memory(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check an op's aliasing with arguments of each kind that it takes."""
    for kind, of_kind in MEMORY_KINDS.items():
        given = [x.copy(order="K") if isinstance(x, np.ndarray) and kind != "strided" else x for x in map(of_kind, args)]
        try:
            made, again = arrays(op.impl(*given, **kwargs)), arrays(op.impl(*given, **kwargs))
        except Exception:  # it takes none of this kind
            continue
        for i, arg in enumerate(given):
            shared = [y for y in made if any(np.shares_memory(y, x) for x in arrays(arg))]
            assert not shared or op.aliases in (i, ANY), f"{op.__name__} of {kind} arguments returns memory of argument {i}"
            assert all(y.flags.writeable != op.memory.readonly for y in shared) or op.aliases == ANY, f"{op.__name__}: readonly is {op.memory.readonly}"
        if op.aliases is None:
            apart = [*itertools.combinations(made, 2), *itertools.product(made, again)]
            assert not any(np.shares_memory(a, b) for a, b in apart), f"{op.__name__} of {kind} arguments returns the same memory twice"


def transformed(sample: Sample) -> Iterator[Tape]:
    """Yield the tapes of a sample's tangent, its batch, and the batch of its gradient."""
    args = sample.args
    batch = [np.stack([np.asarray(x)] * 2) if is_real(x) else x for x in args]
    axes = tuple([0 if is_real(x) else None for x in args])
    for make in (lambda: tg.trace(lambda *xs: tg.jvp(sample.fn, xs, xs), *args)[1], lambda: tg.trace(tg.vmap(sample.fn, in_axes=axes), *batch)[1],
                 lambda: tg.trace(tg.vmap(lambda *xs: tg.gradient(sample.loss, *xs), in_axes=axes), *batch)[1]):
        with suppress(Exception):  # no gradient, or no batch
            yield make()


CHECKED: set[Any] = set()


def memory(sample: Sample) -> None:
    """What an op says that it aliases is what it does: each call of a tape and of what is made of it, for each kind of argument."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in (op for tape in itertools.chain(tapes_of(sample), transformed(sample)) for op in tape.ops):
            if type(op) is not Call or type(op.fn) is not Op or not own(op.fn) or op.fn.__name__ in DRAWS:
                continue
            args = tuple(map(value_of, op.args))
            # what reads by a mask is getitem_masked: its shape depends on values
            assert op.fn.__name__ != "getitem" or not any(getattr(part.val, "dtype", None) == np.bool_ for part in operands(op)[1:] if type(part) is not Constant), op
            key = op.fn.__name__, repr(op.kwargs), *[(type(x), np.shape(x), x.dtype) if hasattr(x, "dtype") else type(x) for x in args]
            if key not in CHECKED:
                CHECKED.add(key)
                check_memory(op.fn, args, op.kwargs)
