"""Reverse-mode automatic differentiation of plain NumPy and Python, on a tape that one can read."""

import tapegrad.compile.steps
from tapegrad import api, frontends, numbers, ops, passes, tree
from tapegrad.compile.cache import compile, value_and_grad
from tapegrad.compile.exchange import from_fx
from tapegrad.compile.jacobian import hessian, hvp, jacfwd, jacobian, jacrev, value_and_jacobian
from tapegrad.compile.path import RetraceWarning
from tapegrad.compile.sparse import sparse_hessian, sparse_jacobian
from tapegrad.compile.traces import divergence, gauss_newton_product, laplacian
from tapegrad.compile.wirtinger import holomorphic_derivative, wirtinger
from tapegrad.debug.explain import Explanation, explain
from tapegrad.errors import (
    ArgumentError,
    CallError,
    ConcretizationError,
    DuplicateRule,
    EffectWarning,
    EscapedProxy,
    GuardError,
    MalformedTape,
    MissingPackage,
    MissingRule,
    MutationError,
    ReplayError,
    TapeError,
    TapeFormatError,
    UnknownFunction,
)
from tapegrad.frontends.user import hook, nestlevel, stop_gradient, value
from tapegrad.numbers.cotangents import NoTangent, ZeroTangent
from tapegrad.optimise.pipeline import optimise
from tapegrad.optimise.roll import roll
from tapegrad.replay import inspect
from tapegrad.rules.user import frule, primitive, rrule
from tapegrad.store.read import load
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, V, Variable, call
from tapegrad.testing import check_grads
from tapegrad.trace.checkpoint import checkpoint
from tapegrad.trace.checkpoint_loop import checkpoint_loop
from tapegrad.trace.context import Context
from tapegrad.trace.tracer import trace
from tapegrad.transforms.flat_gradient import flatgrad
from tapegrad.transforms.forward import forwardtape, jvp, linearize
from tapegrad.transforms.forward_diff import forwarddiff
from tapegrad.transforms.grad import grad, gradient, gradtape, pullback, vjp
from tapegrad.transforms.implicit import implicit
from tapegrad.transforms.primitivize import primitivize
from tapegrad.transforms.reverse import back
from tapegrad.transforms.rewrite import rewrite
from tapegrad.transforms.sparsity import hessian_sparsity, jacobian_sparsity
from tapegrad.transforms.taylor import taylor, taylortape
from tapegrad.transforms.transpose import transpose
from tapegrad.transforms.unroll import unroll
from tapegrad.transforms.vmap import batchtape, vmap

__version__ = "0.1.0"

__all__ = [
    "ArgumentError", "Call", "CallError", "ConcretizationError", "Constant", "Context", "DuplicateRule",
    "EffectWarning", "EscapedProxy", "Explanation", "Guard", "GuardError", "Input", "MalformedTape", "MissingPackage",
    "MissingRule", "MutationError",
    "NoTangent", "Operation", "ReplayError", "RetraceWarning", "Tape", "TapeError", "TapeFormatError",
    "UnknownFunction", "V", "Variable", "ZeroTangent", "back", "batchtape", "call", "check_grads", "checkpoint",
    "checkpoint_loop", "compile", "divergence", "explain", "flatgrad", "forwarddiff", "forwardtape", "from_fx",
    "frontends", "frule",
    "gauss_newton_product", "grad", "gradient", "gradtape", "hessian", "hessian_sparsity", "holomorphic_derivative",
    "hook", "hvp", "implicit", "inspect", "jacfwd", "jacobian", "jacobian_sparsity", "jacrev", "jvp",
    "laplacian", "linearize", "load",
    "nestlevel", "numbers", "ops", "optimise", "primitive", "primitivize", "pullback", "rewrite", "roll", "rrule",
    "sparse_hessian", "sparse_jacobian", "stop_gradient", "taylor", "taylortape", "trace", "transpose", "tree",
    "unroll", "value",
    "value_and_grad", "value_and_jacobian", "vjp", "vmap", "wirtinger",
]


def __getattr__(name: str) -> object:
    """Say what a name of another library, or a slip, is called here."""
    from tapegrad.elsewhere import told

    raise AttributeError(f"module 'tapegrad' has no attribute {name!r}{told(name, __all__)}", name=name,
                         obj=None)
