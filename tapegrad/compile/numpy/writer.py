"""writer: what the writers of a tape and of its loops' bodies have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.compile.source_names import Names
from tapegrad.errors import Location
from tapegrad.tape.tape import Guard


class Shared:
    """How to write, the names, what is made once, and the guards of one function."""

    def __init__(self, buffers: bool, allowed: bool, miss: str, names: Names) -> None:
        self.buffers, self.allowed, self.miss, self.names = buffers, allowed, miss, names
        self.setup: list[str] = []
        self.memory = 0  # buffers
        self.places: dict[str, str] = {}  # expressions that make arrays once -> their names
        self.kept: dict[str, np.ndarray[Any, Any]] = {}  # names, in order: what each lies in memory as
        self.lines: dict[tuple[int, int], str] = {}
        self.wheres: dict[str, Location] = {}  # of the lines that name the program's
        self.guards: list[Guard] = []
        self.floats = False
        self.floating: set[str] = set()  # names of Python's floats, and of lists of them, that loops make
