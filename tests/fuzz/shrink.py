"""shrink: the smallest program that shows the same find. Pieces are left out, or simpler ones put in their place, while it stays."""

from __future__ import annotations

import ast
import copy
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.compare import DIFFERENCES, ONCE, Find, examine
from tests.fuzz.limit import Hang, within
from tests.fuzz.program import Call, Program

PATIENCE = 5  # seconds for one program: what is cut may not end any more
BODIES = ("body", "orelse", "finalbody", "handlers")


def shrink(program: Program, find: Find, seconds: float = 60.0) -> Program:
    """Return a smaller program that shows a find of the same kind in the same mode; the last that was found when the time is over."""
    modes = {find.mode, ONCE} | ({DIFFERENCES} if find.mode == DIFFERENCES else set())
    if find.mode == "trace":
        modes.add("tape.play")
    return smallest(program, lambda smaller: any(find.is_like(other) for other in examine(smaller, modes).finds), seconds)


def smallest(program: Program, shows: Callable[[Program], bool], seconds: float = 60.0) -> Program:
    """Return a smaller program of which `shows` is still true."""
    end = time.monotonic() + seconds
    tried: set[Program] = {program}
    while True:
        for smaller in simpler(program):
            if time.monotonic() > end:
                return program
            if smaller.size < program.size and smaller not in tried:
                tried.add(smaller)
                if holds(smaller, shows):
                    program = smaller
                    break
        else:
            return program


def holds(program: Program, shows: Callable[[Program], bool]) -> bool:
    """True if a program can be made and shows it; what is cut may be no program any more."""
    try:
        with warnings.catch_warnings(), within(PATIENCE):
            warnings.simplefilter("ignore")
            return shows(program)
    except (Exception, Hang):
        return False


def simpler(program: Program) -> Iterator[Program]:
    """Go through programs that are simpler, the much simpler ones first."""
    yield from fewer_calls(program)
    for at in reversed(range(len(program.modules))):
        yield from (with_module(program, at, text) for text in without_statements(program.modules[at][1]))
    for at in range(len(program.modules) - 1):
        yield replace(program, modules=program.modules[:at] + program.modules[at + 1:])
    yield from fewer_parameters(program)
    for at in reversed(range(len(program.modules))):
        yield from (with_module(program, at, text) for text in with_simpler_expressions(program.modules[at][1]))
    yield from simpler_arguments(program)


def with_module(program: Program, at: int, text: str) -> Program:
    """Return a program with another text of one module."""
    return replace(program, modules=(*program.modules[:at], (program.modules[at][0], text), *program.modules[at + 1:]))


def fewer_calls(program: Program) -> Iterator[Program]:
    """Leave out calls, and changes, and let calls be the same."""
    calls = program.calls
    for n in (len(calls) // 2, 1):
        for at in range(0, len(calls) - n + 1):
            if n < len(calls):
                yield replace(program, calls=calls[:at] + calls[at + n:])
    for at, call in enumerate(calls):
        if call.change:
            yield with_call(program, at, Call(call.arguments))
        if at and call.arguments != calls[at - 1].arguments:
            yield with_call(program, at, Call(calls[at - 1].arguments, call.change))


def with_call(program: Program, at: int, call: Call) -> Program:
    """Return a program with another call."""
    return replace(program, calls=(*program.calls[:at], call, *program.calls[at + 1:]))


def without_statements(text: str) -> Iterator[str]:
    """Leave out statements: half a block at a time, then single ones; and put what a statement holds in its place."""
    tree = ast.parse(text)
    blocks = [(node, name) for node in ast.walk(tree) for name in BODIES if isinstance(getattr(node, name, None), list) and getattr(node, name)]
    for node, name in blocks:
        held = getattr(node, name)
        n = len(held)
        while n:
            for at in range(0, len(held), n):
                left = held[:at] + held[at + n:]
                if not any(isinstance(statement, ast.Return) for statement in held[at:at + n]) or isinstance(tree, type(node)):
                    setattr(node, name, left or ([ast.Pass()] if name == "body" else []))
                    yield written(tree)
            n //= 2
        for at, statement in enumerate(held):
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                for inner in (getattr(statement, part, None) for part in BODIES):
                    if inner and isinstance(inner, list) and isinstance(inner[0], ast.stmt):
                        setattr(node, name, held[:at] + inner + held[at + 1:])
                        yield written(tree)
        setattr(node, name, held)


def with_simpler_expressions(text: str) -> Iterator[str]:
    """Put parts of expressions, or a number, in their place."""
    tree = ast.parse(text)
    for node in list(ast.walk(tree)):
        for name, value in list(ast.iter_fields(node)):
            for at, old in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(old, ast.expr) or (isinstance(node, (ast.Import, ast.ImportFrom)) or isinstance(getattr(old, "ctx", None), (ast.Store, ast.Del))):
                    continue
                for new in parts_of(old):
                    put(node, name, at, new)
                    yield written(tree)
                put(node, name, at, old)


def parts_of(x: ast.expr) -> Iterator[ast.expr]:
    """Go through expressions that may stand for another."""
    if not isinstance(x, ast.Constant):
        if not isinstance(x, ast.Name):
            yield ast.Constant(1.0)
            yield ast.Constant(0)
        for inner in ast.iter_child_nodes(x):
            if isinstance(inner, ast.expr):
                yield inner
            elif isinstance(inner, ast.keyword):
                yield inner.value
        for name in ("args", "keywords", "elts"):
            known = getattr(x, name, None)
            held: list[ast.AST] = known if isinstance(known, list) else []  # a lambda's are no list
            for at in range(len(held)):
                shorter = copy.copy(x)
                setattr(shorter, name, held[:at] + held[at + 1:])
                yield shorter
    elif isinstance(x.value, float) and x.value != 1.0:
        yield ast.Constant(1.0)
        yield ast.Constant(float(round(x.value)))


def put(node: ast.AST, name: str, at: int, new: ast.expr) -> None:
    """Put an expression in the place of another."""
    held = getattr(node, name)
    if isinstance(held, list):
        setattr(node, name, [*held[:at], new, *held[at + 1:]])
    else:
        setattr(node, name, new)


def fewer_parameters(program: Program) -> Iterator[Program]:
    """Leave out parameters of `f`."""
    for at in range(len(program.calls[0].arguments)):
        tree = ast.parse(program.main)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [arg.arg for arg in node.args.args]
                wanted = "abc"[at]
                if wanted in names:
                    del node.args.args[names.index(wanted)]
                    calls = tuple(Call(c.arguments[:at] + c.arguments[at + 1:], c.change) for c in program.calls)
                    yield replace(program.with_main(written(tree)), calls=calls)


def simpler_arguments(program: Program) -> Iterator[Program]:
    """Put simpler arguments in the place of others, in all calls that have them."""
    for text in dict.fromkeys(argument for call in program.calls for argument in call.arguments):
        tree = ast.parse(text, mode="eval")
        for candidate in with_simpler_expressions_of(tree):
            calls = tuple(Call(tuple(candidate if argument == text else argument for argument in call.arguments), call.change) for call in program.calls)
            yield replace(program, calls=calls)


def with_simpler_expressions_of(tree: ast.Expression) -> Iterator[str]:
    """Go through simpler spellings of one expression."""
    for new in parts_of(tree.body):
        yield ast.unparse(new)
    yield from with_simpler_expressions(ast.unparse(tree))


def written(tree: ast.AST) -> str:
    """Return a tree as text."""
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
