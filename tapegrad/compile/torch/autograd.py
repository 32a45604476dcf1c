"""autograd: `torch.autograd.grad`, `torch.autograd.functional` and `torch.func` inside a traced function.

A call with traced values is replaced by tapegrad's transform of that name, which records an inner trace on the proxies
of the outer one. `torch.autograd.grad` differentiates the part of the tape between its inputs and its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._functorch import eager_transforms
from torch._functorch import vmap as functorch_vmap
from torch.autograd import functional
from torch.utils._pytree import tree_map

from tapegrad.compile.jacobian import hessian, jacobian
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.numbers.formatting import plain
from tapegrad.ops import add, stop_gradient
from tapegrad.ops.structure import put_results
from tapegrad.rules.op import Traced, draws
from tapegrad.rules.registry import means, refused
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Call, Input, Operation, Tape, operands
from tapegrad.trace.views import peek
from tapegrad.transforms.forward import jvp
from tapegrad.transforms.grad import pullback
from tapegrad.transforms.vmap import vmap
from tapegrad.transforms.walk import Walk

# -- torch.func: replacements of the implementations that its transforms call


def _chosen(args: Sequence[Any], argnums: Any) -> Any:
    return args[argnums] if isinstance(argnums, int) else tuple([args[i] for i in argnums])


def _pulled(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
            has_aux: bool) -> tuple[Any, Any, Any]:
    """Return a function's output, its auxiliary output, and its pullback."""
    found, back = pullback(func, *args, **kwargs)
    if not has_aux:
        return found, None, lambda dy: _filled(back(dy)[1:], args)
    y, aux = found
    return y, aux, lambda dy: _filled(back((dy, None))[1:], args)


def _filled(dxs: Any, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return gradients with zeros in place of None, as in torch."""
    return tuple([_zeros(x) if dx is None else dx for dx, x in zip(dxs, args)])


def _zeros(x: Any) -> Any:
    return tree_map(lambda leaf: torch.zeros_like(leaf) if isinstance(plain(leaf), torch.Tensor) else leaf, x)


@means(eager_transforms.grad_and_value_impl)
def grad_and_value(func: Callable[..., Any], argnums: Any, has_aux: bool, args: Sequence[Any],
                   kwargs: dict[str, Any]) -> Any:
    y, aux, back = _pulled(func, args, kwargs, has_aux)
    if tuple(y.shape):
        raise RuntimeError(f"Expected the vmap-ed function to return a scalar, got a tensor of shape {tuple(y.shape)}")
    dx = _chosen(back(torch.ones_like(y)), argnums)
    return dx, ((y, aux) if has_aux else y)


@means(eager_transforms.grad_impl)
def grad(func: Callable[..., Any], argnums: Any, has_aux: bool, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    dx, rest = grad_and_value(func, argnums, has_aux, args, kwargs)
    return (dx, rest[1]) if has_aux else dx


@means(eager_transforms._vjp_with_argnums)
def vjp(func: Callable[..., Any], *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    y, aux, back = _pulled(func, primals, {}, has_aux)

    def vjp_fn(dy: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        return _chosen(back(dy), range(len(primals)) if argnums is None else argnums)
    return (y, vjp_fn, aux) if has_aux else (y, vjp_fn)


@means(eager_transforms._jvp_with_argnums)
def pushed(func: Callable[..., Any], primals: Any, tangents: Any, argnums: Any = None, *, strict: bool = False,
           has_aux: bool = False) -> Any:
    dx: list[Any] = [None] * len(primals)
    places = range(len(primals)) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
    for i, t in zip(places, tangents, strict=True):
        dx[i] = t
    y, dy = jvp(func, primals, dx)
    if has_aux:
        return y[0], _zeros(y[0]) if dy is None or dy[0] is None else dy[0], y[1]
    return y, _zeros(y) if dy is None else dy


@means(eager_transforms.linearize)
def linearized(func: Callable[..., Any], *primals: Any) -> Any:
    raise refused("torch.func.linearize", "torch treats its result as a constant, which has no gradient",
                  "torch.func.jvp, or tg.linearize")


@means(functorch_vmap.vmap_impl)
def mapped(func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: Any, *args: Any,
           **kwargs: Any) -> Any:
    if randomness == "same":
        raise refused('torch.vmap(randomness="same")', "each member would draw its own random numbers",
                      'randomness="different", or pass the random numbers as an argument')
    return vmap(partial(func, **kwargs) if kwargs else func, in_dims, out_dims)(*args)


# -- torch.autograd.functional


def _several(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _like(found: Sequence[Any], inputs: Any) -> Any:
    return tuple(found) if isinstance(inputs, (tuple, list)) else found[0]


def _argnums(inputs: Any) -> Any:
    return tuple(range(len(inputs))) if isinstance(inputs, (tuple, list)) else 0


def _kept(found: Any, create_graph: bool) -> Any:
    """Return results that are differentiable only with `create_graph`, as in torch."""
    return found if create_graph else tree_map(stop_gradient, found)


@means(functional.jacobian)
def jacobian_at(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
                vectorize: bool = False, strategy: str = "reverse-mode") -> Any:
    found = jacobian(func, _argnums(inputs),
                     mode="forward" if strategy == "forward-mode" else "auto")(*_several(inputs))
    return _kept(found, create_graph)


@means(functional.hessian)
def hessian_at(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
               vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> Any:
    return _kept(hessian(func, _argnums(inputs))(*_several(inputs)), create_graph)


@means(functional.vjp)
def vjp_at(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
           strict: bool = False) -> Any:
    xs = _several(inputs)
    y, _, back = _pulled(func, xs, {}, False)
    return _kept((y, _like(back(torch.ones_like(y) if v is None else v), inputs)), create_graph)


@means(functional.jvp)
def jvp_at(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
           strict: bool = False) -> Any:
    xs = _several(inputs)
    return _kept(pushed(func, xs, tuple(map(torch.ones_like, xs)) if v is None else _several(v)), create_graph)


@means(functional.hvp)
def hvp_at(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
           strict: bool = False) -> Any:
    xs = _several(inputs)
    along = tuple(map(torch.ones_like, xs)) if v is None else _several(v)

    def slope(*xs: Any) -> Any:
        y, _, back = _pulled(func, xs, {}, False)
        return back(torch.ones_like(y))
    _, found = pushed(slope, xs, along)
    return _kept((func(*xs), _like(found, inputs)), create_graph)


means(functional.vhp)(hvp_at)  # of a real function the Hessian is symmetric

# -- torch.autograd.grad


@torch_means("autograd.grad")
def grad_of(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None, create_graph: bool = False,
            only_inputs: bool = True, allow_unused: Any = None, is_grads_batched: bool = False,
            materialize_grads: bool = False) -> tuple[Any, ...]:
    if is_grads_batched:
        raise refused("torch.autograd.grad(is_grads_batched=True)", "this form of the call has no derivative rule",
                      "torch.func.vmap over a function of one cotangent")
    ys, xs = _several(outputs), _several(inputs)
    dys = [None] * len(ys) if grad_outputs is None else list(_several(grad_outputs))
    tracer = next(y._tracer for y in (*ys, *xs) if isinstance(y, Traced))
    tape, used, again, around = _between(tracer, xs, ys)
    seeds = tuple([_seed(y, dy) for y, dy in zip(ys, dys)])
    given = [torch.zeros_like(x) if depends else x for x, depends in zip(xs, again)]
    _, back = pullback(tape.play, *given, *around)
    dxs = list(back(seeds)[1:1 + len(xs)])
    for i, x in enumerate(xs):
        if not used[i]:
            if not (allow_unused or materialize_grads):
                raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph. Set "
                                   "allow_unused=True if this is the desired behavior.")
            dxs[i] = None
        if dxs[i] is None and (used[i] or materialize_grads):
            dxs[i] = torch.zeros_like(x)
    return tuple([dx if dx is None or create_graph else stop_gradient(dx) for dx in dxs])


def _seed(y: Any, dy: Any) -> Any:
    if dy is not None:
        return dy
    if y.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return torch.ones_like(y)


def _between(tracer: Any, xs: Sequence[Any], ys: Sequence[Any]) -> tuple[Tape, list[bool], list[bool], list[Any]]:
    """Return a tape from the values `xs` of a running trace to `ys`; for each x, whether a y depends on it, and whether
    it depends on another x; and the values of the trace that the tape takes as further arguments.
    """
    begins = [_place(tracer, x) for x in xs]
    ends = [peek(y) if isinstance(y, Traced) and y._tracer is tracer else None for y in ys]
    if None in ends:
        raise _lost("an output that this trace did not compute")
    ops = tracer.tape.ops
    depends, leads = bytearray(len(ops) + 1), leading(ops, ends)
    for op in ops:  # an input that depends on another is recomputed, plus an input of its own that is zero
        depends[op.id] = type(op) is Call and any(depends[arg.id] or arg in begins for arg in operands(op))
    outside = [original for original, op in tracer.constants.values() if leads[op.id]]
    plain_inputs = [x for x in xs if not isinstance(x, Traced)]
    if any(_reaches(known, x) for x in plain_inputs for known in outside):
        raise _lost("a tensor that was computed outside the trace",
                    "pass the tensors as arguments of the traced function")
    made, around = _slice(tracer, begins, ends, depends, leads)
    return made, [bool(leads[op.id]) for op in begins], [bool(depends[op.id]) for op in begins], around


def _slice(tracer: Any, begins: Sequence[Operation], ends: Sequence[Any], depends: bytearray,
           leads: bytearray) -> tuple[Tape, list[Any]]:
    tape, around = tracer.tape, []
    walk = Walk(tape)
    walk.new.structure = None
    walk.new.push(Input(None))

    def take(op: Operation) -> None:
        if walk.at[op.id] is None:
            walk.stand_in(op, walk.new.push(Input(plain(op.val))))
            around.append(tracer.proxy(op, op.val, tracer))
    given = {op: walk.new.push(Input(plain(op.val))) for op in begins}
    for op, x in given.items():
        if not depends[op.id]:
            walk.stand_in(op, x)
    inner = [op for op in tape.ops if type(op) is Call and depends[op.id] and leads[op.id]]
    for op in inner:
        if draws(op.fn):
            raise refused("torch.autograd.grad", f"{op!r} draws random numbers whose distribution depends on the "
                                                 "differentiated values",
                          "draw from a fixed distribution, then scale and shift")
        for arg in operands(op):
            take(arg)
        made = walk.keep(op)
        if op in given:  # add the input that has its gradient
            walk.stand_in(op, walk.new.push(Call(add, (made, given[op]), None, op.val)))
    for op in ends:
        take(op)
    put_results(walk.new, list(map(walk.bind, ends)))
    return walk.new, around


def _place(tracer: Any, x: Any) -> Operation:
    """Return the operation of an input; for an untraced tensor, its constant on the tape."""
    if isinstance(x, Traced):
        if x._tracer is not tracer:
            raise _lost("an input of an enclosing trace")
        return peek(x)
    known = tracer.constants.get(("tensor", id(x)))
    if known is None:
        raise _lost("an input that no traced operation has used")
    return known[1]  # type: ignore[no-any-return]


def _reaches(y: Any, x: Any) -> bool:
    """Return whether torch's autograd graph of the tensor `y` contains the tensor `x`."""
    stack, seen = [] if y is x else [getattr(y, "grad_fn", None)], set()
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if node is x.grad_fn or getattr(node, "variable", None) is x:
                return True
            stack += [inner for inner, _ in node.next_functions]
    return False


def _lost(what: str, try_: str = "pass the tensor as an argument of the traced function") -> UnknownFunction:
    return UnknownFunction(f"torch.autograd.grad cannot be recorded: it is called for {what}, and the gradient would "
                           "be lost", user_location(), try_)
