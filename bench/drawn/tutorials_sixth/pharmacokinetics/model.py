"""A two-compartment model with absorption, and its schedule of doses."""
from dataclasses import dataclass


@dataclass
class Patient:
    clearance: float
    volume: float
    peripheral: float
    flow: float
    absorption: float = 1.2

    def rates(self, gut, central, tissue):
        c1, c2 = central / self.volume, tissue / self.peripheral
        absorbed = self.absorption * gut
        return (-absorbed, absorbed - self.clearance * c1 - self.flow * (c1 - c2), self.flow * (c1 - c2))


@dataclass(frozen=True)
class Dose:
    time: float
    amount: float
    oral: bool = True


SCHEDULE = [Dose(0.0, 100.0), Dose(6.0, 50.0, oral=False), Dose(12.0, 100.0)]
