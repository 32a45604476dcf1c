"""pytensor_functions: a NumPy program as an op of pytensor's graphs, which pytensor's gradient and PyMC use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.bridges.sweeps import Sweeps
from tapegrad.numbers.lazy import needed
from tapegrad.tree.flatten import Structure


def to_pytensor(f: Callable[..., Any], outputs: Sequence[Any] = ()) -> Callable[..., Any]:
    """Return a NumPy program as a function of pytensor variables, which `pytensor.function` compiles and
    `pytensor.grad` differentiates, to any order.

    A run on ones finds the types of its results; a length unknown to pytensor is 1 there. If the program cannot run on
    these, or then returns other types, give the types in `outputs`, such as `pt.dvector`. The program runs by compiled
    tapes; the gradient recomputes it.

    >>> import numpy as np, pytensor, pytensor.tensor as pt                                       # doctest: +SKIP
    >>> wave, x = to_pytensor(lambda x, w: np.sin(w * x).sum()), pt.dvector()                     # doctest: +SKIP
    >>> pytensor.function([x], pytensor.grad(wave(x, 3.0), x))(np.zeros(2))                       # doctest: +SKIP
    array([3., 3.])
    """
    sweeps = Sweeps(f)

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        op = _class()(sweeps, tuple(outputs))
        found = op(*args, return_list=True)
        return found[0] if op.into is None and len(found) == 1 else (op.into or _Tuple).build(found)
    return call


class _Tuple:
    build = tuple


class _Call:
    """A program as an op: it has the types of its results, and their nesting if a run has found it."""

    into: Structure | None = None

    def __init__(self, sweeps: Sweeps, outputs: tuple[Any, ...] = ()) -> None:
        self.sweeps, self.outputs = sweeps, outputs

    def make_node(self, *args: Any) -> Any:
        """Return the graph node of a call."""
        xs = list(map(needed("pytensor.tensor").as_tensor_variable, args))
        types = self.outputs
        if not types:
            tensors = needed("pytensor.tensor").TensorType
            self.into, leaves = self.sweeps(*[np.ones([n or 1 for n in x.type.shape], x.type.dtype) for x in xs])
            types = tuple([tensors(np.asarray(leaf).dtype, shape=(None,) * np.ndim(leaf)) for leaf in leaves])
        return needed("pytensor.graph").Apply(self, xs, [kind() for kind in types])

    def perform(self, node: Any, inputs: Sequence[Any], storage: Sequence[list[Any]]) -> None:
        """Store the results of a call in the cells of `storage`."""
        for cell, leaf, y in zip(storage, self.sweeps(*inputs)[1], node.outputs):
            cell[0] = np.array(leaf, y.type.dtype)

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], dys: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs, computed by the op of the reverse sweep."""
        wrt, returned = [[i for i, x in enumerate(xs) if x.type.dtype.startswith(("float", "complex"))]
                         for xs in (inputs, outputs)]
        op = _class()(self.sweeps.pulled(len(inputs), wrt, returned), tuple([inputs[i].type for i in wrt]))
        given = [dys[i] if hasattr(dys[i].type, "dtype") else outputs[i].zeros_like() for i in returned]
        found = dict(zip(wrt, op(*inputs, *given, return_list=True)))
        return [found[i] if i in found else x.zeros_like(dtype="float64") for i, x in enumerate(inputs)]

    L_op = pullback  # before pytensor 3


@functools.cache
def _class() -> Any:
    graph = needed("pytensor.graph")
    unused = "L_op" if hasattr(graph.Op, "pullback") else "pullback"
    return type("Call", (_Call, graph.Op), {unused: getattr(graph.Op, unused, None)})
