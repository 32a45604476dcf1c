"""A recurrent network of letters."""
import numpy as np

from .data import vocab_size


def init(hidden):
    rng = np.random.RandomState(0)
    return (rng.randn(hidden, vocab_size) * 0.1, rng.randn(hidden, hidden) * 0.1, rng.randn(vocab_size, hidden) * 0.1,
            np.zeros((hidden, 1)), np.zeros((vocab_size, 1)))


def loss_fun(inputs, targets, hprev, Wxh, Whh, Why, bh, by):
    xs, hs, ys, ps = {}, {}, {}, {}
    hs[-1] = np.copy(hprev)
    loss = 0
    for t in range(len(inputs)):
        xs[t] = np.zeros((vocab_size, 1))
        xs[t][inputs[t]] = 1
        hs[t] = np.tanh(np.dot(Wxh, xs[t]) + np.dot(Whh, hs[t - 1]) + bh)
        ys[t] = np.dot(Why, hs[t]) + by
        ps[t] = np.exp(ys[t]) / np.sum(np.exp(ys[t]))
        loss += -np.log(ps[t][targets[t], 0])
    return loss, hs[len(inputs) - 1]
