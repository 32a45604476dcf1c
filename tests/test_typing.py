"""What a user's type checker knows of results: mypy checks this file; nothing here runs."""

from __future__ import annotations

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


def test_a_signature_names_the_passes() -> None:
    import inspect
    assert "0x" not in str(inspect.signature(tg.value_and_grad)) and "simplify" in str(inspect.signature(tg.compile))
