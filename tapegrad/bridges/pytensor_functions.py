"""pytensor_functions: a NumPy program as an operation in a graph of pytensor's, which its gradient and PyMC use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.bridges.sweeps import Sweeps
from tapegrad.numbers.lazy import needed
from tapegrad.tree.flatten import Structure


def to_pytensor(f: Callable[..., Any], outputs: Sequence[Any] = ()) -> Callable[..., Any]:
    """Return a NumPy program as a function of pytensor's variables, which `pytensor.function` compiles and
    `pytensor.grad` differentiates, to any order.

    What it returns a run on ones says, in which a length that pytensor does not know is 1; where a program cannot
    take these, or returns something else of them, give the types of its results in `outputs`, as `pt.dvector`. The
    program runs by compiled tapes; the gradient computes it again.

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
    """A program as an operation: of its results it knows the types, and, where it was run, the nesting."""

    into: Structure | None = None

    def __init__(self, sweeps: Sweeps, outputs: tuple[Any, ...] = ()) -> None:
        self.sweeps, self.outputs = sweeps, outputs

    def make_node(self, *args: Any) -> Any:
        """Return the node of a call."""
        xs = list(map(needed("pytensor.tensor").as_tensor_variable, args))
        types = self.outputs
        if not types:
            tensors = needed("pytensor.tensor").TensorType
            self.into, leaves = self.sweeps(*[np.ones([n or 1 for n in x.type.shape], x.type.dtype) for x in xs])
            types = tuple([tensors(np.asarray(leaf).dtype, shape=(None,) * np.ndim(leaf)) for leaf in leaves])
        return needed("pytensor.graph").Apply(self, xs, [kind() for kind in types])

    def perform(self, node: Any, inputs: Sequence[Any], storage: Sequence[list[Any]]) -> None:
        """Put the results of a call into the cells of `storage`."""
        for cell, leaf, y in zip(storage, self.sweeps(*inputs)[1], node.outputs):
            cell[0] = np.array(leaf, y.type.dtype)

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], dys: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs: results of the operation of the sweep."""
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
