"""Tables of results for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Column, Table

from bench.run import TOLERANCE, Result, Row


def facts(name: str, result: Result) -> Table:
    """What was computed: size, value, gradient norm, tape lengths."""
    table = Table.grid(padding=(0, 2))
    table.add_row("problem", f"[bold]{name}[/] {sized(result)}  ({result.source})")
    table.add_row("value", f"{result.value:.15g}")
    table.add_row("gradient norm", f"{result.norm:.15g}")
    table.add_row("tape length", ", ".join(f"{kind} {length:,}" for kind, length in result.tapes.items()))
    return table


def times(result: Result) -> Table:
    """One size: a row for what needs no gradient, then one for each peer."""
    table = _table("median ms", "min ms", "ratio", "diff")
    for row in result.rows:
        if row is result.gradients[0]:
            table.add_section()
        table.add_row(row.name, f"{row.median * 1e3:.3f}", f"{row.minimum * 1e3:.3f}", *_compared(row, result))
    for name in result.missing:
        table.add_row(name, "–", "–", "–", "–", style="dim")
    return table


def growth(results: Sequence[Result]) -> Table:
    """Several sizes: for each a row per peer, with microseconds per operation that a trace records."""
    table = _table("median ms", "min ms", "µs / op", "ratio", "diff")
    for result in results:
        table.add_section()
        table.add_row(f"[bold]{sized(result)}[/]", f"{result.operations:,} ops")
        for row in result.rows:
            table.add_row(f"  {row.name}", f"{row.median * 1e3:,.2f}", f"{row.minimum * 1e3:,.2f}",
                          f"{row.median / result.operations * 1e6:.2f}", *_compared(row, result))
        for name in result.missing:
            table.add_row(f"  {name}", "–", "–", "–", "–", "–", style="dim")
    return table


def notes(results: Sequence[Result]) -> list[RenderableType]:
    """Say which peers are missing, and where gradients differ."""
    lines: list[RenderableType] = []
    for result in results:
        lines += [f"[yellow]{name} not measured[/] at {sized(result)}: {why}" for name, why in result.missing.items()]
        reference = result.gradients[0].name
        lines += [f"[bold red]{row.name} differs[/] at {sized(result)}: {row.difference:.1e} > {TOLERANCE:.0e}, relative to {reference}"
                  for row in result.gradients if row.difference is not None and not row.difference <= TOLERANCE]
    return lines


def sized(result: Result) -> str:
    """`d=10 K=25 n=1000`."""
    return " ".join(f"{key}={value}" for key, value in result.size.items())


def _compared(row: Row, result: Result) -> tuple[str, str]:
    if row.difference is None:
        return "", ""
    ratio = row.median / result.best
    return f"{ratio:.2f}", "reference" if row is result.gradients[0] else f"{row.difference:.1e}"


def _table(*columns: str) -> Table:
    """Return a table of names and numbers. `ratio` is to the best median, `diff` the gradient's difference from the first."""
    numbers = [Column(header, justify="right", no_wrap=True) for header in columns]
    return Table(Column("", no_wrap=True), *numbers, box=box.SIMPLE_HEAD, pad_edge=False)
