"""What NumPy gives instead of a copy: an argument itself, or a view of it. A write to the one is seen in the other, or refused, as NumPy has it."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

ALIASES = """
np.asarray(x) | np.asanyarray(x) | np.array(x) | np.array(x, copy=None) | np.array(x, copy=False) | np.array(x, copy=None, ndmin=3) | np.array(x, ndmin=3)
np.ascontiguousarray(x) | np.asfortranarray(x) | np.array(x, order='F', copy=None) | np.asarray(x, order='A') | np.asarray(x, float) | np.asarray(x, np.float32)
np.copy(x) | x.copy() | copy.copy(x) | copy.deepcopy(x) | x.view() | x.view(np.ndarray) | x.astype(x.dtype) | x.astype(float, copy=False)
x.astype(x.dtype, order='F', copy=False) | np.astype(x, float, copy=False) | np.require(x) | np.require(x, requirements='C') | np.require(x, float, 'F')
np.require(x, requirements=['A', 'ENSUREARRAY']) | np.require(x, requirements=['W']) | np.require(x, requirements='O') | D['asarray'](x) | D['strided'](x)
x.real | x.imag | np.real(x) | np.imag(x) | np.real_if_close(x) | np.conj(x) | x.conj() | x.conjugate() | np.positive(x) | +x | np.angle(x)
np.atleast_1d(x) | np.atleast_2d(x) | np.atleast_3d(x) | np.squeeze(x) | x.squeeze() | np.expand_dims(x, 0) | np.expand_dims(x, ()) | x[None] | x[..., None]
x.ravel() | np.ravel(x, 'F') | x.flatten() | x.reshape(-1) | x.reshape(x.shape) | np.reshape(x, -1, 'F') | np.reshape(x, -1, copy=True) | x.flat[:] | x.flat[...]
x.flat.copy() | x.flat.base | x[...] | x[()] | x[:] | x[::-1] | x[0] | x[0:1] | x[0, ...] | x[..., 0] | x[[0]] | x[x == x] | x[True]
np.broadcast_to(x, x.shape) | np.broadcast_to(x, (2,) + x.shape) | np.broadcast_arrays(x)[0] | np.broadcast_arrays(x, np.ones((2,) + x.shape))[0]
np.flip(x) | np.flip(x, ()) | np.flipud(x) | np.fliplr(x) | np.roll(x, 0) | np.rot90(x, 0) | np.rot90(x, 1) | np.rot90(x, 2) | np.rot90(x, 4)
np.transpose(x) | x.T | x.mT | np.matrix_transpose(x) | np.moveaxis(x, 0, 0) | np.moveaxis(x, 0, -1) | np.swapaxes(x, 0, 0) | x.swapaxes(0, -1) | np.rollaxis(x, 0)
np.diagonal(x) | x.diagonal(1) | np.linalg.diagonal(x) | np.diag(x) | np.split(x, 1)[0] | np.array_split(x, 2)[0] | np.vsplit(x, 1)[0] | np.hsplit(x, 1)[0]
np.unstack(x)[0] | np.einsum('...->...', x) | np.einsum('i->i', x) | np.einsum('ij->ji', x) | np.einsum('ii->i', x) | np.einsum(x, [0, 1], [1, 0])
np.einsum('ij->ij', x, dtype=x.dtype) | np.einsum('ij->ji', x, optimize=True) | np.einsum('ij->ij', x, dtype=complex) | np.einsum('i,->i', x, 1.0)
np.nan_to_num(x) | np.nan_to_num(x, copy=False) | np.trim_zeros(x) | np.unwrap(x) | np.clip(x, None, None) | np.sum(x, axis=()) | np.max(x, axis=()) | x.sum(axis=())
np.diff(x, 0) | np.pad(x, 0) | np.tile(x, 1) | np.repeat(x, 1) | np.resize(x, x.shape) | np.concatenate([x]) | np.stack([x])[0] | np.block([x]) | np.append(x, [])
np.delete(x, []) | np.insert(x, [], []) | np.meshgrid(x.ravel(), copy=False)[0] | np.meshgrid(x, x, copy=False, sparse=True)[0] | np.ix_(x.ravel())[0]
np.apply_along_axis(lambda r: r, 0, x) | np.apply_over_axes(np.sum, x, []) | np.where(True, x, 0.0) | np.linalg.matrix_power(x, 1) | np.fft.fftshift(x, ())
np.lib.stride_tricks.sliding_window_view(x, 1, 0) | np.lib.stride_tricks.sliding_window_view(x, 1, 0).ravel() | np.triu(x, -9) | np.sort(x) | np.round(x) | round(x)
"""
ROWS = [row.strip() for line in ALIASES.strip().splitlines() for row in line.split(" | ")]
# names that nothing replaces, while a trace runs
D = {"asarray": lambda x: sys.modules["numpy"].__dict__["asarray"](x), "strided": np.lib.stride_tricks.as_strided}

ARRAYS: dict[str, Callable[[], Any]] = {
    "vector": lambda: np.array([1.0, -2.0, 3.0]), "zeros": lambda: np.array([0.0, -2.0, 0.0]), "matrix": lambda: np.array([[1.0, -2.0, 3.0], [4.0, 0.5, 6.0]]),
    "square": lambda: np.arange(9.0).reshape(3, 3), "fortran": lambda: np.asfortranarray([[1.0, -2.0, 3.0], [4.0, 0.5, 6.0]]), "strided": lambda: np.arange(6.0)[::2],
    "no axes": lambda: np.array(1.5), "scalar": lambda: np.float64(1.5), "one": lambda: np.array([[2.0]]), "complex": lambda: np.array([1 + 2j, 3.0, 4j]),
    "integers": lambda: np.array([1, 2, 3]), "stretched": lambda: np.broadcast_to(np.array([1.0, 2.0]), (2, 2)), "none": lambda: np.zeros((0, 0))}


def argument(x: Any, k: Any) -> Any:
    return x


def computed(x: Any, k: Any) -> Any:
    return x * k


def constant(x: Any, k: Any) -> Any:
    return np.zeros(np.shape(x), x.dtype) + 1


def written(x: Any, k: Any) -> Any:
    y = np.ones(np.shape(x), x.dtype)
    y += x
    return y


def programs(alias: Callable[[Any], Any]) -> list[Callable[[Any, Any], Any]]:
    """Return functions that write to an array, and read what was made of it, and the other way round."""
    def forth(x: Any, k: Any, of: Any) -> Any:
        y = of(x, k)
        v = alias(y)
        y[...] = 7.0 * k
        return v * k, y * 1

    def back(x: Any, k: Any, of: Any) -> Any:
        y = of(x, k)
        v = alias(y)
        v[...] = 7.0 * k
        return v * k, y * 1
    return [lambda x, k, run=run, of=of: run(x, k, of) for run, of in itertools.product((forth, back), (argument, computed, constant, written))]


def run(f: Callable[..., Any], *args: Any) -> Any:
    """Return what a function gives, or the exception's class."""
    try:
        return f(*args)
    except Exception as err:
        return err


def same(a: Any, b: Any) -> bool:
    return all(np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS)
def test_a_write_is_seen_as_numpy_has_it(row: str) -> None:
    alias = eval(f"lambda x: {row}", {"np": np, "copy": copy, "D": D})
    compiled_for, turn = ("vector", "", "square", "", "complex", ""), ROWS.index(row)
    for name, make in ARRAYS.items():
        for number, f in enumerate(programs(alias)):
            expected = run(f, make(), 2.0)
            found = [run(lambda x, k, f=f: tg.trace(f, x, k)[0], make(), 2.0)]
            if name == compiled_for[(turn + number) % 6]:  # a compiled tape has the aliases that the trace has, of whatever array
                compiled = tg.compile(f)
                found += [run(compiled, make(), 2.0) for _ in range(3)]
            for y in found:
                if isinstance(expected, Exception):
                    assert isinstance(y, Exception), (name, number, expected, y)
                elif isinstance(y, Exception):  # which a plain array raises that was handed out: it can only be read
                    assert isinstance(y, tg.TapeError) or ("D[" in row and "read-only" in str(y)), (name, number, y)
                else:
                    assert same(y, expected), (name, number, y, expected)


def test_no_copy_is_told_from_the_layout_at_each_call() -> None:
    def f(x: Any) -> Any:
        return np.asarray(x, order="C", copy=False).sum()
    compiled, x = tg.compile(f), np.arange(6.0).reshape(2, 3)
    for _ in range(3):
        assert compiled(x) == 15.0
    for _ in range(3):
        with pytest.raises(ValueError, match="avoid copy"):
            compiled(np.asfortranarray(x))


def test_what_is_held_as_a_plain_copy_keeps_an_array_from_being_written_to() -> None:
    def stale(x: Any) -> Any:
        y = np.zeros(3)
        held = D["asarray"](y)
        y[0] = x
        return held.sum() * x

    def let_go(x: Any) -> Any:
        y = np.ones(3)
        total = D["asarray"](y).sum()
        y[0] = x
        return y.sum() * total
    with pytest.raises(tg.MutationError, match="still in use"):
        tg.grad(stale, 2.0)
    assert tg.grad(let_go, 2.0)[1][1] == 3.0


@pytest.mark.parametrize("given", [SimpleNamespace(w=1.3), [1.3], {"w": 1.3}])
def test_two_arguments_that_are_one_object_are_not_copied_apart(given: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        (first,), second = copy.deepcopy([[a], b])
        return (first.w if hasattr(first, "w") else first["w"] if "w" in first else first[0]) * (2.0 if first is second else 3.0)
    with pytest.raises(tg.MutationError, match="Python makes one copy"):
        tg.grad(f, given, given)
    assert tg.grad(f, given, copy.copy(given))[0] == 1.3 * 3.0


def test_two_arguments_that_are_one_array_are_not_copied_apart() -> None:
    def f(a: Any, b: Any) -> Any:
        first, second = copy.deepcopy([b, {"q": a}])
        first[0] = 1.0
        return second["q"].sum() + first.sum()
    x, y = np.array([2.0, 3.0]), np.array([4.0, 5.0])
    compiled = tg.compile(f)
    for _ in range(3):
        assert compiled(x, y) == f(x, y)
    for run in (compiled, lambda *args: tg.grad(f, *args)):
        with pytest.raises(tg.MutationError, match="Python makes one copy"):
            run(x, x)
    assert compiled(x, y) == f(x, y)
