"""solver: a search for a result as one call on a tape; its derivative follows from the equation that it solves."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.cotangents import ZERO, Absorbing
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, is_generator
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import duplicates, is_memory
from tapegrad.ops.elementwise import stop_gradient
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import UNSIZED, Op, Traced
from tapegrad.rules.registry import refused
from tapegrad.tree.copies import apart, check_apart
from tapegrad.tree.flatten import Structure, flatten, leaves_of
from tapegrad.tree.nodes import Closure
from tapegrad.tree.unchanged import changed

Jacobian = Callable[[Callable[[Any], Any], Any], Any]
RULES: dict[str, Callable[..., list[Any]]] = {"constant": lambda solver, y, dy, given, wrt: [ZERO] * len(wrt)}
"""By kind, `(solver, y, dy, given, wrt) -> gradients` by the leaves at `wrt`; set by a higher layer, which traces."""
TANGENTS: dict[str, Callable[..., Any]] = {}
"""Likewise `(solver, y, tangents, given) -> tangent`, with tangents keyed by place; other kinds use the pullback."""


class Limits(NamedTuple):
    """The limits of an integral, and the points between them at which to split it."""

    a: Any
    b: Any
    points: Any = None


class Solution(NamedTuple):
    """The solution of a differential equation: the requested times, those of the solver's steps, and a function from
    times to the solution there, a row each.
    """

    times: Any
    nodes: Any
    between: Callable[[Any], Any]


class Solver:
    """A function of nested values, among them the user's functions with their captures, that finds a number or array.

    `find(*given)` is called on plain values, again at every replay. Depending on its kind it finds

    - "residual": x where `residual(x, *given)` is zero; `adjoint(x, dx, *given)`, if any, solves (dr/dx)ᴴ w = dx;
    - "minimum": x where `residual`, a real number, is stationary;
    - "integral": the integral of `residual` over x, between the `limits(*given)`;
    - "composite": the value that `residual(*given)` computes in ops;
    - "constant": a value without derivative;
    - "ode": the values at some times, a row each, given a start vector and the times. `residual(t, y, *rest)`, with the
      other arguments, is the slope, and `path(start, times, *rest)` the solution between its steps. If only the first
      and the last time are given, the values may be those at the steps.

    With `facts` it finds a tuple of that and of other results, which are constant to every gradient. A solver that
    `draws` random numbers itself finds the same whichever they are.
    """

    jacobian: ClassVar[Jacobian]  # of a function from vectors to vectors, at one; it traces, so a higher layer sets it
    compiled: ClassVar[Callable[[Callable[..., Any]], Callable[..., Any]]]  # compiles a function; set likewise

    def __init__(
        self,
        name: str,
        find: Callable[..., Any],
        residual: Callable[..., Any],
        kind: str = "residual",
        facts: bool = False,
        limits: Callable[..., Limits] | None = None,
        adjoint: Callable[..., Any] | None = None,
        draws: bool = False,
        path: Callable[..., Solution] | None = None,
        batch: Callable[..., Any] | None = None,
    ) -> None:
        self.name, self.find, self.residual, self.kind, self.facts = name, find, residual, kind, facts
        self.limits, self.adjoint, self.draws, self.path = limits, adjoint, draws, path
        self.op = Op(name, self.run, Rrule(self._forward), spec=UNSIZED, torch=self.run, batch=batch,
                     tangent=self._tangent if kind == "ode" else None)

    def __repr__(self) -> str:
        return f"<solver {self.name}>"

    def __call__(self, *given: Any) -> Any:
        """Record the search as one call on these nested values."""
        leaves: list[Any] = []
        labels: list[str] = []
        into = flatten(given, "", leaves, labels, given=True)  # flattened as in the traces of its rules
        if any(is_generator(plain(leaf)) for leaf in leaves):
            raise self._refuse_draws()
        wrt = tuple([i for i, leaf in enumerate(leaves) if isinstance(leaf, Traced) and has_gradient(leaf)])
        y = self.op(*leaves, into=into, wrt=wrt)
        return (y[0], *map(stop_gradient, y[1:])) if self.facts else y

    def run(self, *leaves: Any, into: Structure, wrt: Sequence[int]) -> Any:
        """Search, outside every trace. The user's functions are copies on plain values; a change by them is refused."""
        held, memo = duplicates(list(leaves)), dict[int, Any]()
        before, drawn = duplicates(held), _state()
        given = into.build(held, memo)
        with apart(f"a function that {self.name} calls"):
            for part in into.seen.values():
                if type(part) is Closure:
                    check_apart(part.prototype)
            found = self.find(*given)
        if not self.draws and drawn != _state():
            raise self._refuse_draws()
        if any(is_memory(x) and not _same(x, then) for x, then in zip(held, before)) or _rebound(into, held, memo):
            raise MutationError(
                f"a function that {self.name} calls changes captured objects or its arguments",
                user_location(),
                "use a function that only reads; other results can be computed again from the solution",
            )
        if any(isinstance(x, Traced) for x in leaves_of(found)):
            raise refused(
                self.name,
                "a function that it calls uses a traced value that is neither an argument nor captured",
                "pass it as a closure's variable or in args=, not as a default or a global",
            )
        return found

    def _refuse_draws(self) -> Exception:
        return refused(self.name, "a function that it calls draws random numbers",
                       "draw them before the call, into an array")

    def _tangent(self, tangents: Sequence[Any], y: Any, *leaves: Any, into: Structure, wrt: Sequence[int]) -> Any:
        given = into.build(list(leaves))
        known = {i: t for i, t in enumerate(tangents) if t is not None}
        found = TANGENTS[self.kind](self, y[0] if self.facts else y, known, given)
        return (found, *[None] * (len(y) - 1)) if self.facts else found

    def _forward(self, *leaves: Any, into: Structure, wrt: Sequence[int]) -> tuple[Any, Any]:
        leaves = unwrap(leaves)  # the user's functions take tensors unwrapped
        y = self.op(*leaves, into=into, wrt=wrt)

        def solver_pullback(dy: Any) -> tuple[Any, ...]:
            dxs: list[Any] = [ZERO] * len(leaves)
            dy = unwrap(dy)
            x, dx = (y[0], dy[0]) if self.facts else (y, dy)
            if wrt and not (dx is None or isinstance(dx, Absorbing)):
                for i, found in zip(wrt, RULES[self.kind](self, x, dx, into.build(list(leaves)), wrt)):
                    dxs[i] = found
            return wrap(tuple(dxs))  # type: ignore[no-any-return]

        return wrap(y), solver_pullback


def _rebound(into: Structure, held: list[Any], memo: dict[int, Any]) -> bool:
    """Return whether a list, dict, object or captured variable among the built values holds something else now."""
    for key, part in into.seen.items():
        if getattr(part, "volatile", False) and id(part) in memo and changed(part, memo[id(part)], held, memo):
            return True
        if key in memo and memo[key].cell_contents is not part.build(held, memo):
            return True
    return False


def _state() -> bytes:
    """Return the state of NumPy's global generator."""
    return pickle.dumps(np.random.get_state(legacy=False))


def _same(x: Array, then: Any) -> bool:
    return bool(((x == then) | (x != x)).all())
