"""Height and time of a spike."""
import numpy as np

from .neuron import Neuron

REVERSAL = {"na": 50.0, "k": -77.0, "leak": -54.4}


def objective(na, k, leak, current):
    neuron = Neuron({"na": na, "k": k, "leak": leak}, REVERSAL)
    trace = np.array([neuron.step(current if 20 < t < 120 else 0.0, 0.05) for t in range(300)])
    weight = np.exp((trace - trace.max()) / 5)
    return trace.max() / 10 + (weight * np.arange(300)).sum() / weight.sum() / 50


START = (120.0, 36.0, 0.3, 12.0)
