"""bytecode: where code of a Python function names, calls and jumps; code in which some instructions are replaced by
longer sequences.

Jumps, the table of exception handlers and the table of positions are made anew; the stack's depth must not grow.
"""

from __future__ import annotations

import dis
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

_CACHE = 0 if sys.version_info >= (3, 11) else -1
_EXTENDED = dis.opmap["EXTENDED_ARG"]
_ABSOLUTE, _RELATIVE = frozenset(dis.hasjabs), frozenset(dis.hasjrel)
_BACKWARD = frozenset(number for name, number in dis.opmap.items() if "BACKWARD" in name)


# a name's number stands beside flags in these
FLAGS = {dis.opmap[name]: bits for name, bits, since in (
    ("LOAD_GLOBAL", 1, (3, 11)), ("LOAD_ATTR", 1, (3, 12)), ("LOAD_SUPER_ATTR", 2, (3, 12)))
    if sys.version_info >= since and name in dis.opmap}
_NAMING = frozenset(dis.hasname)
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


class Step(NamedTuple):
    """An instruction with its whole argument."""

    start: int  # where it begins in the code it was read from, with what extends its argument
    end: int  # where it ends, with its caches
    opcode: int
    arg: int
    caches: int

    @property
    def name(self) -> str:
        return dis.opname[self.opcode]

    @property
    def target(self) -> int | None:
        """Where a jump leads; None for other instructions."""
        if self.opcode in _RELATIVE:
            return self.end + 2 * (-self.arg if self.opcode in _BACKWARD else self.arg)
        return 2 * self.arg if self.opcode in _ABSOLUTE else None


def steps_of(code: CodeType) -> list[Step]:
    """Return the instructions of code."""
    units, found, start, at, arg = code.co_code, list[Step](), 0, 0, 0
    while at < len(units):
        opcode, arg, at = units[at], arg << 8 | units[at + 1], at + 2
        if opcode == _EXTENDED:
            continue
        after = at
        while after < len(units) and units[after] == _CACHE:
            after += 2
        found.append(Step(start, after, opcode, arg, (after - at) // 2))
        start, at, arg = after, after, 0
    return found


def named(code: CodeType, opnames: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the instructions of these kinds, as `dis` calls them, each with the name in it: those alone are decoded."""
    for place, opcode in enumerate(code.co_code[::2]):
        if dis.opname[opcode] in opnames:
            yield dis.opname[opcode], name_in(code, place)


def name_in(code: CodeType, place: int) -> str:
    """Return the name in an instruction, by its place among the units of code."""
    return code.co_names[argument(code, place) >> FLAGS.get(code.co_code[2 * place], 0)]


def argument(code: CodeType, place: int) -> int:
    """Return the whole argument of an instruction."""
    units, at = code.co_code, 2 * place
    arg, shift = units[at + 1], 8
    while at and units[at - 2] == _EXTENDED:
        at -= 2
        arg, shift = arg | units[at + 1] << shift, shift + 8
    return arg


def uses_of_global(code: CodeType, name: str) -> list[tuple[int, bool]] | None:
    """Return the places of the instructions that load a global name, and whether each calls it or hands it to `map`:
    Python 3.11 and later say so in a flag. None where nothing says it, or the name is another's too.
    """
    opcodes, found = code.co_code[::2], []
    if not FLAGS.get(_LOAD_GLOBAL):
        return None
    for place, opcode in enumerate(opcodes):
        if opcode in _NAMING and name_in(code, place) == name:
            if opcode != _LOAD_GLOBAL:
                return None
            called = bool(code.co_code[2 * place + 1] & 1)
            if called and sys.version_info < (3, 13) and called_with(code, place) is None:
                return None  # before 3.13 the null stands before all of an expression
            found.append((place, called or _follows(code, place, "map")))
    return found


def called_with(code: CodeType, place: int) -> int | None:
    """Return with how many arguments that is called which stands on the stack after an instruction, with its null: -1
    where they are unpacked or named. None where something else may be done with it, as in `type.mro(*x)`.
    """
    depth = 0  # of the stack, above what is called
    for at in range(2 * place + 2, len(code.co_code), 2):
        opcode, arg = code.co_code[at:at + 2]
        if opcode == _CALL and arg == depth:
            return -1 if code.co_code[at - 2] == _KEYWORDS else arg
        if opcode == _CALL_EX and 1 + (arg & 1) == depth:
            return -1
        depth += dis.stack_effect(opcode, arg if opcode >= dis.HAVE_ARGUMENT else None)
        if opcode in _UNCLEAR or (depth < 1 and opcode != _CACHE):
            return None
    return None


_UNCLEAR = frozenset([_EXTENDED, *dis.hasjrel, *dis.hasjabs, *(
    number for name, number in dis.opmap.items() if name.startswith(("SWAP", "COPY", "ROT", "DUP")))])
_CALL = dis.opmap.get("PRECALL", dis.opmap.get("CALL"))
_KEYWORDS = dis.opmap.get("KW_NAMES", -1)
_CALL_EX = dis.opmap["CALL_FUNCTION_EX"]


def is_attribute_of(code: CodeType, name: str, owner: str) -> bool:
    """Return whether every use of a name is that of an attribute of what a global name holds: `sys.modules`."""
    return all(_follows(code, place, owner) for place, opcode in enumerate(code.co_code[::2])
               if opcode in _NAMING and name_in(code, place) == name)


def _follows(code: CodeType, place: int, name: str) -> bool:
    """Return whether the instruction before one loads a global name."""
    opcodes, before = code.co_code[::2], place - 1
    while before > 0 and opcodes[before] in (_CACHE, _EXTENDED):
        before -= 1
    return before >= 0 and opcodes[before] == _LOAD_GLOBAL and name_in(code, before) == name


def targets_of(code: CodeType) -> set[int]:
    """Return the places to which jumps lead."""
    opcodes = code.co_code[::2]
    jumps = [place for place, opcode in enumerate(opcodes) if opcode in _RELATIVE or opcode in _ABSOLUTE]
    found = set()
    for place in jumps:
        end, arg = place + 1, argument(code, place)
        while end < len(opcodes) and opcodes[end] == _CACHE:
            end += 1
        found.add(arg if opcodes[place] in _ABSOLUTE else end - arg if opcodes[place] in _BACKWARD else end + arg)
    return found


class Placed(NamedTuple):
    """An instruction with the name in it, "" where there is none, and where it stands in the text, as `positions` says.
    """

    opcode: int
    arg: int
    offset: int  # of itself, behind what extends its argument
    name: str
    positions: tuple[int | None, ...]

    @property
    def opname(self) -> str:
        return dis.opname[self.opcode]


def placed(code: CodeType) -> list[Placed]:
    """Return the instructions of code, as `dis` does in several times the time."""
    names, where = code.co_names, positions(code)
    found = []
    for _, end, opcode, arg, caches in steps_of(code):
        offset = end - 2 * caches - 2
        name = names[arg >> FLAGS.get(opcode, 0)] if opcode in _NAMING else ""
        found.append(Placed(opcode, arg, offset, name, where[offset // 2]))
    return found


def with_name(opcode: int, arg: int, number: int) -> int:
    """Return the argument, without what extends it, of an instruction that takes another name."""
    flags = FLAGS.get(opcode, 0)
    return arg & (1 << flags) - 1 | number << flags


def positions(code: CodeType) -> list[tuple[int | None, ...]]:
    """Return where each unit of code stands in the text: first and last line, first and last column.

    Python 3.10 has no columns: in their place are the offsets of the instructions that begin and end the expression.
    These follow from the stack: an expression's value stands where that of its first part has stood.
    """
    if hasattr(code, "co_positions"):
        return list(code.co_positions())
    steps = steps_of(code)
    depths, begins, found = _depths(steps), list[int](), list[tuple[int | None, ...]]()
    for step in steps:
        begin = offset = step.end - 2
        depth = depths.get(step.start)
        if depth is not None and step.name.startswith(_VALUES):
            begins = begins[:depth] + [offset] * (depth - len(begins))
            place = depth + _effect(step, False) - (2 if step.name in _PAIRS else 1)
            begin = begins[place] if place < depth else offset
            begins[place:] = [begin]
        found += [(0, 0, begin, offset)] * ((step.end - step.start) // 2)
    return found


_VALUES = ("LOAD_", "CALL_", "BINARY_", "UNARY_", "COMPARE_", "BUILD_", "FORMAT_", "MAKE_", "IS_", "CONTAINS_", "DUP_")
_PAIRS = frozenset(["LOAD_METHOD", "DUP_TOP"])  # these leave two where one was
_LEAVING = frozenset(["RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_ABSOLUTE", "JUMP_FORWARD"])


def _effect(step: Step, jump: bool) -> int:
    return dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=jump)


def _depths(steps: list[Step]) -> dict[int, int]:
    """Return how much stands on the stack before each instruction of Python 3.10 that is reached."""
    at, depths = {step.start: step for step in steps}, dict[int, int]()
    found = [(0, 1)]  # what a generator takes first
    while found:
        start, depth = found.pop()
        if start in depths or start not in at:
            continue
        step, depths[start] = at[start], depth
        if step.target is not None:
            found.append((step.target, depth + _effect(step, True)))
        if step.name not in _LEAVING:
            found.append((step.end, depth + _effect(step, False)))
    return depths


def expanded(code: CodeType, instead: Mapping[int, Sequence[Step]], consts: tuple[Any, ...]) -> CodeType:
    """Return code with sequences in place of the instructions that begin at these offsets, and these constants."""
    made = [(new, step.start, number) for step in steps_of(code)
            for number, new in enumerate(instead.get(step.start, (step,)))]
    args = [step.arg for step, _, _ in made]
    sizes, needed = list[int](), list(map(_size, made, args))
    while sizes != needed:  # until no jump needs a longer argument
        sizes, place, ends = needed, 0, list[int]()
        places = dict[int, int]()  # where instructions begin, by where they began
        for (_, start, number), size in zip(made, sizes):
            if not number:
                places[start] = place
            place += 2 * size
            ends.append(place)
        places[len(code.co_code)] = place
        args = [step.arg if start in instead else _argument(step, places, end)
                for (step, start, _), end in zip(made, ends)]
        needed = list(map(max, sizes, map(_size, made, args)))
    units = bytearray()
    for (step, _, _), arg, size in zip(made, args, sizes):
        for more in range(size - 1 - step.caches, 0, -1):
            units += bytes([_EXTENDED, arg >> 8 * more & 255])
        units += bytes([step.opcode, arg & 255, *bytes(2 * step.caches)])
    lines = [(start, size) for (_, start, _), size in zip(made, sizes)]
    if not hasattr(code, "co_exceptiontable"):  # before Python 3.11
        return code.replace(co_code=bytes(units), co_consts=consts, co_linetable=_lines(code, lines))
    tables: dict[str, Any] = {"co_exceptiontable": _handlers(code.co_exceptiontable, places)}
    return code.replace(co_code=bytes(units), co_consts=consts, co_linetable=_positions(code, lines), **tables)


def _size(made: tuple[Step, int, int], arg: int) -> int:
    """Return how many units an instruction has, with what extends its argument."""
    return 1 + (max(arg.bit_length(), 1) - 1) // 8 + made[0].caches


def _argument(step: Step, places: Mapping[int, int], end: int) -> int:
    """Return the argument of an instruction that ends at a new place."""
    if step.target is None:
        return step.arg
    target = places[step.target]
    return (target if step.opcode in _ABSOLUTE else end - target if step.opcode in _BACKWARD else target - end) // 2


def _positions(code: CodeType, sizes: Sequence[tuple[int, int]]) -> bytes:
    """Return the table of lines and columns (CPython's Objects/locations.md)."""
    known, table, last = list(code.co_positions()), bytearray(), code.co_firstlineno  # type: ignore[attr-defined]
    for start, size in sizes:
        line, end_line, column, end_column = known[start // 2]
        kind = 15 if line is None else 13 if column is None else 14
        where = b""
        if column is not None:
            where = _low_first(end_line - line) + _low_first(column + 1) + _low_first(end_column + 1)
        for done in range(0, size, 8):
            table.append(128 | kind << 3 | min(size - done, 8) - 1)
            if line is not None:
                step, last = line - last, line
                table += _low_first(-step << 1 | 1 if step < 0 else step << 1) + where
    return bytes(table)


def _low_first(value: int) -> bytes:
    """Return a number in groups of six bits, the lowest first."""
    if value < 64:
        return _SHORT[value]
    groups = bytearray()
    while value > 63:
        groups.append(64 | value & 63)
        value >>= 6
    return bytes([*groups, value])


_SHORT = [bytes([value]) for value in range(64)]


def _handlers(table: bytes, places: Mapping[int, int]) -> bytes:
    """Return the table of exception handlers (CPython's Objects/exception_handling_notes.txt)."""
    numbers, value = list[int](), 0
    for byte in table:  # in groups of six bits, the highest first
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    made = bytearray()
    for start, size, target, depth in zip(*[iter(numbers)] * 4):
        place = places[2 * start]
        row = [_low_first(number)[::-1] for number in (
            place // 2, (places[2 * (start + size)] - place) // 2, places[2 * target] // 2, depth)]
        # the highest group comes first, and all but the last say that more follow
        row = [bytes([*[byte | 64 for byte in part[:-1]], part[-1] & 63]) for part in row]
        made += bytes([row[0][0] | 128]) + row[0][1:] + b"".join(row[1:])
    return bytes(made)


def _lines(code: CodeType, sizes: Sequence[tuple[int, int]]) -> bytes:
    """Return Python 3.10's table of lines (PEP 626)."""
    ranges = [(start, line) for start, _, line in code.co_lines()]
    table, last = bytearray(), code.co_firstlineno
    for start, size in sizes:
        line = ranges[bisect_right(ranges, start, key=lambda pair: pair[0]) - 1][1]
        if line is None:
            table += bytes([2 * size, 128])
            continue
        step, last = line - last, line
        while not -127 <= step <= 127:
            part = max(-127, min(step, 127))
            table += bytes([0, part & 255])
            step -= part
        table += bytes([2 * size, step & 255])
    return bytes(table)
