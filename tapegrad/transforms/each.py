"""each: the derivatives of a pullback or tangent that is an op itself, by tracing the rule that it applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.numbers.cotangents import Absorbing, dense
from tapegrad.numbers.tensor_array import wrap
from tapegrad.numbers.tensors import holds_tensor
from tapegrad.ops.each import Derived
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.grad import gradients_of


def differed(op: Derived, values: Sequence[Any], kwargs: dict[str, Any], dz: Any) -> tuple[Any, ...]:
    """Return the cotangents of a rule's arguments from those of its results."""
    tape = record(_Computed(op, kwargs), tuple(values), {}, DEFAULT, grad=True, replays=False)
    dzs = [None if isinstance(dx, Absorbing) else dense(dx) for dx in (dz if isinstance(dz, tuple) else (dz,))]
    found = gradients_of(tape, tuple(dzs) if isinstance(dz, tuple) else dzs[0])[1:]
    return tuple(wrap(found)) if holds_tensor(values) else tuple(found)


class _Computed:
    """The computation of a derived op, as a function to be traced."""

    def __init__(self, op: Derived, kwargs: dict[str, Any]) -> None:
        self.op, self.kwargs = op, kwargs

    def __call__(self, *values: Any) -> Any:
        return self.op.compute(*values, **self.kwargs)
