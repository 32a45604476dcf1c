"""table: the modes that each case of the table of ops goes through, and with which of its samples."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.compile import memo
from tapegrad.compile.native import rows as native_rows
from tapegrad.compile.native import values as native_values
from tapegrad.errors import MissingRule
from tapegrad.rules.op import Op
from tapegrad.rules.types import spec_of_call
from tapegrad.store.read import from_bytes
from tapegrad.store.write import to_bytes
from tapegrad.tape.spec import NOTHING
from tapegrad.tape.tape import Call, Tape, has_value
from tapegrad.testing import check_grads, contract, weights
from tapegrad.trace import value_retention
from tapegrad.transforms import value_dropping
from tapegrad.transforms.taylor import coefficients
from tapegrad.tree.flatten import flatten, leaves_of
from tests.cases import chosen
from tests.cases.case import Case
from tests.harness import facts
from tests.harness.compare import assert_close, same, same_spec
from tests.harness.on_device import on_device
from tests.harness.on_torch import on_tensors, on_torch, tape_on_torch
from tests.harness.run import bare
from tests.harness.sample import (
    Sample,
    as_tape_has_it,
    direction,
    draws,
    is_inexact,
    is_narrow,
    kept,
    moved,
    optimised,
    paired,
)

STANDS_ASIDE = "that NumPy's warnings are errors"  # as they are in these tests: then no tape serves that lacks a call which may warn


# -- values and derivatives, against NumPy, central differences, torch, and one another


def value_and_gradient(sample: Sample) -> None:
    """The traced value is NumPy's, each tape replays, and the gradient is that of central differences."""
    (value, tape), loose = sample.traced, sample.rounding
    for a, b, c in zip(leaves_of(value), leaves_of(sample.plain), leaves_of(tape.check().play(*sample.fresh())), strict=True):
        assert_close(a, b, loose, loose)
        assert_close(c, b, max(loose, 1e-15), loose)  # where the program called math's function, the replay calls NumPy's
        assert isinstance(a, type(b)) and np.shape(a) == np.shape(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
    for op in tape:
        if type(op) is Call and type(op.fn) is Op:
            made = spec_of_call(op.fn, op.args, op.kwargs)  # of a Python number the program may have called math's function
            assert made is NOTHING or same_spec(made, op.spec) or (op.fn.scalar is not None and issubclass(made.type, op.spec.type)), (op, op.spec.strides, made)
    if sample.is_differentiable:
        check_grads(sample.fn, *sample.fresh())
        same(sample.written.play(*sample.fresh()), sample.gradient, 1e-12, 1e-14)
        same(sample.flat.play(*sample.fresh()), sample.gradient, 1e-12, 1e-14)
        for x, dx in zip(sample.args, sample.gradient[1][1:]):
            if is_inexact(x):
                assert isinstance(dx, type(x)) and np.shape(dx) == np.shape(x) and getattr(dx, "dtype", None) == getattr(x, "dtype", None)


def second_order(sample: Sample) -> None:
    """The gradient of a number that weighs the gradient is, in a direction, the central difference of that number."""
    if not (sample.smooth and sample.is_differentiable):
        return

    def of_gradient(*xs: Any, f: Any = sample.loss) -> Any:
        return contract(list(tg.grad(f, *xs)[1][1:]), start=100)
    ways = [direction(x, 7 + i) for i, x in enumerate(sample.args)]
    try:
        second = tg.grad(of_gradient, *sample.fresh())[1][1:]
    except MissingRule as err:
        assert "has no derivative by a complex argument" in str(err) and any(map(np.iscomplexobj, sample.args))
        return
    found = [paired(way, dx) for way, dx in zip(ways, second)]
    there, back = (float(of_gradient(*[moved(x, way, step) for x, way in zip(sample.fresh(), ways)])) for step in (1e-5, -1e-5))
    assert sum(found) == pytest.approx((there - back) / 2e-5, rel=1e-4, abs=1e-5 * max(1.0, *map(abs, found)))


def along(y: Any, tangent: Any) -> float:
    """Return what `contract` makes of the tangent of a value: its real and complex numbers, weighted."""
    total = 0.0
    leaves: list[Any] = []
    structure = flatten(y, "", leaves, [], shared=False)
    for number, (leaf, t) in enumerate(zip(leaves, structure.unmirror(tangent), strict=True)):
        if is_inexact(leaf):
            assert np.shape(t) == np.shape(leaf)
            assert getattr(t, "dtype", None) == getattr(leaf, "dtype", None)
            w, iw = weights(number, np.shape(leaf))
            total += float((np.real(t) * w).sum() + (np.imag(t) * iw).sum())
    return total


def tangent(sample: Sample) -> None:
    """<jvp, w> is <v, vjp>, for a direction v and the weights w of the loss, and the difference along v; a forward tape plays it."""
    ways = tuple(direction(x, i) for i, x in enumerate(sample.args))
    y, t = tg.jvp(sample.fn, tuple(sample.fresh()), ways)
    if not any(map(is_inexact, leaves_of(y))):
        return
    forward, narrow = along(y, t), is_narrow(sample.args, y)
    reverse = paired(ways, sample.gradient[1][1:] if len(sample.args) else ())
    assert forward == pytest.approx(reverse, rel=1e-6 if narrow else 1e-10, abs=1e-6 if narrow else 1e-10)
    if not narrow:
        there, back = (float(contract(sample.fn(*[moved(x, way, step) for x, way in zip(sample.fresh(), ways)]))) for step in (1e-6, -1e-6))
        assert forward == pytest.approx((there - back) / 2e-6, rel=1e-5, abs=1e-5)
    played = sample.forward.play(*sample.fresh(), *map(as_tape_has_it, sample.args, ways))
    for a, b in zip(leaves_of(played), leaves_of((y, t)), strict=True):
        assert_close(a, b, *(1e-6, 1e-6) if narrow else (1e-12, 1e-12))


def parts(y: Any) -> list[Any]:
    """Return the leaves of a value, those that occur twice each time."""
    leaves: list[Any] = []
    flatten(y, "", leaves, [], shared=False)
    return leaves


def taylor(sample: Sample) -> None:
    """Taylor coefficients are tangents of tangents."""
    v = tuple(direction(x, i) for i, x in enumerate(sample.args))
    if not sample.smooth or all(t is None for t in v) or not any(map(is_inexact, leaves_of(sample.args))):
        return
    def along_v(*xs: Any, f: Any = sample.fn) -> Any:
        return tg.jvp(f, xs, v)
    try:
        (y, first), (_, second) = tg.jvp(along_v, sample.args, v)
    except MissingRule:
        with pytest.raises(MissingRule):
            coefficients(sample.fn, sample.args, 2, v)
        return
    if not any(map(is_inexact, parts(y))):
        return
    loose = 1e-3 if is_narrow(sample.args) else 1e-8
    made = coefficients(sample.fn, sample.args, 2, v)
    for factorial, c, t in zip((1, 1, 2), made, (y, first, second), strict=True):
        for x, a, b in zip(parts(made[0]), parts(c), parts(t), strict=True):
            if is_inexact(x):
                assert np.shape(a) == np.shape(x)
                np.testing.assert_allclose(np.asarray(a) * factorial, b, max(1e-7, loose), max(1.0, float(np.max(np.abs(b), initial=0.0))) * loose)


def float32(sample: Sample) -> None:
    """Gradients of single precision arrays are such arrays."""
    if not sample.is_differentiable:
        return
    narrow = [x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == float else x for x in sample.fresh()]
    if any(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in narrow):
        for dx, x, expected in zip(tg.grad(sample.loss, *narrow)[1][1:], narrow, sample.gradient[1][1:]):
            if isinstance(x, np.ndarray) and x.dtype == np.float32:
                assert dx.dtype == np.float32 and dx.shape == x.shape
                np.testing.assert_allclose(dx, expected, 2e-3, 2e-4)


def floats(args: tuple[Any, ...]) -> list[int]:
    """Return the positions of the real floating arguments."""
    return [i for i, x in enumerate(args) if isinstance(x, (float, np.floating)) or getattr(getattr(x, "dtype", None), "kind", "") == "f"]


def torchs_own(case: Case, sample: Sample) -> None:
    """The gradient is torch's, of the same function of torch's."""
    which = floats(sample.args)
    if case.torch is None or not which or not sample.is_differentiable:
        return
    tensors = [torch.tensor(np.ascontiguousarray(x) if np.ndim(x) else x, dtype=torch.float64, requires_grad=True) if i in which else x
               for i, x in enumerate(sample.args)]
    total = torch.zeros(())
    for number, out in enumerate(leaves_of(case.torch(*tensors))):
        if out.is_floating_point():
            total = total + (out * torch.tensor(np.random.default_rng(number).uniform(0.5, 1.5, tuple(out.shape)))).sum()
    for i, dx in zip(which, torch.autograd.grad(total, [tensors[i] for i in which], allow_unused=True)):
        np.testing.assert_allclose(sample.gradient[1][1 + i], 0.0 if dx is None else dx.numpy(), 1e-9, 1e-12)


def sparsity(sample: Sample) -> None:
    """A pattern names all that is not 0 in the derivative, a column of which is the tangent of one number."""
    still = [as_tape_has_it(x, direction(x, 0, 0.0)) for x in sample.args]
    for i, x in enumerate(sample.args):
        if i not in floats(sample.args) or np.size(x) > 60:
            continue
        columns = []
        for k in range(np.size(x)):
            unit = np.zeros(np.size(x), np.asarray(x).dtype)
            unit[k] = 1
            unit = unit.reshape(np.shape(x))
            ways = [*still[:i], unit if isinstance(x, np.ndarray) else type(x)(unit), *still[i + 1:]]
            y, t = sample.forward.play(*sample.fresh(), *ways, redraw=False)  # which "tangent" compares with jvp
            leaves: list[Any] = []
            structure = flatten(y, "", leaves, [], shared=False)
            sizes = [(leaf, part) for leaf, part in zip(leaves, structure.unmirror(t)) if np.asarray(leaf).dtype.kind != "b"]
            columns.append(np.concatenate([np.zeros(0), *[np.zeros(np.size(leaf)) if part is None else np.abs(part).ravel() for leaf, part in sizes]]))
        found = np.array(columns).T.reshape(-1, np.size(x)) if columns else np.zeros(0)
        if found.size:
            pattern = tg.jacobian_sparsity(sample.fn, *sample.args, argnums=i).toarray()
            assert pattern.shape == found.shape
            assert not np.any((found > 1e-12 * np.nanmax(found)) & ~pattern)  # of what a Fourier transform makes some are 0 but for rounding


# -- optimised, compiled, exported, saved


def served(f: Any, args: list[Any], expected: Any, **how: Any) -> None:
    """A compiled function serves all its calls by one trace: into fresh memory, then into what the last call left."""
    memo.kept.clear()  # of the same function, another sample's, it would be the one that there is
    step = tg.value_and_grad(f, argnums=None, **how)
    for _ in range(3):
        same(step(*map(kept, args)), expected)
    assert step.stats.traces == 1 or step.stats.guards[STANDS_ASIDE]  # type: ignore[attr-defined]


def compiled(sample: Sample) -> None:
    """A compiled function, by what its calls read, and how two traces compare."""
    if sample.is_differentiable:
        served(sample.loss, sample.fresh(), sample.gradient)
    elif not draws(sample):
        fast = tg.compile(sample.fn)
        for _ in range(2):
            same(fast(*sample.fresh()), sample.plain)


def compiled_tape(sample: Sample) -> None:
    """The optimised tape of the gradient, or of the value where there is none, played and compiled."""
    if draws(sample) and not sample.is_differentiable:
        return
    tape, expected = sample.best, sample.gradient if sample.is_differentiable else sample.plain
    same(tape.play(*sample.fresh()), expected, 1e-12)
    fast = tg.compile(tape, passes=())
    for _ in range(2):
        same(fast(*sample.fresh()), expected)


def in_memory(sample: Sample) -> None:
    """The same where arrays of three numbers lie in memory, and tables of two rows are computed row by row."""
    if sample.is_differentiable and not draws(sample):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_values, "SMALL", 2)
            patch.setattr(native_rows, "FEW", 2)
            fast = tg.compile(sample.best, passes=())  # which warns, an error here, where no machine code can be made
            for _ in range(2):
                same(fast(*sample.fresh()), sample.gradient)


def primitivized(sample: Sample) -> None:
    """The tape of triples and pullbacks, in primitive calls."""
    if sample.is_differentiable:
        same(sample.primitive.play(*sample.fresh()), sample.gradient, 1e-12)


def other_dtypes(sample: Sample) -> None:
    """The passes do to single precision and complex numbers what they do to others."""
    reals = [i for i, x in enumerate(sample.args) if isinstance(x, np.ndarray) and x.dtype == float]
    for dtype in (np.float32, complex) if reals and sample.is_differentiable else ():
        given = [x.astype(dtype) if i in reals else x for i, x in enumerate(sample.fresh())]
        try:
            flat = tg.primitivize(tg.gradtape(sample.loss, *map(kept, given)))
        except (TypeError, ValueError, Warning, tg.TapeError):
            assert dtype is complex  # not every function takes complex numbers
            continue
        with np.errstate(all="ignore"):
            expected = flat.play(*map(kept, given))
            for a, b in zip(leaves_of(optimised(flat).play(*map(kept, given))), leaves_of(expected), strict=True):
                assert type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
                rtol = 1e-5 if dtype is np.float32 else 1e-12
                assert_close(a, b, rtol, rtol * max(1e-3, float(np.abs(np.where(np.isfinite(b), b, 0.0)).max(initial=0.0))) if is_inexact(b) else 0.0)


def exported(sample: Sample) -> None:
    """A module of the gradient's source, which does not name tapegrad, computes the same."""
    if sample.is_differentiable:
        text = sample.flat.to_python("exported")
        assert "tapegrad" not in text.partition('"""\n')[2].replace("The tape that tapegrad recorded", "")
        names: dict[str, Any] = {"__name__": "exported"}
        exec(compile(text, "<exported>", "exec"), names)
        same(names["exported"](*sample.fresh()), sample.gradient)


def saved(sample: Sample) -> None:
    """What is loaded of a saved tape prints, plays, and is differentiated as it was."""
    told = str(sample.written) if sample.is_differentiable else ""
    for tape in (sample.traced[1], sample.primal, *([sample.written, sample.flat] if sample.is_differentiable else [])):
        text, expected = told if tape is sample.written else str(tape), tape.play(*sample.fresh(), redraw=False)
        for values in (True, False) if tape is sample.primal else (True,):
            loaded = from_bytes(b"".join(to_bytes(tape, values)), ())
            assert str(loaded) == text
            if tape is sample.traced[1]:
                assert loaded.format("compact") == tape.format("compact")
                assert draws(sample) or same(loaded.play(*sample.fresh()), expected, 0.0, narrow=0.0) is None
            same(loaded.play(*sample.fresh(), redraw=False), expected, 0.0, narrow=0.0)
            if tape is sample.primal and sample.is_differentiable:
                gradient = tg.gradtape(loaded)
                assert str(gradient) == told
                same(gradient.result.val, sample.written.result.val, 0.0 if values else 1e-12)


# -- with fewer values


def without_values(sample: Sample) -> None:
    """A tape whose calls have specs alone is printed, saved, optimised, compiled and differentiated as the one that has values."""
    def told(tape: Tape) -> list[tuple[str, str]]:
        return [(repr(op), op.type) for op in tape]
    value, tape = sample.traced
    empty = bare(tape)
    assert told(empty) == told(tape)
    loaded = from_bytes(b"".join(to_bytes(empty.check(), True)), ())  # which knows no more of arrays than their names
    assert [op.type for op in loaded] == [op.type for op in tape]
    best = tg.optimise(empty)
    assert told(best) == told(tg.optimise(tape))
    if not draws(sample):
        same(tg.optimise(loaded).play(*sample.fresh()), value, kinds="dtype")  # bool and NumPy's have one name
        for found in (best.play, tg.compile(empty)):
            same(found(*sample.fresh()), value)
    assert not any(has_value(op) for op in empty if type(op) is Call and op.fn.__name__ != "draw")
    if sample.is_differentiable:
        flat = tg.flatgrad(bare(sample.primal))
        assert told(flat) == told(sample.flat)
        for made in (flat, tg.primitivize(tg.back(tg.rewrite(bare(sample.primal))))):
            same(made.play(*sample.fresh()), sample.flat.play(*sample.fresh()))


def retained(sample: Sample) -> None:
    """A gradient that drops each value which no rule reads, as it does large ones, is the same."""
    if sample.is_differentiable:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_retention, "LARGE", 0)
            same(tg.grad(sample.loss, *sample.fresh()), sample.gradient)


def summed(sample: Sample) -> None:
    """So it is where cotangents are one number all over, and of a gradient of a gradient."""
    if not sample.is_differentiable:
        return

    def total(*xs: Any, fn: Any = sample.fn) -> Any:
        leaves = [leaf for leaf in leaves_of(fn(*xs)) if isinstance(leaf, (float, complex)) or np.result_type(leaf).kind in "fc"]
        return 1.5 * sum(np.sum(np.real(leaf)) + np.sum(np.imag(leaf)) for leaf in leaves)

    def twice(*xs: Any, f: Any = sample.loss) -> Any:
        return sum((contract(dx) for dx in tg.gradient(f, *xs) if dx is not None), 0.0 * f(*xs))
    for f in (total, twice) if sample.smooth else (total,):
        found = []
        for large in (0, 1 << 60):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(value_retention, "LARGE", large)
                try:
                    found.append(tg.grad(f, *sample.fresh()))
                except MissingRule as err:  # as in "second order"
                    assert f is twice and "has no derivative by a complex argument" in str(err)
        same(*found or (0, 0))


def dropped(sample: Sample) -> None:
    """A compiled gradient whose tape gives up each value, as it does large ones, is the same."""
    if sample.is_differentiable:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_dropping, "LARGE", 0)
            served(sample.loss, sample.fresh(), sample.gradient)


# -- which sample of which case


class Mode(NamedTuple):
    """A check, and what `tests.cases.chosen` wants to know: of which samples."""

    check: Callable[[Sample], None]
    new: int | None = None
    every: int = 1
    distinct: bool = True


EVERY: dict[str, Callable[[Sample], None]] = {"value and gradient": value_and_gradient, "tangent": tangent}
# For each sample of an op a tape is lowered to native code and to torch. How a function is compiled is the same whatever ops it
# calls, but for the kinds of their arguments: so of other cases every second or third is enough.
MODES: dict[str, Mode] = {
    "second order": Mode(second_order, 3, distinct=False), "float32": Mode(float32, distinct=False), "taylor": Mode(taylor, distinct=False),
    "sparsity": Mode(sparsity, distinct=False), "compiled": Mode(compiled, 1, 2), "compiled tape": Mode(compiled_tape), "in memory": Mode(in_memory, 2),
    "primitivized": Mode(primitivized, 1, 3), "other dtypes": Mode(other_dtypes, 1, 3), "exported": Mode(exported, 1, 3), "saved": Mode(saved, 1, 3),
    "without values": Mode(without_values, 1, 3), "retained": Mode(retained, distinct=False), "summed": Mode(summed, 1, 3, distinct=False),
    "dropped": Mode(dropped, 1, 3), "on torch": Mode(on_torch, 1, 3), "tape on torch": Mode(tape_on_torch),
    "on a device": Mode(on_device, 1, 10), "types": Mode(facts.types, 2, 2, distinct=False), "memory": Mode(facts.memory, 1, 3),
}
CHOSEN = {name: chosen(mode.new, mode.every, mode.distinct) for name, mode in MODES.items()}


def examine_case(case: Case) -> None:
    """Take each sample of a case through its modes."""
    def modes(number: int) -> dict[str, Callable[[Sample], None]]:
        mine = {name: mode.check for name, mode in MODES.items() if number in CHOSEN[name].get(case.name, ())}
        return {**EVERY, "torch": lambda sample: torchs_own(case, sample), **mine, "on tensors": lambda sample: on_tensors(sample, number == 0)}
    examine([(f" of sample {number}", Sample(case.fn, args, case.smooth), modes(number)) for number, args in enumerate(case.samples)])


def examine_program(fn: Callable[..., Any], args: tuple[Any, ...], refused: dict[str, type[Exception]] | None = None) -> None:
    """Take a program at some arguments through the modes; some may refuse it, by an error that is named."""
    def refuses(check: Callable[[Sample], None], error: type[Exception]) -> Callable[[Sample], None]:
        def checked(sample: Sample) -> None:
            with pytest.raises(error):
                check(sample)
        return checked
    modes = {**EVERY, **{name: mode.check for name, mode in MODES.items() if name in PROGRAMS}}
    modes.update({name: refuses(modes[name], error) for name, error in (refused or {}).items()})
    examine([("", Sample(fn, args, rounding=1e-12), modes)])


PROGRAMS = ("second order", "compiled", "compiled tape", "primitivized", "exported", "saved", "retained")


def examine(samples: list[tuple[str, Sample, dict[str, Callable[[Sample], None]]]]) -> None:
    """Take samples through modes, and name those that fail."""
    failed: list[tuple[str, Exception]] = []
    for place, sample, modes in samples:
        for name, check in modes.items():
            try:
                check(sample)
            except Exception as err:
                failed.append((f"{name}{place}", err))
    if failed:
        told = "\n".join(f"[{name}]\n{''.join(traceback.format_exception(err))}" for name, err in failed)
        raise AssertionError(f"{', '.join(name for name, _ in failed)}\n{told}")
