"""c_text: the instructions of a native function, which are LLVM's, as C.

Each value is a local variable; blocks are labels, and what a loop carries is assigned before the jump. A vector is a
struct of an array, and an instruction on vectors a loop over that, which C compilers make vectors of again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

from tapegrad.compile.native.emit import Emitter

SCALARS = {"double": "double", "float": "float", "i64": "int64_t", "i32": "int32_t", "i8": "uint8_t", "i1": "uint8_t",
           "ptr": "char *"}
_TYPE = re.compile(r"\{ [^{}]* \}|<\d+ x \w+>|\[\d+ x \w+\]|\w+")
_UNSIGNED = {"i64": "uint64_t", "i32": "uint32_t", "i8": "uint8_t", "i1": "uint8_t"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "and": "&", "or": "|", "xor": "^", "sdiv": "/",
               "srem": "%", "add": "+", "sub": "-", "mul": "*"}
_WRAPS = frozenset(["add", "sub", "mul"])  # of integers, which C leaves undefined where they overflow
_CASTS = frozenset(["trunc", "zext", "sext", "fptosi", "sitofp", "uitofp", "fpext", "fptrunc"])
_INTRINSICS = {"fabs": "fabs", "sqrt": "sqrt", "copysign": "copysign", "floor": "floor", "ceil": "ceil",
               "trunc": "trunc", "rint": "rint"}
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
    """There is no C for an instruction."""


def split(text: str) -> list[str]:
    """Split at commas that stand in no bracket.

    >>> split("double %a, <2 x i32> <i32 0, i32 1>")
    ['double %a', '<2 x i32> <i32 0, i32 1>']
    """
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<{([") - (letter in ">})]")
        if letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def typed(text: str) -> tuple[str, str]:
    """Split a type from what follows it."""
    found = _TYPE.match(text)
    assert found is not None, text
    return found[0], text[found.end():].strip()


def lanes_of(t: str) -> int:
    """The length of a vector; 0 for what is none."""
    return int(t[1:].split(" ", 1)[0]) if t.startswith("<") else 0


def element_of(t: str) -> str:
    """The type of a vector's elements; of what is none its own."""
    return t[:-1].split(" x ")[1] if t.startswith("<") else t


def number(text: str, t: str) -> str:
    """Write a constant of a scalar type.

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
    """A function in C, from the instructions of an emitter: its `types`, `helpers`, `tables`, `locals` and `lines`."""

    def __init__(self, emitter: Emitter, before: Sequence[str]) -> None:
        self.types: dict[str, str] = {}
        self.helpers: dict[str, None] = {}
        self.locals: list[str] = []
        self.lines: list[str] = []
        self.kinds: dict[str, str] = {}  # LLVM's type of each value
        self.tables = list(filter(None, map(self.table, emitter.declared)))
        text = [*emitter.stacked, *before, *emitter.lines]
        self.carried = self.phis(text)
        self.block = "start"
        for line in text:
            self.line(line.strip())

    def declared(self, name: str, t: str) -> str:
        """Note the type of a value; return its declaration."""
        self.kinds[name] = t
        c = self.type(t)
        return f"{c}{name}" if c.endswith("*") else f"{c} {name}"

    def put(self, text: str) -> None:
        """Append a statement."""
        self.lines.append(f"{text};")

    def type(self, t: str) -> str:
        """Return C's name of a type."""
        if t in SCALARS:
            return SCALARS[t]
        if t not in self.types:
            if (n := lanes_of(t)):
                name, body = f"{element_of(t)}_{n}", f"{SCALARS[element_of(t)]} v[{n}];"
            else:
                first, second = split(t[1:-1])
                name = "pair_" + re.sub(r"\W+", "_", f"{first}_{second}").strip("_")
                body = f"{self.type(first)} a; {self.type(second)} b;"
            self.types[t] = f"typedef struct {{ {body} }} {name};"
        return self.types[t].rpartition("} ")[2][:-1]

    def table(self, text: str) -> str:
        """Write a table of constants; "" for what is none."""
        found = re.fullmatch(r"@(\w+) = internal constant \[(\d+) x (\w+)\] \[(.*)\], align \d+", text)
        if found is None:
            return ""
        name, n, t, items = found.groups()
        values = ", ".join(number(typed(item)[1], t) for item in split(items))
        return f"static const {SCALARS[t]} {name}[{n}] = {{{values}}};"

    def phis(self, text: Sequence[str]) -> dict[str, list[tuple[str, str, dict[str, str]]]]:
        """Return, by block, what is carried into it: the name, the type, and the value by the block that it comes of.
        """
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

    def value(self, text: str, t: str, k: str = "") -> str:
        """Write an operand; of a vector its element number k."""
        if text.startswith("%"):
            name = text[1:]
            return f"{name}.v[{k}]" if k and lanes_of(self.kinds.get(name, t)) else name
        if text.startswith("@"):
            return f"(char *){text[1:]}"
        if (n := lanes_of(t)) and not k:
            return f"({self.type(t)}){{{{{', '.join(self.value(text, t, str(lane)) for lane in range(n))}}}}}"
        if text.startswith("splat ("):
            inner, rest = typed(text[7:-1])
            return number(rest, inner)
        if text.startswith("<"):
            items = [self.value(*reversed(typed(item))) for item in split(text[1:-1])]
            return f"((const {SCALARS[element_of(t)]}[]){{{', '.join(items)}}})[{k}]"
        if text.startswith("{"):
            items = [self.value(*reversed(typed(item))) for item in split(text[1:-1])]
            return f"({self.type(t)}){{{', '.join(items)}}}"
        if t.startswith("{"):  # poison
            return f"({self.type(t)}){{0}}"
        return number(text, element_of(t))

    def each(self, name: str, t: str, write: Callable[[str], str]) -> None:
        """Assign a value of a type, element by element where it is a vector."""
        made, n = self.declared(name, t), lanes_of(t)
        if n:
            self.put(f"{made}; for (int lane = 0; lane < {n}; lane++) {name}.v[lane] = {write('lane')}")
        else:
            self.put(f"{made} = {write('')}")

    # -- lines

    def line(self, line: str) -> None:
        """Write one line."""
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
        """Write an instruction without a value."""
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
        elif word == "store" and rest.startswith("volatile"):  # of what nobody uses
            pass
        elif word == "store":
            (t, x), (_, at) = map(typed, split(rest)[:2])
            self.write(self.value(at, "ptr"), t, x)
        elif word == "call":
            self._call("", rest)
        else:
            raise NoC(word)

    def jump(self, label: str) -> None:
        """Go to a block, with what it carries."""
        for name, t, sources in self.carried.get(label, ()):
            self.put(f"{name}_next = {self.value(sources[self.block], t)}")
        self.put(f"goto {label}")

    def write(self, at: str, t: str, x: str) -> None:
        """Write a value into memory."""
        n = lanes_of(t)
        if n and not x.startswith("%"):
            self.put(f"for (int lane = 0; lane < {n}; lane++) {self.at(at, t)}.v[lane] = {self.value(x, t, 'lane')}")
        else:
            self.put(f"{self.at(at, t)} = {self.value(x, t)}")

    def at(self, pointer: str, t: str) -> str:
        """Write what lies at an address."""
        c = self.type(t)
        return f"*({c}*){pointer}" if c.endswith("*") else f"*({c} *){pointer}" if not lanes_of(t) \
            else f"(*({c} *){pointer})"

    # -- instructions with a value

    def arithmetic(self, name: str, word: str, rest: str) -> None:
        first, second = split(rest)
        t, a = typed(first)
        element = element_of(t)

        def write(k: str) -> str:
            x, y, sign = self.value(a, t, k), self.value(second, t, k), _ARITHMETIC[word]
            if word in _WRAPS and element in _UNSIGNED:
                unsigned = _UNSIGNED[element]
                return f"({SCALARS[element]})(({unsigned}){x} {sign} ({unsigned}){y})"
            return f"{x} {sign} {y}"
        self.each(name, t, write)

    def cast(self, name: str, word: str, rest: str) -> None:
        given, _, to = rest.rpartition(" to ")
        t, x = typed(given)
        end = " & 1" if element_of(to) == "i1" else ""
        sign = "-" if word == "sext" and element_of(t) == "i1" else ""
        self.each(name, to, lambda k: f"({SCALARS[element_of(to)]})({sign}{self.value(x, t, k)}{end})")

    def _fneg(self, name: str, rest: str) -> None:
        t, x = typed(rest)
        self.each(name, t, lambda k: f"-{self.value(x, t, k)}")

    def _fcmp(self, name: str, rest: str) -> None:
        condition, _, rest = rest.partition(" ")
        first, b = split(rest)
        t, a = typed(first)

        def write(k: str) -> str:
            x, y = self.value(a, t, k), self.value(b, t, k)
            if condition in ("uno", "ord"):
                return f"{'!' if condition == 'ord' else ''}(isnan({x}) || isnan({y}))"
            if condition == "one":
                return f"({x} < {y} || {x} > {y})"
            if condition[0] == "u" and condition != "une":  # or one of them is nan: not the opposite
                opposite = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}
                if condition == "ueq":
                    return f"!({x} < {y} || {x} > {y})"
                return f"!({x} {opposite[condition[1:]]} {y})"
            return f"({x} {_COMPARED[condition[1:]]} {y})"
        self.each(name, self.bools(t), write)

    def _icmp(self, name: str, rest: str) -> None:
        condition, _, rest = rest.partition(" ")
        first, b = split(rest)
        t, a = typed(first)
        letters = condition if condition in _COMPARED else condition[1:]
        cast = f"({_UNSIGNED[element_of(t)]})" if condition not in _COMPARED and condition[0] == "u" else ""
        self.each(name, self.bools(t), lambda k: f"({cast}{self.value(a, t, k)} {_COMPARED[letters]} "
                                                 f"{cast}{self.value(b, t, k)})")

    @staticmethod
    def bools(t: str) -> str:
        """Return the type of as many bools."""
        return f"<{lanes_of(t)} x i1>" if lanes_of(t) else "i1"

    def _select(self, name: str, rest: str) -> None:
        (tc, c), (t, a), (_, b) = map(typed, split(rest))
        self.each(name, t, lambda k: f"{self.value(c, tc, k)} ? {self.value(a, t, k)} : {self.value(b, t, k)}")

    def _extractvalue(self, name: str, rest: str) -> None:
        first, place = split(rest)
        t, x = typed(first)
        part = split(t[1:-1])[int(place)]
        self.put(f"{self.declared(name, part)} = {self.value(x, t)}.{'ab'[int(place)]}")

    def _insertvalue(self, name: str, rest: str) -> None:
        first, second, place = split(rest)
        (t, x), (part, y) = typed(first), typed(second)
        if lanes_of(part) and not y.startswith("%"):
            made = f"{name}_part"
            self.each(made, part, lambda k: self.value(y, part, k))
            y = f"%{made}"
        self.put(f"{self.declared(name, t)} = {self.value(x, t)}")
        self.put(f"{name}.{'ab'[int(place)]} = {self.value(y, part)}")

    def _extractelement(self, name: str, rest: str) -> None:
        (t, x), (_, k) = map(typed, split(rest))
        self.put(f"{self.declared(name, element_of(t))} = {self.value(x, t, k)}")

    def _insertelement(self, name: str, rest: str) -> None:
        (t, x), (part, y), (_, k) = map(typed, split(rest))
        self.put(f"{self.declared(name, t)} = {self.value(x, t)}")
        self.put(f"{name}.v[{k}] = {self.value(y, part)}")

    def _shufflevector(self, name: str, rest: str) -> None:
        (t, a), (_, b), (_, places) = map(typed, split(rest))
        n = lanes_of(t)
        self.put(self.declared(name, f"<{len(split(places[1:-1]))} x {element_of(t)}>"))
        for lane, place in enumerate(int(typed(each)[1]) for each in split(places[1:-1])):
            x, k = (a, place) if place < n else (b, place - n)
            self.put(f"{name}.v[{lane}] = {self.value(x, t, str(k))}")

    def _getelementptr(self, name: str, rest: str) -> None:
        (tp, at), (to, offset) = map(typed, split(rest)[1:])
        n = lanes_of(tp) or lanes_of(to)
        self.each(name, f"<{n} x ptr>" if n else "ptr",
                  lambda k: f"{self.value(at, tp, k)} + {self.value(offset, to, k)}")

    def _load(self, name: str, rest: str) -> None:
        t, place, *_ = split(rest)
        at = typed(place)[1]
        self.put(f"{self.declared(name, t)} = {self.at(self.value(at, 'ptr'), t)}")

    def _alloca(self, name: str, rest: str) -> None:
        size = int(re.match(r"\[(\d+) x i8\]", rest)[1])  # type: ignore[index]
        self.locals.append(f"_Alignas(64) char {name}[{size}];")

    def _bitcast(self, name: str, rest: str) -> None:
        given, _, to = rest.rpartition(" to ")
        t, x = typed(given)
        if to == t == "ptr":
            return self.put(f"{self.declared(name, to)} = {self.value(x, t)}")
        raise NoC("bitcast")

    # -- calls

    def _call(self, name: str, rest: str) -> None:
        """Write a call, of an intrinsic of LLVM's, of libm, or of a product of matrices."""
        t, rest = typed(rest)
        if rest.startswith("asm "):  # which hides a value from LLVM
            x = typed(rest[rest.rindex("(") + 1:-1])[1]
            return self.each(name, t, lambda k: self.value(x, t, k))
        found = re.fullmatch(r"@([\w.]+)\((.*)\)", rest)
        if found is None:
            raise NoC(rest)
        function, given = found[1], [typed(each) for each in split(found[2])] if found[2] else []
        parts = function.split(".")
        if parts[0] != "llvm":
            return self.library(name, t, function, given)
        kind = parts[1]
        if kind == "masked":
            self.masked(name, t, parts[2], given)
        elif kind in ("memset", "memcpy"):
            self.put(f"{kind}({', '.join(self.value(x, of) for of, x in given[:3])})")
        elif kind == "vector":
            (of, x), = given
            self.put(f"{self.declared(name, 'i1')} = 1")
            self.put(f"for (int lane = 0; lane < {lanes_of(of)}; lane++) {name} &= {self.value(x, of, 'lane')}")
        elif parts[-2] == "overflow":
            x, y = (self.value(each, of) for of, each in given)
            self.put(self.declared(name, t))
            self.put(f"{name}.b = __builtin_{kind[1:]}_overflow({x}, {y}, &{name}.a)")
        elif kind in _INTRINSICS:
            end = "f" if element_of(t) == "float" else ""
            self.each(name, t, lambda k: f"{_INTRINSICS[kind]}{end}("
                                         f"{', '.join(self.value(x, t, k) for _, x in given)})")
        elif kind in _CHOSEN:
            x, y = given[0][1], given[1][1]
            self.each(name, t, lambda k: f"{self.value(x, t, k)} {_CHOSEN[kind]} {self.value(y, t, k)} ? "
                                         f"{self.value(x, t, k)} : {self.value(y, t, k)}")
        elif kind == "abs":
            x = given[0][1]
            self.each(name, t, lambda k: f"{self.value(x, t, k)} < 0 ? -{self.value(x, t, k)} : {self.value(x, t, k)}")
        else:
            raise NoC(kind)

    def library(self, name: str, t: str, function: str, given: list[tuple[str, str]]) -> None:
        """Write a call of a function of libm, or of several numbers at once; or of a product of matrices."""
        if function in ("tapegrad_dgemm", "tapegrad_sgemm"):
            kind = "double" if function.endswith("dgemm") else "float"
            self.helpers[PRODUCT.format(name=function[9:], type=kind)] = None
            self.put(f"{function}({', '.join(self.value(x, of) for of, x in given)})")
        elif function.startswith(("tapegrad_", "Py", "_Py")):
            raise NoC(function)
        else:
            function = re.sub(r"^_ZGV\w+?N\d+v+_", "", function)
            self.each(name, t, lambda k: f"{function}({', '.join(self.value(x, t, k) for _, x in given)})")

    def masked(self, name: str, t: str, what: str, given: list[tuple[str, str]]) -> None:
        """Write a read or write of some elements of a vector."""
        if what in ("load", "gather"):
            (tp, at), _, (tm, mask), _ = given
            element, n = SCALARS[element_of(t)], lanes_of(t)
            place = f"({element} *){self.value(at, tp, 'lane')}" if what == "gather" \
                else f"(({element} *){self.value(at, tp)} + lane)"
            self.put(f"{self.declared(name, t)}; for (int lane = 0; lane < {n}; lane++) "
                     f"{name}.v[lane] = {self.value(mask, tm, 'lane')} ? *{place} : 0")
            return
        (tx, x), (tp, at), _, (tm, mask) = given
        element, n = SCALARS[element_of(tx)], lanes_of(tx)
        place = f"({element} *){self.value(at, tp, 'lane')}" if what == "scatter" \
            else f"(({element} *){self.value(at, tp)} + lane)"
        self.put(f"for (int lane = 0; lane < {n}; lane++) if ({self.value(mask, tm, 'lane')}) "
                 f"*{place} = {self.value(x, tx, 'lane')}")
