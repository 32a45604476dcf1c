"""Where a name was imported does not matter: helper modules, methods, dicts of functions, functions that are handed on."""

from __future__ import annotations

import functools
import importlib
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.trace.conversions import Conversions
from tapegrad.trace.replaceable_names import holders

HELPER = '''
import functools
from math import sin, exp
from numpy import array, outer, zeros
import numpy.linalg as la

TABLE = {"sine": sin, "make": zeros, 3: exp}

def wave(x):
    return sin(x) * exp(x)

def fill(x):
    y = zeros(3)
    y[0] = x
    y[1] = 2 * x
    return y.sum()

def length(x):
    return la.norm(array([x, x * x]))

def decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)
    return wrapper

@decorated
def hidden(x):
    return sin(x) + outer(array([x, 1.0]), array([x, 2.0])).sum()

class Shape:
    scale = 2.0

    def area(self, x):
        return self.scale * sin(x) + self._inner(x)

    def _inner(self, x):
        return array([x, 1.0])[0]

    @staticmethod
    def plain(x):
        return exp(x)

    @property
    def make(self):
        return zeros
'''
MIDDLE = '''
import names_helper as h
from names_helper import fill

def both(x):
    return h.wave(x) + fill(x)

def later(x):
    import names_helper
    return names_helper.length(x)
'''


@pytest.fixture(scope="module", autouse=True)
def _modules() -> Iterator[None]:
    for name, text in (("names_helper", HELPER), ("names_middle", MIDDLE)):
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(text, f"<{name}>", "exec"), vars(module))
    yield
    for name in ("names_helper", "names_middle"):
        del sys.modules[name]


def modules() -> tuple[Any, Any]:
    return sys.modules["names_helper"], sys.modules["names_middle"]


def programs() -> dict[str, Any]:
    helper, middle = modules()
    globals().update(helper=helper, middle=middle, TABLE=helper.TABLE, SHAPE=helper.Shape())
    shape = helper.Shape()
    return {
        "a helper": lambda x: helper.wave(x), "a global module": by_module, "two modules on": lambda x: middle.both(x), "itself": middle.both,
        "imported inside": lambda x: middle.later(x), "a decorated function": lambda x: helper.hidden(x), "a method": shape.area,
        "a captured object": lambda x: shape.area(x), "a global object": by_object, "a class": lambda x: helper.Shape().area(x) * helper.Shape.plain(x),
        "a dict": by_dict, "a computed name": by_computed_name, "a partial": functools.partial(apply, helper.wave), "a function handed on": lambda x: apply(helper.length, x),
    }


def by_module(x: Any) -> Any:
    return helper.wave(x) + middle.later(x)  # type: ignore[name-defined]  # noqa: F821


def by_object(x: Any) -> Any:
    return SHAPE.area(x)  # type: ignore[name-defined]  # noqa: F821


def by_dict(x: Any) -> Any:
    return TABLE["sine"](x) * TABLE[3](x)  # type: ignore[name-defined]  # noqa: F821


def by_computed_name(x: Any) -> Any:
    return getattr(helper, "wa" + "ve"[:len(TABLE)])(x)  # type: ignore[name-defined]  # noqa: F821


def apply(fn: Any, x: Any) -> Any:
    return fn(x)


NAMES = ["a helper", "a global module", "two modules on", "itself", "imported inside", "a decorated function", "a method", "a captured object", "a global object",
         "a class", "a dict", "a computed name", "a partial", "a function handed on"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_the_same_wherever_it_was_imported(name: str) -> None:
    f = programs()[name]
    value, (_, dx) = tg.grad(f, 0.7)
    assert value == pytest.approx(f(0.7))
    assert dx == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-6)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for x in (0.7, 0.8, 0.9, 0.7):
        assert step(x)[1][1] == pytest.approx(tg.grad(f, x)[1][1])
    assert step.stats.traces == 1 and step.stats.hits == 3


def test_what_was_replaced_is_restored() -> None:
    programs()
    helper, _ = modules()
    before = dict(vars(helper)), dict(helper.TABLE)
    tg.grad(by_dict, 0.7)
    with pytest.raises(ZeroDivisionError):
        tg.grad(lambda x: by_module(x) + 1 // int(x), 0.7)
    assert vars(helper) == before[0] and before[1] == helper.TABLE
    assert helper.sin is math.sin and helper.zeros is np.zeros and helper.TABLE["make"] is np.zeros


def test_a_function_put_into_a_dict_later_is_noticed() -> None:
    programs()
    helper, _ = modules()
    step = tg.value_and_grad(by_dict, argnums=None, warmup=1)
    for _ in range(3):
        step(0.7)
    helper.TABLE["sine"] = math.cos
    try:
        assert step(0.7)[1][1] == pytest.approx(math.exp(0.7) * (math.cos(0.7) - math.sin(0.7)))
    finally:
        helper.TABLE["sine"] = math.sin


LATER = """
import math
import numpy as np
from math import exp, sqrt
from numpy import linspace, zeros
from scipy.special import lambertw
TABLE, FUNCTIONS = linspace(0.0, 1.0, 5), {"sqrt": sqrt}
def helper(x, f=exp):
    y = zeros(2)
    y[0] = FUNCTIONS["sqrt"](f(x))
    return (TABLE * x).sum() + y.sum() + lambertw(x).real
class Owner:
    made = staticmethod(sqrt)
    def run(self, x):
        return self.made(np.array([x, x]).sum()) + helper(x)
"""
IMPORTED = {
    "from": "from NAME import Owner, helper\n    return Owner().run(x) + helper(x)",
    "a module": "import NAME\n    return NAME.Owner().run(x)",
    "by name": "import importlib\n    return importlib.import_module('NAME').Owner().run(x)",
    "by a call": "return __import__('NAME').Owner().run(x)",
    "of a package": "from pkg_NAME import second\n    return second.sub.Owner().run(x)",
    "the functions": "import NAME as m\n    return m.helper(x)",
}


@pytest.mark.parametrize("how", IMPORTED)
def test_what_a_trace_imports_is_known_at_once(how: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"imported_{how.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(LATER)
    (tmp_path / f"pkg_{name}").mkdir()
    (tmp_path / f"pkg_{name}" / "sub.py").write_text(LATER)
    (tmp_path / f"pkg_{name}" / "second.py").write_text("from . import sub")
    monkeypatch.syspath_prepend(tmp_path)
    scope: dict[str, Any] = {"__name__": f"user_of_{name}"}
    exec(f"def f(x):\n    {IMPORTED[how].replace('NAME', name)}\n", scope)
    f = scope["f"]
    value, (_, dx) = tg.grad(f, 1.3)  # the first call of all
    assert value == f(1.3) and dx == pytest.approx((f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6)
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    assert [step(x)[0] for x in (1.3, 1.4, 1.5)] == [f(x) for x in (1.3, 1.4, 1.5)]
    module = sys.modules[f"pkg_{name}.sub" if how == "of a package" else name]
    assert type(module.TABLE) is np.ndarray and module.sqrt is module.FUNCTIONS["sqrt"] is module.Owner.made is math.sqrt
    assert module.helper.__defaults__ == (math.exp,) and module.zeros is np.zeros and type(importlib.import_module) is types.FunctionType


def test_a_module_that_comes_later_is_found() -> None:
    def f(x: Any) -> Any:
        return sys.modules["names_later"].g(x) if "names_later" in sys.modules else x

    def by_name(x: Any) -> Any:
        import names_later  # type: ignore[import-not-found]
        return names_later.g(x)
    assert tg.grad(f, 0.7)[1][1] == 1.0
    module = sys.modules["names_later"] = types.ModuleType("names_later")
    exec("from math import sin\ndef g(x):\n    return sin(x)\n", vars(module))
    try:
        assert tg.grad(by_name, 0.7)[1][1] == pytest.approx(math.cos(0.7))
    finally:
        del sys.modules["names_later"]


def test_a_name_that_leads_to_another_function_later() -> None:
    module: Any = types.ModuleType("rebound")
    exec("import math\nscale = 2.0\ndef helper(x): return x\ndef f(x): return helper(x) * scale\n", vars(module))
    vars(module).update({f"name{k}": k for k in range(100)})
    assert tg.grad(module.f, 1.5) == (3.0, (None, 2.0))
    module.helper = math.sin
    assert tg.grad(module.f, 1.5) == (2 * math.sin(1.5), (None, 2 * math.cos(1.5)))
    module.scale, module.helper = 3.0, math.exp
    assert tg.compile(module.f)(0.0) == 3.0 and module.helper is math.exp


def test_what_imported_a_captured_module_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader of a module that pytest has rewritten leads to all of pytest: following it took ten seconds."""
    module: Any = types.ModuleType("imported_by_an_object")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("from math import sin\ndef g(x): return sin(x)\n", vars(module))
    module.__loader__ = types.SimpleNamespace(table={"sine": math.sin})

    def f(x: Any) -> Any:
        return module.sin(x)
    found = holders(f, ())
    assert any(x is vars(module) for x in found) and not any(x is module.__loader__.table for x in found)
    assert tg.gradient(f, 0.7) == (math.cos(0.7),)


class Asking(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return type(x) is str


class Asked(metaclass=Asking):
    def kind(self, x: Any) -> Any:
        return type(x)


class Made:
    def kind(self, x: Any) -> Any:
        return type(x)


def of_kind(x: Any) -> Any:
    """Return a power of x: an array."""
    if isinstance(x, (Asked, tests_of_kinds.Table)) or issubclass(int, Asked):
        return x
    return tests_of_kinds.power(x, np.array([2.0])) * getattr(Made, "kind", None)(Made(), x)(1)


KINDS = """
class Table:
    def kind(self, x):
        return type(x)

def array(x):
    return type(x)

def power(x, y):
    return (x ** y).sum() if type(x) is float else 0.0
"""
tests_of_kinds: Any = types.ModuleType("tests_of_kinds")
exec(KINDS, vars(tests_of_kinds))


def test_of_classes_that_code_only_asks_for_and_of_names_of_other_modules_nothing_is_followed() -> None:
    found = [x for x in holders(of_kind, []) if type(x) is Conversions]
    assert {fn.__qualname__ for x in found for fn in x.functions} == {
        "of_kind", "Made.kind", "power", "Asking.__instancecheck__"}
    assert tg.gradient(of_kind, 3.0)[0] == pytest.approx(6.0)


CHECKS = "import math\ndef go(x): return math.sin(x) if type(x) is float else -1000.0\n"


@pytest.mark.parametrize("program", [
    "def pick(): return checks\ndef f(x): return pick().go(x)", "def run(m, x): return m.go(x)\ndef f(x): return run(checks, x)",
    "class Model:\n    def __init__(self, m): self.m = m\n    def loss(self, x): return self.m.go(x)\ndef f(x): return Model(checks).loss(x)",
    "def made(): return {'q': [checks]}\ndef f(x): return made()['q'][0].go(x)", "def run(m, x): return m.go(x)\ndef f(x):\n    import module_of_checks as z\n    return run(z, x)",
    "import inspect\ndef f(x): return dict(inspect.getmembers(checks))['go'](x)", "def outer():\n    m = checks\n    def run(x): return (lambda n: n.go(x))(m)\n    return run\nf = outer()"])
def test_a_module_that_is_passed_on_is_followed(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, script = types.ModuleType("module_of_checks"), types.ModuleType("script_of_checks")
    for module, text in ((checks, CHECKS), (script, f"import module_of_checks as checks\n{program}\n")):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(text, vars(module))
    assert tg.gradient(script.f, 0.7) == (math.cos(0.7),)  # `type(x) is float` in the other module
