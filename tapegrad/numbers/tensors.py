"""tensors: NumPy's semantics on torch: dtypes and promotion, devices, and computing on the host.

NumPy's rules (NEP 50) apply: arrays, including 0-d ones, and NumPy scalars promote by their dtypes, and Python numbers
are weak. torch treats a 0-d tensor as weak as well, divides integers in its default dtype, and promotes int64 and
float32 to float32; so dtypes are unified here before torch sees them. No global setting of torch is read or set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import UnknownFunction, user_location
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.memory import bounds
from tapegrad.numbers.tensor_dtypes import (
    WIDEST,
    TensorDtype,
    given_back,
    inexact_type,
    kind_of,
    numpy_dtype,
    numpy_stand_in,
    result_type,
    torch_dtype,
)

# types that are neither tensors nor proxies: a call with these alone runs on NumPy
ORDINARY = frozenset([*PYTHON, str, type(None), tuple, slice, type(Ellipsis), np.ndarray, np.float64, np.float32,
                      np.int64, np.bool_, np.complex128])


def is_tensor(x: Any) -> bool:
    """True for a torch tensor; does not import torch."""
    return is_tensor_type(type(x))


def leaves_of_graph(x: Any) -> Iterator[Any]:
    """Yield the leaf tensors that a tensor was computed from, in torch's autograd graph."""
    stack, seen = [x.grad_fn], {x.grad_fn}
    while stack:
        node = stack.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        new = {used for used, _ in node.next_functions if used is not None} - seen
        seen |= new
        stack += new


def check_dense(x: Any) -> None:
    """Raise UnknownFunction for a sparse, nested, quantized or unsupported distributed tensor."""
    if is_spread(x):
        return
    if is_distributed(x):
        raise UnknownFunction(f"a {type(x).__name__}, which is distributed over processes, cannot be traced",
                              user_location(),
                              "x.to_local(), and torch.distributed for the communication; for a NumPy program "
                              "tg.value_and_grad(f, backend=\"torch\", mesh=mesh, placements={...})")
    if x.layout is not sys.modules["torch"].strided or x.is_quantized or x.is_nested:
        kind, cure = (("quantized tensor", "x.dequantize()") if x.is_quantized
                      else ("nested tensor", "use a padded tensor and a mask") if x.is_nested
                      else (f"tensor of layout {x.layout}", "x.to_dense()"))
        raise UnknownFunction(f"a {kind} cannot be traced", user_location(), cure)


DISTRIBUTED: set[type] = set()  # tensor classes that are distributed over processes and can be traced


def is_spread(x: Any) -> bool:
    """True for a tensor that is distributed over processes and can be traced."""
    return type(x) in DISTRIBUTED


def is_distributed(x: Any) -> bool:
    """True for a tensor that is distributed over processes."""
    return str(type(x).__module__).startswith("torch.distributed.")


_tensor_types: dict[Any, bool] = {}  # filled once torch is imported, since a trace calls it thousands of times


def is_tensor_type(kind: Any) -> bool:
    """True for torch.Tensor and its subclasses."""
    known = _tensor_types.get(kind)
    if known is None:
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)  # None too while another thread is importing torch
        if tensor is None:
            return False
        # by the type, since isinstance would call a proxy's `__class__`
        known = _tensor_types[kind] = issubclass(kind, tensor)
    return known


def holds_tensor(xs: Iterable[Any]) -> bool:
    """True if any value is a tensor."""
    for x in xs:  # noqa: SIM110  # no generator, for speed: every pullback calls this
        if type(x) not in ORDINARY and is_tensor(x):
            return True
    return False


# -- conversion of values to tensors


def to_tensor(x: Any, device: Any, dtype: Any = None) -> Any:
    """Return a number, array or tensor as a tensor on a device; on the CPU it shares an array's memory if possible."""
    if not is_tensor(x):
        if not isinstance(x, np.ndarray) or not x.ndim:
            kind: Any = x.dtype if hasattr(x, "dtype") else type(x)
            dtype = dtype or torch_dtype(kind)
            number = np.asarray(x, numpy_dtype(torch_dtype(x.dtype))).item() if hasattr(x, "dtype") else x
            return torch.full((), number, dtype=dtype, device=device)
        if min(x.strides, default=0) < 0 or x.dtype.name in WIDEST or not x.flags.writeable or not x.dtype.isnative:
            # torch has no negative strides, and warns about read-only memory
            x = x.astype(numpy_dtype(torch_dtype(x.dtype)), order="C")
        x = torch.from_numpy(x)
    return x.to(device=device, dtype=dtype or x.dtype)


def convert(x: Any, dtype: Any) -> Any:
    """Return a tensor in another dtype; a real dtype takes the real part of complex numbers."""
    wanted = torch_dtype(dtype)
    return (x.real if x.is_complex() and not wanted.is_complex and wanted is not torch.bool
            else x).to(wanted, copy=True)


def device_of(args: Iterable[Any]) -> Any:
    """Return the device of the tensors among some values, preferring one other than the CPU; None without tensors."""
    device = None
    for x in args:
        if type(x) not in ORDINARY and is_tensor(x) and (device is None or device.type == "cpu"):
            device = x.device
    return device


def on_one_device(args: Sequence[Any]) -> Sequence[Any]:
    """Return arguments with arrays converted to tensors and all tensors on one device."""
    device, apart = None, False
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            apart = True
        elif kind not in ORDINARY and is_tensor_type(kind):
            apart = apart or (device is not None and arg.device != device)
            device = arg.device
    if not apart:
        return args
    device = device_of(args)
    return [to_tensor(arg, device) if type(arg) is np.ndarray or (is_tensor(arg) and arg.device != device) else arg
            for arg in args]


def together(args: Iterable[Any], dtype: Any = None, number: bool = False) -> list[Any]:
    """Return all arguments as tensors of one device and their common dtype; `number` makes it floating or complex."""
    args = list(args)
    dtype = dtype or (inexact_type(*args) if number else result_type(*args))
    device = device_of(args)
    return [to_tensor(x, device, dtype) for x in args]


def detached(x: Any) -> Any:
    """Return a tensor, or parameter, as a plain tensor detached from torch's autograd, sharing memory; other values
    unchanged.

    It keeps the attributes that the program set on the tensor, so that hasattr finds them and a read of one is refused.
    """
    if is_tensor(x) and not hasattr(type(x), "_tracer") and (x.requires_grad or type(x) is torch.nn.Parameter):
        plain = x.detach()
        if x.__dict__:
            plain.__dict__.update(x.__dict__)
        return plain
    return x


def cast(value: Any, x: Any) -> Any:
    """Return a value as a tensor that can be written into `x`: with its device and dtype (the real part for a real
    one), replicated in each process if `x` is distributed.
    """
    value = to_tensor(value, x.device)
    if is_spread(x) and type(value) is not type(x):
        value = type(x).from_local(value, x.device_mesh)
    return value if value.dtype is x.dtype else convert(value, x.dtype)


def numbers_of(x: Any) -> tuple[int, ...]:
    """Return one or several integers, possibly tensors, as a tuple: a shape, axes, shifts."""
    return tuple(map(int, x)) if isinstance(x, (tuple, list)) or getattr(x, "ndim", False) else (int(x),)


def share_memory(a: Any, b: Any) -> bool:
    """True if two tensors, or the tensors behind two proxies, share a storage."""
    a, b = [x._local_tensor if is_spread(x) else x for x in (plain(a), plain(b))]
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() and a.numel() and b.numel())


def overlap(a: Array, b: Array) -> bool:
    """True if two arrays or tensors may share memory; other values share none.

    >>> x = np.zeros(3)
    >>> overlap(x, x[1:]), overlap(x, x.copy()), overlap(x, 1.0)
    (True, False, False)
    """
    if hasattr(type(a), "_tracer") or hasattr(type(b), "_tracer"):  # a proxy has no memory
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    if is_tensor(a) and is_tensor(b):
        return share_memory(a, b)
    if not (is_memory(a) and is_memory(b)):
        return False
    (start, end), (begin, stop) = bounds(a), bounds(b)
    return start < stop and begin < end


def is_memory(x: Array) -> bool:
    """True for an array or a tensor, which can be written in place."""
    return isinstance(x, np.ndarray) or is_tensor(x)


def is_writable(x: Array) -> bool:
    """True unless it is a read-only array."""
    return bool(getattr(getattr(x, "flags", None), "writeable", True))


def duplicate(x: Any) -> Any:
    """Return a copy with the same strides (gaps, axis order), which decide whether later reshapes are views."""
    if hasattr(x, "_tracer"):  # a proxy records its copy
        return x.clone() if is_tensor(x) else x.copy(order="K")
    if is_tensor(x):
        y = x.clone()
        return (y if y.stride() == x.stride() or 0 in x.stride()
                else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x))
    # elements that share an address can be written separately in the copy
    if x.flags.forc or x.dtype.hasobject or (0 in x.strides and x.flags.writeable):
        return x.copy(order="K")
    low, high = np.lib.array_utils.byte_bounds(x)
    y = np.ndarray(x.shape, x.dtype, np.empty(high - low, np.uint8).data, x.__array_interface__["data"][0] - low,
                   x.strides)
    y[...] = x
    y.flags.writeable = x.flags.writeable
    return y


def to_host(x: Any) -> Any:
    """Return a tensor as an array (gathered if distributed) or scalar, bfloat16 as float32; other values unchanged."""
    if not is_tensor(x):
        return x
    x = (x.full_tensor() if is_spread(x) else x).detach().resolve_conj().resolve_neg().cpu()
    return (x.float() if isinstance(numpy_dtype(x.dtype), TensorDtype) else x).numpy()[()]


def all_on_host(x: Any) -> Any:
    """Return nested tuples, lists and dicts with tensors replaced by NumPy arrays and scalars."""
    if type(x) in (tuple, list):
        return type(x)(map(all_on_host, x))
    return {key: all_on_host(part) for key, part in x.items()} if type(x) is dict else to_host(x)


def from_host(y: Any, device: Any, narrow: Any = None) -> Any:
    """Return NumPy values, also in tuples or lists, as tensors on a device; float32 becomes `narrow` if given."""
    if isinstance(y, (tuple, list)):
        parts = [from_host(part, device, narrow) for part in y]
        return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)
    if not isinstance(y, (np.ndarray, np.generic)):
        return y
    return to_tensor(y, device, narrow if y.dtype == np.float32 else None)


def on_host(impl: Callable[..., Any]) -> Callable[..., Any]:
    """Return a torch implementation that computes by NumPy or SciPy on the host and moves the results back.

    For functions that torch lacks. It synchronizes with the device at every call.
    """
    def run(*args: Any, **kwargs: Any) -> Any:
        narrow = next((x.dtype for x in args if is_tensor(x) and isinstance(numpy_dtype(x.dtype), TensorDtype)), None)
        return from_host(impl(*map(to_host, args), **kwargs), device_of(args), narrow)
    run.is_on_host = "all"  # type: ignore[attr-defined]
    return run


# -- functions of torch with NumPy's semantics


def named(name: str) -> Callable[..., Any]:
    """Return torch's function of a dotted name; the name is looked up at each call."""
    def run(*args: Any, **kwargs: Any) -> Any:
        found = torch
        for part in name.split("."):
            found = getattr(found, part)
        return found(*args, **kwargs)
    return run


class Loop(NamedTuple):
    """A ufunc's loop for given dtypes: the dtypes it converts its arguments to, and those of its results."""

    given: tuple[Any, ...]
    results: tuple[Any, ...]


def elementwise(ufunc: np.ufunc, fn: Callable[..., Any] | str, numbers: bool = False) -> Callable[..., Any]:
    """Return a torch function that converts its arguments and results as a ufunc does.

    With `numbers`, Python numbers are passed as they are; else they become 0-d tensors.

    >>> import torch
    >>> elementwise(np.sin, "sin")(torch.tensor([0, 1])).dtype
    torch.float64
    """
    apply = named(fn) if isinstance(fn, str) else fn
    loops: dict[tuple[Any, ...], Loop] = {}

    def run(*args: Any) -> Any:
        kinds = tuple(map(kind_of, args))
        loop = loops.get(kinds)
        if loop is None:
            loop = loops[kinds] = _loop(ufunc, kinds)
        device = None
        given = []
        for x, kind, dtype in zip(args, kinds, loop.given):
            if is_tensor(x):
                given.append(x if kind is dtype else x.to(dtype))
            elif numbers:
                given.append(x if kind in PYTHON else x.item())
            else:
                device = device or device_of(args)
                given.append(to_tensor(x, device, dtype))
        y = apply(*given)
        if type(y) is tuple:
            return tuple(part.to(dtype) for part, dtype in zip(y, loop.results))
        return y if y.dtype is loop.results[0] else y.to(loop.results[0])
    run.is_on_host = getattr(apply, "is_on_host", "")  # type: ignore[attr-defined]
    return run


def _loop(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> Loop:
    dtypes = ufunc.resolve_dtypes((*map(numpy_stand_in, kinds), *(None,) * ufunc.nout))
    found = tuple(given_back(dtype, kinds) for dtype in dtypes)
    return Loop(found[:ufunc.nin], found[ufunc.nin:])


def of_reals(fn: Callable[..., Any], impl: Callable[..., Any]) -> Callable[..., Any]:
    """Return an implementation that uses NumPy or SciPy for complex numbers, which torch orders or supports less."""
    on_complex = on_host(impl)

    def is_complex(x: Any) -> bool:
        return bool(x.is_complex() if is_tensor(x) else isinstance(x, complex))  # includes NumPy's complex128

    def run(*args: Any, **kwargs: Any) -> Any:
        return (on_complex if any(map(is_complex, args)) else fn)(*args, **kwargs)
    run.is_on_host = "complex"  # type: ignore[attr-defined]
    return run


def duplicates(leaves: list[Any]) -> list[Any]:
    """Return copies of leaves; copies of arrays share memory and are writable as the originals."""
    memory = [x for x in leaves if type(x) is np.ndarray]
    roots: dict[int, Any] = {}
    made: dict[int, Any] = {}

    def copied(x: Array) -> Any:
        if type(x) is not np.ndarray:
            return duplicate(x) if is_tensor(x) else x
        root = x
        while type(root.base) is np.ndarray:
            root = root.base
        alone = sum(np.may_share_memory(x, other) for other in memory) == 1
        if alone or not (root.flags.c_contiguous or x is root):
            y = duplicate(x)
        else:
            copy = roots.setdefault(id(root), np.array(root))
            at = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
            y = np.ndarray(x.shape, x.dtype, copy, at, x.strides)
        y.flags.writeable = x.flags.writeable
        return y
    for x in leaves:
        if id(x) not in made:
            made[id(x)] = copied(x)
    return [made[id(x)] for x in leaves]


def exact(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a comparison that is exact between short integer tensors and larger Python integers, as NumPy's."""
    def long(x: Any, beside: Any) -> Any:
        short = (type(beside) is int and is_tensor(x)
                 and not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool))
        return x.long() if short else x
    return lambda a, b: fn(long(a, b), long(b, a))


def product(name: str, *before: Any) -> Callable[..., Any]:
    """Return torch's sum of products, extended to the dtypes of NumPy that torch lacks: bool, and integers on CUDA."""
    def run(*args: Any) -> Any:
        xs = together(args)
        dtype = xs[0].dtype
        fn = getattr(torch, name)
        if dtype is torch.bool:
            return fn(*before, *(x.double() for x in xs)) != 0
        if xs[0].device.type != "cpu" and not dtype.is_floating_point and not dtype.is_complex:
            return fn(*before, *(x.double() for x in xs)).to(dtype)  # exact up to 2 ** 53
        return fn(*before, *xs)
    return run


def number_function(fn: Callable[..., Any] | str, strong: bool = False) -> Callable[..., Any]:
    """Return a torch function whose arguments are converted to one floating or complex dtype, integers to float64.

    With `strong`, Python numbers are promoted as arrays, not weak.
    """
    apply = named(fn) if isinstance(fn, str) else fn

    def run(*args: Any) -> Any:
        return apply(*together((np.asarray(x) if strong and type(x) in PYTHON else x for x in args), number=True))
    return run


def matrix_function(fn: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return a torch.linalg function of one matrix that accepts integers and raises NumPy's error."""
    apply = named(fn) if isinstance(fn, str) else fn

    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            y = apply(x.to(inexact_type(x)), *args, **kwargs)
        except torch.linalg.LinAlgError as err:
            raise np.linalg.LinAlgError(str(err)) from err
        return tuple(y) if isinstance(y, tuple) else y
    return run


def dims(x: Array, axis: Axis) -> tuple[int, ...]:
    """Return the axes that NumPy's `axis` names, counted from the front."""
    ndim = x.ndim
    axes = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not -ndim <= int(a) < ndim:
            raise np.exceptions.AxisError(int(a), ndim)
    return tuple(int(a) % ndim for a in axes)
