"""each: an op of one member of a batch as a loop over all members, which is one op on a tape.

Its pullback is a loop over the op's pullback, its tangent one over the op's tangent, and a batch of it is a loop over
more members: a tape stays as short as it was under every transform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from tapegrad.errors import GuardError
from tapegrad.numbers.cotangents import Absorbing, accumulate, conform, dense, dtype_of, shape_of
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import holds_tensor
from tapegrad.ops.index import getitem
from tapegrad.ops.shape import broadcast_to, reshape, stack
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.batching import Members
from tapegrad.rules.facts import CONSTANT, Joint, Partials
from tapegrad.rules.op import UNSIZED, Op
from tapegrad.rules.types.family import Unknown, nest, numeric
from tapegrad.rules.types.family import dtype_of as typed
from tapegrad.rules.types.layout import array
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tree.flatten import is_leaf


class UnlikeMembers(GuardError):
    """Raised where the values of two members have different shapes or dtypes, and so cannot be stacked."""


class Each(Op):
    """An op that is called once for each member of a batch, like JAX's `lax.map`.

    `batched` marks the arguments that have the members along axis 0, `python` those that are Python numbers for one
    member, and `spec_one` is the type of one member's result. Results are stacked along axis 0, except `summed` parts.
    """

    noun = "loop"

    def __init__(self, op: Op, batched: tuple[bool, ...], python: tuple[bool, ...], spec_one: Spec,
                 summed: tuple[bool, ...] = ()) -> None:
        self.op, self.batched, self.python, self.spec_one, self.summed = op, batched, python, spec_one, summed
        self.call = op.compute if isinstance(op, Derived) else op.run
        rule = (CONSTANT if not op.differentiable else Partials(self._partial) if op.partials is not None
                else Joint(self._vjp))
        super().__init__(f"each {op.__name__}", self._run, rule,
                         spec=UNSIZED if op.dynamic else self._type, torch=self._run, batch=self._of_batch,
                         tangent=self._push)

    def _type(self, *args: Any, **_: Any) -> Spec:
        """Return the type of a call: one result per member, stacked; the type of a sum is unknown."""
        size = next(spec_of(x).shape[0] for x, flag in zip(args, self.batched) if flag)
        parts = self.spec_one.parts if self.several else (self.spec_one,)
        if any(self.summed) or not parts:
            raise Unknown("nobody knows the type of a sum of cotangents")
        found = [array(typed(part), (size, *part.shape), None) for part in map(numeric, parts)]
        return nest(*found) if self.several else found[0]

    # -- values

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        size = next(shape_of(x)[0] for x, flag in zip(args, self.batched) if flag)
        if not size:
            return self._none(args)
        columns: list[Any] = []  # for each part the sum so far, or a list
        for k in range(size):
            y = self.call(*self.member(args, k), **kwargs)
            parts = tuple(y) if self.several else (y,)
            if not k:
                summed = self.summed or (False,) * len(parts)
                columns = [part if flag else [part] for part, flag in zip(parts, summed)]
                continue
            for i, (part, flag) in enumerate(zip(parts, summed)):
                if flag:
                    columns[i] = accumulate(columns[i], part)
                elif _alike(part, columns[i][0]):
                    columns[i].append(part)
                else:
                    raise UnlikeMembers(
                        f"{self.op.__name__} returns {spec_of(part)} for member {k} of a batch, but "
                        f"{spec_of(columns[i][0])} for the first", None, "a Python loop over the members")
        found = [part if flag else None if part[0] is None else stack(*part, axis=0)
                 for part, flag in zip(columns, summed)]
        return tuple(found) if self.several else found[0]

    def member(self, args: Sequence[Any], k: int) -> list[Any]:
        """Return the arguments of one member."""
        found = [getitem(x, k) if flag else x for x, flag in zip(args, self.batched)]
        return [x.item() if number and isinstance(x, (np.generic, np.ndarray)) else x
                for x, number in zip(found, self.python)]

    @property
    def several(self) -> bool:
        """True if a call returns a tuple."""
        return self.spec_one.type in (tuple, list)

    def _none(self, args: Sequence[Any]) -> Any:
        """Return the result for an empty batch."""
        if isinstance(self.op, Derived):
            wanted = [args[-self.op.count:][i] for i in self.op.wanted]
            return tuple([conform(0.0, x) for x in wanted])
        parts = self.spec_one.parts if self.several else (self.spec_one,)
        found = [np.zeros((0, *part.shape), part.dtype if part.dtype is not None else part.type) for part in parts]
        return tuple(found) if self.several else found[0]

    # -- derivatives and batches

    def _partial(self, i: int, dy: Cotangent, y: Array, *args: Any, **kwargs: Any) -> Any:
        return self._pulled([i], dy, y, args, kwargs)[0]

    def _vjp(self, y: Array, *args: Any, **kwargs: Any) -> Callable[[Any], tuple[Any, ...]]:
        def each_pullback(dy: Cotangent) -> tuple[Any, ...]:
            values = [plain(unwrap(x)) for x in args]
            wanted = [i for i, x in enumerate(values) if is_leaf(x) and has_gradient(x)]
            found = dict(zip(wanted, self._pulled(wanted, dy, y, args, kwargs)))
            return tuple([found.get(i) for i in range(len(args))])
        return each_pullback

    def _pulled(self, wanted: list[int], dy: Any, y: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the cotangents of some arguments, by a loop over the members that sums those of shared arguments."""
        ys, dys = (unwrap(tuple(part) if self.several else (part,)) for part in (y, dy))
        dys = [None if x is None else conform(0.0, plain(x)) if part is None or isinstance(part, Absorbing)
               else dense(part) for part, x in zip(dys, ys)]
        stacked = [y is not None and not flag for y, flag in zip(ys, self.summed or [False] * len(ys))]
        values = unwrap(tuple(args))
        back = derived(Pulled, self.op, len(ys) if self.several else 0, len(args), wanted)
        each = of_each(back, (*stacked, *stacked, *self.batched), (*[False] * 2 * len(ys), *self.python),
                       Spec(tuple), [not self.batched[i] for i in wanted])
        found = each(*dys, *ys, *values, **kwargs)
        return wrap(found) if holds_tensor((*values, *found)) else found

    def _push(self, ts: Sequence[Any], y: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the tangent, by a loop over the members' tangents."""
        ys = unwrap(tuple(y) if self.several else (y,))
        wanted = [i for i, t in enumerate(ts) if t is not None]
        stacked = [y is not None and not flag for y, flag in zip(ys, self.summed or [False] * len(ys))]
        ahead = derived(Pushed, self.op, len(ys) if self.several else 0, len(args), wanted)
        each = of_each(ahead, (*[self.batched[i] for i in wanted], *stacked, *self.batched),
                       (*[False] * (len(wanted) + len(ys)), *self.python), self.spec_one, self.summed)
        found = each(*unwrap(tuple([ts[i] for i in wanted])), *ys, *unwrap(tuple(args)), **kwargs)
        return wrap(found) if holds_tensor((*args, *ts)) else found

    def _of_batch(self, members: Members, *args: Any, **kwargs: Any) -> Any:
        """Batch the loop: a loop over the members of all members."""
        if self.summed:
            return NotImplemented
        m = next(members.shape(i)[0] for i, inner in enumerate(self.batched) if inner)
        flags, flat = [], []
        for x, outer, inner in zip(args, members.batched, self.batched):
            flags.append(outer or inner)
            shape = shape_of(x)[outer + inner:]
            if outer or inner:
                x = x if outer and inner else reshape(x, (members.size if outer else 1, m if inner else 1, *shape))
                x = reshape(broadcast_to(x, (members.size, m, *shape)), (members.size * m, *shape))
            flat.append(x)
        y = of_each(self.op, flags, self.python, self.spec_one)(*flat, **kwargs)
        parts = [reshape(part, (members.size, m, *shape_of(part)[1:])) for part in (y if self.several else (y,))]
        return tuple(parts) if self.several else parts[0]


class Derived(Op):
    """The rule of an op as an op: a function of cotangents or tangents, the value and the arguments. It is
    differentiated by tracing the rule.

    If the value has `parts` they form a tuple; with 0 it is a leaf. `count` is the number of arguments, of which those
    `wanted` have a cotangent or a tangent.
    """

    differ: ClassVar[Any]  # set by a higher layer: pulls a cotangent back, `differ(derived, values, kwargs, dz)`
    pusher: ClassVar[Any]  # and gives the tangent of a call, `pusher(op, y, args, kwargs, tangents)`

    def __init__(self, op: Op, parts: int, count: int, wanted: Sequence[int]) -> None:
        self.op, self.parts, self.count, self.wanted = op, parts, count, tuple(wanted)
        name = f"{type(self).__name__.lower()} {op.__name__}"
        super().__init__(name, self.compute, rule=Joint(self._vjp), torch=self.compute, batch=False)

    def compute(self, *values: Any, **kwargs: Any) -> Any:
        """Return the rule's results."""
        raise NotImplementedError

    def taken_apart(self, values: Sequence[Any], ahead: int) -> tuple[Sequence[Any], Any, tuple[Any, ...]]:
        """Split values into the first `ahead`, the value and the arguments."""
        several = max(self.parts, 1)
        ys = values[ahead:ahead + several]
        return values[:ahead], tuple(ys) if self.parts else ys[0], tuple(values[ahead + several:])

    def _vjp(self, _z: Any, *values: Any, **kwargs: Any) -> Callable[[Any], tuple[Any, ...]]:
        return lambda dz: type(self).differ(self, unwrap(values), kwargs, unwrap(dz))  # type: ignore[no-any-return]


class Pulled(Derived):
    """The pullback of an op: from the cotangents of its value, the value and the arguments to cotangents of some
    arguments.
    """

    def compute(self, *values: Any, **kwargs: Any) -> Any:
        """Return the cotangents of the `wanted` arguments."""
        dys, y, args = self.taken_apart(values, max(self.parts, 1))
        dxs = self.op.pullback(y, args, kwargs)(tuple(dys) if self.parts else dys[0])
        found = [(dxs[i], args[i]) for i in self.wanted]
        return tuple([conform(0.0, plain(x)) if isinstance(dx, Absorbing) else dense(dx) for dx, x in found])


class Pushed(Derived):
    """The tangent of an op's value, from the tangents of some arguments, the value and the arguments."""

    def compute(self, *values: Any, **kwargs: Any) -> Any:
        """Return the tangent of the value."""
        given, y, args = self.taken_apart(values, len(self.wanted))
        known = dict(zip(self.wanted, given))
        found = type(self).pusher(self.op, y, args, kwargs, [known.get(i) for i in range(self.count)])
        if not self.parts:
            return conform(0.0, plain(y)) if found is None else found
        found = [None] * self.parts if found is None else found
        return tuple([conform(0.0, plain(one)) if t is None or isinstance(t, Absorbing) else t
                      for t, one in zip(found, y)])


def of_each(op: Op, batched: Iterable[bool], python: Iterable[bool], spec_one: Spec,
            summed: Iterable[bool] = ()) -> Each:
    """Return the loop of an op over the members of a batch, one object per op, so that two traces give equal tapes."""
    summed = tuple(summed)
    made: Each = _known(Each, op, tuple(batched), tuple(python), spec_one, summed if any(summed) else ())
    return made


def derived(kind: type[Derived], op: Op, parts: int, count: int, wanted: Iterable[int]) -> Derived:
    """Return the pullback or the tangent of an op as an op, one object per op."""
    return _known(kind, op, parts, count, tuple(wanted))  # type: ignore[no-any-return]


def _known(kind: Any, op: Op, *how: Any) -> Any:
    known, key = op.__dict__.setdefault("made_of_it", {}), (kind, *how)  # they live as long as the op
    if key not in known:
        known[key] = kind(op, *how)
    return known[key]


def _alike(a: Any, b: Any) -> bool:
    """Return whether two members' values fit in one array: a Python number has the dtype of an array of them."""
    if b is None:  # a part that is None
        return True
    dtypes = [dtype_of(x) or (np.dtype(type(plain(x))) if type(plain(x)) in PYTHON else None) for x in (a, b)]
    return shape_of(a) == shape_of(b) and bool(dtypes[0] == dtypes[1])
