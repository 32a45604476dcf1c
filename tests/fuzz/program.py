"""program: a random program. Modules of text, a function `f` in the last of them, and calls of it with changes in between."""

from __future__ import annotations

import functools
import linecache
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np


class Call(NamedTuple):
    """One call of `f`: its arguments, and a statement that is run before it. Both are text, read in the last module."""

    arguments: tuple[str, ...]
    change: str = ""


@dataclass(frozen=True)
class Program:
    """What a seed stands for. It can be printed, run, and made smaller."""

    seed: int
    modules: tuple[tuple[str, str], ...]
    calls: tuple[Call, ...]
    cotangent: str = "1"

    def load(self) -> Loaded:
        """Return the program in memory, as if it had just been imported."""
        for name, text in self.modules:
            space = imported(name, text)
        return Loaded(self, space)

    @property
    def main(self) -> str:
        """The text of the module that `f` is in."""
        return self.modules[-1][1]

    @property
    def size(self) -> int:
        """How much there is to read: lines and calls, and as a fraction the characters."""
        texts = [text for _, text in self.modules] + [" ".join((*call.arguments, call.change)) for call in self.calls]
        return sum(2 + text.count("\n") + (len(text) > 0) for text in texts) * 10_000 + sum(map(len, texts))

    def with_main(self, text: str) -> Program:
        """Return the program with another last module."""
        return replace(self, modules=(*self.modules[:-1], (self.modules[-1][0], text)))

    def script(self) -> str:
        """Return the program as one that Python runs by itself, and that prints what `f` returns."""
        lines = ["import sys, types", ""]
        for name, text in self.modules[:-1]:
            lines += [f"{name} = sys.modules[{name!r}] = types.ModuleType({name!r})", f"exec('''{escaped(text)}''', vars({name}))", ""]
        lines += [self.main.rstrip(), "", ""]
        for k, call in enumerate(self.calls):
            lines += [call.change] if call.change else []
            lines += [f"print({k}, f({', '.join(call.arguments)}))"]
        return "\n".join(lines) + "\n"


class Loaded:
    """A program in memory: its function, and what its calls are made of."""

    def __init__(self, program: Program, space: dict[str, Any]) -> None:
        self.program, self.space = program, space
        self.f: Callable[..., Any] = space["f"]
        found = [x for name, _ in program.modules for x in vars(sys.modules[name]).values() if isinstance(x, np.random.Generator)]
        self.generators = [(x, x.bit_generator.state) for x in found]

    def begin(self) -> None:
        """Let chance be as it is before the first call."""
        reseed(0)
        for generator, state in self.generators:
            generator.bit_generator.state = state

    def change(self, k: int) -> None:
        """Do what happens between call k-1 and call k."""
        change = self.program.calls[k].change
        if change:
            exec(evaluated(change, "exec"), self.space)

    def arguments(self, k: int) -> tuple[Any, ...]:
        """Return new arguments for call k."""
        return tuple([eval(evaluated(text, "eval"), self.space) for text in self.program.calls[k].arguments])

    def cotangent(self) -> Any:
        """Return the cotangent of what `f` returns."""
        return eval(evaluated(self.program.cotangent, "eval"), self.space)

    def calls(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Go through the calls in order: their numbers and arguments, after the changes before them, under a seed of each."""
        for k in range(len(self.program.calls)):
            self.change(k)
            arguments = self.arguments(k)
            reseed(k)
            yield k, arguments


def imported(name: str, text: str) -> dict[str, Any]:
    """Make a module of a text, to be imported by that name; return its namespace."""
    module = sys.modules[name] = types.ModuleType(name)
    exec(compiled(name, text), vars(module))
    return vars(module)


def reseed(k: int) -> None:
    """Let chance begin anew, as it does before call k."""
    random.seed(k)
    np.random.seed(k)


@functools.lru_cache(maxsize=64)
def compiled(name: str, text: str) -> types.CodeType:
    """Compile a module; its lines can be read by what names them in an error."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return compile(text, file, "exec")


@functools.lru_cache(maxsize=1024)
def evaluated(text: str, mode: str) -> types.CodeType:
    """Compile the text of an argument or a change."""
    return compile(text, "<call>", mode)


def escaped(text: str) -> str:
    """Return text as it stands between triple quotes."""
    return text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'")
