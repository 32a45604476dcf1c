"""NumPy's functions that need no implementation in ops: those that take no traced value, and Python code that is traced
as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.frontends.common import written
from tapegrad.rules.registry import CONSTANT, TRACED_THROUGH, leave, register


def named(names: str, space: Any = np) -> list[Any]:
    """Return the functions with these names that this version of NumPy has."""
    return [getattr(space, name) for name in names.split() if hasattr(space, name)]


leave(*named("""
    errstate geterr geterrcall get_include get_printoptions getbufsize printoptions set_printoptions setbufsize
    seterr seterrcall
    show_config show_runtime info test"""), *named("test", np.linalg), *named("test", np.fft), why="settings and text")
leave(*named("genfromtxt load loadtxt fromfile fromregex fromstring frombuffer from_dlpack memmap"),
      why="reads numbers from outside")
leave(*named("""
    bartlett blackman hamming hanning broadcast_shapes diag_indices mask_indices ndindex tril_indices triu_indices
    base_repr binary_repr"""),
      why="takes shapes and counts, and returns plain values")
leave(*named("datetime_data dtype finfo iinfo isdtype issubdtype mintypecode promote_types typename"),
      why="takes dtypes")
leave(*named("broadcast nested_iters"), why="C code that iterates over plain arrays: a traced array raises")
leave(*named("frompyfunc"), why="makes a ufunc of a Python function, which is called for each number")
leave(*named("matrix recarray record busdaycalendar flatiter ndarray"), why="a class that no traced value belongs to")
leave(*[value for value in vars(np).values() if isinstance(value, type) and issubclass(value, np.generic)
        and value is not np.record],
      why="a type of numbers, which needs a plain number: a traced one raises, or is guarded")
leave(np.linalg.LinAlgError, why="an exception")

# Python code of NumPy's own that calls only functions implemented in ops: it runs as it is, with its global names
# pointing at the replacements
for _fn in [
    *named("""
        append apply_over_axes argwhere average common_type corrcoef cov diag_indices_from dsplit dstack
        extract fix flatnonzero fliplr flipud geomspace histogram2d hsplit hstack ix_
        poly polyfit real_if_close resize rollaxis roots setdiff1d setxor1d sort_complex trapezoid
        trapz tril_indices_from trim_zeros triu_indices_from union1d unwrap vander vsplit vstack"""),
    *named("cross tensorinv vector_norm", np.linalg), *named("fftshift hfft ifftshift ihfft", np.fft),
    *named("arccos arcsin arctanh log log10 log2 logn power sqrt", np.emath),
]:
    register(_fn, written(_fn))
TRACED_THROUGH.update(named("fromfunction poly1d row_stack vectorize ndenumerate"), named("fftfreq rfftfreq", np.fft))
CONSTANT.update(named("isfortran isscalar iterable"))
# attributes are facts, read with a guard because a program may branch on them
CONSTANT.update(named("device dtype flags itemsize nbytes ndim shape size strides", np.ndarray))
