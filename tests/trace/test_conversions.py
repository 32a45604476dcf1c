"""float(x), np.float64(x) and type(x) in installed packages; functions that numba compiles; operators taken from float."""

from __future__ import annotations

import functools
import importlib
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import (
    Any,
    Protocol,
    SupportsAbs,
    SupportsComplex,
    SupportsFloat,
    SupportsIndex,
    SupportsRound,
    runtime_checkable,
)

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.trace import replaceable_names

SOURCE = '''
import numpy
import numpy as np
from numpy import float64

POWER = [float.__pow__, float.__rsub__]

def single(x): return float(x) ** 2
def several(xs): return sum([float(x) * k for k, x in enumerate(xs, 1)])
def of_numpy(x): return np.sin(np.float64(x)) / numpy.float64(3.0)
def by_name(x): return float64(x) * x
def of_complex(x): return abs(complex(x, 2 * x)) + complex(imag=x).imag + (complex(x) * 1j).imag
def of_complex128(x): return abs(np.complex128(x) * (1 + 1j)) + float(np.longdouble(2) * x)
def of_dtypes(x):
    return np.float64(x) ** 2 + np.dtype(np.float64).itemsize * abs(np.complex128(x)) + np.zeros(1, np.complex128)[0].real
def of_map(x): return sum(map(float, [x, x * x])) + abs(sum(map(complex, (x, 1j * x))))
def of_objects(x): return float(Standard(x)) + abs(complex(Standard(x)))
class Standard:
    def __init__(self, x): self.x = x
    def __float__(self): return float(self.x) ** 2
    def __complex__(self): return complex(0, self.x)
def of_arrays(x): return np.float64(x * x).sum()
def exact(x):
    if type(x) is float: return 3.0 * x
    return x.sum() if type(x) == np.ndarray else x * x
def otherwise(x): return float(x) * (2.0 if isinstance(x, float) else 1.0)
def whole(x, n): return float(n) * x + float("1.5") + float()
def inner(x):
    def twice(y): return 2 * float(y)
    return twice(x) + (lambda y: float(y))(x)
def operators(x): return POWER[0](x, 2.0) + POWER[1](x, 1.0) + POWER[0](2.0, x)
DEFAULT = np.float64
def of_variable(x, dtype=None):
    dtype = DEFAULT if dtype is None else dtype
    return dtype(x) * x
def of_loads(x, dtype=np.float64, two=2.0):
    y = two * dtype(x)
    b = dtype; y = y + b(x) ** two
    return max(two, dtype(y))
def of_variables(x, a=float, b=np.float64, c=np.sin):
    return sum([c(a(x)) for _ in range(12)]) + (lambda: b(a(x)))() + a(3) + max(*map(a, [1, 2])) + a() + b(*[2.0])
def of_kind(x, kind): return float(kind(2)) * x
def of_made(x, make=np.zeros):
    y = make(3)
    y[1] = x * x
    return y.sum()
TABLE = np.ones(3)
def of_table(x, dtype=np.float64):
    y = TABLE * 2.0
    y[0] = dtype(x)
    return (y * y).sum()
class Standing:
    def __init__(self, module): self.module = module
    def __getattr__(self, name): return getattr(self.module, name)
class Point:
    def __init__(self, x): self.x = float(x)
    @property
    def half(self): return float(self.x) / 2
def point(x): return Point(x).half ** 2
def maker(a):
    def made(x): return float(x) * a if type(x).__name__ == "float" else 100 * x
    return made
class Graph:
    def __init__(self, **edges): self.edges = [edges]
class Conversions:
    def __init__(self, graph): self.graph = graph
    def __call__(self, x): return self.graph.edges[0]["square"](x)
def _square(x): return float(x) ** 2
KNOWN = Conversions(Graph(square=_square))
def of_objects_in_objects(x): return KNOWN(x)
def limited(x, limits=[float]): return limits[0](x)
class Degrees(float): pass
def in_degrees(x): return Degrees(x) * 2
def in_degrees_by_name(x, kind=float): return kind.__new__(Degrees, x) * 2
def differentiated(x):
    import tapegrad
    return float(tapegrad.gradient(lambda y: float(y) ** 3, x)[0])
def speed(y): return float(y[0]) ** 0.5
def of_solver(x):
    from scipy.integrate import quad, solve_ivp
    until = solve_ivp(lambda t, y: [speed(y)], (0.0, 9.0), [x], events=lambda t, y: float(y[0]) - 4.0, rtol=1e-10, atol=1e-10)
    return until.t_events[0][0] * quad(lambda t: speed([t + 1.0]), 0.0, x)[0]
class Field(np.ndarray):
    def __float__(self): return float(np.asarray(self)) / 100
    def same(self): return type(self) is Field
def wrapped(fn): return lambda x: fn(x)
@wrapped
def decorated(x): return float(x) * float(x)
def imports(x):
    from math import cos
    return cos(float(x))
KIND = float
def of_name(x): return KIND(x) * x
class Absent:
    def __getattr__(self, name): raise ImportError(name)
ABSENT = Absent()
def of_absent(x): return x.other if ABSENT is None and isinstance(x, Absent) else float(x) * x
def field(x):
    y = np.asarray(x).view(Field)
    return float(y) * (y.same() + np.float64(y))
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_for_a_test.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("installed_for_a_test")
    del sys.modules["installed_for_a_test"]


def slope(f: Callable[[float], float], x: float) -> float:
    return (f(x + 1e-6) - f(x - 1e-6)) / 2e-6


VARIABLES = (3, 11) <= sys.version_info < (3, 14)


def test_arrays_of_a_class(package: ModuleType) -> None:
    value, (_, dx) = tg.grad(package.field, 3.0)
    assert value == package.field(3.0) == pytest.approx(0.0309)
    assert dx == pytest.approx(slope(package.field, 3.0))


@pytest.mark.quick
@pytest.mark.parametrize("name", ["single", "of_numpy", "by_name", "of_complex", "of_complex128", "of_dtypes", "of_map",
                                  "of_objects", "of_arrays", "of_objects_in_objects", "exact", "inner", "operators", "point", "of_absent", "of_solver",
                                  *(["of_variable", "of_variables", "of_loads", "of_made", "of_table"] if VARIABLES else [])])
def test_conversions_keep_the_gradient(package: ModuleType, name: str) -> None:
    fn = getattr(package, name)

    def f(x: Any) -> Any:
        return fn(x * 1.5)
    own = fn.__code__
    value, (dx,) = tg.grad(f, 0.7)[0], tg.gradient(f, 0.7)
    assert value == f(0.7)
    assert np.isclose(dx, slope(f, 0.7), rtol=1e-6)
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (0.7, 0.8, 0.9):
        value, dx = step(x)
        assert value == f(x) and np.isclose(dx, slope(f, x), rtol=1e-6)
    assert fn.__code__ is own
    assert np.isclose(tg.hessian(f)(0.7), (slope(f, 0.7 + 1e-3) - slope(f, 0.7 - 1e-3)) / 2e-3, rtol=1e-3, atol=1e-4)


def test_lists_arrays_and_classes(package: ModuleType) -> None:
    x = np.array([0.5, -1.5, 2.0])
    assert np.array_equal(tg.gradient(lambda x: package.several(x), x)[0], [1.0, 2.0, 3.0])
    assert np.array_equal(tg.gradient(lambda x: package.of_arrays(x), x)[0], 2 * x)
    assert np.array_equal(tg.gradient(lambda x: package.exact(x), x)[0], np.ones(3))
    value, dx = tg.grad(lambda x: package.single(x[0]), x.astype(np.float32), argnums=0)
    assert type(value) is float and dx.dtype == np.float32 and dx[0] == 1.0
    assert tg.gradient(lambda x: package.whole(x, 3), 2.0) == (3.0,)


def test_functions_that_are_made_anew(package: ModuleType) -> None:
    for a in (2.0, 3.0, 4.0):
        made = package.maker(a)
        assert tg.gradient(made, 2.0) == tg.gradient(lambda x: made(x), 2.0) == (a,)  # noqa: B023
        assert package.differentiated(a) == 3 * a ** 2
        assert tg.gradient(lambda x: package.differentiated(x), a) == (6 * a,)
    assert package.maker(2.0)(np.float64(2.0)) == tg.trace(package.maker(2.0), np.float64(2.0))[0] == 200.0


SHARED = ("single", "several", "of_map", "inner", "exact")


def test_traces_that_share_functions_leave_each_other_theirs(package: ModuleType) -> None:
    own = {name: getattr(package, name).__code__ for name in SHARED}

    def within(x: Any) -> Any:
        return package.several([x, x]) + package.of_map(x).real

    def after(x: Any) -> Any:
        slope_within = tg.gradient(within, 0.5)[0]  # ends first, with functions that this one calls afterwards
        return package.single(x) + package.several([x]) * slope_within + package.inner(x)
    for _ in range(3):
        assert tg.gradient(after, 0.7)[0] == pytest.approx(2 * 0.7 + tg.gradient(within, 0.5)[0] + 3)
        assert {name: getattr(package, name).__code__ for name in SHARED} == own
    waits, goes, found = threading.Event(), threading.Event(), list[Any]()

    def slow(x: Any) -> Any:
        waits.set()
        assert goes.wait(60)
        return package.single(x) + package.several([x])
    thread = threading.Thread(target=lambda: found.append(tg.gradient(slow, 0.7)[0]))
    thread.start()
    assert waits.wait(60)
    for _ in range(2):
        assert tg.gradient(after, 0.7)[0] == pytest.approx(2 * 0.7 + tg.gradient(within, 0.5)[0] + 3)
    assert package.single.__code__ is not own["single"]  # the other thread still traces it
    goes.set()
    thread.join()
    assert found == [pytest.approx(2.4)]
    assert {name: getattr(package, name).__code__ for name in SHARED} == own


def test_code_that_the_program_gives_a_function_meanwhile_stays(package: ModuleType) -> None:
    def three(x: Any) -> Any:
        return 3.0 * x

    def f(x: Any) -> Any:
        y = package.single(x) + package.several([x])
        package.single.__code__ = three.__code__
        return y + package.single(x)
    own = package.several.__code__
    assert tg.gradient(f, 0.7)[0] == pytest.approx(1.4 + 1 + 3)
    assert package.single.__code__ is three.__code__ and package.several.__code__ is own
    for _ in range(2):
        assert tg.gradient(lambda x: package.single(x) + package.several([x]), 0.7)[0] == pytest.approx(4.0)
    assert package.single.__code__ is three.__code__ and package.several.__code__ is own


def test_names_that_lead_elsewhere_later(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("single", "by_name", "inner"):
        monkeypatch.setitem(globals(), "chosen", getattr(package, name))
        assert np.isclose(tg.gradient(by_a_name, 0.7)[0], slope(by_a_name, 0.7))
    monkeypatch.setitem(globals(), "there", package)
    for _ in range(2):
        assert tg.gradient(of_a_module, 0.7) == (1.4,)
        importlib.reload(package)


def by_a_name(x: Any) -> Any:
    return chosen(x)  # type: ignore[name-defined]  # noqa: F821


def of_a_module(x: Any) -> Any:
    return there.single(x)  # type: ignore[name-defined]  # noqa: F821


def test_types_are_what_they_are_in_the_program(package: ModuleType) -> None:
    value, _ = tg.trace(lambda x: package.single(x), np.float64(2.0))
    assert type(value) is float
    step = tg.value_and_grad(lambda x: package.exact(x), argnums=0, warmup=1)
    assert step(2.0) == (6.0, 3.0) and step(np.float64(2.0)) == (4.0, 4.0) and step(3.0) == (9.0, 3.0)


@pytest.mark.skipif(not VARIABLES, reason="a call of a variable is written otherwise")
def test_a_variable_may_hold_another_class(package: ModuleType) -> None:
    for cls in (np.float16, np.complex128, np.longdouble):
        assert tg.gradient(lambda x: package.of_variable(x, cls).real, 2.0) == (4.0,)  # noqa: B023
    with pytest.raises(ValueError, match="timedelta"):
        tg.grad(lambda x: package.of_variable(x, np.timedelta64), 2.0)
    x = np.array([1.0, 2.0])
    assert np.array_equal(tg.gradient(lambda x: package.of_variable(x).sum(), x)[0], 2 * x)
    assert tg.gradient(lambda x: package.of_variable(x, list)[0], np.array([[2.0]]))[0] == 4.0


def test_an_object_may_stand_for_a_module(package: ModuleType) -> None:
    standing = package.Standing(package)
    assert tg.gradient(lambda x: standing.single(x), 3.0) == (6.0,)


def test_where_a_name_means_more_than_its_calls_only_these_are_others(package: ModuleType) -> None:
    assert tg.grad(lambda x: package.otherwise(x * 2), 1.0) == (4.0, (None, 4.0))


class Told:
    def call(self, x: Any) -> Any:
        return self.by_method(x)

    def by_method(self, x: Any) -> Any:
        return x * 2 if type(x) is float else x * 3


def told(x: Any) -> Any:
    return x * 2 if type(x) is float else x * 3


# ruff: noqa: E721  (some programs compare types so)
OWN: list[tuple[Callable[[Any], Any], Any]] = [
    (told, 1.5), (lambda x: told(x) + told(np.sqrt(x)), 1.5), (lambda x: x * 2 if type(x) == float else x, 1.5), (Told().call, 1.5),
    (lambda x: x * 2 if type(x) in (int, float) else x, 1.5), (lambda x: x * 2 if isinstance(float, type) and type(x) is float else x, 1.5),
    (lambda x: (lambda y: y * 2 if type(y).__name__ == "float" else y)(x), 1.5), (lambda x: x * type(x)(3), 1.5),
    (lambda x: {float: lambda v: v * 2, int: lambda v: v * 3}[type(x)](x), 1.5), (lambda x: sum(y * 2 if type(y) is float else y for y in [x, x * x, 1]), 1.5),
    (lambda x: (x * 2 if type(x) is np.ndarray else x).sum(), np.array([1.0, 2.0])), (lambda x: x[0] * 2 if type(x[0]) is np.float64 else x[0], np.array([1.0, 2.0])),
    (lambda x: tg.gradient(told, x)[0] * x, 1.5), (lambda x, n=3: x * n if type(n) is int else x, 1.5)]


@pytest.mark.parametrize("row", range(len(OWN)))
def test_the_programs_own_types(row: int) -> None:
    f, x = OWN[row]
    code = getattr(f, "__code__", None)
    value, tape = tg.trace(f, x)
    assert value == f(x) == tape.play(x) == tg.grad(f, x)[0] == tg.jvp(f, (x,), (x,))[0]
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for scale in (1.0, 2.0, 3.0):
        assert step(x * scale)[0] == f(x * scale)
    assert getattr(f, "__code__", None) is code


SPECIAL = ("__array__", "__index__", "__iter__", "__len__", "__float__", "__complex__", "__array_ufunc__", "__matmul__", "__round__", "__and__",
           "__array_interface__", "__array_function__", "__torch_function__", "__copy__", "__deepcopy__", "__slots__", "__iadd__", "__trunc__",
           "__divmod__", "__getnewargs__", "__setstate__", "_op", "_tracer", "_repr_html_", "_mpmath_", "shape", "real", "missing")
REFUSED = ("__array_interface__", "__getnewargs__", "__setstate__")


@pytest.mark.parametrize("x", [1.5, 2, 1j, np.float64(1.5), np.arange(3.0), np.array(2.0)], ids=str)
def test_a_traced_value_has_the_special_methods_of_the_plain_one(x: Any) -> None:
    answers: list[Any] = []

    def f(x: Any) -> Any:
        answers.append([(hasattr(x, name), name in REFUSED or getattr(x, name, None) is None) for name in SPECIAL])
        return x * (1 if hasattr(x, "__len__") or hasattr(x, "__index__") else 2)
    f(x)
    tg.trace(f, x)
    assert answers[0] == answers[1]
    for name in [name for name in REFUSED if hasattr(x, name) and not isinstance(x, int)]:
        with pytest.raises(tg.TapeError, match=name):
            tg.trace(lambda x: getattr(x, name, None) or x, x)  # noqa: B023


@runtime_checkable
class Measured(Protocol):
    shape: tuple[int, ...]

    def __len__(self) -> int: ...


PROTOCOLS = (SupportsIndex, SupportsAbs, SupportsRound, SupportsComplex, SupportsFloat, Measured, Sequence, (str, SupportsIndex))


@pytest.mark.parametrize("x", [1.5, 2, 1j, np.float64(1.5), np.arange(3.0), np.array(2.0)], ids=str)
def test_a_traced_value_is_an_instance_of_the_protocols_of_the_plain_one(x: Any) -> None:
    def f(x: Any) -> Any:
        return x * sum(isinstance(x, kind) << at for at, kind in enumerate(PROTOCOLS))
    assert np.array_equal(tg.trace(f, x)[0], f(x))
    step = tg.compile(lambda x: x * 2 if isinstance(x, SupportsIndex) else x * 3, warmup=1)
    assert [step(v) for v in (2, 1.5, 2, 1.5, np.float64(1.0))] == [4, 4.5, 4, 4.5, 3.0]


def test_compiled_calls_notice_other_special_methods() -> None:
    step = tg.compile(lambda x: x * 2 if hasattr(x, "__len__") else x * 3, warmup=1)
    for _ in range(4):
        assert step(2.0) == 6.0 and step(np.ones(1)).tolist() == [2.0] and step(np.float64(1.0)) == 3.0


def test_a_program_may_give_such_names_another_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tg.trace(told, 1.5)[0] == 3.0
    monkeypatch.setitem(globals(), "type", lambda x: None)
    assert tg.trace(told, 1.5)[0] == told(1.5) == 4.5
    monkeypatch.undo()
    assert tg.trace(told, 1.5)[0] == told(1.5) == 3.0


def test_another_type_takes_another_path() -> None:
    step = tg.value_and_grad(told, argnums=None, warmup=1)
    assert [step(x)[0] for x in (1.0, np.float64(1.0), 2.0, np.float64(2.0))] == [2.0, 3.0, 4.0, 6.0] and step.stats.traces == 2


def test_a_class_that_takes_no_keywords_is_given_none(package: ModuleType) -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    assert tg.grad(package.of_kind, 3.0, gmpy2.mpz)[1][1] == 2.0


@pytest.mark.parametrize(("name", "who"), [*([("limited", "float, stored in limits[0]")] if sys.version_info >= (3, 11) else []), ("in_degrees", "installed_for_a_test.Degrees"),
                                           ("in_degrees_by_name", "float.__new__, stored in kind.__new__")])
def test_floats_that_a_package_makes_otherwise_are_refused_with_finite_differences(
        package: ModuleType, name: str, who: str) -> None:
    fn = getattr(package, name)
    for _ in range(12):  # Python calls what it has called before otherwise
        fn(2.0)
        with pytest.raises(tg.ConcretizationError, match=r"tg\.differences") as caught:
            tg.grad(fn, 2.0)
        assert caught.value.what.startswith(who)
    assert tg.grad(lambda x: tg.differences(fn)(x) * x, 3.0)[1][1] == pytest.approx(slope(lambda x: fn(x) * x, 3.0))


def test_the_programs_own_are_refused() -> None:
    with pytest.raises(tg.ConcretizationError, match="leave the float"):
        tg.grad(lambda x: float(x) * 2, 1.0)


def test_errors_are_those_of_float(package: ModuleType) -> None:
    for x in (np.ones(2), 1j):
        with pytest.raises(TypeError) as plain:
            package.single(x)
        with pytest.raises(TypeError) as traced:
            tg.trace(lambda x: package.single(x), x)
        assert str(traced.value) == str(plain.value)


def test_threads_and_traces_inside_others(package: ModuleType) -> None:
    found: list[Any] = []

    def work(x: float) -> None:
        for _ in range(20):
            found.append(tg.gradient(lambda x: package.single(x) + tg.gradient(package.point, x)[0], x)[0] == 2 * x + 0.5)
    threads = [threading.Thread(target=work, args=(x,)) for x in (1.0, 2.0, 3.0)]
    own = package.single.__code__
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found) and len(found) == 60
    assert package.single.__code__ is own


class CPUDispatcher:
    """What numba makes of a function: compiled code, which knows no traced value, and the function."""

    def __init__(self, fn: Any) -> None:
        self.py_func, self.__doc__, self.calls = fn, fn.__doc__, 0
        self.typingctx = iter([])  # which says of no two calls that they find the same

    def __call__(self, *args: float) -> Any:
        self.calls += 1
        return self.py_func(*[np.asarray(arg).item() for arg in args])


CPUDispatcher.__module__ = "numba.core.registry"


@CPUDispatcher
def compiled(x: Any, y: Any) -> Any:
    return np.sin(x) * y + helper(y)


@CPUDispatcher
def helper(y: Any) -> Any:
    return y * y


def test_what_numba_compiles_is_traced_as_python() -> None:
    def f(x: Any, y: Any) -> Any:
        return compiled(x, y) + compiled(1.0, 2.0)
    assert np.allclose(tg.gradient(f, 0.5, 3.0), [np.cos(0.5) * 3.0, np.sin(0.5) + 6.0])
    assert compiled.calls == 1  # of plain numbers
    assert type(compiled) is CPUDispatcher and np.isclose(f(0.5, 3.0), tg.grad(f, 0.5, 3.0)[0])


@CPUDispatcher
def thrown(n: Any) -> Any:
    return int(np.random.randint(2)) * 0 + n


@CPUDispatcher
def printed(n: Any) -> Any:
    return passed_on(n)


def passed_on(n: Any) -> Any:
    print(n)
    return n


def test_what_numba_compiles_keeps_no_path_from_being_compiled_but_what_may_draw_or_print(
        capsys: pytest.CaptureFixture[str]) -> None:
    step = tg.value_and_grad(lambda x: compiled(x, 2.0) * compiled(1.0, 2.0))
    assert [step(x)[0] for x in (1.0, 2.0, 3.0, 4.0)] == pytest.approx(
        [compiled(x, 2.0) * compiled(1.0, 2.0) for x in (1.0, 2.0, 3.0, 4.0)]) and step.stats.hits == 3
    for f in (lambda x: x * thrown(2), lambda x: x * printed(2.0)):
        step = tg.value_and_grad(f)
        with pytest.warns(tg.RetraceWarning, match="it prints|a function compiled by numba, which may draw"):
            assert [step(x)[0] for x in (1.0, 2.0, 3.0, 4.0)] == [2.0, 4.0, 6.0, 8.0]
        assert step.stats.hits == 0
    assert capsys.readouterr().out == 4 * "2.0\n"


def test_numba_compiles_while_a_trace_runs() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def made(n: float) -> float:
        y = np.zeros(3)
        y[0] = n + math.sin(n)
        return float(np.sum(y))
    assert tg.grad(lambda x: x * made(2.0), 3.0)[1][1] == 2.0 + math.sin(2.0)


class DUFunc(CPUDispatcher):
    """What numba makes a ufunc of."""

    def __init__(self, fn: Any) -> None:
        super().__init__(fn)
        self._dispatcher, self.nout = CPUDispatcher(fn), 1


DUFunc.__module__ = "numba.np.ufunc.dufunc"


@DUFunc
def capped(x: Any, y: Any) -> Any:
    return y if x > 1.0 else x * helper(y)


def test_ufuncs_that_numba_compiles_are_traced_number_by_number() -> None:
    def f(x: Any, y: Any) -> Any:
        return capped(x, y).sum() + capped(x[0], 2.0) * capped(0.5, 3.0)
    x = np.array([0.5, 2.0, 0.7])
    assert np.allclose(tg.gradient(f, x, 3.0)[0], [9.0 + 4.0 * 4.5, 0.0, 9.0])
    assert np.isclose(tg.gradient(f, x, 3.0)[1], 6 * (0.5 + 0.7) + 1)


class Cell:
    """An array in an object, which forwards what it does not know."""

    def __init__(self, array: Any) -> None:
        self.array = np.array(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.array, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name not in ("dtype", "shape"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


class Quaternion(np.ndarray):
    """An array that is made of another's memory, with attributes."""

    def __new__(cls, q: Any, order: str = "H") -> Any:
        q = np.array(q, dtype=float)
        obj = super().__new__(cls, q.shape, float, q / np.linalg.norm(q))
        obj.q, obj.order = q, order
        return obj

    def __array_finalize__(self, obj: Any) -> None:
        if obj is not None:
            self.q, self.order = getattr(obj, "q", None), getattr(obj, "order", "S")


class Doubled(np.ndarray):
    """The same, by super() without arguments, and of the program's numbers twice."""

    def __new__(cls, x: Any) -> Any:
        return super().__new__(cls, (2, len(x)), float, np.concatenate([x, x]))


def test_arrays_of_a_class_that_are_made_of_memory() -> None:
    def f(x: Any) -> Any:
        q = Quaternion(x, "H")
        return (q * q.q)[1] * (2.0 if q.order == "H" else 3.0) + (Doubled(x) ** 2)[1, 2] + Doubled(np.ones(3)).sum()
    x = np.array([0.5, -1.0, 2.0, 0.3])
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for k in (1.0, 1.5, 2.0, 2.5):
        found = [(f(k * x + e) - f(k * x - e)) / 2e-6 for e in 1e-6 * np.eye(4)]
        assert np.allclose(tg.gradient(f, k * x)[0], found, rtol=1e-6)
        assert np.allclose(step(k * x)[1], found, rtol=1e-6)
    with pytest.raises(tg.ConcretizationError, match="with the same dtype"):
        tg.grad(lambda x: Doubled(x[:1]) + Doubled(x.astype(np.float32)), x)


def test_objects_that_show_themselves_as_arrays() -> None:
    def f(x: Any) -> Any:
        cell = Cell(x)
        out = np.zeros((2, 2))
        out[:] = cell
        return np.sum(np.linalg.inv(cell)) + np.asarray(cell)[0, 1] ** 2 + np.array(cell).sum() + out[1, 1] ** 3
    x = np.array([[2.0, 0.3], [0.1, 1.5]])
    found = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(4).reshape(4, 2, 2)]
    assert np.allclose(tg.gradient(f, x)[0].ravel(), found, atol=1e-6)


class Forwarding:
    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)


class Holder:
    def __init__(self) -> None:
        self.scale = 3.0


def test_attributes_of_another_are_not_an_objects_own() -> None:
    there = Forwarding(Holder())
    assert tg.gradient(lambda x: x * there.scale, 2.0) == (3.0,)


class Unit:
    """Keeps its own hash."""

    def __init__(self, powers: dict[str, int]) -> None:
        self.powers = powers
        self.known = hash(frozenset(powers.items()))

    def __hash__(self) -> int:
        return self.known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and self.powers == other.powers


def test_a_hash_that_an_object_keeps_is_no_input() -> None:
    metre, table = Unit({"m": 1}), {Unit({"m": 1}): 100.0}

    def f(x: Any) -> Any:
        return x * table[metre] * metre.powers["m"]
    assert tg.gradient(f, 2.0) == (100.0,)
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    assert [step(x) for x in (2.0, 3.0, 4.0)] == [(200.0, 100.0), (300.0, 100.0), (400.0, 100.0)]


def test_the_type_of_a_result_is_the_same_at_the_next_call(package: ModuleType) -> None:
    def f(x: Any) -> Any:
        return package.exact(np.sin(x)) + package.exact(x)
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (0.7, 0.8, 0.9):
        assert step(x)[0] == f(x)
    assert step.stats.traces == 1


def test_what_a_package_leads_to_is_looked_for_once(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(replaceable_names, "_reached", lambda root, *ways, reached=replaceable_names._reached: looked.append(root) or reached(root, *ways))

    def f(x: Any) -> Any:
        return package.decorated(x) * package.imports(x)
    for x in (0.7, 0.8, 0.9):
        looked.clear()
        assert tg.gradient(f, x)[0] == pytest.approx(2 * x * np.cos(x) - x * x * np.sin(x))
    assert not looked
    step = tg.value_and_grad(lambda x: package.imports(x), argnums=0, warmup=1)
    assert [step(x) for x in (0.5, 0.6)] == [(math.cos(x), -math.sin(x)) for x in (0.5, 0.6)] and step.stats.traces == 1


def test_another_name_of_a_class_may_lead_elsewhere(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tg.ConcretizationError):
        tg.gradient(package.of_name, 2.0)
    monkeypatch.setattr(package, "KIND", lambda x: 3.0 * x)
    assert tg.gradient(package.of_name, 2.0) == (12.0,)


def test_whether_a_float_is_whole() -> None:
    def f(x: float) -> float:
        return x if x.is_integer() else 2 * x
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (2.0, 2.5, 3.0, 1e300, 0.1, float("inf")):
        assert step(x) == (f(x), 1.0 if x in (2.0, 3.0, 1e300) else 2.0)


class Large(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, float) and x > 1.6


class IsLarge(metaclass=Large):
    pass


class OfFloats(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return type(x) is float and issubclass(type(x), float) and x > 1.6


class IsFloat(metaclass=OfFloats):
    pass


@pytest.mark.parametrize("kind", [IsLarge, (str, IsLarge), str | IsLarge, IsFloat], ids=["class", "tuple", "union", "type"])
def test_a_class_that_asks_for_the_number_is_guarded(kind: Any) -> None:
    def f(x: Any) -> Any:
        return x * x if isinstance(x, kind) else x**3
    step = tg.compile(f, warmup=1)
    assert [step(x) for x in (1.5, 1.52, 1.7, 1.5, 1.7)] == pytest.approx([f(x) for x in (1.5, 1.52, 1.7, 1.5, 1.7)])
    with pytest.raises(tg.GuardError, match="__instancecheck__"):
        tg.trace(f, 1.5)[1].play(1.7)


class Shown:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Computing:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **kwargs: Any) -> Any:
        return Computing(getattr(ufunc, method)(*[x.array if isinstance(x, Computing) else x for x in given], **kwargs))


class First(Shown):
    __array_ufunc__: Any = None

    def __radd__(self, other: Any) -> Any:
        return other * 10.0


class Said:
    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **kwargs: Any) -> Any:
        return ufunc.__name__, method


@pytest.mark.parametrize("f", [lambda x: divmod(x, Said()), lambda x: np.divmod(Said(), x), lambda x: np.add.outer(x, Said()),
                               lambda x: np.add.at(x, [0], Said()), lambda x: np.logaddexp.outer(Said(), x)])
def test_an_object_is_told_which_ufunc_and_which_method(f: Any) -> None:
    assert tg.trace(f, np.ones(2))[0] == f(np.ones(2))


@pytest.mark.parametrize("f", [
    lambda x: x + First(x), lambda x: x * Shown(x), lambda x: Shown(2 * x) - x, lambda x: np.add(x, Shown(x)), lambda x: np.maximum(Shown(2 * x), x),
    lambda x: (Computing(x) + x).array, lambda x: (x / Computing(x * x)).array, lambda x: (Computing(x) @ x).array,
    lambda x: np.hypot(x, Computing(x)).array, lambda x: np.add.outer(x, Computing(x * x)).array,
])
def test_operators_ask_objects_of_the_program_as_numpy_does(f: Any) -> None:
    x = np.array([1.0, 2.0, 3.0])
    value, (_, dx) = tg.grad(lambda x: f(x).sum(), x)
    assert value == pytest.approx(f(x).sum())
    np.testing.assert_allclose(dx, [(f(x + e).sum() - f(x - e).sum()) / 2e-6 for e in 1e-6 * np.eye(3)], rtol=1e-6)


class Scaled(float):
    def __mul__(self, other: Any) -> Any:
        found = float.__mul__(self, other)
        return found if found is NotImplemented else found * 3.0

    def __radd__(self, other: Any) -> Any:
        found = super().__radd__(other)  # type: ignore[misc]
        return "none" if found is NotImplemented else found + 1.0

    def __sub__(self, other: Any) -> Any:
        found = super().__sub__(other)
        return 0.0 if found is NotImplemented else found * 2.0

    def __lt__(self, other: Any) -> bool:
        return not super().__lt__(other)


SCALED = Scaled(2.0)


@pytest.mark.parametrize("x", [1.5, np.float64(1.5), 2.0, 3])
@pytest.mark.parametrize("f", [
    lambda x: x if any(map((2.0).__eq__, [x])) else -x, lambda x: x * 10 if (2.0).__lt__(x) else x, lambda x: x * len([i for i, t in enumerate([x, 3.0]) if (2.0).__ge__(t)]),
    lambda x: sum(map((2.0).__mul__, [x, x])), lambda x: functools.reduce(float.__mul__, [1.0, 2.0, float.__float__(1.0), x]), lambda x: sorted([x, 0.5], key=(2.0).__sub__)[0] * x,
    lambda x: float.__pow__(2.0, x), lambda x: float.__rtruediv__(2.0, x), lambda x: abs(complex.__mul__(2j, x)), lambda x: (7.0).__divmod__(x)[1], lambda x: (7.0).__rsub__(x) * x,
    lambda x: float.__add__(2.0, x) if float.__ne__(2.0, x) is True else x, lambda x: x if int.__mul__(2, x) is NotImplemented else int.__mul__(2, x), lambda x: SCALED * x, lambda x: x + SCALED,
    lambda x: SCALED - x, lambda x: x if operator.lt(SCALED, x) else -x, lambda x: operator.sub(SCALED, x) * (2.0).__add__(1.0)])
def test_operators_of_plain_numbers_that_are_called_by_name(f: Any, x: Any) -> None:
    step, want = tg.compile(f, warmup=1), f(x)
    for got in (tg.trace(f, x)[0], step(x), step(x), tg.trace(f, x)[1].play(x)):
        assert got == want and type(got) is type(want)
    if x == 1.5:
        assert tg.gradient(f, float(x))[0] == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6)


class Numbered:
    """Keeps the integers that Python asks it for."""

    def __init__(self, number: int) -> None:
        self.number, self.mark = number, hash(number)

    def __hash__(self) -> int:
        return self.mark

    def __eq__(self, other: Any) -> bool:
        return self.number == other.number  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self.number

    def __int__(self) -> int:
        if self.number > 3:
            return self.number + 1
        return self.number


def test_integers_that_captured_objects_keep() -> None:
    a, b = Numbered(2), Numbered(5)
    programs = [lambda x: x * len({a, b, a}), lambda x: x * {a: 3.0}[a], lambda x: x * [1.0, 2.0, 7.0][a], lambda x: x * int(b), lambda x: x * sum(range(b)), lambda x: x * len(frozenset([b]))]
    for f in programs:
        step = tg.value_and_grad(f, warmup=1)
        for x in (2.0, 3.0, 4.0):
            assert step(x) == (f(x), f(1.0)) and tg.gradient(f, x)[-1] == f(1.0)
    a.number, a.mark = 1, 99
    assert tg.value_and_grad(programs[2])(2.0) == (4.0, 2.0)


class Labelled(np.ndarray):
    """An array that is made of its memory, and answers for every name of its own."""

    def __new__(cls, x: Any, label: str) -> Any:
        obj = np.ndarray.__new__(cls, (len(x),), buffer=np.array(x), dtype=float)
        object.__setattr__(obj, "_own", {"label": label})
        return obj

    def __array_finalize__(self, obj: Any) -> None:
        if obj is not None:
            object.__setattr__(self, "_own", obj._own.copy())

    def __getattr__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._own[name] = value


KEPT_ARRAYS: list[Any] = []


def labelled(x: Any) -> Any:
    made = Labelled([x, 2.0 * x], "speed")
    made.factor = x * 3.0
    KEPT_ARRAYS.append(made)
    assert made.label == "speed"
    return (np.asarray(made * made.factor) ** 2).sum()


def test_arrays_made_of_their_memory_by_name() -> None:
    assert tg.gradient(labelled, 1.5)[-1] == pytest.approx((labelled(1.5 + 1e-6) - labelled(1.5 - 1e-6)) / 2e-6)
    found = KEPT_ARRAYS[0]
    assert type(found) is Labelled and found.tolist() == [1.5, 3.0] and found.label == "speed" and found.factor == 4.5
