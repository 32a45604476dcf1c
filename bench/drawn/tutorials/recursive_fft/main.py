"""Echo of a pulse, and its spectral centroid."""
import math

from .transform import convolve, fft


def pulse(width, n=12):
    return [math.exp(-((i - 4) / width) ** 2) for i in range(n)]


def objective(width, echo, delay):
    heard = convolve(pulse(width), [1.0, 0.0, echo, -echo * delay, 0.25 * delay])
    spectrum = fft(heard)[:9]
    power = [abs(c) ** 2 for c in spectrum]
    centroid = sum(k * p for k, p in enumerate(power)) / sum(power)
    return centroid + max(heard) + abs(sum(spectrum))


START = (1.7, 0.4, 0.6)
