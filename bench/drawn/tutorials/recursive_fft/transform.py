"""The fast Fourier transform of lists."""
import cmath


def fft(x, inverse=False):
    n = len(x)
    if n == 1:
        return list(x)
    if n % 2:
        raise ValueError("the length must be a power of two")
    even, odd = fft(x[::2], inverse), fft(x[1::2], inverse)
    sign = 1j if inverse else -1j
    out = [0j] * n
    for k in range(n // 2):
        t = cmath.exp(sign * 2 * cmath.pi * k / n) * odd[k]
        out[k], out[k + n // 2] = even[k] + t, even[k] - t
    return out


def ifft(x):
    return [v / len(x) for v in fft(x, inverse=True)]


def convolve(x, y):
    n = 1
    while n < len(x) + len(y) - 1:
        n *= 2
    pad = lambda v: list(v) + [0.0] * (n - len(v))
    return [v.real for v in ifft([a * b for a, b in zip(fft(pad(x)), fft(pad(y)))])][:len(x) + len(y) - 1]
