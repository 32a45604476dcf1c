"""Compressed rows, by hand."""
import numpy as np


class CSR:
    def __init__(self, shape, indptr, indices, data):
        self.shape, self.indptr, self.indices, self.data = shape, indptr, indices, data

    @classmethod
    def from_dict(cls, shape, entries):
        indptr, indices, data = [0], [], []
        for i in range(shape[0]):
            row = sorted((j, v) for (k, j), v in entries.items() if k == i)
            for j, v in row:
                indices.append(j)
                data.append(v)
            indptr.append(len(indices))
        return cls(shape, indptr, indices, data)

    def __matmul__(self, x):
        y = np.zeros(self.shape[0])
        for i in range(self.shape[0]):
            total = 0.0
            for p in range(self.indptr[i], self.indptr[i + 1]):
                total += self.data[p] * x[self.indices[p]]
            y[i] = total
        return y

    def diagonal(self):
        return np.array([next(self.data[p] for p in range(self.indptr[i], self.indptr[i + 1]) if self.indices[p] == i)
                         for i in range(self.shape[0])])
