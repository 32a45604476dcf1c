"""bytecode: finds names, calls and jumps in a function's code, and replaces instructions by longer sequences.

Jumps and the tables of exception handlers and positions are adjusted; the stack must not get deeper.
"""

from __future__ import annotations

import dis
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import CodeType
from typing import Any, NamedTuple

_CACHE = 0 if sys.version_info >= (3, 11) else -1
_EXTENDED = dis.opmap["EXTENDED_ARG"]
_ABSOLUTE, _RELATIVE = frozenset(dis.hasjabs), frozenset(dis.hasjrel)
_BACKWARD = frozenset(number for name, number in dis.opmap.items() if "BACKWARD" in name)


# instructions whose argument holds flags below the name's number
FLAGS = {dis.opmap[name]: bits for name, bits, since in (
    ("LOAD_GLOBAL", 1, (3, 11)), ("LOAD_ATTR", 1, (3, 12)), ("LOAD_SUPER_ATTR", 2, (3, 12)))
    if sys.version_info >= since and name in dis.opmap}
_NAMING = frozenset(dis.hasname)
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_NAMED, _JUMP = (re.compile(b"[" + re.escape(bytes(number for number in kind if number < 256)) + b"]", re.DOTALL)
                 for kind in (_NAMING, _ABSOLUTE | _RELATIVE))


class Step(NamedTuple):
    """An instruction with its full argument."""

    start: int  # offset in the original code, including EXTENDED_ARG
    end: int  # offset after its inline caches
    opcode: int
    arg: int
    caches: int

    @property
    def name(self) -> str:
        return dis.opname[self.opcode]

    @property
    def target(self) -> int | None:
        """The target of a jump; None for other instructions."""
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
    """Yield (opname, name) for the instructions with these opnames; only these are decoded."""
    for match in _NAMED.finditer(opcodes := code.co_code[::2]):
        if (opname := dis.opname[opcodes[match.start()]]) in opnames:
            yield opname, name_in(code, match.start())


def name_in(code: CodeType, place: int) -> str:
    """Return the name in the instruction at a place, its index among the two-byte units."""
    return code.co_names[argument(code, place) >> FLAGS.get(code.co_code[2 * place], 0)]


def argument(code: CodeType, place: int) -> int:
    """Return the full argument of an instruction."""
    units, at = code.co_code, 2 * place
    arg, shift = units[at + 1], 8
    while at and units[at - 2] == _EXTENDED:
        at -= 2
        arg, shift = arg | units[at + 1] << shift, shift + 8
    return arg


def places_of(code: CodeType, name: str) -> list[int]:
    """Return the places of the instructions that contain a name."""
    units, found = code.co_code, list[int]()
    if name in code.co_names:
        number = code.co_names.index(name)
        for match in _NAMED.finditer(opcodes := units[::2]):
            place, flags = match.start(), FLAGS.get(opcodes[match.start()], 0)
            if units[2 * place + 1] >> flags == number & 255 >> flags and name_in(code, place) == name:
                found.append(place)
    return found


def uses_of_global(code: CodeType, name: str) -> list[tuple[int, bool]] | None:
    """Return the places of the uses of a global name, and whether each calls its value or passes it to `map`; Python
    3.11 and later mark calls by a flag. None if there is no flag, or a use is of an attribute of a global.
    """
    opcodes, found = code.co_code[::2], []
    if not FLAGS.get(_LOAD_GLOBAL):
        return None
    for place in places_of(code, name):
        owner, called = place, False
        while opcodes[owner] in ATTRIBUTES:
            owner = before(opcodes, owner)
        if opcodes[owner] == _LOAD_GLOBAL:
            if owner != place:
                return None
            called = bool(code.co_code[2 * place + 1] & 1)
            if called and sys.version_info < (3, 13) and called_with(code, place) is None:
                return None  # before 3.13 the NULL precedes the whole expression
            called = called or follows(code, place, "map")
        found.append((place, called))
    return found


ATTRIBUTES = frozenset(dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap)


def called_with(code: CodeType, place: int) -> int | None:
    """Return the number of arguments with which the callable that an instruction pushes, with its NULL, is called: -1
    if they are unpacked or named. None if it may be used otherwise, as in `type.mro(*x)`.
    """
    end = _call(code, place)
    if end is None:
        return None
    opcode, arg = code.co_code[2 * end:2 * end + 2]
    return -1 if opcode == _CALL_EX or code.co_code[2 * end - 2] == _KEYWORDS else arg


def _call(code: CodeType, place: int) -> int | None:
    """Return the place of the instruction that calls the callable that an instruction pushes, if that is known."""
    depth = 0  # stack depth above the callable
    for at in range(2 * place + 2, len(code.co_code), 2):
        opcode, arg = code.co_code[at:at + 2]
        if (opcode == _CALL and arg == depth) or (opcode == _CALL_EX and 1 + (arg & 1) == depth):
            return at // 2
        depth += dis.stack_effect(opcode, arg if opcode >= dis.HAVE_ARGUMENT else None)
        if opcode in _UNCLEAR or (depth < 1 and opcode != _CACHE):
            return None
    return None


_UNCLEAR = frozenset([_EXTENDED, *dis.hasjrel, *dis.hasjabs, *(
    number for name, number in dis.opmap.items() if name.startswith(("SWAP", "COPY", "ROT", "DUP")))])
_CALL = next(dis.opmap[name] for name in ("PRECALL", "CALL", "CALL_FUNCTION") if name in dis.opmap)
_KEYWORDS = dis.opmap.get("KW_NAMES", -1)
_CALL_EX = dis.opmap["CALL_FUNCTION_EX"]


def has_docstring(code: CodeType) -> bool:
    """Return whether the first constant is a string that no instruction loads."""
    units, consts = code.co_code, code.co_consts
    return bool(consts) and type(consts[0]) is str and not any(
        units[at] in _CONST and not units[at + 1] for at in range(0, len(units), 2))


_CONST = frozenset(dis.hasconst)


def asked_for(code: CodeType) -> set[str]:
    """Return the names of classes that code uses only as the second argument of `isinstance` or `issubclass`."""
    opcodes, asked = code.co_code[::2], set[int]()
    for place in (place for name in ASKING for place in places_of(code, name)):
        end = _call(code, place) if opcodes[place] == _LOAD_GLOBAL else None
        at, left = (place, 0) if end is None else (before(opcodes, end), 1)
        while left:
            if opcodes[at] == _TUPLE:
                left += argument(code, at) - 1
            elif opcodes[at] in ATTRIBUTES or opcodes[at] == _LOAD_GLOBAL:
                asked.add(at)
                while opcodes[at] in ATTRIBUTES:
                    at = before(opcodes, at)
                left -= 1 if opcodes[at] in _LOADS else left
            else:
                left -= 1 if opcodes[at] in _LOADS else left
            at = before(opcodes, at)
    used = {match.start() for match in _NAMED.finditer(opcodes)} - asked if asked else ()
    return {name_in(code, at) for at in asked}.difference(name_in(code, at) for at in used)


def taken_of(code: CodeType, name: str) -> set[str] | None:
    """Return the attributes that code and its nested code read of a global, `a` and `b` of `name.a.b`; None if they
    use the global in any other way.
    """
    opcodes, found = code.co_code[::2], set[str]()
    for place in places_of(code, name):
        if opcodes[place] in _READS:
            at = after(opcodes, place)
            if opcodes[at] not in ATTRIBUTES:
                return None
            while opcodes[at] in ATTRIBUTES:
                found.add(name_in(code, at))
                at = after(opcodes, at)
    for part in code.co_consts:
        if type(part) is CodeType:
            more = taken_of(part, name)
            if more is None:
                return None
            found |= more
    return found


ASKING = ("isinstance", "issubclass")
_READS = frozenset(dis.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
                   if name in dis.opmap)
_TUPLE = dis.opmap["BUILD_TUPLE"]
_LOADS = frozenset(dis.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CONST"))


def is_attribute_of(code: CodeType, name: str, owner: str) -> bool:
    """Return whether every use of a name is as an attribute of a global: `sys.modules`."""
    return all(follows(code, place, owner) for place in places_of(code, name))


def follows(code: CodeType, place: int, name: str) -> bool:
    """Return whether the previous instruction loads a global name."""
    at = before(code.co_code[::2], place)
    return at >= 0 and code.co_code[2 * at] == _LOAD_GLOBAL and name_in(code, at) == name


def before(opcodes: bytes, place: int) -> int:
    """Return the place of the previous instruction."""
    place -= 1
    while place > 0 and opcodes[place] in (_CACHE, _EXTENDED):
        place -= 1
    return place


def after(opcodes: bytes, place: int) -> int:
    """Return the place of the instruction after one."""
    place += 1
    while opcodes[place] in (_CACHE, _EXTENDED):
        place += 1
    return place


def jumps_of(code: CodeType) -> list[Step]:
    """Return the jump instructions."""
    opcodes, found = code.co_code[::2], list[Step]()
    for match in _JUMP.finditer(opcodes):
        start = at = match.start()
        end = at + 1
        while start and opcodes[start - 1] == _EXTENDED:
            start -= 1
        while end < len(opcodes) and opcodes[end] == _CACHE:
            end += 1
        found.append(Step(2 * start, 2 * end, opcodes[at], argument(code, at), end - at - 1))
    return found


def around(code: CodeType, start: int, place: int) -> list[int]:
    """Return the places of the instructions of the smallest expression that begins with the one from `start` to
    `place`, without those of its parts; a call includes the load of its keyword names.
    """
    where, opcodes = positions(code), code.co_code[::2]
    (line, _, column, _), end = where[start], where[place][1::2]
    found = [(other[1::2], at) for at, other in enumerate(where) if other[0] == line and other[2] == column
             and opcodes[at] not in _APART and other[1::2] > end]  # type: ignore[operator]
    return [at for ends, at in found if ends == min(found)[0]]


_APART = frozenset([_CACHE, _EXTENDED, dis.opmap.get("PUSH_NULL", -1)])


def with_name(opcode: int, arg: int, number: int) -> int:
    """Return the low byte of an instruction's argument for another name number."""
    flags = FLAGS.get(opcode, 0)
    return arg & (1 << flags) - 1 | number << flags


def positions(code: CodeType) -> list[tuple[int | None, ...]]:
    """Return the source position of each unit of code: first and last line, first and last column.

    Python 3.10 has no columns: the offsets of the expression's first and last instruction take their place. They follow
    from the stack: an expression's value occupies the slot of its first part.
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
_PAIRS = frozenset(["LOAD_METHOD", "DUP_TOP"])  # these push two values where one was
_LEAVING = frozenset(["RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_ABSOLUTE", "JUMP_FORWARD"])


def _effect(step: Step, jump: bool) -> int:
    return dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=jump)


def _depths(steps: list[Step]) -> dict[int, int]:
    """Return the stack depth before each reachable instruction of Python 3.10."""
    at, depths = {step.start: step for step in steps}, dict[int, int]()
    found = [(0, 1)]  # the value sent to a generator first
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


class _Moved:
    """Maps offsets to the new code; `longer` gives the additional units of each replaced instruction by its offset."""

    def __init__(self, longer: Mapping[int, int]) -> None:
        self.starts = sorted(longer)
        self.before = [0, *accumulate(longer[start] for start in self.starts)]

    def __call__(self, offset: int) -> int:
        return offset + 2 * self.before[bisect_left(self.starts, offset)]


def expanded(code: CodeType, instead: Mapping[int, Sequence[Step]], consts: tuple[Any, ...]) -> CodeType:
    """Return code with the instructions at these offsets replaced by sequences, and with these constants: the code
    between is copied, and only moved parts of the tables are rebuilt.
    """
    old, jumps = code.co_code, [step for step in jumps_of(code) if step.start not in instead]
    ends = {start: _end(old, start) for start in instead}
    ends.update((step.start, step.end - 2 * step.caches) for step in jumps)
    parts = {start: b"".join(_encoded(step.opcode, step.arg) + bytes(2 * step.caches) for step in steps)
             for start, steps in instead.items()}
    longer: dict[int, int] | None = None
    while longer != (more := {start: units for start, part in parts.items()
                              if (units := (len(part) - ends[start] + start) // 2)}):
        longer, moved = more, _Moved(more)
        for step in jumps:  # repeat until no jump needs a longer argument
            parts[step.start] = _encoded(step.opcode, _argument(step, moved), (ends[step.start] - step.start) // 2)
    made, at = bytearray(), 0
    for start in sorted(parts):
        made += old[at:start] + parts[start]
        at = ends[start]
    made += old[at:]
    if not hasattr(code, "co_exceptiontable"):  # before Python 3.11
        return code.replace(co_code=bytes(made), co_consts=consts, co_linetable=_lines(code, moved))
    tables: dict[str, Any] = {"co_exceptiontable": _handlers(code.co_exceptiontable, moved)}
    return code.replace(co_code=bytes(made), co_consts=consts, co_linetable=_locations(code.co_linetable, longer),
                        **tables)


def _end(units: bytes, start: int) -> int:
    """Return the end of an instruction, including its caches."""
    while units[start] == _EXTENDED:
        start += 2
    start += 2
    while start < len(units) and units[start] == _CACHE:
        start += 2
    return start


def _encoded(opcode: int, arg: int, least: int = 1) -> bytes:
    """Return an instruction without caches, in at least `least` units."""
    size = max(least, (arg.bit_length() + 7) // 8)
    return bytes(part for more in range(size - 1, 0, -1) for part in (_EXTENDED, arg >> 8 * more & 255)
                 ) + bytes([opcode, arg & 255])


def _argument(step: Step, moved: Callable[[int], int]) -> int:
    """Return the argument of a jump."""
    end, target = moved(step.end), moved(step.target or 0)
    return (target if step.opcode in _ABSOLUTE else end - target if step.opcode in _BACKWARD else target - end) // 2


def _locations(table: bytes, longer: Mapping[int, int]) -> bytes:
    """Return the line and column table (CPython's Objects/locations.md); longer sequences keep their position."""
    begins = [match.start() for match in _ENTRY.finditer(table)]
    ends = [*accumulate((table[begin] & 7) + 1 for begin in begins)]  # in units
    found = dict[int, int]()
    for start, units in longer.items():
        place = bisect_right(ends, start // 2)
        found[place] = found.get(place, (table[begins[place]] & 7) + 1) + units
    made, at = bytearray(), 0
    begins.append(len(table))
    for place in sorted(found):
        begin, end = begins[place:place + 2]
        kind, where = table[begin] >> 3 & 15, table[begin + 1:end]
        made += table[at:begin]
        for done in range(0, found[place], 8):
            if done and kind in (11, 12):  # the line delta applies to the first entry only
                kind = 10
            elif done and kind in (13, 14):
                where = b"\0" + where[next(k for k, part in enumerate(where) if not part & 64) + 1:]
            made += bytes([128 | kind << 3 | min(found[place] - done, 8) - 1]) + where
        at = end
    return bytes(made + table[at:])


_ENTRY = re.compile(rb"[\x80-\xff]")


def _low_first(value: int) -> bytes:
    """Return a number as groups of six bits, the lowest first."""
    if value < 64:
        return _SHORT[value]
    groups = bytearray()
    while value > 63:
        groups.append(64 | value & 63)
        value >>= 6
    return bytes([*groups, value])


_SHORT = [bytes([value]) for value in range(64)]


def _handlers(table: bytes, moved: Callable[[int], int]) -> bytes:
    """Return the table of exception handlers (CPython's Objects/exception_handling_notes.txt)."""
    numbers, value = list[int](), 0
    for byte in table:  # groups of six bits, the highest first
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    made = bytearray()
    for start, size, target, depth in zip(*[iter(numbers)] * 4):
        place = moved(2 * start) // 2
        row = [_low_first(number)[::-1] for number in (
            place, moved(2 * (start + size)) // 2 - place, moved(2 * target) // 2, depth)]
        # the highest group first; all groups but the last have the continuation bit
        row = [bytes([*[byte | 64 for byte in part[:-1]], part[-1] & 63]) for part in row]
        made += bytes([row[0][0] | 128]) + row[0][1:] + b"".join(row[1:])
    return bytes(made)


def _lines(code: CodeType, moved: Callable[[int], int]) -> bytes:
    """Return Python 3.10's line table (PEP 626)."""
    table, last = bytearray(), code.co_firstlineno
    for start, end, line in code.co_lines():
        size, step = moved(end) - moved(start), 0 if line is None else line - last
        last += step
        while not -127 <= step <= 127:
            part = max(-127, min(step, 127))
            table += bytes([0, part & 255])
            step -= part
        for done in range(0, size, 254):
            table += bytes([min(size - done, 254), 128 if line is None else 0 if done else step & 255])
    return bytes(table)
