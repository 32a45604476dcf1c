"""machine: compiles LLVM IR to machine code in this process."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.native import disk_cache
from tapegrad.compile.native.arena import ARENA
from tapegrad.compile.native.emit import Lanes
from tapegrad.compile.native.guard_code import GUARDS
from tapegrad.compile.native.jobs import TOGETHER
from tapegrad.compile.native.layouts import fault
from tapegrad.compile.native.plan import Target
from tapegrad.compile.native.prelude import PRELUDE, PYTHON, VECTORCALL, spelled_out
from tapegrad.errors import ArgumentError

CALLED = tuple(re.findall(r"@(Py(?!Array)\w+)", PYTHON))
"""The functions of Python's C API that native code calls."""
NUMPY = {"PyArray_New": 93, "PyArray_NewCopy": 85, "PyArray_Scalar": 60}
"""The functions of NumPy's C API that native code calls, with their index in its table, which is stable."""
MACHINES = {"x86_64", "AMD64"}
THREADS_OF_BLAS = "scipy_openblas_get_num_threads64_"
LEVEL = 2  # optimisation level: 0 takes a quarter of the time, but the code is two to four times slower


class Machine(NamedTuple):
    """LLVM for this processor."""

    llvm: Any
    features: str
    target: Target


def obstacle() -> str:
    """Return the reason why machine code is unavailable here, "" if it is available; `mode="native"` reports it."""
    if why := fault():
        return why
    if platform.machine() not in MACHINES:
        return f"there is no native code for {platform.machine()} yet"
    others = [name for name in lacking() if name != "PyObject_Vectorcall"]
    return f"this Python does not export {others[0]}" if others else ""


def lacking() -> list[str]:
    """Return the functions of the C API that native code calls but this Python does not export."""
    return [name for name in CALLED if not hasattr(ctypes.pythonapi, name)]


@lru_cache(1)
def machine() -> Machine:
    """Return LLVM with the symbols that native code calls. Raises ArgumentError if native code is unavailable."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        raise ArgumentError('mode="native" needs llvmlite', None, "pip install llvmlite") from None
    if why := obstacle():
        raise ArgumentError(f'mode="native" is not available: {why}', None, 'mode="auto"')
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    for name in CALLED:
        if name not in lacking():
            llvm.add_symbol(name, _address(getattr(ctypes.pythonapi, name)))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    for name, number in NUMPY.items():
        llvm.add_symbol(name, ctypes.c_void_p.from_address(table + 8 * number).value)
    ctypes.CDLL(ctypes.util.find_library("m"), ctypes.RTLD_GLOBAL)
    products = _products()
    for name, product in products.items():
        llvm.add_symbol(f"tapegrad_{name}", _address(product))
    prelude = spelled_out(PRELUDE + ARENA + GUARDS + TOGETHER * bool(products))
    found = Machine(llvm, features.flatten(), Target(_lanes(features), bool(products)))
    if lacking():  # PyObject_Vectorcall alone
        _prelude.append(Code(spelled_out(VECTORCALL), found))
        llvm.add_symbol("PyObject_Vectorcall", _prelude[0].address("vectorcall"))
    _prelude.append(Code(PYTHON + prelude, found))
    for name in re.findall(r"^define \S+ @(\w+)", prelude, re.MULTILINE):
        llvm.add_symbol(name, _prelude[-1].address(name))
    return found


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def blas(name: str) -> Any:
    """Return a function of the BLAS that NumPy bundles. Raises OSError or AttributeError if there is none."""
    return ctypes.CDLL(np._core._multiarray_umath.__file__)[name]  # type: ignore[attr-defined]


def _products() -> dict[str, Any]:
    """Return the matrix products with 64-bit sizes of NumPy's BLAS, and its function for the number of threads; empty
    if NumPy uses another BLAS.
    """
    try:
        return {"blas_threads": blas(THREADS_OF_BLAS),
                **{name: blas(f"scipy_cblas_{name}64_") for name in ("dgemm", "sgemm", "zgemm", "cgemm")}}
    except (OSError, AttributeError):
        return {}


def _lanes(features: Any) -> Lanes:
    """Return the widest vectors of float64; glibc supplies vectorised functions, if it is there."""
    width = 8 if features.get("avx512f") else 4 if features.get("avx2") else 2
    try:
        ctypes.CDLL("libmvec.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        return Lanes(width)
    return Lanes(width, width > 2)


class Code:
    """Machine code, loaded from the disk cache or compiled; it lives as long as this object."""

    def __init__(self, text: str, on: Machine | None = None) -> None:
        self._on, self.text = on or machine(), text
        llvm = self._on.llvm
        key = disk_cache.key_of(text, llvmlite_version(), str(llvm.llvm_version_info), llvm.get_host_cpu_name(),
                                self._on.features, platform.machine(), str(LEVEL))
        made = disk_cache.load(key)
        if made is None:
            module = self._module()
            target = self._target()
            made = target.emit_object(module)
            disk_cache.save(key, made)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._target())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(made))
        self._engine.finalize_object()

    def _target(self) -> Any:
        llvm = self._on.llvm
        return llvm.Target.from_default_triple().create_target_machine(  # each engine takes ownership of one
            cpu=llvm.get_host_cpu_name(), features=self._on.features, opt=LEVEL, reloc="pic",
            codemodel="jitdefault", jit=True)

    def _module(self) -> Any:
        module, target = self._on.llvm.parse_assembly(self.text), self._target()
        module.triple, module.data_layout = target.triple, str(target.target_data)
        module.verify()
        return module

    @property
    def assembly(self) -> str:
        """The assembly code."""
        return str(self._target().emit_assembly(self._module()))

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


def llvmlite_version() -> str:
    import llvmlite
    return str(llvmlite.__version__)


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


FASTCALL_KEYWORDS = 0x80 | 0x02
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi))


def python_function(name: str, address: int, objects: tuple[Any, ...]) -> Any:
    """Return machine code as a Python function whose `self` is a tuple of the objects that it uses.

    It is a PyCFunction, which `ctypes` makes from an address: no other path from Python into machine code is as short.
    """
    definition = _Definition(name.encode() or b"tape", address, FASTCALL_KEYWORDS, None)
    return _new_function(ctypes.addressof(definition), (*objects, definition), None)


def shared_function(name: str, objects: tuple[Any, ...]) -> Any:
    """Return a function of the prelude as a Python function."""
    machine()
    return python_function(name, _prelude[-1].address(name), objects)


_prelude: list[Code] = []  # called by all other code, alive as long as the process
