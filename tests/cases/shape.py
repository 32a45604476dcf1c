"""Cases of the shape ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.cases.case import Case, draw

EMPTY = np.zeros((0, 3))
ZERO_D = np.array(draw())
STRIDED = draw(4, 3, seed=1).T[::-1, ::2]  # of shape (3, 2)


def shaped(name: str, fn: Callable[..., Any], *shapes: tuple[int, ...], torch: Any = None, errors: Any = (), **kwargs: Any) -> Case:
    """One array of each shape, and, where the shapes allow, a strided one."""
    samples = [(draw(*shape) if shape else np.array(draw()),) for shape in shapes]
    samples += [(draw(*reversed(shape), seed=1).T[::-1],) for shape in shapes if len(shape) > 1 < min(shape)]
    return Case(name, fn, samples, torch=torch, errors=errors, **kwargs)


def refuses(error: type[Exception], *args: Any) -> list[tuple[tuple[Any, ...], type[Exception]]]:
    return [(args, error)]


VECTOR, MATRIX, CUBE = (3,), (2, 3), (2, 3, 4)
A, B = draw(2, 3, seed=1), draw(2, 3, seed=2)
U, W = draw(3, seed=3), draw(3, seed=4)
JOINED: list[tuple[Any, ...]] = [(A, B), (A, STRIDED.T), (EMPTY, A)]

CASES: list[Case] = [
    # -- reshaping
    shaped("reshape", lambda x: np.reshape(x, (3, -1)), MATRIX, CUBE, (0, 3),
           torch=lambda x: x.reshape(3, -1) if x.numel() else x.reshape(3, 0),
           errors=refuses(ValueError, np.ones(4))),
    shaped("reshape:method", lambda x: x.reshape(-1, 2) * x.reshape((3, 2)), MATRIX),
    shaped("reshape:list", lambda x: x.reshape([6]), MATRIX),
    shaped("reshape:to_0d", lambda x: x.reshape(()) * 2.0, (), (1,), (1, 1)),
    Case("reshape:number", lambda x: np.reshape(x, (1, 1)), [(1.5,), (np.float64(1.5),)]),
    shaped("reshape:fortran", lambda x: np.reshape(x, (4, -1), order="F"), CUBE),
    shaped("reshape:fortran_int", lambda x: x.reshape(-1, order="F"), MATRIX, ()),
    shaped("reshape:ravel", np.ravel, VECTOR, MATRIX, (), (0, 3), torch=torch.ravel),
    Case("reshape:ravel_number", np.ravel, [(1.5,)]),
    shaped("reshape:ravel_method", lambda x: x.ravel(order="F"), CUBE),
    shaped("reshape:flatten", lambda x: x.flatten(), CUBE, (), torch=torch.flatten),
    shaped("reshape:flatten_fortran", lambda x: x.flatten("F"), MATRIX),
    shaped("expand_dims", lambda x: np.expand_dims(x, 1), VECTOR, MATRIX, torch=lambda x: torch.unsqueeze(x, 1),
           errors=refuses(np.exceptions.AxisError, 1.0)),
    shaped("expand_dims:axes", lambda x: np.expand_dims(x, (0, -1)), (), VECTOR, (0, 3)),
    Case("expand_dims:number", lambda x: np.expand_dims(x, 0), [(1.5,)]),
    shaped("expand_dims:list", lambda x: np.expand_dims(x, [0, 2]), VECTOR),
    shaped("squeeze", np.squeeze, (1, 3, 1), (1, 1), MATRIX, (), torch=torch.squeeze),
    shaped("squeeze:number", lambda x: np.squeeze(x) * 2.0, ()),
    shaped("squeeze:axis", lambda x: x.squeeze(-1), (1, 3, 1), (2, 1), torch=lambda x: torch.squeeze(x, -1),
           errors=refuses(ValueError, np.ones(3))),
    shaped("squeeze:axes", lambda x: np.squeeze(x, axis=(0, -1)), (1, 3, 1), (1, 1)),
    *[shaped(f"expand_dims:atleast_{n}d", fn, (), VECTOR, MATRIX, CUBE, torch=getattr(torch, f"atleast_{n}d"))
      for n, fn in [(1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d)]],
    Case("expand_dims:atleast_2d_each", lambda x, y: np.atleast_2d(x, y), [(1.5, U), (A, ZERO_D)]),
    Case("expand_dims:atleast_1d_number", np.atleast_1d, [(1.5,)]),
    # -- permuting the axes
    shaped("permute_dims", np.transpose, MATRIX, CUBE, VECTOR, (), (0, 3), torch=lambda x: x.permute(tuple(range(x.ndim))[::-1])),
    shaped("permute_dims:axes", lambda x: np.transpose(x, (1, -1, 0)), CUBE, torch=lambda x: x.permute(1, 2, 0),
           errors=refuses(ValueError, A)),
    shaped("permute_dims:T", lambda x: x.T * 2.0, MATRIX, (), CUBE),
    shaped("permute_dims:method", lambda x: x.transpose(2, 0, 1), CUBE),
    shaped("permute_dims:method_axes", lambda x: x.transpose([1, 0]), MATRIX),
    shaped("permute_dims:method_all", lambda x: x.transpose() + x.transpose(None), MATRIX, VECTOR),
    shaped("permute_dims:swapaxes", lambda x: np.swapaxes(x, 0, -1), CUBE, MATRIX, VECTOR, torch=lambda x: torch.swapaxes(x, 0, -1),
           errors=refuses(np.exceptions.AxisError, 1.0)),
    shaped("permute_dims:swapaxes_method", lambda x: x.swapaxes(1, 2), CUBE, errors=refuses(np.exceptions.AxisError, A)),
    shaped("permute_dims:moveaxis", lambda x: np.moveaxis(x, 0, -1), CUBE, torch=lambda x: torch.moveaxis(x, 0, -1)),
    shaped("permute_dims:moveaxis_several", lambda x: np.moveaxis(x, [0, 1], [-1, -2]), CUBE, errors=refuses(np.exceptions.AxisError, U)),
    shaped("permute_dims:rollaxis", lambda x: np.rollaxis(x, 2), CUBE),
    shaped("permute_dims:rollaxis_start", lambda x: np.rollaxis(x, 0, 2), CUBE),
    shaped("permute_dims:matrix_transpose", np.matrix_transpose, MATRIX, CUBE, torch=lambda x: x.mT, errors=refuses(ValueError, U)),
    shaped("permute_dims:mT", lambda x: x.mT * 2.0, MATRIX, CUBE, errors=refuses(ValueError, U)),
    # -- reversing and rolling
    shaped("flip", np.flip, MATRIX, VECTOR, (), (0, 3), torch=lambda x: torch.flip(x, tuple(range(x.ndim)))),
    Case("flip:number", np.flip, [(1.5,)]),
    shaped("flip:axis", lambda x: np.flip(x, -1), MATRIX, torch=lambda x: torch.flip(x, (-1,)),
           errors=refuses(np.exceptions.AxisError, 1.0)),
    shaped("flip:axes", lambda x: np.flip(x, (0, 2)), CUBE),
    shaped("flip:fliplr", np.fliplr, MATRIX, torch=torch.fliplr, errors=refuses(ValueError, U)),
    shaped("flip:flipud", np.flipud, MATRIX, VECTOR, torch=torch.flipud),
    shaped("roll", lambda x: np.roll(x, 2), MATRIX, VECTOR, (0, 3), (), torch=lambda x: torch.roll(x, 2) if x.ndim else x),
    shaped("roll:axis", lambda x: np.roll(x, -1, axis=1), MATRIX, torch=lambda x: torch.roll(x, -1, 1),
           errors=refuses(np.exceptions.AxisError, U)),
    shaped("roll:axes", lambda x: np.roll(x, (1, -2), axis=(0, -1)), CUBE, torch=lambda x: torch.roll(x, (1, -2), (0, -1))),
    shaped("roll:one_shift", lambda x: np.roll(x, 1, axis=(0, 1)), MATRIX),
    shaped("roll:array_shift", lambda x: np.roll(x, np.array([1, 2]), axis=(0, 1)), MATRIX),
    *[shaped(f"permute_dims:rot90_{k}", lambda x, k=k: np.rot90(x, k), MATRIX, torch=lambda x, k=k: torch.rot90(x, k),
             ops=("permute_dims", "flip"))
      for k in (0, 1, 2, 3, -1)],
    shaped("permute_dims:rot90_axes", lambda x: np.rot90(x, axes=(2, 0)), CUBE, torch=lambda x: torch.rot90(x, 1, (2, 0)),
           errors=refuses(ValueError, A)),
    # -- stretching and repeating
    shaped("broadcast_to", lambda x: np.broadcast_to(x, (2, 2, 3)), MATRIX, VECTOR, (), (1, 1),
           torch=lambda x: torch.broadcast_to(x, (2, 2, 3)),
           errors=refuses(ValueError, np.ones(4))),
    Case("broadcast_to:number", lambda x: np.broadcast_to(x, 3), [(1.5,), (np.float64(1.5),)]),
    Case("broadcast_to:arrays", np.broadcast_arrays, [(A, U), (draw(2, 1), draw(3)), (1.5, A), (1.5, np.float64(2.5)), (EMPTY, U)],
         torch=lambda x, y: torch.broadcast_tensors(x, y), errors=refuses(ValueError, A, np.ones(4))),
    shaped("tile", lambda x: np.tile(x, (2, 3)), MATRIX, VECTOR, (), CUBE, (0, 3), torch=lambda x: torch.tile(x, (2, 3))),
    shaped("tile:int", lambda x: np.tile(x, 3), MATRIX, ()),
    shaped("tile:none", lambda x: np.tile(x, 0), VECTOR),
    Case("tile:number", lambda x: np.tile(x, 2), [(1.5,)]),
    shaped("repeat", lambda x: np.repeat(x, 2), MATRIX, VECTOR, (), (0, 3), torch=lambda x: torch.repeat_interleave(x.reshape(-1), 2)),
    shaped("repeat:axis", lambda x: np.repeat(x, 3, axis=-1), MATRIX, CUBE, torch=lambda x: torch.repeat_interleave(x, 3, -1)),
    shaped("repeat:method", lambda x: x.repeat(2, axis=0), MATRIX, VECTOR),
    shaped("repeat:no_times", lambda x: x.repeat(0), VECTOR),
    shaped("repeat:one", lambda x: np.repeat(x, [2], axis=1), MATRIX),
    Case("repeat:number", lambda x: np.repeat(x, 2), [(1.5,)]),
    shaped("take:repeat", lambda x: np.repeat(x, [2, 0, 1], axis=1), MATRIX,
           torch=lambda x: torch.repeat_interleave(x, torch.tensor([2, 0, 1]), 1),
           errors=refuses(ValueError, np.ones((2, 4)))),
    shaped("take:repeat_flat", lambda x: x.repeat(np.array([2, 0, 1])), VECTOR, (3, 1)),
    shaped("take:resize", lambda x: np.resize(x, (4, 2)), VECTOR, MATRIX, CUBE),
    shaped("take:resize_empty", lambda x: np.resize(x, 2) + x.sum(), (0, 3)),
    # -- padding
    shaped("pad", lambda x: np.pad(x, 1), VECTOR, MATRIX, (0, 3), torch=lambda x: torch.nn.functional.pad(x, (1, 1) * x.ndim)),
    shaped("pad:pair", lambda x: np.pad(x, (2, 0), constant_values=1.5), MATRIX),
    shaped("pad:pairs", lambda x: np.pad(x, [(1, 2), (0, 3)]), MATRIX),
    shaped("pad:values", lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=((1.0, 2.0), (3.0, 4.0))), MATRIX,
           errors=refuses(ValueError, draw(*CUBE))),
    Case("pad:traced_value", lambda x, v: np.pad(x, 2, constant_values=v),
         [(A, 1.5), (U, np.array(0.5)), (A, draw(1, 2)), (A, draw(2, 2)), (A, draw(2, 1))]),
    Case("pad:traced_values", lambda x, v, w: np.pad(x, (1, 2), constant_values=(v, w)), [(A, 1.5, 2.5)]),
    Case("pad:cast_value", lambda x, v: np.pad(x, 1, constant_values=v) * v, [(np.arange(3), 1.5)]),
    *[shaped(f"take:pad_{mode}", lambda x, mode=mode: np.pad(x, ((1, 2), (3, 0)), mode), MATRIX, (3, 4),
             errors=refuses(ValueError, EMPTY)) for mode in ("edge", "reflect", "symmetric", "wrap")],
    shaped("take:pad_torch", lambda x: np.pad(x, ((0, 0), (2, 1)), "reflect"), (2, 4),
           torch=lambda x: torch.nn.functional.pad(x, (2, 1), mode="reflect")),
    # -- joining
    Case("concat", lambda *xs: np.concatenate(xs), JOINED, torch=lambda *xs: torch.concat(xs),
         errors=[((A, np.ones((2, 4))), ValueError), ((1.5, 2.5), ValueError)]),
    Case("concat:axis", lambda *xs: np.concat(xs, axis=-1), [(A, B), (draw(2, 1), STRIDED[:2], A)], torch=lambda *xs: torch.concat(xs, -1)),
    Case("concat:flat", lambda *xs: np.concatenate(xs, axis=None), [(A, 1.5, U), (ZERO_D, EMPTY)]),
    Case("concat:same", lambda x: np.concatenate([x, x * 2, x]), [(U,)]),
    Case("concat:constant", lambda x: np.concatenate([np.arange(3), x, [1.0, 2.0]]), [(U,)]),
    Case("concat:dtype", lambda *xs: np.concatenate(xs, dtype=np.float64) * 2, [(A, B), (np.arange(3), U)]),
    Case("concat:of_array", lambda x: np.concatenate(x), [(draw(2, 3, 2),), (A,)]),
    Case("stack", lambda *xs: np.stack(xs), [(A, B), (1.5, 2.5), (ZERO_D, 2.5), (EMPTY, EMPTY), (draw(3, 2), STRIDED)],
         torch=lambda *xs: torch.stack(xs),
         errors=[((A, U), ValueError)]),
    Case("stack:axis", lambda *xs: np.stack(xs, axis=-1), [(A, B), (U, W)], torch=lambda *xs: torch.stack(xs, -1)),
    Case("stack:dtype", lambda *xs: np.stack(xs, axis=1, dtype=np.float64), [(A, B), (np.arange(3), U)]),
    Case("stack:sliced", lambda *xs: np.stack(xs)[0] * 2.0, [(A, B), (1.5, 2.5)]),
    Case("stack:of_array", lambda x: np.stack(x), [(A,)]),
    Case("concat:vstack", lambda *xs: np.vstack(xs), [(A, U), (U, W), (1.5, 2.5)], torch=lambda *xs: torch.vstack(xs),
         errors=[((A, np.ones(4)), ValueError)]),
    Case("concat:hstack", lambda *xs: np.hstack(xs), [(A, B), (U, W), (1.5, U)], torch=lambda *xs: torch.hstack(xs),
         errors=[((A, U), ValueError)]),
    Case("concat:dstack", lambda *xs: np.dstack(xs), [(A, B), (U, W), (1.5, 2.5)], torch=lambda *xs: torch.dstack(xs)),
    Case("concat:column_stack", lambda *xs: np.column_stack(xs), [(A.T, U), (U, W), (1.5, 2.5)], torch=lambda *xs: torch.column_stack(xs)),
    Case("concat:block", lambda a, b, c, d: np.block([[a, b], [c, d]]), [(A, draw(2, 1), U, 1.5), (1.5, 2.5, 0.5, 3.5)],
         errors=[((A, B, U, U[:2]), ValueError)]),
    Case("concat:block_flat", lambda a, b: np.block([a, b]), [(A, B), (U, 1.5), (draw(*CUBE), draw(2, 3, 1))]),
    Case("concat:block_errors", lambda a, b: np.block([[a, b], a]), [], errors=[((A, B), ValueError)]),
    Case("concat:append", lambda x, y: np.append(x, y), [(A, U), (U, 1.5)]),
    Case("concat:append_axis", lambda x, y: np.append(x, y, axis=0), [(A, B)]),
    Case("take:insert", lambda x, v: np.insert(x, 1, v), [(A, 1.5), (U, W), (U, draw(1))], ops=("take", "concat"),
         errors=[((np.ones(0), 1.5), IndexError)]),
    Case("take:insert_axis", lambda x, v: np.insert(x, 1, v, axis=1),
         [(A, 1.5), (A, draw(2)), (A, draw(2, 2)), (draw(*CUBE), draw(2, 4))], errors=[((A, U), ValueError)]),
    Case("take:insert_list", lambda x, v: np.insert(x, [1], v, axis=1), [(A, 1.5), (A, draw(2, 2)), (draw(*CUBE), draw(2, 5, 4))]),
    Case("take:insert_several", lambda x, v: np.insert(x, [2, 0, 2], v, axis=-1), [(A, 1.5), (A, U), (A, B), (draw(3), draw(1))]),
    Case("take:insert_slice", lambda x, v: np.insert(x, slice(0, 2), v, axis=0), [(A, 1.5), (A, B)]),
    Case("take:insert_mask", lambda x, v: np.insert(x, np.array([True, False, True]), v), [(U, 1.5), (U, draw(2))]),
    shaped("take:delete", lambda x: np.delete(x, 1), VECTOR, MATRIX, errors=refuses(IndexError, np.ones(1))),
    shaped("take:delete_axis", lambda x: np.delete(x, [0, -1], axis=-1), MATRIX, CUBE),
    shaped("take:delete_slice", lambda x: np.delete(x, slice(0, 1), 0), MATRIX),
    # -- splitting
    shaped("getitem:split", lambda x: np.split(x, 2), (4,), (4, 3), torch=lambda x: torch.tensor_split(x, 2),
           errors=refuses(ValueError, U)),
    shaped("getitem:split_at", lambda x: np.split(x, [1, 2], axis=-1), MATRIX, VECTOR, torch=lambda x: torch.tensor_split(x, [1, 2], -1)),
    shaped("getitem:array_split", lambda x: np.array_split(x, 3, axis=1), (2, 5), (0, 3), (1, 2),
           torch=lambda x: torch.tensor_split(x, 3, 1)),
    shaped("getitem:hsplit", lambda x: np.hsplit(x, 2), (4,), (2, 4), torch=lambda x: torch.hsplit(x, 2),
           errors=refuses(ValueError, np.array(1.0))),
    shaped("getitem:vsplit", lambda x: np.vsplit(x, [1]), MATRIX, torch=lambda x: torch.vsplit(x, [1]), errors=refuses(ValueError, U)),
    shaped("getitem:dsplit", lambda x: np.dsplit(x, 2), CUBE, torch=lambda x: torch.dsplit(x, 2), errors=refuses(ValueError, A)),
    *([shaped("getitem:unstack", np.unstack, VECTOR, MATRIX, (0, 3), torch=torch.unbind, errors=refuses(ValueError, np.array(1.0))),
       shaped("getitem:unstack_axis", lambda x: np.unstack(x, axis=-1), CUBE)] if hasattr(np, "unstack") else []),
    # -- counts and axes that are traced are guarded
    Case("repeat:traced_count", lambda x, n: np.repeat(x, n, axis=0), [(A, 2)]),
    Case("take:repeat_traced_counts", lambda x, n: np.repeat(x, n, axis=0), [(A, np.array([2, 1]))]),
    Case("roll:traced_shift", lambda x, n: np.roll(x, n), [(A, 2)]),
    Case("reshape:traced_shape", lambda x, n: x.reshape((n, -1)), [(A, 3)]),
    # -- what shape it is
    shaped("multiply:shape", lambda x: x * (np.shape(x) + (1,))[0] + np.ndim(x) + np.size(x), VECTOR, MATRIX, ()),
    Case("multiply:shape_number", lambda x: x * (np.ndim(x) + np.size(x) + len(np.shape(x))), [(1.5,)]),
    shaped("multiply:size", lambda x: x * np.size(x, 1), MATRIX),
    # -- creation
    *[shaped(f"multiply:{fn.__name__}", lambda x, fn=fn: x + fn(x), VECTOR, MATRIX, (), (0, 3)) for fn in (np.zeros_like, np.ones_like)],
    Case("multiply:zeros_like_number", lambda x: np.zeros_like(x) + x, [(1.5,)]),
    Case("multiply:ones_like_int", lambda x, n: x * np.ones_like(n, dtype=float), [(A, 3)]),
    Case("multiply:empty_like", lambda x: x * (np.empty_like(x, shape=(2, 1)).shape == (2, 1)), [(U,)]),
    Case("broadcast_to:full_like", lambda x, v: np.full_like(x, v) * x,
         [(A, 1.5), (np.arange(3), 1.5), (A, U), (A, np.array(1.5)), (1.5, 2.5)], errors=[((A, np.ones(4)), ValueError)]),
    Case("broadcast_to:full_like_plain", lambda x: np.full_like(x, 3.5) * x, [(A,), (1.5,)]),
    Case("broadcast_to:full_like_shape", lambda x, v: np.full_like(x, v, shape=(2, 2), dtype=float), [(A, 1.5)]),
    Case("broadcast_to:meshgrid", lambda x, y: np.meshgrid(x, y), [(U, draw(2)), (1.5, U)]),
    Case("broadcast_to:meshgrid_ij", lambda *xs: np.meshgrid(*xs, indexing="ij"), [(U, draw(2)), (U, draw(2), draw(2, seed=7))],
         torch=lambda *xs: torch.meshgrid(*xs, indexing="ij")),
    Case("broadcast_to:meshgrid_sparse", lambda *xs: np.meshgrid(*xs, sparse=True), [(U, draw(2)), (U,)]),
    Case("where:linspace", lambda a, b: np.linspace(a, b, 5), [(1.5, 2.5), (U, W), (1.5, U), (ZERO_D, 1.5), (1, 2.5)],
         errors=[((A, np.ones(4)), ValueError)]),
    Case("where:linspace_open", lambda a, b: np.linspace(a, b, 4, endpoint=False, axis=-1), [(U, W), (A, 0.5)]),
    Case("where:linspace_one", lambda a, b: np.linspace(a, b, 1), [(1.5, 2.5)]),
    Case("where:linspace_step", lambda a, b: np.linspace(a, b, 3, retstep=True), [(U, W)]),
    Case("where:linspace_int", lambda a, b: a * np.linspace(a, b, 3, dtype=int), [(1.6, 7.8)]),
    Case("pow:logspace", lambda a, b: np.logspace(a, b, 4), [(0.5, 1.0), (draw(3, low=0.1, high=1.0), 1.5)]),
    Case("pow:logspace_base", lambda a, b, c: np.logspace(a, b, 3, base=c), [(0.5, 1.0, 2.0), (0.5, 1.0, draw(3, low=1.0, high=2.0))]),
]
