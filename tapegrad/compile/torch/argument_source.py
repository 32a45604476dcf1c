"""argument_source: the source that takes a call's arguments apart for torch: tensors as they are, arrays as tensors."""

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

PLAIN = frozenset([torch.Tensor, torch.nn.Parameter])  # what torch's functions take as it is


class Entered(Unpacked):
    """The parameters of a function and the lines that make them `like` those that a program was made for; see Unpacked.

    `fixed` numbers are those that the program was made for alone.
    What `layouts` ask, where there are any, is asked of the arguments as they are given.
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
        """Check a number's type; of a tensor its dtype, shape and device, and make one of
        anything else that may be one.
        """
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
    """Return whether an argument is of the kind that a tape was recorded with: a program may ask a
    number or an array for its type.

    A tensor stands for any, as a replay on tensors has it; for one, an array does.
    """
    if is_tensor(x) or is_tensor(recorded) or type(recorded) is Absent:
        return True
    return type(x) is type(recorded) and getattr(x, "dtype", None) == getattr(recorded, "dtype", None)


def entering(shape: Any, dtype: DType, device: Any, recorded: Any) -> Callable[[Any, Callable[[], Exception]], Any]:
    """Return a function that makes an argument a tensor of this shape, dtype and device, or
    raises what `miss` returns.
    """
    def enter(x: Any, miss: Callable[[], Exception]) -> Any:
        found = tensor_of(x, device) if stands_for(x, recorded) and not (is_tensor(x) and has_hook(x)) else None
        if found is None or found.shape != shape or found.dtype is not dtype:
            raise miss()
        return found
    return enter


def tensor_of(x: Any, device: Any) -> Any:
    """Return an array, one of NumPy's numbers or a tensor as a tensor of a device, row by row in
    memory; None for anything else.
    """
    if not (isinstance(x, (np.ndarray, np.generic)) or is_tensor(x)):
        return None
    found = to_tensor(x, device)
    if is_tensor(x):
        found = found.detach().resolve_conj().resolve_neg()
        found = found.clone() if found.is_inference() else found
    return found.contiguous()
