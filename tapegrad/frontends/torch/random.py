"""torch's random numbers: drawn while tracing as torch draws them, and drawn afresh by a replay.

A call that draws is recorded with the state of the generator that it began with. What computes it again, as a pullback does, draws the same
numbers; a replay begins from a fresh state, or with `redraw=False` from the recorded one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tapegrad.tensors import device_of, is_tensor


class Source:
    """What a replay asks for a state to draw from."""

    def __init__(self, device: str) -> None:
        self.device = device

    def state(self) -> torch.Tensor:
        """Return the state of a generator seeded by the program's own, which moves on."""
        seed = int(torch.randint(0, 2 ** 62, ()))
        return torch.Generator(self.device).manual_seed(seed).get_state()

    def __repr__(self) -> str:
        return f"torch's generator on {self.device}"


SOURCES = functools.cache(Source)


def device_name(args: Any) -> str:
    """Return the device on which a call with these arguments draws."""
    device = device_of(x for x in args if is_tensor(x))
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


def seeded(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws from a given state, and leaves torch's own generator where it was, unless that began there too."""
    def run(begin: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        device = device_name(args)
        before = state(device)
        set_state(device, begin)
        try:
            return func(*args, **kwargs)
        finally:
            if before.numel() != begin.numel() or not torch.equal(before, begin.cpu()):
                set_state(device, before)
    run.__name__ = func.__name__
    return run
