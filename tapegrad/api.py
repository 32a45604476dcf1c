"""api: registers the implementations of a tape's methods.

The public functions are in `tapegrad`. Modules that need rich, networkx or torch are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.numbers.lazy import Lazy, needed
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.each import Derived
from tapegrad.ops.solver import RULES, TANGENTS, Solver
from tapegrad.ops.steps import Steps
from tapegrad.replay import interpreter
from tapegrad.rules.registry import register
from tapegrad.tape.check import check
from tapegrad.tape.facade import does
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.global_arrays import OBSERVERS


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports `module` when called and calls its function `name`.

    >>> later("math", "sqrt")(4.0)
    2.0
    """
    home = Lazy(module)
    return lambda *args, **kwargs: getattr(home, name)(*args, **kwargs)


# functions of layers above the ops and the tracer, which few programs need
Derived.differ = staticmethod(later("tapegrad.transforms.each", "differed"))
Derived.pusher = staticmethod(later("tapegrad.transforms.tangents", "tangent"))
Checkpoint.puller = staticmethod(later("tapegrad.transforms.checkpoint", "pulled"))
Steps.puller = staticmethod(later("tapegrad.transforms.steps", "steps_pulled"))
Steps.sweeper = staticmethod(later("tapegrad.transforms.steps", "steps_swept"))
Steps.differ = staticmethod(later("tapegrad.transforms.steps", "steps_differed"))
Steps.faster = staticmethod(later("tapegrad.compile.compiled_steps", "fast"))
Solver.compiled = staticmethod(later("tapegrad.compile.compiling", "compile"))
Solver.jacobian = staticmethod(later("tapegrad.transforms.implicit", "jacobian"))
RULES.update(
    residual=later("tapegrad.transforms.implicit", "gradients"),
    minimum=later("tapegrad.transforms.implicit", "gradients"),
    composite=later("tapegrad.transforms.implicit", "composite_gradients"),
    integral=later("tapegrad.transforms.integral", "gradients"),
    ode=later("tapegrad.transforms.ode", "gradients"))
TANGENTS.update(ode=later("tapegrad.transforms.ode", "tangent"))
OBSERVERS.append(later("tapegrad.compile.watch.observer", "Observer"))
register("each number", later("tapegrad.transforms.vectorize", "of_each_number"))

does("check")(check)
does("to_python")(later("tapegrad.compile.numpy.export", "to_python"))
does("to_c")(later("tapegrad.compile.native.c_export", "to_c"))
does("to_llvm")(later("tapegrad.compile.native.backend", "to_llvm"))
does("find")(later("tapegrad.debug.find", "find"))
does("profile")(later("tapegrad.debug.profile", "profile"))
does("save")(later("tapegrad.store.write", "save"))
does("reduced")(later("tapegrad.store.pickled", "reduced"))
does("steps")(later("tapegrad.debug.steps", "Steps"))
does("view")(later("tapegrad.show.view", "View"))
does("diff")(later("tapegrad.show.diff", "Diff"))
does("to_networkx")(later("tapegrad.show.graph.network", "to_networkx"))
does("draw")(later("tapegrad.show.graph.draw", "draw"))


@does("play")
def _play(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any], debug: bool, redraw: bool) -> Any:
    with collector:
        return interpreter.play(tape, args, kwargs, debug=debug, redraw=redraw)


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


@does("step")
def _step(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from tapegrad.debug.execution import leaves_of
    from tapegrad.debug.step import Stepper
    return Stepper(tape, leaves_of(tape, args, kwargs))


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
        return str(tape.steps().format(width))
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
        present(tape.steps(), width, file, console)
    else:
        show(tape, format, group, width, file, console, guards)
