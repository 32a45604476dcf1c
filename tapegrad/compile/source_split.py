"""source_split: the body of a long function in parts, each a function of its own.

Python compiles a function of 10⁵ lines three times as slowly as 100 functions of a thousand lines, and
takes a gigabyte for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from tapegrad.compile.numpy.source import Source

LONG = 4000  # lines of a body, from which on it is written in parts: below, a call in one piece costs no more to make
PART = 1000  # lines of a part
ROW = 20  # buffers made in a line

_NAME = re.compile(r"[^\W\d]\w*")
_MADE = re.compile(r"^([^\W\d]\w*(?:, [^\W\d]\w*)*) = ", re.MULTILINE)


def is_long(source: Source) -> bool:
    """True for what is better compiled in parts."""
    return len(source.body) > LONG or len(source.setup) > LONG


class Parts:
    """The parts of a body: the text of each, which of the kept buffers it is given, in one tuple, and the
    function that calls them, `main`.

    `setup` is the text of what makes the kept buffers, in parts as well: run one after the other, in one namespace.

    What a part makes and a later one needs it returns as a tuple, `_out3`, which is handed on as a whole.
    """

    def __init__(self, source: Source) -> None:
        self.setup = ["\n".join([*piece, ""]) for piece in _pieces(_together(source.setup))]
        pieces = list(_pieces(source.body)) or [[]]
        pieces[-1] = [*pieces[-1], f"return {source.result}"]
        self.texts: list[str] = []
        self.calls: list[str] = []
        self.kept: list[list[str]] = []
        # home: the part that makes a name, -1 for a leaf
        kept, home = frozenset(source.kept), dict.fromkeys(source.leaves, -1)
        words: list[list[str]] = []
        for number, piece in enumerate(pieces):
            text = "\n".join(line for line in piece if not line.startswith("#"))
            words.append(list(dict.fromkeys(_NAME.findall(text))))
            home.update((name, number) for names in _MADE.findall(text) for name in names.split(", "))
        # by part, what later ones need of it, and its place in the tuple
        out: list[dict[str, int]] = [{} for _ in pieces]
        given: list[dict[str, int]] = []  # by part, what it needs of earlier ones
        for number, found in enumerate(words):
            given.append({name: home[name] for name in found if home.get(name, number) < number})
            for name, maker in given[-1].items():
                if maker >= 0:
                    out[maker].setdefault(name, len(out[maker]))
            self.kept.append([name for name in found if name in kept])
        for number, piece in enumerate(pieces):
            self._write(number, piece, given[number], out)
        taken = ["try:", "    kept = pool.pop()", "except IndexError:", "    kept = make()"] if kept else []
        self.main = source._replace(body=[*taken, *self.calls, *["pool.append(kept)"] * bool(kept)], setup=[], kept=[],
                                    result="_result")

    def _write(self, number: int, piece: list[str], given: dict[str, int], out: list[dict[str, int]]) -> None:
        made = {name: maker for name, maker in given.items() if maker >= 0}
        parameters = [*(f"_out{maker}" for maker in sorted({*made.values()})),
                      *(name for name in given if name not in made)]
        kept = self.kept[number]
        lines = [f"{', '.join(kept)}, = _kept"] * bool(kept)
        for maker in sorted({*made.values()}):
            lines += _taken(f"_out{maker}", out[maker], [name for name in made if made[name] == maker])
        lines += piece
        if out[number]:
            lines.append(f"return {', '.join(out[number])},")
        head = f"def _part{number}({', '.join(['_kept'] * bool(kept) + parameters)}):"
        self.texts.append("\n".join([head, *(f"    {line}" for line in lines), ""]))
        to = "_result" if number == len(out) - 1 else f"_out{number}"
        self.calls.append(f"{to} = _part{number}({', '.join([f'kept[{number}]'] * bool(kept) + parameters)})")


def _taken(place: str, out: dict[str, int], names: list[str]) -> list[str]:
    """Return the lines that take names out of a tuple: one by one where they are few."""
    if 2 * len(names) < len(out):
        return [f"{name} = {place}[{out[name]}]" for name in names]
    wanted = set(names)
    return [f"{', '.join(name if name in wanted else '_' for name in out)}, = {place}"]


def maker(codes: list[CodeType], names: dict[str, Any],
          kept: list[list[str]]) -> Callable[[], tuple[tuple[Any, ...], ...]]:
    """Return the function that makes the kept buffers, and gives each part its own."""
    def make() -> tuple[tuple[Any, ...], ...]:
        made: dict[str, Any] = {}
        for code in codes:
            exec(code, names, made)
        return tuple([tuple([made[name] for name in part]) for part in kept])
    return make


_BUFFER = re.compile(r"(buffer\d+) = (\w+\()(\d+)(, \w+\))")  # memory, and an array in it
_ARRAY = re.compile(r"(\w+) = (\w+\(\([\d, ]*\), \w+, )(buffer\d+)(\)|, .*)")


def _together(lines: list[str]) -> list[str]:
    """Return the lines that make buffers with several of a kind in one,
    `b0, b1, = [ndarray((3,), float64, x) for x in (buffer0, buffer1,)]`.

    Python reads them in a fraction of the time.
    """
    alike: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    rest = []
    for line in lines:
        found = _BUFFER.fullmatch(line) or _ARRAY.fullmatch(line)
        if found is None:
            rest.append(line)
        else:
            name, call, of, end = found.groups()
            alike.setdefault((call, end, "" if of.isdecimal() else "array"), []).append((name, of))
    together = []
    for (call, end, _), made in sorted(alike.items(), key=lambda item: item[0][2]):  # memory first
        for start in range(0, len(made), ROW):
            row = made[start:start + ROW]
            together.append(f"{''.join(f'{name}, ' for name, _ in row)}= [{call}x{end} for x in "
                            f"({''.join(f'{of}, ' for _, of in row)})]")
    return together + rest


def _pieces(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines in pieces; a loop stays in one, with the line that gives its last values names of their own."""
    start = 0
    while start < len(lines):
        stop = start + PART
        while stop < len(lines) and (lines[stop].startswith(" ") or lines[stop - 1].startswith(" ")):
            stop += 1
        yield lines[start:stop]
        start = stop
