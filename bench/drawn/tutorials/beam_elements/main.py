"""A propped cantilever whose depth tapers."""
import numpy as np

from .element import Element, Section
from .model import Model


def objective(depths, q, e):
    model = Model(len(depths) + 1)
    for i, depth in enumerate(depths):
        model.add(Element(i, i + 1, 0.5, e, Section(0.1, depth)), q)
    model.fix(0, 1, 2 * len(depths))
    u = model.solve()
    return 1e3 * np.abs(u[::2]).max() + model.reactions[0]


START = (np.array([0.2, 0.18, 0.15, 0.12]), -3.0, 210.0)
