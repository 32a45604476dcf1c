"""machine: LLVM's text to machine code of this process."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.native import disk_cache
from tapegrad.compile.native.emit import Lanes
from tapegrad.compile.native.layouts import fault
from tapegrad.compile.native.prelude import NAMES, PRELUDE, PYTHON
from tapegrad.errors import ArgumentError

CALLED = ("PyObject_Vectorcall", "PyObject_CallNoArgs", "PyFloat_FromDouble", "PyLong_FromLongLong",
          "PyLong_AsLongLongAndOverflow", "PyTuple_New", "PyTuple_SetItem", "Py_IncRef", "Py_DecRef", "PyErr_Occurred",
          "PyErr_ExceptionMatches", "PyErr_Clear", "PyErr_CheckSignals")
"""What native code calls of Python's interface."""
NUMPY = {"PyArray_New": 93, "PyArray_NewCopy": 85, "PyArray_Scalar": 60}
"""What it calls of NumPy's, and where that stands in NumPy's table of it, which keeps its order."""
MACHINES = {"x86_64", "AMD64"}


class Machine(NamedTuple):
    """LLVM for this processor."""

    llvm: Any
    features: str
    lanes: Lanes  # a vector's
    blas: bool  # whether NumPy's products of matrices can be called


@lru_cache(1)
def machine() -> Machine:
    """Return LLVM, once it knows what native code calls. Raises ArgumentError where there can be no native code."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        raise ArgumentError('mode="native" needs llvmlite', None, "pip install llvmlite") from None
    why = fault() or ("" if platform.machine() in MACHINES else f"there is no native code for {platform.machine()} yet")
    if why:
        raise ArgumentError(f'mode="native" cannot be had: {why}', None, 'mode="auto"')
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    for name in CALLED:
        llvm.add_symbol(name, _address(getattr(ctypes.pythonapi, name)))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    for name, number in NUMPY.items():
        llvm.add_symbol(name, ctypes.c_void_p.from_address(table + 8 * number).value)
    ctypes.CDLL(ctypes.util.find_library("m"), ctypes.RTLD_GLOBAL)
    product = _product()
    if product is not None:
        llvm.add_symbol("tapegrad_gemm", _address(product))
    found = Machine(llvm, features.flatten(), _lanes(features), product is not None)
    _prelude.append(Code(PYTHON + PRELUDE, found))
    for name in NAMES:
        llvm.add_symbol(name, _prelude[0].address(name))
    return found


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _product() -> Any:
    """Return CBLAS's dgemm of 64-bit sizes that NumPy calls, None where its BLAS is another."""
    try:
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
        return library.scipy_cblas_dgemm64_
    except (OSError, AttributeError):
        return None


def _lanes(features: Any) -> Lanes:
    """Return the widest vectors; their functions are glibc's, where it is there."""
    width, prefix = (8, "_ZGVeN8") if features.get("avx512f") else (4, "_ZGVdN4") if features.get("avx2") else (2, "")
    try:
        ctypes.CDLL("libmvec.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        prefix = ""
    return Lanes(width, prefix)


class Code:
    """Machine code, for as long as this object lives: as an earlier process has left it on disk, or compiled."""

    def __init__(self, text: str, on: Machine | None = None) -> None:
        self._on, self.text = on or machine(), text
        llvm = self._on.llvm
        key = disk_cache.key_of(text, llvmlite_version(), str(llvm.llvm_version_info), llvm.get_host_cpu_name(),
                                self._on.features, platform.machine())
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
        return llvm.Target.from_default_triple().create_target_machine(  # each engine takes one over
            cpu=llvm.get_host_cpu_name(), features=self._on.features, opt=2, reloc="pic", codemodel="jitdefault",
            jit=True)

    def _module(self) -> Any:
        module, target = self._on.llvm.parse_assembly(self.text), self._target()
        module.triple, module.data_layout = target.triple, str(target.target_data)
        module.verify()
        return module

    @property
    def assembly(self) -> str:
        """The processor's instructions, as text."""
        return str(self._target().emit_assembly(self._module()))

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


def llvmlite_version() -> str:
    """Return the version of llvmlite."""
    import llvmlite
    return str(llvmlite.__version__)


_prelude: list[Code] = []  # what all other code calls, for as long as the process lives
