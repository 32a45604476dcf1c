"""What an op says of its result's memory against what it does: every op, for each kind of argument."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules.facts import ANY, FRESH, ResultMemory
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define
from tapegrad.tape.tape import Call, Constant, Tape, operands, value_of
from tapegrad.testing import contract
from tapegrad.transforms.walk import own
from tapegrad.tree.flatten import leaves_of
from tests.cases import samples
from tests.cases.case import Case
from tests.cases.over import over

DRAWS = {"draw", "default_rng"}  # of a generator that the call moves on


def is_real(x: Any) -> bool:
    return isinstance(x, (float, np.floating)) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def strided(x: Any) -> Any:
    """Return an array as a view of every second row of another."""
    return np.repeat(np.atleast_1d(x), 2, 0)[::2].reshape(np.shape(x)) if isinstance(x, np.ndarray) else x


KINDS: dict[str, Callable[[Any], Any]] = {
    "recorded": lambda x: x,
    "0-d": lambda x: np.array(x) if is_real(x) else x,
    "batch": lambda x: np.stack([np.asarray(x)] * 3) if is_real(x) else x,
    "strided": strided,
    "complex": lambda x: x * (1 + 0j) if is_real(x) else x,
}


def arrays(x: Any) -> list[Any]:
    return [leaf for leaf in leaves_of(x) if isinstance(leaf, np.ndarray) and leaf.size]


def check(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check an op's aliasing with arguments of each kind that it takes."""
    for kind, of_kind in KINDS.items():
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


def tapes(case: Case, args: tuple[Any, ...]) -> Iterator[Tape]:
    """Yield the tapes of a case, of its gradient, its tangent and its batch."""
    def loss(*xs: Any) -> Any:
        return contract(case.fn(*xs))
    batch = [np.stack([np.asarray(x)] * 2) if is_real(x) else x for x in args]
    axes = tuple([0 if is_real(x) else None for x in args])
    for make in (lambda: tg.trace(case.fn, *args)[1], lambda: tg.flatgrad(tg.trace(loss, *args)[1]),
                 lambda: tg.trace(lambda *xs: tg.jvp(case.fn, xs, xs), *args)[1],
                 lambda: tg.trace(tg.vmap(case.fn, in_axes=axes), *batch)[1],
                 lambda: tg.trace(tg.vmap(lambda *xs: tg.gradient(loss, *xs), in_axes=axes), *batch)[1]):
        with suppress(Exception):  # no gradient, or no batch
            yield make()


SEEN: set[Any] = set()


def check_tape(tape: Tape) -> None:
    """Check the calls of a tape, each once for the types of its arguments."""
    for op in tape.ops:
        if type(op) is not Call or type(op.fn) is not Op or not own(op.fn) or op.fn.__name__ in DRAWS:
            continue
        args = tuple(map(value_of, op.args))
        # what reads by a mask is getitem_masked: its shape depends on values
        assert op.fn.__name__ != "getitem" or not any(getattr(part.val, "dtype", None) == np.bool_ for part in operands(op)[1:] if type(part) is not Constant), op
        key = op.fn.__name__, repr(op.kwargs), *[(type(x), np.shape(x), x.dtype) if hasattr(x, "dtype") else type(x) for x in args]
        if key not in SEEN:
            SEEN.add(key)
            check(op.fn, args, op.kwargs)


@pytest.mark.filterwarnings("ignore")
@over(samples(1, 3))
def test_what_an_op_aliases_is_what_it_says(case: Case, chosen: list[Any]) -> None:
    for args in chosen:
        for tape in tapes(case, args):
            check_tape(tape)


@pytest.mark.quick
def test_a_wrong_fact_is_found() -> None:
    memory = np.zeros(3)
    for impl, fact, error in [(lambda x, y: np.asarray(x)[()], None, "argument 0"), (lambda x, y: x[::2], 1, "argument 0"), (lambda x, y: (y, x), 1, "argument 0"),
                              (lambda x, y: memory, None, "twice"), (lambda x, y: np.broadcast_to(x, (2, 3)), 0, "readonly"),
                              (lambda x, y: ((z := x + y), z[1:]), None, "twice")]:
        with pytest.raises(AssertionError, match=error):
            check(Op("wrong", impl, memory=ResultMemory(fact)), (np.ones(3), np.ones(3)), {})
    with pytest.raises(AssertionError, match="of batch arguments"):
        check(Op("scalar", lambda x: np.asarray(x)[()], memory=FRESH), (2.0,), {})


@pytest.mark.quick
def test_an_op_that_does_not_say_is_none() -> None:
    with pytest.raises(TypeError, match="does not declare the memory"):
        define("silent", lambda x: x)
    assert Op("user's", lambda x: x).aliases == ANY
