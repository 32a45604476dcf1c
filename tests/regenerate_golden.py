"""Write the golden files anew: python -m tests.regenerate_golden, then look at what git diff says."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console

import tapegrad as tg
from tapegrad.cli.parser import COMMANDS
from tapegrad.cli.parser import main as main_of_cli
from tapegrad.show.coverage import listing
from tests.golden.programs import f, wave

FOLDER = Path(__file__).parent / "golden"


def on_console(tape: tg.Tape, width: int, encoding: str = "utf-8", **options: Any) -> str:
    """Return what a terminal of this width and encoding shows, without the blanks that pad a table."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, legacy_windows=False, **options).print(tape)
    file.flush()
    return "\n".join(line.rstrip() for line in raw.getvalue().decode(encoding).splitlines())


def on_command_line(*argv: str) -> str:
    """Return what a command prints on a terminal of 80 characters."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.dict(os.environ, {"COLUMNS": "80"}):
        assert main_of_cli(argv) == 0
    return out.getvalue().rstrip("\n")


def commands() -> dict[str, str]:
    """Return what the help of each command says, what they print of a small program, and the scripts for shells."""
    offered = [command.name for command in COMMANDS if command.needs()]
    program = ("a / (a + b*b)", "a=2", "b=3")
    return {
        "help.txt": on_command_line("--help"), **{f"help_{name}.txt": on_command_line(name, "--help") for name in offered},
        **{f"completion_{shell}.txt": on_command_line("completion", shell) for shell in ("bash", "zsh", "fish")},
        "cli_grad_stages.txt": on_command_line("grad", *program, "--stages"), "cli_trace_compact.txt": on_command_line("trace", *program, "--format", "compact"),
        "cli_export_json.txt": on_command_line("export", *program, "--to", "json"), "cli_check.txt": on_command_line("check", *program, "--order", "2"),
    }


def goldens() -> dict[str, str]:
    """Return the text of each golden file by its name."""
    primal = tg.trace(f, 2.0, 3.0)[1]
    gradient = tg.gradtape(f, 2.0, 3.0)
    wide = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    return {
        "primal.txt": str(primal),
        "triples.txt": str(tg.rewrite(primal)),
        "triples_compact.txt": tg.rewrite(primal).format("compact"),
        "gradient.txt": str(gradient),
        "gradient_compact.txt": gradient.format("compact"),
        "flat.txt": str(tg.primitivize(gradient)),
        "gradient_rich60.txt": on_console(gradient, 60),
        "gradient_rich80.txt": on_console(gradient, 80),
        "gradient_rich140.txt": on_console(gradient, 140),
        "gradient_ascii80.txt": on_console(gradient, 80, "ascii"),
        "wave.txt": str(wide),
        "wave_compact.txt": wide.format("compact"),
        "wave_width72.txt": wide.format(width=72),
        "wave_ascii60.txt": on_console(wide, 60, "ascii"),
        "wave_rich140.txt": on_console(wide, 140),
        "coverage_fft.txt": listing("fft").format(),
        **commands(),
    }


def main() -> None:
    """Write every golden file."""
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, text in goldens().items():
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
