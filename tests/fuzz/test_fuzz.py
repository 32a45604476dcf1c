"""The search itself: a seed is a program, faults that are made on purpose are found, and what is found becomes small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapegrad import ops
from tapegrad.compile.numpy.ownership import Ownership
from tapegrad.trace.recorder import Tracer
from tests.fuzz.compare import DIFFERENCES, ONCE, Find, examine
from tests.fuzz.generate import generate
from tests.fuzz.program import Call, Program
from tests.fuzz.search import search
from tests.fuzz.shrink import shrink, smallest

Break = Callable[[pytest.MonkeyPatch], None]


def wrong_rule(patch: pytest.MonkeyPatch) -> None:
    """Make the slope of tanh too large, by a thousandth."""
    right: Any = ops.tanh.partials
    patch.setattr(ops.tanh, "rule", ops.tanh.rule._replace(each=(lambda *args: right[0](*args) * 1.001,)))


def no_guard(patch: pytest.MonkeyPatch) -> None:
    """Let the branches that a trace has taken be taken by every replay."""
    right = Tracer.guard

    def guard(self: Any, op: Any, fact: str, value: Any) -> None:
        if fact != "bool":
            right(self, op, fact, value)
    patch.setattr(Tracer, "guard", guard)


def early_reuse(patch: pytest.MonkeyPatch) -> None:
    """Let memory be used again while a later operation still reads it."""
    patch.setattr(Ownership, "dies", lambda self, x, op: True)


FAULTS: dict[str, tuple[Break, set[str], int]] = {
    "a rule": (wrong_rule, {ONCE, DIFFERENCES}, 150),
    "a guard": (no_guard, {ONCE, "tape.play"}, 150),
    "ownership": (early_reuse, {ONCE, "compile(flatgrad)"}, 150),
}


@pytest.mark.quick
def test_a_seed_is_a_program() -> None:
    for seed in range(5):
        program = generate(seed)
        assert program == generate(seed) != generate(seed + 1)
        with np.errstate(all="ignore"):  # a program may warn
            exec(compile(replace(program, calls=program.calls[:1]).script(), "<script>", "exec", dont_inherit=True), {"__name__": "script", "print": lambda *args: None})


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, modes, seeds = FAULTS[name]
    for seed in range(seeds):
        program = generate(seed)
        with monkeypatch.context() as patch:
            fault(patch)
            broken = examine(program, modes).finds
        new = [find for find in broken if not any(find.is_like(other) for other in examine(program, modes).finds)] if broken else []
        if new:
            break
    else:
        pytest.fail(f"not found in {seeds} programs")
    with monkeypatch.context() as patch:
        fault(patch)
        small = shrink(program, new[0], seconds=2)
        assert small.size < program.size
        assert any(find.is_like(new[0]) for find in examine(small, modes).finds)


def test_what_is_found_becomes_small() -> None:
    text = "import numpy as np\ndef f(a, b):\n    c = (lambda p, q=1.0: p * q)(np.sin(a)) * 2.0\n    for i in range(3):\n        c = c + b\n    if b > 0:\n        d = np.tanh(c * a)\n    return d.sum() + c[0]\n"
    program = Program(0, (("fuzz_lib", "K = 1\n"), ("fuzz_main", text)), (Call(("np.array([0.1, 0.2])", "0.5")), Call(("np.array([0.3, 0.4])", "0.7"), "K = 2")))
    small = smallest(program, lambda smaller: "tanh" in smaller.main and smaller.load().f is not None)
    assert small.modules == (("fuzz_main", "import numpy as np\n\ndef f(): \n    np.tanh\n"),) or len(small.main) < 60
    assert len(small.calls) == 1


def test_modes_that_differ_are_named() -> None:
    program = Program(0, (("fuzz_main", "def f(a):\n    return a * 2.0\n"),), (Call(("1.0",)),))
    assert examine(program, {ONCE, DIFFERENCES, "tape.play", "compile", "value_and_grad", "compile(flatgrad)", "load(flatgrad)"}).finds == []
    assert Find("value", "compile", 1, "").is_like(Find("value", "compile", 3, "else"))


def test_processes_share_the_seeds() -> None:
    assert sorted(seed for seed, _ in search(range(3), jobs=1)) == [0, 1, 2]


@pytest.mark.parametrize("line", ["a + round(a * 3e5, 2)", "a + 1e-9 * math.sin(a * 1e15)"])
def test_jumps_and_waves_finer_than_a_step_are_no_wrong_slopes(line: str) -> None:
    program = Program(0, (("fuzz_main", f"import math\ndef f(a):\n    return {line}\n"),), (Call(("0.123456733",)),))
    report = examine(program, {ONCE, DIFFERENCES})
    assert report.outcome == "compared" and report.finds == []
