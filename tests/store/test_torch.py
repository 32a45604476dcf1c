"""Tapes of torch's functions in files: each of the tables is read as it was written, or refused when it is saved."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

import tapegrad as tg
from tapegrad.errors import TapeFormatError
from tapegrad.frontends.torch.collective import nothing
from tapegrad.rules.registry import FRONTEND_OPS
from tapegrad.store.read import from_bytes
from tapegrad.store.write import to_bytes
from tests.frontends.torch.nn import table
from tests.frontends.torch.table import total

X = torch.linspace(0.2, 0.9, 12, dtype=torch.float64).reshape(4, 3)


def rewritten(x: Any) -> Any:
    y = x * 2
    y.data.mul_(3.0)
    return y * x


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """Be the only process of a group, for collectives."""
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


def exchanged(x: Any) -> Any:
    y, out = x.sin(), torch.empty_like(x)
    dist.all_reduce(y)
    dist.broadcast(y, 0)
    dist.reduce(y, 0)
    for collective in (dist.all_gather_into_tensor, dist.all_to_all_single, dist.reduce_scatter_tensor):
        collective(out, y)
        y = out * y
    return y


OTHERS: dict[str, Any] = {
    "collectives": exchanged,
    "dropout": lambda x: F.dropout(x, 0.5) * F.dropout2d(x[None, None]), "zeros": lambda x: torch.zeros(3, dtype=torch.float64) + x,
    "ones and full": lambda x: torch.ones(3) * x + torch.full((3,), 2.0), "arange": lambda x: torch.arange(3) * x,
    "linspace": lambda x: torch.linspace(0, 1, 3) * x, "eye": lambda x: x @ torch.eye(3, dtype=torch.float64),
    "new_zeros": lambda x: x.new_zeros(3) + x, "to an array and back": lambda x: torch.from_numpy(x.numpy()) * x, "to": lambda x: x.to(torch.float32) * 2,
    "a weight": lambda x: F.mse_loss(x, x.detach() * 2, weight=X[0].expand(4, 3)), "batch_norm": lambda x: torch.nn.BatchNorm1d(3, dtype=torch.float64)(x) ** 2,
    "logspace": lambda x: torch.logspace(0, 1, 3) * x, "windows": lambda x: torch.hann_window(3) * x + torch.hamming_window(3),
    "indices": lambda x: x[tuple(torch.tril_indices(3, 3))] + x[tuple(torch.triu_indices(3, 3))],
    "dropouts": lambda x: F.dropout1d(x[None]) + F.dropout3d(x[None, None, None])[0, 0],
    "rewritten data": rewritten, "written": lambda x: torch.zeros_like(x).index_add_(0, torch.tensor([0, 1, 1, 2]), x),
}
CASES = {f"{name} {key}": case if isinstance(case, tuple) else (case, X) for name, rows in {**vars(table), "OTHERS": OTHERS}.items()
         if isinstance(rows, dict) and name.isupper() for key, case in rows.items()} | {"what no rank uses": (nothing, X)}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_tape_is_written_and_read(name: str) -> None:
    f, *args = CASES[name]
    tapes = [tg.trace(f, *args)[1]]
    with suppress(tg.TapeError):  # of what has no gradient
        tapes.append(tg.gradtape(lambda *xs: total(f(*xs)), *args))
    for tape in tapes:
        again, found = from_bytes(b"".join(to_bytes(tape))), list[Any]()
        for each in (tape, again):
            torch.manual_seed(0)
            found.append(each.play(*args))
        torch.testing.assert_close(found[1], found[0], equal_nan=True)


@pytest.mark.parametrize("name", ["copy_", "set_", "resize_as_", "module_load", "backward", "register_hook", "__ipow__"])
def test_functions_that_write_to_tensors_are_read_from_no_file(name: str) -> None:
    content = b"".join(to_bytes(tg.trace(lambda x, y: F.cosine_similarity(x, y, dim=0), X, X + 1)[1]))
    head, _, body = content.partition(b"\n")
    size = int(head.split()[2])
    columns = json.loads(body[:size])
    function = columns["functions"][0][2]
    assert columns["functions"] == [["torch function", "function", function]] and "cosine_similarity" in function
    columns["functions"][0][2] = f"torch.Tensor.{name}"
    with pytest.raises(TapeFormatError, match="torch function of tensors"):
        from_bytes(written(columns, body[size:]))
    columns["functions"][0][2] = function
    columns["kwargs"][0][1][0] = "out"
    with pytest.raises(TapeFormatError, match="writes to one of its arguments"):
        from_bytes(written(columns, body[size:]))


def written(columns: dict[str, Any], arrays: bytes) -> bytes:
    """Return a file that has a right checksum."""
    body = json.dumps(columns).encode() + arrays
    return b"%b 1 %d %d %b\n" % (b"tapegrad-tape", len(body) - len(arrays), len(arrays), hashlib.sha256(body).hexdigest().encode()) + body


def test_all_ops_of_the_frontend_are_written() -> None:
    seen = set()
    for f, *args in CASES.values():
        for make in (tg.trace, tg.gradtape):
            try:
                made: Any = make((lambda *xs, f=f: total(f(*xs))), *args)
            except (tg.TapeError, IndexError, UserWarning):
                continue
            for op in (made[1] if make is tg.trace else tg.optimise(made)).ops:
                seen.update(part.__name__ for part in (getattr(op, "fn", None), *getattr(op, "args", ())) if part in FRONTEND_OPS.values())
    layers = {name.removesuffix("_forward").removesuffix("_backward") for name in FRONTEND_OPS}
    assert layers == seen & layers, layers - seen


def test_another_process_reads_it(tmp_path: Path) -> None:
    tape = tg.gradtape(lambda x: F.embedding(torch.tensor([0, 2]), F.dropout(F.layer_norm(x, (3,)), 0.5) + torch.arange(3)).square().sum(), X)
    tape.save(tmp_path / "f.tape")
    torch.manual_seed(3)
    expected = tape.play(X)[1][1]
    code = f"""
import torch, tapegrad as tg
x = torch.linspace(0.2, 0.9, 12, dtype=torch.float64).reshape(4, 3)
tape = tg.load({str(tmp_path / "f.tape")!r})
torch.manual_seed(3)
print(tape.play(x)[1][1].tolist())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    torch.testing.assert_close(torch.tensor(eval(found.stdout), dtype=torch.float64), expected)


def test_a_generator_of_the_programs_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(TapeFormatError, match=r"a torch.Generator|a function of torch's"):
        to_bytes(tg.trace(lambda x: torch.randn(3, generator=generator) * x, X)[1])
