"""Reverse-mode automatic differentiation of plain NumPy and Python, on a readable tape."""

import gc
import importlib
from typing import TYPE_CHECKING

import tapegrad.compile
import tapegrad.optimise
from tapegrad.trace.collector import collector

with collector:  # no garbage collection during imports, which would find nothing
    from tapegrad import api, frontends, numbers, ops, tree
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
        NonFiniteError,
        ReplayError,
        TapeError,
        TapeFormatError,
        UnknownFunction,
    )
    from tapegrad.frontends.user import hook, nestlevel, stop_gradient, value
    from tapegrad.numbers.cotangents import NoTangent, ZeroTangent
    from tapegrad.numbers.parallel import get_num_threads, set_num_threads
    from tapegrad.rules.differences import differences, linear
    from tapegrad.rules.user import frule, primitive, rrule
    from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, V, Variable, call
    from tapegrad.trace.checkpoint import checkpoint
    from tapegrad.trace.context import Context
    from tapegrad.trace.tracer import trace
    from tapegrad.transforms.grad import grad, gradient, gradtape, pullback, vjp
    from tapegrad.transforms.reverse import back
    from tapegrad.transforms.rewrite import rewrite

    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # puts all present objects into the oldest generation

if TYPE_CHECKING:
    from tapegrad import distributed as distributed
    from tapegrad import passes
    from tapegrad.bridges.autograd_functions import to_autograd
    from tapegrad.bridges.jax_functions import to_jax
    from tapegrad.bridges.pytensor_functions import to_pytensor
    from tapegrad.bridges.torch_functions import to_torch
    from tapegrad.compile.compiling import compile, value_and_grad
    from tapegrad.compile.curvature import divergence, gauss_newton_product, laplacian
    from tapegrad.compile.fx_import import from_fx
    from tapegrad.compile.hessian_product import hvp
    from tapegrad.compile.jacobian import hessian, jacfwd, jacobian, jacrev, value_and_jacobian
    from tapegrad.compile.path import RetraceWarning
    from tapegrad.compile.sparse import sparse_hessian, sparse_jacobian
    from tapegrad.compile.wirtinger import holomorphic_derivative, wirtinger
    from tapegrad.debug.explain import Explanation, explain
    from tapegrad.debug.finite import raise_on_nan
    from tapegrad.frontends.jax import from_jax
    from tapegrad.optimise.pipeline import optimise
    from tapegrad.optimise.roll import roll
    from tapegrad.replay import inspect
    from tapegrad.store.read import load
    from tapegrad.testing import check_grads
    from tapegrad.trace.checkpoint_loop import checkpoint_loop
    from tapegrad.transforms.flat_gradient import flatgrad
    from tapegrad.transforms.forward import forwardtape, jvp, linearize
    from tapegrad.transforms.forward_diff import forwarddiff
    from tapegrad.transforms.implicit import implicit
    from tapegrad.transforms.primitivize import primitivize
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
    "NoTangent", "NonFiniteError", "Operation", "ReplayError", "RetraceWarning", "Tape", "TapeError", "TapeFormatError",
    "UnknownFunction", "V", "Variable", "ZeroTangent", "back", "batchtape", "call", "check_grads", "checkpoint",
    "checkpoint_loop", "compile", "differences", "divergence", "explain", "flatgrad", "forwarddiff", "forwardtape",
    "from_fx", "from_jax", "frontends", "frule",
    "gauss_newton_product", "get_num_threads", "grad", "gradient", "gradtape", "hessian", "hessian_sparsity",
    "holomorphic_derivative", "hook", "hvp", "implicit", "inspect", "jacfwd", "jacobian", "jacobian_sparsity", "jacrev",
    "jvp", "laplacian", "linear", "linearize", "load",
    "nestlevel", "numbers", "ops", "optimise", "primitive", "primitivize", "pullback",
    "raise_on_nan", "rewrite", "roll", "rrule", "set_num_threads",
    "sparse_hessian", "sparse_jacobian", "stop_gradient", "taylor", "taylortape", "to_autograd", "to_jax",
    "to_pytensor", "to_torch", "trace",
    "transpose", "tree",
    "unroll", "value",
    "value_and_grad", "value_and_jacobian", "vjp", "vmap", "wirtinger",
]

LATER = {
    "bridges.autograd_functions": ("to_autograd",),
    "bridges.jax_functions": ("to_jax",),
    "bridges.pytensor_functions": ("to_pytensor",),
    "bridges.torch_functions": ("to_torch",),
    "compile.compiling": ("compile", "value_and_grad"),
    "compile.fx_import": ("from_fx",),
    "compile.jacobian": ("hessian", "jacfwd", "jacobian", "jacrev", "value_and_jacobian"),
    "compile.hessian_product": ("hvp",),
    "compile.path": ("RetraceWarning",),
    "compile.sparse": ("sparse_hessian", "sparse_jacobian"),
    "compile.curvature": ("divergence", "gauss_newton_product", "laplacian"),
    "compile.wirtinger": ("holomorphic_derivative", "wirtinger"),
    "debug.explain": ("Explanation", "explain"),
    "debug.finite": ("raise_on_nan",),
    "frontends.jax": ("from_jax",),
    "optimise.pipeline": ("optimise",),
    "optimise.roll": ("roll",),
    "store.read": ("load",),
    "testing": ("check_grads",),
    "trace.checkpoint_loop": ("checkpoint_loop",),
    "transforms.flat_gradient": ("flatgrad",),
    "transforms.forward": ("forwardtape", "jvp", "linearize"),
    "transforms.forward_diff": ("forwarddiff",),
    "transforms.implicit": ("implicit",),
    "transforms.primitivize": ("primitivize",),
    "transforms.sparsity": ("hessian_sparsity", "jacobian_sparsity"),
    "transforms.taylor": ("taylor", "taylortape"),
    "transforms.transpose": ("transpose",),
    "transforms.unroll": ("unroll",),
    "transforms.vmap": ("batchtape", "vmap"),
}
"""Public names imported on first use, by module; the modules that a gradient needs are imported with the package."""
_HOMES = {name: f"tapegrad.{module}" for module, names in LATER.items() for name in names}
_MODULES = {"inspect": "tapegrad.replay.inspect", **{name: f"tapegrad.{name}" for name in (
    "debug", "distributed", "passes", "show", "store", "testing")}}
for _package in ("compile", "optimise"):
    del globals()[_package]  # functions have these names


def __getattr__(name: str) -> object:
    """Import a public name on first use; for an unknown name, suggest tapegrad's equivalent or the closest public name.
    """
    if name in _HOMES:
        globals()[name] = found = getattr(importlib.import_module(_HOMES[name]), name)
        return found  # type: ignore[no-any-return]
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    told = importlib.import_module("tapegrad.elsewhere").told
    raise AttributeError(f"module 'tapegrad' has no attribute {name!r}{told(name, __all__)}", name=name, obj=None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
