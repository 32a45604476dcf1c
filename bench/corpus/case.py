"""Case: a function of a public package, as pip installs it, and where it is differentiated."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

Built = tuple[Callable[..., Any], tuple[Any, ...]]


class Case(NamedTuple):
    """A row of the corpus. `build` returns a function to a number, and its arguments: numbers, arrays, lists."""

    name: str
    package: str
    build: Callable[[], Built]


CASES: dict[str, Case] = {}


def case(package: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Enter the function that builds a case into the corpus, under the name of its package and its own."""
    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        name = f"{package}/{build.__name__}"
        if name in CASES:
            raise ValueError(f"there are two cases {name}")
        CASES[name] = Case(name, package, build)
        return build
    return enter


def load() -> dict[str, Case]:
    """Return all cases: those in the modules of `packages`, and one for each folder of `scripts`."""
    for folder in ("packages", "scripts"):
        package = importlib.import_module(f"bench.corpus.{folder}")
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            if folder == "packages":
                importlib.import_module(f"{package.__name__}.{module.name}")
            else:
                name = f"script/{module.name}"
                main = f"{package.__name__}.{module.name}.main"
                CASES[name] = Case(name, "script", lambda main=main: script(main))
    return CASES


def script(module: str) -> Built:
    """Return what a script calls `objective`, and its `START`."""
    main = importlib.import_module(module)
    return main.objective, main.START
