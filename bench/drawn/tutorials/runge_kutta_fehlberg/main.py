"""The van der Pol oscillator, with fixed steps taken where a plan of steps is given."""
from .stepper import Stepper


def van_der_pol(mu):
    def f(t, y):
        position, speed = y
        return [speed, mu * (1 - position ** 2) * speed - position]
    return f


def objective(mu, x0):
    stepper = Stepper(van_der_pol(mu), tol=1e-9)
    energy = 0.0
    before = None
    for t, (x, v) in stepper.run(0.0, [x0, 0.0], 1.0):
        if before is not None:
            energy += 0.5 * (t - before[0]) * (v * v + before[1])
        before = t, v * v
    return x + 0.3 * v + 1e-9 * energy


START = (0.9, 1.2)
