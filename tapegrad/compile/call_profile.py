"""call_profile: the time of a call of a compiled function, compared with the program itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from time import perf_counter, perf_counter_ns
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import count_of
from tapegrad.progress import Work
from tapegrad.show.display import Told

SETTLED = 40  # calls after which a function that still traces is assumed to go on
SPAN = 0.02  # minimal duration of one measurement in seconds


class CallProfile(Told):
    """The report of `profile`: nanoseconds of a call (`call`), of the program itself (`program`) and of a traced call
    (`traced`), each the fastest of several measurements.

    `how` names the code that ran ("machine code", "NumPy's code", "torch", "a trace"), `why` the reason of the last
    traced call if all were traced.
    """

    def __init__(self, name: str, how: str, why: str, operations: int, call: float, program: float,
                 traced: float) -> None:
        self.name, self.how, self.why, self.operations = name, how, why, operations
        self.call, self.program, self.traced = call, program, traced

    def texts(self) -> Iterator[str]:
        size = f", {count_of(self.operations, 'operation')}" if self.operations else ""
        yield f"{self.name}: {_time(self.call)} a call, by {self.how}{size}"
        for what, time in (("the plain function", self.program), ("a traced call", self.traced)):
            yield f"  {what:<18}  {_time(time):>8}, {time / self.call:.3g} times as long"
        if self.why:
            yield f"every call is traced: {self.why}"


def profile_calls(compiled: Any, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                  repeats: int) -> CallProfile:
    """Call a compiled function until it runs compiled, then measure it, the program `f`, and a traced call."""
    if repeats < 1:
        raise ArgumentError(f"profile: {repeats} repeats", try_="at least 1")
    hits, start = compiled.stats.hits, perf_counter()
    with Work("measuring"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's, and those about retracing, which the report shows
        for number in range(SETTLED):
            compiled(*args, **kwargs)
            if compiled.stats.hits > hits + 1 or (number > 3 and perf_counter() - start > 2):
                break
        how, operations = compiled.how(args, kwargs) if compiled.stats.hits > hits else ("a trace", 0)
        last = compiled.explain().last
        times = [_fastest(fn, args, kwargs, repeats) for fn in (compiled, f, compiled.trace_once)]
    return CallProfile(compiled.__name__, how, str(last[-1]) if how == "a trace" and last else "", operations, *times)


def _fastest(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], repeats: int) -> float:
    """Return the nanoseconds of a call, measured in batches large enough to make the clock's overhead negligible."""
    count, found = 1, list[float]()
    while len(found) < repeats:
        start = perf_counter_ns()
        for _ in range(count):
            fn(*args, **kwargs)
        spent = perf_counter_ns() - start
        if spent >= SPAN * 1e9 or len(found):
            found.append(spent / count)
        else:
            count = max(2 * count, round(count * SPAN * 1.2e9 / max(spent, 1)) if spent > 1e6 else 10 * count)
    return min(found)


def _time(nanoseconds: float) -> str:
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
