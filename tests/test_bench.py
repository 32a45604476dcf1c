"""The benchmarks: objectives against loops, gradients against differences and peers, the reader, the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.__main__ import main
from bench.peers import PEERS
from bench.peers.peer import Peer
from bench.problems import PROBLEMS, gmm, recurrence
from bench.problems.problem import Problem
from bench.run import difference, measure, sweep
from tapegrad.testing import check_grads

SMALL = PROBLEMS["gmm"].made(d=3, K=4, n=5)
PRIOR = {**SMALL.data, "gamma": 1.3, "m": 2}


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def gmm_by_loops(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> float:
    """The objective as ADBench's C++ has it, number by number."""
    (n, d), K = x.shape, len(alphas)

    def logsumexp(values: list[float]) -> float:
        top = max(values)
        return top + math.log(sum(math.exp(value - top) for value in values))

    total = -n * d * 0.5 * math.log(2 * math.pi)
    for point in x:
        terms = []
        for k in range(K):
            centred = [point[i] - means[k, i] for i in range(d)]
            y = [math.exp(icf[k, i]) * centred[i] for i in range(d)]
            at = d
            for i in range(d):
                for j in range(i + 1, d):
                    y[j] += icf[k, at] * centred[i]
                    at += 1
            terms.append(alphas[k] + sum(icf[k, :d]) - 0.5 * sum(value ** 2 for value in y))
        total += logsumexp(terms)
    total -= n * logsumexp(list(alphas))

    degrees = d + m + 1
    log_gamma_distrib = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * degrees + 0.5 * (1 - j)) for j in range(1, d + 1))
    constant = degrees * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma_distrib
    for k in range(K):
        frobenius = sum(math.exp(q) ** 2 for q in icf[k, :d]) + sum(value ** 2 for value in icf[k, d:])
        total += 0.5 * gamma ** 2 * frobenius - m * sum(icf[k, :d])
    return float(total - K * constant)


@pytest.mark.parametrize("data", [SMALL.data, PRIOR, gmm.make(1, 2, 3), gmm.make(2, 1, 3)], ids=["ADBench's prior", "another", "d=1", "K=1"])
def test_gmm_is_what_loops_compute(data: dict[str, Any]) -> None:
    assert gmm.objective(**data) == pytest.approx(gmm_by_loops(**data), rel=1e-13)


def test_gmm_places_the_factors_column_by_column() -> None:
    Q = gmm.factors(np.array([[1.0, 2.0, 3.0]]), np.array([[4.0, 5.0, 6.0]]))
    np.testing.assert_allclose(Q, [[[1, 0, 0], [4, 2, 0], [5, 6, 3]]])


def test_gmm_gradient_by_differences() -> None:
    check_grads(lambda alphas, means, icf: gmm.objective(alphas, means, icf, PRIOR["x"], PRIOR["gamma"], PRIOR["m"]),
                *SMALL.args, rtol=1e-6)


@pytest.mark.parametrize("peer", [pytest.param(peer, id=peer.name) for peer in PEERS])
def test_gmm_gradient_by_every_peer(peer: Peer) -> None:
    try:
        value, found = peer.prepare(SMALL)()
    except ImportError as err:
        pytest.skip(str(err))
    expected, (_, *dargs) = tg.grad(gmm.objective, *SMALL.args, **SMALL.given)
    assert value == pytest.approx(expected, rel=1e-13)
    assert difference(found, dargs) < 1e-12


def test_gmm_reads_what_adbench_writes(tmp_path: Path) -> None:
    path = tmp_path / "gmm.txt"
    path.write_text(as_text(PRIOR))
    data = gmm.read(path)
    assert list(data) == list(PRIOR) and gmm.size_of(data) == {"d": 3, "K": 4, "n": 5}
    for name, value in PRIOR.items():
        np.testing.assert_array_equal(data[name], value)
    assert type(data["gamma"]) is float and type(data["m"]) is int


def test_gmm_refuses_a_file_of_another_length(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(as_text({**SMALL.data, "x": SMALL.data["x"][:1]}).replace("3 4 1", "3 4 5", 1))
    with pytest.raises(ValueError, match="need 60 numbers, and the file has 48"):
        gmm.read(path)


def as_text(data: dict[str, Any]) -> str:
    rows = [" ".join(map(str, gmm.size_of(data).values()))]
    for name in ("alphas", "means", "icf", "x"):
        rows += [" ".join(map(repr, row.tolist())) for row in np.atleast_2d(data[name].T).T]
    return "\n".join([*rows, f"{data['gamma']} {data['m']}"]) + "\n"


def test_recurrence_gradient() -> None:
    check_grads(lambda x: recurrence.objective(x, 1.0, 7), -0.5)


def test_difference_is_of_the_worst_part() -> None:
    ones = np.ones(4)
    assert difference([ones, 2.0], [ones, 2.0]) == 0.0
    assert difference([ones, 0.0], [ones, 0.0]) == 0.0
    assert difference([1e9 * ones, 2.5], [1e9 * ones, 2.0]) == 0.25
    assert difference([ones, 1.0], [ones, 0.0]) == math.inf
    assert difference([np.array([np.nan])], [np.ones(1)]) == math.inf
    assert difference([np.ones(3)], [ones]) == math.inf


def test_gmm_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, result = tmp_path / "tiny.txt", tmp_path / "result.json"
    data.write_text(as_text(SMALL.data))
    assert main(["gmm", "--data", str(data), "--repeats", "1", "--json", str(result)]) == 0
    shown = capsys.readouterr().out
    for text in ("d=3 K=4 n=5", "tiny.txt", "gradient norm", "tape length", "tapegrad grad", "tapegrad replay", "reference", "load"):
        assert text in shown
    record = json.loads(result.read_text())
    assert {"date", "versions", "cores", "load", "results"} <= record.keys()
    found, = record["results"]
    assert found["size"] == {"d": 3, "K": 4, "n": 5} and found["value"] == pytest.approx(gmm.objective(**SMALL.data))
    assert str(tmp_path) not in result.read_text()


def test_recurrence_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recurrence", "--size", "iterations=20", "--repeats", "1"]) == 0
    assert "iterations=20" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["gmm", "--million"], ["recurrence", "--data", "x"], ["nothing"], ["gmm", "--repeats", "0"], ["gmm", "--size", "d"],
                                  ["gmm", "--size", "k=2"], ["recurrence", "--million", "--size", "iterations=2"]])
def test_command_line_refuses(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2 and "error" in capsys.readouterr().err


def test_a_missing_peer_is_reported_and_a_wrong_one_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def absent(problem: Problem) -> Any:
        raise ImportError("no such library")

    def wrong(problem: Problem) -> Any:
        value, (_, *dargs) = tg.grad(problem.objective, *problem.args, **problem.given)
        return lambda: (value, tuple(1.001 * dx for dx in dargs))
    monkeypatch.setattr("bench.__main__.PEERS", [PEERS[0], Peer("absent", absent)])
    assert main(["gmm", "--size", "d=2", "K=2", "n=3", "--repeats", "1"]) == 0
    assert "absent not measured at d=2 K=2 n=3: no such library" in capsys.readouterr().out
    monkeypatch.setattr("bench.__main__.PEERS", [PEERS[0], Peer("wrong", wrong)])
    assert main(["gmm", "--size", "d=2", "K=2", "n=3", "--repeats", "1"]) == 1
    assert "wrong differs" in " ".join(capsys.readouterr().out.split())


def test_a_sweep_leaves_out_what_would_take_too_long() -> None:
    sizes = [{"iterations": 2}, {"iterations": 4}]
    first, second = sweep(PROBLEMS["recurrence"], sizes, PEERS, 1, quiet, patience=0.0)
    assert first.operations == 6 and second.operations == 12
    if "autograd" not in first.missing:
        assert "left out" in second.missing["autograd"]
    assert [row.name for row in second.gradients] == ["tapegrad grad"]


def test_a_run_without_peers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no peer can run gmm"):
        measure(SMALL, [], 1, quiet)
