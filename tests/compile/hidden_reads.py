"""Programs that read what no name of theirs says, or that lack what comes later: each is a module, as those of test_hidden_state; `given` follows x."""

from __future__ import annotations

STEPS = "m=sys.modules['two_steps']=types.ModuleType('two_steps'); m.sub=types.ModuleType('two_steps.sub'); m.sub.rate=2.0; TABLE={'k': 'two_steps'}\n"
PROGRAMS: dict[str, tuple[str, str, str]] = {
    "module by a table and two steps": (STEPS, "x*sys.modules[TABLE['k']].sub.rate", "m.sub.rate=2.0+k//3"),
    "module imported by a computed name and two steps": (STEPS, "x*importlib.import_module(TABLE['k']).sub.rate", "m.sub.rate=2.0+k//3"),
    "module imported by dunder and two steps": (STEPS, "x*__import__(TABLE['k']).sub.rate", "m.sub.rate=2.0+k//3"),
    "module that is a default and two steps": (STEPS + "def f(x, conf=m): return x*getattr(conf, 'su'+'b').rate", "", "m.sub.rate=2.0+k//3"),
    "module by reduce and two steps": (STEPS, "x*functools.reduce(getattr, 'sub.rate'.split('.'), sys.modules[TABLE['k']])", "m.sub.rate=2.0+k//3"),
    "module in an object and two steps": (STEPS + "class O: pass\no=O(); o.conf=m", "x*o.conf.sub.rate", "m.sub.rate=2.0+k//3"),
    "attribute of the metaclass": ("class M(type): rate=2.0\nclass A(metaclass=M): pass", "x*A.rate", "M.rate=2.0+k//3"),
    "literal getattr of class later": ("class A: pass", "x*getattr(A,'rate',1.0)", "if k==4: A.rate=5.0"),
    "attribute of function that runs": ("def g(x): return x*2.0", "g(x)*getattr(g,'rate',1.0)", "g.rate=2.0+k//3"),
    "options": ("import argparse\no=argparse.Namespace(rate=2.0)", "x*o.rate", "o.rate=2.0+k//3"),
    "partial of a builtin": ("p=functools.partial(pow,2.0)", "x*p(2.0)", "if k==4: p=functools.partial(pow,3.0)"),
    "same size attr swap hook": ("class A: pass\na=A(); a.junk=1", "x*5 if hasattr(a,'hook') else x*2", "if k==4: del a.junk; a.hook=1"),
    "same size instance shadows class": ("class A: r=2.0\na=A(); a.junk=1", "x*a.r", "if k==4: del a.junk; a.r=5.0"),
    "same size class shadows base": ("class B: r=2.0\nclass A(B): junk=1\na=A()", "x*a.r", "if k==4: del A.junk; A.r=5.0"),
    "literal getattr of instance": ("class A: pass\na=A(); a.r=2.0", "x*getattr(a,'r')", "a.r=2.0+k//3"),
    "literal getattr of class": ("class A: r=2.0\na=A()", "x*getattr(a,'r')", "if k==4: A.r=5.0"),
    "literal getattr of base": ("""
class B: r=2.0
class M(B): pass
class A(M): pass
a=A()
""", "x*getattr(a,'r')", "if k==3: B.r=5.0\nif k==5: M.r=7.0"),
    "literal getattr of instance shadows": ("class A: r=2.0\na=A()", "x*getattr(a,'r')", "if k==3: a.r=5.0\nif k==5: del a.r"),
    "literal getattr by __getattr__": ("""
class A:
    def __init__(s): s.d={'r':2.0}
    def __getattr__(s,n): return s.d[n]
a=A()
""", "x*getattr(a,'r')", "a.d['r']=2.0+k//3"),
    "literal getattr by __getattr__ of an inner one": ("""
class I: pass
class A:
    def __init__(s): s.i=I(); s.i.r=2.0
    def __getattr__(s,n): return getattr(s.i,n)
a=A()
""", "x*getattr(a,'r',1.0)", "if k==3: a.i.r=5.0\nif k==5: del a.i.r"),
    "literal getattr by __getattr__ that comes": ("class A: pass\na=A()", "x*getattr(a,'r',2.0)", "if k==4: A.__getattr__=lambda s,n: 5.0"),
    "literal getattr by __getattribute__": ("""
class A:
    r=2.0
    def __getattribute__(s,n):
        y=object.__getattribute__(s,n)
        return y*RATE[0] if n=='r' else y
a=A(); RATE=[1.0]
""", "x*getattr(a,'r')", "RATE[0]=1.0+k//3"),
    "literal getattr of module": ("cfg=helper('hidden_cfg4','r=2.0')", "x*getattr(cfg,'r')", "cfg.r=2.0+k//3"),
    "literal getattr of module in module": ("""
cfg=helper('hidden_cfg4','r=2.0')
top=helper('hidden_cfg5','b=1'); top.sub=cfg
""", "x*getattr(getattr(top,'sub'),'r')", "if k==3: cfg.r=5.0\nif k==5: top.sub=helper('hidden_cfg6','r=7.0')"),
    "literal getattr by module's __getattr__": ("cfg=helper('hidden_cfg4','D={\"r\":2.0}\\ndef __getattr__(n):\\n    if n in D: return D[n]\\n    raise AttributeError(n)')", "x*getattr(cfg,'r')", "cfg.D['r']=2.0+k//3"),
    "literal getattr of local module": ("""
cfg=helper('hidden_cfg4','r=2.0')
def f(x):
    m=cfg
    return x*getattr(m,'later',getattr(m,'r'))
""", "", "if k==3: cfg.r=5.0\nif k==5: cfg.later=7.0"),
    "literal getattr of library's module": ("", "x*getattr(np,'hidden_rate',2.0)", "np.hidden_rate=5.0\nif k<4 or k==7: del np.hidden_rate"),
    "computed name of library's module": ("N='hidden_rate'", "x*getattr(np,N,2.0)", "np.hidden_rate=5.0\nif k<4 or k==7: del np.hidden_rate"),
    "computed name that is no plain str": ("class S(str): pass\nclass A: r=2.0\na=A(); N=S('r')", "x*getattr(a,N)", "A.r=2.0+k//3"),
    "computed name of another kind of str": ("class A: r=2.0\na=A(); N=np.str_('r')", "x*getattr(a,N)", "if k==3: a.r=5.0\nif k==5: del a.r"),
    "computed name of __dict__": ("class A: pass\na=A(); a.r=2.0; N='__di'", "x*getattr(a,N+'ct__')['r']", "a.r=2.0+k//3"),
    "computed name of __dict__ by hasattr": ("class A: pass\na=A(); a.r=2.0; N='__di'", "x*sum(getattr(a,n).get('r',1.0) for n in [N+'ct__'] if hasattr(a,n))", "if k==3: a.r=5.0\nif k==5: del a.r"),
    "computed name mapped": ("class A: r=2.0\na=A(); N='r'", "x*list(map(getattr,[a],[N]))[0]", "A.r=2.0+k//3"),
    "computed name of a class": ("class A: r=2.0\nclass B(A): pass\nN='r'", "x*getattr(B,N)", "if k==3: A.r=5.0\nif k==5: B.r=7.0"),
    "computed name of a function": ("def g(x): return x\ng.r=2.0; N='r'", "g(x)*getattr(g,N,1.0)", "if k==3: g.r=5.0\nif k==5: del g.r"),
    "computed name of code": ("def g(x,r=2.0): return x*r\nN='__def'", "x*getattr(g,N+'aults__')[0]", "g.__defaults__=(2.0+k//3,)"),
    "computed name by reduce": ("class A: pass\na=A(); a.b=A(); a.b.r=2.0; N='b.r'", "x*functools.reduce(getattr,N.split('.'),a)", "a.b.r=2.0+k//3"),
    "computed name of module's __getattr__": ("cfg=helper('hidden_cfg4','D={\"r\":2.0}\\ndef __getattr__(n):\\n    if n in D: return D[n]\\n    raise AttributeError(n)')\nN='r'", "x*getattr(cfg,N)", "cfg.D['r']=2.0+k//3"),
    "a format's method": ("class A: pass\na=A(); a.r=2.0; F='{0.r}'.format", "x*float(F(a))", "a.r=2.0+k//3"),
    "a format's method, deeper": ("class A: pass\na=A(); a.d={'k':A()}; a.d['k'].r=2.0; F='{0.d[k].r}'.format", "x*float(F(a))", "a.d['k'].r=2.0+k//3"),
    "a format, deeper": ("class A: pass\na=A(); a.d={'k':A()}; a.d['k'].r=2.0", "x*float('{0.d[k].r}'.format(a))", "a.d['k'].r=2.0+k//3"),
    "a protocol after its class": ("""
import typing
@typing.runtime_checkable
class P(typing.Protocol):
    r: float
class C(P): pass
class A: pass
a=A(); a.r=2.0
""", "x*(2.0 if isinstance(a,C) or isinstance(a,P) else 3.0)", "if k==3: del a.r\nif k==5: a.r=1.0"),
    "literal getattr default from state": ("class A: pass\na=A(); RATE=[2.0]", "x*getattr(a,'r',RATE[0])", "RATE[0]=2.0+k//3\nif k==5: a.r=9.0"),
    "literal getattr default attribute": ("class A: base=2.0\na=A()", "x*getattr(a,'r',a.base)", "if k==3: A.base=5.0\nif k==5: A.r=9.0"),
    "attribute of a library's object": ("from scipy import stats", "x*stats.uniform.b", "stats.uniform.b=1.0+k//3 if k<7 else 1.0"),
    "attribute of a library's object by a longer way": ("import scipy.stats", "x*scipy.stats.uniform.b", "scipy.stats.uniform.b=1.0+k//3 if k<7 else 1.0"),
    "attribute of a library's object in a helper": ("from scipy import stats\ndef g(o): return o.b", "x*g(stats.uniform)", "stats.uniform.b=1.0+k//3 if k<7 else 1.0"),
    "attribute of a library's object that comes": ("from scipy import stats", "x*getattr(stats.norm,'hidden_rate',2.0)", "stats.norm.hidden_rate=5.0\nif k<4 or k==7: del stats.norm.hidden_rate"),
    "attribute of a library's object that is imported within": ("""
import scipy.stats
def f(x):
    from scipy.stats import uniform
    return x*uniform.b
""", "", "scipy.stats.uniform.b=1.0+k//3 if k<7 else 1.0"),
    "attribute of a library's module by a longer way": ("import scipy.special\nscipy.special.hidden_rate=2.0", "x*scipy.special.hidden_rate", "scipy.special.hidden_rate=2.0+k//3"),
    "attribute of a library's class": ("import json\njson.JSONEncoder.hidden_rate=2.0", "x*json.JSONEncoder.hidden_rate", "json.JSONEncoder.hidden_rate=2.0+k//3"),
    "module's __getattr__ that is replaced": ("""
def getter(rate):
    def get(name):
        if name == 'rate': return rate
        raise AttributeError(name)
    return get
cfg=helper('hidden_cfg7',''); cfg.__getattr__=getter(2.0)
""", "x*cfg.rate", "cfg.__getattr__=getter(2.0+k//3)"),
    "default_factory": ("d=collections.defaultdict(lambda: 2.0)", "x*d.default_factory()", "if k==4: d.default_factory=lambda: 5.0"),
    "state of NumPy's generator": ("np.random.seed(0)", "x*float(np.random.get_state()[1][0]%97)", "np.random.seed(k//3)"),
    "state of a generator by name": ("R=np.random.RandomState(0)", "x*float(R.get_state()[1][0]%97)", "R.seed(k//3)"),
    "state of a bit generator": ("B=np.random.PCG64(0)", "x*float(B.state['state']['state']%97)", "B.state=np.random.PCG64(k//3).state"),
    "literal getattr odd name": ("class A: pass\na=A(); setattr(a,'my-rate',2.0)", "x*getattr(a,'my-rate')", "setattr(a,'my-rate',2.0+k//3)"),
    "literal getattr property": ("""
class A:
    _r=2.0
    @property
    def r(s): return s._r
a=A()
""", "x*getattr(a,'r')", "if k==3: a._r=5.0\nif k==5: A.r=property(lambda s: 9.0)"),
    "literal getattr slot": ("class A: __slots__=('r','s')\na=A(); a.r=2.0", "x*getattr(a,'s',a.r)", "if k==3: a.r=5.0\nif k==5: a.s=9.0"),
    "literal getattr method": ("""
class A:
    def rate(s): return 2.0
a=A()
""", "x*getattr(a,'rate')()", "if k==4: A.rate=lambda s: 5.0"),
    "literal getattr of function": ("def g(): pass\ng.r=2.0", "x*getattr(g,'r')", "g.r=2.0+k//3"),
    "attribute of function that does not run": ("def g(): pass\ng.r=2.0", "x*g.r", "g.r=2.0+k//3"),
    "attribute of method that does not run": ("""
class A:
    def m(s): pass
A.m.r=2.0; L=[A().m]
def f(x):
    for h in L: x=x*h.r
    return x
""", "", "A.m.r=2.0+k//3"),
    "literal getattr of function later": ("""
def g(x): return x*5
H=[g]
def f(x):
    for h in H:
        if getattr(h,'enabled',False): return h(x)
    return x*2
""", "", "if k==4: g.enabled=True"),
    "literal getattr of class itself": ("class M(type): pass\nclass A(metaclass=M): pass", "x*getattr(A,'r',2.0)", "if k==3: M.r=5.0\nif k==5: A.r=9.0"),
    "literal getattr in comprehension": ("""
class A: pass
L=[A(),A()]
for a in L: a.r=2.0
""", "x*sum([getattr(a,'r',1.0) for a in L])", "if k==3: L[1].r=5.0\nif k==5: del L[0].r"),
    "literal hasattr of local": ("""
class A: pass
L=[A()]
def f(x):
    for a in L:
        if hasattr(a,'hook'): return x*5
    return x*2
""", "", "if k==3: A.hook=1\nif k==5: del A.hook"),
    "literal getattr of getattr": ("""
class A: pass
a=A(); a.r=2.0
NAME=['r']
""", "x*getattr(builtins,'getattr')(a,NAME[0])", "if k==3: a.r=5.0\nif k==5: a.s=9.0; NAME[0]='s'"),
    "literal getattr of __dict__": ("class A: pass\na=A(); a.r=2.0", "x*getattr(a,'__dict__').get('r',1.0)", "if k==3: a.r=5.0\nif k==5: del a.r"),
    "literal beside computed": ("class A: pass\na=A(); a.r=2.0; a.s=3.0; N='s'", "x*getattr(a,'r')*getattr(a,N)", "if k==3: a.s=5.0\nif k==5: a.r=9.0"),
    "computed in another function": ("""
class A: pass
a=A(); a.r=2.0; a.s=3.0
def g(n): return getattr(a,n)
""", "x*getattr(a,'r')*g('r'+'')*g(chr(115))", "if k==3: a.s=5.0\nif k==5: a.r=9.0"),
    "literal getattr rebound": ("class A: pass\na=A(); a.r=2.0", "x*getattr(a,'r')", "if k==4: globals()['getattr']=lambda o,n: 5.0"),
    "module getattr default later": ("cfg=helper('hidden_cfg1','a=1')", "x*getattr(cfg,'later',2.0)", "if k==4: cfg.later=5.0"),
    "module hasattr later": ("cfg=helper('hidden_cfg1','a=1')", "x*5 if hasattr(cfg,'later') else x*2", "if k==4: cfg.later=5.0"),
    "module local alias later": ("""
cfg=helper('hidden_cfg1','a=1')
def f(x):
    c=cfg
    try: return x*c.later
    except AttributeError: return x*2
""", "", "if k==4: cfg.later=5.0"),
    "module from import later": ("""
cfg=helper('hidden_cfg2','a=1')
def f(x):
    try: from hidden_cfg2 import later
    except ImportError: later=2.0
    return x*later
""", "", "if k==4: cfg.later=5.0"),
    "module vars get later": ("cfg=helper('hidden_cfg2','a=1')", "x*vars(cfg).get('later',2.0)", "if k==4: cfg.later=5.0"),
    "module in list later": ("""
cfg=helper('hidden_cfg2','a=1')
L=[cfg]
def f(x):
    for m in L:
        if hasattr(m,'later'): return x*m.later
    return x*2
""", "", "if k==4: cfg.later=5.0"),
    "nested module attr later": ("""
cfg=helper('hidden_cfg2','a=1')
top=helper('hidden_cfg3','b=1'); top.sub=cfg
def f(x):
    try: return x*top.sub.later
    except AttributeError: return x*2
""", "", "if k==4: cfg.later=5.0"),
    "builtins name": ("builtins.myrate=2.0", "x*myrate", "builtins.myrate=5.0 if k>=4 else 2.0"),
    "slot set later": ("""
class A: __slots__=('r','s')
a=A(); a.r=2.0
def f(x):
    try: return x*a.s
    except AttributeError: return x*a.r
""", "", "if k==4: a.s=5.0"),
    "slot hasattr later": ("class A: __slots__=('r','s')\na=A(); a.r=2.0", "x*5 if hasattr(a,'s') else x*a.r", "if k==4: a.s=5.0"),
    "set order": ("""
s={0,8}
def f(x):
    for v in s: break
    return x*(v+1)
""", "", "if k==4: s.clear(); s.add(8); s.add(0)"),
    "dict view values": ("d={'r':2.0}\nV=d.values()", "x*sum(V)", "if k==4: d['r']=5.0"),
    "dict view keys": ("d={'r':2.0}\nV=d.keys()", "x*len(V)", "if k==4: d['s']=5.0"),
    "weakref proxy": ("class A: r=2.0\na=A(); P=weakref.proxy(a)", "x*P.r", "if k==4: a.r=5.0"),
    "masked array mask": ("M=np.ma.array([2.0,3.0],mask=[False,False])", "x*float(np.ma.sum(M))", "if k==4: M[0]=np.ma.masked"),
    "object array of objects": ("class A: pass\na=A(); a.r=2.0\nO=np.array([a,None],dtype=object)", "x*O[0].r", "if k==4: a.r=5.0"),
    "object array of lists": ("O=np.empty(1,dtype=object); O[0]=[2.0]", "x*O[0][0]", "if k==4: O[0][0]=5.0"),
    "lock state": ("L=threading.Lock()", "x*(5.0 if L.locked() else 2.0)", "if k==4: L.acquire()"),
    "enum attribute": ("""
class E(enum.Enum):
    A=1
    def __init__(self,v): self.rate=2.0
""", "x*E.A.rate", "if k==4: E.A.rate=5.0"),
    "enum global attribute": ("""
class E(enum.Enum):
    A=1
    B=2
e=E.A
e.rate=2.0
""", "x*e.rate", "if k==4: e.rate=5.0"),
    "enum value list": ("class E(enum.Enum):\n    A=[2.0]", "x*E.A.value[0]", "if k==4: E.A.value[0]=5.0"),
    "str subclass attribute": ("class S(str): pass\ns=S('a'); s.rate=2.0", "x*s.rate", "if k==4: s.rate=5.0"),
    "float subclass attribute": ("class F(float): pass\ns=F(1.0); s.rate=2.0", "x*s.rate", "if k==4: s.rate=5.0"),
    "namedtuple of list": ("T=collections.namedtuple('T','r')\na=T([2.0])", "x*a.r[0]", "if k==4: a.r[0]=5.0"),
    "namedtuple of array": ("T=collections.namedtuple('T','r')\na=T(np.array([2.0]))", "x*a.r[0]", "if k==4: a.r[0]=5.0"),
    "namedtuple of object": ("""
T=collections.namedtuple('T','r')
class C: pass
c=C(); c.z=2.0
a=T(c)
""", "x*a.r.z", "if k==4: c.z=5.0"),
    "typing namedtuple of list method": ("""
class T(typing.NamedTuple):
    r: list
    def total(self): return sum(self.r)
a=T([2.0])
""", "x*a.total()", "if k==4: a.r.append(3.0)"),
    "tuple subclass": ("class T(tuple): pass\na=T(([2.0],))", "x*a[0][0]", "if k==4: a[0][0]=5.0"),
    "set subclass": ("class S(set): pass\ns=S([1,2])", "x*len(s)", "if k==4: s.add(3)"),
    "ndarray subclass attribute": ("class A(np.ndarray): pass\na=np.array([2.0]).view(A); a.scale=2.0", "x*a.scale", "if k==4: a.scale=5.0"),
    "partial subclass": ("""
class P(functools.partial): pass
def g(r,x): return x*r[0]
L=[2.0]
p=P(g,L)
""", "p(x)", "if k==4: L[0]=5.0"),
    "partial attribute": ("def g(r,x): return x*p.rate\np=functools.partial(g,1.0); p.rate=2.0", "p(x)", "if k==4: p.rate=5.0"),
    "property subclass closure": ("""
class prop(property): pass
def mk():
    r=2.0
    def get(self): return r
    def put(v):
        nonlocal r
        r=v
    return get,put
get,put=mk()
class C: r=prop(get)
del get
c=C()
""", "x*c.r", "if k==4: put(5.0)"),
    "singledispatch closure": ("""
def mk():
    r=2.0
    def get(a,x): return x*r
    def put(v):
        nonlocal r
        r=v
    return get,put
get,put=mk()
@functools.singledispatch
def g(a,x): return x
g.register(str,get)
del get
""", "g('s',x)", "if k==4: put(5.0)"),
    "attrgetter global": ("class C: pass\nc=C(); c.rate=2.0\nG=operator.attrgetter('rate')", "x*G(c)", "if k==4: c.rate=5.0"),
    "attrgetter alias": ("from operator import attrgetter as ag\nclass C: pass\nc=C(); c.rate=2.0", "x*ag('rate')(c)", "if k==4: c.rate=5.0"),
    "methodcaller": ("""
class C:
    def rate(self): return self.r
c=C(); c.r=2.0
G=operator.methodcaller('rate')
""", "x*G(c)", "if k==4: C.rate=lambda self: 5.0"),
    "partial getattr": ("class C: pass\nc=C(); c.rate=2.0\nG=functools.partial(getattr,c,'rate')", "x*G()", "if k==4: c.rate=5.0"),
    "object getattribute": ("class C: pass\nc=C(); c.rate=2.0", "x*object.__getattribute__(c,'rate')", "if k==4: c.rate=5.0"),
    "bound getattribute": ("class C: pass\nc=C(); c.rate=2.0\nG=c.__getattribute__", "x*G('rate')", "if k==4: c.rate=5.0"),
    "getattr alias": ("class C: pass\nc=C(); c.rate=2.0\nget=getattr", "x*get(c,'rate')", "if k==4: c.rate=5.0"),
    "vars alias": ("class C: pass\nc=C(); c.rate=2.0\nget=vars", "x*sum(get(c).values())", "if k==4: c.rate=5.0"),
    "dataclasses astuple": ("@dataclasses.dataclass\nclass D: rate: float=2.0\nd=D()", "x*dataclasses.astuple(d)[0]", "if k==4: d.rate=5.0"),
    "dataclasses asdict": ("@dataclasses.dataclass\nclass D: rate: float=2.0\nd=D()", "x*sum(dataclasses.asdict(d).values())", "if k==4: d.rate=5.0"),
    "format attribute": ("class C: pass\nc=C(); c.rate=2.0", 'x*float("{0.rate}".format(c))', "if k==4: c.rate=5.0"),
    "format attribute global text": ('class C: pass\nc=C(); c.rate=2.0\nT="{0.rate}"', "x*float(T.format(c))", "if k==4: c.rate=5.0"),
    "match class keyword": ("""
class C: pass
c=C(); c.rate=2.0
def f(x):
    match c:
        case C(rate=r): return x*r
    return x
""", "", "if k==4: c.rate=5.0"),
    "match class positional": ("""
class C:
    __match_args__=('rate',)
c=C(); c.rate=2.0
def f(x):
    match c:
        case C(r): return x*r
    return x
""", "", "if k==4: c.rate=5.0"),
    "abc register": ("class B(abc.ABC): pass\nclass C: pass\nc=C()", "x*(5.0 if isinstance(c,B) else 2.0)", "if k==4: B.register(C)"),
    "subclasses": ("class B: pass\nclass C(B): pass\nkeep=[]", "x*float(len(B.__subclasses__()))", "if k==4: keep.append(type('D',(B,),{}))"),
    "bases assigned": ("""
class B:
    def g(self,x): return x*2
class B2:
    def g(self,x): return x*5
class Z: pass
class M(B,Z): pass
m=M()
""", "m.g(x)", "if k==4: M.__bases__=(B2,Z)"),
    "sys modules replaced": ("""
one=helper('hidden_cfg4','rate=2.0')
def f(x):
    import hidden_cfg4
    return x*hidden_cfg4.rate
""", "", "if k==4: helper('hidden_cfg4','rate=5.0')"),
    "import module computed": ("one=helper('hidden_cfg5','rate=2.0')\nSUFFIX='5'", "x*importlib.import_module('hidden_cfg'+SUFFIX).rate", "if k==4: one.rate=5.0"),
    "sys modules computed": ("one=helper('hidden_cfg5','rate=2.0')\nSUFFIX='5'", "x*sys.modules['hidden_cfg'+SUFFIX].rate", "if k==4: one.rate=5.0"),
    "closure contents of other": ("""
def mk():
    r=2.0
    def get(): return r
    def put(v):
        nonlocal r
        r=v
    return get,put
get,put=mk()
""", "x*get.__closure__[0].cell_contents", "if k==4: put(5.0)"),
    "defaults of other not run": ("def g(r=2.0): return r", "x*g.__defaults__[0]", "if k==4: g.__defaults__=(5.0,)"),
    "lru result mutated": ("""
class C: rate=2.0
@functools.lru_cache
def get(): return C()
c=get()
""", "x*get().rate", "if k==4: c.rate=5.0"),
    "lru result list mutated": ("""
@functools.lru_cache
def get(n): return [2.0]*n
c=get(3)
""", "x*get(3)[0]", "if k==4: c[0]=5.0"),
    "threading current thread name": ("""

""", "x*(5.0 if threading.current_thread().name=='other' else 2.0)", "if k==4: threading.current_thread().name='other'\nelse: threading.current_thread().name='MainThread'"),
    "logging level": ("""
LOG=logging.getLogger('tapegrad.hidden')
LOG.setLevel(logging.INFO)
""", "x*(5.0 if LOG.isEnabledFor(logging.DEBUG) else 2.0)", "LOG.setLevel(logging.DEBUG if k==4 else logging.INFO)"),
    "warnings as control flow": ("""
warnings.simplefilter('ignore')
def f(x):
    try: warnings.warn('a', BytesWarning)
    except BytesWarning: return x*5
    return x*2
""", "", "warnings.simplefilter('error' if k==4 else 'ignore', BytesWarning)"),
    "inspect current frame": ("rate=2.0", "x*inspect.currentframe().f_globals['rate']", "if k==4: rate=5.0"),
    "sqlite": ("""
con=sqlite3.connect(':memory:'); con.execute('create table t(r)'); con.execute('insert into t values (2.0)')
""", "x*con.execute('select r from t').fetchone()[0]", "if k==4: con.execute('update t set r=5.0')\nif k==7: con.close()"),
    "calendar": ("", "x*(calendar.firstweekday()+1)", "calendar.setfirstweekday(3 if k==4 else 0)"),
    "tape edited in place": ("T=tg.trace(lambda x: x*2.0+1.0, 1.0)[1]", "T.play(x)", "if k==4: T.result=T[3]"),
    "primitive state": ("""
RATE=2.0
@tg.primitive
def g(x): return x*RATE
@tg.rrule(g)
def _(x):
    r=RATE
    return x*r, lambda dy: (dy*r,)
""", "g(x)+x", "if k==4: RATE=5.0"),
    "exception object attribute": ("""
E=ValueError(2.0)
def f(x):
    try: raise E
    except ValueError as e: return x*e.args[0]
""", "", "if k==4: E.args=(5.0,)"),
    "exception custom attribute": ("""
class Err(Exception): pass
E=Err(); E.rate=2.0
def f(x):
    try: raise E
    except Err as e: return x*e.rate
""", "", "if k==4: E.rate=5.0"),
    "array subclass": ("from array import array\nclass AA(array): pass\nA=AA('d',[2.0]); A.rate=2.0", "x*A.rate", "if k==4: A.rate=5.0"),
    "type name changed": ("class A: pass", "x*len(A.__name__)", "if k==4: A.__name__='AAAAA'"),
    "function name read": ("def g(): pass", "x*len(g.__name__)", "if k==4: g.__name__='ggggg'"),
    "annotations read": ("def g(a): pass\ng.__annotations__={'a': 2.0}", "x*g.__annotations__['a']", "if k==4: g.__annotations__['a']=5.0"),
    "dict key objects": ("""
class K:
    def __init__(s,v): s.v=v
    def __eq__(s,o): return isinstance(o,K)
    def __hash__(s): return 1
D={K(2.0):1}
def f(x):
    for key in D: return x*key.v
""", "", "if k==4: D={K(5.0):1}"),
    "dict key attribute": ("""
class K:
    pass
k0=K(); k0.v=2.0
D={k0:1}
def f(x):
    for key in D: return x*key.v
""", "", "if k==4: k0.v=5.0"),
    "math pi patched": ("PI=math.pi=3.141592653589793", "x*math.pi", "math.pi=5.0 if k==4 else PI"),
    "scipy interp object": ("from scipy import interpolate\nI=interpolate.CubicSpline(np.arange(4.0),np.array([1.0,2.0,0.0,3.0]))", "x*float(I(1.5))", "if k==4: I.c[:]=I.c*2"),
    "dict enum key attribute": ("""
class E(enum.Enum):
    A=1
E.A.rate=2.0
D={E.A:1}
def f(x):
    for e in D: return x*e.rate
""", "", "if k==4: E.A.rate=5.0"),
    "runtime protocol": ("""
@typing.runtime_checkable
class HasRate(typing.Protocol):
    rate: float
class A: pass
a=A(); a.junk=1
""", "x*(5.0 if isinstance(a,HasRate) else 2.0)", "if k==4: del a.junk; a.rate=1.0"),
    "inspect signature": ("""
def g(a,b=1): return a
def h(a,b=1,c=2): return a
""", "x*float(len(inspect.signature(g).parameters))", "if k==4: g.__code__=h.__code__; g.__defaults__=(1,2)"),
    "inspect signature of its own": ("def g(a,b=2.0): return a\ndef h(a,b=9.0): return a", "x*inspect.signature(g).parameters['b'].default", "if k==4: g.__signature__=inspect.signature(h)"),
    "inspect unwrap": ("def g(a): return a*2.0\ndef h(a): return a*7.0\n@functools.wraps(g)\ndef w(a): return g(a)", "x*inspect.unwrap(w)(x)", "if k==4: w.__wrapped__=h"),
    "inspect getdoc": ("def g(a):\n    'ab'", "x*len(inspect.getdoc(g))", "if k==4: g.__doc__='abcd'"),
    "inspect signature default": ("def g(a,b=2.0): return a", "x*inspect.signature(g).parameters['b'].default", "if k==4: g.__defaults__=(5.0,)"),
    "get type hints": ("class C:\n    a: int", "x*float(len(typing.get_type_hints(C)))", "if k==4: C.__annotations__['b']=int"),
    "partial setstate": ("def g(r,x): return x*r\np=functools.partial(g,2.0)", "p(x)", "if k==4: p.__setstate__((g,(5.0,),{},None))"),
    "array resized in place": ("A=np.ones(3)", "x*float(A.sum())", "if k==4: A.resize(5,refcheck=False)"),
    "array shape changed in place": ("A=np.arange(6.0)", "x*float(A[1] if A.ndim==1 else A[1,1])", "if k==4: A.shape=(2,3)"),
    "array flags locked then changed": ("A=np.ones(3); A.flags.writeable=False", "x*float(A[0])", "if k==4: A.flags.writeable=True; A[0]=5.0"),
    "sealed array unlocked and locked again": ("A=np.ones(3); A.flags.writeable=False", "x*float(A[0])", "if k==4: A.flags.writeable=True; A[0]=5.0; A.flags.writeable=False"),
    "event argument": ("""
E=threading.Event()
def f(x,e): return x*(5.0 if e.is_set() else 2.0)
given=(E,)
""", "", "if k==4: E.set()"),
    "lock argument": ("""
E=threading.Lock()
def f(x,e): return x*(5.0 if e.locked() else 2.0)
given=(E,)
""", "", "if k==4: E.acquire()"),
    "set argument of objects": ("""
class C: pass
c=C(); c.r=2.0
E={c}
def f(x,e):
    for o in e: return x*o.r
given=(E,)
""", "", "if k==4: c.r=5.0"),
    "set order argument": ("""
E={0,8}
def f(x,s):
    for v in s: break
    return x*(v+1)
given=(E,)
""", "", "if k==4: E.clear(); E.add(8); E.add(0)"),
    "dict view argument": ("""
D={'r':2.0}
V=D.values()
def f(x,e): return x*sum(e)
given=(V,)
""", "", "if k==4: D['r']=5.0"),
    "memoryview argument": ("B=bytearray(b'\\x02')\nE=memoryview(B)\ndef f(x,e): return x*e[0]\ngiven=(E,)", "", "if k==4: B[0]=5"),
    "weakref argument": ("""
class C: rate=2.0
c=C(); w=weakref.ref(c)
def f(x,e): return x*(e().rate if e() is not None else 5.0)
given=(w,)
""", "", "if k==4: c=None"),
    "weakref attribute": ("""
class C:
    rate=2.0
    def __init__(self): self.other=weakref.ref(OTHER); self.number=3.0
OTHER=C.__new__(C); c=C()
def f(x,e): return x*e.number*e.other().rate
given=(c,)
""", "", "if k==4: OTHER.rate=5.0"),
    "weakref attribute by a computed name": ("""
class C:
    def __init__(self): self.other=weakref.ref(OTHER); self.number=3.0
class R: rate=2.0
OTHER=R(); c=C()
def f(x,e): return x*e.number*getattr(e,'o'+'ther')().rate
given=(c,)
""", "", "if k==4: OTHER.rate=5.0"),
    "what an attribute of an argument leads to": ("""
class Options: rate=2.0
class C:
    def __init__(self): self.options=OPTIONS; self.number=3.0
    def slope(self): return self.number*self.options.rate
OPTIONS=Options(); c=C()
def f(x,e): return x*e.slope()
given=(c,)
""", "", "if k==4: OPTIONS.rate=5.0"),
    "lru argument": ("""
R=[2.0]
@functools.lru_cache
def g(): return R[0]
def f(x,e): return x*e()
given=(g,)
""", "", "if k==4: R[0]=5.0; g.cache_clear()"),
    "attrgetter argument": ("""
class C: pass
c=C(); c.r=2.0
def f(x,e): return x*e(c)
G=operator.attrgetter('r')
given=(G,)
""", "", "if k==4: c.r=5.0"),
    "builtin method argument": ("""
d={'r':2.0}
def f(x,e): return x*e('r')
given=(d.get,)
""", "", "if k==4: d['r']=5.0"),
    "str subclass attribute argument": ("""
class S(str): pass
s=S('a'); s.r=2.0
def f(x,m): return x*m.r
given=(s,)
""", "", "if k==4: s.r=5.0"),
    "enum argument attribute": ("""
class E(enum.Enum):
    A=1
E.A.rate=2.0
def f(x,e): return x*e.rate
given=(E.A,)
""", "", "if k==4: E.A.rate=5.0"),
    "pickled object": ("""
import pickle
class C: pass
c=C(); c.r=[2.0]
def f(x): return x*len(pickle.dumps(c))
""", "", "if k==4: c.r.append(5.0)"),
    "pickled object of a class with a state": ("""
import pickle
class C:
    def __getstate__(self): return {'k': KEPT}
KEPT=(1.0,); c=C()
def f(x): return x*len(pickle.dumps([c]))
""", "", "if k==4: KEPT=(1.0, 2.0, 3.0)"),
}
