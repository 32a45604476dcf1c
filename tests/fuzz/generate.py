"""generate: a random program from a seed. It grows by one statement at a time, each kept if plain NumPy runs it to finite numbers."""

from __future__ import annotations

import collections
import contextlib
import re
import sys
import types
import warnings
from collections.abc import Callable
from random import Random
from textwrap import indent
from typing import Any

import numpy as np

from tests.fuzz.arguments import OTHERS, PARAMETERS, SHARED, moved, numbers, spelled
from tests.fuzz.fixtures import FIXTURES, HEADER, MIX, Fixture
from tests.fuzz.grammar import EXPRESSIONS, FUNCTIONS_OF_ITSELF, KINDS_OF, STATEMENTS, WORDS
from tests.fuzz.program import Call, Program, imported

HOLE = re.compile(r"\$(body|ufunc|binary|red|op|update|cmp|axis|index|[a-zA-Z@])(\d?)")
LARGEST, LONGEST, DEPTH, NESTING = 1e3, 80, 3, 2

PLAIN = "def f({parameters}):\n{body}\n"
JOB = "class Job:\n    def __init__(self, w, u):\n        self.w, self.u = w, u\n    def {name}(self, {parameters}):\n{body}\nf = Job($k, np.array([$k, $k, $k])){end}\n"
FORMS = (
    (PLAIN, ()),
    ("def outer(w, u):\n    def f({parameters}):\n{body}\n    return f\nf = outer($k, np.array([$k, $k, $k]))\n", ("w", "u")),
    (JOB.replace("{name}", "run").replace("{end}", ".run"), ("self.w", "self.u")),
    (JOB.replace("{name}", "__call__").replace("{end}", ""), ("self.w", "self.u")),
    ("def inner(w, u, {parameters}):\n{body}\nf = functools.partial(inner, $k, np.array([$k, $k, $k]))\n", ("w", "u")),
)
"""How `f` is made: a function, a closure, a method, an object that is called, a partial."""


class Misfit(Exception):
    """A row cannot be used here: no variable of a kind it needs."""


class Grower:
    """Grows the body of one function, in the module that is being written."""

    def __init__(self, random: Random, module: str, parameters: list[tuple[str, str, tuple[tuple[str, str], ...]]], uses: list[tuple[str, str]], statements: list[str],
                 form: str = PLAIN) -> None:
        self.random, self.module, self.parameters, self.form = random, module, parameters, form
        self.uses: dict[str, list[str]] = collections.defaultdict(list)
        for kind, text in uses:
            self.uses[kind].append(text)
        for name, _, known in parameters:
            for kind, text in known:
                self.uses[kind].append(text.replace("~", name))
        self.statements, self.count, self.nesting, self.lines = statements, 0, 0, list[str]()
        self.given = {name for name, _, _ in parameters}
        env = self.run([])
        assert env is not None, self.text([])
        self.env = env

    def text(self, lines: list[str]) -> str:
        """Return the module with the function's body so far."""
        body = indent("\n".join(lines) or "pass", "        " if "    def " in self.form.partition("{body}")[0] else "    ")
        return self.module + self.form.replace("{parameters}", ", ".join(name for name, _, _ in self.parameters)).replace("{body}", body)

    def run(self, lines: list[str]) -> dict[str, Any] | None:
        """Run the function as far as it is; return its variables, None where it raises or its numbers are of no use."""
        module = sys.modules["fuzz_growing"] = types.ModuleType("fuzz_growing")
        space = vars(module)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                np.random.seed(0)
                exec(compile(self.text([*lines, "return dict(locals())"]), "<growing>", "exec"), space)
                env: dict[str, Any] = space["f"](*[eval(text, space) for _, text, _ in self.parameters])
        except Exception:
            return None
        return env if all(map(is_fit, env.values())) else None

    def grow(self, count: int) -> None:
        """Add statements."""
        for _ in range(6 * count):
            if count <= 0:
                return
            try:
                row = self.random.choice(self.statements if self.statements and self.random.random() < 0.25 else STATEMENTS)
                lines = [*self.lines, self.fill(row.replace("\\n", "\n"), DEPTH)]
            except (Misfit, RecursionError):
                continue
            env = self.run(lines)
            if env is not None:
                self.lines, self.env, count = lines, env, count - 1

    def body(self) -> str:
        """Return a block of one to three statements."""
        if self.nesting == NESTING:
            raise Misfit
        held = self.lines, self.env
        self.nesting += 1
        self.grow(self.random.choice([1, 1, 2, 3]))
        self.nesting -= 1
        made, (self.lines, self.env) = self.lines[len(held[0]):], held
        if not made:
            raise Misfit
        return indent("\n".join(made), "    ")

    def fill(self, row: str, depth: int, same: str = "") -> str:
        """Return a row with its holes filled."""
        known: dict[str, str] = {}

        def filled(hole: re.Match[str]) -> str:
            kind, number = hole.groups()
            if number and kind + number in known:
                return known[kind + number]
            text = self.hole(kind, depth, same)
            if number:
                known[kind + number] = text
            return text
        return HOLE.sub(filled, row)

    def hole(self, kind: str, depth: int, same: str) -> str:
        """Return what fills one hole."""
        if kind in WORDS:
            return self.random.choice(WORDS[kind])
        if kind == "body":
            return self.body()
        if kind == "n":
            self.count += 1
            return f"v{self.count}"
        if kind == "k":
            return repr(round(self.random.uniform(-1.5, 1.5), 2))
        if kind == "j":
            return str(self.random.randint(-2, 2))
        if kind.isupper():
            return self.variable(kind.lower(), writable=True)
        return self.expression(same if kind == "@" else kind, depth - 1)

    def expression(self, kind: str, depth: int) -> str:
        """Return an expression of a kind."""
        random = self.random
        if depth <= 0 or random.random() < 0.35:
            try:
                return self.variable(kind)
            except Misfit:
                if depth < -3:
                    raise
        kinds = KINDS_OF.get(kind, kind)
        uses = [use for key in {kind, *kinds} for use in self.uses.get(key, ())] if random.random() < 0.3 else []
        if uses:
            uses.sort()
            return self.fill(random.choice(uses), depth)
        of = random.choice(kinds)
        if of in "svc" and random.random() < (0.6 if kind in "xa" else 0.4) and depth > 0:
            return self.fill(random.choice(FUNCTIONS_OF_ITSELF), depth, same=of)
        return self.fill(random.choice(EXPRESSIONS[of]), depth)

    def variable(self, kind: str, writable: bool = False) -> str:
        """Return a name of a value of a kind, of recent ones more often."""
        names = [name for name, value in self.env.items() if is_kind(value, kind) and name not in ("w", "u", "self")]
        uses = [use for use in self.uses.get(kind, ()) if "$" not in use] if not writable else []
        if not names and not uses:
            raise Misfit
        if uses and (not names or self.random.random() < 0.25):
            return self.random.choice(uses)
        return names[-1 - min(int(self.random.expovariate(0.4)), len(names) - 1)]

    def total(self, mix: str) -> list[str]:
        """Return the statements that sum up what was made in `r`, a real scalar."""
        lines = ["r = 0.0"]
        for name, value in self.env.items():
            weight = round(self.random.uniform(0.5, 2.0), 2)
            if self.random.random() < 0.85 or name == f"v{self.count}":
                if is_kind(value, "s") or (isinstance(value, int) and name not in self.given):
                    lines.append(f"r = r + {weight} * {name}")
                elif is_kind(value, "c"):
                    lines.append(f"r = r + {mix}({name}.real) - {weight} * {mix}({name}.imag)")
                elif isinstance(value, np.ndarray) and value.size:
                    lines.append(f"r = r + {weight} * {mix}({name})")
        if len(lines) == 1:
            lines.append("r = r + 1.0")
        return lines


def is_fit(value: Any) -> bool:
    """True for a value that a program may go on with: numbers that are finite and not large, small arrays; whatever is no number."""
    if isinstance(value, int):
        return abs(value) < LARGEST
    if isinstance(value, (float, complex, np.number)):
        return bool(np.isfinite(value) and abs(complex(value)) < LARGEST)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fcib" and value.size <= LONGEST and (value.size == 0 or (bool(np.isfinite(value).all()) and float(np.abs(value).max()) < LARGEST))
    return True


KINDS: dict[str, Callable[[Any], bool]] = {
    "s": lambda x: isinstance(x, (float, np.floating)),
    "v": lambda x: isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind == "f" and x.size > 0,
    "m": lambda x: isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind == "f" and x.size > 0,
    "a": lambda x: isinstance(x, np.ndarray) and x.ndim > 0 and x.dtype.kind == "f" and x.size > 0,
    "x": lambda x: isinstance(x, (float, np.floating)) or (isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.size > 0),
    "c": lambda x: isinstance(x, np.ndarray) and x.dtype.kind == "c" and x.size > 0,
    "b": lambda x: isinstance(x, np.ndarray) and x.dtype.kind == "b",
    "w": lambda x: isinstance(x, np.ndarray) and x.dtype.kind == "i" and x.ndim == 1,
    "i": lambda x: type(x) is int and 0 <= x < 3,
    "t": lambda x: type(x) is bool,
}


def is_kind(value: Any, kind: str) -> bool:
    """True if a value is of a kind."""
    return kind in KINDS and KINDS[kind](value)


def with_numbers(random: Random, text: str) -> str:
    """Return a text with numbers drawn where it says `$k`."""
    return re.sub(r"\$k", lambda _: repr(round(random.uniform(-1.5, 1.5), 2)), text)


class Module:
    """A module that is being written: its text, what it offers to those that import it, and what may change in it."""

    def __init__(self, random: Random, name: str, fixtures: list[Fixture], imported: list[Module]) -> None:
        self.random, self.name = random, name
        self.offers: list[tuple[str, str]] = []
        self.steps: list[str] = []
        self.changes: list[str] = []
        self.text = HEADER
        for other in imported:
            self.text += f"import {other.name} as {other.short}\n"
            self.take(other)
        for fixture in fixtures:
            self.add(fixture)

    @property
    def short(self) -> str:
        """The name that it is imported by."""
        return self.name.rpartition("_")[2]

    def take(self, other: Module) -> None:
        """Use what another module offers, as its attributes or by names of this one's own."""
        own = {name for name in re.findall(r"^(?:def |class )?(\w+)", other.text, re.M) if name not in ("import", "from") and self.random.random() < 0.25}

        def reached(row: str) -> str:
            found = [name for name in re.findall(r"~(\w+)", row) if name in own]
            return re.sub(r"~(\w+)", lambda m: m[1] if m[1] in own else f"{other.short}.{m[1]}", row) if found or "~" in row else row
        taken = sorted({name for _, row in other.offers for name in re.findall(r"~(\w+)", row) if name in own}
                       | {name for row in other.steps for name in re.findall(r"~(\w+)", row) if name in own})
        if taken:
            self.text += f"from {other.name} import {', '.join(taken)}\n"
        self.offers += [(kind, reached(row)) for kind, row in other.offers]
        self.steps += [reached(row) for row in other.steps]
        self.changes += [re.sub(r"~(\w+)", rf"{other.short}.\1", row) for row in other.changes]

    def add(self, fixture: Fixture) -> None:
        """Write a fixture down."""
        self.text += with_numbers(self.random, fixture.text) + "\n"
        if fixture.text.startswith("GRID"):
            self.text += "ROW = GRID[1]\n"
        self.offers += fixture.uses
        self.steps += fixture.statements
        self.changes += [with_numbers(self.random, change) for change in fixture.changes]

    def here(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return expressions and statements as they are written in this module."""
        return [(kind, row.replace("~", "")) for kind, row in self.offers], [row.replace("~", "") for row in self.steps]

    def function(self, name: str) -> None:
        """Write a function of one or two arguments, grown as `f` is."""
        kind, sample = self.random.choice([("v", "np.array([0.5, -0.3, 1.2])"), ("s", "0.7"), ("x", "np.array([0.2, 0.9, -1.1])")])
        uses, steps = self.here()
        grower = Grower(self.random, self.text, [("x", sample, ((kind, "~"),)), ("k", "0.4", (("s", "~"),))], uses, steps)
        grower.grow(self.random.choice([1, 2, 3]))
        made = [name for name, value in grower.env.items() if is_kind(value, "x")]
        result = f"{made[-1]} * k"
        with contextlib.suppress(Misfit):
            more = f"{result} + {grower.expression('x', 2)}"
            result = more if grower.run([*grower.lines, f"r = {more}"]) is not None else result
        lines = [*grower.lines, f"return {result}"]
        self.text += f"def {name}(x, k={round(self.random.uniform(0.2, 1.2), 2)}):\n" + indent("\n".join(lines), "    ") + "\n"
        self.offers += [("u", f"~{name}"), ("x", f"~{name}(${kind})"), ("x", f"~{name}(${kind}, $s)"), ("x", f"~{name}(${kind}, k=$s)")]


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    random = Random(seed)
    names = ["fuzz_lib", "fuzz_util", "fuzz_main"] if random.random() < 0.6 else ["fuzz_lib", "fuzz_main"]
    modules: list[Module] = []
    for name in names:
        fixtures = random.sample(FIXTURES, random.choice([0, 1, 2, 3]) + (name == "fuzz_lib"))
        module = Module(random, name, fixtures, list(modules))
        if name == "fuzz_lib":
            module.text += MIX
        for i in range(random.choice([0, 0, 1, 2])):
            module.function(f"h{i}")
        if name != "fuzz_main":
            imported(name, module.text)
        modules.append(module)
    main = modules[-1]
    drawn = random.choices(PARAMETERS, [p.weight for p in PARAMETERS], k=random.choice([1, 2, 2, 3]))
    base = [numbers(random, nice=random.random() < 0.12) for _ in drawn]
    parameters = [(name, spelled(p.text, values), p.uses) for name, p, values in zip("abc", drawn, base)]
    form, captured = random.choice([FORMS[0]] * 6 + list(FORMS))
    uses, steps = main.here()
    uses += [(kind, name) for name, kind in zip(captured, "sv") for _ in range(3)]
    grower = Grower(random, main.text, parameters, uses, steps, with_numbers(random, form))
    grower.grow(random.choice([2, 3, 4, 6, 8, 10]))
    lines = [*grower.lines, *grower.total("lib.mix")]
    cotangent = "1"
    last = f"v{grower.count}"
    if random.random() < 0.12 and last in grower.env and isinstance(grower.env[last], (float, np.ndarray)):
        pair, cotangent = random.choice([(f"(r, {last})", "(1.0, None)"), (f"{{'r': r, 'aux': {last}}}", "{'r': 1.0, 'aux': None}")])
        lines.append(f"return {pair}")
    else:
        lines.append("return r")
    text = grower.text(lines)
    return Program(seed, (*((m.name, m.text) for m in modules[:-1]), (main.name, text)), drawn_calls(random, main, drawn, base), cotangent)


def drawn_calls(random: Random, main: Module, drawn: list[Any], base: list[list[float]]) -> tuple[Call, ...]:
    """Return calls with arguments that are the same, near, or far, sometimes of another kind, and with changes between them."""
    small, large = [moved(random, x, 0.05) for x in base], [moved(random, x, 1.5) for x in base]
    changes = [re.sub(r"~(\w+)", r"\1", change) for change in main.changes]
    calls = []
    for k in range(random.choice([4, 4, 5, 6, 10])):
        values = base if k == 0 else random.choice([base, base, small, large, small])
        texts = [spelled(p.text, x) for p, x in zip(drawn, values)]
        if k and random.random() < 0.1:
            at = random.randrange(len(texts))
            texts[at] = spelled(random.choice(OTHERS), base[at])
        if k and len(texts) > 1 and texts[0].startswith("np.array([") and random.random() < 0.06:
            texts[0], texts[1] = f"(ARG := {texts[0]})", random.choice(SHARED)
        change = random.choice(changes) if k and changes and random.random() < 0.3 else ""
        calls.append(Call(tuple(texts), change))
    return tuple(calls)


