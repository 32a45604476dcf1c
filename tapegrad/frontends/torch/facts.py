"""Queries of a tensor's properties other than its numbers, and conversions to plain numbers: the tape guards every
answer on which the program may depend.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tapegrad import ops
from tapegrad.errors import INTERNAL, ConcretizationError, user_location
from tapegrad.frontends.torch.leaves import plainly
from tapegrad.frontends.torch.registry import found, torch_means, torch_refuses
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.text import text_of
from tapegrad.rules.op import Traced
from tapegrad.trace import views
from tapegrad.trace.observers import written
from tapegrad.trace.plain_arguments import loses


def asked(func: Any, of_memory: bool = False) -> Callable[..., Any]:
    """Return the implementation of a query: torch's answer for the plain values, with shapes and dtypes guarded, and
    for one `of_memory` the inputs' memory layout too.
    """
    def ask(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if isinstance(x, Traced):
                x._fact("shape", tuple(shape_of(plain(x))))  # type: ignore[attr-defined]
                x._fact("dtype", dtype_of(plain(x)))  # type: ignore[attr-defined]
                if of_memory:
                    x._tracer.guard_layout()
        return func(*map(_steering, args), **{key: _steering(value) for key, value in kwargs.items()})
    return ask


def _steering(x: Any) -> Any:
    return operator.index(x) if isinstance(plain(x), int) else plain(x)


# Queries of the shape, the dtype and the device, by tensor methods and by functions of torch.
_OF_TENSORS = """
    shape dtype device ndim layout is_cuda is_cpu is_meta is_mps is_xpu is_sparse is_sparse_csr is_quantized is_nested
    is_mkldnn itemsize nbytes names
    grad output_nr _version name size dim numel nelement ndimension stride storage_offset is_contiguous
    is_floating_point is_complex is_signed is_conj is_neg is_inference element_size get_device __len__ is_same_size
    is_set_to data_ptr has_names
    is_pinned is_shared is_coalesced is_distributed dim_order _is_view __hash__ _is_zerotensor"""
_OF_TORCH = ("_C._nn._parse_to is_tensor numel is_floating_point is_complex is_signed is_conj is_neg is_inference "
             "is_same_size result_type can_cast")
_OF_MEMORY = frozenset(["stride", "storage_offset", "is_contiguous", "is_set_to", "data_ptr", "dim_order"])
FACTS: set[Any] = set()
for _name in [*(f"Tensor.{name}" for name in _OF_TENSORS.split()), *_OF_TORCH.split()]:
    for _fn in found(_name):
        torch_means(_name)(asked(_fn, _name.rpartition(".")[2] in _OF_MEMORY))
        FACTS.add(_fn)


# -- conversions of a tensor to a plain number


def steered(fact: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the implementation of a conversion by which the program may branch: the plain value, guarded."""
    def steer(x: Any) -> Any:
        value = read(x._val)
        x._tracer.guard(views.peek(x), fact, value)
        return value
    return steer


torch_means("Tensor.__bool__", "Tensor.is_nonzero", "is_nonzero")(steered("bool", bool))
to_int = steered("int", int)
torch_means("Tensor.__int__")(to_int)
torch_means("Tensor.__index__")(steered("index", operator.index))


def _number(name: str, kind: Callable[[Any], Any]) -> None:
    def to_number(x: Any) -> Any:
        if x._tracer.independent(views.peek(x)):
            return kind(x._val.item())
        if not (x._val.is_floating_point() or x._val.is_complex()):
            return kind(to_int(x))  # an integer has no gradient
        if not loses(x):
            return steered(kind.__name__, kind)(x)
        raise ConcretizationError("float(x) or complex(x) asked for a plain number, and the tape would not depend on "
                                  f"{views.peek(x).name}", user_location(),
                                  "x.detach().item() for a traced number without a gradient; tg.value(x) for a plain "
                                  "one")
    torch_means(f"Tensor.{name}")(to_number)


_number("__float__", float)
_number("__complex__", complex)


@torch_means("Tensor.item")
def item(x: Array) -> Any:
    """Return a number that is recorded, to be shown and compared. As in torch no gradient flows through it; a result
    that depends on it is refused.
    """
    return plainly(ops.item(x), name="item")


@torch_means("Tensor.tolist")
def to_list(x: Any) -> Any:
    return item(x) if not plain(x).ndim else [to_list(part) for part in x.unbind()]


# -- text: shows the value, and is not recorded


@torch_means("Tensor.__repr__")
def text(x: Any, *, tensor_contents: Any = None) -> str:
    if x._tracer.closed or not _is_program(sys._getframe(1)):
        return f"Proxy({views.label(x)}: {plain(x)!r})"
    written()
    return text_of(x, repr(plain(x)))


def _is_program(frame: FrameType | None) -> bool:
    """Return whether the program asks for a text: no tapegrad frame stands directly before torch's own frames."""
    for there in (True, False):
        while frame is not None and (frame.f_code.co_filename in INTERNAL if there
                                     else frame.f_globals.get("__name__", "").startswith("torch.")):
            frame = frame.f_back
    return frame is not None and frame.f_code.co_filename not in INTERNAL


@torch_means("Tensor.__format__")
def formatted(x: Array, spec: str) -> str:
    written()
    return text_of(x, format(plain(x), spec))


@torch_means("Tensor.__iter__")
def iterated(x: Any) -> Any:
    return iter(x.unbind(0))


# -- attributes of torch's own tape

torch_means("Tensor.detach", "detach")(ops.stop_gradient)
torch_means("Tensor.data")(lambda x: plainly(x, name="data"))


@torch_means("Tensor.retain_grad")
def ignored(x: Array, *args: Any) -> None:
    return None


torch_refuses("Tensor.backward", "autograd.backward", why="torch's own autograd graph is not built in a trace",
              try_="call tg.grad inside the function for a gradient there")
torch_refuses("Tensor.__dlpack__", "Tensor.__dlpack_device__", "utils.dlpack.to_dlpack",
              why="the gradient would be lost in the conversion",
              try_="x.numpy() and torch.from_numpy, which are recorded; tg.value(x) for the plain tensor")
torch_refuses("Tensor.register_post_accumulate_grad_hook", why="it would run in torch's own autograd only",
              try_="x = tg.hook(fn, x)")
torch_refuses("Tensor.__reduce_ex__", why="a traced tensor has no memory of its own",
              try_="tg.value(x) for the plain tensor")
