"""Write the golden files anew: python -m tests.regenerate_golden, then look at what git diff says."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group

import tapegrad as tg
from bench import tables
from tapegrad.show.coverage import listing
from tests.golden import debugged
from tests.golden.programs import f, wave
from tests.golden.results import RESULTS

FOLDER = Path(__file__).parent / "golden"


def on_console(shown: Any, width: int, encoding: str = "utf-8", **options: Any) -> str:
    """Return what a terminal of this width and encoding shows, without the blanks that pad a table."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, legacy_windows=False, **options).print(shown)
    file.flush()
    return "\n".join(line.rstrip() for line in raw.getvalue().decode(encoding).splitlines())


def bench_tables() -> Group:
    """Return all that a benchmark prints of two problems."""
    return Group(*map(tables.problem, RESULTS), *tables.notes(RESULTS), tables.steady(RESULTS), tables.against(RESULTS), *tables.reasons(RESULTS),
                 tables.first(RESULTS),
                 tables.memory(RESULTS), tables.FOOTNOTE)


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
        "bench.txt": on_console(bench_tables(), 140),
        "coverage_fft.txt": listing("fft").format(),
        **debugged.texts(on_console),
    }


def pictures() -> dict[str, str]:
    """Return the golden pictures by name; README shows gradient.svg."""
    gradient = tg.gradtape(f, 2.0, 3.0)
    wide = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    drawn = {
        "primal.svg": tg.trace(f, 2.0, 3.0)[1].to_svg(),
        "gradient.svg": gradient.to_svg(),
        "gradient.dot": gradient.to_dot(),
        "flat.svg": tg.primitivize(gradient).to_svg(),
        "wave_lines.svg": wide.to_svg(group="line"),
        "wave.dot": wide.to_dot(),
    }
    return {name: text.removesuffix("\n") for name, text in drawn.items()}


def main() -> None:
    """Write every golden file."""
    for pattern in ("*.txt", "*.svg", "*.dot"):
        for old in FOLDER.glob(pattern):
            old.unlink()
    for name, text in (goldens() | pictures()).items():
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
