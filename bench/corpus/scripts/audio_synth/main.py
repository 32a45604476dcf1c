"""A note, and its spectrum."""
import numpy as np

from .envelope import adsr
from .oscillators import RATE, fm


def objective(carrier, index, sustain):
    t = np.arange(256) / RATE
    note = fm(carrier, 2.0, index, t) * adsr(256, 0.1, 0.2, sustain, 0.3)
    echo = np.zeros(300)
    echo[:256] += note
    echo[44:] += 0.4 * note
    spectrum = np.abs(np.fft.rfft(echo * np.hanning(300)))
    freqs = np.fft.rfftfreq(300, 1 / RATE)
    return np.sum(freqs * spectrum) / np.sum(spectrum)


START = (440.0, 2.0, 0.7)
