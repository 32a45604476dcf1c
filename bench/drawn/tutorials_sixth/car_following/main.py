"""Fuel and progress of a platoon at a light."""
from .driver import Driver
from .road import Road


def objective(wanted, headway, standstill, a, b):
    road = Road(Driver(wanted, headway, standstill, a, b), cars=4, spacing=18.0)
    fuel = road.run(green=12.1, end=25.0)
    return fuel / 1e3 - sum(car.x for car in road.cars) / 100


START = (13.9, 1.4, 2.1, 1.2, 1.7)
