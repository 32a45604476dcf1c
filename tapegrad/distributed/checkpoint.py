"""checkpoint: a file, replaced atomically, from which a killed run continues."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tapegrad.distributed.team import rank
from tapegrad.errors import ArgumentError, TapeFormatError, user_location
from tapegrad.tree.flatten import flatten

T = TypeVar("T")


def written(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a file by renaming a temporary one: a killed process leaves the old file or the new one."""
    beside = f"{path}.{os.getpid()}"
    try:
        with open(beside, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        Path(beside).unlink(missing_ok=True)


def read(path: str | Path) -> dict[str, Any] | None:
    """Return the arrays of a file, None if it does not exist; raise TapeFormatError if it is not a checkpoint."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        return None
    except (ValueError, EOFError, zipfile.BadZipFile) as err:
        raise TapeFormatError(f"{path} is not a checkpoint ({err})", user_location(), "another path") from err


class Checkpoint:
    """A file in which a run saves nested numbers and arrays, and from which it continues after it was killed.

    >>> import os, tempfile
    >>> kept = Checkpoint(os.path.join(tempfile.mkdtemp(), "run.npz"))
    >>> step, w = kept.load((0, np.zeros(2)))
    >>> while step < 3:
    ...     step, w = step + 1, w + 1.0
    ...     kept.save((step, w))
    >>> kept.load((0, np.zeros(2)))
    (3, array([3., 3.]))
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def load(self, initial: T) -> T:
        """Return the state saved last, nested and typed as `initial`; `initial` itself if nothing was saved. Raises
        ArgumentError if the saved shapes differ. All ranks read the same file.
        """
        arrays = read(self.path)
        if arrays is None:
            return initial
        found: list[Any] = []
        structure = flatten(initial, "", found, [], shared=False)
        kept = [arrays[name] for name in map(str, range(len(found))) if name in arrays]
        if [part.shape for part in kept] != [*map(np.shape, found)] or len(kept) < len(arrays):
            raise ArgumentError(f"{self.path} holds arrays of other shapes than the state to load",
                                user_location(),
                                "the file of this run, or another path")
        return structure.build([  # type: ignore[no-any-return]
            part.astype(x.dtype) if isinstance(x, np.ndarray) else type(x)(part[()]) for part, x in zip(kept, found)])

    def save(self, state: Any) -> None:
        """Write nested numbers and arrays, on rank 0 only; other static values are not saved."""
        if rank() == 0:
            found: list[Any] = []
            flatten(state, "", found, [], shared=False)
            written(self.path, {str(i): x for i, x in enumerate(found)})
