"""blocked_executor: elementwise chains computed in blocks that stay in the cache, by several threads.

A chain of functions of 10⁷ numbers, one whole array after the other, waits for memory; block by block it runs in the
cache, and a handful of temporaries of a block's size replace those of an array's. NumPy's ufuncs release the
interpreter lock, so that threads share the blocks.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.numpy.call_facts import masked, reduced, ufunc_of
from tapegrad.numbers.parallel import processors, together
from tapegrad.ops.fused import Fused
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Operation, Tape

# bytes that the arrays and temporaries of a block may take: they stay in the second-level cache, or just beyond
CACHE = 1 << 21
# elements of a block: smaller ones cost calls and handovers of the interpreter lock
SMALLEST, LARGEST = 1 << 13, 1 << 16
ALIGN = 64  # bytes, a cache line
THREADED = 1 << 17  # elements, from which on threads pay

# elements, from which on torch is imported for its functions: a second, which 30 calls of a sine earn back
LONG = 1 << 22

TORCH: dict[str, dict[np.ufunc, str]] = {
    "float64": {np.sin: "sin", np.cos: "cos", np.hypot: "hypot", np.logaddexp: "logaddexp"},
    "float32": {np.hypot: "hypot", np.logaddexp: "logaddexp"},
}
"""Functions that torch computes at least twice as fast as NumPy 2 with AVX-512, alike but for the last bit.

Left out though faster: fmod and remainder (nan for divisors below the smallest normal number), sign (0 for nan).
"""

Block = Callable[..., tuple[Any, ...]]


class Program(NamedTuple):
    """A group as a function of one block: `run(lo, hi, *arrays, *numbers, *outs, *temporaries)`;
    returns what its reductions give.

    `numbers` says which of the given numbers it takes, and as which dtype (None: as it is).
    """

    text: str
    run: Block
    numbers: list[tuple[int, Any]]
    temporaries: list[Any]
    torch: bool


class Blocks(Fused):
    """Executes a group by NumPy, block by block; `threads` share the blocks, and `torch` computes some
    functions where it is imported.
    """

    def __init__(self, tape: Tape, threads: bool = True, torch: bool = True) -> None:
        super().__init__(tape)
        self.threads, self.torch = threads, torch
        arrays = [x for x in (*self.given, *self.made) if x.has_axes]
        self.width = sum(x.itemsize for x in arrays) + sum(dtype.itemsize for dtype in self.program.temporaries)
        self.ufuncs = [found[0] for y in self.results if (found := reduced(y)) is not None]  # type: ignore[arg-type]
        self.means = [y.fn is ops.mean for y in self.results if not y.spec.has_axes]  # type: ignore[attr-defined]

    def prepare(self) -> None:
        """Import torch, where it is installed, if this group is long and has functions that torch computes faster."""
        if self.torch and any(x.spec.size >= LONG for x in self.inputs
                              if x.spec.has_axes) and any(map(_is_torch_faster, self.calls)):
            with suppress(ImportError, OSError):  # it is not there, or a library of its is broken: NumPy is
                import torch  # noqa: F401

    @cached_property
    def program(self) -> Program:
        """The group by NumPy alone."""
        return _Writer(self, {}, None).write()

    @cached_property
    def with_torch(self) -> Program:
        """The group with torch's functions where they are faster."""
        return _Writer(self, TORCH, sys.modules["torch"]).write()

    @property
    def source(self) -> str:
        """The text of the function that computes one block."""
        return self.program.text

    def execute(self, n: int, arrays: Sequence[Any], numbers: Sequence[Any], outs: Sequence[Any]) -> Sequence[Any]:
        """Compute the results, block by block."""
        job = _Job(self._choose(arrays), self.block_size, n, arrays, numbers, outs)
        job.run(processors() - 1 if self.threads and n >= THREADED else 0)
        for what in sorted(job.warned):
            warnings.warn(f"{what} encountered in {self.__name__}", RuntimeWarning, stacklevel=3)
        parts = zip(*job.reduced)
        sums = [ufunc.reduce(np.array(part)) for ufunc, part in zip(self.ufuncs, parts)]
        return [total / n if mean else total for total, mean in zip(sums, self.means)]

    @property
    def block_size(self) -> int:
        """The number of elements of a block, a power of two."""
        fits: int = 1 << max(CACHE // self.width, 1).bit_length() - 1
        return min(max(fits, SMALLEST), LARGEST)

    def _choose(self, arrays: Sequence[Any]) -> Program:
        # torch raises no floating-point errors, and takes no array that is read-only
        torch = (self.torch and is_torch_there() and "raise" not in np.geterr().values()
                 and all(x.flags.writeable for x in arrays))
        return self.with_torch if torch else self.program


def _is_torch_faster(op: Call) -> bool:
    """True for a call of a function in the table, of arrays of its result's dtype."""
    found = ufunc_of(op) in TORCH.get(getattr(op.spec.dtype, "name", ""), {})
    return found and all(isinstance(arg, Operation) and arg.spec.has_axes and arg.spec.dtype == op.spec.dtype
                         for arg in op.args)


class _Job:
    """One evaluation of a group: the blocks that are not begun yet, what their reductions gave,
    what there was to warn of.
    """

    def __init__(self, program: Program, size: int, n: int, arrays: Sequence[Any], numbers: Sequence[Any],
                 outs: Sequence[Any]) -> None:
        given = [numbers[i] if dtype is None else np.asarray(numbers[i], dtype) for i, dtype in program.numbers]
        self.program, self.args, self.size, self.n = program, (*arrays, *given, *outs), size, n
        self.total = -(-n // size)
        self.reduced: list[tuple[Any, ...]] = [()] * self.total
        self.begun, self.stopped = count(), False
        self.warned: set[str] = set()
        self.errors: dict[str, Any] = {**np.geterr(), "call": np.geterrcall()}
        if not {"call", "log"} & set(self.errors.values()):  # one warning of the caller's, instead of one of each block
            self.errors = {key: "call" if value == "warn" else value for key, value in self.errors.items()}
            self.errors["call"] = lambda what, flag: self.warned.add(what)

    def run(self, helpers: int) -> None:
        """Compute all blocks, together with as many other threads where those are idle; an
        error of one is raised here.
        """
        together(self.work, min(helpers, self.total - 1))

    def work(self) -> None:
        """Compute one block after the other, as long as there are any."""
        program, size = self.program, self.size
        memory = _scratch.take(size, program.temporaries)
        temporaries = _divided(memory, size, program.temporaries)
        try:
            # settings that each thread has for itself
            with np.errstate(**self.errors), torch_alone() if program.torch else nullcontext():
                while not self.stopped and (number := next(self.begun)) < self.total:
                    lo, hi = number * size, min((number + 1) * size, self.n)
                    given = temporaries if hi - lo == size else [part[: hi - lo] for part in temporaries]
                    self.reduced[number] = program.run(lo, hi, *self.args, *given)
        except BaseException:
            self.stopped = True
            raise
        finally:
            _scratch.memory = memory


class _Scratch(threading.local):
    """The memory of a thread's temporaries, which all groups share; taken away while it is used, since what
    reports an error may call another.
    """

    memory: Any = None

    def take(self, size: int, dtypes: Sequence[Any]) -> Any:
        """Return memory for an array of each dtype."""
        memory, self.memory = self.memory, None
        needed = sum(_room(size, dtype) for dtype in dtypes) + ALIGN
        return np.empty(needed, np.uint8) if memory is None or memory.nbytes < needed else memory


_scratch = _Scratch()


def _divided(memory: Any, size: int, dtypes: Sequence[Any]) -> list[Any]:
    """Return arrays that lie one behind the other."""
    at, found = -memory.ctypes.data % ALIGN, []
    for dtype in dtypes:
        found.append(np.ndarray((size,), dtype, memory, at))
        at += _room(size, dtype)
    return found


def _room(size: int, dtype: Any) -> int:
    return -(-size * int(dtype.itemsize) // ALIGN) * ALIGN


def is_torch_there() -> bool:
    """True if torch is imported, all of it, and can be kept on one thread."""
    torch = sys.modules.get("torch")
    return torch is not None and not getattr(torch.__spec__, "_initializing", False) and set_torch_threads() is not None


@cache
def set_torch_threads() -> Any:
    """Return the function by which a thread says how many threads torch's kernels may use when it calls them,
    None where there is none.

    torch's own `set_num_threads` says so for all threads of the process.
    """
    torch = sys.modules["torch"]
    folder = os.path.join(os.path.dirname(torch.__file__ or ""), "lib")
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        try:
            set_threads = ctypes.CDLL(os.path.join(folder, name)).omp_set_num_threads
        except (OSError, AttributeError):
            continue
        before = torch.get_num_threads()
        set_threads(1)
        heeded = torch.get_num_threads() == 1
        set_threads(before)
        return set_threads if heeded else None
    return None


@contextmanager
def torch_alone() -> Iterator[None]:
    """Keep what this thread asks of torch on this thread: a block is no work for several, who
    would wait for each other.
    """
    torch, set_threads = sys.modules["torch"], set_torch_threads()
    before = torch.get_num_threads()
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)


class _Writer:
    """Writes the function of one block, with as few temporaries as are alive at the same time."""

    def __init__(self, fused: Blocks, table: dict[str, dict[np.ufunc, str]], torch: Any) -> None:
        self.fused, self.table, self.torch = fused, table, torch
        self.names: dict[str, Any] = {"copyto": np.copyto}
        if torch is not None:
            self.names["from_numpy"] = torch.from_numpy
        self.text: dict[Operation, str] = {}
        self.numbers: list[tuple[int, Any]] = []
        self.temporaries: list[Any] = []
        self.free: dict[Any, list[str]] = defaultdict(list)
        self.lines: list[str] = []

    def write(self) -> Program:
        fused = self.fused
        arrays = [x for x in fused.inputs if x.spec.has_axes]
        self.rest = [x for x in fused.inputs if not x.spec.has_axes]
        self.outs = {y: f"y{i}" for i, y in enumerate(y for y in fused.results if y.spec.has_axes)}
        self.text.update({x: f"x{i}" for i, x in enumerate(arrays)})
        dead = last_uses(fused.tape)
        for op in fused.calls:
            self.call(op, [fused.tape.ops[number - 1] for number in dead[op.id] if number != op.id])
        sliced = [self.text[x] for x in arrays] + list(self.outs.values())
        parameters = [*(self.text[x] for x in arrays), *(f"n{i}" for i in range(len(self.numbers))),
                      *self.outs.values(), *(f"t{i}" for i in range(len(self.temporaries)))]
        reductions = [self.text[y] for y in fused.results if not y.spec.has_axes]
        text = "\n    ".join([f"def block(lo, hi, {', '.join(parameters)}):",
                              *(f"{name} = {name}[lo:hi]" for name in sliced), *self.lines,
                              f"return ({''.join(f'{name}, ' for name in reductions)})"]) + "\n"
        exec(compile(text, f"<tapegrad {fused.__name__}>", "exec"), self.names)
        return Program(text, self.names["block"], self.numbers, self.temporaries, "from_numpy(" in text)

    def call(self, op: Call, dying: list[Operation]) -> None:
        found = reduced(op)
        if found is not None:
            name = self.bind(found[0].reduce, f"{found[0].__name__}_reduce")
            self.text[op] = f"r{op.id}"
            self.lines.append(f"r{op.id} = {name}({self.text[op.args[0]]})")
            self.release(dying)
        elif (chosen := masked(op)) is not None:
            self.mask(op, chosen[0], chosen[1], dying)
        elif op.fn is ops.where:
            condition, a, b = [self.operand(op, arg, boxed=False) for arg in op.args]
            out = self.place(op)  # before what dies here is free: it is written before all of that is read
            self.lines += [f"copyto({out}, {b})", f"copyto({out}, {a}, where={condition})"]
            self.release(dying)
        else:
            self.ufunc(op, dying)

    def mask(self, op: Call, x: Any, chosen: bool, dying: list[Operation]) -> None:
        """Write where(c, x, 0.0) as a product of bits; see `masked`."""
        condition, given = self.text[op.args[0]], self.text[x]
        if not chosen:
            condition = f"{self.bind(np.logical_not, 'logical_not')}({condition})"
        self.release(dying)
        out, bits = self.place(op), self.bind(np.dtype(f"i{op.spec.itemsize}"), "bits")
        multiply = self.bind(np.multiply, "multiply")
        self.lines.append(f"{multiply}({given}.view({bits}), {condition}, {out}.view({bits}))")

    def ufunc(self, op: Call, dying: list[Operation]) -> None:
        ufunc = ufunc_of(op)
        assert ufunc is not None
        args = op.args[: ufunc.nin]
        boxed = len(args) == 2 and ufunc not in (np.power, np.float_power, np.ldexp)
        texts = [self.operand(op, arg, boxed) for arg in args]
        self.release(dying)
        out = self.place(op)
        if self.table and _is_torch_faster(op):
            name = self.table[op.spec.dtype.name][ufunc]
            given = ", ".join(f"from_numpy({text})" for text in texts)
            kernel = self.bind(getattr(self.torch, name), f"torch_{name}")
            self.lines.append(f"{kernel}({given}, out=from_numpy({out}))")
        else:
            named = "out=" if ufunc in (np.maximum, np.minimum) else ""
            self.lines.append(f"{self.bind(ufunc, ufunc.__name__)}({', '.join(texts)}, {named}{out})")

    def operand(self, op: Call, arg: Any, boxed: bool) -> str:
        """Return the text of an argument; numbers become 0-d arrays once, which spares each block a conversion."""
        if isinstance(arg, Operation) and arg.spec.has_axes:
            return self.text[arg]
        x = spec_of(arg)
        weak = x.is_python
        others = [spec_of(other).dtype for other in op.args if spec_of(other).has_axes]
        dtype = None if weak else x.dtype
        if weak and boxed and x.type in (int, float) and others[0].kind == "f":
            dtype = others[0]  # that of the array it meets
        if not isinstance(arg, Operation):
            return self.bind(arg if dtype is None else np.asarray(arg, dtype), "number")
        key = (self.rest.index(arg), dtype)  # type: ignore[arg-type]
        if key not in self.numbers:
            self.numbers.append(key)
        return f"n{self.numbers.index(key)}"

    def bind(self, value: Any, hint: str) -> str:
        name, number = hint, 1
        while name in self.names and self.names[name] is not value:
            number += 1
            name = f"{hint}_{number}"
        self.names[name] = value
        return name

    def place(self, op: Call) -> str:
        """Return where a value goes: the array of a result, or a temporary."""
        if op in self.outs:
            self.text[op] = self.outs[op]
        elif self.free[op.spec.dtype]:
            self.text[op] = self.free[op.spec.dtype].pop()
        else:
            self.text[op] = f"t{len(self.temporaries)}"
            self.temporaries.append(op.spec.dtype)
        return self.text[op]

    def release(self, dying: list[Operation]) -> None:
        for op in dying:
            if self.text.get(op, "").startswith("t"):
                self.free[op.spec.dtype].append(self.text[op])
