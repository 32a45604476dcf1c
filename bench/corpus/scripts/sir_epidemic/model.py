"""Compartments."""
from collections import namedtuple

State = namedtuple("State", "S I R")


def step(state, beta, gamma, dt):
    new_infections = beta * state.S * state.I / sum(state) * dt
    new_recoveries = gamma * state.I * dt
    return state._replace(S=state.S - new_infections, I=state.I + new_infections - new_recoveries,
                          R=state.R + new_recoveries)
