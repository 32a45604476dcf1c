"""TorchOp: a function of torch recorded whole, with torch's own value and gradient.

The pullback is torch.autograd's of that one call. It is a function of torch's too, and is recorded the same way when it
is called with proxies, which gives gradients of gradients.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from tapegrad.errors import GuardError, Location, MissingRule, MutationError, TapeError, UnknownFunction, user_location
from tapegrad.numbers.cotangents import ZERO, ZeroTangent, dense
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.tensor_array import unwrap
from tapegrad.numbers.tensors import cast, detached, device_of, is_tensor, to_tensor
from tapegrad.rules.batching import Members
from tapegrad.rules.facts import Effects, Rrule
from tapegrad.rules.op import Op, PullbackBase, Traced, tracer_of
from tapegrad.tree.flatten import flatten, leaves_of


def tensors_in(x: Any) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and dicts, in order."""
    if is_tensor(x):
        yield x
    elif isinstance(x, (tuple, list)):
        for part in x:
            yield from tensors_in(part)
    elif type(x) is dict:
        yield from tensors_in(list(x.values()))


def mapped(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return nested tuples, lists and dicts with `fn` applied to each tensor."""
    if isinstance(x, (tuple, list)):
        parts = [mapped(fn, part) for part in x]
        return tuple_of(type(x), parts) if isinstance(x, tuple) else type(x)(parts)
    if type(x) is dict:
        return {key: mapped(fn, part) for key, part in x.items()}
    return fn(x) if is_tensor(x) else x


_PLAIN = frozenset([bool, int, float, complex, str, type(None), torch.dtype, torch.Size])


def around(args: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments `given`, with each object in `args` (such as a module) rebuilt around the given tensors in
    place of its own.

    A user's backward may differentiate the module by parameters that are also passed beside it. Raises UnknownFunction
    if a tensor in an object may be more than one argument.
    """
    objects = {i: [x for x in leaves_of(arg) if is_tensor(x)] for i, arg in enumerate(args)
               if not (is_tensor(arg) or type(arg) in _PLAIN)}
    objects = {i: found for i, found in objects.items() if len(found) > len(list(tensors_in(args[i])))}
    if not objects:
        return given
    if any(True for i in objects for _ in tensors_in(args[i])):
        raise UnknownFunction("a list or tuple holds both tensors and objects that hold tensors", user_location(),
                              "pass them as separate arguments")
    pairs = list(zip(tensors_in(args), tensors_in(given)))

    def place(x: Any) -> Any:
        if not is_tensor(x) or (isinstance(x, torch.nn.Parameter) and not x.requires_grad):
            return x
        found = [new for old, new in pairs if same_place(x, old)]
        if len(found) > 1:
            raise UnknownFunction("an object holds a tensor that equals two of the other arguments",
                                  user_location(), "pass it once")
        return found[0] if found else x
    new = list(given)
    for i in objects:
        parts: list[Any] = []
        structure = flatten(args[i], "", parts, [])
        new[i] = structure.build(list(map(place, parts))) if parts else given[i]
    return tuple(new)


def same_place(x: Any, y: Any) -> bool:
    """Return whether two tensors are the same, or views of the same elements."""
    return x is y or (x.numel() > 0
                      and (x.data_ptr(), x.dtype, x.shape, x.stride()) == (y.data_ptr(), y.dtype, y.shape, y.stride()))


def has_derivative(x: Any) -> bool:
    """True for a tensor of real or complex numbers."""
    return bool((x := plain(x)).is_floating_point() or x.is_complex())


WRONG_THIRD_DERIVATIVES = ("layer_norm", "batch_norm", "instance_norm")  # in torch (2.13)
MADE: dict[str, Callable[..., Any]] = {}
"""The functions that make ops of torch's functions, by kind; a saved tape names the kind and its arguments."""


class TorchOp(Op):
    """A function of torch, recorded whole. `names` are the keywords of its last positional arguments, which may be
    traced.

    refused: for each kind of call, the tensors by which torch has no gradient, found by trial, with the reasons.
    cure: what to try if torch's own backward fails, for functions without code of the user's. Their second derivatives
    may be wrong and are refused: the pullback is `final`.
    of: the op of which this op is a pullback. Its first arguments are the cotangents of `count` parts of that op's
    value (None: of the whole value); `order` counts the pullbacks, and `first` all their cotangent arguments.
    made: the kind in MADE and the arguments from which the op was made.
    """

    watched = True  # a compiled tape checks that results have the properties that it was compiled for

    def __init__(self, name: str, func: Callable[..., Any], draws: bool = False) -> None:
        super().__init__(name, func, Rrule(self.forward), effects=Effects(nested=True, draws=draws), torch=func,
                         batch=False if draws else of_members)
        self.cure, self.final = getattr(func, "cure", ""), False
        self.of: TorchOp | None = None
        self.count: int | None = None
        self.order = self.first = 0
        self.made: tuple[Any, ...] = ()
        self.refused: dict[Any, dict[int, str]] = {}

    def run(self, *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> Any:
        """Call the function on tensors detached from torch's own tape; record it if an argument is traced."""
        known = {"names": names, **kwargs} if names else kwargs
        tracer = tracer_of(leaves_of(args))
        if tracer is not None:
            return tracer.record(self, args, known)
        with torch.no_grad():
            return mapped(detached, self.call(moved(args), names, kwargs))

    __call__ = run

    def call(self, args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function on real values. Raise MutationError if it writes to one, GuardError if the parts of its
        result that are None differ from the recorded `absent`.
        """
        absent = kwargs.get("absent", ())
        kwargs = {key: value for key, value in kwargs.items() if key != "absent"}
        versions = [(x, x._version) for x in tensors_in(args) if not x.is_inference()]
        count = len(args) - len(names)
        y = self.impl(*args[:count], **dict(zip(names, args[count:])), **kwargs)
        if any(x._version != version for x, version in versions):
            options = ", ".join(f"{name}={value!r}" for name, value in kwargs.items() if value is not None)
            what = f"{self.__name__}({options}) wrote to one of its arguments, which cannot be recorded"
            raise MutationError(what, user_location(),
                                "options without writes, such as max_norm=None or inplace=False; or tg.primitive and "
                                "tg.rrule with a function that returns the written value")
        if any(isinstance(part, Traced) for part in tensors_in(y)):
            raise UnknownFunction(f"{self.__name__} is recorded as one operation, but uses traced values that are not "
                                  "its arguments", user_location(), "pass them as arguments")
        if absent and nones(y) != absent:
            raise GuardError(f"{self.__name__} returned None where the tape has a tensor, or a tensor for None", None,
                             "trace the function again with these arguments")
        return y

    def start(self, args: tuple[Any, ...], names: tuple[str, ...] = (), only: Collection[int] | None = None,
              **kwargs: Any) -> tuple[Any, Any]:
        """Return a call's value, and torch's own tape of it."""
        with torch.no_grad():
            graph = self.begin(moved(args), names, kwargs, only=only)
        return mapped(detached, graph[0]), graph

    def finish(self, graph: tuple[Any, list[Any]], dy: Cotangent, again: bool) -> tuple[Any, ...]:
        """Return the cotangents of such a tape's roots; the tape is kept if it is used `again`."""
        dxs = vjp(self, *graph, dy, create=False, again=again)
        return tuple([None if dx is None else dx.detach() for dx in dxs])

    def begin(self, args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any],
              create: bool = False, only: Collection[int] | None = None) -> tuple[Any, list[Any]]:
        """Call the function on torch's own tape; return its value, and its roots, the tensors to differentiate by. A
        root is None if torch has no gradient by it, or if it is not among `only`. With `create`, tensors stay attached
        to the tape of torch's that they are on.
        """
        def attempt(wanted: Callable[[int], bool]) -> tuple[Any, list[Any]]:
            roots: list[Any] = []

            def root(x: Any) -> Any:
                if not has_derivative(x):
                    return x.detach()
                if not wanted(len(roots)) or (only is not None and len(roots) not in only):
                    roots.append(None)
                    return x.detach()
                roots.append(x if create and x.requires_grad else x.detach().requires_grad_())
                return roots[-1]
            given = around(args, mapped(root, args))
            with torch.enable_grad(), kernels(twice=create):
                return self.call(given, names, kwargs), roots
        known = self.reasons(args, names, kwargs)
        try:
            return attempt(lambda i: i not in known)
        except (RuntimeError, NotImplementedError, TypeError) as err:
            if known or isinstance(err, TapeError) or not is_refusal(err):
                raise
        refused = {}
        for at in range(sum(map(has_derivative, tensors_in(args)))):
            try:
                attempt(lambda i, at=at: i == at)  # type: ignore[misc]
            except (RuntimeError, NotImplementedError, TypeError) as err:
                refused[at] = str(err).partition("\n")[0]
        made = attempt(lambda i: i not in refused)
        self.refused[kind_of_call(args, names, kwargs)] = refused
        return made

    def reasons(self, args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any]) -> dict[int, str]:
        """Return the reasons why torch has no gradient by some of a call's tensors, by their positions among those that
        have a derivative.
        """
        return self.refused.get(kind_of_call(args, names, kwargs), {}) if self.refused else {}

    def forward(self, *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> tuple[Any, Any]:
        """Call the function on torch's own tape; return its value, and the pullback that uses the tape."""
        pb = Vjp(self, args, names, kwargs)
        if tracer_of(leaves_of(args)) is not None:
            return self.run(*args, names=names, **kwargs), pb
        return mapped(detached, pb.begin()), pb

    def split(self, args: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """Return the cotangent among a pullback's arguments, and the arguments of the op that it is the pullback of."""
        return (args[0], tuple(args[1:])) if self.count is None else (tuple(args[:self.count]),
                                                                      tuple(args[self.count:]))

    def pullback(self, y: Array, args: tuple[Any, ...], kwargs: dict[str, Any], where: Location | None = None) -> Any:
        """Return the pullback of a call whose value is known; it calls the function again."""
        known = dict(kwargs)
        return Vjp(self, args, known.pop("names", ()), known)


def nones(y: Any) -> tuple[int, ...]:
    """Return the positions of the parts of a result that are None."""
    return tuple([i for i, part in enumerate(y if isinstance(y, (tuple, list)) else (y,)) if part is None])


def kind_of_call(args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any]) -> Any:
    """Return the cache key of `refused`: shapes and dtypes of tensors, and the other arguments."""
    def told(x: Any) -> Any:
        x = plain(x)
        return (f"{x.dtype}{list(x.shape)}" if is_tensor(x) else tuple(map(told, x)) if isinstance(x, (tuple, list))
                else repr(x))
    return names, told(args), repr(kwargs)


def is_refusal(err: Exception) -> bool:
    """True if torch's error says that it has no gradient by an argument, or that it takes a number there and not a
    tensor with a gradient.
    """
    words = ("differentia", "derivative", "gradient", "requires_grad", "requires grad", "require grad")
    return isinstance(err, TypeError) or any(word in str(err) for word in words)


def moved(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with arrays converted to tensors, all on one device."""
    if not any(isinstance(arg, np.ndarray) for arg in args):
        return args
    device = device_of(tensors_in(args))
    return tuple(to_tensor(arg, device or "cpu") if isinstance(arg, np.ndarray) else arg for arg in args)


class Vjp(PullbackBase):
    """The pullback of a recorded call of torch's."""

    __slots__ = ("args", "kwargs", "names", "roots", "y")

    def __init__(self, op: TorchOp, args: tuple[Any, ...], names: tuple[str, ...], kwargs: dict[str, Any]) -> None:
        self.op, self.args, self.names, self.kwargs = op, args, names, kwargs
        self.roots: list[Any] | None = None
        self.y: Any = None

    def begin(self) -> Any:
        """Call the function on torch's own tape."""
        self.y, self.roots = self.op.begin(moved(self.args), self.names, self.kwargs)
        return self.y

    def __call__(self, dy: Any) -> tuple[Any, ...]:
        if type(dy) is ZeroTangent:
            return (ZERO,) * len(self.args)
        if self.op.final:
            raise MissingRule(f"torch's higher derivatives of {self.op.__name__} may be wrong",
                              user_location(), self.op.cure)
        if tracer_of(leaves_of((dy, self.args))) is not None:
            return self.record(dy)
        if self.roots is None:
            self.begin()
        return self.cotangents(moved(self.args), vjp(self.op, self.y, self.roots or [], dy, create=False, again=True))

    def record(self, dy: Cotangent) -> tuple[Any, ...]:
        """Record the pullback as an operation, when it is called with proxies."""
        known = {"names": self.names, **self.kwargs} if self.names else self.kwargs
        dy = unwrap(mapped_cotangent(dy))
        parts = dy if isinstance(dy, tuple) and not any(isinstance(part, tuple) for part in dy) else None
        op = vjp_op(self.op, None if parts is None else len(parts))
        return self.cotangents(self.args, op(*((dy,) if parts is None else parts), *self.args, **known))

    def cotangents(self, args: tuple[Any, ...], dxs: Iterable[Any]) -> tuple[Any, ...]:
        """Return the cotangents of the arguments from those of their tensors; one that torch does not have raises when
        it is read.
        """
        reasons = self.op.reasons(args, self.names, self.kwargs)
        if self.op.order > 1 and any(name in self.op.__name__ for name in WRONG_THIRD_DERIVATIVES):
            first, count = (sum(map(has_derivative, tensors_in(part))) for part in (args[:self.op.first], args))
            reasons = reasons | dict.fromkeys(range(first, count), "torch's third derivatives of it are wrong")
        given = iter([Refused(reasons[i]) if i in reasons else dx for i, dx in enumerate(dxs)])
        parts = [cotangent(arg, given) for arg in args]
        return Cotangents(self.op.__name__, parts) if reasons else tuple(parts)


class Refused:
    """A cotangent that torch does not compute, with the reason."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class Cotangents(tuple[Any, ...]):
    """Cotangents of which some are missing: reading one of these raises MissingRule."""

    name: str

    def __new__(cls, name: str, parts: Iterable[Any]) -> Cotangents:
        (new := super().__new__(cls, parts)).name = name
        return new

    def __getitem__(self, i: Any) -> Any:
        found = super().__getitem__(i)
        for part in found if isinstance(found, tuple) else (found,):
            if isinstance(part, Refused):
                raise MissingRule(f"torch has no gradient of {self.name} by one of its arguments: {part.why}",
                                  user_location(), "tg.stop_gradient(x) as that argument, or its value by tg.value(x)")
        return found


def mapped_cotangent(dy: Cotangent) -> Any:
    """Return a cotangent with 0.0 for zero tangents."""
    if isinstance(dy, (tuple, list)):
        return tuple(map(mapped_cotangent, dy))
    return 0.0 if isinstance(dy, ZeroTangent) else dense(dy)


def cotangent(arg: Any, dxs: Iterator[Any]) -> Any:
    """Return the cotangent of an argument from those of its tensors, in order."""
    if isinstance(arg, (tuple, list)) and not isinstance(arg, torch.Size):
        return tuple(cotangent(part, dxs) for part in arg)
    if type(arg) is dict:
        return {key: cotangent(part, dxs) for key, part in arg.items()}
    return next(dxs) if is_tensor(arg) and has_derivative(arg) else ZERO


def vjp(op: TorchOp, y: Array, roots: list[Any], dy: Cotangent, create: bool, again: bool) -> list[Any]:
    """Return the cotangents of a call's roots, None for a root that is None."""
    given = list(flowing(y, unwrap(mapped_cotangent(dy))))
    pairs = [(out, cast(part, out).expand(out.shape)) for out, part in given if out.requires_grad]
    known = [root for root in roots if root is not None]
    if given and known and not pairs and not autograd_records():
        raise MissingRule(f"torch has no gradient of {op.__name__} here: its autograd does not record this call",
                          user_location(), "torch.no_grad() in place of torch.inference_mode()")
    if not pairs or not known:
        return [None if root is None else torch.zeros_like(root) for root in roots]
    try:
        with collectives_refused(op):
            found = iter(torch.autograd.grad([out for out, _ in pairs], known, [part for _, part in pairs],
                                             retain_graph=again, create_graph=create, allow_unused=True,
                                             materialize_grads=True))
    except RuntimeError as err:
        if not op.cure:
            raise
        raise MissingRule(f"torch has no gradient of {op.__name__}: {str(err).partition('. ')[0]}", user_location(),
                          op.cure) from None
    return [None if root is None else dense_tensor(next(found)) for root in roots]


@contextmanager
def collectives_refused(op: TorchOp) -> Iterator[None]:
    """Raise MissingRule if torch's own tape holds a collective without a gradient: torch passes on the cotangent of
    this process only, and just warns.
    """
    dist = torch.distributed
    if not (dist.is_available() and dist.is_initialized()):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*an autograd kernel was not registered", UserWarning)
        try:
            yield
        except UserWarning as err:
            what = str(err).partition(": an autograd")[0]
            raise MissingRule(f"torch has no gradient of {what}, which {op.__name__} calls", user_location(),
                              "use torch.distributed.nn.functional there: its all_reduce(x) has one") from None


def autograd_records() -> bool:
    """Return whether torch's autograd records calls; it does not in inference mode, nor in a dispatch mode, below it.
    """
    with torch.enable_grad():
        return bool(torch.ones((), requires_grad=True).neg().requires_grad)


def dense_tensor(x: Any) -> Any:
    """Return a tensor as a dense one: some gradients, such as an embedding's, are sparse."""
    return x if x.layout is torch.strided else x.to_dense()


def flowing(y: Array, dy: Cotangent) -> Iterator[tuple[Any, Any]]:
    """Yield the tensors of a value with their cotangents."""
    if is_tensor(y):
        if dy is not None and has_derivative(y):
            yield y, dy
    elif isinstance(y, (tuple, list)):
        for part, dpart in zip(y, dy if isinstance(dy, (tuple, list)) else [dy] * len(y)):
            yield from flowing(part, dpart)


def kernels(twice: bool) -> Any:
    """Return a context in which, if `twice`, torch's attention uses the kernel that has second derivatives."""
    if not twice:
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(SDPBackend.MATH)


@functools.cache
def vjp_op(op: TorchOp, count: int | None = None) -> TorchOp:
    """Return the op that computes the cotangents of a call's tensors from those of its value's parts."""
    def run(*given: Any, names: tuple[str, ...] = (), **kwargs: Any) -> tuple[Any, ...]:
        (dy, args), create = made.split(given), torch.is_grad_enabled()
        with torch.enable_grad():
            # a view made under no_grad requires a gradient, but is on no tape
            y, roots = op.begin(args, names, kwargs, create=create)
            dxs = vjp(op, y, roots, dy, create=create, again=create)
            # torch may return one tensor for both operands of a sum, the cotangent itself
            return tuple(dxs) if create else tuple([None if dx is None else dx.detach() for dx in dxs])
    made = TorchOp(f"{op.__name__}_vjp", run)
    made.cure, made.final, made.of, made.count, made.made = op.cure, bool(op.cure), op, count, ("vjp", op, count)
    made.order, made.first = op.order + 1, op.first + (count or 1)
    made.call = lambda args, names, kwargs: run(*args, names=names, **kwargs)  # type: ignore[method-assign]
    return made


def of_members(members: Members, *args: Any, **kwargs: Any) -> Any:
    """Batch a function of torch, or its pullback, by `torch.vmap`, which gives a function of torch again."""
    op = members.op
    absent = kwargs.get("absent", ())
    if op.refused or op.final or (op.of and (op.of.refused or absent)):  # type: ignore[attr-defined]
        return NotImplemented
    in_dims = tuple([0 if flag else None for flag in members.batched])
    return mapped_op(op, in_dims, absent)(*args, **kwargs)  # type: ignore[arg-type]


@functools.cache
def mapped_op(op: TorchOp, in_dims: tuple[int | None, ...], absent: tuple[int, ...]) -> TorchOp:
    """Return the op of a batch of calls of a function of torch. `in_dims` are the arguments' batch axes; the parts of
    its value at `absent` are None.
    """
    def run(*args: Any, **more: Any) -> Any:
        names = [*more][:len(in_dims) - len(args)]
        static = {name: value for name, value in more.items() if name not in names}

        def call(*values: Any) -> Any:
            count = len(values) - len(names)
            y = pure(op)(*values[:count], **dict(zip(names, values[count:])), **static)
            return tuple([part for part in y if part is not None]) if absent else y
        found = torch.vmap(call, in_dims)(*args, *[more[name] for name in names])
        parts = iter(found if absent else ())
        return tuple([None if i in absent else next(parts) for i in range(len(found) + len(absent))]
                     ) if absent else found
    run.__module__ = "torch"
    made = TorchOp(f"{op.__name__}_members", run)
    made.order, made.first = op.order, op.first
    made.made = ("members", op, in_dims, absent)
    return made


def pure(op: TorchOp) -> Callable[..., Any]:
    """Return an op's function in a form that torch's transforms take: pullbacks are computed by torch.func."""
    if op.of is None:
        return op.impl
    of = pure(op.of)

    def pulled(*given: Any, **kwargs: Any) -> tuple[Any, ...]:
        (dy, args), pairs = op.split(given), list[Any]()

        def by_those(*xs: Any) -> tuple[Any, ...]:
            rest = iter(xs)
            new, options = mapped(lambda x: next(rest) if has_derivative(x) else x, (args, kwargs))
            pairs[:] = flowing(of(*new, **options), dy)
            return tuple([part for part, _ in pairs])
        with kernels(twice=torch.is_grad_enabled()):
            ys, pull = torch.func.vjp(by_those, *filter(has_derivative, tensors_in((args, kwargs))))
        return pull(tuple([cast(part, y).expand(y.shape) for y, (_, part) in zip(ys, pairs)]))  # type: ignore[no-any-return]
    return pulled


MADE.update(vjp=vjp_op, members=lambda op, *settings: mapped_op(op, *map(tuple, settings)))
