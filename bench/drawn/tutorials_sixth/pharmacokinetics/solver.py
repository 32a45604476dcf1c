"""Heun's method between doses."""


def heun(f, state, dt):
    k1 = f(*state)
    k2 = f(*(s + dt * k for s, k in zip(state, k1)))
    return tuple(s + dt / 2 * (a + b) for s, a, b in zip(state, k1, k2))


def simulate(patient, schedule, end, dt=0.25):
    pending = sorted(schedule, key=lambda dose: dose.time)
    state, t = (0.0, 0.0, 0.0), 0.0
    while t < end - 1e-9:
        while pending and pending[0].time <= t + 1e-9:
            dose = pending.pop(0)
            gut, central, tissue = state
            state = (gut + dose.amount, central, tissue) if dose.oral else (gut, central + dose.amount, tissue)
        yield t, state
        state = heun(patient.rates, state, dt)
        t += dt
