"""Hidden state: what steers a program and is no argument. A compiled function answers as plain Python does, or traces; it never lies at a later call.

A row of the tables is what runs first, what `f(x)` returns (nothing where the first part defines `f`), and what the script does after call k.
"""

from __future__ import annotations

import abc
import ast
import builtins
import calendar
import collections
import contextvars
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import importlib
import inspect
import itertools
import logging
import math
import operator
import os
import queue
import random
import sqlite3
import sys
import tempfile
import textwrap
import threading
import time
import types
import typing
import warnings
import weakref
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile import cache, memo
from tapegrad.compile.watch.code_names import asked, modules_asked
from tests.cases.over import over
from tests.compile import hidden_answers, hidden_reads
from tests.compile.hidden_programs import PROGRAMS

LIBRARIES = [abc, builtins, calendar, collections, contextvars, ctypes, dataclasses, datetime, decimal, enum, functools, importlib, inspect, itertools,
             logging, math, operator, os, queue, random, sqlite3, sys, tempfile, threading, time, types, typing, warnings, weakref]


def program(name: str, row: tuple[str, str, str], folder: Path) -> Any:
    """Return a new module that holds the program."""
    before, value, act = row
    changed = sorted({node.id for node in ast.walk(ast.parse(act)) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)})
    text = before + (f"\ndef f(x): return {value}" if value else "") + (f"\ndef act(k):\n{textwrap.indent(act, '    ')}" if act else "")
    text = text.replace("def act(k):", f"def act(k):\n    global {', '.join(changed)}") if changed else text
    module = types.ModuleType(f"hidden_{name.replace(' ', '_')}")
    module.__dict__.update({library.__name__: library for library in LIBRARIES}, np=np, tg=tg, FOLDER=str(folder), act=lambda k: None,
                           helper=helper, given=())
    sys.modules[module.__name__] = module
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


def helper(name: str, text: str) -> Any:
    """Return a new module of a program's, which can be imported."""
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


PROGRAMS |= hidden_reads.PROGRAMS | hidden_answers.PROGRAMS


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")  # of NumPy 2.5
@over([pytest.param(name, id=name) for name in PROGRAMS])
def test_a_compiled_function_answers_as_plain_python(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WARMUP", None)
    before = np.geterr(), decimal.getcontext().copy()
    monkeypatch.setattr(builtins, "myrate", 2.0, raising=False)

    def called(make: Any) -> list[float]:
        module = program(name, PROGRAMS[name], tmp_path)
        fn, found = make(module.f), []
        for k in range(8):
            found.append(float(fn(2.0 + 0.25 * k, *module.given)))
            module.act(k)
        return found

    def restored(make: Any) -> list[float]:
        memo.kept.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tg.RetraceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)
                return called(make)
        finally:
            np.seterr(**before[0])
            decimal.setcontext(before[1])

    def value(f: Any, warmup: int | None) -> Any:
        step = tg.value_and_grad(f, argnums=None, warmup=warmup)
        return lambda *args: step(*args)[0]
    expected = pytest.approx(restored(lambda f: f), rel=1e-12, nan_ok=True)
    for warmup in (1, 2):
        assert restored(lambda f, n=warmup: tg.compile(f, warmup=n)) == expected, f"compile, warmup={warmup}"
    for warmup in (1, None):
        assert restored(lambda f, n=warmup: value(f, n)) == expected, f"value_and_grad, warmup={warmup}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("record", [True, False])
def test_a_tape_is_not_played_where_another_warning_would_come(record: bool) -> None:
    def f(x: Any) -> Any:
        with warnings.catch_warnings(record=record) as seen:
            warnings.simplefilter("always" if record else "error")
            try:
                y = np.sqrt(x)
            except RuntimeWarning:
                return x * 5
        return x * len(seen) if seen else y
    _, tape = tg.trace(f, np.array([4.0]))
    assert tape.play(np.array([9.0])) == f(np.array([9.0]))
    with pytest.raises(tg.GuardError):
        tape.play(np.array([-9.0]))
    _, tape = tg.trace(f, np.array([-4.0]))
    assert tape.play(np.array([-9.0])) == f(np.array([-9.0]))
    with pytest.raises(tg.GuardError):
        tape.play(np.array([9.0]))


UNNOTICED = {
    "a large read-only array": ("A=np.ones(3000); A.flags.writeable=False", "x*A[5]", "if k==4:\n    A.flags.writeable=True; A[5]=5.0; A.flags.writeable=False"),
    "Cython's": ("import scipy.special", "x*float(scipy.special.gammaln(-1.0)==np.inf)", "scipy.special.seterr(all='raise' if k==4 else 'ignore')"),
    "a variable of the standard library's": ("import reprlib", "x*len(reprlib.repr([1]*9))", "reprlib.aRepr.maxlist=2 if k==4 else 6"),
    "memory that C changes": ("B=bytes(bytearray(b'\\x01\\x02'))", "x*B[0]", "ctypes.memset(id(B)+bytes.__basicsize__-1, 5 if k==4 else 1, 1)"),
    "a name that a library computes": ("""
import sysconfig
lib=sys.modules['libcomputes']=types.ModuleType('libcomputes')
lib.__file__=sysconfig.get_path('purelib')+'/libcomputes.py'
libconf=types.ModuleType('libconf'); libconf.RATE=2.0; libconf.__file__=lib.__file__+'/libconf.py'; sys.modules['libconf']=libconf
exec(compile('def rate(module): return module.__dict__[chr(82)+chr(65)+\\'TE\\']', lib.__file__, 'exec'), lib.__dict__)
from libcomputes import rate
""", "x*rate(libconf)", "libconf.RATE=5.0 if k==4 else 2.0"),
    "an equal tuple": ("T=(1,2.5); U=T", "x*(2.0 if T is U else 5.0)", "T=tuple([1,2.5]) if k==4 else U"),
    "an equal text": ("T='abc def'; U=T", "x*(2.0 if T is U else 5.0)", "T=''.join(['abc',' def']) if k==4 else U"),
    "another nan": ("N=float('nan'); V=N; L=[N]", "x*(2.0 if V in L else 5.0)", "V=float('nan') if k==4 else N"),
    "a function that is replaced": ("S=np.sin", "x*np.sin(1.0)", "np.sin=(lambda x: 5.0) if k==4 else S"),
}


@pytest.mark.parametrize("name", UNNOTICED)
def test_what_docs_say_is_not_noticed_is_not(name: str, tmp_path: Path) -> None:
    module = program(name, UNNOTICED[name], tmp_path)
    step, found = tg.compile(module.f, warmup=1), []
    for k in range(6):
        found.append(float(step(2.0)))
        module.act(k)
    module.act(7)
    assert len(set(found)) == 1 and step.stats.hits >= 4  # type: ignore[attr-defined]


def test_a_warning_that_is_always_shown_is_shown_by_traced_calls_alone() -> None:
    def f(x: Any) -> Any:
        warnings.warn("beware", stacklevel=1)
        return x * x
    step = tg.compile(f, warmup=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert [step(float(k)) for k in range(6)] == [float(k * k) for k in range(6)]
    assert len([w for w in said if str(w.message) == "beware"]) < 6 - 1 == step.stats.hits  # type: ignore[attr-defined]


def test_what_a_program_drops_is_kept_alive() -> None:
    class Rate:
        value = 2.0
    rate = Rate()
    seen, held = weakref.ref(rate), {"rate": rate}
    step = tg.compile(lambda x: x * held["rate"].value, warmup=1)
    assert [step(float(k)) for k in range(3)] == [0.0, 2.0, 4.0]
    held["rate"] = Rate()
    del rate
    gc.collect()
    assert seen() is not None


def test_what_steers_and_is_no_input_is_named_once() -> None:
    state = {"calls": 0}

    def step(x: Any) -> Any:
        COUNTS["n"] += 1
        return x * COUNTS["n"]
    COUNTS["n"] = 0
    fast = tg.value_and_grad(step, argnums=None)
    assert fast(2.0)[0] == 2.0 and not state["calls"]
    with pytest.warns(tg.RetraceWarning) as caught:
        found = [fast(2.0)[0] for _ in range(5)]
    assert found == [4.0, 6.0, 8.0, 10.0, 12.0] and len(caught) == 1
    text = str(caught[0].message)
    assert "it was multiply(·, 1), and is now multiply(·, 2)" in text and "return x * COUNTS" in text and caught[0].filename == __file__
    assert fast.stats.hits == 0  # type: ignore[attr-defined]


COUNTS = {"n": 0}


def test_a_path_is_compiled_though_a_library_is_mentioned() -> None:
    import rich

    def f(x: Any) -> Any:
        if SHOW:
            rich.print(x)
        return x * x
    globals()["rich"] = rich
    fast = tg.value_and_grad(f, argnums=None)
    assert [fast(float(k))[0] for k in range(4)] == [0.0, 1.0, 4.0, 9.0] and fast.stats.hits == 3  # type: ignore[attr-defined]


SHOW = False


@pytest.mark.parametrize("noise", ["x * RNG.random()", "x * 2 if RNG.random() < 0.2 else x"])
def test_a_library_that_draws_deep_inside_is_heard(noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "noisy.py").write_text("import noisy_parts\ndef noise(x): return noisy_parts.noise(x)\n")
    (folder / "noisy_parts.py").write_text("import noisy_deep\ndef noise(x): return noisy_deep.noise(x)\n")
    (folder / "noisy_deep.py").write_text(f"import numpy as np\nRNG = np.random.default_rng(7)\ndef noise(x): return {noise}\n")
    for name in ("noisy", "noisy_parts", "noisy_deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)
    noisy: Any = importlib.import_module("noisy")
    monkeypatch.setitem(globals(), "noisy", noisy)

    def f(x: Any) -> Any:
        return x + noisy.noise(x)
    expected, again = [f(1.0) for _ in range(40)], np.random.default_rng(7)
    sys.modules["noisy_deep"].__dict__["RNG"] = again
    step = tg.value_and_grad(f, argnums=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        assert [step(1.0)[0] for _ in range(40)] == expected


def test_a_function_gives_up_where_each_call_takes_another_path() -> None:
    fast = tg.value_and_grad(lambda x, n: x * int(n), argnums=None)
    with pytest.warns(tg.RetraceWarning, match="a new path") as caught:
        for n in range(100):
            assert fast(2.0, n)[0] == 2.0 * n
    assert not fast.tapes and len(caught) == 1 and fast.stats.traces == 100  # type: ignore[attr-defined]


LITERAL = {
    "getattr(x, 'a')": {"a"}, "getattr(cfg, 'a', 2.0)": {"a"}, "hasattr(x[0].foo(3, n), 'b')": {"b"}, "getattr(x, 'a', x.b * n)": {"a"},
    "getattr(x, 'a', getattr(cfg, 'c'))": {"a", "c"}, "getattr(getattr(cfg, 'a'), 'b')": {"a", "b"}, "getattr(x['k'], 'a', n[0:1])": {"a"},
    "getattr(x, 'a', 'b'.upper())": {"a"}, "getattr(x, 'a')(n)('b')": {"a"}, "getattr(x, 'my-rate', [])": {"my-rate"},
}
COMPUTED = ["getattr(x, n)", "getattr(x, 'a' if n else 'b')", "getattr(x, 'a' + n)", "getattr(x, n + 'a')", "getattr(x, 'a'.upper())", "getattr(x, f'a{n}')",
            "getattr(x, f'{n}a')", "getattr(x, 'a' % n)", "getattr(x, 'a'[n])", "getattr(x, ('a', 'b')[n])", "getattr(*n)", "getattr(x, 'a', *n)",
            "map(getattr, n, 'ab')", "[getattr, n][0](x, 'a')", "(g := getattr)(x, 'a')", "getattr.__call__(x, 'a')", "builtins.getattr(x, 'a')",
            "foo(getattr, x, 'a')", "{'g': getattr}['g'](x, 'a')", "getattr(x, n.a)", "getattr(x, '__dict__')", "getattr(x, 'getattr')(n, 'a')",
            "getattr(x, 'a') + hasattr(x, n)", "getattr(x, 'a', getattr(cfg, n))"]


@pytest.mark.parametrize("text", [*LITERAL, *COMPUTED])
@pytest.mark.parametrize("form", ["def f(x, n):\n    return {}", "def g(x, n):\n    def f():\n        return {}, x, n\n    return f\nf = g(1, 2)", "f = lambda x, n: 2 * {}"])
def test_names_that_stand_in_the_code_are_told_from_computed_ones(form: str, text: str) -> None:
    namespace: dict[str, Any] = {}
    exec(form.format(text), namespace)
    found = asked(namespace["f"].__code__)
    assert found.computes is (text in COMPUTED)
    assert found.computes or found.names == LITERAL[text]
    assert all(owner == "cfg" for owner, _ in found.chains)


@pytest.mark.parametrize(("text", "names"), [
    ("sys.modules['a'].x", {"a"}), ("sys.modules.get('a')", {"a"}), ("sys.modules.get('a', None)", {"a"}), ("'a' in sys.modules and x is sys.modules['b']", {"a", "b"}),
    ("sys.modules[x]", None), ("sys.modules.get(x)", None), ("sys.modules.get('a' + x)", None), ("sys.modules['a' + x]", None), ("x in sys.modules", None),
    ("(x if n else 'a') in sys.modules", None), ("sys.modules.get('a' if x else 'b')", None), ("list(sys.modules)", None), ("x.modules()", None), ("x + n", set()),
])
def test_modules_that_stand_in_the_code_are_told_from_computed_ones(text: str, names: set[str] | None) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f(x, n):\n    return {text}", namespace)
    assert modules_asked(namespace["f"].__code__) == names


def test_what_a_library_computes_names_for_is_read_by_these_alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import functools, sys
from typing import Protocol, runtime_checkable
for k in range(200):
    globals()[f"rate{k}"] = float(k)
class Settings: pass
held = Settings()
vars(held).update({f"name{k}": float(k) for k in range(200)})
@runtime_checkable
class Named(Protocol):
    name3: float
@functools.lru_cache
def module(name):
    return sys.modules[name]
def f(x, n="name", key=__name__):
    there = sys.modules[key]
    y = x * getattr(held, n + "2") + (1.0 if "absent_" + n in sys.modules else 0.0) + isinstance(held, Named)
    return y * getattr(there, "rate" + str(len(n))) * (2.0 if hasattr(module(key), "extra" + n) else 1.0)
"""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "computing.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    library = importlib.import_module("computing")
    step = tg.value_and_grad(lambda x: library.f(x), warmup=1)
    assert [step(2.0)[0] for _ in range(3)] == [20.0] * 3 and step.stats.traces == 1  # type: ignore[attr-defined]
    assert len(step._entries[1][0].fresh.places) < 100  # type: ignore[attr-defined]
    for change in (lambda: setattr(library.held, "name2", 3.0), lambda: setattr(library, "rate4", 5.0), lambda: setattr(library, "extraname", True),
                   lambda: monkeypatch.setitem(sys.modules, "absent_name", library), lambda: delattr(library.held, "name3")):
        change()
        assert step(2.0)[0] == library.f(2.0) == step(2.0)[0]


BY_ITSELF = ["vars(conf)[n]", "conf.__dict__[n]", "attrgetter(n)(conf)", "operator.attrgetter(n)(conf)", "GET(conf)", "NESTED(ME)", "dict(inspect.getmembers(conf))[n]",
             "inspect.getattr_static(conf, n)", "type(conf).__getattribute__(conf, n)", "conf.__getattribute__(n)", "operator.methodcaller('__getattribute__', n)(conf)",
             "functools.reduce(getattr, ['conf', n], ME)", "vars(given)[n]", "passed(conf, n)", "vars(HOLDER.conf)[n]", "vars(HELD['conf'])[n]", "conf.helper.__globals__[n]", "helper.__globals__[n]",
             "vars(inspect.getmodule(helper))[n]", "vars(sys.modules[helper.__module__])[n]", "pkgutil.resolve_name('reading_by.conf:' + n)", "vars(importlib.import_module('reading_by.' + c))[n]",
             "vars(ME)[n]", "ME.__dict__.get(n)"]


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")  # or the path stays traced
@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("text", BY_ITSELF)
def test_what_code_reads_of_modules_by_names_that_it_computes(text: str, library: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("site-packages" if library else "own")
    package = folder / "reading_by"
    package.mkdir(parents=True)
    (package / "conf.py").write_text("rate = 2.0\ndef helper(): return rate\n")
    (package / "__init__.py").write_text(f"""
import functools, importlib, inspect, operator, pkgutil, sys, types
from operator import attrgetter
from . import conf
ME, rate, NAMES, GET, NESTED, HOLDER, HELD = sys.modules[__name__], 2.0, ["rate", "conf"], attrgetter("rate"), attrgetter("conf.rate"), types.SimpleNamespace(conf=conf), dict(conf=conf)
def helper(): return NAMES[0]
def passed(module, n): return vars(module)[n]
def f(x, given=conf):
    n, c = NAMES
    return x * {text}
""")
    monkeypatch.syspath_prepend(str(folder))
    reading: Any = importlib.import_module("reading_by")
    step = tg.compile(lambda x: reading.f(x), warmup=1)
    try:
        assert [step(x) for x in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
        reading.rate = reading.conf.rate = 5.0
        assert [step(x) for x in (1.0, 2.0, 3.0)] == [5.0, 10.0, 15.0]
    finally:
        for name in ("reading_by", "reading_by.conf"):
            del sys.modules[name]


def test_a_name_that_stands_in_the_code_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings:
        def __init__(self) -> None:
            self.__dict__.update({f"name{k}": k for k in range(100)}, rate=2.0)
    settings = Settings()
    monkeypatch.setitem(globals(), "HELD", settings)
    places = {}
    for name, f in (("literal", lambda x: x * getattr(HELD, "rate", 1.0)), ("computed", lambda x: x * getattr(HELD, NAME, 1.0)),
                    ("whole", lambda x: x * vars(HELD)[NAME])):
        step = tg.value_and_grad(f, argnums=None)
        assert [step(2.0)[0] for _ in range(3)] == [4.0] * 3 and step.stats.hits == 2  # type: ignore[attr-defined]
        fresh = step._entries[1][0].fresh  # type: ignore[attr-defined]
        places[name] = len(fresh.places)
        settings.rate = 3.0
        assert step(2.0)[0] == 6.0
        settings.rate = 2.0
    assert places["literal"] < 20 and places["computed"] < 20 < 100 < places["whole"]


HELD: Any = None
NAME = "rate"


FACTOR, LOCAL = 3.0, threading.local()


@functools.lru_cache(4)
def cached(n: int) -> list[float]:
    return [FACTOR * n]


@pytest.mark.parametrize("cache", [functools.lru_cache(4), functools.lru_cache(None)], ids=["bounded", "unbounded"])
def test_a_cache_that_others_ask_is_fresh_until_what_it_keeps_is_gone(cache: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cache(cached.__wrapped__)
    monkeypatch.setitem(globals(), "cached", kept)

    def f(x: Any) -> Any:
        return x * x * cached(1)[0]
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for _ in range(3):
        assert step(2.0)[0] == f(2.0) == 12.0
    kept(7)
    assert step(2.0)[0] == 12.0 and step.stats.traces == 1  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    kept.cache_clear()
    assert step(2.0)[0] == f(2.0) == 20.0
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    for n in range(20):  # which takes the place of all that a bounded one kept
        kept(n + 10)
    assert step(2.0)[0] == f(2.0) == (28.0 if kept.cache_info().maxsize else 20.0)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    kept.cache_clear()
    f(1.0), f(1.0), kept(7), [kept(n) for n in range(40)]  # counts as before
    assert step(2.0)[0] == f(2.0)


def test_what_each_thread_has_of_its_own_is_asked_in_the_thread_that_calls() -> None:
    def f(x: Any) -> Any:
        return x * LOCAL.factor + (1.0 if threading.get_ident() == MAIN else 0.0)
    LOCAL.factor = 2.0
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    assert [step(3.0) for _ in range(3)] == [(7.0, 2.0)] * 3 and step.stats.traces == 1  # type: ignore[attr-defined]
    found: list[Any] = []

    def other() -> None:
        LOCAL.factor = 5.0
        found.extend(step(3.0) for _ in range(3))
        LOCAL.factor = 6.0
        found.append(step(3.0))
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [(15.0, 5.0)] * 3 + [(18.0, 6.0)]
    assert step(3.0) == (7.0, 2.0)
    del LOCAL.factor
    with pytest.raises(AttributeError):
        step(3.0)


MAIN = threading.get_ident()


@pytest.mark.parametrize("change", [lambda held: held["a"]["b"].append(1.0), lambda held: held["a"].update(c=1), lambda held: held["a"]["b"].__setitem__(1, {6}),
                                    lambda held: held["a"]["b"][1].add(9), lambda held: held["t"][1].update(k=8.0), lambda held: held.update(a={"b": [2.0]}),
                                    lambda held: held["d"]["k"].append(2.0), lambda held: held["q"].append(3.0), lambda held: held["n"].__setitem__(0, 9.0)])
def test_containers_within_containers_are_looked_at_again(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"a": {"b": [1.0, {2, 3}]}, "t": (1.0, {"k": 2.0}), "d": collections.defaultdict(list, k=[1.0]), "q": collections.deque([1.0]),
            "n": np.array([4.0, 5.0]), "twice": [{"k": 1}] * 2}
    monkeypatch.setitem(globals(), "CONTAINERS", held)

    def f(x: Any) -> Any:
        parts = CONTAINERS["a"]["b"]  # type: ignore[name-defined]  # noqa: F821
        return x * (sum(part if isinstance(part, float) else sum(part) for part in parts) + len(CONTAINERS["a"]) + CONTAINERS["t"][1]["k"]  # type: ignore[name-defined]  # noqa: F821
                    + sum(CONTAINERS["d"]["k"]) + sum(CONTAINERS["q"]) + float(CONTAINERS["n"][0]))  # type: ignore[name-defined]  # noqa: F821
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    assert [step(1.0)[0] for _ in range(3)] == [f(1.0)] * 3 and step.stats.traces == 1  # type: ignore[attr-defined]
    change(held)
    assert step(1.0)[0] == f(1.0) != 15.0
    assert step.stats.traces == 2  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=3)
def table(n: int) -> dict[str, float]:
    return {"scale": float(n) * RATES[0]}


RATES = [2.0]


def test_a_cache_that_others_ask_too_is_as_good_until_it_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    table.cache_clear()
    step = tg.value_and_grad(lambda x: x * table(3)["scale"], 0, warmup=1)
    for n in (3, 4, 3, 5, 4):
        table(n)
        assert step(1.0) == (6.0, 6.0)
    hits = step.stats.hits
    assert hits >= 3
    monkeypatch.setattr(sys.modules[__name__], "RATES", [5.0])
    table.cache_clear()
    for n in (4, 5, 4, 5):  # as many as before
        table(n)
    assert step(1.0) == (15.0, 15.0)


class Rates:
    factor: ClassVar[float] = 1.0


class Model(Rates):
    def __init__(self, k: Any) -> None:
        self.k = k

    def at(self, y: Any) -> Any:
        return -self.k * y * self.factor


@pytest.mark.parametrize("transform", [
    lambda m, ys: tg.vmap(lambda y: tg.vmap(m.at)(y))(ys),
    lambda m, ys: tg.vmap(lambda y: tg.vmap(lambda y: m.at(y))(y))(ys),
    lambda m, ys: tg.vmap(lambda y: tg.grad(lambda y: m.at(y).sum(), y)[1][1])(ys),
    lambda m, ys: tg.vmap(lambda y: tg.jvp(lambda y: m.at(y).sum(), (y,), (y,))[1])(ys),
])
def test_who_listens_goes_on_while_a_transform_inside_does(transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step, ys = tg.compile(transform), np.ones((4, 2))
    for factor in (1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 3.0):
        monkeypatch.setattr(Rates, "factor", factor)
        np.testing.assert_array_equal(step(Model(0.5), ys), transform(Model(0.5), ys))


EQUAL = """
K = 2.0
def square(x): return x * x * K
def scaled(x):
    def one(y): return y * K
    return one(x)
def bound(b): return lambda x: x * b * K
"""


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("name", ["square", "scaled"])
def test_modules_of_equal_text_have_globals_of_their_own(name: str) -> None:
    modules = [types.ModuleType(name) for name in ("one", "other")]
    for module in modules:
        exec(compile(EQUAL, "equal.py", "exec"), module.__dict__)
    step = tg.value_and_grad(lambda x: sum(getattr(module, name)(x) for module in modules), warmup=1)
    for at, (k, x) in enumerate([(2.0, 1.5), (2.0, 2.5), (2.0, 3.5), (5.0, 1.5), (5.0, 2.5), (7.0, 3.5)]):
        modules[at % 2].K = k  # type: ignore[attr-defined]
        assert step(x)[0] == sum(getattr(module, name)(x) for module in modules)


def test_functions_of_equal_code_and_other_globals_are_other_arguments() -> None:
    modules, code = [types.ModuleType(name) for name in ("one", "other")], compile(EQUAL, "equal.py", "exec")
    for k, module in enumerate(modules):
        exec(code, module.__dict__)
        module.K = 2.0 + k  # type: ignore[attr-defined]
    step, functions = tg.value_and_grad(lambda x, f: f(x) * x, warmup=1), [module.bound(1.5) for module in modules]
    for at in (0, 0, 0, 0, 1, 1, 1, 1, 0, 1):
        assert step(1.0 + at, functions[at])[0] == functions[at](1.0 + at) * (1.0 + at)
    tape = tg.trace(lambda x, f: f(x), 1.0, functions[0])[1]
    with pytest.raises(tg.ArgumentError, match="with other functions or objects in them"):
        tape.play(1.0, functions[1])


def test_a_module_may_raise_anything_where_it_lacks_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("lacking")
    module.__dict__.update(rate=2.0, __getattr__=lambda name: {}[name])
    monkeypatch.setitem(sys.modules, "lacking", module)
    step = tg.value_and_grad(lambda x: x * module.rate, warmup=1)
    for rate in (2.0, 2.0, 2.0, 3.0):
        module.__dict__["rate"] = rate
        assert step(1.5) == (1.5 * rate, rate)


class Word(str):
    pass


class OnItself(dict):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.own = self


UTC, CET = datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=1))
# equal, and yet a program can tell them apart
EQUAL_THINGS: dict[str, tuple[Any, Any, Any]] = {
    "times": (datetime.datetime(2020, 1, 1, 12, tzinfo=UTC), datetime.datetime(2020, 1, 1, 13, tzinfo=CET), lambda m: m.hour),
    "folds": (datetime.datetime(2020, 1, 1, fold=0), datetime.datetime(2020, 1, 1, fold=1), lambda m: m.fold + 1),
    "ranges": (range(0, 3, 2), range(0, 4, 2), lambda m: m.stop), "texts": ("a", Word("a"), lambda m: len(type(m).__name__)),
    "keys": ({"a": 1.0}, {Word("a"): 1.0}, lambda m: len(type(next(iter(m))).__name__)),
    "slices": (slice(1, 2), slice(True, 2), lambda m: len(str(m.start))),
    "dtypes": (np.dtype("f8"), np.dtype("f8", metadata={"a": 3}), lambda m: 2 if m.metadata else 1),
    "factories": (collections.defaultdict(int, a=1.0), collections.defaultdict(lambda: 7, a=1.0), lambda m: m.default_factory() + 1.0),
    "on themselves": (OnItself(a=1.0), OnItself(a=2.0), lambda m: m["a"]),
    "lengths": (collections.deque([1.0], maxlen=3), collections.deque([1.0], maxlen=4), lambda m: m.maxlen),
}
STANDING: list[Any] = [None]


@pytest.mark.parametrize("name", EQUAL_THINGS)
@pytest.mark.parametrize("where", ["argument", "in a tuple", "state"])
def test_things_that_are_equal_and_not_the_same_are_told_apart(name: str, where: str) -> None:
    one, other, ask = EQUAL_THINGS[name]
    step = tg.value_and_grad({"argument": lambda x, m: x * ask(m), "in a tuple": lambda x, m: x * ask(m[0]),
                              "state": lambda x, m: x * ask(STANDING[0])}[where], warmup=1)
    for thing in (one, one, one, other, other, one, other):
        STANDING[0] = thing
        given = (thing,) if where == "in a tuple" else thing if where == "argument" else None
        assert step(1.5, given) == (1.5 * ask(thing), ask(thing))


class Mock:
    """Answers for every attribute, with an error of its own."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} yet")


class Guarded:
    later = Mock()
    scale = 2.0


def test_objects_that_answer_for_every_attribute_are_not_asked() -> None:
    def f(x: float) -> float:
        return x * Guarded.scale if Guarded.later is not None else x
    step = tg.value_and_grad(f, warmup=1)
    assert [step(float(x)) for x in range(4)] == [(2.0 * x, 2.0) for x in range(4)] and step.stats.hits


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # of NumPy 2.5
@pytest.mark.parametrize(("name", "value"), [("shape", (4, 1)), ("dtype", np.dtype(np.int64))])
@pytest.mark.parametrize("f", [lambda a, x: x.sum() * (3.0 if a.ndim > 1 or a.dtype != float else 2.0), lambda a, x: (a * x[0]).sum()])
@pytest.mark.parametrize("after", [2, 3])
def test_a_captured_array_that_is_given_another_shape(f: Any, name: str, value: Any, after: int) -> None:
    a = np.arange(1.0, 5.0)
    step, fast = tg.value_and_grad(lambda x: f(a, x)), tg.compile(lambda x: f(a, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for call in range(5):
            if call == after:
                setattr(a, name, value)
            x = np.ones(3) + call
            assert fast(x) == f(a, x)
            assert (step(x)[0], step(x)[1][0]) == (f(a, x), f(a, np.eye(1, 3)[0]))
