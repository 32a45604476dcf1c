"""What type an op says that it returns, held against what it returns."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad import ops
from tapegrad.optimise.shapes import ELEMENTWISE
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.result_spec import array_spec
from tapegrad.tape.spec import spec_of

X = np.arange(1.0, 7.0).reshape(2, 3)
NUMBERS = [X, X.astype(np.float32), X.astype(complex), X.astype(np.int8), X > 2, X[:1], X[:, :1], X[0], X.reshape(1, 2, 3), np.ones((0, 3)), 2, 2.0, True,
           1j, np.float32(2), np.int64(2), np.ones(())]


@pytest.mark.parametrize("fn", [fn for fn in OPS.values() if fn.spec is not None and fn.is_ufunc and fn.impl.nin < 3] + [
    ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.equal, ops.less, ops.greater_equal, ops.remainder, ops.bitwise_and], ids=repr)
def test_of_every_dtype(fn: Op) -> None:
    unary = fn in (ops.negative,) or (fn.is_ufunc and fn.impl.nin == 1)
    told = 0
    for args in [(x,) for x in NUMBERS] if unary else [(x, y) for x in NUMBERS for y in NUMBERS]:
        made = fn.spec(*map(spec_of, args))  # type: ignore[misc]
        if made is not None:
            try:
                with np.errstate(all="ignore"):
                    assert made == spec_of(fn.run(*args)), (args, made)
            except (TypeError, ValueError, OverflowError):  # NumPy refuses a bool's negative; int8 has no 2000
                continue
            told += 1
    assert told


@pytest.mark.parametrize("fn", [ops.sum, ops.prod, ops.mean, ops.max, ops.min])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1,)])
def test_a_reduction(fn: Op, axis: object) -> None:
    for x in (np.ones((2, 3, 4)), np.ones((2, 1, 4), np.float32), np.ones((3, 2, 2), complex)):
        for keepdims in (False, True):
            assert fn.spec(spec_of(x), axis=axis, keepdims=keepdims) == spec_of(fn.run(x, axis=axis, keepdims=keepdims))  # type: ignore[misc]


def test_a_new_array() -> None:
    for shape in [(), (3,), (2, 3), (1, 4), (2, 4, 3)]:
        assert array_spec(np.dtype(float), shape) == spec_of(np.empty(shape))
    assert ops.matmul.spec(spec_of(X), spec_of(X.T)) is None and ops.matmul.spec(spec_of(X), spec_of(X.T.copy())) == spec_of(X @ X.T)


def test_which_elementwise_ops_say_nothing() -> None:
    assert {fn.__name__ for fn in ELEMENTWISE if fn.spec is None} == {"pow", "where"}
