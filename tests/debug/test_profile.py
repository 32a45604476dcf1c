"""profile: what is counted and what is added up; times themselves are only compared with each other."""

from __future__ import annotations

import json
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.debug import clock
from tapegrad.debug.clock import Clock, CudaClock, clock_for
from tapegrad.debug.profile import ROWS, Profile, bytes_made
from tapegrad.debug.speedscope import SCHEMA
from tapegrad.replay.interpreter import Run
from tests.golden.debugged import X, layers, profiled, tape
from tests.golden.texts import on_console

W = np.ones((3, 3))


def test_the_parts_add_up() -> None:
    profile = tape(layers).profile(X, W, 0.5, repeats=2)
    assert len(profile.times) == len(profile.sizes) == len(profile.tape) and all(time >= 0 for time in profile.times)
    assert sum(profile.times) == profile.total and profile.times[0] == profile.setup
    for costs in (profile.operations, profile.lines_of_source):
        assert sum(cost.time for cost in costs) == profile.total - profile.setup
        assert sum(cost.forward.bytes + cost.backward.bytes for cost in costs) == sum(profile.sizes)
    by_line = [cost.forward.calls + cost.backward.calls for cost in profile.lines_of_source]
    assert sum(by_line) == sum(cost.forward.calls + cost.backward.calls for cost in profile.operations)
    assert repr(profile).startswith("<Profile of layers: 45 operations")


def test_forward_and_backward_are_apart() -> None:
    costs = {cost.name: cost for cost in tape(layers).profile(repeats=1).operations}
    assert {name: (cost.forward.calls, cost.backward.calls) for name, cost in costs.items() if name in ("matmul", "maximum", "add", "conform")} == {
        "matmul": (1, 1), "maximum": (1, 1), "add": (2, 2), "conform": (0, 3)}
    assert costs["accumulate"].backward.calls == 2 and costs["input"].forward.calls == 0
    lines = {cost.where.source: cost for cost in tape(layers).profile(repeats=1).lines_of_source if cost.where}
    assert (lines["h = x @ w + b"].forward.calls, lines["h = x @ w + b"].backward.calls) == (2, 3)
    primal = tg.trace(layers, X, W, 1.0)[1].profile(repeats=1)
    assert all(cost.backward == (0, 0, 0) for cost in primal.operations) and "backward" not in str(primal)
    flat = tg.primitivize(tape(layers)).profile(repeats=1)
    assert sum(cost.backward.calls for cost in flat.operations) > 5 and sum(cost.forward.calls for cost in flat.operations) == 6


def test_bytes_are_of_the_arrays_that_were_made() -> None:
    x = np.ones((4, 4))
    assert bytes_made(x * 2, [x, 2]) == 128 and bytes_made(x.T, [x]) == 0 and bytes_made(x, [(x, None)]) == 0
    assert bytes_made((x * 2, x), [x]) == 128 and bytes_made(1.0, [x]) == 0 and bytes_made(np.float64(1.0), []) == 0

    def fill(x: Any) -> Any:
        y = np.zeros(100)
        for i in range(3):
            y[i] = x[i] * 2.0
        return y[::2].sum()
    primal = tg.trace(fill, np.ones(3))[1].profile(repeats=1)
    assert {cost.name: cost.forward.bytes for cost in primal.operations if cost.name in ("zeros", "setitem")} == {"zeros": 800, "setitem": 0}
    torch = pytest.importorskip("torch")
    t = torch.ones(8)
    assert bytes_made(t * 2, [t]) == 32 and bytes_made(t[2:], [t]) == 0


def test_a_replay_is_timed_once_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What profiling adds is one reading of the clock for each operation."""
    readings: list[int] = []

    def now() -> int:
        readings.append(1000 * len(readings) ** 2)
        return readings[-1]
    gradient = tape(layers)
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter_ns=now))
    ends = Clock().stamps(Run(gradient, [x.val for x in gradient.inputs]))
    assert len(readings) == len(gradient) + 1 and ends == readings[1:]


@pytest.mark.parametrize(("plain", "timed", "expected"), [
    ([60, 40], [[30, 50, 100], [3, 30, 52]], [0, 23, 41]),  # 4 is taken off each, never more than there is
    ([60, 50], [[20, 30, 50]], [20, 30, 50]), ([70], [[20, 30, 50]], [20, 30, 50]),  # no slower than without
    ([10], [[1000, 2000, 3010]], [800, 1600, 2410])])  # no more than a reading can take
def test_what_the_readings_take_is_taken_off(monkeypatch: pytest.MonkeyPatch, plain: list[int], timed: list[list[int]], expected: list[int]) -> None:
    totals, stamps = iter(plain), iter(timed)
    monkeypatch.setattr(Clock, "total", lambda self, run: next(totals))
    monkeypatch.setattr(Clock, "stamps", lambda self, run: next(stamps))
    assert Clock().measure(lambda: [], len(timed)) == expected


def test_the_fastest_of_several_replays_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([[5, 9, 30], [4, 8, 12], [9, 10, 11], [1, 2, 40]])

    def stamps(self: Clock, run: Any) -> list[int]:
        deque(run, 0)
        return next(runs)
    monkeypatch.setattr(Clock, "stamps", stamps)
    assert tg.trace(lambda x: x * x, 2.0)[1].profile(repeats=4).ends == [9, 10, 11]


def test_every_replay_draws_anew_and_runs_what_is_recorded() -> None:
    calls: list[float] = []

    @tg.primitive
    def counted(x: Any) -> Any:
        calls.append(x)
        return x * 2.0
    counted_tape = tg.trace(lambda x: counted(x), 1.0)[1]
    calls.clear()
    counted_tape.profile(3.0, repeats=4)
    assert calls == [3.0] * 9  # four times timed, four times not, and once to see what it makes


def test_errors() -> None:
    primal = tg.trace(lambda x: np.linalg.inv(x).sum(), np.eye(2))[1]
    with pytest.raises(tg.ArgumentError, match="0 repeats"):
        primal.profile(repeats=0)
    with pytest.raises(np.linalg.LinAlgError):
        primal.profile(np.zeros((2, 2)))
    with pytest.raises(tg.MalformedTape):
        tg.Tape().profile()


# -- on paper


def test_what_is_not_shown_is_added_up() -> None:
    scope: dict[str, Any] = {"np": np}
    exec("def long(x):\n" + "".join(f"    x = x * {i}.5\n" for i in range(30)) + "    return x", scope)
    profile = tg.trace(scope["long"], 1.0)[1].profile(repeats=1)
    assert len(profile.lines_of_source) == 31 and profile.lines_of_source[-1].where is None  # the inputs are of no line
    assert f"{len(profile.lines_of_source) - ROWS} more" in str(profile)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits(width: int) -> None:
    profile = profiled(layers)
    for text in (profile.format(width), on_console(profile, width), on_console(profile, width, "ascii")):
        assert all(len(line) <= width for line in text.splitlines()) and "debugged.py:31" in text
    assert profile.format(width).isascii()


@pytest.mark.parametrize(("scale", "unit"), [(1, "us"), (1000, "ms"), (100_000_000, "s")])
def test_units(scale: int, unit: str) -> None:
    gradient = tape(layers)
    profile = Profile(gradient, [scale * op.id * 100 for op in gradient], [0] * len(gradient))
    assert f" {unit}\n" in str(profile) and f"forward {unit}" in str(profile)


# -- speedscope


def valid(text: str) -> dict[str, Any]:
    """Return a profile in speedscope's evented format, checked against what its schema and its importer ask for."""
    found: dict[str, Any] = json.loads(text)
    assert found["$schema"] == SCHEMA and set(found) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    frames = found["shared"]["frames"]
    for frame in frames:
        assert isinstance(frame["name"], str) and set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 1), int)
    assert len({json.dumps(frame) for frame in frames}) == len(frames) and 0 <= found["activeProfileIndex"] < len(found["profiles"])
    for profile in found["profiles"]:
        assert profile["type"] == "evented" and profile["unit"] == "nanoseconds"
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}
        opened: list[int] = []
        last = profile["startValue"]
        for event in profile["events"]:
            assert set(event) == {"type", "frame", "at"} and last <= event["at"] <= profile["endValue"] and 0 <= event["frame"] < len(frames)
            last = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
            else:
                assert event["type"] == "C" and opened.pop() == event["frame"]
        assert not opened
    return found


def test_speedscope(tmp_path: Path) -> None:
    profile = profiled(layers)
    path = tmp_path / "layers.speedscope.json"
    text = profile.to_speedscope(path)
    assert path.read_text(encoding="utf-8") == text
    found = valid(text)
    frames, events = found["shared"]["frames"], found["profiles"][0]["events"]
    assert found["profiles"][0]["endValue"] == profile.total and found["name"] == "layers"
    names = {frame["name"] for frame in frames}
    assert {"forward", "backward", "setup", "layers", "matmul", "debugged.py:29  h = x @ w + b"} <= names
    at = next(i for i, frame in enumerate(frames) if frame["name"].startswith("debugged.py:29"))
    assert frames[at]["line"] == 29 and frames[at]["file"].endswith("debugged.py")
    spent = sum(event["at"] * (1 if event["type"] == "C" else -1) for event in events if event["frame"] == at)
    cost = next(cost for cost in profile.lines_of_source if cost.name == "debugged.py:29")
    assert spent == cost.time  # each line is open as long as its operations take
    phase = {frames[event["frame"]]["name"] for event in events if event["frame"] in (0, 1)}
    assert "setup" in phase


def test_speedscope_of_a_real_profile() -> None:
    for made in (tape(layers), tg.trace(layers, X, W, 1.0)[1], tg.primitivize(tape(layers))):
        profile = made.profile(repeats=1)
        assert valid(profile.to_speedscope())["profiles"][0]["endValue"] == profile.total


# -- clocks


def test_the_clock_is_the_devices() -> None:
    torch = pytest.importorskip("torch")
    assert type(clock_for([1.0, np.ones(2), torch.ones(2)])) is Clock
    if torch.cuda.is_available():
        found = clock_for([torch.ones(2, device="cuda")])
        ends = found.stamps(torch.ones(1000, 1000, device="cuda") @ torch.ones(1000, 1000, device="cuda") for _ in range(3))
        assert type(found) is CudaClock and 0 < ends[0] < ends[1] < ends[2]


def test_events_of_a_device_are_turned_into_nanoseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arithmetic and the order of calls, with a device made of paper."""
    torch = pytest.importorskip("torch")
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = len(log)
            log.append("record")

        def elapsed_time(self, other: Event) -> float:
            assert "synchronize" in log[-2:]
            return 0.5 * (other.at - self.at)

    class Device:
        def __init__(self, device: str) -> None:
            assert device == "cuda:1"

        def __enter__(self) -> None:
            log.append("enter")

        def __exit__(self, *exc: object) -> None:
            log.append("exit")
    fake = SimpleNamespace(Event=Event, device=Device, synchronize=lambda: log.append("synchronize"))
    monkeypatch.setattr(torch, "cuda", fake)
    assert CudaClock("cuda:1").measure(lambda: range(3), 1) == [500_000, 1_000_000, 1_500_000]
    assert log == ["enter", "synchronize", *["record"] * 4, "synchronize", "exit"]


def test_the_hosts_clock_runs() -> None:
    start = time.perf_counter_ns()
    ends = Clock().measure(lambda: range(1000), 3)
    assert 0 <= ends[-1] <= time.perf_counter_ns() - start and ends == sorted(ends) and len(ends) == 1000
