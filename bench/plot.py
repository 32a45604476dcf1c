"""A picture of results, as SVG: for each problem the peers' times as ratios to C++, or to the best where there is none.

    python -m bench.plot FILE.svg [FOLDER]        of the records that are kept, in bench/results or a folder
    python -m bench.plot FILE.svg RECORD.json     of a run of bench/gpu.py
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.peers import PEERS
from bench.problems import ALL
from bench.tables import HEADERS, NATIVE, three

COLOURS = {NATIVE: "#000000", "handwritten": "#8c564b", "autograd": "#7f7f7f", "torch": "#e8a33d",
           "torch.compile": "#b5651d", "jax": "#9ecae1", "jax scan": "#2f7fc1", "tapegrad grad": "#f7b6d2",
           "tapegrad compiled": "#d62728", "tapegrad value_and_grad": "#8b0000", "tapegrad numpy": "#2ca02c",
           "torch.compile reduce-overhead": "#d9a066", "tapegrad eager": "#f7b6d2", "tapegrad graph": "#d62728",
           "tapegrad inductor": "#8b0000"}
LEFT, RIGHT, LINE, TOP = 190, 40, 22, 78
WIDTH = 1000


def plot(records: Sequence[dict[str, Any]]) -> str:
    """Return the SVG of some records: a line for each problem, a dot for each peer, on a logarithmic axis."""
    rows = [(record["problem"], *ratios(record)) for record in records]
    rows = [row for row in rows if row[1]]
    there = {name: None for _, found, _ in rows for name in found}
    names = [*(name for name in PEERS if name in there), *(name for name in there if name not in PEERS)]
    every = [ratio for _, found, _ in rows for ratio in found.values()]
    low, high = math.floor(math.log10(min(every, default=1.0))), math.ceil(math.log10(max(every, default=10.0)))
    high = max(high, low + 1)

    def across(ratio: float) -> float:
        return LEFT + (math.log10(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    bottom = TOP + LINE * len(rows)
    unit = "C++ (*: to the best peer)" if NATIVE in there else "the best peer"
    by = "minimum" if records and records[0]["by"] == "minimum" else "median"
    parts = [text(12, 22, f"time of a gradient ({by}), ratio to {unit}", size=14)]
    for number, name in enumerate(names):
        x, y = 16 + number % 5 * 196, 42 + number // 5 * 14
        parts += [dot(x, y - 4, name), text(x + 9, y, HEADERS.get(name, name))]
    for power in range(low, high + 1):
        x = across(10.0 ** power)
        parts += [line(x, TOP - 4, x, bottom, "#999999" if power == 0 else "#dddddd"),
                  text(x, bottom + 16, f"{10.0 ** power:g}", anchor="middle")]
    for number, (problem, found, to_native) in enumerate(rows):
        y = TOP + LINE * (number + 0.5)
        parts += [line(LEFT, y, WIDTH - RIGHT, y, "#eeeeee"),
                  text(LEFT - 10, y + 4, problem + (" *" if NATIVE in there and not to_native else ""), anchor="end")]
        parts += [dot(across(ratio), y, name, f"{problem}, {name}: {three(ratio)}") for name, ratio in found.items()]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 28}" '
                      'font-family="sans-serif">', '<rect width="100%" height="100%" fill="white"/>', *parts,
                      "</svg>", ""])


def ratios(record: dict[str, Any]) -> tuple[dict[str, float], bool]:
    """Return the peers' times as ratios, and whether they are to C++."""
    times = {row["name"]: row[record["by"]] for row in record["rows"] if row.get(record["by"])}
    unit = times.get(NATIVE) or min(times.values(), default=1.0)
    return {name: time / unit for name, time in times.items()}, NATIVE in times


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
    """Write some words."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x: float, y: float, x2: float, y2: float, colour: str) -> str:
    """Draw a line."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def dot(x: float, y: float, name: str, title: str = "") -> str:
    """Draw a peer's dot."""
    told, colour = f"<title>{escape(title)}</title>" if title else "", COLOURS.get(name, "#17becf")
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.85">{told}</circle>'


def kept(folder: Path) -> list[dict[str, Any]]:
    """Return the records of problems in a folder, in their order."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    of = {record["problem"]: record for record in found if isinstance(record, dict) and "by" in record}
    order = sorted(ALL, key=lambda name: list(ALL).index(name.partition(" (")[0]))  # the forms beside their problem
    return [of[name] for name in order if name in of]


def on_gpu(path: Path) -> list[dict[str, Any]]:
    """Return the records of a run of bench/gpu.py, one for each problem and precision that was measured."""
    records: dict[str, dict[str, Any]] = {}
    for row in json.loads(path.read_text())["rows"]:
        problem = f"{row['problem']}, {row['precision']}"
        record = records.setdefault(problem, {"problem": problem, "by": "median", "rows": []})
        record["rows"].append({"name": row["peer"], "median": row["seconds"]})
    return list(records.values())


if __name__ == "__main__":
    source = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent / "results"
    Path(sys.argv[1]).write_text(plot(on_gpu(source) if source.suffix == ".json" else kept(source)))
