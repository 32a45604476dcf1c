"""network: a tape as a networkx.DiGraph, one node for each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapegrad.numbers.formatting import brief
from tapegrad.numbers.lazy import needed
from tapegrad.show.graph.cost import cost_of
from tapegrad.show.line import Places, role_of, short, tidy
from tapegrad.tape.tape import Call, Guard, Operation, Tape, has_value
from tapegrad.trace.collector import collector

if TYPE_CHECKING:
    import networkx


def to_networkx(tape: Tape) -> networkx.DiGraph[Any]:
    """Return a graph whose nodes are the operations' numbers, and whose edges lead from an operation to what uses it.

    A node has the attributes `op` (the function's name), `kind`, `role`, `text`, `type`, `value` (in brief), `note`,
    `line` (`file:line`) and `source`; where shapes tell, also `bytes` and `flops`. An edge has `slots`: the positions
    among the arguments, `fn` for the function. All are strings and integers, so that every format of networkx can write
    them.

    >>> from tapegrad.tape.tape import Input
    >>> tape = Tape()
    >>> x = tape.push(Input(3.0, "x"))
    >>> graph = to_networkx(tape)
    >>> graph.nodes[2]["type"], graph.nodes[2]["bytes"]
    ('float', 8)
    """
    nx: Any = needed("networkx")
    graph: networkx.DiGraph = nx.DiGraph(name=tape.name, result=0 if tape.result is None else tape.result.id)
    places = Places()
    with collector:  # all that is made here stays
        for op in tape:
            graph.add_node(op.id, **_attributes(op, places))
            graph.add_edges_from((used, op.id, {"slots": ",".join(found)}) for used, found in _slots(op).items())
    return graph


def _slots(op: Operation) -> dict[int, list[str]]:
    """Return, by the number of an operation that this one uses, its places among the arguments."""
    found: dict[int, list[str]] = {}
    for i, arg in enumerate(op.args):
        if isinstance(arg, Operation):
            found.setdefault(arg.id, []).append(str(i))
    if isinstance(op.fn, Operation):
        found.setdefault(op.fn.id, []).append("fn")
    return found


def _attributes(op: Operation, places: Places) -> dict[str, Any]:
    where = places.line(op)
    found: dict[str, Any] = {
        "op": brief(op.fn) if isinstance(op, Call) else op.kind, "kind": op.kind, "role": role_of(op),
        "text": tidy(op.body),
        "type": "" if isinstance(op, Guard) else op.type, "value": "" if not has_value(op) else tidy(short(op.val)),
        "note": op.note,
        "line": where.short if where else "", "source": where.source if where else ""}
    return found | {key: size for key, size in cost_of(op)._asdict().items() if size is not None}
