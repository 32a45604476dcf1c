"""Op: the primitive that tapegrad records and differentiates, and the pullbacks of its calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from tapegrad.errors import Location
from tapegrad.numbers.cotangents import SPECIAL, ZERO, Accumulator, Scatter, ZeroTangent, dense, project, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.parallel import LONG, in_parts
from tapegrad.numbers.systems import promoted, system_of
from tapegrad.numbers.tensor_array import TensorArray, unwrap, wrap
from tapegrad.numbers.tensors import ORDINARY, holds_tensor, is_tensor_type, named, on_one_device
from tapegrad.rules.facts import (
    CONSTANT,
    PURE,
    SHARED,
    Effects,
    Frule,
    Joint,
    LocallyConstant,
    Partial,
    Partials,
    ResultMemory,
    Rrule,
    Rule,
    Tangent,
)
from tapegrad.rules.missing_rule import missing_rule
from tapegrad.rules.pullback_result import check_returned
from tapegrad.rules.readonly import apart, reading
from tapegrad.rules.types.family import Family, is_dynamic, opaque
from tapegrad.tree.flatten import is_leaf, leaves_of
from tapegrad.tree.nodes import is_subclassed

UNTYPED = opaque("a function of the program's may return what it likes")
UNSIZED = opaque("a function of the program's may return arrays of any shape", dynamic=True)
OPS: dict[str, Op] = {}  # by name, filled by `registry.define`


class Traced:
    """The interface of a proxy that ops use: its operation, its value, and the recording tracer."""

    __slots__ = ()
    _op: Any
    _tracer: Any
    _val: Any
    _view: Any  # the view path of an array on shared memory, or None
    _stand: Callable[..., None]
    _plain: Callable[[], Any]  # for an array subclass: the plain array
    _number: Callable[[], Any]  # for a 0-d array: its float


class Slotted(Traced):
    """A proxy with slots. A proxy of a tensor is a torch.Tensor with the same attributes in its `__dict__`."""

    __slots__ = ("_op", "_tracer", "_val", "_view")


PROXIES: set[type] = set()  # the slotted proxy classes, filled by their module


def is_classed(x: Any) -> bool:
    """True for an array of a user's subclass, traced or not: the subclass may override ufuncs."""
    return type(x) not in ORDINARY and type(x) not in PROXIES and is_subclassed(x)


def holds_traced(x: Any) -> bool:
    """True if a list or tuple holds a traced value, at any depth. Flattens nothing, so it is cheap for long lists."""
    return any(isinstance(item, Traced) or (isinstance(item, (list, tuple)) and holds_traced(item)) for item in x)


def tracer_of(args: Iterable[Any]) -> Any:
    """Return the innermost tracer among the arguments, or None: with `grad` inside `grad`, the inner one records."""
    tracer = None
    for arg in args:
        if type(arg) not in ORDINARY and isinstance(arg, Traced):
            found = arg._tracer
            if tracer is None or found.level > tracer.level:
                tracer = found
    return tracer


class Op:
    """A primitive: its NumPy implementation and facts about it.

    `rule`, `tangent`, `memory` and `effects` are described in `facts`; a tuple or a function given as a rule is wrapped
    in Partials. `spec` is the type family that computes the result's type. `batch` is the batching rule (see batching),
    False for one call per member; ufuncs and pointwise ops need none. `lower` maps a backend's name to its
    implementation: "torch", a function of tensors on one device and of numbers, or its dotted name in torch (see
    `run`); "python", math's function, which replaces NumPy's slower one on Python floats.

    >>> from tapegrad import ops
    >>> ops.exp.memory.of, ops.reshape.memory.of, ops.exp.effects.raises
    (None, 0, False)
    """

    _tapegrad_op = True  # an op is never an object of the program, whatever module its class is from
    loose = False  # made by a context for one trace: a primitive in that context only
    exchanges = False  # a collective: other processes join each call, so none may be repeated (torch's `all_reduce`)
    hosted = 0  # the number of leading arguments that stay on the host: a generator's state (`dropout_mask`)

    def __init__(self, name: str, impl: Callable[..., Any],
                 rule: Rule | tuple[Partial | None, ...] | Partial | None = None, *, spec: Family = UNTYPED,
                 memory: ResultMemory = SHARED, effects: Effects = PURE, tangent: Tangent | None = None,
                 batch: Any = None, **lower: Any) -> None:
        self.__name__, self.__doc__, self.impl = name, impl.__doc__, impl
        self.rule, self.tangent, self.spec, self.batch = as_rule(rule), tangent, spec, batch
        self.memory, self.effects = memory, effects
        self.lower = {backend: named(own) if isinstance(own, str) else own
                      for backend, own in lower.items() if own is not None}
        self.read = impl  # the implementation for arrays of the caller: a user's function must not write to them
        # derived from these facts once, since every call reads them
        self.scalar: Callable[..., Any] | None = self.lower.get("python")
        self.pythonic = type(impl) is BuiltinFunctionType and impl.__module__ == "_operator"
        self.is_ufunc = type(impl) is np.ufunc
        self.dynamic = is_dynamic(spec)

    def __repr__(self) -> str:
        return f"<op {self.__name__}>"

    @property
    def differentiable(self) -> bool:
        """False if the result is locally constant."""
        return self.rule is not CONSTANT

    @property
    def pointwise(self) -> bool:
        """True if each partial multiplies by a derivative, elementwise."""
        return type(self.rule) is Partials and self.rule.pointwise

    @property
    def aliases(self) -> int | None:
        """The position of the argument whose memory a result may share, ANY, or None."""
        return self.memory.of

    @property
    def has_rule(self) -> bool:
        """True if a cotangent can be pulled back through the op."""
        return self.rule is not None and self.rule is not CONSTANT

    @property
    def partials(self) -> tuple[Partial | None, ...] | Partial | None:
        """The partials of the rule, None for a rule of another form."""
        return self.rule.each if type(self.rule) is Partials else None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op exactly as it was recorded, for a replay.

        A call with a proxy is recorded; a call with a tensor runs the torch implementation. A user's function without
        one runs unchanged, on tensors wrapped to behave like arrays.
        """
        if self.effects.nested:
            return self._dispatch(args, kwargs, leaves_of((args, kwargs)))
        for arg in args:
            if type(arg) not in _AS_EVER:
                return self._dispatch(args, kwargs, args)
        if self.is_ufunc and type(args[0]) is np.ndarray and args[0].size >= LONG and not kwargs:
            return in_parts(self.impl, *args)
        return self.impl(*args, **kwargs)

    def _dispatch(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Iterable[Any]) -> Any:
        wrapped = tensors = special = False
        tracer = exact = None
        for leaf in leaves:
            kind = type(leaf)
            if kind in ORDINARY:
                continue
            if kind is TensorArray:
                wrapped, leaf = True, leaf.tensor
                kind = type(leaf)
            if issubclass(kind, Traced):
                if tracer is None or leaf._tracer.level > tracer.level:
                    tracer = leaf._tracer
            elif is_tensor_type(kind):
                tensors = True
            elif isinstance(leaf, SPECIAL):
                special = True
            elif exact is None:
                exact = system_of(kind)
        if tracer is not None:
            return wrap(tracer.record(self, unwrap(args), kwargs)) if wrapped else tracer.record(self, args, kwargs)
        if not tensors and not special:
            return self.read(*args, **kwargs) if exact is None else exact.run(self, *args, **kwargs)
        if special:  # the sum of a cotangent and ZeroTangent
            return self.impl(*args, **kwargs)
        own = self.lower.get("torch")
        if own is None:
            y = self.impl(*map(wrap, args), **{key: wrap(arg) for key, arg in kwargs.items()})
            return y if wrapped else unwrap(y)
        given = [unwrap(arg) for arg in args] if wrapped else args
        y = own(*given[:self.hosted], *on_one_device(given[self.hosted:]), **kwargs)
        return wrap(y) if wrapped else y

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op; on Python floats and float64 scalars `math`'s function replaces NumPy's slower one."""
        if self.scalar is not None and not kwargs:
            for arg in args:
                if type(arg) is not float and type(arg) is not np.float64:
                    break
            else:
                try:
                    return self.scalar(*args)
                except (ValueError, OverflowError, ZeroDivisionError):
                    pass  # outside the domain math raises; NumPy gives nan or inf
        tracer = None  # found inline, as `run` would, because tracing makes one call per recorded operation
        for arg in args:
            kind = type(arg)
            if kind not in _AS_EVER:
                if kind not in PROXIES or self.effects.nested:
                    return self.run(*args, **kwargs)
                if tracer is None or arg._tracer.level > tracer.level:
                    tracer = arg._tracer
        return self.run(*args, **kwargs) if tracer is None else tracer.record(self, args, kwargs)

    def pullback(self, y: Array, args: tuple[Any, ...], kwargs: dict[str, Any], where: Location | None = None) -> Any:
        """Return the pullback of a call with value `y`; raise MissingRule, naming the user's line, if there is none."""
        rule = self.rule
        if type(rule) is Partials:
            return Pullback(self, y, args, kwargs)
        if type(rule) is Joint:
            if holds_tensor((*args, y)):
                args = wrap(args)
                return JointPullback(self, rule.make(wrap(y), *args, **kwargs), args, tensors=True)
            return JointPullback(self, rule.make(y, *args, **kwargs), args)
        if type(rule) is Rrule:
            return self.forward(*args, **kwargs)[1]
        raise missing_rule(self, args, where)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the value and the pullback of a call; an rrule computes both in one run."""
        rule = self.rule
        if type(rule) is not Rrule:
            y = self.run(*args, **kwargs)
            return y, self.pullback(y, args, kwargs)
        if not holds_tensor(leaves_of((args, kwargs))):
            y, fn = rule(*args, **kwargs)
            return y, JointPullback(self, reading(fn, f"the pullback of {self.__name__}"), args)
        y, fn = rule(*wrap(args), **wrap(kwargs))
        return unwrap(y), JointPullback(self, fn, wrap(args), tensors=True)

    def cotangent(self, i: int, dy: Any, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the cotangent of positional argument `i`, projected to its type and shape."""
        if type(dy) is ZeroTangent:
            return dy
        rule = self.rule
        if type(rule) is not Partials:
            raise missing_rule(self, args)
        if (type(y) not in _NUMPYS or type(dy) not in _NUMPYS) and holds_tensor((dy, y, *args)):
            return (self._of_tensors(rule.each[i], dy, y, args, kwargs, args[i]) if rule.direct  # type: ignore[index]
                    else unwrap(self.cotangent(i, wrap(dy), wrap(y), wrap(args), kwargs)))
        args, x = promoted(args, y) if type(y) not in _NUMPYS else args, args[i]
        each: Any = rule.each
        partial = each[i] if type(each) is tuple else functools.partial(each, i)
        if partial is None:
            return ZERO
        try:
            dx = partial(dy, y, *args, **kwargs)
        except ArithmeticError as err:
            dx = as_numpy(partial, dy, y, args, kwargs, err)
        return project(dx, x)

    def _of_tensors(self, partial: Partial | None, dy: Any, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                    x: Any) -> Any:
        """Return the cotangent of a tensor `x` by a direct partial; usually it needs no projection."""
        if partial is None:
            return ZERO
        dtype = None if isinstance(y, Traced) else getattr(y, "dtype", None)
        for arg in (dy, *args):
            # for mixed dtypes NumPy's promotion differs from torch's
            if isinstance(arg, Traced) or getattr(arg, "dtype", dtype) is not dtype:
                return unwrap(project(partial(wrap(dy), wrap(y), *wrap(args), **kwargs), wrap(x)))
        dx = partial(dy, y, *args, **kwargs)
        if type(dx) is type(x) and dx.dtype is x.dtype and dx.shape == x.shape:
            return dx
        return unwrap(project(wrap(dx), wrap(x)))


def draws(fn: Any) -> bool:
    """True if an op, or a backend's replacement of one, draws random numbers or makes a generator."""
    effects = getattr(fn, "effects", None)
    return type(effects) is Effects and effects.draws


def functions_of(op: Op) -> list[Any]:
    """Return the functions that an op computes with: its own, its rule's and its tangent's."""
    found: list[Any] = [op.run]
    facts: tuple[Any, ...] = (op.rule, op.tangent)
    for fact in facts:
        if type(fact) is Partials:
            found += fact.each if type(fact.each) is tuple else [fact.each]
        elif type(fact) is Joint:
            found.append(fact.make)
        else:
            found.append(fact.apply if type(fact) in (Rrule, Frule) else fact)
    return found


def memory_of(fn: Any) -> ResultMemory:
    """Return the aliasing of an op's result; any other function's result may alias anything."""
    return fn.memory if isinstance(fn, Op) else SHARED


def as_rule(rule: Any) -> Rule | None:
    """Return a rule; partials given alone are wrapped in Partials."""
    return rule if rule is None or isinstance(rule, (Partials, Joint, Rrule, LocallyConstant)) else Partials(rule)


def as_numpy(partial: Partial, dy: Cotangent, y: Array, args: Iterable[Any], kwargs: dict[str, Any],
             err: ArithmeticError) -> Any:
    """Return a partial's result on NumPy numbers after Python numbers raised `err`: nan or inf, with a RuntimeWarning.

    The slope of `x ** 0.5` at 0 is infinite, as for an array, although Python cannot divide by 0. Raises `err` for
    other number systems.
    """
    given = [dy, y, *args]
    if system_of(type(plain(y))) is not None or not any(type(plain(x)) in (*_PYTHONS, np.float64) for x in given):
        raise err
    numbers = [OPS["scalar"](x * 1.0) if type(plain(x)) in _PYTHONS else x for x in given]
    try:
        return partial(*numbers, **kwargs)
    except ZeroDivisionError:  # a math function gave Python numbers in between; arrays of length 1 avoid it
        if any(map(shape_of, numbers)):
            raise
        return partial(*[OPS["reshape"](x, (1,)) for x in numbers], **kwargs)[0]


class PullbackBase:
    """Base of pullbacks: named after its op."""

    __slots__ = ("op",)
    op: Any

    @property
    def __name__(self) -> str:
        return f"{self.op.__name__}_pullback"

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


class Pullback(PullbackBase):
    """The pullback of a call whose rule is given by partials."""

    __slots__ = ("args", "kwargs", "y")

    def __init__(self, op: Op, y: Array, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.op, self.y, self.args, self.kwargs = op, y, args, kwargs

    def __call__(self, dy: Any) -> Cotangents:
        return Cotangents(self, dense(dy))


class JointPullback(PullbackBase):
    """A pullback that returns all cotangents at once, as a user's does; they are checked and projected."""

    __slots__ = ("args", "fn", "tensors")

    def __init__(self, op: Op, fn: Callable[[Any], Any], args: tuple[Any, ...], tensors: bool = False) -> None:
        self.op, self.fn, self.args, self.tensors = op, fn, args, tensors  # tensors: the arguments are TensorArrays

    def __call__(self, dy: Any) -> tuple[Any, ...]:
        if type(dy) is ZeroTangent:
            return (ZERO,) * len(self.args)
        dy = dy if self.op.memory.written else dense(dy)
        dxs = self.fn(wrap(dy) if self.tensors else dy)
        dxs = apart(dxs, dy) if self.op.effects.lends else dxs
        check_returned(self.op, dxs, self.args)
        dxs = tuple([ZERO if dx is None else project(dx, x) if is_leaf(x) and is_leaf(dx) else dx
                     for dx, x in zip(dxs, self.args)])
        return unwrap(dxs) if self.tensors else dxs


class Cotangents:
    """The result of a pullback: one cotangent per argument, each computed on first access.

    A matmul with constant data then never computes the gradient of the data (ChainRules' thunks).
    """

    __slots__ = ("_cache", "dy", "pullback")

    def __init__(self, pullback: Pullback, dy: Cotangent) -> None:
        self.pullback, self.dy = pullback, dy
        self._cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.pullback.args)

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        if i not in self._cache:
            pb = self.pullback
            self._cache[i] = pb.op.cotangent(i, self.dy, pb.y, pb.args, pb.kwargs)
        return self._cache[i]

    def __repr__(self) -> str:
        return f"<cotangents of {self.pullback.op.__name__}>"


_PYTHONS = frozenset([float, int, complex])
_NUMPYS = ORDINARY - {tuple}  # values that involve no tensor
# a call with arguments of these types alone runs on NumPy, whatever the values
_AS_EVER = ORDINARY | {ZeroTangent, Scatter, Accumulator, Cotangents}
