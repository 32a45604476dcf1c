"""fixtures: what stands at the top of a module: numbers, tables, functions, classes, hidden state; how it is used, and how it may change.

`~K` in a row is the name K as it is reached from where the row stands: `K`, or `lib.K`.
"""

from __future__ import annotations

from typing import NamedTuple


class Fixture(NamedTuple):
    """A name of a module: its definition, expressions by kind, statements, and what may happen to it between two calls."""

    text: str
    uses: tuple[tuple[str, str], ...] = ()
    statements: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


FIXTURES = (
    Fixture("K = $k", (("s", "~K"), ("s", "~K * $s"), ("v", "$v * ~K"), ("t", "~K > $k")), (), ("~K = $k", "~K = -~K")),
    Fixture("N = 2", (("i", "~N"), ("x", "$x ** ~N"), ("s", "$v[~N % 3]"), ("t", "~N > 2")), ("for i in range(~N):\n$body",), ("~N = 3", "~N = 1")),
    Fixture("ON = True", (("x", "($x if ~ON else $x)"), ("t", "~ON")), ("if ~ON:\n$body\nelse:\n$body",), ("~ON = not ~ON",)),
    Fixture("TABLE = np.array([$k, $k, $k])", (("v", "~TABLE"), ("s", "~TABLE[1]"), ("v", "~TABLE * $v"), ("v", "~TABLE[$w % 3]"), ("t", "~TABLE[0] > 0")), (),
            ("~TABLE[1] = $k", "~TABLE[:] = ~TABLE[::-1].copy()", "~TABLE = np.array([$k, $k, $k])", "~TABLE = np.array([$k, $k])")),
    Fixture("GRID = np.array([[$k, $k, $k], [$k, $k, $k]])", (("m", "~GRID"), ("v", "~GRID[0]"), ("v", "~GRID @ $v"), ("v", "~ROW"), ("v", "~ROW * $s")), (),
            ("~GRID[0, 1] = $k", "~GRID *= $k", "~GRID = ~GRID + 1.0")),
    Fixture("ITEMS = [$k, $k, $k]", (("s", "~ITEMS[0]"), ("s", "sum(~ITEMS) * $s"), ("s", "len(~ITEMS) * $s"), ("s", "~ITEMS[-1] * $s")),
            ("$n1 = 0.1\nfor t in ~ITEMS:\n    $n1 = $n1 + t * $s",), ("~ITEMS[0] = $k", "~ITEMS.append($k)", "~ITEMS.reverse()", "~ITEMS = ~ITEMS[:-1]")),
    Fixture("CFG = {'rate': $k, 'on': True, 'deep': {'k': [$k, $k]}, 'name': 'sin'}",
            (("s", "~CFG['rate']"), ("s", "~CFG['deep']['k'][1]"), ("s", "~CFG.get('more', 0.5) * $s"), ("x", "($x if ~CFG['on'] else $x)"),
             ("x", "getattr(np, ~CFG['name'])($x)"), ("s", "len(~CFG) * $s"), ("t", "'more' in ~CFG")),
            ("if ~CFG['on']:\n$body", "for t in ~CFG:\n    $V[0] += len(t) * $s"),
            ("~CFG['rate'] = $k", "~CFG['on'] = not ~CFG['on']", "~CFG['deep']['k'][1] = $k", "~CFG['name'] = 'cos'", "~CFG['more'] = $k",
             "~CFG['deep'] = {'k': [$k, $k]}")),
    Fixture("SPACE = types.SimpleNamespace(gain=$k, w=np.array([$k, $k, $k]), n=1)", (("s", "~SPACE.gain"), ("v", "~SPACE.w * $v"), ("s", "~SPACE.n * $s"), ("s", "~SPACE.w[0]")),
            (), ("~SPACE.gain = $k", "~SPACE.w[0] = $k", "~SPACE.n += 1", "~SPACE.w = np.array([$k, $k, $k])")),
    Fixture("DATA = np.array([[$k, $k, $k], [$k, $k, $k], [$k, $k, $k], [$k, $k, $k], [$k, $k, $k]])\nRATES = [$k, $k, $k]",  # minibatches
            (("v", "~DATA[$i]"), ("m", "~DATA[$i: $i + 2]"), ("s", "~DATA[$i, 1] * $s"), ("s", "~RATES[$i] * $s"), ("v", "~DATA[$i + 1] * $v"), ("s", "~RATES[-$i] * $s"), ("v", "~DATA[$w % 5, 0] * $s")),
            ("$n1 = $i\n$n2 = ~DATA[$n1 * 2: ($n1 + 1) * 2]\n$n3 = $n2.sum() * $s", "for row in ~DATA[$i:]:\n    $V[0] += row[0] * $s", "$n1, $n2 = $i, $i\n$n3 = ~DATA[$n1, $n2] * $s + ~RATES[$n2] * $n1"),
            ("~DATA[1] = $k", "~RATES[0] = $k", "~DATA = ~DATA[::-1]", "~DATA = np.asfortranarray(~DATA)")),
    Fixture("FN = np.sin", (("u", "~FN"), ("x", "~FN($x)")), (), ("~FN = np.cos", "~FN = lambda x: x * 0.5", "~FN = np.tanh")),
    Fixture("HOOKS = [np.sin]", (("x", "~HOOKS[0]($x)"),), ("$n1 = $x\nfor hook in ~HOOKS:\n    $n1 = hook($n1)",), ("~HOOKS.append(np.tanh)", "~HOOKS[0] = np.cos")),
    Fixture("WORDS = {'low', 'high'}", (("s", "len(~WORDS) * $s"), ("t", "'mid' in ~WORDS")), (), ("~WORDS.add('mid')", "~WORDS.discard('low')")),
    Fixture("def scaled(x, by=$k, table=(1.0, 2.0)):\n    return x * by + table[0]", (("u", "~scaled"), ("x", "~scaled($x)"), ("x", "~scaled($x, by=$s)"), ("x", "~scaled($x, $s, ($s, 1.0))")),
            (), ("~scaled.__defaults__ = ($k, (3.0, 1.0))", "~scaled = np.negative")),
    Fixture("K2 = $k\ndef reads(x):\n    if K2 > 0:\n        return np.tanh(x) * K2\n    return x * K2", (("u", "~reads"), ("x", "~reads($x)")), (), ("~K2 = $k", "~K2 = -~K2")),
    Fixture("def twice(fn):\n    @functools.wraps(fn)\n    def wrapper(*args, **kwargs):\n        return 2.0 * fn(*args, **kwargs)\n    return wrapper\n@twice\ndef doubled(x):\n    return np.arctan(x)",
            (("x", "~doubled($x)"), ("u", "~doubled"), ("x", "~twice(np.sin)($x)"))),
    Fixture("def halves(x):\n    for t in x:\n        yield t / 2.0", (("s", "sum(~halves($v))"), ("v", "np.array(list(~halves($v)))")), ("for t in ~halves($v):\n    $V[0] = $V[-1] + t",)),
    Fixture("def bump(x, by=1.0):\n    x += by\n    return x", (("a", "~bump($A, $s)"), ("s", "~bump($s)")), ("~bump($A, $s)", "~bump($V[1:])")),
    Fixture("@functools.lru_cache\ndef factor(n):\n    return 1.0 / (n + 1)", (("s", "~factor($i)"), ("x", "~factor(2) * $x"))),
    Fixture("COUNT = 0\ndef tick():\n    global COUNT\n    COUNT += 1\n    return COUNT", (("s", "~tick() * $s"), ("i", "~tick() % 3"), ("s", "~COUNT * $s")), ("if ~tick() % 2:\n$body",), ("~COUNT = 0",)),
    Fixture("SEEN = []\ndef note(x):\n    SEEN.append(len(SEEN))\n    return x * (1 + len(SEEN) % 2)", (("x", "~note($x)"), ("s", "len(~SEEN) * $s")), ("~SEEN.append(0)\n$n1 = len(~SEEN) * $s",), ("~SEEN.clear()",)),
    Fixture("CACHE = {}\ndef cached(key, make):\n    if key not in CACHE:\n        CACHE[key] = make()\n    return CACHE[key]",
            (("v", "~cached('grid', lambda: np.linspace(0.0, 1.0, 3)) * $s"), ("s", "~cached('k', lambda: 0.7) * $s"), ("s", "len(~CACHE) * $s")), (),
            ("~CACHE.clear()", "~CACHE['k'] = $k")),
    Fixture("STEPS = itertools.count()", (("s", "next(~STEPS) * $s"),)),
    Fixture("RNG = np.random.default_rng(1)", (("s", "~RNG.normal() * $s"), ("v", "~RNG.normal(size=3) * $s"))),
    Fixture("class Level(enum.IntEnum):\n    LOW = 1\n    HIGH = 2\nLEVEL = Level.LOW", (("x", "$x * ~LEVEL"), ("s", "~LEVEL * 1.0"), ("t", "~LEVEL is ~Level.HIGH")), (), ("~LEVEL = ~Level.HIGH",)),
    Fixture("""class Model:
    gain = $k
    table = [$k, $k]
    def __init__(self, w):
        self.w, self.n, self.log = w, 0, []
    def apply(self, x):
        return x * self.w * self.gain
    def __call__(self, x):
        return self.apply(x) + self.table[0]
    @property
    def twice(self):
        return 2.0 * self.w
    def step(self, x):
        self.n += 1
        self.w = self.w + 0.1 * x / self.n
        return self.w
    @classmethod
    def make(cls, w):
        return cls(w * cls.gain)
    @staticmethod
    def fixed(x):
        return np.tanh(x)
class Steep(Model):
    gain = 1.5
    def apply(self, x):
        return super().apply(x) - x
MODEL = Model($k)""",
            (("x", "~MODEL($x)"), ("x", "~Model($s)($x)"), ("x", "~Steep($s).apply($x)"), ("s", "~MODEL.twice"), ("s", "~Model.gain"), ("x", "~Model.fixed($x)"), ("x", "~Model.make($s)($x)"),
             ("x", "~MODEL.apply($x)"), ("u", "~MODEL"), ("u", "~MODEL.apply"), ("u", "~Steep(0.4)")),
            ("$n1 = ~Model($s)\n$n2 = $n1.step($s) + $n1.step($s)", "$n1 = ~Steep($v)\n$n1.w[0] = $s\n$n2 = $n1($s)", "$n1 = ~Model($V)\n$n1.w *= $s\n$n1.gain = $s\n$n2 = $n1($s)",
             "~MODEL.n += 1\n$n1 = ~MODEL.n * $s", "~MODEL.log.append(1)\n$n1 = len(~MODEL.log) * $s"),
            ("~MODEL.w = $k", "~Model.gain = $k", "~Model.table[0] = $k", "~MODEL.gain = $k", "~Model.apply = lambda self, x: x - self.w", "~MODEL = ~Steep($k)", "~Model.twice = property(lambda self: self.w)",
             "~MODEL.__class__ = ~Steep", "~Steep.gain = $k")),
    Fixture("""@dataclasses.dataclass
class Point:
    x: object
    y: object = 0.5
    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)
    def __mul__(self, k):
        return Point(self.x * k, self.y * k)
    def norm(self):
        return np.sum(self.x ** 2 + self.y ** 2)
ORIGIN = Point($k, $k)""",
            (("s", "~Point($s, $s).norm()"), ("s", "(~Point($s) + ~ORIGIN).norm()"), ("s", "~ORIGIN.x * $s"), ("s", "(~Point($x, $s) * $s).norm()"), ("x", "~Point($x).x")),
            ("$n1 = ~Point($x, $s)\n$n1.x = $n1.x * $s\n$n2 = $n1.norm()", "$n1 = dataclasses.replace(~ORIGIN, x=$s)\n$n2 = $n1.norm()"), ("~ORIGIN.x = $k", "~ORIGIN = ~Point($k, $k)")),
    Fixture("""@functools.singledispatch
def told(x):
    return x * 2.0
@told.register(float)
def _(x):
    return x * 3.0
@told.register(np.ndarray)
def _(x):
    return x - 0.5""", (("x", "~told($x)"), ("s", "~told($s)"), ("u", "~told")), (), ("~told.register(np.ndarray, lambda x: x + 0.5)",)),
    Fixture("""class Lazy:
    __slots__ = ('w', '__dict__')
    made = 0
    def __init__(self, w):
        self.w = w
    @functools.cached_property
    def twice(self):
        return self.w * 2.0
    def __getattr__(self, name):
        if name.startswith('_'):
            raise AttributeError(name)
        return len(name) * 0.25
    def __contains__(self, x):
        return x > 0.5
    def __bool__(self):
        return np.sum(self.w) > 0
    def __iadd__(self, x):
        self.w = self.w + x
        return self
    def __rsub__(self, x):
        return x - self.w
    def __eq__(self, other):
        return self.w is other.w""",
            (("s", "np.sum(~Lazy($x).twice)"), ("s", "~Lazy($s).more * $s"), ("t", "$s in ~Lazy($s)"), ("t", "bool(~Lazy($x))"), ("x", "$k - ~Lazy($x)")),
            ("$n1 = ~Lazy($V)\n$n2 = $n1.twice * 1.0\n$n1.w[0] = $s\n$n3 = $n1.twice + $n1.w", "$n1 = ~Lazy($x)\n$n1 += $s\n$n2 = $n1.twice", "$n1 = ~Lazy($v)\nif $n1:\n$body")),
    Fixture("""@contextlib.contextmanager
def raised(x):
    x += 1.0
    try:
        yield x * 2.0
    except ArithmeticError:
        x *= 0.5
    finally:
        x -= 0.25""", (), ("with ~raised($V) as $n1:\n    $n1[0] = $s\n    $n2 = $n1 * 1.0", "$n1 = $V\nwith ~raised($n1):\n    $n1[0] = $s\n    if $t:\n        raise ArithmeticError\n    $n1 = $n1 * 2.0")),
    Fixture("LAST = None\ndef stored(x):\n    global LAST\n    old, LAST = LAST, float(np.shape(x) == ())\n    return x if old is None else x * 0.5", (("x", "~stored($x)"),), (), ("~LAST = None", "~LAST = 1.0")),
    Fixture("class Tally:\n    total = 0\n    def __init__(self, step):\n        self.step = step\n    def __call__(self, x):\n        Tally.total += self.step\n        return x * Tally.total\nTALLY = Tally(1)", (("x", "~TALLY($x)"), ("s", "~Tally.total * $s")), (), ("~Tally.total = 0", "~TALLY.step = 0", "~TALLY.step = 2")),
    Fixture("""class Scope:
    depth = 0
    def __enter__(self):
        Scope.depth += 1
        return self.depth
    def __exit__(self, *exc):
        Scope.depth -= 1
        return exc[0] is KeyError""",
            (("s", "(~Scope.depth + 1) * $s"),), ("with ~Scope() as $n1:\n$body\n    $n2 = $n1 * $s", "$n1 = $s\nwith ~Scope():\n    $n1 = $n1 * 2.0\n    if $t:\n        raise KeyError\n    $n1 = $n1 + 1.0")),
    Fixture("""class Vector:
    def __init__(self, data):
        self.data = np.asarray(data)
    def __getitem__(self, i):
        return self.data[i]
    def __setitem__(self, i, value):
        self.data[i] = value
    def __len__(self):
        return len(self.data)
    def __iter__(self):
        return iter(self.data)
    def __matmul__(self, other):
        return sum(p * q for p, q in zip(self, other))""",
            (("s", "~Vector($v) @ ~Vector($v)"), ("s", "~Vector($v)[0]"), ("s", "sum(~Vector($v))")), ("$n1 = ~Vector($V)\n$n1[0] = $s\n$n2 = $n1 @ $n1", "$n1 = ~Vector([$s, $s])\n$n1[1] = $n1[0] * $n1[1]\n$n2 = $n1[:] * 2.0")),
)

HEADER = """import bisect, collections, contextlib, copy, dataclasses, enum, functools, heapq, itertools, math, operator, random, types
import numpy as np
"""

MIX = """def mix(x):
    x = np.asarray(x)
    return (x * np.cos(np.arange(x.size) + 1.0).reshape(x.shape)).sum()
"""
