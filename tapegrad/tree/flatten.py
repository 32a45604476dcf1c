"""flatten: flattens nested arguments to leaves and rebuilds them."""

from __future__ import annotations

import enum
import functools
import numbers
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any
from weakref import ProxyTypes, ReferenceType

import numpy as np

from tapegrad.numbers.equality import alike, changes
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.sparse_tensors import is_sparse_tensor
from tapegrad.numbers.systems import is_numeric, system_of
from tapegrad.numbers.tensors import ORDINARY, is_memory, is_tensor
from tapegrad.numbers.text import Text
from tapegrad.numbers.text import plain as plain_text
from tapegrad.tree.attributes import attributes_of, code_of_parts, holds_proxies, is_foreign, is_plain_class, is_table
from tapegrad.tree.copies import (
    Member,
    StaticNumber,
    base_of,
    beside,
    code_of,
    current,
    dict_of,
    is_empty,
    own_attributes,
)
from tapegrad.tree.modules import Held, Module, Reference, is_module, is_parameter, is_trained, trained
from tapegrad.tree.nodes import (
    GRADIENT,
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
    Made,
    Partial,
    Static,
    Subclassed,
    Way,
    is_container,
    is_subclassed,
    level,
    numbers_of,
)
from tapegrad.tree.opaque import is_foreign_array
from tapegrad.tree.seeds import unmirror
from tapegrad.tree.sparse import is_sparse
from tapegrad.tree.sparse_tensors import SparseTensor
from tapegrad.tree.ways import owner_of

_NUMBERS = frozenset([float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_])
BOOLS = frozenset([bool, np.bool_])
_NESTS = frozenset([list, tuple, dict])
_OBJECTS = frozenset([Instance, Module])
_STATES = frozenset([Closure, Instance, Module, Partial])
_CODE = frozenset([FunctionType, MethodType, CellType])
_KEYS = frozenset([str, int, float, bool, bytes, type(None)])
_STATIC = frozenset([str, bytes, type(None), type, slice, range, type(Ellipsis), ModuleType])
Parted = tuple[Any, Iterator[tuple[Any, str]]]  # a node, and the parts of its value with their labels


def is_leaf(x: Any) -> bool:
    """True for a value that becomes an input of a tape: a number, a numeric array, a tensor, or a proxy of one."""
    kind = type(x)
    if kind is np.ndarray:
        return is_numeric(x)
    if kind in _NUMBERS:
        return True
    if hasattr(kind, "_tracer"):
        return not hasattr(kind, "_viewed_as")
    if kind in _NESTS:
        return False
    if isinstance(x, (np.ndarray, np.generic)):
        return is_numeric(x) and not is_subclassed(x)
    if is_tensor(x):
        return not is_sparse_tensor(x)
    return ((isinstance(x, numbers.Number) and not isinstance(x, enum.Enum)) or is_generator(x)
            or system_of(kind) is not None)


def is_traced_slice(x: Any) -> bool:
    """True for a slice of traced numbers, which a program may return."""
    return type(x) is slice and any(hasattr(type(part), "_tracer") for part in (x.start, x.stop, x.step))


def is_extended(x: Any) -> bool:
    """True for a container of a user's class, or with attributes; it is read and built by the built-in methods."""
    kind = type(x)
    if kind in _NESTS or not isinstance(x, (dict, list, deque, tuple)):
        return False
    if isinstance(x, tuple) and not hasattr(kind, "_fields"):
        return not is_container(x) and (holds_proxies(x) or not is_foreign(kind.__module__))
    return bool(dict_of(x)) or not is_container(x) or (isinstance(x, tuple) and kind.__iter__ is not tuple.__iter__)


class Structure:
    """The nesting of leaves; it rebuilds the nested value around other leaves."""

    __slots__ = ("held", "kept", "opaque", "seen", "size", "spec", "start")

    def __init__(self, spec: Any, start: int, size: int, seen: dict[int, Any], opaque: Sequence[tuple[str, Any]] = (),
                 held: Collection[int] = (), kept: Collection[int] = ()) -> None:
        self.spec, self.start, self.size = spec, start, size
        self.seen = seen  # id of each flattened part -> its node
        self.opaque = opaque  # arrays and sets that are not leaves, with their labels
        self.held = held  # the leaves that are held constant: a module's buffers, frozen parameters
        self.kept = kept  # the arrays among the leaves that are stored in an object or a function

    @property
    def is_leaf(self) -> bool:
        return isinstance(self.spec, Leaf)

    @property
    def is_array(self) -> bool:
        """True for an array subclass; its attributes describe its numbers."""
        return isinstance(self.spec, Subclassed)

    def build(self, leaves: list[Any], memo: dict[int, Any] | None = None) -> Any:
        """Return the nested value around other leaves; `memo` maps each part to its built value."""
        return self.spec.build(leaves, {} if memo is None else memo)

    def mirror(self, leaves: list[Any]) -> Any:
        """Return nested tangents: None for static parts, a dict by name for a function's captured values."""
        return self.spec.mirror(leaves, {})

    def gradient(self, leaves: list[Any], of: Any = None) -> Any:
        """Return nested gradients, as tangents; one by a quantity has the unit of the value, `of`, over the quantity's.
        """
        return self.spec.mirror(leaves, {GRADIENT: of})

    def unmirror(self, value: Any, whole: bool = False) -> list[Any]:
        """Return one part of a cotangent or seed of this nesting per leaf, None for a leaf without one.

        Raises ArgumentError if the nesting differs; with `whole`, also if a key of a dict is missing.
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
        except Exception:  # a class whose constructor rejects stars
            return f"<{self.size} leaves>"


class _Stars:
    def __getitem__(self, index: int) -> str:
        return "*"


# Python functions recorded as one call. They are looked up by identity, so they are never rebuilt around proxies.
OPAQUE: set[FunctionType] = set()


def fixed(x: Any) -> Static:
    """Return the node of a value without parts."""
    if isinstance(x, FunctionType) and x.__closure__ is None and x not in OPAQUE:
        return Function(x)
    return Content(x) if changes(x) else Static(x)


def flatten(x: Any, label: str, leaves: list[Any], labels: list[str], shared: bool = True,
            walks: list[Walk] | None = None, original: Callable[[Any], Any] | None = None,
            given: bool = False) -> Structure:
    """Append the leaves of `x` and their labels (`m.W`, `params['b'][0]`), and return their nesting.

    A part that occurs twice is one node, unless `shared` is False: then each occurrence in an output has its own
    cotangent. The Walk, with everything else found, is appended to `walks`. For an output, `original` maps a function
    to the one to return, and arrays are copied. With `given` (a program's arguments) bools are not leaves: they have no
    gradient, and the program may test `flag is True`.
    """
    start = len(leaves)
    kind = type(x)
    if (kind in _NUMBERS and not (given and kind in BOOLS)) or (kind is np.ndarray and x.dtype.kind in "biufc"):
        leaves.append(x)
        labels.append(label)
        if walks is not None:
            walks.append(_NOTHING)
        return Structure(Leaf(start), start, 1, {})
    walk = Walk(leaves, labels, shared, original, given)
    if walks is not None:
        walks.append(walk)
    if type(x) is FunctionType and x.__closure__ is None and not x.__dict__:
        walk.called.append(x)
        return Structure(fixed(x), start, 0, {})
    spec = walk.visit(x, label)
    return Structure(spec, start, len(leaves) - start, walk.seen, walk.opaque, walk.held, walk.kept)


def leaves_of(x: Any) -> list[Any]:
    """Return the leaves of a nested structure."""
    leaves: list[Any] = []
    if not _quickly(x, leaves, set()):
        flatten(x, "", leaves := [], [])
    return leaves


def _quickly(x: Any, leaves: list[Any], seen: set[int]) -> bool:
    """Append the leaves of tuples, lists and str-keyed dicts, as torch's calls take them; return False for others."""
    kind = type(x)
    if kind in _NUMBERS or (kind not in _NESTS and is_leaf(x)):
        leaves.append(x)
        return kind in ORDINARY or not is_parameter(x)
    if kind in _NESTS and id(x) not in seen and (kind is not dict or all(type(key) is str for key in x)):
        seen.add(id(x))
        # no generator, for speed: every call runs this
        for part in x if kind is not dict else [x[key] for key in sorted(x)]:  # noqa: SIM110
            if not _quickly(part, leaves, seen):
                return False
        return True
    if kind in _STATIC or (kind is not dict and kind in _NESTS and id(x) in seen):
        return True
    return is_sparse(x) and "data" in vars(x) and _quickly(x.data, leaves, seen)


class Walk:
    """One flattening. A mutable part that occurs twice is one node, as in the program; leaves are separate."""

    __slots__ = ("blind", "called", "changeable", "classes", "data", "given", "held", "keep", "kept", "labels",
                 "leaves", "modules", "opaque", "open", "original", "restored", "seen", "shared", "stateful", "states")

    def __init__(self, leaves: list[Any], labels: list[str], shared: bool = True,
                 original: Callable[[Any], Any] | None = None, given: bool = False) -> None:
        self.leaves, self.labels, self.shared, self.original, self.restored = leaves, labels, shared, original, False
        self.given = given  # whether these are a program's arguments
        self.seen: dict[int, Any] = {}  # id of a part -> its node, including nodes still open
        self.open: list[Any] = []
        self.opaque: list[tuple[str, Any]] = []
        self.modules: list[Module] = []  # the open modules, which own the tensors found below them
        self.stateful = False  # whether there is an object or function with state
        self.states = 0  # the number of open objects and functions: arrays in them have an identity
        self.held: set[int] = set()
        self.kept: set[int] = set()
        self.keep: list[tuple[Any, str]] = []  # the parts found, with labels; kept alive while their ids are keys
        # whether the parts are numbers, plain data and objects with only such attributes: no functions, no classes
        self.data = True
        self.classes: set[type] = set()  # of the objects
        self.changeable = False  # whether it holds a mutable value that is passed on unchanged
        # values passed on unchanged that may lead to copied objects: iterators, memory
        self.blind: list[tuple[Any, str]] = []
        self.called: list[Any] = []  # functions and classes, passed on unchanged

    def visit(self, x: Any, label: str) -> Any:
        kind = type(x)
        if kind is float and not self.modules:  # the commonest attribute
            return self.leaf(x, label)
        if self.given and kind in BOOLS:
            return Static(x)
        if kind in _STATIC and not is_traced_slice(x):
            if kind is type:
                self.called.append(x)
            self.data = self.data and kind is not type and kind is not ModuleType
            return Static(x)
        if kind in _NESTS:
            return self.seen.get(id(x)) or self.nest(x, label, self.level(x, label))
        if self.original is None and is_plain_class(kind) and not is_container(x):
            return self.seen.get(id(x)) or self.nest(x, label, self.instance(x, label, own_attributes(x)))
        if kind not in _CODE and is_leaf(x):
            if self.modules or (kind not in ORDINARY and is_parameter(x)):
                return self.one_leaf(x, label)
            leaf = self.leaf(x, label)
            if kind not in _NUMBERS and self.shared and (is_memory(x) if self.states else is_trained(x)):
                self.seen.setdefault(id(x), leaf)
                self.keep.append((x, label))
            return leaf
        self.data = self.data and (kind is CellType or self.is_function(x))
        if kind is Text or kind is StaticNumber:
            self.restored = self.restored or kind is Text
            return Static(x.value if kind is StaticNumber else plain_text(x))
        if type(x) is Member:
            return self.leaf(x.value, label)
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
        # wrapped by torch.compile, which would see proxies
        if type(x) is FunctionType and "_torchdynamo_orig_callable" in x.__dict__:
            self.seen[id(x)] = node = self.visit(x.__dict__["_torchdynamo_orig_callable"], label)
            self.keep.append((x, label))
            return node
        if isinstance(x, frozenset) and self.original is not None and any(
                hasattr(type(part), "_tracer") for part in frozenset.__iter__(x)):
            self.restored = True  # its numbers were hashed, so they are fixed
            new: Any = frozenset.__new__(type(x), map(plain, frozenset.__iter__(x)))
            for name, part in beside(x).items():
                object.__setattr__(new, name, part)
            return Static(new)
        if isinstance(x, (set, frozenset)):
            self.opaque.append((label, x))
        if isinstance(x, (set, bytearray)):
            self.called += code_of_parts(set.__iter__(x)) if isinstance(x, set) else ()
            self.seen[id(x)] = Fresh(x)
            self.keep.append((x, label))
            return self.seen[id(x)]
        if type(x) in ProxyTypes:  # weakref proxies, which report another class
            self.blind.append((x, label))
            return Static(x)
        if self.original is not None and callable(x):
            given, x = x, self.original(x)
            self.restored = self.restored or x is not given
        return self.nest(x, label, self.take_apart(x, label))

    def is_function(self, x: Any) -> bool:
        """True for the function that is flattened, or its method's function."""
        if type(x) is MethodType:
            return not self.open and type(x.__func__) is FunctionType
        return type(x) is FunctionType and (not self.open or (
            len(self.open) == 1 and type(self.open[0]) is Bound and not self.open[0].children))

    def nest(self, x: Any, label: str, found: Parted | None) -> Any:
        """Return the node of an object that is no leaf and was taken apart."""
        if found is None:
            if isinstance(x, (np.ndarray, array)) or is_sparse(x) or is_foreign_array(x):
                self.opaque.append((label, x))
            elif callable(x) or type(x) is GeneratorType:
                self.called.append(x)
            part = Made(x) if self.original is not None and isinstance(x, (np.ndarray, array)) else fixed(x)
            if not isinstance(x, (FunctionType, BuiltinFunctionType, type)):
                self.data = False
                self.blind.append((x, label))
            self.changeable = self.changeable or isinstance(part, Content)
            return part
        node, parts = found
        if type(node) is Instance:
            self.classes.add(node.cls)
        elif type(x) is dict:
            self.data = self.data and _KEYS.issuperset(map(type, x))
        elif type(x) not in _NESTS and type(node) not in _OBJECTS:
            self.called += code_of_parts((x,))
        if type(node) is Instance and hasattr(node.cls, "__array__") and is_table(x):
            self.opaque.append((label, x))
        self.seen[id(x)] = node
        self.keep.append((x, label))
        self.open.append(node)
        state = type(node) in _STATES
        self.states += state
        self.stateful = self.stateful or state
        if type(node) is Module:
            self.modules.append(node)
        for part, part_label in parts:
            if type(part) is float and not self.modules:  # as in `visit`
                node.children.append(Leaf(len(self.leaves)))
                node.leafy = True
                self.leaves.append(part)
                self.labels.append(part_label)
                continue
            parameter = type(node) is Module and node.names[-1][0] == "_parameters"
            child = self.one_leaf(part, part_label, parameter=True) if parameter else self.visit(part, part_label)
            node.children.append(child)
            node.leafy = node.leafy or child.leafy
        if type(node) is Module:
            self.modules.pop()
        self.open.pop()
        self.states -= state
        if not node.leafy and not node.volatile and not self.restored and not self.leads_out(node):
            self.seen[id(x)] = node = Static(x)
        if not self.shared:
            del self.seen[id(x)]
        return node

    def leaf(self, x: Any, label: str) -> Leaf:
        if self.states and type(x) not in _NUMBERS and is_memory(x):
            self.kept.add(len(self.leaves))
        if type(x) not in ORDINARY:
            self.called += code_of_parts((x,))
        self.leaves.append(x)
        self.labels.append(label)
        return Leaf(len(self.leaves) - 1)

    def one_leaf(self, x: Any, label: str, parameter: bool = False) -> Any:
        """Return the one node of a module's tensor or of any parameter; for a number, a static node."""
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

    def take_apart(self, x: Any, label: str) -> Parted | None:
        """Return the node and the labelled parts of `x`, or None if it has none."""
        if isinstance(x, FunctionType):
            if x.__closure__ is None or x in OPAQUE:
                return None
            cells = {name: cell for name, cell in zip(code_of(x).co_freevars, x.__closure__) if not is_empty(cell)}
            return Closure(x, list(cells)), ((cell, _join(label, name)) for name, cell in cells.items())
        if (owner := owner_of(x)) is not None:
            if is_generator(owner) and owner is np.random.mtrand._rand:  # type: ignore[attr-defined]
                return None  # NumPy's global generator is no input
            return Way(x, ["fn", "self"]), iter([(type(x), label), (owner, label)])
        if isinstance(x, MethodType):
            return Bound(x, ["fn", "self"]), iter([(x.__func__, label), (x.__self__, _join(label, "self"))])
        if is_module(x):
            module = Module(x, label)
            return module, module.take_apart()
        if isinstance(x, functools.partial):
            parts = [(x.func, label), (x.args, _join(label, "args")), (x.keywords, _join(label, "keywords"))]
            parts += [(part, _join(label, name)) for name, part in vars(x).items()]
            return Partial(x, ["func", "args", "keywords", *vars(x)]), iter(parts)
        if is_sparse(x):
            whole = is_container(x) and "data" in vars(x)
            return (Container(x), iter([(x.data, _join(label, "data"))])) if whole else None
        if is_sparse_tensor(x):
            tensor = SparseTensor(x)
            return tensor, ((part, _join(label, name)) for part, name in tensor.parts)
        if is_subclassed(x):
            own = {NUMBERS: numbers_of(x),
                   **{key: StaticNumber(part) if _is_count(part) else part for key, part in x.__dict__.items()}}
            return Subclassed(x, list(own)), ((part, label if name == NUMBERS else _join(label, name))
                                              for name, part in own.items())
        if is_extended(x):
            base = base_of(x)
            items = base.items(x) if isinstance(x, dict) else enumerate(base.__iter__(x))
            if any(hasattr(type(key), "_tracer") for key in base.__iter__(x) if isinstance(x, dict)):
                self.restored, items = True, [(plain(key), part) for key, part in items]
            named: dict[Any, Any] = {**{Item(key): part for key, part in items}, **beside(x)}
            names = [f"{label}[{name.key!r}]" if type(name) is Item else _join(label, name) for name in named]
            return Extended(x, list(named)), zip(named.values(), names)
        if not is_container(x) and type(x) is not slice:
            return self.instance(x, label, attributes_of(x))
        return self.level(x, label)

    def instance(self, x: Any, label: str, attributes: dict[str, Any]) -> Parted | None:
        """Return the node and the attributes of an object, or None if it has none."""
        if not attributes:
            return None
        return Instance(x, list(attributes)), ((part, _join(label, name)) for name, part in attributes.items())

    def level(self, x: Any, label: str) -> Parted:
        """Return the node and the parts of a container."""
        if type(x) is dict and Text in map(type, x):
            self.restored, x = True, {plain_text(key) if type(key) is Text else key: part for key, part in x.items()}
        one = level(x)
        if hasattr(x, "_fields"):
            return Container(x, one), ((part, f"{label}.{name}") for part, name in zip(one.children, x._fields))
        return Container(x, one), ((part, f"{label}[{entry!r}]") for part, entry in zip(one.children, one.entries))


_NOTHING = Walk([], [])  # the walk of a leaf, which finds nothing else


def _is_count(x: Any) -> bool:
    """True for an integer or a tuple of integers (a size, a shape, an option) and for the empty mask of an array."""
    return type(x) in (int, bool) or x is np.False_ or (type(x) is tuple and all(map(_is_count, x)))


def _join(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name
