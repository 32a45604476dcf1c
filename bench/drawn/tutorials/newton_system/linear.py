"""Gaussian elimination with scaled partial pivoting, on lists of lists."""


class SingularMatrix(ArithmeticError):
    def __init__(self, column):
        super().__init__(f"no pivot in column {column}")
        self.column = column


def lu(matrix):
    a = [row[:] for row in matrix]
    n = len(a)
    scale = [max(abs(x) for x in row) for row in a]
    order = list(range(n))
    for k in range(n - 1):
        p = max(range(k, n), key=lambda i: abs(a[order[i]][k]) / scale[order[i]])
        if abs(a[order[p]][k]) < 1e-14:
            raise SingularMatrix(k)
        order[k], order[p] = order[p], order[k]
        for i in range(k + 1, n):
            factor = a[order[i]][k] / a[order[k]][k]
            a[order[i]][k] = factor
            for j in range(k + 1, n):
                a[order[i]][j] -= factor * a[order[k]][j]
    return a, order


def solve(matrix, b):
    a, order = lu(matrix)
    n = len(b)
    y = [0.0] * n
    for i in range(n):
        y[i] = b[order[i]] - sum(a[order[i]][j] * y[j] for j in range(i))
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (y[i] - sum(a[order[i]][j] * x[j] for j in range(i + 1, n))) / a[order[i]][i]
    return x
