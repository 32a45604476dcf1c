"""Misfit of predicted concentrations to measured ones."""
import math

from .model import SCHEDULE, Patient
from .solver import simulate

MEASURED = {1.0: 1.9, 4.0: 2.2, 8.0: 2.6, 13.0: 2.9, 18.0: 1.6}


def objective(clearance, volume, peripheral, flow):
    patient = Patient(clearance, volume, peripheral, flow)
    curve = {round(t, 2): central / patient.volume for t, (_, central, _) in simulate(patient, SCHEDULE, 20.0)}
    return sum((math.log(curve[t]) - math.log(c)) ** 2 for t, c in MEASURED.items())


START = (3.0, 30.0, 20.0, 4.0)
