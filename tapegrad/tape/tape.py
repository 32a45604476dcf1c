"""Tape: an ordered list of operations; plain data that can be printed, edited and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import CodeType
from typing import Any

import numpy as np

from tapegrad.errors import Activation, ArgumentError, Listing, Location, MalformedTape, locate
from tapegrad.numbers.formatting import brief, count_of, plain, type_name
from tapegrad.tape.facade import Methods
from tapegrad.tape.origin import Origin
from tapegrad.tape.spec import OPERATIONS, UNKNOWN, Absent, Spec, absent, spec_of


class Variable:
    """A reference to an operation: free (`V(4)`, by position) or bound (the operation itself).

    A free variable is resolved when the operation that uses it is pushed. A bound one survives edits, because it *is*
    the operation: there is no second object to keep in step, and recording a call allocates nothing for it.
    """

    __slots__ = ("id",)
    id: int

    def __init__(self, id: int) -> None:
        self.id = id

    @property
    def name(self) -> str:
        """`%4`."""
        return f"%{self.id}"

    _brief = name  # its text among the arguments of a call

    def __repr__(self) -> str:
        return f"V({self.id})"

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) is Variable and other.id == self.id)

    def __hash__(self) -> int:
        return hash(("Variable", self.id))


def V(ref: int | Variable) -> Variable:
    """Make a free variable from a position; an operation is its own bound variable.

    >>> V(4)
    V(4)
    """
    return ref if isinstance(ref, Variable) else Variable(ref)


NO_KWARGS: dict[str, Any] = {}  # shared by every call without keyword arguments; never written


class Operation(Variable):
    """One line of a tape: its arguments, its value if present, the user's line, and why a pass appended it.

    `fn` is None for operations that are not calls, so that `op.fn is add` works on any operation.
    """

    __slots__ = ("args", "code", "lasti", "origin", "val")
    args: tuple[Any, ...]
    fn: Any = None
    kwargs: dict[str, Any] = NO_KWARGS
    val: Any
    origin: Origin | None
    code: CodeType | Activation | Listing | None
    lasti: int
    kind = "operation"

    def __init__(self, args: tuple[Any, ...] = (), val: Any = UNKNOWN, origin: Origin | None = None) -> None:
        self.id, self.args, self.val, self.origin = 0, args, val, origin
        self.code, self.lasti = None, 0

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def note(self) -> str:
        """The purpose of the operation as text: `pullback of %7`; "" for the program's own computation."""
        return "" if self.origin is None else str(self.origin)

    @note.setter
    def note(self, text: str) -> None:
        self.origin = Origin.parsed(text)

    @property
    def purpose(self) -> str:
        """The kind of its origin: "seed", "pullback", "cotangent" ...; "" for the program's own computation."""
        return "" if self.origin is None else self.origin.kind

    @property
    def where(self) -> Location | None:
        """The user's file, line and function, or None."""
        return None if self.code is None else locate(self.code, self.lasti)

    @property
    def path(self) -> tuple[Location, ...]:
        """The calls that led to the user's line, outermost first; the line alone unless the context has `paths`."""
        from tapegrad.tape.call_stack import path
        return () if self.code is None else path(self.code, self.lasti)

    spec: Spec = property(spec_of, doc="What type the value is of, also where it is absent.")  # type: ignore[assignment]

    @property
    def type(self) -> str:
        """`float`, `float64[3,4]`, `torch.float32[8]@cuda:0`; "" if unknown."""
        return str(spec_of(plain(self.val)))

    def at(self, other: Operation) -> Operation:
        """Take the source line of another operation; return self."""
        self.code, self.lasti = other.code, other.lasti
        return self

    @property
    def body(self) -> str:
        """The text of the operation without the variable it defines: `multiply(%2, %3)`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.name} = {self.body}"


class Input(Operation):
    """An argument of the tape: a number, an array, or (`%1`) the function itself."""

    __slots__ = ("label",)
    kind = "input"

    def __init__(self, val: Any = UNKNOWN, label: str = "", origin: Origin | None = None) -> None:
        self.id, self.args, self.val, self.origin = 0, (), val, origin
        self.code, self.lasti, self.label = None, 0, label

    @property
    def body(self) -> str:
        return f"input {self.label or type_name(self.val)}"


class Constant(Operation):
    """A value that the program supplies: the seed, an array from a global.

    `moved` caches it on one device for replays on tensors: (val, device, tensor).
    """

    __slots__ = ("moved",)
    kind = "constant"

    moved: tuple[Any, Any, Any] | None

    def __init__(self, val: Any, origin: Origin | None = None) -> None:
        self.id, self.args, self.val, self.origin = 0, (), val, origin
        self.code, self.lasti, self.moved = None, 0, None

    @property
    def body(self) -> str:
        return brief(self.val)


class Call(Operation):
    """A function applied to variables and constants.

    `fn` is an op, any callable, or a variable (a pullback computed on the tape). `pb` keeps the pullback that a rule
    returned while recording, so that a gradient does not run the function twice.
    """

    __slots__ = ("fn", "kwargs", "pb")
    kind = "call"

    def __init__(self, fn: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None,
                 val: Any = UNKNOWN, origin: Origin | None = None) -> None:
        super().__init__(args, val, origin)
        self.fn, self.kwargs, self.pb = fn, kwargs or NO_KWARGS, None

    @property
    def body(self) -> str:
        shows = getattr(type(self.fn), "_shown", None)  # an op with nested arguments formats them itself
        shown = [brief(arg) for arg in self.args] if shows is None else shows(self.fn, self.args, self.kwargs)
        shown += [f"{key}={brief(arg)}" for key, arg in self.kwargs.items()] if shows is None else []
        return f"{brief(self.fn)}({', '.join(shown)})"


class Guard(Operation):
    """A fact about a variable that the program's control flow depends on; a replay in which it differs is refused."""

    __slots__ = ("expected", "fact")
    kind = "guard"

    def __init__(self, arg: Variable, fact: str, expected: Any) -> None:
        super().__init__((arg,), None)
        self.fact, self.expected = fact, expected

    @property
    def body(self) -> str:
        return f"guard {self.fact}({brief(self.args[0])}) == {brief(self.expected)}"


def call(fn: Any, *args: Any, **kwargs: Any) -> Call:
    """Make a call that is not yet on a tape.

    >>> call(divmod, V(2), 3)
    %0 = divmod(%2, 3)
    """
    return Call(fn, args, kwargs)


class Tape(Methods):
    """Operations in order, `%1` (the function) and the other inputs first.

    `structure` describes how the inputs are nested in the function's arguments; a tape made by hand has none.

    >>> from tapegrad.ops import multiply
    >>> tape = Tape()
    >>> a, b = tape.push(Input(2.0, "a")), tape.push(Input(3.0, "b"))
    >>> tape.result = tape.push(call(multiply, a, V(3)))
    >>> tape.result.val, tape.play(4.0, 5.0)
    (6.0, 20.0)
    """

    __slots__ = ("_result", "name", "ops", "structure")

    def __init__(self, fn: Any = None, label: str = "") -> None:
        self.ops: list[Operation] = []
        self._result: Operation | None = None
        self.structure: Any = None
        self.name = label or getattr(fn, "__name__", "") or ("" if fn is None else type(fn).__name__)
        first = Input(fn, self.name or "function")
        first.id = 1
        self.ops.append(first)

    def blank(self) -> Tape:
        """Return a tape of the same name and structure without operations, for a pass to fill."""
        new = Tape.__new__(Tape)
        new.ops, new._result, new.structure, new.name = [], None, self.structure, self.name
        return new

    # -- reading

    @property
    def inputs(self) -> list[Input]:
        """The inputs in order, the function itself first."""
        return [op for op in self.ops if isinstance(op, Input)]

    @property
    def result(self) -> Operation | Any:  # as in typeshed for results that are rarely None (unfinished tapes)
        """The operation whose value the tape returns."""
        return self._result

    @result.setter
    def result(self, ref: int | Variable | None) -> None:
        self._result = None if ref is None else self[ref]

    def __getitem__(self, ref: int | Variable) -> Operation:
        """Return the operation printed as `%ref`; a negative position counts from the end."""
        if isinstance(ref, Operation):
            if not (0 < ref.id <= len(self.ops) and self.ops[ref.id - 1] is ref):
                raise MalformedTape(f"the operation `{ref!r}` is not on this tape")
            return ref
        number = ref.id if isinstance(ref, Variable) else ref
        if not 1 <= abs(number) <= len(self.ops):
            raise IndexError(f"%{number} is not on this tape of {count_of(len(self.ops), 'operation')}")
        return self.ops[number - 1 if number > 0 else number]

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __contains__(self, op: object) -> bool:
        return isinstance(op, Operation) and 0 < op.id <= len(self.ops) and self.ops[op.id - 1] is op

    # -- editing

    def push(self, op: Operation) -> Operation:
        """Append an operation and return it (the bound variable); compute a call's value if its arguments have some."""
        self._adopt(op, len(self.ops))
        self.ops.append(op)
        op.id = len(self.ops)
        return op

    def insert(self, position: int | Variable, *ops: Operation) -> tuple[Operation, ...]:
        """Insert operations before `position` and renumber the operations after them."""
        at = self[position].id - 1
        try:
            for offset, op in enumerate(ops):
                self._adopt(op, at + offset)
                self.ops.insert(at + offset, op)
                op.id = at + offset + 1
        except Exception:
            self.ops[:] = [op for op in self.ops if op not in ops]  # insert all or none
            self._renumber(0)
            raise
        self._renumber(at)
        return ops

    def replace(self, old: int | Variable, new: Operation | Iterable[Operation],
                rebind_to: int = -1) -> tuple[Operation, ...]:
        """Replace one operation by one or several; users of the old one are rebound to `new[rebind_to]`."""
        target = self[old]
        ops = (new,) if isinstance(new, Operation) else tuple(new)
        if not ops:
            raise ArgumentError("replace: no operation was passed to put in its place", target.where, "tape.delete(op)")
        stand_in = ops[rebind_to]  # an index out of range fails before any change
        self.insert(target, *ops)
        self._rebind({target: stand_in}, skip=ops)
        self._drop(target)
        self._compute_again({target: stand_in})
        return ops

    def delete(self, ref: int | Variable) -> None:
        """Remove an operation that nothing uses."""
        op = self[ref]
        users = [other.name for other in self.ops[op.id:] if op in operands(other)]
        users += ["the result"] if op is self._result else []
        if users:
            raise MalformedTape(f"`{op!r}` cannot be deleted: {', '.join(users[:5])} would refer to it", op.where,
                                "tape.rebind({op: other}) first, or tape.replace(op, other)")
        self._drop(op)

    def rebind(self, mapping: Mapping[int | Variable, int | Variable]) -> None:
        """Make every user of a key use its value instead, the result included."""
        bound = {self[old]: self[new] for old, new in mapping.items()}
        self._rebind(bound)
        self._compute_again(bound)

    def _compute_again(self, mapping: dict[Operation, Operation]) -> None:
        """Recompute the values that depend on a replacement of another type or shape; unknown where that raises."""
        stale = {new for old, new in mapping.items() if old.spec != new.spec}
        for op in self.ops if stale else ():
            draws = getattr(getattr(op.fn, "effects", None), "draws", False)  # running it would advance the generator
            if type(op) is Call and not stale.isdisjoint(operands(op)) and not draws:
                then, op.val = op.spec, UNKNOWN
                if not isinstance(op.fn, Operation) and all(map(has_value, operands(op))):
                    with suppress(Exception):
                        op.val = _called(op, then.is_python)
                if op.spec != then:
                    stale.add(op)

    def _rebind(self, mapping: dict[Operation, Operation], skip: tuple[Operation, ...] = ()) -> None:
        for op in self.ops:
            if op in skip:
                continue
            op.args = tuple(mapping.get(arg, arg) if isinstance(arg, Operation) else arg for arg in op.args)
            if isinstance(op.fn, Operation):
                op.fn = mapping.get(op.fn, op.fn)
        if self._result is not None:
            self._result = mapping.get(self._result, self._result)

    def _drop(self, op: Operation) -> None:
        del self.ops[op.id - 1]
        self._renumber(op.id - 1)
        op.id = 0

    def _renumber(self, start: int) -> None:
        for number, op in enumerate(self.ops[start:], start + 1):
            op.id = number

    def _adopt(self, op: Operation, at: int) -> None:
        """Bind free variables, refuse foreign ones, and compute a call's value if its arguments have values."""
        if op in self:
            raise MalformedTape(f"`{op!r}` is already on this tape", op.where,
                                "make a new operation: call(fn, ...)")
        op.args = tuple(self._bind(arg, op, at) if isinstance(arg, Variable) else arg for arg in op.args)
        if isinstance(op, Call):
            if isinstance(op.fn, Variable):
                op.fn = self._bind(op.fn, op, at)
            if op.val is UNKNOWN and all(map(has_value, operands(op))):
                op.val = _called(op) if not isinstance(op.fn, Variable) else UNKNOWN

    def _bind(self, ref: Variable, op: Operation, at: int) -> Operation:
        try:
            bound = self[ref]
        except (IndexError, MalformedTape) as err:
            raise MalformedTape(f"`{op.body}` uses {ref.name}, which is not on this tape", op.where) from err
        if bound.id > at:
            raise MalformedTape(f"`{op.body}` uses {bound.name} before its definition", op.where)
        return bound

    def __repr__(self) -> str:
        return f"<Tape of {self.name or 'nothing'}: {count_of(len(self.ops), 'operation')}>"


def _called(op: Call, by_math: bool = False) -> Any:
    """Compute a call made outside a trace, of NumPy scalars by NumPy's function unless math's was recorded."""
    args = [*map(value_of, op.args)]
    by_math = by_math or getattr(op.fn, "scalar", None) is None or not any(isinstance(x, np.generic) for x in args)
    return (op.fn if by_math else op.fn.run)(*args, **op.kwargs)


def operands(op: Operation) -> list[Operation]:
    """Return the operations that `op` uses, including its function."""
    used = [arg for arg in op.args if isinstance(arg, Operation)]
    if isinstance(op.fn, Operation):
        used.append(op.fn)
    return used


def has_value(op: Operation) -> bool:
    """True if the operation's value is present; parts of a nest may be absent."""
    return type(op.val) is not Absent


def drop(op: Operation) -> None:
    """Discard the value of an operation; keep its spec."""
    op.val = absent(op.spec)


def value_of(arg: Any) -> Any:
    """Return the value of an operation, or the argument itself."""
    return arg.val if isinstance(arg, Operation) else arg


def copy_op(op: Operation, bind: Callable[[Any], Any]) -> Operation:
    """Copy an operation for another tape, its arguments mapped by `bind`."""
    new: Any = _new(type(op))
    if type(op) is Call:  # the commonest class, unrolled by hand
        new.fn, new.kwargs, new.pb, new.val, new.origin = bind(op.fn), op.kwargs, op.pb, op.val, op.origin
        new.id, new.code, new.lasti, new.args = op.id, op.code, op.lasti, tuple([bind(arg) for arg in op.args])
        return new  # type: ignore[no-any-return]
    for slot in _SLOTS[type(op)]:
        setattr(new, slot, getattr(op, slot))
    new.args = tuple(map(bind, op.args))
    if isinstance(new, Call):
        new.fn = bind(new.fn)
    return new  # type: ignore[no-any-return]


def append_copy(tape: Tape, op: Operation, at: dict[Operation, Any]) -> Operation:
    """Append a copy of an operation to a tape and add it to `at`, which maps operations to their replacements."""
    new = at[op] = copy_op(op, lambda arg: at[arg] if isinstance(arg, Operation) else arg)
    tape.ops.append(new)
    new.id = len(tape.ops)
    return new


_new = object.__new__
OPERATIONS.update((Operation, Input, Constant, Call, Guard))
_SLOTS: dict[type, list[str]] = {
    kind: [slot for cls in kind.__mro__ for slot in getattr(cls, "__slots__", ())]
    for kind in (Input, Constant, Call, Guard)}
