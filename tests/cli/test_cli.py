"""The command line: what it prints, and that an error is one line and status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tapegrad import __version__
from tapegrad.cli import main
from tapegrad.cli.parser import COMMANDS, EXAMPLES, guard_dashes
from tapegrad.cli.program import literal

MODULE = '''\
import numpy as np

def f(a, b=1.0, *rest, scale=1.0):
    return a / (a + b * b) * scale

def total(params, x):
    return (np.sin(x) * params["w"]).sum()

def inverse(x):
    return np.linalg.inv(np.zeros((2, 2))) * x

def unknown(x):
    return np.packbits(x)

def positive(x):
    if x > 0:
        return x * x
    raise ValueError(f"x must be\\npositive, got {x}")

def silent(x):
    raise RuntimeError

def outer():
    k = 3.0
    def inner(x):
        return k * x
    return inner

inner = outer()
constant = 3

class Model:
    @staticmethod
    def loss(x):
        return x * x
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with modules in it."""
    (tmp_path / "cliprog.py").write_text(MODULE)
    (tmp_path / "clipkg").mkdir()
    (tmp_path / "clipkg" / "__init__.py").write_text("")
    (tmp_path / "clipkg" / "mod.py").write_text("def g(x, y):\n    return x * y\n")
    (tmp_path / "clibad.py").write_text("def f(:\n")
    (tmp_path / "climissing.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "clicrash.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("cli")]:
        del sys.modules[name]


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return what a command that succeeds prints."""
    status = main(list(argv))
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def fail(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return the one line that a command that fails prints."""
    assert main(list(argv)) == 2
    _, err = capsys.readouterr()
    assert err.startswith("tapegrad: ") and err.count("\n") == 1 and err.endswith("\n") and "Traceback" not in err
    return err.strip()


@pytest.mark.quick
def test_grad_of_an_expression(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "grad", "a / (a + b*b)", "a=2", "b=3") == (
        "value = 0.18181818181818182\nda    = 0.0743801652892562\ndb    = -0.09917355371900827\n")


def test_names_align_and_arrays_indent(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "grad", "sum(gain * sin(xs))", "gain=2.0", "xs=[[0, 0], [0, 0]]")
    assert out == "value = 0.0\ndgain = 0.0\ndxs   = [[2., 2.],\n         [2., 2.]]\n"


@pytest.mark.parametrize(("text", "args", "value"), [
    ("exp(0*x)", ["x=1.0"], "1.0"), ("np.cos(x) + math.sin(x)", ["x=0.0"], "1.0"), ("sqrt(x)", ["x=4"], "2.0"), ("pi * x", ["x=0"], "0.0"),
    ("log(e) * x", ["x=2.0"], "2.0"), ("-x*x", ["x=-1e-3"], "-1e-06"), ("max(x, y)", ["x=1.0", "y=2.0"], "2.0"),
    ("sum([x*i for i in range(3)])", ["x=1.0"], "3.0"), ("(lambda t: t*x)(3.0)", ["x=2.0"], "6.0"), ("  x", ["x = 2.0"], "2.0")])
def test_what_an_expression_may_say(capsys: pytest.CaptureFixture[str], text: str, args: list[str], value: str) -> None:
    assert run(capsys, "trace", text, *args).splitlines()[0] == f"value = {value}"


def test_an_argument_hides_a_constant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "grad", "e * e", "e=3.0") == "value = 9.0\nde    = 6.0\n"


def test_the_expression_is_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "show", "x*x + x", "x=3")
    assert out.splitlines()[0] == "f: 1 input, 4 operations" and "<expression>:1" in out
    import linecache
    assert linecache.getline("<expression>", 1) == "x*x + x\n"


@pytest.mark.quick
def test_trace_prints_value_and_tape(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "trace", "x*x", "x=3.0")
    assert out.startswith("value = 9.0\n\nf: 1 input, 3 operations\n") and "multiply(%2, %2)" in out and "rrule" not in out


def test_grad_prints_the_tape_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "grad", "x*x", "x=3.0", "--tape")
    assert out.startswith("value = 9.0\ndx    = 6.0\n\nf: ") and "# pullback of %4" in out


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert "rrule" not in run(capsys, "show", "x*x", "x=3.0")
    assert "# coefficient 1 of %3" in run(capsys, "show", "x*x", "x=3.0", "--transform", "taylor")
    assert "forwarddiff(f)(%2)" in run(capsys, "show", "x*x", "x=3.0", "--transform", "forwarddiff")
    assert "checkpoint(f)(%2)" in run(capsys, "show", "x*x", "x=3.0", "--transform", "checkpoint")
    assert "# batched over axis 0" in run(capsys, "show", "x*x", "x=3.0", "--transform", "batch")
    assert "# seed" in run(capsys, "show", "x*x", "x=3.0", "--grad")
    assert "%4, %5 = [%3] = rrule(multiply, %2, %2)" in run(capsys, "show", "x*x", "x=3.0", "--grad", "--format", "compact")
    table = run(capsys, "show", "x*x", "x=3.0", "--grad", "--format", "table").splitlines()
    assert table[1].split()[:2] == ["var", "operation"]


@pytest.mark.parametrize("command", ["trace", "grad", "show"])
def test_stages_are_printed_in_turn(capsys: pytest.CaptureFixture[str], command: str) -> None:
    out = run(capsys, command, "x*x", "x=3.0", "--stages")
    places = [out.index(title) for title in ("1. primal tape", "2. triples", "3. gradient tape", "4. flat tape")]
    assert places == sorted(places) and out.count("f: 1 input, ") == 4
    assert "rrule" not in out[:places[1]] and "rrule" not in out[places[3]:] and "seed" in out[places[2]:places[3]]


def test_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "grad", "x*x", "x=[1, 2]", "--seed", "[1, 0]") == "value = [1., 4.]\ndx    = [2., 0.]\n"
    assert run(capsys, "grad", "x*x", "x=2.0", "--seed", "-1.5").endswith("dx    = -6.0\n")
    assert "-1.5" in run(capsys, "show", "x*x", "x=2.0", "--grad", "--seed=-1.5")


def test_functions_of_modules(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    plain = run(capsys, "grad", "cliprog:f", "2.0", "3.0")
    assert plain == "value = 0.18181818181818182\nda    = 0.0743801652892562\ndb    = -0.09917355371900827\n"
    assert run(capsys, "grad", "cliprog:f", "2.0", "b=3.0") == plain
    assert run(capsys, "grad", "cliprog:f", "2.0", "3.0", "scale=2.0").startswith("value = 0.36363636363636365\nda ")
    assert run(capsys, "grad", "cliprog:f", "2.0", "3.0", "4.0").splitlines()[3] == "drest[0] = 0.0"
    assert run(capsys, "grad", "clipkg.mod:g", "2.0", "-3.0") == "value = -6.0\ndx    = -3.0\ndy    = 2.0\n"
    assert run(capsys, "grad", "cliprog:Model.loss", "3.0") == "value = 9.0\ndx    = 6.0\n"
    assert "cliprog.py:4" in run(capsys, "show", "cliprog:f", "2.0", "3.0", "--grad")


def test_nested_arguments_and_captured_values(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    out = run(capsys, "grad", "cliprog:total", "{'w': [1, 2]}", "[0, 0]")
    assert out == "value   = 0.0\ndparams = {'w': array([0., 0.])}\ndx      = [1., 2.]\n"
    assert run(capsys, "grad", "cliprog:inner", "2.0") == "value = 6.0\ndf    = {'k': 2.0}\ndx    = 3.0\n"


def test_functions_written_in_c(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "grad", "numpy:exp", "0.0").startswith("value = 1.0\nd")
    assert run(capsys, "grad", "math:sin", "0.0") == "value = 0.0\ndx    = 1.0\n"


@pytest.mark.parametrize(("argv", "words"), [
    ([], ["required"]), (["fly"], ["there is no command 'fly' (see"]), (["gard", "x"], ["there is no command 'gard'; did you mean 'grad'?"]), (["grad"], ["required: what"]),
    (["show", "x", "x=1", "--format", "html"], ["'html'", "compact"]),
    (["grad", "x*y", "x=2"], ["y in 'x*y' has no value", "y=1.0"]), (["grad", "u*sin(v)", "x=2"], ["u and v in"]),
    (["grad", "x*+*y", "x=2"], ["'x*+*y' does not parse", "column 4"]), (["grad", "x = 3"], ["does not parse"]), (["grad", ""], ["does not parse"]),
    (["grad", "x", "x=foo"], ["x: 'foo' is not a value"]), (["grad", "x", "x=[[1, 2], [3]]"], ["not a value"]),
    (["grad", "x", "x="], ["x: '' is not a value"]),
    (["grad", "x*x", "x=2", "--seed", "foo"], ["--seed: 'foo'"]), (["grad", "x", "2"], ["by name", "name=2"]),
    (["grad", "x", "x=1", "x=2"], ["'x' is given twice"]), (["grad", "x", "class=1"], ["'class' cannot be"]),
    (["grad", "x*x", "x=[1, 2]"], ["needs a seed", "try: "]), (["grad", "x > 0", "x=1.0"], ["no gradient"]),
    (["grad", "x + None", "x=1.0"], ["TypeError", "<expression>:1: x + None"]),
    (["grad", "1 / 0"], ["ZeroDivisionError: division by zero; at <expression>:1"]),
])
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], argv: list[str], words: list[str]) -> None:
    line = fail(capsys, *argv)
    assert all(word in line for word in words), line


@pytest.mark.parametrize(("argv", "words"), [
    (["file.py:f"], ["there is no file 'file.py'"]), (["file.py"], ["there is no file 'file.py'"]),
    (["cliprog.py", "2.0"], ["which function of cliprog.py? It has f, total"]), (["cliprog.py:g", "2.0"], ["cliprog.py has no function 'g'"]), (["no_such_module:f"], ["there is no module 'no_such_module'"]), (["clipkg.nothing:f"], ["there is no module 'clipkg.nothing'"]),
    (["cliprog:totl"], ["cliprog has no function 'totl'; it has total"]), (["cliprog:constant"], ["cliprog:constant is not a function", "int"]),
    (["cliprog:Model.gain"], ["no function 'Model.gain'"]),
    (["clibad:f"], ["clibad cannot be imported: SyntaxError", "clibad.py:1"]),
    (["climissing:f"], ["climissing cannot be imported: ModuleNotFoundError: No module named 'no_such_module_at_all'; at climissing.py:1"]),
    (["clicrash:f"], ["clicrash cannot be imported: ZeroDivisionError: division by zero; at clicrash.py:1"]),
    (["cliprog:f"], ["cliprog:f(a, b=1.0, *rest, scale=1.0): missing a required argument: 'a'"]),
    (["cliprog:f", "1.0", "c=2.0"], ["unexpected keyword argument 'c'"]), (["cliprog:f", "a=1.0", "2.0"], ["the value 2.0 follows a named"]),
    (["cliprog:f", "[1, 2"], ["argument 1: '[1, 2' is not a value"]),
    (["cliprog:inverse", "2.0"], ["LinAlgError: Singular matrix; at cliprog.py:10: return np.linalg.inv"]),
    (["cliprog:unknown", "[1, 2]"], ["packbits cannot be recorded", "at cliprog.py:13: return np.packbits(x)", "try: "]),
    (["cliprog:positive", "-1.0"], ["ValueError: x must be positive, got -1.0; at cliprog.py:18"]),
    (["cliprog:silent", "1.0"], ["tapegrad: RuntimeError; at cliprog.py:21: raise RuntimeError"]),
])
@pytest.mark.parametrize("command", ["trace", "grad", "show"])
def test_errors_of_modules(capsys: pytest.CaptureFixture[str], folder: Path, command: str, argv: list[str], words: list[str]) -> None:
    line = fail(capsys, command, *argv)
    assert all(word in line for word in words), line


def test_the_traceback_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", "1 / 0", "--traceback"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == f"tapegrad {__version__}\n"
    assert EXAMPLES in run(capsys, "--help")
    for command in COMMANDS:
        assert f"examples:\n{command.examples}" in run(capsys, command.name, "--help") and command.summary in run(capsys, "-h").replace("\n" + " " * 14, " ")


def test_literals() -> None:
    assert literal("2", "x") == 2 and literal(" 'text' ", "x") == "text" and literal("['a', 'b']", "x") == ["a", "b"]
    np.testing.assert_array_equal(literal("[1+2j, 3]", "x"), [1 + 2j, 3])
    nested = literal("{'w': [1, 2], 'b': (0.5, [True])}", "x")
    assert nested["w"].dtype == float and nested["b"][0] == 0.5 and nested["b"][1].dtype == float


def test_a_leading_minus_is_no_option() -> None:
    assert guard_dashes(["-x*x", "-1e-3", "--seed", "-2", "-h", "--", "x"]) == [" -x*x", " -1e-3", "--seed", " -2", "-h", "--", "x"]


def test_from_a_shell(folder: Path) -> None:
    def tapegrad(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "tapegrad", *argv], capture_output=True, text=True, check=False, env={**os.environ, **env})
    done = tapegrad("grad", "a / (a + b*b)", "a=2", "b=3")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("value = 0.1818")
    done = tapegrad("show", "clipkg.mod:g", "2.0", "3.0", "--grad", "--format", "table", PYTHONIOENCODING="ascii", COLUMNS="60")
    assert done.returncode == 0 and done.stdout.isascii() and "pullback of %5" in done.stdout
    done = tapegrad("grad", "x*y", "x=2")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1


def test_a_reader_that_stops_early_is_no_error() -> None:
    argv = [sys.executable, "-m", "tapegrad", "show", "sum([x*i for i in range(20000)])", "x=1.0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_function_of_a_file(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "clisub").mkdir()
    (folder / "clisub" / "clione.py").write_text("from clihelp import k\n\ndef f(x):\n    return k * x\n\ndef _own(x):\n    return x\n")
    (folder / "clisub" / "clihelp.py").write_text("k = 3.0\n")
    told = "value = 6.0\ndx    = 3.0\n"
    assert run(capsys, "grad", "clisub/clione.py", "2.0") == told
    assert run(capsys, "grad", "clisub/clione.py:f", "2.0") == told
    assert run(capsys, "grad", str(folder / "cliprog.py") + ":f", "2.0", "3.0").startswith("value = 0.18")


@pytest.mark.parametrize(("text", "value"), [("np.pi", np.pi), ("1/2", 0.5), ("-sqrt(2)", -np.sqrt(2)), ("2**0.5", 2**0.5)])
def test_a_value_may_be_an_expression(capsys: pytest.CaptureFixture[str], text: str, value: float) -> None:
    assert run(capsys, "grad", "x * 1.0", f"x={text}") == f"value = {value}\ndx    = 1.0\n"
    assert "1/0' is not a value (ZeroDivisionError: division by zero)" in fail(capsys, "grad", "x", "x=1/0")


def test_the_source_is_the_program_s_whatever_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "x*x + x" in run(capsys, "show", "x*x + x", "x=1/2", "--grad", "--seed", "1/3", "--format", "steps")


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = run(capsys, "doctor")
    assert f"tapegrad {__version__}" in out and f"numpy     {np.__version__}" in out and "torch     yes: cpu" in out and "missing" not in out
    monkeypatch.setattr("tapegrad.cli.doctor._version", lambda name: "" if name in ("torch", "scipy") else "1.0")
    out = run(capsys, "doctor")
    assert 'scipy     missing' in out and 'pip install "tapegrad[scipy]"' in out and 'torch     no: pip install "tapegrad[torch]"' in out
