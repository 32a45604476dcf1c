"""Momentum."""
import logging

logger = logging.getLogger(__name__)


class Momentum:
    def __init__(self, rate, beta):
        self.rate, self.beta, self.state = rate, beta, {}

    def apply(self, name, value, grad):
        self.state[name] = self.beta * self.state.get(name, 0.0) + grad
        logger.debug("step of %s: %s", name, self.state[name])
        return value - self.rate * self.state[name]
