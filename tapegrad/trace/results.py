"""results: what a traced function returns, put on its tape, and handed to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.tensors import duplicate, duplicates
from tapegrad.numbers.text import Text
from tapegrad.ops.structure import nest_result, unpacked
from tapegrad.rules.op import Traced
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Constant, Operation, Tape, value_of
from tapegrad.trace.interposition import original
from tapegrad.trace.recorder import Tracer
from tapegrad.tree.flatten import Walk, flatten, is_leaf
from tapegrad.tree.nodes import Container, Extended, Fresh, Made

_MADE_ANEW = (Container, Extended, Fresh, Made)  # by each call, though it holds no numbers: others may write to it


def returned(tape: Tape) -> Any:
    """Return what the function of a tape returned."""
    parts, into = unpacked(tape.result)
    constants = [op.val for op in tape if type(op) is Constant]
    values = [apart(value_of(part), constants) for part in parts]
    return values[0] if into is None else into.build(values)


def returned_copy(tape: Tape) -> Any:
    """Return what the function of a tape returned, in memory of its own: its owner may write to it before the tape is
    swept.
    """
    parts, into = unpacked(tape.result)
    values = duplicates([value_of(part) for part in parts])
    values = [duplicate(x) if isinstance(x, Traced) and shape_of(x) else x for x in values]  # by a trace around
    return values[0] if into is None else into.build(values)


def apart(value: Any, constants: list[Any]) -> Any:
    """Return a result in memory of its own where it lies in that of a tape's constant: its owner may write to it."""
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
    if structure.is_leaf or not (leaves or isinstance(structure.spec, _MADE_ANEW)):
        lifted = tracer.lift(out)
        whole = structure.build(leaves) if walks[0].restored or type(out) is Text else out
        tape.result = lifted if isinstance(lifted, Operation) else tape.push(Constant(whole, Origin("result")))
        return
    nest_result(tape, list(map(tracer.lift, leaves)), structure)
