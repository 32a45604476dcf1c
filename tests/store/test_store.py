"""Saved tapes: what is loaded is what was saved, in any process; a damaged or hostile file raises TapeFormatError and nothing else."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import os
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.errors import Listing, Quoted
from tapegrad.store.format import DRAWS, foreign
from tapegrad.store.read import from_bytes
from tapegrad.store.write import to_bytes
from tapegrad.tape.spec import Absent
from tapegrad.testing import contract
from tapegrad.tree.flatten import leaves_of
from tests.cases import CASES
from tests.golden.programs import f, wave
from tests.harness.compare import same
from tests.harness.run import peak
from tests.harness.sample import kept as fresh
from tests.test_programs import PROGRAMS


def again(tape: tg.Tape, given: Any = (), values: bool = True) -> tg.Tape:
    """Return what is loaded of a saved tape."""
    return from_bytes(b"".join(to_bytes(tape, values)), given)


def stages(fn: Any, args: Any) -> list[tg.Tape]:
    """Return the tapes of a program's value and of the gradient of a number that it gives, the latter also flat."""
    def scalar(*xs: Any) -> Any:
        return contract(fn(*xs))
    primal = tg.trace(scalar, *fresh(args))[1]
    written = tg.gradtape(primal)
    return [tg.trace(fn, *fresh(args))[1], primal, written, tg.primitivize(written)]


CHILD = """
import pickle, sys, warnings
import tapegrad as tg
assert not {"scipy", "torch", "rich"} & set(sys.modules)
tasks = pickle.load(open(sys.argv[1], "rb"))
results = []
for path, args, primal in tasks:
    tape = tg.load(path)
    results.append((str(tape), tape.play(*args, redraw=False), tg.gradtape(tape).result.val if primal else None))
pickle.dump(results, open(sys.argv[1], "wb"))
"""


def test_in_a_new_process(tmp_path: Path) -> None:
    import pickle
    rows = [(case.fn, case.samples[0]) for case in CASES[::21] if case.samples] + [(p.fn, p.args) for p in PROGRAMS.values()]
    tasks, expected = [], []
    for number, (fn, args) in enumerate(rows):
        for stage, tape in enumerate(stages(fn, args)):
            path = tmp_path / f"{number}-{stage}.tape"
            tape.save(path, values=bool(number % 2))
            tasks.append((str(path), fresh(args), stage == 1))
            expected.append((str(tape), tape.play(*fresh(args), redraw=False), tg.gradtape(tape).result.val if stage == 1 else None))
    with open(tmp_path / "tasks", "wb") as file:
        pickle.dump(tasks, file)
    subprocess.run([sys.executable, "-W", "ignore", "-c", CHILD, str(tmp_path / "tasks")], check=True)
    with open(tmp_path / "tasks", "rb") as file:
        found = pickle.load(file)
    for (text, value, gradient), (text0, value0, gradient0) in zip(found, expected, strict=True):
        assert text == text0
        same(value, value0, 0.0, narrow=0.0)
        if gradient0 is not None:
            same(gradient, gradient0, 1e-12)


# -- structured arguments

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Model:
    w: Any
    name: str = "model"

    def loss(self, x: Any) -> Any:
        return (self.w * x).sum()

    def __call__(self, x: Any) -> Any:
        return self.loss(x)


class Bag(dict):  # type: ignore[type-arg]
    """A user's kind of dict."""


class Colour(enum.Enum):
    RED = 1


def double(x: Any) -> Any:
    return 2.0 * x


def total(tree: Any) -> Any:
    return sum(np.real(np.sum(leaf * leaf)) for leaf in leaves_of(tree) if not isinstance(leaf, (bool, np.bool_)))


W = np.array([1.0, -2.0, 0.5])
NESTED = [
    ((1.0, [2.0, (W, "text")], {"b": 3.0, "a": [W * 2], "k": None}),), ({2: 1.0, "mixed": W},), (Point(1.0, W),), (OrderedDict(b=1.0, a=2.0),),
    (defaultdict(list, {"z": 1.0, "a": W}),), (deque([1.0, 2.0], 5),), (Model(W),), ({"m": Model([1.0, W]), "s": {1, 2}},), (Bag(a=1.0),),
    (1.5, [np.float32(2.0), np.int64(3), 4, True, 1 + 2j]), ((), [], {}, 2.0), (Fraction(1, 3),), (np.asfortranarray(np.ones((2, 3))), W[::-1]),
    ([1.0, np.sin, double, np.float64, slice(1, None, 2), ..., Colour.RED, np.dtype("f4"), b"raw", range(3), bytearray(b"x"), frozenset([1])],),
]


@pytest.mark.parametrize("args", NESTED)
def test_structured_arguments(args: Any) -> None:
    def program(*xs: Any) -> Any:
        return total([x for x in xs if not isinstance(x, Fraction)]), xs
    handed = [Point, Model, Bag, double, Colour]
    tape = tg.trace(program, *args)[1]
    loaded = again(tape, handed)
    assert str(loaded) == str(tape) and loaded.structure.args == tape.structure.args
    found, expected = loaded.play(*args), tape.play(*args)
    same(found, expected)
    assert repr(found) == repr(expected)
    written = tg.gradtape(lambda *xs: program(*xs)[0], *args)
    assert repr(again(written, handed).play(*args)) == repr(written.play(*args))
    with pytest.raises(tg.ArgumentError, match="was recorded with"):
        loaded.play(*args, 1.0)


@pytest.mark.quick
def test_keyword_arguments_and_a_shared_part() -> None:
    tape = tg.trace(lambda x, *, gain, pair: x * gain * pair[0][0] * pair[1][0], 2.0, gain=3.0, pair=(shared := [1.5], shared))[1]
    loaded = again(tape)
    other = [2.0]
    assert loaded.play(2.0, pair=(other, other), gain=4.0) == 32.0
    with pytest.raises(tg.ArgumentError):
        loaded.play(2.0, pair=([2.0], [2.0]), gain=4.0)


def test_an_object_that_refers_to_itself() -> None:
    model = Model(2.0)
    model.name = model  # type: ignore[assignment]
    tape = tg.trace(lambda m: m.w * m.w, model)[1]
    assert again(tape, [Model]).play(model) == 4.0
    loaded = again(tg.gradtape(lambda m: m.name.w ** 2, model), [Model])
    gradient = loaded.play(model)[1][1]
    assert gradient.w == 4.0 and gradient.name is gradient


def test_what_a_function_captured_is_kept_or_read_anew() -> None:
    gain, offsets = 3.0, [W, {"b": 1.0}]

    def program(x: Any) -> Any:
        return gain * (x * offsets[0]).sum() + offsets[1]["b"]  # type: ignore[index, operator]
    tape = tg.gradtape(program, 2.0)
    loaded = again(tape)
    assert repr(loaded.play(4.0)) == repr(tape.play(4.0)) and loaded.play(4.0)[1][0].keys() == {"gain", "offsets"}
    handed = again(tape, {"program": program})
    gain = 5.0
    assert repr(handed.play(4.0)) == repr(tape.play(4.0)) and handed.play(4.0)[0] != loaded.play(4.0)[0]
    with pytest.raises(tg.TapeFormatError, match=r"captures 0 numbers and arrays, but 3"):
        again(tape, {"program": double})


def test_methods_and_callable_objects() -> None:
    model = Model(W)
    for fn in (model.loss, model):
        tape = tg.gradtape(fn, 2.0)
        assert str(again(tape, [Model])) == str(tape)
        assert repr(again(tape, [Model]).play(3.0)) == repr(tape.play(3.0))
        loaded = again(tape)
        value, (df, dx) = loaded.play(3.0)
        assert (value, dx) == (tape.play(3.0)[0], tape.play(3.0)[1][1])
        np.testing.assert_array_equal(df["w"], tape.play(3.0)[1][0].w)  # the class was not given: a dict
    with pytest.raises(tg.ArgumentError, match="the code of loss is not in the file"):
        again(tg.trace(model.loss, 2.0)[1])[1].val(2.0)


def test_functions_and_classes_must_be_given() -> None:
    tape = tg.trace(lambda x, fn: fn(x), 2.0, double)[1]
    with pytest.raises(tg.TapeFormatError, match=r"the tape uses tests.store.test_store:double, which was not passed\n  try: tg.load\(path, primitives=\{"):
        again(tape)
    for handed in ([double], {"double": double}, {"tests.store.test_store:double": double}, {double}):
        assert again(tape, handed).play(3.0, double) == 6.0
    with pytest.raises(tg.TapeFormatError, match="was passed for"):
        again(tg.trace(total, Model(2.0))[1], {"Model": double})


# -- primitives

cubes = 0


@tg.primitive
def cube(x: Any) -> Any:
    global cubes
    cubes += 1
    return x ** 3


@tg.rrule(cube)
def _(x: Any) -> Any:
    return cube(x), lambda dy: (3 * x * x * dy,)


def test_primitives_are_given_by_name() -> None:
    tape = tg.trace(lambda x: cube(x) + 1.0, 2.0)[1]
    with pytest.raises(tg.TapeFormatError, match=r"tests.store.test_store:cube"):
        again(tape)
    before = cubes
    loaded = again(tape, {"cube": cube})
    assert cubes == before  # nothing runs
    assert str(loaded) == str(tape) and loaded.play(3.0) == 28.0 and tg.gradtape(loaded).result.val == (9.0, (None, 12.0))
    written = again(tg.gradtape(tape), [cube])
    assert written.play(3.0) == (28.0, (None, 27.0))
    traced = tg.trace(lambda x: double(x) * 3, 2.0, ctx=tg.Context(primitives=[double]))[1]
    assert again(traced, [double]).play(5.0) == 30.0


def test_no_file_names_what_is_not_tapegrads() -> None:
    known = foreign("scipy.special.erf")
    assert "np.sin" in known and "scipy.special.erf" in known
    for name in ("np.save", "np.savetxt", "np.load", "np.loadtxt", "np.fromfile", "np.genfromtxt", "np.memmap", "os.system", "builtins.eval", "builtins.exec",
                 "numpy.ndarray.tofile", "numpy.ndarray.dump", "numpy.ndarray.dumps", "x.tofile", "builtins.open", "builtins.getattr", "importlib.import_module"):
        assert name not in known, name
    assert not any(word in name for name in known for word in ("eval", "exec", "load", "save", "file", "open", "import", "dump", "memmap", "ctypes")
                   if name not in ("np.polyval", "scipy.special.voigt_profile", "scipy.interpolate._chunk_evaluator") and not name.endswith("val") and not name.rpartition(".")[2].startswith(("eval_", "roots_")))
    assert all(not name.startswith("_") for name in DRAWS)


# -- values, lines, and what cannot be saved


def test_values_as_python_and_numpy_write_them() -> None:
    values = [float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 2**70, -2**70, 10**5000, 7, True, None, 1e300 - 1j, np.float32(0.1), np.longdouble(1) / 3, np.complex64(1j),
              np.bool_(True), np.uint8(3), np.float16(2.5), Fraction(2, 3), Decimal("1.10"), "tëxt \x1b[0m", b"\0\xff", slice(None, 3), ..., range(2, 9, 3), (1, (2.0, [3])),
              {"k": (1,)}, {1, 2}, frozenset("a"), float, np.float32, np.dtype(">i2"), np.arange(6.0).reshape(2, 3).T, np.ones((0, 4)), np.array(3.0), np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2)]
    tape = tg.Tape(label="by hand")
    for value in values:
        tape.push(tg.Constant(value))
    tape.result = 1
    loaded = again(tape)
    assert str(loaded) == str(tape)
    for op, value in zip(loaded.ops[1:], values, strict=True):
        assert type(op.val) is type(value) and (op.val == value if type(value) is int else repr(op.val) == repr(value))
        if isinstance(value, np.ndarray):
            assert (op.val.dtype, op.val.shape, op.val.flags.c_contiguous, op.val.flags.owndata or op.val.base.flags.owndata) == (value.dtype, value.shape, value.flags.c_contiguous, True)


def test_tensors_and_generators() -> None:
    tape = tg.Tape(label="by hand")
    tape.push(tg.Constant(torch.arange(3.0)))
    tape.push(tg.Input(np.random.default_rng(0), "rng"))
    tape.push(tg.Input(np.random.RandomState(0), "old"))
    tape.result = 1
    _, tensor, rng, old = again(tape)
    assert torch.equal(tensor.val, torch.arange(3.0)) and type(rng.val) is np.random.Generator and type(old.val) is np.random.RandomState


def test_lines_notes_and_results_come_along() -> None:
    tape = tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3)))
    loaded = again(tape)
    assert [op.note for op in loaded] == [op.note for op in tape] and loaded.result.id == tape.result.id and loaded.name == "wave"
    for op, other in zip(loaded, tape, strict=True):
        assert op.where == other.where and (other.where is None or (isinstance(op.where, Quoted) and op.where.source == other.where.source))
        assert other.code is None or (op.code.co_name, op.code.co_firstlineno) == (other.code.co_name, other.code.co_firstlineno)
    assert len({id(op.code) for op in loaded}) == len({id(op.code) for op in tape})  # one for each function
    line = loaded.ops[4].where
    assert line._replace(function="").source == line.source != "" and loaded.ops[4].code.quote(-1).line == loaded.ops[4].code.co_firstlineno
    assert again(loaded).format() == tape.format()  # saved once more
    assert tg.primitivize(loaded).format() == tg.primitivize(tape).format()


def test_a_guard_names_the_line_after_loading() -> None:
    def program(x: Any) -> Any:
        return x if x > 0 else -x
    loaded = again(tg.trace(program, 2.0)[1])
    with pytest.raises(tg.GuardError, match=r"test_store.py:\d+ in program:  return x if x > 0 else -x"):
        loaded.play(-2.0)

    def inverse(x: Any) -> Any:
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return x
    loaded = again(tg.trace(inverse, np.zeros((2, 2)))[1])
    same(loaded.play(np.zeros((2, 2))), np.zeros((2, 2)))
    with pytest.raises(tg.GuardError):
        loaded.play(np.eye(2))


def test_without_values_a_tape_is_small_and_computes_them_when_needed(tmp_path: Path) -> None:
    def program(x: Any) -> Any:
        y = np.zeros(1000)
        y[:] = x
        for _ in range(20):
            y = np.sin(y)
        y[0] = 2.0 * y[1]
        return (y * x).sum()
    tape = tg.trace(program, 2.0)[1]
    tape.save(tmp_path / "all.tape")
    tape.save(tmp_path / "few.tape", values=False)
    assert os.path.getsize(tmp_path / "few.tape") < 20_000 < 160_000 < os.path.getsize(tmp_path / "all.tape")
    loaded = tg.load(tmp_path / "few.tape")
    assert loaded.ops[-2].type == "float64[1000]" and isinstance(loaded.ops[-2].val, Absent)
    same(tg.gradtape(loaded).result.val, tg.gradtape(tape).result.val, 1e-14)
    loaded.push(tg.call(tg.ops.multiply, loaded.result, 2.0))
    assert loaded.ops[-1].val == 2 * tape.result.val


def test_what_is_nested_too_deep_is_refused() -> None:
    value: Any = ()
    for _ in range(5000):
        value = (value,)
    tape = tg.Tape(label="deep")
    tape.push(tg.Constant(value))
    tape.result = 1
    with pytest.raises(tg.TapeFormatError, match="%2 cannot be saved: its content is nested too deep"):
        to_bytes(tape)


class Opaque:
    def __init__(self) -> None:
        self.__class__.count = 1  # type: ignore[attr-defined]


def test_what_cannot_be_saved_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "f.tape"
    tg.trace(f, 2.0, 3.0)[1].save(path)
    before = path.read_bytes()
    thing = Opaque()
    tape = tg.trace(lambda x, t: cube(x), 2.0, thing)[1]
    with pytest.raises(tg.TapeFormatError, match="the arguments of <lambda> hold an Opaque, which the format does not support"):
        tape.save(path)
    kept = tg.Tape(label="by hand")
    kept.push(tg.Input(2.0, "x"))
    kept.push(tg.Constant(np.array(["a"], object)))
    kept.result = 2
    with pytest.raises(tg.TapeFormatError, match=r"`%3 = .*` cannot be saved: it holds an array of object"):
        kept.save(path)
    with pytest.raises(tg.MalformedTape):
        tg.Tape(label="no result").save(path)
    odd = tg.trace(lambda x, g: g(x), 2.0, lambda x: x)[1]
    assert odd.play(2.0, odd.structure.args[1].spec.value) == 2.0
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["f.tape"]
    with pytest.raises(FileNotFoundError):
        tape = tg.trace(f, 2.0, 3.0)[1]
        tape.save(tmp_path / "no" / "folder.tape")
    with pytest.raises(FileNotFoundError):
        tg.load(tmp_path / "none.tape")


def test_the_error_names_the_users_line() -> None:
    def program(x: Any) -> Any:
        return tg.ops.pack(x, into=thing)
    thing = Opaque()
    tape = tg.Tape(label="f")
    x = tape.push(tg.Input(2.0, "x"))
    bad = tape.push(tg.Call(cube, (x,), {"thing": thing}, 8.0))
    bad.code, bad.lasti = Listing("user.py", 1, "f"), 3
    tape.result = bad
    with pytest.raises(tg.TapeFormatError, match=r"`%3 = cube\(%2, thing=Opaque\)` cannot be saved: it holds an Opaque.*\n  at user.py:3 in f"):
        to_bytes(tape)


# -- damaged and hostile files

SAMPLES = [
    b"".join(to_bytes(tape)) for tape in (
        tg.trace(f, 2.0, 3.0)[1], tg.gradtape(wave, np.array([0.5, 1.0, 1.5]), {"gain": 2.0}, seed=(1.0, np.ones(3))),
        tg.primitivize(tg.gradtape(lambda x: np.sum(np.linalg.eigh(x)[0][1:] * 2), np.eye(3))),
        tg.trace(lambda x, rng: x * rng.normal(size=2) if x > 1 else x, 2.0, np.random.default_rng(0))[1])]


def parts(content: bytes) -> tuple[Any, bytes]:
    """Return the JSON and the arrays of a file."""
    head, _, body = content.partition(b"\n")
    size = int(head.split()[2])
    return json.loads(body[:size]), body[size:]


def signed(text: str | Any, arrays: bytes) -> bytes:
    """Return a file whose first line is right, whatever the rest."""
    written = (text if isinstance(text, str) else json.dumps(text)).encode() + b"\n"
    return f"tapegrad-tape 1 {len(written)} {len(arrays)} {hashlib.sha256(written + arrays).hexdigest()}\n".encode() + written + arrays


def loads_or_refuses(content: bytes) -> tg.Tape | None:
    """Load a file; whatever it holds, no other error than TapeFormatError comes of it, and what is loaded can be printed."""
    try:
        tape = from_bytes(content)
    except tg.TapeFormatError:
        return None
    assert "\x1b" not in str(tape) and tape.format("compact")
    return tape


def test_every_file_is_whole_or_refused() -> None:
    for content in SAMPLES:
        assert loads_or_refuses(content) is not None and loads_or_refuses(signed(*parts(content))) is not None
        for size in range(0, len(content), 97):
            assert loads_or_refuses(content[:size]) is None
        assert loads_or_refuses(content + b"\0") is None


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_noticed(content: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(content)
    for place, bits in changes:
        changed[place % len(changed)] ^= bits
    assert bytes(changed) == content or loads_or_refuses(bytes(changed)) is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"tapegrad-tape ", b"tapegrad-tape 1 5 5 "]))
def test_any_bytes(content: bytes, start: bytes) -> None:
    assert loads_or_refuses(start + content) is None


def places(node: Any) -> list[tuple[Any, Any]]:
    """Return every place in a JSON value: what it stands in, and its key there."""
    found, stack = [], [node]
    while stack:
        top = stack.pop()
        keys = list(top) if isinstance(top, dict) else range(len(top)) if isinstance(top, list) else ()
        for key in keys:
            found.append((top, key))
            stack.append(top[key])
    return found


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 40), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6),
                   st.sampled_from(["icfg", "multiply", "rrule", "np.save", "\x1b[31m", "<f8", "|O", "<f8,<f8", "nan", "given", "os:system", "PCG64", "method", "tofile"]))
TAGGED = st.tuples(st.sampled_from(["int", "float", "np", "array", "op", "own", "foreign", "given", "tuple", "dict", "slice", "step", "structure", "gradients", "unknown", "function",
                                    "named", "raised", "range", "dtype", "type", "enum", "run", "generator", "complex", "Fraction", "Decimal", "set", "leaf", "static", "closure", "module"]),
                   st.lists(LEAVES, max_size=3)).map(lambda pair: [pair[0], *pair[1]])
JSON = st.recursive(LEAVES | TAGGED, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=12)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["replace", "replace", "delete", "repeat", "swap"]), JSON), min_size=1, max_size=3))
def test_changed_json_is_a_tape_or_refused(content: bytes, changes: list[tuple[int, str, Any]]) -> None:
    columns, arrays = parts(content)
    for number, change, new in changes:
        where = places(columns)
        holder, key = where[number % len(where)]
        if change == "replace":
            holder[key] = new
        elif change == "delete":
            del holder[key]
        elif isinstance(holder, list):
            other = number % len(holder)
            holder.insert(key, holder[key]) if change == "repeat" else holder.__setitem__(slice(None), [holder[other], *holder[:other], *holder[other + 1:]])
        if not where:
            break
    loads_or_refuses(signed(columns, arrays))


def edited(number: int = 0, **columns: Any) -> bytes:
    found, arrays = parts(SAMPLES[number])
    return signed({**found, **columns}, arrays)


def with_value(value: Any) -> bytes:
    found, arrays = parts(SAMPLES[0])
    found["values"][1] = value
    return signed(found, arrays)


def nodes(rows: list[Any], root: int, size: int) -> bytes:
    """Return the file of a program whose first argument is nested so."""
    found, arrays = parts(SAMPLES[0])
    known = len(found["nodes"])
    shifted = [[*row[:2], [part + known for part in row[2]], *row[3:]] if len(row) > 2 else row for row in rows]
    found["nodes"] += shifted
    found["structures"][1] = [root + known, size]
    return signed(found, arrays)


DOUBLED = [["leaf", 0], *(["tuple", True, [i, i]] for i in range(60))]
COLLIDING = [["int", i * (2**61 - 1)] for i in range(50_000)]  # all of one hash
HOSTILE = {
    "a set that takes quadratic time": with_value(["set", *COLLIDING]), "such a dict": with_value(["dict", *([key, 1.0] for key in COLLIDING)]),
    "no object": signed("[]", b""), "nothing": signed("", b""), "a key twice": signed('{"name": "f", "name": "g"}', b""), "not a number": signed('{"result": NaN}', b""),
    "deep json": signed("[" * 10**5 + "]" * 10**5, b""), "deep objects": signed('{"a":' * 10**5, b""), "a deep value": with_value(json.loads("[\"list\"," * 900 + "1.0" + "]" * 900)),
    "many digits": signed('{"result": ' + "1" * 10**5 + "}", b""), "version 2": SAMPLES[0].replace(b"tapegrad-tape 1", b"tapegrad-tape 2", 1), "a pickle": b"\x80\x04\x95",
    "an unknown kind": edited(kinds="iiiqqq"), "no kinds": edited(kinds=None), "the result is a float": edited(result=2.0), "the result is true": edited(result=True),
    "the result does not exist": edited(result=99), "result 0": edited(result=0), "%1 is no input": edited(kinds="fiifff"), "no operations": edited(kinds="", at=[], notes=[], values=[], labels=[], calls=[], args=[]),
    "a later operation": edited(args=[[4, 5], [2, 4], [2, 5]]), "its own operation": edited(args=[[2, 4], [2, 4], [2, 5]]), "a negative operation": edited(args=[[-1, 2], [2, 4], [2, 5]]),
    "a call of an input": edited(calls=[-1, 0, 0]), "an unknown function": edited(calls=[7, 0, 0]), "an unknown op": edited(functions=[["op", "system"]]),
    "a function of another module": edited(functions=[["foreign", "os.system"]]), "code that was not given": edited(functions=[["given", "os:system"]]),
    "a class as a function": edited(functions=[["type", "int"]] * 3), "a module as a function": edited(functions=[["module", "os"]] * 3), "rrule of nothing": edited(functions=[["own", "rrule"]] * 3),
    "a draw by any method": edited(functions=[["op", "draw"]] * 3, kwargs=[[i, ["method", "tofile"]] for i in (4, 5, 6)]), "a huge field": edited(functions=[["op", "getfield"]] * 3, args=[[2, ["int", 10**15]]] * 3),
    "a huge array": edited(arrays=[["<f8", [10**15], [], 0]]), "an array outside": edited(arrays=[["<f8", [1], [], 10**6]]), "a negative shape": edited(arrays=[["<f8", [-1, -1], [], 0]]),
    "an array of objects": edited(arrays=[["|O", [1], [], 0]]), "an array of records": edited(arrays=[["<f8,<f8", [1], [], 0]]), "an array of 10**5 dimensions": edited(arrays=[["<f8", [1] * 10**5, [], 0]]),
    "a file in the terminal": edited(name="\x1b]0;owned\x07"), "escape in a note": edited(notes=["", "", "", "\x1b[2J", "", ""]), "a huge length": with_value(["unknown", "Cotangents", 10**18]),
    "a huge range": with_value(["range", ["int", 0], ["int", 10**30], ["int", 0]]), "a fraction by zero": with_value(["Fraction", ["int", 1], ["int", 0]]), "another module": with_value(["module", "os"]),
    "exponential nesting": nodes(DOUBLED, 60, 1), "very deep nesting": nodes([["leaf", 0], *(["tuple", True, [i]] for i in range(10**4))], 10**4, 1),
    "a tuple in itself": nodes([["leaf", 0], ["tuple", True, [0, 1]]], 1, 1), "leaves that are not there": nodes([["leaf", 7]], 0, 1), "two leaves in one place": nodes([["leaf", 0], ["leaf", 0], ["tuple", True, [0, 1]]], 2, 2),
    "a part that is not there": nodes([["tuple", True, [400]]], 0, 0), "an unknown part": nodes([["exec", True, []]], 0, 0), "a dict with one key twice": nodes([["leaf", 0], ["leaf", 1], ["dict", True, [0, 1], ["a", "a"], None]], 2, 2),
    "an unhashable key": nodes([["leaf", 0], ["dict", True, [0], [["list"]], None]], 1, 1), "a leaf of true": nodes([["leaf", True], ["leaf", 0], ["tuple", True, [0, 1]]], 2, 2),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_refused(content: bytes) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # as Python begins: libraries of other tests raise it
    found: list[Any] = []
    try:
        assert peak(lambda: found.append(loads_or_refuses(content)))[0] < 100e6 and found == [None]
    finally:
        sys.setrecursionlimit(limit)


def test_the_error_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.tape"
    path.write_bytes(HOSTILE["version 2"])
    with pytest.raises(tg.TapeFormatError, match=r"x.tape: a tape of format 2, but this version of tapegrad reads format 1\n  try: "):
        tg.load(path)
    path.write_bytes(SAMPLES[0][:-1])
    with pytest.raises(tg.TapeFormatError, match="the file is damaged: it holds"):
        tg.load(path)
    path.write_bytes(b"import os\n")
    with pytest.raises(tg.TapeFormatError, match="not a saved tape: it does not begin with tapegrad-tape"):
        tg.load(path)


def test_the_work_grows_with_the_tape() -> None:
    """Calls made by saving and loading, counted: as many for each operation of a long tape as of a short one."""
    def loop(x: Any, n: int) -> Any:
        for _ in range(n):
            x = np.sin(x) * 0.5
        return x

    def calls(n: int) -> int:
        tape = tg.trace(lambda x: loop(x, n), 1.0)[1]
        again(tape)
        counted = 0

        def count(frame: Any, event: str, arg: Any) -> None:
            nonlocal counted
            counted += 1
        sys.setprofile(count)
        try:
            again(tape)
        finally:
            sys.setprofile(None)
        return counted
    assert calls(1000) < 10.5 * calls(100)
