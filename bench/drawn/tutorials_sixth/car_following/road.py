"""A road with a light."""
from .driver import Car, Driver


class Wall:
    """A red light, as a standing car."""
    length, v = 0.0, 0.0

    def __init__(self, x):
        self.x = x


class Road:
    def __init__(self, driver: Driver, cars: int, spacing: float):
        self.cars: list[Car] = []
        for i in range(cars):
            self.cars.append(Car(-i * spacing, 8.0, driver, self.cars[-1] if self.cars else None))
        self.light = Wall(60.0)

    def run(self, green, end, dt=0.25):
        fuel, t = 0.0, 0.0
        while t < end:
            first = self.cars[0]
            first.leader = self.light if t < green else None
            moves = [car.acceleration() for car in self.cars]
            for car, a in zip(self.cars, moves):
                fuel += dt * max(0.0, car.v * a + 0.05 * car.v ** 2)
                new = max(0.0, car.v + a * dt)
                car.x += dt * (car.v + new) / 2
                car.v = new
            t += dt
        return fuel
