"""Leapfrog over bodies."""


class Simulation:
    def __init__(self, bodies, dt):
        self.bodies, self.dt, self.time = bodies, dt, 0.0
        self.history = []

    def step(self):
        for body in self.bodies:
            body.acceleration = [0.0, 0.0, 0.0]
            for other in self.bodies:
                if other is not body:
                    body.acceleration = [a + b for a, b in zip(body.acceleration, body.pull(other))]
        for body in self.bodies:
            for k in range(3):
                body.velocity[k] += body.acceleration[k] * self.dt
                body.position[k] += body.velocity[k] * self.dt
        self.time += self.dt
        self.history.append(tuple(self.bodies[0].position))

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return self
