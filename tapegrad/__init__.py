"""Reverse-mode automatic differentiation of plain NumPy and Python, on a tape that one can read."""

from tapegrad import frontends, ops
from tapegrad.back import back
from tapegrad.check import check
from tapegrad.context import Context
from tapegrad.errors import (
    ArgumentError,
    ConcretizationError,
    DuplicateRule,
    EscapedProxy,
    GuardError,
    MalformedTape,
    MissingRule,
    MutationError,
    TapeError,
    UnknownFunction,
)
from tapegrad.frontends.user import stop_gradient, value
from tapegrad.grad import grad, gradient, gradtape, pullback
from tapegrad.passes.primitivize import primitivize
from tapegrad.rewrite import rewrite
from tapegrad.rules import primitive, rrule
from tapegrad.tangent import NoTangent, ZeroTangent
from tapegrad.tape import Call, Constant, Guard, Input, Operation, Tape, V, Variable, call
from tapegrad.trace import trace

__version__ = "0.1.0"
