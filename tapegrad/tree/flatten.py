"""Nested arguments to leaves and back."""

from __future__ import annotations

import enum
import functools
import numbers
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ReferenceType

import numpy as np

from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.equality import alike, changes
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.systems import is_complex_number, system_of
from tapegrad.numbers.tensors import ORDINARY, is_memory, is_tensor
from tapegrad.numbers.text import Text
from tapegrad.numbers.text import plain as plain_text
from tapegrad.tree.argnums import ALL, Wanted
from tapegrad.tree.attributes import attributes_of, holds_proxies
from tapegrad.tree.copies import NoInput, code_of, current, dict_of, is_empty
from tapegrad.tree.modules import Held, Module, Reference, difference, is_module, is_parameter, trained
from tapegrad.tree.nodes import (
    NUMBERS,
    Bound,
    Closure,
    Container,
    Content,
    Extended,
    Fresh,
    Function,
    Instance,
    Item,
    Leaf,
    Partial,
    Static,
    Subclassed,
    class_of_part,
    is_container,
    is_subclassed,
    key_difference,
    level,
    numbers_of,
)
from tapegrad.tree.opaque import holds_numbers
from tapegrad.tree.seeds import is_nothing, unmirror
from tapegrad.tree.sparse import is_sparse

_NUMBERS = frozenset([float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_])
_NESTS = frozenset([list, tuple, dict])
_STATIC = frozenset([str, bytes, type(None), type, slice, range, type(Ellipsis), ModuleType])


def is_leaf(x: Any) -> bool:
    """True for what becomes an input of a tape: a number, a numeric array, a tensor, or a proxy of one."""
    kind = type(x)
    if kind is np.ndarray:
        return bool(x.dtype.kind in "biufc")
    if kind in _NUMBERS:
        return True
    if hasattr(kind, "_tracer"):
        return not hasattr(kind, "_viewed_as")
    if kind in _NESTS:
        return False
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "biufc" and not is_subclassed(x)
    return (isinstance(x, numbers.Number) and not isinstance(x, enum.Enum)) or is_generator(x) or is_tensor(x) or system_of(kind) is not None


def is_generator(x: Any) -> bool:
    """True for NumPy's random generators: an input, so that a replay can be given another."""
    return type(x).__name__ in ("Generator", "RandomState") and type(x).__module__.startswith("numpy.random")


class Structure:
    """How leaves are nested: rebuilds the nesting around other leaves."""

    __slots__ = ("held", "opaque", "seen", "size", "spec", "start")

    def __init__(self, spec: Any, start: int, size: int, seen: dict[int, Any], opaque: Sequence[tuple[str, Any]] = (),
                 held: Collection[int] = ()) -> None:
        self.spec, self.start, self.size = spec, start, size
        self.seen = seen  # id of what was taken apart -> its part
        self.opaque = opaque  # arrays and sets that are no leaves, with their labels
        self.held = held  # the leaves that are held constant: a module's buffers, what is frozen

    @property
    def is_leaf(self) -> bool:
        return isinstance(self.spec, Leaf)

    @property
    def is_array(self) -> bool:
        """True for an array of a class: its attributes tell of its numbers."""
        return isinstance(self.spec, Subclassed)

    def build(self, leaves: list[Any], memo: dict[int, Any] | None = None) -> Any:
        """Put leaves back into the nesting; `memo` remembers what was built of each part."""
        return self.spec.build(leaves, {} if memo is None else memo)

    def mirror(self, leaves: list[Any]) -> Any:
        """Put gradients into the nesting: None for static parts, a dict by name for what a function captured."""
        return self.spec.mirror(leaves, {})

    def unmirror(self, value: Any, whole: bool = False) -> list[Any]:
        """Take a cotangent or a seed of this nesting apart: one part per leaf, None where it has none.

        Raises ArgumentError where the nesting differs; if it is to be `whole`, where a key of a dict is missing too.
        """
        parts: list[Any] = [None] * (self.start + self.size)
        unmirror(self.spec, value, parts, whole)
        return parts[self.start:]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and alike(self.spec.key({}), other.spec.key({}))

    def __hash__(self) -> int:
        return hash((self.start, self.size))

    def __repr__(self) -> str:
        try:
            return f"{self.spec.mirror(_Stars(), {})!r}".replace("'*'", "*")
        except Exception:  # a class that takes no stars
            return f"<{self.size} leaves>"


class Reached:
    """The objects that a program reaches by names of its own, and which of the arguments' they are: a compiled tape holds while that is so."""

    __slots__ = ("known", "places")

    def __init__(self, known: dict[int, Any], walks: Sequence[Walk]) -> None:
        self.known = known
        self.places = self.among(walks)

    def among(self, walks: Sequence[Walk]) -> list[tuple[int, int]]:
        """Return which of the objects among a call's arguments are reached by names, by their places and ids."""
        return [(place, id(x)) for place, (x, _) in enumerate(met for walk in walks for met in walk.keep) if id(x) in self.known]

    def may_be_among(self, signature: Signature) -> bool:
        """Return False if no arguments that are nested so have a part of the class of one of the objects."""
        found = {class_of_part(node) for part in (*signature.parts, *signature.kwargs.values()) for node in part.seen.values()}
        return not found.isdisjoint([None, *map(type, self.known.values())])


class Signature:
    """How the inputs of a tape are nested in its function, its positional and its keyword arguments, and by which its gradient is `wanted`."""

    __slots__ = ("args", "fn", "function", "kwargs", "reached", "wanted")

    def __init__(self, fn: Any, function: Structure, args: tuple[Structure, ...], kwargs: dict[str, Structure], wanted: Wanted = ALL) -> None:
        self.fn, self.function, self.args, self.kwargs, self.wanted = fn, function, args, kwargs, wanted
        self.reached: Reached | None = None  # known of a traced function alone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.args == other.args and self.kwargs == other.kwargs and self.function == other.function

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{key}={part!r}" for key, part in self.kwargs.items())]
        return f"({', '.join(parts)})"

    def difference(self, other: Signature) -> str:
        """Say how other arguments differ from these."""
        modules = [[node for part in (*each.parts, *each.kwargs.values()) for node in part.seen.values() if type(node) is Module]
                   for each in (self, other)]
        parts = [[part.spec.key({}) for part in (*each.args, *each.kwargs.values())] for each in (self, other)]
        told = next(filter(None, map(difference, *modules)), "") or next(filter(None, map(key_difference, *parts)), "")
        return told or f"recorded {self!r}, given {other!r}"

    @property
    def parts(self) -> tuple[Structure, ...]:
        """The function and the positional arguments: what can be differentiated by."""
        return (self.function, *self.args)

    @property
    def asked(self) -> tuple[Structure | None, ...]:
        """What a gradient has a place for, in its order: None for the function's, where that is not wanted."""
        argnums, captured = self.wanted
        if argnums is None:
            return (self.function if captured else None, *self.args)
        return tuple([self.args[i] for i in argnums]) if type(argnums) is tuple else (self.args[argnums],)  # type: ignore[index]

    @property
    def is_single(self) -> bool:
        """True if the gradient by one argument is wanted, and not a tuple of several."""
        return isinstance(self.wanted.argnums, int)

    def refuse_opaque(self) -> None:
        """Refuse to differentiate by an array of objects or records that holds numbers: it would have no gradient, and nobody would be told."""
        for part in self.asked:
            for label, x in part.opaque if part is not None and part is not self.function else ():
                if holds_numbers(x, is_leaf):
                    what = f"an array of {'objects' if x.dtype == object else 'records'}" if isinstance(x, np.ndarray) else f"a {type(x).__name__}"
                    cure = f"{label}.tocsr()" if is_sparse(x) else "an array of numbers, a list or a dict"
                    raise ArgumentError(f"{label} is {what} that holds numbers, which have no gradient there", None,
                                        f"{cure}; or pass it by keyword, which is not differentiated")

    def gradients(self, leaves: list[Any]) -> Any:
        """Return from one cotangent per input what is wanted: (df, *dargs), a tuple of some of the dargs, or one of them."""
        nests = tuple([None if part is None else part.mirror(leaves) for part in self.asked])
        return nests[0] if self.is_single else nests


class Recorded:
    """The function of a tape that was loaded without it: its name, and what it had captured when the tape was saved."""

    __slots__ = ("__name__", "_type_name", "leaves", "structure")

    def __init__(self, name: str, type: str) -> None:
        self.__name__, self._type_name = name, type
        self.structure = Structure(Static(self), 0, 0, {})
        self.leaves: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentError(f"the code of {self.__name__} is not in the file that its tape was loaded from",
                            try_=f"tape.play(...), or tg.load(path, primitives={{{self.__name__!r}: {self.__name__}}})")


class ValueAndGradients:
    """The nesting of what a gradient tape returns: (value, (df, *dargs)), or of the gradients those that are wanted."""

    __slots__ = ("shapes", "signature", "size")

    def __init__(self, signature: Signature, value: Any) -> None:
        self.signature, self.shapes = signature, _shapes(value)
        self.size = sum(part.size for part in signature.parts)

    def build(self, leaves: list[Any]) -> Any:
        """Nest the value, first, and the cotangents; raise GuardError where the seed was made for a value of another shape."""
        if (found := _shapes(leaves[0])) != self.shapes:
            raise GuardError(f"the seed of this gradient tape was made for {', '.join(self.shapes)}; now the function returns {', '.join(found)}",
                             None, "gradtape with these arguments")
        return leaves[0], self.signature.gradients(leaves[1:])

    def unmirror(self, value: Any) -> list[Any]:
        """Take a cotangent of this nesting apart: None, or a cotangent of nothing, may stand for any part of it."""
        value, gradients = (None, None) if is_nothing(value) else value
        asked = self.signature.asked
        nests: Any = [None] * len(asked) if is_nothing(gradients) else [gradients] if self.signature.is_single else gradients
        given = {id(part): nest for part, nest in zip(asked, nests, strict=True)}
        return [value, *(leaf for part in self.signature.parts for leaf in part.unmirror(given.get(id(part))))]

    def __repr__(self) -> str:
        nests = list(map(repr, self.signature.asked))
        return f"(*, {nests[0]})" if self.signature.is_single else f"(*, ({', '.join(nests)}))"


def _shapes(value: Any) -> list[str]:
    """Return what a seed must fit: the shape of each leaf, and whether it is complex."""
    found = []
    for leaf in map(plain, leaves_of(value)):
        kind = "complex" if is_complex_number(leaf) or getattr(dtype_of(leaf), "kind", "") == "c" else "real"
        found.append(f"{kind}{list(getattr(leaf, 'shape', ()))}")
    return found


class _Stars:
    def __getitem__(self, index: int) -> str:
        return "*"


# Python functions whose calls are recorded whole: they are known by identity, and so are never rebuilt around proxies.
OPAQUE: set[FunctionType] = set()


def fixed(x: Any) -> Static:
    """Return the part for what has no parts of its own."""
    if isinstance(x, FunctionType) and x.__closure__ is None and x not in OPAQUE:
        return Function(x)
    return Content(x) if changes(x) else Static(x)


def flatten(x: Any, label: str, leaves: list[Any], labels: list[str], shared: bool = True, walks: list[Walk] | None = None,
            original: Callable[[Any], Any] | None = None) -> Structure:
    """Append the leaves of `x` and their labels (`m.W`, `params['b'][0]`), and return how they were nested; add to `walks` what else was met.

    What occurs twice is one part, unless `shared` is False: each occurrence in an output has a cotangent of its own. Of functions `original`
    gives those that an output is to have.
    """
    start = len(leaves)
    if type(x) in _NUMBERS or (type(x) is np.ndarray and x.dtype.kind in "biufc"):
        leaves.append(x)
        labels.append(label)
        if walks is not None:
            walks.append(_NOTHING)
        return Structure(Leaf(start), start, 1, {})
    walk = Walk(leaves, labels, shared, original)
    if walks is not None:
        walks.append(walk)
    if type(x) is FunctionType and x.__closure__ is None and not x.__dict__:
        walk.called.append(x)
        return Structure(fixed(x), start, 0, {})
    spec = walk.visit(x, label)
    return Structure(spec, start, len(leaves) - start, walk.seen, walk.opaque, walk.held)


def changed(part: Any, built: Any, leaves: list[Any], memo: dict[int, Any]) -> bool:
    """Return whether a program has put something else into the list, dict or object that was built of a part."""
    found = Walk([], []).take_apart(built, "")
    now = [] if found is None else [value for value, _ in found[1]]
    then = [child.build(leaves, memo) for child in part.children]
    return len(now) != len(then) or any(a is not b for a, b in zip(now, then))


def leaves_of(x: Any) -> list[Any]:
    """Return the leaves of a nested structure."""
    leaves: list[Any] = []
    if not _quickly(x, leaves, set()):
        flatten(x, "", leaves := [], [])
    return leaves


def _quickly(x: Any, leaves: list[Any], seen: set[int]) -> bool:
    """Append the leaves of tuples, lists and dicts by name, as calls of torch's take them; return False where there is anything else."""
    kind = type(x)
    if kind in _NUMBERS or (kind not in _NESTS and is_leaf(x)):
        leaves.append(x)
        return kind in ORDINARY or not is_parameter(x)
    if kind in _NESTS and id(x) not in seen and (kind is not dict or all(type(key) is str for key in x)):
        seen.add(id(x))
        for part in x if kind is not dict else [x[key] for key in sorted(x)]:  # noqa: SIM110  (no generator: asked at every call)
            if not _quickly(part, leaves, seen):
                return False
        return True
    if kind in _STATIC or (kind is not dict and kind in _NESTS and id(x) in seen):
        return True
    return is_sparse(x) and "data" in vars(x) and _quickly(x.data, leaves, seen)


class Walk:
    """One flattening. A mutable part that occurs twice is one part, as it is in the program; leaves are separate."""

    __slots__ = ("called", "changeable", "held", "keep", "labels", "leaves", "modules", "opaque", "open", "original", "restored", "seen", "shared")

    def __init__(self, leaves: list[Any], labels: list[str], shared: bool = True, original: Callable[[Any], Any] | None = None) -> None:
        self.leaves, self.labels, self.shared, self.original, self.restored = leaves, labels, shared, original, False
        self.seen: dict[int, Any] = {}  # id of a part -> its node, also while that is still open
        self.open: list[Any] = []
        self.opaque: list[tuple[str, Any]] = []
        self.modules: list[Module] = []  # those that are open: what is in them is theirs
        self.held: set[int] = set()
        self.keep: list[tuple[Any, str]] = []  # what was seen, and its label: it must live as long as its id is a key
        self.changeable = False  # whether it holds something that changes and is passed on as it is
        self.called: list[Any] = []  # functions and classes, which are passed on as they are

    def visit(self, x: Any, label: str) -> Any:
        if is_leaf(x):
            return self.leaf(x, label) if not self.modules and (type(x) in ORDINARY or not is_parameter(x)) else self.one_leaf(x, label)
        if type(x) in _STATIC or type(x) is Text or type(x) is NoInput:
            if type(x) is type:
                self.called.append(x)
            return Static(x.value if type(x) is NoInput else x if type(x) is not Text else plain_text(x))
        if "_redirects_for" in type(x).__dict__:
            x = current(x)
        if id(x) in self.seen:
            return self.seen[id(x)]
        if type(x) is ReferenceType and self.modules:
            self.changeable = True
            return Reference(x, self.seen.get(id(x())))
        if type(x) is CellType:
            self.seen[id(x)] = node = self.visit(x.cell_contents, label)
            self.keep.append((x, label))
            return node
        if type(x) is FunctionType and "_torchdynamo_orig_callable" in x.__dict__:  # by torch.compile, which would see proxies
            self.seen[id(x)] = node = self.visit(x.__dict__["_torchdynamo_orig_callable"], label)
            self.keep.append((x, label))
            return node
        if isinstance(x, (set, frozenset)):
            self.opaque.append((label, x))
        if isinstance(x, (set, bytearray)):
            self.seen[id(x)] = Fresh(x)
            self.keep.append((x, label))
            return self.seen[id(x)]
        if self.original is not None and callable(x):
            given, x = x, self.original(x)
            self.restored = self.restored or x is not given
        found = self.take_apart(x, label)
        if found is None:
            if isinstance(x, (np.ndarray, array)) or is_sparse(x):
                self.opaque.append((label, x))
            elif callable(x):
                self.called.append(x)
            part = fixed(x)
            self.changeable = self.changeable or type(part) is Content
            return part
        node, parts = found
        self.seen[id(x)] = node
        self.keep.append((x, label))
        self.open.append(node)
        if type(node) is Module:
            self.modules.append(node)
        for part, part_label in parts:
            parameter = type(node) is Module and node.names[-1][0] == "_parameters"
            child = self.one_leaf(part, part_label, parameter=True) if parameter else self.visit(part, part_label)
            node.children.append(child)
            node.leafy = node.leafy or child.leafy
        if type(node) is Module:
            self.modules.pop()
        self.open.pop()
        if not node.leafy and not node.volatile and not self.restored and not self.leads_out(node):
            self.seen[id(x)] = node = Static(x)
        if not self.shared:
            del self.seen[id(x)]
        return node

    def leaf(self, x: Any, label: str) -> Leaf:
        self.leaves.append(x)
        self.labels.append(label)
        return Leaf(len(self.leaves) - 1)

    def one_leaf(self, x: Any, label: str, parameter: bool = False) -> Any:
        """Return the place of a tensor of a module's, or of a parameter anywhere: the same one wherever it occurs. Numbers have none in a module."""
        if id(x) in self.seen:
            return self.seen[id(x)]
        if not is_memory(x) and not hasattr(type(x), "_tracer") and not is_generator(x):
            return Static(x)
        node = self.leaf(x, label)
        if self.modules and not (is_tensor(x) and trained(x, parameter)):
            node = Held(node.index)
            self.held.add(node.index)
        for module in self.modules if node.leafy else ():
            module.extra.append((label[len(module.label):].removeprefix("."), node))
        if self.shared:
            self.seen[id(x)] = node
            self.keep.append((x, label))
        return node

    def leads_out(self, node: Any) -> bool:
        """True if an immutable part refers to one that is mutable, has leaves, or is still open."""
        stack, inside = list(node.children), {id(node)}
        while stack:
            child = stack.pop()
            if id(child) in inside or (isinstance(child, Static) and not isinstance(child, (Content, Fresh))):
                continue
            if isinstance(child, (Leaf, Content, Fresh)) or child.volatile or child.leafy or child in self.open:
                return True
            inside.add(id(child))
            stack += child.children
        return False

    def take_apart(self, x: Any, label: str) -> tuple[Any, Iterator[tuple[Any, str]]] | None:
        """Return the node and the labelled parts of `x`, or None if it has none."""
        if isinstance(x, FunctionType):
            if x.__closure__ is None or x in OPAQUE:
                return None
            cells = {name: cell for name, cell in zip(code_of(x).co_freevars, x.__closure__) if not is_empty(cell)}
            return Closure(x, list(cells)), ((cell, _join(label, name)) for name, cell in cells.items())
        if isinstance(x, MethodType):
            return Bound(x, ["fn", "self"]), iter([(x.__func__, label), (x.__self__, _join(label, "self"))])
        if is_module(x):
            module = Module(x, label)
            return module, module.take_apart()
        if isinstance(x, functools.partial):
            parts = [(x.func, label), (x.args, _join(label, "args")), (x.keywords, _join(label, "keywords"))]
            return Partial(x, ["func", "args", "keywords"]), iter(parts)
        if is_sparse(x):
            return (Container(x), iter([(x.data, _join(label, "data"))])) if is_container(x) and "data" in vars(x) else None
        if is_subclassed(x):
            own = {NUMBERS: numbers_of(x), **{key: NoInput(part) if _is_count(part) else part for key, part in x.__dict__.items()}}
            return Subclassed(x, list(own)), ((part, label if name == NUMBERS else _join(label, name)) for name, part in own.items())
        if not is_container(x):
            if isinstance(x, (dict, list)) or (isinstance(x, tuple) and holds_proxies(x)):
                items = x.items() if isinstance(x, dict) else enumerate(x)
                named: dict[Any, Any] = {**{Item(key): part for key, part in items}, **dict_of(x)}
                return Extended(x, list(named)), ((part, f"{label}[{name.key!r}]" if type(name) is Item else _join(label, name))
                                                  for name, part in named.items())
            attributes = attributes_of(x)
            if not attributes:
                return None
            return Instance(x, list(attributes)), ((part, _join(label, name)) for name, part in attributes.items())
        one = level(x)
        if hasattr(x, "_fields"):
            return Container(x, one), ((part, f"{label}.{name}") for part, name in zip(one.children, x._fields))
        return Container(x, one), ((part, f"{label}[{entry!r}]") for part, entry in zip(one.children, one.entries))


_NOTHING = Walk([], [])  # of a leaf: nothing but that was met


def _is_count(x: Any) -> bool:
    """True for an integer, or a tuple of some: a size, a shape, an option, the mask of an array without one."""
    return type(x) in (int, bool) or x is np.False_ or (type(x) is tuple and all(map(_is_count, x)))


def _join(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name
