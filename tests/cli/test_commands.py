"""The commands that work on saved tapes, those that write files, completion, and what is printed while work takes long."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.cli import main
from tapegrad.cli.completion import bash, entries, fish, zsh
from tapegrad.cli.look import exports
from tapegrad.cli.parser import COMMANDS, make_parser
from tests.cli.test_cli import fail, run
from tests.golden.programs import f

OFFERED = [command.name for command in COMMANDS]

MODULE = """\
import dataclasses
import numpy as np

@dataclasses.dataclass
class Model:
    w: object

def double(x):
    return 2 * x

def apply(x, model):
    return (model.w * x).sum()

def masked(x):
    return np.where(x > 0, np.sqrt(x) / x, 0.0).sum()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a module and saved tapes in it."""
    (tmp_path / "commandmod.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "commandmod", raising=False)
    tg.trace(f, 2.0, 3.0)[1].save("f.tape")
    tg.gradtape(f, 2.0, 3.0).save("df.tape")
    return tmp_path


def test_what_is_offered() -> None:
    assert {"explain", "find", "step", "profile", "diff"} <= set(OFFERED)
    assert set(exports()) == {"plain", "json", "python", "dot", "svg", "html", "c", "header"}
    with pytest.raises(SystemExit):
        make_parser().parse_args(["--help"])


def test_save_then_show_play_and_grad(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run(capsys, "save", "a / (a + b*b)", "a=2", "b=3", "-o", "e.tape") == ""
    assert run(capsys, "show", "e.tape") == run(capsys, "show", "a / (a + b*b)", "a=2", "b=3")
    assert run(capsys, "show", "e.tape", "--stages") == run(capsys, "show", "a / (a + b*b)", "a=2", "b=3", "--stages")
    assert run(capsys, "show", "e.tape", "--grad", "--format", "compact") == run(capsys, "show", "a / (a + b*b)", "a=2", "b=3", "--grad", "--format", "compact")
    assert run(capsys, "play", "e.tape") == "value = 0.18181818181818182\n"
    assert run(capsys, "play", "e.tape", "4", "5.0") == f"value = {4 / 29}\n"
    assert run(capsys, "grad", "f.tape") == run(capsys, "grad", "a / (a + b*b)", "a=2.0", "b=3.0")
    assert run(capsys, "grad", "f.tape", "4.0", "5.0") == run(capsys, "grad", "a / (a + b*b)", "a=4.0", "b=5.0")
    assert run(capsys, "grad", "df.tape", "4.0", "5.0") == run(capsys, "play", "df.tape", "4.0", "5.0") == run(capsys, "grad", "f.tape", "4.0", "5.0")
    assert run(capsys, "save", "f.tape", "--flat", "--small", "-o", "flat.tape") == ""
    assert run(capsys, "play", "flat.tape", "4.0", "5.0") == run(capsys, "grad", "f.tape", "4.0", "5.0")


def test_arguments_by_name_and_captured_ones(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    gain = 3.0
    tg.gradtape(lambda x, *, scale: x * scale * gain, 2.0, scale=5.0).save("named.tape")
    assert run(capsys, "play", "named.tape") == "value = 30.0\ndx    = 15.0\n"
    assert run(capsys, "play", "named.tape", "1.0", "scale=2.0") == "value = 6.0\ndx    = 6.0\n"
    assert "recorded with 2 arguments (x, scale=), but got 1" in fail(capsys, "play", "named.tape", "1.0")


def test_classes_of_a_saved_tape_are_named(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    import commandmod  # type: ignore[import-not-found]
    tg.trace(commandmod.apply, np.ones(2), commandmod.Model(np.ones(2)))[1].save("model.tape")
    assert "model.tape: the tape uses commandmod:Model, which was not passed; try: tg.load(" in fail(capsys, "show", "model.tape")
    assert run(capsys, "play", "model.tape", "--with", "commandmod:Model") == "value = 2.0\n"
    assert "has no function 'Modell'; it has Model" in fail(capsys, "show", "model.tape", "--with", "commandmod:Modell")


@pytest.mark.parametrize(("argv", "words"), [
    (["show", "none.tape"], ["there is no file 'none.tape'"]), (["show", "damaged.tape"], ["damaged.tape: the file is damaged"]),
    (["show", "text.tape"], ["text.tape: this is not a saved tape: it does not begin with tapegrad-tape"]),
    (["show", "f.tape", "2.0"], ["shown as it was recorded", "play runs it"]), (["trace", "f.tape"], ["has been traced"]),
    (["play", "x*x", "x=2"], ["play runs a saved tape"]), (["play", "f.tape", "2.0"], ["recorded with 2 arguments (a, b)"]), (["grad", "f.tape", "[1, 2]", "3.0"], ["was a number"]),
    (["export", "f.tape"], ["required: --to"]), (["export", "f.tape", "--to", "pdf"], ["invalid choice: 'pdf'"]),
    (["save", "x*x", "x=2", "-o", "no/folder/f.tape"], ["FileNotFoundError"]), (["export", "f.tape", "--to", "plain", "-o", "no/folder/f.txt"], ["FileNotFoundError"]),
    (["completion", "tcsh"], ["invalid choice: 'tcsh'"]), (["completion"], ["required: shell"]), (["check"], ["required: what"]), (["check", "x*x", "x=1.0", "--order", "3"], ["invalid choice: 3"]),
    (["show", "f.tape", "--width", "wide"], ["invalid int value: 'wide'"]),
])
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], folder: Path, argv: list[str], words: list[str]) -> None:
    (folder / "damaged.tape").write_bytes((folder / "f.tape").read_bytes()[:-3])
    (folder / "text.tape").write_text("hello")
    line = fail(capsys, *argv)
    assert all(word in line for word in words), line


def test_a_tape_is_known_by_how_it_begins(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    os.rename("f.tape", "x")
    assert run(capsys, "show", "x").startswith("f: 2 inputs")
    (folder / "y").write_text("no tape")
    assert run(capsys, "grad", "y", "y=2.0") == "value = 2.0\ndy    = 1.0\n"


def test_standard_input_and_output(capsysbinary: pytest.CaptureFixture[bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tapegrad(*argv: str, given: bytes = b"") -> bytes:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        assert main([*argv]) == 0
        return capsysbinary.readouterr().out
    saved = tapegrad("save", "x * x", "x=3", "-o", "-")
    assert tapegrad("play", "-", "4.0", given=saved) == b"value = 16.0\n"
    assert tapegrad("show", "-", given=saved) == tapegrad("show", "x * x", "x=3")
    assert tapegrad("save", "-", "--grad", given=saved) and tapegrad("export", "-", "--to", "plain", given=saved) == tapegrad("show", "x * x", "x=3")
    done = subprocess.run([sys.executable, "-m", "tapegrad", "show", "-"], input=b"junk", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"") and done.stderr.startswith(b"tapegrad: standard input: this is not a saved tape")


@pytest.mark.parametrize("to", list(exports()))
def test_export(capsys: pytest.CaptureFixture[str], folder: Path, to: str) -> None:
    assert run(capsys, "export", "df.tape", "--to", to, "-o", "out") == ""
    text = (folder / "out").read_text()
    assert run(capsys, "export", "df.tape", "--to", to) == text.rstrip("\n") + "\n"
    if to == "json":
        found = json.loads(text)
        assert found["format"] == "tapegrad-tape 1" and found["name"] == "f" and len(found["kinds"]) == len(tg.load("df.tape"))
    assert run(capsys, "export", "a / (a + b*b)", "a=2", "b=3", "--flat", "--to", to)


def test_check(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run(capsys, "check", "sin(x) ** 2 * y", "x=0.5", "y=[1, 2]", "--order", "2") == "dx, dy: as central differences, and the gradient's own gradient\n"
    assert run(capsys, "check", "f.tape") == "f: 6 operations, well-formed\n"
    assert run(capsys, "check", "f.tape", "4.0", "5.0") == "da, db: as central differences\n"
    assert main(["check", "floor(x) * 1.0", "x=2.0"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("tapegrad: the gradient differs from central differences: ") and err.count("\n") == 1


@pytest.mark.parametrize("name", OFFERED)
def test_the_examples_of_the_help_work(capsys: pytest.CaptureFixture[str], folder: Path, name: str) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "mod.py").write_text("import numpy as np\n\ndef function(x, y):\n    return (x * np.sin(y)).sum()\n\nloss = function\n")
    for copy in ("saved", "before", "after"):
        shutil.copy("f.tape", f"{copy}.tape")
    for line in next(command for command in COMMANDS if command.name == name).examples.splitlines():
        if set(line) & set("|<>$(") - set("(") or "<(" in line or name == "step":
            done = subprocess.run(["bash", "-c", f"set -e -o pipefail; tapegrad() {{ {sys.executable} -m tapegrad \"$@\"; }}; {line.replace('fish | source', 'fish')}"],
                                  input=b"q\n" if name == "step" else (folder / "f.tape").read_bytes(), capture_output=True, check=False)
            assert (done.returncode, done.stderr) == (0, b""), (line, done.stderr)
        else:
            run(capsys, *shlex.split(line)[1:])


# -- what others of tapegrad's functions do


@pytest.mark.parametrize("argv", [
    ["explain", "commandmod:masked", "[0, 1]"], ["explain", "f.tape"], ["find", "nan", "commandmod:masked", "[0, 1]"], ["find", "inf", "f.tape"],
    ["profile", "x * sin(x)", "x=0.5"], ["profile", "f.tape", "4.0", "5.0"], ["profile", "x * sin(x)", "x=0.5", "--grad", "--speedscope", "-"],
    ["diff", "f.tape", "df.tape"]], ids=" ".join)
def test_what_is_offered_prints(capsys: pytest.CaptureFixture[str], folder: Path, argv: list[str]) -> None:
    with np.errstate(all="ignore"):
        out = run(capsys, *argv)
    assert out.strip()
    if "--speedscope" in argv:
        assert "shared" in json.loads(out)


def test_what_find_looks_for_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is -inf: log(0.0)" in run(capsys, "find", "inf", "np.log(x)", "x=0.0")


def test_step_is_driven_by_its_input(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tapegrad", "step", "f.tape"], input=b"n\nn\nq\n", capture_output=True, check=True)
    assert b"multiply" in done.stdout and done.stderr == b""


@pytest.mark.parametrize("argv", [["--format", "tree"], ["--format", "mirror"], ["--format", "summary"], ["--group", "line"]], ids=" ".join)
def test_the_formats_of_show(capsys: pytest.CaptureFixture[str], folder: Path, argv: list[str]) -> None:
    assert "programs.py" in run(capsys, "show", "df.tape", *argv, "--width", "100")


# -- completion


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_completion_knows_every_command_and_option(capsys: pytest.CaptureFixture[str], shell: Any) -> None:
    script = run(capsys, "completion", shell.__name__)
    assert script == shell(list(entries(make_parser())))
    for entry in entries(make_parser()):
        assert entry.name in script
        for word in entry.words:
            assert word.flag.lstrip("-") in script and all(choice in script for choice in word.choices)


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last word."""
    script = bash(list(entries(make_parser())))
    ask = f"{script}\nCOMP_WORDS=({' '.join(map(repr, words))})\nCOMP_CWORD={len(words) - 1}\n_tapegrad\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    return subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(folder: Path) -> None:
    assert completed("tapegrad", "tr") == ["trace"] and set(OFFERED) <= set(completed("tapegrad", ""))
    assert completed("tapegrad", "grad", "--se") == ["--seed"] and "--seed" not in completed("tapegrad", "coverage", "--")
    assert completed("tapegrad", "show", "--format", "comp") == ["compact"] and "html" not in completed("tapegrad", "completion", "")
    assert completed("tapegrad", "completion", "z") == ["zsh"] and completed("tapegrad", "show", "f.ta") == ["f.tape"]
    assert "json" in completed("tapegrad", "export", "f.tape", "--to", "")


@pytest.mark.parametrize("shell", [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)])
def test_the_scripts_parse(capsys: pytest.CaptureFixture[str], tmp_path: Path, shell: str) -> None:
    (tmp_path / "script").write_text(run(capsys, "completion", shell))
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, capture_output=True)


# -- light imports


def test_nothing_heavy_is_imported() -> None:
    code = """
import contextlib, sys
from tapegrad.cli import main
for line in ("grad x*x x=2", "completion bash", "show --help", "grad --help", "--help"):
    with contextlib.suppress(SystemExit):
        main(line.split())
    assert not {"torch", "rich", "scipy", "networkx", "jax"} & set(sys.modules), line
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


TORCH = """\
import torch
net = torch.nn.Linear(2, 1)
x = torch.tensor([[1.0, 2.0]])

def loss(m, x):
    return m(x).square().sum()
"""


def test_a_program_of_torch_s_takes_what_a_module_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "torchmod.py").write_text(TORCH)
    given = ["torchmod:loss", "torchmod:net", "torchmod:x"]
    found = run(capsys, "grad", *given)
    assert "dm    = {'weight': tensor" in found and "dx    = tensor" in found
    assert "input m.weight" in run(capsys, "trace", *given) and "gradient of m.bias" in run(capsys, "show", *given, "--grad")
    for command in ("explain", "profile"):
        assert "torchmod.py:6" in run(capsys, command, "torchmod:loss", "m=torchmod:net", "x=torchmod:x")
    assert "torch.nn.Module" in fail(capsys, "save", *given, "-o", "net.tape")
    assert "gradcheck" in fail(capsys, "check", *given)
    assert "torchmod has nothing called 'nett'; it has net" in fail(capsys, "grad", "torchmod:loss", "torchmod:nett", "torchmod:x")
