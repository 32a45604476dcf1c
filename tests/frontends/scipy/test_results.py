"""What SciPy's functions return in objects of its own is a program's result as a tuple is: the values of each call, and no traced ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as ss

import tapegrad as tg

OTHER = np.array([1.0, 2.0, 4.0, 3.0])
PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: ss.linregress(OTHER, x), lambda x: ss.ttest_1samp(x, 0.5), lambda x: ss.cramervonmises(x, "norm"), lambda x: ss.spearmanr(x, OTHER),
    lambda x: {"r": ss.pearsonr(x, OTHER)}]


def told(result: Any) -> str:
    """Return how a result prints, with its numbers to twelve digits: compiled code may differ by an ulp."""
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.12g}", repr(result))


def numbers(result: Any) -> dict[str, Any]:
    """Return what a result shows."""
    result = result["r"] if isinstance(result, dict) else result
    return {str(i): part for i, part in enumerate(result)} if isinstance(result, tuple) and not hasattr(result, "__dict__") else {
        **{str(i): part for i, part in enumerate(result if isinstance(result, tuple) else ())},
        **{name: part for name, part in vars(result).items() if not name.startswith("_")}}


@pytest.mark.filterwarnings("ignore:divide by zero")  # of which SciPy says nothing in an np.errstate of its own
@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_each_call_has_results_of_its_own(program: int) -> None:
    f = PROGRAMS[program]
    first, second = np.array([0.5, 2.0, 3.5, 2.5]), np.array([0.25, 2.0, 3.75, 2.25])
    value, tape = tg.trace(f, first)
    compiled = tg.compile(f, warmup=1)
    for found, x in [(value, first), (tape.play(second), second), *((compiled(x), x) for x in (first, second, first, second))]:
        wanted = f(x)
        assert type(found) is type(wanted) and told(found) == told(wanted)
        assert numbers(found).keys() == numbers(wanted).keys()
        for name, part in numbers(wanted).items():
            assert type(numbers(found)[name]) is type(part)
            np.testing.assert_allclose(numbers(found)[name], part, rtol=1e-12)


def test_gradients() -> None:
    x = np.array([0.5, 2.0, 3.5, 2.5])
    slope, intercept = tg.jacobian(lambda x: tuple(PROGRAMS[0](x))[:2])(x)
    eps = 1e-6 * np.eye(4)
    np.testing.assert_allclose(slope, [(PROGRAMS[0](x + e).slope - PROGRAMS[0](x - e).slope) / 2e-6 for e in eps], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(intercept, [(PROGRAMS[0](x + e).intercept - PROGRAMS[0](x - e).intercept) / 2e-6 for e in eps], rtol=1e-6, atol=1e-8)
