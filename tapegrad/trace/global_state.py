"""global_state: the state that a program can write to by name, saved before a run so that the run can be undone.

Arguments and captured variables are copied by a trace. Globals, their contents, and attributes of classes and modules
are not: a traced program writes to them directly.
"""

from __future__ import annotations

import functools
import io
import sys
import threading
from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.numbers.tensors import detached, is_tensor
from tapegrad.rules.op import Traced
from tapegrad.trace.code_mentions import is_foreign, mentioned, package_of
from tapegrad.trace.deferred_writes import content, fill, holds
from tapegrad.trace.interposition import original
from tapegrad.tree.copies import CACHED, KINDS, class_of, code_of, is_empty
from tapegrad.tree.modules import is_module

MOST = 4096  # objects searched
LARGE = 1024  # size of a container up to which it is searched; of a larger one only the items themselves are saved
BYTES = 1 << 20  # size up to which an array is saved
_GONE: Any = object()


class Outside:
    """The state that a program can write to by name, saved while it runs: `is_changed` detects writes, `put_back`
    undoes them.

    Printed text is held back until `tell`, or discarded with the writes. `lasting`: the program can reach state that
    cannot be restored, such as an iterator or a pipe.
    """

    def __init__(self, *roots: Any) -> None:
        self.held: list[tuple[Any, Any]] = []  # (a container or an array, its copy)
        self.cells: list[tuple[CellType, Any]] = []
        self.spaces: list[tuple[Any, dict[str, Any]]] = []  # (globals, class or module, the values of names)
        self.known: dict[int, Any] = {}
        self.attributes: set[str] = set()  # names of attributes in the code
        self.modules: list[ModuleType] = []
        self.files: list[tuple[Any, int, Any]] = []  # (file, position, content if in memory)
        self.lasting = False
        self.text: _Waiting | None = None
        self._walk([*roots])

    def __enter__(self) -> Outside:
        if sys.stdout is not None:
            sys.stdout = self.text = _Waiting(sys.stdout)
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if self.text is not None and sys.stdout is self.text:
            sys.stdout = self.text.real

    def is_changed(self) -> bool:
        """Return whether the program has written to anything saved, or printed."""
        return bool(self.text is not None and self.text.parts) or any(
            space.get(name, _GONE) is not value for space, names in self._tables() for name, value in names.items()
        ) or any(is_empty(cell) or cell.cell_contents is not value for cell, value in self.cells) or not all(
            _is_same(x, kept) for x, kept in self.held) or any(self._added()) or any(
            not x.closed and (x.tell() != place or _content_of_file(x) != kept) for x, place, kept in self.files)

    def _tables(self) -> Iterable[tuple[Any, dict[str, Any]]]:
        for space, names in self.spaces:
            yield (space if isinstance(space, dict) else vars(space)), names

    def _added(self) -> Iterator[tuple[type, str]]:
        """Yield the attributes that classes did not have, with the class."""
        for space, names in self.spaces:
            if isinstance(space, type):
                yield from ((space, name) for name in vars(space).keys() - names.keys() if not name.startswith("__"))

    def put_back(self) -> None:
        """Undo the writes and discard the printed text."""
        for cls, name in [*self._added()]:
            type.__delattr__(cls, name)
        for space, names in self.spaces:
            table = space if isinstance(space, dict) else vars(space)
            for name in [name for name, value in names.items() if table.get(name, _GONE) is not value]:
                if isinstance(space, dict):
                    space.update({name: names[name]}) if names[name] is not _GONE else space.pop(name)
                elif names[name] is _GONE:
                    type.__delattr__(space, name)
                else:
                    type.__setattr__(space, name, names[name])
        for cell, value in self.cells:
            cell.cell_contents = value
        for x, kept in self.held:
            if not _is_same(x, kept):
                _fill(x, kept)
        for x, place, kept in self.files:
            if kept is not None:
                x.seek(0)
                x.write(kept)
                x.truncate()
            elif x.writable():
                x.truncate(place)
            x.seek(place)
        if self.text is not None:
            self.text.parts.clear()

    def tell(self) -> None:
        """Print the text that was held back."""
        if self.text is not None:
            for part in self.text.parts:
                self.text.real.write(part)
            self.text.parts.clear()

    def _walk(self, stack: list[Any]) -> None:
        while stack and len(self.known) < MOST:
            while stack and len(self.known) < MOST:
                x = original(stack.pop())
                if id(x) not in self.known and type(x) not in _ATOMS and not isinstance(x, Traced):
                    self.known[id(x)] = x
                    stack += self._parts(x)
            for module in self.modules:
                own = vars(module)
                names = {name: own.get(name, _GONE) for name in self.attributes}
                self.spaces.append((own, names))
                stack += [value for value in names.values() if value is not _GONE and id(value) not in self.known
                          and type(value) not in _ATOMS]

    def _parts(self, x: Any) -> list[Any]:
        """Return the objects that an object refers to; save it if it can be written to."""
        if isinstance(x, FunctionType):
            return self._of_function(x)
        if isinstance(x, MethodType):
            return [x.__func__, x.__self__]
        if isinstance(x, functools.partial):
            return [x.func, x.args, x.keywords]
        if isinstance(x, ModuleType):
            if not is_foreign(x.__name__):
                self.modules.append(x)
            return []
        if isinstance(x, tuple):
            return [*x]
        if isinstance(x, np.ndarray):
            if type(x) is np.ndarray and x.nbytes <= BYTES and x.dtype.kind in "biufc":
                self.held.append((x, x.copy()))
            return []
        if is_tensor(x):
            if x.nbytes <= BYTES:
                self.held.append((x, detached(x).clone()))
            return self._table(x.__dict__)
        if isinstance(x, type):
            return self._of_class(x)
        return self._of_object(x)

    def _of_function(self, fn: FunctionType) -> list[Any]:
        full = [(cell, cell.cell_contents) for cell in fn.__closure__ or () if not is_empty(cell)]
        self.cells += full
        cells = [value for _, value in full]
        if is_foreign(fn.__module__):
            return [x for x in cells if callable(x)]  # wrapped by it
        own = self._table(fn.__dict__)
        named = mentioned(code_of(fn))
        self.attributes |= named.attributes
        space = fn.__globals__
        names = {name: space.get(name, _GONE) for name in (named.names | named.attributes if named.assigns
                                                             else named.names & space.keys())}
        self.spaces.append((space, names))
        return [*cells, *own, *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values(),
                *[value for value in names.values() if value is not _GONE]]

    def _of_class(self, cls: type) -> list[Any]:
        if is_foreign(cls.__module__):
            return []
        own = {name: value for name, value in vars(cls).items() if name not in _OF_CLASSES}
        self.spaces.append((cls, {**dict.fromkeys(self.attributes - _OF_CLASSES, _GONE), **own}))
        return [*cls.__bases__, *own.values()]

    def _of_object(self, x: Any) -> list[Any]:
        parts: list[Any] = []
        if issubclass(type(x), (dict, *KINDS)):
            kept = content(x)
            self.held.append((x, kept))
            if len(kept) <= LARGE and not isinstance(x, bytearray):
                parts = [*(kept.values() if isinstance(x, dict) else kept)]
        kind = class_of(x)
        if isinstance(x, io.IOBase):
            self._file(x)
        elif isinstance(x, (Iterator, SimpleQueue)):
            self.lasting = True
        if (is_foreign(kind.__module__) and package_of(kind.__module__) not in _WATCHED
                and not isinstance(x, BaseException) and not is_module(x)):
            return [*parts, x.__wrapped__, *self._table(vars(x))] if isinstance(x, CACHED) else parts
        own = own_dict(x)
        return [*parts, *(self._table(own) if own is not None else ()), kind]

    def _table(self, own: dict[str, Any]) -> list[Any]:
        """Save an attribute dict; return its values."""
        self.held.append((own, own.copy()))
        return [*own.values()]

    def _file(self, x: Any) -> None:
        if x.closed or not x.seekable():
            self.lasting = not x.closed
            return
        place, kept = x.tell(), _content_of_file(x)
        at_end = kept is not None or not x.writable() or x.seek(0, io.SEEK_END) == place
        x.seek(place)
        self.files.append((x, place, kept))
        self.lasting = self.lasting or not at_end


_WATCHED = frozenset(["queue", "types"])  # modules of the standard library whose objects hold objects of the program
_OF_CLASSES = frozenset(["__dict__", "__weakref__", "__doc__"])  # every class has its own
_ATOMS = frozenset([int, float, complex, str, bytes, bool, type(None), np.float64, np.float32, np.int64, np.bool_,
                    np.dtype, slice, range, type(Ellipsis)])


class _Waiting:
    """A standard output that holds back the text of one thread."""

    def __init__(self, real: Any) -> None:
        self.real, self.parts, self.thread = real, list[str](), threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() != self.thread:
            return int(self.real.write(text))
        self.parts.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def _content_of_file(x: Any) -> Any:
    return x.getvalue() if isinstance(x, (io.StringIO, io.BytesIO)) else None


def _is_same(x: Any, kept: Any) -> bool:
    if isinstance(x, np.ndarray):
        return bool(x.tobytes() == kept.tobytes())
    return bool(x.equal(kept)) if is_tensor(x) else holds(x, kept)


def _fill(x: Any, kept: Any) -> None:
    if isinstance(x, np.ndarray):
        x[...] = kept
    elif is_tensor(x):
        detached(x).copy_(kept)
    else:
        fill(x, kept)
