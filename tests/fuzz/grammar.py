"""grammar: what programs are made of. One row per construct.

`$v` in a row is an expression of kind v, `$V` a variable of that kind, `$n` a new variable. With a digit (`$n1`) it is the same at each
place. `$@` is an expression of the kind that is asked for. `$body` is a block of statements. Kinds:

| s | v | m | a | x | c | b | w | i | t | k | j | u |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
| a float | one axis | two axes | an array | float or array | complex | bools | ints | an int | a condition | a number | a small int | a function of x |
"""

from __future__ import annotations


def words(text: str) -> list[str]:
    """Return the words of a table."""
    return text.split()


def alternatives(text: str) -> list[str]:
    """Return the rows of a table that are set apart by bars and lines."""
    return [row.strip() for line in text.strip().splitlines() for row in line.split(" | ") if row.strip()]


UFUNCS = words("""sin cos tanh arctan square abs negative cbrt exp2 rint floor sign positive arcsinh sinc deg2rad conj real fabs trunc ceil absolute spacing
sinh expm1""")

BINARY = words("""maximum minimum fmax fmin hypot arctan2 logaddexp copysign add subtract multiply fmod remainder heaviside logaddexp2 floor_divide
float_power""")

REDUCTIONS = words("sum mean max min prod std var ptp")

OPERATORS = ["+", "-", "*", "/", "%", "//"]

UPDATES = ["+=", "-=", "*=", "/=", "=", "%="]

COMPARISONS = ["<", ">", "<=", ">=", "==", "!="]

AXES = ["", "axis=0", "axis=-1", "axis=0, keepdims=True", "axis=None", "axis=(0,)", "dtype=np.float64"]

INDICES = alternatives("""0 | -1 | 1: | :-1 | ::-1 | ::2 | ... | ..., 0 | ..., -1 | ..., None | None | [0, 2] | [2, 0, 0] | [[0, 1], [1, 2]] | (0,) | slice(1, None)
np.array([True, False, True]) | np.arange(2) | 1:1 | np.int64(1) | () | ..., ::-1 | ..., [1, 0] | 0, ... | -2: | 2:0:-1 | ..., 1: | [True, False, True]
np.array([0, 1]), ..., None | :2 | 0:3:2 | -1:-3:-1""")

# Rows that give what they are given: of a float a float, of a table a table.
SAME = """
np.$ufunc($@) | np.$ufunc($@) | np.$binary($@, $k) | np.$binary($k, $@) | np.$binary($@, $@) | $@ $op $@ | $@ $op $k | $k $op $@ | ($@ $op $s) | -$@ | abs($@) | $@ ** 2
$@ ** 3 | (np.abs($@) + 0.3) ** $k | 1.3 ** $@ | np.exp(-np.abs($@)) | np.sqrt(np.abs($@) + 0.1) | np.log(np.square($@) + 0.2) | $@ / (np.abs($@) + 0.4) | np.where($@ $cmp $s, $@, $@)
np.where($t, $@, $@) | np.clip($@, -0.8, 0.9) | np.clip($@, $s, $s) | ($@ if $t else $@) | np.power(np.abs($@) + 0.2, $@) | np.divmod($@, 0.7)[1] | divmod($@, 0.7)[0]
np.modf($@)[0] | np.frexp($@)[0] | np.ldexp($@, 2) | np.maximum($@, 0.0) | np.nan_to_num($@) | np.copy($@) | np.asarray($@) | np.add($@, $s) | np.log1p(np.abs($@)) | $u($@) | $u($@) | $u($@)
np.real_if_close($@) | np.round($@, 1) | np.multiply($@, $@, dtype=np.float64) | np.reciprocal(np.abs($@) + 0.5) | functools.reduce(lambda p, q: p * 0.5 + q, [$@, $@, $@])
(lambda p, q=$s: p * q)($@) | [$@, $@][$i % 2] | {'p': $@, 'q': $@}['q'] | next(iter([$@])) | max([$@, $@], key=np.sum) | np.abs($@ + 1j * $@) | ($@ * (1.0 + 0.5j)).imag | np.where($@ > 0, $@, np.sin($@))
np.select([$@ > 0.5, $@ > 0.0], [$@, $@ * 2.0], $k) | np.piecewise(np.asarray($@), [np.asarray($@) < 0.1], [lambda p: p * 2.0, lambda p: p ** 2]) | (np.float64(1.5) * $@) | np.hypot($@, 1.0) | ($@ > 0) * $@
np.minimum($@, $@) | np.i0($@) | np.unwrap(np.atleast_1d($@))[0] + $@ | np.interp($@, [-1.0, 0.0, 1.0], [0.2, $s, 1.0])
"""

ROWS = {
    "s": """$k | $k | $a.sum() | np.$red($a) | $a.max() | $a.min() | $a.mean() | $v[0] | $v[-1] | $v[$i] | $m[0, -1] | $a.flat[0] | np.ravel($a)[-1] | np.dot($v, $v) | $v @ $v | np.linalg.norm($a)
np.median($a) | np.quantile($a, 0.3) | np.trace($m) | np.linalg.det($m) | np.sum($a, where=$a > 0) | np.max($a, initial=$k) | np.sum($a, initial=$s) | sum($v) | sum(x * x for x in $v) | max($v) | min($v, key=abs)
math.sin($s) | math.exp(-abs($s)) | math.hypot($s, $s) | math.atan2($s, $s) | math.fsum($v) | math.sqrt(abs($s) + 0.1) | math.floor($s) * $s | math.prod([$s, $s]) | np.einsum('i,i', $v, $v) | np.vdot($v, $v)
float($i) * $s | $b.sum() * $s | np.count_nonzero($a > 0) * $s | len($v) * $s | $a.ndim * $s | np.argmax($a) * $s | $a.size * $s | $a.shape[-1] * $s | np.trapezoid($v) | np.average($v, weights=np.exp($v))
np.linalg.slogdet($m + 3.0 * np.eye(3))[1] | np.logaddexp.reduce($v) | np.add.reduce($v) | np.multiply.reduce($v) | np.maximum.reduce($v) | np.sum($c).real | np.abs($c).sum() | np.linalg.norm($c) | np.angle($c).sum()
sorted($v)[1] | next(iter($v)) | [t for t in $v][-1] | list(map(lambda t: t * 2.0, $v))[0] | (lambda *p, **q: p[0] * q['r'])($s, r=$s) | np.nansum($a) | np.nanmax($a) | np.cov($v) * 1.0
round($s, 2) + $s | int($s) * $s | bool($t) * $s | $i * $s | np.prod($v.shape) * $s | np.argsort($v)[0] * $s | np.searchsorted(np.sort($v), 0.1) * $s | np.float64($k) * $s | float($k) ** 2 * $s | np.std($v, ddof=1) | np.$red($w) * $s
$w[0] * $s | np.unique($w).size * $s | np.all($b) * $s | np.corrcoef($v, $v[::-1])[0, 1] | np.linalg.cond($m + 3.0 * np.eye(3)) | np.polyval($v, $s) | np.percentile($v, 60) | $a.std() | $a.var()
np.random.normal() * $s | np.random.rand() + $s | random.random() * $s | np.random.default_rng(3).normal() * $s | np.linalg.norm($v, 1) | np.linalg.norm($v, np.inf) | $v[np.argmax($v)] | $v[$v.argmin()]""",
    "v": """$m[0] | $m[:, 0] | $m[-1] | $m.sum(axis=0) | $m.mean(axis=-1) | np.$red($m, axis=0) | $m @ $v | $v @ $m | np.dot($m, $v) | np.cumsum($v) | np.cumprod($v) | $v[::-1] | np.roll($v, 1) | np.sort($v) | $v[np.argsort($v)]
np.diagonal($m) | np.diag($m) | $a.ravel() | $a.reshape(-1) | $a.flatten() | np.ravel($a, order='F') | $v.copy() | np.concatenate([$v, $v]) | np.concatenate([$v[:1], $v[1:]]) | np.append($v, $s) | np.array([$s, $s, $s]) | np.array([$s, $k, $s])
np.array([t * 2.0 for t in $v]) | np.stack([$s, $s, $s]) | np.zeros(3) + $s | np.ones(3) * $s | np.full(3, $s) | np.linspace($s, $s, 3) | np.arange(3) * $s | np.zeros_like($v) + $s | np.full_like($v, $s) | np.ones_like($v) - $v | $v[$v > 0]
$v[[2, 0, 1]] | $v[1:] | $v[:-1] | $v[$w % 3] | np.take($v, [0, 1, 1]) | np.diff($v) | np.ediff1d($v) | np.gradient($v) | np.convolve($v, [1.0, 0.5], mode='same') | np.interp($v, [-1.0, 0.0, 2.0], [0.1, 0.4, 0.2]) | np.einsum('ij,j->i', $m, $v)
np.maximum.accumulate($v) | np.add.accumulate($v) | np.linalg.solve($m + 3.0 * np.eye(3), $v) | np.linalg.eigvalsh($m + $m.T) | np.linalg.svd($m, compute_uv=False) | np.repeat($v, 2) | np.tile($v, 2) | np.pad($v, 1) | np.pad($v, (0, 1), mode='edge')
np.fft.fft($v).real | np.fft.rfft($v).imag | np.fft.irfft(np.fft.rfft($v), 3) | np.flip($v) | $v.astype(float) | np.asarray($v) | np.array($v) | np.atleast_1d($s) | np.apply_along_axis(np.sum, 0, $m) | np.vectorize(lambda p: p * 2.0)($v)
np.fromiter((t for t in [$k, $k, $k]), float) * $s | np.array(list(itertools.accumulate($v))) | np.array(sorted($v)) | np.array([p * q for p, q in zip($v, $v)]) | np.nonzero($v > -9)[0] * $s | np.random.normal(size=3) * $s | np.random.uniform(size=3) + $v
np.where($b, $v, $s) | np.where($v > 0)[0] * $s | np.bincount([0, 1, 1], weights=$v, minlength=3) | np.trim_zeros($v) | np.extract($v > -9.0, $v) | np.compress([True, False, True], $v) | np.choose([0, 1, 0], [$v, $v * 2.0]) | np.delete($v, 1) | np.insert($v, 1, $s)
$c.real | $c.imag | np.abs($c) | np.hstack([$v, $s]) | np.r_[$s, $v] | np.broadcast_to($s, (3,)) | np.resize($v, 3) | np.partition($v, 1) | np.add.reduceat($v, [0, 1]) | np.unique(np.round($v, 1)) | np.polyfit([0.0, 1.0, 2.0], $v, 1)
$v.astype(np.float32).astype(float) | np.float32($k) * $v | $w * 1.5 | $v * $w | np.squeeze($v[None]) | $v.real | np.histogram($v, bins=3)[0] * $s | $v.T | $v.view() | $v[...] | np.lib.stride_tricks.sliding_window_view($v, 2).sum(axis=0)""",
    "m": """$m.T | $m @ $m | $m * $v | $m + $v[:3, None] | np.outer($v, $v) | $v[:3, None] * $v[:3] | np.stack([$v, $v, $v]) | np.vstack([$v, $v]) | np.eye(3) * $s | np.diag($v) | np.tril($m) | np.triu($m, 1) | np.transpose($m) | np.swapaxes($m, 0, 1)
np.linalg.inv($m + 3.0 * np.eye(3)) | np.linalg.cholesky($m @ $m.T + np.eye(3)) | np.einsum('ij,jk->ik', $m, $m) | np.einsum('i,j->ij', $v, $v) | np.kron(np.eye(1), $m) | $m[::-1] | $m[:, ::-1] | $m[[1, 0]] | $m[:, [2, 0, 1]] | $m.copy()
$m[np.ix_([0, 1], [2, 0])] | np.array([[$s, $s], [$s, $s]]) | np.array([$v, $v]) | np.zeros((3, 3)) + $s | np.add.outer($v, $v) | np.cumsum($m, axis=1) | np.sort($m, axis=0) | np.flip($m) | np.rot90($m) | np.roll($m, 1, axis=0) | np.moveaxis($m, 0, 1)
np.concatenate([$m, $m], axis=1) | np.block([[$m, $m]]) | np.asfortranarray($m) | np.ascontiguousarray($m.T) | $m.reshape(3, -1) | np.broadcast_to($v, (2, 3)) | np.tensordot($m, $m, axes=([1], [0])) | np.linalg.matrix_power($m, 2) | np.meshgrid($v, $v)[0]
np.where($m > $v, $m, 0.0) | np.column_stack([$v, $v]) | np.expand_dims($v, 0) | $v[None] | $v.reshape(-1, 1) | np.linalg.qr($m)[1] | np.random.normal(size=(2, 3)) * $s | $m - $m.mean(axis=0) | $m / np.linalg.norm($m, axis=1, keepdims=True) | $m[1:, 1:] | np.cov($m)""",
    "a": """$v | $m | $v | $m | np.stack([$m, $m]) | $m[None] | np.broadcast_to($m, (2, 3, 3)) | $a[$index] | $a[$index] | np.$red($a, $axis) | $a.reshape($a.shape[::-1]) | np.squeeze($a) | np.transpose($a) | np.cumsum($a, axis=-1)
np.take($a, [0, -1], axis=0) | np.where($a > 0, $a, $s) | np.expand_dims($a, -1) | np.split($a, [1])[1] | np.array_split($a, 2)[0] | np.repeat($a, 2, axis=-1) | np.moveaxis($a, 0, -1) | $a.mean(axis=0) | $a.swapaxes(0, -1) | np.diff($a, axis=-1) | np.atleast_2d($a)""",
    "c": """$v + 1j * $v | $v * (1 + 2j) | np.exp(1j * $v) | np.fft.fft($v) | $c * $c | $c.conj() | $c + $s | np.conj($c) * $v | $c / (np.abs($c) + 0.5) | $c[::-1] | $c ** 2 | np.exp($c * 0.3) | np.sqrt($c + 2.0) | np.fft.ifft($c) | np.where($v > 0, $c, 1j)
np.cumsum($c) | -$c | $c * np.array([1j, 0.5, 2.0]) | np.sin($c) | np.tanh($c * 0.2) | np.log($c + 3.0)""",
    "b": """$a > $s | $v > 0 | $v <= $v | np.isfinite($v) | ($v > 0) & ($v < 1) | ~($v > 0.3) | np.array([True, False, True]) | np.logical_or($v > 0, $v < -1) | np.isclose($v, 0.2) | $w > 0""",
    "w": """np.argsort($v) | ($v > 0).astype(int) | np.arange(3) | np.array([2, 0, 1]) | np.rint($v).astype(int) % 3 | np.sign($v).astype(int) | $w + 1 | $w[::-1] | np.cumsum($w) | np.searchsorted(np.sort($v), $v) | np.arange(len($v))""",
    "i": """0 | 1 | 2 | len($v) - 1 | int($v[0] > 0) | int(np.argmax($v)) % 3 | int(np.sum($v > 0)) % 3 | $v.ndim | $v.shape[0] - 1 | int(abs($s)) % 3 | int(np.count_nonzero($v > 0)) % 2 | np.argmin($v) % 3 | round(abs($s)) % 3""",
    "t": """$s > $k | $s < $s | $s > 0 | np.any($v > 1.0) | np.all($v > -2.0) | $v.sum() > $k | $v[0] > $v[-1] | $i == 1 | len($v) > 2 | not $s > 0.5 | $s > 0 and $s < 1.5 | ($v > 0).any() | bool($s) | np.allclose($v, $v) | $k < $s < 2.0 | $v.max() >= $s
isinstance($s, float) | np.isfinite($s) | $s == $s | np.array_equal($v, $v) | $b.sum() > 1 | max($v) > 0.5 | $s in (0.0, 1.0) | $v.size""",
    "u": """np.sin | np.tanh | np.$ufunc | (lambda p: p * $k + 0.1) | functools.partial(np.multiply, $k) | (lambda p, w=$s: p + w) | np.square""",
}

STATEMENTS = r"""
$n = $x
$n = $a
$n = $s
$n = $v
$n = $c
$n = $b
$n, $n = $x, $x
$A[$index] $update $s
$A[$index] $update $x
$V[0] = $s
$V[$i] $update $s
$V[1:] += $V[:-1]
$V[$v > 0] = $s
$V1[$V1 > 0] *= $s
$V1[:], $V1[0] = $v, $s
$M[0] = $v
$M[:, 1] $update $s
$M[1, ...] $update $v
$M[np.diag_indices(2)] = $s
$M1.T[0] = $v
$A $update $x
$A1 += $A1
$A[...] = $x
$A.fill($s)
$A.sort()
$A.put([0, 1], [$s, $s])
np.put($A, [0], $s)
np.copyto($A, $x)
np.copyto($A, $s, where=$a > 0)
np.putmask($A, $a > 0, $v)
np.place($A, $a > 0, [$s])
np.fill_diagonal($M, $s)
np.add.at($V, [0, 0, 1], $s)
np.multiply.at($V, $w % 2, $s)
np.add($x, $x, out=$A)
np.$ufunc($a, out=$A)
np.$ufunc($A1, out=$A1)
np.multiply($A1, $x, out=$A1, where=$a > 0)
np.cumsum($V1, out=$V1)
np.matmul($m, $v, out=$V)
np.dot($m, $v, out=$V)
np.sum($m, axis=0, out=$V)
np.maximum($a, $s, out=$A)
$n = np.divide($x, np.abs($x) + 0.5, where=$a > 0, out=np.ones(3))
$n = np.add($v, $s, out=np.zeros(3))
$n1 = $A[$index]\n$n1 $update $s
$n1 = $A[$index]\n$A[$index] $update $s\n$n2 = $n1 * 2.0
$n1 = $A.T\n$n1[0] $update $s
$n1 = $A.reshape(-1)\n$n1[::2] $update $s
$n1 = $A.ravel()[1:]\n$n1 *= $s\n$n1[:1] = $s
$n1 = $A[::-1][1:]\n$n1[0] $update $s
$n1 = $M[:, 0]\n$n2 = $n1[1:]\n$n2[...] = $s\n$n3 = $n1 + 1.0
$n1 = np.asarray($A)\n$n1[0] = $s
$n1 = np.array($A)\n$n1[-1] $update $s
$n1 = $A\n$n1 += $s\n$n2 = $n1 * 1.5
$n1 = $A\n$n1 = $n1 + $s
$n1, $n2 = np.split($V, [1])\n$n1 += $n2[0]\n$n2 *= $s
$n1 = list($M)\n$n1[0][1] = $s\n$n2 = sum($n1)
for $n1 in $M:\n    $n1 *= $s
for $n1 in $M:\n    $n1[0] += $s
$n1 = {'p': $A, 'q': $s}\n$n1['p'][0] = $n1['q']\n$n2 = $n1['p'] * 1.0
$n1 = [$V, $V]\n$n1[0][0] = $s\n$n2 = $n1[1] + $n1[0][:1]
$n1 = np.zeros(3)\nfor i in range(3):\n    $n1[i] = $s * i
$n1 = np.zeros(4)\nfor i in range(1, 4):\n    $n1[i] = $n1[i - 1] * 0.5 + $s
$n1 = np.empty((3, 2))\nfor i in range(3):\n    $n1[i] = $s + i\n    $n1[i, 1] -= $s
$n1 = np.zeros_like($A)\n$n1[...] = $s\n$n1[0] += $s
$n1 = np.zeros(3, dtype=np.float32)\n$n1[:2] = $s\n$n1 *= 1.5
$n1 = $v.astype(np.float32)\n$n1 += $s
$n1 = np.zeros(3, complex)\n$n1.real = $v[:3]\n$n1.imag[1] = $s
$n1 = $c.copy()\n$n1[0] *= $s\n$n1.imag[...] = $s
$n1 = $w.copy()\n$n1[0] = 2\n$n1 += 1
$n1 = np.ones(3, int)\n$n1[$v[:3] > 0] = 5
for i in range(3):\n    $V[i % 2] $update $s
for i, t in enumerate($v):\n    $V[i % 2] += t
for i in range($i + 1):\n$body
for i in range(3):\n$body
for t in $v:\n    if t < $k:\n        continue\n$body
for t, q in zip($v, $v):\n    $V[0] = t * q
$n1 = $x\nfor i in range(12):\n    $n1 = np.sin($n1) * 0.9 + $s
$n1 = $x\nfor i in range(9):\n    $n1 = $n1 * 0.5 + np.cos($n1)\n    if i % 3 == 0:\n        $n1 = $n1 + $s
$n1, $n2 = $x, $x\nfor i in range(8):\n    $n1, $n2 = $n1 + 0.1 * $n2, $n2 - 0.1 * $n1
$n1 = np.zeros(16)\n$n1[0] = $s\nfor i in range(1, 16):\n    $n1[i] = 0.8 * $n1[i - 1] + 0.1 * $s
$n1 = [$s]\nfor i in range(10):\n    $n1.append($n1[-1] * 0.7 + np.sin($n1[0]))\n$n2 = np.array($n1)
$n1 = abs($s)\n$n2 = 0\nwhile $n1 < 2.0 and $n2 < 9:\n    $n1 = $n1 * 1.4 + 0.2\n    $n2 += 1
$n1, $n2 = abs($s) + 1.0, 0\nwhile True:\n    $n1 = $n1 / 2.0\n    $n2 += 1\n    if $n1 < 0.3 or $n2 > 6:\n        break\n$n3 = $n1 * $n2
while True:\n$body\n    if $t:\n        break\n    break
if $t:\n$body
if $t:\n$body\nelse:\n$body
if $t:\n$body\nelif $t:\n$body\nelse:\n$body
if $t:\n$body\n    $n1 = $x\nelse:\n    $n1 = $x
$n1 = $x\nif $t:\n    $n1 = $n1 * $s
$n1 = $x if $t else $x
try:\n$body\n    if $t:\n        raise ValueError\nexcept ValueError:\n$body
try:\n    $n1 = math.sqrt($s)\nexcept ValueError:\n    $n1 = $s
try:\n    $n1 = math.log($s)\nexcept ValueError:\n$body\n    $n1 = 0.5
try:\n    $n1 = $V * 1.0\n    $n1[9] = $s\nexcept IndexError:\n    $n1 = $n1 * 2.0
try:\n    $n1 = 1.0 / ($i - 1)\nexcept ZeroDivisionError:\n    $n1 = $s
try:\n    $n1 = np.linalg.inv($m * 0.0)\nexcept np.linalg.LinAlgError:\n    $n1 = $m
try:\n    $n1 = $v + $a\nexcept ValueError:\n    $n1 = $v
with np.errstate(all='ignore'):\n$body
$n1 = sum(t for t in $v if t > $k)
$n1 = [t * 2.0 for t in $v if t > $k]\n$n2 = len($n1) * $s
$n1 = {i: t for i, t in enumerate($v)}\n$n2 = $n1[0] * $n1[1]
$n1, *$n2 = $v\n$n3 = $n1 * $n2[0]
$n1 = sorted($v, reverse=True)[0]
$n1 = list($v)\n$n1.sort()\n$n1.append($s)\n$n2 = $n1[0] * $n1[-1]
$n1 = list($v)\n$n1[0], $n1[1] = $n1[1], $n1[0]\n$n2 = np.array($n1)
$n1 = np.max($a)\n$n2 = ($a - np.min($a)) / ($n1 + 2.0)
$n1 = np.argsort($v)\n$n2 = $v[$n1 % 3]
$n1 = $v[$v > $k]\n$n2 = $n1.sum() + len($n1)
$n1, $n2 = np.unique(np.round($v), return_counts=True)\n$n3 = np.sum($n1 * $n2)
def $n1(p, q=$s):\n    return p * q + $s\n$n2 = $n1($x)
def $n1(p):\n    p[0] = $s\n    return p * 2.0\n$n2 = $n1($V)
$n1 = [$s]\ndef $n2(p):\n    $n1[0] = $n1[0] + p\n    return $n1[0] * 0.5\n$n3 = $n2($s) + $n2($s)
def $n1(p, i):\n    return p if i == 0 else np.sin($n1(p, i - 1)) + 0.1 * p\n$n2 = $n1($x, 3)
def $n1(p, i):\n    return p if i > 4 or p > 3.0 else $n1(p * 1.5 + 0.1, i + 1)\n$n2 = $n1(abs($s), 0)
def $n1(p):\n    for t in p:\n        yield t * $s\n$n2 = list($n1($v))\n$n3 = $n2[0] + $n2[-1]
def $n1(p):\n    t = yield p\n    yield p * t\n$n2 = $n1($s)\n$n3 = next($n2) + $n2.send($s)
$n1 = iter($v)\n$n2 = next($n1) * 2.0 + next($n1)
$n1 = (lambda p: lambda q: p * q)($s)\n$n2 = $n1($x)
$n1 = [(lambda t, i=i: t * i) for i in range(3)]\n$n2 = $n1[2]($x)
$n1 = types.SimpleNamespace(p=$s, q=$V)\n$n1.p += 1.0\n$n1.q[0] = $n1.p\n$n2 = $n1.q * $n1.p
$n1 = collections.namedtuple('Pair', 'p q')($x, $s)\n$n2 = $n1.p * $n1.q
$n1 = collections.deque([$s, $s], maxlen=2)\n$n1.append($s)\n$n2 = $n1[0] * $n1[1]
$n1 = collections.defaultdict(float)\nfor i, t in enumerate($v):\n    $n1[i % 2] += t\n$n2 = $n1[0] * $n1[1]
$n1 = np.random.normal(size=3)\n$n2 = $n1 * $v[:3]
$n1 = np.random.default_rng(5)\n$n2 = $n1.normal(size=2).sum() * $s + $n1.uniform() * $s
$n1 = np.random.permutation(3)\n$n2 = $v[$n1 % 2]
if np.random.rand() > 0.5:\n$body
np.random.seed(4)\n$n1 = np.random.rand(3) * $s
$n1 = random.choice([0.5, 1.5, 2.5]) * $s
$n1 = int($s * 2.0)\n$n2 = $n1 * $s
$n1 = $i\n$n2 = $v[$n1] * $s\n$n1 += 1\n$n3 = $n1 * $s
$n1 = '%d' % ($i + 1)\n$n2 = len($n1) * $s
assert np.isfinite($s)\n$n1 = $x
del $V1\n$V1 = $v
$n1 = divmod($s, 0.7)\n$n2 = $n1[0] * $n1[1]
$n1 = $V\n$n2 = [t * 2.0 for t in $n1]\n$n3 = np.stack($n2)
for i in np.ndindex(2, 2):\n    $M[i] *= $s
$n1 = 0.0\nfor i, t in np.ndenumerate($a):\n    $n1 = $n1 + t * sum(i)
$n1 = $x\n$n1 **= 2
$n1 = np.array([$v, $v])\n$n1[0] = $s\n$n2 = $n1.sum(axis=0)
$n1 = np.broadcast_to($v, (2, 3)).copy()\n$n1[0, 0] = $s
$n1 = np.concatenate([$v, $v])\n$n2 = $n1[1:4]\n$n2 *= $n2
$n1 = np.expand_dims($A, 0)\n$n1[..., 0] $update $s
$n1 = $A.view()\n$n1[0] = $s
$n1 = $A.copy()\n$n1[0] = $s
$n1 = np.diagonal($M).copy()\n$n1 += $s
$n1 = np.lib.stride_tricks.sliding_window_view($V, 2)\n$n2 = $n1 * 1.0\n$V[0] = $s\n$n3 = $n1.sum(axis=0)
$n1 = np.tri(3) * $s\n$n1 += $n1.T
$n1 = $m.copy()\n$n1[[0, 1]] = $n1[[1, 0]]\n$n1[:, 0], $n1[:, 1] = $n1[:, 1] * 2.0, $n1[:, 0].copy()
$n1 = $v[:3] * 1.0\n$n1[1:] = $n1[:-1]
$n1 = memoryview(b'abc')[0] * $s
$V1.flat[1:] = $V1[:-1]
$V1.flat = $V1[::-1]
$V1[$V1 > -9.0] = $V1[::-1]
$M1.flat[::2] = $s
$M1[...] = $M1[::-1]
np.concatenate([$V1[1:], $V1[:1]], out=$V1)
np.cumsum($V1, out=$V1[::-1])
np.add($V1[1:], $V1[:-1], out=$V1[1:])
np.multiply($M1, $M1[::-1], out=$M1)
np.maximum.accumulate($V1[::-1], out=$V1)
np.modf($V, out=($V, np.zeros(3)))
np.divmod($V1, 0.7, out=($V1, np.zeros(3)))
np.take($V1, [2, 0, 1], out=$V1, mode='clip')
np.clip($A, $s, 2.0, out=$A)
np.put_along_axis($M, np.argmax($M, axis=1)[:, None], $s, axis=1)
np.subtract.at($V, [0, 1, 0], $v[:3])
$V1[$w % 2] += $v[:3]
$M1[[0, 0], [1, 1]] += $s
$M1[$v[:$M1.shape[0]] > 0] *= $s
$M1[:, [0, 1]], $M1[:, 2] = $M1[:, [1, 0]], $M1[:, 0].copy()
$M1[np.nonzero($M1 > 0)] = $s
$M1[np.tril_indices(2)] *= $s
$V1.ravel()[::2] = $s
$M1.ravel()[1:] *= $s
$M1.T.ravel()[0] = $s
$A1.ravel('F')[0] = $s
$M1.T.reshape(-1)[1:] += $s
$n1 = $M.ravel()\n$M[0] = $s\n$n2 = $n1 * 1.0
$n1 = np.ascontiguousarray($M.T)\n$n1[0] = $s\n$n2 = $M * 1.0
$n1 = np.asfortranarray($M)\n$n1[0] = $s\n$n2 = $M * 1.0
try:\n    $V[0] = $s\nexcept ValueError:\n    $n1 = $s
try:\n    $V1 += $M\nexcept ValueError:\n    $V1 *= $s
try:\n$body\n    $n1 = [0.5, 1.5][$i]\nexcept IndexError:\n    $n1 = $s\nelse:\n$body\nfinally:\n    $n2 = $s
try:\n    $n1 = math.exp($s * 900.0)\nexcept OverflowError:\n    $n1 = $s
try:\n    $n1 = $k / round($s)\nexcept ZeroDivisionError:\n    $n1 = $s
with np.errstate(divide='raise'):\n    try:\n        $n1 = $k / np.round($v)\n    except FloatingPointError:\n        $n1 = $v
match $v.shape:\n    case (3,):\n        $n1 = $s\n    case (n,):\n        $n1 = $s * n
match {'p': $s, 'q': $v}:\n    case {'p': float(t), 'q': q} if t > 0:\n        $n1 = t * q\n    case {'q': q}:\n        $n1 = q
if ($n1 := $s) > $k:\n    $n2 = $n1 * $n1\nelse:\n    $n2 = -$n1
$n1 = list($v)\nheapq.heapify($n1)\n$n2 = heapq.heappop($n1) * $s + $n1[0]
$n1 = sorted($v)\n$n2 = bisect.bisect($n1, $s)\n$n3 = $n2 * $s
$n1 = list($v)\n$n1.insert($i, $s)\n$n2 = $n1.index(max($n1)) * $s
$n1 = [t for t, q in itertools.pairwise($v) if t > q]\n$n2 = sum($n1) * len($n1)
$n1 = sum(p * q for p, q in itertools.combinations($v, 2))
$n1 = $k\nfor p, g in itertools.groupby(sorted($v), key=lambda t: t > 0.0):\n    $n1 = $n1 * 0.5 + sum(g)
$n1 = operator.itemgetter(0, -1)($v)\n$n2 = operator.mul(*$n1)
$n1 = operator.iadd($V, $s)\n$n2 = $n1 * 2.0
$n1 = copy.deepcopy([$V, {'q': $V}])\n$n1[0][0] = $s\n$n2 = $n1[1]['q'] + $n1[0]
$n1 = copy.copy($V)\n$n1[0] = $s\n$n2 = $n1 + $V
def $n1():\n    p = $s\n    def q():\n        nonlocal p\n        p = p * 0.5 + 0.1\n        return p\n    return q\n$n2 = $n1()\n$n3 = $n2() + $n2()
def $n1(p):\n    try:\n        for t in p:\n            yield t * 2.0\n    finally:\n        p[0] = $s\n$n2 = $n1($V)\n$n3 = next($n2)\n$n2.close()
def $n1(p):\n    q = yield from (t * $s for t in p)\n    yield p[0]\n$n2 = list($n1($v))\n$n3 = $n2[0] * $n2[-1]
$n1 = $v[0]\n$n2 = 0\nwhile abs($n1 * $n1 - 2.0) > 0.01 and $n2 < 12:\n    $n1 = 0.5 * ($n1 + 2.0 / ($n1 + 3.0))\n    $n2 += 1\n$n3 = $n2 * $s
$n1, $n2 = -3.0, 3.0\nfor i in range(6):\n    $n3 = ($n1 + $n2) / 2.0\n    if $n3 ** 3 < $s:\n        $n1 = $n3\n    else:\n        $n2 = $n3
$n1 = $v\nfor i in range(14):\n    $n1 = np.tanh($n1 * 1.1) + 0.1 * $s\n    if $n1[0] > 0.4:\n        $n1 = $n1 * 0.9
$n1 = np.zeros((9, 3))\n$n1[0] = $v[:3]\nfor i in range(1, 9):\n    $n1[i] = $n1[i - 1] * 0.8 + 0.1 * $s\n    $n1[i, i % 3] -= 0.5
$n1 = int(abs($s) * 3.0) % 4\n$n2 = np.zeros($n1 + 1)\n$n2[$n1 // 2:] = $s\n$n3 = $n2.sum() / ($n1 + 1)
$n1 = np.arange(int(abs($s) * 2.0) % 3 + 1) * $s\n$n2 = $n1.mean()
$n1 = {'p': 0.0}\nfor t in $v:\n    $n1['p' if t > 0 else 'q'] = $n1.get('q', 0.5) + t\n$n2 = $n1['p'] * len($n1)
$n1 = np.nan_to_num(np.log($v), nan=$s)
$n1 = np.where($v > 0, np.sqrt($v), $s)\n$n2 = np.nan_to_num($n1)
$n1 = np.vectorize(lambda p: p * 2.0 if p > 0 else $s)($v)
$n1 = np.apply_along_axis(lambda r: r[r > -9.0] * $s, 0, $m)
$n1 = np.zeros(3, np.uint8)\n$n1 -= 1\n$n2 = $n1 * $s
$n1 = $v.astype(np.int32)\n$n1[0] = $i\n$n2 = $n1 / 2 * $s
$n1 = np.zeros(3, bool)\n$n1[$v[:3] > 0] = True\n$n2 = $n1 * $v[:3]
$n1 = np.zeros(3, np.int64)\n$n1[:] = $v[:3]\n$n2 = $n1 * $s
$n1 = $s\n$n1 = $n1.real if hasattr($n1, 'real') else $n1\n$n2 = $n1 * 1.0
""".strip().splitlines()


EXPRESSIONS = {kind: alternatives(text) for kind, text in ROWS.items()}
FUNCTIONS_OF_ITSELF = alternatives(SAME)
WORDS = {"ufunc": UFUNCS, "binary": BINARY, "red": REDUCTIONS, "op": OPERATORS, "update": UPDATES, "cmp": COMPARISONS, "axis": AXES,
         "index": INDICES}
KINDS_OF = {"x": "sva", "a": "vma", "s": "s", "v": "v", "m": "m", "c": "c", "b": "b", "w": "w"}
"""Which kinds of rows give an expression of a kind."""
