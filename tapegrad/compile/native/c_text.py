"""c_text: prints the LLVM instructions of a native function as C.

Each value becomes a local variable and each block a label; values that a loop carries are assigned before the jump. No
value is a vector: C compilers vectorise the loops.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from tapegrad.compile.native.emit import Emitter

SCALARS = {"double": "double", "float": "float", "i64": "int64_t", "i32": "int32_t", "i8": "uint8_t", "i1": "uint8_t",
           "ptr": "char *"}
_TYPE = re.compile(r"\{ [^{}]* \}|\[\d+ x \w+\]|\w+")
_UNSIGNED = {"i64": "uint64_t", "i32": "uint32_t", "i8": "uint8_t", "i1": "uint8_t"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "and": "&", "or": "|", "xor": "^", "sdiv": "/",
               "srem": "%", "add": "+", "sub": "-", "mul": "*"}
_WRAPS = frozenset(["add", "sub", "mul"])  # on integers, whose overflow is undefined in C
_CASTS = frozenset(["trunc", "zext", "sext", "fptosi", "sitofp", "uitofp", "fpext", "fptrunc"])
_OPPOSITE = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}
_INTRINSICS = frozenset(["fabs", "sqrt", "copysign", "floor", "ceil", "trunc", "rint"])
_CHOSEN = {"smax": ">", "smin": "<"}

PRODUCT = """
static void tapegrad_{name}(int order, int turn_a, int turn_b, int64_t m, int64_t n, int64_t k, {type} alpha,
                           const char *pa, int64_t lda, const char *pb, int64_t ldb, {type} beta, char *pc,
                           int64_t ldc) {{
    const {type} *a = (const {type} *)pa, *b = (const {type} *)pb;
    {type} *c = ({type} *)pc;
    (void)order; (void)beta;
    for (int64_t i = 0; i < m; i++) {{
        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = 0;
        for (int64_t l = 0; l < k; l++) {{
            {type} x = alpha * (turn_a == 112 ? a[l * lda + i] : a[i * lda + l]);
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] += x * (turn_b == 112 ? b[j * ldb + l] : b[l * ldb + j]);
        }}
    }}
}}
"""


class NoC(Exception):
    """An instruction has no form in C."""


def split(text: str) -> list[str]:
    """Split at commas outside brackets.

    >>> split("double %a, { double, double } %b")
    ['double %a', '{ double, double } %b']
    """
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "{([") - (letter in "})]")
        if letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def typed(text: str) -> tuple[str, str]:
    """Split a type from the text that follows it."""
    found = _TYPE.match(text)
    assert found is not None, text
    return found[0], text[found.end():].strip()


def number(text: str, t: str) -> str:
    """Return a constant of a scalar type in C.

    >>> number("0x3FF8000000000000", "double"), number("true", "i1"), number("-9223372036854775808", "i64")
    ('1.5', '1', '(-INT64_C(9223372036854775807) - 1)')
    """
    if text.startswith("0x"):
        value = struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
        if value - value != 0:
            return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
        return repr(value) + ("f" if t == "float" else "")
    if text in ("zeroinitializer", "poison", "undef", "null"):
        return "NULL" if t == "ptr" else "0"
    if text in ("true", "false"):
        return str(int(text == "true"))
    if t == "i64" and abs(int(text)) >= 1 << 31:
        return "(-INT64_C(9223372036854775807) - 1)" if int(text) == -1 << 63 else f"INT64_C({text})"
    return text


class CText:
    """A C function, from the instructions of an emitter: its `types`, `helpers`, `tables`, `locals` and `lines`."""

    def __init__(self, emitter: Emitter, before: Sequence[str]) -> None:
        self.types: dict[str, str] = {}
        self.helpers: dict[str, None] = {}
        self.locals: list[str] = []
        self.lines: list[str] = []
        self.tables = list(filter(None, map(self.table, emitter.declared)))
        text = [*emitter.stacked, *before, *emitter.lines]
        self.carried = self.phis(text)
        self.block = "start"
        for line in text:
            self.line(line.strip())

    def declared(self, name: str, t: str) -> str:
        """Return the declaration of a value."""
        c = self.type(t)
        return f"{c}{name}" if c.endswith("*") else f"{c} {name}"

    def put(self, text: str) -> None:
        """Append a statement."""
        self.lines.append(f"{text};")

    def type(self, t: str) -> str:
        """Return the C name of a type."""
        if t in SCALARS:
            return SCALARS[t]
        if t not in self.types:
            first, second = split(t[1:-1])
            name = "pair_" + re.sub(r"\W+", "_", f"{first}_{second}").strip("_")
            self.types[t] = f"typedef struct {{ {self.type(first)} a; {self.type(second)} b; }} {name};"
        return self.types[t].rpartition("} ")[2][:-1]

    def table(self, text: str) -> str:
        """Return a table of constants in C, "" for other declarations."""
        found = re.fullmatch(r"@(\w+) = internal constant \[(\d+) x (\w+)\] \[(.*)\], align \d+", text)
        if found is None:
            return ""
        name, n, t, items = found.groups()
        values = ", ".join(number(typed(item)[1], t) for item in split(items))
        return f"static const {SCALARS[t]} {name}[{n}] = {{{values}}};"

    def phis(self, text: Sequence[str]) -> dict[str, list[tuple[str, str, dict[str, str]]]]:
        """Return the values carried into each block: name, type, and the value for each preceding block."""
        found: dict[str, list[tuple[str, str, dict[str, str]]]] = {}
        block = "start"
        for line in map(str.strip, text):
            if line.endswith(":"):
                block = line[:-1]
            elif (phi := re.fullmatch(r"%(\w+) = phi (.*?) (\[ .*)", line)) is not None:
                sources = {}
                for each in re.findall(r"\[ (.*?), %(\w+) \]", phi[3]):
                    sources[each[1]] = each[0]
                found.setdefault(block, []).append((phi[1], phi[2], sources))
        return found

    # -- values

    def value(self, text: str, t: str) -> str:
        """Return an operand in C."""
        if text.startswith("%"):
            return text[1:]
        if text.startswith("@"):
            return f"(char *){text[1:]}"
        if text.startswith("{"):
            items = [self.value(*reversed(typed(item))) for item in split(text[1:-1])]
            return f"({self.type(t)}){{{', '.join(items)}}}"
        return f"({self.type(t)}){{0}}" if t.startswith("{") else number(text, t)  # poison

    def assign(self, name: str, t: str, text: str) -> None:
        """Assign a value of a type."""
        self.put(f"{self.declared(name, t)} = {text}")

    # -- lines

    def line(self, line: str) -> None:
        """Translate one line."""
        if not line:
            return
        if line.endswith(":"):
            self.block = line[:-1]
            self.lines.append(f"{self.block}: ;")
            self.lines += [f"{name} = {name}_next;" for name, _, _ in self.carried.get(self.block, ())]
            return
        name, given, rest = line.partition(" = ")
        if not given or not name.startswith("%"):
            return self.statement(line)
        word, _, rest = rest.partition(" ")
        method = getattr(self, f"_{word}", None)
        while rest.split(" ", 1)[0] in ("nuw", "nsw", "exact", "contract", "fast", "nnan", "inbounds", "disjoint"):
            rest = rest.split(" ", 1)[1]
        if word == "phi":
            made = self.declared(name[1:], typed(rest)[0])
            self.locals += [f"{made};", f"{made}_next;"]
        elif word in _ARITHMETIC:
            self.arithmetic(name[1:], word, rest)
        elif word in _CASTS:
            self.cast(name[1:], word, rest)
        elif method is not None:
            method(name[1:], rest)
        else:
            raise NoC(word)

    def statement(self, line: str) -> None:
        """Translate an instruction without a value."""
        word, _, rest = line.partition(" ")
        if word == "br":
            jumps = re.findall(r"label %(\w+)", rest)
            if len(jumps) == 1:
                self.jump(jumps[0])
            else:
                condition = self.value(split(rest)[0].removeprefix("i1 "), "i1")
                self.lines.append(f"if ({condition}) {{")
                self.jump(jumps[0])
                self.lines.append("} else {")
                self.jump(jumps[1])
                self.lines.append("}")
        elif word == "store" and rest.startswith("volatile"):  # of an unused value
            pass
        elif word == "store":
            (t, x), (_, at) = map(typed, split(rest)[:2])
            self.put(f"{self.at(self.value(at, 'ptr'), t)} = {self.value(x, t)}")
        elif word == "call":
            self._call("", rest)
        else:
            raise NoC(word)

    def jump(self, label: str) -> None:
        """Jump to a block after assigning the values that it carries."""
        for name, t, sources in self.carried.get(label, ()):
            self.put(f"{name}_next = {self.value(sources[self.block], t)}")
        self.put(f"goto {label}")

    def at(self, pointer: str, t: str) -> str:
        """Return the C expression for the value at an address."""
        c = self.type(t)
        return f"*({c}*){pointer}" if c.endswith("*") else f"*({c} *){pointer}"

    # -- instructions with a value

    def arithmetic(self, name: str, word: str, rest: str) -> None:
        first, second = split(rest)
        t, a = typed(first)
        x, y, sign = self.value(a, t), self.value(second, t), _ARITHMETIC[word]
        if word in _WRAPS and t in _UNSIGNED:
            unsigned = _UNSIGNED[t]
            return self.assign(name, t, f"({SCALARS[t]})(({unsigned}){x} {sign} ({unsigned}){y})")
        self.assign(name, t, f"{x} {sign} {y}")

    def cast(self, name: str, word: str, rest: str) -> None:
        given, _, to = rest.rpartition(" to ")
        t, x = typed(given)
        end = " & 1" if to == "i1" else ""
        sign = "-" if word == "sext" and t == "i1" else ""
        self.assign(name, to, f"({SCALARS[to]})({sign}{self.value(x, t)}{end})")

    def _fneg(self, name: str, rest: str) -> None:
        t, x = typed(rest)
        self.assign(name, t, f"-{self.value(x, t)}")

    def _fcmp(self, name: str, rest: str) -> None:
        condition, _, rest = rest.partition(" ")
        first, b = split(rest)
        t, a = typed(first)
        x, y = self.value(a, t), self.value(b, t)
        if condition in ("uno", "ord"):
            text = f"{'!' if condition == 'ord' else ''}(isnan({x}) || isnan({y}))"
        elif condition in ("one", "ueq"):
            text = f"{'!' if condition == 'ueq' else ''}({x} < {y} || {x} > {y})"
        elif condition[0] == "u" and condition != "une":  # or one of them is nan: not the opposite
            text = f"!({x} {_OPPOSITE[condition[1:]]} {y})"
        else:
            text = f"({x} {_COMPARED[condition[1:]]} {y})"
        self.assign(name, "i1", text)

    def _icmp(self, name: str, rest: str) -> None:
        condition, _, rest = rest.partition(" ")
        first, b = split(rest)
        t, a = typed(first)
        letters = condition if condition in _COMPARED else condition[1:]
        cast = f"({_UNSIGNED[t]})" if condition not in _COMPARED and condition[0] == "u" else ""
        self.assign(name, "i1", f"({cast}{self.value(a, t)} {_COMPARED[letters]} {cast}{self.value(b, t)})")

    def _select(self, name: str, rest: str) -> None:
        (tc, c), (t, a), (_, b) = map(typed, split(rest))
        self.assign(name, t, f"{self.value(c, tc)} ? {self.value(a, t)} : {self.value(b, t)}")

    def _extractvalue(self, name: str, rest: str) -> None:
        first, place = split(rest)
        t, x = typed(first)
        self.assign(name, split(t[1:-1])[int(place)], f"{self.value(x, t)}.{'ab'[int(place)]}")

    def _insertvalue(self, name: str, rest: str) -> None:
        first, second, place = split(rest)
        (t, x), (part, y) = typed(first), typed(second)
        self.assign(name, t, self.value(x, t))
        self.put(f"{name}.{'ab'[int(place)]} = {self.value(y, part)}")

    def _getelementptr(self, name: str, rest: str) -> None:
        (tp, at), (to, offset) = map(typed, split(rest)[1:])
        self.assign(name, "ptr", f"{self.value(at, tp)} + {self.value(offset, to)}")

    def _load(self, name: str, rest: str) -> None:
        t, place, *_ = split(rest)
        self.assign(name, t, self.at(self.value(typed(place)[1], "ptr"), t))

    def _alloca(self, name: str, rest: str) -> None:
        size = int(re.match(r"\[(\d+) x i8\]", rest)[1])  # type: ignore[index]
        self.locals.append(f"_Alignas(64) char {name}[{size}];")

    def _bitcast(self, name: str, rest: str) -> None:
        given, _, to = rest.rpartition(" to ")
        t, x = typed(given)
        if not to == t == "ptr":
            raise NoC("bitcast")
        self.assign(name, to, self.value(x, t))

    # -- calls

    def _call(self, name: str, rest: str) -> None:
        """Translate a call of an LLVM intrinsic, of a libm function, or of a matrix product."""
        t, rest = typed(rest)
        found = re.fullmatch(r"@([\w.]+)\((.*)\)", rest)
        if found is None:
            raise NoC(rest)
        function, given = found[1], [typed(each) for each in split(found[2])] if found[2] else []
        args, parts = [self.value(x, of) for of, x in given], function.split(".")
        if parts[0] != "llvm":
            return self.library(name, t, function, args)
        kind = parts[1]
        if kind in ("memset", "memcpy"):
            self.put(f"{kind}({', '.join(args[:3])})")
        elif parts[-2] == "overflow":
            self.put(self.declared(name, t))
            self.put(f"{name}.b = __builtin_{kind[1:]}_overflow({args[0]}, {args[1]}, &{name}.a)")
        elif kind in _INTRINSICS:
            self.assign(name, t, f"{kind}{'f' if t == 'float' else ''}({', '.join(args)})")
        elif kind in _CHOSEN:
            self.assign(name, t, f"{args[0]} {_CHOSEN[kind]} {args[1]} ? {args[0]} : {args[1]}")
        elif kind == "abs":
            self.assign(name, t, f"{args[0]} < 0 ? -{args[0]} : {args[0]}")
        else:
            raise NoC(kind)

    def library(self, name: str, t: str, function: str, args: Sequence[str]) -> None:
        """Translate a call of a libm function or a matrix product."""
        if function in ("tapegrad_dgemm", "tapegrad_sgemm"):
            kind = "double" if function.endswith("dgemm") else "float"
            self.helpers[PRODUCT.format(name=function[9:], type=kind)] = None
            self.put(f"{function}({', '.join(args)})")
        elif function.startswith(("tapegrad_", "Py", "_Py")):
            raise NoC(function)
        else:
            self.assign(name, t, f"{function}({', '.join(args)})")
