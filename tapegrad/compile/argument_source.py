"""argument_source: the source that takes a call's arguments apart and checks them, and that nests its results.

The checks cover everything that a tape is specialised to: the nesting of the arguments, the type of each number, the
dtype and shape of each array. Arguments without a short source (objects that refer to each other, the user's own dict
classes) are left to `tree.flatten`, which takes microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.flatten_cache import ArgumentFlattener
from tapegrad.errors import ArgumentError
from tapegrad.tape.tape import Tape
from tapegrad.trace.inputs import argument_names
from tapegrad.tree.flatten import Structure, flatten
from tapegrad.tree.nodes import Bound, Closure, Container, Function, Instance, Leaf, Static, is_hollow
from tapegrad.tree.signature import Signature, ValueAndGradients

Name = Callable[..., str]  # (object, hint) -> its name in the source


class Unpacked:
    """The parameters of a function, and the lines that check them and name their leaves; a failed check executes
    `miss`.
    """

    def __init__(self, tape: Tape, leaves: list[str], name: Name, miss: str, standalone: bool = False) -> None:
        self.standalone = standalone  # captured values become keyword arguments
        self.captures: list[str] = []
        self.tape, self.leaves, self.name, self.miss = tape, leaves, name, miss
        self.lines: list[str] = []
        self.mutable: list[str] = []
        self.cells: list[str] = []
        self.variables: dict[int, str] = {}  # what reads each captured variable, by the id of its cell
        self.seen: dict[int, str] = {}
        self.count = 0
        structure = tape.structure
        if structure is None:
            self.parameters = self.flat()
            return
        try:
            self.parameters = self.signature(structure)
        except _Intricate:
            if standalone:
                raise ArgumentError(f"the arguments of {tape.name} are nested in objects or shared lists, which cannot "
                                    "be written as source", None, "pass tuples, lists and dicts") from None
            self.parameters = self.intricate()

    def flat(self) -> str:
        """Write the parameters of a function whose arguments are leaves."""
        for number, leaf in enumerate(self.leaves):
            self.leaf(number, leaf)
        return ", ".join([*self.leaves, "/"]) if self.leaves else ""

    def intricate(self) -> str:
        """Have a Python function take the arguments apart."""
        self.lines.clear()
        text = f"[_, {', '.join(self.leaves)}]" if self.leaves else "[_]"
        self.lines.append(f"{text} = {self.name(ArgumentFlattener(self.tape), 'leaves_of_call')}(args, kwargs, miss)")
        self.flat()
        return "*args, **kwargs"

    def signature(self, structure: Signature) -> str:
        """Write the parameters, and take each argument apart."""
        if structure.function.spec.leafy or not isinstance(structure.function.spec, Static):
            self.captured(structure)
        if structure.shared:
            raise _Intricate  # one list for two arguments
        parameters = self.arguments(structure)
        apart = self.mutable + self.cells
        if len(apart) > 1:
            self.distinct(apart)
        return parameters

    def arguments(self, structure: Signature) -> str:
        """Write the parameters, and take each argument apart."""
        names = argument_names(structure.fn, len(structure.args))
        taken = set(self.leaves)
        given = []
        for part, label in zip(structure.args, names):
            given.append(self.parameter(part, label, taken))
        for key, part in structure.kwargs.items():
            own = isinstance(part.spec, Leaf) and self.leaves[part.spec.index] == key
            if not own and (not key.isidentifier() or key in taken):
                raise _Intricate
            self.node(part.spec, key)
        keywords = ["*", *structure.kwargs, *self.captures] if structure.kwargs or self.captures else []
        return ", ".join([*given, *(["/"] if given else []), *keywords])

    def parameter(self, part: Structure, label: str, taken: set[str]) -> str:
        name = (self.leaves[part.spec.index] if isinstance(part.spec, Leaf) else label if label not in taken
                else f"{label}_")
        self.node(part.spec, name)
        return name

    def captured(self, structure: Signature) -> None:
        """Read the captured values, anew at each call."""
        spec = structure.function.spec
        if isinstance(spec, (Instance, Bound)) and not self.standalone:
            owner = self.name(structure.fn, "bound")
            self.node(spec if isinstance(spec, Instance) else spec.children[1],
                      owner if isinstance(spec, Instance) else self.attribute(owner, "__self__"))
            return
        if not isinstance(spec, Closure):
            raise _Intricate
        cells = dict(zip(spec.prototype.__code__.co_freevars, spec.prototype.__closure__ or ()))
        if not self.standalone and any(type(child) is Closure and child is not spec for child in spec.children):
            for label in spec.names:
                self.variable(cells[label], self.name(cells[label], f"cell_{label}"))
        for label, child in zip(spec.names, spec.children):
            if self.standalone:
                if child is not spec:  # a recursive function: its own calls are on the tape
                    self.capture(child)
                continue
            content = self.attribute(self.name(cells[label], f"cell_{label}"), "cell_contents")
            if child is spec:
                self.static(spec.prototype, content)
            else:
                self.node(child, content)

    def capture(self, child: Any) -> None:
        """Make a captured number or array a keyword argument with its value as default."""
        if isinstance(child, Leaf):
            name, val = self.leaves[child.index], self.tape.inputs[child.index + 1].val
            literal = type(val) in (int, float) and math.isfinite(val)
            self.captures.append(f"{name}={repr(val) if literal else self.name(val)}")
            self.leaf(child.index, name)
        elif child.leafy:
            raise _Intricate

    # -- one part

    def node(self, node: Any, text: str) -> None:
        """Check a part, and name its leaves."""
        if isinstance(node, Leaf):
            if self.seen.setdefault(id(node), text) != text:
                raise _Intricate  # a variable that two functions share
            self.take(node.index, text)
        elif type(node) in (Static, Function):
            self.static(node.value, text)
        elif isinstance(node, Container) and (node.type in (tuple, list, dict)
                                              or (is_named(node) and not self.standalone)):
            self.container(node, text)
        elif type(node) is Closure and not self.standalone:
            self.closure(node, text)
        elif type(node) is Instance and is_open(node.cls) and not self.standalone:
            self.instance(node, text)
        else:
            raise _Intricate

    def take(self, number: int, text: str) -> None:
        """Name a leaf, and check it."""
        name = self.leaves[number]
        if text != name:
            self.lines.append(f"{name} = {text}")
        self.leaf(number, name)

    def attribute(self, text: str, name: str) -> str:
        """Return the text that reads an attribute."""
        return f"{text}.{name}"

    def identical(self, text: str, other: str) -> None:
        """Check that two parts are the same object."""
        self.check(f"{text} is not {other}")

    def distinct(self, texts: list[str]) -> None:
        """Check that all parts are different objects."""
        self.check(f"len({{{', '.join(f'id({text})' for text in texts)}}}) != {len(texts)}")

    def instance(self, node: Instance, text: str) -> None:
        """Check an object with a `__dict__`: its class, its attribute names in order, and each attribute."""
        if self.again(node, text):
            return
        owner, held = self.seen[id(node)], self.part("")
        self.check(f"type({owner}) is not {self.name(node.cls, 'cls')}")
        self.lines.append(f"{held} = {owner}.__dict__")
        self.mutable.append(owner)
        self.check(f"[*{held}] != {self.name(list(node.names), 'names')}")
        for name, child in zip(node.names, node.children):
            self.node(child, f"{held}[{name!r}]")

    def closure(self, node: Closure, text: str) -> None:
        """Check a function with captured variables: its code, and the content of each variable."""
        code = plain_code(node)
        if self.again(node, text):
            return
        fn = self.seen[id(node)]
        self.check(f"type({fn}) is not {self.name(FunctionType)} or {fn}.__code__ is not {self.name(code, 'code')}")
        self.check(f"{fn}.__globals__ is not {self.name(node.prototype.__globals__, 'space')}")
        self.check(f"{fn}.__defaults__ is not None or {fn}.__kwdefaults__ is not None")
        for number, child in enumerate(node.children):
            cell = f"{fn}.__closure__[{number}]"
            self.variable(node.prototype.__closure__[number], cell)
            self.node(child, f"{cell}.cell_contents")

    def variable(self, cell: CellType, text: str) -> None:
        """Note a captured variable; one that functions share must be one cell again."""
        known = self.variables.setdefault(id(cell), text)
        if known is text:
            self.cells.append(text)
        else:
            self.identical(text, known)

    def again(self, node: Any, text: str) -> bool:
        """Name a part; if it is named already, check that it is the same object, and return True."""
        known = self.seen.get(id(node))
        if known is None:
            self.seen[id(node)] = self.part(text)
        else:
            self.identical(text, known)
        return known is not None

    def part(self, text: str) -> str:
        """Return a name for a part of the arguments: its text, or a new name."""
        if text.isidentifier():
            return text
        self.count += 1
        if text:
            self.lines.append(f"part{self.count} = {text}")
        return f"part{self.count}"

    def container(self, node: Container, text: str) -> None:
        if self.again(node, text):
            return
        text = self.seen[id(node)]
        metadata: Any = node.metadata  # for a dict, the keys in the order of its children
        keys = metadata if node.type is dict else list(range(len(node.children)))
        self.check(f"type({text}) is not {self.name(node.type)} or len({text}) != {len(keys)}")
        if node.volatile:
            self.mutable.append(text)
        if node.type is dict:
            self.check(f"[*{text}] != {keys_of(node)!r}")
            # == does not distinguish 1 from True and 1.0, or str from its subclasses
            kinds = [type(key) for key in node.order()]
            self.check(f"[*{self.name(map)}({self.name(type)}, {text})] != {self.name(kinds, 'kinds')}")
        for key, child in zip(keys, node.children):
            self.node(child, f"{text}[{key!r}]")

    def static(self, value: Any, text: str) -> None:
        if value is None or type(value) in (bool, type(Ellipsis)):
            self.check(f"{text} is not {value!r}")
        elif type(value) is str:
            self.check(f"type({text}) is not str or {text} != {value!r}")
        elif self.standalone and type(value) in (slice, range, bytes):  # their reprs distinguish 1 from True
            kind = self.name(type(value))
            self.check(f"type({text}) is not {kind} or {self.name(repr)}({text}) != {repr(value)!r}")
        else:
            name = self.name(value, "static")
            self.check(f"{text} is not {name} and {self.name(differs)}({text}, {name})")

    def leaf(self, number: int, name: str) -> None:
        """Check the type of a leaf, and the dtype and shape of an array."""
        val = self.tape.inputs[number + 1].val
        self.check(f"type({name}) is not {self.name(type(val))}")
        if isinstance(val, np.ndarray):
            dtype = self.name(val.dtype, f"{val.dtype}_dtype")
            self.check(f"{name}.shape != {val.shape!r} or ({name}.dtype is not {dtype} and {name}.dtype != {dtype})")

    def check(self, wrong: str) -> None:
        self.lines.append(f"if {wrong}: {self.miss}")


def plain_code(node: Closure) -> Any:
    """Return the code of a function without defaults whose variables are all bound. Raises _Intricate for others."""
    code, *defaults = node.defaults
    if defaults != [None, None] or len(node.names) < len(code.co_freevars):
        raise _Intricate
    return code


def keys_of(node: Container) -> list[Any]:
    """Return the keys of a dict in their order. Raises _Intricate unless they are strings and integers."""
    if not all(type(key) in (str, int) for key in node.metadata):  # type: ignore[attr-defined]
        raise _Intricate
    return node.order()


def is_named(node: Container) -> bool:
    """Return whether a container is a named tuple with the items of a plain tuple."""
    kind = node.type
    return (node.metadata is kind and hasattr(kind, "_fields") and kind.__getitem__ is tuple.__getitem__
            and kind.__len__ is tuple.__len__)


def is_open(cls: type) -> bool:
    """Return whether the objects of a class hold all their state in a readable `__dict__`."""
    slotted = any(vars(base).get("__slots__") for base in cls.__mro__)
    plain: Any = object.__getattribute__
    return cls is not SimpleNamespace and "__dict__" in dir(cls) and not slotted and cls.__getattribute__ is plain


class _Intricate(Exception):
    """A nesting has no short source."""


def differs(a: Any, b: Any) -> bool:
    """Return whether a static argument differs from the recorded one."""
    return a is not b and flatten(a, "", [], [], given=True) != flatten(b, "", [], [], given=True)


# -- nesting of results


class Nested(NamedTuple):
    """A nest of parts: each is a leaf's number, None, or a nest. `make` is `tuple`, `list`, `dict` with its `keys`, a
    class of named tuples, whose code does not run, or a function of the parts.
    """

    make: Any
    parts: tuple[Nest, ...]
    keys: tuple[Any, ...] = ()


Nest = int | Nested | None


def nest_of_result(into: Any, count: int) -> Nest:
    """Return the nesting of a tape's result."""
    if not isinstance(into, ValueAndGradients):
        return nest_of(into, range(count), mirror=False)
    signature = into.signature
    if signature.of is not None:  # each gradient has a unit
        return Nested(Built(into.build), tuple(range(count)))
    nests = [None if part is None else nest_of(part, range(1, count), mirror=True) for part in signature.asked]
    return Nested(tuple, (0, nests[0] if signature.is_single else Nested(tuple, tuple(nests))))


def nest_of(structure: Structure, leaves: Sequence[int], mirror: bool) -> Nest:
    """Return the nest of a structure around leaves: of its gradients if `mirror`, else of its values."""
    try:
        return _nest(structure.spec, leaves, mirror, set())
    except _Intricate:
        return Nested(Built(structure.gradient if mirror else structure.build), tuple(leaves))


class FromAttributes(NamedTuple):
    """Makes an object of a class from its attributes, without calling `__init__`."""

    cls: type
    names: tuple[str, ...]

    def __call__(self, *parts: Any) -> Any:
        new: Any = object.__new__(self.cls)
        new.__dict__.update(zip(self.names, parts))
        return new


class Built:
    """Builds a structure around leaves."""

    __slots__ = ("build",)

    def __init__(self, build: Callable[[list[Any]], Any]) -> None:
        self.build = build

    def __call__(self, *leaves: Any) -> Any:
        return self.build([*leaves])


def nested_result(into: Any, texts: Sequence[str], name: Name) -> str:
    """Return the source of a result, from the texts of its parts."""
    return _text(nest_of_result(into, len(texts)), texts, name)


def _text(nest: Nest, texts: Sequence[str], name: Name) -> str:
    if not isinstance(nest, Nested):
        return "None" if nest is None else texts[nest] or "None"
    inside = [_text(part, texts, name) for part in nest.parts]
    if isinstance(nest.make, type) and issubclass(nest.make, tuple):
        text = f"({', '.join(inside)}{',' * (len(inside) == 1)})"
        return text if nest.make is tuple else f"tuple.__new__({name(nest.make, 'nest')}, {text})"
    if nest.make is list:
        return f"[{', '.join(inside)}]"
    if nest.make is dict:
        return f"{{{', '.join(f'{key!r}: {text}' for key, text in zip(nest.keys, inside))}}}"
    return f"{name(nest.make, 'instance' if type(nest.make) is FromAttributes else 'nest')}({', '.join(inside)})"


def _nest(node: Any, leaves: Sequence[int], mirror: bool, seen: set[int]) -> Nest:
    if isinstance(node, Leaf):
        return leaves[node.index]
    if mirror and not node.leafy and not is_hollow(node):
        return None
    if id(node) in seen:
        raise _Intricate  # the same object in two places
    seen.add(id(node))
    if type(node) is Static and node.value is None:
        return None
    if isinstance(node, Closure) and mirror:
        parts = [(label, child) for label, child in zip(node.names, node.children) if child.leafy and child is not node]
        return Nested(dict, tuple([_nest(child, leaves, mirror, seen) for _, child in parts]),
                      tuple([label for label, _ in parts]))
    if isinstance(node, Bound) and mirror:
        return _nest(node.children[1], leaves, mirror, seen)
    if type(node) is Instance and mirror and is_open(node.cls):
        return Nested(FromAttributes(node.cls, tuple(node.names)),
                      tuple([_nest(child, leaves, mirror, seen) for child in node.children]))
    if not isinstance(node, Container) or (node.type not in (tuple, list, dict) and not is_named(node)):
        raise _Intricate
    made = [_nest(child, leaves, mirror, seen) for child in node.children]
    if node.type is not dict:
        return Nested(node.type, tuple(made))
    keys, at = keys_of(node), dict(zip(node.metadata, made))  # type: ignore[call-overload]
    return Nested(dict, tuple([at[key] for key in keys]), tuple(keys))
