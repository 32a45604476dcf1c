"""vmap: a function of one member as a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from tapegrad.errors import ArgumentError, MutationError, TapeError, user_location
from tapegrad.numbers.formatting import brief, count_of, name_of, plain
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.lazy import optree, torch
from tapegrad.numbers.tensors import is_tensor, overlap
from tapegrad.ops import array, concat, draw, expand_dims, permute_dims, take
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.tape.tape import Constant, Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.effects import Reach
from tapegrad.trace.global_arrays import OBSERVERS
from tapegrad.trace.global_state import Outside
from tapegrad.trace.inputs import flatten_call
from tapegrad.trace.random_state import SOURCES, Found, state_of
from tapegrad.trace.results import returned
from tapegrad.trace.tracer import record, trace
from tapegrad.trace.write_back import settle
from tapegrad.transforms.batch import Nest, Pass, is_torch_source, member, noted, spread
from tapegrad.transforms.unroll import inline
from tapegrad.tree.copies import Member, running
from tapegrad.tree.flatten import BOOLS, Structure, Walk, flatten, is_leaf
from tapegrad.tree.nodes import NAMESPACE
from tapegrad.tree.signature import Signature

P = ParamSpec("P")

Axes = Any
"""An axis, None, or a nest of them that is a prefix of the nest that it describes."""


def vmap(f: Callable[P, Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Callable[P, Any]:
    """Return a function from batches of f's arguments to the batch of its values.

    `in_axes` is the axis of the members of each argument, None for an argument that all members share: one for all
    arguments, or a tuple with one for each; a nested argument has one for all of it, or a nest like it. `out_axes` is
    the same for the value. Keyword arguments have their members along axis 0. What `f` captured is shared.

    `f` runs once on one member, and each operation of its tape is done for the whole batch. Members that take another
    branch, or run a loop more often, are traced and run apart: `f` is any program. An op without a batching rule is
    called once for each member, on a tape by one loop. Random numbers are drawn for each member, by each draw for all
    members: where `f` draws twice, they differ from those of a loop over the members. A function that cannot be
    traced, or needs plain numbers, is called for each member. Writes to what all members share (a captured list, a
    counter, a module's buffers, a global) and prints happen as in a loop over the members: such an `f` is traced for
    each of them, and so is one that reads what may differ between them. Arrays among the arguments are never written
    to. Raises ArgumentError where the arguments have no such axis, or different numbers of members; MutationError
    inside a trace for an `f` whose writes cannot be undone after the first member's run.

    >>> vmap(lambda x, a: a * x if x > 0 else -x, in_axes=(0, None))(np.array([1.0, -2.0, 3.0]), 10.0)
    array([10.,  2., 30.])
    >>> vmap(np.dot, in_axes=(0, 1))(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([3., 8.])
    """
    if not callable(f):
        raise ArgumentError(
            f"{brief(f)} is not a function",
            user_location(),
            "pass the function first and its arguments in the call: tg.vmap(f)(x)",
        )
    how = Batched(in_axes, out_axes, name_of(f))

    def batched(*args: Any, **kwargs: Any) -> Any:
        return how.call(f, args, kwargs)

    batched.__name__, batched.__doc__ = how.name, getattr(f, "__doc__", None)
    batched.__module__ = (
        getattr(f, "__module__", None) or batched.__module__
    )  # the search for random generators continues into the program's code
    return batched


def batchtape(
    f: Callable[..., Any] | Tape, /, *args: Any, in_axes: Axes = 0, out_axes: Axes = 0, **kwargs: Any
) -> Tape:
    """Return the tape that computes `vmap(f, in_axes, out_axes)(*args)`: each operation for the whole batch.

    `f` may be a tape of one member. Its loops are unrolled; `tg.roll` rolls them up again, with a batched body.

    >>> tape = batchtape(lambda x: x * x, np.array([1.0, 2.0, 3.0]))
    >>> [op.note for op in tape if op.kind == "call"], tape.play(np.array([4.0, 5.0, 6.0]))
    (['batched over axis 0'], array([16., 25., 36.]))
    """
    played = f.play if isinstance(f, Tape) else f
    tape = trace(vmap(played, in_axes, out_axes), *args, **kwargs)[1]
    tape.name = f.name if isinstance(f, Tape) else tape.name
    labels = flatten_call(played, args, kwargs)[2]
    for x, label in zip(reversed(tape.inputs), reversed(labels)):
        x.label = label or x.label
    return tape


class Group(NamedTuple):
    """The values of the members that took one path."""

    rows: Any
    into: Structure | None
    parts: list[Any]
    flags: list[bool]


class Program(NamedTuple):
    """A function, its arguments, and the nesting of their leaves."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    signature: Signature

    def of_leaves(self, leaves: list[Any], changed: list[bool]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Return the function and its arguments, rebuilt from other leaves where these have changed."""

        def part(structure: Structure, x: Any) -> Any:
            return structure.build(leaves) if any(changed[structure.start : structure.start + structure.size]) else x

        return (
            part(self.signature.function, self.f),
            tuple(map(part, self.signature.args, self.args)),
            {key: part(self.signature.kwargs[key], arg) for key, arg in self.kwargs.items()},
        )

    def mapped(self, flags: list[bool]) -> list[bool]:
        """Return for each argument, the keyword ones last, whether any part of it differs between members."""
        parts = (*self.signature.args, *self.signature.kwargs.values())
        return [any(flags[part.start : part.start + part.size]) for part in parts]


def writes_shared_state(tape: Tape, own: list[Any]) -> bool:
    """Return whether the program of a tape writes to what all members share; if not, warn of its writes to the
    arguments `own`, of which each member has a copy.
    """
    effects = tape.structure.effects
    if effects is None:
        return False
    walks: list[Walk] = []
    for arg in own:
        flatten(arg, "", [], [], walks=walks)
    mine = {id(x) for walk in walks for x, _ in walk.keep}
    if any(id(place.owner) not in mine for _, place in effects.writes):
        return True
    tape.structure.effects = None
    effects.lose("each member has its own copy").settle()
    return False


def traced_value(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function returns, traced, so that its writes happen only once it has succeeded."""
    tape = record(f, args, kwargs, DEFAULT, found=Found(f, args, kwargs))
    settle(tape)
    return returned(tape)


def _plain_axes(axes: Axes) -> Axes:
    """Return axes as plain integers, with guards for traced ones."""
    return optree.tree_map(lambda axis: axis if axis is None else index(axis), axes, none_is_leaf=True,
                           namespace=NAMESPACE)


class Batched:
    """Calls a function for all members, with the axes of its arguments and of its value."""

    def __init__(self, in_axes: Axes, out_axes: Axes, name: str) -> None:
        for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
            wrong = [
                axis
                for axis in optree.tree_leaves(axes, none_is_leaf=True, namespace=NAMESPACE)
                if axis is not None and (isinstance(axis, bool) or not isinstance(axis, (int, np.integer)))
            ]
            if wrong:
                raise self._error(
                    name,
                    f"{what} contains {brief(wrong[0])}, which is not an axis",
                    f"use integers, and None for arguments that all members share: {what}=0; pass the arguments to the "
                    "function that is returned, tg.vmap(f)(x)",
                )
        in_axes, self.out_axes = map(_plain_axes, (in_axes, out_axes))
        self.in_axes, self.name = tuple(in_axes) if isinstance(in_axes, list) else in_axes, name

    @staticmethod
    def _error(name: str, what: str, try_: str) -> ArgumentError:
        return ArgumentError(f"vmap of {name}: {what}", user_location(), try_)

    def fail(self, what: str, try_: str) -> ArgumentError:
        """Return the error of a call."""
        return self._error(self.name, what, try_)

    def call(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the function's values for all members."""
        signature, leaves, labels = flatten_call(f, args, kwargs)
        program = Program(f, args, kwargs, signature)
        axes = self._of_leaves(signature, leaves, args, kwargs)
        size, leaves = self._fronted(leaves, labels, axes)
        flags = [axis is not None for axis in axes]
        groups: list[Group] = []
        waiting = [np.arange(size)]
        while waiting:
            rows = waiting.pop(0)
            with noted(tracer_of(leaves), "members that go another way"):
                given = (
                    leaves
                    if len(rows) == size
                    else [take(x, rows, axis=0) if flag else x for x, flag in zip(leaves, flags)]
                )
            tape, traces, done = self._traced(program, given, flags, len(rows))
            if tape is None:
                groups += [_group(value, row) for value, row in zip(done, rows.tolist())]
                groups += [self.alone(program, given, flags, i, row, traces) for i, row in enumerate(rows.tolist())
                           if i >= len(done)]
                continue
            tracer = tracer_of([*given, *[op.val for op in tape.ops if type(op) is Constant]])
            with collector:
                batch = Pass(tape, given, flags, len(rows), tracer)
                value, flag = batch.batched()
            waiting += [rows[left] for left in batch.left]
            nest = isinstance(value, Nest)
            into, parts, which = (value.into, value.parts, value.flags) if nest else (None, [value], [flag])
            groups.append(Group(rows[batch.rows], into, parts, which))
        return self._joined(groups, size, leaves)

    # -- arguments

    def _of_leaves(
        self, signature: Any, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[int | None]:
        """Return the axis of each input, None for one that all members share."""
        axes: list[int | None] = [None] * len(leaves)
        given = self.in_axes if isinstance(self.in_axes, tuple) else (self.in_axes,) * len(args)
        if len(given) != len(args):
            raise self.fail(
                f"in_axes={self.in_axes!r} is for {count_of(len(given), 'argument')}, but there are {len(args)}",
                "pass one axis or None for each argument",
            )
        parts = [*zip(signature.args, args, given), *[(signature.kwargs[key], arg, 0) for key, arg in kwargs.items()]]
        for structure, arg, axis in parts:
            inside = range(structure.start, structure.start + structure.size)
            if axis is None or hasattr(type(axis), "__index__"):
                for k in inside:
                    axes[k] = None if is_generator(plain(leaves[k])) else axis
                continue
            known: dict[int, int | None] = {}
            for leaf, each in self._nested(axis, arg, "in_axes", "argument"):
                found: list[Any] = []
                flatten(leaf, "", found, [])
                for x in found:
                    if known.setdefault(id(x), each) != each:
                        raise self.fail(
                            "an array occurs twice in an argument, with two axes", "pass it as two arguments"
                        )
            for k in inside:
                axes[k] = known.get(id(leaves[k]))
        return axes

    def _nested(self, axes: Axes, x: Any, what: str, of: str) -> Iterator[tuple[Any, int | None]]:
        """Yield each leaf of a nest, and its axis."""
        try:
            spread = optree.broadcast_prefix(axes, x, none_is_leaf=True, namespace=NAMESPACE)
        except ValueError as err:
            raise self.fail(
                f"the nesting of {what}={axes!r} differs from the {of}: {str(err).partition(chr(10))[0]}",
                f"pass one axis for all of it, or the same nesting as the outer levels of the {of}",
            ) from err
        yield from zip(optree.tree_leaves(x, none_is_leaf=True, namespace=NAMESPACE), spread)

    def _fronted(self, leaves: list[Any], labels: list[str], axes: list[int | None]) -> tuple[int, list[Any]]:
        """Return the number of members, and the inputs with these along axis 0."""
        sizes: dict[int, str] = {}
        found = list(leaves)
        for k, (x, axis) in enumerate(zip(leaves, axes)):
            if axis is None:
                continue
            name, shape = labels[k] or f"input {k + 1}", tuple(getattr(plain(x), "shape", ()))
            if not -len(shape) <= axis < len(shape):
                raise self.fail(
                    f"{name} has shape {shape}, which has no axis {axis}"
                    if shape
                    else f"{name} is a number, which has no axis {axis}",
                    f"pass None for {name} in in_axes, if all members share it"
                    if not shape
                    else f"an axis from 0 to {len(shape) - 1}",
                )
            axis %= len(shape)
            sizes.setdefault(shape[axis], f"{name} along axis {axis}")
            found[k] = permute_dims(x, axes=(axis, *[i for i in range(len(shape)) if i != axis])) if axis else x
        if not sizes:
            raise self.fail("no argument is batched", "in_axes=0, or a tuple with at least one axis")
        if len(sizes) > 1:
            told = ", ".join(f"{size} of {where}" for size, where in sizes.items())
            raise self.fail(
                f"the arguments have different numbers of members: {told}",
                "pass arrays of the same length along their axes, or None in in_axes",
            )
        return next(iter(sizes)), found

    def _traced(
        self, program: Program, leaves: list[Any], flags: list[bool], size: int
    ) -> tuple[Tape | None, bool, list[Any]]:
        """Record the function for the first member, outside any surrounding trace; generators are restored.

        The tape is None where the function cannot be recorded, needs plain numbers of this member alone, or does more
        than compute; the second result is True in the last case only. Then the run is the first member's call, and the
        third result holds its value; where a surrounding trace must see that call, the run is undone, and the third
        result is empty.
        """
        first = [self.first(plain(x), size) if flag else plain(x) for x, flag in zip(leaves, flags)]
        first = [Member(x) if type(x) in BOOLS else x for x in first]
        changed = [flag or isinstance(x, Traced) for x, flag in zip(leaves, flags)]
        fn, given, named = program.of_leaves(first, changed)
        found = Found(fn, given, named)
        sources = [x for _, x in found.sources.values() if type(x) in SOURCES] if not found.silent else []
        states = [state_of(x) for x in {id(x): x for x in [*sources, *filter(is_generator, first)]}.values()]
        listener, outside = Listener(), Outside(program.f)
        if outside.lasting and size:
            return None, True, []
        witness = None if Reach(fn, *given, *named.values()).pure else OBSERVERS[0](samples=True)
        running.observers = [*running.observers, listener]
        kept = False
        try:
            with outside:
                tape = self.recorded(fn, given, named, witness)
            listener.heard = listener.heard or bool(found.unrecorded(tape))
            own = [arg for arg, mapped in zip((*given, *named.values()), program.mapped(flags)) if mapped]
            writes = writes_shared_state(tape, own) or outside.is_changed() or (witness and witness.result()[1])
            kept = bool(size and (listener.heard or writes) and not any(isinstance(x, Traced) for x in leaves))
        except TapeError as err:
            if not err.refuses or not size:
                outside.tell()
                raise
            self._undo(outside, witness)
            return None, False, []
        except BaseException:
            outside.tell()
            raise
        finally:
            running.observers = [other for other in running.observers if other is not listener]
            for restore, state in states if not kept else ():
                restore(state)
        if kept:
            outside.tell()
            settle(tape)
            return None, not listener.heard, [returned(tape)]
        for op in reversed(tape.ops):
            if op.fn is draw and is_torch_source(op.args[0]):
                op.args[0].rewind(op.val)
        if listener.heard or writes:
            self._undo(outside, witness)
            if size:
                return None, not listener.heard, []
        if len(tape.inputs) != len(leaves) + 1:
            raise self.fail(
                "the arguments of one member have another nesting", "pass arrays, in tuples, lists and dicts"
            )
        tape.name = self.name
        return inline(tape, valued=True), False, []

    def _undo(self, outside: Outside, witness: Any) -> None:
        """Undo the writes of the first member's run, which will run again; raise where that is impossible."""
        outside.put_back()
        changed = None if witness is None else witness.result()[0].changed()
        if changed is not None:
            raise MutationError(
                f"vmap of {self.name}: it changes {changed[0]}, and that cannot be undone for the first member, which "
                "must run again",
                user_location(),
                "a loop over the members; or return the new value",
            )

    def recorded(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], observer: Any) -> Tape:
        """Return the tape of one member."""
        return record(fn, args, kwargs, DEFAULT, observer=observer)

    def first(self, x: Any, size: int) -> Any:
        """Return the first member of an argument; of an empty batch, a member of ones."""
        if size:
            return x[0]
        if is_tensor(x):
            return torch.ones(x.shape[1:], dtype=x.dtype, device=x.device)
        return np.ones(x.shape[1:], x.dtype)[()]

    def alone(self, program: Program, leaves: list[Any], flags: list[bool], i: int, row: int, traces: bool) -> Group:
        """Call the function for one member, directly or as `trace` does, which writes to no array of the caller."""
        mine = [member(x, i) if flag else x for x, flag in zip(leaves, flags)]
        fn, given, named = program.of_leaves(mine, flags)
        return _group(traced_value(fn, given, named) if traces else fn(*given, **named), row)

    # -- the value

    def _joined(self, groups: list[Group], size: int, leaves: list[Any]) -> Any:
        """Join the values of all groups, in the order of the members."""
        first = groups[0]
        if any(group.into != first.into or len(group.parts) != len(first.parts) for group in groups[1:]):
            other = next(group.into for group in groups[1:] if group.into != first.into)
            raise self.fail(
                f"its members return values with different nesting: {first.into!r} and {other!r}",
                "return the same nesting in all branches",
            )
        into = first.into
        places = list(range(len(first.parts)))
        if self.out_axes is None or hasattr(type(self.out_axes), "__index__"):
            axes: list[Any] = [self.out_axes] * len(places)
        else:
            slots = [_Slot(k) for k in places]
            built = slots[0] if into is None else into.build(slots)
            axes = [0] * len(places)
            for leaf, axis in self._nested(self.out_axes, built, "out_axes", "value"):
                if type(leaf) is _Slot:
                    axes[leaf.place] = axis
        parts = [
            self._part([(group.rows, group.parts[k], group.flags[k]) for group in groups], size, axis)
            for k, axis in zip(places, axes)
        ]
        arrays = [x for x in leaves if isinstance(x, np.ndarray) or is_tensor(x)]
        parts = [
            array(x) if any(overlap(x, other) for other in arrays) else x for x in parts
        ]  # the caller may write to the value
        return parts[0] if into is None else into.build(parts)

    def _part(self, found: list[tuple[Any, Any, bool]], size: int, axis: int | None) -> Any:
        _, x, flag = found[0]
        if not is_leaf(plain(x)):
            if any(other is not x and other != x for _, other, _ in found):
                raise self.fail(
                    f"its members return {brief(x)} and {brief(next(other for _, other, _ in found if other != x))}",
                    "return numbers or arrays, or the same value for all members",
                )
            return x
        if axis is None:
            if len(found) > 1 or flag:
                raise self.fail("out_axes is None, but the value differs between members", "out_axes=0")
            return x
        if len(found) > 1:
            shapes = {tuple(getattr(plain(y), "shape", ()))[batched:] for _, y, batched in found}
            if len(shapes) > 1:
                raise self.fail(
                    f"its members return arrays of different shapes, {' and '.join(map(str, sorted(shapes)))}",
                    "return values of the same shape: pad or sum them",
                )
            whole = [y if batched else spread(y, len(group)) for group, y, batched in found]
            with noted(tracer_of(whole), "members in their order"):
                x = take(concat(*whole, axis=0), np.argsort(np.concatenate([group for group, *_ in found])), axis=0)
        elif not flag:
            x = array(spread(x, size))
        ndim = len(plain(x).shape)
        if not -ndim <= axis < ndim:
            raise self.fail(
                f"the value has shape {tuple(plain(x).shape)}, with the members first, which has no axis {axis}",
                f"out_axes from 0 to {ndim - 1}",
            )
        axis %= ndim
        if not axis:
            return array(x) if _is_view(x) else x
        return permute_dims(x, axes=(*range(1, axis + 1), 0, *range(axis + 1, ndim)))


def _group(value: Any, row: int) -> Group:
    """Return the group of one member's value."""
    parts: list[Any] = []
    into = flatten(value, "", parts, [], shared=False)
    if into.is_leaf or not parts:
        return Group(np.array([row]), None, [expand_dims(value, axis=0) if parts else value], [bool(parts)])
    return Group(np.array([row]), into, [expand_dims(x, axis=0) for x in parts], [True] * len(parts))


class Listener:
    """Notes whether a program uses what one member's tape does not determine for the others: plain numbers of traced
    values, their text, and torch's random numbers, drawn in an inner trace or within a surrounding one.
    """

    def __init__(self) -> None:
        self.heard, self.depth = False, len(running.tracers)

    def refuse(self, what: str, cure: str = "") -> None:
        self.heard = True

    def written(self) -> None:
        self.heard = True

    def drawn(self, tracer: Any) -> None:
        self.heard = self.heard or self.depth > 0 or running.tracers[0] is not tracer


class _Slot:
    """The place of a part of a value."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place


def _is_view(x: Any) -> bool:
    return type(x) is np.ndarray and not x.flags.writeable
