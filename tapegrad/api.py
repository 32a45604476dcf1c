"""api: what a tape's methods do.

The public functions stand in `tapegrad`. What needs rich, networkx or torch is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tapegrad.transforms.each
import tapegrad.transforms.integral
import tapegrad.transforms.ode
import tapegrad.transforms.steps  # gives checkpoints and long loops their pullbacks
import tapegrad.transforms.vectorize  # noqa: F401  (gives np.vectorize its)
from tapegrad.numbers.lazy import needed
from tapegrad.ops.solver import Solver
from tapegrad.ops.steps import Steps
from tapegrad.replay import interpreter
from tapegrad.tape.check import check
from tapegrad.tape.facade import does
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.outside_arrays import WITNESSES

does("check")(check)


def _faster(steps: Steps, values: Sequence[Any]) -> Any:
    """Return the compiled functions of a long loop's step, None where it is interpreted."""
    from tapegrad.compile.steps import fast
    return fast(steps, values)


Steps.faster = staticmethod(_faster)


def _compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a solver calls many times, compiled."""
    from tapegrad.compile.compiling import compile
    return compile(f)


Solver.compiled = staticmethod(_compiled)


def _witness(samples: bool = False) -> Any:
    """Return an observer of a run: who tells whether a program changes what it reads."""
    from tapegrad.compile.watch.observer import Observer
    return Observer(samples=samples)


WITNESSES.append(_witness)


@does("play")
def _play(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any], debug: bool, redraw: bool) -> Any:
    with collector:
        return interpreter.play(tape, args, kwargs, debug=debug, redraw=redraw)


@does("to_python")
def _to_python(tape: Tape, name: str) -> str:
    from tapegrad.compile.numpy.export import to_python
    return to_python(tape, name)


@does("to_fx")
def _to_fx(tape: Tape, device: Any) -> Any:
    needed("torch")
    from tapegrad.compile.torch.fx import to_fx
    return to_fx(tape, device)


@does("lowered")
def _lowered(tape: Tape, backend: str, device: Any) -> Tape:
    from tapegrad.compile.backend import choose
    from tapegrad.optimise.pipeline import DEFAULT
    return choose(backend, device, "auto", DEFAULT).lowered(tape)


@does("find")
def _find(tape: Tape, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], limit: float) -> Any:
    from tapegrad.debug.find import find
    return find(tape, kind, args, kwargs, limit=limit)


@does("step")
def _step(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from tapegrad.debug.step import Stepper
    from tapegrad.debug.walk import leaves_of
    return Stepper(tape, leaves_of(tape, args, kwargs))


@does("profile")
def _profile(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any], repeats: int) -> Any:
    from tapegrad.debug.profile import profile
    return profile(tape, args, kwargs, repeats)


@does("save")
def _save(tape: Tape, path: Any, values: bool) -> None:
    from tapegrad.store.write import save
    save(tape, path, values)


@does("reduced")
def _reduced(tape: Tape) -> Any:
    from tapegrad.store.pickled import reduced
    return reduced(tape)


@does("copied")
def _copied(tape: Tape, memo: dict[int, Any] | None) -> Tape:
    from tapegrad.store.pickled import copied
    from tapegrad.transforms.walk import copy_tape
    return copy_tape(tape) if memo is None else copied(tape, memo)


@does("format")
def _format(tape: Tape, format: str, width: int | None, guards: bool) -> str:
    from tapegrad.show import WRITTEN
    if format in WRITTEN:
        from tapegrad.show.plain import format_tape
        return format_tape(tape, format == "compact", width, guards=guards)
    if format == "steps":
        return str(_steps(tape).format(width))
    needed("rich")
    from tapegrad.show.view import written
    return written(tape, format, width, guards)


@does("text")
def _text(tape: Tape) -> str:
    from tapegrad.show.plain import format_tape
    return format_tape(tape, whole=False)


@does("show")
def _show(tape: Tape, format: str, group: str | None, width: int | None, file: Any, console: Any, guards: bool) -> None:
    needed("rich")
    from tapegrad.show.view import present, show
    if format == "steps":
        present(_steps(tape), width, file, console)
    else:
        show(tape, format, group, width, file, console, guards)


@does("steps")
def _steps(tape: Tape) -> Any:
    from tapegrad.debug.steps import Steps
    return Steps(tape)


@does("view")
def _view(tape: Tape) -> Any:
    from tapegrad.show.view import View
    return View(tape)


@does("diff")
def _diff(tape: Tape, other: Tape) -> Any:
    from tapegrad.show.diff import Diff
    return Diff(tape, other)


@does("to_networkx")
def _to_networkx(tape: Tape) -> Any:
    from tapegrad.show.graph.network import to_networkx
    return to_networkx(tape)


@does("draw")
def _draw(tape: Tape, form: str, path: str | Path | None = None, group: str | None = None) -> str:
    from tapegrad.show.graph.draw import draw
    return draw(tape, form, path, group)
