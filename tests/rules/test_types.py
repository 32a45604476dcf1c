"""What type an op says that comes out: of every dtype, of indices and of tensors. Of each op's cases it is a mode of the harness."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tapegrad import ops
from tapegrad.rules.facts import FRESH
from tapegrad.rules.op import OPS, UNTYPED, Op
from tapegrad.rules.registry import define
from tapegrad.rules.types import Unknown, is_by_value, spec_of_call
from tapegrad.rules.types.layout import view_strides
from tapegrad.tape.spec import NOTHING, Spec, spec_of
from tests.harness.compare import same_spec
from tests.harness.facts import check_type

BY_VALUE = {"pow", "eig", "sqrtm", "logm"}  # a negative base, a rotation: other numbers give another type
X = np.arange(1.0, 7.0).reshape(2, 3)
NUMBERS = [X, X.astype(np.float32), X.astype(complex), X.astype(np.int8), X > 2, X[:1], X[:, :1], X[0], X.reshape(1, 2, 3), X.T.copy().T, np.ones((0, 3)), 2, 2.0, True,
           1j, np.float32(2), np.int64(2), np.ones(()), np.float16(1), np.ones(2, np.uint8)]


@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")  # of bool, on Python 3.12 and later
@pytest.mark.parametrize("fn", [fn for fn in OPS.values() if fn.is_ufunc or fn.pythonic], ids=repr)
def test_of_every_dtype(fn: Op) -> None:
    unary = fn.impl.nin == 1 if fn.is_ufunc else fn in (ops.negative, ops.positive, ops.abs, ops.bitwise_invert)
    told = 0
    for args in [(x,) for x in NUMBERS] if unary else [(x, y) for x in NUMBERS for y in NUMBERS]:
        with suppress(TypeError, ValueError, OverflowError, ZeroDivisionError), np.errstate(all="ignore"):  # NumPy refuses a bool's negative
            real = spec_of(fn.run(*args))
            found = spec_of_call(fn, list(map(spec_of, args)))
            told += found is not NOTHING
            assert same_spec(found, real) or (found is NOTHING and (fn is ops.pow or any(isinstance(x, (int, np.integer)) for x in args))), (args, found, real)
    assert told


def test_an_op_without_a_family_is_none() -> None:
    assert not [name for name, op in OPS.items() if op.spec is UNTYPED]
    with pytest.raises(TypeError, match=r"'untyped' does not declare the type.*opaque\(why\)"):
        define("untyped", lambda x: x, memory=FRESH)
    assert Op("user's", lambda x: x).spec is UNTYPED


def test_an_op_whose_type_depends_on_values_says_so() -> None:
    assert {name for name, op in OPS.items() if op.dynamic} == {"nonzero", "getitem_masked", "unique", "bincount"}
    assert {name for name, op in OPS.items() if is_by_value(op.spec)} == BY_VALUE
    with pytest.raises(Unknown, match="values decide"):
        ops.nonzero.spec(spec_of(X))
    assert spec_of_call(ops.pow, (Spec(float), Spec(float))) is NOTHING and spec_of_call(ops.pow, (Spec(float), 2)) == Spec(float)


def test_a_wrong_family_is_found() -> None:
    for family in (lambda x: spec_of(1.0), lambda x: spec_of(X.astype(np.float32)), lambda x: spec_of(X[0]), lambda x: spec_of(X.T.copy().T)):
        with pytest.raises(AssertionError, match="wrong of recorded arguments"):
            check_type(Op("wrong", lambda x: x + 1, spec=family), (X,), {}, [False])
    with pytest.raises(AssertionError, match="does not say"):
        check_type(Op("silent", lambda x: x + 1, spec=lambda x: [][0]), (X,), {}, [False])


def test_a_call_that_would_be_refused_has_no_type() -> None:
    assert spec_of_call(ops.matmul, (spec_of(X), spec_of(X))) is NOTHING and spec_of_call(ops.add, (spec_of(X), spec_of(X.T))) is NOTHING


@pytest.mark.parametrize("x", [X, X.T, X[:, ::2], np.ones((2, 3, 4)).transpose(1, 0, 2), np.ones((4, 6))[::2], np.ones((2, 1, 3)).T], ids=lambda x: str(x.strides))
def test_a_reshape_is_a_view_where_numpys_is(x: Any) -> None:
    for shape in [(x.size,), (1, x.size), (x.shape[0], -1), (-1, x.shape[-1]), (2, -1), (-1, 2), (1, *x.shape, 1), x.shape[::-1]]:
        if x.size % abs(np.prod(shape)) == 0:
            y = x.reshape(shape)
            found = spec_of_call(ops.reshape, (spec_of(x), shape))
            assert same_spec(found, spec_of(y)) and (view_strides(spec_of(x), y.shape) is not None) == np.shares_memory(x, y)


def test_of_tensors_torch_says_it() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 4).T
    for op, args, kwargs in [(ops.add, (x, 1), {}), (ops.matmul, (x, x.T.double()), {}), (ops.sum, (x,), {"axis": 0}), (ops.permute_dims, (x,), {}),
                             (ops.getitem, (x, slice(1, 3), None), {}), (ops.divide, (x.long(), x), {}), (ops.eigh, (torch.eye(3),), {})]:
        known = [not torch.is_tensor(arg) for arg in args]
        assert spec_of_call(op, [arg if fixed else spec_of(arg) for arg, fixed in zip(args, known)], kwargs) == spec_of(op.run(*args, **kwargs))
    assert spec_of_call(ops.nonzero, (spec_of(x),)) is NOTHING


PARTS: list[Any] = [0, -1, slice(None), slice(1, None, 2), slice(None, None, -1), slice(5, 2), None, Ellipsis, np.int64(1), np.array([0, 1]), np.array([[0], [1]]), np.array([True, False, True])]


def test_an_index_of_any_parts() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        x = [X.reshape(3, 1, 2), np.ones((3, 3, 3), np.float32).transpose(2, 0, 1), np.ones((3, 4)), np.ones((2, 0, 3)), np.ones(3)][rng.integers(5)]
        index = tuple(PARTS[i] for i in rng.integers(len(PARTS), size=rng.integers(1, 6)))
        with suppress(IndexError, DeprecationWarning):  # the latter of NumPy 2.2, where there are no numbers
            real = spec_of(x[index])
            assert same_spec(spec_of_call(ops.getitem, (spec_of(x), *index)), real), (x.shape, index)
