"""The table of a sweep: for each size a row per peer, with microseconds per operation that a trace records."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from bench.sweep import Step
from bench.tables import blank, sized


def growth(steps: Sequence[Step]) -> Table:
    """Ratios are to the best gradient of a size, differences from its first one."""
    table = blank("", "median ms", "min ms", "µs / op", "ratio", "diff")
    for step in steps:
        table.add_section()
        table.add_row(f"[bold]{sized(step.size)}[/]", f"{step.operations:,} ops")
        for row in step.rows:
            if row.missing:
                table.add_row(f"  {row.name}", "–", "–", "–", "–", "–", style="dim")
                continue
            compared = "", ""
            if not math.isnan(row.difference):
                compared = (f"{row.median / step.best:.2f}",
                            "reference" if row is step.gradients[0] else f"{row.difference:.1e}")
            table.add_row(f"  {row.name}", f"{row.median * 1e3:,.2f}", f"{row.minimum * 1e3:,.2f}",
                          f"{row.median / step.operations * 1e6:.2f}", *compared)
    return table


def remarks(steps: Sequence[Step]) -> list[str]:
    """Say which peers are missing, and whose gradient is wrong."""
    lines = []
    for step in steps:
        lines += [f"[yellow]{row.name} not measured[/] at {sized(step.size)}: {row.missing}" for row in step.rows
                  if row.missing]
        lines += [f"[bold red]{row.name} differs[/] at {sized(step.size)}: {row.difference:.1e} > "
                  f"{step.tolerance:.0e}, "
                  f"relative to {step.gradients[0].name}" for row in step.wrong]
    return lines
