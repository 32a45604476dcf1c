"""generic: a function of torch that is no op of ours becomes one operation; its value and its gradient are torch's own.

The pullback is torch.autograd's of that one call. It is itself a function of torch's, and so recorded the same way where it is played on
proxies: gradients of gradients need nothing more. A function that draws random numbers is recorded with the state of the generator
that it began with, so that what is computed again draws the same.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tapegrad import ops, views
from tapegrad.brief import plain
from tapegrad.context import Tracer
from tapegrad.errors import Location
from tapegrad.frontends.torch import random
from tapegrad.frontends.torch.registry import spelled
from tapegrad.rules import Op, Traced, tracer_of
from tapegrad.tangent import ZERO, ZeroTangent, dense
from tapegrad.tensorarray import unwrap
from tapegrad.tensors import cast, detached, device_of, is_tensor, overlap, to_tensor
from tapegrad.tree import glance


def tensors_in(x: Any) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and dicts, in order."""
    if is_tensor(x):
        yield x
    elif isinstance(x, (tuple, list)):
        for part in x:
            yield from tensors_in(part)
    elif type(x) is dict:
        yield from tensors_in(list(x.values()))


def mapped(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return nested tuples, lists and dicts with each tensor replaced."""
    if is_tensor(x):
        return fn(x)
    if isinstance(x, (tuple, list)):
        parts = [mapped(fn, part) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)  # type: ignore[call-arg]
    if type(x) is dict:
        return {key: mapped(fn, part) for key, part in x.items()}
    return x


def has_derivative(x: Any) -> bool:
    """True for a tensor of real or complex numbers."""
    return bool((x := plain(x)).is_floating_point() or x.is_complex())


class TorchOp(Op):
    """A function of torch, recorded whole. `names` are the keywords of its last positional arguments, which may be traced."""

    def __init__(self, name: str, func: Callable[..., Any]) -> None:
        super().__init__(name, func, nested=True, torch=func)
        self.rr = self.forward

    def run(self, *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> Any:
        """Call the function, on tensors that torch's own tape does not follow; traced ones are recorded."""
        known = {"names": names, **kwargs} if names else kwargs
        tracer = tracer_of(glance(args))
        if tracer is not None:
            return tracer.record(self, args, known)
        with torch.no_grad():
            return mapped(detached, self.call(moved(args), names, kwargs))

    __call__ = run

    def call(self, args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any]) -> Any:
        count = len(args) - len(names)
        return self.impl(*args[:count], **dict(zip(names, args[count:])), **kwargs)

    def forward(self, *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> tuple[Any, Any]:
        """Call the function on torch's own tape: its value, and the pullback that walks it."""
        pb = Vjp(self, args, names, kwargs)
        if tracer_of(glance(args)) is not None:
            return self.run(*args, names=names, **kwargs), pb
        return mapped(detached, pb.begin()), pb

    def pullback(self, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: Location | None = None) -> Any:
        """Return the pullback of a call that has its value: it makes the call again."""
        known = dict(kwargs)
        return Vjp(self, args, known.pop("names", ()), known)


def moved(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with arrays as tensors, all on one device."""
    if not any(isinstance(arg, np.ndarray) for arg in args):
        return args
    device = device_of(tensors_in(args))
    return tuple(to_tensor(arg, device or "cpu") if isinstance(arg, np.ndarray) else arg for arg in args)


class Vjp:
    """The pullback of a call of torch's."""

    __slots__ = ("args", "kwargs", "names", "op", "roots", "y")

    def __init__(self, op: TorchOp, args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any]) -> None:
        self.op, self.args, self.names, self.kwargs = op, args, names, kwargs
        self.roots: list[Any] | None = None
        self.y: Any = None

    @property
    def __name__(self) -> str:
        return f"{self.op.__name__}_pullback"

    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    def begin(self) -> Any:
        """Make the call on torch's own tape."""
        roots: list[Any] = []

        def root(x: Any) -> Any:
            if not has_derivative(x):
                return x.detach()
            roots.append(x.detach().requires_grad_())
            return roots[-1]
        with torch.enable_grad():
            self.y = self.op.call(mapped(root, moved(self.args)), self.names, self.kwargs)
        self.roots = roots
        return self.y

    def __call__(self, dy: Any) -> tuple[Any, ...]:
        if type(dy) is ZeroTangent:
            return (ZERO,) * len(self.args)
        if tracer_of(glance((dy, self.args))) is not None:
            return self.record(dy)
        if self.roots is None:
            self.begin()
        dxs = iter(vjp(self.y, self.roots or [], dy, create=False, again=True))
        return tuple(cotangent(arg, dxs) for arg in moved(self.args))

    def record(self, dy: Any) -> tuple[Any, ...]:
        """Record the pullback as an operation, where it is played on proxies."""
        dxs = iter(vjp_op(self.op)(unwrap(mapped_cotangent(dy)), *self.args, **({"names": self.names} if self.names else {}), **self.kwargs))
        return tuple(cotangent(arg, dxs) for arg in self.args)


def mapped_cotangent(dy: Any) -> Any:
    """Return a cotangent with 0 where nothing flows."""
    if isinstance(dy, (tuple, list)):
        return tuple(map(mapped_cotangent, dy))
    return 0.0 if isinstance(dy, ZeroTangent) else dense(dy)


def cotangent(arg: Any, dxs: Iterator[Any]) -> Any:
    """Return the cotangent of an argument from those of its tensors, in order."""
    if isinstance(arg, (tuple, list)):
        return type(arg)(cotangent(part, dxs) for part in arg)
    return next(dxs) if is_tensor(arg) and has_derivative(arg) else ZERO


def vjp(y: Any, roots: list[Any], dy: Any, create: bool, again: bool) -> list[Any]:
    """Return what flows back to each root."""
    pairs = [(out, cast(part, out).expand(out.shape)) for out, part in flowing(y, unwrap(mapped_cotangent(dy))) if out.requires_grad]
    if not pairs or not roots:
        return [torch.zeros_like(root) for root in roots]
    return list(torch.autograd.grad([out for out, _ in pairs], roots, [part for _, part in pairs], retain_graph=again, create_graph=create,
                                    allow_unused=True, materialize_grads=True))


def flowing(y: Any, dy: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the tensors of a value, each with its cotangent."""
    if is_tensor(y):
        if dy is not None and has_derivative(y):
            yield y, dy
    elif isinstance(y, (tuple, list)):
        for part, dpart in zip(y, dy if isinstance(dy, (tuple, list)) else [dy] * len(y)):
            yield from flowing(part, dpart)


@functools.cache
def vjp_op(op: TorchOp) -> TorchOp:
    """Return the op that computes the cotangents of a call's tensors from those of its value."""
    def run(dy: Any, *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> tuple[Any, ...]:
        create = torch.is_grad_enabled()
        roots: list[Any] = []

        def root(x: Any) -> Any:
            if has_derivative(x):
                x = x if x.requires_grad else x.detach().requires_grad_()
                roots.append(x)
            return x
        with torch.enable_grad():
            y = op.call(mapped(root, args), names, kwargs)
            return tuple(vjp(y, roots, dy, create=create, again=create))
    made = TorchOp(f"{op.__name__}_vjp", run)
    made.call = lambda args, names, kwargs: run(*args, names=names, **kwargs)  # type: ignore[method-assign]
    return made


@functools.cache
def torch_op(func: Any) -> TorchOp:
    """Return the op that records a function of torch."""
    return TorchOp(spelled(func).rpartition(".")[2], func)


@functools.cache
def seeded_op(func: Any) -> TorchOp:
    """Return the op that records a function that draws random numbers, with the state of the generator as its first argument."""
    return TorchOp(spelled(func).rpartition(".")[2], random.seeded(func))


DRAWING: set[Any] = set()  # the functions that have drawn random numbers


def generic(tracer: Tracer, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a call of a function of torch as one operation."""
    op = torch_op(func)
    args, names, kwargs = positional(func, args, kwargs)
    known = {"names": names, **kwargs} if names else kwargs
    given = tuple(tracer.pack(arg) for arg in args)
    for arg in given:
        tracer.lift(arg)
    device = random.device_name(map(plain, glance(args)))
    mark, before = len(tracer.tape.ops), random.state(device)

    def seeded() -> Any:
        begin = tracer.record(ops.draw, (random.SOURCES(device),), {"method": "state"}, before)
        return tracer.record(seeded_op(func), (begin, *given), known)
    y = seeded() if func in DRAWING else tracer.record(op, given, known)
    if torch.equal(before, random.state(device)):
        if func in DRAWING:  # it draws, and not this time: without a state
            del tracer.tape.ops[mark:]
            y = tracer.record(op, given, known)
    elif func in DRAWING:
        return y
    else:  # it has drawn random numbers: once more, with the state as an argument, and the next time so from the beginning
        DRAWING.add(func)
        del tracer.tape.ops[mark:]
        random.set_state(device, before)
        return seeded()
    same = next((arg for arg in args if isinstance(arg, Traced) and is_same(arg._val, y)), None)
    if same is not None:  # `x.contiguous()` of what is: the tensor itself, and no operation
        del tracer.tape.ops[mark:]
        return same
    seal(op, y, [arg for arg in glance(args) if isinstance(arg, Traced)])
    return y


def is_same(x: Any, y: Any) -> bool:
    """True if a traced value is the very tensor, or a view of it that differs in nothing."""
    val: Any = y._val if isinstance(y, Traced) else None
    if not is_tensor(val) or not is_tensor(x) or not overlap(val, x):
        return False
    return bool((x.shape, x.dtype, x.stride(), x.storage_offset()) == (val.shape, val.dtype, val.stride(), val.storage_offset())
                and x.is_conj() == val.is_conj() and x.is_neg() == val.is_neg())


def seal(op: Op, y: Any, args: list[Any]) -> None:
    """Let nobody write to memory that is shared in a way that no path describes."""
    for part in y if isinstance(y, (tuple, list)) else (y,):
        for arg in args:
            if isinstance(part, Traced) and overlap(part._val, arg._val):
                why = f"{op.__name__} gave a view of a tensor, and one of the two is written to"
                for x in (part, arg):
                    views.place(x).storage.sealed = why


@functools.cache
def defaults(func: Any) -> dict[str, Any]:
    """Return the defaults of a Python function's keyword arguments: what equals them is not worth a place on the tape."""
    if not inspect.isfunction(func):
        return {}
    try:
        return {p.name: p.default for p in inspect.signature(func).parameters.values() if p.default is not p.empty}
    except ValueError:  # it wraps a builtin
        return {}


def is_default(value: Any, default: Any) -> bool:
    """True for a plain value that is the default."""
    return value is default or (type(value) is type(default) and type(value) in (int, float, str, bool) and value == default)


def positional(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[str, ...], dict[str, Any]]:
    """Move keyword arguments that hold tensors to positions, where variables can stand: their own, or the last, with their names returned."""
    known = defaults(func)
    kwargs = {key: value for key, value in kwargs.items() if not (key in known and is_default(value, known[key]))}
    names = tuple(key for key, value in kwargs.items() if any(isinstance(leaf, Traced) or is_tensor(leaf) for leaf in glance(value)))
    if names and inspect.isfunction(func):
        code = func.__code__
        own = code.co_varnames[:code.co_argcount]
        if all(name in own[len(args):] for name in names):
            last = max(map(own.index, names))
            between = own[len(args):last + 1]
            return (*args, *(kwargs.pop(name, known.get(name)) for name in between)), (), kwargs
    return (*args, *(kwargs[name] for name in names)), names, {key: value for key, value in kwargs.items() if key not in names}
