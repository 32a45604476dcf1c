"""on_device: tapes compiled for a device that is not there, by the record of what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import tapegrad as tg
from bench.on_gpu.virtual import DEVICE, WAITS, Event, Log, device, put
from tapegrad.numbers.tensor_dtypes import torch_dtype
from tapegrad.rules.op import OPS
from tapegrad.tree.flatten import leaves_of
from tests.harness.compare import assert_close
from tests.harness.sample import Sample, as_tape_has_it, direction, draws, quiet

ON_HOST = {name: op.lower["torch"].is_on_host for name, op in OPS.items() if getattr(op.lower.get("torch"), "is_on_host", "")}
"""Ops for which torch has no function, or none of complex numbers: SciPy or NumPy computes them."""


def there(x: Any) -> Any:
    """Return arrays, NumPy's numbers and tensors in nested arguments as tensors of the device."""
    if isinstance(x, dict):
        return {key: there(part) for key, part in x.items()}
    if type(x) in (tuple, list):
        return type(x)(map(there, x))
    return put(torch.tensor(np.array(x, order="C"))) if isinstance(x, (np.ndarray, np.generic)) else put(x) if isinstance(x, torch.Tensor) else x


def agree(found: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    """Raise unless tensors of the device stand for arrays, with their numbers, shapes and dtypes."""
    for a, b in zip(leaves_of(found), leaves_of(expected), strict=True):
        if isinstance(b, (np.ndarray, np.generic)) or isinstance(a, torch.Tensor):
            assert isinstance(a, torch.Tensor) and a.device == DEVICE, type(a)
            if hasattr(b, "dtype"):
                assert (a.dtype, tuple(a.shape)) == (torch_dtype(b.dtype), b.shape)
            a = a.cpu().resolve_conj().resolve_neg().numpy()
        assert_close(a, b, rtol, atol)


def steady(run: Callable[..., Any], given: Sequence[Any], calls: int = 2) -> tuple[Any, Log]:
    """Return the result of the last of several calls on the device, and what that asked of it."""
    with device() as log:
        for _ in range(calls):
            log.events.clear()
            found = run(*given)
    return found, log


def unexpected(log: Log, allowed: Callable[[Event], bool]) -> list[Event]:
    """Return the events other than launches that are not allowed."""
    return [event for event in log.of("mixed", "host", "upload", "read") if event.kind == "mixed" or not allowed(event)]


LINALG = frozenset(["eig", "eigvals", "lstsq", "matrix_rank", "pinv"])
"""Functions of matrices of which numbers decide the type or the rank."""
SHAPES = frozenset(["getitem_masked", "nonzero", "unique", "bincount", "getitem", "setitem", "scatter"])
MASKED = frozenset(["nonzero", "index", "index_put_", "_index_put_impl_", "bincount", "_unique2", "fill_"])
"""Calls of which a mask, or other numbers, decide the shape; and torch's operators that wait for it."""
NUMBERS = frozenset(["if", "float", "complex", "int", "item", "round_number"])
"""Where the program asks for a number: its branches, and results that were Python's numbers."""
SOMETIMES = frozenset(["sparse_matmul", "sampled_matmul", "sparse_product", "elements"])
"""Computed on the host where torch has no sparse matrix of the dtype, or an empty one; and where a number may not fit a dtype."""


def is_asked_for(event: Event) -> bool:
    """True for what waits because the program, or what it calls, asks for numbers; and for arguments that are on the host."""
    call = event.call.removeprefix("each_")  # what has no rule for batches is called for each member
    return (call in ON_HOST or call in LINALG or event.name in WAITS or call in NUMBERS or call in SOMETIMES or call.startswith("enter_")
            or (call in SHAPES and (event.name in MASKED or event.size == 1)))  # one byte: a mask without axes


def brings(tape: tg.Tape) -> bool:
    """True for a tape on which the host may make an array, which is brought to the device."""
    names = {op.fn.__name__.removeprefix("each ") for op in tape if op.kind == "call"}
    return not names.isdisjoint({*ON_HOST, *SOMETIMES})


def compiled_there(tape: tg.Tape, args: Sequence[Any], allowed: Callable[[Event], bool] = is_asked_for) -> Log:
    """Compile a tape for the device, and raise unless a later call has NumPy's numbers and asks the host for no others than it may."""
    with quiet(), np.errstate(all="ignore"):
        expected = tape.play(*args)
        found, log = steady(tg.compile(tape, backend="torch", device=DEVICE, passes=()), there(tuple(args)))
        agree(found, expected)
    found = [event for event in unexpected(log, allowed) if not (event.call == "to_tensor" and brings(tape))]
    assert not found, found
    return log


def on_device(sample: Sample) -> None:
    """Tapes of the gradient or the value, the tangent beside the value, and a batch, compiled for a device: nothing is on the host but what must be."""
    if draws(sample):
        return
    compiled_there(sample.best, sample.fresh())
    if sample.is_differentiable:
        ways = [as_tape_has_it(x, direction(x, i)) for i, x in enumerate(sample.args)]
        compiled_there(tg.optimise(sample.forward), [*sample.fresh(), *ways])
    axes = tuple(0 if isinstance(x, np.ndarray) else None for x in sample.args)
    if 0 in axes:
        args = [np.stack([x, x]) if isinstance(x, np.ndarray) else x for x in sample.fresh()]
        try:
            with quiet():
                batched = tg.batchtape(sample.fn, *args, in_axes=axes)
        except tg.TapeError:  # it says what has no batch
            return
        compiled_there(tg.optimise(batched), args)
