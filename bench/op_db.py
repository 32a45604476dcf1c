"""op_db: how many of torch's own operator database tapegrad differentiates as torch.autograd does.

    python -m bench.op_db                          every differentiable op, its method and its in-place variant
    python -m bench.op_db svd nn.functional.conv2d --verbose
    python -m bench.op_db --limit 4 --json op_db.json

For each op that has a gradient in float64, the samples of torch's database are run as torch code through
`tapegrad.grad`: the value and the gradient by every floating tensor among the arguments must be those of
torch.autograd, and the caller's tensors untouched. The first samples are replayed as well, with the random numbers that
were drawn, from the tape of triples and from the flat tape. An op agrees if all its samples do.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import tapegrad as tg
from tapegrad.frontends.torch.torchop import mapped, tensors_in
from tapegrad.transforms.flat_gradient import flatgrad

LIMIT = 12  # samples of an op
REPLAYED = 2  # of which this many are replayed
VARIANTS = {"function": "op", "method": "method_variant", "in place": "inplace_variant"}


class LeftOut(Exception):
    """A sample that says nothing of tapegrad; its text says why."""


class Outcome(NamedTuple):
    """What became of one variant of an op."""

    name: str
    variant: str
    verdict: str  # "agrees", "differs", "raises", "left out"
    samples: int
    reason: str = ""


class Sample:
    """One call of the database: a function, its arguments, and which of their tensors it is differentiated by."""

    def __init__(self, fn: Callable[..., Any], given: Any, in_place: bool, process: Callable[..., Any]) -> None:
        self.fn, self.in_place, self.process = fn, in_place, process
        tensors = list(tensors_in(given))
        if not tensors:
            raise LeftOut("no tensor among the arguments")
        if any(x.layout is not torch.strided for x in tensors):
            raise LeftOut("sparse layouts")
        self.given = mapped(torch.Tensor.detach, given)
        self.marked = [x.requires_grad for x in tensors]
        self.wrt = [is_floating(x) for x in tensors]
        if not any(self.wrt):
            raise LeftOut("no floating tensor among the arguments")

    def copies(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the tensors to differentiate by, and the other floating ones by keyword, each in memory of its own."""
        xs, others = [], {}
        for i, (x, wanted) in enumerate(zip(tensors_in(self.given), self.wrt)):
            if wanted:
                xs.append(copy.deepcopy(x))
            elif is_floating(x):
                others[f"x{i}"] = copy.deepcopy(x)
        return xs, others

    def run(self, *xs: Any, **others: Any) -> Any:
        """Call the function with these in place of the floating tensors."""
        given, numbers = iter(xs), itertools.count()

        def put(x: Any) -> Any:
            i = next(numbers)
            return next(given) if self.wrt[i] else others[f"x{i}"] if is_floating(x) else copy.deepcopy(x)
        args, kwargs = mapped(put, self.given)
        if self.in_place:
            args = (args[0].clone(), *args[1:])
        y = self.fn(*args, **kwargs)
        if any(part.layout is not torch.strided for part in tensors_in(y)):
            raise LeftOut("a sparse result")
        y = self.process(y)
        return y if isinstance(y, torch.Tensor) else tuple(tensors_in(y))


def is_floating(x: Any) -> bool:
    return bool(x.is_floating_point() or x.is_complex())


CURRENT: list[Sample] = []  # what a traced function captures is an input of its tape, and a global is not


def program(*xs: Any, **others: Any) -> Any:
    return CURRENT[-1].run(*xs, **others)


class Reference(NamedTuple):
    """What torch.autograd says: the value, its cotangent, and the gradients."""

    value: Any
    seed: Any
    gradients: list[Any]


def reference(sample: Sample) -> Reference:
    """Run a sample on torch's own tape: by all floating tensors, or by those that the database marks where
    torch has no gradient by the others.
    """
    try:
        return by_autograd(sample)
    except (RuntimeError, NotImplementedError) as err:
        sample.wrt = [a and b for a, b in zip(sample.wrt, sample.marked)]
        if not any(sample.wrt):
            raise LeftOut(f"torch raises {first_line(err)}") from err
    try:
        return by_autograd(sample)
    except (RuntimeError, NotImplementedError) as err:
        raise LeftOut(f"torch raises {first_line(err)}") from err


def by_autograd(sample: Sample) -> Reference:
    xs, others = sample.copies()
    for x in xs:
        x.requires_grad_()
    torch.manual_seed(1)
    y = sample.run(*xs, **others)
    outs = [y] if isinstance(y, torch.Tensor) else list(y)
    seeds = [torch.randn(out.shape, dtype=out.dtype) if out.requires_grad else None for out in outs]
    flows = [(out, seed) for out, seed in zip(outs, seeds) if seed is not None]
    if not flows:
        raise LeftOut("the result has no gradient")
    found = torch.autograd.grad([out for out, _ in flows], xs, [seed for _, seed in flows], allow_unused=True)
    dxs = [torch.zeros_like(x) if dx is None else dx for x, dx in zip(xs, found)]
    return Reference(mapped(torch.Tensor.detach, y), seeds[0] if isinstance(y, torch.Tensor) else tuple(seeds), dxs)


def compare(found: Any, wanted: Reference, what: str) -> None:
    """Check a value and gradients; raise AssertionError."""
    value, (_, *dxs) = found
    for got, known in zip(tensors_in(value), tensors_in(wanted.value), strict=True):
        torch.testing.assert_close(got, known, equal_nan=True, msg=lambda text: f"{what}, value: {text}")
    for dx, known in zip(dxs, wanted.gradients, strict=True):
        torch.testing.assert_close(dx, known.resolve_conj(), equal_nan=True,
                                   msg=lambda text: f"{what}, gradient: {text}")


def check(sample: Sample, replayed: bool) -> None:
    """Compare what tapegrad makes of a sample with torch.autograd; raise AssertionError,
    LeftOut, or what tapegrad raised.
    """
    wanted = reference(sample)
    CURRENT.append(sample)
    try:
        xs, others = sample.copies()
        torch.manual_seed(1)
        compare(tg.grad(program, *xs, seed=wanted.seed, **others), wanted, "grad")
        for x, was in zip((xs, others), sample.copies()):
            torch.testing.assert_close(x, was, rtol=0, atol=0, equal_nan=True, msg="an argument was written to")
        if replayed:
            torch.manual_seed(1)
            triples = tg.gradtape(program, *xs, seed=wanted.seed, **others).check()
            compare(triples.play(*xs, redraw=False, **others), wanted, "triples")
            torch.manual_seed(1)
            flat = flatgrad(tg.trace(program, *xs, **others)[1], wanted.seed).check()
            compare(flat.play(*xs, redraw=False, **others), wanted, "flat")
    finally:
        CURRENT.pop()


def samples(op: Any, variant: str) -> Iterator[Sample | LeftOut]:
    """Yield the samples of a variant of an op; a LeftOut for one that says nothing."""
    fn = getattr(op, VARIANTS[variant])
    in_place = variant == "in place"
    for found in op.sample_inputs("cpu", torch.float64, requires_grad=True):
        if in_place and (found.broadcasts_input or not isinstance(found.input, torch.Tensor)):
            continue
        try:
            yield Sample(fn, ((found.input, *found.args), found.kwargs), in_place, found.output_process_fn_grad)
        except LeftOut as err:
            yield err


def checked(op: Any, variant: str, limit: int) -> Outcome:
    """Check the samples of a variant of an op, `limit` of them at most, spread over all."""
    name, reasons, count = op_name(op), Counter[str](), 0
    torch.manual_seed(0)
    found = list(samples(op, variant))
    for sample in found[::max(-(-len(found) // limit), 1)]:
        if isinstance(sample, LeftOut):
            reasons[str(sample)] += 1
            continue
        try:
            check(sample, replayed=count < REPLAYED)
        except LeftOut as err:
            reasons[str(err)] += 1
            continue
        except AssertionError as err:
            return Outcome(name, variant, "differs", count, str(err))
        except Exception as err:
            return Outcome(name, variant, "raises", count, f"{type(err).__name__}: {err}")
        count += 1
    return Outcome(name, variant, "agrees" if count else "left out", count,
                   "" if count else "; ".join(reasons) or "no samples")


def first_line(err: BaseException) -> str:
    return (str(err).splitlines() or [""])[0]


def op_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def ops(names: Sequence[str] = ()) -> list[Any]:
    """Return the differentiable ops of the database, those of these names if any are given."""
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds
    wanted = [op for op in op_db if op.supports_autograd and torch.float64 in op.dtypes]
    return [op for op in wanted if not names or op_name(op) in names or op.name in names]


def run(chosen: Sequence[Any], limit: int = LIMIT, console: Console | None = None) -> list[Outcome]:
    """Check all variants of some ops."""
    tasks = [(op, variant) for op in chosen for variant, field in VARIANTS.items() if getattr(op, field) is not None]
    bar = Progress(TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   console=console, transient=True)
    outcomes = []
    with bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at = bar.add_task("", total=len(tasks))
        for op, variant in tasks:
            bar.update(at, description=f"{op_name(op)}, {variant}")
            outcomes.append(checked(op, variant, limit))
            bar.advance(at)
    return outcomes


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return the counts, a row per variant."""
    made = Table("", "agree", "differ", "raise", "of", "share", "left out", title="torch's operator database, float64")
    for column in made.columns[1:]:
        column.justify = "right"
    for variant in VARIANTS:
        counts = Counter(found.verdict for found in outcomes if found.variant == variant)
        of = counts["agrees"] + counts["differs"] + counts["raises"]
        share = f"{counts['agrees'] / of:.1%}" if of else "–"
        made.add_row(variant, *(str(counts[verdict]) for verdict in ("agrees", "differs", "raises")), str(of), share,
                     str(counts["left out"]))
    return made


def remarks(outcomes: Sequence[Outcome], verbose: bool) -> Iterator[str]:
    """Say of each op that does not agree, or is left out, why."""
    for found in outcomes:
        if found.verdict != "agrees":
            reason = found.reason if verbose else found.reason.partition("\n")[0]
            yield f"{found.name}, {found.variant}: {found.verdict}: {reason}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 where a function disagrees."""
    parser = argparse.ArgumentParser(prog="python -m bench.op_db", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="ops of the database; all, if none are named")
    parser.add_argument("--limit", type=int, default=LIMIT, help=f"samples of an op at most (default {LIMIT})")
    parser.add_argument("--verbose", action="store_true", help="errors at length")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes to a file")
    options = parser.parse_args(argv)
    console = Console()
    chosen = ops(options.names)
    if not chosen:
        parser.error(f"the database has no differentiable op called {', '.join(options.names)}")
    torch.set_num_threads(1)
    outcomes = run(chosen, options.limit, console)
    for line in remarks(outcomes, options.verbose):
        console.print(line, markup=False, highlight=False)
    console.print(table(outcomes))
    console.print(f"at most {options.limit} samples of an op, the first {REPLAYED} replayed; torch {torch.__version__}",
                  style="dim")
    if options.json:
        options.json.write_text(json.dumps([found._asdict() for found in outcomes], indent=1) + "\n")
    return int(any(found.verdict in ("differs", "raises") for found in outcomes))


if __name__ == "__main__":
    sys.exit(main())
