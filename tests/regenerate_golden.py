"""Write the golden files anew: python -m tests.regenerate_golden, then look at what git diff says."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import tapegrad as tg
from tapegrad.show.coverage import listing
from tests.golden import debugged
from tests.golden.programs import f, wave

FOLDER = Path(__file__).parent / "golden"


def on_console(tape: Any, width: int, encoding: str = "utf-8", **options: Any) -> str:
    """Return what a terminal of this width and encoding shows, without the blanks that pad a table."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, legacy_windows=False, **options).print(tape)
    file.flush()
    return "\n".join(line.rstrip() for line in raw.getvalue().decode(encoding).splitlines())


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
        **debugged.texts(on_console),
    }


def main() -> None:
    """Write every golden file."""
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, text in goldens().items():
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
