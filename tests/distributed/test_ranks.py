"""tg.distributed on 2 and 4 processes, and on one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.distributed.launch import ENVIRONMENT, GLOO, printed, separately

needs_gloo = pytest.mark.skipif(not GLOO, reason="torch was built without gloo")
X, Y, W = np.arange(8.0).reshape(4, 2), np.ones(4), np.ones(2)


def mean(w: Any, X: Any, y: Any) -> Any:
    return np.mean((X @ w - y) ** 2)


@needs_gloo
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_on_ranks(tmp_path: Path) -> None:
    print(printed("-m", "tests.distributed.run_checks", "2", "4", CHECKS=str(tmp_path)))


PROGRAM = """
import numpy as np
import tapegrad as tg

rng = np.random.default_rng(0)
X = rng.standard_normal((1000, 5))
y = np.tanh(X @ np.arange(5.0)) + 0.1 * rng.standard_normal(1000)

def loss(w, X, y):
    return np.mean((np.tanh(X @ w) - y) ** 2)

step = tg.value_and_grad(loss)
w = np.zeros(5)
for i in range(20):
    value, dw = step(w, X, y)
    w -= 0.5 * dw
print(f"{value:.12f} {np.round(w, 10)}\\n", end="")
"""


@needs_gloo
def test_one_changed_line(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    plain = printed(str(file))
    file.write_text(PROGRAM.replace("tg.value_and_grad(loss)", 'tg.distributed.value_and_grad(loss, batch=("X", "y"), reduction="mean")'))
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); assert 'torch' not in sys.modules"
    assert printed("-c", code, str(file)) == plain
    assert printed("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(file)) == 2 * plain


LOST = """
import os, sys, time
import numpy as np
import tapegrad as tg

step = tg.distributed.value_and_grad(lambda w, x: np.sum(w * x), batch="x", timeout=float(sys.argv[2]))
for i in range(50):
    if i == 20 and tg.distributed.rank() == 1:
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), 9)
        time.sleep(60)
    value, dw = step(2.0 + i, np.ones(8))
    assert (value, dw) == (8 * (2.0 + i), 8.0)
"""


@needs_gloo
@pytest.mark.parametrize(("how", "timeout"), [("killed", 60), ("hangs", 3)])
def test_a_rank_that_is_lost(how: str, timeout: int) -> None:
    start = time.monotonic()
    ranks = separately(2, "-c", LOST, how, str(timeout))
    try:
        out = ranks[0].communicate(timeout=50)[0]
        assert ranks[0].returncode == 1 and "DistributedError: rank 0: the sum with the other 1 ranks failed: one has ended" in out
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    assert time.monotonic() - start < 50


LATE = """
import sys, time
import numpy as np
import tapegrad as tg

step = tg.distributed.value_and_grad(lambda w, x: np.sum(w * x), batch="x", timeout=3.0)
time.sleep(10 * tg.distributed.rank())
for _ in range(2):
    try:
        step(2.0, np.ones(8))
    except tg.distributed.DistributedError as err:
        print(err.what)
"""


@needs_gloo
def test_a_rank_that_is_late_at_the_first_call() -> None:
    """Whoever waits is told so, and so is the late one; no later call gets a number either."""
    ranks = separately(2, "-c", LATE)
    try:
        for number, process in enumerate(ranks):
            out = process.communicate(timeout=50)[0]
            first, second = (line for line in out.splitlines() if "rank" in line and "sum" in line)
            assert f"rank {number}: the sum with the other 1 ranks failed: one has ended, or did not arrive within 3 s" in first
            assert "an earlier sum over ranks failed" in second and process.returncode == 0, out
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


RUN = """
import os, sys
import numpy as np
import tapegrad as tg

folder, last = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))

def chunks():
    for i in range(0, 40, 10):
        if (step, i) == (last, 20):
            os.kill(os.getpid(), 9)
        yield X[i:i + 10]

f = tg.distributed.value_and_grad(lambda w, X: np.mean(np.sin(X @ w) ** 2), batch="X", reduction="mean")
run = tg.distributed.Checkpoint(folder + "/run.npz")
step, w = run.load((0, np.ones(3)))
while step < 6:
    value, dw = f.accumulate(chunks(), w, checkpoint=folder + "/sums")
    step, w = step + 1, w - 0.1 * dw
    run.save((step, w))
print(value.hex(), w.tobytes().hex())
"""


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    def run(folder: Path, last: int) -> subprocess.CompletedProcess[str]:
        folder.mkdir(exist_ok=True)
        return subprocess.run([sys.executable, "-c", RUN, str(folder), str(last)], capture_output=True, text=True, env=ENVIRONMENT)
    assert run(tmp_path / "a", 3).returncode == -signal.SIGKILL
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"run.npz", "sums.0of1"}
    resumed, whole = run(tmp_path / "a", -1), run(tmp_path / "b", -1)
    assert resumed.stdout == whole.stdout != "", resumed.stderr


@pytest.mark.quick
def test_alone_it_is_value_and_grad() -> None:
    step = tg.distributed.value_and_grad(mean, batch=("X", "y"), reduction="mean")
    for scale in (1.0, 2.0, 3.0):
        found, wanted = step(scale * W, X, Y), tg.value_and_grad(mean)(scale * W, X, Y)
        assert found[0] == wanted[0] and np.array_equal(found[1], wanted[1])
    assert (tg.distributed.rank(), tg.distributed.size()) == (0, 1)


@pytest.mark.parametrize(("options", "match"), [
    ({"batch": ()}, "names no argument"), ({"batch": ("X", "X")}, "names an argument twice"),
    ({"batch": "Z"}, r"mean has no argument 'Z'(?s:.*)w, X, y"), ({"batch": "X", "reduction": "max"}, "reduction is 'max'"),
    ({"batch": "w"}, "names a batch argument"), ({"batch": "X", "argnums": None}, "argnums is None"),
    ({"batch": "X", "argnums": (0, 1)}, "names a batch argument"), ({"batch": "y", "argnums": -1}, "from the last")])
def test_options_that_cannot_be(options: dict[str, Any], match: str) -> None:
    with pytest.raises(tg.ArgumentError, match=match) as caught:
        tg.distributed.value_and_grad(mean, **options)
    assert "tg.distributed.value_and_grad" in str(caught.value) and "try:" in str(caught.value)


@pytest.mark.parametrize(("chunk", "match"), [
    (X, "a chunk has 1 parts"), ((X, 1.0), "'y' of mean has a value without rows"), ((X, Y[:2]), r"arrays of \[2, 4\] rows")])
def test_chunks_that_cannot_be(chunk: Any, match: str) -> None:
    step = tg.distributed.value_and_grad(mean, batch=("X", "y"), reduction="mean")
    with pytest.raises(tg.ArgumentError, match=match):
        step.accumulate([chunk], W)


def test_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    path.write_text("something else")
    kept = tg.distributed.Checkpoint(path)
    with pytest.raises(tg.TapeFormatError, match="is not a checkpoint"):
        kept.load(W)
    kept.save({"w": W})
    with pytest.raises(tg.ArgumentError, match="other shapes"):
        kept.load({"w": np.zeros(3)})
    assert [*tmp_path.iterdir()] == [path]
    assert np.array_equal(kept.load({"w": np.zeros(2)})["w"], W)


def test_a_file_of_an_array_on_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    X_on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    step = tg.distributed.value_and_grad(mean, batch=("X", "y"), reduction="mean")
    for found in (step(W, X_on_disk, Y), step.accumulate([(X_on_disk, Y)], W)):
        np.testing.assert_allclose(found[1], tg.value_and_grad(mean)(W, X, Y)[1])
