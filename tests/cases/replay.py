"""How a case is replayed on tensors of a device, and compared with NumPy: for the tests, and for bench/gpu.py."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import tapegrad as tg
from tapegrad.compile.numpy.function import Unfit
from tapegrad.errors import MissingRule
from tapegrad.numbers.tensor_dtypes import torch_dtype
from tapegrad.testing import contract
from tapegrad.tree.flatten import leaves_of
from tests.cases.case import Case
from tests.harness.compare import assert_close

TOLERANCES = {"float64": (1e-10, 1e-11), "float32": (2e-4, 2e-5), "complex128": (1e-9, 1e-10)}


def fresh(args: tuple[Any, ...], dtype: str) -> tuple[Any, ...]:
    """Return a sample in memory of its own, its floating arrays in another precision, or complex."""
    def convert(x: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.generic)) or x.dtype not in (float, complex):
            return x.copy(order="K") if isinstance(x, np.ndarray) else x
        if dtype == "complex128":
            return x + 0.1j * np.cos(np.arange(x.size)).reshape(x.shape)
        narrow = np.complex64 if x.dtype == complex else np.float32
        return x.astype(narrow if dtype == "float32" else x.dtype, order="K")
    return tuple(map(convert, args))


def on(device: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arrays and NumPy's scalars as tensors; where there are none, Python's numbers as 0-d ones."""
    kinds = (np.ndarray, np.generic) if any(isinstance(x, (np.ndarray, np.generic)) for x in args) else (float, complex)
    return tuple(torch.tensor(np.array(x, order="C"), device=device) if isinstance(x, kinds) else x for x in args)


def agree(found: Any, expected: Any, dtype: str, device: str, tensors: bool = True) -> None:
    """Raise unless tensors of the device have the numbers, shapes and dtypes of NumPy's arrays and scalars, and the rest is as it was."""
    rtol, atol = TOLERANCES[dtype]
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        if tensors and isinstance(b, (np.ndarray, np.generic)):
            assert isinstance(a, torch.Tensor) and a.device.type == device
            assert (a.dtype, tuple(a.shape)) == (torch_dtype(b.dtype), b.shape)
            a = a.cpu().resolve_conj().resolve_neg().numpy()
        elif isinstance(a, torch.Tensor):
            assert type(b) in (float, complex, int, bool) and not a.shape  # it was asked for with a 0-d tensor for a number
            a = a.cpu().numpy()
        else:
            assert type(a) is type(b)
        assert_close(a, b, rtol, atol)


def replayed(tape: tg.Tape, args: tuple[Any, ...], dtype: str, device: str) -> None:
    given = on(device, fresh(args, dtype))
    agree(tape.play(*given), tape.play(*fresh(args, dtype)), dtype, device, any(isinstance(x, torch.Tensor) for x in given))


def gradient_of(case: Case, value: Any, args: tuple[Any, ...], dtype: str) -> tg.Tape | None:
    """Return the gradient's tape, or None where there is none: of an integer, or where tapegrad says that there is no complex derivative."""
    if not any(np.asarray(leaf).dtype.kind in "fc" for leaf in leaves_of(value)):
        return None
    try:
        return tg.gradtape(lambda *xs, fn=case.fn: contract(fn(*xs)), *fresh(args, dtype))
    except MissingRule as err:
        if dtype == "complex128" and "has no derivative by a complex argument" in str(err):
            return None
        raise


def check(case: Case, dtype: str, device: str) -> None:
    """Raise unless value and gradient of a case replay on a device with NumPy's numbers, dtypes and shapes."""
    for number, args in enumerate(case.samples if dtype == "float64" else case.samples[:1]):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's and SciPy's own, of the numbers that a row is about
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                value = case.fn(*fresh(args, dtype))
            except (TypeError, DeprecationWarning, np.exceptions.ComplexWarning):
                if dtype != "complex128":
                    raise
                continue  # NumPy has no such function of complex numbers
            _, tape = tg.trace(case.fn, *fresh(args, dtype))
            replayed(tape, args, dtype, device)
            gradient = gradient_of(case, value, args, dtype)
            if gradient is not None:
                replayed(gradient, args, dtype, device)
                if dtype == "float64" and number == 0:
                    replayed(tg.primitivize(gradient), args, dtype, device)


def compiled(case: Case, dtype: str, device: str, mode: str) -> str:
    """Raise unless the first sample's value and gradient have NumPy's numbers, compiled in a mode; return why one cannot run in it."""
    if not case.samples:
        return ""
    args = case.samples[0]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            value = case.fn(*fresh(args, dtype))
        except TypeError:
            return ""  # NumPy has no such function of complex numbers
        given = on(device, fresh(args, dtype))
        for tape in (tg.trace(case.fn, *fresh(args, dtype))[1], gradient_of(case, value, args, dtype)):
            if tape is None or any(op.kind == "call" and op.fn is tg.ops.draw for op in tape):
                continue
            run = tg.compile(tape, backend="torch", device=device, mode=mode)
            try:
                for _ in range(2):
                    found = run(*given)
            except Unfit as err:
                return "one call of torch's own" if "torch's own" in str(err) else "on the host" if "on the host" in str(err) else "not captured"
            agree(found, tape.play(*fresh(args, dtype)), dtype, device)
    return ""
