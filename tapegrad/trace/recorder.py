"""recorder: one run of a function, and how what it computes comes onto the tape."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import _getframe
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np

from tapegrad.errors import (
    HEARERS,
    EscapedProxy,
    MutationError,
    Silenced,
    TapeError,
    one,
    user_frame,
    user_location,
)
from tapegrad.interrupts import whole
from tapegrad.numbers.cotangents import dtype_of, layout_of, shape_of
from tapegrad.numbers.dtypes import NUMERIC
from tapegrad.numbers.equality import slim_copy, unchanged
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.systems import plain_number, refuse_unknown
from tapegrad.numbers.tensors import ORDINARY, check_dense, is_memory, is_tensor, overlap
from tapegrad.ops.loop import is_loop
from tapegrad.ops.random import draw
from tapegrad.ops.structure import getfield, pack
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import PROXIES, Op, Traced
from tapegrad.rules.readonly import lent
from tapegrad.tape.call_stack import Paths
from tapegrad.tape.raised import Raised
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import NO_KWARGS, Call, Constant, Guard, Input, Operation, Tape, operands, value_of
from tapegrad.trace import ownership
from tapegrad.trace.context import Context
from tapegrad.trace.guards import are_apart, number_kind, option
from tapegrad.trace.number_systems import check_numeric, follow, plain_array
from tapegrad.trace.twins import check_computed
from tapegrad.trace.value_retention import Economy, is_large
from tapegrad.trace.views import known, part, peek, unwritten
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import flatten, leaves_of
from tapegrad.tree.nodes import is_subclassed

_new = object.__new__
_INLINE = ORDINARY - {np.ndarray}  # what stands among a call's arguments as it is
_SINGLE = ORDINARY - {tuple, type(None)}
_QUIET = frozenset([draw, pack, getfield])  # calls that raise no floating-point error, or must not be made again


def _hear(err: TapeError) -> None:
    if running.tracers:
        running.tracers[-1].refuse(err)


HEARERS.append(_hear)
# how a library hears of its own calls while a trace runs: begins that, returns its end
LISTENERS: list[Callable[[Tracer], Callable[[], None]]] = []
NO_COPIES: dict[int, Any] = {}
_levels = itertools.count(1)


class Tracer:
    """Records one run of a function. A proxy carries it: there is no global tape.

    `level` grows with nesting, so that the innermost of several tracers is found. In `grad` mode a function with
    an rrule is run through that, so that its pullback need not run it again. `once` is the economy of a tape that will
    be swept once: the first large value begins it. `custom` says that operators must ask `record`, and `overridden`
    that this asks the context. Where the tape `replays`, what steered the program is guarded on it.
    """

    __slots__ = ("__weakref__", "apart", "blind", "constants", "copies", "ctx", "custom", "dynamic", "economy", "error",
                 "followed", "grad", "guarded", "inputs", "laid", "lasting", "lent", "level", "modes", "once",
                 "overridden", "paths", "proxy", "push", "refusal", "replays", "rerouting", "settings", "silenced",
                 "special", "tape", "unseen", "written")

    def __init__(self, tape: Tape, ctx: Context, proxy: Callable[..., Any], grad: bool = False,
                 once: Economy | None = None,
                 replays: bool = True) -> None:
        self.tape, self.ctx, self.proxy, self.grad, self.once, self.replays = tape, ctx, proxy, grad, once, replays
        self.economy: Economy | None = None  # once it has begun
        self.custom = self.overridden = type(ctx).record is not Context.record
        self.paths = Paths() if ctx.paths else None
        self.push: Callable[[Operation], Any] = tape.ops.append if self.paths is None else self._push_each
        self.level = next(_levels)
        self.constants: dict[Any, tuple[Any, Constant]] = {}
        self.guarded: set[tuple[int, str]] = set()
        self.inputs: list[Any] = []  # the proxies of the inputs
        # id of what was copied, and of what leads to it: what the program has instead
        self.copies: dict[int, Any] = NO_COPIES
        self.lasting: list[ownership.Lasting] = []
        self.unseen: list[Operation] = []  # results whose numbers may have decided how they lie in memory
        self.lent: list[tuple[Operation, Operation]] = []  # arguments and results of users' functions, in memory apart
        self.written: list[tuple[Any, str]] = []  # the memory of inputs that the program has written to
        self.rerouting: Any = None  # what leads to those copies
        self.blind: Any = None  # what leads past them
        self.special = self.dynamic = self.laid = self.apart = False
        self.followed: tuple[Any, ...] = ()  # the number systems that are looked after
        self.error: Exception | None = None  # the last that a call raised
        # of NumPy's floating-point errors, while the program has made some of them raise
        self.settings: tuple[tuple[str, str], ...] = ()
        self.silenced: frozenset[str] = frozenset()  # kinds of floating-point warnings
        self.modes: dict[str, str] = {}  # those that the program's first np.seterr replaced
        # the first, which the program may have caught, or a library, or Python made an error of its own of
        self.refusal: TapeError | None = None

    @whole
    def close(self) -> None:
        """End the trace: a proxy used from now on raises. What it holds of values is freed at once."""
        self.push, self.custom, self.overridden = _closed, False, False
        self.error = self.refusal = self.paths = self.once = None
        self.inputs, self.constants, self.written, self.copies = [], {}, [], NO_COPIES
        self.rerouting = self.blind = None
        self.lasting, self.lent = [], []

    def refuse(self, err: TapeError) -> None:
        """Remember what the trace refused first: it cannot be good any more, whoever catches the error."""
        self.refusal = self.refusal or err

    @property
    def closed(self) -> bool:
        """True once the trace has ended."""
        return self.push is _closed

    def meet(self, x: Any) -> None:
        """Look after large values from now on, if this is one."""
        if self.once is not None and is_large(x) and not any(is_tensor(leaf.val) for leaf in self.tape.inputs):
            self.economy, self.once, self.custom = self.once, None, True
            self.economy.begin(self.tape)
            self._choose_push()

    def check_running(self) -> None:
        """Raise EscapedProxy once the trace has ended."""
        if self.push is _closed:
            self.push(Operation())

    def record(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any = UNKNOWN) -> Any:
        """Run `op` on the real values, put the call on the tape, and return proxies of its result."""
        self.dynamic = self.dynamic or op.dynamic
        if kwargs and not PROXIES.isdisjoint(map(type, kwargs.values())):
            kwargs = {key: option(value) for key, value in kwargs.items()}
        given = leaves_of((args, kwargs)) if op.effects.lends else []
        if op.effects.nested:
            args = tuple(self.pack(arg, lambda x: lent(value_of(x))) for arg in args)
        lift = self.lift
        if op.memory.of == 0 and isinstance(args[0], Traced) and args[0]._tracer is self:
            view = args[0]._view
            if view is not None and view.storage.owned and (view.path or val is UNKNOWN or isinstance(val, np.ndarray)):
                made = self.part(op, args, kwargs)
                if made is not None:
                    return made
            lifted = [peek(args[0]), *[arg if type(arg) in _INLINE else lift(arg) for arg in args[1:]]]
        else:
            lifted, view = [arg if type(arg) in _INLINE else lift(arg) for arg in args], None
        pb = None
        if val is UNKNOWN:
            values = list(map(value_of, lifted))
            if view is not None:
                # the memory itself, of which the result may be a view: the operation may have a copy for its users
                values[0] = args[0]._val
            if self.economy is not None:
                self.economy.make_room()
            if op.effects.lends:
                ownership.check(self, op)
            try:
                if self.grad and type(op.rule) is Rrule:
                    with self.outside():
                        val, pb = op.forward(*values, **kwargs)
                elif op.effects.draws:  # what torch draws in it is no draw of the program's, nor of one around
                    with self.outside(all=True):
                        val = op.run(*values, **kwargs)
                elif op.effects.nested:
                    with self.outside():
                        val = op.run(*values, **kwargs)
                else:
                    val = op.run(*values, **kwargs)
            except Exception as err:
                self.raised(op.run, args, kwargs, err)
                raise
        parts: list[ownership.Part] = []
        if op.effects.lends:
            val, parts = ownership.received(self, op, val, pb, given)
        if (kwargs and "dtype" in kwargs) or (type(val) is np.ndarray and val.dtype.kind not in NUMERIC):
            check_numeric(self, lifted, kwargs.get("dtype"), val)
        if self.once is not None and is_large(val):
            self.meet(val)
        call = _new(Call)  # slot by slot, as the operators do
        call.fn, call.args, call.kwargs = op, tuple(lifted), kwargs or NO_KWARGS
        call.val, call.origin, call.pb = val, None, pb
        if type(val) in _SINGLE and not self.overridden and not op.effects.lends:
            self.locate(call)
            self.push(call)
            return self.fields(call, args)
        y = self.fields(self.place(call), args)
        if parts:
            ownership.tie(self, op.__name__, y, parts)
        elif op.effects.lends:
            ownership.note(self, y if op.effects.lends is True else y[:op.effects.lends], given)
        return y

    def part(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a view of an array that the trace writes in place, or what is read of it; None where its whole content
        is needed.
        """
        try:
            return part(args[0], op, args[1:], kwargs)
        except Exception as err:
            self.raised(op.run, args, kwargs, err)
            raise

    @contextlib.contextmanager
    def outside(self, all: bool = False) -> Iterator[None]:
        """Run the user's code that computes a primitive's value: it belongs to the trace around this one, or to none,
        as what is outside of `all`.
        """
        tracers = running.tracers
        if self in tracers or all:
            running.tracers = [] if all else tracers[:tracers.index(self)]
        try:
            yield
        finally:
            running.tracers = tracers

    def attempt(self, given: Iterable[Traced]) -> Callable[[], None]:
        """Return how to undo what is recorded from now on of these values, before anyone has seen what came of it."""
        for x in given:
            if x._tracer is self:
                self.lift(x)  # a view, of which nothing is recorded yet
        mark, known = len(self.tape.ops), (self.special, self.dynamic, self.laid, self.apart)

        def undo() -> None:
            made = self.tape.ops[mark:]
            del self.tape.ops[mark:]
            self.guarded.difference_update([(op.args[0].id, op.fact) for op in made if type(op) is Guard])
            for key in [key for key, (_, op) in self.constants.items() if op in made] if made else ():
                del self.constants[key]
            self.special, self.dynamic, self.laid, self.apart = known
        return undo

    def place(self, call: Call) -> Operation:
        """Put a call that has its value on the tape, with the user's line; return what stands for its result."""
        self.locate(call)
        if self.overridden:
            made = self.tape[self.ctx.record(self.tape, call)]
            if self.settings:
                self._never_raises(made)
            return made
        self.push(call)
        return call

    def locate(self, op: Operation) -> None:
        """Give an operation the user's line, and the number that it will have."""
        frame = user_frame(_getframe(3))  # nearer ones are ours, and to walk over a frame is to make an object of it
        lasti = frame.f_lasti
        op.code, op.lasti, op.id = frame.f_code, one(lasti, lasti), len(self.tape.ops) + 1
        if self.paths is not None:
            op.code = self.paths.of(frame)

    def _push_each(self, op: Operation) -> None:
        """Put an operation on the tape; an operator has given it the bare code, because it does not ask for paths."""
        if self.paths is not None and type(op.code) is CodeType:
            op.code = self.paths.of(user_frame())
        if self.silenced:
            op.lasti = Silenced.at(op.lasti, self.silenced)
        self.tape.ops.append(op)
        if self.economy is not None:
            self.economy.note(op)

    def append(self, call: Call) -> Any:
        """Put a call that has its value on the tape; return proxies of its result."""
        return self.fields(self.place(call))

    def fields(self, op: Operation, args: tuple[Any, ...] = ()) -> Any:
        """Return a proxy of an operation's value; a tuple, list or dict becomes one of proxies."""
        val = op.val
        if type(val) in _SINGLE:
            return self.proxy(op, val, self, args)
        if val is None:
            return None
        if isinstance(val, (tuple, list)):
            parts = [self.append(Call(getfield, (op, i), None, part)) for i, part in enumerate(val)]
            return tuple_of(type(val), parts) if isinstance(val, tuple) else type(val)(parts)
        if isinstance(val, dict):
            return {key: self.append(Call(getfield, (op, key), None, part)) for key, part in val.items()}
        return self.proxy(op, val, self, args)

    def lift(self, arg: Any) -> Any:
        """Return what stands for a value among a call's arguments: an operation, or the value itself where it is small.

        An array that is not traced may be overwritten later in the program: the tape keeps a copy, one for as long
        as its content stays the same.
        """
        if isinstance(arg, Traced):
            if arg._tracer is self:
                return arg._op
            return self.constant(("op", id(arg._op)), arg, arg)  # of an outer trace: constant here
        if isinstance(arg, np.ndarray):
            if type(arg) is not np.ndarray:
                plain_array(arg)
            if self.written:
                self.read_outside(arg)
            known = self.constants.get(id(arg))
            if known is not None and (known[1].val is arg or (
                    type(known[0]) is ref and known[0]() is arg and unchanged(arg, known[1].val))):
                return known[1]
            frozen = not arg.flags.writeable and arg.base is None  # a view of what can be written to changes with it
            return self.constant(id(arg), arg, arg) if frozen else self.constant(id(arg), ref(arg), slim_copy(arg))
        if is_tensor(arg):
            check_dense(arg)
            self.read_outside(arg)
            if self.copies and arg.requires_grad and arg.grad_fn is not None:
                check_computed(arg, self.copies)
            # torch's count of writes misses those by way of x.data or of an array
            known = self.constants.get(("tensor", id(arg)))
            if known is not None and (known[1].val is arg or known[1].val.equal(arg)):
                return known[1]
            return self.constant(("tensor", id(arg)), arg, arg.detach().clone())
        adapter = refuse_unknown(arg, "the program's constant")
        follow(self, adapter)
        return plain_number(arg) if adapter is None else arg

    def read_outside(self, x: Any) -> None:
        """Refuse an array or a tensor of the program's that shares memory with an input that was written to."""
        for memory, label in self.written:
            if overlap(x, memory):
                raise MutationError(f"an array that shares memory with {label} is read outside the trace, after "
                                    f"{label} was written to",
                                    user_location(), f"read it through {label}")

    def constant(self, key: Any, original: Any, val: Any) -> Constant:
        """Return the Constant for a value, a new one unless that very value has one."""
        known = self.constants.get(key)
        if known is not None and known[1].val is val:
            return known[1]
        op = Constant(val)
        self.locate(op)
        self.push(op)
        if self.once is not None and is_large(val):
            self.meet(val)
        # the original stays alive, so that its id stays its own, or is known to have gone
        self.constants[key] = (original, op)
        return op

    def pack(self, arg: Any, leaf: Callable[[Any], Any] = value_of, original: Any = None) -> Any:
        """Turn a nest that holds proxies into one variable; `leaf` gives the value of each, `original` is flatten's."""
        if isinstance(arg, (Traced, np.ndarray)) and not is_subclassed(arg):
            return arg
        leaves: list[Any] = []
        structure = flatten(arg, "", leaves, [], original=original)
        if structure.is_leaf or not any(isinstance(leaf, Traced) and leaf._tracer is self for leaf in leaves):
            return arg
        lifted = tuple(self.lift(leaf) for leaf in leaves)
        call = Call(pack, lifted, {"into": structure}, structure.build(list(map(leaf, lifted))))
        self.locate(call)
        self.push(call)
        return self.proxy(call, call.val, self)

    def independent(self, op: Operation) -> bool:
        """Return True if an operation depends on no input nor on chance, as an array does that the program made of
        constants. What a loop returns depends on its runs: its value may be a sample, of a gradient that was found
        without them.

        Asked only where a plain value is wanted, so a search is soon enough.
        """
        stack, seen = [op], {op}
        while stack:
            top = stack.pop()
            if isinstance(top, Input) or top.fn is draw or is_loop(top):
                return False
            new = [used for used in operands(top) if used not in seen]
            seen.update(new)
            stack += new
        return True

    def specialise(self, proxy: Traced) -> None:
        """Guard what the shape of a proxy was computed from: a rule or a composite has read it.

        Those are the shapes and dtypes of the inputs, and that shape itself once values have decided any (`x[mask]`).
        """
        if self.dynamic:
            self.guard(known(proxy), "shape", shape_of(proxy._val))
        if not self.special:
            self.special = True
            for x in self.tape.inputs[1:]:
                if not self.replays and not isinstance(x.val, Traced):
                    continue  # nobody is told: this tape has no guards, and there is no trace around this one
                if dtype_of(x.val) is None:
                    self.guard(x, "kind", number_kind(x.val))
                else:
                    self.guard(x, "shape", shape_of(x.val))
                    self.guard(x, "dtype", dtype_of(x.val))

    def guard_layout(self) -> None:
        """Guard how the inputs lie in memory, and results of functions that nothing looks into: by it NumPy decides
        what a reshaped array is a view of, and that was written to.
        """
        unseen, self.unseen = self.unseen, []
        for x in unseen:
            if self.tape.ops[x.id - 1:x.id] == [x]:  # not undone since
                self.guard(x, "layout", layout_of(plain(x.val)))
        if not self.laid:  # once: the inputs are found by a walk over the tape, and this is asked at every write
            self.laid = True
            for x in self.tape.inputs[1:]:
                if shape_of(x.val):
                    self.guard(x, "layout", layout_of(plain(x.val)))

    def guard_apart(self) -> None:
        """Guard that the arrays among the inputs share no memory: one of them is written to, and on the tape the others
        would not know.
        """
        if self.replays and not self.apart:
            self.apart = True
            arrays = [x for x in self.tape.inputs[1:] if is_memory(plain(x.val))]
            if len(arrays) > 1:
                self.guard_disjoint(arrays)

    def guard_lent(self) -> None:
        """Guard that the results of a user's functions share no memory with their arguments, where they did not:
        something is written.
        """
        pairs, self.lent = self.lent, []
        for pair in pairs:
            self.guard_disjoint(pair)

    def guard_disjoint(self, arrays: Sequence[Operation]) -> None:
        values = tuple(x.val for x in arrays)
        into = flatten(values, "", [], [], shared=False)
        call = self.place(Call(pack, tuple(arrays), {"into": into}, values))
        self.guard(call, "apart", are_apart(values))

    def raised(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], err: Exception) -> None:
        """Guard that a call raised: where it does not, a program that catches the error takes another path."""
        if isinstance(err, TapeError) and err.refuses:
            self.refuse(err)
        if err is self.error or isinstance(err, TapeError) or self.push is _closed or not self.replays:
            return
        self.error = err
        # by the views that lead there, and by an input's flag, which has a guard
        if isinstance(err, ValueError) and "read-only" in str(err):
            return
        given = self.pack((args, unwritten(kwargs)))
        if isinstance(given, Traced):
            self.guard(given._op, "raises", Raised(fn, type(err), self.settings))

    def strictly(self, settings: Mapping[str, Any], silenced: frozenset[str]) -> None:
        """Guard from now on, if these settings of `np.errstate`, or the filters of warnings, make errors of some
        warnings, that no call raises one; where warnings are recorded, that each gives the one it gave; else no longer.
        Of operations from now on, warnings of the kinds that are `silenced` are not said.
        """
        self.silenced = silenced
        self.settings = tuple(settings.items()) if self.replays and "raise" in settings.values() else ()
        if self.push is not _closed:
            self._choose_push()

    def _choose_push(self) -> None:
        bare = self.paths is None and self.economy is None and not self.silenced
        plainly = self.tape.ops.append if bare else self._push_each
        self.push = self._push_and_guard if self.settings else plainly

    def _push_and_guard(self, op: Operation) -> None:
        self._push_each(op)
        self._never_raises(op)

    def _never_raises(self, op: Operation) -> None:
        if (type(op.fn) is Op
            and not (type(op.val) in PYTHON or is_tensor(op.val) or op.fn.aliases == 0 or op.fn in _QUIET)):
            args = [self.proxy(arg, arg.val, self) if isinstance(arg, Operation) else arg for arg in op.args]
            given = self.pack((tuple(args), op.kwargs))
            if isinstance(given, Traced):
                floats = self.settings[-1][0] != "warnings"
                quiet = Raised(op.fn, FloatingPointError if floats else Warning, self.settings, never=True)
                # a warning that came is on record, or was caught in a function of NumPy's
                never = floats or quiet.happens((tuple(map(value_of, op.args)), op.kwargs))
                self.guard(given._op, "raises", quiet._replace(never=never))

    def guard(self, op: Operation, fact: str, value: Any) -> None:
        """Record, once for each variable, that a fact about it steered the program."""
        if not self.replays or (op.id, fact) in self.guarded:
            return
        self.guarded.add((op.id, fact))
        guard = Guard(op, fact, tuple(value) if fact == "shape" else value)  # torch has a tuple of its own
        self.locate(guard)
        self.push(guard)


def _closed(op: Operation) -> None:
    raise EscapedProxy("a traced value was used after its trace had ended", user_location(),
                       "return it from the traced function; tg.value(x) inside gives the plain number")
