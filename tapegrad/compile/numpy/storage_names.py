"""storage_names: the names of a tape's values in the source that computes them, and the memory that those lie
in which is kept between calls.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.numpy.call_facts import dense_strides, reads_float, turned_strides
from tapegrad.compile.numpy.call_source import comment, index_text, path_text
from tapegrad.compile.numpy.memory_plan import Plan, Storage, make_plan
from tapegrad.compile.numpy.writer import Shared
from tapegrad.optimise.result_memory import packs_of
from tapegrad.rules.types.layout import copied
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Guard, Operation, Tape
from tapegrad.transforms.walk import count_uses


class Site:
    """What a spelling sees of the call that is being written."""

    args: Sequence[str]

    def __init__(self, writer: Texts, op: Call, args: Sequence[str], out: str) -> None:
        self.op, self.args, self.out, self.text, self.floats = op, args, out, writer.text, writer.allowed
        self.name = writer.names.bind


class Texts:
    """What is known of a tape's values while it is written: their names, and where they lie."""

    def __init__(self, tape: Tape, shared: Shared, owned: Collection[Operation] = (),
                 varies: Collection[Operation] = ()) -> None:
        self.tape, self.shared = tape, shared
        self.names, self.buffers, self.allowed = shared.names, shared.buffers, shared.allowed
        self.setup, self.kept = shared.setup, shared.kept
        self.plan: Plan = make_plan(tape, shared.buffers, owned, varies)
        self.first = shared.memory  # the number of its first buffer
        self.turned = self.plan.turned()
        self.packs = packs_of(tape)
        self.uses = count_uses(tape)
        self.slots: dict[Any, str] = {}  # places in buffers -> their names
        self.expr: dict[Operation, str] = {}
        self.pending: set[Operation] = set()  # expressions that will be written into what uses them
        self.float: set[Operation] = set()  # those that are Python's floats here
        self.body: list[str] = []
        self.loops: dict[Operation, list[str]] = {}  # what names the results of a loop
        self.reads = Counter(op.args[0] for op in tape.ops if isinstance(op, Call) and reads_float(op))
        self.lists: dict[Any, str] = {}  # arguments whose elements are read one by one
        self.copies: dict[Any, str] = {}  # of arguments, which lie column by column
        self.given: set[Storage] = set()  # what lies in the result already
        self.asked = Counter(op.args[0] for op in tape.ops if isinstance(op, Guard) and op.fact == "bool")
        self.line = ""
        for number, size in enumerate(self.plan.sizes, self.first):
            self.setup.append(f"buffer{number} = {self.names.bind(np.empty)}({size}, {self.names.bind(np.uint8)})")
            self.names.taken.add(f"buffer{number}")
        shared.memory += len(self.plan.sizes)

    def text(self, value: Any) -> str:
        """Write what stands among a call's arguments."""
        if isinstance(value, Operation):
            return self.use(value)
        if value is None or type(value) in (bool, int, str) or value is Ellipsis:
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else self.names.bind(value,
                                                                            "inf" if math.isinf(value) else "nan")
        if type(value) is tuple:
            return f"({', '.join(map(self.text, value))}{',' if len(value) == 1 else ''})"
        if type(value) is list:
            return f"[{', '.join(map(self.text, value))}]"
        if type(value) is slice:
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, np.dtype) and value == np.dtype(value.type):
            value = value.type
        return self.names.bind(value)

    def use(self, op: Operation) -> str:
        """Return the text by which an operation's value is used."""
        if op in self.pending:
            self.pending.discard(op)
            return f"({self.expr[op]})"
        return self.expr[op]

    def statement(self, op: Operation, text: str) -> None:
        """Append a statement, below the user's line that it comes from."""
        place = (id(op.code), op.lasti)  # the hash of a code object is that of all its instructions
        line = self.shared.lines.get(place)
        if line is None:
            where = op.where
            line = self.shared.lines[place] = "" if where is None else comment(where)
            if where is not None:
                self.shared.wheres[line.strip()] = where
        if line and line != self.line:
            self.line = line
            self.body.append(line)
        self.body.append(text)

    def operand(self, arg: Any) -> str:
        text = self.text(arg)
        return f"({text})" if text.startswith("-") else text

    def bare(self, arg: Any) -> str:
        """Return the text of an argument that stands between parentheses or commas."""
        inline = isinstance(arg, Operation) and arg in self.pending
        text = self.text(arg)
        return text[1:-1] if inline else text

    def is_weak(self, arg: Any) -> bool:
        """True for a number of NumPy's that is a Python float here: beside an array or number of less
        precision it would give way.
        """
        return isinstance(arg, Operation) and arg in self.float and arg.spec.type is np.float64

    def strong(self, arg: Any) -> str:
        """Return the text of an argument between parentheses or commas, as NumPy's number where it is one."""
        text = self.bare(arg)
        return f"{self.names.bind(np.float64)}({text})" if self.is_weak(arg) else text

    # -- memory that is kept between calls

    def place(self, text: str, hint: str, like: Any) -> str:
        """Return the name of an array that is made once, by an expression, and lies in memory as `like` does:
        the same for the same one.
        """
        name = self.shared.places.get(text)
        if name is None:
            self.shared.places[text] = name = self.names.fresh(hint)
            self.setup.append(f"{name} = {text}")
            self.kept[name] = like
        return name

    def kept_view(self, op: Call) -> Any:
        """Return what lies as a call's value does where that is a view of a buffer by constants: it is made once, when
        the buffer is. Else None.
        """
        if (self.plan.slot(op) is None or op.fn in (ops.setitem, ops.getitem_masked) or op.fn.aliases != 0
            or not op.spec.has_axes):
            return None
        x = self.kept.get(self.expr[op.args[0]])
        if x is None or any(isinstance(arg, Operation) for arg in op.args[1:]):
            return None
        view = op.fn.impl(x, *op.args[1:], **op.kwargs)
        # what was a view when the tape was recorded may be a copy of what lies here
        return view if np.may_share_memory(view, x) else None

    def out(self, op: Call) -> str:
        """Return the name of the array that a call may write its value into, "" where there is none."""
        return self.buffer(op) if self.plan.slot(op) is not None else ""

    def buffer(self, op: Call) -> str:
        """Return the name of an operation's place in a buffer."""
        val, storage = op.spec, self.plan.storage[op]
        key = (storage.slot, val.shape, id(val.dtype), None if val.is_contiguous else val.strides, storage.turned)
        name = self.slots.get(key)
        if name is None:
            strides = turned_strides(val) if storage.turned else dense_strides(val)
            number = self.first + storage.slot  # type: ignore[operator]
            where = f"{self.text(val.shape)}, {self.text(val.dtype)}, buffer{number}" + ("" if strides is None
                                                                                         else f", 0, {strides}")
            like = np.ndarray(val.shape, val.dtype, np.empty(self.plan.sizes[storage.slot], np.uint8), 0,  # type: ignore[index]
                              strides)
            name = self.slots[key] = self.place(f"{self.names.bind(np.ndarray)}({where})", f"b{number}", like)
        return name

    def setitem(self, op: Call) -> bool:
        """Write into the array itself where nothing uses what was in it, else into a copy. Return False for a
        write that has no short text.
        """
        x, value, *index = op.args
        path = op.kwargs.get("through", ())
        in_place, slot = op in self.plan.in_place, self.plan.slot(op)
        name = self.use(x) if in_place else self.buffer(op) if slot is not None else self.names.fresh(f"v{op.id}")
        order, known = "K", self.kept.get(name)
        like: Spec | None = None if known is None else spec_of(known)
        if like is None:
            like = op.spec
            # a view of what lies so, and of another a copy, into which a write would be lost
            if any(step.op is ops.reshape for step in path):
                order = op.spec.order
                laid = order in ("C", "F")
                like = copied(like.dtype, like, order) if laid else None
        target = None if like is None else path_text(Site(self, op, [], ""), name, like, path)
        if target is None:
            return False
        texts = [self.bare(part) for part in index]
        if not in_place and slot is not None:
            self.statement(op, f"{self.names.bind(np.copyto)}({name}, {self.use(x)})")
        elif not in_place:
            self.statement(op, f"{name} = {self.use(x)}.copy({order!r})")
        elif order != "K":
            self.statement(op, f"{name} = {self.names.bind(np.asarray)}({name}, None, {order!r})")
        self.statement(op, f"{target}[{index_text(Site(self, op, [], ''), index, texts)}] = {self.bare(value)}")
        self.expr[op] = name
        return True

    def scatter(self, op: Call) -> None:
        """Add pieces into zeros: the first of basic indices is written, the others are added in place."""
        parts, at = list(op.args), 0
        if self.plan.slot(op) is not None:
            name = self.buffer(op)
            like = self.kept[name]
            self.statement(op, f"{name}.fill(0)")
        else:
            name = self.names.fresh(f"v{op.id}")
            like = np.empty(op.spec.shape, op.spec.dtype)
            self.statement(op, f"{name} = {self.names.bind(np.zeros)}({self.text(op.spec.shape)}, "
                               f"{self.text(op.spec.dtype)})")
        ranks, site = op.kwargs["ranks"], Site(self, op, [], "")
        for rank, path in zip(ranks, op.kwargs.get("through", ((),) * len(ranks))):
            piece, index = parts[at], parts[at + 1: at + 1 + rank]
            at += 1 + rank
            text = index_text(site, index, [self.bare(part) for part in index])
            sign = "=" if at == 1 + rank else "+="  # the first is written into the zeros
            self.statement(op, f"{path_text(site, name, spec_of(like), path)}[{text}] {sign} {self.bare(piece)}")
        self.expr[op] = name

