"""Cases of the Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.cases.case import Case, draw

NORMS = ("backward", "ortho", "forward")


def pairs(*shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Real and imaginary parts."""
    return [(draw(*shape, seed=1), draw(*shape, seed=2)) for shape in shapes]


def parts(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose complex output comes as its real and its imaginary part, which torch's gradients are compared by."""
    def split(*args: Any) -> Any:
        y = fn(*args)
        return (y.real, y.imag) if str(y.dtype).rpartition(".")[2].startswith("complex") else y
    return split


def transform(name: str, fn: Callable[..., Any], torch: Callable[..., Any], real: bool = False, ops: tuple[str, ...] = (),
              least: int = 1) -> list[Case]:
    """One transform: of real numbers (if `real`) or complex ones, cropped and padded, along any axis, by every norm."""
    lift = (lambda f: (lambda x: f(x))) if real else (lambda f: (lambda a, b: f(a + 1j * b)))
    some = (lambda *shapes: [(draw(*shape, seed=1),) for shape in shapes]) if real else pairs
    given = {"ops": ops or (name,)}
    return [
        Case(name, parts(lift(fn)), some((5,), (6,), (2, 4), (least,)), torch=parts(lift(torch)), errors=[(some(())[0], IndexError)], **given),
        Case(f"{name}:strided", lift(lambda z: fn(z.T[::-1, ::2])), some((5, 3)), **given),
        Case(f"{name}:crop", parts(lift(lambda z: fn(z, 3))), some((5,), (2, 7)), torch=parts(lift(lambda z: torch(z, 3))), **given),
        Case(f"{name}:pad", parts(lift(lambda z: fn(z, n=8))), some((3,), (2, 3)), torch=parts(lift(lambda z: torch(z, n=8))), **given),
        Case(f"{name}:odd", parts(lift(lambda z: fn(z, 7, axis=0))), some((3, 2), (9, 2)), torch=parts(lift(lambda z: torch(z, 7, 0))), **given),
        Case(f"{name}:axis", parts(lift(lambda z: fn(z, axis=np.int64(-2)))), some((2, 4, 3), (3, 4, 2)),
             torch=parts(lift(lambda z: torch(z, dim=-2))), **given),
        *[Case(f"{name}:{norm}", parts(lift(lambda z, norm=norm: fn(z, 5, 0, norm))), some((4, 2), (6, 2)),
               torch=parts(lift(lambda z, norm=norm: torch(z, 5, 0, norm))), **given) for norm in NORMS],
        Case(f"{name}:norm of None", lift(lambda z: fn(z, norm=None)), some((4,)), **given),
        Case(f"{name}:refused", lift(lambda z: fn(z, norm="none")), [], errors=[(some((4,))[0], ValueError)], **given),
        Case(f"{name}:no points", lift(lambda z: fn(z, 0)), [], errors=[(some((4,))[0], ValueError)], **given),
    ]


def several(name: str, fn: Callable[..., Any], torch: Callable[..., Any], real: bool = False, ops: tuple[str, ...] = ()) -> list[Case]:
    """A transform along several axes."""
    lift = (lambda f: (lambda x: f(x))) if real else (lambda f: (lambda a, b: f(a + 1j * b)))
    some = (lambda *shapes: [(draw(*shape, seed=1),) for shape in shapes]) if real else pairs
    given = {"ops": ops}
    return [
        Case(name, parts(lift(fn)), some((3, 4), (2, 3, 3)), torch=parts(lift(torch)), **given),
        Case(f"{name}:sizes", parts(lift(lambda z: fn(z, (4, 3), axes=(0, -1)))), some((3, 4), (5, 2)),
             torch=parts(lift(lambda z: torch(z, (4, 3), (0, -1)))), **given),
        Case(f"{name}:whole", parts(lift(lambda z: fn(z, (-1, 5), axes=[1, 0], norm="ortho"))), some((3, 4)),
             torch=parts(lift(lambda z: torch(z, (-1, 5), [1, 0], "ortho"))), **given),
        Case(f"{name}:unequal", lift(lambda z: fn(z, (3,), axes=(0, 1))), [], errors=[(some((3, 4))[0], ValueError)], **given),
    ]


def shift(name: str, fn: Callable[..., Any], torch: Callable[..., Any]) -> list[Case]:
    some = [(draw(5),), (draw(3, 4),)]
    return [
        Case(name, fn, some, ops=("roll",), torch=torch),
        Case(f"{name}:axis", lambda x: fn(x, 1), [(draw(3, 5),)], ops=("roll",), torch=lambda x: torch(x, 1)),
        Case(f"{name}:axes", lambda x: fn(x, axes=[0, -1]), [(draw(3, 5),)], ops=("roll",), torch=lambda x: torch(x, (0, -1))),
    ]


CASES = [
    *transform("fft", np.fft.fft, torch.fft.fft), *transform("ifft", np.fft.ifft, torch.fft.ifft),
    *transform("fft:real", np.fft.fft, torch.fft.fft, real=True, ops=("fft",)),
    *transform("ifft:real", np.fft.ifft, torch.fft.ifft, real=True, ops=("ifft",)),
    *transform("rfft", np.fft.rfft, torch.fft.rfft, real=True),
    *transform("irfft", np.fft.irfft, torch.fft.irfft, least=2),
    *transform("irfft:real", np.fft.irfft, torch.fft.irfft, real=True, ops=("irfft",), least=2),
    *transform("hfft", np.fft.hfft, torch.fft.hfft, ops=("irfft",), least=2),
    *transform("ihfft", np.fft.ihfft, torch.fft.ihfft, real=True, ops=("rfft",)),
    Case("rfft:complex", lambda a, b: np.fft.rfft(a + 1j * b), [], errors=[(pairs((4,))[0], TypeError)]),
    Case("fft:complex", np.fft.fft, [(draw(4) + 1j * draw(4, seed=5),)]), Case("irfft:complex", np.fft.irfft, [(draw(4) + 1j * draw(4, seed=5),)]),
    Case("fft:integers", lambda n, x: np.fft.fft(n) * x, [(draw(4, dtype=int), 1.5)]),
    Case("fft:length", lambda x, n: np.fft.fft(x, n), [(draw(4), 3), (draw(4), 6)]),
    Case("rfft:spectrum", lambda x: np.fft.rfft(x).real ** 2 + np.fft.rfft(x).imag ** 2, [(draw(6),), (draw(2, 5),)]),
    Case("irfft:filter", lambda x, h: np.fft.irfft(np.fft.rfft(x, 9) * np.fft.rfft(h, 9), 9), [(draw(6), draw(4))], ops=("rfft", "irfft")),
    Case("rfft:frequencies", lambda x, d: np.fft.rfft(x) * np.fft.rfftfreq(6, d) + np.fft.fftfreq(4, d), [(draw(6), 0.5)]),
    *several("fft2", np.fft.fft2, torch.fft.fft2, ops=("fft",)), *several("ifft2", np.fft.ifft2, torch.fft.ifft2, ops=("ifft",)),
    *several("fftn", np.fft.fftn, torch.fft.fftn, ops=("fft",)), *several("ifftn", np.fft.ifftn, torch.fft.ifftn, ops=("ifft",)),
    *several("fftn:real", np.fft.fftn, torch.fft.fftn, real=True, ops=("fft",)),
    *several("rfft2", np.fft.rfft2, torch.fft.rfft2, real=True, ops=("rfft", "fft")),
    *several("rfftn", np.fft.rfftn, torch.fft.rfftn, real=True, ops=("rfft", "fft")),
    *several("irfft2", np.fft.irfft2, torch.fft.irfft2, ops=("irfft", "ifft")),
    *several("irfftn", np.fft.irfftn, torch.fft.irfftn, ops=("irfft", "ifft")),
    *shift("fftshift", np.fft.fftshift, torch.fft.fftshift), *shift("ifftshift", np.fft.ifftshift, torch.fft.ifftshift),
]
