"""Steps of expectation and maximisation."""
import numpy as np
from scipy.stats import norm


def e_step(x, pi, mu, sigma):
    r = np.array([p * norm.pdf(x, m, s) for p, m, s in zip(pi, mu, sigma)])
    return r / r.sum(axis=0)


def m_step(x, r):
    n = r.sum(axis=1)
    mu = (r @ x) / n
    sigma = np.sqrt(np.array([np.sum(r[k] * (x - mu[k]) ** 2) / n[k] for k in range(len(n))]))
    return n / len(x), mu, sigma
