"""compare: whether two results are the same, the one comparison of all tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.tape.spec import Spec
from tapegrad.tree.flatten import leaves_of

NARROW = (np.float16, np.float32, np.complex64)


def numbers(x: Any) -> Any:
    """Return a leaf as NumPy has it: a tensor's numbers, anything else as it is."""
    return x.detach().cpu().resolve_conj().resolve_neg().numpy() if hasattr(x, "resolve_neg") else x


def same(found: Any, expected: Any, rtol: float = 1e-11, atol: float | None = None, kinds: str = "type", narrow: float = 1e-4) -> None:
    """Raise unless two results agree in nesting, in the kind of each leaf, in shape, dtype and value; nan is nan.

    `kinds` says what a leaf's kind is: its "type" (float and float64 are one), its "dtype", where a tensor stands for an
    array and a 0-d one for a number, or nothing but its "shape". Numbers of single precision agree to `narrow` at best.
    """
    ours, theirs = leaves_of(found), leaves_of(expected)
    assert len(ours) == len(theirs), (found, expected)
    for a, b in zip(ours, theirs):
        if kinds == "type":
            assert type(a) is type(b) or {type(a), type(b)} == {float, np.float64}, (type(a), type(b))
        if a is b or not isinstance(numbers(b), (np.ndarray, np.generic, float, int, complex)):
            continue
        narrowed = hasattr(a, "resolve_neg")  # torch has no longer double
        a, b = numbers(a), numbers(b)
        assert np.shape(a) == np.shape(b), (a, b)
        kind = np.asarray(b).dtype
        if kinds == "type" or (kinds == "dtype" and isinstance(b, (np.ndarray, np.generic))):
            wanted = np.dtype(float) if narrowed and kind == np.longdouble else kind
            assert np.asarray(a).dtype == wanted, (a, b)
        assert_close(a, b, *((max(rtol, narrow),) * 2 if kind in NARROW else (rtol, rtol if atol is None else atol)))


def alike(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    """Raise unless results agree, where tensors may stand for arrays and numbers."""
    same(found, expected, rtol, kinds="dtype", narrow=2e-4)


def assert_close(found: Any, expected: Any, rtol: float, atol: float) -> None:
    """Raise what np.testing.assert_allclose does, which takes twenty times as long to find that arrays are equal."""
    if not np.array_equal(found, expected):
        if np.asarray(expected).dtype.kind in "fc":
            np.testing.assert_allclose(found, expected, rtol, atol)
        else:
            np.testing.assert_array_equal(found, expected)


def steps(x: Spec) -> list[int] | None:
    """Return the strides of the axes that are longer than 1: of the others, and of empty arrays, they mean nothing."""
    return None if x.strides is None else [step for step, n in zip(x.strides, x.shape) if n > 1 and x.size]


def same_spec(told: Spec, real: Spec) -> bool:
    """Return whether a type is another; strides that nobody knows agree with any."""
    if (told.type, real.type) == (complex, np.complex128):  # of Python's numbers NumPy's function makes its own
        return True
    return (told.type is real.type and told.dtype == real.dtype and told.shape == real.shape and told.device == real.device
            and steps(told) in (None, steps(real)) and len(told.parts) == len(real.parts) and all(map(same_spec, told.parts, real.parts)))
