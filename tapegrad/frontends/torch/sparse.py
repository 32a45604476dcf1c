"""sparse: sparse tensors in a traced program. The tape holds the dense tensors that they consist of; torch's functions
of sparse tensors are recorded as functions of those, with torch's own gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tapegrad import ops
from tapegrad.frontends.torch import autocast
from tapegrad.frontends.torch.facts import FACTS
from tapegrad.frontends.torch.generic import generic
from tapegrad.frontends.torch.leaves import is_leaf, requires
from tapegrad.frontends.torch.proxy import WithoutMemory
from tapegrad.frontends.torch.registry import found, spelled, torch_means
from tapegrad.frontends.torch.write import is_in_place
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.sparse_tensors import TRACED, Form, followed, is_sparse_tensor, put_together, taken_apart
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.rules.registry import DISPATCH, Refusal, refused
from tapegrad.tree.flatten import leaves_of


class SparseProxy(WithoutMemory):
    """A sparse tensor with traced parts; `_moved` if these are ordered differently from torch's."""

    _form: Form
    _sparse_parts: tuple[Any, ...] = ()
    _moved = False
    _kind, _cure = "traced sparse tensor", "x.to_dense()"


def made(form: Form, parts: tuple[Any, ...], moved: bool = False) -> SparseProxy:
    """Return the sparse tensor of a form with traced parts."""
    known = plain(parts[-1])
    proxy: Any = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        SparseProxy, form.size, dtype=known.dtype, device=known.device)
    proxy.__dict__.update(_form=form, _sparse_parts=parts, _moved=moved)
    return proxy  # type: ignore[no-any-return]


TRACED.append(made)


def sparse_in(args: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path and value of each sparse tensor among arguments, also in lists, tuples and dicts."""
    for key, arg in args.items() if type(args) is dict else enumerate(args):
        if type(arg) in (list, tuple, dict):
            yield from sparse_in(arg, (*path, key))
        elif is_sparse_tensor(arg):
            yield (*path, key), arg


def replaced(args: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return nested arguments with the value at a path replaced."""
    if not path:
        return new
    if type(args) is dict:
        return {**args, path[0]: replaced(args[path[0]], path[1:], new)}
    return type(args)([replaced(x, path[1:], new) if i == path[0] else x for i, x in enumerate(args)])


@functools.cache
def of_parts(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch as a function of dense tensors: the parts of its sparse arguments follow its `count`
    own arguments. Each of `forms` has a sparse argument's path, its form and the range of its parts. A sparse result is
    returned as its parts.
    """
    def run(*args: Any, forms: tuple[Any, ...], count: int, **kwargs: Any) -> Any:
        given: Any = {**dict(enumerate(args[:count])), **kwargs}
        for path, form, start, end in forms:
            given = replaced(given, path, put_together(Form(*form), args[start:end]))
        y = func(*[given.pop(i) for i in range(count)], **given)
        return followed(y) if is_sparse_tensor(y) else y
    run.__name__ = run.__qualname__ = f"sparse_{func.__name__.strip('_').removeprefix('sparse_')}"
    run.cure = "x.to_dense(), for a dense tensor"  # type: ignore[attr-defined]
    return run


def call(tracer: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of torch with sparse tensors, or one that makes them."""
    meaning, name = MEANINGS.get(func), spelled(func)
    if func in FACTS and meaning is None:  # the shape is static, whatever the number of stored elements
        for x in traced_parts(args):
            if isinstance(x, Traced):
                x._fact("dtype", dtype_of(plain(x)))  # type: ignore[attr-defined]
        return func(*map(untraced, args), **kwargs)
    if isinstance(DISPATCH.get(func), Refusal):
        return DISPATCH[func](*args, **kwargs)
    if autocast.ENABLED():
        raise refused(f"{name} of a sparse tensor", "torch.autocast is on", "call it without autocast")
    if meaning is not None and not (kwargs and meaning is matmul):
        return meaning(*args, **kwargs)
    if is_in_place(func, kwargs) or kwargs.get("out") is not None:
        raise refused(f"{name} of a sparse tensor", "it writes in place", "use the function that returns a new tensor")
    if "register" in name:
        raise refused(f"{name} of a sparse tensor", "a sparse tensor is recorded as its parts, indices and values",
                      "set the hook on its values before making it")
    return recorded(tracer, func, args, kwargs)


def recorded(tracer: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function of sparse tensors as one of their parts."""
    given: Any = {**dict(enumerate(args)), **kwargs}
    forms, behind = [], list[Any]()
    for path, x in sparse_in(given):
        form, parts = taken_apart(x)
        start = len(args) + len(behind)
        behind += parts
        given = replaced(given, path, None)
        forms.append((path, tuple(form), start, start + len(parts)))
    positional = (*[given.pop(i) for i in range(len(args))], *behind)
    y = generic(tracer, of_parts(func), positional, {**given, "forms": tuple(forms), "count": len(args)}, itself=False)
    if isinstance(y, tuple):
        with torch.no_grad():
            known = func(*untraced(args), **untraced(kwargs))
        if is_sparse_tensor(known):
            form, _ = taken_apart(known)
            return made(form._replace(coalesced=True), y, moved=not form.coalesced)
    if not all(isinstance(part, torch.Tensor) for part in (y if isinstance(y, tuple) else (y,))):
        raise refused(f"{spelled(func)} of a sparse tensor", f"it returns {type(plain(y)).__name__}", "x.to_dense()")
    return y


def untraced(x: Any) -> Any:
    """Return nested arguments with plain tensors in place of traced ones, sparse ones included."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(untraced, x))
    if type(x) is dict:
        return {key: untraced(part) for key, part in x.items()}
    return put_together(x._form, tuple(map(plain, x._sparse_parts))) if type(x) is SparseProxy else plain(x)


# -- queries of a sparse tensor that its parts answer

MEANINGS: dict[Any, Callable[..., Any]] = {}


def means(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the implementation of functions of torch for sparse tensors."""
    def decorate(meaning: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS.update({fn: meaning for name in names for fn in found(name)})
        return meaning
    return decorate


def part(name: str, at: int) -> None:
    """Register a method that returns part `at` of a sparse tensor; torch's own method checks that it exists."""
    method = getattr(torch.Tensor, name)

    def read(x: Any) -> Any:
        if type(x) is SparseProxy and x._moved and name.startswith("_"):
            raise refused(f"Tensor.{name} of a sparse tensor", "its values may be in another order than torch's",
                          "x.coalesce() first")
        known = x._form.coalesced and not x._moved
        if not known:
            method(untraced(x))  # raises where it is not coalesced
        y = x._sparse_parts[at]
        return y if name != "_values" else ops.stop_gradient(y)
    means(f"Tensor.{name}")(read)


for _name, _at in {"values": -1, "_values": -1, "indices": 0, "_indices": 0, "crow_indices": 0, "col_indices": 1,
                   "ccol_indices": 0, "row_indices": 1}.items():
    part(_name, _at)


@means("Tensor.is_coalesced")
def is_coalesced(x: Any) -> bool:
    return bool(untraced(x).is_coalesced()) and not x._moved


@means("Tensor._nnz")
def stored(x: Any) -> int:
    if x._moved:
        raise refused("Tensor._nnz of a sparse tensor", "torch may store one element in several parts",
                      "x.coalesce() first")
    return int(x._sparse_parts[-1].shape[0])


@means("Tensor.coalesce")
def coalesce(x: Any) -> Any:
    form, parts = x._form, x._sparse_parts
    if form.layout != "sparse_coo" or not form.coalesced:
        return recorded(tracer_of(parts), torch.Tensor.coalesce, (x,), {})
    return made(form, parts) if x._moved else x


@means("Tensor._coalesced_")
def claim(x: Any, coalesced: bool) -> Any:
    """Set whether a sparse tensor counts as coalesced."""
    x.__dict__.update(_form=x._form._replace(coalesced=coalesced), _moved=x._moved and not coalesced)
    return x


@means("Tensor.detach", "detach", "Tensor.data")
def detach(x: Any) -> Any:
    return made(x._form, (*x._sparse_parts[:-1], ops.stop_gradient(x._sparse_parts[-1])), x._moved)


means("Tensor.sparse_dim")(lambda x: untraced(x).sparse_dim())
means("Tensor.dense_dim")(lambda x: untraced(x).dense_dim())
means("Tensor.requires_grad")(lambda x: requires(x._sparse_parts[-1]))
means("Tensor.is_leaf")(lambda x: is_leaf(x._sparse_parts[-1]))


@means("Tensor.__repr__", "Tensor.__format__")
def text(x: Any, *_: Any, **__: Any) -> str:
    return f"SparseProxy({untraced(x)!r})"


# -- products with dense tensors, and other functions that have derivatives of every order


def by_rows(x: Any) -> tuple[Any, Any, Any, bool] | None:
    """Return the numbers of a sparse matrix, their columns, the offsets of rows, and whether these are rows of the
    transpose; None if it is not such a matrix.
    """
    form, (*places, values) = taken_apart(x)
    if len(form.size) != 2 or len(plain(values).shape) != 1:
        return None
    if form.layout in ("sparse_csr", "sparse_csc"):
        return values, places[1], places[0], form.layout == "sparse_csc"
    if form.layout != "sparse_coo":
        return None
    rows, columns = places[0]
    if not form.coalesced:
        order = torch.argsort(rows, stable=True)
        values, rows, columns = values[order], rows[order], columns[order]
    return values, columns, torch.searchsorted(rows, torch.arange(form.size[0] + 1, device=rows.device)), False


@means("sparse.mm", "mm", "matmul", "mv", "spmm", "Tensor.mm", "Tensor.matmul", "Tensor.mv", "Tensor.__matmul__")
def matmul(a: Any, b: Any, *more: Any) -> Any:
    """Return the product of a sparse matrix and a dense tensor, in either order."""
    left, right = is_sparse_tensor(a), is_sparse_tensor(b)
    stored = by_rows(a if left else b) if left != right and not more else None
    known, x = (a, b) if left else (b, a)
    size = taken_apart(known)[0].size if stored else ()
    fits = stored and plain(x).ndim in (1, 2) and plain(x).dtype is plain(stored[0]).dtype
    if not fits or plain(x).shape[0 if left else -1] != size[0 if right else 1]:
        func = torch.sparse.mm if more else torch.matmul
        return recorded(tracer_of(traced_parts((a, b))), func, (a, b, *more), {})
    values, columns, starts, transposed = stored  # type: ignore[misc]
    if left:
        return ops.sparse_matmul(values, columns, starts, x, shape=size, transposed=transposed)
    y = ops.sparse_matmul(values, columns, starts, x.T if plain(x).ndim == 2 else x, shape=size[::-1],
                          transposed=not transposed)
    return y.T if plain(x).ndim == 2 else y


means("Tensor.__rmatmul__")(lambda b, a: matmul(a, b))


@means("addmm", "Tensor.addmm", "sparse.addmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if is_sparse_tensor(input):
        given = (input, mat1, mat2)
        return recorded(tracer_of(traced_parts(given)), torch.addmm, given, {"beta": beta, "alpha": alpha})
    return input * beta + matmul(mat1, mat2) * alpha


def traced_parts(args: Any) -> Iterator[Any]:
    """Yield the arguments, sparse tensors as their parts."""
    for x in args:
        yield from x._sparse_parts if type(x) is SparseProxy else (x,)


@means("Tensor.to_dense")
def to_dense(x: Any, dtype: Any = None, *, masked_grad: Any = None) -> Any:
    form, (*places, values) = taken_apart(x)
    stored = by_rows(x)
    if stored is None or dtype is not None:
        how = {} if dtype is None else {"dtype": dtype}
        return recorded(tracer_of(x._sparse_parts), torch.Tensor.to_dense, (x,), how)
    if form.layout == "sparse_coo":
        at = tuple(places[0])
    else:
        starts, across = places
        majors = torch.arange(len(starts) - 1, device=starts.device)
        down = majors.repeat_interleave(starts.diff(), output_size=len(across))
        at = (across, down) if stored[3] else (down, across)
    return values.new_zeros(form.size).index_put(at, values, accumulate=True)


# -- constructors from dense tensors


def making(func: Callable[..., Any], *args: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
    """Record a function that makes a sparse tensor."""
    if requires_grad:
        raise refused(f"{spelled(func)} with requires_grad=True",
                      "the sparse tensor would be a leaf of torch's own autograd graph",
                      "tg.grad with respect to the values that it is made from")
    return recorded(tracer_of(leaves_of((args, list(kwargs.values())))), func, args, kwargs)


def around(func: Callable[..., Any], names: tuple[str, ...], *args: Any, size: Any = None, dtype: Any = None,
           device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Any:
    """Return a sparse tensor of given indices and numbers; a size that the indices decide is guarded."""
    if requires_grad:
        return making(func, requires_grad=True)
    parts = [x if isinstance(plain(x), torch.Tensor) else torch.as_tensor(x)
             for x in (*args, *(kwargs.pop(name) for name in names[len(args):]))]
    parts, more = parts[:len(names)], parts[len(names):]
    size = args[len(names)] if more else size
    parts[-1] = parts[-1].to(device=device, dtype=dtype)
    if func is torch.sparse_coo_tensor:
        parts[0] = parts[0].to(device=parts[-1].device, dtype=torch.int64)
    if size is None:
        size = size_of(func, *parts, **kwargs)
    form, _ = taken_apart(func(*untraced(tuple(parts)), untraced(size), **kwargs))
    return made(form, tuple(parts))


def size_of(func: Callable[..., Any], *parts: Any, **kwargs: Any) -> tuple[int, ...]:
    """Return the size that torch infers for a sparse tensor."""
    if func is torch.sparse_coo_tensor:
        return (*(int(row.max()) + 1 for row in parts[0]), *parts[1].shape[1:])
    sizes = (len(parts[0]) - 1, int(parts[1].max()) + 1)
    by_columns = func is torch.sparse_csc_tensor or kwargs.get("layout") is torch.sparse_csc
    if parts[2].ndim != 1:
        raise refused(spelled(func), "its size depends on values", "pass its size as an argument")
    return sizes[::-1] if by_columns else sizes


for _fn, _names in {torch.sparse_coo_tensor: "indices values",
                    torch.sparse_csr_tensor: "crow_indices col_indices values",
                    torch.sparse_csc_tensor: "ccol_indices row_indices values",
                    torch.sparse_compressed_tensor: "compressed_indices plain_indices values"}.items():
    torch_means(_fn.__name__)(functools.partial(around, _fn, tuple(_names.split())))
for _name in ["Tensor.to_sparse", "Tensor.to_sparse_coo", "Tensor.to_sparse_csr", "Tensor.to_sparse_csc",
              "Tensor.sparse_mask"]:
    for _fn in found(_name):
        torch_means(_name)(functools.partial(making, _fn))
