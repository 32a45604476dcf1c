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
    """Return a graph with a node for each operation, by number, and an edge from each operation to each of its users.

    A node has the attributes `op` (the function's name), `kind`, `role`, `text`, `type`, `value` (in brief), `note`,
    `line` (`file:line`) and `source`, and, if shapes determine them, `bytes` and `flops`. An edge has `slots`: the
    argument positions, `fn` for the function. All are strings and integers, which every format of networkx can write.

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
    with collector:  # all objects made here stay alive
        for op in tape:
            graph.add_node(op.id, **_attributes(op, places))
            graph.add_edges_from((used, op.id, {"slots": ",".join(found)}) for used, found in _slots(op).items())
    return graph


def _slots(op: Operation) -> dict[int, list[str]]:
    """Return the argument positions of each operand, by the operand's number."""
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
