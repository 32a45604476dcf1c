"""Cost of a step of the set point."""
from .controller import PID
from .plant import Tanks


def objective(kp, ki, kd, area):
    controller, tanks = PID(kp, ki, kd), Tanks(area, 0.003, delay=4)
    seen, cost, dt = 0.1, 0.0, 2.0
    for k in range(120):
        wanted = 0.5 if k > 5 else 0.1
        valve = controller(wanted - seen, dt)
        seen = tanks.step(valve, dt)
        cost += (wanted - tanks.levels[1]) ** 2 * dt + 1e-3 * valve ** 2
    return cost


START = (1.3, 0.02, 2.0, 0.51)
