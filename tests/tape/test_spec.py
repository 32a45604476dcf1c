"""Spec, the type of a value apart from the value, and Absent, what stands where there is none."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.numbers.cotangents import layout_of, order_of
from tapegrad.numbers.formatting import type_name
from tapegrad.tape.spec import NOTHING, UNKNOWN, Spec, absent, parsed, same_type, spec_of
from tapegrad.tape.tape import Input, drop, has_value

ARRAYS = [
    np.ones((3, 4)), np.ones((3, 4)).T, np.ones((6, 8))[::2, ::-1], np.broadcast_to(1.0, (3, 4)), np.ones((2, 3, 4), np.float32).transpose(1, 2, 0),
    np.ones((0, 3)), np.ones(()), np.ones(5, complex), np.ones((1, 4))[:, ::2], np.ones((4, 1, 3))[::-1], np.ones((2, 2), object).T]


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.mark.parametrize("x", ARRAYS)
def test_a_spec_says_how_an_array_lies(x: np.ndarray[Any, Any]) -> None:
    y = spec_of(x)
    assert (y.type, y.dtype, y.shape, y.strides, y.ndim, y.size, y.nbytes) == (np.ndarray, x.dtype, x.shape, x.strides, x.ndim, x.size, x.nbytes)
    assert (y.is_contiguous, y.layout, y.order) == (x.flags.c_contiguous, layout_of(x), order_of(x))
    assert y is spec_of(x.view()) and y.is_array and y.has_axes == (x.ndim > 0) and y.system == "numpy"


@pytest.mark.parametrize("x", ARRAYS)
def test_a_sample_lies_as_the_array(x: np.ndarray[Any, Any]) -> None:
    y = spec_of(x).sample()
    assert (y.shape, y.dtype, y.flags.writeable) == (x.shape, x.dtype, False) and not y.any()
    assert y.strides == x.strides or x.dtype == object
    assert (y.flags.c_contiguous, y.flags.f_contiguous) == (x.flags.c_contiguous, x.flags.f_contiguous)


@pytest.mark.parametrize("x, text, system", [
    (2.0, "float", "python"), (True, "bool", "python"), (np.float64(2), "float64", "numpy"), (np.ones((3, 4)), "float64[3,4]", "numpy"),
    (np.ones(()), "float64[]", "numpy"), (None, "NoneType", "other"), ((1, np.ones(2)), "tuple", "other"), (np.float64, "type", "other"),
    (np.ma.ones((1, 1)), "float64[1,1]", "numpy"), (UNKNOWN, "", "other"), (absent(spec_of(np.ones(3))), "float64[3]", "numpy")])
def test_a_spec_is_written_as_a_type(x: Any, text: str, system: str) -> None:
    assert (str(spec_of(x)), spec_of(x).system, Input(x).type) == (text, system, text)
    assert type_name(x) == text


def test_a_tensor_has_a_spec() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 4)
    y = spec_of(x)
    assert (str(y), y.system, y.shape, y.layout, y.is_complex) == ("torch.float32[3,4]", "torch", (3, 4), "tensor", False)
    assert spec_of(x.T).layout == layout_of(x.T) and y != spec_of(torch.ones(4, 3).T) and spec_of(x.to(torch.complex64)).is_complex


def test_specs_are_equal_where_all_is() -> None:
    assert spec_of(np.ones((2, 3))) == spec_of(np.zeros((2, 3))) != spec_of(np.zeros((3, 2)).T)
    assert len({spec_of(1), spec_of(1.0), spec_of(True), spec_of(np.float64(1)), spec_of(np.ones(()))}) == 5
    assert same_type(spec_of(np.ones((2, 3))), spec_of(np.ones((3, 2)).T)) and not same_type(NOTHING, NOTHING)
    assert not spec_of(1.0).has_dtype(np.float64) and spec_of(np.float64(1)).has_dtype(np.float64)  # NumPy's dtype equals None
    assert spec_of((1, [2.0])).parts == (Spec(int), spec_of([0.0])) and spec_of(Pair(1, 2.0)).parts == (Spec(int), Spec(float))
    with pytest.raises(AttributeError):
        spec_of(1.0).shape = (2,)  # type: ignore[misc]


@pytest.mark.parametrize("x", [*ARRAYS[:1], 2.0, np.float32(2), None])
def test_a_name_is_read_as_a_spec(x: Any) -> None:
    assert same_type(parsed(str(spec_of(x))), spec_of(x))


def test_an_absent_value_answers_for_its_type_and_for_nothing_else() -> None:
    op = Input(np.ones((3, 4)))
    drop(op)
    assert not has_value(op) and op.type == "float64[3,4]" and op.val is absent(spec_of(np.zeros((3, 4))))
    assert (op.val.shape, op.val.dtype, op.val.ndim, len(op.val)) == ((3, 4), np.float64, 2, 3)
    for read in (bool, iter, np.sum, np.asarray, lambda x: x[0], lambda x: x == 1, lambda x: 2.0 * x, lambda x: np.ones((3, 4)) + x):
        with pytest.raises(TypeError):
            read(op.val)
    with pytest.raises(AttributeError, match="T"):
        _ = op.val.T
    assert not hasattr(UNKNOWN, "shape") and not hasattr(absent(Spec(float)), "dtype")


def test_what_is_absent_is_one_thing_in_copies_too() -> None:
    for x in (UNKNOWN, absent(Spec(float))):
        assert copy.deepcopy(x) is x and pickle.loads(pickle.dumps(x)) is x


def test_a_trace_makes_no_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("tapegrad.tape.spec._array", lambda key: asked.append(key))
    tg.trace(lambda x: np.sum(np.sin(x) * x), np.ones((3, 7)))
    assert not asked
