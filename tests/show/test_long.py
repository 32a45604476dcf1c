"""A long tape as text: `print` shows the head and the tail, `format` all of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg


def program(x: Any) -> Any:
    for k in range(1200):
        x = x * 1.5 + k
    return x


def test_print_shows_head_and_tail_of_a_long_tape() -> None:
    tape = tg.trace(program, 2.0)[1]
    text, whole = str(tape).splitlines(), tape.format().splitlines()
    assert len(whole) == len(tape) + 1 and len(text) == 402
    assert "2,002 operations left out" in text[301] and text[1].split() == whole[1].split() and text[-1].split() == whole[-1].split()


def test_a_gap_stands_behind_the_head_where_the_tail_has_subtapes() -> None:
    def looped(x: Any) -> Any:
        return tg.checkpoint(lambda y: np.sin(y) * y)(program(x))
    tape = tg.trace(looped, 2.0)[1]
    text = str(tape).splitlines()
    assert "left out" in text[301] and len(text) > 402


def test_a_short_tape_is_whole() -> None:
    tape = tg.trace(lambda x: x * 2, 2.0)[1]
    assert str(tape) == tape.format()
