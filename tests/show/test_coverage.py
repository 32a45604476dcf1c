"""The map of coverage: every public name has its kind, what is refused says so, and nearly all that has a derivative is differentiable."""

from __future__ import annotations

import importlib
import io
import pkgutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import tapegrad as tg
from tapegrad.cli import main
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import CONSTANT, DISPATCH, PLAIN, RUN_AS_PYTHON, TRACED_THROUGH, Refusal
from tapegrad.show.coverage import KINDS, SPACES, entries, listing, overview
from tapegrad.show.styles import STYLES
from tapegrad.testing import check_grads
from tapegrad.trace.lazy_frontends import register_imported

for _name in ("integrate", "optimize", "sparse.linalg"):  # some of theirs is refused
    importlib.import_module(f"scipy.{_name}")
register_imported()

COMPLETE = ["numpy", "linalg", "fft", "ndarray", "math", "scipy.sparse"]  # of SciPy's, what is registered nowhere is called unknown
# torch's refusals, which are there once torch is imported, are tested in tests/torch
REFUSED = {fn: meaning for fn, meaning in DISPATCH.items() if isinstance(meaning, Refusal) and not meaning.name.startswith("torch.")}
TWO = ["np.busday_count", "np.busday_offset", "np.intersect1d", "np.may_share_memory", "np.shares_memory"]
TO_A_FILE = ["np.save", "np.savetxt", "np.savez", "np.savez_compressed"]


@pytest.mark.parametrize("space", COMPLETE)
def test_every_public_name_is_classified(space: str) -> None:
    assert [entry.name for entry in entries(space) if entry.kind == "unknown"] == []


@pytest.mark.parametrize("space", COMPLETE)
def test_nearly_all_that_has_a_derivative_is_differentiable(space: str) -> None:
    """What has a derivative: what is differentiable, be it an op or a composite, and what is refused though it has one."""
    found = entries(space)
    whole = [entry for entry in found if entry.kind in ("differentiable", "composite", "traced") or
             (entry.kind == "refused" and DISPATCH[getattr(pkgutil.resolve_name(SPACES[space]), entry.name)].derivative)]
    assert whole == [entry for entry in found if entry.derivative]
    assert sum(entry.covered for entry in whole) >= 0.9 * len(whole)


@pytest.mark.parametrize("fn", REFUSED, ids=[refusal.name for refusal in REFUSED.values()])
def test_what_is_refused_says_its_name_the_reason_and_what_to_do(fn: Any) -> None:
    refusal = REFUSED[fn]

    def call(x: Any) -> Any:
        if hasattr(fn, "__objclass__"):
            return getattr(x, fn.__name__)()
        if isinstance(fn, np.ufunc):
            return fn(*[x] * fn.nin)
        return fn("nowhere", x) if refusal.name in TO_A_FILE else fn(x, x) if refusal.name in TWO else fn(x)
    with pytest.raises(tg.UnknownFunction) as caught:
        tg.trace(call, np.ones(3))
    assert caught.value.what == f"{refusal.name} cannot be recorded: {refusal.why}"
    assert caught.value.try_ == refusal.try_ != "" and caught.value.where is not None and caught.value.where.file == __file__


def test_a_refused_function_can_be_given_a_rule() -> None:
    with pytest.raises(tg.UnknownFunction):
        tg.grad(lambda x: np.intersect1d(x, x).sum(), np.ones(2))
    ctx = tg.Context(primitives=[np.intersect1d])
    assert tg.trace(lambda x: np.intersect1d(x, x), np.ones(2), ctx=ctx)[1].result.fn.__name__ == "intersect1d"


def test_each_function_is_in_one_table() -> None:
    known = {fn for fn, meaning in DISPATCH.items() if isinstance(meaning, (Op, Refusal))}
    assert not known & CONSTANT
    assert not (known | CONSTANT | set(DISPATCH)) & set(PLAIN)
    assert not (known | CONSTANT | set(DISPATCH) | set(PLAIN)) & (TRACED_THROUGH | RUN_AS_PYTHON)
    assert all(PLAIN.values())


@pytest.mark.parametrize(("f", "x"), [
    (lambda x: np.fft.fftfreq(4, x) @ np.arange(4.0), 2.0), (lambda x: np.fft.rfftfreq(4, x) @ np.arange(3.0), 2.0),
    (lambda x: np.fromfunction(lambda i, k: i * x + k, (2, 3)).sum(), 2.0), (lambda x: np.poly1d(x)(3.0), np.array([1.0, 2.0])),
    (lambda x: np.vectorize(lambda v: v * v)(x).sum(), np.array([1.0, 2.0])),
    (lambda x: sum(v * v for _, v in np.ndenumerate(x)), np.array([1.0, 2.0])),
])
def test_python_code_is_traced_through(f: Callable[..., Any], x: Any) -> None:
    check_grads(f, x)


def _flows(meaning: Callable[..., Any], apply: Callable[..., Any], x: Any) -> bool | None:
    """Return whether a gradient flows through what a function means; None if it cannot be called so."""
    def call(x: Any) -> Any:
        y = apply(meaning, x)
        parts = [part for part in (y if isinstance(y, tuple) else (y,)) if isinstance(part, Traced)]
        return sum((np.sum(np.abs(part)) for part in parts), 0.0 * np.sum(x))
    try:
        return bool(np.any(tg.gradient(call, x)[0]))
    except (TypeError, ValueError):  # another number of arguments, other arguments
        return None


@pytest.mark.parametrize("space", COMPLETE)
def test_no_gradient_flows_through_what_is_constant(space: str) -> None:
    values = [getattr(pkgutil.resolve_name(SPACES[space]), entry.name) for entry in entries(space)]
    meanings = [DISPATCH[value] for value in values if value in CONSTANT and value in DISPATCH]
    numbers = 2.5 if space == "math" else np.array([[2.0, 1.0], [1.0, 3.0]])
    row = numbers if space == "math" else np.array([1.0, 2.0])
    calls = [(lambda fn, x: fn(x), numbers), (lambda fn, x: fn(x, x), row), (lambda fn, x: fn(x, 1), numbers)]
    flows = {meaning: [_flows(meaning, apply, x) for apply, x in calls] for meaning in meanings}
    assert not [meaning for meaning, found in flows.items() if True in found]
    assert len([meaning for meaning, found in flows.items() if not any(f is False for f in found)]) <= 5  # nearly all are called


def test_a_gradient_that_flows_is_seen() -> None:
    assert _flows(DISPATCH[np.sort], lambda fn, x: fn(x), np.eye(2)) is True


# -- what is shown


def test_the_overview_counts_the_listings() -> None:
    sheet = overview()
    table = {cells[0]: dict(zip(sheet.header[1:], cells[1:])) for _, cells in sheet.rows}
    assert tuple(table) == (*SPACES, "all") and sheet.header == ("", "covered", "of", *KINDS)
    for space in SPACES:
        kinds = Counter(kind for kind, _ in listing(space).rows)
        assert {kind: int(table[space][kind]) for kind in KINDS} == {kind: kinds[kind] for kind in KINDS}
    assert int(table["all"]["traced"]) == sum(int(table[space]["traced"]) for space in SPACES)
    assert table["math"]["covered"] == "100%" and int(table["scipy.stats"]["traced"]) > 100


@pytest.mark.parametrize(("space", "name", "kind", "note"), [
    ("numpy", "sin", "differentiable", "op sin"), ("numpy", "var", "composite", ""), ("numpy", "zeros", "constructor", ""),
    ("numpy", "zeros_like", "constructor", ""), ("numpy", "asarray", "composite", ""), ("numpy", "floor", "non-differentiable", "op floor"),
    ("numpy", "allclose", "non-differentiable", ""), ("numpy", "seterr", "plain", "settings and text"),
    ("numpy", "histogram", "composite", ""),
    ("numpy", "float32", "plain", "a type of numbers, which needs a plain number: a traced one raises, or is guarded"),
    ("ndarray", "shape", "non-differentiable", "a plain value"), ("math", "floor", "non-differentiable", "a plain value"),
    ("ndarray", "byteswap", "refused", "it reinterprets the bytes of numbers; try: x.astype(dtype)"),
    ("math", "lgamma", "differentiable", "op gammaln"), ("linalg", "matrix_rank", "non-differentiable", ""),
    ("scipy.special", "airy", "composite", ""), ("scipy.linalg", "expm", "composite", ""),
])
def test_kinds(space: str, name: str, kind: str, note: str) -> None:
    assert [(entry.kind, entry.note) for entry in entries(space) if entry.name == name] == [(kind, note)]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "fft"]) == 0
    assert capsys.readouterr().out == listing("fft").format() + "\n"
    assert main(["coverage"]) == 0
    assert capsys.readouterr().out == overview().format() + "\n"
    assert main(["coverage", "--format", "table", "linalg"]) == 0
    assert "matrix_rank" in capsys.readouterr().out
    assert main(["coverage", "torch"]) == 2
    assert "invalid choice: 'torch'" in capsys.readouterr().err
    assert main(["coverage", "--help"]) == 0
    assert "refused             raises, and says why" in capsys.readouterr().out


@pytest.mark.parametrize("space", [None, *SPACES])
def test_text_is_ascii_and_fits(space: str | None) -> None:
    sheet = listing(space) if space else overview()
    text = sheet.format()
    assert text.isascii() and all(line == line.rstrip() != "" for line in text.split("\n"))
    assert all(len(line) <= 60 for line in sheet.format(60).split("\n"))
    assert set(KINDS) <= set(STYLES) and {style for style, _ in sheet.rows} <= set(STYLES)


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_every_number(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(overview())
    shown = [line.split() for line in console.export_text().splitlines()]
    for _, cells in overview().rows:
        assert list(cells) in shown
