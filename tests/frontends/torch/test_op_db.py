"""A part of torch's own operator database, as bench/op_db.py runs all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import tapegrad as tg
from bench import op_db

# one of each kind: structseq results, lists in and out, keyword tensors, integers among the results, views, no gradient by an argument,
# random numbers, complex cotangents, functions in place
NAMES = [
    "add", "mul", "atan2", "special.xlog1py", "clamp", "max.reduction_with_dim", "sort", "topk", "cummax", "aminmax", "linalg.svd", "linalg.eigh",
    "linalg.slogdet", "linalg.lstsq", "svd", "stack", "hstack", "block_diag", "cartesian_prod", "meshgrid.list_of_tensors", "split", "unbind",
    "chunk", "tensor_split", "split_with_sizes_copy", "atleast_2d", "broadcast_tensors", "einsum", "gather", "scatter_add", "index_put",
    "index_add", "masked_scatter", "put", "take_along_dim", "unfold", "as_strided", "diagonal_scatter", "select_scatter", "squeeze", "unsqueeze",
    "transpose", "t", "expand", "view_as_complex", "complex", "polar", "fft.rfft", "fft.ihfft", "nn.functional.nll_loss",
    "nn.functional.binary_cross_entropy_with_logits", "nn.functional.soft_margin_loss", "nn.functional.multi_margin_loss",
    "nn.functional.batch_norm", "nn.functional.instance_norm", "native_batch_norm", "nn.functional.max_pool2d",
    "nn.functional.fractional_max_pool2d", "nn.functional.embedding_bag", "nn.functional.conv1d", "nn.functional.rrelu", "nn.functional.dropout",
    "bernoulli", "normal", "cdist", "logsumexp"]


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    for device in (torch.cuda, torch.xpu, torch.mtia):
        if not device.is_available():  # of a seed for a device that may come torch notes the stack, which takes longer than a sample
            monkeypatch.setattr(device, "manual_seed_all", lambda seed: None)
    yield
    torch.set_num_threads(count)


def test_ops_of_the_database_are_torchs(one_thread: None) -> None:
    chosen = op_db.ops(NAMES)
    missing = set(NAMES) - {op.name for op in chosen} - {op_db.op_name(op) for op in chosen}
    assert missing <= {"aminmax"}  # which some versions of torch have in another place
    outcomes = op_db.run(chosen, limit=2)
    assert [line for line in op_db.remarks(outcomes, verbose=False) if ": left out: " not in line] == []
    agreeing = [found for found in outcomes if found.verdict == "agrees"]
    assert len(agreeing) > 120 and {found.variant for found in agreeing} == set(op_db.VARIANTS)


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    grad = tg.grad

    def wrong(f: object, *args: object, **kwargs: object) -> object:
        value, (df, dx, *rest) = grad(f, *args, **kwargs)  # type: ignore[arg-type]
        return value, (df, dx * 1.001, *rest)
    monkeypatch.setattr(op_db.tg, "grad", wrong)
    (found,) = [found for found in op_db.run(op_db.ops(["sin"]), limit=1) if found.variant == "function"]
    assert found.verdict == "differs" and "gradient" in found.reason


def test_what_is_left_out_is_counted_with_its_reason() -> None:
    outcomes = op_db.run(op_db.ops(["to_sparse", "sparse.sampled_addmm"]), limit=2)
    assert {found.verdict for found in outcomes} == {"left out"} and all("sparse" in found.reason for found in outcomes)


def test_the_command_prints_counts_and_writes_json(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "op_db.json"  # type: ignore[operator]
    assert op_db.main(["sin", "--limit", "1", "--json", str(file)]) == 0
    assert "100.0%" in capsys.readouterr().out and '"agrees"' in file.read_text()
    with pytest.raises(SystemExit):
        op_db.main(["no such op"])
