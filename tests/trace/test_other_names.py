"""Objects that a traced program was given copies of, and reaches by other names: it sees the same copies, or the trace raises."""

from __future__ import annotations

import copy
import linecache
import pickle
import sys
from collections.abc import Iterator
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.tree.flatten import leaves_of
from tests.threads import at_once

HEAD = """
import collections, contextvars, dataclasses, functools, gc, importlib, operator, sys, types, weakref
import tapegrad as tg
class Net:
    def __init__(self, w): self.w = w
    def __call__(self, x): return self.w * x
"""
GLOBAL_NET, GLOBAL_DICT = "NET = {0}", "D = dict(w={0})"
BY_NET, BY_DICT = "f, (NET, {1}), lambda df, n, x: (n.w, x)", "f, (D, {1}), lambda df, d, x: (d['w'], x)"

# what the program is, how its objects are made of two numbers, and what is called: f, its arguments, and the gradient by the two numbers
OBJECTS = {
    "a method writes, a function reads": ("""
class T:
    def step(self, w): self.w = w; return ev()
def ev(): return t.w ** 2""", "t = T(); t.w = {0}", "t.step, ({1},), lambda df, x: (df.w, x)"),
    "global": ("def loss(x): return NET.w ** 2 * NET(x)\ndef f(n, x): return loss(x) * n.w", GLOBAL_NET, BY_NET),
    "write through a global": ("def up(x): NET.w = NET.w * x\ndef f(n, x): up(x); return n.w ** 2", GLOBAL_NET, BY_NET),
    "class attribute": ("class C: net = None\ndef f(n, x): return C.net.w * C().net.w * x", "C.net = NET = Net({0})", BY_NET),
    "registries": ("L, D = [], {{}}\ndef f(n, x): return sum(m.w for m in L) * D['n'].w * x", "NET = {0}; L[:] = [NET]; D['n'] = NET", BY_NET),
    "a registry that grows": ("""
class Node:
    every = []
    def __init__(self, w): self.w = w; Node.every.append(self)
def f(n, x):
    Node(n.w * x)
    y = sum(m.w for m in Node.every) * len(Node.every)
    del Node.every[1:]
    return y""", "Node.every.clear(); NET = Node({0})", BY_NET),
    "weak references": ("def f(n, x): return REF().w * PROXY.w * x", "NET = {0}; REF = weakref.ref(NET); PROXY = weakref.proxy(NET)", BY_NET),
    "a weak parent": ("""
class Child:
    def __init__(self, parent): self.parent = weakref.ref(parent)
    def up(self, x): self.parent().w = self.parent().w * x
def f(n, x): n.child.up(x); return n.w ** 2""", "NET = {0}; NET.child = Child(NET)", BY_NET),
    "identity and class": ("""
def f(n, x): return n.w * x if n is NET and n in L and any(m is n for m in L) and S[n] and type(L[0]) is Net and id(n) in I else 0 * x""",
                           "NET = {0}; L = [NET]; S = dict([(NET, 1)]); I = [id(NET)]", BY_NET),
    "operators": ("""
class Vec(Net):
    def __add__(self, other): return type(self)(self.w + other.w)
    def __getitem__(self, i): return self.w * i
    def __iter__(self): yield self.w
    def __len__(self): return 2
def f(n, x): return ((NET + n).w * x + NET[2] + sum(NET)) * len(NET)""", "NET = Vec({0})", BY_NET),
    "slots and frozen": ("""
@dataclasses.dataclass(frozen=True)
class A:
    w: float
class B:
    __slots__ = ("a", "k")
def up(x): NET.k = NET.a.w * x
def f(n, x): up(x); return n.k ** 2 + dataclasses.replace(A1).w""",
                         "A1 = A({0}); NET = B(); NET.a = A1; NET.k = 0.0", "f, (NET, {1}), lambda df, n, x: (n.a.w, x)"),
    "an attribute of its own kind": ("""
class C(Net):
    def __getattr__(self, name): return self.w * 2 if name == 'twice' else object.__getattribute__(self, name)
    def __setattr__(self, name, value): self.__dict__[name] = value
def f(n, x): NET.z = x; return NET.twice * n.z * vars(NET)['w'] * copy(NET).w
from copy import deepcopy as copy""", "NET = C({0})", BY_NET),
    "a generator and a coroutine": ("""
def each():
    for m in L: yield m.w
async def one(x): return NET.w * x
def f(n, x):
    try: one(x).send(None)
    except StopIteration as stop: return sum(each()) * stop.value""", "NET = {0}; L = [NET]", BY_NET),
    "a trace inside": ("""
def inner(n, x): return NET.w * n.w * x * x
def f(n, x): return tg.gradient(inner, NET, x)[0].w if type(x) is not float else 2 * NET.w * x * x""", GLOBAL_NET, BY_NET),
}
PLAIN = {
    "a view of a dict": ("def f(d, x): return sum(V) * x + M['w'] * G('w')",
                         "D = dict(w={0}); V, M, G = D.values(), types.MappingProxyType(D), D.get", BY_DICT),
    "global": ("def loss(x): return D['w'] ** 2 * x\ndef f(d, x): return loss(x) * d['w']", GLOBAL_DICT, BY_DICT),
    "write through a global": ("def up(x): D['w'] = D['w'] * x\ndef f(d, x): up(x); return d['w'] ** 2", GLOBAL_DICT, BY_DICT),
    "write to the argument": ("def read(): return D['w'] ** 2\ndef f(d, x): d['w'] = d['w'] * x; return read()", GLOBAL_DICT, BY_DICT),
    "defaults": ("E = {{}}\ndef loss(x, d=E, *, e=E): return d['w'] * e['w'] * x\ndef f(d, x, e=E): return loss(x) * e['w']",
                 "D = E; D['w'] = {0}", BY_DICT),
    "class attributes": ("""
class Meta(type): pass
class C(metaclass=Meta):
    def go(self): return self.d['w'] * type(self).d['w'] * C.e['w']
def f(d, x): return C().go() * x""", "D = dict(w={0}); C.d = Meta.e = D", BY_DICT),
    "held by objects": ("""
class App:
    def loss(self, x): return self.d['w'] * x
def f(d, x): return APP.loss(x) * NS.d['w'] * UD['w'] * TT.d['w']
T = collections.namedtuple("T", "d")""",
                        "D = dict(w={0}); APP = App(); APP.d = D; NS = types.SimpleNamespace(d=D); UD = collections.UserDict(); UD.data = D; TT = T(D)",
                        BY_DICT),
    "held by containers": ("def f(d, x):\n    (e, k), *_ = L\n    L.append(x)\n    return e['w'] * Q[0]['w'] * k * L.pop()",
                           "D = dict(w={0}); L = [(D, 2.0)]; Q = collections.deque([D])", BY_DICT),
    "bound methods of C": ("def f(d, x): return GET('w') * PART('w') * x", "D = dict(w={0}); GET = D.get; PART = functools.partial(D.__getitem__)",
                           BY_DICT),
    "modules": ("""
m = types.ModuleType("other_names_of"); sys.modules[m.__name__] = m
def f(d, x):
    import other_names_of
    from other_names_of import D as E
    return m.D['w'] * E['w'] * other_names_of.D['w'] * getattr(m, "D")['w'] * sys.modules["other_names_of"].D['w'] * x""",
                "m.D = D = dict(w={0})", BY_DICT),
    "named in a string": ("def f(d, x): return globals()['D']['w'] * eval('D')['w'] * importlib.import_module(__name__).D['w'] * x",
                          GLOBAL_DICT, BY_DICT),
    "an attribute of a function": ("def loss(x): return loss.d['w'] * x\ndef f(d, x): f.d['w'] = f.d['w'] * x; return loss(x) * d['w']",
                                   "D = f.d = loss.d = dict(w={0})", BY_DICT),
    "functions inside": ("def f(d, x):\n    class C: w = D['w']\n    return (lambda: D['w'])() * sum(D[k] for k in D) * C.w * x", GLOBAL_DICT, BY_DICT),
    "lists, sets, namespaces": ("""
def up(x): L.append(x); S.add("b"); N.k = N.w * x; E["k"] = x
def f(l, s, n, e, x): up(x); return l[0] * l[-1] * len(s) * n.k * e["k"]""",
                                "L = [{0}]; S = set('a'); N = types.SimpleNamespace(w={0}); E = collections.defaultdict(float)",
                                "f, (L, S, N, E, {1}), lambda df, l, s, n, e, x: (l[0] + n.w, x)"),
    "a closure without numbers": ("""
def build(name):
    def get(): return D['w'] if name else 0.0
    def f(d, x): return get() * D['w'] * x
    return functools.wraps(get)(f)
f = build("f")""", GLOBAL_DICT, BY_DICT),
    **{f"a method of {what}": (f"""
def get(self=None): return D['w']
def kind(base): return type("K", (base,), dict(get=get))
class User: get = get
def f(d, held, x): return x * {how}""", f"D = dict(w={{0}}); held = {held}", "f, (D, held, {1}), lambda df, d, held, x: (d['w'], x)")
       for what, held, how in [("a tuple", "kind(collections.namedtuple('T', 'n'))('a')", "held.get()"), ("an integer", "kind(int)(2)", "held.get()"),
                               ("what is in a set", "{{User()}}", "next(iter(held)).get()"), ("a set", "{{(lambda n: lambda: get(n))('a')}}", "next(iter(held))()")]},
    "a kind of dict": ("class K(dict): pass\ndef f(d, x): D['k'] = x; return {{**D}}['w'] * G('w') * d['k'] * sum(D.values())",
                       "D = K(w={0}); G = D.get", BY_DICT),
}
VARIABLES = {
    "read by another function": ("def build(a):\n    def get(): return a\n    def f(x): return L[0]() * a * x\n    return get, f",
                                 "get, f = build({0}); L = [get]", "f, ({1},), lambda df, x: (df['a'], x)"),
    "assigned by another function": ("""
def build(a):
    def put(v):
        nonlocal a
        a = v
    def f(x): L[0](a * x); return a ** 2
    return put, f""", "put, f = build({0}); L = [put]", "f, ({1},), lambda df, x: (df['a'], x)"),
    "recursion by a global": ("def build(a):\n    def f(x, n): return x * F(x, n - 1) if n else a\n    return f", "F = build({0})",
                              "F, ({1}, 2), lambda df, x, n: (df['a'], x)"),
    "captured elsewhere": ("""
def build(d):
    def put(v):
        nonlocal d
        e, d = d, dict(w=d['w'] * v)
        v, d = d['w'], e
        return v
    return put
def f(d, x): return F(x) * F(x * x) * d['w']""", "D = dict(w={0}); F = build(D)", BY_DICT),
}
REFUSED = {
    "an iterator": ("def f(d, x): return next(IT)['w'] * x", "D = dict(w={0}); IT = iter([D])", BY_DICT, r"IT of .*a list_iterator, refers to d"),
    "a cache": ("@functools.lru_cache\ndef get(): return D\ndef f(d, x): return get()['w'] * x", "D = dict(w={0}); get()", BY_DICT, "get of .* refers to d"),
    "a context variable": ("V = contextvars.ContextVar('V')\ndef f(d, x): return V.get()['w'] * x", "D = dict(w={0}); V.set(D)", BY_DICT, "refers to d"),
    "a key that is weak": ("def f(n, x): return W.get(n, 1.0) * n.w * x", "NET = {0}; W = weakref.WeakKeyDictionary([(NET, 2.0)])", BY_NET, "W of .* to n"),
    "what the collector knows": ("def f(n, x): return sum(o.w for o in gc.get_objects() if type(o) is Net) * x", GLOBAL_NET, BY_NET, "gc.get_objects"),
    "a variable of two arguments": ("""
def build(a):
    def put(v):
        nonlocal a
        a = a * v
    def get(): return a
    return put, get
def f(g, h, x): g(x); return h()""", "g, h = build({0})", "f, (g, h, {1}), lambda *d: d", "a variable captured by two arguments"),
    "an object of two arguments": ("def up(x): NET.w = x\ndef f(n, m, x): up(x); return n.w * m.w", GLOBAL_NET, "f, (NET, NET, {1}), lambda *d: d",
                                   "a Net that two arguments share"),
    "a function that assigns globals": ("K = 0\ndef f(d, x):\n    global K\n    K += 1\n    return D['w'] * x", GLOBAL_DICT, BY_DICT, "assigns globals"),
}
_names = count()


def program(source: str, make: str, call: str, a: float, b: float) -> tuple[Any, Any, Any]:
    """Return a function, its arguments, and what takes the gradient by the two numbers, in a module of their own."""
    module = ModuleType(f"other_names_{next(_names)}")
    make = make.replace("NET = {0}", "NET = Net({0})")
    text = HEAD + "\n".join((source.replace("{{", "{").replace("}}", "}"), make.format(a, b), f"made = {call.format(a, b)}"))
    sys.modules[module.__name__] = module
    linecache.cache[module.__name__] = (len(text), None, text.splitlines(True), module.__name__)
    exec(compile(text, module.__name__, "exec"), vars(module))
    f, args, pick = module.made
    return f, args, pick


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("other_names_"):
            del sys.modules[name]


def value(row: tuple[str, str, str], a: float, b: float) -> Any:
    f, args, _ = program(*row, a, b)
    return f(*args)


@pytest.mark.parametrize("row", [*OBJECTS.values(), *PLAIN.values(), *VARIABLES.values()],
                         ids=[f"{kind}: {name}" for kind, rows in (("object", OBJECTS), ("plain", PLAIN), ("variable", VARIABLES)) for name in rows])
# a weak reference, or what is named in a string, keeps a path traced; what is written to a parameter is lost
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning", "ignore::tapegrad.EffectWarning")
def test_one_object_has_one_copy(row: tuple[str, str, str]) -> None:
    a, b, h = 1.75, 0.625, 1e-5
    want = [(value(row, a + h, b) - value(row, a - h, b)) / (2 * h), (value(row, a, b + h) - value(row, a, b - h)) / (2 * h)]
    called = program(*row, a, b)
    called[0](*called[1])
    f, args, pick = program(*row, a, b)
    before = leaves_of(args)
    got, gradients = tg.grad(f, *args)
    assert got == pytest.approx(value(row, a, b)) and pick(*gradients) == pytest.approx(want, rel=1e-5)
    left, wanted = leaves_of(args), leaves_of(called[1])  # a parameter keeps what it was
    assert len(left) == len(wanted) and all(x in (y, *before) for x, y in zip(left, wanted))
    f, args, pick = program(*row, a, b)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for _ in range(4):
        assert pick(*step(*args)[1]) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_what_cannot_lead_to_the_copy_is_refused(row: tuple[str, str, str, str]) -> None:
    f, args, _ = program(*row[:3], 1.75, 0.625)
    with pytest.raises(tg.MutationError, match=row[3]):
        tg.grad(f, *args)


class Net:
    def __init__(self, w: float) -> None:
        self.w = w

    def twin(self) -> Net:
        return type(self)(self.w)


NET, OTHER, STATE = Net(2.0), Net(5.0), {"w": 3.0}


def by_names(net: Any, state: Any, x: Any) -> Any:
    return net.w * NET.w * state["w"] * STATE["w"] * x


@pytest.mark.parametrize("order", [(NET, OTHER), (OTHER, NET)], ids=["first the object with a name", "last the object with a name"])
def test_a_compiled_tape_holds_for_the_objects_with_the_same_names(order: tuple[Net, Net]) -> None:
    step = tg.value_and_grad(by_names, argnums=None, warmup=1)
    other = {"w": 7.0}
    for net in order * 3:
        state = STATE if net is NET else other
        (got, (_, dn, ds, dx)), (want, (_, wn, ws, wx)) = step(net, state, 1.5), tg.grad(by_names, net, state, 1.5)
        assert (got, dn.w, ds, dx) == (want, wn.w, ws, wx)
    assert step.stats.traces == 2


def test_other_threads_see_the_objects_themselves() -> None:
    failures: list[Any] = []

    def traced(k: int) -> None:
        for i in range(60):
            got, (_, dn, ds, dx) = tg.grad(by_names, NET, STATE, x := 1.0 + i + k)
            if (got, dn.w, ds["w"], dx) != (36.0 * x, 36.0 * x, 24.0 * x, 36.0) or type(dn) is not Net:
                failures.append((got, dn.w, ds, dx))

    def ordinary(k: int) -> None:
        for _ in range(300):
            others = [NET.twin(), copy.deepcopy(NET), copy.copy(NET), pickle.loads(pickle.dumps(NET))]
            if by_names(NET, STATE, 1.0) != 36.0 or type(NET.w) is not float or NET.__class__ is not Net or any(type(x) is not Net for x in others):
                failures.append(list(map(type, others)))
    at_once(lambda k: (traced if k % 2 else ordinary)(k), range(4))
    assert not failures and type(NET) is Net and NET.w == 2.0 and STATE == {"w": 3.0}


def test_all_is_restored_after_an_error() -> None:
    def f(net: Any, state: Any) -> Any:
        NET.w = STATE["w"] = net.w * 2
        raise KeyError(net.w)
    code = by_names.__code__
    with pytest.raises(KeyError):
        tg.grad(f, NET, STATE)
    assert type(NET) is Net and NET.w == 2.0 and STATE == {"w": 3.0} and by_names.__code__ is code


RATES = [1.0]


class Rated:
    def rated(self, z: Any) -> Any:
        return z * RATES[0]


def _rated(z: Any) -> Any:
    return z * RATES[0]


MADE_OF_ANOTHER: dict[str, tuple[Any, Any]] = {
    "compile": (tg.compile(_rated), lambda made, x: made(x)),
    "value_and_grad": (tg.value_and_grad(_rated, argnums=None), lambda made, x: made(x)[0]),
    "its gradient": (tg.value_and_grad(_rated, argnums=None), lambda made, x: made(x)[1][1] * x),
    "compiled method": (tg.compile(Rated().rated), lambda made, x: made(x)),
    "compiled lambda": (tg.compile(lambda z: _rated(z)), lambda made, x: made(x)),
    "vmap": (tg.vmap(_rated), lambda made, x: made(x * np.ones(2))[1]),
    "hvp": (tg.hvp(lambda z: _rated(z) * z), lambda made, x: made(x, 1.0) * x / 2.0),
    "hvp of a compiled one": (tg.hvp(tg.compile(lambda z: _rated(z) * z)), lambda made, x: made(x, 1.0) * x / 2.0),
    "np.vectorize": (np.vectorize(_rated), lambda made, x: made(x) * 1.0),
}


@pytest.mark.parametrize("name", MADE_OF_ANOTHER)
@pytest.mark.parametrize("make", [tg.grad, lambda f, *args: tg.value_and_grad(f, argnums=None, warmup=1)(*args)])
@pytest.mark.filterwarnings("ignore:.*writes to rates:tapegrad.RetraceWarning")
@pytest.mark.filterwarnings("ignore:f is not compiled, because a value that is not an argument changes:tapegrad.RetraceWarning")  # its second call, as of a kept one
def test_functions_made_of_another_read_the_copies(name: str, make: Any) -> None:
    made, call = MADE_OF_ANOTHER[name]

    def f(x: Any, rates: Any) -> Any:
        rates[0] = x * 2.0
        return call(made, x)

    for x in (2.0, 3.0):
        RATES[0] = 1.0
        value, (*_, dx, _drates) = make(f, x, RATES)
        RATES[0] = 1.0
        assert value == f(x, RATES) == 2.0 * x * x and dx == 4.0 * x
