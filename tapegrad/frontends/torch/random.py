"""torch's random numbers: drawn while tracing as torch draws them, and drawn again by each replay.

A call that draws is recorded with the generator's state before it. A recomputation, as in a pullback, draws the same
numbers; a replay starts from the generator's state at that time, as the program would, or with `redraw=False` from the
recorded one.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import torch

from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import device_of, is_tensor
from tapegrad.ops import draw
from tapegrad.trace.observers import SEED_CURE, drawn, unrepeatable
from tapegrad.trace.recorder import TRACE_HOOKS, Tracer
from tapegrad.tree.copies import running


class Source:
    """The generator from which a replay draws: torch's own for a device, or the program's, in its current state.

    If the program's generator no longer exists, the program makes it anew in each run: draws start from its recorded
    state. So do draws from torch's own generator if the program has set its state.
    """

    def __init__(self, device: str, generator: Any = None, begin: Any = None) -> None:
        self.device, self.begin, self.seeded = device, begin, generator is not None and is_seeded(generator, begin)
        self.own: Any = None if generator is None else weakref.ref(generator)

    @property
    def generator(self) -> Any:
        """The program's generator; None if there is none."""
        return None if self.own is None else self.own()

    def state(self) -> torch.Tensor:
        """Return the state to draw from; a draw that starts from the generator's current state advances it."""
        generator = self.generator
        if generator is not None:
            return generator.get_state()  # type: ignore[no-any-return]
        return state(self.device) if self.begin is None else self.begin  # type: ignore[no-any-return]

    def rewind(self, value: torch.Tensor) -> None:
        """Set the generator back to an earlier state; traces do not take this for the program's doing."""
        generator = self.generator
        if generator is not None:
            generator.set_state(value)
        elif self.begin is None:
            set_state(self.device, value)
            for tracer in running.tracers:
                FOLLOWED[tracer.level].ended(self.device)

    @property
    def unclear(self) -> bool:
        """Whether the program set the state of a generator from which others may draw: torch's own, or one that still
        exists and had not drawn since it was seeded.
        """
        return self.begin is not None if self.own is None else self.seeded and self.generator is not None

    def __eq__(self, other: object) -> bool:
        """Return whether two traces drew from the same generator, or from two that they made with the same state."""
        if type(other) is not Source or self.device != other.device or (self.own is None) is not (other.own is None):
            return False
        if self.generator is not None or other.generator is not None:
            return self.generator is other.generator
        if self.begin is None or other.begin is None:
            return self.begin is other.begin
        return self.own is None or torch.equal(self.begin, other.begin)  # if torch's own: no tape is kept then

    def __hash__(self) -> int:
        return hash((self.device, self.own is None))

    def __repr__(self) -> str:
        return f"torch's generator on {self.device}" if self.own is None else "a torch.Generator"


def is_seeded(generator: Any, at: torch.Tensor) -> bool:
    """Return whether a state is that of a generator that was seeded and has not drawn since."""
    return bool(torch.equal(torch.Generator(generator.device).manual_seed(generator.initial_seed()).get_state(), at))


class GeneratorState:
    """A trace's knowledge of torch's own generators: their states after its last draws, and which of them the program
    has seeded itself.

    Numbers drawn after seeding are the same in every run, so no replay draws them afresh. An inner trace (such as a
    checkpoint's) starts with the knowledge of the trace `around` it, which takes over the inner one's at its end.
    """

    def __init__(self, around: GeneratorState | None = None) -> None:
        self.last, self.seeded, self.around = {"cpu": state("cpu")}, set[str](), around
        if around is not None and around.begins("cpu", self.last["cpu"]):
            self.seeded |= around.seeded

    def close(self) -> None:
        """Pass the knowledge on to the trace around."""
        if self.around is not None:
            self.around.seeded |= self.seeded
            self.around.last |= self.last

    def begins(self, device: str, at: torch.Tensor) -> bool:
        """Return whether a draw starts from a state that the program has set."""
        if device in self.last and not torch.equal(self.last[device], at):
            self.seeded.add(device)
        return device in self.seeded

    def ended(self, device: str) -> None:
        """Note the generator's state after a draw."""
        self.last[device] = state(device)


FOLLOWED: dict[int, GeneratorState] = {}  # by the level of the running tracer


class Default:
    """Replaces torch's own CPU generator in torch's module while traces run: it notes when the program sets the state.
    """

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __getattr__(self, name: str) -> Any:
        if name in ("manual_seed", "seed", "set_state"):
            if running.tracers:
                unrepeatable(f"it sets the state of torch's global generator ({name}), which other code draws from too",
                             SEED_CURE)
            for tracer in running.tracers:
                FOLLOWED[tracer.level].seeded.add("cpu")
        return getattr(self.generator, name)


class GeneratorPatch:
    """Counts the running traces; installs `Default` when the first begins, and torch's own generator when the last
    ends.
    """

    def __init__(self) -> None:
        self.lock, self.depth = threading.Lock(), 0

    def begin(self, tracer: Tracer) -> Callable[[], None]:
        """Begin a trace; return a function that ends it."""
        around = (FOLLOWED.get(other.level) for other in reversed(running.tracers) if other is not tracer)
        FOLLOWED[tracer.level] = GeneratorState(next(filter(None, around), None))  # one may predate torch
        with self.lock:
            if self.depth == 0:
                torch.random.default_generator = Default(torch.default_generator)
            self.depth += 1
        return functools.partial(self.end, tracer)

    def end(self, tracer: Tracer) -> None:
        """End a trace."""
        FOLLOWED.pop(tracer.level).close()
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                torch.random.default_generator = torch.default_generator


TRACE_HOOKS.append(GeneratorPatch().begin)
SOURCES = functools.cache(Source)


def device_name(args: Any) -> str:
    """Return the device on which a call with these arguments draws."""
    args = list(args)
    named = (torch.device(x) for x in args if isinstance(x, torch.device) or (type(x) is str and x.startswith("cuda")))
    device = device_of(x for x in args if is_tensor(x)) or next(named, None)
    return str(device) if device is not None and device.type == "cuda" and torch.cuda.is_available() else "cpu"


def state(device: str) -> torch.Tensor:
    """Return the state of torch's own generator for a device."""
    return torch.cuda.get_rng_state(device) if device.startswith("cuda") else torch.default_generator.get_state()


def set_state(device: str, value: torch.Tensor) -> None:
    """Set the state of torch's own generator for a device; a state recorded on another device is hashed to a seed."""
    if value.numel() != state(device).numel():
        seed = int.from_bytes(blake2b(value.cpu().numpy().tobytes(), digest_size=7).digest(), "little")
        value = torch.Generator(device).manual_seed(seed).get_state()
    if device.startswith("cuda"):
        torch.cuda.set_rng_state(value.cpu(), device)
    else:
        torch.default_generator.set_state(value.cpu())


def seeded(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws from a given state. If the generator's own state is another, it is restored. A draw
    from a generator of the program's uses the one of its `source`.
    """
    def run(begin: torch.Tensor, *args: Any, source: Source | None = None, **kwargs: Any) -> Any:
        if source is not None:
            generator = source.generator
            if generator is None or not torch.equal(generator.get_state(), begin):
                generator = torch.Generator(source.device)
                generator.set_state(begin.cpu())
            return func(*args, **{**kwargs, "generator": generator})
        device = device_name((*args, *kwargs.values()))
        before = state(device)
        set_state(device, begin)
        try:
            return func(*args, **kwargs)
        finally:
            apart = before.numel() != begin.numel()  # recorded on another device
            if apart or not torch.equal(before, begin.cpu()):
                set_state(device, before)
            if apart and torch.equal(begin.cpu(), state("cpu")):
                torch.rand(())  # advances the state, from which the next replay starts
    run.__name__ = func.__name__
    return run


class Drawn:
    """Detects whether a call draws random numbers, by the generator's state before it."""

    def __init__(self, args: Iterable[Any], generator: torch.Generator | None = None) -> None:
        self.device, self.generator = device_name(args), generator
        self.before = state(self.device) if generator is None else generator.get_state()

    def moved(self) -> bool:
        """Return whether the generator's state has changed since."""
        return not torch.equal(self.before,
                               state(self.device) if self.generator is None else self.generator.get_state())

    def rewind(self) -> None:
        """Restore the generator's state."""
        if self.generator is not None:
            self.generator.set_state(self.before)
        else:
            set_state(self.device, self.before)

    def begin(self, tracer: Tracer) -> tuple[Any, Source | None]:
        """Restore the state before the call and record it as an operation, which a replay evaluates anew; return it and
        the generator's source, None for torch's own.
        """
        self.rewind()
        drawn(tracer)
        if self.generator is not None:
            source = Source(str(self.generator.device), self.generator, self.before)
            return tracer.record(draw, (source,), {"method": "state"}, self.before), source
        followed = FOLLOWED.get(tracer.level)
        if followed is not None and followed.begins(self.device, self.before):
            return tracer.record(draw, (Source(self.device, None, self.before),), {"method": "state"},
                                 self.before), None
        return tracer.record(draw, (SOURCES(self.device),), {"method": "state"}, self.before), None

    def ended(self, tracer: Tracer, y: Array) -> Any:
        """Note the generator's state after the call; return the call's value."""
        if self.generator is None and tracer.level in FOLLOWED:
            FOLLOWED[tracer.level].ended(self.device)
        return y
