"""disk_cache: machine code compiled by earlier processes, in a folder of the user.

`TAPEGRAD_CACHE` names the folder; if it is empty, nothing is cached. By default the folder is `tapegrad` in
`XDG_CACHE_HOME`, or in `~/.cache`. A file name is the hash of all that the content depends on. The file begins with a
hash of its data, and is written under a temporary name first, so that a damaged, truncated or concurrently written file
is never linked. A folder that others may write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FILES = 2_000  # at most; beyond that the oldest are removed
HASH = 32  # bytes


def folder() -> Path | None:
    """Return the cache folder, created if missing; None if there is none, or others may write to it."""
    named = os.environ.get("TAPEGRAD_CACHE")
    if named == "" or not hasattr(os, "getuid"):
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        path = Path(named or os.path.join(home, "tapegrad"))
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return None
    alone = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return path if alone else None


def key_of(*parts: str) -> str:
    """Return a file name: the hash of all that its content depends on."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(key: str) -> bytes | None:
    """Return the data saved under a key; None if it is missing or damaged."""
    path = folder()
    if path is None:
        return None
    try:
        content = (path / key).read_bytes()
    except OSError:
        return None
    data = content[HASH:]
    return data if data and hashlib.sha256(data).digest() == content[:HASH] else None


def save(key: str, data: bytes) -> None:
    """Save data under a key; failures are ignored."""
    path = folder()
    if path is None:
        return
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=path, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(name, path / key)
        except BaseException:
            os.unlink(name)
            raise
        _prune(path)


def _prune(path: Path) -> None:
    """Remove the oldest files if there are too many."""
    names = os.listdir(path)
    if len(names) <= FILES:
        return
    files = sorted((path / name for name in names), key=lambda file: file.stat().st_mtime)
    for file in files[:len(files) - FILES // 2]:
        with suppress(OSError):
            file.unlink()
