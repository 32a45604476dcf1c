"""What a program read besides its arguments, checked by machine code: it answers as the Python check does."""

from __future__ import annotations

import gc
import math
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.native import backend, profiler
from tapegrad.compile.native.backend import native_fresh
from tapegrad.compile.watch.namespaces import Attributes
from tests.harness.compare import same

pytest.importorskip("llvmlite")

HEAD = "import math\nimport numpy as np\nfrom collections import defaultdict, deque\n"
PROGRAMS: dict[str, tuple[str, str, str]] = {
    # what the module holds, an edit that changes no value, an edit that changes one
    "a global": ("k = 2.5\ndef f(x): return x * k", "k = float('2.5')", "k = 3.5"),
    "a global that is deleted and comes again": ("k = 2.5\ndef f(x): return x * k", "del k; k = 2.5", "k = 3.5"),
    "a name of the built-ins": ("def f(x): return abs(x) * 2.0", "unrelated = 1", "abs = lambda x: x * 3.0"),
    "code": ("def g(x): return x * 2.0\ndef f(x): return g(x) + 1.0", "g.__code__ = g.__code__.replace()",
             "g.__code__ = (lambda x: x * 5.0).__code__"),
    "defaults": ("def g(x, k=2.5): return x * k\ndef f(x): return g(x)", "g.__defaults__ = (float('2.5'),)",
                 "g.__defaults__ = (4.0,)"),
    "no defaults": ("def g(x): return x * 2.0\ndef f(x): return g(x)", "g.__defaults__ = None",
                    "g.__code__ = (lambda x, k=3.0: x * k).__code__; g.__defaults__ = (3.0,)"),
    "named defaults": ("def g(x, *, k=2.5): return x * k\ndef f(x): return g(x)", "g.__kwdefaults__ = {'k': 2.5}",
                       "g.__kwdefaults__['k'] = 3.0"),
    "a captured variable": ("def make():\n    k = 2.5\n    def g(x): return x * k\n    def put(v):\n        nonlocal k\n"
                            "        k = v\n    return g, put\ng, put = make()\ndef f(x): return g(x)",
                            "put(2.5)", "put(4.0)"),
    "an attribute of a class": ("class A:\n    k = 2.5\n    def g(self, x): return x * self.k\na = A()\n"
                                "def f(x): return a.g(x)", "A.k = float('2.5')", "A.k = 4.0"),
    "an attribute of an object": ("class A: pass\na = A()\na.k = 2.5\ndef f(x): return x * a.k", "a.k = float('2.5')",
                                  "a.k = 4.0"),
    "an attribute that hides one of the class": ("class A:\n    k = 2.5\na = A()\ndef f(x): return x * a.k",
                                                 "a.other = 1", "a.k = 4.0"),
    "a slot": ("class A:\n    __slots__ = ('k',)\na = A()\na.k = 2.5\ndef f(x): return x * a.k", "a.k = float('2.5')",
               "a.k = 4.0"),
    "the class of an object": ("class A:\n    k = 2.5\nclass B:\n    k = 4.0\na = A()\ndef f(x): return x * a.k",
                               "a.__class__ = A", "a.__class__ = B"),
    "the bases of a class": ("class A:\n    k = 2.5\nclass B:\n    k = 4.0\nclass C(A): pass\na = C()\n"
                             "def f(x): return x * a.k", "C.__bases__ = (A,)", "C.__bases__ = (B,)"),
    "a list": ("k = [1.5, 2.5]\ndef f(x): return x * k[0] + k[1]", "k[0] = float('1.5')", "k[0] = 3.5"),
    "a list that grows": ("k = [1.5, 2.5]\ndef f(x): return x * sum(k)", "k[:] = [1.5, 2.5]", "k.append(1.0)"),
    "a list of lists": ("k = [[1.5], (2.5, [3.5])]\ndef f(x): return x * k[0][0] + k[1][1][0]", "k[0] = [1.5]",
                        "k[1][1][0] = 4.0"),
    "a dict": ("k = {'a': 1.5, 'b': 2.5}\ndef f(x): return x * k['a'] + k['b']", "k['a'] = float('1.5')",
               "k['a'] = 3.5"),
    "the order of a dict": ("k = {'a': 1.5, 'b': 2.5}\ndef f(x): return x * next(iter(k.values()))", "k['c'] = k.pop('c', 0) or 1; del k['c']",
                            "k['a'] = k.pop('a')"),
    "a defaultdict": ("k = defaultdict(float, a=1.5)\ndef f(x): return x * k['a']", "k['a'] = float('1.5')",
                      "k['a'] = 3.5"),
    "a set": ("k = {1.5}\ndef f(x): return x * sum(k)", "k.add(1.5)", "k.add(2.0)"),
    "an empty set": ("k = set()\ndef f(x): return x * (2.0 if not k else 3.0)", "k.update(())", "k.add(2.0)"),
    "a deque": ("k = deque([1.5, 2.5])\ndef f(x): return x * k[0]", "k.rotate(2)", "k.rotate(1)"),
    "a tuple of lists": ("k = ([1.5], 2.0)\ndef f(x): return x * k[0][0]", "k = ([1.5], 2.0)", "k[0][0] = 3.0"),
    "an array": ("k = np.array([1.5, 2.5])\ndef f(x): return x * k.sum()", "k = np.array([1.5, 2.5])", "k[0] = 3.0"),
    "an array column by column": ("k = np.asfortranarray(np.arange(6.0).reshape(2, 3))\ndef f(x): return x * (k @ [1.0, 2.0, 3.0]).sum()",
                                  "k[:] = np.arange(6.0).reshape(2, 3)", "k[1, 0] = 7.0"),
    "a long array": ("k = np.arange(5000.0)\ndef f(x): return x * k.sum()", "k = np.arange(5000.0)", "k[4999] = 3.0"),
    "an array with gaps": ("k = np.arange(6.0)[::2]\ndef f(x): return x * k.sum()", "k[1] = 2.0", "k[1] = 3.0"),
    "the shape of an array": ("k = np.arange(6.0)\ndef f(x): return x * k[0:2].sum()", "k.shape = (6,)",
                              "k.shape = (2, 3)"),
    "an array to which nobody can write": ("k = np.arange(3.0)\nk.flags.writeable = False\ndef f(x): return x * k.sum()",
                                           "unrelated = 1", "k = np.arange(1.0, 4.0)"),
    "an array in a list": ("k = [np.array([1.5])]\ndef f(x): return x * k[0][0]", "k[0][0] = 1.5", "k[0][0] = 2.0"),
    "an array of objects": ("k = np.array([1.5, 'a'], object)\ndef f(x): return x * k[0]", "k[1] = 'a'", "k[0] = 2.0"),
    "an environment variable": ("import os\nos.environ['TAPEGRAD_K'] = '2.5'\ndef f(x): return x * float(os.environ['TAPEGRAD_K'])",
                                "os.environ['TAPEGRAD_K'] = '2.5'", "os.environ['TAPEGRAD_K'] = '3.5'"),
}


def module(text: str) -> Any:
    found = types.ModuleType("program")
    sys.modules["program"] = found
    exec(compile(HEAD + text, "<program>", "exec"), found.__dict__)
    return found


def compiled(f: Callable[..., Any], *args: Any) -> tuple[Any, Any, Any]:
    """Return a compiled function, and how it tells whether what it read is the same, in Python and in machine code."""
    step = tg.compile(f, mode="native", warmup=1)
    for _ in range(3):
        step(*args)
    (entry,) = next(iter(step._entries.values()))
    return step, entry.fresh, native_fresh(entry.fresh)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_kind_of_place(name: str) -> None:
    text, same, other = PROGRAMS[name]
    program = module(text)
    step, fresh, native = compiled(program.f, 1.5)
    assert native() is fresh() is True
    hits = step.stats.hits
    assert step(2.0) == program.f(2.0) and step.stats.hits == hits + 1
    for edit in (same, other):
        exec(edit, program.__dict__)
        for _ in range(3):
            assert native() is fresh()
            assert step(2.0) == program.f(2.0)
    assert not fresh()


def test_a_module_with_many_names() -> None:
    program = module("\n".join(f"k{i} = {i}.5" for i in range(300)) + "\ndef f(x): return x * k7 + k299")
    step, fresh, native = compiled(program.f, 1.5)
    for number in range(50):
        setattr(program, f"another{number}", number)
    assert native() is fresh() is True and step(2.0) == program.f(2.0)
    program.k299 = 0.0
    assert native() is fresh() is False and step(2.0) == program.f(2.0)


def test_errors_of_a_check_pass() -> None:
    class Broken:
        error: type[BaseException] = ValueError

        def get(self, name: Any, default: Any) -> Any:
            raise self.error
    program = module("class A:\n    __slots__ = ('k',)\na = A()\na.k = 2.5\ndef f(x): return x * a.k")
    _, fresh, native = compiled(program.f, 1.5)
    place, = [place for place in fresh.places if place.name == "k" and type(place.namespace) is Attributes]
    fresh.places[fresh.places.index(place)] = place._replace(namespace=Broken())  # type: ignore[arg-type]
    native = native_fresh(fresh)
    for error in (ValueError, KeyboardInterrupt):
        Broken.error = error
        with pytest.raises(error):
            native()


def test_what_is_read_is_held() -> None:
    """An object that is gone leaves its address to another; the table holds all it points to."""
    program = module("k = [1.5, {'a': [2.5]}]\ndef f(x): return x * k[0] + k[1]['a'][0]")
    _, fresh, native = compiled(program.f, 1.5)
    del program.k
    gc.collect()
    assert native() is fresh() is False
    for number in range(200):
        program.k = [1.5, {"a": [float(number)]}]
        assert native() is fresh() is False


def test_checks_leak_nothing() -> None:
    program = module("k = [1.5, {'a': [2.5]}]\nw = np.arange(5.0)\ndef f(x): return x * k[0] + k[1]['a'][0] + w.sum()")
    step, _, native = compiled(program.f, 1.5)
    program.k[0] = float("1.5")  # which the Python check has to tell

    def blocks(times: int) -> int:
        for _ in range(times):
            native()
            step(2.0)
        gc.collect()
        return sys.getallocatedblocks()
    blocks(200)
    before, counts = blocks(200), [sys.getrefcount(x) for x in (True, program.k, program.w, program.k[0])]
    after = blocks(20000)
    assert abs(after - before) < 100
    assert all(abs(x - y) < 10 for x, y in zip(counts, [sys.getrefcount(x) for x in (True, program.k, program.w, program.k[0])]))


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="sys.setprofile is not used")
def test_machine_code_asks_a_profiler_about_each_code_object_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def asking(hear: Any) -> None:
        profiler.set_profile(lambda frame, event, x: asked.append(event) or hear(frame, event, x))
    monkeypatch.setattr(backend, "LONG", -1.0)
    monkeypatch.setattr(backend, "set_profile", asking)
    space = {"scale": 2.0, "number": os.getpid}

    def scaled(x: Any) -> Any:
        return x * space["scale"]

    def f(x: Any, reads: bool) -> Any:
        for _ in range(300):
            x = math.sin(scaled(x)) + np.cos(x)
        return x * space["number"]() if reads else x
    step = tg.value_and_grad(f, mode="native", warmup=1)
    before = [step(0.3, False) for _ in range(4)][-1]
    assert step.stats.hits and 20 < len(asked) < 300 * 20 and sys.getprofile() is None
    space["scale"] = 1.5
    same(step(0.3, False), tg.grad(lambda x: f(x, False), 0.3, argnums=0))
    assert step(0.3, False) != before
    with pytest.warns(tg.RetraceWarning, match="getpid"):
        for _ in range(3):
            step(0.3, True)
