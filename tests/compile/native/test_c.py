"""Tapes as C: compiled by the C compiler of the machine, and compared with what the tape plays."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.cases import CASES, chosen
from tests.harness.sample import Sample, kept, quiet

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
NUMBERS: dict[type, Any] = {bool: ctypes.c_uint8, np.bool_: ctypes.c_uint8, np.float32: ctypes.c_float, float: ctypes.c_double, np.float64: ctypes.c_double, np.int32: ctypes.c_int32}
NESTED = np.array([0.5, -1.5, 2.5])


def compiled(folder: Path, sources: Sequence[Any], *options: str) -> Any:
    """Return a library of functions in C."""
    for source in sources:
        source.save(folder)
    assert COMPILER is not None
    subprocess.run([COMPILER, *(options or ("-O0",)), "-w", "-shared", "-fPIC", *[str(folder / f"{x.name}.c") for x in sources], "-o", str(folder / "all.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "all.so"))


def called(function: Any, args: Sequence[Any], results: Sequence[Any]) -> tuple[int, list[Any]]:
    """Call a function of C's; return what it returns, and the results, like the given ones."""
    arrays, given = [np.array(x, order="C") for x in args], list[Any]()
    for x, array in zip(args, arrays):
        by_value = not isinstance(x, (np.ndarray, complex, np.complexfloating))
        given.append(NUMBERS.get(type(x), ctypes.c_int64)(x) if by_value else ctypes.c_void_p(array.ctypes.data))
    outs = [np.full(np.shape(x), 77, np.asarray(x).dtype) for x in results]
    return function(*given, *[ctypes.c_void_p(out.ctypes.data) for out in outs]), outs


def leaves(x: Any) -> list[Any]:
    return [leaf for leaf in tg.tree.leaves(x) if isinstance(leaf, (np.ndarray, np.generic, float, int, complex))]


def same(source: Any, library: Any, tape: Any, args: Sequence[Any]) -> None:
    wanted = leaves(tape.play(*args))
    status, found = called(getattr(library, source.name), [x.val for x in tape.inputs[1:]] if len(args) != len(tape.inputs) - 1 else args, wanted)
    assert status == 0 and source.header.count(": result,") == len(wanted)
    for a, b in zip(found, wanted):
        narrow = np.asarray(b).dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(a, b, 1e-4 if narrow else 1e-11, 1e-5 if narrow else 1e-12, err_msg=source.name)


@needs_compiler
def test_the_table_of_ops(tmp_path: Path) -> None:
    """Gradients of what has machine code are the same in C; the rest is refused."""
    cases, made, refused = {case.name: case for case in CASES}, list[Any](), 0
    with quiet():
        for name, numbers in chosen(new=1, every=4).items():
            sample = Sample(cases[name].fn, cases[name].samples[numbers[0]])
            if not sample.is_differentiable:
                continue
            tape = tg.gradtape(sample.loss, *map(kept, sample.args))
            try:
                made.append((tape.to_c(f"g{len(made)}"), tape, sample.args))
            except tg.ArgumentError as err:
                refused += "cannot be written in C" in str(err)
        library = compiled(tmp_path, [source for source, _, _ in made])
        for source, tape, args in made:
            same(source, library, tape, args)
    assert len(made) > 150 and refused


def recurrence(x: Any, r: Any) -> Any:
    for i in range(200):
        r = r * x - np.sin(r) + 0.01 * i
    return r


def written(x: Any) -> Any:
    y = np.zeros(40)
    for i in range(1, 40):
        y[i] = y[i - 1] * 0.5 + np.tanh(x[i % 3]) * i
    return y.sum(), {"last": y[-1], "all": y}


def network(w: Any, v: Any, x: Any) -> Any:
    return np.sum((np.tanh(x @ w) @ v) ** 2)


def kinds(a: Any, flag: bool, n: int, z: Any, s: Any) -> Any:
    return (np.where(a > 0.5, a, a * a) * n).sum() * (2.0 if flag else 1.0) + np.abs(z).sum() + s * s


def through_rows(h: Any, w: Any) -> Any:
    total = 0.0
    for row in ROWS:
        h = np.tanh(h * w + row)
        total = total + np.sum(row * h)
    return total


ROWS = np.linspace(-1.0, 1.0, 120).reshape(40, 3)
PROGRAMS: list[tuple[str, Callable[[], Any], tuple[Any, ...]]] = [
    ("loop", lambda: tg.flatgrad(tg.roll(tg.trace(recurrence, -0.5, 1.0)[1], saved=0)), (-0.5, 1.0)),
    ("found loop", lambda: tg.gradtape(recurrence, -0.5, 1.0), (-0.5, 1.0)),
    ("known rows", lambda: tg.gradtape(through_rows, np.ones(3), 0.7), (np.ones(3), 0.7)),
    ("straight", lambda: tg.gradtape(lambda x: x[0] * np.exp(x[1]) / (1 + x[2] ** 2), np.arange(3.0)), (np.arange(3.0),)),
    ("nested", lambda: tg.flatgrad(tg.trace(written, NESTED)[1], (1.0, None)), (NESTED,)),
    ("primal", lambda: tg.trace(written, NESTED)[1], (NESTED,)),
    ("layers", lambda: tg.gradtape(network, np.ones((300, 20)) / 7, np.ones((20, 10)), np.arange(90000.0).reshape(300, 300) / 1e6),
     (np.ones((300, 20)) / 7, np.ones((20, 10)), np.arange(90000.0).reshape(300, 300) / 1e6)),
    ("kinds", lambda: tg.gradtape(kinds, np.arange(50, dtype=np.float32) / 64, True, 3, np.array([1 + 2j, 3j]), 2.0),
     (np.arange(50, dtype=np.float32) / 64, True, 3, np.array([1 + 2j, 3j]), 2.0)),
    ("column by column", lambda: tg.gradtape(lambda x: (x.T @ x).sum(), np.asfortranarray(np.arange(12.0).reshape(3, 4))), (np.arange(12.0).reshape(3, 4),)),
]


@needs_compiler
@pytest.mark.parametrize(("name", "make", "args"), PROGRAMS, ids=[name for name, _, _ in PROGRAMS])
def test_programs(name: str, make: Callable[[], Any], args: tuple[Any, ...], tmp_path: Path) -> None:
    tape = make()
    source = tape.to_c("gradient")
    same(source, compiled(tmp_path, [source], "-O2"), tape, args)
    assert name != "found loop" or len(source.source) < 8_000  # 38,000 with each run by itself


@needs_compiler
def test_another_path_is_told(tmp_path: Path) -> None:
    tape = tg.gradtape(lambda x, i: (x * x if x[i] > 0 else -x).sum(), np.arange(1.0, 4.0), 1)
    source = tape.to_c("branch")
    function = compiled(tmp_path, [source]).branch
    for x, status in ((np.array([1.0, 5.0, 2.0]), 0), (np.array([1.0, -5.0, 2.0]), 1)):
        found, outs = called(function, [x, 1], leaves(tape.play(np.arange(1.0, 4.0), 1)))
        assert found == status
        assert (outs[0] == (x * x).sum()) if not status else np.all(outs[1] == 77)


@needs_compiler
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_text_gives_no_warnings_and_its_header_is_for_two_languages(tmp_path: Path) -> None:
    for number, (_, make, _) in enumerate(PROGRAMS):
        make().to_c(f"program{number}").save(tmp_path)
        (tmp_path / f"use{number}.cpp").write_text(f'#include "program{number}.h"\nauto use = &program{number};\n')
    files = sorted(map(str, tmp_path.glob("*.c")))
    assert COMPILER is not None
    done = subprocess.run([COMPILER, "-std=c11", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-unused-but-set-variable", "-c", *files], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not done.stderr
    subprocess.run(["c++", "-fsyntax-only", *sorted(map(str, tmp_path.glob("*.cpp")))], cwd=tmp_path, check=True)


def test_names_and_refusals() -> None:
    tape = tg.gradtape(lambda int, v1, value: int * v1 * value, 2.0, 3.0, 4.0)
    declared = re.search(r"int product\((.*)\);", tape.to_c("product").header)
    assert declared is not None
    assert declared[1] == "double int_, double v1_, double value_, double *value, double *d_int, double *d_v1, double *d_value"
    shadows = tg.gradtape(lambda exp, x, x_at: np.exp(exp).sum() * (x * x_at).sum(), np.ones(2), np.ones(2), np.ones(2)).to_c("shadows")
    assert "const double *exp_, const double *x, const double *x_at_" in shadows.header
    macros = tg.gradtape(lambda M_PI, HUGE_VAL, linux, N: M_PI * HUGE_VAL * linux * N, 2.0, 3.0, 4.0, 5.0).to_c("macros")
    assert "double M_PI_, double HUGE_VAL_, double linux_, double N," in macros.header
    for name in ("int", "malloc", "gamma", "fmod", "M_PI", "_Bool"):
        with pytest.raises(tg.ArgumentError, match=f"'{name}' cannot be the name of a C function"):
            tape.to_c(name)
    assert tape.to_c("stress").name == "stress"
    with pytest.raises(tg.ArgumentError, match=r"written in C: cholesky (?s:.*)test_c.py"):
        tg.gradtape(lambda a: np.linalg.cholesky(a).sum(), np.eye(3)).to_c()
    assert tape.to_llvm().count("fmul double") >= 2
