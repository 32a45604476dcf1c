"""Control: control, harold, gymnasium's classic plants."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case


@case("control")
def step_response() -> Built:
    import control

    def f(k, zeta):
        t, y = control.step_response(control.tf([k], [1.0, 2 * zeta, 1.0]), np.linspace(0.0, 10.0, 50))
        return np.sum((y - 1.0) ** 2)
    return f, (0.9, 0.5)


@case("control")
def forced_response() -> Built:
    import control

    def f(A, B):
        system = control.ss(A, B, np.array([[1.0, 0.0]]), np.zeros((1, 1)))
        t = np.linspace(0.0, 3.0, 31)
        return np.sum(control.forced_response(system, t, np.sin(t)).outputs ** 2)
    return f, (np.array([[0.0, 1.0], [-2.0, -0.7]]), np.array([[0.0], [1.0]]))


@case("control")
def frequency_response() -> Built:
    import control

    def f(num, den):
        mag, phase, omega = control.frequency_response(control.tf(num, den), np.logspace(-1, 1, 12))
        return np.sum(mag) + np.sum(phase ** 2)
    return f, (np.array([1.0, 2.0]), np.array([1.0, 0.8, 3.0]))


@case("control")
def feedback_loop() -> Built:
    import control

    def f(kp, ki):
        loop = control.feedback(control.tf([kp, ki], [1.0, 0.0]) * control.tf([1.0], [1.0, 3.0, 2.0]), 1)
        return np.abs(loop(0.5j)) ** 2
    return f, (2.0, 1.0)


@case("control")
def linear_quadratic_regulator() -> Built:
    import control

    def f(A, q):
        K, S, E = control.lqr(A, np.array([[0.0], [1.0]]), np.diag(q), np.array([[1.0]]))
        return np.sum(K ** 2) + np.trace(S)
    return f, (np.array([[0.0, 1.0], [0.5, -0.2]]), np.array([1.0, 2.0]))


@case("control")
def lyapunov_equation() -> Built:
    import control

    def f(A):
        return np.sum(control.lyap(A, np.eye(3)) ** 2)
    return f, (np.array([[-1.0, 0.2, 0.0], [0.1, -2.0, 0.3], [0.0, 0.4, -1.5]]),)


@case("control")
def pole_damping() -> Built:
    import control

    def f(A):
        return np.sum(control.ss(A, np.ones((2, 1)), np.ones((1, 2)), np.zeros((1, 1))).poles().real ** 2)
    return f, (np.array([[0.0, 1.0], [-2.0, -3.5]]),)


@case("control")
def discretised_plant() -> Built:
    import control

    def f(A):
        plant = control.c2d(control.ss(A, np.array([[0.0], [1.0]]), np.eye(2), np.zeros((2, 1))), 0.1)
        return np.sum(plant.A ** 2) + np.sum(plant.B)
    return f, (np.array([[0.0, 1.0], [-2.0, -0.5]]),)


@case("control")
def controllability() -> Built:
    import control

    def f(A, B):
        return np.linalg.det(control.ctrb(A, B)) + np.sum(control.obsv(A, B.T) ** 2)
    return f, (np.array([[-1.0, 0.3], [0.2, -2.0]]), np.array([[1.0], [0.5]]))


@case("gymnasium")
def cart_pole() -> Built:
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    def f(angle, gravity):
        env = CartPoleEnv()
        env.gravity = gravity
        env.reset(seed=0)
        env.state = np.array([0.0, 0.1, angle, 0.0])
        for action in (0, 1, 1, 0, 1):
            env.step(action)
        return env.state[2] + env.state[0]
    return f, (0.05, 9.8)


@case("gymnasium")
def pendulum() -> Built:
    from gymnasium.envs.classic_control.pendulum import PendulumEnv

    def f(torques):
        env = PendulumEnv()
        env.reset(seed=0)
        env.state = np.array([0.5, 0.0])
        return sum(env.step(np.array([u]))[1] for u in torques)
    return f, (np.array([0.5, -0.3, 0.2, 0.9]),)


@case("gymnasium")
def acrobot() -> Built:
    from gymnasium.envs.classic_control.acrobot import AcrobotEnv, rk4

    def f(state, torque):
        env = AcrobotEnv()
        return np.sum(rk4(env._dsdt, np.append(state, torque), [0, env.dt]) ** 2)
    return f, (np.array([0.1, -0.2, 0.3, 0.05]), 1.0)
