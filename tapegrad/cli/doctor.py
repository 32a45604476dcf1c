"""The command that prints what is installed, the use of each package, and how to install missing ones."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from typing import NamedTuple

import tapegrad
from tapegrad.api import later
from tapegrad.cli.command import Command
from tapegrad.errors import TapeError
from tapegrad.numbers.lazy import Lazy

# needed by no other command
_metadata = Lazy("importlib.metadata")
_machine = later("tapegrad.compile.native.machine", "machine")


class Part(NamedTuple):
    """A package: its use in tapegrad, and how to install it."""

    name: str
    use: str
    install: str


PARTS = (
    Part("numpy", "arrays", "numpy"),
    Part("optree", "nested arguments", "optree"),
    Part("networkx", "pictures and graphs of tapes", "networkx"),
    Part("rich", "tables and colours on a terminal", "rich"),
    Part("llvmlite", "compiled functions as machine code", "llvmlite"),
    Part("scipy", "solvers, special functions, sparse matrices", '"tapegrad[scipy]"'),
    Part("torch", "tensors, modules, GPUs", '"tapegrad[torch]"'),
    Part("mpmath", "numbers of any precision", "mpmath"),
)


def run_doctor(options: argparse.Namespace) -> None:
    """Print versions, backends, and missing packages."""
    print(f"tapegrad {tapegrad.__version__}  {os.path.dirname(tapegrad.__file__)}")
    print(f"Python {platform.python_version()}  {sys.executable}")
    print(f"{platform.system()} {platform.machine()}")
    print()
    for part in PARTS:
        found = _version(part.name)
        print(f"{part.name:9} {found or 'missing':14} {part.use}" + ("" if found else f": pip install {part.install}"))
    print()
    for backend, state in backends():
        print(f"{backend:9} {state}")


def backends() -> list[tuple[str, str]]:
    """Return the backends of compiled functions, and whether each works here, or why not."""
    found = [("numpy", "yes"), ("native", _native())]
    if not _version("torch"):
        return [*found, ("torch", 'no: pip install "tapegrad[torch]"')]
    import torch
    devices = ["cpu", *(f"cuda:{i}, {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count()))]
    return [*found, ("torch", f"yes: {'; '.join(devices)}")]


def _native() -> str:
    """Return whether compiled functions become machine code here, or why not."""
    try:
        _machine()
    except TapeError as err:
        return f"no: {err.what}" + (f": {err.try_}" if err.try_ else "")
    return "yes: compiled functions become machine code"


def _version(name: str) -> str:
    """Return the version of an installed package, "" if it is missing."""
    try:
        return str(_metadata.version(name))
    except _metadata.PackageNotFoundError:
        return ""


def _doctor(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


DOCTOR = Command("doctor", "print versions and backends, what is missing, and how to get it", """\
  tapegrad doctor
""", _doctor, run_doctor)
