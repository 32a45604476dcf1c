"""passes: the tape passes, each a function from a tape to a new tape."""

from tapegrad.optimise.cse import cse
from tapegrad.optimise.dce import dce
from tapegrad.optimise.fold import fold
from tapegrad.optimise.pipeline import DEFAULT, optimise
from tapegrad.optimise.report import Report
from tapegrad.optimise.roll import roll
from tapegrad.optimise.scale_motion import factors
from tapegrad.optimise.simplify import simplify
from tapegrad.optimise.specialise import specialise
from tapegrad.optimise.store_forwarding import forwarding
from tapegrad.tape.liveness import last_uses
from tapegrad.transforms.flat_gradient import flatgrad
from tapegrad.transforms.primitivize import primitivize
from tapegrad.transforms.unroll import unroll

__all__ = ["DEFAULT", "Report", "cse", "dce", "factors", "flatgrad", "fold", "forwarding", "last_uses", "optimise",
           "primitivize", "roll",
           "simplify", "specialise", "unroll"]
