"""lazy_frontends: frontends of optional modules, each imported once the program has imported the module."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings

# By module: the frontends that register its functions, in order; an entry is removed once they have.
_SCIPY = ("special", "linalg", "signal", "stats", "integrate", "interpolate",
          "optimize", "fft", "ndimage", "spatial", "spatial.distance", "spatial.transform",
          "sparse", "sparse.linalg")
_WAITING: dict[str, tuple[str, ...]] = {
    **{f"scipy.{name}": (f"frontends.scipy.{name.replace('.', '_')}",) for name in _SCIPY},
    **{f"{owner}array_api_compat.common._helpers": ("frontends.array_api",)
       for owner in ("", "scipy._lib.", "scipy._external.", "sklearn.externals.")},
    "numpy.random": ("frontends.numpy.random",), "numpy.ma.core": ("frontends.numpy.masked",),
    "torch": ("frontends.torch",), "torch.autograd": ("compile.torch.autograd",),
    "torch.distributed.distributed_c10d": ("frontends.torch.collective",),  # if torch was built with it
    "torch.distributed.tensor": ("frontends.torch.dtensor",),
    **{f"torch.distributed.{name}": ("frontends.torch.functional_collective",)
       for name in ("_functional_collectives", "nn.functional")},
    "json": ("frontends.json",), "statistics": ("frontends.statistics",), "numba": ("frontends.numba",),
    "mpmath": ("frontends.mpmath", "frontends.intervals"),
    **{f"jax{name}": ("frontends.jax",) for name in ("", *(f".{part}" for part in (
        "numpy", "lax", "nn", "random", "image", "ops")), *(f".scipy.{part}" for part in (*_SCIPY, "cluster.vq")))},
    **dict.fromkeys(("sympy", "uncertainties", "gmpy2", "pint", "astropy.units"), ("frontends.number_libraries",))}
for _name, *_more in (("integrate", "ode"), ("interpolate", "interpolate_fitpack"), ("linalg", "linalg_structured"),
                      ("ndimage", "ndimage_spline", "ndimage_order"), ("optimize", "optimize_programs"),
                      ("signal", "signal_design"), ("sparse", "sparse_arithmetic")):
    _WAITING[f"scipy.{_name}"] += tuple(f"frontends.scipy.{more}" for more in _more)
_lock = threading.RLock()
# the number of modules, and the last, when all that had been imported were registered
_settled: list[tuple[int, str] | None] = [None]


def register_imported() -> None:
    """Register the functions of the modules that have been imported by now; called when a trace begins.

    The first call imports `numpy.random`, half as costly as importing tapegrad: NumPy would do so when a program first
    names it, perhaps while traces of other threads have functions of NumPy replaced.
    """
    if "numpy.random" in _WAITING:
        importlib.import_module("numpy.random")
    state = len(sys.modules), next(reversed(sys.modules))
    if state == _settled[0]:  # nothing was imported since
        return
    if _WAITING.copy().keys().isdisjoint(sys.modules.keys()):  # a copy: another thread may be registering
        _settled[0] = state
        return
    with _lock:
        for name in [name for name in list(_WAITING) if sys.modules.get(name) is not None]:
            # another thread is importing it
            if not getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                _register(name)


def _register(name: str) -> None:
    try:
        for each in _WAITING[name]:
            frontend = importlib.import_module(f"tapegrad.{each}")
            if hasattr(frontend, "added"):  # a frontend of several modules
                frontend.added(name)
    except (ImportError, AttributeError) as err:
        warnings.warn(f"tapegrad does not support this version of {name}, and will refuse some of its functions: {err}",
                      stacklevel=3)
    del _WAITING[name]
