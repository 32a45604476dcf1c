"""python -m bench.torch_models: models of public torch libraries, by tapegrad and by torch's own backward.

Of each: whether value and gradients by all parameters are torch's, in one gradient and in compiled calls with another
batch; which compiled calls were served by a tape; how long a gradient and a compiled call take, and the most memory
that they have in use, relative to torch's forward and backward. A package that is not installed is left out; all come
with `pip install -e ".[models]"`.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import importlib.util
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from datetime import date
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile, record_function

import tapegrad as tg
from bench.machine import describe
from bench.model_cases import MODELS, Built, Model
from bench.options import RESULTS
from bench.team import ROOT
from bench.worker import speaker

TOLERANCE = 1e-3  # of a gradient's largest number: single precision, in another order
GOALS = {"compiled": 1.0, "one_shot": 2.5, "compiled_memory": 1.2, "one_shot_memory": 1.2}
Result = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the models, one process each; return 1 if a gradient is wrong or a model crashed."""
    parser = argparse.ArgumentParser(prog="python -m bench.torch_models", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="TEXT", default=[""], help="models whose name holds one of these")
    parser.add_argument("--rounds", type=int, default=15, help="of which the shortest time is taken (15)")
    parser.add_argument("--save", action="store_true", help="write into bench/results/torch_models.json")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        tell = speaker()
        tell(outcome(MODELS[options.worker].build, options.rounds))
        return 0
    console, results = Console(width=None if sys.stdout.isatty() else 150), []
    for model in MODELS.values():
        if any(only in model.name for only in options.only):
            results.append(alone(model, options.rounds))
            console.print(line(results[-1]), soft_wrap=True, highlight=False)
            if options.save and results[-1]["status"] != "left out":
                keep(results[-1])
    console.print(table(results))
    return 1 if any(result["status"] in ("wrong", "crashed") for result in results) else 0


def alone(model: Model, rounds: int) -> Result:
    """Return what a process of its own tells of a model."""
    about = {"name": model.name, "package": model.package}
    if importlib.util.find_spec({"pyro-ppl": "pyro"}.get(model.package, model.package)) is None:
        return {**about, "status": "left out", "words": f"{model.package} is not installed"}
    command = [sys.executable, "-m", "bench.torch_models", "--worker", model.name, "--rounds", str(rounds)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    try:
        return {**about, **json.loads(ended.stdout)}
    except json.JSONDecodeError:
        return {**about, "status": "crashed", "words": (ended.stderr.strip().splitlines() or [""])[-1]}


def outcome(build: Callable[[], Built], rounds: int) -> Result:
    """Return a model's status, and what was measured."""
    torch.manual_seed(0)
    loss, args, other = build()
    module, second = args[0], (args[0], *other)
    found: Result = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", tg.RetraceWarning)
        try:
            wanted = {False: by_torch(loss, args), True: by_torch(loss, second)}
            step = tg.value_and_grad(loss, 0, backend="torch", warmup=1)
            errors = [difference(wanted[False], tg.grad(loss, *args, argnums=0))]
            errors += [difference(wanted[again], step(*(second if again else args)))
                       for again in (False, True, False, True)]
        except tg.TapeError as err:
            return {"status": "refused", "words": f"{type(err).__name__}: {err}"}
        except Exception as err:
            return {"status": "crashed", "words": f"{type(err).__name__}: {err}"}
        found |= {"error": max(errors), "traces": step.stats.traces, "hits": step.stats.hits}
        calls: dict[str, Callable[[], Any]] = {"torch": lambda: by_torch(loss, args),
                                               "one_shot": lambda: tg.grad(loss, *args, argnums=0),
                                               "compiled": lambda: step(*args)}
        times = taking_turns(calls, rounds)
        memory = {name: peak(call) for name, call in calls.items()}
    found["torch_ms"] = 1e3 * times["torch"]
    found |= {name: times[name] / times["torch"] for name in ("one_shot", "compiled")}
    found |= {f"{name}_memory": memory[name] / memory["torch"] for name in ("one_shot", "compiled")}
    found["parameters"] = sum(p.numel() for p in module.parameters())
    retraced = [str(warning.message) for warning in said if issubclass(warning.category, tg.RetraceWarning)]
    status = "wrong" if not max(errors) < TOLERANCE else "works" if step.stats.hits >= 2 else "traced"
    return {"status": status, **found, **({"words": retraced[0]} if retraced else {})}


def by_torch(loss: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    """Return a loss and its gradients by a module's parameters, as torch's backward has them."""
    module = args[0]
    module.zero_grad(set_to_none=True)
    value = loss(*args)
    value.backward()
    gradients = {name: p.grad for name, p in module.named_parameters()}
    module.zero_grad(set_to_none=True)
    return value.detach(), gradients


def difference(wanted: tuple[Any, dict[str, Any]], found: tuple[Any, dict[str, Any]]) -> float:
    """Return how far values and gradients differ, relative to the largest number of each; nan where one is missing."""
    (value, gradients), (other, others) = wanted, found
    pairs = [(value, other)]
    for name, dp in gradients.items():
        if dp is None or others[name] is None:
            pairs += [(known, torch.zeros_like(known)) for known in (dp, others[name]) if known is not None]
        else:
            pairs.append((dp, others[name]))
    scales = [max(float(a.abs().max()), 1e-6) for a, _ in pairs]
    return max((float((a - b).abs().max()) / scale for (a, b), scale in zip(pairs, scales)), key=lambda x: (x != x, x))


def taking_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the shortest time of each call in seconds; what else the machine does disturbs all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: min(all_) for name, all_ in times.items()}


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def peak(call: Callable[[], Any]) -> int:
    """Return the most bytes of tensors that a call has in use at a time, beyond those that were there; each that torch
    takes or gives back is counted. What the profiler changes may be read: it is the second call that counts.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as taken:
        call()
        gc.collect()
        with record_function("measured"):
            call()
    events = taken.profiler.kineto_results.events()
    begin = next(event.start_ns() for event in events if event.name() == "measured")
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
                     and event.start_ns() >= begin)
    return max(itertools.accumulate(change for _, change in changes))


def keep(result: Result) -> None:
    """Put a result into the record, in place of an earlier one of its model; each has its own date."""
    path = RESULTS / "torch_models.json"
    known = {old["name"]: old for old in json.loads(path.read_text())["models"]} if path.exists() else {}
    known[result["name"]] = {"date": date.today().isoformat(), **rounded(result)}
    models = [known[name] for name in MODELS if name in known]
    versions = {package: importlib.metadata.version(package)
                for package in dict.fromkeys(old["package"] for old in models)}
    path.write_text(json.dumps({**describe(), "packages": versions, "goals": GOALS, "models": models}, indent=1) + "\n")


def rounded(result: Result) -> Result:
    """Return a result with three digits, without the folders of this machine."""
    def text(words: str) -> str:
        return " ".join(part if "site-packages/" not in part else part.rpartition("site-packages/")[2]
                        for part in words.split(" "))
    return {key: float(f"{x:.3g}") if type(x) is float else text(x) if key == "words" else x
            for key, x in result.items()}


def line(result: Result) -> str:
    """Return what is said of a model while others still run."""
    words = " ".join(result.get("words", "").split())[:200]
    return f"{result['status']:<8} {result['name']:<28} {words}"


def table(results: Sequence[Result]) -> Table:
    """Return a row for each model; what misses its goal is yellow."""
    made = Table("model", "torch, ms", "one-shot", "compiled", "memory, one-shot", "memory, compiled", "hits", "error",
                 caption=f"ratios to torch's forward and backward; goals {GOALS['one_shot']:g}, {GOALS['compiled']:g}, "
                         f"{GOALS['one_shot_memory']:g}")
    for result in results:
        if "torch_ms" not in result:
            made.add_row(result["name"], result["status"])
            continue
        ratios = [f"[yellow]{result[key]:.2f}[/]" if result[key] > GOALS[key] else f"{result[key]:.2f}"
                  for key in ("one_shot", "compiled", "one_shot_memory", "compiled_memory")]
        made.add_row(result["name"], f"{result['torch_ms']:.2f}", *ratios, str(result["hits"]),
                     f"{result['error']:.0e}")
    return made


if __name__ == "__main__":
    sys.exit(main())
