"""shared_arguments: arrays and tensors that are passed to a call more than once, which the program identifies by `is`.

An array in two arguments is two variables, each with its gradient: `f(x, x)`. A torch parameter is one variable, as in
torch's autograd. Comparing the two proxies of one object by `is` is refused (`identity`): the program would take
another branch.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tapegrad.errors import ArgumentError, MutationError, user_location
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import leaves_of_graph
from tapegrad.trace.views import peek
from tapegrad.tree.flatten import Walk
from tapegrad.tree.modules import is_trained
from tapegrad.tree.nodes import Leaf
from tapegrad.tree.signature import Signature


def tie(signature: Signature, args: tuple[Any, ...], walks: list[Walk], proxies: list[Any]) -> list[Any]:
    """Give a parameter that is captured and also in an argument, or in two arguments, a single proxy: the one of the
    argument that is differentiated. Return the parameters that are captured or in several arguments.

    Raises ArgumentError if two such arguments are differentiated: the gradient would be divided between them. An object
    that is passed twice, `f(module, module)`, is two variables.
    """
    found = defaultdict[int, list[tuple[int, int, str]]](list)
    known: dict[int, Any] = {}
    for number, walk in enumerate(walks, -1):
        for x, label in walk.keep:
            if isinstance(node := walk.seen.get(id(x)), Leaf) and is_trained(x):
                found[id(x)].append((number, node.index, label))
                known[id(x)] = x
    argnums = signature.wanted.argnums
    asked = (range(len(signature.args)) if argnums is None else argnums if type(argnums) is tuple else (argnums,))
    for places in found.values():
        given = [place for place in places if place[0] >= 0]
        several = [place for place in given if place[0] in asked] or given
        if len({id(args[number]) for number, *_ in several if number < len(args)}) > 1 and any(
                walks[number + 1].stateful for number, *_ in several):
            names = [label or f"argument {number + 1}" for number, _, label in several]
            raise ArgumentError(f"{names[0]} and {names[1]} are the same parameter, and its gradient would be split "
                                "between two arguments", user_location(),
                                "pass the objects that share it as one argument, f((encoder, decoder), x), or choose "
                                "one of them with argnums=")
        if len(several) == 1 or (several and places[0][0] < 0):
            for number, index, _ in places:
                if number < 0 or len(several) == 1:
                    proxies[index] = proxies[several[0][1]]
    return [known[key] for key, places in found.items() if places[0][0] < 0 or len(places) > 1]


def is_doubled(leaves: list[Any]) -> bool:
    """Return whether an array or a tensor occurs twice among leaves."""
    arrays = [id(x) for x in leaves if type(x) not in PYTHON]
    return len(set(arrays)) < len(arrays)


def twins(leaves: list[Any], proxies: list[Any]) -> dict[int, Any]:
    """Return the objects that have several proxies, by the ids of these."""
    places = defaultdict[int, dict[int, Any]](dict)
    for x, proxy in zip(leaves, proxies):
        if hasattr(x, "shape"):
            places[id(x)][id(proxy)] = x
    return {key: x for group in places.values() if len(group) > 1 for key, x in group.items()}


def check_computed(x: Any, copies: dict[int, Any]) -> None:
    """Refuse a tensor computed, outside the trace, from a parameter that is an argument: torch would differentiate it.
    """
    for leaf in leaves_of_graph(x):
        if id(leaf) in copies:
            label = getattr(peek(copies[id(leaf)]), "label", "") or "a captured parameter"
            raise MutationError(f"a tensor computed outside from {label} is read: torch's autograd has a gradient "
                                "through it, but tapegrad did not record that computation", user_location(),
                                "compute it in the function; or x.detach() if it is constant")
