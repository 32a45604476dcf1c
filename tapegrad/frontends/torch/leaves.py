"""leaves: whether a traced tensor requires a gradient, and whether it is a leaf, as torch's own tape would answer.

Tensors among the arguments require a gradient, except those that a module holds constant; so do those for which the
program sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad import ops
from tapegrad.errors import MissingRule, MutationError, UnknownFunction, user_location
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules import batching
from tapegrad.rules.facts import VIEW, pointwise
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import of_frontend
from tapegrad.tape.tape import Call, Constant, Input, Operation, operands
from tapegrad.trace.recorder import TRACE_HOOKS, Tracer

# they have a gradient of 0 on torch's tape
_ROUNDING = frozenset([ops.floor, ops.ceil, ops.trunc, ops.rint, ops.round, ops.round_number, ops.floor_divide])


# level of a running tracer → whether operations require a gradient
KNOWN: dict[int, dict[Operation, bool]] = {}
# the leaves that the program has made; the operations behind them change when they are written to
MADE: dict[int, list[Any]] = {}

rebased = of_frontend(Op("rebased", lambda x, value: value, (lambda dy, y, x, value: dy, None),
                         torch=lambda x, value: value))
rebased.__doc__ = ("Return `value`, with the gradient of `x`: what torch's own tape takes a value for that it has not "
                   "seen written.")


def _dropped(dy: Any, y: Any, x: Any, name: str) -> Any:
    raise MissingRule(f"x.{name} of a tensor drops the gradient, and the function's result depends on it",
                      user_location(), "x.detach(), which drops it on purpose; or use the tensor itself")


# a tensor's numbers for display, comparison and writes; a gradient through them is refused
plainly = of_frontend(Op("plainly", lambda x, name: x, pointwise(_dropped), torch=lambda x, name: x, memory=VIEW,
                         batch=batching.elementwise))


def listen(tracer: Tracer) -> Callable[[], None]:
    """Begin a trace; return a function that ends it."""
    KNOWN[tracer.level], MADE[tracer.level] = {}, []

    def end() -> None:
        del KNOWN[tracer.level], MADE[tracer.level]
    return end


TRACE_HOOKS.append(listen)


def requires(x: Any) -> bool:
    """Return whether a tensor requires a gradient."""
    if not isinstance(x, Traced):
        return bool(x.requires_grad)
    known, tracer, top = KNOWN[x._tracer.level], x._tracer, x._op
    known.update((leaf._op, True) for leaf in MADE[tracer.level])
    stack = [top]
    while stack:
        op = stack[-1]
        below = [] if op in known else [used for used in parents(op) if used not in known]
        if below:
            stack += below
            continue
        stack.pop()
        if op not in known:
            known[op] = any(known[used] for used in parents(op)) if isinstance(op, Call) else is_required(tracer, op)
    return known[top]


def parents(op: Operation) -> list[Operation]:
    """Return the operands of an operation through which a gradient would flow."""
    if not isinstance(op, Call) or not is_real(op.val):
        return []
    if not (getattr(op.fn, "differentiable", True) or op.fn in _ROUNDING):
        return []
    through = operands(op)[:1] if op.fn is rebased else [] if op.fn is plainly else operands(op)
    return [used for used in through if is_real(used.val)]


def is_real(val: Any) -> bool:
    """True for a real or complex tensor, and for containers and objects that hold one; torch's tape records no numbers
    and no arrays.
    """
    if isinstance(val, (tuple, list)):
        return any(map(is_real, val))
    if isinstance(val, dict):
        return any(map(is_real, val.values()))
    val = plain(val)
    return bool(val.is_floating_point() or val.is_complex()) if is_tensor(val) else hasattr(val, "parameters")


def is_required(tracer: Tracer, op: Operation) -> bool:
    """Return whether an operation that is not a call requires a gradient."""
    if isinstance(op, Input):
        return is_real(op.val) and not any(x._op is op and x._held for x in tracer.inputs if is_tensor(plain(x)))
    if isinstance(op, Constant):
        return any(known is op and getattr(x, "requires_grad", False) is True for x, known in tracer.constants.values())
    return False


def is_leaf(x: Any) -> bool:
    """Return whether a tensor is a leaf: no operation that torch's tape records has made it."""
    return not requires(x) or not isinstance(x._op, Call) or x._made


class Node:
    """The `grad_fn` of a tensor that is not a leaf; it has no attributes."""

    def __getattr__(self, name: str) -> Any:
        raise UnknownFunction(f"x.grad_fn.{name} belongs to torch's own autograd graph, which is not built in a trace",
                              user_location(),
                              "x.requires_grad, x.is_leaf")


@torch_means("Tensor.grad_fn")
def grad_fn(x: Array) -> Any:
    return None if is_leaf(x) else Node()


torch_means("Tensor.requires_grad")(requires)
torch_means("Tensor.is_leaf")(is_leaf)


@torch_means("Tensor.requires_grad_")
def requires_grad_(x: Any, requires_grad: bool = True) -> Any:
    """Make a leaf require a gradient from here on, or none; return it."""
    if requires(x) is bool(requires_grad):
        return x
    if requires_grad:
        if not is_real(plain(x)):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if any(x is given for given in x._tracer.inputs):
            raise MutationError("requires_grad_() of a tensor that the trace treats as a constant", user_location(),
                                "call x.requires_grad_() outside, before calling the function")
        return marked(x)
    if x._made:
        MADE[x._tracer.level] = [leaf for leaf in MADE[x._tracer.level] if leaf is not x]
        KNOWN[x._tracer.level][x._op] = x.__dict__["_made"] = False
        return x
    if not is_leaf(x):
        raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a computed "
                           "variable in a subgraph "
                           "that doesn't require differentiation use var_no_grad = var.detach().")
    x.detach_()
    return x


def marked(x: Any) -> Any:
    """Mark a tensor that the program has made as a leaf that requires a gradient; return it."""
    x.__dict__["_made"] = True
    MADE[x._tracer.level].append(x)
    return x


@torch_means("Tensor.__deepcopy__")
def deepcopy(x: Array, memo: Any) -> Any:
    """Return a copy that is a new leaf: no gradient flows from it to the original."""
    if not is_leaf(x):
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                           "at the moment.")
    y = ops.stop_gradient(ops.copy(x))
    y.__dict__.update({name: x.__dict__[name] for name in ("_is_param", "_held") if name in x.__dict__})
    return marked(y) if requires(x) else y
