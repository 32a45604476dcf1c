"""Attack, decay, sustain, release."""
import numpy as np


def adsr(n, attack, decay, sustain, release):
    t = np.linspace(0, 1, n)
    return np.select([t < attack, t < attack + decay, t < 1 - release], [t / attack,
                                                                         1 - (1 - sustain) * (t - attack) / decay,
                                                                         sustain + 0 * t], sustain * (1 - t) / release)
