"""Forward and Viterbi."""
import numpy as np


class HMM:
    def __init__(self, pi, A, B):
        self.pi, self.A, self.B = pi, A, B

    def forward(self, obs):
        T, N = len(obs), len(self.pi)
        alpha, scale = np.zeros((T, N)), np.zeros(T)
        alpha[0] = self.pi * self.B[:, obs[0]]
        scale[0] = alpha[0].sum()
        alpha[0] /= scale[0]
        for t in range(1, T):
            for j in range(N):
                alpha[t, j] = alpha[t - 1].dot(self.A[:, j]) * self.B[j, obs[t]]
            scale[t] = alpha[t].sum()
            alpha[t] /= scale[t]
        return alpha, np.log(scale).sum()

    def viterbi(self, obs):
        delta = np.log(self.pi) + np.log(self.B[:, obs[0]])
        for o in obs[1:]:
            delta = np.max(delta[:, None] + np.log(self.A), axis=0) + np.log(self.B[:, o])
        return delta.max()
