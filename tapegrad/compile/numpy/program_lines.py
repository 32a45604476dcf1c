"""program_lines: gives generated code the file and line numbers of the program, for NumPy's warnings and tracebacks.

Another line table costs nothing at run time. A code object has one file name: code from programs in several files is
left unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import CodeType
from typing import Any

from tapegrad.errors import Location
from tapegrad.trace.numpy_warnings import registry_of

_MOST = 8  # code units that one entry of a line table spans
_LINE_ONLY = 13  # kind of an entry with a line but no columns
_NONE = 15  # kind of an entry without a line


def at_program(code: CodeType, text: str, places: Mapping[str, Location], names: dict[str, Any]) -> CodeType:
    """Return code with the program's lines, which the comments in its `text` name. `names`, its globals, get the
    warning registry of the program's file.
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
    """Encode an integer as line tables do: the sign in the lowest bit, then six bits a byte, the lowest first."""
    rest, parts = abs(number) << 1 | (number < 0), bytearray()
    while rest >= 64:
        parts.append(64 | rest & 63)
        rest >>= 6
    parts.append(rest)
    return bytes(parts)
