"""The package: what importing it costs, which way imports point, how long its files are."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

import tapegrad

ROOT = Path(tapegrad.__file__).parent

# A room imports only rooms that stand above it here (DESIGN: where code lives).
ORDER = ["errors", "interrupts", "progress", "numbers", "tape", "tree", "rules", "ops", "trace", "frontends", "replay", "transforms", "show", "optimise", "compile", "bridges",
         "distributed", "store", "debug", "testing", "passes", "api", "elsewhere", "tapegrad", "cli", "__main__"]


def name_of(path: Path) -> str:
    parts = ["tapegrad", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in ROOT.rglob("*.py")}


@functools.cache
def imported(path: Path) -> list[str]:
    """Return the modules that a file imports anywhere, in functions and for types as well."""
    return list(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "later"):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and arg.value in FILES)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_imports_point_one_way() -> None:
    graph = networkx.DiGraph((name, other) for name, path in FILES.items() for other in imported(path))
    cycles = [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1]
    assert not cycles


def test_rooms_stand_one_above_the_other() -> None:
    wrong = [f"{name} imports {other}" for name, path in FILES.items() for other in imported(path) if ORDER.index(room(other)) > ORDER.index(room(name))]
    assert not wrong


@pytest.mark.quick
def test_nothing_brings_packages_that_it_does_not_need() -> None:
    code = """
import sys
import tapegrad as tg
def bring(*names):
    return [name for name in names if name in sys.modules]
assert not bring("torch", "rich", "networkx", "scipy", "jax", "llvmlite"), "importing"
import numpy as np
tape = tg.gradtape(lambda x: x * x, 2.0)
for act in (lambda: str(tape), lambda: str(tg.explain(lambda x: x * x, 2.0)), lambda: str(tape.profile()), lambda: str(tape.step()), tape.to_html,
            lambda: tg.grad(np.linalg.det, np.eye(2)), lambda: tg.gradtape(lambda x: (x[1:] ** 2).sum(), np.ones(3)).play(np.ones(3))):
    act()
    assert not bring("torch", "rich", "scipy"), act
import tapegrad.cli
assert not bring("rich"), "the commands"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.quick
def test_import_costs_what_a_gradient_needs(tmp_path: Path) -> None:
    """Once Python has written its bytecode: less than 1.3 times NumPy's own import, which it takes alone on a machine that does
    nothing else; compiling, passes, views, files, and `numpy.random` come later.
    """
    code = """
import time; start = time.process_time(); import numpy
half = time.process_time(); import sys; before = set(sys.modules); start_of_ours = time.process_time(); import tapegrad
end = time.process_time(); new = set(sys.modules) - before
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("tapegrad.") and name.count(".") > 1}
assert not rooms & {"compile", "optimise", "store", "show", "debug", "cli"}, rooms
assert not {"tapegrad.testing", "tapegrad.passes", "tapegrad.transforms.vmap", "tapegrad.transforms.ode", "optree",
            "concurrent.futures", "numpy.ma", "numpy.polynomial", "numpy.random", "difflib", "shutil", "dataclasses", "json",
            "pathlib", "random", "sysconfig", "string", "traceback", "inspect"} & new
print(half - start, end - start_of_ours)
"""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment) for _ in range(6)]
    numpy_s, ours = zip(*[tuple(map(float, run.stdout.split())) for run in runs[1:]])
    assert min(ours) < 1.3 * min(numpy_s)


def test_a_name_that_is_imported_later() -> None:
    code = """
import tapegrad, pickle
assert set(tapegrad.__all__) <= set(dir(tapegrad))
from tapegrad.compile.numpy.function import compile_tape  # the room of compile: the name stays the function's
from tapegrad import compile, optimise
assert tapegrad.compile is compile and tapegrad.compile.__name__ == "compile" and tapegrad.optimise is optimise
assert [name for name in tapegrad.__all__ if getattr(tapegrad, name, None) is None] == []
assert tapegrad.passes.cse and tapegrad.testing.check_rule
from tapegrad import *
assert hessian is tapegrad.hessian
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


MISSING = [
    ("networkx", "tape.to_networkx()", "networkx"), ("networkx", "tape.to_svg()", "networkx"), ("rich", "tape.show()", "rich"),
    ("scipy", "tg.jacobian_sparsity(abs, 1.0)", "tapegrad[scipy]"), ("torch", "tg.compile(abs, backend='torch')", "tapegrad[torch]"),
    ("torch", "tg.compile(abs, device='cuda')", "tapegrad[torch]")]


def test_packages_that_are_missing() -> None:
    code = f"""
import sys
sys.modules.update(dict.fromkeys({[package for package, _, _ in MISSING]}))
import tapegrad as tg
tape = tg.trace(lambda x: x * x, 2.0)[1]
for call in ({", ".join(f"lambda: {call}" for _, call, _ in MISSING)}):
    try:
        call()
    except tg.MissingPackage as err:
        print(str(err).replace(chr(10), " "))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for told, (package, _, install) in zip(out.splitlines(), MISSING, strict=True):
        assert f"needs {package}, which is not installed" in told and f'try: pip install "{install}"' in told


def test_no_file_is_longer_than_500_lines() -> None:
    long = {path.name: count for path in ROOT.rglob("*.py") if (count := len(path.read_text().splitlines())) > 500}
    assert not long


def test_the_top_level_holds_what_the_project_is_made_of() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT.parent, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git checkout")
    assert {name.split("/")[0] for name in listed.stdout.splitlines()} == {
        ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "bench", "docs", "pyproject.toml", "ruff.toml", "setup.cfg", "tapegrad", "tests"}


def test_the_core_reads_in_one_sitting() -> None:
    files = ["tape/tape", "trace/tracer", "transforms/rewrite", "transforms/reverse", "transforms/grad"]
    assert sum(len((ROOT / f"{name}.py").read_text().splitlines()) for name in files) < 1200


def test_every_room_has_a_quick_test() -> None:
    tests = Path(__file__).parent
    rooms = {path.parent for path in tests.rglob("test_*.py")}
    quick = {path.parent for path in tests.rglob("test_*.py") if "pytest.mark.quick" in path.read_text(encoding="utf-8")}
    assert not sorted(str(room.relative_to(tests)) for room in rooms - quick)


@pytest.mark.quick
def test_numpy_programs_need_neither_torch_nor_scipy() -> None:
    code = """
import sys
sys.modules["torch"] = sys.modules["scipy"] = None
import numpy as np
import tapegrad as tg

def f(A, b):
    x = np.linalg.solve(A @ A.T + np.eye(3), np.tanh(b))
    x[1:] *= 2
    return np.log(np.sum(np.exp(x))) + np.linalg.cholesky(np.outer(b, b) + 9 * np.eye(3)).sum()

A, b = np.arange(9.0).reshape(3, 3), np.ones(3)
step = tg.value_and_grad(f, (0, 1), warmup=1)
for _ in range(4):
    dA, db = step(A, b)[1]
assert np.allclose(dA, tg.gradient(f, A, b)[0]) and step.stats.hits
tg.hessian(lambda b: f(A, b))(b), tg.vmap(lambda b: f(A, b))(np.ones((2, 3))), tg.jvp(f, (A, b), (A, b))
tape = tg.gradtape(f, A, b)
tape.format(), tape.to_svg(), tg.flatgrad(tg.trace(f, A, b)[1]).to_python()
for call in (lambda: tg.value_and_grad(f, backend="torch"), tape.to_fx, lambda: tg.jacobian_sparsity(np.tanh, b)):
    try:
        call()
    except tg.MissingPackage as err:
        print(err.what, "|", err.try_)
"""
    out = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout
    torch, scipy = (f'this call needs {name}, which is not installed | pip install "tapegrad[{name}]"'
                    for name in ("torch", "scipy"))
    assert out.splitlines() == [torch, torch, scipy]


FIRST = [
    "block = tg.checkpoint(np.sin)\nprint(tg.gradient(lambda x: block(x).sum(), np.zeros(1)))",
    "loop = tg.checkpoint_loop(50, slots=3)(lambda x: np.sin(x))\nprint(tg.gradient(lambda x: loop(x).sum(), np.zeros(1)))",
    "TABLE = np.ones(2)\ndef f(x):\n    y = TABLE.copy()\n    y[0] = x[0]\n    return y.sum()\nprint(tg.gradient(f, np.ones(1)))",
    "@tg.vmap\ndef f(x):\n    out.append(1)\n    return x\nout = []\nprint(tg.gradient(lambda x: f(x).sum(), np.ones(1)))"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_what_is_imported_later_is_there_for_the_first_call_of_a_process() -> None:
    code = f"""
import os
import numpy as np
import tapegrad as tg
for program in {FIRST}:
    child = os.fork()  # in which nothing has been called yet
    if not child:
        exec(program, {{"np": np, "tg": tg}})
        break
    os.waitpid(child, 0)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (out.stdout, out.stderr) == ("(array([1.]),)\n" * len(FIRST), "")


def test_the_examples_need_neither_torch_nor_scipy_nor_llvmlite() -> None:
    """All examples in modules and in README and docs are right without them, or say what to install."""
    code = f"""
import doctest, importlib, sys
from pathlib import Path
missing = ("torch", "scipy", "llvmlite", "jax")
sys.modules.update(dict.fromkeys(missing))
import tapegrad as tg

class Runner(doctest.DocTestRunner):
    def report_unexpected_exception(self, out, test, example, exc_info):
        if not (isinstance(exc_info[1], ImportError) and any(name in str(exc_info[1]) for name in missing)):
            super().report_unexpected_exception(out, test, example, exc_info)
            wrong.append(test.name)
    def report_failure(self, out, test, example, got):
        super().report_failure(out, test, example, got)
        wrong.append(test.name)

wrong, ran = [], 0
modules = [importlib.import_module(name) for name in {sorted(name for name in FILES if ".torch" not in name and ".scipy" not in name)}]
tests = [test for module in modules[1:] for test in doctest.DocTestFinder().find(module)]
for page in map(Path, {[str(path) for path in (ROOT.parent / "README.md", *sorted((ROOT.parent / "docs").glob("*.md")))]}):
    tests.append(doctest.DocTestParser().get_doctest(page.read_text("utf-8"), {{"__name__": "__main__"}}, page.name, str(page), 0))
for test in tests:
    ran += Runner(optionflags=doctest.FAIL_FAST, verbose=False).run(test).attempted
print(ran, *wrong)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    ran, *wrong = run.stdout.splitlines()[-1].split()
    assert int(ran) > 400 and not wrong, run.stdout
