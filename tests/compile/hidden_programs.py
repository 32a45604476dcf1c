"""hidden_programs: what steers them is no argument. Each is a module: `f(x)` is called, `act(k)` changes something after call k."""

PROGRAMS: dict[str, tuple[str, str, str]] = {
    "a context variable that the script sets": ("var=contextvars.ContextVar('scale')\nvar.set(1.0)", "x*var.get()", "if k>3: var.set(float(k))"),
    "a context variable that the program sets": ("""
var=contextvars.ContextVar('scale', default=0.0)
def f(x):
    var.set(var.get()+1.0)
    return x*(var.get()>4)+x
""", "", ""),
    "a dict of a class that answers by itself": ("""
class D(dict):
    asked=0
    def __getitem__(self,k): return dict.__getitem__(self,k)*2
    def items(self): raise AssertionError
    def values(self): raise AssertionError
    def __iter__(self): raise AssertionError
    def __len__(self): raise AssertionError
d=D(a=1.0)
""", "x*d['a']", "if k>3: dict.__setitem__(d,'a',float(k))"),
    "a tuple of a class that answers by itself": ("""
class T(tuple):
    def __iter__(self): raise AssertionError
    def __len__(self): raise AssertionError
d=[T((1.0,2.0))]
""", "x*d[0][1]", "if k>3: d[0]=T((1.0,float(k)))"),
    "attributes that are replaced as a whole": ("class A: pass\na=A(); a.r=2.0", "x*a.r", "if k==3: a.__dict__={'r':5.0}\nif k==5: a.r=7.0"),
    "attributes that the program replaces": ("""
class A: pass
a=A(); a.r=1.0; a.n=0
def f(x):
    y=x*a.r
    a.__dict__={'r':a.r+a.n,'n':a.n+1}
    return y
""", "", ""),
    "attributes of one in a list that are replaced": ("class A: pass\na=[A()]; a[0].r=2.0", "x*a[0].r", "if k==3: a[0].__dict__={'r':5.0}"),
    "a function's attributes that are replaced": ("def g(x): return x*g.r\ng.r=2.0", "g(x)", "if k==3: g.__dict__={'r':5.0}"),
    "a partial's attributes that are replaced": ("p=functools.partial(pow,2.0); p.r=2.0", "x*p.r", "if k==3: p.__dict__={'r':5.0}"),
    "an exception's attributes that are replaced": ("e=ValueError(); e.r=2.0", "x*e.r", "if k==3: e.__dict__={'r':5.0}"),
    "a list's attributes that are replaced": ("class L(list): pass\nl=L([1.0]); l.r=2.0", "x*l.r", "if k==3: l.__dict__={'r':5.0}"),
    "attributes with __getattribute__ that are replaced": ("""
class A:
    def __getattribute__(s,n): return object.__getattribute__(s,n)
a=A(); a.r=2.0
""", "x*a.r", "if k==3: a.__dict__={'r':5.0}"),
    "counter": ("""
n=0
def f(x):
    global n
    n+=1
    return x*(1.0 if n<5 else 2.0)
""", "", ""),
    "list pop": ("q=[1.,1.,1.,5.,6.,7.,8.,9.,10.]", "x*q.pop(0)", ""),
    "attr counter": ("""
class C: n=0
c=C()
def f(x):
    c.n+=1
    return x*(c.n>4)+x
""", "", ""),
    "class attr": ("""
class C: n=0
def f(x):
    C.n+=1
    return x*(C.n>4)+x
""", "", ""),
    "fn attr": ("""
def f(x):
    f.n=getattr(f,'n',0)+1
    return x*(f.n>4)+x
""", "", ""),
    "default list": ("""
def f(x,h=[]):
    h.append(1)
    return x*(len(h)>4)+x
""", "", ""),
    "closure": ("""
def mk():
    n=0
    def g():
        nonlocal n
        n+=1
        return n
    return g
g=mk()
""", "x*(g()>4)+x", ""),
    "method swap": ("""
class M:
    def f(self,x): return x*2
m=M()
""", "m.f(x)", "if k==3: M.f=lambda self,x: x*5"),
    "base method swap": ("""
class B:
    def f(self,x): return x*2
class M(B): pass
m=M()
""", "m.f(x)", "if k==3: B.f=lambda self,x: x*5"),
    "sub method added": ("""
class B:
    def f(self,x): return x*2
class M(B): pass
m=M()
""", "m.f(x)", "if k==3: M.f=lambda self,x: x*5"),
    "instance shadows": ("class B:\n    r=2.0\nm=B()", "m.r*x", "if k==3: m.r=5.0"),
    "kwdefaults": ("def g(x,*,s=2.0): return x*s", "g(x)", "if k==3: g.__kwdefaults__['s']=5.0"),
    "defaults": ("def g(x,s=2.0): return x*s", "g(x)", "if k==3: g.__defaults__=(5.0,)"),
    "__call__": ("""
class M:
    def __call__(self,x): return x*2
m=M()
""", "m(x)", "if k==3: M.__call__=lambda self,x: x*5"),
    "property": ("""
class M:
    @property
    def r(self): return 2.0
m=M()
""", "m.r*x", "if k==3: M.r=property(lambda self: 5.0)"),
    "code": ("def g(x): return x*2\ndef h(x): return x*5", "g(x)", "if k==3: g.__code__=h.__code__"),
    "class swap": ("""
class A:
    def g(self,x): return x*2
class B:
    def g(self,x): return x*5
m=A()
""", "m.g(x)", "if k==3: m.__class__=B"),
    "contextvar": ("v=contextvars.ContextVar('v',default=2.0)", "x*v.get()", "if k==3: v.set(5.0)"),
    "environ": ("os.environ['Q']='2'", "x*float(os.environ['Q'])", "os.environ['Q']='5' if k==3 else os.environ['Q']"),
    "getenv": ("os.environ['Q']='2'", "x*float(os.getenv('Q'))", "if k==3: os.environ['Q']='5'"),
    "file": ("from pathlib import Path\np=Path(FOLDER)/'rate'\np.write_text('2')", "x*float(p.read_text())", "if k==3: p.write_text('5')"),
    "weakref": ("class O: r=2.0\no=O()\nw=weakref.ref(o)", "x*(2.0 if w() is not None else 5.0)", "if k==3: o=None"),
    "weak table": ("T=weakref.WeakValueDictionary()\nclass O: r=2.0\no=O()", "x*(2.0 if T.get(('b',1)) is None else 5.0)", "if k==3: T['b',1]=o\nif k==6: o=None"),
    "weak table of arguments": ("""
T=weakref.WeakValueDictionary()
class O:
    def __init__(self,r): self.r=r; T['o']=self
o=O(2.0)
def f(x): return x*o.r*(T['o'].r if 'o' in T else 1.0)
""", "", "if k==3: o=O(5.0)\nif k==6: del T['o']"),
    "interned objects": ("""
class I:
    table=weakref.WeakValueDictionary()
    def __new__(cls,n):
        o=cls.table.get(n)
        if o is None: o=object.__new__(cls); o.n=n; cls.table[n]=o
        return o
kept=[]
def f(x): return x*I(3).n
""", "", "if k==3: kept.append(I(3)); kept[0].n=5"),
    "count that is only held": ("class A: n=itertools.count()\na=A()", "x*(2.0 if repr(a.n)=='count(0)' else 5.0)", "if k==3: next(a.n)"),
    "threading.local": ("L=threading.local()\nL.r=2.0", "x*L.r", "if k==3: L.r=5.0"),
    "simple queue": ("Q=queue.SimpleQueue()\nfor i in range(20): Q.put(2.0 if i<4 else 5.0)", "x*Q.get()", ""),
    "queue": ("Q=queue.Queue()\nfor i in range(20): Q.put(2.0 if i<4 else 5.0)", "x*Q.get()", ""),
    "deque": ("Q=collections.deque([2.]*4+[5.]*20)", "x*Q.popleft()", ""),
    "decimal ctx": ("", "x*float(decimal.Decimal(1)/3)", "decimal.getcontext().prec=28 if k!=3 else 3"),
    "ctypes": ("b=(ctypes.c_double*1)(2.0)", "x*b[0]", "if k==3: b[0]=5.0"),
    "globals() gains a name": ("r1=2.0", "x*globals().get('r2',r1)", "if k==3: globals()['r2']=7.0"),
    "globals() of two modules": ("h=helper('hidden_other','r1=2.0\\ndef g(n): return globals()[n]')\nr1=3.0", "x*globals()['r1']*h.g('r1')", "if k==3: h.r1=7.0"),
    "globals()": ("r1=2.0\nr2=5.0\nk_=1", "x*globals()['r%d'%k_]", "if k==3: r1=7.0"),
    "d.get": ("d={'r':2.0}\nF=d.get", "x*F('r')", "if k==3: d['r']=5.0"),
    "mod getattr": ("""
m2=types.ModuleType('m2x')
st={'r':2.0}
def ga(n):
    if n=='rate': return st['r']
    raise AttributeError(n)
m2.__getattr__=ga
""", "x*m2.rate", "if k==3: st['r']=5.0"),
    "lru": ("""
r=2.0
@functools.lru_cache
def g(): return r
""", "x*g()", "if k==3: r=5.0\nif k==5: g.cache_clear()"),
    "lru2": ("""
r=2.0
@functools.lru_cache
def g(): return r
""", "x*g()", "if k==3: r=5.0; g.cache_clear()"),
    "cached_property": ("""
class M:
    def __init__(s): s.r=2.0
    @functools.cached_property
    def v(s): return s.r*2
m=M()
""", "x*m.v", "if k==3: m.r=5.0\nif k==5: del m.v"),
    "random": ("random.seed(0)", "x*random.random()", ""),
    "random choice rare": ("random.seed(1)", "x*(2.0 if random.random()<0.8 else 5.0)", ""),
    "time": ("""
t0=time.perf_counter()
T=[0]
def f(x):
    time.perf_counter()
    return x*2
""", "", ""),
    "iter": ("it=iter([2.]*4+[5.]*10)", "x*next(it)", ""),
    "count": ("it=itertools.count()", "x*(2.0 if next(it)<5 else 5.0)", ""),
    "gen": ("""
def g():
    for i in range(100): yield 2.0 if i<5 else 5.0
G=g()
""", "x*next(G)", ""),
    "cycle idx": ("""
data=[2.,2.,2.,2.,2.,7.,8.,9.]
st={'i':0}
def f(x):
    v=data[st['i']]; st['i']+=1
    return x*v
""", "", ""),
    "registry": ("""
R={}
def reg(f): R[f.__name__]=f; return f
@reg
def a(x): return x*2
""", "R['a'](x)", "if k==3: R['a']=lambda x: x*5"),
    "nested obj": ("class N: pass\na=N(); a.b=N(); a.b.c=[2.0]", "x*a.b.c[0]", "if k==3: a.b.c[0]=5.0"),
    "slots": ("class N: __slots__=('r',)\na=N(); a.r=2.0", "x*a.r", "if k==3: a.r=5.0"),
    "namedtuple": ("T=collections.namedtuple('T','r')\na=T(2.0)", "x*a.r", "if k==3: a=T(5.0)"),
    "dataclass": ("@dataclasses.dataclass\nclass D: r: float=2.0\na=D()", "x*a.r", "if k==3: a.r=5.0"),
    "simplenamespace": ("a=types.SimpleNamespace(r=2.0)", "x*a.r", "if k==3: a.r=5.0"),
    "getattr dyn": ("class A: r=2.0\na=A()\nn='r'", "x*getattr(a,n)", "if k==3: a.r=5.0"),
    "getattr dyn name": ("class A: r=2.0; s=5.0\na=A()\nn='r'", "x*getattr(a,n)", "if k==3: n='s'"),
    "__getattr__": ("""
class A:
    def __init__(s): s.d={'r':2.0}
    def __getattr__(s,n): return s.d[n]
a=A()
""", "x*a.r", "if k==3: a.d['r']=5.0"),
    "descriptor": ("""
class D:
    def __init__(s): s.v=2.0
    def __get__(s,o,c): return s.v
class A: r=D()
a=A()
""", "x*a.r", "if k==3: A.__dict__['r'].v=5.0"),
    "array in place": ("A=np.array([2.0,1.0])", "x*A[0]", "if k==3: A[0]=5.0"),
    "array view base": ("A=np.array([2.0,1.0]); V=A[:1]", "x*V[0]", "if k==3: A[0]=5.0"),
    "str mode": ("MODE='a'", "x*2 if MODE=='a' else x*5", "if k==3: MODE='b'"),
    "captured str": ("""
def mk():
    mode='a'
    def f(x): return x*2 if mode=='a' else x*5
    def act(k):
        nonlocal mode
        if k==3: mode='b'
    return f,act
f,act=mk()
""", "", ""),
    "module fn swap": ("hm=types.ModuleType('hmx'); exec('def h(x): return x*2',hm.__dict__)", "hm.h(x)", "if k==3: exec('def h(x): return x*5',hm.__dict__)"),
    "history": ("""
H=[]
def f(x):
    H.append(1)
    return x*2+0*len(H)
""", "", ""),
    "exists later": ("""
def f(x):
    try: return x*LATER
    except NameError: return x*2
""", "", "if k==3: LATER=5.0"),
    "hasattr later": ("class A: pass\na=A()", "x*5 if hasattr(a,'hook') else x*2", "if k==3: a.hook=1"),
    "dict subclass": ("class D(dict): pass\nd=D(r=2.0)", "x*d['r']", "if k==3: d['r']=5.0"),
    "defaultdict": ("d=collections.defaultdict(lambda:2.0)", "x*d['r']", "if k==3: d['r']=5.0"),
    "set": ("s={1,2}", "x*len(s)", "if k==3: s.add(3)"),
    "partial": ("def g(r,x): return x*r\np=functools.partial(g,2.0)", "p(x)", "if k==3: p=functools.partial(g,5.0)"),
    "np global state": ("", "x*float(np.geterr()['divide']=='warn')+x", "np.seterr(divide='ignore' if k==3 else 'warn')"),
    "datetime": ("", "x*(datetime.datetime.now().year>2000)*2", ""),
    "sysmodules": ("""
mm=types.ModuleType('mmx'); mm.r=2.0; sys.modules['mmx']=mm
def f(x):
    import mmx
    return x*mmx.r
""", "", "if k==3: mm.r=5.0"),
    "singledispatch": ("@functools.singledispatch\ndef g(a,x): return x*2", "g('s',x)", "if k==3: g.register(str,lambda a,x: x*5)"),
    "tgvalue": ("", "x*float(tg.value(x))", ""),
    "enum": ("class E(enum.Enum): A=1; B=2\ne=E.A", "x*(2 if e is E.A else 5)", "if k==3: e=E.B"),
    "local import func": ("""
def f(x):
    from math import floor
    return x*floor(2.5)
""", "", ""),
}
# objects that are equal, and hold another number beside what == compares: replaced by another, and written to
_OWN = {"float": ("(float): pass", "2.0"), "complex": ("(complex): pass", "2j"), "text": ("(str): pass", "'a'"), "text slot": ("(str): __slots__=('w',)", "'a'"),
        "float slot": ("(float): __slots__=('w',)", "2.0"), "float64": ("(np.float64): pass", "2.0"), "integer": ("(int): pass", "2"),
        "text with an eq": ("(str):\n    __hash__=str.__hash__\n    def __eq__(s,o): return str.__eq__(s,o)", "'a'"),
        "bytearray": ("(bytearray): pass", "b'a'"), "bytearray slot": ("(bytearray): __slots__=('w',)", "b'a'"),
        "array": ("(__import__('array').array): pass", "'d',[1.0]"), "dict": ("(dict): __slots__=('w',)", "{'a':1}"), "list": ("(list): __slots__=('w',)", "[1]"),
        "deque": ("(collections.deque): __slots__=('w',)", "[1]"), "set": ("(set): __slots__=('w',)", "[1]"), "tuple": ("(tuple): pass", "[1]")}
PROGRAMS |= {f"{what} of an equal {name}": (f"class C{kind}\ndef made(w):\n    o=C({args}); o.w=w; return o\ns={{'o':made(1.0)}}", "x*s['o'].w", act)
             for name, (kind, args) in _OWN.items() for what, act in {"attribute": "s['o']=made(1.0+k//3)", "written attribute": "s['o'].w=1.0+k//3"}.items()}
