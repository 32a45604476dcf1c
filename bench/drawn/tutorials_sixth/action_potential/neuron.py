"""A neuron of one compartment, with exponential Euler steps."""
import numpy as np

from .channels import GATES


class Neuron:
    def __init__(self, conductances, reversal):
        self.g, self.e = conductances, reversal
        self.v = -65.0
        self.state = {name: cls.alpha(self.v) / (cls.alpha(self.v) + cls.beta(self.v))
                      for name, (cls, _) in GATES.items()}

    def step(self, current, dt):
        for name, (cls, _) in GATES.items():
            a, b = cls.alpha(self.v), cls.beta(self.v)
            settled = a / (a + b)
            self.state[name] = settled + (self.state[name] - settled) * np.exp(-dt * (a + b))
        opened = {name: self.state[name] ** power for name, (_, power) in GATES.items()}
        flow = {"na": self.g["na"] * opened["m"] * opened["h"], "k": self.g["k"] * opened["n"], "leak": self.g["leak"]}
        total = sum(flow.values())
        rest = (sum(flow[ion] * self.e[ion] for ion in flow) + current) / total
        self.v = rest + (self.v - rest) * np.exp(-dt * total)
        return self.v
