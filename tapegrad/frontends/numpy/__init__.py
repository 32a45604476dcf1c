"""How NumPy spells the ops: argument names, and composites written in ops; one file per family, as in ops/."""

from tapegrad.frontends.numpy import create, elementwise, index, join, linalg, reduce, running, shape, sort, write  # noqa: F401
