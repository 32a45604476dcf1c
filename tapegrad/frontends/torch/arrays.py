"""arrays: NumPy arrays among the arguments of torch's functions. For an operator with an array on its right NumPy
computes the result; most other functions raise.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

from tapegrad.frontends.torch import random
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensors import is_tensor
from tapegrad.trace.concretize import program_frame
from tapegrad.trace.constructor_calls import callee

_NAMES = {
    np.add: "add add_", np.subtract: "sub sub_", np.multiply: "mul mul_", np.true_divide: "div div_ __div__",
    np.floor_divide: "__floordiv__ __ifloordiv__ floor_divide floor_divide_", np.remainder: "remainder remainder_",
    np.power: "pow pow_ __pow__ __ipow__", np.matmul: "matmul",
}
_OPERATORS = {fn: ufunc for ufunc, names in _NAMES.items() for name in names.split()
              for fn in (getattr(torch.Tensor, name, None), getattr(torch._C.TensorBase, name, None)) if fn is not None}
"""The ufuncs of a tensor's operators with an array on the right, also of `t += array`, which makes another tensor."""


def beside(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return NumPy's result for an operator with an array; NotImplemented if there are no arrays, or torch takes them.
    Raise torch's TypeError if torch does not take them.
    """
    if not any(type(plain(x)) is np.ndarray for x in (*args, *kwargs.values())):
        return NotImplemented
    if func in _OPERATORS and len(args) == 2 and not kwargs and not _is_called(func):
        plain(args[0]).numpy()  # TypeError for a dtype that NumPy lacks, or a tensor on another device
        return _OPERATORS[func](*args)
    name = func.__name__
    if name != "__getitem__" and (name != "__setitem__" or type(plain(args[2])) is np.ndarray):
        _rehearse(func, args, kwargs)
    return NotImplemented


def _is_called(func: Callable[..., Any]) -> bool:
    """True for a method that the program calls by name, `t.add(x)`, not by an operator."""
    frame = program_frame()
    code = frame.f_code
    step = dis.opname[code.co_code[frame.f_lasti]]
    if func.__name__ not in code.co_names or not step.startswith(("CALL", "PRECALL")):
        return False
    names = callee(code, frame.f_lasti)
    owner = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    return len(names) > 1 and names[-1] == func.__name__ and not isinstance(owner, ModuleType)  # `operator.mul(t, x)`


def _rehearse(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise the TypeError that torch raises for plain values."""
    values = list(map(plain, (*args, *kwargs.values())))
    drawn = random.Drawn(values, kwargs.get("generator"))
    values = [x.detach().clone() if is_tensor(x) else x for x in values]
    try:
        func(*values[:len(args)], **dict(zip(kwargs, values[len(args):])))
    except TypeError:
        raise
    except Exception:
        pass  # the call itself will raise it
    finally:
        drawn.rewind()
