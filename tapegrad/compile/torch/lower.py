"""lower: lowers a flat tape to calls of ATen's operators, by running it once and recording them.

The tape is replayed on the arguments of a call, and the operators called meanwhile form the program. Only what the
shapes, dtypes and static values of the arguments determine becomes static. An operation stays one opaque call of its
implementation if it reads numbers on the host, has a value-dependent shape, draws, runs the user's code, or may depend
on the value of a Python number among the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.weak import WeakIdKeyDictionary

from tapegrad import ops
from tapegrad.compile.known_functions import is_known, is_varying
from tapegrad.compile.numpy.call_source import ufunc_of
from tapegrad.compile.torch.constant_masks import places_of_masks
from tapegrad.compile.torch.kernel import call_of, holds_value, mapped, nest, without
from tapegrad.compile.torch.number_positions import PASSING, is_array_of_numbers, other_than, placed
from tapegrad.compile.torch.opaque_calls import (
    CheckedCall,
    Finish,
    RepeatedCall,
    Start,
    host_function,
    is_typed_on_host,
    kinds_of,
    on_host,
    pairs_of,
    runs_user_code,
)
from tapegrad.compile.torch.recorder import Calls, Seen, is_dense, is_same_view, share, spelling, storage_of, tensors_in
from tapegrad.compile.torch.results import conformed, is_plain, settled
from tapegrad.errors import TapeError
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor, to_tensor
from tapegrad.optimise.dce import dce
from tapegrad.optimise.fold import fold
from tapegrad.optimise.memory import is_given, root
from tapegrad.optimise.result_memory import packs_of
from tapegrad.replay.facts import verify
from tapegrad.replay.interpreter import Memory, moved
from tapegrad.replay.raising import raising
from tapegrad.rules.facts import ANY
from tapegrad.rules.op import Op, memory_of
from tapegrad.tape.error_context import failed
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.origin import Origin
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, copy_op, has_value, operands
from tapegrad.trace.collector import collector
from tapegrad.transforms.walk import pure
from tapegrad.tree.flatten import flatten
from tapegrad.tree.signature import ValueAndGradients

DRAWING = (ops.draw, ops.default_rng)
# facts that do not depend on the numbers in arrays
FIXED = frozenset(["shape", "ndim", "dtype", "class", "type", "kind", "layout", "strides", "apart", "writeable"])


def lower(tape: Tape, leaves: list[Any], device: Any, numbers: bool = True,
          loops: bool = True, kernels: bool = False) -> tuple[Tape, list[Any]]:
    """Return the tape of torch calls for arguments like `leaves`, and the parts of the result.

    The leaves are those of the tape without the function, with tensors for arrays. With `numbers`, Python numbers stay
    inputs; else the program is specialised to them. Without `loops`, loops are unrolled; with `kernels`, a loop becomes
    one CUDA kernel if possible. Raises GuardError if the tape does not fit these arguments, and what a replay raises.
    """
    return Lowering(places_of_masks(tape), leaves, device, numbers, loops, kernels).run()


SUBTAPES: dict[type, Callable[[Lowering, Call, list[Any], list[Any]], tuple[Any, Any]]] = {}
"""Functions that lower the calls of ops with a subtape, by the op's type; other modules register theirs."""
Roots = set[Operation]  # in the class below, `set` is a method


class Lowering:
    """Runs a tape, and records the operators that it calls on a new tape.

    Its calls keep their values if these follow from constants alone; all have types.
    """

    backward = False  # whether this is the body of a pullback's loop, which may compute nan or inf without an error

    def __init__(self, tape: Tape, leaves: list[Any], device: Any, numbers: bool, loops: bool,
                 kernels: bool = False) -> None:
        self.tape, self.leaves, self.numbers, self.device, self.loops = tape, leaves, numbers, device, loops
        self.kernels = kernels
        self.memory = Memory(tape, device, strict=False)
        self.varies: set[Operation] = set()  # operations run so far with value-dependent shapes
        self.pairs, self.calls = pairs_of(tape) if numbers else {}, Calls()
        self.new = tape.blank()
        self.known: Any = WeakIdKeyDictionary()  # by tensor: the operation on the new tape with this value
        self.values: list[Any] = [None] * (len(tape.ops) + 1)
        # their references on the new tape: operations, possibly nested, or constants
        self.refs: list[Any] = [None] * (len(tape.ops) + 1)
        self.parts: list[Any] = []  # references of the parts of the result
        self.nests = packs_of(tape) - {tape.result}  # packs that are parts of the result
        self.constants: dict[int, Constant] = {}  # by the identity of the tensor

    def run(self) -> tuple[Tape, list[Any]]:
        tape, leaves = self.tape, iter(self.leaves)
        dead = last_uses(tape)
        op: Any = None
        parts: list[Any] | None = None
        into: Any = flatten(0.0, "", [], [])  # the structure of a single part
        try:
            with torch.no_grad(), collector:
                for op in tape.ops:
                    if isinstance(op, Input):
                        self.input(op, leaves)
                    elif isinstance(op, Constant):
                        value = moved(op, self.device)
                        self.set(op, value, self.ref_of(value, op))
                    elif isinstance(op, Guard):
                        self.guard(op)
                    elif isinstance(op, Call) and op is tape.result and op.fn is ops.pack:
                        parts, into = self.pack(op), op.kwargs["into"]
                    elif isinstance(op, Call):
                        self.call(op, dead[op.id])
                    for position in dead[op.id]:
                        self.values[position] = None
                if parts is None:
                    parts = [self.finished(self.values[tape.result.id], self.refs[tape.result.id])]
        except TapeError:
            raise
        except Exception as err:
            raise failed(tape, op, err, [self.value(arg) for arg in op.args] if isinstance(op, Call) else None) from err
        self.own_results(parts)
        given = tuple([self.operand(part, op) for part in self.parts])
        self.new.result = self.push(Call(ops.pack, given, {"into": into}, origin=Origin("result")), op)
        return dce(fold(settled(self.new))), parts

    # -- the new tape

    def push(self, new: Any, op: Operation) -> Any:
        """Append an operation to the new tape, with the source location of `op`."""
        self.new.ops.append(new.at(op))
        new.id = len(self.new.ops)
        return new

    def step(self, op: Operation, fn: Callable[..., Any], *args: Any, **facts: Any) -> Call:
        """Append a call of a function to the new tape; see call_of."""
        return self.push(call_of(fn, args, **facts), op)  # type: ignore[no-any-return]

    def several(self, op: Operation, call: Call, values: Iterable[Any]) -> tuple[Operation, ...]:
        """Append the operations that extract the results of a call, and return them."""
        return tuple([self.push(Call(ops.getfield, (call, i), None, value), op) for i, value in enumerate(values)])

    def operand(self, ref: Any, op: Operation) -> Any:
        """Return a reference as an argument of a call; a nested one is packed by an operation first."""
        return ref if isinstance(ref, Operation) or not holds_value(ref) else self.step(op, nest, ref)

    # -- values and their references

    def set(self, op: Operation, value: Any, ref: Any) -> None:
        self.values[op.id], self.refs[op.id] = value, ref

    def value(self, arg: Any) -> Any:
        return self.values[arg.id] if isinstance(arg, Operation) else arg

    def ref(self, arg: Any) -> Any:
        return self.refs[arg.id] if isinstance(arg, Operation) else arg

    def constant(self, tensor: Any, op: Operation) -> Constant:
        """Return the constant of a tensor that exists before the program runs."""
        found = self.constants.get(id(tensor))
        if found is None:
            found = self.constants[id(tensor)] = self.known[tensor] = self.push(Constant(tensor), op)
        return found

    def input(self, op: Input, leaves: Any) -> None:
        if op.id == 1:
            self.push(copy_op(op, lambda arg: arg), op)
            return self.set(op, op.val, op.val)
        leaf = next(leaves)
        leaf = leaf.detach() if is_tensor(leaf) else leaf  # a distinct object, even if one tensor was passed twice
        ref = self.push(Input(without(leaf), op.label), op)
        if is_tensor(leaf):
            self.known[leaf] = ref
        self.set(op, leaf, ref if is_tensor(leaf) or self.numbers or type(leaf) not in PYTHON else leaf)

    def guard(self, op: Guard) -> None:
        """Verify a guard for these arguments, and keep it if it may fail in another call."""
        value, ref = self.value(op.args[0]), self.ref(op.args[0])
        verify(op, value)
        fixed = (op.fact in FIXED and op.args[0] not in self.varies
                 and all(map(is_tensor, value if type(value) is tuple else (value,))))
        entered = isinstance(op.args[0], Input) and op.fact in FIXED and type(value) is not tuple  # checked at entry
        if not fixed and not entered and holds_value(ref):
            self.push(Guard(self.operand(ref, op), op.fact, op.expected), op)
        self.values[op.id] = value

    # -- one call

    def call(self, op: Call, dead: list[int]) -> None:
        fn = self.value(op.fn)
        given, refs = [self.value(arg) for arg in op.args], [self.ref(arg) for arg in op.args]
        watched = getattr(fn, "watched", False)
        draws = fn in DRAWING or (isinstance(fn, Op) and (getattr(fn, "of", None) or fn).effects.draws)
        sure = watched or draws or is_known(fn)  # all that it does can be recorded
        if is_varying(op, self.varies, sure):
            self.varies.add(op)
        if type(fn) in SUBTAPES:
            self.memory.release(op, fn, 0)
            return self.set(op, *SUBTAPES[type(fn)](self, op, given, refs))
        if fn is ops.getfield and type(refs[0]) in (tuple, list, dict):
            self.memory.release(op, fn, op.args[0].id)
            return self.set(op, given[0][given[1]], refs[0][given[1]])
        if fn is ops.getfield and type(given[0]) in (tuple, list):  # values that a loop collected
            element = given[0][given[1]]
            part = self.push(Call(ops.getfield, (refs[0], given[1]), None, without(element)), op)
            if is_tensor(element):
                self.known[element] = part
            return self.set(op, element, part)
        mixed = bool(tensors_in((given, op.kwargs)))
        made = self.numbers and not mixed and is_array_of_numbers(op, fn, given)
        if mixed or made:
            for i, (value, ref) in enumerate(zip(given, refs)):  # arrays that were drawn or computed on the host
                wanted = (np.ndarray, np.generic, *PYTHON) if made else (np.ndarray, np.generic)
                if isinstance(value, wanted) and isinstance(op.args[i], Operation):
                    given[i], refs[i] = self.on_device(op, value, ref)
            mixed = True
        if op in self.nests and not is_plain(fn.run(*given, **op.kwargs)):  # an object that stays opaque
            refs, given = self.copies(op, refs, given)
        first = op.args[0].id if op.args and isinstance(op.args[0], Operation) else 0
        if given and type(given[0]) is np.ndarray:
            self.memory.owned[first] = 0  # computed on the host: writes must copy it
        owned = self.memory.owned[first]
        pair = None if op in self.varies else self.pairs.get(op)
        within = (isinstance(op.fn, Operation) or self.is_closed(op, fn, given, refs, mixed)
                  or (pair is not None and pair.graph is not None))
        walks = pair is not None and pair.walked is not None and not within
        self.calls.start()
        with self.calls if sure or not within else nullcontext():
            if pair is not None and op is pair.op:
                self.memory.release(op, fn, first)
                y, pair.walked = pair.start(given)
            elif walks:
                self.memory.release(op, fn, first)
                y = pair.finish(pair.walked, given)  # type: ignore[union-attr]
            else:
                y = self.memory.run(op, fn, given, dead)
        if not (within or is_known(fn)) and self.calls.is_unread(() if walks else given, y):
            self.calls.escape("integers that were read")
        if self.calls.dynamic or (self.calls.escaped and not draws and not is_typed_on_host(fn)):
            self.varies.add(op)
        trail = None if within or self.calls.escaped or not is_plain(y) else self.numbered(op, fn, given, refs)
        if trail is None or self.has_unrecorded_tensor((y, [(seen.args, seen.kwargs) for seen in trail])):
            if pair is not None and op is pair.op:
                pair.walked = None  # the tensors that it saved have no references
            if pair is not None and op not in self.varies and self.pair(op, given, refs, y):
                return
            again: Any = None if mixed else host_function(op, fn, given)
            again = again or RepeatedCall(self, op, fn, dead, first, owned)
            if watched and op not in self.varies:
                again = CheckedCall(again, op, kinds_of(y, given))
            self.set(op, y, self.whole(op, again, given, refs, y))
        else:
            self.trail(op, trail)
            self.set(op, y, op.kwargs["into"].build(refs) if fn is ops.pack else self.ref_of(y, op))
        if is_tensor(y) and not self.backward and raising(op, fn) is not None:
            self.finite(op, y)

    def finite(self, op: Call, y: Any) -> None:
        """Guard that a number is finite: otherwise Python's function may have raised an error."""
        self.calls.start()
        with self.calls:
            holds = torch.isfinite(y)
        self.trail(op, self.calls.seen)
        verify(self.push(Guard(self.ref_of(holds, op), "bool", True), op), holds)

    def is_closed(self, op: Call, fn: Any, given: list[Any], refs: list[Any], mixed: bool) -> bool:
        """Return whether a call must stay opaque, as far as known before it is made."""
        if getattr(fn, "raw", False) and all(is_tensor(x) or not holds_value(ref) for x, ref in zip(given, refs)):
            return False
        if memory_of(fn).blank and not is_known(fn) and not holds_value(refs):
            return False  # torch.zeros and similar functions, called by the program
        if getattr(fn, "watched", False):
            if fn.effects.draws or runs_user_code(op):
                return True
        elif not isinstance(fn, Op) or not is_known(fn) or fn.effects.autograd or fn.dynamic or fn in DRAWING:
            return True
        if any(arg in self.varies for arg in op.args if isinstance(arg, Operation)):
            return True
        hosts = [value for value, ref in zip(given, refs) if on_host(value, ref)]
        if (any(type(x) not in (float, complex) or ufunc_of(op) is None for x in hosts)
            and fn not in (*PASSING, ops.setitem)):
            self.varies.add(op)  # a number may be a length
        if fn is ops.pack:
            return not is_plain(fn.run(*given, **op.kwargs))
        if not mixed:
            return bool(hosts) or not (fn.memory.blank and self.device is not None)
        return bool(hosts) and not (fn in PASSING and all(type(x) in PYTHON for x in hosts))

    def has_unrecorded_tensor(self, x: Any) -> bool:
        """Return whether a tensor was computed, hence is no constant, but appears in no recorded call's result."""
        shown = {id(part) for seen in self.calls.seen for part in tensors_in(seen.result)}
        return any(part not in self.known and id(part) not in shown and storage_of(part) in self.calls.made
                   for part in tensors_in(x))

    def numbered(self, op: Call, fn: Any, given: list[Any], refs: list[Any]) -> list[Seen] | None:
        """Return the recorded calls, with references in place of Python numbers that are inputs.

        To locate such a number, the function is called again with another one. Return None if the recordings differ
        otherwise.
        """
        numbers = {i: other_than(x) for i, (x, ref) in enumerate(zip(given, refs))
                   if type(x) in PYTHON and isinstance(ref, Operation)} if fn in PASSING else {}
        first = self.calls.seen
        if not numbers:
            return first
        self.calls.seen = []
        with self.calls:
            fn.run(*[numbers.get(i, x) for i, x in enumerate(given)], **op.kwargs)
        return placed(first, self.calls.seen, [(given[i], x, refs[i]) for i, x in numbers.items()])

    def trail(self, op: Call, trail: list[Seen]) -> None:
        """Append recorded calls to the new tape."""
        for seen in trail:
            given = tensors_in((seen.args, seen.kwargs))
            if given and is_tensor(seen.result) and not seen.written and is_same_view(given[0], seen.result):
                self.known[seen.result] = self.tensor(given[0], op)  # detach, and identity views
                continue
            args, kwargs = self.named(seen.args, op), self.named(seen.kwargs, op)
            result: Any = None if any(seen.result is x for x in seen.written) or not tensors_in(seen.result) \
                else seen.result
            nested = isinstance(result, (tuple, list))
            aliases = tuple([self.owner(part, seen) for part in result]) if nested else self.owner(result, seen)
            writes = [self.known[x] for x in seen.written]
            draws = seen.draws or (result is None and not writes)  # without result or write, it serves to raise
            call = self.push(call_of(seen.fn, args, kwargs, aliases, draws=draws, writes=writes,
                                     quick=spelling(seen)), op)
            found = not seen.draws and all(map(has_value, operands(call)))
            call.val = UNKNOWN if result is None else result if found else without(result)
            if nested:
                parts = self.several(op, call, result if found else map(without, result))
                self.known.update((x, part) for x, part in zip(result, parts) if is_tensor(x))
            elif result is not None:
                self.known[result] = call

    def owner(self, tensor: Any, seen: Seen) -> Operation | None:
        """Return the argument with which the result of a call shares memory, None if it has its own."""
        if not is_tensor(tensor):
            return None
        return next((self.known[x] for x in tensors_in((seen.args, seen.kwargs)) if share(x, tensor)), None)

    def named(self, x: Any, op: Operation) -> Any:
        """Return the arguments of a call with operations for its tensors."""
        return mapped(x, lambda x: self.tensor(x, op) if is_tensor(x) else x)

    def ref_of(self, y: Any, op: Operation) -> Any:
        """Return the reference of a value."""
        return mapped(y, lambda x: self.tensor(x, op) if is_tensor(x) else x)

    def tensor(self, x: Any, op: Operation) -> Operation:
        """Return the operation of a tensor; a constant if no operation made it."""
        found = self.known.get(x)
        return self.constant(x, op) if found is None else found

    # -- opaque calls

    def whole(self, op: Call, fn: Callable[..., Any], given: list[Any], refs: list[Any], y: Any) -> Any:
        """Append an opaque call of an implementation, and return the reference of its result."""
        fixed = not holds_value(refs) and isinstance(op.fn, Op) and pure(op.fn)
        if fixed and not tensors_in(y):
            return y
        if op.fn is ops.setitem and y is given[0]:  # in place
            self.step(op, fn, *refs, inside=True, writes=[refs[0]])
            return refs[0]
        flat = isinstance(y, (tuple, list)) and bool(y) and all(
            part is None or is_tensor(part) or isinstance(part, (np.ndarray, np.generic, *PYTHON)) for part in y)
        if isinstance(op.fn, Operation):
            refs = [self.refs[op.fn.id], *refs]
        aliases = tuple([self.holder(part, given) for part in y]) if flat else self.holder(y, given)
        call = self.step(op, fn, *refs, aliases=aliases, inside=True, draws=not (isinstance(op.fn, Op) and pure(op.fn)))
        out = self.several(op, call, [UNKNOWN] * len(y)) if flat else call
        pairs = zip(y, out) if isinstance(out, tuple) else [(y, out)]
        self.known.update((x, ref) for x, ref in pairs if is_tensor(x))
        return out

    def pair(self, op: Call, given: list[Any], refs: list[Any], y: Any) -> bool:
        """Append a call that keeps torch's autograd graph of it, or the pullback that traverses the graph; return False
        if neither is possible.
        """
        pair, parts = self.pairs[op], list(y) if isinstance(y, (tuple, list)) else [y]
        starts = op is pair.op
        if any(part is not None and not is_tensor(part) for part in parts) or (not starts and pair.graph is None):
            return False
        aliases = [self.holder(part, given) for part in parts]
        if starts:
            call = self.step(op, Start(pair, kinds_of(y, given)), *refs, aliases=(*aliases, ANY), inside=True)
            *out, pair.graph = self.several(op, call, [UNKNOWN] * len(call.fn.aliases))
        else:
            given = [pair.graph, *refs, self.refs[pair.op.id]]
            call = self.step(op, Finish(pair), *given, aliases=tuple(aliases), inside=True)
            out = list(self.several(op, call, [UNKNOWN] * len(parts)))
        self.known.update((x, ref) for x, ref in zip(parts, out) if is_tensor(x))
        self.set(op, y, tuple(out) if isinstance(y, (tuple, list)) else out[0])
        return True

    def holder(self, y: Any, given: list[Any]) -> Any:
        """Return the argument whose memory the result of an opaque call shares; ANY if it is unknown."""
        givens = tensors_in(given) if is_tensor(y) else []
        return next((self.known[x] for x in givens if x in self.known and share(x, y)), ANY)

    def on_device(self, op: Operation, value: Any, ref: Any) -> tuple[Any, Operation]:
        """Return a value computed on the host as a tensor, with its reference: a constant if it is the same in all
        calls.
        """
        tensor = to_tensor(value, self.device)
        if not isinstance(ref, Operation):
            return tensor, self.constant(tensor, op)
        out = self.known[tensor] = self.step(op, to_tensor, ref, self.device, inside=True)
        return tensor, out

    # -- the result

    def pack(self, op: Call) -> list[Any]:
        """Return the parts of the result; gradients are converted to the types of their inputs."""
        values, refs = [self.value(arg) for arg in op.args], [self.ref(arg) for arg in op.args]
        parts = [self.finished(values[0], refs[0])] if values else []
        if isinstance(op.kwargs["into"], ValueAndGradients):
            return parts + [self.gradient(op, *given) for given in zip(values[1:], refs[1:], self.leaves)]
        return parts + [self.finished(value, ref) for value, ref in zip(values[1:], refs[1:])]

    def finished(self, value: Any, ref: Any) -> Any:
        """Append a part of the result, with a tensor for a NumPy array or scalar; return its value."""
        if isinstance(value, (np.ndarray, np.generic)):
            value, ref = self.on_device(self.tape.result, value, ref)
        self.parts.append(ref)
        return value

    def gradient(self, op: Call, value: Any, ref: Any, leaf: Any) -> Any:
        """Append the gradient by an input, in its type; return its value."""
        if not is_tensor(leaf) and (not holds_value(ref) or type(leaf) not in PYTHON or type(leaf) is bool):
            return self.finished(conform(value, leaf), conform(value, leaf))
        if not is_tensor(leaf):
            kind: Any = complex if type(leaf) is complex else float
            self.parts.append(self.step(op, kind, ref))
            return kind(value)
        if not is_tensor(value) and isinstance(ref, Operation):
            value, ref = self.on_device(op, value, ref)
        self.calls.start()
        with self.calls:
            dx = conformed(value, leaf)
        self.trail(op, self.calls.seen)
        return self.finished(dx, self.ref_of(dx, op))

    def own_results(self, parts: list[Any]) -> None:
        """Copy the parts of the result that may share memory with something else or do not fill their storage."""
        taken: Roots = set()

        def is_shared(i: int, ref: Operation, value: Any) -> bool:
            if is_given(ref) or root(ref) in taken or not is_dense(value):
                return True
            taken.add(root(ref))
            return False
        self.copy_where(is_shared, parts)

    def copy_where(self, wanted: Callable[[int, Operation, Any], bool], parts: list[Any]) -> None:
        """Copy the tensors of the result for which `wanted(number, reference, value)`; nested ones have number -1."""
        copies: dict[Any, Any] = {}

        def own(number: int, x: Any, y: Any) -> Any:
            if isinstance(x, Operation) and is_tensor(y) and wanted(number, x, y):
                x, y = self.copy(self.tape.result, x, y)
                copies[x] = y
            return x
        for i, (ref, value) in enumerate(zip(self.parts, parts)):
            if holds_value(ref):
                self.parts[i] = mapped(ref, partial(own, i if isinstance(ref, Operation) else -1), value)
                parts[i] = mapped(self.parts[i],
                                  lambda x, y: copies.get(x, y) if isinstance(x, Operation) else y, value)

    def copies(self, op: Operation, refs: list[Any], values: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return references and values of operands, with copies of tensors that may not own their memory."""
        pairs = [self.copy(op, ref, x) if is_tensor(x) and is_given(ref) else (ref, x) for ref, x in zip(refs, values)]
        return [ref for ref, _ in pairs], [x for _, x in pairs]

    def copy(self, op: Operation, ref: Operation, value: Any) -> tuple[Operation, Any]:
        """Append a contiguous copy to the new tape; return its operation and value."""
        y = value.clone(memory_format=torch.contiguous_format)
        dense = {"memory_format": torch.contiguous_format}
        out = self.known[y] = self.step(op, torch.Tensor.clone, ref, kwargs=dense, val=without(y))
        return out, y
