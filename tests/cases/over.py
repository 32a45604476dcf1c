"""over: a test of every row of a table, several rows in one item."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

MOST = 8  # rows in an item


def over(rows: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for rows as pytest.mark.parametrize does: `pytest.param`s with ids, whose values are its first arguments.

    An item of pytest's takes more than a millisecond in all processes together, as long as many a check, so that an
    item has several rows, which its id names. Each of them is run, and the error names those that fail, each with its
    own. A row with marks is alone.
    """
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        rest = list(signature.parameters.values())[len(rows[0].values):]

        @functools.wraps(test)
        def run(rows: Sequence[Any], **fixtures: Any) -> None:
            failed: list[tuple[str, Exception]] = []
            for row in rows:
                try:
                    test(*row.values, **fixtures)
                except Exception as err:
                    failed.append((row.id, err))
            if failed:
                told = "\n".join(f"[{name}]\n{''.join(traceback.format_exception(err))}" for name, err in failed)
                names = ", ".join(name for name, _ in failed)
                raise AssertionError(f"{len(failed)} of {len(rows)} rows fail: {names}\n{told}")
        first = inspect.Parameter("rows", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = signature.replace(parameters=[first, *rest])  # type: ignore[attr-defined]
        items = [pytest.param(part, id=",".join(row.id for row in part), marks=part[0].marks) for part in _parts(rows)]
        return pytest.mark.parametrize("rows", items)(run)  # type: ignore[no-any-return]
    return decorate


def _parts(rows: Sequence[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    for row in rows:
        if part and (len(part) == MOST or row.marks or part[0].marks):
            yield part
            part = []
        part.append(row)
    if part:
        yield part
