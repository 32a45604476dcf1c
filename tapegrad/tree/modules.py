"""modules: torch.nn.Module among the arguments: its tensors are inputs, the rest is part of a tape's key."""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.sparse_tensors import is_sparse_tensor
from tapegrad.numbers.tensors import is_tensor
from tapegrad.tree.nodes import Leaf, Record

_PLAIN = frozenset([bool, int, float, complex, str, type(None)])
TABLES = ("_parameters", "_buffers", "_modules")
EMPTY = frozenset([dict, OrderedDict, list, set])
# hooks of state dicts, which compute nothing
_OF_FILES = frozenset(["_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                       "_load_state_dict_post_hooks"])


def is_module(x: Any) -> bool:
    """True for a torch.nn.Module; does not import torch."""
    nn = getattr(sys.modules.get("torch"), "nn", None)
    return nn is not None and issubclass(type(x), getattr(nn, "Module", ()))


def is_optimizer(x: Any) -> bool:
    """True for a torch.optim.Optimizer; does not import torch."""
    optim = sys.modules.get("torch.optim.optimizer")
    return optim is not None and issubclass(type(x), getattr(optim, "Optimizer", ()))


class Held(Leaf):
    """The position of a module's tensor or array without a gradient: a buffer, a frozen parameter, an attribute."""

    __slots__ = ()
    leafy = False

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        leaf = leaves[self.index]
        if is_proxy(leaf):
            leaf.__dict__["_held"] = True  # for a nested trace
        return leaf

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return None

    def key(self, seen: dict[int, int]) -> Any:
        return ("held", self.index)  # the tape has no gradient by it: a tensor frozen since then needs another one


class Reference:
    """A module's weak reference, to its own part or to another object; the computed values do not depend on it."""

    __slots__ = ("children", "original")
    leafy, volatile = False, True

    def __init__(self, original: Any, child: Any) -> None:
        self.original, self.children = original, [] if child is None else [child]

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return weakref.ref(self.children[0].build(leaves, memo)) if self.children else self.original

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return None

    def key(self, seen: dict[int, int]) -> Any:
        return ("reference",)


class Module(Record):
    """A torch.nn.Module. Its parts are named by their table (`_parameters` ..., or "" for `__dict__`) and their name.

    A rebuilt module has the same class and other tensors: `__init__` does not run, and no mutable state is shared. Its
    gradient is a dict like `named_parameters()`, None for frozen parameters, followed by other tensors that require a
    gradient (plain attributes, for example), to which torch would give one too.
    """

    __slots__ = ("extra", "forward", "hooks", "label", "plain")
    volatile = True

    def __init__(self, module: Any, label: str) -> None:
        refuse(module, label)
        super().__init__(module, [])
        self.leafy, self.label, self.hooks, self.forward = True, label, hooks_of_all(), forward_of(self.cls)
        self.extra: list[tuple[str, Leaf]] = []
        self.plain: dict[Any, Any] = {}

    def take_apart(self) -> Iterator[tuple[Any, str]]:
        """Yield the parts with their labels, parameters, buffers and submodules first; store plain values."""
        own = vars(self.prototype)
        for table in TABLES:
            for name, value in own.get(table, {}).items():
                if value is None:
                    self.plain[table, name] = None
                else:
                    self.names.append((table, name))
                    yield value, f"{self.label}.{name}" if self.label else name
        others = []
        for name, value in own.items():
            kind = type(value)
            if kind in _PLAIN or (kind is tuple and all(type(part) in _PLAIN for part in value)):
                self.plain[name] = value
            elif name not in TABLES and name not in _OF_FILES and not (kind in EMPTY and not value):
                others.append(name)
        for name in sorted(others):  # independent of the order of assignment
            self.names.append(("", name))
            yield own[name], f"{self.label}.{name}" if self.label else name

    def kind(self) -> tuple[Any, ...]:
        return (self.cls, self.forward, self.plain, self.hooks)

    def build(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        new: Any = object.__new__(self.cls)
        memo[id(self)] = new  # before its parts, which may refer to it
        own = vars(new)
        for name, value in vars(self.prototype).items():
            own[name] = type(value)() if type(value) in EMPTY and not value else value
        for table in (*TABLES, *_OF_FILES):
            if own.get(table):
                own[table] = type(own[table])(own[table])
        for (table, name), child in zip(self.names, self.children):
            value = child.build(leaves, memo)
            if table == "_parameters":
                value = memo.setdefault(id(child), as_parameter(value, child.leafy))
            (own[table] if table else own)[name] = value
        return new

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        return {name: leaf.mirror(leaves, memo) for name, leaf in self.named()}

    def named(self) -> Iterator[tuple[str, Any]]:
        """Yield the gradient's entries: the parameters, once each, as `named_parameters` does, then other tensors."""
        seen: set[int] = set()
        for node, prefix in self.below("", set()):
            for (table, name), child in zip(node.names, node.children):
                if table == "_parameters" and id(child) not in seen:
                    seen.add(id(child))
                    yield prefix + name, child
        for name, child in self.extra:
            if id(child) not in seen:
                yield name, child

    def below(self, prefix: str, seen: set[int]) -> Iterator[tuple[Module, str]]:
        """Yield this module and its submodules, each once, with the prefix of its parts' names."""
        if id(self) not in seen:
            seen.add(id(self))
            yield self, prefix
            for (table, name), child in zip(self.names, self.children):
                if table == "_modules":
                    yield from child.below(f"{prefix}{name}.", seen)


def difference(recorded: Module, given: Module) -> str:
    """Describe the first difference in the configuration of two modules, "" if there is none."""
    kinds = recorded.cls.__name__, given.cls.__name__
    if kinds[0] != kinds[1]:
        return f"{given.label} was a {kinds[0]}, and is now a {kinds[1]}"
    for key in {**recorded.plain, **given.plain}:
        was, now = recorded.plain.get(key, _NOTHING), given.plain.get(key, _NOTHING)
        if was != now:
            return f"{given.label}.{key[1] if type(key) is tuple else key} was {was!r}, and is {now!r}"
    for (_, name), was, now in zip(given.names, recorded.children, given.children):
        if isinstance(was, Leaf) and isinstance(now, Leaf) and was.leafy != now.leafy:
            before, after = ("trained" if each.leafy else "held constant" for each in (was, now))
            return f"{given.label}.{name} was {before}, and is now {after}"
    return ""


class _Nothing:
    def __repr__(self) -> str:
        return "not there"


_NOTHING = _Nothing()


def hooks_of_all() -> tuple[Any, ...]:
    """Return torch's global module hooks."""
    own = vars(sys.modules["torch.nn.modules.module"])
    return (*own["_global_forward_pre_hooks"].values(), *own["_global_forward_hooks"].values())


def forward_of(cls: type) -> Any:
    """Return the `forward` of a torch class, which a program may replace; None for others, whose code is checked."""
    return getattr(cls, "forward", None) if str(cls.__module__).startswith("torch.") else None


def is_proxy(x: Any) -> bool:
    """True for a traced tensor."""
    return hasattr(type(x), "_tracer") and is_tensor(x)


def as_parameter(x: Any, trained: bool) -> Any:
    """Return a tensor as a module parameter, so that isinstance(x, torch.nn.Parameter) holds."""
    if is_proxy(x):
        x.__dict__["_is_param"] = True
    elif is_tensor(x) and x.requires_grad:  # a leaf of torch's autograd graph
        x._is_param = True
    elif is_tensor(x):
        return sys.modules["torch"].nn.Parameter(x, requires_grad=trained)
    return x


def is_parameter(x: Any) -> bool:
    """True for a torch.nn.Parameter or a traced one."""
    return is_tensor(x) and isinstance(x, sys.modules["torch"].nn.Parameter)


def is_trained(x: Any) -> bool:
    """True for a leaf tensor that requires a gradient; it is one input under all its names."""
    return is_tensor(x) and not hasattr(type(x), "_tracer") and bool(x.requires_grad and x.is_leaf)


def trained(x: Any, parameter: bool) -> bool:
    """True for a module's tensor that has a gradient; for a proxy, the outer trace decides."""
    if is_proxy(x):
        return not x._held and (parameter or x._op.kind == "input")
    return bool(x.requires_grad and (parameter or x.is_leaf))


def refuse(module: Any, label: str) -> None:
    """Raise ArgumentError for a module whose gradient would differ from torch's or whose tensors cannot be replaced."""
    torch, own = sys.modules["torch"], vars(module)
    label = label or type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise ArgumentError(f"{label} is compiled by torch.jit, whose operations cannot be recorded", None,
                            "pass the module that it was made from")
    if own.get("_backward_hooks") or own.get("_backward_pre_hooks"):
        raise ArgumentError(f"{label} has a backward hook, which runs in torch's own autograd only", None,
                            "remove it, and use the returned gradient, or a gradient tape, instead")
    if any(base.__module__.startswith("torch.distributed.fsdp") for base in type(module).__mro__):
        raise ArgumentError(f"{label} is sharded by torch.distributed.fsdp, whose hooks gather parameters, free them "
                            "again, and store gradients in `grad`", None,
                            "use the unsharded module in each process, and torch.distributed for the sum of the "
                            "gradients; or parallelize_module, whose DTensors can be traced")
    for name, x in (own.get("_parameters") or {}).items():
        if isinstance(x, torch.nn.parameter.UninitializedTensorMixin):
            raise ArgumentError(f"{label}.{name} of a lazy {type(module).__name__} has no shape yet", None,
                                "call the module once on such arguments")
        if x is not None and is_sparse_tensor(x):
            raise ArgumentError(f"{label}.{name} is a sparse parameter", None,
                                "use a dense parameter of its values, and torch.sparse_coo_tensor in forward")
        if x is not None:
            refuse_hooks(x, f"{label}.{name}")


def has_hook(x: Any) -> bool:
    """True for a tensor with a gradient hook."""
    if is_proxy(x) or hasattr(type(x), "_sparse_parts"):
        return False
    return bool(x._backward_hooks or getattr(x, "_post_accumulate_grad_hooks", None))


def refuse_hooks(x: Any, label: str) -> None:
    """Raise ArgumentError for a tensor with a gradient hook, which changes its gradient in torch."""
    if has_hook(x):
        raise ArgumentError(f"{label} has a hook, which runs in torch's own autograd only", None,
                            "remove it, and apply it to the returned gradient")
