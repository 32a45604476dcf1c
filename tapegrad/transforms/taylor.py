"""taylor: the Taylor coefficients of a function along a line, all of them in one pass.

Each operation has a power series, whose coefficients are computed one after the other. Linear ops act coefficient by
coefficient, products are Cauchy products, and a few arithmetic ops have a recurrence. For any other op the tangent
gives y' = T(y, x; x'): T is recorded, and its own series gives y' up to some order from y up to that order, and so the
next term of y. The series of a call is one object wherever it appears: sine and cosine each refer to the other, and n
coefficients of a function take a time that grows with n². Griewank and Walther (2008), Evaluating Derivatives, chapter
13.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad import ops
from tapegrad.errors import ArgumentError, MissingRule
from tapegrad.numbers.cotangents import Absorbing, conform
from tapegrad.numbers.formatting import brief, plain
from tapegrad.ops import poles
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.facts import EACH
from tapegrad.rules.op import Op, Traced
from tapegrad.tape.origin import Origin, set_origin
from tapegrad.tape.tape import Call, Operation, Tape, operands, value_of
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.trace.write_back import settle
from tapegrad.transforms.decompositions import WRITTEN
from tapegrad.transforms.forward import given, nested
from tapegrad.transforms.propagation import Propagation
from tapegrad.transforms.tangents import linear_places, settled, tangent
from tapegrad.transforms.unroll import unroll
from tapegrad.transforms.walk import literal
from tapegrad.tree.flatten import Structure, flatten


def taylor(f: Callable[..., Any], x: Any, order: int = 5, direction: Any = None) -> list[Any]:
    """Return the coefficients of `f(x + t * direction)` as a power series in t: the value, then `order` others.

    The k-th is the k-th derivative along the direction, over k!, nested like the value, with its shapes and dtypes. The
    direction is nested like `x`; None stands for ones. What `f` captured is constant. The call may be traced, and so
    differentiated, batched and compiled. Raises ArgumentError for an order that is no integer from 0 on, and for a
    direction that does not fit; MissingRule where an op has no derivative.

    >>> import numpy as np
    >>> taylor(np.exp, 0.0, 3)
    [np.float64(1.0), np.float64(1.0), np.float64(0.5), np.float64(0.16666666666666666)]
    >>> taylor(lambda x: x[0] * x[1] ** 2, np.array([1.0, 2.0]), 3, direction=np.array([0.0, 1.0]))
    [np.float64(4.0), np.float64(4.0), np.float64(1.0), np.float64(0.0)]
    """
    if isinstance(order, bool) or not hasattr(order, "__index__") or int(order) < 0:
        raise ArgumentError(f"order is {brief(order)}", None, "the number of coefficients after the value, 0 or more")
    return coefficients(f, (x,), int(order), None if direction is None else (direction,))


def coefficients(f: Callable[..., Any], args: tuple[Any, ...], order: int,
                 directions: Sequence[Any] | None) -> list[Any]:
    """Return the coefficients of a function of several arguments, with a direction for each."""
    with collector:
        tape = unroll(record(f, args, {}, DEFAULT, grad=True, replays=False))
        lines = _ones(tape) if directions is None else given(tape, directions)
        flow = _Flow(Expansion(order), tape, {x.id: Series([x.val, lines[x.id]]) for x in tape.inputs if x.id in lines},
                     order)
        deque(flow.over(), 0)
        settle(tape)
        known, val = flow.known, tape.result.val
        return [val, *[nested(tape.result, {i: _term(part, k) for i, part in known.items()})
                       for k in range(1, order + 1)]]


def taylortape(f: Callable[..., Any], /, *args: Any, order: int = 3) -> Tape:
    """Return the tape that computes a value and its coefficients, along ones for every argument; the terms of each
    operation stand beside it.

    >>> taylortape(lambda x: x * x, 3.0, order=2).play(5.0)
    [25.0, 10.0, 1.0]
    """
    tape = record(_Coefficients(f, order), args, {}, DEFAULT)
    tape.name = getattr(f, "__name__", tape.name)
    return tape


class _Coefficients:
    def __init__(self, f: Callable[..., Any], order: int) -> None:
        self.f, self.order = f, order

    def __call__(self, *args: Any) -> Any:
        return coefficients(self.f, args, self.order, None)


def _terms(op: Operation, series: Any, order: int) -> None:
    """Compute the terms of an operation's series; a surrounding trace gives them its line and an origin."""
    around = op.val._tracer.tape.ops if isinstance(op.val, Traced) else []
    for k in range(1, order + 1):
        mark = len(around)
        _term(series, k)
        if around:
            set_origin(around[mark:], op, Origin(f"coefficient {k}", op.val._op.id))


def _ones(tape: Tape) -> dict[int, Any]:
    """Return a direction of ones for a tape's arguments."""
    inputs = tape.inputs[1:]
    return {x.id: conform(1.0, plain(x.val)) for part in tape.structure.args
            for x in inputs[part.start : part.start + part.size] if has_gradient(x.val)}


def _term(series: Any, k: int) -> Any:
    """Return a coefficient, nested like the series."""
    if isinstance(series, Series) or series is None:
        return None if series is None else series[k]
    if isinstance(series, dict):
        return {key: _term(part, k) for key, part in series.items()}
    return tuple([_term(part, k) for part in series])


class Series:
    """A power series: its first `terms`, and the `rule` that computes term k from those before.

    None stands for a term that is 0; without a rule all further terms are 0.
    """

    __slots__ = ("_rate", "rule", "terms")

    def __init__(self, terms: list[Any], rule: Callable[[int], Any] | None = None) -> None:
        self.terms, self.rule = terms, rule
        self._rate: Series | None = None

    def __getitem__(self, k: int) -> Any:
        terms = self.terms
        while len(terms) <= k:
            term = None if self.rule is None else self.rule(len(terms))
            terms.append(None if term is None else settled(term, terms[0]))
        return terms[k]

    @property
    def rate(self) -> Series:
        """The series of the derivative."""
        if self._rate is None:
            first = self[1]
            self._rate = Series([conform(0.0, plain(self.terms[0])) if first is None else first],
                                lambda k: None if self[k + 1] is None else self[k + 1] * (k + 1))
        return self._rate


def _sum(parts: Iterable[Any]) -> Any:
    """Return the sum of terms, None if there are none."""
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else ops.add(total, part)
    return total


class Expansion:
    """The series of operations up to some order, each computed once, keyed by op and series of the arguments."""

    def __init__(self, order: int) -> None:
        self.order, self.recorded, self.bytes, self.room = order, 0, 0, 0
        self.known: dict[Any, tuple[Any, Any]] = {}

    def of_op(self, fn: Op, *given: Series) -> Any:
        """Return the series of an op applied to series."""
        args = [part.terms[0] for part in given]
        return self.of_call(fn, Call(fn, tuple(args), None, fn(*args)), args,
                            [None if part.rule is None and len(part.terms) < 2 else part for part in given])

    def of_program(self, f: _Program | _Tangent, series: list[Series]) -> tuple[Any, Structure | None]:
        """Return the series of a function of series, recorded at their first terms; for a nest, the series of its parts
        and their structure.

        A series is None where nothing flows, or where the function returns NotImplemented.
        """
        tape = unroll(record(f, tuple([part.terms[0] for part in series]), {}, DEFAULT, grad=True, replays=False))
        self._count(tape, f.call.fn.__name__)
        given = tape.inputs[len(tape.inputs) - len(series):]
        flow = _Flow(self, tape, {x.id: part for x, part in zip(given, series)})
        deque(flow.over(), 0)

        def found(y: Any) -> Any:
            part = flow.known.get(y.id) if isinstance(y, Operation) else None
            return _constant(value_of(y)) if part is None else part
        parts, into = ops.unpacked(tape.result)
        made = list(map(found, parts))
        return made[0] if into is None else made, into

    def begin(self, op: Operation) -> None:
        """Start to count what is recorded for an operation of the program."""
        self.recorded, self.bytes = 0, 0
        self.room = LARGER * max(8, *[used.spec.nbytes for used in (op, *operands(op))])

    def _count(self, tape: Tape, what: str) -> None:
        """Count what was recorded; raise MissingRule where that grows with each order, by ever larger tangents."""
        self.recorded += len(tape.ops)
        self.bytes += sum(op.spec.nbytes for op in tape.ops)
        if self.recorded > LONGER or self.bytes > self.room:
            raise MissingRule(
                f"{what} has no power series rule, and nested tangents are too expensive for order {self.order}", None,
                              "a lower order, or other functions",
            )

    def of_call(self, fn: Op, op: Call, args: list[Any], parts: list[Any]) -> Any:
        key = (fn, tuple([_key(x) if part is None else id(part) for part, x in zip(parts, args)]), repr(op.kwargs))
        if key not in self.known:
            call = Expanded(self, fn, op, args, parts)
            self.known[key] = call.series(), call  # keeps alive the objects whose ids the key holds
        return self.known[key][0]


class _Flow(Propagation):
    """Propagates series over a tape; with `terms`, the first ones are computed in order, so that nothing recurses."""

    def __init__(self, expansion: Expansion, tape: Tape, known: dict[int, Any], terms: int | None = None) -> None:
        super().__init__(tape, known)
        self.expansion, self.terms = expansion, terms

    def call(self, fn: Op, op: Call, parts: list[Any]) -> Any:
        if self.terms is not None:
            self.expansion.begin(op)
        found = self.expansion.of_call(fn, op, list(map(value_of, op.args)), parts)
        _terms(op, found, self.terms or 0)
        return found


def _key(x: Any) -> Any:
    return (type(x), x) if literal(x) and not isinstance(x, Traced) else id(x)


class Expanded:
    """A call of an op on series: `parts` are those of its arguments, None for constants."""

    def __init__(self, expansion: Expansion, fn: Op, op: Call, args: list[Any], parts: list[Any]) -> None:
        self.expansion, self.fn, self.op, self.args, self.parts = expansion, fn, op, args, parts
        self.kwargs, self.y = op.kwargs, op.val

    def series(self) -> Any:
        """Return the series of its value, nested like it."""
        fn, parts = self.fn, self.parts
        if not all(part is None or isinstance(part, Series) for part in parts):
            raise MissingRule(f"{fn.__name__} takes nested arguments, and has no power series rule", self.op.where,
                              "pass arrays and numbers")
        if fn in ARITHMETIC and not self.kwargs:
            return ARITHMETIC[fn](self, *[Series([x]) if part is None else part for x, part in zip(self.args, parts)])
        active = [i for i, part in enumerate(parts) if part is not None]
        if fn.tangent == EACH:
            return Series([self.y], lambda k: self._product(active, k, self.args))
        if fn in MOVES or set(active) <= set(linear_places(fn, len(parts)) or ()):
            return Series([self.y], self._linear)
        if fn in WRITTEN and (made := self._written_out(active)) is not None:
            return Series([self.y], made.__getitem__)
        return self._by_tangent()

    def _linear(self, k: int) -> Any:
        return tangent(self.fn, self.y, self.args, self.kwargs,
                       [None if part is None else part[k] for part in self.parts])

    def _product(self, active: list[int], k: int, args: list[Any]) -> Any:
        """Return the sum of the op's values over all terms of the arguments whose orders add up to k."""
        i, rest = active[0], active[1:]
        series: Series = self.parts[i]
        found = []
        for j in range(k + 1) if rest else (k,):
            if series[j] is not None:
                made = [*args[:i], series[j], *args[i + 1 :]]
                found.append(self._product(rest, k - j, made) if rest else self.fn(*made, **self.kwargs))
        return _sum(found)

    def _written_out(self, active: list[int]) -> Any:
        """Return the series of the op written in simpler ops, None where that does not apply."""
        return self.expansion.of_program(_Program(self, active), [self.parts[i] for i in active])[0]

    def _by_tangent(self) -> Any:
        """Return the series whose derivative is the op's tangent, which depends on that series itself."""
        leaves: list[Any] = []
        self.nest = flatten(self.y, "", leaves, [], shared=False)
        made: list[Series] = []
        rates: list[Any] = []

        def rule(n: int) -> Callable[[int], Any]:
            def term(k: int) -> Any:
                if not rates:
                    rates.extend(self._rates(made))
                rate = None if rates[n] is None else rates[n][k - 1]
                return None if rate is None else rate / k

            return term

        made += [Series([leaf], rule(n)) for n, leaf in enumerate(leaves)]
        if self.nest.is_leaf:
            return made[0]
        found = self.nest.mirror(made)
        # a pullback that cannot be traced is no number, but it depends on what the value depends on
        return found if type(self.y) is not tuple else tuple([
            Series([y], self._opaque) if callable(y) else part for y, part in zip(self.y, found)])

    def _opaque(self, k: int) -> Any:
        raise MissingRule(f"the pullback of {self.fn.__name__} cannot be traced: its series has only the first order",
                          self.op.where, "write it in NumPy, and make C functions that it calls primitives with a rule")

    def _rates(self, made: list[Series]) -> list[Any]:
        """Record the tangent at the first terms; return the series of the derivative of each part of the value."""
        if getattr(self.fn, "order", 0) > 1:  # torch's third derivatives of layer_norm and batch_norm are wrong
            raise MissingRule(f"{self.fn.__name__} has no power series: torch's derivatives may be wrong beyond the "
                              "second", self.op.where, "write the function in elementary ones")
        active = [i for i, part in enumerate(self.parts) if part is not None]
        parts, into = self.expansion.of_program(
            _Tangent(self, active), [*made, *[self.parts[i] for i in active], *[self.parts[i].rate for i in active]]
        )
        return [parts] if self.nest.is_leaf else self.nest.unmirror(None if into is None else into.mirror(parts))


def _constant(x: Any) -> Series | None:
    return None if x is None or x is NotImplemented or isinstance(x, Absorbing) else Series([x])


class _Program:
    """An op written in simpler ones, as a function of the arguments that are no constants."""

    def __init__(self, call: Expanded, active: list[int]) -> None:
        self.call, self.active, self.op = call, active, call.fn

    def __call__(self, *xs: Any) -> Any:
        call, args = self.call, list(self.call.args)
        for i, x in zip(self.active, xs):
            args[i] = x
        return WRITTEN[call.fn](call.y, *args, **call.kwargs)


class _Tangent:
    """The tangent of a call as a function of its value, of its non-constant arguments, and of their tangents."""

    def __init__(self, call: Expanded, active: list[int]) -> None:
        self.call, self.active, self.op = call, active, call.fn

    def __call__(self, *values: Any) -> Any:
        call, n = self.call, len(self.active)
        ys, xs, ts = (values[: len(values) - 2 * n], values[len(values) - 2 * n : len(values) - n],
                      values[len(values) - n :])
        args, tangents = list(call.args), [None] * len(call.args)
        for i, x, t in zip(self.active, xs, ts):
            args[i], tangents[i] = x, t
        return tangent(call.fn, ys[0] if call.nest.is_leaf else call.nest.build(list(ys)), args, call.kwargs, tangents)


# -- arithmetic


def _added(call: Expanded, a: Series, b: Series) -> Series:
    return Series([call.y], lambda k: _sum([a[k], b[k]]))


def _subtracted(call: Expanded, a: Series, b: Series) -> Series:
    return Series([call.y], lambda k: _sum([a[k], None if b[k] is None else -b[k]]))


def _cauchy(a: Series, b: Series, js: range, k: int, product: Callable[[Any, Any], Any] = operator.mul) -> Any:
    """Return the sum of a[j] b[k - j]."""
    return _sum(product(a[j], b[k - j]) for j in js if a[j] is not None and b[k - j] is not None)


def _multiplied(call: Expanded, a: Series, b: Series) -> Series:
    return Series([call.y], lambda k: _cauchy(a, b, range(k + 1), k))


def _multiplied_no_nan(call: Expanded, a: Series, b: Series) -> Series:
    """Return a product that stays 0 where one factor is 0 and the other has a pole."""
    a, b = _stopped(a, b), _stopped(b, a)
    return Series([call.y], lambda k: _cauchy(a, b, range(k + 1), k, ops.product_no_nan))


def _stopped(a: Series, b: Series) -> Series:
    """Return a series whose terms are 0 where its first one is 0 and that of b is infinite."""
    first = a.terms[0]
    if (goes_on := poles.goes_on(first, b.terms[0])) is None:
        return a
    return Series([first], lambda k: None if a[k] is None else ops.where(goes_on, a[k], 0.0))


def _divided(call: Expanded, a: Series, b: Series, by: Op = ops.divide) -> Series:
    def rule(k: int) -> Any:  # solves y b = a
        known = _cauchy(y, b, range(k), k)
        left = _sum([a[k], None if known is None else -known])
        return None if left is None else by(left, b[0])

    y = Series([call.y], rule)
    return y


def _raised(call: Expanded, x: Series, p: Series) -> Series:
    """Return a power: products for an integer exponent; for another constant one the solution of x y' = p y x'."""
    apply = call.expansion.of_op
    if call.parts[1] is not None:
        made: Series = apply(ops.exp, apply(ops.multiply, p, apply(ops.log, x)))
        return Series([call.y], made.__getitem__)
    exponent = plain(call.args[1])
    if literal(exponent) and abs(exponent) < WHOLE and exponent == (whole := int(exponent.real)):
        power = _product_of(call, x, abs(whole))
        made = power if whole >= 0 else apply(ops.divide, Series([1.0]), power)
        return Series([call.y], made.__getitem__)

    def rule(k: int) -> Any:
        found = _sum((j * p[0] - (k - j)) * x[j] * y[k - j]
                     for j in range(1, k + 1) if x[j] is not None and y[k - j] is not None)
        return None if found is None else found / (k * x[0])

    y = Series([call.y], rule)
    return y


def _product_of(call: Expanded, x: Series, n: int) -> Series:
    """Return a product of n equal factors."""
    if n < 2:
        return x if n else Series([1.0])
    half = _product_of(call, x, n // 2)
    even: Series = call.expansion.of_op(ops.multiply, half, half)
    return call.expansion.of_op(ops.multiply, even, x) if n % 2 else even  # type: ignore[no-any-return]


ARITHMETIC: dict[Op, Callable[..., Series]] = {
    ops.add: _added,
    ops.subtract: _subtracted,
    ops.multiply: _multiplied,
    ops.multiply_no_nan: _multiplied_no_nan,
    ops.product_no_nan: _multiplied_no_nan,
    ops.divide: _divided,
    ops.divide_no_nan: lambda call, a, b: _divided(call, a, b, ops.divide_no_nan),
    ops.pow: _raised,
    ops.float_power: _raised,
    ops.negative: lambda call, x: Series([call.y], lambda k: None if x[k] is None else -x[k]),
    ops.positive: lambda call, x: Series([call.y], x.__getitem__),
    ops.ratio: lambda call, a, b: _divided(call, a, b, ops.ratio),  # 0 / 0 is 0
    ops.square: lambda call, x: _multiplied(call, x, x),
    ops.reciprocal: lambda call, x: _divided(call, Series([1.0]), x),
}
"""Ops with a recurrence of their own: by the tangent, which consists of these ops, series would need ever new calls."""
MOVES = frozenset([ops.pad, ops.scatter])  # linear in the arguments with tangents, whichever these are
WHOLE = 1 << 10
LONGER, LARGER = 1 << 14, 1 << 17  # most operations recorded for one, and most bytes, as a multiple of its own
