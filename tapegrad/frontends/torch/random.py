"""torch's random numbers: drawn while tracing as torch draws them, and drawn afresh by a replay.

A call that draws is recorded with the state of the generator that it began with. What computes it again, as a pullback does, draws the same
numbers; a replay begins from a fresh state, or with `redraw=False` from the recorded one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tapegrad.context import Tracer
from tapegrad.ops import draw
from tapegrad.tensors import device_of, is_tensor


class Source:
    """What a replay asks for a state to draw from: torch's own generator of a device, or one of the program's."""

    def __init__(self, device: str, generator: Any = None) -> None:
        self.device, self.generator = device, generator

    def state(self) -> torch.Tensor:
        """Return the state of a generator seeded by the program's, which moves on."""
        own = {} if self.generator is None else {"generator": self.generator, "device": self.generator.device}
        seed = int(torch.randint(0, 2 ** 62, (), **own))
        return torch.Generator(self.device).manual_seed(seed).get_state()

    def __repr__(self) -> str:
        return f"torch's generator on {self.device}" if self.generator is None else "a torch.Generator"


class Followed:
    """What a trace knows of torch's own generators: where its last draw left them, and which the program has seeded itself.

    The numbers that come after that are the program's own, the same in every run: no replay draws them afresh.
    """

    def __init__(self) -> None:
        self.last, self.seeded = {"cpu": state("cpu")}, set[str]()

    def begins(self, device: str, at: torch.Tensor) -> bool:
        """Return whether a draw begins from a state that the program has set."""
        if device in self.last and not torch.equal(self.last[device], at):
            self.seeded.add(device)
        return device in self.seeded

    def ended(self, device: str) -> None:
        """Note where a draw has left the generator."""
        self.last[device] = state(device)


FOLLOWED: dict[int, Followed] = {}  # by the level of the tracer, while it runs


SOURCES = functools.cache(Source)


def device_name(args: Any) -> str:
    """Return the device on which a call with these arguments draws."""
    args = list(args)
    named = (torch.device(x) for x in args if isinstance(x, torch.device) or (type(x) is str and x.startswith("cuda")))
    device = device_of(x for x in args if is_tensor(x)) or next(named, None)
    return str(device) if device is not None and device.type == "cuda" else "cpu"


def state(device: str) -> torch.Tensor:
    """Return the state of torch's own generator of a device."""
    return torch.cuda.get_rng_state(device) if device.startswith("cuda") else torch.default_generator.get_state()


def set_state(device: str, value: torch.Tensor) -> None:
    """Set the state of torch's own generator of a device; of one recorded on another device a seed is made."""
    if value.numel() != state(device).numel():
        value = torch.Generator(device).manual_seed(int(value.cpu().long().sum()) * 2654435761 % 2 ** 62).get_state()
    if device.startswith("cuda"):
        torch.cuda.set_rng_state(value.cpu(), device)
    else:
        torch.default_generator.set_state(value.cpu())


def seeded(func: Callable[..., Any], own: bool = False) -> Callable[..., Any]:
    """Return a function that draws from a given state, and leaves torch's own generator where it was, unless that began there too.

    What was drawn from a generator of the program's `own` is drawn from a new one.
    """
    def run(begin: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        device = device_name((*args, *kwargs.values()))
        if own:
            generator = torch.Generator(device)
            generator.set_state(begin.cpu())
            return func(*args, **{**kwargs, "generator": generator})
        before = state(device)
        set_state(device, begin)
        try:
            return func(*args, **kwargs)
        finally:
            if before.numel() != begin.numel() or not torch.equal(before, begin.cpu()):
                set_state(device, before)
    run.__name__ = func.__name__
    return run


class Drawn:
    """Finds out whether a call draws: what the generators were before it."""

    def __init__(self, args: Iterable[Any], generator: torch.Generator | None = None) -> None:
        self.device, self.generator = device_name(args), generator
        self.before = state(self.device) if generator is None else generator.get_state()

    def moved(self) -> bool:
        """Return whether the generator has moved on since."""
        return not torch.equal(self.before, state(self.device) if self.generator is None else self.generator.get_state())

    def rewind(self) -> None:
        """Set the generator back."""
        if self.generator is not None:
            self.generator.set_state(self.before)
        else:
            set_state(self.device, self.before)

    def begin(self, tracer: Tracer) -> Any:
        """Return the state that the call began with as an operation, which a replay draws afresh; torch's own generator is set back to it."""
        if self.generator is not None:
            # the program's own has moved on, as it must
            return tracer.record(draw, (Source(str(self.generator.device), self.generator),), {"method": "state"}, self.before)
        self.rewind()
        followed = FOLLOWED.get(tracer.level)
        if followed is not None and followed.begins(self.device, self.before):
            return self.before
        return tracer.record(draw, (SOURCES(self.device),), {"method": "state"}, self.before)

    def ended(self, tracer: Tracer, y: Any) -> Any:
        """Note that the call has drawn; return its value."""
        if self.generator is None and tracer.level in FOLLOWED:
            FOLLOWED[tracer.level].ended(self.device)
        return y
