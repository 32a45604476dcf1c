"""What a user's type checker knows of results: mypy and pyright check this file in strict mode, and pyright the examples of
README and docs (`python -m tests.docs.examples FOLDER` writes them there); but for the last tests nothing here runs.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import tapegrad as tg

Array = npt.NDArray[np.float64]


def loss(w: Array, x: Array) -> float:
    return float(((w * x) ** 2).sum())


if TYPE_CHECKING:
    from typing_extensions import assert_type

    x: Array = np.ones(3)
    step = tg.value_and_grad(loss)
    assert_type(step(x, x), tuple[float, Any])
    step(x)  # type: ignore[call-arg]
    assert_type(step.stats.hits, int)
    assert_type(tg.compile(loss, mode="native")(x, x), float)
    tg.compile(loss, mode="nativ")  # type: ignore[call-overload]
    assert_type(tg.grad(loss, x, x), tuple[float, Any])
    assert_type(tg.trace(loss, x, x), tuple[float, tg.Tape])
    assert_type(tg.checkpoint(loss)(x, x), float)
    # the arguments of a lambda are no unknown ones
    print(tg.grad(lambda x: x.sum() ** 2, x), tg.gradient(lambda x, y: x @ y, x, x), tg.gradient(lambda a, b, c: a, 1.0, 2.0, 3.0))
    # what is made of a function says how its calls were made
    for made in (tg.jacobian(loss), tg.hessian(loss), tg.sparse_hessian(loss), tg.hvp(loss), tg.laplacian(loss),
                 tg.value_and_jacobian(loss), tg.jacfwd(loss), tg.jacrev(loss), tg.wirtinger(loss)):
        print(made(x, x), made.explain(), made.stats, made.tapes)
    tg.jacobian(loss, mode="forwards")  # type: ignore[arg-type]
    tg.compile(loss, backend="tensor")  # type: ignore[call-overload]
    # tapes
    tape = tg.gradtape(loss, x, x)
    assert_type(tape.check(), tg.Tape)
    assert_type(tg.primitivize(tape), tg.Tape)
    assert_type(tg.optimise(tape), tg.Tape)
    assert_type([op.name for op in tape], list[str])
    assert_type(tape.inputs, list[tg.Input])
    assert_type(tape.format("compact"), str)
    assert_type(tape.to_python(), str)
    tape.show("tabel")  # type: ignore[arg-type]
    tape.find("nans")  # type: ignore[arg-type]
    tape.to_svg(group="lines")  # type: ignore[arg-type]
    print(tape.to_networkx().nodes, tape.play(x, x), tape.profile(), tape.diff(tape), tape.find("nan"), tape.step())
    assert_type(tg.explain(loss, x, x), tg.Explanation)
    assert_type(tg.tree.leaves([x, x]), list[Any])
    assert_type(tg.vmap(loss)(x, x), Any)
    with tg.raise_on_nan():
        print(tg.jvp(loss, (x, x), (x, x)), tg.taylor(loss, 1.0, 3), tg.forwarddiff(loss)(x, x))

    @tg.primitive
    def softplus(x: Array) -> Array:
        return np.logaddexp(0.0, x)

    @tg.rrule(softplus)
    def _(x: Array) -> tuple[Any, Callable[[Array], tuple[Array]]]:
        return softplus(x), lambda dy: (dy / (1.0 + np.exp(-x)),)

    @tg.value_and_grad
    def squares(x: Array) -> float:
        return float(tg.value(x) @ x)
    assert_type(squares(x), tuple[float, Any])

    class Model:
        def __init__(self, k: float) -> None:
            self.k = k

        @tg.value_and_grad
        def loss(self, x: Array) -> float:
            return float(self.k * x.sum())


def test_a_signature_names_the_passes() -> None:
    import inspect
    assert "0x" not in str(inspect.signature(tg.value_and_grad)) and "simplify" in str(inspect.signature(tg.compile))
