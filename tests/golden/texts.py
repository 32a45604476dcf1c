"""The texts of the golden files, and how they are written anew: `pytest --update-golden`, then look at what git diff says."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console, Group

import tapegrad as tg
from bench import tables
from tapegrad.cli.parser import COMMANDS
from tapegrad.cli.parser import main as main_of_cli
from tapegrad.show.coverage import listing
from tests.golden import debugged
from tests.golden.programs import branch, f, loss, network, steps, swing, wave
from tests.golden.results import RESULTS

FOLDER = Path(__file__).parent


def on_console(shown: Any, width: int, encoding: str = "utf-8", format: str = "table", group: str | None = None, **options: Any) -> str:
    """Return what a terminal of this width and encoding shows, without the blanks that pad a table."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(file=file, width=width, legacy_windows=False, **options)
    if isinstance(shown, tg.Tape):
        shown.show(format, group, console=console)
    else:
        console.print(shown)
    file.flush()
    return "\n".join(line.rstrip() for line in raw.getvalue().decode(encoding).splitlines())


def bench_tables() -> Group:
    """Return all that a benchmark prints of two problems."""
    return Group(*map(tables.problem, RESULTS), *tables.notes(RESULTS), tables.steady(RESULTS), tables.against(RESULTS), *tables.reasons(RESULTS),
                 tables.first(RESULTS),
                 tables.memory(RESULTS))


LAYERS = [(np.full((3, 2), 0.5), np.zeros(2)), (np.full((2, 1), 0.25), np.zeros(1))]


def views() -> dict[str, str]:
    """Return the texts of the views other than the table, each at two widths."""
    wide = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    flat = tg.primitivize(wide)
    calls = tg.trace(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)), ctx=tg.Context(paths=True))[1]
    nested = tg.gradtape(calls)
    functions = tg.trace(loss, LAYERS, np.ones((4, 3)), np.zeros((4, 1)))[1]
    long = tg.primitivize(tg.gradtape(steps, 0.5))
    branches = tg.trace(branch, 2.0)[1].diff(tg.trace(branch, -2.0)[1])
    found = {"tree": (calls, "tree", None), "tree_gradient": (nested, "tree", None), "tree_functions": (functions, "tree", None),
             "tree_line": (wide, "tree", "line"), "mirror": (wide, "mirror", None), "mirror_flat": (flat, "mirror", None),
             "mirror_call": (nested, "mirror", "call"), "compact_line": (wide, "compact", "line"), "table_call": (calls, "table", "call"),
             "summary": (long, "summary", None), "long_table": (long, "table", None), "long_tree": (long, "tree", None),
             "long_mirror": (long, "mirror", None)}
    texts = {f"{name}{width}.txt": on_console(tape, width, format=format, group=group)
             for name, (tape, format, group) in found.items() for width in (60, 100)}
    texts |= {f"{name}_ascii80.txt": on_console(*found[name][:1], 80, "ascii", *found[name][1:]) for name in ("tree_gradient", "mirror")}
    texts["mirror_colour80.txt"] = on_console(wide, 80, format="mirror", force_terminal=True, color_system="truecolor", no_color=False)
    for name, diff in {"diff": branches, "diff_flat": tg.trace(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0})[1].diff(flat)}.items():
        texts |= {f"{name}{width}.txt": on_console(diff, width) for width in (60, 100)} | {f"{name}.txt": str(diff)}
    return texts


def loops() -> dict[str, str]:
    """Return a tape with a loop, its gradient, and what has changed from one loop to another, at two widths."""
    rolled = tg.roll(tg.trace(swing, 0.5, -0.1)[1])
    gradient = tg.optimise(tg.flatgrad(rolled))
    shown = {"loop": rolled, "loop_gradient": gradient}
    texts = {f"{name}.txt": str(tape) for name, tape in shown.items()} | {f"{name}_compact80.txt": tape.format("compact", 80) for name, tape in shown.items()}
    texts |= {f"{name}_{format}{width}.txt": on_console(tape, width, format=format)
              for name, tape in shown.items() for format in ("table", "tree") for width in (80, 120)}
    return texts | {"loop_diff.txt": str(rolled.diff(tg.optimise(rolled))), "loop_mirror120.txt": on_console(gradient, 120, format="mirror"),
                    "loop_ascii80.txt": on_console(gradient, 80, "ascii", format="compact")}


def on_command_line(*argv: str) -> str:
    """Return what a command prints on a terminal of 80 characters."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.dict(os.environ, {"COLUMNS": "80"}):
        assert main_of_cli(argv) == 0
    return out.getvalue().rstrip("\n")


def commands() -> dict[str, str]:
    """Return what the help of each command says, what they print of a small program, and the scripts for shells."""
    offered = [command.name for command in COMMANDS]
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
        "gradient_steps.txt": gradient.format("steps"),
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
        "bench.txt": on_console(bench_tables(), 140),
        "coverage_fft.txt": listing("fft").format(),
        **debugged.texts(on_console),
        **views(),
        **loops(),
        **commands(),
    }


def pictures() -> dict[str, str]:
    """Return the golden pictures by name; README shows gradient.svg, network.svg and step.svg."""
    gradient = tg.gradtape(f, 2.0, 3.0)
    wide = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    drawn = {
        "primal.svg": tg.trace(f, 2.0, 3.0)[1].to_svg(),
        "gradient.svg": gradient.to_svg(),
        "gradient.dot": gradient.to_dot(),
        "flat.svg": tg.primitivize(gradient).to_svg(),
        "loop.dot": tg.roll(tg.trace(swing, 0.5, -0.1)[1]).to_dot(),
        "wave_lines.svg": wide.to_svg(group="line"),
        "wave.dot": wide.to_dot(),
        "network.svg": tg.gradtape(network, np.ones((4, 3)), np.ones((2, 4)), np.ones(3)).to_svg(),
        "step.svg": gradient.steps().to_svg(9),
    }
    return {name: text.removesuffix("\n") for name, text in drawn.items()}


def update(folder: Path = FOLDER) -> list[str]:
    """Write the golden files that are not as they were, remove those of no text any more, and return the names of both."""
    texts = goldens() | pictures()
    known = {path.name: path.read_text(encoding="utf-8") for pattern in ("*.txt", "*.svg", "*.dot") for path in folder.glob(pattern)}
    changed = [name for name in sorted(texts.keys() | known) if known.get(name) != texts.get(name, "") + "\n" or name not in texts]
    for name in changed:
        if name in texts:
            (folder / name).write_text(texts[name] + "\n", encoding="utf-8")
        else:
            (folder / name).unlink()
    return changed
