"""The benchmarks: objectives against others, gradients against differences and peers, the readers, the processes, the tables."""

from __future__ import annotations

import inspect
import json
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import autograd
import numpy as np
import pytest

import tapegrad as tg
from bench import derivatives, memory, model_cases, options, run, tables, torch_models
from bench.__main__ import main
from bench.compare import difference
from bench.machine import Watch, cores, limited
from bench.peers import PEERS, native
from bench.peers.autograd import rebound
from bench.peers.peer import Missing, Peer
from bench.plot import plot
from bench.problems import ALL, FORMS, PROBLEMS, ba, gmm, hand, lstm
from bench.problems.problem import Problem
from bench.sweep import measure, sweep
from bench.team import ROOT, Ended, Worker
from tapegrad.testing import check_grads
from tests import objectives
from tests.golden.results import RESULTS

MLP = {"batch": 4, "inputs": 5, "hidden": 4, "hidden2": 3, "classes": 3}
SIZES = {"recurrence": {"iterations": 5}, "tr_mul": {"n": 3}, "rosenbrock": {"n": 5}, "mlp": MLP, "mlp32": MLP, "elementwise": {"n": 50},
         "gmm": {"d": 3, "K": 4, "n": 5}, "ba": {"n": 3, "m": 7, "p": 20}, "lstm": {"layers": 2, "characters": 5, "bits": 3},
         "gp": {"n": 6, "d": 2}, "rk4": {"steps": 3}, "fft_filter": {"n": 16}, "filling": {"n": 6}, "transformer": {"batch": 2, "length": 3, "width": 4, "heads": 2, "vocabulary": 5}}
SMALL = {name: problem.made(**SIZES.get(name, {})) for name, problem in PROBLEMS.items()}
GMM = SMALL["gmm"]
PRIOR = {**GMM.data, "gamma": 1.3, "m": 2}
REFUSED = {("filling", "autograd"): "setting an array element", ("filling", "jax"): "JAX arrays are immutable"}
COMPILED = ("tapegrad compiled", "tapegrad value_and_grad")
SLOW = "torch.compile"  # seconds for each problem: it is eager torch's objective, and runs in every benchmark


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


# -- the objectives


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_objective_is_what_another_program_computes(name: str) -> None:
    problem = SMALL[name]
    expected = getattr(objectives, name.removesuffix("32"))(**problem.data)
    tolerance = {"mlp32": 1e-6, "rk4": 1e-6, "transformer": 1e-6}.get(name, 1e-11)
    assert problem.objective(**problem.data) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("data", [PRIOR, gmm.make(1, 2, 3), gmm.make(2, 1, 3)], ids=["another prior", "d=1", "K=1"])
def test_gmm_at_its_edges(data: dict[str, Any]) -> None:
    assert gmm.objective(**data) == pytest.approx(objectives.gmm(**data), rel=1e-13)


def test_gmm_places_the_factors_column_by_column() -> None:
    Q = gmm.factors(np.array([[1.0, 2.0, 3.0]]), np.array([[4.0, 5.0, 6.0]]))
    np.testing.assert_allclose(Q, [[[1, 0, 0], [4, 2, 0], [5, 6, 3]]])


def test_a_filter_of_odd_length_by_hand() -> None:
    data = PROBLEMS["fft_filter"].make(15)
    agree(PROBLEMS["fft_filter"].made(n=15), PEERS["handwritten"])
    assert PROBLEMS["fft_filter"].objective(**data) == pytest.approx(objectives.fft_filter(**data), rel=1e-11)


def test_sizes_and_tolerances() -> None:
    for name, problem in SMALL.items():
        assert problem.size == SIZES.get(name, {}), name
        assert problem.default.keys() == problem.size.keys()
        assert {type(value) for value in problem.data.values()} <= {float, int, np.ndarray}, "what every peer can take"
        single = any(getattr(value, "dtype", None) == np.float32 for value in problem.data.values())
        assert problem.tolerance == (1e-5 if single else 1e-10)


# -- the gradients


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in ("mlp32", "transformer")])
def test_a_gradient_by_differences(name: str) -> None:
    problem = SMALL[name]
    check_grads(lambda *args: problem.objective(**dict(zip(problem.wrt, args)), **problem.given), *problem.args, rtol=1e-5)


def agree(problem: Problem, peer: Peer) -> None:
    """Check a peer's gradient; tapegrad's one-shot is what differences have been compared with."""
    reference = PEERS["tapegrad grad"].prepare(problem)
    expected, dargs = reference.read(reference.call())
    peer.ready(problem)
    gradient = peer.prepare(problem)
    for _ in range(2):  # what a peer keeps between calls must not show
        value, found = gradient.read(gradient.call())
        assert value == pytest.approx(expected, rel=max(1e-11, problem.tolerance / 10))
        assert difference(found, dargs) < max(1e-11, problem.tolerance)
        assert [np.asarray(dx).dtype for dx in found] == [np.asarray(x).dtype for x in problem.args]


@pytest.mark.parametrize("problem, peer", [pytest.param(problem, peer, id=f"{problem.name}-{peer.name}") for problem in SMALL.values()
                                           for peer in PEERS.values() if peer.fits(problem) and peer.name != SLOW])
def test_a_gradient_by_every_peer(problem: Problem, peer: Peer) -> None:
    try:
        peer.load()
    except (ImportError, Missing) as err:
        pytest.skip(str(err))
    if problem.module and peer.name in COMPILED and "device" not in inspect.signature(tg.compile).parameters:
        with pytest.raises(Missing, match="does not compile for torch yet"):
            peer.prepare(problem)
        return
    if (problem.name, peer.name) in REFUSED:
        with pytest.raises((TypeError, ValueError), match=REFUSED[problem.name, peer.name]):
            peer.prepare(problem).call()
        return
    before = {name: np.copy(value) for name, value in problem.data.items()}
    agree(problem, peer)
    for name, value in problem.data.items():
        np.testing.assert_array_equal(value, before[name])


def test_gradients_by_hand_are_not_views_of_arguments() -> None:
    for problem in filter(PEERS["handwritten"].fits, SMALL.values()):
        gradient = PEERS["handwritten"].prepare(problem)
        for dx in gradient.read(gradient.call())[1]:
            assert not any(np.shares_memory(dx, x) for x in problem.args), problem.name


@pytest.mark.parametrize("peer", ["tapegrad grad", "tapegrad value_and_grad", "autograd"])
@pytest.mark.parametrize("name", FORMS)
def test_a_form_has_the_gradient_of_its_problem(name: str, peer: str) -> None:
    problem = FORMS[name].made(**SIZES[name.partition(" ")[0]])
    if peer == "autograd" and name.endswith("(arrays)") and name != "rk4 (arrays)":
        with pytest.raises((TypeError, ValueError), match=r"setting an array element|item assignment|only"):
            PEERS[peer].prepare(problem).call()
        return
    reference, gradient = PEERS["handwritten"].prepare(problem), PEERS[peer].prepare(problem)
    for _ in range(4):
        expected, found = reference.read(reference.call()), gradient.read(gradient.call())
        assert found[0] == pytest.approx(expected[0], rel=1e-12) and difference(found[1], expected[1]) < 1e-11


def test_a_form_is_measured_by_its_peers_and_by_gradients_by_hand() -> None:
    fitting = {name for name, peer in PEERS.items() if peer.fits(FORMS["rk4 (method)"]) and not peer.optional}
    assert fitting == {"handwritten", "c++", "c++ module", "autograd", "jax", "tapegrad grad", "tapegrad compiled", "tapegrad value_and_grad"}


# -- C++


def native_or_skip(problem: Problem, peer: str = "c++") -> Any:
    try:
        PEERS[peer].ready(problem)
        return PEERS[peer].prepare(problem)
    except Missing as err:
        pytest.skip(str(err))


@pytest.mark.parametrize("name, size", [("elementwise", {"n": 1100}), ("gmm", {"d": 4, "K": 3, "n": 130}), ("gmm", {"d": 1, "K": 1, "n": 3}), ("rosenbrock", {"n": 1}),
                                        ("ba", {"n": 3, "m": 11, "p": 300}), ("lstm", {"layers": 3, "characters": 4, "bits": 9}), ("rosenbrock", {"n": 2})])
def test_blocks_in_cpp(name: str, size: dict[str, int]) -> None:
    problem = PROBLEMS[name].made(**size)
    found, reference = native_or_skip(problem), PEERS["handwritten"].prepare(problem)
    expected = reference.read(reference.call())
    for _ in range(2):
        value, dargs = found.read(found.call())
        assert value == pytest.approx(expected[0], rel=1e-12, abs=1e-12) and difference(dargs, expected[1]) < 1e-11


@pytest.mark.parametrize("name", ["rosenbrock", "rk4"])
def test_cpp_as_a_function_of_python(name: str) -> None:
    found, reference = native_or_skip(SMALL[name], "c++ module"), PEERS["handwritten"].prepare(SMALL[name])
    first, (value, dargs), expected = found.call(), found.read(found.call()), reference.read(reference.call())
    assert value == pytest.approx(expected[0], rel=1e-12) and difference(dargs, expected[1]) < 1e-11
    assert not any(np.may_share_memory(a, b) for a, b in zip(first[1], dargs) if isinstance(a, np.ndarray))
    with pytest.raises(TypeError):
        found.call.func(*[np.ones((2, 2))] * len(SMALL[name].args))


def test_another_prior_in_cpp() -> None:
    problem = replace(GMM, data=PRIOR)
    found, reference = native_or_skip(problem), PEERS["handwritten"].prepare(problem)
    value, dargs = found.read(found.call())
    expected = reference.read(reference.call())
    assert value == pytest.approx(expected[0], rel=1e-12) and difference(dargs, expected[1]) < 1e-11


def test_cpp_leaves_subnormal_numbers_alone() -> None:
    native_or_skip(SMALL["recurrence"])
    assert np.float64(2.0 ** -1040) / 2.0 > 0.0


def test_cpp_is_missing_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    native_or_skip(SMALL["recurrence"])
    wrong = tmp_path / "wrong.cpp"
    wrong.write_text("no C++")
    with pytest.raises(Missing, match=r"wrong\.cpp does not compile: .*error"):
        native.built(wrong)
    with pytest.raises(Missing, match="takes float64"):
        native.prepare(replace(SMALL["rosenbrock"], data={"x": np.ones(3, np.float32)}))
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(Missing, match=r"no C\+\+ compiler"):
        PEERS["c++"].load()


def test_difference_is_of_the_worst_part() -> None:
    ones = np.ones(4)
    assert difference([ones, 2.0], [ones, 2.0]) == 0.0
    assert difference([ones, 0.0], [ones, 0.0]) == 0.0
    assert difference([1e9 * ones, 2.5], [1e9 * ones, 2.0]) == 0.25
    assert difference([ones, 1.0], [ones, 0.0]) == math.inf
    assert difference([np.array([np.nan])], [np.ones(1)]) == math.inf
    assert difference([np.ones(3)], [ones]) == math.inf


# -- the files


def as_text(*parts: Any) -> str:
    """ADBench's format: a line of sizes, then rows."""
    return "\n".join(" ".join(map(repr, np.asarray(row).tolist())) for part in parts for row in np.atleast_2d(np.asarray(part))) + "\n"


def gmm_text(data: dict[str, Any]) -> str:
    d, K, n = gmm.size_of(data).values()
    return as_text([d, K, n], data["alphas"][:, None], data["means"], data["icf"], data["x"], [data["gamma"], data["m"]])


def test_gmm_reads_what_adbench_writes(tmp_path: Path) -> None:
    path = tmp_path / "gmm.txt"
    path.write_text(gmm_text(PRIOR))
    data = gmm.read(path)
    assert list(data) == list(PRIOR) and gmm.size_of(data) == {"d": 3, "K": 4, "n": 5}
    for name, value in PRIOR.items():
        np.testing.assert_array_equal(data[name], value)
    assert type(data["gamma"]) is float and type(data["m"]) is int


def test_ba_repeats_one_camera_and_point(tmp_path: Path) -> None:
    path = tmp_path / "ba.txt"
    camera, point = np.arange(1.0, 12.0), np.array([0.1, 0.2, 30.0])
    path.write_text(as_text([2, 3, 7], camera, point, 0.5, [8.0, 9.0]))
    data = ba.read(path)
    assert ba.size_of(data) == {"n": 2, "m": 3, "p": 7} and list(data) == list(SMALL["ba"].data)
    np.testing.assert_array_equal(data["cameras"], [camera, camera])
    np.testing.assert_array_equal(data["points"], [point] * 3)
    np.testing.assert_array_equal(data["camera"], [0, 1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(data["point"], [0, 1, 2, 0, 1, 2, 0])
    np.testing.assert_array_equal(data["weights"], [0.5] * 7)
    np.testing.assert_array_equal(data["features"], [[8.0, 9.0]] * 7)


def test_lstm_reads_what_adbench_writes(tmp_path: Path) -> None:
    path, data = tmp_path / "lstm.txt", SMALL["lstm"].data
    path.write_text(as_text([2, 5, 3], *data.values()))
    for name, value in lstm.read(path).items():
        np.testing.assert_array_equal(value, data[name])


@pytest.mark.parametrize("module, text, message", [(gmm, as_text([3, 4, 5], [1.0, 2.0]), "need 60 numbers, and the file has 5"),
                                                   (ba, as_text([2, 3, 7], [1.0]), "are 20 numbers, and the file has 4"),
                                                   (lstm, as_text([2, 5, 3], [1.0]), "need 87 numbers, and the file has 4")])
def test_a_file_of_another_length_is_refused(module: Any, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        module.read(path)


def test_data_are_read_where_they_are(tmp_path: Path) -> None:
    problem = PROBLEMS["gmm"]
    assert problem.found(tmp_path, {}).source == "made" and problem.found(tmp_path, {}).size == problem.default
    (tmp_path / problem.file).write_text(gmm_text(GMM.data))
    assert problem.found(tmp_path, {}).source == problem.file and problem.found(tmp_path, {}).size == GMM.size
    assert problem.found(tmp_path / problem.file, {}).size == GMM.size
    assert PROBLEMS["tr_mul"].found(tmp_path, {}).source == "made"
    with pytest.raises(ValueError, match="tr_mul reads no file"):
        PROBLEMS["tr_mul"].loaded(tmp_path)


# -- memory, and the machine


def test_memory_counts_what_is_gone_again() -> None:
    before = memory.baseline()
    block = np.ones(10_000_000)
    del block
    assert 70e6 < memory.peak() - before < 200e6
    assert memory.baseline() - before < 40e6


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot limit cores")
def test_cores_are_limited_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with limited(1):
        assert cores() == 1
    with limited(None):
        assert os.sched_getaffinity(0) == before


def test_a_busy_machine_is_noticed() -> None:
    assert Watch(before=0.0, after=0.0, others=0.5).disturbed
    assert not Watch(before=5.0, after=5.0, others=0.01).disturbed
    unknown = float("nan")
    assert Watch(before=0.5 * cores(), after=0.0, others=unknown).disturbed
    assert Watch(before=0.0, after=2.0 * cores(), others=unknown).disturbed
    assert not Watch(before=0.1, after=0.8, others=unknown).disturbed
    assert str(Watch(before=0.5, after=1.0, others=0.25)) == f"load 0.50 before, 1.00 after, {cores()} cores, other processes kept 0.25 cores busy"


# -- the benchmark, in processes


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tmp_path / "result.json"
    argv = ["gmm", "tr_mul", "--peers", "handwritten", "tapegrad grad", "--repeats", "2", "--json", str(result), "--save", str(tmp_path / "kept")]
    (tmp_path / "gmm_d10_K25.txt").write_text(gmm_text(GMM.data))
    assert main([*argv, "--data", str(tmp_path), "--no-memory"]) == 0
    shown = capsys.readouterr().out
    for text in ("d=3 K=4 n=5", "n=30", "gmm_d10_K25.txt", "gradient's norm", "reference", "load", "steady state", "first call, ratio"):
        assert text in shown
    assert "peak memory" not in shown
    first, second = json.loads(result.read_text())
    assert first == json.loads((tmp_path / "kept" / "gmm.json").read_text()) and second["problem"] == "tr_mul"
    assert first.keys() == {"date", "versions", "cores", "machine", "system", "load", "others", "problem", "size", "source", "tolerance",
                            "by", "value", "norm", "rows"}
    assert first["size"] == GMM.size and first["value"] == pytest.approx(gmm.objective(**GMM.data))
    assert [row["name"] for row in first["rows"]] == ["handwritten", "tapegrad grad"]
    for row in first["rows"]:
        assert row.keys() == {"name", "median", "minimum", "seconds", "first", "peak", "peak_next", "difference"}
        assert len(row["seconds"]) == 2 and 0 < row["minimum"] <= row["median"] and row["difference"] < 1e-12
        assert row["first"] > 0
    assert str(tmp_path) not in result.read_text()


def test_a_peer_that_refuses_or_takes_too_long_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("autograd")
    assert main(["filling", "--size", "n=5", "--peers", "handwritten", "autograd", "--repeats", "1"]) == 0
    assert "filling, autograd: ValueError: setting an array element" in capsys.readouterr().out
    assert main(["recurrence", "--size", "iterations=300000", "--peers", "handwritten", "tapegrad grad", "--repeats", "1", "--limit", "1"]) == 0
    assert "recurrence, tapegrad grad: no result in 1 s" in capsys.readouterr().out
    assert main(["rational", "--peers", "jax scan"]) == 1
    assert "no peer gave a gradient of rational" in capsys.readouterr().out


def test_a_worker_that_dies_says_so(tmp_path: Path) -> None:
    worker = Worker("rational", "handwritten", [], tmp_path)
    try:
        assert worker.first(60.0)["next"] > 0 and worker.ask(1, 60.0) > 0
        worker.process.kill()
        worker.process.wait()
        for _ in range(2):
            with pytest.raises(Ended, match="the process ended with"):
                worker.ask(1, 60.0)
    finally:
        worker.stop()
        worker.stop()


def test_one_first_call_alone() -> None:
    command = [sys.executable, "-m", "bench.first", "tr_mul", "tapegrad grad", "--size", "n=3"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}).stdout
    found = json.loads(shown)
    assert found.keys() == {"seconds", "next", "peak", "peak_next"} and 0 < found["next"] < found["seconds"]


def test_a_wrong_gradient_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = iter([[1.0, np.ones(2)], [1.0, np.full(2, 1.001)]])
    monkeypatch.setattr(run, "gradient_of", lambda worker: next(found))
    assert main(["tr_mul", "--size", "n=2", "--peers", "handwritten", "tapegrad grad", "--repeats", "1"]) == 1
    assert "tr_mul, tapegrad grad differs by 1.0e-03 > 1e-10, relative to handwritten" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("argv", [["nothing"], ["gmm", "--repeats", "0"], ["gmm", "--cores", "0"], ["gmm", "--size", "d"], ["gmm", "--size", "k=2"], ["--size", "n=2"],
                                  ["gmm", "--data", "nowhere"], ["tr_mul", "--data", __file__], ["--data", __file__], ["gmm", "--sweep"],
                                  ["recurrence", "--million"], ["filling", "--sweep", "--million"], ["gmm", "--peers", "nobody"],
                                  ["recurrence", "--sweep", "--size", "iterations=2"], ["recurrence", "--sweep", "--plot", "x.svg"], ["rational", "--size", "n=1"]])
def test_the_command_line_refuses(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2 and "error" in capsys.readouterr().err


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for text in (*PROBLEMS, "rk4 (method)", "--plot", "--sweep", "--replay", "python -m bench.first"):
        assert text in shown
    assert "tapegrad replay" not in options.parse(["gmm"]).peers and "tapegrad replay" in options.parse(["gmm", "--replay"]).peers


# -- the sweeps


def test_a_sweep_leaves_out_what_would_take_too_long() -> None:
    sizes = [{"iterations": 2}, {"iterations": 4}]
    first, second = sweep(PROBLEMS["recurrence"], sizes, [PEERS["tapegrad grad"], PEERS["autograd"]], 1, quiet, patience=0.0)
    assert first.operations == 6 and second.operations == 12
    missing = {row.name: row.missing for row in second.rows if row.missing}
    assert "left out" in missing["autograd"] or "No module" in missing["autograd"]
    assert [row.name for row in second.gradients] == ["tapegrad grad"]


def test_a_sweep_on_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ({"n": 5}, {"n": 10})
    monkeypatch.setitem(ALL, "filling", Problem(**{**vars(PROBLEMS["filling"]), "sweep": sizes, "sweep_peers": ("tapegrad grad", "autograd")}))
    assert main(["filling", "--sweep", "--repeats", "1", "--save", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "µs / op" in shown and "n=10" in shown and "autograd not measured at n=5" in shown
    assert [step["size"] for step in json.loads((tmp_path / "filling_sweep.json").read_text())["steps"]] == list(sizes)


def test_a_run_without_peers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no peer can run gmm"):
        measure(GMM, [], 1, quiet, {})
    with pytest.raises(Ended, match="no peer gave a gradient of gmm"):
        run.measure(GMM, [], [], 1, 1.0, quiet)


# -- the tables (what they look like: tests/golden/bench.txt)


@pytest.mark.parametrize("seconds, text", [(1.234e-7, "0.12 µs"), (7.7e-8, "0.077 µs"), (0.0, "0.00 µs"), (9.999e-7, "1.00 µs"), (72.4e-6, "72.4 µs"), (0.0123, "12.3 ms"),
                                           (0.9999, "1,000 ms"), (120.4, "120 s"), (9.996e-3, "10.0 ms")])
def test_durations_have_three_digits(seconds: float, text: str) -> None:
    assert tables.duration(seconds) == text


def test_a_plot_has_a_dot_for_each_ratio(tmp_path: Path) -> None:
    records = [result.record() for result in RESULTS]
    picture = ElementTree.fromstring(plot(records))
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == sum(len(result.measured) for result in RESULTS)
    assert "recurrence, tapegrad compiled: 9.80" in titles and "fft_filter, torch: 1.86" in titles
    labels = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "recurrence" in labels and "fft_filter *" in labels, "a star where there is no C++"
    assert ElementTree.fromstring(plot([])) is not None
    path = tmp_path / "a.svg"
    assert main(["tr_mul", "--size", "n=2", "--peers", "handwritten", "--repeats", "1", "--plot", str(path)]) == 0
    assert "tr_mul" in path.read_text()


# -- derivatives


def test_a_hand_is_tracked_by_all_tools_alike() -> None:
    data = hand.make(points=5)
    theta, rest = data.pop("theta"), data
    columns = tg.jacobian(lambda x: hand.residuals(x, **rest), mode="forward")(theta)
    assert columns.shape == (15, 26)
    rows = autograd.jacobian(lambda x: rebound(hand.residuals, autograd.numpy)(x, **rest))(theta)
    np.testing.assert_allclose(columns, rows, 1e-9, 1e-12)


def test_tools_that_disagree_are_no_result() -> None:
    x = np.array([1.0, 0.0, 2.0])
    derivatives.agree(x, np.array([2.0, 1.0]), "of a sparse one what is not 0")
    with pytest.raises(AssertionError, match="a problem: another"):
        derivatives.measured("a problem", ("value", lambda: x), {"one": lambda: lambda: x, "another": lambda: lambda: 2 * x}, 3)
    found = derivatives.measured("a problem", ("value", lambda: x), {"one": lambda: lambda: x}, 3)
    assert [row.tool for row in found] == ["value", "one"]
    assert derivatives.table(found).row_count == 2


# -- models of public libraries


def linear_model(loss: Any) -> Any:
    import torch
    return model_cases.batches(loss, torch.nn.Linear(3, 2), lambda: (torch.randn(4, 3),))


def test_what_comes_of_a_model() -> None:
    found = torch_models.outcome(lambda: linear_model(lambda m, x: m(x).pow(2).sum()), rounds=2)
    assert found["status"] == "works" and found["hits"] == 3 and found["error"] < 1e-5 and found["parameters"] == 8
    assert all(found[key] > 0 for key in ("one_shot", "compiled", "one_shot_memory", "compiled_memory"))
    row = {"name": "own", "package": "own", **found}
    assert "own" in torch_models.line(row) and torch_models.table([row, {"name": "x", "package": "x", "status": "left out"}]).row_count == 2
    refused = torch_models.outcome(lambda: linear_model(lambda m, x: m(x).sum() * len(pickle.dumps(m(x)))), rounds=1)
    assert refused["status"] == "refused" and "__reduce_ex__" in refused["words"]
    assert torch_models.rounded({"error": 0.123456, "words": "at /a/site-packages/b.py:3 in f"}) == {"error": 0.123, "words": "at b.py:3 in f"}


def test_a_wrong_gradient_of_a_model_is_told() -> None:
    import torch
    one = (torch.ones(()), {"w": torch.ones(2), "b": None})
    assert torch_models.difference(one, one) == 0.0
    assert torch_models.difference(one, (torch.ones(()), {"w": torch.tensor([1.0, 2.0]), "b": None})) == 1.0
    assert math.isnan(torch_models.difference(one, (torch.tensor(math.nan), {"w": torch.ones(2), "b": None})))
    assert torch_models.difference(one, (torch.ones(()), {"w": None, "b": torch.ones(1)})) == 1.0
    assert len(model_cases.MODELS) >= 16
