"""to_python: modules that compute the same without tapegrad."""

from __future__ import annotations

import enum
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.problems import gmm
from tapegrad.tree.flatten import leaves_of
from tests.harness.run import exported


def module(text: str) -> dict[str, Any]:
    """Execute a module's source."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(text, "<exported>", "exec"), names)
    return names


def test_the_mixture_in_a_process_without_tapegrad(tmp_path: Path) -> None:
    problem = gmm.PROBLEM.made(d=3, K=4, n=60)
    tape = tg.flatgrad(tg.trace(problem.objective, *problem.args, **problem.given)[1])
    value, (_, *dxs) = tg.grad(problem.objective, *problem.args, **problem.given)
    (tmp_path / "gmm_gradient.py").write_text(tape.to_python("gmm_gradient"))
    np.savez(tmp_path / "data.npz", *problem.args, x=problem.given["x"])
    code = ("import sys; sys.path.insert(0, sys.argv[1]); sys.modules['tapegrad'] = None\n"
            "import numpy as np, gmm_gradient as g\n"
            "d = np.load(sys.argv[1] + '/data.npz'); a = [d[f'arr_{i}'] for i in range(3)]\n"
            "for _ in range(2): value, (_, *dxs) = g.gmm_gradient(*a, x=d['x'], gamma=1.0, m=0)\n"
            "np.savez(sys.argv[1] + '/found.npz', value, *dxs)")
    subprocess.run([sys.executable, "-I", "-c", code, str(tmp_path)], check=True)
    with np.load(tmp_path / "found.npz") as found:
        for name, expected in zip(found.files, (value, *dxs)):
            np.testing.assert_allclose(found[name], expected, 1e-12, 1e-12)


def test_what_has_no_source_says_so() -> None:
    opaque = tg.primitive(np.vectorize(lambda x: x * 2.0))
    tape = tg.trace(lambda x: opaque(x).sum(), np.ones(2))[1]
    with pytest.raises(tg.ArgumentError, match="no source"):
        tape.to_python()
    with pytest.raises(tg.ArgumentError, match="cannot be the name of a Python function"):
        tape.to_python("two words")


@pytest.mark.quick
def test_other_arguments_and_paths_are_refused() -> None:
    f = module(tg.trace(lambda x, y: x * y if x > 0 else y, 2.0, np.ones(3))[1].to_python("f"))["f"]
    np.testing.assert_array_equal(f(3.0, np.arange(3.0)), 3.0 * np.arange(3.0))
    for args in ((-1.0, np.ones(3)), (2.0, np.ones(4)), (2, np.ones(3))):
        with pytest.raises(ValueError, match="recorded"):
            f(*args)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", [lambda x: x[0] / x[1], lambda x: np.sum(x) / x[1] + x[0] ** 2, lambda x: np.log(x[0]) * x[1], lambda x: x[0] * 1e300 * 1e300])
def test_single_elements_are_numpys_numbers(f: Any) -> None:
    good, bad = np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 3.0])
    for tape, run in ((tg.trace(f, good)[1], f), (tg.gradtape(f, good), lambda x: tg.grad(f, x))):
        written = exported(tape)
        for x in (good, bad):
            found, expected = leaves_of(written(x)), leaves_of(run(x))
            assert [type(part) for part in found] == [type(part) for part in expected]
            for a, b in zip(found, expected):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_dicts_by_number() -> None:
    def f(d: Any) -> Any:
        return {0: d[1] * 2.0, -3: [d[5].sum()]}
    _, tape = tg.trace(f, {1: 2.0, 5: np.ones(2)})
    exported = module(tape.to_python("f"))["f"]
    assert exported({1: 3.0, 5: np.arange(2.0)}) == {0: 6.0, -3: [1.0]}
    with pytest.raises(ValueError, match="recorded"):
        exported({1: 3.0, 6: np.arange(2.0)})


def test_slices_and_ranges_among_the_arguments_are_compared() -> None:
    written = module(tg.trace(lambda x, s, r: x[s].sum() * len(r), np.arange(4.0), slice(1, 3), range(2))[1].to_python("f"))["f"]
    assert written(np.ones(4), slice(1, 3), range(2)) == 4.0
    for s, r in ((slice(True, 3), range(2)), (slice(1, 2), range(2)), (slice(1, 3), range(3)), ([1, 2], range(2))):
        with pytest.raises(ValueError, match="recorded"):
            written(np.ones(4), s, r)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rate(float):
    def __repr__(self) -> str:
        return "2.0"


@pytest.mark.parametrize("f", [
    lambda x: x[Level.LOW] * Level.HIGH, lambda x: x[Level.LOW:] * 2.0, lambda x: np.where(x > 0, x, Level.HIGH), lambda x: np.roll(x, Level.LOW) ** Level.HIGH])
def test_a_member_of_an_enumeration_is_its_number(f: Any) -> None:
    def written(x: Any) -> Any:
        y = x * 1.0
        y[0] = Level.HIGH
        return f(y)
    x = np.array([0.5, -1.0, 2.0])
    got = module(tg.trace(written, x)[1].to_python("written"))["written"](x)
    for part, expected in zip(leaves_of(got), leaves_of(written(x)), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_a_number_of_a_class_of_its_own_is_never_written_as_it_prints() -> None:
    tape = tg.trace(lambda x: np.where(x > 0, x, Rate(3.0)), np.array([1.0, -1.0]))[1]
    with pytest.raises(tg.ArgumentError, match="no source"):
        tape.to_python()


def written_through(x: Any) -> Any:
    u = np.zeros(6)
    v = u[1:]
    v[0] = x[0]
    w = v[1:][::-1]
    w[0] = v[0] * x[1]
    z = u.reshape(2, -1)
    z[0] *= x[2]
    return (w * v[:4]).sum() + (z * x.reshape(2, 3)).sum()


def test_what_is_written_through_views_is_exported() -> None:
    x = np.arange(1.0, 7.0)
    names = module(tg.gradtape(written_through, x).to_python("exported"))
    value, (_, dx) = names["exported"](x + 1.0)
    expected, (_, exact) = tg.grad(written_through, x + 1.0)
    assert value == expected and np.array_equal(dx, exact)


def test_a_guard_on_the_class_of_a_result() -> None:
    def f(x: Any) -> Any:
        return (np.unique(x) * 2).sum() if isinstance(np.unique(x), np.ndarray) else x.sum()
    x, space = np.array([1.0, 2.0, 3.0]), dict[str, Any]()
    exec(tg.trace(f, x)[1].to_python("f"), space)
    assert space["f"](x + 1) == f(x + 1)
