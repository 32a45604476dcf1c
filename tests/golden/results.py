"""Results of a benchmark that never ran, for the golden file of its tables."""

from __future__ import annotations

from bench.run import Result, Row


def row(name: str, *seconds: float, first: float, peak: float, difference: float = 1e-16) -> Row:
    return Row(name, list(seconds), first, peak, 0.8 * peak, difference)


RESULTS = [
    Result("recurrence", {"iterations": 1000}, "made", 1e-10, "median", 1.5, 2.25, [
        row("handwritten", 72e-6, 71e-6, 74e-6, first=0.1e-3, peak=0.1e6, difference=0.0),
        row("c++", 10e-6, 9.9e-6, 10.2e-6, first=12e-6, peak=0.05e6),
        row("torch", 12e-3, 11e-3, 13e-3, first=20e-3, peak=5e6),
        Row("torch.compile", missing="no result in 120 s"),
        row("jax", 49e-6, 48e-6, 50e-6, first=2.4, peak=250e6, difference=2e-9),
        row("tapegrad grad", 8e-3, 8e-3, 8.4e-3, first=8.5e-3, peak=2e6),
        row("tapegrad compiled", 98e-6, 97e-6, 120e-6, first=0.9, peak=30e6)],
           "a call of NumPy per number"),
    Result("fft_filter", {"n": 65536}, "made", 1e-10, "median", 0.5, 0.25, [
        row("handwritten", 3.8e-3, 3.9e-3, 3.7e-3, first=4e-3, peak=5e6, difference=0.0),
        row("torch", 2.6e-3, 2.7e-3, 2.5e-3, first=9e-3, peak=10e6),
        row("torch.compile", 2.3e-3, 2.2e-3, 2.4e-3, first=3.25, peak=40e6),
        row("jax", 1.4e-3, 1.3e-3, 1.5e-3, first=0.25, peak=12.3e6),
        row("tapegrad grad", 3.7e-3, 3.7e-3, 3.75e-3, first=4e-3, peak=9e6)]),
]
