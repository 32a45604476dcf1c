"""loop_kernel: writes a loop of small tensors as one CUDA kernel, in which one thread block computes all iterations.

If an iteration computes a few hundred numbers, launching an operator takes longer than its arithmetic. In the kernel,
carried values are in shared memory, each call of the body is a few lines of C, each thread computes some elements, and
the threads synchronise only where one reads what another wrote.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from inspect import signature
from typing import Any

import torch

from tapegrad.compile.native.values import dense
from tapegrad.compile.torch.kernel import arguments, is_kernel
from tapegrad.compile.torch.kernel_layout import (
    VIEWS,
    Ref,
    Unwritten,
    axes_of,
    clash,
    expand,
    index,
    order,
    permute,
    slice_,
    t,
    unsqueeze,
)
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.loop import Loop, range_of
from tapegrad.tape.tape import Call, Constant, Input, Operation, operands

TYPES = {torch.float64: "double", torch.float32: "float", torch.int64: "long long", torch.bool: "bool"}
"""C types of the dtypes that a kernel supports."""
SHARED = 48 << 10  # bytes of shared memory of a block on every device
WIDEST = 256  # most threads of a block
WORTH = 4096  # numbers that one block computes in the time of a launch
AT_ONCE = 32  # partial sums of a long sum, each by a thread
LONGEST = 2000  # most operations in a body, which compile in about a second

POINTWISE: dict[str, str] = {
    "add": "{0} + {alpha}{1}", "sub": "{0} - {alpha}{1}", "rsub": "{1} - {alpha}{0}", "mul": "{0} * {1}",
    "div": "{0} / {1}", "true_divide": "{0} / {1}", "neg": "-{0}", "reciprocal": "1 / {0}", "square": "{0} * {0}",
    "multiply_no_nan": "{0} == 0 ? 0 : {0} * {1}", "divide_no_nan": "{0} == 0 ? 0 : {0} / {1}",
    "product_no_nan": "{0} == 0 || {1} == 0 ? 0 : {0} * {1}", "addcmul": "{0} + {value}{1} * {2}",
    "addcdiv": "{0} + {value}{1} / {2}", "tanh_backward": "{0} * (1 - {1} * {1})",
    "sigmoid_backward": "{0} * (1 - {1}) * {1}", "sigmoid": "1 / (1 + exp(-{0}))", "relu": "{0} <= 0 ? 0 : {0}",
    "threshold_backward": "{1} <= {2} ? 0 : {0}", "isnan": "{0} != {0}",
    "masked_fill": "{1} ? {2} : {0}", "where": "{0} ? {1} : {2}", "abs": "fabs({0})", "rsqrt": "1 / sqrt({0})",
    "pow": "pow({0}, {1})", "hypot": "hypot({0}, {1})", "atan2": "atan2({0}, {1})",
    "maximum": "{0} != {0} || {0} > {1} ? {0} : {1}", "minimum": "{0} != {0} || {0} < {1} ? {0} : {1}",
    **dict.fromkeys(("clone", "contiguous", "_to_copy"), "{0}"), **dict.fromkeys(("copy", "fill"), "{1}"), "zero": "0",
    **dict.fromkeys(("sign", "sgn"), "({0} > 0) - ({0} < 0)"), **dict.fromkeys(("logical_not", "bitwise_not"), "!{0}"),
    **dict.fromkeys(("logical_and", "bitwise_and"), "{0} && {1}"),
    **dict.fromkeys(("logical_or", "bitwise_or"), "{0} || {1}"),
    **{name: f"{{0}} {sign} {{1}}" for name, sign in
       {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!="}.items()},
    **{name: f"{name}({{0}})" for name in
       ("exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "asin", "acos", "atan", "asinh", "acosh",
        "atanh", "exp2", "expm1", "log2", "log10", "log1p", "erf", "erfc", "floor", "ceil", "trunc")}}
"""C expressions of an element of the result, by function name, with the arguments' elements converted to one type."""
OURS = {"multiply": "mul", "add": "add", "subtract": "sub", "divide": "div", "power": "pow", "negative": "neg",
        "multiply_no_nan": "multiply_no_nan", "divide_no_nan": "divide_no_nan", "product_no_nan": "product_no_nan"}
"""torch's names of tapegrad's own functions, which are called with numbers that vary with the iteration."""
POWERS = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}
"""The functions that torch computes for some exponents."""
ON_BOOLS = {"logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not"}
CONVERTED = {"copy", "fill", "masked_fill"}
COMPARED = {"gt", "lt", "ge", "le", "eq", "ne", "isnan"}
ON_INTEGERS = {"add", "sub", "rsub", "mul", "neg", "where", "clone", "copy", "_to_copy", *COMPARED}
ADDED = {"addmm", "addmv"}
MATRIX = {"mm", "mv", "dot", "vdot", *ADDED}


class Text:
    """Writes the kernel of a loop with torch calls in its body. Raises Unwritten for anything unsupported.

    The kernel takes the loop's arguments with the numbers in `taken`, sequences as one tensor each, and the
    `constants`. `made` are the shapes and dtypes of its results; each collected sequence is one tensor.
    """

    def __init__(self, loop: Loop, width: int = 0) -> None:
        self.loop, self.constants, self.lines = loop, list[torch.Tensor](), list[str]()
        self.refs: dict[Any, Ref] = {}
        self.shared = 0  # bytes of shared memory
        self.places: list[str] = []  # declarations of shared memory
        self.fresh: dict[str, int] = {}  # memory written since the last barrier, with its thread order, see `order`
        self.read: dict[str, int] = {}  # memory read since then
        steps, given, listed, carried = loop.parts()
        self.width = width or self.threads()
        used = {x for op in loop.body.ops for x in operands(op)}
        self.taken = [i for i, x in enumerate([*given, *listed, *carried]) if x in used or x in carried]
        pointers = [self.pointer(x, f"x{i}") for i, x in enumerate([*given, *listed, *carried]) if i in self.taken]
        made = [*map(self.spec, carried), *[((loop.count, *shape), dtype) for shape, dtype in
                                            map(self.spec, loop.results[len(carried):])]]
        self.made: list[tuple[tuple[int, ...], torch.dtype]] = made
        outs = [f"{TYPES[dtype]}* __restrict__ y{i}" for i, (_, dtype) in enumerate(made)]
        first = [self.refs[x] for x in carried]
        for x in carried:
            self.refs[x] = self.memory(*self.spec(x))
        self.copies([(self.refs[x], ref) for x, ref in zip(carried, first)])
        self.meet()
        before, self.lines = self.lines, []
        self.numbers(steps)
        for x in listed:
            if x in self.refs:
                self.refs[x] = self.refs[x]._replace(offset=f"k * {self.refs[x].size}")
        for op in loop.body.ops[1:]:
            if type(op) is Constant:
                self.constant(op)
            elif type(op) is not Input and op is not loop.body.result:
                self.write(op)
        results = [self.ref(part) for part in loop.results]
        self.collect(results[len(carried):], len(carried))
        self.hand_on([self.refs[x] for x in carried], results[:len(carried)])
        self.meet()
        body, self.lines = self.lines, []
        self.copies([(Ref(f"y{i}", dtype, shape, dense(shape)), self.refs[x])
                     for i, (x, (shape, dtype)) in enumerate(zip(carried, made))])
        constants = [f"const {TYPES[x.dtype]}* __restrict__ c{i}" for i, x in enumerate(self.constants)]
        run = f"{loop.count - 1} - r" if loop.reverse else "r"
        meet = "__syncwarp()" if self.width == 32 else "__syncthreads()"
        self.text = "\n".join([
            f'extern "C" __global__ void loop({", ".join([*pointers, *constants, *outs])}) {{',
            "  extern __shared__ double shared[];", "  const int t = threadIdx.x;", *self.places, *before,
            f"  for (long long r = 0; r < {loop.count}; r++) {{", f"  const long long k = {run};", *body, "  }",
            *self.lines, "}", ""]).replace("MEET", meet)
        if self.shared > SHARED:
            raise Unwritten("too much memory for a block")

    def threads(self) -> int:
        """Return the number of threads. Raises Unwritten if an iteration has so much work that torch is faster."""
        sizes, work, launches = [1], 0, 0
        if len(self.loop.body.ops) > LONGEST:
            raise Unwritten("a loop body that is too long")
        for op in self.loop.body.ops:
            if is_kernel(op):
                if op.fn.effects.draws:  # type: ignore[attr-defined]
                    raise Unwritten("random numbers")
                size = math.prod(op.spec.shape or ())
                if op.fn.__name__ not in VIEWS:  # type: ignore[attr-defined]
                    sizes.append(size)
                    inner = max([math.prod(x.spec.shape or ()) for x in op.args if isinstance(x, Operation)], default=1)
                    by_sums = op.fn.__name__ in MATRIX  # type: ignore[attr-defined]
                    work, launches = work + (size * inner if by_sums else max(size, inner)), launches + 1
        if work > WORTH * max(launches, 1):
            raise Unwritten("too much work for one block")
        return min(WIDEST, -(-max(sizes) // 32) * 32)

    def spec(self, x: Any) -> tuple[tuple[int, ...], torch.dtype]:
        """Return the shape and the dtype of a tensor."""
        if not isinstance(x, Operation) or x.spec.type is not torch.Tensor or x.spec.dtype not in TYPES:
            raise Unwritten("a value that is not a tensor of a supported dtype")
        return tuple(x.spec.shape or ()), x.spec.dtype  # type: ignore[return-value]

    def pointer(self, x: Input, name: str) -> str:
        shape, dtype = self.spec(x)
        self.refs[x] = Ref(name, dtype, shape, dense(shape), place=name)
        return f"const {TYPES[dtype]}* __restrict__ {name}"

    def memory(self, shape: tuple[int, ...], dtype: torch.dtype) -> Ref:
        """Allocate shared memory for a tensor."""
        name = f"m{len(self.places)}"
        self.places.append(f"  {TYPES[dtype]}* const {name} = ({TYPES[dtype]}*)((char*)shared + {self.shared});")
        self.shared += -(-math.prod(shape) * dtype.itemsize // 8) * 8
        return Ref(name, dtype, shape, dense(shape), place=name)

    def numbers(self, steps: Sequence[Input]) -> None:
        """Define the numbers that vary with the iteration: as expressions of the loop counter, or as tables."""
        for x, values in zip(steps, self.loop.steps):
            if (found := range_of(values)) is not None:
                self.refs[x] = Ref(f"({literal(found.start)} + {literal(found.step)} * k)", torch.int64, (), ())
            elif all(type(value) is type(values[0]) for value in values) and type(values[0]) in (int, float):
                table = torch.tensor(values, dtype=torch.int64 if type(values[0]) is int else torch.float64)
                self.refs[x] = Ref(f"{self.added(table)}[k]", table.dtype, (), ())
            else:
                raise Unwritten("steps of several types")

    def added(self, x: torch.Tensor) -> str:
        self.constants.append(x)
        return f"c{len(self.constants) - 1}"

    def constant(self, op: Constant) -> None:
        if is_tensor(op.val):
            (shape, dtype), name = self.spec(op), self.added(op.val)
            self.refs[op] = Ref(name, dtype, shape, dense(shape), place=name)

    # -- calls

    def ref(self, x: Any) -> Any:
        """Return the Ref of an argument, or its value if it is static."""
        if type(x) in (list, tuple):
            return [self.ref(part) for part in x]
        if type(x) is Constant and x not in self.refs:
            return x.val
        if isinstance(x, Operation):
            if x not in self.refs:
                raise Unwritten(x.name)
            return self.refs[x]
        return x

    def write(self, op: Operation) -> None:
        """Write one operation of the body."""
        if not is_kernel(op):
            raise Unwritten("a guard" if type(op) is not Call else getattr(op.fn, "__name__", "a call"))
        name = op.fn.__name__  # type: ignore[attr-defined]
        if op.fn.inside:  # type: ignore[attr-defined]
            if name not in OURS:
                raise Unwritten(f"{name}, whose body is not available")
            name = OURS[name]
        given, options = arguments(op)  # type: ignore[arg-type]
        args = [self.ref(x) for x in given]
        options = {key: x for key, x in options.items() if x is not None}
        if name in VIEWS:
            parts = [part for x in args[1:] for part in (x if type(x) is list else [x])]
            if options or any(type(part) not in (int, type(None)) for part in parts[:1 if name == "select" else None]):
                raise Unwritten(name)
            many = name in ("permute", "expand", "view", "reshape", "_unsafe_view") and type(args[1]) is int
            self.refs[op] = VIEWS[name](args[0], args[1:]) if many else VIEWS[name](*args)
            return
        into = None
        if op.fn.writes:  # type: ignore[attr-defined]
            into, name = args[0], name[:-1]
            elsewhere = [x for x in args[1:] if isinstance(x, Ref) and x.place == into.place]
            if op.fn.writes != (0,) or (elsewhere and (name in ADDED or any(x != into for x in elsewhere))):  # type: ignore[attr-defined]
                raise Unwritten(f"{name}, which reads other elements of the tensor that it writes to")
        if name in OURS.values() and not any(isinstance(x, Ref) and not x.is_number for x in args) and not options:
            self.refs[op] = self.number(name, args)
            return
        if name in POINTWISE:
            self.refs[op] = self.pointwise(op, name, args, options, into)
            return
        if into is not None and name not in ADDED:
            raise Unwritten(name)
        writer = getattr(self, f"call_{name}", None)
        try:
            signature(writer).bind(into, *args, **options)  # type: ignore[arg-type]
        except TypeError:  # no such method, or not with these options
            raise Unwritten(name) from None
        self.refs[op] = out = into or self.memory(*self.spec(op))
        writer(out, *args, **options)  # type: ignore[misc]

    def number(self, name: str, args: Sequence[Any]) -> Ref:
        """Write a function of Python's numbers."""
        whole = name != "div" and all((x.dtype if isinstance(x, Ref) else type(x)) in (torch.int64, int) for x in args)
        if whole and name not in ON_INTEGERS:
            raise Unwritten(name)
        kind = torch.int64 if whole else torch.float64
        text = POINTWISE[name].format(*[self.element(x, (), "0", kind) for x in args], alpha="")
        return Ref(f"({text})", kind, (), ())

    def pointwise(self, op: Operation, name: str, args: list[Any], options: dict[str, Any], into: Ref | None) -> Ref:
        """Write an elementwise function."""
        shape, dtype = self.found(op, args, into)
        factors = {key: f"{literal(options.pop(key))} * " if key in options else "" for key in ("alpha", "value")}
        if set(options) - {"memory_format", "dtype", "device"} or any(type(x) is list for x in args):
            raise Unwritten(name)
        if (name == "add" and len(args) > 2) or (name == "div" and not dtype.is_floating_point):
            raise Unwritten(name)
        if name == "pow" and type(args[1]) in (int, float) and args[1] in POWERS:
            name, args = POWERS[args[1]], args[:1]
        kind = torch.bool if name in ON_BOOLS else self.compared(args) if name in COMPARED else dtype
        if kind is torch.int64 and name not in ON_INTEGERS:
            raise Unwritten(name)
        kinds = {x.dtype if isinstance(x, Ref) else type(x) for x in args}
        if (name in ON_BOOLS and kinds - {torch.bool, bool}) or (kind is torch.bool and factors["alpha"]):
            raise Unwritten(name)
        if into is not None and name not in (*COMPARED, *CONVERTED) and any(
                self.compared([into, x]) is not into.dtype for x in args):
            raise Unwritten(f"{name} in another dtype than the tensor that it writes to")
        condition = {"where": 0, "masked_fill": 1}.get(name)
        out = self.memory(shape, dtype) if into is None else into
        if out.shape != shape:
            raise Unwritten("a write into a tensor of another shape")

        def element(i: str) -> str:
            texts = [self.element(x, shape, i, torch.bool if number == condition else kind)
                     for number, x in enumerate(args)]
            return POINTWISE[name].format(*texts, **factors)
        self.each(out, [x for x in args if isinstance(x, Ref)], element)
        return out

    def found(self, op: Operation, args: list[Any], into: Ref | None) -> tuple[tuple[int, ...], torch.dtype]:
        """Return the shape and dtype of a call's result."""
        if into is not None:
            return into.shape, into.dtype
        if op.spec.type is torch.Tensor or len(args) != 2:
            return self.spec(op)
        refs, kind = [x for x in args if isinstance(x, Ref)], self.compared(args)
        if {x.dtype for x in refs if not x.is_number} != {kind}:  # NumPy's promotion may differ from torch's
            raise Unwritten("a tensor with an operand of another type")
        return torch.broadcast_shapes(*[x.shape for x in refs]), kind

    def compared(self, args: list[Any]) -> torch.dtype:
        """Return the dtype to which torch promotes two arguments."""
        def like(x: Any) -> Any:
            if not isinstance(x, Ref):
                return x
            return torch.zeros((), dtype=x.dtype).item() if x.is_number else torch.empty(
                x.shape, dtype=x.dtype, device="meta")
        kind = torch.result_type(like(args[0]), like(args[-1]))
        if kind not in TYPES:
            raise Unwritten("numbers of another type")
        return kind

    def element(self, x: Any, shape: tuple[int, ...], i: str, dtype: torch.dtype) -> str:
        """Write element `i` of an argument broadcast to a shape, converted to a dtype."""
        if not isinstance(x, Ref):
            return f"({TYPES[dtype]}){literal(x)}"
        text = x.base if x.is_number else f"{x.base}[{index(x, shape, i)}]"
        return text if x.dtype is dtype else f"({TYPES[dtype]})({text})"

    def each(self, out: Ref, given: Sequence[Ref], element: Callable[[str], str], loop: str = "",
             far: Sequence[Ref] = (), apart: bool = False) -> None:
        """Write the computation of each element of a tensor, after a barrier if a thread would read or write what
        another wrote, or write what another read.

        A thread has the same element numbers in all tensors of one size. The `loop` before an element may read any
        element of the tensors in `far`. With `apart`, the memory was not written since the last barrier.
        """
        own = order(out, out)
        reads = [(x.place, order(x, out)) for x in given if x.place] + [(x.place, 0) for x in far if x.place]
        if any(clash(self.fresh, *x) for x in reads) or clash(self.read, out.place, own) \
                or (not apart and clash(self.fresh, out.place, own)):
            self.meet()
        line = f"{{ {loop}{out.base}[{index(out, out.shape, 'i')}] = {element('i')}; }}"
        if out.size <= self.width:
            self.lines.append(f"  if (const int i = t; i < {out.size}) {line}")
        else:
            self.lines.append(f"  for (int i = t; i < {out.size}; i += {self.width}) {line}")
        if out.place:
            self.fresh[out.place] = 0 if apart else own
        for place, way in reads:
            self.read[place] = way if self.read.get(place, way) == way else 0

    def meet(self) -> None:
        """Write a barrier."""
        self.fresh.clear()
        self.read.clear()
        if not self.lines or self.lines[-1] != "  MEET;":
            self.lines.append("  MEET;")

    def copies(self, pairs: Sequence[tuple[Ref, Ref]], apart: bool = False) -> None:
        for to, x in pairs:
            self.each(to, [x], partial(self.element, x, to.shape, dtype=to.dtype), apart=apart)

    def collect(self, results: Sequence[Any], first: int) -> None:
        """Write the collected results of an iteration."""
        for number, x in enumerate(results, first):
            if not isinstance(x, Ref):
                raise Unwritten("a number collected in each run of the loop")
            self.copies([(Ref(f"y{number}", x.dtype, x.shape, dense(x.shape), f"k * {x.size}"), x)])

    def hand_on(self, carried: Sequence[Ref], results: Sequence[Any]) -> None:
        """Write the carried values of the next iteration; one stored where another is written goes by other memory."""
        pairs = [(to, x) for to, x in zip(carried, results) if x != to]
        if not all(isinstance(x, Ref) and x.shape == to.shape for to, x in pairs):
            raise Unwritten("a number carried to the next run of the loop")
        places = {to.place for to in carried}
        for number, (to, x) in enumerate(pairs):
            if x.place in places:
                pairs[number] = to, self.memory(x.shape, x.dtype)
                self.copies([(pairs[number][1], x)])
        self.copies(pairs)

    # -- functions of more than one element

    def call_cat(self, out: Ref, parts: list[Ref], axis: int = 0) -> None:
        begin = 0
        for part in parts:  # each to its own part of the result
            if part.size:  # torch accepts a tensor of shape (0,) beside any others
                piece = slice_(out, axis, begin, begin + part.shape[axis])
                self.copies([(piece, part)], apart=True)
                begin += part.shape[axis]

    def call_stack(self, out: Ref, parts: list[Ref], axis: int = 0) -> None:
        self.call_cat(out, [unsqueeze(part, axis % len(out.shape)) for part in parts], axis)

    def call_flip(self, out: Ref, x: Ref, axes: Sequence[int]) -> None:
        for axis in axes_of(x, axes):
            back = tuple([-step if i == axis else step for i, step in enumerate(x.strides)])
            x = x._replace(strides=back, offset=f"{x.offset} + {(x.shape[axis] - 1) * x.strides[axis]}")
        self.copies([(out, x)])

    def call_sum(self, out: Ref, x: Ref, axes: Any = None, keepdim: bool = False, dtype: Any = None,
                 end: str = "s", more: str = "s += {0}") -> None:
        if not x.size:
            raise Unwritten("a sum of no elements")
        gone = axes_of(x, None if axes == [] else axes)
        kept = permute(x, [i for i in range(len(x.shape)) if i not in gone] + gone)
        rows = kept.shape[:len(x.shape) - len(gone)]
        into = out._replace(shape=rows, strides=dense(rows))
        self.sums(into, [kept], kept.shape, end.format(x.size // out.size), more)

    call_mean = partialmethod(call_sum, end="s / {0}")
    call_amax = partialmethod(call_sum, more="{{ const auto v = {0}; s = v != v || v > s ? v : s; }}")
    call_amin = partialmethod(call_sum, more="{{ const auto v = {0}; s = v != v || v < s ? v : s; }}")

    def call_zeros_like(self, out: Ref, *_: Any, **__: Any) -> None:
        self.each(out, [], lambda i: "0")

    call_zeros = call_new_zeros = call_zeros_like

    def call_ones_like(self, out: Ref, *_: Any, **__: Any) -> None:
        self.each(out, [], lambda i: "1")

    def call_mm(self, out: Ref, a: Ref, b: Ref, *to: Ref) -> None:
        (m, k), n = a.shape, b.shape[1]
        self.sums(out, [expand(unsqueeze(a, 1), (m, n, k)), expand(unsqueeze(t(b), 0), (m, n, k))], (m, n, k), to=to)

    def call_mv(self, out: Ref, a: Ref, b: Ref, *to: Ref) -> None:
        self.sums(out, [a, expand(b, a.shape)], a.shape, to=to)

    def call_addmm(self, out: Ref, to: Ref, a: Ref, b: Ref) -> None:
        self.call_mm(out, a, b, to)

    def call_addmv(self, out: Ref, to: Ref, a: Ref, b: Ref) -> None:
        self.call_mv(out, a, b, to)

    def call_dot(self, out: Ref, a: Ref, b: Ref) -> None:
        self.sums(out, [a, b], a.shape)

    call_vdot = call_dot

    def sums(self, out: Ref, given: Sequence[Ref], shape: tuple[int, ...], end: str = "s",
             more: str = "s += {0}", to: Sequence[Ref] = ()) -> None:
        """Write sums of products along the last axes, added to `to`; `more` may be another reduction. One thread
        computes each sum, several one that is long.
        """
        m = math.prod(shape) // max(out.size, 1)
        kind, adds = TYPES[out.dtype], more.startswith("s +=")

        def total(into: Ref, begin: str, last: str, step: int, end: str) -> None:
            def element(j: str) -> str:
                return " * ".join([self.element(x, shape, j, out.dtype) for x in given])
            first = "0" if adds else element(f"({begin})")
            self.each(into, to, lambda i: " + ".join([*[self.element(x, into.shape, i, x.dtype) for x in to], end]),
                      far=given, loop=f"{kind} s = {first}; for (int j = {begin}; j < {last}; j += {step}) "
                                      f"{more.format(element('j'))}; ")
        if out.size == 1 and m > AT_ONCE:
            parts = self.memory((AT_ONCE,), out.dtype)
            to, then = (), to
            total(parts, "i", str(m), AT_ONCE, "s")
            given, shape, m, to = [parts], (AT_ONCE,), AT_ONCE, then
        total(out, f"i * {m}", f"i * {m} + {m}", 1, end)


def literal(x: Any) -> str:
    """Write a number in C.

    >>> literal(2), literal(0.5), literal(float("inf")), literal(True)
    ('2', '0.5', '(1.0 / 0.0)', '1')
    """
    if type(x) in (bool, int) and abs(x) < 1 << 63:
        return str(int(x))
    if type(x) is not float:
        raise Unwritten("a number")
    if math.isfinite(x):
        return repr(x)
    return "(0.0 / 0.0)" if math.isnan(x) else f"({'-' * (x < 0)}1.0 / 0.0)"


class LoopKernel:
    """A loop's compiled kernel as a function of the arguments that its Text takes. It is launched on the current stream
    without synchronisation, so that a CUDA graph can capture it.
    """

    __name__ = "loop_kernel"

    def __init__(self, loop: Loop, device: torch.device) -> None:
        self.text, self.device = Text(loop), device
        self.constants = [x.contiguous().to(device) for x in self.text.constants]
        with torch.cuda.device(device):
            self.launch = torch.cuda._compile_kernel(self.text.text, "loop")  # type: ignore[attr-defined]

    def __call__(self, *args: Any) -> tuple[torch.Tensor, ...]:
        given = [x.contiguous() for x in args]
        made = [torch.empty(shape, dtype=dtype, device=self.device) for shape, dtype in self.text.made]
        with torch.cuda.device(self.device):
            self.launch((1, 1, 1), (self.text.width, 1, 1), [*given, *self.constants, *made], self.text.shared)
        return tuple(made)


def loop_kernel(loop: Loop, device: torch.device) -> LoopKernel | None:
    """Return the kernel of a loop with torch calls in its body; None if it must be left to torch's operators."""
    if device.type != "cuda" or not hasattr(torch.cuda, "_compile_kernel"):
        return None
    if any(torch.device(x.spec.device).type != "cuda" for x in loop.body.inputs[1:] if x.spec.type is torch.Tensor):
        return None  # a 0-d tensor on the host, which torch's operators accept
    try:
        return LoopKernel(loop, device)
    except Unwritten:
        return None
    except (OSError, RuntimeError, ImportError):  # no compiler or headers installed
        return None
