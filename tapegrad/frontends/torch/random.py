"""torch's random numbers: drawn while tracing as torch draws them, and drawn afresh by a replay.

A call that draws is recorded with the state of the generator that it began with. What computes it again, as a pullback
does, draws the same numbers; a replay begins from the state that the generator has then, as the program would, or with
`redraw=False` from the recorded one.
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
from tapegrad.trace.recorder import LISTENERS, Tracer
from tapegrad.tree.copies import running


class Source:
    """Where a replay draws: torch's own generator of a device, or one of the program's, from
    the state that it has then.

    A generator that is gone was made by the program, which makes it again in each run: what is drawn of it begins where
    it did. So does what is drawn of torch's own, if the program has set its state.
    """

    def __init__(self, device: str, generator: Any = None, begin: Any = None) -> None:
        self.device, self.begin, self.seeded = device, begin, generator is not None and is_seeded(generator, begin)
        self.own: Any = None if generator is None else weakref.ref(generator)

    @property
    def generator(self) -> Any:
        """The program's generator, None where there is none."""
        return None if self.own is None else self.own()

    def state(self) -> torch.Tensor:
        """Return the state to draw from; the call that draws moves the generator on, if it begins there."""
        generator = self.generator
        if generator is not None:
            return generator.get_state()  # type: ignore[no-any-return]
        return state(self.device) if self.begin is None else self.begin  # type: ignore[no-any-return]

    def rewind(self, value: torch.Tensor) -> None:
        """Set the generator back to a state that it had; no trace takes that for the program's doing."""
        generator = self.generator
        if generator is not None:
            generator.set_state(value)
        elif self.begin is None:
            set_state(self.device, value)
            for tracer in running.tracers:
                FOLLOWED[tracer.level].ended(self.device)

    @property
    def unclear(self) -> bool:
        """Whether the program has seeded a generator that others draw from too, or may have: in each run anew, or
        nobody has drawn from it yet.
        """
        return self.begin is not None if self.own is None else self.seeded and self.generator is not None

    def __eq__(self, other: object) -> bool:
        """Return whether two traces drew from one generator, or from two that they made and that began alike."""
        if type(other) is not Source or self.device != other.device or (self.own is None) is not (other.own is None):
            return False
        if self.generator is not None or other.generator is not None:
            return self.generator is other.generator
        if self.begin is None or other.begin is None:
            return self.begin is other.begin
        return self.own is None or torch.equal(self.begin, other.begin)  # of torch's own no tape is kept then

    def __hash__(self) -> int:
        return hash((self.device, self.own is None))

    def __repr__(self) -> str:
        return f"torch's generator on {self.device}" if self.own is None else "a torch.Generator"


def is_seeded(generator: Any, at: torch.Tensor) -> bool:
    """Return whether a state is that of a generator which was seeded, and has not drawn since."""
    return bool(torch.equal(torch.Generator(generator.device).manual_seed(generator.initial_seed()).get_state(), at))


class Followed:
    """What a trace knows of torch's own generators: where its last draw left them, and which the
    program has seeded itself.

    The numbers that come after that are the program's own, the same in every run: no replay draws them afresh. What the
    trace `around` knows holds in a trace inside, of a checkpoint, say, and what that has drawn afterwards.
    """

    def __init__(self, around: Followed | None = None) -> None:
        self.last, self.seeded, self.around = {"cpu": state("cpu")}, set[str](), around
        if around is not None and around.begins("cpu", self.last["cpu"]):
            self.seeded |= around.seeded

    def close(self) -> None:
        """Tell the trace around it."""
        if self.around is not None:
            self.around.seeded |= self.seeded
            self.around.last |= self.last

    def begins(self, device: str, at: torch.Tensor) -> bool:
        """Return whether a draw begins from a state that the program has set."""
        if device in self.last and not torch.equal(self.last[device], at):
            self.seeded.add(device)
        return device in self.seeded

    def ended(self, device: str) -> None:
        """Note where a draw has left the generator."""
        self.last[device] = state(device)


FOLLOWED: dict[int, Followed] = {}  # by the level of the tracer, while it runs


class Default:
    """Stands for torch's own generator on the CPU in torch's module, while traces run: a trace hears whether
    its program sets the state.
    """

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __getattr__(self, name: str) -> Any:
        if name in ("manual_seed", "seed", "set_state"):
            if running.tracers:
                unrepeatable(f"it sets the state of torch's own generator ({name}), from which others draw too",
                             SEED_CURE)
            for tracer in running.tracers:
                FOLLOWED[tracer.level].seeded.add("cpu")
        return getattr(self.generator, name)


class Hearing:
    """Counts the traces that run, and puts `Default` in its place when the first begins, torch's own
    back when the last ends.
    """

    def __init__(self) -> None:
        self.lock, self.depth = threading.Lock(), 0

    def begin(self, tracer: Tracer) -> Callable[[], None]:
        """Begin a trace; return how to end it."""
        around = (FOLLOWED.get(other.level) for other in reversed(running.tracers) if other is not tracer)
        FOLLOWED[tracer.level] = Followed(next(filter(None, around), None))  # one may be older than torch
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


LISTENERS.append(Hearing().begin)
SOURCES = functools.cache(Source)


def device_name(args: Any) -> str:
    """Return the device on which a call with these arguments draws."""
    args = list(args)
    named = (torch.device(x) for x in args if isinstance(x, torch.device) or (type(x) is str and x.startswith("cuda")))
    device = device_of(x for x in args if is_tensor(x)) or next(named, None)
    return str(device) if device is not None and device.type == "cuda" and torch.cuda.is_available() else "cpu"


def state(device: str) -> torch.Tensor:
    """Return the state of torch's own generator of a device."""
    return torch.cuda.get_rng_state(device) if device.startswith("cuda") else torch.default_generator.get_state()


def set_state(device: str, value: torch.Tensor) -> None:
    """Set the state of torch's own generator of a device; of one recorded on another device a seed is made."""
    if value.numel() != state(device).numel():
        seed = int.from_bytes(blake2b(value.cpu().numpy().tobytes(), digest_size=7).digest(), "little")
        value = torch.Generator(device).manual_seed(seed).get_state()
    if device.startswith("cuda"):
        torch.cuda.set_rng_state(value.cpu(), device)
    else:
        torch.default_generator.set_state(value.cpu())


def seeded(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws from a given state, and leaves the generator where it was,
    unless that began there too.

    What was drawn from a generator of the program's is drawn from that of its `source`.
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
                torch.rand(())  # the next replay begins from the state after this
    run.__name__ = func.__name__
    return run


class Drawn:
    """Finds out whether a call draws: what the generators were before it."""

    def __init__(self, args: Iterable[Any], generator: torch.Generator | None = None) -> None:
        self.device, self.generator = device_name(args), generator
        self.before = state(self.device) if generator is None else generator.get_state()

    def moved(self) -> bool:
        """Return whether the generator has moved on since."""
        return not torch.equal(self.before,
                               state(self.device) if self.generator is None else self.generator.get_state())

    def rewind(self) -> None:
        """Set the generator back."""
        if self.generator is not None:
            self.generator.set_state(self.before)
        else:
            set_state(self.device, self.before)

    def begin(self, tracer: Tracer) -> tuple[Any, Source | None]:
        """Return the state that the call began with as an operation, which a replay asks anew, and the generator's
        source, if it is not torch's own.

        The generator is set back to it.
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
        """Note that the call has drawn; return its value."""
        if self.generator is None and tracer.level in FOLLOWED:
            FOLLOWED[tracer.level].ended(self.device)
        return y
