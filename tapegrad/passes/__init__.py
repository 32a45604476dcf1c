"""Passes: each a function from tape to new tape."""

from tapegrad.passes.cse import cse
from tapegrad.passes.dce import dce
from tapegrad.passes.factors import factors
from tapegrad.passes.flat import flatgrad
from tapegrad.passes.fold import fold
from tapegrad.passes.forwarding import forwarding
from tapegrad.passes.liveness import last_uses
from tapegrad.passes.optimise import DEFAULT, optimise
from tapegrad.passes.primitivize import primitivize
from tapegrad.passes.report import Report
from tapegrad.passes.roll import roll
from tapegrad.passes.simplify import simplify
from tapegrad.passes.specialise import specialise
from tapegrad.passes.unroll import unroll

__all__ = ["DEFAULT", "Report", "cse", "dce", "factors", "flatgrad", "fold", "forwarding", "last_uses", "optimise", "primitivize", "roll",
           "simplify", "specialise", "unroll"]
