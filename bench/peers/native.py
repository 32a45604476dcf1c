"""The gradient written by hand in C++, `bench/native/<problem>.cpp`, compiled when it is first used: called on memory
that is given once, and as a function of Python with the duties of a compiled one (`bench/native/module.cpp`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.peer import Gradient, Missing, Peer
from bench.problems.problem import Problem

FOLDER = Path(__file__).parent.parent / "native"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-fPIC")


class Call(ctypes.Structure):
    """What the function takes: see bench/native/adjoint.h."""

    _fields_ = (("data", ctypes.POINTER(ctypes.c_void_p)), ("size", ctypes.POINTER(ctypes.c_int64)),
                ("out", ctypes.POINTER(ctypes.c_void_p)))


def source(problem: Problem) -> Path:
    """Return the file with a problem's gradient, which need not exist."""
    return FOLDER / f"{problem.objective.__module__.rpartition('.')[2]}.cpp"


def compiler() -> str:
    """Return the C++ compiler: the one that CXX names, c++, g++ or clang++. Raise Missing if there is none."""
    names = (os.environ.get("CXX", ""), "c++", "g++", "clang++")
    found = next(filter(None, map(shutil.which, filter(None, names))), None)
    if found is None:
        raise Missing("there is no C++ compiler")
    return found


@lru_cache
def built(path: Path) -> Callable[..., float]:
    """Compile and load a file's `gradient`; raise Missing if the compiler refuses."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        gradient = ctypes.CDLL(str(linked(Path(name), path))).gradient
    gradient.restype = ctypes.c_double
    return gradient  # type: ignore[no-any-return]


def module(path: Path) -> Any:
    """Compile and load a file's `gradient` as a new extension module."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        loader = ExtensionFileLoader("gradient", str(linked(Path(name), path, FOLDER / "module.cpp")))
        made = module_from_spec(spec_from_loader("gradient", loader))  # type: ignore[arg-type]
    loader.exec_module(made)
    return made


def linked(folder: Path, *paths: Path) -> Path:
    """Return a library of some files; raise Missing if the compiler refuses.

    Linking does without -ffast-math: GCC would link start-up code that makes the whole process flush subnormals to 0.
    """
    library = folder / "gradient.so"
    objects = [folder / f"{path.stem}.o" for path in paths]
    headers = ("-I", sysconfig.get_path("include"), "-I", np.get_include())
    for path, arguments in (*((path, (*FLAGS, *headers, "-c", path, "-o", made)) for path, made in zip(paths, objects)),
                            (paths[0], ("-shared", *objects, "-o", library, "-lm"))):
        try:
            subprocess.run([compiler(), *map(str, arguments)], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as err:
            said = (err.stderr.splitlines() or ["no message"])[0]
            raise Missing(f"{path.name} does not compile: {said}") from None
    return library


def prepare(problem: Problem) -> Gradient:
    """Give the function its memory once, as a C++ program does: calls write the same arrays again."""
    gradient = built(source(problem))
    given = data(problem)
    size = (ctypes.c_int64 * len(problem.size))(*problem.size.values())
    found = [np.empty(np.shape(arg)) for arg in problem.args]
    call = Call(pointers(given), size, pointers(found))
    call.arrays = given, found  # they live as long as the pointers to them

    def read(value: float) -> tuple[float, tuple[Any, ...]]:
        return value, tuple(dx.copy() for dx in found)
    return Gradient(partial(gradient, ctypes.byref(call)), read)


def prepare_module(problem: Problem) -> Gradient:
    """Call a function of Python, which returns new arrays."""
    made, names = module(source(problem)), list(problem.data)
    made.prepare(data(problem), list(problem.size.values()), [names.index(name) for name in problem.wrt])
    return Gradient(partial(made.gradient, *problem.args))


def data(problem: Problem) -> list[Any]:
    """Return the data as arrays that C++ can read; raise Missing if it cannot."""
    given = [np.asarray(value, order="C") for value in problem.data.values()]
    if any(array.dtype not in (np.float64, np.int64) for array in given):
        raise Missing("the C++ takes float64 and int64")
    return given


def pointers(arrays: list[Any]) -> Any:
    """Return the addresses of arrays."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


class Native(Peer):
    """A peer whose version of a problem is a file in C++."""

    def fits(self, problem: Problem) -> bool:
        """Whether there is such a file."""
        return source(problem).is_file()

    def ready(self, problem: Problem) -> None:
        """Compile it."""
        built(source(problem))


PEERS = (Native("c++", prepare, compiler), Native("c++ module", prepare_module, compiler))
