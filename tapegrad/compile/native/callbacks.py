"""callbacks: calls into Python from a loop of native code, for ops without native code.

Each run creates new argument objects and releases them after the call; results are copied into the function's memory.
"""

from __future__ import annotations

from typing import Any

from tapegrad.compile.native.function import Function
from tapegrad.compile.native.memory import copy
from tapegrad.compile.native.values import (
    Array,
    Elements,
    Number,
    Object,
    Results,
    Unlowered,
    Value,
    dense,
    element_kind,
    is_small,
    itemsize,
    natural,
    number_kind,
)
from tapegrad.ops.loop import put
from tapegrad.rules.op import Op
from tapegrad.tape.spec import Spec, absent
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, operands


def call_back(f: Function, op: Operation) -> None:
    """Emit a call into Python. Raises Unlowered unless it is a call of an op on numbers and arrays."""
    if not isinstance(op, Call) or type(op.fn) is not Op or f.lanes.batch:
        raise Unlowered("a call of Python in a loop")
    parts = op.spec.parts if op.spec.type is tuple else None
    if any(number_kind(part) is None and element_kind(part) is None for part in parts or (op.spec,)):
        raise Unlowered("a result that is not a number or an array")
    tape, given = _alone(op)
    first = f.slots
    found = f.invoked(tape, [_object(f, x) for x in given])
    if parts is None:
        f.env[op] = _read(f, found.ir, op.spec, op)
    else:
        f.env[op] = Results(tuple([_read(f, f.item(found.ir, k), part) for k, part in enumerate(parts)]))
    f.put(f"call void @tapegrad_release(ptr {f.op(f'getelementptr ptr, ptr %slots, i64 {first}')}, "
          f"i64 {f.slots - first})")


def _alone(op: Call) -> tuple[Tape, list[Operation]]:
    """Return a tape of one call, and the operations that are its inputs."""
    tape, at, given = Tape(None, "callback"), dict[Operation, Any](), list[Operation]()
    for x in dict.fromkeys(operands(op)):
        if isinstance(x, Constant):
            put(tape, x, at)
        else:
            at[x] = tape.push(Input(absent(x.spec)))
            given.append(x)
    tape.result = put(tape, op, at)
    tape.result.val = absent(op.spec)
    return tape, given


def _object(f: Function, x: Operation) -> str:
    """Return a value as an object: a new one, unless it entered the loop as an object."""
    found = f.cache.get(("object", x)) or f.value(x)
    if isinstance(found, Object):
        return found.ir
    if isinstance(found, Number):
        return f.box(found, x.spec.type).ir
    if not isinstance(found, (Elements, Array)):
        raise Unlowered("a value that has no Python object")
    strides = natural(x.spec) if x.spec.is_array and x.spec.itemsize == itemsize(found.kind) else None
    made, data = f.new_array(found.shape, found.kind, strides)
    copy(f, Array(data, found.shape, strides or dense(found.shape, itemsize(found.kind)), None, found.kind), found)
    return made.ir


def _read(f: Function, pointer: str, spec: Spec, op: Operation | None = None) -> Value:
    """Return a result as a native value; a long array is copied into the function's memory."""
    if number_kind(spec) is not None:
        return f.unboxed(pointer, spec.type)
    kind: Any = element_kind(spec)
    array = f.opened(Object(pointer, None), spec.shape, kind)
    if is_small(spec):
        return f.loaded(array)
    if op is not None:
        made = f.place(op)
    else:
        block = f.memory(spec.nbytes)
        made = Array(block.name, spec.shape, dense(spec.shape, spec.itemsize), block, kind)
    copy(f, made, array)
    return made
