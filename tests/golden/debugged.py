"""What the debugging tools print, and of which programs. Their lines are in the golden files: add at the end."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import tapegrad as tg
from tapegrad.debug.profile import Profile

X = np.array([0.0, 1.0, 2.0])


def masked(x: Any) -> Any:
    y = np.where(x > 0, x * np.log(x), 0.0)
    return y.sum()


def root(x: Any) -> Any:
    return np.where(x > 0, np.logaddexp(np.log(x), -np.inf), 0.0).sum()


def layers(x: Any, w: Any, b: float) -> Any:
    h = x @ w + b
    h = np.maximum(h, 0.0)
    return (h * h).sum() + b


def inverse(a: Any, k: float) -> Any:
    b = a * k
    return np.linalg.inv(b + a).sum()


def session(width: int, commands: str) -> str:
    """Return what a terminal shows of the commands, one to a line, with which the gradient of `layers` is stepped through."""
    shown, typed = io.StringIO(), iter(commands.split("\n"))
    console = Console(file=shown, width=width, legacy_windows=False)

    def ask(prompt: str) -> str:
        word = next(typed, None)
        console.print(f"{prompt}{word or ''}", markup=False, highlight=False)
        if word is None:
            raise EOFError
        return word
    tape(layers).step(X, np.eye(3), 0.5).interact(ask, console)
    return "\n".join(line.rstrip() for line in shown.getvalue().splitlines())


def tape(f: Any) -> tg.Tape:
    """Return the gradient tape of a program at the point where the golden files look at it."""
    return tg.gradtape(f, *{masked: (X,), layers: (X, np.ones((3, 3)), 1.0)}[f])


def profiled(f: Any) -> Profile:
    """Return a profile of invented times: %n takes n microseconds, and makes 100 n bytes."""
    gradient = tape(f)
    return Profile(gradient, [500 * op.id * (op.id + 1) for op in gradient], [100 * op.id for op in gradient])


def failure(run: Callable[[], Any]) -> str:
    """Return the text of the error that is raised, without the folder of this file."""
    try:
        run()
    except tg.ReplayError as err:
        return str(err).replace(str(Path(__file__).parent), "")
    raise AssertionError("nothing was raised")


def texts(on_console: Callable[..., str]) -> dict[str, str]:
    """Return the text of each golden file by its name."""
    found = tg.explain(masked, X)
    dead = tg.explain(layers, X, -np.ones((3, 3)), 1.0)
    alive = tg.explain(layers, X, np.ones((3, 3)), 1.0)
    profile = profiled(layers)
    with np.errstate(all="ignore"):
        nan = tg.trace(root, X)[1].find("nan")
    return {
        "explain_masked.txt": str(found),
        **{f"explain_masked_rich{width}.txt": on_console(found, width) for width in (60, 80, 120)},
        "explain_masked_ascii80.txt": on_console(found, 80, "ascii"),
        "explain_dead_rich80.txt": on_console(dead, 80),
        **{f"explain_alive_rich{width}.txt": on_console(alive, width) for width in (60, 120)},
        **{f"find_root_rich{width}.txt": on_console(nan, width) for width in (60, 80)},
        "profile.txt": str(profile),
        **{f"profile_rich{width}.txt": on_console(profile, width) for width in (60, 80, 120)},
        "profile_ascii80.txt": on_console(profile, 80, "ascii"),
        **{f"step_rich{width}.txt": session(width, "n\nn 2\nu maximum\nu 31\ng %20\np 2\nv\nwhat\nu nothing\ng 99\nn 100\nn") for width in (60, 80, 120)},
        "replay_error.txt": failure(lambda: tg.trace(inverse, np.eye(2), 2.0)[1].play(np.eye(2), -1.0)),
        "replay_error_gradient.txt": failure(lambda: tg.gradtape(inverse, np.eye(2), 2.0).play(np.eye(2), -1.0)),
    }
