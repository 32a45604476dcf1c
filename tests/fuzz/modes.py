"""modes: the ways in which a program can be run. One row each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tapegrad as tg
from tests.harness.run import exported

Way = Callable[..., Any]


def loaded(tape: tg.Tape) -> tg.Tape:
    """Return a tape that was saved, and read again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.tape"
        tape.save(file)
        return tg.load(file)


def rolled(tape: tg.Tape) -> tg.Tape:
    """Return a tape with loops of whatever is repeated twice. Raises ArgumentError where it has nothing to roll."""
    short = tg.roll(tape, least=3, saved=0)
    if short is tape:
        raise tg.ArgumentError("nothing to roll")
    return short


TAPES: dict[str, Callable[[tg.Tape], Way]] = {
    "tape.play": lambda tape: tape.play,
    "optimise(tape)": lambda tape: tg.optimise(tape).play,
    "compile(tape)": lambda tape: tg.compile(tape),
    "compile(tape) natively": lambda tape: tg.compile(tape, mode="native"),
    "load(tape)": lambda tape: loaded(tape).play,
    "to_python(tape)": exported,
    "roll(tape)": lambda tape: rolled(tape).play,
    "compile(roll(tape))": lambda tape: tg.compile(rolled(tape)),
    "unroll(roll(tape))": lambda tape: tg.unroll(rolled(tape)).play,
}
"""Of a tape, functions that return the value."""

GRADIENTS: dict[str, Callable[[tg.Tape, Any], Way]] = {
    "gradtape": lambda tape, seed: tg.gradtape(tape, seed=seed).play,
    "load(gradtape)": lambda tape, seed: loaded(tg.gradtape(tape, seed=seed)).play,
    "primitivize(gradtape)": lambda tape, seed: tg.primitivize(tg.gradtape(tape, seed=seed)).play,
    "flatgrad": lambda tape, seed: tg.flatgrad(tape, seed).play,
    "optimise(flatgrad)": lambda tape, seed: tg.optimise(tg.flatgrad(tape, seed)).play,
    "compile(flatgrad)": lambda tape, seed: tg.compile(tg.flatgrad(tape, seed)),
    "compile(flatgrad) natively": lambda tape, seed: tg.compile(tg.flatgrad(tape, seed), mode="native"),
    "to_python(flatgrad)": lambda tape, seed: exported(tg.flatgrad(tape, seed)),
    "load(flatgrad)": lambda tape, seed: loaded(tg.flatgrad(tape, seed)).play,
    "flatgrad(roll)": lambda tape, seed: tg.flatgrad(rolled(tape), seed).play,
    "compile(flatgrad(roll))": lambda tape, seed: tg.compile(tg.flatgrad(rolled(tape), seed)),
    "compile(flatgrad(roll)) natively": lambda tape, seed: tg.compile(tg.flatgrad(rolled(tape), seed), mode="native"),
    "flatgrad(unroll)": lambda tape, seed: tg.flatgrad(tg.unroll(rolled(tape)), seed).play,
    "compile(flatgrad(load))": lambda tape, seed: tg.compile(tg.flatgrad(loaded(tape), seed)),
}
"""Of a primal tape, functions that return the value and the gradients."""

FUNCTIONS: dict[str, Callable[[Way, Any], Way]] = {
    "compile": lambda f, seed: tg.compile(f, warmup=1),
    "value_and_grad": lambda f, seed: tg.value_and_grad(f, argnums=None, seed=seed, warmup=1),
    "value_and_grad by its cost": lambda f, seed: tg.value_and_grad(f, argnums=None, seed=seed),
    "value_and_grad natively": lambda f, seed: tg.value_and_grad(f, argnums=None, seed=seed, mode="native", warmup=1),
    "compile on torch": lambda f, seed: tg.compile(f, backend="torch", warmup=1),
    "value_and_grad on torch": lambda f, seed: tg.value_and_grad(f, argnums=None, seed=seed, backend="torch", warmup=1),
    "pullback": lambda f, seed: lambda *args: applied(tg.pullback(f, *args), seed),
}
"""Of a function, functions that are called again and again: compiled at the second call, as programs of a few operations would not be by their cost. Those that give a gradient have `grad` or `pull` in their name."""

OFTEN: dict[str, float] = {"compile": 0.5, "value_and_grad": 1.0, "value_and_grad by its cost": 0.05, "value_and_grad natively": 0.15, "compile on torch": 0.08, "value_and_grad on torch": 0.15, "pullback": 0.1}
"""In how many of all programs a function is made."""

SOME = (1, 2)  # of the tapes, and of the gradient tapes, for each program


def applied(pulled: tuple[Any, Way], seed: Any) -> Any:
    """Return value and gradients from what `pullback` gives."""
    value, back = pulled
    return value, back(seed)


def gives_gradient(name: str) -> bool:
    """True for a mode that returns value and gradients."""
    return "grad" in name or "pull" in name
