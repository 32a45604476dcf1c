"""layouts: offsets of the fields of CPython and NumPy objects that native code reads, probed at first use.

The probe reads Python objects the way native code does, which detects versions with another layout.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from types import MethodType
from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Offsets in bytes."""

    type: int = 8
    float: int = 16  # also NumPy scalars and complex numbers
    item: int = 24  # of a tuple, the first
    data: int = 16  # of an array
    ndim: int = 24
    shape: int = 32
    strides: int = 40
    dtype: int = 56
    flags: int = 64
    size: int = 16  # of a list
    items: int = 24
    used: int = 16  # of a dict: its number of items
    members: int = 24  # of a set: its number of items
    space: int = 16  # of a function: its globals
    code: int = 48
    defaults: int = 56
    kwdefaults: int = 64
    closure: int = 72
    attributes: int = 88  # the `__dict__` of a function
    managed: int = -24  # the `__dict__` of an object whose class has it before its objects
    cell: int = 16  # of a captured variable: its content
    bound: int = 24  # of a method: the object that it is bound to
    mro: int = 344  # of a class
    class_flags: int = 168
    vectorcall: int = 56


LAYOUT = Layout()
"""The layout in these versions of CPython with a GIL, and in NumPy 2, on 64-bit machines."""
VERSIONS = ((3, 10), (3, 11), (3, 12), (3, 13))


def fault(layout: Layout = LAYOUT) -> str:
    """Return the first field that is not where native code reads it, "" if all are."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in VERSIONS:
        return (f"the memory layout of objects in {sys.implementation.name} "
                f"{sys.version_info[0]}.{sys.version_info[1]} is not known")
    if np.lib.NumpyVersion(np.__version__).major != 2:
        return f"the memory layout of arrays in NumPy {np.__version__} is not known"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python has no global interpreter lock"
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return "this Python is not a 64-bit build"
    number, pair, array = 1.5, (object(), object()), np.arange(6.0).reshape(2, 3)
    turned, complex_, scalars = array.T, 1.5 + 2.5j, [kind(number) for kind in (
        np.float64, np.float32, np.int64, np.int32, np.complex128, np.complex64)]
    several, table = [*pair, number], {"a": pair, "b": number, "c": array}

    def function(x: object = number, *, y: object = pair) -> object:
        return several, x, y
    bare, plain = type("Bare", (dict,), {}), type("Plain", (), {})()

    def word(x: object, offset: int) -> int:
        return ctypes.c_int64.from_address(id(x) + offset).value
    sizes = word(array, layout.shape)
    cell = (function.__closure__ or ())[0]
    found = {
        "the type of an object": word(number, layout.type) == id(float) and word(array, layout.type) == id(np.ndarray),
        "a float": ctypes.c_double.from_address(id(number) + layout.float).value == number,
        "a NumPy number": all(ctypes.string_at(id(x) + layout.float, x.nbytes) == x.tobytes() for x in scalars),
        "a complex number": ctypes.string_at(id(complex_) + layout.float, 16) == np.complex128(complex_).tobytes(),
        "the items of a tuple": [word(pair, layout.item + 8 * k) for k in (0, 1)] == [id(x) for x in pair],
        "the size of a list": word(several, layout.size) == 3,
        "the items of a list": is_address(items := word(several, layout.items))
        and [ctypes.c_int64.from_address(items + 8 * k).value for k in range(3)] == list(map(id, several)),
        "the size of a dict": word(table, layout.used) == 3 and word({}, layout.used) == 0,
        "the size of a set": word({1, 2, 3}, layout.members) == 3 and word(set(), layout.members) == 0,
        "the globals of a function": word(function, layout.space) == id(function.__globals__),
        "the code of a function": word(function, layout.code) == id(function.__code__),
        "the defaults of a function": word(function, layout.defaults) == id(function.__defaults__)
        and word(fault, layout.kwdefaults) == word(word, layout.defaults) == 0,
        "the named defaults of a function": word(function, layout.kwdefaults) == id(function.__kwdefaults__),
        "the variables of a function": word(function, layout.closure) == id(function.__closure__),
        "the attributes of a function": id(function.__dict__) == word(function, layout.attributes),
        "the attributes of an object": id(plain.__dict__) == word(plain, dict_offset(type(plain), layout)),
        "the content of a captured variable": word(cell, layout.cell) == id(several),
        "the object of a method": word(MethodType(function, several), layout.bound) == id(several),
        "the flags of a class": word(bare, layout.class_flags) == bare.__flags__
        and word(int, layout.class_flags) == int.__flags__,
        "the vectorcall offset of a class": 0 < word(type(function), layout.vectorcall)
        < type(function).__basicsize__ and word(int, layout.vectorcall) == 0,
        "the bases of a class": word(bare, layout.mro) == id(bare.__mro__) and word(int, layout.mro) == id(int.__mro__),
        "the data of an array": word(array, layout.data) == array.ctypes.data,
        "the axes of an array": ctypes.c_int.from_address(id(array) + layout.ndim).value == 2
        and [ctypes.c_int64.from_address(sizes + 8 * k).value for k in (0, 1)] == [2, 3],
        "the strides of an array": [ctypes.c_int64.from_address(word(array, layout.strides) + 8 * k).value
                                    for k in (0, 1)] == [24, 8],
        "the dtype of an array": word(array, layout.dtype) == id(array.dtype),
        "the flags of an array": ctypes.c_int.from_address(id(array) + layout.flags).value & 0x101 == 0x101
        and ctypes.c_int.from_address(id(turned) + layout.flags).value & 0x103 == 0x102,
    }
    return next((f"{what} is not at the expected offset in memory" for what, holds in found.items() if not holds), "")


def dict_offset(cls: type, layout: Layout) -> int:
    """Return the offset of the pointer from objects of a class to their `__dict__`, 0 if they have none."""
    return layout.managed if cls.__flags__ & _MANAGED else cls.__dictoffset__


# the flag of a class whose objects have their `__dict__` before them
_MANAGED = 1 << 4 if sys.version_info >= (3, 11) else 0


def is_address(x: int) -> bool:
    """Return False for a word that cannot be the address of an object, and must not be dereferenced."""
    return x >> 16 > 0 and x % 8 == 0
