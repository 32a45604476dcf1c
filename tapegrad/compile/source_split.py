"""source_split: the body of a long function in parts, each a function of its own.

Python compiles a function of 10⁵ lines three times as slowly as 100 functions of a thousand lines, and
takes a gigabyte for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tapegrad.compile.numpy.source import Source

LONG = 4000  # lines of a body, from which on it is written in parts: below, a call in one piece costs no more to make
PART = 1000  # lines of a part

_NAME = re.compile(r"[^\W\d]\w*")
_MADE = re.compile(r"^([^\W\d]\w*(?:, [^\W\d]\w*)*) = ", re.MULTILINE)


def is_long(source: Source) -> bool:
    """True for what is better compiled in parts."""
    return len(source.body) > LONG


class Parts:
    """The parts of a body: the text of each, and the function that calls them, `main`.

    What a part makes and a later one needs it returns as a tuple, `_out3`, which is handed on as a whole.
    """

    def __init__(self, source: Source) -> None:
        pieces = list(_pieces(source.body)) or [[]]
        pieces[-1] = [*pieces[-1], f"return {source.result}"]
        self.texts: list[str] = []
        self.calls: list[str] = []
        # home: the part that makes a name, -1 for a leaf
        home = dict.fromkeys(source.leaves, -1)
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
        for number, piece in enumerate(pieces):
            self._write(number, piece, given[number], out)
        self.main = source._replace(body=self.calls, result="_result")

    def _write(self, number: int, piece: list[str], given: dict[str, int], out: list[dict[str, int]]) -> None:
        made = {name: maker for name, maker in given.items() if maker >= 0}
        parameters = [*(f"_out{maker}" for maker in sorted({*made.values()})),
                      *(name for name in given if name not in made)]
        lines = list[str]()
        for maker in sorted({*made.values()}):
            lines += _taken(f"_out{maker}", out[maker], [name for name in made if made[name] == maker])
        lines += piece
        if out[number]:
            lines.append(f"return {', '.join(out[number])},")
        head = f"def _part{number}({', '.join(parameters)}):"
        self.texts.append("\n".join([head, *(f"    {line}" for line in lines), ""]))
        to = "_result" if number == len(out) - 1 else f"_out{number}"
        self.calls.append(f"{to} = _part{number}({', '.join(parameters)})")


def _taken(place: str, out: dict[str, int], names: list[str]) -> list[str]:
    """Return the lines that take names out of a tuple: one by one where they are few."""
    if 2 * len(names) < len(out):
        return [f"{name} = {place}[{out[name]}]" for name in names]
    wanted = set(names)
    return [f"{', '.join(name if name in wanted else '_' for name in out)}, = {place}"]


def _pieces(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines in pieces; a loop stays in one, with the line that gives its last values names of their own."""
    start = 0
    while start < len(lines):
        stop = start + PART
        while stop < len(lines) and (lines[stop].startswith(" ") or lines[stop - 1].startswith(" ")):
            stop += 1
        yield lines[start:stop]
        start = stop
