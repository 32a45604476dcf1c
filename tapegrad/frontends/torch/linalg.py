"""torch's linear algebra: products of vectors and matrices, parts of matrices, solvers and decompositions.

torch multiplies tensors of one dtype only, and of the shapes that a function requires. A call that an op would accept
but torch would not is recorded whole, and so raises torch's error. Functions that read one triangle only (cholesky,
eigh) stay torch's own: torch's cotangent is symmetric, the op's is on the triangle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.frontends.common import keywords, static
from tapegrad.frontends.numpy.decompose import matrix_power as power_of_matrix
from tapegrad.frontends.numpy.linalg import kron as kron_of_two
from tapegrad.frontends.numpy.linalg import multi_dot as product_of_chain
from tapegrad.frontends.torch.common import brought, one_dtype_of, related, settled, tensors_only
from tapegrad.frontends.torch.generic import whole
from tapegrad.frontends.torch.reduce import is_kind
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.frontends.torch.shape import axis_of, diagonal, movedim, ndim, transpose
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import Op


def fits(kinds: str, *xs: Any, ranks: tuple[int, ...] = ()) -> bool:
    """True for tensors of one dtype of these kinds, with the given numbers of axes."""
    return one_dtype_of(*xs) and is_kind(xs[0], kinds) and all(ndim(x) == rank for x, rank in zip(xs, ranks))


# -- products


@torch_means("matmul", "Tensor.matmul", "Tensor.__matmul__", "linalg.matmul")
def matmul(input: Array, other: Array) -> Any:
    return ops.matmul(input, other) if fits("ifc", input, other) else whole("matmul", input, other)


torch_means("Tensor.__rmatmul__")(lambda self, other: matmul(other, self))


def _product(name: str, second: str, *ranks: int) -> None:
    """Register matmul for a product of tensors of these ranks only."""
    def meaning(input: Array, *args: Any, **given: Any) -> Any:
        other = args[0] if args else given.get(second)
        if len(args) + len(given) > 1 or not tensors_only(other) or not fits("ifc", input, other, ranks=ranks):
            return whole(name, input, *args, **given)
        return ops.matmul(input, other)
    torch_means(name, f"Tensor.{name}")(meaning)


_product("mm", "mat2", 2, 2)
_product("bmm", "mat2", 3, 3)
_product("mv", "vec", 2, 1)


@torch_means("dot", "Tensor.dot")
def dot(input: Any, tensor: Any = None, *, other: Any = None) -> Any:
    tensor = other if tensor is None else tensor
    return ops.matmul(input, tensor) if fits("ifc", input, tensor, ranks=(1, 1)) else whole("dot", input, tensor)


@torch_means("vdot", "Tensor.vdot")
def vdot(input: Array, other: Array) -> Any:
    return ops.vecdot(input, other) if fits("fc", input, other, ranks=(1, 1)) else whole("vdot", input, other)


@torch_means("linalg.vecdot")
def vecdot(x: Array, y: Array, *, dim: int = -1) -> Any:
    if not fits("fc", x, y) or not ndim(x) or not ndim(y):
        return whole("linalg.vecdot", x, y, dim=dim)
    return ops.sum(ops.multiply(ops.conjugate(x) if is_kind(x, "c") else x, y), axis=_aligned(x, y, dim))


def _aligned(x: Array, y: Array, dim: Any) -> int:
    """Return a negative axis that is the same for two tensors that broadcast against each other."""
    rank = max(ndim(x), ndim(y))
    static_dim = static(dim)
    return int(static_dim if static_dim < 0 else static_dim - rank)


@torch_means("inner", "Tensor.inner")
def inner(input: Array, other: Array) -> Any:
    if not fits("ifc", input, other):
        return whole("inner", input, other)
    if not ndim(input) or not ndim(other):
        return ops.multiply(input, other)
    return ops.tensordot(input, other, axes=((ndim(input) - 1,), (ndim(other) - 1,)))


@torch_means("outer", "ger", "Tensor.outer", "Tensor.ger")
def outer(input: Array, vec2: Any) -> Any:
    xs = settled((input, vec2), "ifc") if tensors_only(input, vec2) and ndim(input) == ndim(vec2) == 1 else None
    return whole("outer", input, vec2) if xs is None else ops.multiply(ops.expand_dims(xs[0], axis=1), xs[1])


def _plus_product(name: str, left: str, right: str, ranks: tuple[int, int], product: Callable[..., Any]) -> None:
    """Register `beta * input + alpha * (a @ b)`; with beta = 0 torch does not read the input."""
    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Array, *args: Any, beta: Any = 1, alpha: Any = 1, **given: Any) -> Any:
        a, b = (*args, *(given.pop(key) for key in (left, right) if key in given))[:2]
        if (given or len(args) > 2 or not fits("fc", input, a, b) or (ndim(a), ndim(b)) != ranks
            or isinstance(plain(beta), complex)):
            return whole(name, input, *args, beta=beta, alpha=alpha, **given)
        y = _times(product(a, b), alpha)
        if type(beta) in (int, float) and beta == 0:
            return y
        sum_ = ops.add(_times(input, beta), y)
        return sum_ if shape_of(sum_) == shape_of(y) else whole(name, input, a, b, beta=beta, alpha=alpha)


def _times(x: Any, factor: Any) -> Any:
    return x if type(factor) in (int, float) and factor == 1 else ops.multiply(x, brought(factor, plain(x).dtype))


_plus_product("addmm", "mat1", "mat2", (2, 2), ops.matmul)
_plus_product("addmv", "mat", "vec", (2, 1), ops.matmul)
_plus_product("addr", "vec1", "vec2", (1, 1), lambda a, b: ops.multiply(ops.expand_dims(a, axis=1), b))
_plus_product("baddbmm", "batch1", "batch2", (3, 3), ops.matmul)
_plus_product("addbmm", "batch1", "batch2", (3, 3), lambda a, b: ops.sum(ops.matmul(a, b), axis=0))


@torch_means("chain_matmul")
def chain_matmul(*matrices: Any) -> Any:
    xs = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)) else matrices
    return multi_dot(xs)


@torch_means("linalg.multi_dot")
def multi_dot(tensors: Any) -> Any:
    if (len(tensors) < 2 or not fits("ifc", *tensors) or any(ndim(x) != 2 for x in tensors[1:-1])
        or {ndim(tensors[0]), ndim(tensors[-1])} - {1, 2}):
        return whole("linalg.multi_dot", tensors)
    return product_of_chain(tensors)


@torch_means("linalg.matrix_power", "matrix_power", "Tensor.matrix_power")
def matrix_power(input: Array, n: Any) -> Any:
    shape, n = shape_of(input), static(n)
    if not is_kind(input, "fc") or n == 0 or len(shape) < 2 or shape[-1] != shape[-2] or 0 in shape:
        return whole("matrix_power", input, n)
    return in_torchs_words(power_of_matrix)(input, n)


@torch_means("einsum")
def einsum(equation: Any, *operands: Any) -> Any:
    xs = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    if not isinstance(equation, str) or not fits("fc", *xs):
        return whole("einsum", equation, *operands)
    return ops.einsum(equation.replace(" ", ""), *xs, **({"optimize": True} if len(xs) > 2 else {}))


@torch_means("tensordot")
def tensordot(a: Array, b: Array, dims: Any = 2) -> Any:
    if not fits("fc", a, b) or tensors_only(dims):
        return whole("tensordot", a, b, dims)
    axes = static(dims)
    left, right = (range(ndim(a) - axes, ndim(a)), range(axes)) if isinstance(axes, int) else axes
    of_a, of_b = ((part,) if isinstance(part, int) else tuple(part) for part in (left, right))
    if [shape_of(a)[i] for i in of_a] != [shape_of(b)[i] for i in of_b]:  # torch broadcasts axes of length 1
        return whole("tensordot", a, b, dims)
    return ops.tensordot(a, b, axes=axes if isinstance(axes, int) else (of_a, of_b))


@torch_means("kron", "Tensor.kron")
def kron(input: Array, other: Array) -> Any:
    xs = settled((input, other), "ifc") if tensors_only(input, other) else None
    return whole("kron", input, other) if xs is None else kron_of_two(*xs)


@torch_means("linalg.cross")
def linalg_cross(input: Array, other: Array, *, dim: int = -1) -> Any:
    xs = settled((input, other), "ifc") if tensors_only(input, other) and ndim(input) == ndim(other) > 0 else None
    if xs is None or any(shape_of(x)[axis_of(x, dim)] != 3 for x in xs):
        return whole("linalg.cross", input, other, dim=dim)
    a, b = (movedim(x, dim, -1) for x in xs)
    parts = [(a[..., i], a[..., k], b[..., i], b[..., k]) for i, k in ((1, 2), (2, 0), (0, 1))]
    return ops.stack(*[ops.subtract(ops.multiply(ai, bk), ops.multiply(ak, bi)) for ai, ak, bi, bk in parts],
                     axis=axis_of(xs[0], dim))


@torch_means("cross", "Tensor.cross")
def cross(input: Array, other: Array, dim: Axis = None) -> Any:
    if dim is None:  # the first axis of length 3
        dim = next((i for i, n in enumerate(shape_of(input)) if n == 3), None)
    return whole("cross", input, other) if dim is None else linalg_cross(input, other, dim=dim)


# -- parts of matrices


def _triangle(op: Op, name: str) -> None:
    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Array, diagonal: Any = 0) -> Any:
        return op(input, **keywords(k=static(diagonal) or None)) if ndim(input) > 1 else whole(name, input, diagonal)


_triangle(ops.tril, "tril")
_triangle(ops.triu, "triu")


@torch_means("trace", "Tensor.trace")
def trace(input: Array) -> Any:
    return ops.sum(ops.diagonal(input), axis=-1) if ndim(input) == 2 else whole("trace", input)


@torch_means("linalg.diagonal")
def linalg_diagonal(A: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return diagonal(A, offset, dim1, dim2)


@torch_means("diag_embed", "Tensor.diag_embed")
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    shape, offset = shape_of(input), static(offset)
    if not shape or not is_kind(input, "fc"):
        return whole("diag_embed", input, offset, dim1, dim2)
    n = shape[-1] + abs(offset)
    index = ops.diagonal_index(shape[-1], offset)
    known = {} if plain(input).dtype is torch.float64 else {"dtype": dtype_of(input)}
    y = ops.scatter(input, Ellipsis, *index, shape=(*shape[:-1], n, n), ranks=(3,), **known)
    return movedim(y, (-2, -1), (axis_of(y, dim1), axis_of(y, dim2)))


@torch_means("diag", "Tensor.diag")
def diag(input: Array, diagonal: Any = 0) -> Any:
    if ndim(input) == 1:
        return diag_embed(input, diagonal)
    return (ops.copy(ops.diagonal(input, **keywords(offset=static(diagonal) or None))) if ndim(input) == 2
            else whole("diag", input, diagonal))


@torch_means("diagflat", "Tensor.diagflat")
def diagflat(input: Array, offset: int = 0) -> Any:
    return diag_embed(ops.reshape(input, (-1,)), offset)


@torch_means("adjoint", "Tensor.adjoint", "Tensor.mH", "Tensor.H")
def adjoint(input: Array) -> Any:
    if ndim(input) < 2:
        return whole("adjoint", input)
    y = transpose(input, -2, -1)
    return y if not is_kind(input, "c") else related(input, ops.conjugate(y))


# -- solvers, determinants and decompositions


def in_torchs_words(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` with NumPy's LinAlgError replaced by torch's."""
    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except np.linalg.LinAlgError as err:
            raise torch.linalg.LinAlgError(str(err)) from err
    return run


def is_square(x: Array) -> bool:
    shape = shape_of(x)
    return is_kind(x, "fc") and len(shape) > 1 and shape[-1] == shape[-2] and 0 not in shape


def _of_matrix(op: Op, names: list[str], result: Any = None) -> None:
    """Register an op for functions of one square matrix."""
    compute = in_torchs_words(op)

    def meaning(A: Any = None, *, input: Any = None) -> Any:
        x = A if input is None else input
        if not is_square(x):
            return whole(names[0], x)
        y = compute(x)
        return y if result is None else result(tuple(y))
    torch_means(*names)(meaning)


_of_matrix(ops.inv, ["linalg.inv", "inverse", "Tensor.inverse"])
_of_matrix(ops.det, ["linalg.det", "det", "Tensor.det"])
_of_matrix(ops.slogdet, ["linalg.slogdet"], torch.return_types.linalg_slogdet)
_of_matrix(ops.slogdet, ["slogdet", "Tensor.slogdet"], torch.return_types.slogdet)


@torch_means("linalg.solve")
def solve(A: Array, B: Array, *, left: bool = True) -> Any:
    if not fits("fc", A, B) or not is_square(A) or not ndim(B) or 0 in shape_of(B):
        return whole("linalg.solve", A, B, left=left)
    run = in_torchs_words(ops.solve)
    if ndim(B) == 1 or shape_of(B) == shape_of(A)[:-1]:  # vectors
        return run(A, B) if ndim(B) == 1 and left else whole("linalg.solve", A, B, left=left)
    if left:
        return run(A, B)
    return transpose(run(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)


@torch_means("linalg.svdvals")
def svdvals(A: Any, *, driver: Any = None) -> Any:
    if not is_kind(A, "fc") or ndim(A) < 2 or 0 in shape_of(A) or driver is not None:
        return whole("linalg.svdvals", A, driver=driver)
    return in_torchs_words(ops.svdvals)(A)


@torch_means("linalg.svd")
def svd(A: Array, full_matrices: bool = True, *, driver: Any = None) -> Any:
    if not is_kind(A, "fc") or ndim(A) < 2 or 0 in shape_of(A) or driver is not None:
        return whole("linalg.svd", A, full_matrices, driver=driver)
    return torch.return_types.linalg_svd(tuple(in_torchs_words(ops.svd)(A, **({} if full_matrices
                                                                              else {"full_matrices": False}))))


@torch_means("linalg.qr")
def qr(A: Array, mode: str = "reduced") -> Any:
    if not is_kind(A, "fc") or ndim(A) < 2 or 0 in shape_of(A) or mode not in ("reduced", "complete"):
        return whole("linalg.qr", A, mode)  # torch has no derivative for mode "r"
    return torch.return_types.linalg_qr(tuple(ops.qr(A, **({} if mode == "reduced" else {"mode": mode}))))


@torch_means("linalg.pinv", "pinverse", "Tensor.pinverse")
def pinv(A: Array, *, rcond: Any = None, hermitian: bool = False, **tolerances: Any) -> Any:
    shape = shape_of(A)
    if (hermitian or tolerances or not is_kind(A, "fc") or len(shape) < 2 or 0 in shape
        or (rcond is not None and type(rcond) is not float)):
        given = {} if rcond is None else {"rcond": rcond}
        return whole("linalg.pinv", A, **given, **({"hermitian": True} if hermitian else {}), **tolerances)
    return in_torchs_words(ops.pinv)(A, max(shape[-2:]) * torch.finfo(plain(A).dtype).eps if rcond is None else rcond)
