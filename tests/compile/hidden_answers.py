"""Programs that a warning steers, a setting of a library, what a library answers, or an object that the standard library hands over: each is a module, as those of test_hidden_state."""

from __future__ import annotations

PROGRAMS: dict[str, tuple[str, str, str]] = {
    "warnings: catch error": ("""
def f(x):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        try: return np.log(x-3.0) if True else 0
        except RuntimeWarning: return x*5
""", "", ""),
    "warnings: catch error arr": ("""
A=np.array([1.0,0.0])
def f(x):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        try: return (A/(x-3.0)).sum()
        except RuntimeWarning: return x*5
""", "", ""),
    "warnings: catch record": ("""
def f(x):
    y=np.array([x, x-3.0])
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        z=np.sqrt(y).sum()
    return (x if w else 2*x)
""", "", ""),
    "warnings: catch record len": ("""
def f(x):
    y=np.ones(2)*(3-x)
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        z=np.log(y).sum()
    return x*(1+len(w))
""", "", ""),
    "filterwarnings error global": ("""
def f(x):
    y=np.ones(2)*(3-x)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings('error')
            return np.sqrt(y).sum()
    except RuntimeWarning: return x*7
""", "", ""),
    "warnings: overflow error": ("""
def f(x):
    y=np.ones(2)*x*300
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings('error',category=RuntimeWarning)
            return np.exp(y).sum()*0+1
    except RuntimeWarning: return x*7
""", "", ""),
    "showwarning": ("""
def f(x):
    seen=[]
    old=warnings.showwarning
    y=np.ones(2)*(3-x)
    with warnings.catch_warnings():
        warnings.simplefilter('always')
        warnings.showwarning=lambda *a,**k: seen.append(a)
        z=np.sqrt(y).sum()
    return x*(1+len(seen))
""", "", ""),
    "warnings: global error before": ("""
warnings.simplefilter('error', RuntimeWarning)
def f(x):
    try: return (np.float64(1e300)*x**400)*0+1
    except RuntimeWarning: return x*7
""", "", "if k==7: warnings.simplefilter('ignore', RuntimeWarning)"),
    "warnings: global error comes": ("""
def f(x):
    try: return (np.float64(1e300)*x**400)*0+1
    except RuntimeWarning: return x*7
""", "", "if k==4: warnings.simplefilter('error', RuntimeWarning)\nif k==7: warnings.simplefilter('ignore', RuntimeWarning)"),
    "warnings: global error comes arr": ("""
A=np.array([1.0,0.0])
def f(x):
    try: return (A/(x-3.25)).sum()
    except RuntimeWarning: return x*7
""", "", "if k==4: warnings.simplefilter('error', RuntimeWarning)\nif k==7: warnings.simplefilter('ignore', RuntimeWarning)"),
    "warnings: nested record in errstate": ("""
def f(x):
    y=np.ones(2)*(3-x)
    with np.errstate(all='warn'), warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        with np.errstate(divide='ignore'):
            z=np.log(y).sum()
    return x*(1+len(w))
""", "", ""),
    "warnings: record in helper subclass": ("""
class CW(warnings.catch_warnings):
    def __init__(s): super().__init__(record=True)
def f(x):
    y=np.ones(2)*(3-x)
    with CW() as w:
        warnings.simplefilter('always')
        z=np.sqrt(y).sum()
    return x*(1+len(w))
""", "", ""),
    "warnings: record message text": ("""
def f(x):
    y=np.ones(2)*(3-x)
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        z=np.sqrt(y).sum()
    return x*(5 if w and 'invalid' in str(w[0].message) else 2)
""", "", ""),
    "warnings: record constants": ("""
def f(x):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        z=np.sqrt(np.array([-1.0]))
    return x*(1+len(w))
""", "", ""),
    "warnings: record mean empty": ("""
def f(x):
    y=np.ones(3)*x
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        z=np.mean(y[y>2.6])
    return x*(1+len(w))
""", "", ""),
    "warnings: record nanmean": ("""
def f(x):
    y=np.sqrt(np.ones(3)*(3-x))
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        z=np.nanmean(y)
    return x*(1+len(w))
""", "", ""),
    "record user warn": ("""
def f(x):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        if x>3: warnings.warn('big')
    return x*(1+len(w))
""", "", ""),
    "warnings: ignore stays": ("""
def f(x):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return np.sqrt(np.ones(2)*(3-x)).sum()
""", "", ""),
    "scipy warn": ("""
from scipy import optimize
def f(x):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        r=np.polyfit([1.0,2.0],[1.0,2.0*x],1 if x<3 else 3)
    return x*(1+len(w))
""", "", ""),
    "np.load": ("np.save(FOLDER+'/a.npy',np.array([2.0]))", "x*float(np.load(FOLDER+'/a.npy')[0])", "if k==4: np.save(FOLDER+'/a.npy',np.array([5.0]))"),
    "np.load arr": ("np.save(FOLDER+'/a.npy',np.array([2.0]))", "(x*np.load(FOLDER+'/a.npy')).sum()", "if k==4: np.save(FOLDER+'/a.npy',np.array([5.0]))"),
    "np.memmap": ("np.array([2.0]).tofile(FOLDER+'/a.bin')", "x*float(np.memmap(FOLDER+'/a.bin',dtype=float)[0])", "if k==4: np.array([5.0]).tofile(FOLDER+'/a.bin')"),
    "np.fromfile": ("np.array([2.0]).tofile(FOLDER+'/a.bin')", "x*float(np.fromfile(FOLDER+'/a.bin')[0])", "if k==4: np.array([5.0]).tofile(FOLDER+'/a.bin')"),
    "np.loadtxt": ("np.savetxt(FOLDER+'/a.txt',np.array([2.0]))", "x*float(np.loadtxt(FOLDER+'/a.txt'))", "if k==4: np.savetxt(FOLDER+'/a.txt',np.array([5.0]))"),
    "loadmat": ("""
import scipy.io
scipy.io.savemat(FOLDER+'/a.mat',{'r':2.0})
""", "x*float(scipy.io.loadmat(FOLDER+'/a.mat')['r'][0,0])", "if k==4: scipy.io.savemat(FOLDER+'/a.mat',{'r':5.0})"),
    "get_printoptions": ("", "x*np.get_printoptions()['precision']", "np.set_printoptions(precision=5 if k==4 else 8)"),
    "array repr": ("A=np.array([1.23456789012])", "x*len(repr(A))", "np.set_printoptions(precision=4 if k==4 else 8)"),
    "special geterr": ("import scipy.special", "x*(5 if scipy.special.geterr()['singular']=='raise' else 2)", "scipy.special.seterr(all='raise' if k==4 else 'ignore')"),
    "torch get_default_dtype": ("import torch", "x*(5 if torch.get_default_dtype()==torch.float64 else 2)", "torch.set_default_dtype(torch.float64 if k==4 else torch.float32)"),
    "torch backends": ("import torch", "x*(5 if torch.backends.mkldnn.is_available() and torch.backends.cudnn.benchmark else 2)", "torch.backends.cudnn.benchmark=(k==4)"),
    "torch backends getter": ("import torch", "x*(5 if torch.backends.cuda.matmul.allow_tf32 else 2)", "torch.backends.cuda.matmul.allow_tf32=(k==4)"),
    "torch threads": ("import torch\ntorch.set_num_threads(1)", "x*torch.get_num_threads()", "torch.set_num_threads(2 if k==4 else 1)"),
    "torch deterministic": ("import torch", "x*(5 if torch.are_deterministic_algorithms_enabled() else 2)", "torch.use_deterministic_algorithms(k==4)"),
    "torch is_anomaly": ("import torch", "x*(5 if torch.is_anomaly_enabled() else 2)", "torch.set_anomaly_enabled(k==4)"),
    "torch matmul precision": ("import torch", "x*(5 if torch.get_float32_matmul_precision()=='high' else 2)", "torch.set_float32_matmul_precision('high' if k==4 else 'highest')"),
    "pickle reference": ("""
import pickle
m=helper('hidden_pickle_mod','class C: r=2.0')
B=pickle.dumps(m.C)
""", "x*pickle.loads(B).r", "if k==4: helper('hidden_pickle_mod','class C: r=5.0')"),
    "resolve_name": ("import pkgutil\none=helper('hidden_cfg9','rate=2.0')", "x*pkgutil.resolve_name('hidden_cfg9:rate')", "if k==4: one.rate=5.0"),
    "getmembers": ("class C: rate=2.0\nc=C()", "x*dict(inspect.getmembers(c))['rate']", "if k==4: c.rate=5.0"),
    "getmembers module": ("one=helper('hidden_cfg8','rate=2.0')", "x*dict(inspect.getmembers(one))['rate']", "if k==4: one.rate=5.0"),
    "enum getitem": ("""
class Mode(enum.Enum):
    A=1
    B=2
Mode.A.rate=2.0
""", 'x*Mode["A"].rate', "if k==4: Mode.A.rate=5.0"),
    "enum call": ("""
class Mode(enum.Enum):
    A=1
    B=2
Mode.A.rate=2.0
""", "x*Mode(1).rate", "if k==4: Mode.A.rate=5.0"),
    "enum iterate": ("""
class Mode(enum.Enum):
    A=1
    B=2
Mode.A.rate=2.0; Mode.B.rate=1.0
""", "x*sum(m.rate for m in Mode)", "if k==4: Mode.A.rate=5.0"),
    "enum members": ("""
class Mode(enum.Enum):
    A=1
    B=2
Mode.A.rate=2.0; Mode.B.rate=1.0
""", "x*Mode.__members__['A'].rate", "if k==4: Mode.A.rate=5.0"),
    "dataclass fields metadata": ("""
META={'r':2.0}
@dataclasses.dataclass
class C: a: float=dataclasses.field(default=1.0,metadata=META)
""", "x*dataclasses.fields(C)[0].metadata['r']", "if k==4: META['r']=5.0"),
    "dataclass fields default": ("@dataclasses.dataclass\nclass C: a: float=2.0", "x*dataclasses.fields(C)[0].default", "if k==4: C.__dataclass_fields__['a'].default=5.0"),
    "finalize alive": ("class C: pass\nc=C(); F=weakref.finalize(c,lambda:None)", "x*(2.0 if F.alive else 5.0)", "if k==4: c=None"),
    "new defaults": ("class C:\n    def __new__(cls, r=2.0): return object.__new__(cls)", "x*C.__new__.__defaults__[0]", "if k==4: C.__new__.__defaults__=(5.0,)"),
    "namedtuple new defaults": ("T=collections.namedtuple('T','r',defaults=[2.0])", "x*T.__new__.__defaults__[0]", "if k==4: T.__new__.__defaults__=(5.0,)"),
    "namedtuple made": ("T=collections.namedtuple('T','r',defaults=[2.0])", "x*T().r", "if k==4: T.__new__.__defaults__=(5.0,)"),
    "logger attr": ("L=logging.getLogger('hidden.l1'); L.rate=2.0", "x*L.rate", "if k==4: L.rate=5.0"),
    "logger level": ("L=logging.getLogger('hidden.l2'); L.setLevel(10)", "x*L.level", "if k==4: L.setLevel(20)"),
    "logger handlers": ("L=logging.getLogger('hidden.l3')\nL.handlers.clear()", "x*(1+len(L.handlers))", "if k==4: L.addHandler(logging.NullHandler())"),
    "logger propagate": ("L=logging.getLogger('hidden.l4')\nL.propagate=True", "x*(2 if L.propagate else 5)", "if k==4: L.propagate=False"),
    "logger getLogger attr": ("L=logging.getLogger('hidden.l5'); L.rate=2.0", "x*logging.getLogger('hidden.l5').rate", "if k==4: L.rate=5.0"),
    "tensor requires_grad": ("import torch\nT=torch.tensor(2.0)", "x*(5 if T.requires_grad else 2)", "T.requires_grad_(k==4)"),
    "writeable": ("A=np.ones(3)", "x*(5 if A.flags.writeable else 2)", "A.flags.writeable=(k==4)"),
    "writeable view": ("B=np.ones(6); A=B[:3]", "x*(5 if A.flags.writeable else 2)", "A.flags.writeable=(k==4)"),
    "writeable arg": ("""
A=np.ones(3)
given=(A,)
def f(x,a): return x*(5 if a.flags.writeable else 2)
""", "", "A.flags.writeable=(k==4)"),
    "writeable captured": ("""
def mk():
    A=np.ones(3)
    def f(x): return x*(5 if A.flags.writeable else 2)
    def act(k): A.flags.writeable=(k==4)
    return f,act
f,act=mk()
""", "", ""),
    "namespace eq": ("N=types.SimpleNamespace(r=2.0)", "x*(2 if N==types.SimpleNamespace(r=2.0) else 5)", "if k==4: N.r=3.0"),
    "namespace repr": ("N=types.SimpleNamespace(r=2.0)", "x*len(repr(N))", "if k==4: N.r=3.12345"),
    "thread started": ("""
def f(x):
    found=[]
    t=threading.Thread(target=lambda: found.append(RATE[0])); t.start(); t.join()
    return x*found[0]
RATE=[2.0]
""", "", "RATE[0]=5.0 if k==4 else 2.0"),
    "csv dialect": ("""
import csv
csv.register_dialect('hidden',delimiter=',')
""", "x*len(next(csv.reader(['1,2;3;4'],csv.get_dialect('hidden'))))", "csv.register_dialect('hidden',delimiter=';' if k==4 else ',')"),
    "time in strftime": ("NOW=[time.time]", "x*(1.0+0.0*len(time.strftime('%H')))", ""),
    "random of another module": ("import secrets", "x*(2.0+0.0*secrets.randbelow(9))", ""),
    "process id": ("", "x*(1+os.getpid()%2)", ""),
    "tempdir": ("BEFORE=tempfile.gettempdir()", "x*len(tempfile.gettempdir())", "tempfile.tempdir='/abcdef' if k==4 else BEFORE"),
}
