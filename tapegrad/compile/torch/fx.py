"""fx: conversion of tapes to torch.fx graphs and back."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from tapegrad.compile.source_names import Names
from tapegrad.compile.torch.kernel import arguments, name_of, nest, replaced
from tapegrad.compile.torch.results import result_of
from tapegrad.compile.torch.tape_function import lowered
from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import count_of
from tapegrad.ops import getfield, pack
from tapegrad.replay.facts import verify
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape
from tapegrad.tree.flatten import flatten


def to_fx(tape: Tape, device: Any = None) -> GraphModule:
    """Return a torch.fx GraphModule of the torch calls to which a tape is lowered; see `Tape.to_fx`."""
    return module_of(lowered(tape, device, loops=False))


def module_of(tape: Tape) -> GraphModule:
    """Return a lowered tape as a GraphModule, with opaque calls as submodules."""
    return _Writer(tape).module


class _Writer:
    def __init__(self, tape: Tape) -> None:
        self.graph, self.root = Graph(), torch.nn.Module()
        names = Names(lambda value: None)  # makes identifiers of labels such as `m.weight`
        inputs = tape.inputs[1:]
        self.nodes: dict[Operation, Any] = {x: self.graph.placeholder(names.fresh(x.label or "x")) for x in inputs}
        for op in tape.ops[1:]:
            if type(op) is Constant and isinstance(op.val, torch.Tensor):
                self.root.register_buffer(f"constant{op.id}", op.val)
                self.nodes[op] = self.graph.get_attr(f"constant{op.id}")
            elif type(op) is Constant:
                self.nodes[op] = op.val
            elif type(op) is not Input and op is not tape.result:
                self.step(op)
        self.graph.output(result_of(tape, list(map(self.arg, tape.result.args))))
        self.module = GraphModule(self.root, self.graph, tape.name or "Tape")

    def arg(self, x: Any) -> Any:
        return replaced(x, self.nodes.__getitem__)

    def step(self, op: Operation) -> None:
        node = self.nodes[op] = self.call(op)
        if (at := op.where) is not None and isinstance(node, Node):
            node.stack_trace = f'File "{at.file}", line {at.line}, in {at.function}\n    {at.source}'

    def inside(self, op: Operation, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        held = {at: x for at, x in (*enumerate(args), *kwargs.items()) if not _is_writable(x)}
        self.root.add_module(f"inside{op.id}", _Inside(fn, held))
        return self.graph.call_module(f"inside{op.id}", tuple([x for at, x in enumerate(args) if at not in held]),
                                      {key: x for key, x in kwargs.items() if key not in held})

    def call(self, op: Any) -> Any:
        if type(op) is Guard:
            return self.inside(op, _holds(op), self.arg(op.args), {})
        if op.fn is getfield:
            return self.graph.call_function(operator.getitem, self.arg(op.args))
        fn, name, (args, kwargs) = op.fn.fn, op.fn.__name__, self.arg(arguments(op))
        if fn is nest:
            return args[0]
        if op.fn.inside or not all(map(_is_writable, (*args, *kwargs.values()))):
            return self.inside(op, fn, args, kwargs)
        if isinstance(fn, torch._ops.OpOverload):
            return self.graph.call_function(fn, args, kwargs)
        if getattr(torch.Tensor, name, None) is fn:
            return self.graph.call_method(name, args, kwargs)
        return self.graph.call_function(fn, args, kwargs)


class _Inside(torch.nn.Module):  # type: ignore[misc]
    """An opaque call. It holds, by position or name, the arguments that a graph's code cannot express, such as a random
    generator.
    """

    def __init__(self, fn: Callable[..., Any], held: dict[Any, Any]) -> None:
        super().__init__()
        self.fn, self.held = fn, held

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given = iter(args)
        places = sum(type(key) is int for key in self.held) + len(args)
        return self.fn(*[self.held[at] if at in self.held else next(given) for at in range(places)],
                       **{key: x for key, x in self.held.items() if type(key) is str}, **kwargs)


_WRITABLE = frozenset([str, int, float, bool, complex, type(None), type(...), range, torch.dtype, torch.device,
                       torch.layout, torch.memory_format])


def _is_writable(x: Any) -> bool:
    """Return whether a graph's code can express an argument."""
    if isinstance(x, Node) or type(x) in _WRITABLE:
        return True
    if isinstance(x, (tuple, list)):
        return all(map(_is_writable, x))
    if type(x) is slice:
        return all(map(_is_writable, (x.start, x.stop, x.step)))
    return type(x) is dict and all(type(key) is str and _is_writable(part) for key, part in x.items())


def _holds(guard: Guard) -> Callable[[Any], None]:
    return lambda value: verify(guard, value)


# -- from graphs to tapes


def from_fx(module: GraphModule, *args: Any) -> Tape:
    """Return the tape of a GraphModule, recorded by running it on tensors, with a call for each node.

    Parameters and buffers become constants. A call of a method, or with lists or keywords, is wrapped in a function of
    its operations. The tape can be played, printed, lowered and compiled.

    >>> import torch
    >>> tape = from_fx(torch.fx.symbolic_trace(lambda x, y: torch.sin(x) * y + 1), torch.ones(2), torch.ones(2))
    >>> [op.fn.__name__ for op in tape if op.kind == "call"]
    ['sin', 'mul', 'add']
    >>> tape.play(torch.zeros(2), torch.ones(2))
    tensor([1., 1.])
    """
    with torch.no_grad():
        return _Reader(module).tape_of(args)


class _Reader(Interpreter):  # type: ignore[misc]
    """Interprets a module on operations, recording a call for each node."""

    def tape_of(self, args: tuple[Any, ...]) -> Tape:
        names = [node.target for node in self.graph.nodes if node.op == "placeholder"]
        if len(names) != len(args):
            raise ArgumentError(f"the module takes {count_of(len(names), 'argument')}, and got {len(args)}")
        self.tape = Tape(label=type(self.module).__name__)
        given = [self.tape.push(Input(x, name)) for name, x in zip(names, args)]
        # the nested structure that the module returns
        result = self.graph.process_outputs(self.run(*given, enable_io_processing=False))
        self.tape.result = result if isinstance(result, Operation) else self.packed(result)
        return self.tape.check()  # type: ignore[no-any-return]

    def packed(self, result: Any) -> Operation:
        leaves: list[Any] = []
        values = torch.utils._pytree.tree_map(lambda x: x.val if isinstance(x, Operation) else x, result)
        parts = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, Operation)]
        return self.tape.push(Call(pack, tuple(parts), {"into": flatten(values, "", leaves, [], shared=False)},
                                   origin=Origin("result")))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = self.fetch_attr(target)
        return self.tape.push(Constant(found.detach())) if isinstance(found, torch.Tensor) else found

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.called(target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.called(getattr(torch.Tensor, target), args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.called(self.fetch_attr(target), args, kwargs)

    def called(self, fn: Any, args: Any, kwargs: Any) -> Any:
        """Record a call; operations in lists and keywords become arguments of a RawCall that restores the nesting."""
        flat, spec = torch.utils._pytree.tree_flatten((args, kwargs))
        places = [i for i, x in enumerate(flat) if isinstance(x, Operation)]
        fixed = [None if isinstance(x, Operation) else x for x in flat]
        whole = RawCall(fn, fixed, spec, places)
        plain = args and not kwargs and all(isinstance(x, Operation) or not isinstance(x, (list, tuple, dict))
                                            for x in args)
        if plain and not any(isinstance(x, slice) for x in args):
            return self.tape.push(Call(RawCall(fn, [], None, []), tuple(args)))
        return self.tape.push(Call(whole, tuple(flat[i] for i in places)))


class RawCall:
    """A torch function with its static arguments filled in, called with the values of the operations."""

    def __init__(self, fn: Callable[..., Any], fixed: list[Any], spec: Any, places: list[int]) -> None:
        # `__wrapped__` shows the function, which may write in place
        self.__wrapped__, self.fixed, self.spec, self.places = fn, fixed, spec, places
        # lowering may record its torch calls, except for an opaque call without operations, which is repeated each time
        self.raw = spec is None or bool(places) or not isinstance(fn, _Inside)
        self.__name__ = name_of(fn) or type(fn).__name__

    def __call__(self, *given: Any) -> Any:
        if self.spec is None:
            return self.__wrapped__(*given)
        flat = list(self.fixed)
        for place, x in zip(self.places, given):
            flat[place] = x
        args, kwargs = torch.utils._pytree.tree_unflatten(flat, self.spec)
        return self.__wrapped__(*args, **kwargs)
