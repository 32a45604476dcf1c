"""Tables of results for the terminal: one for each problem, and those of all problems, with a row for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.table import Column, Table

from bench.peers import PEERS
from bench.problems.problem import Size
from bench.run import Result, Row

COMPILED, HAND, NATIVE = "tapegrad compiled", "handwritten", "c++"
HEADERS = {HAND: "hand", "torch.compile": "torch compile", "tapegrad grad": "tg grad", "tapegrad replay": "tg replay",
           "tapegrad flat replay": "tg flat", COMPILED: "tg compiled", "tapegrad value_and_grad": "tg v&g",
           "tapegrad numpy": "tg numpy"}
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def problem(result: Result) -> Table:
    """One problem: a row for each peer."""
    table = blank(result.problem, "median", "min", "ratio", "first call", "ratio", "MB first", "MB later", "diff")
    for row in result.rows:
        if row.missing:
            table.add_row(row.name, *8 * ["–"], style="dim")
            continue
        table.add_row(row.name, duration(row.median), duration(row.minimum), ratio(result.time(row), result.best),
                      duration(row.first),
                      ratio(row.first, result.best_first), megabytes(row.peak), megabytes(row.peak_next),
                      "reference" if row is result.measured[0] else f"{row.difference:.1e}")
    return table


def steady(results: Sequence[Result]) -> Table:
    """Times of the steady state as ratios to the best peer, and those of the compiled tape to the gradients by hand."""
    def ends(result: Result) -> tuple[str, ...]:
        return (*(to_compiled(result, result.row(name)) for name in (HAND, NATIVE)), duration(result.best))
    return summary(f"steady state by {results[0].by}, ratio to the best", results, Result.time, ratio,
                   ("compiled / hand", "compiled / c++", "best"), ends)


def first(results: Sequence[Result]) -> Table:
    """Times from nothing to the first gradient as ratios to the best peer."""
    return summary("first call, ratio to the best", results, lambda _, row: row.first, ratio, ("best",),
                   lambda result: (duration(result.best_first),))


def memory(results: Sequence[Result]) -> Table:
    """Megabytes at the peak of gradients after the first one."""
    return summary("peak memory in MB, after the first call", results, lambda _, row: row.peak_next,
                   lambda peak, _: megabytes(peak))


def against(results: Sequence[Result]) -> Table:
    """The compiled tape's time as a ratio to each peer's that is not tapegrad: above 1 it is behind."""
    names = [name for name in peers(results) if not name.startswith("tapegrad")]
    table = blank("tapegrad compiled, ratio to", *(HEADERS.get(name, name) for name in names))
    for result in results:
        if result.row(COMPILED) is not None:
            table.add_row(result.problem, *(to_compiled(result, result.row(name)) for name in names))
    return table


def reasons(results: Sequence[Result]) -> list[str]:
    """Say where the compiled tape is behind a peer, and why."""
    lines = []
    for result in results:
        if (compiled := result.row(COMPILED)) is not None:
            times = {row.name: result.time(row) for row in result.measured if not row.name.startswith("tapegrad")}
            if ahead := [name for name, time in times.items() if time < result.time(compiled)]:
                lines.append(f"{result.problem}, behind {', '.join(ahead)}: {result.behind or 'not explained yet'}")
    return lines


def summary(title: str, results: Sequence[Result], key: Callable[[Result, Row], float],
            show: Callable[[float, float], str],
            last: tuple[str, ...] = (), ends: Callable[[Result], tuple[str, ...]] = lambda result: ()) -> Table:
    """A row for each problem and a column for each peer: `show(key, the best key)`, the best one marked."""
    names = peers(results)
    table = blank(title, *(HEADERS.get(name, name) for name in names), *last)
    for result in results:
        best = min(key(result, row) for row in result.measured)
        cells = []
        for name in names:
            row = result.row(name)
            text = "–" if row is None else show(key(result, row), best)
            cells.append(f"[bold green]{text}[/]" if row is not None and key(result, row) == best else text)
        table.add_row(result.problem, *cells, *ends(result))
    return table


def notes(results: Iterable[Result]) -> list[str]:
    """Say which peers are missing, and whose gradient is wrong."""
    lines = []
    for result in results:
        lines += [f"[yellow]{result.problem}, {row.name}[/]: {row.missing}" for row in result.rows if row.missing]
        lines += [f"[bold red]{result.problem}, {row.name} differs[/] by {row.difference:.1e} > "
                  f"{result.tolerance:.0e}, "
                  f"relative to {result.measured[0].name}" for row in result.wrong]
    return lines


def peers(results: Iterable[Result]) -> list[str]:
    """Return the names of all peers that take part, in their order."""
    taking_part = {row.name for result in results for row in result.rows}
    return [name for name in PEERS if name in taking_part]


def to_compiled(result: Result, row: Row | None) -> str:
    """The compiled tape's ratio to a peer."""
    compiled = result.row(COMPILED)
    return ratio(result.time(compiled), result.time(row)) if compiled is not None and row is not None else "–"


def sized(size: Size) -> str:
    """`d=10 K=25 n=1000`."""
    return " ".join(f"{key}={value}" for key, value in size.items())


def duration(seconds: float) -> str:
    """`1.23 ms`: three digits."""
    factor, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{three(seconds / factor)} {unit}"


def ratio(number: float, best: float) -> str:
    """`1.23`, `12.3`, `123`, `1,230`."""
    return three(number / best)


def megabytes(number: float) -> str:
    """Bytes as megabytes."""
    return "–" if math.isnan(number) else three(max(number, 0.0) / 1e6)


def three(number: float) -> str:
    """Three digits, more before the point, three after it at most."""
    return (f"{number:.3f}" if 0 < number < 0.0995 else f"{number:.2f}" if number < 9.995 else f"{number:.1f}"
            if number < 99.95 else f"{number:,.0f}")


def blank(title: str, *columns: str) -> Table:
    """Return a table of names and numbers; a header breaks between words, never within one."""
    numbers = [Column(header, justify="right", min_width=max(map(len, header.split()))) for header in columns]
    return Table(Column("", no_wrap=True), *numbers, title=title, title_justify="left", title_style="bold",
                 box=box.SIMPLE_HEAD, pad_edge=False)
