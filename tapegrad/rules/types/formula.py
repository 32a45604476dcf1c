"""formula: the result type of a formula of ops, found by running it on types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.rules.op import OPS, Op, Traced
from tapegrad.rules.types.family import Family, Unknown, numeric, spec_by
from tapegrad.tape.spec import FIXED, NOTHING, Spec, absent


def by_formula(formula: Callable[..., Any]) -> Family:
    """Return the family of a formula of ops and arithmetic on numbers or arrays."""
    def family(*xs: Any, **kwargs: Any) -> Spec:
        made = formula(*[Abstract(numeric(x)) for x in xs], **kwargs)
        return made.spec if isinstance(made, Abstract) else numeric(made)
    return family


_DOUBLES = (float, np.float64)


class _Recorder:
    """A tracer that computes the types of calls and records nothing."""

    level = 0

    def record(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Abstract:
        """Return an abstract value of the call's result type; raise Unknown if it does not follow."""
        specs = [x.spec if isinstance(x, Abstract) else x for x in args]
        if op.scalar is not None and not kwargs and all(numeric(x).type in _DOUBLES for x in specs):
            return Abstract(FIXED[float])  # math's function replaces NumPy's
        found = spec_by(op.spec, specs, kwargs)
        if found is NOTHING:
            raise Unknown(f"the type of {op.__name__} does not follow")
        return Abstract(found)


class Abstract(Traced):
    """A number or array whose type alone is known, with the arithmetic that formulas use."""

    __slots__ = ("spec",)
    __array_ufunc__ = None
    _op = None
    _tracer = _Recorder()

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    @property
    def _val(self) -> Any:
        return absent(self.spec)

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def _dtype(self) -> Any:
        return self.spec.dtype

    shape, dtype = _shape, _dtype

    def __getitem__(self, index: Any) -> Any:
        return OPS["getitem"](self, *(index if isinstance(index, tuple) else (index,)))


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    if swapped:
        return lambda self, other: OPS[name](other, self)
    return lambda self, *others: OPS[name](self, *others)


for _sign, _name in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "pow",
                     "and": "bitwise_and", "or": "bitwise_or", "matmul": "matmul"}.items():
    setattr(Abstract, f"__{_sign}__", _operator(_name))
    setattr(Abstract, f"__r{_sign}__", _operator(_name, swapped=True))
for _sign, _name in {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "neg": "negative",
                     "abs": "abs"}.items():
    setattr(Abstract, f"__{_sign}__", _operator(_name))
