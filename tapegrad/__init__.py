"""Reverse-mode automatic differentiation of plain NumPy and Python, on a tape that one can read."""

from tapegrad import frontends, ops
from tapegrad.back import back
from tapegrad.check import check
from tapegrad.context import Context
from tapegrad.debug.explain import Explanation, explain
from tapegrad.errors import (
    ArgumentError,
    ConcretizationError,
    DuplicateRule,
    EscapedProxy,
    GuardError,
    MalformedTape,
    MissingRule,
    MutationError,
    ReplayError,
    TapeError,
    TapeFormatError,
    UnknownFunction,
)
from tapegrad.frontends.user import stop_gradient, value
from tapegrad.grad import grad, gradient, gradtape, pullback
from tapegrad.passes import flatgrad, optimise, primitivize, roll, unroll
from tapegrad.replay.cache import compile, value_and_grad
from tapegrad.replay.exchange import from_fx
from tapegrad.replay.path import RetraceWarning
from tapegrad.rewrite import rewrite
from tapegrad.rules import primitive, rrule
from tapegrad.store.read import load
from tapegrad.tangent import NoTangent, ZeroTangent
from tapegrad.tape import Call, Constant, Guard, Input, Operation, Tape, V, Variable, call
from tapegrad.trace import trace

__version__ = "0.1.0"

__all__ = [
    "ArgumentError", "Call", "ConcretizationError", "Constant", "Context", "DuplicateRule", "EscapedProxy", "Explanation", "Guard",
    "GuardError", "Input", "MalformedTape", "MissingRule", "MutationError", "NoTangent", "Operation", "ReplayError", "RetraceWarning", "Tape",
    "TapeError", "TapeFormatError", "UnknownFunction", "V", "Variable", "ZeroTangent", "back", "call", "check", "compile", "explain",
    "flatgrad", "from_fx", "frontends", "grad", "gradient", "gradtape", "load", "ops", "optimise", "primitive", "primitivize", "pullback",
    "rewrite", "roll", "rrule", "stop_gradient", "trace", "unroll", "value", "value_and_grad",
]
