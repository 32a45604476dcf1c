"""Quantities of pint and astropy: the gradient has the quotient's unit, and units that do not fit raise what the library raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tg

pytestmark = pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")


class Library(NamedTuple):
    mass: Any
    speed: Any
    error: type[Exception]
    number: Any  # of a quantity in another unit

    def same(self, found: Any, numbers: Any, like: Any) -> bool:
        """Whether a quantity has exactly the unit that another has, and these numbers."""
        unit = "units" if hasattr(found, "units") else "unit"
        return getattr(found, unit) == getattr(like, unit) and bool(np.allclose(getattr(found, "magnitude", None) if unit == "units" else found.value, numbers, 1e-14))


@pytest.fixture(params=["pint", "astropy"])
def units(request: pytest.FixtureRequest) -> Library:
    if request.param == "pint":
        make = pytest.importorskip("pint").UnitRegistry().Quantity
        return Library(make(2.0, "kg"), make(np.array([1.0, 2.0, 3.0]), "m/s"), pytest.importorskip("pint").DimensionalityError, lambda x, unit: x.to(unit).magnitude)
    u = pytest.importorskip("astropy.units")
    return Library(2.0 * u.kg, np.array([1.0, 2.0, 3.0]) * u.m / u.s, u.UnitConversionError, lambda x, unit: x.to(unit).value)


def energy(m: Any, v: Any) -> Any:
    return 0.5 * m * np.sum(v * v)


def test_a_gradient_has_the_quotients_unit(units: Library) -> None:
    m, v = units.mass, units.speed
    fast, tape = tg.value_and_grad(energy, argnums=(0, 1)), tg.gradtape(energy, m, v)
    for value, (dm, dv) in (*[(y, g[1:]) for y, g in (tg.grad(energy, m, v), tape.play(m, v), tg.primitivize(tape).play(m, v))], *[fast(m, v) for _ in range(4)]):
        assert units.same(value, 14.0, m * v[0] * v[0])
        assert units.same(dm, 7.0, v[0] * v[0]) and units.same(dv, [2.0, 4.0, 6.0], m * v)
    value, (dm, dv) = fast(1000 * m, v)
    assert units.same(dv, [2000.0, 4000.0, 6000.0], m * v)
    assert units.same(tg.gradient(lambda m, x: m * x * x, m, 3.0)[1], 12.0, m)  # by a plain number
    assert units.same(tg.gradient(lambda m: np.exp(m / (2 * units.mass)), m)[0], 0.25 * np.exp(0.5), 1 / m)  # of a plain number
    found = tg.gradient(lambda d: d["m"] * np.sum(d["v"]), {"m": m, "v": v})[0]
    assert units.same(found["m"], 6.0, v[0]) and units.same(found["v"], [2.0] * 3, m)
    assert units.same(tg.grad(lambda x: m * x, 2.0)[1][1], 2.0, m)
    (value, aux), (_, dm) = tg.grad(lambda m: (m * m, m), m, has_aux=True)
    assert units.same(value, 4.0, m * m) and units.same(aux, 2.0, m) and units.same(dm, 4.0, m)


def test_tangents_batches_and_second_derivatives(units: Library) -> None:
    m, v = units.mass, units.speed
    value, tangent = tg.jvp(energy, (m, v), (m, v))
    assert units.same(tangent, 42.0, value)
    assert units.same(tg.jvp(np.sum, (v,), (v.to("km/s"),))[1], 6.0, v)  # a tangent in another unit is converted
    assert units.same(tg.vmap(lambda v: v * v)(v), [1.0, 4.0, 9.0], v * v)
    values, slopes = tg.vmap(tg.value_and_grad(lambda v: v * v))(v)
    assert units.same(values, [1.0, 4.0, 9.0], v * v) and units.same(slopes, [2.0, 4.0, 6.0], v)
    assert units.same(tg.jacobian(lambda v: v * v)(v), np.diag([2.0, 4.0, 6.0]), v)
    assert units.same(tg.hessian(lambda m: m ** 3)(m), 12.0, m)
    assert units.same(tg.hvp(lambda v: np.sum(v ** 3))(v, v), [6.0, 24.0, 54.0], v * v)
    assert units.same(tg.gradient(lambda m: tg.gradient(lambda z: z * z * z, m)[0], m)[0], 12.0, m)
    assert units.same(tg.gradient(tg.checkpoint(lambda m: m * m), m)[0], 4.0, m)


def test_units_that_do_not_fit(units: Library, tmp_path: Path) -> None:
    m, v = units.mass, units.speed
    for run in (lambda: tg.grad(lambda m, v: m + v[0], m, v), lambda: tg.grad(lambda m: m + 1.0, m), lambda: tg.jvp(np.sum, (v,), (np.ones(3) * m,)),
                lambda: tg.jvp(np.sum, (v,), (np.ones(3),)), lambda: tg.grad(lambda v: v * v, v, seed=v)):
        with pytest.raises(units.error):
            run()
    with pytest.raises(tg.ArgumentError, match="some of them with units"):
        tg.vjp(lambda m: (m, m * m), m)[1]((m, m * m))
    tape = tg.gradtape(energy, m, v)
    with pytest.raises(tg.ArgumentError, match="nesting of the arguments"):  # the unit is part of a tape
        tape.play(m.to("g"), v)
    with pytest.raises(tg.TapeFormatError):
        tape.save(tmp_path / "x.tape")
    with pytest.raises(tg.ArgumentError, match="cannot be written as source"):
        tape.to_python()
