"""recorder: the state of one trace, and the recording of operations on its tape."""

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
    REFUSAL_CALLBACKS,
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
from tapegrad.trace.shared_arguments import check_computed
from tapegrad.trace.value_retention import Retention, is_large
from tapegrad.trace.views import known, part, peek, unwritten
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import flatten, leaves_of
from tapegrad.tree.nodes import is_subclassed

_new = object.__new__
_INLINE = ORDINARY - {np.ndarray}  # types of values that calls hold as they are
_SINGLE = ORDINARY - {tuple, type(None)}
_QUIET = frozenset([draw, pack, getfield])  # calls that raise no floating-point error, or must not be repeated


def _hear(err: TapeError) -> None:
    if running.tracers:
        running.tracers[-1].refuse(err)


REFUSAL_CALLBACKS.append(_hear)
# called with the tracer when a trace begins, hooks for libraries; each returns a function to call at the end
TRACE_HOOKS: list[Callable[[Tracer], Callable[[], None]]] = []
NO_COPIES: dict[int, Any] = {}
_levels = itertools.count(1)


class Tracer:
    """Records one run of a function. Each proxy holds its tracer: there is no global tape.

    level: grows with nesting, so the innermost of several tracers can be found. grad: functions with an rrule are run
    through the rrule, so that the pullback need not run them again. once: the retention for a tape that is swept once;
    the first large value starts it. custom: operators must call `record`. overridden: `record` calls the context's.
    replays: control dependences are guarded.
    """

    __slots__ = ("__weakref__", "apart", "blind", "constants", "copies", "ctx", "custom", "dynamic", "error",
                 "followed", "grad", "guarded", "inputs", "laid", "lasting", "lent", "level", "modes", "once",
                 "overridden", "paths", "proxy", "push", "refusal", "replays", "rerouting", "retention", "settings",
                 "silenced", "special", "tape", "unseen", "written")

    def __init__(self, tape: Tape, ctx: Context, proxy: Callable[..., Any], grad: bool = False,
                 once: Retention | None = None,
                 replays: bool = True) -> None:
        self.tape, self.ctx, self.proxy, self.grad, self.once, self.replays = tape, ctx, proxy, grad, once, replays
        self.retention: Retention | None = None  # `once`, after it has started
        self.custom = self.overridden = type(ctx).record is not Context.record
        self.paths = Paths() if ctx.paths else None
        self.push: Callable[[Operation], Any] = tape.ops.append if self.paths is None else self._push_each
        self.level = next(_levels)
        self.constants: dict[Any, tuple[Any, Constant]] = {}
        self.guarded: set[tuple[int, str]] = set()
        self.inputs: list[Any] = []  # the proxies of the inputs
        # by id of a copied object, or of one that refers to it: the replacement that the program sees
        self.copies: dict[int, Any] = NO_COPIES
        self.lasting: list[ownership.SharedResult] = []
        self.unseen: list[Operation] = []  # results whose layout may depend on values
        self.lent: list[tuple[Operation, Operation]] = []  # users' functions' arguments and results, sharing no memory
        self.written: list[tuple[Any, str]] = []  # (memory of an input that the program wrote to, label)
        self.rerouting: Any = None  # redirects references to the originals of copies
        self.blind: Any = None  # references that could not be redirected
        self.special = self.dynamic = self.laid = self.apart = False
        self.followed: tuple[Any, ...] = ()  # number systems that have hooks in this trace
        self.error: Exception | None = None  # the last exception raised by a recorded call
        # the errstate settings, while some floating-point error raises
        self.settings: tuple[tuple[str, str], ...] = ()
        self.silenced: frozenset[str] = frozenset()  # kinds of floating-point warnings
        self.modes: dict[str, str] = {}  # the modes that the program's first np.seterr replaced
        # the first TapeError raised; raised again at the end even if the program, a library or Python replaced it
        self.refusal: TapeError | None = None

    @whole
    def close(self) -> None:
        """End the trace: proxies raise if used from now on. The values it holds are freed."""
        self.push, self.custom, self.overridden = _closed, False, False
        self.error = self.refusal = self.paths = self.once = None
        self.inputs, self.constants, self.written, self.copies = [], {}, [], NO_COPIES
        self.rerouting = self.blind = None
        self.lasting, self.lent = [], []

    def refuse(self, err: TapeError) -> None:
        """Remember the first refusal: it invalidates the trace even if the program catches it."""
        self.refusal = self.refusal or err

    @property
    def closed(self) -> bool:
        """True once the trace has ended."""
        return self.push is _closed

    def meet(self, x: Any) -> None:
        """Start value retention if `x` is large."""
        if self.once is not None and is_large(x) and not any(is_tensor(leaf.val) for leaf in self.tape.inputs):
            self.retention, self.once, self.custom = self.once, None, True
            self.retention.begin(self.tape)
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
                # the memory itself, which the result may be a view of; the operation's value may be a copy
                values[0] = args[0]._val
            if self.retention is not None:
                self.retention.make_room()
            if op.effects.lends:
                ownership.check(self, op)
            try:
                if self.grad and type(op.rule) is Rrule:
                    with self.outside():
                        val, pb = op.forward(*values, **kwargs)
                elif op.effects.draws:  # torch's own draws belong to no trace, not even an outer one
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
        """Return a view of an array that the trace writes in place, or the part read; None if `op` needs the whole."""
        try:
            return part(args[0], op, args[1:], kwargs)
        except Exception as err:
            self.raised(op.run, args, kwargs, err)
            raise

    @contextlib.contextmanager
    def outside(self, all: bool = False) -> Iterator[None]:
        """Run a primitive's Python code under the enclosing trace, or under none if `all`."""
        tracers = running.tracers
        if self in tracers or all:
            running.tracers = [] if all else tracers[:tracers.index(self)]
        try:
            yield
        finally:
            running.tracers = tracers

    def attempt(self, given: Iterable[Traced]) -> Callable[[], None]:
        """Return a function that removes everything recorded since this call, valid until the program sees a result."""
        for x in given:
            if x._tracer is self:
                self.lift(x)  # a pending view, recorded here
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
        """Put an evaluated call on the tape, with the user's line; return the operation that holds its result."""
        self.locate(call)
        if self.overridden:
            made = self.tape[self.ctx.record(self.tape, call)]
            if self.settings:
                self._never_raises(made)
            return made
        self.push(call)
        return call

    def locate(self, op: Operation) -> None:
        """Set an operation's user line and its number."""
        frame = user_frame(_getframe(3))  # nearer frames are ours, and each step creates a frame object
        lasti = frame.f_lasti
        op.code, op.lasti, op.id = frame.f_code, one(lasti, lasti), len(self.tape.ops) + 1
        if self.paths is not None:
            op.code = self.paths.of(frame)

    def _push_each(self, op: Operation) -> None:
        """Put an operation on the tape; operators set the bare code object and no path, which is added here."""
        if self.paths is not None and type(op.code) is CodeType:
            op.code = self.paths.of(user_frame())
        if self.silenced:
            op.lasti = Silenced.at(op.lasti, self.silenced)
        self.tape.ops.append(op)
        if self.retention is not None:
            self.retention.note(op)

    def append(self, call: Call) -> Any:
        """Put an evaluated call on the tape; return proxies of its result."""
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
        """Return the operand for an argument of a call: its operation, or the value itself if it is small.

        The program may overwrite an untraced array later, so the tape keeps a copy, shared while its content is
        unchanged.
        """
        if isinstance(arg, Traced):
            if arg._tracer is self:
                return arg._op
            return self.constant(("op", id(arg._op)), arg, arg)  # a proxy of an outer trace is constant here
        if isinstance(arg, np.ndarray):
            if type(arg) is not np.ndarray:
                plain_array(arg)
            if self.written:
                self.read_outside(arg)
            known = self.constants.get(id(arg))
            if known is not None and (known[1].val is arg or (
                    type(known[0]) is ref and known[0]() is arg and unchanged(arg, known[1].val))):
                return known[1]
            frozen = not arg.flags.writeable and arg.base is None  # a read-only view changes with its base
            return self.constant(id(arg), arg, arg) if frozen else self.constant(id(arg), ref(arg), slim_copy(arg))
        if is_tensor(arg):
            check_dense(arg)
            self.read_outside(arg)
            if self.copies and arg.requires_grad and arg.grad_fn is not None:
                check_computed(arg, self.copies)
            # torch's version counter misses writes through x.data or a shared array
            known = self.constants.get(("tensor", id(arg)))
            if known is not None and (known[1].val is arg or known[1].val.equal(arg)):
                return known[1]
            return self.constant(("tensor", id(arg)), arg, arg.detach().clone())
        adapter = refuse_unknown(arg, "the program's constant")
        follow(self, adapter)
        return plain_number(arg) if adapter is None else arg

    def read_outside(self, x: Any) -> None:
        """Refuse an untraced array or tensor that shares memory with an input that was written to."""
        for memory, label in self.written:
            if overlap(x, memory):
                raise MutationError(f"an array that shares memory with {label} is read outside the trace, after "
                                    f"{label} was written to",
                                    user_location(), f"read through {label}")

    def constant(self, key: Any, original: Any, val: Any) -> Constant:
        """Return the Constant for a value; reuse the existing one if it holds the same object."""
        known = self.constants.get(key)
        if known is not None and known[1].val is val:
            return known[1]
        op = Constant(val)
        self.locate(op)
        self.push(op)
        if self.once is not None and is_large(val):
            self.meet(val)
        # keeps the original alive so that its id is not reused, or holds a weak reference that shows it died
        self.constants[key] = (original, op)
        return op

    def pack(self, arg: Any, leaf: Callable[[Any], Any] = value_of, original: Any = None) -> Any:
        """Record a nest of proxies as one variable; `leaf` gives each leaf's value, `original` is as in flatten."""
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
        """Return whether an operation depends on no input, draw or loop, like an array built from constants. A loop's
        result depends on its runs: its value may be a mere sample, if the gradient was found without running it.

        Called only where a plain value is wanted, so a search of the tape is fast enough.
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
        """Guard the facts that determine a proxy's shape, which a rule or a composite has read.

        These are the inputs' shapes and dtypes and, once any shape depends on values (`x[mask]`), the proxy's own
        shape.
        """
        if self.dynamic:
            self.guard(known(proxy), "shape", shape_of(proxy._val))
        if not self.special:
            self.special = True
            for x in self.tape.inputs[1:]:
                if not self.replays and not isinstance(x.val, Traced):
                    continue  # no guards on this tape, and no outer trace to guard
                if dtype_of(x.val) is None:
                    self.guard(x, "kind", number_kind(x.val))
                else:
                    self.guard(x, "shape", shape_of(x.val))
                    self.guard(x, "dtype", dtype_of(x.val))

    def guard_layout(self) -> None:
        """Guard the memory layout of inputs and of results of opaque functions: it decides whether NumPy's reshape
        returns a view, and so where a later write lands.
        """
        unseen, self.unseen = self.unseen, []
        for x in unseen:
            if self.tape.ops[x.id - 1:x.id] == [x]:  # still on the tape
                self.guard(x, "layout", layout_of(plain(x.val)))
        if not self.laid:  # once: finding the inputs walks the tape, and every write comes here
            self.laid = True
            for x in self.tape.inputs[1:]:
                if shape_of(x.val):
                    self.guard(x, "layout", layout_of(plain(x.val)))

    def guard_apart(self) -> None:
        """Guard that the input arrays share no memory: a write to one would not change the others on the tape."""
        if self.replays and not self.apart:
            self.apart = True
            arrays = [x for x in self.tape.inputs[1:] if is_memory(plain(x.val))]
            if len(arrays) > 1:
                self.guard_disjoint(arrays)

    def guard_lent(self) -> None:
        """Before a write, guard that results of users' functions still share no memory with their arguments."""
        pairs, self.lent = self.lent, []
        for pair in pairs:
            self.guard_disjoint(pair)

    def guard_disjoint(self, arrays: Sequence[Operation]) -> None:
        values = tuple(x.val for x in arrays)
        into = flatten(values, "", [], [], shared=False)
        call = self.place(Call(pack, tuple(arrays), {"into": into}, values))
        self.guard(call, "apart", are_apart(values))

    def raised(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], err: Exception) -> None:
        """Guard that a call raised: a program that catches the error takes another path where it does not."""
        if isinstance(err, TapeError) and err.refuses:
            self.refuse(err)
        if err is self.error or isinstance(err, TapeError) or self.push is _closed or not self.replays:
            return
        self.error = err
        # follows from the views involved and from an input's flag, which is guarded
        if isinstance(err, ValueError) and "read-only" in str(err):
            return
        given = self.pack((args, unwritten(kwargs)))
        if isinstance(given, Traced):
            self.guard(given._op, "raises", Raised(fn, type(err), self.settings))

    def strictly(self, settings: Mapping[str, Any], silenced: frozenset[str]) -> None:
        """Set which floating-point errors or warnings raise, by `np.errstate` or warnings filters: each call from now
        on gets a guard that it raises none or, if warnings are recorded, the same as now. `silenced`: kinds of warnings
        that operations from now on do not emit.
        """
        self.silenced = silenced
        self.settings = tuple(settings.items()) if self.replays and "raise" in settings.values() else ()
        if self.push is not _closed:
            self._choose_push()

    def _choose_push(self) -> None:
        bare = self.paths is None and self.retention is None and not self.silenced
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
                # the warning was recorded, or caught inside a NumPy function
                never = floats or quiet.happens((tuple(map(value_of, op.args)), op.kwargs))
                self.guard(given._op, "raises", quiet._replace(never=never))

    def guard(self, op: Operation, fact: str, value: Any) -> None:
        """Record, once per variable, that control flow depends on this fact about it."""
        if not self.replays or (op.id, fact) in self.guarded:
            return
        self.guarded.add((op.id, fact))
        guard = Guard(op, fact, tuple(value) if fact == "shape" else value)  # torch.Size is a tuple subclass
        self.locate(guard)
        self.push(guard)


def _closed(op: Operation) -> None:
    raise EscapedProxy("a traced value was used after its trace had ended", user_location(),
                       "return it from the traced function; tg.value(x) inside gives the plain number")
