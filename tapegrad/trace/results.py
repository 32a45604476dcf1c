"""results: the traced function's result, put on the tape and returned to the caller."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import PYTHON, plain, type_name
from tapegrad.numbers.tensors import ORDINARY, duplicate, duplicates
from tapegrad.numbers.text import Text
from tapegrad.ops.structure import nest_result, unpacked
from tapegrad.rules.op import Traced
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Constant, Operation, Tape, value_of
from tapegrad.trace.interposition import original
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.substitution import is_array_of_objects
from tapegrad.tree.flatten import Walk, flatten, is_leaf
from tapegrad.tree.nodes import Closure, Container, Extended, Fresh, Item, Made, Static

_MADE_ANEW = (Container, Extended, Fresh, Made)  # made anew by each call, since callers may write to it


def returned(tape: Tape) -> Any:
    """Return the result of a tape's function."""
    parts, into = unpacked(tape.result)
    constants = [op.val for op in tape if type(op) is Constant]
    values = [apart(value_of(part), constants) for part in parts]
    return values[0] if into is None else into.build(values)


def returned_copy(tape: Tape) -> Any:
    """Return a copy of the result of a tape's function: the caller may write to it before the tape is swept."""
    parts, into = unpacked(tape.result)
    values = duplicates([value_of(part) for part in parts])
    values = [duplicate(x) if isinstance(x, Traced) and shape_of(x) else x for x in values]  # of an outer trace
    return values[0] if into is None else into.build(values)


def apart(value: Any, constants: list[Any]) -> Any:
    """Return a result, copied if it shares memory with a constant of the tape, since the caller may write to it."""
    if type(value) is np.ndarray and any(type(x) is np.ndarray and np.may_share_memory(value, x) for x in constants):
        return value.copy(order="K")
    return value


def put_result(tape: Tape, tracer: Tracer, out: Any) -> None:
    """Make what `f` returned the tape's result: a variable, a constant, or a structure of them."""
    if isinstance(out, Traced) and out._tracer is tracer and is_leaf(out):
        tape.result = out._op
        return
    leaves: list[Any] = []
    walks: list[Walk] = []
    structure = flatten(out, "", leaves, [], shared=False, walks=walks, original=original)
    stay = [leaf for leaf in leaves if type(leaf) not in ORDINARY and not isinstance(leaf, (Traced, np.ndarray))]
    if (holder := next((x for x in (*stay, *_parts_that_stay(structure.spec)) if _holds_traced(x)), None)) is not None:
        tracer.guard(tape.ops[0], "recorded", (f"returns a {type_name(holder)} that contains traced values and is not "
                                               "a supported "
                                               "container", "return the numbers next to it, in a tuple or a dict"))
    if structure.is_leaf or not (leaves or isinstance(structure.spec, _MADE_ANEW)):
        lifted = tracer.lift(out)
        whole = structure.build(leaves) if walks[0].restored or type(out) is Text else out
        tape.result = lifted if isinstance(lifted, Operation) else tape.push(Constant(whole, Origin("result")))
        return
    nest_result(tape, list(map(tracer.lift, leaves)), structure)


def _parts_that_stay(spec: Any) -> Iterator[Any]:
    """Yield what a nest contains besides leaves: values without parts, keys, a function's defaults."""
    stack, seen = [spec], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Static):
            yield node.value
        elif isinstance(node, Closure):
            yield node.prototype
        elif isinstance(node, Container):
            yield from filter(_is_no_number, node.order()) if issubclass(node.type, dict) else [node.metadata]
        elif isinstance(node, Extended):
            yield from [name.key for name in node.names if type(name) is Item and _is_no_number(name.key)]
        stack += getattr(node, "children", ())


def _holds_traced(x: Any) -> bool:
    """Return whether an object leads to a traced value, within `MOST` objects, and not by modules, classes or code."""
    stack, seen = [x], dict[int, Any]()
    while stack and len(seen) < MOST:
        x = stack.pop()
        kind = type(x)
        if issubclass(kind, Traced):
            return True
        if kind in _BARE or id(x) in seen or isinstance(x, _PASSED):
            continue
        seen[id(x)] = x
        stack += ((x.__defaults__, x.__kwdefaults__, x.__dict__) if kind is FunctionType
                  else x.flat if is_array_of_objects(x) else gc.get_referents(x) if not isinstance(x, _HASHED)
                  else [*filter(_is_no_number, gc.get_referents(x)), *(dict.values(x) if isinstance(x, dict) else ())])
    return False


def _is_no_number(x: Any) -> bool:
    """Return False for a traced number: if it is hashed, a guard fixes its value."""
    return not (isinstance(x, Traced) and isinstance(plain(x), (*PYTHON, np.generic)))


MOST = 1000  # objects searched
_BARE = frozenset([bool, int, float, complex, str, bytes, type(None), np.float64])
_HASHED = (set, frozenset, dict)
_PASSED = (type, ModuleType, CodeType, FrameType, Operation, Tape, Tracer)
