"""Three bodies."""
from .body import Body
from .simulation import Simulation


def objective(mass, v):
    bodies = [Body(mass, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), Body(0.1, [1.0, 0.0, 0.0], [0.0, v, 0.0]),
              Body(0.05, [0.0, 2.0, 0.1], [-v / 2, 0.0, 0.0])]
    end = Simulation(bodies, 0.01).run(30)
    return end.bodies[1].position[0] + end.history[-1][1] + end.bodies[2].velocity[1]


START = (1.0, 2.5)
