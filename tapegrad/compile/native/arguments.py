"""arguments: machine code that takes the arguments of a call apart.

It checks and reads the same parts as the straight-line source. No Python code runs during the reads, so the pointers
stay valid; afterwards the code takes references to arrays and other objects and unboxes numbers. If the arguments
differ from the recorded ones, native code bails out to Python.
"""

from __future__ import annotations

from sys import intern
from types import FunctionType, GetSetDescriptorType
from typing import Any

from tapegrad.compile.argument_source import Unpacked, _Intricate, differs, is_named, keys_of, plain_code
from tapegrad.compile.flatten_cache import ArgumentFlattener
from tapegrad.compile.native.function import Function
from tapegrad.compile.native.layouts import LAYOUT
from tapegrad.compile.numpy.function import Miss
from tapegrad.tape.tape import Tape
from tapegrad.tree.nodes import Closure, Container, Instance
from tapegrad.tree.signature import Signature


class Arguments(Unpacked):
    """Emits the argument checks. `found` holds pointers to the leaves by leaf number; `direct` are the pointers that
    are arguments themselves, to which the caller holds a reference.
    """

    def __init__(self, f: Function, tape: Tape) -> None:
        self.f, self.mark = f, f.mark()
        self.found: dict[int, str] = {}
        self.direct: set[str] = set()
        self.statics: list[tuple[str, Any]] = []
        super().__init__(tape, [x.label for x in tape.inputs[1:]], lambda value, hint="": f.object(value), "")

    def flat(self) -> str:
        self.count_is(len(self.leaves), 0)
        for number in range(len(self.leaves)):
            self.found[number] = self.argument(number)
        return ""

    def intricate(self) -> str:
        """Emit a call of a Python function that takes the arguments apart."""
        f, take, tape = self.f, ArgumentFlattener(self.tape), self.tape
        f.back_to(self.mark)
        self.direct.clear()
        self.statics.clear()

        def leaves_of(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            return tuple(take(args, kwargs, lambda: Miss(tape, None))[1:])
        found = f.held(f.op(f"call ptr @PyObject_Vectorcall(ptr {f.object(leaves_of)}, ptr %args, i64 %count, "
                            "ptr %names)"))
        self.found = {number: f.item(found.ir, number) for number in range(len(self.leaves))}
        self.direct.update(self.found.values())
        return ""

    def arguments(self, structure: Signature) -> str:
        """Emit code that takes the arguments of a call apart."""
        f = self.f
        positional, named = len(structure.args), [*structure.kwargs]
        self.count_is(positional, len(named))
        for number, part in enumerate(structure.args):
            self.node(part.spec, self.argument(number))
        for number, key in enumerate(named):  # in the order of `**kwargs`
            self.identical(f.item("%names", number), f.object(intern(key)))
            self.node(structure.kwargs[key].spec, self.argument(positional + number))
        return ""

    def count_is(self, positional: int, named: int) -> None:
        """Check the number of arguments."""
        f = self.f
        f.require(f.op(f"icmp eq i64 %count, {positional}"))
        f.require(f.op(f"icmp {'ne' if named else 'eq'} ptr %names, null"))
        if named:
            self.size_is("%names", named)

    def argument(self, number: int) -> str:
        """Return the pointer to an argument."""
        pointer = self.f.op(f"load ptr, ptr {self.f.at('%args', 8 * number)}")
        self.direct.add(pointer)
        return pointer

    def size_is(self, pointer: str, count: int) -> None:
        """Check the size of a tuple or list."""
        f = self.f
        f.require(f.op(f"icmp eq i64 {f.op(f'load i64, ptr {f.at(pointer, LAYOUT.size)}')}, {count}"))

    # -- one part

    def take(self, number: int, text: str) -> None:
        """Record the pointer to a leaf."""
        self.found[number] = text

    def part(self, text: str) -> str:
        return text

    def attribute(self, text: str, name: str) -> str:
        """Read the content of a captured variable, or the object that a method is bound to."""
        if name == "cell_contents":
            return self.loaded(text, LAYOUT.cell)
        return self.f.object(self.tape.structure.fn.__self__)

    def loaded(self, pointer: str, offset: int) -> str:
        """Read a pointer; bail out if it is null."""
        f = self.f
        found = f.op(f"load ptr, ptr {f.at(pointer, offset)}")
        f.require(f.op(f"icmp ne ptr {found}, null"))
        return found

    def identical(self, text: str, other: str) -> None:
        """Check that two parts are the same object."""
        self.f.require(self.f.op(f"icmp eq ptr {text}, {other}"))

    def distinct(self, texts: list[str]) -> None:
        """Check that all parts are different objects."""
        f = self.f
        place = f.stack(8 * len(texts))
        for number, text in enumerate(texts):
            f.put(f"store ptr {text}, ptr {f.at(place, 8 * number)}")
        f.require(f.op(f"call i1 @tapegrad_distinct(ptr {place}, i64 {len(texts)})"))

    def instance(self, node: Instance, text: str) -> None:
        """Check an object with a `__dict__`: its class, its attribute names in order, and each attribute."""
        if not shows_its_dict(node.cls):
            raise _Intricate
        if self.again(node, text):
            return
        f, place = self.f, self.f.stack(8 * len(node.names))
        f.require_type(text, node.cls)
        self.mutable.append(text)
        names = f.at(f.object(tuple(map(intern, node.names))), LAYOUT.item)
        f.require(f.op(f"call i1 @tapegrad_attributes(ptr {text}, ptr {f.object(dict)}, ptr {names}, "
                       f"i64 {len(node.names)}, ptr {place})"))
        for number, child in enumerate(node.children):
            self.node(child, f.op(f"load ptr, ptr {f.at(place, 8 * number)}"))

    def closure(self, node: Closure, text: str) -> None:
        """Check a function with captured variables: its code, and the content of each variable."""
        code = plain_code(node)
        if self.again(node, text):
            return
        f = self.f
        f.require_type(text, FunctionType)
        for offset, value in ((LAYOUT.code, code), (LAYOUT.space, node.prototype.__globals__)):
            self.identical(f.op(f"load ptr, ptr {f.at(text, offset)}"), f.object(value))
        for offset in (LAYOUT.defaults, LAYOUT.kwdefaults):
            self.identical(f.op(f"load ptr, ptr {f.at(text, offset)}"), "null")
        cells = self.loaded(text, LAYOUT.closure)
        self.size_is(cells, len(code.co_freevars))
        for number, child in enumerate(node.children):
            cell = f.item(cells, number)
            self.variable(node.prototype.__closure__[number], cell)
            self.node(child, self.loaded(cell, LAYOUT.cell))

    def container(self, node: Container, text: str) -> None:
        """Check a tuple, a list or a dict, and each of its parts."""
        if node.type not in (tuple, list, dict) and not is_named(node):
            raise _Intricate
        if self.again(node, text):
            return
        f, count = self.f, len(node.children)
        f.require_type(text, node.type)
        if node.volatile:
            self.mutable.append(text)
        if node.type is dict:
            keys = keys_of(node)
            place = f.stack(8 * count)
            f.require(f.op(f"call i1 @tapegrad_values(ptr {text}, ptr {f.at(f.object(tuple(keys)), LAYOUT.item)}, "
                           f"i64 {count}, ptr {place})"))
            for key, child in zip(node.metadata, node.children):  # type: ignore[call-overload]
                self.node(child, f.op(f"load ptr, ptr {f.at(place, 8 * keys.index(key))}"))
            return
        self.size_is(text, count)
        items = f.at(text, LAYOUT.item) if node.type is not list or not count else self.loaded(text, LAYOUT.items)
        for number, child in enumerate(node.children):
            self.node(child, f.op(f"load ptr, ptr {f.at(items, 8 * number)}"))

    def static(self, value: Any, text: str) -> None:
        """Check a part that is not a number; `compare` compares it later if it is not the recorded object."""
        if value is None or type(value) in (bool, type(Ellipsis)):
            self.identical(text, self.f.object(value))
        else:
            self.statics.append((text, value))

    # -- after all reads

    def hold(self, pointer: str) -> None:
        """Take a reference to an object that is not an argument itself."""
        if pointer not in self.direct:
            _, address = self.f.slot()
            self.f.put(f"call void @tapegrad_keep(ptr {address}, ptr {pointer})")

    def compare(self) -> None:
        """Compare the static parts: by identity, then by a Python function."""
        f = self.f
        for pointer, _ in self.statics:
            self.hold(pointer)
        for pointer, value in self.statics:
            f.require(f.op(f"call i1 @tapegrad_stands(ptr {pointer}, ptr {f.object(value)}, ptr {f.object(differs)})"))


def shows_its_dict(cls: type) -> bool:
    """Return whether `__dict__` of a class's objects is Python's own attribute, not one that the class redefines."""
    found = next((vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)), None)
    return type(found) is GetSetDescriptorType
