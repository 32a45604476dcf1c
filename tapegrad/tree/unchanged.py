"""unchanged: checks whether nested objects changed since flattening, in a tenth of the time of flattening."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from operator import attrgetter, is_
from types import CellType, FunctionType, MethodType
from typing import Any

from tapegrad.numbers.object_state import attributes, slots_of
from tapegrad.numbers.sparse_tensors import is_sparse_tensor
from tapegrad.numbers.tensors import is_memory, is_tensor
from tapegrad.tree.copies import KINDS, StaticNumber, class_of, is_empty
from tapegrad.tree.flatten import Walk
from tapegrad.tree.modules import forward_of, hooks_of_all, is_module
from tapegrad.tree.nodes import Fresh
from tapegrad.tree.sparse import is_sparse

_CONTAINERS = frozenset([dict, OrderedDict, list, set])
_OF_FUNCTION = attrgetter("__code__", "__defaults__", "__kwdefaults__")
_OF_TENSOR = attrgetter("requires_grad", "is_leaf", "_backward_hooks", "_post_accumulate_grad_hooks")


def changed(part: Any, built: Any, leaves: list[Any], memo: dict[int, Any]) -> bool:
    """Return whether the program changed the content of the list, dict, set or object that was built from a node."""
    if type(part) is Fresh:
        if not isinstance(built, set):
            return bool(built != part.value)
        return {*map(id, set.__iter__(built))} != {*map(id, set.__iter__(part.value))}
    found = Walk([], []).take_apart(built, "")
    now = [] if found is None else [value.value if type(value) is StaticNumber else value for value, _ in found[1]]
    then = [child.build(leaves, memo) for child in part.children]
    return len(now) != len(then) or any(a is not b for a, b in zip(now, then))


class Uncheckable(Exception):
    """Raised for an object that may change without a change of its parts: an array of strings, a slot, an iterator."""


class Unchanged:
    """The contents of modules, dicts, lists, plain objects and closures at the time of a walk, by identity.

    Calling it returns whether contents and classes are the same, so that another walk would find the same leaves in the
    same nesting. The numbers and shapes of the leaves are not compared. Raises Uncheckable for other objects.
    """

    __slots__ = ("cells", "classes", "empty", "forwards", "functions", "hooks", "lists", "tables", "tensors")

    def __init__(self, walks: Iterable[Walk]) -> None:
        self.tables: list[tuple[dict[Any, Any], list[Any], list[Any]]] = []
        self.lists: list[tuple[Collection[Any], list[Any]]] = []
        self.empty: list[Any] = []
        self.classes: list[tuple[Any, type]] = []
        self.cells: list[tuple[CellType, Any]] = []
        tensors, functions = list[Any](), list[FunctionType]()
        for walk in walks:
            if walk.changeable:
                raise Uncheckable
            functions += [x for x in walk.called if isinstance(x, FunctionType)]
            for x, _ in walk.keep:
                if is_tensor(x) and not is_sparse_tensor(x):
                    tensors.append(x)
                elif isinstance(x, FunctionType):
                    functions.append(x)
                else:
                    self._note(x)
        if any(fn.__dict__ for fn in functions):
            raise Uncheckable
        self.functions = [(fn, _OF_FUNCTION(fn)) for fn in functions]
        self.tensors = tensors, list(map(_OF_TENSOR, tensors))
        if any(hooks for *_, before, after in self.tensors[1] for hooks in (before, after)):
            raise Uncheckable  # a table of hooks, which may grow
        self.forwards = [(cls, forward) for cls in {cls for x, cls in self.classes if is_module(x)}
                         if (forward := forward_of(cls)) is not None]
        self.hooks = hooks_of_all() if any(is_module(x) for x, _ in self.classes) else None

    def _note(self, x: Any) -> None:
        kind = type(x)
        if is_sparse(x) or is_sparse_tensor(x):  # its indices may be written to
            raise Uncheckable
        if issubclass(kind, tuple) or is_memory(x):
            if isinstance(own := getattr(x, "__dict__", None), dict):  # an instance of a user's class
                self.classes.append((x, class_of(x)))
                self._table(own)
            return
        if kind is MethodType:
            return
        if kind is dict or kind is OrderedDict:
            self._table(x)
            if kind is OrderedDict:
                self._table(vars(x))  # an OrderedDict has attributes
        elif kind is list or kind is set:  # the order matters too
            self.lists.append((x, list(x)))
        elif kind is CellType and not is_empty(x):
            self.cells.append((x, x.cell_contents))
        elif is_module(x):
            self.classes.append((x, class_of(x)))
            self._table(vars(x))
            for part in vars(x).values():
                if type(part) in _CONTAINERS and not part:
                    self.empty.append(part)
                elif type(part) is dict or type(part) is OrderedDict:
                    self._table(part)
        elif (isinstance(attributes(x), dict) and not slots_of(kind)
              and not issubclass(kind, (dict, *KINDS))):
            self.classes.append((x, class_of(x)))
            self._table(vars(x))
        else:
            raise Uncheckable

    def _table(self, x: dict[Any, Any]) -> None:
        self.tables.append((x, [*x], [*x.values()]))

    def __call__(self) -> bool:
        if any(self.empty) or (self.hooks is not None and hooks_of_all() != self.hooks):
            return False
        for table, keys, values in self.tables:
            if len(table) != len(keys) or not all(map(is_, table, keys)) or not all(map(is_, table.values(), values)):
                return False
        for items, then in self.lists:
            if len(items) != len(then) or not all(map(is_, items, then)):
                return False
        for x, cls in self.classes:
            if class_of(x) is not cls:
                return False
        for cls, forward in self.forwards:
            if cls.forward is not forward:  # type: ignore[attr-defined]
                return False
        for cell, content in self.cells:
            if is_empty(cell) or cell.cell_contents is not content:
                return False
        for fn, parts in self.functions:
            if not all(map(is_, _OF_FUNCTION(fn), parts)) or fn.__dict__:
                return False
        tensors, flags = self.tensors
        return list(map(_OF_TENSOR, tensors)) == flags
