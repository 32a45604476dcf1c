"""program_lines: generated code that stands at the program's lines: there NumPy says what it warns of, and tracebacks
show them.

To give code another table of lines costs nothing when it runs. Its file can be one only: code of programs of several
files stays where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import CodeType
from typing import Any

from tapegrad.errors import Location
from tapegrad.trace.numpy_warnings import registry_of

_MOST = 8  # units of code that an entry of a table spans
_LINE_ONLY = 13  # the form of an entry that has a line, and no columns
_NONE = 15  # that of one that has not even that


def at_program(code: CodeType, text: str, places: Mapping[str, Location], names: dict[str, Any]) -> CodeType:
    """Return code compiled of a text at the program's lines, which its comments name; `names` is told what Python has
    said there.
    """
    files = {where.file for where in places.values()}
    if len(files) != 1 or sys.version_info < (3, 11):
        return code
    (file,) = files
    names["__warningregistry__"] = registry_of(file)[1]
    line, lines = next(iter(places.values())).line, [0]
    for each in text.splitlines():
        where = places.get(each.strip())
        line = line if where is None else where.line
        lines.append(line)
    return _moved(code, lines, file)


def _moved(code: CodeType, lines: list[int], file: str) -> CodeType:
    first = last = lines[code.co_firstlineno]
    table = bytearray()
    for start, end, number in code.co_lines():
        units = (end - start) // 2
        while units > 0:
            count = min(units, _MOST)
            table.append(0x80 | (_LINE_ONLY if number else _NONE) << 3 | count - 1)
            if number:
                table += _signed(lines[number] - last)
                last = lines[number]
            units -= count
    inner = tuple([_moved(each, lines, file) if isinstance(each, CodeType) else each for each in code.co_consts])
    return code.replace(co_linetable=bytes(table), co_filename=file, co_firstlineno=first, co_consts=inner)


def _signed(number: int) -> bytes:
    """Write a number as a table of lines has it: six bits at a time, the sign first."""
    rest, parts = abs(number) << 1 | (number < 0), bytearray()
    while rest >= 64:
        parts.append(64 | rest & 63)
        rest >>= 6
    parts.append(rest)
    return bytes(parts)
