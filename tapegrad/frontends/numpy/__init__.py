"""How NumPy spells the ops: argument names, and composites written in ops; one file per family, as in ops/."""

from tapegrad.frontends.numpy import random  # noqa: F401
from tapegrad.frontends.numpy import (  # noqa: F401
    concatenator,
    create,
    decompose,
    elementwise,
    facts,
    fft,
    functional,
    histogram,
    index,
    join,
    linalg,
    missing,
    numeric,
    polynomial,
    reduce,
    refused,
    running,
    sets,
    shape,
    sort,
    write,
)
