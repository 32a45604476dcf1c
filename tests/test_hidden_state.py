"""Hidden state: what steers a program and is no argument. A compiled function answers as plain Python does, or traces; it never lies at a later call.

Each program is a module of its own: `f(x)` is called eight times, `act(k)` is the script that changes something after call k.
"""

from __future__ import annotations

import abc
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
import threading
import time
import types
import typing
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.replay import cache
from tests import hidden_reads

LIBRARIES = [abc, builtins, calendar, collections, contextvars, ctypes, dataclasses, datetime, decimal, enum, functools, importlib, inspect, itertools,
             logging, math, operator, os, queue, random, sqlite3, sys, tempfile, threading, time, types, typing, warnings, weakref]

PROGRAMS: dict[str, str] = {
    "counter": """
n=0
def f(x):
    global n
    n+=1
    return x*(1.0 if n<5 else 2.0)
""",
    "list pop": """
q=[1.,1.,1.,5.,6.,7.,8.,9.,10.]
def f(x): return x*q.pop(0)
""",
    "attr counter": """
class C: n=0
c=C()
def f(x):
    c.n+=1
    return x*(c.n>4)+x
""",
    "class attr": """
class C: n=0
def f(x):
    C.n+=1
    return x*(C.n>4)+x
""",
    "fn attr": """
def f(x):
    f.n=getattr(f,'n',0)+1
    return x*(f.n>4)+x
""",
    "default list": """
def f(x,h=[]):
    h.append(1)
    return x*(len(h)>4)+x
""",
    "closure": """
def mk():
    n=0
    def g():
        nonlocal n
        n+=1
        return n
    return g
g=mk()
def f(x): return x*(g()>4)+x
""",
    "method swap": """
class M:
    def f(self,x): return x*2
m=M()
def f(x): return m.f(x)
def act(k):
    if k==3: M.f=lambda self,x: x*5
""",
    "base method swap": """
class B:
    def f(self,x): return x*2
class M(B): pass
m=M()
def f(x): return m.f(x)
def act(k):
    if k==3: B.f=lambda self,x: x*5
""",
    "sub method added": """
class B:
    def f(self,x): return x*2
class M(B): pass
m=M()
def f(x): return m.f(x)
def act(k):
    if k==3: M.f=lambda self,x: x*5
""",
    "instance shadows": """
class B:
    r=2.0
m=B()
def f(x): return m.r*x
def act(k):
    if k==3: m.r=5.0
""",
    "kwdefaults": """
def g(x,*,s=2.0): return x*s
def f(x): return g(x)
def act(k):
    if k==3: g.__kwdefaults__['s']=5.0
""",
    "defaults": """
def g(x,s=2.0): return x*s
def f(x): return g(x)
def act(k):
    if k==3: g.__defaults__=(5.0,)
""",
    "__call__": """
class M:
    def __call__(self,x): return x*2
m=M()
def f(x): return m(x)
def act(k):
    if k==3: M.__call__=lambda self,x: x*5
""",
    "property": """
class M:
    @property
    def r(self): return 2.0
m=M()
def f(x): return m.r*x
def act(k):
    if k==3: M.r=property(lambda self: 5.0)
""",
    "code": """
def g(x): return x*2
def h(x): return x*5
def f(x): return g(x)
def act(k):
    if k==3: g.__code__=h.__code__
""",
    "class swap": """
class A:
    def g(self,x): return x*2
class B:
    def g(self,x): return x*5
m=A()
def f(x): return m.g(x)
def act(k):
    if k==3: m.__class__=B
""",
    "contextvar": """
v=contextvars.ContextVar('v',default=2.0)
def f(x): return x*v.get()
def act(k):
    if k==3: v.set(5.0)
""",
    "environ": """
os.environ['Q']='2'
def f(x): return x*float(os.environ['Q'])
def act(k):
    os.environ['Q']='5' if k==3 else os.environ['Q']
""",
    "getenv": """
os.environ['Q']='2'
def f(x): return x*float(os.getenv('Q'))
def act(k):
    if k==3: os.environ['Q']='5'
""",
    "file": """
from pathlib import Path
p=Path(FOLDER)/'rate'
p.write_text('2')
def f(x):
    return x*float(p.read_text())
def act(k):
    if k==3: p.write_text('5')
""",
    "weakref": """
class O: r=2.0
o=O()
w=weakref.ref(o)
def f(x):
    return x*(2.0 if w() is not None else 5.0)
def act(k):
    global o
    if k==3: o=None
""",
    "threading.local": """
L=threading.local()
L.r=2.0
def f(x): return x*L.r
def act(k):
    if k==3: L.r=5.0
""",
    "queue": """
Q=queue.Queue()
for i in range(20): Q.put(2.0 if i<4 else 5.0)
def f(x): return x*Q.get()
""",
    "deque": """
Q=collections.deque([2.]*4+[5.]*20)
def f(x): return x*Q.popleft()
""",
    "decimal ctx": """
def f(x): return x*float(decimal.Decimal(1)/3)
def act(k):
    decimal.getcontext().prec=28 if k!=3 else 3
""",
    "ctypes": """
b=(ctypes.c_double*1)(2.0)
def f(x): return x*b[0]
def act(k):
    if k==3: b[0]=5.0
""",
    "globals()": """
r1=2.0
r2=5.0
k_=1
def f(x): return x*globals()['r%d'%k_]
def act(k):
    global r1
    if k==3: r1=7.0
""",
    "d.get": """
d={'r':2.0}
F=d.get
def f(x): return x*F('r')
def act(k):
    if k==3: d['r']=5.0
""",
    "mod getattr": """
m2=types.ModuleType('m2x')
st={'r':2.0}
def ga(n):
    if n=='rate': return st['r']
    raise AttributeError(n)
m2.__getattr__=ga
def f(x): return x*m2.rate
def act(k):
    if k==3: st['r']=5.0
""",
    "lru": """
r=2.0
@functools.lru_cache
def g(): return r
def f(x): return x*g()
def act(k):
    global r
    if k==3: r=5.0
    if k==5: g.cache_clear()
""",
    "lru2": """
r=2.0
@functools.lru_cache
def g(): return r
def f(x): return x*g()
def act(k):
    global r
    if k==3:
        r=5.0; g.cache_clear()
""",
    "cached_property": """
class M:
    def __init__(s): s.r=2.0
    @functools.cached_property
    def v(s): return s.r*2
m=M()
def f(x): return x*m.v
def act(k):
    if k==3: m.r=5.0
    if k==5: del m.v
""",
    "random": """
random.seed(0)
def f(x): return x*random.random()
""",
    "random choice rare": """
random.seed(1)
def f(x): return x*(2.0 if random.random()<0.8 else 5.0)
""",
    "time": """
t0=time.perf_counter()
T=[0]
def f(x):
    time.perf_counter()
    return x*2
""",
    "iter": """
it=iter([2.]*4+[5.]*10)
def f(x): return x*next(it)
""",
    "count": """
it=itertools.count()
def f(x): return x*(2.0 if next(it)<5 else 5.0)
""",
    "gen": """
def g():
    for i in range(100): yield 2.0 if i<5 else 5.0
G=g()
def f(x): return x*next(G)
""",
    "cycle idx": """
data=[2.,2.,2.,2.,2.,7.,8.,9.]
st={'i':0}
def f(x):
    v=data[st['i']]; st['i']+=1
    return x*v
""",
    "registry": """
R={}
def reg(f): R[f.__name__]=f; return f
@reg
def a(x): return x*2
def f(x): return R['a'](x)
def act(k):
    if k==3: R['a']=lambda x: x*5
""",
    "nested obj": """
class N: pass
a=N(); a.b=N(); a.b.c=[2.0]
def f(x): return x*a.b.c[0]
def act(k):
    if k==3: a.b.c[0]=5.0
""",
    "slots": """
class N: __slots__=('r',)
a=N(); a.r=2.0
def f(x): return x*a.r
def act(k):
    if k==3: a.r=5.0
""",
    "namedtuple": """
T=collections.namedtuple('T','r')
a=T(2.0)
def f(x): return x*a.r
def act(k):
    global a
    if k==3: a=T(5.0)
""",
    "dataclass": """
@dataclasses.dataclass
class D: r: float=2.0
a=D()
def f(x): return x*a.r
def act(k):
    if k==3: a.r=5.0
""",
    "simplenamespace": """
a=types.SimpleNamespace(r=2.0)
def f(x): return x*a.r
def act(k):
    if k==3: a.r=5.0
""",
    "getattr dyn": """
class A: r=2.0
a=A()
n='r'
def f(x): return x*getattr(a,n)
def act(k):
    if k==3: a.r=5.0
""",
    "getattr dyn name": """
class A: r=2.0; s=5.0
a=A()
n='r'
def f(x): return x*getattr(a,n)
def act(k):
    global n
    if k==3: n='s'
""",
    "__getattr__": """
class A:
    def __init__(s): s.d={'r':2.0}
    def __getattr__(s,n): return s.d[n]
a=A()
def f(x): return x*a.r
def act(k):
    if k==3: a.d['r']=5.0
""",
    "descriptor": """
class D:
    def __init__(s): s.v=2.0
    def __get__(s,o,c): return s.v
class A: r=D()
a=A()
def f(x): return x*a.r
def act(k):
    if k==3: A.__dict__['r'].v=5.0
""",
    "array in place": """
A=np.array([2.0,1.0])
def f(x): return x*A[0]
def act(k):
    if k==3: A[0]=5.0
""",
    "array view base": """
A=np.array([2.0,1.0]); V=A[:1]
def f(x): return x*V[0]
def act(k):
    if k==3: A[0]=5.0
""",
    "str mode": """
MODE='a'
def f(x): return x*2 if MODE=='a' else x*5
def act(k):
    global MODE
    if k==3: MODE='b'
""",
    "captured str": """
def mk():
    mode='a'
    def f(x): return x*2 if mode=='a' else x*5
    def act(k):
        nonlocal mode
        if k==3: mode='b'
    return f,act
f,act=mk()
""",
    "module fn swap": """
hm=types.ModuleType('hmx'); exec('def h(x): return x*2',hm.__dict__)
def f(x): return hm.h(x)
def act(k):
    if k==3: exec('def h(x): return x*5',hm.__dict__)
""",
    "history": """
H=[]
def f(x):
    H.append(1)
    return x*2+0*len(H)
""",
    "exists later": """
def f(x):
    try: return x*LATER
    except NameError: return x*2
def act(k):
    global LATER
    if k==3: LATER=5.0
""",
    "hasattr later": """
class A: pass
a=A()
def f(x): return x*5 if hasattr(a,'hook') else x*2
def act(k):
    if k==3: a.hook=1
""",
    "dict subclass": """
class D(dict): pass
d=D(r=2.0)
def f(x): return x*d['r']
def act(k):
    if k==3: d['r']=5.0
""",
    "defaultdict": """
d=collections.defaultdict(lambda:2.0)
def f(x): return x*d['r']
def act(k):
    if k==3: d['r']=5.0
""",
    "set": """
s={1,2}
def f(x): return x*len(s)
def act(k):
    if k==3: s.add(3)
""",
    "partial": """
def g(r,x): return x*r
p=functools.partial(g,2.0)
def f(x): return p(x)
def act(k):
    global p
    if k==3: p=functools.partial(g,5.0)
""",
    "np global state": """
def f(x): return x*float(np.geterr()['divide']=='warn')+x
def act(k):
    np.seterr(divide='ignore' if k==3 else 'warn')
""",
    "datetime": """
def f(x): return x*(datetime.datetime.now().year>2000)*2
""",
    "sysmodules": """
mm=types.ModuleType('mmx'); mm.r=2.0; sys.modules['mmx']=mm
def f(x):
    import mmx
    return x*mmx.r
def act(k):
    if k==3: mm.r=5.0
""",
    "singledispatch": """
@functools.singledispatch
def g(a,x): return x*2
def f(x): return g('s',x)
def act(k):
    if k==3: g.register(str,lambda a,x: x*5)
""",
    "tgvalue": """
def f(x): return x*float(tg.value(x))
""",
    "enum": """
class E(enum.Enum): A=1; B=2
e=E.A
def f(x): return x*(2 if e is E.A else 5)
def act(k):
    global e
    if k==3: e=E.B
""",
    "local import func": """
def f(x):
    from math import floor
    return x*floor(2.5)
""",
}


def program(name: str, text: str, folder: Path) -> Any:
    """Return a new module that holds the program."""
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


PROGRAMS |= hidden_reads.PROGRAMS


@pytest.mark.parametrize("warmup", [1, 2, None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_function_answers_as_plain_python(name: str, warmup: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.RetraceWarning)
            expected = called(lambda f: f)
            assert called(lambda f: tg.compile(f, warmup=warmup)) == pytest.approx(expected, rel=1e-12)

            def value(f: Any) -> Any:
                step = tg.value_and_grad(f, warmup=warmup)
                return lambda *args: step(*args)[0]
            assert called(value) == pytest.approx(expected, rel=1e-12)
    finally:
        np.seterr(**before[0])
        decimal.setcontext(before[1])


def test_what_steers_and_is_no_input_is_named_once() -> None:
    state = {"calls": 0}

    def step(x: Any) -> Any:
        COUNTS["n"] += 1
        return x * COUNTS["n"]
    COUNTS["n"] = 0
    fast = tg.value_and_grad(step)
    assert fast(2.0)[0] == 2.0 and not state["calls"]
    with pytest.warns(tg.RetraceWarning) as caught:
        found = [fast(2.0)[0] for _ in range(5)]
    assert found == [4.0, 6.0, 8.0, 10.0, 12.0] and len(caught) == 1
    text = str(caught[0].message)
    assert "multiply(·, 1) before, and multiply(·, 2) now" in text and "return x * COUNTS" in text and caught[0].filename == __file__
    assert fast.stats.hits == 0  # type: ignore[attr-defined]


COUNTS = {"n": 0}


def test_a_path_is_compiled_though_a_library_is_mentioned() -> None:
    import rich

    def f(x: Any) -> Any:
        if SHOW:
            rich.print(x)
        return x * x
    globals()["rich"] = rich
    fast = tg.value_and_grad(f)
    assert [fast(float(k))[0] for k in range(4)] == [0.0, 1.0, 4.0, 9.0] and fast.stats.hits == 3  # type: ignore[attr-defined]


SHOW = False


def test_a_function_gives_up_where_each_call_takes_another_path() -> None:
    fast = tg.value_and_grad(lambda x, n: x * int(n))
    with pytest.warns(tg.RetraceWarning, match="another path") as caught:
        for n in range(100):
            assert fast(2.0, n)[0] == 2.0 * n
    assert not fast.tapes and len(caught) == 1 and fast.stats.traces == 100  # type: ignore[attr-defined]
