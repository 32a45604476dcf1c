"""export: writes a tape as a standalone module that needs NumPy only."""

from __future__ import annotations

import re

import tapegrad.compile.numpy.loop_source  # noqa: F401  (registers how loops are written)
from tapegrad.compile.argument_source import Unpacked
from tapegrad.compile.numpy.inline_source import Vendor
from tapegrad.compile.numpy.source import Source, write_source
from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import quoted
from tapegrad.optimise.pipeline import EXACT, optimise
from tapegrad.optimise.roll import roll
from tapegrad.tape.tape import Guard, Tape
from tapegrad.transforms.primitivize import flattened, singly
from tapegrad.transforms.unroll import inline


def to_python(tape: Tape, name: str = "") -> str:
    """Return the source of a module with one function equivalent to `tape.play`; see `Tape.to_python`."""
    best = optimise(inline(optimise(roll(singly(flattened(tape))))), EXACT)
    _leave_level(best)
    vendor = Vendor()
    source = write_source(best, miss="_differs", spelled=vendor.imported)
    function = name or (tape.name if tape.name.isidentifier() else "function")
    if not function.isidentifier():
        raise ArgumentError(f"{function!r} cannot be the name of a Python function", None,
                            'tape.to_python(name="gradient")')

    unpacked = Unpacked(best, source.leaves, source.bind, "raise _differs()", standalone=True)
    body = [*unpacked.lines, *source.body, f"return {source.result}"]
    for key, value in source.names.items():
        vendor.define(key, value)
    lines = [f'"""{function}: {_summary(tape)}"""', ""]
    if any("\n" in text for text in vendor.definitions.values()):
        lines += ["from __future__ import annotations", ""]
    lines += [*sorted(vendor.imports, key=_standard_first), *([""] if vendor.imports else [])]
    lines += _spaced(list(vendor.definitions.values()))
    lines += ["", "", *_misses(source)]
    lines += ["", "", f"def {function}({unpacked.parameters}):", f'    """{_summary(tape)}"""',
              *(f"    {line}" for line in body)]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)) + "\n"


def _leave_level(tape: Tape) -> None:
    """Delete the guards on the differentiation level, which is zero in a module; refuse a tape of another level."""
    for guard in [op for op in tape.ops if type(op) is Guard and op.fact == "nestlevel"]:
        if guard.expected:
            raise ArgumentError(f"{tape.name} called tg.nestlevel() inside {guard.expected} other derivatives",
                                guard.where, "compile(tape)")
        tape.delete(guard)


def _summary(tape: Tape) -> str:
    where = next((op.where for op in tape.ops if op.where is not None), None)
    place = f" in {where.file.rpartition('/')[2]}" if where is not None else ""
    return f"The tape that tapegrad recorded of {tape.name or 'a function'}{place}."


def _misses(source: Source) -> list[str]:
    """Write the function that makes the error for arguments with which the program might take another path."""
    lines = ["def _differs(number=-1):",
             '    """Return the error that names the argument or value which differs from the recorded one."""']
    if source.guards:
        lines += ["    guards = [", *(f"        {_told(guard)!r}," for guard in source.guards), "    ]",
                  "    if number >= 0:",
                  '        return ValueError(f"this program was recorded where {guards[number]}; with this value it '
                  'might take another path")']
    return [*lines, '    return ValueError("this program was recorded for arguments of other types, dtypes or shapes")']


def _told(guard: Guard) -> str:
    where = f" ({guard.where.file.rpartition('/')[2]}:{guard.where.line})" if guard.where is not None else ""
    return f"{guard.fact}({guard.args[0].name}) was {quoted(guard.expected)}{where}"


def _standard_first(line: str) -> tuple[bool, str]:
    return ("numpy" in line or "scipy" in line, line)


def _spaced(definitions: list[str]) -> list[str]:
    """Put blank lines around functions."""
    lines: list[str] = []
    for text in definitions:
        lines += ["", "", text, ""] if "\n" in text else [text]
    return lines
