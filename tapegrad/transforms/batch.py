"""batch: replays a tape of one member for a whole batch of its inputs.

A batched value holds the members along axis 0. An op without a batching rule is called once per member and the results
are stacked; on a tape that is one loop, see `ops.each`. A guard is checked for each member: members that disagree with
the tape leave the batch, and so do members whose value has another shape or dtype. `left` lists the members that left,
`rows` those that remain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, TapeError, UnknownFunction
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.dtypes import letter
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import all as all_true
from tapegrad.ops import astype, broadcast_to, default_rng, draw, getfield, getitem, hook, isfinite, pack, stack, take
from tapegrad.ops.each import of_each
from tapegrad.replay.facts import fact_of, is_as_recorded
from tapegrad.replay.interpreter import Interpretation
from tapegrad.replay.raising import raising
from tapegrad.rules.batching import Members, elementwise, rule_of
from tapegrad.rules.op import Op, Traced, tracer_of
from tapegrad.tape.liveness import leading
from tapegrad.tape.origin import Origin
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Guard, Operation, Tape, value_of
from tapegrad.trace.guards import FIXED
from tapegrad.trace.recorder import Tracer
from tapegrad.transforms.walk import typed_by_value
from tapegrad.tree.flatten import is_leaf, leaves_of

BATCHED, SINGLY = Origin("batched over axis 0"), Origin("one call per member, stacked over axis 0")
LOOPED = Origin("loop over the members, stacked over axis 0")
_STEADY = frozenset(
    [*FIXED, "layout", "strides", "writeable", "apart", "recorded", "decimal precision", "mpmath precision",
     "interval precision", "nestlevel"]
)
_KINDS = "buifc"
_NARROW = (np.dtype(np.float16), np.dtype(np.float32))
class Nest:
    """The batched value of a `pack` call; `flags` marks the parts that are batched."""

    __slots__ = ("flags", "into", "ones", "parts")

    def __init__(self, parts: list[Any], flags: list[bool], into: Any, ones: Sequence[Any]) -> None:
        self.parts, self.flags, self.into, self.ones = parts, flags, into, ones

    def member(self, i: int) -> Any:
        """Return the nest of one member."""
        return self.into.build(
            [as_recorded(member(part, i), one) if flag else part
             for part, flag, one in zip(self.parts, self.flags, self.ones)]
        )


class States:
    """The states of torch's generator from which the members draw: each starts where the previous one stopped."""

    __slots__ = ("known", "source", "tracer")

    def __init__(self, source: Any, tracer: Tracer | None, known: dict[int, Any]) -> None:
        self.source, self.tracer, self.known = source, tracer, known

    def member(self, i: int) -> Any:
        """Return the state from which member `i` draws; a repeated draw of that member starts there too."""
        if i not in self.known:
            how = {"method": "state"}
            self.known[i] = (
                draw.run(self.source, **how) if self.tracer is None else self.tracer.record(draw, (self.source,), how)
            )
        return self.known[i]


def member(x: Any, i: int) -> Any:
    """Return member `i` of a batched value."""
    if isinstance(x, (Nest, States)):
        return x.member(i)
    if isinstance(x, (tuple, list)):
        return tuple([member(part, i) for part in x])
    if isinstance(x, dict):
        return {key: member(part, i) for key, part in x.items()}
    return getitem(x, i) if isinstance(x, Traced) else x[i]


def as_recorded(x: Any, one: Any) -> Any:
    """Return a member's number as a Python number where the program had one."""
    return x.item() if type(one) in PYTHON and isinstance(x, (np.generic, np.ndarray)) else x


def chosen(x: Any, rows: Any) -> Any:
    """Return the members of a batched value at `rows`."""
    if isinstance(x, Nest):
        return Nest([chosen(part, rows) if flag else part for part, flag in zip(x.parts, x.flags)], x.flags, x.into,
                    x.ones)
    if isinstance(x, States):
        return States(x.source, x.tracer, {k: x.known[row] for k, row in enumerate(rows.tolist()) if row in x.known})
    if isinstance(x, (tuple, list)):
        return tuple([chosen(part, rows) for part in x])
    if isinstance(x, dict):
        return {key: chosen(part, rows) for key, part in x.items()}
    return take(x, rows, axis=0)


def spread(x: Any, size: int) -> Any:
    """Return a value that all members share, broadcast to one copy per member."""
    return broadcast_to(x, (size, *getattr(plain(x), "shape", ())))


@contextlib.contextmanager
def noted(tracer: Tracer | None, text: str) -> Iterator[None]:
    """Give the calls that the surrounding trace records in this block the note `text` and no line of the program."""
    ops = [] if tracer is None else tracer.tape.ops
    mark = len(ops)
    yield
    for made in ops[mark:]:
        made.code, made.origin = None, Origin(text) if type(made) is Call else None


class Pass(Interpretation):
    """Replays a tape that was recorded for one member on the values of all members.

    `tracer` belongs to the surrounding trace, if there is one: calls recorded there get the lines of this tape and
    origins.
    """

    def __init__(self, tape: Tape, leaves: Sequence[Any], batched: Sequence[bool], size: int,
                 tracer: Tracer | None = None) -> None:
        super().__init__(tape, [tape.ops[0].val, *leaves])
        self.size, self.tracer, self.rows = size, tracer, np.arange(size)
        self.left: list[np.ndarray[Any, Any]] = []
        self.dying: Sequence[int] = ()  # positions of the values that no later operation uses
        self.flags = [False] * len(self.values)
        for x, flag in zip(tape.inputs[1:], batched):
            self.flags[x.id] = flag
        self.origin: Origin | None = None  # the origin of the calls recorded for the present operation

    def batched(self) -> tuple[Any, bool]:
        """Return the value of the tape's result for the members in `rows`, and whether it is batched."""
        around = [] if self.tracer is None else self.tracer.tape.ops
        mark = len(around)
        for op in self:
            for made in around[mark:]:
                made.code, made.lasti = (op.code, op.lasti) if op.code else (made.code, made.lasti)
                made.origin = made.origin or (self.origin if type(made) is Call else None)
            mark, self.origin = len(around), None
        result = self.tape.result
        return self.values[result.id], self.flags[result.id]

    def run(self, op: Call, fn: Any, given: list[Any], dead: list[int]) -> Any:
        """Return the value of a call for all members, and set the origin of the calls recorded for it."""
        flags = [isinstance(arg, Operation) and self.flags[arg.id] for arg in op.args]
        self.dying, self.flags[op.id] = dead, any(flags)
        if fn is pack:
            return Nest(given, flags, op.kwargs["into"], list(map(value_of, op.args)))
        if fn is draw or fn is default_rng:
            found = self._drawn(op, given, flags)
            self.origin = Origin("one draw per member") if self.flags[op.id] else None
            return found
        if not any(flags):
            return _run(op, [arg.into.build(arg.parts) if isinstance(arg, Nest) else arg for arg in given])
        found, self.origin = self._of_call(op, given, flags)
        return found

    def verify(self, guard: Guard, value: Any) -> None:
        """Drop the members for which a fact differs from the tape's."""
        self.origin = Origin("members that go on")
        if not self.flags[guard.args[0].id]:
            told(value, guard.fact, guard.expected)
        elif guard.fact not in _STEADY and self.size:
            self._guard(guard, value)

    # -- calls

    def _of_call(self, op: Call, args: list[Any], flags: list[bool]) -> tuple[Any, Origin]:
        if op.fn is getfield:
            whole = args[0]
            if isinstance(whole, Nest):
                whole = whole.into.build(
                    [x if flag else spread(x, self.size) for x, flag in zip(whole.parts, whole.flags)]
                )
            return whole[args[1]], BATCHED
        y, rule = op.val, rule_of(op.fn)
        if type(y) is float and getattr(op.fn, "scalar", None) is not None:  # math's functions compute in doubles
            args = [x if dtype_of(x) not in _NARROW else astype(x, dtype=np.dtype(float)) for x in args]
        traced = any(isinstance(arg, Traced) for arg in args)
        exact = (
            type(y) in (int, float, complex) and not traced
        )  # Python numbers raise where arrays give nan, and integers have no largest
        if (
            rule is not None
            and not any(isinstance(arg, Nest) for arg in args)
            and type(y) is not int
            and not (exact and op.fn.__name__ == "pow" and type(y) is not float)
        ):
            found = self._by_rule(op, rule, _yielding(op, args, flags) if rule is elementwise else args, flags)
            found = found if found is NotImplemented else self._fitted(found, y)
            if found is not NotImplemented and not (exact or (traced and raising(op, op.fn) is not None)):
                return found, BATCHED
            if found is not NotImplemented and bool(np.isfinite(_array(found)).all()):
                if traced:  # a replay in which a member raises must trace again
                    told(all_true(isfinite(found)), "bool", True)
                return found, BATCHED
        if traced and raising(op, op.fn) is not None:
            for x in args:
                if isinstance(x, Traced):
                    told(x, "content", content(x))
        found = self._loop(op, args, flags) if traced else NotImplemented
        return (self._each(op, args, flags), SINGLY) if found is NotImplemented else (found, LOOPED)

    def _by_rule(self, op: Call, rule: Callable[..., Any], args: list[Any], flags: list[bool]) -> Any:
        call = Members(op.fn, self.size, list(map(value_of, op.args)), tuple(flags), op.val)
        try:
            if type(call.y) not in PYTHON:
                return rule(call, *args, **op.kwargs)
            with np.errstate(all="ignore"):  # Python numbers give no warnings
                return rule(call, *args, **op.kwargs)
        except TapeError:
            raise
        except Exception:  # a member may raise this too; the separate calls show which
            return NotImplemented

    def _fitted(self, found: Any, y: Any) -> Any:
        """Return a rule's result in the type that it has for one member; NotImplemented if that is impossible."""
        if isinstance(y, (tuple, list)):
            if not isinstance(found, (tuple, list)) or len(found) != len(y):
                return NotImplemented
            parts = [self._fitted(part, one) for part, one in zip(found, y)]
            return NotImplemented if any(part is NotImplemented for part in parts) else tuple(parts)
        if y is None:
            return None if found is None else NotImplemented
        one, now = plain(y), plain(found)
        shape = tuple(getattr(one, "shape", ()))
        if tuple(getattr(now, "shape", ())) == shape:
            found = spread(found, self.size)
        elif tuple(getattr(now, "shape", ())) != (self.size, *shape):
            return NotImplemented
        wanted, given = _dtype(one), _dtype(now)
        if wanted == given:
            return found
        if wanted is None or _rank(given) > _rank(wanted):
            return NotImplemented
        return astype(found, dtype=wanted)

    def _loop(self, op: Call, args: list[Any], flags: list[bool]) -> Any:
        """Record one loop for all members; NotImplemented where values decide what a member returns or whether it
        raises, and where a member leaves.
        """
        fn, spec = op.fn, spec_of(op.val)
        known = isinstance(fn, Op) and not (fn.effects.draws or fn.loose or fn is hook) and raising(op, fn) is None
        nests = any(isinstance(arg, Nest) or (type(arg) in (list, tuple, dict) and tracer_of(leaves_of(arg)))
                    for arg in args)
        if not known or not self.size or nests or any(x.parts for x in spec.parts):
            return NotImplemented
        if not (is_leaf(plain(op.val)) or spec.type in (tuple, list)):  # a loop does not stack dicts
            return NotImplemented
        each = of_each(fn, flags, [type(value_of(arg)) in PYTHON for arg in op.args], spec)
        try:
            found = each.run(*args, **op.kwargs)
        except Exception:  # a member raises or has another type; the separate calls show which
            return NotImplemented
        parts = found if isinstance(found, tuple) else (found,)
        ones = tuple([None if part is None else plain(part)[0] for part in parts])
        if not _alike(ones if isinstance(found, tuple) else ones[0], op.val):
            return NotImplemented
        for part in parts if typed_by_value(op) else ():
            told(part, "dtype", dtype_of(part))
        return found

    def _each(self, op: Call, args: list[Any], flags: list[bool]) -> Any:
        """Call the op for each member and stack the results; members that raise or return another type leave."""
        made: list[Any] = []
        agree, python = np.ones(self.size, bool), raising(op, op.fn)
        for i in range(self.size):
            given = [member(arg, i) if flag else arg.into.build(arg.parts) if isinstance(arg, Nest) else arg
                     for arg, flag in zip(args, flags)]
            given = [as_recorded(x, value_of(arg)) for x, arg in zip(given, op.args)]
            try:
                if python is not None:  # it raises where NumPy's function gives nan or inf
                    python(*[_number(x) for x in given])
                made.append(_run(op, given))
                agree[i] = _alike(made[-1], op.val)
            except TapeError:
                raise
            except Exception:  # the program may catch it: the member is traced by itself
                made.append(None)
                agree[i] = False
        if not agree.all():
            self._leave(op, agree)
            made = [y for y, stays in zip(made, agree) if stays]
        return _stacked(made, op.val)

    def _drawn(self, op: Call, args: list[Any], flags: list[bool]) -> Any:
        if op.fn is default_rng:
            if any(flags):
                raise UnknownFunction(f"{self.tape.name} makes a random generator from a batched seed", op.where,
                                      "use a generator from outside, which draws once for each member")
            return _run(op, args)
        if is_torch_source(op.args[0]):
            self.flags[op.id] = True
            return States(op.args[0], self.tracer, {})
        seeded = is_seeded(op.args[0])
        if not seeded and self._is_set_anew(op):
            if any(flags):
                raise UnknownFunction(f"{self.tape.name} seeds a random generator from outside for each member, and "
                                      f"its {op.kwargs.get('method')} has batched arguments", op.where,
                                      "make the generator inside, np.random.default_rng(seed); or draw without batched "
                                      "arguments")
            return self._draw(op, args)
        if seeded and not any(flags):
            return _run(op, args)  # each member creates the generator anew, so all draw the same
        self.flags[op.id] = True
        sources = [deepcopy(plain(args[0])) for _ in range(self.size)] if seeded else [args[0]] * self.size
        found = [self._draw(op, [source, *[member(arg, i) if flag else arg for arg, flag in zip(args[1:], flags[1:])]])
                 for i, source in enumerate(sources)]
        if seeded:  # advances the original generator as the members' copies
            _run(op, [args[0], *[value_of(arg) for arg in op.args[1:]]])
        return None if op.val is None else _stacked(found, op.val)

    def _is_set_anew(self, op: Call) -> bool:
        """True for a draw from an outside generator that is seeded here or before: all members draw the same."""
        for each in self.tape.ops:
            if (each.fn is draw and each.kwargs.get("method") == "seed"
                    and each.args[0] is op.args[0] and len(each.args) > 1 and value_of(each.args[1]) is not None):
                return True
            if each is op:
                return False
        return False

    def _draw(self, op: Call, args: list[Any]) -> Any:
        """Draw once, and record the draw in the surrounding trace, so that replays draw again."""
        if self.tracer is None or any(isinstance(arg, Traced) for arg in args):
            return _run(op, args)
        return self.tracer.record(draw, tuple(args), op.kwargs)

    # -- guards

    def _guard(self, guard: Guard, value: Any) -> None:
        agree = (
            np.fromiter((self._holds(guard, value, i) for i in range(self.size)), bool, self.size)
            if guard.fact != "bool"
            else _truth(plain(value), self.size) == guard.expected
        )
        for part in value.parts if isinstance(value, Nest) else [value]:
            if isinstance(part, Traced):
                told(part, "content", content(part))
        if not agree.all():
            self._leave(guard, agree)

    def _holds(self, guard: Guard, value: Any, i: int) -> bool:
        if guard.fact == "raises":
            whole = Nest([plain(part) for part in value.parts], value.flags, value.into, value.ones)
            return bool(guard.expected.happens(whole.member(i)))
        one = as_recorded(plain(value)[i], guard.args[0].val)
        return is_as_recorded(guard, fact_of(guard, one))

    def _depends_on_draws(self, op: Operation) -> bool:
        leads = leading(self.tape.ops, op.args)
        return any(each.fn is draw and leads[each.id] and not is_seeded(each.args[0])
                   for each in self.tape.ops)

    def _leave(self, op: Operation, agree: Any) -> None:
        """Drop the members that do not agree from all values; raise where they cannot be traced apart."""
        if self._depends_on_draws(op):
            raise UnknownFunction(
                "the members of a batch take different branches here, depending on random numbers that "
                f"{self.tape.name} draws: members traced separately would draw other numbers",
                op.where,
                "draw before tg.vmap, and pass the numbers as an argument",
            )
        if not agree.any():
            raise ArgumentError(
                f"no member of the batch takes the branch that {self.tape.name} took when it was traced: it behaves "
                "differently when it runs again",
                op.where,
                "pass values that change from run to run as arguments",
            )
        kept = np.nonzero(agree)[0]
        self.left.append(self.rows[~agree])
        self.rows, self.size = self.rows[kept], len(kept)
        for position, x in enumerate(self.values):
            if x is not None and self.flags[position] and position not in self.dying:
                self.values[position] = chosen(x, kept)


def is_seeded(source: Any) -> bool:
    """True for a generator that the program creates from a seed: each member has its own, and all draw the same."""
    return (
        isinstance(source, Call)
        and source.fn is default_rng
        and len(source.args) > 0
        and value_of(source.args[0]) is not None
    )


def is_torch_source(source: Any) -> bool:
    """True for a torch draw's source of randomness; the generator's state is an argument of the draw."""
    return hasattr(type(source), "rewind")


def _run(op: Call, args: Sequence[Any]) -> Any:
    run = getattr(op.fn, "run", None)
    return (op.fn if run is None else run)(*args, **op.kwargs)


def _dtype(x: Any) -> Any:
    """Return the dtype of an array or tensor; for a Python number, that of an array of such numbers."""
    found = dtype_of(x)
    return np.dtype(type(x)) if found is None and isinstance(x, (bool, int, float, complex)) else found


def _yielding(op: Call, args: list[Any], flags: list[bool]) -> list[Any]:
    """Convert batched Python numbers to the dtype that promotion gives them beside arrays and NumPy's numbers."""
    ones = list(map(value_of, op.args))
    strong = [dtype_of(x) for x in ones if type(x) not in PYTHON]
    if not strong or len(strong) == len(ones) or any(_rank(dtype) < 0 for dtype in strong):
        return args
    wanted = [np.result_type(*strong, x) if flag and type(x) in PYTHON else None for x, flag in zip(ones, flags)]
    return [x if dtype is None or dtype_of(x) == dtype or letter(dtype) not in "fc" else astype(x, dtype=dtype)
            for x, dtype in zip(args, wanted)]


def _rank(dtype: Any) -> int:
    return _KINDS.find(letter(dtype)) if hasattr(dtype, "kind") else -1


def _alike(made: Any, y: Any) -> bool:
    """Return whether two members' values have the same shape and dtype."""
    if isinstance(y, (tuple, list)):
        return isinstance(made, (tuple, list)) and len(made) == len(y) and all(map(_alike, made, y))
    a, b = plain(made), plain(y)
    return getattr(a, "shape", ()) == getattr(b, "shape", ()) and bool(_dtype(a) == _dtype(b))


def _stacked(made: list[Any], y: Any) -> Any:
    """Stack the members' values; without any, return an empty array of the type of the sample `y`."""
    if isinstance(y, (tuple, list)):
        return tuple([_stacked([each[k] for each in made], part) for k, part in enumerate(y)])
    if isinstance(y, dict):
        return {key: _stacked([each[key] for each in made], part) for key, part in y.items()}
    if y is None:
        return None
    if made:
        return stack(*made, axis=0)
    one = plain(y)
    shape = (0, *getattr(one, "shape", ()))
    return torch.zeros(shape, dtype=one.dtype, device=one.device) if is_tensor(one) else np.zeros(shape, _dtype(one))


def _truth(x: Any, size: int) -> Any:
    x = x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)
    return x.reshape(size, -1)[:, 0].astype(bool)


def content(x: Any) -> bytes:
    return _array(x).tobytes()


def _array(x: Any) -> np.ndarray[Any, Any]:
    val = plain(x)
    return val.detach().cpu().numpy() if is_tensor(val) else np.asarray(val)  # type: ignore[no-any-return]


def _number(x: Any) -> Any:
    """Return a member's number outside of all traces; a tensor becomes a Python number."""
    x = plain(x)
    return x.item() if is_tensor(x) or (isinstance(x, np.ndarray) and not x.ndim) else x


def told(x: Any, fact: str, expected: Any) -> None:
    """Guard a fact about a value in every surrounding trace: the control flow depends on it."""
    while isinstance(x, Traced):
        if fact != "raises":
            x._tracer.guard(x._op, fact, expected)
        x = x._val
