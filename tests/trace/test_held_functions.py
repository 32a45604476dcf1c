"""Functions that are replaced while a trace runs, wherever a program holds them: lists, tuples, classes, objects, defaults, partials, closures."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import math
import pickle
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

HELPER = '''
import collections, dataclasses, functools, math, types
import numpy as np
from math import cos, exp, sin
from numpy import zeros

TABLE = {"f": sin, "z": zeros, 3: exp}
LIST = [sin, cos, exp]
TUPLE = (sin, (cos, exp))
NEST = {"a": [sin, (cos, exp)], "b": {"c": zeros}}
PAIR = collections.namedtuple("Pair", "f g")(sin, cos)
DEFAULT = collections.defaultdict(lambda: sin)
SPACE = types.SimpleNamespace(f=sin)
POWER = functools.partial(math.pow, 2.0)
HANDED = functools.partial(lambda f, x: f(x), sin)

class Power(functools.partial):
    __slots__ = ("root",)

OWN_PARTIAL = Power(math.pow, 2.0)
OWN_PARTIAL.root = math.sqrt

class Keeper:
    def __init__(self):
        self.f = staticmethod(sin)
    def call(self, x):
        return self.f(x)

KEEPER = Keeper()
REGISTRY = {}

def register(name):
    def decorate(f):
        REGISTRY[name] = f
        return f
    return decorate

register("sin")(sin)

def by_default(x, f=sin, *, g=cos):
    return f(x) * g(x)

def by_defaults(x, fs=(sin, cos)):
    return fs[0](x) * fs[1](x)

def closure(f):
    def call(x):
        return f(x)
    return call

CLOSURE = closure(sin)
CHAIN = functools.reduce(lambda f, g: lambda x: g(f(x)), [sin, cos, exp])

def cached(f):
    cache = {"f": f}
    @functools.wraps(f)
    def call(*args):
        return cache["f"](*args)
    return call

CACHED = cached(sin)

@functools.singledispatch
def dispatched(x):
    return sin(x)

def partial_of():
    return functools.partial(np.array, dtype=float)

class Layer:
    act = math.tanh
    partial_of = staticmethod(partial_of)
    make = staticmethod(np.array)
    table = {"s": sin}
    def __init__(self, f=math.sin):
        self.f = f
    def by_class(self, x):
        return self.act(x) * self.make([x, x * x]).sum() * self.table["s"](x)
    def __call__(self, x):
        return self.f(x)

class Child(Layer):
    pass

OBJECT = Layer(cos)

@dataclasses.dataclass
class Data:
    act: object = math.tanh
    def __call__(self, x):
        return self.act(x)

DATA = Data()

class Slots:
    __slots__ = ("f",)
    def __init__(self, f):
        self.f = f

SLOTS = Slots(sin)
'''
MIDDLE = '''
import held_helper as h
from held_helper import LIST, TABLE, sin as sine

def by_module(x):
    return h.sin(x) * sine(x)

def by_list(x):
    return sum(f(x) for f in LIST) * TABLE["f"](x)
'''


def _made() -> tuple[Any, Any]:
    made = []
    with pytest.MonkeyPatch.context() as patch:
        for name, text in (("held_helper", HELPER), ("held_middle", MIDDLE)):
            module = types.ModuleType(name)
            patch.setitem(sys.modules, name, module)
            exec(compile(text, f"{name}.py", "exec"), vars(module))
            made.append(module)
    return tuple(made)


h, m = _made()


@pytest.fixture(scope="module", autouse=True)
def _modules() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:  # again, where a worker comes back to this file after others
        for module in (h, m):
            patch.setitem(sys.modules, module.__name__, module)
        yield


def written(z: Any, x: Any) -> Any:
    z[0] = x
    return (z * z).sum()


def product(a: Any, b: Any) -> Any:
    return (a * b).sum()


PROGRAMS: dict[str, Any] = {
    "a dict": lambda x: h.TABLE["f"](x) * h.TABLE[3](x), "a list": lambda x: sum(f(x) for f in h.LIST), "a tuple": lambda x: h.TUPLE[0](x) * h.TUPLE[1][1](x),
    "nested": lambda x: h.NEST["a"][0](x) * h.NEST["a"][1][1](x) + written(h.NEST["b"]["c"](3), x), "a named tuple": lambda x: h.PAIR.f(x) * h.PAIR.g(x),
    "a default dict": lambda x: h.DEFAULT["any"](x), "a namespace": lambda x: h.SPACE.f(x), "a partial": lambda x: h.POWER(x) * h.HANDED(x),
    "a partial of a class of its own": lambda x: h.OWN_PARTIAL(x) * h.OWN_PARTIAL.root(x),
    "a static method that an object keeps": lambda x: h.KEEPER.f(x), "the method of that object": h.KEEPER.call,
    "a partial made there": lambda x: functools.partial(math.pow, 2.0)(x), "a partial itself": functools.partial(math.pow, 2.0),
    "a partial of a function": functools.partial(lambda f, x: f(x), math.sin), "a registry": lambda x: h.REGISTRY["sin"](x),
    "defaults": lambda x: h.by_default(x) * h.by_defaults(x), "its own default": lambda x, f=math.sin: f(x), "a closure": lambda x: h.CLOSURE(x),
    "a closure itself": h.CLOSURE, "a chain": lambda x: h.CHAIN(x), "a wrapper's cache": lambda x: h.CACHED(x), "singledispatch": lambda x: h.dispatched(x),
    "a class": lambda x: h.Layer().by_class(x), "a base class": lambda x: h.Child().by_class(x), "an object": lambda x: h.OBJECT(x), "a new object": lambda x: h.Layer(math.exp)(x),
    "an object itself": h.Layer(math.sin), "its method": h.Layer(math.sin).by_class, "a dataclass": lambda x: h.DATA(x), "a dataclass itself": h.DATA,
    "slots": lambda x: h.SLOTS.f(x), "a module's name": m.by_module, "two modules on": lambda x: m.by_list(x),
    "map": lambda x: sum(map(math.sin, [x, 2 * x])), "map of a constructor": lambda x: np.sum(list(map(np.array, [[x, 1.0], [x, x]]))),
    "unpacked": lambda x: product(*map(np.asarray, ([x, 1.0], [2 * x, x]))), "getattr": lambda x: getattr(np, "sin")(x) * getattr(math, "exp")(x),  # noqa: B009
    "getattr of a constructor": lambda x: written(getattr(np, "zeros")(3), x),  # noqa: B009
    "a partial of a constructor": lambda x: functools.partial(np.array, dtype=float)([x, x]).sum() * written(functools.partial(np.zeros, dtype=float)(3), x),
    "a partial of a helper's": lambda x: h.partial_of()([x, 2 * x]).sum() * h.Layer().partial_of()([x]).sum(),
    "an argument": lambda x: (lambda f, y: f(y))(math.sin, x), "reduce": lambda x: functools.reduce(lambda a, f: f(a), [math.sin, math.exp], x),
}


@pytest.mark.filterwarnings("ignore:.*calls weakref:tapegrad.RetraceWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_is_found_wherever_it_is_held(name: str) -> None:
    f = PROGRAMS[name]
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for x in (0.7, 0.71, 0.72, 0.7):
        slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        for value, (_, dx) in (tg.grad(f, x), step(x)):
            assert value == pytest.approx(f(x), rel=1e-12)
            assert dx == pytest.approx(slope, rel=1e-6)
    assert step.stats.hits == 3 or name == "singledispatch"  # which asks a weak table


class Numbers:
    """An object with numbers, and whatever else is given."""

    def __init__(self, **more: Any) -> None:
        self.w = 2.0
        vars(self).update(more)


class Acting:
    act = staticmethod(math.sin)

    def apply(self, x: float) -> float:
        return self.act(x)


class Choice(enum.Enum):
    ONLY = 1

    def apply(self, x: float) -> float:
        return math.sin(x)


@pytest.mark.parametrize(("f", "held"), [
    (lambda f, x: f(x), math.sin), (lambda t, x: t["f"](x), {"f": math.sin}), (lambda t, x: t[0](x), [math.sin]), (lambda t, x: t[0][0](x), ([math.sin],)),
    (lambda o, x: o(x), h.Layer(math.sin)), (lambda o, x: o.at(x), types.SimpleNamespace(at=math.sin)), (lambda o, x: o.deep[0]["f"](x), Numbers(deep=[{"f": math.sin}])),
    (lambda o, x: o.kind.act(x), Numbers(kind=Acting)), (lambda o, x: o.kind.act(x), Numbers(kind=Acting())), (lambda o, x: o.call(x), Numbers(call=Acting().apply)),
    (lambda o, x: o.kind.apply(x), Numbers(kind=Choice.ONLY)), (lambda t, x: t["none"](x), collections.defaultdict(lambda: math.sin, a=1.0)),
    (lambda o, x: o.part(x), Numbers(part=functools.partial(math.sin))), (lambda o, x: o.of.sin(x), Numbers(of=math)),
])
def test_functions_among_the_arguments(f: Any, held: Any) -> None:
    assert tg.grad(f, held, 0.7)[1][2] == pytest.approx(math.cos(0.7))
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for x in (0.7, 0.8, 0.9):
        assert step(held, x)[1][2] == pytest.approx(math.cos(x))


def test_all_is_restored_and_what_the_program_puts_there_stays() -> None:
    def state() -> list[Any]:
        held = [h.LIST, h.TUPLE, h.PAIR, h.by_default.__defaults__, h.by_defaults.__defaults__, h.POWER.func, h.HANDED.args, h.CLOSURE.__closure__[0].cell_contents,
                np, h.np, vars(h.Layer)["act"], vars(h.Layer)["make"], vars(h.OBJECT), vars(h.SPACE), h.SLOTS.f, h.NEST]
        return [list(x) if type(x) is list else dict(x) if type(x) is dict else x for x in held]
    before = state()
    for f in PROGRAMS.values():
        tg.grad(f, 0.7)
        with pytest.raises(ZeroDivisionError):
            tg.grad(lambda x, f=f: f(x) + 1 // int(x * 0), 0.7)
    assert all(a is b or a == b for a, b in zip(before, state()))
    assert h.LIST[0] is math.sin and h.by_default.__defaults__[0] is math.sin and h.TUPLE[1][1] is math.exp

    def changes(x: Any) -> Any:
        h.LIST.insert(0, abs)
        h.TABLE["f"] = math.cos
        return h.LIST[1](x)
    tg.grad(changes, 0.7)
    assert h.LIST[0] is abs and h.LIST[1] is math.sin and h.TABLE["f"] is math.cos
    h.LIST.pop(0)
    h.TABLE["f"] = math.sin


def test_other_threads_never_notice() -> None:
    failures: list[Any] = []
    sine, zeros = math.sin(1.0), np.zeros

    def ordinary() -> None:
        for _ in range(800):
            found = h.LIST[0](1.0), h.TUPLE[0](1.0), h.Layer.act(1.0), h.by_default(1.0), h.POWER(1.0), type(h.TABLE["z"](2)), np.sqrt([4.0, 9.0]).tolist()
            if found != (sine, sine, math.tanh(1.0), sine * math.cos(1.0), 2.0, np.ndarray, [2.0, 3.0]):
                failures.append(found)
    threads = [threading.Thread(target=ordinary) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        for f in PROGRAMS.values():
            tg.grad(f, 0.7)
    for thread in threads:
        thread.join()
    assert not failures and h.TABLE["z"] is zeros


def by_names_of_others(x: Any) -> Any:
    return vars(math)["sin"](x)


def test_what_is_reached_by_none_of_this_is_refused_with_its_holder() -> None:
    columns = sys.version_info >= (3, 11)  # without them only a dotted name is known
    held = r"float, stored in FLOATS\['f'\] of test_held_functions.py, asked for a plain float" if columns else "a C function asked for a plain float"
    with pytest.raises(tg.errors.ConcretizationError, match=held):
        tg.grad(lambda x: FLOATS["f"](x), 0.7)
    with pytest.raises(tg.errors.ConcretizationError, match=r"vars\(math\)\['sin'\] of test_held_functions.py" if columns else "a C function asked"):
        tg.grad(by_names_of_others, 0.7)
    with pytest.raises(tg.errors.ConcretizationError, match=r"np.complex128 asked for a plain"):
        tg.grad(lambda x: np.complex128(x).real * x, 0.7)


FLOATS = {"f": float}


def test_compiled_code_gets_plain_arrays() -> None:
    rng = np.random.default_rng(0)

    def f(x: Any) -> Any:
        a, b = map(rng.normal, [0.0, 1.0], [1.0, 1.0], [3, 3])  # compiled: makes its arrays by np.empty, and fills them
        return x * len(a) * len(list(map(rng.normal, [0.0], [1.0], [3]))) * len(getattr(rng, "normal")(size=3)) * len(b)  # noqa: B009
    assert tg.grad(f, 2.0)[1][1] == 27.0


def test_what_another_trace_has_replaced_is_found_by_those_within() -> None:
    namespace: dict[str, Any] = {"math": math, "tg": tg}
    exec("T = {'a': (math.sin, [math.exp])}\n"
         "def inner(x): return T['a'][0](x) * T['a'][1][0](x)\n"
         "def outer(x): return T['a'][0](x) + tg.grad(inner, x)[1][1]\n", namespace)
    T, inner, outer = namespace["T"], namespace["inner"], namespace["outer"]
    tg.grad(outer, 0.7)  # finds what inner holds while that is replaced
    value, (_, slope) = tg.grad(inner, 0.7)
    assert value == inner(0.7)
    np.testing.assert_allclose(slope, math.exp(0.7) * (math.sin(0.7) + math.cos(0.7)))
    assert T["a"][0] is math.sin and T["a"][1][0] is math.exp


def test_what_a_program_returns_are_the_functions_themselves() -> None:
    table = {"f": math.sin}

    def f(x: Any) -> Any:
        return [np.sin, x], (math.cos, np.zeros, x), (math.exp, "a"), {"f": table["f"]}, math.sin, np.add
    for found in (tg.trace(f, 2.0)[0], tg.trace(f, 1.0)[1].play(2.0), tg.compile(f, warmup=1)(2.0)):
        assert found == f(2.0) and found[4] is math.sin and found[1][1] is np.zeros
    assert tg.trace(lambda x: math.sin, 1.0)[0] is math.sin and tg.trace(lambda x: (math.sin,), 1.0)[0][0] is math.sin


SEEN = {math.sin, np.zeros}
BY_FUNCTION = {math.sin: 2.0, np.sum: 3.0, np.exp: 5.0}


def test_a_function_is_itself_in_sets_and_as_a_key() -> None:
    shown = str(math.sin)

    def f(x: Any, fn: Any = math.sin) -> Any:
        assert isinstance(math.sin, types.BuiltinFunctionType) and str(math.sin) == shown
        assert math.sin.__name__ == "sin" and np.sum.__name__ == "sum" and inspect.signature(np.zeros_like).parameters
        return fn(x) * (2.0 if fn in SEEN and np.zeros in SEEN else 1.0) * BY_FUNCTION[math.sin] * BY_FUNCTION.get(np.sum, 1.0) * BY_FUNCTION[np.exp]
    assert f(0.7) == 60.0 * math.sin(0.7)
    compiled = tg.value_and_grad(f, argnums=None, warmup=1)
    for x in (0.7, 0.7, 0.9):
        assert tg.grad(f, x)[0] == compiled(x)[0] == f(x)
    found = tg.trace(lambda x, fn=math.sin: fn(x) if pickle.loads(pickle.dumps(math.sin)) == fn else x, 0.7)[0]
    assert found == math.sin(0.7)


ONE = 1
KEPT: list[Any] = []


def of_one() -> Any:
    return lambda n: 2.0 if n is ONE else 3.0


def local_to_a_thread() -> Any:
    held = threading.local()
    held.f = of_one()
    return lambda n: held.f(n)


def with_attribute() -> Any:
    def call(n: int) -> Any:
        return call.f(n)  # type: ignore[attr-defined]
    call.f = of_one()  # type: ignore[attr-defined]
    return call


def dispatched() -> Any:
    found = functools.singledispatch(lambda n: 0.0)
    found.register(int, of_one())
    return found


def weakly() -> Any:
    KEPT.append(of_one())
    found = weakref.ref(KEPT[-1])
    return lambda n: found()(n)


HOLDS: dict[str, Any] = {
    "cache": lambda: functools.lru_cache(of_one()), "cache of a cache": lambda: functools.lru_cache(functools.lru_cache(of_one())),
    "set": lambda: (lambda fs: lambda n: next(iter(fs))(n))({of_one()}), "frozenset": lambda: (lambda fs: lambda n: next(iter(fs))(n))(frozenset([of_one()])),
    "mapping": lambda: (lambda fs: lambda n: fs["f"](n))(types.MappingProxyType({"f": of_one()})),
    "chain": lambda: (lambda fs: lambda n: fs["f"](n))(collections.ChainMap({"f": of_one()})),
    "user's dict": lambda: (lambda fs: lambda n: fs["f"](n))(collections.UserDict({"f": of_one()})),
    "namespace": lambda: (lambda held: lambda n: held.f(n))(types.SimpleNamespace(f=functools.lru_cache(of_one()))),
    "thread": local_to_a_thread, "attribute": with_attribute, "dispatch": dispatched, "weak": weakly,
}


@pytest.mark.parametrize("name", HOLDS)
def test_python_functions_are_found_where_objects_of_the_standard_library_hold_them(name: str) -> None:
    for _ in range(2):  # the second is another function of the same code
        for ask in (lambda f, *given: tg.grad(f, 2.0, 1, *given, argnums=0)[0], lambda f, *given: tg.trace(f, 2.0, 1, *given)[0]):
            held = HOLDS[name]()
            assert ask(lambda x, n: x * held(n)) == 4.0  # noqa: B023
            assert ask(lambda x, n, g: x * g(n), HOLDS[name]()) == 4.0


def test_a_compiled_function_leads_to_the_names_of_its_own() -> None:
    interpolate = pytest.importorskip("scipy.interpolate")
    at = np.linspace(0.0, 3.0, 7)
    step = tg.compile(lambda x: interpolate.interp1d(at, at**2)(x) * x)
    for f, given in ((step, ()), (lambda x: step(x), ()), (lambda x, g: g(x), (step,))):
        assert tg.grad(f, 1.6, *given, argnums=0)[1] == pytest.approx(8.2)
