"""Code in which `is` is a call: it runs, raises and counts its lines as before."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tapegrad.trace import bytecode
from tapegrad.trace.identity import compared


def branches(x: Any, y: Any) -> Any:
    return "one" if x is y else "two" if x is not None and y is not x else "none"


def loops(x: Any, y: Any) -> Any:
    found = []
    for part in (x, y) * 3:
        while part is x and len(found) < 4:
            found.append(part)
        if part is not y:
            continue
        found.append([z for z in found if z is x])
    return found


def handlers(x: Any, y: Any) -> Any:
    found = []
    for part in (x, y):
        try:
            found.append(part is x and 1 / part)
        except (TypeError, ZeroDivisionError) as err:
            found.append((type(err), part is y))
        else:
            found.append("well")
        finally:
            found.append(x is y)
    return found


def generated(x: Any, y: Any) -> Any:
    def parts() -> Iterator[Any]:
        sent = yield x is y
        while sent is not None:
            sent = yield sent[0] is x
    running = parts()
    return [next(running), running.send((x,)), running.send((y,)), list(running)]


def matched(x: Any, y: Any) -> Any:
    match (x, y):
        case (None, _):
            return "none"
        case (a, b) if a is b:
            return "one"
    return "two"


def far() -> Callable[..., Any]:
    """Return a function whose jumps and constants need longer arguments."""
    lines = [f"    if x is y or y is x:\n        total += {n}.25" for n in range(600)]
    scope: dict[str, Any] = {}
    exec("def far(x, y):\n    total = 0\n" + "\n".join(lines) + "\n    return total", scope)
    return scope["far"]  # type: ignore[no-any-return]


FUNCTIONS = [branches, loops, handlers, generated, matched, far()]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_it_runs_as_before(fn: Any) -> None:
    made = types.FunctionType(_compared_within(fn.__code__), fn.__globals__)
    some = object()
    for pair in [(some, some), (some, None), (None, some), (2, 2), (0, "a"), ("a", 0), (None, None)]:
        assert made(*pair) == fn(*pair)


def test_what_it_raises_is_at_the_same_line() -> None:
    def fails(x: Any, y: Any) -> Any:
        if x is not y:
            return [x is y,
                    1 / (x is y)]
        return None
    frames = []
    for code in (fails.__code__, _compared_within(fails.__code__)):
        with pytest.raises(ZeroDivisionError) as caught:
            types.FunctionType(code, {})(1, 2)
        frames.append(traceback.extract_tb(caught.tb)[-1])
    assert frames[0] == frames[1] and frames[0].lineno == frames[1].lineno


def _compared_within(code: types.CodeType) -> types.CodeType:
    parts = [_compared_within(part) if isinstance(part, types.CodeType) else part for part in code.co_consts]
    made = compared(code.replace(co_consts=tuple(parts)))
    return made


def parts_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from parts_of(part)


@pytest.mark.parametrize("module", [inspect, traceback, types, dis], ids=lambda module: module.__name__)
def test_instructions_are_those_of_dis(module: types.ModuleType) -> None:
    for code in parts_of(compile(inspect.getsource(module), "text", "exec")):
        steps = [(step.opcode, step.offset) for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
        assert [(step.opcode, step.end - 2 * step.caches - 2) for step in bytecode.steps_of(code)] == steps


@pytest.mark.parametrize("module", [dis, functools, inspect, typing, bytecode])
def test_names_are_read_as_dis_reads_them(module: Any) -> None:
    many = "\n".join(f"    global y{k}; y{k} = x{k}.z{k}(x{k})" for k in range(300))  # whose arguments are extended
    space: dict[str, Any] = {}
    exec(f"def f():\n{many}", space)
    kinds = frozenset(["LOAD_GLOBAL", "STORE_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "IMPORT_NAME"])
    for fn in [space["f"], *(x for x in vars(module).values() if isinstance(x, types.FunctionType))]:
        expected = [(step.opname, step.argval) for step in dis.get_instructions(fn.__code__) if step.opname in kinds]
        assert list(bytecode.named(fn.__code__, kinds)) == expected


def test_uses_of_a_global_name_are_told_from_others() -> None:
    def called(x: Any) -> Any:
        return float(x), map(float, x), [float, x]

    def attribute(x: Any) -> Any:
        x.float = float
        return x.float()
    if bytecode.FLAGS.get(dis.opmap["LOAD_GLOBAL"]):
        assert [is_called for _, is_called in bytecode.uses_of_global(called.__code__, "float") or ()] == [True, True, False]
    def of_module(x: Any) -> Any:
        return inspect.float(x)  # type: ignore[attr-defined]
    if bytecode.FLAGS.get(dis.opmap["LOAD_GLOBAL"]):
        assert [is_called for _, is_called in bytecode.uses_of_global(attribute.__code__, "float") or ()] == [False, False, False]
    assert bytecode.uses_of_global(of_module.__code__, "float") is None
    assert bytecode.is_attribute_of((lambda: sys.modules["a"]).__code__, "modules", "sys")
    assert not bytecode.is_attribute_of((lambda x: x.modules["a"]).__code__, "modules", "sys")


@pytest.mark.parametrize(("text", "called"), [
    ("type(x)", True), ("type()", True), ("type(*x)", True), ("type(*x, **x)", True), ("type(x, k=x)", True), ("type(f(x)[0], -x)", True),
    ("type.mro(*x)", False), ("type.mro(x)", False), ("(type is x)(x)", False), ("(x if type is x else f)(x)", False), ("type[x](x)", False), ("(type, x)[0](x)", False),
])
def test_a_call_of_a_global_name_is_told_from_calls_of_what_it_leads_to(text: str, called: bool) -> None:
    found = bytecode.uses_of_global(eval(f"lambda x, f: {text}").__code__, "type")
    if bytecode.FLAGS.get(dis.opmap["LOAD_GLOBAL"]):
        assert (found is not None and found[0][1]) is called


@pytest.mark.parametrize("module", [dis, functools, inspect, typing, bytecode])
def test_jumps_and_comparisons_are_found_as_all_instructions_tell_them(module: Any) -> None:
    for fn in (x for x in vars(module).values() if isinstance(x, types.FunctionType)):
        assert bytecode.jumps_of(fn.__code__) == [step for step in bytecode.steps_of(fn.__code__) if step.target is not None]


@pytest.mark.parametrize(("text", "changes"), [
    ("x is None", False), ("x is not None", False), ("x is y", True), ("x is 1", True), ("x is (None if y else x)", True), ("(x or None) is None", False),
    ("x is None or y is x", True), ("x is (y or None)", True), ("x is True", False),
])
@pytest.mark.filterwarnings("ignore:.is. with:SyntaxWarning")
def test_comparisons_with_constants_stay(text: str, changes: bool) -> None:
    code = eval(f"lambda x, y: [{text}]").__code__
    assert (compared(code) is not code) is changes
