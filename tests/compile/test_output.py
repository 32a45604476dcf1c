"""What a program prints, writes and logs comes at every call of a compiled function too."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from typing import Any

import pytest

import tapegrad as tg

LOGGER, OUT = logging.getLogger("tapegrad_tests"), io.StringIO()
LOGGER.addHandler(logging.StreamHandler(OUT))
LOGGER.propagate = False


def printing(x: Any) -> Any:
    print("once")
    return x * x


def writing(x: Any) -> Any:
    sys.stdout.write("once")
    return x * x


def logging_(x: Any) -> Any:
    LOGGER.warning("once")
    return x * x


@pytest.mark.parametrize("f", [printing, writing, logging_])
def test_a_program_that_writes_stays_traced_with_one_warning(f: Any, capsys: Any) -> None:
    OUT.seek(0), OUT.truncate()
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    with pytest.warns(tg.RetraceWarning) as caught:
        for x in (1.0, 2.0, 3.0, 4.0):
            assert step(x) == (x * x, (None, 2 * x))
    assert (capsys.readouterr().out + OUT.getvalue()).count("once") == 4 and len(caught) == 1
    assert f.__code__.co_name in str(caught[0].message) and "test_output.py" in str(caught[0].message)


def test_a_message_below_its_level_is_none_until_the_level_is_lowered() -> None:
    def f(x: Any) -> Any:
        LOGGER.debug("once")
        return x * x
    OUT.seek(0), OUT.truncate()
    LOGGER.setLevel(logging.WARNING)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for x in (1.0, 2.0, 3.0, 4.0):
        step(x)
    assert step.stats.hits == 3 and not OUT.getvalue()
    LOGGER.setLevel(logging.DEBUG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        step(5.0), step(6.0), step(7.0)
    assert OUT.getvalue().count("once") == 3
