"""c_source: a tape as a function in C."""

from __future__ import annotations

from typing import Any, NamedTuple


class CSource(NamedTuple):
    """A function in C: its name, the text of the file and of the header."""

    name: str
    source: str
    header: str

    def save(self, folder: Any = ".") -> None:
        """Write `name.c` and `name.h` into a folder."""
        from pathlib import Path
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{self.name}.c").write_text(self.source)
        (Path(folder) / f"{self.name}.h").write_text(self.header)
