"""The joint density of a regression with a Hamiltonian step."""
import numpy as np

from .distributions import gamma, normal, student

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 2))
y = X @ [1.0, -0.5] + 0.1 * rng.standard_t(4, size=20)


def joint(params):
    w, log_s, log_nu = params["w"], params["log_s"], params["log_nu"]
    s, nu = np.exp(log_s), np.exp(log_nu)
    return normal(w).sum() + gamma(s, 2.0, 2.0) + log_s + student(y, nu, X @ w, s).sum()


def objective(w, log_s, log_nu):
    return joint({"w": w, "log_s": log_s, "log_nu": log_nu})


START = (np.array([0.8, -0.4]), -1.0, 1.2)
