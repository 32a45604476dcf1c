"""Differences of a picture."""
import numpy as np


def gradient(u):
    gx, gy = np.zeros_like(u), np.zeros_like(u)
    gx[:, :-1], gy[:-1] = u[:, 1:] - u[:, :-1], u[1:] - u[:-1]
    return gx, gy


def divergence(px, py):
    d = np.empty(px.shape)
    d[:, 0], d[:, 1:] = px[:, 0], px[:, 1:] - px[:, :-1]
    d[0] += py[0]
    d[1:] += py[1:] - py[:-1]
    return d
