"""argument_source: writes the flattening of a call's arguments for torch, with arrays converted to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad.compile.argument_source import Name, Unpacked
from tapegrad.numbers.kinds import DType
from tapegrad.numbers.tensors import is_tensor, to_tensor
from tapegrad.tape.spec import Absent
from tapegrad.tape.tape import Tape
from tapegrad.tree.modules import has_hook

PLAIN = frozenset([torch.Tensor, torch.nn.Parameter])  # classes passed to torch's functions unchanged


class ConvertedArguments(Unpacked):
    """The parameters of a function, and the lines that check and convert them to leaves `like` those that a program was
    made for; see Unpacked.

    With `fixed`, numbers must be equal to these. `layouts`, unless None, checks the arguments before conversion.
    """

    def __init__(self, tape: Tape, leaves: list[str], name: Name, miss: str, like: list[Any], device: Any, fixed: bool,
                 layouts: Any) -> None:
        self.like, self.device, self.fixed = like, device, fixed
        self.asked = [] if layouts is None else layouts.numbers
        super().__init__(tape, leaves, name, miss)
        if layouts is not None and self.asked:
            given = ", ".join(f"given_{number}" for number in self.asked)
            self.check(f"not {name(layouts.hold, 'lie_as_recorded')}({given})")

    def leaf(self, number: int, name: str) -> None:
        """Write the check of a leaf: a number's type; a tensor's dtype, shape and device, with conversion of arrays."""
        if number in self.asked:
            self.lines.append(f"given_{number} = {name}")
        x = self.like[number]
        if not is_tensor(x):
            self.check(f"type({name}) is not {self.name(type(x))}")
            if self.fixed and type(x) in (float, int, complex, bool):
                self.check(f"{name} != {x!r}" if x == x else f"{name} == {name}")
            return
        wrong = [f"type({name}) not in {self.name(PLAIN, 'tensors')}", f"{name}.shape != {tuple(x.shape)!r}",
                 f"{name}.dtype is not {x.dtype}", f"{name}.device != {self.name(self.device, 'device')}",
                 *([f"not {name}.is_contiguous()"] if x.ndim else []),
                 *([f"{name}.is_conj()"] if x.is_complex() else []),
                 f"{name}.requires_grad and {self.name(has_hook)}({name})"]
        enter = self.name(entering(x.shape, x.dtype, self.device, self.tape.inputs[number + 1].val), f"enter_{name}")
        self.lines += [f"if {' or '.join(wrong)}:", f"    {name} = {enter}({name}, miss)"]


def stands_for(x: Any, recorded: Any) -> bool:
    """Return whether an argument has the recorded type and dtype, on which the program may depend.

    A tensor may replace any argument, as in a replay on tensors, and an array may replace a tensor.
    """
    if is_tensor(x) or is_tensor(recorded) or type(recorded) is Absent:
        return True
    return type(x) is type(recorded) and getattr(x, "dtype", None) == getattr(recorded, "dtype", None)


def entering(shape: Any, dtype: DType, device: Any, recorded: Any) -> Callable[[Any, Callable[[], Exception]], Any]:
    """Return a function that converts an argument to a tensor on the device; it raises what `miss` returns if type,
    shape or dtype do not fit.
    """
    def enter(x: Any, miss: Callable[[], Exception]) -> Any:
        found = tensor_of(x, device) if stands_for(x, recorded) and not (is_tensor(x) and has_hook(x)) else None
        if found is None or found.shape != shape or found.dtype is not dtype:
            raise miss()
        return found
    return enter


def tensor_of(x: Any, device: Any) -> Any:
    """Return an array, NumPy scalar or tensor as a contiguous tensor on a device, None for anything else."""
    if not (isinstance(x, (np.ndarray, np.generic)) or is_tensor(x)):
        return None
    found = to_tensor(x, device)
    if is_tensor(x):
        found = found.detach().resolve_conj().resolve_neg()
        found = found.clone() if found.is_inference() else found
    return found.contiguous()
