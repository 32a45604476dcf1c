"""Tangents that ops have of their own, against their pullbacks transposed, at any order and on tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch

import tapegrad as tg
from tapegrad.numbers.cotangents import Absorbing
from tapegrad.rules.op import OPS
from tapegrad.transforms.tangents import tangent
from tapegrad.transforms.transpose import transposed

RNG = np.random.default_rng(0)
SQUARE, OTHER, STACK = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(2, 3, 3))
TALL, WIDE, TALLS = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 5)), RNG.normal(size=(2, 5, 3))
TIES = np.array([[1.0, 2.0, 2.0, 1.0, 3.0], [3.0, 3.0, 3.0, 0.0, 4.0]])
ZEROS = np.array([[0.0, 2.0, 0.0, 1.5], [1.0, -2.0, 0.5, 3.0]])
Z, ZTALL, ZWIDE = SQUARE + 1j * OTHER, TALL + 1j * RNG.normal(size=(5, 3)), WIDE + 1j * RNG.normal(size=(3, 5))

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *[("eigh", (x,), {"UPLO": side}) for x in (SQUARE, STACK, Z) for side in "LU"],
    *[("eigvalsh", (x,), {"UPLO": side}) for x in (SQUARE, STACK, Z) for side in "LU"],
    *[("eig", (x,), {}) for x in (SQUARE + SQUARE.T + 0.1 * OTHER, Z)],
    *[("svd", (x,), {"full_matrices": False}) for x in (SQUARE, STACK, TALL, WIDE, TALLS, Z, ZTALL, ZWIDE)],
    *[("svd", (x,), {"full_matrices": True}) for x in (SQUARE, STACK, TALL, WIDE, TALLS, Z, ZTALL, ZWIDE)],
    *[("svdvals", (x,), {}) for x in (SQUARE, STACK, TALL, WIDE, Z, ZTALL)],
    *[("qr", (x,), {"mode": mode}) for x in (SQUARE, STACK, TALL, WIDE, TALLS, Z, ZTALL, ZWIDE)
      for mode in ("reduced", "complete", "r")],
    *[("slogdet", (x,), {}) for x in (SQUARE, STACK, Z)],
    *[("pinv", (x,), {}) for x in (SQUARE, TALL, WIDE, TALLS, ZTALL, ZWIDE)],
    ("pinv", (SQUARE, 1e-12, True), {}), ("pinv", (Z, None, True), {}),
    *[("lstsq", (a, b), {}) for a, b in
      ((TALL, TALL[:, 0]), (TALL, TALL[:, :2]), (WIDE, WIDE[:, 0]), (ZTALL, ZTALL[:, 1]))],
    *[("lu_factor", (x,), {}) for x in (SQUARE, OTHER[:3, :3])],
    *[(name, (x / 3,), {}) for name in ("expm", "sinm", "coshm") for x in (SQUARE, Z)],
    *[("cumulative_prod", (x,), {"axis": axis, "include_initial": initial})
      for x in (ZEROS, Z, STACK) for axis in (0, -1) for initial in (False, True)],
    *[(name, (x,), {"axis": axis}) for name in ("cumulative_max", "cumulative_min")
      for x in (TIES, STACK) for axis in (0, -1)],
    *[(name, (x,), {"axis": axis, "keepdims": keepdims}) for name in ("max", "min", "prod", "logsumexp", "nanmax")
      for x in (TIES, ZEROS, STACK) for axis in (None, 0, -1, (0, 1)) for keepdims in (False, True)],
    *[("prod", (Z,), {"axis": 0}), ("prod", (ZEROS,), {"dtype": np.dtype(np.float32)})],
    *[("vector_norm", (x,), {"ord": order, "axis": axis, "keepdims": keepdims})
      for x in (ZEROS, np.zeros((2, 3)), Z, SQUARE[0]) for order in (1, 2, 3, 4, 0.5) for axis in (None, -1)
      for keepdims in (False, True) if (order == 2 or axis or x.ndim == 1) and (x.all() or order != 0.5)],
]
IDS = [f"{name}-{k}" for k, (name, _, _) in enumerate(CASES)]


def directions(args: tuple[Any, ...], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for x in args:
        if not isinstance(x, np.ndarray):
            found.append(None)
            continue
        t = rng.normal(size=x.shape)
        found.append(t + 1j * rng.normal(size=x.shape) if np.iscomplexobj(x) else t)
    return found


def close(found: Any, expected: Any, rtol: float = 1e-8) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            close(one, other, rtol)
        return
    if expected is None or isinstance(expected, Absorbing) or found is None or isinstance(found, Absorbing):
        for part in (found, expected):
            assert part is None or isinstance(part, Absorbing) or not np.any(part)
        return
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol, rtol)


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=IDS)
def test_it_is_the_pullback_transposed(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    op = OPS[name]
    assert callable(op.tangent)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        y = op.run(*args, **kwargs)
        for only in (None, *range(len(args))):
            ts = [t if only in (None, i) else None for i, t in enumerate(directions(args, 1))]
            if all(t is None for t in ts):
                continue
            expected = transposed(op.pullback(y, args, kwargs), y, ts)
            found = tangent(op, y, args, kwargs, ts)
            close(found, expected)
            tensors = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
            if name in ("eig", "svd", "eigh", "lu_factor") or name == "qr":
                continue  # torch may choose other signs
            by_tensors = op.run(*tensors, **kwargs)
            there = tangent(op, by_tensors, tensors, kwargs, [None if t is None else torch.tensor(t) for t in ts])
            close(there, expected)


DETERMINED: dict[str, tuple[Any, Any]] = {
    "eigh": (lambda a: (lambda w, v: (abs(v[:, 0]) ** 2 * np.sin(w)).sum())(*np.linalg.eigh(a + a.T)), SQUARE),
    "eigvalsh": (lambda a: (np.linalg.eigvalsh(a) ** 3).sum(), SQUARE + SQUARE.T),
    "eig": (lambda a: (lambda w, v: (abs(v[0]) ** 2 * abs(w)).sum())(*np.linalg.eig(a)),
            SQUARE + SQUARE.T + 0.1 * OTHER),
    "svd": (lambda a: (lambda u, s, vh: ((u * np.sin(s)) @ vh)[0].sum() + (u[:, 0] ** 2)[1])(
        *np.linalg.svd(a, full_matrices=False)), TALL),
    "svd, full": (lambda a: (lambda u, s, vh: (u[:, :3] @ u[:, :3].T)[0].sum() + s[0])(*np.linalg.svd(a)), TALL),
    "svdvals": (lambda a: np.sin(np.linalg.svd(a, compute_uv=False)).sum(), WIDE),
    "qr": (lambda a: (lambda q, r: np.sin(q).sum() + (r ** 2 * abs(r)).sum())(*np.linalg.qr(a)), TALL),
    "wide": (lambda a: (lambda q, r: np.sin(q).sum() + (r ** 2 * abs(r)).sum())(*np.linalg.qr(a)), WIDE),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1] ** 2, SQUARE),
    "pinv": (lambda a: np.sin(np.linalg.pinv(a)).sum(), TALL),
    "lstsq": (lambda a: (lambda x, r, rank, s: np.sin(x).sum() + r[0] ** 2 + s[0])(
        *np.linalg.lstsq(a, TALL[:, :1] ** 2)), TALL),
    "lu": (lambda a: sum(np.sin(x).sum() for x in scipy.linalg.lu(a)[1:]), SQUARE),
    "expm": (lambda a: np.sin(scipy.linalg.expm(a)).sum(), SQUARE / 3),
    "cumprod": (lambda x: np.sin(np.cumprod(x, 0)).sum(), ZEROS),
    "cummax": (lambda x: np.sin(np.maximum.accumulate(x ** 2, 1)).sum(), STACK[0]),
    "prod": (lambda x: np.sin(np.prod(x, 0)).sum(), ZEROS),
    "norm": (lambda x: np.sin(np.linalg.norm(x, 3, axis=0)).sum() + np.linalg.norm(x, axis=1)[0] ** 3, TALL),
    "spectral": (lambda x: np.linalg.norm(x, 2) ** 2 + np.linalg.norm(x, "nuc") ** 2, TALL),
    "logsumexp": (lambda x: np.sin(np.logaddexp.reduce(x, 0)).sum(), TALL),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", list(DETERMINED))
def test_orders_agree(name: str) -> None:
    f, x = DETERMINED[name]
    u, v = RNG.normal(size=x.shape), RNG.normal(size=x.shape)
    gradient = tg.gradient(f, x)[0]
    h = 1e-6
    assert np.isclose(tg.jvp(f, (x,), (u,))[1], (gradient * u).sum(), 1e-9, 1e-10)
    assert np.isclose((f(x + h * u) - f(x - h * u)) / (2 * h), (gradient * u).sum(), 1e-5, 1e-6)
    along = tg.jvp(lambda x: tg.jvp(f, (x,), (u,))[1], (x,), (v,))[1]
    numeric = ((tg.gradient(f, x + h * v)[0] - tg.gradient(f, x - h * v)[0]) / (2 * h) * u).sum()
    assert np.isclose(along, numeric, 1e-4, 1e-5)
    assert np.isclose((tg.gradient(lambda x: tg.jvp(f, (x,), (u,))[1], x)[0] * v).sum(), along, 1e-7, 1e-8)
    assert np.isclose((tg.hvp(f)(x, v) * u).sum(), along, 1e-7, 1e-8)
    twice = tg.jvp(lambda x: tg.jvp(f, (x,), (u,))[1], (x,), (u,))[1]
    assert np.isclose(tg.taylor(f, x, 2, u)[2] * 2, twice, 1e-7, 1e-8)
    forward = tg.forwardtape(f, x)
    assert np.isclose(forward.play(x, u)[1], (gradient * u).sum(), 1e-9, 1e-10)
    rows = np.stack([x, x + 0.1 * u])
    batched = tg.vmap(lambda x: tg.jvp(f, (x,), (u,))[1])(rows)
    np.testing.assert_allclose(batched, [tg.jvp(f, (row,), (u,))[1] for row in rows], 1e-8)
    single = tg.jvp(f, (x.astype(np.float32),), (u.astype(np.float32),))[1]
    assert np.isclose(single, (gradient * u).sum(), 2e-2, 2e-2)


def test_what_equal_values_leave_free_is_nan_and_their_sum_is_not() -> None:
    a, t = np.diag([1.0, 2.0, 2.0]), RNG.normal(size=(3, 3))
    w, v = tg.jvp(np.linalg.eigh, (a,), (t + t.T,))[1]
    assert np.isfinite(w).all()
    assert np.isnan(v).any()
    assert np.isclose(tg.jvp(lambda a: np.linalg.eigh(a)[0].sum(), (a,), (t + t.T,))[1], np.trace(t + t.T))
    assert np.isclose(tg.jvp(lambda a: np.linalg.svd(a)[1].sum(), (a,), (t,))[1], np.trace(t))
